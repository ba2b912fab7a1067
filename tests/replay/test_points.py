"""Places that a person names, as the events that they mean."""

from __future__ import annotations

import pytest

from weft.errors import UsageError
from weft.replay import events_to_stop_before, resolve_location
from weft.trace import Trace
from weft.trace.builder import ANY, Builder


def run() -> Trace:
    """Rank 1 takes from 0 (tag 5), 2 (tag 5), 2 (tag 6) and 2 (tag 5), by receives of any source."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=5)
    for tag in (5, 6, 5):
        r2.send(1, tag=tag)
    for source, tag in ((0, 5), (2, 5), (2, 6), (2, 5)):
        r1.recv(ANY, tag=tag, got=source)
    return b.open()


def test_a_receive_is_named_by_what_it_receives() -> None:
    trace = run()
    for text, event in [("1:from=0", 0), ("1:from=2", 1), ("1:from=2,tag=6", 2), ("1:from=2,tag=5#2", 3)]:
        assert resolve_location(trace, text, list) == [(1, event)]


def test_a_receive_that_the_record_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(UsageError, match="1:from=2,tag=5#3: rank 1 takes 2 messages of rank 2 with tag 5"):
        resolve_location(run(), "1:from=2,tag=5#3", list)
    with pytest.raises(UsageError, match="no rank 7, only 0 to 2"):
        resolve_location(run(), "1:from=7", list)
    with pytest.raises(UsageError, match="is not a place"):
        resolve_location(run(), "1:from=x", list)


def test_a_finding_is_where_it_begins_on_each_rank() -> None:
    """A later call of it may need what another rank is to stop before: then no replay would come there."""

    class Found:
        events = ((1, 2), (0, 0), (2, 1), (1, 0))

    trace = run()
    assert sorted(events_to_stop_before(trace, "finding:1", lambda: [Found])) == [(0, 0), (1, 0), (2, 1)]
    assert sorted(resolve_location(trace, "finding:1", lambda: [Found])) == [(0, 0), (1, 0), (1, 2), (2, 1)]
    assert events_to_stop_before(trace, "1:from=2", list) == [(1, 1)]
