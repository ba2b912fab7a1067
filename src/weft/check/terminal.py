"""Print the result of `weft check` for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from weft.base.words import plural, short_function
from weft.check import excerpt
from weft.dataparallel import check_coverage
from weft.dataparallel.check_coverage import CheckCoverage
from weft.findings import Finding
from weft.kinds import SEVERITIES
from weft.report.terminal import print_blocks
from weft.report.text import explain_hint, file_line, finding_line, line_style, printable

if TYPE_CHECKING:
    from weft.check import CheckResult

INDENT = " " * 9
MOST_SITES = 8
"""Places of a finding that are shown; JSON, SARIF and the page have all."""


def print_result(checked: CheckResult, to: TextIO, directives: bool = False) -> None:
    """Print the findings, worst first, coloured and wrapped on a terminal; `directives`: list those that ran."""
    print_blocks(render_blocks(checked, directives), to)


def render_blocks(checked: CheckResult, directives: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (line, style) for the lines that a terminal shows of a check's result. `directives`: whether to list the
    directives that ran.
    """
    yield render_headline(checked), "bold"
    for finding in checked.findings:
        yield "", ""
        yield finding_line(finding), line_style(finding)
        for text in render_sites(finding):
            yield INDENT + text, "dim"
    yield "", ""
    for problem in checked.problems:
        yield printable(problem), "bold"
    if checked.findings:
        yield explain_hint(checked.findings), "dim"
    if directives:
        yield from ((text, "dim") for text in list_directives_run(checked.looked))
    for text in checked.looked.unchecked:
        yield f"Not checked: {printable(text)}", "dim"
    yield check_coverage.render_coverage(checked.looked), "dim"
    if taken := render_seconds(checked):
        yield taken, "dim"


def render_headline(checked: CheckResult) -> str:
    """Return the headline: `2 errors in jac.cdv (finished)`."""
    counts = [(s, sum(f.severity == s for f in checked.findings)) for s in SEVERITIES]
    found = ", ".join(plural(n, s) for s, n in counts if n) or render_no_findings(checked)
    return f"{found} in {printable(checked.name)} ({checked.ending})"


def list_directives_run(coverage: CheckCoverage) -> Iterator[str]:
    """Yield a line for each directive that ran, in the order of their first run."""
    for one in coverage.ran:
        if one.construct.kind in check_coverage.NO_DIRECTIVES:
            continue
        iterations = f", {plural(one.iterations, 'iteration')}" if one.iterations else ""
        said = printable(one.construct.text or one.construct.kind)
        yield f"{file_line(one.construct.file, one.construct.line)}  {said}  ({plural(one.times, 'time')}{iterations})"


def render_seconds(checked: CheckResult) -> str:
    """Return how long compiling took and how long the program ran, as text; "" if unknown."""
    seconds = checked.run.get("seconds", {})
    if not seconds.get("preparing"):
        return ""
    return f"Instrumented and compiled in {seconds['preparing']:.1f} s; the program ran {seconds['program']:.1f} s"


def render_no_findings(checked: CheckResult) -> str:
    """Return what to say if there are no findings; it depends on whether the check was complete."""
    if checked.looked.is_empty:
        return "Nothing was checked"
    if checked.hidden and checked.whole:
        return "Nothing else found"
    return "Nothing found" if checked.whole else "Nothing found so far"


def render_sites(finding: Finding) -> Iterator[str]:
    """Yield a line for each place of a finding (the access, the other access, the loop), with its source line."""
    known = [site for site in finding.sites if site.file]
    shown = [(file_line(site.file, site.line), site) for site in known[:MOST_SITES]]
    width = max((len(where) for where, _ in shown), default=0)
    for where, site in shown:
        yield printable(
            f"{where:<{width}}  {site.call}" + (f" in {short_function(site.function)}" if site.function else "")
        )
        yield from (f"    {text}" for text in excerpt.render_excerpt(finding, site))
    if len(known) > MOST_SITES:
        yield f"and {plural(len(known) - MOST_SITES, 'more place')}"
