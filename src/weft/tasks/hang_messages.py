"""Explains in words why nothing can happen in a program: what its tasks wait for, and who could have released them."""

from __future__ import annotations

import linecache
from typing import Any

from weft.base.words import listed, plural
from weft.tasks.model import SourceLine, TaskRow
from weft.tasks.threads import parse_site

STUCK = "nothing can happen any more"
MOST = 8
"""Things that are told, and tasks that are named for each."""


def render_hang(awaited_objects: list[dict[str, Any]], cancellations: list[dict[str, Any]], rows: list[TaskRow]) -> str:
    """Return in words why nothing can happen any more: first the cause of all waits, then a line for each other object
    that tasks wait for.

    `awaited_objects`: the rows that `describe_awaited_objects` returns (inprocess/hangs.py). `cancellations`: the rows
    of tasks that ignored a cancellation (inprocess/cancellations.py).
    """
    known = {row.id: row for row in rows}
    awaited_objects = sorted(awaited_objects, key=lambda thing: _cause_sort_key(thing, known))
    lines = [_render_ignored_cancellation(row, known) for row in cancellations]
    lines += [_render_awaited_object(thing, known) for thing in awaited_objects]
    lines = _render_pool_shutdown(rows) + lines
    proof = f"{_render_counts(rows)}, and no timer, I/O or thread that could wake one"
    if not lines:
        return f"{STUCK}: {proof}"
    more = [f"  and {len(lines) - MOST} more objects"] if len(lines) > MOST else []
    return "\n".join([f"{STUCK}: {lines[0]}", f"  {proof}", *(f"  {line}" for line in lines[1:MOST]), *more])


def _cause_sort_key(awaited_object: dict[str, Any], rows: dict[int, TaskRow]) -> tuple[int, bool, int, int]:
    """Return a key that sorts awaited objects by how likely they cause the hang. An object that certainly no task
    releases comes first. Among equals, the object for which most tasks wait comes first.
    """
    waits = set(awaited_object["waits"])
    inside = [rows[id_] for id_ in awaited_object["inside"] if id_ in rows]
    is_in_circle = inside and all(waits & _find_awaited_tasks(row, rows) for row in inside)
    has_dead_owner = awaited_object["owner"] and awaited_object["owner"][2]
    if awaited_object["deaths"] or has_dead_owner or waits & set(awaited_object["inside"]) or is_in_circle:
        rank = 0
    elif not inside and not awaited_object["owner"] and (awaited_object["calls"] or not awaited_object["has"]):
        rank = 1
    else:
        rank = 2
    if awaited_object["kind"] == "Future" and not awaited_object["deaths"]:
        rank = 1 if awaited_object["stalled"] else 3
    return rank, awaited_object["kind"] == "Future", -len(waits), min(waits)


def _find_awaited_tasks(row: TaskRow, rows: dict[int, TaskRow]) -> set[int]:
    """Return the numbers of the tasks that a task waits for, directly or through others."""
    found, todo = set[int](), [row]
    while todo:
        wait = todo.pop().wait
        new = (set(wait.tasks) if wait is not None else set()) - found
        found |= new
        todo += [rows[id_] for id_ in new if id_ in rows]
    return found


def render_lost_wakeups(lost: list[dict[str, Any]], rows: list[TaskRow]) -> str:
    """Return in words that event loops sleep although a callback is ready: which callback, and which calls can have
    made it ready without waking the loop.

    `lost`: the rows that `find_lost_wakeups` returns (inprocess/loop_states.py).
    """
    known = {row.id: row for row in rows}
    return "\n".join(_render_lost_wakeup(loop, known) for loop in lost)


def _render_lost_wakeup(loop: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    """Return a line for one loop that sleeps although a callback is ready, with the call that would wake it."""
    first = loop["ready"][0]
    asleep = "the loop sleeps" + ("" if loop["seconds"] is None else f" for up to {loop['seconds']:.1f} s")
    if first["task"] is None:
        what = f"although the callback {first['what']} is ready"
    else:
        row = rows.get(first["task"])
        label = row.label if row else f"task {first['task']}"
        waited = f", which waits at {_render_site(first['at'])} for {first['what']}," if first["what"] else ""
        what = f"although {label}{waited} can go on"
    calls = [f"{text} at {_render_site([file, line, ''])}" for file, line, text in first["calls"]]
    who = f": another thread called {listed(calls, 'or')}, " if calls else ": another thread made it ready, "
    function = first["calls"][0][2] if calls else "FUNCTION"
    return f"{asleep} {what}{who}which does not wake it; loop.call_soon_threadsafe({function}) does"


def _render_site(site: list[Any] | None) -> str:
    at = parse_site(site)
    return str(at) if at is not None else "?"


def render_delays(delays: dict[str, Any], awaited_objects: list[dict[str, Any]], rows: list[TaskRow]) -> str:
    """Return in words what holds up a program that is not hung, one line for each reason, the most certain first. Empty
    if nothing does.

    `delays`: the rows of blocked loops and ignored cancellations (inprocess). `awaited_objects`: as for `render_hang`.
    """
    known = {row.id: row for row in rows}
    lines = [_render_blocked_loop(loop, known) for loop in delays["blocked"]]
    lines += _render_pool_shutdown(rows)
    lines += [_render_ignored_cancellation(row, known) for row in delays["cancelled"]]
    objects = sorted(awaited_objects, key=lambda thing: _cause_sort_key(thing, known))
    at_work = {
        thing["thread"][0]: thing["waits"] for thing in awaited_objects if thing["thread"] and thing["thread"][1]
    }
    for thing in objects:
        if _is_likely_cause(thing, known):
            ahead = at_work.get(thing["thread"][0], []) if thing["thread"] else []
            lines.append(_render_awaited_object(thing, known) + _render_tasks_served_first(ahead, known))
    return "\n".join(lines[:MOST])


def _render_tasks_served_first(tasks: list[int], rows: dict[int, TaskRow]) -> str:
    """Return the words `, and works first for …`, with the tasks that a thread serves before the others, and where they
    wait. `tasks`: their numbers. Empty if there are none.
    """
    ahead = [rows[id_] for id_ in tasks if id_ in rows]
    return f", and works first for {render_labels(ahead)}: {_render_waiting_tasks(ahead)}" if ahead else ""


def _is_likely_cause(awaited_object: dict[str, Any], rows: dict[int, TaskRow]) -> bool:
    """Return whether to name an awaited object (a lock, queue or pool) as what holds tasks up, in a program that is not
    hung.
    """
    rank = _cause_sort_key(awaited_object, rows)[0]
    is_queued = awaited_object["thread"] is not None and not awaited_object["thread"][1]
    has_holder = len(awaited_object["waits"]) > 1 and bool(awaited_object["inside"] or awaited_object["owner"])
    return rank == 0 or bool(awaited_object["stalled"]) or awaited_object["pool"] is not None or is_queued or has_holder


def _render_pool_shutdown(rows: list[TaskRow]) -> list[str]:
    """Return one line, in a list, that says for which functions in threads asyncio.run waits while it ends. The list is
    empty if it waits for none.
    """
    works = [row for row in rows if row.kind == "work" and row.state == "running"]
    if not works or not any(row.kind == "thread" and row.name.endswith("(_do_shutdown)") for row in rows):
        return []
    parts = [f"{row.label}, which is at {row.at or '?'}" + (f" ({row.wait.what})" if row.wait else "") for row in works]
    return [f"asyncio.run is ending and waits for {listed(parts[:MOST])}"]


def _render_blocked_loop(loop: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    """Return a line for a loop that is blocked: for how long, by which task's line, and which timers and callbacks come
    late.
    """
    row = rows.get(loop["task"])
    who = row.label if row else "a callback"
    at = parse_site(loop["at"])
    where = f" at {at} in {at.function}" if at is not None else ""
    source = f" ({text})" if (text := read_source_line(at)) else ""
    inner = f", inside {loop['library']}" if loop["library"] else ""
    how = "which waits there without `await`" if loop["sleeps"] else "which computes there"
    parts = [(loop["overdue"], "timer", "overdue"), (loop["ready"], "callback", "waiting")]
    late = listed([f"{plural(n, noun)} {'is' if n == 1 else 'are'} {how}" for n, noun, how in parts if n])
    return f"the loop is blocked for {loop['seconds']:.1f} s by {who}{where}{source}{inner}, {how}" + (
        f"; {late}" if late else ""
    )


def _render_ignored_cancellation(cancellation: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    """Return a sentence on a task that went on after it was cancelled: why it was cancelled, and what waits for its
    end.
    """
    row = rows.get(cancellation["task"])
    label = row.label if row else f"task {cancellation['task']}"
    file, line, how = cancellation["caught"] or ("", 0, "")
    at = _render_site([file, line, ""])
    went_on = {
        "handles": f"caught its cancellation at {at} and went on",
        "cleans": f"was cancelled and is still in its clean-up at {at}",
    }.get(how, "was cancelled and went on")
    waits = f"it waits at {_render_site(cancellation['at'])}"
    if (group := cancellation["group"]) is not None:
        waiter = rows.get(group["task"])
        reasons = [_render_error(error) for error in group["errors"]]
        why = f" because of {listed(reasons)}" if reasons else ""
        who = waiter.label if waiter else f"task {group['task']}"
        return f"the TaskGroup of {who} at {_render_site(group['at'])} is ending{why}, but {label} {went_on}; {waits}"
    if cancellation["is_run_ending"]:
        return f"asyncio.run is ending and has cancelled all tasks, but {label} {went_on}; {waits}"
    return f"{label} {went_on}; {waits}"


def read_source_line(at: SourceLine | None) -> str:
    """Return the text of a source line without indentation; empty if unknown."""
    return linecache.getline(at.file, at.line).strip() if at is not None and at.line else ""


def _render_error(error: dict[str, Any]) -> str:
    number, name = error["task"] or (None, "")
    where = f" at {_render_site(error['at'])}" if error["at"] else ""
    return f"{error['words']}{where}" + (f" in task {number} ({name})" if number is not None else "")


def _render_counts(rows: list[TaskRow]) -> str:
    """Return the number of tasks and threads as `2 tasks and 1 thread`; work of a thread pool counts as a thread."""
    count = len([row for row in rows if row.kind == "task"])
    parts = [plural(n, noun) for n, noun in ((count, "task"), (len(rows) - count, "thread")) if n]
    return listed(parts, "and")


def render_all_held_by_user(rows: list[TaskRow]) -> str:
    """Return a sentence that says that nothing can happen as the user holds tasks. `rows`: the tasks that could
    continue if they were not held.
    """
    these = "them" if len(rows) > 1 else "it"
    are = conjugate(rows, "are")
    return f"nothing else can happen while {render_labels(rows)} {are} held: `release` lets {these} go on"


def _render_awaited_object(awaited_object: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    """Return a sentence on an object that tasks wait for: which tasks, at which line, and who could release it."""
    waiting = _render_waiting_tasks([rows[id_] for id_ in sorted(awaited_object["waits"]) if id_ in rows])
    if awaited_object["stalled"]:
        return f"{waiting} for {awaited_object['stalled']}"
    if (pool := awaited_object["pool"]) is not None:
        held = [_render_pool_holder(holder, rows) for holder in pool["holders"][:MOST]]
        return f"{waiting} in {pool['function']} for {pool['kind']}; {listed(held)}"
    what = ", ".join(filter(None, [awaited_object["what"], awaited_object["state"]]))
    return f"{waiting} for {awaited_object['kind']} {what}".rstrip() + f"; {_render_releaser(awaited_object, rows)}"


def _render_pool_holder(holder_row: list[Any], rows: dict[int, TaskRow]) -> str:
    """Return in words which task holds a part of a library's pool, in which variable, and where that task waits.
    `holder_row`: [task number, line, variable, type of the part].
    """
    number, site, name, part = holder_row
    row = rows.get(number)
    waits = f", and waits at {row.wait.site or row.at}" if row and row.wait else ""
    label = row.label if row else f"task {number}"
    return f"{label} has its {part} in {name} at {_render_site(site)}{waits}"


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


def conjugate(rows: list[TaskRow], verb: str) -> str:
    """Return a verb for one row or several."""
    return verb if len(rows) > 1 else "is" if verb == "are" else f"{verb}s"


def _render_releaser(awaited_object: dict[str, Any], rows: dict[int, TaskRow]) -> str:
    """Return in words which task or call could release an awaited object, as far as that is known."""
    if awaited_object["owner"]:
        number, name, done = awaited_object["owner"]
        return f"task {number} ({name}) took it" + (" and ended without releasing it" if done else "")
    if awaited_object["thread"] is not None:
        number, is_at_work = awaited_object["thread"]
        label = rows[number].label if number in rows else "a thread"
        return f"{label} {'works on it' if is_at_work else 'has it in its queue'}"
    if awaited_object["deaths"]:
        died = [
            f"{label}, which referred to it, died of {words} at {_render_site(at)}"
            for label, words, at in awaited_object["deaths"]
        ]
        return listed(died[:MOST])
    inside = [rows[id_] for id_ in awaited_object["inside"] if id_ in rows]
    both = [row for row in inside if row.id in awaited_object["waits"]]
    if both:
        are, ask = conjugate(both, "are"), conjugate(both, "ask")
        return f"{render_labels(both)} {are} inside of it already, and {ask} to enter it again"
    if inside:
        circle = all(set(awaited_object["waits"]) & _find_awaited_tasks(row, rows) for row in inside)
        them = " for tasks that wait for it" if circle else ""
        return f"{render_labels(inside)} {conjugate(inside, 'are')} inside of it: {_render_waiting_tasks(inside)}{them}"
    has = [rows[id_] for id_ in awaited_object["has"] if id_ in rows]
    others = f"other tasks that refer to it: {_render_waiting_tasks(has)}" if has else "no other task refers to it"
    if awaited_object["calls"]:
        places = [f"{text} at {_render_site([file, line, ''])}" for file, line, text in awaited_object["calls"]]
        return f"no task reaches {listed(places, 'or')}; {others}"
    return others + (
        ", and the program has no call that would end this wait" if awaited_object["calls"] is not None else ""
    )
