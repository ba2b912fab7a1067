"""Any call of the standard as a slot of a built record, with its tail and its site."""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from typing import Any

from weft.trace import layout
from weft.trace.builder.handles import EPOCH_NS, SIZES, Comm, Handle, Request, Type
from weft.trace.builder.record import PendingStream, RankRecord
from weft.trace.functions import Function
from weft.trace.layout import (
    ANY_SOURCE,
    ANY_TAG,
    COUNT_IN_TAIL,
    Def,
    Flag,
)
from weft.trace.tails import Status, encode_tail
from weft.trace.varint import encode_string, encode_unsigned


class RankCalls(RankRecord):
    """Records a rank's calls by their names and arguments."""

    @property
    def open(self) -> Any:
        """Return an object that records calls which never returned: `r.open.recv(0)`."""
        return NeverReturned(self)

    def site(self, site: tuple[str, int, str] | int | None) -> int:
        """Return the id of a call site (file, line, function). A site that is new is defined in the record."""
        if site is None or isinstance(site, int):
            return site or 0
        if site not in self._sites:
            id = len(self._sites) + 1
            file, line, function = site
            table = bytes([0x80 | 13 << 3 | 7]) + encode_unsigned(0)
            self.define(
                Def.PYCODE,
                encode_unsigned(id)
                + encode_string(file)
                + encode_string(function)
                + encode_unsigned(line)
                + encode_string(table),
            )
            self.define(
                Def.SITE,
                encode_unsigned(id)
                + encode_unsigned(0)
                + encode_unsigned(0)
                + encode_unsigned(id)
                + encode_unsigned(0)
                + encode_unsigned(0),
            )
            self._sites[site] = id
        return self._sites[site]

    def call(
        self, name: str, *, site: tuple[str, int, str] | int | None = None, open: bool = False, error: int = 0,
        enter: int | None = None, exit: int | None = None, thread: int = 0, ticket: int | None = None,
        flags: int = 0, status: Status | None = None, polls: int = 0, calls: int = 0,
        result: int | None = None, **arguments: Any,
    ) -> int:  # fmt: skip
        """Record any call, and return its index among the events of its thread.

        `status`: the contents of the call's MPI_Status; `polls`: the number of equal failed polls that the event stands
        for; `calls`: the number of equal calls that it stands for, of a function that waits for nobody.
        """
        function = self.builder.functions[name]
        unknown = set(arguments) - set(function.parameters_by_name)
        if unknown:
            raise TypeError(
                f"{name} has no argument {', '.join(sorted(unknown))}; it has {', '.join(function.parameters_by_name)}"
            )
        values = {key: self._convert_argument(function, key, value) for key, value in arguments.items()}
        place = function.parameters_by_name["status"].place if "status" in function.parameters_by_name else None
        if place == "tail":
            values["status"] = status
        start, end = self.builder.call_times(enter, exit)
        self.last_ns = max(self.last_ns, end)
        flags |= 0 if open else Flag.CLOSED
        slot = self._fill_slot(function, values, flags, status, polls or calls)
        self._append_tail(function, slot, values, status=status, ticket=ticket, thread=thread)
        if result is not None:
            slot["result"] = result
        duration = 0 if open else layout.encode_duration(end - start)
        stream = self._streams.setdefault(thread, PendingStream())
        stream.rows.append(
            (
                EPOCH_NS + start,
                duration,
                function.id,
                slot["flags"],
                error,
                self.site(site),
                slot["comm"],
                slot["peer"],
                slot["tag"],
                slot["datatype"],
                slot["count"],
                slot["result"],
                slot["object"],
                slot["buffer"],
            )
        )
        self._any_open |= open
        return stream.written + len(stream.rows) - 1

    def _convert_argument(self, function: Function, name: str, value: Any) -> Any:
        """Return an argument with handles replaced by their ids."""
        parameter = function.parameters_by_name[name]
        if parameter.handle and parameter.array and value is not None:
            return [self._object_id(parameter.handle, item) for item in value]
        return self._object_id(parameter.handle, value) if parameter.handle else value

    def _object_id(self, cls: str, value: Any) -> int:
        """Return the id that the record has for a handle: a communicator, request or datatype of the builder, or the
        name of a predefined object. `cls`: the class of handle, such as "COMM".
        """
        if value is None:
            return 1
        if isinstance(value, Comm):
            return value.ids[self.index]
        if isinstance(value, (Type, Request)):
            return value.id
        if isinstance(value, str):
            return self.builder.functions.object_id(cls, value)
        return int(value)

    def count_bytes(self, datatype: Handle, count: int) -> int:
        """Return the size in bytes of `count` elements of a datatype."""
        if isinstance(datatype, Type):
            return datatype.size * count
        name = (
            datatype
            if isinstance(datatype, str)
            else self.builder.functions.object_name("DATATYPE", self._object_id("DATATYPE", datatype))
        )
        return SIZES.get(name or "", 0) * count

    def _fill_slot(
        self, function: Function, values: dict[str, Any], flags: int, status: Status | None, folds: int
    ) -> dict[str, int]:
        """Return the fields of a call's slot (the fixed part of its record), from its arguments and status."""
        slot = dict.fromkeys(("comm", "peer", "tag", "datatype", "count", "result", "object", "buffer"), 0)
        for place, p in function.slot.items():
            value = values.get(p.name)
            if place == "flag":
                flags |= Flag.TRUE if value else 0
            elif place != "status" and value is not None:
                slot[place] = int(value)
        peer = function.slot.get("peer")
        if peer and peer.name == "source" and slot["peer"] == ANY_SOURCE:
            flags |= Flag.ANY_SOURCE
        tag = function.slot.get("tag")
        if tag and tag.handle is None and peer and peer.name == "source" and slot["tag"] == ANY_TAG:
            flags |= Flag.ANY_TAG
        if slot["peer"] < -3:
            slot["peer"] += layout.RANK_INVALID_BASE
        if status is not None and "status" in function.slot and flags & Flag.CLOSED:
            slot["peer"], slot["tag"], slot["result"] = status.source, status.tag, min(status.count, 2**32 - 1)
            flags |= Flag.CANCELLED if status.cancelled else 0
        elif status is None and "status" in function.slot and peer is None:
            slot["peer"] = slot["tag"] = -1  # the completion of a send, or of nothing
        if folds:
            slot["count"] = folds
        slot["flags"] = flags
        return slot

    def _append_tail(
        self, function: Function, slot: dict[str, int], values: dict[str, Any], *, status: Status | None,
        ticket: int | None, thread: int,
    ) -> None:  # fmt: skip
        """Write the call's arguments that have no room in its slot (the fixed part of its record) to the thread's
        stream of tails. Their place is noted in `slot`.
        """
        count = None
        if not -(2**31) <= slot["count"] < COUNT_IN_TAIL:
            count, slot["count"] = slot["count"], COUNT_IN_TAIL
        received = status.count if status and "status" in function.slot else 0
        if not (function.tail_in or function.tail_out or count is not None or ticket is not None or received >> 32):
            return
        slot["flags"] |= Flag.HAS_TAIL | (Flag.TICKET if ticket is not None else 0)
        tail = encode_tail(
            function, slot["flags"], values, buffer=slot["buffer"], count=count, slot_count=slot["count"],
            ticket=ticket or 0, received=received,
        )  # fmt: skip
        slot["result"] = self.append_tails(tail, thread)


class NeverReturned:
    """Records calls of a rank as calls that never return."""

    def __init__(self, rank: RankCalls) -> None:
        self._rank = rank

    def __getattr__(self, name: str) -> object:
        method = getattr(self._rank, name)
        return lambda *args, **kw: method(*args, open=True, **kw)
