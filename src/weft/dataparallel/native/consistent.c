/* CONSISTENT: copies that every processor has, and that its directive makes the same after a loop has written them. */
#include "consistent.h"

#include "access.h"
#include "cells.h"
#include "groups.h"
#include "loops.h"
#include "objects.h"

/* Until then what an iteration wrote is its processor's alone. */
static struct groups groups;

bool is_consistent(const struct object *o) {
    for (int i = 0; i < here.consistent_count; i++)
        if (here.consistent[i].object == o) return true;
    return false;
}

void consistent_hold(void) {
    for (int i = 0; i < here.consistent_count; i++) {
        const struct object *o = here.consistent[i].object;
        if (!here.consistent[i].group) continue;
        undefine(o->low, o->high);
        groups_hold(&groups, here.consistent[i].group, o->low, o->high);
    }
}

void weft_check_consistent_start(int construct, int group) {
    groups_start(&groups, construct, group, "consistent-start", NULL);
}

static void made_the_same(uintptr_t low, uintptr_t high) {
    for (uintptr_t a = low & ~(uintptr_t)3; a < high; a += 4) {
        struct cell *c = cell8(a)->written == SPLIT ? cell4(a) : cell8(a);
        if (c->written == UNDEFINED) c->written = now.cur;
    }
}

void weft_check_consistent_wait(int construct, int group) {
    groups_wait(&groups, construct, group, "consistent-wait", made_the_same);
}
