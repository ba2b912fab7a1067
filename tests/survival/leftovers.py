"""A line of every command of `weft`, and a scene in which one is seen to leave no process, folder or shared memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

from tests_support import WEFT, Installed, execute

MARK = "WEFT_TEST_LEFTOVERS"
Words = list[str | Path]

FOREVER_C = """
#include <stdio.h>
int main(void) {
    fclose(fopen("begun", "w"));
    volatile double total = 0;
#pragma omp parallel for
    for (int i = 0; i < 4; i++)
        for (;;) { double x = i; x += 1; if (x < 0) total = 1; }
    printf("%g\\n", total);
}
"""
SUM_C = """
int main(void) {
    double total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < 4; i++) total += i;
    return total != 6;
}
"""
FOREVER_NUMBA = """
import numba, numpy, time
@numba.njit(parallel=True)
def double(a):
    for i in numba.prange(len(a)):
        a[i] *= 2
double(numpy.ones(4))
open("begun", "w").close()
while True:
    time.sleep(0.01)
"""
FOREVER_MPI = """
import time
from mpi4py import MPI
while True:
    MPI.COMM_WORLD.barrier()
    open("begun", "w").close()
    time.sleep(0.01)
"""
RACE = """
import os, time
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank:
    world.send(world.rank, 0)
else:
    [world.recv(source=MPI.ANY_SOURCE) for _ in range(2)]
    if begun := os.environ.get("WEFT_TEST_SLOW"):
        open(begun, "w").close()
        time.sleep(300)
"""
HUNG_TASK = "import asyncio\n\nasync def main():\n    await asyncio.Event().wait()\n\nasyncio.run(main())\n"
SHORT_TASK = "import asyncio\n\nasync def main():\n    await asyncio.sleep(0)\n\nasyncio.run(main())\n"
"""A program whose compilation takes some seconds."""
SLOW_CC = '#include <regex>\n#include <iostream>\nint main() { std::regex r("a+"); std::cout << 1; }\n'


class Scene:
    """A folder of programs, and a mark in the environment of all that is started in it."""

    def __init__(self, folder: Path, mpi: Installed) -> None:
        self.folder, self.mpi = folder, mpi
        self.mark = f"{folder}-{os.getpid()}"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = {
            **os.environ, "OMP_NUM_THREADS": "1", MARK: self.mark, "TMPDIR": str(self.temporary),
            "PYTHONFAULTHANDLER": "",
        }  # fmt: skip
        self.segments: set[str] = set()
        self.others: list[subprocess.Popen[bytes]] = []
        """Jobs that are not Weft's to end."""

    def write(self, name: str, text: str) -> Path:
        """Write a program."""
        path = self.folder / name
        path.write_text(text)
        return path

    def job(self) -> subprocess.Popen[bytes]:
        """Start an MPI job without Weft, which is not in the scene."""
        words = [*self.mpi.mpiexec, "-n", "2", sys.executable, self.write("job.py", FOREVER_MPI)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        job = subprocess.Popen(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        self.others.append(job)
        assert self.wait_for((self.folder / "begun").exists)
        return job

    def processes(self) -> dict[int, str]:
        """Return id and command line of each process that was started here and lives."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def launchers(self) -> list[int]:
        """The launchers that live here."""
        return [pid for pid, words in self.processes().items() if _name(words).startswith(("mpiexec", "mpirun"))]

    def programs(self) -> list[int]:
        """The processes that live here and are neither Weft's, nor a launcher's, nor a compiler's."""
        return [pid for pid, words in self.processes().items() if _is_program(words)]

    def start(self, words: Words, stdout: int | None = None) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, with an input that nobody writes."""
        with self.written.open("wb") as output:
            return subprocess.Popen(
                [str(word) for word in words], cwd=self.folder, env=self.environment, stdin=subprocess.PIPE,
                stdout=output if stdout is None else stdout, stderr=output, start_new_session=True,
            )  # fmt: skip

    def start_in_terminal(self, words: Words, terminal: int) -> subprocess.Popen[bytes]:
        """Start a command whose terminal this is; what it says on standard error goes into the file."""
        shell = ["setsid", "--ctty", *(str(word) for word in words)]
        with self.written.open("wb") as output:
            return subprocess.Popen(shell, cwd=self.folder, env=self.environment, stdin=terminal, stdout=terminal,
                                    stderr=output)  # fmt: skip

    @property
    def written(self) -> Path:
        """The file with what the command prints."""
        return self.folder / "output.txt"

    @property
    def output(self) -> str:
        """What the command has printed."""
        return self.written.read_text(errors="replace")

    def wait_for(self, is_there: Callable[[], bool], seconds: float = 60) -> bool:
        """Wait until something is there; return whether it came."""
        until = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def note_memory(self) -> None:
        """Remember what shared memory the processes have that live here."""
        for pid in self.processes():
            self.segments |= set(re.findall(r"/dev/shm/\S+", _read(Path(f"/proc/{pid}/maps"))))

    def left_in_memory(self) -> list[str]:
        """The shared memory that they had and that is there still."""
        return [path for path in self.segments if Path(path).exists()]

    def left_in_folder(self) -> list[str]:
        """What lies in the folder for temporary files."""
        return [path.name for path in self.temporary.iterdir()]

    def end(self) -> None:
        """End what a failed test has left, and the jobs that were not Weft's to end."""
        for pid in self.processes():
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
        for job in self.others:
            job.terminate()
            job.wait(20)


def _name(words: str) -> str:
    """The name of what a command line starts, past the interpreter of a script."""
    first, _, rest = words.partition(" ")
    name = Path(first).name
    return Path(rest.split(" ", 1)[0]).name if name.startswith(("python", "bash", "sh")) else name


def _is_program(words: str) -> bool:
    tools = (
        "mpiexec", "mpirun", "hydra", "gcc", "g++", "cc1", "collect2", "ld", "as", "mpic", "x86_64", "-", "sh",
        "timeout", "setsid", "gdb",
    )  # fmt: skip
    if "weft.numba" in words or "/check/numba/" in words:  # it runs the program
        return True
    return bool(words.strip()) and "-m weft" not in words and not _name(words).startswith(tools)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class Line:
    """A line of a command: how it is made, and how it is known to be under way where it does not end by itself."""

    make: Callable[[Scene], Words]
    is_under_way: Callable[[Scene], bool] | None = None
    has_launcher: bool = False
    has_program: bool = False
    has_prompt: bool = False
    """Whether it goes on after Ctrl-C, and after its program, until its input ends."""


def _run_of(scene: Scene, name: str = "run") -> Path:
    """A run of a race, recorded once for all scenes of this session of tests, of which each has a copy."""
    kept = scene.folder.parent / "recorded-race"
    if not (kept / "run").exists():
        kept.mkdir(exist_ok=True)
        (kept / "race.py").write_text(RACE)
        line = [*WEFT, "run", "-n", "3", "--out", kept / "run", "--", sys.executable, kept / "race.py"]
        done = execute(line, cwd=kept, timeout=120)
        assert done.returncode == 0, done.stderr
    copytree(kept / "run", scene.folder / name, symlinks=True)
    return scene.folder / name


def _of_run(*words: str) -> Callable[[Scene], Words]:
    """A command that takes a run first."""
    return lambda scene: [*WEFT, words[0], _run_of(scene), *words[1:]]


def _slow(*words: str) -> Callable[[Scene], Words]:
    """The same, where the program stays when it is run again."""

    def make(scene: Scene) -> Words:
        line = _of_run(*words)(scene)
        scene.environment["WEFT_TEST_SLOW"] = str(scene.folder / "begun")  # it runs in the folder of the record
        return line

    return make


def _of_program(command: str, name: str, text: str, *more: str) -> Callable[[Scene], Words]:
    """A command that takes a source or a script."""
    return lambda scene: [*WEFT, command, *more, scene.write(name, text)]


def _python(program: str, *options: str) -> Callable[[Scene], Words]:
    return lambda scene: [*WEFT, "run", "-n", "3", *options, "--", sys.executable, scene.write("prog.py", program)]


def _attach(scene: Scene) -> Words:
    return [*WEFT, "attach", str(scene.job().pid)]


def _gather(scene: Scene) -> Words:
    recorded = _run_of(scene, "recorded")
    copytree(recorded, scene.folder / "of-host", symlinks=True)
    return [*WEFT, "gather", scene.folder / "gathered", scene.folder / "of-host"]


def _has_begun(scene: Scene) -> bool:
    return (scene.folder / "begun").exists()


def _says(text: str) -> Callable[[Scene], bool]:
    return lambda scene: text in scene.output


ENDING: Mapping[str, Line] = {
    "attach": Line(_attach),
    "cc": Line(lambda scene: [*WEFT, "cc", "g++", "-v", "-o", "prog", scene.write("slow.cpp", SLOW_CC)]),
    "check": Line(_of_program("check", "sum.c", SUM_C), has_program=True),
    "compare": Line(lambda scene: [*WEFT, "compare", _run_of(scene), _run_of(scene, "other")]),
    "completion": Line(lambda _: [*WEFT, "completion", "bash"]),
    "dap": Line(lambda _: ["sh", "-c", '"$@" </dev/null', "sh", *WEFT, "dap"]),
    "debug": Line(_of_run("debug", "-c", "ranks"), has_launcher=True, has_program=True),
    "demo": Line(lambda _: [*WEFT, "demo"], has_launcher=True, has_program=True),
    "doctor": Line(lambda _: [*WEFT, "doctor"]),
    "dump": Line(_of_run("dump")),
    "explain": Line(lambda _: [*WEFT, "explain", "deadlock"]),
    "explore": Line(_of_run("explore"), has_launcher=True, has_program=True),
    "export": Line(_of_run("export", "--format", "perfetto")),
    "gather": Line(_gather),
    "pack": Line(_of_run("pack")),
    "probes": Line(lambda _: [*WEFT, "probes", "--cflags"]),
    "replay": Line(_of_run("replay"), has_launcher=True, has_program=True),
    "report": Line(_of_run("report")),
    "runs": Line(lambda scene: [*WEFT, "runs", _run_of(scene).parent]),
    "run": Line(_python(RACE), has_launcher=True, has_program=True),
    "tasks": Line(_of_program("tasks", "short.py", SHORT_TASK, "-c", "tasks"), has_program=True),
    "view": Line(_of_run("view", "--text")),
}
"""A line of each command that ends by itself."""

LASTING: Mapping[str, Line] = {
    "check of C": Line(_of_program("check", "forever.c", FOREVER_C), _has_begun, has_program=True),
    "check of Numba": Line(_of_program("check", "forever.py", FOREVER_NUMBA), _has_begun, has_program=True),
    "dap at a port": Line(lambda _: [*WEFT, "dap", "--port", "0"], _says("listens")),
    "debug at its prompt": Line(
        _of_run("debug"), lambda scene: len(scene.programs()) >= 3, has_launcher=True, has_program=True, has_prompt=True
    ),
    "explore of a slow program": Line(_slow("explore"), _has_begun, has_launcher=True, has_program=True),
    "replay of a slow program": Line(_slow("replay"), _has_begun, has_launcher=True, has_program=True),
    "run of a slow program": Line(_python(FOREVER_MPI), _has_begun, has_launcher=True, has_program=True),
    "tasks at its prompt": Line(
        _of_program("tasks", "forever.py", HUNG_TASK), _says("first line"), has_program=True, has_prompt=True
    ),
    "view": Line(_of_run("view", "--no-browser"), _says("http://")),
}
"""Lines that go on until they are ended."""
