/* Rank 0 copies standard input to standard output, and says to standard error how many bytes it was. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, c;
    long n = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        for (; (c = getchar()) != EOF; n++) putchar(c);
        fprintf(stderr, "%ld bytes\n", n);
    }
    MPI_Finalize();
    return 0;
}
