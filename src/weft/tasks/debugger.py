"""The commands, written once on the model: every answer is data. Backends differ only below this."""

from __future__ import annotations

import itertools
import linecache
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from weft.base.interrupts import immediate_interrupts, kept, limited
from weft.base.words import plural
from weft.debug.frames import split_format
from weft.errors import DebuggerError, UsageError, WeftError
from weft.gdb.point import Point
from weft.tasks.backend import Backend, Forking, How, Stop
from weft.tasks.model import SourceLine, Task, as_dicts, called, deadlocks, descends, tree

Answer = dict[str, Any]
PEDIGREE = re.compile(r"~[0-9a-f]{16}|\d+(\.\d*)+")
"""A native task's, and one of asyncio's."""
ENDED = "the program has come to its end: nothing in it runs or stops any more"
STATES = ("new", "top", "middle", "heap", "queued", "running")
KINDS = ("task", "thread", "work")


class Debugger:
    """A session: one program, one task in focus, followed wherever it runs."""

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
        """Bring the program up."""
        return self._at(self.backend.start())

    # Running

    def _at(self, stop: Stop) -> Answer:
        before, self.stop, self.level = self.focus, stop, 0
        if stop.task is not None or stop.why == "ended":
            self.focus, self.kind = stop.task, stop.kind
        if stop.breakpoint in self._once:
            self._drop(stop.breakpoint)
        for number in stop.over:
            self.watches.pop(number, None)
        named = stop.task is not None and stop.why not in ("done", "ended")
        label = called(stop.kind, stop.task or 0, stop.name) if named else None
        return {"kind": "stopped", **stop.as_dict(), "label": label, "source": text_of(stop.at), "from": before}

    def go(self, how: How, text: str = "") -> Answer:
        """Let the task in focus come on, the others run as they like."""
        if text and not (text.isdigit() and int(text)):
            raise UsageError(f"{text!r} is not a number of times")
        if how != "continue" and self.kind != "task":
            raise UsageError(f"{self.current().label} is not stepped: `break` in it and `continue`, or `task ID`")
        with kept():  # Ctrl-C is for the program that runs: where it has stopped is noted in any case
            return self._times(how, int(text or 1))

    def _times(self, how: How, times: int) -> Answer:
        answer: Answer = {}
        for _ in range(times):
            answer = self._at(self._gone(how))
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

    def _gone(self, how: How) -> Stop:
        begun = time.monotonic()
        try:
            with immediate_interrupts(), limited(self.limit):
                return self.backend.go(how, self.focus, child=self.child)
        except KeyboardInterrupt:
            stop = self._still(how, self.backend.interrupt())
            over = bool(self.limit) and stop.why == "interrupted" and time.monotonic() - begun >= self.limit
            return replace(stop, text=f"stopped after {self.limit:g} s. {stop.text}".rstrip()) if over else stop

    def _still(self, how: How, stop: Stop) -> Stop:
        """Ctrl-C in `next` and the like leaves the task in hand the one that is meant, wherever it has come to."""
        row = next((row for row in self.rows() if row.id == self.focus), None) if how != "continue" else None
        if row is None or stop.why != "interrupted" or stop.task == row.id:
            return stop
        return replace(stop, task=row.id, at=row.at, worker=row.worker, name=row.name)

    def follow(self, text: str) -> Answer:
        """Whether a spawn leads to the child, or on in the parent."""
        if text not in ("parent", "child"):
            raise UsageError("follow what? `follow parent` or `follow child`")
        self.child = text == "child"
        return {"kind": "text", "text": f"at a spawn: on in the {text}"}

    # Looking

    def rows(self) -> list[Task]:
        """The table."""
        return self.backend.tasks()

    def tasks(self, text: str = "", most: int | None = None) -> Answer:
        """All tasks, or those of some states, of an ancestor, of a name; `--tree`: by ancestry. `most`: rows told."""
        rows, words = self.rows(), text.split()
        as_tree = "--tree" in words
        keep = [filter_of(word, {row.id: row for row in rows}) for word in words if word != "--tree"]
        chosen = [row for row in rows if all(f(row) for f in keep)] if keep else rows
        shown = tree(chosen)[:most] if as_tree else [(0, row) for row in chosen[:most]]
        told, with_ = as_dicts(row for _, row in shown), self.backend.waiting_with() if self.held else {}
        for (depth, row), one in zip(shown, told, strict=True):
            one["depth"], one["focus"], one["held"] = depth, row.id == self.focus, row.id in self.held
            if row.id in with_:
                one["with"] = with_[row.id]
        unseen = "" if rows else self.backend.unseen()
        return {"kind": "tasks", "total": len(rows), "chosen": len(chosen), "tasks": told, "unseen": unseen or None,
                "children": self.children()}  # fmt: skip

    def children(self) -> list[Answer]:
        """The processes that the program has made and that can be gone to."""
        found = self.backend.children() if isinstance(self.backend, Forking) else []
        return [{"pid": pid, "name": name} for pid, name in found]

    def find(self, text: str) -> Task:
        """A task by its number or name, or by what the program holds of it. UsageError where there is none."""
        rows = self.rows()
        found = [row for row in rows if text == str(row.id)] or [row for row in rows if text == row.name]
        found = found or [row for row in rows if text == row.pedigree]
        if not found and PEDIGREE.fullmatch(text):
            raise UsageError(f"no living task has the pedigree {text}: `tasks` with --format json tells them")
        if not found and not text.isdigit():
            try:
                held = self.backend.held(self.focus, text)
            except DebuggerError as error:
                raise UsageError(
                    f"no task is called {text!r} (`tasks` lists them), nor does it lead to one: {error}"
                ) from error
            found = [row for row in rows if row.id == held]
        if len(found) != 1:
            raise UsageError(f"{'several tasks are' if found else 'no task is'} called {text!r}: `tasks` lists them")
        return found[0]

    def _task(self, text: str) -> Task:
        """A task. UsageError for a thread or its work, which run as they like."""
        found = self.find(text)
        if found.kind != "task":
            raise UsageError(f"{found.label} is not a task: `where`, `locals` and `print` are for it")
        return found

    def switch(self, text: str) -> Answer:
        """Make a task the one in focus, wherever it is."""
        if not text:
            return {"kind": "task", "task": self.current().as_dict()}
        task = self.find(text)
        self.focus, self.kind, self.level = task.id, task.kind, 0
        return {"kind": "task", "task": task.as_dict()}

    def current(self) -> Task:
        """The task in focus. UsageError where there is none."""
        found = next((row for row in self.rows() if row.id == self.focus), None)
        if found is None and self.stop.why == "ended":
            raise UsageError(ENDED)
        if found is None:
            raise UsageError("no task is in focus yet: `step` goes to the first one, `task ID` chooses")
        return found

    def name(self, text: str) -> Answer:
        """`ID NAME`."""
        words = text.split()
        if len(words) != 2 or words[1].isdigit():
            raise UsageError("name which task how? `name 3 reader`")
        task = self.find(words[0])
        self.backend.name(task.id, words[1])
        return {"kind": "text", "text": f"{called(task.kind, task.id, '')} is {words[1]}"}

    def where(self, text: str = "") -> Answer:
        """A task's own frames (`--all`: libraries' too), and behind them the spawns that led to it."""
        words = text.split()
        every = "--all" in words
        task = self.find(" ".join(word for word in words if word != "--all")) if set(words) - {"--all"} else None
        id_ = task.id if task else self.focus
        frames, spawns = self.backend.frames(id_, every=every)
        names = {row.id: row.label for row in self.rows()}
        return {"kind": "where", "task": id_, "label": names.get(id_ or 0),
                "frames": [{**f.as_dict(), "text": text_of(f)} for f in frames],
                "spawns": [{"task": s.task, "label": names.get(s.task, f"task {s.task}, done"),
                            "at": s.at.as_dict() if s.at else None} for s in spawns]}  # fmt: skip

    def evaluate(self, text: str) -> Answer:
        """`[/FORMAT] EXPR` in the frame in hand."""
        form, text = split_format(text)
        if not text:
            raise UsageError("print what? `print n`, `print/x flags`")
        return {"kind": "print", "expression": text, "value": self.backend.evaluate(self.focus, text, self.level, form)}

    def locals(self) -> Answer:
        """The variables of the frame in hand."""
        values = self.backend.locals(self.focus, self.level)
        return {"kind": "locals", "values": [{"name": name, "value": value} for name, value in values]}

    def assign(self, text: str) -> Answer:
        """`NAME = EXPR` in the frame in hand."""
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError("give what which value? `set total = 0`")
        told = self.backend.assign(self.focus, name, value, self.level)
        return {"kind": "print", "expression": name, "value": f"{name} = {told}"}

    def climb(self, way: int, text: str) -> Answer:
        """`[N]` frames further out (way 1) or in (-1)."""
        if text and not text.isdigit():
            raise UsageError(f"{text!r} is not a number of frames")
        frames, _ = self.backend.frames(self.focus)
        if not frames:
            raise UsageError("the task is in no frame of the program")
        level = min(max(self.level + way * int(text or 1), 0), len(frames) - 1)
        if level == self.level:
            raise UsageError(f"frame {level} is the {'outermost' if way > 0 else 'innermost'} one of the task")
        self.level, at = level, frames[level]
        return {"kind": "frame", "level": level, **at.as_dict(), "text": text_of(at)}

    def source(self, text: str = "") -> Answer:
        """Lines around where the task stands, in the frame in hand."""
        at = self.backend.frames(self.focus)[0][self.level] if self.level else self.focus_line()
        if at is None or not at.line:
            raise UsageError("no line of the program is known here")
        line = int(text) if text.isdigit() else at.line
        first = max(line - 5, 1)
        lines = linecache.getlines(at.file)[first - 1 : first + 9]
        told = [{"line": n, "text": text.rstrip(), "here": n == at.line} for n, text in enumerate(lines, first)]
        return {"kind": "list", "file": at.file, "lines": told}

    def focus_line(self) -> SourceLine | None:
        """Where the task in focus stands."""
        return self.stop.at if self.stop.task == self.focus else self.current().at

    def waits(self) -> Answer:
        """Who waits for whom; and the circles."""
        table = self.rows()
        rows = [row for row in table if row.wait is not None]
        found = deadlocks(table)
        told = [{"tasks": [task.id for task in d.tasks], "message": d.message, "sites": d.sites} for d in found]
        hung = "" if found else self.backend.verdict()
        return {"kind": "waits", "waits": [row.as_dict() for row in rows], "deadlocks": told, "hung": hung or None}

    # Breakpoints

    def break_at(self, text: str) -> Answer:
        """`FILE:LINE | LINE | FUNCTION [task ID [descendants]]`."""
        found = re.fullmatch(r"(\S+)(?:\s+task\s+(\S+)(\s+descendants)?)?(?:\s+if\s+(\S.*))?", text)
        if not found:
            raise UsageError("break where? `break prog.py:9`, `break work task 3 descendants`, `break work if n > 3`")
        if self.stop.why == "ended":
            raise UsageError(ENDED)
        place, scope, descendants, condition = found.groups()
        way = scope if scope and PEDIGREE.fullmatch(scope) else ""
        task = self._task(scope).id if scope and not way else None
        file, _, line = place.rpartition(":")
        if place.isdigit():
            at = self.focus_line() if self.focus is not None else self.stop.at
            if at is None:
                raise UsageError("a line of which file? `break prog.py:9`")
            file, line = at.file, place
        of_line = line.isdigit() and bool(file)
        point = Point(next(self._ids), file if of_line else "", int(line) if of_line else 0, "" if of_line else place,
                      task=task, descendants=bool(descendants), condition=condition or "", pedigree=way)  # fmt: skip
        try:
            self.backend.arm([*self.points, point])
        except WeftError:
            self._ids = itertools.chain([point.id], self._ids)  # the next one that is taken has its number
            raise
        self.points.append(point)
        return {"kind": "break", "breakpoint": {**point.as_dict(), "text": point.text}}

    def break_once(self, text: str) -> Answer:
        """A breakpoint that stops for the first time only."""
        answer = self.break_at(text)
        self._once.add(answer["breakpoint"]["id"])
        return answer

    def until(self, text: str) -> Answer:
        """`FILE:LINE | LINE | FUNCTION`: on until the task in focus comes there, or something else stops."""
        if len(text.split()) != 1:
            raise UsageError("until where? `until 9`, `until prog.py:9`, `until work`")
        point: int = self.break_once(f"{text} task {self.current().id}")["breakpoint"]["id"]
        try:
            return self.go("continue")
        finally:
            if point in self._once:
                self._drop(point)

    def _drop(self, point: int) -> None:
        """Take a breakpoint away that stops only once."""
        self._once.discard(point)
        self.points = [one for one in self.points if one.id != point]
        if self.stop.why != "ended":
            self.backend.arm(self.points)

    def breakpoints(self) -> Answer:
        """All breakpoints, and what is watched."""
        watches = [{"id": number, "expression": text} for number, text in self.watches.items()]
        more = {"watches": watches} if watches else {}
        return {"kind": "breakpoints", "breakpoints": [{**p.as_dict(), "text": p.text} for p in self.points]} | more

    def delete(self, text: str) -> Answer:
        """Take some away by their numbers, or all."""
        known = {str(p.id) for p in self.points} | {str(number) for number in self.watches}
        chosen = known if text in ("", "all") else set(text.split())
        if not chosen or not chosen <= known:
            raise UsageError(f"there is no breakpoint {text}".rstrip())
        for number in [number for number in self.watches if str(number) in chosen]:
            del self.watches[number]
            if self.stop.why != "ended":
                self.backend.unwatch(number)
        self.points = [p for p in self.points if str(p.id) not in chosen]
        self.backend.arm(self.points)
        return self.breakpoints()

    def watch(self, text: str) -> Answer:
        """`EXPR`: stop where its value changes, whichever task changes it, until the frame in hand has returned."""
        if not text:
            raise UsageError("watch what? `watch total`")
        if self.stop.why == "ended":
            raise UsageError(ENDED)
        number = next(self._ids)
        try:
            value = self.backend.watch(number, self.focus, text, self.level)
        except WeftError:
            self._ids = itertools.chain([number], self._ids)
            raise
        self.watches[number] = text
        return {"kind": "watch", "id": number, "expression": text, "value": value}

    def hold(self, text: str) -> Answer:
        """`ID`: that task makes no step while the others go on."""
        if not text:
            raise UsageError("hold which task? `hold 3`")
        task = self._task(text)
        told = self.backend.hold(task.id, on=True)
        self.held.add(task.id)
        told = told or f"{task.label} is held where it is: `release {task.id}` lets it go on"
        return {"kind": "text", "text": told}

    def release(self, text: str = "") -> Answer:
        """`[ID]`: a task that is held goes on, or all."""
        chosen = {self.find(text).id} if text else set(self.held)
        if not chosen or not chosen <= self.held:
            raise UsageError(f"task {text} is not held" if text else "no task is held")
        for task in sorted(chosen):
            self.backend.hold(task, on=False)
        self.held -= chosen
        return {"kind": "text", "text": f"{plural(len(chosen), 'task')} can go on"}

    def catch(self, text: str) -> Answer:
        """`[EXCEPTION] | off`: stop where a task dies of an exception."""
        if len(text.split()) > 1:
            raise UsageError("catch what? `catch`, `catch ValueError`, `catch off`")
        on = text != "off"
        self.backend.catch(text if on else "", on=on)
        what = f"{text} or what is derived from it" if text else "an exception"
        return {"kind": "text", "text": f"stops where a task dies of {what}" if on else "stops at no exception"}


def filter_of(word: str, rows: dict[int, Task]) -> Callable[[Task], bool]:
    """`new`, `waiting`, `under=3` or `name=x` as a test of a row."""
    key, _, value = word.partition("=")
    if word in KINDS:
        return lambda row: row.kind == word
    if word in STATES:
        return lambda row: row.state == word
    if word == "waiting":
        return lambda row: row.wait is not None
    if key == "under" and value.isdigit():
        return lambda row: descends(rows, row.id, int(value))
    if key == "name" and value:
        return lambda row: value in row.name
    raise UsageError(f"{word!r} is not a filter: {', '.join(STATES + KINDS)}, waiting, under=ID, name=TEXT")


def text_of(at: SourceLine | None) -> str:
    """The text of a line."""
    return linecache.getline(at.file, at.line).strip() if at is not None and at.line else ""
