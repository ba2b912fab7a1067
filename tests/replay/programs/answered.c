/* Rank 2 sends its first message to rank 0 only when rank 0 has answered that of rank 1; their second ones race. Then
 * rank 0 says so and sleeps as long as it is told. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, value = 0, first = 0;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 2) MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int tag = 1; rank && tag < 3; tag++) MPI_Send(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
    for (int tag = 1; !rank && tag < 3; tag++)
        for (int i = 0; i < 2; i++) {
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status); /* any */
            if (tag == 1 && i == 0) MPI_Send(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
            if (tag == 2 && i == 0) first = status.MPI_SOURCE;
        }
    if (!rank) {
        printf("first %d\n", first);
        fflush(stdout);
        for (unsigned left = argc > 1 ? (unsigned)atoi(argv[1]) : 0; left;) left = sleep(left);
    }
    MPI_Finalize();
    return 0;
}
