"""Synthetic runs for the view: programs whose clocks fit together, of any number of ranks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from weft.trace.builder import Builder
from weft.trace.layout import State

US = 1000
SOURCE = """\
from mpi4py import MPI

world = MPI.COMM_WORLD


def exchange(rod, left, right):
    requests = [world.Irecv(rod[:1], left, tag=1), world.Irecv(rod[-1:], right, tag=2)]
    requests += [world.Isend(rod[1:2], left, tag=2), world.Isend(rod[-2:-1], right, tag=1)]
    MPI.Request.Waitall(requests)


def converged(rod):
    return world.allreduce(float(rod.max()), MPI.MAX) < 1e-6


def last_word(rod, left):
    world.Recv(rod[:1], source=left, tag=17)
"""


class Program:
    """A program of several ranks, each with its own clock."""

    def __init__(self, path: Path, ranks: int, ended: str = "finished", seed: int = 1) -> None:
        self.b = Builder(ranks=ranks, path=path, ended=ended)
        self.random = random.Random(seed)
        self.file = str(path / "halo.py")
        path.mkdir(parents=True, exist_ok=True)
        Path(self.file).write_text(SOURCE)
        self.clock = [self.random.randrange(40, 400) * US for _ in range(ranks)]
        for r, rank in enumerate(self.b.ranks):
            rank.init(**self.times(r, self.clock[r] + 900 * US))
        self.collective([0] * ranks, lambda rank, kw: rank.barrier(**kw))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.b.ranks)

    def times(self, r: int, end: int) -> dict[str, int]:
        """Times of a call of rank r from now to `end`."""
        start, self.clock[r] = self.clock[r], end + 300
        return {"enter": start, "exit": end}

    def work(self, mean: int, slow: dict[int, float] | None = None) -> None:
        """Everybody computes for a while."""
        for r in range(self.size):
            self.clock[r] += int(mean * (0.7 + 0.6 * self.random.random()) * (slow or {}).get(r, 1.0))

    def collective(self, lines: list[int], call, ranks=None) -> None:  # type: ignore[no-untyped-def]
        """All of `ranks` meet."""
        members = range(self.size) if ranks is None else ranks
        end = max(self.clock[r] for r in members) + 6 * US
        for r in members:
            site = (self.file, lines[r], "converged") if lines[r] else None
            call(self.b.ranks[r], {**self.times(r, end + self.random.randrange(2 * US)), "site": site})

    def exchange(self, tag: int = 0) -> None:
        """Each rank gives its neighbours a message."""
        n, sent, requests = self.size, list[int](), list[list[object]]()
        for r, rank in enumerate(self.b.ranks):
            left, right = (r - 1) % n, (r + 1) % n
            more: dict[str, Any] = {"site": (self.file, 7, "exchange"), "count": 128}
            mine = [rank.irecv(peer, way + tag, **self.times(r, self.clock[r] + 500), **more, buffer=way * 4096)
                    for peer, way in ((left, 1), (right, 2))]  # fmt: skip
            sent.append(self.clock[r])
            more["site"] = (self.file, 8, "exchange")
            mine += [rank.isend(peer, way + tag, **self.times(r, self.clock[r] + 900), **more, buffer=way << 16)
                     for peer, way in ((left, 2), (right, 1))]  # fmt: skip
            requests.append(mine)
        for r, rank in enumerate(self.b.ranks):
            end = max(self.clock[r], sent[(r - 1) % n] + 4 * US, sent[(r + 1) % n] + 4 * US) + 2 * US
            rank.waitall(requests[r], **self.times(r, end), site=(self.file, 9, "exchange"))

    def agree(self) -> None:
        """An Allreduce of all."""
        self.collective([13] * self.size, lambda rank, kw: rank.allreduce(count=1, datatype="MPI_DOUBLE", **kw))

    def finish(self) -> Path:
        """All ranks finalize."""
        self.collective([0] * self.size, lambda rank, kw: rank.finalize(**kw))
        return self.b.write()


def halo(path: Path, ranks: int = 4, steps: int = 12) -> Path:
    """A halo exchange without a fault; one rank is slower than the others."""
    p = Program(path, ranks)
    for step in range(steps):
        p.work(60 * US, {ranks // 2: 1.6})
        p.exchange()
        if step % 4 == 3:
            p.agree()
    return p.finish()


def deadlock(path: Path, ranks: int = 4, steps: int = 6) -> Path:
    """After some steps one rank waits for a tag that its neighbour did not send; the others reduce."""
    p = Program(path, ranks, ended="deadlock")
    for step in range(steps):
        p.work(60 * US)
        p.exchange()
        if step % 3 == 2:
            p.agree()
    p.work(40 * US)
    stuck = min(2, ranks - 1)
    left = stuck - 1
    p.b.ranks[left].send(stuck, 7, **p.times(left, p.clock[left] + 3 * US), site=(p.file, 16, "last_word"), count=128)
    for r, rank in enumerate(p.b.ranks):
        if r == stuck:
            rank.open.recv(left, 17, enter=p.clock[r], site=(p.file, 17, "last_word"), count=128)
        else:
            rank.open.allreduce(enter=p.clock[r], site=(p.file, 13, "converged"), datatype="MPI_DOUBLE")
    return p.b.write()


def crash(path: Path, ranks: int = 4) -> Path:
    """One rank dies between two calls; the others are in a receive from it, or elsewhere."""
    p = Program(path, ranks, ended="crashed")
    for _ in range(3):
        p.work(60 * US)
        p.exchange()
    p.work(30 * US)
    for r, rank in enumerate(p.b.ranks):
        if r == 1:
            rank.state = State.RUNNING
            continue
        rank.open.barrier(enter=p.clock[r], site=(p.file, 13, "converged"))
    return p.b.write()


def race(path: Path, ranks: int = 4) -> Path:
    """Rank 0 takes results of any source in the order in which they come."""
    p = Program(path, ranks)
    for turn in range(3):
        p.work(80 * US)
        order = list(range(1, ranks))
        p.random.shuffle(order)
        for r in order:
            p.clock[r] = max(p.clock[r], p.clock[0] + p.random.randrange(5, 60) * US)
        order.sort(key=lambda r: p.clock[r])
        for r in order:
            sent = p.clock[r]
            p.b.ranks[r].send(0, 3, **p.times(r, sent + 2 * US), site=(p.file, 8, "worker"))
            p.b.ranks[0].recv(tag=3, got=r, got_tag=3, **p.times(0, max(p.clock[0], sent) + 4 * US),
                              site=(p.file, 7 + turn % 2, "master"))  # fmt: skip
        p.collective([13] * ranks, lambda rank, kw: rank.barrier(**kw))
    return p.finish()


C_SOURCE = """\
#include <mpi.h>
/* One step of a simulation: faces go to the neighbours along each axis. */
static int sendReceive(void *out, int size, int to, void *in, int room, int from)
{
   MPI_Status status;
   int bytes;
   MPI_Sendrecv(out, size, MPI_BYTE, to, 0,
                in, room, MPI_BYTE, from, 0, MPI_COMM_WORLD, &status);
   MPI_Get_count(&status, MPI_BYTE, &bytes);
   return bytes;
}

double kinetic(double mine)
{
   double all;
   MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* the energy of all atoms together */
   return all;
}
"""


def dynamics(path: Path, steps: int = 6) -> Path:
    """Four ranks in a square that swap faces along both axes at each step, as molecular dynamics does; one is slow."""
    p = Program(path, 4)
    p.file = str(path / "halo.c")
    Path(p.file).write_text(C_SOURCE)
    for step in range(steps):
        p.work(90 * US, {3: 1.7})
        for axis in (1, 2, 1, 2):
            began = list(p.clock)
            for r, rank in enumerate(p.b.ranks):
                other = r ^ axis
                end = max(began[r], began[other]) + 7 * US
                rank.sendrecv(other, other, count=3456 + 96 * step, datatype="MPI_BYTE", got=other, got_tag=0,
                              **p.times(r, end), site=(p.file, 7, "sendReceive"))  # fmt: skip
                rank.call("MPI_Get_count", count=3456, datatype="MPI_BYTE", **p.times(r, p.clock[r] + 200),
                          site=(p.file, 9, "sendReceive"))  # fmt: skip
        if step % 3 == 2:
            p.collective([16] * 4, lambda rank, kw: rank.allreduce(count=1, datatype="MPI_DOUBLE", **kw))
    return p.finish()


def idle(path: Path, ranks: int = 3) -> Path:
    """Two busy stretchs with a long one between, in which nobody calls."""
    p = Program(path, ranks)
    p.exchange()
    for r in range(ranks):
        p.clock[r] += 500_000 * US
    p.exchange()
    return p.finish()
