"""Draw the last calls of a run as text, ranks in rows and time in columns, for people on a login node.

heat-1: 3 ranks, deadlock after 1.27 s

rank 0       send→1 #2   recv←1 #1        ┊ recv←1 #1 ⟩ heat.py:22, for 1 s, waits for rank 1 rank 1       recv←0 #2
...
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from weft.base.words import plural, printable, rank_words
from weft.deadlock import find
from weft.deadlock.blocked_ranks import Standstill
from weft.evidence import Deadlock
from weft.match import NONE
from weft.match import match_operations as match_of
from weft.mpi.meaning import base_name
from weft.picture.classes import CLASSES
from weft.picture.last_calls import CallStep, RankGroup, assign_columns, class_word, group_ranks
from weft.picture.options import DEPTH
from weft.terms import calls
from weft.terms.describe import function_word, pickled_collective, site_suffix
from weft.terms.rank_progress import describe_end, has_reached_finalize
from weft.terms.run_extent import run_extent
from weft.trace import Event, Flag, Level, Trace
from weft.trace.layout import ID_WORLD
from weft.trace.run import CUT_OFF, ENDED

MAX_GROUPS: Final = 32
_LABEL: Final = 24
_CELL: Final = 22
_NARROWEST: Final = 40
_SENDS: Final = calls.SENDS | calls.ISENDS | calls.SEND_INITS
_TAGGED: Final = ("send", "receive", "probe")
_TORN: Final = "╌╌⟩"


class StyledText(NamedTuple):
    """A piece of a line and its colour (an ANSI sequence, empty for none)."""

    text: str
    colour: str = ""


Line = list[StyledText]


def draw_text(trace: Trace, width: int = 100, *, depth: int = DEPTH, colour: bool = False) -> str:
    """Return the last `depth` calls of each rank within `width` columns; ranks that do the same share a row.

    A call that never returned has a torn edge, and a note says since when it waits and for which ranks.
    """
    lines = _TextDrawing(trace, max(width, _NARROWEST), max(depth, 1)).render_lines()
    return "\n".join("".join(_apply_colour(part, colour) for part in line).rstrip() for line in lines)


def _apply_colour(part: StyledText, colour: bool) -> str:
    return f"{part.colour}{part.text}\x1b[0m" if colour and part.colour else part.text


class _TextDrawing:
    def __init__(self, trace: Trace, width: int, depth: int) -> None:
        self.trace, self.width, self.depth = trace, width, depth
        self.label, self.cell = min(_LABEL, width // 4), min(_CELL, width // 2 - 6)

    def render_lines(self) -> list[Line]:
        """Return the lines of the picture."""
        if self.trace.level == Level.OUTCOMES or not self.trace.event_count:
            return [[StyledText(printable(f"{self.trace.path.name}: no calls were recorded"))]]
        self.run, self.match = run_extent(self.trace), match_of(self.trace)
        self.standstill = Standstill(self.trace)
        found = group_ranks(self.trace, self.depth)
        count = assign_columns(self.trace, found, self.match)
        found.sort(key=lambda group: (not self._is_in_trouble(group), group.ranks[0]))
        shown = sorted(found[:MAX_GROUPS], key=lambda group: group.ranks[0])
        heading = textwrap.wrap(self._heading_text(), self.width, break_on_hyphens=False)
        lines = [*([StyledText(text)] for text in heading), [], *self._render_rows(shown, count)]
        if len(found) > len(shown):
            left = sum(len(group.ranks) for group in found[MAX_GROUPS:])
            lines.append(
                [
                    StyledText(
                        f"and {plural(left, 'more rank')} that did {plural(len(found) - MAX_GROUPS, 'other thing')}"
                    )
                ]
            )
        if any("!" in part.text for line in lines[2:] for part in line):
            lines += [[], [StyledText("! nobody received it", _DIM)]]
        return [*lines, *self._deadlock_lines()]

    def _heading_text(self) -> str:
        """Return the run's name, its number of ranks, how it ended and how long it took."""
        trace = self.trace
        ended = ENDED.get(str(trace.run.get("ended")), CUT_OFF)
        took = format_seconds(self.run.last - self.run.first)
        return printable(f"{trace.path.resolve().name}: {plural(len(trace.ranks), 'rank')}, {ended} after {took}")

    def _is_in_trouble(self, group: RankGroup) -> bool:
        """Tell whether the ranks of a group never left a call, or never reached MPI_Finalize."""
        ended = self.trace.ranks[group.ranks[0]]
        return any(step.open for step in group.steps) or not has_reached_finalize(ended)

    # Rows

    def _render_rows(self, found: Sequence[RankGroup], count: int) -> Iterable[Line]:
        """Yield the lines of the groups: their calls by column, then their notes."""
        labels = [_truncate(rank_words(group.ranks), self.label) for group in found]
        cells = [self._row_cells(group) for group in found]
        widths = [2 + max((len(row[c]) for row in cells if c in row), default=0) for c in range(count)]
        label = max(len(text) for text in labels) + 2
        first = self._first_visible_column(widths, label)
        yield [StyledText(" " * label), StyledText(_time_arrow(min(sum(widths[first:]), self.width - label)), _DIM)]
        for group, text, row in zip(found, labels, cells, strict=True):
            line = [StyledText(text.ljust(label), _BOLD if self._is_in_trouble(group) else "")]
            columns = dict(zip(group.columns, group.steps, strict=True))
            for column in range(first, count):
                cell = row.get(column, "").ljust(widths[column])
                line.append(StyledText(cell, _colour_sequence(columns[column]) if column in columns else ""))
            if group.more or any(column < first for column in group.columns):
                line[0] = StyledText(line[0].text[:-2] + "… ", line[0].colour)
            yield line
            yield from self._render_notes(group, label)

    def _first_visible_column(self, widths: Sequence[int], label: int) -> int:
        """Return the first column to show, so that it and all after it fit into the width beside a row label of
        `label` characters."""
        first = len(widths)
        while first and label + sum(widths[first - 1 :]) <= self.width:
            first -= 1
        return min(first, len(widths) - 1)

    def _row_cells(self, group: RankGroup) -> dict[int, str]:
        """Return {column: text of the call in it} for a group of ranks."""
        cells: dict[int, str] = {}
        for column, step in zip(group.columns, group.steps, strict=True):
            # Of several threads that stand in open calls one has the place; the notes tell of all.
            cells[column] = _truncate(self._cell_text(group, step), self.cell) + (_TORN if step.open else "")
        return cells

    def _cell_text(self, group: RankGroup, step: CallStep) -> str:
        """Return a call as text: name, peer, tag, polls, communicator and repetitions."""
        event = step.event
        name = function_word(event)
        if pickled_collective(event):
            return name + (f" ×{step.times}" if step.times > 1 else "")
        text = name + self._peer_text(group, step)
        args = event.function.slot
        if ("tag" in args and args["tag"].handle is None) and class_word(step) in _TAGGED:
            text += " #any" if event.flags & Flag.ANY_TAG and event.open else f" #{event.tag}"
        if event.polls > 1:
            text += f" {event.polls:,}×no"
        elif event.calls > 1:
            text += f" ×{event.calls:,}"
        elif name.startswith(("waitall", "waitany", "waitsome")):
            text += f"({event.count})"
        if event.comm_id > ID_WORLD and event.comm is not None and "comm" in args:
            text += f" {event.comm.name.removeprefix('world.')}"
        if step.times > 1:
            text += f" ×{step.times}"
        return printable(text) + ("!" if self._is_unreceived(group, event) else "")

    def _peer_text(self, group: RankGroup, step: CallStep) -> str:
        """Return the peer of a call with an arrow that shows the direction."""
        slot = step.event.function.slot.get("peer")
        if slot is None:
            return ""
        arrow = {"dest": "→", "source": "←", "root": " root ", "rank": "→", "target_rank": "→"}.get(slot.name, " ")
        if step.event.flags & Flag.ANY_SOURCE and slot.name == "source":
            got = "" if step.open or step.peers[0] is None or len(group.ranks) > 1 else f"({step.peers[0]})"
            return f"{arrow}any{got}"
        return arrow + _peers_text(group.ranks, step.peers, len(self.trace.ranks))

    def _is_unreceived(self, group: RankGroup, event: Event) -> bool:
        """Return whether a call sent a message that nobody received."""
        if base_name(event.function.name) not in _SENDS or len(group.ranks) > 1:
            return False
        rows = self.match.sends_of(event.id)
        return any(self.match.sends.partner[row] == NONE for row in rows)

    # Notes under a row

    def _render_notes(self, group: RankGroup, label: int) -> Iterable[Line]:
        """Yield the notes under a row: the open calls, or how the ranks ended."""
        texts = [self._open_call_note(group, step) for step in group.steps if step.open]
        if not texts and (state := self._ending_text(group)):
            texts = [state]
        for text in texts:
            for line in textwrap.wrap(text, self.width - label, break_on_hyphens=False):
                yield [StyledText(" " * label + line, _WARN)]

    def _open_call_note(self, group: RankGroup, step: CallStep) -> str:
        took = format_seconds(self.run.last - step.event.enter_ns)
        text = f"{_TORN} in {function_word(step.event)}{site_suffix(step.event)} for {took}"
        return printable(text + self._waits_text(group))

    def _waits_text(self, group: RankGroup) -> str:
        """Return text that says for which ranks the ranks of a group wait."""
        needs = [self.standstill.needs.get(rank) for rank in group.ranks]
        if any(need is None for need in needs):
            return ""
        whom = [need.all_ranks() - {rank} for need, rank in zip(needs, group.ranks, strict=True) if need is not None]
        if all(one == whom[0] for one in whom):
            return f", waits for {rank_words(whom[0])}" if whom[0] else ", waits for a rank that can no longer come"
        if all(len(one) == 1 for one in whom):
            return (
                f", each waits for rank {_peers_text(group.ranks, [min(one) for one in whom], len(self.trace.ranks))}"
            )
        return f", wait for {rank_words(frozenset().union(*whom))}"

    def _ending_text(self, group: RankGroup) -> str:
        """Return how a rank ended; empty if it reached MPI_Finalize."""
        rank = self.trace.ranks[group.ranks[0]]
        if has_reached_finalize(rank):
            return ""
        return "✗ " + describe_end(rank)

    def _deadlock_lines(self) -> list[Line]:
        """Return the deadlocks that were found, with their cycles."""
        lines: list[Line] = []
        for finding in find(self.trace):
            cycle = finding.evidence.cycle if isinstance(finding.evidence, Deadlock) else ()
            if 1 < len(cycle) <= 12:
                ring = " ⟶ ".join(str(rank) for rank in [*cycle, cycle[0]])
                lines += [[], [StyledText(f"waits for: {ring}", _WARN)]]
            said = printable(f"deadlock: {finding.message}")
            lines += [[], *([StyledText(line)] for line in textwrap.wrap(said, self.width, break_on_hyphens=False))]
        return lines


_DIM: Final = "\x1b[2m"
_BOLD: Final = "\x1b[1m"
_WARN: Final = "\x1b[31m"


def _colour_sequence(step: CallStep) -> str:
    colour = CLASSES[step.call_class].light
    return "\x1b[38;2;" + ";".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5)) + "m"


def _time_arrow(width: int) -> str:
    """Return the arrow that shows the direction of time."""
    text = " time "
    return (
        text if width < 12 else "─" * ((width - len(text)) // 2 - 1) + text + "─" * ((width - len(text)) // 2 - 1) + "▶"
    )


def _peers_text(ranks: Sequence[int], peers: Sequence[int | None], size: int) -> str:
    """Return the peers of some ranks as text: the rank that is the peer of all, a distance such as `+1` that is equal
    for all, `nobody`, or else `several`.
    """
    known = {peer for peer in peers if peer is not None}
    if not known:
        return "nobody"
    if len(known) == 1 and None not in peers:
        return str(next(iter(known)))
    steps = {(peer - rank) % size for rank, peer in zip(ranks, peers, strict=True) if peer is not None}
    if len(steps) == 1 and None not in peers:
        step = next(iter(steps))
        return f"+{step}" if step <= size // 2 else f"-{size - step}"
    return "several"


def _truncate(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def format_seconds(ns: float) -> str:
    """Return a time in ns as people write it: `1.27 s`."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
