"""The orders that are run first: those that are farthest from the record, and that a person would name.

These are the opposite of the record; the highest ranks first, or the lowest; one sender before all others, or after
them. A fault that needs many messages in one order often needs one of these, and each is reached in at most as many
runs as there are wildcards, while n messages have n! orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.explore.choices import NOBODY
from weft.explore.outcomes import Outcome, Variant, iterate_races

SENDERS: Final = 16
"""Senders that are each put first, and last."""

Corner = tuple[int, ...]
"""The senders, by rank index: at each wildcard the first of them that can come is to come."""


def find_extreme_orders(record: Outcome) -> list[Corner]:
    """Return the orders of senders that are farthest from a record: the opposite order, by rank up and down, and each
    sender first or last.
    """
    in_order = sorted(iterate_races(record), key=lambda race: race.event)
    came = list(dict.fromkeys(race.taken for race in in_order if race.taken != NOBODY))
    came += dict.fromkeys(rank for race in in_order for rank in race.others if rank not in came)
    found = [tuple(reversed(came)), tuple(sorted(came, reverse=True)), tuple(sorted(came))]
    for one in came[:SENDERS]:
        others = [rank for rank in came if rank != one]
        found += [(one, *others), (*others, one)]
    return list(dict.fromkeys(found))


def variants_towards(outcome: Outcome, wanted_order: Corner) -> Iterator[Variant]:
    """Yield the variants of an outcome that come nearer to an order of senders. In each, one wildcard takes the message
    of a sender that is earlier in this order. They are sorted by the wildcard's event.
    """
    place = {rank: i for i, rank in enumerate(wanted_order)}
    for race in sorted(iterate_races(outcome), key=lambda race: race.event):
        best = min(race.others, key=lambda rank: place.get(rank, len(place)))
        if place.get(best, len(place)) < place.get(race.taken, len(place)):
            yield race.variant(outcome, best)


class ExtremeOrderSearch:
    """The search for one extreme order: from outcome to outcome, each nearer to it by one wildcard."""

    def __init__(self, corner: Corner, record: Outcome) -> None:
        self.corner = corner
        self.awaited: Variant | None = None
        """What was begun and has not ended."""
        self.passed: set[int] = set()
        """Outcomes of this way, by number."""
        self.steps: Iterator[Variant] = iter(())
        self.continue_from(record)

    def continue_from(self, outcome: Outcome) -> None:
        """Continue the search from an outcome; the search ends if it came past this outcome before."""
        new = outcome.number not in self.passed
        self.passed.add(outcome.number)
        self.awaited, self.steps = None, variants_towards(outcome, self.corner) if new else iter(())
