"""A run in which nothing brings its ranks together is cut where nothing crosses, and has the findings of the whole."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from report.parallel.test_together import COMPARED, together
from segments.seeds import seeds, workers
from segments.test_segments import compared, in_segments
from weft.match import Collectives, Match, Posts, match_operations
from weft.order import order_events
from weft.report import AnalysisContext
from weft.report.parallel import SingleWorker
from weft.report.segments import analyse_in_segments
from weft.report.tables import make_tables, make_tables_of_context
from weft.segments import Cuts, SegmentWalk, find_cuts, has_wide_gaps, make_cuts_of_whole_run, scan_rank
from weft.segments.greatest_cut import CutDescent, match_without_carried, receives_that_may_be_pending
from weft.trace import Trace
from weft.trace.builder import Builder, Comm, RankBuilder
from weft.trace.layout import ANY_SOURCE, ANY_TAG

Step = Callable[[random.Random, "Program"], None]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of few calls a rank, cut near the end too."""
    monkeypatch.setattr("weft.segments.cut_points.A_RANK", 1)
    monkeypatch.setattr("weft.segments.closed_cuts.LAST", 1)


class Program:
    """Ranks that never all meet: what is begun now may be ended some steps later."""

    def __init__(self, rng: random.Random, path: Path) -> None:
        self.b = Builder(ranks=rng.randint(2, 5), path=path)
        self.lines: dict[tuple[str, str], int] = {}
        self.kind = ""
        for r in self.b.ranks:
            r.call = partial(self._placed, r.call)  # type: ignore[method-assign]
            r.init()
        self.halves = self.b.split([r % 2 for r in range(len(self.b.ranks))])
        self.comms: list[Comm] = [self.b.world, self.b.dup()]
        self.apart = [self.b.dup() for _ in range(3)]
        """Each for one receive of any tag, which else would take the first message that comes."""
        self.later: list[tuple[int, Callable[[], object]]] = []
        self.step = 0
        one, two = self.b.ranks[:2]
        self.kept = two, two.send_init(0, tag=6), one, one.recv_init(1, tag=6)

    def _placed(self, call: Callable[..., int], function: str, **kw: object) -> int:
        """Make a call at a line of its own for each kind of step and each function."""
        line = self.lines.setdefault((self.kind, function), 10 + len(self.lines))
        return call(function, **{"site": ("prog.c", line, "main"), **kw})

    def two(self, rng: random.Random) -> list[RankBuilder]:
        return rng.sample(list(self.b.ranks), 2)

    def after(self, rng: random.Random, call: Callable[[], object]) -> None:
        """Make a call in some steps: often the next one, seldom much later."""
        self.later.append((self.step + rng.choice([1, 1, 2, 2, 3, 25]), call))

    def due(self, *, every: bool = False) -> None:
        for one in [one for one in self.later if every or one[0] <= self.step]:
            self.later.remove(one)
            one[1]()


def _message(rng: random.Random, p: Program) -> None:
    one, two = p.two(rng)
    comm, tag = rng.choice(p.comms), rng.randrange(3)
    rng.choice([one.send, one.send, one.ssend, one.bsend])(two.index, tag, comm=comm)
    if rng.random() < 0.3:
        two.probe(one.index, tag, comm=comm)
    two.recv(one.index, tag, comm=comm)


def _to_itself(rng: random.Random, p: Program) -> None:
    """Sent by a rank to itself, received at once or some steps later."""
    one, _ = p.two(rng)
    tag = 3000 + p.step
    one.send(one.index, tag)
    if rng.random() < 0.5:
        one.recv(one.index, tag)
    else:
        p.after(rng, lambda: one.recv(one.index, tag))


def _odd(rng: random.Random, p: Program) -> None:
    """Of other types or too long."""
    one, two = p.two(rng)
    one.send(two.index, 4, count=rng.choice([4, 8]), datatype=rng.choice(["MPI_INT", "MPI_FLOAT"]))
    two.recv(one.index, 4, count=4, datatype="MPI_INT")


def _begun(rng: random.Random, p: Program) -> None:
    one, two = p.two(rng)
    tag = 10 + p.step if rng.random() < 0.5 else 5
    into = two.irecv(one.index, tag)
    out = rng.choice([one.isend, one.issend])(two.index, tag)
    p.after(rng, lambda: two.wait(into))
    p.after(rng, lambda: one.wait(out))


def _late(rng: random.Random, p: Program) -> None:
    """A message that is received later."""
    one, two = p.two(rng)
    tag = 1000 + p.step
    one.send(two.index, tag)
    p.after(rng, lambda: two.recv(one.index, tag))


def _exchange(rng: random.Random, p: Program) -> None:
    one, two = p.two(rng)
    if rng.random() < 0.5:
        one.sendrecv(two.index, two.index, sendtag=7, recvtag=8)
        two.sendrecv(one.index, one.index, sendtag=8, recvtag=7)
    else:
        one.send(two.index, 1)
        two.send(one.index, 1)
        one.recv(two.index, 1)
        two.recv(one.index, 1)


def _ready(rng: random.Random, p: Program) -> None:
    """A ready send whose receive is posted before it, told by a message or not, or after it."""
    one, two = p.two(rng)
    how = rng.randrange(3)
    if how == 2:
        one.rsend(two.index, 9)
    into = two.irecv(one.index, 9)
    if how == 0:
        two.send(one.index, 2)
        one.recv(two.index, 2)
    if how < 2:
        one.rsend(two.index, 9)
    two.wait(into)


def _pending(rng: random.Random, p: Program) -> None:
    """A receive that is posted long before its message is sent, of any tag or not."""
    one, two = p.two(rng)
    tag = 2000 + p.step
    any_tag = bool(p.apart) and rng.random() < 0.3
    comm = p.apart.pop() if any_tag else p.b.world
    into = two.irecv(one.index, ANY_TAG if any_tag else tag, got_tag=tag, comm=comm)

    def comes() -> None:
        rng.choice([one.send, one.ssend])(two.index, tag, comm=comm)
        rng.choice([two.wait, two.test])(into)

    p.after(rng, comes)


def _half(rng: random.Random, p: Program) -> None:
    comm = p.halves[rng.choice(sorted(p.halves))]
    call = rng.choice(["barrier", "allreduce", "bcast"])
    for member in comm.members:
        getattr(p.b.ranks[member], call)(comm=comm)


def _rooted(rng: random.Random, p: Program) -> None:
    root, comm = rng.randrange(len(p.b.ranks)), rng.choice(p.comms)
    call = rng.choice(["bcast", "reduce"])
    for r in p.b.ranks:
        getattr(r, call)(root=root, comm=comm, count=2 if rng.random() < 0.02 else 1)


def _started(rng: random.Random, p: Program) -> None:
    sender, out, receiver, into = p.kept
    sender.start(out)
    receiver.start(into)
    sender.wait(out)
    receiver.wait(into)


def _lost(rng: random.Random, p: Program) -> None:
    """A message that nobody takes, of a tag that others take or not."""
    one, two = p.two(rng)
    tag = rng.choice([5000, 5000, 5])
    if rng.random() < 0.5:
        one.send(two.index, tag)
    else:
        one.wait(one.isend(two.index, tag))


def _never(rng: random.Random, p: Program) -> None:
    """A receive that is never complete, and given up or not."""
    one, two = p.two(rng)
    into = two.irecv(one.index, 6000)
    if rng.random() < 0.3:
        p.after(rng, lambda: two.request_free(into))


def _cancelled(rng: random.Random, p: Program) -> None:
    """A receive that is cancelled, now or later, and what comes of its message where others are received beside it."""
    one, two = p.two(rng)
    tag = rng.choice([7000, 7000, 7001, 7000 + p.step])
    into = two.irecv(one.index, tag, cancelled=True)
    end = rng.choice([two.wait, two.wait, two.test, two.request_free])

    def given_up() -> None:
        two.cancel(into)
        if rng.random() < 0.5:
            end(into)
        else:
            p.after(rng, lambda: end(into))
        if rng.random() < 0.7:
            one.send(two.index, tag)
            two.recv(one.index, tag)

    if rng.random() < 0.4:
        given_up()
    else:
        p.after(rng, given_up)


STEPS: tuple[Step, ...] = (
    _message, _message, _message, _begun, _begun, _exchange, _half, _half, _rooted, _started, _ready, _odd, _late,
    _pending, _pending, _lost, _never, _to_itself, _cancelled,
)  # fmt: skip


def program(rng: random.Random, path: Path, steps: int = 60) -> Trace:
    """A random program of these steps, that ends well, or with one who waits for ever, or with a lost message."""
    p = Program(rng, path)
    chosen = rng.sample(STEPS, rng.randint(3, len(STEPS)))
    for p.step in range(rng.randint(steps // 3, steps)):
        p.due()
        step = rng.choice(chosen)
        p.kind = step.__name__
        step(rng, p)
    p.due(every=True)
    end = rng.random()
    if end < 0.3:
        one, two = p.two(rng)
        one.open.recv(two.index, 99)
        two.open.recv(one.index, 98)
    if 0.2 < end < 0.5:
        _lost(rng, p)
    if end >= 0.3:
        for r in p.b.ranks:
            r.finalize()
    return p.b.open()


def walked(trace: Trace, least: int = 8) -> tuple[Cuts, SegmentWalk]:
    of = make_cuts_of_whole_run(trace, [scan_rank(rank) for rank in trace.ranks])
    return of, SegmentWalk(of, of.at[0], least)


@pytest.mark.matrix
@seeds(12, 80)
def test_random_programs_have_the_same_findings(seeds: range, tmp_path: Path) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        segments[compared(program(random.Random(seed), tmp_path / str(seed)))] += 1
    assert sum(count for many, count in segments.items() if many > 3) > 0.4 * len(seeds), segments


@seeds(8, 40)
def test_the_tables_of_random_programs_add_up(seeds: range, tmp_path: Path) -> None:
    many = 0
    for seed in seeds:
        trace = program(random.Random(seed), tmp_path / str(seed))
        made = in_segments(trace)
        if made is None:
            continue
        many += 1
        whole, sums = make_tables(Trace.open(trace.path), match_operations(trace)), make_tables_of_context(made[0])
        assert (whole.messages == sums.messages).all() and (whole.bytes == sums.bytes).all()
        assert (whole.ledger.by_rank == sums.ledger.by_rank).all() and (
            whole.ledger.wall_ns == sums.ledger.wall_ns
        ).all()
        assert {key: sorted(rows) for key, rows in whole.times.items()} == {
            key: sorted(rows) for key, rows in sums.times.items()
        }
    assert many > 0.4 * len(seeds)


def columns_of(rows: Posts | Collectives) -> dict[str, list[int]]:
    return {field.name: np.asarray(getattr(rows, field.name)).tolist() for field in fields(rows)}


@seeds(8, 40)
def test_the_match_of_a_segment_is_that_of_its_window_and_of_the_run(seeds: range, tmp_path: Path) -> None:
    many = 0
    for seed in seeds:
        trace = program(random.Random(seed), tmp_path / str(seed))
        whole = match_operations(trace)
        pairs = {
            (whole.sends.id(s), whole.recvs.id(int(r))) for s, r in enumerate(whole.sends.partner) if r < 2**32 - 1
        }
        _, walk = walked(trace)
        for segment, of, _ in walk:
            many += 1
            alone = match_operations(segment)
            alone = match_without_carried(alone, segment) if any(map(len, segment.out)) else alone
            for name in ("sends", "recvs", "probes", "collectives"):
                assert columns_of(getattr(of, name)) == columns_of(getattr(alone, name)), name
            assert of.instances.rows.tolist() == alone.instances.rows.tolist()
            for s, r in enumerate(of.sends.partner.tolist()):
                assert (segment.to_run_event(of.sends.id(s)), segment.to_run_event(of.recvs.id(r))) in pairs
    assert many > 5 * len(seeds)


@seeds(12, 60)
def test_the_order_of_a_segment_is_that_of_the_run(seeds: range, tmp_path: Path) -> None:
    """No chain leads out of a segment and back."""
    asked = 0
    for seed in seeds:
        trace = program(random.Random(seed), tmp_path / str(seed), 40)
        whole = order_events(trace, match_operations(trace))
        _, walk = walked(trace, 24)
        for segment, of, _ in walk:
            mine = order_events(segment, of)
            events = [(r.index, e) for r in segment.ranks for e in range(r.ahead, len(r))]
            for a in events[::2]:
                for b in events[::3]:
                    for end in (False, True):
                        asked += 1
                        there = whole.reaches(
                            segment.to_run_event(a), segment.to_run_event(b), a_end=end, b_end=not end
                        )
                        assert mine.reaches(a, b, a_end=end, b_end=not end) == there, (seed, a, b)
    assert asked > 80 * len(seeds)


OVER = ("MPI_Wait", "MPI_Test", "MPI_Request_free")


def greatest(of: Match, window: list[int], carried: tuple[list[bool], list[bool]]) -> tuple[int, ...]:
    """The greatest closed cut within a window, by looking at all links again and again.

    Of what is carried, sends and receives, a receive goes with its completion in the place of its post.
    """
    trace, bound = of.trace, list(window)
    links: list[list[tuple[int, int]]] = []
    for posts in (of.sends, of.recvs, of.probes):
        for row in range(len(posts)):
            rank, event = posts.id(row)
            completion = rank, min(int(posts.completion[row]), 10**9)
            partner = int(posts.partner[row])
            if posts is of.sends:
                if carried[0][row]:
                    continue
                other = of.recvs.id(partner) if partner < 2**32 - 1 else (rank, 10**9)
                if partner < 2**32 - 1 and carried[1][partner]:
                    other = other[0], min(int(of.recvs.completion[partner]), 10**9)
                links.append([(rank, event), completion, other])
            elif posts is of.recvs and carried[1][row]:
                links.append([completion, of.sends.id(partner) if partner < 2**32 - 1 else (rank, 10**9)])
            elif posts is of.probes and partner < 2**32 - 1 and carried[0][partner]:
                links.append([(rank, event), (rank, 10**9)])
            else:
                other = of.sends.id(partner) if partner < 2**32 - 1 else (rank, 10**9)
                links.append([(rank, event), completion, other])
    for instance in range(len(of.instances)):
        parts = [int(row) for row in of.instances.parts(instance)]
        ids = [of.collectives.id(row) for row in parts]
        comm = trace.communicators[int(of.instances.comm[instance])]
        missing = [] if len(ids) == len(comm.members) else [(ids[0][0], 10**9)]
        ends = any(trace.event(*one).function.name == "MPI_Finalize" for one in ids)
        links.append([*ids, *missing, *([(ids[0][0], 10**9)] if ends else [])])
        links += [[one, (one[0], min(int(of.collectives.completion[row]), 10**9))]
                  for one, row in zip(ids, parts, strict=True)]  # fmt: skip
    for rank_ in trace.ranks:
        called = [(rank_.event(k).function.name, int(rank_.events["object"][k])) for k in range(len(rank_))]
        for request in {id for name, id in called if name == "MPI_Cancel"}:
            made = called.index(("MPI_Irecv", request))
            over = [k for k, (name, id) in enumerate(called) if id == request and name in OVER]
            links.append([(rank_.index, made), (rank_.index, over[0] if over else 10**9)])
    while True:
        before = list(bound)
        for link in links:
            if any(event >= bound[rank] for rank, event in link):
                for rank, event in link:
                    bound[rank] = min(bound[rank], event)
        if bound == before:
            return tuple(bound)


@pytest.mark.cases(1)
@pytest.mark.parametrize("carries", [False, True])
@seeds(12, 60)
def test_the_cut_is_the_greatest_that_is_closed(seeds: range, carries: bool, tmp_path: Path) -> None:
    moved = 0
    for seed in seeds:
        rng = random.Random(seed)
        trace = program(rng, tmp_path / str(seed), 40)
        of, _ = walked(trace)
        window = [rng.randint(len(rank) // 3, len(rank)) for rank in trace.ranks]
        segment = of.segment_between(of.at[0], np.array(window))
        made = match_operations(segment)
        over = receives_that_may_be_pending(made) if carries else np.zeros(len(made.recvs), np.bool_)
        lost = (made.sends.partner == 2**32 - 1) & carries & (np.random.default_rng(seed).random(len(made.sends)) < 0.5)
        found = CutDescent(segment, made, over, lost).find_cut()
        assert tuple(found.cut.tolist()) == greatest(made, window, (lost.tolist(), over.tolist())), seed
        moved += int(found.recvs.sum() + found.sends.sum())
    assert (moved > 20) == carries


def test_a_rank_that_its_own_message_takes_down_takes_others_down_with_it(tmp_path: Path) -> None:
    b = Builder(ranks=3, path=tmp_path / "run")
    r0, r1, r2 = b.ranks
    r1.send(1, 9)
    r0.send(1, 3)
    r1.recv(0, 3)
    r2.send(1, 4)
    r1.recv(2, 4)
    r1.recv(1, 9)
    of, _ = walked(b.open())
    segment = of.segment_between(of.at[0], np.array([1, 4, 0]))
    assert CutDescent(segment, match_operations(segment)).find_cut().cut.tolist() == [0, 0, 0]


def ping_pong(path: Path, *, rounds: int = 100, lost: bool = False, ahead: bool = False, end: str = "well") -> Trace:
    b = Builder(ranks=2, path=path)
    r0, r1 = b.ranks
    for r in b.ranks:
        r.init()
    if lost:
        r0.send(1, 55)
    if ahead:
        r0.send(1, 3)
        r1.send(0, 4)
    for _ in range(rounds):
        r0.send(1, 3)
        r1.recv(0, 3)
        r1.send(0, 4)
        r0.recv(1, 4)
    if ahead:
        r1.recv(0, 3)
        r0.recv(1, 4)
    if end == "hangs":
        r0.open.recv(1, 4)
        r1.open.recv(0, 3)
    else:
        for r in b.ranks:
            r.finalize()
    return b.open()


@pytest.mark.matrix
def test_a_ping_pong_is_cut_and_its_twin_that_hangs_is_told(tmp_path: Path) -> None:
    assert compared(ping_pong(tmp_path / "well")) > 20
    trace = ping_pong(tmp_path / "hangs", end="hangs")
    assert compared(trace) > 20
    made = in_segments(trace)
    assert made is not None and [f.kind for f in made[1]["deadlock"]] == ["deadlock"]


def test_what_is_under_way_at_every_cut_leaves_the_run_whole(tmp_path: Path) -> None:
    """In either direction one message is always on its way: there is no closed cut."""
    context = AnalysisContext(ping_pong(tmp_path / "run", ahead=True))
    assert analyse_in_segments(SingleWorker(), context, lambda share, now: None, 50) is None and context.parts is None


def ring(path: Path, *, taken: bool = False, ready: bool = False) -> Trace:
    """Receives are posted a step ahead, one is never complete, and one of two messages that nobody takes is taken."""
    b = Builder(ranks=3, path=path)
    for r in b.ranks:
        r.init()
    b.ranks[0].send(1, 55)
    b.ranks[0].wait(b.ranks[0].isend(1, 56))
    b.ranks[2].irecv(1, 57)
    into = {r.index: r.irecv((r.index - 1) % 3, 3) for r in b.ranks}
    for step in range(50):
        more = {r.index: r.irecv((r.index - 1) % 3, 3) for r in b.ranks}
        for r in b.ranks:
            (r.rsend if ready else r.send)((r.index + 1) % 3, 3)
        for r in b.ranks:
            r.wait(into[r.index])
        into = more
        if taken and step == 40:
            b.ranks[1].recv(0, 55)
    for r in b.ranks:
        r.send((r.index + 1) % 3, 3)
    for r in b.ranks:
        r.wait(into[r.index])
        r.finalize()
    return b.open()


@pytest.mark.matrix
def test_what_is_received_later_or_never_stands_in_no_cuts_way(tmp_path: Path) -> None:
    trace = ring(tmp_path / "run")
    assert compared(trace) > 20
    made = in_segments(trace)
    assert made is not None
    assert [f.facts()["tag"] for f in made[1]["messages"]] == [55, 56]
    assert "request-leak" in [f.kind for f in made[1]["requests"]]


def test_a_message_that_is_taken_late_goes_into_the_segment_of_its_receive(tmp_path: Path) -> None:
    """Nothing is cut between the two: a send that waited for it would hang there."""
    trace = ring(tmp_path / "run", taken=True)
    assert 0 < compared(trace) < 12


def test_nothing_is_carried_over_a_cut_where_ready_sends_ask_for_the_order(tmp_path: Path) -> None:
    assert in_segments(ring(tmp_path / "run", ready=True), 50) is None


def test_an_event_that_is_carried_lies_where_its_message_is(tmp_path: Path) -> None:
    made = in_segments(ring(tmp_path / "run"))
    assert made is not None and made[0].parts is not None
    of = made[0].parts.cuts
    assert of.moment_before((0, 1)) == of.moment_before((2, 1)) == len(of) - 1
    assert of.moment_before((1, 1)) < len(of) - 1
    for moment in range(1, len(of), 10):
        for index in of.carried.get(moment, [[], []])[1]:
            context, here = made[0].locate_event((1, int(index)))
            assert context.match.receives_of(here) and context.named(here) == (1, int(index))


@pytest.mark.parametrize("call", ["cancel", "group", "neither"])
def test_runs_whose_match_may_be_another_are_not_cut(call: str, tmp_path: Path) -> None:
    """A wildcard that is cancelled, and a communicator that some ranks make."""
    b = Builder(ranks=2, path=tmp_path / "run")
    r0, r1 = b.ranks
    for step in range(60):
        r0.send(1, 3)
        r1.recv(0, 3)
        if step == 50 and call == "cancel":
            request = r1.irecv(ANY_SOURCE, 77, cancelled=True)
            r1.cancel(request)
            r1.wait(request)
        if step == 50 and call == "group":
            b.comm("MPI_Comm_create_group", [0, 1], tag=0)
    assert (in_segments(b.open()) is None) == (call != "neither")


@pytest.mark.matrix
def test_world_collectives_far_apart_have_closed_cuts_between(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    r0, r1 = b.ranks
    for step in range(300):
        r0.send(1, 3)
        r1.recv(0, 3)
        if step in (100, 200):
            for r in b.ranks:
                r.barrier()
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    assert compared(trace) > 30


def test_a_moment_at_which_nothing_is_under_way_is_a_closed_cut(tmp_path: Path) -> None:
    """Between those, there is none in this run: windows grow until they hold one."""
    b = Builder(ranks=2, path=tmp_path / "run")
    for _ in range(4):
        for r in b.ranks:
            r.barrier()
        for r in b.ranks:
            r.send(1 - r.index, 3)
        for _ in range(60):
            for r in b.ranks:
                r.send(1 - r.index, 3)
            for r in b.ranks:
                r.recv(1 - r.index, 3)
        for r in b.ranks:
            r.recv(1 - r.index, 3)
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    of = find_cuts(trace, [scan_rank(rank) for rank in trace.ranks], 20)
    assert of is not None and has_wide_gaps(of, 20)
    made = in_segments(trace, 20)
    assert made is not None and made[0].parts is not None and len(made[0].parts.spans) > 2


@pytest.mark.matrix
def test_where_a_message_passes_every_world_collective_closed_cuts_go_on(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    r0, r1 = b.ranks
    for step in range(150):
        if step > 60:
            r0.send(1, 3)
        for r in b.ranks:
            r.barrier()
        if step > 60:
            r1.recv(0, 3)
    for r in b.ranks:
        r.finalize()
    assert compared(b.open()) > 20


@pytest.mark.matrix
@workers(3, 2, 4)
def test_several_processes_find_what_one_finds(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for seed in range(8):
        program(random.Random(seed), folder / f"run-{seed}", 200)
    shutil.copytree(ping_pong(tmp_path / "ping", rounds=300, end="hangs").path, folder / "ping")
    done = together(workers, sys.executable, COMPARED, folder, "8", timeout=240)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and last.endswith(" the same, 0 not"), done.stdout + done.stderr
    assert int(last.split()[0]) > 4, last
