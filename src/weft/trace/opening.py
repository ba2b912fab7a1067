"""What a run directory holds is found and read: its table of functions, its ranks' records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weft.trace.errors import RunError
from weft.trace.functions import FunctionTable
from weft.trace.json_file import read_json
from weft.trace.rankfile import RankFile

MAX_PROBLEMS: Final = 200


def function_table(root: Path, problems: list[str]) -> FunctionTable:
    """The functions of a run; those of the run that was opened last are still there."""
    try:
        status = (root / "functions.json").stat()
    except OSError:
        status = None
    key = status and (str(root.absolute()), status.st_ino, status.st_mtime_ns, status.st_size)
    if key is None or key not in _last:
        before = len(problems)
        table = FunctionTable(read_json(root, "functions.json", "weft-functions/1", problems))
        if key is None or len(problems) > before:
            return table
        _last.clear()
        _last[key] = table
    return _last[key]


_last: dict[tuple[str, int, int, int], FunctionTable] = {}


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
