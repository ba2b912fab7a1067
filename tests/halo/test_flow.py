"""Which loaded ghosts count as used by the cell that was stored next, in compiled programs."""

from __future__ import annotations

import numpy as np

from weft.halo.global_arrays import DeclaredPart, PlacedPart
from weft.halo.native_flow import is_ghost_used


def part(shape: tuple[int, ...], width: int = 1) -> PlacedPart:
    strides = tuple(8 * int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    of = DeclaredPart(
        rank=0, number=0, name="u", at=("p.c", 1, "main"), shape=shape, strides=strides,
        halo=((width, width),) * len(shape), lower=None, whole=None, periodic=None, lag=0, dims=(2,), coordinates=(0,),
        periods=(False,), copy=False,
    )  # fmt: skip
    return PlacedPart(of, (0,) * len(shape))


def chosen(load: int, store: int, *pairs: tuple[int, int], shape: tuple[int, ...] = (6, 6)) -> list[bool]:
    whole = part(shape)
    return is_ghost_used(("p.c", load, "f"), ("p.c", store, "f"), whole, whole, np.array(pairs)).tolist()


def test_what_the_line_of_the_store_loads_is_used() -> None:
    assert chosen(9, 9, (1, 7), (30, 7)) == [True, True]


def test_a_line_that_stands_far_from_the_store_uses_what_it_loads_for_several_cells_from_one_side() -> None:
    assert chosen(9, 40, (1, 7), (2, 8)) == [True, True]


def test_what_is_loaded_before_a_single_store_is_not_used() -> None:
    assert chosen(9, 40, (1, 7), (2, 7), (3, 7), (4, 7)) == [False] * 4


def test_what_lies_further_away_than_ghosts_are_wide_is_not_used() -> None:
    assert chosen(9, 40, (1, 13), (2, 14)) == [False, False]
    assert chosen(9, 10, (1, 13), (1, 7)) == [False, True]


def test_a_load_of_another_function_is_not_of_one_statement() -> None:
    whole = part((6,))
    pairs = np.array([(0, 1)])
    assert is_ghost_used(("p.c", 9, "f"), ("p.c", 10, "f"), whole, whole, pairs).tolist() == [True]
    assert is_ghost_used(("p.c", 9, "g"), ("p.c", 10, "f"), whole, whole, pairs).tolist() == [False]


def test_arrays_of_other_shapes_are_only_used_by_the_line_itself() -> None:
    pairs = np.array([(1, 7), (2, 8)])
    assert not is_ghost_used(("p.c", 9, "f"), ("p.c", 10, "f"), part((6, 6)), part((5, 6)), pairs).any()
    assert is_ghost_used(("p.c", 9, "f"), ("p.c", 9, "f"), part((6, 6)), part((5, 6)), pairs).all()
