"""The prompt on native ranks: gdb looks into them, the record says where they stop."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from debug.conftest import PROGRAMS, Recorded
from machine import need
from tests_support import WEFT, execute
from weft.errors import DebuggerError
from weft.gdb.mi import Mi, quoted

pytestmark = pytest.mark.usefixtures("gdb")


def line(text: str, name: str = "cells.c") -> int:
    """The number of the only line of a program that holds a text."""
    [found] = [i for i, row in enumerate((PROGRAMS / name).read_text().splitlines(), 1) if text in row]
    return found


@pytest.mark.matrix
def test_a_script_shows_where_all_ranks_stand_and_what_they_hold(cells: Recorded) -> None:
    send, receive, barrier = line("MPI_Send(mine"), line("MPI_Recv(other"), line("MPI_Barrier")
    source, call = (PROGRAMS / "cells.c").read_text().splitlines(), line("mine, other, 1 - rank, 5, type")
    out = cells.debug("ranks", "next event @1", "where 0", "print mine[0].id", "print other[0].id @0-1", "continue")
    assert out == (
        "(weft) ranks\n"
        f"  rank 0  before event 7: send(dest=1, tag=5) at cells.c:{send}\n"
        f"  rank 1  before event 7: send(dest=0, tag=5) at cells.c:{send}\n"
        f"  rank 2  before event 7: barrier at cells.c:{barrier}\n"
        "(weft) next event @1\n"
        f"  rank 0  before event 7: send(dest=1, tag=5) at cells.c:{send}\n"
        f"  rank 1  before event 8: recv(source=0, tag=5) at cells.c:{receive}\n"
        f"  rank 2  before event 7: barrier at cells.c:{barrier}\n"
        "(weft) where 0\n"
        f"  rank 0  before event 7: send(dest=1, tag=5) at cells.c:{send}\n"
        f"          #0 cells.c:{send} in exchange  {source[send - 1].strip()}\n"
        f"          #1 cells.c:{call} in main  exchange(mine, other, 1 - rank, 5, type);\n"
        "(weft) print mine[0].id\n"
        "  rank 0  1\n  rank 1  11\n  rank 2  21\n"
        "(weft) print other[0].id @0-1\n"
        f"{values(out, '(weft) print other[0].id @0-1')}"
        "(weft) continue\n"
        f"  rank 0  waiting in event 11: recv(source=1, tag=7) at cells.c:{receive}\n"
        f"  rank 1  waiting in event 11: recv(source=0, tag=8) at cells.c:{receive}\n"
        f"  rank 2  waiting in event 7: barrier at cells.c:{barrier}\n"
    )


def values(out: str, command: str) -> str:
    """What a command printed (where it is not ours to foresee: uninitialised memory)."""
    return out.partition(command + "\n")[2].partition("(weft)")[0]


def test_a_message_is_decoded_by_its_datatype(cells: Recorded) -> None:
    out = cells.debug("message 0:7", "message 0:9", "message 1:10", "message 2:7")
    assert "from rank 0 to rank 1, tag 5, world: 2 x datatype 1, 40 bytes\n" in out
    assert "  holds     1 0.5 2.0 2 3.0 4.0\n" in out  # a struct, resized
    assert "  holds     1.0 5.0 9.0\n" in out  # a column
    assert "  received  never, in this record\n" in out
    assert "  holds     11 1.5 2.0 12 3.0 4.0\n" in out
    assert "neither sends nor receives a message" in out


@pytest.mark.matrix
def test_a_breakpoint_stops_all_ranks_at_the_same_place_every_time(cells: Recorded) -> None:
    number = line("if (rank == 0) MPI_Send")
    outs = {cells.debug(f"break 0:cells.c:{number}", "continue", "print rank") for _ in range(2)}
    [out] = outs
    # Rank 0 has not sent the column, so that rank 1 gets no further than its receive.
    assert f"rank 0  before event 9: send(dest=1, tag=6) at cells.c:{number}" in out
    assert f"rank 1  waiting in event 9: recv(source=0, tag=6) at cells.c:{number + 1}" in out
    assert "rank 2  waiting in event 7: barrier" in out


def test_steps_go_line_by_line_through_calls_of_mpi(cells: Recorded) -> None:
    number = line("MPI_Send(mine")
    value = "print other[0].x[0] @0"  # elsewhere it may be uninitialised
    out = cells.debug("next", value, "next", value, "step", "prev event", "prev event")
    assert f"rank 0  at cells.c:{number + 1} in exchange" in out
    assert out.count("  rank 0  1.5\n") == 1  # after the receive, not before
    tail = out.partition("(weft) step\n")[2]
    assert f"rank 0  at cells.c:{line('if (rank == 0) MPI_Send')} in main" in tail
    assert f"rank 0  before event 7: send(dest=1, tag=5) at cells.c:{number}" in tail.split("(weft) prev event\n")[2]


@pytest.mark.matrix
def test_until_runs_no_more_than_what_has_to_happen(cells: Recorded) -> None:
    out = cells.debug("until 1:9", "until 0:8", "until finding:1")
    first, second, third = out.split("(weft) until ")[1:]
    assert "rank 1  before event 9" in first and "rank 0  before event 8" in first
    assert "rank 0  before event 8" in second and "rank 1  before event 9" in second  # it needs no more
    assert "rank 0  before event 11" in third and "rank 1  before event 11" in third


def test_until_stops_at_a_breakpoint_on_the_way(cells: Recorded) -> None:
    number = line("if (rank == 0) MPI_Send")
    out = cells.debug(f"break 0:cells.c:{number}", "until 1:11", "next @1", "delete", "until 1:11")
    held, after, last = out.split("(weft) until 1:11\n")[1], *out.split("(weft) ")[3:6:2]
    assert f"rank 0  before event 9: send(dest=1, tag=6) at cells.c:{number}" in held
    assert "rank 1 cannot continue: it waits in recv(source=0, tag=6) at cells.c" in after
    assert (
        "while ranks 0 and 2 are still where the last command stopped" in after
        or "while rank 0 is still where" in after
    )
    assert "rank 1  before event 11" in last


@pytest.mark.matrix
def test_a_deadlocked_rank_goes_no_further_and_that_is_said(cells: Recorded) -> None:
    out = cells.debug("continue", "next", "print tag")
    assert "rank 0 cannot continue: as in the record, recv(source=1, tag=7)" in out
    assert "  rank 0  7\n  rank 1  8\n" in out


def test_a_crash_is_met_at_its_line(crash: Recorded) -> None:
    number = line("n += *p", "crash.c")
    out = crash.debug(f"break crash.c:{number}", "continue", "print p == 0", "next @1", "continue")
    assert f"ranks 0 and 1  at crash.c:{number} in main  n += *p;" in out
    assert "  rank 0  0\n  rank 1  1\n" in out
    assert f"rank 1  SIGSEGV at crash.c:{number} in main" in out
    # The launcher ends rank 0 too, and is waited for.
    assert "the program has ended, with status" in out
    assert re.search("(rank|ranks 0 and) 1  process ended after event 2: allreduce", out)


def test_a_killed_rank_ends_the_program_and_not_the_prompt(cells: Recorded) -> None:
    words = [*WEFT, "debug", cells.run, "--format", "json"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdin is not None and session.stdout is not None

        def ask(text: str) -> dict[str, object]:
            session.stdin.write(text + "\n")  # type: ignore[union-attr]
            session.stdin.flush()  # type: ignore[union-attr]
            answer: dict[str, object] = json.loads(session.stdout.readline())  # type: ignore[union-attr]
            return answer

        session.stdout.readline()
        pid = ask("attach 1")["answer"]["pid"]  # type: ignore[index]
        os.kill(pid, signal.SIGKILL)
        after = ask("continue")
        assert after["ok"] is True or "end" in str(after["error"])
        assert ask("print rank @1")["answer"]["values"] == [{"rank": 1, "error": "rank 1 has ended"}]  # type: ignore[index]
        again = ask("restart")["answer"]
        assert [row["state"] for row in again["ranks"]] == ["before"] * 3  # type: ignore[index]
        session.stdin.close()
        assert session.wait(60) == 0
    assert not Path(f"/proc/{pid}").exists()


def test_wrong_use_is_answered_with_what_is_right(cells: Recorded) -> None:
    out = cells.debug(
        "nxt", "until", "rank 7", "print x @7", "break 0:99", "delete 3", "next 5", "print nothing",
        "break nowhere.c:3", "next event x", "# a comment", "", "prev event",
    )  # fmt: skip
    assert "there is no command `nxt`: did you mean `next`?" in out
    assert "give WHERE" in out
    assert out.count("the run has no rank 7, only 0 to 2") == 2
    assert "rank 0 has no event 99; its record has events 0 to 11" in out
    assert "there is no breakpoint 3" in out
    assert "`next` goes by one line" in out
    assert 'ranks 0-2  (No symbol "nothing" in current context.)' in out
    assert "break nowhere.c:3\nweft: nowhere.c:3: No source file named nowhere.c." in out
    assert "'x' is not a number of events" in out
    assert "rank 0 is at its start" in out


@pytest.mark.matrix
def test_a_program_without_lines_is_stepped_by_events(
    cells: Recorded, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    bare = tmp_path / "cells"
    shutil.copy(compiled("cells"), bare)
    assert execute(["strip", bare]).returncode == 0
    out = cells.debug("next", "next event", "where", program=[str(bare)])
    assert "compile with -g, or use `next event`" in out
    assert "rank 0  before event 8: recv(source=1, tag=5)" in out
    assert "#0 ? in ?? in cells+0x" in out


def test_without_gdb_events_can_be_followed_and_values_not(cells: Recorded, tmp_path: Path) -> None:
    for folder in map(Path, os.environ["PATH"].split(":")):
        for tool in folder.iterdir() if folder.is_dir() else ():
            if tool.name != "gdb" and not os.path.lexists(tmp_path / tool.name):  # a link may lead nowhere
                (tmp_path / tool.name).symlink_to(tool)
    out = cells.debug("next event", "print rank @0", env={"PATH": str(tmp_path)})
    assert "rank 0  before event 8" in out
    assert (
        "C, C++ and Fortran ranks need gdb, which is not installed: apt install gdb, or pip install gdb-for-pwndbg"
        in out
    )


@pytest.mark.matrix
def test_fortran_is_stepped_like_c(record: Callable[..., Recorded], tmp_path_factory: pytest.TempPathFactory) -> None:
    mpif90, mpiexec = need("mpif90.mpich"), need("mpiexec.mpich", "shared memory")
    program = tmp_path_factory.mktemp("fortran") / "ring"
    assert execute([mpif90, "-g", "-O0", "-o", program, PROGRAMS / "ring.f90"], cwd=program.parent).returncode == 0
    run = record("ring", "--", mpiexec, "-n", "3", program)
    number = line("field = field + rank", "ring.f90")
    out = run.debug(f"break 2:ring.f90:{number}", "continue", "print field(2)", "next", "print field(2)", "message")
    assert "  rank 0         0\n  ranks 1 and 2  1\n" in out
    assert f"rank 2  at ring.f90:{number + 1} in ring" in out
    assert "  rank 0  0\n  rank 1  1\n  rank 2  3\n" in out
    assert "from rank 1 to rank 2" in out and "holds     1.0 1.0 1.0 1.0" in out  # what it received last


def test_the_messages_at_a_stop_are_those_on_their_way_and_those_awaited(cells: Recorded) -> None:
    out = cells.debug("messages", "until 1:8", "messages", "continue", "messages", "messages 2")
    quiet = "all messages sent so far have been received, and no receive is waiting\n"
    assert f"(weft) messages\n{quiet}(weft) until 1:8" in out
    send, receive = line("MPI_Send(mine"), line("MPI_Recv(other")
    assert (
        "sent and not received\n"
        f"  rank 1 -> rank 0, tag 5, world, 40 bytes; event 7: send(dest=0, tag=5) at cells.c:{send}; "
        f"to be received by event 8: recv(source=1, tag=5) at cells.c:{receive}\n(weft) continue"
    ) in out
    at_end = out.partition("(weft) continue")[2]
    assert at_end.count("never received in this record") == 2
    assert (
        f"  rank 1 <- rank 0, tag 8, world; event 11: recv(source=0, tag=8) at cells.c:{receive}; "
        "no recorded message comes to it\n"
    ) in at_end
    assert at_end.endswith(f"(weft) messages 2\n{quiet}")


@pytest.mark.matrix
def test_what_was_passed_is_met_again_backwards(cells: Recorded) -> None:
    out = cells.debug(
        "break MPI_Send", "continue", "continue", "continue", "reverse-continue", "rc", "rc", "delete",
        "break exchange", "rc",
    )  # fmt: skip
    stops = re.findall(
        r"^  rank 0  (?:before|waiting in) event (\d+).*\n  rank 1  (\w+).* event (\d+)", out, re.MULTILINE
    )
    assert stops[:3] == [("9", "waiting", "9"), ("10", "before", "10"), ("11", "waiting", "11")]
    assert stops[4:6] == [("10", "before", "10"), ("9", "waiting", "9")]
    # The function was entered before the first call that communicates.
    assert "weft: no breakpoint was passed between the first communicating call of rank 0 and here" in out


@pytest.mark.matrix
@pytest.mark.slow
def test_changes_come_backwards_out_of_one_call_of_a_function_into_the_call_before(rounds: Recorded) -> None:
    """Watched frames return on the way; the last of them begins with what the one before has left on the stack."""
    out = rounds.debug(
        "break 0:rounds.c:8 if n == 5 && k == 3", "continue", "watch total @0", "continue", *["reverse-continue"] * 4
    )  # fmt: skip
    parts = [part.splitlines()[0] for part in out.split("reverse-continue\n")[1:]]
    assert parts[0].endswith("in add  total = total + k * k; /* here */"), out
    assert [re.search(r"total: (\S+ -> \S+)", part)[1] for part in parts[1:]] == ["1 -> 5", "0 -> 1", "30 -> 0"], (
        out
    )  # on the stack


@pytest.mark.matrix
def test_a_breakpoint_at_an_instruction_is_named_by_file_and_place(cells: Recorded) -> None:
    program = Path(json.loads((cells.run / "run.json").read_text())["command"][-1])
    symbols = execute(["nm", program]).stdout.splitlines()
    [address] = [row.split()[0] for row in symbols if row.endswith(" exchange")]
    _, *refused, made, _, stop = cells.answers(
        "break *nowhere+0x10", "break *cells+0x9999999", "break *libc.so.6+0x20000",
        f"break *cells+{int(address, 16):#x}", "restart", "continue",
    )  # fmt: skip
    assert [row["ok"] for row in refused] == [False] * 3
    words = ("has loaded no file nowhere", "cells ends before that", "libc.so.6 is a library of the system")
    assert all(text in row["error"] for text, row in zip(words, refused, strict=True)), refused
    assert made["ok"]
    at = [row["at"] for row in stop["answer"]["ranks"] if row["state"] == "line"]
    assert {(one["function"], one["line"]) for one in at} == {("exchange", line("static void exchange"))}


@pytest.mark.matrix
def test_gdb_is_waited_for_while_it_works_and_no_longer() -> None:
    gdb = Mi()
    try:
        works = (
            "python import time; end = time.process_time() + 0.5; all(time.process_time() < end for _ in iter(int, 1))"
        )
        assert gdb.ask(f"-interpreter-exec console {quoted(works)}", 3) == {}
        with pytest.raises(DebuggerError, match="gave no answer"):
            gdb.ask('-interpreter-exec console "shell sleep 8"', 3)
    finally:
        gdb.exit()


def test_a_rank_that_has_ended_goes_back_to_a_line_or_stays_at_its_end(
    record: Callable[..., Recorded], compiled: Callable[[str], Path]
) -> None:
    rounds = record("rounds-ended", "-n", "1", "--", compiled("rounds"))
    after, before = line("if (me == 0) printf", "rounds.c"), line("int mine = 0", "rounds.c")
    out = rounds.debug("continue", f"break rounds.c:{before}", "rc", "ranks", "delete", f"break rounds.c:{after}", "rc")
    refused, stays, found = (out.split("(weft) ")[n] for n in (3, 4, 7))
    assert "no breakpoint was passed between the first communicating call" in refused  # it is before MPI_Init
    assert "at the end, in MPI_Finalize or past it" in stays
    assert f"rank 0  at rounds.c:{after} in main" in found
