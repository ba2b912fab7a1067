"""Parses a Python program's command line: the interpreter, its options, and what it runs."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Literal

from weft.errors import UsageError

Kind = Literal["file", "-m", "-c"]
"""What is run: a script, folder or archive; a module by its name; or code that stands in the command line itself."""
WITH_VALUE = "WX"
"""Python's options that take a value, in the same word or the next one."""
SHEBANG = 512
"""Bytes of a script in which its interpreter is named: pip writes `'''exec' PYTHON` below #!/bin/sh for long paths."""


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A command of Python. `target`: the file, the module's name, or the code to run."""

    interpreter: str
    options: tuple[str, ...]
    kind: Kind
    target: str
    arguments: tuple[str, ...]


def parse_python_command(command: Sequence[str]) -> PythonCommand | None:
    """Return the interpreter, options, program and arguments of a command line; None if it does not run Python.
    UsageError if nothing can be run.
    """
    first = shutil.which(command[0]) if "/" not in command[0] else command[0]
    if re.fullmatch(r"python[\d.]*t?", Path(command[0]).name) and first is not None and Path(first).is_file():
        return _parse_python_options(first, list(command[1:]))
    if command[0].endswith((".py", ".pyz")) or (Path(command[0]) / "__main__.py").is_file():
        return PythonCommand(sys.executable, (), "file", require_existing(command[0]), tuple(command[1:]))
    words = read_shebang(Path(first)) if first is not None and Path(first).is_file() else []
    if not words:
        return None
    interpreter = shutil.which(words[0])
    if interpreter is None:
        raise UsageError(
            f"the first line of {first} names the interpreter {words[0]}, which does not exist: "
            f"correct that line, or name an interpreter before the program"
        )
    return _parse_python_options(interpreter, [*words[1:], str(first), *command[1:]])


def require_existing(path: str) -> str:
    """Return the path of a program. UsageError if nothing is there."""
    if not Path(path).exists():
        raise UsageError(f"{path}: there is no such file")
    return path


def _parse_python_options(interpreter: str, words: list[str]) -> PythonCommand:
    """Return the command for an interpreter and the words that follow it: its options, then what it runs and the
    arguments. UsageError if nothing is to be run.
    """
    options: list[str] = []
    while words and words[0].startswith("-") and len(words[0]) > 1:
        word = words.pop(0)
        if word.startswith("--"):
            options += [word, *words[:1]]
            del words[:1]
            continue
        for at, letter in enumerate(word[1:], 1):
            if letter in "mc" + WITH_VALUE:
                if not word[at + 1 :] and not words:
                    raise UsageError(f"python -{letter} needs a name after it: `weft tasks python -m package.module`")
                value = word[at + 1 :] or words.pop(0)
                if letter not in WITH_VALUE:
                    kind: Kind = "-m" if letter == "m" else "-c"
                    return PythonCommand(interpreter, tuple(options), kind, value, tuple(words))
                options.append(f"-{letter}{value}")
                break
            options.append(f"-{letter}")
    if not words or words[0] == "-":
        raise UsageError(
            "name a program, because standard input is empty: `weft tasks python prog.py` or `python -m MODULE`"
        )
    return PythonCommand(interpreter, tuple(options), "file", require_existing(words[0]), tuple(words[1:]))


def read_shebang(path: Path) -> list[str]:
    """Return the Python interpreter and its options that a script's first lines name, as a list of words. Empty if they
    name another interpreter.
    """
    with path.open("rb") as file:
        lines = file.read(SHEBANG).decode(errors="replace").splitlines()[:2]
    if not lines or not lines[0].startswith("#!"):
        return []
    asked = shlex.split(lines[0][2:])
    if len(lines) > 1 and lines[1].startswith("'''exec'"):
        asked = [word for word in shlex.split(lines[1].removeprefix("'''exec'")) if word not in ("$0", "$@")]
    if asked and Path(asked[0]).name == "env":
        asked = list(dropwhile(lambda word: word == "-S" or "=" in word, asked[1:]))
    return asked if asked and re.match(r"python[\d.]*t?$", Path(asked[0]).name) else []
