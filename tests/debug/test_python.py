"""The prompt on Python ranks: an agent in the rank looks at its frames, sets breakpoints and steps."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

import weft
from debug.conftest import PROGRAMS, Recorded
from tests_support import ROOT, WEFT, Installed, execute

SOURCE = (PROGRAMS / "collect.py").read_text().splitlines()
SCHEMA = json.loads((ROOT / "docs" / "commands" / "debug.schema.json").read_text())


def line(text: str) -> int:
    """The number of the only line of the program that holds a text."""
    [found] = [i for i, row in enumerate(SOURCE, 1) if text in row]
    return found


def first_and_second(recorded: Recorded) -> tuple[int, int]:
    """Whose message came first in the record: 1 or 2."""
    rank = weft.open(recorded.run).ranks[0]
    probes = [event.peer for event in rank if event.function.base == "MPI_Mprobe"]
    return probes[0], probes[1]


def test_a_line_stops_its_rank_and_the_others_where_they_get_without_it(collect: Recorded) -> None:
    first, second = first_and_second(collect)
    weight, barrier = line("weight = "), line("comm.Barrier()")
    out = collect.debug(
        f"break collect.py:{weight}", "continue", "print part", "where", "next", "print parts, weight @0", "continue",
        "print part['value']", "message", "list", "continue",
    )  # fmt: skip
    assert f"rank 0         at collect.py:{weight} in collect  weight = len(parts) + 1\n" in out
    assert f"ranks 1 and 2  waiting in event 9: barrier at collect.py:{barrier}\n" in out
    assert f"  rank 0  {{'value': {first * 10.0}, 'from': {first}}}\n" in out
    assert f"#0 collect.py:{weight} in collect  weight = len(parts) + 1\n" in out
    assert f"#1 collect.py:{line('total = sum')} in <module>" in out
    assert "  rank 0  ([], 1)\n" in out
    assert f"  rank 0  {second * 10.0}\n" in out
    assert f"from rank {second} to rank 0, tag 7, world: " in out  # the message that it just took
    assert f"holds     {{'value': {second * 10.0}, 'from': {second}}}" in out
    assert f"-> {weight:4}  {SOURCE[weight - 1]}\n" in out
    assert out.endswith(f"(weft) continue\n{collect.out}the program has ended\n")  # as it was recorded


def test_values_of_all_ranks_stand_side_by_side_and_equal_ones_share_a_line(collect: Recorded) -> None:
    out = collect.debug(
        "print size", "print rank * 2", "print [r for r in range(size) if r > rank] @1-2", "print value"
    )
    assert "(weft) print size\n  ranks 0-2  3\n" in out
    assert "  rank 0  0\n  rank 1  2\n  rank 2  4\n" in out
    assert "  rank 1  [2]\n  rank 2  []\n" in out
    assert "  rank 0  (NameError: name 'value' is not defined)\n  rank 1  10.0\n  rank 2  20.0\n" in out


def test_what_is_printed_cannot_change_the_program(collect: Recorded) -> None:
    out = collect.debug("print (rank := 99)", "print rank", "continue")
    assert "  rank 0  0\n  rank 1  1\n  rank 2  2\n" in out
    assert collect.out in out


def test_functions_are_stepped_into_and_over(collect: Recorded) -> None:
    out = collect.debug("break 0:collect", "until 0:7", "step", "next", "next")
    # recv() is a probe and a receive: one line, one step.
    assert f"rank 0  at collect.py:{line('weight = ')} in collect" in out
    assert f"rank 0  at collect.py:{line('parts.append')} in collect" in out
    assert f"rank 0  at collect.py:{line('for _ in')} in collect" in out


@pytest.mark.matrix
def test_an_event_back_and_forth_is_the_same_place(collect: Recorded) -> None:
    out = collect.debug(
        "next event", "print parts", "next event", "prev event", "print parts", "prev event", "prev event"
    )
    places = re.findall(r"^  rank 0 +(before event \d+)", out, re.MULTILINE)
    assert places[0] == places[2] != places[1]
    assert places[3] == "before event 8"
    assert out.count(f"  rank 0  [{first_and_second(collect)[0] * 10.0}]\n") == 2
    assert "rank 0 is at its start" in out


@pytest.mark.matrix
def test_every_answer_fits_the_schema_that_is_documented(collect: Recorded) -> None:
    answers = collect.answers(
        "ranks", "where all", "print value", "next event", "message", "next", "list", "break collect.py:12",
        "breakpoints", "continue", "rank 1", "prev event", "until MPI_Barrier", "foo", "delete 1", "help", "help until",
        "restart", "frame 0", "info locals", "set value = 3 @1", "display rank", "messages", "tbreak collect.py:14",
        "continue", "watch parts", "breakpoints", "finish", "delete", "undisplay", "attach 0", "continue", "where",
        "next",
    )  # fmt: skip
    assert len(answers) == 35
    for answer in answers:
        jsonschema.validate(answer, SCHEMA)
    kinds = [answer["answer"]["kind"] for answer in answers if answer["ok"]]
    assert set(kinds) == {
        "stopped", "ranks", "where", "print", "message", "list", "break", "breakpoints", "rank", "help",
        "frame", "locals", "set", "display", "watch", "messages",
    }  # fmt: skip
    assert [answer["command"] for answer in answers if not answer["ok"]] == ["foo", "attach 0", "where", "next"]
    assert "".join(answer["output"] for answer in answers).endswith(collect.out)


def test_a_python_program_without_gdb_lacks_nothing(collect: Recorded, tmp_path: Path) -> None:
    (tmp_path / "gdb").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "gdb").chmod(0o755)
    out = collect.debug("print rank", "next", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert "  rank 0  0\n  rank 1  1\n  rank 2  2\n" in out
    assert "rank 0  at collect.py" in out


@pytest.mark.matrix
def test_open_mpi_is_debugged_alike(record: Callable[..., Recorded], openmpi: Installed) -> None:
    weft_command = [str(openmpi.python), "-P", "-m", "weft.cli.main"]
    run = record("open", "--", *openmpi.mpiexec, "-n", "3", str(openmpi.python), PROGRAMS / "collect.py",
                 weft=weft_command, env=openmpi.environment)  # fmt: skip
    script = run.debug(
        f"break collect.py:{line('weight = ')}", "continue", "print part['from'] in (1, 2)", "message", "continue"
    )
    assert f"rank 0         at collect.py:{line('weight = ')} in collect" in script
    assert "  rank 0  True\n" in script
    assert "holds     {'" in script


@pytest.mark.matrix
def test_a_person_types_with_completion_and_history(collect: Recorded, tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
        os.execv(sys.executable, [*WEFT, "debug", "--trust", str(collect.run)])
    seen = ""

    def until(text: str) -> str:
        nonlocal seen
        seen, limit = "", time.monotonic() + 60
        while text not in seen and time.monotonic() < limit:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 4096).decode()
        assert text in seen
        return seen

    until("(weft) ")
    os.write(terminal, b"pri\t rank\n")
    assert "rank 2  2" in until("2\r\n(weft) ")
    os.write(terminal, b"next\n")
    assert f"collect.py:{line('weight = ')}" in until("(weft) ")
    os.write(terminal, b"\n")  # again
    assert f"collect.py:{line('parts.append')}" in until("(weft) ")
    os.write(terminal, b"attach 0\n")
    until(">>> ")
    os.write(terminal, b"weight + 100\n")
    assert "101" in until("\r\nrank 0 >>> ")
    os.write(terminal, b"\x04")
    until("back from rank 0")
    os.write(terminal, b"quit\n")
    _, status = os.waitpid(pid, 0)
    assert status == 0
    assert (tmp_path / "weft" / "debug_history").read_text().splitlines()[0] == "print rank"


@pytest.mark.matrix
def test_a_program_that_reads_its_input_is_given_it_again(record: Callable[..., Recorded], tmp_path: Path) -> None:
    program = tmp_path / "reads.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "words = sys.stdin.read().split() if world.rank == 0 else None\n"
        "words = world.bcast(words)\nworld.barrier()\n"
    )
    run = record("reads", "-n", "2", "--", sys.executable, program, stdin="warp and weft\n")
    text = tmp_path / "input.txt"
    text.write_text("warp and weft\n")
    done = execute([*run.weft, "debug", run.run, "--stdin", text, "-c", "until 1:MPI_Barrier", "-c", "print words"])
    assert "['warp', 'and', 'weft']" in done.stdout, done.stdout
    done = execute([*run.weft, "replay", run.run, "--stdin", text, "--out", tmp_path / "again"])
    assert "as recorded" in done.stderr, done.stderr


def test_a_rank_that_stands_in_mpi_with_pythons_lock_is_looked_into(
    record: Callable[..., Recorded], tmp_path: Path
) -> None:
    """The first collective of objects duplicates the communicator, for which mpi4py keeps the lock."""
    program = tmp_path / "objects.py"
    program.write_text(
        "from mpi4py import MPI\nworld = MPI.COMM_WORLD\nmine = world.rank * 7\nworld.Barrier()\n"
        "total = world.allreduce([mine])\nprint(len(total))\n"
    )
    run = record("objects", "-n", "2", "--", sys.executable, program)
    begun = time.monotonic()
    out = run.debug("break 0:MPI_Comm_dup", "continue", "print mine", "where all", "break objects.py:6", "continue")
    assert "  rank 0  0\n  rank 1  7\n" in out
    assert re.search(r"rank 0  before event \d+: .*\n  rank 1  waiting in event \d+: .* at objects.py:5\n", out), out
    assert "ranks 0 and 1  at objects.py:6 in <module>  print(len(total))" in out
    assert "no answer" not in out
    assert time.monotonic() - begun < 60


@pytest.mark.matrix
def test_a_step_back_does_not_repeat_what_the_program_wrote(collect: Recorded) -> None:
    barrier = line("comm.Barrier()")
    out = collect.debug(f"until 0:collect.py:{barrier}", "prev event", "next event", "continue")
    assert out.count("total") == 1, out
