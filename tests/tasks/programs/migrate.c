/* One untied task that is suspended and goes on elsewhere, with others around it. */
#include <omp.h>
#include <stdio.h>

static void spin(int ms) {
    double until = omp_get_wtime() + ms * 1e-3;
    while (omp_get_wtime() < until)
        ;
}

int main(void) {
    int r = 0, moved = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task untied shared(r, moved)
        {
            int a = 1;
            int first = omp_get_thread_num();
            spin(2);
#pragma omp task shared(r)
            { spin(10); r += 10; }
            a += 1;
#pragma omp taskyield
            a += 2;
#pragma omp taskwait
            a += 3;
            moved = first != omp_get_thread_num();
            r += a;
        }
        spin(1);
#pragma omp task
        { spin(2); }
    }
    printf("r=%d\n", r);
    return 0;
}
