/* Groups: what loops leave unfinished, to be started by one directive and waited for by another. */
#include "groups.h"

#include "access.h"
#include "findings.h"
#include "loops.h"
#include "ran.h"

void add_memory_to_group(struct groups *groups, int group_id, uintptr_t low, uintptr_t high) {
    if (groups->count < MAX_CLAUSES) groups->held[groups->count++] = (struct held){group_id, low, high, false};
}

/* Mark all memory that a group of asynchronous operations holds as started. Report `none_reason` if the group holds
 * nothing, `twice_reason` (unless NULL) if it had been started before. */
void start_group(struct groups *groups, int construct_id, int group_id, const char *none_reason,
                 const char *twice_reason) {
    bool any = false;
    if (now.off) return;
    count_run(construct_id);
    for (int i = 0; i < groups->count; i++)
        if (groups->held[i].group == group_id) {
            if (groups->held[i].started && !any && twice_reason)
                report_misplaced_directive(twice_reason, construct_id, group_id);
            any = groups->held[i].started = true;
        }
    if (!any) report_misplaced_directive(none_reason, construct_id, group_id);
}

/* Complete a group of asynchronous operations: call `release` for each part of memory that had been started and forget
 * it. Report `none_reason` if nothing had been started. */
void complete_group(struct groups *groups, int construct_id, int group_id, const char *none_reason,
                    void (*release)(uintptr_t low, uintptr_t high)) {
    bool any = false;
    if (now.off) return;
    count_run(construct_id);
    advance_time();
    for (int i = 0; i < groups->count;) {
        if (groups->held[i].group != group_id || !groups->held[i].started) {
            i++;
            continue;
        }
        any = true;
        release(groups->held[i].low, groups->held[i].high);
        groups->held[i] = groups->held[--groups->count];
    }
    if (!any) report_misplaced_directive(none_reason, construct_id, group_id);
}
