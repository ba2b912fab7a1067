"""Where editors connect to `weft dap`: a port of this host, or a Unix socket. One is served after the other.

Who connects executes programs as this user. So a peer that the kernel knows to be another user is sent away at once,
and the editor brings a secret with `launch`: what this user did not start reaches a port too, as a browser's page does.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.dap.wire import Wire
from weft.errors import WeftError
from weft.safety.folders import find_weakness
from weft.safety.peers import find_peer_user, is_ours

Serve = Callable[[Wire], None]


@contextmanager
def port(number: int) -> Iterator[socket.socket]:
    """A port of this host that is listened on. WeftError where it cannot be."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", number))
        except OSError as error:
            raise WeftError(f"port {number} cannot be listened on: {error.strerror}; give another --port") from error
        server.listen(16)
        yield server


@contextmanager
def unix_socket(path: Path) -> Iterator[socket.socket]:
    """A socket in the file system that only this user can connect to; gone at the end. WeftError where it cannot be."""
    if why := find_weakness(path):
        raise WeftError(f"--socket {path}: {why}, who could put another socket there; choose a folder of yours")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        before = os.umask(0o177)
        try:
            server.bind(str(path))
        except OSError as error:
            raise WeftError(f"--socket {path} cannot be made: {error.strerror or error}; choose another") from error
        finally:
            os.umask(before)
        try:
            server.listen(16)
            yield server
        finally:
            path.unlink(missing_ok=True)


def answer(server: socket.socket, serve: Serve) -> None:
    """Serve whoever connects, for ever. What one session does to folder and environment is gone with it."""
    told = set[int | None]()
    while True:
        with suppress(OSError):  # a peer that has gone again is no reason to end
            editor, _ = server.accept()
            with editor, as_before():
                if not is_ours(editor):
                    if (
                        user := find_peer_user(editor)
                    ) not in told:  # once: who comes again and again fills no terminal
                        print(f"weft: user {user} has connected, and is sent away", file=sys.stderr, flush=True)
                    told.add(user)
                    continue
                _serve_editor(editor, serve)


def _serve_editor(editor: socket.socket, serve: Serve) -> None:
    """Serve one editor and close its streams.

    No error of a connection that is gone takes the place of what ended `serve`: SIGTERM's SystemExit would be lost.
    """
    source, sink = editor.makefile("rb"), editor.makefile("wb")
    try:
        serve(Wire(source, sink))
    finally:
        with suppress(OSError):
            editor.shutdown(socket.SHUT_RDWR)  # else the thread that reads would be waited for
        for stream in (source, sink):
            with suppress(OSError):
                stream.close()


@contextmanager
def as_before() -> Iterator[None]:
    """Have this process's folder and environment afterwards as they were."""
    home, environment = os.getcwd(), dict(os.environ)  # noqa: PTH109
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(home)
