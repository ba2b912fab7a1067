/* The shadow of the program's memory.
 *
 * Time is a stamp: a number that rises with every iteration, task and directive. A shadow cell holds for each granule
 *
 *     +-------------------+-------------------+
 *     | written (4 bytes) | read (4 bytes)    |     written: stamp of the last write, or a state (below)
 *     +-------------------+-------------------+     read: first stamp since the loop's start that read the old value
 *
 * so nothing is cleared between loops: what is at most `now.base` is older than the construct. Example: base 100, the
 * cell says written 103: the third iteration of this loop wrote it; a read at stamp 105 is a flow dependence.
 * A granule has 8 bytes; one that is accessed by halves or bytes is SPLIT and its cells lie in the finer spaces.
 */
#ifndef WEFT_CHECK_CELLS_H
#define WEFT_CHECK_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t stamp_t;

struct cell {
    stamp_t written, read;
};

/* States in place of a stamp; they are above every stamp. */
#define SPLIT 0xFFFFFFF0u         /* look into the finer space */
#define GUARDED 0xFFFFFFF1u       /* a reduction variable whose reduction has not completed */
#define REDZONE 0xFFFFFFF2u       /* behind a block of the heap */
#define WAS_PRIVATE 0xFFFFFFFCu   /* private in a construct that has ended: there is no value any more */
#define UNDEFINED 0xFFFFFFFDu     /* had its value in a parallel construct only */
#define LOCAL 0xFFFFFFFEu         /* uninitialised, made within this iteration */
#define UNINITIALISED 0xFFFFFFFFu /* never written */
#define NO_VALUE WAS_PRIVATE      /* from here on there is none */
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

static inline struct cell *cell8(uintptr_t address) {
    return (struct cell *)(SPACE8 + (address & FOLD & ~(uintptr_t)7));
}
static inline struct cell *cell4(uintptr_t address) {
    return (struct cell *)(SPACE4 + ((address & FOLD & ~(uintptr_t)3) << 1));
}
static inline struct cell *cell1(uintptr_t address) { return (struct cell *)(SPACE1 + ((address & FOLD1) << 3)); }

bool is_every_word_allowed(const void *cells, int64_t stride, int64_t count, int tile_width, stamp_t lowest,
                           stamp_t span, stamp_t exception);
void set_read_stamps(void *cells, int64_t stride, int64_t count, int tile_width, stamp_t first_stamp, stamp_t rise);
void set_written_stamps(void *cells, int64_t stride, int64_t count, int tile_width, stamp_t first_stamp, stamp_t rise);
bool has_avx2(void); /* the processor has AVX2 */

#endif
