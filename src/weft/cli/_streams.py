"""Standard streams on which foreign text acts on no terminal, and a full disk or a closed pipe is no traceback."""

from __future__ import annotations

import io
import os
import sys

from weft.errors import WeftError
from weft.safety.shown import Output


class OutputError(WeftError):
    """Standard output cannot be written."""


class _Descriptor(io.RawIOBase):
    """File descriptor 1 or 2. If the reader has left, writing still succeeds: the command ends with its own status."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._has_failed = False
        self.ends_with_reader = False
        """Whether BrokenPipeError is raised where the reader has left, for output that takes long to make."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: object) -> int | None:
        """Write some of the data, and return how many bytes; None if nothing can be written now. Once the reader has
        left, or a write has failed, everything counts as written. OutputError if the system refuses, BrokenPipeError
        if the command is to end with its reader."""
        view = memoryview(data)  # type: ignore[arg-type]
        if self._has_failed:
            return view.nbytes
        try:
            return os.write(self._descriptor, view)
        except BlockingIOError:
            return None
        except OSError as error:
            self._has_failed = True
            if isinstance(error, BrokenPipeError) and self.ends_with_reader:
                raise
            if isinstance(error, BrokenPipeError) or self._descriptor == 2:
                return view.nbytes  # nobody is left to be told
            raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def end_when_reader_leaves() -> None:
    """Let BrokenPipeError end the command once the reader of its output has left, as nobody needs the rest."""
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if isinstance(raw, _Descriptor):
        raw.ends_with_reader = True


def guard_streams() -> None:
    """Replace standard output and error by streams that make foreign text harmless to a terminal, and end no command
    by a traceback."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:  # closed: what is written is thrown away
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
            continue
        if stream is not getattr(sys, f"__{name}__"):
            continue  # a test's own
        raw = _Descriptor(descriptor)
        is_unbuffered = isinstance(stream.buffer, io.RawIOBase)  # PYTHONUNBUFFERED
        errors = (
            "backslashreplace" if descriptor == 2 else "strict" if stream.errors == "surrogateescape" else stream.errors
        )
        guarded = Output(
            raw if is_unbuffered else io.BufferedWriter(raw), encoding=stream.encoding, errors=errors,  # type: ignore[arg-type]
            line_buffering=stream.line_buffering, write_through=stream.write_through,
        )  # fmt: skip
        setattr(sys, name, guarded)
