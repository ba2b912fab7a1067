"""Plans: the outcomes of level outcomes taken apart, held against a simulation of what the recorder writes."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.match import match_operations
from weft.replay import make_plans
from weft.replay.layout import CLOCK, POSTED_FREE, POSTED_NEVER, Outcome, PlanFlag
from weft.replay.planning import plan_thread_from_outcomes
from weft.trace.builder import Builder
from weft.trace.layout import LogKind as Kind


class Simulated:
    """A thread of a program, and what the recorder writes of it at level outcomes (native/format.h, weft_log_kind)."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.written: list[tuple[int, int]] = []
        self.sources: list[int] = []
        """By wildcard in order of posting, what the plan must give."""
        self.pending: list[int] = []
        self.calls: list[tuple[Outcome, int, list[int]]] = []
        """Outcome, failed polls before it, values."""
        self.polls = 0
        self.times: list[float] = []

    def post(self) -> int:
        self.sources.append(POSTED_FREE)
        self.pending.append(len(self.sources) - 1)
        return self.pending[-1]

    def complete(self, ordinal: int) -> None:
        late = self.pending.index(ordinal)
        self.pending.remove(ordinal)
        if late:
            self.written.append((Kind.LATE, late))
        if self.rng.random() < 0.2:
            self.sources[ordinal] = POSTED_NEVER
            self.written.append((Kind.CANCELLED, 1))
        else:
            self.sources[ordinal] = self.rng.randrange(40)
            self.written.append((Kind.SOURCE, self.sources[ordinal]))

    def answered(self) -> None:
        """A call other than a receive whose outcome is written."""
        outcome = self.rng.choice([Outcome.DONE, Outcome.INDEX, Outcome.COUNT, Outcome.SOURCE])
        if outcome is Outcome.DONE:
            self.written.append((Kind.DONE, self.polls))
            values = []
        else:
            if self.polls:
                self.written.append((Kind.POLLS, self.polls))
            if outcome is Outcome.SOURCE:
                values = [self.rng.randrange(40)]
                self.written.append((Kind.PROBED, values[0]))
            elif outcome is Outcome.INDEX:
                values = [self.rng.randrange(-1, 5)]
                self.written.append((Kind.INDEX, values[0] + 1))
            else:
                count = self.rng.randrange(-1, 4)
                values = [count, *(self.rng.randrange(9) for _ in range(count))]
                self.written.append((Kind.COUNT, count + 1))
                self.written += [(Kind.INDEX, index + 1) for index in values[1:]]
        self.calls.append((outcome, self.polls, values))
        self.polls = 0

    def clock(self) -> None:
        passed = self.rng.randrange(10**9)
        self.times.append((self.times[-1] if self.times else 0.0) + passed * 1e-9)
        self.written.append((Kind.TIME, passed))

    def step(self) -> None:
        kind = self.rng.choice(["post", "receive", "complete", "complete", "poll", "answered", "clock"])
        if kind == "post":
            self.post()
        elif kind == "receive":
            self.complete(self.post())
        elif kind == "complete" and self.pending:
            self.complete(self.rng.choice(self.pending))
        elif kind == "poll":
            self.polls += 1
        elif kind == "answered":
            self.answered()
        elif kind == "clock":
            self.clock()


@given(st.integers(0, 2**32), st.integers(0, 60))
def test_the_plan_gives_every_wildcard_its_source_and_every_poll_its_failures(seed: int, steps: int) -> None:
    thread = Simulated(seed)
    for _ in range(steps):
        thread.step()
    found = plan_thread_from_outcomes(thread.written, 0)
    # Wildcards behind the last that completed stay wildcards: nothing tells of them.
    known = len(thread.sources)
    while known and thread.sources[known - 1] == POSTED_FREE:
        known -= 1
    assert found.posts.tolist() == thread.sources[:known]
    clocks = found.times.view(CLOCK)
    assert clocks["first"].copy().view(np.float64)[:, 0].tolist() == thread.times
    assert not clocks["more"].any()
    rows = [
        (Outcome(e["outcome"]), int(e["polls"]), found.values[e["value"] : e["value"] + len(values)].tolist())
        for e, (_, _, values) in zip(found.entries, thread.calls, strict=True)
    ]
    assert rows == thread.calls


def test_a_receive_that_completes_out_of_turn_is_not_the_oldest() -> None:
    found = plan_thread_from_outcomes([(Kind.LATE, 2), (Kind.SOURCE, 7), (Kind.SOURCE, 5), (Kind.CANCELLED, 1)], 0)
    assert found.posts.tolist() == [5, POSTED_NEVER, 7]


def test_a_receive_that_never_completes_stays_a_wildcard() -> None:
    found = plan_thread_from_outcomes([(Kind.LATE, 1), (Kind.SOURCE, 7)], 0)
    assert found.posts.tolist() == [POSTED_FREE, 7]


def test_sources_are_ranks_of_the_receives_communicator() -> None:
    b = Builder(ranks=4)
    some = b.split([1, 0, 0, 0])[0]  # ranks 1, 2 and 3 of the world are 0, 1 and 2 there
    b.ranks[2].send(0, tag=7, comm=some)
    b.ranks[3].send(0, tag=7, comm=some)
    b.ranks[1].recv(tag=7, got=2, comm=some)
    b.ranks[1].recv(1, tag=7, comm=some)
    trace = b.open()
    plans = make_plans(trace, match_operations(trace))
    assert plans[1].threads[0].posts.tolist() == [2]
    assert [len(p.threads[0].entries) for p in plans] == [1, 3, 2, 2]
    assert all(p.flags & PlanFlag.CHECKED for p in plans)
