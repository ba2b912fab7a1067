"""Blocks of the heap are seen as arrays are: behind plain pointers, in components, mapped or not."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from weft.check import CheckRequest, CheckResult, check_program

PLAIN = """\
#include <stdio.h>
#include <stdlib.h>
#define N 16
typedef struct { double *work; int n; } Grid;
#pragma dvm array distribute[block]
double a[N];
static double *own(int n) { double *p = malloc(n * sizeof(double)); return p; }
int main(void)
{
    double *w = malloc(N * sizeof *w), *t = malloc(20 * sizeof *t), (*m)[4] = malloc(N * sizeof *m), *o;
    Grid g, *h = malloc(sizeof *h);
    g.work = malloc(N * sizeof(double));
    if ((h->work = calloc(N, sizeof(double))) == NULL)
        return 1;
    o = own(N);
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++) {
        a[i] = i;
        w[i] = i;
        g.work[i] = 2 * i;
        h->work[i] = i;
        o[i] = i;
        m[i][1] = i;
    }
    double s = 0;
READS
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++)
            t[k] = i + k;
        a[i] = t[0] + t[2] + w[i] + g.work[i] + h->work[i] + o[i] + m[i][1];
    }
    #pragma dvm parallel([i] on a[i])
    for (int i = 1; i < N; i++)
        t[5] WRITTEN a[i];
    free(w);
    free(t);
    printf("%g\\n", s);
    return 0;
}
"""
READS = "    for (int i = 0; i < N; i++)\n        s += w[i] + g.work[i] + h->work[i] + o[i] + m[i][1];"
MAPPED = """\
#include <stdlib.h>
#define N 16
static double *make(int n) { return malloc(n * sizeof(double)); }
int main(void)
{
    #pragma dvm array distribute[block]
    double *a = malloc(N * sizeof(double));
    #pragma dvm array align([i] with a[i])
    double *b;
    if ((b = (double *)malloc(N * sizeof(double))) == NULL)
        return 1;
    #pragma dvm array distribute[block][block]
    double (*c)[N] = calloc(N, sizeof *c);
    #pragma dvm array align([i] with a[i])
    double *d;
    d = make(N);
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++)
        a[i] = d[i] = i;
    #pragma dvm parallel([i][j] on c[i][j])
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            c[i][j] = 1;
    #pragma dvm parallel([i] on b[i])FIRST
    for (int i = 1; i < N; i++)
        b[i] = a[i - 1] + d[i - 1];
    #pragma dvm parallel([i][j] on c[i][j])SECOND
    for (int i = 1; i < N; i++)
        for (int j = 1; j < N; j++)
            c[i][j] = c[i - 1][j];
    a = realloc(a, 2 * N * sizeof *a);
    a[20] = 1;
    free(a);
    free(b);
    return 0;
}
"""


def checked(text: str, folder: Path) -> CheckResult:
    path = folder / "p.cdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    return check_program(CheckRequest((path,), timeout=30), built)


def told(one: CheckResult) -> list[tuple[str, int, str]]:
    return sorted((f.kind, f.sites[0].line, str(f.facts()["variable"])) for f in one.findings)


def test_plain_blocks_that_iterations_write_are_each_processors_own(tmp_path: Path) -> None:
    one = checked(PLAIN.replace("READS", READS).replace("WRITTEN", "+="), tmp_path)
    assert told(one) == [
        *(("uninitialised-read", 27, name) for name in ("g.work", "h->work", "m", "o", "w")),
        ("uninitialised-read", 36, "t"),
    ]
    assert any("`m[0][1]` after the loop that wrote it" in f.message for f in one.findings)


def test_plain_blocks_that_are_read_where_they_were_written_are_right(tmp_path: Path) -> None:
    assert told(checked(PLAIN.replace("READS", "").replace("WRITTEN", "="), tmp_path)) == []


def test_mapped_arrays_may_get_their_memory_in_a_declaration_a_condition_or_a_function(tmp_path: Path) -> None:
    one = checked(MAPPED.replace("FIRST", "").replace("SECOND", ""), tmp_path)
    assert told(one) == [("loop-dependence", 30, "c"), ("stale-halo-read", 26, "a"), ("stale-halo-read", 26, "d")]
    assert one.whole


def test_mapped_blocks_with_their_clauses_are_right(tmp_path: Path) -> None:
    right = MAPPED.replace("FIRST", " shadow_renew(a, d)").replace("SECOND", " across(c[1:0][0:0])")
    one = checked(right, tmp_path)
    assert told(one) == [] and one.whole


LIST = """\
#include <stdlib.h>
struct node { struct node *next; double value; };
#pragma dvm array distribute[block]
double a[4];
int main(void)
{
    struct node *first = NULL;
    for (int i = 0; i < 300000; i++) {
        struct node *one = malloc(sizeof *one);
        one->next = first;
        one->value = i;
        first = one;
    }
    double s = 0;
    #pragma dvm parallel([i] on a[i]) reduction(sum(s))
    for (int i = 0; i < 4; i++)
        s += first->value + (a[i] = i);
    return s > 0 ? 0 : 1;
}
"""


@pytest.mark.matrix
def test_many_small_blocks_cost_no_table(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one = checked(LIST, tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert one.whole and told(one) == []
    # The compiler's time is in it.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5


@pytest.mark.parametrize(("index", "wrong"), [(-1, True), (0, False), (7, False), (8, True)])
def test_an_element_outside_of_its_block_is_told_on_both_sides(index: int, wrong: bool, tmp_path: Path) -> None:
    text = (  # fmt: skip
        "#include <stdlib.h>\n#pragma dvm array distribute[block]\ndouble a[8];\nint main(void)\n{\n"
        "    double *t = malloc(8 * sizeof *t);\n    #pragma dvm parallel([i] on a[i])\n"
        f"    for (int i = 0; i < 8; i++) {{\n        volatile int k = {index};\n        a[i] = i;\n"
        "        t[k] = a[i];\n"
        "    }\n    return 0;\n}\n"
    )
    if index == -1:  # reading it: the allocator's own word is not to be changed
        text = text.replace("t[k] = a[i]", "a[i] = t[k] != 0")
    found = [(kind, line) for kind, line, _ in told(checked(text, tmp_path)) if kind == "out-of-bounds"]
    assert found == ([("out-of-bounds", 11)] if wrong else [])


NUMBERS = """\
#include <stdio.h>
#include <stdlib.h>
#define N 16
typedef struct { double x; int n; double *w; } Pair;
#pragma dvm array distribute[block]
double a[N];
static double twice(size_t v) { return 2.0 * v; }
static Pair pair(void) { Pair p = {1, 2, NULL}; return p; }
static const char *text(void) { return "x"; }
int main(void)
{
    double t[4];
    Pair p[2];
    const char *names[2];
MORE
    t[0] = twice(3);
    t[1] = twice(sizeof(int));
    p[1] = pair();
    p[0].x = twice(sizeof t);
    p[0].n = (int)twice(2);
    p[0].w = (double *)malloc(N * sizeof(double));
    names[0] = text();
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++)
        a[i] = p[0].w[i] = i;
READ
    printf("%g %g %s\\n", t[0] + t[1] + p[0].x, p[1].x + p[0].n, names[0]);
    return 0;
}
"""
"""Calls whose results are numbers, structures, texts and memory, given to elements and components."""
COMPLEX = "    double complex z[2];\n    complex double y;\n    double _Complex x;\n    z[0] = y = x = conj(1 + I);"
OBJECTS = "    std::vector<double> v;\n    v = std::vector<double>(3);\n    v[0] = twice(sizeof(int));"


@pytest.mark.matrix
@pytest.mark.parametrize(("suffix", "head", "more"), [
    (".cdv", "#include <complex.h>", COMPLEX), (".cpp", "#include <vector>", OBJECTS),
])  # fmt: skip
def test_only_calls_that_return_addresses_name_blocks(tmp_path: Path, suffix: str, head: str, more: str) -> None:
    """An element that gets a number from a function does not keep the program from being compiled."""
    source = tmp_path / f"numbers{suffix}"  # C++20's <vector> includes <numbers>: no file beside the source is meant
    for header in ("complex.h", "vector", "numbers"):
        (tmp_path / header).write_text("#error not the compiler's own\n")
    for read, kinds in (("", []), ("    t[0] += p[0].w[3];", ["uninitialised-read"])):
        source.write_text(f"{head}\n" + NUMBERS.replace("MORE", more).replace("READ", read))
        checked = check_program(CheckRequest((source,)), tmp_path)
        assert [one.kind for one in checked.findings] == kinds, checked
        assert all("p[0].w[3]" in one.message for one in checked.findings)
