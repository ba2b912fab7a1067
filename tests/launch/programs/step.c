/* A task of a job step, by its argument: good; deadlock: rank 0 waits for a message that rank 1 never sends; crash: rank 1
 * aborts itself; leave: rank 1 ends with status 7 after MPI_Finalize. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "good";
    int rank, value = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(mode, "deadlock") && rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(mode, "crash") && rank == 1) abort();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return !strcmp(mode, "leave") && rank == 1 ? 7 : 0;
}
