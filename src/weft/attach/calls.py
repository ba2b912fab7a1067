"""Find the MPI call in a stack, where the program's own frames end, and the arguments in the program's source line."""

from __future__ import annotations

import ast
import operator
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from weft.attach.model import Argument, Call, Frame, Stack
from weft.mpi.table import functions_by_name
from weft.sources import files
from weft.sources.call_arguments import find_call_arguments
from weft.sources.statement import find_statement
from weft.trace.sites import CallSite

STARTS: Final = re.compile(
    r"_start|_dl_.*|__libc_start_(main|call_main)\S*|start_thread|__?_?clone3?|\(below main\)|<main program>"
)
"""Functions beneath a program's own."""
FORTRAN_FILE: Final = re.compile(r"\.(f|for|ftn|f77|f90|f95|f03|f08|f18)$", re.I)
MPI_LIBRARY: Final = re.compile(r"/(lib(p?mpi|mpich|open-(pal|rte)|uc[pst]|fabric|pmix|event)\w*[.-]|mca_)[^/]*$")
MPI4PY: Final = re.compile(r"/mpi4py/[^/]*\.so$")
UNNAMED: Final = "a function of MPI"
"""The call of a thread in MPI's library of which no name is known."""
OWN_THREADS: Final = re.compile(r"/weft/(watchdogs|pytest_plugin)/\w+\.py$")
MEETING: Final = re.compile(r"/weft/pytest_plugin/meeting\.py$")
"""Where a rank of a suite waits until the others are through with a test."""
TOLD_KINDS: Final = frozenset(("RANK", "RANK_NNI", "TAG", "COMMUNICATOR"))
"""Parameters that say whom a call waits for."""
PLAIN: Final = re.compile(r"[\w\s.+*/%()\[\]>-]+")
"""An expression in which nothing is assigned, and, without `name(`, nothing called."""
CALLS: Final = re.compile(r"\w\s*\(|--|\+\+")

NAMED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("send", "ssend", "bsend", "rsend", "isend", "issend"), ("buf", "dest", "tag")),
    **dict.fromkeys(("recv", "irecv"), ("buf", "source", "tag")),
    **dict.fromkeys(("probe", "iprobe", "mprobe", "improbe"), ("source", "tag")),
    "sendrecv": ("sendbuf", "dest", "sendtag", "recvbuf", "source", "recvtag"),
    **dict.fromkeys(("bcast", "ibcast"), ("buf", "root")),
    **dict.fromkeys(
        ("gather", "scatter", "igather", "iscatter", "gatherv", "scatterv"), ("sendbuf", "recvbuf", "root")
    ),
    **dict.fromkeys(("reduce", "ireduce"), ("sendbuf", "recvbuf", "op", "root")),
}
"""What the arguments of mpi4py's methods are called, by the method in small letters."""
OBJECTS: Final[dict[str, tuple[str, ...]]] = {"gather": ("sendobj", "root"), "scatter": ("sendobj", "root"),
                                              "reduce": ("sendobj", "op", "root")}  # fmt: skip
"""Of those in small letters that differ."""
OPERATORS: Final[dict[type[ast.AST], Callable[[int, int], int]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitXor: operator.xor,
}  # fmt: skip


@cache
def _known() -> dict[str, str]:
    return {name.lower(): name.removesuffix("_c") for name in functions_by_name()}


def preload_table() -> None:
    """Read the table of MPI's functions now, while others work: it takes longer than all the rest here."""
    _known()


@cache
def canonical_name(function: str) -> str | None:
    """Return the name of an MPI function as in C, such as `MPI_Recv`, for its symbol in C, Fortran or a profiling
    library. None for other symbols.
    """
    name = function.lower().removesuffix("_impl").rstrip("_")
    name = name[1:] if name.startswith("pmpi_") else name
    for ending in ("", "_f08ts", "_f08", "_cdesc", "_f"):
        if name.endswith(ending) and (found := _known().get(name.removesuffix(ending))):
            return found
    return None


def find_mpi_function(frame: Frame) -> str | None:
    """Return the MPI function that a frame is in."""
    return None if frame.python else canonical_name(frame.site.function or "")


def split_stack(frames: Sequence[Frame]) -> tuple[Stack, str | None, Stack]:
    """Return (the program's frames, the MPI function that they called, the frames inside MPI), frames outermost first.
    The function is None if the thread is not in MPI.

    `frames`: innermost first. Of mpi4py's frames only the method is kept; frames that start the program are dropped.
    """
    outer = list(reversed(frames))
    found = next(((i, name) for i, frame in enumerate(outer) if (name := find_mpi_function(frame))), None)
    own, inside = split_at_mpi(outer, found[0] if found else find_unnamed_mpi(outer))
    name = found[1] if found else UNNAMED if inside else None
    return own, name, inside


def find_unnamed_mpi(frames: Sequence[Frame]) -> int:
    """Return the index of the first frame that is in MPI's library, for a stack in which no MPI function is known by
    name. Without such a frame, return the number of frames. `frames`: outermost first.
    """
    return next((i for i, frame in enumerate(frames) if is_mpi(frame) and not is_mpi4py(frame)), len(frames))


def split_at_mpi(frames: Sequence[Frame], mpi_index: int) -> tuple[Stack, Stack]:
    """Return (the program's frames, the frames inside MPI), outermost first. Frames that start the program are dropped.

    `frames`: outermost first. `mpi_index`: the index of the first frame inside MPI, the number of frames if there is
    none.
    """
    begin = next((i for i, frame in enumerate(frames) if frame.python), 0)  # the interpreter's own frames lie beneath
    own = [frame for frame in frames[begin:mpi_index] if not is_start_or_unknown(frame)]
    own = own[: 1 + next((i for i, frame in enumerate(own) if is_suite_wait(frame)), len(own))]
    if len(own) > 1 and own[0].site.function == "main" and (own[1].site.function or "") in ("MAIN__", "main"):
        own = own[1:]  # gfortran's own, before the program
    if len(own) > 1 and own[0].site.function == "main" and FORTRAN_FILE.search(own[1].site.file or ""):
        own = own[1:]
    cut = len(own)
    while mpi_index < len(frames) and cut and not own[cut - 1].python and is_mpi(own[cut - 1]):
        cut -= 1
    return tuple(own[:cut]), (*own[cut:], *frames[mpi_index:])


def is_start_or_unknown(frame: Frame) -> bool:
    """Return whether a frame only starts a program or a thread, or nothing is known about it."""
    if STARTS.fullmatch(frame.site.function or ""):
        return True
    return frame.site.function is None and not frame.site.known


def is_mpi(frame: Frame) -> bool:
    """Return whether a frame belongs to MPI's libraries or to mpi4py."""
    return bool(MPI_LIBRARY.search(frame.site.module or "")) or is_mpi4py(frame)


def is_mpi4py(frame: Frame) -> bool:
    """Return whether a frame is of mpi4py's own library."""
    return bool(MPI4PY.search(frame.site.module or ""))


def is_library_thread(stack: Stack, mpi_function: str | None) -> bool:
    """Return whether a thread belongs to a library: it executes no line of the program, and no MPI function whose name
    is known.
    """
    return mpi_function in (None, UNNAMED) and not any(frame.python or is_source(frame.site) for frame in stack)


def is_weft_thread(stack: Stack) -> bool:
    """Return whether a thread is one of Weft's own, which watch over a program or its tests."""
    return any(frame.python and OWN_THREADS.search(frame.site.file or "") for frame in stack)


def is_suite_wait(frame: Frame) -> bool:
    """Return whether a frame is of Weft's function in which a rank of a test suite waits for the other ranks. The calls
    inside are of no interest.
    """
    function = frame.site.function or ""
    return frame.python and function.endswith("wait_for_all_ranks") and bool(MEETING.search(frame.site.file or ""))


def is_source(site: CallSite) -> bool:
    """Return whether a line is known, and of a file that is here or not the system's."""
    return site.known and not (site.file or "").startswith(("./", "../"))


# The arguments


def find_argument_texts(mpi_function: str, site: CallSite) -> list[tuple[str, str]]:
    """Return (parameter, source text) for the arguments of an MPI call that show for whom it waits, such as source and
    tag. Empty if the statement in the source is not understood.
    """
    function = functions_by_name().get(mpi_function)
    lines = read_statement(site)
    if function is None or not lines:
        return []
    for spelled in (mpi_function, "P" + mpi_function, mpi_function.lower(), mpi_function.upper()):
        texts = find_call_arguments(lines, spelled)
        if texts is not None and len(texts) in (len(function.parameters), len(function.parameters) + 1):  # ierror
            pairs = zip(function.parameters, texts, strict=False)
            return [(p.name, " ".join(text.split())) for p, text in pairs if p.kind in TOLD_KINDS and not p.array]
    return []


def is_safe_to_evaluate(expression: str) -> bool:
    """Return whether a debugger may evaluate an expression in the program: it assigns nothing and calls nothing."""
    return bool(PLAIN.fullmatch(expression)) and not CALLS.search(expression)


def describe_python_call(mpi_function: str, frame: Frame, method: str) -> Call:
    """Return a call of an mpi4py method with its arguments, read from its source line and the values of variables."""
    lines = read_statement(frame.site)
    call = find_call_node(lines, method)
    if call is None:
        return Call(mpi_function, method)
    values = dict(frame.values)
    positions = OBJECTS.get(method) or NAMED.get(method.lower(), ())
    pairs = [*zip(positions, call.args, strict=False), *((word.arg or "", word.value) for word in call.keywords)]
    told = [
        Argument(key, ast.unparse(value), evaluate_as_text(value, values))
        for key, value in pairs
        if key in ("source", "dest", "root", "tag", "sendtag", "recvtag")
    ]
    whom = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return Call(mpi_function, method, tuple(told), is_world(whom, frame.site))


def is_edited(frame: Frame, begin_time: float) -> bool:
    """Return whether a frame's source file was changed after its process began, so that the lines in the file are not
    those that run. `begin_time`: in seconds since 1970.
    """
    try:
        return Path(frame.site.file or "").stat().st_mtime > begin_time
    except OSError:
        return False


def find_call_node(statement_lines: Sequence[str], method: str) -> ast.Call | None:
    """Return the syntax node of the call of a method in a Python statement. None if the statement does not call it, or
    calls it several times.
    """
    text = textwrap.dedent("\n".join(statement_lines))
    for ending in ("", " pass", "\n pass"):
        try:
            tree = ast.parse(text + ending)
        except (SyntaxError, ValueError):
            continue
        calls = [
            node for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
        ]  # fmt: skip
        return calls[0] if len(calls) == 1 else None
    return None


def evaluate_as_text(node: ast.expr, values: dict[str, str]) -> str | None:
    """Return the value of a Python expression of whole numbers and variables as text. None for any other expression.
    `values`: of the variables, by name, as text.
    """
    try:
        return str(evaluate_whole_number(node, values))
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def evaluate_whole_number(node: ast.expr, values: dict[str, str]) -> int:
    """Return the value of a Python expression of whole numbers and variables. KeyError or ValueError for any other
    expression. `values`: of the variables, by name, as text.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.Name):
        return int(values[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -evaluate_whole_number(node.operand, values)
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](
            evaluate_whole_number(node.left, values), evaluate_whole_number(node.right, values)
        )
    raise ValueError


def is_world(communicator: str, site: CallSite) -> bool:
    """Return whether a communicator is certainly MPI_COMM_WORLD: by its name, or as a variable to which the file
    assigns nothing else. `communicator`: its text in the source.
    """
    if re.fullmatch(r"(MPI_|MPI\.)?COMM_WORLD(%MPI_VAL)?", communicator, re.I):
        return True
    file = files.read_source(site.file or "") if re.fullmatch(r"\w+", communicator) else None
    if file is None:
        return False
    gets = re.findall(
        rf"\b{re.escape(communicator)}\s*=(?!=)\s*([\w.]+)|&\s*{re.escape(communicator)}\b", "\n".join(file.lines)
    )
    return bool(gets) and all(re.fullmatch(r"(MPI_|MPI\.)?COMM_WORLD", one, re.I) for one in gets)


def read_statement(site: CallSite) -> list[str]:
    """Return the source lines of the statement at a call site. Empty if the source file is not here, or was changed
    after the program was built.
    """
    path = site.file or ""
    file = files.read_source(path) if path else None
    if file is None or is_newer(path, site.module):
        return []
    found = find_statement(file.lines, 1, site.line, path)
    return list(found.lines) if found else []


@cache
def is_newer(source_path: str, module: str | None) -> bool:
    """Return whether a source file is newer than the module (program or library) that was built from it."""
    try:
        return module is not None and Path(source_path).stat().st_mtime > Path(module).stat().st_mtime
    except OSError:
        return False
