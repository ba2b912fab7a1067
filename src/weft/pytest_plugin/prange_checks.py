"""`pytest --weft-check`: parallel functions of Numba that a test calls are checked."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weft.base.lifetime import temporary_folder

if TYPE_CHECKING:
    from weft.findings import Finding
    from weft.numba.inside import Watch


class FoundError(Exception):
    """A test called a parallel function with a fault."""


class Checks:
    """The checks of one test process."""

    def __init__(self) -> None:
        # Numba is only there where the checks are installed.
        from weft.errors import WeftError
        from weft.numba.inside import begin
        from weft.numba.program import needs_numba
        from weft.numba.runtime import library

        try:
            needs_numba()
            runtime = library()
        except WeftError as error:
            raise pytest.UsageError(f"weft: {error}") from error
        self._folder = temporary_folder("check")
        folder = Path(self._folder.name)
        found = folder / "findings.jsonl"
        found.touch()
        os.environ["WEFT_INTERNAL_CHECK_FINDINGS"] = str(found)
        try:
            self._watch: Watch = begin(folder / "texts.json", runtime)
        except WeftError as error:
            raise pytest.UsageError(f"weft: {error}") from error
        self._seen: set[tuple[Any, ...]] = set()
        self._state: tuple[int, int] = (found.stat().st_size, 0)
        self.found: list[tuple[str, Finding]] = []

    def new(self) -> list[Finding]:
        """What was found since the last time."""
        session = self._watch.session
        session.runtime.flush()
        state = (self._watch.findings.stat().st_size, len(session.mismatches))
        if state == self._state:
            return []
        self._state = state
        return [one for one in self._all() if self._is_new(one)]

    def _all(self) -> Sequence[Finding]:
        # As in __init__.
        from weft.dataparallel.findings import make_findings
        from weft.numba.program import compared, tidied

        self._watch.write()
        texts = self._watch.session.compiler.texts
        told = tidied(self._watch.findings, texts)
        return [*make_findings(told, texts), *compared(Path(self._folder.name))]

    def _is_new(self, finding: Finding) -> bool:
        site = finding.sites[0]
        from weft.evidence import CheckCase  # as in __init__

        variable = finding.evidence.variable if isinstance(finding.evidence, CheckCase) else None
        key = (finding.kind, site.file, site.line, variable)
        known = key in self._seen
        self._seen.add(key)
        return not known

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """A test fails with what its call found, unless it fails by itself."""
        try:
            result = yield
        finally:
            new = self.new()
            self.found += [(item.nodeid, one) for one in new]
        if any(one.severity == "error" for one in new):
            raise FoundError("\n".join(_told(new)))
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """What fixtures and the import of modules found belongs to no test."""
        self.found += [("outside of tests", one) for one in self.new()]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """All findings, with the test that came to each first."""
        # As in __init__.
        from weft.base.words import plural

        functions = len(self._watch.session.checked)
        terminalreporter.section(f"weft check: {plural(len(self.found), 'finding')} in {plural(functions, 'function')}")
        for where, one in self.found:
            for line in _told([one]):
                terminalreporter.line(line)
            terminalreporter.line(f"         {where}")

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, call: pytest.CallInfo[object], report: Any) -> None:
        """A finding is shown as its text alone, not as a traceback through Weft."""
        if call.excinfo is not None and isinstance(call.excinfo.value, FoundError):
            report.longrepr = str(call.excinfo.value)


def _told(findings: Sequence[Finding]) -> list[str]:
    # As in __init__.
    from weft.report.text import line

    return [f"{one.sites[0].file}:{one.sites[0].line}: {line(one)}" for one in findings]
