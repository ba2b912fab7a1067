"""`weft dap` on ranks of C, C++ and Fortran: gdb looks into them, the editor sees the same as of Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dap.client import Body, Client, Refused
from dap.conftest import PROGRAMS, SQUARES, Recorded

pytestmark = pytest.mark.usefixtures("gdb")
Start = Callable[..., Client]
Record = Callable[[Path], Recorded]


def values(parts: dict[str, Body]) -> dict[str, str]:
    return {name: one["value"] for name, one in parts.items()}


def held_to_the_squares(editor: Client, run: Recorded, add: str, square: str) -> None:
    """A breakpoint in a loop, steps over and into functions, back, on all of 4 ranks."""
    stop = editor.launch(run=str(run.run), breakpoints={run.source: [{"line": run.here, "condition": "k == 3"}]})
    assert stop["reason"] == "breakpoint"
    for rank in (0, 2):
        assert editor.place(rank + 1) == (add, run.here)
        here = editor.variables(rank + 1)
        assert (here["n"]["value"], here["total"]["value"]) == (str(4 + rank), "5")
    assert editor.go("stepIn", 3)["reason"] == "step"
    assert [frame["name"] for frame in editor.frames(3)][:2] == [square, add]
    assert editor.go("stepOut", 3)["threadId"] == 3
    assert editor.place(3)[0] == add
    line = editor.place(3)[1]
    editor.go("stepBack", 3)
    assert editor.place(3) in [(add, line - 1), (add, run.here)]
    assert editor.variables(3)["total"]["value"] in ("5", "14")


@pytest.mark.matrix
def test_ranks_of_c(client: Start, recorded: Record) -> None:
    editor = client()
    held_to_the_squares(editor, recorded(SQUARES / "squares.c"), "add", "square")
    editor.breakpoints(SQUARES / "squares.c")
    editor.go("continue")
    assert editor.output() == "[rank 0] all 316\n"


def test_log_points_of_native_ranks_stop_nobody(client: Start, recorded: Record) -> None:
    run = recorded(SQUARES / "squares.c")
    source = run.source.read_text().splitlines()
    inner = next(n for n, line in enumerate(source, 1) if "return result" in line)
    editor = client()
    editor.launch(run=str(run.run), breakpoints={run.source: [{"line": run.here, "condition": "k == 3"}]})
    editor.breakpoints(run.source, {"line": inner, "logMessage": "k is {k}, {nothing}", "condition": "k > 2"})
    assert editor.go("next", 3)["reason"] == "step"
    assert editor.place(3)[0] == "add"
    assert "[rank 2] k is 3, " in editor.output("console")
    assert 'No symbol "nothing" in current context' in editor.output("console")
    stop = editor.go("continue")
    assert stop["reason"] == "pause" and "has ended" in stop["text"]


@pytest.mark.matrix
def test_ranks_of_fortran(client: Start, of_fortran: Record) -> None:
    held_to_the_squares(client(), of_fortran(SQUARES / "squares.f90"), "sums::add", "sums::square")


@pytest.mark.matrix
def test_values_of_cpp_open_into_members_elements_and_targets(client: Start, recorded: Record) -> None:
    run = recorded(PROGRAMS / "parcels.cpp")
    editor = client()
    editor.launch(run=str(run.run), breakpoints={run.source: [run.here]})
    here = editor.variables(3)
    assert here["got"]["value"] == "1"
    parcel = editor.parts(here["parcel"]["variablesReference"])
    assert values(editor.parts(parcel["label"]["variablesReference"])) == {"id": "2", "name": '"from 2"'}
    assert values(editor.parts(parcel["items"]["variablesReference"])) == {"[0]": "0.5", "[1]": "1.5"}
    row = editor.parts(parcel["weights"]["variablesReference"])["[1]"]
    assert values(editor.parts(row["variablesReference"])) == {"[0]": "4", "[1]": "5", "[2]": "6.5"}
    assert values(editor.parts(parcel["to"]["variablesReference"])) == {"id": "102", "name": '"there"'}
    same = editor.parts(here["same"]["variablesReference"])  # a reference is what it refers to
    assert values(editor.parts(same["label"]["variablesReference"]))["id"] == "2"
    label = parcel["label"]["variablesReference"]
    assert editor.ask("setVariable", variablesReference=label, name="id", value="40")["value"] == "40"
    items = parcel["items"]["variablesReference"]
    assert editor.ask("setVariable", variablesReference=items, name="[1]", value="9.25")["value"] == "9.25"
    editor.go("next", 3)
    assert editor.variables(3)["got"]["value"] == "41"


def test_values_of_fortran_open_into_components_and_sections(client: Start, of_fortran: Record) -> None:
    run = of_fortran(PROGRAMS / "parcels.f90")
    editor = client()
    editor.launch(run=str(run.run), breakpoints={run.source: [run.here]})
    here = editor.variables(3)
    assert here["got"]["value"] == "1"
    mine = editor.parts(here["mine"]["variablesReference"])
    assert mine["id"]["value"] == "2"
    assert values(editor.parts(mine["place"]["variablesReference"])) == {"(1)": "1", "(2)": "2", "(3)": "3"}
    columns = editor.parts(here["weights"]["variablesReference"])
    assert columns.keys() == {"(:,1)", "(:,2)"}
    assert values(editor.parts(columns["(:,1)"]["variablesReference"])) == {"(1)": "1.5", "(2)": "7", "(3)": "1.5"}
    mine = here["mine"]["variablesReference"]
    assert editor.ask("setVariable", variablesReference=mine, name="id", value="40")["value"] == "40"
    editor.go("next", 3)
    assert editor.variables(3)["got"]["value"] == "41"


@pytest.mark.matrix
def test_instructions_are_disassembled_and_a_breakpoint_at_one_holds_in_every_replay(
    client: Start, recorded: Record
) -> None:
    run = recorded(SQUARES / "squares.c")
    editor = client()
    editor.launch(run=str(run.run), breakpoints={run.source: [run.here]})
    frame = editor.frames(3)[0]
    at = frame["instructionPointerReference"]
    about = editor.ask("disassemble", memoryReference=at, instructionOffset=-6, instructionCount=20)["instructions"]
    assert len(about) == 20
    assert about[6]["address"] == at
    assert about[6]["line"] == run.here
    assert about[6]["symbol"].startswith("add+")
    known = [row for row in about if "symbol" in row]
    assert [int(row["address"], 16) for row in known] == sorted(int(row["address"], 16) for row in known)
    before = editor.ask("disassemble", memoryReference=at, instructionOffset=-4000, instructionCount=3)["instructions"]
    assert [row["presentationHint"] for row in before] == ["invalid"] * 3  # nothing is told from before the function

    call = next(row for row in known if row["instruction"].startswith("call") and "square" in row["instruction"])
    offset = int(call["address"], 16) - int(at, 16)
    wanted = {"instructionReference": at, "offset": offset, "condition": "k == 2"}
    [made] = editor.ask("setInstructionBreakpoints", breakpoints=[wanted])["breakpoints"]
    assert made["verified"], made
    editor.breakpoints(run.source)
    for how in ("continue", "restart"):
        if how == "restart":
            editor.ask("restart")
            assert editor.event("stopped")["hitBreakpointIds"] == [made["id"]]
        else:
            stop = editor.go("continue")
            assert (stop["reason"], stop["hitBreakpointIds"]) == ("instruction breakpoint", [made["id"]])
        here = editor.frames(3)[0]["instructionPointerReference"]
        [now] = editor.ask("disassemble", memoryReference=here, instructionCount=1)["instructions"]
        assert now["symbol"] == call["symbol"]
        assert editor.variables(3)["k"]["value"] == "2"
    editor.ask("setInstructionBreakpoints", breakpoints=[wanted | {"condition": ""}])
    editor.go("continue")
    assert editor.variables(3)["k"]["value"] == "3"
    thread = editor.go("reverseContinue", 3)["threadId"]
    assert (editor.place(thread)[0], editor.variables(thread)["k"]["value"]) == ("add", "2")
    assert editor.ask("setInstructionBreakpoints", breakpoints=[])["breakpoints"] == []
    with pytest.raises(Refused, match="this is not the address of an instruction that Weft has shown"):
        editor.ask("disassemble", memoryReference="0x10", instructionCount=1)
