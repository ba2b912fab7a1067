/* Each rank writes its block of a variable with a nonblocking call and reads the next rank's. */
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>

enum { BLOCK = 64 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, file, dimension, variable, request, status;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ncmpi_create(MPI_COMM_WORLD, "blocks.nc", NC_CLOBBER, MPI_INFO_NULL, &file);
    ncmpi_def_dim(file, "x", (MPI_Offset)size * BLOCK, &dimension);
    ncmpi_def_var(file, "values", NC_INT, 1, &dimension, &variable);
    ncmpi_enddef(file);
    int block[BLOCK], next[BLOCK], sum = 0, all = 0;
    for (int i = 0; i < BLOCK; i++) block[i] = rank * 1000 + i;
    MPI_Offset start = (MPI_Offset)rank * BLOCK, count = BLOCK;
    ncmpi_iput_vara_int(file, variable, &start, &count, block, &request);
    ncmpi_wait_all(file, 1, &request, &status);
    ncmpi_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    start = (MPI_Offset)((rank + 1) % size) * BLOCK;
    ncmpi_get_vara_int_all(file, variable, &start, &count, next);
    ncmpi_close(file);
    for (int i = 0; i < BLOCK; i++) sum += next[i];
    MPI_Reduce(&sum, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %d\n", all);
    MPI_Finalize();
}
