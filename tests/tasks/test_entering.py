"""A task that waits to get into something is not told as one that is inside of it already."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS

from weft.tasks import session

HUNG = Path(__file__).parent / "programs" / "hung.py"
GUARDED = """import asyncio, contextlib

@contextlib.asynccontextmanager
async def guarded(lock):
    async with lock:
        yield

async def work(lock, inner):
    async with guarded(lock):
        async with inner:
            pass

async def main():
    lock, inner = asyncio.Lock(), asyncio.Lock()
    await inner.acquire()
    tasks = [asyncio.create_task(work(lock, inner), name=name) for name in ("first", "second")]
    await asyncio.gather(*tasks)

asyncio.run(main())
"""


@contextmanager
def hung(*command: str) -> Iterator[int]:
    """A program that stands still; its number."""
    with subprocess.Popen(command) as process:
        try:
            time.sleep(2)
            yield process.pid
        finally:
            process.kill()


@pytest.mark.cases(1)
@pytest.mark.needs("ptrace", "calls by gdb")
@pytest.mark.parametrize("python", PYTHONS)
def test_who_waits_at_the_door_of_a_lock_is_not_inside(python: str) -> None:
    with hung(python, str(HUNG), "lock") as pid, session([], pid=pid) as s:
        told = s.do("waits")["hung"]
        assert "task 1 waits at hung.py:70 for Lock guard" in told
        assert "inside" not in told


@pytest.mark.cases(1)
@pytest.mark.needs("ptrace", "calls by gdb")
@pytest.mark.parametrize("python", PYTHONS)
def test_who_is_inside_is_told_apart_from_who_waits_to_be(tmp_path: Path, python: str) -> None:
    program = tmp_path / "guarded.py"
    program.write_text(GUARDED)
    with hung(python, str(program)) as pid, session([], pid=pid) as s:
        rows = {row["name"]: row["id"] for row in s.do("tasks")["tasks"]}
        told = s.do("waits")["hung"]
        first, second = (f"task {rows[name]} ({name})" for name in ("first", "second"))
        assert f"{second} waits at guarded.py:5 for Lock lock; {first} is inside of it" in told, told
        assert f"{first} waits at guarded.py:10 for Lock inner" in told, told
        assert "already" not in told
