"""Threads, frames and values for the editor, by numbers that are valid until the ranks run again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.dap.breakpoints import data_id
from weft.dap.instructions import InstructionReferences
from weft.dap.task_threads import TaskThreads
from weft.debug.debugger import Debugger
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame, Hand, Part
from weft.errors import DebuggerError, UsageError
from weft.tasks.views import TaskView

Body = dict[str, Any]
_FOREIGN_OBJECTS = re.compile(
    r"/(usr|lib|lib64|opt|etc|proc|dev)/|/(site|dist)-packages/|/lib-dynload/|/lib(weft|python)|/weft/"
)
"""Shared objects that are not the program's own: the system's, installed packages', the recorder."""


@dataclass(frozen=True, slots=True)
class FrameReference:
    """A frame of a rank.

    `level`: its place in the stack; None for a call that is only known from the record. `native`: a frame of gdb below
    the frames of a Python rank. `task`: the task whose frame it is.
    """

    rank: int
    level: int | None
    native: bool = False
    task: int | None = None


@dataclass(frozen=True, slots=True)
class ValueReference:
    """A value with children: the variables of a frame (no expression), the value of an expression, or a rank's call."""

    spot: FrameReference
    expression: str = ""
    call: bool = False


class Stacks:
    """What can be inspected while the ranks are stopped.

    `native`: show native frames of Python ranks; None: only of ranks that have loaded native code of the program.
    `tasks`: the tasks of the ranks, if they are shown as threads.
    """

    def __init__(self, debugger: Debugger, native: bool | None, tasks: TaskThreads | None) -> None:
        self.debugger = debugger
        self.tasks = tasks
        self._native = native
        self._spots: list[FrameReference] = []
        self._values: list[ValueReference] = []
        self._beside: dict[int, NativeHand] = {}
        self.instructions = InstructionReferences(debugger)

    def invalidate(self) -> None:
        """Make all numbers of frames and values invalid, as the ranks are about to run, and detach gdb from Python
        ranks.
        """
        self._spots.clear()
        self._values.clear()
        for hand in self._beside.values():
            hand.close()
        self._beside.clear()
        self.instructions.forget_ranks()

    # Threads

    def thread_number(self, rank: int, slot: int = 0) -> int:
        """Return the editor's number of a thread; `slot` is its place in the rank, 0 for the first."""
        return 1 + rank + slot * self.debugger.record.size

    def rank_of_thread(self, thread_number: object) -> tuple[int, int]:
        """Return the rank that a thread belongs to, and its index among the rank's threads. UsageError if there is no
        such thread.

        `thread_number`: the editor's number of the thread.
        """
        if not isinstance(thread_number, int) or thread_number < 1:
            raise UsageError(f"there is no thread {thread_number!r}")
        slot, rank = divmod(thread_number - 1, self.debugger.record.size)
        if (rank, slot) not in self.debugger.record.threads:
            raise UsageError(f"there is no thread {thread_number}")
        return rank, slot

    def list_threads(self, rows: Sequence[Body]) -> list[Body]:
        """Return all threads for the editor, each with where it is, and after them the tasks. `rows`: what the command
        `ranks` answers.
        """
        found = [{"id": self.thread_number(row["rank"], row["thread"]), "name": thread_name(row)} for row in rows]
        return found + (self.tasks.list_threads() if self.tasks is not None else [])

    def focused_thread(self) -> int:
        """Return the editor's number of the first thread of the rank in focus, or of the task that the rank runs."""
        rank = self.debugger.focus
        task = self.tasks.running_task(rank) if self.tasks is not None else None
        return self.thread_number(rank) if self.tasks is None or task is None else self.tasks.thread_number(rank, task)

    def task_of_thread(self, thread_number: object) -> tuple[int, int] | None:
        """Return the rank and the task of a thread number; None if the number is that of a rank."""
        return self.tasks.task_of_thread(thread_number) if self.tasks is not None else None

    # Frames

    def list_frames(self, thread_number: object, start: int, count: int) -> Body:
        """Return `count` frames of a thread from the index `start` on, innermost first; all if `count` is 0."""
        of_task = self.task_of_thread(thread_number)
        if of_task is not None:
            found = self._task_frames(*of_task)
        else:
            rank, slot = self.rank_of_thread(thread_number)
            found = (self._rank_frames(rank) if slot == 0 else []) or self._frame_from_record(rank, slot)
        chosen = found[start : start + count if count else None]
        return {"stackFrames": [self._frame_to_json(*one) for one in chosen], "totalFrames": len(found)}

    def _rank_frames(self, rank: int) -> list[tuple[FrameReference, Frame]]:
        """Return the frames of a rank, each with the reference by which the editor names it; native ones first. Empty
        if no debugger can look at the rank.
        """
        try:
            frames = self.debugger.hand(rank).stack()
        except DebuggerError:
            return []
        found = [(FrameReference(rank, level), frame) for level, frame in enumerate(frames)]
        return self._native_frames(rank) + found

    def _task_frames(self, rank: int, task: int) -> list[tuple[FrameReference, Frame]]:
        """Return the frames of a task, each with its reference, and after them the lines that created the task and its
        creators.
        """
        assert self.tasks is not None
        if self.tasks.is_rank_stack(rank, task):
            return self._rank_frames(rank)
        frames, spawns = self.tasks.task_view(rank, task).stack()
        made = [
            Frame(s.at.file, s.at.line, f"made by {s.name or f'task {s.task}'}") for s in spawns if s.at is not None
        ]
        own = [(FrameReference(rank, level, task=task), frame) for level, frame in enumerate(frames)]
        return own + [(FrameReference(rank, None, task=task), frame) for frame in made]

    def _native_frames(self, rank: int) -> list[tuple[FrameReference, Frame]]:
        """Return the native frames, each with its reference, that are called from the innermost line of a Python rank.
        Frames without known source lines are left out.
        """
        if isinstance(self.debugger.hand(rank), NativeHand) or not self._needs_native_frames(rank):
            return []
        found: list[tuple[FrameReference, Frame]] = []
        with suppress(DebuggerError):
            if rank not in self._beside:
                self._beside[rank] = NativeHand(self.debugger.replica.controls[rank].pid)
            for level, frame in enumerate(self._beside[rank].stack()):
                if frame.of_interpreter:
                    break
                if frame.file and frame.line:
                    found.append((FrameReference(rank, level, native=True), frame))
        return found

    def _needs_native_frames(self, rank: int) -> bool:
        """Return whether gdb has to look into a Python rank, as the rank has loaded native code of the program."""
        if self._native is not None:
            return self._native
        with suppress(OSError):
            maps = Path(f"/proc/{self.debugger.replica.controls[rank].pid}/maps").read_text()
            files = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}
            return any(re.search(r"\.so\b", file) and not _FOREIGN_OBJECTS.search(file) for file in files)
        return False

    def _frame_from_record(self, rank: int, slot: int) -> list[tuple[FrameReference, Frame]]:
        """Return the call that a thread is at as its only frame, for a thread whose frames no debugger can read.
        `slot`: the thread's index in its rank.
        """
        row = self.debugger.describe_thread(rank, slot)
        call = row.get("next") or row.get("call") or row.get("last")
        if call is None or row["state"] in ("ended", "unborn"):
            return []
        return [(FrameReference(rank, None), Frame(call["file"] or "", call["line"] or 0, call["call"]))]

    def _frame_to_json(self, spot: FrameReference, frame: Frame) -> Body:
        """Give a frame a number, by which the editor then refers to it, and return it in the form of the protocol."""
        self._spots.append(spot)
        body: Body = {"id": len(self._spots), "name": frame.function, "line": frame.line or 0, "column": 1}
        if frame.file:
            body["source"] = source_to_json(frame.file)
        if frame.address and not spot.native:
            body["instructionPointerReference"] = self.instructions.make_reference(spot.rank, frame.address)
        return (
            body
            if frame.file and (spot.task is None or spot.level is not None)
            else body | {"presentationHint": "subtle"}
        )

    def lookup_frame(self, frame_number: object) -> FrameReference:
        """Return the frame with a number; for None the innermost frame of the rank in focus. UsageError if the number
        is no longer valid.
        """
        if frame_number is None:
            return FrameReference(self.debugger.focus, 0)
        if not isinstance(frame_number, int) or not 1 <= frame_number <= len(self._spots):
            raise UsageError("this frame no longer exists, because ranks have run since: ask for the stack again")
        return self._spots[frame_number - 1]

    def _hand(self, spot: FrameReference) -> tuple[Hand | TaskView, int]:
        """Return the debugger that can read a frame, and the frame's level in it. DebuggerError for a frame that only
        the record knows.
        """
        if spot.level is None:
            what = "it only shows where the task was created" if spot.task is not None else (
                "its rank or thread is in the record, but not in the replay"
            )  # fmt: skip
            raise DebuggerError(f"this frame has no variables to show: {what}")
        if spot.task is not None and self.tasks is not None:
            return self.tasks.task_view(spot.rank, spot.task), spot.level
        return (self._beside[spot.rank] if spot.native else self.debugger.hand(spot.rank)), spot.level

    # Values

    def list_scopes(self, frame_number: object) -> list[Body]:
        """Return the scopes of a frame: its local variables, and the call of MPI that its rank is at."""
        spot = self.lookup_frame(frame_number)
        found = []
        if spot.level is not None:
            found.append({"name": "Locals", "presentationHint": "locals", "expensive": False,
                          "variablesReference": self._register_value(ValueReference(spot))})  # fmt: skip
        call = self._register_value(ValueReference(spot, call=True))
        return [*found, {"name": "Call of MPI", "expensive": False, "variablesReference": call}]

    def _register_value(self, value: ValueReference) -> int:
        self._values.append(value)
        return len(self._values)

    def lookup_value(self, value_number: object) -> ValueReference:
        """Return the value with a number. UsageError if the number is no longer valid."""
        if not isinstance(value_number, int) or not 1 <= value_number <= len(self._values):
            raise UsageError("this value no longer exists, because ranks have run since: ask for the variables again")
        return self._values[value_number - 1]

    def list_variables(self, value_number: object, start: int, count: int) -> list[Body]:
        """Return `count` children of a value from the index `start` on, in the form of the protocol."""
        value = self.lookup_value(value_number)
        if value.call:
            return call_variables(self.debugger.describe_thread(value.spot.rank))
        hand, level = self._hand(value.spot)
        return [self._variable_to_json(value.spot, one) for one in hand.parts(value.expression, level, start, count)]

    def _variable_to_json(self, spot: FrameReference, part: Part) -> Body:
        """Return a variable or a part of a value in the form of the protocol. It gets a number if it has children."""
        body: Body = {"name": part.name, "value": part.value, "type": part.type, "variablesReference": 0}
        if part.expression:
            body["evaluateName"] = part.expression
        if part.parts and part.expression:
            body["variablesReference"] = self._register_value(ValueReference(spot, part.expression))
            body["indexedVariables" if part.indexed else "namedVariables"] = part.parts
        return body

    def evaluate(self, expression: str, frame_number: object) -> Body:
        """Return the value of an expression in a frame, in the form of the protocol."""
        spot = self.lookup_frame(frame_number)
        hand, level = self._hand(spot)
        body = self._variable_to_json(spot, hand.about(expression, level))
        del body["name"]
        return {"result": body.pop("value"), **body}

    def assign_expression(self, target: str, value_text: str, frame_number: object) -> Body:
        """Assign the value of the expression `value_text` to the expression `target` in a frame, and return the new
        value.
        """
        return self._assign(self.lookup_frame(frame_number), target, value_text)

    def set_variable(self, value_number: object, name: str, value_text: str) -> Body:
        """Assign the value of an expression (`value_text`) to the child `name` of a value, and return the new value."""
        value = self.lookup_value(value_number)
        return self._assign(value.spot, self._child_expression(value, name), value_text)

    def _assign(self, spot: FrameReference, target: str, text: str) -> Body:
        hand, level = self._hand(spot)
        hand.assign(target, text, level)
        return self._variable_to_json(spot, hand.about(target, level))

    def _child_expression(self, value: ValueReference, name: str) -> str:
        """Return the expression that yields a child of a value in its frame. UsageError if there is none. `name`: the
        child's name.
        """
        if value.call:
            raise UsageError(
                "a recorded call cannot be changed here: `weft replay --force` and `weft explore` run other outcomes"
            )
        if not value.expression:
            return name
        hand, level = self._hand(value.spot)
        for part in hand.parts(value.expression, level):
            if part.name == name and part.expression:
                return part.expression
        raise UsageError(f"{name} cannot be written as an expression there")

    def describe_data_breakpoint(self, name: str, value_number: object, frame_number: object) -> Body:
        """Return the id by which the editor can set a watchpoint on a variable, or the reason why it cannot be
        watched.
        """
        value = None if not value_number else self.lookup_value(value_number)
        spot = self.lookup_frame(frame_number) if value is None else value.spot
        try:
            expression = name if value is None else self._child_expression(value, name)
            if spot.native or spot.level is None or spot.task is not None:
                raise DebuggerError(
                    "only a variable in a rank's Python frame can be watched; this frame is native, belongs to a task "
                    "or was read from the record"
                )
        except (DebuggerError, UsageError) as error:
            return {"dataId": None, "description": str(error)}
        return {"dataId": data_id(spot.rank, spot.level, expression), "accessTypes": ["write"],
                "description": f"{expression} on rank {spot.rank}"}  # fmt: skip


def source_to_json(file: str) -> Body:
    """Return a source file as the protocol describes it."""
    return {"name": Path(file).name, "path": file}


def thread_name(row: Body) -> str:
    """Return the name under which the editor shows a thread: its rank, and the call or line that it is at. `row`: its
    row in the answer of `ranks`.
    """
    name = f"rank {row['rank']}" + (f" thread {row['thread']}" if row["thread"] else "")
    if row["state"] == "line":
        at = row["at"]
        place = f"{Path(at['file']).name}:{at['line']} in {at['function']}" if at["file"] else at["function"]
        return f"{name} · {row['signal'] + ' at ' if 'signal' in row else ''}{place}"
    words = {"ended": "ended", "gone": "ended", "unborn": "not spawned yet", "diverged": "has left its record"}
    if row["state"] in words:
        return f"{name} · {words[row['state']]}"
    call = row.get("call") or row.get("next")
    if call is None:
        return f"{name} · at the end of its record"
    shown = re.sub(r" at \S+:\d+$", "", call["call"])
    state = {"polls": "polls in vain before ", "outside": "computes before "}.get(row["state"], "")
    return f"{name} · {state}{shown}"


def call_variables(row: Body) -> list[Body]:
    """Return the MPI call that a rank is at as variables for the editor. `row`: the rank's row in the answer of
    `ranks`.
    """
    states = {"before": "about to be made", "in": "made, and waits", "polls": "polls in vain", "line": "the next one",
              "outside": "the next one"}  # fmt: skip
    call = row.get("call") or row.get("next") or row.get("last")
    facts: dict[str, Any] = {} if call is None else {
        "call": call["call"], "event": f"{call['event'][0]}:{call['event'][1]}",
        "state": states.get(row["state"], row["state"]),
    }  # fmt: skip
    facts["calls made"] = f"{row['passed']} of {row['of']}" if "passed" in row else "?"
    return [{"name": name, "value": str(value), "variablesReference": 0} for name, value in facts.items()]
