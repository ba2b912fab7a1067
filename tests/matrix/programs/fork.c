/* A rank has a child process that calls no MPI: nothing of it is recorded, and the rank's own record goes on. */
#include <sys/wait.h>

#include "log.h"

int main(void) {
    int rank = 0, size = 0, in = 0, state = 0;
    log_open();
    log_meanings();
    CALL(MPI_Init, NULL, NULL);
    CALL(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
    CALL(MPI_Comm_size, MPI_COMM_WORLD, &size);
    CALL(MPI_Barrier, MPI_COMM_WORLD);
    pid_t child = fork();
    if (child == 0) _exit(getenv("LD_PRELOAD") || getenv("WEFT_INTERNAL_RUN") ? 3 : 0);
    if (child < 0 || waitpid(child, &state, 0) != child || state != 0) return 1;
    CALL(MPI_Sendrecv, &rank, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CALL0(MPI_Finalize);
    return 0;
}
