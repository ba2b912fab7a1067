/* The compiler's hooks: what most accesses pass in a few instructions; the rest goes to judge_access(). */
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

static inline struct site *site_for(uintptr_t pc) { return &weft_sites[(pc >> 2) & (SITES - 1)]; }

/* Return the shadow cell that stands for exactly [address, address + size), or NULL where there is none: then
 * judge_access() splits cells. */
static inline __attribute__((always_inline)) struct cell *find_exact_cell(uintptr_t address, size_t size) {
    struct cell *cell = cell8(address);
    if (size == 8) return cell;
    if (size == 4 && cell->written == SPLIT) {
        cell = cell4(address);
        if (cell->written != SPLIT) return cell;
    }
    return NULL;
}

static inline bool is_within_site(const struct site *site, uintptr_t address, uintptr_t pc) {
    return site->key == pc && address - *site->home - site->low <= site->reach;
}

/* Note a read of shared data if its site (what this place of the program may access) is open and the cell allows it.
 * Return whether the read is done with; else it has to be judged. */
static inline __attribute__((always_inline)) bool note_shared_read(uintptr_t address, size_t size, uintptr_t pc,
                                                                   struct site *site) {
    if (!site->track || site->size != size || !is_within_site(site, address, pc)) return false;
    struct cell *cell = find_exact_cell(address, size);
    if (!cell || cell->written < site->since || (cell->written > site->known && cell->written != now.cur)) return false;
    if (cell->read <= now.base && cell->written != now.cur) cell->read = now.cur;
    return true;
}

/* Count a read that has the fault already reported for its site (what one place in the code may access). Return whether
 * the read is done with; else it has to be judged. */
static inline __attribute__((always_inline)) bool count_repeated_fault(uintptr_t address, size_t size, uintptr_t pc,
                                                                       struct site *site) {
    if (!has_same_fault(site, address, size, pc)) return false;
    const struct cell *cell = find_exact_cell(address, size);
    if (!cell || (cell->written > now.base && cell->written != now.cur)) return false;
    ++*site->wrong;
    return true;
}

/* Return whether a write to a variable that each iteration writes before it reads (a replicated one) needs no judging:
 * it is not the construct's first write, and no iteration has read the old value. */
static bool is_harmless_own_write(const struct site *site, const struct cell *cell) {
    if (weft_in_region || weft_construct.flags & WEFT_STRICT || weft_task.in_task || weft_parts_under_way ||
        site->since)
        return false;
    if (cell->read > now.base || (cell->written >= SPLIT && cell->written < NO_VALUE)) return false;
    for (int i = 0; i < weft_construct.written_count; i++)
        if (weft_construct.written[i] == site->object) return true;
    return false;
}

/* Handle an 8-byte write to a granule that was accessed by halves before: if its site (what one place in the code may
 * access) allows both halves, make it one cell again and stamp the write. Return whether that was done. Such granules
 * come from stack memory where another function had 4-byte variables. */
static bool write_and_join_halves(const struct site *site, uintptr_t address, uintptr_t pc) {
    const struct cell *low = cell4(address), *high = cell4(address + 4);
    if (site->track || cell8(address)->written != SPLIT || !is_within_site(site, address, pc) ||
        low->read != high->read)
        return false;
    if (low->written - site->floor < site->span || high->written - site->floor < site->span) return false;
    if (low->written == SPLIT || high->written == SPLIT) return false;
    *cell8(address) = (struct cell){now.cur, low->read};
    return true;
}

/* Handle a read that the fast path did not let pass: ignore it while checks are off, hand it to the tracer, or have
 * judge_access() examine it. */
static __attribute__((noinline)) void check_read_slowly(uintptr_t address, size_t size, uintptr_t pc,
                                                        struct site *site) {
    if (now.off) return;
    if (weft_traced) {
        trace_program_access(address, size, false, pc);
        return;
    }
    if (!now.looked && !has_same_fault(site, address, size, pc)) {
        stamp_t written_stamp = cell8(address)->written;
        if (LIKELY(written_stamp <= now.cur) ||
            (size == 4 && written_stamp == SPLIT && LIKELY(cell4(address)->written <= now.cur)))
            return;
    }
    judge_access(address, size, false, pc, site);
}

/* Handle a write that the fast path did not let pass: ignore it, hand it to the tracer, stamp its cell in the frequent
 * harmless cases, or have judge_access() examine it. */
static __attribute__((noinline)) void check_write_slowly(uintptr_t address, size_t size, uintptr_t pc,
                                                         struct site *site) {
    if (now.off) return;
    if (weft_traced) {
        trace_program_access(address, size, true, pc);
        return;
    }
    struct cell *cell = find_exact_cell(address, size);
    if (has_same_fault(site, address, size, pc)) {
        if (cell && (cell->written <= now.base || cell->written == now.cur)) {
            ++*site->wrong;
            cell->written = now.cur;
            return;
        }
    } else if (!now.looked) {
        if (LIKELY(cell && cell->written - SPLIT > REDZONE - SPLIT)) {
            cell->written = now.cur;
            return;
        }
    } else {
        if (site->key == pc && site->mode == FREE && is_within_site(site, address, pc)) return;
        if (site->track == 1 && site->size == size && is_within_site(site, address, pc) && cell &&
            (cell->written <= now.base || cell->written >= NO_VALUE) &&
            (cell->read <= now.base || cell->read == now.cur)) {
            cell->written = now.cur;
            return;
        }
        if (size == 8 && write_and_join_halves(site, address, pc)) return;
        if (site->track == 2 && site->write && site->size == size && is_within_site(site, address, pc) && cell &&
            is_harmless_own_write(site, cell)) {
            cell->written = now.cur;
            return;
        }
    }
    judge_access(address, size, true, pc, site);
}

/* Check an aligned read of 4 or 8 bytes: pass it in a few instructions if its site (what one place in the code may
 * access) and cell allow it, else examine it. `pc`: the hook's return address, or a front end's site number times 4. */
static inline __attribute__((always_inline)) void check_aligned_read(uintptr_t address, size_t size, uintptr_t pc) {
    struct site *site = site_for(pc);
    if (LIKELY(is_within_site(site, address, pc))) {
        const struct cell *cell = cell8(address);
        if (size <= 4 && cell->written == SPLIT) cell = cell4(address);
        stamp_t written_stamp = cell->written;
        if (LIKELY(written_stamp - site->least <= site->limit) || written_stamp == now.cur) return;
    }
    if (!note_shared_read(address, size, pc, site) && !count_repeated_fault(address, size, pc, site))
        check_read_slowly(address, size, pc, site);
}

/* Check an aligned write of 4 or 8 bytes and stamp its cell in a few instructions if its site (what one place in
 * the code may access) allows it, else examine it. `pc`: the hook's return address, or a front end's site number
 * times 4. */
static inline __attribute__((always_inline)) void check_aligned_write(uintptr_t address, size_t size, uintptr_t pc) {
    struct site *site = site_for(pc);
    if (LIKELY(is_within_site(site, address, pc))) {
        struct cell *cell = find_exact_cell(address, size);
        if (LIKELY(cell && (cell->written - site->floor >= site->span || cell->written == now.cur))) {
            cell->written = now.cur;
            return;
        }
    }
    check_write_slowly(address, size, pc, site);
}

/* Called by rewritten assembly for an access of n bytes that its own few instructions did not let pass. `s`: the site of
 * this place alone (what it may access). */
#define SLOW(n)                                                                                                        \
    void weft_check_slow_read##n(uintptr_t a, struct site *s) {                                                        \
        if (!note_shared_read(a, n, s->key, s) && !count_repeated_fault(a, n, s->place, s))                            \
            check_read_slowly(a, n, PLACE, s);                                                                         \
    }                                                                                                                  \
    void weft_check_slow_write##n(uintptr_t a, struct site *s) { check_write_slowly(a, n, PLACE, s); }
SLOW(4)
SLOW(8)

/* Check an access of any size and alignment: cut it into aligned pieces of 8, 4, 2 or 1 bytes and check each. */
static void check_access_in_pieces(uintptr_t address, size_t size, bool is_write, uintptr_t pc) {
    if (now.off) return;
    if (weft_traced) {
        trace_program_access(address, size, is_write, pc);
        return;
    }
    while (size) {
        size_t n = size >= 8 && address % 8 == 0   ? 8
                   : size >= 4 && address % 4 == 0 ? 4
                   : size >= 2 && address % 2 == 0 ? 2
                                                   : 1;
        if (is_write)
            n == 8   ? check_aligned_write(address, 8, pc)
            : n == 4 ? check_aligned_write(address, 4, pc)
                     : judge_access(address, n, true, pc, site_for(pc));
        else
            n == 8   ? check_aligned_read(address, 8, pc)
            : n == 4 ? check_aligned_read(address, 4, pc)
                     : judge_access(address, n, false, pc, site_for(pc));
        address += n;
        size -= n;
    }
}

void access_range(uintptr_t address, size_t size, bool is_write, uintptr_t pc) {
    check_access_in_pieces(address, size, is_write, pc);
}

#define GATE                                                                                                           \
    if (__builtin_expect(now.off, 0)) return;

#define HOOKS(n)                                                                                                       \
    void __tsan_read##n(void *p) { check_aligned_read((uintptr_t)p, n, PLACE); }                                       \
    void __tsan_write##n(void *p) { check_aligned_write((uintptr_t)p, n, PLACE); }
#define PIECES(n)                                                                                                      \
    void __tsan_unaligned_read##n(void *p) { check_access_in_pieces((uintptr_t)p, n, false, PLACE); }                  \
    void __tsan_unaligned_write##n(void *p) { check_access_in_pieces((uintptr_t)p, n, true, PLACE); }
HOOKS(8)
HOOKS(4)
PIECES(2)
PIECES(4)
PIECES(8)
PIECES(16)

void __tsan_read1(void *p) { check_access_in_pieces((uintptr_t)p, 1, false, PLACE); }
void __tsan_write1(void *p) { check_access_in_pieces((uintptr_t)p, 1, true, PLACE); }
void __tsan_read2(void *p) { check_access_in_pieces((uintptr_t)p, 2, false, PLACE); }
void __tsan_write2(void *p) { check_access_in_pieces((uintptr_t)p, 2, true, PLACE); }
void __tsan_read16(void *p) { check_access_in_pieces((uintptr_t)p, 16, false, PLACE); }
void __tsan_write16(void *p) { check_access_in_pieces((uintptr_t)p, 16, true, PLACE); }
void __tsan_read_range(void *p, size_t n) { check_access_in_pieces((uintptr_t)p, n, false, PLACE); }
void __tsan_write_range(void *p, size_t n) { check_access_in_pieces((uintptr_t)p, n, true, PLACE); }
void __tsan_read_write8(void *p) {
    check_aligned_read((uintptr_t)p, 8, PLACE);
    check_aligned_write((uintptr_t)p, 8, PLACE);
}
void __tsan_vptr_update(void **p, void *v) { (void)p, (void)v; }
void __tsan_vptr_read(void **p) { (void)p; }
void __tsan_init(void) {}

static uintptr_t frames[4096];
unsigned weft_depth;

/* Hook of -fsanitize=thread at the head of each function: note its frame's address, and forget frames that longjmp
 * left. */
void __tsan_func_entry(void *caller) {
    (void)caller;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (weft_depth && frames[weft_depth - 1] <= frame) /* longjmp left these */
        weft_depth--;
    if (weft_depth < sizeof frames / sizeof *frames) frames[weft_depth++] = frame;
}

/* Hook of -fsanitize=thread at the end of each function: forget its frame and the stack variables that were registered
 * in it. */
void __tsan_func_exit(void) {
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (weft_depth && frames[weft_depth - 1] < frame) weft_depth--;
    if (weft_depth) weft_depth--;
    uintptr_t caller = weft_depth ? frames[weft_depth - 1] : 0;
    if (caller && weft_lowest_stack < caller) drop_objects_of_returned_functions(caller);
}

static inline uintptr_t place_of(int site_id, uintptr_t caller) { return site_id ? (uintptr_t)site_id << 2 : caller; }

/* Check a read of `bytes` bytes. `site_id`: number of the place in the source map; 0: the caller's address identifies
 * it. */
void weft_check_read(const void *address, size_t bytes, int site_id) {
    if (LIKELY(bytes == 8 && (uintptr_t)address % 8 == 0))
        check_aligned_read((uintptr_t)address, 8, place_of(site_id, PLACE));
    else check_access_in_pieces((uintptr_t)address, bytes, false, place_of(site_id, PLACE));
}

/* Check a write of `bytes` bytes. `site_id`: number of the place in the source map; 0: the caller's address identifies
 * it. */
void weft_check_write(const void *address, size_t bytes, int site_id) {
    if (LIKELY(bytes == 8 && (uintptr_t)address % 8 == 0))
        check_aligned_write((uintptr_t)address, 8, place_of(site_id, PLACE));
    else check_access_in_pieces((uintptr_t)address, bytes, true, place_of(site_id, PLACE));
}

/* Report an index that lies outside low..high in one dimension of an array. `site_id`: number of the place in the
 * source map; 0: the caller's address identifies it. */
void weft_check_out_of_bounds(int variable_id, const void *base, int dimension, int64_t index, int64_t low,
                              int64_t high, int site_id) {
    GATE report_index_out_of_bounds(variable_id, (uintptr_t)base, dimension, index, low, high,
                                    place_of(site_id, PLACE));
}

/* Report an index that lies outside low..high in one dimension of an array. `pc`: address of the access in the
 * program. */
void weft_check_out_of_bounds_at(int variable_id, const void *base, int dimension, int64_t index, int64_t low,
                                 int64_t high, const void *pc) {
    GATE report_index_out_of_bounds(variable_id, (uintptr_t)base, dimension, index, low, high, (uintptr_t)pc);
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

/* Return the index that -fsanitize=bounds reports, sign-extended from its type's width. An index of more than 64 bits
 * is passed by address. */
static int64_t decode_ubsan_index(const struct ubsan_type *type, uintptr_t value) {
    unsigned bits = 1u << (type->info >> 1);
    if (bits > 64) return *(const int64_t *)value;
    if (type->info & 1 && bits < 64) return (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits);
    return (int64_t)value;
}

/* Hook of -fsanitize=bounds: report an index outside an array's bounds at its line and column. */
void __ubsan_handle_out_of_bounds(struct ubsan_bounds *report, uintptr_t index_value) {
    GATE report_index_out_of_bounds_at_line(report->file, report->line, report->column, report->array->name,
                                            decode_ubsan_index(report->index, index_value));
}

void __ubsan_handle_out_of_bounds_abort(struct ubsan_bounds *d, uintptr_t value) {
    __ubsan_handle_out_of_bounds(d, value);
}
