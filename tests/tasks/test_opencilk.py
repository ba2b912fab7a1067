"""Programs of OpenCilk over gdb: the hand-compiled ones of its runtime, or, without that, what needs none."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.opencilk import HANDS, compiled, library, stolen

from weft.cilk.opencilk import code, layout
from weft.errors import UsageError
from weft.tasks import session
from weft.tasks.runtime import require_followable_program

HERE = os.environ.get("OPENCILK_ROOT")
needs_opencilk = pytest.mark.skipif(
    not HERE, reason="no built runtime of OpenCilk here (OPENCILK_ROOT names one: tests/evidence/tasks.md)"
)

LISTING = """\
0000000000003d60 <fib>:
    3f18:\tlea    0x37b(%rip),%rcx        # 429a <fib+0x53a>
    3f44:\tlea    0x11(%rip),%rax        # 5000 <other+0x10>
    4032:\tcall   5657 <__cilkrts_sync>
    429a:\tmov    $0x1,%eax

00000000000042d0 <fib_spawn_helper>:
    4677:\tcall   b590 <Cilk_exception_handler@plt>

0000000000004700 <__cilkrts_leave_frame_helper>:
    4777:\tcall   b590 <Cilk_exception_handler>
"""


def test_the_code_says_where_frames_are_resumed_and_what_helpers_are() -> None:
    """An address within the function itself; the runtime's own functions, linked statically, are none of the
    program's."""
    assert code.parse_functions(LISTING) == [
        code.CompiledFunction("fib", 0x3D60, 0x429A, ((0x429A, 0x3F18),), False),
        code.CompiledFunction("fib_spawn_helper", 0x42D0, 0x4677, (), True),
        code.CompiledFunction("__cilkrts_leave_frame_helper", 0x4700, 0x4777, (), False),
    ]


def test_a_resumption_has_the_line_of_the_program_not_the_runtimes() -> None:
    told = ["0x3f18", "__cilk_sync_nothrow", "/rt/x/../cilk2c_inlined.c:196", "fib", "/home/fib.c:58:5"]
    chains = dict(code._parse_inline_chains(told))
    made = code.ProgramCode(code.parse_functions(LISTING), 0x3D60, chains)
    made.loaded(0x3D60 + 0x1000)
    found = made.resumption_at(0x529A)
    assert found is not None
    assert found.at is not None
    assert (found.at.file, found.at.line, found.sync) == ("/home/fib.c", 58, True)
    assert made.resumption_at(0x529B) is None
    assert made.folder == "/rt"


def test_a_program_for_cilk_plus_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "prog"
    program.write_bytes(b"\x7fELF libcilkrts.so.5\0")
    with pytest.raises(UsageError, match=r"Cilk Plus.*--as-openmp"):
        require_followable_program(program)


def at(answer: dict[str, Any]) -> tuple[str, int | None, str, int]:
    """Why, whose, in which function, at which line."""
    where = answer["at"]
    return answer["why"], answer["task"], where["function"], where["line"]


@pytest.fixture(scope="module")
def fib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hand-compiled fib."""
    return compiled("fib", tmp_path_factory.mktemp("opencilk"))


@needs_opencilk
def test_python_and_the_runtime_have_the_same_layout(fib: Path) -> None:
    """Each offset that is used, and what stands in each descriptor."""
    asked = {
        f"(long)&((struct {kind} *)0)->{theirs.get(name, name)}": offset
        for kind, fields, theirs in (
            ("__cilkrts_worker", layout.WORKER, {"global": "g", "local": "l"}),
            ("Closure", {k: v for k, v in layout.CLOSURE.items() if k != "status"}, {}),
            ("global_state", layout.GLOBAL, {}),
            ("ReadyDeque", {"bottom": layout.DEQUE["bottom"]}, {}),
            ("local_state", {"state": layout.STATE}, {}),
        )
        for name, offset in fields.items()
    }
    asked |= {"sizeof(struct ReadyDeque)": layout.DEQUE["size"], "frame_magic": layout.MAGIC, "WORKER_RUN": layout.RUNS}
    asked["sizeof(struct __cilkrts_stack_frame)"] = layout.FRAME.itemsize
    commands = [word for text in asked for word in ("-ex", f"output (long)({text})", "-ex", "echo \\n")]
    done = subprocess.run(["gdb", "-nx", "-q", "-batch", *commands, str(fib)], capture_output=True, text=True,
                          check=True, timeout=60)  # fmt: skip
    assert [int(line) for line in done.stdout.split()] == list(asked.values())
    assert library(Path(str(HERE))).is_file()


@needs_opencilk
def test_one_worker_has_a_chain_of_tasks_in_its_deque(fib: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each below the next; switched to, one goes on at its own next line; then it is joined, and the result right."""
    monkeypatch.setenv("CILK_NWORKERS", "1")
    with session([str(fib), "5"]) as s:
        assert at(s.first)[:3] == ("start", 1, "main")
        s.do("break fib")
        for _ in range(3):
            s.do("continue")
        rows = s.do("tasks")["tasks"]
        assert [(r["id"], r["parent"], r["state"], r["at"]["line"], r["beneath"]) for r in rows] == [
            (1, None, "middle", 52, 0), (2, 1, "middle", 52, 1), (3, 2, "top", 41, 2),
        ]  # fmt: skip
        assert [r["wait"] and r["wait"]["kind"] for r in rows] == ["deque", "deque", None]
        told = s.do("where")
        assert [frame["function"] for frame in told["frames"]] == ["fib", "fib_spawn_helper"]
        assert [(spawn["task"], spawn["at"]["line"]) for spawn in told["spawns"]] == [(2, 52), (1, 52)]
        assert [(r["depth"], r["id"]) for r in s.do("tasks --tree")["tasks"]] == [(0, 1), (1, 2), (2, 3)]
        s.do("delete")
        s.do("name 2 second")
        s.do("task second")
        assert s.do("print n")["value"] == "4"
        assert at(s.do("next")) == ("line", 2, "fib", 55)
        assert s.do("print x")["value"] == "2"
        assert at(s.do("finish")) == ("line", 2, "fib_spawn_helper", 72)
        assert at(s.do("finish")) == ("joined", 1, "fib", 59)
        assert s.do("print x")["value"] == "3"
        assert s.do("continue")["why"] == "ended"
        assert "Result: 5\n" in s.output()


@needs_opencilk
def test_a_child_is_followed_into_its_helper_and_joined(fib: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CILK_NWORKERS", "2")
    with session([str(fib), "10"]) as s:
        s.do("tbreak fib.c:52")
        s.do("continue")
        s.do("follow child")
        why, child, function, line = at(s.do("next"))
        assert (why, function, line) == ("line", "fib_spawn_helper", 72)
        row = next(row for row in s.do("tasks")["tasks"] if row["id"] == child)
        assert (row["parent"], row["state"]) == (1, "top")
        s.do("follow parent")
        assert at(s.do("next")) == ("line", child, "fib_spawn_helper", 73)
        assert at(s.do("next")) == ("joined", 1, "fib", 59)
        assert (s.do("print x")["value"], s.do("print y")["value"]) == ("34", "21")
        assert s.do("continue")["why"] == "ended"
        assert "Result: 55\n" in s.output()


@needs_opencilk
def test_a_breakpoint_stops_each_call_on_every_worker(fib: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fib(6) has 25 calls."""
    monkeypatch.setenv("CILK_NWORKERS", "2")
    with session([str(fib), "6"]) as s:
        s.do("break fib")
        stops = []
        while (stop := s.do("continue"))["why"] != "ended":
            stops.append(at(stop))
        assert re.search(r"Result: 8\b", s.output())
    assert len(stops) == 25
    assert {(why, function, line) for why, _, function, line in stops} == {("breakpoint", "fib", 41)}


@needs_opencilk
@pytest.mark.parametrize("hand", HANDS, ids=lambda hand: hand.name)
def test_next_goes_on_where_the_continuation_was_stolen(
    hand: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines and variables of one task, over spawns and a sync; the program's own result."""
    monkeypatch.setenv("CILK_NWORKERS", "2")
    seen, right, wrong, ends = stolen(hand, compiled(hand.name, tmp_path), 3)
    assert seen > 0
    assert (right, wrong, ends) == (seen, 0, 0)
