"""Say what a kind of finding means, with an example and the remedy.

weft explain               all kinds, a line each
weft explain deadlock      the page of one: cause, example, remedy

The kinds are the words in brackets behind each finding of a report.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from weft import pages
from weft.findings import KINDS, SEVERITIES


def register(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "explain", help="say what a kind of finding means", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("kind", nargs="?", metavar="KIND", help="a kind of finding, such as deadlock")


def run(args: argparse.Namespace) -> int:
    """Print a page, or the list of them."""
    if args.kind is None:
        list_kinds()
    else:
        show(pages.page(args.kind.strip("[].")))
    return 0


def show(text: str) -> None:
    """Print Markdown: laid out and coloured at a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        print(text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Rich's own style for words of code has a black ground, on any terminal.
    console = Console(theme=Theme({"markdown.code": "bold cyan"}))
    console.print(Markdown(text, code_theme="ansi_dark"), width=min(console.width, 100))


def list_kinds() -> None:
    """Print all kinds with a sentence each, by their usual severity."""
    width = max(map(len, KINDS))
    if not sys.stdout.isatty():
        for severity in SEVERITIES:
            for kind in sorted(kind for kind, usual in KINDS.items() if usual == severity):
                print(f"{kind:<{width}}  {severity:<7}  {pages.in_short(kind)}")
        return
    from rich.console import Console
    from rich.table import Table

    colours = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    table = Table(box=None, show_header=False, pad_edge=False)
    for severity in SEVERITIES:
        for kind in sorted(kind for kind, usual in KINDS.items() if usual == severity):
            table.add_row(kind, f"[{colours[severity]}]{severity}", pages.in_short(kind))
    Console().print(table)
