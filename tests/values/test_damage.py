"""Damaged files of values: what stands before the damage is read, and the damage is told with its place."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests_support import execute
from weft.compare.values import compare_values
from weft.compare.values.report import render_values, to_json
from weft.errors import OtherVersion, TraceError
from weft.native.headers.value_format import VALUES_PAGE
from weft.values import recording
from weft.values.trace import ValueTrace

PROGRAM = """
import numpy as np, weft
for i in range(20):
    with weft.loop("x", i):
        weft.probe("a", np.arange(5.0) + i)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    library = recording.library()
    variables = {"WEFT_INTERNAL_VALUES": str(folder), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}
    assert execute([sys.executable, "-c", PROGRAM], env=variables).returncode == 0
    [file] = folder.glob("*.values")
    return file.read_bytes()


def opened(folder: Path, data: bytes) -> ValueTrace:
    (folder / "values").mkdir(parents=True)
    (folder / "values" / "a.values").write_bytes(data)
    return ValueTrace.open(folder)


def test_a_whole_file_has_no_problems(whole: bytes, tmp_path: Path) -> None:
    trace = opened(tmp_path, whole)
    assert trace.problems == []
    assert len(trace.processes[0].rows) == 20


@pytest.mark.parametrize("size", [VALUES_PAGE, VALUES_PAGE + 12, VALUES_PAGE + 1000])
def test_a_file_that_is_cut_off_is_read_up_to_there(size: int, whole: bytes, tmp_path: Path) -> None:
    trace = opened(tmp_path, whole[:size])
    assert "a.values is cut off" in trace.problems[0]
    assert len(trace.processes[0].rows) < 20


@pytest.mark.parametrize("data", [b"", b"abc", b"\0" * 10_000])
def test_another_file_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"a\.values (is not a file of values|cannot be read)"):
        opened(tmp_path, data)


@pytest.mark.parametrize(("version", "said"), [(b"\2\0\0\0", "2.0"), (b"\1\0\7\0", "1.7")])
def test_another_version_is_refused(version: bytes, said: str, whole: bytes, tmp_path: Path) -> None:
    with pytest.raises(OtherVersion) as told:
        opened(tmp_path, whole[:8] + version + whole[12:])
    assert str(told.value) == (
        f"{tmp_path / 'values' / 'a.values'} is of version {said}, and this Weft reads version 1.0: "
        "record the run again, or read it with the Weft that wrote it"
    )


def test_a_record_of_a_kind_that_there_is_not_is_damage(whole: bytes, tmp_path: Path) -> None:
    trace = opened(tmp_path, whole[:VALUES_PAGE] + b"\x63" + whole[VALUES_PAGE + 1 :])
    assert trace.problems == [
        f"rank 0: a.values is damaged from byte {VALUES_PAGE:,} on: Weft reads only what comes before"
    ]


def test_a_run_without_values_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no values: the program has no probes"):
        ValueTrace.open(tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_bytes_that_were_changed_are_told_or_harmless(seed: int, whole: bytes, tmp_path: Path) -> None:
    draw = np.random.default_rng(seed)
    data = bytearray(whole)
    for at in draw.integers(VALUES_PAGE, len(whole), 3).tolist():
        data[at] = int(draw.integers(0, 256))
    trace = opened(tmp_path, bytes(data))
    for process in trace.processes:
        for row in range(len(process.rows)):
            one = process.value_at(row)
            values = one.values()
            assert values is None or values.size == one.count
            process.scopes_around(int(process.rows["parent"][row]))
    opened(tmp_path / "whole", whole)
    for pair in ((tmp_path / "whole", tmp_path), (tmp_path, tmp_path / "whole")):
        made = compare_values(ValueTrace.open(pair[0]), ValueTrace.open(pair[1]), {})
        assert list(render_values(made)) and to_json(made)
