"""Sockets on which editors connect to `weft dap`: a TCP port of this host, or a Unix socket. One editor is served at a
time.

Whoever connects executes programs as this user. Therefore a peer that the kernel knows to be another user is refused at
once, and the editor brings a secret with `launch`: a port can also be reached by pages in a browser.
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
def listen_on_port(port: int) -> Iterator[socket.socket]:
    """During a `with` block, listen on a port of the loopback interface; the block gets the socket. WeftError if that
    is not possible.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", port))
        except OSError as error:
            raise WeftError(f"port {port} is not available: {error.strerror}; choose another --port") from error
        server.listen(16)
        yield server


@contextmanager
def listen_on_unix_socket(path: Path) -> Iterator[socket.socket]:
    """During a `with` block, listen on a Unix socket that only this user can connect to; the block gets the socket. Its
    file is removed at the end. WeftError if the folder is not safe or the socket cannot be made.
    """
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


def serve_connections(server: socket.socket, serve: Serve) -> None:
    """Accept editors one after the other, and call `serve` with each connection; never returns. Working folder and
    environment are restored after each session.
    """
    told = set[int | None]()
    while True:
        with suppress(OSError):  # a peer that has gone again is no reason to end
            editor, _ = server.accept()
            with editor, restored_environment():
                if not is_ours(editor):
                    if (
                        user := find_peer_user(editor)
                    ) not in told:  # once: who comes again and again fills no terminal
                        print(f"weft: user {user} tried to connect, and was refused", file=sys.stderr, flush=True)
                    told.add(user)
                    continue
                _serve_editor(editor, serve)


def _serve_editor(editor: socket.socket, serve: Serve) -> None:
    """Call `serve` with the connection of an editor, and close it afterwards. Errors of a lost connection do not
    replace an exception that `serve` raises, such as the SystemExit of SIGTERM.
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
def restored_environment() -> Iterator[None]:
    """Restore the working folder and the environment of this process at the end of a `with` block."""
    home, environment = os.getcwd(), dict(os.environ)  # noqa: PTH109
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(home)
