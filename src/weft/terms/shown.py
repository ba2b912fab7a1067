"""One call with its arguments and results: as text for people, as values for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from weft.trace import Event, Flag, Parameter, Status


def call_text(event: Event) -> str:
    """`MPI_Recv(count 4, source any, tag 7, world) -> from 2, 16 bytes`."""
    results = []
    if event.error:
        results.append(f"error class {event.error}" if event.error < 255 else "an error")
    if event.polls > 1:
        results.append(f"no, {event.polls} times")
    elif not event.open and "flag" in event.function.slot:
        results.append("yes" if event.flag else "no")
    status = event.status
    if status and status.source >= 0:
        results.append(f"from {status.source}, tag {status.tag}, {status.count} bytes")
    if event.flags & Flag.CANCELLED:
        results.append("cancelled")
    if event.flags & Flag.BUFFER_CHANGED:
        results.append("the send buffer was changed while it was pending")
    if event.damage:
        results.append(f"arguments damaged: {event.damage}")
    skipped = {p.name for p in event.function.parameters if p.place in ("flag", "status", "buffer")}
    parts = [f"{name} {value_text(event, name, value)}" for name, value in event.args.items() if name not in skipped]
    return f"{event.function.name}({', '.join(parts)})" + (f" -> {'; '.join(results)}" if results else "")


def value_text(event: Event, name: str, value: Any) -> str:
    """One argument for people."""
    parameter = event.function.by_name[name.removesuffix(":out")]
    if isinstance(value, list):
        shown = ", ".join(one_text(event, parameter, item) for item in value[:8])
        return f"[{shown}{f', ... {len(value)}' if len(value) > 8 else ''}]"
    return one_text(event, parameter, value)


def one_text(event: Event, parameter: Parameter, value: Any) -> str:
    """One value for people."""
    if isinstance(value, Status):
        return f"(from {value.source}, tag {value.tag}, {value.count} bytes)"
    if parameter.handle:
        name = event.rank.object_name(parameter.handle, value)
        return name.replace(f"{parameter.handle.lower()} ", "#") if name[-1:].isdigit() else name
    if parameter.type == "address":
        return "MPI_IN_PLACE" if value == 2**64 - 1 else f"{value:#x}"
    if parameter.kind in ("RANK", "RANK_NNI", "TAG") and value in (-1, -2, -3):
        return {-1: "any", -2: "MPI_PROC_NULL", -3: "MPI_ROOT"}[value]
    return repr(value) if isinstance(value, str) else str(value)


def event_json(event: Event) -> dict[str, Any]:
    """One line of the JSON."""
    site = event.site
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
        "site": {"file": site.file, "line": site.line, "function": site.function, "module": site.module,
                 "offset": site.offset},
    }  # fmt: skip
    if event.rank.trace.has_tasks:
        row["task"] = task_json(event)
    if site.callers:
        row["site"]["callers"] = [{"file": c.file, "line": c.line, "function": c.function} for c in site.callers]
    if event.polls:
        row["polls"] = event.polls
    if event.ticket is not None:
        row["ticket"] = event.ticket
    if event.damage:
        row["damage"] = event.damage
    return row


def task_json(event: Event) -> dict[str, Any] | None:
    """The task that made a call."""
    task = event.task
    if task is None:
        return None
    made = {"file": task.site.file, "line": task.site.line, "function": task.site.function} if task.site.file else None
    kind = task.kind.name.lower()
    return {"id": task.id, "name": task.name or None, "kind": kind, "parent": task.parent, "made": made}


def value_json(event: Event, name: str, value: Any) -> Any:
    """One argument for programs: handles by name, a status as an object."""
    handle = event.function.by_name[name.removesuffix(":out")].handle
    if isinstance(value, list):
        return [value_json(event, name, item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return event.rank.object_name(handle, value) if handle else value
