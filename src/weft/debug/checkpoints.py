"""Checkpoints: replays that wait a little before the current place, so that a way back need not start one.

A checkpoint is a replay like any other: its ranks are stopped at an earlier cut of the run, and a debugger is attached
to the rank in focus. It reaches any later cut by going on, as if it had been started for that cut. Checkpoints are
started in threads while the person looks at the stop, from the first way back of a session on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from weft.base.event_id import EventId
from weft.debug.hands import Hand
from weft.debug.record import Record
from weft.debug.replica import Replica
from weft.errors import WeftError
from weft.replay import Goals

KEPT = 2
"""Checkpoints at a time: a search counts in one replay and stops in another."""
MOST_RANKS = 32
"""Ranks of a run above which none are kept: each is three processes of the program then."""
BEHIND_NS = 50_000_000
CALLS = 64
"""How far behind a rank its checkpoints wait: so much time of the record, and so many calls at most."""
LEAST = 2
"""Calls that they are behind at least, to be there for a search that begins at the last one."""
_OF_MPI = ("ompi", "prte", "pmix", "mpich", "/hydra")
"""Parts of the names of files that MPIs and their launchers keep open."""
Made = tuple[Replica, dict[int, Hand]]


class Checkpoint:
    """One replay that waits, or is on its way to where it waits. `make` starts it, and checks whether it is still
    wanted.
    """

    def __init__(self, goals: Goals, make: Callable[[Checkpoint], Made]) -> None:
        self.goals = dict(goals)
        self.wanted = True
        self.made: Made | None = None
        self.thread = threading.Thread(target=self._start_replay, args=[make], daemon=True)
        self.thread.start()

    def _start_replay(self, make: Callable[[Checkpoint], Made]) -> None:
        with suppress(WeftError, OSError):  # whoever wants it then finds none, and begins one that says why
            self.made = make(self)

    @property
    def usable(self) -> bool:
        """Return whether the replay waits, or is still coming."""
        return self.thread.is_alive() or (self.made is not None and not self.made[0].over)

    def reaches(self, goals: Goals) -> bool:
        """Return whether the replay has not passed the goals of a cut, so that it can go on to it."""
        return all(goal <= goals[thread] for thread, goal in self.goals.items())

    def move_to(self, goals: Goals) -> None:
        """Let the replay go on to a later cut (goals for all threads), and wait there."""
        if self.made is not None:
            self.goals = dict(goals)
            self.made[0].set_goals(goals)


class Stopped(Protocol):
    """The stopped replay for which checkpoints are kept: debug.standing.Standing."""

    record: Record
    replica: Replica
    focus: int
    pulse: Callable[[], None]

    def replay(self, goals: Goals, look: Callable[[], None]) -> Replica:
        """Begin another replay that stops at some goals."""
        ...

    def look_into(self, replica: Replica, rank: int) -> Hand:
        """Return a hand in a rank of a replay."""
        ...

    def cut_before(self, event: EventId) -> Goals:
        """Return how far all ranks get before a call."""
        ...


class Checkpoints:
    """The checkpoints of a session. `asked`: whether a person has gone back, so that they are worth their cost."""

    def __init__(self, standing: Stopped) -> None:
        self._standing = standing
        self.asked = False
        self.kept: list[Checkpoint] = []
        self._ending: list[threading.Thread] = []

    def hand_over(self, goals: Goals) -> Made | None:
        """Hand over a checkpoint that has not passed `goals`: return its replay and the debuggers attached to it. None
        if there is none. The caller then has to end the replay.
        """
        for checkpoint in [one for one in self.kept if one.usable and one.reaches(goals)]:
            while checkpoint.thread.is_alive():
                self._standing.pulse()
                checkpoint.thread.join(0.01)
            self.kept.remove(checkpoint)
            if checkpoint.usable and checkpoint.made is not None:
                return checkpoint.made
            self._drop(checkpoint)
        return None

    def follow_focus(self) -> None:
        """Move the checkpoints so that KEPT of them wait shortly before the place of the rank in focus; start or end
        some if necessary. If the user has never gone back, none are kept.
        """
        goals = self._find_waiting_cut() if self.asked else None
        for checkpoint in list(self.kept):
            if goals is None or not checkpoint.usable or not checkpoint.reaches(self._find_last_useful_cut()):
                self.kept.remove(checkpoint)
                self._drop(checkpoint)
            elif checkpoint.reaches(goals):
                checkpoint.move_to(goals)
        while goals is not None and len(self.kept) < KEPT:
            self.kept.append(Checkpoint(goals, self._start_checkpoint))

    def retire(self, replica: Replica, hands: dict[int, Hand]) -> None:
        """End a replay without waiting for it."""
        self._begin_to_end(lambda: _end(replica, hands))

    def _begin_to_end(self, end: Callable[[], None]) -> None:
        self._ending = [one for one in self._ending if one.is_alive()]
        self._ending.append(threading.Thread(target=end, daemon=True))
        self._ending[-1].start()

    def close(self) -> None:
        """End all checkpoints, and wait until they have ended."""
        for checkpoint in self.kept:
            self._drop(checkpoint)
        self.kept.clear()
        for one in self._ending:
            one.join()

    def _drop(self, checkpoint: Checkpoint) -> None:
        """End a checkpoint that is no longer wanted, without waiting for its end."""
        checkpoint.wanted = False

        def end() -> None:
            checkpoint.thread.join()
            if checkpoint.made is not None:
                _end(*checkpoint.made)

        self._begin_to_end(end)

    def _start_checkpoint(self, checkpoint: Checkpoint) -> Made:
        """Start a replay that runs to the goals of a checkpoint, attach a debugger to the rank in focus, and return
        both. Runs in a thread of its own; WeftError if the checkpoint is no longer wanted.
        """
        standing, rank = self._standing, self._standing.focus

        def look() -> None:
            if not checkpoint.wanted:
                raise WeftError("nobody waits for this replay any more")

        replica = standing.replay(checkpoint.goals, look)
        hands: dict[int, Hand] = {}
        try:
            replica.settle(set, look)
            if replica.alive(rank):
                hands[rank] = standing.look_into(replica, rank)
                with suppress(WeftError):
                    hands[rank].place()  # gdb reads what it needs for that
        except BaseException:
            _end(replica, hands)
            raise
        return replica, hands

    def _find_waiting_cut(self) -> Goals | None:
        """Return the goals at which checkpoints should wait: some calls before the place of the rank in focus. None if
        checkpoints are not worth their cost, as with many ranks.
        """
        standing, record, rank = self._standing, self._standing.record, self._standing.focus
        here = standing.replica.at(rank)
        last = record.entry(rank, min(here, record.entries(rank)) - 1)
        if last is None or record.size > MOST_RANKS or _writes_own_files(standing.replica):
            return None
        position, since = here - LEAST, last.enter_ns - BEHIND_NS
        while position > max(here - CALLS, 0) and (one := record.entry(rank, position)) and one.enter_ns > since:
            position -= 1
        return self._cut_before_call(max(position, 0))

    def _find_last_useful_cut(self) -> Goals:
        """Return the last cut before the rank in focus from which a search backwards can begin."""
        return self._cut_before_call(max(self._standing.replica.at(self._standing.focus) - LEAST, 0))

    def _cut_before_call(self, position: int) -> Goals:
        event = self._standing.record.entry(self._standing.focus, position)
        return self._standing.cut_before(event.id) if event is not None else self._standing.record.start


def _end(replica: Replica, hands: dict[int, Hand]) -> None:
    for hand in hands.values():
        hand.close()
    replica.end()


def _writes_own_files(replica: Replica) -> bool:
    """Return whether a rank has opened a file of the program's own for writing; two replays would then write to it at
    once.
    """
    own = str(replica.folder)
    for control in replica.controls:
        for entry in _open_files(control.pid):
            with suppress(OSError):
                name, flags = str(entry.readlink()), _flags(control.pid, entry.name)
                mine = name.startswith((own, "/dev/", "/proc/")) or name.endswith(" (deleted)")
                if flags & os.O_ACCMODE and entry.is_file() and not mine and not any(p in name for p in _OF_MPI):
                    return True
    return False


def _open_files(pid: int) -> list[Path]:
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/fd").iterdir()) if pid else []
    return []


def _flags(pid: int, number: str) -> int:
    """Return the flags with which a file was opened."""
    line = next(one for one in Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines() if one.startswith("flags"))
    return int(line.split()[1], 8)
