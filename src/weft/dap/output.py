"""Output of the ranks of a replay: each rank writes into files of its own, which are read here while they grow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = "output"
"""In a replay's folder; where it is there, ranks write into it (recorder/process.c, redirect_output)."""
STREAMS = {"out": "stdout", "err": "stderr"}
Written = tuple[int, str, str]
"""Rank, the protocol's name of the stream, text."""


def create_output_folder(folder: Path) -> None:
    """Create the folder whose existence makes the ranks of a replay write into files of their own."""
    (folder / FOLDER).mkdir()


class RankOutput:
    """Read the output of all ranks, and remember how much was shown, so that a replay that starts anew does not repeat
    it.
    """

    def __init__(self) -> None:
        self._shown: dict[str, int] = {}

    def reset(self) -> None:
        """Show all output again, as the program starts anew."""
        self._shown.clear()

    def read_new(self, folder: Path, *, whole: bool = True) -> Iterator[Written]:
        """Yield what the ranks have written since the last call, as (rank, stream, text).

        `whole`: only up to the end of the last full line, as a rank may still be writing the next one.
        """
        for path in sorted((folder / FOLDER).glob("rank-*.*")):
            found = re.fullmatch(r"rank-(\d+)\.(out|err)", path.name)
            shown = self._shown.get(path.name, 0)
            if found is None or path.stat().st_size <= shown:
                continue
            with path.open("rb") as file:
                file.seek(shown)
                data = file.read(1 << 20)
            end = data.rfind(b"\n") + 1 if whole and len(data) < 1 << 20 else len(data)
            if end:
                self._shown[path.name] = shown + end
                yield int(found[1]), STREAMS[found[2]], data[:end].decode(errors="replace")
