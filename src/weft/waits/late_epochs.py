"""Waiting in general active target synchronisation (MPI-4.1, 12.5.2): late posts and early waits.

The n-th access epoch in which an origin names a target belongs to the n-th exposure epoch in which the target names
the origin. MPI may hold the origin in MPI_Win_start or only in MPI_Win_complete: the one that was there when the last
target posted waited. MPI_Win_wait waits for the last origin's MPI_Win_complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.mpi.meaning import Sync
from weft.terms import calls
from weft.terms.argument_columns import decode_columns, integer_column, sorted_distinct
from weft.terms.calls import masks_of
from weft.terms.windows import Window, group_members, window_of
from weft.trace import Rank, Trace
from weft.waits.causes import Cause
from weft.waits.event_times import EventTimes
from weft.waits.kernels import Ints

_OPENS = calls.functions_with_sync(Sync.START, Sync.POST)
_ACCESS = calls.functions_with_sync(Sync.START, Sync.COMPLETE)
_CALLS = calls.functions_with_sync(Sync.START, Sync.COMPLETE, Sync.POST, Sync.WAIT)


@dataclass
class _Epochs:
    """The access or the exposure epochs of a rank on a window, in order.

    `opened` and `closed` are indices of their calls in the row of all events, -1 if there is none; `group` numbers the
    ranks in `members`.
    """

    opened: Ints
    closed: Ints
    group: Ints
    members: Mapping[int, frozenset[int]]

    def epochs_naming(self, other: int) -> Ints:
        """Return the indices of the epochs that have a rank among their partners."""
        named = [group for group, members in self.members.items() if other in members]
        return np.flatnonzero(np.isin(self.group, named))

    @property
    def others(self) -> set[int]:
        """Return the ranks that are partners in some epoch."""
        return {member for members in self.members.values() for member in members}


_Key = tuple[int, Window]
_Waits = tuple[Ints, Ints, Ints, NDArray[np.uint8]]


def find_late_epochs(trace: Trace, clock: EventTimes) -> _Waits:
    """Return the waits at the begin and end of access and exposure epochs of windows (MPI_Win_start, _post, _complete,
    _wait), as four columns: the waiting calls, the ns, the late calls, and the causes.
    """
    access: dict[_Key, _Epochs] = {}
    exposure: dict[_Key, _Epochs] = {}
    for rank in trace.ranks:
        for (accesses, window), epochs in _read_epochs(rank, int(clock.first[rank.index])):
            (access if accesses else exposure)[rank.index, window] = epochs
    found = [_none()]
    for key, epochs in access.items():
        posts = _last_needed_call(key, epochs, exposure, {k: e.opened for k, e in exposure.items()}, clock)
        found += [_select_waits(clock, calls, posts, Cause.LATE_POST) for calls in (epochs.opened, epochs.closed)]
    for key, epochs in exposure.items():
        completes = _last_needed_call(key, epochs, access, {k: e.closed for k, e in access.items()}, clock)
        found.append(_select_waits(clock, epochs.closed, completes, Cause.EARLY_WAIT))
    places, ns, late, causes = (np.concatenate(column) for column in zip(*found, strict=True))
    return places, ns, late, causes


def _none() -> _Waits:
    none = np.zeros(0, np.int64)
    return none, none, none, np.zeros(0, np.uint8)


def _read_epochs(rank: Rank, first: int) -> Iterator[tuple[tuple[bool, Window], _Epochs]]:
    """Yield ((True for access or False for exposure, window), epochs) for the epochs of a rank. `first`: the number of
    the rank's first event among all events of the run.
    """
    of, events = masks_of(rank.trace.functions), rank.events
    rows = of.where(rank, _CALLS)
    rows = rows[events["error"][rows] == 0].astype(np.int64)
    if not len(rows):
        return
    opens, accesses = (of.table(names)[events["function"][rows]] for names in (_OPENS, _ACCESS))
    group, handle = _groups_of_opening_calls(rank, rows, opens), events["object"][rows]
    windows: dict[Window, list[int]] = {}
    for id in sorted_distinct(handle).tolist():
        window = window_of(rank, id)
        if window is not None:
            windows.setdefault(window, []).append(id)
    members = {id: frozenset(group_members(rank, id)) for id in sorted_distinct(group[opens]).tolist()}
    for window, ids in windows.items():
        for sort in (True, False):
            mine = np.flatnonzero(np.isin(handle, ids) & (accesses == sort))
            if len(mine):
                yield (sort, window), _pair_calls(rows[mine] + first, opens[mine], group[mine], members)


def _groups_of_opening_calls(rank: Rank, rows: Ints, opens: NDArray[np.bool_]) -> Ints:
    """Return the MPI group that each call was given if it opens an epoch; 0 for other calls. `rows`: the calls' event
    indices; `opens`: a mask of the calls that open an epoch.
    """
    group = np.zeros(len(rows), np.int64)
    opening = rows[opens]
    for some, found in decode_columns(rank, opening, frozenset(("group",))) if len(opening) else ():
        if "group" in found:
            group[np.searchsorted(rows, some)] = integer_column(found, "group")
    return group


def _pair_calls(places: Ints, opens: NDArray[np.bool_], group: Ints, members: Mapping[int, frozenset[int]]) -> _Epochs:
    """Return the epochs of a window, made of its calls in their order. An epoch is closed by the next call, unless that
    opens another one.
    """
    opened = np.flatnonzero(opens)
    behind = opened + 1
    has = behind < len(places)
    has[has] = ~opens[behind[has]]
    closed = np.where(has, places[np.minimum(behind, len(places) - 1)], -1)
    return _Epochs(places[opened], closed, group[opened], members)


def _last_needed_call(
    key: _Key, epochs: _Epochs, theirs: Mapping[_Key, _Epochs], needed: Mapping[_Key, Ints], clock: EventTimes
) -> Ints:
    """Return, for each epoch, the last call of its partners that it has to wait for. -1 if the record lacks one of
    them. `needed`: these calls for each partner and window.
    """
    me, window = key
    last = np.full(len(epochs.opened), -1, np.int64)
    lost = np.zeros(len(last), np.bool_)
    for other in sorted(epochs.others):
        mine = epochs.epochs_naming(other)
        there = theirs.get((other, window))
        calls = needed[other, window][there.epochs_naming(me)] if there is not None else last[:0]
        calls = np.append(calls, np.full(max(len(mine) - len(calls), 0), -1))[: len(mine)]
        lost[mine] |= calls < 0
        later = (calls >= 0) & ((last[mine] < 0) | (clock.enter[calls] > clock.enter[last[mine]]))
        last[mine[later]] = calls[later]
    last[lost] = -1
    return last


def _select_waits(clock: EventTimes, calls: Ints, needed: Ints, cause: Cause) -> _Waits:
    """Return the waits among some calls, as columns (calls, ns, late calls, causes). A call waited if it was under way
    when the call that it needed (`needed`) began.
    """
    here = np.flatnonzero((calls >= 0) & (needed >= 0))
    places, late = calls[here], needed[here]
    at, enter, leave = clock.enter[late], clock.enter[places], clock.exit[places]
    waited = (enter < at) & (at <= leave)
    places, late, ns = places[waited], late[waited], (at - enter)[waited]
    return places, ns, late, np.full(len(places), int(cause), np.uint8)
