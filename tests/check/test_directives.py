"""Directives of both languages give the same tree; what the language does not know is an error with its place."""

from __future__ import annotations

import pytest

from weft.dvm import syntax
from weft.dvm.directives.c import read_c_directive as read_c
from weft.dvm.directives.fortran import read_fortran_directive as read_fortran
from weft.dvm.syntax import Affine, Constant, Directive, DirectiveError, Position, Section, Whole


def c(text: str) -> Directive:
    return read_c([(Position("p.cdv", 7, 13), text)])


def fortran(*lines: str) -> Directive:
    return read_fortran([(Position("p.fdv", 7 + k, 6), line) for k, line in enumerate(lines)])


def told(subscripts: object) -> list[object]:
    """Subscripts as short texts."""
    assert isinstance(subscripts, tuple)
    return [
        (s.dummy, s.coefficient.text, s.offset.text)
        if isinstance(s, Affine)
        else s.value.text
        if isinstance(s, Constant)
        else (s.low and s.low.text, s.high and s.high.text)
        if isinstance(s, Section)
        else "*"
        for s in subscripts
    ]


def test_a_parallel_loop_reads_the_same_in_both_languages() -> None:
    one = c(
        "parallel([i][j] on a[i][2*j+1]) shadow_renew(b(corner)), "
        "across(a[1:0][0:0]) reduction(max(e), maxloc(m, k, 2))"
    )
    two = fortran(
        " PARALLEL (I, J) ON A(I, 2*J+1), SHADOW_RENEW(B(CORNER)),",
        " ACROSS(A(1:0,0:0)), REDUCTION(MAX(E), MAXLOC(M, K, 2))",
    )
    for found in (one, two):
        assert isinstance(found, syntax.Parallel)
        assert (found.rank, found.indices) == (2, ("i", "j"))
        assert found.on is not None and found.on.name == "a"
        first, second = found.on.subscripts or ()
        assert isinstance(first, Affine) and (first.coefficient.text, first.offset.text) == ("1", "0")
        assert isinstance(second, Affine) and second.dummy == 1
        assert eval(second.coefficient.text) == 2 and eval(second.offset.text) == 1
        renew, across, reduction = found.clauses
        assert isinstance(renew, syntax.ShadowRenew) and renew.items[0].corner and renew.items[0].widths is None
        assert isinstance(across, syntax.Across)
        assert [(w.low.text, w.high.text) for w in across.items[0].widths or ()] == [("1", "0"), ("0", "0")]
        assert isinstance(reduction, syntax.Reductions)
        assert [(r.operator, r.variable.name) for r in reduction.items] == [("max", "e"), ("maxloc", "m")]
        assert reduction.items[1].location is not None and reduction.items[1].location.name == "k"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("distribute[block][*][]", ["block", "*", "*"]),
        ("distribute[wgtblock(w, n + 1)][genblock(g)]", ["wgtblock", "genblock"]),
        ("distribute[multblock(3)][indirect(map)]", ["multblock", "indirect"]),
        ('distribute[derived(next[i], low(i):high(i) with a[@i + "edge"])]', ["derived"]),
    ],
)
def test_every_distribution_is_read(text: str, kinds: list[str]) -> None:
    found = c(f"array {text} shadow" + "[1:2]" * len(kinds))
    assert isinstance(found, syntax.Declare)
    distribution = next(a for a in found.attributes if isinstance(a, syntax.Distribution))
    assert [axis.kind for axis in distribution.axes or ()] == kinds


def test_alignment_knows_shifts_stretchs_and_whole_dimensions() -> None:
    found = c("array align([i][][k] with t[k - 1][3][][2 * i])")
    assert isinstance(found, syntax.Declare)
    alignment = next(a for a in found.attributes if isinstance(a, syntax.Alignment))
    assert alignment.dummies == ("i", None, "k")
    assert alignment.target is not None
    shift, constant, whole, stretch = alignment.target.subscripts or ()
    assert isinstance(shift, Affine) and shift.dummy == 2 and eval(shift.offset.text) == -1
    assert isinstance(constant, Constant) and constant.value.text == "3"
    assert isinstance(whole, Whole)
    assert isinstance(stretch, Affine) and eval(stretch.coefficient.text) == 2


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("template[n][m] distribute[block][block] dynamic", syntax.Declare),
        ("inherit(a, b)", syntax.Declare),
        ("redistribute(a[block][*])", syntax.Redistribute),
        ("realign(a[i] with b[i]) new_value", syntax.Realign),
        ("region in(a[0:3]), out(b) inout(c) local(d) inlocal(e) targets(HOST, CUDA) async", syntax.Region),
        ("parallel(3) private(i, j) tie(a[i]) stage(2) cuda_block(32, 8)", syntax.Parallel),
        ("actual(a, b[1:2])", syntax.Actual),
        ("get_actual(eps)", syntax.Actual),
        ("remote_access(a[1][], b[n - 1])", syntax.RemoteAccess),
        ("host_section", syntax.Note),
        ("interval n * 2", syntax.Note),
        ("endinterval", syntax.End),
        ("exitinterval 1, 2", syntax.Note),
        ("instantiations set(T = int), set(T = double)", syntax.Note),
        ('shadow_add(a[i with b[@i]][] = "edge") include_to(c, d)', syntax.ShadowAdd),
        ("localize(ref => target[:][])", syntax.Localize),
        ("unlocalize(ref)", syntax.Note),
        ("array_copy(a = b)", syntax.ArrayCopy),
    ],
)
def test_every_directive_of_c_dvmh_is_read(text: str, made: type[Directive]) -> None:
    if "tie" in text:
        text = text.replace("parallel(3)", "parallel([i][j][k])")
    assert type(c(text)) is made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (" DISTRIBUTE A(BLOCK,*) ONTO P", syntax.Declare),
        (" DISTRIBUTE (WGT_BLOCK(W,10), GEN_BLOCK(G)) :: A, B", syntax.Declare),
        (" DISTRIBUTE, DYNAMIC, SHADOW(1:1) :: A", syntax.Declare),
        (" ALIGN B(I,*) WITH A(I+1)", syntax.Declare),
        (" ALIGN (I) WITH A(I) :: B, C", syntax.Declare),
        (" TEMPLATE T(N,0:M)", syntax.Declare),
        (" PROCESSORS P(NUMBER_OF_PROCESSORS())", syntax.Declare),
        (" TASK MB(2)", syntax.Declare),
        (" REAL, POINTER(:,:) :: A", syntax.Declare),
        (" REDUCTION_GROUP G", syntax.Declare),
        (" INHERIT A", syntax.Declare),
        (" REDISTRIBUTE A(*,BLOCK) ONTO MB(1), NEW_VALUE", syntax.Redistribute),
        (" REALIGN B(I) WITH A(I)", syntax.Realign),
        (" PARALLEL (I) ON A(I), NEW(X), REDUCTION(G: SUM(S)), SHADOW_START SG, STAGE(2)", syntax.Parallel),
        (" PARALLEL (I) ON A(I) REMOTE_ACCESS(G: B(I,:)), CONSISTENT(C(I)), TIE(D(-I))", syntax.Parallel),
        (" SHADOW_GROUP SG(A, B(CORNER), C(1:1,0:1)(CORNER))", syntax.DefineGroup),
        (" SHADOW_WAIT SG", syntax.UseGroup),
        (" REDUCTION_START G", syntax.UseGroup),
        (" PREFETCH G", syntax.UseGroup),
        (" REMOTE_ACCESS (A(1,:))", syntax.RemoteAccess),
        (" TASK_REGION MB, REDUCTION(MAX(E))", syntax.TaskRegion),
        (" MAP MB(1) ONTO P(1:N)", syntax.Map),
        (" ON MB(1), PRIVATE(X)", syntax.On),
        (" END ON", syntax.End),
        (" ENDTASK_REGION", syntax.End),
        (" REGION IN(A(1:N)), TARGETS(HOST)", syntax.Region),
        (" END REGION", syntax.End),
        (" GET_ACTUAL", syntax.Actual),
        (" ACTUAL(A(1:2), B)", syntax.Actual),
        (" TEMPLATE_CREATE(T(N))", syntax.NewArray),
        (" LOCALIZE(REF => T(:,*))", syntax.Localize),
        (" F90 A(1:N) = B(1:N)", syntax.ArrayCopy),
        (" INTERVAL 3", syntax.Note),
        (" DEBUG 1 (D = 0)", syntax.Note),
        (" ENDDEBUG 1", syntax.End),
        (" CP_CREATE CP1, VARLIST(A, B), FILES('a', 'b')", syntax.Note),
    ],
)
def test_every_directive_of_fortran_dvmh_is_read(text: str, made: type[Directive]) -> None:
    assert type(fortran(text)) is made


def test_colons_of_an_alignment_go_together_in_their_order() -> None:
    found = fortran(" ALIGN (:,*,:) WITH B(:,2,:) :: A")
    assert isinstance(found, syntax.Declare)
    (alignment,) = found.attributes
    assert isinstance(alignment, syntax.Alignment) and alignment.target is not None
    assert told(alignment.target.subscripts) == [(0, "1", "0"), "2", (2, "1", "0")]
    assert alignment.dummies is not None and alignment.dummies[1] is None


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("paralel([i] on a[i])", 13, "`paralel` is not a directive of C-DVMH"),
        ("parallel([i] on a[i]) shadow_renw(a)", 35, "`shadow_renw` is not a clause of parallel"),
        ("parallel([i] on a[i * i])", 31, "is not of the form a*i+b"),
        ("parallel([i] on a[b[i]])", 31, "is not of the form a*i+b"),
        ("parallel([i][i] on a[i])", 26, "`i` is here twice"),
        ("parallel([i] on a[i]) reduction(avg(s))", 45, "`avg` is not a reduction"),
        ("parallel([i] on a[i]) private(x", 44, "the directive ends where `)` is expected"),
        ("array distribute[cyclic]", 30, "`cyclic` is not a distribution"),
        ("array distribute[block] align([i] with b[i])", 13, "either distributed or aligned"),
        ("region use(a)", 20, "`use` is not a clause of region"),
        ("region targets(GPU)", 28, "`GPU` is not a target"),
        ("actual(a) now", 23, "`now` is where the directive should end"),
    ],
)
def test_what_the_language_does_not_know_is_told_with_its_place(text: str, column: int, what: str) -> None:
    with pytest.raises(DirectiveError) as caught:
        c(text)
    assert what in str(caught.value)
    assert str(caught.value).startswith(f"p.cdv:7:{column}: ")


def test_the_place_in_a_continued_directive_is_that_of_its_own_line() -> None:
    with pytest.raises(DirectiveError) as caught:
        fortran(" PARALLEL (I) ON A(I),", "  SHADOW_RENWE(A)")
    assert str(caught.value).startswith("p.fdv:8:8: `SHADOW_RENWE` is not a clause of parallel")
