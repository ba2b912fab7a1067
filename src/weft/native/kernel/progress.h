/* progress.c as Python calls it. */
#ifndef WEFT_PROGRESS_H
#define WEFT_PROGRESS_H

#include "ops.h"

/* The caller owns all arrays. first: processes + 1; at, target, value: first[processes] constraints; size: arrivals
 * that each gathering needs; place (out): for each process the constraint it stands at, its end when it came through.
 * 0, or -1 without memory. */
EXPORT int weft_run_progress(int64_t processes, const int64_t *first, const uint32_t *at, const int32_t *target,
                             const uint32_t *value, int64_t gatherings, const int64_t *size, int64_t *place);

struct weft_waits {
    const uint64_t *first;
    const uint32_t *event, *completion, *partner;
    const int32_t *peer;
};

/* All borrowed. `threads`: by rank the thread of each event, NULL for one thread; `slot`: then the place of each event when
 * they are sorted by thread. Of sends those in `waits` wait, of the parts of collectives those in `together`. */
struct weft_matched {
    uint32_t ranks;
    const uint32_t *process_first; /* ranks + 1 */
    const uint64_t *events; /* by rank, how many */
    const int32_t *const *threads;
    const uint32_t *const *slot;
    struct weft_waits recvs, probes, sends;
    const uint8_t *waits;
    const uint64_t *coll_first;
    const uint32_t *coll_event, *coll_completion, *coll_instance;
    const uint8_t *together;
    uint64_t nevers; /* events that cannot be passed, sorted by rank: never_rank, never_event */
    const int64_t *never_rank, *never_event;
    int32_t never_target;
};

/* Where the constraints go: by process where they begin; NULL columns: they are counted only. */
struct weft_constraints {
    int64_t *first; /* processes + 1 */
    uint32_t *at;
    int32_t *target;
    uint32_t *value;
    int32_t *send;
};

/* Makes the constraints of the ranks low .. high - 1: first their number (columns NULL: into first[process + 1]), then, with
 * `first` summed up, themselves, in order of process and event. 0, or -1 without memory. */
EXPORT int weft_make_constraints(const struct weft_matched *matched, uint32_t low, uint32_t high,
                                 struct weft_constraints *to);

#endif
