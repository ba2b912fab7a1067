"""A run notes which files its command starts and reads: what changed since, and what the run itself left there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from weft.launch.program_files import describe_program_files, find_changed_files, resolve_programs
from weft.replay.sentences import likely_cause
from weft.safety.runs import add_signature, is_signed, read_command
from weft.trace.builder import Builder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a program on PATH and an input."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "solve").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "solve").chmod(0o755)
    (tmp_path / "in.txt").write_text("3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


def test_a_program_of_path_is_named_by_its_path_and_a_path_stays_as_it_is(folder: Path) -> None:
    solve = str(folder / "bin" / "solve")
    assert resolve_programs(["solve", "in.txt"]) == [solve, "in.txt"]
    assert resolve_programs(["./solve", "in.txt"]) == ["./solve", "in.txt"]
    if shutil.which("mpiexec"):
        line = ["mpiexec", "-n", "1", "solve", "a", ":", "-n", "2", "solve", "b"]
        assert resolve_programs(line) == [solve if word == "solve" else word for word in line]


def test_only_contents_make_a_file_another(folder: Path) -> None:
    facts = describe_program_files(["solve", "in.txt", "--fast"])
    assert [Path(one["path"]).name for one in facts["files"]] == ["solve", "in.txt"]
    os.utime("in.txt", (1, 1))
    assert find_changed_files(facts) == []
    (folder / "in.txt").write_text("4\n")
    assert find_changed_files(facts) == [str(folder / "in.txt")]
    (folder / "in.txt").unlink()
    assert find_changed_files(facts) == [str(folder / "in.txt")]


def test_what_a_replay_would_start_is_signed(folder: Path) -> None:
    facts = add_signature({"command": ["solve"], "cwd": str(folder), "started": "now", "resolved": ["/bin/solve"]})
    assert is_signed(facts) and read_command(facts) == ["/bin/solve"]
    assert not is_signed(facts | {"resolved": ["/bin/other"]})
    assert not is_signed({key: value for key, value in facts.items() if key != "resolved"})


def test_a_program_is_called_by_the_name_that_was_typed_as_long_as_that_names_the_same_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs use their name: OpenFOAM's send it to other ranks."""
    solve = str(folder / "bin" / "solve")
    facts = {"command": ["mpiexec", "solve", "in.txt"], "resolved": ["mpiexec", solve, "in.txt"]}
    assert read_command(facts) == facts["command"]
    (folder / "other").mkdir()
    shutil.copy(solve, folder / "other")
    monkeypatch.setenv("PATH", f"{folder}/other:{os.environ['PATH']}")
    assert read_command(facts) == facts["resolved"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_command(facts) == facts["resolved"]


def test_a_replay_that_leaves_its_record_names_what_the_recorded_run_wrote(folder: Path) -> None:
    trace = Builder(ranks=1).open()
    trace.run |= {"cwd": str(folder), "started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:01:00+00:00"}
    assert "wrote" not in likely_cause(trace)
    (folder / "out.dat").touch()
    os.utime(folder / "out.dat", (1767225630, 1767225630))
    assert "(out.dat, which the recorded run wrote, is there now)" in likely_cause(trace)
