/* A vector in blocks, of which the sum of squares is reduced in each of 5 steps, to all and to the last rank, and a step
 * length is broadcast; before them its length and a start. With `fault` the last rank leaves its last number out in step 3. */
#include <mpi.h>
#include <string.h>

enum { N = 840, STEPS = 5 };

int main(int argc, char **argv) {
    int rank, size, length = N;
    double x[N], start = 0.25;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    int low = length * rank / size, high = length * (rank + 1) / size;
    for (int i = low; i < high; i++) x[i] = start / (i + 1);
    for (int step = 0; step < STEPS; step++) {
        int end = argc > 1 && strcmp(argv[1], "fault") == 0 && step == 3 && rank == size - 1 ? high - 1 : high;
        double mine = 0, all, scale = 0;
        for (int i = low; i < end; i++) mine += x[i] * x[i];
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Reduce(&mine, &scale, 1, MPI_DOUBLE, MPI_SUM, size - 1, MPI_COMM_WORLD);
        MPI_Bcast(&scale, 1, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
        for (int i = low; i < high; i++) x[i] *= 1 + scale - all / 2;
    }
    MPI_Finalize();
    return 0;
}
