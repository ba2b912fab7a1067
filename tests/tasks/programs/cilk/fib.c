/* fib, an array filled by halves, a loop, a scope: OpenCilk's keywords. */
#include <stdio.h>
#include <stdlib.h>
#include <cilk/cilk.h>

int fib(int n) {
    if (n < 2)
        return n; /* no cilk_spawn here */
    int x = cilk_spawn fib(n - 1);
    int y = fib(n - 2);
    cilk_sync;
    return x + y;
}

struct part {
    int *of, from, to;
};

void fill(struct part part, int by) {
    for (int i = part.from; i < part.to; i++)
        part.of[i] += i * by;
}

void touch(int *of, int n) {
    if (n > 0)
        cilk_spawn touch(of + 1, n - 1);
    of[0] += 1;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10, total = 0;
    int a[64] = {0};
    for (int i = 0; i < 4; i++)
        cilk_spawn fill((struct part){a, 16 * i, 16 * i + 16},
                        i);
    if (n > 0)
        cilk_sync;
    cilk_scope {
        cilk_spawn touch(a, 63);
    }
    cilk_for (int i = 0; i < 64; i++)
        a[i] *= 2;
    for (int i = 0; i < 64; i++)
        total += a[i];
    printf("fib(%d) = %d, total %d; no spawn\n", n, fib(n), total);
    return 0;
}
