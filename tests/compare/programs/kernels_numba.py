"""Kernels with loops that run in parallel: a stencil, a product of matrices, bodies, and a sort."""

import sys

import numpy as np
from numba import njit, prange

N = 12


@njit(parallel=True)
def sweep(a, b):
    for i in prange(1, N - 1):
        for j in range(1, N - 1):
            b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@njit(parallel=True)
def change(a, b):
    total = 0.0
    for i in prange(N):
        for j in range(N):
            total += abs(a[i, j] - b[i, j])
    return total


@njit(parallel=True)
def product(a, b, c):
    for i in prange(N):
        for j in range(N):
            sum = 0.0
            for k in range(N):
                sum += a[i, k] * b[k, j]
            c[i, j] = sum


@njit(parallel=True)
def forces(place, force):
    for i in prange(N):
        force[i] = 0.0
        for j in range(N):
            far = place[j] - place[i]
            force[i] += far / (1 + far * far)


@njit(parallel=True)
def phase(now, after, odd):
    for i in prange(N):
        other = i + 1 if i % 2 == odd else i - 1
        after[i] = now[i]
        if other >= 0 and other < N and (other > i) == (now[other] < now[i]):
            after[i] = now[other]


def stencil():
    a = np.zeros((N, N))
    a[1:-1, 1:-1] = 1 + np.arange((N - 2) ** 2).reshape(N - 2, N - 2) % 7
    b = a.copy()
    for _ in range(3):
        sweep(a, b)
        total = change(a, b)
        a, b = b, a
    return total


def matrices():
    a = np.arange(N * N, dtype=np.float64).reshape(N, N) % 5
    b = np.arange(N * N, dtype=np.float64).reshape(N, N) % 3
    c = np.zeros((N, N))
    product(a, b, c)
    return c.sum()


def bodies():
    place, force = np.arange(N) * 1.5, np.zeros(N)
    for _ in range(2):
        forces(place, force)
        place += 0.1 * force
    return place.sum()


def sort():
    now = (np.arange(N) * 7 + 3) % N
    after = np.zeros_like(now)
    for k in range(N):
        phase(now, after, k % 2)
        now, after = after, now
    return now[0]


print({"stencil": stencil, "matrices": matrices, "bodies": bodies, "sort": sort}[sys.argv[1]]())
