"""The program's own accesses to memory that MPI uses: hooked by `weft cc`, recorded by `weft run`, analysed here."""
