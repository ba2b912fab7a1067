"""`weft replay --sequential`: one rank runs at a time, so that all calls come in one order, whichever it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests_support import WEFT, Installed, execute
from weft.match import communicates, match_operations
from weft.order import order_events
from weft.replay import Cut, Cuts, make_plans, plan_steps

PROGRAMS = Path(__file__).parent / "programs"


def interleaving(run: Path) -> list[tuple[int, int]]:
    """The calls of all ranks that communicate (failed polls left out) as they were made: rank, event."""
    found = []
    for rank in weft.open(run).ranks:
        begun = rank.enter_ns(slice(0, len(rank)))
        events = map(rank.event, range(len(rank)))
        found += [
            (int(begun[e.index]), rank.index, e.index) for e in events if communicates(e.function) and not e.polls
        ]
    return [(rank, event) for _, rank, event in sorted(found)]


@pytest.fixture(scope="module")
def recorded(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Programs of four ranks, recorded: collectives and named receives, wildcards, threads."""
    folder = tmp_path_factory.mktemp("sequence")
    for name in ("halo", "pool", "threads"):
        build = [mpich.mpicc, "-g", "-pthread", "-o", folder / name, PROGRAMS / f"{name}.c", "-lm"]
        execute(build).check_returncode()
        execute([*WEFT, "run", "-n", "4", "--out", folder / f"run-{name}", "--", folder / name], timeout=120)
    return {name: folder / f"run-{name}" for name in ("halo", "pool", "threads")}


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["halo", "pool"])
def test_one_rank_goes_at_a_time(recorded: dict[str, Path], tmp_path: Path, name: str) -> None:
    for again in (tmp_path / "one", tmp_path / "two"):
        done = execute([*WEFT, "replay", recorded[name], "--sequential", "--out", again], timeout=120)
        assert done.returncode == 0, done.stderr
        assert "as recorded" in done.stderr
    assert interleaving(tmp_path / "one") == interleaving(tmp_path / "two")


@pytest.mark.matrix
def test_a_point_is_reached_with_the_calls_that_it_needs_alone(recorded: dict[str, Path], tmp_path: Path) -> None:
    run = recorded["pool"]
    trace = weft.open(run)
    middle = len(trace.ranks[0]) // 2
    where = ["--until", f"0:{middle}"]
    plain = execute([*WEFT, "replay", run, *where, "--out", tmp_path / "plain"], timeout=120)
    one = execute([*WEFT, "replay", run, *where, "--sequential", "--out", tmp_path / "one"], timeout=120)
    assert one.returncode == plain.returncode == 0, one.stderr
    told = [line for line in plain.stderr.splitlines() if "stopped as asked" in line or line.startswith("weft:   rank")]
    assert told
    assert told == [line for line in one.stderr.splitlines() if line in told]
    plans = make_plans(trace, matched := match_operations(trace))
    cuts = Cuts(trace, order_events(trace, matched), plans)
    found = plan_steps(cuts, plans, cuts.least_cut_reaching([(0, middle)]))
    goals = {step.rank: step.goal for step in found}
    assert goals == {rank: goal for (rank, _), goal in cuts.least_cut_reaching([(0, middle)]).goals.items() if goal}
    assert len(found) < len(plan_steps(cuts, plans, Cut()))


def test_a_run_whose_threads_wait_for_each_other_is_refused(recorded: dict[str, Path], tmp_path: Path) -> None:
    trace = weft.open(recorded["threads"])
    assert max(len(rank.threads) for rank in trace.ranks) > 1
    done = execute([*WEFT, "replay", trace.path, "--sequential", "--out", tmp_path / "again"])
    assert done.returncode == 2
    assert "--sequential works for ranks with one communicating thread" in done.stderr
    assert not (tmp_path / "again").exists()
