/* Threads that meet at barriers, a task within a critical section, and one that waits for a lock. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static omp_lock_t lock;
static int inside, behind, locked;

static void entered(void) { inside++; }

int main(void) {
    omp_init_lock(&lock);
#pragma omp parallel num_threads(2)
    {
#pragma omp barrier
        if (omp_get_thread_num() == 1) entered();
#pragma omp barrier
#pragma omp single
        {
#pragma omp task
            {
                omp_set_lock(&lock);
                locked = 1;
                entered();
                omp_unset_lock(&lock);
            }
#pragma omp task
            {
                while (!__atomic_load_n(&locked, __ATOMIC_SEQ_CST)) usleep(500);
                omp_set_lock(&lock);
                behind++;
                omp_unset_lock(&lock);
            }
        }
    }
    printf("%d %d\n", inside, behind);
    return 0;
}
