"""What a check looked at, and what it did not: no all-clear without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.base.words import plural
from weft.dataparallel.runtime_output import Told
from weft.dataparallel.source_map import Construct, Texts

LOOPS: Final = frozenset(("parallel", "prange"))
WORK: Final = LOOPS | {"on", "task_region", "region", "remote_access", "own", "own computations", "task"}
"""Constructs whose accesses are compared with what was declared; the others only declare or move."""
NO_DIRECTIVES: Final = frozenset(("own", "own computations"))
"""Constructs that no directive asks for."""
MOST_PLACES: Final = 4


@dataclass(frozen=True, slots=True)
class Ran:
    """A construct that ran: how often, and with how many iterations in all."""

    construct: Construct
    times: int
    iterations: int

    def to_json(self) -> dict[str, Any]:
        """The same as numbers and texts."""
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
class Looked:
    """What ran, in the order of its first time; the places whose accesses were looked at; what was left out."""

    ran: tuple[Ran, ...] = ()
    places: int = 0
    left: tuple[str, ...] = ()
    full_stack: int = 0
    """The KiB of the stack that was too small for the program; 0: it was not."""

    @property
    def nothing(self) -> bool:
        """Whether no access was compared with any promise."""
        return not any(one.construct.kind in WORK for one in self.ran)

    def to_json(self) -> dict[str, Any]:
        """The same as numbers and texts."""
        loops = [one for one in self.ran if one.construct.kind in LOOPS]
        written = [one for one in self.ran if one.construct.kind not in NO_DIRECTIVES]
        return {
            "directives": len(written),
            "loops": len(loops),
            "instances": sum(one.times for one in loops),
            "iterations": sum(one.iterations for one in loops),
            "places": self.places,
            "not": list(self.left),
        }


def looked(told: Told, texts: Texts, left: Iterable[str] = ()) -> Looked:
    """What the runtime tells of what ran; `left`: what is known besides not to have been looked at."""
    ran = tuple(Ran(texts.constructs[id], *counts) for id, counts in told.ran.items() if id in texts.constructs)
    return Looked(ran, told.places, (*texts.left, *_never(texts, told.ran), *left), told.stack)


def _never(texts: Texts, ran: Iterable[int]) -> Iterator[str]:
    """The loops that never ran. A loop of Numba is known by each compilation: one that ran answers for all."""
    done = {(one.file, one.line) for id in ran if (one := texts.constructs.get(id)) is not None}
    never = {(one.file, one.line) for one in texts.constructs.values() if one.kind in LOOPS} - done
    if never:
        yield f"{plural(len(never), 'parallel loop')} that never ran ({shown(sorted(never))})"


def shown(places: Sequence[tuple[str, int]]) -> str:
    """`a.c:4, 12; b.c:7 and 3 more`."""
    lines: dict[str, list[str]] = defaultdict(list)
    for file, line in places[:MOST_PLACES]:
        lines[file].append(str(line))
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return "; ".join(f"{file}:{', '.join(held)}" for file, held in lines.items()) + more


def sentence(looked: Looked) -> str:
    """`Looked at: 12 directives, 3 parallel loops (40 runs, 64,000 iterations), accesses at 57 places`."""
    held = looked.to_json()
    counts = f"{plural(held['instances'], 'run')}, {plural(held['iterations'], 'iteration')}"
    loops = f"{plural(held['loops'], 'parallel loop')} ({counts})"
    directives, places = plural(held["directives"], "directive"), plural(held["places"], "place")
    return f"Looked at: {directives}, {loops}, accesses at {places}"
