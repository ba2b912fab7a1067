"""The AND-OR graph against hand-made cases and a slow, obvious definition."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.deadlock.wait_for_graph import (
    NEVER,
    NOW,
    Need,
    find_components,
    find_cores,
    find_stuck,
    need_all,
    need_any,
    need_rank,
)


def test_two_ranks_that_need_each_other_are_stuck() -> None:
    assert find_stuck({0: need_rank(1), 1: need_rank(0)}) == {0, 1}


def test_a_rank_that_computes_releases_all_behind_it() -> None:
    assert not find_stuck({0: need_rank(1), 1: need_rank(2), 3: need_rank(0)})


def test_a_wildcard_needs_only_one_that_can_go_on() -> None:
    assert not find_stuck({0: Need(frozenset({1, 2}), every=False), 1: need_rank(0)})
    assert find_stuck({0: Need(frozenset({1, 2}), every=False), 1: need_rank(0), 2: need_rank(0)}) == {0, 1, 2}


def test_a_barrier_needs_every_absent_member() -> None:
    absent = Need(frozenset({2, 3}))
    assert find_stuck({0: absent, 1: absent, 3: need_rank(0)}) == {0, 1, 3}


def test_who_waits_for_a_rank_that_is_gone_is_stuck_and_who_waits_for_nothing_is_not() -> None:
    assert find_stuck({0: need_rank(1), 1: NEVER}) == {0, 1}
    assert not find_stuck({0: NOW})


def test_a_thousand_members_of_one_barrier_share_one_need() -> None:
    absent = Need(frozenset({1000}))
    needs = dict.fromkeys(range(1000), absent) | {1000: need_rank(0)}
    assert find_stuck(needs) == set(range(1001))
    assert find_cores(find_stuck(needs), needs) == [frozenset({0, 1000})]
    assert find_components(find_stuck(needs), needs) == [frozenset(range(1001))]


def test_the_core_leaves_out_who_waits_behind_it() -> None:
    needs = {0: need_rank(1), 1: need_rank(0), 2: need_rank(0), 3: need_rank(2)}
    assert find_cores(find_stuck(needs), needs) == [frozenset({0, 1})]


def test_two_independent_cycles_are_two_components() -> None:
    needs = {0: need_rank(1), 1: need_rank(0), 2: need_rank(3), 3: need_rank(2)}
    assert find_components(find_stuck(needs), needs) == [frozenset({0, 1}), frozenset({2, 3})]


def _trees(ranks: int) -> st.SearchStrategy[Need]:
    leaf = st.one_of(
        st.just(NOW), st.just(NEVER), st.integers(0, ranks - 1).map(need_rank),
        st.builds(Need, st.frozensets(st.integers(0, ranks - 1), max_size=3), every=st.booleans()),
    )  # fmt: skip
    return st.recursive(
        leaf,
        lambda t: st.one_of(
            st.lists(t, max_size=3).map(need_all),
            st.lists(t, min_size=1, max_size=3).map(need_any),
        ),
        max_leaves=6,
    )


def _met(need: Need, able: set[int]) -> bool:
    terms = [r in able for r in need.ranks] + [_met(child, able) for child in need.needs]
    return all(terms) if need.every else any(terms)


@settings(max_examples=300)
@given(st.dictionaries(st.integers(0, 5), _trees(6), max_size=6))
def test_the_fixpoint_equals_its_slow_definition(needs: dict[int, Need]) -> None:
    able = set(range(6)).difference(needs)
    while more := {r for r, need in needs.items() if r not in able and _met(need, able)}:
        able |= more
    assert find_stuck(needs) == set(needs).difference(able)
