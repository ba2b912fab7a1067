/* Rank 0 waits for one of two messages, and reads the data of the first request whichever was complete (`wrong`), or of
 * the request that the call names (`right`). Rank 2 sends late, so that each recorded run is right.
 *
 *   unset CALL wrong|right     CALL: any, some, testany, testsome, named (rank 2 waits for a file that rank 1 writes) */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int complete_one(const char *call, MPI_Request requests[2]) {
    int index = -1, count = 0, flag = 0, indices[2];
    if (!strcmp(call, "some")) MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    else if (!strcmp(call, "testsome"))
        while (!count) MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    else if (!strcmp(call, "testany"))
        while (!flag) MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
    else MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    return count ? indices[0] : index;
}

int main(int argc, char **argv) {
    int rank, values[2] = {-1, -1};
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (int i = 0; i < 2; i++) MPI_Irecv(&values[i], 1, MPI_INT, i + 1, 0, MPI_COMM_WORLD, &requests[i]);
        MPI_Barrier(MPI_COMM_WORLD);
        int index = complete_one(argv[1], requests);
        int value = values[strcmp(argv[2], "right") ? 0 : index];
        printf("%s\n", value < 0 ? "unset" : "set");
        fflush(stdout);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else {
        if (rank == 1) remove("written");
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 2 && strcmp(argv[1], "named")) usleep(150000);
        for (int i = 0; rank == 2 && !strcmp(argv[1], "named") && i < 1000 && access("written", F_OK); i++) usleep(10000);
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        if (rank == 1) fclose(fopen("written", "w"));
    }
    MPI_Finalize();
    return 0;
}
