/* Atomics: what one thread releases and another acquires is a path. */
#include "shadow.h"

static struct release {
    uintptr_t address;
    strand_t node, last;
} releases[1024];

static struct release *release_of(uintptr_t a) { return &releases[(a >> 2) * 2654435761u >> 22 & 1023]; }

static bool releases_now(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST || me->fenced;
}

void released(uintptr_t a, int order) {
    if (!now.on) return;
    struct release *r = release_of(a);
    *r = (struct release){0};
    if (!releases_now(order)) return;
    *r = (struct release){a, me->plain, now.next - 1};
    begin_segment();
}

void acquired(uintptr_t a, int order) {
    if (!now.on) return;
    struct release *r = release_of(a);
    if (r->address != a || r->node < now.base) return;
    if (order == __ATOMIC_RELAXED) { /* a fence may follow */
        me->fence_from = r->node;
        return;
    }
    strand_t from = r->node, last = r->last;
    if (trunk(from) != trunk(me->plain)) order_strand_after(begin_segment(), from, last);
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
    if (another && order == __ATOMIC_RELAXED) r->node = create_history_of_two(was.node, was.last, r->node);
}

static void fence(void) {
    if (!now.on) return;
    me->fenced = true;
    if (me->fence_from >= now.base && trunk(me->fence_from) != trunk(me->plain)) {
        strand_t from = me->fence_from;
        order_strand_after(begin_segment(), from, now.next - 1);
    }
    me->fence_from = 0;
    yield_to_other_threads();
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
