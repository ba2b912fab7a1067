"""Builds the table of OpenCilk's tasks: what runs on each worker, what is in its deque, and what waits at a sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.cilk.opencilk.cactus import Activation, CactusStack, Unwinder
from weft.cilk.opencilk.code import ProgramCode
from weft.cilk.opencilk.layout import MAGIC, MARK, Closure, OpenCilkMemory, OpenCilkWorker
from weft.tasks.model import SourceLine, State

ROOT = 1
"""The number of the task that the program itself is."""


@dataclass(slots=True)
class OpenCilkTask:
    """A living task: its activations, innermost first, and the thread in whose stack they were found (0: in none)."""

    id: int
    parent: int
    activations: list[Activation]
    thread: int
    state: State = "heap"
    worker: int = 0
    above: int = 0
    beneath: int = 0
    caller: Activation | None = None
    """What spawned it, in the same stack."""
    status: str = ""
    waits: int = 0
    """Where its innermost activation goes on, of one on the heap that waits at a sync."""

    @property
    def own(self) -> list[Activation]:
        """Return its activations of the program's functions."""
        return [one for one in self.activations if one.own]


class ChildNumbers:
    """The number of each child, which is stored in the upper half of the flags of its helper's descriptor.

    The runtime does not use these bits, and clears them when the next child begins at the same address.
    """

    def __init__(self, memory: OpenCilkMemory, write: Callable[[int, int, int], None]) -> None:
        self._memory, self._write = memory, write
        self._known: dict[int, tuple[int, int]] = {}  # by the descriptor's address: what is written there, the number
        self._next = ROOT

    def child_number(self, descriptor_address: int) -> int:
        """Return the number of a child task, given the address of the frame descriptor of the helper function that
        spawned it. A child without a number gets a new one, which is written into the descriptor.
        """
        mark = self._memory.number(descriptor_address) >> MARK
        known = self._known.get(descriptor_address)
        if known is not None and known[0] == mark:
            return known[1]
        self._next += 1
        mark = self._next % ((1 << MARK) - 1) + 1
        self._write(descriptor_address + 2, mark, 2)
        self._known[descriptor_address] = mark, self._next
        return self._next


class OpenCilkTable:
    """All tasks of a stopped program."""

    def __init__(self, memory: OpenCilkMemory, unwinder: Unwinder, numbers: ChildNumbers) -> None:
        self._memory, self._unwinder, self._numbers = memory, unwinder, numbers
        self.places: dict[int, OpenCilkTask] = {}

    @property
    def rows(self) -> list[OpenCilkTask]:
        """Return the living tasks, by their numbers."""
        return sorted(self.places.values(), key=lambda place: place.id)

    def add_program_outside_region(self, stack: CactusStack) -> None:
        """Add the program as the only task, on the stack of its thread: no worker works now."""
        self.places[ROOT] = OpenCilkTask(ROOT, 0, stack.activations, stack.thread, "top", stack.worker)

    def add_tasks_of_workers(
        self, stacks: Iterable[tuple[CactusStack, OpenCilkWorker]], closures: list[Closure]
    ) -> None:
        """Add all tasks to the table: those that each worker runs, then those that lie on the heap, and those on no
        worker's stack. Also set what each waits for. `stacks`: (stack, worker) for each thread.
        """
        descriptors = {closure.frame for closure in closures if closure.frame}
        others: list[tuple[CactusStack, list[list[Activation]]]] = []
        for stack, worker in stacks:
            parts = stack.split_by_task()
            if worker.robbed and parts[0] and parts[0][0].helper and not parts[0][0].detached:
                parts[0].pop(0)  # a child at its end, whose parent is elsewhere
                count = 0
            else:
                count = self._count_own_parts(parts, worker)
            self._add_worker_tasks(stack, parts, count)
            others.append((stack, parts))
        for stack, parts in others:
            self._add_heap_tasks(
                stack, parts
            )  # of several that lead to a task the longest is that of its innermost spawn
        self._add_tasks_without_stack(closures, descriptors)
        self._set_wait_status(closures)

    def _count_own_parts(self, parts: list[list[Activation]], worker: OpenCilkWorker) -> int:
        """Return how many tasks, counted from the top of a worker's stack, are on that worker. The count ends before
        the first task whose parent was stolen, or is not in the worker's deque.

        `parts`: the activations (function calls) of each task, the task on top first.
        """
        gone = [
            closure.spawn_parent for closure in self._memory.closure_ancestors(worker.bottom) if closure.spawn_parent
        ]
        stolen = {self._memory.read_closure(closure).frame for closure in gone}
        every = [one for part in parts for one in part]
        count = 1 if parts[0] else 0
        while count < len(parts) and parts[count]:
            parent = parts[count][0]
            if has_descriptor_in_frame(stolen, parent, every):
                break
            innermost = count == 1 and parts[0][0].detached  # on its way into its deque, or out of it
            if not (innermost or has_descriptor_in_frame((*worker.deque, worker.behind), parent, every)):
                break
            count += 1
        return count

    def _id(self, part: list[Activation]) -> int:
        return self._numbers.child_number(part[-1].descriptor) if part[-1].detached else ROOT

    def _make_task(self, stack: CactusStack, parts: list[list[Activation]], part_index: int) -> OpenCilkTask:
        """Return the task whose function calls are `parts[part_index]`, as a task on the heap, with its own number and
        its parent's.
        """
        part = parts[part_index]
        after = parts[part_index + 1] if part_index + 1 < len(parts) else []
        parent = self._id(after) if after else 0
        return OpenCilkTask(self._id(part), parent, part, stack.thread, caller=after[0] if after else None)

    def _add_worker_tasks(self, stack: CactusStack, parts: list[list[Activation]], count: int) -> None:
        """Add the tasks on top of a worker's stack. `parts`: the function calls of each task, the task on top first;
        `count`: how many of these tasks are on the worker.
        """
        above = 0
        for at in range(count):
            place = self._make_task(stack, parts, at)
            known = self.places.get(place.id)
            if known is not None and known.state == "top":
                continue
            place.state, place.worker = "top" if at == 0 else "middle", stack.worker
            place.above, place.beneath, above = above, count - 1 - at, place.id
            self.places[place.id] = place

    def _add_heap_tasks(self, stack: CactusStack, parts: list[list[Activation]]) -> None:
        """Add all tasks of a stack that the table does not have on a worker, as tasks on the heap. If the table has
        such a task already, the one with more function calls is kept. `parts`: the function calls of each task.
        """
        for at, part in enumerate(parts):
            held = self.places.get(self._id(part)) if part else None
            if part and (held is None or (held.state == "heap" and len(held.activations) < len(part))):
                self.places[self._id(part)] = self._make_task(stack, parts, at)

    def _add_tasks_without_stack(self, closures: list[Closure], descriptors: set[int]) -> None:
        """Add the tasks that are on no worker's stack, although their last child is done: a worker is about to continue
        them. `descriptors`: addresses of frame descriptors.
        """
        known = {one.key for place in self.places.values() for one in place.activations}
        for descriptor in descriptors:
            frame = self._memory.frame(descriptor)
            stack = CactusStack(0, 0, self._unwinder.walk_frame_pointers(int(frame["pc"]), int(frame["fp"])))
            if int(frame["magic"]) == MAGIC and stack.activations and stack.activations[0].key not in known:
                self._add_heap_tasks(stack, stack.split_by_task())

    def _set_wait_status(self, closures: list[Closure]) -> None:
        """Set for each task that has a closure (the runtime's record of a stolen frame) the status that the runtime
        stores there. For a task on the heap, also set the address at which it will continue.
        """
        for closure in closures:
            if not closure.frame:
                continue
            frame = self._memory.frame(closure.frame)
            cfa = int(frame["fp"]) + 16
            for place in self.places.values():
                if place.activations and place.activations[0].cfa == cfa and int(frame["magic"]) == MAGIC:
                    place.status = closure.status
                    place.waits = int(frame["pc"]) if place.state == "heap" else 0


def has_descriptor_in_frame(descriptors: Iterable[int], activation: Activation, activations: list[Activation]) -> bool:
    """Return whether one of `descriptors`, addresses of the runtime's frame descriptors, is in the stack frame of an
    activation (function call). The stack frame reaches down from its canonical frame address to the next lower one of
    `activations`, but at most 1 MiB.
    """
    ends = [other.cfa for other in activations if other.cfa < activation.cfa]
    start = max((activation.cfa - (1 << 20), *ends))
    return any(start <= descriptor < activation.cfa for descriptor in descriptors)


def find_sync_line(task: OpenCilkTask, code: ProgramCode) -> SourceLine | None:
    """Return the line of the sync at which a task on the heap waits; None if it waits at none."""
    found = code.resumption_at(task.waits) if task.waits else None
    return found.at if found is not None and found.sync else None
