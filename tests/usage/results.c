/* Several one-sided operations put their results into one buffer, one after the other: MPI writes it again and again. With
 * an argument the program itself writes it meanwhile. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4 };

int main(int argc, char **argv) {
    int rank, size, *base, one[N] = {1, 1, 1, 1}, *got = calloc(N, sizeof *got);
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    base = calloc(N, sizeof *base);
    MPI_Win_create(base, N * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    int times = argc > 1 ? atoi(argv[1]) : 1, writes = argc > 2;
    for (int i = 0; !rank && i < times; i++)
        MPI_Get_accumulate(one, N, MPI_INT, got, N, MPI_INT, 1, 0, N, MPI_INT, MPI_SUM, win);
    if (!rank && writes) got[1] = -1;
    if (!rank) MPI_Win_flush(1, win);
    MPI_Win_unlock_all(win);
    if (!rank && !writes) printf("got %d\n", got[0]);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
