"""Format sets of ranks, lists and numbers for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_STEERING: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")
_MOST_NAMED: Final = 8
"""The most tasks whose names are in a line."""
_PARTS: Final = re.compile(
    r"<(?:module|locals|lambda|genexpr|\w+comp)>|operator\s*(?:\(\)|[<>=!+\-*/&|^~\[\]]+)|[^<>()]|[<>()]"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def rank_set(ranks: Iterable[int]) -> str:
    """Format a set of ranks: `0-3, 7` for 0, 1, 2, 3, 7."""
    ordered = sorted(set(ranks))
    parts: list[str] = []
    start = 0
    for i in range(1, len(ordered) + 1):
        if i == len(ordered) or ordered[i] != ordered[i - 1] + 1:
            run = ordered[start:i]
            parts += [str(run[0])] if len(run) == 1 else [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [*map(str, run)]
            start = i
    if len(parts) > 8:
        return ", ".join(parts[:6]) + f" and {len(ordered) - _count_ranks(parts[:6])} more"
    return listed(parts)


def _count_ranks(parts: Iterable[str]) -> int:
    """Return how many ranks some parts of a text such as `0-3, 7` name: 5 for `0-3` and `7`."""
    total = 0
    for part in parts:
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def rank_words(ranks: Iterable[int]) -> str:
    """Format a set of ranks with the noun: `rank 3` or `ranks 0-2 and 5`."""
    found = set(ranks)
    return ("rank " if len(found) == 1 else "ranks ") + rank_set(found)


def rank_names(names: Sequence[str]) -> str:
    """Format which rank is which task: `0 is master 0, 1 is worker 0.1`; empty if ranks have numbers only."""
    shown = [f"{rank} is {printable(str(name))}" for rank, name in enumerate(names[:_MOST_NAMED])] if names[1:] else []
    return ", ".join([*shown, *(["..."] if len(names) > _MOST_NAMED else [])])


def listed(parts: Sequence[str], last: str = "and") -> str:
    """Join words for a sentence: `a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def plural(count: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith(("s", "ch")) else "s")


def printable(text: str) -> str:
    """Return a text on one line, without the characters that would act on a terminal."""
    return visible(text.replace("\n", " ").replace("\t", " "))


def visible(text: str) -> str:
    """Return a text with line feeds and tabs, but without the other characters that would act on a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def escaped(text: str) -> str:
    r"""Return a text with the characters that would steer a terminal written as escapes: `\\x1b`."""
    return _STEERING.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


def time_text(ns: int) -> str:
    """Format nanoseconds as seconds with nine digits, so that a column of times lines up."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 10**9}.{abs(ns) % 10**9:09d}"


def duration(ns: int) -> str:
    """Format nanoseconds as a duration with three significant digits: `820 ns`, `1.25 ms`."""
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 999.5 * size else f"{ns / size:.0f} {unit}"
    return f"{ns} ns"


def short_function(function: str) -> str:
    """Return the name of a C++ function on one line, without its template's arguments, parameters and result."""
    kept, depth = [], 0
    for part in _PARTS.findall(function):
        depth -= part in ">)"
        if depth == 0 and part not in "<>()":
            kept.append(part)
        depth += part in "<("
    name = "".join(kept).removesuffix(" const").split(" ")[-1].removeprefix("::")
    return name or function


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `13th`."""
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
