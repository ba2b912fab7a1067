/* Rank 0 adds what the others send, whoever comes first; with an argument two ranks wait for each other. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, value, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) MPI_Recv(&value, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank) MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    for (int i = 1; !rank && i < size; i++) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += value;
    }
    if (!rank) printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
