/* A part of a program that calls MPI. */
#include <mpi.h>

void begin_(void) { MPI_Init(0, 0); }
void finish_(void) { MPI_Finalize(); }
void work_(void) {
    int one = 1, all = 0, size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (all != size) MPI_Abort(MPI_COMM_WORLD, 4);
}
