"""The message of each finding of `weft check` for DVM and Numba programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.dataparallel.raw_findings import RawFinding
from weft.dataparallel.source_map import AccessPlace, SourceMap
from weft.sources import current_files

OPERATIONS: Final = (
    "",
    "sum",
    "product",
    "max",
    "min",
    "and",
    "or",
    "xor",
    "eqv",
    "neqv",
    "logical and",
    "logical or",
    "maxloc",
    "minloc",
)
"""Names of the runtime's WEFT_SUM, ..."""

NO_ROOM: Final = (
    "Weft found no room for its copy of the program's memory: remove the memory limit, and limit the stack "
    "(ulimit -v unlimited; ulimit -s 8192)"
)
STACK_FULL: Final = (
    "its stack of {size:,} KiB was full: allow a larger one, but not an unlimited one (ulimit -s 8000000)"
)

USAGE: Final = {
    "undistributed-on": "`{name}` in the on clause is not distributed; distribute or align it first",
    "undistributed": "`{name}` is not distributed; distribute or align it first",
    "unknown-array": "no directive has declared the array `{name}` before this line; declare it first",
}
"""What the runtime calls a program that cannot be checked."""

DIRECTIVES: Final = {
    "shadow-start": "starts the renewal of a shadow group that holds no array",
    "shadow-wait": "waits for a shadow group whose renewal was not started",
    "reduction-start": "starts a reduction group to which no loop belongs",
    "consistent-start": "starts a consistent group to which no loop belongs",
    "consistent-wait": "waits for a consistent group that was not started",
    "reduction-wait": "waits for a reduction group that was not started",
    "shadow-twice": "starts the renewal of a shadow group again that no wait has completed",
    "reduction-twice": "starts a reduction group again that no wait has completed",
    "copy-twice": "starts an asynchronous copy again that no ASYNCWAIT has completed",
    "copy-wait": "waits for an asynchronous copy that was not started",
    "copy-unwaited": "starts an asynchronous copy that no ASYNCWAIT completes",
    "on-deferred": "runs on an array or template that no `redistribute` or `realign` has distributed yet",
    "edge-unknown": "renews a shadow edge that no `shadow_add` has made",
    "remote-prefetch": "fetches a remote group again that no loop has used since",
}

PARAMETERS: Final = {
    "on": "{start} is to run on index {value} of dimension {dimension} of {name}, which goes over {low}..{high}",
    "align": "{start} puts an element of {name} on index {value} of dimension {dimension} of its target, which goes "
    "over {low}..{high}",
    "genblock": "{start} gives dimension {dimension} of {name} blocks of {value} elements in total; that dimension "
    "has {high}",
    "across": "{start} names edges of {value} in dimension {dimension} of {name}, whose shadow edge is {high} wide",
    "task": "{start} names task {value} of {name}, which has tasks {low}..{high}",
}
"""What is said of a number of a directive that does not fit what was declared."""

_MESSAGES: Final[dict[tuple[str, str], str]] = {
    (
        "loop-dependence",
        "flow",
    ): "{iteration} reads {element}, which {other} writes: the iterations are not independent",
    (
        "loop-dependence",
        "anti",
    ): "{iteration} writes {element}, which {other} reads: the iterations are not independent",
    ("loop-dependence", "output"): "{iteration} writes {element}, which {other} writes too",
    ("loop-dependence", "task"): "{iteration} {does} {element}, which another task {other_does}",
    ("uninitialised-read", ""): "{iteration} reads {element}, which has no value yet",
    ("uninitialised-read", "private"): "{iteration} reads the private {element} before it has stored a value there",
    ("uninitialised-read", "iteration"): (
        "{iteration} reads {element} before it has stored a value there: only {other} did, in a copy of its own"
    ),
    ("uninitialised-read", "after"): (
        "{iteration} reads {element} after the loop that wrote it: its value there belonged to one iteration"
    ),
    (
        "uninitialised-read",
        "was-private",
    ): "{iteration} reads {element}, which has no value there: it was private in the loop before",
    (
        "uninitialised-read",
        "region-out",
    ): "{iteration} reads {element}, which the region takes only `out`: it has no value there",
    (
        "uninitialised-read",
        "region-local",
    ): "{iteration} reads {element}, which is `local` to the region: it has no value there yet",
    (
        "uninitialised-read",
        "was-local",
    ): "{iteration} reads {element}, whose value was `local` to a region that has ended",
    (
        "shared-write",
        "undeclared",
    ): "{iteration} writes {element}, which is neither private nor a reduction of the loop",
    ("shared-write", "read-first"): (
        "{iteration} writes {element}, which {other} reads: every processor has its own copy, and they differ then"
    ),
    (
        "shared-write",
        "consistent",
    ): (
        "{iteration} writes {element}, which `consistent` does not assign to it{distance}: the other processors never "
        "get the new value"
    ),
    ("shared-write", "flow"): "{iteration} reads {element}, which {other} writes: all iterations share it",
    ("shared-write", "anti"): "{iteration} writes {element}, which {other} reads: all iterations share it",
    ("shared-write", "output"): "{iteration} writes {element}, which {other} writes too: all iterations share it",
    ("shared-write", "task"): "{iteration} {does} {element}, which another task {other_does}",
    ("early-reduction-use", "read"): "{iteration} reads {element} before its reduction is complete",
    ("early-reduction-use", "written"): "{iteration} writes {element} before its reduction is complete",
    ("early-copy-use", "read"): "{iteration} reads {element}, to which an asynchronous copy is still pending",
    ("early-copy-use", "written"): "{iteration} writes {element}, to which an asynchronous copy is still pending",
    ("early-copy-use", "source"): "{iteration} writes {element}, from which an asynchronous copy is still pending",
    ("early-reduction-use", "in-loop"): (
        "the loop's results depend on the partial value of its reduction {element}: {array} differs when each "
        "iteration begins with the neutral element"
    ),
    ("out-of-bounds", ""): "{iteration} {does} {element}, outside its array{bounds}",
    ("out-of-bounds", "heap"): "{iteration} {does} memory past the end of its block",
    (
        "remote-access",
        "",
    ): "{iteration} {does} {element}, which belongs to another processor and was not declared{distance}",
    ("remote-access", "sequential"): (
        "{element} is read outside parallel constructs, where only its owner has its value: add remote_access"
    ),
    (
        "remote-access",
        "buffer-write",
    ): "{iteration} writes {element} in the buffer of remote_access: its owner never receives the new value",
    (
        "remote-access",
        "not-filled",
    ): "{iteration} reads {element} from the buffer of remote_access before that was filled",
    (
        "remote-access",
        "changed",
    ): "{iteration} reads {element} from the buffer of remote_access, but it changed after that was filled",
    ("remote-access", "localize"): (
        "{element} is {number}, the index of an element of {array} that its processor neither owns nor has in a "
        "shadow edge"
    ),
    ("remote-access", "otherwise"): (
        "{iteration} {does} {element}, which belongs to another processor: its array is distributed differently from "
        "the one in the loop's ON, and not aligned with it"
    ),
    ("remote-access", "task"): "{iteration} {does} {element}, which is distributed onto another task",
    (
        "halo-write",
        "",
    ): "{iteration} writes the shadow element {element}{distance}: its owner never receives the new value",
    ("stale-halo-read", "never"): "{iteration} reads the shadow element {element}{distance}, which was never renewed",
    (
        "stale-halo-read",
        "begun",
    ): "{iteration} reads the shadow element {element}{distance} before its renewal is complete",
    (
        "stale-halo-read",
        "narrow",
    ): "{iteration} reads the shadow element {element}{distance}, beyond the widths that were renewed",
    (
        "stale-halo-read",
        "corner",
    ): "{iteration} reads the shadow element {element}{distance}, a corner, and corners were not renewed",
    (
        "stale-halo-read",
        "changed",
    ): "{iteration} reads the shadow element {element}{distance}, which its owner changed after the renewal",
    ("stale-copy", "actual"): "{iteration} reads {element} in a region, but the host changed it after the last actual",
    (
        "stale-copy",
        "get_actual",
    ): "{iteration} reads {element} on the host, but a region changed it after the last get_actual",
    ("stale-copy", "overwritten"): (
        "{iteration} reads {element} in a region, but an actual has overwritten it with the host's old copy: put a "
        "get_actual before that actual"
    ),
    ("stale-copy", "in-written"): "{iteration} writes {element}, which the region takes only `in`: the change is lost",
    (
        "wrong-reduction",
        "",
    ): "the reduction of {element} is declared {operation}, which gives {expected}; the loop computes {got}",
    (
        "wrong-reduction",
        "location",
    ): "the {operation} of {element} gets the right value, but the loop leaves another location",
}


ITSELF: Final = (
    "{iteration} reads {element} and then writes it: every processor has its own copy, and the copies then differ"
)


def render_message(record: RawFinding, source_map: SourceMap) -> str:
    """Return the sentence for a raw finding, chosen by its kind and case."""
    if record.kind == "directive-order":
        return f"`{record.construct.text or record.construct.kind}` {DIRECTIVES[record.why]}"
    if record.kind == "out-of-bounds" and record.value is not None:
        return _render_parameter_message(record) if record.why in PARAMETERS else _render_bounds_message(record)
    itself = record.why == "read-first" and record.other == record.iteration
    form = ITSELF if itself else _MESSAGES.get((record.kind, record.why)) or _MESSAGES[record.kind, ""]
    text = form.format(
        iteration=_describe_iteration(record, record.iteration),
        other=_describe_iteration(record, record.other, "another iteration"),
        element=record.element,
        does="writes" if record.write else "reads",
        other_does="uses" if record.write else "writes",
        distance=_describe_distance(record),
        bounds="",
        array=_array_name(record, source_map),
        operation=OPERATIONS[record.operation],
        expected=record.expected,
        got=record.got,
        number=record.number,
    )
    if record.construct.kind == "task_region":
        text = text.replace("the loop computes", "the tasks compute")
    return text[0].upper() + text[1:] if text[0] != "`" else text


def _array_name(record: RawFinding, texts: SourceMap) -> str:
    variable = texts.variables.get(record.array)
    return f"`{variable.name}`" if variable else "an array"


def _describe_iteration(record: RawFinding, index: Sequence[int] | None, text_without_index: str = "") -> str:
    """Return words for the code that made an access: an iteration (`iteration i=3, j=4 of the loop at line 8`), a
    task, or the sequential part.

    `index`: the values of the loop's variables. `text_without_index`: words to return if there is no index; if they
    are given, an iteration is named without its loop.
    """
    if index:
        names = record.construct.indices
        parts = [f"{names[k]}={i}" if k < len(names) else str(i) for k, i in enumerate(index)]
        return (
            f"iteration {', '.join(parts)} of the loop at line {record.construct.line}"
            if not text_without_index
            else (f"iteration {', '.join(parts)}")
        )
    if text_without_index:
        return text_without_index
    return "the sequential part" if record.task is None else f"task {record.task}"


def _describe_distance(record: RawFinding) -> str:
    """Return how far the element is from the iteration's own part: ` (+1 in dimension 2)`; "" if unknown."""
    parts = [f"{d:+d} in dimension {k}" for k, d in enumerate(record.delta or (), 1) if d]
    return f" ({', '.join(parts)})" if parts else ""


def _render_bounds_message(record: RawFinding) -> str:
    """Return the message for an access outside its array: the index, and the array's bounds."""
    if record.type:
        known = find_array_name_at(record.place)
        name = f"`{known}`" if known else "an array"
        extent = re.search(r"\[(\d+)\]", record.type)
        over = f"0..{int(extent[1]) - 1}" if extent else record.type
    else:
        dimension = f" in dimension {record.dimension}" if record.dimension else ""
        name, over = f"{_variable_name(record)}{dimension}", f"{record.low}..{record.high}"
    return f"{_sentence_start(record)} uses index {record.value} of {name}, which goes over {over}"


def _render_parameter_message(record: RawFinding) -> str:
    """Return the message for a number in a directive that does not fit a declaration, such as an index or a width."""
    start = f"`{record.construct.text or record.construct.kind}`" if record.why != "on" else _sentence_start(record)
    return PARAMETERS[record.why].format(
        start=start,
        name=_variable_name(record),
        dimension=record.dimension,
        value=record.value,
        low=record.low,
        high=record.high,
    )


def _variable_name(record: RawFinding) -> str:
    return f"`{record.variable.name}`" if record.variable else "an array"


def _sentence_start(record: RawFinding) -> str:
    text = _describe_iteration(record, record.iteration)
    return text[0].upper() + text[1:]


def find_array_name_at(place: AccessPlace) -> str:
    """Return the name of the array that is indexed at the line and column of a place; "" if no array is indexed
    there."""
    line = current_files.line(place.file, place.line)
    before = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*\[?$", line[: max(place.column - 1, 0)])
    return before[1] if before else ""


def find_name_column(place: AccessPlace, name: str) -> int:
    """Return the column (from 1) at which a name first occurs in the source line of a place; 0 if it does not."""
    if not name or not place.file or not Path(place.file).is_file():
        return 0
    found = re.search(rf"\b{re.escape(name)}\b", current_files.line(place.file, place.line), re.IGNORECASE)
    return found.start() + 1 if found else 0
