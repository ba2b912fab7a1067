/* What is put out whole: structures may have gaps, which have no values and are no fault. */
#include "access.h"
#include "cells.h"
#include "loops.h"
#include "objects.h"

static bool without(uintptr_t a) /* whether a byte never got a value, and still holds what the runtime put there */
{
    stamp_t w = cell8(a)->written;
    if (w == SPLIT) w = cell4(a)->written;
    if (w == SPLIT) w = cell1(a)->written;
    return w == UNDEFINED || (w >= NO_VALUE && *(const volatile unsigned char *)a == POISON);
}

static bool all_without(uintptr_t low, uintptr_t high) {
    while (low < high && without(low)) low++;
    return low == high;
}

/* A gap ends where a granule does, or in its middle: what begins one, or the whole, belongs to a member. */
void put_out_whole(uintptr_t low, size_t n, uintptr_t place) {
    const struct object *o = object_at(low);
    uintptr_t step = o && o->array && o->element == 4 ? 4 : 8; /* numbers of 4 bytes have no gaps between them */
    for (uintptr_t high = low + n, next; low < high; low = next) {
        next = (low | (step - 1)) + 1;
        if (next > high) next = high;
        uintptr_t first = low + 4 < next ? low + 4 : next;
        if (!all_without(low, first)) continue;
        access_range(low, (all_without(first, next) ? next : first) - low, false, place);
    }
}

void weft_check_put_out(const void *address, size_t bytes, int site) {
    if (!now.off && !here.started) put_out_whole((uintptr_t)address, bytes, (uintptr_t)site << 2);
}
