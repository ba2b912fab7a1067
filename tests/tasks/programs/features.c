/* Every kind of task construct, each held where it can be looked at: `at` is called with its name. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int held, let_go;

static void at(const char *what) { (void)what; }

static void hold(void) {
    for (held = 1; !let_go;)
        usleep(500);
}

static void until_held(void) {
    while (!held)
        usleep(500);
}

static void looked(const char *what) {
    until_held();
    at(what);
    let_go = 1;
}

static void again(void) { held = let_go = 0; }

static void taskgroup(int *sum) {
#pragma omp taskgroup
    {
#pragma omp task
        {
#pragma omp task
            {
                hold();
                __atomic_fetch_add(sum, 1, __ATOMIC_SEQ_CST);
            }
        }
#pragma omp task
        looked("taskgroup");
    }
}

static void taskloop(int *sum) {
    until_held();
#pragma omp taskloop grainsize(2) nogroup
    for (int i = 0; i < 8; i++)
        __atomic_fetch_add(sum, i, __ATOMIC_SEQ_CST);
    at("taskloop");
    let_go = 1;
#pragma omp taskwait
}

static void depends(int *sum) {
    int a = 0;
#pragma omp task depend(out : a) shared(a)
    {
        hold();
        a = 5;
    }
    until_held();
#pragma omp task depend(in : a) shared(a)
    __atomic_fetch_add(sum, a, __ATOMIC_SEQ_CST);
    at("depend");
    let_go = 1;
#pragma omp task depend(inout : a) if (0) shared(a)
    a++;
#pragma omp taskwait
}

static void priority(int *sum) {
#pragma omp task priority(1)
    __atomic_fetch_add(sum, 1, __ATOMIC_SEQ_CST);
#pragma omp task priority(9)
    __atomic_fetch_add(sum, 1, __ATOMIC_SEQ_CST);
    at("priority");
    let_go = 1;
#pragma omp taskwait
}

static void nested(int *sum) {
#pragma omp parallel num_threads(2)
    {
#pragma omp barrier
#pragma omp single
        {
#pragma omp task
            {
                at("nested");
                __atomic_fetch_add(sum, 1, __ATOMIC_SEQ_CST);
            }
        }
    }
}

static void final(int *sum) {
#pragma omp task final(1)
    {
#pragma omp task mergeable
        {
            at("final");
            let_go = 1;
            *sum += 1;
        }
        *sum += 1;
    }
#pragma omp taskwait
}

static void undeferred(int *sum) {
#pragma omp task if (0) mergeable
    {
        at("undeferred");
        *sum += 1;
    }
}

int main(void) {
    int sum = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        taskgroup(&sum);
        again();
#pragma omp task
        hold();
        taskloop(&sum);
        again();
        depends(&sum);
        again();
#pragma omp task
        hold();
        until_held();
        priority(&sum);
        again();
#pragma omp task
        hold();
        until_held();
        final(&sum);
        undeferred(&sum);
        nested(&sum);
    }
    printf("sum %d\n", sum);
    return 0;
}
