"""Write the page of all functions of the MPI standard: what each means, and how a call of it is recorded.

`python -m weft.mpi.coverage` prints it; `tools/site.py` puts it into the documentation's site.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from weft.mpi import meaning, table
from weft.mpi.meaning import Act, Leaves, Meaning, Mode, Over, Waits
from weft.mpi.table import Function

# Exported by some libraries, and no procedure of the standard: name and why it is not recorded.
BEYOND_THE_STANDARD = (
    (r"MPI_((COMM|TYPE|WIN)_)?(DUP|NULL_COPY|NULL_DELETE)_FN", "a callback that MPI calls, not the program"),
    (r"MPI_CONVERSION_FN_NULL", "a callback that MPI calls, not the program"),
    (r"MPI_(AINT_(ADD|DIFF)|WTIME|WTICK)_F90", "Open MPI's Fortran entry to arithmetic or the clock"),
    (r"MPI_Session_set_info", "Open MPI's own: hints of a session, no communication"),
)
"""Functions that a library exports under MPI_ beside the standard's."""

_TITLES = {
    "buffer": "buffer",
    "count": "count",
    "datatype": "datatype",
    "peer": "rank",
    "tag": "tag or operation",
    "comm": "communicator",
    "object": "object",
    "flag": "flag",
    "status": "status",
}
_INTRODUCTION = """# Coverage: the functions of MPI and how each is recorded

Printed by `python -m weft.mpi.coverage`, from the MPI standard's own table of procedures.

The recorder wraps every function below that the MPI library in use exports, {recorded} of {total}, large-count
forms (`_c`) included. Of each call it keeps the entry and exit time, the thread, the call site, the class of the error
that came back, and the arguments:

- **slot**: the argument has a field of its own in the 56 bytes that each call has ([trace-format.md](trace-format.md));
- **tail, entry**: it is written after that, before MPI is called: known also for a call that never returns;
- **tail, exit**: it came out of the call, and is written when it returns;
- **not kept**: the recorder leaves it out (C's `argc` and `argv`, memory that only MPI may look into).

What a function **means** to the analyses stands first: what it does, whose members call it, before what the standard
lets no member leave, whom it may wait for, what it makes and frees
([how it is stated](decisions/0004-meaning-of-functions.md)).

A function that is **passed through** goes straight to the library, for the reason given.
"""


def explain_unrecorded(name: str) -> str | None:
    """Return why the recorder does not record a function that a library exports. None if it records the function, or if
    no reason is known.
    """
    function = table.functions_by_name().get(name)
    if function is not None:
        return function.passed_through
    return next((why for pattern, why in BEYOND_THE_STANDARD if re.fullmatch(pattern, name)), None)


def find_unexplained(exported: Iterable[str]) -> list[str]:
    """Return the exported functions that are not recorded although no reason is known."""
    known = table.functions_by_name()
    recorded = {name for name, function in known.items() if function.passed_through is None}
    return sorted(name for name in exported if name not in recorded and explain_unrecorded(name) is None)


def _render_row(function: Function) -> str:
    """Return a function's row in the table of all functions, in Markdown."""
    if function.passed_through:
        return f"| `{function.name}` | passed through: {function.passed_through} | | | |"
    slot = [f"{_TITLES[p.place]}: {p.name}" for p in function.parameters if p.place in _TITLES]
    entry = [p.name for p in function.parameters if p.part in ("entry", "both")]
    leaving = [p.name for p in function.parameters if p.part in ("exit", "both")]
    dropped = [p.name for p in function.parameters if p.place == "none"]
    if function.result == "double":
        slot.append("buffer: the result")
    cells = [
        ", ".join(slot),
        ", ".join(entry),
        ", ".join(leaving) + (f" (not kept: {', '.join(dropped)})" if dropped else ""),
    ]
    said = _describe_meaning(meaning.all_meanings()[meaning.base_name(function.name)])
    return f"| `{function.name}` | " + " | ".join(cell.strip() for cell in (said, *cells)) + " |"


_PROMISES = {
    Leaves.AFTER_ALL: "each leaves after all have come",
    Leaves.AFTER_ROOT: "others leave after the root has come",
    Leaves.ROOT_AFTER_ALL: "the root leaves after all have come",
    Leaves.AFTER_LOWER: "each leaves after all lower ranks have come",
    Leaves.AFTER_LOWER_ALONE: "each leaves after all lower ranks have come",
    Leaves.FENCE: "each leaves after all have come, unless an assertion says otherwise",
    Leaves.AFTER_NEIGHBOURS: "each leaves after its neighbours have come",
    Leaves.AFTER_PEER: "done only with the other side",
}


def _objects(classes: Iterable[str]) -> str:
    return ", ".join(_NOUNS.get(name, name.lower()) for name in classes)


_NOUNS = {"COMM": "communicator", "OP": "operation", "INFO": "info object", "ERRHANDLER": "error handler"}


def _describe_act(row: Meaning) -> str:
    """Return in words what a function does, such as `collective over the communicator: data`."""
    if row.act is Act.COLLECTIVE:
        return f"collective over the {row.over.value}: {'data' if row.moves else row.topic}"
    if row.act is Act.LOCAL:
        return f"{row.topic}: {row.act.value}"
    return f"{row.act.value}, together with its {row.over.value}" if row.over is not Over.NOBODY else f"{row.act.value}"


def _describe_meaning(row: Meaning) -> str:
    """Return a function's row in the table of meanings, in words."""
    parts = [_describe_act(row), f"{row.form.value} form of {row.kin}" if row.kin != row.name else ""]
    parts += [row.mode.value if row.mode is not Mode.STANDARD else "", _PROMISES.get(row.leaves, "")]
    parts += [f"may wait for {row.waits.value}" if row.waits is not Waits.NOBODY else ""]
    parts += [f"makes: {_objects(row.makes)}" if row.makes else ""]
    parts += [f"frees: {_objects((row.frees,))}" if row.frees else ""]
    return "; ".join(filter(None, parts))


def render_page() -> str:
    """Return the page on all functions of MPI, in Markdown: what each means to Weft, and how it is recorded."""
    functions = table.all_functions()
    recorded = sum(f.passed_through is None for f in functions)
    return (
        "\n".join(
            [
                _INTRODUCTION.format(recorded=recorded, total=len(functions)),
                *_render_table(functions),
                *_render_functions_beyond_standard(),
            ]
        )
        + "\n"
    )


def _render_table(functions: Iterable[Function]) -> Iterator[str]:
    """Yield the lines of the table of functions."""
    yield "| function | means | slot | tail, entry | tail, exit |"
    yield "|---|---|---|---|---|"
    yield from (_render_row(function) for function in functions)


def _render_functions_beyond_standard() -> Iterator[str]:
    """Yield the lines of the section on functions that libraries have in addition to the standard's."""
    yield ""
    yield "## Beside the standard"
    yield ""
    yield "What libraries export under `MPI_` and the standard does not list as a procedure, none of it recorded:"
    yield ""
    yield "| names (regular expression) | why |"
    yield "|---|---|"
    for pattern, why in BEYOND_THE_STANDARD:
        escaped = pattern.replace("|", "\\|")
        yield f"| `{escaped}` | {why} |"


if __name__ == "__main__":
    sys.stdout.write(render_page())
