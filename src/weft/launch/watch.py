"""Watch the ranks of a running job, and notice when all of them stand still inside MPI.

Time alone proves nothing (busy machines are slow, and programs compute), so a standstill only raises the question;
weft.deadlock answers it from the record. A standstill is: every rank has begun, each thread that calls MPI, or may, is
inside a call, has ended or sleeps until another thread wakes it, and no byte of any record has changed for QUIET
seconds.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from weft.launch.rank_processes import is_on_this_host, is_writer_alive
from weft.launch.rankfile import Header, RankFileWatch
from weft.trace.layout import State

QUIET = 1.0
QUIET_REMOTE = 60.0
"""Where ranks run on other hosts: a network file system may show their records late (NFS writes back in 30 s)."""
INTERVAL = 0.2
SHARE = 0.01
"""Of one core, at most, for looking."""
RANK_FILE = re.compile(r"^(?P<job>[^-]+)-\d+\.weft$")


class RankWatch:
    """Looks at the rank files of one run again and again."""

    def __init__(self, ranks: Path) -> None:
        self.ranks = ranks
        self.files: dict[str, RankFileWatch] = {}
        self.still_for = 0.0
        """Seconds of watching (not of sleeping) without any movement, with every rank inside MPI."""
        self.left_for = 0.0
        """Seconds of watching in which ranks stood still without a host's: of runs over hosts (launch/local)."""
        self.silent_for = 0.0
        """Seconds of watching in which ranks made no call but polls that failed, wherever they are."""
        self.is_judged = False
        """Whether this standstill was looked into."""
        self.pause = INTERVAL
        self._looked = time.monotonic()
        self._favourite: str | None = None
        self._only_polls = False

    def look_at_ranks(self) -> float:
        """Look once whether the rank files have changed, and return the seconds until the next look. Also update for
        how long no rank has moved."""
        begun, spent = time.monotonic(), time.thread_time()
        # While we were stopped (Ctrl-Z) so was the job: a long gap says nothing about it.
        gap = min(begun - self._looked, 2 * INTERVAL + self.pause)
        self._looked = begun
        silent = self._is_silent()
        self.silent_for = self.silent_for + gap if (silent or self._only_polls) and self.files else 0.0
        self.still_for = self.still_for + gap if silent and self.are_all_inside_mpi() else 0.0
        self.pause = max(INTERVAL, (time.thread_time() - spent) / SHARE)
        return self.pause

    def _is_silent(self) -> bool:
        """Return whether no rank has moved since the last look. Also note whether those that have only polled."""
        self._only_polls = False
        favourite = self.files.get(self._favourite or "")
        # A file that was renamed moves no more, and is found under its new name.
        known = favourite if favourite is not None and favourite.path.exists() and favourite.has_moved() else None
        if known is not None and not known.has_only_polled:
            return False  # one mover is enough: a lively job costs one small read a look
        self._update_files()
        movers = [file for file in self.files.values() if file is known or file.has_moved()]
        busy = [file for file in movers if not file.has_only_polled]
        self._favourite = next((file.path.name for file in busy or movers), None)
        self._only_polls = bool(movers) and not busy
        return not movers

    def look_at_all(self) -> None:
        """Read every rank's newest calls, also while one rank moves (`look_at_ranks` then skips the others)."""
        self._update_files()
        for file in self.files.values():
            file.has_moved()

    def _update_files(self) -> None:
        """Begin to watch the rank files that are new, and forget those that were renamed."""
        try:
            names = {name for name in os.listdir(self.ranks) if name.endswith(".weft")}
        except OSError:
            return
        for name in names - self.files.keys():
            self.files[name] = RankFileWatch(self.ranks / name)
        for name in self.files.keys() - names:
            del self.files[name]

    def find_dead_ranks(self) -> list[Header]:
        """The ranks that ended inside MPI or without leaving it: nobody who waits for them can go on."""
        return [file.header for file in self.files.values() if file.header is not None and _has_died(file)]

    def are_all_inside_mpi(self) -> bool:
        """Return whether only MPI can make the job move on. Every rank of every world has then begun, each is in an
        MPI call or has left MPI or died, and at least one is in a call."""
        return (
            bool(self.files)
            and self.has_all_ranks()
            and all(is_inside_mpi(file) or _has_died(file) for file in self.files.values())
            and any(file.threads_inside_mpi() for file in self.files.values())
        )

    def has_all_ranks(self) -> bool:
        """Return whether all ranks of each world have begun."""
        found: Counter[str] = Counter()
        sizes: dict[str, int] = {}
        for name, file in self.files.items():
            match = RANK_FILE.match(name)
            if match is None or name.startswith("tmp-") or file.header is None:
                return False
            found[match["job"]] += 1
            sizes[match["job"]] = max(sizes.get(match["job"], 0), file.header.world_size)
        return all(0 < sizes[job] <= found[job] for job in sizes)

    @property
    def is_standing_still(self) -> bool:
        """Whether the job has stood still long enough to ask why."""
        return self.still_for >= (QUIET if self.is_local else QUIET_REMOTE)

    @property
    def is_awaiting_verdict(self) -> bool:
        """Whether the job stands still, and it is not known yet whether that is a deadlock."""
        return self.still_for > 0 and not self.is_judged

    @property
    def is_local(self) -> bool:
        """Whether all ranks run on this host."""
        host = os.uname().nodename
        return all(file.header is None or file.header.host == host for file in self.files.values())

    def headers(self) -> list[Header]:
        """The headers as last seen."""
        return [file.header for file in self.files.values() if file.header is not None]

    def has_recorded_events(self) -> bool:
        """Whether the records hold events to judge by."""
        return bool(self.files) and all(file.has_recorded_events for file in self.files.values())


def is_inside_mpi(file: RankFileWatch, waiting_threads: Collection[int] = ()) -> bool:
    """Return whether only MPI can make a rank move on. That is so if each thread that calls MPI is in a call or has
    ended, or if the rank has left MPI or its process is gone.

    `waiting_threads`: kernel ids of threads that are known to be in a call which the record does not show yet.
    """
    header = file.header
    if header is None or header.state in (State.STOPPED, State.ABORTED):
        return False
    if header.over or (is_on_this_host(header) and not Path(f"/proc/{header.pid}").exists()):
        return True
    closed = [thread for thread in file.threads_outside_mpi() if file.kernel_thread_id(thread) not in waiting_threads]
    entered = bool(file.threads_inside_mpi()) or len(closed) < len(list(file.threads_outside_mpi()))
    if not entered or any(may_return_to_mpi(header, thread, file) for thread in closed):
        return False
    if header.other_threads > len(header.other_tids):
        return False  # too many to look at
    return all(file.is_asleep(tid) for tid in header.other_tids)


def _has_died(file: RankFileWatch) -> bool:
    """Return whether the process of a record is gone without having ended its record."""
    header = file.header
    if header is None or header.state in (State.STOPPED, State.FINALIZED):
        return False
    return (not header.over or bool(file.threads_inside_mpi())) and not is_writer_alive(file.path, header)


def may_return_to_mpi(header: Header, thread: int, file: RankFileWatch) -> bool:
    """Return whether a thread that is not inside MPI may come back to it by itself: True unless it certainly has ended,
    or sleeps until another thread wakes it.
    """
    if not is_on_this_host(header):
        return True
    identity = file.kernel_thread_id(thread)
    if identity is None:
        return True
    return Path(f"/proc/{header.pid}/task/{identity}").exists() and not file.is_asleep(identity)
