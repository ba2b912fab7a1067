/* What is put out whole: structures may have gaps, which have no values and are no fault. */
#include "access.h"
#include "cells.h"
#include "loops.h"
#include "objects.h"

/* Return whether a byte never got a value and still holds the pattern that the runtime fills new memory with. */
static bool is_byte_without_value(uintptr_t address) {
    stamp_t written_stamp = cell8(address)->written;
    if (written_stamp == SPLIT) written_stamp = cell4(address)->written;
    if (written_stamp == SPLIT) written_stamp = cell1(address)->written;
    return written_stamp == UNDEFINED ||
           (written_stamp >= NO_VALUE && *(const volatile unsigned char *)address == POISON);
}

static bool are_bytes_without_value(uintptr_t low, uintptr_t high) {
    while (low < high && is_byte_without_value(low)) low++;
    return low == high;
}

/* Check the read of a structure or array that is put out whole. Gaps between members have no values and are passed
 * over: a gap ends where an 8-byte granule does, or begins in its middle. */
void check_structure_output(uintptr_t address, size_t byte_count, uintptr_t pc) {
    const struct object *object = find_object_at(address);
    uintptr_t step =
        object && object->array && object->element == 4 ? 4 : 8; /* numbers of 4 bytes have no gaps between them */
    for (uintptr_t high = address + byte_count, next; address < high; address = next) {
        next = (address | (step - 1)) + 1;
        if (next > high) next = high;
        uintptr_t first = address + 4 < next ? address + 4 : next;
        if (!are_bytes_without_value(address, first)) continue;
        access_range(address, (are_bytes_without_value(first, next) ? next : first) - address, false, pc);
    }
}

void weft_check_put_out(const void *address, size_t bytes, int site_id) {
    if (!now.off && !weft_construct.started) check_structure_output((uintptr_t)address, bytes, (uintptr_t)site_id << 2);
}
