/* Tasks that keep all that they have in registers, and print what comes of it; the argument says how many threads. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 4, WIDE = 8 };
static double sums[TASKS];
static uint64_t mixed[TASKS];

static __attribute__((noinline)) void work(int number) {
    double wide[WIDE];
    uint64_t x = number + 1, y = 88172645463325252u, carries = 0;
    for (int i = 0; i < WIDE; i++) wide[i] = number + i * 0.125;
    for (int round = 0; round < 40000000; round++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        carries += __builtin_add_overflow(x, y, &y);
        for (int i = 0; i < WIDE; i++) wide[i] = wide[i] * 0.999 + (double)i;
    }
    for (int i = 0; i < WIDE; i++) sums[number] += wide[i];
    mixed[number] = x + y + carries;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (int i = 0; i < TASKS; i++)
#pragma omp task firstprivate(i)
    {
        work(i);
    }
    for (int i = 0; i < TASKS; i++) printf("%a %016lx\n", sums[i], (unsigned long)mixed[i]);
    return 0;
}
