"""What the probes of a run kept, as lines: by place, how often, on how many ranks, in which form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.base.lazy import dataclass
from weft.native.headers.value_format import PlaceKind
from weft.values.process import Kept, Process
from weft.values.trace import ValueTrace


@dataclass(slots=True)
class _Entry:
    """What stands in a line."""

    kind: str
    name: str
    where: str
    times: int = 0
    ranks: int = 0
    what: str = ""


def lines(trace: ValueTrace) -> Iterator[str]:
    """A line for each loop and probe, in the order of their first use; then what could not be kept."""
    entries: dict[tuple[str, str, str], _Entry] = {}
    for process in trace.processes:
        _add(process, entries)
    width = max((len(f"{one.kind} {one.name}") for one in entries.values()), default=0)
    for one in entries.values():
        times = f"{one.times:,} times on {one.ranks} rank{'s' * (one.ranks != 1)}"
        yield "  ".join(filter(None, (f"{one.kind} {one.name}".ljust(width), one.where, times, one.what)))
    yield from trace.problems


def _add(process: Process, entries: dict[tuple[str, str, str], _Entry]) -> None:
    counts = Counter(process.rows["place"].tolist()) + Counter(process.iterations["place"].tolist())
    for place in process.places:
        if place.number not in counts or place.kind == PlaceKind.ARRAY:
            continue
        kind = PlaceKind(place.kind).name.lower()
        one = entries.setdefault((kind, place.name, place.where), _Entry(kind, place.name, place.where))
        one.times += counts[place.number]
        one.ranks += 1
        if place.kind == PlaceKind.PROBE and not one.what:
            one.what = _described(process.kept(int(process.rows_of(place.number)[0])))


def _described(kept: Kept) -> str:
    """`float64 (50, 50) of A, values`."""
    shape = str(kept.shape) if kept.shape else "number"
    return f"{kept.dtype} {shape}" + (f" of {kept.array}" if kept.array else "") + f", {kept.form.name.lower()}"
