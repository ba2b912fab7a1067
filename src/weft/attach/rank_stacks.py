"""Look twice at the stacks of all ranks on this host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from weft.attach import calls, priority
from weft.attach.model import Argument, Call, Frame, RankStacks, Thread
from weft.attach.native import Native, Place
from weft.attach.processes import RankProcess, is_replaced, read_start_time
from weft.attach.python import Pythons
from weft.attach.reader import Reader
from weft.debug.ptrace import Standing
from weft.errors import DebuggerError
from weft.trace.sites import CallSite

Stacks = dict[int, dict[int, list[Frame]]]
"""Frames, innermost first, by process and thread."""


def look_at_ranks(
    processes: Sequence[RankProcess], interval: float, stopped_ranks: Standing, gdbs: Sequence[Reader],
    pause: Callable[[float], object] = time.sleep,
) -> list[RankStacks]:  # fmt: skip
    """Return the stacks of each rank, now and `interval` seconds later. If `interval` is 0, look only once.

    `stopped_ranks`: the processes, which run between the looks, and are stopped again at the end. `gdbs`: read the
    native ones. `pause`: waits for some seconds.
    """
    host = os.uname().nodename
    seen = {
        one.pid: RankStacks(
            one.rank or 0, one.pid, host, one.program, problem=stopped_ranks.refused.get(one.pid, ""),
            replaced=is_replaced(one.pid), world_start=one.world_start,
        )
        for one in processes
    }  # fmt: skip
    problems: dict[int, str] = {}
    pythons = Pythons(
        [one.pid for one in processes if one.python and not seen[one.pid].problem], stopped_ranks, problems
    )
    native = Native(gdbs)
    calls.preload_table()
    first, later = _read_all_threads(pythons, native, stopped_ranks, problems), {}
    if interval > 0:
        until = time.monotonic() + interval
        with priority.raised_priority([one.process for one in gdbs]):
            native.let_go()
            stopped_ranks.release_all()
            pause(max(0.0, until - time.monotonic()))
            stopped_ranks.hold(stopped_ranks.pids)
        later = _read_all_threads(pythons, native, stopped_ranks, problems)
    problems |= native.problems
    for pid, one in seen.items():
        one.problem = one.problem or ("" if pid in first else problems.get(pid, "it ended before its stack was read"))
        one.threads, one.later = first.get(pid, []), later.get(pid, [])
    return list(seen.values())


def _read_all_threads(
    pythons: Pythons, native: Native, stopped_ranks: Standing, problems: dict[int, str]
) -> dict[int, list[Thread]]:
    """Return the threads of all ranks, by pid. If ranks could not be read, the reason is stored in `problems`."""
    found = {pid: select_threads(pid, stacks, {}) for pid, stacks in pythons.stacks().items()}
    try:
        native.hold(stopped_ranks.release)
        stacks = native.stacks()
        told = read_call_arguments(native, stacks)
    except DebuggerError as error:
        problems |= dict.fromkeys(native.pids, str(error))
        native.give_up()
        return found
    return found | {pid: select_threads(pid, of, told) for pid, of in stacks.items()}


def select_threads(
    pid: int,
    stacks: dict[int, list[Frame]],
    native_calls: dict[tuple[int, int], Call],
    unchanged_since: float | None = None,
) -> list[Thread]:
    """Return the threads of a rank, without threads of libraries and of Weft. The main thread comes first.

    `stacks`: the frames of each thread. `native_calls`: the MPI calls of native threads, by (pid, thread).
    `unchanged_since`: lines are read only from sources that have not changed since then, in seconds since 1970; None:
    since the start of the process.
    """
    found = []
    for number, frames in sorted(stacks.items(), key=lambda item: (item[0] != pid, item[0])):
        own, name, inside = calls.split_stack(frames)
        if number != pid and (calls.is_library_thread(own, name) or calls.is_weft_thread(own)):
            continue
        call = native_calls.get((pid, number))
        if name and call is None:
            call = describe_call(
                name, own, inside, read_start_time(pid) if unchanged_since is None else unchanged_since
            )
        found.append(Thread(number, own, call, inside))
    return found


def describe_call(
    mpi_function: str, program_frames: tuple[Frame, ...], mpi_frames: tuple[Frame, ...], unchanged_since: float
) -> Call:
    """Return the MPI call that a thread is in. For a method of mpi4py, it has the method, and the arguments if the
    source has not changed. `unchanged_since`: as for `select_threads`.
    """
    method = next((frame.site.function for frame in mpi_frames if calls.is_mpi4py(frame)), None)
    if method is None or not program_frames or not program_frames[-1].python:
        return Call(mpi_function)
    if calls.is_edited(program_frames[-1], unchanged_since):
        return Call(mpi_function, method)
    return calls.describe_python_call(mpi_function, program_frames[-1], method)


def read_call_arguments(gdb: Native, stacks: Stacks) -> dict[tuple[int, int], Call]:
    """Return the MPI calls that native threads are in, by (pid, thread). Each has its arguments as the source has them,
    and their values as gdb reads them.
    """
    wanted: list[tuple[Place, list[str]]] = []
    known: list[tuple[tuple[int, int], str, list[tuple[str, str]], Frame]] = []
    lines: dict[tuple[str, CallSite], list[tuple[str, str]]] = {}
    for pid, threads in stacks.items():
        for number, frames in threads.items():
            own, name, _ = calls.split_stack(frames)
            if not name or not own:
                continue
            at = (name, own[-1].site)
            texts = lines[at] = lines[at] if at in lines else calls.find_argument_texts(*at)
            level = next(level for level, frame in enumerate(frames) if frame is own[-1])
            known.append(((pid, number), name, texts, own[-1]))
            wanted.append(((pid, number, level), [text for _, text in texts if calls.is_safe_to_evaluate(text)]))
    values = gdb.evaluate_numbers(wanted)
    return {
        of: make_native_call(name, texts, dict(zip(asked, answers, strict=True)), frame)
        for (of, name, texts, frame), (_, asked), answers in zip(known, wanted, values, strict=True)
    }


def make_native_call(
    mpi_function: str, argument_texts: list[tuple[str, str]], values: dict[str, str | None], frame: Frame
) -> Call:
    """Return a native MPI call with its arguments and their values. A communicator has no value, only its name in the
    source. `values`: by the argument's text in the source.
    """
    told = tuple(Argument(key, text, None if key == "comm" else values.get(text)) for key, text in argument_texts)
    whom = next((argument.text for argument in told if argument.name == "comm"), "")
    return Call(mpi_function, "", told, calls.is_world(whom, frame.site))
