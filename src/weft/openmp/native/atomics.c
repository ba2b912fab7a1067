/* Atomics: what one thread releases and another acquires is a path. */
#include "shadow.h"

#include <string.h>
#include <sys/mman.h>

/* The last release at an address; `node` below now.base: there is none any more. */
struct release {
    uintptr_t address;
    strand_t node, last;
};

#define FIRST_RELEASES 1024
static struct release first_releases[FIRST_RELEASES];
static struct release *releases = first_releases; /* a table of `release_room` places, a power of two; half are free */
static size_t release_room = FIRST_RELEASES, release_count;

/* Return the place of an address in the table of releases: its own, or a free one. */
static struct release *find_release_slot(uintptr_t address) {
    size_t at = (address >> 2) * 0x9E3779B97F4A7C15u >> 36;
    while (releases[at & (release_room - 1)].address && releases[at & (release_room - 1)].address != address) at++;
    return &releases[at & (release_room - 1)];
}

/* Double the table of releases, without those that are over. Without memory it stays as it is, and all are forgotten. */
static void grow_releases(void) {
    size_t old_room = release_room, size = 2 * old_room * sizeof *releases;
    struct release *old = releases,
                   *grown = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    release_count = 0;
    if (grown == MAP_FAILED) {
        memset(releases, 0, old_room * sizeof *releases);
        return;
    }
    releases = grown;
    release_room = 2 * old_room;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].address && old[i].node >= now.base) *find_release_slot(old[i].address) = old[i], release_count++;
    if (old != first_releases) munmap(old, old_room * sizeof *old);
}

/* Record a release at an address; `node` 0: a store there that releases nothing. */
static void set_release(uintptr_t address, strand_t node, strand_t last) {
    struct release *slot = find_release_slot(address);
    if (!slot->address) {
        if (!node) return;
        if (++release_count * 2 > release_room) {
            grow_releases();
            release_count++;
            slot = find_release_slot(address);
        }
    }
    *slot = (struct release){address, node, last};
}

/* Return whether an atomic store with this memory order releases, by itself or because of an earlier fence. */
static bool is_releasing(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST || me->fenced;
}

/* Record an atomic store: if it releases, everything that the running strand (iteration, task or thread) did so far
 * happens before what a later acquiring reader of the address does. */
void note_atomic_release(uintptr_t address, int order) {
    if (!now.on) return;
    bool releases_now = is_releasing(order);
    set_release(address, releases_now ? me->plain : 0, now.next - 1);
    if (releases_now) begin_segment();
}

/* Record a release that a relaxed load reads from: a fence may follow. */
static void note_fenced_load(strand_t from) {
    for (int i = 0; i < me->fence_count; i++)
        if (me->fence_from[i] == from) return;
    if (me->fence_count == MOST_FENCED)
        memmove(me->fence_from, me->fence_from + 1, (size_t)--me->fence_count * sizeof *me->fence_from);
    me->fence_from[me->fence_count++] = from;
}

/* Record an atomic load: if it acquires, the running strand (iteration, task or thread) continues after the release
 * that it reads from. A relaxed load does so only at a later fence. */
void note_atomic_acquire(uintptr_t address, int order) {
    if (!now.on) return;
    const struct release *slot = find_release_slot(address);
    if (slot->address != address || slot->node < now.base) return;
    if (order == __ATOMIC_RELAXED) return note_fenced_load(slot->node);
    strand_t from = slot->node, last = slot->last;
    if (find_whole_strand(from) != find_whole_strand(me->plain)) order_strand_after(begin_segment(), from, last);
}

/* Record an atomic read-modify-write: it acquires and releases by its memory order. An earlier release by another
 * strand stays valid (a release sequence). */
static void note_atomic_update(uintptr_t address, int order) {
    if (!now.on) return;
    struct release old = *find_release_slot(address);
    note_atomic_acquire(address, order);
    if (!is_releasing(order)) return;
    note_atomic_release(address, order);
    struct release *slot = find_release_slot(address);
    bool is_another_strand =
        old.address == address && old.node >= now.base && find_whole_strand(old.node) != find_whole_strand(slot->node);
    if (is_another_strand && order == __ATOMIC_RELAXED)
        slot->node = create_history_of_two(old.node, old.last, slot->node);
}

/* Record an atomic compare-and-swap: an update if it was done, else a load with another memory order. */
static void note_compare_exchange(uintptr_t address, bool is_done, int order, int failure_order) {
    if (is_done) note_atomic_update(address, order);
    else note_atomic_acquire(address, failure_order);
}

/* Record an atomic thread fence: earlier relaxed loads acquire now, and later relaxed stores release. */
static void note_fence(void) {
    if (!now.on) return;
    me->fenced = true;
    for (int i = 0; i < me->fence_count; i++) {
        strand_t from = me->fence_from[i];
        if (from >= now.base && find_whole_strand(from) != find_whole_strand(me->plain))
            order_strand_after(begin_segment(), from, now.next - 1);
    }
    me->fence_count = 0;
    yield_to_other_threads();
}

#define WRITES(address, n) check_hooked_access((uintptr_t)(address), n, true, ATOMIC, PLACE)
#define ATOMICS(bits, type)                                                                                            \
    type __tsan_atomic##bits##_load(const volatile type *address, int order) {                                         \
        check_hooked_access((uintptr_t)address, sizeof(type), false, ATOMIC, PLACE),                                   \
            yield_when_polling((uintptr_t)address), note_atomic_acquire((uintptr_t)address, order);                    \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile type *address, type v, int order) {                                      \
        WRITES(address, sizeof(type)), note_atomic_release((uintptr_t)address, order);                                 \
        __atomic_store_n(address, v, __ATOMIC_SEQ_CST);                                                                \
    }                                                                                                                  \
    type __tsan_atomic##bits##_exchange(volatile type *address, type v, int order) {                                   \
        WRITES(address, sizeof(type)), yield_when_polling((uintptr_t)address);                                         \
        note_atomic_update((uintptr_t)address, order);                                                                 \
        return __atomic_exchange_n(address, v, __ATOMIC_SEQ_CST);                                                      \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *address, type *c, type v, int order, int f) {     \
        WRITES(address, sizeof(type)), yield_when_polling((uintptr_t)address);                                         \
        int is_done = __atomic_compare_exchange_n(address, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
        note_compare_exchange((uintptr_t)address, is_done, order, f);                                                  \
        return is_done;                                                                                                \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *address, type *c, type v, int order, int f) {       \
        WRITES(address, sizeof(type)), yield_when_polling((uintptr_t)address);                                         \
        int is_done = __atomic_compare_exchange_n(address, c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
        note_compare_exchange((uintptr_t)address, is_done, order, f);                                                  \
        return is_done;                                                                                                \
    }                                                                                                                  \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type *address, type c, type v, int order, int f) {        \
        WRITES(address, sizeof(type)), yield_when_polling((uintptr_t)address);                                         \
        int is_done = __atomic_compare_exchange_n(address, &c, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
        note_compare_exchange((uintptr_t)address, is_done, order, f);                                                  \
        return c;                                                                                                      \
    }                                                                                                                  \
    FETCH(bits, type, add)                                                                                             \
    FETCH(bits, type, sub) FETCH(bits, type, and) FETCH(bits, type, or) FETCH(bits, type, xor) FETCH(bits, type, nand)
#define FETCH(bits, type, what)                                                                                        \
    type __tsan_atomic##bits##_fetch_##what(volatile type *address, type v, int order) {                               \
        WRITES(address, sizeof(type)), yield_when_polling((uintptr_t)address);                                         \
        note_atomic_update((uintptr_t)address, order);                                                                 \
        return __atomic_fetch_##what(address, v, __ATOMIC_SEQ_CST);                                                    \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order) { (void)order, note_fence(); }
void __tsan_atomic_signal_fence(int order) { (void)order; }
