/* Two ranks; the second always comes late. `eager`: messages that are buffered; `rendezvous`: messages that are not;
 * `synchronous`: of 8 bytes, but MPI_Ssend; `late`: messages of both sizes that are sent late. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMES = 6, LATE = 60000, LARGE = 1 << 20 };

static char out[LARGE], in[LARGE];

static void exchange(int rank, int bytes) {
    MPI_Request both[2];
    if (rank == 1) usleep(LATE);
    MPI_Irecv(in, bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &both[0]);
    MPI_Isend(out, bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void one_way(int rank, int bytes, int synchronous) {
    MPI_Request request;
    if (rank == 0) {
        if (synchronous) MPI_Ssend(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        else MPI_Send(out, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Isend(out, bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        usleep(LATE);
        MPI_Recv(in, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(LATE);
        MPI_Recv(in, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *mode = argv[1];
    for (int i = 0; i < TIMES; i++) {
        if (!strcmp(mode, "eager")) one_way(rank, i % 2 ? 8 : 500, 0);
        if (!strcmp(mode, "rendezvous")) one_way(rank, LARGE, 0);
        if (!strcmp(mode, "synchronous")) one_way(rank, 8, 1);
        if (!strcmp(mode, "late")) exchange(rank, i % 2 ? 8 : LARGE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
