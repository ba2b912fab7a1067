"""`weft cc`: the compiler's own work with hooks added, for whatever a build asks of it."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from machine import need
from tests_support import WEFT, clang, execute
from weft.access.command_line import compile_command, compile_commands, link_command, parse_command
from weft.errors import UsageError

HOOKS = ("-fsanitize=thread",)
SUM = "int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"
MAIN = """#include <stdio.h>
#include <string.h>
int sum(const int *a, int n);
int main(void) {
    int a[4] = {1, 2, 3, 4}, b[4];
    memcpy(b, a, sizeof b);
    __atomic_fetch_add(&b[0], 10, __ATOMIC_RELAXED);
    printf("%d\\n", sum(b, 4));
    return 0;
}
"""

Weft = Callable[..., subprocess.CompletedProcess[str]]


def lines(*words: str) -> list[str]:
    """What a line that compiles and links becomes, as text."""
    line = parse_command(words)
    folder = Path("T")
    commands = [*compile_commands(line, HOOKS, folder), link_command(line, folder, ["hooks.o"])]
    return [" ".join(command) for command in commands]


def test_a_line_that_compiles_and_links_becomes_one_for_each_source_and_one_for_the_link() -> None:
    assert lines("mpicc", "-O2", "-o", "prog", "a.c", "b.o", "-DX=1", "c.c", "-L/lib", "-lm") == [
        "mpicc -O2 -DX=1 -fsanitize=thread -c a.c -o T/0-a.o",
        "mpicc -O2 -DX=1 -fsanitize=thread -c c.c -o T/1-c.o",
        "mpicc -O2 -o prog T/0-a.o b.o -DX=1 T/1-c.o -L/lib -lm hooks.o",
    ]


def test_options_with_values_of_their_own_are_no_sources() -> None:
    assert lines("gcc", "-include", "x.c", "-I", "d", "-o", "p.c", "a.f90")[0] == (
        "gcc -include x.c -I d -fsanitize=thread -c a.f90 -o T/0-a.o"
    )


def test_the_language_that_is_named_counts_and_not_the_ending() -> None:
    assert lines("gcc", "-x", "c", "prog.txt") == [
        "gcc -x c -fsanitize=thread -c prog.txt -o T/0-prog.o", "gcc T/0-prog.o hooks.o",
    ]  # fmt: skip


def test_what_only_compiles_stays_one_line() -> None:
    assert compile_command(parse_command(["gfortran", "-c", "a.F90", "-o", "x.o"]), HOOKS) == [
        "gfortran", "-c", "a.F90", "-o", "x.o", "-fsanitize=thread",
    ]  # fmt: skip


def test_hooks_are_put_in_before_the_link_even_with_link_time_optimisation() -> None:
    assert all(
        "-flto -fno-lto" in " ".join(line.split()) or "-fno-lto" in line for line in lines("gcc", "-flto", "a.c")
    )


def test_lists_of_headers_lie_beside_the_output_as_without_us() -> None:
    first, last = lines("gcc", "-MD", "-o", "bin/prog", "a.c")
    assert "-MF bin/prog-a.d" in first
    assert "-M" not in last


@pytest.mark.parametrize("words", [["--version"], ["-E", "a.c"], ["-M", "a.c"], ["-print-libgcc-file-name"], ["-v"]])
def test_questions_to_the_compiler_go_through(words: list[str]) -> None:
    assert parse_command(["gcc", *words]).passes


def test_compiling_does_not_go_through() -> None:
    assert not parse_command(["gcc", "a.c"]).passes


def test_response_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("-O2 'a b.c'")
    assert parse_command(["gcc", f"@{tmp_path}/words"]).sources == ["a b.c"]


def test_hooks_of_the_programs_own_are_refused() -> None:
    with pytest.raises(UsageError, match="-fsanitize=thread"):
        parse_command(["gcc", "-fsanitize=thread", "a.c"])


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "sum.c").write_text(SUM)
    (tmp_path / "main.c").write_text(MAIN)
    return tmp_path


@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_the_program_runs_without_weft_as_ever(sources: Path, weft_command: Weft, compiler: str) -> None:
    need(compiler)
    done = weft_command("cc", compiler, "-O2", "-o", "prog", "main.c", "sum.c")
    assert (done.returncode, done.stderr) == (0, "")
    assert execute([sources / "prog"]).stdout == "20\n"
    assert "tsan" not in execute(["ldd", sources / "prog"]).stdout
    assert "__tsan_read4" in execute(["nm", sources / "prog"]).stdout


@pytest.mark.cases(1)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="hooks are calls on other machines")
@pytest.mark.parametrize("words", [[], ["-pipe"], ["-save-temps"], ["-fPIE", "-pie"], ["-fno-pie", "-no-pie"]])
def test_hooks_look_at_the_address_without_a_call(sources: Path, weft_command: Weft, words: list[str]) -> None:
    done = weft_command("cc", "gcc", "-O2", *words, "-o", "prog", "main.c", "sum.c")
    assert (done.returncode, done.stderr) == (0, "")
    assert "weft_hook_pages" in execute(["objdump", "-d", "--disassemble=sum", sources / "prog"]).stdout
    assert execute([sources / "prog"]).stdout == "20\n"


def test_assembly_that_a_person_wrote_is_assembled_as_it_is(sources: Path, weft_command: Weft) -> None:
    text = execute(["gcc", "-O1", "-S", "-o", "-", sources / "sum.c"]).stdout
    (sources / "sum.s").write_text(text)
    done = weft_command("cc", "gcc", "-o", "prog", "main.c", "sum.s")
    assert (done.returncode, done.stderr) == (0, "")
    assert execute([sources / "prog"]).stdout == "20\n"
    assert (sources / "sum.s").read_text() == text


@pytest.mark.matrix
def test_objects_libraries_and_static_links_are_built_one_after_the_other(sources: Path, weft_command: Weft) -> None:
    for words in (
        ["-c", "-fPIC", "sum.c"], ["-shared", "-o", "libsum.so", "sum.o"], ["-c", "main.c"],
        ["-o", "prog", "main.o", "-L.", "-lsum", "-Wl,-rpath,$ORIGIN"], ["-static", "-o", "still", "main.c", "sum.c"],
        ["-r", "-o", "both.o", "main.o", "sum.o"], ["-o", "third", "both.o"],
    ):  # fmt: skip
        done = weft_command("cc", "gcc", *words)
        assert done.returncode == 0, done.stderr
    for program in ("prog", "still", "third"):
        assert execute([sources / program]).stdout == "20\n"


@pytest.mark.matrix
def test_make_builds_with_it(sources: Path) -> None:
    (sources / "Makefile").write_text("prog: main.o sum.o\n\t$(CC) -o $@ $^\n")
    weft = " ".join(WEFT)
    done = execute(["make", f"CC={weft} cc gcc", "prog"], cwd=sources)
    assert done.returncode == 0, done.stderr
    assert execute([sources / "prog"]).stdout == "20\n"


@pytest.mark.matrix
def test_cpp_and_fortran_are_built(tmp_path: Path, weft_command: Weft) -> None:
    (tmp_path / "a.cpp").write_text(
        "#include <iostream>\n#include <vector>\nstruct B { virtual ~B() {} virtual int f() { return 1; } };\n"
        "struct C : B { int f() override { return 2; } };\n"
        "int main() { std::vector<int> v(3, 7); B *b = new C; std::cout << v[2] + b->f() << '\\n'; delete b; }\n"
    )
    (tmp_path / "a.f90").write_text(
        "program p\n integer :: a(10), b(10)\n a = [(i, i = 1, 10)]\n b(1:5) = a(6:10)\n b(6:10) = 0\n"
        " print '(i0)', sum(b)\nend program\n"
    )
    for compiler, source, said in (("g++", "a.cpp", "9\n"), ("gfortran", "a.f90", "40\n")):
        done = weft_command("cc", compiler, "-g", "-o", "prog", source)
        assert (done.returncode, done.stderr) == (0, "")
        assert execute([tmp_path / "prog"]).stdout == said


def test_errors_of_the_program_are_the_compilers(tmp_path: Path, weft_command: Weft) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return x; }\n")
    done = weft_command("cc", "gcc", "a.c")
    assert done.returncode == 1
    assert "a.c:1" in done.stderr and "weft" not in done.stderr


def test_a_compiler_that_is_none_or_missing_is_told(tmp_path: Path, weft_command: Weft) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    done = weft_command("cc", sys.executable, "a.c")
    assert done.returncode == 2 and "neither gcc" in done.stderr
    done = weft_command("cc", "no-such-compiler", "a.c")
    assert done.returncode == 2 and "no compiler no-such-compiler" in done.stderr
    assert weft_command("cc").returncode == 2
