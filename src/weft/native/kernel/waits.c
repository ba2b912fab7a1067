/* What calls lost by waiting for others that were late (the wait states: src/weft/waits).
 *
 * Places are events of the run in one row, those of rank r from event_first[r] on. An open call has the exit -1. */
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "times.h"

/* ---- times ---- */

EXPORT void weft_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, int64_t *enter,
                       int64_t *leave);
EXPORT void weft_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, int64_t *enter,
                       int64_t *leave) {
    for (uint64_t i = 0; i < count; i++) {
        enter[i] = enter_of(axis, &events[i]);
        leave[i] = exit_of(axis, &events[i]);
    }
}

/* What is asked of all times of a rank together. */
struct weft_span {
    int64_t first_enter, last_exit, least_enter, most, inside; /* inside: the sum of all calls' times */
    uint64_t open;
};

EXPORT void weft_span(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, struct weft_span *out);
EXPORT void weft_span(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, struct weft_span *out) {
    struct weft_span s = {.least_enter = INT64_MAX, .most = INT64_MIN};
    for (uint64_t i = 0; i < count; i++) {
        int64_t enter = enter_of(axis, &events[i]), leave = exit_of(axis, &events[i]);
        if (i == 0) s.first_enter = enter;
        s.last_exit = leave;
        if (enter < s.least_enter) s.least_enter = enter;
        if (enter > s.most) s.most = enter;
        if (leave > s.most) s.most = leave;
        s.inside += leave - enter;
        s.open += leave < 0;
    }
    *out = s;
}

/* Borrowed, by rank. */
struct weft_clocks {
    const uint64_t *event_first; /* ranks + 1 */
    const struct weft_event *const *events;
    const struct weft_axis *axes;
};

static int64_t entered(const struct weft_clocks *t, uint32_t rank, uint32_t event) {
    return enter_of(&t->axes[rank], &t->events[rank][event]);
}

static int64_t left(const struct weft_clocks *t, uint32_t rank, uint32_t event) {
    return exit_of(&t->axes[rank], &t->events[rank][event]);
}

/* ---- messages ---- */

struct weft_late_posts {
    uint32_t rank, ranks;
    const uint64_t *first;
    const uint32_t *completion, *partner, *their_event;
    const int32_t *peer;
    const uint16_t *flags;
    uint16_t skip; /* posts with one of these flags wait for nobody */
    uint8_t sends; /* a send that returned before its receive was posted was buffered and waited for nobody */
};

/* The calls of a rank that waited for messages, by row: place, ns, place of the call that was late. Of several messages that
 * one call waited for only the last to come counts. Room for all rows of the rank; returns their number, -1 without memory. */
EXPORT int64_t weft_late_posts(const struct weft_clocks *t, const struct weft_late_posts *in, int64_t *waiter, int64_t *cost,
                               int64_t *culprit);
EXPORT int64_t weft_late_posts(const struct weft_clocks *t, const struct weft_late_posts *in, int64_t *waiter, int64_t *cost,
                               int64_t *culprit) {
    uint64_t events = t->event_first[in->rank + 1] - t->event_first[in->rank];
    uint32_t *best = malloc((events + 1) * sizeof *best); /* by event the found row that counts */
    if (!best) return -1;
    memset(best, 0xff, events * sizeof *best);
    uint32_t found = 0;
    for (uint64_t i = in->first[in->rank]; i < in->first[in->rank + 1]; i++) {
        uint32_t partner = in->partner[i], completion = in->completion[i];
        int32_t peer = in->peer[i];
        if (partner == NONE || completion >= events || in->flags[i] & in->skip || peer < 0) continue;
        int64_t wait = (int64_t)(t->event_first[in->rank] + completion);
        int64_t other = (int64_t)(t->event_first[peer] + in->their_event[partner]);
        int64_t leave = left(t, in->rank, completion), late = entered(t, (uint32_t)peer, in->their_event[partner]);
        if (in->sends && leave <= late) continue;
        int64_t ns = (late < leave ? late : leave) - entered(t, in->rank, completion);
        if (ns <= 0) continue;
        uint32_t b = best[completion];
        if (b != NONE && cost[b] >= ns) continue;
        if (b != NONE) cost[b] = 0;
        best[completion] = found;
        waiter[found] = wait;
        cost[found] = ns;
        culprit[found++] = other;
    }
    free(best);
    uint32_t kept = 0;
    for (uint32_t k = 0; k < found; k++) {
        if (!cost[k]) continue;
        waiter[kept] = waiter[k];
        cost[kept] = cost[k];
        culprit[kept++] = culprit[k];
    }
    return kept;
}

enum { LATE_NONE = 0, LATE_ALL = 1, LATE_FROM_ROOT = 2, LATE_TO_ROOT = 3 };

struct weft_late_members {
    uint64_t instances;
    const uint64_t *first;
    const uint32_t *rows; /* of parts, by instance */
    const int32_t *rank;  /* by part */
    const uint32_t *event, *completion;
    const uint16_t *function;
    const uint8_t *sort;         /* LATE_... by function, 65,536 */
    const int32_t *comm;         /* by instance */
    const int64_t *member_first; /* by communicator, where its members begin; one more than there are */
    const int32_t *members;
};

static bool is_root(const struct weft_clocks *t, const struct weft_late_members *in, uint64_t instance, uint32_t row) {
    int32_t rank = in->rank[row], peer = t->events[rank][in->event[row]].peer;
    int64_t first = in->member_first[in->comm[instance]], end = in->member_first[in->comm[instance] + 1];
    return peer >= 0 && peer < end - first && in->members[first + peer] == rank;
}

/* The calls that waited in collectives for the last member, or for the root, instance by instance. Room for all parts. */
EXPORT uint64_t weft_late_members(const struct weft_clocks *t, const struct weft_late_members *in, int64_t *waiter, int64_t *cost,
                                  int64_t *culprit);
EXPORT uint64_t weft_late_members(const struct weft_clocks *t, const struct weft_late_members *in, int64_t *waiter, int64_t *cost,
                                  int64_t *culprit) {
    uint64_t found = 0;
    for (uint64_t n = 0; n < in->instances; n++) {
        int64_t last = INT64_MIN, at_root = 0;
        uint32_t latest = NONE, root = NONE;
        bool rooted = false, any = false;
        for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) {
            uint32_t row = in->rows[k];
            uint8_t sort = in->sort[in->function[row]];
            int64_t enter = entered(t, (uint32_t)in->rank[row], in->event[row]);
            if (enter >= last) last = enter, latest = row;
            any |= sort != LATE_NONE;
            rooted |= sort == LATE_FROM_ROOT || sort == LATE_TO_ROOT;
        }
        for (uint64_t k = in->first[n]; rooted && k < in->first[n + 1]; k++)
            if (is_root(t, in, n, in->rows[k])) root = in->rows[k];
        if (root != NONE) at_root = entered(t, (uint32_t)in->rank[root], in->event[root]);
        for (uint64_t k = in->first[n]; any && k < in->first[n + 1]; k++) {
            uint32_t row = in->rows[k], other = latest, rank = (uint32_t)in->rank[row];
            uint8_t sort = in->sort[in->function[row]];
            int64_t late = last;
            if (sort == LATE_NONE || in->completion[row] != in->event[row]) continue;
            if (sort == LATE_FROM_ROOT) other = root, late = at_root;
            if (other == NONE || (sort == LATE_TO_ROOT && !is_root(t, in, n, row))) continue;
            int64_t leave = left(t, rank, in->event[row]);
            int64_t ns = (late < leave ? late : leave) - entered(t, rank, in->event[row]);
            if (ns <= 0) continue;
            waiter[found] = (int64_t)(t->event_first[rank] + in->event[row]);
            cost[found] = ns;
            culprit[found++] = (int64_t)(t->event_first[in->rank[other]] + in->event[other]);
        }
    }
    return found;
}
