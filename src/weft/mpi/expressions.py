"""Generate C expressions for arguments: their types, lengths, ids, and how each is written into an event or its
tail.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from weft.mpi.function_facts import meaning_of, promises_communicator
from weft.mpi.meaning import Act, Meaning
from weft.mpi.table import Function, Parameter

_PEERS = "weft_count_peers(comm)"


# Lengths of arrays that the standard's table leaves at "*" or wrong for C: (function, parameter) -> C expression.
_LENGTHS: list[tuple[str, str, str]] = [
    (r"MPI_Comm_spawn", r"argv", "weft_is_root(comm, root) ? WEFT_STRINGS : 0"),
    (r"MPI_Comm_spawn_multiple", r"array_of_(commands|maxprocs|info)", "weft_is_root(comm, root) ? count : 0"),
    (r"MPI_Comm_spawn\w*", r"array_of_errcodes", "0"),
    (r"MPI_Type_get_contents\w*", r"array_of_integers", "max_integers"),
    (r"MPI_Cart_rank", r"coords", "weft_count_cart_dimensions(comm)"),
    (r"MPI_Cart_sub", r"remain_dims", "weft_count_cart_dimensions(comm)"),
    (r"MPI_Dist_graph_create", r"destinations|weights", "weft_sum_positive(n, degrees)"),
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


def array_length(f: Function, p: Parameter) -> str:
    """Return the C expression for the number of elements of an array argument, in terms of the
    function's parameters."""
    if meaning_of(f).moves and re.fullmatch(r"(send|recv)(counts|types)|[sr]?displs", p.name):
        return _member_count(meaning_of(f), p.name)
    for function, parameter, expression in _LENGTHS:
        if re.fullmatch(function, f.name, re.IGNORECASE) and re.fullmatch(parameter, p.name):
            return expression
    if p.length in ("*", "", None):
        raise ValueError(f"no length known for {p.name} of {f.name}")
    return str(p.length)


def _member_count(row: Meaning, name: str) -> str:
    """Return the C expression for the number of entries of an array that has one for each member of a collective.
    `name`: the array.
    """
    if row.is_neighbourhood:
        return (
            "weft_count_receiving_neighbours(comm)" if name.startswith("s") else "weft_count_sending_neighbours(comm)"
        )
    if row.is_rooted:
        return f"weft_is_root(comm, root) ? {_PEERS} : 0"
    return "weft_count_local_ranks(comm)" if row.is_reduction else _PEERS


def _c_type(p: Parameter) -> str:
    """Return the parameter's C type, but `void*` for a pointer to a function."""
    if p.kind in ("FUNCTION", "POLYFUNCTION") or p.declaration.endswith(("function*", "function_c*")):
        return "void*"
    return p.declaration


def _declare(p: Parameter) -> str:
    declaration = _c_type(p)
    base, bracket, rest = declaration.partition("[")
    return f"{base.strip()} {p.name}{bracket}{rest}"


def is_pointer_to_value(p: Parameter) -> bool:
    """Return whether the C parameter is a pointer to the one value that is recorded."""
    return p.declaration.endswith("*") and not p.array and p.type != "address"


def value_expression(p: Parameter) -> str:
    """Return the C expression for the value of a scalar argument, also if the parameter is a pointer to it."""
    if is_pointer_to_value(p) and p.type != "string":
        return f"({p.name} ? *{p.name} : {_null_value(p)})"
    return p.name


def _null_value(p: Parameter) -> str:
    """Return the C constant to record for a parameter whose pointer is NULL."""
    return {
        "COMM": "MPI_COMM_NULL", "DATATYPE": "MPI_DATATYPE_NULL", "GROUP": "MPI_GROUP_NULL", "OP": "MPI_OP_NULL",
        "REQUEST": "MPI_REQUEST_NULL", "WINDOW": "MPI_WIN_NULL", "FILE": "MPI_FILE_NULL", "INFO": "MPI_INFO_NULL",
        "ERRHANDLER": "MPI_ERRHANDLER_NULL", "MESSAGE": "MPI_MESSAGE_NULL", "SESSION": "MPI_SESSION_NULL",
    }.get(p.handle or "", "0")  # fmt: skip


def request_variable(p: Parameter) -> str:
    """Return the C variable that has a request, which distinguishes requests with the same handle."""
    return p.name if is_pointer_to_value(p) and not p.array else "NULL"


def id_expression(p: Parameter, value: str) -> str:
    """Return the C expression for the recorder's id of the handle `value`, a C expression."""
    if p.handle == "REQUEST":
        return f"weft_find_request_id({value}, {request_variable(p)})"
    return f"weft_find_object_id(thread, WEFT_CLASS_{p.handle}, (uintptr_t)({value}))"


def _integer_expression(p: Parameter, value: str) -> str:
    """Return the C expression that converts the integer `value` (a C expression) to what the record stores."""
    if p.kind in ("RANK", "RANK_NNI"):
        return f"weft_encode_rank({value})"
    if p.kind == "TAG":
        return f"weft_encode_tag({value})"
    if p.kind == "LOCK_TYPE":
        return f"weft_encode_lock_type({value})"
    if p.kind == "ASSERT":
        return f"weft_encode_assertion({value})"
    return f"(int64_t)({value})"


def tail_size_bound(f: Function, parameters: Iterable[Parameter], head: int) -> str:
    """Return the C expression for how many bytes the arguments `parameters` take at most at the end of an event's
    record (its tail). `head`: bytes that are always needed.
    """
    terms: Counter[str] = Counter()
    fixed = head
    for p in parameters:
        if p.type == "string":
            fixed += 8192
            if p.array:
                terms[f"weft_bound_string_bytes({array_length(f, p)}, (char *const *){p.name})"] += 1
        elif p.array:
            fixed += 16
            each = 48 if p.type == "status" else 10
            terms[f"weft_positive_or_zero({array_length(f, p)})"] += each
        else:
            fixed += 48 if p.type == "status" else 10
    return " + ".join([str(fixed), *(f"{bytes_} * {length}" for length, bytes_ in terms.items())])


def _array_statements(f: Function, p: Parameter, guard: str) -> Iterator[str]:
    """Yield C statements that write an array argument to the end of an event's record (its tail). `guard`: a C
    condition; if it is false, 0 elements are written.
    """
    name = p.name
    if p.type == "string":
        yield f"        weft_write_strings(&text, {array_length(f, p)}, (char *const *){name});"
        return
    if p.type == "status":
        yield f"        weft_write_statuses(&text, w_statuses, {guard} ? weft_positive_or_zero({array_length(f, p)}) : 0, &completion);"
        return
    special = f" || (const void *){name} == (const void *)MPI_UNWEIGHTED || (const void *){name} == (const void *)MPI_WEIGHTS_EMPTY"
    ignored = special if p.kind == "WEIGHT" else ""
    failed = "!ok || " if guard == "ok" else ""
    n = f"{failed}!{name}{ignored} ? 0 : weft_positive_or_zero({array_length(f, p)})"
    if p.handle == "REQUEST":
        yield f"        weft_write_requests(&text, {n}, {name});"
    elif p.handle:
        yield f"        weft_write_handles(&text, WEFT_CLASS_{p.handle}, {n}, {name}, sizeof *{name});"
    elif p.kind in ("RANK", "RANK_NNI"):
        yield f"        weft_write_ranks(&text, {n}, (const int *){name});"
    else:
        size = "sizeof(int)" if "[3]" in p.declaration else f"sizeof *{name}"
        yield f"        weft_write_numbers(&text, {n}, {name}, {size});"


def tail_statements(f: Function, p: Parameter, after: bool) -> Iterator[str]:
    """Yield C statements that write one argument to the end of an event's record (its tail). `after`: they run after
    the call; if it failed, 0 is written.
    """
    guard = "ok" if after else "1"
    if p.array:
        yield from _array_statements(f, p, guard)
    elif p.type == "string":
        given = "ok" if after else "weft_is_root(comm, root)" if p.root_only else ""
        yield f"        weft_write_string(&text, {given}{' ? ' if given else ''}{p.name}{' : NULL' if given else ''});"
    elif p.type == "status":
        status = "w_status" if after and p.direction == "out" else p.name
        test = "ok" if after else f"{p.name} && {p.name} != MPI_STATUS_IGNORE"
        yield f"        weft_write_status(&text, {status}, {test} ? WEFT_STATUS_MESSAGE : WEFT_STATUS_NOTHING);"
    elif p.handle == "COMM" and after and promises_communicator(f):
        yield "        weft_write_unsigned(&text, promised);"
    elif p.handle:
        value = id_expression(p, value_expression(p))
        yield f"        weft_write_unsigned(&text, {f'ok ? {value} : 0' if after else value});"
    elif p.type == "address":
        if after:  # MPI_Comm_get_attr and its kin: a pointer comes out
            given = "ok && *flag" if any(q.name == "flag" for q in f.parameters) else "ok"
            yield f"        weft_write_address(&text, {given} && {p.name} ? *(void **){p.name} : NULL, event);"
        else:
            yield f"        weft_write_address(&text, (const void *){p.name}, event);"
    else:
        value = _integer_expression(p, value_expression(p))
        yield f"        weft_write_signed(&text, {f'ok ? {value} : 0' if after else value});"


def slot_statements(f: Function) -> Iterator[str]:
    """Yield C statements that fill the fixed fields of an event's record (its slot) before the call."""
    receives = any(p.name == "source" and p.place == "peer" for p in f.parameters)
    for p in f.parameters:
        value = value_expression(p)
        if p.place == "buffer":
            yield f"    event->buffer = weft_encode_address({value if not is_pointer_to_value(p) else p.name});"
        elif p.place == "comm":
            yield f"    event->comm = {id_expression(p, value)};"
        elif p.place == "datatype":
            yield f"    event->datatype = {id_expression(p, value)};"
        elif p.place == "count":
            yield f"    event->count = weft_encode_count({value});"
        elif p.place == "peer":
            yield f"    event->peer = weft_encode_rank({value});"
            if receives:
                yield f"    if ({value} == MPI_ANY_SOURCE) event->flags |= WEFT_FLAG_ANY_SOURCE;"
        elif p.place == "tag" and p.handle:
            yield f"    event->tag = (int32_t){id_expression(p, value)};"
        elif p.place == "tag":
            yield f"    event->tag = weft_encode_tag({value});"
            if receives:
                yield f"    if ({value} == MPI_ANY_TAG) event->flags |= WEFT_FLAG_ANY_TAG;"
        elif (
            p.place == "object"
            and p.direction != "out"
            and not (p.handle == "REQUEST" and meaning_of(f).act is Act.COMPLETE)
        ):
            yield f"    event->object = {id_expression(p, value)};"


def parameter_list(f: Function) -> str:
    """Return the parameters of a function's wrapper, as C."""
    return ", ".join(_declare(p) for p in f.parameters) or "void"


def forward_call(f: Function, table: str) -> str:
    """Return the call of a function through a table, with the wrapper's own arguments."""
    return call_expression(f, {}, table)


def call_expression(f: Function, replace: dict[str, str], table: str = "weft_next") -> str:
    """Return the C expression that calls the function through a table of pointers. `replace`: by parameter the C
    expression to pass instead. `table`: the name of the table in C.
    """
    types = ", ".join(_type_without_name(p) for p in f.parameters) or "void"
    arguments = ", ".join(replace.get(p.name, p.name) for p in f.parameters)
    return f"(({f.result} (*)({types})){table}[K_{f.name}])({arguments})"


def _type_without_name(p: Parameter) -> str:
    """Return the parameter's C type without its name; arrays become pointers."""
    base, bracket, rest = _c_type(p).partition("[")
    if not bracket:
        return base
    return f"{base.strip()} (*)[3]" if rest.endswith("[3]") else f"{base.strip()} *"
