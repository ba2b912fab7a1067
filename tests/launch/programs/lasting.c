/* Two ranks talk for so many seconds, with a little sleep between: then all is well, or it ends as the second word says.
 * With a third word rank 0 tells how many bursts of messages began within any so many seconds, at most. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURST = 300, BURSTS = 1 << 16 };

static void talk(int peer, int first) {
    int value = 0, in = 0;
    MPI_Request both[2];
    if (first) {
        MPI_Send(&value, 1, MPI_INT, peer, 7, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, peer, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&value, 1, MPI_INT, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, peer, 8, MPI_COMM_WORLD);
    }
    MPI_Irecv(&in, 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(&value, 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

/* Of `number` times in their order, the most that lie within `seconds`. */
static int most_within(const double *times, int number, double seconds) {
    int most = 0;
    for (int first = 0, next = 0; next < number; next++) {
        while (times[next] - times[first] > seconds) first++;
        if (next - first + 1 > most) most = next - first + 1;
    }
    return most;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    static double begun[BURSTS];
    int rank, value = 0, on = 1, bursts = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *end = argc > 2 ? argv[2] : "";
    double until = MPI_Wtime() + atof(argv[1]);
    while (on) {
        if (bursts < BURSTS) begun[bursts++] = MPI_Wtime();
        for (int i = 0; i < BURST; i++) talk(1 - rank, rank == 0);
        on = MPI_Wtime() < until;
        MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        usleep(10000);
    }
    if (argc > 3 && rank == 0) printf("%d\n", most_within(begun, bursts, atof(argv[3])));
    if (!strcmp(end, "deadlock") && rank == 0) MPI_Recv(&value, 1, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(end, "deadlock") && rank == 1) MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(end, "kill") && rank == 1) raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
