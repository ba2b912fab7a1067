"""Find calls of Python that receive into a temporary array: the program has no name by which to read what came."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from weft import sources
from weft.sources.statement import find_language
from weft.terms.significant_arguments import is_significant
from weft.trace import Event, Rank
from weft.trace.layout import IN_PLACE

_FIRST: Final = frozenset("Recv Irecv Mrecv Imrecv Recv_init Bcast Ibcast Get Rget".split())
"""What receives into its first argument; the method of mpi4py has this name, that of a message is Recv or Irecv."""
_SECOND: Final = frozenset(
    f"{begin}{name}{end}"
    for begin, names in (("", "Allreduce Allgather Alltoall Gather Scatter Reduce Scan Exscan Reduce_scatter"),
                         ("I", "allreduce allgather alltoall gather scatter reduce scan exscan reduce_scatter"))
    for name in names.split() for end in ("", "v")
)  # fmt: skip
_FOURTH: Final = frozenset(("Sendrecv", "Isendrecv"))
_COPYING_METHODS: Final = frozenset(("copy", "flatten", "astype"))
_COPYING_FUNCTIONS: Final = frozenset("array copy concatenate stack hstack vstack tile repeat".split())
_PACKING_FUNCTIONS: Final = frozenset(("ascontiguousarray", "ravel"))
_NUMPY: Final = frozenset(("np", "numpy"))
_OTHER_ORDER: Final = re.compile(r"order\s*=\s*['\"][FA]|asfortranarray|\.T\b|transpose|swapaxes|moveaxis")
"""Where a file has this, a column may be one piece of memory, of which no copy is made."""


def find_lost_receives(rank: Rank) -> Iterator[tuple[int, str, str]]:
    """Yield (event index, parameter, text of the buffer) of the first call of each line of a rank that receives into a
    temporary array.
    """
    sites, first = np.unique(rank.events["site"], return_index=True)
    for site, index in zip(sites.tolist(), first.tolist(), strict=True):
        file = rank.site(site).file or ""
        if file.endswith(".py") and find_language(file) == "python":
            event = rank.event(index)
            text = _find_temporary_buffer(event)
            parameter = "recvbuf" if "recvbuf" in event.args else "buffer" if "buffer" in event.args else "buf"
            if text is not None and _is_written(event, parameter):
                yield index, parameter, text


def _is_written(event: Event, parameter: str) -> bool:
    """Return whether a call receives anything into a buffer: the root of a broadcast sends from it."""
    if event.function.base in ("MPI_Bcast", "MPI_Ibcast") and event.comm is not None:
        return event.peer != event.comm.rank_of(event.rank.index) and event.count > 0
    address = event.args.get(parameter, event.buffer)
    return address not in (0, IN_PLACE) and bool(is_significant(event.rank, np.array([event.index]), parameter)[0])


def _find_temporary_buffer(event: Event) -> str | None:
    """Return the text of the buffer that a call receives into if it is a temporary copy, None otherwise."""
    name = event.function.base.removeprefix("MPI_")
    place = 0 if name in _FIRST else 1 if name in _SECOND else 3 if name in _FOURTH else None
    kept, file = sources.sources_of(event.rank.trace), event.site.file or ""
    statement = kept.statement(file, event.site.line) if place is not None else None
    if place is None or statement is None:
        return None
    method = {"Mrecv": "Recv", "Imrecv": "Irecv"}.get(name, name)
    buffer = _find_buffer(_parse("\n".join(statement.lines)), method, place)
    if buffer is None or not _is_temporary(buffer):
        return None
    whole = kept.lines(file, 1)
    if whole is None or (_is_packed(buffer) and _OTHER_ORDER.search("\n".join(whole[1]))):
        return None
    return ast.unparse(buffer)


def _parse(text: str) -> ast.Module | None:
    """Return a parsed statement, of which the begin of a block is enough; None if it is not whole."""
    for each in (text, f"{text} pass"):
        try:
            return ast.parse(each)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _find_buffer(tree: ast.Module | None, method: str, place: int) -> ast.expr | None:
    """Return the argument that the only call of a method in a statement receives into; None if there is none, or more
    than one call. A buffer with its type, such as `[a, MPI.INT]`, is the first of these.
    """
    nodes = list(ast.walk(tree)) if tree is not None else []
    calls = [one for one in nodes if isinstance(one, ast.Call) and getattr(one.func, "attr", "") == method]
    if len(calls) != 1 or any(isinstance(one, ast.Starred) for one in calls[0].args):
        return None
    named = [one.value for one in calls[0].keywords if one.arg in ("buf", "recvbuf", "origin")]
    given = calls[0].args[place : place + 1] or named
    if given and isinstance(given[0], (ast.List, ast.Tuple)):
        given = given[0].elts[:1]
    return given[0] if given else None


def _is_temporary(node: ast.expr) -> bool:
    """Return whether an expression makes an array that has no name: a copy of what is in another one. An array that
    begins empty, such as `np.empty(3)`, is not meant: a program may want to throw a message away.
    """
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return not any(isinstance(one, ast.NamedExpr) for one in ast.walk(node))
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, (ast.List, ast.Compare))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if any(one.arg in ("copy", "out") for one in node.keywords):
        return False
    if isinstance(node.func.value, ast.Name) and node.func.value.id in _NUMPY:
        return node.func.attr in _COPYING_FUNCTIONS or _is_packed(node)
    return node.func.attr in _COPYING_METHODS or (node.func.attr == "ravel" and _is_packed(node))


def _is_packed(node: ast.expr) -> bool:
    """Return whether an expression copies a section with gaps, such as a column, to one piece of memory."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    is_function = isinstance(node.func.value, ast.Name) and node.func.value.id in _NUMPY
    section = node.args[0] if is_function and node.args else node.func.value
    return node.func.attr in _PACKING_FUNCTIONS and isinstance(section, ast.Subscript) and _has_gaps(section.slice)


def _has_gaps(subscripts: ast.expr) -> bool:
    """Return whether a section of an array in C's order has gaps: a step, or a part of a later dimension."""
    parts = subscripts.elts if isinstance(subscripts, ast.Tuple) else [subscripts]
    if any(isinstance(one, ast.Slice) and one.step is not None for one in parts):
        return True
    ranges = [isinstance(one, ast.Slice) or (isinstance(one, ast.Constant) and one.value is ...) for one in parts]
    later = next((k for k, is_range in enumerate(ranges) if is_range), len(ranges))
    return any(not is_range for is_range in ranges[later:])
