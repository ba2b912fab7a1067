"""No name and no argument becomes a command of gdb, whatever stands in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.attach.reader import Reader
from weft.errors import DebuggerError
from weft.gdb.mi import Mi, quoted, require_one_line, word
from weft.gdb.point import Point
from weft.tasks.gdb import Gdb, Terminal

pytestmark = pytest.mark.usefixtures("gdb")
SHOWS = """#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) {
    FILE *out = fopen(getenv("OUT"), "w");
    for (int i = 1; i < count; i++) fprintf(out, "%s%c", words[i], 0);
    fprintf(out, "%s", getenv("GIVEN") ? getenv("GIVEN") : "");
    return fclose(out);
}
"""


@pytest.fixture
def payloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Texts that would make a file were a part of them executed; none may be there afterwards."""
    monkeypatch.chdir(tmp_path)
    yield [
        "a\nshell touch made", "a\r\n1-interpreter-exec console \"shell touch made\"\n",
        "\"\nshell touch made\n\"",
        "a\\\nshell touch made", "'; shell touch made; '", "\\\"\nshell touch made", "$(touch made)`touch made`",
        "ä\t\\", "a \\012shell touch made",
    ]  # fmt: skip
    assert not (tmp_path / "made").exists()


@pytest.fixture
def mi() -> Iterator[Mi]:
    """A gdb without a program."""
    made = Mi()
    yield made
    made.exit()


def test_a_text_comes_to_gdb_as_it_is(mi: Mi, payloads: list[str]) -> None:
    for text in payloads:
        mi.ask(f"-interpreter-exec console {quoted(f'set environment GIVEN {text}')}")
        said = mi.console_output(f"-interpreter-exec console {quoted('show environment GIVEN')}")
        assert said.partition(" = ")[2].rstrip("\n") == text.rstrip("\n").rstrip()
        assert "\n" not in quoted(text)


def test_a_command_of_two_lines_is_refused(mi: Mi, payloads: list[str]) -> None:
    with pytest.raises(DebuggerError, match="one line at a time"):
        mi.ask(f"-data-evaluate-expression {payloads[0]}")
    assert require_one_line("-exec-continue") == "-exec-continue"
    assert mi.ask("-list-features")  # it still answers


def test_names_and_expressions_of_a_debugger_are_not_executed(mi: Mi, payloads: list[str]) -> None:
    for number, text in enumerate(payloads):
        for deed in (
            lambda text=text, number=number: mi.replace_breakpoints([Point(number, text, 3, "")]),
            lambda text=text, number=number: mi.replace_breakpoints([Point(number, "a.c", 3, "", condition=text)]),
            lambda text=text, number=number: mi.replace_breakpoints([Point(number, "", 0, text)]),
            lambda text=text: mi.value(text, 1, 0),
            lambda text=text: mi.value(text, 1, 0, "x"),
            lambda text=text: mi.evaluate_with_calls(text, 1, 0),
        ):
            with pytest.raises(DebuggerError):
                deed()


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["shows", "sh ows", 'it\'s "this"', "a\nshell touch made"])
def test_a_program_gets_its_arguments_and_its_environment_as_they_were_given(
    tmp_path: Path, payloads: list[str], name: str
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc here")
    source, program, out = tmp_path / "shows.c", tmp_path / name, tmp_path / "out"
    source.write_text(SHOWS)
    subprocess.run(["gcc", "-g", "-o", program, source], check=True)
    terminal, gdb = Terminal(), Gdb()
    try:
        given = [text.rstrip() for text in payloads]
        gdb.start_program(str(program), given, {"OUT": str(out), "GIVEN": given[0]}, terminal.name)
        gdb.run("-exec-continue")
        gdb.wait(30)
    finally:
        gdb.close()
        terminal.close()
    assert out.read_bytes().decode().split("\0") == [*given, given[0]]


def test_the_name_of_a_core_files_program_is_not_executed(tmp_path: Path, payloads: list[str]) -> None:
    """A core file may come from anybody."""
    reader = Reader()
    try:
        for text in payloads:
            for program, core in ((text, str(tmp_path / "core")), ("/bin/true", text)):
                reader.ask("core", program, core)
                assert isinstance(reader.answer(), str)
    finally:
        reader.let_end()
        reader.close()


def test_a_word_is_one_word() -> None:
    assert word("a b") == "a\\ b"
    assert json.loads(quoted("plain")) == "plain"
    assert os.fsencode("ä") not in quoted("ä").encode()
