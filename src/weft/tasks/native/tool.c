// Weft's OMPT tool: keeps the table of logical tasks true, and signals what a traced task does to the debugger.
//
// OMPT tells of switches only; whether the task that leaves was buried or has gone to the heap follows from what lies
// beneath it. No lock and, once the first slab is there, no allocation on the way of a task.
#define _GNU_SOURCE
#include "table.h"
#include "holds.h"
#include "ompt.h"
#include "switches.h"
#include "turns.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COLD __attribute__((noinline, noipa, cold))
#define RARELY(condition) __builtin_expect((condition) != 0, 0)
#ifdef WEFT_TASKS_CHECK  // a test's build: what the hot paths take for granted is looked at
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) abort();                                                                                     \
    } while (0)
#else
#define CHECK(condition) ((void)0)
#endif

__attribute__((visibility("default"))) table weft_tasks = {
    .magic = {'w', 'e', 'f', 't', 'a', 's', 'k', '1'}, .size = sizeof(task), .slab = SLAB};
static uint64_t ids;
// Stands for every task without room in the table, lies at the bottom of each stack and at the end of each free list.
static task nobody = {.below = &nobody, .traced = NOBODY};
static __thread __attribute__((tls_model("initial-exec"))) worker me = {.top = &nobody, .free = &nobody, .slot = -1};
static worker *spare[WORKERS];  // of threads that have ended: their free records, numbers and scopes
static ompt_set set;
static int recording;  // in a rank of `weft run --tasks`: who makes which calls is written down
static void record_switch(void);

// The debugger's breakpoint: reached only by traced tasks.
__attribute__((noinline, visibility("default"))) void weft_tasks_signal(int event, task *of, task *other) {
    __asm__ volatile("" : : "r"(event), "r"(of), "r"(other) : "memory");
}

// Give a new thread its worker: what an ended one has left, or a new one.
static COLD void enter_thread(void) {
    if (me.thread != 0) return;
    uint64_t used = __atomic_load_n(&weft_tasks.workers, __ATOMIC_ACQUIRE);
    for (uint64_t at = 0; at < used && at < WORKERS && me.slot < 0; at++) {
        worker *left = __atomic_exchange_n(&spare[at], NULL, __ATOMIC_ACQ_REL);
        if (left == NULL) continue;
        me = *left;
        __atomic_store_n(&weft_tasks.worker[at], &me, __ATOMIC_RELEASE);
        free(left);
    }
    me.thread = (uint64_t)syscall(SYS_gettid);
    if (me.slot >= 0) return;
    uint64_t at = __atomic_fetch_add(&weft_tasks.workers, 1, __ATOMIC_RELAXED);
    if (at >= WORKERS) return;  // it works, but nobody sees what is on its stack
    me.slot = (int64_t)at;
    __atomic_store_n(&weft_tasks.worker[at], &me, __ATOMIC_RELEASE);
}

// Leave the worker of an ending thread to others.
static COLD void leave_thread(void) {
    if (me.slot < 0) return;
    worker *left = malloc(sizeof *left);
    me.top = &nobody;
    me.thread = 0;
    if (left != NULL) *left = me;
    __atomic_store_n(&weft_tasks.worker[me.slot], NULL, __ATOMIC_RELEASE);
    if (left != NULL) __atomic_store_n(&spare[me.slot], left, __ATOMIC_RELEASE);
}

// Return a free record after adding records to the table.
static COLD task *refill_records(void) {
    int at = __atomic_fetch_add(&weft_tasks.count, 1, __ATOMIC_RELAXED);
    task *slab = at < SLABS ? calloc(SLAB, sizeof(task)) : NULL;
    if (slab == NULL) return &nobody;
    for (int i = 0; i < SLAB; i++) slab[i].below = i + 1 < SLAB ? &slab[i + 1] : &nobody;
    __atomic_store_n(&weft_tasks.slabs[at], slab, __ATOMIC_RELEASE);
    return slab;
}

// The finalizer of a well-mixed hash, cut short: neighbours come far apart.
static inline uint64_t mix_hash(uint64_t of) {
    of *= 0x9E3779B97F4A7C15u;
    return of ^ of >> 29;
}

// What the pedigrees of the children of one are made from.
static inline uint64_t line_of(uint64_t pedigree) { return pedigree * 0xBF58476D1CE4E5B9u; }

// Set a task's pedigree, from which those of its children follow.
static inline void set_pedigree(task *t, uint64_t pedigree) {
    t->pedigree = pedigree;
    t->line = line_of(pedigree);
}

static inline task *init_record(task *t, uint64_t id, task *parent, const void *created) {
    me.free = t->below;
    me.next_id = ++id;
    t->parent = parent->id;
    t->scope = parent->scope;
    t->created = created;
    t->below = FRESH;
    set_pedigree(t, mix_hash(++parent->line));
    t->id = id;
    return t;
}

// Return the record of a new task.
static COLD task *make_record(task *parent, const void *created) {
    if (me.free == &nobody && (me.free = refill_records()) == &nobody) return &nobody;
    if ((me.next_id & (SLAB - 1)) == 0) me.next_id = __atomic_fetch_add(&ids, SLAB, __ATOMIC_RELAXED);
    return init_record(me.free, me.next_id, parent, created);
}

static inline void release_record(task *t) {
    t->id = 0;
    t->below = me.free;
    me.free = t;
}

static inline task *of(const ompt_data *data) { return data != NULL && data->ptr != NULL ? data->ptr : &nobody; }

static void on_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc);
static COLD void be_careful(void);

// The first task of a thread, a slab or a block of numbers; a parent that is traced; an untied task. Arguments that
// on_create has too stay in their registers; `flags` may have bits of `traced` in it.
static COLD void create_rarely(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences,
                               const void *pc) {
    (void)from, (void)frame, (void)dependences;
    data->ptr = &nobody;
    if (flags & OMPT_TASK_TASKWAIT) return;  // a taskwait with dependences never runs
    enter_thread();
    task *parent = me.top, *t = make_record(parent, pc);
    data->ptr = t;
    if (t == &nobody) return;
    t->traced = flags & OMPT_TASK_UNTIED ? UNTIED : 0;
    if (flags & OMPT_TASK_UNTIED) be_careful();
    if (flags & OMPT_TASK_INITIAL) {
        t->below = &nobody;
        me.top = t;
        if (recording) record_switch();
    }
    if (parent->traced & SPAWNS) weft_tasks_signal(ON_CREATE, parent, t);
}

// The hot paths call nothing but at their ends, and ask no pointer that a worker's top answers: they are that short.
static void on_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences, const void *pc) {
    (void)frame, (void)dependences;
    task *parent = me.top, *t = me.free;
    uint64_t id = me.next_id;
    CHECK(from == NULL || from->ptr == NULL || from->ptr == parent);
    (void)from;
    flags |= parent->traced;
    __asm__("" : "+r"(flags));  // in this order it needs no register more
    flags |= t->traced;  // `nobody` is traced
    if (RARELY(flags & (OMPT_TASK_TASKWAIT | OMPT_TASK_UNTIED | TRACED | UNTIED | ON | FINISHED)) ||
        RARELY((id & (SLAB - 1)) == 0))
        return create_rarely(NULL, NULL, data, flags, 0, pc);
    data->ptr = init_record(t, id, parent, pc);
}

// Take a task off its worker. If another thread has ended it meanwhile, its record is free now.
static COLD void take_off_worker(task *t) {
    t->below = NULL;
    if (!(t->traced & UNTIED)) return;
    int was = __atomic_fetch_and(&t->traced, ~ON, __ATOMIC_ACQ_REL);
    if (!(was & FINISHED)) return;
    t->traced = 0;
    release_record(t);
}

// The worker waits with a task that it would begin or take up: until it is let go, that one has not come on. It is looked at
// once the table has it here: who sets the bit sees it there, or is seen.
static COLD void until_released(task *prior, task *next, task *was) {
    me.top = prior;
    next->below = was;
    me.held = next;
    weft_tasks_wait(next);
    me.held = NULL;
    next->below = prior;
    me.top = next;
}

// A task that leaves its worker for what lies beneath it, or one that goes on, from the heap, on top of this one. When
// an untied task gives its place back, LLVM's runtime names its parent as the next, wherever that is.
static COLD void switch_tasks(task *prior, task *next) {
    task *was = next->below;
    int left = prior != &nobody &&
               (was > FRESH || ((prior->traced & UNTIED) && prior->wait == 0 && next->id == prior->parent));
    if (left) {
        next = prior->below;
        take_off_worker(prior);
    } else if (was <= FRESH) {
        next->below = prior;
        if (next->traced & UNTIED) __atomic_fetch_or(&next->traced, ON, __ATOMIC_ACQ_REL);
    }
    me.top = next;
    __asm__ volatile("" : : : "memory");
    if (!left && was <= FRESH && (next->traced & HELD)) until_released(prior, next, was);
    if (left && (prior->traced & RUNS)) weft_tasks_signal(ON_SUSPEND, prior, next);
    if (!left && was <= FRESH && (next->traced & RUNS))
        weft_tasks_signal(was == FRESH ? ON_BEGIN : ON_RESUME, next, prior);
}

static COLD void begin_traced(task *prior, task *next) {
    if (next->traced & HELD) until_released(prior, next, FRESH);
    if (next->traced & RUNS) weft_tasks_signal(ON_BEGIN, next, prior);
}

static COLD void end_task(task *done, task *next) {
    int traced = done->traced;
    me.top = next;
    if (traced & NOBODY) return;
    done->traced = 0;
    if (traced & RUNS) weft_tasks_signal(ON_DONE, done, next);
    release_record(done);
}

// Whatever is not the end of an untraced task or the begin of one.
static COLD void schedule_rarely(ompt_data *from, int status, ompt_data *to) {
    task *prior = me.top, *next = to != NULL ? of(to) : prior->below;
    if (status == OMPT_SWITCH || status == OMPT_YIELD) return switch_tasks(prior, next);
    if (status == OMPT_COMPLETE || status == OMPT_CANCEL) end_task(prior, prior == &nobody ? next : prior->below);
    if (status == OMPT_DETACH && prior != &nobody) { // its body is done, its event is not: it lies on the heap for that
        me.top = prior->below;
        prior->below = NULL;
        prior->wait = WAIT_EVENT;
    }
    if (status == OMPT_LATE_FULFILL && of(from) != &nobody) {
        of(from)->wait = 0;
        of(from)->traced &= ~RUNS;
        release_record(of(from));
    }
}

static void on_schedule(ompt_data *from, int status, ompt_data *to) {
    task *prior = me.top;
    CHECK(from->ptr == prior || (status > OMPT_DETACH && status != OMPT_SWITCH));
    if (status == OMPT_COMPLETE) { // on with what lies beneath it
        CHECK(prior == &nobody || to == NULL || prior->below == to->ptr);
        if (RARELY(prior->traced & (TRACED | UNTIED | HELD))) return schedule_rarely(from, status, to);
        me.top = prior->below;
        return release_record(prior);
    }
    if (RARELY(status != OMPT_SWITCH)) return schedule_rarely(from, status, to);
    task *next = to->ptr;
    if (RARELY(next == NULL) || next->below != FRESH) return schedule_rarely(from, status, to);
    next->below = prior;
    me.top = next;
    __asm__ volatile("" : : : "memory");
    if (RARELY(next->traced & (RUNS | HELD))) begin_traced(prior, next);
}

// Untied tasks. Of the two threads that run the last two parts of one, it is the slower that tells of its end: the one
// that runs the last part may say nothing, and the one that tells of it may have left it long before. So from the first
// untied task on, it is not the worker's top that says which task is here, but what the runtime names.

static COLD void settle_worker(const task *here) {
    task *t = me.top;
    if (t == here || here == &nobody) return;
    while (t != &nobody && t != here) t = t->below;
    if (t != here) return;
    while (me.top != here) {
        task *gone = me.top;
        me.top = gone->below;
        take_off_worker(gone);
    }
}

static void careful_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences,
                           const void *pc) {
    settle_worker(of(from));
    on_create(from, frame, data, flags, dependences, pc == me.named ? me.loop : pc);
}

static void careful_schedule(ompt_data *from, int status, ompt_data *to) {
    task *prior = of(from);
    settle_worker(prior);
    if (status != OMPT_COMPLETE || prior == me.top || !(prior->traced & UNTIED)) return on_schedule(from, status, to);
    if (prior->traced & RUNS) weft_tasks_signal(ON_DONE, prior, me.top);
    if (__atomic_fetch_or(&prior->traced, FINISHED, __ATOMIC_ACQ_REL) & ON) return; // its record lies in a stack still
    prior->traced = 0;
    release_record(prior);
}

static void careful_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    if (data != NULL) settle_worker(of(data));
    on_sync(kind, endpoint, parallel, data, pc);
}

// Return the first return address that is neither in the runtime nor in this library.
static COLD const void *find_outside_address(const void *in_runtime) {
    void *at[16];
    Dl_info runtime, here, there;
    if (!dladdr(in_runtime, &runtime) || !dladdr((void *)&weft_tasks, &here)) return in_runtime;
    int count = backtrace(at, 16);
    for (int i = 0; i < count; i++)
        if (dladdr(at[i], &there) && there.dli_fbase != runtime.dli_fbase && there.dli_fbase != here.dli_fbase)
            return at[i];
    return in_runtime;
}

// Who comes first makes the tasks of a `single`: they are children of the team's so-manieth single, not of that thread's
// implicit task, so that their pedigrees are the same in every run. Each thread of a team meets all of its singles.
enum { NESTED = 32 }; // teams within teams; further in, such tasks are called after the thread
static __thread __attribute__((tls_model("initial-exec"))) struct implicit {
    task *of;
    uint64_t singles;
    uint64_t line; // that of the implicit task, while it makes a single's tasks
    int within;
} implicits[NESTED];
static __thread __attribute__((tls_model("initial-exec"))) int nested;

static inline struct implicit *implicit(void) { return nested > 0 && nested <= NESTED ? &implicits[nested - 1] : NULL; }

static COLD void end_single(void) {
    struct implicit *at = implicit();
    if (at == NULL || !at->within) return;
    at->within = 0;
    at->of->line = at->line;
}

static COLD void begin_single(int executes) {
    struct implicit *at = implicit();
    if (at == NULL || at->of != me.top) return;
    end_single();
    at->singles++;
    const scope *team = at->of->scope;
    while (team != NULL && team->created == NULL) team = team->outer;
    if (!executes || team == NULL) return;
    at->within = 1;
    at->line = at->of->line;
    at->of->line = line_of(mix_hash(team->pedigree - at->singles));
}

static COLD void on_work(int kind, int endpoint, ompt_data *parallel, ompt_data *data, uint64_t count, const void *pc) {
    (void)parallel, (void)data, (void)count;
    if (kind == OMPT_WORK_SINGLE_EXECUTOR && endpoint == OMPT_END) return end_single();
    if (endpoint != OMPT_BEGIN) return;
    if (kind == OMPT_WORK_SINGLE_EXECUTOR || kind == OMPT_WORK_SINGLE_OTHER)
        return begin_single(kind == OMPT_WORK_SINGLE_EXECUTOR);
    if (kind != OMPT_WORK_TASKLOOP) return;
    // LLVM's runtime names a place within itself for the tasks of a taskloop.
    me.named = pc;
    me.loop = find_outside_address(pc);
    set(OMPT_TASK_CREATE, (ompt_function)careful_create);
}

static COLD void be_careful(void) {
    static int is_careful;
    if (__atomic_exchange_n(&is_careful, 1, __ATOMIC_RELAXED)) return;
    set(OMPT_TASK_CREATE, (ompt_function)careful_create);
    set(OMPT_TASK_SCHEDULE, (ompt_function)careful_schedule);
    set(OMPT_SYNC_REGION, (ompt_function)careful_sync);
}

static void on_thread(int kind, ompt_data *data) {
    (void)kind, (void)data;
    enter_thread();
}

static void on_thread_end(ompt_data *data) {
    (void)data;
    leave_thread();
}

static scope *open_scope(scope *outer, const void *created) {
    scope *s = me.scopes;
    if (s != NULL) me.scopes = s->outer;
    else s = malloc(sizeof *s);
    if (s != NULL) *s = (scope){outer, created, me.top->id, created != NULL ? mix_hash(++me.top->line) : 0};
    return s;
}

static void close_scope(scope *s) {
    s->outer = me.scopes;
    me.scopes = s;
}

static void on_parallel_begin(ompt_data *from, const void *frame, ompt_data *data, unsigned size, int flags,
                              const void *pc) {
    (void)frame, (void)size, (void)flags;
    enter_thread();
    data->ptr = open_scope(of(from)->scope, pc);
}

static void on_parallel_end(ompt_data *data, ompt_data *from, int flags, const void *pc) {
    (void)flags, (void)pc;
    if (data != NULL && data->ptr != NULL) close_scope(data->ptr);
    if (of(from)->traced & JOINS) weft_tasks_signal(ON_JOINED, of(from), NULL);
}

static void on_implicit(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index, int flags) {
    (void)size;
    enter_thread();
    if (endpoint == OMPT_BEGIN) {
        scope *team = !(flags & OMPT_TASK_INITIAL) && parallel != NULL ? parallel->ptr : NULL;
        task *t = make_record(me.top, team != NULL ? team->created : NULL);
        data->ptr = t;
        if (t == &nobody) return;
        if (team != NULL) {
            t->scope = team, t->parent = team->opener;
            set_pedigree(t, mix_hash(team->pedigree + index));
        }
        t->below = me.top;
        t->traced = weft_tasks.watch;
        me.top = t;
        if (nested++ < NESTED) implicits[nested - 1] = (struct implicit){.of = t};
        return;
    }
    task *t = of(data);
    if (t == &nobody) return;
    if (nested > 0) nested--;
    me.top = t->below;
    data->ptr = &nobody;
    if ((t->traced & RUNS) && !(flags & OMPT_TASK_INITIAL)) weft_tasks_signal(ON_DONE, t, t->below);
    t->wait = t->traced = 0;
    release_record(t);
}

static void on_sync_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    (void)parallel, (void)data;
    if (kind != OMPT_SYNC_TASKGROUP) return;
    task *t = me.top;
    t->wait = endpoint == OMPT_BEGIN ? kind : 0;
    t->waiting = pc;
    t->what = (uint64_t)(uintptr_t)t->scope;
}

// Open or close a taskgroup. Its wait is a separate event, which only programs with taskgroups pay for.
static COLD void handle_taskgroup(task *t, int endpoint) {
    static int waits;
    if (!__atomic_exchange_n(&waits, 1, __ATOMIC_RELAXED)) set(OMPT_SYNC_REGION_WAIT, (ompt_function)on_sync_wait);
    if (t == &nobody) return;
    if (endpoint == OMPT_BEGIN) {
        scope *s = open_scope(t->scope, NULL);
        if (s != NULL) t->scope = s;
        return;
    }
    scope *s = t->scope;
    t->wait = 0;
    if (s != NULL && s->created == NULL) t->scope = s->outer, close_scope(s);
    if (t->traced & JOINS) weft_tasks_signal(ON_JOINED, t, NULL);
}

static void on_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    (void)parallel, (void)data;
    task *t = me.top;
    if (RARELY(kind == OMPT_SYNC_TASKGROUP)) return handle_taskgroup(t, endpoint);
    if (endpoint == OMPT_BEGIN) {
        t->waiting = pc;
        t->wait = kind;
        if (RARELY(kind != OMPT_SYNC_TASKWAIT)) end_single(); // gcc tells of a single's begin only
        return;
    }
    t->wait = 0;
    if (RARELY(t->traced & JOINS)) weft_tasks_signal(ON_JOINED, t, NULL);
}

static lock *find_lock(uint64_t id) {
    uint64_t at = (id >> 3) * 0x9E3779B97F4A7C15u >> 52;
    for (int i = 0; i < LOCKS; i++, at = (at + 1) % LOCKS) {
        lock *l = &weft_tasks.locks[at];
        uint64_t seen = __atomic_load_n(&l->lock, __ATOMIC_ACQUIRE);
        if (seen == 0 && __atomic_compare_exchange_n(&l->lock, &seen, id, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return l;
        if (seen == id) return l;
    }
    return NULL;
}

static void on_acquire(int kind, unsigned hint, unsigned how, uint64_t id, const void *pc) {
    (void)kind, (void)hint, (void)how;
    task *t = me.top;
    t->what = id;
    t->waiting = pc;
    t->wait = WAIT_LOCK;
}

static void on_acquired(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    task *t = me.top;
    t->wait = 0;
    lock *l = find_lock(id);
    if (l != NULL) l->owner = t->id;
}

static void on_released(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    lock *l = find_lock(id);
    if (l != NULL) l->owner = 0;
}

static void on_dependence(ompt_data *first, ompt_data *then) {
    task *a = of(first), *b = of(then);
    if (a != &nobody && b != &nobody) b->needs = a->id;
}

// In a rank of `weft run --tasks`: what can change a worker's top is called through what looks at it afterwards.

enum { EVENTS = 32 };
static ompt_function noted[EVENTS];
static ompt_set really_set;

static int kind_of(const task *t) {
    if (t->parent == 0) return WEFT_TASK_INITIAL;
    return t->scope != NULL && t->scope->created != NULL && t->scope->created == t->created ? WEFT_TASK_IMPLICIT
                                                                                            : WEFT_TASK_EXPLICIT;
}

// The end of an untied task may be told by another thread, later (see above). Where the task beneath it stands in a wait,
// that one says when it goes on; where it does not, it may go on unheard, and then nobody knows who is here.
static int is_sure(const task *t) { return t != &nobody && (!(t->traced & UNTIED) || t->below->wait != 0); }

static void record_switch(void) {
    static __thread __attribute__((tls_model("initial-exec"))) uint64_t last;
    const task *t = me.top;
    uint64_t id = is_sure(t) ? t->id : 0;
    if (id == last) return;
    last = id;
    if (id == 0) return weft_switch(&(struct weft_switch){0});
    struct weft_switch to;
    to.calls = 0;
    to.task = id;
    to.parent = t->parent;
    to.site = weft_switches_site(t->created);
    to.name = 0;
    to.kind = (uint32_t)kind_of(t);
    to.until = 0;
    weft_switch(&to);
}

static void noted_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences,
                         const void *pc) {
    ((__typeof__(&noted_create))noted[OMPT_TASK_CREATE])(from, frame, data, flags, dependences, pc);
    record_switch();
}

static void noted_schedule(ompt_data *from, int status, ompt_data *to) {
    ((__typeof__(&noted_schedule))noted[OMPT_TASK_SCHEDULE])(from, status, to);
    record_switch();
}

static void noted_implicit(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index,
                           int flags) {
    ((__typeof__(&noted_implicit))noted[OMPT_IMPLICIT_TASK])(endpoint, parallel, data, size, index, flags);
    record_switch();
}

static void noted_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    ((__typeof__(&noted_sync))noted[OMPT_SYNC_REGION])(kind, endpoint, parallel, data, pc);
    record_switch();
}

static int set_noted(int event, ompt_function callback) {
    noted[event] = callback;
    if (event == OMPT_TASK_SCHEDULE) callback = (ompt_function)noted_schedule;
    if (event == OMPT_IMPLICIT_TASK) callback = (ompt_function)noted_implicit;
    if (callback == (ompt_function)careful_create) callback = (ompt_function)noted_create; // the others only add a task
    if (callback == (ompt_function)careful_sync) callback = (ompt_function)noted_sync; // and leave the top as it is
    return really_set(event, callback);
}

// For turns.c: a task that is made here, and runs when its turn comes.
task *weft_tasks_made(const void *created) {
    ompt_data data = {0};
    create_rarely(NULL, NULL, &data, OMPT_TASK_EXPLICIT, 0, created);
    return data.ptr;
}

task *weft_tasks_top(void) { return me.top; }

uint64_t weft_tasks_owner(uint64_t id) {
    const lock *l = find_lock(id);
    return l != NULL ? l->owner : 0;
}

static int start(ompt_lookup lookup, int device, ompt_data *tool) {
    (void)device, (void)tool;
    set = (ompt_set)lookup("ompt_set_callback");
    if ((recording = weft_switches_begin("openmp"))) {
        really_set = set;
        set = set_noted;
    } else {
        set = weft_turns_begin(set);
    }
    set(OMPT_THREAD_BEGIN, (ompt_function)on_thread);
    set(OMPT_THREAD_END, (ompt_function)on_thread_end);
    set(OMPT_PARALLEL_BEGIN, (ompt_function)on_parallel_begin);
    set(OMPT_PARALLEL_END, (ompt_function)on_parallel_end);
    set(OMPT_TASK_CREATE, (ompt_function)on_create);
    set(OMPT_TASK_SCHEDULE, (ompt_function)on_schedule);
    set(OMPT_IMPLICIT_TASK, (ompt_function)on_implicit);
    set(OMPT_SYNC_REGION, (ompt_function)on_sync);
    set(OMPT_WORK, (ompt_function)on_work);
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
