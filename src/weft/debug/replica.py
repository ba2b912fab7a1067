"""One running replay under the debugger: a `weft replay` process, whose ranks are driven through their
control pages.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from weft.base.interrupts import deferring_interrupts, has_ended
from weft.debug.record import Position, Record
from weft.errors import WeftError
from weft.launch.watch import RankWatch, is_inside_mpi
from weft.replay import Goals
from weft.replay.control import ControlPage
from weft.replay.driver import write_goals
from weft.replay.holds import HeldSends
from weft.replay.layout import CONTROL_SIZE, ControlState
from weft.replay.pace import QuietTimer, threads_of_ranks
from weft.replay.running import IDLE, SETTLE, is_sure_to_begin
from weft.safety.started import own_python

BEGIN = 60.0
"""Seconds that a program may take to reach MPI_Init (the recorder may be built first)."""
DYING = 10.0
"""Seconds that the launcher has to end the ranks beside one that has died."""
STUCK = 10.0
"""Seconds in which no rank gets on though none has reached its goal."""
TICK = 0.01
AGENT = [
    *(Path(__file__).parent / name for name in ("agent.py", "count_python.py", "trace_threads.py")),
    Path(__file__).parents[1] / "inprocess/thread_callback.py",
]
"""What the recorder executes in a Python rank, and what that executes."""


class Replica:
    """A replay that runs, is stopped or has ended. `folder` is its own (mode 0700) and is removed when it ends."""

    def __init__(
        self, record: Record, folder: Path, goals: Goals, options: Sequence[str], program: Sequence[str],
        *, prepare: Callable[[Path], None], look: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.record = record
        self._held = HeldSends(list(record.holds))
        self.folder = folder
        self.goals: Goals = dict(goals)
        folder.mkdir(mode=0o700)
        for file in AGENT:
            shutil.copy(file, folder / file.name)
        prepare(folder)
        write_goals(folder, {thread: self._held.bound(thread, goal) or 0 for thread, goal in goals.items()})
        self._output = folder / "output.txt"
        self.kept_waiting: frozenset[Position] = frozenset()
        """Threads that are known not to return from the last call before their goals."""
        self._outlived: set[int] = set()
        """Ranks that have died, and with which the launcher did not end the others."""
        self.shown = 0
        """Bytes of the program's output that people have seen: those of a replay that came further are not repeated."""
        command = own_python(
            "-m", "weft.cli.main", "replay", str(record.trace.path.absolute()),
            "--driven", str(folder), "--out", str(folder / "run"), *options, *(["--", *program] if program else []),
        )  # fmt: skip
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.run = folder / "run"
        self.watch = RankWatch(self.run / "ranks")
        self.controls: list[ControlPage] = []
        try:
            self._wait_for_begin(look)
        except BaseException:
            self.end()
            raise

    def _wait_for_begin(self, look: Callable[[], None]) -> None:
        """Wait until every rank has read its plan. Call `look` all the while. WeftError if the replay does not
        start.
        """
        until = time.monotonic() + BEGIN
        files = [self.run / "replay" / f"control-{rank:06d}.bin" for rank in range(self.record.size)]
        while not self.over and time.monotonic() < until:
            if not self.controls and all(file.exists() and file.stat().st_size == CONTROL_SIZE for file in files):
                self.controls = [
                    ControlPage(self.run / "replay", rank, exists=True) for rank in range(self.record.size)
                ]
            if self.controls and all(
                control.state is not ControlState.NEW or self.record.plans[control.rank].spawned
                for control in self.controls
            ):
                return
            look()
            time.sleep(TICK)
        if not self.over:
            raise WeftError(
                f"the replay did not start: after {BEGIN:.0f} seconds the ranks had not "
                f"{self.record.trace.system.entered}"
            )
        if not (self.controls and any(control.pid for control in self.controls)):
            words = self.output().strip().removeprefix("weft: ") or f"status {self.status()}"
            raise WeftError(f"the replay did not start: {words}")

    def agent(self, rank: int) -> Path:
        """Return the socket of the agent in a Python rank."""
        return self.folder / f"rank-{rank}.sock"

    # What it says

    def output(self) -> str:
        """Return what the program has written since the last call of this function."""
        with self._output.open("rb") as file:
            file.seek(self.shown)
            data = file.read()
        self.shown += len(data)
        return data.decode(errors="replace")

    @property
    def over(self) -> bool:
        """Return whether the program has ended."""
        return has_ended(self.process)

    def status(self) -> int | None:
        """Return the exit status of the program if it has ended, else None."""
        with deferring_interrupts():
            return self.process.wait() if self.over else None

    def alive(self, rank: int) -> bool:
        """Tell whether the rank's process exists and has not reached MPI_Finalize."""
        return self.controls[rank].state is not ControlState.ENDED and self.exists(rank)

    def exists(self, rank: int) -> bool:
        """Return whether the rank's process exists and is not a zombie."""
        pid = self.controls[rank].pid
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return bool(pid) and state not in "ZX"

    def at(self, rank: int, slot: int = 0) -> int:
        """Return the number of entries of the plan that a thread has passed."""
        return self.controls[rank].entries_passed(slot)

    def parked(self, rank: int, slot: int = 0) -> bool:
        """Tell whether a thread is parked before its next call."""
        control = self.controls[rank]
        at_goal = control.entries_passed(slot) >= self.goals[rank, slot]
        return control.is_parked(slot) and (at_goal or self._held.find_call_awaited_by(control, slot) is not None)

    def left_record(self) -> list[int]:
        """Return the ranks that do not follow their record."""
        return [c.rank for c in self.controls if c.state in (ControlState.DIVERGED, ControlState.REFUSED)]

    def is_inside_mpi(self, rank: int) -> bool:
        """Return whether all threads of a rank are inside MPI calls."""
        files = [
            f for f in self.watch.files.values() if f.header is not None and f.header.pid == self.controls[rank].pid
        ]
        return bool(files) and all(is_inside_mpi(file, self.controls[rank].threads_awaiting_answer()) for file in files)

    # What it does

    def set_goals(self, goals: Goals, polls: Goals | None = None) -> None:
        """Let each thread run until it has made as many calls as its goal says, and then as many failed polls as
        `polls` says.
        """
        self.goals, self.kept_waiting = dict(goals), frozenset()
        for thread in goals:
            self._set_goal(thread, (polls or {}).get(thread, 0))

    def release_sends(self, at_lines: Collection[int]) -> None:
        """Let sends go that were held back until a call had returned, where a rank is stopped at a line after that
        call. (As it came there, the message must not be there yet.) The next goals count. `at_lines`: such ranks.
        """
        self._held.release_behind_stops(self.controls, at_lines)

    def _set_goal(self, thread: Position, polls: int = 0) -> None:
        """Let a thread run to its goal, or to its first send that is held back."""
        bound = self._held.bound(thread, self.goals[thread])
        self.controls[thread[0]].set_goal(bound, thread[1], polls if bound == self.goals[thread] else 0)

    def freeze(self) -> None:
        """Stop every rank at its next call."""
        self.set_goals({(r, t): self.at(r, t) for r, t in self.goals})

    def settle(self, stopped: Callable[[], set[int]], tick: Callable[[], None], only: int | None = None) -> bool:
        """Wait until every rank is stopped. Return False if the ranks cannot reach their goals or have left the record.
        Ctrl-C stops the ranks where they are.

        `stopped()`: returns the ranks that are stopped at a line of the program. `tick()`: is called now and then while
        ranks run. `only`: wait for this rank alone.
        """
        quiet_for = QuietTimer(lambda: threads_of_ranks(self.controls) if self.watch.is_local else ())
        while True:
            at_lines = stopped()
            if self.over or self.left_record():
                return not self.left_record()
            quiet = quiet_for.seconds_without_progress(
                ([control.progress() for control in self.controls], at_lines), time.monotonic()
            )
            self.watch.look_at_all()
            for thread in self._held.release(self.controls, quiet, at_lines) if self._held.holds else ():
                self._set_goal(thread)
            rest = [t for t in self.record.threads if t[0] not in at_lines and not self._is_stopped(t, at_lines)]
            if not any(self.alive(rank) for rank in range(self.record.size)):
                until = time.monotonic() + 5
                while not self.over and time.monotonic() < until:
                    time.sleep(TICK)
                return True
            stand = not any(only in (None, rank) for rank, _ in rest) or self._are_blocked_in_calls(rest, quiet)
            if stand and not self._is_falling_apart(quiet):
                return True
            if self._will_not_reach_goals(rest, quiet):
                return False
            tick()
            time.sleep(TICK if quiet else TICK / 10)

    def _are_blocked_in_calls(self, threads: Sequence[Position], quiet: float) -> bool:
        """Return whether all these threads are blocked although Weft has not stopped them: in the last call before
        their goal, or waiting for another thread. `quiet`: seconds without progress.
        """
        return (quiet > SETTLE or self.kept_waiting.issuperset(threads)) and all(
            self._in_last_call(t) or self._awaits_other_thread(t) for t in threads
        )

    def _will_not_reach_goals(self, threads: Sequence[Position], quiet: float) -> bool:
        """Return whether these threads have made no progress for so long that they will not reach their goals. `quiet`:
        seconds without progress.
        """
        if quiet > IDLE and all(self.parked(*t) or self.controls[t[0]].is_polling(t[1]) for t in threads):
            return True
        return quiet > STUCK and all(self.is_inside_mpi(r) or self.controls[r].is_polling() for r, _ in threads)

    def _is_falling_apart(self, quiet: float) -> bool:
        """Return whether the launcher is likely about to end all ranks, because one has just died early. `quiet`:
        seconds without progress.
        """
        dead = {
            rank for rank, control in enumerate(self.controls)
            if control.pid and control.state is not ControlState.ENDED and not self.exists(rank)
        }  # fmt: skip
        if quiet > DYING:
            self._outlived |= dead
        return not dead <= self._outlived

    def _is_stopped(self, thread: Position, at_lines: Collection[int]) -> bool:
        """Return whether a thread is stopped at its goal or before a send that cannot go yet, has ended, or has not
        begun yet. `at_lines`: the ranks that are stopped at lines.
        """
        rank, slot = thread
        control = self.controls[rank]
        if not control.pid:
            return not is_sure_to_begin(self.controls, self.record.plans, rank)
        awaited = self._held.find_call_awaited_by(control, slot)
        if awaited is not None and control.entries_passed(slot) < self.goals[thread]:
            return awaited[0] in at_lines or self._is_stopped(awaited, at_lines)
        if not self.alive(rank) or self.parked(rank, slot):
            return True
        made = self.record.plans[rank].threads[slot].made
        return made != 0 and (not control.thread_id(slot) or control.has_ended(slot))  # not made yet, or ended

    def _awaits_other_thread(self, thread: Position) -> bool:
        """Return whether a thread outside of MPI sleeps while another thread of its process is stopped, as in
        pthread_join.
        """
        rank, slot = thread
        others = range(len(self.record.plans[rank].threads))
        if not any(self.parked(rank, other) for other in others if other != slot):
            return False
        return self.controls[rank].is_asleep(slot)

    def _in_last_call(self, thread: Position) -> bool:
        rank, slot = thread
        return self.at(rank, slot) >= self.goals[thread] and self.is_inside_mpi(rank)

    def end(self) -> None:
        """End the replay with all its ranks, by force after 8 s, and remove its folder. Does nothing the second
        time.
        """
        if not self.folder.exists():
            return
        (self.folder / "end").touch()
        try:
            self.process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
