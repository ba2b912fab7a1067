"""What the server sends is what the page's JavaScript is typed with (src/weft/view/sent.d.ts): the compiler says so."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import weft
from compare.test_values import written
from machine import need
from view import runs
from weft.compare.values import compare_values
from weft.view.html_export import render_html
from weft.view.run_view import AXES, RunView
from weft.view.server import ANSWERS, OF_OTHERS, OF_VALUES
from weft.view.side_by_side import OtherRuns
from weft.view.value_view import ValueView

pytestmark = pytest.mark.timeout(300)

ROOT: Final = Path(__file__).parents[2]
COMPILER: Final = ROOT / "build" / "page" / "node_modules" / ".bin" / "tsc"
RUNS: Final[list[Callable[[Path], Path]]] = [runs.deadlock, runs.race, runs.crash, runs.dynamics, runs.idle]
TYPES: Final = {
    "run": "Run", "axis": "Axis", "window": "Window", "links": "Links", "message": "MessageFacts", "tip": "Tip",
    "findings": "Findings", "event": "Call", "around": "Around", "at": "Found", "search": "Hit", "tables": "Tables",
    "replay": "Replay", "beside": "Beside",
}  # fmt: skip
"""By question the type of its answer."""

OF_VALUES_TYPES: Final = {
    "values": "Values", "strip": "Strip", "moment": "Moment", "field": "Field", "element": "Element",
}  # fmt: skip
"""The same of the questions about values."""

Answer = tuple[str, Any]
"""A type and a value that must be of it."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[RunView]:
    """Runs that are hung, racing, crashed and whole, analysed."""
    made = [RunView(weft.open(of(tmp_path_factory.mktemp("sent") / of.__name__))) for of in RUNS]
    for picture in made:
        picture.analyse()
    return made


def answers(picture: RunView, named: Path) -> Iterator[Answer]:
    """What the page asks for of a run, and what it is told, by the question's name."""
    for axis in AXES:
        end = str(picture.axis_facts(axis)["end"])
        window = {"axis": axis, "from": "0", "to": end, "lanes": "0|1", "columns": "4000", "filter": "fn:*"}
        yield from asked(picture, window, "axis", "links", "findings", "tables")
        yield "window", unpacked(ANSWERS["window"](picture, window))
        yield from asked(picture, {**window, "row": "0"}, "at")
        yield from asked(picture, {**window, "version": "-1", "written": "0"}, "replay")
        yield "beside", OF_OTHERS["beside"](OtherRuns(picture, named), {"axis": axis, "other": "race"})
        yield from asked(picture, {**window, "near": "0", "row": "-1"}, "search")
        for rank, event in [*calls(picture)]:
            yield from asked(picture, {"axis": axis, "rank": str(rank), "event": str(event)}, "event", "tip", "around")
    yield from asked(picture, {}, "run")
    for message in picture.links_between("time", 0, picture.axis_facts("time")["end"])["messages"]:
        side = "receive" if message.get("kind") == "unmatched-receive" else "send"
        yield from asked(picture, {"axis": "time", "side": side, "row": str(message["row"])}, "message")


def asked(picture: RunView, given: dict[str, str], *names: str) -> Iterator[Answer]:
    """Some of the server's answers."""
    for name in names:
        yield name, ANSWERS[name](picture, given)


def calls(picture: RunView) -> Iterator[tuple[int, int]]:
    """Calls of all kinds: the first of each function on each rank, and the last ones."""
    for rank in picture.trace.ranks:
        first = {rank.event(i).function.name: i for i in reversed(range(len(rank.events)))}
        yield from ((rank.index, i) for i in {*first.values(), len(rank.events) - 1})


def unpacked(data: object) -> dict[str, Any]:
    """The head of packed bytes, and for each of their arrays a plain one."""
    assert isinstance(data, bytes)
    head = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    arrays = head.pop("arrays")
    return {**head, **{name: [] for name, _, _ in arrays}}


def program(told: list[Answer]) -> str:
    """TypeScript that holds only if each value is of its type, with no name too many."""
    values = sorted({(kind, json.dumps(value, default=str)) for kind, value in told})
    lines = [f"export const a{i}: {kind} = {value};" for i, (kind, value) in enumerate(values)]
    names = sorted({kind for kind, _ in values} & {*TYPES.values(), *OF_VALUES_TYPES.values()})
    return f'import type {{ Exported, {", ".join(names)} }} from "weft/sent";\n' + "\n".join(lines)


def complaints(text: str, folder: Path) -> list[str]:
    """What the compiler says of it."""
    need("node")
    if not COMPILER.exists():
        pytest.skip("the TypeScript compiler is not there: make lint-page (needs node and npm)")
    (folder / "answers.ts").write_text(text)
    options = {"noEmit": True, "checkJs": False, "incremental": False, "noUnusedLocals": False}
    config = {"extends": str(ROOT / "jsconfig.json"), "compilerOptions": options, "include": ["answers.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [COMPILER, "--tsBuildInfoFile", "null", "-p", folder], capture_output=True, text=True, timeout=100, check=False
    )
    return sorted({line.partition("error ")[2] for line in done.stdout.splitlines() if "error " in line})


def exported(picture: RunView) -> dict[str, Any]:
    """The data of an exported file."""
    (data,) = re.findall(rb'id="weft-data">([^<]*)<', render_html(picture))
    return unpacked(gzip.decompress(base64.b64decode(data)))


def test_each_question_of_the_server_has_a_type() -> None:
    assert set(TYPES) == {*ANSWERS, *OF_OTHERS}
    assert set(OF_VALUES_TYPES) == set(OF_VALUES)


@pytest.mark.matrix
def test_each_answer_is_of_its_type(pictures: list[RunView], tmp_path: Path) -> None:
    told = [(TYPES[name], value) for picture in pictures for name, value in answers(picture, pictures[1].trace.path)]
    assert {kind for kind, _ in told} == set(TYPES.values())
    assert complaints(program(told), tmp_path) == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", ["values", "hashes"])
def test_each_answer_about_values_is_of_its_type(form: str, tmp_path: Path) -> None:
    traces = [written(tmp_path / str(wrong), form, "0,100,300", wrong) for wrong in (-1, 123)]
    values = ValueView(compare_values(traces[0], traces[1], {}), calls=True)
    asked: list[tuple[str, dict[str, str]]] = [("values", {}), ("strip", {"from": "0", "to": "3", "columns": "2"})]
    asked += [("moment", {"at": str(at)}) for at in range(values.moments)]
    if form == "values":
        field = {"at": "1", "layer": "0", "window": "0:300,0:40", "axes": "0,1", "most": "9,9", "unit": "ulps"}
        asked += [("field", field), *(("element", {**field, "index": index}) for index in ("123,7", "999,7"))]
    answered = [(name, OF_VALUES[name](values, given)) for name, given in asked]
    told = [(OF_VALUES_TYPES[name], unpacked(one) if isinstance(one, bytes) else one) for name, one in answered]
    # An empty list is no array of numbers: what the types of those are is not looked at.
    plain = [(f'Omit<{kind}, "reference" | "run" | "error" | "cells">' if kind in ("Strip", "Field") else kind,
              {name: part for name, part in value.items() if part != [] or kind not in ("Strip", "Field")})
             for kind, value in told]  # fmt: skip
    text = program(plain).replace("import type { Exported,", "import type { Exported, Strip, Field,")
    assert [one for one in complaints(text, tmp_path) if "never used" not in one] == []


@pytest.mark.matrix
def test_an_exported_file_holds_what_its_type_says(pictures: list[RunView], tmp_path: Path) -> None:
    arrays = "Float64Array | Uint32Array | Uint16Array | Uint8Array | Int32Array"
    kind = f"{{ [name in keyof Exported]: Exported[name] extends {arrays} ? never[] : Exported[name] }}"
    told = [(f"Partial<{kind}>", exported(picture)) for picture in pictures]
    assert complaints(program(told), tmp_path) == []


@pytest.mark.matrix
def test_a_wrong_answer_is_told(pictures: list[RunView], tmp_path: Path) -> None:
    run = pictures[0].run_facts()
    (more,) = complaints(program([("Run", {**run, "rank_count": 1})]), tmp_path)
    assert '"rank_count"' in more and "only specify known properties" in more
    del run["ranks"]
    (fewer,) = complaints(program([("Run", run)]), tmp_path)
    assert "'ranks' is missing" in fewer
