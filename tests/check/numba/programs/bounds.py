"""Indices outside of an array, each beside its corrected twin."""

import numpy as np
from numba import njit, prange


@njit(parallel=True)
def forward(a, b):
    for i in prange(a.size):
        b[i] = a[i + 1] - a[i]  # finds: out-of-bounds


@njit(parallel=True)
def forward_fixed(a, b):
    for i in prange(a.size - 1):
        b[i] = a[i + 1] - a[i]


# Extents the wrong way round: inside the memory at first, but in the wrong row.
@njit(parallel=True)
def scale(a, b):
    for i in prange(a.shape[0]):
        for j in range(a.shape[0]):
            b[i, j] = 2.0 * a[i, j]  # finds: out-of-bounds


@njit(parallel=True)
def scale_fixed(a, b):
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = 2.0 * a[i, j]


# An index from data.
@njit(parallel=True)
def gather(a, where, out):
    for i in prange(where.size):
        out[i] = a[where[i]]  # finds: out-of-bounds


@njit(parallel=True)
def gather_fixed(a, where, out):
    for i in prange(where.size):
        if where[i] < a.size:
            out[i] = a[where[i]]


@njit
def pick(row, at):
    return row[at]  # finds: out-of-bounds


# The fault is in a function that the loop calls.
@njit(parallel=True)
def called(a, out):
    for i in prange(a.shape[0]):
        out[i] = pick(a[i], i)


@njit
def pick_fixed(row, at):
    return row[at] if at < row.size else 0.0


@njit(parallel=True)
def called_fixed(a, out):
    for i in prange(a.shape[0]):
        out[i] = pick_fixed(a[i], i)


# A write beyond the end.
@njit(parallel=True)
def spread(a, out):
    for i in prange(a.size):
        for k in range(2):
            out[2 * i + k + 1] = a[i]  # finds: out-of-bounds


@njit(parallel=True)
def spread_fixed(a, out):
    for i in prange(a.size):
        for k in range(2):
            out[2 * i + k] = a[i]


# Further back than the array is long: an index from the end that is none.
@njit(parallel=True)
def back(a, out):
    for i in prange(a.size):
        out[i] = a[i - 2 * a.size + 3]  # finds: out-of-bounds


@njit(parallel=True)
def back_fixed(a, out):
    for i in prange(a.size):
        out[i] = a[i - a.size]


rng = np.random.default_rng(1)
forward(rng.random(7), np.zeros(7))
forward_fixed(rng.random(7), np.zeros(7))
scale(rng.random((5, 3)), np.zeros((5, 3)))
scale_fixed(rng.random((5, 3)), np.zeros((5, 3)))
gather(rng.random(4), np.array([0, 3, 4, 1]), np.zeros(4))
gather_fixed(rng.random(4), np.array([0, 3, 4, 1]), np.zeros(4))
called(rng.random((5, 3)), np.zeros(5))
called_fixed(rng.random((5, 3)), np.zeros(5))
spread(rng.random(5), np.zeros(10))
spread_fixed(rng.random(5), np.zeros(10))
back(rng.random(6), np.zeros(6))
back_fixed(rng.random(6), np.zeros(6))
