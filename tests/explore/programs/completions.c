/* Rank 0 receives a message of each other rank and takes them as they are complete: one by MPI_Waitany or some by
 * MPI_Waitsome. Where the last rank's comes first and then that of rank 2 it waits for a message that nobody sends.
 * With `all`, nothing depends on the order. Requests are persistent with `started`. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, size, value[8], order[8], at = 0;
    MPI_Request requests[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *how = argc > 1 ? argv[1] : "any", *what = argc > 2 ? argv[2] : "hang";
    int n = size - 1;
    if (rank) {
        MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    } else if (strcmp(how, "started") == 0) {
        for (int i = 0; i < n; i++) MPI_Recv_init(&value[i], 1, MPI_INT, i + 1, 1, MPI_COMM_WORLD, &requests[i]);
        MPI_Startall(n, requests);
        for (; at < n; at++) MPI_Waitany(n, requests, &order[at], MPI_STATUS_IGNORE); /* started */
        for (int i = 0; i < n; i++) MPI_Request_free(&requests[i]);
    } else {
        for (int i = 0; i < n; i++) MPI_Irecv(&value[i], 1, MPI_INT, i + 1, 1, MPI_COMM_WORLD, &requests[i]);
        while (at < n) {
            int some = 1;
            if (strcmp(how, "some") == 0)
                MPI_Waitsome(n, requests, &some, &order[at], MPI_STATUSES_IGNORE); /* some */
            else
                MPI_Waitany(n, requests, &order[at], MPI_STATUS_IGNORE); /* any */
            at += some;
        }
    }
    if (rank == 0 && strcmp(what, "hang") == 0 && order[0] == n - 1 && order[1] == 1)
        MPI_Recv(value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) printf("sum %d\n", value[0] + value[1] + value[2]);
    MPI_Finalize();
    return 0;
}
