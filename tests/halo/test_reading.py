"""Logs of ghost cells that are damaged, or made to harm: what comes before is read, nothing large is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.halo import log_reader
from weft.halo.log import HEAD, MAGIC, NUMBER, READ
from weft.native.headers.halo_kinds import HaloKind as Kind
from weft.trace.sites import CallSite

PART: dict[str, Any] = {
    "id": 0, "of": "u", "at": ["a.py", 3, "main"], "shape": [6, 5], "strides": [40, 8], "halo": [[1, 1], [1, 1]],
    "lower": None, "whole": None, "periodic": None, "lag": 0,
    "grid": {"dims": [2, 1], "coordinates": [0, 0], "periods": [False, False]},
}  # fmt: skip
READS = [{"part": 0, "cells": [0, [4, 3], [40, 8]], "at": ["a.py", 7, "main"]}]
USE: dict[str, Any] = {"id": 0, "part": 0, "what": "store", "at": ["a.py", 7, "main"], "cells": [48, [4, 3], [40, 8]],
                       "computed": True, "reads": READS}  # fmt: skip


def record(kind: int, payload: bytes) -> bytes:
    return HEAD.pack(kind, len(payload), 1) + payload


def facts(kind: Kind, fields: dict[str, Any]) -> bytes:
    return record(kind, json.dumps(fields).encode())


def taken(data: bytes) -> tuple[list[Kind], str]:
    """The kinds of what is read, and the problem."""
    from weft.halo.rank_history import RankHistory

    class Nobody:
        index = 0

        def __len__(self) -> int:
            return 5

        def site(self, number: int) -> CallSite:
            return CallSite("a.c", number, "main")

    story = RankHistory(Nobody(), "a.halo", data)  # type: ignore[arg-type]
    found = [Kind.PART] * len(story.parts) + [Kind.USE] * len(story.uses) + [Kind.RUN] * len(story.done)
    return found + [Kind.GHOSTS] * sum(map(len, story.ghosts.values())), story.problem


GHOSTS = record(Kind.GHOSTS, NUMBER.pack(0, 0) + np.zeros(18, np.float32).tobytes())
RUN = record(Kind.RUN, NUMBER.pack(0, 1) + READ.pack(1, 1, 0))
WHOLE = MAGIC + facts(Kind.PART, PART) + GHOSTS + facts(Kind.USE, USE) + RUN


def test_a_whole_file_is_read() -> None:
    assert taken(WHOLE) == ([Kind.PART, Kind.USE, Kind.RUN, Kind.GHOSTS], "")
    assert taken(WHOLE + RUN[:-3])[1] == "", "the process was killed while it wrote"


def test_a_use_of_a_native_program_has_pairs_and_the_numbers_of_sites() -> None:
    native = {**USE, "at": 7, "cells": {"places": [6]}, "computed": None}
    data = facts(Kind.USE, {**native, "reads": [{"part": 0, "at": 8, "pairs": [[1, 6], [5, 6]]}]})
    assert taken(MAGIC + facts(Kind.PART, PART) + GHOSTS + data + RUN) == taken(WHOLE)


@pytest.mark.parametrize("data", [b"", b"another file", b"WEFTHAL0"])
def test_another_file_is_told(data: bytes) -> None:
    assert "is not a file of ghost cells" in taken(data)[1]


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [1 << 39, 1 << 39]}, {"shape": []}, {"shape": "ab"}, {"shape": [6.5, 5]}, {"shape": [6, -5]},
        {"strides": [0, 0]}, {"strides": [8, 8]}, {"halo": [[3, 3], [1, 1]]}, {"halo": [[1, 1]]}, {"halo": 3},
        {"lower": [1]}, {"lag": "much"}, {"at": 3}, {"grid": {}}, {"id": [1]},
        {"grid": {"dims": [2], "coordinates": [1 << 39], "periods": []}},
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_is_told_with_its_place(change: dict[str, Any]) -> None:
    found, problem = taken(MAGIC + facts(Kind.PART, {**PART, **change}) + GHOSTS)
    assert found in ([], [Kind.PART])  # the largest is one, of which nothing is made
    assert problem.startswith("a.halo is damaged from byte "), problem


@pytest.mark.parametrize(
    "change",
    [
        {"part": 7}, {"cells": [0, [7, 3], [40, 8]]}, {"cells": [-8, [1], [8]]}, {"cells": [0, [1 << 35], [0]]},
        {"cells": [0, [2, 2], [8]]}, {"cells": {"places": [30]}}, {"cells": {"places": [-1]}}, {"cells": {"places": 3}},
        {"reads": 5}, {"reads": [{}]}, {"reads": [{**READS[0], "cells": [1000, [1], [8]]}]}, {"at": []}, {"id": "x"},
        {"reads": [{**READS[0], "pairs": [[30, 0]]}]}, {"reads": [{**READS[0], "pairs": [[0, -1]]}]},
        {"reads": [{**READS[0], "pairs": [[1]]}]}, {"at": -1}, {"at": True},
    ],
)  # fmt: skip
def test_a_use_that_cannot_be_is_told_with_its_place(change: dict[str, Any]) -> None:
    before = MAGIC + facts(Kind.PART, PART) + GHOSTS
    found, problem = taken(before + facts(Kind.USE, {**USE, **change}) + RUN)
    assert found == [Kind.PART, Kind.GHOSTS]
    assert problem == f"a.halo is damaged from byte {len(before):,} on: Weft reads only what comes before"


@pytest.mark.parametrize(
    "more",
    [
        record(Kind.RUN, NUMBER.pack(9, 1) + READ.pack(1, 1, 0)), record(Kind.RUN, NUMBER.pack(0, 1)),
        record(Kind.RUN, NUMBER.pack(0, 1) + b"abc"), record(Kind.RUN, b"x"), record(77, b""),
        record(Kind.GHOSTS, NUMBER.pack(0, 0) + bytes(4)), record(Kind.OWNED, NUMBER.pack(5, 0) + bytes(4)),
        record(Kind.GHOSTS, NUMBER.pack(0, 0) + bytes(71)), record(Kind.USE, b"[" * 100_000), record(Kind.PART, b"1"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_ends_the_file(more: bytes) -> None:
    found, problem = taken(WHOLE + more + RUN)
    assert found == [Kind.PART, Kind.USE, Kind.RUN, Kind.GHOSTS]
    assert problem == f"a.halo is damaged from byte {len(WHOLE):,} on: Weft reads only what comes before"


def test_as_many_values_are_wanted_as_are_written() -> None:
    from weft.halo.cell_geometry import make_edge_mask

    for shape, halo in (((6, 5), ((1, 1), (1, 1))), ((9,), ((2, 0),)), ((4, 4, 7), ((1, 1), (0, 0), (2, 3)))):
        part = log_reader.parse_part(0, {
            **PART, "shape": list(shape), "halo": [list(one) for one in halo],
            "strides": [8 * int(np.prod(shape[k + 1 :])) for k in range(len(shape))],
        })  # fmt: skip
        assert log_reader.count_values(Kind.OWNED, part) == make_edge_mask(shape, halo).sum()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "MOST", 1000)


@pytest.mark.usefixtures("small")
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "halo").mkdir()
    with (tmp_path / "halo" / "a.halo").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(log_reader.Damaged, match=r"a\.halo is larger than a rank writes"):
        log_reader.read_log(tmp_path / "halo" / "a.halo", tmp_path)


def test_a_file_that_leads_out_of_the_run_is_not_read(tmp_path: Path) -> None:
    from weft.errors import RunError

    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_bytes(WHOLE)
    (tmp_path / "run" / "a.halo").symlink_to(tmp_path / "secret")
    with pytest.raises(RunError, match="outside the run"):
        log_reader.read_log(tmp_path / "run" / "a.halo", tmp_path / "run")
