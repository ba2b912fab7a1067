"""The recorder's C source, generated from the table of procedures for one MPI library.

One wrapper for each function that the library exports: it fills the event's slot and tail as weft.mpi.table places
the arguments, calls on, and keeps the tables of objects true. stubs.S gives each function its public name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from weft.mpi import meaning, table
from weft.mpi.meaning import Access, Act, Form, Leaves, Many, Meaning, Mode, Sync, Trait
from weft.mpi.table import Function, Parameter

_WINDOW_FLAVORS = {"create": 0, "allocate": 1, "create_dynamic": 2, "allocate_shared": 3}

_PEERS = "weft_peers(comm)"
# Lengths of arrays that the standard's table leaves at "*" or wrong for C: (function, parameter) -> C expression.
_LENGTHS: list[tuple[str, str, str]] = [
    (r"MPI_Comm_spawn", r"argv", "0"),
    (r"MPI_Comm_spawn_multiple", r"array_of_(commands|maxprocs|info)", "weft_root(comm, root) ? count : 0"),
    (r"MPI_Comm_spawn\w*", r"array_of_errcodes", "0"),
    (r"MPI_Type_get_contents\w*", r"array_of_integers", "max_integers"),
    (r"MPI_Cart_rank", r"coords", "weft_dimensions(comm)"),
    (r"MPI_Cart_sub", r"remain_dims", "weft_dimensions(comm)"),
    (r"MPI_Dist_graph_create", r"destinations|weights", "weft_sum(n, degrees)"),
    (r"MPI_Dist_graph_create_adjacent", r"destweights", "outdegree"),
    (r"MPI_Dist_graph_create_adjacent", r"sourceweights", "indegree"),
    (r"MPI_Dist_graph_neighbors", r"sourceweights", "maxindegree"),
    (r"MPI_Dist_graph_neighbors", r"destweights", "maxoutdegree"),
    (r"MPI_Graph_(create|map)", r"edges", "nnodes > 0 && index ? index[nnodes - 1] : 0"),
    (r"MPI_Group_range_\w+", r"ranges", "3 * (int64_t)n"),
    (
        r"MPI_(Waitsome|Testsome|Request_get_status_some)",
        r"array_of_(indices|statuses)",
        "*outcount < 0 ? 0 : *outcount",
    ),
    (r"MPI_(Waitall|Testall|Request_get_status_all)", r"array_of_statuses", "count"),
]


def length(f: Function, p: Parameter) -> str:
    """C expression of an array's length, by the names of the function's parameters."""
    if meaning_of(f).moves and re.fullmatch(r"(send|recv)(counts|types)|[sr]?displs", p.name):
        return _members(meaning_of(f), p.name)
    for function, parameter, expression in _LENGTHS:
        if re.fullmatch(function, f.name, re.IGNORECASE) and re.fullmatch(parameter, p.name):
            return expression
    if p.length in ("*", "", None):
        raise ValueError(f"no length known for {p.name} of {f.name}")
    return str(p.length)


def _members(row: Meaning, name: str) -> str:
    """C expression of how many members a collective's arguments are given for, one for each."""
    if row.neighbours:
        return "weft_outdegree(comm)" if name.startswith("s") else "weft_indegree(comm)"
    if row.rooted:
        return f"weft_root(comm, root) ? {_PEERS} : 0"
    return "weft_local(comm)" if row.reduces else _PEERS


def _c_type(p: Parameter) -> str:
    """The parameter's type where only its size matters: function pointers become plain pointers."""
    if p.kind in ("FUNCTION", "POLYFUNCTION") or p.declaration.endswith(("function*", "function_c*")):
        return "void*"
    return p.declaration


def _declare(p: Parameter) -> str:
    declaration = _c_type(p)
    base, bracket, rest = declaration.partition("[")
    return f"{base.strip()} {p.name}{bracket}{rest}"


def pointed(p: Parameter) -> bool:
    """Whether the C parameter is a pointer to the one value that is recorded."""
    return p.declaration.endswith("*") and not p.array and p.type != "address"


def _value(p: Parameter) -> str:
    """C expression of a scalar's value as it stands before the call (or after it, for what comes out)."""
    if pointed(p) and p.type != "string":
        return f"({p.name} ? *{p.name} : {_null(p)})"
    return p.name


def _null(p: Parameter) -> str:
    return {
        "COMM": "MPI_COMM_NULL", "DATATYPE": "MPI_DATATYPE_NULL", "GROUP": "MPI_GROUP_NULL", "OP": "MPI_OP_NULL",
        "REQUEST": "MPI_REQUEST_NULL", "WINDOW": "MPI_WIN_NULL", "FILE": "MPI_FILE_NULL", "INFO": "MPI_INFO_NULL",
        "ERRHANDLER": "MPI_ERRHANDLER_NULL", "MESSAGE": "MPI_MESSAGE_NULL", "SESSION": "MPI_SESSION_NULL",
    }.get(p.handle or "", "0")  # fmt: skip


def _place(p: Parameter) -> str:
    """The variable that holds a request, which tells those that share a handle apart."""
    return p.name if pointed(p) and not p.array else "NULL"


def _id(p: Parameter, value: str) -> str:
    if p.handle == "REQUEST":
        return f"weft_request_id({value}, {_place(p)})"
    return f"weft_id(thread, WEFT_CLASS_{p.handle}, (uintptr_t)({value}))"


def _integer(p: Parameter, value: str) -> str:
    if p.kind in ("RANK", "RANK_NNI"):
        return f"weft_rank({value})"
    if p.kind == "TAG":
        return f"weft_tag({value})"
    if p.kind == "LOCK_TYPE":
        return f"weft_lock_type({value})"
    if p.kind == "ASSERT":
        return f"weft_assert({value})"
    return f"(int64_t)({value})"


def _bound(f: Function, parameters: Iterable[Parameter], head: int) -> str:
    """C expression of the bytes that a part of the tail can take."""
    terms: Counter[str] = Counter()
    fixed = head
    for p in parameters:
        if p.type == "string":
            fixed += 8192
            if p.array:
                terms[f"weft_strings_bound((char *const *){p.name})"] += 1
        elif p.array:
            fixed += 16
            each = 48 if p.type == "status" else 10
            terms[f"weft_positive({length(f, p)})"] += each
        else:
            fixed += 48 if p.type == "status" else 10
    return " + ".join([str(fixed), *(f"{bytes_} * {length}" for length, bytes_ in terms.items())])


def _array(f: Function, p: Parameter, guard: str) -> Iterator[str]:
    name = p.name
    if p.type == "string":
        yield f"        weft_text_strings(&text, (char *const *){name});"
        return
    if p.type == "status":
        yield f"        weft_text_statuses(&text, w_statuses, {guard} ? weft_positive({length(f, p)}) : 0, &completion);"
        return
    special = f" || (const void *){name} == (const void *)MPI_UNWEIGHTED || (const void *){name} == (const void *)MPI_WEIGHTS_EMPTY"
    ignored = special if p.kind == "WEIGHT" else ""
    failed = "!ok || " if guard == "ok" else ""
    n = f"{failed}!{name}{ignored} ? 0 : weft_positive({length(f, p)})"
    if p.handle == "REQUEST":
        yield f"        weft_text_requests(&text, {n}, {name});"
    elif p.handle:
        yield f"        weft_text_handles(&text, WEFT_CLASS_{p.handle}, {n}, {name}, sizeof *{name});"
    elif p.kind in ("RANK", "RANK_NNI"):
        yield f"        weft_text_ranks(&text, {n}, (const int *){name});"
    else:
        size = "sizeof(int)" if "[3]" in p.declaration else f"sizeof *{name}"
        yield f"        weft_text_numbers(&text, {n}, {name}, {size});"


def _tail_value(f: Function, p: Parameter, after: bool) -> Iterator[str]:
    """Statements that write one parameter to the tail. After a failed call an output is 0."""
    guard = "ok" if after else "1"
    if p.array:
        yield from _array(f, p, guard)
    elif p.type == "string":
        yield f"        weft_text_string(&text, {p.name if not after else f'ok ? {p.name} : NULL'});"
    elif p.type == "status":
        status = "w_status" if after and p.direction == "out" else p.name
        test = "ok" if after else f"{p.name} && {p.name} != MPI_STATUS_IGNORE"
        yield f"        weft_text_status(&text, {status}, {test});"
    elif p.handle == "COMM" and after and promises(f):
        yield "        weft_text_u(&text, promised);"
    elif p.handle:
        value = _id(p, _value(p))
        yield f"        weft_text_u(&text, {f'ok ? {value} : 0' if after else value});"
    elif p.type == "address":
        if after:  # MPI_Comm_get_attr and its kin: a pointer comes out
            given = "ok && *flag" if any(q.name == "flag" for q in f.parameters) else "ok"
            yield f"        weft_text_address(&text, {given} && {p.name} ? *(void **){p.name} : NULL, event);"
        else:
            yield f"        weft_text_address(&text, (const void *){p.name}, event);"
    else:
        value = _integer(p, _value(p))
        yield f"        weft_text_z(&text, {f'ok ? {value} : 0' if after else value});"


def _slot(f: Function) -> Iterator[str]:
    """Statements that fill the slot's fields before the call."""
    receives = any(p.name == "source" and p.place == "peer" for p in f.parameters)
    for p in f.parameters:
        value = _value(p)
        if p.place == "buffer":
            yield f"    event->buffer = weft_address({value if not pointed(p) else p.name});"
        elif p.place == "comm":
            yield f"    event->comm = {_id(p, value)};"
        elif p.place == "datatype":
            yield f"    event->datatype = {_id(p, value)};"
        elif p.place == "count":
            yield f"    event->count = weft_count_field({value});"
        elif p.place == "peer":
            yield f"    event->peer = weft_rank({value});"
            if receives:
                yield f"    if ({value} == MPI_ANY_SOURCE) event->flags |= WEFT_FLAG_ANY_SOURCE;"
        elif p.place == "tag" and p.handle:
            yield f"    event->tag = (int32_t){_id(p, value)};"
        elif p.place == "tag":
            yield f"    event->tag = weft_tag({value});"
            if receives:
                yield f"    if ({value} == MPI_ANY_TAG) event->flags |= WEFT_FLAG_ANY_TAG;"
        elif (
            p.place == "object"
            and p.direction != "out"
            and not (p.handle == "REQUEST" and meaning_of(f).act is Act.COMPLETE)
        ):
            yield f"    event->object = {_id(p, value)};"


def _made(f: Function, p: Parameter) -> Iterator[str]:
    """Statements after success for an object that came out of the call through the scalar handle p."""
    handle = f"*{p.name}"
    target = "event->object = " if p.place == "object" else ""
    look = f"        {target}{_id(p, handle)};" if target else ""
    parent = next((q.name for q in f.parameters if q.handle == "COMM" and q.direction == "in"), "MPI_COMM_NULL")
    if gets(f):
        yield look
        return
    if p.handle == "COMM":
        yield from _made_comm(f, p, parent)
    elif p.handle == "DATATYPE":
        yield f"        weft_made_datatype({handle});"
    elif p.handle == "GROUP":
        yield f"        weft_made_group({handle});"
    elif p.handle == "OP":
        yield f"        weft_made_op({handle});"
    elif p.handle == "WINDOW":
        flavor = _WINDOW_FLAVORS[f.name.removeprefix("MPI_Win_").removesuffix("_c")]
        names = {q.name for q in f.parameters}
        base = "base" if "base" in names else "*(void **)baseptr" if "baseptr" in names else "NULL"
        size = "size" if "size" in names else "0"
        unit = "disp_unit" if "disp_unit" in names else "1"
        yield f"        weft_made_window({handle}, {parent}, {flavor}, {base}, (int64_t){size}, (int64_t){unit});"
        yield f"        weft_window_made({handle});"
    elif p.handle == "FILE":
        yield f"        weft_made_file({handle}, comm, amode, filename);"
    elif p.handle == "REQUEST":
        yield from _made_request(f, p)
        return
    else:
        yield f"        weft_new_id(WEFT_CLASS_{p.handle}, (uintptr_t){handle});"
    if look:
        yield look


def promises(f: Function) -> bool:
    """Whether the call makes a communicator that is there only when its request completes."""
    made = [p for p in f.parameters if p.handle in ("COMM", "REQUEST") and p.direction == "out"]
    return len(made) == 2


def _made_comm(f: Function, p: Parameter, parent: str) -> Iterator[str]:
    if promises(f):
        return
    names = {q.name for q in f.parameters}
    key, group = '""', "0"
    if "stringtag" in names:
        key, group = "stringtag", "weft_group_key(group)" if "group" in names else "1"
    if f.name == "MPI_Comm_create_group":
        yield '        char w_key[16]; snprintf(w_key, sizeof w_key, "%d", tag);'
        key, group = "w_key", "weft_group_key(group) + 2u * (uint32_t)tag"
    if f.name == "MPI_Intercomm_create":
        yield '        char w_key[16]; snprintf(w_key, sizeof w_key, "%d", tag);'
        key = "w_key"
    if f.name.startswith("MPI_Comm_spawn"):
        yield f"        if (*{p.name} != MPI_COMM_NULL) weft_spawned(*{p.name});"
    yield f"        weft_made_comm({f.id}, {parent}, *{p.name}, {key}, {group});"


def _made_request(f: Function, p: Parameter) -> Iterator[str]:
    words = {False: "false", True: "true"}
    yield f"        struct weft_pending pending = {{.function = {f.id}, .persistent = {words[persistent(f)]}, .silent = {words[silent(f)]}, .place = {p.name}}};"
    made = next((q for q in f.parameters if q.handle == "COMM" and q.direction == "out"), None)
    if made:
        yield f"        weft_comm_promised(&pending, comm, {made.name}); promised = pending.made_id;"
    watching, buffer, count, datatype = watched(f)
    condition = "if (weft_root(comm, root)) " if watching == "WATCH_AT_ROOT" else ""
    if {p.name for p in f.parameters} & {"dest", "source"}:
        condition = "if (event->peer != WEFT_RANK_PROC_NULL) "  # nothing is sent from there, nothing comes
    call, more = ("weft_watch_receive", f", *{p.name}") if watching == "WATCH_RECEIVE" else ("weft_watch", "")
    if watching != "NO_WATCH":
        yield f"        {condition}{call}(&pending, event->site, {buffer}, (int64_t){count}, {datatype}{more});"
    yield f"        event->object = weft_request_new(*{p.name}, &pending);"


def meaning_of(f: Function) -> Meaning:
    """The function's row in the table of meanings. KeyError for a function that is passed through."""
    return meaning.every()[meaning.base(f.name)]


def watched(f: Function) -> tuple[str, str | None, str, str]:
    """How the buffer of a call that makes a request is watched, and the parameters that say what: buffer, count, datatype."""
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


def persistent(f: Function) -> bool:
    """Whether the request that the call makes is started by other calls."""
    return meaning_of(f).form is Form.PERSISTENT


def silent(f: Function) -> bool:
    """Whether the status of the request that the call makes tells nothing."""
    return Trait.TELLS_STATUS not in meaning_of(f).traits


def enquires(f: Function) -> bool:
    """Whether Fortran bindings make the call on their own account."""
    return Trait.ASKED_BY_FORTRAN in meaning_of(f).traits


def posts(f: Function) -> bool:
    """Whether the call's place among those of other threads decides what is matched."""
    return meaning_of(f).posts


def gets(f: Function) -> bool:
    """Whether the handle that comes out of the call names what may be there already."""
    return Trait.GIVES_KNOWN in meaning_of(f).traits


def frees(f: Function) -> bool:
    """Whether the call frees the object of its handle."""
    return bool(meaning_of(f).frees)


def probes(f: Function) -> bool:
    """Whether the call looks for a message."""
    return meaning_of(f).probes


def asks(f: Function) -> bool:
    """Whether programs call it over and over, until its answer is yes."""
    return meaning_of(f).polls


def polls(f: Function) -> bool:
    """Whether the call asks whether something is done, or completes requests."""
    return asks(f) or _completion(f) is not None


def keeps_windows(f: Function) -> bool:
    """Whether the call keeps the accounts of a window."""
    return _completes_accesses(f) is not None or any(_window(f))


def _after(f: Function) -> Iterator[str]:
    """Statements after a successful call that keep the tables of objects true."""
    for p in f.parameters:
        if p.handle and not p.array and p.direction == "out":
            yield from _made(f, p)
        elif p.handle == "MESSAGE" and p.direction == "inout":
            yield f"        weft_gone(WEFT_CLASS_MESSAGE, (uintptr_t)before_{p.name}, {'event->object' if p.place == 'object' else 'before_id_' + p.name});"
        elif p.handle and p.direction == "inout" and not p.array and frees(f):
            field = {"comm": "comm", "datatype": "datatype", "tag": "tag"}.get(p.place, "object")
            if p.handle == "REQUEST":
                yield f"        if (weft_request_done(event->{field}, before_{p.name}, MPI_REQUEST_NULL, false).guessed) event->buffer = WEFT_GUESSED;"
            else:
                yield f"        weft_gone(WEFT_CLASS_{p.handle}, (uintptr_t)before_{p.name}, (uint32_t)event->{field});"
    if meaning_of(f).act is Act.START:
        yield from ["        weft_request_started(*request);"] if meaning_of(f).many is Many.ONE else [
            "        for (int i = 0; i < count; i++) weft_request_started(array_of_requests[i]);"]  # fmt: skip
    yield from _window(f)
    naming = re.fullmatch(r"MPI_(Comm|Type|Win)_set_name", f.name)
    if naming:
        place = {"Comm": "comm", "Type": "datatype", "Win": "object"}[naming[1]]
        class_ = {"Comm": "COMM", "Type": "DATATYPE", "Win": "WINDOW"}[naming[1]]
        yield f"        weft_named(WEFT_CLASS_{class_}, event->{place}, {naming[1].lower()}_name);"
    if f.name == "MPI_Finalize":
        yield "        weft_finalized();"
    if f.name == "MPI_Session_finalize":
        yield "        weft_session_finalized();"


def _window(f: Function) -> Iterator[str]:
    """Statements after a successful call on a window that keep what is decided at its target (windows.c)."""
    row = meaning_of(f)
    yield from _origins(f, row)
    if row.sync is Sync.FREE:
        yield "        if (UNLIKELY(weft_origins)) weft_origins_done(before_win, -1);"
        yield "        weft_exposed_gone(before_win);"
        yield "        weft_window_gone(before_win);"
    elif row.sync in (Sync.LOCK, Sync.LOCK_ALL):
        one = row.sync is Sync.LOCK
        exclusive = "lock_type == MPI_LOCK_EXCLUSIVE && !(assert & MPI_MODE_NOCHECK)" if one else "false"
        yield f"        weft_window_locked(thread, win, {'rank' if one else '-1'}, {exclusive}, event->enter);"
    elif row.sync in (Sync.UNLOCK, Sync.UNLOCK_ALL):
        yield f"        weft_window_unlocked(thread, win, {'rank' if row.sync is Sync.UNLOCK else '-1'});"
    elif synced := _completes_accesses(f):
        yield f"        weft_window_synced(thread, win, {synced}, {'true' if row.sync in _LOCAL_ALONE else 'false'});"
    if row.sync is Sync.FENCE:
        yield "        weft_exposed_fenced(win, event->site);"
    elif Access.ATOMIC in row.access:
        yield f"        weft_window_accessed(thread, &(struct weft_did){{{', '.join(_did(f))}}});"


_LOCAL_ALONE = (Sync.FLUSH_LOCAL, Sync.FLUSH_LOCAL_ALL)
_COMPLETING = (
    Sync.FENCE, Sync.COMPLETE, Sync.UNLOCK, Sync.UNLOCK_ALL, Sync.FLUSH, Sync.FLUSH_ALL, *_LOCAL_ALONE
)  # fmt: skip


def _completes_accesses(f: Function) -> str | None:
    """The target whose accesses the call completes at their origin at least, -1 for all targets; None: it completes none."""
    if meaning_of(f).sync not in _COMPLETING:
        return None
    return "rank" if any(p.name == "rank" for p in f.parameters) else "-1"


def _origins(f: Function, row: Meaning) -> Iterator[str]:
    """Statements after a successful call that watch the origin buffers of a one-sided operation (buffers.c)."""
    if row.act is not Act.ACCESS or row.form is not Form.BLOCKING:
        return
    types = {p.name for p in f.parameters}
    target = "weft_origin(win, target_rank, event->site"
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


def _did(f: Function) -> Iterator[str]:
    """The fields of struct weft_did of an atomic access."""
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


def parameters(f: Function) -> str:
    """The parameters of a wrapper of the function, as C."""
    return ", ".join(_declare(p) for p in f.parameters) or "void"


def forwarded(f: Function, through: str) -> str:
    """The call of what a table holds for the function, with the wrapper's own arguments."""
    return _call(f, {}, through)


def _call(f: Function, replace: dict[str, str], through: str = "weft_next") -> str:
    types = ", ".join(_abstract(p) for p in f.parameters) or "void"
    arguments = ", ".join(replace.get(p.name, p.name) for p in f.parameters)
    return f"(({f.result} (*)({types})){through}[K_{f.name}])({arguments})"


def _abstract(p: Parameter) -> str:
    base, bracket, rest = _c_type(p).partition("[")
    if not bracket:
        return base
    return f"{base.strip()} (*)[3]" if rest.endswith("[3]") else f"{base.strip()} *"


def wrapper(f: Function) -> str:
    """The C text of one function's wrapper at level trace."""
    given = parameters(f)
    lines = [f"WEFT_HIDDEN {f.result} weft_w_{f.name}({given});", f"{f.result} weft_w_{f.name}({given}) {{"]
    lines += _opening(f)
    entry = [p for p in f.parameters if p.part in ("entry", "both")]
    leaving = [p for p in f.parameters if p.part in ("exit", "both")]
    status = next((p for p in f.parameters if p.kind == "STATUS" and p.direction == "out"), None)
    poll, completion = asks(f), _completion(f)
    lines += _slot(f)
    replace: dict[str, str] = {}
    if completion:
        lines += _completion_before(f, completion)
    if status:
        lines += _status_stand_in(f, status, completion)
        replace[status.name] = "w_statuses" if status.array else "w_status"
    for p in f.parameters:
        if p.handle and p.direction == "inout" and not p.array and not completion:
            lines.append(f"    {p.declaration.rstrip('*')} before_{p.name} = {_value(p)};")
            if p.handle == "MESSAGE" and p.place != "object":
                lines.append(
                    f"    uint32_t before_id_{p.name} = {_id(p, 'before_' + p.name)}; (void)before_id_{p.name};"
                )
            lines.append(f"    (void)before_{p.name};")
    if posts(f):
        lines.append("    if (UNLIKELY(weft_threaded)) weft_post_lock();")
    lines += _tail_entry(f, entry)
    if f.name == "MPI_Finalize":
        lines.append("    weft_finalising(event);")
    if poll:
        lines += ["    uint64_t enter;", "    if (!folded) { weft_publish(thread, event); enter = event->enter; }",
                  "    else enter = weft_ticks(weft_clock_kind);"]  # fmt: skip
    else:
        lines.append("    weft_publish(thread, event);")
    if f.name == "MPI_Abort":
        lines.append("    weft_aborting(errorcode);")
    if f.name.startswith("MPI_Comm_spawn"):
        lines += _spawn_recorded(f, replace)
    completed = _completes_accesses(f)
    if completed:
        lines.append(f"    if (UNLIKELY(weft_origins)) weft_origins_asked(win, {completed});")
    if meaning_of(f).sync is Sync.FENCE:
        lines.append("    weft_exposed_closing(win);")
    if f.name == "MPI_Win_free":
        lines.append("    weft_memory_leaving(thread, before_win, event->object, event->enter);")
    lines.append(f"    {f.result} w_result = {_call(f, replace, 'weft_under')};")
    if posts(f):
        lines.append("    if (UNLIKELY(weft_threaded)) weft_post_unlock();")
    if completed:
        lines.append(
            f"    const void *w_changed = UNLIKELY(weft_origins) ? weft_origins_done(win, {completed}) : NULL;"
        )
        lines.append(
            "    if (UNLIKELY(w_changed)) { event->flags |= WEFT_FLAG_BUFFER_CHANGED; event->buffer = (uint64_t)(uintptr_t)w_changed; }"
        )
    lines.append("    uint64_t now = weft_ticks(weft_clock_kind);")
    lines += _closing(f, leaving, status, poll, completion)
    lines += ["    return w_result;", "}", ""]
    return "\n".join(line for line in lines if line)


def _opening(f: Function) -> Iterator[str]:
    if f.name in ("MPI_Init", "MPI_Init_thread", "MPI_Session_init"):
        yield "    weft_start();"
    yield "    void *site = __builtin_return_address(0);"
    own = f"UNLIKELY(weft_fortran_own(site, K_{f.name})) ? NULL : " if enquires(f) else ""
    yield f"    struct weft_thread *thread __attribute__((cleanup(weft_unwind))) = {own}weft_enter(site);"
    poll = asks(f)
    if poll:
        key = " ^ ".join(
            f"weft_mix({_poll_key(p)}, {i})"
            for i, p in enumerate(f.parameters) if p.direction != "out" and p.type != "status"
        )  # fmt: skip
        yield f"    uint64_t w_key = {key};"
        yield f"    struct weft_event folding, *event = weft_poll_begin(thread, {f.id}, site, w_key, &folding);"
        yield "    const bool folded = event == &folding;"
    else:
        yield f"    struct weft_event *event = weft_begin(thread, {f.id}, site);"
    if not poll and f.name != "MPI_Finalize":
        yield "    if (UNLIKELY(!event)) {"
        yield f"        if (weft_outside(K_{f.name}) && (thread = weft_enter(site))) event = weft_begin(thread, {f.id}, site);"
        yield f"        if (!event) return {_call(f, {})};"
        yield "    }"
    else:
        yield f"    if (UNLIKELY(!event)) {{ weft_outside(K_{f.name}); return {_call(f, {})}; }}"


def _poll_key(p: Parameter) -> str:
    """What tells one poll's argument from another's: handles by what they are, as Fortran's bindings copy them first."""
    if p.array:
        return f"weft_mix_handles({p.length}, {p.name})"
    return f"(uint64_t){'*' if pointed(p) else ''}{p.name}"


def _completion(f: Function) -> Parameter | None:
    """The request or requests that the call may complete, or None."""
    if meaning_of(f).act not in (Act.COMPLETE, Act.ASK):
        return None
    return next((p for p in f.parameters if p.handle == "REQUEST" and meaning_of(f).mode is not Mode.PARTITIONED), None)


def _spawn_recorded(f: Function, replace: dict[str, str]) -> Iterator[str]:
    """Open MPI gives a spawned process the launcher's environment, not the ranks': env(1) puts the recorder into it."""
    many = f.name == "MPI_Comm_spawn_multiple"
    n = "weft_root(comm, root) ? count : 0" if many else "weft_root(comm, root) ? 1 : 0"
    commands, vectors = ("array_of_commands", "array_of_argv") if many else ("&command", "&argv")
    yield f"    struct weft_spawn spawn __attribute__((cleanup(weft_spawn_free))) = weft_spawn_through({n}, (char *const *){commands}, (char *const *const *){vectors}, {1 if many else 0});"
    if many:
        replace |= {
            "array_of_commands": "spawn.n ? spawn.commands : array_of_commands",
            "array_of_argv": "spawn.n ? spawn.vectors : array_of_argv",
        }
    else:
        replace |= {"command": "spawn.n ? spawn.commands[0] : command", "argv": "spawn.n ? spawn.vectors[0] : argv"}


def _completion_before(f: Function, p: Parameter) -> Iterator[str]:
    if p.array:
        every = "true" if meaning_of(f).many is Many.ALL else "false"
        yield f"    struct weft_completion completion = weft_completion_many(thread, weft_positive({p.length}), {p.name}, {every});"
    else:
        value = _value(p)
        yield f"    struct weft_completion completion = weft_completion_one({value}, {_place(p)});"
        yield "    event->object = completion.ids[0];"
        yield "    if (UNLIKELY(completion.guessed[0])) event->buffer = WEFT_GUESSED;"


def _status_stand_in(f: Function, p: Parameter, completion: Parameter | None) -> Iterator[str]:
    """A status of our own where the user ignores it, as it tells what was received."""
    if p.array:
        yield f"    MPI_Status *w_statuses = {p.name} == MPI_STATUSES_IGNORE ? completion.statuses : {p.name};"
    else:
        yield f"    MPI_Status w_own, *w_status = {p.name} == MPI_STATUS_IGNORE ? &w_own : {p.name};"
        yield "    if (w_status == &w_own) memset(&w_own, 0, sizeof w_own);"


def _tail_entry(f: Function, entry: list[Parameter]) -> Iterator[str]:
    count = f.parameter("count")
    large = count is not None and ("MPI_Count" in count.declaration)
    always = f.tail
    folded = "!folded && " if asks(f) else ""
    conditions = ["1"] if always else ["weft_threaded", *(["event->count == INT32_MAX"] if count else [])]
    yield f"    if ({folded}({' || '.join(conditions)})) {{"
    yield f"        struct weft_text text = weft_tail_first(thread, event, {_bound(f, entry, 24)});"
    if count:
        yield f"        if ({'event->count == INT32_MAX' if large else f'{count.name} == INT32_MAX'}) weft_text_z(&text, (int64_t){count.name});"
    for p in entry:
        if p.array and p.handle == "REQUEST" and _completion(f):
            yield "        weft_text_ids(&text, &completion);"
        else:
            yield from _tail_value(f, p, after=False)
    yield "        weft_tail_end(thread, &text);"
    yield "    }"


def _closing(
    f: Function, leaving: list[Parameter], status: Parameter | None, poll: bool, completion: Parameter | None
) -> Iterator[str]:
    if f.result == "double":
        yield "    memcpy(&event->buffer, &w_result, sizeof w_result);"
        yield "    weft_leave(event, now, MPI_SUCCESS);"
        return
    flag = f.parameter("flag")
    in_status = " || w_result == MPI_ERR_IN_STATUS" if status and status.array else ""
    yield f"    const bool ok = w_result == MPI_SUCCESS{in_status}; (void)ok;"
    if poll:
        failed = "*flag == 0" if flag else f"*{'outcount'} == 0"
        yield f"    if (ok && {failed}) {{ weft_poll_failed(thread, event, folded, w_key, now); return w_result; }}"
        yield "    if (folded) {"
        yield f"        event = weft_poll_unfold(thread, {f.id}, site, &folding, enter);"
        yield "        if (!event) return w_result;"
        yield from (("    " + line) for line in _tail_entry_unfolded(f))
        yield "    }"
    if flag:
        yield "    if (ok && *flag) event->flags |= WEFT_FLAG_TRUE;"
    if completion:
        yield from _completion_after(f, completion)
    if promises(f):
        yield "    uint32_t promised = 0;"
    after = list(_after(f))
    if after:
        yield "    if (ok) {"
        yield from after
        yield "    }"
    in_slot = status is not None and status.place == "status"
    if in_slot:
        silent = " && !completion.silent[chosen]" if completion else ""
        fill = "weft_status_slot" if completion or not f.parameter("tag") else "weft_status_asked"
        yield f"    uint64_t bytes = 0; if (ok{' && (event->flags & WEFT_FLAG_TRUE)' if flag else ''}{silent}) bytes = {fill}(event, w_status);"
        if completion:
            flagged = " && (event->flags & WEFT_FLAG_TRUE)" if flag else ""
            yield "    else {"
            yield "        event->peer = event->tag = -1;"
            yield f"        if (ok{flagged} && weft_status_cancelled(w_status)) event->flags |= WEFT_FLAG_CANCELLED;"
            yield "    }"
        if not leaving:
            yield f"    weft_received(thread, event, bytes, {'true' if probes(f) else 'false'});"
    if leaving:
        before = "if (!(event->flags & WEFT_FLAG_HAS_TAIL)) event->result = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes; else "
        yield f"    {before if in_slot else ''}{{"
        yield f"        struct weft_text text = weft_tail_more(thread, {_bound(f, leaving, 24)});"
        for p in leaving:
            yield from _tail_value(f, p, after=True)
        if in_slot:
            yield "        weft_text_u(&text, bytes);"
        if probes(f):
            yield "        if (event->flags & WEFT_FLAG_TICKET) weft_text_u(&text, weft_decided);"
        yield "        weft_tail_end(thread, &text);"
        yield "    }"
    yield "    weft_leave(event, now, w_result);"
    if f.name in ("MPI_Init", "MPI_Init_thread", "MPI_Session_init"):
        provided = {
            "MPI_Init": "true, MPI_THREAD_SINGLE",
            "MPI_Init_thread": "true, provided ? *provided : MPI_THREAD_SINGLE",
        }
        yield f"    if (ok) weft_started({provided.get(f.name, 'false, MPI_THREAD_MULTIPLE')});"
        if f.name == "MPI_Session_init":
            yield "    if (ok) weft_objects_session(*session);"


def _tail_entry_unfolded(f: Function) -> Iterator[str]:
    """The entry part of a poll that follows failed ones of its like: written late, as nothing was known of it."""
    yield from (
        line.replace("!folded && ", "")
        for line in _tail_entry(f, [p for p in f.parameters if p.part in ("entry", "both")])
    )


def _completion_after(f: Function, p: Parameter) -> Iterator[str]:
    """Which requests are complete now, and whether a watched send buffer had changed."""
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
        yield f"    const int64_t chosen = 0; weft_completion_done(&completion, 0, event, {_value(p)});"
    elif row.many is Many.ANY:
        yield "    int64_t chosen = ok && *index >= 0 && *index < completion.n ? *index : 0;"
        yield f"    if (ok && *index >= 0 && *index < completion.n) weft_completion_done(&completion, *index, event, {p.name}[*index]);"
    elif row.many is Many.SOME:
        yield "    for (int i = 0; ok && i < *outcount; i++)"
        yield f"        weft_completion_done(&completion, array_of_indices[i], event, {p.name}[array_of_indices[i]]);"
        yield "    completion.indices = array_of_indices;"
    else:
        yield "    for (int64_t i = 0; i < completion.n; i++)"
        yield f"        weft_completion_done(&completion, i, event, {p.name}[i]);"


def recorded(exported: set[str]) -> list[Function]:
    """The functions that the recorder wraps in a library that exports these names."""
    return [f for f in table.functions() if f.passed_through is None and f.name in exported]


def names_h(functions: list[Function], variables: list[str]) -> str:
    """Indexes of the functions, and the library's variables by way of pointers that the binding fills.

    Open MPI's predefined handles are addresses of variables of the library; MPICH's MPI_UNWEIGHTED is a variable. A
    recorder that named them would not load into a process, as Python is one, that loads MPI later and privately.
    """
    lines = ["/* Generated by weft.mpi.generate. */"]
    lines += [f"extern WEFT_HIDDEN void *weft_var_{name};" for name in variables]
    lines += ["#ifdef OPEN_MPI", "#undef OMPI_PREDEFINED_GLOBAL",
              "#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)weft_var_##global)", "#endif"]  # fmt: skip
    for name in ("MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY"):
        if name in variables:
            lines += [f"#undef {name}", f"#define {name} (weft_var_{name} ? *(int **)weft_var_{name} : NULL)"]
    lines += ["enum {"]
    lines += [f"    K_{f.name} = {k}," for k, f in enumerate(functions)]
    lines += ["};", "enum {"] + [f"    F_{f.name} = {f.id}," for f in functions] + ["};"]
    lines += [f"#define HAVE_{f.name} 1" for f in functions]
    return "\n".join(lines) + "\n"


def text_h(name: str, text: bytes) -> str:
    """A text as a C string."""
    rows = (", ".join(str(byte) for byte in text[at : at + 32]) for at in range(0, len(text), 32))
    body = "".join(f"    {row},\n" for row in rows)
    return f"/* Generated by weft.mpi.generate. */\nstatic const char {name}[] = {{\n{body}    0}};\n"


def predefined_h() -> str:
    """Handles of predefined objects and their ids, where the library's header knows them."""
    lines = ["/* Generated by weft.mpi.generate. */"]
    for class_, objects in table.PREDEFINED.items():
        for id_, name in objects.items():
            lines += [f"#ifdef {name}", f"predefine(WEFT_CLASS_{class_}, H({name}), {id_});", "#endif"]
    return "\n".join(lines) + "\n"


def wrappers_c(functions: list[Function]) -> str:
    """The wrappers of some functions, as one file."""
    return "\n".join(["/* Generated by weft.mpi.generate. */", '#include "wrap.h"', "", *map(wrapper, functions)])


def tables_c(
    functions: list[Function], by_hand: dict[str, set[str]], soname: str, fortran: list[str], variables: list[str]
) -> str:
    """The tables that the stubs and the binding go by. `by_hand`: functions of outcomes.c (`o`), replay.c (`p`), threads.c (`t`)."""
    parts = ["/* Generated by weft.mpi.generate. */", '#include "wrap.h"', ""]
    parts += [f"extern WEFT_HIDDEN void weft_w_{f.name}(void);" for f in functions]
    count = len(functions)
    names = ", ".join(f'"{f.name}"' for f in functions)
    traced = ", ".join(f"(void *)weft_w_{f.name}" for f in functions)
    chosen = {
        letter: ", ".join(f"(void *)weft_{letter}_{f.name}" if f.name in names else "NULL" for f in functions)
        for letter, names in by_hand.items()
    }
    parts += [f"extern void weft_{letter}_{name}(void);" for letter, names in by_hand.items() for name in sorted(names)]
    parts += [f"void *weft_var_{name};" for name in variables]
    pairs = "".join(f'{{"{name}", &weft_var_{name}}}, ' for name in variables)
    parts += [
        f"const struct weft_variable weft_variables[] = {{{pairs}{{NULL, NULL}}}};",
        f"void *weft_next[{count}];",
        f"const char *const weft_names[{count}] = {{{names}}};",
        f"const int weft_count = {count};",
        f"void *const weft_trace[{count}] = {{{traced}}};",
        f"void *const weft_outcomes[{count}] = {{{chosen['o']}}};",
        f"void *const weft_replayed[{count}] = {{{chosen['p']}}};",
        f"void *const weft_split[{count}] = {{{chosen['t']}}};",
        f"void *weft_under[{count}];",
        f'const char weft_soname[] = "{soname}";',
        f"const char *const weft_fortran_names[] = {{{', '.join(f'{chr(34)}{n}{chr(34)}' for n in fortran)}{',' if fortran else ''} NULL}};",
        f"const int weft_fortran_count = {len(fortran)};",
        f"const int16_t weft_fortran_calls[] = {{{', '.join(str(k) for k in _served(functions, fortran))}{',' if fortran else ''} -1}};",
    ]
    return "\n".join(parts) + "\n"


def _served(functions: list[Function], fortran: list[str]) -> Iterator[int]:
    """For each Fortran entry the index of the function that it stands for, -1 for none."""
    index = {f.name.lower(): k for k, f in enumerate(functions)}
    for entry in fortran:
        yield index.get(re.sub(r"(_f08|_f08ts|_f|_cptr)?_{1,2}$", "", entry), -1)


def stubs_s(functions: list[Function], fortran: list[str], seldom: list[Function]) -> str:
    """The public names. Each jumps through its slot, so that a call that is not recorded costs one jump, and a
    process that turns out to use another MPI keeps its calls whole. Slots first lead to weft_bind, once."""
    count = len(functions)
    out = ["/* Generated by weft.mpi.generate. */", '#include "stub.h"', "    .data", "    .balign 8",
           "    .globl weft_slots", "    .hidden weft_slots", "weft_slots:"]  # fmt: skip
    out += [f"    .quad weft_first_{k}" for k in range(2 * count)]
    out += ["    .globl weft_fortran_slots", "    .hidden weft_fortran_slots", "weft_fortran_slots:"]
    out += ["    .quad 0"] * len(fortran) + ["    .quad 0", "    .text"]
    for k in range(2 * count):
        name = functions[k % count].name
        out.append(f"STUB {'P' if k >= count else ''}{name}, {k}")
    out += [f"SELDOM {f.name}, {j}" for j, f in enumerate(seldom)]
    for j, name in enumerate(fortran):
        out.append(f"FORTRAN_STUB {name}, {j}")
    out.append('    .section .note.GNU-stack,"",%progbits')
    return "\n".join(out) + "\n"
