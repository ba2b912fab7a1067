/* A pipelined wavefront over a 2-D grid of processes: four sweeps, one from each corner, in blocks of planes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 32
#define BLOCKS 16
#define PASSES 3

static void sweep(MPI_Comm grid, int block, int di, int dj, double *west, double *north, double *cells) {
    int up, down, left, right;
    MPI_Cart_shift(grid, 0, di, &up, &down);
    MPI_Cart_shift(grid, 1, dj, &left, &right);
    for (int i = 0; i < N; i++) west[i] = north[i] = 1.0;
    MPI_Recv(west, N, MPI_DOUBLE, left, 2 * block, grid, MPI_STATUS_IGNORE);
    MPI_Recv(north, N, MPI_DOUBLE, up, 2 * block + 1, grid, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double flux = 0.5 * (west[i] + north[j]) * 0.99;
            cells[i * N + j] += flux;
            west[i] = north[j] = flux;
        }
    MPI_Send(west, N, MPI_DOUBLE, right, 2 * block, grid);
    MPI_Send(north, N, MPI_DOUBLE, down, 2 * block + 1, grid);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size, rank, dims[2] = {0, 0}, periods[2] = {0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    double west[N], north[N], sum = 0, total;
    double *cells = calloc((size_t)BLOCKS * N * N, sizeof *cells);
    for (int pass = 0; pass < PASSES; pass++)
        for (int corner = 0; corner < 4; corner++)
            for (int block = 0; block < BLOCKS; block++)
                sweep(grid, block, corner & 1 ? -1 : 1, corner & 2 ? -1 : 1, west, north, cells + block * N * N);
    for (int i = 0; i < BLOCKS * N * N; i++) sum += cells[i];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, grid);
    if (rank == 0) printf("total %g\n", total);
    free(cells);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
