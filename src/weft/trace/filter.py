"""The filter language of `weft dump`, the view and Trace.select: `fn:Recv tag:7 rank:0-63 wait>1ms`.

A filter is a list of terms, all of which an event must fit; a term that begins with `-` must not fit. Within a term
a comma means "or"; the word `or` separates lists of terms. A word alone is a function, a file, a line or one of
is:.

    Recv step.py step.py:9 step    the function called, or where the call or a caller of it is: file (its ending may
                                   be left out), file:line, function; a number alone is a line of any file
    fn:Recv fn:MPI_Send fn:*all*   function; MPI_ and the large-count _c may be left out, * and ? match letters
    rank:0-3,7                     index of the rank in the run
    peer:2 peer:any                the other side, a root or target; any: the argument was MPI_ANY_SOURCE
    tag:7 tag:any                  tag of a message (of a completed wildcard: the one that it got)
    comm:world.dup*                communicator by name
    site:step.py:9 site:exchange   file, file:line or function of the call site
    time:1.2s-3s  time:>3s         calls that were under way at some time of this span
    wait>1ms wait<=2s              time between entry and return (a call that never returned waits for ever)
    count>1000  count:0            the count argument
    bytes>64k  bytes>=1MiB         what came, as the status tells, else count times the size of the datatype
    thread:1  object:257  error>0
    finding:deadlock finding:any   events that a finding of this kind names
    is:open is:error is:wildcard is:poll is:cancelled is:changed
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import UsageError
from weft.findings import Finding
from weft.kinds import KINDS
from weft.trace.conditions import (
    KEYS,
    STATES,
    Mask,
    Term,
    check_value,
    find_absent_ranks,
    find_unknown_functions,
    select_ranks,
    selects_ranks,
)
from weft.trace.layout import Events

if TYPE_CHECKING:
    from weft.trace.rank import Event, Rank, Run

__all__ = ["BLOCK", "Filter", "Term", "parse_alternatives", "parse_terms"]

BLOCK: Final = 1 << 18
_WORD: Final = re.compile(r"[^\s\"'()<>=;|&]*[^\s\"'()<>=;|&:-]")
_TERM: Final = re.compile(r"(?P<negated>-?)(?P<key>[A-Za-z_]+)(?P<operator>:|>=|<=|=|>|<)(?P<value>.+)", re.DOTALL)

# What people write where they mean another key.
_MEANT: Final = {
    "source": "peer", "dest": "peer", "root": "peer", "target": "peer", "size": "bytes", "file": "site",
    "line": "site", "caller": "site", "duration": "wait", "took": "wait", "kind": "finding", "communicator": "comm",
    "name": "fn", "call": "fn", "func": "fn", "when": "time", "status": "is", "state": "is", "process": "rank",
}  # fmt: skip


def parse_terms(query: str) -> list[Term]:
    """Parse a query without `or` into its terms. UsageError if it is not a filter."""
    terms = []
    for word in query.split():
        match = _TERM.fullmatch(word)
        if match is None:
            negated = word.startswith("-")
            if word[negated:] in STATES:
                terms.append(Term("is", ":", word[negated:], negated))
                continue
            if not _WORD.fullmatch(word[negated:]):
                raise UsageError(f"{word!r} is not a filter; write key:value, such as tag:7 or wait>1ms")
            terms.append(Term("word", ":", word[negated:], negated))
        else:
            terms.append(Term(match["key"].lower(), match["operator"], match["value"], bool(match["negated"])))
    return terms


def parse_alternatives(query: str) -> list[list[Term]]:
    """Parse a query into lists of terms, which the word `or` separates. UsageError if it is not a filter."""
    parts: list[list[str]] = [[]]
    for word in query.split():
        if word.lower() == "or":
            parts.append([])
        else:
            parts[-1].append(word)
    if len(parts) > 1 and not all(parts):
        raise UsageError("`or` stands between two filters, such as fn:Send or fn:Recv")
    return [parse_terms(" ".join(part)) for part in parts]


def _check_term(term: Term) -> None:
    """Raise UsageError for a term with an unknown key or value, and name the nearest known one."""
    known = {*KEYS, "finding"}
    if term.key not in known:
        near = _suggest_nearest(_MEANT.get(term.key, term.key), known)
        raise UsageError(f"{term.key!r} is not a key of a filter{near}; the keys are {', '.join(sorted(known))}")
    allowed: Sequence[str] = [*KINDS, "any"] if term.key == "finding" else STATES if term.key == "is" else ()
    for word in term.value.split(",") if allowed else ():
        if word not in allowed:
            near = _suggest_nearest(word, allowed, f"{term.key}:")
            raise UsageError(f"{term} is unknown{near}; write one of {', '.join(f'{term.key}:{s}' for s in allowed)}")
    if term.key != "finding":
        check_value(term)


def _suggest_nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Return ", did you mean X?" with the known word that is most like this one, or ""."""
    found = difflib.get_close_matches(word, sorted(known), 1, 0.6)
    return f", did you mean {prefix}{found[0]}?" if found else ""


class Filter:
    """A parsed filter. `mask` is vectorised: a block of events at a time.

    `also` are terms that every event must fit besides, `findings` are those that `finding:` looks at. UsageError for a
    query that is not a filter, with the nearest word that would be.
    """

    def __init__(
        self, query: str | list[Term] = "", *, also: Sequence[Term] = (), findings: Iterable[Finding] | None = None
    ) -> None:  # fmt: skip
        said = parse_alternatives(query) if isinstance(query, str) else [list(query)]
        self.alternatives = [[*also, *terms] for terms in said]
        for term in self.terms:
            _check_term(term)
        self._findings = None if findings is None else list(findings)
        if self._findings is None and any(term.key == "finding" for term in self.terms):
            raise UsageError(
                "the filter `finding:` needs the findings of the run: call trace.select(query, findings=analyse(trace))"
            )

    @property
    def terms(self) -> list[Term]:
        """Return all terms of the filter, from all alternatives."""
        return [term for terms in self.alternatives for term in terms]

    def __str__(self) -> str:
        return " or ".join(" ".join(map(str, terms)) for terms in self.alternatives)

    def ranks(self, trace: Run) -> list[Rank]:
        """Return the ranks that can have fitting events. Only terms about ranks are looked at."""
        count = len(trace.ranks)
        mask = np.zeros(count, np.bool_)
        for terms in self.alternatives:
            whole = [select_ranks(term, count) for term in terms if term.key != "finding" and selects_ranks(term)]
            mask |= np.logical_and.reduce([np.ones(count, np.bool_), *whole])
        return [trace.ranks[i] for i in np.flatnonzero(mask)]

    def absent_ranks(self, count: int, *, in_part: bool = False) -> list[str]:
        """Return the ranks that the filter names and that a run of `count` ranks does not have, as texts such as `7` or
        `4-63`.

        `in_part`: look only at ranges that the run has in part; otherwise, only at ranges that it does not have at all.
        """
        whole = [term for term in self.terms if term.key != "finding" and selects_ranks(term)]
        return list(dict.fromkeys(text for term in whole for text in find_absent_ranks(term, count, in_part=in_part)))

    def find_unknown_functions(self, names: Collection[str]) -> list[str]:
        """Return the names of functions in the filter that fit none of `names`, such as `MPI_Sned`."""
        found = [term for term in self.terms if term.key != "finding"]
        return [word for term in found for word in find_unknown_functions(term, names)]

    def mask(self, rank: Rank, start: int = 0, stop: int | None = None) -> Mask:
        """Return a mask of the events `start` to `stop` of a rank (indices, by default all) that fit the filter."""
        part = slice(start, stop)
        events = rank.events[part]
        found = np.zeros(len(events), np.bool_)
        for terms in self.alternatives:
            mask = np.ones(len(events), np.bool_)
            for term in terms:
                mask &= self._select_by_term(rank, events, part, term) ^ term.negated
            found |= mask
        return found

    def _select_by_term(self, rank: Rank, events: Events, event_range: slice, term: Term) -> Mask:
        """Return a mask of the events that fit one term."""
        if term.key != "finding":
            return KEYS[term.key](rank, events, event_range, term)
        kinds = term.value.split(",")
        named = [
            index - event_range.start for finding in self._findings or () if kinds == ["any"] or finding.kind in kinds
            for of, index in finding.events if of == rank.index
        ]  # fmt: skip
        mask = np.zeros(len(events), np.bool_)
        mask[[index for index in named if 0 <= index < len(events)]] = True
        return mask

    def indices(self, rank: Rank) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the events of a rank that fit, in blocks, in order."""
        for start in range(0, len(rank.events), BLOCK):
            yield np.flatnonzero(self.mask(rank, start, start + BLOCK)) + start

    def events(self, trace: Run) -> Iterator[Event]:
        """Yield the events that fit, rank by rank in order."""
        for rank in self.ranks(trace):
            for block in self.indices(rank):
                for index in block:
                    yield rank.event(int(index))

    def count(self, trace: Run) -> int:
        """Return how many events fit."""
        return sum(len(block) for rank in self.ranks(trace) for block in self.indices(rank))
