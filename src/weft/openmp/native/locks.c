/* Locks, critical sections and the order in which they are taken. */
#include "growing.h"
#include "openmp.h"

#define LOCKS 60 /* more share one number: two of those are taken for one lock */
static struct lock_entry {
    const void *lock;
    struct thread *by;
    unsigned depth, readers;
    strand_t history; /* of those that released it */
    strand_t *ends; /* of its sections of this phase: the last strand that there was when it was released */
    size_t count, room;
} locks[LOCKS + 1];
static int lock_count;
static bool has_used_locks; /* any of them, or the order of a loop */
#define GROUPS 8
static const char unnamed[GROUPS], atomics;

/* Return the number of a lock, from 0 on. All locks after the first 60 share the number LOCKS. */
static int find_lock_number(const void *lock) {
    for (int i = 0; i < lock_count; i++)
        if (locks[i].lock == lock) return i;
    if (lock_count == LOCKS) return LOCKS;
    locks[lock_count].lock = lock;
    return lock_count++;
}

/* Make the running strand (iteration, task or thread) the one with exactly the locks that it holds now: the previous
 * one if they are the same, else a new one. */
void refresh_locked_strand(void) {
    strand_t strand = me->plain;
    strand_t last = me->locked;
    if (me->held && last >= now.base && node(last)->kind == LOCKED && node(last)->parent == strand &&
        node(last)->locks == me->held && node(last)->index == (int64_t)me->shared) {
        strand = last;
    } else if (me->held) {
        strand = me->locked = create_strand(me->plain, LOCKED, me->held);
        struct node *strand_node = node(strand), *plain_node = node(me->plain);
        strand_node->loop = plain_node->loop;
        strand_node->index = (int64_t)me->shared;
        strand_node->place = plain_node->place;
    }
    me->current = strand;
    set_current_strand(strand);
}

/* Note that the running strand holds the lock with this number. */
void hold_lock_number(int number) {
    me->held |= (uint64_t)1 << number;
    has_used_locks = true;
    refresh_locked_strand();
}

void unhold_lock_number(int number) {
    me->held &= ~((uint64_t)1 << number);
    refresh_locked_strand();
}

struct sections {
    uint64_t own, shared; /* as a writer, as a reader */
    bool outside;         /* what is around is another task's: that may have left its section */
};

/* Add the locks that a strand's node holds, as a writer or as a reader, to a set. */
static void add_node_locks(struct sections *sections, const struct node *strand_node) {
    if (strand_node->kind == LOCKED && !sections->outside) {
        sections->own |= strand_node->locks & ~(uint64_t)strand_node->index;
        sections->shared |= strand_node->locks & (uint64_t)strand_node->index;
    }
    sections->outside = sections->outside || strand_node->kind == TASK;
}

/* Return whether both strands ran while holding the same lock, at least one of them as a writer, so that they exclude
 * each other. A region or simd loop within a locked section counts as locked. */
bool have_common_lock(strand_t one, strand_t other) {
    struct sections of_one = {0}, of_other = {0};
    if (!has_used_locks) return false;
    while (one != other && (one >= weft_first || other >= weft_first)) {
        bool is_one_next = other < weft_first || (one >= weft_first && node(one)->depth >= node(other)->depth);
        add_node_locks(is_one_next ? &of_one : &of_other, node(is_one_next ? one : other));
        *(is_one_next ? &one : &other) = node(is_one_next ? one : other)->parent;
    }
    return (of_one.own & (of_other.own | of_other.shared)) || (of_one.shared & of_other.own);
}

/* Whether a strand holds a lock of the program's. */
bool holds_lock(strand_t strand) {
    uint64_t held = strand >= weft_first && node(strand)->kind == LOCKED ? node(strand)->locks : 0;
    for (int number = 0; number < lock_count; number++)
        if (locks[number].lock == &atomics) held &= ~((uint64_t)1 << number);
    return held != 0;
}

/* Two locks that one strand took in this order: the second one while it held the first and `others`. */
static struct taking {
    strand_t strand;
    uint64_t others;
    uint32_t place;
} takings[LOCKS][LOCKS];

/* Takings that lead from lock to lock, each by another strand. */
struct chain {
    const struct taking *takings[LOCKS];
    int count;
    uint64_t visited; /* locks */
};

/* Return whether a taking may be under way together with all of a chain: no path orders their strands, and no lock is
 * around two of them. */
static bool may_join_chain(const struct chain *chain, const struct taking *next) {
    for (int i = 0; i < chain->count; i++) {
        const struct taking *one = chain->takings[i];
        bool is_earlier = one->strand < next->strand;
        if ((one->others & next->others) ||
            is_ordered_without_locks(is_earlier ? one->strand : next->strand, is_earlier ? next->strand : one->strand))
            return false;
    }
    return true;
}

/* Return whether a chain can be led on from lock `from` back to lock `to`. */
static bool close_chain(struct chain *chain, int from, int to) {
    chain->visited |= (uint64_t)1 << from;
    for (int next = 0; next < lock_count && next < LOCKS; next++) {
        const struct taking *taking = &takings[from][next];
        if (chain->visited >> next & 1 || !taking->place || taking->strand < now.base || !may_join_chain(chain, taking))
            continue;
        chain->takings[chain->count++] = taking;
        if (next == to || close_chain(chain, next, to)) return true;
        chain->count--;
    }
    return false;
}

/* Report a possible deadlock: two locks were taken in both orders, or more in a circle, by strands that nothing orders
 * and without another lock around two of them. Circles of more than two are looked for where two locks are taken in an
 * order that is new in this phase. */
static void check_lock_order(int second, uint32_t place) {
    for (int first = 0; first < LOCKS && me->held >> first; first++) {
        if (!(me->held >> first & 1) || first == second) continue;
        struct taking *own = &takings[first][second], *reverse = &takings[second][first];
        bool is_new = !own->place || own->strand < now.base;
        *own = (struct taking){me->current, me->held & ~((uint64_t)1 << first), place};
        struct chain chain = {.takings = {own}, .count = 1};
        if (reverse->place && reverse->strand >= now.base && may_join_chain(&chain, reverse))
            report_plain_finding("lock-order", "", place, reverse->place);
        else if (is_new && close_chain(&chain, second, first))
            report_plain_finding("lock-order", "circle", place, chain.takings[1]->place);
    }
}

/* Take a lock for the running strand, as a writer or a reader; let other threads run until it is free. */
static void take_lock_as(const void *lock, uint32_t place, bool as_reader) {
    if (!now.on) return;
    int number = find_lock_number(lock);
    struct lock_entry *entry = &locks[number];
    if (number < LOCKS) check_lock_order(number, place);
    else report_plain_finding("left", "locks", place, 0);
    while (((entry->by && entry->by != me) || (entry->readers && !as_reader)) && number < LOCKS)
        wait_until_woken(entry, place);
    if (entry->by == me && number < LOCKS) wait_until_woken(entry, place); /* it waits for itself */
    if (as_reader) {
        entry->readers++;
        me->shared |= (uint64_t)1 << number;
    } else {
        entry->by = me;
    }
    me->wrote &= ~((uint64_t)1 << number);
    hold_lock_number(number);
}

void take_lock(const void *lock, uint32_t place) { take_lock_as(lock, place, false); }

/* At the release of a lock, add the critical section to the lock's history. A section that wrote nothing may have
 * waited for earlier ones, for example by reading a flag: those then happen before what the strand does next. */
static void note_section_order(struct lock_entry *entry, bool has_written) {
    strand_t history = entry->history;
    if (!has_written && history >= now.base) order_strand_after(begin_segment(), history, now.next - 1);
    entry->history = add_release_to_history(history, me->plain);
    me->released = me->plain;
    set_current_strand(me->current);
}

/* Record that a critical section of a lock ends with the newest strand that exists now. */
static void note_section_end(struct lock_entry *entry) {
    if (entry->count && (entry->ends[entry->count - 1] < now.base || entry->ends[entry->count - 1] >= now.next))
        entry->count = 0;
    GROW(entry->ends, entry->count, entry->room, 64);
    entry->ends[entry->count++] = now.next - 1;
}

/* Return the last strand of the critical section in which a strand held a lock; the strand itself if that is not
 * recorded. */
static strand_t find_last_strand_of_section(const struct lock_entry *entry, strand_t strand) {
    size_t low = 0, high = entry->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (entry->ends[middle] < strand) low = middle + 1;
        else high = middle;
    }
    return low < entry->count ? entry->ends[low] : strand;
}

/* Order the running strand after the critical section in which `writer` wrote what the strand has just read under the
 * same lock. */
void order_after_locked_write(strand_t writer) {
    uint64_t common = node(writer)->locks & node(me->current)->locks;
    if (node(me->current)->kind != LOCKED || node(writer)->kind != LOCKED) return; /* parts of larger sections */
    for (int number = 0; number <= LOCKS; number++) {
        if (!(common >> number & 1) || locks[number].lock == &atomics) continue;
        if (!is_ordered(writer, me->current))
            order_strand_after_by_lock(begin_segment(), find_strand_without_locks(writer),
                                       find_last_strand_of_section(&locks[number], writer));
        return;
    }
}

/* Note an access while locks are held; the first access after a release begins a new segment of the running strand. */
void note_access_near_lock(uintptr_t address, bool is_write) {
    if (address >= me->stack_low && address < me->frame) return;
    if (is_write) me->wrote |= me->held;
    strand_t released_strand = me->released;
    me->released = 0;
    set_current_strand(me->current);
    if (released_strand && released_strand == me->plain) begin_segment();
}

/* Let another thread run at every 16th release of a lock, as a program may poll a flag under a lock. */
static void yield_at_releases(void) {
    static unsigned turns;
    if (++turns % 16 == 0) yield_to_other_threads();
}

/* Release a lock, as a reader or a writer, and wake the threads that wait for it. */
void release_lock(const void *lock) {
    if (!now.on) return;
    int number = find_lock_number(lock);
    bool has_written = me->wrote >> number & 1;
    if (me->shared >> number & 1) locks[number].readers--;
    else locks[number].by = NULL;
    me->shared &= ~((uint64_t)1 << number);
    unhold_lock_number(number);
    if (lock != &atomics) {
        note_section_order(&locks[number], has_written);
        note_section_end(&locks[number]);
    }
    wake_waiting_threads(&locks[number]);
    yield_at_releases();
}

/* Return the lock of a critical construct for the running thread's team: each team of a league has its own (OpenMP 5.2,
 * 15.2), at an address within the construct's. Beyond eight teams some share one. */
static const void *find_group_lock(const char *name) { return name + omp_get_team_num() % GROUPS; }

void GOMP_critical_start(void) { take_lock(find_group_lock(unnamed), place_of(PLACE)); }
void GOMP_critical_end(void) { release_lock(find_group_lock(unnamed)); }
void GOMP_critical_name_start(void **name) { take_lock(find_group_lock((const char *)name), place_of(PLACE)); }
void GOMP_critical_name_end(void **name) { release_lock(find_group_lock((const char *)name)); }
void GOMP_atomic_start(void) { take_lock(&atomics, place_of(PLACE)); }
void GOMP_atomic_end(void) { release_lock(&atomics); }

typedef void *omp_lock_t;
void omp_init_lock(omp_lock_t *l) { *(int *)l = 0; }
void omp_destroy_lock(omp_lock_t *l) { (void)l; }
void omp_set_lock(omp_lock_t *l) { take_lock(l, place_of(PLACE)); }
void omp_unset_lock(omp_lock_t *l) { release_lock(l); }

/* OpenMP API: take a lock if it is free. Return 1 if it was, else 0 after letting another thread run. */
int omp_test_lock(omp_lock_t *lock) {
    if (now.on && locks[find_lock_number(lock)].by) {
        yield_to_other_threads();
        return 0;
    }
    take_lock(lock, place_of(PLACE));
    return 1;
}
void omp_init_lock_with_hint(omp_lock_t *l, int hint) { (void)hint, omp_init_lock(l); }
void omp_init_nest_lock(omp_lock_t *l) { (void)l; }
void omp_init_nest_lock_with_hint(omp_lock_t *l, int hint) { (void)l, (void)hint; }
void omp_destroy_nest_lock(omp_lock_t *l) { (void)l; }

/* Take a nestable lock once more and return its nesting count. */
static int take_nested_lock(omp_lock_t *lock, uint32_t place) {
    if (!now.on) return 1;
    struct lock_entry *entry = &locks[find_lock_number(lock)];
    if (entry->by != me) {
        take_lock(lock, place);
        entry->depth = 0;
    }
    return (int)++entry->depth;
}
void omp_set_nest_lock(omp_lock_t *l) { take_nested_lock(l, place_of(PLACE)); }
void omp_unset_nest_lock(omp_lock_t *l) {
    if (now.on && --locks[find_lock_number(l)].depth == 0) release_lock(l);
}

/* OpenMP API: take a nestable lock and return its nesting count; 0, after letting another thread run, if another thread
 * holds it. */
int omp_test_nest_lock(omp_lock_t *lock) {
    const struct lock_entry *entry = &locks[find_lock_number(lock)];
    if (now.on && entry->by && entry->by != me) {
        yield_to_other_threads();
        return 0;
    }
    return take_nested_lock(lock, place_of(PLACE));
}

/* Mutexes of the system, as std::mutex is one: they are really taken, too, when their turn has come. */
extern int __real_pthread_mutex_lock(pthread_mutex_t *), __real_pthread_mutex_trylock(pthread_mutex_t *),
    __real_pthread_mutex_unlock(pthread_mutex_t *);

static void note_mutex_taken(pthread_mutex_t *mutex, uint32_t place) {
    if (now.on && (mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE) take_nested_lock((omp_lock_t *)mutex, place);
    else take_lock(mutex, place);
}
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
    note_mutex_taken(m, place_of(PLACE));
    return __real_pthread_mutex_lock(m);
}

/* Wrap pthread_mutex_trylock(): track the mutex as a lock if it was taken, else let another thread run. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex) {
    int refused = __real_pthread_mutex_trylock(mutex);
    if (!refused) note_mutex_taken(mutex, place_of(PLACE));
    else if (now.on) yield_to_other_threads();
    return refused;
}

/* Wrap pthread_mutex_unlock(): track the mutex as released. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    int refused = __real_pthread_mutex_unlock(mutex);
    if (refused || !now.on || locks[find_lock_number(mutex)].by != me)
        return refused; /* it was taken outside of the region */
    if ((mutex->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE) omp_unset_nest_lock((omp_lock_t *)mutex);
    else release_lock(mutex);
    return 0;
}

extern int __real_pthread_rwlock_rdlock(pthread_rwlock_t *), __real_pthread_rwlock_wrlock(pthread_rwlock_t *),
    __real_pthread_rwlock_tryrdlock(pthread_rwlock_t *), __real_pthread_rwlock_trywrlock(pthread_rwlock_t *),
    __real_pthread_rwlock_unlock(pthread_rwlock_t *);

int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    take_lock_as(l, place_of(PLACE), true);
    return __real_pthread_rwlock_rdlock(l);
}
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    take_lock_as(l, place_of(PLACE), false);
    return __real_pthread_rwlock_wrlock(l);
}

/* Track a read-write lock after a try: as taken if `error` is 0, else let another thread run. Return `error`. */
static int note_tried_lock(pthread_rwlock_t *lock, int error, uint32_t place, bool as_reader) {
    if (!error) take_lock_as(lock, place, as_reader);
    else if (now.on) yield_to_other_threads();
    return error;
}
int __wrap_pthread_rwlock_tryrdlock(pthread_rwlock_t *l) {
    return note_tried_lock(l, __real_pthread_rwlock_tryrdlock(l), place_of(PLACE), true);
}
int __wrap_pthread_rwlock_trywrlock(pthread_rwlock_t *l) {
    return note_tried_lock(l, __real_pthread_rwlock_trywrlock(l), place_of(PLACE), false);
}

/* Wrap pthread_rwlock_unlock(): track the lock as released. */
int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    int refused = __real_pthread_rwlock_unlock(lock);
    if (!refused && now.on && me->held >> find_lock_number(lock) & 1) release_lock(lock);
    return refused;
}

/* What runs once: who comes later does nothing under its lock, and so comes after it. */
extern int __real_pthread_once(pthread_once_t *, void (*)(void));

/* Wrap pthread_once() as a locked section: a later caller finds an empty section and so is ordered after the
 * initialisation. */
int __wrap_pthread_once(pthread_once_t *once, void (*function)(void)) {
    take_lock(once, place_of(PLACE));
    int failed = __real_pthread_once(once, function);
    release_lock(once);
    return failed;
}

/* Static variables of C++'s functions: the compiled program asks by an atomic read whether one is there. */
extern int __real___cxa_guard_acquire(uint8_t *) __attribute__((weak));
extern void __real___cxa_guard_release(uint8_t *) __attribute__((weak)),
    __real___cxa_guard_abort(uint8_t *) __attribute__((weak));
static unsigned statics_begun;

/* Wrap the C++ guard of a function-local static variable: let the thread run that is initialising it, and order this
 * one after the initialisation if that is done. */
int __wrap___cxa_guard_acquire(uint8_t *guard) {
    while (now.on && statics_begun && guard[1] && is_other_thread_ready())
        yield_to_other_threads(); /* another one makes it */
    int is_first = __real___cxa_guard_acquire(guard);
    if (is_first) statics_begun++;
    else note_atomic_acquire((uintptr_t)guard, __ATOMIC_ACQUIRE);
    return is_first;
}

/* Wrap the end of the initialisation of a C++ static variable: it happens before whoever uses the variable. */
void __wrap___cxa_guard_release(uint8_t *guard) {
    statics_begun--;
    note_atomic_release((uintptr_t)guard, __ATOMIC_RELEASE);
    __real___cxa_guard_release(guard);
}
void __wrap___cxa_guard_abort(uint8_t *guard) {
    statics_begun--;
    __real___cxa_guard_abort(guard);
}

/* Fortran's names. */
void omp_init_lock_(omp_lock_t *l) { omp_init_lock(l); }
void omp_destroy_lock_(omp_lock_t *l) { (void)l; }
void omp_set_lock_(omp_lock_t *l) { take_lock(l, place_of(PLACE)); }
void omp_unset_lock_(omp_lock_t *l) { release_lock(l); }
int omp_test_lock_(omp_lock_t *l) { return omp_test_lock(l); }
void omp_init_nest_lock_(omp_lock_t *l) { (void)l; }
void omp_destroy_nest_lock_(omp_lock_t *l) { (void)l; }
void omp_set_nest_lock_(omp_lock_t *l) { take_nested_lock(l, place_of(PLACE)); }
void omp_unset_nest_lock_(omp_lock_t *l) { omp_unset_nest_lock(l); }
int omp_test_nest_lock_(omp_lock_t *l) { return omp_test_nest_lock(l); }
