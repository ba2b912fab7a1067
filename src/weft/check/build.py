"""The sources of a program that is named by its folder or by a compilation database (compile_commands.json)."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.check.compiled import Options
from weft.check.front_ends import front_ends
from weft.errors import UsageError
from weft.terms.words import plural

T = TypeVar("T")
DATABASE: Final = "compile_commands.json"
TOOLS: Final = ("build", "_build", "builddir", "node_modules", "CMakeFiles")
"""Folders that a tool fills: what lies there, or in a hidden one, is none of the program."""
MARKS: Final = ("CMakeCache.txt", "meson-private", "pyvenv.cfg", "conda-meta")
"""What lies in a folder that a tool made: trees of a build, and environments of Python."""
MOST_LEFT: Final = 4
WITH_VALUE: Final = ("-o", "-MF", "-MT", "-MQ", "-x", "-arch")
KEPT: Final = ("-std=", "-f", "-m", "-W", "-U", "-pthread")
"""Options of a compiler's call that change what a source means."""


@dataclass(frozen=True, slots=True)
class Build:
    """Sources, and what the calls of the compiler say of each."""

    sources: tuple[Path, ...]
    own: Mapping[Path, Options] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    """What a named folder holds that was not taken, a phrase each."""

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
    left = () if named else unique(phrase for part in parts for phrase in part.left)
    return Build(tuple(sources), {one: own[one.resolve()] for one in sources if one.resolve() in own}, left)


def suffixes() -> frozenset[str]:
    """How sources are called that a compiler reads."""
    return frozenset(suffix for one in front_ends().values() if not one.script for suffix in one.suffixes)


def unique(items: Iterable[T]) -> tuple[T, ...]:
    """Each once, in the order of its first time."""
    return tuple(dict.fromkeys(items))


def of(name: Path) -> Build:
    """The sources that one name stands for."""
    if name.is_dir():
        kept = next((path for path in (name / DATABASE, name / "build" / DATABASE) if path.is_file()), None)
        return database(kept) if kept else folder(name)
    return database(name) if name.suffix == ".json" else Build((name,))


def folder(name: Path) -> Build:
    """The sources of a folder and of those in it, but for what tools put there: that is told."""
    found: list[Path] = []
    skipped: list[Path] = []
    for at, folders, names in os.walk(name):
        made = [one for one in sorted(folders) if by_tool(Path(at, one))]
        skipped += [Path(at, one) for one in made]
        folders[:] = sorted(set(folders) - set(made))
        found += within(Path(at), names)
    left = [path for path in skipped if any(within(Path(at), names) for at, _, names in os.walk(path))]
    shown = ", ".join(map(str, left[:MOST_LEFT])) + (f" and {len(left) - MOST_LEFT} more" if left[MOST_LEFT:] else "")
    if not found:
        beside = f" but those of {shown}, which a tool put there," if left else ""
        raise UsageError(f"{name} holds no sources{beside} and no {DATABASE}; name the program's sources")
    phrases = (f"{plural(len(left), 'folder')} of builds and tools, with sources ({shown})",) if left else ()
    return Build(tuple(found), left=phrases)


def within(at: Path, names: Iterable[str]) -> list[Path]:
    """The sources among the files of a folder."""
    return sorted(at / one for one in names if Path(one).suffix.lower() in suffixes() and (at / one).is_file())


def by_tool(path: Path) -> bool:
    """Whether a folder is a tool's: hidden, a tree of a build, or an environment of Python."""
    named = path.name in TOOLS or path.name.startswith((".", "cmake-build-"))
    return named or any((path / mark).exists() for mark in MARKS)


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
