// Weft's OMPT tool: keeps the table of logical tasks true, and signals what a traced task does to the debugger.
//
// OMPT tells of switches only; whether the task that leaves was buried or has gone to the heap follows from what lies
// beneath it (below). No lock and, once the first slab is there, no allocation on the way of a task.
#define _GNU_SOURCE
#include "ompt.h"
#include "table.h"
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

table weft_tasks = {"weftask1", 0, 0, sizeof(task), SLAB, {0}, {{0}}};

#define HOT static __thread __attribute__((tls_model("initial-exec")))
HOT task *free_tasks;  // owned by this thread
HOT task *top;         // what runs here now
HOT uint64_t next_id;
HOT int32_t worker;
static uint64_t ids;

// The debugger's breakpoint: reached only by traced tasks.
__attribute__((noinline, visibility("default"))) void weft_tasks_signal(int event, task *of, task *other) {
    __asm__ volatile("" : : "r"(event), "r"(of), "r"(other) : "memory");
}

#define SIGNAL(condition, event, of, other)                                                                            \
    do {                                                                                                               \
        if (__builtin_expect((condition) != 0, 0)) weft_tasks_signal(event, of, other);                                \
    } while (0)

static __attribute__((noinline, cold)) task *refill(void) {
    int at = __atomic_fetch_add(&weft_tasks.count, 1, __ATOMIC_RELAXED);
    task *slab = at < SLABS ? calloc(SLAB, sizeof(task)) : NULL;
    if (slab == NULL) return NULL;
    for (int i = 0; i + 1 < SLAB; i++) slab[i].below = &slab[i + 1];
    __atomic_store_n(&weft_tasks.slabs[at], slab, __ATOMIC_RELEASE);
    return slab;
}

static __attribute__((noinline, cold)) uint64_t more_ids(void) {
    return __atomic_fetch_add(&ids, SLAB, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold)) int32_t who(void) { return worker = (int32_t)syscall(SYS_gettid); }

// A new record; NULL where memory is out: that task and what it makes is then not in the table.
static inline task *make(task *parent, const void *created) {
    task *t = free_tasks;
    if (__builtin_expect(t == NULL, 0) && (t = refill()) == NULL) return NULL;
    free_tasks = t->below;
    if (__builtin_expect((next_id & (SLAB - 1)) == 0, 0)) next_id = more_ids();
    t->id = ++next_id;
    t->created = created;
    t->wait = 0;
    t->traced = 0;
    t->needs = 0;
    t->group = NULL;
    t->parent = 0;
    t->in_group = NULL;
    t->team = NULL;
    if (parent != NULL) {
        t->parent = parent->id;
        t->in_group = parent->group != NULL ? parent->group : parent->in_group;
        t->team = parent->team;
    }
    t->state = NEW;
    return t;
}

static inline void release(task *t) {
    t->state = FREE;
    t->below = free_tasks;
    free_tasks = t;
}

static inline void put_on_top(task *t) {
    top = t;
    t->state = TOP;
    t->worker = __builtin_expect(worker != 0, 1) ? worker : who();
}

static void on_create(ompt_data *from, const void *frame, ompt_data *made, int flags, int dependences, const void *pc) {
    (void)frame, (void)dependences;
    if (flags & OMPT_TASK_TASKWAIT) return;  // a taskwait with dependences makes a task that never runs
    task *parent = from != NULL ? from->ptr : NULL, *t = make(parent, pc);
    made->ptr = t;
    if (t == NULL) return;
    if (flags & OMPT_TASK_INITIAL) return put_on_top(t);
    SIGNAL(weft_tasks.watch | (parent != NULL ? parent->traced & SPAWNS : 0), ON_CREATE, parent, t);
}

static void on_schedule(ompt_data *from, int status, ompt_data *to) {
    task *prior = from->ptr, *next = to != NULL ? to->ptr : NULL;
    if (status == OMPT_EARLY_FULFILL || status == OMPT_TASKWAIT_COMPLETE || status == OMPT_LATE_FULFILL) return;
    int done = status != OMPT_SWITCH && status != OMPT_YIELD;
    if (prior != NULL) {
        if (done) {
            prior->state = FREE;
            SIGNAL(prior->traced & RUNS, ON_DONE, prior, next);
        } else if (next != NULL && prior->below == next) {  // it gives its place back: to the heap
            prior->state = HEAP;
            prior->below = NULL;
            SIGNAL(prior->traced & RUNS, ON_SUSPEND, prior, next);
        } else {
            prior->state = MIDDLE;
        }
    }
    if (next != NULL) {
        int was = next->state;
        put_on_top(next);
        if (was != MIDDLE) {
            next->below = prior;
            SIGNAL(next->traced & RUNS, was == NEW ? ON_BEGIN : ON_RESUME, next, prior);
        }
    }
    if (done && prior != NULL) release(prior);
}

static void on_implicit(int endpoint, ompt_data *parallel, ompt_data *of, unsigned size, unsigned index, int flags) {
    (void)size, (void)index;
    if (endpoint == OMPT_BEGIN) {
        task *beneath = top, *t = make(beneath, NULL);
        of->ptr = t;
        if (t == NULL) return;
        if (!(flags & OMPT_TASK_INITIAL)) t->team = parallel != NULL ? parallel : t->team;
        t->below = beneath;
        if (beneath != NULL) beneath->state = MIDDLE;
        put_on_top(t);
    } else if (of != NULL && of->ptr != NULL) {
        task *t = of->ptr;
        top = t->below;
        if (top != NULL) top->state = TOP;
        of->ptr = NULL;
        release(t);
    }
}

static void on_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *of, const void *pc) {
    (void)parallel;
    task *t = of != NULL ? of->ptr : NULL;
    if (t == NULL) return;
    if (__builtin_expect(kind == OMPT_SYNC_TASKGROUP, 0)) {  // its begin is where it opens
        if (endpoint == OMPT_BEGIN) {
            group *g = malloc(sizeof *g);
            if (g != NULL) *g = (group){t->group}, t->group = g;
            return;
        }
        group *g = t->group;
        t->wait = 0;
        if (g != NULL) t->group = g->outer, free(g);
    } else if (endpoint == OMPT_BEGIN) {
        t->wait = kind;
        t->waiting = pc;
    } else {
        t->wait = 0;
    }
    SIGNAL(endpoint == OMPT_END && (t->traced & JOINS), ON_JOINED, t, NULL);
}

// The begin of a wait inside a region: for a taskgroup, its end.
static void on_sync_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *of, const void *pc) {
    (void)parallel;
    task *t = of != NULL ? of->ptr : NULL;
    if (t == NULL || kind != OMPT_SYNC_TASKGROUP) return;
    t->wait = endpoint == OMPT_BEGIN ? kind : 0;
    t->waiting = pc;
    t->what = (uint64_t)(uintptr_t)t->group;
}

static lock *lock_of(uint64_t id) {
    uint64_t at = (id >> 4) * 0x9E3779B97F4A7C15u >> 52;
    for (int i = 0; i < LOCKS; i++, at = (at + 1) % LOCKS) {
        uint64_t seen = __atomic_load_n(&weft_tasks.locks[at].lock, __ATOMIC_ACQUIRE);
        if (seen == 0 && __atomic_compare_exchange_n(&weft_tasks.locks[at].lock, &seen, id, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return &weft_tasks.locks[at];
        if (seen == id) return &weft_tasks.locks[at];
    }
    return NULL;
}

static void on_acquire(int kind, unsigned hint, unsigned how, uint64_t id, const void *pc) {
    (void)kind, (void)hint, (void)how;
    if (top == NULL) return;
    top->what = id;
    top->waiting = pc;
    top->wait = WAIT_LOCK;
}

static void on_acquired(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    if (top == NULL) return;
    top->wait = 0;
    lock *l = lock_of(id);
    if (l != NULL) l->owner = top->id;
}

static void on_released(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    lock *l = lock_of(id);
    if (l != NULL) l->owner = 0;
}

static void on_dependence(ompt_data *first, ompt_data *then) {
    task *a = first != NULL ? first->ptr : NULL, *b = then != NULL ? then->ptr : NULL;
    if (a != NULL && b != NULL) b->needs = a->id;
}

static int start(ompt_lookup lookup, int device, ompt_data *tool) {
    (void)device, (void)tool;
    ompt_set set = (ompt_set)lookup("ompt_set_callback");
    set(OMPT_TASK_CREATE, (ompt_function)on_create);
    set(OMPT_TASK_SCHEDULE, (ompt_function)on_schedule);
    set(OMPT_IMPLICIT_TASK, (ompt_function)on_implicit);
    set(OMPT_SYNC_REGION, (ompt_function)on_sync);
    set(OMPT_SYNC_REGION_WAIT, (ompt_function)on_sync_wait);
    set(OMPT_MUTEX_ACQUIRE, (ompt_function)on_acquire);
    set(OMPT_MUTEX_ACQUIRED, (ompt_function)on_acquired);
    set(OMPT_MUTEX_RELEASED, (ompt_function)on_released);
    set(OMPT_TASK_DEPENDENCE, (ompt_function)on_dependence);
    return 1;
}

static void end(ompt_data *tool) { (void)tool; }

__attribute__((visibility("default"))) ompt_tool *ompt_start_tool(unsigned version, const char *runtime) {
    (void)version, (void)runtime;
    static ompt_tool tool = {start, end, {0}};
    return &tool;
}
