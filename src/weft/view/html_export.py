"""Export the view as one HTML file: the page's own modules, and as much of the run as a mail can hold.

A small run is exported with all calls. Of a large one the file has the columns of the whole run at one level of detail,
and all calls of the intervals that matter: around each finding, and at the end.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.picture.classes import CLASSES
from weft.view.assets import load_assets, load_page, module_names
from weft.view.links import Links
from weft.view.run_view import RunView
from weft.view.window import pack_arrays

MAX_CALLS: Final = 60_000
MAX_DETAILS: Final = 3_000
MAX_DETAIL_BYTES: Final = 12_000_000
MAX_LINKS: Final = 4_000
MAX_SHADES: Final = 64
SHARES: Final = 4_000_000
"""Bytes of the columns of the whole run."""

LAST_CALLS: Final = 6
"""Calls at the end of each rank whose details are in the file."""

Window = tuple[int, int]


def render_html(picture: RunView) -> bytes:
    """Return a self-contained HTML file that shows a run. Its analysis must be done. WeftError if the run could not be
    matched.
    """
    if picture.links is None:
        raise WeftError(
            picture.failure or "the messages of the run could not be matched, so there is no picture: see `weft report`"
        )
    data = base64.b64encode(gzip.compress(_ExportData(picture, picture.links).pack(), 9, mtime=0)).decode()
    imports = {f"weft/{name}": _module_url(load_assets()[name]) for name in module_names()}
    text = json.dumps({"imports": imports})
    start = 'import "weft/main.js";'
    policy = (
        f"default-src 'none'; script-src '{_csp_hash(text)}' '{_csp_hash(start)}' data:; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<style>{load_assets()["style.css"].decode()}</style>\n<script type="importmap">{text}</script>\n'
        f'<script type="application/octet-stream" id="weft-data">{data}</script>\n'
        f'<script type="module">{start}</script>'
    )
    return load_page().replace("{{head}}", head).encode(errors="backslashreplace")


def _module_url(module: bytes) -> str:
    return "data:text/javascript;base64," + base64.b64encode(module).decode()


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode(errors="backslashreplace")).digest()).decode()


class _ExportData:
    """Collect what the file holds, in forms that are valid for every axis: calls by rank and index, not by position."""

    def __init__(self, picture: RunView, links: Links) -> None:
        self.picture, self.links = picture, links
        self.timeline = picture.axis_by_name("time").timeline
        self.whole = picture.trace.event_count <= MAX_CALLS
        self.windows = [] if self.whole else self._choose_windows()
        self.ranges = self._exported_ranges()
        self.sources: dict[str, Any] = {}
        """By file and line what is shown of the source, once for all calls there."""

    def pack(self) -> bytes:
        """Return all exported data as bytes: a head as JSON, then arrays."""
        names = ["time", "folded", "logical"] if self.whole else ["time", "folded"]
        messages, bands = self._collect_links()
        head = {
            "run": self.picture.run_facts(),
            "axes": {name: self.picture.axis_facts(name) for name in names},
            "findings": {name: self.picture.list_findings(name) for name in names},
            "tables": self.picture.tables("time"),
            "whole": self.whole,
            "windows": self.windows,
            "row_first": self._row_offsets(),
            "messages": messages,
            "bands": bands,
            "message_facts": self._collect_message_facts(messages),
            "details": self._collect_details(),
            "sources": self.sources,
            "shades": self._collect_frontiers(),
        }
        return pack_arrays(head, {**self._call_arrays(), **self._whole_run_columns()})

    # Calls

    def _choose_windows(self) -> list[Window]:
        """Return intervals of time (start ns, end ns) of which all calls are exported. Intervals around findings come
        first, the worst finding first, then intervals at the end of the run, as long as the calls are not too many.
        """
        found: list[Window] = []
        left = MAX_CALLS
        for start, end in [*self._finding_windows(), *self._last_windows()]:
            first, last = self.timeline.events_between(start, end)
            count = int((last - first).sum())
            if count <= left:
                found.append((start, end))
                left -= count
        return found

    def _finding_windows(self) -> Iterable[Window]:
        """Yield an interval of time around each of the first 12 findings, as (start ns, end ns)."""
        for finding in self.picture.list_findings("time")["findings"][:12]:
            if finding["window"]:
                start, end = finding["window"]
                wide = (end - start) * 0.5
                yield int(start - wide), int(end + wide)

    def _last_windows(self) -> Iterable[Window]:
        """Yield intervals (start ns, end ns) that end with the run, each half as long as the one before."""
        last = self.timeline.last
        for part in range(1, 24):
            yield last - (last >> part), last

    def _exported_ranges(self) -> list[list[tuple[int, int]]]:
        """Return, for each row of the picture (a thread), the calls that the file contains, as ranges [first, end) of
        event indices.
        """
        if self.whole:
            return [[(0, len(row.events))] for row in self.picture.rows]
        ranges: list[list[tuple[int, int]]] = [[] for _ in self.picture.rows]
        for start, end in self.windows:
            first, last = self.timeline.events_between(start, end)
            for row, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
                ranges[row].append((int(a), int(b)))
        return [_merge_ranges(found) for found in ranges]

    def _row_offsets(self) -> list[int]:
        counts = [sum(b - a for a, b in found) for found in self.ranges]
        return [0, *np.cumsum(counts).tolist()]

    def _call_arrays(self) -> dict[str, NDArray[Any]]:
        """Return one array for each fact of the exported calls, by name: start, end, event, function, class, flags,
        peer and tag.
        """
        rows = self.picture.rows
        boxes, logical, slots, events = [], [], [], []
        steps = self.picture.axis_by_name("logical") if self.whole else None
        for row, found in enumerate(self.ranges):
            for a, b in found:
                boxes.append(self.timeline.event_boxes(row, a, b))
                slots.append(rows[row].events[a:b])
                events.append(rows[row].event_indices(np.arange(a, b)))
                if steps:
                    logical.append(steps.timeline.event_boxes(row, a, b))
        box, slot = np.concatenate(boxes), np.concatenate(slots)
        arrays: dict[str, NDArray[np.generic]] = {
            "start": box["start"].astype(np.float64), "end": box["end"].astype(np.float64),
            "event": np.concatenate(events).astype(np.uint32), "function": box["function"], "class": box["class"],
            "flags": box["flags"], "peer": slot["peer"], "tag": slot["tag"],
        }  # fmt: skip
        if steps:
            step = np.concatenate(logical)
            arrays |= {"step_start": steps.positions(step["start"]), "step_end": steps.positions(step["end"])}
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def _whole_run_columns(self) -> dict[str, NDArray[Any]]:
        """Return, for each row of the picture, which classes of calls fill the run's time, column by column, on the
        axes "time" and "folded". Empty if all calls are exported.
        """
        if self.whole:
            return {}
        rows = len(self.picture.rows)
        columns = max(64, min(4096, SHARES // (rows * len(CLASSES))))
        found = {}
        for name in ("time", "folded"):
            scale = self.picture.axis_by_name(name)
            lanes = [[row] for row in range(rows)]
            found[f"shares_{name}"] = self.timeline.class_shares(lanes, scale.column_edges(0, scale.end, columns))
        return found

    # Links and details

    def _collect_links(self) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        """Return (messages, collectives) of the exported intervals. They name events instead of positions, which differ
        from axis to axis.
        """
        scale = self.picture.axis_by_name("time")
        spans: Sequence[Window] = self.windows or [(-1, self.timeline.last + 1)]
        messages: dict[str, dict[str, Any]] = {}
        bands: dict[int, dict[str, Any]] = {}
        for start, end in spans:
            found = self.links.links_in_window(scale, start, end, most_messages=MAX_LINKS)
            for message in found["messages"]:
                kept = {key: value for key, value in message.items() if key not in ("from", "to", "end")}
                messages.setdefault(json.dumps([kept.get("send"), kept.get("receive"), kept.get("event")]), kept)
            bands.update({band["instance"]: band for band in found["bands"]})
        kept_bands = [{**band, "parts": [[row, event, *ended] for row, _, _, event, *ended in band["parts"]]}
                      for band in list(bands.values())[:MAX_LINKS]]  # fmt: skip
        return list(messages.values())[:MAX_LINKS], kept_bands

    def _collect_details(self) -> dict[str, Any]:
        """Return the facts of the most important calls, by "rank:event", as many as fit. Positions on an axis are left
        out.
        """
        found: dict[str, Any] = {}
        size = 0
        for rank, event in self._calls_by_importance():
            if f"{rank}:{event}" in found:
                continue
            facts = self.picture.event_facts(rank, event)
            facts["source"] = self._store_source(facts["source"])
            size += len(json.dumps(facts, default=str))
            if len(found) >= MAX_DETAILS or size > MAX_DETAIL_BYTES:
                break
            found[f"{rank}:{event}"] = facts
        return found

    def _store_source(self, source: dict[str, object] | None) -> str | None:
        """Store the source lines around a call, and return their name `file:line`. Calls at the same line share them.
        None if there are none.
        """
        if source is None:
            return None
        name = f"{source['file']}:{source['line']}"
        self.sources.setdefault(name, {key: source[key] for key in source if key != "lines"})
        return name

    def _collect_message_facts(self, messages: Sequence[dict[str, Any]]) -> dict[str, object]:
        """Return the facts of messages, by "send:row" or "receive:row". If there are too many, unmatched messages come
        first, and then messages for which a rank waited.
        """
        found: dict[str, Any] = {}
        for one in sorted(messages, key=lambda m: (m.get("kind") is None, -m.get("ns", 0)))[:MAX_DETAILS]:
            side = "receive" if one.get("kind") == "unmatched-receive" else "send"
            found[f"{side}:{one['row']}"] = self.picture.message_facts(side, one["row"])
        return found

    def _calls_by_importance(self) -> Iterable[tuple[int, int]]:
        """Yield calls as (rank, event): first the calls of findings, then the last calls of each rank, then all others,
        latest first. A call may come more than once.
        """
        findings = self.picture.report.findings if self.picture.report else ()
        for finding in findings:
            yield from finding.events[:MAX_SHADES]
        for rank in self.picture.trace.ranks:
            yield from ((rank.index, k) for k in range(max(0, len(rank.events) - LAST_CALLS), len(rank.events)))
        for row, found in zip(self.picture.rows, self.ranges, strict=True):
            for a, b in reversed(found):
                yield from ((row.rank.index, row.event_index(k)) for k in range(b - 1, a - 1, -1))

    def _collect_frontiers(self) -> dict[str, object]:
        """Return the causal past and future of the findings' calls, by call. For each row of the picture it is a pair
        (event, whether its end is meant), or None.
        """
        findings = self.picture.report.findings if self.picture.report else ()
        events = [event for finding in findings for event in finding.events[:8]][:MAX_SHADES]
        return {str(event): self.picture.frontier_events(event) for event in dict.fromkeys(events)}


def _merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges [first, end) in which ranges that touch or overlap are merged."""
    found: list[tuple[int, int]] = []
    for a, b in sorted(r for r in ranges if r[1] > r[0]):
        if found and a <= found[-1][1]:
            found[-1] = found[-1][0], max(b, found[-1][1])
        else:
            found.append((a, b))
    return found
