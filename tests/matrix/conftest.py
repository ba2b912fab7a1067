"""Prints what `make test-matrix` came to as one table."""

from __future__ import annotations

import re

import pytest

_CELL = re.compile(r"test_\w+\[(?P<mpi>\w+)-(?P<column>.+)\]$")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line an MPI, a column a language or situation: calls compared, FAILED, or why there is nothing."""
    table: dict[str, dict[str, str]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            found = _CELL.search(report.nodeid)
            if found is None or "matrix/test_matrix" not in report.nodeid:
                continue
            compared = dict(report.user_properties).get("compared", "")
            text = {"passed": f"{compared} calls", "skipped": "not to be had"}.get(outcome, "FAILED")
            table.setdefault(found["mpi"], {})[found["column"]] = text
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    if len(columns) < 4:
        return
    terminalreporter.section("calls whose record equals the program's own log")
    terminalreporter.write_line(f"{'':16}" + "".join(f"{column:>15}" for column in columns))
    for mpi, row in table.items():
        terminalreporter.write_line(f"{mpi:16}" + "".join(f"{row.get(column, ''):>15}" for column in columns))
