"""Iterations that touch each other's elements, each beside its corrected twin; `# finds: kind` stands at the fault."""

import numpy as np
from numba import int64, njit, prange
from numba import prange as parallel_range
from numba.typed import Dict, List


# numba#7133: each iteration adds to elements of all the others.
@njit(parallel=True)
def add_up():
    vector = np.zeros(2)
    for i in parallel_range(2):
        for j in range(2):
            vector[j] += 1  # finds: loop-dependence
            vector[i] += 1  # finds: loop-dependence
    return vector


@njit(parallel=True)
def add_up_fixed():
    vector = np.zeros(2)
    for i in parallel_range(2):
        for _ in range(2):
            vector[i] += 2
    return vector


# cython#4761 with Numba's prange: a sum over rows of outer products, rows in parallel.
@njit(parallel=True)
def gram(x):
    samples, features = x.shape
    out = np.zeros((features, features))
    for k in prange(samples):
        for i in range(features):
            for j in range(i, features):
                out[i, j] += x[k, i] * x[k, j]  # finds: loop-dependence
    return out


@njit(parallel=True)
def gram_fixed(x):
    samples, features = x.shape
    out = np.zeros((features, features))
    for i in prange(features):
        for j in range(i, features):
            for k in range(samples):
                out[i, j] += x[k, i] * x[k, j]
    return out


# A relaxation in place reads what its neighbours write.
@njit(parallel=True)
def relax(a):
    for i in prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            a[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])  # finds: loop-dependence


@njit(parallel=True)
def relax_fixed(a, b):
    for i in prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


# A histogram: two samples of one bin.
@njit(parallel=True)
def histogram(x, bins):
    count = np.zeros(bins, np.int64)
    for i in prange(x.size):
        count[int(x[i] * bins)] += 1  # finds: loop-dependence
    return count


@njit(parallel=True)
def histogram_fixed(x, bins):
    blocks = 4
    part = np.zeros((blocks, bins), np.int64)
    for b in prange(blocks):
        for i in range(b * x.size // blocks, (b + 1) * x.size // blocks):
            part[b, int(x[i] * bins)] += 1
    return part


# Running sums: each needs the one before.
@njit(parallel=True)
def running(a):
    for i in prange(1, a.size):
        a[i] += a[i - 1]  # finds: loop-dependence


@njit(parallel=True)
def running_fixed(a):
    for i in range(1, a.size):
        a[i] += a[i - 1]
    for i in prange(a.size):
        a[i] *= 2


# One scratch array for all iterations.
@njit(parallel=True)
def scratch(a, out):
    row = np.zeros(a.shape[1])
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            row[j] = a[i, j] * a[i, j]  # finds: loop-dependence
        total = 0.0
        for j in range(a.shape[1]):
            total += row[j]
        out[i] = total


@njit(parallel=True)
def scratch_fixed(a, out):
    for i in prange(a.shape[0]):
        row = np.zeros(a.shape[1])
        for j in range(a.shape[1]):
            row[j] = a[i, j] * a[i, j]
        total = 0.0
        for j in range(a.shape[1]):
            total += row[j]
        out[i] = total


# A shift in place: with increasing iterations it works, in parallel nobody knows.
@njit(parallel=True)
def shift(a):
    for i in prange(a.size - 1):
        a[i] = a[i + 1]  # finds: loop-dependence


@njit(parallel=True)
def shift_fixed(a, b):
    for i in prange(a.size - 1):
        b[i] = a[i + 1]


# Pairs that overlap by one element.
@njit(parallel=True)
def swap(a):
    for i in prange(a.size // 2):
        a[2 * i], a[2 * i + 2] = a[2 * i + 2], a[2 * i]  # finds: loop-dependence


@njit(parallel=True)
def swap_fixed(a):
    for i in prange(a.size // 2):
        a[2 * i], a[2 * i + 1] = a[2 * i + 1], a[2 * i]


# Elements of four bytes that lie side by side are not one another.
@njit(parallel=True)
def scatter(target, value):
    for i in prange(target.size):
        value[target[i]] = np.float32(i)  # finds: loop-dependence


@njit(parallel=True)
def scatter_fixed(target, value):
    for i in prange(target.size):
        value[target[i]] = np.float32(i)


# A flag array of bytes, through a strided view.
@njit(parallel=True)
def mark(flags, n):
    odd = flags[1::2]
    for i in prange(n):
        odd[i // 2] = i % 2 == 0  # finds: loop-dependence


@njit(parallel=True)
def mark_fixed(flags, n):
    odd = flags[1::2]
    for i in prange(n):
        odd[i] = i % 2 == 0


# Pieces that overlap in the middle of what the compiler writes at once.
@njit(parallel=True)
def pieces(a, out):
    for i in prange(a.shape[0]):
        piece = out[30 * i : 30 * i + 32]
        for j in range(32):
            piece[j] = 2.0 * a[i, j]  # finds: loop-dependence


@njit(parallel=True)
def pieces_fixed(a, out):
    for i in prange(a.shape[0]):
        piece = out[32 * i : 32 * i + 32]
        for j in range(32):
            piece[j] = 2.0 * a[i, j]


# The same of what it reads at once.
@njit(parallel=True)
def ahead(line, count):
    for i in prange(count):
        for j in range(26):
            line[32 * i + j] += line[32 * i + j + 8]  # finds: loop-dependence


@njit(parallel=True)
def ahead_fixed(line, count):
    for i in prange(count):
        for j in range(24):
            line[32 * i + j] += line[32 * i + j + 8]


# Numba runs a loop together with the array expression before it: the loop is the user's.
@njit(parallel=True)
def together(count):
    part = np.empty(4)
    out = np.zeros(count)
    for i in prange(count):
        for k in range(4):
            part[k] = i * k  # finds: loop-dependence
        out[i] = part.sum()
    return out


@njit(parallel=True)
def together_fixed(count):
    out = np.zeros(count)
    for i in prange(count):
        part = np.empty(4)
        for k in range(4):
            part[k] = i * k
        out[i] = part.sum()
    return out


# Containers of Numba are not safe in threads.
@njit(parallel=True)
def gathered(count):
    found = List.empty_list(int64)
    last = Dict.empty(int64, int64)
    for i in prange(count):
        found.append(int64(i))  # finds: loop-dependence
        last[int64(i)] = int64(i)  # finds: loop-dependence
    return len(found) + len(last)


@njit(parallel=True)
def gathered_fixed(count):
    known = Dict.empty(int64, int64)
    known[int64(3)] = int64(4)
    out = np.zeros(count)
    for i in prange(count):
        found = List.empty_list(int64)
        if int64(i) in known:
            found.append(known[int64(i)])
        out[i] = len(found)
    return out


rng = np.random.default_rng(1)
add_up()
add_up_fixed()
gram(rng.random((6, 4)))
gram_fixed(rng.random((6, 4)))
relax(rng.random((8, 9)))
relax_fixed(rng.random((8, 9)), np.zeros((8, 9)))
histogram(rng.random(40), 5)
histogram_fixed(rng.random(40), 5)
running(rng.random(10))
running_fixed(rng.random(10))
scratch(rng.random((5, 7)), np.zeros(5))
scratch_fixed(rng.random((5, 7)), np.zeros(5))
shift(rng.random(11))
shift_fixed(rng.random(11), np.zeros(11))
swap(rng.random(11))
swap_fixed(rng.random(10))
scatter(np.array([0, 1, 2, 3, 4, 2]), np.zeros(6, np.float32))
scatter_fixed(np.array([5, 3, 1, 0, 2, 4]), np.zeros(6, np.float32))
mark(np.zeros(20, np.bool_), 10)
mark_fixed(np.zeros(20, np.bool_), 10)
pieces(rng.random((4, 32)), np.zeros(130))
pieces_fixed(rng.random((4, 32)), np.zeros(130))
ahead(rng.random(140), 4)
ahead_fixed(rng.random(140), 4)
together(5)
together_fixed(5)
gathered(9)
gathered_fixed(9)
