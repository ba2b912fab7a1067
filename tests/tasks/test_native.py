"""OpenMP's tasks: real programs under gdb, compiled by gcc, gfortran and clang, unchanged."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.errors import UsageError, WeftError
from weft.tasks import Session, layout, session
from weft.tasks.runtime import runtimes, settings, tool

PROGRAMS = Path(__file__).parent / "programs"
NATIVE = Path(layout.__file__).parents[1] / "native" / "tasks"
Build = Callable[..., Path]

pytestmark = [
    pytest.mark.skipif(
        not shutil.which("gdb") or not shutil.which("gcc"), reason="gdb and gcc look into native programs"
    ),
    pytest.mark.skipif(next(runtimes(), None) is None, reason="no OpenMP runtime with OMPT here (apt install libomp5)"),
]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile one of the test programs; skipped where the compiler is not there."""
    folder = tmp_path_factory.mktemp("omp")

    def make(name: str, compiler: str = "gcc", *options: str) -> Path:
        target = folder / "-".join((name, compiler, *options)).replace(".", "_")
        if not target.exists():
            if shutil.which(compiler) is None:
                pytest.skip(f"there is no {compiler} here")
            command = [compiler, "-g", "-O0", "-fopenmp", *options, str(PROGRAMS / name), "-o", str(target)]
            subprocess.run(command, check=True, cwd=folder, timeout=60)
        return target

    return make


def clang() -> str:
    """clang by the name it has here."""
    return next((name for name in ("clang", "clang-19", "clang-16", "clang-14") if shutil.which(name)), "clang")


def run_to(s: Session, place: str) -> dict[str, Any]:
    """Run to a place that is then none any more."""
    s.do(f"break {place}")
    stop = s.do("continue")
    s.do("delete")
    return stop


def traced(s: Session, place: str) -> tuple[list[int], dict[str, Any], set[int]]:
    """The lines of one task from a place to its end, the stop after that, and the threads it ran on."""
    stop = run_to(s, place)
    task, lines, workers = stop["task"], [], set()
    while stop["task"] == task and stop["why"] in ("breakpoint", "line"):
        lines.append(stop["at"]["line"])
        workers.add(stop["worker"])
        stop = s.do("next")
    return lines, stop, workers


def test_an_untied_task_is_traced_from_thread_to_thread(build: Build) -> None:
    program = build("migrate.c", clang())
    moved = 0
    for turn in range(12):  # most runs change threads, a loaded machine's may not
        if moved and turn > 1:
            break
        with session([str(program)]) as s:
            lines, stop, workers = traced(s, "migrate.c:18")
            assert lines == [18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30]
            assert stop["why"] == "joined"
            assert s.do("continue")["why"] == "ended"
            assert s.output() == "r=17\n"
            moved += len(workers) > 1
    assert moved


@pytest.mark.parametrize(("name", "compiler", "place", "expected"), [
    ("migrate.c", "gcc", "migrate.c:18", [18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29]),
    ("tied.f90", "gfortran", "tied.f90:9", [9, 10]),
])  # fmt: skip
def test_a_tied_task_is_traced_to_its_end(
    build: Build, name: str, compiler: str, place: str, expected: list[int]
) -> None:
    with session([str(build(name, compiler))]) as s:
        lines, stop, _ = traced(s, place)
        assert (lines, stop["why"]) == (expected, "joined")


def test_the_child_is_followed_down_and_its_joins_up_again(build: Build) -> None:
    with session([str(build("three.c"))]) as s:
        s.do("follow child")
        stops = []
        while (stop := s.do("step"))["why"] != "ended":
            stops.append((stop["why"], stop["at"]["line"], stop["at"]["function"]))
        assert s.output() == "total 45\n"
    functions = [name for _, _, name in stops]
    order = [name for i, name in enumerate(functions) if i == 0 or functions[i - 1] != name]
    assert order == ["main", "middle", "leaf", "middle", "main"]
    assert [line for _, line, name in stops if name == "leaf"] == [5, 6, 7, 8, 9]
    assert [line for why, line, _ in stops if why == "joined"] == [21, 44]


def test_where_crops_to_the_task_and_tells_its_spawns(build: Build) -> None:
    with session([str(build("three.c"))]) as s:
        run_to(s, "leaf")
        where = s.do("where")
        assert [(f["function"], f["line"]) for f in where["frames"]] == [("leaf", 5), ("middle", 16)]
        assert next(spawn["at"]["line"] for spawn in where["spawns"]) == 13
        assert s.do("print n")["value"] in ("10", "20")


def test_a_task_that_has_not_begun_can_be_chosen_named_and_stepped(build: Build) -> None:
    with session([str(build("many.c")), "5"]) as s:
        run_to(s, "reached")
        new = s.do("tasks new")["tasks"]
        assert len(new) == 5
        s.do(f"name {new[2]['id']} third")
        s.do("task third")
        stop = s.do("next")
        assert (stop["label"], stop["at"]["line"]) == (f"task {new[2]['id']} (third)", 24)
        assert s.do("print i")["value"] == "2"


def test_the_table_of_many_tasks_comes_at_once_and_out_of_a_core_too(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMP_ENABLE_TASK_THROTTLING", "0")
    program = str(build("many.c"))
    with session([program, "20000"]) as s:
        run_to(s, "reached")
        begun = time.process_time()
        rows = s.do("tasks")["tasks"]
        assert time.process_time() - begun < 1
        new = [row for row in rows if row["state"] == "new"]
        assert len(new) == 20000
        assert {(row["parent"], row["created"]["line"]) for row in new} == {(s.debugger.focus, 22)}
        s.backend._gdb.console(f"generate-core-file {tmp_path}/core")  # type: ignore[attr-defined]
        live = s.backend.tasks()
    with session([program], core=tmp_path / "core") as dead:
        assert dead.backend.tasks() == live
        with pytest.raises(UsageError, match="does not run"):
            dead.do("next")


@pytest.mark.parametrize(("name", "kinds", "where"), [
    ("crossed.c", {"lock"}, {15}), ("held.c", {"lock", "taskwait"}, {16, 23}),
])  # fmt: skip
def test_a_deadlock_is_named_with_its_circle_and_lines(
    build: Build, name: str, kinds: set[str], where: set[int]
) -> None:
    with session([str(build(name))]) as s:
        stop = s.do("continue")
        assert stop["why"] == "deadlock"
        (found,) = s.do("waits")["deadlocks"]
        rows = {task["id"]: task for task in s.do("tasks")["tasks"]}
        assert {rows[task]["wait"]["kind"] for task in found["tasks"]} == kinds
        assert {site["line"] for site in found["sites"]} == where


@pytest.mark.parametrize("name", ["crossed.c", "held.c"])
def test_the_corrected_twin_of_a_deadlock_runs_to_its_end(build: Build, name: str) -> None:
    with session([str(build(name, "gcc", "-DFIXED"))]) as s:
        assert s.do("continue")["why"] == "ended"


def test_a_running_process_is_looked_into_and_left_alone(build: Build) -> None:
    program = build("held.c")
    process = subprocess.Popen([program], env=os.environ | settings(""))
    try:
        time.sleep(1)
        with session([], pid=process.pid) as s:
            assert len(s.do("waits")["deadlocks"]) == 1
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_process_without_the_tool_is_refused_with_the_remedy(build: Build) -> None:
    process = subprocess.Popen(["sleep", "30"])
    try:
        with pytest.raises(WeftError, match="weft tasks --environment"), session([], pid=process.pid):
            pass
    finally:
        process.kill()
        process.wait()


DETACH = """#include <omp.h>
int main(void) {
    omp_event_handle_t e;
#pragma omp parallel
#pragma omp single
#pragma omp task detach(e)
    omp_fulfill_event(e);
    return 0;
}
"""


def test_detach_of_gcc_is_refused_before_it_crashes(build: Build, tmp_path: Path) -> None:
    source = tmp_path / "detach.c"
    source.write_text(DETACH)
    program = tmp_path / "detach"
    subprocess.run(["gcc", "-g", "-fopenmp", str(source), "-o", str(program)], check=True)
    with pytest.raises(UsageError, match="detach"), session([str(program)]):
        pass


def test_a_program_without_openmp_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no shared OpenMP runtime"), session(["/bin/true"]):
        pass
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="neither"), session([str(script)]):
        pass


def test_the_layout_in_c_is_the_one_that_python_reads(tmp_path: Path) -> None:
    fields = [name for name in layout.RECORD.names if layout.RECORD.fields[name][1] < layout.SIZE]
    lines = "".join(f'printf("{name} %zu\\n", offsetof(task, {name}));' for name in fields)
    more = {"slabs": "offsetof(table, slabs)", "watch": "offsetof(table, watch)",
            "worker": "offsetof(table, worker)", "locks": "offsetof(table, locks)", "size": "sizeof(task)",
            "thread": "offsetof(worker, thread)"}  # fmt: skip
    lines += "".join(f'printf("+{name} %zu\\n", (size_t)({what}));' for name, what in more.items())
    source = tmp_path / "layout.c"
    start = '#include "table.h"\n#include <stddef.h>\n#include <stdio.h>\n'
    source.write_text(start + "int main(void) {" + lines + "}\n")
    subprocess.run(["gcc", "-I", str(NATIVE), str(source), "-o", str(tmp_path / "layout")], check=True)
    told = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout.split()
    seen = dict(zip(told[::2], map(int, told[1::2]), strict=True))
    assert {name: layout.RECORD.fields[name][1] for name in fields} == {n: v for n, v in seen.items() if n[0] != "+"}
    after = layout.HEADER + 8 * layout.SLABS
    assert [seen["+" + name] for name in more] == [
        layout.HEADER, layout.WATCH, after, after + 8 * layout.WORKERS, layout.SIZE, 24]  # fmt: skip


def test_the_tool_compiles_without_a_warning(tmp_path: Path) -> None:
    command = [
        "gcc",
        "-std=c11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fPIC",
        "-shared",
        "-o",
        str(tmp_path / "tool.so"),
    ]
    subprocess.run([*command, str(NATIVE / "tool.c")], check=True)
    assert tool().is_file()
    exported = subprocess.run(["nm", "-D", tool()], capture_output=True, text=True, check=True).stdout
    assert "weft_tasks_signal" in exported
