"""The commands of `weft tasks`, written once for all backends; each answer is a dictionary."""

from __future__ import annotations

import itertools
import linecache
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from weft.base.interrupts import deferring_interrupts, immediate_interrupts, interrupting_after
from weft.base.words import plural
from weft.debug.frames import split_format
from weft.errors import DebuggerError, UsageError, WeftError
from weft.gdb.point import Point
from weft.tasks.backend import Backend, ForkingBackend, Movement, Stop
from weft.tasks.hang_messages import read_source_line
from weft.tasks.model import SourceLine, TaskRow, as_dicts, find_deadlocks, is_descendant, render_label, sort_as_tree

Answer = dict[str, Any]
PEDIGREE = re.compile(r"~[0-9a-f]{16}|\d+(\.\d*)+")
"""A native task's, and one of asyncio's."""
ENDED = "the program has ended: nothing in it runs or stops any more"
STATES = ("new", "top", "middle", "heap", "queued", "running")
KINDS = ("task", "thread", "work")


class TaskDebugger:
    """A debugging session: one program, and one task in focus, which is followed whichever thread runs it."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.focus: int | None = None
        self.kind = "task"
        """What is in focus: a thread, and the work of one, are looked at only."""
        self.child = False
        self.stop = Stop("start")
        self.points: list[Point] = []
        self.level = 0
        self.limit = 0.0
        self.held: set[int] = set()
        self.watches: dict[int, str] = {}
        """What is watched, by the numbers of breakpoints."""
        self._once: set[int] = set()
        self._ids: Iterator[int] = itertools.count(1)

    def start(self) -> Answer:
        """Start the program, and return where it stopped."""
        return self._record_stop(self.backend.start())

    # Running

    def _record_stop(self, stop: Stop) -> Answer:
        """Make a stop the session's current position, and return the stop as an answer."""
        before, self.stop, self.level = self.focus, stop, 0
        if stop.task is not None or stop.why == "ended":
            self.focus, self.kind = stop.task, stop.kind
        if stop.breakpoint in self._once:
            self._delete_temporary_breakpoint(stop.breakpoint)
        for number in stop.over:
            self.watches.pop(number, None)
        named = stop.task is not None and stop.why not in ("done", "ended")
        label = render_label(stop.kind, stop.task or 0, stop.name) if named else None
        return {
            "kind": "stopped",
            **stop.as_dict(),
            "label": label,
            "source": read_source_line(stop.at),
            "from": before,
        }

    def advance(self, movement: Movement, repetitions: str = "") -> Answer:
        """Let the task in focus make a movement (`next`, `step`, `finish` or `continue`), `repetitions` times (empty:
        once), and return the last stop. The other tasks run freely meanwhile.
        """
        if repetitions and not (repetitions.isdigit() and int(repetitions)):
            raise UsageError(f"{repetitions!r} is not a number of times")
        if movement != "continue" and self.kind != "task":
            raise UsageError(
                f"{self.focused_task().label} cannot be stepped, because it is not a task: set a breakpoint in it "
                "(`break`) and `continue`, or choose a task (`task ID`)"
            )
        with deferring_interrupts():  # Ctrl-C is for the program that runs: where it has stopped is noted in any case
            return self._advance_repeatedly(movement, int(repetitions or 1))

    def _advance_repeatedly(self, movement: Movement, repetitions: int) -> Answer:
        """Advance the task in focus `repetitions` times, and return the last stop. End earlier at any stop other than a
        plain line, such as a breakpoint.
        """
        answer: Answer = {}
        for _ in range(repetitions):
            before = self.focus
            answer = self._record_stop(self._advance_once(movement))
            if movement != "continue" and self.stop.why in ("breakpoint", "watch"):
                answer |= self._keep_stepped_task_in_focus(before)
            if self.stop.why in (
                "ended",
                "deadlock",
                "stuck",
                "died",
                "breakpoint",
                "watch",
                "interrupted",
                "signal",
                "waiting",
            ):
                break
        return answer

    def _keep_stepped_task_in_focus(self, task: int | None) -> Answer:
        """Put a stepped task back into focus if another task has reached a breakpoint meanwhile. Return {"stays": the
        task's number, label and line} for the answer; empty if the focus did not have to change.
        """
        row = next((row for row in self.read_rows() if row.id == task), None)
        if row is None or row.kind != "task" or self.stop.task == task:
            return {}
        self.focus, self.kind = row.id, row.kind
        return {"stays": {"task": row.id, "label": row.label, "at": row.at.as_dict() if row.at else None}}

    def _advance_once(self, movement: Movement) -> Stop:
        """Let the task in focus make one movement, and return the stop. Ctrl-C or the time limit interrupts the
        program.
        """
        begun = time.monotonic()
        try:
            with immediate_interrupts(), interrupting_after(self.limit):
                return self.backend.advance(movement, self.focus, child=self.child)
        except KeyboardInterrupt:
            stop = self._attribute_interrupt(movement, self.backend.interrupt())
            over = bool(self.limit) and stop.why == "interrupted" and time.monotonic() - begun >= self.limit
            return replace(stop, text=f"stopped after {self.limit:g} s. {stop.text}".rstrip()) if over else stop

    def _attribute_interrupt(self, movement: Movement, stop: Stop) -> Stop:
        """If Ctrl-C interrupted a step, return the stop as one of the task in focus, at this task's line. Any other
        stop is returned unchanged.
        """
        row = next((row for row in self.read_rows() if row.id == self.focus), None) if movement != "continue" else None
        if row is None or stop.why != "interrupted" or stop.task == row.id:
            return stop
        return replace(stop, task=row.id, at=row.at, worker=row.worker, name=row.name)

    def follow(self, relative: str) -> Answer:
        """Choose whether a step over a spawn follows the `child` or stays with the `parent`."""
        if relative not in ("parent", "child"):
            raise UsageError("follow what? `follow parent` or `follow child`")
        self.child = relative == "child"
        return {"kind": "text", "text": f"at a spawn: stepping goes on in the {relative}"}

    # Looking

    def read_rows(self) -> list[TaskRow]:
        """Return the table of tasks as it is now."""
        return self.backend.tasks()

    def tasks(self, filters: str = "", row_limit: int | None = None) -> Answer:
        """List the tasks that match the filters, such as `waiting`; `--tree` among them sorts the tasks by ancestry."""
        rows, words = self.read_rows(), filters.split()
        as_tree = "--tree" in words
        keep = [parse_filter(word, {row.id: row for row in rows}) for word in words if word != "--tree"]
        chosen = [row for row in rows if all(f(row) for f in keep)] if keep else rows
        shown = sort_as_tree(chosen)[:row_limit] if as_tree else [(0, row) for row in chosen[:row_limit]]
        told, with_ = as_dicts(row for _, row in shown), self.backend.workers_of_held() if self.held else {}
        for (depth, row), one in zip(shown, told, strict=True):
            one["depth"], one["focus"], one["held"] = depth, row.id == self.focus, row.id in self.held
            if row.id in with_:
                one["with"] = with_[row.id]
        unseen = "" if rows else self.backend.explain_missing_tasks()
        return {"kind": "tasks", "total": len(rows), "chosen": len(chosen), "tasks": told, "unseen": unseen or None,
                "children": self.children()}  # fmt: skip

    def children(self) -> list[Answer]:
        """Return the child processes that can be entered."""
        found = self.backend.children() if isinstance(self.backend, ForkingBackend) else []
        return [{"pid": pid, "name": name} for pid, name in found]

    def find_task(self, reference: str) -> TaskRow:
        """Return the task with a number, name or pedigree (its path from the first task), or the task to which an
        expression leads. UsageError if there is none, or if several have the name.
        """
        rows = self.read_rows()
        found = [row for row in rows if reference == str(row.id)] or [row for row in rows if reference == row.name]
        found = found or [row for row in rows if reference == row.pedigree]
        if not found and PEDIGREE.fullmatch(reference):
            raise UsageError(f"no living task has the pedigree {reference}: `tasks` with --format json shows them")
        if not found and not reference.isdigit():
            try:
                held = self.backend.find_task_of_value(self.focus, reference)
            except DebuggerError as error:
                raise UsageError(
                    f"no task is called {reference!r} (`tasks` lists them), and its value as an expression is not a "
                    f"task: {error}"
                ) from error
            found = [row for row in rows if row.id == held]
        if len(found) != 1:
            raise UsageError(
                f"{'several tasks are' if found else 'no task is'} called {reference!r}: `tasks` lists them"
            )
        return found[0]

    def _find_steppable_task(self, reference: str) -> TaskRow:
        """Return a task as `find_task` does. UsageError if it is a thread or a thread's work, as these cannot be
        stepped or held.
        """
        found = self.find_task(reference)
        if found.kind != "task":
            raise UsageError(f"{found.label} is not a task: use `where`, `locals` and `print` on it")
        return found

    def set_focus(self, reference: str) -> Answer:
        """Put a task into focus, whichever thread runs it, and return its row as the answer. An empty reference changes
        nothing, and the answer is the row of the task in focus.
        """
        if not reference:
            return {"kind": "task", "task": self.focused_task().as_dict()}
        task = self.find_task(reference)
        self.focus, self.kind, self.level = task.id, task.kind, 0
        return {"kind": "task", "task": task.as_dict()}

    def focused_task(self) -> TaskRow:
        """Return the task in focus. UsageError if there is none."""
        found = next((row for row in self.read_rows() if row.id == self.focus), None)
        if found is None and self.stop.why == "ended":
            raise UsageError(ENDED)
        if found is None:
            raise UsageError("no task is chosen yet: `step` goes to the first one, `task ID` chooses one")
        return found

    def name(self, id_and_name: str) -> Answer:
        """Give a task a name: `ID NAME`."""
        words = id_and_name.split()
        if len(words) != 2 or words[1].isdigit():
            raise UsageError("name which task how? `name 3 reader`")
        task = self.find_task(words[0])
        self.backend.name(task.id, words[1])
        return {"kind": "text", "text": f"{render_label(task.kind, task.id, '')} is {words[1]}"}

    def where(self, arguments: str = "") -> Answer:
        """Show the frames of a task, and after them the spawns by which the task came to be. `arguments`: the task,
        empty for the one in focus; with `--all`, frames of libraries are shown, too.
        """
        words = arguments.split()
        every = "--all" in words
        task = self.find_task(" ".join(word for word in words if word != "--all")) if set(words) - {"--all"} else None
        id_ = task.id if task else self.focus
        frames, spawns = self.backend.frames(id_, with_libraries=every)
        names = {row.id: row.label for row in self.read_rows()}
        return {"kind": "where", "task": id_, "label": names.get(id_ or 0),
                "frames": [{**f.as_dict(), "text": read_source_line(f)} for f in frames],
                "spawns": [{"task": s.task, "label": names.get(s.task, f"task {s.task}, done"),
                            "at": s.at.as_dict() if s.at else None} for s in spawns]}  # fmt: skip

    def evaluate(self, expression: str) -> Answer:
        """Show the value of an expression in the selected frame: `[/FORMAT] EXPR`."""
        form, expression = split_format(expression)
        if not expression:
            raise UsageError("print what? `print n`, `print/x flags`")
        return {
            "kind": "print",
            "expression": expression,
            "value": self.backend.evaluate(self.focus, expression, self.level, form),
        }

    def locals(self) -> Answer:
        """Show the variables of the selected frame."""
        values = self.backend.locals(self.focus, self.level)
        return {"kind": "locals", "values": [{"name": name, "value": value} for name, value in values]}

    def assign(self, assignment: str) -> Answer:
        """Assign a value to a variable of the selected frame: `NAME = EXPR`."""
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not (name and equals and value):
            raise UsageError("set what? `set total = 0`")
        told = self.backend.assign(self.focus, name, value, self.level)
        return {"kind": "print", "expression": name, "value": f"{name} = {told}"}

    def move_frame(self, direction: int, count: str) -> Answer:
        """Select the frame `count` levels (empty: one) further out (`direction` 1) or further in (`direction` -1)."""
        if count and not count.isdigit():
            raise UsageError(f"{count!r} is not a number of frames")
        frames, _ = self.backend.frames(self.focus)
        if not frames:
            raise UsageError("the task is in no function of the program")
        level = min(max(self.level + direction * int(count or 1), 0), len(frames) - 1)
        if level == self.level:
            raise UsageError(f"frame {level} is the {'outermost' if direction > 0 else 'innermost'} one of the task")
        self.level, at = level, frames[level]
        return {"kind": "frame", "level": level, **at.as_dict(), "text": read_source_line(at)}

    def list_source(self, text: str = "") -> Answer:
        """Show the source lines around the selected frame, or around a line."""
        at = self.backend.frames(self.focus)[0][self.level] if self.level else self.current_line()
        if at is None or not at.line:
            raise UsageError("Weft knows no line of the program here: compile with -g, or name one (FILE:LINE)")
        line = int(text) if text.isdigit() else at.line
        first = max(line - 5, 1)
        lines = linecache.getlines(at.file)[first - 1 : first + 9]
        told = [{"line": n, "text": text.rstrip(), "here": n == at.line} for n, text in enumerate(lines, first)]
        return {"kind": "list", "file": at.file, "lines": told}

    def current_line(self) -> SourceLine | None:
        """Return the line at which the task in focus is; None if unknown."""
        return self.stop.at if self.stop.task == self.focus else self.focused_task().at

    def waits(self) -> Answer:
        """Show which tasks wait for which, their deadlocks, and why the program hangs or what holds it up."""
        table = self.read_rows()
        rows = [row for row in table if row.wait is not None]
        found = find_deadlocks(table)
        told = [{"tasks": [task.id for task in d.tasks], "message": d.message, "sites": d.sites} for d in found]
        hung = "" if found else self.backend.explain_hang()
        delay = "" if found or hung else self.backend.explain_delay()
        return {"kind": "waits", "waits": [row.as_dict() for row in rows], "deadlocks": told, "hung": hung or None,
                "delay": delay or None}  # fmt: skip

    # Breakpoints

    def break_at(self, specification: str) -> Answer:
        """Set a breakpoint: `FILE:LINE | LINE | FUNCTION [task ID [descendants]] [if EXPR]`."""
        found = re.fullmatch(r"(\S+)(?:\s+task\s+(\S+)(\s+descendants)?)?(?:\s+if\s+(\S.*))?", specification)
        if not found:
            raise UsageError("break where? `break prog.py:9`, `break work task 3 descendants`, `break work if n > 3`")
        if self.stop.why == "ended":
            raise UsageError(ENDED)
        place, scope, descendants, condition = found.groups()
        way = scope if scope and PEDIGREE.fullmatch(scope) else ""
        task = self._find_steppable_task(scope).id if scope and not way else None
        file, _, line = place.rpartition(":")
        if place.isdigit():
            at = self.current_line() if self.focus is not None else self.stop.at
            if at is None:
                raise UsageError("the line needs a file: `break prog.py:9`")
            file, line = at.file, place
        of_line = line.isdigit() and bool(file)
        point = Point(next(self._ids), file if of_line else "", int(line) if of_line else 0, "" if of_line else place,
                      task=task, descendants=bool(descendants), condition=condition or "", pedigree=way)  # fmt: skip
        try:
            self.backend.replace_breakpoints([*self.points, point])
        except WeftError:
            self._ids = itertools.chain([point.id], self._ids)  # the next one that is taken has its number
            raise
        self.points.append(point)
        return {"kind": "break", "breakpoint": {**point.as_dict(), "text": point.text}}

    def break_once(self, specification: str) -> Answer:
        """Set a breakpoint that is deleted at its first stop."""
        answer = self.break_at(specification)
        self._once.add(answer["breakpoint"]["id"])
        return answer

    def until(self, location: str) -> Answer:
        """Run until the task in focus reaches `FILE:LINE | LINE | FUNCTION`, or something else stops."""
        if len(location.split()) != 1:
            raise UsageError("until where? `until 9`, `until prog.py:9`, `until work`")
        point: int = self.break_once(f"{location} task {self.focused_task().id}")["breakpoint"]["id"]
        try:
            return self.advance("continue")
        finally:
            if point in self._once:
                self._delete_temporary_breakpoint(point)

    def _delete_temporary_breakpoint(self, number: int) -> None:
        """Delete a breakpoint that was set to stop only once, by its number."""
        self._once.discard(number)
        self.points = [one for one in self.points if one.id != number]
        if self.stop.why != "ended":
            self.backend.replace_breakpoints(self.points)

    def breakpoints(self) -> Answer:
        """List all breakpoints and watchpoints."""
        watches = [{"id": number, "expression": text} for number, text in self.watches.items()]
        more = {"watches": watches} if watches else {}
        return {"kind": "breakpoints", "breakpoints": [{**p.as_dict(), "text": p.text} for p in self.points]} | more

    def delete(self, numbers: str) -> Answer:
        """Delete breakpoints and watchpoints by their numbers, or all."""
        known = {str(p.id) for p in self.points} | {str(number) for number in self.watches}
        chosen = known if numbers in ("", "all") else set(numbers.split())
        if not chosen or not chosen <= known:
            raise UsageError(f"there is no breakpoint {numbers}".rstrip())
        for number in [number for number in self.watches if str(number) in chosen]:
            del self.watches[number]
            if self.stop.why != "ended":
                self.backend.unwatch(number)
        self.points = [p for p in self.points if str(p.id) not in chosen]
        self.backend.replace_breakpoints(self.points)
        return self.breakpoints()

    def watch(self, expression: str) -> Answer:
        """Watch an expression: stop when any task changes its value. The watchpoint is removed when the selected frame
        returns.
        """
        if not expression:
            raise UsageError("watch what? `watch total`")
        if self.stop.why == "ended":
            raise UsageError(ENDED)
        number = next(self._ids)
        try:
            value = self.backend.watch(number, self.focus, expression, self.level)
        except WeftError:
            self._ids = itertools.chain([number], self._ids)
            raise
        self.watches[number] = expression
        return {"kind": "watch", "id": number, "expression": expression, "value": value}

    def hold(self, reference: str) -> Answer:
        """Hold a task, so that it makes no step while the others run. `reference`: its number, name or pedigree (its
        path from the first task).
        """
        if not reference:
            raise UsageError("hold which task? `hold 3`")
        task = self._find_steppable_task(reference)
        told = self.backend.hold(task.id, on=True)
        self.held.add(task.id)
        told = told or f"{task.label} is held where it is: `release {task.id}` lets it continue"
        return {"kind": "text", "text": told}

    def release(self, reference: str = "") -> Answer:
        """Release a held task, or all: `[ID]`."""
        chosen = {self.find_task(reference).id} if reference else set(self.held)
        if not chosen or not chosen <= self.held:
            raise UsageError(f"task {reference} is not held" if reference else "no task is held")
        for task in sorted(chosen):
            self.backend.hold(task, on=False)
        self.held -= chosen
        return {"kind": "text", "text": f"{plural(len(chosen), 'task')} can continue"}

    def catch(self, exception: str) -> Answer:
        """Stop from now on when a task ends by an exception. `exception`: the name of its class, empty for any; `off`:
        stop no longer.
        """
        if len(exception.split()) > 1:
            raise UsageError("catch what? `catch`, `catch ValueError`, `catch off`")
        on = exception != "off"
        self.backend.catch(exception if on else "", on=on)
        what = f"{exception} or what is derived from it" if exception else "an exception"
        return {"kind": "text", "text": f"stops where {what} ends a task" if on else "stops at no exception"}


def parse_filter(word: str, rows: dict[int, TaskRow]) -> Callable[[TaskRow], bool]:
    """Return a function that tests a row of the table of tasks against a filter, such as `new`, `waiting`, `under=3` or
    `name=x`.
    """
    key, _, value = word.partition("=")
    if word in KINDS:
        return lambda row: row.kind == word
    if word in STATES:
        return lambda row: row.state == word
    if word == "waiting":
        return lambda row: row.wait is not None
    if key == "under" and value.isdigit():
        return lambda row: is_descendant(rows, row.id, int(value))
    if key == "name" and value:
        return lambda row: value in row.name
    raise UsageError(f"{word!r} is not a filter: {', '.join(STATES + KINDS)}, waiting, under=ID, name=TEXT")
