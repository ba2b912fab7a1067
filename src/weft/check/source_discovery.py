"""Find the sources of a program that is named by its folder, a compilation database, or the program file itself."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from weft.base.words import plural
from weft.check.build_links import (
    BuiltLink,
    LinkCall,
    find_programs,
    list_link_words,
    name_programs,
    read_link_calls,
    wrapper_options,
)
from weft.check.front_ends import load_front_ends
from weft.dataparallel.compilation import CompileOptions
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
LEFT_OUT: Final = (
    "-fsanitize", "-flto", "-ffat-lto", "-fno-fat-lto", "-fwhole-program", "-fprofile", "-fcoverage", "-ftest-coverage",
    "-foffload", "-fdiagnostics", "-fopt-info",
)  # fmt: skip
"""Options beginning with `-f` that change what the compiler makes or prints; with hooks some of them cannot be."""
HOOKED: Final = b"__tsan_"
"""Names that an object of `weft cc` asks the linker for."""


@dataclass(frozen=True, slots=True)
class DiscoveredSources:
    """The sources of a program, with the compiler options of each."""

    sources: tuple[Path, ...]
    own: Mapping[Path, CompileOptions] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    """What a named folder holds that was not taken, a phrase each."""
    linked: tuple[str, ...] | None = None
    """What calls that only link give the linker, in their order; None if no such call is known."""

    @property
    def link_options(self) -> tuple[str, ...]:
        """Return the linker options of all compiler calls of the program, each once."""
        compiled = drop_duplicates(word for options in self.own.values() for word in options.link)
        linked = self.linked or ()
        return (*linked, *(word for word in compiled if word not in linked))


@dataclass(frozen=True, slots=True)
class CompileEntry:
    """An entry of a compilation database: the source, the object made of it, and the options."""

    source: Path
    target: Path
    options: CompileOptions


def find_sources(names: Sequence[Path]) -> DiscoveredSources:
    """Return the sources that files, folders and compilation databases name. UsageError for a folder without sources.

    Files that are named beside a database choose the program of its build that holds them. If the database does not say
    how the build links, only these files are taken, with their options from the database.
    """
    files = {name.resolve() for name in names if name.is_file() and name.suffix != ".json"}
    parts = [find_sources_of_name(name, files) for name in names]
    own = {source.resolve(): options for part in parts for source, options in part.own.items()}
    linked = next((part.linked for part in parts if part.linked is not None), None)
    named = [name for name in names if name.resolve() in own] if linked is None else []
    sources = named or drop_duplicates(source for part in parts for source in part.sources)
    if linked is not None:
        sources = drop_duplicates(source.resolve() for source in sources)
    left = () if named else drop_duplicates(phrase for part in parts for phrase in part.left)
    chosen = {one: own[one.resolve()] for one in sources if one.resolve() in own}
    return DiscoveredSources(tuple(sources), chosen, left, linked)


def source_suffixes() -> frozenset[str]:
    """Return the file suffixes of all sources that a compiler reads."""
    return frozenset(suffix for one in load_front_ends().values() if not one.script for suffix in one.suffixes)


def drop_duplicates(items: Iterable[T]) -> tuple[T, ...]:
    """Return the items without repetitions, in the order of their first occurrence."""
    return tuple(dict.fromkeys(items))


def find_sources_of_name(name: Path, beside: Collection[Path] = ()) -> DiscoveredSources:
    """Return the sources that one file, folder or compilation database names. `beside`: the files that the user names
    with it.
    """
    if name.is_dir():
        kept = next((path for path in (name / DATABASE, name / "build" / DATABASE) if path.is_file()), None)
        return read_compilation_database(kept, beside) if kept else find_sources_in_folder(name)
    return read_compilation_database(name, beside) if name.suffix == ".json" else DiscoveredSources((name,))


def find_sources_in_folder(name: Path) -> DiscoveredSources:
    """Return the sources in a folder and its subfolders. The folders of build tools are left out, and are reported as
    unchecked if they hold sources.
    """
    found: list[Path] = []
    skipped: list[Path] = []
    for at, folders, names in os.walk(name):
        made = [one for one in sorted(folders) if is_tool_folder(Path(at, one))]
        skipped += [Path(at, one) for one in made]
        folders[:] = sorted(set(folders) - set(made))
        found += filter_sources(Path(at), names)
    left = [path for path in skipped if any(filter_sources(Path(at), names) for at, _, names in os.walk(path))]
    shown = ", ".join(map(str, left[:MOST_LEFT])) + (f" and {len(left) - MOST_LEFT} more" if left[MOST_LEFT:] else "")
    if not found:
        beside = f" but those of {shown}, which a tool put there," if left else ""
        raise UsageError(f"{name} holds no sources{beside} and no {DATABASE}; name the program's sources")
    phrases = (f"sources in {plural(len(left), 'folder')} of builds and tools ({shown})",) if left else ()
    return DiscoveredSources(tuple(found), left=phrases)


def filter_sources(at: Path, names: Iterable[str]) -> list[Path]:
    """Return the sources among the file names of folder `at`, sorted."""
    return sorted(at / one for one in names if Path(one).suffix.lower() in source_suffixes() and (at / one).is_file())


def is_tool_folder(path: Path) -> bool:
    """Return whether a folder belongs to a tool: it is hidden, a build tree, or a Python environment."""
    named = path.name in TOOLS or path.name.startswith((".", "cmake-build-"))
    return named or any((path / mark).exists() for mark in MARKS)


def read_compilation_database(path: Path, beside: Collection[Path] = ()) -> DiscoveredSources:
    """Return the sources of a compilation database, with the compiler options of each. UsageError if the file is not
    one.

    If CMake or ninja says how the build links, only the sources of one program are returned: the program that holds all
    of `beside`.
    """
    try:
        entries = parse_entries(json.loads(path.read_text(encoding="utf-8")), path.parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a compilation database: {error}") from error
    programs = find_programs(read_link_calls(path.parent), {entry.target for entry in entries})
    if not programs:
        return collect_sources(entries)
    of = {entry.target: entry.source.resolve() for entry in entries}
    wanted = {source for source in of.values() if source in beside}
    fitting = [one for one in programs if wanted <= {of[target] for target in one.objects if target in of}]
    if len(fitting) != 1:
        which = "has all files that you name" if not fitting else "is meant: name the source of its main function, too"
        raise UsageError(
            f"{path}: the build makes {plural(len(programs), 'program')} ({name_programs(fitting or programs)}), "
            f"and Weft cannot tell which one {which}"
        )
    return collect_program(fitting[0], entries)


def collect_program(program: BuiltLink, entries: Sequence[CompileEntry]) -> DiscoveredSources:
    """Return the sources of one program of a build, and the other words of its link command (libraries, folders,
    objects).
    """
    own = [entry for entry in entries if entry.target in program.objects]
    compiled = {entry.target for entry in own} | program.libraries
    linked = list_link_words(program.call, lambda path: path in compiled)
    return dataclasses.replace(collect_sources(own), linked=tuple(linked))


def find_built_program(command: Sequence[str]) -> tuple[int, DiscoveredSources]:
    """Return (index of the first word in a command that is a program built by `weft cc`, the program's sources with
    their compiler options).

    The words before it are the program's launcher. UsageError if no word is such a program.
    """
    paths = [Path(shutil.which(word) or word) for word in command]
    read = (
        (number, read_compiler_calls(path)) for number, path in enumerate(paths) if path.is_file() and is_elf_file(path)
    )
    at, calls = next(((number, calls) for number, calls in read if calls), (0, []))
    if not calls:
        gone = next(
            (word for word, path in zip(command, paths, strict=True) if "/" in word and not path.exists()), None
        )
        missing = f"{gone} does not exist" if gone else f"{command[0]} has no record of its sources"
        raise UsageError(
            f"{missing}: build the program with `weft cc` before the calls of gcc, g++ or gfortran, or name its "
            "sources: weft check prog.c"
        )
    path = paths[at]
    linked = [word for one in calls if "file" not in one for word in list_link_inputs(one)]
    for word, library in list(find_recorded_libraries(linked)):
        linked.remove(word)
        calls += (own := read_compiler_calls(library))
        linked += (word for one in own if "file" not in one for word in list_link_inputs(one))
    build = collect_sources(parse_entries([one for one in calls if "file" in one], path.parent))
    left = [source for source in build.sources if not source.is_file()]
    if left:
        raise UsageError(f"{path} was built from {left[0]}, which does not exist any more: build it again")
    return at, dataclasses.replace(build, linked=tuple(linked))


def find_recorded_libraries(link_words: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield (word, path) for each shared library among a link's words that `weft cc` built: it names its sources."""
    folders = [Path(word[2:]) for word in link_words if word.startswith("-L")]
    for word in dict.fromkeys(link_words):
        named = [folder / f"lib{word[2:]}.so" for folder in folders] if word.startswith("-l") else [Path(word)]
        path = next((one for one in named if ".so" in one.name and one.is_file() and is_elf_file(one)), None)
        if path is not None and read_compiler_calls(path):
            yield word, path


def is_elf_file(path: Path) -> bool:
    """Return whether a file is an ELF file: a program, library or object."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def list_link_inputs(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a recorded link call gives the linker: libraries, their folders, and objects whose sources are not
    recorded.
    """
    folder = Path(entry["directory"])
    call = LinkCall(folder, tuple(entry["arguments"]), folder / "a.out")
    return list_link_words(call, is_recorded_object)


def is_recorded_object(path: Path) -> bool:
    """Return whether an object file names the compiler call by which `weft cc` made it, so that its source is known.
    True also for a file that no longer exists, False for other files than objects.

    Raises UsageError for an object with hooks that keeps no call.
    """
    if path.suffix != ".o" or not path.is_file():
        return not path.is_file()
    if read_compiler_calls(path):
        return True
    if HOOKED in path.read_bytes():
        raise UsageError(
            f"{path} was built with clang or by an older `weft cc`, so it does not name its sources: build it again "
            "with gcc"
        )
    return False


def parse_entries(entries: Iterable[Mapping[str, Any]], base: Path) -> list[CompileEntry]:
    """Return the entries of a compilation database that compile sources, by the suffixes of their files. `base`: the
    folder to which relative folders refer.
    """
    found = []
    for entry in entries:
        folder = base / entry.get("directory", "")
        source = folder / entry["file"]
        words = list(entry["arguments"]) if "arguments" in entry else shlex.split(entry["command"])
        named = entry.get("output") or (words[words.index("-o") + 1] if "-o" in words[:-1] else f"{source.stem}.o")
        if source.suffix.lower() in source_suffixes():
            found.append(CompileEntry(source, (folder / named).resolve(), parse_compiler_options(words, folder)))
    return found


def collect_sources(entries: Iterable[CompileEntry]) -> DiscoveredSources:
    """Return the sources of some entries, each with its compiler options. A source that is compiled several times has
    the options of its first entry.
    """
    own: dict[Path, CompileOptions] = {}
    for entry in entries:
        own.setdefault(entry.source, entry.options)
    return DiscoveredSources(tuple(own), own)


def parse_compiler_options(words: Sequence[str], folder: Path) -> CompileOptions:
    """Return the include folders, macros, flags and linker options of one compiler call, made in `folder`."""
    include: list[Path] = []
    define: list[str] = []
    flags: list[str] = []
    link: list[str] = []
    waiting = iter((*words[1:], *wrapper_options(words[0])))
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
        elif word.startswith(KEPT) and not word.startswith(LEFT_OUT):
            flags.append(word)
    return CompileOptions(tuple(include), tuple(define), tuple(flags), tuple(link))
