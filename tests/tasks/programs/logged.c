/* A random tree of tasks that keeps a log of its own of every task: what it is, who made it, what it waits for.
 * It runs until it is ended. The only thing that it asks Weft's tool is the number of the task that runs: to know which
 * row of the table is which of its own. tests/tasks/stops.py compares the two at random stops. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "table.h"

enum { ROOM = 8192, THREADS = 8, NESTED = 16, HOLDERS = 2 };
enum { FREE, MAKING, MADE, RUNS_ON, ENDING };
enum { NOTHING, TASKWAIT, TASKGROUP, LOCK, BARRIER };

typedef struct {
    int state, untied, group, wait;
    int line, what, under, thread;
    int64_t weft, parent;  /* the numbers of its row and of who made it */
    int away, unused;      /* an untied one, at a scheduling point */
} entry;

typedef struct {
    int top, acting;
    int64_t thread;
} stack;

/* What the test reads. Numbers of entries start at 1. */
volatile entry entries[ROOM];
volatile stack stacks[THREADS];
volatile int holder[HOLDERS];
volatile int outer[ROOM];  /* of each group, the one around it */

static omp_lock_t locks[HOLDERS];
static int next_entry, next_group;
static __thread unsigned dice = 1;
static table *weft;

static unsigned roll(unsigned n) {
    dice = dice * 1103515245u + 12345u + (unsigned)omp_get_thread_num();
    return (dice >> 16) % n;
}

static int64_t whoami(void) {
    int64_t me = syscall(SYS_gettid);
    for (uint64_t i = 0; i < weft->workers; i++)
        if (weft->worker[i] != NULL && (int64_t)weft->worker[i]->thread == me) return (int64_t)weft->worker[i]->top->id;
    return -1;
}

/* The tool is found by its file: the runtime keeps its names to itself. */
static void find(void) {
    void *tool = dlopen(getenv("OMP_TOOL_LIBRARIES"), RTLD_NOW | RTLD_NOLOAD);
    if (tool == NULL) exit(9);
    weft = dlsym(tool, "weft_tasks");
}

static volatile stack *mine(void) { return &stacks[omp_get_thread_num()]; }

static int make(int parent, int group, int untied) {
    for (;;) {
        int i = 1 + (unsigned)__atomic_fetch_add(&next_entry, 1, __ATOMIC_SEQ_CST) % (ROOM - 1), is = FREE;
        if (!__atomic_compare_exchange_n((int *)&entries[i].state, &is, MAKING, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
        entries[i].weft = 0;
        entries[i].wait = entries[i].under = entries[i].away = 0;
        entries[i].parent = entries[parent].weft;
        entries[i].group = group;
        entries[i].untied = untied;
        return i;
    }
}

static void made(int i) {
    int is = MAKING;
    __atomic_compare_exchange_n((int *)&entries[i].state, &is, MADE, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void forget(volatile stack *s) {
    int gone = s->acting;
    s->acting = 0;
    if (gone && entries[gone].state == ENDING && !entries[gone].untied) entries[gone].state = FREE;
}

static void push(int i) {
    volatile stack *s = mine();
    forget(s);
    entries[i].thread = omp_get_thread_num();
    entries[i].under = s->top;
    s->top = i;
    entries[i].away = 0;
}

static void begin(int i) {
    entries[i].weft = whoami();
    push(i);
    entries[i].state = RUNS_ON;
}

static void end(int i) {
    volatile stack *s = mine();
    forget(s);
    entries[i].state = ENDING;
    s->acting = i;
    s->top = entries[i].under;
}

static void waits(int i, int kind, int what, int line) {
    forget(mine());
    entries[i].line = line;
    entries[i].what = what;
    entries[i].wait = kind;
    if (entries[i].untied) {
        entries[i].away = 1;
        mine()->top = entries[i].under;
    }
}

static void goes_on(int i) {
    forget(mine());
    if (entries[i].untied) push(i);
    entries[i].wait = NOTHING;
}

#define WAIT(i, kind, what) waits(i, kind, what, __LINE__ + 1)

static void leaves(void) {}

static void spend(void) {
    if (roll(3)) {
        for (volatile int i = 0; i < 2000; i++)
            ;
    } else {
        usleep(roll(400));
    }
}

static void locked(int me) {
    int which = (int)roll(HOLDERS);
    WAIT(me, LOCK, which);
    omp_set_lock(&locks[which]);
    goes_on(me);
    holder[which] = me;
    spend();
    holder[which] = 0;
    omp_unset_lock(&locks[which]);
}

static void children(int me, int group, int depth);

static void body(int me, int group, int depth) {
    begin(me);
    spend();
    if (roll(3) == 0) locked(me);
    if (depth > 0) {
        switch (roll(3)) {
        case 0:
            children(me, group, depth);
            WAIT(me, TASKWAIT, 0);
#pragma omp taskwait
            goes_on(me);
            break;
        case 1: {
            int inner = 1 + (unsigned)__atomic_fetch_add(&next_group, 1, __ATOMIC_SEQ_CST) % (ROOM - 1);
            outer[inner] = group;
#pragma omp taskgroup
            {
                children(me, inner, depth);
                waits(me, TASKGROUP, inner, 0);
            }
            goes_on(me);
            break;
        }
        default:
            children(me, group, depth);
        }
    }
    spend();
    leaves();
    end(me);
}

static void children(int me, int group, int depth) {
    for (unsigned n = roll(4); n > 0; n--) {
        int child = make(me, group, 0);
#pragma omp task firstprivate(child)
        body(child, group, depth - 1);
        made(child);
    }
}

#ifdef MOVING
/* Its scheduling points lie in its own body: there it may change threads. */
static void moving(int root) {
    int me = make(root, 0, 1);
#pragma omp task untied firstprivate(me)
    {
        begin(me);
        spend();
        waits(me, NOTHING, 0, 0);
#pragma omp taskyield
        goes_on(me);
        int child = make(me, 0, 0);
        waits(me, NOTHING, 0, 0);
#pragma omp task firstprivate(child)
        body(child, 0, 0);  /* no scheduling point in it: it could run this task on top of itself, for ever */
        goes_on(me);
        made(child);
        WAIT(me, TASKWAIT, 0);
#pragma omp taskwait
        goes_on(me);
        end(me);
    }
    made(me);
}
#endif

int main(void) {
    omp_get_max_threads();
    find();
    for (int i = 0; i < HOLDERS; i++) omp_init_lock(&locks[i]);
#pragma omp parallel num_threads(3)
    {
        int me = make(0, 0, 0);
        dice = 7u * (unsigned)(omp_get_thread_num() + 1) + (unsigned)getpid();
        stacks[omp_get_thread_num()].thread = syscall(SYS_gettid);
        begin(me);
        if (omp_get_thread_num() != 0) waits(me, BARRIER, 0, 0);
#pragma omp master
        for (;;) {
            for (int i = 0; i < 6; i++) {
                int child = make(me, 0, 0);
#pragma omp task firstprivate(child)
                body(child, 0, 4);
                made(child);
#ifdef MOVING
                moving(me);
#endif
            }
            WAIT(me, TASKWAIT, 0);
#pragma omp taskwait
            goes_on(me);
            /* The end of an untied one is told by the slower of two threads: before the taskwait's, all that is sure. */
            for (int i = 1; i < ROOM; i++)
                if (entries[i].untied && entries[i].state == ENDING) entries[i].state = FREE;
        }
    }
    return 0;
}
