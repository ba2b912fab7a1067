/* Programs whose tasks take their turns by chance: each prints the order in which they did, and on which threads. One
 * function each; the argument names it. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char order[1 << 14];

static void took(int n) { /* not under a lock of OpenMP's: only the order of tasks makes it the same */
    size_t at = strlen(order);
    snprintf(order + at, sizeof order - at, " %d/%d", n, omp_get_thread_num());
}

static void locked(int n) {
#pragma omp critical
    took(n);
}

static void chance(void) { usleep((unsigned)rand() % 300); }

static void many(void) {
    for (int i = 0; i < 12; i++)
#pragma omp task firstprivate(i)
    {
        chance();
        locked(i);
    }
}

static int fib(int n) {
    int a, b;
    if (n < 2) return n;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b)
    b = fib(n - 2);
#pragma omp taskwait
    locked(n);
    return a + b;
}

static void tree(void) { locked(1000 + fib(7)); }

static void depending(void) {
    int x = 0, y = 0;
    for (int i = 0; i < 4; i++) {
#pragma omp task depend(inout : x) shared(x)
        locked(++x);
#pragma omp task depend(in : x) depend(out : y) shared(x, y)
        locked(10 * (y = x));
#pragma omp task depend(in : x) shared(x)
        locked(100 * x);
    }
#pragma omp taskwait
}

static void groups(void) {
    for (int i = 0; i < 3; i++) {
#pragma omp taskgroup
        {
            for (int k = 0; k < 3; k++)
#pragma omp task firstprivate(i, k)
            {
#pragma omp task firstprivate(i, k)
                locked(100 + 10 * i + k);
                locked(10 * i + k);
            }
        }
        locked(1000 + i);
    }
}

static void loose(void) {
    for (int i = 0; i < 4; i++)
#pragma omp task untied firstprivate(i)
    {
        for (int k = 0; k < 3; k++) {
            locked(10 * i + k);
#pragma omp taskyield
#pragma omp task firstprivate(i, k)
            locked(100 + 10 * i + k);
        }
#pragma omp taskwait
        locked(1000 + i);
    }
}

static void loops(void) {
#pragma omp taskloop grainsize(2)
    for (int i = 0; i < 8; i++)
        locked(i);
    many();
}

static void at_once(void) {
    for (int i = 0; i < 8; i++) {
#pragma omp task if (i % 2) firstprivate(i)
        {
#pragma omp task firstprivate(i)
            locked(100 + i);
#pragma omp taskwait
            locked(i);
        }
#pragma omp task final(i > 4) firstprivate(i)
        {
#pragma omp task firstprivate(i)
            locked(200 + i);
        }
    }
}

static omp_lock_t lock;

static void locks(void) {
    for (int i = 0; i < 10; i++)
#pragma omp task firstprivate(i)
    {
        omp_set_lock(&lock);
        took(i);
        omp_unset_lock(&lock);
        if (omp_test_lock(&lock)) {
            took(100 + i);
            omp_unset_lock(&lock);
        }
    }
}

static void nested(void) {
    for (int i = 0; i < 3; i++)
#pragma omp task firstprivate(i)
    {
#pragma omp parallel num_threads(2)
        {
#pragma omp task firstprivate(i)
            locked(10 * i + omp_get_ancestor_thread_num(1));
#pragma omp barrier
#pragma omp master
            locked(100 + i);
        }
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {{"many", many},   {"tree", tree},   {"depending", depending}, {"groups", groups}, {"loose", loose},
             {"loops", loops}, {"once", at_once}, {"locks", locks},         {"nested", nested}};

/* Every thread makes tasks, and goes on to another round when all have come. */
static void all_make(void) {
#pragma omp parallel num_threads(3)
    for (int round = 0; round < 3; round++) {
#pragma omp task firstprivate(round)
        locked(10 * round);
#pragma omp task firstprivate(round)
        locked(10 * round + 1);
#pragma omp barrier
#pragma omp single
        locked(100 + round);
    }
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "many";
    srand((unsigned)getpid());
    omp_init_lock(&lock);
    omp_set_max_active_levels(2);
    if (strcmp(name, "made") == 0) all_make();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].name) == 0) {
#pragma omp parallel num_threads(3)
#pragma omp single
            kinds[i].run();
        }
    printf("%s\n", order);
    return 0;
}
