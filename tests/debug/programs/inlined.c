/* A function that exists only inlined, built with -O2: a bank of counters that each rank fills between two calls. */
#include <mpi.h>
#include <stdio.h>

static inline int fill(int k, int *v) {
    v[0] += k;
    printf("first %d\n", v[0]);
    v[1] += v[0]; /* here */
    printf("second %d\n", v[1]);
    return v[1];
}

int main(int argc, char **argv) {
    int me, all, v[2] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int i = 0; i < 3; i++) {
        MPI_Allreduce(&me, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        fill(all + i, v);
    }
    MPI_Finalize();
    return 0;
}
