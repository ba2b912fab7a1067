/* Two ranks, each of which waits for a message with a tag that the other never sends. */
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Send(&value, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 17, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
