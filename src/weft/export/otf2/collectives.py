"""Collective calls as OTF2 has them. What it has no operation for (neighbourhoods, files) stays a region."""

from __future__ import annotations

from functools import cache
from typing import Final

import _otf2
import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints, coded, per_function
from weft.export.otf2.definitions import NOTHING, everyone, ranks_in
from weft.export.otf2.rows import BEGUN, DONE, Kind, Records
from weft.export.otf2.traffic import by_event
from weft.match import Collectives, Post
from weft.mpi.meaning import Act, of
from weft.terms import calls
from weft.terms.argument_columns import Ragged, columns, distinct
from weft.terms.datatype_sizes import size_of
from weft.terms.run_extent import Extent
from weft.trace import Function, FunctionTable, Rank
from weft.trace.layout import IN_PLACE, ROOT

_NO_OPERATION: Final = 0xFF
_NOT_BLOCKING: Final = Post.NONBLOCKING | Post.PERSISTENT
_COUNTS: Final = frozenset(("recvcount", "recvcounts", "sendcounts", "recvtype"))


def operation(name: str) -> int:
    """OTF2's operation of a function, _NO_OPERATION where it has none."""
    found = of(name)
    if found is None or found.act is not Act.COLLECTIVE:
        return _NO_OPERATION
    if found.kin in calls.COMM_MAKERS:
        return int(_otf2.COLLECTIVE_OP_CREATE_HANDLE.value)
    if found.frees == "COMM":
        return int(_otf2.COLLECTIVE_OP_DESTROY_HANDLE.value)
    known = getattr(_otf2, f"COLLECTIVE_OP_{found.kin.upper()}", None) if found.moves else None
    return _NO_OPERATION if known is None else int(known.value)


@cache
def _operations(functions: FunctionTable) -> NDArray[np.uint8]:
    return per_function(functions, lambda f: operation(f.name), np.uint8)


class Calls:
    """The collective calls of a rank."""

    def __init__(self, rank: Rank, of: Collectives) -> None:
        self._rank, self._of = rank, of
        part = of.of_rank(rank.index)
        self._operation = _operations(rank.trace.functions)
        known = np.flatnonzero(
            (self._operation[of.function[part]] != _NO_OPERATION) & ((of.flags[part] & Post.INIT) == 0)
        )
        rows = known + part.start
        later = (of.flags[rows] & _NOT_BLOCKING) != 0
        self._blocking = by_event(of.event[rows[~later]], rows[~later])
        self._posted = by_event(of.event[rows[later]], rows[later])
        self._done = by_event(of.completion[rows[later]], rows[later])

    def rows(self, block: Block) -> list[Records]:
        """The records of collectives in a block."""
        place, row = self._blocking.of(block)
        # One that never returned has begun and has no end that could be told.
        ended = ~block.open[place]
        begin = Records(place[ended], BEGUN, Kind.COLLECTIVE_BEGIN)
        end = self._ends(block.run, place[ended], row[ended], Kind.COLLECTIVE_END)
        place, row = self._posted.of(block)
        request = Records(place, BEGUN, Kind.COLLECTIVE_REQUEST, id=self._number(row))
        done = self._ends(block.run, *self._done.of(block), Kind.COLLECTIVE_COMPLETE)
        return [begin, end, request, done]

    def _number(self, row: Ints) -> Ints:
        """The requests' numbers, apart from those of messages."""
        return row + (1 << 40)

    def _ends(self, run: Extent, place: Ints, row: Ints, kind: Kind) -> Records:
        call = Block(self._rank, self._of.event[row].astype(np.int64), run)
        sent, received, root = self._volumes(call, self._of.function[row], self._of.comm[row])
        return Records(
            place, DONE, kind, small=self._operation[self._of.function[row]], y=root, a=sent, b=received,
            x=self._of.comm[row].astype(np.int64) & NOTHING, id=self._number(row),
        )  # fmt: skip

    def _volumes(self, call: Block, of: NDArray[np.uint16], comms: NDArray[np.int32]) -> tuple[Ints, Ints, Ints]:
        """Bytes that the rank gives and gets, and the root, a rank of the communicator."""
        sent, received = np.zeros(len(call), np.int64), np.zeros(len(call), np.int64)
        root = np.full(len(call), NOTHING, np.int64)
        # The start of a persistent one does not hold the arguments.
        own = call.function == of
        for function in np.unique(of[own]).tolist():
            rows = np.flatnonzero(own & (of == function))
            known = self._rank.trace.functions[function]
            size, me = self._places(comms[rows])
            given = _Given(call, rows, known, size)
            at_root = np.ones(len(rows), np.bool_)
            if "root" in known.by_name:
                # In an intercommunicator the root itself says MPI_ROOT, and the rest of its group MPI_PROC_NULL.
                root[rows] = np.where(call.peer[rows] == ROOT, me, self._roots(call, rows, comms[rows]))
                at_root = root[rows] == me
            sent[rows], received[rows] = given.volumes(at_root)
        return sent, received, root

    def _places(self, comms: NDArray[np.int32]) -> tuple[Ints, Ints]:
        """How many members the communicators have, and which of them this rank is."""
        ids, codes = coded(comms)
        known = [everyone(self._rank.trace.communicators[i]) if i >= 0 else () for i in ids]
        ranks = [members.index(self._rank.index) if self._rank.index in members else -1 for members in known]
        return np.array([len(members) for members in known], np.int64)[codes], np.array(ranks, np.int64)[codes]

    def _roots(self, call: Block, rows: Ints, comms: NDArray[np.int32]) -> Ints:
        """The roots as members of their communicators."""
        found = np.full(len(rows), NOTHING, np.int64)
        peer = call.peer_rank[rows]
        for comm in distinct(comms[comms >= 0]).tolist():
            mine = np.flatnonzero((comms == comm) & (peer >= 0))
            found[mine] = ranks_in(self._rank.trace, comm)[peer[mine]]
        return found


class _Given:
    """What calls of one function say of how much goes round."""

    def __init__(self, call: Block, rows: Ints, function: Function, size: Ints) -> None:
        self.size = size
        row = of(function.name)
        self.kin = row.kin if row else ""
        self.own = np.maximum(call.bytes[rows], 0)
        self.unit = np.maximum(call.type_size[rows], 0)
        self.in_place = call.events["buffer"][rows] == IN_PLACE
        self.counts: dict[str, Ints] = {}
        for _, found in columns(call.rank, call.index[rows], _COUNTS):
            for name, values in found.items():
                sums = _sums(values) if isinstance(values, Ragged) else values
                if isinstance(sums, np.ndarray) and len(sums) == len(rows):
                    self.counts[name] = sums
        self.recv_unit = self._units(call)

    def _units(self, call: Block) -> Ints:
        ids = self.counts.get("recvtype")
        if ids is None:
            return self.unit
        known, codes = coded(ids)
        return np.array([size_of(call.rank.datatype(i)) or 0 for i in known], np.int64)[codes]

    def _counted(self, name: str, unit: Ints) -> Ints:
        """Bytes that a count in the tail, or the sum of several, stands for."""
        return np.maximum(self.counts.get(name, np.zeros(len(self.own), np.int64)), 0) * unit

    def volumes(self, at_root: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Bytes given and got."""
        zero, own, size = np.zeros(len(self.own), np.int64), self.own, self.size
        each, total = self._counted("recvcount", self.recv_unit), self._counted("recvcounts", self.recv_unit)
        # In place, what a rank gives is its part of what it gets.
        part = np.where(self.in_place, each, own)
        if self.kin in ("Allreduce", "Scan", "Exscan"):
            return own, own
        if self.kin == "Bcast":
            return np.where(at_root, own * size, 0), own
        if self.kin == "Reduce":
            return own, np.where(at_root, own, 0)
        if self.kin == "Gather":
            return part, np.where(at_root, each * size, 0)
        if self.kin == "Gatherv":
            return own, np.where(at_root, total, 0)
        if self.kin == "Scatter":
            return np.where(at_root, own * size, 0), each
        if self.kin == "Scatterv":
            return np.where(at_root, self._counted("sendcounts", self.unit), 0), own
        if self.kin == "Allgather":
            return part, each * size
        if self.kin == "Allgatherv":
            return own, total
        if self.kin == "Alltoall":
            return part * size, each * size
        if self.kin == "Alltoallv":
            return self._counted("sendcounts", self.unit), total
        if self.kin == "Reduce_scatter":
            return total, total // np.maximum(size, 1)
        if self.kin == "Reduce_scatter_block":
            return own * size, own
        return zero, zero


def _sums(values: Ragged) -> Ints:
    running: Ints = np.concatenate([[0], np.cumsum(values.values)])
    sums: Ints = running[values.starts[1:]] - running[values.starts[:-1]]
    return sums
