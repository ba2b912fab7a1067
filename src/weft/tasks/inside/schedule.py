"""The order in which a loop lets its tasks go on: held back for one, written down, and kept to in another run.

A loop's `_run_once` is taken over while one of these is wanted, and only then: before each of its rounds the steps of
tasks that are due are looked at, and those that are not to come yet stay aside. Other callbacks (I/O, timers) come as
ever.
"""

from __future__ import annotations

import asyncio
import json
import time
from asyncio import base_events, events
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from .births import Task, birth, pedigree
from .order import SCHEMA

PATIENCE = 5.0
"""Seconds that a replay waits for the task whose turn it is, before it says that the run has left its record."""


def task_of(handle: Any) -> Task | None:
    """The task that a loop's handle lets make a step."""
    owner = getattr(handle._callback, "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


class Turns:
    """The steps of one loop's tasks as they were recorded, and how far a replay is."""

    def __init__(self, ways: list[str]) -> None:
        self.ways, self.at = ways, 0
        self.since: float | None = None

    def due(self, waiting: list[Any], way: Callable[[Task], str]) -> list[Any]:
        """Those of the handles whose turn it is, in the order of their turns."""
        found = []
        while self.at < len(self.ways):
            one = next((h for h in waiting if way(task_of(h)) == self.ways[self.at]), None)  # type: ignore[arg-type]
            if one is None:
                break
            found.append(one)
            waiting.remove(one)
            self.at += 1
        if self.at >= len(self.ways):  # what comes after the record is free
            found += waiting
            waiting.clear()
        self.since = None if not waiting or found else self.since or time.monotonic()
        return found


class Schedule:
    """All loops of the process. `left`: is told where a replay can go on no further."""

    def __init__(self, left: Callable[[str], None]) -> None:
        self._left = left
        self.held: set[int] = set()
        self._aside: dict[Any, list[Any]] = {}
        self._file: TextIO | None = None
        self._turns: dict[int, Turns] | None = None
        self._loops: dict[Any, int] = {}
        self._ways: dict[int, str] = {}
        self._known: set[Any] = set()

    # What is wanted

    def hold(self, task: int, *, on: bool) -> None:
        """Let a task make no step, or again."""
        (self.held.add if on else self.held.discard)(task)

    def record(self, path: str) -> None:
        """Write down which task makes each step."""
        self._file = Path(path).open("w")  # noqa: SIM115 - for as long as the process lives
        self._file.write(json.dumps({"schema": SCHEMA}) + "\n")
        run, taken = events.Handle._run, self._step

        def noted(handle: Any) -> Any:
            taken(handle)
            return run(handle)

        events.Handle._run = noted  # type: ignore[method-assign, assignment]

    def replay(self, path: str) -> None:
        """Let the tasks make their steps in the order that was recorded. ValueError for a file of another kind."""
        with Path(path).open() as file:
            if json.loads(file.readline() or "{}").get("schema") != SCHEMA:
                raise ValueError(f"{path}: `weft tasks --record` did not write this file")
            ways: dict[int, list[str]] = {}
            for line in file:
                loop, _, way = line.rstrip("\n").partition(" ")
                ways.setdefault(int(loop), []).append(way)
        self._turns = {loop: Turns(of) for loop, of in ways.items()}

    def attend(self, loop: Any) -> None:
        """Take a loop over, from its next round on."""
        if loop in self._known or not isinstance(loop, base_events.BaseEventLoop):
            return
        self._known.add(loop)
        rounds = loop._run_once  # type: ignore[attr-defined]

        def run_once() -> None:
            self._before(loop)
            rounds()

        loop._run_once = run_once  # type: ignore[attr-defined]

    # Before each round

    def _number(self, loop: Any) -> int:
        return self._loops.setdefault(loop, len(self._loops))

    def _way(self, task: Task) -> str:
        number = birth(task).id
        if number not in self._ways:
            self._ways[number] = pedigree(task)
        return self._ways[number]

    def _step(self, handle: Any) -> None:
        task = task_of(handle)
        if task is not None and self._file is not None and not handle.cancelled():
            self._file.write(f"{self._number(task.get_loop())} {self._way(task)}\n")

    def _before(self, loop: Any) -> None:
        if self._file is not None:
            self._file.flush()
        aside: list[Any] = self._aside.pop(loop, [])
        handles = [*aside, *loop._ready]
        steps = [handle for handle in handles if not handle.cancelled() and task_of(handle) is not None]
        turns = self._turns.get(self._number(loop)) if self._turns is not None else None
        kept = [handle for handle in steps if birth(task_of(handle)).id in self.held]  # type: ignore[arg-type]
        wanted = [handle for handle in steps if handle not in kept]
        if turns is not None:
            free = self._turn(turns, wanted)
            kept += wanted
        else:
            free = wanted
        if kept:
            self._aside[loop] = kept
        if steps:
            others = [handle for handle in handles if handle not in steps]
            loop._ready = deque([*others, *free] if turns is not None else [h for h in handles if h not in kept])

    def _turn(self, turns: Turns, wanted: list[Any]) -> list[Any]:
        free = turns.due(wanted, self._way)
        if wanted and turns.since is not None and time.monotonic() - turns.since > PATIENCE:
            expected, at = turns.ways[turns.at], turns.at
            self._turns = None
            free += wanted
            wanted.clear()
            self._left(f"the run has left its record: step {at + 1} was of the task {expected}, which does not come")
        return free

    # What the agent's look asks

    @property
    def withholds(self) -> bool:
        """Whether a replay keeps tasks waiting for their turn: what stands still may only be its doing."""
        return any(turns.since is not None for turns in list((self._turns or {}).values()))

    def overdue(self) -> list[Any]:
        """The loops that wait too long for the task whose turn it is."""
        late = time.monotonic() - PATIENCE
        return [loop for loop, number in list(self._loops.items())
                if self._turns is not None and (turns := self._turns.get(number)) is not None
                and turns.since is not None and turns.since < late]  # fmt: skip

    def waits_for_release(self) -> list[int]:
        """The tasks that could make a step if they were not held."""
        steps = [task_of(handle) for aside in list(self._aside.values()) for handle in aside]
        return sorted({birth(task).id for task in steps if task is not None} & self.held)
