"""The options of a text picture, in a module of their own so that a command's help does not import what draws."""

from __future__ import annotations

import argparse
from typing import Final

DEPTH: Final = 6
"""Calls of each rank that are drawn, where the width allows."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a text picture to a command."""
    parser.add_argument("--text", action="store_true", help="draw the last calls of each rank in the terminal")
    parser.add_argument(
        "--last",
        type=int,
        default=DEPTH,
        metavar="N",
        help=f"with --text: the last N calls of each rank (default: {DEPTH})",
    )
