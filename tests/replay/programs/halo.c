/* 1-D halo exchange driven by Waitsome: each cell's new value is added in the order in which the halves come. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int left = (rank + size - 1) % size, right = (rank + 1) % size, trail = 0;
    double mine[512], in[2][512], sum = rank;
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        for (int i = 0; i < 512; i++) mine[i] = sum + i;
        MPI_Irecv(in[0], 512, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in[1], 512, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[1]);
        usleep((useconds_t)(rand() ^ getpid()) % 200);
        MPI_Isend(mine, 512, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(mine, 512, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[3]);
        for (int done = 0; done < 4;) {
            int count, which[4];
            MPI_Waitsome(4, requests, &count, which, MPI_STATUSES_IGNORE);
            for (int i = 0; i < count; i++) {
                trail = trail * 31 + which[i] + 1 + 7 * count;
                if (which[i] < 2) sum = sum * 0.3 + in[which[i]][step % 512] * 0.35;
            }
            done += count;
        }
    }
    double total;
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    int trails[64];
    MPI_Gather(&trail, 1, MPI_INT, trails, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++) printf("%08x ", (unsigned)trails[i]);
    if (rank == 0) printf("%a\n", total);
    MPI_Finalize();
    return 0;
}
