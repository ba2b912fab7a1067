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
static uint64_t last_ids;
// Stands for every task without room in the table, lies at the bottom of each stack and at the end of each free list.
static task nobody = {.below = &nobody, .traced = NOBODY};
static __thread __attribute__((tls_model("initial-exec"))) worker me = {.top = &nobody, .free = &nobody, .slot = -1};
static worker *spare_workers[WORKERS];  // of threads that have ended: their free records, numbers and scopes
static ompt_set set_callback;
static int is_recording;  // in a rank of `weft run --tasks`: who makes which calls is written down
static void record_switch(void);

// The debugger's breakpoint: reached only by traced tasks.
__attribute__((noinline, visibility("default"))) void weft_tasks_signal(int event, task *of, task *other) {
    __asm__ volatile("" : : "r"(event), "r"(of), "r"(other) : "memory");
}

// Give a new thread a worker (its entry in the task table): one that an ended thread has left, or a new one.
static COLD void enter_thread(void) {
    if (me.thread != 0) return;
    uint64_t worker_count = __atomic_load_n(&weft_tasks.workers, __ATOMIC_ACQUIRE);
    for (uint64_t slot = 0; slot < worker_count && slot < WORKERS && me.slot < 0; slot++) {
        worker *spare_worker = __atomic_exchange_n(&spare_workers[slot], NULL, __ATOMIC_ACQ_REL);
        if (spare_worker == NULL) continue;
        me = *spare_worker;
        __atomic_store_n(&weft_tasks.worker[slot], &me, __ATOMIC_RELEASE);
        free(spare_worker);
    }
    me.thread = (uint64_t)syscall(SYS_gettid);
    if (me.slot >= 0) return;
    uint64_t slot = __atomic_fetch_add(&weft_tasks.workers, 1, __ATOMIC_RELAXED);
    if (slot >= WORKERS) return;  // it works, but nobody sees what is on its stack
    me.slot = (int64_t)slot;
    __atomic_store_n(&weft_tasks.worker[slot], &me, __ATOMIC_RELEASE);
}

// When a thread ends: leave its worker to later threads.
static COLD void leave_thread(void) {
    if (me.slot < 0) return;
    worker *spare_worker = malloc(sizeof *spare_worker);
    me.top = &nobody;
    me.thread = 0;
    if (spare_worker != NULL) *spare_worker = me;
    __atomic_store_n(&weft_tasks.worker[me.slot], NULL, __ATOMIC_RELEASE);
    if (spare_worker != NULL) __atomic_store_n(&spare_workers[me.slot], spare_worker, __ATOMIC_RELEASE);
}

// Add a slab of task records to the table and return one; `nobody` if there is no room or memory.
static COLD task *refill_records(void) {
    int slab_index = __atomic_fetch_add(&weft_tasks.count, 1, __ATOMIC_RELAXED);
    task *slab = slab_index < SLABS ? calloc(SLAB, sizeof(task)) : NULL;
    if (slab == NULL) return &nobody;
    for (int i = 0; i < SLAB; i++) slab[i].below = i + 1 < SLAB ? &slab[i + 1] : &nobody;
    __atomic_store_n(&weft_tasks.slabs[slab_index], slab, __ATOMIC_RELEASE);
    return slab;
}

// Return a hash of a number (a multiplication and a shift), which takes neighbouring numbers far apart.
static inline uint64_t mix_hash(uint64_t number) {
    number *= 0x9E3779B97F4A7C15u;
    return number ^ number >> 29;
}

// Return what the pedigrees of a task's children are made from.
static inline uint64_t find_child_line(uint64_t pedigree) { return pedigree * 0xBF58476D1CE4E5B9u; }

// Set a task's pedigree (its path from the first task, as a hash), from which its children's are derived.
static inline void set_pedigree(task *record, uint64_t pedigree) {
    record->pedigree = pedigree;
    record->line = find_child_line(pedigree);
}

// Take a free record for a new, not yet started task and return it.
static inline task *init_record(task *record, uint64_t id, task *parent, const void *created) {
    me.free = record->below;
    me.next_id = ++id;
    record->parent = parent->id;
    record->scope = parent->scope;
    record->created = created;
    record->below = FRESH;
    set_pedigree(record, mix_hash(++parent->line));
    record->id = id;
    return record;
}

// Create the record of a new task, a child of `parent` created at a code address; `nobody` if there is no room.
static COLD task *make_record(task *parent, const void *created) {
    if (me.free == &nobody && (me.free = refill_records()) == &nobody) return &nobody;
    if ((me.next_id & (SLAB - 1)) == 0) me.next_id = __atomic_fetch_add(&last_ids, SLAB, __ATOMIC_RELAXED);
    return init_record(me.free, me.next_id, parent, created);
}

// Put a task's record back on this thread's free list.
static inline void release_record(task *record) {
    record->id = 0;
    record->below = me.free;
    me.free = record;
}

static inline task *find_record(const ompt_data *data) {
    return data != NULL && data->ptr != NULL ? data->ptr : &nobody;
}

static void handle_sync_region(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc);
static COLD void use_careful_callbacks(void);

// Create a task in the rare cases of handle_task_create(): the first of a thread, slab or block of numbers, a traced
// parent, an untied task. Unused parameters keep the others in their registers; `flags` may contain bits of `traced`.
static COLD void create_rare_task(ompt_data *from, const void *frame, ompt_data *task_data, int flags, int dependences,
                                  const void *pc) {
    (void)from, (void)frame, (void)dependences;
    task_data->ptr = &nobody;
    if (flags & OMPT_TASK_TASKWAIT) return; // a taskwait with dependences never runs
    enter_thread();
    task *parent = me.top, *record = make_record(parent, pc);
    task_data->ptr = record;
    if (record == &nobody) return;
    record->traced = flags & OMPT_TASK_UNTIED ? UNTIED : 0;
    if (flags & OMPT_TASK_UNTIED) use_careful_callbacks();
    if (flags & OMPT_TASK_INITIAL) {
        record->below = &nobody;
        me.top = record;
        if (is_recording) record_switch();
    }
    if (parent->traced & SPAWNS) weft_tasks_signal(ON_CREATE, parent, record);
}

// OMPT callback: a task was created. This is a hot path: it calls nothing except at its end, and takes the parent from
// the worker instead of from the runtime's pointers.
static void handle_task_create(ompt_data *from, const void *frame, ompt_data *task_data, int flags, int dependences,
                               const void *pc) {
    (void)frame, (void)dependences;
    task *parent = me.top, *record = me.free;
    uint64_t id = me.next_id;
    CHECK(from == NULL || from->ptr == NULL || from->ptr == parent);
    (void)from;
    flags |= parent->traced;
    __asm__("" : "+r"(flags)); // in this order it needs no register more
    flags |= record->traced; // `nobody` is traced
    if (RARELY(flags & (OMPT_TASK_TASKWAIT | OMPT_TASK_UNTIED | TRACED | UNTIED | ON | FINISHED)) ||
        RARELY((id & (SLAB - 1)) == 0))
        return create_rare_task(NULL, NULL, task_data, flags, 0, pc);
    task_data->ptr = init_record(record, id, parent, pc);
}

// Take a task off its worker's stack. If another thread has reported its end meanwhile, free its record.
static COLD void take_off_worker(task *record) {
    record->below = NULL;
    if (!(record->traced & UNTIED)) return;
    int old_flags = __atomic_fetch_and(&record->traced, ~ON, __ATOMIC_ACQ_REL);
    if (!(old_flags & FINISHED)) return;
    record->traced = 0;
    release_record(record);
}

// Let this thread wait with a task that the debugger holds, before it starts or resumes it. The task is put in the
// table as waiting first, so that a concurrent change of the hold is not missed.
static COLD void wait_until_released(task *prior_task, task *held_task, task *old_below) {
    me.top = prior_task;
    held_task->below = old_below;
    me.held = held_task;
    weft_tasks_wait_while_held(held_task);
    me.held = NULL;
    held_task->below = prior_task;
    me.top = held_task;
}

// Switch the worker from one task to another: `prior` leaves it for the task beneath, or `next` is put on top. When an
// untied task is suspended, LLVM's runtime names its parent as next, wherever that is.
static COLD void switch_tasks(task *prior, task *next) {
    task *old_below = next->below;
    int has_left = prior != &nobody &&
                   (old_below > FRESH || ((prior->traced & UNTIED) && prior->wait == 0 && next->id == prior->parent));
    if (has_left) {
        next = prior->below;
        take_off_worker(prior);
    } else if (old_below <= FRESH) {
        next->below = prior;
        if (next->traced & UNTIED) __atomic_fetch_or(&next->traced, ON, __ATOMIC_ACQ_REL);
    }
    me.top = next;
    __asm__ volatile("" : : : "memory");
    if (!has_left && old_below <= FRESH && (next->traced & HELD)) wait_until_released(prior, next, old_below);
    if (has_left && (prior->traced & RUNS)) weft_tasks_signal(ON_SUSPEND, prior, next);
    if (!has_left && old_below <= FRESH && (next->traced & RUNS))
        weft_tasks_signal(old_below == FRESH ? ON_BEGIN : ON_RESUME, next, prior);
}

// Start a task that is held or traced: wait while it is held, then signal the debugger.
static COLD void begin_traced_task(task *prior, task *next) {
    if (next->traced & HELD) wait_until_released(prior, next, FRESH);
    if (next->traced & RUNS) weft_tasks_signal(ON_BEGIN, next, prior);
}

// End a task: signal the debugger if it is traced, then free its record.
static COLD void end_task(task *ended, task *next) {
    int flags = ended->traced;
    me.top = next;
    if (flags & NOBODY) return;
    ended->traced = 0;
    if (flags & RUNS) weft_tasks_signal(ON_DONE, ended, next);
    release_record(ended);
}

// Handle a task switch in the rare cases of handle_task_schedule(): traced, untied, suspended, cancelled or detached
// tasks.
static COLD void handle_rare_switch(ompt_data *from, int status, ompt_data *to) {
    task *prior = me.top, *next = to != NULL ? find_record(to) : prior->below;
    if (status == OMPT_SWITCH || status == OMPT_YIELD) return switch_tasks(prior, next);
    if (status == OMPT_COMPLETE || status == OMPT_CANCEL) end_task(prior, prior == &nobody ? next : prior->below);
    if (status == OMPT_DETACH && prior != &nobody) { // its body is done, its event is not: it lies on the heap for that
        me.top = prior->below;
        prior->below = NULL;
        prior->wait = WAIT_EVENT;
    }
    if (status == OMPT_LATE_FULFILL && find_record(from) != &nobody) {
        find_record(from)->wait = 0;
        find_record(from)->traced &= ~RUNS;
        release_record(find_record(from));
    }
}

// OMPT callback: a thread switches tasks. Update the top of its stack of tasks.
static void handle_task_schedule(ompt_data *from, int status, ompt_data *to) {
    task *prior = me.top;
    CHECK(from->ptr == prior || (status > OMPT_DETACH && status != OMPT_SWITCH));
    if (status == OMPT_COMPLETE) { // on with what lies beneath it
        CHECK(prior == &nobody || to == NULL || prior->below == to->ptr);
        if (RARELY(prior->traced & (TRACED | UNTIED | HELD))) return handle_rare_switch(from, status, to);
        me.top = prior->below;
        return release_record(prior);
    }
    if (RARELY(status != OMPT_SWITCH)) return handle_rare_switch(from, status, to);
    task *next = to->ptr;
    if (RARELY(next == NULL) || next->below != FRESH) return handle_rare_switch(from, status, to);
    next->below = prior;
    me.top = next;
    __asm__ volatile("" : : : "memory");
    if (RARELY(next->traced & (RUNS | HELD))) begin_traced_task(prior, next);
}

// Untied tasks. Of the two threads that run the last two parts of one, it is the slower that tells of its end: the one
// that runs the last part may say nothing, and the one that tells of it may have left it long before. So from the first
// untied task on, it is not the worker's top that says which task is here, but what the runtime names.

// Remove ended untied tasks from the top of this worker's stack, down to the task that the runtime says is running.
static COLD void pop_ended_untied_tasks(const task *running) {
    task *record = me.top;
    if (record == running || running == &nobody) return;
    while (record != &nobody && record != running) record = record->below;
    if (record != running) return;
    while (me.top != running) {
        task *ended = me.top;
        me.top = ended->below;
        take_off_worker(ended);
    }
}

// OMPT callback in place of handle_task_create(), after the first untied task or taskloop.
static void handle_create_carefully(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences,
                                    const void *pc) {
    pop_ended_untied_tasks(find_record(from));
    handle_task_create(from, frame, data, flags, dependences, pc == me.named ? me.loop : pc);
}

// OMPT callback in place of handle_task_schedule(), after the first untied task: another thread may report the end of
// an untied task.
static void handle_schedule_carefully(ompt_data *from, int status, ompt_data *to) {
    task *prior = find_record(from);
    pop_ended_untied_tasks(prior);
    if (status != OMPT_COMPLETE || prior == me.top || !(prior->traced & UNTIED))
        return handle_task_schedule(from, status, to);
    if (prior->traced & RUNS) weft_tasks_signal(ON_DONE, prior, me.top);
    if (__atomic_fetch_or(&prior->traced, FINISHED, __ATOMIC_ACQ_REL) & ON) return; // its record lies in a stack still
    prior->traced = 0;
    release_record(prior);
}

// OMPT callback in place of handle_sync_region(), after the first untied task.
static void handle_sync_carefully(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    if (data != NULL) pop_ended_untied_tasks(find_record(data));
    handle_sync_region(kind, endpoint, parallel, data, pc);
}

// Return the innermost return address on the stack that is neither in the OpenMP runtime nor in this library.
static COLD const void *find_outside_address(const void *in_runtime) {
    void *addresses[16];
    Dl_info runtime_module, own, module;
    if (!dladdr(in_runtime, &runtime_module) || !dladdr((void *)&weft_tasks, &own)) return in_runtime;
    int count = backtrace(addresses, 16);
    for (int i = 0; i < count; i++)
        if (dladdr(addresses[i], &module) && module.dli_fbase != runtime_module.dli_fbase &&
            module.dli_fbase != own.dli_fbase)
            return addresses[i];
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
static __thread __attribute__((tls_model("initial-exec"))) int nesting_depth;

static inline struct implicit *find_implicit(void) {
    return nesting_depth > 0 && nesting_depth <= NESTED ? &implicits[nesting_depth - 1] : NULL;
}

// At the end of a `single` construct: tasks become children of the thread's implicit task again.
static COLD void end_single(void) {
    struct implicit *implicit_task = find_implicit();
    if (implicit_task == NULL || !implicit_task->within) return;
    implicit_task->within = 0;
    implicit_task->of->line = implicit_task->line;
}

// At a `single` construct: if this thread executes it, give the tasks it creates pedigrees that depend on the team and
// the ordinal of the single, not on the thread.
static COLD void begin_single(int is_executor) {
    struct implicit *implicit_task = find_implicit();
    if (implicit_task == NULL || implicit_task->of != me.top) return;
    end_single();
    implicit_task->singles++;
    const scope *team = implicit_task->of->scope;
    while (team != NULL && team->created == NULL) team = team->outer;
    if (!is_executor || team == NULL) return;
    implicit_task->within = 1;
    implicit_task->line = implicit_task->of->line;
    implicit_task->of->line = find_child_line(mix_hash(team->pedigree - implicit_task->singles));
}

// OMPT callback for worksharing constructs: track `single`, and find the code address of a `taskloop`.
static COLD void handle_work(int kind, int endpoint, ompt_data *parallel, ompt_data *data, uint64_t count,
                             const void *pc) {
    (void)parallel, (void)data, (void)count;
    if (kind == OMPT_WORK_SINGLE_EXECUTOR && endpoint == OMPT_END) return end_single();
    if (endpoint != OMPT_BEGIN) return;
    if (kind == OMPT_WORK_SINGLE_EXECUTOR || kind == OMPT_WORK_SINGLE_OTHER)
        return begin_single(kind == OMPT_WORK_SINGLE_EXECUTOR);
    if (kind != OMPT_WORK_TASKLOOP) return;
    // LLVM's runtime names a place within itself for the tasks of a taskloop.
    me.named = pc;
    me.loop = find_outside_address(pc);
    set_callback(OMPT_TASK_CREATE, (ompt_function)handle_create_carefully);
}

// From the first untied task on, use the slower callbacks that do not trust the worker's top.
static COLD void use_careful_callbacks(void) {
    static int is_careful;
    if (__atomic_exchange_n(&is_careful, 1, __ATOMIC_RELAXED)) return;
    set_callback(OMPT_TASK_CREATE, (ompt_function)handle_create_carefully);
    set_callback(OMPT_TASK_SCHEDULE, (ompt_function)handle_schedule_carefully);
    set_callback(OMPT_SYNC_REGION, (ompt_function)handle_sync_carefully);
}

static void handle_thread_begin(int kind, ompt_data *data) {
    (void)kind, (void)data;
    enter_thread();
}

static void handle_thread_end(ompt_data *data) {
    (void)data;
    leave_thread();
}

// Open a taskgroup (`created` NULL) or a team (`created`: the address of its directive) and return it; NULL without
// memory.
static scope *open_scope(scope *outer, const void *created) {
    scope *opened = me.scopes;
    if (opened != NULL) me.scopes = opened->outer;
    else opened = malloc(sizeof *opened);
    if (opened != NULL) *opened = (scope){outer, created, me.top->id, created != NULL ? mix_hash(++me.top->line) : 0};
    return opened;
}

static void close_scope(scope *closed) {
    closed->outer = me.scopes;
    me.scopes = closed;
}

// OMPT callback: a parallel region begins. Create its team.
static void handle_parallel_begin(ompt_data *from, const void *frame, ompt_data *data, unsigned size, int flags,
                                  const void *pc) {
    (void)frame, (void)size, (void)flags;
    enter_thread();
    data->ptr = open_scope(find_record(from)->scope, pc);
}

// OMPT callback: a parallel region ends. Free its team, and signal the debugger if the enclosing task is traced.
static void handle_parallel_end(ompt_data *data, ompt_data *from, int flags, const void *pc) {
    (void)flags, (void)pc;
    if (data != NULL && data->ptr != NULL) close_scope(data->ptr);
    if (find_record(from)->traced & JOINS) weft_tasks_signal(ON_JOINED, find_record(from), NULL);
}

// OMPT callback: an implicit or initial task begins or ends.
static void handle_implicit_task(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index,
                                 int flags) {
    (void)size;
    enter_thread();
    if (endpoint == OMPT_BEGIN) {
        scope *team = !(flags & OMPT_TASK_INITIAL) && parallel != NULL ? parallel->ptr : NULL;
        task *record = make_record(me.top, team != NULL ? team->created : NULL);
        data->ptr = record;
        if (record == &nobody) return;
        if (team != NULL) {
            record->scope = team, record->parent = team->opener;
            set_pedigree(record, mix_hash(team->pedigree + index));
        }
        record->below = me.top;
        record->traced = weft_tasks.watch;
        me.top = record;
        if (nesting_depth++ < NESTED) implicits[nesting_depth - 1] = (struct implicit){.of = record};
        return;
    }
    task *record = find_record(data);
    if (record == &nobody) return;
    if (nesting_depth > 0) nesting_depth--;
    me.top = record->below;
    data->ptr = &nobody;
    if ((record->traced & RUNS) && !(flags & OMPT_TASK_INITIAL)) weft_tasks_signal(ON_DONE, record, record->below);
    record->wait = record->traced = 0;
    release_record(record);
}

// OMPT callback for waits, installed at the first taskgroup: note that the running task waits at the end of a
// taskgroup.
static void handle_sync_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    (void)parallel, (void)data;
    if (kind != OMPT_SYNC_TASKGROUP) return;
    task *record = me.top;
    record->wait = endpoint == OMPT_BEGIN ? kind : 0;
    record->waiting = pc;
    record->what = (uint64_t)(uintptr_t)record->scope;
}

// Open or close a taskgroup. The callback for its wait is installed only now, so that other programs do not pay for it.
static COLD void handle_taskgroup(task *record, int endpoint) {
    static int waits;
    if (!__atomic_exchange_n(&waits, 1, __ATOMIC_RELAXED))
        set_callback(OMPT_SYNC_REGION_WAIT, (ompt_function)handle_sync_wait);
    if (record == &nobody) return;
    if (endpoint == OMPT_BEGIN) {
        scope *group = open_scope(record->scope, NULL);
        if (group != NULL) record->scope = group;
        return;
    }
    scope *group = record->scope;
    record->wait = 0;
    if (group != NULL && group->created == NULL) record->scope = group->outer, close_scope(group);
    if (record->traced & JOINS) weft_tasks_signal(ON_JOINED, record, NULL);
}

// OMPT callback for barriers, taskwaits and taskgroups: note what the running task waits for, and that it goes on.
static void handle_sync_region(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    (void)parallel, (void)data;
    task *record = me.top;
    if (RARELY(kind == OMPT_SYNC_TASKGROUP)) return handle_taskgroup(record, endpoint);
    if (endpoint == OMPT_BEGIN) {
        record->waiting = pc;
        record->wait = kind;
        if (RARELY(kind != OMPT_SYNC_TASKWAIT)) end_single(); // gcc tells of a single's begin only
        return;
    }
    record->wait = 0;
    if (RARELY(record->traced & JOINS)) weft_tasks_signal(ON_JOINED, record, NULL);
}

// Return a lock's entry in the table, added if new; NULL if the table is full. Lock-free, for any thread.
static lock *find_or_add_lock(uint64_t id) {
    uint64_t index = (id >> 3) * 0x9E3779B97F4A7C15u >> 52;
    for (int i = 0; i < LOCKS; i++, index = (index + 1) % LOCKS) {
        lock *entry = &weft_tasks.locks[index];
        uint64_t known_id = __atomic_load_n(&entry->lock, __ATOMIC_ACQUIRE);
        if (known_id == 0 &&
            __atomic_compare_exchange_n(&entry->lock, &known_id, id, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return entry;
        if (known_id == id) return entry;
    }
    return NULL;
}

// OMPT callback: the running task waits for a lock.
static void handle_mutex_acquire(int kind, unsigned hint, unsigned how, uint64_t id, const void *pc) {
    (void)kind, (void)hint, (void)how;
    task *record = me.top;
    record->what = id;
    record->waiting = pc;
    record->wait = WAIT_LOCK;
}

// OMPT callback: the running task has taken a lock.
static void handle_mutex_acquired(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    task *record = me.top;
    record->wait = 0;
    lock *entry = find_or_add_lock(id);
    if (entry != NULL) entry->owner = record->id;
}

// OMPT callback: a lock was released.
static void handle_mutex_released(int kind, uint64_t id, const void *pc) {
    (void)kind, (void)pc;
    lock *entry = find_or_add_lock(id);
    if (entry != NULL) entry->owner = 0;
}

// OMPT callback: a task depends on another one. Remember the last one.
static void handle_task_dependence(ompt_data *earlier, ompt_data *later) {
    task *first_task = find_record(earlier), *then_task = find_record(later);
    if (first_task != &nobody && then_task != &nobody) then_task->needs = first_task->id;
}

// In a rank of `weft run --tasks`: what can change a worker's top is called through what looks at it afterwards.

enum { EVENTS = 32 };
static ompt_function recorded_callbacks[EVENTS];
static ompt_set really_set;

// Return what a task is (enum weft_task_kind), by its parent and its team.
static int find_task_kind(const task *record) {
    if (record->parent == 0) return WEFT_TASK_INITIAL;
    return record->scope != NULL && record->scope->created != NULL && record->scope->created == record->created
               ? WEFT_TASK_IMPLICIT
               : WEFT_TASK_EXPLICIT;
}

// Return whether the task on top of the worker is certainly the one that runs. The end of an untied task may be
// reported late by another thread; it is sure if the task beneath it is in a wait, since that reports when it goes on.
static int is_known_for_sure(const task *record) {
    return record != &nobody && (!(record->traced & UNTIED) || record->below->wait != 0);
}

// Record that this thread's MPI calls belong to its current task from now on, if the task has changed.
static void record_switch(void) {
    static __thread __attribute__((tls_model("initial-exec"))) uint64_t last;
    const task *top = me.top;
    uint64_t id = is_known_for_sure(top) ? top->id : 0;
    if (id == last) return;
    last = id;
    if (id == 0) return weft_switch(&(struct weft_switch){0});
    struct weft_switch to;
    to.calls = 0;
    to.task = id;
    to.parent = top->parent;
    to.site = weft_switches_site(top->created);
    to.name = 0;
    to.kind = (uint32_t)find_task_kind(top);
    to.until = 0;
    weft_switch(&to);
}

// OMPT callback while `weft run --tasks` records: call the usual one, then record the current task.
static void record_task_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences,
                               const void *pc) {
    ((__typeof__(&record_task_create))recorded_callbacks[OMPT_TASK_CREATE])(from, frame, data, flags, dependences, pc);
    record_switch();
}

// OMPT callback while `weft run --tasks` records: call the usual one, then record the current task.
static void record_task_schedule(ompt_data *from, int status, ompt_data *to) {
    ((__typeof__(&record_task_schedule))recorded_callbacks[OMPT_TASK_SCHEDULE])(from, status, to);
    record_switch();
}

// OMPT callback while `weft run --tasks` records: call the usual one, then record the current task.
static void record_implicit_task(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index,
                                 int flags) {
    ((__typeof__(&record_implicit_task))recorded_callbacks[OMPT_IMPLICIT_TASK])(endpoint, parallel, data, size, index,
                                                                                flags);
    record_switch();
}

// OMPT callback while `weft run --tasks` records: call the usual one, then record the current task.
static void record_sync_region(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    ((__typeof__(&record_sync_region))recorded_callbacks[OMPT_SYNC_REGION])(kind, endpoint, parallel, data, pc);
    record_switch();
}

// Replace ompt_set_callback() while `weft run --tasks` records: callbacks that may change the current task are wrapped
// by recording ones.
static int set_recording_callback(int event, ompt_function callback) {
    recorded_callbacks[event] = callback;
    if (event == OMPT_TASK_SCHEDULE) callback = (ompt_function)record_task_schedule;
    if (event == OMPT_IMPLICIT_TASK) callback = (ompt_function)record_implicit_task;
    if (callback == (ompt_function)handle_create_carefully)
        callback = (ompt_function)record_task_create; // the others only add a task
    if (callback == (ompt_function)handle_sync_carefully)
        callback = (ompt_function)record_sync_region; // and leave the top as it is
    return really_set(event, callback);
}

// Create the record of a task that turns.c will start later, as a child of the running one, and return it.
task *weft_tasks_create(const void *created) {
    ompt_data data = {0};
    create_rare_task(NULL, NULL, &data, OMPT_TASK_EXPLICIT, 0, created);
    return data.ptr;
}

task *weft_tasks_top(void) { return me.top; }

// Return the number of the task that holds a lock; 0 if none does.
uint64_t weft_tasks_find_owner(uint64_t lock_id) {
    const lock *entry = find_or_add_lock(lock_id);
    return entry != NULL ? entry->owner : 0;
}

// Register all OMPT callbacks when the runtime starts the tool. Return 1 to stay active.
static int initialize_tool(ompt_lookup lookup, int device, ompt_data *tool) {
    (void)device, (void)tool;
    set_callback = (ompt_set)lookup("ompt_set_callback");
    if ((is_recording = weft_switches_begin("openmp"))) {
        really_set = set_callback;
        set_callback = set_recording_callback;
    } else {
        set_callback = weft_turns_begin(set_callback);
    }
    set_callback(OMPT_THREAD_BEGIN, (ompt_function)handle_thread_begin);
    set_callback(OMPT_THREAD_END, (ompt_function)handle_thread_end);
    set_callback(OMPT_PARALLEL_BEGIN, (ompt_function)handle_parallel_begin);
    set_callback(OMPT_PARALLEL_END, (ompt_function)handle_parallel_end);
    set_callback(OMPT_TASK_CREATE, (ompt_function)handle_task_create);
    set_callback(OMPT_TASK_SCHEDULE, (ompt_function)handle_task_schedule);
    set_callback(OMPT_IMPLICIT_TASK, (ompt_function)handle_implicit_task);
    set_callback(OMPT_SYNC_REGION, (ompt_function)handle_sync_region);
    set_callback(OMPT_WORK, (ompt_function)handle_work);
    set_callback(OMPT_MUTEX_ACQUIRE, (ompt_function)handle_mutex_acquire);
    set_callback(OMPT_MUTEX_ACQUIRED, (ompt_function)handle_mutex_acquired);
    set_callback(OMPT_MUTEX_RELEASED, (ompt_function)handle_mutex_released);
    set_callback(OMPT_TASK_DEPENDENCE, (ompt_function)handle_task_dependence);
    return 1;
}

static void finalize_tool(ompt_data *tool) { (void)tool; }

// Entry point by which the OpenMP runtime finds this tool.
__attribute__((visibility("default"))) ompt_tool *ompt_start_tool(unsigned version, const char *runtime) {
    (void)version, (void)runtime;
    static ompt_tool result = {initialize_tool, finalize_tool, {0}};
    return &result;
}
