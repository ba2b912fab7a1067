"""Whether the source files of a run are still what they were: the words of a report are the run's, and it says so."""

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
    """Whether this is the host of that name."""
    return not isinstance(host, str) or host == os.uname().nodename


def change(mark: Mark, here: bool) -> Change | None:
    """How a file differs from what ran; None where it does not, or is that of another machine."""
    try:
        status = os.stat(mark.found)  # noqa: PTH116 - a path out of a record may hold anything
    except (OSError, ValueError):
        return Change(mark.path, "gone") if here else _doubted(mark)
    if status.st_size != mark.size or not stat.S_ISREG(status.st_mode):
        return Change(mark.path, "changed")
    if status.st_mtime_ns != mark.mtime_ns and _hash(mark.found) != mark.sha256:
        return Change(mark.path, "changed")
    return _doubted(mark)


def _doubted(mark: Mark) -> Change | None:
    if mark.doubt == "newer":
        return Change(mark.path, "newer")
    return Change(mark.path, "edited") if mark.doubt == "edited" else None


def _hash(path: str) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            return hashlib.sha256(file.read(MAX_FILE + 1)).hexdigest()
    except OSError:
        return ""


def sentence(changes: Sequence[Change]) -> str | None:
    """`step.py has changed since the run: what is shown of it is as it was then`; None without changes."""
    moved = [(change.file, "has changed since the run" if change.what == "changed" else "is no longer there")
             for change in changes if change.what in ("changed", "gone")]  # fmt: skip
    said = []
    for words in dict.fromkeys(what for _, what in moved):
        some = [file for file, what in moved if what == words]
        said.append(_these(some) + (" " + words if len(some) == 1 else " " + _PLURAL[words]))
    parts = []
    if said:
        parts.append(" and ".join(said) + ": the lines shown are as they were when it was recorded")
    if newer := [change.file for change in changes if change.what == "newer"]:
        parts.append(f"{_these(newer)} {'was' if len(newer) == 1 else 'were'} edited after the program was built, "
                     "and the lines shown may not be those that ran")  # fmt: skip
    if edited := [change.file for change in changes if change.what == "edited"]:
        parts.append(f"{_these(edited)} {'was' if len(edited) == 1 else 'were'} edited while the program ran, "
                     "and the lines shown may not be those that ran")  # fmt: skip
    return "; ".join(parts) or None


_PLURAL: Final = {
    "has changed since the run": "have changed since the run",
    "is no longer there": "are no longer there",
}


def _these(files: Sequence[str]) -> str:
    """`a.py`, `a.py and b.py`, `a.py, b.py and 3 more files`."""
    names = list(dict.fromkeys(Path(file).name for file in files))
    if len(names) > MAX_NAMED:
        more = len(names) - MAX_NAMED + 1
        names = [*names[: MAX_NAMED - 1], f"{more} more files"]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
