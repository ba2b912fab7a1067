"""The cause of several findings stands first, and what only follows from it stands with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.base.event_id import EventId
from weft.evidence import NO_EVIDENCE, Absent, Ended, Evidence, Overlap, Parameter, Place, Race, Receive, Sampled
from weft.findings import Finding, Site
from weft.report.causes import (
    attach_consequences_of_overlaps,
    attach_consequences_of_overruns,
    join_equal_overruns,
    put_ends_behind_causes,
    put_harmful_races_first,
    put_mismatches_before_deadlocks,
    remove_absences_of_deadlocks,
    remove_mismatches_of_deadlocks,
    remove_truncations_without_sizes,
)
from weft.usage.buffer_overruns import Overrun
from weft.usage.messages import Sizes

OVERRUN = Overrun(parameter="buf", bytes=32, room=24, behind=8, before=0)
CHANGED = Sampled(seen="by sample", completed=EventId(0, 9), started=[])


def finding(kind: str, line: int = 5, rank: int = 0, evidence: Evidence | None = None, **more: str) -> Finding:
    return Finding(
        kind, more.get("severity", "error"), "certain", f"{kind} shares bytes", (rank,),
        (Site(rank, "MPI_Send", "a.c", line),), evidence=evidence or Parameter(parameter="recvbuf"),
    )  # fmt: skip


def ended(how: str, rank: int = 0) -> Finding:
    return finding("crash" if how == "crash" else "abort", 40, rank, Ended(how=how))


@pytest.mark.parametrize("kind", ["buffer-reuse", "invalid-argument"])
def test_what_meets_a_buffer_that_is_too_long_follows_from_its_overrun(kind: str) -> None:
    meets = finding(kind, evidence=CHANGED if kind == "buffer-reuse" else None)
    (one,) = attach_consequences_of_overruns([meets, finding("buffer-overrun", evidence=OVERRUN)])
    assert one.kind == "buffer-overrun" and one.consequences == (f"{meets.message} [{kind}]",)


@pytest.mark.parametrize(
    "other",
    [
        finding("buffer-reuse", 6, evidence=CHANGED),
        finding("buffer-reuse", rank=1, evidence=CHANGED),
        finding("type-mismatch"),
        finding("invalid-argument", evidence=Parameter(parameter="tag")),
    ],
    ids=["another line", "another rank", "another kind", "another parameter"],
)
def test_what_an_overrun_does_not_explain_stays_a_finding(other: Finding) -> None:
    assert other in attach_consequences_of_overruns([other, finding("buffer-overrun", evidence=OVERRUN)])


@pytest.mark.parametrize(
    ("how", "kind"), [("crash", "buffer-overrun"), ("error", "type-mismatch"), ("error", "truncation")]
)
def test_an_end_stands_behind_the_errors_that_explain_it(how: str, kind: str) -> None:
    found = [ended(how), finding(kind), finding("resource-leak")]
    assert put_ends_behind_causes(found) == [found[1], found[0], found[2]]


@pytest.mark.parametrize(
    "found",
    [
        [ended("crash"), finding("request-misuse")],
        [ended("error"), finding("type-mismatch", rank=1)],
        [ended("error"), finding("type-mismatch", severity="warning")],
        [ended("abort"), finding("type-mismatch")],
    ],
    ids=["no reason to crash", "another rank", "a warning", "the program's own abort"],
)
def test_an_end_that_nothing_explains_stays_in_front(found: list[Finding]) -> None:
    assert put_ends_behind_causes(found) == found


def test_a_message_whose_size_is_known_is_told_once() -> None:
    sized = finding("truncation", evidence=Sizes(sent=9, room=4, messages=1))
    unsized = replace(finding("truncation", 7), evidence=NO_EVIDENCE)
    of_another_rank = replace(finding("truncation", 7, rank=1), evidence=NO_EVIDENCE)
    assert remove_truncations_without_sizes([unsized, sized, of_another_rank]) == [sized, of_another_rank]


def test_what_mpi4py_raises_for_a_message_that_is_too_long_stands_behind_it() -> None:
    raised = Ended(how="exception", name="mpi4py.MPI.Exception")
    found = [finding("uncaught-exception", evidence=raised), finding("truncation")]
    assert put_ends_behind_causes(found) == found[::-1]
    of_its_own = [finding("uncaught-exception", evidence=Ended(how="exception", name="KeyError")), found[1]]
    assert put_ends_behind_causes(of_its_own) == of_its_own


def race(line: int, outcome: str) -> Finding:
    receive = Receive(what="receive", nth=1, rank=0, communicator="world", tag=1)
    evidence = Race(
        communicator="world", tag=1, took=Place(rank=1, event=0), others=[], alternatives=1, influenced=False,
        receive=receive, outcome=outcome, remedy="",
    )  # fmt: skip
    return finding("message-race", line, evidence=evidence, severity="warning")


def test_a_race_whose_other_outcome_is_an_error_stands_before_harmless_ones() -> None:
    found = [race(1, "same"), finding("resource-leak", severity="warning"), race(2, "unknown"), race(3, "truncation")]
    assert put_harmful_races_first(found) == [found[3], found[1], found[0], found[2]]
    assert put_harmful_races_first(found[:3]) == found[:3]


def test_members_that_a_deadlock_misses_are_no_finding_of_their_own() -> None:
    event = (EventId(0, 7),)
    hang = replace(finding("deadlock"), events=event)
    absent = replace(finding("collective-mismatch", evidence=Absent(absent=[1], communicator="world")), events=event)
    assert remove_absences_of_deadlocks([hang, absent]) == [hang]


@pytest.mark.parametrize("change", [{"events": (EventId(0, 8),)}, {"evidence": Parameter(parameter="root")}])
def test_another_mismatch_than_that_of_a_deadlock_stays(change: dict[str, Any]) -> None:
    event = (EventId(0, 7),)
    hang = replace(finding("deadlock"), events=event)
    absent = replace(finding("collective-mismatch", evidence=Absent(absent=[1], communicator="world")), events=event)
    mismatch = replace(absent, **change)
    assert remove_absences_of_deadlocks([hang, mismatch]) == [hang, mismatch]


def test_a_possible_deadlock_leaves_the_mismatch() -> None:
    event = (EventId(0, 7),)
    hang = replace(finding("deadlock"), events=event, certainty="possible")
    absent = replace(finding("collective-mismatch", evidence=Absent(absent=[1], communicator="world")), events=event)
    assert remove_absences_of_deadlocks([hang, absent]) == [hang, absent]


def test_overruns_of_equal_sizes_in_one_procedure_are_one_finding() -> None:
    found = [finding("buffer-overrun", line, evidence=OVERRUN) for line in (5, 6, 9)]
    (one,) = join_equal_overruns(found)
    assert one.message.endswith("; the calls at lines 6 and 9 do the same")
    assert [site.line for site in one.sites] == [5, 6, 9]


@pytest.mark.parametrize("sizes", [{"room": 28}, {"bytes": 40}, {"behind": 16}])
def test_overruns_of_other_sizes_are_findings_of_their_own(sizes: dict[str, int]) -> None:
    facts = {"bytes": 32, "room": 24, "behind": 8, "before": 0} | sizes
    other = finding("buffer-overrun", 6, evidence=Overrun(parameter="buf", **facts))
    found = [finding("buffer-overrun", evidence=OVERRUN), other]
    assert join_equal_overruns(found) == found


def test_a_changed_buffer_follows_from_the_pending_receive_that_writes_there() -> None:
    changed, overlap = (
        finding("buffer-reuse", evidence=CHANGED),
        finding("buffer-reuse", evidence=Overlap(bytes=8, accesses=[])),
    )
    (one,) = attach_consequences_of_overlaps([changed, replace(changed, ranks=(1,)), overlap])
    assert isinstance(one.evidence, Overlap) and one.consequences == (f"{changed.message} [buffer-reuse]",)


@pytest.mark.parametrize("other", [finding("buffer-reuse", 6, evidence=CHANGED), finding("type-mismatch")])
def test_what_an_overlap_does_not_explain_stays_a_finding(other: Finding) -> None:
    overlap = finding("buffer-reuse", evidence=Overlap(bytes=8, accesses=[]))
    assert attach_consequences_of_overlaps([other, overlap]) == [other, overlap]


def test_a_deadlock_between_two_collectives_is_one_finding() -> None:
    calls = (EventId(0, 3), EventId(1, 3))
    deadlock, mismatch = (
        replace(finding("deadlock"), events=calls),
        replace(finding("collective-mismatch"), events=calls),
    )
    assert remove_mismatches_of_deadlocks([deadlock, mismatch]) == [deadlock]


def test_an_earlier_mismatch_stands_before_the_deadlock_that_it_led_to() -> None:
    deadlock = replace(finding("deadlock"), events=(EventId(0, 9), EventId(1, 9)))
    mismatch = replace(finding("collective-mismatch"), events=(EventId(0, 3), EventId(1, 3)))
    found = remove_mismatches_of_deadlocks([deadlock, mismatch])
    assert put_mismatches_before_deadlocks(found) == [mismatch, deadlock]
    elsewhere = replace(mismatch, ranks=(7,))
    assert put_mismatches_before_deadlocks([deadlock, elsewhere]) == [deadlock, elsewhere]
