"""OpenMP programs of the tests: many cases in a file, each with one error, and their corrected twins.

A case begins with a comment `case NAME KIND` and is a function without arguments of that name, with what it needs
before it. A line that ends in the comment `wrong` is left out of the twin, one that ends in `right` out of the faulty
program; the lines of both stay where they are. `found` marks the lines that a finding names: those of both accesses, or
of both places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.check import CheckRequest, CheckResult, check_program
from weft.findings import Finding

PROGRAMS = Path(__file__).parent / "programs"
FILES = sorted(PROGRAMS.iterdir())
_MARK = re.compile(r"(?:/\*|!) (wrong|right|found)\b")
_CASE = re.compile(r"(?:/\*|!) case (?P<name>\w+) (?P<kind>[\w-]+)")


@dataclass(frozen=True)
class Case:
    """One error: its kind, the lines of its case, and those that a finding must name."""

    name: str
    kind: str
    first: int
    last: int
    lines: frozenset[int]


def variant(text: str, right: bool) -> str:
    """The faulty cases or their twins."""
    leave_out = "wrong" if right else "right"
    return "".join("\n" if leave_out in _MARK.findall(line) else line for line in text.splitlines(keepends=True))


def cases(path: Path) -> list[Case]:
    """The cases of a file."""
    lines = path.read_text().splitlines()
    begins = [(k, found) for k, line in enumerate(lines, 1) if (found := _CASE.search(line))]
    ends = [k - 1 for k, _ in begins[1:]] + [len(lines)]
    return [
        Case(
            found["name"], found["kind"], first, last,
            frozenset(k for k in range(first, last + 1) if "found" in _MARK.findall(lines[k - 1])),
        )
        for (first, found), last in zip(begins, ends, strict=True)
    ]  # fmt: skip


def program(path: Path, right: bool, folder: Path) -> Path:
    """All cases of a file as one program."""
    made = folder / f"{'right' if right else 'faulty'}_{path.name}"
    names = [one.name for one in cases(path)]
    if path.suffix == ".f90":
        end = "program all\n" + "".join(f"  call {name}\n" for name in names) + "end program\n"
    else:
        end = "int main() {\n" + "".join(f"    {name}();\n" for name in names) + "}\n"
    made.write_text(variant(path.read_text(), right) + end)
    return made


def checked(path: Path, right: bool, folder: Path) -> CheckResult:
    """What `weft check` makes of all cases of a file."""
    return check_program(CheckRequest((program(path, right, folder),), timeout=120), folder)


def of_case(found: CheckResult, case: Case) -> list[Finding]:
    """The findings within a case's lines."""
    name = Path(found.name).name
    return [
        one for one in found.findings
        if any(Path(site.file).name == name and case.first <= site.line <= case.last for site in one.sites)
    ]  # fmt: skip


def told(findings: list[Finding]) -> frozenset[int]:
    """The lines that findings name."""
    return frozenset(line for one in findings for line in _lines(one))


def _lines(finding: Finding) -> Iterator[int]:
    for pair in finding.facts().get("pairs", ()):
        yield from (pair["line"], pair["other_line"])
    if "pairs" not in finding.facts():
        yield from (site.line for site in finding.sites)
