"""Select the findings of a report that count: by suppressions, a baseline, and the kinds at which a command fails.

One implementation for `weft run`, `weft report` and `weft check`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from weft.base.words import plural
from weft.errors import UsageError
from weft.findings import Finding
from weft.kinds import KINDS, SEVERITIES
from weft.report.text import file_line
from weft.sources import current_files

COMMENT: Final = re.compile(
    r"(?:/[*/]|!|#|^[Cc]|^\s*\*)\s*weft:\s*ignore\s+(?P<kind>[a-z-]+)\s*:?\s*(?P<reason>.*?)\s*(?:\*/)?\s*$"
)
RULE: Final = re.compile(r"(?P<kind>[a-z-]+|\*)\s+(?P<where>\S+)\s+(?P<reason>\S.*)$")
NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class SuppressionRule:
    """One line of the file of suppressions; `where` is its own file and line."""

    kind: str
    file: str
    place: str
    reason: str
    where: str

    def applies_to(self, finding: Finding) -> bool:
        """Return whether the rule suppresses a finding: kind and file fit, and the line or procedure if the rule names
        one.
        """
        site = finding.sites[0] if finding.sites else None
        if site is None or self.kind not in (finding.kind, "*"):
            return False
        at = not self.place or self.place == str(site.line) or self.place.lower() == site.function.lower()
        return at and word_matches_file(self.file, site.file)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings of an earlier report, by keys that do not change when lines move."""

    path: Path
    known: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """What the user asked for; words of `only` and `skip` are kinds, files (with * and ?) or procedures."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    baseline: Baseline | None = None
    suppress: tuple[SuppressionRule, ...] = ()
    fail_on: tuple[str, ...] = ("error",)


@dataclass(frozen=True, slots=True)
class SelectedFindings:
    """The findings to report, and a note for each group of findings that are left out."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = field(default=())
    """Suppressions that suppress nothing: they give no reason, or mean no finding."""


def verify_fail_on(words: Sequence[str]) -> None:
    """Raise UsageError if a word of `--fail-on` is neither a severity nor a kind of finding."""
    for word in words:
        if word not in KINDS and word not in SEVERITIES and word != NEVER:
            raise UsageError(
                f"--fail-on {word}: unknown value; use error, warning, note, never or a kind of finding (`weft "
                "explain` lists them)"
            )


def counts_as_failure(finding: Finding, choice: SelectionOptions) -> bool:
    """Return whether a finding makes the command fail: `--fail-on` names its kind, its severity or a milder one."""
    if NEVER in choice.fail_on:
        return False
    least = [SEVERITIES.index(word) for word in choice.fail_on if word in SEVERITIES]
    severe = bool(least) and SEVERITIES.index(finding.severity) <= max(least)
    return severe or finding.kind in choice.fail_on


def select_findings(findings: Sequence[Finding], choice: SelectionOptions) -> SelectedFindings:
    """Return the findings to report, with notes on how many were left out and why: by --only or --skip, suppressed, or
    known from the baseline.
    """
    notes: list[str] = []
    unread: list[str] = []
    found = [one for one in findings if is_selected(one, choice)]
    if more := len(findings) - len(found):
        notes.append(f"{plural(more, 'finding')} left out by --only or --skip")
    told = []
    for one in found:
        reason = suppression_reason(one, choice.suppress, unread)
        if reason:
            notes.append(f"suppressed: {one.kind} at {file_line(one.sites[0].file, one.sites[0].line)}: {reason}")
        else:
            told.append(one)
    unread += describe_unused_rules(choice.suppress, findings)
    new = told
    if choice.baseline is not None:
        known = Counter(choice.baseline.known)
        new = [one for one in told if not _strike_known_finding(known, baseline_key(one.to_json()))]
        if more := len(told) - len(new):
            notes.append(f"{plural(more, 'finding')} left out, because {choice.baseline.path} has them already")
    return SelectedFindings(tuple(new), tuple(notes), tuple(dict.fromkeys(unread)))


def describe_unused_rules(rules: Sequence[SuppressionRule], findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a sentence for each suppression rule that applies to no finding: the fault is mended, or the rule is
    mistyped.
    """
    for rule in rules:
        if not any(rule.applies_to(one) for one in findings):
            yield (
                f"{rule.where}: this rule suppresses nothing, because no finding matches it: correct the rule, or "
                "delete it"
            )


def _strike_known_finding(known: Counter[tuple[str, ...]], key: tuple[str, ...]) -> bool:
    """Return whether the earlier report has a finding with this key, and strike it from there, so that it counts
    once.
    """
    if known[key] < 1:
        return False
    known[key] -= 1
    return True


def is_selected(finding: Finding, choice: SelectionOptions) -> bool:
    """Return whether --only and --skip let a finding pass."""
    if choice.only and not any(word_matches_finding(word, finding) for word in choice.only):
        return False
    return not any(word_matches_finding(word, finding) for word in choice.skip)


def word_matches_finding(word: str, finding: Finding) -> bool:
    """Return whether a word of --only or --skip names a finding's kind, or the file or procedure of its first site."""
    if word == finding.kind:
        return True
    site = finding.sites[0] if finding.sites else None
    if site is None:
        return False
    return word_matches_file(word, site.file) or site.function.lower() == word.lower()


def word_matches_file(word: str, file: str) -> bool:
    """Return whether a word, in which * and ? are wildcards, is a file's name, its path, or its path from the current
    folder.
    """
    path = Path(file)
    told = [file, path.name]
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        told.append(str(path.relative_to(Path.cwd())))
    return any(fnmatch(one, word.removeprefix("./")) for one in told)


def suppression_reason(finding: Finding, rules: Sequence[SuppressionRule], unread: list[str]) -> str:
    """Return why a finding is suppressed, as a comment at its line or a rule says; "" if it is not suppressed.

    Comments that give no reason do not count, and are reported in `unread`.
    """
    if not finding.sites:
        return ""
    site = finding.sites[0]
    for number in (site.line, site.line - 1):
        matched = COMMENT.search(current_files.line(site.file, number))
        if matched and matched["kind"] == finding.kind:
            if matched["reason"]:
                return matched["reason"]
            unread.append(
                f"{site.file}:{number}: `weft: ignore {finding.kind}` suppresses nothing, because it gives no reason: "
                "add one after a second colon"
            )
    return next((rule.reason for rule in rules if rule.applies_to(finding)), "")


def read_suppression_rules(path: Path | None) -> tuple[SuppressionRule, ...]:
    """Read a file of rules: `KIND FILE[:LINE|:PROCEDURE] REASON`, one a line; # begins a comment."""
    return tuple(_parse_rules(path)) if path else ()


def _parse_rules(path: Path) -> Iterator[SuppressionRule]:
    """Yield the suppression rules of a file. UsageError for a line that is not a rule."""
    for number, line in enumerate(_read_text(path, "write it first").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        rule = RULE.match(line.strip())
        if rule is None or (rule["kind"] not in KINDS and rule["kind"] != "*"):
            raise UsageError(
                f"{path}:{number}: not a rule; write KIND FILE[:LINE or :PROCEDURE] REASON, such as message-race "
                "pool.c:14 intended"
            )
        file, _, place = rule["where"].partition(":")
        yield SuppressionRule(rule["kind"], file, place, rule["reason"], f"{path}:{number}")


def read_baseline(path: Path | None) -> Baseline | None:
    """Return the findings of an earlier report in JSON; None without a path. UsageError if the file is not such a
    report.
    """
    if path is None:
        return None
    text = _read_text(path, "-o FILE.json writes one")
    try:
        held = json.loads(text)
        known = [baseline_key(one | {"sites": [site]}) for one in held["findings"] for site in finding_places(one)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a report of Weft in JSON (-o FILE.json writes one)") from error
    return Baseline(path, tuple(known))


def _read_text(path: Path, remedy: str) -> str:
    """Return the text of a file. UsageError if it cannot be read. `remedy`: what to do if the file does not exist."""
    if not path.is_file():
        raise UsageError(f"{path} is not a file; {remedy}")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{path} cannot be read: {why}") from error


def finding_places(finding: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the places of a finding in a JSON report: all of a merged finding, else its first site."""
    told: Sequence[dict[str, Any]] = finding["evidence"].get("places") or finding["sites"][:1] or [{}]
    return told


def baseline_key(finding: dict[str, Any]) -> tuple[str, ...]:
    """Return what identifies a finding although lines have moved: kind, case, file, procedure, variable or call, and
    directive. `finding`: as JSON.
    """
    site = (finding["sites"] or [{}])[0]
    held = finding["evidence"]
    parts = (
        finding["kind"],
        held.get("case"),
        Path(site.get("file", "")).name,
        site.get("function"),
        held.get("variable") or site.get("call"),
        held.get("loop", {}).get("text"),
    )
    return tuple(str(part or "") for part in parts)
