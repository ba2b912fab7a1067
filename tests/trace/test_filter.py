"""The filter language finds what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import UsageError
from weft.trace import Trace
from weft.trace.builder import ANY, Builder
from weft.trace.filter import Filter, parse


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


def test_an_empty_filter_finds_everything(trace: Trace) -> None:
    assert Filter("").count(trace) == trace.event_count == len(list(trace.select("")))


@pytest.mark.parametrize(
    "query", ["tag:x", "foo:1", "time:1y", "is:asleep", "a(b", "rank:", "wait>fast", "rank:1-x", "tag:1,,2"]
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
    assert str(Filter("fn:Recv -tag:7 wait>1ms")) == "fn:Recv -tag:7 wait>1ms"
    assert parse("Send")[0].key == "fn"
