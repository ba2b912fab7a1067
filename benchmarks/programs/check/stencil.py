"""A five-point stencil with prange: stencil.py SIZE SWEEPS [COUNTED]. Prints the processor seconds of the sweeps, which
were compiled before; COUNTED: a library of counted.c, for callgrind.
"""

import ctypes
import sys
import time

import numpy as np
from numba import njit, prange


@njit(parallel=True)
def sweep(new, old):
    for i in prange(1, old.shape[0] - 1):
        for j in range(1, old.shape[1] - 1):
            new[i, j] = 0.25 * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1])


def sweeps(new, old, count):
    for _ in range(count // 2):
        sweep(new, old)
        sweep(old, new)
    return old


size, count = (int(word) for word in sys.argv[1:3])
marks = ctypes.CDLL(sys.argv[3]) if sys.argv[3:] else None
sweep(np.zeros((8, 8)), np.ones((8, 8)))
new, old = np.zeros((size, size)), np.zeros((size, size))
new[0], old[0] = 1, 1
if marks:
    marks.count_begin()
begun = time.process_time()
sweeps(new, old, count)
seconds = time.process_time() - begun
if marks:
    marks.count_end()
print(seconds)
