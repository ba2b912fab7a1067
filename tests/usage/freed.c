/* Rank 1 frees a communicator on which a message has come that it never received. */
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Comm copy;
    int rank, there, x = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank == 0) MPI_Send(&x, 1, MPI_INT, 1, 5, copy); /* BUG */
    if (rank == 1) MPI_Probe(0, 5, copy, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(0, 7, copy, &there, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    MPI_Finalize();
    return 0;
}
