"""Nothing found is only said of what was looked at: the last line, the exit status, what was left out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests_support import WEFT, execute

LOOP = """\
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#pragma dvm array distribute[block]
double a[9];
int main(int argc, char **argv)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 9; i++)
        a[i] = i;
    END
    #pragma dvm parallel([i] on a[i])
    for (int i = 1; i < 9; i++)
        a[i] = SOURCE;
    return 0;
}
"""


def weft(*words: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = execute([*WEFT, "check", *words], timeout=100, cwd=cwd, env=environment)
    return done.returncode, done.stdout, done.stderr


def program(folder: Path, end: str = "", source: str = "i") -> Path:
    path = folder / "p.cdv"
    path.write_text(LOOP.replace("END", end).replace("SOURCE", source))
    return path


@pytest.mark.matrix
def test_the_last_line_says_what_was_looked_at(tmp_path: Path) -> None:
    status, out, _ = weft(program(tmp_path), "--format", "json", cwd=tmp_path)
    looked = json.loads(out)["run"]["looked"]
    assert status == 0
    assert {key: looked[key] for key in ("loops", "instances", "iterations", "not")} == {
        "loops": 2, "instances": 2, "iterations": 17, "not": [],
    }  # fmt: skip
    assert looked["places"] >= 2


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("*(volatile int *)0 = 1;", 3, "Nothing found so far in {path} (the program ended by SIGSEGV)"),
        ("exit(7);", 3, "Nothing found so far in {path} (the program exited with 7)"),
        ("if (argc > 3) return 0;", 0, "Nothing found in {path} (finished)"),
    ],
)
def test_a_program_that_ends_badly_is_no_all_clear(end: str, status: int, said: str, tmp_path: Path) -> None:
    path = program(tmp_path, end)
    got, out, _ = weft(path, cwd=tmp_path)
    assert (got, out.splitlines()[0]) == (status, said.format(path=path))
    assert ("1 parallel loop that never ran" in out) == (status == 3)


def test_what_was_found_before_a_crash_is_told(tmp_path: Path) -> None:
    text = LOOP.replace("END", "").replace("SOURCE", "a[i - 1]").replace("return 0;", "abort();")
    path = tmp_path / "p.cdv"
    path.write_text(text)
    status, out, _ = weft(path, cwd=tmp_path)
    assert status == 1
    assert "[loop-dependence]" in out and "ended by SIGABRT" in out


@pytest.mark.matrix
def test_a_program_that_is_cut_off_is_no_all_clear_even_where_it_ignores_the_signal(tmp_path: Path) -> None:
    path = program(tmp_path, "extern void *signal(int, void *); signal(15, (void *)1); for (;;) pause();")
    status, out, _ = weft(path, "--timeout", "1", cwd=tmp_path)
    assert status == 3
    assert "(Weft ended the program)" in out and "Weft ended the program after 1 s" in out


def test_a_program_that_leaves_by_exit_has_told_what_ran(tmp_path: Path) -> None:
    status, out, _ = weft(program(tmp_path, "_exit(0);"), cwd=tmp_path)
    assert status == 0
    assert "1 parallel loop (1 run" in out and "1 parallel loop that never ran" in out


OPENACC = """\
int main(void)
{
    static double a[9];
    #pragma acc parallel loop
    for (int i = 1; i < 9; i++)
        a[i] = a[i - 1];
    return 0;
}
"""


def test_a_source_of_openacc_is_not_called_clear(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text(OPENACC)
    status, out, _ = weft("p.c", cwd=tmp_path)
    assert status == 2
    assert out.splitlines()[0] == "Nothing was checked in p.c (finished)"
    assert "Not checked: 1 directive of OpenACC (p.c:4)" in out
    assert "nothing was checked: name the sources that have `#pragma dvm` directives (or `#pragma omp`)" in out


MACROS = """\
program jac
#define N 20
#ifdef WRONG
#define RENEWAL
#else
#define RENEWAL , shadow_renew(a)
#endif
  integer i
  real a(N), b(N)
!DVM$ distribute a(block)
!DVM$ align b(i) with a(i)
!DVM$ parallel (i) on a(i)
  do i = 1, N
    a(i) = i   ! don't // worry
  end do
!DVM$ parallel (i) on b(i) RENEWAL
  do i = 2, N-1
    b(i) = a(i-1)
  end do
  print *, 'it''s', b(3)
end program
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["jac.F90", "jac.f90"])
def test_fortran_with_macros_goes_through_the_preprocessor_and_keeps_its_lines(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(MACROS)
    status, out, _ = weft(name, cwd=tmp_path)
    assert status == 0, out
    assert "it's   2.0" in out and "2 parallel loops (2 runs, 38 iterations)" in out
    status, out, _ = weft(name, "-D", "WRONG", cwd=tmp_path)
    assert status == 1
    assert f"{name}:18  read" in out and f"{name}:16  parallel" in out


def test_a_preprocessor_that_complains_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.F90").write_text("program p\n#if 1\nend program\n")
    status, _, err = weft("p.F90", cwd=tmp_path)
    assert status == 2
    assert err.startswith("weft: p.F90:2: the preprocessor says: ") and len(err.splitlines()) == 1


@pytest.mark.cases(1)
@pytest.mark.parametrize(("variable", "name"), [("CC", "p.cdv"), ("FC", "p.fdv")])
def test_a_compiler_that_is_not_there_is_an_error(variable: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("int main(void) { return 0; }\n" if name == "p.cdv" else "      end\n")
    status, _, err = weft(name, cwd=tmp_path, environment={variable: "no-such-compiler"})
    assert status == 2
    assert err == (
        f"weft: {variable} names no-such-compiler, which is not a program on this machine: name another one, or unset "
        "the "
        "variable\n"
    )


def test_without_tree_sitter_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "p.cdv").write_text(LOOP)
    code = (
        "import sys; sys.modules['tree_sitter'] = None; sys.modules['tree_sitter_c'] = None\n"
        "from weft.cli.main import main; sys.exit(main(['check', 'p.cdv']))\n"
    )
    done = execute([sys.executable, "-c", code], timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "weft: checking C and C++ programs needs tree-sitter: pip install 'weft-debugger[check]'\n"
