"""Jacobi's method on blocks of 1, 2 or 3 dimensions. `faces.py DIMENSIONS right|FAULT [periodic] [inferred [packed]]`

What is wrong is told at the line of the star, or the box, that uses what it should not. `inferred`: no line says how
wide ghosts are, and faces are received by datatypes, not copied out of a buffer.
"""

import itertools
import sys

import numpy as np
from mpi4py import MPI

import weft

DIMENSIONS, FAULT = int(sys.argv[1]), sys.argv[2]
PERIODIC = "periodic" in sys.argv[3:]
INFERRED = "inferred" in sys.argv[3:]
DIRECT = INFERRED and "packed" not in sys.argv[3:]
N, STEPS = 6, 6

cart = MPI.COMM_WORLD.Create_cart(MPI.Compute_dims(MPI.COMM_WORLD.size, DIMENSIONS), [PERIODIC] * DIMENSIONS)
WIDTH = 2 if FAULT in ("width", "wide") else 1
shape = [N + 2 * WIDTH + (k + 1) * (at % 2) for k, at in enumerate(cart.coords)]


def field(name):
    return weft.part(np.zeros(shape), of=name, halo=None if INFERRED else WIDTH, comm=cart)


def at(x, axis, part):
    """The layers of one axis that a slice chooses."""
    return x[(slice(None),) * axis + (part,)]


def inner(x, *moves):
    """What this rank owns, moved along some axes."""
    return x[tuple(slice(WIDTH + m, n - WIDTH + m) for n, m in itertools.zip_longest(x.shape, moves, fillvalue=0))]


def exchange(x, width=WIDTH, axes=range(DIMENSIONS), corners=True):
    """Faces to both neighbours, one axis behind the other, so that corners come along."""
    for axis in axes:
        low, high = cart.Shift(axis, 1)
        for source, goal, mine, ghost in (
            (low, high, slice(-WIDTH - width, -WIDTH), slice(WIDTH - width, WIDTH)),
            (high, low, slice(WIDTH, WIDTH + width), slice(-WIDTH, -WIDTH + width or None)),
        ):
            face, room = at(x, axis, mine), at(x, axis, ghost)
            if not corners:
                across = tuple(slice(WIDTH, -WIDTH) if k != axis else slice(None) for k in range(DIMENSIONS))
                face, room = face[across], room[across]
            out, back = np.ascontiguousarray(face), np.empty(room.shape)
            if FAULT == "swapped" and cart.rank == 1 and axis == 0:
                room = at(x, axis, slice(-WIDTH, None) if ghost.start == 0 else slice(0, WIDTH))
            if DIRECT:
                first = (room.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // 8
                starts = [int(k) for k in np.unravel_index(first, x.shape)]
                layer = MPI.DOUBLE.Create_subarray(list(x.shape), list(room.shape), starts).Commit()
                cart.Sendrecv(out, goal, 7, [x, 1, layer], source, 7)
                layer.Free()
                continue
            cart.Sendrecv(out, goal, 7, back, source, 7)
            if source != MPI.PROC_NULL:
                room[...] = back


def neighbours(k, axis):
    return [k if one == axis else 0 for one in range(DIMENSIONS)]


def star(x, far=1):
    total = 0.0
    for axis in range(DIMENSIONS):
        for k in (-far, far):
            total = total + inner(x, *neighbours(k, axis))  # the star
    return total / (2 * DIMENSIONS)


def box(x):
    total = 0.0
    for moves in itertools.product((-1, 0, 1), repeat=DIMENSIONS):
        total = total + inner(x, *moves)  # the box
    return total / 3**DIMENSIONS


u, v = field("u"), field("v")
inner(u)[...] = np.random.default_rng(cart.rank).random(inner(u).shape) + 1
exchange(u)
for step in range(STEPS):
    if FAULT in ("corner", "box"):
        exchange(u, corners=FAULT == "box")
        inner(v)[...] = box(u)
    elif FAULT in ("width", "wide"):
        exchange(u, width=1 if FAULT == "width" else 2)
        inner(v)[...] = star(u, far=2)
    elif FAULT == "late":
        inner(v)[...] = star(u)
        exchange(u)
    elif FAULT == "source":
        exchange(u)
        inner(u)[...] += 0.5
        inner(v)[...] = star(u)
    elif FAULT == "written":
        exchange(u)
        at(u, 0, slice(0, 1))[...] = 9.0 + step
        inner(v)[...] = star(u)
    elif FAULT == "left out":
        exchange(u, axes=range(1, DIMENSIONS))
        inner(v)[...] = star(u)
    elif FAULT == "seldom":
        if step % 2 == 0:
            exchange(u)
        inner(v)[...] = star(u)
    elif FAULT == "once":
        inner(v)[...] = star(u)
        cart.allreduce(float(np.max(inner(v))))
        u, v = v, u
        continue
    elif FAULT == "boundary":
        exchange(u)
        for axis, (low, high) in enumerate(cart.Shift(k, 1) for k in range(DIMENSIONS)):
            if low == MPI.PROC_NULL:
                at(u, axis, slice(0, 1))[...] = 9.0 + step
            if high == MPI.PROC_NULL:
                at(u, axis, slice(-1, None))[...] = 9.0 + step
        inner(v)[...] = star(u)
    else:
        exchange(u)
        inner(v)[...] = star(u)
    u, v = v, u
