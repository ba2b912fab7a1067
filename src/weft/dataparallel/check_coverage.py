"""Tell what a check covered and what it did not, so that a clean result is not mistaken for more than it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.base.words import plural
from weft.dataparallel.runtime_output import RuntimeOutput
from weft.dataparallel.source_map import SourceConstruct, SourceMap

LOOPS: Final = frozenset(("parallel", "prange"))
WORK: Final = LOOPS | {"on", "task_region", "region", "remote_access", "own", "own computations", "task"}
"""Constructs whose accesses are compared with what was declared; the others only declare or move."""
NO_DIRECTIVES: Final = frozenset(("own", "own computations"))
"""Constructs that no directive asks for."""
MOST_PLACES: Final = 4


@dataclass(frozen=True, slots=True)
class ConstructRun:
    """A construct that ran: how often, and with how many iterations in all."""

    construct: SourceConstruct
    times: int
    iterations: int

    def to_json(self) -> dict[str, Any]:
        """Return the construct's kind, place and text, and how often it and its iterations ran, as JSON values."""
        one = self.construct
        return {
            "kind": one.kind,
            "file": one.file,
            "line": one.line,
            "text": one.text,
            "times": self.times,
            "iterations": self.iterations,
        }


@dataclass(frozen=True, slots=True)
class CheckCoverage:
    """The constructs that ran, in the order of their first run, how many places were checked, and what was not."""

    ran: tuple[ConstructRun, ...] = ()
    places: int = 0
    unchecked: tuple[str, ...] = ()
    full_stack: int = 0
    """The KiB of the stack that was too small for the program; 0: it was not."""

    @property
    def is_empty(self) -> bool:
        """Return whether no access was compared with what a directive promises."""
        return not any(one.construct.kind in WORK for one in self.ran)

    def to_json(self) -> dict[str, Any]:
        """Return how many directives, loops, iterations and places of accesses were checked, and what was not, as JSON
        values.
        """
        loops = [one for one in self.ran if one.construct.kind in LOOPS]
        written = [one for one in self.ran if one.construct.kind not in NO_DIRECTIVES]
        return {
            "directives": len(written),
            "loops": len(loops),
            "instances": sum(one.times for one in loops),
            "iterations": sum(one.iterations for one in loops),
            "places": self.places,
            "not": list(self.unchecked),
        }


def summarize_coverage(
    output: RuntimeOutput, source_map: SourceMap, other_unchecked: Iterable[str] = ()
) -> CheckCoverage:
    """Return what a run of a checked program covered, from the runtime's output. `other_unchecked`: further phrases for
    what was not checked.
    """
    ran = tuple(
        ConstructRun(source_map.constructs[id], *counts)
        for id, counts in output.construct_runs.items()
        if id in source_map.constructs
    )
    return CheckCoverage(
        ran,
        output.places,
        (*source_map.unchecked, *_describe_never_run(source_map, output.construct_runs), *other_unchecked),
        output.stack,
    )


def _describe_never_run(source_map: SourceMap, construct_ids: Iterable[int]) -> Iterator[str]:
    """Yield one phrase that counts the parallel loops which never ran; nothing if all ran. `construct_ids`: ids of the
    constructs that ran.

    A loop of a Numba function has one entry for each compilation; if one of these ran, the loop counts as run.
    """
    done = {(one.file, one.line) for id in construct_ids if (one := source_map.constructs.get(id)) is not None}
    never = {(one.file, one.line) for one in source_map.constructs.values() if one.kind in LOOPS} - done
    if never:
        yield f"{plural(len(never), 'parallel loop')} that never ran ({format_places(sorted(never))})"


def format_places(places: Sequence[tuple[str, int]]) -> str:
    """Return (file, line) pairs as text: `a.c:4, 12; b.c:7 and 3 more`."""
    lines: dict[str, list[str]] = defaultdict(list)
    for file, line in places[:MOST_PLACES]:
        lines[file].append(str(line))
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return "; ".join(f"{file}:{', '.join(held)}" for file, held in lines.items()) + more


def render_coverage(coverage: CheckCoverage) -> str:
    """Return the sentence `Checked: 12 directives, 3 parallel loops (40 runs, 64,000 iterations), memory accesses at 57
    places`.
    """
    held = coverage.to_json()
    counts = f"{plural(held['instances'], 'run')}, {plural(held['iterations'], 'iteration')}"
    loops = f"{plural(held['loops'], 'parallel loop')} ({counts})"
    directives = plural(held["directives"], "directive")
    accesses = f"memory accesses at {plural(held['places'], 'place')}" if held["places"] else "no memory access"
    return f"Checked: {directives}, {loops}, {accesses}"
