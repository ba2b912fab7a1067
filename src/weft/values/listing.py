"""List what the probes of a run kept: by place, how often, on how many ranks, in which form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.base.lazy import dataclass
from weft.native.headers.value_format import PlaceKind
from weft.values.process import KeptValue, ProcessValues
from weft.values.trace import ValueTrace


@dataclass(slots=True)
class _Entry:
    """A line of the list."""

    kind: str
    name: str
    where: str
    times: int = 0
    ranks: int = 0
    what: str = ""


def list_probes(trace: ValueTrace) -> Iterator[str]:
    """Yield a line for each loop and probe of the run, in the order of first use; then sentences on what could not be
    recorded.
    """
    entries: dict[tuple[str, str, str], _Entry] = {}
    for process in trace.processes:
        _add_places_of_process(process, entries)
    width = max((len(f"{one.kind} {one.name}") for one in entries.values()), default=0)
    for one in entries.values():
        times = f"{one.times:,} times on {one.ranks} rank{'s' * (one.ranks != 1)}"
        yield "  ".join(filter(None, (f"{one.kind} {one.name}".ljust(width), one.where, times, one.what)))
    yield from trace.problems


def _add_places_of_process(process: ProcessValues, entries: dict[tuple[str, str, str], _Entry]) -> None:
    """Add to `entries` the loops, regions and probes that a process has reached, by kind, name and source line."""
    counts = Counter(process.rows["place"].tolist()) + Counter(process.iterations["place"].tolist())
    for place in process.places:
        if place.number not in counts or place.kind == PlaceKind.ARRAY:
            continue
        kind = PlaceKind(place.kind).name.lower()
        one = entries.setdefault((kind, place.name, place.where), _Entry(kind, place.name, place.where))
        one.times += counts[place.number]
        one.ranks += 1
        if place.kind == PlaceKind.PROBE and not one.what:
            one.what = _describe_value(process.value_at(int(process.rows_of_place(place.number)[0])))


def _describe_value(kept: KeptValue) -> str:
    """Return the type, shape, global array and form of a recorded value as text, such as `float64 (50, 50) of A,
    values`.
    """
    shape = str(kept.shape) if kept.shape else "number"
    return f"{kept.dtype} {shape}" + (f" of {kept.array}" if kept.array else "") + f", {kept.form.name.lower()}"
