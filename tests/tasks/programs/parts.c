// Each thread does its part of a region, and one goes on behind it.
#include <omp.h>
#include <stdio.h>

int main(void) {
    int total = 0;
#pragma omp parallel num_threads(2)
    {
        int me = omp_get_thread_num();
#pragma omp atomic
        total += me + 1;
    }
    total += 1;
    printf("%d\n", total);
    return 0;
}
