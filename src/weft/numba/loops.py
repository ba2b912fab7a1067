"""Describe a parallel loop of Numba to the runtime: its place, its arguments and their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numba.core import ir, types

from weft.dataparallel.source_map import SourceMap
from weft.native.headers.check import MAX_RANK
from weft.native.headers.numba import AS_ARRAY, AS_CONTAINER, AS_REDUCTION, AS_SCALAR, AS_SHARED
from weft.numba import source
from weft.numba.in_process import Argument, Loop

MAX_STEPS: Final = 32
WORD: Final = 64
PASSED_ON: Final = ("getattr", "getitem", "static_getitem", "cast", "exhaust_iter")
"""Expressions that make a view or a part of a variable."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One parallel loop that was compiled."""

    loop: Loop
    construct: int
    file: str
    line: int
    function: str
    reductions: tuple[str, ...]
    """The user's names of the variables that Numba takes for reductions."""
    ranks: dict[int, int]
    """Dimensions of its arrays, by their numbers."""


def find_user_name(name: str) -> str:
    """Return the user's name of a variable of Numba's intermediate code (`s.3` is `s`); "" for a temporary."""
    if name.startswith(("$", "expanded_tuple_var", "closure__")):
        return ""
    return re.sub(r"(?:\.\d+)+$", "", name)


def is_user_loop(parfor: object) -> bool:
    """Return whether a parallel loop contains a `prange` loop of the user's. False if Numba made it of array
    expressions alone.
    """
    return any(head == "prange" and kind in ("user", "pndindex") for head, kind in _iterate_patterns(parfor))


def find_loop_line(parfor: Any, function: Any) -> int:
    """Return the line of a parallel loop. If Numba fused a `prange` loop of the user's with others, this is the line of
    the user's loop.
    """
    line: int = parfor.loc.line
    if not is_user_loop(parfor):
        return line
    lines = {one.loc.line for block in parfor.loop_body.values() for one in block.body}
    return source.find_enclosing_loop_line(function.func_id.func, line, lines)


def _iterate_patterns(parfor: Any) -> Iterable[tuple[object, object]]:
    """Yield (pattern, kind) for each thing that Numba made a parallel loop of, such as ("prange", "user"); kind is None
    if Numba gives none.
    """
    for pattern in parfor.patterns:
        head = pattern[0] if isinstance(pattern[0], tuple) else pattern
        yield head[0], head[1] if len(head) > 1 else None


def find_argument_name(name: str, function: Any) -> str:
    """Return the user's name for an argument of a loop, for messages. For a temporary, return the name of the variable
    from which it was made, or "" if there is none.
    """
    at: Any = name
    for _ in range(MAX_STEPS):
        if text := find_user_name(at):
            return text
        try:
            made = function.get_definition(at)
        except KeyError:
            return ""
        if isinstance(made, ir.Var):
            at = made.name
        elif isinstance(made, ir.Expr) and made.op in PASSED_ON:
            at = made.value.name
        elif isinstance(made, ir.Arg):
            return str(made.name)
        else:  # what a comprehension makes has lost the name that it is assigned to
            return source.find_comprehension_target(function.func_id.func, made.loc.line)
    return ""


def describe_loop(  # noqa: PLR0917 - in the order that Numba has them
    lowerer: Any,
    parfor: Any,
    signature: tuple[Sequence[object], Sequence[Any]],
    names: Sequence[str],
    argument_types: Sequence[Any],
    reductions: Sequence[str],
    races: Iterable[str],
    source_map: SourceMap,
) -> Kernel:
    """Return the description of a parallel loop for the runtime, made from the arguments with which Numba is about to
    call the loop's kernel.

    `names` and `argument_types` describe these arguments; the first name is that of the schedule, which has no type.
    `signature` has the symbols of each argument's dimensions. `races` are the names of arguments that all iterations
    share. Dimensions and strides have the order of Numba's call_parallel_gufunc.
    """
    function = lowerer.func_ir
    file, line = parfor.loc.filename, find_loop_line(parfor, function)
    user = is_user_loop(parfor)
    symbols = list(dict.fromkeys(symbol for one in (*signature[0], *signature[1]) for symbol in one))
    arguments = []
    ranks = {}
    stride = len(names) + 1  # behind the steps of all arguments, and the schedule's own stride
    shared = set(races)
    first_reduction = len(argument_types) - len(reductions)
    for at, (name, kind, one) in enumerate(
        zip(names[1:], argument_types, [*signature[0], *signature[1]][1:], strict=True)
    ):
        known = find_argument_name(reductions[at - first_reduction] if at >= first_reduction else name, function)
        data = (
            source_map.add_variable(known or "an array without a name", file, line, "array") if _has_memory(kind) else 0
        )
        if at >= first_reduction:
            real = {types.float64: 8, types.float32: 4}.get(kind.dtype, 0)
            arguments.append(Argument(AS_REDUCTION, data, _element_size(lowerer, kind), real, stride))
            stride += kind.ndim
        elif name in shared:
            data = source_map.add_variable(known, file, line, "variable")
            source_map.set_number_type(data, str(getattr(kind, "dtype", kind)))
            arguments.append(Argument(AS_SHARED, data, _element_size(lowerer, kind), 0, stride))
            stride += 1
        elif isinstance(kind, types.Array):
            source_map.set_number_type(data, str(kind.dtype))
            offset = kind.ndim - len(one)
            fits = offset == 0 and kind.ndim <= MAX_RANK
            ranks[data] = kind.ndim
            where = tuple(1 + symbols.index(symbol) for symbol in one) if fits else ()
            arguments.append(
                Argument(AS_ARRAY if fits else AS_SCALAR, data, _element_size(lowerer, kind), 0, stride, where)
            )
            stride += kind.ndim
        elif isinstance(kind, types.ListType | types.DictType):
            data = source_map.add_variable(known or "a container without a name", file, line, "array")
            arguments.append(Argument(AS_CONTAINER, data))
            ranks[data] = 0
        else:
            arguments.append(Argument(AS_SCALAR, integer=isinstance(kind, types.Integer) and kind.bitwidth == WORD))
            stride += kind.ndim if isinstance(kind, types.ArrayCompatible) else 0
    kind = "prange" if user else "array expression"
    construct = source_map.add_construct(
        kind, file, line, indices=source.find_loop_variables(function.func_id.func, line)
    )
    return Kernel(
        loop=Loop(construct, user, len(parfor.loop_nests), arguments),
        construct=construct,
        file=file,
        line=line,
        function=function.func_id.func_name,
        reductions=tuple(dict.fromkeys(filter(None, map(find_user_name, reductions)))),
        ranks=ranks,
    )


def _has_memory(kind: object) -> bool:
    return isinstance(kind, types.ArrayCompatible)


def _element_size(lowerer: Any, kind: object) -> int:
    """Return the size in bytes of an array's element, or of a scalar."""
    element = kind.dtype if isinstance(kind, types.ArrayCompatible) else kind
    return int(lowerer.context.get_abi_sizeof(lowerer.context.get_data_type(element)))
