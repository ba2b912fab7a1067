"""A full disk under standard output is one sentence and status 4; a reader that leaves changes no status."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests_support import WEFT
from weft.trace.builder import Builder

COMMANDS = ["--help", "report", "report --format json", "explain deadlock", "completion bash", "doctor --help", "dump",
            "compare"]  # fmt: skip


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a finding of error severity: its report ends with 1."""
    path = tmp_path_factory.mktemp("streams") / "run"
    builder = Builder(ranks=2, path=path)
    builder.ranks[1].open.recv(0, tag=99, site=("step.py", 9, "main"))
    builder.ranks[0].open.allreduce(site=("step.py", 10, "main"))
    builder.ended = "deadlock"
    builder.open()
    return path


def words(command: str, run: Path) -> list[str]:
    name = command.split(maxsplit=1)[0]
    runs = [str(run)] * {"report": 1, "dump": 1, "compare": 2}.get(name, 0)
    return [*WEFT, *command.split(), *runs]


def ended(command: list[str], stdout: int, *, unbuffered: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          env=environment, timeout=60, check=False)  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_under_standard_output_is_one_sentence_and_status_4(
    command: str, unbuffered: bool, faulty: Path
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = ended(words(command, faulty), full.fileno(), unbuffered=unbuffered)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1] == "weft: standard output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.cases(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_left_changes_no_status(command: str, faulty: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        without = ended(words(command, faulty), writer)
    finally:
        os.close(writer)
    whole = ended(words(command, faulty), subprocess.DEVNULL)
    assert (without.returncode, without.stderr) == (whole.returncode, whole.stderr)


def test_a_closed_standard_output_is_no_traceback(faulty: Path) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words("report", faulty)], stderr=subprocess.PIPE,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
