/* layouts.c as Python calls it: where bytes lie that repeat at equal steps, and whether two such have one in common. */
#ifndef WEFT_LAYOUTS_H
#define WEFT_LAYOUTS_H

#include "ops.h"

#define WEFT_MOST_LEVELS 12u /* of one part */

/* Bytes from 0 to `high`. Of part p the block of `length[p]` bytes at `offset[p]` is there again at every sum of one
 * multiple (0 to times - 1) of each stride of its levels, level[p] to level[p + 1] - 1, and of the outer stride, which
 * all parts have. All strides are positive. Parts are in order of `offset`; `end[p]` is behind the last byte of part p
 * without the outer stride, `reach[p]` the greatest end up to there. Without parts it is not known which bytes of those
 * to `high` belong to it. */
struct weft_layout {
    uint64_t count;
    const int64_t *offset, *length, *end, *reach;
    const uint32_t *level;
    const int64_t *stride, *times;
    int64_t outer_stride, outer_times, high;
};

/* Whether two layouts, of which the other begins `apart` bytes behind the one, have a byte in common: 1 or 0; -1 where
 * that is not known after `*steps`, from which is taken what was done. */
EXPORT int weft_do_layouts_meet(const struct weft_layout *one, const struct weft_layout *other, int64_t apart,
                                uint64_t *steps);

/* Of two layouts that meet the first block of the one that does, in the order of its outer stride, its parts and their
 * levels: where it begins and how long it is. Each half of what is left is held against the other in so many steps. */
EXPORT void weft_find_first_shared_block(const struct weft_layout *one, const struct weft_layout *other, int64_t apart,
                                         uint64_t steps, int64_t *first_byte, int64_t *length);

/* Whether a sum of one multiple (0 to times - 1) of each positive stride lies in [low, high]: as weft_do_layouts_meet. */
EXPORT int weft_can_strides_sum_into(uint64_t count, const int64_t *stride, const int64_t *times, int64_t low,
                                     int64_t high, uint64_t *steps);

#endif
