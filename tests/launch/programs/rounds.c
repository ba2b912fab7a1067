/* Two ranks pass a message to and fro as often as the argument says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, value = 0, rounds = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, !rank, rank ? 1 : 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%d rounds in %.3f s\n", rounds, MPI_Wtime() - start);
    MPI_Finalize();
    return 0;
}
