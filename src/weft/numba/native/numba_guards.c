/* Which arrays of a parallel loop of Numba need not be looked at while it runs: nothing wrong can be seen there. */
#include "cells.h"
#include "numba.h"

#include <string.h>

/* Where an array of the loop lies: [*low, *high); whether it fills that. */
int extent_of(const Argument *one, char *base, const size_t *dimensions, const size_t *steps, char **low, char **high) {
    int64_t packed = one->element;
    *low = base;
    *high = base + one->element;
    for (int d = 0; d < one->rank; d++) {
        int64_t extent = (int64_t)dimensions[one->dimension[d]], reach = (int64_t)steps[one->stride + d] * (extent - 1);
        if (extent == 0) {
            *high = *low;
            reach = 0;
        }
        *(reach < 0 ? low : high) += reach;
        packed *= extent;
    }
    return *high - *low == packed;
}

/* Elements of 4 bytes or more that code without hooks wrote have values: they no longer hold the pattern of new memory.
 * Whether all have, between two addresses. */
static int clear_poison(uintptr_t from, uintptr_t to, int32_t element) {
    uint32_t poison;
    memset(&poison, POISON, sizeof poison);
    if (element < 4 || from % 8) return 0;
    for (; from + 8 <= to; from += 8) {
        struct cell *c = cell8(from);
        const uint32_t *value = (const uint32_t *)from;
        if (c->written <= LAST_STAMP) continue;
        if (c->written != UNINITIALISED) return 0;
        if (element == 4 ? value[0] == poison || value[1] == poison : value[0] == poison && value[1] == poison)
            return 0;
        *c = (struct cell){0, 0};
    }
    return from == to;
}

/* Whether every element between two addresses has a value, as far as whole cells tell. */
static int has_values(const char *low, const char *high, int32_t element) {
    uintptr_t from = (uintptr_t)low & ~(uintptr_t)7, to = (uintptr_t)high;
    while (from < to) { /* the cells of what lies between two folds are one row */
        uintptr_t fold = (from | FOLD) + 1, end = fold && fold < to ? fold : to;
        if (!is_every_word_allowed(&cell8(from)->written, 8, (int64_t)((end - from + 7) / 8), 1, 0, LAST_STAMP, 0))
            return clear_poison((uintptr_t)low, to, element);
        from = end;
    }
    return 1;
}

/* Whether an array shares memory with another one of the loop that is written, or, where `any`, that is used at all. */
static int overlaps(const Loop *loop, int a, char **arguments, const size_t *dimensions, const size_t *steps, int any) {
    char *low, *high, *other_low, *other_high;
    extent_of(&loop->argument[a], arguments[a + 1], dimensions, steps, &low, &high);
    for (int b = 0; b < loop->count; b++) {
        const Argument *other = &loop->argument[b];
        if (b == a || other->kind != AS_ARRAY || !(any || other->stored)) continue;
        extent_of(other, arguments[b + 1], dimensions, steps, &other_low, &other_high);
        if (low < other_high && other_low < high) return 1;
    }
    return 0;
}

/* One end of a bound; false where it is no number of 8 bytes. */
static int bound_end(int32_t term, int32_t of, int64_t constant, const int64_t index[], char **arguments,
                     const size_t *dimensions, int64_t *end) {
    int64_t value = 0;
    if (term == OF_NEST) value = index[of];
    if (term == OF_EXTENT) value = (int64_t)dimensions[of];
    if (term == OF_VALUE) memcpy(&value, arguments[of], sizeof value);
    return !__builtin_add_overflow(value, constant, end);
}

/* Whether all elements that the loop uses of an array of which each iteration has its own lie within its bounds. */
static int within_bounds(const Loop *loop, int a, char **arguments, const size_t *dimensions, const Range *range) {
    for (const Bound *b = loop->bound; b < loop->bound + loop->bounds; b++) {
        int64_t low, high;
        if (b->argument != a) continue;
        if (!bound_end(b->low_term, b->low_of, b->low, range->low, arguments, dimensions, &low) ||
            !bound_end(b->high_term, b->high_of, b->high, range->high, arguments, dimensions, &high) || low < 0 ||
            high >= (int64_t)dimensions[loop->argument[a].dimension[b->dimension]])
            return 0;
    }
    return 1;
}

/* Reads of an array that the loop does not write, that shares no memory with what it writes, and whose elements all
 * have values can show nothing: they are not looked at. Nor can accesses of an array of which each iteration has
 * elements of its own, by its text, where no other array shares its memory. */
void guard(const Loop *loop, char **arguments, const size_t *dimensions, const size_t *steps, const Range *range) {
    for (int a = 0; loop->guards && a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        char *low, *high;
        int look = one->kind != AS_ARRAY || (one->stored && !one->own) ||
                   !extent_of(one, arguments[a + 1], dimensions, steps, &low, &high);
        if (!look && one->stored)
            look = !within_bounds(loop, a, arguments, dimensions, range) ||
                   overlaps(loop, a, arguments, dimensions, steps, 1) ||
                   (one->own > 1 && !has_values(low, high, one->element));
        else if (!look)
            look = overlaps(loop, a, arguments, dimensions, steps, 0) || !has_values(low, high, one->element);
        loop->guards[a + 1] = (uint8_t)look;
    }
}

/* Whether nothing of the loop needs to be looked at: it may run as a whole. */
int is_proved(const Loop *loop) {
    if (!loop->guards || loop->by_thread) return 0;
    for (int a = 0; a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        if (one->kind == AS_SHARED || (one->kind == AS_ARRAY && loop->guards[a + 1]) ||
            (one->kind == AS_SCALAR && one->data))
            return 0;
    }
    return 1;
}
