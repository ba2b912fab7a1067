"""Render the runtime's calls (dataparallel/native/check.h) as C text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from weft.dataparallel import runtime
from weft.dvm.c_tree import Variable
from weft.dvm.syntax import (
    Affine,
    Axis,
    Constant,
    DirectiveError,
    Expression,
    NamedEdges,
    Reference,
    Section,
    Subscript,
    Width,
)

HEADER: Final = runtime.runtime_sources() / "check.h"
LISTS: Final = """\
#define WEFT_INTS(...) (const int[]){__VA_ARGS__}
#define WEFT_LONGS(...) (const __INT64_TYPE__[]){__VA_ARGS__}
#define WEFT_TYPE(...) _Generic(__VA_ARGS__, %s, default: 0)
#define WEFT_POINTER(...) __builtin_choose_expr(__builtin_classify_type(__VA_ARGS__) == 5, (__VA_ARGS__), (void *)0)
"""
LISTS_CPLUSPLUS: Final = """\
#define WEFT_INTS(...) weft_ints{{__VA_ARGS__}}
#define WEFT_LONGS(...) weft_longs{{__VA_ARGS__}}
#define WEFT_TYPE(...) weft_type(__VA_ARGS__)
#define WEFT_POINTER(...) weft_pointer(__VA_ARGS__)
struct weft_ints { int v[16]; operator const int *() const { return v; } }; \
struct weft_longs { __INT64_TYPE__ v[16]; operator const __INT64_TYPE__ *() const { return v; } }; \
template <typename T> static inline int weft_type(const volatile T &) { return 0; } \
template <typename T> static inline T *weft_pointer(T *p) { return p; } \
template <typename T> static inline char *weft_pointer(const T &) { return 0; } \
%s
"""
"""A temporary array has no address in C++, and its types are distinguished by overloading."""
KINDS: Final = {
    "*": "WEFT_WHOLE",
    "block": "WEFT_BLOCK",
    "wgtblock": "WEFT_WGTBLOCK",
    "genblock": "WEFT_GENBLOCK",
    "multblock": "WEFT_MULTBLOCK",
    "indirect": "WEFT_INDIRECT",
    "derived": "WEFT_DERIVED",
}
OPERATIONS: Final = {name: f"WEFT_{name.upper()}" for name in ("sum", "product", "max", "min", "and", "or", "xor")} | {
    "maxloc": "WEFT_MAXLOC",
    "minloc": "WEFT_MINLOC",
}
TYPES: Final = {
    "char": "WEFT_INT8",
    "signed char": "WEFT_INT8",
    "short": "WEFT_INT16",
    "int": "WEFT_INT32",
    "long": "WEFT_INT64",
    "long long": "WEFT_INT64",
    "_Bool": "WEFT_UINT8",
    "unsigned char": "WEFT_UINT8",
    "unsigned short": "WEFT_UINT16",
    "unsigned": "WEFT_UINT32",
    "unsigned long": "WEFT_UINT64",
    "unsigned long long": "WEFT_UINT64",
    "float": "WEFT_FLOAT",
    "double": "WEFT_DOUBLE",
    "long double": "WEFT_LONG_DOUBLE",
    "float _Complex": "WEFT_COMPLEX_FLOAT",
    "double _Complex": "WEFT_COMPLEX_DOUBLE",
}


def source_prologue(source_text: str, cplusplus: bool) -> str:
    """Return the declarations to put before a C source: Weft's runtime, and the library functions that the inserted
    calls need.
    """
    if not cplusplus:
        return (
            (LISTS % ", ".join(f"{name}: {code}" for name, code in TYPES.items()))
            + runtime_declarations()
            + library_declarations(source_text)
        )
    overloads = " ".join(
        f"static inline int weft_type(const volatile {name} &) {{ return {code}; }}"
        for name, code in TYPES.items()
        if "_Complex" not in name and name != "_Bool"
    )
    defines, code = runtime_declarations().rsplit("\n", 1)
    return f'{defines}\nextern "C" {{ {code}{library_declarations(source_text)} }}\n{LISTS_CPLUSPLUS % overloads}'


@cache
def runtime_declarations() -> str:
    """Return the runtime's declarations on one line, not as an include: a program's feature macros must come first."""
    text = HEADER.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = text.partition("#ifdef __cplusplus")[0] + text.partition("#endif")[2].rpartition("#ifdef __cplusplus")[0]
    defines = [line for line in text.splitlines() if line.startswith("#define") and line.split()[1] != "WEFT_CHECK_H"]
    code = " ".join(line for line in text.splitlines() if not line.startswith("#"))
    kinds = {
        "size_t": "__SIZE_TYPE__",
        **{f"{u}int{n}_t": f"__{u.upper()}INT{n}_TYPE__" for u in ("", "u") for n in (8, 16, 32, 64)},
    }
    for name, builtin in kinds.items():
        code = re.sub(rf"\b{name}\b", builtin, code)
    return "\n".join([*defines, " ".join(code.split())])


LIBRARY: Final = {
    "dvmh_wtime": "double dvmh_wtime(void);",
    "dvmh_barrier": "void dvmh_barrier(void);",
    "dvmh_get_total_num_procs": "int dvmh_get_total_num_procs(void);",
    "dvmh_get_num_procs": "int dvmh_get_num_procs(int);",
    "dvmh_get_num_proc_axes": "int dvmh_get_num_proc_axes(void);",
}
"""Functions of the language's library, which its compiler knows without a declaration."""


def library_declarations(source_text: str) -> str:
    """Return declarations of the library functions that a source calls and does not declare."""
    return "".join(
        f" {declaration}"
        for name, declaration in LIBRARY.items()
        if re.search(rf"\b{name}\b", source_text)
        and not re.search(rf"\b(?:double|int|void|define)\s+{name}\b", source_text)
    )


def render_call(name: str, *arguments: object) -> str:
    """Return a statement that calls the runtime's function `weft_check_NAME`."""
    return f"weft_check_{name}({', '.join(map(str, arguments))});"


def int_array(values: Sequence[object]) -> str:
    """Return C text of an array of ints with these values."""
    return f"WEFT_INTS({', '.join(map(str, values))})"


def long_array(values: Sequence[object]) -> str:
    """Return C text of an array of 64-bit numbers with these values."""
    return f"WEFT_LONGS({', '.join(map(str, values))})"


def int64(expression: Expression) -> str:
    """Return C text that converts an expression to a 64-bit number."""
    return f"(__INT64_TYPE__)({expression.text})"


# --- variables --------------------------------------------------------------------------------------------------------


def is_template(variable: Variable) -> bool:
    """Return whether a variable stands for a template: it has no memory."""
    return variable.has("template")


def data_address(variable: Variable) -> str:
    """Return a C expression for the address of a variable's data; a null pointer for a template."""
    if is_template(variable):
        return "(void *)0"
    if variable.has_data_behind_pointer:
        return f"(void *)({variable.name})"
    return f"(void *)&({variable.name})"


def data_bytes(variable: Variable) -> str:
    """Return a C expression for the size of a variable's data in bytes; "0" if its declaration does not tell."""
    if is_template(variable):
        return "0"
    if not variable.has_data_behind_pointer:
        return f"sizeof({variable.name})"
    return f"({variable.first}) * sizeof(({variable.name})[0])" if variable.first else "0"


def element_at(variable: Variable, rank: int) -> str:
    """Return C text of an array's first element, for sizeof."""
    return f"({variable.name})" + "[0]" * rank


def array_extents(variable: Variable, rank: int, first_extent: str = "") -> str:
    """Return the extents of an array's dimensions as a C array; `first_extent` stands in for an unknown first one."""
    found: list[str] = []
    for d in range(rank):
        if d == 0 and variable.has_data_behind_pointer:
            found.append(first_extent or (f"(__INT64_TYPE__)({variable.first})" if variable.first else "0"))
        else:
            found.append(f"(__INT64_TYPE__)(sizeof({element_at(variable, d)}) / sizeof({element_at(variable, d + 1)}))")
    return long_array(found)


def reduction_type(variable: Variable) -> str:
    """Return C text from which the compiler makes the runtime's code for the type of a variable's numbers."""
    return f"WEFT_TYPE({element_at(variable, variable.rank)})"


def render_element_count(variable: Variable) -> str:
    """Return a C expression for the number of elements of a variable; "1" for a scalar or where it is not known."""
    if not variable.is_array:
        return "1"
    if variable.has_data_behind_pointer and not variable.first:
        return "1"
    return f"(__INT64_TYPE__)(({data_bytes(variable)}) / sizeof({element_at(variable, variable.rank)}))"


# --- parts of directives ----------------------------------------------------------------------------------------------


def mapping_arguments(subscripts: Sequence[Subscript]) -> tuple[str, str, str, str]:
    """Return the C arguments that tell how loop or array indices map to a target: its number of dimensions, and for
    each of them the index that it depends on (axis[]), the factor (coefficient[]) and the constant added (offset[]).
    """
    axes: list[object] = []
    coefficients: list[object] = []
    offsets: list[object] = []
    for subscript in subscripts:
        if isinstance(subscript, Affine):
            axes.append(subscript.dummy)
            coefficients.append(int64(subscript.coefficient))
            offsets.append(int64(subscript.offset))
        else:
            axes.append("WEFT_CONSTANT" if isinstance(subscript, Constant) else "WEFT_ALL")
            coefficients.append(0)
            offsets.append(int64(subscript.value) if isinstance(subscript, Constant) else 0)
    return str(len(axes)), int_array(axes), long_array(coefficients), long_array(offsets)


def width_arguments(widths: Sequence[Width | NamedEdges] | None) -> tuple[str, str, str]:
    """Return the C arguments for the widths of shadow edges: the number of dimensions, low[], high[]. 0 dimensions mean
    the declared widths.
    """
    if widths is None:
        return "0", "(const __INT64_TYPE__ *)0", "(const __INT64_TYPE__ *)0"
    low = [int64(w.low) if isinstance(w, Width) else 0 for w in widths]
    high = [int64(w.high) if isinstance(w, Width) else 0 for w in widths]
    return str(len(widths)), long_array(low), long_array(high)


def section_arguments(reference: Reference, variable: Variable) -> tuple[str, str, str]:
    """Return the C arguments for the part of an array that a reference names: the number of dimensions, low[], high[].
    0 dimensions mean the whole array.
    """
    if not reference.subscripts:
        return "0", "(const __INT64_TYPE__ *)0", "(const __INT64_TYPE__ *)0"
    low: list[str] = []
    high: list[str] = []
    for d, subscript in enumerate(reference.subscripts):
        last = f"(__INT64_TYPE__)(sizeof({element_at(variable, d)}) / sizeof({element_at(variable, d + 1)})) - 1"
        if isinstance(subscript, Affine):
            raise DirectiveError(
                reference.place, f"`{reference.name}` has a subscript, which is not allowed here: leave it out"
            )
        if isinstance(subscript, Constant):
            low.append(int64(subscript.value))
            high.append(int64(subscript.value))
            continue
        bounds = subscript if isinstance(subscript, Section) else Section(None, None)
        low.append(int64(bounds.low) if bounds.low else "0")
        if bounds.high is None and d == 0 and variable.has_data_behind_pointer:
            last = f"(__INT64_TYPE__)({variable.first}) - 1" if variable.first else "__INT64_MAX__"
        high.append(int64(bounds.high) if bounds.high else last)
    return str(len(low)), long_array(low), long_array(high)


def render_distribution(
    construct_id: int, data_id: int, variable: Variable, axes: Sequence[Axis], task: tuple[int, str] | None
) -> str:
    """Return a C call that distributes an array over the processors. With `task` (the task array's id, the task's index
    as C text) it is distributed only over the processors of that task.
    """
    if task is None:
        return render_call("distribute", construct_id, data_id, data_address(variable), *distribution_kinds(axes))
    return render_call(
        "distribute_onto", construct_id, data_id, data_address(variable), *distribution_kinds(axes), *task
    )


def distribution_kinds(axes: Sequence[Axis]) -> tuple[str, str]:
    """Return the C arguments for a distribution: the number of dimensions, and an array with the kind of each."""
    return str(len(axes)), int_array([KINDS[axis.kind] for axis in axes])


def render_block_sizes(data_id: int, variable: Variable, axes: Sequence[Axis]) -> str:
    """Return C code that reports the sizes or weights of blocks to the runtime. The program gives them in an array,
    with `genblock` or `wgtblock`; for dimensions with another distribution nothing is added.
    """
    found: list[str] = []
    for d, axis in enumerate(axes):
        if axis.argument is None or axis.kind not in ("wgtblock", "genblock"):
            continue
        array = axis.argument.text
        many = int64(axis.size) if axis.size else f"(__INT64_TYPE__)(sizeof({array}) / sizeof(({array})[0]))"
        found.append(
            f"{{ const __INT64_TYPE__ weft_n = {many}; double weft_sizes[weft_n > 0 ? weft_n : 1]; "
            f"for (__INT64_TYPE__ weft_k = 0; weft_k < weft_n; weft_k++) weft_sizes[weft_k] = ({array})[weft_k]; "
            + render_call("blocks", data_id, data_address(variable), d, "weft_n", "weft_sizes")
            + " }"
        )
    return " ".join(found)
