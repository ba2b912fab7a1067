"""Judge after the run whether each ghost cell that was used held what its owner had, by values and happens-before.

A rank that uses a ghost cell knows, by the messages that it got, of some changes that the owner made. If the ghost then
holds a value that the owner's cell had before the last of these, and none that it had from there on, it is stale: a
proof, whatever way values travel. If it holds a value that the owner's cell never had, it was written here, or came
from elsewhere, or never came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.base.event_id import EventId
from weft.findings import Finding
from weft.halo import messages
from weft.halo.border_progress import BorderProgress, StoreCoverage
from weft.halo.global_arrays import GlobalArray, PlacedPart, make_global_arrays
from weft.halo.rank_history import (
    Done,
    Ghosts,
    Look,
    RankHistory,
    Read,
    Use,
    find_ghosts,
    find_stored_places,
    note_unseen_uses,
    read_histories,
)
from weft.halo.width_inference import settle_widths
from weft.halo.wrong_ghosts import GhostCase, WrongGhosts
from weft.order import Order
from weft.terms.argument_columns import Ints
from weft.trace import Trace

CLOSE: Final = 2e-6
"""Values that lie so near to each other, in relation to the larger, may be rounded."""
_MOST: Final = 64
"""Runs of one use that are reported."""


class GhostChecker:
    """The judge of one run's ghost cells."""

    def __init__(self, trace: Trace, order: Order) -> None:
        self.trace, self.order = trace, order
        self.stories = settle_widths(trace, read_histories(trace))
        found = make_global_arrays(
            part
            for _, story in sorted(self.stories.items())
            for part in story.parts.values()
            if part.number not in story.unclear
        )
        self.fields: dict[tuple[int, int], GlobalArray] = {
            (rank, placed.of.number): field for field in found for rank, placed in field.parts.items()
        }
        self._covering: dict[tuple[int, int], StoreCoverage] = {}
        self._started: dict[tuple[int, int], NDArray[np.int64]] = {}

    def find_part(self, rank: int, part: int) -> PlacedPart | None:
        """Return a part with its place; None where that is not known."""
        field = self.fields.get((rank, part))
        return field.parts[rank] if field else None

    def get_store_coverage(self, part: PlacedPart) -> StoreCoverage:
        """Return the record of which uses by a part's rank store which cells of the part. The first
        call computes it.
        """
        key = (part.of.rank, part.of.number)
        if key not in self._covering:
            self._covering[key] = StoreCoverage(self.stories[part.of.rank], part)
        return self._covering[key]

    def find(self) -> Iterator[Finding]:
        """Report wrong ghost cells, the first for each use and owner."""
        for rank, story in self.stories.items():
            yield from _RankChecker(self, rank, story).find_wrong_ghosts()

    def find_calls_known_started(self, rank: int, moment: int) -> NDArray[np.int64]:
        """Return, for each rank of the run, how many of its calls certainly began before call `moment` of a given rank,
        by happens-before.
        """
        key = (rank, moment)
        if key not in self._started:
            count = len(self.trace.ranks[rank])
            last = min(moment, count) - 1
            none = np.zeros(len(self.trace.ranks), np.int64)
            self._started[key] = self.order.past(EventId(rank, last)).started if last >= 0 else none
        return self._started[key]


class _RankChecker:
    """The uses of one rank in their order."""

    def __init__(self, judge: GhostChecker, rank: int, story: RankHistory) -> None:
        self.judge, self.rank, self.story = judge, rank, story
        self.cached: dict[tuple[int, int], Ghosts] = {}
        self.paces: dict[tuple[int, int, int], list[tuple[Ints, BorderProgress]]] = {}
        self.told: set[tuple[object, ...]] = set()
        self._reached: dict[tuple[int, int], bool] = {}
        self.stores: dict[int, list[tuple[Use, int]]] = defaultdict(list)
        """By part the stores that reach ghosts, each with how many looks at ghosts there were after it."""

    def find_wrong_ghosts(self) -> Iterator[Finding]:
        """Yield a finding for each use by this rank of ghost cells that did not have their owner's values."""
        for number, done in enumerate(self.story.done):
            use = self.story.uses[done.use]
            for k, (read, (_, look, _)) in enumerate(zip(use.reads, done.reads, strict=True)):
                for wrong in self._find_wrong(use, read, k, done):
                    yield from self._explain_wrong_ghosts(wrong, look)
            if use.what == "store":
                self.stores[use.part].append((use, number))
        for part in self._find_parts_without_uses():
            note_unseen_uses(self.story.rank, messages.ghosts_without_use(self.story.parts[part]))

    def _find_parts_without_uses(self) -> list[int]:
        """Return the numbers of those parts of a native program whose ghosts are loaded, although no stored cell
        appears to be computed from these ghosts.
        """
        loaded: dict[int, bool] = {}
        for done in self.story.done:
            use = self.story.uses[done.use]
            for k, read in enumerate(use.reads):
                source = self.judge.find_part(self.rank, read.part) if read.pairs else None
                if source is None or loaded.get(read.part):
                    continue
                ghosts = source.ghost_of[[ghost for ghost, _ in read.pairs]]
                if (source.owner[ghosts] >= 0).any():
                    loaded[read.part] = len(self._get_ghosts_of_read(use, read, k, done).ghost) > 0
        return sorted(part for part, used in loaded.items() if not used)

    def _get_ghosts_of_read(self, use: Use, read: Read, read_index: int, done: Done) -> Ghosts:
        """Return the ghosts that a use takes by the read with index `read_index`. They are computed once, and then
        kept."""
        key = (done.use, read_index)
        if key not in self.cached:
            source = self.judge.find_part(self.rank, read.part)
            target = self.judge.find_part(self.rank, use.part)
            nothing = np.zeros(0, np.int64)
            self.cached[key] = find_ghosts(use, read, source, target) if source else Ghosts(nothing, nothing)
            if source and source.of.unfilled and len(find_ghosts(use, read, source, target, source.unfilled).ghost):
                note_unseen_uses(self.story.rank, messages.ghosts_unfilled(source.of))
        return self.cached[key]

    def _find_wrong(self, use: Use, read: Read, read_index: int, done: Done) -> Iterator[WrongGhosts]:
        """Yield the wrong ghosts of a read. A ghost is wrong if it has an old value of its owner's cell: this rank
        already knows a newer one, or is so far in its own time steps that it needs one."""
        moment, look, runs = done.reads[read_index]
        ghosts = self._get_ghosts_of_read(use, read, read_index, done).ghost
        looks = self.story.ghosts[read.part]
        if not len(ghosts) or not 0 < look <= len(looks):
            return
        source = self.judge.find_part(self.rank, read.part)
        assert source is not None
        values, owners = looks[look - 1].values, source.owner[ghosts]
        started = self.judge.find_calls_known_started(self.rank, moment)
        for owner in np.unique(owners).tolist():
            mine = ghosts[owners == owner]
            history, part = self._looks_at_owner(read, owner)
            if not history:
                continue
            known = max(self.judge.stories[owner].last_known_look(part, int(started[owner])), 0)
            needed = []
            for some, pace in self._get_border_progress(done.use, read_index, owner):
                version = pace.find_needed_look(runs)
                if version > known and not self._is_change_after_read(moment, owner, history[version].moment):
                    needed.append((some, version))
            for some, version in (*needed, (mine, known)):
                cells = source.cell[some]
                bad = ~are_close(values[some], history[version].values[cells])
                for later in history[version + 1 :] if bad.any() else ():
                    bad[bad] = ~are_close(values[some[bad]], later.values[cells[bad]])
                if bad.any():
                    should = history[version].values[cells[bad]]
                    held = values[some[bad]]
                    told = version == known
                    yield WrongGhosts(self.rank, use, read, done, moment, owner, some[bad], held, should, version, told)

    def _is_change_after_read(self, moment: int, owner: int, changed: int) -> bool:
        """Return whether a change that the owner makes comes after a read by this rank, by happens-before."""
        if moment >= len(self.judge.trace.ranks[self.rank]) or not 0 < changed <= len(self.judge.trace.ranks[owner]):
            return False
        return self.judge.order.reaches(EventId(self.rank, moment), EventId(owner, changed - 1))

    def _get_border_progress(self, use: int, read_index: int, owner: int) -> list[tuple[Ints, BorderProgress]]:
        """Return groups of a read's ghosts, each with the steps that owner and reader have made at their common border.
        The first call computes them.
        """
        key = (use, read_index, owner)
        if key not in self.paces:
            self.paces[key] = self._compute_border_progress(self.story.uses[use], use, read_index, owner)
        return self.paces[key]

    def _compute_border_progress(
        self, use: Use, use_number: int, read_index: int, owner: int
    ) -> list[tuple[Ints, BorderProgress]]:
        """Return a read's ghosts in groups, each with the progress (the uses that stored) of owner and reader at their
        common border. In a group all ghosts lie where the same uses store. Empty if the progress cannot be computed."""
        read, ghosts = use.reads[read_index], self.cached[use_number, read_index]
        source, target = self.judge.find_part(self.rank, read.part), self.judge.find_part(self.rank, use.part)
        if use.what != "store" or source is None or target is None or source.of.size != target.of.size:
            return []
        mine = source.owner[ghosts.ghost] == owner
        ghost, beside = ghosts.ghost[mine], source.to_local(target.to_global(ghosts.target[mine]))
        other = self.judge.fields[self.rank, read.part].parts[owner]
        if source.of.late or other.of.late:
            return []  # how often each has stored is not known
        story = self.judge.stories[owner]
        own = self.judge.get_store_coverage(source).group_stores(beside)
        theirs = self.judge.get_store_coverage(other).group_stores(other.edge[source.cell[ghost]])
        pairs, of = np.unique(np.stack([own[1], theirs[1]]), axis=1, return_inverse=True)
        looks = [look.done for look in story.owned[other.of.number]]
        return [
            (ghost[of.ravel() == row], BorderProgress(self.story, own[0][int(a)], story, theirs[0][int(b)], looks))
            for row, (a, b) in enumerate(pairs.T)
        ]

    def _looks_at_owner(self, read: Read, owner: int) -> tuple[list[Look], int]:
        field = self.judge.fields[self.rank, read.part]
        part = field.parts[owner].of.number
        return self.judge.stories[owner].owned[part], part

    def _explain_wrong_ghosts(self, wrong: WrongGhosts, look_count: int) -> Iterator[Finding]:
        """Yield the finding for wrong ghosts, by the first explanation that fits; nothing if their source line was
        reported before. `look_count`: how often the ghosts' values were recorded up to the use."""
        key = (wrong.use.at, wrong.read, wrong.owner)
        if key in self.told:
            return
        guessed = partial(self._explain_own_store, is_computed=None)
        for explain in (
            self._explain_stale,
            self._explain_never_filled,
            self._explain_own_store,
            self._explain_other_cell,
            guessed,
            self._explain_foreign_value,
        ):
            found = explain(wrong, look_count)
            if found is not None:
                self.told.add(key)
                yield found
                return

    def _explain_stale(self, wrong: WrongGhosts, look_count: int) -> Finding | None:
        """Return a finding if a ghost has an older value of its owner's cell; None otherwise."""
        source, history, part, cells = self._find_owner_side(wrong)
        for k, cell in enumerate(cells.tolist()):
            column = np.array([one.values[cell] for one in history[: wrong.known + 1]])
            same = np.flatnonzero(are_close(column, wrong.held[k]))
            if not len(same):
                continue
            changed = (
                np.flatnonzero(~are_close(column[int(same[-1]) + 1 :], column[int(same[-1]) : -1])) + int(same[-1]) + 1
            )
            if len(changed) <= source.of.lag:
                continue
            ever = self._has_ever_changed(wrong, int(wrong.ghosts[k]))
            store = self.judge.stories[wrong.owner].find_store_before(history[int(changed[0])], part)
            moment = history[int(changed[0])].moment
            return messages.stale_ghost(self._make_case(wrong, k), store, moment, was_renewed=ever)
        return None

    def _make_case(self, wrong: WrongGhosts, k: int) -> GhostCase:
        return GhostCase(self.judge.fields[self.rank, wrong.read.part], wrong, k)

    def _has_ever_changed(self, wrong: WrongGhosts, ghost: int) -> bool:
        looks = self.story.ghosts[wrong.read.part]
        return any(not are_close(one.values[ghost], looks[0].values[ghost]) for one in looks[1:])

    def _explain_never_filled(self, wrong: WrongGhosts, look_count: int) -> Finding | None:
        """Return a finding if a ghost still has the value it had when the array was declared, which its owner's cell
        never had; None otherwise.
        """
        looks = self.story.ghosts[wrong.read.part][:look_count]
        for k, ghost in enumerate(wrong.ghosts.tolist()):
            if not self._never_had_value(wrong, k) or self._find_last_store(wrong, ghost) is not None:
                continue
            if all(are_close(one.values[ghost], looks[0].values[ghost]) for one in looks):
                return messages.never_filled(self._make_case(wrong, k))
        return None

    def _explain_own_store(
        self, wrong: WrongGhosts, look_count: int, is_computed: bool | None = True
    ) -> Finding | None:
        """Return a finding if a ghost has a value that this rank itself stored in it; None otherwise. `is_computed`:
        whether the stored value must be known as computed (True), as not computed (False), or neither (None).
        """
        looks = self.story.ghosts[wrong.read.part]
        for k, ghost in enumerate(wrong.ghosts.tolist()):
            found = self._find_last_store(wrong, ghost)
            if found is None or not self._never_had_value(wrong, k):
                continue
            use, number = found
            behind = [one for one in looks[:look_count] if one.done > number]
            before = [one for one in looks[:look_count] if one.done <= number]
            if behind and not wrong.read.pairs and behind[0].moment > self.story.done[number].moment:
                behind = []  # Python's are looked at when they are stored: what came later was brought
            held = (behind or before[-1:])[:1]
            if use.computed is is_computed and held and are_close(held[0].values[ghost], wrong.held[k]):
                redundant = self._is_stored_by_owner_line(wrong, k, use)
                return messages.locally_written(self._make_case(wrong, k), use, is_redundant_computation=redundant)
        return None

    def _is_stored_by_owner_line(self, wrong: WrongGhosts, ghost_index: int, use: Use) -> bool:
        """Return whether the owner of a ghost stores the ghost's cell by the same source line as a given use of this
        rank.
        """
        _, _, part, cells = self._find_owner_side(wrong)
        other = self.judge.fields[self.rank, wrong.read.part].parts[wrong.owner]
        place = int(other.edge[int(cells[ghost_index])])
        story = self.judge.stories[wrong.owner]
        uses = (one for one in story.uses.values() if one.what == "store" and one.part == part and one.at == use.at)
        return any(place in find_stored_places(one, other.of) for one in uses)

    def _explain_other_cell(self, wrong: WrongGhosts, look_count: int) -> Finding | None:
        """Return a finding if a ghost has the value of another element of the array than its own; None otherwise."""
        field = self.judge.fields[self.rank, wrong.read.part]
        source = field.parts[self.rank]
        for k in range(len(wrong.ghosts)):
            value = wrong.held[k]
            if not self._never_had_value(wrong, k) or not np.isfinite(value) or value == 0:
                continue
            cell = source.to_global(source.ghosts[wrong.ghosts[k : k + 1]])
            found = [
                (int(np.abs(where - cell).sum()), rank, where.tolist())
                for rank, other in field.parts.items() if rank != self.rank
                for one in self.judge.stories[rank].owned[other.of.number]
                for where in other.to_global(other.edge[np.flatnonzero(one.values == value)])
            ]  # fmt: skip
            if found:  # of several places the nearest
                _, rank, where = min(found)
                return messages.other_cell_copied(self._make_case(wrong, k), rank, where)
        return None

    def _explain_foreign_value(self, wrong: WrongGhosts, look_count: int) -> Finding | None:
        """Return a finding if a ghost has got, since the array was declared, a value that its owner's cell never had;
        None otherwise.
        """
        looks = self.story.ghosts[wrong.read.part][:look_count]
        for k, ghost in enumerate(wrong.ghosts.tolist()):
            if self._never_had_value(wrong, k) and not are_close(looks[0].values[ghost], wrong.held[k]):
                return messages.foreign_value_received(self._make_case(wrong, k))
        return None

    def _never_had_value(self, wrong: WrongGhosts, ghost_index: int) -> bool:
        """Return whether it is certain that the owner's cell never had the value of a ghost."""
        source, history, part, cells = self._find_owner_side(wrong)
        if not self.judge.stories[wrong.owner].saw_all_changes(part) or source.of.lag > 0:
            return False
        return not any(are_close(one.values[int(cells[ghost_index])], wrong.held[ghost_index]) for one in history)

    def _find_last_store(self, wrong: WrongGhosts, ghost: int) -> tuple[Use, int] | None:
        """Return (use, its index) of this rank's last store to a ghost before the wrong use; None if there is none."""
        source, *_ = self._find_owner_side(wrong)
        place = int(source.ghosts[ghost])
        for use, number in reversed(self.stores[wrong.read.part]):
            if self._does_use_store(use, place):
                return use, number
        return None

    def _does_use_store(self, use: Use, cell_place: int) -> bool:
        """Return whether a use stores the cell at a flat index of its part."""
        key = (id(use), cell_place)
        if key not in self._reached:
            self._reached[key] = bool((find_stored_places(use, self.story.parts[use.part]) == cell_place).any())
        return self._reached[key]

    def _find_owner_side(self, wrong: WrongGhosts) -> tuple[PlacedPart, list[Look], int, Ints]:
        """Return the two sides of wrong ghost cells: the part that holds the ghosts, and what is known of their owner.

        The four results are (the part with the ghosts, the values of the owner's part at several moments, the number of
        the owner's part, the indices of the owner's cells that the ghosts copy).
        """
        source = self.judge.find_part(self.rank, wrong.read.part)
        assert source is not None
        history, part = self._looks_at_owner(wrong.read, wrong.owner)
        return source, history, part, source.cell[wrong.ghosts]


def are_close(first: object, second: object) -> NDArray[np.bool_]:
    """Return a mask of the values that may be the same numbers, rounded in another way."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= CLOSE * np.maximum(np.abs(a), np.abs(b))
    result: NDArray[np.bool_] = np.asarray(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    return result


def find(trace: Trace, order: Order) -> list[Finding]:
    """Return the findings about uses of ghost cells that did not hold what they should."""
    return list(GhostChecker(trace, order).find())
