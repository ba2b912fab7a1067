"""Outcomes: runs of one order each, and the other orders that each of them shows to be possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.base.event_id import EventId, Forced
from weft.base.lazy import dataclass
from weft.explore.choices import NOBODY, Choice, Place
from weft.match import NONE, Match, Posts
from weft.order import Order
from weft.races import Races
from weft.replay.ready import RequestOperations
from weft.terms import describe
from weft.trace import Trace

MOST_OPERATIONS: Final = 100_000


@dataclass(slots=True)
class Outcome:
    """One order that was run. `forced` and `parent` say how it was made; the first outcome has neither."""

    number: int
    trace: Trace
    match: Match
    order: Order
    races: Races
    made: dict[Place, Choice]
    parent: int | None = None
    forced: Forced | None = None
    """As `weft replay --force` takes it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An outcome that is to be run: its parent, and the receive or request that is forced."""

    parent: int
    forced: Forced
    line: str
    """The call's place in the program."""


@dataclass(frozen=True, slots=True)
class Race:
    """A race of an outcome: its number, the wildcard that posts it, and the other senders that could come first."""

    number: int
    posts: Posts
    row: int
    event: EventId
    taken: int
    """The rank whose message it took, NOBODY where none came."""
    others: tuple[int, ...]

    def variant(self, outcome: Outcome, sender: int) -> Variant:
        """Return the variant of an outcome in which the message of `sender` comes first at this race."""
        peers = outcome.trace.communicators[int(self.posts.comm[self.row])].peers(self.event[0])
        return Variant(
            outcome.number,
            Forced(self.event, source=peers.index(sender)),
            describe_call_site(outcome.trace, self.event),
        )


def iterate_races(outcome: Outcome) -> Iterator[Race]:
    """Yield each race of an outcome: its wildcard receive or probe, the sender whose message came, and the other
    senders whose messages could have come first.
    """
    found, sends = outcome.match, outcome.match.sends
    for k in range(len(outcome.races)):
        posts, row = found.probes if outcome.races.probe[k] else found.recvs, int(outcome.races.row[k])
        partner = int(posts.partner[row])
        others = tuple(sends.rank_of(send) for send in outcome.races.others(k).tolist())
        yield Race(k, posts, row, posts.id(row), NOBODY if partner == NONE else sends.rank_of(partner), others)


def iterate_variants(outcome: Outcome) -> Iterator[Variant]:
    """Yield the variants of an outcome, which differ from it by one choice: another sender at a race, or another
    request that a call such as MPI_Waitany could have completed.
    """
    for race in iterate_races(outcome):
        yield from (race.variant(outcome, sender) for sender in race.others)
    trace, requests = outcome.trace, RequestOperations(outcome.trace, outcome.match, outcome.order)
    for rank in trace.ranks:
        for event, others, _ in requests.iterate_other_requests(rank):
            for index in others:
                yield Variant(outcome.number, Forced(event, request=index), describe_call_site(trace, event))


def find_varying_completion(trace: Trace, match: Match, order: Order) -> EventId | None:
    """Return the first call of a run that could have completed another one of its requests, such as an MPI_Waitany
    whose other message was under way; None if there is none.

    Ranks with more than MOST_OPERATIONS sends and receives are not looked at.
    """
    requests = RequestOperations(trace, match, order)
    for rank in trace.ranks:
        parts = [posts.of_rank(rank.index) for posts in (match.sends, match.recvs)]
        if sum(part.stop - part.start for part in parts) > MOST_OPERATIONS:
            continue
        event = next((event for event, others, _ in requests.iterate_other_requests(rank) if others), None)
        if event is not None:
            return event
    return None


def count_undetermined_requests(outcome: Outcome) -> int:
    """Return how many other requests calls of an outcome might have completed; the order of messages does not decide
    about them.
    """
    requests = RequestOperations(outcome.trace, outcome.match, outcome.order)
    return sum(unknown for rank in outcome.trace.ranks for *_, unknown in requests.iterate_other_requests(rank))


def describe_call_site(trace: Trace, event: EventId) -> str:
    """Return a call's rank and place in the program: `rank 0 at pool.py:14`, or the function and library where no line
    is known.
    """
    call = trace.event(*event)
    return f"rank {event[0]}{describe.site_suffix(call) or ' at ' + call.function.name}"
