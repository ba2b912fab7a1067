"""Commands are found by name: each is whole, and has its page and a line in docs/guide.md."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests_support import ROOT
from weft.cli import main

COMMANDS = main.command_names()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_whole(name: str) -> None:
    command = main.load_command(name)
    assert list(inspect.signature(command.register).parameters) == ["subparsers"]
    assert list(inspect.signature(command.run).parameters) == ["args"]
    first = (command.__doc__ or "").split("\n\n")[0]
    assert re.fullmatch(r"[A-Z].*[.:]", first, re.DOTALL), f"weft.cli.{name} begins with no sentence: it is the help"
    assert main.make_parser([name]).format_help().count(f"    {name}") > 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_its_page_and_its_line(name: str) -> None:
    page = ROOT / "docs" / "commands" / f"{name}.md"
    assert page.is_file(), f"write docs/commands/{name}.md"
    assert page.read_text().startswith(f"# weft {name}\n")
    assert f"(commands/{name}.md)" in (ROOT / "docs/guide.md").read_text(), f"docs/guide.md has no weft {name}"


def test_every_page_of_a_command_has_its_command() -> None:
    pages = {path.stem for path in Path(ROOT / "docs" / "commands").glob("*.md")}
    assert pages == set(COMMANDS)


@pytest.mark.parametrize(("version", "status"), [("3.14.2 free-threading build (main)", 2), ("3.14.2 (main)", 0)])
def test_weft_does_not_run_in_a_python_without_a_lock(
    version: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.version", version)
    assert main.main(["explain", "deadlock"]) == status
    said = capsys.readouterr().err
    refusal = "this interpreter is the free-threaded build of Python 3.14.2, in which Weft does not run"
    assert said == ("" if status == 0 else f"weft: {refusal}: use the standard build, python3.14\n")
