"""Find the order that is missing between the accesses of a race, and the races that miss the same one.

A barrier or a wait at one place orders all accesses before it and all behind it, whichever variables they touch.
"""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from weft.base.words import listed
from weft.dataparallel.raw_findings import NOWHERE
from weft.dataparallel.source_map import AccessPlace
from weft.openmp.messages import describe_place
from weft.openmp.raw_findings import Access, RawOpenMPFinding, Strand
from weft.openmp.variable_names import is_fortran_place, source_line

MOST_BODY_LINES: Final = 60
"""Of a construct, in which its end or reads of a variable are looked for."""
END_OF_BODY: Final = re.compile(r"\s*(?:[!c*]\$omp\s+end\b|end\s*(?:subroutine|function|program)\b)", re.I)
_WORK: Final = frozenset(("iteration", "section", "single"))
_NOWAIT: Final = re.compile(r"\bnowait\b", re.I)
_END_OF_WORK: Final = re.compile(r"\s*[!c*]\$omp\s+end\s*(?:do|single|sections|workshare)\b", re.I)
_MASKED: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\s+mas(?:ked|ter)\b", re.I)
_BARRIER: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\s+barrier\b", re.I)
WAIT_OR_DEPEND: Final = "put a `taskwait` between them, or a `depend` clause on both"


@dataclass(frozen=True, slots=True)
class MissingOrder:
    """The barrier or the wait that is missing after constructs: their places, and what to do, as text."""

    constructs: tuple[AccessPlace, ...]
    remedy: str


def find_nowait(race: RawOpenMPFinding) -> AccessPlace:
    """Return where the construct that comes first of two, of which the accesses are, has the clause `nowait`; NOWHERE
    if it does not.
    """
    one, two = sorted((race.access.strand, race.other_access.strand), key=lambda strand: strand.work)
    if not {one.what, two.what} <= _WORK or one.region != two.region or one.work == two.work:
        return NOWHERE
    return one.at if one.at.line and has_nowait(one.at) else NOWHERE


def has_nowait(construct: AccessPlace) -> bool:
    """Return whether a worksharing construct has the clause `nowait`, in Fortran at its end."""
    if is_fortran_place(construct):
        lines = linecache.getlines(construct.file)[construct.line :]
        end = next((text for text in lines if _END_OF_WORK.match(text)), "")
        return bool(_NOWAIT.search(end))
    line, text = construct.line, source_line(construct)
    while text.rstrip().endswith("\\"):
        line, text = line + 1, text.rstrip()[:-1] + " " + linecache.getline(construct.file, line + 1)
    return bool(_NOWAIT.search(text))


def find_masked(race: RawOpenMPFinding) -> int:
    """Return the line of the `masked` or `master` directive whose block makes one of the accesses, where no barrier
    stands between it and the other one; 0 if there is none.
    """
    for one, other in ((race.access, race.other_access), (race.other_access, race.access)):
        region, file = one.strand.at, one.strand.at.file
        end = other.place.line if other.strand.what == "thread" else other.strand.at.line
        if one.strand.what != "thread" or other.strand.what not in {*_WORK, "thread"} or other.strand.at.file != file:
            continue
        for line in (
            k for k in range(region.line, region.line + MOST_BODY_LINES) if _MASKED.match(linecache.getline(file, k))
        ):
            block = range(line + 1, find_block_end(file, line) + 1)
            inside = one.place.file == file and one.place.line in block
            called = rf"\b{re.escape(one.place.function.rpartition('::')[2])}\b" if one.place.function else r"(?!)"
            calls = one.place.function != region.function and any(
                re.search(called, linecache.getline(file, k)) for k in block
            )
            if (inside or calls) and not any(
                _BARRIER.match(linecache.getline(file, k)) for k in range(block.stop, end)
            ):
                return line
    return 0


def find_block_end(file: str, directive_line: int) -> int:
    """Return the last line of the block that a directive at a line begins."""
    depth = 0
    for line in range(directive_line + 1, directive_line + MOST_BODY_LINES):
        text = linecache.getline(file, line)
        depth += text.count("{") - text.count("}")
        if END_OF_BODY.match(text) or (depth <= 0 and re.search(r"[;}]\s*(?://.*|/\*.*)?$", text)):
            return line
    return directive_line


def describe_masked_block(line: int) -> str:
    """Return the remedy where a `masked` block is not followed by a barrier."""
    return f"the block at line {line} has no barrier at its end: put one after it"


def describe_nowait(construct: AccessPlace) -> str:
    """Return the remedy where a construct has the clause `nowait`."""
    return f"the construct{describe_place(construct)} has nowait: without it, its barrier orders them"


def find_maker_of_task(race: RawOpenMPFinding) -> tuple[Strand, Access] | None:
    """Return the task that makes one access of a race, and the other access, if that is of the code that makes the
    task; None if it is not.
    """
    for one, other in ((race.access, race.other_access), (race.other_access, race.access)):
        if one.strand.what == "task" and one.strand.made_by == other.strand.strand != 0:
            return one.strand, other
    return None


def are_of_sibling_tasks(race: RawOpenMPFinding) -> bool:
    """Return whether the two accesses are of tasks of two constructs that the same code makes."""
    one, two = race.access.strand, race.other_access.strand
    return one.what == two.what == "task" and one.made_by == two.made_by != 0 and one.at != two.at


def find_missing_order(race: RawOpenMPFinding) -> MissingOrder | None:
    """Return the order that is proven to be missing between the accesses of a race, unless it is a wait for a task;
    None if none is.
    """
    one, two = race.access.strand, race.other_access.strand
    if (
        (line := find_masked(race))
        and one.region == two.region
        and max(
            strand.at.line if strand.what in _WORK else access.place.line
            for access, strand in ((race.access, one), (race.other_access, two))
        )
        > find_block_end(one.at.file, line)
    ):
        return MissingOrder((AccessPlace(one.at.file, line, 0, one.at.function),), describe_masked_block(line))
    if (at := find_nowait(race)).line:
        return MissingOrder((at,), describe_nowait(at))
    if are_of_sibling_tasks(race) and one.at.line and two.at.line:
        first, second = sorted((one, two), key=lambda strand: strand.index)
        remedy = f"nothing orders the tasks made at lines {first.at.line} and {second.at.line}: {WAIT_OR_DEPEND}"
        return MissingOrder((first.at, second.at), remedy)
    return None


@dataclass(slots=True)
class MissingWait:
    """A `taskwait` that is missing in code that makes tasks: after the line of the last of them, in front of what
    races with them.
    """

    tasks: list[AccessPlace]
    next_line: int


def find_missing_wait(races: Sequence[RawOpenMPFinding]) -> tuple[int, MissingWait] | None:
    """Return the strand that makes the tasks of all these races and the `taskwait` that it lacks; None if another
    place than between their directives and the other accesses may be meant.
    """
    found = [one for one in map(find_maker_of_task, races) if one is not None]
    tasks = list(dict.fromkeys(task.at for task, _ in found))
    places = [access.place for _, access in found]
    if len(found) < len(races) or len({(at.file, at.function) for at in (*tasks, *places)}) != 1:
        return None
    wait = MissingWait(tasks, min(place.line for place in places))
    return (found[0][0].made_by, wait) if max(at.line for at in tasks) < wait.next_line else None


def group_by_missing_order(
    causes: Sequence[Sequence[RawOpenMPFinding]],
) -> Iterator[tuple[MissingOrder | None, list[Sequence[RawOpenMPFinding]]]]:
    """Yield the races of several variables (`causes`: a list for each) in groups that miss one order, with that order;
    None with races of which none is known.
    """
    groups: dict[object, tuple[MissingOrder | None, list[Sequence[RawOpenMPFinding]]]] = {}
    waits: dict[int, list[tuple[MissingWait, Sequence[RawOpenMPFinding]]]] = defaultdict(list)
    for races in causes:
        orders = {find_missing_order(race) for race in races}
        order = orders.pop() if len(orders) == 1 else None
        wait = find_missing_wait(races) if order is None else None
        if wait is not None:
            waits[wait[0]].append((wait[1], races))
        else:
            groups.setdefault(order or id(races), (order, []))[1].append(races)
    yield from groups.values()
    for found in waits.values():
        yield from group_by_wait(found)


def group_by_wait(
    found: Sequence[tuple[MissingWait, Sequence[RawOpenMPFinding]]],
) -> Iterator[tuple[MissingOrder, list[Sequence[RawOpenMPFinding]]]]:
    """Yield the races with tasks of one maker in groups that one `taskwait` orders, with its place: it stands behind
    all their tasks and in front of all other accesses.
    """
    groups: list[tuple[MissingWait, list[Sequence[RawOpenMPFinding]]]] = []
    for wait, races in sorted(found, key=lambda one: one[0].next_line):
        if groups and max(at.line for at in wait.tasks) < groups[-1][0].next_line:
            groups[-1][0].tasks.extend(wait.tasks)
            groups[-1][1].append(races)
        else:
            groups.append((wait, [races]))
    for wait, causes in groups:
        tasks = sorted(set(wait.tasks), key=lambda at: at.line)
        lines = listed([str(at.line) for at in tasks])
        remedy = (
            f"the code that makes the {'tasks at lines' if len(tasks) > 1 else 'task at line'} {lines} does not wait "
            f"for {'them' if len(tasks) > 1 else 'it'}: put a `taskwait` in front of line {wait.next_line}"
        )
        yield MissingOrder(tuple(tasks), remedy), causes
