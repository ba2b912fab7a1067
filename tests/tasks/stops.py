"""The table against programs that keep a log of their own tasks, at random stops: states, parents, waits.

python tests/tasks/stops.py [--stops 1000] [--runtime FILE] [--python FILE] [--only openmp|untied|asyncio]

A stop can come between what a program does and what it writes down, a few instructions at a time and once on each
thread: `logged.c` says where that is, and there alone both answers count as right. Prints every wrong answer.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests_support import clang
from weft.tasks import Session, layout, session
from weft.tasks.model import TaskRow, Wait, find_deadlocks

PROGRAMS = Path(__file__).parent / "programs"
NATIVE = Path(layout.__file__).parent / "native"
ENTRY = np.dtype([("state", "i4"), ("untied", "i4"), ("group", "i4"), ("wait", "i4"), ("line", "i4"), ("what", "i4"),
                  ("under", "i4"), ("thread", "i4"), ("weft", "i8"), ("parent", "i8"), ("away", "i4"),
                  ("unused", "i4")])  # fmt: skip
STACK = np.dtype([("top", "i4"), ("acting", "i4"), ("thread", "i8")])
ROOM, THREADS, HOLDERS = 8192, 8, 2
FREE, MAKING, MADE, RUNS_ON, ENDING = range(5)
NOTHING, TASKWAIT, TASKGROUP, LOCK, BARRIER = range(5)
KINDS = {TASKWAIT: "taskwait", TASKGROUP: "taskgroup", LOCK: "lock", BARRIER: "barrier"}


class Log:
    """The log of `logged.c`, read out of the stopped program."""

    def __init__(self, gdb: Any) -> None:
        def read(name: str, kind: Any, count: int) -> Any:
            return np.frombuffer(gdb.read(gdb.symbol_address(name), np.dtype(kind).itemsize * count), kind)

        self.entries = read("entries", ENTRY, ROOM)
        self.stacks = read("stacks", STACK, THREADS)
        self.holders = read("holder", "i4", HOLDERS).tolist()
        self.outer = read("outer", "i4", ROOM)
        used = [(int(i), self.entries[i]) for i in np.flatnonzero(self.entries["state"])]
        self.runs = {int(e["weft"]): (i, e) for i, e in used if e["state"] == RUNS_ON}
        self.ending = {int(e["weft"]) for _, e in used if e["state"] == ENDING}
        self.beginning = {int(e["weft"]) for _, e in used if e["state"] in (MAKING, MADE) and e["weft"]}
        self.pending = [e for _, e in used if e["state"] in (MAKING, MADE) and not e["weft"]]

    def within(self, group: int, entry: Any) -> bool:
        """Whether a task was made in a taskgroup, or in one inside it."""
        at = int(entry["group"])
        while at and at != group:
            at = int(self.outer[at])
        return bool(at)

    def stack(self, number: int) -> list[int]:
        """The tasks on a thread's stack, the top first, without what a stop may have caught on its way."""
        found, at = [], int(self.stacks[number]["top"])
        while at:
            entry = self.entries[at]
            if entry["state"] == RUNS_ON and not entry["away"]:
                found.append(int(entry["weft"]))
            at = int(entry["under"])
        return found


class Judge:
    """What is wrong with a table, by the log of the same moment. `seen`: how many answers were compared."""

    def __init__(self, rows: list[TaskRow], log: Log) -> None:
        self.rows = {row.id: row for row in rows}
        self.log = log
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        known = log.runs.keys() | log.ending | log.beginning
        first = {row.id for row in rows if row.parent is None}  # it makes the team's tasks, before their log begins
        self.unknown = [row for row in rows if row.id not in known and row.parent not in {None, *first}]
        self._parents()
        self._new()
        for number in range(THREADS):
            if log.stacks[number]["thread"]:
                self._stack(number)
        for id_, (_, entry) in log.runs.items():
            self._wait(id_, entry)
        self.wrong += [found.message for found in find_deadlocks(rows)]

    def _parents(self) -> None:
        for id_, (_, entry) in self.log.runs.items():
            row = self.rows.get(id_)
            if row is None:
                self.wrong.append(f"task {id_} runs and is not in the table")
            elif entry["parent"]:
                self.seen["parents"] += 1
                if row.parent != entry["parent"]:
                    self.wrong.append(f"task {id_} is from {entry['parent']}, the table says {row.parent}")
            if row is not None and entry["away"] and row.state == "new":
                self.wrong.append(f"task {id_} has begun, the table says it is new")

    def _new(self) -> None:
        made, making, shown = Counter[int](), Counter[int](), Counter[int]()
        for entry in self.log.pending:
            (made if entry["state"] == MADE else making)[int(entry["parent"])] += 1
        for row in self.unknown:
            shown[row.parent or 0] += 1
        self.seen["new"] += sum(made.values())
        for parent in made.keys() | shown.keys():
            if not made[parent] <= shown[parent] <= made[parent] + making[parent]:
                self.wrong.append(f"task {parent} has {made[parent]} (+{making[parent]}) children that have not begun, "
                                  f"the table says {shown[parent]}")  # fmt: skip
        begun = [row for row in self.unknown if row.state != "new"]
        # The first part of clang's untied tasks does nothing but put them on the heap.
        aside = sum(row.worker is None for row in begun)
        untied = sum(bool(entry["untied"]) for entry in self.log.pending)
        if aside > untied or len({row.worker for row in begun} - {None}) != len(begun) - aside:
            self.wrong.append(f"tasks that have not begun are shown as begun: {begun}")

    def _stack(self, number: int) -> None:
        worker = int(self.log.stacks[number]["thread"])
        on = {row.above: row for row in self.rows.values() if row.worker == worker}
        shown, at = [], on.get(None)
        while at is not None:
            shown.append(at)
            at = on.get(at.id)
        runs = self.log.runs
        told = [row.id for row in shown if row.id in runs and not runs[row.id][1]["away"]]
        logged = self.log.stack(number)
        self.seen["states"] += len(logged)
        if told != logged:
            self.wrong.append(f"thread {number} has the tasks {logged} on its stack, the table says {told}")
        if any(row.state != ("middle" if i else "top") for i, row in enumerate(shown)):
            self.wrong.append(f"thread {number}: {[(row.id, row.state) for row in shown]}")

    def _wait(self, id_: int, entry: Any) -> None:
        row = self.rows.get(id_)
        if row is None:
            return
        if entry["wait"] == NOTHING:
            if row.wait is not None:
                self.wrong.append(f"task {id_} waits for nothing, the table says {row.wait}")
            return
        self.seen["waits in the log"] += 1
        if row.wait is None:
            if row.state == "middle" and not entry["untied"]:
                self.wrong.append(
                    f"task {id_} is buried and waits ({KINDS[entry['wait']]}), the table says it does not"
                )
            return
        self.seen["waits"] += 1
        if row.wait.kind != KINDS[entry["wait"]]:
            self.wrong.append(f"task {id_} waits at a {KINDS[entry['wait']]}, the table says {row.wait.kind}")
        elif entry["line"] and (
            row.wait.site is None or row.wait.site.line not in range(entry["line"], entry["line"] + 2)
        ):
            self.wrong.append(f"task {id_} waits at line {entry['line']}, the table says {row.wait.site}")
        else:
            self._targets(id_, entry, row.wait)

    def _targets(self, id_: int, entry: Any, wait: Wait) -> None:
        told, runs = set(wait.tasks), self.log.runs
        if wait.kind == "lock":
            holder = self.log.entries[self.log.holders[entry["what"]]] if self.log.holders[entry["what"]] else None
            if holder is not None and told != {int(holder["weft"])}:
                self.wrong.append(f"task {id_} waits for a lock of {holder['weft']}, the table says {wait.tasks}")
            return
        if wait.kind == "barrier":
            is_target = {i for i, (_, e) in runs.items() if e["wait"] != BARRIER}
        elif wait.kind == "taskwait":
            is_target = {i for i, (_, e) in runs.items() if e["parent"] == id_}
        else:
            is_target = {i for i, (_, e) in runs.items() if self.log.within(entry["what"], e)}
            made = sum(e["state"] == MADE and self.log.within(entry["what"], e) for e in self.log.pending)
            making = sum(e["state"] == MAKING and self.log.within(entry["what"], e) for e in self.log.pending)
            unknown = len(told & {row.id for row in self.unknown})
            if not made <= unknown <= made + making:
                self.wrong.append(f"task {id_} waits for {made} (+{making}) of its group that have not begun, "
                                  f"the table says {unknown}")  # fmt: skip
        if told & runs.keys() != is_target:
            self.wrong.append(f"task {id_} ({wait.kind}) waits for {sorted(is_target)}, the table says {sorted(told)}")


def build(folder: Path, *, untied: bool) -> Path:
    """The program: by gcc, or by clang with untied tasks."""
    target = folder / ("untied" if untied else "tied")
    command = [clang(), "-DMOVING"] if untied else ["gcc"]
    command += ["-g", "-fopenmp", "-I", str(NATIVE), str(PROGRAMS / "logged.c"), "-o", str(target), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return target


def openmp(program: Path, stops: int, runtime: str = "", seed: int = 1) -> tuple[list[str], Counter[str]]:
    """The wrong answers, and how many were compared."""
    chance = random.Random(seed)
    wrong, seen = [], Counter[str]()
    with session([str(program)], runtime=runtime) as s:
        s.do("break begin")
        assert s.do("continue")["why"] == "breakpoint"
        s.do("delete")
        gdb = s.backend._gdb  # type: ignore[attr-defined]
        for number in range(stops):
            gdb.run("-exec-continue")
            time.sleep(chance.uniform(0.0, 0.03))
            gdb.halt()
            judge = Judge(s.backend.tasks(), Log(gdb))
            wrong += [f"stop {number}: {text}" for text in judge.wrong]
            seen += judge.seen
    return wrong, seen


def asyncio_(stops: int, python: str, seed: int = 1) -> tuple[list[str], Counter[str]]:
    """The same of an asyncio program, whose loop is stopped between two tasks: the log is exact there."""
    chance = random.Random(seed)
    wrong, seen = [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder, session([python, str(PROGRAMS / "logged.py"), str(seed)]) as s:
        s.do("break started")
        assert s.do("continue")["why"] == "breakpoint"
        s.do("delete")
        target = Path(folder, "log.json")
        for number in range(stops):
            time_out(s, chance.uniform(0.0, 0.01))
            rows = s.backend.tasks()
            s.do("task main")
            s.do(f"print tell({str(target)!r})")
            found = judge_asyncio(rows, json.loads(target.read_text()), seen)
            wrong += [f"stop {number}: {text}" for text in found]
    return wrong, seen


def time_out(s: Session, seconds: float) -> None:
    """Let the program run for a while, then stop it."""
    s.backend._send({"do": "go", "how": "continue", "task": None, "child": False})  # type: ignore[attr-defined]
    time.sleep(seconds)
    if s.backend.interrupt().text:  # a machine with much else to do: it comes yet
        s.backend._wait_for_stop(60)  # type: ignore[attr-defined]


def judge_asyncio(rows: list[TaskRow], log: dict[str, Any], seen: Counter[str]) -> list[str]:
    """What is wrong with a table, by the program's log of the same moment."""
    wrong = []
    table = {row.name: row for row in rows}
    names = {row.id: row.name for row in rows}
    living = {name: entry for name, entry in log.items() if not entry["ended"]}
    children = defaultdict(set)
    for name, entry in living.items():
        children[entry["parent"]].add(name)
    if missing := living.keys() - table.keys():
        wrong.append(f"not in the table: {sorted(missing)}")
    if more := {n for n in table if n.startswith("t")} - living.keys():
        wrong.append(f"not living: {sorted(more)}")
    for name in living.keys() & table.keys():
        row, entry = table[name], living[name]
        state = "heap" if entry["begun"] else "new"
        seen["states"] += 1
        if row.state != state:
            wrong.append(f"{name} is {state}, the table says {row.state}")
        if entry["parent"] in living:
            seen["parents"] += 1
            if names.get(row.parent or 0) != entry["parent"]:
                wrong.append(f"{name} is from {entry['parent']}, the table says {names.get(row.parent or 0)}")
        others = {other for other in entry["for"] if not log[other]["ended"]}
        if not entry["wait"]:
            continue
        if row.wait is None:
            if others and (not entry["one"] or len(others) == len(entry["for"])):
                wrong.append(f"{name} waits ({entry['wait']}) for {sorted(others)}, the table says it does not")
            continue
        seen["waits"] += 1
        if row.wait.kind != entry["wait"]:
            wrong.append(f"{name} waits ({entry['wait']}), the table says {row.wait.kind}")
        elif row.wait.site is None or row.wait.site.line != entry["line"]:
            wrong.append(f"{name} waits at line {entry['line']}, the table says {row.wait.site}")
        elif {names[t] for t in row.wait.tasks} != others:
            told = sorted(names[t] for t in row.wait.tasks)
            wrong.append(f"{name} ({entry['wait']}) waits for {sorted(others)}, the table says {told}")
    return wrong + [found.message for found in find_deadlocks(rows)]


def main() -> int:
    """Print the wrong answers and how many were compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=1000)
    parser.add_argument("--runtime", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("openmp", "untied", "asyncio"))
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for which in (options.only,) if options.only else ("openmp", "untied", "asyncio"):
            begun = time.monotonic()
            if which == "asyncio":
                wrong, seen = asyncio_(options.stops, options.python, options.seed)
            else:
                program = build(Path(folder), untied=which == "untied")
                wrong, seen = openmp(program, options.stops, options.runtime, options.seed)
            compared = ", ".join(f"{count:,} {what}" for what, count in sorted(seen.items()))
            took = time.monotonic() - begun
            print(f"{which}: {options.stops} stops in {took:.0f} s, {len(wrong)} wrong answers; compared: {compared}")
            print(*wrong[:20], sep="\n")
            failed += len(wrong)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
