"""States what each function of the MPI standard means, once, family by family.

The rules are those of MPI-4.1; the sections are next to the families. Functions that no library's program calls for
what they do (the tools interface, conversions of handles) have no row but a reason, in refusals.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.mpi.meaning.local import ANYTIME, ASKED_BY_FORTRAN, FOLDED, FREES, GIVES_KNOWN, GIVES_LASTING, MAKES, TOPICS
from weft.mpi.meaning.words import (
    DATA,
    FILES,
    Access,
    Act,
    Form,
    InPlace,
    Leaves,
    Many,
    Meaning,
    Mode,
    Over,
    Share,
    Sync,
    Trait,
    Waits,
)

_MESSAGES = "point to point"
_REQUESTS = "requests"
_WINDOWS = "windows"


def all_rows() -> Iterator[Meaning]:
    """Yield the meanings of all functions of MPI, each once."""
    for family in (
        _send_meanings, _receive_meanings, _send_receive_meanings, _probe_meanings, _partition_meanings,
        _buffer_call_meanings, _request_call_meanings, _data_collective_meanings, _neighbourhood_meanings,
        _communicator_meanings,
        _process_meanings, _window_collective_meanings, _one_sided_meanings, _epoch_meanings,
        _file_collective_meanings, _file_transfer_meanings, _init_and_finalize_meanings, _local_meanings,
    ):  # fmt: skip
        yield from family()


# Point to point (3)


def _send_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the sends in their four modes (MPI-4.1, 3.4). Ready and buffered sends wait for nobody: the
    receive of the former is posted by contract, and the latter copies its message.
    """
    modes = {"Send": Mode.STANDARD, "Ssend": Mode.SYNCHRONOUS, "Bsend": Mode.BUFFERED, "Rsend": Mode.READY}
    for name, mode in modes.items():
        waits = Waits.PEER if mode in (Mode.STANDARD, Mode.SYNCHRONOUS) else Waits.NOBODY
        leaves = Leaves.AFTER_PEER if mode is Mode.SYNCHRONOUS else Leaves.FREELY
        blocking = Meaning(name, Act.SEND, _MESSAGES, kin=name, mode=mode, leaves=leaves, waits=waits,
                           sends=Share.COUNT)  # fmt: skip
        yield blocking
        yield _form_with_request(blocking, "I" + name.lower())
        yield _form_with_request(blocking, name + "_init", Form.PERSISTENT)
    yield Meaning("Psend_init", Act.SEND, _MESSAGES, Form.PERSISTENT, "Send", mode=Mode.PARTITIONED,
                  waits=Waits.NOBODY, sends=Share.EACH, makes=("REQUEST",))  # fmt: skip


def _receive_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the receives, also of those for matched messages (MPI-4.1, 3.2, 3.8)."""
    blocking = Meaning("Recv", Act.RECEIVE, _MESSAGES, kin="Recv", leaves=Leaves.AFTER_PEER, waits=Waits.PEER,
                       receives=Share.COUNT, traits=Trait.TELLS_STATUS)  # fmt: skip
    yield blocking
    yield _form_with_request(blocking, "Irecv")
    yield _form_with_request(blocking, "Recv_init", Form.PERSISTENT)
    yield _form_with_request(blocking, "Precv_init", Form.PERSISTENT)._replace(
        mode=Mode.PARTITIONED, receives=Share.EACH
    )
    matched = blocking._replace(name="Mrecv", kin="Mrecv", act=Act.MATCHED_RECEIVE, frees="MESSAGE")
    yield matched
    yield _form_with_request(matched, "Imrecv")


def _send_receive_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls that send one message and receive another (MPI-4.1, 3.10)."""
    for name in ("Sendrecv", "Sendrecv_replace"):
        blocking = Meaning(name, Act.SEND_RECEIVE, _MESSAGES, kin=name, leaves=Leaves.AFTER_PEER, waits=Waits.PEER,
                           sends=Share.COUNT, receives=Share.COUNT, traits=Trait.TELLS_STATUS)  # fmt: skip
        # Nothing nonblocking sends out of the buffer that it receives into, and would be a half of it.
        yield blocking._replace(traits=blocking.traits | Trait.IN_ONE_PIECE) if name.endswith("replace") else blocking
        yield _form_with_request(blocking, "I" + name.lower())


def _probe_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the probes (MPI-4.1, 3.8)."""
    for name, act, makes in (("Probe", Act.PROBE, ()), ("Mprobe", Act.MATCHED_PROBE, ("MESSAGE",))):
        blocking = Meaning(name, act, _MESSAGES, kin=name, leaves=Leaves.AFTER_PEER, waits=Waits.PEER, makes=makes)
        yield blocking
        yield blocking._replace(name="I" + name.lower(), form=Form.NONBLOCKING, leaves=Leaves.FREELY,
                                waits=Waits.NOBODY, traits=Trait.POLLS)  # fmt: skip


def _partition_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls that mark or ask for parts of a message (MPI-4.1, 4.2)."""
    for name in ("Pready", "Pready_range", "Pready_list"):
        yield Meaning(name, Act.PARTITION, _MESSAGES, kin=name, mode=Mode.PARTITIONED)
    yield Meaning("Parrived", Act.ASK, _MESSAGES, kin="Parrived", mode=Mode.PARTITIONED, traits=Trait.POLLS)


def _buffer_call_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls on the buffers of buffered sends (MPI-4.1, 3.6). Flush and detach wait until a
    buffer is empty.
    """
    for of in ("Buffer_", "Comm_", "Session_"):
        flush, tail = ("flush", "") if of == "Buffer_" else ("flush_buffer", "_buffer")
        yield Meaning(f"{of}attach{tail}", Act.LOCAL, _MESSAGES, kin=f"{of}attach{tail}")
        yield Meaning(f"{of}detach{tail}", Act.FLUSH, _MESSAGES, kin=f"{of}detach{tail}", waits=Waits.RECEIVERS)
        waiting = Meaning(of + flush, Act.FLUSH, _MESSAGES, kin=of + flush, waits=Waits.RECEIVERS)
        yield waiting
        yield _form_with_request(waiting, f"{of}i{flush}")


def _form_with_request(blocking: Meaning, name: str, form: Form = Form.NONBLOCKING) -> Meaning:
    """Return the form of an operation that makes a request: the call returns at once, the request waits."""
    return blocking._replace(name=name, form=form, makes=("REQUEST", *blocking.makes))


# Requests (3.7, 3.9, 12.2)


def _request_call_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls that complete, query, start and free requests (MPI-4.1, 3.7, 3.9)."""
    numbers = {"": Many.ONE, "all": Many.ALL, "any": Many.ANY, "some": Many.SOME}
    for ending, many in numbers.items():
        yield Meaning("Wait" + ending, Act.COMPLETE, _REQUESTS, kin="Wait" + ending, many=many, waits=Waits.REQUESTS)
        yield Meaning("Test" + ending, Act.COMPLETE, _REQUESTS, Form.NONBLOCKING, "Wait" + ending, many=many,
                      traits=Trait.POLLS)  # fmt: skip
        status = "Request_get_status" + ("_" + ending if ending else "")
        yield Meaning(status, Act.ASK, _REQUESTS, kin=status, many=many, traits=Trait.POLLS)
    yield Meaning("Start", Act.START, _REQUESTS, kin="Start")
    yield Meaning("Startall", Act.START, _REQUESTS, kin="Startall", many=Many.ALL)
    yield Meaning("Request_free", Act.RELEASE, _REQUESTS, kin="Request_free", frees="REQUEST")
    yield Meaning("Cancel", Act.CANCEL, _REQUESTS, kin="Cancel")
    yield Meaning("Grequest_start", Act.LOCAL, _REQUESTS, Form.NONBLOCKING, "Grequest_start", makes=("REQUEST",),
                  traits=Trait.TELLS_STATUS)  # fmt: skip
    yield Meaning("Grequest_complete", Act.LOCAL, _REQUESTS, kin="Grequest_complete")


# Collectives of data (6)

_ALL, _ROOT, _TO_ROOT = Leaves.AFTER_ALL, Leaves.AFTER_ROOT, Leaves.ROOT_AFTER_ALL
_NOTHING, _COUNT, _EACH, _LISTED, _TYPED = Share.NOTHING, Share.COUNT, Share.EACH, Share.LISTED, Share.TYPED
_NOWHERE, _SENDING = InPlace.NOWHERE, InPlace.SENDING
_DATA: tuple[tuple[str, Leaves, Share, Share, InPlace], ...] = (
    ("Barrier", _ALL, _NOTHING, _NOTHING, _NOWHERE),
    ("Allgather", _ALL, _COUNT, _EACH, _SENDING),
    ("Allgatherv", _ALL, _COUNT, _LISTED, _SENDING),
    ("Alltoall", _ALL, _EACH, _EACH, _SENDING),
    ("Alltoallv", _ALL, _LISTED, _LISTED, _SENDING),
    ("Alltoallw", _ALL, _TYPED, _TYPED, _SENDING),
    ("Bcast", _ROOT, _COUNT, _COUNT, _NOWHERE),
    ("Scatter", _ROOT, _EACH, _COUNT, InPlace.RECEIVING_AT_ROOT),
    ("Scatterv", _ROOT, _LISTED, _COUNT, InPlace.RECEIVING_AT_ROOT),
    ("Gather", _TO_ROOT, _COUNT, _EACH, InPlace.SENDING_AT_ROOT),
    ("Gatherv", _TO_ROOT, _COUNT, _LISTED, InPlace.SENDING_AT_ROOT),
)
"""Name, when a member leaves, what it sends and receives, where MPI_IN_PLACE may stand."""
_REDUCTIONS: tuple[tuple[str, Leaves, Share, Share, InPlace], ...] = (
    ("Allreduce", _ALL, _COUNT, _COUNT, _SENDING),
    ("Reduce", _TO_ROOT, _COUNT, _COUNT, InPlace.SENDING_AT_ROOT),
    ("Reduce_scatter", _ALL, _LISTED, _COUNT, _SENDING),
    ("Reduce_scatter_block", _ALL, _EACH, _COUNT, _SENDING),
    ("Scan", Leaves.AFTER_LOWER, _COUNT, _COUNT, _SENDING),
    ("Exscan", Leaves.AFTER_LOWER_ALONE, _COUNT, _COUNT, _SENDING),
)
_WAITING_FOR_ALL = frozenset((_ALL, _TO_ROOT, Leaves.AFTER_LOWER, Leaves.AFTER_LOWER_ALONE))
"""Strengths of which the standard says for whom, so that a member which has not left waits for each of those."""


def _data_collective_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the collectives that move data, in their three forms (MPI-4.1, 6)."""
    for name, leaves, sends, receives, in_place in (*_DATA, *_REDUCTIONS):
        traits = Trait.REDUCES if name in {row[0] for row in _REDUCTIONS} else Trait.NONE
        if name == "Barrier":
            traits = Trait.BOTH_GROUPS
        yield from _three_forms(Meaning(
            name, Act.COLLECTIVE, DATA, kin=name, over=Over.COMMUNICATOR, leaves=leaves, waits=Waits.EVERY,
            sends=sends, receives=receives, in_place=in_place, traits=traits,
        ))  # fmt: skip


def _neighbourhood_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the collectives along the edges of a topology (MPI-4.1, 8.6). A member may have no
    neighbours.
    """
    for name, _, sends, receives, _ in _DATA:
        if name.startswith("All"):
            yield from _three_forms(Meaning(
                "Neighbor_" + name.lower(), Act.COLLECTIVE, DATA, kin="Neighbor_" + name.lower(),
                over=Over.COMMUNICATOR, leaves=Leaves.AFTER_NEIGHBOURS, waits=Waits.SOME, sends=sends,
                receives=receives,
            ))  # fmt: skip


def _three_forms(blocking: Meaning) -> Iterator[Meaning]:
    yield blocking
    yield _form_with_request(blocking, "I" + blocking.name.lower())
    yield _form_with_request(blocking, blocking.name + "_init", Form.PERSISTENT)


# Communicators (7, 8.5) and processes (11)


def _collective(name: str, topic: str, over: Over = Over.COMMUNICATOR, **facts: object) -> Meaning:
    return Meaning(name, Act.COLLECTIVE, topic, kin=name, over=over, **{"waits": Waits.EVERY, **facts})  # type: ignore[arg-type]


def _communicator_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls that make and free communicators. All members have to take part in making one
    (MPI-4.1, 7.4.2), except for graphs that each rank gives by its adjacent edges.
    """
    names = (
        "Comm_create Comm_dup Comm_dup_with_info Comm_split Comm_split_type Cart_create Cart_sub Graph_create"
        " Dist_graph_create Intercomm_create"
    )
    topic = "communicators"
    for name in names.split():
        yield _collective(name, topic, leaves=_ALL, makes=("COMM",))
    yield _collective("Intercomm_merge", topic, leaves=_ALL, makes=("COMM",), traits=Trait.BOTH_GROUPS)
    yield _collective("Dist_graph_create_adjacent", topic, makes=("COMM",))
    for name in ("Comm_idup", "Comm_idup_with_info"):
        yield _form_with_request(_collective(name.replace("idup", "dup"), topic, leaves=_ALL, makes=("COMM",)), name)
    for name in ("Comm_create_group", "Comm_create_from_group", "Intercomm_create_from_groups"):
        yield _collective(name, topic, Over.GROUP, makes=("COMM",), traits=Trait.NAMED_FIRST)
    yield _collective("Comm_free", topic, frees="COMM")
    yield _collective("Comm_disconnect", topic, frees="COMM")
    yield _collective("Comm_set_info", topic, waits=Waits.SOME)


def _process_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls that make communicators with processes of another world (MPI-4.1, 11.8 to
    11.10)."""
    topic = "processes"
    strange = Trait.MEETS_STRANGERS | Trait.ROOTS_ARGUMENTS
    for name in ("Comm_spawn", "Comm_spawn_multiple", "Comm_accept", "Comm_connect"):
        yield _collective(name, topic, waits=Waits.SOME, makes=("COMM",), traits=strange)
    yield Meaning("Comm_join", Act.LOCAL, topic, kin="Comm_join", waits=Waits.OUTSIDE, makes=("COMM",),
                  traits=Trait.MEETS_STRANGERS)  # fmt: skip
    yield Meaning("Comm_get_parent", Act.LOCAL, topic, kin="Comm_get_parent", traits=Trait.GIVES_KNOWN)
    for name in ("Open_port", "Close_port", "Publish_name", "Unpublish_name", "Lookup_name"):
        yield Meaning(name, Act.LOCAL, topic, kin=name)


# Windows (12)


def _window_collective_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the collectives that make, free and synchronise windows (MPI-4.1, 12.2, 12.5)."""
    for name in ("Win_create", "Win_allocate", "Win_allocate_shared", "Win_create_dynamic"):
        yield _collective(name, _WINDOWS, makes=("WINDOW",))
    # "a process can return only after all have called" (12.2.5)
    yield _collective("Win_free", _WINDOWS, Over.WINDOW, leaves=_ALL, frees="WINDOW", sync=Sync.FREE)
    yield _collective("Win_fence", _WINDOWS, Over.WINDOW, leaves=Leaves.FENCE, sync=Sync.FENCE)
    yield _collective("Win_set_info", _WINDOWS, Over.WINDOW, waits=Waits.SOME)


def _one_sided_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the one-sided operations (MPI-4.1, 12.3). Accumulates are atomic and keep their order
    (MPI-4.1, 12.7).
    """
    update, both = Access.UPDATE | Access.ATOMIC, Access.UPDATE | Access.READ | Access.ATOMIC
    sorts = {
        "Put": Access.WRITE, "Get": Access.READ, "Accumulate": update, "Get_accumulate": both,
        "Fetch_and_op": both | Access.ONE_ELEMENT, "Compare_and_swap": both | Access.ONE_ELEMENT,
    }  # fmt: skip
    for name, access in sorts.items():
        plain = Meaning(name, Act.ACCESS, _WINDOWS, kin=name, waits=Waits.HOLDER, access=access)
        yield plain
        if Access.ONE_ELEMENT not in access:
            yield _form_with_request(plain, "R" + name.lower())


def _epoch_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the synchronisation calls that name their targets or their lock (MPI-4.1, 12.5.2 to
    12.5.4)."""
    waits = {
        Sync.START: Waits.POSTS, Sync.COMPLETE: Waits.POSTS, Sync.POST: Waits.NOBODY, Sync.WAIT: Waits.COMPLETES,
        Sync.TEST: Waits.NOBODY, Sync.MEMORY: Waits.NOBODY,
    }  # fmt: skip
    for sync in Sync:
        if sync not in (Sync.NONE, Sync.FENCE, Sync.FREE):
            name = "Win_sync" if sync is Sync.MEMORY else "Win_" + sync.name.lower()
            yield Meaning(name, Act.EPOCH, _WINDOWS, kin=name, waits=waits.get(sync, Waits.HOLDER), sync=sync,
                          traits=Trait.POLLS if sync is Sync.TEST else Trait.NONE)  # fmt: skip


# Files (14)

_TRANSFERS = "read_all write_all read_at_all write_at_all read_ordered write_ordered"


def _file_collective_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the collectives on a file (MPI-4.1, 14.2 to 14.4). The standard does not say who may leave
    them before others.
    """
    yield _collective("File_open", FILES, makes=("FILE",))
    yield _on_file("File_close", frees="FILE")
    for word in "set_size preallocate set_view set_info set_atomicity sync seek_shared".split():
        yield _on_file("File_" + word)
    for word in _TRANSFERS.split():
        whole = _on_file("File_" + word)
        yield whole
        yield whole._replace(name=whole.name + "_begin", form=Form.BEGIN)
        yield whole._replace(name=whole.name + "_end", form=Form.END)
        if word.endswith("_all"):
            yield _form_with_request(whole, "File_i" + word)._replace(traits=Trait.TELLS_STATUS)


def _on_file(name: str, **facts: object) -> Meaning:
    return _collective(name, FILES, Over.FILE, waits=Waits.SOME, **facts)


def _file_transfer_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the reads and writes of one process on a file (MPI-4.1, 14.4)."""
    for word in "read write read_at write_at read_shared write_shared".split():
        alone = Meaning("File_" + word, Act.TRANSFER, FILES, kin="File_" + word)
        yield alone
        yield _form_with_request(alone, "File_i" + word)._replace(traits=Trait.TELLS_STATUS)


# The rest


def _init_and_finalize_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the calls that start and end MPI and sessions (MPI-4.1, 11.2 to 11.4).

    The processes of a world synchronise in MPI_Finalize, those of a session may.
    """
    topic = "start and end"
    yield Meaning("Init", Act.BEGIN_OR_END, topic, kin="Init")
    yield Meaning("Init_thread", Act.BEGIN_OR_END, topic, kin="Init_thread")
    yield Meaning("Finalize", Act.BEGIN_OR_END, topic, kin="Finalize", over=Over.WORLD, waits=Waits.EVERY)
    yield Meaning("Session_init", Act.BEGIN_OR_END, topic, kin="Session_init", makes=("SESSION",), traits=Trait.ANYTIME)
    yield Meaning("Session_finalize", Act.BEGIN_OR_END, topic, kin="Session_finalize", over=Over.SESSION,
                  waits=Waits.SOME, frees="SESSION", traits=Trait.ANYTIME)  # fmt: skip
    yield Meaning("Abort", Act.BEGIN_OR_END, topic, kin="Abort", traits=Trait.ANYTIME)


def _local_meanings() -> Iterator[Meaning]:
    """Yield the meanings of the functions that wait for nobody, from the lists of local.py."""
    traits: dict[str, Trait] = {}
    for trait, names in (
        (Trait.ANYTIME, ANYTIME), (Trait.ASKED_BY_FORTRAN, ASKED_BY_FORTRAN), (Trait.GIVES_KNOWN, GIVES_KNOWN),
        (Trait.GIVES_LASTING, GIVES_LASTING), (Trait.FOLDED, FOLDED),
    ):  # fmt: skip
        for name in names.split():
            traits[name] = traits.get(name, Trait.NONE) | trait
    makes = {name: (class_,) for class_, names in MAKES.items() for name in names.split()}
    frees = {name: class_ for class_, name in FREES.items()}
    for topic, names in TOPICS.items():
        for name in names.split():
            yield Meaning(name, Act.LOCAL, topic, kin=name, makes=makes.get(name, ()), frees=frees.get(name, ""),
                          traits=traits.get(name, Trait.NONE))  # fmt: skip
