/* Tasks that take mutexes of the C library; the argument names how: in crossed order, one twice, one crossed with a lock
 * of OpenMP's, all in one order, or crossed for a limited time. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t x = PTHREAD_MUTEX_INITIALIZER, y = PTHREAD_MUTEX_INITIALIZER;
static omp_lock_t z;
static volatile int held;

static void meet(void) {
    __atomic_fetch_add(&held, 1, __ATOMIC_SEQ_CST);
    while (held < 2)
        usleep(1000);
}

static void both(pthread_mutex_t *first, pthread_mutex_t *second, int apart) {
    pthread_mutex_lock(first);
    if (apart) meet();
    pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void lock_first(void) {
    omp_set_lock(&z);
    meet();
    pthread_mutex_lock(&x);
    pthread_mutex_unlock(&x);
    omp_unset_lock(&z);
}

static void mutex_first(void) {
    pthread_mutex_lock(&x);
    meet();
    omp_set_lock(&z);
    omp_unset_lock(&z);
    pthread_mutex_unlock(&x);
}

static void for_a_time(pthread_mutex_t *first, pthread_mutex_t *second) {
    struct timespec until;
    pthread_mutex_lock(first);
    meet();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3;
    if (pthread_mutex_timedlock(second, &until) == 0) pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

static void work(const char *how, int second) {
    pthread_mutex_t *a = second ? &y : &x, *b = second ? &x : &y;
    if (strcmp(how, "crossed") == 0) both(a, b, 1);
    if (strcmp(how, "ordered") == 0) both(&x, &y, 0);
    if (strcmp(how, "twice") == 0 && second) both(&x, &x, 0);
    if (strcmp(how, "limited") == 0) for_a_time(a, b);
    if (strcmp(how, "mixed") == 0) (second ? lock_first : mutex_first)();
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "ordered";
    omp_init_lock(&z);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 2; i++)
#pragma omp task firstprivate(i)
        work(how, i);
    return 0;
}
