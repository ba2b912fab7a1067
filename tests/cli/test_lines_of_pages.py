"""Every command line of the pages is one that `weft` takes: its command and options exist."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests_support import ROOT
from weft.cli import main
from weft.errors import UsageError

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(\w*)$")
SHOWS_COMMANDS = {"", "console", "sh"}
"""Languages of code blocks that hold command lines; the others hold programs."""
COMMAND = re.compile(r"(?:^|(?<=[\s(=;`'\"]))weft (?=[a-z-])(?![a-z]+:)")
ENDS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "(", ")"}
NOT_WHOLE = re.compile(r"[][…]|\.\.\.")
INCOMPLETE = re.compile(r" (is|are) missing |a value is missing after it|: .*'[A-Z:,]*[A-Z]{2}[A-Z:,]*'|'[A-Z]'")
"""What argparse says of a line that leaves something out, or has a word in capitals in place of a value."""


def code(page: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the lines and parts of lines of a page that are code: number, text, and whether it is a line of its own."""
    block: list[tuple[int, str]] | None = None
    language = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and block is None:
            block, language = [], fence[1]
        elif fence and block is not None:
            typed = [(at, text[2:]) for at, text in block if text.startswith("$ ")]
            if language in SHOWS_COMMANDS:
                whole = typed or ([] if language == "console" else block)
                yield from ((at, text, True) for at, text in whole if "`weft" not in text)
                yield from ((at, part, False) for at, text in block for part in re.findall(r"`(weft [^`]*)`", text))
            block = None
        elif block is not None:
            block.append((number, line))
        else:
            yield from ((number, part, False) for part in re.findall(r"`(weft [^`]*)`", line))


def words_of(text: str) -> list[str]:
    """Return the words of a command line up to the shell's next operator, as the shell takes them."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    with contextlib.suppress(ValueError):  # an open quote: a line that goes on below
        for word in lexer:
            if word in ENDS:
                break
            words.append(word)
    return words


def command_lines(page: str) -> Iterator[tuple[int, list[str], bool]]:
    """Yield the command lines of a page: its line, the words after `weft`, and whether it says all that is needed."""
    for number, text, whole in code(page):
        for match in COMMAND.finditer(text):
            before, line = text[: match.start()], text[match.end() :].replace("\\|", "|")
            if before[-1:] in ("'", '"'):  # make CC="weft cc mpicc"
                line = line.partition(before[-1])[0]
            yield number, words_of(line), whole and not NOT_WHOLE.search(line)


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    [below] = [one for one in main.make_parser([command])._actions if isinstance(one, argparse._SubParsersAction)]
    found: argparse.ArgumentParser = below.choices[command]
    return found


def unknown_option(words: list[str]) -> str:
    """Return the first word of a command line that looks like an option and is not one of that command, else ''."""
    parser = parser_of(words[0])
    known = parser._option_string_actions
    takes_rest = any(action.nargs in (argparse.REMAINDER, argparse.PARSER) for action in parser._actions)
    skip = False
    for word in (word.strip("[].…") for word in words[1:]):
        if skip or not word.startswith("-") or re.fullmatch(r"-+\d*", word):
            if word == "--" or (takes_rest and not skip and word):
                return ""
            skip = False
            continue
        action = known.get(word.partition("=")[0])
        if action is None:
            return word
        skip = action.nargs is None and "=" not in word
    return ""


def complaint(words: list[str], *, whole: bool) -> str:
    """Return why `weft` would refuse a command line, or ''."""
    if not words or words[0].startswith("-"):
        return "" if not words or words[0] in ("--help", "--version") else f"weft has no option {words[0]}"
    command = words[0].strip("[]")
    if not main.is_command(command):
        return f"there is no command weft {command}"
    if unknown := unknown_option([command, *words[1:]]):
        return f"weft {command} has no option {unknown}"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):  # of --help
            main.parse_arguments(words)
    except UsageError as error:
        if whole and not INCOMPLETE.search(str(error)):
            return str(error)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_line_of_a_page_is_one_that_weft_takes(page: Path) -> None:
    found = [(number, words, complaint(words, whole=whole)) for number, words, whole in command_lines(page.read_text())]
    wrong = [f"{page.relative_to(ROOT)}:{number}: weft {' '.join(words)}: {why}" for number, words, why in found if why]
    assert not wrong, "\n".join(wrong)


def test_a_wrong_line_is_seen() -> None:
    page = """Use `weft run --kep last:10s` or `weft runn`.
```
weft report RUN --format yaml
make CC="weft cc --command x gcc" FC="weft cc gfortran"
weft run -n 4 -- python prog.py --unknown | tee out    # `weft dump`
```
```console
$ weft dump RUN --rank 0-3 --fist 3
weft nonsense --is output
```
"""
    found = [(at, complaint(words, whole=whole).partition(" (choose")[0]) for at, words, whole in command_lines(page)]
    assert [(at, why) for at, why in found if why] == [
        (1, "weft run has no option --kep"), (1, "there is no command weft runn"),
        (3, "report: --format yaml: unknown value; use text, json, sarif or html"),
        (4, "weft cc has no option --command"), (8, "weft dump has no option --fist"),
    ]  # fmt: skip
