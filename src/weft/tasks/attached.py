"""The backend for a Python program that runs already: loads Weft's agent into it.

An interpreter from Python 3.14 on is asked to run the agent's script; in an older one, the main thread is made to call
it, by ptrace. If neither is possible, gdb makes the call and detaches at once.
"""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

from weft.base.debuggers import REMEDY, find_debuggers
from weft.base.processes import why_not_examinable
from weft.errors import UsageError
from weft.tasks.backend import Stop
from weft.tasks.code_injection import InjectionError, MainThreadCall, RemoteExecution
from weft.tasks.gdb_call import run_script_by_gdb
from weft.tasks.python import AgentConversation
from weft.tasks.rendezvous import Rendezvous

SECONDS = 20.0
"""For the program to let the agent in: one that computes in native code does not, before it is through."""
SOON = 0.5
"""Seconds for one that was asked."""
AGAIN = 75
"""The agent's word for a program that is just importing asyncio."""
PAUSE = 0.02
"""Seconds between two looks whether the main thread stands where it can be given a call."""


class AttachedBackend(AgentConversation):
    """A Python program that ran before the debugger came."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    def start(self) -> Stop:
        """Load the agent while the program keeps running, and return its first stop. UsageError if the system or the
        program does not allow it.
        """
        if why := why_not_examinable(self._pid):
            raise UsageError(f"process {self._pid} cannot be inspected: {why}")
        limit = time.monotonic() + SECONDS
        while (stop := self._start_agent()).code == AGAIN and time.monotonic() < limit:
            self._line.close()
            self._over = None
        if stop.why == "ended":
            raise UsageError(f"process {self._pid} {stop.text or 'ended'}")
        return stop

    def _start_agent(self) -> Stop:
        """Load the agent, and return its first message as a stop."""
        with closing(Rendezvous(self._pid)) as place:
            self._line = self._load_agent(place)
        return self._wait_for_stop(SECONDS)

    def _load_agent(self, rendezvous: Rendezvous) -> socket.socket:
        """Load the agent into the process, and return the socket that is connected to it. Three ways are tried in turn.
        UsageError if none of them works.
        """
        if (line := self._try_remote_execution(rendezvous)) is not None:
            return line
        try:
            line = self._try_main_thread_call(rendezvous)
        except InjectionError as why:
            line = self._try_gdb(rendezvous, str(why))
        if line is None:
            raise UsageError(
                "Weft cannot enter the program: its main thread computes in native code, or waits there for a lock; "
                "try again"
            )
        return line

    def _try_remote_execution(self, rendezvous: Rendezvous) -> socket.socket | None:
        """Ask the interpreter to run the agent's script (PEP 768), and return the agent's socket. None if this
        interpreter cannot be asked, or does not run the script soon.
        """
        way = RemoteExecution(self._pid)
        try:
            way.request_script(rendezvous.script)
        except InjectionError:
            return None
        line = None
        try:
            line = rendezvous.accept(SOON)
        finally:
            way.clean_up(has_arrived=line is not None)
        return line

    def _try_main_thread_call(self, rendezvous: Rendezvous) -> socket.socket | None:
        """Make the main thread call the agent's script at a point where that is safe, and return the agent's socket.
        None if the thread comes to no safe point within SECONDS.
        """
        way = MainThreadCall(self._pid)
        limit = time.monotonic() + SECONDS
        line = None
        try:
            while line is None and time.monotonic() < limit:
                if not way.is_direct:
                    way.request_script(rendezvous.script)
                line = rendezvous.accept(SOON if way.is_given else PAUSE)
        finally:
            way.clean_up(has_arrived=line is not None)
        return line

    def _try_gdb(self, rendezvous: Rendezvous, reason: str) -> socket.socket | None:
        """Let gdb make the program run the agent's script, and return the agent's socket. If that fails, UsageError
        with gdb's own words and with `reason`, which says why the other ways failed.
        """
        known = find_debuggers()
        if not known:
            raise UsageError(f"Weft cannot enter the program: {reason}. With gdb it could: {REMEDY}")
        for gdb in known:
            said = run_script_by_gdb(gdb.path, self._pid, str(rendezvous.script))
            if not said:
                return rendezvous.accept(SECONDS)
        raise UsageError(f"Weft cannot enter the program: {reason}, and gdb says: {said}")

    def _exit_status(self, code: int | None) -> int | None:
        """Wait for the process to end, and return `code` as it is. The exit status of a process that is no child of
        this one cannot be read.
        """
        until = time.monotonic() + 2
        while Path(f"/proc/{self._pid}").exists() and time.monotonic() < until:
            time.sleep(0.02)
        return code

    def output(self) -> str:
        """Return nothing: the program's output goes where it always went."""
        return ""

    def close(self) -> None:
        """Disconnect from the program."""
        if hasattr(self, "_line"):
            self._line.close()
