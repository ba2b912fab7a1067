"""Check data-parallel programs: run them on one processor while their parallel execution is simulated.

A front end (`dvm` for C-DVMH and Fortran-DVM, `numba` for prange) brings the program and its `Texts`; the runtime
(`native/check`) watches loops and accesses and writes what it found; `findings` puts both together.
"""
