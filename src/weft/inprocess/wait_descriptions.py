"""Describes what a task waits for as the program knows it: which queue, event, socket, timer, child process or thread.

The description is read from the variables of frames on request; nothing is recorded while the program runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator
from types import CodeType, FrameType
from typing import Any

from .births import ASYNCIO, is_library
from .creation import display_name

Read = Callable[[Any], str]


def _describe_unfinished(queue: Any) -> str:
    """Return how many items of a queue are not done, and whether they were all taken from it."""
    count = getattr(queue, "unfinished_tasks", None) or queue._unfinished_tasks
    left = ", none left in the queue" if queue.empty() else ""
    return f"join: {count} item{'s' * (count != 1)} without task_done(){left}"


_OBJECTS: dict[str, Read] = {
    "Queue.get": lambda queue: "get: empty",
    "Queue.put": lambda queue: f"put: full, with {queue.maxsize} item{'s' * (queue.maxsize != 1)}",
    "Queue.join": _describe_unfinished,
    "Event.wait": lambda event: "not set",
    "Condition.wait": lambda condition: "",
    "Lock.acquire": lambda lock: "",
    "Semaphore.acquire": lambda semaphore: "no place left",
    "Barrier.wait": lambda barrier: f"{barrier.n_waiting} of {barrier.parties} are here",
}  # fmt: skip
"""asyncio's functions that wait for an object, and what to say of it."""


_TRANSPORTS = ("StreamReader._wait_for_data", "FlowControlMixin._drain_helper", "StreamWriter.wait_closed")
_PROCESSES = ("Process.wait", "BaseSubprocessTransport._wait", "Process.communicate")


def describe_state(thing: object, function: str) -> str:
    """Return the state of an awaited object, such as `get: empty` for a queue. `function`: the function of asyncio that
    waits for the object. Empty if that function waits for no object.
    """
    return _OBJECTS[function](thing) if function in _OBJECTS else ""


def find_awaited_object(frames: list[FrameType]) -> tuple[object, str] | None:
    """Return (object, function) for the innermost function of asyncio in a stack, and the object that it waits for,
    such as a queue. None if it waits for no object. `frames`: outermost first.
    """
    inner = [frame.f_code for frame in frames]
    name, depth = find_wait_function(inner, _OBJECTS) or ("", 0)
    return (frames[depth].f_locals.get("self"), name) if name else None


BUILT_ON = {"Queue.join": "Event.wait", "Barrier.wait": "Condition.wait"}
"""asyncio's functions that wait by means of another one."""


def find_wait_function(codes: list[CodeType], function_names: Container[str]) -> tuple[str, int] | None:
    """Return (name, depth) of the innermost frame of asyncio in a call stack whose function is in `function_names`.
    None if there is none.

    `codes`: the code objects of the call stack, outermost first. A function that waits by means of another one counts
    as the innermost: `Queue.join` is returned, not the `Event.wait` that it calls.
    """
    found = None
    for depth in range(len(codes) - 1, -1, -1):
        code = codes[depth]
        if not code.co_filename.startswith(ASYNCIO):
            break
        name = code.co_qualname
        if name in function_names and (found is None or BUILT_ON.get(name) == found[0]):
            found = name, depth
    return found


def describe_future_wait(waiter: Any, frames: list[FrameType], seconds_left: float | None) -> str:
    """Return in words what a task waits for, if that is a plain future: what completes it, and how long until a timer
    ends the wait. `seconds_left`: None if no timer does.
    """
    until = "" if seconds_left is None else f"{max(seconds_left, 0):.1f} s more"
    return ", ".join(part for part in (_describe_awaited(waiter, frames), until) if part)


def _describe_awaited(waiter: Any, frames: list[FrameType]) -> str:
    """Return in words what a task's innermost frames wait for: an object, connection, process or function. Empty if
    that is unknown.
    """
    if (found := find_awaited_object(frames)) is not None:
        thing, function = found
        return ", ".join(part for part in (find_variable_name(thing, frames), describe_state(thing, function)) if part)
    for frame in reversed(frames):
        code, own = frame.f_code, frame.f_locals
        if not code.co_filename.startswith(ASYNCIO):
            break
        name = code.co_qualname
        if name in _TRANSPORTS:
            return describe_peer(getattr(own.get("self"), "_transport", None))
        if stalled := _describe_stalled_call(name, own.get("self")):
            return stalled
        if name in _PROCESSES:
            return f"process {getattr(own.get('self'), '_pid', None) or getattr(own.get('self'), 'pid', '?')}"
        if ".sock_" in name and own.get("sock") is not None:
            return _describe_socket(own["sock"], own.get("address"))
        if name.endswith("create_connection") and own.get("host") is not None:
            return f"to {own['host']}:{own.get('port')}"
        if name == "Server.serve_forever":
            return "serves " + " ".join(
                format_address(s.getsockname()) for s in getattr(own.get("self"), "sockets", ())
            )
        if name == "sleep":
            return ""
    return _describe_executor_work(waiter) or find_variable_name(waiter, frames) or describe_awaited_function(frames)


def describe_stalled_io(frames: list[FrameType]) -> str:
    """Return in words the I/O that cannot go on before the program or a peer acts; empty for other waits.

    That is a child process whose output is not read, a server that closes and still has connections, or a peer that
    does not read.
    """
    for frame in reversed(frames):
        code = frame.f_code
        if not code.co_filename.startswith(ASYNCIO):
            break
        if found := _describe_stalled_call(code.co_qualname, frame.f_locals.get("self")):
            return found
    return ""


def _describe_stalled_call(function: str, owner: Any) -> str:
    """Return the words of `describe_stalled_io` for one function of asyncio. `function`: its name; `owner`:
    its `self`.
    """
    if function in _PROCESSES and (unread := find_unread_pipe(owner)):
        return f"process {getattr(owner, '_pid', None) or getattr(owner, 'pid', '?')}, whose {unread} nobody reads"
    if function == "Server.wait_closed" and (count := _count_connections(owner)):
        return f"{count} open connection{'s' * (count > 1)} of the server"
    if function == "FlowControlMixin._drain_helper":
        transport: Any = getattr(owner, "_transport", None)
        left = transport.get_write_buffer_size() if hasattr(transport, "get_write_buffer_size") else 0
        peer = describe_peer(transport).removeprefix("from ")
        return f"{peer or 'the other end'} to read {left:,} bytes" if left else ""
    return ""


def find_unread_pipe(process: Any) -> str:
    """Return `stdout` or `stderr`, if this pipe of a child process is full because the program does not read it; empty
    if neither is.

    `process`: asyncio's Process, or its transport.
    """
    transport = getattr(process, "_transport", process)
    protocol = getattr(transport, "_protocol", None)
    for name in ("stdout", "stderr"):
        if getattr(getattr(protocol, name, None), "_paused", False):
            return name
    return ""


def _count_connections(server: Any) -> int:
    """Return how many connections of a server are open."""
    clients = getattr(server, "_clients", None)
    return len(clients) if clients is not None else int(getattr(server, "_active_count", 0))


def describe_peer(transport: Any) -> str:
    """Return `from ADDRESS` for the other end of a connection; empty if unknown."""
    told = transport.get_extra_info("peername") if transport is not None else None
    return f"from {format_address(told)}" if told else ""


def _describe_socket(sock: Any, address: object) -> str:
    """Return `to ADDRESS` for a socket that connects there, or `from ADDRESS` for one that receives. Without an
    address, return `socket` and the number of its file.
    """
    try:
        return f"to {format_address(address)}" if address is not None else f"from {format_address(sock.getpeername())}"
    except OSError:
        return f"socket {sock.fileno()}"


def format_address(address: Any) -> str:
    """Return a network address as `host:port`, or a path as it is."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) and len(address) > 1 else str(address or "?")


def find_variable_name(thing: object, frames: list[FrameType]) -> str:
    """Return the name by which the program's innermost frames know an object: a local or global variable, or
    `self.NAME`. Empty if it has none. `frames`: outermost first.
    """
    own = [frame for frame in reversed(frames) if not is_library(frame.f_code.co_filename)]
    for frame in own:
        for names in (frame.f_locals, frame.f_globals):
            for name, value in list(names.items()):
                if value is thing:
                    return str(name)
        for name, value in own_attributes(frame.f_locals.get("self")):
            if value is thing:
                return f"self.{name}"
    return ""


def own_attributes(thing: object) -> Iterator[tuple[str, object]]:
    """Yield (name, value) for the attributes in an object's own dictionary. No code of the object is executed."""
    if thing is not None:
        try:
            yield from list(object.__getattribute__(thing, "__dict__").items())
        except AttributeError:
            return


def reachable_objects(frame: FrameType) -> Iterator[object]:
    """Yield the values of a frame's local variables, of the global variables that it uses, and of the attributes of its
    `self`.
    """
    yield from list(frame.f_locals.values())
    for _, value in own_attributes(frame.f_locals.get("self")):
        yield value
    for name in frame.f_code.co_names:
        if name in frame.f_globals:
            yield frame.f_globals[name]


def describe_awaited_function(frames: list[FrameType]) -> str:
    """Return `in FUNCTION` for the library function that the program awaits. Empty if it awaits none, or one of
    asyncio's.
    """
    at = next((i for i in range(len(frames) - 1, -1, -1) if not is_library(frames[i].f_code.co_filename)), -1)
    inner = frames[at + 1 :]
    return f"in {inner[0].f_code.co_qualname}" if inner and not inner[0].f_code.co_filename.startswith(ASYNCIO) else ""


def _describe_executor_work(waiter: Any) -> str:
    """Return in words the work in a process pool or another executor that completes the future `waiter`. Empty if there
    is none.
    """
    source = find_executor_future(waiter)
    module: Any = sys.modules.get("concurrent.futures.process")
    for manager in list(module._threads_wakeups) if module is not None and source is not None else ():
        for item in list(getattr(manager, "pending_work_items", {}).values()):
            if item.future is source:
                return f"a pool of processes, {display_name(item.fn)}"
    return "" if source is None else "work of another executor"


def find_executor_future(waiter: Any) -> Any:
    """Return the future of a thread pool or other executor that will complete `waiter`, a future of a loop. None if
    there is none.
    """
    for callback, _ in getattr(waiter, "_callbacks", None) or ():
        if getattr(callback, "__name__", "") == "_call_check_cancel":
            return read_closure_variable(callback, "source")
    return None


def read_closure_variable(function: Any, name: str) -> Any:
    """Return the value of a variable in a function's closure. None if the function does not have the variable, or the
    variable has no value yet.
    """
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    try:
        return function.__closure__[names.index(name)].cell_contents if name in names else None
    except ValueError:  # it has not got its value yet
        return None
