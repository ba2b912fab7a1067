"""Show one call with its arguments and results: as text for people, as values for programs."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from weft.base.words import duration, escaped, time_text
from weft.systems import System
from weft.trace import Event, Flag, LogicalTask, Parameter, Rank, Status, TaskKind
from weft.trace.layout import ANY_SOURCE
from weft.trace.sites import CallSite

HEADS: Final = ("time", "rank", "event", "took", "where", "task", "call")
"""The columns of a table of calls; `task` where the run has tasks."""

OPEN: Final = "still in this call"
ERRORS: Final = 256
"""How many numbers an error has in a slot; the last one is used for all others."""


def call_text(event: Event) -> str:
    """Return a call as text: `MPI_Recv(count 4, source any, tag 7, world) -> from 2, 16 bytes`."""
    results = []
    if event.error:
        results.append(error_text(event.rank.trace.system, event.error))
    if event.polls > 1:
        results.append(f"no, {event.polls} times")
    elif not event.open and "flag" in event.function.slot:
        results.append("yes" if event.flag else "no")
    status = event.status
    if status and status.source >= 0:
        results.append(f"from {status.source}, tag {status.tag}, {status.count} bytes")
    elif status and status.count:
        results.append(f"{event.received} bytes")
    if event.flags & Flag.CANCELLED:
        results.append("cancelled")
    if event.flags & Flag.BUFFER_CHANGED:
        results.append("the send buffer was changed while it was pending")
    if event.calls > max(event.polls, 1):
        results.append(f"{event.calls} calls in a row")
    if event.damage:
        results.append(f"arguments damaged: {event.damage}")
    skipped = {p.name for p in event.function.parameters if p.place in ("flag", "status", "buffer")}
    parts = [f"{name} {value_text(event, name, value)}" for name, value in event.args.items() if name not in skipped]
    return f"{event.function.name}({', '.join(parts)})" + (f" -> {'; '.join(results)}" if results else "")


def error_text(system: System, error: int) -> str:
    """Return the words for an error of a call, from the number in its slot."""
    return system.error_name(error) or (f"error class {error}" if error < ERRORS - 1 else "an error")


def call_cells(event: Event, has_threads: bool) -> tuple[str, ...]:
    """Return the texts of one line in a table of calls, in the order of HEADS.

    `has_threads`: some rank of the run has several threads, so that the thread is shown.
    """
    took = OPEN if event.exit_ns is None else duration(event.exit_ns - event.enter_ns)
    rank = f"{event.rank.index}.{event.thread.slot}" if has_threads else str(event.rank.index)
    task = [task_text(event.task)] if event.rank.trace.has_tasks else []
    cells = time_text(event.enter_ns), rank, str(event.index), took, event.site.text, *task, call_text(event)
    return tuple(map(escaped, cells))


def task_text(task: LogicalTask | None) -> str:
    """Return a task as text, such as `7 worker` or `1 initial`; empty for None."""
    if task is None:
        return ""
    kind = "" if task.kind == TaskKind.EXPLICIT else task.kind.name.lower()
    return f"{task.id} {task.name or kind}".strip()


def value_text(event: Event, name: str, value: object) -> str:
    """Return one argument of a call as text. Of an array, at most eight values are shown. `name`: the argument's name,
    with `:out` for a result.
    """
    parameter = event.function.parameters_by_name[name.removesuffix(":out")]
    if isinstance(value, list):
        shown = ", ".join(single_value_text(event, parameter, item) for item in value[:8])
        return f"[{shown}{f', ... {len(value)}' if len(value) > 8 else ''}]"
    return single_value_text(event, parameter, value)


def single_value_text(event: Event, parameter: Parameter, value: Any) -> str:
    """Return one value as text. `parameter`: the parameter that it was given for."""
    if isinstance(value, Status):
        sender = "" if value.source == ANY_SOURCE else f"from {value.source}, tag {value.tag}, "
        return f"({sender}{value.count} bytes)"
    if parameter.handle:
        return object_text(event.rank, parameter.handle, value)
    if parameter.type == "address":
        return "MPI_IN_PLACE" if value == 2**64 - 1 else f"{value:#x}"
    if has_named_values(parameter) and value in (-1, -2, -3):
        return {-1: "any", -2: "MPI_PROC_NULL", -3: "MPI_ROOT"}[value]
    return repr(value) if isinstance(value, str) else str(value)


def object_text(rank: Rank, cls: str, id: int) -> str:  # noqa: A002 - the domain's word
    """Return the name of an object, or its number, such as `#7`, if it has none."""
    name = rank.object_name(cls, id)
    return name.replace(f"{cls.lower()} ", "#") if name[-1:].isdigit() else name


def has_named_values(parameter: Parameter) -> bool:
    """Return whether -1, -2 and -3 have names as values of a parameter."""
    return parameter.kind in ("RANK", "RANK_NNI", "TAG")


def event_json(event: Event) -> dict[str, object]:
    """Return one event as JSON values, as `weft dump` writes them on a line."""
    row: dict[str, Any] = {
        "rank": event.rank.index,
        "index": event.index,
        "thread": event.thread.slot,
        "function": event.function.name,
        "enter_ns": event.enter_ns,
        "exit_ns": event.exit_ns,
        "open": event.open,
        "error": event.error,
        "comm": event.comm.name if event.comm else None,
        "args": {name: value_json(event, name, value) for name, value in event.args.items()},
        "site": site_json(event.site),
    }
    if event.rank.trace.has_tasks:
        row["task"] = task_json(event.task)
    if event.polls:
        row["polls"] = event.polls
    elif event.calls > 1:
        row["calls"] = event.calls
    if event.ticket is not None:
        row["ticket"] = event.ticket
    if event.damage:
        row["damage"] = event.damage
    return row


def site_json(site: CallSite) -> dict[str, object]:
    """Return a call site as JSON values."""
    row: dict[str, Any] = {"file": site.file, "line": site.line, "function": site.function, "module": site.module,
                           "offset": site.offset}  # fmt: skip
    if site.callers:
        row["callers"] = [{"file": c.file, "line": c.line, "function": c.function} for c in site.callers]
    return row


def task_json(task: LogicalTask | None) -> dict[str, object] | None:
    """Return the task that made a call as JSON values; None if there is none."""
    if task is None:
        return None
    made = {"file": task.site.file, "line": task.site.line, "function": task.site.function} if task.site.file else None
    kind = task.kind.name.lower()
    return {"id": task.id, "name": task.name or None, "kind": kind, "parent": task.parent, "made": made}


def value_json(event: Event, name: str, value: Any) -> object:
    """Return one argument as a JSON value: a handle by its name, a status as an object."""
    handle = event.function.parameters_by_name[name.removesuffix(":out")].handle
    if isinstance(value, list):
        return [value_json(event, name, item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return event.rank.object_name(handle, value) if handle else value
