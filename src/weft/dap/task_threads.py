"""The logical tasks of the ranks as threads of the editor, behind those of the ranks themselves."""

from __future__ import annotations

from typing import Any, Final

from weft.errors import DebuggerError, UsageError
from weft.tasks.backend import How
from weft.tasks.debugger import Answer
from weft.tasks.model import TaskRow
from weft.tasks.ranks import AsyncioHand, OpenMPHand, TaskPrompt
from weft.tasks.views import TaskView, open_task_view

Body = dict[str, Any]
FIRST: Final = 1 << 20
"""The editor's number of the first task: ranks and their threads have those below."""
MOST: Final = 200
"""Tasks of a rank that are shown."""


class TaskThreads:
    """The tasks of all ranks as they were at the last stop. A task keeps its number as long as the session lasts."""

    def __init__(self, prompt: TaskPrompt) -> None:
        self._prompt = prompt
        self._numbers: dict[tuple[int, int], int] = {}
        self._rows: dict[int, list[TaskRow]] = {}
        self._told: set[int] = set()

    def look(self) -> list[str]:
        """Ask all ranks anew. Sentences on ranks with more tasks than are shown, each once."""
        debugger, self._rows = self._prompt.debugger, {}
        for rank in range(debugger.record.size):
            try:
                hand = debugger.hand(rank)
                if isinstance(hand, (AsyncioHand, OpenMPHand)):
                    with hand.while_halted():
                        self._rows[rank] = hand.backend.tasks()
            except DebuggerError:  # it has ended, or has no tasks
                continue
        more = {rank: len(rows) for rank, rows in self._rows.items() if len(rows) > MOST and rank not in self._told}
        self._told |= more.keys()
        return [f"rank {rank} has {count} tasks: the first {MOST} are threads here, `tasks @{rank}` lists all"
                for rank, count in more.items()]  # fmt: skip

    def number(self, rank: int, task: int) -> int:
        """The editor's number of a task."""
        return self._numbers.setdefault((rank, task), FIRST + len(self._numbers))

    def threads(self) -> list[Body]:
        """The tasks, each with where it is and what it waits for."""
        return [
            {"id": self.number(rank, task.id), "name": f"rank {rank} · {words(task)}"}
            for rank, rows in self._rows.items() for task in rows[:MOST]
        ]  # fmt: skip

    def of(self, thread: object) -> tuple[int, int] | None:
        """The rank and the task that a number means; None for one of a rank. UsageError for a task that is done."""
        if not isinstance(thread, int) or thread < FIRST:
            return None
        found = next((pair for pair, number in self._numbers.items() if number == thread), None)
        if found is None or all(task.id != found[1] for task in self._rows.get(found[0], [])):
            raise UsageError(f"there is no task with the number {thread} any more: it is done")
        return found

    def running(self, rank: int) -> int | None:
        """The task that a rank stands in, None where it stands outside of any."""
        debugger = self._prompt.debugger
        hand: Any = debugger.hands.get(rank)
        if hand is None or hand.stopped is None:
            return None
        if isinstance(hand, AsyncioHand) and not hand.follows:
            return next((task.id for task in self._rows.get(rank, []) if task.state == "top"), None)
        task: int | None = getattr(hand, "task", None)
        return task

    def as_rank(self, rank: int, task: int) -> bool:
        """Whether a task's stack is the one of its rank, which stands in it."""
        hand = self._prompt.debugger.hands.get(rank)
        return isinstance(hand, AsyncioHand) and not hand.follows and self.running(rank) == task

    def view(self, rank: int, task: int) -> TaskView:
        """What looks into a task. DebuggerError where its rank can tell nothing of it."""
        hand = self._prompt.debugger.hand(rank)
        if not isinstance(hand, (AsyncioHand, OpenMPHand)):
            raise DebuggerError(f"rank {rank} has no tasks that can be looked at")
        return open_task_view(hand, task)

    def go(self, how: How, rank: int, task: int) -> Answer:
        """Let one task come on by a line, wherever it runs; the others run as they like."""
        commands = self._prompt.debugger_of_rank(rank)
        commands.focus = task
        return commands.advance(how)


def words(task: TaskRow) -> str:
    """A task in the list of threads."""
    waits = f" waits ({task.wait.kind})" if task.wait is not None else " has not begun" if task.state == "new" else ""
    return f"{task.label}{waits}" + (f" · {task.at}" if task.at is not None else "")
