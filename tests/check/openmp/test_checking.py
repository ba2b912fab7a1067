"""What `weft check` says of OpenMP programs beside their races: waits without an end, and what was not looked at."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.check import CheckRequest, CheckResult, check_program
from weft.errors import UsageError
from weft.openmp.build import build_runtime


def run(tmp_path: Path, text: str, name: str = "prog.c", **options: object) -> CheckResult:
    """A program's check."""
    source = tmp_path / name
    source.write_text(text)
    return check_program(CheckRequest((source,), timeout=60, **options), tmp_path)  # type: ignore[arg-type]


def test_a_lock_that_is_taken_twice_waits_for_itself(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """#include <omp.h>
int main(void) {
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
    {
        omp_set_lock(&lock);
        omp_set_lock(&lock);
        omp_unset_lock(&lock);
    }
}
""",
    )
    (one,) = found.findings
    assert one.kind == "deadlock"
    assert {site.line for site in one.sites} == {7, 8}


def test_a_lock_taken_in_one_order_by_one_thread_alone_is_right(tmp_path: Path) -> None:
    """Both orders occur, but a barrier lies between them."""
    found = run(
        tmp_path,
        """#include <omp.h>
int main(void) {
    omp_lock_t a, b;
    omp_init_lock(&a), omp_init_lock(&b);
#pragma omp parallel
    {
        omp_set_lock(&a), omp_set_lock(&b);
        omp_unset_lock(&b), omp_unset_lock(&a);
#pragma omp barrier
        omp_set_lock(&b), omp_set_lock(&a);
        omp_unset_lock(&a), omp_unset_lock(&b);
    }
}
""",
    )
    assert found.findings == ()


def test_a_loop_that_is_never_reached_is_told(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """int a[9];
int main(int n, char **v) {
    if (n > 5)
#pragma omp parallel for
        for (int i = 1; i < 9; i++) a[i] = a[i - 1];
}
""",
    )
    assert found.looked.is_empty
    assert any("nothing was checked" in one for one in found.problems)
    assert any("never ran" in one and "prog.c:4" in one for one in found.looked.unchecked)


def test_a_region_that_one_thread_runs_is_told(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """int a[9];
int main(int n, char **v) {
#pragma omp parallel for if (n > 5)
    for (int i = 1; i < 9; i++) a[i] = a[i - 1];
}
""",
    )
    assert found.findings == ()
    assert any("one thread" in one and "prog.c:3" in one for one in found.looked.unchecked)


def test_an_element_of_fortran_has_its_indices_in_fortrans_order(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """program p
  real :: a(4, 8)
  integer :: i
!$omp parallel do
  do i = 1, 8
    a(2, 7) = i
  end do
end program
""",
        "prog.f90",
    )
    assert "`a(2, 7)`" in found.findings[0].message


COPIED = """#include <stdio.h>
#include <string.h>
int a[50];
int main(int n, char **v) {
#pragma omp target map(to : a) IF
    for (int i = 0; i < 50; i++) a[i] = i + 1;
    HOST
    return a[3];
}
"""


@pytest.mark.matrix
def test_a_target_region_that_runs_on_the_host_copies_nothing(tmp_path: Path) -> None:
    def copied(condition: str) -> int:
        return len(run(tmp_path, COPIED.replace("IF", condition).replace("HOST", "")).findings)

    assert copied("if (n > 5)") == copied("device(1)") == 0
    assert copied("if (n < 5)") == copied("device(0)") == 1


@pytest.mark.cases(1)
@pytest.mark.parametrize("host", ["memset(a, 0, sizeof a);", 'sscanf("9", "%d", a + 3);', "a[3] = 7;"])
def test_what_the_host_has_written_again_is_no_old_copy(tmp_path: Path, host: str) -> None:
    assert run(tmp_path, COPIED.replace("IF", "").replace("HOST", host)).findings == ()
    assert len(run(tmp_path, COPIED.replace("IF", "").replace("HOST", "")).findings) == 1


def test_a_program_that_requires_one_memory_has_no_old_copies(tmp_path: Path) -> None:
    found = run(tmp_path, "#pragma omp requires unified_shared_memory\n" + COPIED.replace("IF", "").replace("HOST", ""))
    assert found.findings == ()
    assert any("unified shared memory" in one for one in found.looked.unchecked)


@pytest.mark.matrix
def test_what_fortran_prints_is_read(tmp_path: Path) -> None:
    text = """program p
  real :: a(4, 8)
  integer :: k(50)
  a = 0
  k = 1
!$omp target map(MAP: a, k)
  a(2, 3) = 1
  k(9) = 3
!$omp end target
  print *, a(1, :)
  print *, a(2, :)
  write (*, *) k
end program
"""
    found = run(tmp_path, text.replace("MAP", "to"), "prog.f90").findings
    assert [(one.facts()["variable"], one.facts()["index"]) for one in found] == [("a", [2, 3]), ("k", [9])]
    assert [{site.line for site in one.sites} for one in found] == [{11, 7}, {12, 8}]
    assert run(tmp_path, text.replace("MAP", "tofrom"), "prog.f90").findings == ()


@pytest.mark.matrix
def test_a_block_that_the_compiler_gives_another_line_is_named_at_its_directive(tmp_path: Path) -> None:
    text = """program p
  real :: a(100), b(100)
  a = 1
!$omp parallel
!$omp workshare
  where (a > 0) b = a * 2
!$omp end workshare nowait
!$omp single
  print *, sum(b)
!$omp end single
!$omp end parallel
end program
"""
    (one,) = run(tmp_path, text, "prog.f90").findings
    assert one.message.startswith(
        "data race on `b(1)`: the single block at line 8 reads it at prog.f90:9, the workshare block at line 5 writes "
        "it at "
        "prog.f90:6"
    )
    assert run(tmp_path, text.replace(" nowait", ""), "prog.f90").findings == ()


@pytest.mark.matrix
def test_memory_that_is_allocated_on_the_device_needs_no_map(tmp_path: Path) -> None:
    text = """#include <omp.h>
#include <stdlib.h>
int main(void) {
    double host[50], sum = 0;
    for (int i = 0; i < 50; i++) host[i] = i;
    double *p = ALLOCATED;
    omp_target_memcpy(p, host, sizeof host, 0, 0, 0, omp_get_initial_device());
#pragma omp target is_device_ptr(p) map(tofrom : sum)
    for (int i = 0; i < 50; i++) sum += p[i];
    return sum < 0;
}
"""
    assert run(tmp_path, text.replace("ALLOCATED", "omp_target_alloc(sizeof host, 0)")).findings == ()
    (one,) = run(tmp_path, text.replace("ALLOCATED", "malloc(sizeof host)")).findings
    assert (one.kind, one.facts()["index"]) == ("remote-access", [0])


def test_constructs_are_counted_at_their_lines(tmp_path: Path) -> None:
    """The compiler gives the calls that begin loops no line of their own."""
    found = run(
        tmp_path,
        """int a[50], s;
int main(void) {
    int i;
#pragma omp parallel
    {
        int k = 0;

#pragma omp for

        for (i = 0; i < 50; i++) a[i] = k;
#pragma omp for reduction(+ : s) schedule(static)
        for (i = 0; i < 10; i++) s += a[i];
#pragma omp sections
        {
            a[0] = 1;
#pragma omp section
            a[1] = 1;
        }
#pragma omp single
        a[0] = 2;
    }
#pragma omp parallel for
    for (i = 0; i < 20; i++) a[i] = 3;
}
""",
    )
    assert {one.construct.line: one.iterations for one in found.looked.ran} == {
        4: 0,
        8: 50,
        11: 10,
        13: 2,
        19: 1,
        22: 20,
    }


@pytest.mark.matrix
def test_several_files_in_c_and_cplusplus_are_one_program(tmp_path: Path) -> None:
    (tmp_path / "part.c").write_text("int total;\nvoid add(int i) {\n    total += i;\n}\n")
    (tmp_path / "whole.cpp").write_text(
        'extern "C" void add(int);\nint main() {\n#pragma omp parallel for\n'
        "    for (int i = 0; i < 9; i++)\n        add(i);\n}\n"
    )
    found = check_program(CheckRequest((tmp_path / "part.c", tmp_path / "whole.cpp"), timeout=60), tmp_path)
    (one,) = found.findings
    assert "`total`" in one.message
    assert one.facts()["loop"]["line"] == 3
    assert {(Path(site.file).name, site.line) for site in one.sites} == {("part.c", 3)}


def test_a_program_that_does_not_compile_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"prog\.c:3"):
        run(tmp_path, "int main(void) {\n#pragma omp parallel\n    x = 1;\n}\n")


def test_another_compiler_than_gcc_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.write_text('#!/bin/sh\ncase "$*" in *-dM*) echo "#define __clang__ 1" ;; *) exec gcc "$@" ;; esac\n')
    other.chmod(0o755)
    monkeypatch.setenv("CC", str(other))
    with pytest.raises(UsageError, match="gcc"):
        run(tmp_path, "int main(void) {\n#pragma omp parallel\n    ;\n}\n")


def test_the_right_advice_is_given(tmp_path: Path) -> None:
    """A sum belongs in a reduction, what each iteration writes first in private, and others' values in neither."""
    found = run(
        tmp_path,
        """int a[50], sum, own, last;
int main(void) {
#pragma omp parallel for
    for (int i = 0; i < 50; i++) {
        sum += a[i];
        own = i;
        a[i] = own;
        if (last < i)
            last = i;
    }
}
""",
    )
    told = {one.facts()["variable"]: one.message for one in found.findings}
    assert "reduction" in told["sum"]
    assert "private" in told["own"]
    assert "private" not in told["last"]
    assert "reduction" not in told["last"]


@pytest.mark.matrix
def test_the_index_of_an_inner_loop_that_all_share_belongs_in_private(tmp_path: Path) -> None:
    text = """int a[20][20], k;
int main(void) {
#pragma omp parallel for PRIVATE
    for (int i = 0; i < 20; i++)
        for (k = 0; k < 20; k++) a[i][k] = i;
}
"""
    (one,) = run(tmp_path, text.replace("PRIVATE", "")).findings
    assert "`k` counts an inner loop: name it in private" in one.message
    assert run(tmp_path, text.replace("PRIVATE", "private(k)")).findings == ()


@pytest.mark.matrix
def test_the_same_iteration_of_two_static_loops_is_one_threads(tmp_path: Path) -> None:
    text = """int a[50], b[50];
int main(void) {
#pragma omp parallel
    {
#pragma omp for SCHEDULE nowait
        for (int i = 0; i < 50; i++) a[i] = i;
#pragma omp for SCHEDULE
        for (int i = 0; i < 50; i++) b[i] = a[i];
    }
}
"""
    assert run(tmp_path, text.replace("SCHEDULE", "schedule(static)")).findings == ()
    (one,) = run(tmp_path, text.replace("SCHEDULE", "")).findings
    assert "with schedule(static) on both loops" in one.message


def test_a_race_beyond_the_processors_there_are_is_found(tmp_path: Path) -> None:
    """Iterations far apart meet, whichever threads would have run them."""
    found = run(
        tmp_path,
        """int a[5000];
int main(void) {
#pragma omp parallel for
    for (int i = 0; i < 5000; i++)
        a[i == 4999 ? 0 : i] = i;
}
""",
    )
    (one,) = found.findings
    assert "iteration 0" in one.message.lower()
    assert "iteration 4999" in one.message.lower()


@pytest.mark.matrix
@pytest.mark.parametrize("index", [777, 90_001])
def test_neighbours_race_in_a_loop_of_very_many_iterations(tmp_path: Path, index: int) -> None:
    """A thread has many of them one behind the other, and each is held against the next all the same."""
    text = """int a[200000];
int main(void) {
#pragma omp parallel for
    for (int i = 0; i < 200000; i++) a[i == INDEX ? i + 1 : i] = i;
}
"""
    (one,) = run(tmp_path, text.replace("INDEX", str(index))).findings
    assert {f"iteration {index}", f"iteration {index + 1}"} <= set(re.findall(r"iteration \d+", one.message.lower()))
    assert run(tmp_path, text.replace("INDEX", "-1")).findings == ()


@pytest.mark.matrix
@pytest.mark.parametrize("directive", ["for order(concurrent)", "for simd order(concurrent)", "simd order(concurrent)"])
def test_a_loop_whose_order_is_free_has_iterations_of_their_own(tmp_path: Path, directive: str) -> None:
    text = f"""int a[50], b[50];
int main(void) {{
#pragma omp {"" if directive.startswith("simd") else "parallel "}{directive}
    for (int i = 1; i < 50; i++) a[i] = b[i - 1];
}}
"""
    assert run(tmp_path, text).findings == ()
    (one,) = run(tmp_path, text.replace("b[i - 1]", "a[i - 1]")).findings
    assert one.facts()["variable"] == "a"


def test_only_a_reproducible_order_keeps_an_iteration_on_its_thread(tmp_path: Path) -> None:
    text = """int a[50], b[50];
int main(void) {
#pragma omp parallel
    {
#pragma omp for schedule(static) order(ORDER: concurrent) nowait
        for (int i = 0; i < 50; i++) a[i] = i;
#pragma omp for schedule(static) order(ORDER: concurrent)
        for (int i = 0; i < 50; i++) b[i] = a[i];
    }
}
"""
    assert run(tmp_path, text.replace("ORDER", "reproducible")).findings == ()
    assert len(run(tmp_path, text.replace("ORDER", "unconstrained")).findings) == 1


def test_what_is_flushed_before_a_flag_is_counted_up_comes_before_who_reads_it(tmp_path: Path) -> None:
    """With a second thread that counts up, too: what each did before comes before the third."""
    text = """#include <omp.h>
int data, more, flag;
static void wait_for(int count) {
    for (int seen = 0; seen < count;)
#pragma omp atomic read
        seen = flag;
#pragma omp flush
}
int main(void) {
#pragma omp parallel num_threads(3)
    {
        int n = omp_get_thread_num();
        if (n == 0) data = 1;
        if (n == 1) more = 2;
        if (n == 2) wait_for(2), data += more;
        else {
#pragma omp flush
#pragma omp atomic update
            flag++;
        }
    }
}
"""
    assert run(tmp_path, text).findings == ()
    late = run(tmp_path, text.replace("flag++;", "flag++;\n            if (n == 0) data = 3;"))
    assert {one.facts()["variable"] for one in late.findings} == {"data"}


def test_a_program_that_only_asks_the_library_runs(tmp_path: Path) -> None:
    found = run(tmp_path, "#include <omp.h>\nint main(void) {\n    return omp_get_wtime() < 0;\n}\n")
    assert found.looked.is_empty
    assert found.findings == ()


def test_the_library_has_every_function_that_gccs_has() -> None:
    def functions(path: str, *words: str) -> set[str]:
        told = subprocess.run(["nm", "--defined-only", *words, path], capture_output=True, text=True, check=True).stdout
        return {line.split()[-1].partition("@")[0] for line in told.splitlines() if " T omp_" in line}

    asked = ["gcc", "-print-file-name=libgomp.so"]
    library = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    wanted = functions(library, "--dynamic")
    assert "omp_get_wtime" in wanted
    assert wanted - functions(str(build_runtime())) == set()


ASYNCHRONOUS = """\
int omp_target_memcpy_async(void *, const void *, unsigned long, unsigned long, unsigned long, int, int, int, void *);
int omp_get_initial_device(void), omp_in_explicit_task(void);
void *omp_get_mapped_ptr(const void *, int);
double a[64], b[64], sum;
int main(void) {
    int host = omp_get_initial_device(), within = 0, there;
    for (int i = 0; i < 64; i++) a[i] = i;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        omp_target_memcpy_async(b, a, sizeof a, 0, 0, host, host, 0, 0);
#WAIT
        sum = b[63];
#pragma omp task shared(within)
        within = omp_in_explicit_task();
#pragma omp taskwait
    }
#pragma omp target data map(to : a)
    there = omp_get_mapped_ptr(a, 0) != 0 && !omp_get_mapped_ptr(b, 0) && omp_get_mapped_ptr(b, host) == b;
    return !(sum == 63 && within == 1 && there && !omp_in_explicit_task());
}
"""
"""Calls that libgomp has from gcc 13 and 14 on, by any gcc."""


@pytest.mark.matrix
@pytest.mark.parametrize(("wait", "kinds"), [("pragma omp taskwait", set()), ("", {"data-race"})])
def test_an_asynchronous_copy_is_a_task(wait: str, kinds: set[str], tmp_path: Path) -> None:
    checked = run(tmp_path, ASYNCHRONOUS.replace("#WAIT", wait and f"#{wait}"))
    assert checked.status == 0
    assert {one.kind for one in checked.findings} == kinds


def test_directives_of_a_header_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "sums.h").write_text(
        "int sum;\nstatic void add(void) {\n#pragma omp parallel for\n"
        "    for (int i = 0; i < 9; i++)\n        sum += i;\n}\n"
    )
    found = run(tmp_path, '#include "sums.h"\nint main(void) {\n    add();\n}\n')
    (one,) = found.findings
    assert {(Path(site.file).name, site.line) for site in one.sites} == {("sums.h", 5)}
    (loop,) = found.looked.ran
    assert (Path(loop.construct.file).name, loop.construct.line, loop.iterations) == ("sums.h", 3, 9)


VECTOR = """\
struct vector {
    double x, y;
    vector &operator+=(const vector &v)
    {
        x += v.x;
        return *this;
    }
};
"""
FORCES = """\
#include "vector.hh"
vector force[16], one = {1, 2};
int main()
{
#pragma omp parallel for
    for (int i = 0; i < 16; i++)
        force[@] += one;
    return force[15].x == 0;
}
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(("index", "faulty"), [("i / 8", True), ("i", False)])
def test_an_access_in_a_function_of_a_header_is_shown_with_its_call(index: str, faulty: bool, tmp_path: Path) -> None:
    (tmp_path / "vector.hh").write_text(VECTOR)
    found = run(tmp_path, FORCES.replace("@", index), "prog.cpp").findings
    assert [{(site.call, Path(site.file).name, site.line) for site in one.sites} for one in found] == (
        [{("read", "vector.hh", 5), ("write", "vector.hh", 5), ("call", "prog.cpp", 7)}] if faulty else []
    )
    assert all("writes it at prog.cpp:7, and nothing orders the two" in one.message for one in found)


def test_of_several_assignments_on_a_line_the_one_that_races_is_named(tmp_path: Path) -> None:
    row = "        for (j = 0; j < 20; j++) { /* its own */ tmp = i * 0.5 + j; a[i][j] = tmp; sum += tmp; }\n"
    checked = run(
        tmp_path,
        "double a[20][20];\nint main(void) {\n    int i, j;\n    double sum = 0, tmp;\n"
        "#pragma omp parallel for private(j) reduction(+:sum)\n    for (i = 0; i < 20; i++)\n"
        f"{row}    return sum < 0;\n}}\n",
    )
    [finding] = checked.findings
    assert finding.facts()["variable"] == "tmp"
    assert "name `tmp` in private" in finding.message


def test_what_a_task_only_copies_as_a_whole_on_its_stack_is_its_own(tmp_path: Path) -> None:
    # The stack is the next task's: the array's first elements are written by memcpy alone.
    text = """
#include <string.h>
struct cell { int n; long alt[32]; } first[8];
int sum;
static int work(int depth, int n) {
    int got = 0;
    for (int j = 0; j < 3; j++) {
#pragma omp task shared(got) firstprivate(j)
        {
            struct cell cells[n];
            memcpy(cells, first, sizeof(struct cell) * n);
            cells[n - 1].n = j;
            int more = depth ? work(depth - 1, n - 1) : cells[n - 1].n;
#pragma omp atomic
            got += more;
        }
    }
#pragma omp taskwait
    return got;
}
int main(void) {
#pragma omp parallel
#pragma omp single
    sum = work(2, 8);
    return sum != 27;
}
"""
    assert run(tmp_path, text).findings == ()


def test_a_function_that_a_line_calls_is_no_name_of_its_data(tmp_path: Path) -> None:
    text = """
#include <stdlib.h>
#include <string.h>
int from[4];
int main(void) {
    int *to = malloc(sizeof from);
#pragma omp parallel for
    for (int i = 0; i < 4; i++)
        memcpy(to, from, sizeof from);
    return 0;
}
"""
    [finding] = run(tmp_path, text).findings
    assert finding.facts()["variable"] == "to"


LINKED = """#include <math.h>
#include <stdio.h>
int main(int n, char **v) {
    double a[9];
#pragma omp parallel for
    for (int i = 0; i < 9; i++) a[i] = erf(0.1 * i * n);
    printf("%d\\n", a[3] > 0);
}
"""


def test_options_take_flags_that_begin_with_a_dash_and_json_is_alone(tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(LINKED)
    command = [*WEFT, "check", "prog.c", "--link", "-lm", "--flags", "-O1", "--format", "json"]
    done = execute(command, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["findings"] == []
    assert done.stderr.startswith("1\n")


def test_the_time_limit_holds_for_the_compiler_too(tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(LINKED)
    with pytest.raises(UsageError, match="did not compile within"):
        check_program(CheckRequest((tmp_path / "prog.c",), timeout=0.001), tmp_path)


def test_iterations_of_a_pointer_are_counted_and_a_scalar_index_is_the_variable(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """int main(void) {
    int a[50], out[50], at = 0;
#pragma omp parallel for
    for (int *p = a; p < a + 50; p++)
        out[at++] = *p;
    return out[at - 1];
}
""",
    )
    (one,) = found.findings
    assert "data race on `at`: the 15th iteration of the loop at line 3 reads it" in one.message


def test_a_loop_is_in_the_file_of_its_directive(tmp_path: Path) -> None:
    (tmp_path / "graph.h").write_text("struct Graph {\n    int n;\n\n\n    int nodes() const { return n; }\n};\n")
    text = """#include "graph.h"
int sum;
int add(const Graph &graph) {
#pragma omp parallel for
    for (int i = 0; i < graph.nodes(); i++)
        sum += i;
    return sum;
}
int main() { return add(Graph{100}) == 0; }
"""
    found = run(tmp_path, text, "prog.cpp")
    assert found.findings[0].facts()["loop"]["file"] == str(tmp_path / "prog.cpp")


def test_a_race_within_a_chunk_of_one_thread_is_a_warning(tmp_path: Path) -> None:
    text = """unsigned long bits[64];
int main(void) {
#pragma omp parallel for schedule(dynamic, SIZE)
    for (int i = 0; i < 4096; i++) bits[i / 64] |= 1ul << i % 64;
}
"""
    (whole,) = run(tmp_path, text.replace("SIZE", "1024")).findings
    assert (whole.severity, whole.certainty) == ("warning", "possible")
    assert "chunk of 1,024 iterations" in whole.message
    (parts,) = run(tmp_path, text.replace("SIZE", "1000")).findings
    assert (parts.severity, parts.certainty) == ("error", "certain")


def test_two_million_iterations_of_a_loop_take_some_four_times_the_memory(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """#include <stdio.h>
#include <stdlib.h>
int main(void) {
    int n = 2000000;
    double *a = calloc(n, sizeof *a);
#pragma omp parallel for
    for (int i = 0; i < n; i++) a[i] += i;
    /* Not ru_maxrss, in which the process that started this one counts. */
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kilobytes = 0;
    while (fgets(line, sizeof line, status) && !sscanf(line, "VmHWM: %ld", &kilobytes));
    if (!kilobytes || kilobytes > 4.5 * n * sizeof *a / 1024) abort();
}
""",
    )
    assert found.findings == ()
    assert found.whole


def test_an_iteration_deep_in_a_long_row_has_its_own_number(tmp_path: Path) -> None:
    """Iterations in a row write no records of their own: their numbers are computed when a finding asks."""
    found = run(
        tmp_path,
        """int a[90003];
int main(void) {
#pragma omp parallel for
    for (long i = 90000; i > 0; i -= 3) {
        a[i] = 1;
        if (i == 30 || i == 60015) a[90001] = i;
    }
}
""",
    )
    assert ["iteration 30 " in one.message and "iteration 60015 " in one.message for one in found.findings] == [True]


def test_a_simd_loop_that_runs_very_often_does_the_same_and_its_lanes_are_compared_in_some_runs(tmp_path: Path) -> None:
    text = """#include <stdio.h>
int main(void) {
    static double a[64], b[64];
    double sum = 0, last = 0;
    unsigned u;
    long count = 0;
    for (int run = 0; run < 3000; run++) {
        int j;
#pragma omp simd reduction(+ : sum) lastprivate(j)
        for (j = 0; j < 33; j++) sum += b[j] + j;
#pragma omp simd lastprivate(last)
        for (int k = 40; k > 3; k -= 3) last = a[k] = k + run;
#pragma omp simd collapse(2) reduction(+ : count)
        for (int m = 0; m < 4; m++)
            for (u = 10; u > 2; u -= 2) count += m * (int)u;
#pragma omp simd reduction(+ : count)
        for (unsigned w = 5; w < 5u + (unsigned)run % 3; w++) count += w;
#pragma omp simd
        for (int k = 1; k < 4; k++) b[k] = b[k DISTANCE];
        count += j;
    }
    FILE *file = fopen("RESULT", "w");
    fprintf(file, "%g %g %ld", sum, last, count);
    fclose(file);
    return 0;
}
"""
    result = tmp_path / "result"
    right, wrong = (text.replace("RESULT", str(result)).replace("DISTANCE", one) for one in ("+ 0", "- 1"))
    found = run(tmp_path, right)
    assert found.findings == ()
    assert result.read_text() == "1.584e+06 3003 619000"
    assert any("simd loop in most of its runs" in one and ":9, 11, 13, 16" in one for one in found.looked.unchecked)
    (one,) = run(tmp_path, wrong).findings
    assert one.kind == "data-race"
    assert {site.line for site in one.sites} == {19}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "prog.c",
            """int main(void) {
    double own[16], s = 0;
    int k;
#pragma omp parallel for private(own) reduction(+ : s)
    for (int i = 0; i < 90; i++) {
#pragma omp simd
        for (k = 0; k < 16; k++) own[k] = k;
        s += own[3];
    }
    return s < 0;
}
""",
            6,
        ),
        (
            "prog.f90",
            """program p
  integer :: i, k
  real(8) :: s, own(16)
  s = 0
!$omp parallel do private(own) reduction(+:s)
  do i = 1, 90
!$omp simd
    do k = 1, 16
      own(k) = k
    end do
    s = s + own(3)
  end do
end program
""",
            7,
        ),
    ],
)
def test_a_shared_counter_of_a_simd_loop_is_named(tmp_path: Path, name: str, text: str, line: int) -> None:
    """The loop gives it its last value in each iteration around it (OpenMP 5.2, 5.1.1: it is linear there)."""
    (one,) = run(tmp_path, text, name).findings
    assert one.message.startswith(f"data race on `k`: the simd loop at line {line} writes it")
    assert "name `k` in private" in one.message
    assert run(tmp_path, text.replace("private(own)", "private(own, k)"), name).findings == ()


def test_a_plain_write_that_no_atomic_read_waits_for_is_found_among_many_reads(tmp_path: Path) -> None:
    text = """int flag, data;
int main(void) {
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 500; i++) {
        int seen;
        for (int again = 0; again < 40; again++) {
#pragma omp atomic read
            seen = flag;
            sum += seen;
        }
        if (i == 250) {
            WRITE
            flag = 1;
        }
    }
    return sum < 0;
}
"""
    (one,) = run(tmp_path, text.replace("WRITE", "")).findings
    assert one.kind == "data-race"
    assert {site.line for site in one.sites} == {9, 14}
    assert run(tmp_path, text.replace("WRITE\n", "\n#pragma omp atomic write\n")).findings == ()


@pytest.mark.parametrize("readers", [500, 2])
def test_a_plain_write_after_more_atomic_reads_than_are_compared_is_said(tmp_path: Path, readers: int) -> None:
    text = f"""int flag, token;
int main(void) {{
    int sum = 0;
#pragma omp parallel
#pragma omp single
    {{
        for (int k = 0; k < {readers}; k++) {{
#pragma omp task depend(in : token)
            {{
                int seen;
#pragma omp atomic read
                seen = flag;
#pragma omp atomic
                sum += seen;
            }}
        }}
#pragma omp task depend(out : token)
        flag = 1;
    }}
    return sum;
}}
"""
    checked = run(tmp_path, text)
    assert checked.findings == ()
    assert ["every 32nd of the others" in one for one in checked.looked.unchecked] == ([True] if readers > 2 else [])


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("fence", "order", "lines"),
    [
        ("atomic_thread_fence(memory_order_acquire);", "memory_order_release", set()),
        ("", "memory_order_relaxed", {11, 19, 27}),
    ],
)
def test_thousands_of_locks_of_ones_own_and_several_flags_before_a_fence_publish(
    tmp_path: Path, fence: str, order: str, lines: set[int]
) -> None:
    found = run(
        tmp_path,
        f"""#include <stdatomic.h>
atomic_int flags[3];
static atomic_char locks[5000];
static long data[3], counts[5000];
int main(void) {{
    long sum = 0;
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (int t = 0; t < 4; t++) {{
        if (t < 3) {{

            data[t] = t + 1;
            atomic_store_explicit(&flags[t], 1, memory_order_release);
            continue;
        }}
        while (!atomic_load_explicit(&flags[0], memory_order_relaxed) |
               !atomic_load_explicit(&flags[1], memory_order_relaxed) |
               !atomic_load_explicit(&flags[2], memory_order_relaxed)) {{}}
        {fence}
        sum += data[0] + data[1] + data[2];
    }}
#pragma omp parallel for
    for (int i = 0; i < 20000; i++) {{
        int at = (int)((unsigned)i * 2654435761u % 5000);
        while (atomic_exchange_explicit(&locks[at], 1, memory_order_acquire)) {{}}


        counts[at]++;
        atomic_store_explicit(&locks[at], 0, {order});
    }}
    return sum != 6;
}}
""",
    )
    assert {site.line for one in found.findings for site in one.sites} == lines
    assert found.status == 0


def test_constructs_that_a_macro_makes_are_counted(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """#define parallel_for _Pragma("omp parallel for") for
int a[100];
int main(void) {
    parallel_for (int i = 0; i < 100; i++) a[i] = i;
    for (int k = 0; k < 3; k++) {
        parallel_for (int i = 0; i < 50; i++) a[i]++;
    }
    return a[9] != 12;
}
""",
    )
    assert found.findings == ()
    assert sorted((one.construct.line, one.times, one.iterations) for one in found.looked.ran) == [
        (4, 1, 100),
        (6, 3, 150),
    ]


def test_what_a_function_of_a_header_swaps_has_the_name_of_its_call(tmp_path: Path) -> None:
    (tmp_path / "swap.h").write_text(
        """template <typename T> inline bool swap_if(T &x, T old_value, T new_value) {
    return __sync_bool_compare_and_swap(&x, old_value, new_value);
}
"""
    )
    (one,) = run(
        tmp_path,
        """#include "swap.h"
int main() {
    int *best = new int[2]();
#pragma omp parallel for
    for (int i = 0; i < 100; i++) {
        int old_value = best[1];
        swap_if(best[1], old_value, i);
    }
}
""",
        "prog.cpp",
    ).findings
    assert one.message.startswith("data race on `best")


@pytest.mark.parametrize(("own", "kinds"), [("", set()), ("static ", {"data-race"})])
def test_the_stack_of_a_thread_is_another_ones_in_each_inner_region(tmp_path: Path, own: str, kinds: set[str]) -> None:
    """A worker of the inner regions serves one iteration after another, in no order."""
    found = run(
        tmp_path,
        f"""static void __attribute__((noinline)) fill(long *p, int n) {{
    for (int k = 0; k < n; k++) p[k] = k + (k ? p[k - 1] : 0);
}}
static long __attribute__((noinline)) sum_up(int n) {{
    {own}long part[64];
    fill(part, n);
    return part[n - 1];
}}
int main(void) {{
    long total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < 100; i++) {{
#pragma omp parallel num_threads(i % 7 + 2) reduction(+ : total)
        {{
            total += sum_up(i % 32 + 1);
            for (int k = 0; k < i * 7 % 5; k++) {{
#pragma omp barrier
                total += sum_up(20 + k);
            }}
        }}
    }}
    return total < 0;
}}
""",
    )
    assert {one.kind for one in found.findings} == kinds


def test_an_object_that_a_class_assigns_to_is_named_and_the_loop_of_another_file_has_its_file(tmp_path: Path) -> None:
    (tmp_path / "two.hh").write_text(
        """struct two {
    double x, y;
    two(double a = 0, double b = 0) : x(a), y(b) {}
    inline two &operator=(const two &other) {
        x = other.x;
        y = other.y;
        return *this;
    }
};
"""
    )
    (tmp_path / "loop.hh").write_text("#pragma omp parallel for\n")
    text = """#include "two.hh"
int main() {
    two *middle = new two[51], *p = new two[101];
#include "loop.hh"
    for (int i = 0; i < 100; i++) {
        middle[INDEX] = p[i];
    }
}
"""
    (one,) = run(tmp_path, text.replace("INDEX", "i / 2"), "prog.cpp").findings
    assert one.message.startswith("data race on `middle`: iteration ")
    assert " of the loop at loop.hh:1 writes it at prog.cpp:6" in one.message
    assert run(tmp_path, text.replace("INDEX", "i").replace("[51]", "[101]"), "prog.cpp").findings == ()


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("name", "text", "directive"),
    [
        (
            "prog.c",
            """int main(void) {
    int a[40], log[40], at = 0;
#pragma omp simd
    for (int k = 0; k < 40; k++) {
        a[k] = k;
#pragma omp ordered simd
        { log[at] = a[k]; at++; }
    }
    return log[39] != 39;
}
""",
            "#pragma omp ordered simd",
        ),
        (
            "prog.f90",
            """program p
  integer :: k, at = 0, log(40)
!$omp simd
  do k = 1, 40
!$omp ordered simd
    at = at + 1
    log(at) = k
!$omp end ordered
  end do
!$omp parallel do ordered
  do k = 1, 40
!$omp ordered
    at = at + 1
!$omp end ordered
  end do
  if (at /= 80) error stop
end program
""",
            "!$omp ordered simd\n    at = at + 1\n    log(at) = k\n!$omp end ordered",
        ),
    ],
)
def test_blocks_of_lanes_in_order_race_with_nothing(tmp_path: Path, name: str, text: str, directive: str) -> None:
    found = run(tmp_path, text, name)
    assert (found.findings, found.status, found.looked.unchecked) == ((), 0, ())
    plain = "\n".join(line for line in directive.splitlines() if "omp" not in line)
    assert {one.kind for one in run(tmp_path, text.replace(directive, plain), name).findings} == {"data-race"}
