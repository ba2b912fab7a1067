"""pytest plugins: `--weft` for suites whose tests all ranks of an MPI job run together, and
`--weft-check` for Numba.
"""
