"""Finds and reads what a run directory has: its table of functions, and its ranks' records."""

from __future__ import annotations

import json
import os
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Final

from weft.base.json_files import read_json
from weft.base.lazy import dataclass
from weft.errors import OtherVersion, RunError
from weft.trace.functions import FunctionTable
from weft.trace.packed import SUFFIX, Pack
from weft.trace.rankfile import RankFile

MAX_PROBLEMS: Final = 200


def read_function_table(root: Path, problems: list[str]) -> FunctionTable:
    """Return the table of functions of a run. Runs with an equal functions.json share the table that was read last."""
    try:
        status = (root / "functions.json").stat()
    except OSError:
        status = None
    key = status and (str(root.absolute()), status.st_ino, status.st_mtime_ns, status.st_size)
    if key is None or _last.key != key:
        before = len(problems)
        read = read_json(root, "functions.json", "weft-functions/1", problems, parsed=_parse_json, exact=True)
        table = _last.table if read is _last.read else FunctionTable(read)
        if key is None or len(problems) > before:
            return table
        _last.key, _last.read, _last.table = key, read, table
    return _last.table


@lru_cache(maxsize=1)
def _parse_json(data: bytes) -> object:
    """Parse a table; the next run mostly has the same bytes."""
    return json.loads(data)


@dataclass(slots=True)
class _LastTable:
    """The table that was read last: the state of its file then, its JSON."""

    key: tuple[str, int, int, int] | None = None
    read: dict[str, object] | None = None
    table: FunctionTable = field(default_factory=FunctionTable)


_last: Final = _LastTable()


def ranks_folder(root: Path) -> Path:
    """Return the folder of a run's records. RunError if it leads out of the run."""
    folder = root / "ranks"
    if os.path.realpath(folder) != os.path.join(os.path.realpath(root), "ranks"):  # noqa: PTH118
        raise RunError(
            f"{folder} is a link to {os.path.realpath(folder)}, which Weft does not follow: copy the run with what "
            "its links lead to (cp -rL)"
        )
    return folder


def read_rank_files(root: Path, problems: list[str], notes: list[str]) -> list[RankFile]:
    """Return the records of a run's ranks that can be read, in order of name. OtherVersion if none can be read and one
    was written in an unknown version of the format.

    A sentence about each damaged file is added to `problems`, and one about other files to `notes`.
    """
    try:
        folder = ranks_folder(root)
    except RunError as error:
        problems.append(str(error))
        return []
    try:
        names = {entry.name for entry in os.scandir(folder)}
    except OSError as error:
        problems.append(f"{folder} cannot be read ({error.strerror}): the records of the ranks should be there")
        return []
    files: list[RankFile] = []
    told: list[str] = []
    refused: OtherVersion | None = None
    others = [name for name in sorted(names) if not name.endswith((".weft", SUFFIX))]
    if others:
        notes.append(f"{folder} holds {len(others)} other file(s), left alone: {', '.join(others[:3])[:200]}")
    for name in sorted(names):
        try:
            if name.endswith(".weft"):
                files.append(RankFile(folder / name, root))
            elif name.endswith(SUFFIX):
                # One that is a file as well was packed a moment ago, or came once more since.
                files += [one for one in Pack(folder / name, root).read_records(told) if one.name not in names]
        except RunError as error:
            told.append(str(error))
            refused = error if isinstance(error, OtherVersion) else refused
    if refused and not files:
        raise refused
    problems += told[: max(0, MAX_PROBLEMS - len(problems))]
    return sorted(files, key=lambda file: file.name)
