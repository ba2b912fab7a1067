"""Explain a kind of finding, with an example and the remedy.

weft explain               lists all kinds
weft explain deadlock      explains one: cause, example, remedy

The kind of each finding is the word in brackets at its end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from weft.kinds import KINDS, SEVERITIES, Kind, find_kind


def register(subparsers: Any) -> None:
    """Declare `weft explain` and its options to argparse."""
    parser = subparsers.add_parser(
        "explain", help="explain a kind of finding, with its remedy", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("kind", nargs="?", metavar="KIND", help="a kind of finding, such as deadlock")


def run(args: argparse.Namespace) -> int:
    """Run `weft explain`: print the page of a kind of finding, or the list of kinds."""
    if args.kind is None:
        list_kinds()
    else:
        show_page(find_kind(args.kind.strip("[].")))
    return 0


def show_page(what: Kind) -> None:
    """Print the page of a kind of finding, laid out and coloured at a terminal, and below it the facts of the kind."""
    text = f"{what.page.rstrip()}\n\n{kind_facts(what)}"
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Rich's own style for words of code has a black ground, on any terminal.
    console = Console(theme=Theme({"markdown.code": "bold cyan"}))
    console.print(Markdown(text, code_theme="ansi_dark"), width=min(console.width, 100))


def kind_facts(what: Kind) -> str:
    """Return `Usually an error, which Weft can prove. Found by: deadlock.`"""
    article = "an" if what.severity == "error" else "a"
    proof = "which Weft can prove" if what.certainty == "certain" else f"and never more certain than {what.certainty}"
    return f"Usually {article} {what.severity}, {proof}. Found by: {', '.join(what.analyses)}."


def kinds_by_severity() -> Iterator[Kind]:
    """Yield all kinds by severity, those of one severity by name."""
    yield from sorted(KINDS.values(), key=lambda one: (SEVERITIES.index(one.severity), one.slug))


def list_kinds() -> None:
    """Print all kinds with a sentence each, by their usual severity."""
    if not sys.stdout.isatty():
        width = max(map(len, KINDS))
        for one in kinds_by_severity():
            print(f"{one.slug:<{width}}  {one.severity:<7}  {one.title}")
        return
    from rich.console import Console
    from rich.table import Table

    colours = {"error": "bold red", "warning": "yellow", "note": "cyan"}
    table = Table(box=None, show_header=False, pad_edge=False)
    for one in kinds_by_severity():
        table.add_row(one.slug, f"[{colours[one.severity]}]{one.severity}", one.title)
    Console().print(table)
