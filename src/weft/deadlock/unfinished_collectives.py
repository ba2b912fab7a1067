"""Find collectives that all members are in and that do not return: then the MPI library is to blame."""

from __future__ import annotations

from weft.deadlock.blocked_ranks import Standstill
from weft.mpi import meaning
from weft.mpi.meaning import Act, Form, Meaning
from weft.trace import Event


def find_unfinished_collectives(standstill: Standstill) -> list[list[Event]]:
    """Return groups of open calls that should have returned: each is a barrier, or a call that makes an object, which
    all members have entered."""
    gathered: dict[tuple[int, str], list[Event]] = {}
    for events in standstill.open_calls.values():
        for event in events:
            row = meaning.find_meaning(event.function.name)
            if row is not None and event.comm is not None and _is_complete(standstill, event, row):
                gathered.setdefault((event.comm.index, row.name), []).append(event)
    return [events for events in gathered.values() if _are_all_in(events)]


def _is_complete(standstill: Standstill, event: Event, row: Meaning) -> bool:
    """Return whether all members have made a blocking collective that returns once they have. Only barriers and calls
    that make objects are sure to: in others a member's count may matter."""
    if row.act is not Act.COLLECTIVE or row.form is not Form.BLOCKING or not (row.makes or row.name == "Barrier"):
        return False
    absence = standstill.gatherings.absence_from(event, row)
    return absence is not None and not absence.missing and not absence.other


def _are_all_in(events: list[Event]) -> bool:
    comm, ranks = events[0].comm, {event.rank.index for event in events}
    return comm is not None and len(ranks) > 1 and ranks == {*comm.members, *comm.remote_members}
