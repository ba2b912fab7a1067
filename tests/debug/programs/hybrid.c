/* Two ranks with OpenMP tasks: one holds the second thread, so that two others have not begun when the ranks speak. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static volatile int holding, go_on;

static long work(long from, int n) {
    long sum = 0;
    for (int i = 0; i < n; i++)
        sum += from + i;
    return sum;
}

int main(int argc, char **argv) {
    int rank, provided, value = 0;
    long sums[3] = {0};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#pragma omp parallel num_threads(2)
#pragma omp master
    {
#pragma omp task
        for (holding = 1; !go_on;)
            usleep(1000);
        while (!holding)
            usleep(1000);
        for (int i = 0; i < 2; i++)
#pragma omp task shared(sums)
        {
            long sum = work(10 * rank + i, 3);
            sums[i] = sum;
        }
        value = rank + 1;
        if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        value += 100;
        go_on = 1;
#pragma omp taskwait
        sums[2] = sums[0] + sums[1];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d: %ld %d\n", rank, sums[2], value);
    MPI_Finalize();
    return 0;
}
