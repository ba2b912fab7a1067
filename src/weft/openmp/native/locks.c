/* Locks, critical sections and the order in which they are taken. */
#include "growing.h"
#include "openmp.h"

#define LOCKS 60 /* more share one number: two of those are taken for one lock */
static struct held {
    const void *lock;
    struct thread *by;
    unsigned depth, readers;
    strand_t history; /* of those that released it */
    strand_t *ends; /* of its sections of this phase: the last strand that there was when it was released */
    size_t count, room;
} locks[LOCKS + 1];
static int known;
static bool used; /* any of them, or the order of a loop */
#define GROUPS 8
static const char unnamed[GROUPS], atomics;

static int number_of(const void *lock) {
    for (int i = 0; i < known; i++)
        if (locks[i].lock == lock) return i;
    if (known == LOCKS) return LOCKS;
    locks[known].lock = lock;
    return known++;
}

void locks_again(void) {
    strand_t s = me->plain;
    strand_t again = me->locked;
    if (me->held && again >= now.base && node(again)->kind == LOCKED && node(again)->parent == s &&
        node(again)->locks == me->held && node(again)->index == (int64_t)me->shared) {
        s = again;
    } else if (me->held) {
        s = me->locked = create_strand(me->plain, LOCKED, me->held);
        struct node *n = node(s), *p = node(me->plain);
        n->loop = p->loop;
        n->index = (int64_t)me->shared;
        n->place = p->place;
    }
    me->current = s;
    set_current_strand(s);
}

void lock_number_take(int n) {
    me->held |= (uint64_t)1 << n;
    used = true;
    locks_again();
}

void lock_number_leave(int n) {
    me->held &= ~((uint64_t)1 << n);
    locks_again();
}

struct sections {
    uint64_t own, shared; /* as a writer, as a reader */
    bool outside;         /* what is around is another task's: that may have left its section */
};

static void add_section(struct sections *all, const struct node *n) {
    if (n->kind == LOCKED && !all->outside) {
        all->own |= n->locks & ~(uint64_t)n->index;
        all->shared |= n->locks & (uint64_t)n->index;
    }
    all->outside = all->outside || n->kind == TASK;
}

/* The sections of each up to what both are of: a region or a simd loop within a section is in it. */
bool locks_keep_apart(strand_t a, strand_t b) {
    struct sections of_a = {0}, of_b = {0};
    if (!used) return false;
    while (a != b && (a >= weft_first || b >= weft_first)) {
        bool up_a = b < weft_first || (a >= weft_first && node(a)->depth >= node(b)->depth);
        add_section(up_a ? &of_a : &of_b, node(up_a ? a : b));
        *(up_a ? &a : &b) = node(up_a ? a : b)->parent;
    }
    return (of_a.own & (of_b.own | of_b.shared)) || (of_a.shared & of_b.own);
}

/* Two locks that are taken in both orders by strands that no path orders, with no third one around both. */
static struct taking {
    int first, second;
    strand_t strand;
    uint64_t others;
    uint32_t place;
} takings[4096];

static void order_seen(int second, uint32_t place) {
    for (int first = 0; first < LOCKS; first++) {
        if (!(me->held >> first & 1) || first == second) continue;
        uint64_t others = me->held & ~((uint64_t)1 << first);
        struct taking *back = &takings[second * 64 + first], *mine = &takings[first * 64 + second];
        if (back->place && back->strand >= now.base && !is_ordered_without_locks(back->strand, me->current) &&
            !(back->others & others))
            told_plain("lock-order", "", place, back->place);
        *mine = (struct taking){first, second, me->current, others, place};
    }
}

static void take(const void *lock, uint32_t place, bool as_reader) {
    if (!now.on) return;
    int n = number_of(lock);
    struct held *h = &locks[n];
    if (n < LOCKS) order_seen(n, place);
    else told_plain("left", "locks", place, 0);
    while (((h->by && h->by != me) || (h->readers && !as_reader)) && n < LOCKS) wait_until_woken(h, place);
    if (h->by == me && n < LOCKS) wait_until_woken(h, place); /* it waits for itself */
    if (as_reader) {
        h->readers++;
        me->shared |= (uint64_t)1 << n;
    } else {
        h->by = me;
    }
    me->wrote &= ~((uint64_t)1 << n);
    lock_number_take(n);
}

void lock_take(const void *lock, uint32_t place) { take(lock, place, false); }

/* Who only looks, or does nothing at all, under a lock waits there for what others did under it: for a flag, for the lock
 * itself. What they did comes before what it does from now on. */
static void handed_over(struct held *h, bool wrote) {
    strand_t history = h->history;
    if (!wrote && history >= now.base) order_strand_after(begin_segment(), history, now.next - 1);
    h->history = add_release_to_history(history, me->plain);
    me->released = me->plain;
    set_current_strand(me->current);
}

static void section_ends(struct held *h) {
    if (h->count && (h->ends[h->count - 1] < now.base || h->ends[h->count - 1] >= now.next)) h->count = 0;
    GROW(h->ends, h->count, h->room, 64);
    h->ends[h->count++] = now.next - 1;
}

/* The end of the section in which a strand has a lock. */
static strand_t section_end(const struct held *h, strand_t s) {
    size_t low = 0, high = h->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (h->ends[middle] < s) low = middle + 1;
        else high = middle;
    }
    return low < h->count ? h->ends[low] : s;
}

void locks_take_over(strand_t writer) {
    uint64_t common = node(writer)->locks & node(me->current)->locks;
    if (node(me->current)->kind != LOCKED || node(writer)->kind != LOCKED) return; /* parts of larger sections */
    for (int n = 0; n <= LOCKS; n++) {
        if (!(common >> n & 1) || locks[n].lock == &atomics) continue;
        if (!is_ordered(writer, me->current))
            order_strand_after_by_lock(begin_segment(), bare(writer), section_end(&locks[n], writer));
        return;
    }
}

void locks_watch(uintptr_t a, bool write) {
    if (a >= me->stack_low && a < me->frame) return;
    if (write) me->wrote |= me->held;
    strand_t left = me->released;
    me->released = 0;
    set_current_strand(me->current);
    if (left && left == me->plain) begin_segment();
}

/* Who waits for a flag by asking again and again must let others run. */
static void take_turns(void) {
    static unsigned turns;
    if (++turns % 16 == 0) yield_to_other_threads();
}

void lock_leave(const void *lock) {
    if (!now.on) return;
    int n = number_of(lock);
    bool wrote = me->wrote >> n & 1;
    if (me->shared >> n & 1) locks[n].readers--;
    else locks[n].by = NULL;
    me->shared &= ~((uint64_t)1 << n);
    lock_number_leave(n);
    if (lock != &atomics) {
        handed_over(&locks[n], wrote);
        section_ends(&locks[n]);
    }
    wake_waiting_threads(&locks[n]);
    take_turns();
}

/* A critical section keeps out the threads of one contention group (OpenMP 5.2, 15.2): each team of a league has locks of
 * its own, which lie in the bytes of the construct's. Of more than eight teams some share one. */
static const void *of_group(const char *name) { return name + omp_get_team_num() % GROUPS; }

void GOMP_critical_start(void) { lock_take(of_group(unnamed), place_of(PLACE)); }
void GOMP_critical_end(void) { lock_leave(of_group(unnamed)); }
void GOMP_critical_name_start(void **name) { lock_take(of_group((const char *)name), place_of(PLACE)); }
void GOMP_critical_name_end(void **name) { lock_leave(of_group((const char *)name)); }
void GOMP_atomic_start(void) { lock_take(&atomics, place_of(PLACE)); }
void GOMP_atomic_end(void) { lock_leave(&atomics); }

typedef void *omp_lock_t;
void omp_init_lock(omp_lock_t *l) { *(int *)l = 0; }
void omp_destroy_lock(omp_lock_t *l) { (void)l; }
void omp_set_lock(omp_lock_t *l) { lock_take(l, place_of(PLACE)); }
void omp_unset_lock(omp_lock_t *l) { lock_leave(l); }
int omp_test_lock(omp_lock_t *l) {
    if (now.on && locks[number_of(l)].by) {
        yield_to_other_threads();
        return 0;
    }
    lock_take(l, place_of(PLACE));
    return 1;
}
void omp_init_lock_with_hint(omp_lock_t *l, int hint) { (void)hint, omp_init_lock(l); }
void omp_init_nest_lock(omp_lock_t *l) { (void)l; }
void omp_init_nest_lock_with_hint(omp_lock_t *l, int hint) { (void)l, (void)hint; }
void omp_destroy_nest_lock(omp_lock_t *l) { (void)l; }
static int nested(omp_lock_t *l, uint32_t place) {
    if (!now.on) return 1;
    struct held *h = &locks[number_of(l)];
    if (h->by != me) {
        lock_take(l, place);
        h->depth = 0;
    }
    return (int)++h->depth;
}
void omp_set_nest_lock(omp_lock_t *l) { nested(l, place_of(PLACE)); }
void omp_unset_nest_lock(omp_lock_t *l) {
    if (now.on && --locks[number_of(l)].depth == 0) lock_leave(l);
}
int omp_test_nest_lock(omp_lock_t *l) {
    const struct held *h = &locks[number_of(l)];
    if (now.on && h->by && h->by != me) {
        yield_to_other_threads();
        return 0;
    }
    return nested(l, place_of(PLACE));
}

/* Mutexes of the system, as std::mutex is one: they are really taken, too, when their turn has come. */
extern int __real_pthread_mutex_lock(pthread_mutex_t *), __real_pthread_mutex_trylock(pthread_mutex_t *),
    __real_pthread_mutex_unlock(pthread_mutex_t *);

static void mutex_taken(pthread_mutex_t *m, uint32_t place) {
    if (now.on && (m->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE) nested((omp_lock_t *)m, place);
    else lock_take(m, place);
}
int __wrap_pthread_mutex_lock(pthread_mutex_t *m) {
    mutex_taken(m, place_of(PLACE));
    return __real_pthread_mutex_lock(m);
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m) {
    int refused = __real_pthread_mutex_trylock(m);
    if (!refused) mutex_taken(m, place_of(PLACE));
    else if (now.on) yield_to_other_threads();
    return refused;
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m) {
    int refused = __real_pthread_mutex_unlock(m);
    if (refused || !now.on || locks[number_of(m)].by != me) return refused; /* it was taken outside of the region */
    if ((m->__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE) omp_unset_nest_lock((omp_lock_t *)m);
    else lock_leave(m);
    return 0;
}

extern int __real_pthread_rwlock_rdlock(pthread_rwlock_t *), __real_pthread_rwlock_wrlock(pthread_rwlock_t *),
    __real_pthread_rwlock_tryrdlock(pthread_rwlock_t *), __real_pthread_rwlock_trywrlock(pthread_rwlock_t *),
    __real_pthread_rwlock_unlock(pthread_rwlock_t *);

int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    take(l, place_of(PLACE), true);
    return __real_pthread_rwlock_rdlock(l);
}
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    take(l, place_of(PLACE), false);
    return __real_pthread_rwlock_wrlock(l);
}
static int tried(pthread_rwlock_t *l, int refused, uint32_t place, bool as_reader) {
    if (!refused) take(l, place, as_reader);
    else if (now.on) yield_to_other_threads();
    return refused;
}
int __wrap_pthread_rwlock_tryrdlock(pthread_rwlock_t *l) {
    return tried(l, __real_pthread_rwlock_tryrdlock(l), place_of(PLACE), true);
}
int __wrap_pthread_rwlock_trywrlock(pthread_rwlock_t *l) {
    return tried(l, __real_pthread_rwlock_trywrlock(l), place_of(PLACE), false);
}
int __wrap_pthread_rwlock_unlock(pthread_rwlock_t *l) {
    int refused = __real_pthread_rwlock_unlock(l);
    if (!refused && now.on && me->held >> number_of(l) & 1) lock_leave(l);
    return refused;
}

/* What runs once: who comes later does nothing under its lock, and so comes after it. */
extern int __real_pthread_once(pthread_once_t *, void (*)(void));
int __wrap_pthread_once(pthread_once_t *once, void (*function)(void)) {
    lock_take(once, place_of(PLACE));
    int failed = __real_pthread_once(once, function);
    lock_leave(once);
    return failed;
}

/* Static variables of C++'s functions: the compiled program asks by an atomic read whether one is there. */
extern int __real___cxa_guard_acquire(uint8_t *) __attribute__((weak));
extern void __real___cxa_guard_release(uint8_t *) __attribute__((weak)),
    __real___cxa_guard_abort(uint8_t *) __attribute__((weak));
static unsigned statics_begun;
int __wrap___cxa_guard_acquire(uint8_t *guard) {
    while (now.on && statics_begun && guard[1] && is_other_thread_ready())
        yield_to_other_threads(); /* another one makes it */
    int is_first = __real___cxa_guard_acquire(guard);
    if (is_first) statics_begun++;
    else acquired((uintptr_t)guard, __ATOMIC_ACQUIRE);
    return is_first;
}
void __wrap___cxa_guard_release(uint8_t *guard) {
    statics_begun--;
    released((uintptr_t)guard, __ATOMIC_RELEASE);
    __real___cxa_guard_release(guard);
}
void __wrap___cxa_guard_abort(uint8_t *guard) {
    statics_begun--;
    __real___cxa_guard_abort(guard);
}

/* Fortran's names. */
void omp_init_lock_(omp_lock_t *l) { omp_init_lock(l); }
void omp_destroy_lock_(omp_lock_t *l) { (void)l; }
void omp_set_lock_(omp_lock_t *l) { lock_take(l, place_of(PLACE)); }
void omp_unset_lock_(omp_lock_t *l) { lock_leave(l); }
int omp_test_lock_(omp_lock_t *l) { return omp_test_lock(l); }
void omp_init_nest_lock_(omp_lock_t *l) { (void)l; }
void omp_destroy_nest_lock_(omp_lock_t *l) { (void)l; }
void omp_set_nest_lock_(omp_lock_t *l) { nested(l, place_of(PLACE)); }
void omp_unset_nest_lock_(omp_lock_t *l) { omp_unset_nest_lock(l); }
int omp_test_nest_lock_(omp_lock_t *l) { return omp_test_nest_lock(l); }
