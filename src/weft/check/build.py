"""The sources of a program that is named by its folder or by a compilation database (compile_commands.json)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.check.front_ends import front_ends
from weft.errors import UsageError

T = TypeVar("T")
DATABASE: Final = "compile_commands.json"
WITH_VALUE: Final = ("-o", "-MF", "-MT", "-MQ", "-x", "-arch")
KEPT: Final = ("-std=", "-f", "-m", "-W", "-pthread")
"""Options of a compiler's call that change what a source means."""


@dataclass(frozen=True, slots=True)
class Build:
    """Sources, and what the calls of the compiler say of them."""

    sources: tuple[Path, ...]
    include: tuple[Path, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def expanded(names: Sequence[Path]) -> Build:
    """The sources that files, folders and databases name. UsageError for a folder without sources."""
    parts = [of(name) for name in names]
    return Build(
        unique(one for part in parts for one in part.sources),
        unique(one for part in parts for one in part.include),
        unique(one for part in parts for one in part.define),
        unique(one for part in parts for one in part.flags),
    )


def suffixes() -> frozenset[str]:
    """How sources are called that a compiler reads."""
    return frozenset(suffix for one in front_ends().values() if not one.script for suffix in one.suffixes)


def unique(items: Iterator[T]) -> tuple[T, ...]:
    """Each once, in the order of its first time."""
    return tuple(dict.fromkeys(items))


def of(name: Path) -> Build:
    """The sources that one name stands for."""
    if name.is_dir():
        if (name / DATABASE).is_file():
            return database(name / DATABASE)
        found = tuple(sorted(path for path in name.iterdir() if path.is_file() and path.suffix.lower() in suffixes()))
        if not found:
            raise UsageError(f"{name} holds no sources and no {DATABASE}; name the program's sources")
        return Build(found)
    return database(name) if name.suffix == ".json" else Build((name,))


def database(path: Path) -> Build:
    """The sources of a compilation database, with the folders, macros and options of their calls."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        calls = [call(entry, path) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a compilation database: {error}") from error
    return Build(
        unique(one for part in calls for one in part.sources),
        unique(one for part in calls for one in part.include),
        unique(one for part in calls for one in part.define),
        unique(one for part in calls for one in part.flags),
    )


def call(entry: dict[str, Any], path: Path) -> Build:
    """One call of the compiler."""
    folder = path.parent / entry.get("directory", "")
    source = folder / entry["file"]
    words = list(entry["arguments"]) if "arguments" in entry else shlex.split(entry["command"])
    if source.suffix.lower() not in suffixes():
        return Build(())
    include: list[Path] = []
    define: list[str] = []
    flags: list[str] = []
    waiting = iter(words[1:])
    for word in waiting:
        if word in WITH_VALUE:
            next(waiting, None)
        elif word in ("-isystem", "-iquote"):
            include.append(folder / next(waiting, ""))
        elif word.startswith("-I"):
            include.append(folder / (word[2:] or next(waiting, "")))
        elif word.startswith("-D"):
            define.append(word[2:] or next(waiting, ""))
        elif word.startswith(KEPT) and not word.startswith("-fsanitize"):
            flags.append(word)
    return Build((source,), tuple(include), tuple(define), tuple(flags))
