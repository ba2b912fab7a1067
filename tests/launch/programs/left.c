/* Rank 1 dies, and what started it does not notice; rank 0 waits for it, or ("later") computes 12 s and leaves. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void let_go(int signal) {
    kill(getppid(), SIGCONT);
    _exit(signal);
}

int main(int argc, char **argv) {
    int rank, size, x = 0;
    signal(SIGTERM, let_go);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        kill(getppid(), SIGSTOP);
        raise(SIGKILL);
    }
    if (argc > 1) sleep(12);
    else MPI_Recv(&x, 1, MPI_INT, size - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d goes on\n", rank);
    fflush(stdout);
    kill(getppid(), SIGCONT);
    return 0;
}
