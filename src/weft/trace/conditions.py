"""Selects the events that fit a term of a filter, a block at a time: one function for each key.

Each takes a rank, a block of its events, which of the rank's events these are, and the term. It returns a mask: for
each
event of the block, whether it fits.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import UsageError
from weft.trace.functions import MAX_ID
from weft.trace.layout import ANY_SOURCE, COUNT_IN_TAIL, Events, Flag, decode_durations

if TYPE_CHECKING:
    from weft.trace.functions import Function
    from weft.trace.rank import Rank
    from weft.trace.sites import CallSite

Mask = NDArray[np.bool_]

_TIME: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|min|h)?")
_UNITS: Final = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}
_SIZE: Final = re.compile(r"(\d+(?:\.\d*)?)([kKMGT]i?)?B?")
_SIZES: Final = {None: 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "ki": 2**10, "Ki": 2**10, "Mi": 2**20,
                 "Gi": 2**30, "Ti": 2**40}  # fmt: skip
_FLAGGED: Final = {
    "error": ("error", 0),
    "wildcard": ("flags", Flag.ANY_SOURCE | Flag.ANY_TAG),
    "cancelled": ("flags", Flag.CANCELLED),
    "changed": ("flags", Flag.BUFFER_CHANGED),
}
STATES: Final = (*_FLAGGED, "open", "poll")
"""What `is:` may ask for."""


class Term(NamedTuple):
    """One condition: `tag:7` is Term("tag", ":", "7")."""

    key: str
    operator: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        if self.key == "word":
            return f"{'-' * self.negated}{self.value}"
        return f"{'-' * self.negated}{self.key}{self.operator}{self.value}"


def parse_duration(text: str) -> float:
    """Parse `1.2s`, `3ms`, `500us` into ns; a number without a unit is in seconds. UsageError for anything else."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a time; write 1.5s, 20ms, 300us or 40ns")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _parse_integer(text: str) -> int:
    """Return a text as a whole number. UsageError if it is none."""
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f"{text!r} is not a whole number") from None


def parse_ranges(text: str) -> list[tuple[int, int]]:
    """Parse `0-3,7` into [(0, 3), (7, 7)]. UsageError for anything else."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(-?\w+)\s*(?:-\s*(-?\w+))?\s*", part)
        if match is None:
            raise UsageError(f"{part!r} is neither a number nor a range such as 0-3")
        first = _parse_integer(match[1])
        last = _parse_integer(match[2]) if match[2] else first
        if last < first:
            raise UsageError(f"{part.strip()!r} goes backward: write {last}-{first}")
        found.append((first, last))
    return found


_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    ":": np.equal,
}


def _select_in_ranges(column: NDArray[np.generic], spans: list[tuple[int, int]]) -> Mask:
    """Return a mask of the values in a column that lie in one of the ranges. `spans`: pairs (first, last), both
    included.
    """
    mask = np.zeros(len(column), np.bool_)
    wide = column.astype(np.int64)
    for first, last in spans:
        mask |= (wide >= min(max(first, -(2**62)), 2**62)) & (wide <= min(max(last, -(2**62)), 2**62))
    return mask


def _select_by_number(column: NDArray[Any], term: Term) -> Mask:
    """Return a mask of the values in a column that fit a filter's term such as `tag:3-7` or `bytes>100`."""
    if term.operator in (":", "="):
        return _select_in_ranges(column, parse_ranges(term.value))
    result: Mask = _COMPARE[term.operator](
        column.astype(np.int64), min(max(_parse_integer(term.value), -(2**62)), 2**62)
    )
    return result


def _name_matches(name: str, patterns: list[str]) -> bool:
    """Return whether a function's name fits one of the patterns. The name counts with or without `MPI_` and `_c`, and
    in upper or lower case.
    """
    low = name.lower()
    forms = {low, low.removesuffix("_c"), low.removeprefix("mpi_"), low.removeprefix("mpi_").removesuffix("_c")}
    return any(fnmatch.fnmatchcase(form, pattern) for form in forms for pattern in patterns)


def _select_calls_of(rank: Rank, events: Events, fits: Callable[[Function], bool]) -> Mask:
    """Return a mask of the calls whose function fits, as `fits` tells."""
    column = np.ascontiguousarray(events["function"])
    table = np.zeros(MAX_ID + 1, np.bool_)
    for id in np.flatnonzero(np.bincount(column, minlength=MAX_ID + 1)):
        table[id] = fits(rank.trace.functions[int(id)])
    fitting: Mask = table[column]
    return fitting


def _select_by_function(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    patterns = term.value.lower().split(",")
    return _select_calls_of(rank, events, lambda f: _name_matches(f.name, patterns))


def _select_by_rank(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    return np.full(len(events), bool(_select_by_number(np.array([rank.index]), term)[0]))


def _select_by_peer(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls whose peer (source, destination, root or target) fits a term; `any` stands for the
    argument MPI_ANY_SOURCE.
    """
    if term.value == "any":
        wild: Mask = (events["flags"] & Flag.ANY_SOURCE) != 0
        return wild
    return _select_by_number(events["peer"], term) & _select_calls_of(
        rank, events, lambda f: "peer" in f.slot or "status" in f.slot
    )


def _select_by_tag(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls whose tag fits a term; `any` stands for the argument MPI_ANY_TAG."""
    if term.value == "any":
        wild: Mask = (events["flags"] & Flag.ANY_TAG) != 0
        return wild

    def has_tag(f: Function) -> bool:
        return "status" in f.slot or ("tag" in f.slot and f.slot["tag"].handle is None)

    return _select_by_number(events["tag"], term) & _select_calls_of(rank, events, has_tag)


def _select_by_communicator(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls on communicators whose name fits a term."""
    # Names such as world.split#1[0,2] hold commas inside their brackets.
    patterns = [_compile_pattern(p) for p in re.split(r",(?![^\[]*\])", term.value)]

    def fits(comm: int) -> bool:
        found = rank.comm(comm)
        names = [found.name, found.label or found.name] if found else []
        return any(p.fullmatch(name) for p in patterns for name in names)

    column = comm_ids(rank, events)
    return np.isin(column, [int(i) for i in np.unique(column) if fits(int(i))])


def comm_ids(rank: Rank, events: Events) -> NDArray[np.uint32]:
    """Return the communicator of each event, as the id that the rank has for it. For a call on a window or file it is
    the communicator of the window or file.
    """
    column: NDArray[np.uint32] = np.array(events["comm"])
    for cls, look in (("WINDOW", rank.definitions.window), ("FILE", rank.definitions.file)):
        mine = (column == 0) & _select_calls_of(
            rank,
            events,
            lambda f, cls=cls: "object" in f.slot and f.slot["object"].handle == cls,  # type: ignore[misc]
        )
        for id in np.unique(events["object"][mine]):
            found = look(int(id))
            if found is not None:
                column[mine & (events["object"] == id)] = found.comm
    return column


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which only * and ? are special, as names of communicators have brackets."""
    return re.compile("".join({"*": ".*", "?": "."}.get(c) or re.escape(c) for c in pattern), re.DOTALL)


def _select_by_site(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls whose call site, or one of its callers, fits a term. A term may name a function, a
    file, `file:line` or a module.
    """

    def fits(id: int) -> bool:  # noqa: A002
        """Return whether a call site or one of its callers fits one of the patterns. `id`: the rank's id of
        the site.
        """
        own = rank.site(id)
        names: set[str | None] = set()
        for site in (own, *own.callers):
            names |= {site.function, site.file, site.module}
            if site.file:
                base = site.file.rsplit("/", 1)[-1]
                names |= {base, f"{base}:{site.line}", f"{site.file}:{site.line}"}
        return any(p.fullmatch(name) for p in patterns for name in names if name)

    patterns = [_compile_pattern(p) for p in term.value.split(",")]
    return np.isin(events["site"], [int(i) for i in np.unique(events["site"]) if fits(int(i))])


def _select_by_word(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls that fit a term without a key, such as `barrier` or `step.py:7`. The word may name the
    function called, or a file, line or function of the call site or its callers.
    """
    patterns = [_compile_pattern(p) for p in term.value.casefold().split(",")]

    def fits(id: int) -> bool:  # noqa: A002
        own = rank.site(id)
        names = {name.casefold() for site in (own, *own.callers) for name in _words_for_site(site)}
        return any(pattern.fullmatch(name) for pattern in patterns for name in names)

    is_at_site = np.isin(events["site"], [int(i) for i in np.unique(events["site"]) if fits(int(i))])
    return _select_by_function(rank, events, event_range, term) | is_at_site


def _words_for_site(site: CallSite) -> Iterator[str]:
    """Yield the words by which a filter may name a place in the source: its function, its line, and each ending of its
    path with and without the suffix and the line.
    """
    if site.function:
        yield site.function
    if site.file:
        parts = site.file.split("/")
        for k in range(len(parts)):
            for name in {"/".join(parts[k:]), "/".join(parts[k:]).rsplit(".", 1)[0]}:
                yield from (name, f"{name}:{site.line}")
        yield str(site.line)


def _call_durations(rank: Rank, events: Events) -> NDArray[np.float64]:
    """Return the time of each call in ns, infinite for calls that never returned."""
    ns = decode_durations(events["duration"]) * rank.axis.length
    return np.where(events["flags"] & Flag.CLOSED, ns, math.inf)


def _select_by_duration(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    result: Mask = _COMPARE[term.operator](_call_durations(rank, events), parse_duration(term.value))
    return result


def _parse_time_span(term: Term) -> tuple[float, float]:
    """Parse a term such as `time:1.2s-3s` or `time:>3s` into its first and last ns."""
    if term.operator in (">", ">="):
        return parse_duration(term.value), math.inf
    if term.operator in ("<", "<="):
        return 0, parse_duration(term.value)
    value = term.value
    if value[:1] in "<>":
        return _parse_time_span(Term(term.key, value[0], value[1:]))
    first, dash, last = value.partition("-")
    start = parse_duration(first) if first else 0
    end = (parse_duration(last) if last else math.inf) if dash else start
    if end < start:
        raise UsageError(f"the time {value!r} goes backward: write {last}-{first}")
    return start, end


def _select_by_time(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    first, last = _parse_time_span(term)
    enter = rank.enter_ns(event_range)
    return (enter <= last) & (enter + _call_durations(rank, events) >= first)


def _select_by_count(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    return _select_by_number(events["count"], term) & _select_calls_of(rank, events, lambda f: "count" in f.slot)


def parse_size(text: str) -> float:
    """Parse `4096`, `64k`, `1.5MiB` into bytes. UsageError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a number of bytes; write 4096, 64k or 2MiB")
    return float(match[1]) * _SIZES[match[2]]


def _select_by_bytes(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls whose number of bytes fits a term. It comes from their status, or else from count and
    datatype.
    """
    ids, codes = np.unique(events["datatype"], return_inverse=True)
    types = [rank.datatype(int(id)) for id in ids]
    units = np.array([math.nan if d is None or d.size is None else float(d.size) for d in types])
    size = events["count"] * units[codes.reshape(-1)]
    counted = _select_calls_of(rank, events, lambda f: "count" in f.slot and "datatype" in f.slot)
    size = np.where(counted & (events["count"] >= 0) & (events["count"] != COUNT_IN_TAIL), size, math.nan)
    has_status = _select_calls_of(rank, events, lambda f: "status" in f.slot) & ((events["flags"] & Flag.CLOSED) != 0)
    has_status &= events["peer"] != ANY_SOURCE
    tailed = np.flatnonzero(has_status & ((events["flags"] & Flag.HAS_TAIL) != 0))
    size = np.where(has_status, events["result"].astype(np.float64), size)
    for index in tailed.tolist():
        size[index] = rank.event((event_range.start or 0) + index).received or 0
    result: Mask = _COMPARE[term.operator](size, parse_size(term.value))
    return result


def _select_by_thread(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    slots = np.array([t.slot for t in rank.threads], np.int64)
    return _select_by_number(slots[rank.event_threads[event_range]], term)


def _select_by_task(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    if rank.tasks is None:
        return np.zeros(len(events), np.bool_)
    return _select_by_number(rank.tasks.ids[event_range], term)


def _select_by_object(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    return _select_by_number(events["object"], term)


def _select_by_error(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    return _select_by_number(events["error"], term)


def _select_by_state(rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
    """Return a mask of the calls in one of the term's states, such as `open` (not returned), `wildcard` or `poll`."""
    mask = np.zeros(len(events), np.bool_)
    for state in term.value.split(","):
        if state == "open":
            mask |= (events["flags"] & Flag.CLOSED) == 0
        elif state == "poll":
            mask |= rank.trace.functions.failed_polls(events)
        else:
            column, bits = _FLAGGED[state]
            mask |= (events[column] & bits) != 0 if bits else events[column] != 0
    return mask


KEYS: Final[dict[str, Callable[[Rank, Events, slice, Term], Mask]]] = {
    "fn": _select_by_function,
    "function": _select_by_function,
    "rank": _select_by_rank,
    "peer": _select_by_peer,
    "tag": _select_by_tag,
    "comm": _select_by_communicator,
    "site": _select_by_site,
    "word": _select_by_word,
    "wait": _select_by_duration,
    "time": _select_by_time,
    "count": _select_by_count,
    "bytes": _select_by_bytes,
    "thread": _select_by_thread,
    "task": _select_by_task,
    "object": _select_by_object,
    "error": _select_by_error,
    "is": _select_by_state,
}
"""By key the condition."""

_NUMERIC: Final = (
    _select_by_rank,
    _select_by_thread,
    _select_by_task,
    _select_by_count,
    _select_by_object,
    _select_by_error,
)


def check_value(term: Term) -> None:
    """Raise UsageError for a term whose value does not fit its key, before anything is read."""
    try:
        _parse_value(term)
    except UsageError as error:
        raise UsageError(f"{term}: {error}") from None


def _parse_value(term: Term) -> None:
    """Parse the value of a term as its key asks. UsageError if it does not fit."""
    condition, words = KEYS[term.key], term.value.split(",")
    if condition in _NUMERIC or (condition in (_select_by_peer, _select_by_tag) and words != ["any"]):
        parse_ranges(term.value)
    elif condition is _select_by_duration:
        parse_duration(term.value)
    elif condition is _select_by_bytes:
        parse_size(term.value)
    elif condition is _select_by_time:
        _parse_time_span(term)


def selects_ranks(term: Term) -> bool:
    """Return whether a term selects whole ranks."""
    return KEYS[term.key] is _select_by_rank


def select_ranks(term: Term, count: int) -> Mask:
    """Return a mask over `count` ranks: those that a term such as `rank:0-3` selects."""
    return _select_by_number(np.arange(count), term) ^ term.negated


def find_absent_ranks(term: Term, count: int, *, in_part: bool) -> list[str]:
    """Return the ranks that a term names and that a run of `count` ranks does not have, as texts such as `4-63`.

    `in_part`: look only at ranges that the run has in part; otherwise, only at ranges that it does not have at all.
    """
    if term.operator not in (":", "="):
        return []
    found: list[tuple[int, int]] = []
    for first, last in parse_ranges(term.value):
        if (first < count and last >= 0) is in_part:
            found += [(first, min(last, -1))] if first < 0 else []
            found += [(max(first, count), last)] if last >= count else []
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in found]


def find_unknown_functions(term: Term, function_names: Collection[str]) -> list[str]:
    """Return the words of a term `fn:…` that fit none of the function names."""
    if KEYS[term.key] is not _select_by_function:
        return []
    words = term.value.split(",")
    return [word for word in words if not any(_name_matches(name, [word.lower()]) for name in function_names)]
