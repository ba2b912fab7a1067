"""Word the findings and notes about ghost cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.base.event_id import EventId
from weft.evidence import Evidence
from weft.findings import Finding, Site
from weft.halo.global_arrays import LOW, DeclaredPart, PlacedPart, Side
from weft.halo.rank_history import Line, Use
from weft.halo.receive_boxes import Box
from weft.halo.wrong_ghosts import GhostCase
from weft.kinds import KINDS, Certainty


class Ghost(Evidence):
    """A ghost cell: its global and its own index, its owner, what it holds and should hold, and how many there are.

    `moment` is the rank that reads and the number of its events by then, `changed` the same of the owner's store, and
    `from` whose cell it holds.
    """

    array: str
    cell: Sequence[int]
    ghost: Sequence[int]
    owner: int
    value: float
    owned: float
    moment: Sequence[int]
    cells: int
    changed: Sequence[int] | None = None
    from_: Sequence[int | list[int]] | None = None


def stale_ghost(case: GhostCase, store: Use | None, moment: int, *, was_renewed: bool) -> Finding:
    """Return the finding that a ghost has an older value than its owner's cell. `was_renewed`: whether the ghost was
    ever filled with a newer value.
    """
    wrong = case.wrong
    line = f" at {_at(store.at)}" if store else ""
    never = "" if was_renewed else ", and no message ever brings it to this rank"
    kind = "stale-halo-read" if was_renewed else "remote-access"
    sites = [Site(wrong.owner, "store", *_file(store.at))] if store else []
    words = f"it is out of date, because rank {wrong.owner} stored a newer value{line}{never}"
    return _make_finding(kind, case, words, sites, changed=[wrong.owner, moment], is_certain=wrong.told)


def never_filled(case: GhostCase) -> Finding:
    """Return the finding that a ghost was never renewed."""
    return _make_finding("remote-access", case, f"no message ever brings the value to rank {case.wrong.rank}", [])


def locally_written(case: GhostCase, use: Use, *, is_redundant_computation: bool) -> Finding:
    """Return the finding that this rank itself wrote a ghost. `is_redundant_computation`: the rank computed the ghost
    by the line by which the owner computes the cell.
    """
    rank, owner = case.wrong.rank, case.wrong.owner
    words = f"rank {rank} itself {'computed' if is_redundant_computation else 'wrote'} this copy at {_at(use.at)}"
    words += f", and rank {owner} computed another value" if is_redundant_computation else ""
    kind = "stale-halo-read" if is_redundant_computation else "halo-write"
    return _make_finding(kind, case, words, [Site(rank, "store", *_file(use.at))])


def other_cell_copied(case: GhostCase, rank: int, global_index: list[int]) -> Finding:
    """Return the finding that a ghost holds another element of the array."""
    global_index = case.source.of.to_program_index(global_index)
    words = f"the copy holds the value that rank {rank} has at {_name(case.source)}{global_index}"
    return _make_finding("remote-access", case, words, [], from_=[rank, global_index])


def ghosts_without_use(part: DeclaredPart) -> str:
    """Ghosts are loaded, and what is made of them was not seen."""
    name = f" of {part.name}" if part.name else ""
    return (
        f"the program stores what it computes from ghost cells{name} in no declared array: declare the array in "
        f"which it is "
        f"stored, with halo 0 if it has no ghost cells"
    )


_REMEDY = "declare how wide its ghost cells are (the argument halo of weft.part)"


def widths_differ(parts: Mapping[int, DeclaredPart], side: Side, widths_by_rank: Mapping[int, int]) -> str:
    """Return the note that ranks receive different numbers of layers of ghosts at one side of an array."""
    fewest, most = (pick(widths_by_rank, key=lambda rank: (widths_by_rank[rank], rank)) for pick in (min, max))
    where = f"{_describe_end(parts[fewest], side)} of {_array(parts[fewest])}"
    return (
        f"rank {fewest} receives {_layers(widths_by_rank[fewest])} {where}, "
        f"rank {most} {widths_by_rank[most]}: {_REMEDY}"
    )


def layers_missing(part: DeclaredPart, side: Side) -> str:
    """Return the note that receives leave out layers of ghosts at one side of an array."""
    return (
        f"receives fill {_array(part)} {_describe_end(part, side)}, but not all layers from the outermost on: {_REMEDY}"
    )


def receive_not_followed(part: DeclaredPart, event: int) -> str:
    """Return the note that it is not known what a receive fills."""
    return f"Weft does not know what call {event:,} of rank {part.rank} receives into {_array(part)}: {_REMEDY}"


def receive_inside(part: DeclaredPart, box: Box, event_index: int) -> str:
    """Return the note that a receive fills a box that is not a layer at an end of the array."""
    first, last = part.to_program_index([one for one, _ in box]), part.to_program_index([one for _, one in box])
    into = f"call {event_index:,} of rank {part.rank} receives into {_array(part)} from {first} to {last}"
    return f"{into}, which is not a layer at an end of the array: {_REMEDY}"


def width_not_shown(part: DeclaredPart, side: Side, other_widths: Sequence[int]) -> str:
    """Return the note that no receive shows how many layers of ghosts an array has at a side. Arrays of the same form
    cannot tell either, as they have different numbers of layers there."""
    return (
        f"no receive fills {_array(part)} {_describe_end(part, side)}, where other arrays of its shape have "
        f"{other_widths[0]} "
        f"and {other_widths[-1]} layers: {_REMEDY}"
    )


def receives_fill_everything(part: DeclaredPart) -> str:
    """Ghosts everywhere."""
    why = "so Weft cannot tell which cells are ghosts"
    return f"receives fill all of {_array(part)} on rank {part.rank}, {why}: {_REMEDY}"


def grid_differs(part: DeclaredPart) -> str:
    """Return the note that the communicator has another grid than the ghosts."""
    why = "has ghost cells in another number of dimensions than its communicator"
    return f"{_array(part)} {why}: {_REMEDY} and at which global index it begins"


def receive_missing(part: DeclaredPart, side: Side) -> str:
    """Return the note that a rank that has a neighbour receives nothing from it."""
    return (
        f"rank {part.rank} receives nothing {_describe_end(part, side)} of {_array(part)}, although other ranks do: "
        f"{_REMEDY}"
    )


def ghosts_unfilled(part: DeclaredPart) -> str:
    """Ghosts are used that no receive ever fills, on no rank."""
    return f"the program uses ghost cells of {_array(part)} that no receive fills on any rank: {_REMEDY}"


def nothing_received(part: DeclaredPart) -> str:
    """Return the note that no receive fills anything of an array."""
    copied = "Weft does not see what is copied into it from another buffer"
    return f"no receive puts data into {_array(part)} ({copied}): {_REMEDY}"


def widths_changed(part: DeclaredPart) -> str:
    """Return a native program's widths that it was watched with are not those of all receives."""
    return f"the receives of all ranks show other ghost cells of {_array(part)} than the first ones did: {_REMEDY}"


def _array(part: DeclaredPart) -> str:
    return part.name or f"the array of {_at(part.at)}"


def _layers(n: int) -> str:
    return f"{n} layer{'s' * (n > 1)}"


def _describe_end(part: DeclaredPart, side: Side) -> str:
    axis = len(part.shape) - 1 - side[0] if part.reversed else side[0]
    return f"at the {'low' if side[1] == LOW else 'high'} end of dimension {axis + 1}"


def foreign_value_received(case: GhostCase) -> Finding:
    """Return the ghost holds what its owner's cell never had, and where that is from is not known."""
    words = f"the copy has a value that rank {case.wrong.owner} never had there"
    return _make_finding("remote-access", case, words, [], is_certain=False)


def _make_finding(
    kind: str, case: GhostCase, explanation: str, other_sites: list[Site], *, changed: Sequence[int] | None = None,
    from_: Sequence[int | list[int]] | None = None, is_certain: bool = True,
) -> Finding:  # fmt: skip
    """Return a finding of a kind about a ghost cell that did not have its owner's value.

    `explanation`: words for what happened, which the message contains. `is_certain`: whether it is proven that the
    reader should have had the owner's value. That is not proven for compiled code: it may have multiplied the ghost by
    0.
    """
    wrong, source = case.wrong, case.source
    read, ghost = wrong.read, int(wrong.ghosts[case.k])
    cell = source.of.to_program_index(case.field.wrap_indices(source.to_global(source.ghosts[[ghost]]))[0].tolist())
    name, local = _name(source), source.of.to_program_index(source.ghost_index(ghost))
    held, should = float(wrong.held[case.k]), float(wrong.should[case.k])
    many = f", and {len(wrong.ghosts) - 1:,} more copies" if len(wrong.ghosts) > 1 else ""
    message = (
        f"rank {wrong.rank} reads its ghost cell {local} at {_at(read.at)}, a copy of {name}{cell} of rank "
        f"{wrong.owner}{many}: {explanation} (it read {held:.6g} instead of {should:.6g})"
    )
    events: list[EventId] = [EventId(wrong.rank, wrong.moment - 1)] if wrong.moment else []
    evidence = Ghost(
        array=name, cell=cell, ghost=local, owner=wrong.owner, value=held, owned=should,
        moment=[wrong.rank, wrong.moment], cells=len(wrong.ghosts), changed=changed, from_=from_,
    )  # fmt: skip
    sites = (Site(wrong.rank, "load", *_file(read.at)), *other_sites)
    cause = "; ".join(f"{site.call} {site.file}:{site.line}" for site in sites)
    ranks = tuple(sorted({wrong.rank, wrong.owner}))
    certainty: Certainty = "certain" if is_certain and not read.pairs else "possible"
    return Finding(kind, KINDS[kind].severity, certainty, message, ranks, sites, tuple(events), evidence, cause)


def _name(source: PlacedPart) -> str:
    return source.of.name or "the array"


def _at(line: Line) -> str:
    return f"{Path(line[0]).name}:{line[1]}"


def _file(line: Line) -> tuple[str, int, str]:
    return line[0], line[1], "" if line[2] == "<module>" else line[2]
