/* Tasks that two singles make, the first of which nobody waits at, and tasks that each thread makes. Thread LATE is late. */
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

static int leaf(int of, int n, int maker) { return of + n + maker; }

static void two(int of) {
    int maker = omp_get_thread_num();
    for (int n = 0; n < 2; n++)
#pragma omp task
        leaf(of, n, maker);
}

int main(int argc, char **argv) {
    int late = argc > 1 ? atoi(argv[1]) : 0;
#pragma omp parallel num_threads(2)
    {
        int me = omp_get_thread_num();
        if (me == late) usleep(200000);
#pragma omp single nowait
        two(1);
        if (me == late) usleep(200000);
#pragma omp single
        two(2);
#pragma omp task
        leaf(3, me, me);
    }
    return 0;
}
