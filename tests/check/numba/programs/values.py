"""Elements read before they have a value, each beside its corrected twin."""

import ctypes

import numpy as np
from numba import njit, prange

draw = ctypes.CDLL(None).rand
draw.argtypes, draw.restype = [], ctypes.c_int


# The accumulator was never set to zero.
@njit(parallel=True)
def row_sums(a):
    out = np.empty(a.shape[0])
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            out[i] += a[i, j]  # finds: uninitialised-read
    return out


@njit(parallel=True)
def row_sums_fixed(a):
    out = np.empty(a.shape[0])
    for i in prange(a.shape[0]):
        out[i] = 0.0
        for j in range(a.shape[1]):
            out[i] += a[i, j]
    return out


# The border is read, but only the inside was filled.
@njit(parallel=True)
def border(n):
    a = np.empty(n)
    b = np.zeros(n)
    for i in prange(1, n - 1):
        a[i] = i
    for i in prange(1, n - 1):
        b[i] = a[i - 1] + a[i + 1]  # finds: uninitialised-read
    return b


@njit(parallel=True)
def border_fixed(n):
    a = np.empty(n)
    b = np.zeros(n)
    for i in prange(n):
        a[i] = i
    for i in prange(1, n - 1):
        b[i] = a[i - 1] + a[i + 1]
    return b


# A private array of which one element is left out.
@njit(parallel=True)
def moments(a, out):
    for i in prange(a.size):
        power = np.empty(4)
        power[0] = 1.0
        for k in range(1, 3):
            power[k] = power[k - 1] * a[i]
        out[i] = power[2] + power[3]  # finds: uninitialised-read


@njit(parallel=True)
def moments_fixed(a, out):
    for i in prange(a.size):
        power = np.empty(4)
        power[0] = 1.0
        for k in range(1, 4):
            power[k] = power[k - 1] * a[i]
        out[i] = power[2] + power[3]


# Elements that the condition leaves out are read all the same.
@njit(parallel=True)
def roots(a):
    root = np.empty_like(a)
    for i in prange(a.size):
        if a[i] > 0:
            root[i] = np.sqrt(a[i])
    total = np.zeros_like(a)
    for i in prange(a.size):
        total[i] = root[i] + 1.0  # finds: uninitialised-read
    return total


@njit(parallel=True)
def roots_fixed(a):
    root = np.empty_like(a)
    for i in prange(a.size):
        root[i] = np.sqrt(a[i]) if a[i] > 0 else 0.0
    total = np.zeros_like(a)
    for i in prange(a.size):
        total[i] = root[i] + 1.0
    return total


# The sequential part reads what no iteration wrote.
@njit(parallel=True)
def ends(n):
    a = np.empty(n)
    for i in prange(n - 1):
        a[i] = i
    first = a[0]
    return first + a[n - 1]  # finds: uninitialised-read


@njit(parallel=True)
def ends_fixed(n):
    a = np.empty(n)
    for i in prange(n):
        a[i] = i
    first = a[0]
    return first + a[n - 1]


# A scalar that one branch does not set.
@njit(parallel=True)
def sign(a, out):
    for i in prange(a.size):
        if a[i] > 0:
            s = 1
        elif a[i] < 0:
            s = -1
        out[i] = s  # finds: uninitialised-read


@njit(parallel=True)
def sign_fixed(a, out):
    for i in prange(a.size):
        if a[i] > 0:
            s = 1
        elif a[i] < 0:
            s = -1
        else:
            s = 0
        out[i] = s


# What a library keeps from call to call: the calls above, which read without a value, do not hide that it differs.
@njit(parallel=True)
def drawn(out):
    for i in prange(out.size):  # finds: divergence
        out[i] = draw()


@njit(parallel=True)
def drawn_fixed(out, first):
    for i in prange(out.size):
        out[i] = first + i


rng = np.random.default_rng(1)
row_sums(rng.random((5, 3)))
row_sums_fixed(rng.random((5, 3)))
border(9)
border_fixed(9)
moments(rng.random(5), np.zeros(5))
moments_fixed(rng.random(5), np.zeros(5))
roots(rng.random(9) - 0.5)
roots_fixed(rng.random(9) - 0.5)
ends(9)
ends_fixed(9)
sign(np.array([1.0, 0.0, -1.0, 0.0, 2.0]), np.zeros(5))
sign_fixed(np.array([1.0, 0.0, -1.0, 0.0, 2.0]), np.zeros(5))
drawn(np.zeros(5))
drawn_fixed(np.zeros(5), draw())
