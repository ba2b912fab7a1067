"""Right programs of other forms: all are silent."""

import numpy as np
from mpi4py import MPI

import weft

world = MPI.COMM_WORLD
up = world.rank - 1 if world.rank else MPI.PROC_NULL
down = world.rank + 1 if world.rank < world.size - 1 else MPI.PROC_NULL
N = 10


def exchange(x):
    world.Sendrecv(x[-2:-1], down, 0, x[:1], up, 0)
    world.Sendrecv(x[1:2], up, 1, x[-1:], down, 1)


def field(name=None, n=N):
    x = weft.part(np.zeros(n + 2), halo=1, comm=world, of=name)
    x[1:-1] = np.random.default_rng(world.rank).random(n)
    return x


def copies(u):
    """A new array in each step."""
    for _ in range(8):
        exchange(u)
        new = u.copy()
        new[1:-1] = 0.5 * (u[:-2] + u[2:])
        u[:] = new


def elements(u):
    """One element after the other, from a copy and in place."""
    for _ in range(4):
        exchange(u)
        old = u.copy()
        for i in range(1, N + 1):
            u[i] = 0.5 * (old[i - 1] + old[i + 1])
    for _ in range(4):
        exchange(u)
        for i in range(1, N + 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1])


def conjugate_gradients(p):
    r = np.array(p[1:-1])
    rr = world.allreduce(float(r @ r))
    for _ in range(6):
        exchange(p)
        q = 2.1 * p[1:-1] - p[:-2] - p[2:]
        alpha = rr / world.allreduce(float(np.dot(p[1:-1], q)))
        r -= np.asarray(alpha * q)
        new = world.allreduce(float(r @ r))
        p[1:-1] = r + new / rr * p[1:-1]
        rr = new


def levels(_):
    """Three moments of a wave in one array, ghosts as objects of Python."""
    w = weft.part(np.zeros((3, N + 2)), halo=(0, 1), comm=world, of="w")
    w[:2, 1:-1] = np.random.default_rng(world.rank).random(N)
    for k in range(1, 8):
        now = w[k % 3]
        for source, goal, mine, ghost in ((up, down, -2, 0), (down, up, 1, -1)):
            got = world.sendrecv(float(now[mine]), dest=goal, source=source)
            if got is not None:
                now[ghost] = got
        w[(k + 1) % 3, 1:-1] = 2 * now[1:-1] - w[(k - 1) % 3, 1:-1] + 0.1 * (now[:-2] - 2 * now[1:-1] + now[2:])


def grids(_):
    """Coarser and coarser grids, of one name."""
    for level in range(3):
        z = field("z", 2 ** (5 - level))
        for _ in range(3):
            exchange(z)
            z[1:-1] = 0.5 * z[1:-1] + 0.25 * (z[:-2] + z[2:])


def scattered(g):
    """Cells are given out by rank 0, at first and once more."""
    full = np.arange(float(N * world.size)) if world.rank == 0 else None
    mine = np.empty(N)
    world.Scatter(full, mine)
    g[1:-1] = mine
    for k in range(4):
        if k == 2:
            world.Scatter(full, g[1:-1])
        exchange(g)
        g[1:-1] += 0.1 * (g[:-2] - 2 * g[1:-1] + g[2:])


def gathered(f):
    """What ranks add to ghosts is sent to their owners and added there."""
    h = np.empty_like(f)
    for _ in range(4):
        f[...] = 0
        f[:-1] += 1.0 + world.rank
        f[1:] -= 0.5
        back = np.zeros(1)
        world.Sendrecv(f[:1], up, 0, back, down, 0)
        if down != MPI.PROC_NULL:
            f[-2:-1] += back
        back[:] = 0
        world.Sendrecv(f[-1:], down, 1, back, up, 1)
        if up != MPI.PROC_NULL:
            f[1:2] += back
        exchange(f)
        h[1:-1] = 0.5 * (f[:-2] + f[2:])


for program in (copies, elements, conjugate_gradients, levels, grids, scattered, gathered):
    program(field(program.__name__))
copies(field())
MPI.Finalize()
