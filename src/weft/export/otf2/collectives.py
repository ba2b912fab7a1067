"""Make OTF2's records of collective calls. Those without an operation in OTF2 (neighbourhoods, files) are
regions only.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import _otf2
import numpy as np
from numpy.typing import NDArray

from weft.export.blocks import Block, Ints, encode_ids, make_function_table
from weft.export.otf2.definitions import NOTHING, find_comm_members, make_member_table
from weft.export.otf2.messages import sort_by_event
from weft.export.otf2.record_rows import BEGUN, DONE, Kind, Records
from weft.match import Collectives, Post
from weft.mpi.meaning import Act, find_meaning
from weft.terms import calls
from weft.terms.argument_columns import Ragged, decode_columns, sorted_distinct
from weft.terms.datatype_sizes import size_in_bytes
from weft.terms.run_extent import Extent
from weft.trace import Function, FunctionTable, Rank
from weft.trace.layout import IN_PLACE, ROOT

_NO_OPERATION: Final = 0xFF
_NOT_BLOCKING: Final = Post.NONBLOCKING | Post.PERSISTENT
_COUNTS: Final = frozenset(("recvcount", "recvcounts", "sendcounts", "recvtype"))


def find_collective_operation(function_name: str) -> int:
    """Return OTF2's number of the collective operation of an MPI function; _NO_OPERATION if there is none."""
    found = find_meaning(function_name)
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
    return make_function_table(functions, lambda f: find_collective_operation(f.name), np.uint8)


class CollectiveCalls:
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
        self._blocking = sort_by_event(of.event[rows[~later]], rows[~later])
        self._posted = sort_by_event(of.event[rows[later]], rows[later])
        self._done = sort_by_event(of.completion[rows[later]], rows[later])

    def block_records(self, block: Block) -> list[Records]:
        """Return OTF2's records for the begin and the end of the collective calls in a block."""
        place, row = self._blocking.rows_in_block(block)
        # One that never returned has begun and has no end that could be told.
        ended = ~block.open[place]
        begin = Records(place[ended], BEGUN, Kind.COLLECTIVE_BEGIN)
        end = self._make_end_records(block.run, place[ended], row[ended], Kind.COLLECTIVE_END)
        place, row = self._posted.rows_in_block(block)
        request = Records(place, BEGUN, Kind.COLLECTIVE_REQUEST, id=self._request_numbers(row))
        done = self._make_end_records(block.run, *self._done.rows_in_block(block), Kind.COLLECTIVE_COMPLETE)
        return [begin, end, request, done]

    def _request_numbers(self, row: Ints) -> Ints:
        """Return numbers for the requests of collectives that differ from all numbers of messages. `row`: their rows in
        the match.
        """
        return row + (1 << 40)

    def _make_end_records(self, run: Extent, call_places: Ints, operation_rows: Ints, kind: Kind) -> Records:
        """Return the records that end collective operations, with the bytes sent and received, and the root.
        `call_places`: the places of their calls in the block; `operation_rows`: their rows in the match's collectives.
        """
        call = Block(self._rank, self._of.event[operation_rows].astype(np.int64), run)
        sent, received, root = self._compute_call_volumes(
            call, self._of.function[operation_rows], self._of.comm[operation_rows]
        )
        return Records(
            call_places, DONE, kind, small=self._operation[self._of.function[operation_rows]],
            y=root, a=sent, b=received,
            x=self._of.comm[operation_rows].astype(np.int64) & NOTHING, id=self._request_numbers(operation_rows),
        )  # fmt: skip

    def _compute_call_volumes(
        self, block: Block, function_ids: NDArray[np.uint16], comms: NDArray[np.int32]
    ) -> tuple[Ints, Ints, Ints]:
        """Return three columns for the calls of a block: the bytes that the rank sends, the bytes that it receives, and
        the root's rank in the communicator.
        """
        sent, received = np.zeros(len(block), np.int64), np.zeros(len(block), np.int64)
        root = np.full(len(block), NOTHING, np.int64)
        # The start of a persistent one does not hold the arguments.
        own = block.function == function_ids
        for function in np.unique(function_ids[own]).tolist():
            rows = np.flatnonzero(own & (function_ids == function))
            known = self._rank.trace.functions[function]
            size, me = self._find_sizes_and_members(comms[rows])
            given = _FunctionVolumes(block, rows, known, size)
            at_root = np.ones(len(rows), np.bool_)
            if "root" in known.parameters_by_name:
                # In an intercommunicator the root itself says MPI_ROOT, and the rest of its group MPI_PROC_NULL.
                root[rows] = np.where(block.peer[rows] == ROOT, me, self._find_root_members(block, rows, comms[rows]))
                at_root = root[rows] == me
            sent[rows], received[rows] = given.compute_volumes(at_root)
        return sent, received, root

    def _find_sizes_and_members(self, comms: NDArray[np.int32]) -> tuple[Ints, Ints]:
        """Return two columns for some communicators: the number of members, and this rank's rank among them (-1 if it
        is no member).
        """
        ids, codes = encode_ids(comms)
        known = [find_comm_members(self._rank.trace.communicators[i]) if i >= 0 else () for i in ids]
        ranks = [members.index(self._rank.index) if self._rank.index in members else -1 for members in known]
        return np.array([len(members) for members in known], np.int64)[codes], np.array(ranks, np.int64)[codes]

    def _find_root_members(self, block: Block, rows: Ints, comms: NDArray[np.int32]) -> Ints:
        """Return the root of each call as its rank in the communicator; NOTHING if it is unknown. `rows`: places of the
        calls in the block; `comms`: their communicators.
        """
        found = np.full(len(rows), NOTHING, np.int64)
        peer = block.peer_rank[rows]
        for comm in sorted_distinct(comms[comms >= 0]).tolist():
            mine = np.flatnonzero((comms == comm) & (peer >= 0))
            found[mine] = make_member_table(self._rank.trace, comm)[peer[mine]]
        return found


class _FunctionVolumes:
    """Compute the bytes that calls of one function send and receive, from their arguments."""

    def __init__(self, call: Block, rows: Ints, function: Function, size: Ints) -> None:
        self.size = size
        row = find_meaning(function.name)
        self.kin = row.kin if row else ""
        self.own = np.maximum(call.bytes[rows], 0)
        self.unit = np.maximum(call.type_size[rows], 0)
        self.in_place = call.events["buffer"][rows] == IN_PLACE
        self.counts: dict[str, Ints] = {}
        for _, found in decode_columns(call.rank, call.index[rows], _COUNTS):
            for name, values in found.items():
                sums = _sum_rows(values) if isinstance(values, Ragged) else values
                if isinstance(sums, np.ndarray) and len(sums) == len(rows):
                    self.counts[name] = sums
        self.recv_unit = self._compute_receive_unit(call)

    def _compute_receive_unit(self, block: Block) -> Ints:
        """Return the size in bytes of one element that each call receives. If the call has no receive datatype, it is
        the size of its only datatype.
        """
        ids = self.counts.get("recvtype")
        if ids is None:
            return self.unit
        known, codes = encode_ids(ids)
        return np.array([size_in_bytes(block.rank.datatype(i)) or 0 for i in known], np.int64)[codes]

    def _counted_bytes(self, name: str, unit: Ints) -> Ints:
        """Return the bytes of an argument that counts elements, for each call. `unit`: the bytes of an element."""
        return np.maximum(self.counts.get(name, np.zeros(len(self.own), np.int64)), 0) * unit

    def compute_volumes(self, at_root: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Return two columns: the bytes that each call sends, and the bytes that it receives. `at_root`: a mask of the
        calls in which this rank is the root.
        """
        zero, own, size = np.zeros(len(self.own), np.int64), self.own, self.size
        each, total = (
            self._counted_bytes("recvcount", self.recv_unit),
            self._counted_bytes("recvcounts", self.recv_unit),
        )
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
            return np.where(at_root, self._counted_bytes("sendcounts", self.unit), 0), own
        if self.kin == "Allgather":
            return part, each * size
        if self.kin == "Allgatherv":
            return own, total
        if self.kin == "Alltoall":
            return part * size, each * size
        if self.kin == "Alltoallv":
            return self._counted_bytes("sendcounts", self.unit), total
        if self.kin == "Reduce_scatter":
            return total, total // np.maximum(size, 1)
        if self.kin == "Reduce_scatter_block":
            return own * size, own
        return zero, zero


def _sum_rows(values: Ragged) -> Ints:
    running: Ints = np.concatenate([[0], np.cumsum(values.values)])
    sums: Ints = running[values.starts[1:]] - running[values.starts[:-1]]
    return sums
