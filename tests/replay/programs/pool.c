/* Master and workers: the master takes results from whoever comes and hands out the next task. Prints the order of
 * the results and a sum that depends on it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, tasks = argc > 1 ? atoi(argv[1]) : 40;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        double sum = 0, value;
        int next = 0, out = 0;
        MPI_Status status;
        for (int r = 1; r < size && next < tasks; r++, next++, out++) MPI_Send(&next, 1, MPI_INT, r, 1, MPI_COMM_WORLD);
        while (out) {
            MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
            sum = sum / 1.0000001 + value;
            printf("%d", status.MPI_SOURCE);
            out--;
            if (next < tasks) {
                MPI_Send(&next, 1, MPI_INT, status.MPI_SOURCE, 1, MPI_COMM_WORLD);
                next++, out++;
            }
        }
        int stop = -1;
        for (int r = 1; r < size; r++) MPI_Send(&stop, 1, MPI_INT, r, 1, MPI_COMM_WORLD);
        printf(" %a\n", sum);
    } else {
        for (int task;;) {
            MPI_Recv(&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (task < 0) break;
            usleep((useconds_t)((getpid() * 7919 + task * 104729) % 700));
            double value = 1.0 / (task + 1);
            MPI_Send(&value, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
