/* Sends more of a block of the heap than it has. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 10, MORE = 40 };

int main(int argc, char **argv) {
    static int got[MORE];
    MPI_Init(&argc, &argv);
    int *few = calloc(N, sizeof *few);
    MPI_Sendrecv(few, argc > 1 ? N : MORE, MPI_INT, 0, 0, got, MORE, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    free(few);
    puts("over");
    MPI_Finalize();
    return 0;
}
