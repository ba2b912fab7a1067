"""Find out whether a stopped thread is still in the native function that it was in before, without unwinding its stack.

The stack is read whole and compared from its outer end. The innermost word that points into the code of the function's
callers is their return address, and the next one further in is that of the function itself. As long as these two and
all outside them are the same, the function has not returned, or came again by the same way to the same location, which
two stacks would not tell apart either. If this cannot be known the answer is no: to unwind a stack takes some hundred
times as long.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.attach.processes import read_maps_or_nothing
from weft.base.lazy import dataclass

MOST: Final = 1 << 20
"""Bytes of a stack: one that is deeper is not compared."""
WORD: Final = 8


@dataclass(frozen=True)
class Position:
    """The position of a stopped thread: the words of its stack from the innermost to the one before `end`, and the
    address in the code.
    """

    words: NDArray[np.uint64]
    end: int
    at: int


@dataclass(frozen=True)
class StackBytes:
    """The stacks of a stopped process, by thread."""

    code: list[tuple[int, int, str]]
    """First address, the first one after the last, and file of what may be executed, in order."""
    of: dict[int, Position]


def read_stack_bytes(pid: int) -> StackBytes:
    """Return the bytes of the stacks of all threads of a stopped process, and where its code is. Threads whose stack
    cannot be read are left out.
    """
    areas, code = [], []
    for line in read_maps_or_nothing(pid).splitlines():
        row = line.split(maxsplit=5)
        first, _, behind = row[0].partition("-")
        areas.append((int(first, 16), int(behind, 16)))
        if "x" in row[1]:
            code.append((*areas[-1], row[-1]))
    found = {}
    with suppress(OSError), Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            with suppress(OSError, ValueError, StopIteration):
                *_, stack, at = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
                begin = int(stack, 16)
                end = next(last for first, last in areas if first <= begin < last)
                memory.seek(begin)
                held = memory.read(min(end - begin, MOST))
                if len(held) == end - begin:
                    words = np.frombuffer(held[len(held) % WORD :], np.uint64)
                    found[thread] = Position(words, end, int(at, 16))
    return StackBytes(code, found)


def is_still_in_call(thread_id: int, caller_modules: Collection[str], before: StackBytes, now: StackBytes) -> bool:
    """Return whether a thread is still in the native function that it was in at `before`, and has not returned from it
    since. `caller_modules`: paths of the modules that called the function.
    """
    old, new = before.of.get(thread_id), now.of.get(thread_id)
    if old is None or new is None or old.end != new.end:
        return False
    count = min(old.words.size, new.words.size)
    code = find_pointers(new.words, [(first, last) for first, last, _ in now.code])
    calls = find_pointers(new.words, [(first, last) for first, last, file in now.code if file in caller_modules])
    if not calls.size:
        return False
    changed = np.flatnonzero(old.words[-count:] != new.words[-count:]) + new.words.size - count
    changed = changed[changed < code[-1]]  # what lies further out is the system's own, such as a thread's processor
    within = code[code < calls[0]]
    if not within.size and old.at != new.at:  # the function has called no other
        return False
    inner = within[-1] if within.size else calls[0]
    return bool(inner >= new.words.size - count and (not changed.size or changed[-1] < inner))


def find_pointers(words: NDArray[np.uint64], address_ranges: Sequence[tuple[int, int]]) -> NDArray[np.intp]:
    """Return the indices of those words that are addresses inside one of the ranges. `address_ranges`: (first address,
    address after the last), sorted.
    """
    if not address_ranges:
        return np.zeros(0, np.intp)
    first, last = np.array(address_ranges, np.uint64).T
    of = np.searchsorted(first, words, "right") - 1
    return np.flatnonzero((of >= 0) & (words < last[of]))
