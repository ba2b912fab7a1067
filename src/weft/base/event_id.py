"""The one name of an event, and of the other outcome of one, as people write them and every room passes them on."""

from __future__ import annotations

import re
from typing import NamedTuple


class EventId(NamedTuple):
    """An event: the index of its rank in Trace.ranks, and its index in that rank's events. For people `0:3`."""

    rank: int
    event: int

    def __str__(self) -> str:
        return f"{self.rank}:{self.event}"

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """RANK:EVENT; None for another text."""
        found = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text, re.ASCII)
        return cls(int(found[1]), int(found[2])) if found else None


class Forced(NamedTuple):
    """Another outcome of an event: the sender whose message it takes, or the index of the request that it completes.

    `source` is a rank of the call's communicator. For people `0:3=1`, or `0:3=#1` for a request: what
    `weft replay --force` is given.
    """

    event: EventId
    source: int = -1
    request: int = -1

    def __str__(self) -> str:
        return f"{self.event}={self.source if self.request < 0 else f'#{self.request}'}"

    @classmethod
    def parse(cls, text: str) -> Forced | None:
        """Return the forced outcome in a text, RANK:EVENT=SOURCE or RANK:EVENT=#REQUEST; None for another text."""
        place, _, outcome = text.partition("=")
        event = EventId.parse(place)
        if event is None or not re.fullmatch(r"#?\d{1,18}", outcome, re.ASCII):
            return None
        return cls(event, request=int(outcome[1:])) if outcome[0] == "#" else cls(event, source=int(outcome))
