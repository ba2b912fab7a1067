"""Is a standstill over hosts a deadlock? Seen by their watchers, proven from copies of their records.

The copies of several hosts are of different moments. They are of one state all the same where no host has seen a rank
move from before the first copy was asked for until after the proof was there: each is asked once more then.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress

from weft.launch.deadlock_check import Question
from weft.launch.local.hosts import STANDSTILL, Hosts, Progress
from weft.launch.rundir import RUN_JSON
from weft.launch.watch import INTERVAL, QUIET, Watch


class HostsWatch(Watch):
    """Looks at all ranks of a run by what their hosts tell."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__(hosts.run.ranks)
        self.hosts = hosts
        self._seen: Progress | None = None

    def look(self) -> float:
        """Take what has come in; return the seconds to wait before the next look."""
        begun = time.monotonic()
        gap = min(begun - self._looked, 3 * INTERVAL)
        self._looked = begun
        self.hosts.poll()
        cut = bool(self.hosts.unreachable)
        now = self.hosts.progress(of_the_rest=cut)
        silent = now is not None and self._seen is not None and now.moves == self._seen.moves
        self._seen = now
        self.silent_for = self.silent_for + gap if silent else 0.0
        self.still_for = self.still_for + gap if silent and not cut and self.all_inside() else 0.0
        self.left_for = self.left_for + gap if silent and cut and now is not None and now.inside else 0.0
        return INTERVAL

    def all_inside(self) -> bool:
        """Whether every rank of every world is there, and inside MPI or done with it, at least one inside."""
        return self._seen is not None and self._seen.complete and self._seen.inside

    @property
    def standstill(self) -> bool:
        """Whether the job has stood still long enough to ask why: each host sees its own disk at once."""
        return self.still_for >= QUIET

    def recorded_events(self) -> bool:
        """Whether the records hold events to judge by."""
        return self._seen is not None and self._seen.events


class HostsQuestion:
    """One standstill, being judged."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._before = hosts.progress()
        self._folder = hosts.run.path / STANDSTILL
        for host in hosts.hosts:
            host.snapshot = None
        self._copies = hosts.ask("snapshot")
        self._question: Question | None = None
        self._proof: list[str] | None = None
        self._again = 0

    def answer(self) -> list[str] | None:
        """As of `Question`: the proof, none where there is none, None while it is not known."""
        if self._question is None:
            if self._hosts.heard(self._copies):
                self._put_together()
                self._question = Question(self._folder)
            return None
        if self._proof is None:
            self._proof = self._question.answer()
            if self._proof:
                self._again = self._hosts.ask("look")
            return [] if self._proof == [] else None
        if not self._hosts.heard(self._again):
            return None
        now = self._hosts.progress()
        same = now is not None and self._before is not None and now.moves == self._before.moves
        return self._proof if same else []

    def _put_together(self) -> None:
        """One run of all copies."""
        ranks = self._folder / "ranks"
        shutil.rmtree(ranks, ignore_errors=True)
        ranks.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # a copy that is not whole proves nothing: its ranks are missing then
            for name in (RUN_JSON, "functions.json"):
                shutil.copyfile(self._hosts.run.path / name, self._folder / name)
            for host in self._hosts.hosts:
                for path in sorted((host.snapshot.folder / "ranks").glob("*.weft")) if host.snapshot else ():
                    path.rename(ranks / path.name)

    def drop(self) -> None:
        """Stop asking: the job has moved or ended."""
        if self._question is not None:
            self._question.drop()
