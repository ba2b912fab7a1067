"""The program's own accesses to memory that MPI uses: compiled in by `weft cc`, recorded by `weft run`, analysed here."""
