"""What is said of OpenMP programs, a sentence a finding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from weft.dataparallel.texts import AccessPlace
from weft.openmp.names import Named, line_of, source

_COMPOUND: Final = re.compile(r"(?:[-+*/&|^]|<<|>>)=|\+\+|--")

_WORKSHARE: Final = re.compile(r"\bworkshare\b", re.I)

LEFT: Final = {
    "crowd": "neighbours among the many millions of iterations of a loop ({at}): 64 of a thread count as one",
    "locks": "the order of locks and what they protect, beyond the first 60 locks ({at})",
}
"""What the runtime's reasons to leave something out mean."""
ONE_MEMORY: Final = "which copies of the target regions are old: the program requires one memory ({at})"
KEPT: Final = "iterations of one thread among each other where the compiler takes no schedule ({at})"


def barrier(why: str, other: AccessPlace) -> str:
    """Threads of a team that do not meet at one barrier."""
    if why == "work":
        return "Some threads of a team come to this construct and others do not: all must share in its work, or none"
    if why == "left":
        return "Threads wait at this barrier, which others of their team never reach: they have left the region"
    return f"Threads wait at this barrier while others of their team wait at another one (line {other.line})"


def lock_order(other: AccessPlace) -> str:
    """Two locks that are taken in both orders."""
    where = f" at line {other.line}" if other.line else ""
    return f"A lock is taken here while another is held; elsewhere{where} the two are taken in the other order"


def deadlock(other: AccessPlace) -> str:
    """No thread can go on."""
    where = f", another at line {other.line}" if other.line else ""
    return f"No thread can go on: one waits here for ever{where}"


def reduction(name: str, declared: str, does: str, loop: bool) -> str:
    """A reduction that combines by another operation than its loop, or its block, uses."""
    what = f"the {'loop' if loop else 'block'} {'computes' if ' ' in does else 'combines by'} {does}"
    return (
        f"`{name}` is declared as a reduction by {declared}, and {what}: the threads' results are put together wrongly"
    )


def valueless(name: str, one: str) -> str:
    """A private variable that is read before it is written."""
    text = f"{one} reads `{name}`, which is private there and has no value yet: write it first, or make it firstprivate"
    return text[0].upper() + text[1:]


def who(held: Mapping[str, Any], place: AccessPlace | None) -> str:
    """`iteration 3 of the loop at line 8`, `task 2 made at line 12`, `thread 1`."""
    where = f" at line {place.line}" if place and place.line else ""
    what, index = held["what"], held["index"]
    if what == "iteration":
        return f"iteration {index} of the loop{where}"
    if what == "lane":
        return f"iteration {index} of the simd loop{where}"
    if what == "section":
        return f"section {index + 1} of the sections{where}"
    if what == "single":
        return f"the {'workshare' if place and _WORKSHARE.search(source(place)) else 'single'} block{where}"
    if what == "target":
        return f"the target region{where}"
    if what == "copy":
        return "the copy between host and device"
    if what == "host":
        return "the host"
    if what == "task":
        return f"task {index} made{where}" if where else f"task {index}"
    return f"thread {index} of the region{where}" if what == "thread" else "the thread that began the region"


def race(named: Named, who: tuple[str, str], held: Mapping[str, Any], other: AccessPlace, fortran: bool) -> str:
    """The two accesses and what is missing between them."""
    one, two = who
    does = "writes" if held["write"] else "reads"
    other_does = "writes" if held["other_write"] else "reads"
    line = f" at line {other.line}" if other.line else ""
    text = f"{one} {does} {named.text(fortran)}, which {two} {other_does}{line}: nothing orders the two"
    return text[0].upper() + text[1:]


def advice(named: Named, pairs: Mapping[tuple[int, int], Mapping[str, Any]], place: AccessPlace, fortran: bool) -> str:
    """What a scalar that all share looks like: a sum that is no reduction, or a value of each iteration's own."""
    if not named.scalar or not named.name:
        return ""
    text = line_of(place)
    name = re.escape(named.name)
    if re.search(rf"\bfor\s*\(\s*{name}\s*=|^\s*do\s+(?:\d+\s+)?{name}\s*=", text, re.I if fortran else 0):
        return f"; `{named.name}` counts an inner loop, and belongs in private"
    again = re.search(rf"\b{name}\s*=(?!=)[^;]*\b{name}\b", text, re.I if fortran else 0)
    if again or re.search(rf"(?:\b{name}\s*(?:{_COMPOUND.pattern})|(?:\+\+|--)\s*{name}\b)", text):
        return f"; if all add to `{named.name}`, it belongs in a reduction"
    if all(held["write"] for held in pairs.values()):  # none reads another one's value: each writes first
        return f"; if each needs a value of its own, `{named.name}` belongs in private"
    return ""


def unawaited(held: Mapping[str, Any]) -> str:
    """What would order two, one of which a construct of the device does beside the other."""
    if held["strand"].get("beside") != held["other"].get("beside"):
        return "; a `taskwait` between them is missing, or a `depend` at both"
    return ""


def nowait(held: Mapping[str, Any]) -> str:
    """What would order the same iteration of two loops, one of which has no barrier at its end."""
    one, two = held["strand"], held["other"]
    loops = one["what"] == two["what"] == "iteration" and one["pc"] != two["pc"]
    if not loops or one["index"] != two["index"]:
        return ""
    return "; only with schedule(static) on both loops, which are as long, is one thread sure to run both"


def copied(name: str, held: Mapping[str, Any], other: AccessPlace, region: AccessPlace) -> str:
    """What is wrong with a copy, or that there is none."""
    if held["kind"] == "old-copy":
        return old_copy(name, held, other, region)
    if held["kind"] == "beyond":
        return f"A map goes {held['bytes']:,} bytes beyond the block of memory in which it begins"
    return unmapped(name, held, region)


def old_copy(name: str, held: Mapping[str, Any], other: AccessPlace, region: AccessPlace) -> str:
    """A read of the copy that is older, or has no value."""
    at = f" at line {other.line}" if other.line else ""
    device = held["device"]
    what, remedy = _OLD[held["why"], device]
    reader = f"The target region at line {region.line}" if device else "The host"
    return f"{reader} reads {name}, {what.format(at=at)}: {remedy}"


_OLD: Final = {
    ("none", True): ("which the map{at} brings no value to, on the device", "map it with `to` or `tofrom`"),
    ("none", False): (
        "which a copy from the device has overwritten: no region wrote it there, and the map{at} brought no value",
        "map it with `to` or `tofrom`",
    ),
    ("host", True): ("which the host has written{at} since it was copied", "a `target update to` is missing"),
    ("host", False): (
        "which the host has written{at}, and the end of the map has overwritten by the older copy",
        "a `target update to` is missing before it, or its `from` is one too many",
    ),
    ("device", True): (
        "which a target region has written{at} and no copy brought back before it was mapped again",
        "map it there with `from`, or keep it on the device by a data region around both",
    ),
    ("device", False): (
        "which a target region has written{at} on the device",
        "a `from` in its map, or a `target update from`, is missing",
    ),
}
"""By what made a copy old, and whether the device reads it: what happened, and the remedy."""


def unmapped(name: str, held: Mapping[str, Any], region: AccessPlace) -> str:
    """An access of what the device does not have."""
    if held["why"] == "part":
        return "A map of data of which another map has brought a part to the device already: no map can grow"
    does = "writes" if held["write"] else "reads"
    return f"The target region at line {region.line} {does} {name}, which no map brings to the device"
