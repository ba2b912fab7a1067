"""Read how a build links its programs: the calls that CMake's `link.txt` files and ninja's `build.ninja` hold."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from weft.errors import UsageError

NINJAS: Final = ("ninja", "ninja-build", "samu")
ASK_SECONDS: Final = 60
WRAPPER: Final = re.compile(r"(?:^|/)mpi[\w+.-]*$")
OPENMP: Final = re.compile(r"(?:^-l|(?:^|/)lib)(?:gomp|i?omp5?)(?:\.(?:a|so[\d.]*))?$")
"""The OpenMP runtimes of the compilers: Weft's own takes their place."""
OBJECT: Final = re.compile(r"\.o(?:bj)?$")
LIBRARY: Final = re.compile(r"\.(?:a|so(?:\.[\d.]+)?)$")
ARCHIVER: Final = re.compile(r"(?:^|[/-])ar(?:-[\d.]+)?$")
MOST_ARGUMENT: Final = 3
"""An archiver's first words are its name and its letters; its output follows."""


@dataclass(frozen=True, slots=True)
class LinkCall:
    """A call of a linker or an archiver, made in `folder`."""

    folder: Path
    words: tuple[str, ...]
    output: Path

    @property
    def is_program(self) -> bool:
        """Return whether the call makes a program, and not a library."""
        return "-shared" not in self.words and not LIBRARY.search(self.output.name)

    def files(self, ending: re.Pattern[str]) -> Iterator[Path]:
        """Yield the files among the words of the call whose names match `ending`, except the call's output."""
        for word in self.words[1:]:
            if ending.search(word) and not word.startswith("-") and (path := self.folder / word) != self.output:
                yield path.resolve()


def read_link_calls(folder: Path) -> list[LinkCall]:
    """Return the calls that link or archive in the build tree `folder`; [] if neither CMake nor ninja wrote them."""
    lines = [
        (path.parents[2], line)
        for path in sorted(folder.rglob("CMakeFiles/*.dir/link.txt"))
        for line in path.read_text(errors="replace").splitlines()
    ] or [(folder, line) for line in list_ninja_commands(folder)]
    return [
        call for at, line in lines for part in split_commands(line) if (call := parse_link_call(part, at)) is not None
    ]


def list_ninja_commands(folder: Path) -> list[str]:
    """Return all commands of a build by ninja; [] if there is no `build.ninja`, or no ninja."""
    tool = next((found for name in NINJAS if (found := shutil.which(name))), None)
    if tool is None or not (folder / "build.ninja").is_file():
        return []
    asked = [tool, "-C", str(folder), "-t", "commands"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=ASK_SECONDS, errors="replace")
    return done.stdout.splitlines() if done.returncode == 0 else []


def split_commands(line: str) -> Iterator[list[str]]:
    """Yield the commands, as lists of words, of a line in which `&&` separates them. Nothing if a quote
    is not closed.
    """
    command: list[str] = []
    try:
        words = shlex.split(line)
    except ValueError:
        return
    for word in (*words, "&&"):
        if word == "&&":
            yield command
            command = []
        else:
            command.append(word)


def parse_link_call(command: Sequence[str], folder: Path) -> LinkCall | None:
    """Return a call that links or archives objects; None for any other command."""
    if not any(OBJECT.search(word) for word in command[1:]) or "-c" in command:
        return None
    if ARCHIVER.search(command[0]):
        return LinkCall(folder, tuple(command), folder / command[2]) if len(command) > MOST_ARGUMENT else None
    if "-o" not in command[:-1]:
        return None
    return LinkCall(folder, tuple(command), folder / command[command.index("-o") + 1])


@dataclass(frozen=True, slots=True)
class BuiltLink:
    """A program that a build links: the objects that it consists of, and its call without them."""

    call: LinkCall
    objects: frozenset[Path]
    """Its own, and those of the build's libraries in it."""
    libraries: frozenset[Path]
    """The libraries that the build makes of these objects alone: they are no part of a link of their sources."""


def find_programs(calls: Sequence[LinkCall], compiled: Collection[Path]) -> list[BuiltLink]:
    """Return the programs of a build that are linked from at least one object of `compiled`, each with its objects and
    libraries.
    """
    made = {call.output.resolve(): call for call in calls if not call.is_program}
    found = [collect_parts(call, made, compiled) for call in calls if call.is_program]
    return [one for one in found if one.objects & set(compiled)]


def collect_parts(call: LinkCall, made: dict[Path, LinkCall], compiled: Collection[Path]) -> BuiltLink:
    """Return a program with its objects and libraries. They include the objects of the build's libraries that its link
    names, directly or through other libraries.
    """
    objects: set[Path] = set()
    libraries: set[Path] = set()
    pending: list[LinkCall] = [call]
    while pending:
        one = pending.pop()
        objects.update(own := list(one.files(OBJECT)))
        if one is not call and set(own) <= set(compiled):
            libraries.add(one.output.resolve())
        pending += [made[path] for path in one.files(LIBRARY) if path in made and path not in libraries]
    return BuiltLink(call, frozenset(objects), frozenset(libraries))


def name_programs(programs: Iterable[BuiltLink]) -> str:
    """Return the names of programs for a sentence."""
    return ", ".join(sorted(one.call.output.name for one in programs))


def list_link_words(call: LinkCall, is_compiled: Callable[[Path], bool]) -> Iterator[str]:
    """Yield the libraries, library folders and other objects that a call gives the linker, in their order and with
    absolute paths. Objects that are compiled again (`is_compiled`) are left out. UsageError for a file that the build
    has not made.
    """
    waiting = iter((*call.words[1:], *wrapper_options(call.words[0])))
    for word in waiting:
        if word == "-o":
            next(waiting, None)
        elif word.startswith(("-L", "-l")):
            value = word[2:] or next(waiting, "")
            if not OPENMP.search(f"-l{value}") or word.startswith("-L"):
                yield f"-L{call.folder / value}" if word.startswith("-L") else f"-l{value}"
        elif word.startswith("-Wl,"):
            yield word.replace("$ORIGIN", str(call.output.parent))
        elif not word.startswith("-") and (OBJECT.search(word) or LIBRARY.search(word)) and not OPENMP.search(word):
            path = (call.folder / word).resolve()
            if is_compiled(path):
                continue
            if not path.is_file():
                raise UsageError(f"{call.output.name} is linked with {path}, which does not exist: build it first")
            yield str(path)


@cache
def wrapper_options(compiler: str) -> tuple[str, ...]:
    """Return the options that an MPI compiler wrapper adds to a call, as the wrapper prints them for `-show`. () if the
    compiler is no wrapper.
    """
    if not WRAPPER.search(compiler) or shutil.which(compiler) is None:
        return ()
    done = subprocess.run([compiler, "-show"], capture_output=True, text=True, check=False, timeout=ASK_SECONDS)
    return tuple(shlex.split(done.stdout)[1:]) if done.returncode == 0 else ()
