/* Stands between the recorder and MPI (preloaded after it) and sums up what MPI is asked to send: calls, bytes, and a
 * hash of each call's bytes, peer and tag. Writes them to $SPY_OUT.<rank> at MPI_Finalize. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t calls, bytes, hash = 0xcbf29ce484222325u;

static void seen(int call, int64_t count, MPI_Datatype type, int peer, int tag) {
    int size = 0;
    PMPI_Type_size(type, &size);
    const int64_t facts[] = {call, count * size, peer, tag};
    calls++;
    bytes += (uint64_t)(count * size);
    for (int i = 0; i < 4; i++) hash = (hash ^ (uint64_t)facts[i]) * 0x100000001b3u;
}

int MPI_Send(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c) {
    seen(1, n, t, to, tag);
    return PMPI_Send(b, n, t, to, tag, c);
}
int MPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r) {
    seen(2, n, t, to, tag);
    return PMPI_Isend(b, n, t, to, tag, c, r);
}
int MPI_Allreduce(const void *b, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c) {
    seen(3, n, t, -1, -1);
    return PMPI_Allreduce(b, r, n, t, op, c);
}
int MPI_Reduce(const void *b, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c) {
    seen(4, n, t, root, -1);
    return PMPI_Reduce(b, r, n, t, op, root, c);
}
int MPI_Allgather(const void *b, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c) {
    seen(5, m, u, -1, -1);
    return PMPI_Allgather(b, n, t, r, m, u, c);
}
int MPI_Alltoall(const void *b, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c) {
    seen(6, n, t, -1, -1);
    return PMPI_Alltoall(b, n, t, r, m, u, c);
}
int MPI_Alltoallv(const void *b, const int *n, const int *at, MPI_Datatype t, void *r, const int *m, const int *from,
                  MPI_Datatype u, MPI_Comm c) {
    int size = 0;
    PMPI_Comm_size(c, &size);
    for (int i = 0; i < size; i++) seen(7, n[i], t, i, at[i]);
    return PMPI_Alltoallv(b, n, at, t, r, m, from, u, c);
}
int MPI_Finalize(void) {
    int rank = 0;
    char path[4096];
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", getenv("SPY_OUT"), rank);
    FILE *file = fopen(path, "w");
    if (file) fprintf(file, "%llu %llu %llx\n", (unsigned long long)calls, (unsigned long long)bytes, (unsigned long long)hash);
    if (file) fclose(file);
    return PMPI_Finalize();
}
