/* Halo exchange on a line of ranks: the neighbours' values of one step are what the next step begins with. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 10;
    double mine, in[2] = {0, 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    mine = rank;
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        MPI_Irecv(&in[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&in[1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(&mine, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&mine, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        mine = 0.5 * mine + 0.25 * (in[0] + in[1]);
    }
    printf("%d %a\n", rank, mine);
    MPI_Finalize();
    return 0;
}
