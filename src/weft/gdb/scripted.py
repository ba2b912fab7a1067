"""Run a gdb with scripts of Weft's, and exchange lines of JSON with it."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.base.debuggers import command, find_gdb
from weft.base.processes import PATIENCE, poll_until_idle, wait_or_kill_idle
from weft.errors import DebuggerError


class ScriptedGdb:
    """A gdb that runs scripts of Weft's: it does what a line of JSON asks, and answers by another.

    The last script defines `weft_serve(asked, answering)`, which reads and writes these file descriptors.
    """

    def __init__(self, settings: Sequence[str], scripts: Sequence[Path]) -> None:
        asked, self._asking = os.pipe()
        self._answers, answering = os.pipe()
        words = [word for script in scripts for word in ("-x", str(script))]
        words += ["-ex", f"python weft_serve({asked}, {answering})"]
        self._gdb = subprocess.Popen(
            [*command(find_gdb() or "gdb", *settings), "--batch", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(asked, answering), start_new_session=True,
        )  # fmt: skip
        os.close(asked)
        os.close(answering)
        self._said = b""

    @property
    def process(self) -> int:
        """Return the number of gdb's process."""
        return self._gdb.pid

    def ask(self, request: str, *arguments: Any) -> None:
        """Send a request to the script in gdb, without waiting for the answer. `request`: the name of what to do.
        DebuggerError if gdb has ended.
        """
        try:
            os.write(self._asking, (json.dumps([request, *arguments]) + "\n").encode())
        except OSError as error:
            raise DebuggerError(f"gdb has gone: {error.strerror}") from error

    def answer(self) -> Any:
        """Wait for the answer to the oldest open request, and return its result. DebuggerError with gdb's words if it
        failed, or if gdb has ended or no longer does anything.
        """
        still = poll_until_idle(self._gdb.pid, PATIENCE)
        while b"\n" not in self._said:
            if not next(still):
                self._gdb.kill()  # the kernel lets go of what it holds
                raise DebuggerError(f"gdb gave no answer within {PATIENCE:.0f} seconds")
            if select.select([self._answers], [], [], 0.1)[0]:
                said = os.read(self._answers, 1 << 16)
                if not said:
                    raise DebuggerError("gdb ended: Weft needs one that was built with Python (weft doctor shows it)")
                self._said += said
        line, _, self._said = self._said.partition(b"\n")
        told = json.loads(line)
        if "error" in told:
            raise DebuggerError(str(told["error"]))
        return told["done"]

    def let_end(self) -> None:
        """Close the pipes, so that gdb detaches from all processes and ends."""
        os.close(self._asking)
        os.close(self._answers)

    def close(self) -> None:
        """Wait until it has ended."""
        wait_or_kill_idle(self._gdb, PATIENCE)
