/* Jacobi on a square: argv[1] points a side, argv[2] steps. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000, steps = argc > 2 ? atoi(argv[2]) : 10;
    double *a = calloc((size_t)n * n, sizeof *a), *b = calloc((size_t)n * n, sizeof *b), change = 0;
    for (int i = 0; i < n; i++) a[i] = b[i] = 1;
    for (int t = 0; t < steps; t++) {
        change = 0;
#pragma omp parallel for reduction(+ : change)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++) {
                b[i * n + j] = (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1]) / 4;
                change += b[i * n + j] - a[i * n + j];
            }
        double *c = a;
        a = b, b = c;
    }
    printf("%g\n", change);
}
