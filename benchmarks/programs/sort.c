/* Sample sort: sort KEYS ROUNDS. Each rank sorts its KEYS, samples are gathered by all, the keys go to their ranks by
 * Alltoall and Alltoallv, and are sorted there. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "processor_time.h"

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int one_round(int rank, int size, int keys, uint32_t seed) {
    uint32_t *mine = malloc(sizeof *mine * (size_t)keys), *samples = malloc(sizeof *samples * (size_t)(size * size));
    int *counts = calloc((size_t)size * 4, sizeof *counts), *starts = counts + size, *got = starts + size, *at = got + size;
    for (int i = 0; i < keys; i++) mine[i] = seed = seed * 1664525u + 1013904223u;
    qsort(mine, (size_t)keys, sizeof *mine, ascending);
    for (int i = 0; i < size; i++) samples[rank * size + i] = mine[(int64_t)keys * i / size];
    MPI_Allgather(MPI_IN_PLACE, size, MPI_UINT32_T, samples, size, MPI_UINT32_T, MPI_COMM_WORLD);
    qsort(samples, (size_t)(size * size), sizeof *samples, ascending);
    for (int i = 0, bucket = 0; i < keys; i++) {
        while (bucket + 1 < size && mine[i] >= samples[(bucket + 1) * size]) bucket++;
        counts[bucket]++;
    }
    MPI_Alltoall(counts, 1, MPI_INT, got, 1, MPI_INT, MPI_COMM_WORLD);
    int total = 0;
    for (int i = 0, sent = 0; i < size; i++) {
        starts[i] = sent;
        at[i] = total;
        sent += counts[i];
        total += got[i];
    }
    uint32_t *sorted = malloc(sizeof *sorted * (size_t)(total + 1));
    MPI_Alltoallv(mine, counts, starts, MPI_UINT32_T, sorted, got, at, MPI_UINT32_T, MPI_COMM_WORLD);
    qsort(sorted, (size_t)total, sizeof *sorted, ascending);
    int wrong = 0;
    for (int i = 1; i < total; i++) wrong |= sorted[i - 1] > sorted[i];
    free(mine), free(samples), free(counts), free(sorted);
    return wrong;
}

int main(int argc, char **argv) {
    int rank, size, keys = atoi(argv[1]), wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = atoi(argv[2]); round > 0; round--) wrong |= one_round(rank, size, keys, (uint32_t)(rank * 131 + round));
    print_processor_time(rank, size);
    MPI_Finalize();
    return wrong;
}
