"""A recorded run as one object: ranks, their events, and what the ids in them mean."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from weft.base.json_files import read_json
from weft.errors import NoRunError, RunError
from weft.findings import Finding
from weft.systems import System
from weft.trace import clock
from weft.trace.communicators import Communicator, Communicators
from weft.trace.functions import FunctionTable
from weft.trace.layout import EVENT, FORMAT_MAJOR_KEPT, Level, State, StopReason, StreamKind
from weft.trace.opening import MAX_PROBLEMS, read_function_table, read_rank_files
from weft.trace.places import RankPlaces
from weft.trace.rank import Event, Rank
from weft.trace.rankfile import RankFile
from weft.trace.rings.suffix import Suffix
from weft.trace.sites import CallSite, HasSites, Sites
from weft.trace.tasks import TaskFile, read_task_files
from weft.trace.worlds import find_known_worlds

STOP_REASONS: Final = {
    StopReason.DISK_FULL: "because the disk was full (give the run another place with --out)",
    StopReason.NO_ADDRESS_SPACE: "because no address space was left (raise ulimit -v)",
    StopReason.IO_ERROR: "because the file system reported an error",
    StopReason.DISK_SLOW: "because the file system was slow (weft run --in-place waits for it)",
    StopReason.OVERFLOW: "because a part of the record had grown beyond what the format can count",
}
"""Why the recorder stopped before its process ended."""


ENDED: Final = {
    "finished": "finished", "crashed": "crashed", "deadlock": "stopped in a deadlock", "killed": "killed",
}  # fmt: skip
"""How a run ended, in words for people."""
CUT_OFF: Final = "still running or cut off"
"""The words for a run without an end."""


class Trace:
    """A recorded run, opened for reading. Files are read when something in them is asked for."""

    goes_on: bool = False
    """Whether calls of the run come after these (weft.trace.segment)."""

    _end: Trace | None = None

    has_earlier_calls: bool = False
    """Whether calls of the run come before these."""

    draw_svg: ClassVar[Callable[..., str] | None] = None
    """The function that draws a trace as SVG: weft.open sets it, as the room of pictures is above this one."""

    make_table: ClassVar[Callable[..., Any] | None] = None
    """The function that makes a pyarrow.Table or a pandas.DataFrame of the calls, set in the same way."""

    finder: ClassVar[Callable[[Trace], list[Finding]] | None] = None
    """What analyses a trace, put here in the same way."""

    describer: ClassVar[Callable[[Event], str] | None] = None
    """What says a call in words, put here in the same way."""

    def __init__(self, path: Path, run: dict[str, Any], functions: FunctionTable, files: list[RankFile]) -> None:
        self.path = path
        self.run = run
        self.functions = functions
        self._problems: list[str] = []
        self._unsaid = 0
        self.is_incomplete = False
        """Whether a part of the record is damaged, or a rank's recording stopped before its end."""
        self.until: int | None = None
        """Where the run still goes on: the tick up to which its calls are read, see weft.trace.growing."""
        self.keep_alive: object = None
        for file in files:
            self.add_damage(*file.problems)
            if file.header.state == State.STOPPED:
                self.is_incomplete = True
                reason = STOP_REASONS.get(file.header.stop_reason, "for an unknown reason")
                self.add_problem(f"{file.name}: Weft stopped recording this rank {reason}; its later calls are missing")
        places = RankPlaces(self, files)
        self.worlds, self.ranks = places.worlds, places.ranks
        self.share = range(len(self.ranks))
        """The ranks that this process analyses: all, unless several make the report (weft.report.parallel)."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Trace:
        """Open a run directory. RunError if there is none or nothing in it can be read."""
        root = Path(path)
        if not root.is_dir():
            why = "not a directory" if root.exists() else "there is no such directory"
            raise NoRunError(f"{root} is not a run: {why}")
        problems: list[str] = []
        notes: list[str] = []
        run = read_json(root, "run.json", "weft-run/1", problems, exact=True)
        table = read_function_table(root, problems)
        files = read_rank_files(root, problems, notes)
        if not files and not run:
            raise NoRunError(f"{root} is not a run of Weft: " + "; ".join(problems[:3]))
        trace = cls(root, run, table, files)
        until = run.get("until")  # of a snapshot (weft.trace.rings.snapshots)
        trace.until = until if isinstance(until, int) else None
        trace._problems[:0] = [*problems, *table.problems, *notes]
        trace.is_incomplete |= bool(problems or table.problems)
        return trace

    def __repr__(self) -> str:
        return f"<Trace {self.path}: {len(self.ranks)} ranks>"

    @property
    def at_end(self) -> Trace:
        """Return the trace that contains the end of the run. It is this one, or the last segment of a long run that is
        analysed part by part.
        """
        return self._end or self

    def set_last_part(self, part: Trace) -> None:
        """Set the part of the run in which it ends. Questions about the end then do not read the whole run."""
        self._end = part

    @property
    def origin(self) -> Trace:
        """Return the whole run, if this is a part of it (weft.trace.segment): caches of a run are kept under it."""
        return self

    def add_problem(self, *texts: str) -> None:
        """Note sentences about parts of the run that could not be read."""
        for text in texts:
            if len(self._problems) < MAX_PROBLEMS:
                if text not in self._problems:
                    self._problems.append(text)
            else:
                self._unsaid += 1

    def add_damage(self, *texts: str) -> None:
        """Note sentences about damaged parts of the run. The run counts as incomplete then."""
        self.add_problem(*texts)
        self.is_incomplete |= bool(texts)

    @property
    def problems(self) -> list[str]:
        """Return what could not be read, in plain sentences. Grows as more of the run is read."""
        more = [f"and {self._unsaid} more of the kind"] if self._unsaid else []
        return self._problems + more

    @property
    def own(self) -> list[Rank]:
        """Return the ranks that this process analyses (`share`)."""
        return self.ranks[self.share.start : self.share.stop]

    # Worlds

    @cached_property
    def _known_worlds(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """Return for each rank the processes of other worlds that it knows, by its own numbers for the worlds."""
        return find_known_worlds(self.ranks, self.worlds) if len(self.worlds) > 1 else {}

    # Communicators, sites, time

    @cached_property
    def _unified(self) -> Communicators:
        unified = Communicators(self.ranks, self.worlds, self.functions)
        self.add_problem(*unified.problems)
        return unified

    @property
    def communicators(self) -> list[Communicator]:
        """Return all communicators of the run: the worlds, those that were made, and each rank's MPI_COMM_SELF."""
        return self._unified.all

    @property
    def sites(self) -> Sites:
        """Return the places of the program by their ids in the records."""
        return self._sites

    @cached_property
    def _sites(self) -> Sites:
        """Return the call sites of the run. What cannot be read of them is noted as damage."""
        problems: list[str] = []
        sites = Sites(self.path, problems)
        self.add_damage(*problems)
        return sites

    def site(self, rank: HasSites, id: int) -> CallSite:
        """Return the call site that has the number `id` in a rank or its tasks. In a function of a language binding, it
        is the place that called this function.
        """
        found = self._sites.site(rank, id)
        binding = self.system.binding
        if binding and found.file is None and found.callers and (found.function or "").startswith(binding):
            return replace(found.callers[0], callers=found.callers[1:])
        return found

    def has_lines_of(self, path: str, build_id: str) -> bool:
        """Return whether the lines of a module were looked up."""
        return self._sites.has_lines_of(path, build_id)

    def reload_sites(self) -> None:
        """Read RUN/sites.json again after it was written."""
        self.__dict__.pop("_sites", None)
        for rank in self.ranks:
            rank.__dict__.pop("endings", None)

    @cached_property
    def _task_files(self) -> dict[tuple[str, int, str], TaskFile]:
        """Return the files of RUN/tasks, by (host, process id, job)."""
        problems: list[str] = []
        files = read_task_files(self.path, problems)
        self.add_problem(*problems)
        return files

    @cached_property
    def has_tasks(self) -> bool:
        """Return whether some rank recorded which task made each call."""
        return bool(self._task_files) and any(rank.tasks is not None for rank in self.ranks)

    @cached_property
    def _axes(self) -> list[clock.Axis]:
        """Return the axis of each rank that converts its clock ticks to ns, with 0 at the run's first event."""
        present = [r for r in self.ranks if r.file]
        axes = clock.align_clocks([r.file.header for r in present if r.file])
        first: int | None = None
        for rank, axis in zip(present, axes, strict=True):
            for slot in rank.file.threads() if rank.file else ():
                event = rank.file.first_event(slot) if rank.file else None
                if event is not None:
                    ns = axis.ns(int(event["enter"]))
                    first = ns if first is None else min(first, ns)
        if first is None:
            first = min((a.origin for a in axes), default=0)
        placed = [clock.Axis(0, 0, 1.0)] * len(self.ranks)
        for rank, axis in zip(present, axes, strict=True):
            placed[rank.index] = axis.moved(-first)
        return placed

    @property
    def system(self) -> System:
        """Return the message-passing system whose calls were recorded."""
        return self.functions.system

    @cached_property
    def names(self) -> list[str]:
        """Return the names of the ranks, such as `worker 0.2`; [] if they only have numbers."""
        told = self.run.get("names")
        return [str(name) for name in told[: len(self.ranks)]] if isinstance(told, list) else []

    @property
    def level(self) -> Level:
        """Return how much was recorded: Level.TRACE or Level.OUTCOMES."""
        levels = [r.file.header.level for r in self.ranks if r.file]
        return max(levels, default=Level.TRACE)

    @cached_property
    def suffix(self) -> Suffix | None:
        """Return the calls that count in a run recorded with `weft run --keep`, whose rings dropped earlier calls. None
        if nothing was dropped.
        """
        files = [rank.file for rank in self.ranks if rank.file]
        has_dropped = any(one.events or one.tails for file in files for one in file.dropped.values())
        return Suffix(self.ranks, has_one_clock=self.has_one_clock) if has_dropped else None

    @property
    def has_one_clock(self) -> bool:
        """Return whether all ranks have the same clock, as those of one host."""
        return len({(rank.header.host, rank.header.clock) for rank in self.ranks if rank.header}) <= 1

    @property
    def may_lack_its_beginning(self) -> bool:
        """Return whether the run was recorded with --keep."""
        return any(rank.file and rank.file.header.major == FORMAT_MAJOR_KEPT for rank in self.ranks)

    def require_beginning(self, purpose: str) -> None:
        """Raise RunError if the run was recorded with --keep, as `purpose` (such as "weft replay")
        needs its beginning.
        """
        if self.may_lack_its_beginning:
            raise RunError(
                f"{self.path} was recorded with --keep, which drops the beginning of a run: {purpose} needs all of it. "
                "Record the program without --keep, or with --level outcomes, which is whole and small"
            )

    @cached_property
    def event_count(self) -> int:
        """Return the number of recorded calls, without reading them unless some were dropped."""
        if self.suffix is not None:
            return sum(len(thread.events) for rank in self.ranks for thread in rank.threads)
        size = EVENT.itemsize
        return sum(
            r.file.stream_size(StreamKind.EVENTS, t) // size for r in self.ranks if r.file for t in r.file.threads()
        )

    def event(self, rank: int, index: int) -> Event:
        """Return the event [rank index, event index] of a finding."""
        return self.ranks[rank].event(index)

    def findings(self) -> list[Finding]:
        """Return the findings about the run, worst first, as `weft report` prints them."""
        finder = type(self).finder
        if finder is None:
            raise RunError("to analyse a run, open it with weft.open")
        return finder(self)

    def plot(self, **options: Any) -> str:
        """Return an SVG picture of the run or a part of it, which a notebook shows. The options are those of
        weft.picture.svg.draw.

        trace.plot(window="1.2s-3s", ranks="0-7", width=1200)
        """
        painter = type(self).draw_svg
        if painter is None:
            raise RunError("to draw a run, open it with weft.open")
        return painter(self, **options)

    def to_arrow(self, query: str = "") -> Any:
        """Return the calls that fit a filter as a pyarrow.Table, in the order of time. The columns are those that
        `weft dump` writes as Parquet.

        UsageError if pyarrow is missing (`pip install 'weft-debugger[export]'`), or for a query that is not a filter.
        """
        return self._make_table_of("to_arrow", query)

    def to_pandas(self, query: str = "") -> Any:
        """Return the calls that fit a filter as a pandas.DataFrame, with pandas' nullable types for numbers."""
        return self._make_table_of("to_pandas", query)

    def _make_table_of(self, form: str, query: str) -> Any:
        """Return the calls that fit the filter `query` as a table. `form`: the method that makes it, such as
        "to_arrow". RunError unless weft.open opened the run.
        """
        framer = type(self).make_table
        if framer is None:
            raise RunError("to get tables of a run's calls, open it with weft.open")
        return framer(self, form, query)

    def _repr_svg_(self) -> str | None:
        """Return the run's picture, for viewers that show pictures only."""
        return self.plot() if type(self).draw_svg else None

    def _repr_html_(self) -> str | None:
        """Return the HTML that a notebook shows for the run: its numbers, how it ended, and its picture."""
        return self.facts_html() + (self.plot() if type(self).draw_svg else "")

    def facts_html(self) -> str:
        """Return a paragraph of HTML about the run: its numbers and how it ended."""
        from html import escape  # only a notebook asks, and its table of names takes a millisecond

        facts = [_format_count(len(self.ranks), "rank"), _format_count(self.event_count, "call")]
        facts += [ENDED.get(str(self.run.get("ended")), CUT_OFF)]
        states = Counter(rank.state for rank in self.ranks if rank.state != "finalized")
        facts += [f"{count:,} of them {state}" for state, count in sorted(states.items())]
        if (unread := len(self.problems)) > 0:
            facts.append(f"{_format_count(unread, 'problem')} of the record, see .problems")
        return f"<p><b>{escape(self.path.resolve().name)}</b>: {escape(', '.join(facts))}</p>"

    def select(self, query: str, findings: Iterable[Finding] | None = None) -> Iterator[Event]:
        """Yield the events that fit a filter such as `fn:Recv tag:7 rank:0-63 wait>1ms`, rank by rank in order.

        `findings`: the findings among which a term such as `finding:deadlock` selects, for example the result of
        weft.report.analyse.
        """
        from weft.trace.filter import Filter  # only who filters pays for its grammar

        return Filter(query, findings=findings).events(self)


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)
