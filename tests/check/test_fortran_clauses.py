"""Each clause of ten correct Fortran programs is deleted in turn: what that changes is told at the right loop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program
from weft.dvm.fortran_lines import Sentinel, read_source
from weft.dvm.fortran_text import split_top
from weft.dvm.fortran_units import units_of

PROGRAMS = Path(__file__).parent / "fortran" / "right" / "clauses.fdv"
ARGUMENTS = {"sweep": "(6)"}
HARMLESS = {("leap", "private")}
"""Outside of a region DVM finds out by itself that `s`, which is written first and set again behind, is private."""
KINDS = {
    "shadow_renew": {"stale-halo-read", "loop-dependence"},
    "across": {"loop-dependence"},
    "reduction": {"shared-write", "uninitialised-read"},
    "private": {"shared-write"},
    "remote_access": {"remote-access"},
}


@dataclass(frozen=True)
class Deletion:
    """A subroutine without one clause: where it stands in the new program, and the line of its directive there."""

    unit: str
    clause: str
    first: int
    last: int
    directive: int

    @property
    def word(self) -> str:
        return self.clause.partition("(")[0]


def subroutines() -> dict[str, list[str]]:
    """The lines of each subroutine, its directives in one line each."""
    lines = PROGRAMS.read_text().splitlines()
    source = read_source(PROGRAMS)
    for item in source.items:
        if isinstance(item, Sentinel):
            lines[item.first] = "CDVM$ " + item.said
            for at in range(item.first + 1, item.last + 1):
                lines[at] = "C"
    found = {}
    for unit in units_of(source):
        assert unit.header
        found[unit.name] = lines[unit.header.first : unit.items[-1].last + 1]
    return found


def deletions(name: str, lines: list[str], start: int) -> Iterator[tuple[Deletion, list[str]]]:
    """Each variant of a subroutine, to begin at line `start`."""
    for at, line in enumerate(lines):
        if not re.match(r"CDVM\$ PARALLEL", line):
            continue
        head, *clauses = split_top(line[6:].replace(" ", "").lower())
        for drop in range(len(clauses)):
            kept = [head, *clauses[:drop], *clauses[drop + 1 :]]
            variant = [*lines[:at], "CDVM$ " + ", ".join(kept).replace(")on", ") on "), *lines[at + 1 :]]
            yield Deletion(name, clauses[drop], start, start + len(lines) - 1, start + at), variant
            start += len(lines)


def program(folder: Path) -> tuple[Path, list[Deletion]]:
    """One program that calls each variant under a name of its own."""
    body: list[str] = []
    calls: list[str] = []
    made: list[Deletion] = []
    everything = subroutines()
    count = sum(1 for name, lines in everything.items() for _ in deletions(name, lines, 0))
    start = count + 3
    for name, lines in everything.items():
        for deletion, variant in deletions(name, lines, start):
            new = f"V{len(made)}"
            made.append(deletion)
            calls.append(f"      CALL {new}{ARGUMENTS.get(name, '')}")
            variant[0] = re.sub(rf"\b{name}\b", new, variant[0], flags=re.IGNORECASE)
            body += variant
            start += len(variant)
    path = folder / "deleted.fdv"
    path.write_text("\n".join(["      PROGRAM DELETED", *calls, "      END", *body]) + "\n")
    return path, made


@pytest.mark.matrix
def test_the_programs_are_silent_as_they_are(tmp_path: Path) -> None:
    text = PROGRAMS.read_text()
    calls = "".join(f"      CALL {name.upper()}{ARGUMENTS.get(name, '')}\n" for name in subroutines())
    path = tmp_path / "right.fdv"
    path.write_text(f"{text}\n      PROGRAM RIGHT\n{calls}      END\n")
    assert len(subroutines()) >= 10
    assert not check_program(CheckRequest((path,), timeout=30), tmp_path).findings


@pytest.mark.matrix
def test_each_deleted_clause_is_told_at_its_loop(tmp_path: Path) -> None:
    path, made = program(tmp_path)
    assert len(made) >= 20
    assert {deletion.word for deletion in made} == set(KINDS)
    findings = check_program(CheckRequest((path,), timeout=60), tmp_path).findings
    wrong = []
    for deletion in made:
        here = [f for f in findings if deletion.first <= f.sites[0].line <= deletion.last]
        if (deletion.unit, deletion.word) in HARMLESS:
            if here:
                wrong.append(f"{deletion}: {here}")
            continue
        at_loop = [f for f in here if f.facts().get("loop", {}).get("line") == deletion.directive]
        if not any(f.kind in KINDS[deletion.word] for f in at_loop):
            wrong.append(f"{deletion}: {[(f.kind, f.message) for f in here]}")
    if wrong:
        pytest.fail("\n".join(wrong))
