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

static int64_t coordinate(int d, const int64_t index[]) {
    const struct term *t = &here.at[d];
    if (here.on->kinds[d] == WEFT_WHOLE || t->axis == WEFT_ALL) return EVERYWHERE;
    return t->axis >= 0 ? t->coefficient * index[t->axis] + t->offset : t->offset;
}

static struct owners *room_for(struct object *o) {
    size_t elements = o->element ? (o->high - o->low) / o->element : 0;
    size_t bytes = elements * (size_t)here.on->rank * sizeof(int64_t);
    if (o->owners && (o->owners->root != here.on || o->owners->mapped != here.on->mapped)) copies_forget(o);
    if (!o->owners && bytes && bytes < MOST_BYTES) o->owners = calloc(1, sizeof *o->owners + bytes);
    if (o->owners) {
        o->owners->root = here.on;
        o->owners->mapped = here.on->mapped;
    }
    return o->owners;
}

/* At a loop's end, before its stamps mean nothing any more. */
void copies_keep(struct object *o) {
    if (here.what != LOOP || !here.on || !o->array || !room_for(o)) return;
    int64_t index[WEFT_MAX_RANK], *at = o->owners->at;
    for (uintptr_t a = o->low; a < o->high; a += o->element, at += here.on->rank) {
        const struct cell *c = cell8(a)->written == SPLIT ? cell4(a) : cell8(a);
        if (c->written > now.base && c->written < SPLIT && iteration_of(c->written, index))
            for (int d = 0; d < here.on->rank; d++) at[d] = coordinate(d, index);
    }
}

/* Whether this iteration runs where the element at `a` got its value. */
bool copies_own(const struct object *o, uintptr_t a) {
    if (!o || !o->owners || here.what != LOOP || !here.started || here.on != o->owners->root ||
        here.on->mapped != o->owners->mapped)
        return false;
    const int64_t *at = o->owners->at + (a - o->low) / o->element * (size_t)here.on->rank;
    for (int d = 0; d < here.on->rank; d++) {
        int64_t here_at = coordinate(d, here.index);
        if (at[d] == EVERYWHERE) continue;
        if (here_at == EVERYWHERE || !same_owner(here.on, d, here_at, at[d])) return false;
    }
    return true;
}

void copies_forget(struct object *o) {
    free(o->owners);
    o->owners = NULL;
}

/* --- arrays that are replicated along a dimension of the processors --- */

static struct earlier {
    struct detail detail;
    stamp_t by;
    unsigned char value[16];
} *earlier;
static size_t earlier_count, earlier_room;

/* Whether iterations along some dimension of the processors have each a copy. */
static bool in_copies(const struct object *o) {
    if (here.what != LOOP || !here.on || !o || !o->root) return false;
    for (int d = 0; d < o->root->rank; d++) {
        if (o->root->kinds[d] == WEFT_WHOLE || o->map[d].axis != WEFT_ALL) continue;
        int e = o->root == here.on ? d : paired(o->root, d, here.on);
        if (e >= 0 && here.at[e].axis >= 0) return true;
    }
    return false;
}

/* An element that another iteration of the loop has written gets a value again: true where that is its copy's. */
bool copies_again(const struct detail *d) {
    if (d->size > sizeof earlier->value || !in_copies(d->object)) return false;
    GROW(earlier, earlier_count, earlier_room, 256);
    struct earlier *one = &earlier[earlier_count++];
    *one = (struct earlier){.detail = *d, .by = now.cur};
    memcpy(one->value, (const void *)d->address, d->size);
    return true;
}

/* At a loop's end: whether all copies of an element got the value that it has now. */
void copies_compare(void) {
    for (size_t i = 0; i < earlier_count; i++) {
        struct earlier *one = &earlier[i];
        if (memcmp(one->value, (const void *)one->detail.address, one->detail.size) == 0) continue;
        iteration_of(one->by, here.index);
        one->detail.kind = "loop-dependence";
        one->detail.why = "output";
        found(&one->detail);
    }
    earlier_count = 0;
}
