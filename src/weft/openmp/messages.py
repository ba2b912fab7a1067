"""The messages of findings about OpenMP programs, one sentence each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.base.words import listed, ordinal
from weft.dataparallel.raw_findings import NOWHERE
from weft.dataparallel.source_map import AccessPlace
from weft.openmp.raw_findings import RawOpenMPFinding, Strand
from weft.openmp.variable_names import is_simd_loop, source_line

_WORKSHARE: Final = re.compile(r"\bworkshare\b", re.I)

LEFT: Final = {
    "crowd": "races between neighbouring iterations of a loop with many millions of iterations ({at}), because Weft "
    "treats 64 neighbours as one",
    "paths": "pairs of accesses with very many atomics or locks between them, any of which may order the two ({at})",
    "lanes": "dependences between the iterations of a simd loop in most of its runs after the first 1,024 ({at})",
    "readers": "some races between a plain write and many atomic reads ({at}): Weft compares two of the reads, and "
    "every 32nd of the others, with the write",
    "locks": "locks beyond the first 60 ({at}): in which order they are taken, and which data they protect",
}
"""What the runtime's reasons to leave something out mean."""
ONE_MEMORY: Final = "out-of-date copies in target regions, because the program requires unified shared memory ({at})"
KEPT: Final = "races between two iterations that one thread runs, where the compiler overrides the schedule ({at})"


MOST_NAMES: Final = 6
"""Of variables of one finding that its message has."""
MOST_TIMES: Final = 100
"""Beyond that, too few samples are the program's own to say how many times."""
ADDRESS: Final = 1 << 32
"""A loop's variable that is not below counts no iterations: it is a pointer."""


def describe_cost(times: int, share: int, place: AccessPlace) -> str:
    """Return the message that the check is slower than promised, with the construct that costs and the remedy."""
    how = f"about {times} times" if times < MOST_TIMES else f"more than {MOST_TIMES} times"
    where = f"; {share}% of the time goes into the construct at {place.file}:{place.line}" if place.line else ""
    return (
        f"this check takes {how} as long as the program alone{where}. To make it faster, give the program a smaller "
        "input, or "
        'exempt a C or C++ function that you trust from the check: __attribute__((no_sanitize("thread")))'
    )


def describe_place(place: AccessPlace) -> str:
    """Return a place as ` at sums.c:9`; "" if its line is unknown."""
    return f" at {Path(place.file).name}:{place.line}" if place.line else ""


def describe_barrier(reason: str, barrier: AccessPlace, other_barrier: AccessPlace) -> str:
    """Return the message that the threads of a team do not meet at one barrier.

    `reason`: `work` (not all reach a worksharing construct), `left` (some have left the region), else they wait at
    `other_barrier`.
    """
    at = describe_place(barrier)
    if reason == "work":
        return f"Only some threads of the team reach the worksharing construct{at}: all of its threads must, or none"
    if reason == "left":
        return f"Some threads wait at the barrier{at}, which the others never reach: they have left the parallel region"
    return (
        f"Some threads wait at the barrier{at}, and the others of their team wait at another "
        f"one{describe_place(other_barrier)}"
    )


def describe_lock_order(place: AccessPlace, other: AccessPlace, is_circle: bool = False) -> str:
    """Return the message that locks are taken in different orders, at `place` in one and at `other` in another: two
    locks in both orders, or (`is_circle`) more than two, each before the next one and the last before the first.
    """
    if is_circle:
        return (
            f"A thread takes one lock while it holds another{describe_place(place)}; other threads take these and "
            f"further locks{describe_place(other)}, in a circle, so each may hold one and wait for the next for ever: "
            "take them in the same order everywhere"
        )
    return (
        f"A thread takes one lock while it holds another{describe_place(place)}; a thread takes the same two locks in "
        f"the opposite order{describe_place(other)}, so both may wait for ever: take them in the same order everywhere"
    )


def describe_deadlock(place: AccessPlace, other: AccessPlace) -> str:
    """Return the message that no thread can continue; threads wait at `place` and at `other`."""
    second = f", and another{describe_place(other)}" if other.line else ""
    return f"No thread can continue: one waits for ever{describe_place(place)}{second}"


def describe_wrong_reduction(name: str, declared: str, computed: str, is_loop: bool) -> str:
    """Return the message that a reduction is declared with another operation than its loop or its block computes."""
    what = f"the {'loop' if is_loop else 'block'} {'computes' if ' ' in computed else 'combines values by'} {computed}"
    return (
        f"`{name}` is declared as a reduction by {declared}, but {what}: the results of the threads are combined "
        "wrongly"
    )


def describe_merged_task(name: str, task: AccessPlace, write: AccessPlace, read: AccessPlace) -> str:
    """Return the message that a variable's value depends on whether a mergeable task is merged: it is written in the
    task and read after it.
    """
    return (
        f"The value of `{name}`{describe_place(read)} is unspecified: the mergeable task{describe_place(task)} writes "
        f"`{name}`{describe_place(write)}, either in this variable (if the task is merged) or in a copy of its own: "
        f"share it (shared({name})), or leave mergeable out"
    )


def describe_uninitialised_read(name: str, strand_name: str, place: AccessPlace) -> str:
    """Return the message that a private variable is read before it has a value. `strand_name`: the iteration, task or
    thread that reads it at `place`, as text.
    """
    text = (
        f"{strand_name} reads the private variable `{name}`{describe_place(place)} before it has a value: write it "
        "first, or make it firstprivate"
    )
    return text[0].upper() + text[1:]


def describe_strand(strand: Strand, directive_place: AccessPlace, access_file: str = "") -> str:
    """Return the name of what executed code (a strand): `iteration 3 of the loop at line 8`, `task 2 made at line 12`,
    `thread 1`. The directive's file is named if it is another one than that of the access.
    """
    where = f" at line {directive_place.line}" if directive_place.line else ""
    if where and access_file not in {"", directive_place.file}:
        where = f" at {Path(directive_place.file).name}:{directive_place.line}"
    what, index = strand.what, strand.index
    if what == "iteration" and abs(index) >= ADDRESS and strand.number >= 0:
        return f"the {ordinal(strand.number + 1)} iteration of the loop{where}"
    if what == "iteration":
        return f"iteration {index} of the loop{where}"
    if what == "lane":
        return f"iteration {index} of the simd loop{where}"
    if what == "section":
        return f"section {index + 1} of the sections{where}"
    if what == "single":
        return f"the {'workshare' if _WORKSHARE.search(source_line(directive_place)) else 'single'} block{where}"
    if what == "target":
        return f"the target region{where}"
    if what == "copy":
        return "the copy between host and device"
    if what == "host":
        return "the host"
    if what == "task":
        return f"task {index} made{where}" if where else f"task {index}"
    if what == "thread" and is_simd_loop(directive_place):
        return f"the simd loop{where}"
    return f"thread {index} of the region{where}" if what == "thread" else "the thread that began the region"


def describe_race(record: RawOpenMPFinding, strand_names: tuple[str, str], fortran: bool) -> str:
    """Return the message that two accesses race; `strand_names`: what made the later and the earlier access."""
    return f"data race on {record.named.render(fortran)}: {describe_unordered_accesses(record, strand_names, 'it')}"


def describe_common_order(
    named: Sequence[str], record: RawOpenMPFinding, strand_names: tuple[str, str], remedy: str
) -> str:
    """Return the message that races on several variables (`named`: each as text) miss one barrier or one wait; `record`
    is the first of them, which is on the first variable. `remedy`: what is missing.
    """
    names = listed(named) if len(named) <= MOST_NAMES else f"{', '.join(named[: MOST_NAMES - 1])} and more"
    example = describe_unordered_accesses(record, strand_names, named[0])
    return f"data races on {names} have one cause: for example, {example}; {remedy}"


def describe_unordered_accesses(record: RawOpenMPFinding, strand_names: tuple[str, str], name: str) -> str:
    """Return that two accesses of memory (`name`, as text) have no order, with who makes them and where."""
    one, two = strand_names
    other = record.other_access
    places = [describe_place(end.place if end.caller is NOWHERE else end.caller) for end in (record.access, other)]
    loop = f" of {one.partition(' of ')[2]}"
    if one != two and two.endswith(loop):  # both are of one loop: it is named once
        two = two.removesuffix(loop)
    if one == two:
        two = re.sub(r" of the (\w* ?loop|region)", r" of another run of the \1", two)
    return (
        f"{one} {record.access.does}s {name}{places[0]}, {two} {other.does}s it{places[1]}, and nothing orders the two"
    )


def describe_copy_fault(record: RawOpenMPFinding, name: str) -> str:
    """Return the message for a wrong or missing copy of a variable on the device; `name` is the variable as text."""
    if record.kind == "old-copy":
        return describe_old_copy(record, name)
    if record.kind == "beyond":
        return (
            f"A map clause{describe_place(record.access.place)} goes {record.bytes:,} bytes past the end of the "
            f"memory block in which it begins"
        )
    return describe_unmapped(record, name)


def describe_old_copy(record: RawOpenMPFinding, name: str) -> str:
    """Return the message, with the remedy, that host or device reads an old copy of a variable: the other side has a
    newer value, or the copy never had one.
    """
    line = record.other_access.place.line
    what, remedy = _OLD[record.why, record.device]
    reader = f"The target region at line {record.region.line}" if record.device else "The host"
    what = what.format(at=f" at line {line}" if line else "")
    return f"{reader} reads {name}{describe_place(record.access.place)}, {what}: {remedy}"


_OLD: Final = {
    ("none", True): (
        "which has no value on the device, because the map{at} does not copy it there",
        "map it with `to` or `tofrom`",
    ),
    ("none", False): (
        "which the copy back from the device has overwritten with an undefined value: the map{at} did not copy it "
        "there, and no region wrote it",
        "map it with `to` or `tofrom`",
    ),
    ("host", True): ("an old copy: the host has written it{at} since", "add a `target update to` before the region"),
    ("host", False): (
        "which the host had written{at}, but the end of the map overwrote that with an older copy",
        "add a `target update to` before that end, or take the `from` out of the map",
    ),
    ("device", True): (
        "an old copy: a target region has written it{at}, and nothing copied it back before it was mapped again",
        "map it with `from` there, or put a `target data` region around both",
    ),
    ("device", False): (
        "an old copy: a target region has written it{at} on the device",
        "map it with `from`, or add a `target update from`",
    ),
}
"""By what made a copy old, and whether the device reads it: what happened, and the remedy."""


def describe_unmapped(record: RawOpenMPFinding, name: str) -> str:
    """Return the message that a target region accesses data that is not, or only in part, on the device."""
    if record.why == "part":
        return (
            f"A map clause{describe_place(record.access.place)} names more of an array than the part that another "
            f"map has put on the device, and a mapped section cannot grow: map all of it first"
        )
    return (
        f"The target region at line {record.region.line} {record.access.does}s "
        f"{name}{describe_place(record.access.place)}, "
        "which no map copies to the device: add it to a map clause, or map a longer section"
    )
