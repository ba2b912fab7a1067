/* Sends and receives large messages, nonblocking too, of the heap. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 18 };

int main(int argc, char **argv) {
    int rank, sum = 0;
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int *in = malloc(N * sizeof *in), *out = malloc(N * sizeof *out), *small = malloc(64 * sizeof *small);
    for (int i = 0; i < N; i++) out[i] = rank + 1;
    MPI_Irecv(in, N, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, N, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Allreduce(&in[N / 2], small, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    sum = small[0];
    if (!rank) printf("sum %d\n", sum);
    free(in);
    free(out);
    free(small);
    MPI_Finalize();
    return 0;
}
