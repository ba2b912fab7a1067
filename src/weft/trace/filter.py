"""The filter language of `weft dump`, the view and Trace.select: `fn:Recv tag:7 rank:0-63 wait>1ms`.

A filter is a list of terms, all of which an event must fit; a term that begins with `-` must not fit. Within a term
a comma means "or". A word alone is a function.

    fn:Recv fn:MPI_Send fn:*all*   function; MPI_ and the large-count _c may be left out, * and ? stand for letters
    rank:0-3,7                     index of the rank in the run
    peer:2 peer:any                the other side, a root or target; any: the argument was MPI_ANY_SOURCE
    tag:7 tag:any                  tag of a message (of a completed wildcard: the one that it got)
    comm:world.dup*                communicator by name
    site:step.py:9 site:exchange   file, file:line or function of the call site
    time:1.2s-3s  time:>3s         calls that were under way at some time of this span
    wait>1ms wait<=2s              time between entry and return (a call that never returned waits for ever)
    count>1000  count:0            the count argument
    thread:1  object:257  error>0
    is:open is:error is:wildcard is:poll is:cancelled is:changed
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import UsageError
from weft.trace.functions import MAX_ID
from weft.trace.layout import Events, Flag, decode_durations

if TYPE_CHECKING:
    from weft.trace.event import Event
    from weft.trace.functions import Function
    from weft.trace.run import Rank, Trace

Mask = NDArray[np.bool_]

BLOCK: Final = 1 << 18
_TERM: Final = re.compile(r"(?P<negated>-?)(?P<key>[A-Za-z_]+)(?P<operator>:|>=|<=|=|>|<)(?P<value>.+)", re.DOTALL)
_TIME: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|min|h)?")
_UNITS: Final = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}
_STATES: Final = {
    "error": ("error", 0),
    "wildcard": ("flags", Flag.ANY_SOURCE | Flag.ANY_TAG),
    "cancelled": ("flags", Flag.CANCELLED),
    "changed": ("flags", Flag.BUFFER_CHANGED),
}


class Term(NamedTuple):
    """One condition: `tag:7` is Term("tag", ":", "7")."""

    key: str
    operator: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{'-' * self.negated}{self.key}{self.operator}{self.value}"


def parse(query: str) -> list[Term]:
    """The terms of a query. UsageError where it is none."""
    terms = []
    for word in query.split():
        match = _TERM.fullmatch(word)
        if match is None:
            negated = word.startswith("-")
            if not re.fullmatch(r"[\w*?,]+", word[negated:]):
                raise UsageError(f"{word!r} is no filter; write key:value, such as tag:7 or wait>1ms")
            terms.append(Term("fn", ":", word[negated:], negated))
        else:
            terms.append(Term(match["key"].lower(), match["operator"], match["value"], bool(match["negated"])))
    return terms


def duration_ns(text: str) -> float:
    """`1.2s`, `3ms`, `500us`; seconds where no unit stands. UsageError where it is none."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no time; write 1.5s, 20ms, 300us or 40ns")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{text!r} is no whole number") from None


def ranges(text: str) -> list[tuple[int, int]]:
    """`0-3,7` as [(0, 3), (7, 7)]. UsageError where it is none."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\w+)\s*(?:-\s*(-?\w+))?\s*", part)
        if match is None:
            raise UsageError(f"{part!r} is no number and no range such as 0-3")
        first = _number(match[1])
        found.append((first, _number(match[2]) if match[2] else first))
    return found


_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    ":": np.equal,
}


def _in_ranges(column: NDArray[Any], spans: list[tuple[int, int]]) -> Mask:
    mask = np.zeros(len(column), np.bool_)
    wide = column.astype(np.int64)
    for first, last in spans:
        mask |= (wide >= min(max(first, -(2**62)), 2**62)) & (wide <= min(max(last, -(2**62)), 2**62))
    return mask


def _numeric(column: NDArray[Any], term: Term) -> Mask:
    if term.operator in (":", "="):
        return _in_ranges(column, ranges(term.value))
    result: Mask = _COMPARE[term.operator](column.astype(np.int64), min(max(_number(term.value), -(2**62)), 2**62))
    return result


def _fits_name(name: str, patterns: list[str]) -> bool:
    """Whether a function's name fits: MPI_ and _c may be left out, letters of either case."""
    low = name.lower()
    forms = {low, low.removesuffix("_c"), low.removeprefix("mpi_"), low.removeprefix("mpi_").removesuffix("_c")}
    return any(fnmatch.fnmatchcase(form, pattern) for form in forms for pattern in patterns)


class Filter:
    """A parsed filter. `mask` is vectorised: a block of events at a time."""

    def __init__(self, query: str | list[Term] = "") -> None:
        self.terms = parse(query) if isinstance(query, str) else list(query)
        for term in self.terms:
            if term.key not in _KEYS:
                raise UsageError(f"a filter knows no {term.key!r}; it knows {', '.join(sorted(set(_KEYS)))}")
            self._check(term)

    def _check(self, term: Term) -> None:
        """Complains of a value before anything is read."""
        key, value = _KEYS[term.key], term.value
        words = value.split(",")
        if key in (_rank, _thread, _count, _object, _error) or (key in (_peer, _tag) and words != ["any"]):
            ranges(value)
        elif key is _wait:
            duration_ns(value)
        elif key is _time:
            _span(term)
        elif key is _is and not set(words) <= {*_STATES, "open", "poll"}:
            raise UsageError(f"{term} is unknown; there are {', '.join(f'is:{s}' for s in [*_STATES, 'open', 'poll'])}")

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def ranks(self, trace: Trace) -> list[Rank]:
        """The ranks that the filter does not exclude as a whole."""
        terms = [t for t in self.terms if _KEYS[t.key] is _rank]
        indices = np.arange(len(trace.ranks))
        mask = np.ones(len(indices), np.bool_)
        for term in terms:
            mask &= _numeric(indices, term) ^ term.negated
        return [trace.ranks[i] for i in np.flatnonzero(mask)]

    def mask(self, rank: Rank, start: int = 0, stop: int | None = None) -> Mask:
        """Which of rank.events[start:stop] fit."""
        part = slice(start, stop)
        events = rank.events[part]
        mask = np.ones(len(events), np.bool_)
        for term in self.terms:
            mask &= _KEYS[term.key](rank, events, part, term) ^ term.negated
        return mask

    def indices(self, rank: Rank) -> Iterator[NDArray[np.int64]]:
        """Indices of the events of a rank that fit, in blocks, in order."""
        for start in range(0, len(rank.events), BLOCK):
            yield np.flatnonzero(self.mask(rank, start, start + BLOCK)) + start

    def events(self, trace: Trace) -> Iterator[Event]:
        """The events that fit, rank by rank in order."""
        for rank in self.ranks(trace):
            for block in self.indices(rank):
                for index in block:
                    yield rank.event(int(index))

    def count(self, trace: Trace) -> int:
        """How many events fit."""
        return sum(len(block) for rank in self.ranks(trace) for block in self.indices(rank))


def _functions(rank: Rank, events: Events, fits: Callable[[Function], bool]) -> Mask:
    column = np.ascontiguousarray(events["function"])
    table = np.zeros(MAX_ID + 1, np.bool_)
    for id in np.flatnonzero(np.bincount(column, minlength=MAX_ID + 1)):
        table[id] = fits(rank.trace.functions[int(id)])
    fitting: Mask = table[column]
    return fitting


def _fn(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    patterns = term.value.lower().split(",")
    return _functions(rank, events, lambda f: _fits_name(f.name, patterns))


def _rank(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    return np.full(len(events), bool(_numeric(np.array([rank.index]), term)[0]))


def _peer(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    if term.value == "any":
        wild: Mask = (events["flags"] & Flag.ANY_SOURCE) != 0
        return wild
    return _numeric(events["peer"], term) & _functions(rank, events, lambda f: "peer" in f.slot or "status" in f.slot)


def _tag(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    if term.value == "any":
        wild: Mask = (events["flags"] & Flag.ANY_TAG) != 0
        return wild

    def has_tag(f: Function) -> bool:
        return "status" in f.slot or ("tag" in f.slot and f.slot["tag"].handle is None)

    return _numeric(events["tag"], term) & _functions(rank, events, has_tag)


def _comm(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    # Names such as world.split#1[0,2] hold commas inside their brackets.
    patterns = [_literal(p) for p in re.split(r",(?![^\[]*\])", term.value)]

    def fits(comm: int) -> bool:
        found = rank.comm(comm)
        names = [found.name, found.label or found.name] if found else []
        return any(p.fullmatch(name) for p in patterns for name in names)

    column = comm_ids(rank, events)
    return np.isin(column, [int(i) for i in np.unique(column) if fits(int(i))])


def comm_ids(rank: Rank, events: Events) -> NDArray[np.uint32]:
    """The `comm` column, with the communicator of the window or file where a call has one of these instead."""
    column: NDArray[np.uint32] = np.array(events["comm"])
    for cls, look in (("WINDOW", rank.definitions.window), ("FILE", rank.definitions.file)):
        mine = (column == 0) & _functions(
            rank,
            events,
            lambda f, cls=cls: "object" in f.slot and f.slot["object"].handle == cls,  # type: ignore[misc]
        )
        for id in np.unique(events["object"][mine]):
            found = look(int(id))
            if found is not None:
                column[mine & (events["object"] == id)] = found.comm
    return column


def _literal(pattern: str) -> re.Pattern[str]:
    """A pattern in which only * and ? are special: names of communicators hold brackets."""
    return re.compile("".join({"*": ".*", "?": "."}.get(c) or re.escape(c) for c in pattern), re.DOTALL)


def _site(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    def fits(id: int) -> bool:  # noqa: A002
        own = rank.site(id)
        names: set[str | None] = set()
        for site in (own, *own.callers):
            names |= {site.function, site.file, site.module}
            if site.file:
                base = site.file.rsplit("/", 1)[-1]
                names |= {base, f"{base}:{site.line}", f"{site.file}:{site.line}"}
        return any(p.fullmatch(name) for p in patterns for name in names if name)

    patterns = [_literal(p) for p in term.value.split(",")]
    return np.isin(events["site"], [int(i) for i in np.unique(events["site"]) if fits(int(i))])


def _waits(rank: Rank, events: Events) -> NDArray[np.float64]:
    ns = decode_durations(events["duration"]) * rank.axis.length
    return np.where(events["flags"] & Flag.CLOSED, ns, math.inf)


def _wait(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    result: Mask = _COMPARE[term.operator](_waits(rank, events), duration_ns(term.value))
    return result


def _span(term: Term) -> tuple[float, float]:
    if term.operator in (">", ">="):
        return duration_ns(term.value), math.inf
    if term.operator in ("<", "<="):
        return 0, duration_ns(term.value)
    value = term.value
    if value[:1] in "<>":
        return _span(Term(term.key, value[0], value[1:]))
    first, dash, last = value.partition("-")
    start = duration_ns(first) if first else 0
    return start, (duration_ns(last) if last else math.inf) if dash else start


def _time(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    first, last = _span(term)
    enter = rank.enter_ns(part)
    return (enter <= last) & (enter + _waits(rank, events) >= first)


def _count(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    return _numeric(events["count"], term) & _functions(rank, events, lambda f: "count" in f.slot)


def _thread(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    slots = np.array([t.slot for t in rank.threads], np.int64)
    return _numeric(slots[rank.event_threads[part]], term)


def _object(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    return _numeric(events["object"], term)


def _error(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    return _numeric(events["error"], term)


def _is(rank: Rank, events: Events, part: slice, term: Term) -> Mask:
    mask = np.zeros(len(events), np.bool_)
    for state in term.value.split(","):
        if state == "open":
            mask |= (events["flags"] & Flag.CLOSED) == 0
        elif state == "poll":
            polls = _functions(rank, events, lambda f: f.is_poll)
            mask |= polls & (events["flags"] & (Flag.TRUE | Flag.CLOSED) == Flag.CLOSED) & (events["count"] > 0)
        else:
            column, bits = _STATES[state]
            mask |= (events[column] & bits) != 0 if bits else events[column] != 0
    return mask


_KEYS: Final[dict[str, Callable[[Rank, Events, slice, Term], Mask]]] = {
    "fn": _fn,
    "function": _fn,
    "rank": _rank,
    "peer": _peer,
    "tag": _tag,
    "comm": _comm,
    "site": _site,
    "wait": _wait,
    "time": _time,
    "count": _count,
    "thread": _thread,
    "object": _object,
    "error": _error,
    "is": _is,
}
