/* The elements of an array in runs: in the order of memory, cut where a block of them ends. */
#ifndef WEFT_VALUE_WALK_H
#define WEFT_VALUE_WALK_H

#include <stdbool.h>

#include "include/weft_array.h"
#include "value_format.h"

/* `n` elements from `at` on, `stride` bytes apart; the first is number `number` of the array and has the place `place` in the
 * global one, each next one `step` more (hash.h). */
struct weft_run {
    const unsigned char *at;
    int64_t n;
    int64_t stride;
    uint64_t number;
    uint64_t place;
    uint64_t step;
};

struct weft_walk {
    const struct weft_array *array;
    int64_t index[WEFT_VALUES_DIMS]; /* of the next run's first element */
    uint64_t number;
    uint64_t count;
};

uint64_t weft_count_elements(const struct weft_array *array);
struct weft_walk weft_begin_walk(const struct weft_array *array);
bool weft_find_next_run(struct weft_walk *walk, struct weft_run *run);

#endif
