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
void add_memory_to_group(struct groups *groups, int group_id, uintptr_t low, uintptr_t high);
void start_group(struct groups *groups, int construct_id, int group_id, const char *none_reason,
                 const char *twice_reason);
void complete_group(struct groups *groups, int construct_id, int group_id, const char *none_reason,
                    void (*release)(uintptr_t low, uintptr_t high));

#endif
