"""Reports what is already sure of a run that still goes on: findings that are proven, and calls that do not return.

`python -m weft.report.live RUN [--findings] [--around] [--call-limit SECONDS]` looks again and again until the process
that started it is gone, and prints each new thing as a line of JSON: [text, style]. It takes 5 % of one core at most,
and only what no program wants.

The findings are of kinds whose proof is complete when it is seen: what comes later can neither add to it nor
take it back.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from weft.errors import RunError
from weft.findings import Finding
from weft.report.analysis import run_analyses
from weft.report.limit import CallLimit
from weft.report.rings import SNAPSHOT_ANALYSES, select_proven
from weft.report.text import finding_line, line_style
from weft.sources.keep_sources import keep_sources
from weft.trace import Trace, site_lines
from weft.trace.growing import open_growing
from weft.trace.layout import Def
from weft.trace.rings import snapshots

PAUSE: Final = 1.0
"""Seconds between looks, at least."""
SHARE: Final = 0.05
"""The most of one core that it takes."""
TRIES: Final = 3
"""The most copies that are made for one finding that is in none of them."""
ELSEWHERE: Final = "the ranks run on several hosts, whose clocks differ"


class LiveReporter:
    """Reports the findings of one run, each once, while it goes on."""

    ELSEWHERE_THEN = "findings are reported at the end"

    def __init__(self, run: Path) -> None:
        self.run = run
        self._told: set[tuple[Any, ...]] = set()
        self._calls = self._sites = 0
        self.over = False

    def find_news(self) -> Iterator[tuple[str, str]]:
        """Read the run once. Yield (line, style) for each finding that was not reported before."""
        trace = self._open_if_changed()
        if trace is None:
            return
        if not trace.has_one_clock:
            self.over = True
            yield f"note: {ELSEWHERE}: {self.ELSEWHERE_THEN}", ""
            return
        yield from self._render_new_findings(trace)

    def _open_if_changed(self) -> Trace | None:
        """Return the run as it is now; None if it does not exist yet, or has no new calls."""
        trace = open_growing(self.run)
        if trace is None or trace.event_count == self._calls:
            return None
        self._calls = trace.event_count
        return trace

    def _render_new_findings(self, trace: Trace) -> Iterator[tuple[str, str]]:
        """Yield (line, style) for each proven finding of a trace that was not reported before."""
        for finding in self._find_proven(trace):
            if finding.cause_key not in self._told:
                self._told.add(finding.cause_key)
                yield f"so far: {finding_line(finding)}", line_style(finding)

    def _find_proven(self, trace: Trace) -> list[Finding]:
        """Return the proven findings of a trace, with the lines of their native calls."""
        found = _examine_snapshot(trace)
        return _examine_snapshot(trace) if found and self._resolve_new_sites(trace) else found

    def _resolve_new_sites(self, trace: Trace) -> bool:
        """Look up the source lines of native calls, which tell findings apart. Return whether there were new ones."""
        known = sum(1 for rank in trace.ranks for _ in rank.definitions.all(Def.SITE))
        if known == self._sites:
            return False
        self._sites = known
        site_lines.resolve_sites(trace)
        return True


class SnapshotTaker(LiveReporter):
    """Takes a snapshot of a run with rings when there are new findings in it (`--keep-around-findings`)."""

    ELSEWHERE_THEN = "no calls around findings are copied"

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self._tried: Counter[tuple[Any, ...]] = Counter()

    def _open_if_changed(self) -> Trace | None:
        trace = open_growing(self.run)  # a full ring may have as many calls as before, and others
        return trace if trace is not None and trace.event_count else None

    def _render_new_findings(self, trace: Trace) -> Iterator[tuple[str, str]]:
        """Copy the records if there are new findings, and yield (line, style) on what was kept.

        The copy decides: what is seen while rings drop calls may be wrong, and is only a reason to make a copy.
        """
        try:
            seen = {finding.cause_key: finding for finding in self._find_proven(trace)}
        except Exception:
            return  # calls became others under our eyes: of such bytes anything may come
        seen = {group: seen[group] for group in seen.keys() - self._told if self._tried[group] < TRIES}
        self._tried.update(seen.keys())
        if not seen or trace.until is None:
            return
        why = "its calls were dropped before they could be copied"
        try:
            yield from self._turn_into_snapshot(snapshots.copy_records(self.run, trace.run, trace.until))
        except snapshots.NoRoomError as error:
            self.over = True
            yield f"note: Weft copies no more calls around findings: {error}", ""
            return
        except (RunError, OSError) as error:
            why = str(error)
        for group in seen.keys() - self._told:
            if self._tried[group] == TRIES:
                yield (
                    f"note: {_suspicion(seen[group])} is in none of {TRIES} copies of the record, so Weft no longer "
                    f"looks for it: {why}",
                    "",
                )

    def _turn_into_snapshot(self, copy: Path) -> Iterator[tuple[str, str]]:
        """Turn a copy of the records into a snapshot if it has a finding that no snapshot has, else delete it. Yield
        (line, style) for each such finding.
        """
        snapshot = None
        try:
            trace = Trace.open(copy)
            site_lines.resolve_sites(trace)
            keep_sources(trace, texts=trace.run.get("sources") is not False)
            new = [finding for finding in _examine_snapshot(trace) if finding.cause_key not in self._told]
            snapshot = snapshots.add_snapshot(copy) if new else None
        finally:
            if snapshot is None:
                snapshots.delete_copy(copy)
        for finding in new:
            self._told.add(finding.cause_key)
            where = f"{snapshots.FOLDER}/{snapshot.name if snapshot else ''}"
            yield f"so far: {finding_line(finding)} (its calls are copied to {where})", line_style(finding)
        if len(snapshots.list_snapshots(self.run)) >= snapshots.MOST_SNAPSHOTS:
            self.over = True
            most = snapshots.MOST_SNAPSHOTS
            yield f"note: Weft has copied the calls around {most} findings and will copy no others", ""


def _suspicion(finding: Finding) -> str:
    """Return the words for what was seen while calls were dropped: it may not be a finding."""
    site = next((site for site in finding.sites if site.line), None)
    return f"what looked like a finding{f' at {site}' if site else ''} [{finding.kind}]"


def _examine_snapshot(trace: Trace) -> list[Finding]:
    return select_proven(run_analyses(trace, SNAPSHOT_ANALYSES).findings)


def parse_arguments(words: Sequence[str]) -> tuple[list[LiveReporter | CallLimit], int]:
    """Parse the command line. Return the reporters that it asks for, and the id of the process with whose end they
    end.
    """
    parser = argparse.ArgumentParser(prog="weft.report.live")
    parser.add_argument("run", type=Path)
    parser.add_argument("--findings", action="store_true")
    parser.add_argument("--around", action="store_true")
    parser.add_argument("--call-limit", type=float)
    parser.add_argument("--of", type=int, required=True)
    args = parser.parse_args(words)
    tellers: list[LiveReporter | CallLimit] = [LiveReporter(args.run)] if args.findings else []
    tellers += [SnapshotTaker(args.run)] if args.around else []
    return tellers + ([CallLimit(args.run, args.call_limit)] if args.call_limit is not None else []), args.of


def main() -> int:
    """Report on the run that the arguments name, a JSON line for each news, until the process that started this one has
    ended.
    """
    os.nice(19)
    tellers, parent = parse_arguments(sys.argv[1:])
    while os.getppid() == parent and not all(teller.over for teller in tellers):
        spent = time.process_time()
        for teller in tellers:
            try:
                for news in teller.find_news() if not teller.over else ():
                    print(json.dumps(news), flush=True)
            except (RunError, OSError, ValueError):
                pass  # a file that is being made or renamed: the next look sees it whole
        time.sleep(max(PAUSE, (time.process_time() - spent) / SHARE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
