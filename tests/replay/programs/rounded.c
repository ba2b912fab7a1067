/* Three ranks add 1e16, 1 and -1e16 to numbers of rank 0, in an order that chance decides: each sum is 0 or 1 by that order.
 * With an argument they add integers, whose sums do not depend on it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SUMS = 10, COPIES = 4 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Datatype type = argc > 1 ? MPI_LONG : MPI_DOUBLE;
    double *sums, seen[SUMS][COPIES] = {0};
    MPI_Win window;
    MPI_Win_allocate(rank ? 0 : sizeof seen, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &sums, &window);
    for (int i = 0; !rank && i < SUMS * COPIES; i++) sums[i] = 0; /* the same bits as an integer's */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    srand((unsigned)getpid());
    for (int i = 0; i < SUMS; i++) {
        const double terms[] = {1e16, 1, -1e16};
        double part[COPIES];
        long whole[COPIES];
        for (int j = 0; j < COPIES; j++) whole[j] = (long)(part[j] = terms[(rank + i) % 3]);
        usleep((unsigned)rand() % 2000);
        MPI_Accumulate(argc > 1 ? (void *)whole : part, COPIES, type, 0, i * COPIES, COPIES, type, MPI_SUM, window);
        MPI_Win_flush_local(0, window);
    }
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get_accumulate(NULL, 0, type, seen, SUMS * COPIES, type, 0, 0, SUMS * COPIES, type, MPI_NO_OP, window);
    MPI_Win_unlock_all(window);
    for (int i = 0; !rank && i < SUMS; i++) printf("%d ", argc > 1 ? (int)*(long *)&seen[i][0] : (int)seen[i][0]);
    MPI_Win_free(&window);
    MPI_Finalize();
}
