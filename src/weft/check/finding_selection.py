"""Select the findings of a check that are reported: what weft.report.selection does, with the words of its options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from weft.check import CheckResult
from weft.dataparallel.grouping import group_by_cause
from weft.errors import UsageError
from weft.kinds import KINDS
from weft.report.selection import SelectedFindings, SelectionOptions, verify_fail_on, word_matches_file


def verify_selection(options: SelectionOptions, sources: Sequence[Path]) -> None:
    """Raise UsageError if an option's word names no file, kind or variable: a typing mistake would otherwise hide
    findings.
    """
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sources if path.is_file())
    for word in (*options.only, *options.skip):
        named = any(word_matches_file(word, str(path)) for path in sources)
        if word not in KINDS and not named and not re.search(rf"\b{re.escape(word)}\b", text, re.I):
            raise UsageError(
                f"{word} is neither a kind of finding (`weft explain` lists them) nor a file or procedure of the "
                "program"
            )
    verify_fail_on(options.fail_on)


def apply_selection(checked: CheckResult, selected: SelectedFindings) -> CheckResult:
    """Return the check's result with the selected findings only; the others are counted as hidden. Selected findings
    with the same cause are merged.
    """
    hidden = len(checked.findings) - len(selected.findings)
    return replace(
        checked,
        findings=group_by_cause(selected.findings),
        hidden=hidden,
        problems=(*checked.problems, *selected.unread, *selected.notes),
    )
