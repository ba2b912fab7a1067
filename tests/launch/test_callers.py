"""The way to a call: programs wrap MPI, so the line of a call is told with those that led there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import weft
from tests_support import Installed, execute
from weft.replay.points import resolve_location
from weft.trace import Event

C = """\
#include <mpi.h>
#include <pthread.h>
#define APART __attribute__((noinline, noclone))
static volatile int kept;
APART static void wrapper(void) { MPI_Barrier(MPI_COMM_SELF); kept++; }
APART static void first(void) { wrapper(); kept++; }
APART static void second(void) { wrapper(); kept += 2; }
static inline __attribute__((always_inline)) void inlined(void) { wrapper(); kept++; }
APART static void third(void) { inlined(); kept += 3; }
APART static void deep(int n) { if (n) deep(n - 1); else wrapper(); kept++; }
static void *thread(void *unused) { (void)unused; second(); return NULL; }
int main(int argc, char **argv) {
    int provided;
    pthread_t other;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    first();
    second();
    first();
    third();
    for (int n = 0; n < 100; n++) deep(n);
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    MPI_Finalize();
    return 0;
}
"""

PYTHON = """\
from mpi4py import MPI

class Comm:
    def meet(self):
        MPI.COMM_SELF.Barrier()

def first(c): c.meet()
def second(c): c.meet()

first(Comm())
second(Comm())
first(Comm())
"""


def barriers(run: Path) -> list[Event]:
    return [event for event in weft.open(run).ranks[0] if event.function.name == "MPI_Barrier"]


def way(event: Event) -> list[str]:
    assert event.site.function
    return [event.site.function.split(".")[-1], *(str(caller.function) for caller in event.site.callers)]


@pytest.mark.cases(1)
@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_each_way_to_a_wrapper_is_told(
    flags: str, tmp_path: Path, mpich: Installed, weft_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "ways.c").write_text(C)
    built = execute([mpich.mpicc, "-g", flags, "-pthread", "-o", tmp_path / "ways", tmp_path / "ways.c"])
    assert built.returncode == 0, built.stderr
    done = weft_command("run", "--out", "run", "--", *mpich.mpiexec, "-n", "1", "./ways", env=mpich.environment)
    assert done.returncode == 0, done.stderr
    events = barriers(tmp_path / "run")
    assert [way(e) for e in events[:4]] == [
        ["wrapper", "first", "main"], ["wrapper", "second", "main"], ["wrapper", "first", "main"],
        ["wrapper", "inlined", "third", "main"],
    ]  # fmt: skip
    assert [e.site.callers[-1].line for e in events[:4]] == [16, 17, 18, 19]
    assert events[0].site_id != events[2].site_id  # another line of main
    assert [len(e.site.callers) for e in events[4:7]] == [2, 3, 4]
    assert len({e.site_id for e in events[4:104]}) == 6  # as deep as is looked at
    assert way(events[104])[:3] == ["wrapper", "second", "thread"]


def test_python_tells_each_way_too(
    tmp_path: Path, mpich: Installed, weft_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "ways.py").write_text(PYTHON)
    words = [*mpich.mpiexec, "-n", "1", str(mpich.python), "ways.py"]
    done = weft_command("run", "--out", "run", "--", *words, env=mpich.environment)
    assert done.returncode == 0, done.stderr
    events = barriers(tmp_path / "run")
    assert [way(e) for e in events] == [
        ["meet", "first", "<module>"], ["meet", "second", "<module>"], ["meet", "first", "<module>"]
    ]  # fmt: skip
    assert [[c.line for c in e.site.callers] for e in events] == [[7, 10], [8, 11], [7, 12]]


@pytest.mark.matrix
def test_a_line_or_function_on_the_way_names_the_calls_through_it(
    tmp_path: Path, mpich: Installed, weft_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "ways.py").write_text(PYTHON)
    words = [*mpich.mpiexec, "-n", "1", str(mpich.python), "ways.py"]
    assert weft_command("run", "--out", "run", "--", *words, env=mpich.environment).returncode == 0
    shown = weft_command("dump", "run", "--where", "site:second", "--format", "json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [row["function"] for row in rows] == ["MPI_Barrier"]
    assert [c["function"] for c in rows[0]["site"]["callers"]] == ["second", "<module>"]
    trace = weft.open(tmp_path / "run")
    for place, line in (("ways.py:7#2", 12), ("second", 11)):
        ((rank, index),) = resolve_location(trace, place, list)
        assert trace.event(rank, index).site.callers[-1].line == line
