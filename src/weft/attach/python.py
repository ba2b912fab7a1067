"""Read the stacks of Python ranks, including native frames, with py-spy, which only reads and detaches at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from weft.attach import priority
from weft.attach.calls import find_mpi_function
from weft.attach.model import Frame
from weft.attach.unmoved_threads import StackBytes, is_still_in_call, read_stack_bytes
from weft.base.processes import explain_forbidden
from weft.debug.ptrace import PAUSE, Standing
from weft.errors import UsageError
from weft.trace.sites import CallSite

SECONDS = 30.0
"""For one process; py-spy takes some tens of milliseconds of a processor that nobody else wants."""
LIBC = re.compile(r"/libc[.-][^/]*$")
STARTS = re.compile(r"^<frozen runpy>$|/weft/watchdogs/__main__\.py$")
"""Files whose functions only start a program (`python -m`)."""
REMEDY = "Weft reads the stacks of Python processes with py-spy, which is not installed: pip install py-spy"


def find_py_spy() -> str:
    """Return the path of py-spy: beside the Python that runs Weft, or on the PATH. UsageError if there is none."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise UsageError(REMEDY)
    return found


Frames = dict[int, list[Frame]]
"""Of each thread of a process, innermost first."""


class Pythons:
    """Stopped processes of Python, to be looked at repeatedly: each runs only while its stacks are unwound."""

    def __init__(self, pids: Sequence[int], held: Standing, problems: dict[int, str]) -> None:
        self.pids, self._held, self._problems = list(pids), held, problems
        self._spy = find_py_spy() if pids else ""
        self._seen: dict[int, Frames] = {}
        self._kept: dict[int, StackBytes] = {}
        """Of those that stayed where they were while they were unwound."""

    def stacks(self) -> dict[int, Frames]:
        """Return the frames of all threads, by process. If a process has not moved since the last call, its stacks of
        that call are returned, as reading them takes long.
        """
        with priority.raised_priority():
            found = self._reuse_unmoved_stacks()
            found |= self._read_by_py_spy([pid for pid in self.pids if pid not in found])
        self._seen = found
        return found

    def _read_by_py_spy(self, pids: Sequence[int]) -> dict[int, Frames]:
        """Return the frames of all threads of some processes, read by py-spy. Each process runs while py-spy reads it,
        and is then stopped again.
        """
        before: dict[int, StackBytes] = {}

        def begin(pid: int) -> Dump:
            before[pid] = read_stack_bytes(pid)
            self._held.release(pid)
            return Dump(self._spy, pid, "--native")

        found = {}
        for pid, told in run_py_spy(begin, pids):
            self._held.hold([pid])
            if isinstance(told, str):
                self._problems[pid] = told.removeprefix(f"process {pid} cannot be inspected: ")
                continue
            found[pid] = told
            if are_still_in_calls(told, before[pid], now := read_stack_bytes(pid)):
                self._kept[pid] = now
        return found

    def _reuse_unmoved_stacks(self) -> dict[int, Frames]:
        """Return the frames that the last call of `stacks` returned, for the processes that have not moved since. In
        these, no thread has left its native function, or changed its lines or numbers in Python.
        """
        frozen = [
            pid for pid, kept in self._kept.items() if are_still_in_calls(self._seen[pid], kept, read_stack_bytes(pid))
        ]
        told = run_py_spy(lambda pid: Dump(self._spy, pid, "--nonblocking"), frozen)  # it stands
        return {pid: self._seen[pid] for pid, lines in told if lines == select_python_frames(self._seen[pid])}


def are_still_in_calls(frames_by_thread: Frames, before: StackBytes, now: StackBytes) -> bool:
    """Return whether all threads are still in the native functions in which `before` was read, and have not returned
    from them in between.
    """
    return all(
        is_still_in_call(thread, find_caller_modules(frames), before, now)
        for thread, frames in frames_by_thread.items()
    )


def find_caller_modules(frames: Sequence[Frame]) -> set[str]:
    """Return the paths of the modules from which Python called an MPI function, or other native code that a thread is
    in. `frames`: of the thread, innermost first.

    A function of libc without a name does not count: it called `main`, which py-spy takes for the innermost function if
    it does not know the interpreter's own (Python 3.14 of Debian).
    """
    outermost = next((i for i, frame in enumerate(frames) if frame.python), 0)
    begin = next((i + 1 for i, frame in enumerate(frames[:outermost]) if find_mpi_function(frame)), 0)
    sites = [frame.site for frame in frames[begin:outermost]]
    return {site.module or "" for site in sites if site.function or not LIBC.search(site.module or "")}


def select_python_frames(frames_by_thread: Frames) -> Frames:
    """Return only the frames of Python of each thread."""
    return {thread: [frame for frame in frames if frame.python] for thread, frames in frames_by_thread.items()}


def run_py_spy(start: Callable[[int], Dump], pids: Sequence[int]) -> Iterator[tuple[int, Frames | str]]:
    """Run py-spy for each process, and yield (pid, frames by thread); if py-spy cannot read the process, (pid, the
    reason as text). As many run at a time as there are cores.

    `start`: starts py-spy for a process.
    """
    running: list[Dump] = []
    left = list(reversed(pids))
    cores = len(os.sched_getaffinity(0))
    try:
        while left or running:
            while left and len(running) < cores:
                running.append(start(left.pop()))
            ended = [(dump, answer) for dump in running if (answer := dump.answer()) is not None]
            for dump, answer in ended:
                running.remove(dump)
                yield dump.pid, answer
            time.sleep(0 if ended else PAUSE)
    finally:
        for dump in running:
            dump.end()


class Dump:
    """A running py-spy that reads a process, with priority over the process, which may poll."""

    def __init__(self, spy: str, pid: int, *how: str) -> None:
        self.pid = pid
        self._command = [spy, "dump", "--pid", str(pid), "--json", "--locals"]
        self._said = ""
        self._start(*how)

    def _start(self, *options: str) -> None:
        """Start py-spy with some options, such as `--native`, and its time limit."""
        self._again = bool(options)  # `--native` is not to be had on every kind of processor
        self._limit = time.monotonic() + SECONDS
        self._into = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - read when it has ended
        self._process = subprocess.Popen(
            [*self._command, *options], stdin=subprocess.DEVNULL, stdout=self._into[0], stderr=self._into[1],
            env=os.environ | {"RUST_BACKTRACE": "0"},
        )  # fmt: skip
        priority.raise_priority(self._process.pid)

    def answer(self) -> Frames | str | None:
        """Return the frames of the process's threads, by thread id, or a text that says what went wrong. None while
        py-spy still runs.
        """
        status = self._process.poll()
        if status is None:
            if time.monotonic() < self._limit:
                return None
            self.end()
            return f"py-spy gave no stacks within {SECONDS:.0f} seconds"
        said, complaint = map(read_and_close, self._into)
        if status == 0:
            return {int(one["os_thread_id"] or 0): parse_frames(one["frames"]) for one in json.loads(said)}
        error = complaint.decode(errors="replace").strip()
        if "ermission denied" in error or "not permitted" in error:
            return explain_forbidden(self.pid)
        self._said = self._said or error
        if self._again:
            self._start()
            return None
        return self._said.splitlines()[-1].strip() if self._said else f"py-spy ended with status {status}"

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()


def read_and_close(file: IO[bytes]) -> bytes:
    """Return the content of a file, and close it."""
    with file:
        file.seek(0)
        return file.read()


def is_start_frame(frame: Frame) -> bool:
    """Return whether a frame of Python belongs to code that only starts a program, such as `python -m`."""
    return frame.python and STARTS.search(frame.site.file or "") is not None


def parse_frames(frame_dicts: Sequence[dict[str, Any]], *, keep_start_frames: bool = False) -> list[Frame]:
    """Return the frames of a thread from py-spy's dictionaries. A native frame has a module, a Python frame has none.
    `keep_start_frames`: also return frames that only start a program.
    """
    found = []
    for frame in frame_dicts:
        name = str(frame["name"])
        python = frame["module"] is None and not name.startswith("0x")  # an address is of code that nobody knows
        file = frame["filename"] if python or frame["line"] else None
        site = CallSite(file, int(frame["line"]), None if name.startswith("0x") else name, frame["module"])
        values = [(str(one["name"]), str(one["repr"])) for one in frame["locals"] or () if is_number(one["repr"])]
        found.append(Frame(site, python, tuple(values)))
    return found if keep_start_frames else [frame for frame in found if not is_start_frame(frame)]


def is_number(text: str | None) -> bool:
    """Return whether a variable's text is a number or a truth value. Only such values show whether a rank has
    moved on.
    """
    try:
        float(text or "")
    except ValueError:
        return text in ("True", "False")
    return True
