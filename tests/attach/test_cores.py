"""Core files: the stacks of ranks that have ended are those that they had, and what cannot be read is told."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from attach.jobs import PROGRAMS, Told, compiled, needs_py_spy, once, running, where
from tests_support import WEFT, Installed, execute
from weft.attach import cores
from weft.attach.core_stacks import demangle_cython, explain_unreadable_core, merge_frames, number_cores
from weft.attach.model import Frame
from weft.errors import UsageError
from weft.trace.sites import CallSite

pytestmark = pytest.mark.needs("gdb", "gcore")
PYTHON = "/usr/lib/libpython3.11.so.1.0"


def seen(files: Sequence[Path], *options: str) -> Told:
    """What `weft attach --core` sees."""
    done = execute([*WEFT, "attach", "--format", "json", *options, "--core", *files])
    assert not done.stderr, done.stderr
    told: Told = json.loads(done.stdout)
    return told


def dumped(told: Told, folder: Path) -> list[Path]:
    """Core files of all ranks that were seen."""
    for one in told["ranks"]:
        done = execute(["gcore", "-o", folder / "core", str(one["pid"])])
        assert done.returncode == 0, done.stderr
    return [folder / f"core.{one['pid']}" for one in told["ranks"]]


@pytest.fixture(scope="module")
def job(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, list[Path], Path]:
    """What was seen of a job that hangs, its core files, and its program."""
    folder = tmp_path_factory.mktemp("cores")
    program = compiled(mpich, "hang.c", folder)
    with running(mpich, 4, [program, "recv", "go"], folder) as launched:
        told = once(lambda told: where(told) == {"MPI_Barrier": [0, 3], "MPI_Recv": [1], "": [2]}, launched.pid)
        return told, dumped(told, folder), program


@pytest.mark.matrix
def test_core_files_show_what_the_ranks_showed(job: tuple[Told, list[Path], Path]) -> None:
    alive, files, _ = job
    told = seen(list(reversed(files)))
    assert told["groups"] == alive["groups"]
    assert told["tree"] == alive["tree"]
    assert told["ended"] and not alive["ended"]
    stands = "all 4 are at the same place 1 s later"
    assert [line for line in alive["told"] if line != stands] == told["told"]


@pytest.mark.matrix
def test_ranks_without_a_core_file_are_named(job: tuple[Told, list[Path], Path]) -> None:
    told = seen([job[1][1]])
    assert told["missing"] == [0, 2, 3]
    assert "ranks 0, 2 and 3 of 4: no core file was given" in told["told"]


@pytest.mark.matrix
def test_a_program_that_lies_elsewhere_now_is_named(job: tuple[Told, list[Path], Path], tmp_path: Path) -> None:
    alive, files, program = job
    moved = program.rename(tmp_path / "elsewhere")
    try:
        told = seen(files)
        assert (
            f"ranks 0-3 could not be inspected: its program {program} is not on this host: name it with --program"
            in told["told"]
        )
        assert seen(files, "--program", str(moved))["tree"] == alive["tree"]
    finally:
        moved.rename(program)


def test_another_build_of_the_program_tells_no_lines(
    job: tuple[Told, list[Path], Path], mpich: Installed, tmp_path: Path
) -> None:
    other = compiled(mpich, "hang.c", tmp_path, "-DOTHER", "-O1")
    told = seen(job[1], "--program", str(other))
    assert not any(one["threads"] for one in told["ranks"])
    assert any("build ids differ" in line for line in told["told"])


@pytest.mark.parametrize("program", ["/bin/true\nshell touch {folder}/harmed", "-x {folder}/evil.py", "bin/true", ""])
def test_a_file_that_names_a_strange_program_does_nothing(
    job: tuple[Told, list[Path], Path], program: str, tmp_path: Path
) -> None:
    """The path of the program is the file's word, and gdb's commands are lines."""
    strange = replace(cores.read_core(job[1][1]), program=program.format(folder=tmp_path))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'harmed')!r}, 'w')\n")
    assert explain_unreadable_core(strange, strange.program)
    assert not (tmp_path / "harmed").exists()


def test_a_name_that_gdb_would_take_for_a_command_is_refused(
    job: tuple[Told, list[Path], Path], tmp_path: Path
) -> None:
    core = tmp_path / f"core\nshell touch {'harmed'}"
    shutil.copy(job[1][1], core)
    (line,) = [line for line in seen([core])["told"] if "could not be inspected" in line]
    assert "not printable" in line
    spaced = tmp_path / 'a core\'s "own" \\ place'
    spaced.mkdir()
    files = [Path(shutil.copy(file, spaced)) for file in job[1]]
    program = Path(shutil.copy(job[2], spaced))
    told = seen(files, "--program", str(program))
    assert told["groups"] == job[0]["groups"], told["told"]


def test_two_files_of_one_rank_are_refused(job: tuple[Told, list[Path], Path]) -> None:
    core = cores.read_core(job[1][1])
    with pytest.raises(UsageError, match="both come from rank 1"):
        number_cores([core, core])


def test_what_is_no_core_file_is_told_with_the_remedy(tmp_path: Path, job: tuple[Told, list[Path], Path]) -> None:
    packed = tmp_path / "core.gz"
    packed.write_bytes(gzip.compress(b"core"))
    with pytest.raises(UsageError, match="compressed with gzip: decompress it"):
        cores.read_core(packed)
    for file in (job[2], PROGRAMS / "hang.c"):
        with pytest.raises(UsageError, match="not a core file"):
            cores.read_core(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a file"):
        cores.read_core(tmp_path / "pipe")
    with pytest.raises(UsageError, match="No such file"):
        cores.read_core(tmp_path / "none")


@pytest.mark.matrix
def test_a_damaged_file_is_told_or_read_and_never_more(job: tuple[Told, list[Path], Path], tmp_path: Path) -> None:
    whole = bytearray(job[1][0].read_bytes())
    chance = random.Random(1)
    table, count = int.from_bytes(whole[32:40], "little"), int.from_bytes(whole[56:58], "little")
    for number in range(120):
        damaged = bytearray(whole[: 1 << 16] if number % 3 else whole)
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(64) if number % 2 else table + chance.randrange(56 * count)
            damaged[min(at, len(damaged) - 1)] = chance.randrange(256)
        tried(tmp_path / "core", damaged)
    fields = [(32, 8), (40, 8), (54, 2), (56, 2)]
    fields += [(table + 56 * header + at, 8) for header in range(count) for at in (8, 16, 32)]
    for at, size in fields:
        for value in (b"\xff", b"\x00"):
            damaged = bytearray(whole[: 1 << 20])
            damaged[at : at + size] = value * size
            tried(tmp_path / "core", damaged)


def tried(file: Path, held: bytes) -> None:
    """Read a file, which may be told to be damaged."""
    file.write_bytes(held)
    try:
        cores.read_core(file)
    except UsageError as error:
        assert str(file) in str(error)


def writes_here() -> bool:
    """Whether the system writes a core file into the directory of a program."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return bool(pattern) and not pattern.startswith(("|", "/"))


@pytest.mark.cases(1)
@pytest.mark.skipif(not writes_here(), reason="the system does not write core files beside the program")
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_python_s_lines_and_native_functions_are_one_stack(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs_py_spy()
    of: Installed = request.getfixturevalue(which)
    rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
    begin = f'ulimit -c unlimited; mkdir r{rank}; cd r{rank}; exec "$@"'
    with running(of, 3, ["sh", "-c", begin, "sh", of.python or "", PROGRAMS / "hang.py"], tmp_path) as launched:
        alive = once(lambda told: where(told) == {"Barrier": [0, 2], "recv": [1]}, launched.pid)
        ranks = [one["pid"] for one in alive["ranks"]]
        above = [int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in ranks]
        try:
            for pid in {*above, launched.pid}:  # which would end the others while they write
                os.kill(pid, signal.SIGSTOP)
            for pid in ranks:
                os.kill(pid, signal.SIGABRT)
            limit = time.monotonic() + 60
            while any(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" for pid in ranks):
                assert time.monotonic() < limit
                time.sleep(0.05)
        finally:
            for pid in {*above, launched.pid}:
                os.kill(pid, signal.SIGKILL)
    told = seen([next((tmp_path / f"r{number}").glob("core*")) for number in range(3)])
    assert told["groups"] == alive["groups"]
    assert "rank 1 is in recv from 2 (tag 7) at hang.py:12 exchange, not with the others" in told["told"]
    ends = [line for line in told["told"] if "ended by SIGABRT" in line]
    assert ends == ["ranks 0-2 ended by SIGABRT from another process"] or which == "openmpi", ends  # it raises it anew
    assert ends
    cut = tmp_path / "cut"
    whole = next((tmp_path / "r1").glob("core*")).read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    told = seen([cut])["told"]
    assert any(": the core file is cut short" in line for line in told)
    assert (
        "Weft numbered these ranks itself, because not every core file contains its rank" in told
    )  # it stood in the other half


def frame(function: str | None, module: str) -> Frame:
    return Frame(CallSite(None, 0, function, module))


def line(function: str) -> Frame:
    return Frame(CallSite("/a/a.py", 1, function, None), True)


def test_lines_stand_where_the_interpreter_evaluates_them() -> None:
    evaluates = frame("_PyEval_EvalFrameDefault", PYTHON)
    native = [
        frame("compare", "/a/ext.so"), frame("vectorcall", PYTHON), evaluates, frame("call", PYTHON),
        frame("sort", "/a/ext.so"), evaluates, frame("Py_RunMain", PYTHON), frame("_start", "/bin/python3.11"),
    ]  # fmt: skip
    lines = [(line("key"), True), (line("inner"), False), (line("outer"), False), (line("<module>"), True)]
    assert [one.site.function for one in merge_frames(native, lines)] == [
        "compare",
        "key",
        "sort",
        "inner",
        "outer",
        "<module>",
    ]
    assert [one.site.function for one in merge_frames(native[:2], lines[:1])] == ["compare", "key"]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("__pyx_pw_6mpi4py_3MPI_4Comm_207Barrier", "Barrier"),
        ("__pyx_pw_6mpi4py_3MPI_9Intracomm_7Barrier", "Barrier"),
        ("__pyx_pf_6mpi4py_3MPI_8Datatype_42Create_f90_integer", "Create_f90_integer"),
        ("__pyx_f_6mpi4py_3MPI_PyMPI_recv", "PyMPI_recv"),
        ("__pyx_tp_new_6mpi4py_3MPI_Comm", "__pyx_tp_new_6mpi4py_3MPI_Comm"),
        ("PMPI_Barrier", "PMPI_Barrier"),
    ],
)
def test_a_method_of_cython_s_has_its_own_name(symbol: str, name: str) -> None:
    assert demangle_cython(frame(symbol, "/a/mpi4py/MPI.so")).site.function == name


CRASH = """#include <pthread.h>
static void *work(void *where) {
  return (void *)(long)*(int *)where;
}
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); return pthread_join(t, 0); }
"""


@pytest.mark.skipif(not writes_here(), reason="the system does not write core files beside the program")
def test_the_thread_that_the_signal_came_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "crash.c").write_text(CRASH)
    assert execute(["gcc", "-g", "-o", tmp_path / "crash", tmp_path / "crash.c", "-lpthread"]).returncode == 0
    assert execute(["sh", "-c", "ulimit -c unlimited; exec ./crash"], cwd=tmp_path).returncode == -signal.SIGSEGV
    [core] = tmp_path.glob("core*")
    assert "rank 0 ended by SIGSEGV at crash.c:3 work" in seen([core])["told"]
