/* How the program's threads wait for each other: the linker sends its calls of OpenMP, of threads and their locks, and of
 * what blocks here (--wrap). Included with
 *
 *     #define SYNCHRONISE(kinds)              a sum of WEFT_HOOK_RELEASE, ...: what the calling thread does here
 *     #define SYNCHRONISE_AT(kinds, moment)   the same of a thread that takes over what others had let go by that moment
 *
 * A call lets go of what its thread did before it, and takes over what others let go, when it returns. Which variable or lock
 * two threads share is not asked: where one has not let go, or the other not taken over since, nothing orders them.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef intptr_t word;
/* A function of at most eight words, which it gets as they came; those that it does not have are not looked at. Weak: most
 * programs link only some of them. */
#define SYNCHRONISES(name)                                                                                             \
    extern word __real_##name(word, word, word, word, word, word, word, word) __attribute__((weak));                   \
    word __wrap_##name(word a, word b, word c, word d, word e, word f, word g, word h) {                               \
        SYNCHRONISE(WEFT_HOOK_RELEASE);                                                                                \
        word result = __real_##name(a, b, c, d, e, f, g, h);                                                           \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return result;                                                                                                 \
    }

/* ---- OpenMP, as gcc calls it ---- */
struct region {
    void (*body)(void *);
    void *data;
    uint64_t moment; /* when it was begun */
};

/* Run one thread's part of a parallel region. */
static void run_region(void *given) {
    const struct region *region = given;
    SYNCHRONISE_AT(WEFT_HOOK_ACQUIRE | WEFT_HOOK_BEGIN, region->moment);
    region->body(region->data);
    SYNCHRONISE(WEFT_HOOK_RELEASE);
}

/* A function that makes a team, has each thread call the body, and waits for all. */
#define FORKS(name)                                                                                                    \
    extern word __real_##name(void (*)(void *), void *, word, word, word, word, word, word) __attribute__((weak));     \
    word __wrap_##name(void (*body)(void *), void *data, word c, word d, word e, word f, word g, word h) {             \
        struct region region = {body, data, SYNCHRONISE(WEFT_HOOK_RELEASE | WEFT_HOOK_FORK)};                          \
        word result = __real_##name(run_region, &region, c, d, e, f, g, h);                                            \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return result;                                                                                                 \
    }
FORKS(GOMP_parallel)
FORKS(GOMP_parallel_loop_static)
FORKS(GOMP_parallel_loop_dynamic)
FORKS(GOMP_parallel_loop_guided)
FORKS(GOMP_parallel_loop_runtime)
FORKS(GOMP_parallel_loop_nonmonotonic_dynamic)
FORKS(GOMP_parallel_loop_nonmonotonic_guided)
FORKS(GOMP_parallel_loop_nonmonotonic_runtime)
FORKS(GOMP_parallel_loop_maybe_nonmonotonic_runtime)
FORKS(GOMP_parallel_sections)
FORKS(GOMP_teams_reg)
SYNCHRONISES(GOMP_barrier)
SYNCHRONISES(GOMP_barrier_cancel)
SYNCHRONISES(GOMP_critical_start)
SYNCHRONISES(GOMP_critical_end)
SYNCHRONISES(GOMP_critical_name_start)
SYNCHRONISES(GOMP_critical_name_end)
SYNCHRONISES(GOMP_atomic_start)
SYNCHRONISES(GOMP_atomic_end)
SYNCHRONISES(GOMP_single_copy_start)
SYNCHRONISES(GOMP_single_copy_end)
SYNCHRONISES(GOMP_loop_end)
SYNCHRONISES(GOMP_loop_end_cancel)
SYNCHRONISES(GOMP_sections_end)
SYNCHRONISES(GOMP_sections_end_cancel)
SYNCHRONISES(GOMP_ordered_start)
SYNCHRONISES(GOMP_ordered_end)
SYNCHRONISES(GOMP_doacross_post)
SYNCHRONISES(GOMP_doacross_wait)
SYNCHRONISES(GOMP_doacross_ull_post)
SYNCHRONISES(GOMP_doacross_ull_wait)
SYNCHRONISES(GOMP_cancel)
SYNCHRONISES(GOMP_cancellation_point)
SYNCHRONISES(omp_set_lock)
SYNCHRONISES(omp_unset_lock)
SYNCHRONISES(omp_test_lock)
SYNCHRONISES(omp_set_nest_lock)
SYNCHRONISES(omp_unset_nest_lock)
SYNCHRONISES(omp_test_nest_lock)
SYNCHRONISES(omp_set_lock_)
SYNCHRONISES(omp_unset_lock_)
SYNCHRONISES(omp_test_lock_)
SYNCHRONISES(omp_set_nest_lock_)
SYNCHRONISES(omp_unset_nest_lock_)
SYNCHRONISES(omp_test_nest_lock_)

/* Which thread runs a task, and after what, is the library's business: from here on any two threads may be ordered. Such a
 * function has twelve words at most. */
#define MAKES_TASKS(name)                                                                                              \
    extern word __real_##name(word, word, word, word, word, word, word, word, word, word, word, word)                  \
        __attribute__((weak));                                                                                         \
    word __wrap_##name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k,         \
                       word l) {                                                                                       \
        SYNCHRONISE(WEFT_HOOK_UNKNOWN);                                                                                \
        return __real_##name(a, b, c, d, e, f, g, h, i, j, k, l);                                                      \
    }
MAKES_TASKS(GOMP_task)
MAKES_TASKS(GOMP_taskloop)
MAKES_TASKS(GOMP_taskloop_ull)
MAKES_TASKS(GOMP_parallel_reductions)

/* ---- threads and their locks: POSIX, C11, C++ ---- */
struct thread_start {
    void *(*body)(void *);
    void *argument;
    uint64_t moment;
};

static void *run_thread(void *given) {
    struct thread_start start = *(struct thread_start *)given;
    /* Before free(), which says something itself. */
    SYNCHRONISE_AT(WEFT_HOOK_ACQUIRE | WEFT_HOOK_BEGIN, start.moment);
    free(given);
    return start.body(start.argument); /* its end is seen by the recorder */
}

extern int __real_pthread_create(void *, const void *, void *(*)(void *), void *) __attribute__((weak));
int __wrap_pthread_create(void *thread, const void *attributes, void *(*body)(void *), void *argument) {
    uint64_t moment = SYNCHRONISE(WEFT_HOOK_RELEASE | WEFT_HOOK_FORK);
    struct thread_start *start = IS_SYNCHRONISATION_RECORDED ? malloc(sizeof *start) : NULL;
    if (!start) return __real_pthread_create(thread, attributes, body, argument);
    *start = (struct thread_start){body, argument, moment};
    int failed = __real_pthread_create(thread, attributes, run_thread, start);
    if (failed) free(start);
    return failed;
}
SYNCHRONISES(pthread_join)
SYNCHRONISES(pthread_tryjoin_np)
SYNCHRONISES(pthread_timedjoin_np)
SYNCHRONISES(pthread_once)
SYNCHRONISES(pthread_kill)
SYNCHRONISES(pthread_mutex_lock)
SYNCHRONISES(pthread_mutex_trylock)
SYNCHRONISES(pthread_mutex_timedlock)
SYNCHRONISES(pthread_mutex_clocklock)
SYNCHRONISES(pthread_mutex_unlock)
SYNCHRONISES(pthread_rwlock_rdlock)
SYNCHRONISES(pthread_rwlock_tryrdlock)
SYNCHRONISES(pthread_rwlock_timedrdlock)
SYNCHRONISES(pthread_rwlock_wrlock)
SYNCHRONISES(pthread_rwlock_trywrlock)
SYNCHRONISES(pthread_rwlock_timedwrlock)
SYNCHRONISES(pthread_rwlock_unlock)
SYNCHRONISES(pthread_spin_lock)
SYNCHRONISES(pthread_spin_trylock)
SYNCHRONISES(pthread_spin_unlock)
SYNCHRONISES(pthread_cond_wait)
SYNCHRONISES(pthread_cond_timedwait)
SYNCHRONISES(pthread_cond_clockwait)
SYNCHRONISES(pthread_cond_signal)
SYNCHRONISES(pthread_cond_broadcast)
SYNCHRONISES(pthread_barrier_wait)
SYNCHRONISES(sem_wait)
SYNCHRONISES(sem_trywait)
SYNCHRONISES(sem_timedwait)
SYNCHRONISES(sem_post)
SYNCHRONISES(mtx_lock)
SYNCHRONISES(mtx_trylock)
SYNCHRONISES(mtx_timedlock)
SYNCHRONISES(mtx_unlock)
SYNCHRONISES(cnd_wait)
SYNCHRONISES(cnd_timedwait)
SYNCHRONISES(cnd_signal)
SYNCHRONISES(cnd_broadcast)
SYNCHRONISES(thrd_join)
SYNCHRONISES(call_once)
SYNCHRONISES(__cxa_guard_acquire)
SYNCHRONISES(__cxa_guard_release)
SYNCHRONISES(_ZNSt6thread4joinEv)
SYNCHRONISES(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
SYNCHRONISES(_ZNSt18condition_variable10notify_oneEv)
SYNCHRONISES(_ZNSt18condition_variable10notify_allEv)

/* std::thread's constructor: the library makes the thread, which begins in code that nobody announces. */
#define STD_THREAD _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
#define STD_THREAD_AS(prefix, name) prefix##name
#define STD_THREAD_NAMED(prefix, name) STD_THREAD_AS(prefix, name)
extern void STD_THREAD_NAMED(__real_, STD_THREAD)(void *, void *, void *) __attribute__((weak));
void STD_THREAD_NAMED(__wrap_, STD_THREAD)(void *thread, void *state, void *depend) {
    SYNCHRONISE(WEFT_HOOK_RELEASE | WEFT_HOOK_CREATE);
    STD_THREAD_NAMED(__real_, STD_THREAD)(thread, state, depend);
}

/* ---- what else may wait for another thread ---- */
SYNCHRONISES(recv)
SYNCHRONISES(send)
SYNCHRONISES(recvmsg)
SYNCHRONISES(sendmsg)
SYNCHRONISES(poll)
SYNCHRONISES(select)
SYNCHRONISES(epoll_wait)
SYNCHRONISES(sigwait)
SYNCHRONISES(pause)
SYNCHRONISES(syscall)
