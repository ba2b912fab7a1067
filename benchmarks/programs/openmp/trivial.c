/* Sweeps of a loop that computes nothing: what a check costs for each iteration. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long n = atol(argv[argc - 1]);
    double *a = calloc(n, sizeof *a);
    for (int sweep = 0; sweep < 10; sweep++) {
#pragma omp parallel for
        for (long i = 0; i < n; i++) a[i] += i;
    }
    printf("%g\n", a[n / 2]);
    free(a);
    return 0;
}
