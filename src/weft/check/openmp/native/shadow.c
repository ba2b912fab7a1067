/* The shadow of the program's memory, and what each access is compared with. */
#include "openmp.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TERA ((uintptr_t)1 << 40)
#define FOLD (2 * TERA - 1)
#define SPACE (16 * TERA)

/* Three planes for each size of granule: address bits are folded into 41. */
static inline struct word *plane8(uintptr_t a, int p) {
    return (struct word *)(SPACE + (uintptr_t)p * 2 * TERA + (a & FOLD & ~(uintptr_t)7));
}
static inline struct word *plane4(uintptr_t a, int p) {
    return (struct word *)(SPACE + (6 + (uintptr_t)p * 4) * TERA + ((a & FOLD & ~(uintptr_t)3) << 1));
}
static inline struct word *plane1(uintptr_t a, int p) {
    return (struct word *)(SPACE + (18 + (uintptr_t)p * 16) * TERA + ((a & FOLD) << 3));
}

void shadow_open(void) {
    void *low = (void *)SPACE;
    void *p = mmap(low, 66 * TERA, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != low) {
        told_plain("usage", "no-memory", 0, 0);
        _exit(2);
    }
    madvise(p, 66 * TERA, MADV_DONTFORK);
}

void shadow_restart(void) { madvise((void *)SPACE, 66 * TERA, MADV_DONTNEED); }

/* Whether what only one thread can have is meant: its stack below the region's start, its thread-local variables, a block
 * that it allocated in this region for itself. */
static bool own(uintptr_t a, strand_t other) {
    if (a >= me->stack_low && a < me->frame) return same_thread(other, now.current);
    if (a >= me->tls_low && a < me->tls_high) return true;
    uintptr_t low;
    size_t size;
    int thread;
    uint32_t since;
    if (!same_thread(other, now.current)) return false;
    if (me->team && me->team->number_asked) return true;
    return block_of(a, &low, &size, &thread, &since) && thread == me->slot && since >= now.base;
}

/* Lanes of one simd loop: within safelen, what an earlier one wrote. */
static bool lanes_apart(strand_t a, strand_t b, bool read_before) {
    const struct node *na = node(trunk(a)), *nb = node(trunk(b));
    if (na->kind != LANE || nb->kind != LANE || na->loop != nb->loop) return false;
    int64_t most = (int64_t)nb->locks;
    return read_before || (most && nb->index - na->index >= most);
}

static bool conflicts(struct word w, uintptr_t a, uint32_t place, bool read_before) {
    if (w.strand < now.base || w.strand == now.current || (w.place & place & ATOMIC)) return false;
    if (a >= me->stack_low && a < me->frame && same_thread(w.strand, now.current)) return false;
    const struct node *n = node(w.strand), *m = node(now.current);
    if (n->kind == LOCKED && m->kind == LOCKED && (n->locks & m->locks)) return false;
    return !ordered(w.strand, now.current) && !lanes_apart(w.strand, now.current, read_before) && !own(a, w.strand);
}

static void race(struct word w, uintptr_t a, size_t size, bool write, bool other_write, uint32_t place) {
    told_race(&(struct access){.address = a,
                               .size = size,
                               .write = write,
                               .other_write = other_write,
                               .place = place,
                               .other_place = w.place,
                               .strand = now.current,
                               .other = w.strand});
}

/* Whether what stands there says more than the current access: the same strand, with fewer locks. */
static bool weaker(struct word w, uint32_t place) {
    if (w.strand < now.base || trunk(w.strand) != trunk(now.current)) return false;
    const struct node *n = node(w.strand), *m = node(now.current);
    uint64_t held = n->kind == LOCKED ? n->locks : 0, mine = m->kind == LOCKED ? m->locks : 0;
    return ((held & ~mine) == 0 && held != mine) || (held == mine && place & ATOMIC && !(w.place & ATOMIC));
}

static void reads(struct word *first, struct word *second, uint32_t place) {
    struct word mine = {now.current, place};
    if (first->strand < now.base || ordered(first->strand, now.current)) {
        if (!weaker(*first, place)) *first = mine;
    } else if (second->strand < now.base || ordered(second->strand, now.current)) {
        if (!weaker(*second, place)) *second = mine;
    }
}

static inline void judge(struct word *w, struct word *r, struct word *q, uintptr_t a, size_t size, bool write,
                         uint32_t place) {
    if (write) {
        if (w->strand >= now.base && w->strand != now.current && conflicts(*w, a, place, false))
            race(*w, a, size, true, true, place);
        if (r->strand >= now.base && r->strand != now.current && conflicts(*r, a, place, true))
            race(*r, a, size, true, false, place);
        else if (q->strand >= now.base && q->strand != now.current && conflicts(*q, a, place, true))
            race(*q, a, size, true, false, place);
        if (w->strand < now.base || !weaker(*w, place)) *w = (struct word){now.current, place};
    } else {
        if (w->strand >= now.base && w->strand != now.current && conflicts(*w, a, place, false))
            race(*w, a, size, false, true, place);
        if (r->strand == now.current && !((r->place ^ place) & ATOMIC)) return;
        if (q->strand == now.current && !((q->place ^ place) & ATOMIC)) return;
        if (r->strand < now.base) *r = (struct word){now.current, place};
        else reads(r, q, place);
    }
}

static void split8(uintptr_t a) {
    for (int p = 0; p < 3; p++) {
        struct word *w = plane8(a, p);
        if (p && !w->strand && !plane4(a & ~(uintptr_t)7, p)->strand && !plane4(a | 4, p)->strand) continue;
        struct word *finer = plane4(a & ~(uintptr_t)7, p);
        finer[0] = finer[1] = *w;
    }
    plane8(a, 0)->strand = SPLIT;
}

static void split4(uintptr_t a) {
    for (int p = 0; p < 3; p++) {
        struct word *finer = plane1(a & ~(uintptr_t)3, p);
        finer[0] = finer[1] = finer[2] = finer[3] = *plane4(a, p);
    }
    plane4(a, 0)->strand = SPLIT;
}

static void access4(uintptr_t a, size_t size, bool write, uint32_t place) {
    struct word *w = plane4(a, 0);
    if (w->strand != SPLIT && size < 4) split4(a);
    if (w->strand != SPLIT) {
        judge(w, plane4(a, 1), plane4(a, 2), a, 4, write, place);
        return;
    }
    for (size_t i = 0; i < size; i++)
        judge(plane1(a + i, 0), plane1(a + i, 1), plane1(a + i, 2), a + i, 1, write, place);
}

static void access8(uintptr_t a, size_t size, bool write, uint32_t place) {
    struct word *w = plane8(a, 0);
    if (w->strand == IGNORED) return;
    if (w->strand != SPLIT && size < 8) split8(a);
    if (w->strand != SPLIT) {
        judge(w, plane8(a, 1), plane8(a, 2), a, 8, write, place);
        return;
    }
    while (size) {
        size_t part = 4 - a % 4 < size ? 4 - a % 4 : size;
        access4(a, part, write, place);
        a += part, size -= part;
    }
}

#define ON_STACK(a) ((a) - me->stack_low < me->stack_high - me->stack_low)

/* A task's part of the stack is forgotten with it, down to the lowest place that it came to. */
static inline void comes_down_to(uintptr_t a) {
    if (ON_STACK(a) && a < me->lowest) me->lowest = a;
}

void shadow_access(uintptr_t a, size_t size, bool write, uint32_t place) {
    now.touched = true;
    comes_down_to(a);
    while (size) {
        size_t part = 8 - a % 8 < size ? 8 - a % 8 : size;
        access8(a, part, write, place);
        a += part, size -= part;
    }
}

#define PAGE 4096
void shadow_clear(uintptr_t low, uintptr_t high) {
    low &= ~(uintptr_t)7, high = (high + 7) & ~(uintptr_t)7;
    uintptr_t inner = (low + PAGE - 1) & ~(uintptr_t)(PAGE - 1), end = high & ~(uintptr_t)(PAGE - 1);
    if (high - low < 64 * PAGE) {
        for (int p = 0; p < 3; p++) memset(plane8(low, p), 0, high - low);
        return;
    }
    for (int p = 0; p < 3; p++) {
        madvise(plane8(inner, p), end - inner, MADV_DONTNEED);
        madvise(plane4(inner, p), 2 * (end - inner), MADV_DONTNEED);
        madvise(plane1(inner, p), 8 * (end - inner), MADV_DONTNEED);
        memset(plane8(low, p), 0, inner - low);
        memset(plane8(end, p), 0, high - end);
    }
}

void shadow_ignore(uintptr_t low, uintptr_t high) {
    for (uintptr_t a = low & ~(uintptr_t)7; a < high; a += 8) plane8(a, 0)->strand = IGNORED;
}

/* --- what the compiler calls ------------------------------------------------------------------------------------- */

/* Most accesses: the strand did the same there before and nobody else since, or nobody was there in this phase. */
static inline bool simple(struct word *w, struct word *r, uintptr_t a, int size, bool write, uint32_t place) {
    strand_t mine = now.current, base = now.base;
    struct word *of = write ? w : r;
    if (of->strand == mine && !((of->place ^ place) & ATOMIC)) {
        if (!write || r->strand < base) return true;
        return r->strand == mine && (size == 8 ? plane8(a, 2) : plane4(a, 2))->strand < base;
    }
    if (w->strand >= base || r->strand >= base || ON_STACK(a)) return false;
    *of = (struct word){mine, place};
    now.touched = true;
    told_places[place & ~ATOMIC] = 1;
    return true;
}

static __attribute__((noinline)) void looked_at(uintptr_t a, size_t size, bool write, uint32_t flag, uint32_t place) {
    now.touched = true;
    told_places[place] = 1;
    comes_down_to(a);
    if (me->held || me->released) locks_watch(a, write);
    if (a - me->private_low < me->private_high - me->private_low) privates_access(a, size, write, place);
    place |= flag;
    struct word *w = plane8(a, 0);
    if (size == 8 && a % 8 == 0 && w->strand < SPECIAL) judge(w, plane8(a, 1), plane8(a, 2), a, 8, write, place);
    else if (size == 4 && a % 4 == 0 && w->strand == SPLIT && plane4(a, 0)->strand < SPECIAL)
        judge(plane4(a, 0), plane4(a, 1), plane4(a, 2), a, 4, write, place);
    else shadow_access(a, size, write, place);
}

static inline __attribute__((always_inline)) void hook(uintptr_t a, size_t size, bool write, uint32_t flag,
                                                       uintptr_t from) {
    if (!now.on) return;
    if (!(me->held | me->released)) {
        struct word *w = plane8(a, 0);
        if (size == 8 && a % 8 == 0 && w->strand < SPECIAL) {
            if (simple(w, plane8(a, 1), a, 8, write, place_of(from) | flag)) return;
        } else if (size == 4 && a % 4 == 0 && w->strand == SPLIT && plane4(a, 0)->strand < SPECIAL) {
            if (simple(plane4(a, 0), plane4(a, 1), a, 4, write, place_of(from) | flag)) return;
        }
    }
    looked_at(a, size, write, flag, place_of(from));
}

/* A program that waits for another thread by reading must let that one run. */
static void spins(void) {
    static unsigned turns;
    if (++turns % 64 == 0) threads_switch();
}

#define HOOKS(n)                                                                                                       \
    void __tsan_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                                                  \
    void __tsan_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                                  \
    void __tsan_unaligned_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                                        \
    void __tsan_unaligned_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                        \
    void __tsan_volatile_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE), spins(); }                                \
    void __tsan_volatile_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                         \
    void __tsan_unaligned_volatile_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                               \
    void __tsan_unaligned_volatile_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *p) { (void)p; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **a, void *b) { (void)a, (void)b; }
void __tsan_vptr_read(void **a) { (void)a; }
void __tsan_read_range(uintptr_t a, size_t n) {
    if (now.on) shadow_access(a, n, false, place_of(PLACE));
}
void __tsan_write_range(uintptr_t a, size_t n) {
    if (now.on) shadow_access(a, n, true, place_of(PLACE));
}

/* --- atomics: what one thread releases and another acquires is a path -------------------------------------------- */

static struct release {
    uintptr_t address;
    strand_t node, last;
} releases[1024];

static struct release *release_of(uintptr_t a) { return &releases[(a >> 2) * 2654435761u >> 22 & 1023]; }

static void released(uintptr_t a, int order) {
    if (!now.on) return;
    bool releasing = order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST || me->fenced;
    struct release *r = release_of(a);
    *r = (struct release){0};
    if (!releasing) return;
    *r = (struct release){a, me->plain, now.next - 1};
    segment();
}

static void acquired(uintptr_t a, int order) {
    if (!now.on) return;
    struct release *r = release_of(a);
    if (r->address != a || r->node < now.base) return;
    if (order == __ATOMIC_RELAXED) { /* a fence may follow */
        me->fence_from = r->node;
        return;
    }
    strand_t from = r->node, last = r->last;
    if (trunk(from) != trunk(me->plain)) comes_before(segment(), from, last);
}

static void fence(void) {
    if (!now.on) return;
    me->fenced = true;
    if (me->fence_from >= now.base && trunk(me->fence_from) != trunk(me->plain)) {
        strand_t from = me->fence_from;
        comes_before(segment(), from, now.next - 1);
    }
    me->fence_from = 0;
    threads_switch();
}

#define WRITES(a, n) hook((uintptr_t)(a), n, true, ATOMIC, PLACE)
#define ATOMICS(bits, type)                                                                                            \
    type __tsan_atomic##bits##_load(const volatile type *a, int order) {                                               \
        hook((uintptr_t)a, sizeof(type), false, ATOMIC, PLACE), spins(), acquired((uintptr_t)a, order);                \
        return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                                   \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile type *a, type v, int order) {                                            \
        WRITES(a, sizeof(type)), released((uintptr_t)a, order);                                                        \
        __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                                      \
    }                                                                                                                  \
    type __tsan_atomic##bits##_exchange(volatile type *a, type v, int order) {                                         \
        WRITES(a, sizeof(type));                                                                                       \
        if (order != __ATOMIC_RELAXED) acquired((uintptr_t)a, order), released((uintptr_t)a, order);                   \
        return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *a, type *c, type v, int order, int f) {           \
        (void)f, WRITES(a, sizeof(type)), spins();                                                                     \
        if (order != __ATOMIC_RELAXED) acquired((uintptr_t)a, order), released((uintptr_t)a, order);                   \
        return __atomic_compare_exchange_n(a, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *a, type *c, type v, int order, int f) {             \
        (void)f, WRITES(a, sizeof(type)), spins();                                                                     \
        if (order != __ATOMIC_RELAXED) acquired((uintptr_t)a, order), released((uintptr_t)a, order);                   \
        return __atomic_compare_exchange_n(a, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
    }                                                                                                                  \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *a, type c, type v, int order, int f) {              \
        (void)f, WRITES(a, sizeof(type)), spins();                                                                     \
        if (order != __ATOMIC_RELAXED) acquired((uintptr_t)a, order), released((uintptr_t)a, order);                   \
        __atomic_compare_exchange_n(a, &c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                  \
        return c;                                                                                                      \
    }                                                                                                                  \
    FETCH(bits, type, add)                                                                                             \
    FETCH(bits, type, sub) FETCH(bits, type, and) FETCH(bits, type, or) FETCH(bits, type, xor) FETCH(bits, type, nand)
#define FETCH(bits, type, what)                                                                                        \
    type __tsan_atomic##bits##_fetch_##what(volatile type *a, type v, int order) {                                     \
        WRITES(a, sizeof(type));                                                                                       \
        if (order != __ATOMIC_RELAXED) acquired((uintptr_t)a, order), released((uintptr_t)a, order);                   \
        return __atomic_fetch_##what(a, v, __ATOMIC_SEQ_CST);                                                          \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order) { (void)order, fence(); }
void __tsan_atomic_signal_fence(int order) { (void)order; }
