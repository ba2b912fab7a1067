"""Programs that hang or are held up are told so with the true reason in the first line, from the start and by --pid."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tasks.test_asyncio import PYTHONS

from machine import need
from weft.base.processes import poll_until_idle
from weft.cli.main import main
from weft.tasks import session

PROGRAM = Path(__file__).parent / "programs" / "delayed.py"
LINES = PROGRAM.read_text().splitlines()


def at(text: str, nth: int = 0) -> str:
    """The place of a line of the program by its text."""
    return f"delayed.py:{[number for number, line in enumerate(LINES, 1) if text in line][nth]}"


HANGS = {
    "queue_from_thread": (
        "the loop sleeps although task 1, which waits at", f"{at('await lines.get()')} for Queue lines,",
        f"another thread called lines.put_nowait at {at('in_loop(loop, lines.put_nowait')}",
        "loop.call_soon_threadsafe(lines.put_nowait) does"),
    "future_from_thread": (
        "the loop sleeps although task 1", "for Future answer", f"answer.set_result at {at('answer.set_result')}"),
    "callback_from_thread": (
        "the loop sleeps although the callback Event.set is ready", f"loop.call_soon at {at('else loop.call_soon)')}"),
    "dead_consumer": (
        f"nothing can happen any more: task 1 waits at {at('await jobs.join()')} for Queue jobs, join: 2 items not "
        f"done; "
        f"task 2 (consumer), which referred to it, died of ZeroDivisionError: division by zero at "
        f"{at('10 / (item - 1)')}",),
    "dead_setter": (
        f"for Event ready, not set; task 2 (connection), which referred to it, died of OSError: no route to host at "
        f"{at('raise OSError')}",),
    "dead_callback": ("for Future reply; the callback", "died of ValueError", f"at {at('reply.set_result(int')}"),
    "base_exception": (
        "nothing can happen any more: asyncio.run is ending and has cancelled all tasks, but task",
        f"(listener) caught its cancellation at {at('except BaseException')} and went on"),
}  # fmt: skip
"""Programs that hang, and what the first line says of them."""
LOGGED = {
    "dead_consumer": (f"no task reaches jobs.task_done at {at('jobs.task_done()')}; no other task refers to it",),
    "dead_callback": ("for Future reply; no other task refers to it",),
}
"""What is said instead of programs whose error asyncio has logged before Weft comes."""
DELAYS = {
    "suppressed_cancel": (
        "the TaskGroup of task 1 at", f"is ending because of ValueError: bad page at {at('raise ValueError')}",
        f"(poller) caught its cancellation at {at('with contextlib.suppress')} and went on"),
    "slow_cleanup": (f"(worker) was cancelled and is still in its clean-up at {at('0.01 if FIXED else 100)')}",),
    "sleeping_callback": (
        "the loop is blocked for", f"by a callback at {at('time.sleep(30)')}",
        "(time.sleep(30)), which waits there without `await`; 1 "),
    "child_process": ("the loop is blocked for", f"by task 1 at {at('subprocess.run')}", "inside run"),
    "long_loop": ("the loop is blocked for", "by task 1 at delayed.py:", "which computes there"),
    "crossed": (
        f"wait at {at('async with places')} for Semaphore places, no place left;",
        f"wait at {at('await asyncio.gather(part(), part())')} for tasks that wait for it"),
}  # fmt: skip
"""Programs that are held up, and what the first line says of them."""


REPORTED = PROGRAM.with_name("reported.py")
REPORTS = {
    "lock_in_lock": ("task 2 (request) waits at", "self.lock"),
    "dead_writer": ("(sender) waits at", "for Queue self.frames, put: full, 2 in it;",
                    "(writer), which referred to it, died of ConnectionResetError: maintenance at"),
    "nested_jobs": ("(listener) waits at", "for Semaphore places, no place left; task", "are inside of it"),
    "blocked_executor": ("asyncio.run is ending and waits for thread work", "(Queue.get), which is at", "(get: empty)"),
    "skipped_task_done": ("for Queue calls, join: 1 item without task_done(), none left in the queue; other tasks "
        "that refer "
        "to it: task 2 (worker)",),
    "silent_server": ("the loop is blocked for", "by task 1 at", "inside urlopen, which waits there without `await`"),
    "full_pipe": ("task 1 waits at", "for process", "whose stdout nobody reads"),
    "ignored_timeout": ("(reader) caught its cancellation at", "and went on"),
    "lock_of_threads": ("deadlock: task", "(closer) waits at", "(lock held) for task", "(its loop is held up)"),
    "open_connection": ("for 1 open connection of the server",),
}  # fmt: skip
"""Programs after public reports, and what the first line says of them."""
HUNG = {"lock_in_lock", "nested_jobs", "blocked_executor", "skipped_task_done", "lock_of_threads"}
"""Those that can certainly never go on."""


@contextmanager
def running(python: str, what: str, program: Path = PROGRAM) -> Iterator[int]:
    """A program that runs without Weft, once it is idle, or after six seconds."""
    process = subprocess.Popen([python, str(program), what], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        still = poll_until_idle(process.pid, 1.5)
        for _ in range(60):
            time.sleep(0.1)
            if not next(still):
                break
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.cases(4)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", HANGS)
def test_a_hang_stops_the_program_with_its_reason(what: str, python: str) -> None:
    with session([python, str(PROGRAM), what]) as s:
        s.debugger.limit = 30
        stop = s.do("continue")
        assert stop["why"] == "stuck", stop
        first = s.console.render_answer(stop)[0]
        assert all(part in first for part in HANGS[what]), first
        assert s.console.render_answer(s.do("waits"))[0] == first


@pytest.mark.cases(3)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", DELAYS)
def test_what_holds_a_program_up_is_told_when_it_is_interrupted(what: str, python: str) -> None:
    with session([python, str(PROGRAM), what]) as s:
        s.debugger.limit = 2
        stop = s.do("continue")
        assert stop["why"] == "interrupted", stop
        first = s.console.render_answer(stop)[0]
        assert all(part in first for part in DELAYS[what]), first


@pytest.mark.cases(4)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", [*HANGS, *DELAYS])
@pytest.mark.needs("ptrace")
def test_a_program_that_runs_already_is_told_alike(what: str, python: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {**HANGS, **DELAYS}[what]
    if what in LOGGED:  # an error that asyncio logged before Weft came is known to nobody
        expected = LOGGED[what]
    with running(python, what) as pid:
        assert main(["tasks", "--pid", str(pid), "--once"]) == (what in HANGS)
        first = capsys.readouterr().out.splitlines()[0]
        assert all(part in first for part in expected), first


@pytest.mark.cases(4)
@pytest.mark.parametrize("what", [*HANGS, *DELAYS])
def test_the_corrected_twin_comes_to_its_end(what: str) -> None:
    with session([sys.executable, str(PROGRAM), what, "fixed"]) as s:
        s.debugger.limit = 30
        assert s.do("continue")["why"] == "ended"


POOL = """import asyncio, queue, threading

class Connection:
    pass

class Pool:
    def __init__(self):
        self.free, self.lent, self.change = [Connection()], [], asyncio.Condition()

    async def acquire(self):
        async with self.change:
            while not self.free:
                await self.change.wait()
            self.lent.append(self.free.pop())
            return self.lent[-1]

    async def release(self, connection):
        async with self.change:
            self.lent.remove(connection)
            self.free.append(connection)
            self.change.notify()

class Base:
    def __init__(self):
        self.calls = queue.SimpleQueue()
        threading.Thread(target=self.work, args=(self.calls,), name="base", daemon=True).start()

    def work(self, calls):
        while True:
            future, function = calls.get()
            result = function()
            future.get_loop().call_soon_threadsafe(future.set_result, result)
            del future

    async def execute(self, function):
        future = asyncio.get_running_loop().create_future()
        self.calls.put((future, function))
        return await future
"""
"""A library with a pool of connections, and with a thread that works for all its callers."""
USES = """import asyncio, sys, threading, time
sys.path.insert(0, PATH)
import lent

async def first(pool):
    connection = await pool.acquire()
    await asyncio.sleep(FIRST)
    await pool.release(connection)

async def second(pool):
    await asyncio.sleep(0.1)
    await pool.release(await pool.acquire())

async def slow(base):
    await base.execute(lambda: time.sleep(FIRST))

async def quick(base):
    await asyncio.sleep(0.1)
    await base.execute(int)

async def main():
    pool, base = lent.Pool(), lent.Base()
    calls = [slow(base), quick(base)] if "base" in sys.argv else [first(pool), second(pool)]
    await asyncio.gather(*(asyncio.create_task(call, name=call.__name__) for call in calls))

asyncio.run(main())
"""


@pytest.mark.parametrize(("what", "words"), [
    ("pool", ("(second) waits at uses.py:12 in Pool.acquire for Pool;",
              "(first) has its Connection in connection at uses.py:7, and waits at uses.py:7")),
    ("base", ("(quick) waits at uses.py:19 for Future in Base.execute; thread", "(base) has it in its queue",
              "(slow) waits at uses.py:15")),
])  # fmt: skip
def test_who_holds_what_a_library_has_no_more_of_is_named(tmp_path: Path, what: str, words: tuple[str, ...]) -> None:
    library = tmp_path / "site-packages" / "lent"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(POOL)
    program = tmp_path / "uses.py"
    for first, ends in (("60", False), ("0.3", True)):
        program.write_text(USES.replace("PATH", repr(str(library.parent))).replace("FIRST", first))
        with session([sys.executable, str(program), what]) as s:
            s.debugger.limit = 20 if ends else 2
            stop = s.do("continue")
            assert (stop["why"] == "ended") == ends, stop
            text = stop["text"] or ""
            assert ends or all(part in text for part in words), text


def waits_for_ever(what: str, python: str) -> bool:
    """Whether this Python's program does as the report says."""
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
    return what != "open_connection" or "3.11" not in version


@pytest.mark.cases(3)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("what", REPORTS)
def test_a_program_after_a_public_report_is_explained_in_the_first_line(
    what: str, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not waits_for_ever(what, python):
        pytest.skip("this Python's servers do not wait for their connections")
    with session([python, str(REPORTED), what]) as s:
        s.debugger.limit = 20 if what in HUNG else 3
        stop = s.do("continue")
        is_hung = stop["why"] in ("stuck", "deadlock")
        assert is_hung == (what in HUNG) or what == "blocked_executor", stop  # some versions wait for a limited time
        first = s.console.render_answer(stop)[0]
        assert all(part in first for part in REPORTS[what]), first
    need("ptrace")
    with running(python, what, REPORTED) as pid:
        assert main(["tasks", "--pid", str(pid), "--once"]) == is_hung
        first = capsys.readouterr().out.splitlines()[0]
        assert all(part in first for part in REPORTS[what]), first


@pytest.mark.cases(2)
@pytest.mark.parametrize("what", REPORTS)
def test_the_corrected_twin_of_a_report_comes_to_its_end(what: str) -> None:
    with session([sys.executable, str(REPORTED), what, "fixed"]) as s:
        s.debugger.limit = 30
        assert s.do("continue")["why"] == "ended"


def test_a_program_that_only_waits_for_a_timer_is_not_held_up() -> None:
    with session([sys.executable, "-c", "import asyncio; asyncio.run(asyncio.sleep(60))"]) as s:
        s.debugger.limit = 1
        assert s.do("continue")["text"] in (
            "stopped after 1 s.",
            "stopped after 1 s. no asyncio event loop had anything to run for 1 s: all tasks wait",
        )
        waits = s.do("waits")
        assert (waits["hung"], waits["delay"], waits["deadlocks"]) == (None, None, [])


def test_the_status_says_whether_the_program_hangs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "-c", "continue", "--", str(PROGRAM), "dead_setter"]) == 1
    assert main(["tasks", "-c", "continue", "--", str(PROGRAM), "dead_setter", "fixed"]) == 0


def test_a_cancelled_task_is_stopped_at_where_that_was_asked_for() -> None:
    code = (
        "import asyncio\n\nasync def rest(n):\n    await asyncio.sleep(n)\n\nasync def main():\n"
        "    task = asyncio.create_task(rest(9), name='rest')\n    await asyncio.sleep(0)\n    task.cancel()\n"
        "    await asyncio.wait([task])\n\nasyncio.run(main())\n"
    )
    for catch, why in (("catch CancelledError", "died"), ("catch", "ended")):
        with session([sys.executable, "-c", code]) as s:
            s.do(catch)
            stop = s.do("continue")
            assert stop["why"] == why, stop
            if why == "died":
                assert stop["text"].endswith("(rest) died of CancelledError")
                assert stop["at"]["line"] == 4
                assert s.do("print n")["value"] == "9"
