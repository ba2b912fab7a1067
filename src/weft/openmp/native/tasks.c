/* Explicit tasks: each runs where it is made, as a strand that nothing has waited for yet. */
#include "growing.h"
#include "openmp.h"

#include <string.h>

enum {
    UNTIED = 1,
    FINAL = 2,
    MERGEABLE = 4,
    DEPEND = 8,
    PRIORITY = 16,
    UP = 1 << 8,
    GRAINSIZE = 1 << 9,
    IF = 1 << 10,
    NOGROUP = 1 << 11,
    REDUCTION = 1 << 12,
    DETACH = 1 << 13,
    STRICT = 1 << 14
};

static void append_strand(strand_t **list, size_t *count, size_t *room, strand_t strand) {
    GROW(*list, *count, *room, 16);
    (*list)[(*count)++] = strand;
}

/* Note of all tasks of a list that they were waited for, and empty the list. */
void join_tasks(strand_t **list, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i] >= now.base) node((*list)[i])->joined = true;
    *count = 0;
}

void begin_task(struct task *task, struct taskgroup *group) { task->group = group; }

/* Say whether the running code is that of an explicit task, and return what it was before, to be restored. */
bool set_task_explicit(bool is_explicit) {
    bool old = me->task->is_explicit;
    me->task->is_explicit = is_explicit;
    return old;
}

/* Run a task's function where nothing is checked. */
static void run_unchecked_task(void (*fn)(void *), void *data) {
    bool was_explicit = set_task_explicit(true);
    fn(data);
    set_task_explicit(was_explicit);
}

/* Free the lists of a task that is over: its children and its dependences. */
void free_task_lists(struct task *task) {
    free(task->children);
    for (size_t i = 0; i < sizeof task->depends / sizeof *task->depends; i++)
        for (struct depend *d = task->depends[i]; d;) {
            struct depend *next = d->next;
            free(d->ins), free(d->in_lasts), free(d->before), free(d);
            d = next;
        }
}

/* --- dependences ------------------------------------------------------------------------------------------------- */

enum sort { IN = 1, OUT = 2, INOUT = 3, MUTEX = 4, DEPOBJ = 5, INOUTSET = 6 };

/* What stands for `omp_all_memory` in the sources' copies: in Fortran it is a common block. */
char weft_omp_all_memory_;
#define ALL ((uintptr_t)&weft_omp_all_memory_)

static struct depend **find_depend_slot(struct task *task, uintptr_t address) {
    return &task->depends[(address >> 2) % 64];
}

/* Return the dependences of a task's children on an address; NULL if there are none. */
static struct depend *find_depend(struct task *task, uintptr_t address) {
    struct depend *depend = *find_depend_slot(task, address);
    while (depend && depend->address != address) depend = depend->next;
    return depend;
}

/* Return the entry for the dependences of a task's children on an address, made if there is none: its first ones come
 * after the last `omp_all_memory`. */
static struct depend *find_or_create_depend(struct task *task, uintptr_t address) {
    struct depend *depend = find_depend(task, address), **slot = find_depend_slot(task, address);
    if (depend) return depend;
    depend = calloc(1, sizeof *depend);
    if (!depend) abort();
    depend->address = address;
    depend->next = *slot;
    const struct depend *all_memory = find_depend(task, ALL);
    if (all_memory && all_memory->count) {
        append_strand(&depend->ins, &depend->count, &depend->room, all_memory->ins[all_memory->count - 1]);
        depend->sort = OUT;
    }
    return *slot = depend;
}

/* Note that a strand comes after a task (0: none) and after the event of its clause `detach`. */
static void order_after_task(strand_t strand, strand_t earlier) {
    if (!earlier) return;
    order_strand_after(strand, earlier, UINT32_MAX);
    order_after_detached_task(strand, earlier);
}

/* Order a new task's strand after the earlier tasks that its clause `depend` with this address and sort names, and add
 * it to the entry of the address. An entry has the last set of tasks of one sort, and what the whole set comes
 * after. */
static void add_dependence(struct task *task, strand_t strand, uintptr_t address, enum sort sort) {
    for (size_t i = 0; address == ALL && i < sizeof task->depends / sizeof *task->depends; i++)
        for (const struct depend *depend = task->depends[i]; depend; depend = depend->next)
            if (depend->address != ALL) add_dependence(task, strand, depend->address, OUT);
    struct depend *depend = find_or_create_depend(task, address);
    bool joins_set = sort == depend->sort && (sort == IN || sort == MUTEX || sort == INOUTSET);
    if (!joins_set) {
        free(depend->before);
        depend->before = depend->ins;
        depend->before_count = depend->count;
        depend->ins = NULL;
        depend->count = depend->room = 0;
        depend->sort = sort;
    }
    for (size_t i = 0; i < depend->before_count; i++) order_after_task(strand, depend->before[i]);
    append_strand(&depend->ins, &depend->count, &depend->room, strand);
}

/* Call `use(context, address, sort)` for each item of a `depend` clause as GCC lays it out: count, count of out,
 * addresses; or (first word 0) count, counts of out, mutexinoutset and in, then addresses and depend objects. */
static void for_each_depend(void **clause, void (*use)(void *, uintptr_t, enum sort), void *context) {
    uintptr_t count = (uintptr_t)clause[0];
    if (count) {
        uintptr_t out = (uintptr_t)clause[1];
        for (uintptr_t i = 0; i < count; i++) use(context, (uintptr_t)clause[2 + i], i < out ? OUT : IN);
        return;
    }
    count = (uintptr_t)clause[1];
    uintptr_t out = (uintptr_t)clause[2], mutex = (uintptr_t)clause[3], in = (uintptr_t)clause[4];
    for (uintptr_t i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)clause[5 + i];
        enum sort sort = i < out ? OUT : i < out + mutex ? MUTEX : i < out + mutex + in ? IN : DEPOBJ;
        if (sort == DEPOBJ) {
            void **object = (void **)address;
            uintptr_t kind = (uintptr_t)object[1];
            use(context, (uintptr_t)object[0], kind == OUT || kind == INOUT ? OUT : (enum sort)kind);
        } else {
            use(context, address, sort);
        }
    }
}

/* For `for_each_depend`, before a task is made: let the tasks that it comes after fulfil the events that they wait
 * for. */
static void wait_for_detached_dependence(void *context, uintptr_t address, enum sort sort) {
    (void)sort;
    const struct depend *depend = find_depend(((struct task *)context), address);
    for (size_t i = 0; depend && i < depend->count; i++) wait_for_detached_task(depend->ins[i]);
}

struct making {
    struct task *task;
    strand_t strand;
    const void *locks[16];
    int lock_count;
};

/* For `for_each_depend`: order the task of `context`, a `struct making`, after the tasks that one item names; note the
 * lock of a mutexinoutset. */
static void add_made_task_dependence(void *context, uintptr_t address, enum sort sort) {
    struct making *making = context;
    add_dependence(making->task, making->strand, address, sort);
    if (sort == MUTEX && making->lock_count < 16)
        making->locks[making->lock_count++] = find_or_create_depend(making->task, address);
}

/* For `for_each_depend` of a `taskwait depend`: order what follows in the running task after the tasks that one item
 * names. */
static void order_wait_after_dependence(void *context, uintptr_t address, enum sort sort) {
    struct making *making = context;
    for (size_t i = 0; address == ALL && i < sizeof making->task->depends / sizeof *making->task->depends; i++)
        for (const struct depend *depend = making->task->depends[i]; depend; depend = depend->next)
            if (depend->address != ALL) order_wait_after_dependence(context, depend->address, OUT);
    struct depend *depend = find_or_create_depend(making->task, address);
    bool joins_set = sort == depend->sort && sort == IN;
    const strand_t *awaited_tasks = joins_set ? depend->before : depend->ins;
    size_t count = joins_set ? depend->before_count : depend->count;
    for (size_t i = 0; i < count; i++) order_after_task(making->strand, awaited_tasks[i]);
}

/* --- making and running ------------------------------------------------------------------------------------------ */

static bool is_unchecked(void) { return !now.on; }

/* Where one thread runs, nothing is checked but what a device does beside it: from its first task of a construct with
 * nowait on, until none is left that was not waited for. */
static struct task *beside;

bool is_device_task_pending(void) { return beside != NULL; }
void forget_device_tasks(void) { beside = NULL; }

/* Return whether the running thread, alone, waits for its own tasks at once: only those of a device are beside it. */
static bool runs_tasks_at_once(void) { return beside && is_team_of_one(); }

/* Stop checking where one thread runs, once all tasks beside it (of a device) were waited for. */
static void end_device_task_check(void) {
    struct task *task = me->task;
    if (!beside || task != beside) return;
    for (size_t i = 0; i < task->count; i++)
        if (task->children[i] >= now.base && !node(task->children[i])->joined) return;
    task->count = 0;
    beside = NULL;
    set_checking(false);
    if (!me->team) retire_all_strands();
}

/* Return the arguments of a task, copied into new memory with this size and alignment (`copy`: by the compiler's
 * function); `*block` is to be freed. Aborts without memory. */
static void *copy_arguments(void *data, void (*copy)(void *, void *), long size, long align, void **block) {
    *block = malloc((size_t)(size + align + 16));
    if (!*block) abort();
    char *arguments = (char *)(((uintptr_t)*block + (uintptr_t)align - 1) & ~(uintptr_t)(align - 1));
    clear_shadow((uintptr_t)*block, (uintptr_t)*block + (size_t)(size + align + 16));
    if (copy) copy(arguments, data);
    else memcpy(arguments, data, (size_t)size);
    return arguments;
}

/* Run a task's function as its strand, within the locks that `making` names, and restore the running thread's state. An
 * included task is one that its maker waits for at once. */
static void run_task(void (*fn)(void *), void *data, strand_t strand, bool is_included, bool is_final,
                     const struct making *making) {
    struct thread before = *me;
    struct task task = {.outer = me->task, .final = is_final, .is_explicit = node(strand)->loop == BY_TASK};
    begin_task(&task, me->task ? me->task->group : NULL);
    me->task = &task;
    me->lowest = UINTPTR_MAX;
    me->held = 0;
    me->work = NULL;
    me->private_count = 0;
    me->private_low = me->private_high = 0;
    me->plain = strand;
    refresh_locked_strand();
    for (int i = 0; making && i < making->lock_count; i++) take_lock(making->locks[i], node(strand)->place);
    uintptr_t frame = FRAME;
    fn(data);
    for (int i = 0; making && i < making->lock_count; i++) release_lock(making->locks[i]);
    free_task_lists(&task);
    uintptr_t lowest = me->lowest;
    if (lowest < frame) clear_shadow(lowest, frame);
    if (is_included) node(strand)->joined = true;
    me->task = before.task;
    me->held = before.held;
    me->work = before.work;
    memcpy(me->privates, before.privates, sizeof me->privates);
    me->private_count = before.private_count;
    me->private_low = before.private_low;
    me->private_high = before.private_high;
    me->lowest = lowest < before.lowest ? lowest : before.lowest;
    me->plain = before.plain;
    me->current = before.current;
    set_current_strand(me->current);
}

static int64_t task_number;

/* Return a new strand for a task of the running one. Unless it is included, it is a child that is waited for later. */
static strand_t create_task_strand(bool is_included, uint32_t place, enum maker maker) {
    strand_t strand = create_strand(find_strand_without_locks(me->plain), TASK, 0);
    node(strand)->index = ++task_number;
    node(strand)->place = place;
    node(strand)->loop = maker;
    struct task *task = me->task;
    if (is_included) return strand;
    append_strand(&task->children, &task->count, &task->room, strand);
    if (task->group) append_strand(&task->group->tasks, &task->group->count, &task->group->room, strand);
    return strand;
}

/* GCC's call for `#pragma omp task`: run `fn` with a copy of `data` at once, as a strand that nothing has waited for
 * yet. */
void GOMP_task(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align, bool if_clause,
               unsigned flags, void **depend, int priority, void *detach) {
    (void)priority;
    uintptr_t event = flags & DETACH && detach ? create_event() : 0;
    if (event) *(uintptr_t *)detach = event;
    if (event && data) *(uintptr_t *)data = event;
    if (me->task->group && me->task->group->cancelled) return;
    void *block = NULL;
    bool is_included = !if_clause || me->task->final || is_unchecked() || runs_tasks_at_once();
    void *arguments_at =
        copy || !is_included || flags & DETACH ? copy_arguments(data, copy, size, align, &block) : data;
    uint32_t place = place_of(BEGINNING(fn));
    if (flags & DEPEND && !me->on_device) finish_pending_targets();
    count_construct_run(place, "task", 1);
    if (is_unchecked()) {
        run_unchecked_task(fn, arguments_at);
        free(block);
        return;
    }
    if (flags & DEPEND && depend) for_each_depend(depend, wait_for_detached_dependence, me->task);
    struct making making = {.task = me->task, .strand = create_task_strand(is_included, place, BY_TASK)};
    if (event) set_event_task(event, making.strand);
    if (flags & DEPEND && depend) for_each_depend(depend, add_made_task_dependence, &making);
    run_task(fn, arguments_at, making.strand, is_included, me->task->final || flags & FINAL, &making);
    /* Who made a task that is run at once has waited for what that one comes after. */
    if (is_included && flags & DEPEND && depend) order_strand_after(begin_segment(), making.strand, now.next - 1);
    free(block);
}

/* Run a construct of the device that is a task (`nowait`, `depend`) at once, as a strand of its own. Where one thread
 * runs, the first one with `nowait` switches the check on. */
void run_target_task(void (*fn)(void *), void *data, uint32_t place, enum maker maker, bool is_nowait, void **depend) {
    if (is_unchecked() && !is_nowait) {
        fn(data);
        return;
    }
    if (is_unchecked()) {
        beside = me->task;
        set_checking(true);
    }
    if (depend) for_each_depend(depend, wait_for_detached_dependence, me->task);
    struct making making = {.task = me->task, .strand = create_task_strand(!is_nowait, place, maker)};
    if (depend) for_each_depend(depend, add_made_task_dependence, &making);
    run_task(fn, data, making.strand, !is_nowait, false, &making);
    if (!is_nowait && depend) order_strand_after(begin_segment(), making.strand, now.next - 1);
}

/* GCC's call for `#pragma omp taskwait`: all children of the running task come before what follows. */
void GOMP_taskwait(void) {
    if (!me->on_device) finish_pending_targets();
    if (is_unchecked()) return;
    join_tasks(&me->task->children, &me->task->count);
    join_detached_tasks();
    end_device_task_check();
}

/* Join all children of the running task, at a barrier of a single thread. */
void join_tasks_of_single_thread(void) {
    if (is_unchecked()) return;
    join_tasks(&me->task->children, &me->task->count);
    end_device_task_check();
}

/* GCC's call for `taskwait depend(…)`: what follows comes after the tasks that the clause names. */
void GOMP_taskwait_depend(void **depend) {
    if (!me->on_device) finish_pending_targets();
    if (is_unchecked()) return;
    for_each_depend(depend, wait_for_detached_dependence, me->task);
    struct making making = {.task = me->task, .strand = begin_segment()};
    for_each_depend(depend, order_wait_after_dependence, &making);
}

/* GCC's call for `taskwait depend(…) nowait`: a task that does nothing, so that later ones that depend on it come after
 * what it comes after. */
void GOMP_taskwait_depend_nowait(void **depend) {
    if (is_unchecked()) return;
    for_each_depend(depend, wait_for_detached_dependence, me->task);
    struct making making = {.task = me->task, .strand = create_task_strand(false, place_of(PLACE), BY_TASK)};
    for_each_depend(depend, add_made_task_dependence, &making);
}
void GOMP_taskyield(void) {
    if (now.on) yield_to_other_threads();
}

/* --- groups ------------------------------------------------------------------------------------------------------ */

/* GCC's call for the start of a `taskgroup`, within the current one. */
void GOMP_taskgroup_start(void) {
    struct taskgroup *group = calloc(1, sizeof *group);
    if (!group) abort();
    group->outer = me->task->group;
    group->reductions = group->outer ? group->outer->reductions : NULL;
    me->task->group = group;
}

/* GCC's call for the end of a `taskgroup`: all tasks made in it come before what follows. */
void GOMP_taskgroup_end(void) {
    if (!me->on_device) finish_pending_targets();
    struct taskgroup *group = me->task->group;
    if (!group) return;
    join_tasks(&group->tasks, &group->count);
    join_detached_tasks();
    me->task->group = group->outer;
    free(group->tasks);
    free(group);
    end_device_task_check();
}

/* --- taskloop: a task for each iteration ------------------------------------------------------------------------- */

struct range {
    uintptr_t start, end;
    uintptr_t *reductions;
};

void GOMP_taskgroup_reduction_register(uintptr_t *data);

/* Run a `run_taskloop` as one task for each of its iterations, which `fn` finds as (start, end) in the first words of its
 * data. */
static void run_taskloop(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                         unsigned flags, uint64_t start, uint64_t step, uint64_t count) {
    uint32_t place = place_of(BEGINNING(fn));
    if (!(flags & NOGROUP)) {
        GOMP_taskgroup_start();
        if (flags & REDUCTION) GOMP_taskgroup_reduction_register(((struct range *)data)->reductions);
    }
    count_construct_run(place, "loop", count);
    for (uint64_t k = 0; k < count; k++) {
        if (me->task->group && me->task->group->cancelled) break;
        void *block;
        uint64_t *bounds = copy_arguments(data, copy, size, align, &block);
        bounds[0] = start + k * step;
        bounds[1] = start + (k + 1) * step;
        if (is_unchecked()) {
            run_unchecked_task(fn, bounds);
        } else {
            bool included = !(flags & IF) || me->task->final || runs_tasks_at_once();
            strand_t strand = create_task_strand(included, place, BY_TASK);
            node(strand)->index = (int64_t)k;
            run_task(fn, bounds, strand, included, me->task->final || flags & FINAL, NULL);
        }
        free(block);
    }
    if (!(flags & NOGROUP)) GOMP_taskgroup_end();
}

/* GCC's call for `run_taskloop` with a signed variable. */
void GOMP_taskloop(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align, unsigned flags,
                   unsigned long tasks, int priority, long start, long end, long step) {
    (void)tasks, (void)priority;
    uint64_t count = step > 0 ? (end > start ? (uint64_t)(end - start + step - 1) / (uint64_t)step : 0)
                              : (end < start ? (uint64_t)(start - end - step - 1) / (uint64_t)-step : 0);
    run_taskloop(fn, data, copy, size, align, flags, (uint64_t)start, (uint64_t)step, count);
}

/* GCC's call for `run_taskloop` with an unsigned variable; the flag UP says that it counts up. */
void GOMP_taskloop_ull(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                       unsigned flags, unsigned long tasks, int priority, uint64_t start, uint64_t end, uint64_t step) {
    (void)tasks, (void)priority;
    uint64_t count = flags & UP ? (end > start ? (end - start + step - 1) / step : 0)
                                : (end < start ? (start - end - step - 1) / -step : 0);
    run_taskloop(fn, data, copy, size, align, flags, start, step, count);
}

/* --- reductions of tasks: a copy for each thread ----------------------------------------------------------------- */

/* Allocate the copies of task reductions, one part for each thread, and append the outer registrations. A registration
 * of GCC's: 0 how many, 1 bytes of a thread's part, 2 alignment, then the memory, 4 the next, 6 its end, from 7 on
 * three words for each variable: its address, its offset in the part, the runtime's. */
static void allocate_reductions(uintptr_t *data, uintptr_t *outer, int threads) {
    for (uintptr_t *registration = data;; registration = (uintptr_t *)registration[4]) {
        size_t size = registration[1] * (size_t)threads,
               align = registration[2] < sizeof(void *) ? sizeof(void *) : registration[2];
        void *memory = NULL;
        if (posix_memalign(&memory, align, size ? size : 1)) abort();
        memset(memory, 0, size);
        ignore_memory((uintptr_t)memory, (uintptr_t)memory + size);
        registration[2] = (uintptr_t)memory;
        registration[6] = registration[2] + size;
        if (!registration[4]) {
            registration[4] = (uintptr_t)outer;
            return;
        }
    }
}

static int get_thread_count(void) { return me->team ? me->team->size : 1; }

/* GCC's call for the clause `task_reduction` of a `taskgroup`. */
void GOMP_taskgroup_reduction_register(uintptr_t *data) {
    struct taskgroup *group = me->task->group;
    if (!group) return;
    allocate_reductions(data, group->reductions, get_thread_count());
    group->reductions = data;
}

/* GCC's call at the end of it: free the threads' parts. */
void GOMP_taskgroup_reduction_unregister(uintptr_t *data) {
    for (uintptr_t *registration = data; registration && registration[2]; registration = (uintptr_t *)registration[4]) {
        free((void *)registration[2]);
        if (registration == data) break;
    }
}

/* GCC's call at the start of a task with `in_reduction`: replace the address of each variable by that of the running
 * thread's copy, and give back the first `originals` addresses behind them. */
void GOMP_task_reduction_remap(size_t count, size_t originals, void **pointers) {
    uintptr_t *first = me->task->group ? me->task->group->reductions : NULL;
    if (!first && me->team) first = me->team->reductions;
    for (size_t i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)pointers[i];
        for (uintptr_t *registration = first; registration; registration = (uintptr_t *)registration[4]) {
            for (uintptr_t j = 0; j < registration[0]; j++) {
                uintptr_t *variable = registration + 7 + 3 * j;
                bool inside = address >= registration[2] && address < registration[6] &&
                              (address - registration[2]) % registration[1] == variable[1];
                if (variable[0] != address && !inside) continue;
                pointers[i] = (void *)(registration[2] + (uintptr_t)me->number * registration[1] + variable[1]);
                if (i < originals) pointers[count + i] = (void *)variable[0];
                address = 0;
                break;
            }
            if (!address) break;
        }
    }
}

/* GCC's call for a parallel or worksharing construct in whose reductions tasks take part. Returns the count of
 * threads. */
unsigned GOMP_parallel_reductions(void (*fn)(void *), void *data, unsigned requested, unsigned flags) {
    (void)flags;
    uintptr_t *list = *(uintptr_t **)data;
    unsigned size = requested ? requested : (unsigned)weft_omp_default;
    allocate_reductions(list, NULL, (int)size);
    weft_omp_region_reductions = list;
    run_parallel_region(fn, data, size, BEGINNING(fn), FRAME, false);
    return size;
}

void GOMP_workshare_task_reduction_unregister(bool cancelled) {
    GOMP_taskgroup_end();
    if (!cancelled) wait_at_barrier(PLACE);
}

void GOMP_scope_start(uintptr_t *reductions) { (void)reductions; }

/* --- cancellation ------------------------------------------------------------------------------------------------ */

enum { PARALLEL = 1, LOOP = 2, SECTIONS = 4, TASKGROUP = 8 };

static bool is_cancellation_allowed(void) {
    const char *asked = getenv("OMP_CANCELLATION");
    return asked && (asked[0] == 't' || asked[0] == 'T');
}

/* GCC's call for `cancellation point`: return whether the construct of this kind was cancelled. */
bool GOMP_cancellation_point(int which) {
    if (!is_cancellation_allowed()) return false;
    if (which & (LOOP | SECTIONS)) return me->work && me->work->cancelled;
    if (which & TASKGROUP) return me->task->group && me->task->group->cancelled;
    return me->team && me->team->cancelled;
}

/* GCC's call for `cancel`: cancel the construct of this kind unless the clause `if` is false, and return whether it is
 * cancelled. */
bool GOMP_cancel(int which, bool is_active) {
    if (!is_cancellation_allowed()) return false;
    if (!is_active) return GOMP_cancellation_point(which);
    if (which & (LOOP | SECTIONS)) {
        if (me->work) me->work->cancelled = 1;
    } else if (which & TASKGROUP) {
        if (me->task->group) me->task->group->cancelled = true;
    } else if (me->team) {
        me->team->cancelled = true;
    }
    return true;
}
