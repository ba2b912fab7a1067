"""Lists the analyses of a report, a record each. If one cannot be run for a run, the report says so.

An analysis is imported when it is run: a short report pays for those that its run has calls for. The imports are in
functions, not in texts, so that the type checker reads them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from weft.base.event_id import EventId
from weft.base.lazy import dataclass
from weft.findings import Finding
from weft.match import Match
from weft.report.context import AnalysisContext
from weft.systems import MPI, PVM
from weft.terms.analysis_sections import AnalysisSection

Need = Literal["match", "order"]
"""What of the context is made before an analysis: those that need the order are begun last."""


Way = Literal["each", "end", "ranks", "not"]
"""In each segment, in the last one, rank by rank over the whole run; or not at all: runs for it stay whole."""

InSuffix = Literal["always", "closed", "ordered", "never", "no rings"]
"""Of a run whose rings dropped its first calls: its findings hold always, as it asks for these itself or tells of time;
where their own calls prove them and use nothing of a dropped one; where in addition each edge of the order is known;
or never, without the whole run. Systems other than MPI have no rings."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analysis: its name for people, what it takes of the context, and what finds."""

    name: str
    needs: frozenset[Need]
    find: Callable[[AnalysisContext], Iterable[Finding]]
    worthwhile: Callable[[AnalysisContext], bool] = lambda context: True
    """False for a run without such calls, in which it can find nothing: then it is not even imported."""
    by_rank: bool = False
    """Whether it looks at the ranks one by one, in their order: then several processes can share them (together.py)."""
    parts: Callable[[], Sequence[AnalysisSection]] | None = None
    """The sections of an analysis that goes through the ranks more than once, each rank by rank."""
    cut: Way = "not"
    """How it goes about a run that is cut into segments (segments.py)."""
    in_suffix: InSuffix = "never"
    """When its findings hold in a run without its first calls (rings.py)."""
    costs: bool = False
    """Whether its findings are of sums over the whole run: `weft.waits`."""


def _endings(context: AnalysisContext) -> Iterable[Finding]:
    from weft.endings import find

    return find(context.trace)


def _deadlock(context: AnalysisContext) -> Iterable[Finding]:
    from weft.deadlock import find

    return find(context.trace)


def _potential_deadlock(context: AnalysisContext) -> Iterable[Finding]:
    from weft.deadlock.unbuffered_sends import find

    return find(context.trace, context.match)


def _other_matches(context: AnalysisContext) -> Iterable[Finding]:
    from weft.deadlock.wildcard_alternatives import find

    return find(context.trace, context.match, context.order)


def _arguments(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.arguments import find

    return find(context.trace)


def _pvm_faults(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.pvm import find

    return find(context.trace, context.match)


def _lifetime(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.lifetime_and_threads import find

    return find(context.trace)


def _collectives(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.collectives import find

    return find(context.trace, context.match)


def _reductions(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.reductions import find

    return find(context.trace, context.match)


def _messages(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.messages import find

    return find(context.trace, context.match)


def _parts_of_messages() -> Sequence[AnalysisSection]:
    from weft.usage.messages import PARTS

    return PARTS


def _requests(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.long_ranks import find

    return find(context.trace)


def _onesided(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.one_sided import find

    return find(context.trace, context.order)


def _ready_sends(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.ready_sends import find

    return find(context.trace, context.match, context.order)


def _file_faults(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.file_races import find

    return find(context.trace, context.order)


def _memory(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.buffer_overruns import find

    return find(context.trace, lambda event: _locate_match(context, event))


def _locate_match(context: AnalysisContext, event: EventId) -> tuple[Match, EventId]:
    around, here = context.locate_event(event)
    return around.match, here


def _pending(context: AnalysisContext) -> Iterable[Finding]:
    from weft.access.buffer_reuse import find_buffer_reuse

    return find_buffer_reuse(context.trace)


def _window_races(context: AnalysisContext) -> Iterable[Finding]:
    from weft.access.window_races import find_window_races

    return find_window_races(context.trace, context.order)


def _ghosts(context: AnalysisContext) -> Iterable[Finding]:
    from weft.halo.ghost_checks import find

    return find(context.trace, context.order)


def _races(context: AnalysisContext) -> Iterable[Finding]:
    from weft.races import find

    return find(context.trace, context.match, context.order)


def _resources(context: AnalysisContext) -> Iterable[Finding]:
    from weft.usage.resource_leaks import find

    return find(context.trace)


def _waits(context: AnalysisContext) -> Iterable[Finding]:
    from weft.waits import find

    return find(context.trace, context.match)


def _moves_data(context: AnalysisContext) -> bool:
    return context.has_data_calls


def _moves_data_by_mpi(context: AnalysisContext) -> bool:
    return context.trace.system is MPI and context.has_data_calls


def _receives(context: AnalysisContext) -> bool:
    return context.receives


def _mpi(context: AnalysisContext) -> bool:
    return context.trace.system is MPI


def _pvm(context: AnalysisContext) -> bool:
    return context.trace.system is PVM


def _windows(context: AnalysisContext) -> bool:
    return context.windows


def _ready(context: AnalysisContext) -> bool:
    return context.ready


def _files(context: AnalysisContext) -> bool:
    return context.files


def _touched(context: AnalysisContext) -> bool:
    return context.touched


def _halos(context: AnalysisContext) -> bool:
    return context.has_halos


def _contents(context: AnalysisContext) -> bool:
    return context.contents


NONE: Final[frozenset[Need]] = frozenset()
MATCH: Final[frozenset[Need]] = frozenset(("match",))
ORDER: Final[frozenset[Need]] = frozenset(("match", "order"))
"""The order is made of the match."""

ANALYSES: Final = (
    Analysis("how the ranks ended", NONE, _endings, cut="end", in_suffix="always"),
    Analysis("deadlock", NONE, _deadlock, cut="end", in_suffix="always"),
    Analysis("potential deadlock", MATCH, _potential_deadlock, cut="each", in_suffix="ordered"),
    Analysis("other matches", ORDER, _other_matches, _receives, cut="each"),
    Analysis("invalid arguments", NONE, _arguments, _mpi, by_rank=True, cut="ranks"),
    Analysis("packing and buffers", MATCH, _pvm_faults, _pvm, in_suffix="no rings"),
    Analysis("lifetime and threads", NONE, _lifetime, _mpi, by_rank=True, cut="ranks"),
    Analysis("collectives", MATCH, _collectives, _mpi, cut="each", in_suffix="closed"),
    Analysis("reductions", MATCH, _reductions, _contents),
    Analysis("messages", MATCH, _messages, parts=_parts_of_messages, cut="each", in_suffix="closed"),
    Analysis("requests", NONE, _requests, _moves_data_by_mpi, by_rank=True, cut="ranks", in_suffix="closed"),
    Analysis("one-sided", ORDER, _onesided, _windows, cut="each"),
    Analysis("ready sends", ORDER, _ready_sends, _ready, cut="each"),
    Analysis("files", ORDER, _file_faults, _files, cut="each"),
    Analysis("memory behind buffers", MATCH, _memory, _moves_data, by_rank=True, cut="ranks"),
    Analysis("accesses of buffers", NONE, _pending, _touched, by_rank=True),
    Analysis("accesses of windows", ORDER, _window_races, _touched),
    Analysis("ghost cells", ORDER, _ghosts, _halos),
    Analysis("message races", ORDER, _races, _receives, cut="each", in_suffix="ordered"),
    Analysis("resources", NONE, _resources, _mpi, by_rank=True, cut="ranks", in_suffix="closed"),
    Analysis("waits", MATCH, _waits, cut="each", costs=True, in_suffix="always"),
)
"""What is run, in this order: findings of one severity keep it."""
