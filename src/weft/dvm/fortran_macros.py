"""Fortran sources with macros: the compiler's own preprocessor expands them, and every line keeps its place."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.runtime import find_compiler
from weft.errors import UsageError

SUFFIXES: Final = frozenset((".F", ".FOR", ".FTN", ".FPP", ".F77", ".F90", ".F95", ".F03", ".F08", ".FDV"))
"""Compilers run the preprocessor over files of these names."""
LINE: Final = re.compile(r"[ \t]*#[ \t]*(?:define|undef|if|ifdef|ifndef|elif|else|endif|include)\b")
MARKER: Final = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"')
SECONDS: Final = 60


def needs_preprocessor(path: Path, texts: Sequence[str]) -> bool:
    """Return whether a source needs the preprocessor: it has a suffix such as `.F90`, or contains a line such
    as `#if`.
    """
    return path.suffix in SUFFIXES or any(LINE.match(text) for text in texts)


def expand_macros(
    path: Path, free: bool, include: Sequence[Path], define: Sequence[str]
) -> Iterator[tuple[Path, list[tuple[int, str]]]]:
    """Run the compiler's preprocessor on a Fortran source and yield its output as (file, [(line number, line), …]). A
    new item begins wherever the output goes to another file or line number.

    Raises UsageError with the preprocessor's first error.
    """
    command = [
        *find_compiler("fortran").split(),
        "-E",
        "-cpp",
        "-ffree-form" if free else "-ffixed-form",
        *(f"-I{folder}" for folder in (path.parent, *include)),
        *(f"-D{name}" for name in define),
        str(path),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{path}: the preprocessor cannot be run: {error}") from error
    if done.returncode:
        raise UsageError(format_preprocessor_error(path, done.stderr.decode("utf-8", "replace")))
    file, number = path, 1
    held: list[tuple[int, str]] = []
    for text in done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n"):
        if found := MARKER.match(text):
            if held:
                yield file, held
            number, held = int(found[1]), []
            file = Path(re.sub(r"\\(.)", r"\1", found[2]))
            continue
        if not file.name.startswith("<"):  # what the compiler defines by itself
            held.append((number, text.rstrip("\r")))
        number += 1
    if held:
        yield file, held


def format_preprocessor_error(path: Path, output: str) -> str:
    """Return the preprocessor's first error as `a.F90:3: the preprocessor says: unterminated #if`."""
    place = r"^(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)?:?\s*(?:\n\n(?:.*\n){0,2}?)?"
    found = re.search(rf"{place}(?:Fatal )?Error: (?P<text>.*)$", output, re.M | re.I)
    if found:
        return f"{found['file']}:{found['line']}: the preprocessor says: {found['text']}"
    return f"{path}: the preprocessor says: {(output.strip().splitlines() or ['nothing'])[-1]}"
