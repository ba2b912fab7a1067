"""Finish a run directory after the job: trim and pack the records, resolve call sites, write into run.json how the run
ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, Signals
from typing import TYPE_CHECKING

from weft.base.lazy import dataclass
from weft.errors import WeftError
from weft.launch import rank_processes, rundir
from weft.launch.job import Job, list_rank_files
from weft.launch.pvm import installation, task_records
from weft.launch.rankfile import Header, trim_rank_file
from weft.pvm import tasks
from weft.sources import variables
from weft.sources.keep_sources import keep_sources
from weft.trace import Trace, site_lines
from weft.trace.layout import State, StopReason
from weft.trace.packing import pack_records

if TYPE_CHECKING:
    from weft.sources import Frame
    from weft.trace import Trace

REASONS: dict[int, str] = {
    StopReason.DISK_FULL: "the disk was full",
    StopReason.NO_ADDRESS_SPACE: "the limit of its address space was reached (ulimit -v)",
    StopReason.IO_ERROR: "the file system failed to write it (an input/output error)",
    StopReason.DISK_SLOW: "the file system was slow (--in-place waits for it, --local DIR needs it only at the end)",
    StopReason.OVERFLOW: "a counter of the record reached its limit",
}


MANY = 256
"""Records from which on they are put into one file."""
SMALL = 1 << 20
"""Bytes of a record, at most, that is put there."""

FROM_OUTSIDE = frozenset({SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT})
"""Signals that no fault of the program raises."""


@dataclass
class Ending:
    """How a run ended, with the headers of its records."""

    ended: str
    headers: dict[str, Header] = field(default_factory=dict)
    stopped: dict[int, list[int]] = field(default_factory=dict)
    """Ranks whose recording stopped early, by the reason."""

    @property
    def ranks(self) -> int:
        """How many processes were recorded."""
        return len(self.headers)


def finish_run(job: Job) -> Ending:
    """Put a run in order after its job: trim the rank files, and complete run.json's facts in memory. Return how it
    ended."""
    if job.run.facts.get("system") == "pvm":
        installation.remove_machine_folder(job.run.path)
        task_records.close_server_records(job.run.path)
        job.run.facts["names"] = tasks.read_labels(job.run.path)
        job.run.facts["children"] = tasks.read_children(job.run.path)
    files = list_rank_files(job.run)
    headers = {path.name: header for path in files if (header := rank_processes.read_rank_header(path)) is not None}
    trim_records(path for path in files if path.name in headers)
    ending = Ending(classify_ending(job, headers.values()), headers)
    for header in headers.values():
        if header.state is State.STOPPED:
            ending.stopped.setdefault(header.stop_reason, []).append(header.rank)
    facts = job.run.facts
    facts["finished"] = rundir.current_time()
    facts["ranks"] = len(headers)
    facts["ended"] = ending.ended
    facts["exit_code"] = job.process.exit_code
    facts["signal"] = job.process.signal
    facts["interrupted_by"] = Signals(job.interrupting_signal).name if job.interrupting_signal is not None else None
    facts["evidence"] = job.evidence.facts()
    return ending


def pack_small_records(run: Path) -> str | None:
    """Put many small records into one file; large records stay, as copying takes long. Return a problem, None
    for none.
    """
    try:
        pack_records(run, rank_processes.is_record_final, least_records=MANY, largest_bytes=SMALL)
    except (WeftError, OSError) as error:
        return str(error)
    return None


def trim_records(files: Iterable[Path]) -> None:
    """Cut off the unused tails of the records whose processes ended without closing them."""
    for path in files:
        header = rank_processes.read_rank_header(path)
        if header is None or header.state is State.EXITED or rank_processes.is_writer_alive(path, header):
            continue
        try:
            trim_rank_file(path)
        except OSError:
            continue  # a longer file is no worse a record


def classify_ending(job: Job, headers: Iterable[Header]) -> str:
    """Return how a job ended: `finished`, `crashed`, `killed`, `interrupted` or `deadlock`."""
    if job.interrupting_signal is not None:
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


def resolve_sites(path: Path, *, with_source_texts: bool = True, is_own_run: bool = True) -> str | None:
    """Look up the source lines of all call sites on this machine, which has the program, and write them into the run.

    `with_source_texts`: keep the texts of the sources, too. `is_own_run`: whether this user recorded the run; sources
    that another user's run names are not read. Returns a problem, None for none.
    """
    try:
        trace = Trace.open(path)
        site_lines.resolve_sites(trace)
        problems = variables.resolve_variables(trace)
        if is_own_run:
            problems = keep_sources(trace, texts=with_source_texts, further_frames=find_crash_frames(trace)) + problems
    except (OSError, WeftError, ValueError) as error:
        return f"the call sites could not be resolved: {error}"
    return "; ".join(problems) or None


def find_crash_frames(trace: Trace) -> Iterable[Frame]:
    """Yield the stack frames that a report will name for crashes. Their source files are kept with the run, too."""
    ended = [ending for rank in trace.ranks if not rank.missing for ending in rank.endings]
    if ended:
        # Few runs crash, and a stop of a replay is waited for.
        from weft.terms.library_code import is_library_code

        for ending in ended:
            for site in ending.stack:
                if site.known and not is_library_code(site):
                    yield site.file or "", site.line, site.function or ""


def is_hydra_race(job: Job, headers: Iterable[Header]) -> bool:
    """Return whether status 9 comes from the launcher only: hydra killed ranks that had all left MPI already."""
    headers = list(headers)
    return job.process.shell_status in (9, 137) and bool(headers) and all(header.over for header in headers)
