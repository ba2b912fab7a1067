"""The sources of a program that is named by its folder or by a compilation database (compile_commands.json)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.check.compiled import Options
from weft.check.front_ends import front_ends
from weft.errors import UsageError

T = TypeVar("T")
DATABASE: Final = "compile_commands.json"
WITH_VALUE: Final = ("-o", "-MF", "-MT", "-MQ", "-x", "-arch")
KEPT: Final = ("-std=", "-f", "-m", "-W", "-U", "-pthread")
"""Options of a compiler's call that change what a source means."""


@dataclass(frozen=True, slots=True)
class Build:
    """Sources, and what the calls of the compiler say of each."""

    sources: tuple[Path, ...]
    own: Mapping[Path, Options] = field(default_factory=dict)

    @property
    def link(self) -> tuple[str, ...]:
        """What calls that compile and link give the linker."""
        return unique(word for options in self.own.values() for word in options.link)


def expanded(names: Sequence[Path]) -> Build:
    """The sources that files, folders and databases name. UsageError for a folder without sources.

    Beside a database the files are those of it that are meant, with the options of their calls.
    """
    parts = [of(name) for name in names]
    own = {source.resolve(): options for part in parts for source, options in part.own.items()}
    named = [name for name in names if name.resolve() in own]
    sources = named or unique(source for part in parts for source in part.sources)
    return Build(tuple(sources), {one: own[one.resolve()] for one in sources if one.resolve() in own})


def suffixes() -> frozenset[str]:
    """How sources are called that a compiler reads."""
    return frozenset(suffix for one in front_ends().values() if not one.script for suffix in one.suffixes)


def unique(items: Iterable[T]) -> tuple[T, ...]:
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
    own: dict[Path, Options] = {}
    for source, options in calls:
        if source.suffix.lower() in suffixes():
            own.setdefault(source, options)
    return Build(tuple(own), own)


def call(entry: dict[str, Any], path: Path) -> tuple[Path, Options]:
    """One call of the compiler: the source, and what the call says of it."""
    folder = path.parent / entry.get("directory", "")
    source = folder / entry["file"]
    words = list(entry["arguments"]) if "arguments" in entry else shlex.split(entry["command"])
    include: list[Path] = []
    define: list[str] = []
    flags: list[str] = []
    link: list[str] = []
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
        elif word == "-include":
            flags += [word, str(folder / next(waiting, ""))]
        elif word.startswith("-L"):
            link.append(f"-L{folder / (word[2:] or next(waiting, ''))}")
        elif word.startswith("-l"):
            link.append(word if word[2:] else word + next(waiting, ""))
        elif word.startswith(KEPT) and not word.startswith("-fsanitize"):
            flags.append(word)
    return source, Options(tuple(include), tuple(define), tuple(flags), tuple(link))
