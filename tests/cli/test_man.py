"""Manual pages are made of the commands' own parsers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from machine import need
from tests_support import execute
from weft.cli import _man, main

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "rich", "argcomplete", "mpi4py", "pyarrow"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from pathlib import Path
from weft.cli import _man
print(len(_man.write_pages(Path(sys.argv[1]))))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All pages by name."""
    return {path.name: path for path in _man.write_pages(tmp_path_factory.mktemp("man"))}


def test_every_command_has_a_page_with_all_its_options(written: dict[str, Path]) -> None:
    assert written.keys() == {"weft.1", *(f"weft-{name}.1" for name in main.command_names())}
    top = main.make_parser(main.command_names())
    [below] = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    for name, parser in below.choices.items():
        text = written[f"weft-{name}.1"].read_text().replace("\\-", "-")
        for action in parser._actions:
            shown = [option for option in action.option_strings if f"\\fB{option}\\fR" in text]
            assert shown == ([] if action.help == argparse.SUPPRESS else list(action.option_strings)), name


def test_roff_takes_the_pages_without_a_warning(written: dict[str, Path]) -> None:
    need("groff")
    done = execute(["groff", "-man", "-Tutf8", "-ww", "-z", "-K", "utf8", *written.values()])
    assert (done.returncode, done.stderr) == (0, "")


def test_they_are_made_where_only_python_is(tmp_path: Path) -> None:
    done = execute([sys.executable, "-c", BLOCKED, tmp_path])
    assert done.stdout.strip() == str(len(main.command_names()) + 1), done.stderr
