/* fib, n-queens and knapsack with OpenMP tasks: PROGRAM SIZE CUTOFF; a task for every call above the cut-off.
 * With `count` as the last word it says too how many there were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cutoff, counting;
static long made;

static inline void count(void) {
    if (__builtin_expect(counting, 0)) __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
}

static long fib(int n, int depth) {
    long a, b;
    if (n < 2) return n;
    if (depth >= cutoff) return fib(n - 1, depth + 1) + fib(n - 2, depth + 1);
    count();
#pragma omp task shared(a)
    a = fib(n - 1, depth + 1);
    count();
#pragma omp task shared(b)
    b = fib(n - 2, depth + 1);
#pragma omp taskwait
    return a + b;
}

static int safe(const char *rows, int at, int row) {
    for (int i = 0; i < at; i++)
        if (rows[i] == row || abs(rows[i] - row) == at - i) return 0;
    return 1;
}

static long queens(int n, int at, const char *rows) {
    long counts[32] = {0}, sum = 0;
    if (at == n) return 1;
    for (int row = 0; row < n; row++) {
        if (!safe(rows, at, row)) continue;
        if (at >= cutoff) {
            char mine[32];
            memcpy(mine, rows, at);
            mine[at] = (char)row;
            counts[row] = queens(n, at + 1, mine);
            continue;
        }
        char mine[32];
        memcpy(mine, rows, at);
        mine[at] = (char)row;
    count();
#pragma omp task shared(counts) firstprivate(mine, row)
        counts[row] = queens(n, at + 1, mine);
    }
    if (at < cutoff) {
#pragma omp taskwait
    }
    for (int row = 0; row < n; row++) sum += counts[row];
    return sum;
}

static long knapsack(int item, int room, int depth) {
    static const int weights[] = {7, 12, 5, 9, 14, 6, 11, 8, 13, 10}, values[] = {13, 20, 9, 15, 27, 10, 19, 14, 24, 17};
    long with = 0, without;
    if (item < 0 || room <= 0) return 0;
    int w = weights[item % 10] + item, v = values[item % 10] + item;
    if (depth >= cutoff) {
        without = knapsack(item - 1, room, depth + 1);
        if (w <= room) with = v + knapsack(item - 1, room - w, depth + 1);
        return with > without ? with : without;
    }
    count();
#pragma omp task shared(without)
    without = knapsack(item - 1, room, depth + 1);
    if (w <= room) {
    count();
#pragma omp task shared(with)
        with = v + knapsack(item - 1, room - w, depth + 1);
    }
#pragma omp taskwait
    return with > without ? with : without;
}

int main(int argc, char **argv) {
    int size = argc > 2 ? atoi(argv[2]) : 20;
    long got = 0;
    cutoff = argc > 3 ? atoi(argv[3]) : 1000;
    counting = argc > 4;
#pragma omp parallel
#pragma omp single
    {
        if (argc < 2 || !strcmp(argv[1], "fib")) got = fib(size, 0);
        else if (!strcmp(argv[1], "queens")) got = queens(size, 0, "");
        else got = knapsack(size, size * 8, 0);
    }
    printf("%ld\n", got);
    if (counting) printf("%ld\n", made);
    return 0;
}
