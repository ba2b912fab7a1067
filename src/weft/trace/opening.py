"""What a run directory holds is found and read: its table of functions, its ranks' records."""

from __future__ import annotations

import json
import os
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Final

from weft.plain import dataclass
from weft.trace.errors import RunError
from weft.trace.functions import FunctionTable
from weft.trace.json_file import read_json
from weft.trace.rankfile import RankFile

MAX_PROBLEMS: Final = 200


def function_table(root: Path, problems: list[str]) -> FunctionTable:
    """The functions of a run; those of the run that was opened last are still there, for one with the same, too."""
    try:
        status = (root / "functions.json").stat()
    except OSError:
        status = None
    key = status and (str(root.absolute()), status.st_ino, status.st_mtime_ns, status.st_size)
    if key is None or _last.key != key:
        before = len(problems)
        read = read_json(root, "functions.json", "weft-functions/1", problems, parsed=_parsed)
        table = _last.table if read is _last.read else FunctionTable(read)
        if key is None or len(problems) > before:
            return table
        _last.key, _last.read, _last.table = key, read, table
    return _last.table


@lru_cache(maxsize=1)
def _parsed(data: bytes) -> object:
    """A table as JSON; that of one run is mostly that of the next one."""
    return json.loads(data)


@dataclass(slots=True)
class _Last:
    """The table that was read last: the file and its state then, its JSON."""

    key: tuple[str, int, int, int] | None = None
    read: dict[str, object] | None = None
    table: FunctionTable = field(default_factory=FunctionTable)


_last: Final = _Last()


def rank_files(root: Path, problems: list[str]) -> list[RankFile]:
    """The readable records in RUN/ranks, in order of name."""
    folder = root / "ranks"
    if os.path.realpath(folder) != os.path.join(os.path.realpath(root), "ranks"):  # noqa: PTH118
        problems.append(f"{folder} is a link to {os.path.realpath(folder)}: not followed. Copy the run whole (cp -rL)")
        return []
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        problems.append(f"{folder} cannot be read: {error.strerror}. A run holds its ranks' records there")
        return []
    files: list[RankFile] = []
    others = [name for name in names if not name.endswith(".weft")]
    if others:
        problems.append(f"{folder} holds {len(others)} other file(s), left alone: {', '.join(others[:3])[:200]}")
    for name in names:
        if name.endswith(".weft"):
            try:
                files.append(RankFile(folder / name, root))
            except RunError as error:
                if len(problems) < MAX_PROBLEMS:
                    problems.append(str(error))
    return files
