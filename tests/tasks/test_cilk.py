"""Programs of Cilk, written as OpenMP: the same results, the same lines, and a child is followed from its spawn."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from machine import need
from weft.cilk.openmp_source import WAIT, build_as_openmp, translate_to_openmp
from weft.errors import UsageError
from weft.tasks import session

PROGRAMS = Path(__file__).parent / "programs" / "cilk"
RESULTS = {"fib.c": "fib(10) = 55, total 8736; no spawn\n", "queens.cilk": "4\n", "sorted.cpp": "1 7\n"}


@pytest.fixture(scope="module", params=RESULTS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Each program, built."""
    need("gcc", "g++")
    return request.param, build_as_openmp(str(PROGRAMS / request.param), tmp_path_factory.mktemp("cilk"))


def elision(name: str, folder: Path) -> Path:
    """The program without Cilk's keywords: its serial elision, which has the same result."""
    text = re.sub(r"#include <cilk.*", "", (PROGRAMS / name).read_text())
    text = re.sub(r"\b(cilk_spawn|_Cilk_spawn|cilk_scope|spawn(?= q)|cilk(?= int))\b", "", text)
    text = re.sub(r"\b(cilk_sync|_Cilk_sync|sync);", ";", text).replace("cilk_for", "for")
    made = folder / (Path(name).stem + (".cpp" if name.endswith("cpp") else ".c"))
    made.write_text(text)
    subprocess.run(["g++" if name.endswith("cpp") else "gcc", made, "-o", folder / "elision"], check=True, timeout=60)
    return folder / "elision"


@pytest.mark.cases(1)
def test_a_program_written_as_openmp_has_the_result_of_its_serial_elision(
    program: tuple[str, Path], tmp_path: Path
) -> None:
    name, binary = program
    serial = subprocess.run([elision(name, tmp_path)], capture_output=True, text=True, timeout=60, check=True).stdout
    assert serial == RESULTS[name]
    for _ in range(10):
        done = subprocess.run([binary], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == serial


@pytest.mark.parametrize("name", RESULTS)
def test_every_line_stays_where_it_was(name: str) -> None:
    text = (PROGRAMS / name).read_text()
    _, *lines = translate_to_openmp(name, text).splitlines()
    for number, line in enumerate(text.splitlines()):
        if not re.search(r"cilk|spawn|sync|Cilk|return", line):
            ends = [text + "}" for text in ('_Pragma("omp taskwait") ; ', "return 0; ")] + [f"{WAIT} ; return 0; }}"]
            assert lines[number] in (line, *ends) or line.strip() == "i);"


@pytest.mark.needs("gdb", "gcc", "OMPT")
def test_a_spawned_child_is_followed_from_its_first_line_to_the_sync() -> None:
    with session([str(PROGRAMS / "fib.c"), "6"], as_openmp=True) as s:
        s.do("break fib if n == 4")
        assert s.do("continue")["at"]["line"] == 7
        s.do("delete")
        parent = s.debugger.focus
        assert (s.do("next")["at"]["line"], s.do("print n")["value"]) == (9, "4")
        s.do("follow child")
        child = s.do("next")
        assert (child["at"]["line"], child["at"]["function"]) == (7, "fib")
        assert child["task"] != parent and s.do("print n")["value"] == "3"
        rows = {row["id"]: row for row in s.do("tasks")["tasks"]}
        assert rows[child["task"]]["parent"] == parent
        assert rows[child["task"]]["created"]["line"] == 9
        assert rows[child["task"]]["created"]["file"] == str(PROGRAMS / "fib.c")
        assert s.do("continue")["why"] == "ended"
        assert s.output().startswith("fib(6) = 8,")


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.cilk", "cilk int f(int n) {\n  inlet void g(int x) { }\n  return 0; }\n", "a.cilk:2: `inlet`"),
    ("a.cpp", "void f() {\n  cilk_spawn [] { }();\n}\n", "a.cpp:2: only a call of a named"),
    ("a.c", "int f(int n) {\n\n  return 1 + cilk_spawn f(n);\n}\n", "a.c:3: a spawn must be a statement"),
    ("a.c", "void f(void) {\n  cilk_for (int i = 0; i < 9; i++) {\n    cilk_spawn f();\n  }\n}\n", "a.c:3: a spawn w"),
    ("a.c", "int f(int n) {\n  int x = cilk_spawn f(n) + 1;\n}\n", "a.c:2: a spawn must be a statement"),
    ("a.cpp", "int f(int n) {\n  auto x = cilk_spawn f(n);\n}\n", "a.cpp:2: the type of this variable is `auto`"),
    ("a.c", "#include <cilk/reducer.h>\nint f(void) {\n  cilk_reducer x;\n}\n", "a.c:3: `cilk_reducer`"),
    ("a.f90", "end\n", "neither C, C\\+\\+ nor Cilk"),
])  # fmt: skip
def test_what_openmp_has_no_like_for_is_refused_with_its_line(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate_to_openmp(name, text)


def test_a_program_that_does_not_compile_is_told_in_its_own_lines(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int f(int n) {\n  return n +;\n}\nint main(void) { return 0; }\n")
    with pytest.raises(UsageError, match=r"wrong.c:2"):
        build_as_openmp(str(source), tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        build_as_openmp(str(tmp_path / "nosuch.c"), tmp_path)
