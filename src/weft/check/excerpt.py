"""Show the source line of each place of a finding, with the access marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from weft.base.words import visible
from weft.evidence import CheckCase
from weft.findings import Finding, Site
from weft.sources import current_files

MOST: Final = 100
"""Characters of a line that are shown."""
ACCESSES: Final = frozenset(("read", "write"))


def render_excerpt(finding: Finding, site: Site) -> tuple[str, ...]:
    """Return `18 |     b[i] = a[i - 1];` and a line that marks the access; () if the source cannot be read."""
    text = current_files.line(site.file, site.line)
    if not text.strip():
        return ()
    text = text.expandtabs(4)
    indent = len(text) - len(text.lstrip())
    shown = visible(text[indent : indent + MOST])
    number = str(site.line)
    lines = [f"{number} | {shown}"]
    found = find_access_span(finding, site, shown)
    if found is not None:
        lines.append(f"{' ' * len(number)} | {' ' * found[0]}{'^' * (found[1] - found[0])}")
    return tuple(lines)


def find_access_span(finding: Finding, site: Site, line_text: str) -> tuple[int, int] | None:
    """Return (begin, end) of an access in its source line: the finding's variable with its subscripts. None if the line
    does not have the variable.

    A write is looked for left of the assignment, a read right of it.
    """
    name = find_variable_of_site(finding, site)
    if site.call not in ACCESSES or not name:
        return None
    spans = [
        extend_over_subscripts(line_text, one.start(), one.end())
        for one in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", line_text, re.I)
    ]
    if not spans:
        return None
    at = find_assignment(line_text)
    behind = [span for span in spans if at is not None and span[0] > at]
    if site.call == "write":
        return spans[0]
    return (behind or spans)[0] if len(behind) < 2 else choose_read_span(finding, site, behind, line_text)


def find_variable_of_site(finding: Finding, site: Site) -> str:
    """Return the variable that is accessed at a site of a finding, also if the finding has several; "" if it is
    unknown.
    """
    held = finding.evidence
    if not isinstance(held, CheckCase):
        return ""
    sites = ((pair, end) for pair in held.pairs for end in (
        (pair.file, pair.line, pair.write), (pair.other_file, pair.other_line, pair.other_write),
    ))  # fmt: skip
    own = (site.file, site.line, site.call == "write")
    return held.variable or next((pair.variable for pair, end in sites if end == own and pair.variable), "")


def choose_read_span(finding: Finding, site: Site, spans: Sequence[tuple[int, int]], line_text: str) -> tuple[int, int]:
    """Return the (begin, end) of the read in a line that the finding means, of the several `spans`. It is the one whose
    subscripts differ from the loop's index as the finding's element does (`a[i - 1]`); if none does, the first.
    """
    first = finding.sites and finding.sites[0] == site
    held = finding.evidence
    delta = [d for d in held.delta or () if d] if first and isinstance(held, CheckCase) else []
    for span in spans:
        numbers = [int(n.replace(" ", "")) for n in re.findall(r"[-+] ?\d+", line_text[span[0] : span[1]])]
        if delta and numbers == delta:
            return span
    return spans[0]


def extend_over_subscripts(line_text: str, begin: int, end: int) -> tuple[int, int]:
    """Return (begin, end) of a name in a line, extended by the brackets with subscripts that follow the name."""
    while end < len(line_text) and line_text[end] in "([":
        depth, at = 0, end
        while at < len(line_text):
            depth += (line_text[at] in "([") - (line_text[at] in ")]")
            at += 1
            if not depth:
                break
        if depth:
            break
        end = at
    return begin, end


def find_assignment(text: str) -> int | None:
    """Return the index of the first assignment sign in a line; None without one."""
    found = re.search(r"(?<![=<>!/])=(?!=)", text)
    return found.start() if found else None
