"""A run that somebody else made: what it names here is not read, and what is wrong in it is told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.sources import kept
from weft.trace.builder import Builder
from weft.trace.json_file import read_json
from weft.trace.run import Trace

Weft = Callable[..., subprocess.CompletedProcess[str]]


def run_with(tmp_path: Path) -> Path:
    made = Builder(1, path=tmp_path / "run")
    made.ranks[0].barrier()
    return made.write()


@pytest.mark.parametrize("ours", [True, False])
def test_a_file_of_today_is_read_for_a_run_of_ours_alone(tmp_path: Path, ours: bool) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("the key of this user\n")
    run = run_with(tmp_path)
    if not ours:
        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**facts, "command": ["theirs"]}))
    found = kept.of(Trace.open(run)).lines(str(secret), 1)
    assert (found == (1, ["the key of this user"])) is ours
    assert ours or found is None


@pytest.mark.parametrize(
    "text",
    ['{"a": Infinity}', '{"a": NaN}', '{"a": 1e999}', '{"a": -Infinity}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"],
)
def test_what_is_no_number_is_told_and_not_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "variables.json").write_text(text)
    problems: list[str] = []
    assert read_json(tmp_path, "variables.json", "weft", problems) == {}
    assert len(problems) == 1


def test_numbers_are_read(tmp_path: Path) -> None:
    (tmp_path / "variables.json").write_text('{"schema": "s", "a": 1.5, "b": 7}')
    problems: list[str] = []
    assert read_json(tmp_path, "variables.json", "s", problems) == {"schema": "s", "a": 1.5, "b": 7}
    assert problems == []


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "words", [["report", "--format", "html", "-o"], ["dump", "--definitions", "-o"], ["view", "--export"]]
)
def test_half_a_character_in_a_run_is_no_reason_to_fail(weft_command: Weft, tmp_path: Path, words: list[str]) -> None:
    run = run_with(tmp_path)
    facts = json.loads((run / "run.json").read_text())
    facts |= {"command": ["half \ud800"], "cwd": "/\udfff", "host": "\ud800", "mpi": {"library": "\udc00"}}
    (run / "run.json").write_text(json.dumps(facts))
    out = tmp_path / "out.html"
    done = weft_command(words[0], run, *words[1:], out)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size


def test_a_command_that_no_system_takes_is_told(weft_command: Weft, tmp_path: Path) -> None:
    run = run_with(tmp_path)
    for command in (["a\0b"], ["half \ud800"]):
        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(facts | {"command": command, "cwd": str(tmp_path)}))
        done = weft_command("replay", run, "--yes")
        assert "no command has" in done.stderr
        assert done.returncode == 4
