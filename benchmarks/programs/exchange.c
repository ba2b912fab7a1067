/* Two ranks exchange DOUBLES values by nonblocking messages, STEPS times, and sweep over what they have SWEEPS times before
 * each. exchange DOUBLES STEPS SWEEPS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, n = argc > 1 ? atoi(argv[1]) : 1000, steps = argc > 2 ? atoi(argv[2]) : 1000;
    int sweeps = argc > 3 ? atoi(argv[3]) : 100;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *mine = malloc(n * sizeof *mine), *brought = malloc(n * sizeof *brought);
    for (int i = 0; i < n; i++)
        mine[i] = brought[i] = rank + i % 7;
    for (int s = 0; s < steps; s++) {
        MPI_Request both[2];
        for (int k = 0; k < sweeps; k++)
            for (int i = 0; i < n; i++)
                mine[i] = 0.5 * (mine[i] + brought[i]);
        MPI_Irecv(brought, n, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &both[0]);
        MPI_Isend(mine, n, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    }
    printf("rank %d: %.6g\n", rank, mine[n / 2] + brought[n / 2]);
    free(mine);
    free(brought);
    MPI_Finalize();
    return 0;
}
