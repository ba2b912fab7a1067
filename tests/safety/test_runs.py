"""Whose run it is: another user's is not taken for one that was not named, and is executed only when that is said."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from second_user import as_second_user
from tests_support import Installed
from weft.errors import UsageError
from weft.launch import rundir
from weft.safety.runs import doubt, executes, is_own, is_signed, signed, words_of
from weft.values import recording

Weft = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def with_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def recorded(weft_command: Weft, mpich: Installed, folder: Path) -> Path:
    """A run of two ranks, recorded by the user of this test."""
    program = folder / "hello.py"
    program.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\nopen('ran', 'a').write('x')\n")
    done = weft_command(
        "run", "--out", folder / "run", "--", *mpich.mpiexec, "-n", "2", mpich.python, program, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    (folder / "ran").unlink()
    return folder / "run"


def plant(base: Path, run: Path) -> None:
    """Another user's run, which names a command of his."""
    shutil.copytree(run, base)
    facts = json.loads((base / "run.json").read_text())
    facts |= {"command": ["touch", "executed\x1b[2J"], "cwd": str(base), "started": "2999-01-01"}
    (base / "run.json").write_text(json.dumps(facts))


def test_a_run_of_another_user_is_never_taken_for_one_that_was_not_named(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared)

    def theirs() -> None:
        (shared / "weft-runs/trap-1/ranks").mkdir(parents=True)
        (shared / "weft-runs").chmod(0o777)
        facts = {"schema": "weft-run/1", "command": ["./trap"], "cwd": str(shared), "started": "2999"}
        (shared / "weft-runs/trap-1/run.json").write_text(json.dumps(facts))
        (shared / "weft-runs/link").symlink_to("trap-1")

    as_second_user(theirs)
    with pytest.raises(UsageError, match="belong to other users"):
        rundir.find_newest_run()
    own = rundir.create_run(
        None, ["./prog"], ["./prog"], "trace"
    )  # in a folder of runs that is another's, as on clusters
    assert rundir.find_newest_run().absolute() == own.path


@pytest.mark.parametrize("how", ["a link to it", "its run.json in a folder of ours", "a link in a folder of ours"])
def test_what_leads_to_another_users_run_is_none_of_ours(shared: Path, how: str) -> None:
    def theirs() -> None:
        (shared / "run/ranks").mkdir(parents=True)
        (shared / "run/run.json").write_text("{}")
        if how == "a link to it":
            (shared / "ours").symlink_to("run")

    as_second_user(theirs)
    if how != "a link to it":
        (shared / "ours").mkdir()
        (shared / "ours").chmod(0o777)
        at = shared / "ours/run.json"
        moved = how == "its run.json in a folder of ours"
        as_second_user(
            lambda: (shared / "run/run.json").rename(at) if moved else at.symlink_to(shared / "run/run.json")
        )
    assert not is_own(shared / "run")
    assert not is_own(shared / "ours")


def test_a_run_of_ours_is_ours_and_signed_until_its_command_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = rundir.create_run(None, ["./prog"], ["./prog"], "trace")
    assert doubt(run.path, rundir.read_facts(run.path)) == ""
    copy = shutil.copytree(run.path, tmp_path / "copy")
    assert doubt(copy, rundir.read_facts(copy)) == ""
    for changed in ({"command": ["./other"]}, {"cwd": "/tmp"}, {"signature": None}, {"signature": 7}):
        assert doubt(copy, {**run.facts, **changed})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another's"))
    assert doubt(run.path, run.facts)


@pytest.mark.parametrize("command", [{"sh": 1, "-c": 2, "touch executed": 3}, "abc", 7, None])
def test_what_is_no_list_is_neither_shown_nor_executed(command: object) -> None:
    assert words_of({"command": command}) == []
    assert executes({"command": command, "cwd": "/"}) == ("", "/")


def test_what_is_executed_is_shown_on_one_line() -> None:
    assert executes({"command": ["sh", "-c", "a\nb"], "cwd": "/x\ny"}) == (r"sh -c 'a\nb'", r"/x\ny")


def test_a_run_that_another_user_closed_is_passed_over(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared)
    own = rundir.create_run(None, ["./prog"], ["./prog"], "trace")

    def look_is_refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", look_is_refused)  # as Python before 3.14 does for a folder without x
    assert rundir.find_newest_run().absolute() == own.path


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_key_that_others_can_read_signs_nothing(tmp_path: Path, mode: int) -> None:
    facts = signed({"command": ["a"], "cwd": "/", "started": "1"})
    key = tmp_path / "state/weft/key"
    assert is_signed(facts)
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(mode)
    assert not is_signed(facts)


def test_a_key_of_another_user_signs_nothing(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs() -> None:
        (shared / "weft").mkdir(mode=0o777)
        (shared / "weft").chmod(0o777)
        (shared / "weft/key").write_bytes(b"k" * 32)
        (shared / "weft/key").chmod(0o600)

    as_second_user(theirs)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared))
    assert "signature" not in signed({"command": ["a"], "cwd": "/", "started": "1"})


def test_no_key_can_be_made_in_a_home_that_is_read_only_and_the_run_is_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.chdir(tmp_path)
    run = rundir.create_run(None, ["./prog"], ["./prog"], "trace")
    assert doubt(run.path, run.facts)


@pytest.mark.cases(1)
@pytest.mark.parametrize("words", [["replay"], ["debug", "-c", "ranks"], ["explore"]])
def test_a_run_of_another_user_is_executed_only_when_that_is_said(
    weft_command: Weft, mpich: Installed, tmp_path: Path, shared: Path, words: list[str]
) -> None:
    run = recorded(weft_command, mpich, tmp_path)
    run.chmod(0o755)
    theirs = shared / "theirs"
    plant(shared / "planted", run)
    for path in [shared / "planted", *(shared / "planted").rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)

    def copied() -> None:
        shutil.copytree(shared / "planted", theirs)
        theirs.chmod(0o777)

    as_second_user(copied)
    name, *more = words
    refused = weft_command(name, theirs, *more, cwd=tmp_path)
    assert refused.returncode == 2
    assert "belongs to another user" in refused.stderr
    assert "touch 'executed\\x1b[2J'" in refused.stderr
    assert str(shared / "planted") in refused.stderr
    assert "\x1b" not in refused.stderr
    assert "--trust" in refused.stderr
    assert not list(shared.rglob("executed*"))
    if name == "replay":
        said = weft_command(name, theirs, *more, "--trust", cwd=tmp_path)
        assert "touch" in said.stderr
        assert list(shared.rglob("executed*"))


def test_a_run_that_was_copied_from_elsewhere_is_asked_about_and_ours_is_not(
    weft_command: Weft, mpich: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(weft_command, mpich, tmp_path)
    done = weft_command("replay", run, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another home"))
    refused = weft_command("replay", run, cwd=tmp_path)
    assert refused.returncode == 2
    assert "hello.py" in refused.stderr
    assert not (tmp_path / "ran").exists()
    given = weft_command(
        "replay", run, "--", *mpich.mpiexec, "-n", "2", mpich.python, tmp_path / "hello.py", cwd=tmp_path
    )
    assert given.returncode == 0, given.stderr  # a program that was named is the user's own word


@pytest.mark.parametrize("swap", ["link", "folder"])
def test_a_run_that_was_swapped_while_it_was_recorded_takes_nothing_away_elsewhere(
    tmp_path: Path, swap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = rundir.create_run(None, ["./prog"], ["./prog"], "trace")
    (run.path / "values").mkdir()
    (run.path / "values/plan").touch()
    precious = tmp_path / "precious"
    (precious / "values").mkdir(parents=True)
    for name in ("run.json", "functions.json", "values/plan"):
        (precious / name).write_text("precious")
    run.path.rename(tmp_path / "moved")
    if swap == "link":
        run.path.symlink_to(precious)
    else:
        precious = precious.rename(run.path)
    run.facts["ended"] = "finished"
    run.write()
    recording.discard(run.open_folder())
    run.discard()
    assert sorted(str(path.relative_to(precious)) for path in precious.rglob("*") if path.is_file()) == [
        "functions.json", "run.json", "values/plan",
    ]  # fmt: skip
    assert (precious / "run.json").read_text() == "precious"
    assert list((tmp_path / "moved").rglob("*")) == []


def test_values_that_became_a_link_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = rundir.create_run(None, ["./prog"], ["./prog"], "trace")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/plan").touch()
    (run.path / "values").symlink_to(tmp_path / "elsewhere")
    recording.discard(run.open_folder())
    assert (tmp_path / "elsewhere/plan").exists()
