/* Rank 1 polls for what rank 0 sends behind a pause (or so many seconds): some polls that fail, one that succeeds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, value = 0, done = 0, polls = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        usleep(argc > 1 ? atoi(argv[1]) * 1000000 : 50000);
        value = 7;
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE), polls++;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d has %d%s\n", rank, value, polls > 1 ? " after polling" : "");
    MPI_Finalize();
    return 0;
}
