"""What a process told of its end reads as it was told, and damaged tellings are left out."""

import json
from pathlib import Path

import pytest

import weft
from weft.trace.builder import Builder
from weft.trace.definitions import MAX_ENDINGS, Definitions
from weft.trace.endings import Ending
from weft.trace.layout import ENDING_FRAMES, Def, EndingKind, ExitKind
from weft.trace.varint import encode_signed, encode_string, encode_unsigned

STACK = [("/p/exc.py", 4, "work"), ("/p/exc.py", 6, "<module>")]


def test_an_exception_is_read_with_its_place_and_time() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r0.barrier(enter=1_000)
    r1.add_ending(
        EndingKind.EXCEPTION, name="KeyError", text="'missing'", traceback="Trace", who="Task-3", python=STACK, at=3_000
    )
    (ending,) = b.open().ranks[1].endings
    assert (ending.kind, ending.name, ending.text, ending.traceback) == (
        EndingKind.EXCEPTION, "KeyError", "'missing'", "Trace",
    )  # fmt: skip
    assert (ending.who, ending.slot, ending.tid, ending.time_ns) == ("Task-3", 0, 1001, 2_000)
    assert [(site.text) for site in ending.stack] == ["exc.py:4 work", "exc.py:6 <module>"]
    assert ending.site is not None
    assert ending.site.line == 4


def test_the_interpreters_own_frames_are_not_the_place() -> None:
    b = Builder(ranks=1)
    b.ranks[0].add_ending(
        EndingKind.EXCEPTION, python=[("/x/mpi4py/run.py", 9, "main"), ("<frozen runpy>", 1, "f"), *STACK]
    )
    b.ranks[0].add_ending(EndingKind.EXCEPTION, python=[("<frozen runpy>", 1, "f")])
    first, second = b.open().ranks[0].endings
    assert first.site is not None
    assert first.site.text == "exc.py:4 work"
    assert second.site is None


def test_a_crash_is_told_with_its_address_and_the_lines_of_its_frames() -> None:
    b = Builder(ranks=1)
    (rank,) = b.ranks
    rank.define(
        Def.MODULE,
        encode_unsigned(1)
        + encode_unsigned(0)
        + encode_unsigned(4096)
        + encode_string("ab")
        + encode_string("/bin/prog"),
    )
    rank.add_ending(
        EndingKind.SIGNAL, code=11, detail=1, address=0xDEAD, name="SIGSEGV", native=[(1, 70), (1, 90)], thread=None
    )
    trace = b.open()
    sites = {"71": [["a.c", 1, "f"]], "70": [["in.h", 2, "g"], ["a.c", 3, "f"]]}
    (trace.path / "sites.json").write_text(
        json.dumps({"schema": "weft-sites/1", "modules": [{"path": "/bin/prog", "build_id": "ab", "sites": sites}]})
    )
    (ending,) = trace.ranks[0].endings
    assert (ending.code, ending.detail, ending.address, ending.slot) == (11, 1, 0xDEAD, -1)
    assert [site.text for site in ending.native] == ["in.h:2 g", "a.c:3 f", "prog+0x5a"]
    assert ending.stack is ending.native
    assert ending.how is ExitKind.UNKNOWN


def test_endings_come_in_order_of_time_and_know_how_an_exit_came() -> None:
    b = Builder(ranks=1)
    b.ranks[0].add_ending(EndingKind.EXIT, code=3, detail=ExitKind.AT_ONCE, at=9_000)
    b.ranks[0].add_ending(EndingKind.WARNED, code=2, at=5_000)
    warned, left = b.open().ranks[0].endings
    assert (warned.kind, left.kind, left.how, left.code) == (EndingKind.WARNED, EndingKind.EXIT, ExitKind.AT_ONCE, 3)


def test_a_crash_that_a_handler_came_back_from_is_no_ending() -> None:
    b = Builder(ranks=1)
    b.ranks[0].add_ending(EndingKind.SIGNAL, code=11)
    b.ranks[0].add_ending(EndingKind.SIGNAL, code=8)
    b.ranks[0].add_ending(EndingKind.RETURNED, code=11)
    b.ranks[0].add_ending(EndingKind.SIGNAL, code=6)
    assert [ending.code for ending in b.open().ranks[0].endings] == [8, 6]


def test_a_finalize_of_the_way_out_is_told_from_the_programs_own() -> None:
    b = Builder(ranks=2)
    b.ranks[0].finalize()
    b.ranks[1].finalize(leaving=True)
    trace = b.open()
    assert [rank.event(0).is_finalize_at_exit for rank in trace.ranks] == [False, True]


def ending(kind: int, frames: int) -> bytes:
    head = (
        b"".join(encode_unsigned(v) for v in (kind, 0, 1, 2))
        + encode_signed(0)
        + encode_signed(0)
        + encode_unsigned(0)
        + 4 * encode_string("")
    )
    return (
        head
        + encode_unsigned(frames)
        + frames * (encode_string("f") + encode_unsigned(1) + encode_string("g"))
        + encode_unsigned(0)
    )


def definition(payload: bytes) -> bytes:
    return encode_unsigned(Def.ENDING) + encode_unsigned(len(payload)) + payload


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        encode_unsigned(1),
        ending(1, ENDING_FRAMES + 1),
        ending(1, 3)[:-1],
        ending(1, 0)[:-2] + encode_unsigned(2**60),
    ],
    ids=["empty", "cut", "too many frames", "cut in a frame", "endless"],
)
def test_a_damaged_ending_is_left_out_and_said(payload: bytes) -> None:
    read = Definitions(definition(payload) + definition(ending(2, 1)))
    assert [one.kind for one in read.endings] == [EndingKind.EXIT]
    assert any("damaged" in problem for problem in read.problems)


def test_a_kind_of_ending_that_there_is_not_is_left_out_and_said() -> None:
    read = Definitions(definition(ending(200, 0)) + definition(ending(2, 1)))
    assert [one.kind for one in read.endings] == [EndingKind.EXIT]
    assert "200 is not a kind of ending" in read.problems[0]


def test_a_flood_of_endings_is_cut() -> None:
    read = Definitions(definition(ending(2, 0)) * (MAX_ENDINGS + 5))
    assert len(read.endings) == MAX_ENDINGS
    assert any("endings" in problem for problem in read.problems)


def test_the_ending_of_the_golden_run_is_read_whole() -> None:
    (told,) = weft.open(Path(__file__).with_name("golden") / "1.0").ranks[0].endings
    assert isinstance(told, Ending)
    assert (told.name, told.who, told.slot) == ("KeyError", "Thread-1", 1)
