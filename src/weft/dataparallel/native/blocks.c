/* Blocks of the heap: an object each, from the time that an access of one is first looked at.
 *
 *     | allocator's word: REDZONE, read = data | the program's bytes ... | REDZONE up to the block's end |
 *
 * So the cells tell where a small block begins and ends, and what its name is: no table grows with the blocks.
 */
#include "growing.h"
#include "blocks.h"

#include "access.h"
#include "cells.h"
#include "objects.h"

#include <stdlib.h>
#include <string.h>

/* The elements of a name's blocks, by its data. */
static struct form {
    size_t element;
    int rank;
    int64_t extent[WEFT_MAX_RANK];
} *forms;
static size_t form_room;

static bool any;
/* Stretchs of memory that lie in no block, until the next one is made. */
#define STRETCH 9
static uintptr_t barren[64];

void blocks_made(void) {
    any = true;
    memset(barren, 0, sizeof barren);
}

bool block_around(uintptr_t a, uintptr_t *low, uintptr_t *high) {
    uintptr_t stretch = a >> STRETCH;
    if (!any || a < NAMED || barren[stretch % 64] == stretch) return false;
    a &= ~(uintptr_t)7;
    for (uintptr_t at = a; a - at <= NAMED; at -= 8)
        if (cell8(at)->written == REDZONE) {
            *low = at + 8;
            for (*high = a; *high - a <= NAMED && cell8(*high)->written != REDZONE;) *high += 8;
            return at != a && *high - a <= NAMED;
        }
    barren[stretch % 64] = stretch;
    return false;
}

static const struct form *form_of(int data) {
    return data > 0 && (size_t)data < form_room && forms[data].element ? &forms[data] : NULL;
}

static void set_shape(struct object *o, const struct form *f, size_t size) {
    int64_t extent[WEFT_MAX_RANK] = {(int64_t)((o->high - o->low) / size)};
    if (f && f->rank > 0) {
        size_t row = f->element;
        memcpy(extent, f->extent, sizeof extent);
        for (int d = 1; d < f->rank; d++) row *= extent[d] > 0 ? (size_t)extent[d] : 1;
        extent[0] = (int64_t)((o->high - o->low) / row);
        if (extent[0] > 0) {
            object_shape(o, f->element, f->rank, NULL, extent, WEFT_ORDER_C);
            return;
        }
        extent[0] = (int64_t)((o->high - o->low) / size);
    }
    object_shape(o, size, 1, NULL, extent, WEFT_ORDER_C);
}

void block_shape(struct object *o, size_t size) { set_shape(o, NULL, size); }

/* The object of the block that an access of `size` bytes touches; NULL: none that is known. */
struct object *block_object(uintptr_t a, size_t size) {
    uintptr_t low, high;
    if (!block_around(a, &low, &high)) return NULL;
    int data = (int)cell8(low - 8)->read;
    struct object *o = object_insert(data, low, high - low);
    set_shape(o, form_of(data), size);
    return o;
}

void weft_check_heap(int data, const void *base, size_t element, int rank, const int64_t extent[]) {
    uintptr_t low = (uintptr_t)base;
    if (now.off || !base || low % 8 || data < 1 || rank > WEFT_MAX_RANK || cell8(low - 8)->written != REDZONE) return;
    GROW_TO(forms, (size_t)data, form_room);
    struct form *f = &forms[data];
    f->element = element ? element : 1;
    f->rank = rank;
    for (int d = 0; d < rank; d++) f->extent[d] = extent[d];
    cell8(low - 8)->read = (stamp_t)data;
    struct object *o = object_at(low);
    if (o && o->low == low && !o->distributed) {
        o->data = o->first_data = data;
        if (rank > 0) set_shape(o, f, element);
        forget_sites();
    }
}
