"""Serve the debugger to VS Code, Neovim, Emacs or any other editor with the Debug Adapter Protocol.

weft dap                 talk to the editor over standard input and output (the editor starts this command)
weft dap --port 4711     listen on this port of this host, for one editor after the other (0: any free port, printed);
                         the secret that is printed (or $WEFT_DAP_SECRET) goes into the launch configuration as "secret"
weft dap --socket PATH   the same on a Unix socket that only you can connect to

The launch configuration of the editor names a recorded run, or a program to record first. A rank is
shown as a thread; a stop stops all ranks; steps back and reverse-continue go back in the record.

VS Code knows the type "weft" by the extension that `make vsix` builds in Weft's sources. Its launch configuration:
{"type": "weft", "request": "launch", "run": "weft-runs/prog-1"}. Other editors: docs/editors.md in Weft's sources.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from weft.cli._said import find_and_report_failures

SECRET = "WEFT_DAP_SECRET"
"""In the environment: what the editor has to send, where the one that starts the adapter chooses it."""


def register(subparsers: Any) -> None:
    """Declare `weft dap` and its options to argparse."""
    parser = subparsers.add_parser(
        "dap", help="serve the debugger to an editor (Debug Adapter Protocol)", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--port", type=parse_port, metavar="PORT", help="listen on PORT instead of standard input")
    where.add_argument("--socket", type=Path, metavar="PATH", help="listen on a Unix socket that only you can use")


def parse_port(text: str) -> int:
    """Return the port number in a text."""
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use 0 to 65535 (0: any free one)")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run `weft dap`: serve the debugger to editors until they leave."""
    if args.socket is not None:
        return listen_on_socket(args.socket)
    return serve_stdio() if args.port is None else listen_on_port(args.port)


def serve_stdio() -> int:
    """Serve one editor, which started this process and talks to it through standard input and output. What else would
    be printed goes to standard error."""
    from weft.dap.wire import Wire

    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    serve_session(Wire(source, sink))
    return 0


def serve_session(wire: Any, secret: str | None = None) -> None:
    """Serve the debugger to one editor over an open connection. `secret`: what the editor must send, if anything."""
    from weft.dap.adapter import Adapter

    Adapter(wire, find_and_report_failures, secret).serve()


def listen_on_port(number: int) -> int:
    """Serve one editor after the other on a port of this host, which is printed. Return the exit status."""
    from weft.dap import listener

    given = os.environ.pop(SECRET, "")  # no program is to find it in its environment
    secret = given or os.urandom(16).hex()
    with listener.listen_on_port(number) as server:
        print(f"weft dap listens on 127.0.0.1:{server.getsockname()[1]}", flush=True)
        if not given:
            print(f'put this into the launch configuration of the editor: "secret": "{secret}"', flush=True)
        listener.serve_connections(server, lambda wire: serve_session(wire, secret))
    return 0


def listen_on_socket(path: Path) -> int:
    """Serve one editor after the other, on a Unix socket that only this user can connect to."""
    from weft.dap import listener

    with listener.listen_on_unix_socket(path) as server:
        print(f"weft dap listens on {path}", flush=True)
        listener.serve_connections(server, serve_session)
    return 0
