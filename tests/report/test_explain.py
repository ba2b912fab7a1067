"""Every kind of finding has a page, and all that names a kind leads to it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests_support import ROOT, execute
from weft.cli.main import main
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.report.sarif import to_sarif
from weft.report.text import explain_hint
from weft.trace.builder import Builder

PAGES = ROOT / "docs" / "findings"


def test_every_kind_has_a_page_and_every_page_a_kind() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == sorted(KINDS)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_explain_prints_the_page_of_a_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", kind]) == 0
    text = capsys.readouterr().out
    page, _, facts = text.rstrip().rpartition("\n\n")
    assert page == (PAGES / f"{kind}.md").read_text().rstrip()
    assert KINDS[kind].severity in facts and all(name in facts for name in KINDS[kind].analyses)
    assert text.startswith(f"# {kind}\n")
    assert "## Remedy" in text or "## What to do" in text


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_rule_of_sarif_carries_the_page_of_its_kind(kind: str) -> None:
    found = Finding(kind, KINDS[kind].severity, "certain", "something", sites=(Site(0, "MPI_Send", "a.c", 3),))
    [rule] = to_sarif(Builder(ranks=1).open(), [found])["runs"][0]["tool"]["driver"]["rules"]
    assert rule["id"] == kind
    assert rule["help"]["markdown"] == (PAGES / f"{kind}.md").read_text()
    assert rule["helpUri"].startswith("https://") and rule["helpUri"].endswith(f"#{kind}")
    assert rule["fullDescription"]["text"].endswith(".") and "\n" not in rule["fullDescription"]["text"]
    assert rule["defaultConfiguration"]["level"] == KINDS[kind].severity


def test_without_a_kind_all_are_listed_worst_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert sorted(row[0] for row in rows) == sorted(KINDS)
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), key=["error", "warning", "note"].index)
    assert {row[0]: row[2] for row in rows}["deadlock"] == KINDS["deadlock"].title


def test_a_kind_out_of_a_reports_line_is_taken_with_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "[deadlock]"]) == 0
    assert capsys.readouterr().out.startswith("# deadlock")


def test_an_unknown_kind_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "dead-lock"]) == 2
    assert "did you mean deadlock?" in capsys.readouterr().err
    assert main(["explain", "../README"]) == 2


def test_a_report_names_the_command_once() -> None:
    def of(*kinds: str) -> str:
        return explain_hint([Finding(kind, KINDS[kind].severity, "certain", "something") for kind in kinds])

    assert of("deadlock", "deadlock").endswith(": weft explain deadlock")
    assert of("truncation", "deadlock").endswith(": weft explain KIND (deadlock, truncation)")


@pytest.mark.matrix
def test_what_is_installed_holds_the_pages(tmp_path: Path) -> None:
    done = execute([sys.executable, "setup.py", "-q", "build_py", "--build-lib", tmp_path], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    installed = {path.name: path.read_text() for path in (tmp_path / "weft" / "explanations").glob("*.md")}
    assert installed == {path.name: path.read_text() for path in PAGES.glob("*.md")}
