"""The OUTCOMES stream: decoded by the library, encoded only here."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.trace import Level
from weft.trace.builder import Builder
from weft.trace.layout import LogKind
from weft.trace.outcome_log import ESCAPE, TURN, decode_outcomes


def encode_outcomes(outcomes: list[tuple[int, int]]) -> list[int]:
    """The mirror of decode_outcomes, as format.h says it."""
    nibbles: list[int] = []
    now: int = LogKind.SOURCE
    for kind, value in outcomes:
        if kind != now:
            nibbles += [TURN, kind]
            now = kind
        if value < ESCAPE:
            nibbles.append(value)
            continue
        nibbles.append(ESCAPE)
        left = value
        while left >= 8:
            nibbles.append(left & 7 | 8)
            left >>= 3
        nibbles.append(left)
    return nibbles


def packed(nibbles: list[int]) -> np.ndarray:
    """Two nibbles a byte, the first one low."""
    even = nibbles + [0] * (len(nibbles) % 2)
    return np.array([low | high << 4 for low, high in zip(even[::2], even[1::2], strict=True)], np.uint8)


OUTCOMES = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 13) | st.integers(0, 2**64 - 1)))


@given(OUTCOMES)
def test_outcomes_come_back_as_they_were_written(outcomes: list[tuple[int, int]]) -> None:
    nibbles = encode_outcomes(outcomes)
    assert decode_outcomes(packed(nibbles), len(nibbles)) == outcomes


@given(OUTCOMES, st.data())
def test_a_cut_stream_keeps_the_outcomes_before_the_cut(outcomes: list[tuple[int, int]], data: st.DataObject) -> None:
    nibbles = encode_outcomes(outcomes)
    cut = data.draw(st.integers(0, len(nibbles)))
    found = decode_outcomes(packed(nibbles), cut)
    assert found == outcomes[: len(found)]


@given(st.binary(max_size=60))
def test_any_bytes_decode_without_an_error(data: bytes) -> None:
    decode_outcomes(np.frombuffer(data, np.uint8))


def test_a_named_source_below_fourteen_costs_half_a_byte() -> None:
    assert len(encode_outcomes([(LogKind.SOURCE, 3)] * 100)) == 100


def test_a_run_of_level_outcomes_reads_them() -> None:
    outcomes = [(LogKind.SOURCE, 1), (LogKind.POLLS, 100), (LogKind.INDEX, 2), (LogKind.SOURCE, 77)] * 9000
    b = Builder(ranks=1, level=Level.OUTCOMES)
    b.ranks[0].append_outcomes(encode_outcomes([*outcomes, (LogKind.SOURCE, 5)]))
    trace = b.open()
    assert trace.level == Level.OUTCOMES
    assert trace.ranks[0].threads[0].outcome_log == [*outcomes, (LogKind.SOURCE, 5)]
