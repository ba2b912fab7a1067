"""The evidence of findings: what facts a kind of finding rests on, from which the report's JSON is made.

Here stand the shapes that several analyses give, or that others than their analysis read; one that only its analysis
knows stands in that module. `weft.kinds` says which shapes a kind has; `python -m weft.report.evidence` prints
them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from weft.base.event_id import EventId, Forced
from weft.base.facts import Facts


class Evidence(Facts):
    """What else a view or a script can use of a finding."""


NO_EVIDENCE: Final = Evidence()


class Place(Facts):
    """An event of the record."""

    rank: int
    event: int


def translate_place(place: Place, to_run: Callable[[EventId], EventId]) -> Place:
    """Return a place with another event: the one that `to_run` gives for its event. Analyses number the events of a
    segment from its beginning, and reports number those of the whole run.
    """
    event = to_run(EventId(place.rank, place.event))
    return Place(rank=event.rank, event=event.event)


# How a rank ended


class Frame(Facts):
    """A frame of a stack."""

    file: str
    line: int | None
    function: str


class Waiting(Facts):
    """A rank that waits for one that ended, and its call."""

    rank: int
    call: str


class Ended(Evidence):
    """How a rank ended: its last words, and who waits for it."""

    how: str
    name: str | None = None
    text: str | None = None
    code: int | None = None
    at_ns: int | None = None
    part: str | None = None
    recorder: Sequence[str] | None = None
    traceback: str | None = None
    stack: Sequence[Frame] | None = None
    native: Sequence[Frame] | None = None
    waiting: Sequence[Waiting] = ()


# Races of messages


class Other(Facts):
    """A message that a receive could have taken: who received it, and what `weft replay --force` is given for it."""

    rank: int
    event: int
    taken_by: int | None
    force: Forced


class Receive(Facts):
    """Which receive, or probe, of its rank it is, counted in the order in which they were posted."""

    what: Literal["receive", "probe"]
    rank: int
    nth: int
    communicator: str
    tag: int | None


class Explored(Facts):
    """Another outcome of a race that was run: how it was forced, where it lies, what it does."""

    forced: str
    run: str
    effects: Sequence[str]


class Race(Evidence):
    """A receive of any source, the message it took, and those that could have come first."""

    communicator: str
    tag: int | None
    took: Place
    others: Sequence[Other]
    alternatives: int
    influenced: bool
    receive: Receive
    outcome: str
    remedy: str
    explored: Sequence[Explored] = ()


class OrderOnly(Evidence):
    """A place that serves whoever comes: how often, and whether it answers each."""

    order_only: Literal[True]
    times: int
    answered: bool


class Around(Evidence):
    """Where the calls of a finding were set aside before they were dropped."""

    around: str


class VectorTime(Facts):
    """Of each rank the calls that had begun, and ended, before an event began."""

    rank: int
    event: int
    begun: Sequence[int]
    ended: Sequence[int]


class Proof(Facts):
    """Why nothing orders what races (`weft report --evidence`)."""

    times: Sequence[VectorTime]
    because: Sequence[str]


# Deadlocks


class Wait(Facts):
    """Ranks that wait in one call, and for whom."""

    ranks: Sequence[int]
    call: str
    for_: Sequence[int]


class OtherCall(Facts):
    """Ranks that came to the same line with another call."""

    ranks: Sequence[int]
    call: str
    instead: str


class OtherTag(Facts):
    """A message whose tag is not the one that is waited for."""

    sent: int
    wanted: int


class OtherMessage(Facts):
    """A message that comes near to what is waited for."""

    source: int
    tag: int
    comm: str
    event: EventId


class Polled(Facts):
    """A rank that only polled, how often and for how long."""

    rank: int
    count: int
    seconds: float


class Deadlock(Evidence):
    """Who waits for whom, what nearly fits, and which of the ranks poll."""

    waits: Sequence[Wait]
    cycle: Sequence[int] = ()
    near_misses: Sequence[OtherCall | OtherTag | OtherMessage] = ()
    polling: Sequence[Polled] = ()


class Alternative(Evidence):
    """The message that a wildcard took, the one with which `stuck` ranks would wait for ever, and how many other
    choices were not tried."""

    took: Place
    alternative: Place
    stuck: int
    untried: int = 0


class Untried(Evidence):
    """How many other choices of wildcards do not hang, and how many were not tried."""

    tried: int
    untried: int


class Cycle(Evidence):
    """The ranks of a cycle in which each waits for the next."""

    cycle: Sequence[int]


# Accesses of memory. Bytes are from the first to the one after the last.


class Met(Evidence):
    """An access of memory that was seen: its bytes, the event of its rank before which it was made, and when."""

    access: Literal["read", "write"]
    bytes: Sequence[int]
    before: EventId
    ticks: int


class MetPending(Met):
    """An access of a buffer that an operation has: the events that started and complete it."""

    started: EventId
    completed: EventId | None


class MetOperation(Met):
    """An access of a window's memory, and a one-sided operation that races with it: its event, and when it is over."""

    target: int
    operation: EventId
    over: EventId | None


class MetShared(Met):
    """An access of a shared window's memory, and the event before which another rank accesses the same bytes."""

    target: int
    other: EventId


class Sampled(Evidence):
    """A buffer whose watched sample changed: the operations that have it, and what completes them."""

    seen: Literal["by sample"]
    completed: EventId
    started: Sequence[EventId]


class BufferAccess(Facts):
    """A call's access of bytes: the call, the one that names the buffer, and the one that completes it."""

    as_: str
    access: str
    from_: int
    to: int
    call: EventId
    named: EventId
    until: EventId | None


class WindowAccess(BufferAccess):
    """An access of a window, with what its origin and its target know of when it is, and what keeps it apart."""

    begins: EventId | None
    opened: EventId | None
    closed: EventId | None
    lock: str | None
    fence: int | None


class Overlap(Evidence):
    """Two pending buffers that share bytes."""

    bytes: int
    accesses: Sequence[BufferAccess]


class WindowOverlap(Evidence):
    """Two accesses of the same bytes of a target's window."""

    target: int
    bytes: int
    accesses: Sequence[WindowAccess]


# Wrong calls


class Parameter(Evidence):
    """The parameter that is wrong: `time` where the call comes too early or too late."""

    parameter: str


class Refused(Evidence):
    """The function in which MPI ended the process, and its own words."""

    inside: str
    said: str = ""


class Absent(Evidence):
    """Ranks that never enter a collective of a communicator."""

    absent: Sequence[int]
    communicator: str


class Epoch(Evidence):
    """Whether an epoch was left open."""

    left_open: bool = False


class OfClass(Evidence):
    """What was never freed: `communicator`, `memory` ..."""

    class_: str


# weft check


class Line(Facts):
    """A line of the program."""

    file: str
    line: int


class Loop(Facts):
    """A loop, or construct, by its directive."""

    kind: str
    file: str
    line: int
    text: str | None = None
    indices: Sequence[str] | None = None


class Group(Facts):
    """A place that a finding stands for, and how often."""

    file: str
    line: int
    function: str
    count: int


class Pair(Facts):
    """Two lines that race, and how often; `variable` where the finding has several."""

    file: str
    line: int
    write: bool
    other_file: str
    other_line: int
    other_write: bool
    count: int
    variable: str | None = None


class CheckCase(Evidence):
    """What `weft check` saw: the case of its kind, how often, of which variable, in which loop, with which values."""

    case: str
    count: int
    variable: str
    column: int | None = None
    side: Literal["device", "host"] | None = None
    pairs: Sequence[Pair] = ()
    index: Sequence[int] | None = None
    iteration: Sequence[int] | None = None
    other: Sequence[int] | None = None
    task: int | None = None
    delta: Sequence[int] | None = None
    offset: int | None = None
    bytes: int | None = None
    expected: object = None
    got: object = None
    value: object = None
    declared: Line | None = None
    loop: Loop | None = None
    places: Sequence[Group] = ()
    ranks: Sequence[int] = ()


class Compared(CheckCase):
    """What differs where a loop is run sequentially."""

    where: str
    got: str
    expected: str
