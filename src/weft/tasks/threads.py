"""Threads of a Python program, and the works of its pools, as rows beside the tasks; and who waits for them."""

from __future__ import annotations

from typing import Any

from weft.base.words import listed
from weft.tasks.model import ENDS, SourceLine, TaskRow, Wait


def add_thread_rows(tasks: list[TaskRow], told: list[dict[str, Any]]) -> list[TaskRow]:
    """The table with the rows that the agent tells of threads (inprocess/threads.py), in the order of their numbers."""
    others = {row["id"]: parse_thread_row(row) for row in told}
    return sorted([*(describe_thread_wait(task, others) for task in tasks), *(describe_thread_wait(row, others) for row in others.values())])


def parse_thread_row(told: dict[str, Any]) -> TaskRow:
    """One row, as the agent writes it."""
    created, at = parse_site(told["created"]), parse_site(told["at"])
    wait = told["wait"]
    if wait is not None:
        wait = Wait(wait["kind"], tuple(wait["tasks"]), parse_site(wait["site"]), wait["one"], wait["free"], wait["what"])
    return TaskRow(told["id"], told["parent"], told["state"], told["name"], created, at, wait, told["worker"],
                kind=told["kind"])  # fmt: skip


def parse_site(row: list[Any] | None) -> SourceLine | None:
    """File, line, function as the agent writes them."""
    return SourceLine(str(row[0]), int(row[1]), str(row[2])) if row else None


def describe_thread_wait(row: TaskRow, others: dict[int, TaskRow]) -> TaskRow:
    """A row whose wait says what the threads and works do that it waits for."""
    if row.wait is None or row.wait.kind not in ENDS:
        return row
    known = [others[id_] for id_ in row.wait.tasks if id_ in others]
    doing = [f"{other.name} {describe_position(other)}".strip() for other in known]
    what = ", ".join(filter(None, (listed(doing[:4], "and"), row.wait.what)))
    return row._replace(wait=row.wait._replace(what=what))


def describe_position(row: TaskRow) -> str:
    """Where a thread or a work is."""
    return f"at {row.at}" if row.at is not None else "" if row.state == "running" else row.state
