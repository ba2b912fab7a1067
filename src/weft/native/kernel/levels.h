/* levels.c as Python calls it. */
#ifndef WEFT_LEVELS_H
#define WEFT_LEVELS_H

#include "ops.h"

/* Borrowed. Pairs are sorted by their first column. */
struct weft_steps {
    uint64_t rows;
    const uint64_t *first; /* by row its first place; one more than there are */
    uint64_t messages;
    const uint64_t *message_to, *message_from; /* the place that has the message, and the one that sent it */
    uint64_t arrivals;
    const uint64_t *arrival; /* the place that begins a part of a collective ... */
    const uint32_t *arrival_of;
    uint64_t departures;
    const uint64_t *departure; /* ... and the one that ends it */
    const uint32_t *departure_of;
    uint64_t gatherings;
    const uint32_t *parts; /* by collective, how many arrivals it has */
};

/* Fills `ends`, the step at which each place ends. Returns 0, or -1 without memory. */
EXPORT int weft_compute_levels(const struct weft_steps *steps, uint32_t *ends);

#endif
