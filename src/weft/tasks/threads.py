"""Adds the threads of a Python program, and the works of its pools, as rows beside the tasks."""

from __future__ import annotations

from typing import Any

from weft.base.words import listed
from weft.tasks.model import ENDS, SourceLine, TaskRow, Wait


def add_thread_rows(tasks: list[TaskRow], thread_dicts: list[dict[str, Any]]) -> list[TaskRow]:
    """Return the rows of the tasks and of the program's threads together, sorted by number. `thread_dicts`: the threads
    as the agent in the program reports them (inprocess/threads.py).
    """
    others = {row["id"]: parse_thread_row(row) for row in thread_dicts}
    return sorted(
        [
            *(describe_thread_wait(task, others) for task in tasks),
            *(describe_thread_wait(row, others) for row in others.values()),
        ]
    )


def parse_thread_row(row: dict[str, Any]) -> TaskRow:
    """Return the table's row for a thread, or for the work that a pool's thread executes. `row`: the agent's dictionary
    of it.
    """
    created, at = parse_site(row["created"]), parse_site(row["at"])
    wait = row["wait"]
    if wait is not None:
        wait = Wait(
            wait["kind"], tuple(wait["tasks"]), parse_site(wait["site"]), wait["one"], wait["free"], wait["what"]
        )
    return TaskRow(row["id"], row["parent"], row["state"], row["name"], created, at, wait, row["worker"],
                kind=row["kind"])  # fmt: skip


def parse_site(row: list[Any] | None) -> SourceLine | None:
    """Return the source line for the agent's [file, line, function]; None for None."""
    return SourceLine(str(row[0]), int(row[1]), str(row[2])) if row else None


def describe_thread_wait(row: TaskRow, thread_rows: dict[int, TaskRow]) -> TaskRow:
    """Return a row in which the wait also says what the awaited threads and works are doing. A row that waits for none
    is returned unchanged. `thread_rows`: the rows of threads and works, by number.
    """
    if row.wait is None or row.wait.kind not in ENDS:
        return row
    known = [thread_rows[id_] for id_ in row.wait.tasks if id_ in thread_rows]
    doing = [f"{other.name} {describe_position(other)}".strip() for other in known]
    what = ", ".join(filter(None, (listed(doing[:4], "and"), row.wait.what)))
    return row._replace(wait=row.wait._replace(what=what))


def describe_position(row: TaskRow) -> str:
    """Return where a thread or work is, or its state if it does not run."""
    return f"at {row.at}" if row.at is not None else "" if row.state == "running" else row.state
