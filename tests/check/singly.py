"""Each faulty function of the tests' DVM programs alone: all others corrected, so that a program has one error.

PYTHONPATH=tests python -m check.singly [NAME]...

Prints for each program how many such programs it makes and what each of them was told; a finding that is not the
function's own, or none at all, is wrong. The exit code is the number of wrong ones.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from check import c_programs, oracle, test_fortran
from weft.check import CheckRequest, check_program

Choose = Callable[[str, bool], str]
"""A line of the faulty program or of its twin."""


@dataclass(frozen=True)
class Single:
    """A program with the error of one function."""

    name: str
    function: str
    lines: list[str]
    suffix: str


def singles(path: Path, begins: re.Pattern[str], ends: re.Pattern[str], choose: Choose) -> Iterator[Single]:
    """The programs that a file of the tests makes."""
    lines = path.read_text().splitlines()
    for name, function in oracle.procedures(lines, begins, ends):
        if any(choose(lines[number], True) != choose(lines[number], False) for number in function):
            text = [choose(line, number not in function) for number, line in enumerate(lines)]
            yield Single(path.stem, name, text, path.suffix)


def of_c(line: str, right: bool) -> str:
    return c_programs.variant(line, right).rstrip("\n")


def of_fortran(line: str, right: bool) -> str:
    return test_fortran.corrected(line) if right else line


def every(names: list[str]) -> Iterator[tuple[Single, set[int]]]:
    """All of them, and the lines where their files promise a finding."""
    folders = (c_programs.PROGRAMS, c_programs.PROGRAMS.with_name("old"))
    for path in sorted(path for folder in folders for path in folder.glob("*.cdv")):
        if not names or path.stem in names:
            promised = {fault.line for fault in c_programs.faults(path.stem, path.parent)}
            for single in singles(path, oracle.C_UNIT, oracle.C_END, of_c):
                yield single, promised
    for name in test_fortran.PLAIN:
        if not names or name in names:
            promised = {fault.line for fault in test_fortran.faults(name)}
            path = test_fortran.PROGRAMS / f"{name}.fdv"
            for single in singles(path, oracle.FORTRAN_UNIT, oracle.FORTRAN_END, of_fortran):
                yield single, promised


def told(single: Single, folder: Path) -> list[tuple[int, str, str]]:
    """What is found in a program: line, kind, message."""
    path = folder / f"{single.name}{single.suffix}"
    path.write_text("\n".join(single.lines) + "\n")
    built = folder / "built"
    built.mkdir()
    findings: Any = check_program(CheckRequest((path,), timeout=60), built).findings
    return [(finding.sites[0].line, finding.kind, finding.message) for finding in findings]


def main(names: list[str]) -> int:
    """Print what came of each."""
    wrong = 0
    seen: dict[str, tuple[set[int], set[int], int]] = {}
    for single, promised in every(names):
        with tempfile.TemporaryDirectory() as folder:
            found = told(single, Path(folder))
        at = {line for line, _, _ in found}
        key = single.name + single.suffix
        told_of, _, programs = seen.get(key, (set(), promised, 0))
        bad = not at or not at <= promised or bool(at & told_of)
        wrong += bad
        seen[key] = told_of | at, promised, programs + 1
        print(f"{key} {single.function}:", "WRONG" if bad else "right", *(f"{n} {k}" for n, k, _ in found), flush=True)
    for key, (told_of, promised, programs) in seen.items():
        missing = promised - told_of
        wrong += len(missing)
        print(f"{key}: {programs} programs, {len(told_of)} of {len(promised)} lines told", *sorted(missing))
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
