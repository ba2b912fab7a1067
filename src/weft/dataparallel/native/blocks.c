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
/* Stretches of memory that lie in no block, until the next one is made. */
#define STRETCH 9
static uintptr_t barren[64];

void blocks_note_new_block(void) {
    any = true;
    memset(barren, 0, sizeof barren);
}

/* Find the small heap block around an address by the red zones before and after it. Return false if there is none;
 * else [*low, *high) are its bytes. */
bool find_heap_block(uintptr_t address, uintptr_t *low, uintptr_t *high) {
    uintptr_t stretch = address >> STRETCH;
    if (!any || address < NAMED || barren[stretch % 64] == stretch) return false;
    address &= ~(uintptr_t)7;
    for (uintptr_t at = address; address - at <= NAMED; at -= 8)
        if (cell8(at)->written == REDZONE) {
            *low = at + 8;
            for (*high = address; *high - address <= NAMED && cell8(*high)->written != REDZONE;) *high += 8;
            return at != address && *high - address <= NAMED;
        }
    barren[stretch % 64] = stretch;
    return false;
}

static const struct form *find_shape_of_variable(int variable_id) {
    return variable_id > 0 && (size_t)variable_id < form_room && forms[variable_id].element ? &forms[variable_id]
                                                                                            : NULL;
}

/* Give a heap block the array shape that its variable's declaration has; without one, that of elements of `access_size`
 * bytes. */
static void set_block_shape(struct object *object, const struct form *shape, size_t access_size) {
    int64_t extent[WEFT_MAX_RANK] = {(int64_t)((object->high - object->low) / access_size)};
    if (shape && shape->rank > 0) {
        size_t row = shape->element;
        memcpy(extent, shape->extent, sizeof extent);
        for (int d = 1; d < shape->rank; d++) row *= extent[d] > 0 ? (size_t)extent[d] : 1;
        extent[0] = (int64_t)((object->high - object->low) / row);
        if (extent[0] > 0) {
            set_object_shape(object, shape->element, shape->rank, NULL, extent, WEFT_ORDER_C);
            return;
        }
        extent[0] = (int64_t)((object->high - object->low) / access_size);
    }
    set_object_shape(object, access_size, 1, NULL, extent, WEFT_ORDER_C);
}

void block_set_plain_shape(struct object *object, size_t access_size) { set_block_shape(object, NULL, access_size); }

/* Return a new object for the heap block around an address, with its variable's name and shape; NULL if no known block
 * is there. */
struct object *make_object_of_heap_block(uintptr_t address, size_t access_size) {
    uintptr_t low, high;
    if (!find_heap_block(address, &low, &high)) return NULL;
    int data = (int)cell8(low - 8)->read;
    struct object *object = register_object(data, low, high - low);
    set_block_shape(object, find_shape_of_variable(data), access_size);
    return object;
}

/* Name the heap block that begins at `base` and keep its shape in the shadow cells; it becomes an object only when it
 * is first examined. Does nothing if no block begins there. */
void weft_check_name_heap_block(int variable_id, const void *base, size_t element, int dimension_count,
                                const int64_t extent[]) {
    uintptr_t low = (uintptr_t)base;
    if (now.off || !base || low % 8 || variable_id < 1 || dimension_count > WEFT_MAX_RANK ||
        cell8(low - 8)->written != REDZONE)
        return;
    GROW_TO(forms, (size_t)variable_id, form_room);
    struct form *shape = &forms[variable_id];
    shape->element = element ? element : 1;
    shape->rank = dimension_count;
    for (int d = 0; d < dimension_count; d++) shape->extent[d] = extent[d];
    cell8(low - 8)->read = (stamp_t)variable_id;
    struct object *object = find_object_at(low);
    if (object && object->low == low && !object->distributed) {
        object->data = object->first_data = variable_id;
        if (dimension_count > 0) set_block_shape(object, shape, element);
        forget_sites();
    }
}
