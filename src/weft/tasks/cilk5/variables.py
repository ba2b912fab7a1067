"""Finds a variable of a Cilk procedure by its name in the source, wherever cilk2c has put it.

A fast clone has all variables as C has. A slow clone, which runs what was stolen, has those that live across spawns in
the procedure's frame, in one `scopeN` for each block; of the others it takes back what it needs, and the rest is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from weft.errors import DebuggerError
from weft.tasks.cilk5.build import Procedures

CLONE = re.compile(r"_cilk_(\w+)_slow$")
INLET = re.compile(r"_inlet(_fast|_slow)?$")
NAME = re.compile(r"(?<![\w.$>])[A-Za-z_]\w*(?!\w|\s*\()")
"""A name that is neither a field of something nor called."""
GONE = "not used any more when another worker took the task up: as it was kept before, unless assigned since"

Value = Callable[[str], str]


def source_name(function: str, procedures: Collection[str]) -> str:
    """Return a function's name in the source: that of the procedure for its clones, of the inlet for its copies."""
    found = CLONE.match(function)
    name = found[1] if found else function
    if (inlet := find_inlet(function, procedures)) is not None:
        name = inlet[1]
    return "main" if name == "cilk_main" else name


def find_inlet(function: str, procedures: Collection[str]) -> tuple[str, str] | None:
    """Return the procedure and the name of an inlet, by cilk2c's name for one of its copies; None
    for other functions.
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


def evaluate_in_procedure(text: str, place: Cilk5Frame, procedures: Procedures, value: Value) -> str:
    """Evaluate an expression in a frame of a procedure. `value`: returns the value of an expression in C's names.

    DebuggerError for a variable that is stored nowhere.
    """
    function, here, entry = place.function, place.here, place.entry
    inlet = find_inlet(function, procedures.scopes)
    slow = None if inlet else CLONE.match(function)
    owner = slow[1] if slow else inlet[0] if inlet else ""
    if owner not in procedures.scopes:
        return value(text)
    gone: list[str] = []

    def home(found: re.Match[str]) -> str:
        name = found[0]
        places = [scope for scope, variable in procedures.scopes[owner] if variable == name]
        if inlet is not None and name not in here and "_cilk_inletargs" in here:
            try:
                value(f"_cilk_inletargs->{name}")
            except DebuggerError:
                pass
            else:
                return f"_cilk_inletargs->{name}"
        if not places:
            return name
        if name in here:
            kept = procedures.kept.get((owner, entry))
            if slow is None or kept is None or name in kept:
                return name
            if name not in procedures.saved.get(owner, frozenset()):
                raise DebuggerError(
                    f"{name} was not kept when another worker took the task up: the rest of it does not use it"
                )
            gone.append(name)
        return f"_cilk_frame->scope{_only(name, places)}.{name}"

    told = value(NAME.sub(home, text))
    return f"{told} ({', '.join(gone)}: {GONE})" if gone else told


def _only(name: str, places: list[int]) -> int:
    if len(places) > 1:
        several = " or ".join(f"_cilk_frame->scope{place}.{name}" for place in places)
        raise DebuggerError(f"several blocks of the procedure have a {name}: print {several}")
    return places[0]
