"""A run that somebody else made: what it names here is not read, and what is wrong in it is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from second_user import as_second_user, second_user
from weft.base.json_files import read_json
from weft.errors import UsageError, WeftError
from weft.launch.local import gather_after_run, pack
from weft.launch.local.hosts import INCOMING
from weft.safety import runs
from weft.sources import kept_sources
from weft.trace.builder import Builder
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
    found = kept_sources.sources_of(Trace.open(run)).lines(str(secret), 1)
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
    "words", [["report", "--format", "html", "-o"], ["dump", "--definitions", "-o"], ["view", "-o"]]
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
        done = weft_command("replay", run, "--trust")
        assert "invalid characters" in done.stderr
        assert done.returncode == 4


@pytest.mark.parametrize("name", ["ranks", "halo", pack.FOLDER, INCOMING])
def test_what_is_gathered_goes_through_no_link_of_a_run(tmp_path: Path, name: str) -> None:
    """A folder of records is gathered, with a halo, into a run whose folder is a link to one of ours."""
    run, host, ours = run_with(tmp_path), tmp_path / "host", tmp_path / "ours"
    shutil.copytree(run, host)
    (host / "halo").mkdir()
    (host / "halo/theirs.halo").write_text("theirs")
    (ours / "0/below").mkdir(parents=True)
    (ours / "0/below/precious").write_text("precious")
    if (run / name).exists():
        shutil.rmtree(run / name)
    (run / name).symlink_to(ours)
    with pytest.raises(UsageError, match="is a link"):
        gather_after_run.gather_copies(run, [host])
    assert [path.name for path in sorted(ours.rglob("*"))] == ["0", "below", "precious"]
    (run / name).unlink()
    assert gather_after_run.gather_copies(run, [host]).ranks == 1


def test_nothing_is_gathered_into_a_run_of_another_user(tmp_path: Path) -> None:
    """It could name a folder of ours that --local made, which the list of its folder shows, and take what it holds."""
    run, host = run_with(tmp_path), tmp_path / "local-0123456789abcdef"
    shutil.copytree(run, host)
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**facts, "local": str(host)}))
    os.chown(run, second_user(), -1)
    for gather in (lambda: gather_after_run.gather_this_host(run), lambda: gather_after_run.gather_copies(run, [host])):
        with pytest.raises(UsageError, match="belongs to another user"):
            gather()
    assert list((host / "ranks").iterdir())


def test_a_pack_is_written_over_no_link(shared: Path) -> None:
    """Its first name can be foretold."""
    precious = shared / "precious"
    precious.write_text("precious")
    run, target = run_with(shared), shared / f"host{pack.SUFFIX}"
    name = shared / f".{target.name}-{os.getpid()}"
    as_second_user(lambda: name.symlink_to(precious))
    with pytest.raises(WeftError, match="cannot write"):
        pack.write_pack(run, "host", target)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("whose", ["nobody's", "theirs", "ours"])
def test_a_source_of_this_user_is_kept_in_no_run_that_is_gathered_of_anothers_records(
    tmp_path: Path, whose: str
) -> None:
    """Who sends records names any file of this machine in them, and may get the run back."""
    secret, run, host = tmp_path / "secret.py", tmp_path / "run", tmp_path / "host"
    secret.write_text("the key of this user\n")
    made = Builder(1, path=host)
    made.ranks[0].barrier(site=(str(secret), 1, "f"))
    made.write()
    facts = json.loads((host / "run.json").read_text())
    (host / "run.json").write_text(
        json.dumps(runs.add_signature(facts) if whose == "ours" else {**facts, "command": ["x"]})
    )
    if whose == "nobody's":
        (host / "run.json").unlink()
    assert gather_after_run.gather_copies(run, [host]).ranks == 1
    assert runs.is_signed(json.loads((run / "run.json").read_text())) is (whose == "ours")
    assert (run / "sources.bin").exists() is (run / "sources.json").exists() is (whose == "ours")
    assert (kept_sources.sources_of(Trace.open(run)).lines(str(secret), 1) is not None) is (whose == "ours")
