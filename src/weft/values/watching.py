"""`weft run --watch FILE:LINE:EXPR`: keep values at a line of a program without probes in its source.

In Python ranks the interpreter reports the lines (`startup/sitecustomize.py`), in native ones gdb (`watch_gdb.py`).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.errors import UsageError
from weft.values.folder import FOLDER, WATCHES

HERE: Final = Path(__file__).parent
_SPEC: Final = re.compile(r"(?P<file>[^:\s][^:]*):(?P<line>[1-9]\d*):(?P<text>.+)")
_PART: Final = re.compile(r"(?P<text>.+?)\s+as\s+(?P<of>\w+)\[(?P<lower>.+)\]\s*$")
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*t?")
# The recorder is for the program, not for the debugger around it, nor is what Python ranks read.
_WRAPPED: Final = """\
WEFT_INTERNAL_PRELOAD=$LD_PRELOAD; export WEFT_INTERNAL_PRELOAD; unset LD_PRELOAD
if [ -n "$WEFT_INTERNAL_PYTHONPATH" ]; then PYTHONPATH=$WEFT_INTERNAL_PYTHONPATH; else unset PYTHONPATH; fi
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class LineWatch:
    """An expression at a line; `of` and `lower` say which part of which global array it is."""

    file: str
    line: int
    text: str
    of: str = ""
    lower: str = ""

    @property
    def is_python(self) -> bool:
        """Whether the line is in a Python source."""
        return self.file.endswith((".py", ".pyw", ".ipynb"))

    @property
    def name(self) -> str:
        """The name of the values in the trace."""
        return self.of or self.text


def parse_watch(text: str) -> LineWatch:
    """Return the watch that a text FILE:LINE:EXPR, or FILE:LINE:EXPR as NAME[LOWER, ...], describes. UsageError if it
    is invalid.
    """
    found = _SPEC.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--watch {text!r} is not FILE:LINE:EXPR, such as 'jacobi.c:42:A[1:n][0]'")
    part = _PART.fullmatch(found["text"])
    watch = LineWatch(
        found["file"],
        int(found["line"]),
        (part or found)["text"].strip(),
        *((part["of"], part["lower"]) if part else ()),
    )
    source = Path(watch.file)
    if source.is_file():
        lines = source.read_text("utf-8", "replace").splitlines()
        if watch.line > len(lines):
            raise UsageError(f"--watch {text!r}: {watch.file} has {len(lines)} lines")
    if watch.is_python:
        try:
            compile(watch.text, "--watch", "eval")
        except SyntaxError as error:
            raise UsageError(f"--watch {text!r}: {watch.text} is not an expression of Python: {error.msg}") from None
    return watch


def is_python(program: Sequence[str]) -> bool:
    """Return whether the command of a program starts a Python interpreter."""
    path = shutil.which(program[0]) or program[0]
    if _PYTHON.fullmatch(Path(path).name):
        return True
    try:
        with Path(path).open("rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


def check_watches(watches: Sequence[LineWatch], programs: Iterable[Sequence[str]]) -> None:
    """Raise UsageError for a watch that cannot work: a line of a native program without gdb, or a line of a native
    source if all programs are Python's.
    """
    # Runs without --watch do not wait for it.
    from weft.base.debuggers import REMEDY, find_gdb

    native = [program for program in programs if not is_python(program)]
    for watch in watches:
        if not watch.is_python and native and find_gdb() is None:
            raise UsageError(
                f"--watch {watch.file}:{watch.line}: to watch a line of a native program, Weft needs gdb: {REMEDY}"
            )
        if not watch.is_python and not native:
            raise UsageError(f"--watch {watch.file}:{watch.line}: this is a Python program; name a line of a .py file")


def write_watches(run: Path, watches: Sequence[LineWatch]) -> dict[str, str]:
    """Write the watches into the run; return the environment variables that the ranks need."""
    path = run.absolute() / FOLDER / WATCHES
    # numpy comes with it, which other runs do not wait for.
    from weft.native.headers.weft_array import Array, Order

    array = {
        "size": ctypes.sizeof(Array), "fortran": int(Order.FROM_ONE | Order.FIRST_FASTEST),
        "offsets": {name: getattr(Array, name).offset for name, *_ in Array._fields_},
    }  # fmt: skip
    told = [{key: getattr(one, key) for key in ("file", "line", "text", "of", "lower")} for one in watches]
    path.write_text(json.dumps({"watches": told, "array": array}))
    known = os.environ.get("PYTHONPATH")
    paths = [str(HERE / "startup"), *([known] if known else [])]
    return {
        "WEFT_INTERNAL_WATCHES": str(path), "PYTHONPATH": os.pathsep.join(paths),
        "WEFT_INTERNAL_PYTHONPATH": known or "",
    }  # fmt: skip


def wrap_with_gdb(program: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs a native program in gdb, which watches its lines. The command of a Python program is
    returned unchanged.
    """
    if is_python(program):
        return tuple(program)
    # Runs without --watch do not wait for it.
    from weft.base.debuggers import command, find_gdb

    gdb = [*command(find_gdb() or "gdb", "set auto-load off"), "--batch", "-x", str(HERE / "watch_gdb.py"), "--args"]
    return ("/bin/sh", "-c", _WRAPPED, "weft", *gdb, *program)


def find_unreached_watches(watches: Sequence[LineWatch], places: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each watch whose line was never reached. `places`: (name, file) of all the probes."""
    reached = {(name, Path(file).name) for name, file in places}
    return [
        f"--watch {one.file}:{one.line}:{one.text} recorded nothing: no rank reached that line, or the program was "
        + ("started without loading that file" if one.is_python else "compiled without -g")
        for one in watches
        if (one.name, Path(one.file).name) not in reached
    ]
