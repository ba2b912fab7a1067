"""Pythons that stand where they stood are not unwound again, and those that do not are, however little has changed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from attach.jobs import needs_py_spy
from machine import need
from weft.attach import python
from weft.attach.hold import stopped
from weft.attach.python import Dump, Frames, Pythons

BEGIN = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(1)
"""
SAME_LINE = BEGIN + "print(flush=True); libc.read(0, buffer, 1); libc.pause()\n"
LOOP = "def loop():\n    for step in range(9):\n        libc.read(0, buffer, 1)\nprint(flush=True)\nloop()\n"
SAME_CALL = BEGIN + LOOP
LINES = BEGIN + "print(flush=True)\nlibc.read(0, buffer, 1)\nlibc.read(0, buffer, 1)\n"
THREADS = BEGIN + "threading.Thread(target=libc.pause, daemon=True).start()\n" + LOOP
SPINS = "print(flush=True)\nwhile True: pass\n"


class Counted(Dump):
    """A py-spy, and how it was begun."""

    how: ClassVar[list[tuple[str, ...]]] = []

    def _start(self, *options: str) -> None:
        self.how.append(options)
        super()._start(*options)


@contextmanager
def target(folder: Path, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that waits in a native function for a byte."""
    (folder / "target.py").write_text(text)
    command = [sys.executable, folder / "target.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            time.sleep(0.3)
            yield process
        finally:
            process.kill()


def looks(process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, *, byte: bool) -> tuple[Frames, Frames]:
    """Two looks, and between them a byte for the program. What is unwound is counted from the second on."""
    needs_py_spy()
    need("own memory", "ptrace")
    problems: dict[int, str] = {}
    with stopped([process.pid]) as held:
        pythons = Pythons([process.pid], held, problems)
        before = pythons.stacks()[process.pid]
        held.release_all()
        if byte:
            assert process.stdin is not None
            process.stdin.write(b".")
            process.stdin.flush()
        time.sleep(0.3)
        held.hold(held.pids)
        monkeypatch.setattr(python, "Dump", Counted)
        Counted.how.clear()
        after = pythons.stacks()[process.pid]
        monkeypatch.undo()
        assert after == Pythons([process.pid], held, problems).stacks()[process.pid]
    assert not problems
    return before, after


def functions(frames: Frames, process: subprocess.Popen[bytes]) -> list[str | None]:
    """The functions of the first thread."""
    return [frame.site.function for frame in frames[process.pid]]


@pytest.mark.matrix
@pytest.mark.parametrize("text", [SAME_LINE, SAME_CALL, LINES, THREADS])
def test_who_stands_is_not_unwound_again(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with target(tmp_path, text) as process:
        before, after = looks(process, monkeypatch, byte=False)
        assert before == after
        assert "read" in "".join(map(str, functions(after, process)))
        assert Counted.how == [("--nonblocking",)]


def test_another_function_by_the_same_way_and_line_is_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with target(tmp_path, SAME_LINE) as process:
        before, after = looks(process, monkeypatch, byte=True)
        assert "pause" not in functions(before, process)
        assert "pause" in functions(after, process)
        assert ("--native",) in Counted.how


@pytest.mark.cases(1)
@pytest.mark.parametrize("text", [SAME_CALL, THREADS])
def test_the_same_call_again_is_known_by_the_numbers(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with target(tmp_path, text) as process:
        before, after = looks(process, monkeypatch, byte=True)
        assert functions(before, process) == functions(after, process)
        values = [dict(value for frame in frames[process.pid] for value in frame.values) for frames in (before, after)]
        assert [one["step"] for one in values] == ["0", "1"]


@pytest.mark.matrix
def test_the_same_function_at_the_next_line_is_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with target(tmp_path, LINES) as process:
        before, after = looks(process, monkeypatch, byte=True)
        lines = [next(frame.site.line for frame in frames[process.pid] if frame.python) for frames in (before, after)]
        assert lines[1] == lines[0] + 1


def test_who_is_in_no_native_function_is_always_unwound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with target(tmp_path, SPINS) as process:
        looks(process, monkeypatch, byte=False)
        assert ("--nonblocking",) not in Counted.how
