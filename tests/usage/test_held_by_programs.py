"""The page that names a program for each sentence names programs that there are, each of them a pair."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from programs import ROOT, programs

PAGE = ROOT / "tests/evidence/right-or-silent.md"
TESTS = ROOT / "tests"
ROOMS = (TESTS / "usage", TESTS / "access")


def rows() -> list[list[str]]:
    """The cells of each sentence."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "| held by" not in line]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def names() -> set[str]:
    """What stands in the second cells."""
    return {name for row in rows() for name in re.findall(r"`([^`]+)`", row[-1])}


def is_part(name: str) -> bool:
    """Whether a program of the rooms has the function, or is of the name."""
    file, _, function = name.partition(":")
    sources = [room / file for room in ROOMS if (room / file).is_file()]
    return any(re.search(rf"^static (?:void|int) {function}\(", s.read_text(), re.M) for s in sources if function) or (
        bool(sources) and not function
    )


def test_each_sentence_names_a_program_or_a_test() -> None:
    assert len(rows()) > 40
    assert [row[0] for row in rows() if "`" not in row[-1]] == []


def test_each_program_that_is_named_is_there_with_its_twin() -> None:
    pairs: dict[str, set[bool]] = {}
    for program in programs():
        pairs.setdefault(f"{program.language}/{program.kind}/{program.name}", set()).add(program.bug)
    of_corpus = {name for name in names() if re.match(r"(c|py|f)/", name)}
    assert len(of_corpus) > 60
    assert [name for name in sorted(of_corpus) if pairs.get(name) != {True, False}] == []


def test_each_part_of_a_program_that_is_named_is_there() -> None:
    parts = {name for name in names() if re.match(r"\w+\.(c|f90)", name)}
    assert len(parts) > 40
    assert [name for name in sorted(parts) if not is_part(name)] == []
    assert not is_part("right.c:no_such_part")
    assert not is_part("none.c")


def test_each_test_that_is_named_is_there() -> None:
    there = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    named = {name for name in names() if name.startswith("test_")}
    assert len(named) > 15
    assert named - there == set()


def test_nothing_else_is_named() -> None:
    assert [name for name in sorted(names()) if not re.match(r"(c|py|f)/|\w+\.(c|f90)|test_", name)] == []
