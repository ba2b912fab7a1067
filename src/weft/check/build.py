"""The sources of a program that is named by its folder, a compilation database (compile_commands.json), or itself."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.base.words import plural
from weft.check.front_ends import front_ends
from weft.dataparallel.compiled import Options
from weft.errors import UsageError
from weft.sources.compiler_calls import read_compiler_calls

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
OBJECT: Final = re.compile(r"\.(?:o|a|so(?:\.[\d.]+)?)$")
WRAPPER: Final = re.compile(r"(?:^|/)mpi[\w+.-]*$")
ASK_SECONDS: Final = 60
HOOKED: Final = b"__tsan_"
"""Names that an object of `weft cc` asks the linker for."""


@dataclass(frozen=True, slots=True)
class Build:
    """Sources, and what the calls of the compiler say of each."""

    sources: tuple[Path, ...]
    own: Mapping[Path, Options] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    """What a named folder holds that was not taken, a phrase each."""
    linked: tuple[str, ...] = ()
    """What calls that only link give the linker."""

    @property
    def link(self) -> tuple[str, ...]:
        """What all calls give the linker."""
        return unique((*self.linked, *(word for options in self.own.values() for word in options.link)))


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
        found += sources_at(Path(at), names)
    left = [path for path in skipped if any(sources_at(Path(at), names) for at, _, names in os.walk(path))]
    shown = ", ".join(map(str, left[:MOST_LEFT])) + (f" and {len(left) - MOST_LEFT} more" if left[MOST_LEFT:] else "")
    if not found:
        beside = f" but those of {shown}, which a tool put there," if left else ""
        raise UsageError(f"{name} holds no sources{beside} and no {DATABASE}; name the program's sources")
    phrases = (f"{plural(len(left), 'folder')} of builds and tools, with sources ({shown})",) if left else ()
    return Build(tuple(found), left=phrases)


def sources_at(at: Path, names: Iterable[str]) -> list[Path]:
    """The sources among the files of a folder."""
    return sorted(at / one for one in names if Path(one).suffix.lower() in suffixes() and (at / one).is_file())


def by_tool(path: Path) -> bool:
    """Whether a folder is a tool's: hidden, a tree of a build, or an environment of Python."""
    named = path.name in TOOLS or path.name.startswith((".", "cmake-build-"))
    return named or any((path / mark).exists() for mark in MARKS)


def database(path: Path) -> Build:
    """The sources of a compilation database, with the folders, macros and options of their calls."""
    try:
        return called(json.loads(path.read_text(encoding="utf-8")), path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a compilation database: {error}") from error


def built(words: Sequence[str]) -> tuple[int, Build]:
    """Which word of a command is a program that `weft cc` built, and what its calls gave the compiler and the linker.

    What stands before it starts it. UsageError where there is none.
    """
    paths = [Path(shutil.which(word) or word) for word in words]
    read = ((number, read_compiler_calls(path)) for number, path in enumerate(paths) if path.is_file() and is_elf(path))
    at, calls = next(((number, calls) for number, calls in read if calls), (0, []))
    if not calls:
        gone = next((word for word, path in zip(words, paths, strict=True) if "/" in word and not path.exists()), None)
        missing = f"{gone} is not there" if gone else f"{words[0]} does not say what it is made of"
        raise UsageError(
            f"{missing}: build the program with `weft cc` before the calls of gcc, g++ or gfortran, or name its "
            "sources: weft check prog.c"
        )
    path = paths[at]
    build = called([one for one in calls if "file" in one], path.parent)
    left = [source for source in build.sources if not source.is_file()]
    if left:
        raise UsageError(f"{path} was built from {left[0]}, which is not there any more")
    linked = unique(word for one in calls if "file" not in one for word in of_link(one))
    return at, dataclasses.replace(build, linked=linked)


def is_elf(path: Path) -> bool:
    """Whether a file is a program, a library or an object."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def of_link(entry: Mapping[str, Any]) -> Iterator[str]:
    """What a call that linked gives the linker: libraries, their folders, and objects without sources of their own."""
    folder = Path(entry["directory"])
    for word in entry["arguments"][1:]:
        path = folder / word
        if word.startswith("-") or not OBJECT.search(word) or not path.is_file():
            continue
        if path.suffix == ".o" and read_compiler_calls(path):
            continue
        if path.suffix == ".o" and HOOKED in path.read_bytes():
            raise UsageError(
                f"{path} has hooks, but no call: clang or an older `weft cc` made it; make it again, with gcc"
            )
        yield str(path)
    yield from options(entry["arguments"], folder).link


def called(entries: Iterable[Mapping[str, Any]], base: Path) -> Build:
    """What entries of a compilation database say; folders are below `base` where they are not absolute."""
    own: dict[Path, Options] = {}
    for entry in entries:
        folder = base / entry.get("directory", "")
        source = folder / entry["file"]
        words = list(entry["arguments"]) if "arguments" in entry else shlex.split(entry["command"])
        if source.suffix.lower() in suffixes() and source not in own:
            own[source] = options(words, folder)
    return Build(tuple(own), own)


@cache
def implied(compiler: str) -> tuple[str, ...]:
    """What an MPI's wrapper adds to a call: it says so when asked to show it."""
    if not WRAPPER.search(compiler) or shutil.which(compiler) is None:
        return ()
    done = subprocess.run([compiler, "-show"], capture_output=True, text=True, check=False, timeout=ASK_SECONDS)
    return tuple(shlex.split(done.stdout)[1:]) if done.returncode == 0 else ()


def options(words: Sequence[str], folder: Path) -> Options:
    """What a call of the compiler in a folder says of its sources, and gives the linker."""
    include: list[Path] = []
    define: list[str] = []
    flags: list[str] = []
    link: list[str] = []
    waiting = iter((*words[1:], *implied(words[0])))
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
        elif word.startswith("-Wl,"):
            link.append(word)
        elif word.startswith(KEPT) and not word.startswith("-fsanitize"):
            flags.append(word)
    return Options(tuple(include), tuple(define), tuple(flags), tuple(link))
