"""Answer the generator's questions about a function, from its row in weft.mpi.meaning."""

from __future__ import annotations

from weft.mpi import meaning
from weft.mpi.meaning import Act, Form, Leaves, Meaning, Mode, Sync, Trait
from weft.mpi.meaning.words import FILES
from weft.mpi.table import Function, Parameter


def promises_communicator(f: Function) -> bool:
    """Return whether the call makes a communicator that exists only when its request completes."""
    made = [p for p in f.parameters if p.handle in ("COMM", "REQUEST") and p.direction == "out"]
    return len(made) == 2


def meaning_of(f: Function) -> Meaning:
    """Return the function's row in the table of meanings. KeyError for a function that is passed through."""
    return meaning.all_meanings()[meaning.base_name(f.name)]


def choose_buffer_watch(f: Function) -> tuple[str, str | None, str, str]:
    """Return how the recorder watches the buffer of a call that makes a request: a C constant such as WATCH_SEND, and
    the names of the parameters for buffer, count and datatype. ("NO_WATCH", None, "", "") if it does not watch it.
    """
    buffer, row = f.parameter("buffer"), meaning_of(f)
    if buffer is None or row.mode is Mode.PARTITIONED:
        return "NO_WATCH", None, "", ""
    if row.act is Act.SEND:
        return "WATCH_SEND", buffer.name, "count", "datatype"
    if row.act is Act.RECEIVE:
        return "WATCH_RECEIVE", buffer.name, "count", "datatype"
    if row.form is not Form.NONBLOCKING or not row.uses_its_count:
        return "NO_WATCH", None, "", ""
    sends = "sendcount" in {q.name for q in f.parameters}
    count, datatype = ("sendcount", "sendtype") if sends else ("count", "datatype")
    return "WATCH_AT_ROOT" if row.leaves is Leaves.AFTER_ROOT else "WATCH_SEND", buffer.name, count, datatype


def is_persistent(f: Function) -> bool:
    """Return whether the request that the call makes is started by other calls."""
    return meaning_of(f).form is Form.PERSISTENT


def status_fields(f: Function) -> str:
    """Return the C constant that says which fields of the status are set by a call, or by the request that it makes."""
    row = meaning_of(f)
    if row.topic == FILES:
        return "WEFT_STATUS_COUNT"
    if Trait.TELLS_STATUS in row.traits or row.act in (Act.PROBE, Act.MATCHED_PROBE):
        return "WEFT_STATUS_MESSAGE"
    return "WEFT_STATUS_CANCELLED" if row.act is Act.SEND else "WEFT_STATUS_NOTHING"


def sends_and_receives(f: Function) -> bool:
    """Return whether the call sends one message and receives another."""
    return meaning_of(f).act is Act.SEND_RECEIVE


def is_made_by_fortran_bindings(f: Function) -> bool:
    """Return whether Fortran bindings make the call on their own account."""
    return Trait.ASKED_BY_FORTRAN in meaning_of(f).traits


def has_posting_order(f: Function) -> bool:
    """Return whether the call's place among those of other threads decides what is matched."""
    return meaning_of(f).posts


def gives_known_handle(f: Function) -> bool:
    """Return whether the handle that comes out of the call may name an object that exists already."""
    return Trait.GIVES_KNOWN in meaning_of(f).traits


def frees_object(f: Function) -> bool:
    """Return whether the call frees the object of its handle."""
    return bool(meaning_of(f).frees)


def is_probe(f: Function) -> bool:
    """Return whether the call looks for a message."""
    return meaning_of(f).probes


def is_polled(f: Function) -> bool:
    """Return whether programs call it over and over, until its answer is yes."""
    return meaning_of(f).polls


def is_folded(f: Function) -> bool:
    """Return whether equal calls in a row from one place are one event."""
    return Trait.FOLDED in meaning_of(f).traits


def may_complete(f: Function) -> bool:
    """Return whether the call asks whether something is done, or completes requests."""
    return is_polled(f) or find_completed_requests(f) is not None


LOCAL_ALONE = (Sync.FLUSH_LOCAL, Sync.FLUSH_LOCAL_ALL)


_COMPLETING = (
    Sync.FENCE, Sync.COMPLETE, Sync.UNLOCK, Sync.UNLOCK_ALL, Sync.FLUSH, Sync.FLUSH_ALL, *LOCAL_ALONE
)  # fmt: skip


def find_completed_target(f: Function) -> str | None:
    """Return the parameter with the rank whose operations a call on a window completes; "-1" if it completes those of
    all targets, None if of none.
    """
    if meaning_of(f).sync not in _COMPLETING:
        return None
    return "rank" if any(p.name == "rank" for p in f.parameters) else "-1"


def find_completed_requests(f: Function) -> Parameter | None:
    """Return the parameter with the request, or array of requests, that the call may complete; None if it completes
    none.
    """
    if meaning_of(f).act not in (Act.COMPLETE, Act.ASK):
        return None
    return next((p for p in f.parameters if p.handle == "REQUEST" and meaning_of(f).mode is not Mode.PARTITIONED), None)
