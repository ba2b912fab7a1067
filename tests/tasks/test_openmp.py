"""OpenMP's tasks: real programs under gdb, compiled by gcc, gfortran and clang, unchanged."""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from machine import need
from weft.errors import UsageError, WeftError
from weft.native.kernel import NATIVE as SHARED
from weft.tasks import Session, layout, session
from weft.tasks.model import Wait
from weft.tasks.runtime import build_tool, tool_environment

PROGRAMS = Path(__file__).parent / "programs"
NATIVE = Path(layout.__file__).parent / "native"
PARTS = ("tool.c", "turns.c", "holds.c", "switches.c")
TOOL = [f"-I{SHARED}", *(str(NATIVE / name) for name in PARTS), str(SHARED / "record.c")]
Build = Callable[..., Path]

HERE = Path(__file__).parent


def script(name: str) -> Any:
    """One of the scripts beside this file, as a module."""
    spec = importlib.util.spec_from_file_location(f"tasks_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


campaign, stops, switches = script("campaign"), script("stops"), script("switches")
clang, run_to, traced = campaign.clang, campaign.run_to, campaign.traced

pytestmark = pytest.mark.needs("gdb", "gcc", "OMPT")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile one of the test programs; skipped where the compiler is not there."""
    folder = tmp_path_factory.mktemp("omp")

    def make(name: str, compiler: str = "gcc", *options: str) -> Path:
        target = folder / "-".join((name, compiler, *options)).replace(".", "_")
        if not target.exists():
            need(compiler)
            command = [compiler, "-g", "-O0", "-fopenmp", *options, str(PROGRAMS / name), "-o", str(target)]
            subprocess.run(command, check=True, cwd=folder, timeout=60)
        return target

    return make


@pytest.mark.matrix
def test_an_untied_task_is_traced_from_thread_to_thread(build: Build) -> None:
    program = build("migrate.c", clang())
    moved = 0
    for turn in range(12):  # most runs change threads, a loaded machine's may not
        if moved and turn > 1:
            break
        with session([str(program)]) as s:
            lines, stop, workers = traced(s, "migrate.c:18")
            assert lines == campaign.UNTIED
            assert stop["why"] == "joined"
            assert s.do("continue")["why"] == "ended"
            assert s.output() == "r=17\n"
            moved += len(workers) > 1
    assert moved


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "compiler", "place", "expected"), [
    ("migrate.c", "gcc", "migrate.c:18", campaign.TIED["gcc"]),
    ("tied.f90", "gfortran", "tied.f90:9", campaign.TIED["gfortran"]),
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
    assert [line for why, line, _ in stops if why == "joined"] == [21, 44, 27]  # the region's last


@pytest.mark.matrix
@pytest.mark.parametrize("untied", [False, True])
def test_the_table_is_what_the_programs_own_log_says_at_random_stops(tmp_path: Path, untied: bool) -> None:
    if untied and shutil.which(clang()) is None:
        pytest.skip("there is no clang here")
    wrong, seen = stops.openmp(stops.build(tmp_path, untied=untied), 25, seed=os.getpid())
    assert wrong == []
    assert min(seen[what] for what in ("new", "parents", "states", "waits")) > 20, seen


@pytest.mark.matrix
def test_the_judge_of_stops_finds_a_table_that_is_wrong(tmp_path: Path) -> None:
    with session([str(stops.build(tmp_path, untied=False))]) as s:
        run_to(s, "leaves")
        rows, log = s.backend.tasks(), stops.Log(s.backend._gdb)  # type: ignore[attr-defined]
        assert stops.Judge(rows, log).wrong == []
        here = next(i for i, row in enumerate(rows) if row.id == s.debugger.focus)
        for change in ({"parent": 999}, {"state": "heap", "worker": None}, {"wait": Wait("taskwait", ())}):
            wrong = [*rows[:here], rows[here]._replace(**change), *rows[here + 1 :]]
            assert stops.Judge(wrong, log).wrong
        assert stops.Judge([*rows[:here], *rows[here + 1 :]], log).wrong


Shown = tuple[str, int | None, int | None, str | None]


def shown(s: Session) -> dict[int, Shown]:
    """State, parent, line of creation and kind of wait of each task."""
    return {row["id"]: (row["state"], row["parent"], (row["created"] or {}).get("line"),
                        row["wait"]["kind"] if row["wait"] else None) for row in s.do("tasks")["tasks"]}  # fmt: skip


@pytest.fixture(scope="module", params=["gcc", "clang"])
def constructs(request: pytest.FixtureRequest, build: Build) -> dict[str, tuple[int, dict[int, Shown], list[Any]]]:
    """The table at each construct of features.c: which task is there, the table, and who waits for whom."""
    program = build("features.c", clang() if request.param == "clang" else "gcc")
    found = {}
    with session([str(program)]) as s:
        s.do("break at")
        while (stop := s.do("continue"))["why"] == "breakpoint":
            name = s.do("print what")["value"].split('"')[1]
            found[name] = stop["task"], shown(s), s.do("waits")["waits"]
            assert s.do("waits")["deadlocks"] == []
        assert (stop["why"], s.output()) == ("ended", "sum 40\n")
    return found


Constructs = dict[str, tuple[int, dict[int, Shown], list[Any]]]


@pytest.mark.cases(1)
def test_a_taskgroup_waits_for_what_was_made_in_it_and_deeper(constructs: Constructs) -> None:
    here, rows, waits = constructs["taskgroup"]
    (group,) = [row for row in waits if row["wait"]["kind"] == "taskgroup"]
    inner = next(id_ for id_, row in rows.items() if row[2] == 34)
    assert rows[inner][1] not in rows  # its parent has ended
    assert set(group["wait"]["tasks"]) == {here, inner}
    assert group["state"] == "middle"


def test_a_taskloop_makes_tasks_at_its_line(constructs: Constructs) -> None:
    here, rows, _ = constructs["taskloop"]
    assert [row for row in rows.values() if row[2] == 47] == [("new", here, 47, None)] * 4


def test_a_task_with_a_dependence_waits_for_the_one_that_it_needs(constructs: Constructs) -> None:
    _, rows, waits = constructs["depend"]
    (row,) = [row for row in waits if row["wait"]["kind"] == "dependence"]
    assert (row["state"], row["created"]["line"]) == ("new", 63)
    assert [rows[task][2] for task in row["wait"]["tasks"]] == [57]


def test_tasks_with_priorities_are_told_as_others_are(constructs: Constructs) -> None:
    here, rows, _ = constructs["priority"]
    assert [row for row in rows.values() if row[0] == "new"] == [("new", here, 73, None), ("new", here, 75, None)]


@pytest.mark.parametrize(("name", "lines"), [("final", [100, 98]), ("undeferred", [112])])
def test_a_task_that_is_done_at_once_lies_on_who_made_it(constructs: Constructs, name: str, lines: list[int]) -> None:
    at, rows, _ = constructs[name]
    assert rows[at][0] == "top"
    for line in lines:
        assert rows[at][2] == line
        at = rows[at][1] or 0
        assert rows[at][0] == "middle"


def test_a_nested_region_is_of_the_task_that_opened_it(constructs: Constructs) -> None:
    at, rows, waits = constructs["nested"]
    inner = {id_ for id_, row in rows.items() if row[2] == 83}
    assert len(inner) == 2
    assert rows[at][1] in inner
    (opener,) = {rows[id_][1] for id_ in inner}
    assert opener is not None
    assert (rows[opener][0], rows[opener][2]) == ("middle", 122)
    for row in waits:
        if row["id"] in inner:  # its barrier is not that of the region around it
            assert at in row["wait"]["tasks"]
            assert set(row["wait"]["tasks"]) <= inner | {at}


@pytest.mark.matrix
def test_what_the_hot_paths_take_for_granted_is_true(build: Build, tmp_path: Path) -> None:
    checked = tmp_path / "checked.so"
    command = [
        "gcc",
        "-DWEFT_TASKS_CHECK",
        "-O2",
        "-fPIC",
        "-shared",
        *TOOL,
        "-o",
        str(checked),
        "-ldl",
    ]
    subprocess.run(command, check=True)
    environment = os.environ | tool_environment("") | {"OMP_TOOL_LIBRARIES": str(checked), "OMP_NUM_THREADS": "3"}
    kinds = [compiler for compiler in ("gcc", clang()) if shutil.which(compiler)]
    for program in [build(name, compiler) for name in ("features.c", "migrate.c", "three.c") for compiler in kinds]:
        subprocess.run([program], env=environment, check=True, timeout=30, stdout=subprocess.DEVNULL)


@pytest.mark.matrix
def test_a_detached_task_lies_on_the_heap_until_its_event(tmp_path: Path) -> None:
    if shutil.which(clang()) is None:
        pytest.skip("there is no clang here: gcc's detach is refused")
    source, program = tmp_path / "detached.c", tmp_path / "detached"
    source.write_text(DETACHED)
    subprocess.run([clang(), "-g", "-fopenmp", str(source), "-o", str(program)], check=True)
    with session([str(program)]) as s:
        run_to(s, "at")
        (row,) = s.do("tasks heap")["tasks"]
        assert (row["created"]["line"], row["wait"]["kind"]) == (12, "event")
        assert s.do("waits")["deadlocks"] == []
        run_to(s, "after")
        assert s.do("tasks heap")["tasks"] == []
        assert s.do("continue")["why"] == "ended"


DETACHED = """#include <omp.h>
#include <unistd.h>
static void at(void) {}
static void after(void) {}
int main(void) {
    omp_event_handle_t e;
    volatile int ran = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        int once = 1;
#pragma omp task detach(e) shared(ran)
        ran = once;
        while (!ran) usleep(500);
        usleep(20000);
        at();
        omp_fulfill_event(e);
#pragma omp taskwait
        after();
    }
    return 0;
}
"""


@pytest.mark.matrix
def test_where_crops_to_the_task_and_tells_its_spawns(build: Build) -> None:
    with session([str(build("three.c"))]) as s:
        run_to(s, "leaf")
        where = s.do("where")
        assert [(f["function"], f["line"]) for f in where["frames"]] == [("leaf", 5), ("middle", 16)]
        assert next(spawn["at"]["line"] for spawn in where["spawns"]) == 13
        assert s.do("print n")["value"] in ("10", "20")


@pytest.mark.matrix
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


# In a process of its own: that of the tests has other threads, and much for Python to collect at any moment.
TIMED = """
import sys, time
from weft.tasks import session
with session(sys.argv[1:]) as s:
    s.do("break reached")
    s.do("continue")
    begun = time.process_time()
    s.do("tasks")
    print(time.process_time() - begun)
"""


@pytest.mark.matrix
def test_the_table_of_many_tasks_comes_at_once_and_out_of_a_core_too(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMP_ENABLE_TASK_THROTTLING", "0")
    program = str(build("many.c"))
    timed = [sys.executable, "-c", TIMED, program, "20000"]
    assert float(subprocess.run(timed, capture_output=True, text=True, timeout=60, check=True).stdout) < 1
    with session([program, "20000"]) as s:
        run_to(s, "reached")
        rows = s.do("tasks")["tasks"]
        new = [row for row in rows if row["state"] == "new"]
        assert len(new) == 20000
        assert {(row["parent"], row["created"]["line"]) for row in new} == {(s.debugger.focus, 22)}
        s.backend._gdb.console(f"generate-core-file {tmp_path}/core")  # type: ignore[attr-defined]
        live = s.backend.tasks()
    core = (tmp_path / "core").rename(tmp_path / "a core's \\ file")  # a name is written to gdb by its version
    with session([program], core=core) as dead:
        assert dead.backend.tasks() == live
        with pytest.raises(UsageError, match="does not run"):
            dead.do("next")


@pytest.mark.cases(1)
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


@pytest.mark.cases(1)
@pytest.mark.parametrize(("how", "waits"), [
    ("crossed", {"mutex x": "both", "mutex y": "both"}),
    ("twice", {"mutex x": "both"}),
    ("mixed", {"mutex x": "lock_first", "lock z": "mutex_first"}),
])  # fmt: skip
def test_tasks_that_wait_for_mutexes_in_a_circle_are_a_deadlock(build: Build, how: str, waits: dict[str, str]) -> None:
    with session([str(build("mutexes.c")), how]) as s:
        stop = s.do("continue")
        assert stop["why"] == "deadlock"
        (found,) = s.do("waits")["deadlocks"]
        rows = {row["id"]: row for row in s.do("tasks")["tasks"]}
        seen = {f"{(wait := rows[task]['wait'])['kind']} {wait['what'] or ''}".strip(): rows[task]["at"]["function"]
                for task in found["tasks"]}  # fmt: skip
        assert seen == waits
        assert [rows[task]["wait"]["tasks"] for task in found["tasks"]] == [
            [other] for other in (*found["tasks"][1:], found["tasks"][0])
        ]


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["ordered", "limited"])
def test_tasks_that_take_mutexes_in_order_or_for_a_time_come_to_their_end(build: Build, how: str) -> None:
    with session([str(build("mutexes.c")), how]) as s:
        assert s.do("continue")["why"] == "ended"


def test_a_task_runs_until_it_comes_to_a_line_and_a_breakpoint_can_stop_once(build: Build) -> None:
    with session([str(build("mutexes.c")), "ordered"]) as s:
        s.do("tbreak both")
        first = s.do("continue")
        assert (first["why"], first["at"]["line"]) == ("breakpoint", 21)
        assert s.do("breakpoints")["breakpoints"] == []
        stop = s.do("until 25")
        assert (stop["task"], stop["at"]["line"]) == (first["task"], 25)
        assert s.do("breakpoints")["breakpoints"] == []
        assert s.do("continue")["why"] == "ended"


def test_a_program_whose_file_is_called_as_one_of_wefts_is_told_by_its_lines(tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "mutexes.c", tmp_path / "tool.c")
    subprocess.run(["gcc", "-g", "-O0", "-fopenmp", "tool.c", "-o", "tool"], check=True, cwd=tmp_path, timeout=60)
    with session([str(tmp_path / "tool"), "ordered"]) as s:
        s.do("tbreak both")
        s.do("continue")
        assert [frame["function"] for frame in s.do("where")["frames"]] == ["both", "work", "main"]
        assert s.do("next")["at"]["line"] == 22


@pytest.mark.matrix
def test_mutexes_of_c_plus_plus_are_told_at_the_programs_own_line(build: Build) -> None:
    with session([str(build("accounts.cpp", "g++", "-std=c++17"))]) as s:
        stop = s.do("continue")
        assert (stop["why"], stop["at"]["function"], stop["at"]["line"]) == ("deadlock", "move", 17)
        assert s.do("where")["frames"][0]["line"] == 17
        assert {"std::mutex::lock"} <= {frame["function"] for frame in s.do("where --all")["frames"]}


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_values_have_formats_and_references_those_of_what_they_refer_to(build: Build, compiler: str) -> None:
    with session(
        [
            str(
                build(
                    "accounts.cpp",
                    "g++" if compiler == "gcc" else clang().replace("clang", "clang++"),
                    "-std=c++17",
                    "-DFIXED",
                )
            )
        ]
    ) as s:
        s.do("break move")
        s.do("continue")
        n = s.do("print n")["value"]
        assert [s.do(f"print/{form} n + 30")["value"] for form in "xt"] == [f"{int(n) + 30:#x}", f"{int(n) + 30:b}"]
        assert s.do("print from.moves.size() * 2 + 1")["value"] == "1"
        assert "mutex = " in s.do("print to")["value"]
        assert not any(row["value"].startswith("@0x") for row in s.do("locals")["values"])
        with pytest.raises(UsageError, match="not a format"):
            s.do("print/q n")
        assert s.do("continue")["why"] in ("breakpoint", "ended")


@pytest.mark.matrix
def test_a_step_does_not_go_into_headers_of_the_system(build: Build) -> None:
    with session([str(build("accounts.cpp", "g++", "-std=c++17", "-DFIXED"))]) as s:
        s.do("break move")
        s.do("continue")
        s.do("delete")
        lines = [s.do("step")["at"] for _ in range(2)]
        assert [(Path(at["file"]).name, at["line"]) for at in lines] == [("accounts.cpp", 19), ("accounts.cpp", 20)]
        assert s.do("continue")["why"] == "ended"


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["crossed.c", "held.c"])
def test_the_corrected_twin_of_a_deadlock_runs_to_its_end(build: Build, name: str) -> None:
    with session([str(build(name, "gcc", "-DFIXED"))]) as s:
        assert s.do("continue")["why"] == "ended"


def test_a_running_process_is_looked_into_and_left_alone(build: Build) -> None:
    program = build("held.c")
    process = subprocess.Popen([program], env=os.environ | tool_environment(""))
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


def test_a_program_of_a_compiler_for_cilk_is_refused_with_another_way(tmp_path: Path) -> None:
    source, program = tmp_path / "cilk.c", tmp_path / "cilk"
    source.write_text(
        "int __cilkrts_enter_frame(void) { return 0; }\nint main(void) { return __cilkrts_enter_frame(); }\n"
    )
    subprocess.run(["gcc", str(source), "-o", str(program)], check=True, timeout=60)
    with pytest.raises(UsageError, match="--as-openmp"), session([str(program)]):
        pass


def test_a_program_without_openmp_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no shared OpenMP runtime"), session(["/bin/true"]):
        pass
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="neither"), session([str(script)]):
        pass


@pytest.mark.matrix
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
        "-pthread",
        "-o",
        str(tmp_path / "tool.so"),
    ]
    subprocess.run([*command, *TOOL], check=True)
    assert build_tool().is_file()
    exported = subprocess.run(["nm", "-D", build_tool()], capture_output=True, text=True, check=True).stdout
    assert "weft_tasks_signal" in exported


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", ["gcc", clang()])
def test_a_switch_to_a_task_that_lies_below_others_lands_on_its_next_line(tmp_path: Path, compiler: str) -> None:
    need(compiler)
    program, rng = switches.build(tmp_path, "buried", compiler), random.Random(os.getpid())
    seen = [switches.middle(program, "", rng) for _ in range(4)]
    assert [one for one in seen if one is not None and not one[0]] == []
    assert sum(one is not None for one in seen) > 1


@pytest.mark.matrix
def test_a_switch_to_a_task_on_the_heap_lands_on_its_next_line(tmp_path: Path) -> None:
    if shutil.which(clang()) is None:
        pytest.skip("there is no clang here")
    program, rng = switches.build(tmp_path, "heaped", clang()), random.Random(os.getpid())
    tries = (switches.heap(program, "", rng) for _ in range(60))
    seen = list(itertools.islice((one for one in tries if one is not None), 3))  # in some runs no task gave its place
    assert len(seen) == 3
    assert all(right for right, *_ in seen), seen


def test_a_program_whose_main_begins_with_its_region_stops_before_it(build: Build) -> None:
    with session([str(build("first.c"))]) as s:
        assert s.output() == ""
        assert s.do("next")["at"]["line"] == 7
        assert s.do("next")["why"] == "joined"
        assert s.do("continue")["why"] == "ended"
        assert s.output() == "in a task\n"


def test_after_the_programs_end_there_are_no_tasks_and_no_frames(build: Build) -> None:
    with session([str(build("first.c"))]) as s:
        assert s.do("continue")["why"] == "ended"
        assert s.do("tasks")["tasks"] == []
        assert s.do("waits")["waits"] == []
        for command in ("where", "print 1"):
            with pytest.raises(WeftError, match="has ended"):
                s.do(command)


@pytest.mark.matrix
def test_a_hook_that_comes_late_does_not_stop_a_continue(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may have read that its task is traced right before the debugger took that back."""
    with session([str(build("many.c")), "5"]) as s:
        run_to(s, "reached")
        backend: Any = s.debugger.backend
        for row in s.do("tasks new")["tasks"]:
            backend._set_trace_flags(backend._find_record(row["id"]), layout.RUNS)
        monkeypatch.setattr(backend, "_set_spawn_watch", lambda on: None)
        assert s.do("continue")["why"] == "ended"


@pytest.mark.matrix
def test_a_damaged_table_ends_no_console(build: Build) -> None:
    with session([str(build("three.c"))]) as s:
        s.do("break leaf")
        s.do("continue")
        gdb = s.debugger.backend._gdb
        tops = [int(word, 16) for word in re.findall(r"0x[0-9a-f]+", gdb.evaluate("weft_tasks.worker[0]", 1))]
        gdb.write(tops[0], (1 << 64) - 8, 8)  # a worker's top that is no address
        s.do("tasks")
        base = gdb.symbol_address("weft_tasks")
        gdb.write(base + layout.HEADER, (1 << 63) + 64, 8)  # a slab that is none
        with pytest.raises(WeftError, match=r"cannot be read|memory"):
            s.do("tasks")


def test_a_task_is_found_by_a_pointer_into_its_frames(build: Build) -> None:
    with session([str(build("buried.c"))]) as s:
        s.do("break deepest")
        s.do("continue")
        rows = [row["id"] for row in s.do("tasks middle")["tasks"] if row["at"] and row["at"]["line"] == 38]
        places = {}
        for id_ in rows[:6]:
            s.do(f"task {id_}")
            places[id_] = s.do("print &mine")["value"].split()[-1]
        assert len(places) > 2
        for id_, place in places.items():
            assert s.do(f"task (char *){place} + 2")["task"]["id"] == id_
        for text, why in (
            ("nosuch", 'No symbol "nosuch"'),
            ("&other_than", "No symbol"),
            ("(char *)8", "in no frame of a task"),
        ):
            with pytest.raises(UsageError, match=why):
                s.do(f"task {text}")
