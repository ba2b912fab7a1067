"""The page that names a test for each promise names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "evidence" / "check-held.md"


def test_each_test_that_the_page_names_is_there_and_each_promise_has_one() -> None:
    there = {
        name
        for room in ("check", "access")
        for path in (HERE.parent / room).rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    text = PAGE.read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 40
    assert named - there == set()
    rows = [row.split("|") for row in text.splitlines() if row.startswith("| ") and "promise" not in row]
    assert [row[1] for row in rows if "test_" not in row[2] and "the same [" not in row[2]] == []
