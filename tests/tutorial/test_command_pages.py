"""The examples of docs/commands are run, and print what the pages say.

A comment before a console block makes it an example:

    <!-- example, in make test
    files: src/weft/examples/heat.py
    first: weft run -n 3 -- python heat.py
    needs: gcc
    -->

`files` are copied into the folder of the example, `first` are commands of the shell that are run before, `needs` are
names of tests/machine.py; each may be left out. Programs that the page shows are there too. Without "in make test" an
example is run by `make test-all`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from machine import need
from tests_support import ROOT, Installed, execute
from tutorial.consoles import ANYTHING, Typed, shown_files, typed_commands

PAGES = sorted((ROOT / "docs" / "commands").glob("*.md"))
EXAMPLE = re.compile(r"^<!-- example(, in make test)?\n((?:\w+: .*\n)*)-->\n(```console\n[\s\S]*?^```)$", re.MULTILINE)
NEXT = "--- the next command ---"
VARIES = [
    (re.compile(r"\b\d[\d.,]* ?(ns|us|ms|s|min)\b"), "0 s"),
    (re.compile(r"^\d+\.\d{9}\b", re.MULTILINE), "0 s"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "0x0"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"^weft: (building the recorder|\d+ notes? on waiting times).*\n", re.MULTILINE), ""),
]
"""What differs from run to run: times, addresses, the widths of columns, and notes that depend on times."""


@dataclass(frozen=True)
class Example:
    """A console block that is run, with what has to be there before."""

    page: Path
    in_make_test: bool
    files: tuple[str, ...]
    first: tuple[str, ...]
    needs: tuple[str, ...]
    block: str


def examples_of(page: Path) -> list[Example]:
    """Return the examples of a page in order."""
    found = []
    for match in EXAMPLE.finditer(page.read_text()):
        settings = [line.split(": ", 1) for line in match[2].splitlines()]
        assert {key for key, _ in settings} <= {"files", "first", "needs"}, match[0]
        files, needs = (
            [word for key, value in settings if key == name for word in value.split()] for name in ("files", "needs")
        )
        first = tuple(value for key, value in settings if key == "first")
        found.append(Example(page, bool(match[1]), tuple(files), first, tuple(needs), match[3]))
    return found


EXAMPLES = [
    pytest.param(example, id=f"{page.stem}-{number}", marks=() if example.in_make_test else (pytest.mark.matrix,))
    for page in PAGES
    for number, example in enumerate(examples_of(page))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_each_page_of_a_command_has_an_example_that_is_run(page: Path) -> None:
    assert page.read_text().count("<!-- example") == len(examples_of(page)) > 0


def run_commands(commands: list[Typed], folder: Path) -> list[str]:
    """Run commands in one shell, with what is typed at each one's prompt, and return what each printed."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    lines = ["trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for one in commands:
        lines += [f"printf '%s\\n' '{NEXT}'", f"{{ {one.command}", f"}} 2>&1 <<'TYPED'\n{one.stdin}TYPED"]
    done = execute(
        ["bash", "-c", "\n".join([*lines, f"printf '%s\\n' '{NEXT}'"])], cwd=folder, env=environment, timeout=250
    )
    return done.stdout.split(f"{NEXT}\n")[1:-1]


PREPARED: dict[tuple[str, ...], Path] = {}
"""By files and commands before an example: the folder in which they were run. Examples of several pages begin alike."""


def prepared_folder(example: Example, folders: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of an example in which its first commands were run."""
    shown = shown_files(example.page.read_text())
    key = (*example.files, *example.first, *shown)
    if key not in PREPARED:
        PREPARED[key] = folders.mktemp("prepared")
        for name in example.files:
            shutil.copy(ROOT / name, PREPARED[key])
        for name, text in shown.items():
            (PREPARED[key] / name).write_text(text)
        run_commands([Typed(line) for line in example.first], PREPARED[key])
    return PREPARED[key]


def without_what_varies(text: str) -> str:
    """Return what was printed as every machine prints it."""
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def expected_output(lines: list[str]) -> str:
    """Return a pattern for what a command prints: `...` is any lines, or any part of a line."""
    text = without_what_varies("\n".join(lines))
    rows = [
        r"(?:.*\n)*" if row == ANYTHING else ".*".join(map(re.escape, row.split(ANYTHING))) + "\n"
        for row in text.splitlines()
    ]
    return "".join(rows)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_prints_what_its_page_says(
    example: Example, mpich: Installed, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    need(*example.needs) if example.needs else None
    folder = tmp_path / "here"
    shutil.copytree(prepared_folder(example, tmp_path_factory), folder, symlinks=True)
    commands = typed_commands(example.block)
    for one, printed in zip(commands, run_commands(commands, folder), strict=True):
        assert re.fullmatch(expected_output(one.output), without_what_varies(printed)), f"$ {one.command}\n{printed}"


def test_an_output_that_differs_is_seen() -> None:
    page = ["rank 0 waits", "...", "took 3.2 s at 0x1f", "worker ... is done"]
    good = "rank 0  waits\n\nany\nlines\ntook 17 ms at 0xabc\nworker 12 is done\n"
    assert re.fullmatch(expected_output(page), without_what_varies(good))
    for wrong in ("rank 1  waits", "worker 12 is dead"):
        bad = good.replace("rank 0  waits", wrong) if "waits" in wrong else good.replace("worker 12 is done", wrong)
        assert not re.fullmatch(expected_output(page), without_what_varies(bad))
