/* Rounds of a ring with some lines of work between them: back.py goes back in it. Argument: the rounds. */
#include <mpi.h>
#include <stdlib.h>

static double smooth(double *part, int n) {
    double sum = 0;
    for (int i = 1; i < n; i++) {
        part[i] = 0.5 * (part[i] + part[i - 1]);
        sum += part[i];
    }
    return sum;
}

int main(int argc, char **argv) {
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 100;
    double part[16] = {0}, total = 0, left = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < rounds; round++) {
        MPI_Sendrecv(&total, 1, MPI_DOUBLE, (rank + 1) % size, 7, &left, 1, MPI_DOUBLE, (rank + size - 1) % size, 7,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        part[0] = left + rank;
        total = smooth(part, 16);
        total /= size; /* here */
    }
    MPI_Finalize();
    return total < 0;
}
