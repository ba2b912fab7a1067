/* Distances that are relaxed by compare-and-swap, as GAP's sssp does it; they are read by atomic loads. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = atoi(argv[argc - 1]), *distance = malloc(n * sizeof *distance);
    for (int i = 0; i < n; i++) distance[i] = 1 << 20;
#pragma omp parallel for schedule(dynamic, 64)
    for (int i = 0; i < n; i++)
        for (int edge = 0; edge < 16; edge++) {
            int to = (int)(((unsigned)i * 16 + edge) * 2654435761u >> 7) % n;
            int wanted = __atomic_load_n(&distance[i], __ATOMIC_RELAXED) / 2 + edge;
            int old = __atomic_load_n(&distance[to], __ATOMIC_RELAXED);
            while (wanted < old)
                if (__atomic_compare_exchange_n(&distance[to], &old, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                    break;
        }
    long sum = 0;
    for (int i = 0; i < n; i++) sum += distance[i];
    printf("%ld\n", sum);
    free(distance);
    return 0;
}
