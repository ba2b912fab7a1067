/* fib with a task for every call of it, after MPI has begun; with a second argument each task calls MPI once. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int calling;

static long fib(int n) {
    int rank;
    long a, b;
    if (calling) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (n < 2) return n;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b)
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(int argc, char **argv) {
    long value = 0;
    MPI_Init(&argc, &argv);
    calling = argc > 2;
#pragma omp parallel num_threads(1)
    value = fib(atoi(argv[1]));
    printf("%ld\n", value);
    MPI_Finalize();
    return 0;
}
