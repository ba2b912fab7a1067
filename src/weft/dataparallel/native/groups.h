/* Named groups of what is started by one directive and waited for by another. */
#ifndef WEFT_CHECK_GROUPS_H
#define WEFT_CHECK_GROUPS_H

#include "loops.h"

struct groups {
    struct held {
        int group;
        uintptr_t low, high;
        bool started;
    } held[MAX_CLAUSES];
    int count;
};
void groups_hold(struct groups *g, int group, uintptr_t low, uintptr_t high);
void groups_start(struct groups *g, int construct, int group, const char *none, const char *twice);
void groups_wait(struct groups *g, int construct, int group, const char *none,
                 void (*release)(uintptr_t low, uintptr_t high));

#endif
