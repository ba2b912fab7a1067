"""The backend for a Python program that runs already: it loads Weft's agent.

An interpreter from 3.14 on is asked to; else its main thread is given a call to make, by ptrace. Where neither can be,
gdb has it do so, and lets go of it at once.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

from weft.base.debuggers import REMEDY, find_debuggers
from weft.base.processes import refusal
from weft.errors import UsageError
from weft.tasks.backend import Stop
from weft.tasks.gdb_call import called_by
from weft.tasks.injected import Asked, Called, NoWayError
from weft.tasks.python import Conversation
from weft.tasks.rendezvous import Rendezvous

SECONDS = 20.0
"""For the program to let the agent in: one that computes in native code does not, before it is through."""
SOON = 0.5
"""Seconds for one that was asked."""
AGAIN = 75
"""The agent's word for a program that is just importing asyncio."""
PAUSE = 0.02
"""Seconds between two looks whether the main thread stands where it can be given a call."""


class AttachedBackend(Conversation):
    """A Python program that runs already."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    def start(self) -> Stop:
        """Have the agent come; the program runs on meanwhile. UsageError where the system or the program forbids it."""
        if why := refusal(self._pid):
            raise UsageError(f"process {self._pid} is not looked into: {why}")
        limit = time.monotonic() + SECONDS
        while (stop := self._visit()).code == AGAIN and time.monotonic() < limit:
            self._line.close()
            self._over = None
        if stop.why == "ended":
            raise UsageError(f"process {self._pid} {stop.text or 'ended'}")
        return stop

    def _visit(self) -> Stop:
        """What the agent says first, where it comes."""
        with closing(Rendezvous(self._pid)) as place:
            self._line = self._come(place)
        return self._stop(SECONDS)

    def _come(self, place: Rendezvous) -> socket.socket:
        """The agent's line: the interpreter is asked, else its main thread calls it, else gdb has it do so."""
        if (line := self._asked(place)) is not None:
            return line
        try:
            line = self._called(place)
        except NoWayError as why:
            line = self._by_gdb(place, str(why))
        if line is None:
            raise UsageError(
                "the program does not let Weft in: its main thread computes in native code, or waits there for a lock"
            )
        return line

    def _asked(self, place: Rendezvous) -> socket.socket | None:
        """Who comes where the interpreter was asked; None where it cannot be, or does not come to it soon."""
        way = Asked(self._pid)
        try:
            way.enter(place.script)
        except NoWayError:
            return None
        line = None
        try:
            line = place.accept(SOON)
        finally:
            way.withdraw(came=line is not None)
        return line

    def _called(self, place: Rendezvous) -> socket.socket | None:
        """Who comes where the main thread makes the call, once it stands at a place for that."""
        way = Called(self._pid)
        limit = time.monotonic() + SECONDS
        line = None
        try:
            while line is None and time.monotonic() < limit:
                if not way.direct:
                    way.enter(place.script)
                line = place.accept(SOON if way.given else PAUSE)
        finally:
            way.withdraw(came=line is not None)
        return line

    def _by_gdb(self, place: Rendezvous, why: str) -> socket.socket | None:
        """Who comes where gdb had the program make the call. UsageError with gdb's own words where it cannot."""
        known = find_debuggers()
        if not known:
            raise UsageError(f"{why}; gdb brings Weft into a program: {REMEDY}")
        for gdb in known:
            said = called_by(gdb.path, self._pid, str(place.script))
            if not said:
                return place.accept(SECONDS)
        raise UsageError(f"the program does not let Weft in: {why}, and gdb says: {said}")

    def _status(self, code: int | None) -> int | None:
        """The status of another's child is not ours to know."""
        until = time.monotonic() + 2
        while Path(f"/proc/{self._pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)
        return code

    def output(self) -> str:
        """What it writes goes where it always went."""
        return ""

    def close(self) -> None:
        """Leave the program."""
        if hasattr(self, "_line"):
            self._line.close()
