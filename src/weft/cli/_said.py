"""Prints Weft's own lines besides the program's output, and paths as people type them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from weft.findings import Finding
    from weft.report import AnalysisContext, Report
    from weft.report.terminal import Block
    from weft.trace import Trace


def say(text: str) -> None:
    """Print one of Weft's own lines. They go to stderr: stdout is the program's."""
    with contextlib.suppress(OSError):  # the terminal may be closed
        print(f"weft: {text}", file=sys.stderr, flush=True)


def print_own_blocks(blocks: Iterable[Block], to: TextIO) -> None:
    """Print lines with their styles as Weft's own: wrapped and coloured at a terminal, as in `weft report`."""
    from weft.report.terminal import print_blocks

    with contextlib.suppress(OSError):  # the terminal may be closed
        print_blocks(blocks, to, prefix="weft: ")


def print_failures(trace: Trace, report: Report) -> None:
    """Print which analyses of a run failed, so that the reader knows which findings may be missing."""
    # Nearly every report is whole.
    from weft.report.failure import describe_failures

    for text in describe_failures(trace.path, report.failures):
        say(text)


def find_and_report_failures(trace: Trace, context: AnalysisContext | None = None) -> list[Finding]:
    """Return the findings of a run, for a command that goes on with them; analyses that fail are reported first."""
    # Commands are read without numpy.
    from weft.report import run_analyses

    report = run_analyses(trace, context=context)
    print_failures(trace, report)
    return list(report.findings)


def shorten_path(path: Path) -> str:
    """Return a path relative to the current folder if it is inside of it, else the whole path. The user can give it to
    the next command."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
