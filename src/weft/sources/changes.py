"""Find out whether the source files of a run are still the same: a report shows the run's lines, and says if not."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from weft.base.lazy import dataclass
from weft.sources.layout import MAX_FILE

What = Literal["changed", "gone", "newer", "edited"]

MAX_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """What a file was like when the run was recorded."""

    path: str
    """As the record names it."""
    found: str
    """Where it lay."""
    size: int
    mtime_ns: int
    sha256: str
    doubt: str = ""
    """`newer` than the program that was built from it, `edited` while it ran, or nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file that is not what it was."""

    file: str
    what: What


def is_here(host: object) -> bool:
    """Return whether this machine is the host of that name; also True if no name is given."""
    return not isinstance(host, str) or host == os.uname().nodename


def find_change(mark: Mark, is_this_machine: bool) -> Change | None:
    """Return how a source file differs from the one that was recorded. None if it is the same, and nothing else casts
    doubt on it. A missing file counts as gone only on the machine of the run.
    """
    try:
        status = os.stat(mark.found)  # noqa: PTH116 - a path out of a record may hold anything
    except (OSError, ValueError):
        return Change(mark.path, "gone") if is_this_machine else _find_doubt(mark)
    if status.st_size != mark.size or not stat.S_ISREG(status.st_mode):
        return Change(mark.path, "changed")
    if status.st_mtime_ns != mark.mtime_ns and _hash_file(mark.found) != mark.sha256:
        return Change(mark.path, "changed")
    return _find_doubt(mark)


def _find_doubt(mark: Mark) -> Change | None:
    """Return the doubt that was noted when the run was recorded, as a Change; None if there was no doubt."""
    if mark.doubt == "newer":
        return Change(mark.path, "newer")
    return Change(mark.path, "edited") if mark.doubt == "edited" else None


def _hash_file(path: str) -> str:
    """Return the SHA-256 of a file's beginning, "" if it cannot be read."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            return hashlib.sha256(file.read(MAX_FILE + 1)).hexdigest()
    except OSError:
        return ""


def describe_changes(changes: Sequence[Change]) -> str | None:
    """Return a sentence on changed files (`step.py has changed since the run: ...`), None without changes."""
    moved = [(change.file, "has changed since the run" if change.what == "changed" else "is no longer there")
             for change in changes if change.what in ("changed", "gone")]  # fmt: skip
    said = []
    for words in dict.fromkeys(what for _, what in moved):
        some = [file for file, what in moved if what == words]
        said.append(_format_files(some) + (" " + words if len(some) == 1 else " " + _PLURAL[words]))
    parts = []
    if said:
        parts.append(" and ".join(said) + ": the lines shown are as they were when it was recorded")
    if newer := [change.file for change in changes if change.what == "newer"]:
        were = "was" if len(newer) == 1 else "were"
        parts.append(f"{_format_files(newer)} {were} edited after the program was built, so the lines shown may not "
            f"be those that ran")  # fmt: skip
    if edited := [change.file for change in changes if change.what == "edited"]:
        parts.append(f"{_format_files(edited)} {'was' if len(edited) == 1 else 'were'} edited while the program "
            f"ran, so the lines shown may not be those that ran")  # fmt: skip
    return "; ".join(parts) or None


_PLURAL: Final = {
    "has changed since the run": "have changed since the run",
    "is no longer there": "are no longer there",
}


def _format_files(files: Sequence[str]) -> str:
    """Format file names: `a.py`, `a.py and b.py`, `a.py, b.py and 3 more files`."""
    names = list(dict.fromkeys(Path(file).name for file in files))
    if len(names) > MAX_NAMED:
        more = len(names) - MAX_NAMED + 1
        names = [*names[: MAX_NAMED - 1], f"{more} more files"]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
