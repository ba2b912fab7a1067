"""The report as text, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from weft.base.words import plural, rank_names, rank_set, rank_words, short_function, visible
from weft.base.words import printable as printable  # noqa: PLC0414 - known by this name here
from weft.endings import describe_ends as ends
from weft.evidence import Deadlock, Ended, Race
from weft.findings import Finding, Site
from weft.kinds import SEVERITIES
from weft.report import proof
from weft.report.analysis import Report, run_analyses
from weft.report.causes import is_harmful_race
from weft.report.context import AnalysisContext
from weft.report.failure import describe_failures
from weft.report.gaps import describe_unrecorded_accesses, explain_blindness, is_incomplete, list_gaps
from weft.report.pictures import draw_pictures
from weft.report.quotes import Quotes
from weft.report.rings import describe_scope
from weft.report.terminal import INDENT, PICTURE, Block, print_blocks
from weft.systems import MPI
from weft.trace import Trace
from weft.trace.run import CUT_OFF, ENDED

MAX_SITES: Final = 6
MAX_WAYS: Final = 2
MAX_REPLAYS: Final = 3
MAX_FOLLOWING: Final = 3
SUMMARY_LINES: Final = 20
CALM_LINES: Final = 3
UNSEEN_LINES: Final = 4
DEAR: Final = 0.1
"""The share of all ranks' time from which on a wait stands on the first screen of a run without errors."""
WAITING: Final = frozenset(("late-sender", "late-receiver", "wait-at-collective", "wait-at-epoch", "imbalance"))
"""Kinds that only cost time."""


def finding_line(finding: Finding) -> str:
    """Return `error: message. [kind]`, the line of a finding."""
    sure = {"certain": "", "possible": " (possible, not proven)", "undecided": " (undecided)"}[finding.certainty]
    return f"{finding.severity}: {printable(finding.message)}{sure}. [{finding.kind}]"


def summary(trace: Trace, report: Report | None = None) -> str:
    """Return the text at the end of `weft run`: a line for each finding, worst first, and how many notes on waiting
    times there are; or that nothing was found.
    """
    return "\n".join(text for text, _ in summary_blocks(trace, report or run_analyses(trace)))


def summary_blocks(trace: Trace, report: Report) -> list[Block]:
    """Return the lines of `summary`, each with its style."""
    loud = [f for f in report.findings if f.severity != "note"]
    calm = [f for f in report.findings if f.severity == "note" and f.kind not in WAITING]
    waits = [f for f in report.findings if f.severity == "note" and f.kind in WAITING]
    dearest = waits[:1] if not loud and waits and _share(waits[0]) >= DEAR else []
    notes = len(waits) - len(dearest)
    reported = ranks_with_ending(report.findings)
    ended = ends(trace, reported)
    first = _begins_with_ends(trace, report.findings) or not loud
    lines = failed_lines(trace, report)
    lines += [(f"note: {text}", "") for text in describe_scope(trace)]
    lines += [(text, "") for text in ended] if first else []
    numbers = {id(finding): number for number, finding in enumerate(report.findings, 1)}
    lines += [
        (finding_line(finding) + _explore_command(trace, finding, numbers[id(finding)]), line_style(finding))
        for finding in loud[:SUMMARY_LINES]
    ]
    if len(loud) > SUMMARY_LINES:
        lines.append((f"and {plural(len(loud) - SUMMARY_LINES, 'more finding')}", ""))
    if not loud and not report.failures:
        lines.append((_describe_nothing(trace, is_ended=bool(ended)), ""))
    lines += [(text, "") for text in unseen_lines(trace)]
    lines += [(finding_line(finding), line_style(finding)) for finding in calm[:CALM_LINES]]
    if len(calm) > CALM_LINES:
        lines.append((f"and {plural(len(calm) - CALM_LINES, 'more note')}", ""))
    lines += [(finding_line(finding), line_style(finding)) for finding in dearest]
    if notes:
        said = plural(notes, "more note" if dearest else "note")
        lines.append((f"{said} on waiting times: see them with weft report {trace.path}", ""))
    return lines + ([] if first else [(text, "") for text in ended])


def _explore_command(trace: Trace, finding: Finding, number: int) -> str:
    """Return the sentence with the command that runs a race's other outcomes, if one of them is an error; "" for other
    findings. `number`: the finding's number in the report.
    """
    if not is_harmful_race(finding) or trace.may_lack_its_beginning or trace.system is not MPI:
        return ""
    return printable(f" To run it: weft explore {trace.path} --finding {number}")


def _share(finding: Finding) -> float:
    """The share of all ranks' time that a wait costs."""
    return getattr(finding.evidence, "share", 0.0)


def _describe_nothing(trace: Trace, *, is_ended: bool) -> str:
    """Return the sentence that Weft found nothing, and what it did not check. `is_ended`: the report itself says how
    ranks ended, so the sentence does not."""
    if reason := explain_blindness(trace):
        return f"nothing was checked: {reason}"
    said = f"no misuse of {trace.system.name} found" if is_ended else "nothing found"
    said += " in what was recorded" if is_incomplete(trace) else ""
    unseen_accesses = describe_unrecorded_accesses(trace)
    return f"{said}; {unseen_accesses}" if unseen_accesses else said


def unseen_lines(trace: Trace) -> list[str]:
    """Return lines on what the recorder itself noted that it did not see, as "nothing found" does not cover that."""
    whose: dict[str, list[int]] = {}
    for rank in trace.ranks:
        for note in rank.definitions.notes[:UNSEEN_LINES]:
            whose.setdefault(note, []).append(rank.index)
    return [f"not recorded: {printable(note)} ({rank_words(ranks)})" for note, ranks in whose.items()][:UNSEEN_LINES]


def ranks_with_ending(findings: Iterable[Finding]) -> set[int]:
    """Return the ranks whose end a finding reports, or that are in a deadlock: its finding says where."""
    return {rank for one in findings if isinstance(one.evidence, Ended | Deadlock) for rank in one.ranks}


def _begins_with_ends(trace: Trace, findings: Iterable[Finding]) -> bool:
    """Return whether a report begins with where each rank was: in a run that was ended from outside, unless a finding
    says why it hung."""
    return is_interrupted(trace) and not any(
        isinstance(one.evidence, Deadlock) or one.kind in ("argument-mismatch", "collective-mismatch")
        for one in findings
    )


def is_interrupted(trace: Trace) -> bool:
    """Return whether the run was ended from outside: then the first question is where each rank was."""
    return trace.run.get("ended") in ("interrupted", "killed")


def failed_lines(trace: Trace, report: Report) -> list[Block]:
    """Return the first lines if analyses failed, with their style."""
    return [(text, "failure") for text in describe_failures(trace.path, report.failures)]


def heading(trace: Trace, report: Report) -> str:
    """Return the heading of a report: `2 errors, 1 note in weft-runs/step-2: 2 ranks, MPICH 5.0, ended by a
    deadlock`.
    """
    counts = [(s, sum(f.severity == s for f in report.findings)) for s in SEVERITIES]
    nothing = f"No misuse of {trace.system.name} found" if ends(trace) else "Nothing found"
    nothing += " by the other analyses" if report.failures else ""
    said = ", ".join(plural(n, s) for s, n in counts if n) or nothing
    words = {**ENDED, "interrupted": "interrupted", "running": CUT_OFF}
    ended = words.get(str(trace.run.get("ended")), "")
    facts = [plural(len(trace.ranks), "rank"), f"{trace.event_count:,} calls", *([ended] if ended else [])]
    tasks = f"; {names}" if (names := rank_names(trace.names)) else ""
    where = f"{printable(str(trace.path))} ({', '.join(facts)}{tasks})"
    if reason := explain_blindness(trace):
        return f"Nothing was checked in {where}: {reason}"
    lack = "".join(f"{gap}. " for gap in list_gaps(trace))
    behind = "" if report.findings else "".join(f"; {text}" for text in _describe_unrecorded(trace))
    return f"{lack}{said} in {where}{behind}"


def _describe_unrecorded(trace: Trace) -> list[str]:
    """Say of what kinds of events nothing was recorded, so that "nothing found" does not speak for them."""
    return [*filter(None, [describe_unrecorded_accesses(trace)]), *unseen_lines(trace)]


def file_line(file: str, line: int) -> str:
    """Return `step.py:9`, or `?`."""
    name = Path(file).name if file else "?"
    return f"{name}:{line}" if line else name


def _site_lines(finding: Finding, quotes: Quotes) -> Iterable[Block]:
    """Yield lines with their styles for each place of a finding: file and line, the ranks that were there, the call,
    its statement and callers.
    """
    groups: dict[tuple[str, str, str], list[Site]] = {}
    for site in finding.sites:
        if site.file:
            groups.setdefault((file_line(site.file, site.line), site.function, site.call), []).append(site)
    shown = list(groups.items())[:MAX_SITES]
    width = max((len(printable(where)) for (where, _, _), _ in shown), default=0)
    quoted: set[tuple[str, int]] = set()
    for (where, function, call), sites in shown:
        ranks = [site.rank for site in sites]
        of = f"rank {rank_set(ranks)}" if len(set(ranks)) == 1 else f"ranks {rank_set(ranks)}"
        yield (
            f"{printable(where):<{width}}  {of}, {call}"
            + (f" in {printable(short_function(function))}" if function else ""),
            "dim",
        )
        spot = sites[0].file, sites[0].line
        statement = None if spot in quoted else quotes.statement(*spot)
        quoted.add(spot)
        for text in statement.lines if statement else ():
            yield " " * (width + 2) + "| " + visible(text), "code"
        yield from ((" " * (width + 2) + way, "dim") for way in _caller_lines(sites))
    if len(groups) > MAX_SITES:
        yield f"and {plural(len(groups) - MAX_SITES, 'more place')}", "dim"


def _caller_lines(sites: Sequence[Site]) -> Iterable[str]:
    """Yield a line for each of the first call paths that lead to these sites: `from a.c:7 main < …`."""
    ways = list(dict.fromkeys(site.callers for site in sites if site.callers))
    for way in ways[:MAX_WAYS]:
        yield "from " + " < ".join(
            printable(f"{file_line(file, line)} {short_function(function)}".rstrip()) for file, line, function in way
        )
    if len(ways) > MAX_WAYS:
        yield f"and {plural(len(ways) - MAX_WAYS, 'more way')}"


def replay_commands(trace: Trace, finding: Finding) -> list[str]:
    """Return commands that replay a race with another outcome each; none if the record may lack the beginning of the
    run.
    """
    if trace.may_lack_its_beginning:
        return []
    others = finding.evidence.others if isinstance(finding.evidence, Race) else ()
    return [printable(f"weft replay {trace.path} --force {other.force}") for other in others[:MAX_REPLAYS]]


def advice_lines(finding: Finding) -> Iterable[str]:
    """Yield two lines on a race: which receive it is, and the remedy. Nothing for other findings."""
    if isinstance(finding.evidence, Race):
        receive = finding.evidence.receive
        tag = "any tag" if receive.tag is None else f"tag {receive.tag}"
        yield f"{receive.what} {receive.nth:,} of rank {receive.rank}, on {receive.communicator}, {tag}"
        yield f"remedy: {finding.evidence.remedy}"


def consequence_lines(finding: Finding) -> list[str]:
    """Return lines on what else was found that only follows from a finding."""
    following = finding.consequences
    more = [f"and {len(following) - MAX_FOLLOWING} more"] if len(following) > MAX_FOLLOWING else []
    return [f"it follows: {printable(text)}" for text in following[:MAX_FOLLOWING]] + more


def _report_blocks(trace: Trace, report: Report, drawn: Mapping[int, Sequence[str]]) -> Iterable[Block]:
    """Yield the lines of the report, each with its style. `drawn`: by a finding's index the lines of its picture."""
    quotes = Quotes(trace)
    yield from failed_lines(trace, report)
    yield heading(trace, report), "bold"
    yield from ((text, "") for text in describe_scope(trace))
    errors = any(finding.severity == "error" for finding in report.findings)
    reported = ranks_with_ending(report.findings)
    first = ends(trace, reported) if _begins_with_ends(trace, report.findings) or not errors else []
    yield from ((text, "") for text in first)
    for number, finding in enumerate(report.findings):
        yield "", ""
        yield finding_line(finding), line_style(finding)
        for text, colour in _site_lines(finding, quotes):
            yield " " * INDENT + text, colour
        for text in (*advice_lines(finding), *proof.proof_lines(finding), *consequence_lines(finding)):
            yield " " * INDENT + printable(text), "dim"
        for text in (*replay_commands(trace, finding), _explore_command(trace, finding, number + 1).strip()):
            if text:
                yield " " * INDENT + text, "dim"
        if number in drawn:
            yield "", ""
            yield from ((text, PICTURE) for text in drawn[number])
    if not first and (lines := ends(trace, reported)):
        yield "", ""
        yield from ((text, "") for text in lines)
    yield from _note_blocks(trace, report, quotes)
    if report.findings:
        yield "", ""
        yield explain_hint(report.findings), "dim"


def _note_blocks(trace: Trace, report: Report, quotes: Quotes) -> Iterable[Block]:
    """Yield lines, with their styles, on what could not be read and which source files have changed since the run."""
    note = quotes.source_note(report.findings)
    lines = [(f"record: {printable(problem)}", "dim") for problem in trace.problems]
    lines += [(f"source: {printable(note)}", "dim")] if note else []
    if lines:
        yield "", ""
    yield from lines


def explain_hint(findings: Iterable[Finding]) -> str:
    """Return a sentence with the command that explains the kinds of the findings."""
    kinds = sorted({finding.kind for finding in findings})
    which = kinds[0] if len(kinds) == 1 else f"KIND ({', '.join(kinds)})"
    return f"What it means, with an example and the remedy: weft explain {which}"


def print_report(
    trace: Trace, report: Report, to: TextIO, tables: Sequence[str] = (), context: AnalysisContext | None = None
) -> None:
    """Print the report, and after it the lines of `tables`. At a terminal it is coloured and wrapped. `context`: saves
    computing match and order again.
    """
    print_blocks(_report_blocks(trace, report, draw_pictures(trace, report.findings, to, context=context)), to, tables)


def line_style(finding: Finding) -> str:
    """Return how a finding's line is coloured."""
    return finding.severity
