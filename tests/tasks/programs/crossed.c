/* Two tasks with crossed locks; built with -DFIXED they take them in one order. */
#include <omp.h>
#include <unistd.h>

static omp_lock_t x, y;
static volatile int held;

static void both(omp_lock_t *first, omp_lock_t *second) {
    omp_set_lock(first);
#ifndef FIXED
    __atomic_fetch_add(&held, 1, __ATOMIC_SEQ_CST);
    while (held < 2)
        usleep(1000);
#endif
    omp_set_lock(second);
    omp_unset_lock(second);
    omp_unset_lock(first);
}

int main(void) {
    omp_init_lock(&x);
    omp_init_lock(&y);
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        both(&x, &y);
#pragma omp task
#ifdef FIXED
        both(&x, &y);
#else
        both(&y, &x);
#endif
    }
    return 0;
}
