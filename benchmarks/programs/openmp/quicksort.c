/* Quicksort with a task for each part: argv[1] numbers. */
#include <stdio.h>
#include <stdlib.h>

static void sort(int *a, int low, int high) {
    while (low < high) {
        int at = low, pivot = a[(low + high) / 2];
        a[(low + high) / 2] = a[high];
        for (int i = low; i < high; i++)
            if (a[i] < pivot) {
                int t = a[i];
                a[i] = a[at], a[at++] = t;
            }
        a[high] = a[at], a[at] = pivot;
        if (at - low > 64) {
#pragma omp task
            sort(a, low, at - 1);
        } else {
            sort(a, low, at - 1);
        }
        low = at + 1;
    }
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000000;
    int *a = malloc((size_t)n * sizeof *a);
    unsigned x = 1;
    for (int i = 0; i < n; i++) a[i] = (int)((x = x * 1103515245u + 12345u) >> 1);
#pragma omp parallel
#pragma omp single
    sort(a, 0, n - 1);
    for (int i = 1; i < n; i++)
        if (a[i] < a[i - 1]) return 1;
    printf("%d\n", a[n / 2]);
}
