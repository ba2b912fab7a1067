"""What a task waits for, as the program knows it: which queue, event, socket, timer, child process or thread.

Read from the frames' variables when somebody asks; nothing is noted while the program runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .births import ASYNCIO, is_library
from .creation import word_of

Read = Callable[[Any], str]
_OBJECTS: dict[str, Read] = {
    "Queue.get": lambda queue: "get: empty",
    "Queue.put": lambda queue: f"put: full, {queue.maxsize} in it",
    "Queue.join": lambda queue: f"join: {getattr(queue, 'unfinished_tasks', None) or queue._unfinished_tasks} not done",
    "Event.wait": lambda event: "not set",
    "Condition.wait": lambda condition: "",
    "Lock.acquire": lambda lock: "",
    "Semaphore.acquire": lambda semaphore: "no place left",
    "Barrier.wait": lambda barrier: f"{barrier.n_waiting} of {barrier.parties} are here",
}  # fmt: skip
"""asyncio's functions that wait for an object, and what to say of it."""
_TRANSPORTS = ("StreamReader._wait_for_data", "FlowControlMixin._drain_helper", "StreamWriter.wait_closed")
_PROCESSES = ("Process.wait", "BaseSubprocessTransport._wait", "Process.communicate")


def state_of(thing: object, function: str) -> str:
    """What there is to say of an object that one of these functions waits for."""
    return _OBJECTS[function](thing) if function in _OBJECTS else ""


def thing_of(frames: list[FrameType]) -> tuple[object, str] | None:
    """The object that asyncio's innermost function waits for, and that function; None where it is no such wait."""
    for frame in reversed(frames):
        code = frame.f_code
        if not code.co_filename.startswith(ASYNCIO):
            return None
        if code.co_qualname in _OBJECTS:
            return frame.f_locals.get("self"), code.co_qualname
    return None


def what_of(waiter: Any, frames: list[FrameType], left: float | None) -> str:
    """The wait for a plain future in words; `left`: the seconds after which a timer ends it."""
    until = "" if left is None else f"{max(left, 0):.1f} s more"
    return ", ".join(part for part in (_what(waiter, frames), until) if part)


def _what(waiter: Any, frames: list[FrameType]) -> str:
    if (found := thing_of(frames)) is not None:
        thing, function = found
        return ", ".join(part for part in (called(thing, frames), state_of(thing, function)) if part)
    for frame in reversed(frames):
        code, own = frame.f_code, frame.f_locals
        if not code.co_filename.startswith(ASYNCIO):
            break
        name = code.co_qualname
        if name in _TRANSPORTS:
            return peer_of(getattr(own.get("self"), "_transport", None))
        if name in _PROCESSES:
            return f"process {getattr(own.get('self'), '_pid', None) or getattr(own.get('self'), 'pid', '?')}"
        if ".sock_" in name and own.get("sock") is not None:
            return _address(own["sock"], own.get("address"))
        if name.endswith("create_connection") and own.get("host") is not None:
            return f"to {own['host']}:{own.get('port')}"
        if name == "Server.serve_forever":
            return "serves " + " ".join(spelled(s.getsockname()) for s in getattr(own.get("self"), "sockets", ()))
        if name == "sleep":
            return ""
    return _worked_on(waiter) or called(waiter, frames) or _through(frames)


def peer_of(transport: Any) -> str:
    """Who is at the other end of a connection."""
    told = transport.get_extra_info("peername") if transport is not None else None
    return f"from {spelled(told)}" if told else ""


def _address(sock: Any, address: object) -> str:
    try:
        return f"to {spelled(address)}" if address is not None else f"from {spelled(sock.getpeername())}"
    except OSError:
        return f"socket {sock.fileno()}"


def spelled(address: Any) -> str:
    """An address as people write it."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) and len(address) > 1 else str(address or "?")


def called(thing: object, frames: list[FrameType]) -> str:
    """What the program calls an object: a variable of its frames or module, or an attribute of its `self`."""
    own = [frame for frame in reversed(frames) if not is_library(frame.f_code.co_filename)]
    for frame in own:
        for names in (frame.f_locals, frame.f_globals):
            for name, value in list(names.items()):
                if value is thing:
                    return str(name)
        for name, value in attributes(frame.f_locals.get("self")):
            if value is thing:
                return f"self.{name}"
    return ""


def attributes(thing: object) -> Iterator[tuple[str, object]]:
    """What an object has in its own dictionary; none of its code is run."""
    if thing is not None:
        try:
            yield from list(object.__getattribute__(thing, "__dict__").items())
        except AttributeError:
            return


def _through(frames: list[FrameType]) -> str:
    """The library's function that the program awaits."""
    at = next((i for i in range(len(frames) - 1, -1, -1) if not is_library(frames[i].f_code.co_filename)), -1)
    inner = frames[at + 1 :]
    return f"in {inner[0].f_code.co_qualname}" if inner and not inner[0].f_code.co_filename.startswith(ASYNCIO) else ""


def _worked_on(waiter: Any) -> str:
    """What somebody else than a thread does for this future."""
    source = of_thread(waiter)
    module: Any = sys.modules.get("concurrent.futures.process")
    for manager in list(module._threads_wakeups) if module is not None and source is not None else ():
        for item in list(getattr(manager, "pending_work_items", {}).values()):
            if item.future is source:
                return f"a pool of processes, {word_of(item.fn)}"
    return "" if source is None else "work of another executor"


def of_thread(waiter: Any) -> Any:
    """The future that an executor is to complete, where a loop's future waits for it; None elsewhere."""
    for callback, _ in getattr(waiter, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == "_call_check_cancel":
            return held_by(callback, "source")
    return None


def held_by(function: Any, name: str) -> Any:
    """What a function has of the one around it by a name; None where it has no such variable."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    try:
        return function.__closure__[names.index(name)].cell_contents if name in names else None
    except ValueError:  # it has not got its value yet
        return None
