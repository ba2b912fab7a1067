"""The search finds all outcomes of random small programs, each once: held against an enumeration of all their runs.

The programs and the machine that plays them are those of tests/races, which know nothing of vector time.
"""

from __future__ import annotations

import os
import random
from itertools import islice
from typing import Any

import pytest

from races.test_races_against_enumeration import ANY, Op, State, Where, build, random_program, record, told
from weft.explore.choices import Place, Wanted, expected_choices
from weft.explore.outcomes import Outcome, Variant
from weft.explore.search import Search, VariantResult
from weft.replay.force import Forcing

PROGRAMS = int(os.environ.get("WEFT_EXPLORE_PROGRAMS", "80"))
MOST = 3000
"""States of a program that is enumerated; larger ones are left out."""

Ends = dict[Place, int]


def places(program: list[list[Op]]) -> dict[Where, Place]:
    """The wildcards of a program by their place, as the search counts them."""
    found = {}
    for rank, ops in enumerate(program):
        wild = [i for i, op in enumerate(ops) if op[0] in ("recv", "irecv", "probe", "mprobe") and op[1] == ANY]
        found.update({(rank, i): (rank, 0, k) for k, i in enumerate(wild)})
    return found


def enumerated(program: list[list[Op]]) -> list[State] | None:
    """The ends of all runs; None where there are too many states."""
    known, ends, stack = set(), [], [State.begin(program)]
    while stack:
        state = stack.pop()
        if state.key() in known:
            continue
        known.add(state.key())
        if len(known) > MOST:
            return None
        moves = state.moves()
        if not moves:
            ends.append(state)
        stack += [state.play(move) for move in moves]
    return ends


def chosen(program: list[list[Op]], end: State) -> tuple[Any, ...]:
    """Which sender each wildcard took its message from; nobody's where it was posted and none came."""
    at = places(program)
    found = {}
    for (rank, i), place in at.items():
        if i in end.posted[rank] or (rank, i) in end.seen or i == end.at[rank]:
            got = end.matched.get((rank, i)) or end.seen.get((rank, i))
            found[place] = got[0] if got else -1
    return tuple(sorted(found.items()))


class Machine:
    """Runs variants of a program as a replay does: what is wanted is asked for by name, the rest is drawn.

    Two at once, which end in any order.
    """

    def __init__(self, program: list[list[Op]], rng: random.Random) -> None:
        self.program, self.rng, self.runs = program, rng, 0
        self.places = places(program)
        self.begun: list[tuple[Variant, Wanted]] = []

    jobs = 2

    def start_variant(self, parent: Outcome, variant: Variant, forcing: Forcing) -> None:
        self.begun.append((variant, expected_choices(forcing, parent.made)))
        self.runs += 1

    def wait_for_variant(self) -> VariantResult:
        variant, want = self.begun.pop(self.rng.randrange(len(self.begun)))
        named = [list(ops) for ops in self.program]
        for (rank, i), place in self.places.items():
            source = want.get(place, -1)
            if isinstance(source, int) and source >= 0:
                named[rank][i] = (named[rank][i][0], source, named[rank][i][2])
        return VariantResult(variant, build(self.program, record(named, self.rng))[0])


def compared(seed: int) -> tuple[int, int, int] | None:
    """Outcomes, runs, and variants that did not come about, of one random program; None where it is left out."""
    rng = random.Random(seed)
    program = random_program(rng)
    ends = enumerated(program)
    if ends is None or not all(told(end) for end in ends):
        return None
    expected = {chosen(program, end) for end in ends}
    machine = Machine(program, rng)
    search = Search(machine)
    search.add_run(build(program, record(program, rng))[0])
    for _ in search.run_variants():
        pass
    found = [tuple(sorted((place, c.source) for place, c in one.made.items())) for one in search.outcomes]
    assert len(found) == len(set(found)), f"seed {seed}: an outcome came twice: {program}"
    assert set(found) == expected, (
        f"seed {seed}: {program}: missing {expected - set(found)}, too many {set(found) - expected}"
    )
    return len(found), machine.runs, len(search.unreached)


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_the_outcomes_are_those_of_all_legal_matchings_each_once() -> None:
    done, seed, several = 0, 0, 0
    while done < PROGRAMS:
        seed += 1
        if (result := compared(seed)) is None:
            continue
        outcomes, runs, unreached = result
        assert runs == outcomes - 1 + unreached, f"seed {seed}: {runs} runs for {outcomes} outcomes"
        done += 1
        several += outcomes > 1
    assert several > PROGRAMS / 5


def wildcards(senders: int) -> list[list[Op]]:
    """One receiver of any source, and so many ranks that send it a message each."""
    receives: list[Op] = [("recv", ANY, 0)] * senders
    return [receives, *([("send", 0, 0, "")] for _ in range(senders))]


@pytest.mark.cases(1)
@pytest.mark.parametrize("seed", range(5))
def test_the_orders_at_the_corners_are_among_the_first_of_720(seed: int) -> None:
    """By falling rank, by rising rank, and the opposite of the record: of each at most six steps, every other run."""
    program, rng = wildcards(6), random.Random(seed)
    search = Search(Machine(program, rng))
    search.add_run(build(program, record(program, rng))[0])

    def orders() -> list[tuple[Any, ...]]:
        return [tuple(one.made[place].source for place in sorted(one.made)) for one in search.outcomes]

    [recorded] = orders()
    corners = {(6, 5, 4, 3, 2, 1), (1, 2, 3, 4, 5, 6), recorded[::-1]}
    for _ in islice(search.run_variants(), 40):
        if corners <= set(orders()):
            break
    assert corners <= set(orders())
