/* A taskwait on a task that waits for a lock that its parent holds; built with -DFIXED it is let go before. */
#include <omp.h>

static omp_lock_t x;

int main(void) {
    omp_init_lock(&x);
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        {
            omp_set_lock(&x);
#pragma omp task
            {
                omp_set_lock(&x);
                omp_unset_lock(&x);
            }
#ifdef FIXED
            omp_unset_lock(&x);
#pragma omp taskwait
#else
#pragma omp taskwait
            omp_unset_lock(&x);
#endif
        }
    }
    return 0;
}
