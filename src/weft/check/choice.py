"""Which findings of a check are told, and which let it fail: chosen, suppressed with a reason, known before."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from weft.base.words import plural
from weft.check import Checked
from weft.dataparallel.grouped import grouped
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
class Rule:
    """A line of the file of suppressions, as it stands in `where`."""

    kind: str
    file: str
    place: str
    reason: str
    where: str

    def means(self, finding: Finding) -> bool:
        """Whether it is about a finding."""
        site = finding.sites[0] if finding.sites else None
        if site is None or self.kind not in (finding.kind, "*"):
            return False
        at = not self.place or self.place == str(site.line) or self.place.lower() == site.function.lower()
        return at and names(self.file, site.file)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings of an earlier report, by what they keep when lines move."""

    path: Path
    known: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user asked for; words of `only` and `skip` are kinds, files (with * and ?) or procedures."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    baseline: Baseline | None = None
    suppress: tuple[Rule, ...] = ()
    fail_on: tuple[str, ...] = ("error",)


@dataclass(frozen=True, slots=True)
class Told:
    """The findings to be told, and a line for each group of those that are not."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = field(default=())
    """Suppressions that suppress nothing: they give no reason, or mean no finding."""


def verify(choice: Choice, sources: Sequence[Path]) -> None:
    """Raise UsageError for a word that means nothing: it would make an all-clear of a mistake in typing."""
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sources if path.is_file())
    for word in (*choice.only, *choice.skip):
        named = any(names(word, str(path)) for path in sources)
        if word not in KINDS and not named and not re.search(rf"\b{re.escape(word)}\b", text, re.I):
            raise UsageError(f"{word} names no kind of finding, no file and no procedure of the program")
    for word in choice.fail_on:
        if word not in KINDS and word not in SEVERITIES and word != NEVER:
            raise UsageError(f"--fail-on {word}: name error, warning, note, never or a kind of finding")


def fails(finding: Finding, choice: Choice) -> bool:
    """Whether a finding lets the check fail: it is of a kind that was named, or as severe."""
    if NEVER in choice.fail_on:
        return False
    least = [SEVERITIES.index(word) for word in choice.fail_on if word in SEVERITIES]
    severe = bool(least) and SEVERITIES.index(finding.severity) <= max(least)
    return severe or finding.kind in choice.fail_on


def choose(checked: Checked, choice: Choice) -> Told:
    """The findings that are left, and how many are not told, and why."""
    notes: list[str] = []
    unread: list[str] = []
    found = [one for one in checked.findings if chosen(one, choice)]
    if more := len(checked.findings) - len(found):
        notes.append(f"{plural(more, 'finding')} left out by --only or --skip")
    told = []
    for one in found:
        reason = suppressed(one, choice.suppress, unread)
        if reason:
            notes.append(f"suppressed: {one.kind} at {file_line(one.sites[0].file, one.sites[0].line)}: {reason}")
        else:
            told.append(one)
    unread += idle(choice.suppress, checked.findings)
    new = told
    if choice.baseline is not None:
        known = Counter(choice.baseline.known)
        new = [one for one in told if not _take(known, key(one.to_json()))]
        if more := len(told) - len(new):
            notes.append(f"{plural(more, 'finding')} known from {choice.baseline.path}")
    return Told(tuple(new), tuple(notes), tuple(dict.fromkeys(unread)))


def idle(rules: Sequence[Rule], findings: Sequence[Finding]) -> Iterator[str]:
    """Rules that no finding of this run is meant by: mended since, or a mistake in typing."""
    for rule in rules:
        if not any(rule.means(one) for one in findings):
            yield f"{rule.where}: this rule suppresses nothing: the run has no such finding"


def _take(known: Counter[tuple[str, ...]], one: tuple[str, ...]) -> bool:
    if known[one] < 1:
        return False
    known[one] -= 1
    return True


def chosen(finding: Finding, choice: Choice) -> bool:
    """Whether --only and --skip leave a finding in."""
    if choice.only and not any(means(word, finding) for word in choice.only):
        return False
    return not any(means(word, finding) for word in choice.skip)


def means(word: str, finding: Finding) -> bool:
    """Whether a word means a finding: its kind, the file or the procedure of its first site."""
    if word == finding.kind:
        return True
    site = finding.sites[0] if finding.sites else None
    if site is None:
        return False
    return names(word, site.file) or site.function.lower() == word.lower()


def names(word: str, file: str) -> bool:
    """Whether a word (with * and ?) names a file: by its name, by its path as it is told, or from this folder."""
    path = Path(file)
    told = [file, path.name]
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        told.append(str(path.relative_to(Path.cwd())))
    return any(fnmatch(one, word.removeprefix("./")) for one in told)


def suppressed(finding: Finding, rules: Sequence[Rule], unread: list[str]) -> str:
    """The reason that a comment beside the line, or a rule of the file, gives; "" where none does."""
    if not finding.sites:
        return ""
    site = finding.sites[0]
    for number in (site.line, site.line - 1):
        matched = COMMENT.search(current_files.line(site.file, number))
        if matched and matched["kind"] == finding.kind:
            if matched["reason"]:
                return matched["reason"]
            unread.append(
                f"{site.file}:{number}: `weft: ignore {finding.kind}` gives no reason, and suppresses nothing"
            )
    return next((rule.reason for rule in rules if rule.means(finding)), "")


def rules(path: Path | None) -> tuple[Rule, ...]:
    """The rules of a file: `KIND FILE[:LINE|:PROCEDURE] REASON`, a line each; # begins a comment."""
    return tuple(_rules(path)) if path else ()


def _rules(path: Path) -> Iterator[Rule]:
    for number, line in enumerate(_text(path, "write it first").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        rule = RULE.match(line.strip())
        if rule is None or (rule["kind"] not in KINDS and rule["kind"] != "*"):
            raise UsageError(f"{path}:{number}: write KIND FILE[:LINE or :PROCEDURE] and a reason")
        file, _, place = rule["where"].partition(":")
        yield Rule(rule["kind"], file, place, rule["reason"], f"{path}:{number}")


def baseline(path: Path | None) -> Baseline | None:
    """The findings of an earlier report (weft-report/1)."""
    if path is None:
        return None
    text = _text(path, "--format json -o FILE writes one")
    try:
        held = json.loads(text)
        known = [key(one | {"sites": [site]}) for one in held["findings"] for site in places(one)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a report of weft check --format json") from error
    return Baseline(path, tuple(known))


def _text(path: Path, remedy: str) -> str:
    if not path.is_file():
        raise UsageError(f"{path} is not a file; {remedy}")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{path} cannot be read: {why}") from error


def places(finding: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The places of a finding's report: one for each of those that it was told for."""
    told: Sequence[dict[str, Any]] = finding["evidence"].get("places") or finding["sites"][:1] or [{}]
    return told


def key(finding: dict[str, Any]) -> tuple[str, ...]:
    """What a finding keeps when lines move: kind, case, file, procedure, variable, the loop's directive."""
    site = (finding["sites"] or [{}])[0]
    held = finding["evidence"]
    parts = (
        finding["kind"],
        held.get("case"),
        Path(site.get("file", "")).name,
        site.get("function"),
        held.get("variable"),
        held.get("loop", {}).get("text"),
    )
    return tuple(str(part or "") for part in parts)


def applied(checked: Checked, told: Told) -> Checked:
    """The check with the findings that are told, those of one cause as one."""
    hidden = len(checked.findings) - len(told.findings)
    return replace(
        checked, findings=grouped(told.findings), hidden=hidden, problems=(*checked.problems, *told.unread, *told.notes)
    )
