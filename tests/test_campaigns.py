"""Campaigns have a row each on their page, and one that passes is written into its own."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "campaigns.md").read_text()
SPEC = importlib.util.spec_from_file_location("passed", ROOT / "tools" / "passed.py")
assert SPEC is not None and SPEC.loader is not None
passed = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(passed)


def campaigns() -> set[str]:
    """The targets whose last line writes that they have passed."""
    recipes = re.findall(r"^([\w-]+):[^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {target for target, recipe in recipes if recipe.endswith("\t$(PASSED)\n")}


def test_each_campaign_has_a_row_and_each_row_a_campaign() -> None:
    assert set(re.findall(r"^\| `make ([\w-]+)` \|", PAGE, re.MULTILINE)) == campaigns()


def test_one_that_passes_is_written_into_its_own_row_only() -> None:
    after = passed.with_passed(PAGE, "test-all", "2030-01-01, 12345678")
    changed = [line for line in after.splitlines() if line not in PAGE.splitlines()]
    assert len(changed) == 1
    assert changed[0].startswith("| `make test-all` |") and changed[0].endswith("| 2030-01-01, 12345678 |")


def test_one_without_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no row for `make nothing`"):
        passed.with_passed(PAGE, "nothing", "today")
