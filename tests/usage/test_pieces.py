"""Ranks whose requests are looked at a piece at a time: clean only where nothing is found in the whole rank."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.trace import Rank
from weft.trace.builder import Builder, RankBuilder, Request
from weft.trace.layout import PROC_NULL
from weft.usage import long_ranks
from weft.usage.long_ranks import find
from weft.usage.requests import check_rank_requests


@pytest.fixture(autouse=True, params=[3, 8, 30])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of few calls."""
    monkeypatch.setattr(long_ranks, "PIECE", request.param)


class Program:
    """Random calls of rank 0, in order but for some that are wrong."""

    def __init__(self, seed: int, path: Path, *, wrong: float) -> None:
        self.rng, self.wrong = random.Random(seed), wrong
        self.b = Builder(ranks=2, path=path)
        for r in self.b.ranks:
            r.init()
        self.r: RankBuilder = self.b.ranks[0]
        self.pending: list[Request] = []
        self.over: list[Request] = []
        self.idle: list[Request] = []
        """Persistent ones that are not under way."""
        self.started: list[Request] = []
        self.busy: set[int] = set()

    def buffer(self) -> int:
        """A place for a few bytes: one of those that are not in use, or any."""
        free = [at for at in range(0x1000, 0x1000 + 32 * 16, 16) if at not in self.busy]
        any_ = self.rng.random() < self.wrong or not free
        return 0x1000 + 16 * self.rng.randrange(32) if any_ else self.rng.choice(free)

    def pend(self, made: Request, at: int) -> None:
        made.at = at  # type: ignore[attr-defined]
        self.busy.add(at)
        self.pending.append(made)

    def begin(self) -> None:
        at = self.buffer()
        self.pend(self.r.isend(1, 1, buffer=at) if self.rng.random() < 0.5 else self.r.irecv(1, 1, buffer=at), at)

    def nobody(self) -> None:
        self.r.wait(self.r.irecv(PROC_NULL, 1, buffer=self.buffer()))

    def blocking(self) -> None:
        at = self.buffer()
        if self.rng.random() < 0.5:
            self.r.recv(1, 2, buffer=at)
        else:
            self.r.send(1, 2, buffer=at)

    def make(self) -> None:
        at = self.buffer()
        made = self.r.send_init(1, 3, buffer=at) if self.rng.random() < 0.5 else self.r.recv_init(1, 3, buffer=at)
        made.at = at  # type: ignore[attr-defined]
        self.busy.add(at)  # as long as it is there
        self.idle.append(made)

    def start(self) -> None:
        if self.idle:
            some = [self.idle.pop(self.rng.randrange(len(self.idle))) for _ in range(1 + (len(self.idle) > 2))]
            self.r.startall(some) if self.rng.random() < 0.5 else [self.r.start(one) for one in some]
            self.pending += some
            self.started += some

    def free(self) -> None:
        used = [one for one in self.idle if one in self.started]
        if used and self.rng.random() < 0.3:
            one = self.rng.choice(used)
            self.idle.remove(one)
            self.r.request_free(one)
            self.busy.discard(one.at)  # type: ignore[attr-defined]

    def done(self, some: list[Request]) -> None:
        for one in some:
            self.pending.remove(one)
            if one.persistent:
                self.idle.append(one)
            else:
                self.busy.discard(one.at)  # type: ignore[attr-defined]
                self.over.append(one)

    def end_some(self) -> None:
        if not self.pending:
            return
        some = self.rng.sample(self.pending, self.rng.randint(1, len(self.pending)))
        how = self.rng.randrange(3)
        if how == 0:
            self.r.waitall(some)
        elif how == 1:
            some = some[:1]
            self.r.test(some[0])
        else:
            self.r.waitsome(self.pending, sorted(self.pending.index(one) for one in some))
        self.done(some)

    def end_all(self) -> None:
        if self.pending:
            self.r.waitall(self.pending)
            self.done(list(self.pending))

    def one_handle(self) -> None:
        """Two sends that were complete at once, and so had one handle."""
        first, last = self.buffer(), self.buffer()
        self.r.isend(1, 4, buffer=first)
        two = self.r.isend(1, 4, buffer=last)
        self.r.waitall([two, two])

    def error(self) -> None:
        how = self.rng.randrange(5)
        if how == 0 and self.over:
            self.r.wait(self.rng.choice(self.over))
        elif how == 1:
            self.r.isend(1, 5, buffer=self.buffer())
        elif how == 2 and any(one.persistent for one in self.pending):
            self.r.start(self.rng.choice([one for one in self.pending if one.persistent]))
        elif how == 3 and self.over:
            self.r.start(self.rng.choice(self.over))
        elif how == 4 and self.pending:
            one = self.rng.choice(self.pending)
            self.r.request_free(one)
            self.pending.remove(one)

    def rank(self, calls: int, *, handles: bool) -> Rank:
        """The rank as it is read again."""
        steps: list[Callable[[], None]] = [
            self.begin, self.begin, self.blocking, self.end_some, self.end_all, self.end_all, self.make, self.start,
            self.start, self.free, self.nobody,
        ]  # fmt: skip
        if handles:
            steps.append(self.one_handle)
        for _ in range(calls):
            self.error() if self.rng.random() < self.wrong else self.rng.choice(steps)()
        self.end_all()
        for one in self.idle:
            self.r.start(one)
            self.r.wait(one)
            if self.rng.random() >= self.wrong / 4:
                self.r.request_free(one)
        for r in self.b.ranks:
            r.finalize()
        return self.b.open().ranks[0]


@pytest.mark.matrix
def test_what_is_clean_piece_by_piece_has_no_findings(tmp_path: Path) -> None:
    clean = dirty = 0
    for seed in range(36):
        program = Program(seed, tmp_path / str(seed), wrong=(0, 0, 0.01, 0.05)[seed % 4])
        rank = program.rank(160, handles=seed % 3 == 0)
        whole = check_rank_requests(rank)
        if long_ranks.has_clean_requests(rank):
            clean += 1
            assert whole == [], seed
        else:
            dirty += bool(whole)
        assert find(rank.trace)[: len(whole)] == whole
    assert clean >= 8, "and most of those that are right are seen to be so"
    assert dirty >= 8


@pytest.mark.cases(1)
def test_a_rank_without_faults_is_clean_in_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    old = long_ranks.Requests.is_clean

    def counted(self: long_ranks.Requests) -> bool:
        seen.append(len(self.rank))
        return old(self)

    monkeypatch.setattr(long_ranks.Requests, "is_clean", counted)
    b = Builder(ranks=2, path=tmp_path / "run")
    out, into = b.ranks[0].send_init(1, buffer=0x100), b.ranks[0].recv_init(1, buffer=0x200)
    for _ in range(200):
        b.ranks[0].startall([out, into])
        b.ranks[0].waitall([out, into, b.ranks[0].isend(1, buffer=0x300)])
    for one in (out, into):
        b.ranks[0].request_free(one)
    for r in b.ranks:
        r.finalize()
    rank = b.open().ranks[0]
    assert long_ranks.has_clean_requests(rank)
    assert len(seen) >= 5
    assert max(seen) < len(rank) / 2


def test_requests_that_are_pending_throughout_are_looked_at_whole(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    always = b.ranks[0].irecv(1, buffer=0x100)
    for step in range(400):
        b.ranks[0].wait(b.ranks[0].isend(1, buffer=0x200 + 16 * step))
    b.ranks[0].wait(b.ranks[0].isend(1, buffer=0x100))
    b.ranks[0].wait(always)
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    [one] = find(trace)
    assert one.kind == "buffer-reuse"
