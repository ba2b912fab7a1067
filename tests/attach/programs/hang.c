/* Ranks 0 and from 3 on are in a barrier. Rank 1 waits in a receive from rank 2 or computes, rank 2 sleeps. Of two ranks
 * rank 1 receives from rank 0, which is in the barrier for good.
 *
 *     hang recv|compute FILE     they go on once FILE is there
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ODD = 1, TAG = 7 };

static const char *file;
static int rank, size;
static volatile double sum;

static int there(void) { return access(file, F_OK) == 0; }

static void compute(void) {
    for (long step = 0; step % (1 << 24) != 0 || !there(); step++) sum += step * 0.5;
}

static void exchange(const char *mode, int from) {
    int value = rank;
    if (rank == ODD && strcmp(mode, "compute") == 0) compute();
    if (rank == ODD && strcmp(mode, "recv") == 0)
        MPI_Recv(&value, 1, MPI_INT,
                 from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == ODD + 1)
        while (!there()) usleep(10000);
    if (rank == ODD + 1 && strcmp(mode, "recv") == 0) MPI_Send(&value, 1, MPI_INT, ODD, TAG, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    file = argv[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    exchange(argv[1], (rank + 1) % size);
    if (rank == 0) puts("through");
    MPI_Finalize();
    return 0;
}
