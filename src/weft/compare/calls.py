"""Reduce the calls of a thread to keys that two runs have in common, and align the calls of two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.match import NONE, Match, asks_what_came, communicates
from weft.trace import Flag, Rank
from weft.trace.layout import ANY_SOURCE, ANY_TAG, ID_DYNAMIC

WINDOW: Final = 1000
"""Calls that are looked through on both sides for where two runs come together again."""
REALIGNED: Final = 8
"""Calls in a row that are alike where two runs come together again, unless they end before."""
MAX_RANGES: Final = 1000
"""intervals that are aligned; what comes after so many differences is one difference more."""
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]


@dataclass(slots=True)
class ThreadCalls:
    """The calls of a thread that are compared, in order: `events` of the rank, and two keys for each.

    `shape` is what the program asked for: function, communicator, peer, tag, count, predefined type or operation,
    whether the call returned, and its error. `taken` is whose messages its receives took, 0 for calls that receive
    nothing.
    """

    rank: Rank
    events: Ints
    shape: Keys
    taken: Keys

    def __len__(self) -> int:
        return len(self.events)


@dataclass(frozen=True, slots=True)
class AlikeRange:
    """`count` calls that are alike, from index `before` of the reference and `after` of the run on."""

    before: int
    after: int
    count: int


def read_thread_calls(
    match: Match, rank: int, thread_slot: int, shared_numbers: dict[str, int], *, with_polls: bool = False
) -> ThreadCalls:
    """Return the calls of a thread that communicate, without calls whose outcome depends on timing only.

    Left out are polls without success, and calls that ask which requests are complete or which messages are there:
    tests, MPI_Waitsome, probes that return at once. A poll that never returned is kept. `with_polls`: keep all of them.
    `thread_slot`: the index of the thread in the rank. `shared_numbers`: the number that both runs use for each name of
    a function, predefined type or operation, as two MPIs number them differently; new names are added.
    """
    one = match.trace.ranks[rank]
    events, functions = one.events, one.trace.functions
    closed = events["flags"] & Flag.CLOSED != 0
    failed = functions.mask(f.name for f in functions if f.is_poll)[events["function"]]
    failed &= events["flags"] & Flag.TRUE == 0
    asks = functions.mask(f.name for f in functions if asks_what_came(f))[events["function"]]
    counted = functions.mask(f.name for f in functions if communicates(f))[events["function"]]
    if not with_polls:
        counted &= ~(closed & (failed | asks))
    chosen = np.flatnonzero((one.event_threads == thread_slot) & counted)
    return ThreadCalls(
        one, chosen, compute_call_keys(one, chosen, shared_numbers), _compute_message_keys(match, rank, chosen)
    )


def compute_call_keys(
    rank: Rank, events_chosen: Ints, shared_numbers: dict[str, int], *, with_peers: bool = True
) -> Keys:
    """Return a 64-bit key for each call of a rank. Two calls of two runs have equal keys if the program made the same
    call.

    `events_chosen`: the event indices of the calls. `shared_numbers`: as for `read_thread_calls`. `with_peers`:
    communicator and peer must be the same, too.
    """
    events, functions = rank.events[events_chosen], rank.trace.functions
    flags, tags = events["flags"], np.where(events["flags"] & Flag.ANY_TAG, ANY_TAG, events["tag"]).astype(np.int64)

    def number_by_name(column: NDArray[np.integer], name: Callable[[int], str]) -> Ints:
        """Return a column with each number of this run replaced by the number that both runs use for its name. `name`:
        returns the name for a number.
        """
        known, row = np.unique(column, return_inverse=True)
        return np.array(
            [shared_numbers.setdefault(name(one), len(shared_numbers) + 1) for one in known.tolist()], np.int64
        )[row]

    def predefined(cls: str) -> Callable[[int], str]:
        return lambda one: (functions.object_name(cls, one) if one < ID_DYNAMIC else None) or f"a {cls} of its own"

    def communicator(id: int) -> str:  # noqa: A002 - the domain's word
        """Return its name, which tells parent, call, members and how often before: numbers are of the whole run."""
        known = rank.comm(id)
        return f"communicator {known.name}" if known else "no communicator"

    function, nowhere = (
        number_by_name(events["function"], lambda one: functions[one].base),
        np.zeros(len(events_chosen), np.int64),
    )
    reduces = functions.mask(f.name for f in functions if (tag := f.slot.get("tag")) and tag.handle)[events["function"]]
    tags[reduces] = number_by_name(tags[reduces], predefined("OP"))
    columns = (
        function,
        number_by_name(events["comm"], communicator) if with_peers else nowhere,
        np.where(flags & Flag.ANY_SOURCE, ANY_SOURCE, events["peer"]) if with_peers else nowhere,
        tags,
        events["count"],
        number_by_name(events["datatype"], predefined("DATATYPE")),
        flags & Flag.CLOSED,
        events["error"],
    )
    mixed = np.zeros(len(events_chosen), np.uint64)
    for column in columns:
        mixed = _mix_column_into_keys(mixed, np.asarray(column).astype(np.int64).view(np.uint64))
    return mixed


def find_message_senders(match: Match, rank: int) -> Ints:
    """Return one number for each receive of a rank, in the order in which the receives were posted. The number combines
    source and tag of the message that was received; it is -1 if there was none.
    """
    rows, part = match.recvs, match.recvs.of_rank(rank)
    sender = rows.peer[part].astype(np.int64) << 32 | rows.tag[part].astype(np.int64) & 0xFFFFFFFF
    return np.where(rows.partner[part] != NONE, sender, -1)


def _compute_message_keys(match: Match, rank: int, events_chosen: Ints) -> Keys:
    """Return a 64-bit key for each call. Two calls of two runs have equal keys if their receives took the same
    messages. `events_chosen`: the event indices of the calls.
    """
    sender = find_message_senders(match, rank).view(np.uint64)
    by_event = np.zeros(len(match.trace.ranks[rank].events), np.uint64)
    # Of several receives of one call (Startall) the messages count, not which took which.
    np.add.at(
        by_event, match.recvs.event[match.recvs.of_rank(rank)], _mix_column_into_keys(np.zeros_like(sender), sender)
    )
    return by_event[events_chosen]


def _mix_column_into_keys(keys: Keys, column: Keys) -> Keys:
    """Return new 64-bit keys, each made of an old key and the value of one more column (SplitMix64's finalizer, Steele,
    Lea and Flood 2014).
    """
    z = (keys + np.uint64(0x9E3779B97F4A7C15)) ^ column
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def align_calls(reference_keys: Keys, run_keys: Keys) -> Iterator[AlikeRange]:
    """Yield the ranges of calls that are alike in both runs, in order. The calls between these ranges differ.

    After a difference, the search continues at the nearest place at which both runs are alike again: where the fewest
    calls, counted over both runs, are skipped.
    """
    i = j = 0
    for _ in range(MAX_RANGES):
        count = _count_alike_at_start(reference_keys[i:], run_keys[j:])
        yield AlikeRange(i, j, count)
        i, j = i + count, j + count
        if i == len(reference_keys) or j == len(run_keys):
            return
        again = _find_realignment(reference_keys[i : i + WINDOW + REALIGNED], run_keys[j : j + WINDOW + REALIGNED])
        if again is None:
            return
        i, j = i + again[0], j + again[1]


def _count_alike_at_start(reference_keys: Keys, run_keys: Keys) -> int:
    """Return how many calls are alike in both runs, from the first on."""
    size, at, step = min(len(reference_keys), len(run_keys)), 0, 4096
    while at < size:
        end = min(at + step, size)
        differing = np.flatnonzero(reference_keys[at:end] != run_keys[at:end])
        if len(differing):
            return at + int(differing[0])
        at, step = end, step * 4
    return size


def _find_realignment(reference_keys: Keys, run_keys: Keys) -> tuple[int, int] | None:
    """Return (calls to skip in the reference, calls to skip in the run), after which REALIGNED calls are alike in both
    runs. As few calls as possible are skipped. None if the runs are alike nowhere.
    """
    length = min(REALIGNED, len(reference_keys), len(run_keys))
    first, second = _compute_sequence_keys(reference_keys, length), _compute_sequence_keys(run_keys, length)
    best: tuple[int, int] | None = None
    where: dict[int, int] = {}
    for j, key in enumerate(second.tolist()):
        where.setdefault(key, j)
    for i, key in enumerate(first.tolist()):
        other = where.get(key)
        if other is not None and (best is None or i + other < sum(best)):
            best = i, other
    return best


def _compute_sequence_keys(keys: Keys, length: int) -> Keys:
    """Return a key for each `length` successive calls: the first is for the calls from index 0 on, the next for those
    from index 1 on.
    """
    count = len(keys) - length + 1
    mixed = np.zeros(count, np.uint64)
    for k in range(length):
        mixed = _mix_column_into_keys(mixed, keys[k : k + count])
    return mixed
