"""Generate the C statements after a call that returned: what it made, freed, posted, completed and did to windows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from weft.mpi.expressions import id_expression
from weft.mpi.function_facts import (
    LOCAL_ALONE,
    choose_buffer_watch,
    find_completed_target,
    frees_object,
    gives_known_handle,
    is_persistent,
    meaning_of,
    promises_communicator,
    sends_and_receives,
    status_fields,
)
from weft.mpi.meaning import Access, Act, Form, Many, Meaning, Sync
from weft.mpi.table import Function, Parameter

_WINDOW_FLAVORS = {"create": 0, "allocate": 1, "create_dynamic": 2, "allocate_shared": 3}


def _object_statements(f: Function, p: Parameter) -> Iterator[str]:
    """Yield C statements that run after a successful call and enter the object of its output handle `p` into the
    recorder's tables.
    """
    handle = f"*{p.name}"
    target = "event->object = " if p.place == "object" else ""
    look = f"        {target}{id_expression(p, handle)};" if target else ""
    parent = next((q.name for q in f.parameters if q.handle == "COMM" and q.direction == "in"), "MPI_COMM_NULL")
    if gives_known_handle(f):
        yield look
        return
    if p.handle == "COMM":
        yield from _communicator_statements(f, p, parent)
    elif p.handle == "DATATYPE":
        yield f"        weft_define_datatype({handle}, 0, NULL);"
    elif p.handle == "GROUP":
        yield f"        weft_define_group({handle});"
    elif p.handle == "OP":
        yield f"        weft_define_op({handle});"
    elif p.handle == "WINDOW":
        flavor = _WINDOW_FLAVORS[f.name.removeprefix("MPI_Win_").removesuffix("_c")]
        names = {q.name for q in f.parameters}
        base = "base" if "base" in names else "*(void **)baseptr" if "baseptr" in names else "NULL"
        size = "size" if "size" in names else "0"
        unit = "disp_unit" if "disp_unit" in names else "1"
        yield f"        weft_define_window({handle}, {parent}, {flavor}, {base}, (int64_t){size}, (int64_t){unit});"
        yield f"        weft_note_window({handle});"
    elif p.handle == "FILE":
        yield f"        weft_define_file({handle}, comm, amode, filename);"
    elif p.handle == "REQUEST":
        yield from _request_statements(f, p)
        return
    else:
        yield f"        weft_assign_object_id(WEFT_CLASS_{p.handle}, (uintptr_t){handle});"
    if look:
        yield look


def _communicator_statements(f: Function, p: Parameter, parent: str) -> Iterator[str]:
    """Yield C statements that run after a successful call and enter its new communicator `p` into the recorder's
    tables. `parent`: the C name of the communicator that it was made from.
    """
    if promises_communicator(f):
        return
    names = {q.name for q in f.parameters}
    key, group = '""', "0"
    if "stringtag" in names:
        key, group = "stringtag", "weft_hash_group(group)" if "group" in names else "1"
    if f.name == "MPI_Comm_create_group":
        yield '        char w_key[16]; snprintf(w_key, sizeof w_key, "%d", tag);'
        key, group = "w_key", "weft_hash_group(group) + 2u * (uint32_t)tag"
    if f.name == "MPI_Intercomm_create":
        yield '        char w_key[16]; snprintf(w_key, sizeof w_key, "%d", tag);'
        key = "w_key"
    if f.name.startswith("MPI_Comm_spawn"):
        yield f"        if (*{p.name} != MPI_COMM_NULL) weft_define_spawned_world(*{p.name});"
    yield f"        weft_define_comm({f.id}, {parent}, *{p.name}, {key}, {group});"


def _request_statements(f: Function, p: Parameter) -> Iterator[str]:
    """Yield C statements that run after a successful call and enter its new request `p` into the recorder's tables,
    with the buffer to watch.
    """
    words = {False: "false", True: "true"}
    yield f"        struct weft_pending pending = {{.function = {f.id}, .persistent = {words[is_persistent(f)]}, .status = {status_fields(f)}, .place = {p.name}}};"
    made = next((q for q in f.parameters if q.handle == "COMM" and q.direction == "out"), None)
    if made:
        yield f"        weft_promise_comm_id(&pending, comm, {made.name}); promised = pending.made_id;"
    watching, buffer, count, datatype = choose_buffer_watch(f)
    condition = "if (weft_is_root(comm, root)) " if watching == "WATCH_AT_ROOT" else ""
    if {p.name for p in f.parameters} & {"dest", "source"}:
        condition = "if (event->peer != WEFT_RANK_PROC_NULL) "  # nothing is sent from there, nothing comes
    call, more = (
        ("weft_watch_received_buffer", f", *{p.name}")
        if watching == "WATCH_RECEIVE"
        else ("weft_watch_sent_buffer", "")
    )
    if watching != "NO_WATCH":
        yield f"        {condition}{call}(&pending, event->site, {buffer}, (int64_t){count}, {datatype}{more});"
    if meaning_of(f).act is Act.RECEIVE and not is_persistent(f):
        yield "        if (UNLIKELY(weft_keep) && event->flags & (WEFT_FLAG_ANY_SOURCE | WEFT_FLAG_ANY_TAG)) weft_record_message_at_completion(&pending, thread, event);"
    yield f"        event->object = weft_add_request(*{p.name}, &pending);"


def tracks_windows(f: Function) -> bool:
    """Return whether the call changes what the recorder tracks of a window."""
    return find_completed_target(f) is not None or any(_window_effect_statements(f))


def statements_after_call(f: Function) -> Iterator[str]:
    """Yield C statements, run after a successful call, that keep the recorder's tables of MPI objects up to date."""
    for p in f.parameters:
        if p.handle and not p.array and p.direction == "out":
            yield from _object_statements(f, p)
        elif p.handle == "MESSAGE" and p.direction == "inout":
            yield f"        weft_forget_object(WEFT_CLASS_MESSAGE, (uintptr_t)before_{p.name}, {'event->object' if p.place == 'object' else 'before_id_' + p.name});"
        elif p.handle and p.direction == "inout" and not p.array and frees_object(f):
            field = {"comm": "comm", "datatype": "datatype", "tag": "tag"}.get(p.place, "object")
            if p.handle == "REQUEST":
                yield f"        if (weft_end_request(event->{field}, before_{p.name}, MPI_REQUEST_NULL, (struct weft_request_result){{false, false, NULL}}).guessed) event->buffer = WEFT_GUESSED;"
            else:
                yield f"        weft_forget_object(WEFT_CLASS_{p.handle}, (uintptr_t)before_{p.name}, (uint32_t)event->{field});"
    if meaning_of(f).act is Act.START:
        yield from ["        weft_restart_request(*request);"] if meaning_of(f).many is Many.ONE else [
            "        for (int i = 0; i < count; i++) weft_restart_request(array_of_requests[i]);"]  # fmt: skip
    if sends_and_receives(f) and any(p.kind == "STATUS" for p in f.parameters):
        yield "        if (UNLIKELY(weft_keep)) weft_record_received_message_now(thread, event, w_status);"
    yield from _window_effect_statements(f)
    naming = re.fullmatch(r"MPI_(Comm|Type|Win)_set_name", f.name)
    if naming:
        place = {"Comm": "comm", "Type": "datatype", "Win": "object"}[naming[1]]
        class_ = {"Comm": "COMM", "Type": "DATATYPE", "Win": "WINDOW"}[naming[1]]
        yield f"        weft_record_object_name(WEFT_CLASS_{class_}, event->{place}, {naming[1].lower()}_name);"
    if f.name == "MPI_Finalize":
        yield "        weft_end_record_at_finalize();"
    if f.name == "MPI_Session_finalize":
        yield "        weft_end_record_at_session_end();"


def _window_effect_statements(f: Function) -> Iterator[str]:
    """Yield C statements that run after a successful call on a window. They record which operations the call completes
    and what it orders at the target (windows.c).
    """
    row = meaning_of(f)
    yield from _origin_statements(f, row)
    if row.sync is Sync.FREE:
        yield "        if (UNLIKELY(weft_origins)) weft_end_origin_buffer_watch(before_win, -1);"
        yield "        weft_end_window_copies(before_win);"
        yield "        weft_forget_window(before_win);"
    elif row.sync in (Sync.LOCK, Sync.LOCK_ALL):
        one = row.sync is Sync.LOCK
        exclusive = "lock_type == MPI_LOCK_EXCLUSIVE && !(assert & MPI_MODE_NOCHECK)" if one else "false"
        yield f"        weft_note_window_lock(thread, win, {'rank' if one else '-1'}, {exclusive}, event->enter);"
    elif row.sync in (Sync.UNLOCK, Sync.UNLOCK_ALL):
        yield f"        weft_end_window_lock(thread, win, {'rank' if row.sync is Sync.UNLOCK else '-1'});"
    elif synced := find_completed_target(f):
        yield f"        weft_end_atomic_accesses(thread, win, {synced}, {'true' if row.sync in LOCAL_ALONE else 'false'});"
    if row.sync is Sync.FENCE:
        yield "        weft_compare_window_after_fence(win, event->site);"
    elif Access.ATOMIC in row.access:
        yield f"        weft_note_atomic_access(thread, &(struct weft_atomic_access){{{', '.join(_atomic_access_fields(f))}}});"


def _origin_statements(f: Function, row: Meaning) -> Iterator[str]:
    """Yield C statements that run after a successful one-sided operation and watch its origin buffers for changes
    (buffers.c).
    """
    if row.act is not Act.ACCESS or row.form is not Form.BLOCKING:
        return
    types = {p.name for p in f.parameters}
    target = "weft_watch_origin_buffer(win, target_rank, event->site"
    count, datatype = (
        ("(int64_t)origin_count", "origin_datatype") if "origin_count" in types else ("(int64_t)1", "datatype")
    )
    significant = "if (op != MPI_NO_OP) " if "result_addr" in types and "op" in types else ""
    yield f"        {significant}{target}, origin_addr, {count}, {datatype}, {'true' if row.access is Access.READ else 'false'});"
    if "result_addr" in types:
        count, datatype = (
            ("(int64_t)result_count", "result_datatype") if "result_count" in types else ("(int64_t)1", "datatype")
        )
        yield f"        {target}, result_addr, {count}, {datatype}, true);"


def _atomic_access_fields(f: Function) -> Iterator[str]:
    """Yield the C initializers of a struct weft_atomic_access, which describes an atomic access to a window."""
    names = {p.name for p in f.parameters}
    yield ".window = win, .target = target_rank, .place = (int64_t)target_disp, .begin = event->enter"
    side = "result_" if "result_count" in names else "origin_" if "origin_count" in names else ""
    yield f".type = {side}datatype, .count = {f'(int64_t){side}count' if side else '1'}"
    same = "origin_datatype == result_datatype && origin_count == result_count ? origin_addr : NULL"
    yield f".operand = {same if side == 'result_' else 'origin_addr'}"
    if "op" in names:
        yield ".op = op"
    if "compare_addr" in names:
        yield ".compare = compare_addr"
    if "result_addr" in names:
        yield ".result = result_addr"
    if "request" in names:
        yield ".request = *request, .requested = true"
