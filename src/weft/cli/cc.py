"""Compile a program so that `weft run` also finds memory that is used while MPI still reads or writes it.

weft cc mpicc -g -O2 -o prog prog.c            in front of the compiler call: C, C++ or Fortran
make CC="weft cc mpicc" FC="weft cc mpif90"    whatever builds the program
cmake -DCMAKE_C_COMPILER_LAUNCHER="weft;cc" -DCMAKE_C_LINKER_LAUNCHER="weft;cc" ...

`weft run` records the MPI calls of any program. For a program built with `weft cc` it also reports the source lines
that access a buffer which MPI is still using, or memory of an MPI window (RMA) that two ranks access at once. The
compiler (gcc or clang) adds a call at each memory access, and Weft links a small object file that receives these calls:
without Weft the program runs as before. The program also keeps the compiler calls it was built with: from these
`weft check -- ./prog` finds the sources of an OpenMP program. Exits as the compiler does.

For `weft check` only:

make CC="weft cc --commands $PWD/calls.json gcc" && weft check calls.json

With --commands the compiler is called unchanged, and its call is added to a compilation database. `weft check` takes
the program's sources, and the folders, macros and options of each, from there.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.base.lifetime import temporary_folder
from weft.errors import UsageError


def register(subparsers: Any) -> None:
    """Declare `weft cc` and its options to argparse."""
    parser = subparsers.add_parser(
        "cc", help="compile a program so that `weft run` sees its memory accesses", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter, usage="weft cc [--commands FILE] COMPILER ARGS...",
    )  # fmt: skip
    parser.add_argument(
        "--commands",
        type=Path,
        metavar="FILE",
        help="compile unchanged, and add the call to the compilation database FILE, for `weft check`",
    )
    parser.add_argument("line", nargs=argparse.REMAINDER, metavar="COMPILER ARGS", help="the compiler call")


def run(args: argparse.Namespace) -> int:
    """Run `weft cc`: compile and link with calls that report memory accesses; return the compiler's status."""
    from weft.access.command_line import parse_command
    from weft.access.hook_options import choose_hook_options

    args.line = args.line[1:] if args.line[:1] == ["--"] else args.line
    if not args.line:
        raise UsageError("name a compiler call: weft cc mpicc -g -o prog prog.c")
    if args.commands is not None:
        return _compile_for_database(args.commands, args.line)
    line = parse_command(args.line)
    if line.passes:
        return _run_compiler(args.line)
    found = choose_hook_options(line.compiler)
    with temporary_folder("cc") as folder:
        return _compile_and_link(line, found, Path(folder))


def _compile_and_link(line: Any, found: Sequence[str], folder: Path) -> int:
    """Compile and link with access hooks; the object or program keeps a record of its compiler call. Return the exit
    status."""
    from weft.access.command_line import (
        compile_command,
        compile_commands,
        embed_command_record,
        link_command,
        make_command_entries,
    )
    from weft.access.hook_object import link_options
    from weft.sources.compiler_calls import render_assembly

    kept = folder / "calls.s"
    kept.write_text(render_assembly(make_command_entries(line, Path.cwd()), alone=not line.is_compile_only))
    if line.is_compile_only:
        return _run_compiler(embed_command_record(compile_command(line, found), found, kept), folder)
    for command in compile_commands(line, found, folder):
        status = _run_compiler(command, folder)
        if status:
            return status
    return _run_compiler(link_command(line, folder, [str(kept), *([] if line.has("-r") else link_options())]), folder)


def _compile_for_database(database: Path, line: Sequence[str]) -> int:
    """Make a compiler call unchanged, and add it to the compilation database if it succeeds. Return the compiler's
    exit status."""
    from weft.access.compile_commands import add_command

    status = _run_compiler(line)
    if status == 0:
        add_command(database, line, Path.cwd())
    return status


def _run_compiler(command: Sequence[str], folder: Path | None = None) -> int:
    """Run a command with our own input and output; return its exit status, 128 and more for one that was killed.

    A compiler that is killed leaves its temporary files: they go with `folder`.
    """
    if os.environ.get("WEFT_CC_SHOW"):
        print(*command, file=sys.stderr)
    try:
        environment = {**os.environ, "TMPDIR": str(folder)} if folder else None
        status = _wait_for_compiler(subprocess.Popen(command, env=environment))
    except FileNotFoundError:
        raise UsageError(f"weft cc: there is no compiler {command[0]}") from None
    except OSError as error:
        raise UsageError(f"weft cc: cannot run {command[0]}: {error.strerror}") from None
    return status if status >= 0 else 128 - status


def _wait_for_compiler(compiler: subprocess.Popen[bytes]) -> int:
    """Wait for a compiler and return its exit status. If this process is ended first, end the compiler's passes,
    too."""
    try:
        return compiler.wait()
    except BaseException:
        from weft.attach.processes import find_descendants, read_parents  # which no compilation has to wait for

        for pid in (compiler.pid, *find_descendants(compiler.pid, read_parents())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        compiler.wait()
        raise
