"""Holds a record against the program's own log: the same calls, order, arguments and lines."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matrix.log import Call, Log, Value
from weft.mpi import table
from weft.mpi.meaning import Trait, find_meaning
from weft.mpi.table import Parameter
from weft.trace.layout import ANY_SOURCE, ANY_TAG, ID_DYNAMIC, IN_PLACE, PROC_NULL, ROOT
from weft.trace.rank import Event, Rank
from weft.trace.tails import Status

_RANKS = {"MPI_ANY_SOURCE": ANY_SOURCE, "MPI_PROC_NULL": PROC_NULL, "MPI_ROOT": ROOT}
_LOCKS = {"MPI_LOCK_EXCLUSIVE": 1, "MPI_LOCK_SHARED": 2}
_ASSERTS = {
    "MPI_MODE_NOCHECK": 1,
    "MPI_MODE_NOSTORE": 2,
    "MPI_MODE_NOPUT": 4,
    "MPI_MODE_NOPRECEDE": 8,
    "MPI_MODE_NOSUCCEED": 16,
}
_POLLS = re.compile(r"MPI_(Test|Testall|Testany|Testsome|Iprobe|Improbe|Request_get_status|Win_test|Parrived)")
# Handles that may come out of a call more than once for one object.
_GETTERS = re.compile(
    r"MPI_(Comm_get_parent|\w*get_errhandler|Type_get_contents|Comm_group|Win_get_group|Comm_remote_group)"
)
_MANY_OUT = {"array_of_indices": "outcount", "array_of_statuses": "outcount"}


@dataclass
class Language:
    """How a language's log differs from C's.

    `first_index`: what the first of several requests is numbered. `lines`: whether the compiler's line table is true;
    gfortran 12 gives a call through an explicit interface another line of its subprogram where a variable of the
    subprogram comes out of it (docs/limitations.md).
    """

    first_index: int = 0
    lines: bool = True


@dataclass
class Comparison:
    """One process: its record beside its log."""

    rank: Rank
    log: Log
    sources: tuple[str, ...]
    """Names of the files that the calls stand in."""
    language: Language = field(default_factory=Language)
    differences: list[str] = field(default_factory=list)
    bound: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: dict[str, set[int]] = field(default_factory=dict)
    alive: dict[str, list[int]] = field(default_factory=dict)
    compared: int = 0
    wrong_lines: int = 0

    def run(self) -> list[str]:
        """Compare all; returns what differs, in plain sentences, at most 20."""
        table_ = self.rank.trace.functions
        for class_, names in self.log.handles.items():
            self.bound[class_] = {raw: table_.object_id(class_, name) for raw, name in names.items()}
        for thread in sorted({call.thread for call in self.log.calls}):
            self._thread([call for call in self.log.calls if call.thread == thread], self._events(thread))
        return self.differences

    def _events(self, thread: int) -> list[Event]:
        events = [self.rank.event(i) for i in range(len(self.rank.events))]
        slots = sorted(
            {e.thread.slot for e in events}, key=lambda slot: next(e.index for e in events if e.thread.slot == slot)
        )
        return [e for e in events if thread < len(slots) and e.thread.slot == slots[thread]]

    def _thread(self, calls: list[Call], events: list[Event]) -> None:
        calls = list(folded(calls))
        for call, event in zip(calls, events, strict=False):
            self.compared += 1
            if event.function.name != call.name:
                self.call, self.event = call, event
                self._say(f"the record has {event.function.name} at {event.site.text}")
                break
            self._call(call, event)
            if len(self.differences) > 20:
                break
        if not self.differences and len(calls) != len(events):
            more = events[len(calls) :] or calls[len(events) :]
            names = [e.function.name if isinstance(e, Event) else e.name for e in more]
            self.differences.append(f"{len(calls)} calls were logged, {len(events)} recorded; in excess: {names[:10]}")

    def _say(self, what: str) -> None:
        self.differences.append(
            f"rank {self.rank.rank}, line {self.call.line}, {self.call.name} (event {self.event.index}): {what}"
        )

    def _call(self, call: Call, event: Event) -> None:
        self.call, self.event = call, event
        if event.damage or event.open:
            self._say(f"the event is {event.damage or 'open'}")
            return
        site, outs = event.site, any(p.direction != "in" for p in table.functions_by_name()[call.name].parameters)
        if not self.language.lines and outs and Path(site.file or "?").name in self.sources:
            self.wrong_lines += site.line != call.line
        elif site.line != call.line or Path(site.file or "?").name not in self.sources:
            self._say(f"the record says it stands at {site.text}")
        if (call.result != 0) != (event.error != 0):
            self._say(f"returned {call.result}, recorded error {event.error}")
        if call.polls != event.polls:
            self._say(f"{call.polls} failed polls in a row, recorded {event.polls}")
        if call.times != event.calls and not event.polls:
            self._say(f"{call.times} equal calls in a row, recorded {event.calls}")
        parameters = table.functions_by_name()[call.name].parameters
        if call.name == "MPI_Init":
            return  # C's two arguments are not MPI's business, and Fortran has none
        if table.functions_by_name()[call.name].result == "double":
            (seconds,) = struct.unpack("<d", struct.pack("<Q", event.buffer))
            text = call.after[0].text
            if seconds != (float.fromhex(text) if text.startswith("0x") else float(text)):
                self._say(f"gave {call.after[0].text}, recorded {seconds}")
            return
        arguments = event.args
        for p, before, after in zip(parameters, call.before, call.after, strict=True):
            self._argument(p, before, after, arguments)

    def _argument(self, p: Parameter, before: Value, after: Value, arguments: dict[str, Any]) -> None:
        if p.place == "none" or not self._significant(p, arguments):
            return
        if p.name not in arguments:
            self._say(f"{p.name} is not in the record")
            return
        recorded = arguments[p.name]
        if p.direction != "in" and p.array is False and p.direction == "inout" and not p.handle and p.type == "int":
            self._equal(f"{p.name} (out)", self._number(p, after), arguments.get(f"{p.name}:out"))
        logged = before if p.direction == "in" or p.part == "entry" or (p.direction == "inout") else after
        if p.handle and p.direction == "inout" and not p.array:
            logged = before
        if p.type == "status":
            self._status(p, after if p.direction != "in" else before, recorded)
        elif p.handle:
            self._handles(p, logged, after, recorded)
        elif p.array:
            self._array(p, logged, recorded, arguments)
        elif p.type == "string":
            self._equal(p.name, (logged.string or "")[:4096], recorded)
        elif p.type == "address":
            self._address(p, logged, recorded)
        else:
            self._equal(p.name, self._number(p, logged), int(recorded))

    def _significant(self, p: Parameter, arguments: dict[str, Any]) -> bool:
        """Whether MPI gives the argument a meaning in this call: a failed poll and a failed call put nothing out."""
        if p.direction == "in":
            return True
        if self.call.polls:
            return p.direction == "inout"
        if self.call.result != 0:
            return p.direction == "inout"
        return True

    def _equal(self, name: str, logged: Any, recorded: Any) -> None:
        if logged != recorded:
            self._say(f"{name} was {logged!r}, recorded {recorded!r}")

    # one value

    def _meaning(self, p: Parameter, number: int) -> int:
        constants = self.log.constants
        if p.kind in ("RANK", "RANK_NNI"):
            return next((v for name, v in _RANKS.items() if number == constants[name]), number)
        if p.kind == "TAG":
            return ANY_TAG if number == constants["MPI_ANY_TAG"] else number
        if p.kind == "LOCK_TYPE":
            return next((v for name, v in _LOCKS.items() if number == constants[name]), 0)
        if p.kind == "ASSERT":
            return sum(v for name, v in _ASSERTS.items() if number & constants[name])
        if p.name in ("index", "array_of_indices") and p.direction == "out" and number != constants["MPI_UNDEFINED"]:
            return number - self.language.first_index
        if p.kind == "LOGICAL":
            return int(number != 0)
        return number

    def _number(self, p: Parameter, value: Value) -> int | None:
        text = value.items[0] if value.items else value.text
        try:
            return self._meaning(p, int(text, 0))
        except ValueError:
            return None

    def _address(self, p: Parameter, logged: Value, recorded: int) -> None:
        if p.direction == "out" and p.kind not in ("BUFFER", "C_BUFFER", "C_BUFFER2"):
            return  # a pointer that comes out: the log has where it was put
        address = logged.number or 0
        if address == self.log.constants["MPI_IN_PLACE"]:
            address = IN_PLACE
        elif address == self.log.constants["MPI_BOTTOM"]:
            address = 0
        self._equal(p.name, address % 2**64, recorded)

    def _array(self, p: Parameter, logged: Value, recorded: list[Any], arguments: dict[str, Any]) -> None:
        items = [] if logged.items is None else [self._meaning(p, int(item, 0)) for item in logged.items]
        if p.direction == "out" and p.name in _MANY_OUT and _MANY_OUT[p.name] in arguments:
            items = items[: max(arguments[_MANY_OUT[p.name]], 0)]
        if p.type == "string" or (p.root_only and not recorded and self.event.peer != self._my_rank()):
            return
        if not recorded and (logged.items is None or p.kind == "WEIGHT"):
            return
        if p.direction == "out" and len(recorded) < len(items) and self.call.name == "MPI_Type_get_contents":
            items = items[: len(recorded)]
        self._equal(p.name, items, recorded)

    def _my_rank(self) -> int:
        comm = self.event.comm
        return comm.members.index(self.rank.index) if comm and self.rank.index in comm.members else -1

    # handles

    def _handles(self, p: Parameter, logged: Value, after: Value, recorded: Any) -> None:
        class_ = p.handle or ""
        if p.array:
            raws = list(logged.items or ())
            if p.root_only and not recorded and self.event.peer != self._my_rank():
                return
            if len(raws) != len(recorded):
                self._say(f"{p.name} has {len(raws)} handles, recorded {len(recorded)}")
                return
            for raw, left, id_ in zip(raws, after.items or raws, recorded, strict=False):
                self._handle(p, class_, raw, id_)
                self._gone(p, raw, left, id_)
            return
        raw = logged.items[0] if logged.items and p.declaration.endswith("*") else logged.text
        self._handle(p, class_, raw, int(recorded))
        self._gone(p, raw, after.items[0] if after.items else after.text, int(recorded))

    def _handle(self, p: Parameter, class_: str, raw: str, id_: int) -> None:
        bound = self.bound.setdefault(class_, {})
        seen = self.seen.setdefault(class_, set())
        if p.direction == "out" and not (raw in bound and bound[raw] < ID_DYNAMIC):
            if id_ < ID_DYNAMIC:
                self._say(f"{p.name} is a new object, recorded as the predefined {id_}")
            if id_ in seen and not _GETTERS.match(self.call.name):
                self._say(f"{p.name} is a new object, recorded with the id {id_} of another one")
            seen.add(id_)
            if class_ == "REQUEST":
                self.alive.setdefault(raw, []).append(id_)
            else:
                bound[raw] = id_
        elif class_ == "REQUEST" and raw not in bound:
            if id_ not in self.alive.get(raw, []):
                self._say(f"{p.name} was one of the requests {self.alive.get(raw)}, recorded {id_}")
        elif raw not in bound:
            self._say(f"{p.name}: the program passed a handle {raw} that no call gave it")
        elif bound[raw] != id_:
            self._say(f"{p.name} was object {bound[raw]} of class {class_}, recorded {id_}")

    def _gone(self, p: Parameter, raw: str, left: str, id_: int) -> None:
        """A request that is complete. Small sends under way may share a handle, so an id goes, not the handle."""
        if p.handle == "REQUEST" and left != raw and id_ in self.alive.get(raw, []):
            self.alive[raw].remove(id_)

    # statuses

    def _status(self, p: Parameter, logged: Value, recorded: Any) -> None:
        if self.event.function.name.startswith("MPI_File_"):
            return  # MPI leaves source and tag as they were
        if logged.items is None or logged.number in tuple(
            self.log.constants[f"MPI_STATUS{s}_IGNORE"] for s in ("", "ES")
        ):
            return
        recorded = recorded if isinstance(recorded, list) else [self.event.status if p.place == "status" else recorded]
        for (source, tag), status in zip(self._sources_and_tags(logged.items), recorded, strict=False):
            if not isinstance(status, Status):
                continue  # of a send, a collective or a null request: source and tag mean nothing there
            ranks = {self.log.constants[name]: meaning for name, meaning in _RANKS.items()}
            if source < 0 and source not in ranks:
                continue  # of a file: MPI leaves source and tag as they were
            wanted = (ranks.get(source, source), ANY_TAG if tag == self.log.constants["MPI_ANY_TAG"] else tag)
            if not status.cancelled:
                self._equal(p.name, wanted, (status.source, status.tag))

    def _sources_and_tags(self, items: tuple[str, ...]) -> list[tuple[int, int]]:
        if items[0].startswith("<"):
            pairs = [item.strip("<>").split(";") for item in items]
            return [(int(source), int(tag)) for source, tag in pairs]
        size, at, tag_at = (self.log.constants[name] for name in ("MPI_STATUS_SIZE", "MPI_SOURCE", "MPI_TAG"))
        wholes = [items[i : i + size] for i in range(0, len(items), size)]
        return [(int(whole[at - 1]), int(whole[tag_at - 1])) for whole in wholes]  # Fortran's old form: integers


def folded(calls: list[Call]) -> Iterator[Call]:
    """The calls as a record keeps them: failed polls, or local calls, equal and in a row from one line, are one."""
    last: Call | None = None
    for call in calls:
        failed = call.result == 0 and _POLLS.fullmatch(call.name) and poll_failed(call)
        is_local = call.result == 0 and _is_folded(call.name)
        if (
            last
            and ((failed and last.polls) or (is_local and last.result == 0))
            and (last.name, last.line) == (call.name, call.line)
            and inputs(last) == inputs(call)
        ):
            last.polls += failed
            last.times += is_local
            continue
        if last:
            yield last
        last = call
        call.polls = 1 if failed else 0
    if last:
        yield last


def _is_folded(name: str) -> bool:
    found = find_meaning(name)
    return found is not None and Trait.FOLDED in found.traits


def inputs(call: Call) -> list[str]:
    """The arguments that go into a call; of one that waits for nobody, all but addresses."""
    parameters, local = table.functions_by_name()[call.name].parameters, _is_folded(call.name)
    return [
        v.text
        for p, v in zip(parameters, call.before, strict=True)
        if p.direction != "out" and not (local and p.type == "address")
    ]


def poll_failed(call: Call) -> bool:
    """Whether a poll came out false, or with no request completed."""
    for p, value in zip(table.functions_by_name()[call.name].parameters, call.after, strict=True):
        if p.name in ("flag", "outcount"):
            return (value.items or (value.text,))[0] in ("0", "F")
    return False
