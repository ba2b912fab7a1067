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

/* Mark all tasks of a list as waited for, and empty the list. */
void join_tasks(strand_t **list, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i] >= now.base) mark_as_joined((*list)[i]);
    *count = 0;
}

void begin_task(struct task *task, struct taskgroup *group) { task->group = group; }

/* Set whether the running code belongs to an explicit task, and return the old value, for the caller to restore. */
bool set_task_explicit(bool is_explicit) {
    bool old = me->task->is_explicit;
    me->task->is_explicit = is_explicit;
    return old;
}

/* Run a task's function while nothing is checked. */
static void run_unchecked_task(void (*fn)(void *), void *data) {
    bool was_explicit = set_task_explicit(true);
    fn(data);
    set_task_explicit(was_explicit);
}

/* Free the lists of a finished task: its children and their dependences. */
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

/* Return the dependence entry of an address among a task's children; NULL if there is none. */
static struct depend *find_depend(struct task *task, uintptr_t address) {
    struct depend *depend = *find_depend_slot(task, address);
    while (depend && depend->address != address) depend = depend->next;
    return depend;
}

/* Return the dependence entry of an address among a task's children, created if needed; a new one begins after the last
 * `omp_all_memory` dependence. Aborts without memory. */
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

/* Order a strand after a task (0: none), and after the detach event of that task. */
static void order_after_task(strand_t strand, strand_t earlier) {
    if (!earlier) return;
    order_strand_after(strand, earlier, UINT32_MAX);
    order_after_detached_task(strand, earlier);
}

/* Process one `depend` item of a new task: order the task's strand after the earlier tasks that it depends on, and
 * record it for later ones. Consecutive tasks of one kind (in, mutexinoutset, inoutset) form a set that is ordered as a
 * whole. */
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

/* Call `use(context, address, sort)` for each item of a `depend` clause in GCC's layout: count, count of out,
 * addresses; or, if the first word is 0, count, counts of out, mutexinoutset and in, then addresses and depend
 * objects. */
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

/* Callback of for_each_depend(): before a task is created, let other threads fulfil the detach events of the tasks that
 * it depends on. */
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

/* Callback of for_each_depend() for a new task (`context`: a struct making): order it after the tasks that it depends
 * on, and note the lock that stands for a mutexinoutset. */
static void add_made_task_dependence(void *context, uintptr_t address, enum sort sort) {
    struct making *making = context;
    add_dependence(making->task, making->strand, address, sort);
    if (sort == MUTEX && making->lock_count < 16)
        making->locks[making->lock_count++] = find_or_create_depend(making->task, address);
}

/* Callback of for_each_depend() for a `taskwait depend` (`context`: a struct making): order what follows after the
 * tasks that it names. */
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
static struct task *device_task_maker;

bool is_device_task_pending(void) { return device_task_maker != NULL; }
void forget_device_tasks(void) { device_task_maker = NULL; }

/* Return whether the running thread, alone, waits for its own tasks at once: only those of a device are beside it. */
static bool runs_tasks_at_once(void) { return device_task_maker && is_team_of_one(); }

/* Switch the check off again in single-threaded code, once all asynchronous device tasks were waited for. */
static void end_device_task_check(void) {
    struct task *task = me->task;
    if (!device_task_maker || task != device_task_maker) return;
    for (size_t i = 0; i < task->count; i++)
        if (task->children[i] >= now.base && !node(task->children[i])->joined) return;
    task->count = 0;
    device_task_maker = NULL;
    set_checking(false);
    if (!me->team) retire_all_strands();
}

/* Copy a task's arguments into a new aligned block, by the compiler's `copy` function if there is one, and return them.
 * The caller frees `*block`. Aborts without memory. */
static void *copy_arguments(void *data, void (*copy)(void *, void *), long size, long align, void **block) {
    *block = malloc((size_t)(size + align + 16));
    if (!*block) abort();
    char *arguments = (char *)(((uintptr_t)*block + (uintptr_t)align - 1) & ~(uintptr_t)(align - 1));
    clear_shadow((uintptr_t)*block, (uintptr_t)*block + (size_t)(size + align + 16));
    if (copy) copy(arguments, data);
    else memcpy(arguments, data, (size_t)size);
    return arguments;
}

/* Run a task's function as a strand of its own, holding the locks in `making` (NULL: none), then restore the thread's
 * state. `is_included`: the creating task waits for it at once. */
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
    if (is_included) mark_as_joined(strand);
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

/* Create the strand of a new task and return it. Unless the task is included (waited for at once), it joins the lists
 * of children and of the taskgroup. */
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

/* Called by GCC's code for `#pragma omp task`: run `fn` at once with a copy of `data`, as a strand that nothing has
 * waited for yet. */
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
    if (flags & MERGEABLE && (!if_clause || me->task->final)) count_construct_run(place, "mergeable", 0);
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

/* Run a target construct with `nowait` or `depend` at once, as a task with a strand of its own. In single-threaded
 * code, the first `nowait` task switches the check on. */
void run_target_task(void (*fn)(void *), void *data, uint32_t place, enum maker maker, bool is_nowait, void **depend) {
    if (is_unchecked() && !is_nowait) {
        fn(data);
        return;
    }
    if (is_unchecked()) {
        device_task_maker = me->task;
        set_checking(true);
    }
    if (depend) for_each_depend(depend, wait_for_detached_dependence, me->task);
    struct making making = {.task = me->task, .strand = create_task_strand(!is_nowait, place, maker)};
    if (depend) for_each_depend(depend, add_made_task_dependence, &making);
    run_task(fn, data, making.strand, !is_nowait, false, &making);
    if (!is_nowait && depend) order_strand_after(begin_segment(), making.strand, now.next - 1);
}

/* Called by GCC's code for `#pragma omp taskwait`: all child tasks happen before what follows. */
void GOMP_taskwait(void) {
    if (!me->on_device) finish_pending_targets();
    if (is_unchecked()) return;
    join_tasks(&me->task->children, &me->task->count);
    join_detached_tasks();
    end_device_task_check();
}

/* At a barrier of a team of one: mark all child tasks of the running task as waited for. */
void join_tasks_of_single_thread(void) {
    if (is_unchecked()) return;
    join_tasks(&me->task->children, &me->task->count);
    end_device_task_check();
}

/* Called by GCC's code for `taskwait depend(…)`: the tasks that the clause names happen before what follows. */
void GOMP_taskwait_depend(void **depend) {
    if (!me->on_device) finish_pending_targets();
    if (is_unchecked()) return;
    for_each_depend(depend, wait_for_detached_dependence, me->task);
    struct making making = {.task = me->task, .strand = begin_segment()};
    for_each_depend(depend, order_wait_after_dependence, &making);
}

/* Called by GCC's code for `taskwait depend(…) nowait`: create an empty task that passes its dependences on to later
 * tasks. */
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

/* Called by GCC's code at the start of a `taskgroup`: collect the tasks created from here on, for GOMP_taskgroup_end()
 * to wait for. */
void GOMP_taskgroup_start(void) {
    struct taskgroup *group = calloc(1, sizeof *group);
    if (!group) abort();
    group->outer = me->task->group;
    group->reductions = group->outer ? group->outer->reductions : NULL;
    me->task->group = group;
}

/* Called by GCC's code at the end of a `taskgroup`: all tasks created in it happen before what follows. */
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

/* Run a `taskloop` as one task for each iteration; `fn` finds its range [start, end) in the first two words of its
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

/* Called by GCC's code for a `taskloop` with a signed variable. */
void GOMP_taskloop(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align, unsigned flags,
                   unsigned long tasks, int priority, long start, long end, long step) {
    (void)tasks, (void)priority;
    uint64_t count = step > 0 ? (end > start ? (uint64_t)(end - start + step - 1) / (uint64_t)step : 0)
                              : (end < start ? (uint64_t)(start - end - step - 1) / (uint64_t)-step : 0);
    run_taskloop(fn, data, copy, size, align, flags, (uint64_t)start, (uint64_t)step, count);
}

/* Called by GCC's code for a `taskloop` with an unsigned variable, which counts up if the flag UP is set. */
void GOMP_taskloop_ull(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                       unsigned flags, unsigned long tasks, int priority, uint64_t start, uint64_t end, uint64_t step) {
    (void)tasks, (void)priority;
    uint64_t count = flags & UP ? (end > start ? (end - start + step - 1) / step : 0)
                                : (end < start ? (start - end - step - 1) / -step : 0);
    run_taskloop(fn, data, copy, size, align, flags, start, step, count);
}

/* --- reductions of tasks: a copy for each thread ----------------------------------------------------------------- */

/* Allocate the per-thread copies of GCC's task-reduction registrations, and link the outer ones to the end of the list.
 * The words of a registration:
 *   [0] number of variables       [1] bytes of a thread's copy      [2] alignment, replaced by the memory's address
 *   [4] the next registration     [6] end of the memory
 *   [7] and on: three for each variable: its address, its offset in a copy, one for the runtime. */
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

/* Called by GCC's code for the clause `task_reduction` of a `taskgroup`: register its variables. */
void GOMP_taskgroup_reduction_register(uintptr_t *data) {
    struct taskgroup *group = me->task->group;
    if (!group) return;
    allocate_reductions(data, group->reductions, get_thread_count());
    group->reductions = data;
}

/* Called by GCC's code at the end of a `taskgroup` with `task_reduction`: free the threads' copies. */
void GOMP_taskgroup_reduction_unregister(uintptr_t *data) {
    for (uintptr_t *registration = data; registration && registration[2]; registration = (uintptr_t *)registration[4]) {
        free((void *)registration[2]);
        if (registration == data) break;
    }
}

/* Called by GCC's code at the start of a task with `in_reduction`: replace each variable's address by that of the
 * running thread's copy, and store the first `originals` original addresses after them. */
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

/* Called by GCC's code for a parallel construct with task reductions: run it and return the number of threads. */
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

/* Return whether the environment variable OMP_CANCELLATION is true. */
static bool is_cancellation_allowed(void) {
    const char *asked = getenv("OMP_CANCELLATION");
    return asked && (asked[0] == 't' || asked[0] == 'T');
}

/* Called by GCC's code for a `cancellation point`: return whether the innermost construct of this kind was
 * cancelled. */
bool GOMP_cancellation_point(int which) {
    if (!is_cancellation_allowed()) return false;
    if (which & (LOOP | SECTIONS)) return me->work && me->work->cancelled;
    if (which & TASKGROUP) return me->task->group && me->task->group->cancelled;
    return me->team && me->team->cancelled;
}

/* Called by GCC's code for `cancel`: if the `if` clause holds, cancel the innermost construct of this kind. Return
 * whether it is cancelled. */
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
