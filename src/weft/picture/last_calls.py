"""The last calls of each rank, and which ranks made the same ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from weft.base.lazy import dataclass
from weft.match import NONE, Match
from weft.mpi.meaning import Act, base_name, functions_with
from weft.picture.classes import CLASSES, OTHER, class_number_of
from weft.terms.describe import site_suffix
from weft.trace import Event, Flag, Rank, Trace
from weft.trace.layout import ANY_SOURCE, PROC_NULL

LOOKED_AT: Final = 300
"""How many of a rank's last calls are looked at, to find those that are worth a place."""

_ENDS: Final = functions_with(Act.BEGIN_OR_END)


@dataclass
class CallStep:
    """A call, or several equal ones in a row, of ranks that do the same. `event`: the last of them, of the
    first rank.
    """

    event: Event
    times: int = 1
    peers: tuple[int | None, ...] = ()
    """By rank of the group the other side, an index in trace.ranks; None for none or nobody known."""

    @property
    def open(self) -> bool:
        """Return whether the call never returned."""
        return self.event.open

    @property
    def call_class(self) -> int:
        """Return the number of the call's class."""
        return class_number_of(self.event.function.name)


@dataclass
class RankGroup:
    """Ranks whose last calls are the same except for the peer."""

    ranks: list[int]
    steps: list[CallStep]
    more: bool
    state: str
    """How it ended: what Rank.state says."""

    columns: list[int] = field(default_factory=list)


def group_ranks(trace: Trace, depth: int) -> list[RankGroup]:
    """Return the ranks grouped by their last `depth` calls; the groups are in the order of their first ranks."""
    found: dict[tuple[object, ...], list[tuple[Rank, list[CallStep]]]] = defaultdict(list)
    for rank in trace.ranks:
        steps = _last_steps(rank, depth + 1)
        key = (rank.state, *(_step_key(step) for step in steps))
        found[key].append((rank, steps))
    return [_make_group(members, depth) for members in found.values()]


def _make_group(members: Sequence[tuple[Rank, list[CallStep]]], depth: int) -> RankGroup:
    """Return the group of ranks whose last calls are alike. Each of its steps (calls) has the peers of all these
    ranks."""
    rank, first = members[0]
    for place, step in enumerate(first):
        step.peers = tuple(_peer_rank(steps[place].event) for _, steps in members)
    return RankGroup([r.index for r, _ in members], first[-depth:], len(first) > depth, rank.state)


def _last_steps(rank: Rank, depth: int) -> list[CallStep]:
    """Return the last calls of a rank that are worth drawing, oldest first. Equal calls in a row are one step."""
    steps: list[CallStep] = []
    for index in range(len(rank) - 1, max(-1, len(rank) - 1 - LOOKED_AT), -1):
        event = rank.event(index)
        if not event.open and class_number_of(event.function.name) == OTHER and _base(event) not in _ENDS:
            continue
        if steps and _is_repetition(steps[-1].event, event):
            steps[-1].times += 1
        elif len(steps) == depth:
            break
        else:
            steps.append(CallStep(event))
    # Of several threads the open calls come last, whenever they began.
    steps.reverse()
    return sorted(steps, key=lambda step: step.open)


def _is_repetition(later: Event, event: Event) -> bool:
    """Return whether the call `later` repeats the call `event`: it does the same with the same peer."""
    return (
        not later.open
        and _step_key(CallStep(later)) == _step_key(CallStep(event))
        and _peer_rank(later) == _peer_rank(event)
    )


def _step_key(step: CallStep) -> tuple[object, ...]:
    """Return a key that is equal for drawn calls that do the same: equal function, line, tag, communicator and number
    of repetitions, and both returned or both did not."""
    event, comm = step.event, step.event.comm
    wild = bool(event.flags & Flag.ANY_SOURCE)
    return _base(event), site_suffix(event), event.tag, comm.key if comm else None, event.open, wild, step.times


def _base(event: Event) -> str:
    return base_name(event.function.name)


def _peer_rank(event: Event) -> int | None:
    """Return the index of the rank that a call names as its peer; None if it names none, or a wildcard."""
    slot = event.function.slot
    if "peer" not in slot or event.peer in (ANY_SOURCE, PROC_NULL):
        return None
    found = event.peer_index
    return found if found >= 0 else None


# Columns


def assign_columns(trace: Trace, groups: Sequence[RankGroup], match: Match) -> int:
    """Set in each group the column of every call (`group.columns`). A call comes after the call before it, and a
    receive after the send of its message. Return the number of columns.

    The last column belongs to the calls that never returned.
    """
    of_rank = {rank: group for group in groups for rank in group.ranks}
    edges = list(_message_edges(groups, of_rank, match))
    for group in groups:
        group.columns = list(range(len(group.steps)))
    # Ranks that are shown as one may wait for each other in a ring: then no order fits, and enough is enough.
    for _ in range(2 + max((len(g.steps) for g in groups), default=0) * 2):
        moved = False
        for group, step, sender, sent in edges:
            least = sender.columns[sent] + 1
            if group.columns[step] < least:
                _move_right(group, step, least)
                moved = True
        if not moved:
            break
    last = max((c for g in groups for s, c in zip(g.steps, g.columns, strict=True) if not s.open), default=-1)
    for group in groups:
        _move_open_calls_last(group, last)
    return last + 2


def _move_right(group: RankGroup, step: int, column: int) -> None:
    """Move a step of a group, and the steps after it, to `column` or further right."""
    for later in range(step, len(group.columns)):
        group.columns[later] = max(group.columns[later], column + later - step)


def _move_open_calls_last(group: RankGroup, last: int) -> None:
    """Put the open calls of a group into the last column."""
    for place_, step in enumerate(group.steps):
        if step.open:
            group.columns[place_] = last + 1


def _message_edges(
    groups: Sequence[RankGroup], of_rank: dict[int, RankGroup], match: Match
) -> Iterator[tuple[RankGroup, int, RankGroup, int]]:  # fmt: skip
    """Yield (receiving group, index of its step, sending group, index of its step) for each message between drawn
    calls. Only the first rank of each group counts."""
    for group in groups:
        rank = group.ranks[0]
        part = match.recvs.of_rank(rank)
        places = {step.event.index: place_ for place_, step in enumerate(group.steps)}
        rows = part.start + np.flatnonzero(np.isin(match.recvs.completion[part], list(places)))
        for row in rows.tolist():
            partner = int(match.recvs.partner[row])
            if partner == NONE:
                continue
            sender, event = match.sends.id(partner)
            other = of_rank[sender]
            # Steps are the first rank's: those of another are as far from its end.
            mine = [place_ for place_, step in enumerate(other.steps) if other.ranks[0] == sender and
                    step.event.index == event]  # fmt: skip
            if mine:
                yield group, places[int(match.recvs.completion[row])], other, mine[0]


def class_word(step: CallStep) -> str:
    """Return the word of a step's class."""
    return CLASSES[step.call_class].word
