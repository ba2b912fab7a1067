/* Whom calls waited for, and what it cost (the wait states: src/weft/waits/causes.py and docs/waiting.md).
 *
 * Places are events of the run in one row, those of rank r from event_first[r] on. An open call has the exit -1.
 * One call waits for one that is late: of all that it needed, the last to come (a call that returns with the first of
 * several: the first). So what is found for different calls can be added, and is never longer than the call. */
#include <stdlib.h>
#include <string.h>

#include "waits.h"
#include "ops.h"
#include "times.h"

/* ---- times ---- */

void weft_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, int64_t *enter,
                int64_t *leave) {
    for (uint64_t i = 0; i < count; i++) {
        enter[i] = enter_of(axis, &events[i]);
        leave[i] = exit_of(axis, &events[i]);
    }
}

void weft_span(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, const uint8_t *blocks,
               const uint8_t *causes, struct weft_span *out, int64_t *inside) {
    struct weft_span s = {.least_enter = INT64_MAX, .most = INT64_MIN};
    for (uint64_t i = 0; i < count; i++) {
        int64_t enter = enter_of(axis, &events[i]), leave = exit_of(axis, &events[i]);
        if (i == 0) s.first_enter = enter;
        s.last_exit = leave;
        if (enter < s.least_enter) s.least_enter = enter;
        if (enter > s.most) s.most = enter;
        if (leave > s.most) s.most = leave;
        s.open += leave < 0;
        if (leave < 0) continue;
        if (blocks[events[i].function] == WEFT_POLLS && failed_polls(&events[i])) s.polling += leave - enter;
        else inside[causes[events[i].function]] += leave - enter;
    }
    *out = s;
}

static int64_t entered(const struct weft_clocks *t, uint32_t rank, uint32_t event) {
    return enter_of(&t->axes[rank], &t->events[rank][event]);
}

static int64_t left(const struct weft_clocks *t, uint32_t rank, uint32_t event) {
    return exit_of(&t->axes[rank], &t->events[rank][event]);
}

/* ---- what is found ---- */

static void put(struct weft_found *f, int64_t waiter, int64_t cost, int64_t culprit, uint8_t cause) {
    f->waiter[f->found] = waiter;
    f->cost[f->found] = cost;
    f->culprit[f->found] = culprit;
    f->cause[f->found++] = cause;
}

struct late {
    int64_t at; /* when it came */
    uint32_t rank, event;
    uint8_t cause;
};

/* A call of a rank needed somebody who was late. */
static void note(struct weft_found *f, const struct weft_clocks *t, const uint8_t *blocks, uint32_t rank,
                 uint32_t event, struct late late) {
    uint8_t how = blocks[t->events[rank][event].function];
    if (how == WEFT_BLOCKS_NEVER || how == WEFT_POLLS) return;
    int64_t enter = entered(t, rank, event), ns = late.at - enter;
    if (ns <= 0 && how != WEFT_BLOCKS_FIRST) return;
    int64_t leave = left(t, rank, event);
    if (late.at > leave) ns = leave - enter;
    if (ns < 0) ns = 0;
    int64_t place = (int64_t)(t->event_first[rank] + event),
            culprit = (int64_t)(t->event_first[late.rank] + late.event);
    uint32_t b = f->best[place];
    if (b == NONE) {
        f->best[place] = (uint32_t)f->found;
        put(f, place, ns, culprit, late.cause);
    } else if (how == WEFT_BLOCKS_FIRST ? ns < f->cost[b] : ns > f->cost[b]) {
        f->cost[b] = ns;
        f->culprit[b] = culprit;
        f->cause[b] = late.cause;
    }
}

/* ---- messages ---- */

static const int64_t SKEW = 2000000; /* ns by which clocks of two hosts may differ */

static bool is_far(const struct weft_messages *in, int32_t peer) { return in->host[in->rank] != in->host[peer]; }

static int64_t bytes_of(const struct weft_clocks *t, const struct weft_messages *in, uint64_t row) {
    if (in->args[row] >= t->event_first[in->rank + 1] - t->event_first[in->rank]) return -1;
    const struct weft_event *e = &t->events[in->rank][in->args[row]];
    int64_t size = e->datatype < in->size_count ? in->sizes[e->datatype] : -1;
    return size < 0 || e->count < 0 ? -1 : size * e->count;
}

/* A message that a matched probe took goes over when its receive is called. */
static struct late receive_of(const struct weft_clocks *t, const struct weft_messages *in, uint64_t row) {
    uint32_t partner = in->partner[row], rank = (uint32_t)in->peer[row], event = in->their_event[partner];
    if (in->their_flags[partner] & WEFT_POST_MATCHED_PROBE && in->their_args[partner] != NONE)
        event = in->their_args[partner];
    return (struct late){entered(t, rank, event), rank, event, WEFT_CAUSE_LATE_RECEIVER};
}

static bool usable(const struct weft_clocks *t, const struct weft_messages *in, uint64_t row, uint16_t skip) {
    return in->partner[row] != NONE && in->completion[row] < t->event_first[in->rank + 1] - t->event_first[in->rank] &&
           in->peer[row] >= 0 && !(in->flags[row] & skip);
}

void weft_late_senders(const struct weft_clocks *t, const struct weft_messages *in, struct weft_found *f) {
    for (uint64_t i = in->first[in->rank]; i < in->first[in->rank + 1]; i++) {
        if (!usable(t, in, i, WEFT_POST_PARTITIONED)) continue;
        uint32_t rank = (uint32_t)in->peer[i], event = in->their_event[in->partner[i]];
        struct late late = {entered(t, rank, event), rank, event, WEFT_CAUSE_LATE_SENDER};
        if (in->flags[i] & WEFT_POST_MATCHED_PROBE) note(f, t, in->blocks, in->rank, in->event[i], late);
        note(f, t, in->blocks, in->rank, in->completion[i], late);
    }
}

void weft_late_receivers(const struct weft_clocks *t, const struct weft_messages *in, struct weft_found *f) {
    const uint16_t skip = WEFT_POST_BUFFERED | WEFT_POST_READY | WEFT_POST_PARTITIONED;
    for (uint64_t i = in->first[in->rank]; i < in->first[in->rank + 1]; i++) {
        if (!usable(t, in, i, skip)) continue;
        bool synchronous = in->flags[i] & WEFT_POST_SYNCHRONOUS;
        int64_t limit = in->rendezvous[is_far(in, in->peer[i])];
        if (!synchronous && limit == INT64_MAX) continue;
        struct late late = receive_of(t, in, i);
        if (late.at <= entered(t, in->rank, in->completion[i]) || left(t, in->rank, in->completion[i]) <= late.at)
            continue;
        if (synchronous || bytes_of(t, in, i) >= limit) note(f, t, in->blocks, in->rank, in->completion[i], late);
    }
}

/* ---- which protocol the library used ---- */

/* By event of a rank the last two times at which what it completes could be complete. */
struct lasts {
    int64_t last, before;
};

static void came(struct lasts *of, int64_t at) {
    if (at > of->last) of->before = of->last, of->last = at;
    else if (at > of->before) of->before = at;
}

static bool completes_several(const struct weft_clocks *t, const struct weft_messages *in, uint64_t row) {
    return in->blocks[t->events[in->rank][in->completion[row]].function] == WEFT_BLOCKS_ALL;
}

static struct lasts *lasts_of(const struct weft_clocks *t, const struct weft_messages *sends,
                              const struct weft_messages *recvs) {
    uint64_t events = t->event_first[sends->rank + 1] - t->event_first[sends->rank];
    struct lasts *of = malloc((events + 1) * sizeof *of);
    for (uint64_t i = 0; of && i < events; i++) of[i] = (struct lasts){INT64_MIN, INT64_MIN};
    for (uint64_t i = sends->first[sends->rank]; of && i < sends->first[sends->rank + 1]; i++)
        if (usable(t, sends, i, WEFT_POST_BUFFERED) && completes_several(t, sends, i))
            came(&of[sends->completion[i]], receive_of(t, sends, i).at);
    for (uint64_t i = recvs->first[recvs->rank]; of && i < recvs->first[recvs->rank + 1]; i++)
        if (usable(t, recvs, i, 0) && completes_several(t, recvs, i))
            came(&of[recvs->completion[i]],
                 entered(t, (uint32_t)recvs->peer[i], recvs->their_event[recvs->partner[i]]));
    return of;
}

int64_t weft_protocol(const struct weft_clocks *t, const struct weft_messages *sends, const struct weft_messages *recvs,
                      int64_t *eager, int64_t *blocked) {
    const uint16_t skip = WEFT_POST_SYNCHRONOUS | WEFT_POST_BUFFERED | WEFT_POST_READY | WEFT_POST_PARTITIONED;
    struct lasts *lasts = NULL;
    int64_t found = 0;
    for (uint64_t i = sends->first[sends->rank]; i < sends->first[sends->rank + 1]; i++) {
        if (!usable(t, sends, i, skip)) continue;
        uint32_t completion = sends->completion[i];
        int64_t at = receive_of(t, sends, i).at, base = entered(t, sends->rank, completion);
        if (at <= base) continue;
        bool far = is_far(sends, sends->peer[i]);
        int64_t leave = left(t, sends->rank, completion), bytes = bytes_of(t, sends, i), skew = far ? SKEW : 0;
        uint8_t how = sends->blocks[t->events[sends->rank][completion].function];
        if (bytes < 0) continue;
        if (leave + skew < at) eager[far] = bytes > eager[far] ? bytes : eager[far];
        if (leave < at || bytes <= eager[far] || (how != WEFT_BLOCKS_ONE && how != WEFT_BLOCKS_ALL)) continue;
        if (how == WEFT_BLOCKS_ALL) {
            if (!lasts && !(lasts = lasts_of(t, sends, recvs))) return -1;
            if (at < lasts[completion].last) continue;
            if (lasts[completion].before > base) base = lasts[completion].before;
        }
        if (at - base > skew && at - base >= 4 * (leave - at)) blocked[found++] = bytes * 2 + far;
    }
    free(lasts);
    return found;
}

/* ---- collectives ---- */

static const uint8_t LATE_CAUSE[] = {0,
                                     WEFT_CAUSE_WAIT_AT_NXN,
                                     WEFT_CAUSE_LATE_BROADCAST,
                                     WEFT_CAUSE_EARLY_REDUCE,
                                     WEFT_CAUSE_EARLY_SCAN,
                                     WEFT_CAUSE_WAIT_AT_BARRIER,
                                     WEFT_CAUSE_WAIT_AT_FENCE};

static struct late part_late(const struct weft_clocks *t, const struct weft_late_members *in, uint32_t row) {
    uint32_t rank = (uint32_t)in->rank[row];
    return (struct late){entered(t, rank, in->event[row]), rank, in->event[row],
                         LATE_CAUSE[in->sort[in->function[row]]]};
}

static bool is_root(const struct weft_clocks *t, const struct weft_late_members *in, uint64_t instance, uint32_t row) {
    int32_t rank = in->rank[row], peer = t->events[rank][in->event[row]].peer;
    int64_t first = in->member_first[in->comm[instance]], end = in->member_first[in->comm[instance] + 1];
    return peer >= 0 && peer < end - first && in->members[first + peer] == rank;
}

/* One that returned before the late one came did not need it; between hosts only clocks that differ show that. */
static void note_part(struct weft_found *f, const struct weft_clocks *t, const struct weft_late_members *in,
                      uint32_t row, struct late late) {
    uint32_t rank = (uint32_t)in->rank[row], completion = in->completion[row];
    if (completion >= t->event_first[rank + 1] - t->event_first[rank]) return;
    if (in->host[rank] == in->host[late.rank] && left(t, rank, completion) < late.at) return;
    late.cause = LATE_CAUSE[in->sort[in->function[row]]];
    note(f, t, in->blocks, rank, completion, late);
}

/* At a scan a member waits for those of lower rank. */
static void note_scan(struct weft_found *f, const struct weft_clocks *t, const struct weft_late_members *in,
                      uint64_t n) {
    int64_t first = in->member_first[in->comm[n]], end = in->member_first[in->comm[n] + 1];
    for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) in->place[in->rank[in->rows[k]]] = in->rows[k];
    struct late late = {.at = INT64_MIN};
    for (int64_t m = first; m < end; m++) {
        int32_t rank = in->members[m];
        uint32_t row = rank < 0 ? NONE : in->place[rank];
        if (row == NONE) continue;
        struct late own = part_late(t, in, row);
        if (late.at > own.at) note_part(f, t, in, row, late);
        else late = own;
        in->place[rank] = NONE;
    }
    for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) in->place[in->rank[in->rows[k]]] = NONE;
}

/* Once the first member has left, the others are held by the library alone. */
static void note_completion(struct weft_found *f, const struct weft_clocks *t, const struct weft_late_members *in,
                            uint64_t n, int64_t last) {
    int64_t least = INT64_MAX, members = in->member_first[in->comm[n] + 1] - in->member_first[in->comm[n]];
    for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) {
        uint32_t row = in->rows[k], rank = (uint32_t)in->rank[row];
        uint8_t sort = in->sort[in->function[row]];
        if ((sort != LATE_ALL && sort != LATE_BARRIER) || in->completion[row] != in->event[row]) return;
        int64_t leave = left(t, rank, in->event[row]);
        if (leave < least) least = leave;
    }
    if ((int64_t)(in->first[n + 1] - in->first[n]) != members) return;
    if (least < last) least = last;
    for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) {
        uint32_t row = in->rows[k], rank = (uint32_t)in->rank[row];
        int64_t ns = left(t, rank, in->event[row]) - least, place = (int64_t)(t->event_first[rank] + in->event[row]);
        if (ns > 0) put(f, place, ns, place, WEFT_CAUSE_COMPLETION);
    }
}

static void note_instance(struct weft_found *f, const struct weft_clocks *t, const struct weft_late_members *in,
                          uint64_t n) {
    if (in->member_first[in->comm[n]] == in->member_first[in->comm[n] + 1]) return;
    struct late last = {.at = INT64_MIN}, root = {.at = INT64_MIN};
    bool rooted = false, any = false, scan = false, at_root = false;
    for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) {
        struct late own = part_late(t, in, in->rows[k]);
        uint8_t sort = in->sort[in->function[in->rows[k]]];
        if (own.at >= last.at) last = own;
        any |= sort != LATE_NONE;
        scan |= sort == LATE_SCAN;
        rooted |= sort == LATE_FROM_ROOT || sort == LATE_TO_ROOT;
    }
    if (!any) return;
    if (scan) {
        note_scan(f, t, in, n);
        return;
    }
    for (uint64_t k = in->first[n]; rooted && k < in->first[n + 1]; k++)
        if (is_root(t, in, n, in->rows[k])) root = part_late(t, in, in->rows[k]), at_root = true;
    for (uint64_t k = in->first[n]; k < in->first[n + 1]; k++) {
        uint32_t row = in->rows[k];
        uint8_t sort = in->sort[in->function[row]];
        if (sort == LATE_NONE || (sort == LATE_FROM_ROOT && !at_root) ||
            (sort == LATE_TO_ROOT && !is_root(t, in, n, row)))
            continue;
        note_part(f, t, in, row, sort == LATE_FROM_ROOT ? root : last);
    }
    note_completion(f, t, in, n, last.at);
}

void weft_late_members(const struct weft_clocks *t, const struct weft_late_members *in, struct weft_found *f) {
    for (uint64_t n = 0; n < in->instances; n++) note_instance(f, t, in, n);
}
