"""Every kind of finding is given by an analysis that is there, and every analysis that is there is run."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests_support import ROOT
from weft.findings import Finding
from weft.kinds import CERTAINTIES, CHECK, KINDS, RECORDS, SEVERITIES
from weft.report import AnalysisContext, run_analyses, summary
from weft.report import registry as registry_module
from weft.report.registry import ANALYSES, NONE, Analysis
from weft.trace.builder import Builder

NAMES = [analysis.name for analysis in ANALYSES]


def hung() -> Builder:
    b = Builder(ranks=2, ended="deadlock")
    b.ranks[0].open.recv(1, tag=0)
    b.ranks[1].open.recv(0, tag=0)
    return b


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_given_by_analyses_of_the_registry(kind: str) -> None:
    missing = set(KINDS[kind].analyses) - {CHECK, *NAMES}
    assert not missing, f"{kind} is given by {sorted(missing)}, which weft.report.registry does not have"
    assert KINDS[kind].analyses


@pytest.mark.parametrize("name", NAMES)
def test_an_analysis_gives_a_kind(name: str) -> None:
    assert NAMES.count(name) == 1
    assert any(name in kind.analyses for kind in RECORDS), f"no kind in weft.kinds names the analysis {name!r}"


def test_no_kind_is_stated_twice() -> None:
    assert [kind.slug for kind in RECORDS] == list(KINDS)


@pytest.mark.parametrize("slug", sorted(KINDS))
def test_the_record_of_a_kind_has_all_its_parts(slug: str) -> None:
    kind = KINDS[slug]
    assert kind.severity in SEVERITIES and kind.certainty in CERTAINTIES
    assert kind.page.startswith(f"# {slug}\n")
    for sentence in (kind.title, kind.remedy):
        assert sentence.endswith(".") and "\n" not in sentence, f"docs/findings/{slug}.md: {sentence!r}"
    assert kind.title != kind.remedy


def written() -> set[str]:
    """The modules of the package that hold `def find(trace, ...) -> list[Finding]`."""
    found = set()
    for file in (ROOT / "src" / "weft").rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or node.name != "find" or node.returns is None:
                continue
            if ast.unparse(node.returns) == "list[Finding]":
                found.add(".".join(file.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"))
    return found


def imported() -> Iterator[str]:
    """The modules whose `find` the registry imports, where it is defined."""
    for node in ast.walk(ast.parse(Path(registry_module.__file__).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and [alias.name for alias in node.names] == ["find"]:
            module: Any = __import__(node.module, fromlist=["find"])
            yield module.find.__module__


@pytest.mark.matrix
def test_every_analysis_of_the_package_is_in_the_registry() -> None:
    assert written() == set(imported())
    assert len(list(imported())) == len(ANALYSES)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_an_analysis_takes_what_it_says_that_it_needs(analysis: Analysis) -> None:
    asked = set()

    class Noting(AnalysisContext):
        @functools.cached_property
        def match(self) -> Any:
            asked.add("match")
            return super().match

        @property
        def order(self) -> Any:
            asked.add("order")
            return super().order

    list(analysis.find(Noting(hung().open())))
    assert asked - {"match"} == analysis.needs - {"match"}
    assert ("match" in asked) <= ("match" in analysis.needs)


def test_a_mistyped_entry_is_a_failure_that_is_told() -> None:
    def mistyped(context: AnalysisContext) -> list[Finding]:
        from weft.deadlok import find  # type: ignore[import-not-found]

        return list(find(context.trace))

    trace = hung().open()
    analyses = [Analysis(one.name, NONE, mistyped) if one.name == "deadlock" else one for one in ANALYSES]
    report = run_analyses(trace, analyses)
    assert [(f.analysis, f.error) for f in report.failures] == [
        ("deadlock", "ModuleNotFoundError: No module named 'weft.deadlok'")
    ]
    assert "nothing found" not in summary(trace, report)
    assert "Weft's error, not the program's: the analysis of deadlock failed" in summary(trace, report)
    assert not run_analyses(trace).failures
