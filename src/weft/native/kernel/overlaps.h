/* overlaps.c as Python calls it. */
#ifndef WEFT_OVERLAPS_H
#define WEFT_OVERLAPS_H

#include "layouts.h"

/* Accesses in order of `begin`. `site` counts from 0; `args` is equal for starts of one persistent request. `shape` is 0
 * where all bytes from `low` to `high` are meant, else those of layouts[shape - 1]. */
struct weft_accesses {
    uint64_t count;
    const int64_t *begin, *end, *args;
    const uint64_t *low, *high;
    const uint32_t *site;
    const uint8_t *writes;
    const uint32_t *shape;
    const struct weft_layout *layouts;
    uint32_t sites;
    uint64_t events;
};

/* Fills the pairs of rows, at most `most`, one for each pair of lines; -1 without memory. Layouts are held against each
 * other for `*steps` (see weft_do_layouts_meet); a pair of rows of which it is not known is put at undecided[0] and [1], if any. */
EXPORT int64_t weft_find_overlaps(const struct weft_accesses *accesses, uint64_t most_pairs, uint32_t *earlier,
                                  uint32_t *later, uint64_t *steps, uint32_t *undecided);

#endif
