"""Say in one sentence what is wrong with a command line, and which word may have been meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from weft.base.words import listed

_CHOICE: Final = re.compile(r"invalid choice: (?P<word>'.*?'|\S+) \(choose from (?P<choices>.*)\)$", re.DOTALL)
_ARGUMENT: Final = re.compile(r"argument (?P<name>\S+): (?P<what>.*)", re.DOTALL)
_MISSING: Final = "the following arguments are required: "


def explain_refusal(command: str, message: str) -> str:
    """Return what argparse has against a line of a command ("run"), as a sentence that begins with the option."""
    if message.startswith(_MISSING):
        names = message.removeprefix(_MISSING).split(", ")
        return f"{command}: {listed(names)} {'is' if len(names) == 1 else 'are'} missing {_help(command)}"
    found = _ARGUMENT.match(message)
    if found is None:
        return f"{command}: {message}"
    names = found["name"].split("/")
    option = next((name for name in names if name.startswith("--")), names[0])
    if choice := _CHOICE.match(found["what"]):
        word, choices = choice["word"].strip("'"), re.findall(r"[\w.-]+", choice["choices"])
        if option == "COMMAND":
            return f"there is no command {word}{suggest(word, choices)} (`weft help` lists them)"
        return f"{command}: {option} {word}: unknown value; use {', '.join(choices[:-1])} or {choices[-1]}"
    what = re.sub(r"expected (one|at least one) argument", "a value is missing after it", found["what"])
    what = re.sub(r"invalid (int|float) value: ('.*')", r"\2 is not a number", what)
    return f"{command}: {option}: {what}"


def explain_unknown(command: str, unknown: Sequence[str], options: Iterable[str]) -> str:
    """Return what is wrong with words that a command does not know; `options`: those that it has."""
    word = next((one for one in unknown if one.startswith("-")), unknown[0])
    if not word.startswith("-"):
        return f"{command}: unexpected argument {word} {_help(command)}"
    name = word.partition("=")[0]
    said = f"there is no option {name}{suggest(name, options)} {_help(command)}"
    return f"{command}: {said}" if command else said


def _help(command: str) -> str:
    return f"(weft {command} --help)" if command else "(weft --help)"


def suggest(word: str, known: Iterable[str]) -> str:
    """`: did you mean --version?` for a word that is close to a known one, else an empty text."""
    close = difflib.get_close_matches(word, list(known), 1, 0.7 if len(word) > 4 else 0.6)
    return f": did you mean {close[0]}?" if close else ""
