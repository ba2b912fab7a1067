"""The text of one module: where calls are put, and which accesses are the program's."""

from __future__ import annotations

from weft.native.headers.numba import MAX_ARGUMENTS
from weft.numba.instrument import (
    IterationAddresses,
    Module,
    Roots,
    find_frame_pointers,
    find_line_chains,
    operand_of_argument,
    split_arguments,
    strip_lines,
    type_size,
)

KERNEL = """\
define i32 @_ZN21__numba_parfor_gufunc(ptr %retptr, ptr %arg.sched.4, ptr %arg.a.4, ptr %arg.b.4) !dbg !3 {
entry:
  %own = alloca [4 x i64], align 8
  %in = getelementptr i64, ptr %own, i64 1
  store i64 0, ptr %in, align 8, !dbg !5
  %from = getelementptr double, ptr %arg.a.4, i64 3, !dbg !5
  %x = load double, ptr %from, align 8, !dbg !5
  br label %next
next:
  %y = phi double [ %x, %entry ]
  store double %y, ptr %arg.b.4, align 8, !dbg !6
  store ptr null, ptr %retptr, align 8
  ret i32 0
}
!5 = !DILocation(line: 7, column: 1, scope: !3)
!6 = !DILocation(line: 8, column: 1, scope: !3, inlinedAt: !7)
!7 = distinct !DILocation(line: 9, column: 1, scope: !3)
"""


def test_data_of_the_program_is_hooked_and_the_frame_is_not() -> None:
    module = Module(KERNEL, lambda chain: 10 + chain[0], kernel=True)
    text = module.instrument()
    assert "call void @weft_numba_read(ptr %from, i64 8, i32 17)" in text
    assert "call void @weft_numba_write(ptr %arg.b.4, i64 8, i32 18)" in text
    assert "(ptr %in" not in text
    assert "(ptr %retptr, i64" not in text
    assert text.count("declare void @weft_numba_read(") == 1


def test_a_guarded_read_leaves_the_phis_behind_it_right() -> None:
    module = Module(KERNEL, lambda chain: 1, kernel=True, guards=4096)
    text = module.instrument()
    assert "load i8, ptr inttoptr (i64 4097 to ptr)" in text
    hooked, whole = text.split("define internal i32 @_ZN21__numba_parfor_gufunc.weft.whole(")
    assert "[ %x, %entry ]" not in hooked
    assert "[ %x, %entry ]" in whole
    assert module.stored == {2}


def test_a_kernel_asks_by_itself_whether_an_iteration_wrote_a_whole_cell_before() -> None:
    addresses = IterationAddresses(fold=0xFFF8, cells=1 << 44, iteration=64, loop=128, places=4096)
    hooked = (
        Module(KERNEL, lambda chain: 3, True, addresses, 8192)
        .instrument()
        .split("@_ZN21__numba_parfor_gufunc.weft.whole(")[0]
    )
    assert hooked.count("and i64") == 2
    assert "load i32, ptr inttoptr (i64 64 to ptr)" in hooked
    assert f"load i32, ptr inttoptr (i64 {4096 + 4 * 3} to ptr)" in hooked
    split = KERNEL.replace("store double %y, ptr %arg.b.4, align 8", "store double %y, ptr %arg.b.4, align 1")
    assert Module(split, lambda chain: 3, True, addresses, 8192).instrument().count("and i64") == 1


def test_a_kernel_without_hooks_runs_where_the_runtime_wants_it() -> None:
    text = Module(KERNEL, lambda chain: 1, kernel=True, guards=4096).instrument()
    whole, chooser = text.split("@_ZN21__numba_parfor_gufunc.weft.whole(", 1)[1].split(
        "define i32 @_ZN21__numba_parfor_gufunc("
    )
    assert "weft_numba" not in whole
    assert "!dbg" not in whole
    assert f"load i8, ptr inttoptr (i64 {4096 + MAX_ARGUMENTS} to ptr)" in chooser
    given = "(ptr %retptr, ptr %arg.sched.4, ptr %arg.a.4, ptr %arg.b.4)"
    assert [f"call i32 @_ZN21__numba_parfor_gufunc.weft.{way}{given}" in chooser for way in ("hooked", "whole")] == [
        True,
        True,
    ]


def test_a_write_through_an_unknown_pointer_may_go_anywhere() -> None:
    text = KERNEL.replace("ptr %arg.b.4, align 8, !dbg !6", "ptr %somewhere, align 8, !dbg !6")
    module = Module(text, lambda chain: 1, kernel=True, guards=4096)
    module.instrument()
    assert module.stored is None


def test_a_place_that_is_none_of_the_programs_gets_no_call() -> None:
    assert "weft" not in Module(KERNEL, lambda chain: None, kernel=True).instrument()


def test_lines_are_read_from_the_inside_outwards() -> None:
    assert find_line_chains(KERNEL.splitlines())["!6"] == (8, 9)


def test_a_masked_access_counts_its_lanes_only() -> None:
    text = KERNEL.replace(
        "  %x = load double, ptr %from, align 8, !dbg !5",
        "  %x4 = call <4 x double> @llvm.masked.load.v4f64.p0(ptr align 8 %from, <4 x i1> %mask, "
        "<4 x double> poison), !dbg !5",
    )
    out = Module(text, lambda chain: 1, kernel=True).instrument()
    assert "bitcast <4 x i1> %mask to i4" in out
    assert "call void @weft_numba_read_masked(ptr %from, i64 8, i64 %weft." in out


def test_sizes_of_types() -> None:
    assert [type_size(kind) for kind in ("double", "float", "i1", "i64", "ptr", "<4 x double>", "{ i64 }")] == [
        8, 4, 1, 8, 8, 32, None,
    ]  # fmt: skip


def test_arguments_are_split_outside_of_brackets() -> None:
    assert split_arguments("ptr %a, <2 x i1> <i1 true, i1 false>, i64 3) !dbg") == [
        "ptr %a", "<2 x i1> <i1 true, i1 false>", "i64 3",
    ]  # fmt: skip
    assert operand_of_argument("ptr nonnull align 8 %a.b") == "%a.b"


def test_the_lines_of_a_module_can_be_taken_out() -> None:
    assert "!dbg" not in strip_lines(KERNEL)


def test_pointers_are_followed_to_their_root() -> None:
    head, *lines = KERNEL.splitlines()
    roots = Roots(head, lines)
    assert roots.find_argument("%from") == 1
    assert roots.find_argument("%in") is None
    assert find_frame_pointers(lines) >= {"%own", "%in", "%retptr"}
