"""Check in a process of its own whether a standstill is a deadlock, so that the watcher keeps forwarding signals.

`python -m weft.launch.deadlock_check RUN PID...` prints the certain deadlocks of a run as a JSON list of messages; the
processes PID are known to have ended, though their records do not show it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import IO, Any, Protocol


class StandstillCheck(Protocol):
    """A running check of a standstill, on one host or several."""

    def poll_deadlocks(self) -> list[str] | None:
        """Return the messages of the certain deadlocks, an empty list for no proof, None while the check runs."""

    def cancel(self) -> None:
        """Stop the check, as the job has moved or ended."""


class DeadlockCheck:
    """A running check of a standstill, in a process of its own."""

    def __init__(self, run: Path, fallen: Iterable[int] = ()) -> None:
        # Few runs stand still.
        import tempfile

        from weft.safety.started import own_python

        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the question; a pipe would block a long answer
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self._judge = subprocess.Popen(
            own_python("-m", "weft.launch.deadlock_check", str(run), *map(str, fallen)),
            stdin=subprocess.DEVNULL, stdout=self._answer, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip

    def poll_deadlocks(self) -> list[str] | None:
        """Return the messages of the certain deadlocks. None while the check runs; an empty list if no deadlock is
        proven.
        """
        if self._judge.poll() is None:
            return None
        self._answer.seek(0)
        try:
            found = json.loads(self._answer.read())
        except ValueError:  # the analysis failed: then there is no proof
            return []
        return [str(message) for message in found]

    def cancel(self) -> None:
        """Stop the process that checks for a deadlock, as the job has moved or ended."""
        if self._judge.poll() is None:
            self._judge.kill()
        self._judge.wait()
        self._answer.close()


def find_certain_deadlocks(run: Path, dead_pids: Collection[int] = ()) -> list[Any]:
    """Return the findings that prove a run deadlocked. Only MPI can make its ranks move on. `dead_pids`: processes that
    have ended without leaving MPI.
    """
    # `weft run` imports this module before the program starts; the analysis runs in a process of its own.
    from weft.deadlock import find
    from weft.trace import Trace

    trace = Trace.open(run)
    gone = [r.index for r in trace.ranks if r.header is not None and r.header.pid in dead_pids]
    findings = find(trace, gone, is_seen=True)
    return [one for one in findings if one.kind == "deadlock" and one.certainty == "certain"]


def main() -> int:
    """Print the messages of the certain deadlocks of a run as JSON; the arguments are the run and the pids of dead
    processes."""
    run, *fallen = sys.argv[1:]
    print(json.dumps([finding.message for finding in find_certain_deadlocks(Path(run), frozenset(map(int, fallen)))]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
