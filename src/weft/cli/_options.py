"""Options that several commands have, each declared once: one thing has one name and one reading in all of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Protocol


class OptionDeclarer(Protocol):
    """A parser, or a group of its options."""

    def add_argument(self, *names: str, **how: object) -> argparse.Action:
        """Declare an option."""


def add_output(
    parser: OptionDeclarer, help_text: str = "write to FILE, not to standard output", metavar: str = "FILE"
) -> None:
    """Declare -o: the file that a command writes."""
    parser.add_argument("-o", "--output", type=Path, metavar=metavar, help=help_text)


def add_out(parser: OptionDeclarer, said: str) -> None:
    """Declare --out: the directory of the run that a command records."""
    parser.add_argument("--out", type=Path, metavar="DIR", help=said)


def add_answer_format(parser: OptionDeclarer, schema: str) -> None:
    """Declare --format of a prompt's answers."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help=f"text (default); json: one object a line ({schema})"
    )


def add_ranks(parser: OptionDeclarer, said: str = "start N ranks with mpiexec (default: as recorded)") -> None:
    """Declare -n, which is -np too, as mpiexec has both."""
    parser.add_argument("-n", "-np", dest="n", type=parse_positive, metavar="N", help=said)


def add_timeout(parser: OptionDeclarer, said: str, usual: float | None = None) -> None:
    """Declare --timeout: a limit in seconds, after which Weft ends what takes longer."""
    parser.add_argument("--timeout", type=parse_seconds, default=usual, metavar="SECONDS", help=said)


def add_script_timeout(parser: OptionDeclarer) -> None:
    """Declare --timeout of a prompt's commands, which may be 0."""
    parser.add_argument(
        "--timeout", type=parse_seconds_or_0, metavar="SECONDS",
        help="interrupt a command after SECONDS; 0: never (default: never, 600 in scripts)",
    )  # fmt: skip


def parse_positive(text: str) -> int:
    """Return the number of 1 or more that is the value of an option. ArgumentTypeError for anything else."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def parse_seconds(text: str) -> float:
    """Return a duration above 0 in seconds. ArgumentTypeError for anything else."""
    value = parse_seconds_or_0(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def parse_seconds_or_0(text: str) -> float:
    """Read a duration in seconds, which may be 0. ArgumentTypeError for anything else."""
    return parse_non_negative(text, "a number of seconds")


def parse_non_negative(text: str, expected: str = "a number from 0 on") -> float:
    """Return a finite number from 0 on. ArgumentTypeError for anything else, which says that the text is not
    `expected`."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
    return value
