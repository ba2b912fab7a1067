"""A database of CMake or ninja: the program is checked with the sources and libraries that the build links it of."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.check.build_links import parse_link_call, read_link_calls, split_commands
from weft.check.source_discovery import find_sources
from weft.errors import UsageError

MAIN = """\
#include <stdio.h>
int far(void), near(void);
int main(void) { printf("%d %d\\n", far(), near()); return 0; }
"""
NEAR = """\
int near(void)
{
    int sum = 0;
    #pragma omp parallel for @
    for (int i = 0; i < 9; i++)
        sum += i;
    return sum;
}
"""
SOURCES = {"main.c": MAIN, "near.c": NEAR, "other.c": "int near(void);\nint main(void) { return near() != 36; }\n"}
PROGRAM = "cc -fopenmp main.o -o bin/prog -Wl,-rpath,$ORIGIN/../lib libnear.a lib/libfar.so -lgomp -lm"
OTHER = "cc other.o -o bin/other libnear.a"
ARCHIVE = "ar qc libnear.a near.o"


def write_link_texts(tree: Path) -> None:
    """Leave the links as CMake's Makefiles hold them."""
    for name, line in (("prog", PROGRAM), ("other", OTHER), ("near", f"{ARCHIVE}\nranlib libnear.a")):
        (folder := tree / "CMakeFiles" / f"{name}.dir").mkdir(parents=True)
        (folder / "link.txt").write_text(line.replace("$", r"\$") + "\n")


def write_ninja(tree: Path) -> None:
    """Leave the links as ninja's file holds them."""
    parts = (("bin/prog", f": && {PROGRAM} && :"), ("bin/other", OTHER), ("libnear.a", f"rm -f libnear.a && {ARCHIVE}"))
    rules = [
        f"rule r{number}\n  command = {line.replace('$', chr(92) + '$$')}\nbuild {name}: r{number}\n"
        for number, (name, line) in enumerate(parts)
    ]
    (tree / "build.ninja").write_text("".join(rules))


@pytest.fixture(params=[write_link_texts, write_ninja], ids=["cmake", "ninja"])
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A build tree of two programs, one archive of the build and one library from elsewhere."""
    write: Callable[[Path], None] = request.param
    if write is write_ninja and shutil.which("ninja") is None:
        pytest.skip("there is no ninja")
    (made := tmp_path / "build").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    entries = [
        {"directory": str(made), "file": str(tmp_path / name), "command": f"cc -c {tmp_path / name} -o {name[:-2]}.o"}
        for name in SOURCES
    ]
    (made / "compile_commands.json").write_text(json.dumps(entries))
    write(made)
    return made


def build_far_library(tree: Path) -> None:
    (tree / "lib").mkdir()
    (tree / "far.c").write_text("int far(void) { return 7; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "far.c", "-o", "lib/libfar.so"], cwd=tree, check=True)


@pytest.mark.cases(1)
@pytest.mark.parametrize(("clause", "status"), [("reduction(+:sum)", 0), ("", 1)], ids=["right", "faulty"])
def test_a_program_is_linked_and_runs_with_the_libraries_of_its_build(clause: str, status: int, tree: Path) -> None:
    (tree.parent / "near.c").write_text(NEAR.replace("@", clause))
    build_far_library(tree)
    done = execute([*WEFT, "check", tree / "compile_commands.json", "main.c"], timeout=60, cwd=tree.parent)
    assert done.stdout.startswith("7 36\n"), done.stdout + done.stderr
    assert done.returncode == status, done.stdout


def test_a_file_beside_the_database_chooses_the_program_that_holds_it(tree: Path) -> None:
    build_far_library(tree)
    database = tree / "compile_commands.json"
    chosen = find_sources([database, tree.parent / "other.c"])
    assert [path.name for path in chosen.sources] == ["near.c", "other.c"] and chosen.linked == ()
    chosen = find_sources([database, tree.parent / "main.c"])
    assert [path.name for path in chosen.sources] == ["main.c", "near.c"]
    library = (tree / "lib" / "libfar.so").resolve()
    assert chosen.link_options == (f"-Wl,-rpath,{tree}/bin/../lib", str(library), "-lm")  # Weft takes libgomp's place
    with pytest.raises(
        UsageError, match=r"the build makes 2 programs \(other, prog\), and Weft cannot tell which one is meant"
    ):
        find_sources([database])
    with pytest.raises(UsageError, match="Weft cannot tell which one has all files that you name"):
        find_sources([database, tree.parent / "main.c", tree.parent / "other.c"])


def test_a_library_that_is_not_built_is_named(tree: Path) -> None:
    with pytest.raises(UsageError, match=r"prog is linked with .*libfar\.so, which does not exist: build it first"):
        find_sources([tree / "compile_commands.json", tree.parent / "main.c"])


def test_other_commands_of_a_build_are_not_links(tmp_path: Path) -> None:
    lines = ["cc -c a.c -o a.o", "ranlib libnear.a", "touch a.o", ": && :", "cc 'unclosed a.o -o b", "ar t a.o"]
    assert [parse_link_call(words, tmp_path) for line in lines for words in split_commands(line) if words] == [None] * 6
    assert read_link_calls(tmp_path) == []
