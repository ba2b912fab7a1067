import sys

import numpy as np

import weft

N = 30
a = np.zeros((N, N))
a[0] = 1
with weft.region("all"):
    for step in range(6):
        with weft.loop("sweep", step):
            b = a.copy()
            b[1:-1, 1:-1] = (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) / 4
            weft.probe("residual", abs(b - a).max())
            a = b
            weft.probe("A", weft.part(np.asfortranarray(a) if "fortran" in sys.argv else a, of="A"))
            if "killed" in sys.argv and step == 3:
                import os

                os.kill(os.getpid(), 9)
weft.probe("few", np.arange(1, 4, dtype=np.float32))
