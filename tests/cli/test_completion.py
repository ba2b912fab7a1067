"""Completion in real shells, each asked as its user would ask it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest

from machine import need
from tests_support import execute
from weft.kinds import KINDS
from weft.trace.builder import Builder

BASH = """
source <(weft completion bash)
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMPREPLY=()
_python_argcomplete weft
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'weft completion fish | source; complete -C "$argv[1]"'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, of two and three ranks, and a file."""
    folder = tmp_path_factory.mktemp("place")
    for name, ranks in (("ring-1", 2), ("ring-2", 3)):
        b = Builder(ranks=ranks, path=folder / "weft-runs" / name)
        b.ranks[0].barrier()
        b.write()
        path = folder / "weft-runs" / name / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"ranks": ranks}))
    (folder / "weft-runs" / "no-run").mkdir()
    (folder / "heat.py").touch()
    return folder


def environment() -> dict[str, str]:
    """Where `weft` is found."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TERM": "dumb", "LANG": "C.UTF-8"}


def asked(shell: str, line: str, place: Path) -> list[str]:
    """How a shell would go on with a line."""
    need(shell)
    if not (Path(sys.executable).parent / "weft").exists():
        pytest.skip("weft is not installed as a command in this environment")
    script = [shell, "--norc", "-c", BASH, "bash", line] if shell == "bash" else [shell, "-N", "-c", FISH, line]
    done = execute(script, cwd=place, env=environment())
    assert done.returncode == 0, done.stderr
    return sorted(row.split("\t")[0].strip() for row in done.stdout.splitlines() if row.strip())


SHELLS = pytest.mark.parametrize("shell", ["bash", "fish"])


@SHELLS
def test_commands_are_completed(shell: str, place: Path) -> None:
    assert asked(shell, "weft exp", place) == ["explain", "explore", "export"]


@pytest.mark.cases(1)
@SHELLS
def test_runs_are_completed_and_other_folders_are_not(shell: str, place: Path) -> None:
    assert asked(shell, "weft dump w", place) == ["weft-runs/ring-1", "weft-runs/ring-2"]
    assert asked(shell, "weft report weft-runs/ring-2", place) == ["weft-runs/ring-2"]


@SHELLS
def test_ranks_are_those_of_the_run_on_the_line(shell: str, place: Path) -> None:
    assert asked(shell, "weft dump weft-runs/ring-2 --rank ", place) == ["0", "1", "2"]
    assert asked(shell, "weft dump weft-runs/ring-1 --rank ", place) == ["0", "1"]


@SHELLS
def test_kinds_options_and_values_are_completed(shell: str, place: Path) -> None:
    assert asked(shell, "weft explain late", place) == sorted(kind for kind in KINDS if kind.startswith("late"))
    assert asked(shell, "weft dump --f", place) == ["--first", "--format", "--function"]
    assert asked(shell, "weft dump --format ", place) == ["csv", "json", "parquet", "text"]


def test_the_programs_own_arguments_are_files(place: Path) -> None:
    assert asked("bash", "weft run -n 2 -- hea", place) == ["heat.py"]


def test_zsh_puts_the_rest_of_a_word_on_the_line(place: Path) -> None:
    zsh = need("zsh")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place)
        os.execve(zsh, ["zsh", "-f", "-i"], {**os.environ, **environment(), "PS1": "$ ", "OMP_NUM_THREADS": "1"})
    try:
        os.write(terminal, b"autoload -Uz compinit; compinit -u -D; source <(weft completion zsh); echo rea''dy\n")
        until(terminal, b"ready")
        os.write(terminal, b"weft explain dead\t")
        until(terminal, b"deadlock")
        os.write(terminal, b"\x15weft dump weft-runs/ring-\t\t")
        until(terminal, b"ring-2")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def until(terminal: int, wanted: bytes, seconds: float = 30) -> None:
    """Read a terminal until a word stands there."""
    seen, end = b"", time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 4096)
    assert wanted in seen, seen.decode(errors="replace")
