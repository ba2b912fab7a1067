"""The run directory: named, never overwritten, gone when it holds nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.errors import UsageError, WeftError
from weft.launch import rundir


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def create(out: Path | None = None, program: tuple[str, ...] = ("./prog",)) -> rundir.RunDirectory:
    return rundir.create_run(out, program, program, "trace")


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("./build/prog", "prog"),
        ("python step.py -n 3", "step"),
        ("/usr/bin/python3.11 -X dev -u a/step.py", "step"),
        ("python -m pkg.solver x", "pkg.solver"),
        ("python -m mpi4py step.py", "step"),
        ("python -c pass", "python"),
        ("./a.out", "a"),
        ("./-- x", "run"),
    ],
)
def test_a_run_is_named_after_its_program(program: str, name: str) -> None:
    assert rundir.derive_run_name(program.split()) == name


def test_runs_of_one_program_are_numbered() -> None:
    assert [create().path.name for _ in range(3)] == ["prog-1", "prog-2", "prog-3"]
    Path("weft-runs/prog-10").mkdir()
    assert create().path.name == "prog-11"


def test_a_new_run_says_that_it_is_running() -> None:
    run = create()
    facts = json.loads((run.path / "run.json").read_text())
    assert facts["schema"] == "weft-run/1"
    assert facts["ended"] == "running"
    assert facts["command"] == ["./prog"]
    assert run.ranks.is_dir()


def test_a_folder_that_holds_anything_is_never_used() -> None:
    Path("full").mkdir()
    Path("full/data").write_text("precious")
    with pytest.raises(UsageError, match="not empty"):
        create(Path("full"))
    assert [path.name for path in Path("full").iterdir()] == ["data"]


def test_an_empty_folder_is_used_and_a_file_is_not() -> None:
    Path("empty").mkdir()
    assert create(Path("empty")).path == Path("empty").absolute()
    Path("file").touch()
    with pytest.raises(UsageError, match="is a file"):
        create(Path("file"))


def test_a_place_that_cannot_be_written_is_one_clear_error() -> None:
    with pytest.raises(WeftError, match="cannot write the run"):
        create(Path("/proc/nowhere/run"))


def test_a_run_without_ranks_leaves_nothing_behind() -> None:
    run = create()
    run.discard()
    assert not run.path.exists()
    Path("empty").mkdir()
    run = create(Path("empty"))
    run.discard()
    assert list(Path("empty").iterdir()) == []


def test_a_run_with_a_rank_is_not_taken_away() -> None:
    run = create()
    (run.ranks / "0-000000.weft").touch()
    run.discard()
    assert (run.ranks / "0-000000.weft").exists()


def test_the_newest_run_is_the_one_that_started_last() -> None:
    with pytest.raises(UsageError, match="record one"):
        rundir.find_newest_run()
    first, second = create(), create(program=("./other",))
    for run, time in ((first, "2030-01-02"), (second, "2030-01-01")):
        run.facts["started"] = time
        run.write()
    assert rundir.find_newest_run().absolute() == first.path
