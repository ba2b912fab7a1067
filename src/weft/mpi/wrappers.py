"""Generates one function's wrapper, which opens an event, makes the call, and closes the event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.mpi.effects import statements_after_call
from weft.mpi.expressions import (
    call_expression,
    id_expression,
    is_pointer_to_value,
    parameter_list,
    request_variable,
    slot_statements,
    tail_size_bound,
    tail_statements,
    value_expression,
)
from weft.mpi.function_facts import (
    find_completed_requests,
    find_completed_target,
    has_posting_order,
    is_folded,
    is_made_by_fortran_bindings,
    is_polled,
    is_probe,
    meaning_of,
    promises_communicator,
)
from weft.mpi.meaning import Act, Many, Sync
from weft.mpi.table import Function, Parameter

_BEGIN: Final = {
    "MPI_Init": "true, MPI_THREAD_SINGLE",
    "MPI_Init_thread": "true, provided ? *provided : MPI_THREAD_SINGLE",
    "MPI_Session_init": "false, MPI_THREAD_MULTIPLE",
}
"""Calls that begin MPI: whether it is the world model, and the thread level."""

_WELL: Final = "ok && (w_result == MPI_SUCCESS || w_statuses[i].MPI_ERROR == MPI_SUCCESS)"
"""A C expression: whether one of several requests completed without an error. MPI sets errors in statuses if there
are any.
"""


def render_wrapper(f: Function) -> str:
    """Return the C wrapper of a function for runs of level trace."""
    given = parameter_list(f)
    lines = [f"WEFT_HIDDEN WEFT_GIVEN {f.result} weft_w_{f.name}({given});", f"{f.result} weft_w_{f.name}({given}) {{"]
    lines += _opening_statements(f)
    entry = [p for p in f.parameters if p.part in ("entry", "both")]
    leaving = [p for p in f.parameters if p.part in ("exit", "both")]
    status = next((p for p in f.parameters if p.kind == "STATUS" and p.direction == "out"), None)
    poll, completion = is_polled(f), find_completed_requests(f)
    lines += slot_statements(f)
    replace: dict[str, str] = {}
    if completion:
        lines += _statements_noting_requests(f, completion)
    if status:
        lines += _own_status_statements(f, status, completion)
        replace[status.name] = "w_statuses" if status.array else "w_status"
    for p in f.parameters:
        if p.handle and p.direction == "inout" and not p.array and not completion:
            lines.append(f"    {p.declaration.rstrip('*')} before_{p.name} = {value_expression(p)};")
            if p.handle == "MESSAGE" and p.place != "object":
                lines.append(
                    f"    uint32_t before_id_{p.name} = {id_expression(p, 'before_' + p.name)}; (void)before_id_{p.name};"
                )
            lines.append(f"    (void)before_{p.name};")
    if {p.place for p in f.parameters} >= {"buffer", "datatype"}:
        lines.append("    weft_look_up_buffer_if_new(thread, event);")
    if has_posting_order(f):
        lines.append("    if (UNLIKELY(weft_threaded)) weft_lock_posting();")
    lines += _tail_entry_statements(f, entry)
    if f.name == "MPI_Finalize":
        lines.append("    weft_mark_finalize_during_exit(event);")
    if poll:
        lines += ["    uint64_t enter;", "    if (!folded) { weft_publish_event(thread, event); enter = event->enter; }",
                  "    else enter = weft_ticks(weft_clock_kind);"]  # fmt: skip
    else:
        lines.append("    weft_publish_event(thread, event);")
    if f.name == "MPI_Abort":
        lines.append("    weft_mark_record_aborted(errorcode);")
    if f.name.startswith("MPI_Comm_spawn"):
        lines += _spawn_statements(f, replace)
    completed = find_completed_target(f)
    if completed:
        lines.append(f"    if (UNLIKELY(weft_origins)) weft_check_origin_buffers_before_sync(win, {completed});")
    if meaning_of(f).sync is Sync.FENCE:
        lines.append("    weft_copy_window_before_fence(win);")
    if f.name == "MPI_Win_free":
        lines.append("    weft_check_window_block(thread, before_win, event->object, event->enter);")
    failed = "w_failed != MPI_SUCCESS ? w_failed : " if is_folded(f) and f.result == "int" else ""
    lines.append(f"    {f.result} w_result = {failed}{call_expression(f, replace, 'weft_under')};")
    if has_posting_order(f):
        lines.append("    if (UNLIKELY(weft_threaded)) weft_unlock_posting();")
    if completed:
        lines.append(
            f"    const void *w_changed = UNLIKELY(weft_origins) ? weft_end_origin_buffer_watch(win, {completed}) : NULL;"
        )
        lines.append(
            "    if (UNLIKELY(w_changed)) { event->flags |= WEFT_FLAG_BUFFER_CHANGED; event->buffer = (uint64_t)(uintptr_t)w_changed; }"
        )
    lines.append("    uint64_t now = weft_ticks(weft_clock_kind);")
    lines += _closing_statements(f, leaving, status, poll, completion)
    lines += ["    return w_result;", "}", ""]
    return "\n".join(line for line in lines if line)


def _opening_statements(f: Function) -> Iterator[str]:
    """Yield the C statements of a wrapper that come before the call and open its event."""
    if f.name in ("MPI_Init", "MPI_Init_thread", "MPI_Session_init"):
        yield "    weft_start_record();"
    yield "    void *site = __builtin_return_address(0);"
    own = f"UNLIKELY(weft_is_own_call_of_binding(site, K_{f.name})) ? NULL : " if is_made_by_fortran_bindings(f) else ""
    yield f"    struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) = {own}weft_enter_call(site);"
    poll = is_polled(f)
    if poll:
        key = " ^ ".join(
            f"weft_mix_bits({_poll_key_expression(p)}, {i})"
            for i, p in enumerate(f.parameters) if p.direction != "out" and p.type != "status"
        )  # fmt: skip
        yield f"    uint64_t w_key = {key};"
        yield f"    struct weft_event folding, *event = weft_begin_poll(thread, {f.id}, site, w_key, &folding);"
        yield "    const bool folded = event == &folding;"
    elif is_folded(f):
        yield from _fold_statements(f)
        yield f"    struct weft_event *event = weft_begin_event_at_site(thread, {f.id}, site, w_at);"
    else:
        yield f"    struct weft_event *event = weft_begin_event(thread, {f.id}, site);"
    if not poll and f.name != "MPI_Finalize":
        yield "    if (UNLIKELY(!event)) {"
        yield f"        if (weft_record_call_outside_mpi(K_{f.name}) && (thread = weft_enter_call(site))) event = weft_begin_event(thread, {f.id}, site);"
        failed = "w_failed != MPI_SUCCESS ? w_failed : " if is_folded(f) and f.result == "int" else ""
        yield f"        if (!event) return {failed}{call_expression(f, {})};"
        yield "    }"
    else:
        yield f"    if (UNLIKELY(!event)) {{ weft_record_call_outside_mpi(K_{f.name}); return {call_expression(f, {})}; }}"


def _fold_statements(f: Function) -> Iterator[str]:
    """Yield C statements that only count the call in the event before it (fold it) if that is an equal call from the
    same place.
    """
    is_clock = f.name == "MPI_Wtime"
    yield f"    const uint64_t w_key = {fold_key(f)};"
    yield "    uint32_t w_at = 0;"
    if f.result == "int":
        yield "    int w_failed = MPI_SUCCESS;"
    most = "WEFT_TIMES_MOST" if is_clock else "INT32_MAX"
    yield f"    if (weft_is_repeated_call(thread, {f.id}, site, w_key, {most}, &w_at)) {{"
    yield f"        {f.result} w_result = {call_expression(f, {}, 'weft_under')};"
    repeated = "weft_count_repeated_clock_call(thread, w_result)" if is_clock else "weft_count_repeated_call(thread)"
    if f.result == "int":
        yield f"        if (LIKELY(w_result == MPI_SUCCESS)) {{ {repeated}; return w_result; }}"
        yield "        w_failed = w_result; /* becomes an event of its own, below */"
    else:
        yield f"        {repeated};"
        yield "        return w_result;"
    yield "    }"


def fold_key(f: Function) -> str:
    """Return a C expression that has equal values for equal calls. It covers the numbers, handles and statuses that go
    in, but no addresses.
    """
    mixed = [
        f"weft_mix_bits({f'weft_hash_status({p.name})' if p.type == 'status' else _poll_key_expression(p)}, {i})"
        for i, p in enumerate(f.parameters) if p.direction != "out" and p.type != "address"
    ]  # fmt: skip
    return " ^ ".join(mixed) or "0"


def _poll_key_expression(p: Parameter) -> str:
    """Return a C expression that has equal values for equal arguments. Handles count by their values, as Fortran's
    bindings copy them.
    """
    if p.array:
        return f"weft_hash_handles({p.length}, {p.name})"
    return f"(uint64_t){'*' if is_pointer_to_value(p) else ''}{p.name}"


def _spawn_statements(f: Function, replace: dict[str, str]) -> Iterator[str]:
    """Yield C statements by which spawned processes start through env(1), which sets the recorder and the name of the
    spawn in their environment. Also adds to `replace` what the call then gets for its own parameters.

    Open MPI passes on the launcher's environment only, so the recorder has to be set there too.
    """
    many = f.name == "MPI_Comm_spawn_multiple"
    n = "weft_is_root(comm, root) ? count : 0" if many else "weft_is_root(comm, root) ? 1 : 0"
    commands, vectors, infos = (
        ("array_of_commands", "array_of_argv", "array_of_info") if many else ("&command", "&argv", "&info")
    )
    yield f"    struct weft_spawn spawn __attribute__((cleanup(weft_free_spawn_arguments))) = weft_make_spawn_arguments({n}, (char *const *){commands}, (char *const *const *){vectors}, {infos}, {1 if many else 0});"
    if many:
        replace |= {
            "array_of_commands": "spawn.n ? spawn.commands : array_of_commands",
            "array_of_argv": "spawn.n ? spawn.vectors : array_of_argv",
        }
    else:
        replace |= {"command": "spawn.n ? spawn.commands[0] : command", "argv": "spawn.n ? spawn.vectors[0] : argv"}


def _statements_noting_requests(f: Function, p: Parameter) -> Iterator[str]:
    """Yield C statements that run before the call and note the requests `p` that it may complete."""
    if p.array:
        every = "true" if meaning_of(f).many is Many.ALL else "false"
        yield f"    struct weft_completion completion = weft_note_requests_of_call(thread, weft_positive_or_zero({p.length}), {p.name}, {every});"
    else:
        value = value_expression(p)
        yield f"    struct weft_completion completion = weft_note_request_of_call({value}, {request_variable(p)});"
        yield "    event->object = completion.ids[0];"
        yield "    if (UNLIKELY(completion.guessed[0])) event->buffer = WEFT_GUESSED;"


def _own_status_statements(f: Function, p: Parameter, completion: Parameter | None) -> Iterator[str]:
    """Yield C statements that let the call fill a status of the recorder if the program ignores the status `p`: the
    recorder reads from it what was received.
    """
    if p.array:
        yield f"    MPI_Status *w_statuses = {p.name} == MPI_STATUSES_IGNORE ? completion.statuses : {p.name};"
    else:
        yield f"    MPI_Status w_own, *w_status = {p.name} == MPI_STATUS_IGNORE ? &w_own : {p.name};"
        yield "    if (w_status == &w_own) memset(&w_own, 0, sizeof w_own);"


def _tail_entry_statements(f: Function, entry: list[Parameter]) -> Iterator[str]:
    """Yield C statements that write the arguments known before the call to the end of the event's record (its tail).
    `entry`: these arguments.
    """
    count = f.parameter("count")
    large = count is not None and ("MPI_Count" in count.declaration)
    always = f.tail
    folded = "!folded && " if is_polled(f) else ""
    conditions = ["1"] if always else ["weft_threaded", *(["event->count == INT32_MAX"] if count else [])]
    yield f"    if ({folded}({' || '.join(conditions)})) {{"
    yield f"        struct weft_text text = weft_begin_entry_tail(thread, event, {tail_size_bound(f, entry, 24)});"
    if count:
        yield f"        if ({'event->count == INT32_MAX' if large else f'{count.name} == INT32_MAX'}) weft_write_signed(&text, (int64_t){count.name});"
    for p in entry:
        if p.array and p.handle == "REQUEST" and find_completed_requests(f):
            yield "        weft_write_request_ids(&text, &completion);"
        else:
            yield from tail_statements(f, p, after=False)
    yield "        weft_end_tail(thread, &text);"
    yield "    }"


def _closing_statements(
    f: Function, leaving: list[Parameter], status: Parameter | None, poll: bool, completion: Parameter | None
) -> Iterator[str]:
    """Yield the C statements of a wrapper that come after the call and close its event.

    `leaving`: the outputs for the end of the event's record. `poll`: the function polls (as MPI_Test). `completion`:
    the requests that it may complete.
    """
    if f.result == "double":
        yield "    memcpy(&event->buffer, &w_result, sizeof w_result);"
        yield "    weft_close_event(event, now, MPI_SUCCESS);"
        if f.name == "MPI_Wtime":
            yield "    thread->outcome_state.wtime = w_result;"
        yield "    weft_begin_counting_repeats(thread, event, w_key);"
        return
    flag = f.parameter("flag")
    in_status = " || w_result == MPI_ERR_IN_STATUS" if status and status.array else ""
    yield f"    const bool ok = w_result == MPI_SUCCESS{in_status}; (void)ok;"
    if poll:
        failed = "*flag == 0" if flag else f"*{'outcount'} == 0"
        yield f"    if (ok && {failed}) {{ weft_record_failed_poll(thread, event, folded, w_key, now); return w_result; }}"
        yield "    if (folded) {"
        yield f"        event = weft_begin_event_of_successful_poll(thread, {f.id}, site, &folding, enter);"
        yield "        if (!event) return w_result;"
        yield from (("    " + line) for line in _late_tail_entry_statements(f))
        yield "    }"
    if flag:
        yield "    if (ok && *flag) event->flags |= WEFT_FLAG_TRUE;"
    if completion:
        yield from _statements_finding_completed(f, completion)
    if promises_communicator(f):
        yield "    uint32_t promised = 0;"
    after = list(statements_after_call(f))
    if after:
        yield "    if (ok) {"
        yield from after
        yield "    }"
    in_slot = status is not None and status.place == "status"
    if in_slot:
        yield from _slot_status_statements(f, flag, completion, size_in_tail=bool(leaving))
    if leaving:
        yield from _tail_exit_statements(f, leaving, in_slot=in_slot)
    yield "    weft_close_event(event, now, w_result);"
    if is_folded(f):
        yield "    if (LIKELY(ok)) weft_begin_counting_repeats(thread, event, w_key);"
    if f.name in _BEGIN:
        yield f"    if (ok) weft_complete_record_start({_BEGIN[f.name]});"
    if f.name == "MPI_Session_init":
        yield "    if (ok) weft_read_world_from_session(*session);"


def _slot_status_statements(
    f: Function, flag: Parameter | None, completion: Parameter | None, *, size_in_tail: bool
) -> Iterator[str]:
    """Yield C statements that put source, tag and size from the status into the event. `size_in_tail`: the size goes to
    the end of the event's record.
    """
    is_set = f"ok{' && (event->flags & WEFT_FLAG_TRUE)' if flag else ''}"
    fill = "weft_fill_unnamed_from_status" if f.parameter("tag") else "weft_fill_event_from_status"
    if completion:
        fields = f"{is_set} ? (enum weft_status_fields)completion.fields[chosen] : WEFT_STATUS_NOTHING"
        yield f"    uint64_t bytes = weft_fill_event_from_completion(event, w_status, {fields});"
    else:
        yield f"    uint64_t bytes = 0; if ({is_set}) bytes = {fill}(event, w_status);"
    if not size_in_tail:
        yield f"    weft_write_received_size(thread, event, bytes, {'true' if is_probe(f) else 'false'});"


def _tail_exit_statements(f: Function, leaving: list[Parameter], *, in_slot: bool) -> Iterator[str]:
    """Yield C statements that write the arguments known after the call to the end of the event's record (its tail).
    `in_slot`: the event itself has the status, so that only the size of the message is added.
    """
    before = "if (!(event->flags & WEFT_FLAG_HAS_TAIL)) event->result = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes; else "
    yield f"    {before if in_slot else ''}{{"
    yield f"        struct weft_text text = weft_continue_tail(thread, {tail_size_bound(f, leaving, 24)});"
    for p in leaving:
        yield from tail_statements(f, p, after=True)
    if in_slot:
        yield "        weft_write_unsigned(&text, bytes);"
    if is_probe(f):
        yield "        if (event->flags & WEFT_FLAG_TICKET) weft_write_unsigned(&text, weft_decided);"
    yield "        weft_end_tail(thread, &text);"
    yield "    }"


def _late_tail_entry_statements(f: Function) -> Iterator[str]:
    """Yield C statements that write a poll's arguments after its return, for a poll that succeeds after equal polls
    that failed.
    """
    yield from (
        line.replace("!folded && ", "")
        for line in _tail_entry_statements(f, [p for p in f.parameters if p.part in ("entry", "both")])
    )


def _statements_finding_completed(f: Function, p: Parameter) -> Iterator[str]:
    """Yield C statements that run after the call and find which of the requests `p` are complete, and whether a watched
    send buffer was changed.
    """
    row = meaning_of(f)
    if row.act is Act.ASK:
        if any(q.place == "status" for q in f.parameters):
            index = (
                "completion.n && *index >= 0 && *index < completion.n ? *index : 0"
                if any(q.name == "index" for q in f.parameters)
                else "0"
            )
            yield f"    int64_t chosen = {index};"
        return
    if not p.array:
        yield f"    const int64_t chosen = 0; weft_end_noted_request(&completion, 0, event, {value_expression(p)}, ok, w_status);"
    elif row.many is Many.ANY:
        yield "    int64_t chosen = ok && *index >= 0 && *index < completion.n ? *index : 0;"
        yield f"    if (ok && *index >= 0 && *index < completion.n) weft_end_noted_request(&completion, *index, event, {p.name}[*index], true, w_status);"
    elif row.many is Many.SOME:
        yield "    for (int i = 0; ok && i < *outcount; i++)"
        yield f"        weft_end_noted_request(&completion, array_of_indices[i], event, {p.name}[array_of_indices[i]], {_WELL}, &w_statuses[i]);"
        yield "    completion.indices = array_of_indices;"
    else:
        yield "    for (int64_t i = 0; i < completion.n; i++)"
        yield f"        weft_end_noted_request(&completion, i, event, {p.name}[i], {_WELL}, &w_statuses[i]);"
