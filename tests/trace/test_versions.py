"""A file of another version is refused in one sentence: which file, of which version, what is read, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from weft.cli.main import main
from weft.errors import OtherVersion
from weft.trace.builder import Builder
from weft.trace.layout import HEADER

REMEDY = "record the run again, or read it with the Weft that wrote it"
MAJOR, MINOR = (HEADER.fields[name][1] for name in ("major", "minor"))  # type: ignore[index]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that reads without a problem."""
    b = Builder(ranks=2, path=tmp_path / "run")
    b.ranks[0].send(1, tag=7)
    b.ranks[1].recv(0, tag=7)
    path = b.write()
    (path / "sites.json").write_text(json.dumps({"schema": "weft-sites/1", "modules": []}))
    return path


def number(file: Path, at: int, version: int) -> None:
    """Write one of the two numbers of a record's version."""
    data = bytearray(file.read_bytes())
    data[at] = version
    file.write_bytes(data)


def test_a_run_of_this_version_is_read(run: Path) -> None:
    trace = weft.open(run)
    assert [len(rank.events) for rank in trace.ranks] == [1, 1]
    assert trace.event(0, 0).site.text == "?"
    assert trace.problems == []


@pytest.mark.parametrize(("at", "version", "said"), [(MAJOR, 3, "3.0"), (MAJOR, 0, "0.0"), (MINOR, 9, "1.9")])
def test_a_run_whose_records_are_of_another_version_is_refused_by_every_command(
    at: int, version: int, said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (run / "ranks").iterdir():
        number(file, at, version)
    assert main(["dump", str(run)]) != 0
    told = capsys.readouterr()
    first = run / "ranks" / "0-000001.weft"
    assert told.out == ""
    assert told.err == f"weft: {first} is of version {said}, and this Weft reads version 1.0 or 2.0: {REMEDY}\n"


def test_one_record_of_another_version_is_left_out_and_named(run: Path) -> None:
    number(run / "ranks" / "0-000001.weft", MINOR, 9)
    trace = weft.open(run)
    assert [rank.missing for rank in trace.ranks] == [False, True]
    assert "0-000001.weft is of version 1.9, and this Weft reads version 1.0 or 2.0" in trace.problems[0]


@pytest.mark.parametrize(("name", "schema"), [("run.json", "weft-run"), ("functions.json", "weft-functions")])
def test_a_run_whose_facts_are_of_another_version_is_refused(name: str, schema: str, run: Path) -> None:
    file = run / name
    facts = json.loads(file.read_text())
    assert facts["schema"] == f"{schema}/1"
    file.write_text(json.dumps({**facts, "schema": f"{schema}/2"}))
    with pytest.raises(OtherVersion) as told:
        weft.open(run)
    assert str(told.value) == f"{file} is of version 2, and this Weft reads version 1: {REMEDY}"


def test_places_of_another_version_are_left_out_and_named(run: Path) -> None:
    file = run / "sites.json"
    file.write_text(json.dumps({"schema": "weft-sites/2", "modules": []}))
    trace = weft.open(run)
    assert trace.event(0, 0).site.text == "?"
    assert trace.problems == [f"{file} is of version 2, and this Weft reads version 1: {REMEDY}"]
