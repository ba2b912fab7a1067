/* Sparse exchange among unknown partners: synchronous sends, probes, and a nonblocking barrier that says when all
 * sends have been received (Hoefler, Siebert, Lumsdaine 2010: NBX). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 25
#define MOST 400

static unsigned state;
static int random_below(int n) {
    state = state * 1103515245u + 12345u;
    return (int)((state >> 16) % (unsigned)n);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size, rank;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    state = 77u + (unsigned)rank;
    long sent = 0, got = 0;
    double *out = malloc(sizeof *out * MOST * (size_t)size);
    MPI_Request *q = malloc(sizeof *q * (size_t)size);
    for (int round = 0; round < ROUNDS; round++) {
        int count = 0;
        for (int to = 0; to < size; to++) {
            if (to == rank || random_below(2)) continue;
            int n = 1 + random_below(MOST);
            for (int i = 0; i < n; i++) out[to * MOST + i] = rank + i;
            MPI_Issend(out + to * MOST, n, MPI_DOUBLE, to, round, comm, q + count++);
            sent += n;
        }
        MPI_Request barrier = MPI_REQUEST_NULL;
        for (int done = 0, entered = 0; !done;) {
            int there;
            MPI_Status status;
            MPI_Iprobe(MPI_ANY_SOURCE, round, comm, &there, &status);
            if (there) {
                int n;
                MPI_Get_count(&status, MPI_DOUBLE, &n);
                double *in = malloc(sizeof *in * (size_t)n);
                MPI_Recv(in, n, MPI_DOUBLE, status.MPI_SOURCE, round, comm, MPI_STATUS_IGNORE);
                got += n;
                if (in[n - 1] != status.MPI_SOURCE + n - 1) MPI_Abort(comm, 3);
                free(in);
            }
            if (entered) {
                MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
            } else {
                int all;
                MPI_Testall(count, q, &all, MPI_STATUSES_IGNORE);
                if (all) {
                    MPI_Ibarrier(comm, &barrier);
                    entered = 1;
                }
            }
        }
    }
    long mine[2] = {sent, got}, total[2];
    MPI_Allreduce(mine, total, 2, MPI_LONG, MPI_SUM, comm);
    if (rank == 0) printf("sent %ld received %ld\n", total[0], total[1]);
    free(out);
    free(q);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return total[0] == total[1] ? 0 : 1;
}
