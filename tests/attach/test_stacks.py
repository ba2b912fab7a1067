"""Stacks are parted, merged and told: on stacks that were written down."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests_support import execute
from weft.attach import calls, picture, rank_stacks, reader, sentences, tree
from weft.attach.model import Argument, Call, Frame, Job, RankStacks, Thread
from weft.attach.python import parse_frames
from weft.trace.sites import CallSite


def frame(
    function: str, file: str | None = None, line: int = 0, module: str = "/a/prog", python: bool = False
) -> Frame:
    return Frame(CallSite(file, line, function, module), python)


def seen(rank: int, *functions: str, call: Call | None = None, later: bool = False) -> RankStacks:
    stack = tuple(frame(name, "/a/a.c", 10 + i) for i, name in enumerate(functions))
    thread = Thread(rank, stack, call)
    return RankStacks(rank, 1000 + rank, "host", "prog", [thread], [thread] if later else [])


BARRIER = Call("MPI_Barrier")
RECEIVE = Call("MPI_Recv", "", (Argument("source", "next", "18"), Argument("tag", "7")), world=True)


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("MPI_Recv", "MPI_Recv"),
        ("PMPI_Recv_c", "MPI_Recv"),
        ("mpi_recv__", "MPI_Recv"),
        ("pmpi_recv_", "MPI_Recv"),
        ("mpi_recv_f08ts_", "MPI_Recv"),
        ("ompi_recv_f", None),
        ("mpi_exchange_", None),
        ("main", None),
    ],
)
def test_functions_of_mpi_are_known_by_their_symbols(symbol: str, function: str | None) -> None:
    assert calls.canonical_name(symbol) == function


def test_a_stack_is_parted_at_the_outermost_function_of_mpi() -> None:
    inner = [
        frame("poll", module="/lib/libucp.so.0"), frame("PMPI_Barrier", module="/lib/libmpi.so.12"),
        frame("MPIR_Finalize", module="/lib/libmpi.so.12"), frame("PMPI_Finalize", module="/lib/libmpi.so.12"),
    ]  # fmt: skip
    frames = [*inner, frame("end", "/a/a.c", 3), frame("main", "/a/a.c", 9), frame("__libc_start_call_main")]
    own, name, inside = calls.split_stack(frames)
    assert [one.site.function for one in own] == ["main", "end"]
    assert name == "MPI_Finalize"
    assert inside == tuple(reversed(inner))


def test_a_function_of_mpi_without_a_name_is_one_all_the_same() -> None:
    inner = [frame("sched_yield", module="/lib/libc.so.6"), Frame(CallSite(None, 0, None, "/lib/libmpi.so.12"))]
    own, name, inside = calls.split_stack([*inner, frame("main", "/a/a.c", 9), frame("_start")])
    assert ([one.site.function for one in own], name) == (["main"], calls.UNNAMED)
    assert inside == tuple(reversed(inner))


def test_a_program_of_which_nothing_is_known_is_in_mpi_all_the_same() -> None:
    stack = [Frame(CallSite(None, 0, None, "/lib/libmpi.so.12")), Frame(CallSite(None, 0, None, "/a/prog"))]
    own, name, _ = calls.split_stack([*stack, frame("__libc_start_call_main", module="/lib/libc.so.6")])
    assert (own, name) == ((), calls.UNNAMED)


def test_a_thread_of_mpi_s_library_is_idle() -> None:
    own, name, _ = calls.split_stack([Frame(CallSite(None, 0, None, "/lib/libopen-pal.so.80")), frame("start_thread")])
    assert calls.is_library_thread(own, name)
    assert not calls.is_library_thread((frame("work", "/a/a.c", 3),), name)


@pytest.mark.parametrize(
    ("module", "of_mpi"),
    [
        ("/usr/lib/libmpi.so.12", True),
        ("/v/site-packages/mpi4py/MPI.mpich.cpython-311-x86_64-linux-gnu.so", True),
        ("/home/me/mpi4py/demo/prog", False),
        ("/home/me/libmpi-tests/prog", False),
    ],
)
def test_what_is_a_library_of_mpi_is_told_by_its_own_name(module: str, *, of_mpi: bool) -> None:
    assert calls.is_mpi(frame("f", module=module)) is of_mpi


def test_a_library_between_program_and_mpi_is_the_program_s() -> None:
    frames = [
        frame("MPI_Send", module="/lib/libmpi.so"),
        frame("MatAssembly", module="/lib/libpetsc.so"),
        frame("main"),
    ]
    assert [one.site.function for one in calls.split_stack(frames)[0]] == ["main", "MatAssembly"]


def test_arguments_are_those_of_the_line(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text(
        "int x;\n  MPI_Sendrecv(a, n(2, 3), MPI_INT, right, 1,\n     b, n, MPI_INT, left->rank, 2, comm, &s);\n"
    )
    found = calls.find_argument_texts("MPI_Sendrecv", CallSite(str(source), 2, "f"))
    assert found == [("dest", "right"), ("sendtag", "1"), ("source", "left->rank"), ("recvtag", "2"), ("comm", "comm")]
    assert calls.find_argument_texts("MPI_Recv", CallSite(str(source), 2, "f")) == []


def test_a_source_that_was_changed_after_the_build_gives_no_arguments(tmp_path: Path) -> None:
    built, source = tmp_path / "a.out", tmp_path / "a.c"
    built.touch()
    source.write_text("MPI_Recv(a, 1, MPI_INT, from, 7, MPI_COMM_WORLD, &s);\n")
    assert calls.find_argument_texts("MPI_Recv", CallSite(str(source), 1, "f", str(built))) == []


@pytest.mark.parametrize("text", ["from", "rank + 1", "box->left", "peers[i]", "(rank + 1) % size", "*p"])
def test_expressions_without_effects_are_evaluated(text: str) -> None:
    assert calls.is_safe_to_evaluate(text)


@pytest.mark.parametrize("text", ["next(rank)", "i++", "--i", "a = 3", "a ? b : c", "kill (0)"])
def test_nothing_of_the_program_is_called_or_changed(text: str) -> None:
    assert not calls.is_safe_to_evaluate(text)


def test_arguments_of_mpi4py_are_numbers_where_its_variables_are(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("comm = MPI.COMM_WORLD\ndata = comm.recv(None, (rank + 1) % size, tag=self.tag)\n")
    at = Frame(CallSite(str(source), 2, "f"), True, (("rank", "3"), ("size", "4")))
    call = calls.describe_python_call("MPI_Mprobe", at, "recv")
    assert call.text == "recv(source=(rank + 1) % size: 0, tag=self.tag) in MPI_Mprobe"
    assert call.world
    source.write_text("comm = MPI.COMM_WORLD\ncomm = comm.Split(1)\ncomm.recv()\n")
    assert not calls.describe_python_call("MPI_Mprobe", Frame(CallSite(str(source), 3, "f"), True), "recv").world


def test_the_tree_has_what_is_common_once_and_each_fork_with_its_ranks() -> None:
    ranks = [seen(rank, "main", "step", call=BARRIER) for rank in range(64) if rank != 17]
    ranks.append(seen(17, "main", "step", call=RECEIVE))
    assert tree.render_tree(tree.merge_stacks(ranks)) == [
        "[0-63]",
        "  main at a.c:10",
        "  step at a.c:11",
        "  [0-16 and 18-63]",
        "    MPI_Barrier()",
        "  [17]",
        "    MPI_Recv(source=next: 18, tag=7)",
    ]


def test_a_file_whose_name_has_a_space_keeps_it_in_the_tree() -> None:
    assert tree.frame_text(frame("go", "/a/my prog.py", 3)) == "go at my prog.py:3"
    assert tree.frame_text(frame("", "/a/my prog.py", 3)) == "? at my prog.py:3"


def test_what_only_starts_a_python_program_is_left_out() -> None:
    said = [("go", "/a/prog.py"), ("<module>", "/a/prog.py"), ("_run_code", "<frozen runpy>"),
            ("main", "/lib/weft/watchdogs/__main__.py"), ("_run_module_as_main", "<frozen runpy>")]  # fmt: skip
    told = [{"name": name, "filename": file, "line": 1, "module": None, "locals": None} for name, file in said]
    assert [frame.site.function for frame in parse_frames(told)] == ["go", "<module>"]


def test_code_that_nobody_knows_is_not_python_s() -> None:
    told = [
        {"name": "uct_progress", "filename": "", "line": 0, "module": "/lib/libuct.so.0"},
        {"name": "0x7f0000000010", "filename": "", "line": 0, "module": None},
        {"name": "run", "filename": "/a/a.py", "line": 3, "module": None},
    ]
    own, name, inside = calls.split_stack(parse_frames([{**one, "locals": []} for one in told]))
    assert ([one.site.function for one in own], name) == (["run"], calls.UNNAMED)
    assert rank_stacks.describe_call(name or "", own, inside, 0.0) == Call(calls.UNNAMED)


def test_the_odd_rank_is_named_with_whom_it_names() -> None:
    ranks = [seen(rank, "main", call=BARRIER, later=True) for rank in range(64) if rank != 17]
    ranks.append(seen(17, "main", call=RECEIVE, later=True))
    assert sentences.describe_job(Job(64, 1.0, ranks)) == [
        "63 ranks (0-16 and 18-63) are in MPI_Barrier at a.c:10 main",
        "rank 17 is in MPI_Recv from 18 (tag 7) at a.c:10 main, not with the others",
        "rank 17 names rank 18, which is in MPI_Barrier at a.c:10 main",
        "all 64 are at the same place 1 s later",
    ]


def test_where_no_place_has_most_ranks_none_is_odd() -> None:
    ranks = [seen(0, "main", call=BARRIER), seen(1, "main", call=RECEIVE)]
    assert not any(group.odd for group in sentences.group_ranks(ranks))


def test_a_rank_of_another_communicator_is_not_taken_for_the_job_s() -> None:
    other = Call("MPI_Recv", "", RECEIVE.arguments, world=False)
    ranks = [seen(17, "main", call=other), seen(18, "main", call=BARRIER)]
    assert list(sentences.describe_waits(Job(2, 0, ranks))) == []


def test_what_is_seen_comes_back_from_its_json() -> None:
    one = seen(17, "main", "step", call=RECEIVE, later=True)
    assert RankStacks.from_dict(one.as_dict()) == one


def test_who_comes_first_does_so_for_a_moment_and_alone() -> None:
    lines = (
        "import os, subprocess, sys", "from weft.attach.priority import raised_priority",
        "told = [sys.executable, '-c', 'import os; print(os.sched_getscheduler(0))']",
        "with raised_priority():",
        "    print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, flush=True)",
        "    subprocess.run(told)",
        "print(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)",
    )  # fmt: skip
    done = execute([sys.executable, "-c", "\n".join(lines)])
    assert not done.stderr, done.stderr
    during, started, after = map(int, done.stdout.split())
    assert (started, after) == (os.SCHED_OTHER, os.SCHED_OTHER)
    assert during in (os.SCHED_RR, os.SCHED_OTHER)  # who is not root may not


def test_a_reader_whose_answer_nobody_reads_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "gdb"
    fake.write_text(
        f"#!{sys.executable}\nimport os, re, sys\n"
        "asked, answering = map(int, re.search(r'weft_serve\\((\\d+), (\\d+)\\)', sys.argv[-1]).groups())\n"
        "try:\n    os.write(answering, b'x' * 2**20)\nexcept OSError:\n    pass\n"
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(KeyboardInterrupt), reader.started_readers([1]):
        raise KeyboardInterrupt


def test_the_picture_has_each_branch_once_and_shows_who_is_not_with_the_others() -> None:
    ranks = [*(seen(rank, "main", "step", call=BARRIER) for rank in range(5)), seen(5, "main", "<step>", call=RECEIVE)]
    drawn = picture.draw_tree(Job(6, 0.0, ranks))
    assert drawn.count("main at a.c:10") == 2  # the box, and its tip
    assert "MPI_Recv(source=next: 18, tag=7)" in drawn
    assert "&lt;step&gt; at a.c:11" in drawn
    assert "<step>" not in drawn
    boxes = re.findall(r'<rect class="(line|trouble)"', drawn)
    assert boxes == ["line", "line", "trouble"]
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def test_a_picture_of_many_ranks_stays_small() -> None:
    ranks = [seen(rank, "main", f"work{rank % 3}", call=BARRIER) for rank in range(0, 9000, 2)]
    drawn = picture.draw_tree(Job(9000, 0.0, ranks))
    assert len(re.findall(r'<rect class="(?:line|trouble)"', drawn)) == 4
    assert ">0, 2, 4, 6, 8, 10 and 4494 more<" in drawn


def test_a_picture_of_nothing_says_why() -> None:
    nothing = Job(1, 0.0, [RankStacks(0, 7, "host", "prog", problem="it ended before its stack was read")])
    assert "it ended before its stack was read" in picture.draw_tree(nothing)


def test_a_rank_that_is_named_twice_is_told_once() -> None:
    arguments = (Argument("dest", "next", "1"), Argument("source", "next", "1"))
    ranks = [seen(0, "main", call=Call("MPI_Sendrecv", "", arguments, world=True)), seen(1, "main", call=BARRIER)]
    assert len(list(sentences.describe_waits(Job(2, 0.0, ranks)))) == 1
