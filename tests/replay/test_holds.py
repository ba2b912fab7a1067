"""Cuts of an outcome whose sends are held back: none has such a send without the call that it waits for."""

from __future__ import annotations

from weft.match import match_operations
from weft.order import order_events
from weft.replay import Cuts, make_plans
from weft.replay.holds import Hold
from weft.trace.builder import Builder


def test_a_send_that_is_held_back_is_in_no_cut_without_the_call_that_it_waits_for() -> None:
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    first, second = r0.irecv(1, got=1), r0.irecv(2, got=2)
    waitany = r0.waitany([first, second], index=1)
    r0.wait(first)
    held = r1.send(0)
    r2.send(0)
    trace = b.open()
    matched = match_operations(trace)
    plans = make_plans(trace, matched)
    order = order_events(trace, matched)
    entry = plans[0].threads[0].entries_before(waitany)
    hold = Hold(1, 0, plans[1].threads[0].entries_before(held), 0, 0, entry)
    free, bound = Cuts(trace, order, plans), Cuts(trace, order, plans, [hold])
    assert free.least_cut_reaching([(1, held)], include_calls=True).goals[0, 0] == 0
    assert bound.least_cut_reaching([(1, held)], include_calls=True).goals[0, 0] == entry + 1
    assert (1, 0) not in free.greatest_cut_without([(0, waitany)]).goals
    assert bound.greatest_cut_without([(0, waitany)]).goals[1, 0] == hold.entries
