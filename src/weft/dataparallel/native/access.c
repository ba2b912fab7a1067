/* The compiler's hooks: what most accesses pass in a few instructions; the rest goes to judge(). */
#include "access.h"

#include "cells.h"
#include "findings.h"
#include "judge.h"
#include "loops.h"
#include "objects.h"
#include "regions.h"
#include "sites.h"
#include "turns.h"
#include "under_way.h"

struct clock weft_now = {.cur = FIRST_STAMP, .base = FIRST_STAMP, .off = true};
struct site weft_sites[SITES];

#define PLACE ((uintptr_t)__builtin_return_address(0))
#define LIKELY(x) __builtin_expect(!!(x), 1)

static inline struct site *site_for(uintptr_t place) { return &weft_sites[(place >> 2) & (SITES - 1)]; }

/* The finest cell that stands for [a, a+size) alone, or NULL: judge() takes care of it. */
static inline __attribute__((always_inline)) struct cell *cell_for(uintptr_t a, size_t size) {
    struct cell *c = cell8(a);
    if (size == 8) return c;
    if (size == 4 && c->written == SPLIT) {
        c = cell4(a);
        if (c->written != SPLIT) return c;
    }
    return NULL;
}

static inline bool site_allows(const struct site *s, uintptr_t a, uintptr_t place) {
    return s->key == place && a - *s->home - s->low <= s->reach;
}

/* A read of what is shared, at an open site: it is noted. (Where nothing is looked at no site is open.) */
static inline __attribute__((always_inline)) bool note_shared_read(uintptr_t a, size_t size, uintptr_t place,
                                                                   struct site *s) {
    if (!s->track || s->size != size || !site_allows(s, a, place)) return false;
    struct cell *c = cell_for(a, size);
    if (!c || c->written < s->since || (c->written > s->known && c->written != now.cur)) return false;
    if (c->read <= now.base && c->written != now.cur) c->read = now.cur;
    return true;
}

/* A read that is wrong just as the last one was: it is counted. */
static inline __attribute__((always_inline)) bool count_repeated_fault(uintptr_t a, size_t size, uintptr_t place,
                                                                       struct site *s) {
    if (!wrong_again(s, a, size, place)) return false;
    const struct cell *c = cell_for(a, size);
    if (!c || (c->written > now.base && c->written != now.cur)) return false;
    ++*s->wrong;
    return true;
}

/* Whether judge() has nothing to say of a write of what each iteration has of its own: it is not the first one of the
 * construct, and no other iteration reads what was there before. */
static bool is_harmless_own_write(const struct site *s, const struct cell *c) {
    if (weft_in_region || here.flags & WEFT_STRICT || weft_task.in_task || weft_parts_under_way || s->since)
        return false;
    if (c->read > now.base || (c->written >= SPLIT && c->written < NO_VALUE)) return false;
    for (int i = 0; i < here.written_count; i++)
        if (here.written[i] == s->object) return true;
    return false;
}

/* A write of all 8 bytes of a granule that was accessed by halves, as the hooks let pass: from here on it is one again,
 * as on the stack, where another function's 4-byte variables lay. */
static bool join_halves(const struct site *s, uintptr_t a, uintptr_t place) {
    const struct cell *low = cell4(a), *high = cell4(a + 4);
    if (s->track || cell8(a)->written != SPLIT || !site_allows(s, a, place) || low->read != high->read) return false;
    if (low->written - s->floor < s->span || high->written - s->floor < s->span) return false;
    if (low->written == SPLIT || high->written == SPLIT) return false;
    *cell8(a) = (struct cell){now.cur, low->read};
    return true;
}

/* Not the ordinary case of a parallel construct. */
static __attribute__((noinline)) void judge_read(uintptr_t a, size_t size, uintptr_t place, struct site *s) {
    if (now.off) return;
    if (weft_traced) {
        turns_access(a, size, false, place);
        return;
    }
    if (!now.looked && !wrong_again(s, a, size, place)) {
        stamp_t w = cell8(a)->written;
        if (LIKELY(w <= now.cur) || (size == 4 && w == SPLIT && LIKELY(cell4(a)->written <= now.cur))) return;
    }
    judge(a, size, false, place, s);
}

static __attribute__((noinline)) void judge_write(uintptr_t a, size_t size, uintptr_t place, struct site *s) {
    if (now.off) return;
    if (weft_traced) {
        turns_access(a, size, true, place);
        return;
    }
    struct cell *c = cell_for(a, size);
    if (wrong_again(s, a, size, place)) {
        if (c && (c->written <= now.base || c->written == now.cur)) {
            ++*s->wrong;
            c->written = now.cur;
            return;
        }
    } else if (!now.looked) {
        if (LIKELY(c && c->written - SPLIT > REDZONE - SPLIT)) {
            c->written = now.cur;
            return;
        }
    } else {
        if (s->key == place && s->mode == FREE && site_allows(s, a, place)) return;
        if (s->track == 1 && s->size == size && site_allows(s, a, place) && c &&
            (c->written <= now.base || c->written >= NO_VALUE) && (c->read <= now.base || c->read == now.cur)) {
            c->written = now.cur;
            return;
        }
        if (size == 8 && join_halves(s, a, place)) return;
        if (s->track == 2 && s->write && s->size == size && site_allows(s, a, place) && c &&
            is_harmless_own_write(s, c)) {
            c->written = now.cur;
            return;
        }
    }
    judge(a, size, true, place, s);
}

static inline __attribute__((always_inline)) void handle_read(uintptr_t a, size_t size, uintptr_t place) {
    struct site *s = site_for(place);
    if (LIKELY(site_allows(s, a, place))) {
        const struct cell *c = cell8(a);
        if (size <= 4 && c->written == SPLIT) c = cell4(a);
        stamp_t w = c->written;
        if (LIKELY(w - s->least <= s->limit) || w == now.cur) return;
    }
    if (!note_shared_read(a, size, place, s) && !count_repeated_fault(a, size, place, s)) judge_read(a, size, place, s);
}

static inline __attribute__((always_inline)) void handle_write(uintptr_t a, size_t size, uintptr_t place) {
    struct site *s = site_for(place);
    if (LIKELY(site_allows(s, a, place))) {
        struct cell *c = cell_for(a, size);
        if (LIKELY(c && (c->written - s->floor >= s->span || c->written == now.cur))) {
            c->written = now.cur;
            return;
        }
    }
    judge_write(a, size, place, s);
}

/* What rewritten assembly calls where its own few instructions did not let the access pass. The site is the place's own. */
#define SLOW(n)                                                                                                        \
    void weft_check_slow_read##n(uintptr_t a, struct site *s) {                                                        \
        if (!note_shared_read(a, n, s->key, s) && !count_repeated_fault(a, n, s->place, s))                            \
            judge_read(a, n, PLACE, s);                                                                                \
    }                                                                                                                  \
    void weft_check_slow_write##n(uintptr_t a, struct site *s) { judge_write(a, n, PLACE, s); }
SLOW(4)
SLOW(8)

/* Pieces that keep to the granules: what is not aligned, and ranges. */
static void split_access(uintptr_t a, size_t size, bool write, uintptr_t place) {
    if (now.off) return;
    if (weft_traced) {
        turns_access(a, size, write, place);
        return;
    }
    while (size) {
        size_t n = size >= 8 && a % 8 == 0 ? 8 : size >= 4 && a % 4 == 0 ? 4 : size >= 2 && a % 2 == 0 ? 2 : 1;
        if (write)
            n == 8   ? handle_write(a, 8, place)
            : n == 4 ? handle_write(a, 4, place)
                     : judge(a, n, true, place, site_for(place));
        else
            n == 8   ? handle_read(a, 8, place)
            : n == 4 ? handle_read(a, 4, place)
                     : judge(a, n, false, place, site_for(place));
        a += n;
        size -= n;
    }
}

void access_range(uintptr_t a, size_t size, bool write, uintptr_t place) { split_access(a, size, write, place); }

#define GATE                                                                                                           \
    if (__builtin_expect(now.off, 0)) return;

#define HOOKS(n)                                                                                                       \
    void __tsan_read##n(void *p) { handle_read((uintptr_t)p, n, PLACE); }                                              \
    void __tsan_write##n(void *p) { handle_write((uintptr_t)p, n, PLACE); }
#define PIECES(n)                                                                                                      \
    void __tsan_unaligned_read##n(void *p) { split_access((uintptr_t)p, n, false, PLACE); }                            \
    void __tsan_unaligned_write##n(void *p) { split_access((uintptr_t)p, n, true, PLACE); }
HOOKS(8)
HOOKS(4)
PIECES(2)
PIECES(4)
PIECES(8)
PIECES(16)

void __tsan_read1(void *p) { split_access((uintptr_t)p, 1, false, PLACE); }
void __tsan_write1(void *p) { split_access((uintptr_t)p, 1, true, PLACE); }
void __tsan_read2(void *p) { split_access((uintptr_t)p, 2, false, PLACE); }
void __tsan_write2(void *p) { split_access((uintptr_t)p, 2, true, PLACE); }
void __tsan_read16(void *p) { split_access((uintptr_t)p, 16, false, PLACE); }
void __tsan_write16(void *p) { split_access((uintptr_t)p, 16, true, PLACE); }
void __tsan_read_range(void *p, size_t n) { split_access((uintptr_t)p, n, false, PLACE); }
void __tsan_write_range(void *p, size_t n) { split_access((uintptr_t)p, n, true, PLACE); }
void __tsan_read_write8(void *p) {
    handle_read((uintptr_t)p, 8, PLACE);
    handle_write((uintptr_t)p, 8, PLACE);
}
void __tsan_vptr_update(void **p, void *v) { (void)p, (void)v; }
void __tsan_vptr_read(void **p) { (void)p; }
void __tsan_init(void) {}

static uintptr_t frames[4096];
unsigned weft_depth;

void __tsan_func_entry(void *caller) {
    (void)caller;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (weft_depth && frames[weft_depth - 1] <= frame) /* longjmp left these */
        weft_depth--;
    if (weft_depth < sizeof frames / sizeof *frames) frames[weft_depth++] = frame;
}

void __tsan_func_exit(void) {
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (weft_depth && frames[weft_depth - 1] < frame) weft_depth--;
    if (weft_depth) weft_depth--;
    uintptr_t caller = weft_depth ? frames[weft_depth - 1] : 0;
    if (caller && weft_lowest_stack < caller) objects_leave(caller);
}

static inline uintptr_t place_of(int site, uintptr_t caller) { return site ? (uintptr_t)site << 2 : caller; }

void weft_check_read(const void *address, size_t bytes, int site) {
    if (LIKELY(bytes == 8 && (uintptr_t)address % 8 == 0)) handle_read((uintptr_t)address, 8, place_of(site, PLACE));
    else split_access((uintptr_t)address, bytes, false, place_of(site, PLACE));
}

void weft_check_write(const void *address, size_t bytes, int site) {
    if (LIKELY(bytes == 8 && (uintptr_t)address % 8 == 0)) handle_write((uintptr_t)address, 8, place_of(site, PLACE));
    else split_access((uintptr_t)address, bytes, true, place_of(site, PLACE));
}

void weft_check_out_of_bounds(int data, const void *base, int dimension, int64_t index, int64_t low, int64_t high,
                              int site) {
    GATE findings_bounds(data, (uintptr_t)base, dimension, index, low, high, place_of(site, PLACE));
}

void weft_check_out_of_bounds_at(int data, const void *base, int dimension, int64_t index, int64_t low, int64_t high,
                                 const void *pc) {
    GATE findings_bounds(data, (uintptr_t)base, dimension, index, low, high, (uintptr_t)pc);
}

/* -fsanitize=bounds (gcc and clang; layout of libubsan's ubsan_handlers.h: SourceLocation, two type descriptors). */
struct ubsan_type {
    uint16_t kind, info;
    char name[];
};
struct ubsan_bounds {
    const char *file;
    uint32_t line, column;
    const struct ubsan_type *array, *index;
};

static int64_t ubsan_value(const struct ubsan_type *type, uintptr_t value) {
    unsigned bits = 1u << (type->info >> 1);
    if (bits > 64) return *(const int64_t *)value;
    if (type->info & 1 && bits < 64) return (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits);
    return (int64_t)value;
}

void __ubsan_handle_out_of_bounds(struct ubsan_bounds *d, uintptr_t value) {
    GATE findings_place(d->file, d->line, d->column, d->array->name, ubsan_value(d->index, value));
}

void __ubsan_handle_out_of_bounds_abort(struct ubsan_bounds *d, uintptr_t value) {
    __ubsan_handle_out_of_bounds(d, value);
}
