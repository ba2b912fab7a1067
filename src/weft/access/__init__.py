"""The program's own accesses of memory that MPI has: compiled in by `weft cc`, recorded by `weft run`, judged here."""
