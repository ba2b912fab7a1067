"""What may be said of a run of which only the end was kept (`weft run --keep`), and what the report says of that.

A finding is told where the calls that are there prove it. So analyses that look for what came first (a datatype's
commit, a window's lock, the memory behind a buffer) are not run, and a finding must stand behind the moment at which
the last request of the dropped calls was complete: from there on nothing unseen comes in. Where messages could not be
counted, or something unseen orders calls, what rests on the order is not looked for. All of that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from weft.base.words import listed, plural, printable
from weft.findings import Finding
from weft.match.before import dropped_calls
from weft.match.operations import completions
from weft.report.around import set_aside
from weft.report.registry import ANALYSES, Analysis
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks
from weft.trace import Event, Rank, Trace
from weft.trace.kept import Kept
from weft.trace.layout import decode_durations

WHOLE: Final = frozenset(("how the ranks ended", "deadlock", "waits"))
"""Analyses whose findings count whatever was dropped: they ask for it themselves, or tell of time."""
FROM_THERE: Final = frozenset(("collectives", "messages", "requests", "resources"))
"""Analyses whose findings the calls themselves prove, where nothing unseen comes in."""
ORDERED: Final = frozenset(("potential deadlock", "message races"))
"""The same, of which each edge of the order counts."""
OF_OTHERS: Final = frozenset(("packing and buffers",))
"""Of PVM, whose runs are always whole."""
_ON_OBJECTS: Final = calls.WINDOW_COLLECTIVES | calls.FILE_COLLECTIVES | calls.ON_WINDOWS


class Suffix:
    """The end of a run: what is looked for in it, and from when on."""

    def __init__(self, trace: Trace, kept: Kept) -> None:
        self.trace, self.kept = trace, kept
        self._makers: dict[int, frozenset[int]] = {}

    @cached_property
    def ordered(self) -> bool:
        """Whether the order of the calls is known, from `since` on."""
        before = dropped_calls(self.trace)
        return before is not None and not before.unsettled and self.kept.exact and len(self.trace.worlds) == 1

    @cached_property
    def since(self) -> int:
        """Until when (ns) calls completed what was begun by dropped ones, or used windows and files of these."""
        return max(self.kept.begins, *(self._clear_from(rank) for rank in self.trace.ranks))

    def _clear_from(self, rank: Rank) -> int:
        table, events = masks(self.trace.functions), rank.events
        made = events["object"][table.where(rank, calls.REQUEST_MAKERS)]
        request, event = completions(rank) if len(events) else (np.zeros(0, np.int64), np.zeros(0, np.int64))
        foreign: Ints = event[(request > 1) & ~np.isin(request, made)]
        objects = table.where(rank, _ON_OBJECTS | calls.STARTS)
        makers = events["object"][table.where(rank, calls.WINDOW_MAKERS | calls.words("File_open") | calls.PERSISTENT)]
        foreign = np.concatenate([foreign, objects[~np.isin(events["object"][objects], makers)]])
        if not len(foreign):
            return -(2**62)
        last = int(foreign.max())
        ended = events["enter"][last] + decode_durations(events["duration"][last : last + 1])[0]
        return rank.axis.ns(int(ended)) + 1

    def looked_for(self, analyses: Sequence[Analysis]) -> list[Analysis]:
        """The analyses that can tell something."""
        told = WHOLE | FROM_THERE | (ORDERED if self.ordered else frozenset())
        return [analysis for analysis in analyses if analysis.name in told]

    def holds(self, analysis: Analysis, finding: Finding) -> bool:
        """Whether a finding holds for the whole run."""
        if analysis.name in WHOLE:
            return True
        events = [self.trace.event(*event) for event in finding.events]
        return all(event.enter_ns >= self.since and not self._of_dropped(event) for event in events)

    def _of_dropped(self, event: Event) -> bool:
        """Whether a call, which may not have returned, uses a request that none of its rank's kept calls made."""
        of_one = masks(self.trace.functions).table(calls.OF_ONE | calls.STARTS | calls.CANCELS | calls.RELEASES)
        used = [event.object] if of_one[event.function.id] else event.args.get("array_of_requests", [])
        made = self._made(event.rank)
        return any(request > 1 and request not in made for request in used)

    def _made(self, rank: Rank) -> frozenset[int]:
        if rank.index not in self._makers:
            which = masks(self.trace.functions).where(rank, calls.REQUEST_MAKERS)
            self._makers[rank.index] = frozenset(rank.events["object"][which].tolist())
        return self._makers[rank.index]

    def there(self) -> str:
        """What of the run is there."""
        spans = [int(rank.enter_ns()[-1]) for rank in self.trace.ranks if len(rank.events)]
        wish = self.trace.run.get("keep")
        asked = f" (--keep last:{wish:g}s)" if isinstance(wish, int | float) else ""
        seconds = max(spans, default=0) / 1e9
        return (
            f"only the end of the run is there{asked}: {plural(self.trace.event_count, 'call')} of the last "
            f"{seconds:.3g} s; {plural(self.kept.calls, 'earlier call')} were dropped, and nothing is said of them"
        )

    def lines(self, analyses: Iterable[Analysis]) -> list[str]:
        """What the report says first."""
        told = [self.there()]
        looked = WHOLE | FROM_THERE | (ORDERED if self.ordered else frozenset())
        told.append(f"looked for in these: {listed(sorted(looked))}")
        if not self.ordered:
            told.append(f"not looked for, as the dropped calls left open {self._why()}: {listed(sorted(ORDERED))}")
        left = [one.name for one in analyses if one.name not in looked | ORDERED | OF_OTHERS]
        told.append(f"not looked for, as it takes the whole run: {listed(left)}")
        return told

    def _why(self) -> str:
        before = dropped_calls(self.trace)
        if before is not None and before.unsettled:
            return "which messages were under way"
        return "what the ranks knew of each other"


def suffix(trace: Trace) -> Suffix | None:
    """What may be said of the run, None of one that is whole."""
    kept = trace.kept
    if kept is None:
        return None
    found = kept.made.get(__name__) or Suffix(trace, kept)
    assert isinstance(found, Suffix)
    kept.made[__name__] = found
    return found


def only_the_end(trace: Trace) -> list[str]:
    """What a report says first of a run of which only the end was kept; nothing of one that is whole."""
    end = suffix(trace)
    return [printable(text) for text in (*end.lines(ANALYSES), *set_aside(trace))] if end is not None else []


def what_is_there(trace: Trace) -> list[str]:
    """What who prints or hands on the calls of such a run says of it; nothing of one that is whole."""
    end = suffix(trace)
    return [printable(end.there())] if end is not None else []
