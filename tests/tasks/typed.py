"""Types at the console of `weft tasks`, in a process of its own, as a person or a machine does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
PATIENCE = 90
"""Seconds that one command may take."""


class Wrong(Exception):
    """An answer that cannot be right."""


class Refused(Wrong):
    """A command that was not done."""


class Typed:
    """`weft tasks` in a process of its own, as a terminal has it: all that Ctrl-C reaches is one group."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "weft.cli.main", "tasks", "--format", "json", "--timeout", "60", "--", *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip
        self.said: list[str] = []
        self.output = ""
        self.refused = False
        self._held = b""
        self.read()

    def read(self) -> Answer:
        """The next answer. Wrong where none came, or a refusal."""
        assert self._process.stdout is not None
        until = time.monotonic() + PATIENCE
        while b"\n" not in self._held:
            if not select.select([self._process.stdout], [], [], max(until - time.monotonic(), 0))[0]:
                raise Wrong("no answer")
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                raise Wrong(f"the console has ended: {self.errors()}")
            self._held += more
        line, _, self._held = self._held.partition(b"\n")
        told = json.loads(line)
        self.output += told["output"]
        if not told["ok"]:
            self.refused = True
            raise Refused(told["error"])
        answer: Answer = told["answer"]
        return answer

    def type(self, command: str) -> None:
        """Type a line."""
        assert self._process.stdin is not None
        self.said.append(command)
        self._process.stdin.write(f"{command}\n".encode())

    def do(self, command: str) -> Answer:
        """A command and its answer."""
        self.type(command)
        answer = self.read()
        if answer["kind"] == "stopped":
            self.said[-1] += f" -> {brief(answer)}"
        return answer

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.said.append("^C")
        os.killpg(self._process.pid, signal.SIGINT)

    def errors(self) -> str:
        """What it said beside its answers."""
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()[-2000:]

    def quit(self) -> None:
        """Leave. Wrong where that is not what happens."""
        self.type("quit")
        status, errors = self._process.wait(30), self.errors()
        if status != self.refused or errors:
            raise Wrong(f"quit: status {status}, {errors}")

    def close(self) -> None:
        """End it if it has not ended."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def brief(stop: Answer) -> str:
    """A stop in few words."""
    at = f"{Path(stop['at']['file']).name}:{stop['at']['line']} {stop['at']['function']}" if stop["at"] else "nowhere"
    return f"{stop['why']} task {stop['task']} at {at}"
