// Weft's OMPT tool: keeps the table of logical tasks true, and signals what a traced task does to the debugger.
//
// OMPT tells of switches only; whether the task that leaves was buried or has gone to the heap follows from what lies
// beneath it. No lock and, once the first slab is there, no allocation on the way of a task.
#define _GNU_SOURCE
#include "table.h"
#include "ompt.h"
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COLD __attribute__((noinline, cold))
#define RARELY(condition) __builtin_expect((condition) != 0, 0)

table weft_tasks = {.magic = "weftask2", .size = sizeof(task), .slab = SLAB};
static uint64_t ids;
static task nobody = {.below = BOTTOM, .traced = NOBODY};  // stands for every task that found no room in the table
static worker spare = {.top = &nobody};
static __thread __attribute__((tls_model("initial-exec"))) worker *me = &spare;

// The debugger's breakpoint: reached only by traced tasks.
__attribute__((noinline, visibility("default"))) void weft_tasks_signal(int event, task *of, task *other) {
    __asm__ volatile("" : : "r"(event), "r"(of), "r"(other) : "memory");
}

static COLD worker *enter(void) {
    uint64_t at = __atomic_fetch_add(&weft_tasks.workers, 1, __ATOMIC_RELAXED);
    worker *w = at < WORKERS ? calloc(1, sizeof *w) : NULL;
    if (w == NULL) return me;
    w->top = BOTTOM;
    w->thread = (uint64_t)syscall(SYS_gettid);
    __atomic_store_n(&weft_tasks.worker[at], w, __ATOMIC_RELEASE);
    return me = w;
}

static inline worker *here(void) { return RARELY(me == &spare) ? enter() : me; }

static COLD task *refill(void) {
    int at = __atomic_fetch_add(&weft_tasks.count, 1, __ATOMIC_RELAXED);
    task *slab = at < SLABS ? calloc(SLAB, sizeof(task)) : NULL;
    if (slab == NULL) return NULL;
    for (int i = 0; i + 1 < SLAB; i++) slab[i].below = &slab[i + 1];
    __atomic_store_n(&weft_tasks.slabs[at], slab, __ATOMIC_RELEASE);
    return slab;
}

static COLD void more_ids(worker *w) { w->next_id = __atomic_fetch_add(&ids, SLAB, __ATOMIC_RELAXED); }

static inline task *make(worker *w, const task *parent, const void *created) {
    task *t = w->free;
    if (RARELY(t == NULL) && (t = refill()) == NULL) return &nobody;
    w->free = t->below;
    if (RARELY((w->next_id & (SLAB - 1)) == 0)) more_ids(w);
    t->parent = parent->id;
    t->scope = parent->scope;
    t->created = created;
    t->below = FRESH;
    t->id = ++w->next_id;
    return t;
}

static inline void release(worker *w, task *t) {
    t->id = 0;
    t->below = w->free;
    w->free = t;
}

static inline task *of(const ompt_data *data) { return data != NULL && data->ptr != NULL ? data->ptr : &nobody; }

static COLD void create_rarely(ompt_data *data, int flags, const void *pc) {
    if (flags & OMPT_TASK_TASKWAIT) return;  // a taskwait with dependences never runs
    task *t = make(here(), &nobody, pc);
    data->ptr = t;
    t->below = BOTTOM;
    here()->top = t;
}

static void on_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences, const void *pc) {
    (void)frame, (void)dependences;
    if (RARELY(flags & (OMPT_TASK_TASKWAIT | OMPT_TASK_INITIAL))) {
        create_rarely(data, flags, pc);
        return;
    }
    task *parent = from->ptr;  // of an implicit task at least, which on_implicit has made
    if (RARELY(parent == NULL)) parent = &nobody;
    task *t = make(me, parent, pc);
    data->ptr = t;
    if (RARELY(parent->traced & SPAWNS)) weft_tasks_signal(ON_CREATE, parent, t);
}

static COLD void switched(task *prior, task *next, task *was, int left) {
    if (left && (prior->traced & RUNS)) weft_tasks_signal(ON_SUSPEND, prior, next);
    if (was <= FRESH && (next->traced & RUNS)) weft_tasks_signal(was == FRESH ? ON_BEGIN : ON_RESUME, next, prior);
}

static COLD void ended(worker *w, task *done, task *next) {
    int traced = done->traced;
    if (traced & NOBODY) return;
    done->traced = 0;
    if (traced & RUNS) weft_tasks_signal(ON_DONE, done, next);
    release(w, done);
}

// Whatever is not a task's end or a switch between two tasks that are both known.
static COLD void schedule_rarely(ompt_data *from, int status, ompt_data *to) {
    if (status > OMPT_DETACH && status != OMPT_SWITCH) return;  // a detached task's event: it has left its worker before
    task *prior = of(from), *next = to != NULL ? of(to) : prior->below;
    if (status == OMPT_YIELD || status == OMPT_SWITCH) {
        if (prior != &nobody && next != &nobody && prior->below == next) prior->below = NULL;
        else if (next->below <= FRESH) next->below = BOTTOM;
        me->top = next;
        return;
    }
    if (next->below <= FRESH) next->below = prior->below;
    me->top = next;
    ended(me, prior, next);
}

static void on_schedule(ompt_data *from, int status, ompt_data *to) {
    if (RARELY(to == NULL) || RARELY(from->ptr == NULL) || RARELY(to->ptr == NULL)) return schedule_rarely(from, status, to);
    task *prior = from->ptr, *next = to->ptr;
    worker *w = me;
    if (status == OMPT_COMPLETE) {
        if (RARELY(next->below <= FRESH)) next->below = prior->below;
        w->top = next;
        if (RARELY(prior->traced)) return ended(w, prior, next);
        release(w, prior);
        return;
    }
    if (RARELY(status != OMPT_SWITCH)) return schedule_rarely(from, status, to);
    task *was = next->below;
    int left = prior->below == next;
    if (RARELY(left)) prior->below = NULL;  // it gives its place back: to the heap
    else if (was <= FRESH) next->below = prior;
    w->top = next;
    if (RARELY(prior->traced | next->traced)) switched(prior, next, was, left);
}

static void on_thread(int kind, ompt_data *data) {
    (void)kind, (void)data;
    here();
}

static void on_parallel_begin(ompt_data *from, const void *frame, ompt_data *data, unsigned size, int flags, const void *pc) {
    (void)frame, (void)size, (void)flags;
    worker *w = here();
    scope *s = w->scopes;
    if (s != NULL) w->scopes = s->outer;
    else s = malloc(sizeof *s);
    if (s != NULL) *s = (scope){of(from)->scope, pc};
    data->ptr = s;
}

static void give_back(scope *s) {
    worker *w = here();
    s->outer = w->scopes;
    w->scopes = s;
}

static void on_parallel_end(ompt_data *data, ompt_data *from, int flags, const void *pc) {
    (void)from, (void)flags, (void)pc;
    if (data != NULL && data->ptr != NULL) give_back(data->ptr);
}

static void on_implicit(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index, int flags) {
    (void)size, (void)index;
    worker *w = here();
    if (endpoint == OMPT_BEGIN) {
        scope *team = !(flags & OMPT_TASK_INITIAL) && parallel != NULL ? parallel->ptr : NULL;
        task *beneath = w->top, *t = make(w, beneath > BOTTOM ? beneath : &nobody, team != NULL ? team->created : NULL);
        data->ptr = t;
        if (t == &nobody) return;
        if (team != NULL) t->scope = team;
        t->below = beneath;
        t->traced = weft_tasks.watch;
        w->top = t;
        return;
    }
    task *t = of(data);
    if (t == &nobody) return;
    w->top = t->below;
    data->ptr = NULL;
    t->wait = t->traced = 0;
    release(w, t);
}

static COLD void group(task *t, int endpoint) {
    worker *w = here();
    if (endpoint == OMPT_BEGIN) {
        scope *s = w->scopes != NULL ? w->scopes : calloc(1, sizeof *s);
        if (s == NULL) return;
        if (s == w->scopes) w->scopes = s->outer;
        *s = (scope){t->scope, NULL};
        t->scope = s;
        return;
    }
    scope *s = t->scope;
    t->wait = 0;
    if (s != NULL && s->created == NULL) t->scope = s->outer, give_back(s);
}

static COLD void group_of(int endpoint, ompt_data *data) {
    task *t = of(data);
    if (t == &nobody) return;
    group(t, endpoint);  // it opens here; its wait is told apart
    if (endpoint == OMPT_END && (t->traced & JOINS)) weft_tasks_signal(ON_JOINED, t, NULL);
}

static void on_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    (void)parallel;
    if (RARELY(kind == OMPT_SYNC_TASKGROUP)) return group_of(endpoint, data);
    if (RARELY(data == NULL)) return;
    task *t = data->ptr;
    if (RARELY(t == NULL)) return;
    if (endpoint == OMPT_BEGIN) {
        t->waiting = pc;
        t->wait = kind;
        return;
    }
    t->wait = 0;
    if (RARELY(t->traced & JOINS)) weft_tasks_signal(ON_JOINED, t, NULL);
}

static void on_sync_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    (void)parallel;
    if (RARELY(kind == OMPT_SYNC_TASKGROUP)) {
        task *t = of(data);
        t->wait = endpoint == OMPT_BEGIN ? kind : 0;
        t->waiting = pc;
        t->what = (uint64_t)(uintptr_t)t->scope;
    }
}

static lock *lock_of(uint64_t id) {
    uint64_t at = (id >> 3) * 0x9E3779B97F4A7C15u >> 52;
    for (int i = 0; i < LOCKS; i++, at = (at + 1) % LOCKS) {
        lock *l = &weft_tasks.locks[at];
        uint64_t seen = __atomic_load_n(&l->lock, __ATOMIC_ACQUIRE);
        if (seen == 0 && __atomic_compare_exchange_n(&l->lock, &seen, id, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return l;
        if (seen == id) return l;
    }
    return NULL;
}

static task *current(void) {
    task *t = here()->top;
    return t > BOTTOM ? t : &nobody;
}

static void on_acquire(int kind, unsigned hint, unsigned how, uint64_t id, const void *pc) {
    (void)kind, (void)hint, (void)how;
    task *t = current();
    t->what = id;
    t->waiting = pc;
    t->wait = WAIT_LOCK;
}

static void on_acquired(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    task *t = current();
    t->wait = 0;
    lock *l = lock_of(id);
    if (l != NULL) l->owner = t->id;
}

static void on_released(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    lock *l = lock_of(id);
    if (l != NULL) l->owner = 0;
}

static void on_dependence(ompt_data *first, ompt_data *then) {
    task *a = of(first), *b = of(then);
    if (a != &nobody && b != &nobody) b->needs = a->id;
}

static int start(ompt_lookup lookup, int device, ompt_data *tool) {
    (void)device, (void)tool;
    ompt_set set = (ompt_set)lookup("ompt_set_callback");
    set(OMPT_THREAD_BEGIN, (ompt_function)on_thread);
    set(OMPT_PARALLEL_BEGIN, (ompt_function)on_parallel_begin);
    set(OMPT_PARALLEL_END, (ompt_function)on_parallel_end);
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
