/* What the parts of a replay share: where a thread is in its plan, and how it waits. */
#ifndef WEFT_REPLAY_H
#define WEFT_REPLAY_H

#include <sched.h>

#include "plan.h"
#include "wrap.h"

struct weft_replay {
    const struct weft_plan_entry *entries, *current;
    const int32_t *posts, *values;
    const uint8_t *times, *times_end;
    double time, time_unit; /* what MPI_Wtime gave last, and the unit of its fold */
    uint64_t time_more; /* calls of the fold that are to come */
    const struct weft_plan_turn *turns;
    uint64_t entry_count, post_count, value_count, turn_count;
    uint64_t at, post_at;
    uint32_t polls; /* failed since the last entry */
    struct weft_control_thread *control;
    int slot;
};

extern WEFT_HIDDEN const struct weft_plan_header *weft_plan;
WEFT_HIDDEN struct weft_replay *weft_find_own_replay(void); /* NULL: this process follows no plan */
WEFT_HIDDEN void *weft_map_plan_file(const char *folder, const char *name, int rank, int protection, uint64_t *size);
WEFT_HIDDEN void weft_let_mpi_progress(void);
WEFT_HIDDEN void weft_sleep_microseconds(long microseconds);
WEFT_COLD void weft_map_turn_counters(const char *folder);

#define WEFT_REPLAY_CALL(name) WEFT_HIDDEN WEFT_GIVEN int weft_p_##name

/* A rank that waits for what the record says may wait longer than the recorded one did: what comes meanwhile is not
 * what it waits for. An MPI polls; where ranks outnumber cores that is time which the awaited rank does not get. */
enum { WEFT_HASTY = 20, WEFT_AWAKE = 100, WEFT_NAP = 50 }; /* polls until it yields, until it naps; microseconds */
/* Pause between two polls of a wait, the longer the more polls there were: first not at all, then by giving up the
 * core, then by sleeping. */
static inline void weft_pause_between_polls(unsigned *polls) {
    if (++*polls > WEFT_AWAKE) weft_sleep_microseconds(WEFT_NAP);
    else if (*polls > WEFT_HASTY) sched_yield();
}

#endif
