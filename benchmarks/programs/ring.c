/* A message goes round: ring ROUNDS BYTES STEPS [rounds]. Each rank works for STEPS steps of arithmetic before it sends
 * on. With `rounds` behind it, prints how long the rounds took in ns, else the processor time of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "processor_time.h"

int main(int argc, char **argv) {
    int rank, size, rounds = atoi(argv[1]), bytes = atoi(argv[2]), steps = atoi(argv[3]);
    char *data = calloc((size_t)bytes, 1);
    double x = 1;
    struct timespec begin, end;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int round = 0; round < rounds; round++) {
        if (rank) MPI_Recv(data, bytes, MPI_CHAR, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < steps; i++) x = x * 0.999999 + 1.0 / x;
        MPI_Send(data, bytes, MPI_CHAR, (rank + 1) % size, 0, MPI_COMM_WORLD);
        if (!rank) MPI_Recv(data, bytes, MPI_CHAR, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = 1e9 * (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec);
    if (argc <= 4) print_processor_time(rank, size);
    else if (rank == 0) printf("%.0f\n", took);
    MPI_Finalize();
    return x < 0;
}
