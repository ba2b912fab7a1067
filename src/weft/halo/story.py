"""What one rank did to its parts, read back from its log as columns."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.halo import log
from weft.halo.extents import Cells, numbers
from weft.halo.grid import NOBODY, Declared, Placed, declared
from weft.halo.log import Kind
from weft.plain import dataclass
from weft.terms.columns import Ints
from weft.trace import Rank, Trace

Line = tuple[str, int, str]
"""File, line and function."""


@dataclass(frozen=True)
class Read:
    """Elements that were read, of one part, by one line."""

    part: int
    cells: Cells
    at: Line


@dataclass(frozen=True)
class Use:
    """Something that the program does: it stores elements of a part, sums some up, or looks at one."""

    part: int
    what: str
    at: Line
    cells: Cells | None
    places: tuple[int, ...] | None
    computed: bool
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Done:
    """One time that a use came: its moment, and of each read the moment, how many looks at ghosts and how many uses
    came before it."""

    use: int
    moment: int
    reads: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Look:
    """Values of a part, as of a moment; `done`: how many times of uses came before."""

    moment: int
    done: int
    unseen: bool
    values: NDArray[np.float32]


class Story:
    """A rank's log. `whole`: the rank came to its end with it."""

    def __init__(self, rank: Rank, path: Path) -> None:
        self.rank = rank
        self.parts: dict[int, Declared] = {}
        self.uses: dict[int, Use] = {}
        self.done: list[Done] = []
        self.owned: dict[int, list[Look]] = defaultdict(list)
        self.ghosts: dict[int, list[Look]] = defaultdict(list)
        self._times: dict[frozenset[int], list[int]] = {}
        self.whole = False
        self.gave_up = ""
        for record in log.read(path):
            self._take(record)
        self._moments = {part: [look.moment for look in looks] for part, looks in self.owned.items()}

    def _take(self, record: log.Record) -> None:
        kind = record.kind
        if kind is Kind.RUN:
            self.done.append(Done(record.number(), record.moment, tuple(record.reads())))
        elif kind in (Kind.OWNED, Kind.UNSEEN, Kind.GHOSTS):
            looks = self.ghosts if kind is Kind.GHOSTS else self.owned
            look = Look(record.moment, len(self.done), kind is Kind.UNSEEN, record.values())
            looks[record.number()].append(look)
        elif kind is Kind.USE:
            fields = record.json()
            self.uses[fields["id"]] = _use(fields)
        elif kind is Kind.PART:
            part = declared(self.rank.index, record.json())
            self.parts[part.number] = part
        elif kind is Kind.GAVE_UP:
            self.gave_up = record.payload.decode(errors="replace")
        else:
            self.whole = True

    def known(self, part: int, started: int) -> int:
        """The last look at what a rank owns that another knows of, who knows that so many of its calls began."""
        return bisect_right(self._moments.get(part, []), started - 1) - 1

    def complete(self, part: int) -> bool:
        """Whether each change of what neighbours copy was seen when it was made, to the end."""
        return self.whole and not any(look.unseen for look in self.owned[part])

    def times(self, uses: Sequence[int]) -> list[int]:
        """When some uses came, as numbers of what was done."""
        chosen = frozenset(uses)
        if chosen not in self._times:
            self._times[chosen] = [k for k, done in enumerate(self.done) if done.use in chosen]
        return self._times[chosen]

    def lines(self, times: Sequence[int]) -> list[tuple[str, int]]:
        """The lines of what was done then."""
        return [self.uses[self.done[k].use].at[:2] for k in times]

    def store_before(self, look: Look, part: int) -> Use | None:
        """The store that a look followed."""
        for at in range(look.done - 1, -1, -1):
            use = self.uses[self.done[at].use]
            if use.what == "store" and use.part == part:
                return use
        return None


def _use(fields: dict[str, Any]) -> Use:
    cells = fields.get("cells")
    places = tuple(cells["places"]) if isinstance(cells, dict) else None
    return Use(
        part=fields["part"], what=fields["what"], at=tuple(fields["at"]),
        cells=None if places is not None or cells is None else _cells(cells), places=places,
        computed=bool(fields.get("computed")),
        reads=tuple(Read(one["part"], _cells(one["cells"]), tuple(one["at"])) for one in fields["reads"]),
    )  # fmt: skip


def _cells(given: list[Any]) -> Cells:
    return int(given[0]), tuple(given[1]), tuple(given[2])


def stored(use: Use, part: Declared) -> Ints:
    """The places in the part that a use stores."""
    if use.places is not None:
        return np.array(use.places, np.int64)
    return numbers(use.cells, part.shape, part.strides) if use.cells else np.zeros(0, np.int64)


def stories(trace: Trace) -> dict[int, Story]:
    """The logs of the run, by rank: of those that call MPI from one thread, as moments count the calls of one."""
    folder = trace.path / log.FOLDER
    files = {path.stem: path for path in sorted(folder.glob(f"*{log.SUFFIX}"))} if folder.is_dir() else {}
    found = {}
    for rank in trace.ranks:
        header = rank.file.header if rank.file is not None else None
        path = files.get(f"{header.host}-{header.pid}") if header and len(rank.threads) == 1 else None
        if path is not None:
            found[rank.index] = Story(rank, path)
    return found


@dataclass(frozen=True)
class Ghosts:
    """The ghosts that a read uses, each for an element that this rank owns (or for nothing in particular).

    `ghost`: number among the part's ghosts; `target`: the place where it was used, NOBODY without one.
    """

    ghost: Ints
    target: Ints


def ghosts_of(use: Use, read: Read, source: Placed, target: Placed | None) -> Ghosts:
    """The ghosts of others among what is read, but those that only go to where they came from."""
    places = numbers(read.cells, source.of.shape, source.of.strides)
    aims: Ints = np.full(places.shape, NOBODY, np.int64)
    places = np.asarray(places)
    if use.what == "store":
        if use.cells is None or target is None:
            return Ghosts(np.zeros(0, np.int64), np.zeros(0, np.int64))
        aims = numbers(use.cells, target.of.shape, target.of.strides)
        try:
            places = np.broadcast_to(places, aims.shape)
        except ValueError:
            return Ghosts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    places, aims = places.ravel(), aims.ravel()
    ghost = source.ghost_of[places]
    chosen = ghost >= 0
    chosen[chosen] &= source.owner[ghost[chosen]] >= 0
    if use.what == "store" and target is not None:
        chosen &= target.owned[aims]
        moved = source.everywhere[places[chosen]] != target.everywhere[aims[chosen]]
        chosen[chosen] = moved.any(axis=1)
    ghost, first = np.unique(ghost[chosen], return_index=True)
    return Ghosts(ghost, aims[chosen][first])
