"""Note which files a command starts and reads, so that a replay starts the same ones and can say which changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from weft.errors import UsageError
from weft.launch.launcher_line import parse_launcher_line

MAX_HASHED: Final = 4 << 20
"""Bytes of a file that is hashed; of a larger one its size and time must do."""
MAX_FILES: Final = 64


def describe_program_files(command: Sequence[str]) -> dict[str, Any]:
    """Return run.json's facts about the files that a command names; a fact is missing if there is nothing to say.

    `resolved`: the command with its programs by full path, if PATH decided which they are. `files`: path, size, time
    of change and checksum of the programs, and of the arguments that name files.
    """
    resolved = resolve_programs(command)
    files = list(_describe_files(resolved))
    return ({"resolved": resolved} if resolved != list(command) else {}) | ({"files": files} if files else {})


def resolve_programs(command: Sequence[str]) -> list[str]:
    """Return a command whose programs are named by full path where PATH finds them; a path stays as it is."""
    try:
        line = parse_launcher_line(command)
    except UsageError:
        return list(command)
    contexts = tuple(
        replace(one, program=(shutil.which(one.program[0]) or one.program[0], *one.program[1:]))
        if one.program and os.sep not in one.program[0] else one
        for one in line.contexts
    )  # fmt: skip
    words = replace(line, contexts=contexts, launcher=line.launcher and command[0]).argv()
    return words if len(words) == len(command) else list(command)


def _describe_files(command: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield path, size, time of change and checksum (if small) of each file that a word of the command names."""
    for word in list(dict.fromkeys(command))[:MAX_FILES]:
        with suppress(OSError, ValueError):
            status = os.stat(word)  # noqa: PTH116 - a word of a command may hold anything
            if stat.S_ISREG(status.st_mode):
                known = {"path": os.path.abspath(word), "size": status.st_size, "mtime_ns": status.st_mtime_ns}  # noqa: PTH100
                yield known | ({"sha256": _hash(word)} if status.st_size <= MAX_HASHED else {})


def _hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def find_changed_files(facts: Mapping[str, Any]) -> list[str]:
    """Return the files named by a run's command that have changed since the run or are gone."""
    files = facts.get("files")
    return [
        str(one["path"]) for one in (files if isinstance(files, list) else [])[:MAX_FILES]
        if isinstance(one, dict) and isinstance(one.get("path"), str) and _has_changed(one)
    ]  # fmt: skip


def _has_changed(known: Mapping[str, Any]) -> bool:
    """Return whether a file differs from its facts in run.json (`known`), or is gone."""
    try:
        status = os.stat(known["path"])  # noqa: PTH116 - as above
        if not stat.S_ISREG(status.st_mode) or status.st_size != known.get("size"):
            return True
        if status.st_mtime_ns == known.get("mtime_ns"):
            return False
        return known.get("sha256") is None or _hash(known["path"]) != known["sha256"]
    except (OSError, ValueError):
        return True
