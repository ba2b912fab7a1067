"""Whose the parts of a worker's stack are, where the table and the stack do not say the same."""

from __future__ import annotations

from typing import Any

from weft.tasks.model import NO_CODE
from weft.tasks.stacks import StackedTask, assign_stack_parts

WAIT, REGION = 100, 200
"""Where `work` waits for its children, and where `main` calls the region."""


def stack(*calls: str, last: int = 0) -> list[dict[str, Any]]:
    """A stack, innermost first: `work` and `main` are the program's, all else is a library's. `last`: the first pc."""
    found: list[dict[str, Any]] = []
    for level, name in enumerate(calls):
        own = {"fullname": "/p/work.c", "file": "work.c", "line": "7"} if name.startswith(("work", "main")) else {}
        pc = last if own and last and not any("line" in frame for frame in found) else WAIT
        found.append({"level": str(level), "func": name, "addr": hex(pc), **own})
    return found


def task(id_: int, waiting: int = 0, **more: Any) -> StackedTask:
    return StackedTask(
        id_, **{"first": False, "left": False, "inside": bool(waiting), "calls": frozenset((waiting, 1)), **more}
    )


FIRST = task(1, first=True)
BODY = ("work", "work._omp_fn.0")


def test_each_task_has_its_part_from_the_top() -> None:
    made = stack(*BODY, "taskwait", *BODY, "GOMP_parallel", "main")
    assert assign_stack_parts(made, [task(3), task(2, WAIT), FIRST]) == {3: 0, 2: 1, 1: 2}


def test_who_is_about_to_begin_has_none() -> None:
    made = stack("invoke", "taskwait", *BODY, "GOMP_parallel", "main", last=WAIT)
    assert assign_stack_parts(made, [task(3), task(2, WAIT), FIRST]) == {3: NO_CODE, 2: 0, 1: 1}


def test_who_has_come_to_its_regions_end_has_none() -> None:
    made = stack(*BODY, "barrier", "main")
    assert assign_stack_parts(made, [task(3), task(2, left=True), FIRST]) == {3: 0, 2: NO_CODE, 1: 1}
    both = stack("invoke", "barrier", "main", last=REGION)
    rows = [task(3), task(2, left=True, calls=frozenset((REGION,))), FIRST]
    assert assign_stack_parts(both, rows) == {3: NO_CODE, 2: NO_CODE, 1: 0}


def test_a_body_that_was_told_done_lies_on_the_task_beneath_it() -> None:
    """An untied task's end may be told by another thread while its last part still runs."""
    made = stack(*BODY, "taskwait", *BODY, "GOMP_parallel", "main")
    assert assign_stack_parts(made, [task(2, WAIT, over=1), FIRST]) == {2: 1, 1: 2}
    gone = stack(*BODY, "GOMP_parallel", "main")
    assert assign_stack_parts(gone, [task(2, over=1), FIRST]) == {2: 0, 1: 1}


def test_a_body_that_jumped_to_what_it_calls_last_is_in_its_code() -> None:
    """Optimized: there is no frame of the body; the innermost line is in no call of the others'."""
    made = stack("work", "invoke", "taskwait", *BODY, "GOMP_parallel", "main", last=7)
    assert assign_stack_parts(made, [task(3), task(2, WAIT), FIRST])[3] == 0
