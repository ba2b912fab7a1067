"""Reads the cactus stack: which activations of functions are on each worker, and where one task ends in another.

An activation is identified by its function and the canonical frame address: a thief runs it from a stack of its own,
but its variables stay where they are. So the stacks of a parent's thief and of its robbed child both lead to the same
activation; a task is the activations from a helper that has detached itself up to the next such helper.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from weft.cilk.opencilk.code import ProgramCode
from weft.cilk.opencilk.layout import DETACHED, FRAME, MAGIC, OpenCilkMemory
from weft.errors import DebuggerError
from weft.tasks.gdb import Frame, Gdb, is_program_frame

ROOM = 4096
"""Bytes of a function's frame in which its descriptor is looked for; it has few variables beside it."""
DEEP = 1 << 16
"""Activations of a task, at most."""
ENTERS = "__cilkrts_internal_invoke_cilkified_root"
"""What the thread is in that has handed its program to the workers, itself among them, and runs none of it."""


@dataclass(slots=True)
class Activation:
    """One call of a function that has not returned. `level`: gdb's frame number; -1 if gdb does not reach it."""

    function: int
    cfa: int
    pc: int
    level: int
    frame: Frame
    helper: bool = False
    descriptor: int = 0
    detached: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Return what it is known by."""
        return self.function, self.cfa

    @property
    def fp(self) -> int:
        """Return its frame pointer."""
        return self.cfa - 16

    @property
    def own(self) -> bool:
        """Return whether it is of the program."""
        return is_program_frame(self.frame) or self.level < 0


@dataclass(slots=True)
class CactusStack:
    """The activations that a thread's stack leads to, innermost first, without the runtime's calls on top of the
    program's.
    """

    thread: int
    worker: int
    activations: list[Activation] = field(default_factory=list)

    def split_by_task(self) -> list[list[Activation]]:
        """Return the activations (function calls that have not returned) of each task on the stack, the task on top
        first. The last activation of each task but the outermost is the helper function of its spawn.
        """
        found: list[list[Activation]] = [[]]
        for one in self.activations:
            found[-1].append(one)
            if one.detached:
                found.append([])
        return found


class Unwinder:
    """Reads the stacks of a stopped program."""

    def __init__(self, gdb: Gdb, code: ProgramCode, memory: OpenCilkMemory) -> None:
        self._gdb, self._code, self._memory = gdb, code, memory
        self._offsets: dict[int, int] = {}

    def unwind_thread(self, thread: int, worker: int) -> CactusStack:
        """Return a thread's stack, from the innermost activation (call) of the program's own functions on. It is empty
        if the thread runs nothing of the program. `worker`: the kernel's id of the thread.
        """
        frames = self._gdb.stack(thread)
        first = next((i for i, frame in enumerate(frames) if is_program_frame(frame)), None)
        found = CactusStack(thread, worker)
        if first is None or any(frame.get("func") == ENTERS for frame in frames[:first]):
            return found
        for frame, cfa in self._frames_with_addresses(thread, frames[first:]):
            found.activations.append(self._make_activation(frame, cfa, int(frame["level"])))
        if found.activations and found.activations[-1].frame.get("func") != "main":
            last = found.activations[-1].fp  # gdb gives up where a caller lies on a stack at a lower address
            with suppress(DebuggerError):
                fp, pc = np.frombuffer(self._memory.read(last, 16), "<u8").tolist()
                found.activations += self.walk_frame_pointers(pc, fp)
        return found

    def _make_activation(self, frame: Frame, cfa: int, level: int) -> Activation:
        """Return the activation (function call) for a frame of gdb. `cfa`: its canonical frame address; `level`: gdb's
        number of the frame.
        """
        pc = int(frame["addr"], 16)
        function = self._code.function_at(pc)
        one = Activation(function.start if function else 0, cfa, pc, level, frame)
        one.helper = function is not None and function.helper
        if one.helper:
            one.descriptor = self.find_descriptor(one)
            flags = self._memory.number(one.descriptor) if one.descriptor else 0
            one.detached = bool(flags & DETACHED)
        return one

    def walk_frame_pointers(self, pc: int, fp: int) -> list[Activation]:
        """Return the activations of a frame and its callers, found by frame pointers. The walk ends at `main`, or
        before the first function that is not the program's. `pc`, `fp`: instruction and frame pointer of the frame.
        """
        found = list[Activation]()
        for _ in range(DEEP):
            function = self._code.function_at(pc)
            if function is None or not fp:
                break
            found.append(self._make_activation({"addr": hex(pc), "func": function.name, "level": "-1"}, fp + 16, -1))
            if function.name == "main":
                break
            try:
                fp, pc = np.frombuffer(self._memory.read(fp, 16), "<u8").tolist()
            except DebuggerError:
                break
        return found

    def _frames_with_addresses(self, thread: int, frames: list[Frame]) -> Iterable[tuple[Frame, int]]:
        """Yield (frame, canonical frame address) for each frame that is not inlined, innermost first.

        The addresses are read by following frame pointers in memory. Where the return address there does not agree with
        gdb's frames, gdb is asked instead, which is slower.
        """
        outer, pointer = merge_inlined_frames(frames), 0
        for frame, caller in zip(outer, [*outer[1:], None], strict=False):
            cfa = 0
            if caller is None:
                yield frame, (pointer or self._gdb.evaluate_pointer("$rbp", thread, int(frame["level"]))) + 16
                return
            if pointer:
                with suppress(DebuggerError):
                    saved, back = np.frombuffer(self._memory.read(pointer, 16), "<u8").tolist()
                    if back == int(caller["addr"], 16):
                        cfa, pointer = pointer + 16, saved
            if not cfa:
                cfa = self._gdb.evaluate_pointer("$sp", thread, int(caller["level"]))
                pointer = self._gdb.evaluate_pointer("$rbp", thread, int(caller["level"]))
            yield frame, cfa
            if frame.get("func") == "main":
                return

    def find_descriptor(self, activation: Activation) -> int:
        """Return the address of the runtime's record (frame descriptor) for a function call. 0 if the call has none, or
        not yet.
        """
        offset = self._offsets.get(activation.function, 0)
        if offset:
            found = activation.cfa - offset
            return found if self._memory.number(found + 4) == MAGIC else 0
        with suppress(DebuggerError):
            words = np.frombuffer(self._memory.read(activation.cfa - ROOM, ROOM), "<u4")
            for at in reversed((np.flatnonzero(words[1::2] == MAGIC) * 8).tolist()):
                if ROOM - at >= FRAME.itemsize and (not activation.helper or int(words[at // 4]) & DETACHED):
                    self._offsets[activation.function] = ROOM - at
                    return int(activation.cfa - ROOM + at)
        return 0


def merge_inlined_frames(frames: list[Frame]) -> list[Frame]:
    """Return one frame for each call that the machine made. gdb shows several frames where functions were inlined into
    a call; of these, the innermost one of the program is returned.
    """
    found: list[list[Frame]] = []
    for frame in frames:
        inner = found[-1][-1] if found else None
        if inner is not None and inner["addr"] == frame["addr"] and inner.get("func") != frame.get("func"):
            found[-1].append(frame)
        else:
            found.append([frame])
    return [next(filter(is_program_frame, group), group[0]) for group in found]
