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

INTERRUPTED_STATUS = 130
"""The status of a program that ends of KeyboardInterrupt, as shells give it."""


def run_program(kind: str, target: str, before_start: Callable[[], object]) -> int:
    """Run a program as the main module, wait until its threads have ended, and return its exit status.

    `kind`: `file`, `-m` or `-c`. `target`: the file, module or code. `before_start`: is called when everything is
    prepared.
    """
    status = 0
    try:
        run_it = prepare_program(kind, target)
        before_start()
        run_it()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        if status == 1 and not isinstance(left.code, int):
            print(left.code, file=sys.stderr)
    except BaseException as error:
        status = INTERRUPTED_STATUS if isinstance(error, KeyboardInterrupt) else 1
        sys.settrace(None)
        error.__traceback__ = strip_own_frames(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
    # Python waits for these at its own end; until then the program runs, and is debugged.
    threading._shutdown()  # type: ignore[attr-defined]
    sys.settrace(None)
    return status


def strip_own_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without Weft's frames at its beginning. It is then the one that Python would print without
    Weft.
    """
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(births.OWN_FOLDER):
        trace = trace.tb_next
    return trace


def prepare_program(kind: str, target: str) -> Callable[[], object]:
    """Set sys.path, sys.argv and the main module as Python would, and return a function that runs the program. `kind`:
    `file`, `-m` or `-c`; `target`: the file, module or code.
    """
    # Python puts the folder of what it was given to run first, here that of Weft's part.
    del sys.path[0]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    path = target if target.startswith("/") else f"{Path.cwd()}/{target}"  # as Python does it: a `./` stays
    if kind == "-m" or (kind == "file" and (Path(target).is_dir() or not is_source_file(target))):
        # runpy is what Python itself starts here; it is imported where it is needed only.
        import runpy

        start: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
        if kind == "-m":
            prepend_to_path(str(Path.cwd()))
            sys.argv[0] = "-m"
            return lambda: start(target)
        sys.path.insert(0, path)
        return lambda: start("__main__", False)
    if kind == "-c":
        births.GENERATED_FILES.discard("<string>")
        prepend_to_path("")
        sys.argv[0] = "-c"
        if sys.version_info >= (3, 13):  # its tracebacks have the lines of such code
            lines = [line + "\n" for line in target.splitlines()]
            linecache.cache["<string>"] = (len(target), None, lines, "<string>")
        return bind_code(compile(target, "<string>", "exec", dont_inherit=True), main)
    prepend_to_path(str(Path(target).resolve().parent))
    main.__file__ = path
    main.__dict__.update(__loader__=SourceFileLoader("__main__", path), __cached__=None)
    run_it = bind_code(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), main)

    def run_and_flush() -> None:
        """Run the program, and flush its output even if an exception ends it."""
        try:
            run_it()
        finally:
            flush_output()  # as Python does after a script, before it prints the exception that ended it

    return run_and_flush


def flush_output() -> None:
    """Flush stdout and stderr, if the program has not closed them."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed by the program, or none
            stream.flush()


def prepend_to_path(folder: str) -> None:
    """Put a folder at the beginning of sys.path, unless Python runs with safe_path."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def bind_code(code: types.CodeType, main: types.ModuleType) -> Callable[[], object]:
    """Return a function that executes code in a module."""
    return lambda: exec(code, main.__dict__)


def is_source_file(path: str) -> bool:
    """Return whether a file is Python source code, and not a zip archive."""
    import zipfile  # only for what is no `.py`

    return path.endswith(".py") or not zipfile.is_zipfile(path)
