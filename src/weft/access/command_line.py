"""Rewrite a compiler's command line so that access hooks are compiled in and linked.

The hooks are those of -fsanitize=thread; its runtime must not be linked, so that a command that compiles and links at
once becomes one command for each source and one for the link.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.errors import UsageError

_WITH_VALUE: Final = frozenset(
    "-o -I -L -l -D -U -x -include -imacros -isystem -iquote -idirafter -iprefix -iwithprefix -isysroot -MF -MT -MQ -J"
    " -T -u -z -e -h -A -B -G -Xlinker -Xassembler -Xpreprocessor -Xclang -mllvm --param -aux-info -dumpbase -dumpdir"
    " -wrapper -specs -target --sysroot -soname -rpath".split()
)
_ENDS_EARLIER: Final = frozenset(("-E", "-M", "-MM", "-fsyntax-only"))
"""Options with which nothing is compiled."""
_OF_LINKS: Final = (
    "-l",
    "-L",
    "-Wl,",
    "-shared",
    "-static",
    "-pie",
    "-no-pie",
    "-rdynamic",
    "-nostdlib",
    "-nodefaultlibs",
    "-nostartfiles",
    "-fuse-ld",
    "-s",
)
_OF_LINKS_WITH_VALUE: Final = frozenset(
    ("-o", "-L", "-l", "-T", "-u", "-z", "-e", "-h", "-Xlinker", "-soname", "-rpath")
)
_SOURCES: Final = frozenset(
    ".c .i .cc .cpp .cxx .c++ .cp .ii .C .CPP .f .for .ftn .F .FOR .FTN .fpp"
    " .f90 .f95 .f03 .f08 .F90 .F95 .F03 .F08".split()
)


@dataclass(frozen=True)
class CommandArgument:
    """An argument with its separate value, if it has one; `source`: it names a file to compile."""

    words: tuple[str, ...]
    source: bool = False


@dataclass(frozen=True)
class CompilerCommand:
    """A compiler's command line: the compiler and its arguments."""

    compiler: str
    arguments: tuple[CommandArgument, ...]

    @property
    def sources(self) -> list[str]:
        """Return the files that the command compiles."""
        return [argument.words[0] for argument in self.arguments if argument.source]

    def has(self, *options: str) -> bool:
        """Return whether one of the options is given."""
        return any(argument.words[0] in options for argument in self.arguments)

    @property
    def output(self) -> str:
        """Return the name of the output file."""
        named = [a.words[-1].removeprefix("-o") for a in self.arguments if a.words[0].startswith("-o") and not a.source]
        return named[-1] if named else "a.out"

    @property
    def is_compile_only(self) -> bool:
        """Return whether the command links nothing."""
        return self.has("-c", "-S")

    @property
    def passes(self) -> bool:
        """Return whether the command can be run unchanged, as it compiles and links nothing."""
        return self.has(*_ENDS_EARLIER) or not (self.sources or self._has_inputs)

    @property
    def _has_inputs(self) -> bool:
        return any(not a.words[0].startswith("-") for a in self.arguments)


def parse_command(command: Sequence[str]) -> CompilerCommand:
    """Return a compiler's command line as a CompilerCommand. Raises UsageError if it has -fsanitize=thread, whose hooks
    Weft needs itself.
    """
    compiler, *rest = command
    words = list(_expand_response_files(rest))
    if any(word.startswith("-fsanitize=") and "thread" in word for word in words):
        raise UsageError(
            "weft cc: -fsanitize=thread cannot be combined with `weft cc`, which uses the same hooks: leave it out"
        )
    arguments: list[CommandArgument] = []
    named_language = False
    at = 0
    while at < len(words):
        word = words[at]
        if word in _WITH_VALUE and at + 1 < len(words):
            arguments.append(CommandArgument((word, words[at + 1])))
            named_language |= word == "-x" and words[at + 1] != "none"
            at += 2
            continue
        plain = not word.startswith("-")
        arguments.append(
            CommandArgument((word,), (plain and (named_language or Path(word).suffix in _SOURCES)) or word == "-")
        )
        at += 1
    return CompilerCommand(compiler, tuple(arguments))


def _expand_response_files(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command in which each response file (@FILE) is replaced by the words in it."""
    found: list[str] = []
    for word in words:
        file = Path(word[1:])
        if word.startswith("@") and file.is_file():
            found += _expand_response_files(shlex.split(file.read_text()))
        else:
            found.append(word)
    return found


def compile_command(line: CompilerCommand, hooks: Sequence[str]) -> list[str]:
    """Return a command that only compiles, with hooks added."""
    return [line.compiler, *_flatten(line.arguments), *hooks, *_no_lto_option(line)]


def compile_commands(command: CompilerCommand, hooks: Sequence[str], folder: Path) -> list[list[str]]:
    """Return one compile command for each source of a command that compiles and links at once. The objects go to
    `folder`; `hooks` are options to add.
    """
    kept = [
        a for a in command.arguments if not a.source and a.words[0].startswith("-") and not _is_link_option(a.words[0])
    ]
    lines = []
    for number, source in enumerate(command.sources):
        made = ["-c", source, "-o", str(_object_path(folder, number, source)), *_dependency_options(command, source)]
        lines.append([command.compiler, *_flatten(kept), *hooks, *_no_lto_option(command), *made])
    return lines


def link_command(command: CompilerCommand, object_folder: Path, more_words: Sequence[str]) -> list[str]:
    """Return the link command for a command that compiles and links at once: the objects in `object_folder` replace the
    sources. `more_words` are added at the end.
    """
    words: list[str] = []
    number = 0
    for argument in command.arguments:
        if argument.source:
            words.append(str(_object_path(object_folder, number, argument.words[0])))
            number += 1
        elif argument.words[0] != "-x" and not argument.words[0].startswith("-M"):
            words += argument.words
    return [command.compiler, *words, *_no_lto_option(command), *more_words]


def make_command_entries(command: CompilerCommand, folder: Path) -> list[dict[str, object]]:
    """Return entries of a compilation database for a compiler command: one for each source, and one for the link if it
    links. `folder`: where the command was given.
    """
    entry: dict[str, object] = {"directory": str(folder), "arguments": [command.compiler, *_flatten(command.arguments)]}
    linked = [] if command.is_compile_only else [entry]
    return [*({**entry, "file": source} for source in command.sources), *linked]


def embed_command_record(command: Sequence[str], hooks: Sequence[str], record_file: Path) -> list[str]:
    """Return a compile command whose assembler also reads `record_file`. The object file then contains the record of
    its own command.

    If that is impossible, the command is returned as it is: clang runs no assembler. -pipe is removed, as an assembler
    that reads a pipe would read only that file.
    """
    if "-S" in command or "-mllvm" in hooks or "," in str(record_file):
        return list(command)
    return [*(word for word in command if word != "-pipe"), f"-Wa,{record_file}"]


def _flatten(arguments: Sequence[CommandArgument]) -> list[str]:
    return [word for argument in arguments for word in argument.words]


def _is_link_option(word: str) -> bool:
    return word in _OF_LINKS_WITH_VALUE or (word.startswith(_OF_LINKS) and not word.startswith("-std"))


def _object_path(folder: Path, number: int, source: str) -> Path:
    return folder / f"{number}-{Path(source).stem or 'stdin'}.o"


def _dependency_options(command: CompilerCommand, source: str) -> list[str]:
    """Return the options that write a source's list of headers (-MD) where gcc would have written it if the command had
    not been split. [] if the command asks for none.
    """
    if not command.has("-MD", "-MMD") or command.has("-MF"):
        return []
    output = Path(command.output)
    return ["-MF", str(output.with_name(f"{output.stem}-{Path(source).stem}.d"))]


def _no_lto_option(line: CompilerCommand) -> list[str]:
    """Return -fno-lto for a command with -flto, so that hooks are inserted when each file is compiled; else []."""
    return ["-fno-lto"] if any(a.words[0].startswith("-flto") for a in line.arguments) else []
