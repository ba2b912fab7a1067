/* overlaps.c as Python calls it. */
#ifndef WEFT_OVERLAPS_H
#define WEFT_OVERLAPS_H

#include "ops.h"

/* Accesses in order of `begin`. `site` counts from 0; `args` is equal for starts of one persistent request. */
struct weft_accesses {
    uint64_t count;
    const int64_t *begin, *end, *args;
    const uint64_t *low, *high;
    const uint32_t *site;
    const uint8_t *writes;
    uint32_t sites;
    uint64_t events;
};

/* Fills the pairs of rows, at most `most`, one for each pair of lines; -1 without memory. */
EXPORT int64_t weft_overlaps(const struct weft_accesses *in, uint64_t most, uint32_t *earlier, uint32_t *later);

#endif
