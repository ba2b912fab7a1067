"""Asks whether to execute the program that a run names if this user did not record it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.cli._said import say, shorten_path
from weft.errors import UsageError


def add_trust_option(parser: argparse.ArgumentParser) -> None:
    """Declare --trust, by which a user agrees beforehand that a run's program is executed."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="do not ask before a replay executes the program that RUN names, if RUN was recorded by another user or "
        "on another machine",
    )


def require_consent(folder: Path, facts: Mapping[str, Any], *, trust: bool, earlier_consent: str | None = None) -> str:
    """Ask the user, if there is doubt, whether a run's program may be executed; return the hash of what may be
    executed.

    UsageError if the user does not agree. `trust`: agree without a question. `earlier_consent`: the hash from a
    command that has asked already; it is valid for what was shown then, and nothing else.
    """
    from weft.safety.runs import describe_execution, explain_doubt, hash_execution

    word = hash_execution(facts)
    if earlier_consent == word or not (why := explain_doubt(folder, facts)):
        return word
    command, place = describe_execution(facts)
    text = f"{shorten_path(folder)}: {why}; a replay executes `{command}` in {place} with your rights"
    if trust:
        say(text)
        return word
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{text}. Add --trust to allow that, or name a program of yours after --")
    say(text)
    print("weft: execute it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(f"{shorten_path(folder)} is not replayed, because you did not agree")
    return word
