"""The watcher of a running job: notices when every rank stands still inside MPI.

Time alone proves nothing (busy machines are slow, and programs compute), so a standstill only raises the question;
weft.deadlock answers it from the record. A standstill is: every rank is there, each thread that calls MPI is inside
a call or gone, and not a byte of any record has changed for QUIET seconds.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from weft.launch.rank_processes import alive, here
from weft.launch.rankfile import Header, Watched
from weft.trace.layout import State

QUIET = 1.0
QUIET_REMOTE = 60.0
"""Where ranks run on other hosts: a network file system may show their records late (NFS writes back in 30 s)."""
INTERVAL = 0.2
SHARE = 0.01
"""Of one core, at most, for looking."""
RANK_FILE = re.compile(r"^(?P<job>[^-]+)-\d+\.weft$")


class Watch:
    """Looks at the rank files of one run again and again."""

    def __init__(self, ranks: Path) -> None:
        self.ranks = ranks
        self.files: dict[str, Watched] = {}
        self.still_for = 0.0
        """Seconds of watching (not of sleeping) without any movement, with every rank inside MPI."""
        self.left_for = 0.0
        """Seconds of watching in which ranks stood still without a host's: of runs over hosts (launch/local)."""
        self.silent_for = 0.0
        """Seconds of watching in which no record has changed, wherever its rank is."""
        self.judged = False
        """Whether this standstill was looked into."""
        self.pause = INTERVAL
        self._looked = time.monotonic()
        self._favourite: str | None = None

    def look(self) -> float:
        """Look once; return the seconds to wait before the next look."""
        begun, spent = time.monotonic(), time.thread_time()
        # While we were stopped (Ctrl-Z) so was the job: a long gap says nothing about it.
        gap = min(begun - self._looked, 2 * INTERVAL + self.pause)
        self._looked = begun
        silent = self._nothing_moved()
        self.silent_for = self.silent_for + gap if silent and self.files else 0.0
        self.still_for = self.still_for + gap if silent and self.all_inside() else 0.0
        self.pause = max(INTERVAL, (time.thread_time() - spent) / SHARE)
        return self.pause

    def _nothing_moved(self) -> bool:
        """Whether no rank has moved since the last look."""
        favourite = self.files.get(self._favourite or "")
        # A file that was renamed moves no more, and is found under its new name.
        if favourite is not None and favourite.path.exists() and favourite.moved():
            return False  # one mover is enough: a lively job costs one small read a look
        self._find()
        movers = [name for name, file in self.files.items() if file.moved()]
        self._favourite = movers[0] if movers else None
        return not movers

    def look_at_all(self) -> None:
        """Look at every rank's newest calls, also while one of them moves (`look` then leaves the others unseen)."""
        self._find()
        for file in self.files.values():
            file.moved()

    def _find(self) -> None:
        """Take up new rank files, drop those that were renamed."""
        try:
            names = {name for name in os.listdir(self.ranks) if name.endswith(".weft")}
        except OSError:
            return
        for name in names - self.files.keys():
            self.files[name] = Watched(self.ranks / name)
        for name in self.files.keys() - names:
            del self.files[name]

    def fallen(self) -> list[Header]:
        """The ranks that ended inside MPI or without leaving it: nobody who waits for them can go on."""
        return [file.header for file in self.files.values() if file.header is not None and _has_fallen(file)]

    def all_inside(self) -> bool:
        """Whether every rank of every world is there, and inside MPI or done with it, at least one inside."""
        return (
            bool(self.files)
            and self.complete()
            and all(inside(file) or _has_fallen(file) for file in self.files.values())
            and any(file.open_threads() for file in self.files.values())
        )

    def complete(self) -> bool:
        """Whether each world's ranks have all begun."""
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
    def standstill(self) -> bool:
        """Whether the job has stood still long enough to ask why."""
        return self.still_for >= (QUIET if self.local else QUIET_REMOTE)

    @property
    def in_question(self) -> bool:
        """Whether the job stands still, and it is not known yet whether that is a deadlock."""
        return self.still_for > 0 and not self.judged

    @property
    def local(self) -> bool:
        """Whether all ranks run on this host."""
        host = os.uname().nodename
        return all(file.header is None or file.header.host == host for file in self.files.values())

    def headers(self) -> list[Header]:
        """The headers as last seen."""
        return [file.header for file in self.files.values() if file.header is not None]

    def recorded_events(self) -> bool:
        """Whether the records hold events to judge by."""
        return bool(self.files) and all(file.recorded_events for file in self.files.values())


def inside(file: Watched, waiting: Collection[int] = ()) -> bool:
    """Whether this rank can move only by MPI: all its calling threads are in a call, or gone, or it left MPI.

    `waiting`: threads, by the kernel's ids, that are known to be in a call which the record does not show yet.
    """
    header = file.header
    if header is None or header.state in (State.STOPPED, State.ABORTED):
        return False
    if header.over or (here(header) and not Path(f"/proc/{header.pid}").exists()):
        return True
    closed = [thread for thread in file.closed_threads() if file.thread_identity(thread) not in waiting]
    entered = bool(file.open_threads()) or len(closed) < len(list(file.closed_threads()))
    return entered and not any(running(header, thread, file) for thread in closed)


def _has_fallen(file: Watched) -> bool:
    header = file.header
    if header is None or header.state in (State.STOPPED, State.FINALIZED):
        return False
    return (not header.over or bool(file.open_threads())) and not alive(file.path, header)


def running(header: Header, thread: int, file: Watched) -> bool:
    """Whether a thread that is not inside MPI may still come back to it (it may, unless it surely has ended)."""
    if not here(header):
        return True
    identity = file.thread_identity(thread)
    return identity is None or Path(f"/proc/{header.pid}/task/{identity}").exists()
