"""Two looks at all ranks of this host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from weft.attach import calls, guard, python
from weft.attach.model import Argument, Call, Frame, Process, Seen, Thread
from weft.attach.native import Native, Place
from weft.debug.hands import HandError

Stacks = dict[int, dict[int, list[Frame]]]
"""Frames, innermost first, by process and thread."""


def look(processes: Sequence[Process], interval: float, pause: Callable[[float], object] = time.sleep) -> list[Seen]:
    """What each rank does, and what it does `interval` seconds later; 0 for one look only."""
    host = os.uname().nodename
    seen = {
        process.pid: Seen(process.rank or 0, process.pid, host, process.program, problem=guard.refusal(process.pid))
        for process in processes
    }
    fit = [process for process in processes if not seen[process.pid].problem]
    problems: dict[int, str] = {}
    pythons = [process.pid for process in fit if process.python]
    natives = [process.pid for process in fit if not process.python]
    with guard.guarded([process.pid for process in fit]), ExitStack() as stack:
        gdb = stack.enter_context(Native(natives)) if natives else None
        first = _once(pythons, gdb, problems)
        if interval > 0:
            pause(interval)
        later = _once(pythons, gdb, problems) if interval > 0 else {}
    problems |= gdb.problems if gdb else {}
    for pid, one in seen.items():
        one.problem = one.problem or ("" if pid in first else problems.get(pid, "it ended before it was looked at"))
        one.threads, one.later = first.get(pid, []), later.get(pid, [])
    return list(seen.values())


def _once(pythons: Sequence[int], gdb: Native | None, problems: dict[int, str]) -> dict[int, list[Thread]]:
    """The threads of all ranks."""
    found = {pid: threads_of(pid, stacks, {}) for pid, stacks in python.stacks(pythons, problems).items()}
    if gdb is not None:
        try:
            gdb.hold()
            stacks = gdb.stacks()
            told = arguments_of(gdb, stacks)
            gdb.let_go()
        except HandError as error:
            problems |= dict.fromkeys(gdb.pids, str(error))
            return found
        found |= {pid: threads_of(pid, of, told) for pid, of in stacks.items()}
    return found


def threads_of(pid: int, stacks: dict[int, list[Frame]], told: dict[tuple[int, int], Call]) -> list[Thread]:
    """The threads of a rank, but for those that are a library's own; the first is the one that began it."""
    found = []
    for number, frames in sorted(stacks.items(), key=lambda item: (item[0] != pid, item[0])):
        own, name, inside = calls.parted(frames)
        if number != pid and calls.is_idle(own, name):
            continue
        call = told.get((pid, number)) or (named(name, own, inside) if name else None)
        found.append(Thread(number, own, call, inside))
    return found


def named(name: str, own: tuple[Frame, ...], inside: tuple[Frame, ...]) -> Call:
    """The call of an MPI function, with mpi4py's method and its arguments where it is one's."""
    method = next((frame.site.function for frame in inside if not calls.mpi_of(frame)), None)
    if method is None or not own or not own[-1].python:
        return Call(name)
    return calls.python_call(name, own[-1], method)


def arguments_of(gdb: Native, stacks: Stacks) -> dict[tuple[int, int], Call]:
    """The calls that native threads are in, with the arguments that the program's lines give them."""
    wanted: list[tuple[Place, list[str]]] = []
    known: list[tuple[tuple[int, int], str, list[tuple[str, str]], Frame]] = []
    for pid, threads in stacks.items():
        for number, frames in threads.items():
            own, name, _ = calls.parted(frames)
            if not name or not own:
                continue
            texts = calls.native_texts(name, own[-1].site)
            level = next(level for level, frame in enumerate(frames) if frame is own[-1])
            known.append(((pid, number), name, texts, own[-1]))
            wanted.append(((pid, number, level), [text for _, text in texts if calls.is_plain(text)]))
    values = gdb.values(wanted)
    return {
        of: call_of(name, texts, dict(zip(asked, answers, strict=True)), frame)
        for (of, name, texts, frame), (_, asked), answers in zip(known, wanted, values, strict=True)
    }


def call_of(name: str, texts: list[tuple[str, str]], values: dict[str, str | None], frame: Frame) -> Call:
    """A native call with its arguments; of a communicator only the name."""
    told = tuple(Argument(key, text, None if key == "comm" else values.get(text)) for key, text in texts)
    whom = next((argument.text for argument in told if argument.name == "comm"), "")
    return Call(name, "", told, calls.is_world(whom, frame.site))
