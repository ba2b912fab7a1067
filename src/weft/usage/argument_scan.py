"""Scan all events of a rank for arguments that may be wrong (native/kernel/scan.c).

arguments.py checks the events that are found, rule by rule; an event that is not found breaks none of these rules.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.match.functions import CODE_ARRAY, CODES, Code
from weft.native.bridge import U8, array_addresses
from weft.native.headers import scan
from weft.native.headers.scan import Rule
from weft.terms import calls
from weft.terms.argument_columns import Ints
from weft.terms.calls import masks_of, word_set
from weft.trace import FunctionTable, Rank
from weft.trace.layout import Def
from weft.trace.mapping import release_pages

_ROWS: Final = 65536
"""Of them that are found at a time."""


class CheckedFunctions(NamedTuple):
    """The functions whose tag, datatype, operation, object or buffers are checked."""

    sending: frozenset[str]
    receiving: frozenset[str]
    typed: frozenset[str]
    reducing: frozenset[str]
    objects: frozenset[str]
    aliased: frozenset[str]


class FunctionRules(NamedTuple):
    """The rules by function id as C reads them; `lead` and `codes` say how to reach the second buffer in the tail."""

    rules: NDArray[np.uint16]
    lead: NDArray[np.uint16]
    codes: NDArray[np.uint8]


def find_suspect_events(rank: Rank, checked: CheckedFunctions) -> Ints:
    """Return the event indices of a rank's calls whose arguments may break a rule of MPI, ascending.

    `checked`: for each rule the functions that it applies to.
    """
    rules = _rules_by_function(rank.trace.functions, checked)
    events = np.ascontiguousarray(rank.events)
    threads = np.ascontiguousarray(rank.event_threads, np.int32) if len(rank.threads) > 1 else None
    tails = [np.ascontiguousarray(t.tails) for t in rank.threads]
    sizes, windows = _peer_counts_by_communicator(rank), _peer_counts_by_window(rank)
    given = scan.Rules(
        events=events, count=len(events), threads=threads, tails=array_addresses(tails, U8, "tails"),
        tail_bytes=np.array([len(t) for t in tails], np.uint64), rules=rules.rules, lead=rules.lead, codes=rules.codes,
        sizes=sizes, size_count=len(sizes), windows=windows, window_count=len(windows),
    )  # fmt: skip
    find = scan.kernel().weft_find_suspects
    at = ctypes.c_uint64()
    found: list[Ints] = []
    for start in range(0, len(events), calls.PART):
        part = events[start : start + calls.PART]
        given.count = start + len(part)
        while at.value < start + len(part):
            rows = np.empty(_ROWS, np.int64)
            count = find(given, ctypes.byref(at), rows, _ROWS)
            found.append(rows[:count].copy())
        for gone in (part, *tails) if len(events) > calls.LONG else ():
            release_pages(gone)
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _table_by_id(sizes: dict[int, int]) -> NDArray[np.int32]:
    """Return an array in which the entry at index `id` is `sizes[id]`, -1 for ids that `sizes` does not have."""
    table = np.full(max(sizes, default=0) + 1, -1, np.int32)
    for id, size in sizes.items():
        table[id] = size
    return table


def _peer_counts_by_communicator(rank: Rank) -> NDArray[np.int32]:
    """Return an array indexed by communicator id: how many ranks a call on the communicator can name as its peer (those
    of the remote group of an intercommunicator), -1 if unknown.
    """
    ids = [2, 3, *(definition.id for definition in rank.communicator_definitions())]
    known = {id: rank.comm(id) for id in ids if id < 1 << 24}
    return _table_by_id({id: len(comm.peers(rank.index)) for id, comm in known.items() if comm is not None})


def _peer_counts_by_window(rank: Rank) -> NDArray[np.int32]:
    """Return an array indexed by window id: how many ranks an operation on the window can name as its target, -1 if
    unknown.
    """
    comms: dict[int, int] = {}
    for id in rank.definitions.ids(Def.WINDOW):
        definition = rank.definitions.window(id)
        comm = rank.comm(definition.comm) if definition else None
        if comm is not None and id < 1 << 24:
            comms[id] = len(comm.peers(rank.index))
    return _table_by_id(comms)


@cache
def _rules_by_function(functions: FunctionTable, checked: CheckedFunctions) -> FunctionRules:
    """Return tables by function id for the scan in C: which rules the calls of the function are checked for, as a mask
    of bits, and how to find the second buffer among the call's further arguments.
    """
    rules = np.zeros(65536, np.uint16)
    for function in functions:
        slot = {p.place: p.name for p in function.parameters if p.direction != "out"}
        rule = ("count" in slot) * Rule.COUNT.value | ("comm" in slot) * Rule.COMM.value
        if "peer" in slot:
            rule |= Rule.PEER.value | ("comm" not in function.slot) * Rule.WINDOW.value
            rule |= (slot["peer"] == "source") * Rule.ANY.value | (slot["peer"] != "root") * Rule.NOBODY.value
        rules[function.id] = rule
    table = masks_of(functions).table
    for names, rule in (
        (checked.sending, Rule.TAG), (checked.receiving, Rule.TAG | Rule.ANY_TAG),
        (checked.typed | word_set("Type_free Type_commit"), Rule.TYPE), (checked.reducing, Rule.OP),
        (checked.objects, Rule.OBJECT),
    ):  # fmt: skip
        rules[table(names)] |= np.uint16(rule)
    lead, codes = np.zeros(65536, np.uint16), bytearray(b"\0")
    for id in np.flatnonzero(table(checked.aliased)).tolist():
        before = [p.name for p in functions[id].tail_in]
        if "recvbuf" in before:
            rules[id] |= np.uint16(Rule.ALIAS)
            steps = functions[id].tail_in[: before.index("recvbuf")]
            lead[id] = len(codes)
            codes += bytes([len(steps)])
            codes += bytes(CODES.get(p.type, Code.HANDLE) | (CODE_ARRAY if p.array else 0) for p in steps)
    return FunctionRules(rules, lead, np.frombuffer(bytes(codes), np.uint8))
