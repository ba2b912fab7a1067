"""Explains in words why nothing can happen in a program: what its tasks wait for, and who could have released them."""

from __future__ import annotations

from typing import Any

from weft.base.words import listed, plural
from weft.tasks.model import TaskRow

MOST = 8
"""Things that are told, and tasks that are named for each."""


def render_hang(told: list[dict[str, Any]], rows: list[TaskRow]) -> str:
    """Return the verdict, and a line for each object that tasks wait for.

    `told`: the rows of inprocess/hangs.py, `describe_awaited_objects`.
    """
    known = {row.id: row for row in rows}
    told = sorted(told, key=lambda thing: min(thing["waits"]))
    first = f"nothing can happen any more: {_render_counts(rows)}, and no timer, I/O or thread that could wake one"
    lines = [_render_awaited_object(thing, known) for thing in told]
    more = [f"  and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n".join([first, *lines[:MOST], *more])


def _render_counts(rows: list[TaskRow]) -> str:
    """Return `2 tasks and 1 thread`; a work counts as a thread."""
    count = len([row for row in rows if row.kind == "task"])
    parts = [plural(n, noun) for n, noun in ((count, "task"), (len(rows) - count, "thread")) if n]
    return listed(parts, "and")


def render_only_held(rows: list[TaskRow]) -> str:
    """Return the verdict if every task that could continue is held by the user."""
    these = "them" if len(rows) > 1 else "it"
    are = conjugate(rows, "are")
    return f"nothing else can happen while {render_labels(rows)} {are} held: `release` lets {these} go on"


def _render_awaited_object(thing: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    waiting = _render_waiting_tasks([rows[id_] for id_ in sorted(thing["waits"]) if id_ in rows])
    return f"  {thing['kind']} {thing['what']}".rstrip() + f": {waiting}; {_render_holder(thing, rows)}"


def _render_waiting_tasks(rows: list[TaskRow]) -> str:
    """Return `task 3 (reader) and task 4 wait at prog.py:9`, with the tasks of one line together."""
    places: dict[str, list[TaskRow]] = {}
    for row in rows:
        places.setdefault(str((row.wait.site if row.wait else row.at) or "?"), []).append(row)
    return listed(
        [f"{render_labels(these)} {conjugate(these, 'wait')} at {place}" for place, these in places.items()], "and"
    )


def render_labels(rows: list[TaskRow]) -> str:
    """Return the labels of several tasks as a list in words."""
    some = [row.label for row in rows[:MOST]]
    return listed([*some, f"{len(rows) - MOST:,} more"] if len(rows) > MOST else some, "and")


def conjugate(rows: list[TaskRow], word: str) -> str:
    """Return a verb for one row or several."""
    return word if len(rows) > 1 else "is" if word == "are" else f"{word}s"


def _render_holder(thing: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    """Return who could have released an awaited object, as far as that is known."""
    if thing["owner"]:
        number, name, done = thing["owner"]
        return f"task {number} ({name}) took it" + (" and has come to its end with it" if done else "")
    inside = [rows[id_] for id_ in thing["inside"] if id_ in rows]
    both = [row for row in inside if row.id in thing["waits"]]
    if both:
        are, ask = conjugate(both, "are"), conjugate(both, "ask")
        return f"{render_labels(both)} {are} inside of it already, and {ask} for it again"
    if inside:
        return f"{render_labels(inside)} {conjugate(inside, 'are')} inside of it: {_render_waiting_tasks(inside)}"
    has = [rows[id_] for id_ in thing["has"] if id_ in rows]
    return f"who else has it: {_render_waiting_tasks(has)}" if has else "no other task has it"
