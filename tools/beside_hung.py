"""The second table of tests/evidence/tasks.md: what several tools say of the same hung programs. It runs all of them.

python tools/beside_hung.py [--py-spy FILE] [--debugpy PYTHON] [--aiomonitor PYTHON] [--pstree PYTHON] [--write]

--debugpy and --aiomonitor name a Python that has it; --pstree one from 3.14 on, by itself one of WEFT_PYTHONS or on the
PATH. Asked of each answer: does it name the line at which the hung task stands, say that nothing can go on there, and
say who has what it waits for? What a tool says by itself counts, in the command that it has for it. Without `--write`
the table is printed, with `--verbose` the answers too. Needs gdb, gcc and an OpenMP runtime.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beside import Adapter

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "tasks" / "programs"
PAGE = ROOT / "tests" / "evidence" / "tasks.md"
TASKS = [sys.executable, "-m", "weft.cli.main", "tasks"]
HUNG = 2.5
"""Seconds after which a program stands still."""
QUESTIONS = ("the line", "that it is hung", "who has it")
VERDICT = r"nothing can happen any more|deadlock"
CIRCLE = r"cycle: \w → |deadlock: .* for task \d \(\w\): none of them"
"""Of awaits; one that is named says both who waits for whom and that it is for ever."""


@dataclass(frozen=True)
class Case:
    """A hung program, and what is to be said of it: where it stands, that it does for ever, and who has what."""

    name: str
    command: list[str]
    answers: tuple[str, str, str]
    python: bool = True

    def judged(self, text: str) -> list[bool]:
        """Which of the three an answer names."""
        return [re.search(pattern, text) is not None for pattern in self.answers]


def line_of(file: str, text: str) -> int:
    """The line of a program that has that text, for the first time."""
    lines = (PROGRAMS / file).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def at(file: str, text: str) -> str:
    """How tools write a place: `hung.py:29`, `hung.py", line 29`."""
    return rf'{re.escape(file)}(:|", line |:\d+: line ){line_of(file, text)}\b'


def cases(folder: Path) -> list[Case]:
    """All of them; those in C are built."""
    python = {
        "queue": (at("hung.py", "while await jobs.get()"), VERDICT, r"other tasks that refer to it: task 1\b"),
        "pool": (at("hung.py", "async with self.free"), VERDICT, r"nested\) is inside of it already"),
        "lock": (at("hung.py", "async with guard"), VERDICT, r"keeper\) took it"),
    }
    hung = [(kind, ["hung.py", kind], answers) for kind, answers in python.items()]
    hung.append(("circle", ["circle.py"], (at("circle.py", "await tasks[other]"), CIRCLE, CIRCLE)))
    found = [
        Case(f"asyncio, {kind}", [sys.executable, str(PROGRAMS / file), *arguments], answers)
        for kind, (file, *arguments), answers in hung
    ]
    native = {
        "crossed.c": ([], (at("crossed.c", "omp_set_lock(second)"), VERDICT, r"for task 4, task 4 .* for task 3\b")),
        "mutexes.c": (["crossed"], (at("mutexes.c", "lock(second)"), VERDICT, r"for task 4, task 4 .* for task 3\b")),
    }
    for name, (arguments, answers) in native.items():
        program = folder / name.removesuffix(".c")
        subprocess.run(
            ["gcc", "-g", "-O0", "-fopenmp", str(PROGRAMS / name), "-o", str(program)], check=True, timeout=60
        )
        found.append(Case(f"OpenMP, {program.name}", [str(program), *arguments], answers, python=False))
    return found


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    """A program that runs until it hangs; its number."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, stdin=quiet) as process:
        try:
            time.sleep(HUNG)
            yield process.pid
        finally:
            process.kill()


def said(command: list[str]) -> str:
    """What a tool says."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


def weft(case: Case) -> str:
    """`continue`, then `tasks`."""
    return said([*TASKS, "--timeout", "30", "-c", "continue", "-c", "tasks", "--", *case.command])


def attached(case: Case) -> str:
    """`weft tasks --pid N --once` of a program that hangs already."""
    if not case.python:
        return ""
    with running(case.command) as pid:
        return said([*TASKS, "--pid", str(pid), "--once"])


def gdb(case: Case) -> str:
    """The stacks of all threads; of Python those of its own frames too, by what CPython gives gdb for that."""
    more = ["-ex", "thread apply all py-bt"] if case.python else []
    safe = ["-iex", "set auto-load safe-path /"]
    with running(case.command) as pid:
        return said(["gdb", *safe, "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt", *more])


def py_spy(file: str) -> Callable[[Case], str]:
    """The stacks of all threads, with their variables."""

    def dump(case: Case) -> str:
        if not case.python:
            return ""
        with running(case.command) as pid:
            return said([file, "dump", "--locals", "--pid", str(pid)])

    return dump


def debugpy(python: str) -> Callable[[Case], str]:
    """Started by it, then `pause` of all threads and their stacks."""

    def paused(case: Case) -> str:
        if not case.python:
            return ""
        adapter = Adapter(python)
        try:
            adapter.launch(*case.command[1:])
            time.sleep(HUNG)
            return "\n".join(adapter.stacks())
        finally:
            adapter.close()

    return paused


def pstree(python: str) -> Callable[[Case], str]:
    """`asyncio pstree` and `ps`, the program run by the same Python."""

    def trees(case: Case) -> str:
        if not case.python:
            return ""
        with running([python, *case.command[1:]]) as pid:
            return "".join(said([python, "-m", "asyncio", command, str(pid)]) for command in ("pstree", "ps"))

    return trees


def newest() -> str | None:
    """A Python whose asyncio has `pstree`."""
    named = [*os.environ.get("WEFT_PYTHONS", "").split(os.pathsep), shutil.which("python3.14") or ""]
    return next((one for one in named if one and has(one, "asyncio.tools")), None)


def has(python: str, module: str) -> bool:
    """Whether it can import that."""
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


MONITORED = """
import asyncio, runpy, sys
import aiomonitor
run = asyncio.run
def monitored(program):
    asyncio.run = run
    async def main():
        with aiomonitor.start_monitor(asyncio.get_running_loop(), port=PORT, webui_port=PORT + 1, console_enabled=False,
                                      hook_task_factory=True):
            await program
    run(main())
asyncio.run = monitored
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
ASKED = """
import asyncio, re, telnetlib3
async def main():
    for _ in range(60):
        try:
            reader, writer = await telnetlib3.open_connection("127.0.0.1", PORT)
            break
        except OSError:
            await asyncio.sleep(0.5)
    async def answer(command):
        writer.write(command + "\\r\\n")
        text = ""
        try:
            while True:
                text += await asyncio.wait_for(reader.read(4096), 1.5)
        except asyncio.TimeoutError:
            return text
    await answer("")
    tasks = await answer("ps")
    print(tasks)
    for number in dict.fromkeys(re.findall(r"\\d{9,}", tasks)):
        print(await answer("where " + number))
asyncio.run(main())
"""


def aiomonitor(python: str) -> Callable[[Case], str]:
    """Its `ps`, and `where` of each task; the program runs with its monitor in it."""

    def asked(case: Case) -> str:
        if not case.python:
            return ""
        port = "21101"
        with running([python, "-c", MONITORED.replace("PORT", port), *case.command[1:]]):
            text = said([python, "-c", ASKED.replace("PORT", port)])
        if "tasks running" not in text:
            raise SystemExit(f"aiomonitor gave no answer:\n{text}")
        return text

    return asked


def table(seen: dict[str, dict[str, list[bool]]], of: list[Case]) -> str:
    """As Markdown: for each program and tool which of the three were named."""
    rows = [f"| {' / '.join(QUESTIONS)} | " + " | ".join(case.name for case in of) + " |", "|---|" + "---|" * len(of)]
    for tool, answers in seen.items():
        cells = (" / ".join("yes" if one else "no" for one in answers[case.name]) or "-" for case in of)
        rows.append(f"| {tool} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--py-spy", default=shutil.which("py-spy"))
    for name, usual in (("debugpy", None), ("aiomonitor", None), ("pstree", newest())):
        parser.add_argument(f"--{name}", metavar="PYTHON", default=usual)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    for name, module in (("debugpy", "debugpy"), ("aiomonitor", "aiomonitor"), ("pstree", "asyncio.tools")):
        if (python := getattr(options, name)) and not has(python, module):
            parser.error(f"{python} has no {module}: install it there, or name a Python that has it (--{name})")
    tools: dict[str, Callable[[Case], str]] = {"gdb": gdb}
    if options.py_spy:
        tools["py-spy"] = py_spy(options.py_spy)
    for name, asked in (("debugpy", debugpy), ("aiomonitor", aiomonitor), ("asyncio pstree", pstree)):
        if python := getattr(options, name.rpartition(" ")[2]):
            tools[name] = asked(python)
    tools["Weft, come to it (`--pid --once`)"] = attached
    tools["Weft, from the start (`continue`)"] = weft
    with tempfile.TemporaryDirectory() as folder:
        of = cases(Path(folder))
        seen: dict[str, dict[str, list[bool]]] = {}
        for tool, ask in tools.items():
            for case in of:
                text = ask(case)
                seen.setdefault(tool, {})[case.name] = case.judged(text) if text else []
                if options.verbose:
                    print(f"== {tool}, {case.name}: {seen[tool][case.name]}\n{text}")
    told = table(seen, of)
    print(told)
    if options.write:
        page = re.sub(r"(<!-- hung -->\n).*?(<!-- /hung -->)", rf"\g<1>{told}\n\2", PAGE.read_text(), flags=re.S)
        PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
