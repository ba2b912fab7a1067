/* Rank 2 sends only where it sees a file that rank 0 writes behind its first receive: an order that no call of MPI
 * tells, so that rank 2 leaves its record where a replay is asked to receive from it first. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, value = 7;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) remove("seen");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* the first */
        fclose(fopen("seen", "w"));
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* the second */
    } else {
        for (int waited = 0; rank == 2 && waited < 50 && access("seen", F_OK) != 0; waited++) usleep(10000);
        if (rank == 1 || access("seen", F_OK) == 0)
            MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD); /* sent */
    }
    MPI_Finalize();
    return 0;
}
