"""A histogram of each row with prange: histogram.py SIZE CALLS [COUNTED]. The values choose the bins, so that no text
shows which elements are whose. Prints the processor seconds of the calls, whose function was compiled before. COUNTED:
a library of counted.c, for callgrind.
"""

import ctypes
import sys
import time

import numpy as np
from numba import njit, prange


@njit(parallel=True)
def histogram(bins, values):
    for i in prange(values.shape[0]):
        for j in range(values.shape[1]):
            bins[i, values[i, j]] += 1.0


size, calls = (int(word) for word in sys.argv[1:3])
marks = ctypes.CDLL(sys.argv[3]) if sys.argv[3:] else None
histogram(np.zeros((8, 16)), np.zeros((8, 8), np.int64))
bins, values = np.zeros((size, 16)), np.arange(size * size).reshape(size, size) * 7 % 16
if marks:
    marks.count_begin()
begun = time.process_time()
for _ in range(calls):
    histogram(bins, values)
seconds = time.process_time() - begun
if marks:
    marks.count_end()
print(seconds)
