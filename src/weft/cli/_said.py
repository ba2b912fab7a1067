"""Weft's own lines beside the program's output, and paths as people type them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from weft.report.terminal import Block


def say(text: str) -> None:
    """Print one of Weft's own lines. They go to stderr: stdout is the program's."""
    with contextlib.suppress(OSError):  # the terminal may be closed
        print(f"weft: {text}", file=sys.stderr, flush=True)


def tell(blocks: Iterable[Block], to: TextIO) -> None:
    """Print lines with their styles as Weft's own: wrapped and coloured at a terminal, as `weft report` has them."""
    from weft.report.terminal import print_blocks

    with contextlib.suppress(OSError):  # the terminal may be closed
        print_blocks(blocks, to, prefix="weft: ")


def shown_path(path: Path) -> str:
    """The path as short as it can be given to the next command."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
