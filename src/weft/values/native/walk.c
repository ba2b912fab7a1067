#include "walk.h"

#include "hash.h"

/* Return the number of elements of an array. */
uint64_t weft_count_elements(const struct weft_array *array) {
    uint64_t count = 1;
    for (int dimension = 0; dimension < array->dims; dimension++)
        count *= array->shape[dimension] > 0 ? (uint64_t)array->shape[dimension] : 0;
    return count;
}

/* Return a walk over an array's elements, positioned at the first. */
struct weft_walk weft_begin_walk(const struct weft_array *array) {
    return (struct weft_walk){.array = array, .count = weft_count_elements(array)};
}

/* Return the dimension whose index varies `nth` fastest in memory order, counted from 0. */
static int find_dimension_by_speed(const struct weft_array *array, int nth) {
    return array->order & WEFT_FIRST_FASTEST ? nth : array->dims - 1 - nth;
}

/* Advance a walk by `count` elements, which end within the current row or exactly at its end. */
static void advance_walk(struct weft_walk *walk, int64_t count) {
    walk->number += (uint64_t)count;
    for (int nth = 0; nth < walk->array->dims; nth++) {
        int dimension = find_dimension_by_speed(walk->array, nth);
        walk->index[dimension] += count;
        if (walk->index[dimension] < walk->array->shape[dimension]) return;
        walk->index[dimension] = 0;
        count = 1;
    }
}

/* Get the next run of a walk: elements at a constant stride, cut at block boundaries. Return false at the end. */
bool weft_find_next_run(struct weft_walk *walk, struct weft_run *run) {
    const struct weft_array *array = walk->array;
    if (walk->number >= walk->count) return false;
    *run = (struct weft_run){.at = array->data, .n = 1, .stride = array->size, .number = walk->number};
    for (int dimension = 0; dimension < array->dims; dimension++) {
        run->at += walk->index[dimension] * array->stride[dimension];
        run->place += (uint64_t)(array->lower[dimension] + walk->index[dimension]) * weft_place_step[dimension];
    }
    if (array->dims) {
        int dimension = find_dimension_by_speed(array, 0);
        int64_t block = WEFT_VALUES_BLOCK - (int64_t)(walk->number % WEFT_VALUES_BLOCK);
        run->n = array->shape[dimension] - walk->index[dimension];
        if (run->n > block) run->n = block;
        run->stride = array->stride[dimension];
        run->step = weft_place_step[dimension];
    }
    advance_walk(walk, run->n);
    return true;
}
