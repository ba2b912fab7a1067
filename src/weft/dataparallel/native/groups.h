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
void groups_add_memory(struct groups *groups, int group_id, uintptr_t low, uintptr_t high);
void groups_start(struct groups *groups, int construct_id, int group_id, const char *none_reason,
                  const char *twice_reason);
void groups_wait(struct groups *groups, int construct_id, int group_id, const char *none_reason,
                 void (*release)(uintptr_t low, uintptr_t high));

#endif
