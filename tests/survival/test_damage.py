"""A record of which a part is lost: what is left is told, and nothing is concluded from what is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import weft
from weft.report import run_analyses
from weft.trace.builder import Builder
from weft.trace.layout import CHUNK, HEADER, StreamKind

ROUNDS = 3000


def ring(path: Path) -> Path:
    b = Builder(ranks=3, path=path)
    for r in b.ranks:
        r.init()
    for n in range(ROUNDS):
        for k, r in enumerate(b.ranks):
            if k:
                r.recv((k + 2) % 3, tag=n % 7)
            r.send((k + 1) % 3, tag=n % 7)
            if not k:
                r.recv(2, tag=n % 7)
        for r in b.ranks:
            r.allreduce()
    for r in b.ranks:
        r.finalize()
    return b.write()


def test_nothing_is_concluded_from_a_lost_end(tmp_path: Path) -> None:
    run = ring(tmp_path / "run")
    assert not run_analyses(weft.open(run)).findings
    file = sorted((run / "ranks").glob("*.weft"))[1]
    whole = file.read_bytes()
    for part in (0.3, 0.6, 0.9):
        file.write_bytes(whole[: int(len(whole) * part)])
        trace = weft.open(run)
        assert trace.problems
        assert trace.ranks[1].state == "damaged"
        assert len(trace.ranks[1]) < len(trace.ranks[0])
        loud = [f.message for f in run_analyses(trace).findings if f.severity != "note"]
        assert loud == []


def test_a_chunk_that_was_just_added_when_the_process_was_killed_is_no_damage(tmp_path: Path) -> None:
    b = Builder(ranks=1, path=tmp_path / "run")
    b.ranks[0].init()
    run = b.write()
    [file] = (run / "ranks").glob("*.weft")
    for used, damaged in ((0, False), (56, True)):
        raw = bytearray(file.read_bytes())
        header = np.frombuffer(raw, HEADER, 1)[0]
        count, at = int(header["chunk_count"]), HEADER.fields["chunks"][1]  # type: ignore[index]
        chunk = np.array([(StreamKind.OUTCOMES, 0, 1, len(raw), used)], CHUNK)
        raw[at + count * CHUNK.itemsize : at + (count + 1) * CHUNK.itemsize] = chunk.tobytes()
        start = HEADER.fields["chunk_count"][1]  # type: ignore[index]
        raw[start : start + 4] = np.uint32(count + 1).tobytes()
        copy = tmp_path / f"copy-{used}"
        (copy / "ranks").mkdir(parents=True)
        for name in ("run.json", "functions.json"):
            (copy / name).write_bytes((run / name).read_bytes())
        (copy / "ranks" / file.name).write_bytes(raw)
        assert (weft.open(copy).ranks[0].state == "damaged") is damaged
