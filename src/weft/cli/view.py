"""Show a recorded run in the browser: ranks as rows, time from left to right, calls as boxes, messages as arrows.

weft view RUN                     open the page; Ctrl-C ends it
weft view RUN --no-browser        print the address only
weft view RUN --port 8765         a fixed port, for ssh forwarding
weft view RUN --beside OTHER      OTHER below RUN, rank by rank, at the place where they differ
weft view RUN --text              the last calls of each rank, in the terminal
weft view RUN -o FILE.html        one file with the picture, to pass on; it needs neither Weft nor the run

Without RUN, the newest run is taken. The page is served on this machine only, and only to those who have its
address, which contains a secret token. Over ssh, Weft prints the command that forwards the port.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import _asked, _options
from weft.errors import UsageError, WeftError

if TYPE_CHECKING:
    from weft.compare.values import ValueComparison
    from weft.trace import Trace
    from weft.view.run_view import RunView
    from weft.view.server import ViewServer
    from weft.view.value_view import ValueView


FIRST_PICTURE = 3.0
"""Seconds that the analysis waits until the browser has its first picture."""


def register(subparsers: Any) -> None:
    """Declare `weft view` and its options to argparse."""
    parser = subparsers.add_parser(
        "view", help="show a run in the browser", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help="directory of the run (default: the newest)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and do not open a browser")
    parser.add_argument("--port", type=int, default=0, metavar="PORT", help="serve on PORT (default: any free port)")
    from weft.picture.options import add_options

    add_options(parser)
    parser.add_argument("--beside", type=Path, metavar="OTHER", help="show another run of the program below this one")
    _options.add_output(parser, "write the page to one file and do not serve it", "FILE.html")
    _asked.add_trust_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run `weft view`: serve the picture of a run to the browser, or write it; return the exit status."""
    import weft
    from weft.cli._progress import show_progress
    from weft.launch.rundir import find_newest_run
    from weft.view.run_view import RunView

    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port} is not a port: choose one of 1024 to 65535")
    if args.beside is not None and (args.text or args.output is not None):
        raise UsageError("--beside is for the browser only; for text use `weft compare RUN OTHER`")
    if args.text:
        return _print_text(weft.open(args.run or find_newest_run()), args.last)
    trace = weft.open(args.run or find_newest_run())
    with show_progress(f"indexing {trace.event_count:,} calls") as advance:
        picture = RunView(trace, lambda done, total: advance(done / max(total, 1), ""))
    picture.replayed.trusted = args.trust
    if args.output is not None:
        return _write_html(picture, args.output)
    return serve_page(picture, args.port, browser=not args.no_browser, beside=args.beside)


def view_both(reference: Path, run: Path, values: ValueComparison | None, *, calls: bool) -> int:
    """Show both runs where they differ, as `weft compare --view` does, and return the exit status. `calls`: whether
    their calls are shown."""
    import weft
    from weft.view.run_view import RunView
    from weft.view.value_view import ValueView

    picture = RunView(weft.open(reference)) if calls else None
    valued = None if values is None else ValueView(values, calls=calls)
    return serve_page(picture, 0, browser=True, beside=run if calls else None, values=valued)


def _print_text(trace: Trace, depth: int) -> int:
    """Print the last `depth` calls of each rank as a text picture, and return the exit status."""
    from weft.picture.text import draw_text

    width = shutil.get_terminal_size().columns
    print(draw_text(trace, width, depth=depth, colour=sys.stdout.isatty()))
    return 0


def _write_html(picture: RunView, file: Path) -> int:
    """Write the picture of a run as one HTML file, and return the exit status."""
    from weft.cli._progress import show_progress
    from weft.view.html_export import render_html

    with show_progress("analysing the run"):
        picture.analyse()
    try:
        size = file.write_bytes(render_html(picture))
    except OSError as error:
        raise WeftError(f"{file} cannot be written: {error.strerror}") from error
    print(f"weft: wrote {file} ({size / 1e6:.1f} MB): open it in any browser", file=sys.stderr)
    return 0


def serve_page(
    picture: RunView | None, port: int, *, browser: bool, beside: Path | None = None, values: ValueView | None = None
) -> int:
    """Serve the view's page to browsers until Ctrl-C, and return the exit status. `picture`: the run, `beside`:
    another run to show with it, `values`: compared values."""
    import weft
    from weft.view.server import ViewServer

    if beside is not None:
        weft.open(beside)  # an error of opening is reported here, not in the page
    try:
        server = ViewServer(picture, port, beside, values)
    except OSError as error:
        raise UsageError(f"port {port} is not available: {error.strerror}; leave --port out for a free one") from error
    if picture is not None:
        threading.Thread(target=picture.analyse, args=(FIRST_PICTURE,), name="analysis", daemon=True).start()
    remote = "SSH_CONNECTION" in os.environ
    for line in render_address_lines(server, remote=remote):
        print(line, flush=True)
    if not remote and browser and _has_screen():
        threading.Thread(target=webbrowser.open, args=(server.url_for_browser,), daemon=True).start()
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print("weft: the view is closed", file=sys.stderr)
    finally:
        server.server_close()
    return 0


def _has_screen() -> bool:
    """Return whether a browser would have a window: without one a text browser would take the terminal."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in names)


def render_address_lines(server: ViewServer, *, remote: bool) -> list[str]:
    """Return what the terminal shows: the address, and how to reach it from elsewhere."""
    port = server.server_address[1]
    lines = [f"weft: the view of {server.shown} is at {server.url}"]
    if remote:
        host = os.environ.get("SSH_CONNECTION", "").split(" ")
        there = host[2] if len(host) == 4 else "this-machine"
        lines.append(
            f"weft: on your own machine:  ssh -L {port}:127.0.0.1:{port} {there}   then open the address there"
        )
    return [*lines, "weft: Ctrl-C ends it"]
