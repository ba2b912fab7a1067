"""Programs in the old form of C-DVM (directives and loops in macros) are checked as those of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from check.c_programs import PROGRAMS, fault, faults, variant
from weft.check import CheckRequest, check_program
from weft.dvm import c_old
from weft.dvm.syntax import DirectiveError, Position
from weft.errors import UsageError
from weft.findings import Finding

PROGRAM = """\
#define DVM(dvmdir)
#define DO(v,l,h,s) for(v=l; v<=h; v+=s)
#define FOR(v,n) for (v = 0; v < n; v++)
#define Max(a,b) ((a)>(b)?(a):(b))
#include <stdlib.h>
#define N 8
DVM(PROCESSORS) void * P[1];
DVM(DISTRIBUTE [BLOCK][BLOCK]) double A[N][N];
DVM(DISTRIBUTE) double (*B)[N];
int main(void)
{
int i, j;
double eps = 0;
DVM(DEBUG 1 -d0)
B = malloc(N * N * sizeof(double));
DVM(REALIGN B[i][j] WITH A[i][j]);
DVM(PARALLEL [i][j] ON A[i][j])
FOR(i,N)
FOR(j,N)
  A[i][j] = B[i][j] = i + j;
DVM(PARALLEL [i][j] ON B[i][j]; SHADOW_RENEW A[][])
DO(i,1,N-2,1)
DO(j,1,N-2,1)
   B[i][j] = (A[i-1][j] + A[i][j+1]) / 2;
DVM(PARALLEL [i][j] ON A[i][j]; REDUCTION MAX(eps))
DO(i,0,N-1,1)
DO(j,0,N-1,1)
   eps = Max(eps, A[i][j]);
free(B);
return eps < 0;
}
"""


def run(text: str, folder: Path) -> list[tuple[str, int, int]]:
    path = folder / "p.cdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    findings = check_program(CheckRequest((path,), timeout=30), built).findings
    return [(f.kind, f.sites[0].line, f.facts()["loop"]["line"]) for f in findings]


OLD = PROGRAMS.with_name("old")


PROMISED = {"old_form": 11, "directive_order": 8, "tasks": 6}
"""How many faults each program has."""


def findings_of(text: str, folder: Path) -> list[Finding]:
    path = folder / "program.cdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    return list(check_program(CheckRequest((path,), timeout=30), built).findings)


@pytest.mark.matrix
@pytest.mark.parametrize("name", PROMISED)
def test_each_error_is_told_at_its_line_loop_iteration_and_element(name: str, tmp_path: Path) -> None:
    told = [fault(finding) for finding in findings_of(variant((OLD / f"{name}.cdv").read_text(), False), tmp_path)]
    promised = faults(name, OLD)
    assert len(promised) == PROMISED[name]
    assert set(promised) <= set(told), told
    assert {one.line for one in told} == {one.line for one in promised}, told


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", PROMISED)
def test_the_corrected_twins_are_silent(name: str, tmp_path: Path) -> None:
    found = findings_of(variant((OLD / f"{name}.cdv").read_text(), True), tmp_path)
    assert not found, [finding.message for finding in found]


def test_a_group_with_a_loop_that_cannot_be_followed_is_let_alone(tmp_path: Path) -> None:
    text = variant((OLD / "old_form.cdv").read_text(), False)
    loop = "DVM(PARALLEL [i] ON Q[i]; REDUCTION RG : SUM(total))\nDO(i,1,0,1)\n  total = total + 1;\n"
    text = text.replace("double count;", HIDDEN + "double count;")
    text = text.replace("DVM(REDUCTION_START", loop + "DVM(REDUCTION_START")
    assert "early-reduction-use" not in {finding.kind for finding in findings_of(text, tmp_path)}


HIDDEN = "double * Q;\n"
"""An array whose distribution is not told where it is declared."""


def test_edges_of_arrays_that_cannot_be_followed_are_let_alone(tmp_path: Path) -> None:
    text = variant((OLD / "directive_order.cdv").read_text(), False)
    text = text.replace("double sum, sum2, held;", HIDDEN + "double sum, sum2, held;")
    told = {fault(finding).element for finding in findings_of(text.replace("SG: A[1:1]", "SG: Q[1:1]"), tmp_path)}
    assert told == {"RG", "SG2", "SG3", "SG4", "RG2", "SG5", "FAR"}


def test_a_group_is_one_in_all_sources_of_a_program(tmp_path: Path) -> None:
    first, second = tmp_path / "first.cdv", tmp_path / "second.cdv"
    head = PROGRAM[: PROGRAM.index("#include")]
    first.write_text(
        head + "#define N 8\nDVM(DISTRIBUTE [BLOCK]) double A[N];\nDVM(ALIGN [i] WITH A[i]) double B[N];\n"
        "DVM(SHADOW_GROUP) void * SG;\nextern void renew(void);\nint main(void) {\nint i;\n"
        "DVM(CREATE_SHADOW_GROUP SG: A);\nDVM(PARALLEL [i] ON A[i])\nFOR(i,N)\n  A[i] = i;\nrenew();\n"
        "DVM(PARALLEL [i] ON B[i])\nDO(i,1,N-2,1)\n  B[i] = A[i-1];\nreturn 0;\n}\n"
    )
    renewal = (
        "DVM(SHADOW_GROUP) extern void * SG;\nvoid renew(void)\n{\nDVM(SHADOW_START SG);\nDVM(SHADOW_WAIT SG);\n}\n"
    )
    for text, kinds in ((renewal, set()), (renewal.replace("DVM(SHADOW_WAIT SG);", ""), {"stale-halo-read"})):
        second.write_text(head + text)
        built = tmp_path / f"built{len(kinds)}"
        built.mkdir()
        assert {
            found.kind for found in check_program(CheckRequest((first, second), timeout=30), built).findings
        } == kinds


def test_a_group_that_is_not_declared_has_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"p\.cdv:21:\d+: `SG` is not declared here"):
        run(PROGRAM.replace("DVM(PARALLEL [i][j] ON B", "DVM(SHADOW_START SG) DVM(PARALLEL [i][j] ON B"), tmp_path)


def test_what_else_the_old_form_has_is_read_and_silent(tmp_path: Path) -> None:
    text = (OLD / "rest.cdv").read_text()
    assert not [finding.message for finding in findings_of(text, tmp_path)]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("SHADOW [2:2]", "SHADOW [1:1]", ("remote-access", 35)),  # the edges that are declared are too narrow
        ("; INDIRECT_ACCESS B[from[i]]", "", ("remote-access", 38)),
        ("DVM(COPY) FOR", "FOR", ("remote-access", 39)),
        ("DVM(COPY_START &flag)", "", ("remote-access", 41)),
        ("; ACROSS C[1:0][0:0]; PIPE 4", "", ("loop-dependence", 54)),
        ("ALIGN [i] WITH T[i+1]; SHADOW", "ALIGN [i] WITH T[i]; SHADOW", ("halo-write", 31)),
    ],
)
def test_without_one_of_them_the_program_is_wrong(
    before: str, after: str, told: tuple[str, int], tmp_path: Path
) -> None:
    text = (OLD / "rest.cdv").read_text()
    assert before in text
    found = findings_of(text.replace(before, after, 1), tmp_path)
    assert told in {(one.kind, one.sites[0].line) for one in found}, [one.message for one in found]


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("DVM(ON P[0]) {}", "ON is outside of a TASK_REGION; put TASK_REGION before it"),
        ("DVM(TASK_REGION P) {}", r"`P` is not a task array; put DVM\(TASK\) before its declaration"),
        ("DVM(ON P) {}", r"one task of `P` is expected: P\[0\]"),
        ("DVM(CREATE_SHADOW_GROUP P)", "CREATE_SHADOW_GROUP names a group and, after a colon, its arrays"),
    ],
)
def test_a_directive_about_tasks_or_groups_that_is_wrong_has_its_place(
    directive: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"p\.cdv:15:\d+: .*{message}"):
        run(PROGRAM.replace("B = malloc(", f"{directive} B = malloc("), tmp_path)


def test_a_correct_program_is_silent(tmp_path: Path) -> None:
    assert run(PROGRAM, tmp_path) == []


def test_edges_that_were_not_renewed_are_told(tmp_path: Path) -> None:
    found = run(PROGRAM.replace("; SHADOW_RENEW A[][]", ""), tmp_path)
    assert found
    assert set(found) == {("stale-halo-read", 24, 21)}


def test_a_reduction_that_was_not_declared_is_told(tmp_path: Path) -> None:
    found = run(PROGRAM.replace("; REDUCTION MAX(eps)", ""), tmp_path)
    assert [(line, loop) for _, line, loop in found] == [(28, 25)]


def test_an_unknown_directive_has_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"p\.cdv:14:1: `DEBUGG` is not a directive of C-DVM"):
        run(PROGRAM.replace("DVM(DEBUG", "DVM(DEBUGG"), tmp_path)


@pytest.mark.parametrize(
    ("old", "today"),
    [
        ("DISTRIBUTE[BLOCK][]", "array distribute[block][]"),
        ("ALIGN [i] WITH A[i]", "array align([i] with A[i])"),
        ("REDISTRIBUTE A[][BLOCK] ONTO MB[0]", "redistribute(A[][block] onto MB[0])"),
        ("REALIGN B[i] WITH A[2*i] NEW", "realign(B[i] with A[2*i]) new_value"),
        ("PARALLEL [j] ON A[0][j] ; REMOTE_ACCESS G : B[1][j]", "parallel([j] on A[0][j]) remote_access(G : B[1][j])"),
        ("REMOTE_ACCESS G : B[1]", "remote_access( B[1])"),
        ("CREATE_SHADOW_GROUP G: A[1:1][] CORNER, B", "create_shadow_group G(A[1:1] (corner), B)"),
        ("PREFETCH G", "prefetch G"),
        ("DISTRIBUTE[GENBLOCK(Sizes)]", "array distribute[genblock(Sizes)]"),
        ("TASK_REGION MB; REDUCTION MAX(e)", "task_region MB reduction(max(e))"),
        ("MAP MB[1] ONTO P[0:(n?n-1:0)]", "map MB[1] onto P[0:(n?n-1:0)]"),
        ("DISTRIBUTE [BLOCK]; TEMPLATE [N]", "template[N] distribute[block]"),
        ("ALIGN [i] WITH T[i]; SHADOW [1:1]", "array align([i] with T[i]) shadow[1:1]"),
        (
            "PARALLEL [i] ON A[i]; INDIRECT_ACCESS G: B[C[i]][0], D[i]; PIPE n",
            "parallel([i] on A[i]) remote_access(G: B[][], D[]) stage(n)",
        ),
        ("PROCESSORS", None),
    ],
)
def test_the_old_form_in_todays_words(old: str, today: str | None) -> None:
    assert c_old.modernize_directive(old, Position("p", 1, 1)) == today


def test_an_unknown_clause_is_an_error() -> None:
    with pytest.raises(DirectiveError, match="`SHADOW_RENW` is not a clause of PARALLEL"):
        c_old.modernize_directive("PARALLEL [i] ON A[i]; SHADOW_RENW A", Position("p", 1, 1))
