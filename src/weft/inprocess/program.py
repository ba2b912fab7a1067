"""Starts a program as Python itself does: a script, a folder or an archive, `-m MODULE`, `-c CODE`."""

from __future__ import annotations

import linecache
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from . import births

INTERRUPTED = 130
"""The status of a program that ends of KeyboardInterrupt, as shells give it."""


def run(kind: str, target: str, begin: Callable[[], object]) -> int:
    """Run it as the main module, after `begin`; its exit status. Its threads have come to their end then."""
    status = 0
    try:
        run_it = prepared(kind, target)
        begin()
        run_it()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        if status == 1 and not isinstance(left.code, int):
            print(left.code, file=sys.stderr)
    except BaseException as error:
        status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
        sys.settrace(None)
        error.__traceback__ = foreign(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
    # Python waits for these at its own end; until then the program runs, and is debugged.
    threading._shutdown()  # type: ignore[attr-defined]
    sys.settrace(None)
    return status


def foreign(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without Weft's own frames: what Python would print without Weft."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(births.OWN):
        trace = trace.tb_next
    return trace


def prepared(kind: str, target: str) -> Callable[[], object]:
    """Set path and main module as Python would; what is left to do is to run it."""
    # Python puts the folder of what it was given to run first, here that of Weft's part.
    del sys.path[0]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    path = target if target.startswith("/") else f"{Path.cwd()}/{target}"  # as Python does it: a `./` stays
    if kind == "-m" or (kind == "file" and (Path(target).is_dir() or not is_source(target))):
        # runpy is what Python itself starts here; it is imported where it is needed only.
        import runpy

        start: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
        if kind == "-m":
            first(str(Path.cwd()))
            sys.argv[0] = "-m"
            return lambda: start(target)
        sys.path.insert(0, path)
        return lambda: start("__main__", False)
    if kind == "-c":
        births.GENERATED.discard("<string>")
        first("")
        sys.argv[0] = "-c"
        if sys.version_info >= (3, 13):  # its tracebacks have the lines of such code
            lines = [line + "\n" for line in target.splitlines()]
            linecache.cache["<string>"] = (len(target), None, lines, "<string>")
        return bound(compile(target, "<string>", "exec", dont_inherit=True), main)
    first(str(Path(target).resolve().parent))
    main.__file__ = path
    main.__dict__.update(__loader__=SourceFileLoader("__main__", path), __cached__=None)
    run_it = bound(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), main)

    def run_and_flush() -> None:
        try:
            run_it()
        finally:
            flush()  # as Python does after a script, before it prints the exception that ended it

    return run_and_flush


def flush() -> None:
    """Write out what the program's streams hold."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed by the program, or none
            stream.flush()


def first(folder: str) -> None:
    """A folder in front of the path, unless Python was told to keep it out."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def bound(code: types.CodeType, main: types.ModuleType) -> Callable[[], object]:
    """Code that is to run in a module."""
    return lambda: exec(code, main.__dict__)


def is_source(path: str) -> bool:
    """Whether a file is not an archive, which has its directory at its end."""
    import zipfile  # only for what is no `.py`

    return path.endswith(".py") or not zipfile.is_zipfile(path)
