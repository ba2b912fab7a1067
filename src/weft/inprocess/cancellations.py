"""Finds tasks that were cancelled and went on, what catches the cancellation, and who waits for their end."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .births import ASYNCIO, Task, birth, is_library
from .source_lines import parse_file
from .task_deaths import describe_exception, find_fatal_exception, innermost_error_site
from .tracer import frame_and_callers
from .waits import find_target_tasks, frame_site, innermost_frame, task_frames

CATCHES = ("CancelledError", "BaseException")
"""Exceptions whose handlers catch a cancellation."""


def find_ignored_cancellations(tasks: list[Task], dead: list[Task]) -> list[dict[str, Any]]:
    """Return a row for each task that was cancelled, but went on, and now waits for something that was not cancelled.

    A row has: `task` (its number), `at` (its line), `caught` (what caught the cancellation, as `_find_handler` returns
    it), `group` (the ending TaskGroup that waits for the task, as `_find_ending_group` returns it) and `is_run_ending`
    (whether asyncio's runner is at its end). `dead`: the tasks that an exception ended.
    """
    is_run_ending = any(
        _is_ending_run(frame) for top in sys._current_frames().values() for frame in frame_and_callers(top)
    )
    rows = []
    for task in tasks:
        waiter = getattr(task, "_fut_waiter", None)
        if not task.cancelling() or waiter is None or waiter.done() or getattr(task, "_must_cancel", False):
            continue
        frames = task_frames(task)
        if any(isinstance(one, asyncio.Task) and one.cancelling() for one in find_target_tasks(waiter, frames)):
            continue
        rows.append({
            "task": birth(task).id, "at": frame_site(innermost_frame(frames)),
            "caught": next(filter(None, map(_find_handler, reversed(frames))), None),
            "group": _find_ending_group(task, tasks, dead), "is_run_ending": is_run_ending,
        })  # fmt: skip
    return rows


def _is_ending_run(frame: FrameType) -> bool:
    """Return whether a frame is that in which `asyncio.run` cancels the tasks that are left."""
    return frame.f_code.co_name == "_cancel_all_tasks" and frame.f_code.co_filename.startswith(ASYNCIO)


def _find_ending_group(awaited_task: Task, tasks: list[Task], dead: list[Task]) -> dict[str, Any] | None:
    """Return a row for the TaskGroup that is ending and waits for a task; None if there is none.

    A row has: `task` (the number of the task that leaves the group), `at` (the line of that task) and `errors` (a row
    for each error that ends the group).
    """
    for other in tasks:
        frames = task_frames(other)
        for frame in reversed(frames):
            if not frame.f_code.co_filename.startswith(ASYNCIO):
                break
            group: Any = frame.f_locals.get("self")
            if isinstance(group, asyncio.TaskGroup) and awaited_task in group._tasks and group._aborting:  # type: ignore[attr-defined]
                errors = [*(group._errors or ()), group._base_error, frame.f_locals.get("exc")]  # type: ignore[attr-defined]
                return {"task": birth(other).id, "at": frame_site(innermost_frame(frames)),
                        "errors": [_describe_error(one, dead) for one in errors if one is not None]}  # fmt: skip
    return None


def _describe_error(error: BaseException, dead: list[Task]) -> dict[str, Any]:
    """Return a row for an error: `words` (its description), `at` (its line) and `task` ([number, name] of the task that
    it ended, None if unknown). `dead`: the tasks that an exception ended.
    """
    task = next((one for one in dead if find_fatal_exception(one) is error), None)
    return {"words": describe_exception(error), "at": innermost_error_site(error),
            "task": [birth(task).id, task.get_name()] if task is not None else None}  # fmt: skip


def _find_handler(frame: FrameType) -> list[Any] | None:
    """Return [file, line, how] of the statement that keeps a CancelledError from ending a frame's function. None if
    there is none, or if the code is a library's.

    `how` is `handles` if the frame's line is in a `try` whose handler does not raise again, or in a `with suppress`. It
    is `cleans` if the line is in a handler or a `finally`.
    """
    file, line = frame.f_code.co_filename, frame.f_lineno or 0
    tree = parse_file(file) if not is_library(file) else None
    blocks = [node for node in ast.walk(tree) if _contains(node, line)] if tree is not None else []
    for node in reversed(blocks):
        if isinstance(node, ast.Try | ast.TryStar):
            if (found := _handler_in_try(node, line)) is not None:
                return [file, *found]
        elif isinstance(node, ast.With | ast.AsyncWith) and any(map(_is_suppression, node.items)):
            return [file, node.lineno, "handles"]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
    return None


def _handler_in_try(node: ast.Try | ast.TryStar, line: int) -> list[Any] | None:
    """Return [line, how] of the handler or `finally` of a `try` statement that stops or delays a cancellation at a
    line. None if there is none.

    `how`: `cleans` if the line is inside the handler or `finally`; `handles` if the line is in the statement's body and
    the handler raises nothing.
    """
    if any(_contains(part, line) for part in node.finalbody):
        return [node.finalbody[0].lineno, "cleans"]
    catching = [handler for handler in node.handlers if handler.type is None or _catches_cancellation(handler.type)]
    if (inside := next((handler for handler in catching if _contains(handler, line)), None)) is not None:
        return [inside.lineno, "cleans"]
    if any(_contains(part, line) for part in node.body):
        quiet = (one for one in catching if not any(isinstance(part, ast.Raise) for part in one.body))
        if (first := next(quiet, None)) is not None:
            return [first.lineno, "handles"]
    return None


def _contains(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= getattr(node, "end_lineno", 0)


def _catches_cancellation(type_: ast.expr) -> bool:
    return any(name.endswith(CATCHES) for name in _class_names(type_))


def _class_names(type_: ast.expr) -> Iterator[str]:
    """Yield the names of the classes that a handler catches."""
    for one in type_.elts if isinstance(type_, ast.Tuple) else [type_]:
        yield ast.unparse(one)


def _is_suppression(item: ast.withitem) -> bool:
    """Return whether a `with` suppresses cancellations: `suppress(asyncio.CancelledError)`."""
    call = item.context_expr
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func).endswith("suppress")
        and any(map(_catches_cancellation, call.args))
    )
