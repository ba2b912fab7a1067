"""The model against an obvious definition of the same, and deadlocks against looking at every order of going on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.tasks.model import (
    HookError,
    SourceLine,
    TaskRow,
    TaskTable,
    Wait,
    find_deadlocks,
    find_stuck_tasks,
    is_descendant,
    sort_as_tree,
)


class Plain:
    """The table, by keeping every worker's stack as a list and looking everything up in it."""

    def __init__(self) -> None:
        self.stacks: dict[int, list[int]] = {0: [], 1: []}
        self.new: set[int] = set()
        self.heap: set[int] = set()

    def state(self, task: int) -> str:
        for stack in self.stacks.values():
            if task in stack:
                return "top" if stack[-1] == task else "middle"
        return "new" if task in self.new else "heap"

    def moves(self) -> list[tuple[Any, ...]]:
        """Every hook that can come now."""
        tops = [(worker, stack[-1]) for worker, stack in self.stacks.items() if stack]
        found: list[tuple[Any, ...]] = [("create",)]
        found += [("begin", task, worker) for task in self.new for worker in self.stacks]
        found += [("resume", task, worker) for task in self.heap for worker in self.stacks]
        found += [(hook, task, worker) for worker, task in tops for hook in ("suspend", "done")]
        return found

    def take(self, hook: str, task: int, worker: int) -> None:
        """Do one."""
        if hook == "create":
            self.new.add(task)
        elif hook in ("begin", "resume"):
            (self.new if hook == "begin" else self.heap).remove(task)
            self.stacks[worker].append(task)
        else:
            self.stacks[worker].pop()
            if hook == "suspend":
                self.heap.add(task)


@given(st.lists(st.integers(0, 10**6), max_size=40))
@settings(max_examples=60, deadline=None)
def test_the_table_is_what_the_stacks_say(choices: list[int]) -> None:
    table, plain, numbers = TaskTable(), Plain(), itertools.count(1)
    for choice in choices:
        moves = plain.moves()
        hook, *rest = moves[choice % len(moves)]
        task, worker = rest if rest else (next(numbers), 0)
        plain.take(hook, task, worker)
        {"create": lambda t, w: table.create(t), "begin": table.begin, "resume": table.resume,
         "suspend": lambda t, w: table.suspend(t), "done": lambda t, w: table.done(t)}[hook](task, worker)  # fmt: skip
        living = plain.new | plain.heap | {t for stack in plain.stacks.values() for t in stack}
        assert {row.id for row in table.rows} == living
        for row in table.rows:
            assert row.state == plain.state(row.id)
            stack = next((s for s in plain.stacks.values() if row.id in s), [])
            beyond = stack[stack.index(row.id) + 1 :] if stack else []
            assert row.above == (beyond[0] if beyond else None)


@pytest.mark.parametrize("wrong", [
    lambda t: t.create(1), lambda t: t.resume(1, 0), lambda t: t.suspend(1), lambda t: t.done(1),
    lambda t: t.begin(2, 0),
])  # fmt: skip
def test_a_hook_that_cannot_be_true_is_refused(wrong: Any) -> None:
    table = TaskTable()
    table.create(1)
    with pytest.raises(HookError):
        wrong(table)


def waiting(id_: int, *others: int, one: bool = False, free: bool = False) -> TaskRow:
    """A task on the heap that waits."""
    wait = Wait("await", others, SourceLine("p.py", id_, "f"), one, free) if others or free else None
    return TaskRow(id_, state="heap", wait=wait)


def goes_on(rows: list[TaskRow]) -> set[int]:
    """Who can ever go on: try everything, again and again."""
    left = {row.id: row for row in rows}
    while True:
        ready = [row.id for row in left.values() if row.wait is None or row.wait.free or not row.wait.tasks
                 or (any if row.wait.one else all)(t not in left for t in row.wait.tasks)]  # fmt: skip
        if not ready:
            return {row.id for row in rows} - left.keys()
        for id_ in ready:
            del left[id_]


graphs = st.integers(1, 7).flatmap(lambda n: st.tuples(*(
    st.builds(lambda i, others, one, free: waiting(i, *sorted(others), one=one, free=free), st.just(i),
              st.sets(st.integers(0, n - 1), max_size=3), st.booleans(), st.sampled_from([False, False, False, True]))
    for i in range(n))))  # fmt: skip


@given(graphs)
@settings(max_examples=60, deadline=None)
def test_stuck_is_whoever_no_order_of_going_on_frees(rows: tuple[TaskRow, ...]) -> None:
    assert find_stuck_tasks(rows).keys() == {row.id for row in rows} - goes_on(list(rows))


@pytest.mark.matrix
@given(graphs)
@settings(max_examples=120, deadline=None)
def test_every_circle_is_one_and_there_is_one_where_anybody_is_stuck(rows: tuple[TaskRow, ...]) -> None:
    found = find_deadlocks(rows)
    assert bool(found) == bool(find_stuck_tasks(rows))
    for deadlock in found:
        ids = [task.id for task in deadlock.tasks]
        assert len(set(ids)) == len(ids)
        for task, other in zip(deadlock.tasks, ids[1:] + ids[:1], strict=True):
            assert task.wait is not None
            assert other in task.wait.tasks


def test_a_task_beneath_another_one_waits_for_it() -> None:
    buried = TaskRow(1, state="middle", worker=0, above=2)
    on_top = TaskRow(2, 1, "top", wait=Wait("lock", (1,), SourceLine("p.c", 9, "f"), what="x"), worker=0)
    (found,) = find_deadlocks([buried, on_top])
    assert found.message == ("deadlock: task 1 waits at ? (beneath it on worker 0) for task 2, "
                             "task 2 waits at p.c:9 (lock x) for task 1: none of them can ever go on")  # fmt: skip
    assert not find_deadlocks([buried, TaskRow(2, 1, "top", worker=0)])


def test_ancestry_is_a_tree_and_orphans_stand_at_its_top() -> None:
    rows = [TaskRow(1), TaskRow(2, 1), TaskRow(3, 2), TaskRow(4, 1), TaskRow(6, 5)]
    assert [(depth, task.id) for depth, task in sort_as_tree(rows)] == [(0, 1), (1, 2), (2, 3), (1, 4), (0, 6)]
    by_id = {row.id: row for row in rows}
    assert is_descendant(by_id, 3, 1)
    assert not is_descendant(by_id, 4, 2)
