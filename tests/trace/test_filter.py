"""The filter language finds what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.findings import Finding
from weft.trace import Trace
from weft.trace.builder import ANY, Builder
from weft.trace.filter import Filter, parse_terms


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Three ranks; see the tests for what is in it."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=7, site=("step.py", 9, "exchange"), enter=0, exit=2_000_000)
    r1.recv(ANY, got=0, tag=7, enter=1_000, exit=3_000_000)
    r2.open.recv(0, tag=8, enter=5_000_000)
    sub = b.split([0, 1, 0])
    r0.allreduce(comm=sub[0], count=5000)
    window = b.window(sub[0])
    r2.call("MPI_Put", target_rank=0, win=window[2])
    r1.iprobe(flag=False, polls=9)
    r1.send(0, error=5)
    r0.call("MPI_Send_c", buf=0, count=2, datatype="MPI_INT", dest=1, tag=9, comm=2)
    r0.sendrecv(1, 1, thread=3)
    r1.barrier()
    return b.open()


def found(trace: Trace, query: str) -> list[tuple[str, int, int]]:
    """What a query finds: (function, rank, index)."""
    return [(e.function.name[4:], e.rank.index, e.index) for e in trace.select(query)]


def test_a_function_is_named_with_or_without_prefix_and_large_count(trace: Trace) -> None:
    assert found(trace, "fn:Send") == found(trace, "fn:mpi_send") == found(trace, "Send")
    assert {name for name, _, _ in found(trace, "fn:Send")} == {"Send", "Send_c"}
    assert {name for name, _, _ in found(trace, "fn:MPI_Send_c")} == {"Send_c"}
    assert {name for name, _, _ in found(trace, "fn:*send*,Recv")} == {"Send", "Send_c", "Sendrecv", "Recv"}


def test_a_tag_is_a_message_s_tag_and_no_operation(trace: Trace) -> None:
    assert [name for name, _, _ in found(trace, "tag:7")] == ["Send", "Recv"]
    assert not [name for name, _, _ in found(trace, "tag:0-100") if name == "Allreduce"]


def test_ranks_come_as_lists_and_spans(trace: Trace) -> None:
    assert {rank for _, rank, _ in found(trace, "rank:0,2")} == {0, 2}
    assert {rank for _, rank, _ in found(trace, "rank>0")} == {1, 2}
    assert found(trace, "-rank:0-1") == found(trace, "rank:2")


def test_a_call_under_way_is_in_a_span_of_time(trace: Trace) -> None:
    assert [name for name, _, _ in found(trace, "time:1ms-4ms")] == ["Send", "Recv"]
    assert [name for name, _, _ in found(trace, "time:>10s")] == ["Recv"]


def test_a_call_that_never_returned_waits_for_ever(trace: Trace) -> None:
    assert found(trace, "wait>1h") == found(trace, "is:open") == [("Recv", 2, 0)]
    assert [name for name, _, _ in found(trace, "wait>=2ms")] == ["Send", "Recv", "Recv"]
    assert not found(trace, "wait<500ns")


def test_a_communicator_s_name_may_hold_commas(trace: Trace) -> None:
    assert ("Allreduce", 0, 2) in found(trace, "comm:world.split#0[0,2]")
    assert found(trace, "comm:world.split#0[0,2]") == found(trace, "comm:world.split#0[0*,nothing")


def test_a_window_s_communicator_counts(trace: Trace) -> None:
    assert [name for name, _, _ in found(trace, "comm:*[0,2] rank:2")] == ["Win_create", "Put"]


def test_a_site_is_a_file_a_line_or_a_function(trace: Trace) -> None:
    for site in ("step.py", "step.py:9", "exchange", "*.py"):
        assert found(trace, f"site:{site}") == [("Send", 0, 0)]
    assert not found(trace, "site:step.py:1")


def test_states_are_told_apart(trace: Trace) -> None:
    assert found(trace, "is:wildcard fn:Recv") == [("Recv", 1, 0)]
    assert found(trace, "is:poll") == [("Iprobe", 1, 2)]
    assert [name for name, _, _ in found(trace, "is:error")] == ["Send"]
    assert [name for name, _, _ in found(trace, "error:5")] == ["Send"]
    assert [name for name, _, _ in found(trace, "thread:3")] == ["Sendrecv"]
    assert [name for name, _, _ in found(trace, "count>4000")] == ["Allreduce"]


def test_bytes_are_those_that_came_else_those_of_the_buffer(trace: Trace) -> None:
    assert ("Recv", 1, 0) in found(trace, "bytes:4")
    assert [name for name, _, _ in found(trace, "bytes>=20k")] == ["Allreduce"]
    assert found(trace, "bytes>19.5Ki") == found(trace, "bytes>19968B") == found(trace, "bytes>=20k")
    assert not [name for name, _, _ in found(trace, "bytes>=0") if name == "Barrier"]


def test_bytes_of_a_status_in_a_tail_and_of_large_counts() -> None:
    b = Builder(ranks=2)
    b.ranks[0].recv(1, count=9, received=20, ticket=5)
    b.ranks[0].send(1, count=2**40, datatype="MPI_BYTE")
    few = b.open()
    assert found(few, "bytes:20") == [("Recv", 0, 0)]
    assert not found(few, "bytes<20")


def test_or_stands_between_lists_of_terms(trace: Trace) -> None:
    both = found(trace, "fn:Recv rank:1 or fn:Allreduce rank:0")
    assert (
        sorted(both) == sorted(found(trace, "fn:Recv rank:1") + found(trace, "fn:Allreduce rank:0")) and len(both) > 1
    )
    assert found(trace, "rank:1 OR rank:2") == found(trace, "rank:1-2")
    assert [r.index for r in Filter("rank:0 fn:Send or rank:2").ranks(trace)] == [0, 2]
    also = Filter("rank:0 or rank:1", also=parse_terms("fn:Send"))
    assert [(e.rank.index, e.function.base) for e in also.events(trace)] == [
        (0, "MPI_Send"),
        (0, "MPI_Send"),
        (1, "MPI_Send"),
    ]


def test_a_state_may_stand_alone(trace: Trace) -> None:
    assert found(trace, "open") == found(trace, "is:open")
    assert found(trace, "-open") == found(trace, "-is:open")


def test_finding_asks_for_the_events_of_findings(trace: Trace) -> None:
    findings = [
        Finding("deadlock", "error", "certain", "x", events=((2, 0), (1, 0))),
        Finding("late-sender", "note", "certain", "y", events=((0, 0),)),
    ]
    chosen = [e.id for e in trace.select("finding:deadlock", findings)]
    assert chosen == [(1, 0), (2, 0)]
    assert [e.id for e in trace.select("finding:any", findings)] == [(0, 0), (1, 0), (2, 0)]
    assert (1, 0) not in [e.id for e in trace.select("-finding:deadlock", findings)]
    with pytest.raises(UsageError, match="needs the findings of the run"):
        list(trace.select("finding:deadlock"))


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("tga:7", "did you mean tag?"),
        ("rnak:1", "did you mean rank?"),
        ("source:3", "did you mean peer?"),
        ("size>4", "did you mean bytes?"),
        ("is:opne", "did you mean is:open?"),
        ("finding:dedlock", "did you mean finding:deadlock?"),
    ],
)
def test_a_typo_is_told_with_the_nearest_word(query: str, nearest: str) -> None:
    with pytest.raises(UsageError) as told:
        Filter(query, findings=())
    assert nearest in str(told.value) and "\n" not in str(told.value)


def test_a_word_that_is_like_nothing_gets_no_advice() -> None:
    with pytest.raises(UsageError) as told:
        Filter("zzz:1")
    assert "did you mean" not in str(told.value)


def test_an_empty_filter_finds_everything(trace: Trace) -> None:
    assert Filter("").count(trace) == trace.event_count == len(list(trace.select("")))


@pytest.mark.parametrize(
    "query",
    [
        "tag:x",
        "foo:1",
        "time:1y",
        "is:asleep",
        "a(b",
        "rank:",
        "wait>fast",
        "rank:1-x",
        "tag:1,,2",
        "or",
        "fn:Send or",
        "bytes>big",
        "finding:nothing",
    ],
)
def test_what_is_no_filter_is_refused_before_anything_is_read(query: str) -> None:
    with pytest.raises(UsageError):
        Filter(query)


@given(st.text(max_size=30))
def test_any_text_is_a_filter_or_a_usage_error(trace: Trace, text: str) -> None:
    try:
        wanted = Filter(text)
    except UsageError:
        return
    wanted.count(trace)


def test_a_filter_prints_as_it_was_written() -> None:
    for text in ("fn:Recv -tag:7 wait>1ms", "fn:Recv or -rank:1 bytes>4k", "Send -step.py:9"):
        assert str(Filter(text)) == text
    assert parse_terms("Send")[0].key == "word"


@pytest.mark.parametrize("word", ["step.py", "step", "STEP.py", "step.py:9", "9", "exchange", "exch*", "is,step"])
def test_a_word_alone_finds_files_lines_and_functions_of_the_source(trace: Trace, word: str) -> None:
    assert found(trace, word) == [("Send", 0, 0)]


@pytest.mark.parametrize("word", ["step.py:8", "ste", "tep.py", "10", "exchanges", "py"])
def test_a_word_alone_finds_nothing_that_is_called_otherwise(trace: Trace, word: str) -> None:
    assert found(trace, word) == []


def test_a_word_alone_finds_calls_of_callers_and_paths() -> None:
    b = Builder(ranks=1)
    b.ranks[0].barrier(site=("/src/halo/low.c", 5, "swap"))
    b.ranks[0].barrier(site=("/src/rod/low.c", 5, "swap"))
    opened = b.open()
    assert len(found(opened, "low.c:5")) == len(found(opened, "swap")) == len(found(opened, "Barrier -high.c")) == 2
    assert len(found(opened, "halo/low.c")) == len(found(opened, "/src/halo/low.c:5")) == 1
