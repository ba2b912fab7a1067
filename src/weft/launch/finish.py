"""After the run: the record made small and whole, and run.json told how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, Signals
from typing import TYPE_CHECKING

from weft.base.lazy import dataclass
from weft.errors import WeftError
from weft.launch import rundir, survivors
from weft.launch.job import Job, rank_files
from weft.launch.pvm import place, records
from weft.launch.rankfile import Header, trim
from weft.pvm import tasks
from weft.sources import variables
from weft.sources.keep import keep
from weft.trace import Trace, site_lines
from weft.trace.layout import State, StopReason
from weft.trace.packing import pack

if TYPE_CHECKING:
    from weft.sources import Frame
    from weft.trace import Trace

REASONS: dict[int, str] = {
    StopReason.DISK_FULL: "the disk was full",
    StopReason.NO_ADDRESS_SPACE: "its address space was used up (ulimit -v)",
    StopReason.IO_ERROR: "the file system gave an error",
    StopReason.DISK_SLOW: "the file system was slow (--in-place waits for it, --local DIR needs it only at the end)",
    StopReason.OVERFLOW: "a counter of the record was used up",
}


MANY = 256
"""Records from which on they are put into one file."""
SMALL = 1 << 20
"""Bytes of a record, at most, that is put there."""

FROM_OUTSIDE = frozenset({SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
"""Signals that no fault of the program raises."""


@dataclass
class Ending:
    """How a run ended."""

    ended: str
    headers: dict[str, Header] = field(default_factory=dict)
    stopped: dict[int, list[int]] = field(default_factory=dict)
    """Ranks whose recording stopped early, by the reason."""

    @property
    def ranks(self) -> int:
        """How many processes were recorded."""
        return len(self.headers)


def finish(job: Job) -> Ending:
    """Trim the rank files, write run.json, and say how the run ended."""
    if job.run.facts.get("system") == "pvm":
        place.clean(job.run.path)
        records.close_servers(job.run.path)
        job.run.facts["names"] = tasks.read_labels(job.run.path)
        job.run.facts["children"] = tasks.read_children(job.run.path)
    files = rank_files(job.run)
    headers = {path.name: header for path in files if (header := survivors.read(path)) is not None}
    tidy(path for path in files if path.name in headers)
    ending = Ending(how_ended(job, headers.values()), headers)
    for header in headers.values():
        if header.state is State.STOPPED:
            ending.stopped.setdefault(header.stop_reason, []).append(header.rank)
    facts = job.run.facts
    facts["finished"] = rundir.now()
    facts["ranks"] = len(headers)
    facts["ended"] = ending.ended
    facts["exit_code"] = job.process.exit_code
    facts["signal"] = job.process.signal
    facts["interrupted_by"] = Signals(job.interrupted).name if job.interrupted is not None else None
    facts["evidence"] = job.evidence.facts()
    return ending


def packed(run: Path) -> str | None:
    """Put many small records into one file; returns what went wrong. Large ones stay: to copy them would take long."""
    try:
        pack(run, survivors.is_over, least=MANY, largest=SMALL)
    except (WeftError, OSError) as error:
        return str(error)
    return None


def tidy(files: Iterable[Path]) -> None:
    """Cut the unused tails of files whose process is gone without closing them."""
    for path in files:
        header = survivors.read(path)
        if header is None or header.state is State.EXITED or survivors.alive(path, header):
            continue
        try:
            trim(path)
        except OSError:
            continue  # a longer file is no worse a record


def how_ended(job: Job, headers: Iterable[Header]) -> str:
    """Tell finished, crashed, killed, interrupted and deadlock apart."""
    if job.interrupted is not None:
        return "interrupted"
    if job.ended is not None:
        return job.ended
    status = job.process.shell_status
    headers = list(headers)
    if any(header.state is State.ABORTED for header in headers):
        return "crashed"  # with MPI_Abort(comm, 0) the status is 0
    if status == 0:
        return "finished"
    if job.process.signal in FROM_OUTSIDE:
        return "killed"
    whole = all(header.over or header.state is State.STOPPED for header in headers)
    return "crashed" if job.process.signal is not None or not whole else "finished"


def resolve_sites(path: Path, *, texts: bool = True, ours: bool = True) -> str | None:
    """Write down where the calls stand in the source and what stands there, on the machine that has it.

    `ours`: whether this user recorded the run. No source that another one's merely names is read. Returns what went
    wrong.
    """
    try:
        trace = Trace.open(path)
        site_lines.resolve(trace)
        problems = variables.resolve(trace)
        if ours:
            problems = keep(trace, texts=texts, more=told_places(trace)) + problems
    except (OSError, WeftError, ValueError) as error:
        return f"the call sites could not be resolved: {error}"
    return "; ".join(problems) or None


def told_places(trace: Trace) -> Iterable[Frame]:
    """Places besides the calls and their callers that a report names: their source is kept too."""
    ended = [ending for rank in trace.ranks if not rank.missing for ending in rank.endings]
    if ended:
        # Few runs crash, and a stop of a replay is waited for.
        from weft.terms.libraries import library_code

        for ending in ended:
            for site in ending.stack:
                if site.known and not library_code(site):
                    yield site.file or "", site.line, site.function or ""


def hydra_race(job: Job, headers: Iterable[Header]) -> bool:
    """Whether status 9 is the launcher's own doing: it killed ranks that had all left MPI already."""
    headers = list(headers)
    return job.process.shell_status in (9, 137) and bool(headers) and all(header.over for header in headers)
