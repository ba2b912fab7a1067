"""Make the findings of how ranks ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.base.words import listed, rank_words
from weft.deadlock.blocked_ranks import Standstill
from weft.endings.end_causes import End, How, find_callers_of_user_site, find_ends, find_user_site
from weft.endings.wording import describe_end, describe_thread_end
from weft.evidence import Ended, Frame, Waiting
from weft.findings import Finding, Site
from weft.terms import describe
from weft.terms.rank_progress import called_finalize
from weft.trace import Ending, Event, ExitKind, Trace
from weft.trace.layout import Level
from weft.trace.sites import CallSite

KINDS: Final[Mapping[How, str]] = {
    How.EXCEPTION: "uncaught-exception", How.CRASH: "crash", How.WEFT: "weft-error",
    How.ABORT: "abort", How.ERROR: "abort", How.EXIT: "early-exit",
}  # fmt: skip
MAX_WAITS: Final = 4


def find(trace: Trace) -> list[Finding]:
    """Return a finding for each group of ranks that ended alike by their own doing. It also names the ranks that wait
    for these for ever."""
    if trace.level == Level.OUTCOMES:
        return []
    everyone = find_ends(trace)
    scene = RunEnd(trace, everyone)
    found = [_make_thread_finding(end, one) for end in everyone for one in end.threads]
    return sorted(found + [scene.make_finding(group) for group in _group_equal_ends(scene.guilty)], key=_when)


def _when(one: Finding) -> int:
    at = one.evidence.at_ns if isinstance(one.evidence, Ended) else None
    return 2**63 if at is None else at


class RunEnd:
    """A run at its end: which ranks ended by their own doing, and which can never go on because of that."""

    def __init__(self, trace: Trace, everyone: list[End]) -> None:
        self.trace = trace
        own = [end for end in everyone if end.how in KINDS]
        self.standstill = Standstill(trace, [end.rank.index for end in own], buffering=may_have_moved(trace))
        self.waiting = self._find_waiting_ranks({end.rank.index for end in own})
        self.guilty = [end for end in own if end.how is not How.EXIT or self._is_exit_a_fault(end)]

    def _find_waiting_ranks(self, gone: set[int]) -> frozenset[int]:
        """Return the ranks that are blocked for ever, but would not be if the ranks `gone` were still there."""
        if not gone:
            return frozenset()
        return self.standstill.stuck - self.standstill.stuck_despite(gone)

    def _is_exit_a_fault(self, end: End) -> bool:
        """Return whether an exit is a fault: others wait for that rank, or its process never reached MPI_Finalize."""
        return not (called_finalize(end.rank) or _on_its_way(end)) or bool(
            self.find_ranks_waiting_for({end.rank.index})
        )

    def find_ranks_waiting_for(self, gone: set[int]) -> frozenset[int]:
        """Return the ranks of `waiting` that wait for one of the ranks `gone`, directly or through other waiting
        ranks."""
        needs = self.standstill.needs
        found: set[int] = set()
        while more := {i for i in self.waiting - found if needs[i].all_ranks() & (gone | found)}:
            found |= more
        return frozenset(found)

    def make_finding(self, group: list[End]) -> Finding:
        """Return the finding for ranks that ended alike, with the ranks that wait for them."""
        first = group[0]
        ranks = [end.rank.index for end in group]
        message = f"{rank_words(ranks)} {describe_end(first, len(ranks))}"
        message += _describe_undefined_index(first)
        behind = self.find_ranks_waiting_for(set(ranks))
        if behind:
            message += (
                f"; {self._describe_waiting(behind, 'it' if len(ranks) == 1 else 'them', ended=_ends_all(first))}"
            )
        lost = _lost(self.trace) if first.how is How.ERROR else []
        if lost:
            were, them = "was" if len(lost) == 1 else "were", "it" if len(ranks) == 1 else "them"
            message += f"; {listed(lost)} {were} lost, which may be why MPI ended {them}"
        events = [event for i in sorted(behind) for event in self.standstill.open_calls.get(i, [])[:1]]
        return Finding(
            kind=KINDS[first.how],
            severity="error",
            certainty="possible" if lost else "certain",
            message=message,
            ranks=tuple(ranks),
            sites=(
                *(s for end in group for s in find_end_sites(end)),
                *dict.fromkeys(describe.finding_site(e) for e in events[:64]),
            ),
            events=tuple(event.id for event in [*_last_events(group), *events]),
            evidence=_make_evidence(first, [(i, self.standstill.open_calls[i][0]) for i in sorted(behind)]),
            cause=f"{first.how} {message}",
        )

    def _describe_waiting(self, behind: frozenset[int], whom: str, *, ended: bool) -> str:
        """Return words such as `ranks 0 and 2 wait for it in barrier at exc.py:7`; with `ended`: `were ended by it in
        barrier`. `behind`: the waiting ranks; `whom`: the words for what they wait for."""
        one, many, link = ("was ended", "were ended", "by") if ended else ("waits", "wait", "for")
        groups: dict[str, list[int]] = {}
        for index in sorted(behind):
            event = self.standstill.open_calls[index][0]
            groups.setdefault(describe.call_words(event) + describe.site_suffix(event), []).append(index)
        parts: list[str] = []
        for call, ranks in list(groups.items())[:MAX_WAITS]:
            verb = one if len(ranks) == 1 else many
            parts.append(f"{rank_words(ranks)} {verb}{'' if parts else f' {link} {whom}'} in {call}")
        if len(groups) > MAX_WAITS:
            parts.append(f"{rank_words(i for ranks in list(groups.values())[MAX_WAITS:] for i in ranks)} elsewhere")
        return listed(parts)


def _describe_undefined_index(end: End) -> str:
    """Return words that the last call before a crash found no active request, and gave the program MPI_UNDEFINED as
    index; "" for other ends.
    """
    last = end.rank.event(len(end.rank) - 1) if end.how is How.CRASH and len(end.rank) else None
    if last is None or last.open or last.function.base not in ("MPI_Waitany", "MPI_Testany"):
        return ""
    index = last.args.get("index")
    if not isinstance(index, int) or index >= 0:
        return ""
    return (
        f", just after {describe.call_words(last)}{describe.site_suffix(last)} found no active request and gave the "
        "index MPI_UNDEFINED"
    )


def _on_its_way(end: End) -> bool:
    """Return whether a Python program was leaving, and was ended with the job before mpi4py could call MPI_Finalize."""
    return end.ending is not None and end.ending.how is ExitKind.PYTHON and end.rank.state == "running"


def _ends_all(end: End) -> bool:
    """Return whether MPI ended the other ranks at once: those do not wait any more."""
    return end.how is How.ABORT or (end.how is How.ERROR and end.rank.definitions.ended is not None)


def _lost(trace: Trace) -> list[str]:
    """Return the hosts that the run lost, in words: MPI takes their ranks' silence for an error."""
    lost = trace.run.get("lost")
    return [f"host {one.get('host')}" for one in lost if isinstance(one, dict)] if isinstance(lost, list) else []


def may_have_moved(trace: Trace) -> bool:
    """Return whether nobody saw the ranks stand still: then a standard send that is open need not be waiting."""
    return trace.run.get("ended") not in ("running", "deadlock", None)


def _group_equal_ends(guilty: list[End]) -> list[list[End]]:
    """Return the ranks that ended in the same way at the same place as groups, the earliest end first."""
    groups: dict[tuple[object, ...], list[End]] = {}
    for end in guilty:
        ending = end.ending
        site = end.site
        key = (
            end.how, ending.name if ending else "", ending.code if ending else 0,
            (site.file, site.line) if site else (), *(() if site or ending is None else (ending.text,)),
        )  # fmt: skip
        groups.setdefault(key, []).append(end)
    return sorted(groups.values(), key=lambda group: min(end.time_ns for end in group))


def find_end_sites(end: End) -> list[Site]:
    """Return the call site at which a rank ended, as findings hold it; that of its last call if no site of the end is
    known. [] if Weft's own recorder ended the rank."""
    if end.how is How.WEFT:
        return []
    if end.ending is None or (at := find_user_site(end.ending)) is None:
        return [describe.finding_site(event) for event in _last_events([end])]
    behind = tuple((s.file or "", s.line, s.function or "") for s in find_callers_of_user_site(end.ending)[:6])
    return [Site(end.rank.index, _find_last_function(end), at.file or "", at.line, at.function or "", behind)]


def _find_last_function(end: End) -> str:
    """Return the name of the function or exception in which a rank ended."""
    assert end.ending is not None
    if end.how is How.ABORT:
        return "MPI_Abort"
    return end.ending.name or end.how.value


def _last_events(group: list[End]) -> list[Event]:
    return [end.rank.event(len(end.rank) - 1) for end in group[:64] if len(end.rank)]


def _make_evidence(end: End, waiting_calls: list[tuple[int, Event]]) -> Ended:
    """Return the facts of an end for the finding. `waiting_calls`: ranks that wait for it, with their calls."""
    ending = end.ending
    waiting = tuple(Waiting(rank=index, call=describe.call_words(event)) for index, event in waiting_calls[:64])
    if ending is None:
        return Ended(how=end.how.value, waiting=waiting)
    own = bool(ending.part_of_weft)
    return Ended(
        how=end.how.value, name=ending.name, text=ending.text, code=ending.code, at_ns=ending.time_ns,
        part=ending.part_of_weft or None,
        recorder=[f"{s.offset:#x}" for s in ending.native if _of_weft(s)] if own else None,
        traceback=None if own else ending.traceback or None,
        stack=_frames(ending.stack),
        native=_frames(ending.native) if ending.python and ending.native else None,
        waiting=waiting,
    )  # fmt: skip


def _of_weft(site: CallSite) -> bool:
    return (site.module or "").endswith("/libweft-shim.so")


def _frames(stack: tuple[CallSite, ...]) -> list[Frame]:
    return [Frame(file=s.file or s.module or "", line=s.line, function=s.function or "") for s in stack]


def _make_thread_finding(end: End, exception: Ending) -> Finding:
    """Return the finding for an exception that ended a thread or task of a rank. The rank itself may have gone on."""
    at = find_user_site(exception)
    behind = tuple((s.file or "", s.line, s.function or "") for s in find_callers_of_user_site(exception)[:6])
    rank = end.rank.index
    who = exception.who if exception.who.startswith(("task ", "a task")) else f"thread {exception.who}"
    return Finding(
        kind="uncaught-exception",
        severity="error",
        certainty="certain",
        message=f"{who} of rank {rank} {describe_thread_end(exception)}",
        ranks=(rank,),
        sites=(Site(rank, exception.name, at.file or "", at.line, at.function or "", behind),) if at else (),
        events=tuple(event.id for event in _last_events([end])),
        evidence=_make_evidence(End(end.rank, How.EXCEPTION, exception), []),
        cause=f"{exception.name} {at.file if at else ''} {at.line if at else ''}",
    )
