"""Renders the answers of `weft tasks` as lines of text."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.base.words import listed, plural
from weft.tasks.model import ENDS

Answer = dict[str, Any]
MOST_ROWS = 1000
"""Rows of `tasks` that people get; `--format json` has all."""


def render_answer(answer: Answer) -> list[str]:
    """Return the lines of text for an answer, by its `kind`."""
    return _RENDERERS[answer["kind"]](answer)


def _render_line(at: Answer | None) -> str:
    if at is None:
        return "?"
    return f"{Path(at['file']).name}:{at['line']}" if at["file"] and at["line"] else at["function"] or "?"


def _render_exit_status(code: int | None) -> str:
    """Return how a program ended, such as `, with status 1`; empty for status 0. A negative status is the number of a
    signal.
    """
    if code is not None and code < 0:
        with suppress(ValueError):
            return f", killed by {signal.Signals(-code).name}"
    return f", with status {code}" if code else ""


def _render_stop(answer: Answer) -> list[str]:
    """Return lines of text that say why and where the program has stopped."""
    why = answer["why"]
    if why == "ended":
        return ["the program has ended" + _render_exit_status(answer["code"])]
    if why in ("deadlock", "stuck"):
        return list(answer["text"].splitlines())
    if why == "waiting":
        return ["the task cannot continue: as in the record, its rank is in its last call"]
    if why == "start" and answer["at"] is None:
        return ["before the program's first line: `step` goes to the first task"]
    if why == "done":
        end = answer["text"] or f"task {answer['task']} has ended"
        return [f"{end}, and no task waits for it"]
    at, label = answer["at"], answer["label"] or ("before the first task," if why == "start" else "no task")
    if at is None:
        number = f"breakpoint {answer['breakpoint']}: " if why == "watch" else ""
        nowhere = f"{answer['label']} is not at a line of the program" if answer["label"] else "between two tasks"
        return [number + (answer["text"] or nowhere)]
    if why == "died":
        source = f"  {answer['source']}" if answer["source"] else ""
        return [f"{answer['text']} at {_render_line(at)} in {at['function']}{source}"]
    after = f", after {answer['text']}" if answer["text"] else ""
    mark = {
        "breakpoint": f"breakpoint {answer['breakpoint']}: ",
        "watch": f"breakpoint {answer['breakpoint']}: {answer['text']}; ",
        "joined": f"joined{after}: ",
        "signal": answer["text"] or "",
        "interrupted": f"{answer['text']} " if answer["text"] else "",
    }
    moved = "" if answer["from"] in (None, answer["task"]) or why == "joined" else f"from task {answer['from']}: "
    source = f"  {answer['source']}" if answer["source"] else ""
    stays = answer.get("stays")
    moved = "" if stays else moved
    lines = [f"{mark.get(why, '')}{moved}{label} at {_render_line(at)} in {at['function']}{source}"]
    if stays:
        lines.append(f"{stays['label']} stays the current task, at {_render_line(stays['at'])}: `next` continues it, "
                     f"`task {answer['task']}` chooses the other")  # fmt: skip
    return lines


def _render_wait(wait: Answer | None) -> str:
    """Return in words what a task waits for, such as `waits: end of 3`. Empty if it does not wait."""
    if wait is None:
        return ""
    others = [str(task) for task in wait["tasks"]]
    more = [*others[:4], f"{len(others) - 4:,} more"] if len(others) > 5 else others
    if wait["kind"] in ENDS and others:
        words = f"waits: {ENDS[wait['kind']]} {listed(more, 'or' if wait['one'] else 'and')}"
        return words + (f" ({wait['what']})" if wait["what"] else "")
    what = f"{wait['kind']} {wait['what']}" if wait["what"] else wait["kind"]
    return f"waits: {what}" + (f" of {listed(more, 'or' if wait['one'] else 'and')}" if others else "")


def _render_row(row: Answer) -> str:
    """Return one line of the table of tasks."""
    name = f" {row['name']}" if row["name"] else ""
    mark = "*" if row.get("focus") else " "
    parent = f"from {row['parent']}" if row["parent"] is not None else ""
    place = f"worker {row['worker']}" if row["worker"] is not None else row["address"] or ""
    place += f" +{row['beneath']}" if row["beneath"] else ""
    at = _render_line(row["at"] or row["created"])
    indent = "  " * row.get("depth", 0)
    held = "held " if row.get("held") else ""
    held = f"held, with worker {row['with']} " if "with" in row else held
    kind = "" if row.get("kind", "task") == "task" else f" {row['kind']}"
    start = f"{mark} {indent}{row['id']}{kind}{name}"
    return f"{start:<14} {row['state']:<6} {at:<16} {parent:<9} {place:<15} {held}{_render_wait(row['wait'])}".rstrip()


def _render_tasks(answer: Answer) -> list[str]:
    """Return the table of tasks as lines of text. The last line says how many rows were left out, if any were."""
    rows = answer["tasks"]
    lines = [_render_row(row) for row in rows]
    if answer["chosen"] > len(rows):
        lines.append(f"and {plural(answer['chosen'] - len(rows), 'more task')}")
    lines = lines or [f"no tasks: {answer['unseen']}" if answer.get("unseen") else "no tasks"]
    return lines + (_render_child_processes(answer["children"]) if answer.get("children") else [])


def _render_child_processes(children: list[Answer]) -> list[str]:
    """Return one line, in a list: which processes the program has started by multiprocessing, and the command that
    enters one of them.
    """
    some = [f"{child['pid']} ({child['name']})" for child in children[:8]]
    more = f" and {len(children) - 8:,} more" if len(children) > 8 else ""
    first = children[0]["pid"]
    how = f"`process {first}` goes to one, or `weft tasks --pid {first}`"
    return [f"{plural(len(children), 'child process')} of multiprocessing: {', '.join(some)}{more}; {how}"]


def _render_processes(answer: Answer) -> list[str]:
    pid = answer["here"]
    here = f"in process {pid}; `process parent` goes back" if pid else "in the program's first process"
    return [here, *(_render_child_processes(answer["children"]) if answer["children"] else [])]


def _render_frame(frame: Answer) -> str:
    return f"{_render_line(frame)} in {frame['function']}" + (f"  {frame['text']}" if frame["text"] else "")


def _render_where(answer: Answer) -> list[str]:
    lines = [f"#{i} {_render_frame(f)}" for i, f in enumerate(answer["frames"])]
    lines += [f"   made by {s['label']} at {_render_line(s['at'])}" for s in answer["spawns"]]
    return [*([answer["label"]] if answer["label"] else []), *(lines or ["in no function of the program"])]


def _render_waits(answer: Answer) -> list[str]:
    return [*render_verdict(answer), *(_render_row(row) for row in answer["waits"])] or ["no task waits"]


def render_verdict(waits: Answer) -> list[str]:
    """Return why the program hangs or is slow by the answer of `waits`, the true reason first; empty if unknown."""
    text = waits["hung"] or waits.get("delay") or ""
    return [found["message"] for found in waits["deadlocks"]] + text.splitlines()


def _render_breakpoint(point: Answer) -> str:
    return f"breakpoint {point['id']}: {point['text']}"


def _render_breakpoints(answer: Answer) -> list[str]:
    watches = [f"breakpoint {w['id']}: watch {w['expression']}" for w in answer.get("watches", [])]
    return [*map(_render_breakpoint, answer["breakpoints"]), *watches] or ["no breakpoints"]


_RENDERERS: dict[str, Callable[[Answer], list[str]]] = {
    "stopped": _render_stop, "tasks": _render_tasks, "task": lambda a: [_render_row(a["task"])],
    "where": _render_where, "waits": _render_waits,
    "print": lambda a: [a["value"]], "frame": lambda a: [f"#{a['level']} {_render_frame(a)}"],
    "locals": lambda a: [f"{v['name']} = {v['value']}" for v in a["values"]] or ["no variables"],
    "break": lambda a: [_render_breakpoint(a["breakpoint"])],
    "breakpoints": _render_breakpoints,
    "watch": lambda a: [f"breakpoint {a['id']}: watch {a['expression']}, now {a['value'] or 'without a value'}"],
    "list": lambda a: [f"{'->' if row['here'] else '  '} {row['line']:4}  {row['text']}" for row in a["lines"]],
    "processes": _render_processes, "help": lambda a: list(a["lines"]),
    "text": lambda a: [a["text"]] if a["text"] else [],
}  # fmt: skip
