"""What a tail is written from comes out of it again."""

import random
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.trace.builder import Builder, standard_functions
from weft.trace.functions import Function, FunctionTable, Parameter
from weft.trace.layout import COUNT_IN_TAIL, IN_PLACE, Flag
from weft.trace.tails import Status, count_time_bytes, decode_tail, encode_tail
from weft.trace.varint import Cursor, Damaged, encode_signed, encode_unsigned, signed64, unzigzag, zigzag

FUNCTIONS = FunctionTable(standard_functions())
WITH_TAILS = [f for f in FUNCTIONS if f.tail_in or f.tail_out]
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT64 = st.integers(0, 2**64 - 1)
STATUS = st.none() | st.builds(
    Status,
    source=st.integers(-(2**31), 2**31 - 1),
    tag=st.integers(-(2**31), 2**31 - 1),
    count=UINT64,
    cancelled=st.booleans(),
    error=st.integers(0, 255),
)


def value_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    """Values that a parameter may have."""
    scalar: st.SearchStrategy[Any]
    if parameter.type == "int":
        scalar = INT64
    elif parameter.type == "address":
        scalar = UINT64 | st.just(IN_PLACE)
    elif parameter.type == "string":
        scalar = st.text(max_size=30)
    elif parameter.type == "status":
        scalar = STATUS
    elif parameter.type == "double":
        scalar = st.floats(allow_nan=False)
    else:
        scalar = st.integers(0, 2**32 - 1)
    return st.lists(scalar, max_size=8) if parameter.array else scalar


@st.composite
def calls(draw: st.DrawFn) -> tuple[Function, dict[str, Any], int, int, int | None]:
    """A function with values for its tail, flags, the buffer's address and a count that may be too large for a slot."""
    function = draw(st.sampled_from(WITH_TAILS))
    values = {p.name: draw(value_of(p)) for p in function.tail_in + function.tail_out if p.part != "both"}
    values |= {p.name: draw(value_of(p)) for p in function.tail_in if p.part == "both"}
    flags = draw(st.sampled_from([0, Flag.TICKET])) | draw(st.sampled_from([0, Flag.CLOSED, Flag.CLOSED | Flag.TRUE]))
    count = draw(st.none() | INT64)
    return function, values, flags, draw(UINT64), count


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls(), st.integers(0, 2**40), UINT64)
def test_a_tail_comes_back_as_it_was_written(call: Any, ticket: int, received: int) -> None:
    function, values, flags, buffer, count = call
    slot_count = 0 if count is None else COUNT_IN_TAIL
    data = encode_tail(
        function, flags, values, buffer=buffer, count=count, slot_count=slot_count, ticket=ticket, received=received
    )
    cursor = Cursor(data)
    tail = decode_tail(function, flags, slot_count, buffer, cursor)
    assert tail.damage is None
    assert cursor.left == 0
    assert tail.count == count
    assert tail.ticket == (ticket if flags & Flag.TICKET else None)
    for p in function.tail_in:
        assert tail.values[p.name] == values[p.name]
    failed_polls = function.is_poll and slot_count and not flags & Flag.TRUE
    if flags & Flag.CLOSED and not failed_polls:
        for p in function.tail_out:
            assert tail.out[p.name] == values[p.name]
        if "status" in function.slot:
            assert tail.received == received
    else:
        assert not tail.out


@pytest.mark.matrix
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls(), st.data())
def test_a_tail_that_is_cut_says_so_and_keeps_what_came_before(call: Any, data: st.DataObject) -> None:
    function, values, flags, buffer, count = call
    slot_count = 0 if count is None else COUNT_IN_TAIL
    whole = encode_tail(function, flags, values, buffer=buffer, count=count, slot_count=slot_count)
    cut = data.draw(st.integers(0, max(len(whole) - 1, 0)))
    tail = decode_tail(function, flags, slot_count, buffer, Cursor(whole[:cut]))
    assert (tail.damage is not None) == (cut < len(whole))
    for name, value in tail.values.items():
        assert value == values[name]


@given(st.binary(max_size=40), st.sampled_from(WITH_TAILS), st.integers(0, 255))
def test_any_bytes_decode_without_an_error(data: bytes, function: Function, flags: int) -> None:
    decode_tail(function, flags, 0, 0, Cursor(data))


@given(UINT64)
def test_a_varint_comes_back(value: int) -> None:
    assert Cursor(encode_unsigned(value)).read_unsigned() == value


@given(INT64)
def test_a_signed_varint_comes_back(value: int) -> None:
    assert Cursor(encode_signed(value)).read_signed() == value
    assert unzigzag(zigzag(value)) == value
    assert signed64(value + 2**64) == value


def test_a_varint_above_64_bits_is_damage() -> None:
    with pytest.raises(Damaged):
        Cursor(b"\xff" * 9 + b"\x7f").read_unsigned()
    with pytest.raises(Damaged):
        Cursor(b"\x80" * 40).read_unsigned()


def test_an_array_longer_than_the_bytes_left_is_damage_not_memory() -> None:
    function = FUNCTIONS["MPI_Waitall"]
    tail = decode_tail(function, Flag.CLOSED, 0, 0, Cursor(encode_unsigned(2**60) + b"\1"))
    assert tail.damage is not None
    assert "only 1 bytes are left" in tail.damage


def test_an_open_call_has_only_what_was_known_at_entry() -> None:
    b = Builder(ranks=1)
    request = b.ranks[0].irecv(0)
    b.ranks[0].open.waitall([request])
    event = b.open().ranks[0].event(1)
    assert event.open
    assert event.args == {"count": 1, "array_of_requests": [request.id]}


def test_the_times_of_a_fold_end_where_their_last_one_ends() -> None:
    """A number of steps is one varint; what is no number of steps is a 3 and the bits of the time."""
    draw = random.Random(7)
    for calls in range(40):
        steps = [draw.choice((0, 1, 2, 4, 120, 2**14, 2**20 + 3)) for _ in range(calls)]
        whole = [encode_unsigned(3) + encode_unsigned(2**62 + draw.getrandbits(40)) for _ in steps]
        codes = [draw.choice((encode_unsigned(one), other)) for one, other in zip(steps, whole, strict=True)]
        text = struct.pack("<d", 1e-9) + b"".join(codes)
        assert count_time_bytes(b"before" + text + draw.randbytes(30), 6, calls) == len(text)
        assert count_time_bytes(text, 0, calls + 1) == len(text)


def test_failed_polls_have_no_results() -> None:
    b = Builder(ranks=1)
    r = b.ranks[0]
    requests = [r.irecv(0), r.irecv(0)]
    r.testsome(requests, [], polls=12)
    r.testany(requests, None, polls=3)
    r.testsome(requests, [1])
    failed, none, done = list(b.open().ranks[0])[2:]
    assert (failed.polls, none.polls, done.polls) == (12, 3, 0)
    assert "array_of_indices" not in failed.args
    assert failed.damage is none.damage is None
    assert done.args["array_of_indices"] == [1]
