/* The planes of the shadow, and the marks in them, for those who look there.
 *
 * Three planes for each size of granule, a word of 4 bytes for a granule: address bits are folded into 41. SKEW lies between
 * two planes: a cache that tells lines by the lower bits of their addresses would hold one of a granule's words at a time.
 */
#ifndef WEFT_OPENMP_SHADOW_H
#define WEFT_OPENMP_SHADOW_H

#include "openmp.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define HERE __attribute__((visibility("hidden")))
#define FOLD (2 * TERA - 1)
#define SKEW ((uintptr_t)0x2493000)

/* Return the word for the 8 bytes around an address; plane 0: the last write, 1 and 2: two reads. */
INLINE mark_t *find_word8(uintptr_t address, int plane) {
    return (mark_t *)(SHADOW + (uintptr_t)plane * (TERA + SKEW) + ((address & FOLD & ~(uintptr_t)7) >> 1));
}
INLINE mark_t *find_word4(uintptr_t address, int plane) {
    return (mark_t *)(SHADOW + 3 * (TERA + SKEW) + (uintptr_t)plane * (2 * TERA + SKEW) +
                      (address & FOLD & ~(uintptr_t)3));
}
INLINE mark_t *find_word1(uintptr_t address, int plane) {
    return (mark_t *)(SHADOW + 9 * TERA + 6 * SKEW + (uintptr_t)plane * (8 * TERA + SKEW) + ((address & FOLD) << 2));
}

extern mark_t *last_marks HERE; /* by place: the last one that was made there */
extern struct mark *plain_marks HERE; /* from now.old on, which stands at the start */

mark_t make_mark(uint32_t place);
void check_granule(mark_t *last_write, mark_t *first_read, mark_t *second_read, uintptr_t address, size_t size,
                   bool is_write, uint32_t place);

bool check_atomic_granule(mark_t *last_write, mark_t *first_read, mark_t *second_read, uintptr_t address, bool is_write,
                          uint32_t place);

/* Return whether the running strand made a mark since it runs, by an access that is not atomic. */
INLINE bool is_mark_of_this_turn(mark_t number) { return number - now.mine < now.room; }

/* Note how deep the running task's part of the stack was used: it is forgotten with the task. */
static inline void note_lowest_stack_address(uintptr_t address) {
    if (address - me->stack_low < me->stack_high - me->stack_low && address < me->lowest) me->lowest = address;
}

/* Begin a turn of the running strand (iteration, task or thread): all marks (IDs of accesses) made from now on are its
 * own. */
static inline void begin_turn_of_marks(void) {
    now.mine = now.mark;
    now.room = PLAIN_END - now.mine;
    if (now.any_past) {
        memset(now.past, 0, sizeof now.past);
        now.any_past = false;
    }
}

/* Return whether the access of a mark belongs to the strand around the running simd loop or to loops in it that are over
 * (see struct clock). */
INLINE bool is_calm_mark(mark_t number) { return number - now.calm < now.calm_room; }

/* --- hooks.c */
void forget_notes_of(uintptr_t low,
                     uintptr_t high); /* as forget_all_notes(), where only words of [low, high) changed */
void check_hooked_access(uintptr_t a, size_t size, bool is_write, uint32_t flag, uintptr_t return_address);
void yield_when_polling(uintptr_t address);
void forget_fresh_notes(uintptr_t address); /* a granule of the line, otherwise than by the hooks' short way */

#endif
