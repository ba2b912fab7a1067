/* Between two calls of MPI one function adds up squares three times. */
#include <mpi.h>
#include <stdio.h>

static int add(int n) {
    int total = 0;
    for (int k = 1; k <= n; k++)
        total = total + k * k; /* here */
    return total;
}

int main(void) {
    int mine = 0, all = 0, me;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 3; round++) mine += add(3 + round);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0) printf("all %d\n", all);
    MPI_Finalize();
    return 0;
}
