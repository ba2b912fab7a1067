"""The checks of `pytest --weft-check`: parallel functions of Numba that a test calls."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weft.base.lifetime import temporary_folder

if TYPE_CHECKING:
    from weft.findings import Finding
    from weft.numba.inside import ProcessChecks


class FoundError(Exception):
    """Raised in a test that called a faulty parallel function."""


class PrangeChecks:
    """The checks in one process of a suite: pytest's hooks under `--weft-check`."""

    def __init__(self) -> None:
        # Numba is only there where the checks are installed.
        from weft.errors import WeftError
        from weft.numba.inside import begin_checks
        from weft.numba.program import require_numba
        from weft.numba.runtime import build_numba_library

        try:
            require_numba()
            runtime = build_numba_library()
        except WeftError as error:
            raise pytest.UsageError(f"weft: {error}") from error
        self._folder = temporary_folder("check")
        folder = Path(self._folder.name)
        found = folder / "findings.jsonl"
        found.touch()
        os.environ["WEFT_INTERNAL_CHECK_FINDINGS"] = str(found)
        try:
            self._watch: ProcessChecks = begin_checks(folder / "texts.json", runtime)
        except WeftError as error:
            raise pytest.UsageError(f"weft: {error}") from error
        self._seen: set[tuple[Any, ...]] = set()
        self._state: tuple[int, int] = (found.stat().st_size, 0)
        self.found: list[tuple[str, Finding]] = []

    def take_new_findings(self) -> list[Finding]:
        """Return the findings that were made since the last call."""
        session = self._watch.session
        session.runtime.flush()
        state = (self._watch.findings.stat().st_size, len(session.mismatches))
        if state == self._state:
            return []
        self._state = state
        return [one for one in self._read_findings() if self._register_finding(one)]

    def _read_findings(self) -> Sequence[Finding]:
        """Return all findings that the checks have made so far."""
        # As in __init__.
        from weft.dataparallel.findings import make_findings
        from weft.numba.program import read_comparison_findings, read_merged_output

        self._watch.write_results()
        texts = self._watch.session.compiler.texts
        told = read_merged_output(self._watch.findings, texts)
        return [*make_findings(told, texts), *read_comparison_findings(Path(self._folder.name))]

    def _register_finding(self, finding: Finding) -> bool:
        """Return whether a finding is new, and remember it. Findings of the same kind, line and variable count
        as one.
        """
        site = finding.sites[0]
        from weft.evidence import CheckCase  # as in __init__

        variable = finding.evidence.variable if isinstance(finding.evidence, CheckCase) else None
        key = (finding.kind, site.file, site.line, variable)
        known = key in self._seen
        self._seen.add(key)
        return not known

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let pytest run the test. If its call had findings that are errors, fail it, unless it fails by itself."""
        try:
            result = yield
        finally:
            new = self.take_new_findings()
            self.found += [(item.nodeid, one) for one in new]
        if any(one.severity == "error" for one in new):
            raise FoundError("\n".join(_render_findings(new)))
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Collect the findings that belong to no test, such as those of fixtures and imports."""
        self.found += [("outside of tests", one) for one in self.take_new_findings()]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print all findings, each with the first test that had it."""
        # As in __init__.
        from weft.base.words import plural

        functions = len(self._watch.session.checked)
        terminalreporter.section(f"weft check: {plural(len(self.found), 'finding')} in {plural(functions, 'function')}")
        for where, one in self.found:
            for line in _render_findings([one]):
                terminalreporter.line(line)
            terminalreporter.line(f"         {where}")

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, call: pytest.CallInfo[object], report: Any) -> None:
        """Show a finding as its text, without a traceback through Weft."""
        if call.excinfo is not None and isinstance(call.excinfo.value, FoundError):
            report.longrepr = str(call.excinfo.value)


def _render_findings(findings: Sequence[Finding]) -> list[str]:
    """Return a line with file, line and message for each finding."""
    # As in __init__.
    from weft.report.text import finding_line

    return [f"{one.sites[0].file}:{one.sites[0].line}: {finding_line(one)}" for one in findings]
