/* Ranks 1 and up send two messages a step to rank 0, which takes the first from anyone and then asks for the second
 * of that rank. The number of steps is read from a file. What goes wrong is chosen when it is built (SWAPPED: the
 * messages in the other order) and when it is run: chance (the order is drawn anew each time), deadlock (after the
 * steps all wait). With WEFT_TEST_CRASH in the environment rank 1 is killed in the middle, once the last rank has sent
 * something. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void send_both(int step, int swapped) {
    int value = step;
    if (swapped) {
        MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD); /* swapped: 2 */
        MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD); /* swapped: 1 */
    } else {
        MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD); /* in order: 1 */
        MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD); /* in order: 2 */
    }
}

int main(int argc, char **argv) {
    int rank, size, steps = 0;
    const char *mode = argc > 2 ? argv[2] : "";
    FILE *input = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!input || fscanf(input, "%d", &steps) != 1) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char sent[32];
    snprintf(sent, sizeof sent, "sent-%d", (int)getppid()); /* of this job: its ranks have one parent */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned chance = (unsigned)now.tv_nsec ^ (unsigned)getpid();
    for (int step = 0; step < steps; step++) {
        for (int i = 1; rank == 0 && i < size; i++) {
            MPI_Status status;
            int value;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status); /* the first */
            MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (rank == 1 && step == steps / 2 && getenv("WEFT_TEST_CRASH")) {
            while (access(sent, F_OK)) usleep(1000);
            raise(SIGKILL);
        }
        int swapped = 0;
#ifdef SWAPPED
        swapped = 1;
#endif
        if (strcmp(mode, "chance") == 0) chance = chance * 1103515245u + 12345u, swapped = (int)(chance >> 16) & 1;
        if (rank) send_both(step, swapped);
        if (rank == size - 1 && getenv("WEFT_TEST_CRASH")) fclose(fopen(sent, "w"));
    }
    int value = 0;
    if (strcmp(mode, "deadlock") == 0)
        MPI_Recv(&value, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* all wait */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
