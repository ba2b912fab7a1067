"""A record of which a part is lost: what is left is told, and nothing is concluded from what is not there."""

from __future__ import annotations

from pathlib import Path

import weft
from weft.report import examine
from weft.trace.builder import Builder

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
    assert not examine(weft.open(run)).findings
    file = sorted((run / "ranks").glob("*.weft"))[1]
    whole = file.read_bytes()
    for part in (0.3, 0.6, 0.9):
        file.write_bytes(whole[: int(len(whole) * part)])
        trace = weft.open(run)
        assert trace.problems
        assert trace.ranks[1].state == "damaged"
        assert len(trace.ranks[1]) < len(trace.ranks[0])
        loud = [f.message for f in examine(trace).findings if f.severity != "note"]
        assert loud == []
