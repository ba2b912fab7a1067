"""Assigns the frames of a worker's stack to its tasks: to the task on top, and to each task that waits beneath it."""

from __future__ import annotations

from typing import NamedTuple

from weft.tasks.gdb import ENTRY, OF_PROGRAM, WRAPPED, WRAPPERS, Frame, Gdb, frame_site, is_program_frame
from weft.tasks.model import NO_CODE, TaskRow

RED_ZONE = 128
"""Bytes below its stack pointer that a function which calls no other may use (System V ABI of x86-64, 3.2.2)."""


def number_tasks_of_frames(stack: list[Frame]) -> list[int]:
    """Return for each frame of a worker's stack, innermost first, which task it belongs to: 0 for the task on top, 1
    for the task beneath it, and so on.
    """
    found, part = [], 0
    for i, frame in enumerate(stack):
        found.append(part)
        name, below = str(frame.get("func", "")), str(stack[i + 1].get("func", "")) if i + 1 < len(stack) else ""
        begins = frame.get("begins", False) or bool(ENTRY.search(name))
        part += begins and not (name.startswith(".omp_outlined.") and below.startswith(".omp_task_entry."))
    return found


def frames_of_task_on_stack(stack: list[Frame], task_index: int, *, with_libraries: bool = False) -> list[Frame]:
    """Return the frames that one task has on a worker's stack. `task_index`: 0 for the task on top, 1 for the one
    beneath it; beyond the last, the last is meant. `with_libraries`: keep the frames of libraries.
    """
    numbered = number_tasks_of_frames(stack)
    part = min(task_index, numbered[-1] if numbered else 0)
    of_task = [i for i, of in enumerate(numbered) if of == part]
    return [
        stack[i] for i in of_task if with_libraries or (is_program_frame(stack[i]) and not is_wrapper_frame(stack, i))
    ]


def is_wrapper_frame(stack: list[Frame], index: int) -> bool:
    """Return whether `stack[index]` is the frame of a function that clang made around the function of a task's body.
    Such a frame has the line of the directive, and shows the user nothing.
    """
    names = [str(frame.get("func", "")) for frame in stack[max(index - 1, 0) : index + 1]]
    return bool(WRAPPERS.search(names[-1]) and WRAPPED.search(names[0])) and len(names) > 1


class StackedTask(NamedTuple):
    """A task on a worker's stack, by its record.

    `first`: whether it is its thread's first. `left`: whether it is a thread's part of a region that has reached the
    region's end and waits there for the others. `inside`: whether it waits inside its code. `calls`: the addresses of
    calls that it or its creator may be in. `over`: the number of tasks above it whose end another thread has reported,
    while their code may still run there.
    """

    id: int
    first: bool
    left: bool
    inside: bool
    calls: frozenset[int]
    over: int = 0


def assign_stack_parts(stack: list[Frame], on_worker: list[StackedTask]) -> dict[int, int]:
    """Divide a worker's stack among its tasks. Return the index of each task's part (0: the innermost frames) by task
    number, or NO_CODE for a task without frames. `on_worker`: the tasks, the innermost one first.

    A task has no frames if it is the thread's share of a parallel region that the thread has left, or is the innermost
    task and has not begun yet or has just ended."""
    begun = count_entered_tasks(stack) - sum(bool(OF_PROGRAM.match(str(frame.get("func", "")))) for frame in stack)
    left = {one.id for one in on_worker if one.left}
    without = sum(not one.first for one in on_worker) - begun
    none = left if without >= len(left) else set()
    if without > len(left) and not (on_worker[0].first or on_worker[0].inside):
        own = next(filter(is_program_frame, stack), None)
        if own is None or int(own["addr"], 16) in frozenset().union(*(one.calls for one in on_worker)):
            none = none | {on_worker[0].id}
    # Bodies beyond the tasks that have one are of tasks that were told the end of already.
    more = begun - sum(not one.first and one.id not in none for one in on_worker)
    found: dict[int, int] = {}
    part = 0
    for one in on_worker:
        ended = min(one.over, max(more, 0))
        part, more = part + ended, more - ended
        found[one.id] = NO_CODE if one.id in none else part
        part += one.id not in none
    return found


def count_entered_tasks(stack: list[Frame]) -> int:
    """Return how many tasks on a worker's stack have reached their code; a task that is about to begin has not."""
    numbered = number_tasks_of_frames(stack)
    return numbered[-1] + bool(ENTRY.search(str(stack[-1].get("func", "")))) if numbered else 0


def find_task_frames(
    gdb: Gdb, row: TaskRow, rows: dict[int, TaskRow], *, with_libraries: bool = False
) -> tuple[int, list[Frame]]:
    """Return (gdb's number of the thread that runs a task, the task's frames in its stack). The result is (0, []) if
    the task has not begun or is on the heap.
    """
    if row.worker is None or row.worker not in gdb.threads or row.part == NO_CODE:
        return 0, []
    thread = gdb.threads[row.worker]
    return thread, frames_of_task_on_stack(
        gdb.stack(thread), count_tasks_above(row, rows), with_libraries=with_libraries
    )


def count_tasks_above(row: TaskRow, rows: dict[int, TaskRow]) -> int:
    """Return how many tasks lie above a task on its worker's stack and have frames there."""
    skip, at = 0, row
    while row.part is None and at.above is not None and at.above in rows:
        skip, at = skip + 1, rows[at.above]
    return skip if row.part is None else row.part


def add_stack_positions(
    tasks: list[TaskRow], stacks: dict[int, list[Frame]], parts_by_worker: dict[int, dict[int, int]]
) -> list[TaskRow]:
    """Return the rows, each with `part`, the index of the frames that belong to the task on its worker's stack. A task
    that does not wait also gets the line of its innermost own frame.

    `stacks`: the frames of each worker. `parts_by_worker`: the result of `assign_stack_parts` for each worker.
    """

    def with_position(task: TaskRow) -> TaskRow:
        """Return a task's row with `part`, the index of its frames on its worker's stack, and with the line at which it
        is.
        """
        part = parts_by_worker[task.worker].get(task.id) if task.worker in parts_by_worker else None
        if part is None:
            return task
        if part == NO_CODE:  # the stack's innermost line is another's
            return task._replace(part=part, at=task.wait.site if task.wait is not None else task.created)
        beneath = task.state == "middle" or (task.state == "top" and part > 0)
        own = frames_of_task_on_stack(stacks[task.worker or 0], part) if beneath and task.wait is None else []
        return task._replace(part=part, at=frame_site(own[0]) if own else task.at)

    return [with_position(task) for task in tasks]


def find_region_end_frame(stack: list[Frame]) -> Frame | None:
    """Return the frame of the OpenMP runtime to which a thread returns when it has finished its part of a parallel
    region. None if it is unknown.
    """
    begins = [i for i, frame in enumerate(stack) if ENTRY.search(str(frame.get("func", "")))]
    return stack[begins[-1] + 1] if begins and begins[-1] + 1 < len(stack) else None


def innermost_program_frame(stack: list[Frame], task_index: int) -> Frame | None:
    """Return the innermost frame of a task's own code that was not called by a library. None if the outermost frame of
    the task is a library's, or the task has no frames. `task_index`: 0 for the task on top of the stack.
    """
    frames = frames_of_task_on_stack(stack, task_index, with_libraries=True)
    while any(map(is_program_frame, frames)) and not all(map(is_program_frame, frames)):
        frames = frames[next(i for i, frame in enumerate(frames) if not is_program_frame(frame)) + 1 :]
    return frames[0] if frames and is_program_frame(frames[0]) else None


def find_holding_task(gdb: Gdb, address: int, rows: dict[int, TaskRow]) -> int | None:
    """Return the number of the task that has an address in its stack frames. None if the address is in no worker's
    stack.
    """
    for top in (row for row in rows.values() if row.state == "top" and row.worker in gdb.threads):
        thread = gdb.threads[top.worker or 0]
        stack = gdb.stack(thread)
        level = find_frame_level(gdb, thread, len(stack), address)
        if level is None:
            continue
        part = number_tasks_of_frames(stack)[level]
        return next(
            (row.id for row in rows.values() if row.worker == top.worker and count_tasks_above(row, rows) == part), None
        )
    return None


def find_frame_level(gdb: Gdb, thread: int, frame_count: int, stack_address: int) -> int | None:
    """Return the level of the frame in a thread's stack that contains an address; None if none of the first
    `frame_count` frames does.
    """
    inside = None
    for level in range(frame_count):
        if gdb.evaluate_pointer("$sp", thread, level) - RED_ZONE * (level == 0) > stack_address:
            return inside
        inside = level
    return None
