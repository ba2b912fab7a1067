"""The pages of the documentation: each is in the menu of the site, and each link in them leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = (ROOT / "tools" / "site.py").read_text()
MADE = set(re.findall(r'"([\w/]+\.md)"', SITE))
"""Pages that tools/site.py makes while the site is built: no file below docs holds them."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md"), *(ROOT / "tests/evidence").glob("*.md")]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def menu() -> set[str]:
    """What the site's menu names: pages, and folders with a slash at their end."""
    _, _, entries = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    return set(re.findall(r"^ *- (?:[\w ]+: )?([\w/.-]+(?:\.md|/))$", entries, re.M))


def test_each_page_is_in_the_menu_and_the_menu_names_nothing_else() -> None:
    folders = {name for name in menu() if name.endswith("/")}
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | MADE - {"README.md", "CONTRIBUTING.md"}
    there.discard("CHANGELOG.md")
    assert {name for name in there if not any(name.startswith(folder) for folder in folders)} == menu() - folders
    assert all((DOCS / folder).is_dir() for folder in folders)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_page_of_evidence_is_made_of_its_records() -> None:
    assert "evidence.md" in MADE


def test_the_page_of_all_functions_is_made_and_not_kept() -> None:
    assert "coverage.md" in MADE
    assert not (DOCS / "coverage.md").exists(), "docs/coverage.md is made by tools/site.py, and is not kept"


def test_the_changelog_is_short_lines_by_area() -> None:
    """Its lines are merged by union: a branch from before it went by area would bring the old text back."""
    text = (ROOT / "CHANGELOG.md").read_text()
    areas = re.findall(r"^### (.+)$", text, re.M)
    assert areas and len(areas) == len(set(areas))
    assert not {"Added", "Changed", "Fixed"} & set(areas), "each line is below what it is about, such as `weft check`"
    assert [entry for entry in re.split(r"^- ", text, flags=re.M)[1:] if len(entry.split()) > 80] == []
