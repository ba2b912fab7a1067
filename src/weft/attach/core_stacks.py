"""Read the stacks in core files: where the ranks of a job were when they ended."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from weft.attach import calls, cores, python
from weft.attach.cores import Core
from weft.attach.model import Frame, Job, RankStacks
from weft.attach.native import Native
from weft.attach.rank_stacks import read_call_arguments, select_threads
from weft.attach.reader import Reader, started_readers
from weft.attach.sentences import MOST, innermost_line
from weft.base.processes import PYTHON
from weft.base.words import rank_words
from weft.debuginfo.elf import read_build_id
from weft.errors import DebuggerError, UsageError
from weft.gdb.mi import core_names, word
from weft.trace.sites import CallSite

SECONDS: Final = 60.0
EVALUATES: Final = re.compile(r"_?PyEval_EvalFrame(Default|Ex)")
"""The interpreter's function for lines of Python, of which it may do several on one frame."""
CYTHON: Final = re.compile(r"__pyx_(?:p[wf]|f)_(.+)")
"""A function of Cython's: names, each with its length, then its own, of a method with a number before it."""
NAME: Final = re.compile(r"(\d+)(.+)")
Lines = list[tuple[Frame, bool]]
"""Python's frames, innermost first, and of each whether the interpreter began a frame of its own with it."""


def look_at_cores(core_paths: Sequence[Path], program: str = "") -> Job:
    """Return the stacks in core files as one job. `program`: the path of the executable, if it is no longer where it
    ran.
    """
    read = [cores.read_core(path) for path in core_paths]
    found = number_cores(read)
    calls.preload_table()
    with started_readers(range(len(found))) as gdbs, ThreadPoolExecutor(len(gdbs)) as pool:
        free: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for gdb in gdbs:
            free.put(gdb)

        def read_one(core: Core) -> tuple[RankStacks, str]:
            """Return (the stacks of one core file, why it gives no lines of Python). The second is empty if it does."""
            gdb = free.get()
            try:
                return _read_core_stacks(core, os.path.realpath(program) if program else core.program, gdb)
            finally:
                free.put(gdb)

        told = sorted(pool.map(read_one, found), key=lambda each: each[0].rank)
    size = max(len(found), *(core.size for core in found))
    more = [f"rank {one.rank}: {why}" for one, why in told if why]
    if any(core.rank is None for core in read):
        more.append("Weft numbered these ranks itself, because not every core file contains its rank")
    ranks = [one for one, _ in told]
    return Job(size, 0.0, ranks, [*describe_endings(found, {one.rank: one for one in ranks}), *more], ended=True)


def number_cores(core_files: Sequence[Core]) -> list[Core]:
    """Return the core files, each with a rank. If every file says its own rank, they keep these; otherwise all are
    numbered in the order given.

    UsageError if the files belong to several jobs, or two of them to the same rank.
    """
    if any(core.rank is None for core in core_files):
        return [replace(core, rank=number, size=len(core_files)) for number, core in enumerate(core_files)]
    by_rank: dict[int | None, Core] = {}
    for core in core_files:
        if (other := by_rank.get(core.rank)) is not None:
            raise UsageError(
                f"{other.path} and {core.path} both come from rank {core.rank}: name the files of one job only"
            )
        by_rank[core.rank] = core
        if (core.job, core.size) != (core_files[0].job, core_files[0].size):
            raise UsageError(f"{core_files[0].path} and {core.path} come from two jobs: name the files of one job only")
    return list(core_files)


def _read_core_stacks(core: Core, program: str, gdb: Reader) -> tuple[RankStacks, str]:
    """Return (the stacks of one core file, why it gives no lines of Python). The second is empty if it does. `program`:
    the path of the executable; `gdb`: reads the stacks.
    """
    one = RankStacks(core.rank or 0, core.pid, "", program)
    one.problem = explain_unreadable_core(core, program)
    if one.problem:
        return one, ""
    native = Native([gdb], {core.pid: core.maps})
    native.pids = gdb.pids = [core.pid]
    try:
        gdb.ask("core", word(program), *core_names(core.path.resolve()))
        one.problem = gdb.answer()
        if one.problem:
            return one, ""
        stacks = native.stacks()
        told = {} if core.python else read_call_arguments(native, stacks)
    except DebuggerError as error:
        one.problem = str(error)
        return one, ""
    threads, why = stacks.get(core.pid, {}), ""
    if core.python:
        lines, why = read_python_frames(core)
        threads = {thread: merge_frames(frames, lines.get(thread, [])) for thread, frames in threads.items()}
    one.threads = select_threads(core.pid, threads, told, core.path.stat().st_mtime)
    return one, why


def explain_unreadable_core(core: Core, program: str) -> str:
    """Return why gdb cannot read a core file together with a program, for example because the program was built again.
    Empty if it can.
    """
    if not program.startswith("/"):
        return f"{core.path} does not say which program dumped it: name the program with --program"
    if not (program + str(core.path.resolve())).isprintable():  # gdb takes what follows a line feed for a command
        return "its path, or its program's, has characters that are not printable: give the file another name"
    try:
        build = read_build_id(Path(program))
    except OSError:
        return f"its program {program} is not on this host: name it with --program"
    except ValueError:
        return f"{program} is not a 64-bit program"
    if core.build and build != core.build:
        return (
            f"{program} is another program, or was rebuilt since (the build ids differ): name the one that ran with "
            f"--program"
        )
    return ""


def read_python_frames(core: Core) -> tuple[dict[int, Lines], str]:
    """Return (the frames of Python in a core file by thread id, why there are none). The second is empty if py-spy
    finds them.
    """
    command = [python.find_py_spy(), "dump", "--core", str(core.path), "--json", "--locals"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode == 0:
            return {
                int(one["os_thread_id"] or 0): _parse_python_frames(one["frames"]) for one in json.loads(done.stdout)
            }, ""
        why = next(iter(done.stderr.strip().splitlines()), f"it ended with status {done.returncode}")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        why = str(error)
    return {}, f"py-spy does not find Python's lines in {core.path}: {why.removeprefix('Error: ')}"


def _parse_python_frames(frame_dicts: Sequence[dict[str, Any]]) -> Lines:
    """Return the Python frames of a thread from py-spy's dictionaries. Each frame also says whether the interpreter's C
    code began a new evaluation loop with it."""
    return [
        (frame, bool(one.get("is_shim_entry")))
        for one in frame_dicts
        for frame in python.parse_frames([one], keep_start_frames=True)
    ]


def merge_frames(native: Sequence[Frame], lines: Lines) -> list[Frame]:
    """Return native and Python frames as one stack, innermost first. Each native frame that evaluates Python code is
    replaced by the Python lines that it evaluates.

    `native`: innermost first. `lines`: Python's frames, innermost first, each with whether the next native frame
    evaluates the lines outside it.
    """
    found: list[Frame] = []
    left = list(lines)
    for frame in native:
        if EVALUATES.fullmatch(frame.site.function or ""):
            while left:
                line, entry = left.pop(0)
                found.append(line)
                if entry:
                    break
        elif not PYTHON.search(frame.site.module or ""):
            found.append(demangle_cython(frame))
    return [frame for frame in (*found, *(line for line, _ in left)) if not python.is_start_frame(frame)]


def demangle_cython(frame: Frame) -> Frame:
    """Return a frame of a function that Cython made, with the function's name in the source. Other frames are returned
    unchanged.
    """
    mangled = CYTHON.fullmatch(frame.site.function or "")
    if mangled is None:
        return frame
    left = mangled[1]
    while (name := NAME.fullmatch(left)) and name[2][int(name[1][:9]) :][:1] == "_":
        left = name[2][int(name[1]) + 1 :]
    own = left.lstrip("0123456789")
    return Frame(CallSite(frame.site.file, frame.site.line, own, frame.site.module), values=frame.values)


def describe_endings(core_files: Sequence[Core], stacks_by_rank: Mapping[int, RankStacks]) -> Iterator[str]:
    """Yield sentences that say which signals ended which ranks, and at which lines, and which core files are
    cut short.
    """
    ends: dict[str, list[int]] = {}
    for core in core_files:
        if core.signal:
            ends.setdefault(f"{core.signal}{describe_signal_origin(core, stacks_by_rank[core.rank or 0])}", []).append(
                core.rank or 0
            )
    for end, ranks in list(ends.items())[:MOST]:
        yield f"{rank_words(sorted(ranks))} ended by {end}"
    if len(ends) > MOST:
        yield f"others ended at {len(ends) - MOST} more places: see the tree"
    if cut := sorted(core.rank or 0 for core in core_files if core.cut):
        yield f"{rank_words(cut)}: the core file is cut short (ulimit -c, a full disk), so frames may be missing"


def describe_signal_origin(core: Core, rank_stacks: RankStacks) -> str:
    """Return where the signal came from: ` at a.c:9`, the line of the thread that caused it, or ` from another
    process`. Empty if unknown.
    """
    if core.sent:
        return " from another process"
    thread = next((thread for thread in rank_stacks.threads if thread.id == core.thread and thread.stack), None)
    return f" at {innermost_line(thread).text}" if thread is not None else ""
