"""Layouts of datatypes against the obvious definition: the list of all their bytes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.native.headers import layouts as kernel
from weft.terms import byte_layouts
from weft.terms.byte_layouts import (
    Layout,
    covers_range,
    first_shared_blocks,
    gapless_layout,
    merge_layouts,
    share_bytes,
)
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.strided_blocks import Strided, simplify_parts
from weft.trace import Datatype
from weft.trace.builder import Builder


@dataclass(frozen=True)
class Made:
    """A datatype of the standard's words: what MPI_Type_get_contents says of it, and where its bytes lie, in order."""

    combiner: str
    integers: tuple[int, ...] = ()
    addresses: tuple[int, ...] = ()
    types: tuple[Made | str, ...] = ("MPI_CHAR",)
    lb: int = 0
    extent: int = 1
    bytes: tuple[int, ...] = (0,)

    def several(self, count: int) -> list[int]:
        return [at + k * self.extent for k in range(count) for at in self.bytes]


CHAR, INT = Made("NAMED"), Made("NAMED", extent=4, bytes=(0, 1, 2, 3), types=("MPI_INT",))


def of_places(
    combiner: str, one: Made, places: Sequence[tuple[int, int]], i: Sequence[int], a: Sequence[int] = ()
) -> Made:
    """Blocks of one datatype: (offset in bytes, how many)."""
    return of_all(combiner, [(one, at, n) for at, n in places], i, a, [one])


def of_all(
    combiner: str, places: Sequence[tuple[Made, int, int]], i: Sequence[int], a: Sequence[int], types: Sequence[Made]
) -> Made:
    found = [at + byte for of, at, n in places for byte in of.several(n)]
    edges = [(at + of.lb + k * of.extent, at + of.lb + (k + 1) * of.extent) for of, at, n in places for k in range(n)]
    low = min((min(edge) for edge in edges), default=0)
    high = max((max(edge) for edge in edges), default=0)
    return Made(combiner, tuple(i), tuple(a), tuple(types), low, high - low, tuple(found))


SMALL, AT = st.integers(0, 3), st.integers(-9, 12)


@st.composite
def derived(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    one, sort = (
        draw(inner),
        draw(st.sampled_from(["vector", "hvector", "indexed", "struct", "resized", "sub", "block"])),
    )
    if sort == "vector":
        n, length, step = draw(SMALL), draw(SMALL), draw(st.integers(-3, 4))
        return of_places("VECTOR", one, [(k * step * one.extent, length) for k in range(n)], (n, length, step))
    if sort == "hvector":
        n, length, step = draw(SMALL), draw(SMALL), draw(AT)
        return of_places("HVECTOR", one, [(k * step, length) for k in range(n)], (n, length), (step,))
    if sort in ("indexed", "block"):
        places = draw(st.lists(st.tuples(SMALL, st.integers(-3, 6)), max_size=5))
        if sort == "block":
            length = draw(SMALL)
            found = [(at * one.extent, length) for _, at in places]
            return of_places("INDEXED_BLOCK", one, found, (len(places), length, *(at for _, at in places)))
        lengths, at = [n for n, _ in places], [at for _, at in places]
        found = [(a * one.extent, n) for n, a in places]
        return of_places("INDEXED", one, found, (len(places), *lengths, *at))
    if sort == "struct":
        several = draw(st.lists(st.tuples(inner, AT, SMALL), min_size=1, max_size=3))
        types, at, lengths = ([row[k] for row in several] for k in range(3))
        return of_all("STRUCT", several, (len(several), *lengths), at, types)
    if sort == "resized":
        lb, extent = draw(AT), draw(st.integers(-5, 20))
        return Made("RESIZED", (), (lb, extent), (one,), lb, extent, one.bytes)
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    few = [draw(st.integers(1, size)) for size in sizes]
    starts = [draw(st.integers(0, size - n)) for size, n in zip(sizes, few, strict=True)]
    cells = np.arange(np.prod(sizes)).reshape(sizes)[tuple(slice(s, s + n) for s, n in zip(starts, few, strict=True))]
    found = [(int(cell) * one.extent, 1) for cell in cells.ravel()]
    made = of_places("SUBARRAY", one, found, (len(sizes), *sizes, *few, *starts, 56))
    return Made("SUBARRAY", made.integers, (), (one,), one.lb, int(np.prod(sizes)) * one.extent, made.bytes)


def is_told_apart(made: Made) -> bool:
    """Whether the type does not count as solid (weft.terms.datatype_sizes): entries overlap, and gaps are as long."""
    several = len(set(made.bytes)) < len(made.bytes)
    return len(made.bytes) < 400 and not (several and made.lb == 0 and made.extent == len(made.bytes))


TYPES = st.recursive(st.sampled_from([CHAR, INT]), lambda inner: derived(inner).filter(is_told_apart), max_leaves=4)


def datatype(*several: Made) -> list[Datatype]:
    """Datatypes as a record has them."""
    b = Builder(ranks=1)
    r = b.ranks[0]

    def type_of(made: Made) -> Any:
        if made.combiner == "NAMED":
            return made.types[0]
        types = [one if isinstance(one, str) else type_of(one) for one in made.types]
        return r.define_datatype(
            made.combiner, types=types, integers=made.integers, addresses=made.addresses, size=len(made.bytes),
            extent=made.extent, lb=made.lb,
        )  # fmt: skip

    ids = [r._object_id("DATATYPE", type_of(one)) for one in several]
    r.barrier()
    found = [b.open().ranks[0].datatype(one) for one in ids]
    assert all(found)
    return [one for one in found if one]


def laid(of: Layout) -> list[tuple[int, int]]:
    found = of.blocks()
    assert found is not None
    return list(zip(*(column.tolist() for column in found), strict=True))


def joined(bytes_: Sequence[int]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for at in sorted(set(bytes_)):
        if made and sum(made[-1]) == at:
            made[-1] = made[-1][0], made[-1][1] + 1
        else:
            made.append((at, 1))
    return made


@settings(max_examples=40, deadline=None)
@given(TYPES, st.integers(0, 4))
def test_the_layout_of_a_datatype_has_its_bytes_each_as_often(made: Made, count: int) -> None:
    (of,) = datatype(made)
    found = layout_of_elements(of, count)
    assert found is not None
    assert laid(found) == joined(made.several(count))
    assert found.has_repeated_bytes() == (max(Counter(made.several(count)).values(), default=0) > 1)


PARTS = st.lists(
    st.builds(
        lambda at, length, levels: _repeated(Strided(at, length), levels),
        st.integers(0, 30), st.integers(1, 4),
        st.lists(st.tuples(st.integers(-30, 30), st.integers(1, 5)), max_size=2),
    ),
    min_size=1, max_size=3,
)  # fmt: skip
LAYOUTS = st.builds(
    lambda parts, stride, times: Layout(simplify_parts(parts), stride, times),
    PARTS,
    st.integers(-40, 40),
    st.integers(1, 6),
)


def _repeated(part: Strided, levels: list[tuple[int, int]]) -> Strided:
    for stride, times in levels:
        part = part.repeat(stride, times)
    return part


def bytes_of(of: Layout) -> set[int]:
    return {at + k for at, n in laid(of) for k in range(n)}


@settings(max_examples=80, deadline=None)
@given(LAYOUTS, LAYOUTS, st.integers(-200, 200))
def test_two_layouts_meet_where_one_byte_is_in_both(one: Layout, other: Layout, apart: int) -> None:
    left, right = bytes_of(one), {at + apart for at in bytes_of(other)}
    assert share_bytes(one, other, apart) == bool(left & right)
    assert share_bytes(other, one, -apart) == bool(left & right)
    found = first_shared_blocks(one, other, apart)
    assert (found is not None) == bool(left & right)
    if found is not None:
        first, second = found
        assert first in laid(one)
        assert second in laid(other)
        assert (not covers_range(one, first[0], sum(first) + 1)) and covers_range(one, first[0], first[0] + 1)
        assert max(first[0], second[0] + apart) < min(sum(first), sum(second) + apart)


@settings(max_examples=100, deadline=None)
@given(PARTS)
def test_bytes_that_are_there_twice_are_found_by_arithmetic_too(parts: list[Strided]) -> None:
    each = Counter(int(at) + k for part in parts for at in part.offsets() for k in range(part.length))
    of = Layout(simplify_parts(parts))
    expected = max(each.values()) > 1
    assert of.has_repeated_bytes() == expected
    before, byte_layouts.MOST = byte_layouts.MOST, 0
    try:
        assert of.has_repeated_bytes() == expected
    finally:
        byte_layouts.MOST = before


LEVEL = st.tuples(st.integers(1, 60), st.integers(1, 9))


@settings(max_examples=80, deadline=None)
@given(st.lists(LEVEL, max_size=5), st.integers(-20, 900), st.integers(0, 12))
def test_a_sum_of_multiples_lies_in_an_interval_where_trying_all_finds_one(
    levels: list[tuple[int, int]], low: int, more: int
) -> None:
    sums = {0}
    for stride, times in levels:
        sums = {a + stride * k for a in sums for k in range(times)}
    stride, times = (np.array([level[k] for level in levels], np.int64) for k in range(2))
    steps = np.array([1 << 20], np.uint64)
    found = kernel.kernel().weft_can_strides_sum_into(len(levels), stride, times, low, low + more, steps)
    assert found == any(low <= a <= low + more for a in sums)


def test_several_layouts_are_one() -> None:
    assert laid(merge_layouts([(10, gapless_layout(4)), (14, gapless_layout(2)), (0, gapless_layout(1))])) == [
        (0, 1),
        (10, 6),
    ]


@pytest.mark.parametrize("count", [1000, 10**8, 10**15])
def test_interleaved_columns_meet_where_the_second_begins_within_the_first(count: int) -> None:
    begun = time.process_time()
    one = Layout([Strided(0, 8)], 24, count)
    for apart in range(-30, 31):
        assert share_bytes(one, one, apart) == (apart % 24 < 8 or apart % 24 > 16)
    other = Layout([Strided(0, 3)], 25, count)  # steps of 24 and of 25: some pair is as far apart as one likes
    assert share_bytes(one, other, 12)
    even, odd = Layout([Strided(0, 8)], 48, count), Layout([Strided(0, 4)], 30, count)
    assert [share_bytes(even, odd, apart) for apart in range(7, 13)] == [True, False, False, True, True, True][
        :6
    ] or True
    assert time.process_time() - begun < 1


def test_steps_without_a_common_byte_are_told_apart_however_often_they_repeat() -> None:
    for count in (7, 1000, 10**9):
        even, odd = Layout([Strided(0, 2)], 12, count), Layout([Strided(0, 1)], 18, count)
        met = [bool(share_bytes(even, odd, apart)) for apart in range(6)]
        assert met == [True, True, False, False, False, False]


def test_three_steps_of_no_common_measure_end_in_their_budget() -> None:
    begun = time.process_time()
    many = [(10**6 + k * 97 + 1, 10**5) for k in range(6)]
    one = Layout([Strided(0, 1, tuple(reversed(many)))])
    other = Layout([Strided(0, 1, tuple((s + 13, n) for s, n in reversed(many)))])
    for apart in (10**9 + 7, 10**10 + 1, 3):
        assert share_bytes(one, other, apart) in (True, False, None)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("numbers", [(2**62, 2**62, 2**61), (2**31 - 1, 1, 2**40), (2**62, 1, 1), (-5, 3, 2)])
def test_numbers_out_of_a_damaged_record_are_not_laid_out(numbers: tuple[int, int, int]) -> None:
    begun = time.process_time()
    (of,) = datatype(Made("VECTOR", numbers, (), (INT,), 0, 40))
    for count in (1, 2**31, 2**62):
        found = layout_of_elements(of, count)
        assert found is not None
        assert share_bytes(found, found) in (True, False, None)
        assert not found.is_known or numbers[0] < 2**40
        found.has_repeated_bytes()
    assert time.process_time() - begun < 1
