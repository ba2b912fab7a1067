/* Replicated arrays that iterations wrote: whose copy has which value.
 *
 * Each processor has its own copy of such an array. Behind the loop an element has its value where the iteration ran that
 * wrote it: a later loop may read it in an iteration that runs there. So for each element the coordinates of that
 * iteration in the ON array's root are kept:
 *
 *     element 0: at[0] .. at[rank-1] | element 1: ...      EVERYWHERE: along this dimension all processors ran it
 *
 * Distributed arrays that are replicated along a dimension of the processors (`align b(i,*) with a(*,i)`): there
 * iterations that run apart write copies of their own, and all copies must be alike. What a copy got before is kept until
 * the loop's end, where the element has the value of the last one.
 */
#include "growing.h"
#include "copies.h"

#include "access.h"
#include "cells.h"
#include "findings.h"
#include "loops.h"
#include "objects.h"
#include "ownership.h"

#include <stdlib.h>
#include <string.h>

#define EVERYWHERE INT64_MIN
#define MOST_BYTES ((size_t)1 << 28)

struct owners {
    const struct object *root;
    unsigned mapped; /* root->mapped then: a new distribution moves the iterations */
    int64_t at[];
};

/* Return the coordinate, in one dimension of the ON array (to whose elements the loop's iterations are mapped), of the
 * processor that runs an iteration; EVERYWHERE where all processors along that dimension run it. */
static int64_t find_iteration_coordinate(int dimension, const int64_t index[]) {
    const struct term *on_term = &weft_construct.at[dimension];
    if (weft_construct.on->kinds[dimension] == WEFT_WHOLE || on_term->axis == WEFT_ALL) return EVERYWHERE;
    return on_term->axis >= 0 ? on_term->coefficient * index[on_term->axis] + on_term->offset : on_term->offset;
}

/* Return the table that holds, for each element of a replicated array, which iteration's coordinates wrote it. Make it
 * if need be, and drop one of an older distribution. NULL if it would be too large. */
static struct owners *find_or_make_owner_table(struct object *object) {
    size_t elements = object->element ? (object->high - object->low) / object->element : 0;
    size_t bytes = elements * (size_t)weft_construct.on->rank * sizeof(int64_t);
    if (object->owners &&
        (object->owners->root != weft_construct.on || object->owners->mapped != weft_construct.on->mapped))
        copies_forget(object);
    if (!object->owners && bytes && bytes < MOST_BYTES) object->owners = calloc(1, sizeof *object->owners + bytes);
    if (object->owners) {
        object->owners->root = weft_construct.on;
        object->owners->mapped = weft_construct.on->mapped;
    }
    return object->owners;
}

/* At a loop's end: keep for each element of a replicated array where the iteration ran that wrote it. Must come before
 * the loop's stamps lose their meaning. */
void note_writers_of_copies(struct object *object) {
    if (weft_construct.what != LOOP || !weft_construct.on || !object->array || !find_or_make_owner_table(object))
        return;
    int64_t index[WEFT_MAX_RANK], *at = object->owners->at;
    for (uintptr_t address = object->low; address < object->high;
         address += object->element, at += weft_construct.on->rank) {
        const struct cell *cell = cell8(address)->written == SPLIT ? cell4(address) : cell8(address);
        if (cell->written > now.base && cell->written < SPLIT && find_iteration_of_stamp(cell->written, index))
            for (int d = 0; d < weft_construct.on->rank; d++) at[d] = find_iteration_coordinate(d, index);
    }
}

/* Return whether the current iteration runs on the processor where the element at `address` got its value in an earlier
 * loop. */
bool has_value_from_this_processor(const struct object *object, uintptr_t address) {
    if (!object || !object->owners || weft_construct.what != LOOP || !weft_construct.started ||
        weft_construct.on != object->owners->root || weft_construct.on->mapped != object->owners->mapped)
        return false;
    const int64_t *at =
        object->owners->at + (address - object->low) / object->element * (size_t)weft_construct.on->rank;
    for (int d = 0; d < weft_construct.on->rank; d++) {
        int64_t here_at = find_iteration_coordinate(d, weft_construct.index);
        if (at[d] == EVERYWHERE) continue;
        if (here_at == EVERYWHERE || !have_elements_same_owner(weft_construct.on, d, here_at, at[d])) return false;
    }
    return true;
}

void copies_forget(struct object *object) {
    free(object->owners);
    object->owners = NULL;
}

/* --- arrays that are replicated along a dimension of the processors --- */

static struct earlier {
    struct detail detail;
    stamp_t by;
    unsigned char value[16];
} *earlier;
static size_t earlier_count, earlier_room;

/* Return whether an array is replicated along a dimension of the processors over which the loop's iterations are
 * spread, so that each of these iterations writes a copy of its own. */
static bool writes_each_iteration_own_copy(const struct object *object) {
    if (weft_construct.what != LOOP || !weft_construct.on || !object || !object->root) return false;
    for (int d = 0; d < object->root->rank; d++) {
        if (object->root->kinds[d] == WEFT_WHOLE || object->map[d].axis != WEFT_ALL) continue;
        int on_dimension =
            object->root == weft_construct.on ? d : find_paired_dimension(object->root, d, weft_construct.on);
        if (on_dimension >= 0 && weft_construct.at[on_dimension].axis >= 0) return true;
    }
    return false;
}

/* Handle a second write of an element in one loop: if each iteration writes its own copy, keep the first value for the
 * comparison at the loop's end and return true. False: it is an ordinary conflict. */
bool save_earlier_copy_value(const struct detail *detail) {
    if (detail->size > sizeof earlier->value || !writes_each_iteration_own_copy(detail->object)) return false;
    GROW(earlier, earlier_count, earlier_room, 256);
    struct earlier *one = &earlier[earlier_count++];
    *one = (struct earlier){.detail = *detail, .by = now.cur};
    memcpy(one->value, (const void *)detail->address, detail->size);
    return true;
}

/* At a loop's end: report elements whose copies got different values from different iterations. */
void report_differing_copies(void) {
    for (size_t i = 0; i < earlier_count; i++) {
        struct earlier *one = &earlier[i];
        if (memcmp(one->value, (const void *)one->detail.address, one->detail.size) == 0) continue;
        find_iteration_of_stamp(one->by, weft_construct.index);
        one->detail.kind = "loop-dependence";
        one->detail.why = "output";
        report_finding(&one->detail);
    }
    earlier_count = 0;
}
