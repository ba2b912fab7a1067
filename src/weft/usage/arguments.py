"""Find arguments that the standard forbids, in calls that returned and in the one inside which MPI ended the run.

A call that never returned because MPI aborted inside it is in the record like any other: the recorder writes arguments
at entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evidence import Parameter, Refused
from weft.findings import Finding
from weft.kinds import Severity
from weft.mpi.meaning import Form, InPlace, base_name
from weft.terms import calls, describe
from weft.terms.argument_columns import Ints, Ragged, decode_argument, decode_columns, integer_column, sorted_distinct
from weft.terms.byte_layouts import share_bytes
from weft.terms.calls import catalogue_of, masks_of, word_set
from weft.terms.datatype_layouts import layout_of_elements
from weft.terms.datatype_sizes import gapless_sizes
from weft.terms.event_findings import FindingLimiter, call_at, cause_key, make_finding, make_left_out_note
from weft.terms.rank_progress import LEFT
from weft.terms.significant_arguments import is_significant, side_of
from weft.trace import Event, Flag, Function, Rank, Run, Trace
from weft.trace.layout import ANY_SOURCE, ANY_TAG, ID_DYNAMIC, ID_NULL, IN_PLACE, PROC_NULL, RANK_INVALID_BASE
from weft.trace.layout import ROOT as ROOT_RANK
from weft.usage.argument_scan import CheckedFunctions, find_suspect_events
from weft.usage.buffer_aliasing import find_aliased_buffers as shared_bytes
from weft.usage.file_modes import find_wrong_file_calls as wrong_files
from weft.usage.fortran_errors import find_calls_without_ierror
from weft.usage.fortran_statuses import describe_small_status, find_small_statuses
from weft.usage.freed_handles import find_freed_communicator
from weft.usage.freed_handles import find_freed_handles as stale
from weft.usage.python_temporaries import find_lost_receives
from weft.usage.resource_leaks import CLASSES

_SENDING = calls.SENDS | calls.ISENDS | calls.SEND_INITS | calls.SENDRECVS | calls.ISENDRECVS
_RECEIVING = calls.RECVS | calls.IRECVS | calls.RECV_INITS | calls.PROBES | calls.IPROBES
_TYPED = (
    _SENDING
    | calls.RECVS
    | calls.IRECVS
    | calls.RECV_INITS
    | calls.forms_of(calls.BROADCASTS | word_set("Reduce Allreduce"), Form.BLOCKING, Form.NONBLOCKING)
)
_MOVING = _TYPED | calls.DATA_COLLECTIVES | calls.ICOLLECTIVES | calls.RMA | calls.REQUEST_RMA
_ROOTED_REDUCING = calls.forms_of(calls.TO_ROOT & calls.REDUCTIONS)
_REDUCING = calls.forms_of(calls.REDUCTIONS, Form.BLOCKING, Form.NONBLOCKING)
_ON_WINDOWS = calls.RMA | calls.REQUEST_RMA | calls.LOCKS | calls.UNLOCKS | calls.FLUSHES | calls.WINDOW_COLLECTIVES
_ALIASED = (
    calls.data_collectives(lambda m: m.in_place in (InPlace.SENDING, InPlace.SENDING_AT_ROOT))
    - word_set("Alltoallw Gatherv")
) | word_set("Sendrecv")
"""Calls with two buffers, each of one address and one datatype."""
_ON_REQUESTS = word_set("Start") | calls.CANCELS | calls.RELEASES
_SORTS = CheckedFunctions(_SENDING, _RECEIVING, _TYPED, _REDUCING, _ON_WINDOWS | _ON_REQUESTS, _ALIASED)
_MOST_PACKED = 1000
"""Calls that pack near the end of their buffer which are looked at."""
_UNDEFINED_COLOUR = -32766
_TO_ROOT = calls.forms_of(calls.TO_ROOT, Form.BLOCKING, Form.NONBLOCKING)
_MAY_FAIL_OTHERWISE = calls.RECVS | calls.WAITS | calls.MRECVS | calls.SENDRECVS | {"Abort", "Finalize"}
"""Where MPI ends a process for what came in a message, too."""
_SURE_TAG = 32767
"""The largest tag that every MPI library takes (MPI-4.1, 9.1.2)."""
_LARGE_TAG = (
    f"; a library takes tags up to its attribute MPI_TAG_UB, of which the standard promises no more than {_SURE_TAG:,}"
)
_OTHER_REASONS = (LEFT, "Shared memory error")
"""What MPICH ends a process for inside any call, whatever its arguments: the end of the rank tells its words."""

# Error classes by their number in the library (they are not normalised in the record), to the kind of parameter.
_FIRST = ("buffer", "count", "datatype", "tag", "communicator", "rank")
_THEN = ("root", "group", "operation", "topology", "dimensions", "argument")
_MPICH = dict(enumerate(_FIRST + _THEN, 1)) | {19: "request", 28: "info", 48: "attribute key"}
_OPEN_MPI = dict(enumerate((*_FIRST, "request", *_THEN), 1)) | {34: "info", 36: "attribute key"}


def find(trace: Trace) -> list[Finding]:
    """Find the forbidden arguments of every rank, and the calls that MPI refused for another reason."""
    found: list[Finding] = []
    for rank in trace.own:
        if len(rank):
            found += _ArgumentChecks(rank).run_checks()
    return found


class _ArgumentChecks:
    """The checks of the arguments of one rank's calls, function by function."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.events = rank.events
        self.functions = catalogue_of(rank).function
        self.suspects = find_suspect_events(rank, _SORTS)
        self.masks = masks_of(rank.trace.functions)
        self._met: dict[tuple[int, ...], bool | None] = {}
        """By datatypes and counts of two buffers at one address whether they have a byte in common."""
        self.told: set[int] = set()
        self.left_out = False
        self.some = FindingLimiter()

    def run_checks(self) -> Iterator[Finding]:
        """Run every check and yield its findings, at most MAX_OF_ONE_SITE for each call site and parameter."""
        checks: tuple[Callable[[], Iterator[Finding]], ...] = (
            self._check_counts, self._check_ranks, self._check_tags, self._check_null_handles,
            self._check_uncommitted_datatypes, self._check_operations, self._check_negative_arguments,
            self._check_packing, self._check_same_buffer, self._check_shared_bytes_and_freed_handles,
            self._check_in_place, self._check_split_colors, self._check_group_ranks, self._check_file_modes,
            self._check_fortran, self._check_lost_receives, self._check_error_classes,
            self._check_aborted_call,
        )  # fmt: skip
        for check in checks:
            yield from check()

    def _events_calling(self, names: frozenset[str]) -> Ints:
        return self.masks.where(self.rank, names)

    def _make_findings(
        self, which: NDArray[Any], parameter: str, why: Callable[[Event], str], severity: Severity = "error",
        *, is_certain: bool = True,
    ) -> Iterator[Finding]:  # fmt: skip
        """Yield an error, or another `severity`, for each of the events `which` that has no finding yet.

        `parameter`: the name of the wrong parameter. `why(event)`: what is wrong, worded as an object of `gives
        MPI_Send`.
        """
        for index in which.tolist():
            if index in self.told:
                continue
            event = self.rank.event(index)
            if not self.some.more((event.site_id, parameter)):
                continue
            self.told.add(index)
            yield make_finding(
                "invalid-argument",
                f"rank {self.rank.index} gives {_called_name(event)} {why(event)}{describe.site_suffix(event)}",
                [event],
                severity=severity,
                certainty="certain" if is_certain else "possible",
                evidence=Parameter(parameter=parameter),
                cause=f"{parameter} {cause_key(event)}",
            )

    def _suspects_by_function(self, field: str) -> Iterator[tuple[Function, Ints]]:
        """Yield (function, indices of its suspect events) for each function one of whose input arguments is in `field`,
        a field of the event's record such as "count".
        """
        for function, rows in self._group_by_function(self.suspects):
            if field in function.slot and function.slot[field].direction != "out":
                yield function, rows

    def _suspects_calling(self, names: frozenset[str]) -> Ints:
        rows: Ints = self.suspects[self.masks.table(names)[self.functions[self.suspects]]]
        return rows

    def _check_counts(self) -> Iterator[Finding]:
        """Find negative counts."""
        for function, which in self._suspects_by_function("count"):
            name = function.slot["count"].name
            bad = self._where_significant(which[self.events["count"][which] < 0], name)
            yield from self._make_findings(bad, name, lambda e: f"a negative {_parameter_name(e, 'count')}, {e.count},")

    def _where_significant(self, which: Ints, parameter: str) -> Ints:
        """Return the events, all of one function, in which a parameter is significant."""
        rows: Ints = which[is_significant(self.rank, which, parameter)]
        return rows

    def _group_by_function(self, which: Ints) -> Iterator[tuple[Function, Ints]]:
        """Yield (function, event indices) for each function that the events `which` call."""
        functions = self.functions[which]
        for id in sorted_distinct(functions).tolist():
            yield self.rank.trace.functions[id], which[functions == id]

    def _select_significant_datatypes(self, which: Ints) -> Ints:
        """Return those of the events `which` whose datatype MPI uses: the argument is significant at this rank, and its
        count is not 0.
        """
        parts = [which[:0]]
        for function, rows in self._group_by_function(which):
            if (typed := function.slot.get("datatype")) is None:  # functions.json says otherwise than the standard
                continue
            name = typed.name
            if "count" in function.slot and side_of(function.slot["count"].name) is side_of(name):
                parts.append(self._where_significant(rows[self.events["count"][rows] != 0], name))
            else:
                parts.append(self._where_significant(rows, name))
        return np.sort(np.concatenate(parts))

    def _check_ranks(self) -> Iterator[Finding]:
        """Find calls whose source, destination, root or target rank does not exist in their communicator or window."""
        for function, which in self._suspects_by_function("peer"):
            peer = self.events["peer"][which].astype(np.int64)
            name = function.slot["peer"].name
            low = -1 if name == "source" else 0
            size = self._communicator_sizes(function, which)
            allowed = (peer >= low) & (peer < size) | (size < 0)
            if name != "root":
                allowed |= peer == PROC_NULL
            else:
                inter = self._are_on_intercommunicator(which)
                allowed |= inter & ((peer == PROC_NULL) | (peer == ROOT_RANK))
            # A failed poll and a wait keep what they were given or told: only a probe's source was given.
            yield from self._make_findings(which[~allowed], name, self._describe_rank)
        yield from self._check_receive_halves()

    def _describe_rank(self, event: Event) -> str:
        """Describe the wrong rank of a call: `the dest 7 in a communicator of 4`."""
        name = _parameter_name(event, "peer")
        size = int(self._communicator_sizes(_function(event), np.array([event.index]))[0])
        given = "MPI_ANY_SOURCE" if event.peer == ANY_SOURCE and name != "source" else str(event.peer)
        return f"the {name} {given} in a communicator of {size} ranks"

    def _communicator_sizes(self, function: Function, which: Ints) -> Ints:
        """Return for each of the events how many ranks it can name as its peer: the size of its communicator (of the
        remote group of an intercommunicator), or of its window's. -1 if that is unknown. `function`: what all of the
        events call.
        """
        sizes = np.full(len(which), -1, np.int64)
        ids = self.events["comm"][which].astype(np.int64)
        if "comm" not in function.slot:
            objects = self.events["object"][which].astype(np.int64)
            if base_name(function.name) in calls.REQUEST_RMA:  # there the slot's object is the request
                for events, found in decode_columns(self.rank, which, frozenset(("win",))):
                    objects[np.searchsorted(which, events)] = integer_column(found, "win")
            windows = sorted_distinct(objects)
            ids = np.array([self._window_comm(int(i)) for i in windows], np.int64)[np.searchsorted(windows, objects)]
        for id in sorted_distinct(ids).tolist():
            comm = self.rank.comm(id)
            if comm is not None:
                sizes[ids == id] = len(comm.peers(self.rank.index))
        return sizes

    def _window_comm(self, window: int) -> int:
        definition = self.rank.definitions.window(window)
        return definition.comm if definition else 0

    def _are_on_intercommunicator(self, which: Ints) -> NDArray[np.bool_]:
        """Return a mask of the events `which` whose communicator is an intercommunicator."""
        ids = self.events["comm"][which]
        comms = sorted_distinct(ids)
        inter = np.array([bool(c and c.inter) for c in map(self.rank.comm, comms.tolist())], np.bool_)
        found: NDArray[np.bool_] = inter[np.searchsorted(comms, ids)]
        return found

    def _check_receive_halves(self) -> Iterator[Finding]:
        """Find calls of MPI_Sendrecv and its kin with a wrong source or tag for the message that they receive."""
        which = self._events_calling(calls.SENDRECVS | calls.ISENDRECVS)
        for events, found in decode_columns(self.rank, which, frozenset(("source", "recvtag"))):
            source, tag = found.get("source"), found.get("recvtag")
            if not isinstance(source, np.ndarray) or not isinstance(tag, np.ndarray):
                continue
            size = self._communicator_sizes(self.rank.trace.functions[int(self.events["function"][events[0]])], events)
            source = np.where(source < RANK_INVALID_BASE, source - RANK_INVALID_BASE, source)
            good = (source >= PROC_NULL) & (source < size) | (size < 0)
            yield from self._make_findings(
                events[~good], "source", lambda e: f"the source {e.args['source']}, which is not a rank,"
            )
            bad = (tag < ANY_TAG) & (source != PROC_NULL)
            yield from self._make_findings(
                events[bad], "recvtag", lambda e: f"the negative recvtag {e.args['recvtag']}"
            )

    def _check_tags(self) -> Iterator[Finding]:
        """Find negative tags, and MPI_ANY_TAG where only a receive may name it."""
        sends = self._suspects_calling(_SENDING)
        tag, peer = self.events["tag"][sends], self.events["peer"][sends]
        yield from self._make_findings(sends[(tag < 0) & (peer != PROC_NULL)], "tag", self._describe_tag)
        receives = self._suspects_calling(_RECEIVING)
        tag, peer = self.events["tag"][receives], self.events["peer"][receives]
        yield from self._make_findings(receives[(tag < ANY_TAG) & (peer != PROC_NULL)], "tag", self._describe_tag)

    def _describe_tag(self, event: Event) -> str:
        if event.tag == ANY_TAG:
            return "the tag MPI_ANY_TAG, which only a receive may name,"
        return f"the negative {_parameter_name(event, 'tag')} {event.tag}"

    def _check_null_handles(self) -> Iterator[Finding]:
        """Find null communicators, datatypes, operations, windows and requests."""
        for function, which in self._suspects_by_function("comm"):
            bad = which[self.events["comm"][which] == ID_NULL]
            yield from self._make_findings(bad, function.slot["comm"].name, self._describe_null_communicator)
        typed = self._suspects_calling(_TYPED)
        bad = self._select_significant_datatypes(typed[self.events["datatype"][typed] == ID_NULL])
        yield from self._make_findings(bad, "datatype", lambda e: "MPI_DATATYPE_NULL")
        freed = self._suspects_calling(word_set("Type_free Type_commit"))
        yield from self._make_findings(
            freed[self.events["datatype"][freed] == ID_NULL], "datatype", lambda e: "MPI_DATATYPE_NULL"
        )
        reducing = self._suspects_calling(_REDUCING)
        yield from self._make_findings(reducing[self.events["tag"][reducing] == ID_NULL], "op", lambda e: "MPI_OP_NULL")
        windows = self._suspects_calling(_ON_WINDOWS - calls.REQUEST_RMA)
        yield from self._make_findings(
            windows[self.events["object"][windows] == ID_NULL], "win", lambda e: "MPI_WIN_NULL"
        )
        request = self._suspects_calling(_ON_REQUESTS)
        yield from self._make_findings(
            request[self.events["object"][request] == ID_NULL], "request", lambda e: "MPI_REQUEST_NULL"
        )

    def _describe_null_communicator(self, event: Event) -> str:
        """Describe MPI_COMM_NULL as an argument of a call, with the line that gave it to the rank if there is only
        one.
        """
        makers = self._events_calling(CLASSES[0].makers)
        makers = makers[(makers < event.index) & (self.events["object"][makers] == ID_NULL)]
        closed = (self.events["flags"][makers] & Flag.CLOSED != 0) & (self.events["error"][makers] == 0)
        givers = {one.site_id: one for one in map(self.rank.event, makers[closed][:64].tolist())}
        if len(givers) != 1:
            return "MPI_COMM_NULL"
        return f"MPI_COMM_NULL, which {call_at(next(iter(givers.values())))} returned to it,"

    def _check_uncommitted_datatypes(self) -> Iterator[Finding]:
        """Find calls that communicate with a derived datatype which the rank has made but not yet committed."""
        makers = self._events_calling(CLASSES[1].makers - {"Type_dup"})
        if not len(makers):
            return
        moving = self._events_calling(_MOVING)
        used = self.events["datatype"][moving].astype(np.int64)
        made = sorted_distinct(self.events["object"][makers].astype(np.int64))
        suspects = np.isin(used, made) & (used >= ID_DYNAMIC)
        if not suspects.any():
            return
        commits = self._events_calling(word_set("Type_commit"))
        first: dict[int, int] = {}
        for index, id in zip(commits.tolist(), self.events["datatype"][commits].tolist(), strict=True):
            first.setdefault(id, index)
        rows = [
            i for i, t in zip(moving[suspects].tolist(), used[suspects].tolist(), strict=True) if first.get(t, i) >= i
        ]
        bad = self._select_significant_datatypes(np.array(rows, np.int64))
        yield from self._make_findings(bad, "datatype", lambda e: "a datatype that was not committed")

    def _check_operations(self) -> Iterator[Finding]:
        """Find predefined operations on types for which the standard defines none (MPI-4.1, 6.9.2 and 6.9.4). It is a
        warning if this MPI took the operation.

        A rooted reduction on an intercommunicator is left out at a process that is in the root's group but is not the
        root: its arguments have no meaning (MPI-4.1, 6.2.3).
        """
        which = self._events_calling(_REDUCING)
        rooted = self.masks.table(_ROOTED_REDUCING)[self.functions[which]]
        which = self._select_significant_datatypes(which[~rooted | (self.events["peer"][which] != PROC_NULL)])
        if not len(which):
            return
        op, datatype = self.events["tag"][which], self.events["datatype"][which]
        known = (op >= 0) & (op < ID_DYNAMIC) & (datatype < ID_DYNAMIC)
        pairs = sorted_distinct(op[known].astype(np.int64) * ID_DYNAMIC + datatype[known])
        for o, t in [divmod(pair, ID_DYNAMIC) for pair in pairs.tolist()]:
            found = self.rank.datatype(t)
            name = self.rank.object_name("OP", o).removeprefix("MPI_")
            if found is not None and found.is_predefined and not _is_operation_defined(name, found.name):
                bad = which[(op == o) & (datatype == t)]
                taken = (self.events["error"][bad] == 0) & ((self.events["flags"][bad] & Flag.CLOSED) != 0)
                words = f"the operation MPI_{name} on {found.name}"
                yield from self._make_findings(bad[~taken], "op", _constant_text(words))
                left_out = f"{words}, which the standard does not allow, though this MPI accepts it,"
                yield from self._make_findings(bad[taken], "op", _constant_text(left_out), severity="warning")

    def _check_negative_arguments(self) -> Iterator[Finding]:
        """Find negative values of parameters that the standard declares as nonnegative, among the arguments that have
        no fixed place in an event's record (its tail).
        """
        for id in catalogue_of(self.rank).present:
            function = self.rank.trace.functions[id]
            names = [p.name for p in function.tail_in if p.kind.endswith("_NNI") and p.type == "int"]
            if not names:
                continue
            which = self.masks.where(self.rank, frozenset((self.masks.name(id),)))
            which = which[self.functions[which] == id]
            for events, found in decode_columns(self.rank, which, frozenset(names)):
                for name, values in found.items():
                    if isinstance(values, Ragged):
                        bad = sorted_distinct(values.owners[values.values < 0])
                    elif isinstance(values, np.ndarray):
                        bad = np.flatnonzero(values < 0)
                    else:
                        continue
                    yield from self._make_findings(
                        self._where_significant(events[bad], name), name, _negative_text(name)
                    )

    def _check_packing(self) -> Iterator[Finding]:
        """Find calls that pack or unpack more than the buffer has after the position (MPI-4.1, 5.2)."""
        for name, count, room in (("Pack", "incount", "outsize"), ("Unpack", "outcount", "insize")):
            which = self._events_calling(word_set(name))
            if len(which) and len(sorted_distinct(self.events["function"][which])) == 1:  # not beside large counts
                many, size, at = (decode_argument(self.rank, which, each) for each in (count, room, "position"))
                bytes_ = many * gapless_sizes(self.rank, decode_argument(self.rank, which, "datatype"))
                # What a column has of the position is where it came to: that at the entry is in the call's arguments.
                failed = self.events["error"][which] != 0
                near = np.flatnonzero((bytes_ > 0) & (failed | (at + bytes_ > size)))[:_MOST_PACKED]
                begun = [int(self.rank.event(int(index)).args.get("position", 0)) for index in which[near]]
                bad = near[np.array(begun, np.int64) + bytes_[near] > size[near]]
                yield from self._make_findings(which[bad], room, _too_small_text(room))

    def _check_same_buffer(self) -> Iterator[Finding]:
        """Find calls that use the same memory as send and receive buffer without MPI_IN_PLACE (MPI-4.1, 6.1)."""
        which = self._suspects_calling(_ALIASED)
        slot = self.events[which]
        which = which[(slot["buffer"] != IN_PLACE) & (slot["buffer"] != 0) & (slot["count"] > 0)]
        for events, found in decode_columns(self.rank, which, frozenset(("recvbuf",))):
            target = found.get("recvbuf")
            if not isinstance(target, np.ndarray):
                continue
            same = target == self.events["buffer"][events].astype(np.int64)
            same &= self._are_both_significant(events)
            met = {event: self._do_buffers_overlap(event) for event in events[same].tolist()}
            for event in [event for event, meets in met.items() if meets is None][:1]:
                yield from self._note_undecided_overlap(event)
            same[same] = [bool(meets) for meets in met.values()]
            yield from self._make_findings(
                events[same], "recvbuf", lambda e: "one buffer to send from and to receive into"
            )

    def _check_shared_bytes_and_freed_handles(self) -> Iterator[Finding]:
        """Find buffers that share bytes with other buffers of the same call or write a byte twice, and handles of
        objects that were freed before.
        """
        for index, parameter, why, is_known in shared_bytes(self.rank):
            if is_known:
                yield from self._make_findings(np.array([index]), parameter, _constant_text(why))
            else:
                yield from self._note_undecided_overlap(index)
        for index, parameter, why in stale(self.rank):
            yield from self._make_findings(np.array([index]), parameter, _constant_text(why))
        if (freed := find_freed_communicator(self.rank)) is not None:
            yield from self._make_findings(np.array([freed[0]]), freed[1], _constant_text(freed[2]))

    def _note_undecided_overlap(self, index: int) -> Iterator[Finding]:
        """Yield a note about the event `index`: its datatypes have too many blocks to tell whether its buffers share
        bytes. Only the first such event of the rank gets a note.
        """
        if not self.left_out:
            self.left_out = True
            event = self.rank.event(index)
            yield make_left_out_note(
                "invalid-argument", event, "it writes bytes more than once, or those that it sends,"
            )

    def _do_buffers_overlap(self, index: int) -> bool | None:
        """Return whether a call with one address for its send buffer and its receive buffer sends a byte that it also
        receives; None if that is not decided. `index`: the event of the call.
        """
        given = self.rank.event(index).args
        names = ("sendtype", "sendcount", "recvtype", "recvcount")
        found = tuple(given[name] if isinstance(given.get(name), int) else -1 for name in names)
        if found not in self._met:
            self._met[found] = self._do_datatypes_overlap(*found)
        return self._met[found]

    def _do_datatypes_overlap(
        self, sent_type: int, sent_count: int, received_type: int, received_count: int
    ) -> bool | None:
        """Return whether elements of two datatypes that begin at one address share a byte. True also if a type or a
        count is unknown; None if the datatypes have too many blocks to decide.

        The types are datatype ids, the counts are numbers of elements; -1 is an unknown one.
        """
        types = [self.rank.datatype(id) for id in (sent_type, received_type) if id >= 0]
        if any(found is not None and found.size == 0 for found in types):
            return False
        if sent_type == received_type or -1 in (sent_type, sent_count, received_type, received_count):
            return True
        sent, received = (
            layout_of_elements(self.rank.datatype(sent_type), sent_count),
            layout_of_elements(self.rank.datatype(received_type), received_count),
        )
        return sent is None or received is None or share_bytes(sent, received)

    def _check_in_place(self) -> Iterator[Finding]:
        """Find processes that are not the root and give MPI_IN_PLACE as what they send to it (MPI-4.1, 6.5 and
        6.9.1).
        """
        which = self._events_calling(_TO_ROOT)
        which = which[(self.events["buffer"][which] == IN_PLACE) & (self.events["peer"][which] >= 0)]
        ids = self.events["comm"][which]
        wrong = np.zeros(len(which), np.bool_)
        for id in sorted_distinct(ids).tolist():
            comm = self.rank.comm(id)
            if comm is not None and not comm.inter:
                mine = ids == id
                wrong[mine] = self.events["peer"][which[mine]] != comm.rank_of(self.rank.index)
        yield from self._make_findings(
            which[wrong], "sendbuf", lambda e: "MPI_IN_PLACE to send from, though it is not the root,"
        )

    def _are_both_significant(self, events: Ints) -> NDArray[np.bool_]:
        """Return a mask of the events whose send buffer and receive buffer MPI both uses, and which receive at least
        one element.
        """
        result = is_significant(self.rank, events, "sendbuf") & is_significant(self.rank, events, "recvbuf")
        for found, values in decode_columns(self.rank, events, frozenset(("recvcount",))):
            if "recvcount" in values:
                result[np.searchsorted(events, found)] &= integer_column(values, "recvcount") > 0
        return result

    def _check_split_colors(self) -> Iterator[Finding]:
        """Find negative colors of MPI_Comm_split other than MPI_UNDEFINED."""
        for events, found in decode_columns(
            self.rank, self._events_calling(word_set("Comm_split")), frozenset(("color",))
        ):
            colour = found.get("color")
            if isinstance(colour, np.ndarray):
                bad = (colour < 0) & (colour != _UNDEFINED_COLOUR)
                yield from self._make_findings(events[bad], "color", lambda e: f"the negative color {e.args['color']}")

    def _check_group_ranks(self) -> Iterator[Finding]:
        """Find calls of MPI_Group_incl and MPI_Group_excl that name a rank twice (MPI-4.1, 7.3.2)."""
        for events, found in decode_columns(
            self.rank, self._events_calling(word_set("Group_incl Group_excl")), frozenset(("ranks",))
        ):
            ranks = found.get("ranks")
            if isinstance(ranks, Ragged) and len(ranks.values):
                keys = ranks.owners.astype(np.int64) << 32 | ranks.values.astype(np.int64) & 0xFFFFFFFF
                unique, times = np.unique(keys, return_counts=True)
                bad = events[sorted_distinct(unique[times > 1] >> 32)]
                yield from self._make_findings(bad, "ranks", lambda e: f"a rank twice in ranks, {e.args['ranks']},")

    def _check_file_modes(self) -> Iterator[Finding]:
        """Find calls on files that the mode of the file does not allow, and invalid modes."""
        for index, parameter, why in wrong_files(self.rank):
            yield from self._make_findings(np.array([index]), parameter, _constant_text(why))

    def _check_fortran(self) -> Iterator[Finding]:
        """Find calls of Fortran without their last argument, or with a status that is too small."""
        yield from self._make_findings(
            np.array(list(find_calls_without_ierror(self.rank)), np.int64), "ierror",
            _constant_text("no `ierror`, so that it writes the error code to whatever address it finds there,"),
        )  # fmt: skip
        for small in find_small_statuses(self.rank):
            yield from self._make_findings(
                np.array([small.index]), small.parameter, _constant_text(describe_small_status(small))
            )

    def _check_lost_receives(self) -> Iterator[Finding]:
        """Find calls of Python that receive into a temporary array."""
        for index, parameter, text in find_lost_receives(self.rank):
            why = (
                f"a temporary copy, `{text}`, to receive into, so that what it receives is lost: receive into an array "
                "with a name, and assign from that,"
            )
            yield from self._make_findings(
                np.array([index]), parameter, _constant_text(why), severity="warning", is_certain=False
            )

    def _check_error_classes(self) -> Iterator[Finding]:
        """Find calls that returned an error whose class names a kind of argument, such as MPI_ERR_COUNT."""
        which = np.flatnonzero(self.events["error"] != 0) if catalogue_of(self.rank).failed else np.zeros(0, np.int64)
        library = str(self.rank.trace.functions.mpi or self.rank.trace.run.get("mpi") or "").lower()
        table = _OPEN_MPI if "open mpi" in library or "openmpi" in library else _MPICH
        for index in which.tolist():
            noun = table.get(int(self.events["error"][index]))
            if noun:
                yield from self._make_findings(
                    np.array([index]), noun, _constant_text(f"a wrong {noun}: it returned an error of class {noun},")
                )

    def _check_aborted_call(self) -> Iterator[Finding]:
        """Report the call that MPI ended the process in, unless the process may have ended for another reason than the
        call's arguments. The finding is certain if MPI's own message names an invalid argument.
        """
        last = len(self.events) - 1
        if self.rank.state != "exited" or last in self.told:
            return
        event = self.rank.event(last)
        name = base_name(event.function.name)
        words = _mpich_error_reason(self.rank.definitions.ended or "")
        named = words.startswith("Invalid") or "nvalid " in words
        elsewhere = name in _MAY_FAIL_OTHERWISE or any(reason in words for reason in _OTHER_REASONS)
        if not event.open or (not named and (elsewhere or _was_run_ended_from_outside(self.rank.trace))):
            return
        yield make_finding(
            "invalid-argument",
            f"MPI ended rank {self.rank.index} inside {call_at(event)}: "
            + (words or "an argument, or the object that it names, was probably invalid")
            + (_LARGE_TAG if named and "tag" in words and event.tag > _SURE_TAG else ""),
            [event],
            certainty="certain" if named else "possible",
            evidence=Refused(inside=event.function.name, said=words),
            cause=cause_key(event),
        )


def _was_run_ended_from_outside(trace: Run) -> bool:
    """Return whether the run was ended by Weft or a signal, or lost a host. MPI then also ends ranks that lost their
    partners, and the calls that they are in are not to blame.
    """
    return trace.run.get("ended") in ("deadlock", "killed", "interrupted") or bool(trace.run.get("lost"))


def _mpich_error_reason(text: str) -> str:
    """Return the reason at the end of MPICH's error stack, whose lines are `function(line)....: reason`."""
    lines = re.findall(r"^\w+\(\d+\)\.*: (.+)$", text, re.MULTILINE)
    return lines[-1].strip() if lines else ""


def _function(event: Event) -> Function:
    return event.function


def _called_name(event: Event) -> str:
    """Return the name of the function that a call is of; in Python without the `_c` that mpi4py may have chosen."""
    return event.function.base if (event.site.file or "").endswith(".py") else event.function.name


def _constant_text(text: str) -> Callable[[Event], str]:
    return lambda event: text


def _negative_text(name: str) -> Callable[[Event], str]:
    return lambda event: f"a negative {name}, {event.args.get(name)},"


def _too_small_text(room: str) -> Callable[[Event], str]:
    return lambda event: (
        f"an {room} of {event.args[room]:,}, too small for what follows position {event.args['position']:,},"
    )


def _parameter_name(event: Event, place: str) -> str:
    parameter = event.function.slot.get(place)
    return parameter.name if parameter else place


_LOGICALS = frozenset("MPI_LOGICAL MPI_C_BOOL MPI_CXX_BOOL MPI_LOGICAL1 MPI_LOGICAL2 MPI_LOGICAL4 MPI_LOGICAL8".split())
_PAIRS = frozenset(
    "MPI_FLOAT_INT MPI_DOUBLE_INT MPI_LONG_INT MPI_2INT MPI_SHORT_INT MPI_LONG_DOUBLE_INT MPI_2REAL"
    " MPI_2DOUBLE_PRECISION MPI_2INTEGER".split()
)
_FLOATS = frozenset("MPI_FLOAT MPI_DOUBLE MPI_LONG_DOUBLE MPI_REAL MPI_DOUBLE_PRECISION MPI_REAL4 MPI_REAL8".split())


def _is_operation_defined(op: str, datatype: str) -> bool:
    """Return whether the standard defines a predefined operation (without its prefix: `SUM`) on a predefined type. True
    also where the standard is unclear.
    """
    complex_ = "COMPLEX" in datatype
    if op in ("MINLOC", "MAXLOC"):
        return datatype in _PAIRS
    if datatype in _PAIRS:
        return op in ("REPLACE", "NO_OP")
    if op in ("MAX", "MIN"):
        return not complex_ and datatype not in _LOGICALS and datatype not in ("MPI_CHAR", "MPI_CHARACTER", "MPI_WCHAR")
    if op in ("BAND", "BOR", "BXOR", "LAND", "LOR", "LXOR"):
        return not complex_ and datatype not in _FLOATS
    if op in ("SUM", "PROD"):
        return datatype not in ("MPI_BYTE", "MPI_CHARACTER", "MPI_WCHAR", "MPI_LOGICAL")
    return True
