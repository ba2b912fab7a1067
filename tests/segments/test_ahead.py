"""A run of masters and workers, which nothing brings together, is cut where a look at what follows shows all races."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from report.parallel.test_together import COMPARED, together
from segments.pools import pool, scattered
from segments.seeds import seeds, workers
from segments.test_segments import compared, in_segments, racing
from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.races import find
from weft.report import AnalysisContext, Report
from weft.report.proof import add_proofs
from weft.segments import (
    Cuts,
    Looking,
    SegmentWalk,
    last_sends,
    make_cuts_of_whole_run,
    receives_from_any_source,
    scan_rank,
)
from weft.trace import Trace
from weft.trace.builder import ANY, Builder

TASKS, LEAST = 150, 40


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of few calls a rank, cut near the end too."""
    monkeypatch.setattr("weft.segments.cut_points.A_RANK", 1)
    monkeypatch.setattr("weft.segments.closed_cuts.LAST", 1)


@pytest.mark.matrix
@pytest.mark.parametrize(("program", "least"), [(pool, 40), (scattered, 30)])
@seeds(8, 120)
def test_random_programs_have_the_same_findings(
    seeds: range, program: Callable[[random.Random, Path, int], Trace], least: int, tmp_path: Path
) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        segments[compared(program(random.Random(seed), tmp_path / str(seed), 250), least)] += 1
    assert sum(count for many, count in segments.items() if many > 3) > 0.3 * len(seeds), segments


@pytest.mark.matrix
@workers(3, 2, 4)
def test_several_processes_find_what_one_finds(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "runs"
    for seed in range(4):
        pool(random.Random(seed), folder / f"pool-{seed}", 400)
        scattered(random.Random(seed), folder / f"scattered-{seed}", 400)
    done = together(workers, sys.executable, COMPARED, folder, "100", timeout=240)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and last.endswith(" the same, 0 not"), done.stdout + done.stderr
    assert int(last.split()[0]) > 2, last


def walk_of(trace: Trace, least: int = LEAST) -> SegmentWalk:
    of = make_cuts_of_whole_run(trace, [scan_rank(rank) for rank in trace.ranks])
    return SegmentWalk(of, of.at[0], least, looking(trace, of))


def looking(trace: Trace, of: Cuts) -> Looking:
    nothing = np.zeros(len(trace.ranks), np.bool_)
    return Looking(
        of,
        np.array([receives_from_any_source(rank) for rank in trace.ranks]),
        [last_sends(rank) for rank in trace.ranks],
        nothing,
    )


@pytest.mark.matrix
@seeds(10, 60)
def test_nothing_crosses_the_cuts(seeds: range, tmp_path: Path) -> None:
    """But receives that are pending on ranks that name whom they receive from."""
    many = over = 0
    for seed in seeds:
        trace = pool(random.Random(seed), tmp_path / str(seed), TASKS)
        whole, walk = match_operations(trace), walk_of(trace)
        assert walk.looking is not None
        for _ in walk:
            pass
        there = np.flatnonzero(whole.sends.partner != 2**32 - 1)
        to = whole.sends.partner[there]
        for cut in [*walk.at[1:], *(end for end, _, _ in walk.looks.values())]:
            many += 1
            sent = whole.sends.event[there] < cut[whole.sends.ranks()[there]]
            taken = whole.recvs.event[to] < cut[whole.recvs.ranks()[to]]
            complete = whole.recvs.completion[to] < cut[whole.recvs.ranks()[to]]
            assert (sent == complete).all(), seed
            assert (taken == complete)[walk.looking.wild[whole.recvs.ranks()[to]]].all(), seed
            over += int((taken != complete).sum())
    assert many > 5 * len(seeds) and over > 0


@seeds(6, 40)
def test_the_order_within_a_look_is_that_of_the_run(seeds: range, tmp_path: Path) -> None:
    asked = 0
    for seed in seeds:
        trace = pool(random.Random(seed), tmp_path / str(seed), 60)
        whole = order_events(trace, match_operations(trace))
        for _, _, ahead in walk_of(trace, 16):
            assert ahead is not None
            here = ahead.segment
            events = [(r.index, e) for r in here.ranks for e in range(r.ahead, len(r))]
            for a in events[::3]:
                for b in events[::4]:
                    asked += 1
                    there = whole.reaches(here.to_run_event(a), here.to_run_event(b), a_end=True, b_end=False)
                    assert ahead.order.reaches(a, b, a_end=True, b_end=False) == there, (seed, a, b)
    assert asked > 50 * len(seeds)


def begun(path: Path, ranks: int) -> Builder:
    b = Builder(ranks=ranks, path=path)
    for r in b.ranks:
        r.init()
    return b


def ended(b: Builder) -> Trace:
    for r in b.ranks:
        r.finalize()
    return b.open()


def pools(path: Path, *, rounds: int = 90, answers: bool = True, second: int = 60, tells: bool = True) -> Trace:
    """Two masters with two workers each, which know nothing of each other; the second one names whom it receives from
    until the `second` round. Without `answers` the workers are told nothing; unless it `tells`, one of them is not.
    """
    b = begun(path, 6)
    for step in range(rounds):
        for first in (0, 3):
            master, one, two = b.ranks[first : first + 3]
            for worker in (one, two):
                worker.send(master.index, 3, site=("w.c", 5, "f"))
            for worker in (one, two) if step % 3 else (two, one):
                wild = first == 0 or step >= second
                site = ("m.c", 7 if wild else 9, "f")
                master.recv(ANY if wild else worker.index, 3, got=worker.index, site=site)
            for worker in (one, two) if answers else ():
                if worker is two and not tells and first == 0:
                    continue
                master.send(worker.index, 4, site=("m.c", 8, "f"))
                worker.recv(master.index, 4, site=("w.c", 6, "f"))
    return ended(b)


@pytest.mark.matrix
def test_only_who_comes_after_a_race_is_influenced_by_it(tmp_path: Path) -> None:
    trace = pools(tmp_path / "run")
    assert compared(trace, 60) > 10
    made = in_segments(trace, 60)
    assert made is not None and made[0].parts is not None
    behind = [tuple(look.behind.tolist()) for _, look, _ in made[0].parts.cuts.looks.values()]
    assert [of for k, of in enumerate(behind) if k == 0 or of != behind[k - 1]] == [
        (False,) * 6, (True, True, True, False, False, False), (True,) * 6,
    ]  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", ["all are answered", "nobody is", "one is not"])
def test_who_is_told_nothing_leaves_what_it_sends_to_in_one_segment(how: str, tmp_path: Path) -> None:
    """Whatever it sends later could have come first, in each receive that it knows nothing of."""
    all_ = how == "all are answered"
    trace = pools(tmp_path / "run", answers=how != "nobody is", second=10**6, tells=all_)
    assert compared(trace, 60) > 10
    made = in_segments(trace, 60)
    assert made is not None and made[0].parts is not None
    assert (int(made[0].parts.cuts.at[-2, 0]) > 100) == all_


def test_who_sends_no_more_need_not_be_told(tmp_path: Path) -> None:
    """A worker that was stopped early does not know what comes behind, and does not race with it."""
    b = begun(tmp_path / "run", 4)
    master, *crew = b.ranks
    for step in range(90):
        here = crew if step < 10 else crew[1:]
        for r in here:
            r.send(0, 3)
        for r in here:
            master.recv(ANY, 3, got=r.index)
        for r in here:
            master.send(r.index, 4)
            r.recv(0, 4)
    assert compared(ended(b), 60) > 5


def proofs(context: AnalysisContext, races: list[Finding]) -> dict[tuple[tuple[int, int], ...], object]:
    told = add_proofs(context, Report(tuple(races))).findings
    return {one.events: one.facts()["proof"] for one in told if "proof" in one.facts()}


@pytest.mark.matrix
@seeds(10, 100)
def test_the_proofs_of_races_count_what_was_known_in_the_run(seeds: range, tmp_path: Path) -> None:
    many = 0
    for seed in seeds:
        trace = scattered(random.Random(seed), tmp_path / str(seed), 200)
        made = in_segments(trace, 30)
        if made is None:
            continue
        whole = AnalysisContext(Trace.open(trace.path))
        theirs = proofs(whole, find(whole.trace, whole.match, whole.order))
        mine = proofs(made[0], made[1]["message races"])
        both = mine.keys() & theirs.keys()  # an answer may lie behind a segment
        assert {events: mine[events] for events in both} == {events: theirs[events] for events in both}, seed
        many += len(both)
    assert many > 10


def test_whom_a_rank_sends_to_and_when_at_last() -> None:
    """By every call that may, persistent requests by their last start, in the ranks of the world."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.sendrecv(2, 1, sendtag=1, recvtag=2)
    r1.send(0, 2)
    r2.recv(0, 1)
    request = r1.send_init(2, tag=6)
    for _ in range(2):
        r1.start(request)
        r1.wait(request)
        r2.recv(1, 6)
    halves = b.split([0, 1, 1])
    r2.wait(r2.isend(0, 3, comm=halves[1]))
    r1.recv(1, 3, comm=halves[1])
    assert [last_sends(rank) for rank in b.open().ranks] == [{2: 0}, {0: 0, 2: 4}, {1: 4}]


def far_race(path: Path) -> Trace:
    """Rank 2 sends what rank 0 could have taken first behind a receive of its own that races with what is sent last."""
    b = begun(path, 5)
    r0, r1, r2, r3, r4 = b.ranks
    r1.send(0, 3)
    r0.recv(ANY, 3, got=1)
    for r in (r1, r4):
        r0.send(r.index, 4)
        r.recv(0, 4)
    r3.send(2, 5)
    r2.recv(ANY, 5, got=3)
    r2.send(0, 3)
    r0.recv(2, 3)
    r0.send(2, 4)
    r2.recv(0, 4)
    for _ in range(5):
        r4.send(2, 6)
        r2.recv(4, 6)
    r4.send(2, 5)
    r2.recv(4, 5)
    return ended(b)


def test_a_race_that_one_far_behind_decides_is_not_told_before_that_one_is_seen(tmp_path: Path) -> None:
    trace = far_race(tmp_path / "run")
    of = make_cuts_of_whole_run(trace, [scan_rank(rank) for rank in trace.ranks])
    receive = 0, 1
    for ends, told in (([6, 3, 4, 2, 2], False), (of.at[-1].tolist(), True)):
        window = of.segment_between(of.at[0], np.array(ends))
        found = looking(trace, of).look_within(window, match_operations(window), 1)
        assert found is not None
        ahead, cut, _ = found
        assert (cut.cut[0] > receive[1]) == told
        assert ahead.segment.last == (ends if not told else [end - 1 for end in ends])
    assert all(by for *_, by in racing(trace, lambda event: event, False))


@pytest.mark.cases(1)
@pytest.mark.parametrize("end", ["well", "waiting for the other", "soon"])
def test_what_another_match_comes_to_behind_a_look_is_left_open(end: str, tmp_path: Path) -> None:
    """Had a wildcard taken the other message, the receives behind it get the next ones; whether the last one gets any
    shows at the end, or where a named receive has to wait for what is sent only later.
    """
    b = begun(tmp_path / "run", 3)
    r0, *crew = b.ranks
    for worker in crew if end != "soon" else ():
        worker.send(0, 3, site=("w.c", 4, "f"))
    for _ in range(60):
        for worker in crew:
            worker.send(0, 3, site=("w.c", 5, "f"))
        r0.recv(ANY, 3, got=1, site=("m.c", 7, "f"))
        r0.recv(2, 3, site=("m.c", 8, "f"))
        for worker in crew:
            r0.send(worker.index, 4, site=("m.c", 9, "f"))
            worker.recv(0, 4, site=("w.c", 6, "f"))
    if end != "soon":
        r0.recv(ANY, 3, got=1, site=("m.c", 10, "f"))
        r0.recv(ANY if end == "well" else 2, 3, got=2, site=("m.c", 11, "f"))
    trace = ended(b)
    assert compared(trace, 60) > 5
    made = in_segments(trace, 60)
    assert made is not None
    found = made[1]["other matches"]
    told = {tuple(site.line for site in f.sites) for f in found if f.certainty == "possible"}
    untried = [f.facts()["untried"] for f in found if f.certainty == "undecided"]
    assert (told, len(untried)) == {
        "well": (set(), 1), "waiting for the other": ({(7, 11, 5, 5), (10, 11, 5, 5)}, 1), "soon": ({(7, 8, 5, 5)}, 0),
    }[end]  # fmt: skip
    assert all(number > 12 for number in untried)
