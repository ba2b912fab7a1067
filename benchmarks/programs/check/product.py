"""One multiplication with prange: product.py SIZE CALLS [COUNTED]. Prints the processor seconds of the calls, whose
function was compiled before; COUNTED: a library of counted.c, for callgrind.
"""

import ctypes
import sys
import time

import numpy as np
from numba import njit, prange


@njit(parallel=True)
def product(a, b):
    for i in prange(a.shape[0]):
        a[i] = b[i] * 3.0


size, calls = (int(word) for word in sys.argv[1:3])
marks = ctypes.CDLL(sys.argv[3]) if sys.argv[3:] else None
product(np.zeros(8), np.ones(8))
a, b = np.zeros(size * size), np.ones(size * size)
if marks:
    marks.count_begin()
begun = time.process_time()
for _ in range(calls):
    product(a, b)
seconds = time.process_time() - begun
if marks:
    marks.count_end()
print(seconds)
