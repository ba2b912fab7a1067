/* Rank 0 takes a message of each other rank, and goes another way where that of rank 2 comes first. Rank 2 sends late. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void another_way(const char *mode) {
    int nothing, came = 0;
    if (!strcmp(mode, "hang")) MPI_Recv(&nothing, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* nobody sends it */
    if (!strcmp(mode, "compute"))
        for (volatile int forever = 1; forever;) {}
    while (!strcmp(mode, "poll") && !came) MPI_Iprobe(1, 2, MPI_COMM_WORLD, &came, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank, first, second, came = 0, status = 0;
    const char *mode = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        while (!strcmp(mode, "polls") && !came) MPI_Iprobe(2, 1, MPI_COMM_WORLD, &came, MPI_STATUS_IGNORE); /* fails */
        MPI_Recv(&first, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* race */
        MPI_Recv(&second, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (first == 2) another_way(mode);
        if (first == 2 && !strcmp(mode, "status")) status = 5;
        printf("sum %d\n", first + second);
    } else {
        if (rank == 2) usleep(300000);
        MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return status;
}
