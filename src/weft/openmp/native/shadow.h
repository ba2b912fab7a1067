/* The planes of the shadow, and the marks in them, for those who look there.
 *
 * Three planes for each size of granule, a word of 4 bytes for a granule: address bits are folded into 41. SKEW lies between
 * two planes: a cache that tells lines by the lower bits of their addresses would hold one of a granule's words at a time.
 */
#ifndef WEFT_OPENMP_SHADOW_H
#define WEFT_OPENMP_SHADOW_H

#include "openmp.h"

#define INLINE static inline __attribute__((always_inline))
#define HERE __attribute__((visibility("hidden")))
#define FOLD (2 * TERA - 1)
#define SKEW ((uintptr_t)0x2493000)

INLINE mark_t *plane8(uintptr_t a, int p) {
    return (mark_t *)(SHADOW + (uintptr_t)p * (TERA + SKEW) + ((a & FOLD & ~(uintptr_t)7) >> 1));
}
INLINE mark_t *plane4(uintptr_t a, int p) {
    return (mark_t *)(SHADOW + 3 * (TERA + SKEW) + (uintptr_t)p * (2 * TERA + SKEW) + (a & FOLD & ~(uintptr_t)3));
}
INLINE mark_t *plane1(uintptr_t a, int p) {
    return (mark_t *)(SHADOW + 9 * TERA + 6 * SKEW + (uintptr_t)p * (8 * TERA + SKEW) + ((a & FOLD) << 2));
}

extern mark_t *last_marks HERE; /* by place: the last one that was made there */

mark_t make_mark(uint32_t place);
void check_granule(mark_t *last_write, mark_t *first_read, mark_t *second_read, uintptr_t address, size_t size,
                   bool is_write, uint32_t place);

/* Whether the running strand made it since it runs, by an access that is not atomic. */
INLINE bool mine(mark_t m) { return m - now.mine < now.room; }

/* A task's part of the stack is forgotten with it, down to the lowest place that it came to. */
static inline void comes_down_to(uintptr_t a) {
    if (a - me->stack_low < me->stack_high - me->stack_low && a < me->lowest) me->lowest = a;
}

/* --- hooks.c */
void hook(uintptr_t a, size_t size, bool write, uint32_t flag, uintptr_t from);
void spins(void);
void line_changes(uintptr_t a); /* a granule of the line, otherwise than by the hooks' short way */

#endif
