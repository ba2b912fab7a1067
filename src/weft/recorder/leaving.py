"""Run by the recorder inside a Python program, for what only the interpreter knows: exceptions that nobody caught.

Nothing of it is on the way of a program that ends well. What it finds goes to `tell`, which the recorder puts here;
what goes wrong in it stays in it. It imports what every interpreter has loaded: `typing` alone takes milliseconds.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    tell: Callable[[bytes, bytes, bytes, bytes, bytes], None]

FRAMES = 128
TRACEBACK = 1 << 20
_told: set[int] = set()


def _encode_number(value: int) -> bytes:
    """Encode a number as a LEB128 varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(text: str, most: int) -> bytes:
    return text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")[:most]


def _string(text: str, most: int) -> bytes:
    data = _bytes(text, most)
    return _encode_number(len(data)) + data


def _encode_frames(traceback: "TracebackType | None") -> bytes:
    """Return the frames of a traceback as bytes for the recorder: their number, then file, line and function of each
    frame, innermost first. At most FRAMES are taken.
    """
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append(_string(code.co_filename, 4096) + _encode_number(traceback.tb_lineno or 0) + _string(name, 1024))
        traceback = traceback.tb_next
    inner = frames[::-1][:FRAMES]
    return _encode_number(len(inner)) + b"".join(inner)


def _name(kind: type) -> str:
    """Return the name of an exception's class, with its module unless that is the program itself or
    Python's builtins.
    """
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _text_of(error: BaseException) -> str:
    """Return the text of an exception, "" if its own method fails."""
    try:
        return str(error)
    except BaseException:  # the program's own __str__ may do anything
        return ""


def _record_exception(error: BaseException, traceback: "TracebackType | None", who: str) -> None:
    """Record an exception that nobody caught; a second time it is left out. `who`: the thread or task that it ended, ""
    for the program.
    """
    if id(error) in _told:
        return
    _told.add(id(error))
    # This runs in the user's program: nothing is imported there that it may never need.
    from traceback import format_exception

    whole = "".join(format_exception(type(error), error, traceback))
    tell(  # noqa: F821 - the recorder puts it here
        _bytes(_name(type(error)), 1024), _bytes(_text_of(error), 1 << 15), _bytes(whole, TRACEBACK), _bytes(who, 256),
        _encode_frames(traceback),
    )  # fmt: skip


def uncaught() -> None:
    """Record the exception that ends the program: the interpreter has printed it, or its handler gives up.

    Others put theirs into sys.last_value, too (consoles, pytest); only an exception that left the thread's first frame
    was caught by nobody. A handler that calls MPI_Abort or os._exit ends the program by the exception that it handles.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    traceback = getattr(sys, "last_traceback", None)
    if isinstance(error, BaseException) and (traceback is None or traceback.tb_frame.f_back is None):
        _record_exception(error, traceback, "")
        return
    handled = sys.exc_info()[1]
    if handled is not None and not isinstance(handled, (SystemExit, KeyboardInterrupt, GeneratorExit)):
        _record_exception(handled, handled.__traceback__, "")


def thread(hooked: "Any") -> None:
    """Tell of an exception that ended a thread."""
    if hooked.exc_value is not None and not isinstance(hooked.exc_value, SystemExit):
        _record_exception(hooked.exc_value, hooked.exc_traceback, getattr(hooked.thread, "name", "") or "a thread")


class _Tasks:
    """A filter of asyncio's log that lets all pass: asyncio logs there when nobody asked for a task's exception."""

    def filter(self, record: "Any") -> bool:
        """Record the exception in a log record of asyncio, and let the record pass."""
        try:
            if record.exc_info and isinstance(record.exc_info[1], BaseException):
                name = record.getMessage().partition(" name='")[2].partition("'")[0]
                _record_exception(record.exc_info[1], record.exc_info[2], f"task {name}" if name else "a task")
        except Exception:  # nothing of this may reach the program
            pass
        return True


def tasks() -> None:
    """Listen to asyncio's log, which reports the exceptions of tasks that nobody awaits."""
    log = sys.modules.get("asyncio.log")
    if log is not None:
        log.logger.addFilter(_Tasks())
