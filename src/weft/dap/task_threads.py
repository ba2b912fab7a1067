"""Show the logical tasks of the ranks as threads of the editor, after the threads of the ranks themselves."""

from __future__ import annotations

from typing import Any, Final

from weft.errors import DebuggerError, UsageError
from weft.tasks.backend import Movement
from weft.tasks.debugger import Answer
from weft.tasks.model import TaskRow
from weft.tasks.ranks import AsyncioHand, OpenMPHand, TaskPrompt
from weft.tasks.views import TaskView, open_task_view

Body = dict[str, Any]
FIRST_TASK_NUMBER: Final = 1 << 20
"""The editor's number of the first task: ranks and their threads have those below."""
MAX_TASKS: Final = 200
"""Tasks of a rank that are shown."""


class TaskThreads:
    """The tasks of all ranks at the last stop. A task has the same thread number throughout the session."""

    def __init__(self, prompt: TaskPrompt) -> None:
        self._prompt = prompt
        self._numbers: dict[tuple[int, int], int] = {}
        self._rows: dict[int, list[TaskRow]] = {}
        self._told: set[int] = set()

    def refresh(self) -> list[str]:
        """Read the tasks of all ranks. Return a sentence for each rank that has more tasks than are shown, only once in
        a session.
        """
        debugger, self._rows = self._prompt.debugger, {}
        for rank in range(debugger.record.size):
            try:
                hand = debugger.hand(rank)
                if isinstance(hand, (AsyncioHand, OpenMPHand)):
                    with hand.while_halted():
                        self._rows[rank] = hand.backend.tasks()
            except DebuggerError:  # it has ended, or has no tasks
                continue
        more = {
            rank: len(rows) for rank, rows in self._rows.items() if len(rows) > MAX_TASKS and rank not in self._told
        }
        self._told |= more.keys()
        return [f"rank {rank} has {count} tasks: the first {MAX_TASKS} are threads here, `tasks @{rank}` lists all"
                for rank, count in more.items()]  # fmt: skip

    def thread_number(self, rank: int, task: int) -> int:
        """Return the editor's thread number of a task."""
        return self._numbers.setdefault((rank, task), FIRST_TASK_NUMBER + len(self._numbers))

    def list_threads(self) -> list[Body]:
        """Return the tasks as threads for the editor, each with where it is and what it waits for."""
        return [
            {"id": self.thread_number(rank, task.id), "name": f"rank {rank} · {task_label(task)}"}
            for rank, rows in self._rows.items() for task in rows[:MAX_TASKS]
        ]  # fmt: skip

    def task_of_thread(self, thread_number: object) -> tuple[int, int] | None:
        """Return the rank and the number of the task behind a thread of the editor; None if it is a thread of a rank.
        UsageError if the task is done.
        """
        if not isinstance(thread_number, int) or thread_number < FIRST_TASK_NUMBER:
            return None
        found = next((pair for pair, number in self._numbers.items() if number == thread_number), None)
        if found is None or all(task.id != found[1] for task in self._rows.get(found[0], [])):
            raise UsageError(f"task {thread_number} has finished")
        return found

    def running_task(self, rank: int) -> int | None:
        """Return the number of the task that a rank is stopped in; None if it is in none, or is not stopped at a
        line.
        """
        debugger = self._prompt.debugger
        hand: Any = debugger.hands.get(rank)
        if hand is None or hand.stopped is None:
            return None
        if isinstance(hand, AsyncioHand) and not hand.follows:
            return next((task.id for task in self._rows.get(rank, []) if task.state == "top"), None)
        task: int | None = getattr(hand, "task", None)
        return task

    def is_rank_stack(self, rank: int, task: int) -> bool:
        """Return whether the stack of a task is that of its rank, because the rank runs the task now."""
        hand = self._prompt.debugger.hands.get(rank)
        return isinstance(hand, AsyncioHand) and not hand.follows and self.running_task(rank) == task

    def task_view(self, rank: int, task: int) -> TaskView:
        """Return the object through which the frames of a task are read. DebuggerError if the rank has no tasks."""
        hand = self._prompt.debugger.hand(rank)
        if not isinstance(hand, (AsyncioHand, OpenMPHand)):
            raise DebuggerError(f"Weft cannot inspect tasks in rank {rank}")
        return open_task_view(hand, task)

    def step_task(self, movement: Movement, rank: int, task: int) -> Answer:
        """Step one task, wherever it runs, and return its stop. Other tasks run freely. `movement`: `next`, `step` or
        `finish`.
        """
        commands = self._prompt.debugger_of_rank(rank)
        commands.focus = task
        return commands.advance(movement)


def task_label(task: TaskRow) -> str:
    """Return the name of a task in the list of threads: its label, what it waits for, and its line."""
    waits = f" waits ({task.wait.kind})" if task.wait is not None else " has not begun" if task.state == "new" else ""
    return f"{task.label}{waits}" + (f" · {task.at}" if task.at is not None else "")
