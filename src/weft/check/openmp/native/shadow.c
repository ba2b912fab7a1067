/* The shadow of the program's memory, and what each access is compared with. */
#include "openmp.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INLINE static inline __attribute__((always_inline))
#define FOLD (2 * TERA - 1)
#define SPACE SHADOW
#define ALL SHADOW_SIZE

/* Three planes for each size of granule: address bits are folded into 41. */
INLINE mark_t *plane8(uintptr_t a, int p) {
    return (mark_t *)(SPACE + (uintptr_t)p * TERA + ((a & FOLD & ~(uintptr_t)7) >> 1));
}
INLINE mark_t *plane4(uintptr_t a, int p) {
    return (mark_t *)(SPACE + (3 + (uintptr_t)p * 2) * TERA + (a & FOLD & ~(uintptr_t)3));
}
INLINE mark_t *plane1(uintptr_t a, int p) {
    return (mark_t *)(SPACE + (9 + (uintptr_t)p * 8) * TERA + ((a & FOLD) << 2));
}

static void *reserved(void *at, size_t size) {
    void *p = mmap(at, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    if (p == MAP_FAILED || (at && p != at)) {
        told_plain("usage", "no-memory", 0, 0);
        _exit(2);
    }
    madvise(p, size, MADV_DONTFORK);
    return p;
}

void shadow_reserve(uintptr_t at, size_t size) { reserved((void *)at, size); }

/* --- marks ------------------------------------------------------------------------------------------------------- */

#define FIRST_PLAIN 2u
#define FIRST_ATOMIC (ATOMIC + 2)
#define MOST_OLD 0x60000000u /* beyond so many, numbers begin anew */
#define PLACES ((size_t)1 << 31)
#define MARKS ((size_t)1 << 30)

static struct mark *plain_marks, *atomic_marks; /* from now.old and now.old_atomic on, which stand at their start */
static mark_t *last_marks; /* by place: the last one that was made there */

void shadow_turn(void) {
    now.mine = now.mark, now.room = PLAIN_END - now.mine;
    memset(now.past, 0, sizeof now.past);
}

static void marks_restart(void) {
    now.old = now.mark = now.row_mark = FIRST_PLAIN, now.old_atomic = now.atomic = FIRST_ATOMIC;
    shadow_turn();
}

void shadow_open(void) {
    reserved((void *)SPACE, ALL);
    plain_marks = reserved(NULL, MARKS * sizeof *plain_marks);
    atomic_marks = reserved(NULL, MARKS * sizeof *atomic_marks);
    last_marks = reserved(NULL, PLACES * sizeof *last_marks);
    marks_restart();
}

void shadow_restart(void) {
    madvise((void *)SPACE, ALL, MADV_DONTNEED);
    for (size_t place = 0; place < now.text; place++)
        if (last_marks[place]) last_marks[place] = 1;
    marks_restart();
}

void shadow_forget(void) {
    now.old = now.row_mark = now.mark, now.old_atomic = now.atomic;
    shadow_turn();
}

bool shadow_full(void) { return now.mark > MOST_OLD || now.atomic - ATOMIC > MOST_OLD; }

size_t shadow_places(void) {
    size_t count = 0;
    for (size_t i = 0; i < now.text; i++) count += last_marks[i] != 0;
    return count;
}

/* Whether the running strand made it since it runs, by an access that is not atomic. */
INLINE bool mine(mark_t m) { return m - now.mine < now.room; }

INLINE bool over(mark_t m) { return m < (m & ATOMIC ? now.old_atomic : now.old); }

static inline struct mark *mark(mark_t m) {
    return m & ATOMIC ? &atomic_marks[(m - now.old_atomic) / 2] : &plain_marks[(m - now.old) / 2];
}

static inline strand_t strand_of(mark_t m) { return mark(m)->strand; }

static __attribute__((noinline)) mark_t mark_made(uint32_t place) {
    mark_t *last = &last_marks[place & ~ATOMIC], m = *last;
    if (!over(m) && !((m ^ place) & ATOMIC) && strand_of(m) == now.current) return m;
    mark_t *next = place & ATOMIC ? &now.atomic : &now.mark;
    if (*next >= (place & ATOMIC ? SPECIAL : PLAIN_END)) { /* what is not marked is as if it were over */
        told_plain("left", "crowd", place & ~ATOMIC, 0);
        return 0;
    }
    m = *next, *next += 2;
    *mark(m) = (struct mark){now.current, place};
    return *last = m | (now.in_row && !(m & ATOMIC));
}

INLINE mark_t mark_of(uint32_t place) {
    mark_t m = last_marks[place & ~ATOMIC];
    return mine(m) && !(place & ATOMIC) ? m : mark_made(place);
}

/* --- what is a conflict ------------------------------------------------------------------------------------------ */

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

/* What is known to come before the running strand, is known of all its accesses. */
static bool came_before(mark_t m) {
    static unsigned turn;
    if (!ordered(strand_of(m), now.current)) return false;
    now.past[turn++ % PAST] = m;
    return true;
}

static bool conflicts(mark_t m, uintptr_t a, uint32_t place, bool read_before) {
    if (over(m) || (m & place & ATOMIC) || (strand_of(m) == now.current && came_before(m))) return false;
    strand_t s = strand_of(m);
    if (a >= me->stack_low && a < me->frame && same_thread(s, now.current)) return false;
    const struct node *n = node(s), *mine = node(now.current);
    if (n->kind == LOCKED && mine->kind == LOCKED && (n->locks & mine->locks)) return false;
    return !came_before(m) && !lanes_apart(s, now.current, read_before) && !own(a, s);
}

static void race(mark_t m, uintptr_t a, size_t size, bool write, bool other_write, uint32_t place) {
    told_race(&(struct access){.address = a,
                               .size = size,
                               .write = write,
                               .other_write = other_write,
                               .place = place,
                               .other_place = mark(m)->place,
                               .strand = now.current,
                               .other = strand_of(m)});
}

/* Whether what stands there says more than the current access: the same strand, with fewer locks. */
static bool weaker(mark_t m, uint32_t place) {
    if (over(m) || trunk(strand_of(m)) != trunk(now.current)) return false;
    const struct node *n = node(strand_of(m)), *current = node(now.current);
    uint64_t held = n->kind == LOCKED ? n->locks : 0, mine = current->kind == LOCKED ? current->locks : 0;
    return ((held & ~mine) == 0 && held != mine) || (held == mine && place & ATOMIC && !(m & ATOMIC));
}

/* One of the two words of reads: who reads now takes the place of who comes before it. */
static bool reads(mark_t *m, uint32_t place) {
    if (!over(*m) && !came_before(*m)) return false;
    if (!weaker(*m, place)) *m = mark_of(place);
    return true;
}

static bool has_read(mark_t m, uint32_t place) {
    return !over(m) && strand_of(m) == now.current && !((m ^ place) & ATOMIC);
}

/* An access of a granule with its words: the last write, two reads. */
static void judge(mark_t *w, mark_t *r, mark_t *q, uintptr_t a, size_t size, bool write, uint32_t place) {
    if (!mine(*w) && conflicts(*w, a, place, false)) race(*w, a, size, write, true, place);
    if (write) {
        if (!mine(*r) && conflicts(*r, a, place, true)) race(*r, a, size, true, false, place);
        else if (!mine(*q) && conflicts(*q, a, place, true)) race(*q, a, size, true, false, place);
        if (!weaker(*w, place)) *w = mark_of(place);
    } else if (!has_read(*r, place) && !has_read(*q, place) && !reads(r, place)) {
        reads(q, place);
    }
}

static void split8(uintptr_t a) {
    for (int p = 0; p < 3; p++) {
        mark_t m = *plane8(a, p), *finer = plane4(a & ~(uintptr_t)7, p);
        if (m || finer[0] || finer[1]) finer[0] = finer[1] = m;
    }
    *plane8(a, 0) = SPLIT;
}

static void split4(uintptr_t a) {
    for (int p = 0; p < 3; p++) {
        mark_t m = *plane4(a, p), *finer = plane1(a & ~(uintptr_t)3, p);
        if (m || finer[0] || finer[1] || finer[2] || finer[3]) finer[0] = finer[1] = finer[2] = finer[3] = m;
    }
    *plane4(a, 0) = SPLIT;
}

static void access4(uintptr_t a, size_t size, bool write, uint32_t place) {
    mark_t *w = plane4(a, 0);
    if (*w != SPLIT && size < 4) split4(a);
    if (*w != SPLIT) {
        judge(w, plane4(a, 1), plane4(a, 2), a, 4, write, place);
        return;
    }
    for (size_t i = 0; i < size; i++)
        judge(plane1(a + i, 0), plane1(a + i, 1), plane1(a + i, 2), a + i, 1, write, place);
}

static void access8(uintptr_t a, size_t size, bool write, uint32_t place) {
    mark_t *w = plane8(a, 0);
    if (*w == IGNORED) return;
    if (*w != SPLIT && size < 8) split8(a);
    if (*w != SPLIT) {
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

void shadow_range(uintptr_t a, size_t size, bool write, uint32_t place) {
    if (now.devices && size) devices_access(a, size, write, place);
    if (now.on) shadow_access(a, size, write, place);
}

/* What is nothing already stays untouched: it takes no memory. */
static void nothing_in(mark_t *first, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof *first; i++)
        if (first[i]) first[i] = 0;
}

#define PAGE 8192 /* of memory that has a page of the coarsest plane */
void shadow_clear(uintptr_t low, uintptr_t high) {
    low &= ~(uintptr_t)7, high = (high + 7) & ~(uintptr_t)7;
    uintptr_t inner = (low + PAGE - 1) & ~(uintptr_t)(PAGE - 1), end = high & ~(uintptr_t)(PAGE - 1);
    if (high - low < 64 * PAGE) {
        for (int p = 0; p < 3; p++) nothing_in(plane8(low, p), (high - low) / 2);
        return;
    }
    for (int p = 0; p < 3; p++) {
        madvise(plane8(inner, p), (end - inner) / 2, MADV_DONTNEED);
        madvise(plane4(inner, p), end - inner, MADV_DONTNEED);
        madvise(plane1(inner, p), 4 * (end - inner), MADV_DONTNEED);
        nothing_in(plane8(low, p), (inner - low) / 2);
        nothing_in(plane8(end, p), (high - end) / 2);
    }
}

void shadow_ignore(uintptr_t low, uintptr_t high) {
    for (uintptr_t a = low & ~(uintptr_t)7; a < high; a += 8) *plane8(a, 0) = IGNORED;
}

/* --- what the compiler calls ------------------------------------------------------------------------------------- */

INLINE bool of_row(mark_t m) { return m & ROW && m - now.row_mark < PLAIN_END - now.row_mark; }

INLINE bool gone(mark_t m) {
    return m < now.old || m == now.past[0] || m == now.past[1] || m == now.past[2] || m == now.past[3];
}

static __attribute__((noinline)) void first_there(mark_t *word, uint32_t place) { *word = mark_made(place); }

/* The running strand is the only one of this phase there. */
INLINE bool takes(mark_t *word, uintptr_t a, uint32_t place) {
    if (ON_STACK(a)) return false;
    mark_t m = last_marks[place];
    now.touched = true;
    if (mine(m)) *word = m;
    else first_there(word, place);
    return true;
}

/* Most reads: the strand did the same before, or nobody was there in this phase but readers: itself, one more, or two
 * iterations of the loop that it is of. */
INLINE bool read_known(mark_t w, mark_t *first, mark_t *second, uintptr_t a, uint32_t place) {
    mark_t r = *first;
    if (mine(r)) return true;
    if (w >= now.old && !mine(w) && !gone(w)) return false;
    if (gone(r)) return takes(first, a, place);
    mark_t q = *second;
    if (mine(q)) return true;
    return now.in_row && of_row(r) && (of_row(q) || (q < now.old && takes(second, a, place)));
}

/* Most writes: nobody else was there in this phase. */
INLINE bool write_known(mark_t *last, mark_t r, const mark_t *second, uintptr_t a, uint32_t place) {
    mark_t w = *last;
    if (r >= now.old && !((mine(r) || gone(r)) && (*second < now.old || mine(*second)))) return false;
    if (mine(w)) return true;
    return gone(w) && takes(last, a, place);
}

#define KNOWN(plane)                                                                                                   \
    (write ? write_known(plane(a, 0), *plane(a, 1), plane(a, 2), a, place)                                             \
           : read_known(*plane(a, 0), plane(a, 1), plane(a, 2), a, place))
INLINE bool known(uintptr_t a, size_t size, bool write, uint32_t place) {
    if (size == 8) return a % 8 == 0 && KNOWN(plane8);
    if (size == 4) return a % 4 == 0 && *plane8(a, 0) == SPLIT && KNOWN(plane4);
    return size == 1 && *plane8(a, 0) == SPLIT && *plane4(a, 0) == SPLIT && KNOWN(plane1);
}

static __attribute__((noinline)) void looked_at(uintptr_t a, size_t size, bool write, uint32_t flag, uint32_t place) {
    now.touched = true;
    comes_down_to(a);
    if (me->held || me->released) locks_watch(a, write);
    if (a - me->private_low < me->private_high - me->private_low) privates_access(a, size, write, place);
    place |= flag;
    mark_t *w = plane8(a, 0);
    if (size == 8 && a % 8 == 0 && *w < SPECIAL) judge(w, plane8(a, 1), plane8(a, 2), a, 8, write, place);
    else if (size == 4 && a % 4 == 0 && *w == SPLIT && *plane4(a, 0) < SPECIAL)
        judge(plane4(a, 0), plane4(a, 1), plane4(a, 2), a, 4, write, place);
    else shadow_access(a, size, write, place);
}

/* Whether nothing else is to be looked at. */
static __attribute__((noinline)) bool with_devices(uintptr_t a, size_t size, bool write, uint32_t flag,
                                                   uint32_t place) {
    devices_access(a, size, write, place);
    return !now.on || (!now.locks && !flag && known(a, size, write, place));
}

INLINE void hook(uintptr_t a, size_t size, bool write, uint32_t flag, uintptr_t from) {
    if (!now.apart) {
        if (!flag && known(a, size, write, place_of(from))) return;
    } else if (!now.on && !now.devices) {
        return;
    } else if (now.devices && with_devices(a, size, write, flag, place_of(from))) {
        return;
    }
    looked_at(a, size, write, flag, place_of(from));
}

/* A program that waits for another thread by reading must let that one run. */
static void spins(void) {
    static unsigned turns;
    if (++turns % 64 == 0) threads_switch();
}

/* The chain of frames goes past a hook, which needs none of its own where nothing is to be looked at. */
#define HOOK __attribute__((optimize("omit-frame-pointer"), section("weft_hooks")))
#define HOOKS(n)                                                                                                       \
    HOOK void __tsan_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                                             \
    HOOK void __tsan_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                             \
    HOOK void __tsan_unaligned_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                                   \
    HOOK void __tsan_unaligned_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                   \
    HOOK void __tsan_volatile_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE), spins(); }                           \
    HOOK void __tsan_volatile_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                    \
    HOOK void __tsan_unaligned_volatile_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                          \
    HOOK void __tsan_unaligned_volatile_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }
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
void __tsan_read_range(uintptr_t a, size_t n) { shadow_range(a, n, false, place_of(PLACE)); }
void __tsan_write_range(uintptr_t a, size_t n) { shadow_range(a, n, true, place_of(PLACE)); }

/* --- atomics: what one thread releases and another acquires is a path -------------------------------------------- */

static struct release {
    uintptr_t address;
    strand_t node, last;
} releases[1024];

static struct release *release_of(uintptr_t a) { return &releases[(a >> 2) * 2654435761u >> 22 & 1023]; }

static bool releases_now(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST || me->fenced;
}

static void released(uintptr_t a, int order) {
    if (!now.on) return;
    struct release *r = release_of(a);
    *r = (struct release){0};
    if (!releases_now(order)) return;
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

/* Read, and written with what comes of it: a release that stood there holds on. */
static void updated(uintptr_t a, int order) {
    if (!now.on) return;
    struct release was = *release_of(a);
    acquired(a, order);
    if (!releases_now(order)) return;
    released(a, order);
    struct release *r = release_of(a);
    bool another = was.address == a && was.node >= now.base && trunk(was.node) != trunk(r->node);
    if (another && order == __ATOMIC_RELAXED) r->node = history_of_two(was.node, was.last, r->node);
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
        updated((uintptr_t)a, order);                                                                                  \
        return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *a, type *c, type v, int order, int f) {           \
        (void)f, WRITES(a, sizeof(type)), spins();                                                                     \
        updated((uintptr_t)a, order);                                                                                  \
        return __atomic_compare_exchange_n(a, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *a, type *c, type v, int order, int f) {             \
        (void)f, WRITES(a, sizeof(type)), spins();                                                                     \
        updated((uintptr_t)a, order);                                                                                  \
        return __atomic_compare_exchange_n(a, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                            \
    }                                                                                                                  \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *a, type c, type v, int order, int f) {              \
        (void)f, WRITES(a, sizeof(type)), spins();                                                                     \
        updated((uintptr_t)a, order);                                                                                  \
        __atomic_compare_exchange_n(a, &c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                  \
        return c;                                                                                                      \
    }                                                                                                                  \
    FETCH(bits, type, add)                                                                                             \
    FETCH(bits, type, sub) FETCH(bits, type, and) FETCH(bits, type, or) FETCH(bits, type, xor) FETCH(bits, type, nand)
#define FETCH(bits, type, what)                                                                                        \
    type __tsan_atomic##bits##_fetch_##what(volatile type *a, type v, int order) {                                     \
        WRITES(a, sizeof(type));                                                                                       \
        updated((uintptr_t)a, order);                                                                                  \
        return __atomic_fetch_##what(a, v, __ATOMIC_SEQ_CST);                                                          \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order) { (void)order, fence(); }
void __tsan_atomic_signal_fence(int order) { (void)order; }
