"""One process of `weft dap` for the web view: a replay in a process of its own, whose end does not end the view."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from weft.dap.wire import Message, Wire, WireError
from weft.errors import WeftError
from weft.safety.started import own_python

Body = dict[str, Any]
COMMAND: Final = tuple(own_python("-m", "weft.cli.main", "dap"))
SECONDS: Final = 20.0
START_SECONDS: Final = 120.0
"""Until the replay has begun: the record is read, and the program is started."""


class AdapterProcess:
    """Start `weft dap`, send it requests, and receive its events.

    `heard(event, body)` is called for each event; `gone(self)` when the process has ended by itself.
    """

    def __init__(self, heard: Callable[[str, Body], None], gone: Callable[[AdapterProcess], None]) -> None:
        self._on_event, self._on_exit = heard, gone
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._wire = Wire(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        self._answers: dict[int, Message] = {}
        self._request_count, self._has_ended, self._errors = 0, False, b""
        self._came = threading.Condition()
        threading.Thread(target=self._read_messages, name="adapter", daemon=True).start()
        threading.Thread(target=self._read_errors, name="errors", daemon=True).start()

    def _read_messages(self) -> None:
        """Read the messages of the debug adapter until it closes its output, in a thread of its own. Events are passed
        on; responses are stored for `request`.
        """
        with suppress(WireError, OSError, ValueError):
            for message in self._wire.read_messages():
                if message.get("type") == "event":
                    self._on_event(str(message.get("event")), message.get("body") or {})
                    continue
                with self._came:
                    self._answers[int(message["request_seq"])] = message
                    self._came.notify_all()
        with self._came:
            self._has_ended = True
            self._came.notify_all()
        self._on_exit(self)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = (self._errors + line)[-2000:]

    def error_output(self) -> str:
        """Return the last text that the process wrote to its standard error."""
        return self._errors.decode(errors="replace").strip()

    def request(self, command: str, seconds: float = SECONDS, /, **arguments: Any) -> Body:
        """Send a request, and return the body of its response. WeftError if the request fails or times out after
        `seconds`.
        """
        with self._came:
            self._request_count += 1
            number = self._request_count
        self._wire.send("request", command=command, arguments=arguments, seq=number)
        with self._came:
            self._came.wait_for(lambda: number in self._answers or self._has_ended, seconds)
            answer = self._answers.pop(number, None)
        if answer is None:
            what = f"has ended: {self.error_output()}" if self._has_ended else f"has not answered for {seconds:g} s"
            raise WeftError(f"the debugger {what}")
        if not answer.get("success"):
            raise WeftError(str(answer.get("message") or "refused"))
        return dict(answer.get("body") or {})

    def close(self) -> None:
        """End the debug adapter: close its input, and kill it if it does not exit within 15 seconds."""
        self._on_exit = lambda _: None
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
