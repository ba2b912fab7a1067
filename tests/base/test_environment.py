"""Every environment variable of Weft is in the table, and every one of the table is read; the page is that table."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests_support import ROOT
from weft.base import environment

SOURCE = ROOT / "src" / "weft"
NAME = re.compile(r"(?<![A-Z0-9_])WEFT_[A-Z0-9_]+")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*")', re.DOTALL)
OF_TESTS = {"WEFT_PYTHONS", "WEFT_RACE_PROGRAMS", "WEFT_REPLAY_PROGRAMS", "WEFT_SURVIVAL"}
"""Variables by which tests are told what to do: tests/, not Weft, reads them."""
DEVICES = {"WEFT_DEVICE", "WEFT_HOST"}
"""What OpenMP's devices are called while a program is checked."""


@cache
def sources() -> dict[Path, str]:
    """All of Weft's programs with their texts, but for the table itself."""
    found = (path for suffix in ("py", "c", "h", "f90") for path in SOURCE.rglob(f"*.{suffix}"))
    own = Path(environment.__file__)
    return {path: path.read_text(encoding="utf-8") for path in found if path != own and "third_party" not in path.parts}


def of_c() -> set[str]:
    """Names that C's preprocessor or compiler knows, also in C that Python writes."""
    known: set[str] = set()
    for path, text in sources().items():
        if path.suffix in (".c", ".h"):
            known |= set(NAME.findall(COMMENT_OR_TEXT.sub("", text)))
        known |= set(re.findall(r"#define (WEFT_\w+)", text))
    return known


def variables() -> set[str]:
    """Names in Python, and in texts of C and Fortran, that are not names of C."""
    found: set[str] = set()
    for path, text in sources().items():
        parts = [text] if path.suffix == ".py" else [part[1] for part in COMMENT_OR_TEXT.finditer(text) if part[1]]
        found |= {name for part in parts for name in NAME.findall(part) if not name.endswith("_")}
    return found - of_c() - DEVICES


def test_every_variable_stands_in_the_table_and_is_read() -> None:
    known = {one.name for one in environment.USERS} | {environment.PREFIX + name for name in environment.INTERNAL}
    assert variables() == known


def test_variables_of_others_are_read() -> None:
    programs = "".join(text for path, text in sources().items() if path.suffix == ".py")
    assert [one.name for one in environment.OTHERS if f'"{one.name}"' not in programs] == []


def test_the_page_is_the_table() -> None:
    page = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8").splitlines()
    assert page == list(environment.render_environment_page()), "python -m weft.base.environment > docs/environment.md"


def test_the_documentation_names_no_other() -> None:
    known = {one.name for one in environment.USERS}
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if "decisions" in path.parts or path.name == "renamed.md":
            continue
        told = set(re.findall(r"(?<![\w])\$?(WEFT_[A-Z_]+)(?==|`| |$)", path.read_text(encoding="utf-8")))
        told = {name for name in told if not name.startswith(("WEFT_TEST_", environment.PREFIX))}
        assert told <= known | OF_TESTS | {"WEFT_LIST"}, path
