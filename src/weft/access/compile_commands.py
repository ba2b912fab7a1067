"""Write a compilation database of the compiler calls made by `weft cc --commands FILE`, for `weft check FILE`."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from weft.access.command_line import parse_command
from weft.errors import UsageError


def add_command(database: Path, command: Sequence[str], folder: Path) -> None:
    """Add a compiler call to a compilation database (a JSON file). It replaces an earlier call for the same source and
    output. `folder`: where the call was made.

    The file is locked, as builds run in parallel. Raises UsageError if it cannot be written or is not a database.
    """
    line = parse_command(command)
    if line.passes or not line.sources:
        return
    output = {"output": line.output} if line.has("-o") else {}
    made = [{"directory": str(folder), "file": source, "arguments": list(command), **output} for source in line.sources]
    try:
        with database.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            held = _read_entries(file, database)
            new = {_entry_key(one) for one in made}
            file.truncate(0)
            json.dump([*(one for one in held if _entry_key(one) not in new), *made], file, indent=1)
    except OSError as error:
        raise UsageError(f"weft cc: {database} cannot be written: {error.strerror}") from error


def _read_entries(file: TextIO, database: Path) -> list[dict[str, Any]]:
    """Return the entries of a compilation database that is open. Raises UsageError if the file is not one."""
    try:
        held = json.loads(file.read() or "[]")
    except ValueError:
        held = None
    if not isinstance(held, list) or not all(isinstance(one, dict) for one in held):
        raise UsageError(
            f"weft cc --commands {database}: this file exists and is not a compilation database: name another file, "
            "or delete this one, so that Weft can write a new one"
        )
    return held


def _entry_key(entry: dict[str, Any]) -> tuple[object, object, object]:
    return entry.get("directory"), entry.get("file"), entry.get("output")
