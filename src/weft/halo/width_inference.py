"""Infer the width of ghost cells that no line declares, from where receives put data into the arrays of all ranks.

A receive that fills layers at one end of one dimension shows that these are ghosts. What an array's receives leave open
is taken from an array that has the same shape on every rank, as the two of a Jacobi step have; its own ghosts there are
then not judged, as nobody knows that they should hold what their owner has. Whatever is ambiguous is reported, not
judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from weft.base.lazy import dataclass
from weft.halo import messages
from weft.halo.global_arrays import HIGH, LOW, DeclaredPart, Side, axes_with_ghosts, find_neighbour_sides, group_parts
from weft.halo.rank_history import RankHistory, note_unseen_uses
from weft.halo.receive_boxes import Box, Received, WatchedArray, find_received_boxes
from weft.trace import Trace

MOST_WIDE: Final = 4
"""Layers of ghosts that are looked for."""

Layers = dict[Side, set[int]]
"""By side the layers that are filled, from the outermost on."""


class Unclear(Exception):
    """Receives do not tell how wide the ghosts are: why."""


@dataclass(frozen=True)
class ShownWidths:
    """What the receives of all ranks show of one array: by rank the layers, and by side how many there are."""

    parts: dict[int, DeclaredPart]
    layers: dict[int, Layers] = field(default_factory=dict)
    wide: dict[Side, int] = field(default_factory=dict)

    def copies(self, other: ShownWidths) -> bool:
        """Return whether the program made this array of the other one, ghosts and all."""
        (one, *_), (of, *_) = self.parts.values(), other.parts.values()
        return one.copy and not of.copy and one.name == of.name


def infer_widths(
    parts: Sequence[DeclaredPart], received: Mapping[tuple[int, int], Sequence[Received]]
) -> Iterator[tuple[DeclaredPart, str]]:
    """Yield (part, "") for each part whose ghost widths the receives show, with these widths. For an array whose widths
    are unclear, yield (one of its parts, the reason).

    `received`: (rank, part number) -> what receives put into the part.
    """
    known: list[ShownWidths] = []
    for group in group_parts(parts):
        try:
            known.append(_collect_widths({part.rank: part for part in group}, received))
        except Unclear as error:
            yield min(group, key=lambda part: part.rank), str(error)
    for shown in known:
        try:
            yield from _assign_widths(shown, known)
        except Unclear as error:
            yield shown.parts[min(shown.parts)], str(error)


def _collect_widths(
    parts: dict[int, DeclaredPart], received: Mapping[tuple[int, int], Sequence[Received]]
) -> ShownWidths:
    """Return the widths of one array that the receives of all ranks show. Raises Unclear if they contradict
    each other.
    """
    shown = ShownWidths(parts)
    for rank, part in parts.items():
        shown.layers[rank] = _find_filled_layers(part, received.get((rank, part.number), ()))
    for side in {side for layers in shown.layers.values() for side in layers}:
        deep = {rank: max(layers[side]) + 1 for rank, layers in shown.layers.items() if side in layers}
        if len(set(deep.values())) > 1:
            raise Unclear(messages.widths_differ(parts, side, deep))
        shown.wide[side] = max(deep.values())
    return shown


def _find_filled_layers(part: DeclaredPart, received: Sequence[Received]) -> Layers:
    """Return side -> the layers of ghosts there that receives of a rank fill. Raises Unclear if that cannot be
    determined.
    """
    found: Layers = defaultdict(set)
    first: int | None = None
    middle: list[Received] = []
    for one in received:
        if one.box is None:
            raise Unclear(messages.receive_not_followed(part, one.event))
        face = _find_side(part, one.box)
        if face is None:
            middle.append(one)
            continue
        side, depths = face
        found[side] |= set(depths)
        first = one.event if first is None else min(first, one.event)
    for one in middle:
        assert one.box is not None
        if first is not None and one.event > first and not _is_within_layers(part, one.box, found):
            raise Unclear(messages.receive_inside(part, one.box, one.event))
    if first is None and middle:
        thin = next((one for one in middle if one.box and any(_find_thin_axes(part, one.box))), None)
        if thin is not None and thin.box:
            raise Unclear(messages.receive_inside(part, thin.box, thin.event))
    return dict(found)


def _find_thin_axes(part: DeclaredPart, box: Box) -> list[bool]:
    """Return for each dimension whether a box is thin there: no wider than ghost layers may be, and less than half of
    the part.
    """
    return [
        last - first < MOST_WIDE and 2 * (last - first + 1) < n
        for (first, last), n in zip(box, part.shape, strict=True)
    ]


def _find_side(part: DeclaredPart, box: Box) -> tuple[Side, range] | None:
    """Return (side of the array at which a box lies, the layers that it covers there, counted from the array's end).
    Return None if the box is not a layer at exactly one side."""
    thin = [axis for axis, is_thin in enumerate(_find_thin_axes(part, box)) if is_thin]
    outer = [axis for axis in thin if box[axis][0] == 0 or box[axis][1] == part.shape[axis] - 1]
    if len(thin) > 1:
        thin = outer
    if len(thin) != 1:
        return None
    axis = thin[0]
    (first, last), n = box[axis], part.shape[axis]
    below, above = first, n - 1 - last
    if below == above or min(last, n - 1 - first) >= MOST_WIDE:
        return None
    return ((axis, LOW), range(first, last + 1)) if below < above else ((axis, HIGH), range(n - 1 - last, n - first))


def _is_within_layers(part: DeclaredPart, box: Box, layers: Layers) -> bool:
    """Return whether a box is wholly inside the layers of ghosts that other receives fill at a side, as corners are."""
    for (axis, end), filled in layers.items():
        (first, last), n = box[axis], part.shape[axis]
        if (last if end == LOW else n - 1 - first) <= max(filled):
            return True
    return False


def _assign_widths(shown: ShownWidths, known: Sequence[ShownWidths]) -> Iterator[tuple[DeclaredPart, str]]:
    """Yield (part, "") for each part of an array, with the ghost widths that its receives show. A side without receives
    gets the width of arrays of the same shape. Raises Unclear if widths contradict each other, or do not fit."""
    alike = [other for other in known if other is not shown and _have_same_form(shown, other)]
    lent: dict[Side, int] = {}
    for side, width in (item for other in alike for item in other.wide.items() if item[0] not in shown.wide):
        if lent.setdefault(side, width) != width:
            raise Unclear(messages.width_not_shown(shown.parts[min(shown.parts)], side, sorted((lent[side], width))))
    for side, width in shown.wide.items():
        filled = [layers.get(side, set()) for one in (shown, *alike) for layers in one.layers.values()]
        if set(range(width)) - set().union(*filled):
            raise Unclear(messages.layers_missing(shown.parts[min(shown.parts)], side))
    copied = {side for other in alike if shown.copies(other) for side in other.wide}
    made = {rank: _with_widths(part, shown.wide | lent, frozenset(lent) - copied) for rank, part in shown.parts.items()}
    made = _require_watched_widths(shown.parts, made)
    for rank, part in made.items():
        if min(part.size) <= 0:
            raise Unclear(messages.receives_fill_everything(part))
        if (
            part.lower is None
            and len(part.dims) not in (len(part.shape), len(axes_with_ghosts(part)), 0)
            and axes_with_ghosts(part)
        ):
            raise Unclear(messages.grid_differs(part))
        for side in sorted(find_neighbour_sides(part, made.values()) & set(shown.wide)):
            if not any(side in one.layers.get(rank, ()) for one in (shown, *alike)):
                raise Unclear(messages.receive_missing(part, side))
    for part in made.values():
        yield part, ""


def _require_watched_widths(
    parts: Mapping[int, DeclaredPart], inferred_parts: dict[int, DeclaredPart]
) -> dict[int, DeclaredPart]:
    """Return the parts with their inferred ghost widths. The widths of a native program were guessed while it ran;
    Unclear is raised if the inferred ones differ from them."""
    if not any(part.guessed for part in parts.values()):
        return inferred_parts
    beside = {side for part in inferred_parts.values() for side in find_neighbour_sides(part, inferred_parts.values())}
    kept = {}
    for rank, part in inferred_parts.items():
        wide = {side: n for side, n in _widths_by_side(part).items() if n or side in beside}
        kept[rank] = _with_widths(part, {**_widths_by_side(parts[rank]), **wide}, part.unfilled)
        if kept[rank].halo != parts[rank].halo:
            raise Unclear(messages.widths_changed(part) if axes_with_ghosts(part) else messages.nothing_received(part))
    return kept


def _widths_by_side(part: DeclaredPart) -> dict[Side, int]:
    return {(axis, end): width[end] for axis, width in enumerate(part.halo) for end in (LOW, HIGH)}


def _with_widths(part: DeclaredPart, wide: Mapping[Side, int], unfilled: frozenset[Side]) -> DeclaredPart:
    halo = tuple((wide.get((axis, LOW), 0), wide.get((axis, HIGH), 0)) for axis in range(len(part.shape)))
    return replace(part, halo=halo, inferred=True, unfilled=unfilled)


def _have_same_form(first: ShownWidths, second: ShownWidths) -> bool:
    """Return whether two arrays have the same shape and place on each rank."""
    return first.parts.keys() == second.parts.keys() and all(
        (part.shape, part.lower, part.dims, part.coordinates) ==
        (second.parts[rank].shape, second.parts[rank].lower, second.parts[rank].dims, second.parts[rank].coordinates)
        for rank, part in first.parts.items()
    )  # fmt: skip


def settle_widths(trace: Trace, histories: dict[int, RankHistory]) -> dict[int, RankHistory]:
    """Return the histories with all ghost widths set. Where receives do not show the widths of a part, a note says that
    the part was not checked.
    """
    waiting = {rank: story for rank, story in histories.items() if story.waiting}
    if not waiting:
        return histories
    got = {
        (rank, number): found
        for rank, story in waiting.items()
        for number, found in _find_boxes_of_undeclared(story).items()
    }
    parts = [story.parts[number] for _, story in sorted(waiting.items()) for number in story.waiting]
    made: dict[int, dict[int, DeclaredPart]] = defaultdict(dict)
    for part, why in infer_widths(parts, got):
        if why:
            note_unseen_uses(histories[part.rank].rank, why)
        else:
            made[part.rank][part.number] = part
    for rank, story in waiting.items():
        story.set_widths(made[rank])
    if len(trace.ranks) > 1:
        _note_arrays_without_receives(histories)
    return histories


def _find_boxes_of_undeclared(history: RankHistory) -> dict[int, list[Received]]:
    """Return part number -> what receives put into the part, for the parts of a rank without declared widths."""
    places = [
        WatchedArray(history.parts[number], one.address, one.since, one.end) for number, one in history.waiting.items()
    ]
    return find_received_boxes(history.rank, places)


def _note_arrays_without_receives(histories: Mapping[int, RankHistory]) -> None:
    """Note the arrays that no receive fills, except those with the size of another array without its ghosts."""
    told = set()
    for story in histories.values():
        inner = {part.size for part in story.parts.values() if axes_with_ghosts(part)}
        for number in story.waiting:
            part = story.parts[number]
            shown = number in story.unclear or axes_with_ghosts(part) or part.shape in inner
            if not shown and part.name not in told:
                told.add(part.name)
                note_unseen_uses(story.rank, messages.nothing_received(part))
