"""Scalars that iterations cannot share, each beside its corrected twin."""

import numpy as np
from numba import njit, prange


# Each iteration writes it, and one value survives: which one?
@njit(parallel=True)
def last_of(a):
    last = -1
    for i in prange(a.size):
        if a[i] > 0.5:
            last = i  # finds: shared-write
    return last


@njit(parallel=True)
def last_of_fixed(a):
    last = -1
    for i in prange(a.size):
        if a[i] > 0.5:
            last = max(last, i)
    return last


# A flag.
@njit(parallel=True)
def any_negative(a):
    found = False
    for i in prange(a.size):
        if a[i] < 0:
            found = True  # finds: shared-write
    return found


@njit(parallel=True)
def any_negative_fixed(a):
    found = 0
    for i in prange(a.size):
        if a[i] < 0:
            found += 1
    return found > 0


# An error code, read behind a second loop.
@njit(parallel=True)
def invert(a, out):
    status = 0
    for i in prange(a.size):
        if a[i] == 0.0:
            status = 2  # finds: shared-write
        else:
            out[i] = 1.0 / a[i]
    for i in prange(a.size):
        out[i] *= 2
    return status


@njit(parallel=True)
def invert_fixed(a, out):
    status = np.zeros(a.size, np.int64)
    for i in prange(a.size):
        if a[i] == 0.0:
            status[i] = 2
        else:
            out[i] = 1.0 / a[i]
    return status.max()


# The value of the last iteration is used behind the loop.
@njit(parallel=True)
def tail(a, out):
    scale = 1.0
    for i in prange(a.size):
        scale = a[i] * 2.0  # finds: shared-write
        out[i] = scale + 1.0
    return scale


@njit(parallel=True)
def tail_fixed(a, out):
    for i in prange(a.size):
        scale = a[i] * 2.0
        out[i] = scale + 1.0
    return a[a.size - 1] * 2.0


# The position of a match, from a nested loop.
@njit(parallel=True)
def position(a, wanted):
    row = -1
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] == wanted:
                row = i  # finds: shared-write
    return row


@njit(parallel=True)
def position_fixed(a, wanted):
    hit = np.full(a.shape[0], -1)
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] == wanted:
                hit[i] = i
    return hit.max()


# A switch that a while loop behind reads.
@njit(parallel=True)
def settle(a):
    moved = True
    rounds = 0
    while moved and rounds < 4:
        moved = False
        for i in prange(a.size):
            if a[i] > 1.0:
                a[i] -= 1.0
                moved = True  # finds: shared-write
        rounds += 1
    return rounds


@njit(parallel=True)
def settle_fixed(a):
    moves = 1
    rounds = 0
    while moves > 0 and rounds < 4:
        moves = 0
        for i in prange(a.size):
            if a[i] > 1.0:
                a[i] -= 1.0
                moves += 1
        rounds += 1
    return rounds


# A scalar carries a value from iteration to iteration.
@njit(parallel=True)
def steps(a, out):
    before = 0.0
    for i in prange(a.size):
        out[i] = a[i] - before  # finds: loop-dependence
        before = a[i]


@njit(parallel=True)
def steps_fixed(a, out):
    for i in prange(a.size):
        before = a[i - 1] if i > 0 else 0.0
        out[i] = a[i] - before


# Set under one condition, read under another; other iterations' writes make the results differ.
@njit(parallel=True)
def damped(a, near, use):
    total = 0.0
    for i in prange(a.size):
        if a[i] > near:
            factor = a[i] * 0.5
        step = a[i]
        if use:
            step -= factor  # finds: uninitialised-read
        total += step
    return total


@njit(parallel=True)
def damped_fixed(a, near, use):
    total = 0.0
    for i in prange(a.size):
        if use:
            factor = a[i] * 0.5
        step = a[i]
        if use:
            step -= factor
        total += step
    return total


# Set before the loop, if at all.
@njit(parallel=True)
def scaled_if(a, out, use):
    for _ in range(2):
        if not use:
            scale = 2.0
        for i in prange(a.size):
            if use:
                out[i] = a[i] * scale  # finds: uninitialised-read


@njit(parallel=True)
def scaled_if_fixed(a, out, use):
    for _ in range(2):
        if use:
            scale = 2.0
        for i in prange(a.size):
            if use:
                out[i] = a[i] * scale


# A race on an element hides behind a condition what is right: the race alone is at fault.
@njit(parallel=True)
def crowded(a, out, use):
    for i in prange(a.size):
        if use:
            push = a[i] * 0.5
        if use:
            out[0] = out[0] + push  # finds: loop-dependence


@njit(parallel=True)
def crowded_fixed(a, out, use):
    for i in prange(a.size):
        if use:
            push = a[i] * 0.5
        if use:
            out[i] = out[i] + push


rng = np.random.default_rng(1)
last_of(np.array([0.1, 0.9, 0.7, 0.2]))
last_of_fixed(np.array([0.1, 0.9, 0.7, 0.2]))
any_negative(np.array([0.1, -0.9, 0.7, 0.2]))
any_negative_fixed(np.array([0.1, -0.9, 0.7, 0.2]))
invert(np.array([1.0, 0.0, 2.0]), np.zeros(3))
invert_fixed(np.array([1.0, 0.0, 2.0]), np.zeros(3))
tail(rng.random(5), np.zeros(5))
tail_fixed(rng.random(5), np.zeros(5))
position(np.arange(12).reshape(3, 4), 6)
position_fixed(np.arange(12).reshape(3, 4), 6)
settle(np.array([3.0, 2.0, 0.5]))
settle_fixed(np.array([3.0, 2.0, 0.5]))
steps(rng.random(6), np.zeros(6))
steps_fixed(rng.random(6), np.zeros(6))
damped(rng.random(6), 0.9, True)
damped_fixed(rng.random(6), 0.9, True)
scaled_if(rng.random(6), np.zeros(6), True)
scaled_if_fixed(rng.random(6), np.zeros(6), True)
crowded(rng.random(6), np.zeros(6), True)
crowded_fixed(rng.random(6), np.zeros(6), True)
