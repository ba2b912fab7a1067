"""The messages of findings about OpenMP programs, one sentence each."""

from __future__ import annotations

import dataclasses
import linecache
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from weft.base.words import ordinal
from weft.dataparallel.raw_findings import NOWHERE
from weft.dataparallel.source_map import AccessPlace
from weft.openmp.library_functions import INSTEAD
from weft.openmp.raw_findings import NamedElement, RawOpenMPFinding, Strand
from weft.openmp.variable_names import get_preprocessed_line, is_fortran_place, is_simd_loop, source_line

_COMPOUND: Final = re.compile(r"(?:[-+*/&|^]|<<|>>)=|\+\+|--")

_END_OF_FUNCTION: Final = re.compile(r"\}|\s*end\s*(?:subroutine|function|program)\b", re.I)

_WORKSHARE: Final = re.compile(r"\bworkshare\b", re.I)

LEFT: Final = {
    "crowd": "races between neighbouring iterations of a loop with many millions of iterations ({at}), because Weft "
    "treats 64 neighbours as one",
    "paths": "pairs of accesses with very many atomics or locks between them, any of which may order the two ({at})",
    "lanes": "dependences between the iterations of a simd loop in most of its runs after the first 1,024 ({at})",
    "readers": "plain writes ({at}) beside many atomic reads: two of them and each 32nd of the others are compared",
    "locks": "in which order locks are taken and what they protect, beyond the first 60 locks ({at})",
}
"""What the runtime's reasons to leave something out mean."""
ONE_MEMORY: Final = "out-of-date copies in target regions, because the program requires unified shared memory ({at})"
KEPT: Final = "races between two iterations that one thread runs, where the compiler overrides the schedule ({at})"


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
    task and read behind it.
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
    one, two = strand_names
    other = record.other_access
    places = [describe_place(end.place if end.caller is NOWHERE else end.caller) for end in (record.access, other)]
    loop = f" of {one.partition(' of ')[2]}"
    if one != two and two.endswith(loop):  # both are of one loop: it is named once
        two = two.removesuffix(loop)
    if one == two:
        two = re.sub(r" of the (\w* ?loop|region)", r" of another run of the \1", two)
    return (
        f"data race on {record.named.render(fortran)}: {one} {record.access.does}s it{places[0]}, {two} {other.does}s "
        f"it{places[1]}, and nothing orders the two"
    )


def suggest_clause(races: Sequence[RawOpenMPFinding], fortran: bool) -> str:
    """Return the suggestion of a clause, or of an atomic update, for a shared scalar if the races and the source line
    of the first one show which; "" otherwise.
    """
    first = races[0]
    name = first.named.name
    if not first.named.scalar or not name:
        return ""
    flags = re.I if fortran else 0
    text = get_preprocessed_line(first.access.place)
    if is_changed_beside_tasks(races):
        return f"; if the task needs the value that `{name}` had when it was made, name it in the task's firstprivate"
    if re.search(rf"\bfor\s*\(\s*{name}\s*=|^\s*do\s+(?:\d+\s+)?{name}\s*=", text, flags):
        return f"; `{name}` counts an inner loop: name it in private"
    task = first.access.strand.what == "task"
    if extreme := find_extreme(text, name, flags):
        return "" if is_out_of_reach(first) else f"; name it in {'in_' if task else ''}reduction({extreme}: {name})"
    again = re.search(rf"\b{name}\s*=(?!=)[^;]*\b{name}\b", text, flags)
    if again or re.search(rf"(?:\b{name}\s*(?:{_COMPOUND.pattern})|(?:\+\+|--)\s*{name}\b)", text):
        if is_out_of_reach(first):
            return f"; if all add to `{name}`, update it atomically"
        return f"; if all add to `{name}`, name it in {'an in_reduction' if task else 'a reduction'} clause"
    only_written = all(one.access.write and one.other_access.write for one in races)
    place = first.access.place
    body = dataclasses.replace(place, line=place.line - 1) if is_out_of_reach(first) else first.access.strand.at
    if only_written and not is_read_in_body(body, name, flags):
        is_last = first.access.strand.what == "iteration" and not is_out_of_reach(first)
        last = f"name it in lastprivate(conditional: {name}), or " if is_last else ""
        return f"; they only write `{name}`: {last}write it atomically"
    if all(one.access.write for one in races):  # none reads another one's value: each writes first
        where = "make it threadprivate" if is_out_of_reach(first) else f"name `{name}` in private"
        return f"; if each needs a value of its own, {where}"
    return ""


def is_read_in_body(construct: AccessPlace, name: str, flags: int) -> bool:
    """Return whether the text of a construct has a variable where it is not assigned. The compiler may keep the value
    that such a read takes.
    """
    depth = 0
    for line in range(construct.line + 1, construct.line + MOST_BODY_LINES):
        text = linecache.getline(construct.file, line)
        if re.search(rf"\b{name}\b(?!\s*=(?!=))", text, flags):
            return True
        depth += text.count("{") - text.count("}")
        if _END_OF_BODY.match(text) or (depth <= 0 and "}" in text):
            break
    return False


MOST_BODY_LINES: Final = 60
"""Of a construct, in which reads of a variable are looked for."""
_END_OF_BODY: Final = re.compile(r"\s*(?:[!c*]\$omp\s+end\b|end\s*(?:subroutine|function|program)\b)", re.I)


def is_changed_beside_tasks(races: Iterable[RawOpenMPFinding]) -> bool:
    """Return whether in all races a task reads what the code that makes tasks writes."""
    return all(
        any(
            one.strand.what == "task"
            and not one.write
            and two.write
            and two.strand.what in {"single", "thread", "host"}
            for one, two in ((race.access, race.other_access), (race.other_access, race.access))
        )
        for race in races
    )


def is_out_of_reach(race: RawOpenMPFinding) -> bool:
    """Return whether no clause of the construct can give an access another variable: it is made in a function that the
    construct calls, and knows the variable by itself.
    """
    place, construct = race.access.place, race.access.strand.at
    if not construct.function or place.function == construct.function:
        return place.file == construct.file and place.line < construct.line  # an inlined lambda before the construct
    return race.named.is_static or bool(_LAMBDA.search(place.function))


_LAMBDA: Final = re.compile(r"\boperator\(\)|<lambda|_M_invoke")


def find_extreme(text: str, name: str, flags: int) -> str:
    """Return `max` or `min` if a statement makes a variable the larger or the smaller one of itself and another value;
    "" otherwise.
    """
    compared = re.search(
        rf"\bif\s*\((?:\s*{name}\s*(?P<less><|\.lt\.)=?|[^;]*?(?P<more>>|\.gt\.)=?\s*{name}\s*\))[^;]*\b{name}\s*=(?!=)"
        rf"|\bif\s*\((?:\s*{name}\s*(?P<over>>|\.gt\.)=?|[^;]*?(?P<under><|\.lt\.)=?\s*{name}\s*\))[^;]*\b{name}\s*=(?!=)",
        text, flags,
    )  # fmt: skip
    if compared:
        return "max" if compared["less"] or compared["more"] else "min"
    called = re.search(rf"\b{name}\s*=\s*(?:std::)?f?(?P<what>max|min)f?\s*(?:<\w+>)?\s*\([^;]*\b{name}\b", text, flags)
    return called["what"].lower() if called else ""


def suggest_common_lock(race: RawOpenMPFinding) -> str:
    """Return the suggestion of one lock for both accesses if at least one of them is under a lock; "" otherwise."""
    one, two = race.access, race.other_access
    if one.strand.has_lock and two.strand.has_lock:
        return "; each of them holds a lock or is in a critical section, but not in the same one: use one for both"
    if one.strand.has_lock != two.strand.has_lock:
        locked = one if one.strand.has_lock else two
        return f"; only {'one of them' if one.write == two.write else f'the {locked.does}'} is under a lock"
    return ""


def find_nowait(race: RawOpenMPFinding) -> AccessPlace:
    """Return where the first of two constructs, of which the accesses are, has the clause `nowait`; NOWHERE if it does
    not.
    """
    one, two = race.access.strand, race.other_access.strand
    if {one.what, two.what} <= _WORK and one.at.line and two.at.line:
        return next((at for at in (two.at, one.at) if has_nowait(at)), NOWHERE)
    return NOWHERE


_WORK: Final = frozenset(("iteration", "section", "single"))


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


_NOWAIT: Final = re.compile(r"\bnowait\b", re.I)
_END_OF_WORK: Final = re.compile(r"\s*[!c*]\$omp\s+end\s*(?:do|single|sections|workshare)\b", re.I)


def find_masked(race: RawOpenMPFinding) -> int:
    """Return the line of the `masked` or `master` directive whose block makes one of the accesses, where no barrier
    stands between it and the other one; 0 if there is none.
    """
    for one, other in ((race.access, race.other_access), (race.other_access, race.access)):
        region, file = one.strand.at, one.strand.at.file
        end = other.place.line if other.strand.what == "thread" else other.strand.at.line
        if one.strand.what != "thread" or other.strand.what not in {*_WORK, "thread"} or other.strand.at.file != file:
            continue
        for line in (k for k in range(region.line, region.line + MOST_BODY_LINES) if _MASKED.match(source_of(file, k))):
            block = range(line + 1, find_block_end(file, line) + 1)
            inside = one.place.file == file and one.place.line in block
            called = rf"\b{re.escape(one.place.function.rpartition('::')[2])}\b" if one.place.function else r"(?!)"
            calls = one.place.function != region.function and any(re.search(called, source_of(file, k)) for k in block)
            if (inside or calls) and not any(_BARRIER.match(source_of(file, k)) for k in range(block.stop, end)):
                return line
    return 0


def source_of(file: str, line: int) -> str:
    """Return a line of a file; "" if there is none."""
    return linecache.getline(file, line)


def find_block_end(file: str, directive_line: int) -> int:
    """Return the last line of the block that a directive at a line begins."""
    depth = 0
    for line in range(directive_line + 1, directive_line + MOST_BODY_LINES):
        text = source_of(file, line)
        depth += text.count("{") - text.count("}")
        if _END_OF_BODY.match(text) or (depth <= 0 and re.search(r"[;}]\s*(?://.*|/\*.*)?$", text)):
            return line
    return directive_line


_MASKED: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\s+mas(?:ked|ter)\b", re.I)
_BARRIER: Final = re.compile(r"\s*(?:#\s*pragma\s+omp|[!c*]\$omp)\s+barrier\b", re.I)


def suggest_wait(race: RawOpenMPFinding) -> str:
    """Return the suggestion to leave out a `nowait` that lets two constructs overlap, or to put a barrier behind
    `masked`; "" if neither stands there.
    """
    if line := find_masked(race):
        return f"; the block at line {line} has no barrier at its end: put one behind it"
    at = find_nowait(race)
    return f"; the construct{describe_place(at)} has nowait: without it, its barrier orders them" if at.line else ""


def suggest_other_type(record: RawOpenMPFinding) -> str:
    """Return the suggestion of another function if the race is on static data of a C library function, or of another
    type if it is on a `vector<bool>`; "" otherwise.
    """
    named, place = record.named, record.access.place
    if named.library_function:
        return f"; use {INSTEAD[named.library_function]} instead, which shares no data"
    declared = rf"\bvector\s*<\s*bool\s*(?:,[^;]*)?>\s*[&*]?\s*(?:[^;(){{}}]*,\s*)?{re.escape(named.name)}\b"
    if named.name and any(re.search(declared, text) for text in linecache.getlines(place.file)):
        return f"; elements of a `vector<bool>` share words: make `{named.name}` a `vector<char>`"
    return ""


def is_declared_around(named: NamedElement, declaration_file: str, construct: AccessPlace) -> bool:
    """Return whether a function's static variable is declared before a construct in the same function, so that clauses
    of the construct can name it.
    """
    between = linecache.getlines(declaration_file)[named.line : construct.line]
    return (
        declaration_file == construct.file
        and named.line <= construct.line
        and not any(_END_OF_FUNCTION.match(text) for text in between)
    )


def suggest_threadprivate(record: RawOpenMPFinding) -> str:
    """Return the suggestion to make a function's static variable threadprivate. "" for other variables, and if a clause
    of the construct can name the variable.
    """
    construct = record.access.strand.at
    if record.named.is_common_block:
        return f"; make the common block threadprivate(/{record.named.name.removesuffix('_')}/), or pass arguments"
    if not record.named.is_local_static or is_declared_around(record.named, record.access.place.file, construct):
        return ""
    name = record.named.name
    return (
        f"; `{name}` is a static variable of a function, which no clause can name: make it threadprivate, or a "
        f"parameter"
    )


def describe_ordering_chunk(record: RawOpenMPFinding) -> str:
    """Return the remark that only the loop's schedule orders the two accesses, because it gives both to one thread; ""
    if the schedule does not do that.
    """
    if not record.chunk:
        return ""
    return f" but the loop's schedule, which gives each chunk of {record.chunk:,} iterations to one thread"


def suggest_taskwait(record: RawOpenMPFinding) -> str:
    """Return the suggestion of `taskwait` or `depend` if exactly one of the two accesses is in a construct that the
    device runs asynchronously; "" otherwise.
    """
    if record.access.strand.beside != record.other_access.strand.beside:
        return "; put a `taskwait` between them, or a `depend` clause on both"
    return ""


def suggest_static_schedule(record: RawOpenMPFinding, crossed: Collection[frozenset[AccessPlace]] = ()) -> str:
    """Return the suggestion of `schedule(static)` if two iterations with the same index, of two different loops, made
    the accesses; "" otherwise, and if iterations of different numbers race there, too (`crossed`: pairs of loops).
    """
    one, two = record.access.strand, record.other_access.strand
    loops = one.what == two.what == "iteration" and one.pc != two.pc
    if not loops or one.index != two.index or frozenset((one.at, two.at)) in crossed or one.at.line == two.at.line:
        return ""
    return "; with schedule(static) on both loops, which have equally many iterations, one thread runs both"


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
