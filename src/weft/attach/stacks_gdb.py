"""Read the stacks of many processes at once: executed by the Python inside gdb, never imported by Weft.

Requests and answers are lines of JSON. One gdb is the debugger of many processes: it reads the symbols of a library
once, however many ranks have it. parts_gdb.py is read before it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gdb

if TYPE_CHECKING:
    from weft.gdb.parts_gdb import frame_variables

DEEPEST = 256
"""Frames of a stack that are reported; of a recursion without end that is enough."""
VALUED = 6
"""Innermost frames of the program whose numbers are reported."""
MOST_VALUES = 24
NUMBERS = frozenset((gdb.TYPE_CODE_INT, gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR))
CALLS = {"i386:x86-64": (5, 6)}
"""Bytes of the instructions that call a function by its name; elsewhere 4."""
CALL = re.compile(r"^(?:call|bl)\b.*<(\w+)(?:@plt|@got\.plt)?>$")

REFERENCES = (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF))


def weft_serve(request_pipe: int, answer_pipe: int) -> None:
    """Answer requests inside gdb: each line that is read from one pipe gets a line on the other. When the first pipe is
    closed, detach from all processes, and exit.
    """
    with os.fdopen(request_pipe) as lines, os.fdopen(answer_pipe, "w") as answers:
        try:
            for line in lines:
                do, *given = json.loads(line)
                try:
                    told = {"done": DEEDS[do](*given)}
                except gdb.error as error:
                    told = {"error": str(error)}
                answers.write(json.dumps(told) + "\n")
                answers.flush()
        finally:
            detach_from_all()
            os._exit(0)  # gdb has nothing more to do, and its end takes time


def attach_to_process(pid: int) -> str:
    """Stop a process by attaching to it, and return why that fails; empty if it works. Symbols are read later, when all
    processes are stopped.
    """
    free = [inferior for inferior in gdb.inferiors() if not inferior.pid]
    if not free:
        gdb.execute("add-inferior", to_string=True)
        free = [inferior for inferior in gdb.inferiors() if not inferior.pid]
    gdb.execute(f"inferior {free[0].num}", to_string=True)
    try:
        gdb.execute(f"attach {pid}", to_string=True)
    except gdb.error as error:
        return str(error)
    return ""


def load_core(program: str, *core_names: str) -> str:
    """Load a core file, and return why that fails; empty if it works.

    `program`: a word of gdb's language. `core_names`: ways to write the core file's name, of which gdb may accept only
    some (weft.gdb.mi.core_names).
    """
    problem = ""
    try:
        if re.search(r"[\x00-\x1f\x7f]", program + core_names[-1]):  # gdb takes each line for a command
            return f"Weft gives gdb no file name that has a control character: rename {program!r} or {core_names[-1]!r}"
        gdb.execute(f"file {program}", to_string=True)
    except gdb.error as error:
        return str(error)
    for name in core_names:
        try:
            gdb.execute(f"core-file {name}", to_string=True)
        except gdb.error as error:
            problem = str(error)
        else:
            return ""
    return problem


def detach_from_all() -> None:
    """Let all processes continue without gdb."""
    for inferior in gdb.inferiors():
        if inferior.pid:
            try:
                gdb.execute(f"detach inferiors {inferior.num}", to_string=True)
            except gdb.error:
                continue


def read_stacks() -> dict[str, list[dict[str, Any]]]:
    """Return the stacks of all threads: process id as text -> a list of {"id": thread, "frames": innermost first}."""
    told = {}
    for inferior in gdb.inferiors():
        if inferior.pid:
            gdb.execute(f"inferior {inferior.num}", to_string=True)
            gdb.execute("sharedlibrary", to_string=True)
            threads = sorted(inferior.threads(), key=lambda thread: thread.num)
            told[str(inferior.pid)] = [{"id": thread.ptid[1], "frames": thread_frames(thread)} for thread in threads]
    return told


def thread_frames(thread: Any) -> list[dict[str, Any]]:
    """Return the frames of one thread, innermost first."""
    found: list[dict[str, Any]] = []
    try:
        thread.switch()
        frame, own = gdb.newest_frame(), 0
        while frame is not None and len(found) < DEEPEST:
            told = describe_frame(frame)
            own += told["file"] is not None
            if told["file"] is not None and own <= VALUED:
                told["values"] = numeric_variables(frame)
            if found and found[-1]["function"] is None and found[-1]["module"] != told["module"]:
                found[-1]["function"] = find_called_function(frame)
            found.append(told)
            frame = frame.older()
    except gdb.error:  # memory that cannot be read: what is beneath stays unknown
        pass
    return found


def describe_frame(frame: Any) -> dict[str, Any]:
    """Return a frame as a dictionary for JSON. `address` in it is 0, or the frame's address if gdb shows a line of
    another file than the function's.

    If code of several lines is at one address, gdb may know only the line of a function that was inlined there.
    """
    at, of = frame.find_sal(), frame.function()
    file, line = (at.symtab.fullname(), at.line) if at.symtab is not None else (None, 0)
    strange = file is not None and of is not None and of.symtab is not None and of.symtab.fullname() != file
    return {
        "function": frame.name(), "file": file, "line": line,
        "module": gdb.solib_name(frame.pc()) or gdb.current_progspace().filename,
        "address": frame.pc() if strange else 0, "values": {},
    }  # fmt: skip


def find_called_function(frame: Any) -> str | None:
    """Return the name of the function that a frame calls, read from the call instruction before its return address.
    None if the instruction names none.

    This finds an MPI function that only jumps to an internal one: it has no frame itself, and the internal one has no
    name.
    """
    for length in CALLS.get(frame.architecture().name(), (4,)):
        try:
            [instruction] = frame.architecture().disassemble(frame.pc() - length)
        except (gdb.error, ValueError):
            continue
        named = CALL.search(instruction["asm"])
        if named is not None and instruction["length"] == length:
            return named[1]
    return None


def numeric_variables(frame: Any) -> dict[str, str]:
    """Return the variables of a frame that are numbers: name -> value as text. At most MOST_VALUES are returned."""
    found: dict[str, str] = {}
    for name, value, _ in frame_variables(frame):
        if len(found) >= MOST_VALUES:
            break
        try:
            if value.type.strip_typedefs().code in NUMBERS and not value.is_optimized_out:
                found[name] = str(value)
        except gdb.error:
            continue
    return found


def evaluate_all(requests: list[tuple[int, int, int, list[str]]]) -> list[list[str | None]]:
    """Return the values of expressions in frames, as texts: for each request a list, with None for what is no number.
    `requests`: (process, thread, level of the frame from the innermost on, expressions).
    """
    told: list[list[str | None]] = []
    for pid, lwp, level, texts in requests:
        try:
            select_frame(pid, lwp, level)
            told.append([evaluate_number(text) for text in texts])
        except (gdb.error, StopIteration):
            told.append([None] * len(texts))
    return told


def select_frame(pid: int, lwp: int, level: int) -> None:
    """Let gdb select a frame. `lwp`: the kernel's id of the thread; `level`: of the frame, 0 for the innermost."""
    threads = (thread for inferior in gdb.inferiors() if inferior.pid == pid for thread in inferior.threads())
    next(thread for thread in threads if thread.ptid[1] == lwp).switch()
    frame = gdb.newest_frame()
    for _ in range(level):
        frame = frame.older()
    frame.select()


def evaluate_number(expression: str) -> str | None:
    """Return the value of an expression in the selected frame as text, if it is a number; its fraction is cut off. None
    if it is something else.
    """
    try:
        value = gdb.parse_and_eval(expression)
        if value.type.code in REFERENCES:  # an argument in Fortran
            value = value.referenced_value()
        if value.type.strip_typedefs().code in NUMBERS and not value.is_optimized_out:
            return str(int(value))
    except (gdb.error, ValueError, OverflowError):
        pass
    return None


DEEDS: dict[str, Callable[..., Any]] = {
    "attach": attach_to_process, "core": load_core, "detach": detach_from_all, "stacks": read_stacks,
    "values": evaluate_all,
}  # fmt: skip
