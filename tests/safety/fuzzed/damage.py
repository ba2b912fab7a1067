"""Ways to damage any bytes, and any JSON: each takes them and a source of chance, and returns what became of them."""

from __future__ import annotations

import json
import math
import random
from copy import deepcopy
from typing import Any

WIDTHS = (1, 2, 4, 8)
NUMBERS = [
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    4095,
    4096,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
"""Where what counts, places and measures turns over."""
HUGE = "9" * 5000
"""A number with more digits than Python reads."""
RAW = {
    "@huge@": HUGE,
    "@minus@": "-" + HUGE,
    "@exponent@": "1e99999",
    "@half@": '"\\ud800"',
    "@deep@": "[" * 3000 + "]" * 3000,
}
"""Values that no writer of JSON writes: a text stands for them until it is written."""
WRONG: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, 2**70, -(2**63) - 1, 0.5, 1e308, math.nan, math.inf, -math.inf,
    "", "x",
    "-1", "7", "\ud800", "\udfff\ud800", "\x1b]0;x\x07", "\u202e", "a\0b", "\n", "/etc/passwd", "../../../etc/passwd",
    "%s{}{0}", "y" * 100_000, [], {}, [None], [[["a"]]], {"a": {"1": 2}}, [0] * 300, *RAW,
]  # fmt: skip


def change(data: bytes, r: random.Random, other: bytes = b"") -> bytes:
    """Bytes with one or some damages. `other`: a file of the same kind, parts of which may come in."""
    held = bytearray(data)
    for _ in range(r.choice([1, 1, 1, 2, 3, 8])):
        r.choice([_flip, _flip, _flip, _number, _number, _cut, _drop, _repeat, _fill, _put, _splice])(held, r, other)
    return bytes(held)


def _at(held: bytearray, r: random.Random) -> int:
    """A place, mostly where something is written."""
    if not held:
        return 0
    for _ in range(8):
        at = r.randrange(len(held))
        if held[at]:
            return at
    return r.randrange(len(held))


def _flip(held: bytearray, r: random.Random, _: bytes) -> None:
    for _ in range(r.choice([1, 1, 4, 30])):
        if held:
            held[_at(held, r)] ^= 1 << r.randrange(8)


def _number(held: bytearray, r: random.Random, _: bytes) -> None:
    width = r.choice(WIDTHS)
    at = _at(held, r) // width * width
    value = r.choice([*NUMBERS, len(held), len(held) + 1, r.getrandbits(64)])
    held[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, r.choice(["little", "little", "big"]))


def _cut(held: bytearray, r: random.Random, _: bytes) -> None:
    del held[r.randrange(len(held) + 1) :]


def _drop(held: bytearray, r: random.Random, _: bytes) -> None:
    at = _at(held, r)
    del held[at : at + r.choice([1, 4, 8, 64, 4096])]


def _repeat(held: bytearray, r: random.Random, _: bytes) -> None:
    at = _at(held, r)
    held[at:at] = held[at : at + r.choice([1, 8, 64, 4096])] * r.choice([1, 2, 50])


def _fill(held: bytearray, r: random.Random, _: bytes) -> None:
    at, size = _at(held, r), r.choice([1, 8, 64, 4096])
    held[at : at + size] = r.choice([b"\xff" * size, bytes(size), r.randbytes(size)])


def _put(held: bytearray, r: random.Random, _: bytes) -> None:
    at = _at(held, r)
    held[at:at] = r.choice(
        [b"\xff", b"\0", b"\n", b"\r\n\r\n", b"{", b"[" * 2000, b"\xed\xa0\x80", b"\x1b[2J", HUGE.encode()]
    )


def _splice(held: bytearray, r: random.Random, other: bytes) -> None:
    """Go on with another file from some place."""
    source = other or bytes(held)
    at, begin = r.randrange(len(held) + 1), r.randrange(len(source) + 1)
    held[at : at + r.choice([16, 4096, 1 << 30])] = source[begin : begin + r.choice([16, 4096, 1 << 30])]


def change_json(data: bytes, r: random.Random, other: bytes = b"") -> bytes:
    """A JSON text with wrong values, keys or shapes; now and then one that is no JSON any more."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return change(data, r, other)
    if (what := r.random()) < 0.15:
        return change(data, r, other)
    if what < 0.2:
        return r.choice(
            [b"[" * 200_000, b'{"a":' * 200_000, b"", b"null", HUGE.encode(), b"\xff\xfe{\0}\0", b'"\\ud800"']
        )
    for _ in range(r.choice([1, 1, 1, 2, 5])):
        value = _changed(value, r)
    return written(value)


def written(value: object) -> bytes:
    """A value as JSON text, with what stands for something that no writer writes."""
    text = json.dumps(value)
    for mark, raw in RAW.items():
        text = text.replace(f'"{mark}"', raw)
    return text.encode()


def places(value: object) -> list[tuple[Any, Any]]:
    """Every container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else list(range(len(one))) if isinstance(one, list) else []
        for key in keys:
            found.append((one, key))
            left.append(one[key])
    return found


def _changed(value: Any, r: random.Random) -> Any:
    if not (found := places(value)):
        return deepcopy(r.choice(WRONG))
    # Half of the time high up: a table of functions has thousands of places, and a field of the top counts as much.
    top = [place for place in found if place[0] is value]
    held, key = r.choice(top if top and r.random() < 0.4 else found)
    what = r.randrange(8)
    if what < 4:
        held[key] = deepcopy(r.choice(WRONG))  # what is changed next must not be the list of wrong values
    elif what == 4:
        del held[key]
    elif what == 5:
        other, there = r.choice(found)
        if there in other if isinstance(other, dict) else there < len(other):
            held[key] = json.loads(json.dumps(other[there]))
    elif what == 6 and isinstance(held, dict):
        held[r.choice(["", "\ud800", "x", "-1", "9" * 30, "__class__"])] = held.pop(key)
    elif isinstance(held, list):
        held[key:key] = [deepcopy(r.choice([held[key], *WRONG]))] * r.choice([1, 2, 70])
    return value
