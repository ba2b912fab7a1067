"""Suggest how to repair a data race, from the races of one cause and the program's text at their lines.

Each function returns the end of a message, or "" if its remedy does not fit.
"""

from __future__ import annotations

import dataclasses
import linecache
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from weft.dataparallel.source_map import AccessPlace
from weft.openmp.library_functions import INSTEAD
from weft.openmp.missing_order import (
    END_OF_BODY,
    MOST_BODY_LINES,
    WAIT_OR_DEPEND,
    are_of_sibling_tasks,
    describe_masked_block,
    describe_nowait,
    find_maker_of_task,
    find_masked,
    find_nowait,
)
from weft.openmp.raw_findings import NamedElement, RawOpenMPFinding
from weft.openmp.variable_names import get_preprocessed_line, is_fortran_place

_COMPOUND: Final = re.compile(r"(?:[-+*/&|^]|<<|>>)=|\+\+|--")
_END_OF_FUNCTION: Final = re.compile(r"\}|\s*end\s*(?:subroutine|function|program)\b", re.I)
_LAMBDA: Final = re.compile(r"\boperator\(\)|<lambda|_M_invoke")


def suggest_remedy_of_variable(races: Sequence[RawOpenMPFinding]) -> str:
    """Return the suggestion of a remedy for the variable of races that have one cause; "" if an order of their
    constructs is what they lack.
    """
    first = races[0]
    return (
        describe_ordering_chunk(first)
        or suggest_taskwait(first)
        or suggest_other_type(first)
        or suggest_threadprivate(first)
        or suggest_common_lock(first)
        or suggest_clause(races, is_fortran_place(first.access.place))
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
        if END_OF_BODY.match(text) or (depth <= 0 and "}" in text):
            break
    return False


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


def suggest_wait(race: RawOpenMPFinding) -> str:
    """Return the suggestion of what orders two accesses: without the `nowait` that lets two constructs overlap, with a
    barrier behind `masked`, or with a wait for a task; "" if none of these is missing.
    """
    if line := find_masked(race):
        return f"; {describe_masked_block(line)}"
    if (at := find_nowait(race)).line:
        return f"; {describe_nowait(at)}"
    if find_maker_of_task(race) is not None:
        return "; put a `taskwait` between them"
    return f"; {WAIT_OR_DEPEND}" if are_of_sibling_tasks(race) else ""


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
    return f"; {WAIT_OR_DEPEND}" if record.access.strand.beside != record.other_access.strand.beside else ""


def suggest_static_schedule(record: RawOpenMPFinding, crossed: Collection[frozenset[AccessPlace]] = ()) -> str:
    """Return the suggestion of `schedule(static)` if two iterations with the same index, of two different loops, made
    the accesses; "" otherwise, and if iterations of different numbers race there, too (`crossed`: pairs of loops).
    """
    one, two = record.access.strand, record.other_access.strand
    loops = one.what == two.what == "iteration" and one.pc != two.pc
    if not loops or one.index != two.index or frozenset((one.at, two.at)) in crossed or one.at.line == two.at.line:
        return ""
    return "; with schedule(static) on both loops, which have equally many iterations, one thread runs both"
