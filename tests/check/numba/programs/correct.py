"""Right programs in the ways that people write them: nothing may be found."""

import math
from collections import namedtuple

import numba
import numpy as np
from numba import njit, prange
from numba.typed import List


# A scratch row for each thread.
@njit(parallel=True)
def scratch_by_thread(a):
    rows = np.zeros((numba.get_num_threads(), a.shape[1]))
    out = np.zeros(a.shape[0])
    for i in prange(a.shape[0]):
        row = rows[numba.get_thread_id()]
        for j in range(a.shape[1]):
            row[j] = a[i, j] * 2
        out[i] = row[0] + row[-1]
    return out


# Parallel loops inside parallel loops, and whole rows.
@njit(parallel=True)
def nested(n, m):
    c = np.zeros((n, m))
    for i in prange(n):
        for j in prange(m):
            c[i, j] = i * j
        c[i, :] += 1.0
    return c


# A reduction into an array, and several of scalars.
@njit(parallel=True)
def reductions(a):
    total = np.zeros(a.shape[1])
    count = 0
    product = 1.0
    low = np.inf
    high = -np.inf
    for i in prange(a.shape[0]):
        total += a[i]
        if a[i, 0] > 0.5:
            count += 1
        product *= 1.0 + a[i, 0] * 1e-3
        low = min(low, a[i, 1])
        high = max(high, a[i, 1])
    return total, count, product, low, high


# A sum that nearly cancels: another order of adding gives other last digits.
@njit(parallel=True, fastmath=True)
def cancelling(a):
    s = 0.0
    for i in prange(a.size):
        s += a[i]
    return s


@njit(parallel=True)
def single_precision(a):
    s = np.float32(0)
    for i in prange(a.size):
        s += a[i] * a[i]
    return s


# Random numbers.
@njit(parallel=True)
def estimate(n):
    inside = 0
    for _ in prange(n):
        x = np.random.random()
        y = np.random.random()
        if x * x + y * y < 1.0:
            inside += 1
    return 4.0 * inside / n


# Array expressions beside parallel loops, allocations inside them.
@njit(parallel=True)
def mixed(a):
    b = np.sqrt(a) + a * 2
    out = np.empty_like(a)
    for i in prange(a.shape[0]):
        t = np.empty(a.shape[1])
        for j in range(a.shape[1]):
            t[j] = b[i, j] - a[i, j]
        out[i] = np.sort(t)[::-1]
    return out.sum() + np.max(b)


@njit
def weight(x, power=2):
    return math.exp(-(x**power))


@njit
def fill(row, value):
    for j in range(row.size):
        row[j] = value


# Functions that are called with rows, defaults and keywords.
@njit(parallel=True)
def calls(a, scale=1.0):
    for i in prange(a.shape[0]):
        fill(a[i], weight(i * 0.1) * scale)


# Views: strided, transposed, reversed, in Fortran's order, of bytes.
@njit(parallel=True)
def views(a, f, flags):
    t = a.T
    back = a[::-1, ::2]
    for i in prange(t.shape[0]):
        for j in range(t.shape[1]):
            t[i, j] += 1.0
    for i in prange(back.shape[0]):
        back[i, 0] = -1.0
    for i in prange(f.shape[0]):
        for j in range(f.shape[1]):
            f[i, j] = i + 10 * j
    for i in prange(flags.size):
        flags[i] = i % 3 == 0


# Records, complex numbers, tuples.
pair = np.dtype([("left", np.int32), ("right", np.int32)])
Box = namedtuple("Box", "low high")


@njit(parallel=True)
def shapes(records, z, box):
    for i in prange(records.size):
        records[i].left = i
        records[i].right = 2 * i
    for i in prange(z.size):
        z[i] = complex(i, 1.0) * box.high
    return z.sum() + box.low


# A while loop around, two buffers that change places.
@njit(parallel=True)
def diffuse(a, steps):
    b = a.copy()
    worst = 1.0
    step = 0
    while step < steps and worst > 1e-9:
        worst = 0.0
        for i in prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
                worst = max(worst, abs(b[i, j] - a[i, j]))
        a, b = b, a
        step += 1
    return a, worst


# Lists: made in each iteration, and read by all.
@njit(parallel=True)
def lists(n, known):
    out = np.zeros(n)
    for i in prange(n):
        mine = [float(i)]
        for k in range(5):
            mine.append(k * 0.5)
        out[i] = sum(mine) + known[i % len(known)]
    return out


# A list's head and its elements are blocks of one size: the next iteration's head may lie where elements lay.
@njit(parallel=True)
def literals(n, h):
    out = np.zeros((n, 3))
    for i in prange(n):
        three = [h, h, h]
        out[i, 0] = three[1]
        out[i] = [h, 2 * h, three[2]]
    return out


@njit(parallel=True)
def chunks(a, parts):
    part = np.zeros(parts)
    size = (a.size + parts - 1) // parts
    for p in prange(parts):
        for i in range(p * size, min((p + 1) * size, a.size)):
            part[p] += a[i]
    return part.sum()


# An outer function that is not parallel; a closure; print.
@njit
def outer(a):
    return diffuse(a, 2)[1] + chunks(a.ravel(), 3)


def made(factor):
    @njit(parallel=True)
    def inner(a):
        for i in prange(a.size):
            a[i] *= factor
        print("scaled by", factor)
        return a.sum()

    return inner


# An index that skips what is not its own, an early continue, negative indices.
@njit(parallel=True)
def sparse(start, column, value, x):
    y = np.zeros(start.size - 1)
    for i in prange(start.size - 1):
        if start[i] == start[i + 1]:
            continue
        for k in range(start[i], start[i + 1]):
            y[i] += value[k] * x[column[k]]
        y[i] += x[-1]
    return y


# Nothing to do.
@njit(parallel=True)
def empty(a):
    for i in prange(a.size):
        a[i] = 1.0
    for i in prange(3, 3):
        a[i] = 2.0
    return a.size


# A branch that divides by zero gives no exception inside a parallel loop.
@njit(parallel=True)
def ratio(a, b):
    out = np.zeros(a.size)
    for i in prange(a.size):
        out[i] = a[i] / b[i] if b[i] != 0 else 0.0
    return out


# What is written depends on the schedule: it need not be what a sequential run gives.
@njit(parallel=True)
def by_chunks(size, n):
    found = np.full(n, -1)
    with numba.parallel_chunksize(size):
        for i in prange(n):
            found[i] = numba.get_parallel_chunksize()
    return found


# Numba copies what stands on the right first, as it may overlap: the copies of all iterations lie at one place.
@njit(parallel=True)
def broadcast(x, par, chunks):
    out = np.zeros((par.shape[0], x.size))
    each = (x.size + chunks - 1) // chunks
    for i in prange(chunks):
        start, stop = i * each, (i + 1) * each
        out[:, start:stop] = x[start:stop] * par[:]
    return out


rng = np.random.default_rng(1)
scratch_by_thread(rng.random((11, 5)))
nested(5, 4)
reductions(rng.random((9, 3)))
cancelling(np.concatenate([rng.random(1000) * 1e6, -rng.random(1000) * 1e6]))
single_precision(rng.random(2000).astype(np.float32))
estimate(500)
mixed(rng.random((6, 7)))
calls(np.zeros((4, 6)))
calls(np.zeros((4, 6)), scale=3.0)
views(rng.random((5, 6)), np.zeros((4, 3), order="F"), np.zeros(11, np.bool_))
views(rng.random((5, 12))[:, ::2], np.zeros((3, 4)).T, np.zeros(22, np.bool_)[::2])
shapes(np.zeros(6, pair), np.zeros(5, np.complex128), Box(1.0, 2.0))
diffuse(rng.random((8, 8)), 5)
lists(6, List([1.0, 2.0]))
literals(6, 2.0)
chunks(rng.random(20), 3)
outer(rng.random((6, 6)))
made(2.5)(rng.random(7))
sparse(np.array([0, 2, 2, 5]), np.array([0, 1, 2, 0, 1]), rng.random(5), rng.random(3))
empty(np.zeros(0))
ratio(rng.random(5), np.array([1.0, 0.0, 2.0, 0.0, 1.0]))
broadcast(np.arange(6.0), np.array([1.0, 2.0, 3.0]), 2)
by_chunks(4, 9)
