"""A run of masters and workers, which nothing brings together, is cut where a look at what follows shows all races."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stretches.pools import pool
from stretches.seeds import seeds
from stretches.test_stretches import compared
from weft.match import match
from weft.order import order
from weft.stretches import Looking, Walk, last_send, look, uncut
from weft.trace import Trace

TASKS, LEAST = 300, 40


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of few calls a rank, cut near the end too."""
    monkeypatch.setattr("weft.stretches.moments.A_RANK", 1)
    monkeypatch.setattr("weft.stretches.closed.LAST", 1)


@seeds(30, 300)
def test_random_pools_have_the_same_findings(seeds: range, tmp_path: Path) -> None:
    stretches: Counter[int] = Counter()
    for seed in seeds:
        stretches[compared(pool(random.Random(seed), tmp_path / str(seed), TASKS), LEAST)] += 1
    assert sum(count for many, count in stretches.items() if many > 3) > 0.3 * len(seeds), stretches


def walk_of(trace: Trace, least: int = LEAST) -> Walk:
    of = uncut(trace, [look(rank) for rank in trace.ranks])
    last = np.array([last_send(rank) for rank in trace.ranks])
    return Walk(of, of.at[0], least, Looking(of, last, np.zeros(len(trace.ranks), np.bool_)))


@seeds(10, 60)
def test_nothing_crosses_the_cuts(seeds: range, tmp_path: Path) -> None:
    many = 0
    for seed in seeds:
        trace = pool(random.Random(seed), tmp_path / str(seed), TASKS)
        whole, walk = match(trace), walk_of(trace)
        for _ in walk:
            pass
        there = np.flatnonzero(whole.sends.partner != 2**32 - 1)
        to = whole.sends.partner[there]
        for cut in [*walk.at[1:], *(end for end, _ in walk.looks.values())]:
            many += 1
            sent = whole.sends.event[there] < cut[whole.sends.ranks()[there]]
            taken = whole.recvs.event[to] < cut[whole.recvs.ranks()[to]]
            complete = whole.recvs.completion[to] < cut[whole.recvs.ranks()[to]]
            assert (sent == taken).all() and (taken == complete).all(), seed
    assert many > 5 * len(seeds)


@seeds(6, 40)
def test_the_order_within_a_look_is_that_of_the_run(seeds: range, tmp_path: Path) -> None:
    asked = 0
    for seed in seeds:
        trace = pool(random.Random(seed), tmp_path / str(seed), 60)
        whole = order(trace, match(trace))
        for _, _, ahead in walk_of(trace, 16):
            assert ahead is not None
            here = ahead.stretch
            events = [(r.index, e) for r in here.ranks for e in range(r.ahead, len(r))]
            for a in events[::3]:
                for b in events[::4]:
                    asked += 1
                    there = whole.reaches(here.whole(a), here.whole(b), a_end=True, b_end=False)
                    assert ahead.order.reaches(a, b, a_end=True, b_end=False) == there, (seed, a, b)
    assert asked > 50 * len(seeds)
