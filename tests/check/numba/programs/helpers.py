"""Faults in functions that a loop calls and that are not compiled into it: too long for that, or recursive."""

import math

import numpy as np
from numba import int64, njit, prange
from numba.typed import Dict, List


@njit
def smooth(row, work):
    n = row.size
    for k in range(1, n - 1):
        work[k] = 0.25 * row[k - 1] + 0.5 * row[k] + 0.25 * row[k + 1]  # finds: loop-dependence
    work[0], work[n - 1] = row[0], row[n - 1]  # finds: loop-dependence
    total = 0.0
    for k in range(n):
        change = work[k] - row[k]
        if change > 0:
            total += math.sqrt(change) * math.exp(-change) + math.atan2(change, 2.0)
        else:
            total -= math.sqrt(-change) * math.exp(change) + math.hypot(change, 2.0)
        for m in range(k):
            total += math.tan(change * m + 0.1) * math.log(1.0 + abs(work[m]))
    return total


@njit
def smooth_fixed(row):
    n = row.size
    work = np.empty(n)
    for k in range(1, n - 1):
        work[k] = 0.25 * row[k - 1] + 0.5 * row[k] + 0.25 * row[k + 1]
    work[0], work[n - 1] = row[0], row[n - 1]
    total = 0.0
    for k in range(n):
        change = work[k] - row[k]
        if change > 0:
            total += math.sqrt(change) * math.exp(-change) + math.atan2(change, 2.0)
        else:
            total -= math.sqrt(-change) * math.exp(change) + math.hypot(change, 2.0)
        for m in range(k):
            total += math.tan(change * m + 0.1) * math.log(1.0 + abs(work[m]))
    return total


@njit(parallel=True)
def rows(a, work, out):
    for i in prange(a.shape[0]):
        out[i] = smooth(a[i], work) if i % 2 else smooth(a[i], work) + 1.0


@njit(parallel=True)
def rows_fixed(a, out):
    for i in prange(a.shape[0]):
        out[i] = smooth_fixed(a[i]) if i % 2 else smooth_fixed(a[i]) + 1.0


@njit
def count_down(a, depth, i):
    if depth == 0:
        a[0] = i  # finds: loop-dependence
        return 0.0
    return count_down(a, depth - 1, i) + 1.0


@njit
def count_down_fixed(a, depth, i):
    if depth == 0:
        a[i] = i
        return 0.0
    return count_down_fixed(a, depth - 1, i) + 1.0


@njit(parallel=True)
def depths(a, out):
    for i in prange(out.size):
        out[i] = count_down(a, 3, i)


@njit(parallel=True)
def depths_fixed(a, out):
    for i in prange(out.size):
        out[i] = count_down_fixed(a, 3, i)


@njit
def collect(values, known, count):
    total = 0.0
    for k in range(count):
        values.append(k)  # finds: loop-dependence
        known[k] = k  # finds: loop-dependence
        total += math.sin(k) * math.exp(k) + math.log(1 + k)
    for k in range(count):
        total += math.atan2(total, 2.0) * math.tan(total) * math.hypot(total, k)
    return total


@njit
def collect_fixed(values, known, count):
    total = 0.0
    for k in range(count):
        values.append(k)
        known[k] = k
        total += math.sin(k) * math.exp(k) + math.log(1 + k)
    for k in range(count):
        total += math.atan2(total, 2.0) * math.tan(total) * math.hypot(total, k)
    return total


@njit(parallel=True)
def containers(out):
    values = List.empty_list(int64)
    known = Dict.empty(int64, int64)
    for i in prange(out.size):
        out[i] = collect(values, known, 5) if i % 2 else collect(values, known, 7) + 1.0


@njit(parallel=True)
def containers_fixed(out):
    for i in prange(out.size):
        values, known = List.empty_list(int64), Dict.empty(int64, int64)
        out[i] = collect_fixed(values, known, 5) if i % 2 else collect_fixed(values, known, 7) + 1.0


rows(np.linspace(0, 1, 48).reshape(4, 12), np.zeros(12), np.zeros(4))
rows_fixed(np.linspace(0, 1, 48).reshape(4, 12), np.zeros(4))
depths(np.zeros(6), np.zeros(6))
depths_fixed(np.zeros(6), np.zeros(6))
containers(np.zeros(6))
containers_fixed(np.zeros(6))
