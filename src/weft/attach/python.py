"""Stacks of Python ranks, native frames among them, by py-spy: it only reads, and lets go at once."""

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

from weft.attach import precedence
from weft.attach.calls import mpi_of
from weft.attach.frozen import Stacks, stacks_of, stays
from weft.attach.model import Frame
from weft.base.processes import forbidden
from weft.debug.ptrace import PAUSE, Standing
from weft.errors import UsageError
from weft.trace.sites import CallSite

SECONDS = 30.0
"""For one process; py-spy takes some tens of milliseconds of a processor that nobody else wants."""
LIBC = re.compile(r"/libc[.-][^/]*$")
STARTS = re.compile(r"^<frozen runpy>$|/weft/watchdogs/__main__\.py$")
"""Files whose functions only start a program (`python -m`)."""
REMEDY = "py-spy reads the stacks of Python: pip install py-spy"


def program() -> str:
    """Where py-spy is: beside the Python that runs Weft, or on the PATH. UsageError where it is nowhere."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise UsageError(REMEDY)
    return found


Frames = dict[int, list[Frame]]
"""Of each thread of a process, innermost first."""


class Pythons:
    """Processes of Python that stand, and can be looked at again: one runs only while its stacks are unwound."""

    def __init__(self, pids: Sequence[int], held: Standing, problems: dict[int, str]) -> None:
        self.pids, self._held, self._problems = list(pids), held, problems
        self._spy = program() if pids else ""
        self._seen: dict[int, Frames] = {}
        self._kept: dict[int, Stacks] = {}
        """Of those that stayed where they were while they were unwound."""

    def stacks(self) -> dict[int, Frames]:
        """The frames of all threads by process. Who stands where it stood the last time is not unwound again."""
        with precedence.first():
            found = self._unmoved()
            found |= self._unwound([pid for pid in self.pids if pid not in found])
        self._seen = found
        return found

    def _unwound(self, pids: Sequence[int]) -> dict[int, Frames]:
        before: dict[int, Stacks] = {}

        def begin(pid: int) -> Dump:
            before[pid] = stacks_of(pid)
            self._held.release(pid)
            return Dump(self._spy, pid, "--native")

        found = {}
        for pid, told in in_turn(begin, pids):
            self._held.hold([pid])
            if isinstance(told, str):
                self._problems[pid] = told
                continue
            found[pid] = told
            if stayed(told, before[pid], now := stacks_of(pid)):
                self._kept[pid] = now
        return found

    def _unmoved(self) -> dict[int, Frames]:
        """What was seen of those whose native functions have not returned, and whose lines and numbers are the same."""
        frozen = [pid for pid, kept in self._kept.items() if stayed(self._seen[pid], kept, stacks_of(pid))]
        told = in_turn(lambda pid: Dump(self._spy, pid, "--nonblocking"), frozen)  # it stands
        return {pid: self._seen[pid] for pid, lines in told if lines == without_native(self._seen[pid])}


def stayed(seen: Frames, before: Stacks, now: Stacks) -> bool:
    """Whether all threads are still in the native functions that they were in when they were seen."""
    return all(stays(thread, callers_of(frames), before, now) for thread, frames in seen.items())


def callers_of(frames: Sequence[Frame]) -> set[str]:
    """The modules by which Python came to an MPI function, or to wherever else the thread is in native code.

    Not by a function of libc without a name: that is what called `main`, which py-spy takes for the innermost function
    where it does not know the interpreter's own (Python 3.14 of Debian).
    """
    outermost = next((i for i, frame in enumerate(frames) if frame.python), 0)
    begin = next((i + 1 for i, frame in enumerate(frames[:outermost]) if mpi_of(frame)), 0)
    sites = [frame.site for frame in frames[begin:outermost]]
    return {site.module or "" for site in sites if site.function or not LIBC.search(site.module or "")}


def without_native(seen: Frames) -> Frames:
    """The frames of Python."""
    return {thread: [frame for frame in frames if frame.python] for thread, frames in seen.items()}


def in_turn(begin: Callable[[int], Dump], pids: Sequence[int]) -> Iterator[tuple[int, Frames | str]]:
    """What py-spy tells of processes, or in words why it does not; as many at a time as there are cores."""
    running: list[Dump] = []
    left = list(reversed(pids))
    cores = len(os.sched_getaffinity(0))
    try:
        while left or running:
            while left and len(running) < cores:
                running.append(begin(left.pop()))
            ended = [(dump, answer) for dump in running if (answer := dump.answer()) is not None]
            for dump, answer in ended:
                running.remove(dump)
                yield dump.pid, answer
            time.sleep(0 if ended else PAUSE)
    finally:
        for dump in running:
            dump.end()


class Dump:
    """A py-spy that reads a process, before which that one does not come: it may poll."""

    def __init__(self, spy: str, pid: int, *how: str) -> None:
        self.pid = pid
        self._command = [spy, "dump", "--pid", str(pid), "--json", "--locals"]
        self._said = ""
        self._begin(*how)

    def _begin(self, *how: str) -> None:
        self._again = bool(how)  # `--native` is not to be had on every kind of processor
        self._limit = time.monotonic() + SECONDS
        self._into = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 - read when it has ended
        self._process = subprocess.Popen(
            [*self._command, *how], stdin=subprocess.DEVNULL, stdout=self._into[0], stderr=self._into[1]
        )
        precedence.take(self._process.pid)

    def answer(self) -> Frames | str | None:
        """The frames of the process's threads, or what went wrong; None while it is being read."""
        status = self._process.poll()
        if status is None:
            if time.monotonic() < self._limit:
                return None
            self.end()
            return f"py-spy does not come to its end within {SECONDS:.0f} seconds"
        said, complaint = map(whole, self._into)
        if status == 0:
            return {int(one["os_thread_id"] or 0): frames_of(one["frames"]) for one in json.loads(said)}
        error = complaint.decode(errors="replace").strip()
        if "ermission denied" in error:
            return forbidden(self.pid)
        self._said = self._said or error
        if self._again:
            self._begin()
            return None
        return self._said.splitlines()[-1].strip() if self._said else f"py-spy ended with status {status}"

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()


def whole(file: IO[bytes]) -> bytes:
    """What was written to a file, which is closed by this."""
    with file:
        file.seek(0)
        return file.read()


def is_start(frame: Frame) -> bool:
    """Whether a frame of Python is of what only starts a program."""
    return frame.python and STARTS.search(frame.site.file or "") is not None


def frames_of(told: Sequence[dict[str, Any]], *, starts: bool = False) -> list[Frame]:
    """The frames of a thread as py-spy tells them, also of what starts programs if asked. A native one has a module."""
    found = []
    for frame in told:
        name = str(frame["name"])
        python = frame["module"] is None and not name.startswith("0x")  # an address is of code that nobody knows
        file = frame["filename"] if python or frame["line"] else None
        site = CallSite(file, int(frame["line"]), None if name.startswith("0x") else name, frame["module"])
        values = [(str(one["name"]), str(one["repr"])) for one in frame["locals"] or () if is_number(one["repr"])]
        found.append(Frame(site, python, tuple(values)))
    return found if starts else [frame for frame in found if not is_start(frame)]


def is_number(text: str | None) -> bool:
    """Whether a variable's text is a number: other things would not tell whether a rank has come on."""
    try:
        float(text or "")
    except ValueError:
        return text in ("True", "False")
    return True
