"""Ways to exchange ghost cells of blocks of rows, and mistakes in them. `ways.py WAY[,WAY...] [wrong] [inferred]`

Lines that are wrong say so: `BUG WAY kind`.
"""

import contextlib
import sys

import numpy as np
from mpi4py import MPI

import weft

WRONG = "wrong" in sys.argv[2:]
world = MPI.COMM_WORLD
ROWS, COLUMNS, STEPS = 8, 10, 6


def field(name, way):
    return weft.part(
        np.zeros((ROWS + 2 * WIDTH, COLUMNS)),
        of=name,
        halo=None if "inferred" in sys.argv[2:] else (WIDTH, 0),
        comm=row,
        lag=int(way == "lag" and not WRONG),
    )


def exchange(x):
    row.Sendrecv(x[-2 * WIDTH : -WIDTH], down, 1, x[:WIDTH], up, 1)
    row.Sendrecv(x[WIDTH : 2 * WIDTH], up, 2, x[-WIDTH:], down, 2)


def relax(new, old, first, last):
    new[first:last, 1:-1] = (
        0.25
        * (
            old[first - 1 : last - 1, 1:-1]  # BUG early buffer-reuse
            + old[first + 1 : last + 1, 1:-1]
            + old[first:last, :-2]
            + old[first:last, 2:]
        )
    )


def jacobi(u, v, renew):
    for _ in range(STEPS):
        renew(u)
        relax(v, u, 1, ROWS + 1)
        u, v = v, u


def begin(x):
    return [
        row.Irecv(x[0], up, 1),
        row.Irecv(x[-1], down, 2),
        row.Isend(x[-2], down, 1),
        row.Isend(x[1], up, 2),
    ]


def overlap(u, v):
    """The inner rows first, while messages are on their way."""
    for _ in range(STEPS):
        requests = begin(u)
        relax(v, u, 2, ROWS)
        MPI.Request.Waitall(requests)
        relax(v, u, 1, 2)
        relax(v, u, ROWS, ROWS + 1)
        u, v = v, u


def early(u, v):
    """The ghosts are read before their receive is complete."""
    for _ in range(STEPS):
        requests = begin(u)
        if not WRONG:
            MPI.Request.Waitall(requests)
        relax(v, u, 1, ROWS + 1)
        MPI.Request.Waitall(requests)
        u, v = v, u


def changed(u, v):
    """What is sent is changed before it is."""
    for _ in range(STEPS):
        requests = begin(u)
        if not WRONG:
            MPI.Request.Waitall(requests)
        u[1] += 1.0  # BUG changed buffer-reuse
        MPI.Request.Waitall(requests)
        exchange(u)
        relax(v, u, 1, ROWS + 1)
        u, v = v, u


def persistent(u, v):
    def made(x):
        return [
            row.Recv_init(x[0], up, 1),
            row.Recv_init(x[-1], down, 2),
            row.Send_init(x[-2], down, 1),
            row.Send_init(x[1], up, 2),
        ]

    of = {id(x): made(x) for x in (u, v)}
    for step in range(STEPS):
        if not (WRONG and step > 2):
            MPI.Prequest.Startall(of[id(u)])
            MPI.Request.Waitall(of[id(u)])
        v[1:-1, 1:-1] = 0.5 * (u[:-2, 1:-1] + u[2:, 1:-1])  # BUG persistent stale-halo-read
        u, v = v, u
    for request in (*of[id(u)], *of[id(v)]):
        request.Free()


def subarrays(u, v):
    """Types in place of slices."""
    shape = list(u.shape)

    def rows(first):
        return MPI.DOUBLE.Create_subarray(shape, [1, COLUMNS], [first, 0]).Commit()

    types = [rows(k) for k in (0, 1, ROWS, ROWS + 1)]
    first, last = (types[0], types[3]) if not WRONG else (types[3], types[0])
    for _ in range(STEPS):
        row.Sendrecv([u, 1, types[2]], down, 1, [u, 1, first], up, 1)
        row.Sendrecv([u, 1, types[1]], up, 2, [u, 1, last], down, 2)
        v[1:-1, 1:-1] = 0.5 * (u[:-2, 1:-1] + u[2:, 1:-1])  # BUG subarrays remote-access
        u, v = v, u
    for one in types:
        one.Free()


def neighbours(u, v):
    """A collective of neighbours, on a ring: the halves of what comes are taken the wrong way round."""
    for _ in range(STEPS):
        out, back = np.stack([u[1], u[-2]]), np.empty((2, COLUMNS))
        row.Neighbor_alltoall(out, back)
        if WRONG and row.rank == 1:
            back = back[::-1]
        u[0], u[-1] = back[0], back[1]
        v[1:-1, 1:-1] = 0.5 * (u[:-2, 1:-1] + u[2:, 1:-1])  # BUG neighbours remote-access
        u, v = v, u


def objects(u, v):
    """Arrays as objects of Python."""

    def renew(x):
        above = row.sendrecv(x[-2], dest=down, source=up)
        below = row.sendrecv(x[1], dest=up, source=down)
        if above is not None:
            x[0] = above
        if below is not None and not WRONG:
            x[-1] = below

    for _ in range(STEPS):
        renew(u)
        v[1:-1, 1:-1] = 0.5 * (u[:-2, 1:-1] + u[2:, 1:-1])  # BUG objects remote-access
        u, v = v, u


def colours(u, v):
    """Red cells, then black ones, in place; each half sweep needs the other colour of the neighbours."""
    first = ROWS * row.rank
    exchange(u)
    for _ in range(STEPS):
        for colour in (0, 1):
            for k in range(1, ROWS + 1):
                j = 1 + (first + k + colour) % 2
                u[k, j:-1:2] = (
                    0.25
                    * (
                        u[k - 1, j:-1:2]  # BUG colours stale-halo-read
                        + u[k + 1, j:-1:2]
                        + u[k, j - 1 : -2 : 2]
                        + u[k, j + 1 :: 2][: u[k, j:-1:2].size]
                    )
                )
            if not (WRONG and colour == 0):
                exchange(u)
            row.allreduce(1)


def in_place(u, v):
    """Gauss and Seidel within a rank, Jacobi between them."""
    for step in range(STEPS):
        if not (WRONG and step == 3):
            exchange(u)
        for k in range(1, ROWS + 1):
            u[k, 1:-1] = 0.5 * (u[k - 1, 1:-1] + u[k + 1, 1:-1])  # BUG in-place stale-halo-read


def wavefront(u, v):
    """Each rank waits for the new values of the one above it."""
    exchange(u)
    for step in range(STEPS):
        if not (WRONG and step > 2):
            row.Recv(u[0], up, 1)
        for k in range(1, ROWS + 1):
            u[k, 1:-1] = 0.5 * (u[k - 1, 1:-1] + u[k + 1, 1:-1])  # BUG wavefront stale-halo-read
        if not (WRONG and step > 2):
            row.Send(u[-2], down, 1)
        row.Sendrecv(u[1], up, 2, u[-1], down, 2)


def every_second(u, v):
    """Two ghost rows, of which one is computed here, too; renewed every second step, wrongly every third."""
    for step in range(2 * STEPS):
        if step % (3 if WRONG else 2) == 0:
            exchange(u)
        v[1:-1, 1:-1] = (
            0.25
            * (  # nothing beyond is known: what is computed of it is not used
                u[:-2, 1:-1]  # BUG every-second stale-halo-read
                + u[2:, 1:-1]
                + u[1:-1, :-2]
                + u[1:-1, 2:]
            )
        )
        u, v = v, u


def lagging(u, v):
    """Ghosts may be one step old, by design or not."""
    exchange(u)
    exchange(v)
    for step in range(STEPS):
        v[1:-1, 1:-1] = 0.5 * (u[:-2, 1:-1] + u[2:, 1:-1])  # BUG lag stale-halo-read
        row.allreduce(float(step))
        u[1:-1] = v[1:-1]
        if step % 2:
            exchange(u)


def measured(u, v):
    """Copies, norms and prints over all that a rank has, ghosts too."""
    for _ in range(STEPS):
        exchange(u)
        old = u.copy()
        relax(u, old, 1, ROWS + 1)
        error = np.max(np.abs(u - old)), np.sum(u), float(np.linalg.norm(u)), np.isfinite(u).all()
        row.allreduce(float(error[0]))
        v[...] = 0.5 * u + old
        u *= 1.0
        if WRONG:
            v[1:-1, 1:-1] = 0.5 * (u[:-2, 1:-1] + u[2:, 1:-1])  # BUG measured stale-halo-read
    assert str(u).startswith("[[") and type(u.max()) is np.float64


def reduced(u, v):
    """The sum of all is used before it is there."""
    total = weft.part(np.zeros(4), of="total", halo=0, comm=row)
    for _ in range(STEPS):
        mine = np.array(u[1:-1, 1:5]).sum(axis=0)
        request = row.Iallreduce(mine, total)
        if not WRONG:
            request.Wait()
        u[1:-1, 1:5] += 1e-3 * total  # BUG reduced early-reduction-use
        request.Wait()


def largest(u, v):
    """The largest of all, at its own place, or where the call does not take that."""
    total = weft.part(np.zeros(4), of="total", halo=0, comm=row)
    row.Set_errhandler(MPI.ERRORS_RETURN)
    for step in range(STEPS):
        total[:] = u[1, 1:5] + step
        with contextlib.suppress(MPI.Exception):
            row.Allreduce(total if WRONG else MPI.IN_PLACE, total, MPI.MAX)  # BUG largest invalid-argument


ways = {
    "jacobi": lambda u, v: jacobi(u, v, exchange), "ring": lambda u, v: jacobi(u, v, exchange), "overlap": overlap,
    "early": early, "changed": changed, "persistent": persistent, "subarrays": subarrays, "neighbours": neighbours,
    "objects": objects, "colours": colours, "in-place": in_place, "wavefront": wavefront,
    "every-second": every_second, "lag": lagging, "measured": measured, "reduced": reduced, "largest": largest,
}  # fmt: skip
for way in sys.argv[1].split(","):
    row = world.Create_cart([world.size], [way in ("ring", "neighbours")])
    up, down = row.Shift(0, 1)
    WIDTH = 2 if way == "every-second" else 1
    one, two = field("u", way), field("v", way)
    one[WIDTH:-WIDTH] = np.random.default_rng(row.rank).random((ROWS, COLUMNS)) + 1
    ways[way](one, two)
    row.Free()
