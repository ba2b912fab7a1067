/* A shadow cell of `weft check`, what may stand in it, and where it is: for the runtime, and for who writes code that looks
 * into cells itself (weft/instrument/assembly.py). See state.h. */
#ifndef WEFT_CHECK_CELLS_H
#define WEFT_CHECK_CELLS_H

#include <stdint.h>

typedef uint32_t stamp_t;

struct cell {
    stamp_t written, read;
};

/* States in place of a stamp; they are above every stamp. */
#define SPLIT 0xFFFFFFF0u /* look into the finer space */
#define GUARDED 0xFFFFFFF1u /* a reduction variable whose reduction has not completed */
#define REDZONE 0xFFFFFFF2u /* behind a block of the heap */
#define WAS_PRIVATE 0xFFFFFFFCu /* private in a construct that has ended: there is no value any more */
#define UNDEFINED 0xFFFFFFFDu /* had its value in a parallel construct only */
#define LOCAL 0xFFFFFFFEu /* uninitialised, made within this iteration */
#define UNINITIALISED 0xFFFFFFFFu /* never written */
#define NO_VALUE WAS_PRIVATE /* from here on there is none */
#define LAST_STAMP 0xFE000000u /* asked once a row of iterations */
#define FIRST_STAMP 16u

#define POISON 0xA7

/* Two words of address bits are folded into 44 (8-byte and 4-byte cells) and 40 (bytes). */
#define SPACE8 0x100000000000ull
#define SPACE4 0x200000000000ull
#define SPACE1 0x400000000000ull
#define FOLD 0x0fffffffffffull
#define FOLD1 0x00ffffffffffull
#define END1 (SPACE1 + (FOLD1 + 1) * sizeof(struct cell))

static inline struct cell *cell8(uintptr_t a) { return (struct cell *)(SPACE8 + (a & FOLD & ~(uintptr_t)7)); }
static inline struct cell *cell4(uintptr_t a) { return (struct cell *)(SPACE4 + ((a & FOLD & ~(uintptr_t)3) << 1)); }
static inline struct cell *cell1(uintptr_t a) { return (struct cell *)(SPACE1 + ((a & FOLD1) << 3)); }

#endif
