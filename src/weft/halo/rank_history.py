"""Read what one rank did to its parts back from its log, as columns."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.errors import RunError
from weft.halo import log, log_reader
from weft.halo.cell_geometry import Cells, compute_flat_indices, make_shell_mask
from weft.halo.global_arrays import NOBODY, DeclaredPart, PlacedPart
from weft.halo.native_flow import is_ghost_used
from weft.native.headers.halo_kinds import HaloKind as Kind
from weft.terms.argument_columns import Ints
from weft.trace import Rank, Trace

MOST_OF_RUN = 4 * log.MOST
"""Bytes of all logs of a run that are read."""

Line = tuple[str, int, str]
"""File, line and function."""


@dataclass(frozen=True)
class Read:
    """Elements that were read, of one part, by one line."""

    part: int
    cells: Cells | None
    at: Line
    pairs: tuple[tuple[int, int], ...] = ()
    """In place of cells: ghosts, each with the cell that was stored next."""


@dataclass(frozen=True)
class Use:
    """Something that the program does: it stores elements of a part, sums some up, or looks at one."""

    part: int
    what: str
    at: Line
    cells: Cells | None
    places: tuple[int, ...] | None
    computed: bool | None
    """Whether what is stored was computed; None: that is not known."""
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


@dataclass(frozen=True)
class Waiting:
    """A part whose widths are not declared: its address, and between which calls.

    `shell`: so many layers at each end of each dimension are looked at together; None: as with declared widths.
    """

    address: int
    since: int
    end: int
    shell: int | None


class RankHistory:
    """A rank's log. `whole`: the rank came to its end with it; `problem`: from where on it is not one, or empty."""

    def __init__(self, rank: Rank, name: str, data: bytes) -> None:
        self.rank, self._calls = rank, len(rank)
        self.parts: dict[int, DeclaredPart] = {}
        self.uses: dict[int, Use] = {}
        self.done: list[Done] = []
        self.owned: dict[int, list[Look]] = defaultdict(list)
        self.ghosts: dict[int, list[Look]] = defaultdict(list)
        self.waiting: dict[int, Waiting] = {}
        self.unclear: set[int] = set()
        """Parts of which receives do not tell how wide their ghosts are."""
        self._times: dict[frozenset[int], list[int]] = {}
        self.whole = False
        self.gave_up = self.problem = ""
        try:
            log_reader.for_each_record(name, data, self._add_record)
        except log_reader.Damaged as error:
            self.problem, self.whole = str(error), False
        self._moments = {part: [look.moment for look in looks] for part, looks in self.owned.items()}

    def set_widths(self, parts_with_widths: Mapping[int, DeclaredPart]) -> None:
        """Set the ghost widths of the parts that were declared without widths. Parts of this kind that are not among
        `parts_with_widths` are noted as unclear.
        """
        seen: dict[int, list[int]] = {}
        for number, waiting in self.waiting.items():
            if number not in parts_with_widths:
                self.unclear.add(number)
                continue
            looks = self.owned.pop(number, []) if waiting.shell is not None else []
            part = self.parts[number] = parts_with_widths[number]
            if waiting.shell is not None:
                self.owned[number], self.ghosts[number], seen[number] = _split_shell(looks, part, waiting.shell)
        self.done = [self._replace_shell_looks(done, seen) for done in self.done]
        self._moments = {part: [look.moment for look in looks] for part, looks in self.owned.items()}

    def _replace_shell_looks(self, done: Done, ghost_look_counts: Mapping[int, list[int]]) -> Done:
        """Return an execution of a use (`done`) in which each count of recorded values of the outer layers (the shell)
        is replaced by the count of recorded values of the ghosts among them. `ghost_look_counts`: part -> ghost count
        by shell count."""
        parts = [read.part for read in self.uses[done.use].reads]
        if not any(part in ghost_look_counts for part in parts):
            return done
        reads = [
            (
                at,
                ghost_look_counts[part][min(looks, len(ghost_look_counts[part]) - 1)]
                if part in ghost_look_counts
                else looks,
                runs,
            )
            for part, (at, looks, runs) in zip(parts, done.reads, strict=True)
        ]
        return Done(done.use, done.moment, tuple(reads))

    def _add_record(self, record: log.Record) -> None:
        """Add a record of the log to the history. Raises ValueError if it is invalid."""
        kind, moment = record.kind, min(record.moment, self._calls)
        if kind is Kind.RUN:
            use, reads = self.uses[record.number()], record.reads()
            if len(reads) != len(use.reads):
                raise ValueError("a use does not have the same reads each time")
            reads = [(min(at, self._calls), ghosts, runs) for at, ghosts, runs in reads]
            self.done.append(Done(record.number(), moment, tuple(reads)))
        elif kind in (Kind.OWNED, Kind.UNSEEN, Kind.GHOSTS):
            looks, values = self.ghosts if kind is Kind.GHOSTS else self.owned, record.values()
            number = record.number()
            shell = self.waiting[number].shell if number in self.waiting else None
            if len(values) != log_reader.count_values(kind, self.parts[number], shell):
                raise ValueError("a part does not have the same cells each time")
            looks[record.number()].append(Look(moment, len(self.done), kind is Kind.UNSEEN, values))
        elif kind is Kind.USE:
            fields = record.json()
            self.uses[log_reader.require_integer(fields["id"])] = self._parse_use(fields)
        elif kind is Kind.PART:
            fields = record.json()
            part = log_reader.parse_part(self.rank.index, fields)
            self.parts[part.number] = part
            if part.inferred:
                self._add_undeclared(part, fields, moment)
        elif kind is Kind.ENDED:
            number = record.number()
            self.waiting[number] = replace(self.waiting[number], end=moment)
        elif kind is Kind.GAVE_UP:
            self.gave_up = record.payload.decode(errors="replace")[:200]
        else:
            self.whole = True

    def _add_undeclared(self, part: DeclaredPart, fields: dict[str, Any], moment: int) -> None:
        """Note a part whose ghost widths are not declared. If its record replaces an earlier part, that one is noted as
        unclear.
        """
        shell = None if fields.get("shell") is None else log_reader.require_integer(fields["shell"], 1, 1 << 20)
        if "again" in fields:
            moment = self.waiting.pop(fields["again"]).since
            self.unclear.add(fields["again"])
        address = log_reader.require_integer(fields["address"], 0, 1 << 64)
        self.waiting[part.number] = Waiting(address, moment, len(self.rank), shell)

    def _parse_use(self, fields: dict[str, Any]) -> Use:
        """Return the use (a statement with its reads and store) that a record of the log describes."""
        part, cells = self.parts[fields["part"]], fields.get("cells")
        places = log_reader.parse_places(cells["places"], part) if isinstance(cells, dict) else None
        return Use(
            part=part.number, what=str(fields["what"]), at=self._parse_line(fields["at"]),
            cells=None if places is not None or cells is None else log_reader.parse_cells(cells, part), places=places,
            computed=None if "computed" in fields and fields["computed"] is None else bool(fields.get("computed")),
            reads=tuple(self._parse_read(one, part) for one in fields["reads"]),
        )  # fmt: skip

    def _parse_read(self, fields: dict[str, Any], stored_part: DeclaredPart) -> Read:
        """Return one read that a record of a use describes. `stored_part`: the part whose cells the use stores."""
        part, at = self.parts[fields["part"]], self._parse_line(fields["at"])
        if "pairs" in fields:
            return Read(part.number, None, at, log_reader.parse_pairs(fields["pairs"], part, stored_part))
        return Read(part.number, log_reader.parse_cells(fields["cells"], part), at)

    def _parse_line(self, recorded: Any) -> Line:
        """Return (file, line, function) of a recorded source line. A native program records the number of a call site,
        which is looked up.
        """
        if not isinstance(recorded, int):
            return log_reader.parse_line(recorded)
        site = self.rank.site(log_reader.require_integer(recorded))
        return site.file or Path(site.module or "?").name, site.line, site.function or ""

    def last_known_look(self, part: int, calls_started: int) -> int:
        """Return the last look at what a rank owns that another rank knows of, which knows that so many of its calls
        began."""
        return bisect_right(self._moments.get(part, []), calls_started - 1) - 1

    def saw_all_changes(self, part: int) -> bool:
        """Return whether each change of what neighbours copy was seen when it was made, to the end."""
        return self.whole and not self.parts[part].late and not any(look.unseen for look in self.owned[part])

    def find_times_of_uses(self, uses: Sequence[int]) -> list[int]:
        """Return when any of some uses were made, as ascending indices of `done` (the list of all
        executions of uses).
        """
        chosen = frozenset(uses)
        if chosen not in self._times:
            self._times[chosen] = [k for k, done in enumerate(self.done) if done.use in chosen]
        return self._times[chosen]

    def lines_of_runs(self, times: Sequence[int]) -> list[tuple[str, int]]:
        """Return the file and line of each of some runs of uses."""
        return [self.uses[self.done[k].use].at[:2] for k in times]

    def find_store_before(self, look: Look, part_number: int) -> Use | None:
        """Return the last use that stored to a part before some values were recorded (`look`); None
        if there was none.
        """
        for at in range(look.done - 1, -1, -1):
            use = self.uses[self.done[at].use]
            if use.what == "store" and use.part == part_number:
                return use
        return None


def _split_shell(
    shell_looks: Sequence[Look], part: DeclaredPart, layer_count: int
) -> tuple[list[Look], list[Look], list[int]]:
    """Split the recorded values ("looks") of an array's outer layers (its shell) into those of owned cells and those of
    ghosts. The third item gives, for each number of shell looks, the number of looks at ghosts.
    """
    placed = PlacedPart(part, (0,) * len(part.shape))
    places = np.flatnonzero(make_shell_mask(part.shape, layer_count))
    owned: list[Look] = []
    ghosts: list[Look] = []
    seen = [0]
    for look in shell_looks:
        for found, cells, unseen in ((owned, placed.edge, look.unseen), (ghosts, placed.ghosts, False)):
            values = look.values[np.searchsorted(places, cells)]
            if len(cells) and (not found or found[-1].values.tobytes() != values.tobytes()):
                found.append(Look(look.moment, look.done, unseen, values))
        seen.append(len(ghosts))
    return owned, ghosts, seen


def find_stored_places(use: Use, part: DeclaredPart) -> Ints:
    """Return the flat indices in a part of the elements that a use stores."""
    if use.places is not None:
        return np.array(use.places, np.int64)
    return compute_flat_indices(use.cells, part.shape, part.strides) if use.cells else np.zeros(0, np.int64)


def read_histories(trace: Trace) -> dict[int, RankHistory]:
    """Return rank -> its history, for the ranks that call MPI from one thread only, as times are counted in calls of
    one thread. Ranks without a readable log are left out; damaged logs are noted as problems of the run.
    """
    found: dict[int, RankHistory] = {}
    room, cells = MOST_OF_RUN, log_reader.MOST_CELLS
    for rank, path in _find_logs(trace):
        try:
            data = log_reader.read_log(path, trace.path)
            if len(data) > room:
                raise log_reader.Damaged(f"{log.FOLDER} holds more than {MOST_OF_RUN >> 30} GB")
            story = RankHistory(rank, path.name, data)
        except (log_reader.Damaged, RunError) as error:
            trace.add_problem(f"{error}: the ghost cells of rank {rank.index} are not checked")
            continue
        room -= len(data)
        cells -= sum(prod(part.shape) for part in story.parts.values())
        if cells < 0:
            trace.add_problem(
                f"the arrays with ghost cells have more than {log_reader.MOST_CELLS:,} elements in all: those of rank "
                f"{rank.index} and of higher ranks are not checked"
            )
            break
        if story.problem:
            trace.add_problem(story.problem)
        if story.gave_up:
            note_unseen_uses(rank, story.gave_up)
        found[rank.index] = story
    return found


def _find_logs(trace: Trace) -> Iterator[tuple[Rank, Path]]:
    """Yield (rank, path of its log) for the ranks that have a log and call MPI from one thread only."""
    folder = trace.path / log.FOLDER
    if folder.is_symlink() or not folder.is_dir():
        return
    for rank in trace.ranks:
        header = rank.header
        path = folder / f"{Path(header.host).name}-{header.pid}{log.SUFFIX}" if header is not None else None
        if path is None or not path.exists():
            continue
        if len(rank.threads) == 1:
            yield rank, path
        else:
            note_unseen_uses(rank, "several of its threads call MPI")


def note_unseen_uses(rank: Rank, reason: str) -> None:
    """Note in a rank's record that not all uses of ghost cells were seen, and why."""
    note = f"some uses of ghost cells, because {reason}"
    if note not in rank.definitions.notes:
        rank.definitions.notes.append(note)
        rank.trace.add_problem(f"rank {rank.index}: Weft did not see {note}")


@dataclass(frozen=True)
class Ghosts:
    """The ghosts that a read uses, each for an element that this rank owns (or for nothing in particular).

    `ghost`: number among the part's ghosts; `target`: the place where it was used, NOBODY without one.
    """

    ghost: Ints
    target: Ints


def find_ghosts(
    use: Use, read: Read, source: PlacedPart, target: PlacedPart | None, owners: Ints | None = None
) -> Ghosts:
    """Return the ghosts among the elements that a read takes. Ghosts whose values are only stored back in their own
    places are left out.
    """
    owners = source.owner if owners is None else owners
    found = (
        _find_used_pairs(use, read, source, target)
        if read.cells is None
        else _pair_with_targets(use, read.cells, source, target)
    )
    if found is None:
        return Ghosts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    places, aims = found
    ghost = source.ghost_of[places].astype(np.int64)
    chosen = ghost >= 0
    chosen[chosen] &= owners[ghost[chosen]] >= 0
    if use.what == "store" and target is not None:
        chosen &= target.owned[aims]
        moved = source.to_global(places[chosen]) != target.to_global(aims[chosen])
        chosen[chosen] = moved.any(axis=1)
    ghost, first = np.unique(ghost[chosen], return_index=True)
    return Ghosts(ghost, aims[chosen][first])


def _find_used_pairs(use: Use, read: Read, source: PlacedPart, target: PlacedPart | None) -> tuple[Ints, Ints] | None:
    """Return (flat indices of loaded elements, flat indices of the stored cells that were computed from them), pair by
    pair. Return None if the log has no pairs for the read.
    """
    if target is None or not read.pairs:
        return None
    pairs = np.array(read.pairs, np.int64)
    pairs = pairs[is_ghost_used(read.at, use.at, source, target, pairs)]
    return pairs[:, 0], pairs[:, 1]


def _pair_with_targets(
    use: Use, cells: Cells, source: PlacedPart, target: PlacedPart | None
) -> tuple[Ints, Ints] | None:
    """Return (flat indices of the elements read, flat indices of the elements at which these were stored), pair by
    pair. Return None if the two sets of elements do not correspond.
    """
    places = compute_flat_indices(cells, source.of.shape, source.of.strides)
    if use.what != "store":
        return places.ravel(), np.full(places.size, NOBODY, np.int64)
    if use.cells is None or target is None:
        return None
    aims = compute_flat_indices(use.cells, target.of.shape, target.of.strides)
    try:
        return np.broadcast_to(places, aims.shape).ravel(), aims.ravel()
    except ValueError:
        return None
