"""Sit at the console of `weft tasks` before programs that others wrote: BSC's OpenMP task suite.

python tests/tasks/bots.py FOLDER [--runs 200] [--only NAME]... [--seed N]

FOLDER has the suite's `bin`, built with -g -O0. Each run starts the command on a random program and types what a person
would: breakpoints, next, step, finish, other tasks, looks, Ctrl-C, on to the end. Held against each answer: the
program's own instructions (flow.py: which line may come after which), the frames and values before it, the table. Right
is a run where all of that agrees, nothing was refused, and the program's own check of its result was successful. Prints
each that was not, with what was typed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from flow import Flow
from typed import PATIENCE, Answer, Refused, Typed, Wrong, brief

PROGRAMS = {
    "nqueens": ("nqueens.*.omp-tasks", "-n 5", ("nqueens", "nqueens.c:358", "nqueens.c:367")),
    "nqueens-tied": ("nqueens.*.omp-tasks-tied", "-n 5", ("nqueens", "ok if n == 2")),
    "nqueens-manual": ("nqueens.*.omp-tasks-manual", "-n 6 -x 2", ("nqueens", "nqueens_ser if j == 3")),
    "fib": ("fib.*.omp-tasks", "-n 7", ("fib if n > 1", "fib if n == 2")),
    "fib-tied": ("fib.*.omp-tasks-tied", "-n 7", ("fib if n > 1", "fib if n == 1")),
    "fib-manual": ("fib.*.omp-tasks-manual-tied", "-n 9 -x 3", ("fib", "fib_seq if n > 3")),
    "fib-if": ("fib.*.omp-tasks-if_clause-tied", "-n 7 -x 3", ("fib if n > 1",)),
    "strassen": ("strassen.*.omp-tasks", "-n 128 -y 64", ("OptimizedStrassenMultiply_par", "FastNaiveMatrixMultiply")),
    "strassen-manual": ("strassen.*.omp-tasks-manual", "-n 128 -y 64 -x 1", ("OptimizedStrassenMultiply_par",)),
    "sort": ("sort.*.omp-tasks", "-n 2048 -y 256 -a 256", ("cilksort_par", "cilkmerge_par", "seqmerge")),
    "sort-tied": ("sort.*.omp-tasks-tied", "-n 2048 -y 256 -a 256", ("cilksort_par", "cilkmerge_par", "binsplit")),
    "sparselu": ("sparselu.*.single-omp-tasks", "-n 5 -m 6", ("fwd", "bdiv", "bmod")),
    "sparselu-for": ("sparselu.*.for-omp-tasks-tied", "-n 5 -m 6", ("fwd", "bdiv", "bmod")),
    "fft": ("fft.*.omp-tasks", "-n 256", ("fft_aux", "fft_base_4", "fft_twiddle_gen")),
    "fft-tied": ("fft.*.omp-tasks-tied", "-n 256", ("fft_aux", "fft_unshuffle_16", "compute_w_coefficients")),
    "floorplan": ("floorplan.*.omp-tasks-manual-tied", "-x 2 -f inputs/floorplan/input.5", ("add_cell", "lay_down")),
    "health": ("health.*.omp-tasks-manual", "-x 1 -f inputs/health/test.input", ("sim_village_par", "addList")),
}
"""The program, its arguments, and where it may be stopped."""
BODY = 60
"""Lines that the longest body of a task has in these programs."""
SUCCESS = re.compile(r"Verification\s+= successful")


Frame = tuple[str, str, int]
"""Function, file, line."""


class Person:
    """Types into one console, and believes nothing."""

    def __init__(self, console: Typed, flow: Flow, rng: random.Random) -> None:
        self.console, self.flow, self.rng = console, flow, rng
        self.task = 0
        self.ended = False
        self.did = Counter[str]()

    # What is looked at

    def table(self) -> dict[int, Answer]:
        """All tasks, by number. Wrong where it contradicts itself, or has lost the task in focus."""
        rows = self.console.do("tasks")["tasks"]
        found = {row["id"]: row for row in rows}
        tops = Counter(row["worker"] for row in rows if row["state"] == "top")
        if len(found) != len(rows) or any(count > 1 for count in tops.values()):
            raise Wrong(f"rows twice: {rows}")
        if [row["id"] for row in rows if row["focus"]] != [self.task]:
            raise Wrong(f"the table has lost task {self.task}")
        for row in rows:
            self.row(row, found)
        return found

    def row(self, row: Answer, rows: dict[int, Answer]) -> None:
        """One of them."""
        wait = row["wait"] or {"kind": "", "tasks": []}
        if wait["kind"] == "taskwait" and any(rows[one]["parent"] != row["id"] for one in wait["tasks"]):
            raise Wrong(f"a taskwait for others' children: {row}")
        if (row["state"] in ("top", "middle")) != (row["worker"] is not None) or row["state"] == "done":
            raise Wrong(f"state and worker: {row}")
        if row["parent"] and not (row["at"] or row["created"]):
            raise Wrong(f"no place: {row}")

    def frames(self, task: int | None = None) -> list[Frame]:
        """A task's frames."""
        told = self.console.do(f"where {task}" if task else "where")
        return [(f["function"], Path(f["file"]).name, f["line"]) for f in told["frames"]]

    def constants(self, frames: Sequence[Frame]) -> dict[str, str]:
        """The values in the frame in hand that its function never changes."""
        found = {}
        for name in unchanged(frames[0], self.flow) if frames else ():
            try:
                found[name] = self.console.do(f"print {name}")["value"].partition(' "')[0]  # not what it points to
            except Refused as error:
                if not re.search("No symbol|the task does not have it", str(error)):
                    raise
        return found

    def may_follow(self, frame: Frame, line: int) -> bool:
        """Whether a line may come after another one of the same frame."""
        return line in self.flow.after(frame[1], frame[2])

    # What is done

    def take(self, stop: Answer) -> Answer:
        """A stop becomes where one is."""
        self.ended = stop["why"] == "ended"
        if stop["why"] in ("deadlock", "stuck", "signal", "died"):
            raise Wrong(f"{stop['why']}: {stop['text']}")
        if stop["task"] is not None:
            self.task = stop["task"]
        return stop

    def come(self, place: str) -> None:
        """To one of the first visits of a place."""
        self.console.do(f"break {place}")
        for _ in range(self.rng.randrange(1, 5)):
            stop = self.take(self.console.do("continue"))
            if self.ended:
                return
            if stop["why"] != "breakpoint":
                raise Wrong(f"no breakpoint: {stop}")
            where = place.split(maxsplit=1)[0]
            if where not in (stop["at"]["function"], f"{Path(stop['at']['file']).name}:{stop['at']['line']}"):
                raise Wrong(f"a breakpoint elsewhere: {stop}")
            if " if " in place and self.console.do(f"print {place.split(' if ')[1]}")["value"] not in ("1", "true"):
                raise Wrong(f"the condition is not true: {stop}")
        self.console.do("delete")

    def onward(self, how: str) -> None:
        """`next`, `step` or `finish`, and whether it came where it may."""
        before, task, row = self.frames(), self.task, self.table()[self.task]
        deepest = before[1:] if how == "finish" else before
        if how == "finish" and len(before) > 1:
            self.console.do("up")
        kept = self.constants(deepest)
        if how == "finish" and len(before) > 1:
            self.console.do("down")
        stop = self.take(self.console.do(how))
        self.did[how] += 1
        if self.ended and row["parent"] is not None:
            raise Wrong(f"task {task} was lost: the program has ended")
        if self.ended:
            return
        if stop["why"] in ("joined", "done"):
            self.joined(stop, task, row, before if how != "finish" else [])
            return
        if stop["why"] != "line" or stop["task"] != task:
            raise Wrong(f"after {before}: {brief(stop)}")
        after = self.frames()
        if (stop["at"]["function"], Path(stop["at"]["file"]).name, stop["at"]["line"]) != after[0]:
            raise Wrong(f"it stands at {after[0]}, and said {brief(stop)}")
        if not before and not self.within(row, after[-1]):
            raise Wrong(f"the task of {row['created']} has come to {after}")
        self.moved(how, before, after)
        if len(after) == len(deepest) and before and (told := self.constants(after)) != kept:
            raise Wrong(f"another's frame: {kept} became {told}, {before} {after}")
        now = self.table()[task]
        if (now["state"], now["worker"]) != ("top", stop["worker"]):
            raise Wrong(f"it has come to {brief(stop)}, and is {now}")

    @staticmethod
    def within(row: Answer, frame: Frame) -> bool:
        """Whether a frame may be the body of a task that is made at a directive: it stands behind that, not far."""
        made = row["created"]
        return frame[1] == Path(made["file"]).name and 0 < frame[2] - made["line"] < BODY

    def moved(self, how: str, before: list[Frame], after: list[Frame]) -> None:
        """The frames before and after a step of a task."""
        if not before:
            return
        out = len(before) - len(after)
        if how == "step" and out == -1 and after[1][:2] == before[0][:2] and after[2:] == before[1:]:
            return
        base, least = (before[1:], 1) if how == "finish" else (before, 0)
        if out < least or after[1:] != before[out + 1 :] or after[0][:2] != before[out][:2]:
            raise Wrong(f"{how} came from {before} to {after}")
        line = after[0][2]
        again = how == "step" and len(before) > 1 and self.ends(before[0]) and not out
        if again and line in self.flow.entries(after[0][0]):
            return  # out of a call and into the next one of the same line, as in `for (...) f();`
        if not self.may_follow(before[out], line) and not (out and line == before[out][2]):
            raise Wrong(f"{how}: line {line} does not follow {before[out]}; {sorted(self.flow.after(*base[0][1:]))} do")

    def joined(self, stop: Answer, task: int, row: Answer, before: list[Frame]) -> None:
        """The end of a task, and where it goes on."""
        rows = {one["id"]: one for one in self.console.do("tasks")["tasks"]}
        # A thread's part of a region is there until all have done theirs.
        if task in rows and stop["task"] != task and rows[task]["at"] is not None:
            raise Wrong(f"task {task} has ended, and is {rows[task]}, {brief(stop)}")
        parent = row["parent"]
        # One that waits at the end of its region is gone from the table later: the region's end joins for it.
        waits = parent in rows and (rows[parent]["wait"] or {}).get("kind") == "barrier" and rows[parent]["at"] is None
        if stop["why"] == "joined" and parent in rows and stop["task"] != (rows[parent]["parent"] if waits else parent):
            raise Wrong(f"the join of task {task} of {parent} is at {brief(stop)}")
        if before and row["state"] in ("top", "middle") and len(before) == 1 and not self.ends(before[0]):
            raise Wrong(f"the end after {before}")
        self.did["joins"] += 1

    def ends(self, frame: Frame) -> bool:
        """Whether a task's body may come to its end from a line without another one."""
        return self.flow.leaves(frame[1], frame[2])

    def switch(self) -> None:
        """To another task, wherever it is, and on in it."""
        rows = self.table()
        others = [row for row in rows.values() if row["id"] != self.task and self.follows(row)]
        if not others:
            return
        row = self.rng.choice(others)
        self.console.do(f"task {row['id']}")
        self.task = row["id"]
        self.did[f"switches to {row['state']}"] += 1
        frames = self.frames()
        if row["state"] in ("top", "middle") and not self.stands(row, frames):
            raise Wrong(f"the table has {row['at']}, the frames {frames}")
        if self.frames(row["id"]) != frames:
            raise Wrong(f"`where` and `where {row['id']}` differ")
        self.onward(self.rng.choice(("next", "next", "step")))

    @staticmethod
    def stands(row: Answer, frames: list[Frame]) -> bool:
        """Whether a task's frames are at its place. One on top that has not begun, or has ended, has none."""
        if not frames:
            return row["state"] == "top" and row["at"] == row["created"]
        return frames[0][2] == row["at"]["line"]

    @staticmethod
    def follows(row: Answer) -> bool:
        """Whether a task comes on by itself: no first task of a thread, which waits for all others."""
        return row["parent"] is not None and (row["wait"] or {}).get("kind") != "barrier"

    def look(self) -> None:
        """Commands that change nothing, and must not fail."""
        rows = self.table()
        words = ["waits", "locals", "list", "tasks --tree", "tasks waiting", "breakpoints", "task", "help next",
                 f"where {self.rng.choice([*rows])}", f"where --all {self.task}", f"name {self.task} mine"]  # fmt: skip
        for command in self.rng.sample(words, 3):
            if command in ("locals", "list") and not self.frames():
                continue
            self.did["looks"] += 1
            answer = self.console.do(command)
            if answer.get("deadlocks"):
                raise Wrong(f"a deadlock: {answer}")

    def ctrl_c(self) -> None:
        """Ctrl-C while the program runs, or while a task comes on."""
        command, task = self.rng.choice(("continue", "next")), self.task
        if command == "next" and not self.on_the_way():
            return
        self.console.type(command)
        time.sleep(self.rng.choice((0, 0.001, 0.003, 0.01)))
        self.console.interrupt()
        try:
            stop = self.take(self.console.read())
        except Refused as error:
            if str(error) != "interrupted":  # it came before the program was let go
                raise
            self.did["Ctrl-C, too early"] += 1
            return
        self.console.said[-1] += f" -> {brief(stop)}"
        self.did[f"Ctrl-C, {stop['why']}"] += 1
        if self.ended:
            return
        if stop["why"] not in ("interrupted", "line", "joined", "done"):
            raise Wrong(f"after Ctrl-C: {brief(stop)}")
        living = [row["id"] for row in self.console.do("tasks")["tasks"]]
        if command == "next" and self.task != task and task in living:
            raise Wrong(f"Ctrl-C in `next` left task {task} for {self.task}")
        if stop["task"] is None:
            self.chosen()
        if not self.ended:
            self.table()

    def chosen(self) -> None:
        """Some task, where the program stands in none; on to the end where there is none any more."""
        rows = self.console.do("tasks")["tasks"]
        if not rows:
            self.take(self.console.do("continue"))
            return
        self.task = self.rng.choice(rows)["id"]
        self.console.do(f"task {self.task}")

    def run(self, place: str) -> None:
        """All of it."""
        self.come(place)
        steps = ["next"] * 5 + ["step"] * 3 + ["finish", "switch", "switch", "switch", "look", "look"]
        for what in [self.rng.choice(steps) for _ in range(12)]:
            if self.ended:
                break
            if self.rng.random() < 0.1:
                self.ctrl_c()
            elif what == "switch":
                self.switch()
            elif what == "look":
                self.look()
            elif self.on_the_way():
                self.onward(what)
        if not self.ended:
            self.console.do("delete") if self.console.do("breakpoints")["breakpoints"] else None
            self.take(self.console.do("continue"))
        if not self.ended or not SUCCESS.search(self.console.output):
            raise Wrong(f"the program's own result: {self.console.output[-300:]!r}")
        if self.console.do("tasks")["tasks"]:
            raise Wrong("tasks after the end")
        self.console.quit()

    def on_the_way(self) -> bool:
        """Whether the task in hand comes on by itself."""
        return self.follows(self.table()[self.task])


def unchanged(frame: Frame, flow: Flow) -> list[str]:
    """The parameters of a function that its text never assigns to, nor takes the address of."""
    function, file, line = frame
    return [name for name, (path, first, last) in flow.parameters(function) if Path(path).name == file
            and first <= line <= last and not flow.assigned(path, first, last, name)][:4]  # fmt: skip


def command_of(folder: Path, name: str) -> list[str]:
    """How a program is started."""
    pattern, arguments, _ = PROGRAMS[name]
    words = [str(folder / word) if word.startswith("inputs/") else word for word in arguments.split()]
    return [str(next((folder / "bin").glob(pattern))), *words, "-c"]


def runs(command: list[str]) -> bool:
    """Whether it comes to its right result by itself."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False)
    return done.returncode == 0 and SUCCESS.search(done.stdout + done.stderr) is not None


def once(command: list[str], name: str, rng: random.Random, flows: dict[str, Flow]) -> tuple[str, Counter[str]]:
    """One run; what was wrong, nothing if it was right."""
    if command[0] not in flows:
        flows[command[0]] = Flow(Path(command[0]))
    console = Typed(command, rng.choice((2, 2, 3)))
    person = Person(console, flows[command[0]], rng)
    try:
        person.run(rng.choice(PROGRAMS[name][2]))
    except (Wrong, LookupError, ValueError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}\n    " + "\n    ".join(console.said), person.did
    finally:
        console.close()
    return "", person.did


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", action="append", choices=PROGRAMS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong, did, begun, flows = 0, Counter[str](), time.monotonic(), dict[str, Flow]()
    commands = {name: command_of(options.folder.resolve(), name) for name in options.only or PROGRAMS}
    for name in [name for name, command in commands.items() if not runs(command)]:
        print(f"{name} is left out: it does not come to its result without Weft either", flush=True)
        del commands[name]
    for run in range(options.runs):
        name = [*commands][run % len(commands)]
        told, done = once(commands[name], name, random.Random(f"{options.seed} {run}"), flows)
        did += done
        if told:
            wrong += 1
            print(f"{name}, run {run}: {told}", flush=True)
    counts = ", ".join(f"{what} {count}" for what, count in sorted(did.items()))
    print(
        f"{options.folder}: {options.runs - wrong} of {options.runs} right, {time.monotonic() - begun:.0f} s: {counts}"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
