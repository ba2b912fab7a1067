/* Many tasks that have not begun or wait, held up at a known place; the argument says how many. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int holding, go_on;

static void reached(int n) { (void)n; }

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 100;
    long sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        for (holding = 1; !go_on;)
            usleep(1000);
        while (!holding)
            usleep(1000);
        for (int i = 0; i < n; i++)
#pragma omp task shared(sum)
        {
            __atomic_fetch_add(&sum, i, __ATOMIC_SEQ_CST);
        }
        reached(n);
        go_on = 1;
    }
    printf("%ld\n", sum);
    return 0;
}
