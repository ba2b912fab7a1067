"""`weft run --tasks`: the task of each call is that in which the program made it, as its tags say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import weft
from machine import need
from tests_support import WEFT, Installed, clang, execute, pythons
from weft.launch.rundir import read_facts
from weft.trace import Rank, TaskKind, Trace

PROGRAMS = Path(__file__).parent / "programs"
needs_llvm = pytest.mark.needs("OMPT")

Run = Callable[..., Trace]


def line(text: str, program: str) -> int:
    """The number of the only line of a program that holds a text."""
    [found] = [i for i, row in enumerate((PROGRAMS / program).read_text().splitlines(), 1) if text in row]
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Record a command on two ranks with --tasks."""

    def made(
        *command: str | Path, status: int = 0, env: Mapping[str, str] | None = None, options: Any = ("--tasks",)
    ) -> Trace:
        done = execute(
            [*WEFT, "run", "-n", "2", "--out", tmp_path / "run", *options, "--", *command], timeout=100, env=env
        )
        assert done.returncode == status, done.stderr
        return weft.open(tmp_path / "run")

    return made


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile tagged.c for an MPI, by gcc or clang."""
    folder = tmp_path_factory.mktemp("tagged")

    def compiled(mpi: Installed, compiler: str = "gcc", *flags: str) -> Path:
        need(compiler)
        target = folder / "-".join((mpi.name, compiler, *flags))
        chosen = {"MPICH_CC": compiler, "OMPI_CC": compiler}
        done = execute([mpi.mpicc, "-g", "-O1", "-fopenmp", *flags, "-o", target, PROGRAMS / "tagged.c"], env=chosen)
        assert done.returncode == 0, done.stderr
        return target

    return compiled


def tasks_by_tag(rank: Rank) -> dict[int, set[int]]:
    """For each tag the numbers of the tasks that sent, received and waited with it."""
    found: dict[int, set[int]] = defaultdict(set)
    for event in rank:
        name = event.function.name.removesuffix("_c")
        if name in ("MPI_Send", "MPI_Irecv", "MPI_Recv", "MPI_Mprobe") or (name == "MPI_Wait" and event.status):
            tag = event.status.tag if name == "MPI_Wait" and event.status else event.args["tag"]
            found[tag].add(event.task.id if event.task else 0)
    return found


def one(numbers: set[int]) -> int:
    """The only number."""
    [number] = numbers
    return number


def held_against_tags(rank: Rank, n: int) -> None:
    """The tasks of tagged.c: the same number wherever the program was in the same task, and no other."""
    by_tag = tasks_by_tag(rank)
    assert rank.tasks is not None
    tasks = {task.id: task for task in rank.tasks}
    seen = set()
    for k in range(n):
        base = 10000 + 10 * k
        parent = one(by_tag[base] | by_tag[base + 4] | by_tag[base + 5])
        first, second = one(by_tag[base + 1]), one(by_tag[base + 2] | by_tag[base + 3])
        assert tasks[first].parent == tasks[second].parent == parent
        made = [tasks[task].site.line for task in (parent, first, second)]
        pragmas = [line(f"// {text}", "tagged.c") for text in ("parent", "first child", "second child")]
        assert all(abs(a - b) <= 1 for a, b in zip(made, pragmas, strict=True)), made
        assert {tasks[task].kind for task in (parent, first, second)} == {TaskKind.EXPLICIT}
        seen |= {parent, first, second}
    assert len(seen) == 3 * n and 0 not in seen
    for i in range(3):
        assert tasks[one(by_tag[100 + i] | by_tag[200 + i])].kind == TaskKind.IMPLICIT
    assert tasks[one(by_tag[1] | by_tag[2])].kind == TaskKind.INITIAL
    assert all(task.kind != TaskKind.EXPLICIT for id_, task in tasks.items() if id_ not in seen)


def known_and_never_wrong(rank: Rank, n: int) -> int:
    """How many tasks of tagged.c are known by some call of theirs; none has another's number, and none has two."""
    by_tag = tasks_by_tag(rank)
    owners: dict[int, tuple[int, int]] = {}
    for k in range(n):
        for which, offsets in enumerate(((0, 4, 5), (1,), (2, 3))):
            numbers = set().union(*(by_tag[10000 + 10 * k + offset] for offset in offsets)) - {0}
            assert len(numbers) <= 1, (k, which, numbers)
            for number in numbers:
                assert owners.setdefault(number, (k, which)) == (k, which)
    return len(owners)


FULL = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int fallocate(int fd, int mode, off_t offset, off_t length) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n > 6 && !strncmp(path + n - 6, ".tasks", 6) && offset + length > 80000)
        return errno = ENOSPC, -1;
    return ((int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate"))(fd, mode, offset, length);
}
"""


@needs_llvm
@pytest.mark.timeout(300)
def test_where_the_disk_is_full_later_calls_are_of_no_known_task_and_none_of_a_wrong_one(
    run: Run, tagged: Callable[..., Path], mpich: Installed, tmp_path: Path
) -> None:
    (tmp_path / "full.c").write_text(FULL)
    made = execute(["gcc", "-shared", "-fPIC", "-o", tmp_path / "full.so", tmp_path / "full.c"])
    assert made.returncode == 0, made.stderr
    trace = run(tagged(mpich), "500", env={"LD_PRELOAD": str(tmp_path / "full.so")})
    for rank in trace.ranks:
        assert 100 < known_and_never_wrong(rank, 500) < 1500
    assert "stopped recording tasks" in " ".join(trace.problems)


@pytest.mark.cases(1)
@needs_llvm
@pytest.mark.timeout(300)
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_each_call_is_of_the_openmp_task_that_the_program_made_it_in(
    run: Run, tagged: Callable[..., Path], mpich: Installed, compiler: str
) -> None:
    trace = run(tagged(mpich, compiler), "40")
    for rank in trace.ranks:
        held_against_tags(rank, 40)
    assert trace.problems == []


@pytest.mark.matrix
@needs_llvm
@pytest.mark.timeout(300)
def test_the_same_with_open_mpi(run: Run, tagged: Callable[..., Path], openmpi: Installed) -> None:
    trace = run(tagged(openmpi), "10", env=openmpi.environment)
    for rank in trace.ranks:
        held_against_tags(rank, 10)


@needs_llvm
@pytest.mark.timeout(300)
def test_no_call_is_given_to_a_wrong_task_where_untied_tasks_change_threads(
    run: Run, tagged: Callable[..., Path], mpich: Installed
) -> None:
    trace = run(tagged(mpich, clang(), "-DUNTIED"), "60")
    known = sum(known_and_never_wrong(rank, 60) for rank in trace.ranks)
    assert known >= 0.9 * 2 * 60 * 3


@needs_llvm
@pytest.mark.timeout(300)
def test_a_hang_is_told_with_the_task_that_stands_in_it(
    run: Run, tagged: Callable[..., Path], mpich: Installed, weft_command: Callable[..., Any]
) -> None:
    trace = run(tagged(mpich), "2", "hang", status=3)
    report = weft_command("report", trace.path).stdout
    made = line("// the last", "tagged.c")
    assert any(f"tagged.c:{at}; each waits" in report.replace("\n", " ") for at in (made, made + 1)), report
    assert "in task " in report or "in tasks made at" in report  # the two may have different numbers
    rows = [
        json.loads(row)
        for row in weft_command("dump", trace.path, "--where", "is:open", "--format", "json").stdout.splitlines()
    ]
    assert [row["task"]["kind"] for row in rows] == ["explicit"] * 2
    number = rows[0]["task"]["id"]
    chosen = weft_command("dump", trace.path, "--where", f"task:{number} rank:0 fn:Send", "--format", "json").stdout
    assert [json.loads(row)["args"]["tag"] for row in chosen.splitlines()] == [300]


@pytest.mark.matrix
@needs_llvm
@pytest.mark.timeout(300)
def test_a_kill_loses_no_task_of_a_call(run: Run, tagged: Callable[..., Path], mpich: Installed) -> None:
    trace = run(tagged(mpich), "20", "kill", status=9)
    for rank in trace.ranks:
        by_tag = tasks_by_tag(rank)
        assert rank.tasks is not None
        last = rank.tasks.get(one(by_tag[300]))
        assert last is not None and last.kind == TaskKind.EXPLICIT
        assert one(by_tag[10000] | by_tag[10004] | by_tag[10005]) not in (0, last.id)
    waiting = trace.ranks[1].event(len(trace.ranks[1]) - 1)
    assert waiting.open and waiting.task == trace.ranks[1].tasks.get(one(tasks_by_tag(trace.ranks[1])[300]))  # type: ignore[union-attr]
    assert trace.problems == []


@pytest.mark.matrix
@pytest.mark.timeout(300)
@pytest.mark.parametrize("which", ["mpich", "openmpi"])
def test_each_call_is_of_the_asyncio_task_that_the_program_made_it_in(
    run: Run, request: pytest.FixtureRequest, which: str
) -> None:
    mpi: Installed = request.getfixturevalue(which)
    n = 30
    trace = run(str(mpi.python), PROGRAMS / "spoken.py", str(n), env=mpi.environment)
    hold_together(trace, n)


def hold_together(trace: Trace, n: int) -> None:
    """Each call of spoken.py is of its task."""
    for rank in trace.ranks:
        by_tag = tasks_by_tag(rank)
        assert rank.tasks is not None and rank.tasks.runtime == "asyncio"
        tasks = {task.id: task for task in rank.tasks}
        main = one(by_tag[1000] | by_tag[1001])
        seen = {main}
        for k in range(n):
            base = 10000 + 10 * k
            parent = one(by_tag[base] | by_tag[base + 3] | by_tag[base + 4] | by_tag[base + 7])
            child, grouped = one(by_tag[base + 1] | by_tag[base + 2]), one(by_tag[base + 5] | by_tag[base + 6])
            assert tasks[parent].parent == main and tasks[child].parent == tasks[grouped].parent == parent
            assert [tasks[task].name for task in (parent, child, grouped)] == [f"parent {k}", f"child of {k}", ""]
            places = [
                line(text, "spoken.py") for text in ("create_task(parent(k)", "first = asyncio", "group.create_task")
            ]
            assert [tasks[task].site.line for task in (parent, child, grouped)] == places
            assert by_tag[50000 + k] == {0}
            seen |= {parent, child, grouped}
        assert len(seen) == 3 * n + 1 and seen == set(tasks)
        assert by_tag[1] | by_tag[2] == {0}
    assert trace.problems == []


def speaks(python: str) -> bool:
    """Whether a Python of 3.14 has mpi4py."""
    asked = "import importlib.util as of, sys; sys.exit(sys.version_info < (3, 14) or of.find_spec('mpi4py') is None)"
    return execute([python, "-c", asked]).returncode == 0


NEW = [python for python in pythons() if python != sys.executable and speaks(python)]
new = pytest.mark.skipif(not NEW, reason="there is no python3.14 with mpi4py here, on the PATH or in WEFT_PYTHONS")


@new
@pytest.mark.timeout(300)
def test_each_call_is_of_its_asyncio_task_in_python_3_14(run: Run) -> None:
    hold_together(run(NEW[0], PROGRAMS / "spoken.py", "30"), 30)


@new
@pytest.mark.timeout(300)
def test_the_step_with_which_a_task_begins_eagerly_is_nobodys_in_python_3_14(run: Run) -> None:
    trace = run(NEW[0], PROGRAMS / "eagerly.py")
    for rank in trace.ranks:
        by_tag = tasks_by_tag(rank)
        assert rank.tasks is not None
        names = {task.id: task.name for task in rank.tasks}
        assert [by_tag[tag] for tag in (0, 10, 4)] == [{0}, {0}, {0}]
        assert names[one(by_tag[11])] == "eager"
        main = one(by_tag[1])
        assert main not in (0, one(by_tag[11]))
        assert by_tag[2] == by_tag[3] == {main}


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_a_hung_asyncio_task_is_told_by_its_name(run: Run, mpich: Installed, weft_command: Callable[..., Any]) -> None:
    trace = run(sys.executable, PROGRAMS / "spoken.py", "1", "hang", status=3)
    made = line('name="last"', "spoken.py")
    report = weft_command("report", trace.path).stdout
    assert f"(last), made at spoken.py:{made};" in report, report


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_without_the_option_nothing_of_it_is_there(
    run: Run, mpich: Installed, weft_command: Callable[..., Any]
) -> None:
    trace = run(sys.executable, PROGRAMS / "spoken.py", "1", options=())
    assert not (trace.path / "tasks").exists() and "tasks" not in read_facts(trace.path)
    assert trace.ranks[0].tasks is None and trace.ranks[0].event(5).task is None
    assert " task " not in weft_command("dump", trace.path).stdout.splitlines()[0]


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_a_program_without_tasks_notices_nothing(
    tmp_path: Path, mpich: Installed, weft_command: Callable[..., Any]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.customised = True\n")
    program = tmp_path / "plain.py"
    program.write_text(
        "import os, subprocess, sys\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
        "left = [p for p in sys.path if 'inprocess' in p]\n"
        "print(sys.customised, os.environ['PYTHONPATH'], left, 'asyncio' in sys.modules)\n"
        "child = 'import asyncio; asyncio.run(asyncio.sleep(0)); print(7)'\n"
        "subprocess.run([sys.executable, '-c', child], check=True)\n"
    )
    told = weft_command("run", "--out", "run", "--tasks", "--", sys.executable, program,
                        env={"PYTHONPATH": str(tmp_path)}, timeout=100)  # fmt: skip
    assert told.returncode == 0 and "nothing found" in told.stderr and "Error" not in told.stderr, told.stderr
    assert told.stdout.splitlines() == [f"True {tmp_path} [] False", "7"]
    assert not (tmp_path / "run" / "tasks").exists()


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_a_signal_that_ends_the_run_tells_the_task_of_each_open_call(
    tmp_path: Path, mpich: Installed, tagged: Callable[..., Path]
) -> None:
    program = tmp_path / "waits.py"
    program.write_text(
        "import asyncio, time\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
        "async def stand():\n    comm.recv(source=0, tag=1) if comm.rank else time.sleep(100)\n"
        "async def main():\n    await asyncio.create_task(stand(), name='standing')\nasyncio.run(main())\n"
    )
    command = [*WEFT, "run", "-n", "2", "--out", "run", "--tasks", "--", sys.executable, str(program)]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    try:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            time.sleep(0.5)
            if (tmp_path / "run" / "ranks").exists() and any(
                rank.tasks is not None and len(rank) and rank.event(len(rank) - 1).open
                for rank in weft.open(tmp_path / "run").ranks
            ):
                break
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert "waits.py:5 in task 2 (standing), made at waits.py:7" in told, told


def test_wrong_use_is_said_before_the_program_is_started(
    tmp_path: Path, mpich: Installed, weft_command: Callable[..., Any], tagged: Callable[..., Path]
) -> None:
    refused = weft_command("run", "--tasks", "--level", "outcomes", "--", sys.executable, "-c", "print(1)")
    assert refused.returncode == 2 and "--tasks needs --level trace" in refused.stderr and not refused.stdout


def test_where_no_runtime_tells_of_tasks_that_is_said_first(
    monkeypatch: pytest.MonkeyPatch, mpich: Installed, tagged: Callable[..., Path], tmp_path: Path
) -> None:
    from weft.errors import UsageError
    from weft.tasks import runtime

    monkeypatch.setattr(runtime, "find_runtimes", lambda: iter(()))
    with pytest.raises(UsageError, match="no OpenMP runtime with OMPT here"):
        runtime.recording_environment([[str(tagged(mpich))]], tmp_path)
