"""The order in which ranks had locks and looked at places, told from what each of them kept."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import weft
from weft.replay.layout import TurnKind
from weft.replay.turns import Location, find_turns
from weft.trace.builder import Builder
from weft.trace.layout import ACCESS, AccessKind, Change

WORD = 2**64


class History:
    """Accesses of some ranks to one place: each takes effect at a moment of its own between its begin and its end."""

    def __init__(self, seed: int, ranks: int, calls: int) -> None:
        rng = random.Random(seed)
        clocks = [rng.random() for _ in range(ranks)]
        moments = []
        for _ in range(calls):
            rank = rng.randrange(ranks)
            begin = clocks[rank] + rng.random()
            moment = begin + rng.random() * 3
            clocks[rank] = moment + rng.random() * 3
            moments.append((moment, rank, begin, clocks[rank]))
        value = 0
        self.owners: list[tuple[int, int]] = []
        self.rows = np.zeros(calls, ACCESS)
        issued = [0] * ranks
        for row, (_, rank, begin, end) in zip(self.rows, sorted(moments), strict=True):
            change = rng.choice([Change.NONE, Change.REPLACE, Change.SUM, Change.SWAP])
            row["begin"], row["end"] = int(begin * 1e6), int(end * 1e6)
            row["kind"] = rng.choice([AccessKind.FETCH] * 4 + [AccessKind.UPDATE])
            if row["kind"] == AccessKind.UPDATE and change in (Change.SWAP, Change.NONE):
                row["kind"] = AccessKind.FETCH
            row["bytes"], row["change"], row["ordinal"] = 8, change, issued[rank]
            row["operand"], row["compare"] = rng.randrange(4), rng.randrange(4)
            row["result"] = value if row["kind"] == AccessKind.FETCH else 0
            value = left(row, value)
            issued[rank] += 1
            self.owners.append((rank, 0))


def left(row: Any, value: int) -> int:
    """What an access leaves where it finds `value`."""
    if row["change"] == Change.REPLACE or (row["change"] == Change.SWAP and value == row["compare"]):
        return int(row["operand"])
    return (value + int(row["operand"])) % WORD if row["change"] == Change.SUM else value


def finds(rows: NDArray[Any], order: list[int]) -> int:
    """How many fetches would find what they did, in this order."""
    value, right = int(rows["result"][order[0]]), 0
    for i in order:
        right += rows["kind"][i] != AccessKind.FETCH or int(rows["result"][i]) == value
        value = left(rows[i], value)
    return right


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(2, 25))
def test_nothing_comes_before_what_had_ended_when_it_began(seed: int, ranks: int, calls: int) -> None:
    h = History(seed, ranks, calls)
    order = Location(h.rows, h.owners).find_order()
    assert sorted(order) == list(range(calls))
    for k, i in enumerate(order):
        assert all(h.rows["end"][later] >= h.rows["begin"][i] for later in order[k + 1 :])


def counter(results: list[int], spans: list[tuple[int, int]]) -> Location:
    """Fetches of a counter, each of a rank of its own."""
    rows = np.zeros(len(results), ACCESS)
    rows["kind"], rows["bytes"], rows["change"], rows["operand"] = AccessKind.FETCH, 8, Change.SUM, 1
    rows["result"] = results
    rows["begin"], rows["end"] = zip(*spans, strict=True)
    return Location(rows, [(rank, 0) for rank in range(len(results))])


def test_a_counter_is_counted_up_whoever_was_told_first() -> None:
    place = counter([2, 0, 1, 3], [(0, 10), (0, 20), (0, 30), (0, 40)])
    assert place.find_order() == [1, 2, 0, 3]
    assert place.unexplained == 0


def test_values_that_no_order_explains_are_counted() -> None:
    place = counter([5, 0, 9], [(0, 1), (2, 3), (4, 5)])
    assert place.find_order() == [0, 1, 2]
    assert place.unexplained == 2


def row(kind: AccessKind, **fields: int) -> NDArray[Any]:
    made = np.zeros(1, ACCESS)
    made["kind"], made["window"] = kind, 7
    for name, value in fields.items():
        made[name] = value
    return made


def test_locks_come_in_the_order_in_which_they_were_held(tmp_path: Path) -> None:
    b = Builder(ranks=3, path=tmp_path)
    b.ranks[0].append_accesses(row(AccessKind.EXCLUSIVE, begin=1, held=30, end=90))
    b.ranks[1].append_accesses(row(AccessKind.EXCLUSIVE, begin=2, held=10, end=95))
    b.ranks[2].append_accesses(row(AccessKind.SHARED, begin=3, held=20, end=25))
    trace = weft.open(b.write())
    found = find_turns(trace.ranks).rows
    assert [found[rank, 0]["needed"][0] for rank in range(3)] == [2, 0, 1]
    assert found[2, 0]["kind"][0] == TurnKind.READS


def test_shared_locks_alone_take_no_turns(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path)
    for rank in b.ranks:
        rank.append_accesses(row(AccessKind.SHARED, begin=1, held=2, end=3))
    assert find_turns(weft.open(b.write()).ranks).rows == {}


def test_a_lock_of_all_waits_at_each_target_that_somebody_had_for_himself(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path)
    b.ranks[0].append_accesses(row(AccessKind.EXCLUSIVE, held=2, end=3, target=0))
    b.ranks[0].append_accesses(row(AccessKind.EXCLUSIVE, held=4, end=5, target=1, ordinal=1))
    b.ranks[1].append_accesses(row(AccessKind.SHARED, held=6, end=7, target=-1))
    found = find_turns(weft.open(b.write()).ranks)
    assert found.rows[1, 0]["needed"].tolist() == [1, 1]
    assert len(set(found.rows[1, 0]["channel"].tolist())) == 2
    assert len(found.before) == 2


def test_what_ranks_fetched_of_one_place_is_explained_nearly_always() -> None:
    explained = total = 0
    for seed in range(300):
        h = History(seed, 3, 20)
        explained += finds(h.rows, Location(h.rows, h.owners).find_order())
        total += len(h.rows)
    assert explained > 0.98 * total
