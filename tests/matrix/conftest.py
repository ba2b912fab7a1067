"""Prints what `make test-matrix` came to as one table."""

from __future__ import annotations

import re

import pytest

from matrix.cells import LANGUAGES, MPIS, SITUATIONS

_CELL = re.compile(r"test_\w+\[(?P<mpi>\w+)-(?P<column>.+)\]$")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line a language or situation, a column an MPI: calls compared, FAILED, or the number of a reason below."""
    cells: dict[tuple[str, str], str] = {}
    reasons: list[str] = []
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            found = _CELL.search(report.nodeid)
            if found is None or "matrix/test_matrix" not in report.nodeid:
                continue
            text = f"{dict(report.user_properties).get('compared')} calls" if outcome == "passed" else "FAILED"
            if outcome == "skipped":
                reason = report.longrepr[2].removeprefix("Skipped: ")
                reasons += [] if reason in reasons else [reason]
                text = f"none ({reasons.index(reason) + 1})"
            cells[found["column"], found["mpi"]] = text
    if len(cells) < 12:
        return
    terminalreporter.section("calls whose record equals the program's own log")
    terminalreporter.write_line(f"{'':10}" + "".join(f"{mpi:>16}" for mpi in MPIS))
    for column in (*LANGUAGES, *SITUATIONS):
        terminalreporter.write_line(f"{column:10}" + "".join(f"{cells.get((column, mpi), ''):>16}" for mpi in MPIS))
    for number, reason in enumerate(reasons, 1):
        terminalreporter.write_line(f"({number}) {reason}")
