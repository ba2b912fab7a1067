#include "walk.h"

#include "hash.h"

uint64_t weft_elements(const struct weft_array *array) {
    uint64_t count = 1;
    for (int d = 0; d < array->dims; d++) count *= array->shape[d] > 0 ? (uint64_t)array->shape[d] : 0;
    return count;
}

struct weft_walk weft_walk(const struct weft_array *array) {
    return (struct weft_walk){.array = array, .count = weft_elements(array)};
}

/* The dimension that runs `nth` fastest. */
static int fastest(const struct weft_array *array, int nth) {
    return array->order & WEFT_FIRST_FASTEST ? nth : array->dims - 1 - nth;
}

static void advance(struct weft_walk *walk, int64_t n) {
    walk->number += (uint64_t)n;
    for (int k = 0; k < walk->array->dims; k++) {
        int d = fastest(walk->array, k);
        walk->index[d] += n;
        if (walk->index[d] < walk->array->shape[d]) return;
        walk->index[d] = 0;
        n = 1;
    }
}

bool weft_walk_next(struct weft_walk *walk, struct weft_run *run) {
    const struct weft_array *array = walk->array;
    if (walk->number >= walk->count) return false;
    *run = (struct weft_run){.at = array->data, .n = 1, .stride = array->size, .number = walk->number};
    for (int d = 0; d < array->dims; d++) {
        run->at += walk->index[d] * array->stride[d];
        run->place += (uint64_t)(array->lower[d] + walk->index[d]) * weft_place_step[d];
    }
    if (array->dims) {
        int d = fastest(array, 0);
        int64_t block = WEFT_VALUES_BLOCK - (int64_t)(walk->number % WEFT_VALUES_BLOCK);
        run->n = array->shape[d] - walk->index[d];
        if (run->n > block) run->n = block;
        run->stride = array->stride[d];
        run->step = weft_place_step[d];
    }
    advance(walk, run->n);
    return true;
}
