/* Products of a sparse matrix in compressed rows with a vector: argv[1] rows, argv[2] times. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 200000, times = argc > 2 ? atoi(argv[2]) : 10, width = 9;
    int *first = malloc((size_t)(n + 1) * sizeof *first), *column = malloc((size_t)n * width * sizeof *column);
    double *value = malloc((size_t)n * width * sizeof *value), *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    for (int i = 0; i < n; i++) {
        first[i] = i * width, x[i] = 1;
        for (int k = 0; k < width; k++) column[i * width + k] = (int)((i + 37L * k * k) % n), value[i * width + k] = k;
    }
    first[n] = n * width;
    for (int t = 0; t < times; t++) {
#pragma omp parallel for
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int k = first[i]; k < first[i + 1]; k++) sum += value[k] * x[column[k]];
            y[i] = sum;
        }
    }
    printf("%g\n", y[n / 2]);
}
