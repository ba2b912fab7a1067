"""Writes manual pages from the commands' own parsers: `python -m weft.cli._man FOLDER` (`make man`).

One page a command and weft(1). It imports nothing that is not in Python, as it runs where the wheel is built.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import weft
from weft.cli import main

SECTION: Final = 1
_EXAMPLE: Final = re.compile(r"^weft \w")


def write_pages(folder: Path) -> list[Path]:
    """Write all pages into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, lines in render_pages():
        path = folder / f"{name}.{SECTION}"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        written.append(path)
    return written


def render_pages() -> Iterator[tuple[str, list[str]]]:
    """Yield all pages: name and lines of roff."""
    names = main.command_names()
    top = main.make_parser(names)
    below = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in below._choices_actions}
    others = [f"weft-{name}" for name in names]
    yield "weft", [*_render_weft_page(top, helps), *_render_see_also(others)]
    for name in names:
        parser = below.choices[name]
        yield f"weft-{name}", [*_render_command_page(parser, f"weft-{name}", helps[name]), *_render_see_also(["weft"])]


def _render_weft_page(parser: argparse.ArgumentParser, helps: dict[str, str]) -> Iterator[str]:
    """Yield the lines of weft(1): synopsis, description and a list of the commands."""
    yield from _render_head("weft", "debugger for parallel programs")
    yield from _render_synopsis(parser)
    yield from (".SH DESCRIPTION", _escape_roff(parser.description or ""), ".SH COMMANDS")
    for name, said in helps.items():
        yield from (".TP", rf"\fBweft {_escape_roff(name)}\fR", _escape_roff(said))


def _render_command_page(parser: argparse.ArgumentParser, name: str, summary: str) -> Iterator[str]:
    """Yield the lines of the manual page of a command: synopsis, description and options. `summary`: the short help."""
    yield from _render_head(name, summary)
    yield from _render_synopsis(parser)
    yield ".SH DESCRIPTION"
    for paragraph in (parser.description or "").strip().split("\n\n"):
        yield ".PP"
        yield from _render_paragraph(paragraph.splitlines())
    yield ".SH OPTIONS"
    for group in parser._action_groups:
        shown = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if shown and group not in (parser._positionals, parser._optionals):
            yield f".SS {_escape_roff(group.title or '')}"
        for action in shown:
            yield from (".TP", _render_invocation(action), _escape_roff(_expand_help(parser, action)))


def _render_head(name: str, summary: str) -> tuple[str, ...]:
    title = f'.TH "{name.upper()}" "{SECTION}" "" "weft {weft.__version__}" "Weft"'
    return title, ".SH NAME", rf"{_escape_roff(name)} \- {_escape_roff(summary)}"


def _render_synopsis(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return ".SH SYNOPSIS", _escape_roff(usage)


def _render_see_also(names: Iterable[str]) -> tuple[str, ...]:
    return ".SH SEE ALSO", ", ".join(rf"\fB{_escape_roff(name)}\fR({SECTION})" for name in names)


def _render_paragraph(lines: list[str]) -> list[str]:
    """Return a paragraph of the help as lines of roff. A paragraph of examples, or a table, keeps its lines."""
    kept = any(_EXAMPLE.match(line) or line.startswith(" ") or "   " in line for line in lines)
    text = [_escape_roff(line) for line in lines]
    return [".nf", *text, ".fi"] if kept else text


def _render_invocation(action: argparse.Action) -> str:
    """Return an option with its value, or an argument, in roff."""
    values = action.metavar if isinstance(action.metavar, str) else None
    if values is None and action.choices is not None:
        values = "|".join(map(str, action.choices))
    if not action.option_strings:
        return rf"\fI{_escape_roff(values or action.dest)}\fR"
    names = ", ".join(rf"\fB{_escape_roff(name)}\fR" for name in action.option_strings)
    return names if action.nargs == 0 else rf"{names} \fI{_escape_roff(values or action.dest.upper())}\fR"


def _expand_help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _escape_roff(text: str) -> str:
    """Return text escaped for roff: nothing in it is a command."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    for page in write_pages(Path(sys.argv[1])):
        print(page)
