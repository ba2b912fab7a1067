/* Wildcard sums: nonblocking receives from any source, added in the order in which they complete. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    float sum = 0, in[64];
    for (int round = 0; round < rounds; round++) {
        if (rank == 0) {
            MPI_Request requests[64];
            for (int i = 0; i < size - 1; i++) MPI_Irecv(&in[i], 1, MPI_FLOAT, MPI_ANY_SOURCE, round, MPI_COMM_WORLD, &requests[i]);
            for (int i = 0; i < size - 1; i++) {
                int index;
                MPI_Waitany(size - 1, requests, &index, MPI_STATUS_IGNORE);
                sum = sum * 0.9f + in[index];
            }
        } else {
            float value = 1.0f / (float)(rank * 3 + round);
            usleep((useconds_t)(getpid() * 17 + round * 7919) % 300);
            MPI_Send(&value, 1, MPI_FLOAT, 0, round, MPI_COMM_WORLD);
        }
    }
    if (rank == 0) printf("%.9g\n", (double)sum);
    MPI_Finalize();
    return 0;
}
