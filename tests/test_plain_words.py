"""Docstrings, comments, messages and pages use none of the idioms that strangers stumbled over (docs/vocabulary.md)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "weft"
IDIOMS = re.compile(
    r"\b(?:is|are|was|were) told\b"
    r"|\bit is said\b|\bthat is said\b"
    r"|\bno such (?:\w+ ){1,3}is there\b"
    r"|\bcount(?:s)? nowhere\b"
    r"|\bheld against\b"
    r"|\bof one (?:that|which|of)\b",
    re.IGNORECASE,
)
"""Each has a plain word: "is reported", "Weft says", "does not exist", "is not counted", "is compared with"."""


def words_of(file: Path) -> Iterator[tuple[int, str]]:
    """The comments and texts of a Python file, docstrings too, each with its line."""
    source = file.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def paragraphs_of(page: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page outside of its blocks of code."""
    is_code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code:
            yield number, re.sub(r"`[^`]*`", "", line)


ROOMS = sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")} - {"__pycache__", "examples"})
TO_COME = frozenset("dap dataparallel tasks".split())
"""What has not been gone through yet. A room that no longer uses one of the idioms has to leave this list."""


def found_in(texts: Iterator[tuple[int, str]]) -> list[str]:
    """The idioms that texts use, each with its line."""
    return [f"line {line}: {idiom[0]}" for line, text in texts for idiom in IDIOMS.finditer(text)]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_uses_plain_words(room: str) -> None:
    files = sorted((PACKAGE / room).rglob("*.py")) if (PACKAGE / room).is_dir() else [PACKAGE / room]
    written = [file for file in files if "headers" not in file.parts or file.name == "__init__.py"]
    odd = {str(file.relative_to(PACKAGE)): found for file in written if (found := found_in(words_of(file)))}
    assert (room in TO_COME) == bool(odd), odd or f"{room} is done: take it off the list TO_COME"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_a_page_uses_plain_words(page: Path) -> None:
    if page.name != "vocabulary.md":  # it names them
        assert not found_in(paragraphs_of(page))


def test_the_idioms_are_seen() -> None:
    assert found_in(iter([(7, "What is told of a run, held against another")])) == [
        "line 7: is told", "line 7: held against"
    ]  # fmt: skip
    assert not found_in(iter([(1, "Return what Weft reports of a run, compared with another.")]))
