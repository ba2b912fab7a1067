"""Be the debug adapter of an editor: VS Code, Neovim, Emacs, and all that speak the Debug Adapter Protocol.

weft dap                 speak over standard input and output, as editors start adapters
weft dap --port 4711     listen on this port of this host, for one editor after the other (0: any free port, told)

The editor says what is debugged: a run that was recorded, or a program that is recorded first. A rank is a thread;
stops span all ranks; steps back and reverse-continue go back in the record. Editors are set up in docs/editors.md.
"""

from __future__ import annotations

import argparse
import os
import socket
from typing import Any

from weft.errors import WeftError


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "dap", help="the debugger for editors (Debug Adapter Protocol)", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--port", type=port, metavar="PORT", help="listen on this port instead of standard input")


def port(text: str) -> int:
    """A number of a port."""
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serve editors."""
    if args.port is None:
        return over_stdio()
    return listen(args.port)


def over_stdio() -> int:
    """One editor at the other end of our pipes. What else would be printed goes to standard error."""
    from weft.dap.wire import Wire

    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    serve(Wire(source, sink))
    return 0


def serve(wire: Any) -> None:
    """One session."""
    from weft.cli.debug import findings_of
    from weft.dap.adapter import Adapter

    Adapter(wire, findings_of).serve()


def listen(number: int) -> int:
    """One editor after the other, on a port of this host."""
    from weft.dap.wire import Wire

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", number))
        except OSError as error:
            raise WeftError(f"port {number} cannot be listened on: {error.strerror}; give another --port") from error
        server.listen(1)
        print(f"weft dap listens on 127.0.0.1:{server.getsockname()[1]}", flush=True)
        while True:
            editor, _ = server.accept()
            home = os.getcwd()  # noqa: PTH109
            with editor, editor.makefile("rb") as source, editor.makefile("wb") as sink:
                serve(Wire(source, sink))
            os.chdir(home)
