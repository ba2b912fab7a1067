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

static void append(strand_t **list, size_t *count, size_t *room, strand_t s) {
    GROW(*list, *count, *room, 16);
    (*list)[(*count)++] = s;
}

void tasks_joined(strand_t **list, size_t *count) {
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i] >= now.base) node((*list)[i])->joined = true;
    *count = 0;
}

void task_begin(struct task *t, struct taskgroup *group) { t->group = group; }

bool task_says(bool is_explicit) {
    bool was = me->task->is_explicit;
    me->task->is_explicit = is_explicit;
    return was;
}

/* A task where nothing is checked. */
static void run_plain(void (*fn)(void *), void *data) {
    bool was = task_says(true);
    fn(data);
    task_says(was);
}

void task_end(struct task *t) {
    free(t->children);
    for (size_t i = 0; i < sizeof t->depends / sizeof *t->depends; i++)
        for (struct depend *d = t->depends[i]; d;) {
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

static struct depend **slot_of(struct task *t, uintptr_t a) { return &t->depends[(a >> 2) % 64]; }

static struct depend *known_depend(struct task *t, uintptr_t a) {
    struct depend *d = *slot_of(t, a);
    while (d && d->address != a) d = d->next;
    return d;
}

static struct depend *depend_of(struct task *t, uintptr_t a) {
    struct depend *d = known_depend(t, a), **at = slot_of(t, a);
    if (d) return d;
    d = calloc(1, sizeof *d);
    if (!d) abort();
    d->address = a;
    d->next = *at;
    const struct depend *all = known_depend(t, ALL);
    if (all && all->count) {
        append(&d->ins, &d->count, &d->room, all->ins[all->count - 1]);
        d->sort = OUT;
    }
    return *at = d;
}

static void after(strand_t s, strand_t earlier) {
    if (!earlier) return;
    comes_before(s, earlier, UINT32_MAX);
    detached_before(s, earlier);
}

/* The last ones of one address: a set of tasks of one sort, with what the whole set comes after. */
static void depends(struct task *t, strand_t s, uintptr_t a, enum sort sort) {
    for (size_t i = 0; a == ALL && i < sizeof t->depends / sizeof *t->depends; i++)
        for (const struct depend *d = t->depends[i]; d; d = d->next)
            if (d->address != ALL) depends(t, s, d->address, OUT);
    struct depend *d = depend_of(t, a);
    bool joins = sort == d->sort && (sort == IN || sort == MUTEX || sort == INOUTSET);
    if (!joins) {
        free(d->before);
        d->before = d->ins;
        d->before_count = d->count;
        d->ins = NULL;
        d->count = d->room = 0;
        d->sort = sort;
    }
    for (size_t i = 0; i < d->before_count; i++) after(s, d->before[i]);
    append(&d->ins, &d->count, &d->room, s);
}

/* The clause as the compiler lays it out: counts, then addresses; or (first 0) counts of four sorts and of objects. */
static void each_depend(void **clause, void (*use)(void *, uintptr_t, enum sort), void *context) {
    uintptr_t all = (uintptr_t)clause[0];
    if (all) {
        uintptr_t out = (uintptr_t)clause[1];
        for (uintptr_t i = 0; i < all; i++) use(context, (uintptr_t)clause[2 + i], i < out ? OUT : IN);
        return;
    }
    all = (uintptr_t)clause[1];
    uintptr_t out = (uintptr_t)clause[2], mutex = (uintptr_t)clause[3], in = (uintptr_t)clause[4];
    for (uintptr_t i = 0; i < all; i++) {
        uintptr_t a = (uintptr_t)clause[5 + i];
        enum sort sort = i < out ? OUT : i < out + mutex ? MUTEX : i < out + mutex + in ? IN : DEPOBJ;
        if (sort == DEPOBJ) {
            void **object = (void **)a;
            uintptr_t kind = (uintptr_t)object[1];
            use(context, (uintptr_t)object[0], kind == OUT || kind == INOUT ? OUT : (enum sort)kind);
        } else {
            use(context, a, sort);
        }
    }
}

/* Before a task is made: those that it comes after may still wait for their events. */
static void awaited(void *context, uintptr_t a, enum sort sort) {
    (void)sort;
    const struct depend *d = known_depend(((struct task *)context), a);
    for (size_t i = 0; d && i < d->count; i++) detached_awaited(d->ins[i]);
}

struct making {
    struct task *task;
    strand_t strand;
    const void *locks[16];
    int lock_count;
};

static void made_after(void *context, uintptr_t a, enum sort sort) {
    struct making *m = context;
    depends(m->task, m->strand, a, sort);
    if (sort == MUTEX && m->lock_count < 16) m->locks[m->lock_count++] = depend_of(m->task, a);
}

static void waited(void *context, uintptr_t a, enum sort sort) {
    struct making *m = context;
    for (size_t i = 0; a == ALL && i < sizeof m->task->depends / sizeof *m->task->depends; i++)
        for (const struct depend *d = m->task->depends[i]; d; d = d->next)
            if (d->address != ALL) waited(context, d->address, OUT);
    struct depend *d = depend_of(m->task, a);
    bool joins = sort == d->sort && sort == IN;
    const strand_t *of = joins ? d->before : d->ins;
    size_t count = joins ? d->before_count : d->count;
    for (size_t i = 0; i < count; i++) after(m->strand, of[i]);
}

/* --- making and running ------------------------------------------------------------------------------------------ */

static bool plain_run(void) { return !now.on; }

/* Where one thread runs, nothing is checked but what a device does beside it: from its first task of a construct with
 * nowait on, until none is left that was not waited for. */
static struct task *beside;

bool tasks_beside(void) { return beside != NULL; }
void tasks_beside_end(void) { beside = NULL; }

/* The thread's own tasks run on the thread. */
static bool at_once(void) { return beside && alone(); }

static void waited_for_all(void) {
    struct task *t = me->task;
    if (!beside || t != beside) return;
    for (size_t i = 0; i < t->count; i++)
        if (t->children[i] >= now.base && !node(t->children[i])->joined) return;
    t->count = 0;
    beside = NULL;
    checks(false);
    if (!me->team) strands_forget();
}

static void *arguments(void *data, void (*copy)(void *, void *), long size, long align, void **block) {
    *block = malloc((size_t)(size + align + 16));
    if (!*block) abort();
    char *at = (char *)(((uintptr_t)*block + (uintptr_t)align - 1) & ~(uintptr_t)(align - 1));
    shadow_clear((uintptr_t)*block, (uintptr_t)*block + (size_t)(size + align + 16));
    if (copy) copy(at, data);
    else memcpy(at, data, (size_t)size);
    return at;
}

static void run(void (*fn)(void *), void *data, strand_t s, bool included, bool final, const struct making *m) {
    struct thread before = *me;
    struct task task = {.outer = me->task, .final = final, .is_explicit = node(s)->loop == BY_TASK};
    task_begin(&task, me->task ? me->task->group : NULL);
    me->task = &task;
    me->lowest = UINTPTR_MAX;
    me->held = 0;
    me->work = NULL;
    me->private_count = 0;
    me->private_low = me->private_high = 0;
    me->plain = s;
    locks_again();
    for (int i = 0; m && i < m->lock_count; i++) lock_take(m->locks[i], node(s)->place);
    uintptr_t frame = FRAME;
    fn(data);
    for (int i = 0; m && i < m->lock_count; i++) lock_leave(m->locks[i]);
    task_end(&task);
    uintptr_t lowest = me->lowest;
    if (lowest < frame) shadow_clear(lowest, frame);
    if (included) node(s)->joined = true;
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
    current_is(me->current);
}

static int64_t task_number;

static strand_t task_strand(bool included, uint32_t place, enum maker maker) {
    strand_t s = strand_new(bare(me->plain), TASK, 0);
    node(s)->index = ++task_number;
    node(s)->place = place;
    node(s)->loop = maker;
    struct task *t = me->task;
    if (included) return s;
    append(&t->children, &t->count, &t->room, s);
    if (t->group) append(&t->group->tasks, &t->group->count, &t->group->room, s);
    return s;
}

void GOMP_task(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align, bool if_clause,
               unsigned flags, void **depend, int priority, void *detach) {
    (void)priority;
    uintptr_t event = flags & DETACH && detach ? event_new() : 0;
    if (event) *(uintptr_t *)detach = event;
    if (event && data) *(uintptr_t *)data = event;
    if (me->task->group && me->task->group->cancelled) return;
    void *block = NULL;
    bool included = !if_clause || me->task->final || plain_run() || at_once();
    void *at = copy || !included || flags & DETACH ? arguments(data, copy, size, align, &block) : data;
    uint32_t place = place_of(BEGINNING(fn));
    if (flags & DEPEND && !me->on_device) targets_done();
    told_construct(place, "task", 1);
    if (plain_run()) {
        run_plain(fn, at);
        free(block);
        return;
    }
    if (flags & DEPEND && depend) each_depend(depend, awaited, me->task);
    struct making m = {.task = me->task, .strand = task_strand(included, place, BY_TASK)};
    if (event) event_of(event, m.strand);
    if (flags & DEPEND && depend) each_depend(depend, made_after, &m);
    run(fn, at, m.strand, included, me->task->final || flags & FINAL, &m);
    /* Who made a task that is run at once has waited for what that one comes after. */
    if (included && flags & DEPEND && depend) comes_before(segment(), m.strand, now.next - 1);
    free(block);
}

void task_of_target(void (*fn)(void *), void *data, uint32_t place, enum maker maker, bool nowait, void **depend) {
    if (plain_run() && !nowait) {
        fn(data);
        return;
    }
    if (plain_run()) {
        beside = me->task;
        checks(true);
    }
    if (depend) each_depend(depend, awaited, me->task);
    struct making m = {.task = me->task, .strand = task_strand(!nowait, place, maker)};
    if (depend) each_depend(depend, made_after, &m);
    run(fn, data, m.strand, !nowait, false, &m);
    if (!nowait && depend) comes_before(segment(), m.strand, now.next - 1);
}

void GOMP_taskwait(void) {
    if (!me->on_device) targets_done();
    if (plain_run()) return;
    tasks_joined(&me->task->children, &me->task->count);
    detached_joined();
    waited_for_all();
}

void tasks_waited(void) {
    if (plain_run()) return;
    tasks_joined(&me->task->children, &me->task->count);
    waited_for_all();
}

void GOMP_taskwait_depend(void **depend) {
    if (!me->on_device) targets_done();
    if (plain_run()) return;
    each_depend(depend, awaited, me->task);
    struct making m = {.task = me->task, .strand = segment()};
    each_depend(depend, waited, &m);
}

/* A task that does nothing: others that come after it come after what it comes after. */
void GOMP_taskwait_depend_nowait(void **depend) {
    if (plain_run()) return;
    each_depend(depend, awaited, me->task);
    struct making m = {.task = me->task, .strand = task_strand(false, place_of(PLACE), BY_TASK)};
    each_depend(depend, made_after, &m);
}
void GOMP_taskyield(void) {
    if (now.on) threads_switch();
}

/* --- groups ------------------------------------------------------------------------------------------------------ */

void GOMP_taskgroup_start(void) {
    struct taskgroup *g = calloc(1, sizeof *g);
    if (!g) abort();
    g->outer = me->task->group;
    g->reductions = g->outer ? g->outer->reductions : NULL;
    me->task->group = g;
}

void GOMP_taskgroup_end(void) {
    if (!me->on_device) targets_done();
    struct taskgroup *g = me->task->group;
    if (!g) return;
    tasks_joined(&g->tasks, &g->count);
    detached_joined();
    me->task->group = g->outer;
    free(g->tasks);
    free(g);
    waited_for_all();
}

/* --- taskloop: a task for each iteration ------------------------------------------------------------------------- */

struct range {
    uintptr_t start, end;
    uintptr_t *reductions;
};

void GOMP_taskgroup_reduction_register(uintptr_t *data);

static void taskloop(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                     unsigned flags, uint64_t start, uint64_t step, uint64_t count) {
    uint32_t place = place_of(BEGINNING(fn));
    if (!(flags & NOGROUP)) {
        GOMP_taskgroup_start();
        if (flags & REDUCTION) GOMP_taskgroup_reduction_register(((struct range *)data)->reductions);
    }
    told_construct(place, "loop", count);
    for (uint64_t k = 0; k < count; k++) {
        if (me->task->group && me->task->group->cancelled) break;
        void *block;
        uint64_t *at = arguments(data, copy, size, align, &block);
        at[0] = start + k * step;
        at[1] = start + (k + 1) * step;
        if (plain_run()) {
            run_plain(fn, at);
        } else {
            bool included = !(flags & IF) || me->task->final || at_once();
            strand_t s = task_strand(included, place, BY_TASK);
            node(s)->index = (int64_t)k;
            run(fn, at, s, included, me->task->final || flags & FINAL, NULL);
        }
        free(block);
    }
    if (!(flags & NOGROUP)) GOMP_taskgroup_end();
}

void GOMP_taskloop(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align, unsigned flags,
                   unsigned long tasks, int priority, long start, long end, long step) {
    (void)tasks, (void)priority;
    uint64_t count = step > 0 ? (end > start ? (uint64_t)(end - start + step - 1) / (uint64_t)step : 0)
                              : (end < start ? (uint64_t)(start - end - step - 1) / (uint64_t)-step : 0);
    taskloop(fn, data, copy, size, align, flags, (uint64_t)start, (uint64_t)step, count);
}

void GOMP_taskloop_ull(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                       unsigned flags, unsigned long tasks, int priority, uint64_t start, uint64_t end, uint64_t step) {
    (void)tasks, (void)priority;
    uint64_t count = flags & UP ? (end > start ? (end - start + step - 1) / step : 0)
                                : (end < start ? (start - end - step - 1) / -step : 0);
    taskloop(fn, data, copy, size, align, flags, start, step, count);
}

/* --- reductions of tasks: a copy for each thread ----------------------------------------------------------------- */

/* A registration: 0 how many, 1 bytes of a thread's part, 2 alignment, then the memory, 4 the next, 6 its end, from 7 on
 * three words for each variable: its address, its offset in the part, the runtime's. */
static void reductions_made(uintptr_t *data, uintptr_t *outer, int threads) {
    for (uintptr_t *d = data;; d = (uintptr_t *)d[4]) {
        size_t size = d[1] * (size_t)threads, align = d[2] < sizeof(void *) ? sizeof(void *) : d[2];
        void *memory = NULL;
        if (posix_memalign(&memory, align, size ? size : 1)) abort();
        memset(memory, 0, size);
        shadow_ignore((uintptr_t)memory, (uintptr_t)memory + size);
        d[2] = (uintptr_t)memory;
        d[6] = d[2] + size;
        if (!d[4]) {
            d[4] = (uintptr_t)outer;
            return;
        }
    }
}

static int threads_now(void) { return me->team ? me->team->size : 1; }

void GOMP_taskgroup_reduction_register(uintptr_t *data) {
    struct taskgroup *g = me->task->group;
    if (!g) return;
    reductions_made(data, g->reductions, threads_now());
    g->reductions = data;
}

void GOMP_taskgroup_reduction_unregister(uintptr_t *data) {
    for (uintptr_t *d = data; d && d[2]; d = (uintptr_t *)d[4]) {
        free((void *)d[2]);
        if (d == data) break;
    }
}

void GOMP_task_reduction_remap(size_t count, size_t originals, void **pointers) {
    uintptr_t *first = me->task->group ? me->task->group->reductions : NULL;
    if (!first && me->team) first = me->team->reductions;
    for (size_t i = 0; i < count; i++) {
        uintptr_t a = (uintptr_t)pointers[i];
        for (uintptr_t *d = first; d; d = (uintptr_t *)d[4]) {
            for (uintptr_t j = 0; j < d[0]; j++) {
                uintptr_t *v = d + 7 + 3 * j;
                bool inside = a >= d[2] && a < d[6] && (a - d[2]) % d[1] == v[1];
                if (v[0] != a && !inside) continue;
                pointers[i] = (void *)(d[2] + (uintptr_t)me->number * d[1] + v[1]);
                if (i < originals) pointers[count + i] = (void *)v[0];
                a = 0;
                break;
            }
            if (!a) break;
        }
    }
}

/* A parallel or worksharing construct whose reductions tasks take part in. */
unsigned GOMP_parallel_reductions(void (*fn)(void *), void *data, unsigned n, unsigned flags) {
    (void)flags;
    uintptr_t *list = *(uintptr_t **)data;
    unsigned size = n ? n : (unsigned)weft_omp_default;
    reductions_made(list, NULL, (int)size);
    weft_omp_region_reductions = list;
    region(fn, data, size, BEGINNING(fn), FRAME, false);
    return size;
}

void GOMP_workshare_task_reduction_unregister(bool cancelled) {
    GOMP_taskgroup_end();
    if (!cancelled) barrier(PLACE);
}

void GOMP_scope_start(uintptr_t *reductions) { (void)reductions; }

/* --- cancellation ------------------------------------------------------------------------------------------------ */

enum { PARALLEL = 1, LOOP = 2, SECTIONS = 4, TASKGROUP = 8 };

static bool may_cancel(void) {
    const char *asked = getenv("OMP_CANCELLATION");
    return asked && (asked[0] == 't' || asked[0] == 'T');
}

bool GOMP_cancellation_point(int which) {
    if (!may_cancel()) return false;
    if (which & (LOOP | SECTIONS)) return me->work && me->work->cancelled;
    if (which & TASKGROUP) return me->task->group && me->task->group->cancelled;
    return me->team && me->team->cancelled;
}

bool GOMP_cancel(int which, bool really) {
    if (!may_cancel()) return false;
    if (!really) return GOMP_cancellation_point(which);
    if (which & (LOOP | SECTIONS)) {
        if (me->work) me->work->cancelled = 1;
    } else if (which & TASKGROUP) {
        if (me->task->group) me->task->group->cancelled = true;
    } else if (me->team) {
        me->team->cancelled = true;
    }
    return true;
}
