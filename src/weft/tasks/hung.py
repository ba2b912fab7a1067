"""Why nothing can happen any more in a program: what its tasks wait for, and who could have let them go on."""

from __future__ import annotations

from typing import Any

from weft.base.words import listed, plural
from weft.tasks.model import Task

MOST = 8
"""Things that are told, and tasks that are named for each."""


def message(told: list[dict[str, Any]], rows: list[Task]) -> str:
    """The verdict, and a line for each thing that tasks wait for. `told`: as inprocess/hangs.py gives it."""
    known = {row.id: row for row in rows}
    told = sorted(told, key=lambda thing: min(thing["waits"]))
    first = f"nothing can happen any more: {_counted(rows)}, and no timer, I/O or thread that could wake one"
    lines = [_line(thing, known) for thing in told]
    more = [f"  and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n".join([first, *lines[:MOST], *more])


def _counted(rows: list[Task]) -> str:
    """`2 tasks and 1 thread`; a work is told with its thread."""
    count = len([row for row in rows if row.kind == "task"])
    parts = [plural(n, noun) for n, noun in ((count, "task"), (len(rows) - count, "thread")) if n]
    return listed(parts, "and")


def only_held(rows: list[Task]) -> str:
    """Where all that could go on are tasks that the person holds."""
    these = "them" if len(rows) > 1 else "it"
    return f"nothing else can happen while {labels(rows)} {verb(rows, 'are')} held: `release` lets {these} go on"


def _line(thing: dict[str, Any], rows: dict[int, Task]) -> str:
    waiting = _stand([rows[id_] for id_ in sorted(thing["waits"]) if id_ in rows])
    return f"  {thing['kind']} {thing['what']}".rstrip() + f": {waiting}; {_who(thing, rows)}"


def _stand(rows: list[Task]) -> str:
    """`task 3 (reader) and task 4 wait at prog.py:9`, those of one line together."""
    places: dict[str, list[Task]] = {}
    for row in rows:
        places.setdefault(str((row.wait.site if row.wait else row.at) or "?"), []).append(row)
    return listed([f"{labels(these)} {verb(these, 'wait')} at {place}" for place, these in places.items()], "and")


def labels(rows: list[Task]) -> str:
    """Several tasks, in words."""
    some = [row.label for row in rows[:MOST]]
    return listed([*some, f"{len(rows) - MOST:,} more"] if len(rows) > MOST else some, "and")


def verb(rows: list[Task], word: str) -> str:
    """A verb for one or several."""
    return word if len(rows) > 1 else "is" if word == "are" else f"{word}s"


def _who(thing: dict[str, Any], rows: dict[int, Task]) -> str:
    """Who could have released it, as far as it can be seen."""
    if thing["owner"]:
        number, name, done = thing["owner"]
        return f"task {number} ({name}) took it" + (" and has come to its end with it" if done else "")
    inside = [rows[id_] for id_ in thing["inside"] if id_ in rows]
    both = [row for row in inside if row.id in thing["waits"]]
    if both:
        return f"{labels(both)} {verb(both, 'are')} inside of it already, and {verb(both, 'ask')} for it again"
    if inside:
        return f"{labels(inside)} {verb(inside, 'are')} inside of it: {_stand(inside)}"
    has = [rows[id_] for id_ in thing["has"] if id_ in rows]
    return f"who else has it: {_stand(has)}" if has else "no other task has it"
