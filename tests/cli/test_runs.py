"""Runs are listed, the newest first, and only a user's own runs are removed, whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs of one day, and a folder that is not a run."""
    monkeypatch.chdir(tmp_path)
    for number, ended in enumerate(("finished", "crashed", "finished"), 1):
        run = tmp_path / "weft-runs" / f"prog-{number}"
        (run / "ranks").mkdir(parents=True)
        facts = {"schema": "weft-run/1", "started": f"2026-01-0{number}T10:00:00+00:00", "command": ["./prog", "a b"]}
        facts |= {"ended": ended, "exit_code": int(ended == "crashed"), "ranks": 2}
        (run / "run.json").write_text(json.dumps(facts))
    (tmp_path / "weft-runs" / "other").mkdir()
    return tmp_path / "weft-runs"


def test_runs_are_listed_the_newest_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    heads, *rows = capsys.readouterr().out.splitlines()
    assert heads.split() == ["run", "started", "ranks", "size", "ended", "command"]
    assert [row.split()[0] for row in rows] == [f"weft-runs/prog-{number}" for number in (3, 2, 1)]
    assert "crashed (1)" in rows[1] and rows[1].endswith("./prog 'a b'")


def test_named_runs_and_old_runs_are_removed_and_nothing_else(folder: Path) -> None:
    assert main(["runs", "--remove", "weft-runs/prog-2"]) == 0
    assert main(["runs", "--remove", "weft-runs/other"]) == 2
    assert main(["runs", "--keep-newest", "1"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["other", "prog-3"]


def test_a_run_that_is_being_recorded_stays(folder: Path) -> None:
    facts = json.loads((folder / "prog-1" / "run.json").read_text())
    (folder / "prog-1" / "run.json").write_text(json.dumps(facts | {"ended": "running"}))
    assert main(["runs", "--remove", "weft-runs/prog-1"]) == 4
    assert (folder / "prog-1").is_dir()
