"""What messages hold: the first that differs between two runs, and at which of its ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from machine import need
from replay.campaign import environment
from tests_support import WEFT, Installed, execute
from weft.compare import compare, content_report
from weft.compare.contents import ContentComparison, ExemptCalls, compare_contents
from weft.match import match_operations
from weft.order import order_events
from weft.trace.builder import ANY, Builder
from weft.trace.layout import HASHED, HashSide
from weft.trace.run import Trace

PROGRAMS = Path(__file__).parent / "programs"
S, R = HashSide.SENT, HashSide.RECEIVED


def kept(rank: Any, *rows: tuple[int, HashSide, int]) -> None:
    """Hashes of a rank: event, side, hash."""
    made = np.zeros(len(rows), HASHED)
    for column, name in enumerate(("event", "side", "hash")):
        made[name] = [row[column] for row in rows]
    made["bytes"] = 8
    rank.append_hashes(made)


def relay(sent: int = 1, got: int = 1, onward: int = 1, at_last: int = 1) -> Trace:
    """Rank 0 sends to 1, which sends to 2; the hashes of each end."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=1, site=("r.c", 5, "main"))
    r1.recv(0, tag=1, site=("r.c", 7, "main"))
    r1.send(2, tag=2, site=("r.c", 9, "main"))
    r2.recv(1, tag=2, site=("r.c", 11, "main"))
    kept(r0, (0, S, sent))
    kept(r1, (0, R, got), (1, S, onward))
    kept(r2, (0, R, at_last))
    return b.open()


def compared(before: Trace, after: Trace, *exempt: str) -> tuple[ContentComparison, list[str]]:
    one, two = match_operations(before), match_operations(after)
    ordered = order_events(after, two)
    comparison = compare(one, two, ordered)
    contents = compare_contents(comparison, ordered, ExemptCalls(exempt) if exempt else None)
    assert contents is not None
    return contents, content_report.render_contents(contents, comparison)


def test_contents_that_are_alike_are_counted() -> None:
    contents, lines = compared(relay(), relay())
    assert (contents.compared, contents.differing, contents.first) == (4, 0, ())
    assert lines == ["the messages of 4 equal calls have equal contents"]


@pytest.mark.parametrize("place", ["r.c:5", "r.c:7"])
def test_a_message_of_an_exempt_line_is_left_out_at_both_ends(place: str) -> None:
    contents, _ = compared(relay(), relay(sent=2, got=2), place)
    assert (contents.differing, contents.left_out, contents.compared) == (0, 2, 2)


def test_other_lines_are_compared_beside_an_exempt_one() -> None:
    contents, lines = compared(relay(), relay(sent=2, got=2, onward=2, at_last=2), "r.c:5")
    [first] = contents.first
    assert (first.rank, first.sent, first.after, contents.differing) == (1, True, (1, 1), 2)
    assert "send(dest=2, tag=2) at r.c:9" in lines[0]


def test_an_exempt_line_without_a_call_is_named() -> None:
    assert ExemptCalls(["r.c:9", "r.c:10"]).find_unknown_places(relay()) == ["r.c:10"]


def test_what_a_rank_sends_otherwise_is_first_and_what_follows_from_it_is_not() -> None:
    contents, lines = compared(relay(), relay(sent=2, got=2, onward=2, at_last=2))
    [first] = contents.first
    assert (first.rank, first.sent, first.after, contents.differing) == (0, True, (0, 0), 4)
    assert "rank 0 sends 8 bytes that differ: event 0, send(dest=1, tag=1) at r.c:5" in lines[0]
    assert (
        "the difference arose on rank 0, which sent the message to rank 1 (event 0, recv(source=0, tag=1) at "
        "r.c:7)" in lines[1]
    )


def test_a_message_that_was_sent_alike_and_received_otherwise_is_the_receivers() -> None:
    contents, lines = compared(relay(), relay(got=3, onward=2, at_last=2))
    [first] = contents.first
    assert (first.rank, first.sent, first.after) == (1, False, (1, 0))
    assert "rank 0 (event 0, send(dest=1, tag=1) at r.c:5) sent the same as in the reference" in lines[1]


def test_a_rank_that_computes_otherwise_has_the_last_content_that_was_alike_named() -> None:
    contents, lines = compared(relay(), relay(onward=2, at_last=2))
    [first] = contents.first
    assert (first.rank, first.sent, first.known) == (1, True, (1, 0))
    assert "the last content of rank 1 that is as in the reference: event 0, recv(source=0, tag=1) at r.c:7" in lines[2]


def test_a_wildcard_that_took_another_message_was_not_given_other_bytes_on_the_way() -> None:
    def pool(first: int) -> Trace:
        b = Builder(ranks=3)
        for rank in (1, 2):
            b.ranks[rank].send(0, tag=1)
            kept(b.ranks[rank], (0, S, rank))
        for taken in (first, 3 - first):
            b.ranks[0].recv(ANY, got=taken, tag=1)
        kept(b.ranks[0], (0, R, first), (1, R, 3 - first))
        return b.open()

    contents, lines = compared(pool(1), pool(2))
    assert (contents.differing, contents.first) == (2, ())
    assert "only where a receive took another message" in lines[0]


def test_members_that_bring_the_same_and_get_another_result_differ_in_the_result() -> None:
    def sums(result: int) -> Trace:
        b = Builder(ranks=2)
        for rank in b.ranks:
            rank.allreduce(site=("r.c", 3, "main"))
            kept(rank, (0, S, rank.index), (0, R, result))
        return b.open()

    contents, lines = compared(sums(1), sums(2))
    assert {one.rank for one in contents.first} <= {0, 1} and not any(one.sent for one in contents.first)
    assert "every member contributes the same as in the reference" in lines[1]


def test_a_run_without_hashes_is_told_as_such() -> None:
    b = Builder(ranks=3)
    b.ranks[0].send(1, tag=1)
    b.ranks[1].recv(0, tag=1)
    before, after = match_operations(relay()), match_operations(b.open())
    comparison = compare(before, after, order_events(after.trace, after))
    assert compare_contents(comparison, order_events(after.trace, after)) is None
    [line] = content_report.render_contents(None, comparison)
    assert line == "the contents of messages were not compared: the run was recorded without --hash-messages"


def recorded(folder: Path, name: str, weft: tuple[str, ...], *words: str, env: Any = None) -> Path:
    done = execute(
        [*weft, "run", "--hash-messages", "--out", name, "-n", "3", "--", *words],
        cwd=folder, env=env or environment(), timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / name


def told(folder: Path, one: str, two: str) -> dict[str, Any]:
    done = execute([*WEFT, "compare", one, two, "--format", "json"], cwd=folder, env=environment())
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["contents"]
    return found


FIRST = {"1": (1, "MPI_Sendrecv", 14), "2": (0, "MPI_Isend", 18), "3": (2, "MPI_Allreduce", 22)}


@pytest.mark.matrix
@pytest.mark.timeout(600)  # may have to build two recorders
def test_messages_in_c_are_compared_across_two_mpis(mpich: Installed, openmpi: Installed, tmp_path: Path) -> None:
    for mpi in (mpich, openmpi):
        done = execute([mpi.mpicc, "-g", PROGRAMS / "messages.c", "-o", tmp_path / mpi.name], env=mpi.environment)
        assert done.returncode == 0, done.stderr
        weft = (str(mpi.python), "-P", "-m", "weft.cli.main")
        recorded(tmp_path, f"{mpi.name}-right", weft, f"./{mpi.name}", env=mpi.environment)
    across = told(tmp_path, "mpich-right", "openmpi-right")
    assert (across["compared"], across["first"]) == (63, [])
    assert across["differing"] in (0, 2)  # rank 0's two wildcard receives may take the others' messages either way
    for fault, (rank, call, line) in FIRST.items():
        recorded(tmp_path, fault, WEFT, "./mpich", fault)
        [first] = told(tmp_path, "openmpi-right", fault)["first"]
        assert (first["rank"], first["end"], first["call"], first["line"]) == (rank, "sent", call, line)


@pytest.mark.matrix
def test_the_first_message_of_a_fortran_program_that_differs_is_named(debian_mpich: Installed, tmp_path: Path) -> None:
    compiler = need("mpif90.mpich")
    done = execute([compiler, "-g", PROGRAMS / "messages.f90", "-o", tmp_path / "ring"])
    assert done.returncode == 0, done.stderr
    for name in ("right", "fault"):
        words = [*debian_mpich.mpiexec, "-n", "3", "./ring", name]
        run = execute([*WEFT, "run", "--hash-messages", "--out", name, "--", *words], cwd=tmp_path, timeout=100)
        assert run.returncode == 0, run.stderr
    found = told(tmp_path, "right", "fault")
    [first] = found["first"]
    assert (first["rank"], first["end"], first["peer"], first["tag"], first["line"]) == (1, "sent", 2, 2, 21)
    assert first["bytes"] == 64


@pytest.mark.matrix
def test_the_first_message_of_a_python_program_that_differs_is_named(mpich: Installed, tmp_path: Path) -> None:
    words = (str(mpich.python), str(PROGRAMS / "messages.py"))
    recorded(tmp_path, "right", WEFT, *words)
    recorded(tmp_path, "again", WEFT, *words)
    recorded(tmp_path, "fault", WEFT, *words, "fault")
    assert told(tmp_path, "right", "again")["differing"] == 0
    [first] = told(tmp_path, "right", "fault")["first"]
    assert (first["rank"], first["peer"], first["tag"], first["line"]) == (1, 2, 2, 14)
    assert first["callers"] == ["messages.py:20 <module>"]


def test_hashes_need_calls(tmp_path: Path) -> None:
    done = execute([*WEFT, "run", "--hash-messages", "--level", "outcomes", "--", "true"], cwd=tmp_path)
    assert done.returncode == 2
    assert "--hash-messages needs --level trace" in done.stderr
