"""Everything about one call, for the panel that a click opens."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from weft import sources
from weft.findings import Finding
from weft.match import NONE, Match
from weft.terms import calls
from weft.terms.call_text import call_text, error_text, value_json, value_text
from weft.terms.describe import function_word, task_suffix
from weft.trace import CallSite, Event, Flag
from weft.trace.communicators import format_members
from weft.view.message_details import call_bytes

AROUND: Final = 14
"""Lines of source shown before and after the call's."""

MAX_VALUES: Final = 256
MAX_CALLERS: Final = 20


def call_facts(event: Event, match: Match | None, findings: Sequence[Finding]) -> dict[str, object]:
    """Return the facts of a call that the page shows: arguments, results, partners, call site, source lines, and the
    numbers of its findings.
    """
    comm, status = event.comm, event.status
    exit_ns = event.exit_ns
    facts: dict[str, Any] = {
        "rank": event.rank.index, "event": event.index, "thread": event.thread.slot,
        "function": event.function.name, "text": call_text(event), "open": event.open, "error": event.error,
        "error_text": error_text(event.rank.trace.system, event.error),
        "enter_ns": event.enter_ns, "exit_ns": exit_ns,
        "duration_ns": None if exit_ns is None else exit_ns - event.enter_ns,
        "args": _arguments_to_json(event), "polls": event.polls, "calls": event.calls, "state": event.rank.state,
        "status": None if status is None else {"source": status.source, "tag": status.tag, "bytes": status.count},
        "cancelled": bool(event.flags & Flag.CANCELLED), "buffer_changed": bool(event.flags & Flag.BUFFER_CHANGED),
        "task": task_suffix(event).strip() or None, "tip": tooltip_facts(event),
        "damage": event.damage, "site": _site_to_json(event.site), "source": source_panel(event),
        "replay": f"weft replay {shlex.quote(str(event.rank.trace.path))} --until {event.rank.index}:{event.index}",
        "partners": find_message_partners(event, match) if match else None,
        "findings": [n for n, f in enumerate(findings) if event.id in f.events],
        "count": len(event.rank.events),
    }  # fmt: skip
    if comm is not None:
        facts["comm"] = {
            "name": comm.name, "label": comm.label, "size": len(comm.members),
            "my_rank": comm.rank_of(event.rank.index), "members": format_members(comm.members, 400),
            "made_by": comm.function or None,
        }  # fmt: skip
        if comm.inter:
            facts["comm"]["remote_members"] = format_members(comm.remote_members, 400)
    if event.datatype_id and event.datatype is not None:
        made = event.datatype
        signature = made.signature()
        facts["datatype"] = {"name": made.name, "size": made.size, "extent": made.extent, "combiner": made.combiner,
                             "signature": signature and [list(run) for run in signature[:32]]}  # fmt: skip
    return facts


def tooltip_facts(event: Event) -> dict[str, object]:
    """Return the facts in the tooltip of a call: its text, peer, tag, bytes and call site."""
    return {"text": call_text(event), "bytes": call_bytes(event), "site": event.site.text, "tag": _tag(event),
            "peer": _peer_text(event), "method": _method_around(event)}  # fmt: skip


def _method_around(event: Event) -> str | None:
    """Return the method of mpi4py that made a call for its own purposes; None if the program itself made the call."""
    word = function_word(event)
    return None if word == calls.message_name(event.function.called) else word


def _peer_text(event: Event) -> str | None:
    """Return `from any, got 2`, `to 3` or `root 0`; None for a call without a peer."""
    function = event.function
    named = function.slot.get("peer")
    if named is None or named.handle:
        return None
    word = {"dest": "to", "source": "from", "root": "root", "target_rank": "target"}.get(named.name, named.name)
    asked = value_text(event, named.name, event.args.get(named.name))
    got = f", got {event.status.source}" if asked == "any" and event.status else ""
    return f"{word} {asked}{got}"


def _tag(event: Event) -> int | None:
    named = event.function.slot.get("tag")
    return None if named is None or named.handle or event.tag < 0 else event.tag


def _arguments_to_json(event: Event) -> list[dict[str, Any]]:
    """Return the arguments of a call. Each is a dict with its name, its text for people, and its value."""
    found = []
    for name, value in event.args.items():
        parameter = event.function.parameters_by_name[name.removesuffix(":out")]
        shown = value[:MAX_VALUES] if isinstance(value, list) else value
        found.append({
            "name": name, "text": value_text(event, name, value), "value": value_json(event, name, shown),
            "out": parameter.direction == "out" or name.endswith(":out"),
            "values": len(value) if isinstance(value, list) else None,
        })  # fmt: skip
    return found


def _site_to_json(site: CallSite) -> dict[str, Any]:
    """Return a call site and its callers as JSON values."""
    return {
        "text": site.text, "file": site.file, "line": site.line, "function": site.function, "module": site.module,
        "offset": site.offset,
        "callers": [{"text": c.text, "file": c.file, "line": c.line, "function": c.function}
                    for c in site.callers[:MAX_CALLERS]],
    }  # fmt: skip


def source_panel(event: Event) -> dict[str, Any] | None:
    """Return the source lines around the place of a call; None if they are not known."""
    site = event.site
    if not site.file or not site.line:
        return None
    of = sources.sources_of(event.rank.trace)
    panel = of.excerpt_json(site.file, site.line, around=AROUND)
    return panel and {**panel, "note": of.note([site.file])}


def find_message_partners(event: Event, match: Match) -> list[dict[str, object]]:
    """Return the calls at the other ends of the messages that a call starts or completes; at most 64."""
    found: list[dict[str, Any]] = []
    found += [
        _partner_to_json(match, "sends to", int(match.sends.partner[i]), sends=False) for i in match.sends_of(event.id)
    ]
    found += [_partner_to_json(match, "receives from", int(match.recvs.partner[i]), sends=True)
              for i in match.receives_of(event.id)]  # fmt: skip
    found += _find_completed_messages(event, match)
    return found[:64]


def _partner_to_json(match: Match, relation: str, row: int, *, sends: bool) -> dict[str, object]:
    """Return the partner of a send or receive as JSON values. The key `event` is None if there is no partner.
    `relation`: how the partner relates to the call; `row`: the row of the send or receive in the match.
    """
    if row == NONE:
        return {"what": relation, "event": None}
    other = match.trace.event(*(match.sends if sends else match.recvs).id(row))
    return {"what": relation, "event": list(other.id), "text": call_text(other), "site": other.site.text}


def _find_completed_messages(event: Event, match: Match) -> list[dict[str, Any]]:
    """Return the partners of messages that this call completed and another call started."""
    found = []
    for what, mine, sends in (("got the message of", match.recvs, True), ("completed the send to", match.sends, False)):
        part = mine.of_rank(event.rank.index)
        rows = part.start + np.flatnonzero((mine.completion[part] == event.index) & (mine.event[part] != event.index))
        found += [_partner_to_json(match, what, int(mine.partner[row]), sends=sends) for row in rows[:32]]
    return found
