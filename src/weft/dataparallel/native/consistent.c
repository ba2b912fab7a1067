/* CONSISTENT: copies that every processor has, and that its directive makes the same after a loop has written them. */
#include "consistent.h"

#include "access.h"
#include "cells.h"
#include "groups.h"
#include "loops.h"
#include "objects.h"

/* Until then what an iteration wrote is its processor's alone. */
static struct groups groups;

/* Return whether the loop that runs names an array in a CONSISTENT clause. */
bool is_in_consistent_clause(const struct object *object) {
    for (int i = 0; i < weft_construct.consistent_count; i++)
        if (weft_construct.consistent[i].object == object) return true;
    return false;
}

/* At a loop's end: leave arrays of asynchronous CONSISTENT clauses without values until their group has completed. */
void undefine_unfinished_consistent_arrays(void) {
    for (int i = 0; i < weft_construct.consistent_count; i++) {
        const struct object *object = weft_construct.consistent[i].object;
        if (!weft_construct.consistent[i].group) continue;
        undefine_written_values(object->low, object->high);
        add_memory_to_group(&groups, weft_construct.consistent[i].group, object->low, object->high);
    }
}

void weft_check_consistent_start(int construct_id, int group_id) {
    start_group(&groups, construct_id, group_id, "consistent-start", NULL);
}

/* Give elements in [low, high) whose values were undefined a value again: all copies are the same now. */
static void mark_values_defined(uintptr_t low, uintptr_t high) {
    for (uintptr_t address = low & ~(uintptr_t)3; address < high; address += 4) {
        struct cell *cell = cell8(address)->written == SPLIT ? cell4(address) : cell8(address);
        if (cell->written == UNDEFINED) cell->written = now.cur;
    }
}

void weft_check_consistent_wait(int construct_id, int group_id) {
    complete_group(&groups, construct_id, group_id, "consistent-wait", mark_values_defined);
}
