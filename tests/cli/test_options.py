"""One thing has one name in all commands, and one name means one thing; old names are refused."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from tests_support import ROOT
from weft.cli import _options, main
from weft.errors import UsageError

RENAMED = re.findall(
    r"^\| `weft (\w+)` \| `(--?\S+?)(?: (\S+))?` \| (.+) \|$", (ROOT / "docs/renamed.md").read_text(), re.M
)
FILES = {"FILE", "PATH", "FILE.html"}
SECONDS = {"--budget", "--call-limit", "--hang-after", "--interval", "--timeout"}
"""Those that are no `--timeout` end nothing, or not what takes too long."""


def commands() -> dict[str, argparse.ArgumentParser]:
    """All commands' parsers."""
    top = main.make_parser(main.command_names())
    [below] = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(below.choices)


def options() -> Iterator[tuple[str, argparse.Action]]:
    """All options, with the command that has them."""
    for name, parser in commands().items():
        yield from ((name, action) for action in parser._actions if action.option_strings)


def test_an_option_of_one_name_is_one_thing_in_all_commands() -> None:
    known: dict[str, tuple[str, object]] = {}
    for command, action in options():
        metavar = "FILE" if action.metavar in FILES else action.metavar
        is_it = (tuple(action.option_strings), metavar, action.nargs == 0)
        for name in action.option_strings:
            first, was = known.setdefault(name, (command, is_it))
            assert was == is_it, f"{name} of weft {first} is another thing than that of weft {command}"


def test_a_duration_is_given_in_seconds_by_one_word() -> None:
    given = {name for _, action in options() if action.metavar == "SECONDS" for name in action.option_strings}
    assert given == SECONDS


@pytest.mark.parametrize(("command", "old", "value", "new"), RENAMED, ids=lambda text: text.strip("`"))
def test_what_was_renamed_is_known_by_its_new_name_only(command: str, old: str, value: str, new: str) -> None:
    parser = commands()[command]
    known = {name: action for action in parser._actions for name in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--?\w[\w-]*", new)) <= set(known)
    choices = known[old].choices if old in known else None  # of an option that stayed, a word was renamed
    assert old not in known or (choices is not None and value not in choices)
    assert not parser.allow_abbrev


def test_an_option_is_not_known_by_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    for command, short in (("dump", "--out"), ("view", "--out"), ("report", "--form")):
        assert main.main([command, "RUN", short, "text"]) == 2
        assert f"there is no option {short}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["debug", "explore", "replay", "run"])
def test_ranks_are_given_as_mpiexec_takes_them(command: str) -> None:
    parser = commands()[command]
    assert parser.parse_args(["-n", "3"]).n == parser.parse_args(["-np", "3"]).n == 3
    with pytest.raises(UsageError):
        parser.parse_args(["-np", "0"])


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "soon", "0"])
def test_a_limit_is_a_number_of_seconds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(f"{text!r} is not a number of seconds")):
        _options.parse_seconds(text)
    assert _options.parse_seconds("0.5") == 0.5 and _options.parse_seconds_or_0("0") == 0


def test_the_options_of_run_are_in_groups() -> None:
    groups = {group.title: group._group_actions for group in commands()["run"]._action_groups}
    assert set(groups) >= {"what to record", "when to stop", "what to print", "where to keep it"}
    assert [action.option_strings[0] for action in groups["options"]] == ["-h", "-n", "--pvm-join"]
    page = (ROOT / "docs/commands/run.md").read_text()
    for title, actions in groups.items():
        rows = page.partition(f"| **{str(title).capitalize()}** | |\n")[2].partition("| **")[0]
        for action in actions:
            assert title in ("options", "positional arguments") or f"`{action.option_strings[0]}" in rows, title
