"""A run whose `weft run` was killed gets its lines when it is read, while its program is unchanged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import weft
from weft.trace import Trace

LOOKED_UP = ("sites.json", "variables.json", "sources.json", "sources.bin")


@pytest.fixture
def cut_off(weft_command: Callable[..., CompletedProcess[str]], program: Callable[[str], Path], tmp_path: Path) -> Path:
    """A run as a killed `weft run` leaves it: records without what is looked up and written at the end."""
    run, copy = tmp_path / "run", shutil.copy2(program("matched"), tmp_path)
    weft_command("run", "-n", "2", "--out", run, "--", copy)
    for name in LOOKED_UP:
        (run / name).unlink(missing_ok=True)
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"ended": "running", "finished": None}))
    return run


def known_lines(trace: Trace) -> list[bool]:
    return [event.site.known for rank in trace.ranks for event in rank]


def test_lines_are_looked_up_where_the_program_is_unchanged(cut_off: Path) -> None:
    assert not any(known_lines(Trace.open(cut_off)))
    trace = weft.open(cut_off)
    assert all(known_lines(trace))
    assert trace.problems == []
    assert (cut_off / "sites.json").exists()


def test_a_program_that_was_built_anew_is_named_each_time(cut_off: Path) -> None:
    program = Path(json.loads((cut_off / "run.json").read_text())["files"][0]["path"])
    program.write_bytes(program.read_bytes()[:512] + b"other")
    for _ in range(2):
        trace = weft.open(cut_off)
        assert not any(known_lines(trace))
        assert any(str(program) in text and "have no source lines" in text for text in trace.problems)


def test_a_program_that_is_gone_is_named(cut_off: Path) -> None:
    program = Path(json.loads((cut_off / "run.json").read_text())["files"][0]["path"])
    program.unlink()
    assert any("the file is not here" in text for text in weft.open(cut_off).problems)


def test_the_lines_of_another_users_run_are_not_looked_up(cut_off: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: cut_off.stat().st_uid + 1)
    trace = weft.open(cut_off)
    assert not any(known_lines(trace))
    assert any("the owner of the run" in text for text in trace.problems)
