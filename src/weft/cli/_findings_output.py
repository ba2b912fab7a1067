"""Options of `weft run`, `weft report` and `weft check`: where findings go, which count, and at which to fail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from weft.cli import _options
from weft.cli._said import say
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.findings import Finding
    from weft.report.selection import SelectionOptions

FORMATS: Final = ("text", "json", "sarif", "html")
_BY_SUFFIX: Final = {".json": "json", ".sarif": "sarif", ".html": "html", ".htm": "html"}
FOUND_STATUS: Final = 1


def add_output_files(parser: _options.OptionDeclarer) -> None:
    """Declare -o: the files that findings are written to."""
    parser.add_argument(
        "-o", "--output", type=Path, action="append", default=[], metavar="FILE",
        help="write the report to FILE, in the format of its suffix: .json, .sarif, .html, else text; repeatable",
    )  # fmt: skip


def add_format(parser: _options.OptionDeclarer) -> None:
    """Declare --format, of what is printed, or of files whatever their suffix."""
    parser.add_argument(
        "--format", choices=FORMATS, help="format of the report (default: by the suffix of -o's file, else text)"
    )


def add_selection_options(parser: _options.OptionDeclarer, default_severity: str = "error") -> None:
    """Declare the options that choose which findings count. `default_severity`: at which severity the command fails
    without --fail-on."""
    parser.add_argument(
        "--fail-on", action="append", default=[], metavar="WHAT",
        help="exit with 1 if a finding is at least this severe (error, warning, note) or of this kind; never: at none "
        f"(default: {default_severity}); repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE",
        help="show only findings that this earlier report (JSON) does not have",
    )  # fmt: skip
    parser.add_argument(
        "--suppress", type=Path, metavar="FILE",
        help="leave out findings that match a rule in FILE, one a line: KIND FILE[:LINE|:PROCEDURE] REASON",
    )  # fmt: skip


def read_selection(
    args: argparse.Namespace, default_severity: str = "error", only: Sequence[str] = (), skip: Sequence[str] = ()
) -> SelectionOptions:
    """Return the options that choose which findings count. UsageError for a wrong file or word, before anything
    runs."""
    from weft.report.selection import SelectionOptions, read_baseline, read_suppression_rules, verify_fail_on

    verify_fail_on(args.fail_on)
    return SelectionOptions(
        tuple(only), tuple(skip), read_baseline(args.baseline), read_suppression_rules(args.suppress),
        tuple(args.fail_on) or (default_severity,),
    )  # fmt: skip


def apply_selection(findings: Sequence[Finding], choice: SelectionOptions) -> tuple[Finding, ...]:
    """Return the findings that count by the user's options. Print notes on what is left out, and on suppressions that
    fit nothing."""
    if choice.baseline is None and not choice.suppress:
        return tuple(findings)
    from weft.report.selection import select_findings

    selected = select_findings(findings, choice)
    for text in (*selected.unread, *selected.notes):
        say(f"note: {text}")
    return selected.findings


def find_status(findings: Sequence[Finding], choice: SelectionOptions) -> int:
    """Return 1 if a finding counts as a failure, else 0."""
    from weft.report.selection import counts_as_failure

    return FOUND_STATUS if any(counts_as_failure(one, choice) for one in findings) else 0


def requested_formats(args: argparse.Namespace) -> list[tuple[str, Path | None]]:
    """Return (format, file) for each output that the options ask for; the file is None for standard output."""
    form: str | None = getattr(args, "format", None)
    return [(form or _BY_SUFFIX.get(path.suffix.lower(), "text"), path) for path in args.output] or [
        (form or "text", None)
    ]


def is_stdout_machine_read(args: argparse.Namespace) -> bool:
    """Return whether a report in a format for programs goes to standard output."""
    return any(path is None and form != "text" for form, path in requested_formats(args))


def write_each_format(args: argparse.Namespace, write: Callable[[str, TextIO], None]) -> None:
    """Call `write(format, stream)` for each file that the options name, or for standard output. WeftError for a file
    that cannot be written."""
    for form, path in requested_formats(args):
        if path is None:
            write(form, sys.stdout)
            continue
        try:
            with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
                write(form, file)
        except OSError as error:
            raise WeftError(f"{path} cannot be written: {error.strerror}") from error
