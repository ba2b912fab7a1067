"""Reads what OpenCilk's runtime stores of its tasks: frames, workers, deques, closures (ABI 4, x86-64).

A function that spawns has a frame descriptor on its stack. A spawned child begins when its helper sets DETACHED in a
descriptor of its own and pushes that of its parent on the worker's deque; a thief takes the oldest one there and
continues after the spawn, on a stack of its own, with the frame at its old place. What was stolen has a closure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Read = Callable[[int, int], bytes]

ABI = 4
FRAME = np.dtype([
    ("flags", "<u4"), ("magic", "<u4"), ("fiber", "<u8"), ("call_parent", "<u8"), ("fp", "<u8"), ("pc", "<u8"),
    ("sp", "<u8"), ("ctx3", "<u8"), ("ctx4", "<u8"), ("extension", "<u8"),
])  # fmt: skip
"""`struct __cilkrts_stack_frame`; from `fp` on the five words that `__builtin_setjmp` fills."""
UNSYNCHED, DETACHED = 2, 4
MARK = 16
"""The runtime's flags lie below this bit; a child's number is put above it."""
WORKER = {"self": 0, "global": 16, "local": 24, "tail": 48, "head": 128}
CLOSURE = {"frame": 0, "status": 44, "callee": 64, "call_parent": 72, "spawn_parent": 80, "left_sib": 88,
           "right_most_child": 104}  # fmt: skip
GLOBAL = {"deques": 48, "root_closure": 64}
DEQUE = {"bottom": 0, "size": 384}
STATUS = {42: "running", 43: "suspended", 44: "returning", 45: "ready"}
STATE, RUNS = 8, 13
"""Where a worker's own part says what it does, and the word for that it runs the program, not the scheduler."""
DEPTH = 1 << 20
"""No deque and no chain of closures is longer."""


def descriptor_magic() -> int:
    """Return the number by which a frame descriptor of this ABI is recognized (`magic` of OpenCilk's frame.h)."""
    value = ABI
    for name in ("fp", "magic", "flags", "call_parent", "extension"):
        value = value * 13 + FRAME.fields[name][1]  # type: ignore[index]
    return value & 0xFFFFFFFF


MAGIC = descriptor_magic()


@dataclass(frozen=True, slots=True)
class Closure:
    """A frame that was stolen, or what was left to its victim (`frame` 0), with the addresses of related closures."""

    address: int
    frame: int
    status: str
    call_parent: int
    spawn_parent: int


@dataclass(frozen=True, slots=True)
class OpenCilkWorker:
    """A worker: the descriptors in its deque, the oldest first, and whether its last child was robbed.

    `runs`: whether it is in the program and not in the scheduler. `behind`: the word after the deque's end, in which a
    child that leaves has its parent for a moment.
    """

    address: int
    deque: tuple[int, ...]
    behind: int
    robbed: bool
    bottom: int
    runs: bool


class OpenCilkMemory:
    """The runtime's structures in a stopped program."""

    def __init__(self, read: Read) -> None:
        self.read = read

    def word(self, address: int) -> int:
        """Eight bytes."""
        return int.from_bytes(self.read(address, 8), "little")

    def number(self, address: int) -> int:
        """Four bytes."""
        return int.from_bytes(self.read(address, 4), "little")

    def frame(self, address: int) -> np.void:
        """Return a frame descriptor."""
        found: np.void = np.frombuffer(self.read(address, FRAME.itemsize), FRAME)[0]
        return found

    def state(self, worker: int) -> int:
        """Return the runtime's global state; 0 where the worker has not begun."""
        return self.word(worker + WORKER["global"]) if worker else 0

    def read_worker(self, address: int) -> OpenCilkWorker:
        """Return the worker whose record is at an address, with the frames in its deque."""
        head, tail = self.word(address + WORKER["head"]), self.word(address + WORKER["tail"])
        count = max(min((tail - head) // 8, DEPTH), 0)
        kept = np.frombuffer(self.read(head, 8 * count + 8), "<u8").tolist() if head and tail >= head else [0]
        number = self.number(address + WORKER["self"])
        deque = self.word(self.state(address) + GLOBAL["deques"]) + DEQUE["size"] * number
        bottom = self.word(deque + DEQUE["bottom"])
        local = self.word(address + WORKER["local"])
        runs = int.from_bytes(self.read(local + STATE, 2), "little") == RUNS
        return OpenCilkWorker(address, tuple(kept[:-1]), int(kept[-1]), head > tail, bottom, runs)

    def read_closure(self, address: int) -> Closure:
        """Return the closure (the runtime's record of a stolen frame) at an address."""
        fields = {name: self.word(address + CLOSURE[name]) for name in ("frame", "call_parent", "spawn_parent")}
        status = STATUS.get(self.read(address + CLOSURE["status"], 1)[0], "")
        return Closure(address, status=status, **fields)

    def closure_ancestors(self, address: int) -> Iterator[Closure]:
        """Yield the closure at an address (the runtime's record of a stolen frame), then the closure that called or
        spawned it, and so on outwards.
        """
        for _ in range(DEPTH):
            if not address:
                return
            found = self.read_closure(address)
            yield found
            address = found.spawn_parent or found.call_parent

    def read_closures(self, state_address: int) -> list[Closure]:
        """Return all living closures (the runtime's records of stolen frames), from the root down."""
        found, todo = list[Closure](), [self.word(state_address + GLOBAL["root_closure"])]
        while todo and len(found) < DEPTH:
            at = todo.pop()
            if at:
                found.append(self.read_closure(at))
                todo += [self.word(at + CLOSURE[name]) for name in ("callee", "left_sib", "right_most_child")]
        return found
