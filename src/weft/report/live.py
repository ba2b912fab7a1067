"""What is already told of a run that still goes on: findings that are proven, and calls that do not return.

`python -m weft.report.live RUN [--findings] [--call-limit SECONDS]` looks again and again until the process that
started it is gone, and prints each new thing as a line of JSON: [text, style]. It takes 5 % of one core at most, and
only what no program wants.

Findings that are told are of kinds whose proof is complete when it is seen: what comes later can neither add to it nor
take it back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from weft.findings import Finding
from weft.report.analysis import examine
from weft.report.limit import Limit
from weft.report.registry import ANALYSES
from weft.report.text import line, style
from weft.trace import Trace, site_lines
from weft.trace.errors import RunError
from weft.trace.growing import of_one_clock, snapshot
from weft.trace.layout import Def

PAUSE: Final = 1.0
"""Seconds between looks, at least."""
SHARE: Final = 0.05
"""Of one core, at most."""
PROVEN: Final = frozenset(("message-race", "type-mismatch", "truncation"))
"""Kinds that two or three calls prove, whatever comes."""
LOOKED_AT: Final = tuple(one for one in ANALYSES if one.name in ("messages", "message races"))
ELSEWHERE: Final = "the ranks run on several hosts, whose clocks differ: findings are told at the end"


class Teller:
    """Knows what was told of one run."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._told: set[tuple[Any, ...]] = set()
        self._calls = self._sites = 0
        self.over = False

    def news(self) -> Iterator[tuple[str, str]]:
        """Look once: the findings that were not told yet, as lines with their styles."""
        trace = snapshot(self.run)
        if trace is None or trace.event_count == self._calls:
            return
        if not of_one_clock(trace):
            self.over = True
            yield f"note: {ELSEWHERE}", ""
            return
        self._calls = trace.event_count
        found = _proven(trace)
        if found and self._places(trace):
            found = _proven(trace)
        for finding in found:
            if finding.group not in self._told:
                self._told.add(finding.group)
                yield f"so far: {line(finding)}", style(finding)

    def _places(self, trace: Trace) -> bool:
        """Look up the lines of native calls, where there are new ones: findings are told apart by them."""
        known = sum(1 for rank in trace.ranks for _ in rank.definitions.all(Def.SITE))
        if known == self._sites:
            return False
        self._sites = known
        site_lines.resolve(trace)
        return True


def _proven(trace: Trace) -> list[Finding]:
    found = examine(trace, LOOKED_AT).findings
    return [f for f in found if f.kind in PROVEN and f.severity != "note" and f.certainty == "certain"]


def asked(words: Sequence[str]) -> tuple[list[Teller | Limit], int]:
    """Who tells what the arguments ask for, and the process without which nobody is told."""
    parser = argparse.ArgumentParser(prog="weft.report.live")
    parser.add_argument("run", type=Path)
    parser.add_argument("--findings", action="store_true")
    parser.add_argument("--call-limit", type=float)
    parser.add_argument("--of", type=int, required=True)
    args = parser.parse_args(words)
    tellers: list[Teller | Limit] = [Teller(args.run)] if args.findings else []
    return tellers + ([Limit(args.run, args.call_limit)] if args.call_limit is not None else []), args.of


def main() -> int:
    """Tell of the run that is named."""
    os.nice(19)
    tellers, parent = asked(sys.argv[1:])
    while os.getppid() == parent and not all(teller.over for teller in tellers):
        spent = time.process_time()
        for teller in tellers:
            try:
                for news in teller.news() if not teller.over else ():
                    print(json.dumps(news), flush=True)
            except (RunError, OSError, ValueError):
                pass  # a file that is being made or renamed: the next look sees it whole
        time.sleep(max(PAUSE, (time.process_time() - spent) / SHARE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
