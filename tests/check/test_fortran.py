"""Fortran-DVM(H) programs with one error each are told at their line, loop, iteration and element; twins are silent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weft.check import mark_sources
from weft.dataparallel.findings import read_findings
from weft.dataparallel.program import build_program, run_program
from weft.dataparallel.source_map import SourceMap
from weft.findings import Finding

PROGRAMS = Path(__file__).parent / "fortran"
PLAIN = sorted(path.stem for path in PROGRAMS.glob("*.fdv") if path.stem != "out_of_bounds")
FIND = re.compile(r"!find (\S+) (-|\([-\d,]+\)) (\S+)$")


@dataclass(frozen=True)
class Fault:
    """What a program's comment promises of the line behind it."""

    line: int
    loop: int
    kind: str
    iteration: list[int] | None
    variable: str
    index: list[int] | None


def faults(name: str) -> list[Fault]:
    """The faults that a program has, with the line of the PARALLEL directive before each."""
    found, loop = [], 0
    for number, line in enumerate((PROGRAMS / f"{name}.fdv").read_text().splitlines(), 1):
        if re.match(r"[cC!]DVM\$ *parallel", line, re.IGNORECASE):
            loop = number
        if matched := FIND.match(line):
            kind, iteration, element = matched.groups()
            variable, _, rest = element.partition("(")
            found.append(
                Fault(
                    number + 1,
                    loop,
                    kind,
                    numbers(iteration),
                    "" if variable == "-" else variable,
                    numbers(rest) if rest else None,
                )
            )
    return found


def numbers(text: str) -> list[int] | None:
    return None if text == "-" else [int(part) for part in re.findall(r"-?\d+", text)]


def variant(name: str, good: bool, folder: Path) -> Path:
    """The program as it is, or its corrected twin; lines stay where they are."""
    lines = (PROGRAMS / f"{name}.fdv").read_text().splitlines()
    if good:
        lines = [corrected(line) for line in lines]
    path = folder / f"{Path(name).name}.fdv"
    path.write_text("\n".join(lines) + "\n")
    return path


def corrected(line: str) -> str:
    if re.search(r"!bad\s*$", line):
        return "!"
    if line.startswith("!good"):
        rest = line[5:]
        return rest if rest[:1] in ("C", "!", "*") else " " * 5 + rest
    return line


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Findings of a program with these arguments; each program is built once, and run once for its arguments."""

    @cache
    def built(name: str, good: bool) -> tuple[Path, Path, SourceMap]:
        folder = tmp_path_factory.mktemp(Path(name).name)
        path = variant(name, good, folder)
        marked, texts = mark_sources((path,))
        objects = folder / "built"
        objects.mkdir()
        return path, build_program(marked, objects), texts

    @cache
    def run(name: str, good: bool, arguments: tuple[str, ...] = (), grid: str = "") -> tuple[Path, tuple[Finding, ...]]:
        path, program, texts = built(name, good)
        found = path.parent / "-".join(("found", grid, *arguments))
        run_program(program, arguments, found, grid, timeout=30)
        return path, tuple(read_findings(found, texts))

    return run


def tells(finding: Finding, fault: Fault, path: Path) -> bool:
    """Whether a finding is this fault."""
    held = finding.facts()
    index = [held["value"]] if finding.kind == "out-of-bounds" else held.get("index")
    return (
        finding.kind == fault.kind
        and (finding.sites[0].file, finding.sites[0].line) == (str(path), fault.line)
        and held.get("iteration") == fault.iteration
        and (not fault.variable or held["variable"] == fault.variable)
        and (fault.index is None or index == fault.index)
        and (fault.iteration is None or held["loop"]["line"] == fault.loop)
    )


def shown(findings: tuple[Finding, ...]) -> str:
    return "\n".join(f"{f.sites[0].line}: {f.message} [{f.kind}] {f.facts()}" for f in findings)


@pytest.mark.cases(9)
@pytest.mark.parametrize("name", PLAIN)
def test_each_error_is_told_at_its_line_loop_iteration_and_element(name: str, results: Any) -> None:
    path, findings = results(name, False)
    expected = faults(name)
    assert len(expected) >= 6
    for fault in expected:
        assert any(tells(f, fault, path) for f in findings), f"{fault}\n{shown(findings)}"
    assert {f.sites[0].line for f in findings} == {fault.line for fault in expected}, shown(findings)


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", PLAIN)
def test_corrected_twins_are_silent(name: str, results: Any) -> None:
    _, findings = results(name, True)
    assert not findings, shown(findings)


@pytest.mark.parametrize("case", range(1, 7))
def test_an_index_outside_of_its_bounds_is_told_before_the_program_ends(case: int, results: Any) -> None:
    path, findings = results("out_of_bounds", False, (str(case),))
    fault = faults("out_of_bounds")[case - 1]
    assert len(findings) == 1, shown(findings)
    assert tells(findings[0], fault, path), shown(findings)


@pytest.mark.parametrize("case", range(1, 7))
def test_a_twin_within_its_bounds_is_silent(case: int, results: Any) -> None:
    _, findings = results("out_of_bounds", True, (str(case),))
    assert not findings, shown(findings)


@pytest.mark.cases(1)
@pytest.mark.parametrize("grid", ["", "1", "2x2"])
def test_correct_uses_of_the_language_are_silent_on_any_grid(grid: str, results: Any) -> None:
    _, findings = results("right/features", False, (), grid)
    assert not findings, shown(findings)
