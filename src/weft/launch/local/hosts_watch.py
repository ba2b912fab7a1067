"""Notice a standstill over several hosts by their watchers' reports, and prove deadlocks from copies of their records.

The copies of several hosts are from different moments. They show one state all the same if no host has seen a rank move
from before the first copy was requested until after the proof was found: each host is asked once more then.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress

from weft.launch.deadlock_check import DeadlockCheck
from weft.launch.local.hosts import STANDSTILL, Hosts, HostsProgress
from weft.launch.rundir import RUN_JSON
from weft.launch.watch import INTERVAL, QUIET, RankWatch


class HostsWatch(RankWatch):
    """Watches all ranks of a run by what their hosts report."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__(hosts.run.ranks)
        self.hosts = hosts
        self._seen: HostsProgress | None = None

    def look_at_ranks(self) -> float:
        """Handle what the hosts have reported about their ranks, and return the seconds until the next look."""
        begun = time.monotonic()
        gap = min(begun - self._looked, 3 * INTERVAL)
        self._looked = begun
        self.hosts.handle_arrivals()
        cut = bool(self.hosts.unreachable)
        now = self.hosts.progress(reachable_only=cut)
        silent = now is not None and self._seen is not None and now.moves == self._seen.moves
        self._seen = now
        self.silent_for = self.silent_for + gap if silent else 0.0
        self.still_for = self.still_for + gap if silent and not cut and self.are_all_inside_mpi() else 0.0
        self.left_for = self.left_for + gap if silent and cut and now is not None and now.inside else 0.0
        return INTERVAL

    def are_all_inside_mpi(self) -> bool:
        """Return whether every rank of every world has begun, and is inside MPI or has left it, at least one inside."""
        return self._seen is not None and self._seen.complete and self._seen.inside

    @property
    def is_standing_still(self) -> bool:
        """Return whether the job has not moved for QUIET seconds, which is long enough to look for a deadlock. No time
        is added for a slow network disk, as each host reads its own disk.
        """
        return self.still_for >= QUIET

    def has_recorded_events(self) -> bool:
        """Whether the records hold events to judge by."""
        return self._seen is not None and self._seen.events


class HostsDeadlockCheck:
    """A running check whether a standstill over several hosts is a deadlock."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._before = hosts.progress()
        self._folder = hosts.run.path / STANDSTILL
        for host in hosts.hosts:
            host.snapshot = None
        self._copies = hosts.send_command("snapshot")
        self._question: DeadlockCheck | None = None
        self._proof: list[str] | None = None
        self._again = 0

    def poll_deadlocks(self) -> list[str] | None:
        """Return the messages of the certain deadlocks. None while the check runs; an empty list if no deadlock is
        proven.
        """
        if self._question is None:
            if self._hosts.has_been_done(self._copies):
                self._merge_snapshots()
                self._question = DeadlockCheck(self._folder)
            return None
        if self._proof is None:
            self._proof = self._question.poll_deadlocks()
            if self._proof:
                self._again = self._hosts.send_command("look")
            return [] if self._proof == [] else None
        if not self._hosts.has_been_done(self._again):
            return None
        now = self._hosts.progress()
        same = now is not None and self._before is not None and now.moves == self._before.moves
        return self._proof if same else []

    def _merge_snapshots(self) -> None:
        """Move the copies of the records that all hosts have sent into one run folder. What is missing in a copy is
        missing there, too: it proves nothing."""
        ranks = self._folder / "ranks"
        shutil.rmtree(ranks, ignore_errors=True)
        ranks.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # a copy that is not whole proves nothing: its ranks are missing then
            for name in (RUN_JSON, "functions.json"):
                shutil.copyfile(self._hosts.run.path / name, self._folder / name)
            for host in self._hosts.hosts:
                for path in sorted((host.snapshot.folder / "ranks").glob("*.weft")) if host.snapshot else ():
                    path.rename(ranks / path.name)

    def cancel(self) -> None:
        """Stop the check, as the job has moved or ended."""
        if self._question is not None:
            self._question.cancel()
