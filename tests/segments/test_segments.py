"""A run that is analysed a segment at a time has the findings of the run that is analysed whole."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from races.test_races_against_enumeration import Op, build, random_program, record
from report.parallel.test_together import COMPARED, STEPS, together
from segments.seeds import seeds, workers
from weft.deadlock.blocked_ranks import Standstill
from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.races import detect_races
from weft.report import AnalysisContext, run_analyses
from weft.report.parallel import SingleWorker
from weft.report.proof import add_proofs
from weft.report.registry import ANALYSES
from weft.report.segments import _SegmentedReport, analyse_in_segments, analyse_in_segments_alone
from weft.report.tables import make_tables, make_tables_of_context
from weft.segments import SEGMENT, Cuts, find_cuts, is_quiet, scan_rank
from weft.trace import Trace
from weft.trace.builder import ANY, Builder
from weft.waits import compute_costs, make_findings

ONCE = ("potential deadlock", "other matches", "collectives", "messages", "one-sided", "files")
"""Analyses that tell some lines once a run, and here once a segment."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of few calls a rank."""
    monkeypatch.setattr("weft.segments.cut_points.A_RANK", 1)


def in_phases(rng: random.Random) -> list[list[Op]]:
    """A random program of several phases, between barriers across which something may be under way."""
    phases = [random_program(rng) for _ in range(rng.randint(2, 5))]
    phases = [phase for phase in phases if len(phase) == len(phases[0])]
    program: list[list[Op]] = [[] for _ in phases[0]]
    for phase in phases:
        late = rng.random() < 0.2
        for ops, more in zip(program, phase, strict=True):
            start, end = len(ops), len(more)
            if late:
                end = next((k for k, op in enumerate(more) if op[0] == "wait"), end)
            moved = [("wait", start + op[1] + (op[1] >= end)) if op[0] == "wait" else op for op in more]
            ops += [*moved[:end], ("barrier",), *moved[end:]]
    return program


def faulty(rng: random.Random, path: Path) -> Trace:
    """Messages and collectives, some of whose calls are wrong, with barriers in between."""
    b = Builder(ranks=rng.randint(2, 6), path=path)
    for r in b.ranks:
        r.init()
    for step in range(rng.randint(6, 40)):
        one, two = rng.sample(b.ranks, 2)
        rng.choice((*STEPS[:3], *STEPS))(rng, b.ranks, one, two, step)
        if rng.random() < 0.4:
            for r in b.ranks:
                r.barrier()
    for r in b.ranks:
        if rng.random() < 0.95:
            r.finalize()
    return b.open()


def in_segments(trace: Trace, least: int = 8) -> tuple[AnalysisContext, dict[str, list[Finding]]] | None:
    context = AnalysisContext(trace)
    found = analyse_in_segments(SingleWorker(), context, lambda share, now: None, least)
    if found is None:
        return None
    assert all(isinstance(one, list) for one in found.values()), found
    return context, found  # type: ignore[return-value]


def as_told(findings: Iterable[Finding]) -> Counter[str]:
    return Counter(
        repr((f.kind, f.severity, f.certainty, f.message, f.ranks, f.sites, f.events, sorted(
            (key, value) for key, value in f.facts().items() if key != "more_at_this_line"
        ))) for f in findings
    )  # fmt: skip


def once(findings: Iterable[Finding]) -> set[tuple[str, ...]]:
    return {(f.kind, f.severity, f.certainty, f.cause or f.message) for f in findings}


Racing = tuple[str, tuple[int, int], tuple[tuple[int, int], ...], bool]


def racing(trace: Trace, to: Callable[[tuple[int, int]], tuple[int, int]], behind: bool) -> list[Racing]:
    """Every race: what, the event, the messages that could have come first, and whether an earlier race decides it."""
    matched = match_operations(trace)
    races = detect_races(matched, order_events(trace, matched))
    found: list[Racing] = []
    for k in range(len(races)):
        posts = matched.probes if races.probe[k] else matched.recvs
        others = tuple(to(matched.sends.id(int(row))) for row in races.others(k))
        what = "probe" if races.probe[k] else "receive"
        found.append((what, to(posts.id(int(races.row[k]))), others, bool(races.influenced[k]) or behind))
    return found


def races_in_segments(context: AnalysisContext) -> list[Racing]:
    assert context.parts is not None
    found: list[Racing] = []
    cuts = context.parts.cuts
    for span in context.parts.spans:
        ahead = span[0] in cuts.looks  # then it knows by rank whether a race is before it
        segment = cuts.segment_looking_ahead(span[0]) if ahead else cuts.segment(*span)
        found += racing(segment, segment.to_run_event, not ahead and bool(found))
    return found


def compared(trace: Trace, least: int = 8) -> int:
    """How many segments there were; what each analysis finds is the same."""
    made = in_segments(trace, least)
    if made is None:
        return 0
    context, found = made
    whole = AnalysisContext(Trace.open(trace.path))
    hangs = bool(Standstill(whole.trace).stuck)
    for analysis in ANALYSES:
        alike = list(analysis.find(whole)) if analysis.worthwhile(whole) else []
        if analysis.name == "message races":
            mine, theirs = races_in_segments(context), racing(whole.trace, lambda event: event, False)
            assert sorted(mine) == sorted(theirs)
            if any("order_only" in f.facts() for f in [*alike, *found[analysis.name]]):
                continue  # an answer may lie behind a segment
            if any("more_at_this_line" in f.facts() for f in alike):
                continue  # each chooses some of them
        if analysis.name in ONCE:
            told_of = {line for *_, where in once(alike) for line in where.split("; ")}
            # What was told of a line once is left out behind it in the whole run, and told again in another segment.
            extra = {one for one in once(found[analysis.name]) - once(alike) if told_of.isdisjoint(one[-1].split("; "))}
            told_here = {line for *_, where in once(found[analysis.name]) for line in where.split("; ")}
            missing = once(alike) - once(found[analysis.name])
            if analysis.name == "potential deadlock":  # it may stand there with another partner
                missing = {one for one in missing if told_here.isdisjoint(one[-1].split("; "))}
            assert not missing, analysis.name
            # Of a run that hangs only the last segment keeps silent of what might hang; in each some matches are tried.
            # A wildcard that another message would have served anywhere in the whole run frees its line in all of it.
            assert context.parts is not None
            more = analysis.name == "other matches" or hangs or bool(context.parts.cuts.looks)
            assert not extra or (more and {kind for kind, *_ in extra} == {"potential-deadlock"}), analysis.name
        else:
            assert as_told(found[analysis.name]) == as_told(alike), analysis.name
    assert context.parts is not None
    return len(context.parts.spans)


@seeds(10, 100)
def test_random_programs_have_the_same_findings(seeds: range) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        program = in_phases(rng)
        end = record(program, rng)
        trace, _ = build(program, end)
        segments[compared(trace)] += 1
    assert sum(count for many, count in segments.items() if many > 1) > 0.2 * len(seeds), segments


@pytest.mark.matrix
@seeds(20, 100)
def test_random_faulty_programs_have_the_same_findings(seeds: range, tmp_path: Path) -> None:
    segments: Counter[int] = Counter()
    for seed in seeds:
        segments[compared(faulty(random.Random(seed), tmp_path / str(seed)))] += 1
    assert sum(count for many, count in segments.items() if many > 1) > 0.2 * len(seeds), segments


def all_told(trace: Trace, cells: int, least: int = 120) -> str | None:
    """All that the analyses find, each segment looked at in so many parts at first; None where the run stays whole."""
    context = AnalysisContext(Trace.open(trace.path))
    found = analyse_in_segments(SingleWorker(), context, lambda share, now: None, least, cells)
    return None if found is None else repr(found)


def mostly_right(rng: random.Random, path: Path, wrong: float) -> Trace:
    """Messages of many sizes and collectives, with barriers in between; seldom a wildcard, or a call that is wrong."""
    b = Builder(ranks=rng.randint(2, 5), path=path)
    for r in b.ranks:
        r.init()
    for step in range(rng.randint(60, 150)):
        one, two = rng.sample(b.ranks, 2)
        if rng.random() < wrong:
            rng.choice(STEPS)(rng, b.ranks, one, two, step)
        elif rng.random() < 0.3:
            for r in b.ranks:
                r.allreduce()
        else:
            count, tag = rng.choice([1, 10, 3000, 100_000]), rng.randrange(3)
            source = ANY if rng.random() < wrong else one.index
            if rng.random() < 0.5:
                into = two.irecv(source, tag, got=one.index, got_tag=tag, count=count)
                one.wait(one.isend(two.index, tag, count=count))
                two.wait(into)
            else:
                one.send(two.index, tag, count=count)
                two.recv(source, tag, got=one.index, got_tag=tag, count=count)
        if rng.random() < 0.4:
            for r in b.ranks:
                r.barrier()
    for r in b.ranks:
        if rng.random() >= wrong:
            r.finalize()
    return b.open()


@pytest.mark.matrix
@seeds(8, 400)
def test_what_is_told_does_not_depend_on_the_parts_of_a_segment(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    parts: list[bool] = []
    old = _SegmentedReport._analyse_in_cells_if_clean

    def seen(self: _SegmentedReport, span: tuple[int, int], *, end: bool = False) -> object:
        found = old(self, span, end=end)
        if self.cell:
            parts.append(found is not None)
        return found

    monkeypatch.setattr(_SegmentedReport, "_analyse_in_cells_if_clean", seen)
    told = 0
    for seed in seeds:
        trace = mostly_right(random.Random(seed), tmp_path / str(seed), (0, 0.003, 0.02, 0.1)[seed % 4])
        whole = all_told(trace, 1)
        if whole is not None:
            told += "Finding(" in whole
            for cells in (2, 4):
                assert all_told(trace, cells) == whole, (seed, cells)
    assert told > len(seeds) / 8
    assert sum(parts) > len(seeds), "and many segments were not looked at whole"


def test_sends_that_waited_are_told_by_all_of_a_segment(tmp_path: Path) -> None:
    """Two sends of 5,000 bytes that return with their receives show that such wait, and one alone does not."""
    b = Builder(ranks=2, path=tmp_path / "run")

    def times(enter: int, leave: int) -> dict[str, int]:
        return {"enter": enter * 1_000_000, "exit": leave * 1_000_000}

    for at in range(0, 2000, 100):
        b.ranks[0].send(1, count=5000, datatype="MPI_BYTE", **times(at + 10, at + 52))
        b.ranks[1].recv(0, count=5000, datatype="MPI_BYTE", **times(at + 50, at + 60))
        for r in b.ranks:
            r.barrier(**times(at + 61, at + 62))
    trace = b.open()
    whole = all_told(trace, 1, 16)
    assert whole is not None and "late-receiver" in whole
    assert all_told(trace, 4, 16) == whole


def many(path: Path, *, steps: int = 40) -> Builder:
    """Persistent requests, started again and again; who comes first; a race in each second step."""
    b = Builder(ranks=3, path=path)
    for r in b.ranks:
        r.init()
    r0, r1, r2 = b.ranks
    out, into = r1.send_init(2, tag=6), r2.recv_init(1, tag=6)
    for step in range(steps):
        r1.start(out)
        r2.start(into)
        r1.wait(out)
        r2.wait(into)
        for r in (r1, r2):
            r.send(0, 3)
        order = (1, 2) if step % 3 else (2, 1)
        for source in order:
            r0.recv(ANY if step % 2 else source, 3, got=source, got_tag=3)
        for r in b.ranks:
            r.barrier()
    return b


@pytest.mark.matrix
def test_persistent_requests_that_are_freed_come_along_no_longer(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for r in b.ranks:
        r.init()
    for step in range(40):
        pair = [b.ranks[0].send_init(1, tag=step), b.ranks[1].recv_init(0, tag=step)]
        for r, request in zip(b.ranks, pair, strict=True):
            r.start(request)
            r.wait(request)
            r.request_free(request)
            r.barrier()
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    assert compared(trace) > 4
    context, _ = in_segments(Trace.open(trace.path)) or pytest.fail("it was analysed whole")
    assert context.parts is not None
    assert not any(rank.ahead for span in context.parts.spans for rank in context.parts.cuts.segment(*span).ranks)


@pytest.mark.matrix
def test_persistent_requests_live_in_every_segment(tmp_path: Path) -> None:
    b = many(tmp_path / "run")
    for r in b.ranks:
        r.finalize()
    assert compared(b.open()) > 5


@pytest.mark.matrix
def test_the_tables_of_segments_add_up(tmp_path: Path) -> None:
    b = many(tmp_path / "run")
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    made = in_segments(trace)
    assert made is not None and made[0].parts is not None and len(made[0].parts.spans) > 5
    whole, sums = make_tables(Trace.open(trace.path), match_operations(trace)), make_tables_of_context(made[0])
    assert (whole.messages == sums.messages).all() and (whole.bytes == sums.bytes).all()
    assert {key: sorted(rows) for key, rows in whole.times.items()} == {
        key: sorted(rows) for key, rows in sums.times.items()
    }
    assert (whole.ledger.by_rank == sums.ledger.by_rank).all() and (whole.ledger.wall_ns == sums.ledger.wall_ns).all()
    assert whole.ledger.base == sums.ledger.base


def test_a_hung_run_is_told_by_its_last_segment_and_drawn(tmp_path: Path) -> None:
    b = many(tmp_path / "run")
    b.ranks[0].open.recv(1, 77)
    for r in b.ranks[1:]:
        r.open.barrier()
    trace = b.open()
    assert compared(trace) > 5
    context = AnalysisContext(trace)
    found = alone_in_segments_of(context)
    report = run_analyses(trace, ANALYSES, context, found=found)
    whole = run_analyses(Trace.open(trace.path), ANALYSES, found={})
    assert [f.message for f in report.findings if f.kind == "deadlock"] == [
        f.message for f in whole.findings if f.kind == "deadlock"
    ]
    deadlock = report.findings[0]
    assert deadlock.events[0] == (0, len(trace.ranks[0]) - 1)
    import io

    from weft.report.pictures import draw_pictures

    drawn = draw_pictures(trace, report.findings, io.StringIO(), context=context)
    assert drawn == draw_pictures(trace, whole.findings, io.StringIO())


def alone_in_segments_of(context: AnalysisContext) -> dict[str, object]:
    found = analyse_in_segments(SingleWorker(), context, lambda share, now: None, 8)
    assert found is not None
    return found  # type: ignore[return-value]


def test_the_proofs_of_races_count_the_calls_of_the_run(tmp_path: Path) -> None:
    b = many(tmp_path / "run", steps=12)
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    context = AnalysisContext(trace)
    mine = add_proofs(context, run_analyses(trace, ANALYSES, context, found=alone_in_segments_of(context)))  # type: ignore[arg-type]
    other = AnalysisContext(Trace.open(trace.path))
    theirs = add_proofs(other, run_analyses(other.trace, ANALYSES, other, found={}))
    proofs = [[f.facts()["proof"] for f in report.findings if f.kind == "message-race"] for report in (mine, theirs)]
    assert proofs[0] and proofs[0] == proofs[1]


def first_cut(b: Builder) -> tuple[Trace, Cuts]:
    trace = b.open()
    found = find_cuts(trace, [scan_rank(rank) for rank in trace.ranks], 1)
    assert found is not None
    return trace, found


def ends_quiet(of: Cuts, k: int) -> bool:
    segment = of.segment(0, k)
    return is_quiet(segment, match_operations(segment))


@pytest.mark.parametrize("what", ["nothing", "message", "receive", "request", "collective", "small", "rooted"])
def test_a_moment_is_quiet_only_where_nothing_is_under_way(what: str) -> None:
    b = Builder(ranks=3)
    request = None
    r0, r1, r2 = b.ranks
    if what == "message":
        r0.send(1, 3)
    elif what == "receive":
        request = r1.irecv(0, 3)
    elif what == "request":
        request = r0.isend(1, 3)
        r1.recv(0, 3)
    elif what == "collective":
        r0.bcast(root=0)
    for r in b.ranks:
        r.allreduce(count=0 if what == "small" and r is r2 else 1)
    if what == "message":
        r1.recv(0, 3)
    elif what == "receive":
        r0.send(1, 3)
        r1.wait(request)
    elif what == "request":
        r0.wait(request)
    elif what == "collective":
        for r in (r1, r2):
            r.bcast(root=0)
    for _ in range(3):
        for r in b.ranks:
            r.barrier()
    _, of = first_cut(b)
    assert ends_quiet(of, 1) == (what in ("nothing", "rooted"))
    if what in ("message", "receive", "request"):
        assert ends_quiet(of, 2)


def test_collectives_of_different_kinds_are_no_quiet_moment() -> None:
    b = Builder(ranks=2)
    b.ranks[0].barrier()
    b.ranks[1].allreduce()
    for _ in range(3):
        for r in b.ranks:
            r.barrier()
    _, of = first_cut(b)
    assert not ends_quiet(of, 1)


@pytest.mark.parametrize("call", ["spawned", "threads", "kept"])
def test_runs_of_which_more_is_under_way_stay_whole(call: str, tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for step in range(40):
        for r in b.ranks:
            r.barrier(**({"thread": 1} if call == "threads" and step == 7 else {}))
        if call == "spawned" and step == 3:
            for r in b.ranks:
                r.call("MPI_Comm_spawn", root=0, comm=b.world)
    trace = b.open()
    if call == "kept":
        trace.until = 10**18
    assert in_segments(trace) is None


def test_a_run_of_ordinary_length_is_analysed_whole(tmp_path: Path) -> None:
    trace = many(tmp_path / "run").open()
    assert trace.event_count < 2 * SEGMENT and analyse_in_segments_alone(AnalysisContext(trace), None) is None


def test_a_run_that_is_never_quiet_is_one_segment(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    left = b.ranks[1].irecv(0, 9)
    for _ in range(40):
        for r in b.ranks:
            r.barrier()
    b.ranks[0].send(1, 9)
    b.ranks[1].wait(left)
    for r in b.ranks:
        r.finalize()
    assert compared(b.open()) == 1


@pytest.mark.matrix
@workers(3, 2, 4)
def test_several_processes_find_what_one_finds_in_segments(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    for seed in range(15):
        rng = random.Random(seed)
        program = in_phases(rng)
        trace, _ = build(program, record(program, rng))
        shutil.copytree(trace.path, folder / f"orders-{seed}")
        faulty(rng, folder / f"faulty-{seed}")
    done = together(workers, sys.executable, COMPARED, folder, "8", timeout=240)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and last.endswith(" the same, 0 not"), done.stdout + done.stderr
    assert int(last.split()[0]) > 8, last


def test_what_waits_cost_adds_up_in_any_order(tmp_path: Path) -> None:
    b = many(tmp_path / "run")
    for r in b.ranks:
        r.finalize()
    trace = b.open()
    of = first_cut(b)[1]
    parts = [of.segment(k, k + 1) for k in range(len(of))]
    each = [compute_costs(part, match_operations(part)).with_renamed_events(part.to_run_event) for part in parts]
    forward = backward = None
    for one in each:
        forward = one if forward is None else forward + one
    for one in reversed(each):
        backward = one if backward is None else backward + one
    whole = compute_costs(trace, match_operations(trace))
    assert forward is not None and backward is not None
    for one in (forward, backward):
        assert make_findings(trace, one) == make_findings(trace, whole)
        for mine, theirs in zip(one.pairs, whole.pairs, strict=True):
            assert np.array_equal(mine.keys, theirs.keys) and np.array_equal(mine.ns, theirs.ns)
            assert np.array_equal(mine.events, theirs.events)
