"""Check one-sided communication: epochs opened, used and closed as the standard asks, and accesses that race.

The rules are those of MPI-4.1, chapter 12: 12.5 (epochs) and 12.7 (which accesses may overlap).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.base.words import plural
from weft.deadlock.collective_calls import CollectiveCalls
from weft.deadlock.traffic import Traffic
from weft.evidence import Epoch, Parameter
from weft.findings import Finding
from weft.kinds import Severity
from weft.order import Order
from weft.terms.argument_columns import Ints, decode_columns, integer_column, sorted_distinct
from weft.terms.buffer_blocks import Shapes, empty_shapes, list_buffer_blocks
from weft.terms.byte_layouts import first_shared_blocks, gapless_layout
from weft.terms.calls import word_set
from weft.terms.event_findings import (
    FindingLimiter,
    call_at,
    cause_key,
    limit_per_site,
    make_finding,
    make_left_out_note,
)
from weft.terms.windows import group_members
from weft.trace import Event, Rank, Trace
from weft.trace.definitions import WindowDefinition
from weft.trace.layout import PROC_NULL
from weft.usage.epoch_permissions import find_denied_updates, find_forbidden_operations
from weft.usage.epochs import START, Epochs, Window, read_epochs
from weft.usage.exposure_epochs import Exposures, match_exposures
from weft.usage.origin_buffers import collect_local_buffers, report_shared_origin_buffers
from weft.usage.own_window_buffers import accesses_to_own_windows
from weft.usage.pending_buffers import merge_accesses as both_in_order
from weft.usage.receive_buffers import collect_message_buffers
from weft.usage.rma_completion import RmaCompletion, find_completing_events
from weft.usage.rma_races import find_rma_races
from weft.usage.window_accesses import RmaAccesses, join_accesses
from weft.usage.window_stores import find_window_stores

LOOKED = "one-sided"
"""Under this name a match keeps what a look found for who asks next."""
_DYNAMIC = 2

_WORDS = (
    "calls a fence inside the epoch of {other}", "starts an epoch before MPI_Win_complete has ended that of {other},",
    "completes an access epoch that was not started", "posts an exposure epoch while that of {other} is open",
    "waits for the end of an exposure epoch that was not posted",
    "tests for the end of an exposure epoch that was not posted",
    "locks the window of rank {peer}, which it has not unlocked since {other},",
    "locks a window whose fence epoch is still open", "locks all ranks while it holds the lock of {other}",
    "unlocks rank {peer}, which it has not locked,", "unlocks all ranks, which it has not locked,",
    "flushes outside of a lock", "frees a window while the epoch of {other} is open",
    "never closes the epoch that it opened", "frees a window whose exposure epoch of {other} is open",
    "never waits for the end of the epoch that it posted", "accesses rank {peer}'s window while it has locked only "
    "other ranks",
    "accesses a window outside of any epoch", "starts an epoch while that of {other} is open",
    "starts an epoch while the fence epoch of {other} is open", "locks a window while the epoch of {other} is open",
    "calls a fence while its exposure epoch of {other} is open",
    "opens an epoch inside a fence epoch, which {other} ends,",
)  # fmt: skip
"""By enum wrong of native/kernel/epochs.c."""
_TOLERATED = len(_WORDS) - 1
"""By the text of the standard an error, which libraries let pass."""
_LEFT_OPEN = frozenset(place for place, words in enumerate(_WORDS) if words.startswith(("frees a window", "never ")))
"""What was not done, which may be so because the rank ended: an exception takes it out of an epoch that stays open."""


@dataclass
class RmaAnalysis:
    """What each rank's one-sided calls show by themselves, before accesses of different ranks are compared.

    `known`: epochs, `over`: completions by rank; `unplaced`: windows with operations whose bytes are not all known;
    `found`: findings.
    """

    gatherings: CollectiveCalls
    known: dict[Rank, Epochs]
    exposed: Exposures
    over: dict[Rank, RmaCompletion]
    accesses: RmaAccesses
    unplaced: set[Window]
    found: list[Finding]


def analyse_windows(trace: Trace) -> RmaAnalysis:
    """Analyse the one-sided calls of each rank by itself: its epochs, its accesses, and the findings that need no other
    rank.
    """
    gatherings = CollectiveCalls(trace)
    found: list[Finding] = []
    parts: list[RmaAccesses] = []
    unplaced: set[Window] = set()
    known = {rank: of for rank in trace.ranks if len(rank) and (of := read_epochs(rank, gatherings)) is not None}
    exposed = match_exposures(known)
    done = {rank: find_completing_events(rank, of) for rank, of in known.items()}
    for rank, of in known.items():
        over = done[rank]
        found += _report_epoch_misuse(rank, of)
        local = collect_local_buffers(rank, of, over)
        messages = collect_message_buffers(Traffic(rank))
        found += report_shared_origin_buffers(rank, local, messages)
        parts += accesses_to_own_windows(rank, of, both_in_order(local, messages), gatherings)
        operations = _RankOperations(rank, of, gatherings)
        found += operations.find_wrong_targets()
        parts.append(operations.accesses(exposed, over))
        unplaced |= operations.windows_with_unplaced_operations()
    return RmaAnalysis(gatherings, known, exposed, done, join_accesses(parts), unplaced, found)


def find(trace: Trace, order: Order) -> list[Finding]:
    """Find misused epochs of every rank and window, accesses outside of a window, and accesses that race."""
    kept = order.match.made.pop(LOOKED, None)
    looked = kept if isinstance(kept, RmaAnalysis) else analyse_windows(trace)
    accesses = looked.accesses
    found = [*looked.found, *(_misuse_finding(*told) for told in find_denied_updates(looked.known, accesses))]
    stored = find_window_stores(trace, looked.gatherings, accesses, looked.unplaced)
    return [*found, *find_rma_races(trace, order, accesses if stored is None else join_accesses([accesses, stored]))]


def collect_operation_accesses(trace: Trace, gatherings: CollectiveCalls) -> RmaAccesses:
    """Return the accesses to windows of all one-sided operations of a run. Operations whose bytes are unknown are left
    out.
    """
    known = {rank: of for rank in trace.ranks if len(rank) and (of := read_epochs(rank, gatherings)) is not None}
    exposed = match_exposures(known)
    return join_accesses(
        [
            _RankOperations(rank, of, gatherings).accesses(exposed, find_completing_events(rank, of))
            for rank, of in known.items()
        ]
    )


def _report_epoch_misuse(rank: Rank, epochs: Epochs) -> Iterator[Finding]:
    """Report misused epochs, at most MAX_OF_ONE_SITE for each call site."""
    order = np.argsort(epochs.at, kind="stable")
    for row in limit_per_site(rank, epochs.at[order]).tolist():
        place = order[row]
        event = rank.event(int(epochs.at[place]))
        other = rank.event(int(epochs.other[place])) if epochs.other[place] >= 0 else None
        why = _WORDS[int(epochs.wrong[place])].format(peer=event.peer, other=call_at(other) if other else "")
        severity: Severity = "warning" if epochs.wrong[place] == _TOLERATED else "error"
        open_ = int(epochs.wrong[place]) in _LEFT_OPEN
        yield _misuse_finding(event, why, *([other] if other else []), severity=severity, left_open=open_)
    some = FindingLimiter()
    for event, why, other in find_forbidden_operations(rank, epochs):
        if some.more(event.site_id):
            yield _misuse_finding(event, why, other)


def _misuse_finding(
    event: Event, why: str, *others: Event, severity: Severity = "error", left_open: bool = False
) -> Finding:
    """Make a finding of the kind epoch-misuse about a call.

    `why`: what is wrong, in words. `others`: further calls to cite. `left_open`: an epoch is never closed.
    """
    told = f"rank {event.rank.index} {why} in {call_at(event)}"
    evidence = Epoch(left_open=left_open)
    return make_finding(
        "epoch-misuse", told, [event, *others], severity=severity, evidence=evidence, cause=cause_key(event)
    )


class _RankOperations:
    """The operations of one rank that belong to an epoch, with the bytes of the target's window that they touch.

    There is one row for each block of bytes: an operation whose datatype at the target has gaps has several.
    """

    def __init__(self, rank: Rank, of: Epochs, gatherings: CollectiveCalls) -> None:
        self.rank, self.of, self.gatherings = rank, of, gatherings
        self.trace = gatherings.trace
        peer = rank.events["peer"][of.event]
        self.rows = np.flatnonzero((of.call == 0) & (of.epoch >= 0) & (peer != PROC_NULL))
        self.event = of.event[self.rows]
        self.window = of.window[self.rows]
        self.target = self._find_target_ranks(peer[self.rows].astype(np.int64))
        self.strange = self._are_outside_group()
        part, self.low, self.high, self.size, self.shape = self._find_touched_blocks()
        self.rows, self.event, self.window = self.rows[part], self.event[part], self.window[part]
        self.target, self.strange = self.target[part], self.strange[part]

    def _find_target_ranks(self, peer: Ints) -> Ints:
        """Return for each operation the index of its target in trace.ranks, -1 if unknown. `peer`: the targets as ranks
        of the window.
        """
        found = np.full(len(peer), -1, np.int64)
        for window in sorted_distinct(self.window).tolist():
            comm = self.trace.communicators[self.of.windows[window][0]]
            members = np.asarray(comm.peers(self.rank.index), np.int64)
            mine = (self.window == window) & (peer >= 0) & (peer < len(members))
            found[mine] = members[peer[mine]]
        return found

    def _are_outside_group(self) -> NDArray[np.bool_]:
        """Return a mask of the operations whose target is not in the group that MPI_Win_start named for their epoch."""
        of, epoch = self.of, self.of.epoch[self.rows]
        strange = np.zeros(len(self.rows), np.bool_)
        started = np.flatnonzero(of.sort == START)
        if not len(started):
            return strange
        group = np.zeros(len(of.sort), np.int64)
        for events, found in decode_columns(self.rank, of.begin[started], frozenset(("group",))):
            group[started[np.searchsorted(of.begin[started], events)]] = integer_column(found, "group")
        for id in sorted_distinct(group[group > 2]).tolist():
            members = group_members(self.rank, id)
            if members:
                strange |= (group[epoch] == id) & ~np.isin(self.target, members)
        return strange

    def _find_touched_blocks(self) -> tuple[Ints, Ints, Ints, Ints, Shapes]:
        """Return the blocks of the target's window that operations access, as five columns with one or more rows for
        each operation.

        They are: the index of the operation, the first byte, the end (-1 if the bytes are unknown), the size of the
        window (-1 if unknown), and a layout if not all bytes between are accessed.
        """
        n = len(self.rows)
        disp, count, kind = np.zeros(n, np.int64), np.ones(n, np.int64), np.zeros(n, np.int64)
        names = frozenset(("target_disp", "target_count", "target_datatype"))
        for events, found in decode_columns(self.rank, self.event, names):
            at = np.searchsorted(self.event, events)
            if "target_disp" not in found:
                continue
            disp[at] = integer_column(found, "target_disp")
            if "target_count" in found:
                count[at] = integer_column(found, "target_count")
            own = self.rank.events["datatype"][events].astype(np.int64)
            kind[at] = integer_column(found, "target_datatype") if "target_datatype" in found else own
        unit, bytes_ = self._window_units_and_sizes(np.arange(n))
        kind[unit <= 0] = 0  # no datatype
        parts = list_buffer_blocks(self.rank, kind, count)
        unknown = np.setdiff1d(np.arange(n), parts.buffer)
        part = np.concatenate([parts.buffer, unknown])
        low = (disp * unit)[part]
        low[: len(parts.buffer)] += parts.offset
        high = np.concatenate([low[: len(parts.buffer)] + parts.length, np.full(len(unknown), -1, np.int64)])
        shape = np.concatenate([parts.shape, empty_shapes(len(unknown))])
        high[np.array([of is not None and not of.is_known for of in shape], np.bool_)] = -1
        order = np.argsort(part, kind="stable")
        return part[order], low[order], high[order], np.where(high >= 0, bytes_[part], -1)[order], shape[order]

    def _window_units_and_sizes(self, rows_asked: Ints) -> tuple[Ints, Ints]:
        """Return two columns for the rows `rows_asked`: the displacement unit (0 if unknown) and the size in bytes (-1
        if unknown) of the target's part of the window.
        """
        key = self.window[rows_asked].astype(np.int64) << 32 | np.maximum(self.target[rows_asked], 0)
        unique, inverse = np.unique(key, return_inverse=True)
        table = np.array(
            [self._unit_and_size(self.of.windows[k >> 32], k & 0xFFFFFFFF) for k in unique.tolist()], np.int64
        )
        unit, size = table.reshape(-1, 2)[inverse.reshape(-1)].T
        return np.where(self.target[rows_asked] >= 0, unit, 0), size

    def _unit_and_size(self, window: Window, target: int) -> tuple[int, int]:
        """Return the displacement unit and the size in bytes of a target's part of a window; (0, -1) if unknown."""
        definition = self._window_definition(window, target)
        if definition is None:
            return 0, -1
        return (1, -1) if definition.flavor == _DYNAMIC else (definition.unit, definition.size)

    def _window_definition(self, window: Window, target: int) -> WindowDefinition | None:
        """Return what the rank `target` recorded of its own part of a window (address, size, unit); None if nothing."""
        owner = self.trace.ranks[target]
        id = self.gatherings.window_ids(owner).get(window)
        return owner.definitions.window(id) if id else None

    @property
    def _are_beyond_window(self) -> NDArray[np.bool_]:
        """Operations that touch what is no part of the window."""
        touching = (self.high >= 0) & (self.high > self.low)  # nothing may be anywhere
        return touching & ((self.low < 0) | ((self.size >= 0) & (self.high > self.size)))

    def find_wrong_targets(self) -> Iterator[Finding]:
        """Report operations whose target is not in the group of their epoch, and those that access bytes outside of the
        window.
        """
        strange, beyond = (
            self._limit_reported_rows(wrong) for wrong in (self.strange, self._are_beyond_window & ~self.strange)
        )
        for row in strange.tolist():
            event, target = self.rank.event(int(self.event[row])), int(self.target[row])
            yield _misuse_finding(event, f"accesses rank {target}, which is not in the group of its epoch,")
        for row in beyond.tolist():
            where = f"rank {self.target[row]}'s window, which has {self.size[row]:,} bytes,"
            low, high = self._first_block_beyond_window(row)
            yield self._wrong_target_finding(row, f"{plural(high - low, 'byte')} at offset {low:,} of {where}")
        for row in np.flatnonzero((self.high < 0) & (self.shape != np.array(None)))[:1].tolist():
            event = self.rank.event(int(self.event[row]))
            yield make_left_out_note("rma-race", event, "it touches bytes that others do")
        for row in self._limit_reported_rows(self._are_unattached & ~self.strange).tolist():
            yield self._wrong_target_finding(row, f"memory that rank {self.target[row]} has not attached to the window")

    def _first_block_beyond_window(self, row: int) -> tuple[int, int]:
        """Return first byte and end of the first block of an access that is not entirely inside the window."""
        low, high, size, shape = (column[row] for column in (self.low, self.high, self.size, self.shape))
        if shape is None:
            return int(low), int(high)
        begin = int(low) - shape.low
        outside = gapless_layout(-int(low)) if low < 0 else gapless_layout(int(high - size))
        at = int(low) if low < 0 else int(size)
        found = first_shared_blocks(shape, outside, at - begin)
        first = found[0] if found else (shape.low, shape.high - shape.low)
        return begin + first[0], begin + sum(first)

    def _wrong_target_finding(self, row: int, bytes_text: str) -> Finding:
        """Make the finding that an operation accesses bytes outside of the window. `bytes_text`: words for these
        bytes.
        """
        event = self.rank.event(int(self.event[row]))
        told = f"rank {self.rank.index} accesses {bytes_text} in {call_at(event)}"
        return make_finding(
            "invalid-argument", told, [event], evidence=Parameter(parameter="target_disp"), cause=cause_key(event)
        )

    @property
    def _are_unattached(self) -> NDArray[np.bool_]:
        """Return a mask of the operations that access only memory which the target never attaches to its dynamic
        window.
        """
        found = np.zeros(len(self.rows), np.bool_)
        rows = np.flatnonzero((self.high > self.low) & (self.target >= 0) & (self.size < 0))
        pairs = self.window[rows].astype(np.int64) << 32 | self.target[rows]
        for pair in sorted_distinct(pairs).tolist():
            attached = self._attached_memory(self.of.windows[pair >> 32], pair & 0xFFFFFFFF)
            if attached is not None:
                mine = rows[pairs == pair]
                low, furthest = attached
                begun = np.searchsorted(low, self.high[mine])  # how many begin before the operation ends
                found[mine] = (begun == 0) | (np.append(furthest, 0)[begun - 1] <= self.low[mine])
        return found

    def _attached_memory(self, window: Window, target: int) -> tuple[Ints, Ints] | None:
        """Return the memory that a rank attaches to a dynamic window, as two columns sorted by address: the first byte
        of each piece, and the greatest end of this piece and all before it. None if the window is not dynamic or not
        known.
        """
        definition, owner = self._window_definition(window, target), self.trace.ranks[target]
        if definition is None or definition.flavor != _DYNAMIC:
            return None
        at = self.gatherings.masks.where(owner, word_set("Win_attach"))
        at = at[owner.events["object"][at] == definition.id]
        low = owner.events["buffer"][at].astype(np.int64)
        size = np.zeros(len(at), np.int64)
        for events, found in decode_columns(owner, at, frozenset(("size",))):
            size[np.searchsorted(at, events)] = integer_column(found, "size")
        order = np.argsort(low)
        return low[order], np.maximum.accumulate((low + size)[order])

    def _limit_reported_rows(self, wrong: NDArray[np.bool_]) -> Ints:
        """Return the rows of the mask `wrong` that are worth reporting: the first of each operation, and at most
        MAX_OF_ONE_SITE operations of each call site.
        """
        rows = np.flatnonzero(wrong)
        rows = rows[np.unique(self.event[rows], return_index=True)[1]]
        return rows[limit_per_site(self.rank, self.event[rows])]

    @property
    def _rows_with_known_bytes(self) -> Ints:
        """Those whose bytes are known."""
        return np.flatnonzero((self.high > self.low) & ~self.strange & ~self._are_beyond_window)

    def accesses(self, exposed: Exposures, over: RmaCompletion) -> RmaAccesses:
        """Return the operations whose bytes are known as accesses to windows. `exposed`: the exposure epochs of the
        run. `over`: for each operation the event that completes it.
        """
        of, keep = self.of, self._rows_with_known_bytes
        rows, target = self.rows[keep], self.target[keep]
        places = (target, self.low[keep], self.high[keep], self.shape[keep])
        time = (over.remote[rows], *exposed.find_exposures_of(self.rank, of, rows, target))
        return RmaAccesses.of_rank(self.rank, of, rows, places, time)

    def windows_with_unplaced_operations(self) -> set[Window]:
        """Return the windows with an operation that may access any bytes: its bytes or its epoch are unknown, or its
        blocks are too many to list.
        """
        of = self.of
        left = of.call == 0
        left[self.rows[self._rows_with_known_bytes]] = False
        left[self.rows[self.shape != np.array(None)]] = True
        left[self.rows[(self.high == self.low) & ~self.strange]] = False  # of no bytes
        left &= self.rank.events["peer"][of.event] != PROC_NULL
        return {of.windows[window] for window in sorted_distinct(of.window[left]).tolist() if window >= 0}
