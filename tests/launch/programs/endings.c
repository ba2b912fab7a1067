/* Ends in the way that argv[1] names, on rank 0 only, after a message has gone round. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, value = 0;
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        if (!strcmp(how, "segfault")) raise(SIGSEGV);
        if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 5);
        if (!strcmp(how, "kill")) raise(SIGKILL);
        if (!strcmp(how, "exit")) _exit(6);
        if (!strcmp(how, "sleep")) {
            puts("ready");
            fflush(stdout);
            sleep(60);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return !strcmp(how, "status") ? 7 : 0;
}
