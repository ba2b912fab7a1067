"""Keeps a process that has read what a replay needs, and forks one for each request: no start of Python for each.

    python -m weft.cli._warm RUN      a line of JSON a request on standard input, a line an answer on standard output

RUN is examined once, so that all that this takes is read. A request: {"id": N, "words": [...], "out": FILE,
"err": FILE}, words as after `weft`. The answer: {"id": N, "status": S}. It has one thread, so that its children are
whole, and ends them when its standard input ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select
from typing import Any

from weft.errors import WeftError

_NEEDED = (
    "weft.cli._complete", "weft.cli.main", "weft.cli.replay", "weft.cli._replayed", "weft.launch.plan",
    "weft.launch.recorder", "weft.order", "weft.report.registry", "weft.sources.keep_sources", "weft.sources.variables",
    "weft.trace.site_lines",
)  # fmt: skip
FAILED = 70
"""The status of a child that could not run the command (sysexits.h: an internal error)."""


class ForkedCommands:
    """The commands that run, by process."""

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}

    def fork_command(self, request: dict[str, Any]) -> None:
        """Fork a process that runs the command of a request."""
        child = os.fork()
        if child == 0:
            os._exit(_run_in_child(request))
        self.ids[child] = int(request["id"])

    def collect_ended(self) -> list[dict[str, int]]:
        """Return the answers to the requests whose commands have ended since the last call."""
        found = []
        while self.ids:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                break
            if child in self.ids:
                found.append({"id": self.ids.pop(child), "status": os.waitstatus_to_exitcode(status)})
        return found

    def stop(self) -> None:
        """Interrupt all commands, as Ctrl-C does, and wait for them."""
        for child in self.ids:
            os.kill(child, signal.SIGINT)
        for child in self.ids:
            os.waitpid(child, 0)


def _run_in_child(request: dict[str, Any]) -> int:
    """Run the command of a request in this forked process, with its output in files. Return its exit status."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for target, flags, path in (
            (0, os.O_RDONLY, os.devnull),
            (1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, request["out"]),
            (2, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, request["err"]),
        ):
            opened = os.open(path, flags, 0o600)
            os.dup2(opened, target)
            os.close(opened)
        from weft.cli.main import main

        status = main(request["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # whatever it was: the parent goes on, and the child must not become a second one
        os.write(2, f"weft: {error!r}\n".encode())
        return FAILED
    return status


def fill_caches(run: Path) -> None:
    """Analyse a run as a replay would, so that all modules are imported and all caches filled before the first
    request."""
    import weft
    from weft.launch.finish import find_crash_frames
    from weft.match import match_operations
    from weft.replay import make_plans
    from weft.report import run_analyses
    from weft.sources.variables import look_up_variables

    with suppress(WeftError):  # a request to replay it reports the error
        trace = weft.open(run)
        make_plans(trace, match_operations(trace))
        list(find_crash_frames(trace))
        run_analyses(trace)
        look_up_variables(trace)


def serve() -> None:
    """Serve requests from standard input, each a line of JSON, until it ends. Every request is run by a forked
    process; how it ended is written to standard output."""
    for name in _NEEDED:
        import_module(name)
    fill_caches(Path(sys.argv[1]))
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the children get it, too, and are waited for
    children, left = ForkedCommands(), b""
    while True:
        readable, _, _ = select([0, near.fileno()], [], [])
        if near.fileno() in readable:
            near.recv(4096)
        for answer in children.collect_ended():
            os.write(1, json.dumps(answer).encode() + b"\n")
        if 0 in readable:
            data = os.read(0, 65536)
            if not data:
                return children.stop()
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                children.fork_command(json.loads(line))


if __name__ == "__main__":
    serve()
