/* Heat on a plane, 5 points, rows in blocks, periodic: stencil SIDE STEPS. Each rank has SIDE rows of SIDE points and
 * exchanges its outer rows with its neighbours (itself, alone) by Irecv/Isend/Waitall; the residual every 10 steps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "processor_time.h"

int main(int argc, char **argv) {
    int rank, size, side = atoi(argv[1]), steps = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int up = (rank + size - 1) % size, down = (rank + 1) % size;
    size_t row = (size_t)side + 2;
    double *now = calloc(row * row, sizeof *now), *next = calloc(row * row, sizeof *next), residual = 0, all = 0;
    for (size_t i = 0; i < row * row; i++) now[i] = (double)((i * 7919 + (size_t)rank) % 1000);
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        MPI_Irecv(now, (int)row, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(now + row * (row - 1), (int)row, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(now + row * (row - 2), (int)row, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(now + row, (int)row, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        residual = 0;
        for (size_t y = 1; y + 1 < row; y++)
            for (size_t x = 1; x + 1 < row; x++) {
                size_t i = y * row + x;
                next[i] = 0.25 * (now[i - 1] + now[i + 1] + now[i - row] + now[i + row]);
                residual += (next[i] - now[i]) * (next[i] - now[i]);
            }
        double *kept = now;
        now = next;
        next = kept;
        if (step % 10 == 0) MPI_Allreduce(&residual, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    print_processor_time(rank, size);
    MPI_Finalize();
    return all < 0;
}
