"""Make slices: two packets for each call, its start with the arguments and its end. Calls of one thread do not nest.

The calls of a block that have the same fields (function, wildcards, flows) are written together, as rows of the same
length, which are then joined in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints, encode_ids
from weft.export.perfetto import tracks
from weft.export.perfetto.flows import FlowEnds, RankFlows
from weft.export.perfetto.protobuf import (
    Pieces,
    bytes_field,
    encode_rows,
    fixed64_column,
    message_column,
    number_field,
    text_field,
    varint_column,
)
from weft.picture.classes import CLASSES, class_number_of
from weft.terms.argument_columns import decode_columns
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


class InternedTexts:
    """Texts that packets name by number. New texts are written before the packets that use them."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], int] = {}
        self._new: list[bytes] = []

    def get_text_number(self, kind: tuple[int, int], text: str) -> int:
        """Return the number that stands for a text in packets. A text that is new is written before the next packet."""
        known = self._known.get((kind, text))
        if known is None:
            known = self._known[kind, text] = len(self._known) + 1
            self._new.append(bytes_field(kind[0], number_field(1, known) + text_field(kind[1], text)))
        return known

    def get_source_number(self, file: str, line: int, function: str) -> int:
        """Return the number that stands for a source line in packets. A line that is new is written before the next
        packet.
        """
        key = (_SOURCES, file, line, function)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self._known) + 1
            body = number_field(1, known) + text_field(2, file) + text_field(3, function) + number_field(4, line)
            self._new.append(bytes_field(_SOURCES, body))
        return known

    def take_new(self) -> bytes:
        """Return the texts that are new since the last call, as a field of a packet."""
        new, self._new = b"".join(self._new), []
        return bytes_field(tracks.INTERNED, new) if new else b""


class PacketSequence:
    """Make the packets of one thread."""

    def __init__(self, rank: Rank, thread: Thread, number_of_sequence: int) -> None:
        self._rank, self._thread = rank, thread
        self._id = number_of_sequence
        self._interned = InternedTexts()

    def make_first_packet(self) -> bytes:
        """Return the packet that begins the sequence. It describes the thread's track (its line in the picture), makes
        this the default of all later events, and clears earlier state.
        """
        defaults = bytes_field(11, number_field(11, tracks.thread_uuid(self._thread)))
        body = tracks.make_thread_field(self._thread) + bytes_field(tracks.DEFAULTS, defaults)
        return self._packet(body, tracks.CLEARED)

    def _packet(self, body: bytes, flags: int) -> bytes:
        head = number_field(tracks.SEQUENCE, self._id) + number_field(tracks.SEQUENCE_FLAGS, flags)
        return bytes_field(tracks.PACKET, head + body)

    def make_block_packets(self, block: Block, thread_index: int, flows: RankFlows) -> Iterator[bytes]:
        """Yield the packets of the calls in a block that one thread made. `thread_index`: the thread's index in
        rank.threads.
        """
        mine = np.flatnonzero(block.thread == thread_index)
        if not len(mine):
            return
        begins, ends = (end.ends_in_block(block.index[mine]) for end in flows)
        groups, which = encode_ids(_compute_group_keys(block, mine, begins[0], ends[0]))
        made = []
        for group in range(len(groups)):
            places = np.flatnonzero(which == group)
            first = begins[1][places], ends[1][places]
            counts = int(begins[0][places[0]]), int(ends[0][places[0]])
            made.append((places, self._make_group_packets(block, mine[places], flows, first, counts)))
        new = self._interned.take_new()
        if new:
            yield self._packet(new, tracks.NEEDS_INTERNED)
        yield _join_packets_in_order(made, len(mine))

    def _make_group_packets(
        self,
        block: Block,
        call_places: Ints,
        flows: RankFlows,
        first_flow_ends: tuple[Ints, Ints],
        counts: tuple[int, int],
    ) -> NDArray[np.uint8]:
        """Return the packets of calls whose packets have the same fields, one row of bytes for each call.

        `call_places`: the calls' places in the block; `first_flow_ends`: where their flows (message arrows) lie among
        the begins and the ends of `flows`; `counts`: how many flows begin and end at each call.
        """
        slot = block.events[call_places[0]]
        flags, error = int(slot["flags"]), int(slot["error"])
        of = self._rank.trace.functions[int(slot["function"])]
        begin: list[Pieces] = [
            [number_field(_TYPE, 1), number_field(_NAME, self._interned.get_text_number(_NAMES, of.name))],
            [
                number_field(
                    _CATEGORY, self._interned.get_text_number(_CATEGORIES, CLASSES[class_number_of(of.name)].word)
                )
            ],
            varint_column(_SOURCE, self._source_numbers(block, call_places)),
            *self._argument_fields(block, call_places, of),
            *(self._note_field(said) for bit, said in _SAID.items() if flags & bit),
            *([self._int_field("error class", np.full(len(call_places), error))] if error else []),
            *_flow_fields(_FLOWS, flows.begins, first_flow_ends[0], counts[0]),
        ]
        if not flags & Flag.CLOSED:
            # A slice without an end is what Perfetto calls one that did not finish.
            begin.append(self._note_field("never returned"))
            return encode_rows(self._event_packet(block.enter[call_places], begin), len(call_places))
        end: list[Pieces] = [
            [number_field(_TYPE, 2)],
            *_flow_fields(_LAST_FLOWS, flows.ends, first_flow_ends[1], counts[1]),
        ]
        return encode_rows(
            self._event_packet(block.enter[call_places], begin) + self._event_packet(block.leave[call_places], end),
            len(call_places),
        )

    def _event_packet(self, times: Ints, fields: list[Pieces]) -> Pieces:
        """Return the pieces of packets with an event of the track at each of `times` (ns), with the given fields."""
        head = number_field(tracks.SEQUENCE, self._id) + number_field(tracks.SEQUENCE_FLAGS, tracks.NEEDS_INTERNED)
        return message_column(
            tracks.PACKET, [[head], varint_column(tracks.TIMESTAMP, times), message_column(tracks.TRACK_EVENT, fields)]
        )  # fmt: skip

    def _source_numbers(self, block: Block, call_places: Ints) -> Ints:
        """Return, for each call, the number that stands for its source line in packets. `call_places`: the calls'
        places in the block.
        """
        ids, codes = encode_ids(block.events["site"][call_places])
        sites = [self._rank.site(i) for i in ids]
        numbers = [self._interned.get_source_number(s.file or s.module or "?", s.line, s.function or "") for s in sites]
        return np.array(numbers, np.int64)[codes]

    # Arguments, by their names in the standard

    def _argument_fields(self, block: Block, call_places: Ints, function: Function) -> Iterator[Pieces]:
        """Yield the fields with the calls' arguments under their MPI names, encoded for all calls at once. All calls
        must be of the same function.
        """
        events = block.events
        failed = function.is_poll and bool(block.failed_polls[call_places].any())
        for place, parameter in function.slot.items():
            if place == "peer":
                yield self._int_field(parameter.name, block.peer[call_places])
            elif place == "tag" and parameter.handle is None:
                yield self._int_field(parameter.name, events["tag"][call_places])
            elif place == "count" and not failed:
                yield self._int_field(parameter.name, block.count[call_places])
            elif place == "buffer":
                yield self._annotation_field(
                    parameter.name, varint_column(_POINTER, events["buffer"][call_places].astype(np.uint64))
                )
            elif place in ("comm", "datatype", "object", "tag"):
                yield self._make_handle_field(parameter, events[place][call_places].astype(np.int64))
            elif place == "status" and "peer" not in function.slot:
                yield self._int_field("source", block.peer[call_places])
        if failed:
            yield self._int_field(
                "failed polls", np.where(block.failed_polls[call_places], block.count[call_places], 0)
            )
        if function.is_folded and (block.calls[call_places] > 1).any():
            yield self._int_field("calls", block.calls[call_places])
        yield from self._extra_argument_fields(block, call_places, function)

    def _extra_argument_fields(self, block: Block, call_places: Ints, function: Function) -> Iterator[Pieces]:
        """Yield the fields with numbers and handles that have no room in the fixed part of the calls' records (their
        tails), encoded for all calls at once. Nothing if some call has no tail. All calls must be of the same function.
        """
        wanted = {p.name: p for p in function.tail_in if not p.array and (p.type == "int" or p.handle)}
        if not wanted or not (block.events["flags"][call_places] & Flag.HAS_TAIL).all():
            return
        for events, found in decode_columns(self._rank, block.index[call_places], frozenset(wanted)):
            if len(events) != len(call_places):
                return
            for name, values in found.items():
                if isinstance(values, np.ndarray):
                    yield (
                        self._make_handle_field(wanted[name], values)
                        if wanted[name].handle
                        else self._int_field(name, values)
                    )

    def _make_handle_field(self, parameter: Parameter, handle_ids: Ints) -> Pieces:
        """Return the encoded field of a handle argument: the object's name. Requests, messages and infos have no names
        and are written as numbers.
        """
        handle = parameter.handle or ""
        if handle in ("REQUEST", "MESSAGE", "INFO"):
            return self._int_field(parameter.name, handle_ids)
        known, codes = encode_ids(handle_ids)
        texts = [self._interned.get_text_number(_STRINGS, self._rank.object_name(handle, i)) for i in known]
        return self._annotation_field(parameter.name, varint_column(_STRING, np.array(texts, np.int64)[codes]))

    def _int_field(self, name: str, values: NDArray[np.int64] | NDArray[np.int32]) -> Pieces:
        return self._annotation_field(name, varint_column(_INT, values.astype(np.int64)))

    def _note_field(self, name: str) -> Pieces:
        return self._annotation_field(name, [number_field(_BOOL, 1)])

    def _annotation_field(self, name: str, value: Pieces) -> Pieces:
        """Return the encoded field of one argument, made of its name and the encoded `value`."""
        return message_column(
            _ANNOTATION, [[number_field(1, self._interned.get_text_number(_ANNOTATION_NAMES, name))], value]
        )


def _compute_group_keys(block: Block, call_places: Ints, begun_flow_counts: Ints, ended_flow_counts: Ints) -> Ints:
    """Return a number for each call in a block that is equal for calls whose packets have the same fields."""
    flows = encode_ids(begun_flow_counts * (int(ended_flow_counts.max()) + 1) + ended_flow_counts)[1]
    key = block.function[call_places].astype(np.int64) << 8 | (block.events["flags"][call_places] & _KEPT)
    keys: Ints = (key << 8 | block.events["error"][call_places]) << 24 | flows
    return keys


def _flow_fields(field: int, ends: FlowEnds, first: Ints, count: int) -> list[Pieces]:
    """Return one encoded field for each of `count` flows (arrows of messages) of a call. `first`: for each call, the
    index in `ends` at which its flows begin.
    """
    return [fixed64_column(field, ends.ids[first + k]) for k in range(count)]


def _join_packets_in_order(packets_by_group: list[tuple[Ints, NDArray[np.uint8]]], count: int) -> bytes:
    """Return the packets of several groups as bytes, in the order of their calls. Within a group all packets have the
    same length.
    """
    lengths = np.zeros(count, np.int64)
    for places, part in packets_by_group:
        lengths[places] = part.shape[1]
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for places, part in packets_by_group:
        out[starts[places][:, None] + np.arange(part.shape[1])] = part
    return out.tobytes()
