/* Many small regions: what a check costs for each of them. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int regions = atoi(argv[argc - 1]);
    static double a[512];
    for (int region = 0; region < regions; region++) {
#pragma omp parallel for
        for (int i = 0; i < 512; i++) a[i] += region;
    }
    printf("%g\n", a[7]);
    return 0;
}
