"""What `make fuzz` has found, a test for each kind of fault: what is damaged is told, and its whole twin is silent."""

from __future__ import annotations

import argparse
import json
import os
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import weft
from weft.cli import replay
from weft.cli.main import main
from weft.dataparallel.source_map import SourceMap
from weft.debug import payload
from weft.dvm import c, fortran
from weft.errors import RunError, UsageError, WeftError
from weft.inprocess.schedule_file import SCHEMA, read_schedule
from weft.launch import rundir
from weft.launch.local import gather_after_run, hosts
from weft.launch.local.host_protocol import ProtocolError
from weft.launch.local.listener_address import ListenerAddress
from weft.match import match_operations
from weft.native.headers.record import kernel
from weft.replay import make_plans
from weft.replay.planning import narrow_column, plan_thread_from_outcomes
from weft.report import run_analyses, to_json
from weft.report.failure import describe_failures
from weft.report.registry import ANALYSES
from weft.safety.folders import Unfit, read_regular
from weft.tasks import schedule
from weft.trace import Level, packed, packing
from weft.trace.builder import Builder
from weft.trace.builder.record import RecordFile
from weft.trace.errors import Arguments, NoArgument
from weft.trace.layout import BEFORE, EVENT, Def, Flag, LogKind, State, StreamKind
from weft.trace.varint import encode_signed, encode_string, encode_unsigned
from weft.usage import object_ids, pending_buffers
from weft.usage.requests import Requests
from weft.values.configuration import read_configuration
from weft.waits.profiles import message_matrix


def messages(path: Path | None = None) -> Builder:
    """A message of a datatype, and requests of both ranks."""
    b = Builder(ranks=2, path=path)
    for r in b.ranks:
        r.init()
    vector = b.ranks[0].type_vector(3, 2, 5, "MPI_INT")
    b.ranks[0].send(1, datatype=vector)
    b.ranks[1].recv(0, count=6)
    b.ranks[1].wait(b.ranks[1].irecv(0, tag=2, got=0))
    b.ranks[0].send(1, tag=2)
    return b


def finished(b: Builder) -> weft.Trace:
    """The run of a builder, at its end."""
    for r in b.ranks:
        r.finalize()
    return b.open()


# Records


def test_more_bytes_than_a_message_holds_are_not_known() -> None:
    def sent(count: int) -> int:
        b = Builder(ranks=2)
        of = b.ranks[0].define_datatype("CONTIGUOUS", types=["MPI_INT"], integers=[1], size=1 << 40, extent=4)
        b.ranks[0].send(1, datatype=of, count=count)
        trace = b.open()
        return int(message_matrix(trace, match_operations(trace))[1][0, 1])

    assert sent(2) == 1 << 41
    assert sent(1 << 30) == 0


def test_a_communicator_without_the_rank_that_defines_it_is_left_out() -> None:
    def defined(first: int) -> weft.Trace:
        b = Builder(ranks=3)
        members = (
            encode_unsigned(1) + encode_unsigned(0) + encode_unsigned(first) + encode_signed(1) + encode_unsigned(2)
        )
        head = (
            encode_unsigned(256)
            + encode_unsigned(2)
            + encode_unsigned(112)
            + encode_unsigned(0)
            + encode_unsigned(0)
            + encode_signed(0)
            + encode_string("k")
        )
        b.ranks[0].define(Def.COMM, head + members + encode_unsigned(0))
        return b.open()

    whole, damaged = defined(0), defined(1)
    assert whole.ranks[0].comm(256).members == (0, 1) and not whole.problems  # type: ignore[union-attr]
    assert damaged.ranks[0].comm(256) is None
    assert "rank 0 defines a communicator that it is not in; Weft ignores it" in damaged.problems


def test_a_run_json_that_says_of_mpi_what_it_is_not_tells_nothing_of_files(tmp_path: Path) -> None:
    b = messages(tmp_path / "run")
    b.ranks[0].call("MPI_File_open", filename="out", comm=2, fh=256, amode=3, info=1)
    file = finished(b).path / "run.json"
    facts = json.loads(file.read_text())
    for abi, told in ({"abi": "mpich"}, 1), (7, 0), ({"abi": []}, 0):
        file.write_text(json.dumps({**facts, "mpi": abi}))
        report = run_analyses(weft.open(tmp_path / "run"))
        assert not report.failures
        assert sum("amode" in one.message or "RDONLY" in one.message for one in report.findings) == told


def test_ids_beyond_what_calls_can_have_made_take_no_memory() -> None:
    trace = finished(messages())
    rank = trace.ranks[1]
    assert object_ids.end_of_believable_ids(rank) > 256 + len(rank)
    b = messages()
    b.ranks[1].call("MPI_Request_free", request=1 << 27)
    damaged = finished(b)
    assert len(pending_buffers.find_request_ends(pending_buffers.Traffic(damaged.ranks[1])).at) < 1 << 20
    assert not run_analyses(damaged).failures


def test_a_ring_that_says_to_have_dropped_any_number_of_calls_takes_no_memory_for_them(tmp_path: Path) -> None:
    """A record of `--keep` says how many calls it dropped: no table is as long as that."""
    b = Builder(ranks=2, path=tmp_path / "run")
    b.write()
    requests, first, odd = 2000, 50_000_000, (1 << 28) - 2
    for path in sorted((tmp_path / "run" / "ranks").iterdir()):
        path.unlink()
        number = int(path.stem[-1])
        file = RecordFile(path, Level.TRACE, number, 2)
        kernel().weft_record_keep(file._record, 1)
        events = np.zeros(2 * requests, EVENT)
        events["enter"] = np.arange(1, 2 * requests + 1) * 10
        events["function"][0::2], events["function"][1::2] = b.functions["MPI_Isend"].id, b.functions["MPI_Wait"].id
        events["peer"], events["comm"], events["flags"], events["count"] = 1 - number, 2, Flag.CLOSED, 1
        events["datatype"], events["object"] = 4, first + np.arange(2 * requests) // 2
        events["object"][-2], events["object"][-4] = odd, 300
        events["datatype"][-6] = odd
        for k in range(0, len(events), 50):
            file.append(StreamKind.EVENTS, 0, events[k : k + 50])
        file.close(State.FINALIZED)
        data = bytearray(path.read_bytes())
        for at in range(0, len(data) - BEFORE.itemsize, 4096):
            account = np.frombuffer(data, BEFORE, 1, at).copy()
            if account["turn"][0] and account["turn"][0] == account["again"][0] and 0 < account["events"][0] < 10_000:
                account["events"] = 1 << 40
                data[at : at + BEFORE.itemsize] = account.tobytes()
        path.write_bytes(data)
    trace = weft.open(tmp_path / "run")
    rank = trace.ranks[0]
    assert object_ids.end_of_believable_ids(rank) == object_ids.MOST_IDS, "it is believed to have dropped so many"
    of = pending_buffers.Traffic(rank)
    assert len(pending_buffers.find_request_ends(of).at) < 1 << 18
    life = Requests(of)
    assert len(life.made) < 1 << 18
    assert len(life.makers) == np.count_nonzero(rank.events["function"] == b.functions["MPI_Isend"].id) - 2
    assert not run_analyses(trace).failures


def test_an_argument_that_a_call_lacks_is_damage_and_not_a_fault_of_weft() -> None:
    assert Arguments(a=1)["a"] == 1
    with pytest.raises(NoArgument, match="a call has no position: its record"):
        Arguments(a=1)["position"]
    with pytest.raises(KeyError):
        Arguments()["position"]


def test_an_analysis_that_a_damaged_record_stops_is_left_out_and_nothing_is_to_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RunError("the record of rank 1 is cut off")

    trace = finished(messages(tmp_path / "run"))
    assert describe_failures(trace.path, run_analyses(trace).failures) == []
    of = {one.name: one for one in ANALYSES}
    monkeypatch.setattr(of["messages"], "find", fail)
    monkeypatch.setattr(of["invalid arguments"], "find", fail)
    monkeypatch.setattr(of["requests"], "find", lambda _: 1 / 0)
    own, damaged = describe_failures(trace.path, run_analyses(weft.open(tmp_path / "run")).failures)
    assert own.startswith("Weft's error, not the program's: the analysis of requests failed") and "send" in own
    assert damaged == (
        "the analyses of invalid arguments and messages are missing here, as the record is damaged: "
        "the record of rank 1 is cut off"
    )


@pytest.mark.parametrize("what", ["definitions", "index", "nothing"])
def test_a_pack_whose_definitions_cannot_be_unpacked_is_told_as_damaged(what: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished(messages(run))
    file = run / "ranks" / packing.pack_records(run, lambda _: True).name
    data = bytearray(file.read_bytes())
    row = packed.Pack(file, run).read_records([])[0]._rows[int(StreamKind.DEFINITIONS), 0]
    if what == "definitions":
        data[int(row["offset"]) + int(row["stored"]) // 2] ^= 0xFF
        file.write_bytes(data)
    elif what == "index":
        file.write_bytes(data[:-3])
    trace = weft.open(run)
    report = run_analyses(trace)
    assert not [one for one in report.failures if not one.damaged]
    assert bool([text for text in trace.problems if "1.pack is left out, because" in text]) is (what != "nothing")


@pytest.mark.parametrize("log", [[(LogKind.LATE, 1 << 40), (LogKind.SOURCE, 1)], [(LogKind.INDEX, 1 << 40)]])
def test_a_log_of_outcomes_that_no_thread_writes_is_no_plan(log: list[tuple[int, int]]) -> None:
    with pytest.raises(OverflowError):
        plan_thread_from_outcomes(log, 0)
    assert len(plan_thread_from_outcomes([(LogKind.LATE, 1), (LogKind.SOURCE, 1), (LogKind.INDEX, 1)], 0).entries)


def test_a_run_whose_outcomes_fit_no_plan_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = finished(messages())
    assert len(make_plans(trace, match_operations(trace))) == 2
    monkeypatch.setattr("weft.replay.planning._TracePlanner.plan_rank", lambda _: narrow_column([1 << 40], np.int32))
    with pytest.raises(RunError, match="cannot be replayed, as its record is damaged"):
        make_plans(trace, match_operations(trace))


@pytest.mark.parametrize("word", [["killed"], {}, 1, None])
def test_an_end_that_is_no_word_is_that_of_a_run_that_was_killed(word: object) -> None:
    trace = finished(messages())
    assert to_json(trace, ())["run"]["ended"] == "finished"
    trace.run["ended"] = word
    assert to_json(trace, ())["run"]["ended"] == "killed"


# Files of a run


def test_what_lies_in_a_run_is_read_only_where_it_is_a_file_in_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "whole").write_text("abc")
    (run / "link").symlink_to("whole")
    (run / "out").symlink_to("/etc/passwd")
    (run / "endless").symlink_to("/dev/zero")
    os.mkfifo(run / "pipe")
    assert read_regular(run / "whole", run) == read_regular(run / "link", run) == b"abc"
    for name in ("out", "endless", "pipe"):
        with pytest.raises(Unfit, match=r"is not a regular file|outside the run"):
            read_regular(run / name, run)
    with pytest.raises(Unfit, match="is larger than 0 MiB"):
        read_regular(run / "whole", run, 2)


@pytest.mark.parametrize("text", ["[" * 100_000, "\xff", "[]", '{"a": ' + "9" * 5000 + "}"])
def test_facts_that_cannot_be_read_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text, encoding="latin-1")
    assert rundir.read_facts(tmp_path) == {}
    (tmp_path / "run.json").write_text('{"ranks": 2}')
    assert rundir.read_facts(tmp_path) == {"ranks": 2}


def test_hosts_in_a_run_json_that_fit_nothing_are_left_out() -> None:
    good = {"host": "a", "ranks": [1], "why": "gone"}
    facts = {"lost": [good, 3, {"host": 1}, {"host": "b", "ranks": ["x"]}], "hosts": 7}
    assert gather_after_run.read_host_entries(facts, "lost") == [good]
    assert gather_after_run.read_host_entries(facts, "hosts") == []


def test_gathering_empties_no_folder_that_weft_did_not_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, mine = tmp_path / "run", tmp_path / "thesis"
    finished(messages(run))
    mine.mkdir()
    (mine / "chapter").write_text("one")
    facts = json.loads((run / "run.json").read_text())
    for named in (mine, tmp_path / "run" / ".." / "thesis", "thesis", "", "\0"):
        (run / "run.json").write_text(json.dumps({**facts, "local": str(named)}))
        assert main(["gather", str(run)]) == 2
        assert "which --local did not make" in capsys.readouterr().err
    assert (mine / "chapter").read_text() == "one"
    own = tmp_path / "run-0123456789abcdef"
    own.mkdir()
    (run / "run.json").write_text(json.dumps({**facts, "local": str(own)}))
    assert main(["gather", str(run)]) == 0
    assert not own.exists()


# What others say


@pytest.mark.parametrize(
    "change",
    [
        {"port": [1]}, {"port": 0}, {"addresses": 3}, {"addresses": [1]}, {"secret": {}}, {"secret": "xy"},
        {"secret": ""},
        {"name": "../x"}, {"name": ".."}, {"name": ""}, {"more": 1}, {"guest": 1},
    ],
)  # fmt: skip
def test_a_place_that_hosts_cannot_meet_at_is_refused(change: dict[str, object]) -> None:
    place = {"name": "run-1-ab", "addresses": ["::1"], "port": 4711, "secret": "ab" * 32}
    assert ListenerAddress.from_json(json.dumps(place)).port == 4711
    with pytest.raises(ValueError, match=r"it has|one of its parts|its name|hexadecimal") as error:
        ListenerAddress.from_json(json.dumps({**place, **change}))
    assert not isinstance(error.value, WeftError)


@pytest.mark.parametrize("change", [{"moves": "x"}, {"heard": -1}, {"started": 1 << 40}, {"worlds": 3}, {"busy": 1}])
def test_a_state_of_a_host_that_fits_nothing_is_refused_when_it_comes(change: dict[str, object]) -> None:
    good = {**dict.fromkeys(hosts.FLAGS, True), "worlds": {"7": [3, 3]}, "moves": 5, "started": 3, "heard": 1}
    assert hosts.check_state(good) == good
    with pytest.raises(ProtocolError, match=r"."):
        hosts.check_state({**good, **change})


@pytest.mark.parametrize(
    "text",
    [
        "level = [1]", '[probe.x]\narrays = {a = 1}', '[loop.x]\niterations = "-"', '[loop.x]\nevery = true',
        f'[loop.x]\niterations = "0:{"9" * 40}"', f"[probe.x]\nevery = 0x{'f' * 5000}", f"level = {'[' * 5000}",
        f"limit = {'9' * 5000}", f'limit = "{"9" * 5000}"', 'limit = "99999999 TB"', '[probe.x]\nranks = "\u0661"',
    ],
)  # fmt: skip
def test_a_configuration_that_means_nothing_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(UsageError, match=r"p\.toml"):
        read_configuration(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text(
        'limit = 5000000000\n[loop.x]\niterations = "-5:"\n[probe.x]\nranks = "0-3,8"\nevery = 2'
    )
    known = read_configuration(tmp_path / "p.toml")
    assert len(known.rules) == 3 and known.limit == 5_000_000_000


def test_a_fortran_source_of_comments_alone_is_marked_with_the_others(tmp_path: Path) -> None:
    program = "      program p\n      end\n"
    for name, text in (("a.fdv", "C     nothing\n"), ("b.fdv", program)):
        (tmp_path / name).write_text(text)
    assert len(fortran.instrument_fortran_sources([tmp_path / "a.fdv", tmp_path / "b.fdv"], SourceMap("fortran"))) == 2
    assert len(fortran.instrument_fortran_sources([tmp_path / "a.fdv"], SourceMap("fortran"))) == 1


def test_bytes_that_are_no_letters_before_a_directive_move_no_place(tmp_path: Path) -> None:
    source = tmp_path / "a.cdv"
    source.write_bytes(b"int x; /* \xff */ int main(void) { return y(1); }\n#pragma dvm wrong\n")
    with pytest.raises(UsageError, match=r"a\.cdv:2"):
        c.instrument_c_sources([source], SourceMap("c"))


def test_an_order_of_tasks_is_read_as_far_as_it_is_one(tmp_path: Path) -> None:
    file = tmp_path / "order"
    head = json.dumps({"schema": SCHEMA}) + "\n"
    file.write_text(head + "0 main.1\n0 main\n1 !0.f.1\n0 main.")  # killed as it wrote
    schedule.check_schedule_file("replay", str(file), "asyncio")
    assert read_schedule(str(file)) == {0: ["main.1", "main"], 1: ["!0.f.1"]}
    for wrong in ("x main\n", "\u0661 main\n", "9" * 5000 + " main\n", "0 " + "a" * (1 << 17)):
        file.write_text(head + wrong)
        with pytest.raises(ValueError, match="line 2 is damaged"):
            read_schedule(str(file))


@pytest.mark.parametrize("text", ["", "[" * 100_000, "7\n", "\n"])
def test_what_is_no_order_of_tasks_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "order"
    file.write_text(text)
    with pytest.raises(UsageError, match="did not write this file"):
        schedule.check_schedule_file("replay", str(file), "asyncio")
    with pytest.raises(ValueError, match="did not write this file"):
        read_schedule(str(file))


@pytest.mark.parametrize("runtime", ["asyncio", "openmp"])
def test_an_order_of_tasks_of_another_version_is_refused(tmp_path: Path, runtime: Literal["asyncio", "openmp"]) -> None:
    file = tmp_path / "order"
    for version, why in (("2", "it is of version 2, and this Weft reads version 1: record the order again"), ("1", "")):
        file.write_text(json.dumps({"schema": f"weft-schedule/{version}", "runtime": runtime}) + "\n")
        with pytest.raises(UsageError, match=why) if why else nullcontext():
            schedule.check_schedule_file("replay", str(file), runtime)
        with pytest.raises(ValueError, match=why) if why else nullcontext():
            read_schedule(str(file))


def test_a_pipe_in_the_place_of_an_order_of_tasks_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "order")
    with pytest.raises(UsageError, match="did not write this file"):
        schedule.check_schedule_file("replay", str(tmp_path / "order"), "openmp")


def test_calls_that_wait_for_each_other_in_a_circle_are_not_taken_one_by_one_for_ever() -> None:
    b = Builder(ranks=2)
    for rank, other in ((0, 1), (1, 0)):
        b.ranks[rank].init()
        b.ranks[rank].recv(other, got=other)
        b.ranks[rank].send(other)
        b.ranks[rank].finalize()
    trace = b.open()
    plans, cut = replay.make_plans(trace, argparse.Namespace(until=[], breaks=[], latest=False, force=None))
    with pytest.raises(UsageError, match="in a circle"):
        replay.make_conductor(trace, plans, cut)


def test_a_pickled_object_whose_parts_are_in_it_over_and_over_is_shown_in_its_begin() -> None:
    """Two hundred bytes that are written as 2 to the power of 40 parts."""
    parts: object = [1]
    for _ in range(40):
        parts = [parts, parts]
    shown = payload.unpickle_object(pickle.dumps(parts))
    assert shown is not None
    assert str(shown["object"]).startswith("[[[[[...], [...]], ")
    assert payload.unpickle_object(pickle.dumps({"a": (1, {2}), "b": [None]})) == {
        "object": "{'a': (1, {2}), 'b': [None]}",
        "more": 0,
    }
