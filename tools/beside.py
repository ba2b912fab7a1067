"""The table of tests/evidence/tasks.md: what gdb, pdb, debugpy and Weft do on the same programs. It drives all of them.

python tools/beside.py [--debugpy PYTHON] [--write]

`--debugpy`: a Python that has debugpy. Without `--write` the table is printed. Needs gdb, clang and an OpenMP runtime.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tests_support import clang
from weft.tasks import Session, session
from weft.tasks.runtime import make_runtime_folder, select_runtime

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "tasks" / "programs"
PAGE = ROOT / "tests" / "evidence" / "tasks.md"
NATIVE_LINES = [18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30]
ASYNCIO_LINES = [33, 34, 35, 34, 36, 37, 36, 37, 36, 38, 39, 40, 39, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 49, 51,
                 52, 53, 54]  # fmt: skip
Stop = tuple[int, str]
"""Line and function."""
Seen = dict[str, list[Stop] | int]


def followed(stops: list[Stop], lines: list[int]) -> int:
    """How many of a task's lines came in order before anything else did."""
    seen = [line for line, _ in stops]
    return next((i for i, line in enumerate(lines) if i >= len(seen) or seen[i] != line), len(lines))


# gdb, as it is

IN_GDB = """
import gdb, json
for setting in ("pagination off", "confirm off", "debuginfod enabled off", "startup-with-shell off"):
    gdb.execute("set " + setting)
seen = []
def here():
    frame = gdb.selected_frame()
    return [frame.find_sal().line, frame.name() or "?"]
try:
    gdb.execute("break " + PLACE)
    gdb.execute("run")
    gdb.execute("delete")
    seen.append(here())
    for _ in range(COUNT):
        gdb.execute(HOW)
        seen.append(here())
except gdb.error as error:
    seen.append([0, str(error)])
threads = len(gdb.selected_inferior().threads())
open(OUT, "w").write(json.dumps([seen, threads]))
gdb.execute("kill")
"""


def gdb(program: Path, where: str, how: str, count: int, folder: Path, *arguments: str) -> tuple[list[Stop], int]:
    """Steps of plain gdb, and how many things its list of threads has."""
    script, out = folder / "drive.py", folder / "out.json"
    values = f"PLACE, HOW, COUNT, OUT = {where!r}, {how!r}, {count}, {str(out)!r}\n"
    script.write_text(values + IN_GDB)
    environment = {
        "LD_LIBRARY_PATH": str(make_runtime_folder(select_runtime(""))),
        "PATH": "/usr/bin:/bin",
        "KMP_ENABLE_TASK_THROTTLING": "0",
    }
    subprocess.run(["gdb", "--nx", "-batch", "-x", str(script), "--args", str(program), *arguments], env=environment,
                   capture_output=True, timeout=120, check=False)  # fmt: skip
    seen, threads = json.loads(out.read_text())
    return [(line, function) for line, function in seen], threads


# pdb


def pdb(program: str, first: int, how: str, count: int) -> list[Stop]:
    """Steps of pdb."""
    commands = f"b {first}\nc\ncl 1\n" + f"{how}\n" * count + "q\n"
    done = subprocess.run([sys.executable, "-m", "pdb", str(PROGRAMS / program)], input=commands, capture_output=True,
                          text=True, timeout=120, check=False)  # fmt: skip
    stops = [(int(m[1]), m[2]) for m in re.finditer(r"^(?:\(Pdb\) )*> .*?\((\d+)\)(\w+)\(\)", done.stdout, re.M)]
    at = next((i for i, (line, _) in enumerate(stops) if line == first), 0)
    return stops[at:]


# debugpy, through the debug adapter protocol


class Adapter:
    """A client that steps one program."""

    def __init__(self, python: str) -> None:
        self._server = subprocess.Popen(
            [python, "-m", "debugpy.adapter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._number = 0
        self._python = str(Path(python).absolute())  # it is started elsewhere

    def send(self, command: str, **arguments: Any) -> int:
        """One request."""
        self._number += 1
        text = json.dumps({"seq": self._number, "type": "request", "command": command, "arguments": arguments})
        assert self._server.stdin
        self._server.stdin.write(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
        self._server.stdin.flush()
        return self._number

    def message(self) -> Any:
        """The next message."""
        assert self._server.stdout
        length = 0
        while (line := self._server.stdout.readline().strip()) or not length:
            if line.lower().startswith(b"content-length"):
                length = int(line.split(b":")[1])
        return json.loads(self._server.stdout.read(length))

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        """The first message that is wanted; the program's end counts always."""
        while True:
            message = self.message()
            if wanted(message) or message.get("event") == "terminated":
                return message

    def answer(self, command: str, **arguments: Any) -> Any:
        """One request and its answer."""
        number = self.send(command, **arguments)
        return self.until(lambda m: m.get("request_seq") == number).get("body") or {}

    def launch(self, path: str, *arguments: str, first: int = 0) -> None:
        """Run a program, to a line of it where one is named."""
        self.answer("initialize", adapterID="beside", clientID="beside")
        how = {"console": "internalConsole", "justMyCode": bool(first)}
        self.send("launch", program=path, args=arguments, python=[self._python], **how)
        begun = self.until(lambda m: m.get("event") == "initialized" or m.get("success") is False)
        if "event" not in begun:
            raise SystemExit(f"debugpy does not start {path}: {begun['message']}")
        self.answer("setBreakpoints", source={"path": path}, breakpoints=[{"line": first}] if first else [])
        self.answer("configurationDone")

    def steps(self, program: str, first: int, how: str, count: int) -> list[Stop]:
        """Where it stands after each step."""
        path = str(PROGRAMS / program)
        self.launch(path, first=first)
        found: list[Stop] = []
        for _ in range(count + 1):
            stopped = self.until(lambda m: m.get("event") == "stopped")
            if stopped.get("event") != "stopped":
                break
            thread = stopped["body"]["threadId"]
            frames = self.answer("stackTrace", threadId=thread, levels=1).get("stackFrames", [])
            found.append((frames[0]["line"], frames[0]["name"]) if frames else (0, "?"))
            self.answer("setBreakpoints", source={"path": path}, breakpoints=[])
            self.answer("next" if how == "n" else "stepIn", threadId=thread)
        return found

    def stacks(self) -> Iterator[str]:
        """Each thread after `pause`, with its frames."""
        for thread in self.answer("threads")["threads"]:
            self.answer("pause", threadId=thread["id"])
            yield thread["name"]
            for frame in self.answer("stackTrace", threadId=thread["id"])["stackFrames"]:
                yield f"  {frame['source']['path']}:{frame['line']}: {frame['name']}"

    def close(self) -> None:
        """End it."""
        self._server.kill()
        self._server.wait()


def debugpy(python: str, program: str, first: int, how: str, count: int) -> list[Stop]:
    """Steps of debugpy."""
    adapter = Adapter(python)
    try:
        return adapter.steps(program, first, how, count)
    finally:
        adapter.close()


# Weft


def weft(s: Session, where: str, how: str, count: int, *, child: bool = False) -> list[Stop]:
    """Steps of Weft."""
    s.do(f"break {where}")
    stop = s.do("continue")
    s.do("delete")
    s.do(f"follow {'child' if child else 'parent'}")
    found = []
    for _ in range(count + 1):
        at = stop["at"] or {"line": 0, "function": stop["why"]}
        found.append((at["line"], at["function"]))
        if stop["why"] in ("ended", "done"):
            break
        stop = s.do(how)
    return found


# The table


def native(folder: Path) -> list[list[str]]:
    """The rows of OpenMP: gdb, Weft."""
    made = {}
    for name in ("migrate", "three", "many"):
        made[name] = folder / name
        subprocess.run([clang(), "-g", "-O0", "-fopenmp", PROGRAMS / f"{name}.c", "-o", made[name]], check=True)
    plain, _ = gdb(made["migrate"], "migrate.c:18", "next", 14, folder)
    with session([str(made["migrate"])]) as s:
        ours = weft(s, "migrate.c:18", "next", 14)
    rows = [["an untied task, line by line by `next`, of 12 lines",
             *(str(followed(stops, NATIVE_LINES)) for stops in (plain, ours))]]  # fmt: skip
    plain, _ = gdb(made["three"], "three.c:12", "step", 12, folder)
    with session([str(made["three"])]) as s:
        ours = weft(s, "three.c:12", "step", 12, child=True)
    rows.append(
        ["from the spawn into the child", *(yes(any(line in (15, 16, 17) for line, _ in x)) for x in (plain, ours))]
    )
    plain, _ = gdb(made["three"], "three.c:17", "next", 3, folder)
    with session([str(made["three"])]) as s:
        ours = weft(s, "three.c:17", "next", 3)
    rows.append(
        ["from the child's end on at the join", *(yes(any(line in (20, 21) for line, _ in x)) for x in (plain, ours))]
    )
    _, threads = gdb(made["many"], "reached", "next", 0, folder, "50")
    with session([str(made["many"]), "50"]) as s:
        s.do("break reached")
        s.do("continue")
        new = len(s.do("tasks new")["tasks"])
    rows.append(["of 50 tasks that have not begun, it lists", "0" if threads < 50 else str(threads), str(new)])
    return rows


def asyncio_(python: str) -> list[list[str]]:
    """The rows of asyncio: pdb, debugpy, Weft."""

    def all_three(program: str, first: int, how: str, count: int, *, child: bool = False) -> list[list[Stop]]:
        with session([sys.executable, str(PROGRAMS / program)]) as s:
            ours = weft(s, f"{program}:{first}", {"n": "next", "s": "step"}[how], count, child=child)
        return [pdb(program, first, how, count), debugpy(python, program, first, how, count), ours]

    found = all_three("twisted.py", 32, "n", 29)
    rows = [["one task, line by line by `next`, of 28 lines", *(str(followed(x[1:], ASYNCIO_LINES)) for x in found)]]
    found = all_three("twisted.py", 32, "s", 35)
    of_task = ("traced", "helper", "plain", "numbers")
    rows.append(["of 35 `step`s, those to a line of the task or of what it calls",
                 *(str(sum(f.rpartition(".")[2] in of_task for _, f in x[1:])) for x in found)])  # fmt: skip
    found = all_three("levels.py", 17, "s", 8, child=True)
    rows.append(["from the spawn into the child, and only there",
                 *(yes("leaf" in (names := [f for _, f in x[1:]]) and "top" not in names[: names.index("leaf")]
                       and "main" not in names[: names.index("leaf")]) for x in found)])  # fmt: skip
    found = all_three("levels.py", 12, "n", 2)
    rows.append(
        ["from the child's end on at the join", *(yes(any(x == (19, "middle") for x in y[1:3])) for y in found)]
    )
    with session([str(PROGRAMS / "levels.py")]) as s:
        s.do("break levels.py:28")
        s.do("continue")
        new = len(s.do("tasks new")["tasks"])
    rows.append(["of 2 tasks that have not begun, it lists", "0", "0", str(new)])
    return rows


def yes(is_so: bool) -> str:
    """In words."""
    return "yes" if is_so else "no"


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--debugpy", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if subprocess.run([options.debugpy, "-c", "import debugpy"], capture_output=True, check=False).returncode:
        parser.error(f"{options.debugpy} has no debugpy: install it there, or name a Python that has it (--debugpy)")
    with tempfile.TemporaryDirectory() as folder:
        first = table(["OpenMP", "gdb", "Weft"], native(Path(folder)))
    text = first + "\n\n" + table(["asyncio", "pdb", "debugpy", "Weft"], asyncio_(options.debugpy))
    print(text)
    if options.write:
        page = PAGE.read_text()
        PAGE.write_text(
            re.sub(r"(<!-- beside -->\n).*?(<!-- /beside -->)", lambda m: m[1] + text + "\n" + m[2], page, flags=re.S)
        )


if __name__ == "__main__":
    main()
