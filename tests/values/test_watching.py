"""Values that are kept at lines of programs without probes, in C, Fortran and Python, on any number of ranks."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from machine import need
from replay.campaign import environment
from tests_support import WEFT, Installed, execute
from weft.compare.values import compare_values
from weft.compare.values.report import render_values
from weft.errors import UsageError
from weft.values.trace import ValueTrace
from weft.values.watching import LineWatch, parse_watch

PROGRAMS = Path(__file__).parent / "programs"


def line(language: str, mark: str) -> int:
    text = (PROGRAMS / f"watched.{language}").read_text().splitlines()
    return next(n for n, one in enumerate(text, 1) if mark in one)


WATCHED = {
    "c": [
        f"watched.c:{line('c', 'MPI_Allreduce(')}:a[1:rows+1][0:24] as A[first, 0]",
        f"watched.c:{line('c', 'MPI_Allreduce(') + 1}:total",
    ],
    "f90": [
        f"watched.f90:{line('f90', 'MPI_Allreduce(')}:a(:, 1:cols) as A[1, first]",
        f"watched.f90:{line('f90', 'MPI_Allreduce(') + 1}:total",
    ],
    "py": [
        f"watched.py:{line('py', 'comm.allreduce')}:b[1:-1] as A[first, 0]",
        f"watched.py:{line('py', 'return b, total')}:total",
    ],
}


@pytest.fixture(scope="module")
def watched(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of a program with watched lines, each recorded once: its values, and what `weft run` said."""
    folder = tmp_path_factory.mktemp("watched")

    def compiled(language: str, fault: bool) -> list[str | Path]:
        program, flags = folder / f"{language}-{fault}", ["-g", "-O0", *(["-DFAULT"] if fault else [])]
        if language == "py":
            return [mpich.python, PROGRAMS / "watched.py", *(["fault"] if fault else [])]
        compiler = mpich.mpicc if language == "c" else need("mpif90.mpich")
        more = ["-cpp"] if language == "f90" else []
        done = execute([compiler, *more, *flags, PROGRAMS / f"watched.{language}", "-o", program])
        assert done.returncode == 0, done.stderr
        return [program]

    @cache
    def run(language: str, ranks: int, fault: bool = False) -> tuple[ValueTrace, str]:
        if language != "py":
            need("gdb")
        out = folder / f"run-{language}-{ranks}-{fault}"
        told = [word for one in WATCHED[language] for word in ("--watch", one)]
        words = [*WEFT, "run", "--out", out, *told]
        launch = ["mpiexec.mpich", "-n", str(ranks)] if language == "f90" else []
        words += ["--", *launch] if launch else ["-n", str(ranks), "--"]
        done = execute([*words, *compiled(language, fault)], cwd=folder, env=environment())
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.strip().splitlines()) == 1, "only the program's own line"
        return ValueTrace.open(out), done.stderr

    return run


@pytest.mark.matrix
@pytest.mark.parametrize("language", ["c", "f90", "py"])
def test_a_watched_array_is_the_same_on_other_ranks(language: str, watched: Any) -> None:
    before, said = watched(language, 1)
    after, _ = watched(language, 4)
    made = compare_values(before, after, {"": {}})
    assert made.alike, list(render_values(made))
    # In C and Fortran the next statement behind the line of the second watch is behind the loop.
    assert len(before.processes[0].rows) == (8 if language == "py" else 5)
    assert made.elements >= 4 * 24 * 24
    assert "recorded nothing" not in said


@pytest.mark.matrix
@pytest.mark.parametrize(("language", "element"), [("c", (19, 5)), ("f90", (4, 19)), ("py", (19, 5))])
def test_a_planted_fault_is_found_at_the_watched_line(language: str, element: tuple[int, int], watched: Any) -> None:
    made = compare_values(watched(language, 1)[0], watched(language, 4, True)[0], {"": {}})
    [first] = made.found[0]
    place = first.after.place
    number = int(WATCHED[language][0].split(":")[1])
    assert (place.name, place.line, Path(place.file).name) == ("A", number, f"watched.{language}")
    assert (first.element, first.after.process.rank, first.after.times) == (element, 3, 2)
    assert "on rank 3, at visit 3" in next(iter(render_values(made)))


def run_here(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return execute([*WEFT, "run", "--out", "run", *words], cwd=folder, env=environment())


def built(folder: Path, text: str) -> Path:
    (folder / "p.c").write_text(text)
    assert execute([need("cc"), "-g", "-O0", folder / "p.c", "-o", folder / "p"]).returncode == 0
    return folder / "p"


PLAIN = """\
#include <stdlib.h>
struct pair { int left; double right; };
static double table[2][3] = {{1, 2, 3}, {4, 5, 6}};
int main(void) {
    struct pair both = {7, 0.5}, *at = &both;
    unsigned char small = 200;
    float *list = malloc(5 * sizeof *list);
    for (int i = 0; i < 5; i++) list[i] = i * 0.5f;
    if (getenv("NEVER"))
        small = 1;
    return 3 * (small == 200);
}
"""


@pytest.mark.needs("gdb")
def test_expressions_of_c_are_evaluated_and_what_cannot_be_is_told(mpich: Installed, tmp_path: Path) -> None:
    texts = ["table", "table[1][0:2]", "at->right * 4", "small", "list[1:4]", "at", "missing + 1", "both"]
    told = [word for text in texts for word in ("--watch", f"p.c:9:{text}")]
    done = run_here(tmp_path, *told, "--watch", "q.c:10:small", "--", built(tmp_path, PLAIN))
    assert done.returncode == 3, "the program's own status"
    trace = ValueTrace.open(tmp_path / "run")
    kept = {one.place.name: one for one in (trace.processes[0].value_at(row) for row in range(5))}
    assert kept["table"].values().tolist() == [[1, 2, 3], [4, 5, 6]]  # type: ignore[union-attr]
    assert kept["table[1][0:2]"].values().tolist() == [4, 5]  # type: ignore[union-attr]
    assert kept["list[1:4]"].values().tolist() == [0.5, 1, 1.5]  # type: ignore[union-attr]
    assert float(kept["at->right * 4"].values()) == 2  # type: ignore[arg-type]
    assert int(kept["small"].values()) == 200  # type: ignore[arg-type]
    assert "'at' at p.c:9 recorded nothing: it is a pointer (struct pair *): write how many" in done.stderr
    assert "'missing + 1' at p.c:9 recorded nothing: No symbol \"missing\"" in done.stderr
    assert "'both' at p.c:9 recorded nothing: it is of type struct pair" in done.stderr
    assert "--watch q.c:10:small recorded nothing: no rank reached that line" in done.stderr


TEMPLATE = """\
#include <array>
#include <vector>

template <class Vector> struct Solver {
    Vector held;
    std::array<double, 3> few;
};

template <class Vector, class Number>
void solve(Solver<Vector> &solver, const Vector &given, int steps, Number &norm) {
    std::vector<std::vector<int>> table(2, std::vector<int>(3, 7));
    for (int k = 1; k <= steps && norm < 1e9; ++k) {
        Number sum = 0;
        for (auto x : given) sum += x * k;
        solver.held[0] = solver.few[1] = sum;
        table[1][2] = k;
        if (k == 2) {
            norm = sum;
        } else {
            norm = sum / 2;
        }
        if (norm > 1e8) // watched
            norm = table[1][2];
    }
}

int main() {
    Solver<std::vector<double>> solver{{0, 0}, {1, 2, 3}};
    std::vector<double> given{1, 2, 3, 4};
    double norm = 0;
    solve(solver, given, 3, norm);
    return norm > 15;
}
"""


@pytest.mark.cases(1)
@pytest.mark.needs("gdb")
@pytest.mark.parametrize("level", ["-O0", "-Og"])
def test_containers_and_references_of_cplusplus_are_kept_at_the_line_whatever_the_compiler_marks(
    level: str, mpich: Installed, tmp_path: Path
) -> None:
    (tmp_path / "t.cpp").write_text(TEMPLATE)
    compiler = need("g++")
    assert execute([compiler, "-g", level, "t.cpp", "-o", "t"], cwd=tmp_path).returncode == 0
    number = next(n for n, one in enumerate(TEMPLATE.splitlines(), 1) if "// watched" in one)
    texts = ["norm", "given", "given[1:3]", "solver.held", "solver.few", "table[1][0:3]"]
    done = run_here(tmp_path, *[w for text in texts for w in ("--watch", f"t.cpp:{number}:{text}")], "--", "./t")
    assert done.returncode == 0, done.stderr
    assert "recorded nothing" not in done.stderr
    [process] = ValueTrace.open(tmp_path / "run").processes
    kept = [process.value_at(row) for row in range(len(process.rows))]
    assert {(one.place.line, one.place.file) for one in kept} == {(number, str(tmp_path / "t.cpp"))}
    last = {one.place.name: one.values().tolist() for one in kept if one.times == 2}  # type: ignore[union-attr]
    assert last == {
        "norm": 15, "given": [1, 2, 3, 4], "given[1:3]": [2, 3], "solver.held": [30, 0], "solver.few": [1, 30, 3],
        "table[1][0:3]": [7, 7, 3],
    }  # fmt: skip


@pytest.mark.needs("gdb")
def test_a_program_that_is_killed_ends_by_the_same_signal(mpich: Installed, tmp_path: Path) -> None:
    program = built(tmp_path, "#include <stdlib.h>\nint main(void) {\n    int n = 4;\n    abort();\n    return n;\n}\n")
    done = run_here(tmp_path, "--watch", "p.c:4:n", "--", program)
    assert done.returncode == 134
    assert int(ValueTrace.open(tmp_path / "run").processes[0].value_at(0).values()) == 4  # type: ignore[arg-type]


def test_a_python_program_keeps_its_arguments_and_is_not_stopped(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import os, sys\n\n\ndef f(x):\n    y = x * 2\n    return y\n\n\nprint(f(3), sys.argv[1:], __name__)\n"
        "print([name for name in os.environ if name.startswith('WEFT_W')], os.environ.get('PYTHONPATH'))\n"
    )
    told = ["--watch", "own.py:6:y", "--watch", "own.py:6:1 / (y - 6)", "--watch", "own.py:6:'text'"]
    done = run_here(tmp_path, *told, "--", mpich.python, "own.py", "a", "b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["6 ['a', 'b'] __main__", f"[] {os.environ.get('PYTHONPATH')}"]
    [process] = ValueTrace.open(tmp_path / "run").processes
    assert [int(process.value_at(row).values()) for row in range(len(process.rows))] == [6]  # type: ignore[arg-type]
    assert "recorded nothing: ZeroDivisionError: division by zero" in done.stderr
    assert "recorded nothing: it is of type str, and Weft records numbers only" in done.stderr


def test_a_watch_is_file_line_and_expression() -> None:
    assert parse_watch("a.c:3:x[1:2]") == LineWatch("a.c", 3, "x[1:2]")
    assert parse_watch("a.f90:3:x(1:n, 2) as X[lo, 1]") == LineWatch("a.f90", 3, "x(1:n, 2)", "X", "lo, 1")
    for text in ("a.c", "a.c:0:x", "a.c:x:3", "a.c:3:", ":3:x"):
        with pytest.raises(UsageError, match="is not FILE:LINE:EXPR"):
            parse_watch(text)
    with pytest.raises(UsageError, match="is not an expression of Python"):
        parse_watch("a.py:3:x =")
    with pytest.raises(UsageError, match=r"watched\.py has \d+ lines"):
        parse_watch(f"{PROGRAMS / 'watched.py'}:5000:x")


def test_a_line_of_c_is_not_watched_in_a_python_program(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("x = 1\n")
    done = run_here(tmp_path, "--watch", "a.c:3:x", "--", mpich.python, "p.py")
    assert done.returncode == 2
    assert "this is a Python program; name a line of a .py file" in done.stderr
    assert not (tmp_path / "run").exists()
