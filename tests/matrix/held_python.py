"""Holds the record of an mpi4py program against its log: the standard's calls behind each call of mpi4py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.trace.layout import ID_DYNAMIC
from weft.trace.rank import Event, Rank

# What mpi4py asks on the way: sizes of types and groups, and at its start and end.
_ASKED = re.compile(
    r"MPI_(Initialized|Finalized|Query_thread|Comm_(size|rank|remote_size|test_inter)|Type_(size|get_extent|get_envelope)"
    r"|Topo_test|Cartdim_get|Dist_graph_neighbors_count|(Comm|Win|File)_set_errhandler|Alloc_mem|Free_mem|Win_get_attr"
    r"|(Comm|Type|Win)_(create_keyval|free_keyval|get_attr|set_attr)|Finalize|Get_count|Group_(size|rank)|Get_address|Op_commutative)(_x|_c)?"
)


def logged(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The standard's calls that the program says it made: line, function, arguments."""
    for text in path.read_text().splitlines():
        entry = json.loads(text)
        for name, arguments in entry["calls"]:
            yield entry["line"], name, arguments


class Names:
    """The objects that names stand for: predefined ones by MPI's names, others by their first use."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.bound: dict[tuple[str, str], int] = {}

    def differs(self, class_: str, name: str, recorded: int, new: bool) -> str | None:
        """Why `recorded` is not the object of that name, None if it is."""
        if name.startswith("MPI_"):
            known = self.rank.trace.functions.object_id(class_, name)
            return None if known == recorded else f"{name} is object {known}, recorded {recorded}"
        key = class_, name
        if new and key not in self.bound:
            if recorded < ID_DYNAMIC or recorded in [i for (c, _), i in self.bound.items() if c == class_]:
                return f"{name} is a new object, recorded {recorded}"
            self.bound[key] = recorded
        known = self.bound.get(key, 0)
        return None if known == recorded else f"{name} is object {known}, recorded {recorded}"


def argument_differs(event: Event, names: Names, name: str, wanted: Any, arguments: dict[str, Any]) -> str | None:
    """How one argument is not what the program logged, None if it is the same."""
    if name == "status":
        got = event.status
        recorded = [got.source, got.tag, got.count] if got else None
        return None if recorded == wanted else f"status was {wanted}, recorded {recorded}"
    parameter = event.function.parameters_by_name[name]
    if name not in arguments:
        return f"{name} is not in the record"
    recorded = arguments[name]
    if parameter.handle:
        pairs = zip(wanted, recorded, strict=True) if parameter.array else [(wanted, recorded)]
        found = [names.differs(parameter.handle, w, r, parameter.direction == "out") for w, r in pairs]
        return next((why for why in found if why), None)
    return None if wanted == recorded else f"{name} was {wanted!r}, recorded {recorded!r}"


def compare(rank: Rank, path: Path, source: str) -> tuple[list[str], int]:
    """What differs, in plain sentences, and how many calls were compared."""
    names, compared = Names(rank), 0
    differences: list[str] = []
    events = iter(rank.event(i) for i in range(len(rank.events)))
    for line, name, arguments in logged(path):
        event = next((e for e in events if e.function.base == name or not _ASKED.fullmatch(e.function.name)), None)
        if event is None or event.function.base != name:
            found = f"{event.function.name} at {event.site.text}" if event else "its end"
            return [*differences, f"rank {rank.rank}, line {line}: {name} was called, the record has {found}"], compared
        compared += 1
        where = f"rank {rank.rank}, line {line}, {name} (event {event.index})"
        if event.site.line != line or Path(event.site.file or "?").name != source:
            differences.append(f"{where}: the record says it stands at {event.site.text}")
        recorded = event.args
        found_all = (argument_differs(event, names, key, value, recorded) for key, value in arguments.items())
        differences += [f"{where}: {why}" for why in found_all if why]
    left = [e.function.name for e in events if not _ASKED.fullmatch(e.function.name)]
    return differences + ([f"rank {rank.rank}: recorded and not logged: {left[:5]}"] if left else []), compared
