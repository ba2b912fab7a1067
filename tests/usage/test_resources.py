"""Leaked objects in built traces, and their freed twins."""

from __future__ import annotations

import pytest

from weft.findings import Finding
from weft.report import run_analyses
from weft.report.analysis import merge_by_cause
from weft.trace import EndingKind
from weft.trace.builder import Builder
from weft.usage.resource_leaks import CLASSES, find


def found(b: Builder) -> list[Finding]:
    for r in b.ranks:
        r.finalize()
    return find(b.open())


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.noun)
def test_each_class_leaks_and_is_silent_when_freed(kind) -> None:  # type: ignore[no-untyped-def]
    for free in (*sorted(kind.frees), None):
        b = Builder(ranks=1)
        for number, maker in enumerate(sorted(kind.makers)):
            function = b.functions[f"MPI_{maker}"]
            made = next(p.name for p in function.parameters if p.handle == kind.handle and p.direction == "out")
            b.ranks[0].call(f"MPI_{maker}", site=("a.c", number, "f"), **{made: 300 + number})
            if free:
                freed = b.functions[f"MPI_{free}"].slot[kind.freed].name
                b.ranks[0].call(f"MPI_{free}", **{freed: 300 + number})
        findings = found(b)
        assert [f.kind for f in findings] == ([] if free else ["resource-leak"] * len(kind.makers)), free
        for finding, maker in zip(findings, sorted(kind.makers), strict=False):
            assert f"the {kind.noun} that MPI_{maker} made at a.c" in finding.message


def test_a_null_communicator_is_no_leak() -> None:
    b = Builder(ranks=1)
    b.ranks[0].call("MPI_Comm_split", comm=2, color=-1, newcomm=1)
    assert found(b) == []


def test_what_an_attribute_of_a_predefined_communicator_may_free_at_the_end_is_no_leak() -> None:
    def kept(delete: int, comm: int = 3) -> list[Finding]:
        b = Builder(ranks=1)
        b.ranks[0].type_contiguous(2, "MPI_INT")
        b.ranks[0].call(
            "MPI_Comm_create_keyval", comm_copy_attr_fn=0, comm_delete_attr_fn=delete, comm_keyval=77, extra_state=0
        )
        b.ranks[0].call("MPI_Comm_set_attr", comm=comm, comm_keyval=77, attribute_val=0)
        b.ranks[0].call("MPI_Comm_free_keyval", comm_keyval=77)
        return found(b)

    (note,) = kept(0x1234)
    assert (note.severity, note.certainty) == ("note", "undecided")
    assert "leaves 1 object unfreed" in note.message and "MPI_Finalize calls that function" in note.message
    assert [f.severity for f in kept(0)] == ["warning"]
    assert [f.severity for f in kept(0x1234, comm=300)] == ["warning"]


def test_a_delete_function_of_a_rank_without_leaks_is_not_worth_a_note() -> None:
    b = Builder(ranks=1)
    b.ranks[0].call("MPI_Comm_create_keyval", comm_copy_attr_fn=0, comm_delete_attr_fn=0x1234, comm_keyval=77)
    b.ranks[0].call("MPI_Comm_set_attr", comm=3, comm_keyval=77, attribute_val=0)
    b.ranks[0].call("MPI_Comm_free_keyval", comm_keyval=77)
    assert found(b) == []


def test_all_leaks_of_a_line_are_counted_in_one_finding() -> None:
    b = Builder(ranks=2)
    for _ in range(300):
        for r in b.ranks:
            r.type_contiguous(2, "MPI_INT")
    assert [(f.alike, "and 599 more like it" in f.message) for f in merge_by_cause(found(b))] == [(600, True)]


def test_a_rank_that_was_killed_leaks_nothing() -> None:
    b = Builder(ranks=1)
    b.dup()
    b.ranks[0].open.barrier()
    assert find(b.open()) == []


def test_a_group_of_a_window_is_not_taken_for_the_window() -> None:
    b = Builder(ranks=1)
    b.ranks[0].call("MPI_Win_get_group", win=300, group=301)
    b.ranks[0].call("MPI_Group_free", group=301)
    assert found(b) == []


def test_a_key_whose_number_a_later_one_has_is_told_once_for_each_that_is_not_freed() -> None:
    b = Builder(ranks=1)
    for free in (True, False):
        b.ranks[0].call("MPI_Comm_create_keyval", comm_copy_attr_fn=0, comm_delete_attr_fn=0, comm_keyval=7)
        if free:
            b.ranks[0].call("MPI_Comm_free_keyval", comm_keyval=7)
    b.ranks[0].call("MPI_Type_create_keyval", type_copy_attr_fn=0, type_delete_attr_fn=0, type_keyval=7)
    assert [f.message.split("MPI_")[1].split()[0] for f in found(b)] == ["Comm_create_keyval", "Type_create_keyval"]


@pytest.mark.parametrize("freed", [False, True])
def test_what_a_rank_never_frees_is_the_error_where_mpi_ran_out_of_communicators(*, freed: bool) -> None:
    b = Builder(ranks=1, ended="crashed")
    rank = b.ranks[0]
    for number in range(60):
        for line in (4, 5):
            made = 300 + 2 * number + line - 4
            rank.call("MPI_Comm_split", newcomm=made, site=("a.c", line, "step"))
            if freed or line == 5:
                rank.call("MPI_Comm_free", comm=made)
    rank.add_ending(EndingKind.EXCEPTION, name="mpi4py.MPI.Exception", text="Too many communicators (0/2048 free)")
    told = [(f.kind, f.severity) for f in run_analyses(b.open()).findings]
    assert told == [("uncaught-exception" if freed else "resource-leak", "error")]
