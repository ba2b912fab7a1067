"""Render a comparison: lines for people, and JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from weft.base.event_id import EventId
from weft.base.words import listed, plural, rank_words
from weft.compare.differences import Comparison, Difference
from weft.compare.times import MAX_PLACES, SlowerPlace, elapsed_ns
from weft.findings import Finding
from weft.match import NONE, Match
from weft.terms.event_findings import call_at
from weft.trace import Event, Trace

SCHEMA: Final = "weft-compare/1"
NAMED: Final = 3
"""Findings, and ranks that follow, that are named."""
_SILENT: Final = frozenset(["status", "statuses", "array_of_statuses", "comm", "request", "array_of_requests", "win"])
"""Arguments that are not told: results, and handles, whose numbers are Weft's."""


def render_comparison(
    comparison: Comparison, slower_places: Sequence[SlowerPlace], findings: tuple[list[Finding], list[Finding]], *,
    with_calls: bool = True,
) -> list[str]:  # fmt: skip
    """Return report lines on what differs between two runs, the most important first. `with_calls`: include the calls
    of each rank, and where the run is slower.
    """
    found = list(render_commands(*(side.trace.run.get("command") for side in (comparison.before, comparison.after))))
    if with_calls:
        found += [*_render_rank_counts(comparison), *_render_calls(comparison)]
    found += [
        *_end_lines(comparison),
        *render_changed_findings(*findings, distinguish_ranks=_has_same_rank_count(comparison)),
    ]
    return found + list(_render_times(comparison, slower_places if with_calls else ()))


def errors_and_warnings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are errors or warnings; notes on waiting times differ from run to run."""
    return [finding for finding in findings if finding.severity != "note"]


def _has_same_rank_count(comparison: Comparison) -> bool:
    return len(comparison.before.trace.ranks) == len(comparison.after.trace.ranks)


def _render_rank_counts(comparison: Comparison) -> Iterator[str]:
    """Yield a line if the runs have different numbers of ranks."""
    before, after = comparison.before.trace, comparison.after.trace
    if not _has_same_rank_count(comparison):
        both = min(len(before.ranks), len(after.ranks))
        yield (
            f"the reference has {plural(len(before.ranks), 'rank')} and the run {len(after.ranks)}: "
            f"{rank_words(range(both))} are compared"
        )


def render_commands(before: object, after: object) -> Iterator[str]:
    """Yield a line if two runs were started with different commands. Each command is a list of words, as in
    run.json.
    """
    one, two = (" ".join(map(str, words)) if isinstance(words, list) else "?" for words in (before, after))
    if one != two:
        yield f"the command of the reference is `{one}`, that of the run `{two}`"


def _render_calls(comparison: Comparison) -> Iterator[str]:
    """Yield report lines on the calls: the first differences, their consequences, and the totals."""
    if comparison.alike:
        yield f"all {comparison.compared:,} calls are alike, and every receive takes the same message"
        return
    if not comparison.compared:
        yield "no call is the same in both: these are runs of different programs"
    yield from render_first_differences(comparison)
    if comparison.following:
        some = [f"{rank_words([d.rank])} (after {plural(d.alike, 'call')})" for d in comparison.following[:NAMED]]
        rest = len(comparison.following) - NAMED
        some += [plural(rest, "more rank")] if rest > 0 else []
        yield f"later, and perhaps because of it: {listed(some)}"
    ranks = [rank for rank in comparison.missing if comparison.missing[rank] or comparison.added[rank]]
    if ranks:
        missing, added = (sum(side[rank] for rank in ranks) for side in (comparison.missing, comparison.added))
        yield (
            f"in all, {comparison.compared:,} calls are alike; {missing:,} of the reference are missing in the run, "
            f"{added:,} are only in the run ({rank_words(ranks)})"
        )


def render_first_differences(comparison: Comparison) -> Iterator[str]:
    """Yield report lines on the first differences: the ranks, and the call of each run. If both calls have the same
    text, the arguments or messages in which they differ are added.

    Ranks that differ in the same way are reported together.
    """
    groups: dict[tuple[str, str], list[Difference]] = {}
    for one in comparison.first:
        reference, run = _describe_call(comparison.before, one.before), _describe_call(comparison.after, one.after)
        if one.before and one.after and reference == run:
            texts = [
                *_describe_changed_arguments(comparison, one.before, one.after),
                *_describe_changed_envelope(comparison, one.before, one.after),
            ]
            run += f": {listed(texts)}" if texts else ""
        groups.setdefault((reference, run), []).append(one)
    for number, ((reference, run), some) in enumerate(groups.items()):
        alike = {one.alike for one in some}
        where = plural(min(alike), "equal call") if len(alike) == 1 else "different numbers of calls"
        heading = "and independently" if number else "first difference"
        yield f"{heading}: {rank_words(d.rank for d in some)}, after {where}"
        yield f"    reference  {_event_text(some, 'before')}{reference}"
        yield f"    run        {_event_text(some, 'after')}{run}"


def _event_text(some: Sequence[Difference], side: Literal["before", "after"]) -> str:
    event = some[0].before if side == "before" else some[0].after
    return f"event {event[1]}, " if len(some) == 1 and event is not None else ""


def _describe_call(match: Match, event: EventId | None) -> str:
    """Return a call as text, with the message that it takes, and a note if it does not return. For None, say that there
    is no further call, and how the run ended.
    """
    if event is None:
        ended = match.trace.run.get("ended")
        return "no further call" + ("" if ended in (None, "finished") else f" ({ENDED.get(str(ended), str(ended))})")
    one = match.trace.event(*event)
    return call_at(one) + _describe_taken_message(match, event) + (", which does not return" if one.open else "")


def _describe_taken_message(match: Match, event: EventId) -> str:
    """Return the words `, which takes the message of rank …` for a receive; "" if it took none."""
    rows = match.receives_of(event)
    if not rows or match.recvs.partner[rows[0]] == NONE:
        return ""
    send = match.sends.id(int(match.recvs.partner[rows[0]]))
    return f", which takes the message of rank {send[0]}: {call_at(match.trace.event(*send))}"


def _describe_changed_arguments(comparison: Comparison, before: EventId, after: EventId) -> Iterator[str]:
    """Yield a text for each argument that differs between a call of the reference and one of the run, such as `count
    100, in the reference 99`.
    """
    one, two = comparison.before.trace.event(*before), comparison.after.trace.event(*after)
    given, now = one.args, two.args
    for name, parameter in two.function.parameters_by_name.items():
        if name in _SILENT or name not in given or name not in now or parameter.kind == "BUFFER":
            continue
        shown = [_argument_text(event, parameter.handle, values[name]) for event, values in ((one, given), (two, now))]
        if shown[0] != shown[1]:
            yield f"{name} {shown[1]}, in the reference {shown[0]}"
    if one.error != two.error:
        yield f"error class {two.error}, in the reference {one.error}"


def _describe_changed_envelope(comparison: Comparison, before: EventId, after: EventId) -> Iterator[str]:
    """Yield texts on what differs in two calls that have the same arguments: communicator, received messages, source,
    tag.
    """
    sides = (comparison.before, before), (comparison.after, after)
    one, two = (match.trace.event(*event) for match, event in sides)
    comms = [event.comm.name if event.comm else "none" for event in (one, two)]
    if comms[0] != comms[1]:
        yield f"communicator {comms[1]}, in the reference {comms[0]}"
    taken = [sorted(_describe_taken_messages(match, event)) for match, event in sides]
    if taken[0] != taken[1]:
        yield f"it takes {listed(taken[1]) or 'no message'}, in the reference {listed(taken[0]) or 'none'}"
    for name, values in (("peer", (one.peer, two.peer)), ("tag", (one.tag, two.tag))):
        if values[0] != values[1] and name not in two.function.slot:
            yield f"{name} {values[1]}, in the reference {values[0]}"


def _describe_taken_messages(match: Match, event: EventId) -> Iterator[str]:
    """Yield the sender and tag of each message that a call received, as text."""
    for row in match.receives_of(event):
        if (partner := int(match.recvs.partner[row])) != NONE:
            rank = match.sends.id(partner)[0]
            yield f"the message of rank {rank} (tag {int(match.sends.tag[partner])})"


def _argument_text(event: Event, handle: str | None, value: Any) -> str:
    if handle is None:
        return str(value)
    return event.rank.object_name(handle, int(value)) if isinstance(value, int) else "?"


ENDED: Final = {
    "finished": "it finished", "crashed": "it crashed", "deadlock": "it stopped in a deadlock",
    "killed": "it was killed", "interrupted": "it was interrupted", "running": "it is still running, or its record "
        "is cut off",
}  # fmt: skip


def _end_lines(comparison: Comparison) -> Iterator[str]:
    before, after = (_end_text(side.trace) for side in (comparison.before, comparison.after))
    if before != after:
        yield f"the reference: {before}; the run: {after}"


def _end_text(trace: Trace) -> str:
    text = ENDED.get(str(trace.run.get("ended")), "how it ended is not known")
    status = trace.run.get("exit_code")
    return text + (f" with status {status}" if status is not None else "")


def render_changed_findings(
    reference_findings: Sequence[Finding], run_findings: Sequence[Finding], *, distinguish_ranks: bool = True
) -> list[str]:
    """Return a line for each finding that only one of two runs has. `distinguish_ranks`: a finding that names other
    ranks is another finding.
    """
    found = []
    for verb, some in zip(
        ("appears", "vanishes"),
        _find_changed_findings(reference_findings, run_findings, distinguish_ranks=distinguish_ranks),
        strict=True,
    ):
        found += [f"{verb}: {finding.message} [{finding.kind}]" for finding in some[:NAMED]]
        found += [f"{verb}: {plural(len(some) - NAMED, 'more finding')}"] if len(some) > NAMED else []
    return found


def _find_changed_findings(
    reference_findings: Sequence[Finding], run_findings: Sequence[Finding], *, distinguish_ranks: bool
) -> tuple[list[Finding], list[Finding]]:
    """Return (the findings that only the run has, the findings that only the reference has). `distinguish_ranks`: a
    finding that names other ranks is another finding.
    """
    before, after = (
        {_finding_key(finding, ranks=distinguish_ranks): finding for finding in some}
        for some in (reference_findings, run_findings)
    )
    return [after[key] for key in after if key not in before], [before[key] for key in before if key not in after]


def _finding_key(finding: Finding, *, ranks: bool) -> tuple[object, ...]:
    """Return what makes findings of two runs the same: kind, ranks and places."""
    places = frozenset((s.call, s.file, s.line) for s in finding.sites)
    return finding.kind, frozenset(finding.ranks if ranks else ()), places


def _render_times(comparison: Comparison, slower_places: Sequence[SlowerPlace]) -> Iterator[str]:
    """Yield report lines on how long both runs took, and on the places that were slower."""
    before, after = elapsed_ns(comparison.before.trace), elapsed_ns(comparison.after.trace)
    more = f" ({(after - before) / before:+.0%})" if before else ""
    yield f"time: {after / 1e9:.3g} s, the reference {before / 1e9:.3g} s{more}"
    for place in [
        *[p for p in slower_places if not p.of_mpi][:MAX_PLACES],
        *[p for p in slower_places if p.of_mpi][:MAX_PLACES],
    ]:
        yield (
            f"    {place.more / 1e9:.3g} s longer on rank {place.rank}: {place.place} "
            f"({plural(place.times, 'time')}, {place.before / 1e9:.3g} s in the reference)"
        )


def to_json(
    comparison: Comparison, slower_places: Sequence[SlowerPlace], findings: tuple[list[Finding], list[Finding]]
) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    appear, vanish = _find_changed_findings(*findings, distinguish_ranks=_has_same_rank_count(comparison))
    return {
        "schema": SCHEMA,
        "reference": _run_to_json(comparison.before.trace),
        "run": _run_to_json(comparison.after.trace),
        "alike": comparison.alike,
        "calls": comparison.compared,
        "first": [_difference_to_json(comparison, one) for one in comparison.first],
        "following": [_difference_to_json(comparison, one) for one in comparison.following],
        "missing": {str(rank): count for rank, count in comparison.missing.items() if count},
        "added": {str(rank): count for rank, count in comparison.added.items() if count},
        "appeared": [finding.message for finding in appear],
        "vanished": [finding.message for finding in vanish],
        "slower": [
            {"rank": one.rank, "place": one.place, "mpi": one.of_mpi, "ns": one.more, "reference_ns": one.before,
             "times": one.times}
            for one in slower_places
        ],
    }  # fmt: skip


def _run_to_json(trace: Trace) -> dict[str, Any]:
    """Return a run as JSON values: its path, size, end and time."""
    return {
        "path": str(trace.path), "ranks": len(trace.ranks), "calls": trace.event_count, "ended": trace.run.get("ended"),
        "status": trace.run.get("exit_code"), "ns": elapsed_ns(trace),
    }  # fmt: skip


def _difference_to_json(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    """Return a difference as JSON values, with the call of each run."""
    return {
        "kind": difference.kind, "rank": difference.rank, "alike": difference.alike,
        "reference": _call_to_json(comparison.before, difference.before),
        "run": _call_to_json(comparison.after, difference.after),
    }  # fmt: skip


def _call_to_json(match: Match, event: EventId | None) -> dict[str, Any] | None:
    """Return a call as JSON values, None for no call."""
    if event is None:
        return None
    site = match.trace.event(*event).site
    return {"event": event[1], "text": _describe_call(match, event), "file": site.file or "", "line": site.line}
