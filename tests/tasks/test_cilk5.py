"""Programs in Cilk-5: compiled by a Cilk-5 that is here, or, without one, what needs none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.cilk.cilk5 import build, layout, variables
from weft.errors import DebuggerError, UsageError
from weft.tasks import Session, openmp, session

PROGRAMS = Path(__file__).parent / "programs"
HERE = os.environ.get("CILK_ROOT") or shutil.which("cilkc")
needs_cilk = pytest.mark.skipif(not HERE, reason="no Cilk-5 here (`make cilk5` builds it; then set CILK_ROOT)")
needs_gcc = pytest.mark.needs("gcc")

FIB = """\
struct _cilk_fib_frame{CilkStackFrame header;struct{int n;}scope0;struct{int x;char name[12];int(*f)(int);}scope1;};\
struct _cilk_fib_args{int n;};\
static void _cilk_fib_slow(CilkWorkerState*const _cilk_ws,struct _cilk_fib_frame*_cilk_frame);
# 28
int fib     (CilkWorkerState*const _cilk_ws,int n){struct _cilk_fib_frame*_cilk_frame;CILK2C_INIT_FRAME(_cilk_frame,1);
{_cilk_frame->scope0.n=n;_cilk_frame->scope1.x=x;}
}
static void _cilk_fib_slow(CilkWorkerState*const _cilk_ws,struct _cilk_fib_frame*_cilk_frame){int n;int lost;
{_cilk_frame->scope0.n=n;if (0) {_cilk_sync1:n=_cilk_frame->scope0.n;}}
{if (0) {_cilk_sync2:;}}
}
"""


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shadow header and Weft's part, with a stand-in for Cilk-5 that has one clone of each kind."""
    target = tmp_path_factory.mktemp("cilk") / "stand"
    native = build.NATIVE
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", f"-I{native / 'header'}", f"-I{native}",
         f"-I{PROGRAMS / 'cilk5'}", str(PROGRAMS / "cilk5/stand.c"), str(native / "weft-cilk.c"), "-o", str(target),
         "-ldl"],
        check=True, timeout=60,
    )  # fmt: skip
    return target


def said(program: Path, *arguments: str) -> list[str]:
    """The lines that a program writes."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@needs_gcc
def test_python_and_c_have_the_same_record(stand: Path) -> None:
    """Offsets and sizes of both structures, and where the table begins."""
    told = [line.split() for line in said(stand, "layout")]
    expected = []
    for prefix, kind in (("", layout.RECORD), ("worker.", layout.WORKER)):
        assert kind.fields is not None
        expected += [[f"{prefix}{name}", str(at), str(field.itemsize)] for name, (field, at, *_) in kind.fields.items()]
    assert told == [*expected, ["table", str(layout.WATCH), str(layout.WORKERS)]]


@needs_gcc
def test_the_header_in_front_tells_who_has_a_frame(stand: Path) -> None:
    """A stolen frame is its thief's from the slow clone's begin, on the heap while it waits, and gone at its end."""
    assert said(stand) == [
        "in the child: 3 begun, 1 ended, top 3; thief: top 0, 0 taken",
        "came back 0",
        "lost: 3 begun, 2 ended, top 0; thief: top 0, 0 taken",
        "taken: 3 begun, 2 ended, top 0; thief: top 1, 1 taken",
        "waits: 3 begun, 2 ended, top 0; thief: top 0, 1 taken",
        "taken: 3 begun, 2 ended, top 0; thief: top 1, 2 taken",
        "thief: top 0, 1 ended",
    ]


def test_a_record_is_put_into_each_frame() -> None:
    """And what cilk2c says of its procedures is known afterwards."""
    known = build.Procedures()
    made = build.add_task_records(FIB, known)
    assert made.count("CilkStackFrame header;struct weft_cilk_task weft;struct{int n;}scope0;") == 1
    assert made.replace("struct weft_cilk_task weft;", "") == FIB
    assert known.opened == {"fib": 28}
    assert known.scopes == {"fib": [(0, "n"), (1, "x"), (1, "name"), (1, "f")]}
    assert known.kept == {("fib", 1): {"n"}, ("fib", 2): frozenset()}
    assert known.saved == {"fib": {"n", "x"}}


def test_the_head_of_a_procedure_ends_with_its_parameters() -> None:
    known = build.Procedures()
    build.add_task_records(
        FIB.replace(
            "int fib     (CilkWorkerState*const _cilk_ws,int n)",
            "int\nfib (CilkWorkerState*const _cilk_ws,int n,\n  int m)",
        ),
        known,
    )
    assert known.opened == {"fib": 30}


def test_a_source_without_procedures_stays_as_it_is() -> None:
    """A library in C, in a file of Cilk."""
    known = build.Procedures()
    assert build.add_task_records("int rand(void) { return 4; }", known) == "int rand(void) { return 4; }"
    assert not known.scopes


def looked(text: str, *here: str, entry: int = 1, function: str = "_cilk_fib_slow") -> str:
    """What gdb is asked for, for an expression in a clone that has these variables of C."""
    known = build.Procedures()
    build.add_task_records(FIB, known)
    return variables.evaluate_in_procedure(
        text, variables.Cilk5Frame(function, here, entry), known, lambda words: f"<{words}>"
    )


def test_a_name_means_where_cilk2c_has_put_it() -> None:
    """In C's variables, or in the frame; fields of other things are left alone."""
    assert looked("n + x", "n") == "<n + _cilk_frame->scope1.x>"
    assert looked("p->x + q.x + x", "n") == "<p->x + q.x + _cilk_frame->scope1.x>"
    assert looked("n + x", "n", "x", function="fib") == "<n + x>"


def test_what_was_not_taken_back_is_said_to_be_old() -> None:
    """A variable that the slow clone needs no more has its last kept value, and one that was never kept has none."""
    told = looked("n", "n", entry=2)
    assert told.startswith("<_cilk_frame->scope0.n> (n: no longer used")
    with pytest.raises(DebuggerError, match="name has no value any more: another worker took up the task"):
        looked("name", "name", entry=2)


def test_functions_have_the_names_of_the_source() -> None:
    """A slow clone is its procedure, an inlet's copies are the inlet, main is main."""
    names = {"seek", "seek_far", "cilk_main"}
    copies = "seek", "_cilk_seek_slow", "_cilk_seek_far_got_inlet_slow"
    assert [variables.name_in_source(copy, names) for copy in copies] == ["seek", "seek", "got"]
    assert (
        variables.name_in_source("cilk_main", names)
        == variables.name_in_source("_cilk_cilk_main_slow", names)
        == "main"
    )
    assert variables.name_in_source("_cilk_other_slow", names) == "other"


def test_sources_end_where_the_arguments_begin(tmp_path: Path) -> None:
    """All leading words that are sources are compiled together."""
    one, two = tmp_path / "one.cilk", tmp_path / "two.c"
    for path in (one, two):
        path.touch()
    assert build.split_command([str(one), str(two), "--nproc", "2", "x.c"]) == ([one, two], ["--nproc", "2", "x.c"])
    with pytest.raises(UsageError, match=r"none\.cilk: there is no such file"):
        build.split_command([str(one), "none.cilk"])


def test_without_cilk_5_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """None at all, and half of one."""
    monkeypatch.delenv("CILK_ROOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"need Cilk-5.*CILK_ROOT.*make cilk5"):
        session([str(PROGRAMS / "fib.cilk")]).__enter__()
    monkeypatch.setenv("CILK_ROOT", str(tmp_path))
    with pytest.raises(UsageError, match="is not a Cilk-5: it has no cilk2c"):
        build.find_cilk()


@pytest.fixture
def stolen() -> Iterator[Session]:
    """A program with a steal in each round, of two workers."""
    with session([str(PROGRAMS / "stolen.cilk"), "--nproc", "2"]) as opened:
        yield opened


def at(answer: dict[str, Any]) -> tuple[str, int | None, str, int]:
    """Why, whose, in which function, at which line."""
    where = answer["at"]
    return answer["why"], answer["task"], where["function"], where["line"]


@needs_cilk
def test_next_goes_on_where_the_continuation_was_stolen(stolen: Session) -> None:
    """Over a spawn, over a sync whose children run elsewhere, over the end: the lines and variables of one task."""
    assert at(stolen.first) == ("start", 1, "main", 25)
    stolen.do("break 17")
    assert at(stolen.do("continue")) == ("breakpoint", 2, "pair", 17)
    workers = set()
    for line, text, value in ((18, "twice", "40"), (19, "x", "21"), (20, "x + y", "62")):
        assert at(stolen.do("next")) == ("line", 2, "pair", line)
        told = {row["id"]: row for row in stolen.do("tasks")["tasks"]}
        workers.add(told[2]["worker"])
        assert told[1]["state"] in ("heap", "middle")
        if line != 19:  # the first child's result is there at the sync, not before
            assert stolen.do(f"print {text}")["value"] == value
    assert len(workers) > 1, "nothing was stolen"
    assert at(stolen.do("next"))[:3] == ("joined", 1, "main")


@needs_cilk
def test_looks_at_a_program_that_is_silent_lose_no_line_of_a_stolen_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come every few steps of gdb's here: within a sync, at a clone's head, beside other stops."""
    monkeypatch.setattr(openmp, "LOOK", (0.015,))
    with session([str(PROGRAMS / "stolen.cilk"), "--nproc", "2", "25"]) as s:
        s.do("break 17")
        for _ in range(25):
            task, told = s.do("continue")["task"], list[Any]()
            while not told or (told[-1][0] == "line" and told[-1][3] < 20):
                stop = at(s.do("next"))
                if stop[0] != "breakpoint":  # it had not gone on from there when it was looked at
                    told.append(stop)
            assert told == [("line", task, "pair", line) for line in (18, 19, 20)]


@needs_cilk
def test_a_breakpoint_at_a_procedure_stops_each_call_on_every_worker() -> None:
    """fib(6) has 25 calls; a thief's stops while another worker is on its way were lost."""
    with session([str(PROGRAMS / "fib.cilk"), "--nproc", "2", "6"]) as s:
        s.do("break fib")
        stops = []
        while (stop := s.do("continue"))["why"] != "ended":
            stops.append(at(stop))
        assert s.output() == "Result: 8\n"
    assert len({task for _, task, _, _ in stops}) == len(stops) == 25
    assert {(why, function, line) for why, _, function, line in stops} == {("breakpoint", "fib", 8)}


@needs_cilk
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_breakpoint_at_a_procedure_is_behind_parameters_on_several_lines(workers: str) -> None:
    with session([str(PROGRAMS / "heads.cilk"), "--nproc", workers, "6"]) as s:
        s.do("break add")
        stops = []
        while (stop := s.do("continue"))["why"] != "ended":
            stops.append(at(stop))
        assert s.output() == "Result: 8\n"
    assert len({task for _, task, _, _ in stops}) == len(stops) == 25
    assert {(why, function, line) for why, _, function, line in stops} == {("breakpoint", "add", 12)}


@needs_cilk
def test_what_is_watched_in_a_procedure_is_told_until_it_returns() -> None:
    with session([str(PROGRAMS / "fib.cilk"), "--nproc", "1", "3"]) as s:
        s.do("tbreak fib.cilk:12")
        s.do("continue")
        s.do("watch x")
        told = []
        while (stop := s.do("continue"))["why"] != "ended":
            told.append(stop["text"])
    assert told[-2].endswith(" -> 1")
    assert told[-1] == "x is out of scope, and no longer watched"


@needs_cilk
def test_a_child_is_followed_and_joined(stolen: Session) -> None:
    """From the spawn into the child, with the chain of spawns, and from its end to the sync of who made it."""
    stolen.do("break 17")
    stolen.do("continue")
    stolen.do("follow child")
    child = stolen.do("next")
    assert at(child)[2:] == ("leaf", 9)
    told = stolen.do("where")
    assert [frame["function"] for frame in told["frames"]] == ["leaf"]
    assert [(spawn["task"], spawn["at"]["line"]) for spawn in told["spawns"]] == [(2, 17), (1, 28)]
    stolen.do("follow parent")
    assert at(stolen.do("next"))[2:] == ("leaf", 10)
    assert stolen.do("print n")["value"] == "20"
    why, task, function, line = at(stolen.do("next"))
    assert (why, task, function) == ("joined", 2, "pair")
    assert line in (19, 20)


@needs_cilk
def test_the_table_says_what_lies_in_deques_and_what_waits() -> None:
    """One worker: each task beneath another one can be taken; switched to, it goes on at its own next line."""
    with session([str(PROGRAMS / "fib.cilk"), "4"]) as s:
        s.do("break fib")
        for _ in range(3):
            s.do("continue")
        rows = s.do("tasks")["tasks"]
        assert [(row["id"], row["state"], row["at"]["line"]) for row in rows] == [
            (1, "middle", 23), (2, "middle", 12), (3, "middle", 12), (4, "top", 8),
        ]  # fmt: skip
        assert all(row["wait"]["kind"] == "deque" for row in rows[:-1])
        s.do("delete")
        s.do("task 2")
        assert at(s.do("next")) == ("line", 2, "fib", 13)
        assert s.do("print x")["value"] == "2"
        assert at(s.do("finish"))[:3] == ("joined", 1, "main")
        assert s.do("continue")["why"] == "ended"
        assert re.search("Result: 3", s.output())


@needs_cilk
def test_an_aborted_task_is_told_as_aborted() -> None:
    """What an inlet ends is followed to who made it, and that one has what was found."""
    with session([str(PROGRAMS / "sought.cilk"), "--nproc", "2"]) as s:
        s.do("break look")
        answers = [s.do("continue") for _ in range(3)]
        assert [answer["why"] for answer in answers] == ["breakpoint"] * 3
        s.do("delete")
        told = []
        while (answer := s.do("next"))["why"] != "ended" and answer["task"] != 2:
            told.append(answer)
        assert answer["why"] == "joined"
        assert re.fullmatch(r"task \d+ was aborted", answer["text"] or ""), (answer, told)
        assert s.do("print found")["value"] == "7"
        assert s.do("continue")["why"] == "ended"
        assert "found 7" in s.output()


@needs_cilk
def test_what_does_not_compile_is_told_in_the_compilers_words(tmp_path: Path) -> None:
    """And no folder is left behind."""
    broken = tmp_path / "broken.cilk"
    broken.write_text("cilk int f(int n) { return spawn g(n) }\n")
    with pytest.raises(UsageError, match=r"cilk2c cannot compile it:[\s\S]*broken\.cilk:1"):
        session([str(broken)]).__enter__()
