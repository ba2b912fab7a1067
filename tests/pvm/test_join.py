"""`weft run --pvm-join`: tasks of a run on the user's own virtual machine, which stays as it was."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from pvm.kills import wait_until
from pvm.replays import outcomes
from tests_support import WEFT, execute
from weft.launch.pvm.installation import find_daemon, find_pvm_root


@pytest.fixture
def machine(programs: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A virtual machine as a person has one: the environment that leads to it."""
    files = tmp_path / "tmp"
    files.mkdir()
    hosts = tmp_path / "hosts"
    hosts.write_text(f"* ep={programs}:/usr/bin\n127.0.0.1\n")
    own = {"PVM_TMP": str(files), "PVM_ROOT": str(find_pvm_root()), "PVM_ALLOW_ROOT": "1", "PVM_ARCH": "LINUX64"}
    environment = os.environ | own
    command = [find_daemon() or "pvmd", "-n127.0.0.1", str(hosts)]
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until("the daemon is there", lambda: any(path.stat().st_size for path in files.glob("pvmd.*")))
        yield environment
        assert process.poll() is None, "the user's daemon was ended"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.matrix
def test_a_run_joins_the_users_machine_and_leaves_it_as_it_was(
    programs: Path, tmp_path: Path, machine: dict[str, str]
) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    done = execute(
        [*WEFT, "run", "--pvm-join", "--out", run, "--", programs / "races", "team"], env=machine, timeout=60
    )
    assert done.returncode == 0, done.stderr
    trace = weft.open(run)
    assert not trace.problems
    assert [rank.state for rank in trace.ranks] == ["finalized"] * 5
    shown = execute(["pvm"], env=machine, stdin="ps -a\nquit\n", timeout=30).stdout
    assert "races" not in shown
    assert "pvmgs" not in shown
    done = execute([*WEFT, "replay", run, "--out", again], timeout=60)  # on a machine of its own
    assert done.returncode == 0, done.stderr
    assert outcomes(again) == outcomes(run)


def test_there_is_a_word_where_no_machine_is_running(programs: Path, tmp_path: Path) -> None:
    command = [*WEFT, "run", "--pvm-join", "--out", tmp_path / "run", "--", programs / "races", "pool"]
    done = execute(command, env=os.environ | {"PVM_TMP": str(tmp_path)})
    assert done.returncode == 4
    assert "no virtual machine of yours is running" in done.stderr


def test_a_program_of_another_kind_cannot_join(tmp_path: Path) -> None:
    done = execute([*WEFT, "run", "--pvm-join", "--out", tmp_path / "run", "--", "true"])
    assert done.returncode == 2
    assert "--pvm-join is for PVM programs" in done.stderr
