"""Reductions that are none, each beside its corrected twin."""

import numpy as np
from numba import njit, prange


# A largest value by hand: Numba gives back what it began with.
@njit(parallel=True)
def largest(a):
    best = -np.inf
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > best:
                best = a[i, j]  # finds: wrong-reduction
    return best


@njit(parallel=True)
def largest_fixed(a):
    best = -np.inf
    for i in prange(a.shape[0]):
        for j in range(a.shape[1]):
            best = max(best, a[i, j])
    return best


@njit(parallel=True)
def smallest_where(a):
    low = np.inf
    where = -1
    for i in prange(a.size):
        if a[i] < low:
            low = a[i]  # finds: wrong-reduction
            where = i  # finds: shared-write
    return low, where


@njit(parallel=True)
def smallest_where_fixed(a):
    low = np.inf
    for i in prange(a.size):
        low = min(low, a[i])
    where = a.size
    for i in prange(a.size):
        if a[i] == low:
            where = min(where, i)
    return low, where


# numba#9829: a counter that is read while it is being reduced.
@njit(parallel=True)
def number_the_rest(index, values, size):
    none = np.iinfo(np.uint32).max
    array = np.ones(size + 1, dtype=np.uint32) * none
    for i in prange(len(index)):
        array[index[i]] = values[i]
    top = values.max()
    for i in prange(len(array)):
        if array[i] == none:
            array[i] = top + 1  # finds: early-reduction-use
            top += 1
    return array


@njit(parallel=True)
def number_the_rest_fixed(index, values, size):
    none = np.iinfo(np.uint32).max
    array = np.ones(size + 1, dtype=np.uint32) * none
    for i in prange(len(index)):
        array[index[i]] = values[i]
    top = values.max()
    for i in range(len(array)):
        if array[i] == none:
            array[i] = top + 1
            top += 1
    return array


# Running sums out of a reduction.
@njit(parallel=True)
def cumulative(a, out):
    total = 0.0
    for i in prange(a.size):
        total += a[i]
        out[i] = total  # finds: early-reduction-use
    return total


@njit(parallel=True)
def cumulative_fixed(a, out):
    total = 0.0
    for i in prange(a.size):
        total += a[i]
        out[i] = a[i]
    return total


# The share of the sum so far decides.
@njit(parallel=True)
def until(a, limit):
    total = 0.0
    for i in prange(a.size):
        if total < limit:  # finds: early-reduction-use
            total += a[i]
    return total


@njit(parallel=True)
def until_fixed(a, limit):
    total = 0.0
    for i in range(a.size):
        if total < limit:
            total += a[i]
    twice = 0.0
    for i in prange(a.size):
        twice += 2 * a[i]
    return total, twice


# All of them: a conjunction.
@njit(parallel=True)
def all_positive(a):
    good = True
    for i in prange(a.size):
        good = good and a[i] > 0  # finds: wrong-reduction
    return good


@njit(parallel=True)
def all_positive_fixed(a):
    bad = 0
    for i in prange(a.size):
        if a[i] <= 0:
            bad += 1
    return bad == 0


# The nearest of two: each branch sets it.
@njit(parallel=True)
def nearest(a, wanted):
    distance = 1e9
    for i in prange(a.size):
        away = abs(a[i] - wanted)
        distance = away if away < distance else distance  # finds: wrong-reduction
    return distance


@njit(parallel=True)
def nearest_fixed(a, wanted):
    distance = 1e9
    for i in prange(a.size):
        away = abs(a[i] - wanted)
        distance = min(distance, away)
    return distance


rng = np.random.default_rng(1)
largest(rng.random((5, 4)))
largest_fixed(rng.random((5, 4)))
smallest_where(rng.random(9))
smallest_where_fixed(rng.random(9))
number_the_rest(np.array([9, 11, 12, 15, 19]), np.array([0, 1, 2, 3, 4]), 20)
number_the_rest_fixed(np.array([9, 11, 12, 15, 19]), np.array([0, 1, 2, 3, 4]), 20)
cumulative(rng.random(9), np.zeros(9))
cumulative_fixed(rng.random(9), np.zeros(9))
until(np.ones(12), 2.5)
until_fixed(np.ones(12), 2.5)
all_positive(np.array([1.0, -1.0, 1.0]))
all_positive_fixed(np.array([1.0, -1.0, 1.0]))
nearest(rng.random(9), 0.5)
nearest_fixed(rng.random(9), 0.5)
