"""The report as text, for a person at a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TextIO

from weft.findings import SEVERITIES, Finding, Site
from weft.report.analysis import Failure, Report, examine
from weft.report.ends import ends
from weft.terms.words import plural, rank_set
from weft.terms.words import printable as printable  # noqa: PLC0414 - known by this name here
from weft.trace import Trace

MAX_SITES: Final = 6
MAX_WAYS: Final = 2
_PARTS: Final = re.compile(
    r"<(?:module|locals|lambda|genexpr|\w+comp)>|operator\s*(?:\(\)|[<>=!+\-*/&|^~\[\]]+)|[^<>()]|[<>()]"
)
MAX_REPLAYS: Final = 3
SUMMARY_LINES: Final = 20
CALM_LINES: Final = 3
WAITING: Final = frozenset(("late-sender", "late-receiver", "wait-at-collective", "wait-at-epoch", "imbalance"))
"""Kinds that only cost time."""

_INDENT: Final = 9
_COLOURS: Final = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def line(finding: Finding) -> str:
    """`error: message. [kind]`, the line of a finding."""
    sure = {"certain": "", "possible": " (possible)", "undecided": " (undecided)"}[finding.certainty]
    return f"{finding.severity}: {printable(finding.message)}{sure}. [{finding.kind}]"


def summary(trace: Trace, report: Report | None = None) -> str:
    """What ends a `weft run`: a line a finding, worst first; notes on time are counted, others said: no problems."""
    report = report or examine(trace)
    loud = [f for f in report.findings if f.severity != "note"]
    calm = [f for f in report.findings if f.severity == "note" and f.kind not in WAITING]
    notes = len(report.findings) - len(loud) - len(calm)
    lines = [line(finding) for finding in loud[:SUMMARY_LINES]]
    if len(loud) > SUMMARY_LINES:
        lines.append(f"and {plural(len(loud) - SUMMARY_LINES, 'more finding')}")
    lines += [failure_line(failure) for failure in report.failures]
    if not loud and not report.failures:
        lines.append("no misuse of MPI found" if ends(trace) else "nothing found")
    lines += [line(finding) for finding in calm[:CALM_LINES]]
    if len(calm) > CALM_LINES:
        lines.append(f"and {plural(len(calm) - CALM_LINES, 'more note')}")
    if notes:
        lines.append(f"{plural(notes, 'note')} on waiting times: weft report {trace.path}")
    lines += ends(trace)
    return "\n".join(lines)


def failure_line(failure: Failure) -> str:
    """The line of an analysis that failed."""
    text = f"Weft's analysis of {failure.analysis} failed: {failure.error}. What it looks for is not in here"
    return printable(text)


def heading(trace: Trace, findings: Sequence[Finding]) -> str:
    """`2 errors, 1 note in weft-runs/step-2: 2 ranks, MPICH 5.0, ended by a deadlock`."""
    counts = [(s, sum(f.severity == s for f in findings)) for s in SEVERITIES]
    nothing = "No misuse of MPI found" if ends(trace) else "Nothing found"
    said = ", ".join(plural(n, s) for s, n in counts if n) or nothing
    ended = {
        "finished": "finished", "crashed": "crashed", "deadlock": "stopped in a deadlock", "killed": "killed",
        "running": "still running or cut off",
    }.get(str(trace.run.get("ended")), "")  # fmt: skip
    facts = [plural(len(trace.ranks), "rank"), f"{trace.event_count:,} calls", *([ended] if ended else [])]
    return f"{said} in {printable(str(trace.path))} ({', '.join(facts)})"


def place(file: str, line: int) -> str:
    """`step.py:9`, or `?`."""
    name = Path(file).name if file else "?"
    return f"{name}:{line}" if line else name


def _site_lines(finding: Finding) -> list[str]:
    """A line for each code site, with the ranks that stood there."""
    groups: dict[tuple[str, str, str], list[Site]] = {}
    for site in finding.sites:
        if site.file:
            groups.setdefault((place(site.file, site.line), site.function, site.call), []).append(site)
    shown = list(groups.items())[:MAX_SITES]
    width = max((len(printable(where)) for (where, _, _), _ in shown), default=0)
    lines = []
    for (where, function, call), sites in shown:
        ranks = [site.rank for site in sites]
        of = f"rank {rank_set(ranks)}" if len(set(ranks)) == 1 else f"ranks {rank_set(ranks)}"
        lines.append(
            f"{printable(where):<{width}}  {of}, {call}" + (f" in {printable(short(function))}" if function else "")
        )
        lines += [" " * (width + 2) + way for way in _ways(sites)]
    return lines + ([f"and {plural(len(groups) - MAX_SITES, 'more place')}"] if len(groups) > MAX_SITES else [])


def short(function: str) -> str:
    """A C++ function without its template's arguments, parameters and result."""
    kept, depth = [], 0
    for part in _PARTS.findall(function):
        depth -= part in ">)"
        if depth == 0 and part not in "<>()":
            kept.append(part)
        depth += part in "<("
    return "".join(kept).removesuffix(" const").split(" ")[-1] or function


def _ways(sites: Sequence[Site]) -> Iterable[str]:
    """Who called the functions in which these sites stand: a line for each of a few ways."""
    ways = list(dict.fromkeys(site.callers for site in sites if site.callers))
    for way in ways[:MAX_WAYS]:
        yield "from " + " < ".join(
            printable(f"{place(file, line)} {short(function)}".rstrip()) for file, line, function in way
        )
    if len(ways) > MAX_WAYS:
        yield f"and {plural(len(ways) - MAX_WAYS, 'more way')}"


def replays(trace: Trace, finding: Finding) -> list[str]:
    """The commands that bring about the other outcomes of a race."""
    forced = [str(other["force"]) for other in finding.evidence.get("others", ())]
    return [printable(f"weft replay {trace.path} --force {one}") for one in forced[:MAX_REPLAYS]]


def _blocks(trace: Trace, report: Report) -> Iterable[tuple[str, str]]:
    """Lines of the report with their styles."""
    yield heading(trace, report.findings), "bold"
    for finding in report.findings:
        yield "", ""
        yield line(finding), style(finding)
        for text in _site_lines(finding):
            yield " " * _INDENT + text, "dim"
        for text in replays(trace, finding):
            yield " " * _INDENT + text, "dim"
    if lines := ends(trace):
        yield "", ""
        yield from ((text, "") for text in lines)
    if report.failures or trace.problems:
        yield "", ""
    for failure in report.failures:
        yield failure_line(failure), "bold red"
    for problem in trace.problems:
        yield f"record: {printable(problem)}", "dim"
    kinds = sorted({f.kind for f in report.findings})
    if kinds:
        yield "", ""
        pages = ", ".join(f"docs/findings/{kind}.md" for kind in kinds)
        yield f"What each kind means, with an example and the remedy: {pages}", "dim"


def write(trace: Trace, report: Report, to: TextIO, tables: Sequence[str] = ()) -> None:
    """Print the report, coloured and wrapped on a terminal, plain elsewhere, and the lines of `tables` behind it."""
    print_blocks(_blocks(trace, report), to, tables)


def style(finding: Finding) -> str:
    """How a finding's line is coloured."""
    return _COLOURS[finding.severity]


def print_blocks(blocks: Iterable[tuple[str, str]], to: TextIO, tables: Sequence[str] = ()) -> None:
    """Print lines with their styles, coloured and wrapped on a terminal, plain elsewhere."""
    if not to.isatty():
        for text, _ in blocks:
            print(text, file=to)
        print(*tables, sep="\n", end="\n" if tables else "", file=to)
        return
    from rich.console import Console
    from rich.text import Text

    width = max(40, min(shutil.get_terminal_size().columns, 120))
    console = Console(file=to, highlight=False, width=width)
    for text, colour in blocks:
        indent = " " * _INDENT
        wrapped = textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False) if text else ""
        console.print(Text(wrapped, style=colour))
    for text in tables:
        console.print(Text(text), no_wrap=True, crop=False, overflow="ignore")
