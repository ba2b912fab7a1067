/* Groups: what loops leave unfinished, to be started by one directive and waited for by another. */
#include "groups.h"

#include "access.h"
#include "findings.h"
#include "loops.h"
#include "ran.h"

void groups_hold(struct groups *g, int group, uintptr_t low, uintptr_t high) {
    if (g->count < MAX_CLAUSES) g->held[g->count++] = (struct held){group, low, high, false};
}

/* `none` is said of a group that holds nothing, `twice` (where it is wrong) of one that has been started. */
void groups_start(struct groups *g, int construct, int group, const char *none, const char *twice) {
    bool any = false;
    if (now.off) return;
    ran(construct);
    for (int i = 0; i < g->count; i++)
        if (g->held[i].group == group) {
            if (g->held[i].started && !any && twice) findings_directive(twice, construct, group);
            any = g->held[i].started = true;
        }
    if (!any) findings_directive(none, construct, group);
}

/* `release` is called for the memory of all that is complete now; `none` is said where nothing had been started. */
void groups_wait(struct groups *g, int construct, int group, const char *none,
                 void (*release)(uintptr_t low, uintptr_t high)) {
    bool any = false;
    if (now.off) return;
    ran(construct);
    tick();
    for (int i = 0; i < g->count;) {
        if (g->held[i].group != group || !g->held[i].started) {
            i++;
            continue;
        }
        any = true;
        release(g->held[i].low, g->held[i].high);
        g->held[i] = g->held[--g->count];
    }
    if (!any) findings_directive(none, construct, group);
}
