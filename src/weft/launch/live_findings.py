"""Report findings while a job runs: a process of its own (weft.report.live) looks for them, and prints lines."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from weft.safety.started import own_python

LIMIT = "limit: "
"""How a line about a call over the limit begins."""
News = tuple[str, str]
"""A line, and its style."""


class LiveFindings:
    """The process that looks for findings, and its output that has not been reported yet."""

    def __init__(self, run: Path, tell: Callable[[Sequence[News]], None], asked: Sequence[str]) -> None:
        self.over_limit = False
        """Whether a call did not return within --call-limit."""
        self._tell = tell
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the job; a pipe would block
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as above
        self._read = 0
        self._failed = False
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        command = own_python("-m", "weft.report.live", str(run), "--of", str(os.getpid()), *asked)
        # A session of its own: Ctrl-C is the job's.
        self._process = subprocess.Popen(
            command, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._errors, env=environment,
        )  # fmt: skip

    def report_new(self) -> None:
        """Print the findings that the searching process has written since the last call."""
        new = os.pread(self._said.fileno(), 1 << 20, self._read)
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        if whole:
            news = [(str(text), str(style)) for text, style in map(json.loads, whole.splitlines())]
            self.over_limit |= any(text.startswith(LIMIT) for text, _ in news)
            self._tell(news)
        if not self._failed and self._process.poll():
            self._failed = True
            self._tell(
                [
                    (
                        "note: Weft reports findings only at the end, because the analysis during the run failed: "
                        "{self._why()}",
                        "",
                    )
                ]
            )

    def _why(self) -> str:
        lines = os.pread(self._errors.fileno(), 1 << 16, 0).decode(errors="replace").splitlines()
        return lines[-1] if lines else f"status {self._process.returncode}"

    def close(self) -> None:
        """End the process that searches, as the job has ended: the final report has the other findings."""
        self._process.kill()
        self._process.wait()
        self._said.close()
        self._errors.close()
