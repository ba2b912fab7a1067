/* Sends argv[1] messages to itself, more than a small disk can hold the record of. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int value = 0;
    MPI_Init(&argc, &argv);
    for (long i = 0; i < atol(argv[1]); i++)
        MPI_Sendrecv_replace(&value, 1, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    puts("done");
    MPI_Finalize();
    return 0;
}
