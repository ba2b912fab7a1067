/* Which arrays of a parallel loop of Numba need not be looked at while it runs: nothing wrong can be seen there. */
#include "cells.h"
#include "numba.h"

#include <string.h>

/* Set [*low, *high) to the bytes that an array of the loop spans. Return whether its elements fill them. */
int find_array_bounds(const Argument *argument, char *base_address, const size_t *dimensions, const size_t *steps,
                      char **low, char **high) {
    int64_t packed = argument->element;
    *low = base_address;
    *high = base_address + argument->element;
    for (int d = 0; d < argument->rank; d++) {
        int64_t extent = (int64_t)dimensions[argument->dimension[d]],
                reach = (int64_t)steps[argument->stride + d] * (extent - 1);
        if (extent == 0) {
            *high = *low;
            reach = 0;
        }
        *(reach < 0 ? low : high) += reach;
        packed *= extent;
    }
    return *high - *low == packed;
}

/* Return whether all elements in [low, high) have values, as far as the pattern of new memory shows: code without
 * hooks may have written them, and elements of 4 bytes or more no longer hold it then. Their cells are marked as
 * initialised. */
static int accept_unseen_values(uintptr_t low, uintptr_t high, int32_t element) {
    uint32_t poison;
    memset(&poison, POISON, sizeof poison);
    if (element < 4 || low % 8) return 0;
    for (; low + 8 <= high; low += 8) {
        struct cell *cell = cell8(low);
        const uint32_t *value = (const uint32_t *)low;
        if (cell->written <= LAST_STAMP) continue;
        if (cell->written != UNINITIALISED) return 0;
        if (element == 4 ? value[0] == poison || value[1] == poison : value[0] == poison && value[1] == poison)
            return 0;
        *cell = (struct cell){0, 0};
    }
    return low == high;
}

/* Return whether every element in [low, high) has a value, by the cells or by the pattern of new memory. */
static int do_all_elements_have_values(const char *low, const char *high, int32_t element) {
    uintptr_t from = (uintptr_t)low & ~(uintptr_t)7, to = (uintptr_t)high;
    while (from < to) { /* the cells of what lies between two folds are one row */
        uintptr_t fold = (from | FOLD) + 1, end = fold && fold < to ? fold : to;
        if (!is_every_word_allowed(&cell8(from)->written, 8, (int64_t)((end - from + 7) / 8), 1, 0, LAST_STAMP, 0))
            return accept_unseen_values((uintptr_t)low, to, element);
        from = end;
    }
    return 1;
}

/* Return whether an array shares memory with another one of the loop that is written, or, if `of_any_use`, with any
 * other. */
static int overlaps_other_array(const Loop *loop, int argument_index, char **arguments, const size_t *dimensions,
                                const size_t *steps, int of_any_use) {
    char *low, *high, *other_low, *other_high;
    find_array_bounds(&loop->argument[argument_index], arguments[argument_index + 1], dimensions, steps, &low, &high);
    for (int b = 0; b < loop->count; b++) {
        const Argument *other = &loop->argument[b];
        if (b == argument_index || other->kind != AS_ARRAY || !(of_any_use || other->stored)) continue;
        find_array_bounds(other, arguments[b + 1], dimensions, steps, &other_low, &other_high);
        if (low < other_high && other_low < high) return 1;
    }
    return 0;
}

/* Compute the lower or upper end of an index range: a constant plus a term, which is a loop index, an array's extent or
 * the value of an argument. Return 0 on overflow, else 1. */
static int compute_bound(int32_t term, int32_t term_index, int64_t constant, const int64_t index[], char **arguments,
                         const size_t *dimensions, int64_t *end) {
    int64_t value = 0;
    if (term == OF_NEST) value = index[term_index];
    if (term == OF_EXTENT) value = (int64_t)dimensions[term_index];
    if (term == OF_VALUE) memcpy(&value, arguments[term_index], sizeof value);
    return !__builtin_add_overflow(value, constant, end);
}

/* Return whether all elements that the loop uses of an array lie within the array, by the bounds that its text
 * gives. */
static int is_used_within_bounds(const Loop *loop, int argument_index, char **arguments, const size_t *dimensions,
                                 const Range *range) {
    for (const Bound *b = loop->bound; b < loop->bound + loop->bounds; b++) {
        int64_t low, high;
        if (b->argument != argument_index) continue;
        if (!compute_bound(b->low_term, b->low_of, b->low, range->low, arguments, dimensions, &low) ||
            !compute_bound(b->high_term, b->high_of, b->high, range->high, arguments, dimensions, &high) || low < 0 ||
            high >= (int64_t)dimensions[loop->argument[argument_index].dimension[b->dimension]])
            return 0;
    }
    return 1;
}

/* Decide for each array whether the kernel's accesses are watched (loop->guards). Not watched: arrays with all values
 * that the loop only reads and that overlap nothing it writes; and arrays of which each iteration, by the loop's text,
 * uses elements of its own, if no other array overlaps them. */
void choose_watched_arrays(const Loop *loop, char **arguments, const size_t *dimensions, const size_t *steps,
                           const Range *range) {
    for (int a = 0; loop->guards && a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        char *low, *high;
        int look = one->kind != AS_ARRAY || (one->stored && !one->own) ||
                   !find_array_bounds(one, arguments[a + 1], dimensions, steps, &low, &high);
        if (!look && one->stored)
            look = !is_used_within_bounds(loop, a, arguments, dimensions, range) ||
                   overlaps_other_array(loop, a, arguments, dimensions, steps, 1) ||
                   (one->own > 1 && !do_all_elements_have_values(low, high, one->element));
        else if (!look)
            look = overlaps_other_array(loop, a, arguments, dimensions, steps, 0) ||
                   !do_all_elements_have_values(low, high, one->element);
        loop->guards[a + 1] = (uint8_t)look;
    }
}

/* Return whether nothing of the loop needs to be watched, so that it may run as a whole without hooks. */
int can_loop_run_unwatched(const Loop *loop) {
    if (!loop->guards || loop->by_thread) return 0;
    for (int a = 0; a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        if (one->kind == AS_SHARED || (one->kind == AS_ARRAY && loop->guards[a + 1]) ||
            (one->kind == AS_SCALAR && one->data))
            return 0;
    }
    return 1;
}
