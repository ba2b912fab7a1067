"""`weft check -- PROGRAM`: a program that `weft cc` built says what it is made of; MPI starts it as often as asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests_support import WEFT, Installed, execute
from weft.errors import UsageError
from weft.sources import compiler_calls

MAKEFILE = """\
CC = gcc -fopenmp -g -O2
prog: main.o libpart.a plain.o
\t$(CC) -o prog main.o -L. -lpart plain.o -lm
libpart.a: deep/part.o deep/unused.o
\tar rcs $@ $^
main.o: main.c
\t$(CC) -pipe -Iinclude -DN=100 -c $<
deep/%.o: deep/%.c
\tcd deep && $(CC) -I../include '-DTEXT="a \\"b\\" \\\\"' -MMD -c $*.c
plain.o: plain.c
\tgcc -c $<
"""
FILES = {
    "Makefile": MAKEFILE,
    "include/part.h": "double part(const double *, int);\nint plain(void);\n",
    "main.c": """\
#include <stdio.h>
#include <stdlib.h>
#include "part.h"
int main(int argc, char **argv)
{
    double a[N];
    for (int i = 0; i < N; i++) a[i] = i + atoi(argv[1]);
    printf("%g %d\\n", part(a, N), plain());
    return argc != 2;
}
""",
    "deep/part.c": """\
#include <math.h>
#include "part.h"
double part(const double *a, int n)
{
    double sum = sizeof TEXT - 8;
    #pragma omp parallel for @
    for (int i = 0; i < n; i++)
        sum += fabs(a[i]);
    return sum;
}
""",
    "deep/unused.c": "#error it is compiled only where the program has it\n",
    "plain.c": "int plain(void) { return 7; }\n",
}
HYBRID = """\
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double a[100], sum = 0, twice = 0, all;
    #pragma omp parallel for
    for (int i = 0; i < 100; i++) a[i] = i + rank;
    if (rank == 1) {
        #pragma omp parallel for @ONE
        for (int i = 0; i < 100; i++)
            sum += a[i];
    }
    #pragma omp parallel for @ALL
    for (int i = 0; i < 100; i++)
        twice = a[i];
    sum += twice;
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%g on %d\\n", all, size);
    MPI_Finalize();
    return 0;
}
"""


def built(folder: Path, clause: str) -> Path:
    """A program of several folders, an archive and an object that `weft cc` did not make."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("@", clause if name == "deep/part.c" else "@"))
    (folder / "deep/unused.c").write_text("int unused;\n")
    made = execute(["make", f"CC={' '.join(WEFT)} cc gcc -fopenmp -g -O2"], timeout=120, cwd=folder)
    assert made.returncode == 0 and "executable stack" not in made.stderr, made.stderr
    (folder / "deep/unused.c").write_text(FILES["deep/unused.c"])
    return folder / "prog"


@pytest.mark.cases(1)
@pytest.mark.parametrize(("clause", "status"), [("reduction(+:sum)", 0), ("", 1)], ids=["right", "faulty"])
def test_a_program_of_a_build_is_checked_from_its_own_sources_and_with_their_options(
    clause: str, status: int, tmp_path: Path
) -> None:
    program = built(tmp_path, clause)
    assert execute([program, "2"], timeout=10).stdout == "5150 7\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = execute([*WEFT, "check", "-o", "report.json", "--format", "json", "--", program, "2"], cwd=elsewhere)
    assert (done.stdout, done.returncode) == ("5150 7\n", status), done.stdout + done.stderr
    report = json.loads((elsewhere / "report.json").read_text())
    assert report["run"]["command"] == [str(program), "2"]
    assert [
        (one["kind"], Path(one["sites"][0]["file"]).name, one["sites"][0]["line"]) for one in report["findings"]
    ] == ([("data-race", "part.c", 8)] if status else [])


@pytest.mark.cases(1)
@pytest.mark.parametrize(("clause", "status"), [("reduction(+:sum)", 0), ("", 1)], ids=["right", "faulty"])
def test_the_loops_of_a_shared_library_that_weft_cc_built_are_checked(clause: str, status: int, tmp_path: Path) -> None:
    """The program's own source has no directive."""
    (tmp_path / "part.c").write_text(
        f"""double part(int n) {{
    double sum = 0;
#pragma omp parallel for {clause}
    for (int i = 0; i < n; i++) sum += i;
    return sum;
}}
"""
    )
    (tmp_path / "main.c").write_text("double part(int); int main(void) { return part(100) != 4950; }\n")
    for words in (
        ["-fopenmp", "-g", "-fPIC", "-shared", "part.c", "-o", "libpart.so"],
        ["-g", "main.c", "-o", "prog", "-L.", "-lpart", f"-Wl,-rpath,{tmp_path}"],
    ):
        made = execute([*WEFT, "cc", "gcc", *words], timeout=60, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    done = execute([*WEFT, "check", "--", "./prog"], timeout=60, cwd=tmp_path)
    assert ("part.c:4" in done.stdout, done.returncode) == (bool(status), status), done.stdout + done.stderr
    assert "1 parallel loop (1 run, 100 iterations)" in done.stderr + done.stdout


@pytest.mark.matrix
def test_the_program_keeps_a_stack_that_is_not_executed(tmp_path: Path) -> None:
    program = built(tmp_path, "reduction(+:sum)")
    headers = execute(["readelf", "-lW", program]).stdout
    (stack,) = [line for line in headers.splitlines() if "GNU_STACK" in line]
    assert "RW " in stack and "RWE" not in stack
    assert all(one["directory"].startswith(str(tmp_path)) for one in compiler_calls.read_compiler_calls(program))


@pytest.mark.matrix
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_each_rank_of_a_hybrid_program_is_checked_in_one_run(
    mpi: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    of: Installed = request.getfixturevalue(mpi)
    said = {}
    for name, one, all_ in (("wrong", "", ""), ("right", "reduction(+:sum)", "lastprivate(twice)")):
        (tmp_path / f"{name}.c").write_text(HYBRID.replace("@ONE", one).replace("@ALL", all_))
        words = [*WEFT, "cc", of.mpicc, "-fopenmp", "-g", "-O1", f"{name}.c", "-o", name]
        made = execute(words, timeout=120, cwd=tmp_path, env=of.environment)
        assert made.returncode == 0, made.stderr
        check = [*WEFT, "check", "--format", "json", "-o", f"{name}.json", "--", *of.mpiexec, "-n", "3", f"./{name}"]
        done = execute(check, timeout=180, cwd=tmp_path, env=of.environment)
        assert "on 3\n" in done.stdout, done.stdout + done.stderr
        report = json.loads((tmp_path / f"{name}.json").read_text())
        said[name] = (
            done.returncode,
            {
                (one["sites"][0]["line"], one["evidence"]["variable"], tuple(one["evidence"]["ranks"]))
                for one in report["findings"]
            },
        )
    assert said == {"wrong": (1, {(15, "sum", (1,)), (19, "twice", (0, 1, 2))}), "right": (0, set())}


def refused(folder: Path, *words: str | Path) -> str:
    done = execute([*WEFT, "check", *words], cwd=folder)
    assert done.returncode == 2 and done.stderr.startswith("weft: ") and "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.mark.matrix
def test_what_is_no_program_of_weft_cc_is_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "name a program's sources" in refused(tmp_path)
    assert "./missing does not exist" in refused(tmp_path, "--", "./missing")
    assert "./missing does not exist" in refused(tmp_path, "--", "env", "A=1", "./missing")
    assert "has no record of its sources: build the program with `weft cc`" in refused(tmp_path, "--", "ls", "-l")
    program = built(tmp_path, "")
    (tmp_path / "deep/part.c").unlink()
    assert "part.c, which does not exist any more" in refused(tmp_path, "--", program, "2")


@pytest.mark.matrix
def test_an_object_with_hooks_that_keeps_no_call_is_named(tmp_path: Path) -> None:
    program = built(tmp_path, "reduction(+:sum)")
    subprocess.run(["objcopy", "--remove-section", compiler_calls.SECTION, "main.o"], cwd=tmp_path, check=True)
    assert "main.o was built with clang or by an older `weft cc`" in refused(tmp_path, "--", program, "2")


def test_what_starts_a_program_means_nothing_for_one_without_openmp(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "#pragma dvm array distribute[block]\ndouble x[9];\nint main(void) { return x[0] > 1; }\n"
    )
    assert execute([*WEFT, "cc", "gcc", "a.c", "-o", "a"], timeout=60, cwd=tmp_path).returncode == 0
    assert "a C-DVMH program is checked in one process: leave out what starts it (env A=1)" in refused(
        tmp_path, "--", "env", "A=1", "./a"
    )


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "text", ["not json\n", "[1]\n", '{"directory": 1}\n', '{"directory": "/", "arguments": []}\n', "\xff\n"]
)
def test_a_section_that_weft_cc_did_not_write_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "section").write_bytes(text.encode("latin-1"))
    subprocess.run(["gcc", "a.c", "-o", "a"], cwd=tmp_path, check=True)
    subprocess.run(["objcopy", "--add-section", f"{compiler_calls.SECTION}=section", "a"], cwd=tmp_path, check=True)
    with pytest.raises(UsageError, match="was not built by `weft cc`, or is damaged"):
        compiler_calls.read_compiler_calls(tmp_path / "a")
    assert "was not built by `weft cc`, or is damaged" in refused(tmp_path, "--", "./a")


def test_any_word_of_a_call_comes_back_as_it_was(tmp_path: Path) -> None:
    entry = {"directory": "/a b/ü", "arguments": ["gcc", '-DA="\\n\'"', "-Dß=%s$1`x`", "tab\there"], "file": "ä.c"}
    (tmp_path / "compiler_calls.s").write_text(compiler_calls.render_assembly([entry, entry], alone=True))
    subprocess.run(["gcc", "-c", "compiler_calls.s"], cwd=tmp_path, check=True)
    assert compiler_calls.read_compiler_calls(tmp_path / "compiler_calls.o") == [entry]
