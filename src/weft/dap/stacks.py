"""Threads, stacks and values as the editor asks for them, by numbers that hold until ranks run again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.dap.instructions import Instructions
from weft.dap.points import data_id
from weft.dap.task_threads import TaskThreads
from weft.debug.debugger import Debugger
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame, Hand, Part
from weft.errors import DebuggerError, UsageError
from weft.tasks.views import TaskView

Body = dict[str, Any]
_OF_OTHERS = re.compile(
    r"/(usr|lib|lib64|opt|etc|proc|dev)/|/(site|dist)-packages/|/lib-dynload/|/lib(weft|python)|/weft/"
)
"""Shared objects that are not the program's own: the system's, installed packages', the recorder."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A frame of a rank. `native`: in gdb beside a Python rank's agent; `level` None: the record's, not a frame.
    `task`: the frame is of this task, wherever it is.
    """

    rank: int
    level: int | None
    native: bool = False
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """What has parts: the variables of a frame (no expression), an expression's value, or a rank's call."""

    spot: Spot
    expression: str = ""
    call: bool = False


class Stacks:
    """What can be looked at in this stop. `native`: gdb beside agents of Python ranks; None: where there is need.
    `tasks`: the ranks' tasks, where they are threads too.
    """

    def __init__(self, debugger: Debugger, native: bool | None, tasks: TaskThreads | None) -> None:
        self.debugger = debugger
        self.tasks = tasks
        self._native = native
        self._spots: list[Spot] = []
        self._values: list[Value] = []
        self._beside: dict[int, NativeHand] = {}
        self.instructions = Instructions(debugger)

    def moved(self) -> None:
        """Ranks are about to run: all numbers are void."""
        self._spots.clear()
        self._values.clear()
        for hand in self._beside.values():
            hand.close()
        self._beside.clear()
        self.instructions.moved()

    # Threads

    def thread_of(self, rank: int, slot: int = 0) -> int:
        """The editor's number of a rank's thread."""
        return 1 + rank + slot * self.debugger.record.size

    def rank_of(self, thread: object) -> tuple[int, int]:
        """The rank and its thread that a number means. UsageError where there is none."""
        if not isinstance(thread, int) or thread < 1:
            raise UsageError(f"there is no thread {thread!r}")
        slot, rank = divmod(thread - 1, self.debugger.record.size)
        if (rank, slot) not in self.debugger.record.threads:
            raise UsageError(f"there is no thread {thread}")
        return rank, slot

    def threads(self, rows: Sequence[Body]) -> list[Body]:
        """All threads by rank, each with where it stands, then tasks. `rows`: those of the command `ranks`."""
        found = [{"id": self.thread_of(row["rank"], row["thread"]), "name": thread_name(row)} for row in rows]
        return found + (self.tasks.threads() if self.tasks is not None else [])

    def focused(self) -> int:
        """The thread that a stop is of: the rank's in focus, or the task's that it stands in."""
        rank = self.debugger.focus
        task = self.tasks.running(rank) if self.tasks is not None else None
        return self.thread_of(rank) if self.tasks is None or task is None else self.tasks.number(rank, task)

    def task_of(self, thread: object) -> tuple[int, int] | None:
        """The rank and the task that a number means, None where it means a rank."""
        return self.tasks.of(thread) if self.tasks is not None else None

    # Frames

    def stack(self, thread: object, start: int, count: int) -> Body:
        """The frames of a thread, innermost first."""
        of_task = self.task_of(thread)
        if of_task is not None:
            found = self._of_task(*of_task)
        else:
            rank, slot = self.rank_of(thread)
            found = (self._frames(rank) if slot == 0 else []) or self._of_record(rank, slot)
        chosen = found[start : start + count if count else None]
        return {"stackFrames": [self._frame(*one) for one in chosen], "totalFrames": len(found)}

    def _frames(self, rank: int) -> list[tuple[Spot, Frame]]:
        try:
            frames = self.debugger.hand(rank).stack()
        except DebuggerError:
            return []
        found = [(Spot(rank, level), frame) for level, frame in enumerate(frames)]
        return self._inner(rank) + found

    def _of_task(self, rank: int, task: int) -> list[tuple[Spot, Frame]]:
        """A task's own frames, and behind them the lines that made it, and the one that made it."""
        assert self.tasks is not None
        if self.tasks.as_rank(rank, task):
            return self._frames(rank)
        frames, spawns = self.tasks.view(rank, task).stack()
        made = [
            Frame(s.at.file, s.at.line, f"made by {s.name or f'task {s.task}'}") for s in spawns if s.at is not None
        ]
        own = [(Spot(rank, level, task=task), frame) for level, frame in enumerate(frames)]
        return own + [(Spot(rank, None, task=task), frame) for frame in made]

    def _inner(self, rank: int) -> list[tuple[Spot, Frame]]:
        """The native frames of a Python rank that its innermost line has called, as far as their lines are known."""
        if isinstance(self.debugger.hand(rank), NativeHand) or not self._has_native(rank):
            return []
        found: list[tuple[Spot, Frame]] = []
        with suppress(DebuggerError):
            if rank not in self._beside:
                self._beside[rank] = NativeHand(self.debugger.replica.controls[rank].pid)
            for level, frame in enumerate(self._beside[rank].stack()):
                if frame.of_interpreter:
                    break
                if frame.file and frame.line:
                    found.append((Spot(rank, level, native=True), frame))
        return found

    def _has_native(self, rank: int) -> bool:
        """Whether gdb is to look into a Python rank too: it has loaded native code of the program's own."""
        if self._native is not None:
            return self._native
        with suppress(OSError):
            maps = Path(f"/proc/{self.debugger.replica.controls[rank].pid}/maps").read_text()
            files = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}
            return any(re.search(r"\.so\b", file) and not _OF_OTHERS.search(file) for file in files)
        return False

    def _of_record(self, rank: int, slot: int) -> list[tuple[Spot, Frame]]:
        """The call that a thread stands at, where nothing can look at its frames."""
        row = self.debugger.stands(rank, slot)
        call = row.get("next") or row.get("call") or row.get("last")
        if call is None or row["state"] in ("ended", "unborn"):
            return []
        return [(Spot(rank, None), Frame(call["file"] or "", call["line"] or 0, call["call"]))]

    def _frame(self, spot: Spot, frame: Frame) -> Body:
        self._spots.append(spot)
        body: Body = {"id": len(self._spots), "name": frame.function, "line": frame.line or 0, "column": 1}
        if frame.file:
            body["source"] = source(frame.file)
        if frame.address and not spot.native:
            body["instructionPointerReference"] = self.instructions.reference(spot.rank, frame.address)
        return (
            body
            if frame.file and (spot.task is None or spot.level is not None)
            else body | {"presentationHint": "subtle"}
        )

    def spot(self, number: object) -> Spot:
        """A frame by its number; without one, the innermost of the rank in focus. UsageError for an old one."""
        if number is None:
            return Spot(self.debugger.focus, 0)
        if not isinstance(number, int) or not 1 <= number <= len(self._spots):
            raise UsageError("ranks have run since: this frame no longer exists")
        return self._spots[number - 1]

    def _hand(self, spot: Spot) -> tuple[Hand | TaskView, int]:
        if spot.level is None:
            what = "it is where the task was made" if spot.task is not None else (
                "the rank, or this thread of it, is only known from the record"
            )  # fmt: skip
            raise DebuggerError(f"no frame can be looked at: {what}")
        if spot.task is not None and self.tasks is not None:
            return self.tasks.view(spot.rank, spot.task), spot.level
        return (self._beside[spot.rank] if spot.native else self.debugger.hand(spot.rank)), spot.level

    # Values

    def scopes(self, frame: object) -> list[Body]:
        """The variables of a frame, and the call of MPI that its rank stands at."""
        spot = self.spot(frame)
        found = []
        if spot.level is not None:
            found.append({"name": "Locals", "presentationHint": "locals", "expensive": False,
                          "variablesReference": self._value(Value(spot))})  # fmt: skip
        call = self._value(Value(spot, call=True))
        return [*found, {"name": "Call of MPI", "expensive": False, "variablesReference": call}]

    def _value(self, value: Value) -> int:
        self._values.append(value)
        return len(self._values)

    def value(self, number: object) -> Value:
        """What has parts, by its number. UsageError for an old one."""
        if not isinstance(number, int) or not 1 <= number <= len(self._values):
            raise UsageError("ranks have run since: this value no longer exists")
        return self._values[number - 1]

    def variables(self, number: object, start: int, count: int) -> list[Body]:
        """The parts of a value."""
        value = self.value(number)
        if value.call:
            return call_of(self.debugger.stands(value.spot.rank))
        hand, level = self._hand(value.spot)
        return [self._variable(value.spot, one) for one in hand.parts(value.expression, level, start, count)]

    def _variable(self, spot: Spot, part: Part) -> Body:
        body: Body = {"name": part.name, "value": part.value, "type": part.type, "variablesReference": 0}
        if part.expression:
            body["evaluateName"] = part.expression
        if part.parts and part.expression:
            body["variablesReference"] = self._value(Value(spot, part.expression))
            body["indexedVariables" if part.indexed else "namedVariables"] = part.parts
        return body

    def evaluate(self, text: str, frame: object) -> Body:
        """The value of an expression in a frame."""
        spot = self.spot(frame)
        hand, level = self._hand(spot)
        body = self._variable(spot, hand.about(text, level))
        del body["name"]
        return {"result": body.pop("value"), **body}

    def assign(self, target: str, text: str, frame: object) -> Body:
        """Give what an expression of a frame means another value."""
        return self._assign(self.spot(frame), target, text)

    def set_variable(self, number: object, name: str, text: str) -> Body:
        """Give a part of a value another value."""
        value = self.value(number)
        return self._assign(value.spot, self._expression(value, name), text)

    def _assign(self, spot: Spot, target: str, text: str) -> Body:
        hand, level = self._hand(spot)
        hand.assign(target, text, level)
        return self._variable(spot, hand.about(target, level))

    def _expression(self, value: Value, name: str) -> str:
        """What means a part of a value in its frame. UsageError where nothing does."""
        if value.call:
            raise UsageError("calls of the record cannot be changed: `weft explore` and `weft replay --force` do that")
        if not value.expression:
            return name
        hand, level = self._hand(value.spot)
        for part in hand.parts(value.expression, level):
            if part.name == name and part.expression:
                return part.expression
        raise UsageError(f"{name} cannot be written as an expression there")

    def data(self, name: str, number: object, frame: object) -> Body:
        """What watches a variable, or says why nothing can."""
        value = None if not number else self.value(number)
        spot = self.spot(frame) if value is None else value.spot
        try:
            expression = name if value is None else self._expression(value, name)
            if spot.native or spot.level is None or spot.task is not None:
                raise DebuggerError(
                    "only variables of a frame of the rank can be watched, not of native code, a task or the record"
                )
        except (DebuggerError, UsageError) as error:
            return {"dataId": None, "description": str(error)}
        return {"dataId": data_id(spot.rank, spot.level, expression), "accessTypes": ["write"],
                "description": f"{expression} on rank {spot.rank}"}  # fmt: skip


def source(file: str) -> Body:
    """A file as the protocol names it."""
    return {"name": Path(file).name, "path": file}


def thread_name(row: Body) -> str:
    """A rank, and the call or line that it stands at."""
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


def call_of(row: Body) -> list[Body]:
    """The call that a rank stands at, as variables."""
    states = {"before": "about to be made", "in": "made, and waits", "polls": "polls in vain", "line": "the next one",
              "outside": "the next one"}  # fmt: skip
    call = row.get("call") or row.get("next") or row.get("last")
    facts: dict[str, Any] = {} if call is None else {
        "call": call["call"], "event": f"{call['event'][0]}:{call['event'][1]}",
        "state": states.get(row["state"], row["state"]),
    }  # fmt: skip
    facts["calls made"] = f"{row['passed']} of {row['of']}" if "passed" in row else "?"
    return [{"name": name, "value": str(value), "variablesReference": 0} for name, value in facts.items()]
