"""Slices: two packets a call, its beginning with the arguments and its end. Calls of one thread do not nest.

The calls of a block that have the same fields (function, wildcards, flows) are written together, as rows of the same
length, and then laid one behind the other in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints, coded
from weft.export.perfetto import tracks
from weft.export.perfetto.flows import Ends, OfRank
from weft.export.perfetto.wire import Pieces, fixed, message, nested, number, rows, text, varints
from weft.picture.classes import CLASSES, class_of
from weft.terms.argument_columns import columns
from weft.trace import Flag, Function, Parameter, Rank, Thread

# Of TrackEvent.
_CATEGORY: Final = 3
_ANNOTATION: Final = 4
_TYPE: Final = 9
_NAME: Final = 10
_SOURCE: Final = 34
_FLOWS: Final = 47
_LAST_FLOWS: Final = 48

# Of InternedData, each with the field of its text.
_CATEGORIES: Final = (1, 2)
_NAMES: Final = (2, 2)
_ANNOTATION_NAMES: Final = (3, 2)
_SOURCES: Final = 4
_STRINGS: Final = (29, 2)

# Of DebugAnnotation.
_BOOL: Final = 2
_INT: Final = 4
_POINTER: Final = 7
_STRING: Final = 17

_KEPT: Final = Flag.CLOSED | Flag.ANY_SOURCE | Flag.ANY_TAG | Flag.TRUE | Flag.CANCELLED | Flag.BUFFER_CHANGED
_SAID: Final = {
    Flag.ANY_SOURCE: "any source",
    Flag.ANY_TAG: "any tag",
    Flag.CANCELLED: "cancelled",
    Flag.BUFFER_CHANGED: "buffer changed while pending",
}


class Interned:
    """Texts that the packets name by number. What is new goes out before the packets that use it."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}
        self._new: list[bytes] = []

    def text(self, kind: tuple[int, int], value: str) -> int:
        """The number of a text."""
        known = self._known.get((kind, value))
        if known is None:
            known = self._known[kind, value] = len(self._known) + 1
            self._new.append(message(kind[0], number(1, known) + text(kind[1], value)))
        return known

    def source(self, file: str, line: int, function: str) -> int:
        """The number of a line of source."""
        key = (_SOURCES, file, line, function)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self._known) + 1
            body = number(1, known) + text(2, file) + text(3, function) + number(4, line)
            self._new.append(message(_SOURCES, body))
        return known

    def taken(self) -> bytes:
        """What is new since this was asked last, as a field of a packet."""
        new, self._new = b"".join(self._new), []
        return message(tracks.INTERNED, new) if new else b""


class Sequence:
    """The packets of one thread."""

    def __init__(self, rank: Rank, thread: Thread, number_of_sequence: int) -> None:
        self._rank, self._thread = rank, thread
        self._id = number_of_sequence
        self._interned = Interned()

    def head(self) -> bytes:
        """The packet that begins the sequence: its track, and that all events are on it."""
        defaults = message(11, number(11, tracks.thread_uuid(self._thread)))
        body = tracks.thread(self._thread) + message(tracks.DEFAULTS, defaults)
        return self._packet(body, tracks.CLEARED)

    def _packet(self, body: bytes, flags: int) -> bytes:
        head = number(tracks.SEQUENCE, self._id) + number(tracks.SEQUENCE_FLAGS, flags)
        return message(tracks.PACKET, head + body)

    def packets(self, block: Block, number_of_thread: int, flows: OfRank) -> Iterator[bytes]:
        """The packets of the calls that the thread made in this block."""
        mine = np.flatnonzero(block.thread == number_of_thread)
        if not len(mine):
            return
        begins, ends = (end.of_block(block.index[mine]) for end in flows)
        groups, which = coded(_keys(block, mine, begins[0], ends[0]))
        made = []
        for group in range(len(groups)):
            places = np.flatnonzero(which == group)
            first = begins[1][places], ends[1][places]
            counts = int(begins[0][places[0]]), int(ends[0][places[0]])
            made.append((places, self._group(block, mine[places], flows, first, counts)))
        new = self._interned.taken()
        if new:
            yield self._packet(new, tracks.NEEDS_INTERNED)
        yield _laid(made, len(mine))

    def _group(
        self, block: Block, which: Ints, flows: OfRank, first: tuple[Ints, Ints], counts: tuple[int, int]
    ) -> NDArray[np.uint8]:
        """The packets of some calls with the same fields, a row for each call."""
        slot = block.events[which[0]]
        flags, error = int(slot["flags"]), int(slot["error"])
        of = self._rank.trace.functions[int(slot["function"])]
        begin: list[Pieces] = [
            [number(_TYPE, 1), number(_NAME, self._interned.text(_NAMES, of.name))],
            [number(_CATEGORY, self._interned.text(_CATEGORIES, CLASSES[class_of(of.name)].word))],
            varints(_SOURCE, self._sources(block, which)),
            *self._arguments(block, which, of),
            *(self._said(said) for bit, said in _SAID.items() if flags & bit),
            *([self._int("error class", np.full(len(which), error))] if error else []),
            *_flow_fields(_FLOWS, flows.begins, first[0], counts[0]),
        ]
        if not flags & Flag.CLOSED:
            # A slice without an end is what Perfetto calls one that did not finish.
            begin.append(self._said("never returned"))
            return rows(self._event(block.enter[which], begin), len(which))
        end: list[Pieces] = [[number(_TYPE, 2)], *_flow_fields(_LAST_FLOWS, flows.ends, first[1], counts[1])]
        return rows(self._event(block.enter[which], begin) + self._event(block.leave[which], end), len(which))

    def _event(self, times: Ints, fields: list[Pieces]) -> Pieces:
        head = number(tracks.SEQUENCE, self._id) + number(tracks.SEQUENCE_FLAGS, tracks.NEEDS_INTERNED)
        return nested(
            tracks.PACKET, [[head], varints(tracks.TIMESTAMP, times), nested(tracks.TRACK_EVENT, fields)]
        )  # fmt: skip

    def _sources(self, block: Block, which: Ints) -> Ints:
        ids, codes = coded(block.events["site"][which])
        sites = [self._rank.site(i) for i in ids]
        numbers = [self._interned.source(s.file or s.module or "?", s.line, s.function or "") for s in sites]
        return np.array(numbers, np.int64)[codes]

    # Arguments, by their names in the standard

    def _arguments(self, block: Block, which: Ints, of: Function) -> Iterator[Pieces]:
        events = block.events
        failed = of.is_poll and bool(block.failed_polls[which].any())
        for place, parameter in of.slot.items():
            if place == "peer":
                yield self._int(parameter.name, block.peer[which])
            elif place == "tag" and parameter.handle is None:
                yield self._int(parameter.name, events["tag"][which])
            elif place == "count" and not failed:
                yield self._int(parameter.name, block.count[which])
            elif place == "buffer":
                yield self._annotation(parameter.name, varints(_POINTER, events["buffer"][which].astype(np.uint64)))
            elif place in ("comm", "datatype", "object", "tag"):
                yield self._handle(parameter, events[place][which].astype(np.int64))
            elif place == "status" and "peer" not in of.slot:
                yield self._int("source", block.peer[which])
        if failed:
            yield self._int("failed polls", np.where(block.failed_polls[which], block.count[which], 0))
        yield from self._in_tail(block, which, of)

    def _in_tail(self, block: Block, which: Ints, of: Function) -> Iterator[Pieces]:
        """The single numbers and handles among the arguments that the tails hold."""
        wanted = {p.name: p for p in of.tail_in if not p.array and (p.type == "int" or p.handle)}
        if not wanted or not (block.events["flags"][which] & Flag.HAS_TAIL).all():
            return
        for events, found in columns(self._rank, block.index[which], frozenset(wanted)):
            if len(events) != len(which):
                return
            for name, values in found.items():
                if isinstance(values, np.ndarray):
                    yield self._handle(wanted[name], values) if wanted[name].handle else self._int(name, values)

    def _handle(self, parameter: Parameter, ids: Ints) -> Pieces:
        """Objects by name; requests and messages, which have none, by number."""
        handle = parameter.handle or ""
        if handle in ("REQUEST", "MESSAGE", "INFO"):
            return self._int(parameter.name, ids)
        known, codes = coded(ids)
        texts = [self._interned.text(_STRINGS, self._rank.object_name(handle, i)) for i in known]
        return self._annotation(parameter.name, varints(_STRING, np.array(texts, np.int64)[codes]))

    def _int(self, name: str, values: NDArray[np.int64] | NDArray[np.int32]) -> Pieces:
        return self._annotation(name, varints(_INT, values.astype(np.int64)))

    def _said(self, name: str) -> Pieces:
        return self._annotation(name, [number(_BOOL, 1)])

    def _annotation(self, name: str, value: Pieces) -> Pieces:
        return nested(_ANNOTATION, [[number(1, self._interned.text(_ANNOTATION_NAMES, name))], value])


def _keys(block: Block, mine: Ints, begun: Ints, ended: Ints) -> Ints:
    """Numbers that are equal for calls with the same fields."""
    flows = coded(begun * (int(ended.max()) + 1) + ended)[1]
    key = block.function[mine].astype(np.int64) << 8 | (block.events["flags"][mine] & _KEPT)
    keys: Ints = (key << 8 | block.events["error"][mine]) << 24 | flows
    return keys


def _flow_fields(field: int, ends: Ends, first: Ints, count: int) -> list[Pieces]:
    """`count` flows in every row, those of a row from `first` on."""
    return [fixed(field, ends.ids[first + k]) for k in range(count)]


def _laid(made: list[tuple[Ints, NDArray[np.uint8]]], count: int) -> bytes:
    """Rows of several lengths in their order, one behind the other."""
    lengths = np.zeros(count, np.int64)
    for places, part in made:
        lengths[places] = part.shape[1]
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for places, part in made:
        out[starts[places][:, None] + np.arange(part.shape[1])] = part
    return out.tobytes()
