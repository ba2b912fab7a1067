"""Finds a variable of a Cilk procedure by its name in the source, wherever cilk2c has put it.

A fast clone has all variables as C has. A slow clone, which runs what was stolen, has those that live across spawns in
the procedure's frame, in one `scopeN` for each block; of the others it takes back what it needs, and the rest is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from weft.cilk.cilk5.build import Procedures
from weft.errors import DebuggerError

CLONE = re.compile(r"_cilk_(\w+)_slow$")
INLET = re.compile(r"_inlet(_fast|_slow)?$")
NAME = re.compile(r"(?<![\w.$>])[A-Za-z_]\w*(?!\w|\s*\()")
"""A name that is neither a field of something nor called."""
GONE = "no longer used when another worker took over the task: this is the value that it had when it was last saved"

Value = Callable[[str], str]


def name_in_source(function: str, procedures: Collection[str]) -> str:
    """Return the name that a function has in the source, given cilk2c's name for a copy (clone) of a procedure or
    inlet.
    """
    found = CLONE.match(function)
    name = found[1] if found else function
    if (inlet := find_inlet(function, procedures)) is not None:
        name = inlet[1]
    return "main" if name == "cilk_main" else name


def find_inlet(function: str, procedures: Collection[str]) -> tuple[str, str] | None:
    """Return (procedure, inlet) if a function in C is cilk2c's copy of an inlet; None for other functions. `function`:
    its name in C; `procedures`: the names of all procedures.
    """
    if not INLET.search(function):
        return None
    bare = INLET.sub("", function.removeprefix("_cilk_"))
    owner = max((name for name in procedures if bare.startswith(f"{name}_")), key=len, default=None)
    return (owner, bare[len(owner) + 1 :]) if owner else None


@dataclass(frozen=True, slots=True)
class Cilk5Frame:
    """A frame of a task: its function in C, its variables in C, and where its slow clone took the task up."""

    function: str
    here: Collection[str]
    entry: int = 0


def evaluate_in_procedure(expression: str, frame: Cilk5Frame, procedures: Procedures, evaluator: Value) -> str:
    """Return the value of an expression with the source's names of variables, in a frame of a Cilk procedure.

    `evaluator`: returns the value of an expression with cilk2c's names, as text. The text names the variables whose
    values may be old. DebuggerError for a variable that is stored nowhere.
    """
    function, here, entry = frame.function, frame.here, frame.entry
    inlet = find_inlet(function, procedures.scopes)
    slow = None if inlet else CLONE.match(function)
    owner = slow[1] if slow else inlet[0] if inlet else ""
    if owner not in procedures.scopes:
        return evaluator(expression)
    gone: list[str] = []

    def name_in_c(found: re.Match[str]) -> str:
        """Return the C expression for the variable whose name in the source was found. That is the same name, a member
        of the inlet's arguments, or a member of the procedure's frame on the heap. DebuggerError if the variable has no
        value any more.
        """
        name = found[0]
        blocks = [scope for scope, variable in procedures.scopes[owner] if variable == name]
        if inlet is not None and name not in here and "_cilk_inletargs" in here:
            try:
                evaluator(f"_cilk_inletargs->{name}")
            except DebuggerError:
                pass
            else:
                return f"_cilk_inletargs->{name}"
        if not blocks:
            return name
        if name in here:
            kept = procedures.kept.get((owner, entry))
            if slow is None or kept is None or name in kept:
                return name
            if name not in procedures.saved.get(owner, frozenset()):
                raise DebuggerError(
                    f"{name} has no value any more: another worker took up the task, whose rest does not use {name}"
                )
            gone.append(name)
        return f"_cilk_frame->scope{_single_block(name, blocks)}.{name}"

    told = evaluator(NAME.sub(name_in_c, expression))
    return f"{told} ({', '.join(gone)}: {GONE})" if gone else told


def _single_block(name: str, blocks: list[int]) -> int:
    """Return the only element of `blocks`, the numbers of the procedure's blocks that have a variable called `name`.
    DebuggerError if there are several.
    """
    if len(blocks) > 1:
        several = " or ".join(f"_cilk_frame->scope{place}.{name}" for place in blocks)
        raise DebuggerError(f"several blocks of the procedure have a {name}: print {several}")
    return blocks[0]
