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

/* Convert the enter and exit times of events to ns since the run's first call; the exit of an open event is -1. */
void weft_convert_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis, int64_t *enter,
                        int64_t *leave) {
    for (uint64_t i = 0; i < count; i++) {
        enter[i] = find_event_enter(axis, &events[i]);
        leave[i] = find_event_exit(axis, &events[i]);
    }
}

/* Summarise all times of a rank: first and last times, open calls, time in failed polls, and the time in other calls by
 * cause. */
void weft_summarise_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis,
                          const uint8_t *blocks, const uint8_t *causes, struct weft_span *span_out, int64_t *inside) {
    struct weft_span span = {.least_enter = INT64_MAX, .most = INT64_MIN};
    for (uint64_t i = 0; i < count; i++) {
        int64_t enter = find_event_enter(axis, &events[i]), leave = find_event_exit(axis, &events[i]);
        if (i == 0) span.first_enter = enter;
        span.last_exit = leave;
        if (enter < span.least_enter) span.least_enter = enter;
        if (enter > span.most) span.most = enter;
        if (leave > span.most) span.most = leave;
        span.open += leave < 0;
        if (leave < 0) continue;
        if (blocks[events[i].function] == WEFT_POLLS && failed_polls(&events[i])) span.polling += leave - enter;
        else inside[causes[events[i].function]] += leave - enter;
    }
    *span_out = span;
}

static int64_t find_enter_time(const struct weft_clocks *clocks, uint32_t rank, uint32_t event) {
    return find_event_enter(&clocks->axes[rank], &clocks->events[rank][event]);
}

static int64_t find_leave_time(const struct weft_clocks *clocks, uint32_t rank, uint32_t event) {
    return find_event_exit(&clocks->axes[rank], &clocks->events[rank][event]);
}

/* ---- what is found ---- */

/* Add a wait to the result: the waiting call, the time lost in ns, the late call, and the cause. */
static void add_wait(struct weft_found *found, int64_t waiter, int64_t cost, int64_t culprit, uint8_t cause) {
    found->waiter[found->found] = waiter;
    found->cost[found->found] = cost;
    found->culprit[found->found] = culprit;
    found->cause[found->found++] = cause;
}

struct late {
    int64_t at; /* when it came */
    uint32_t rank, event;
    uint8_t cause;
};

/* Record that a call needed a partner who was late. Of several late partners keep the one that cost most; for a call
 * that returns with the first completion, the one that cost least. */
static void note_late_partner(struct weft_found *found, const struct weft_clocks *clocks, const uint8_t *blocks,
                              uint32_t rank, uint32_t event, struct late partner) {
    uint8_t blocking = blocks[clocks->events[rank][event].function];
    if (blocking == WEFT_BLOCKS_NEVER || blocking == WEFT_POLLS) return;
    int64_t enter = find_enter_time(clocks, rank, event), waited_ns = partner.at - enter;
    if (waited_ns <= 0 && blocking != WEFT_BLOCKS_FIRST) return;
    int64_t leave = find_leave_time(clocks, rank, event);
    if (partner.at > leave) waited_ns = leave - enter;
    if (waited_ns < 0) waited_ns = 0;
    int64_t waiter = (int64_t)(clocks->event_first[rank] + event),
            culprit = (int64_t)(clocks->event_first[partner.rank] + partner.event);
    uint32_t best_row = found->best[waiter];
    if (best_row == NONE) {
        found->best[waiter] = (uint32_t)found->found;
        add_wait(found, waiter, waited_ns, culprit, partner.cause);
    } else if (blocking == WEFT_BLOCKS_FIRST ? waited_ns < found->cost[best_row] : waited_ns > found->cost[best_row]) {
        found->cost[best_row] = waited_ns;
        found->culprit[best_row] = culprit;
        found->cause[best_row] = partner.cause;
    }
}

/* ---- messages ---- */

static const int64_t SKEW = 2000000; /* ns by which clocks of two hosts may differ */

static bool is_on_other_host(const struct weft_messages *messages, int32_t peer) {
    return messages->host[messages->rank] != messages->host[peer];
}

/* Return the size of a message in bytes; -1 if unknown. */
static int64_t find_message_bytes(const struct weft_clocks *clocks, const struct weft_messages *messages,
                                  uint64_t row) {
    if (messages->args[row] >= clocks->event_first[messages->rank + 1] - clocks->event_first[messages->rank]) return -1;
    const struct weft_event *event = &clocks->events[messages->rank][messages->args[row]];
    int64_t size = event->datatype < messages->size_count ? messages->sizes[event->datatype] : -1;
    return size < 0 || event->count < 0 ? -1 : size * event->count;
}

/* Return when, and in which call, a send's message was received; for a matched probe, the call of its receive. */
static struct late find_receive_time(const struct weft_clocks *clocks, const struct weft_messages *messages,
                                     uint64_t row) {
    uint32_t partner = messages->partner[row], rank = (uint32_t)messages->peer[row],
             event = messages->their_event[partner];
    if (messages->their_flags[partner] & WEFT_POST_MATCHED_PROBE && messages->their_args[partner] != NONE)
        event = messages->their_args[partner];
    return (struct late){find_enter_time(clocks, rank, event), rank, event, WEFT_CAUSE_LATE_RECEIVER};
}

/* Return whether a message has a partner and a completion, and none of the flags in `skip`. */
static bool is_usable_message(const struct weft_clocks *clocks, const struct weft_messages *messages, uint64_t row,
                              uint16_t skip) {
    return messages->partner[row] != NONE &&
           messages->completion[row] < clocks->event_first[messages->rank + 1] - clocks->event_first[messages->rank] &&
           messages->peer[row] >= 0 && !(messages->flags[row] & skip);
}

/* Find the receives and probes of a rank that waited for a late sender. */
void weft_find_late_senders(const struct weft_clocks *clocks, const struct weft_messages *messages,
                            struct weft_found *found) {
    for (uint64_t row = messages->first[messages->rank]; row < messages->first[messages->rank + 1]; row++) {
        if (!is_usable_message(clocks, messages, row, WEFT_POST_PARTITIONED)) continue;
        uint32_t rank = (uint32_t)messages->peer[row], event = messages->their_event[messages->partner[row]];
        struct late late = {find_enter_time(clocks, rank, event), rank, event, WEFT_CAUSE_LATE_SENDER};
        if (messages->flags[row] & WEFT_POST_MATCHED_PROBE)
            note_late_partner(found, clocks, messages->blocks, messages->rank, messages->event[row], late);
        note_late_partner(found, clocks, messages->blocks, messages->rank, messages->completion[row], late);
    }
}

/* Find the sends of a rank that waited for a late receiver: synchronous ones, and standard ones too large for the eager
 * protocol. */
void weft_find_late_receivers(const struct weft_clocks *clocks, const struct weft_messages *messages,
                              struct weft_found *found) {
    const uint16_t skip = WEFT_POST_BUFFERED | WEFT_POST_READY | WEFT_POST_PARTITIONED;
    for (uint64_t row = messages->first[messages->rank]; row < messages->first[messages->rank + 1]; row++) {
        if (!is_usable_message(clocks, messages, row, skip)) continue;
        bool is_synchronous = messages->flags[row] & WEFT_POST_SYNCHRONOUS;
        int64_t limit = messages->rendezvous[is_on_other_host(messages, messages->peer[row])];
        if (!is_synchronous && limit == INT64_MAX) continue;
        struct late late = find_receive_time(clocks, messages, row);
        if (late.at <= find_enter_time(clocks, messages->rank, messages->completion[row]) ||
            find_leave_time(clocks, messages->rank, messages->completion[row]) <= late.at)
            continue;
        if (is_synchronous || find_message_bytes(clocks, messages, row) >= limit)
            note_late_partner(found, clocks, messages->blocks, messages->rank, messages->completion[row], late);
    }
}

/* ---- which protocol the library used ---- */

/* By event of a rank the last two times at which what it completes could be complete. */
struct lasts {
    int64_t last, before;
};

/* Keep a time if it is one of the two latest. */
static void note_completion_time(struct lasts *times, int64_t time) {
    if (time > times->last) times->before = times->last, times->last = time;
    else if (time > times->before) times->before = time;
}

/* Return whether a message was completed by a call that waits for several operations (MPI_Waitall). */
static bool completes_several(const struct weft_clocks *clocks, const struct weft_messages *messages, uint64_t row) {
    return messages->blocks[clocks->events[messages->rank][messages->completion[row]].function] == WEFT_BLOCKS_ALL;
}

/* For each event of a rank, return the two latest times at which one of the messages that it completes could be
 * complete. The caller frees the array; NULL without memory. */
static struct lasts *find_last_times(const struct weft_clocks *clocks, const struct weft_messages *sends,
                                     const struct weft_messages *recvs) {
    uint64_t events = clocks->event_first[sends->rank + 1] - clocks->event_first[sends->rank];
    struct lasts *times = malloc((events + 1) * sizeof *times);
    for (uint64_t i = 0; times && i < events; i++) times[i] = (struct lasts){INT64_MIN, INT64_MIN};
    for (uint64_t i = sends->first[sends->rank]; times && i < sends->first[sends->rank + 1]; i++)
        if (is_usable_message(clocks, sends, i, WEFT_POST_BUFFERED) && completes_several(clocks, sends, i))
            note_completion_time(&times[sends->completion[i]], find_receive_time(clocks, sends, i).at);
    for (uint64_t i = recvs->first[recvs->rank]; times && i < recvs->first[recvs->rank + 1]; i++)
        if (is_usable_message(clocks, recvs, i, 0) && completes_several(clocks, recvs, i))
            note_completion_time(&times[recvs->completion[i]], find_enter_time(clocks, (uint32_t)recvs->peer[i],
                                                                               recvs->their_event[recvs->partner[i]]));
    return times;
}

/* Learn from a rank's standard sends which sizes the library sends eagerly and which by rendezvous. Return how many
 * entries `blocked` got, or -1 without memory. */
int64_t weft_learn_protocol(const struct weft_clocks *clocks, const struct weft_messages *sends,
                            const struct weft_messages *recvs, int64_t *eager, int64_t *blocked) {
    const uint16_t skip = WEFT_POST_SYNCHRONOUS | WEFT_POST_BUFFERED | WEFT_POST_READY | WEFT_POST_PARTITIONED;
    struct lasts *lasts = NULL;
    int64_t found = 0;
    for (uint64_t i = sends->first[sends->rank]; i < sends->first[sends->rank + 1]; i++) {
        if (!is_usable_message(clocks, sends, i, skip)) continue;
        uint32_t completion = sends->completion[i];
        int64_t receive_time = find_receive_time(clocks, sends, i).at,
                start_time = find_enter_time(clocks, sends->rank, completion);
        if (receive_time <= start_time) continue;
        bool is_far = is_on_other_host(sends, sends->peer[i]);
        int64_t leave = find_leave_time(clocks, sends->rank, completion), bytes = find_message_bytes(clocks, sends, i),
                skew = is_far ? SKEW : 0;
        uint8_t blocking = sends->blocks[clocks->events[sends->rank][completion].function];
        if (bytes < 0) continue;
        if (leave + skew < receive_time) eager[is_far] = bytes > eager[is_far] ? bytes : eager[is_far];
        if (leave < receive_time || bytes <= eager[is_far] ||
            (blocking != WEFT_BLOCKS_ONE && blocking != WEFT_BLOCKS_ALL))
            continue;
        if (blocking == WEFT_BLOCKS_ALL) {
            if (!lasts && !(lasts = find_last_times(clocks, sends, recvs))) return -1;
            if (receive_time < lasts[completion].last) continue;
            if (lasts[completion].before > start_time) start_time = lasts[completion].before;
        }
        if (receive_time - start_time > skew && receive_time - start_time >= 4 * (leave - receive_time))
            blocked[found++] = bytes * 2 + is_far;
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

/* Return when a member entered its collective, as a possible cause of the others' waiting. */
static struct late make_late_part(const struct weft_clocks *clocks, const struct weft_late_members *input,
                                  uint32_t row) {
    uint32_t rank = (uint32_t)input->rank[row];
    return (struct late){find_enter_time(clocks, rank, input->event[row]), rank, input->event[row],
                         LATE_CAUSE[input->sort[input->function[row]]]};
}

/* Return whether a member is the root of its collective. */
static bool is_root_part(const struct weft_clocks *clocks, const struct weft_late_members *input, uint64_t instance,
                         uint32_t row) {
    int32_t rank = input->rank[row], peer = clocks->events[rank][input->event[row]].peer;
    int64_t first = input->member_first[input->comm[instance]], end = input->member_first[input->comm[instance] + 1];
    return peer >= 0 && peer < end - first && input->members[first + peer] == rank;
}

/* Record that a member of a collective waited for a late one, unless it had returned before that one came (between
 * hosts that only shows clock differences). */
static void note_waiting_part(struct weft_found *found, const struct weft_clocks *clocks,
                              const struct weft_late_members *input, uint32_t row, struct late late) {
    uint32_t rank = (uint32_t)input->rank[row], completion = input->completion[row];
    if (completion >= clocks->event_first[rank + 1] - clocks->event_first[rank]) return;
    if (input->host[rank] == input->host[late.rank] && find_leave_time(clocks, rank, completion) < late.at) return;
    late.cause = LATE_CAUSE[input->sort[input->function[row]]];
    note_late_partner(found, clocks, input->blocks, rank, completion, late);
}

/* Record the waits in a scan, in which each member waits for those of lower rank. */
static void note_scan_waits(struct weft_found *found, const struct weft_clocks *clocks,
                            const struct weft_late_members *input, uint64_t instance) {
    int64_t first = input->member_first[input->comm[instance]], end = input->member_first[input->comm[instance] + 1];
    for (uint64_t k = input->first[instance]; k < input->first[instance + 1]; k++)
        input->place[input->rank[input->rows[k]]] = input->rows[k];
    struct late late = {.at = INT64_MIN};
    for (int64_t member = first; member < end; member++) {
        int32_t rank = input->members[member];
        uint32_t row = rank < 0 ? NONE : input->place[rank];
        if (row == NONE) continue;
        struct late own = make_late_part(clocks, input, row);
        if (late.at > own.at) note_waiting_part(found, clocks, input, row, late);
        else late = own;
        input->place[rank] = NONE;
    }
    for (uint64_t k = input->first[instance]; k < input->first[instance + 1]; k++)
        input->place[input->rank[input->rows[k]]] = NONE;
}

/* Record how long members stayed in a barrier or all-to-all collective after the first member had left it: the
 * library's own completion time. */
static void note_completion_waits(struct weft_found *found, const struct weft_clocks *clocks,
                                  const struct weft_late_members *input, uint64_t instance, int64_t last) {
    int64_t least = INT64_MAX,
            members = input->member_first[input->comm[instance] + 1] - input->member_first[input->comm[instance]];
    for (uint64_t k = input->first[instance]; k < input->first[instance + 1]; k++) {
        uint32_t row = input->rows[k], rank = (uint32_t)input->rank[row];
        uint8_t sort = input->sort[input->function[row]];
        if ((sort != LATE_ALL && sort != LATE_BARRIER) || input->completion[row] != input->event[row]) return;
        int64_t leave = find_leave_time(clocks, rank, input->event[row]);
        if (leave < least) least = leave;
    }
    if ((int64_t)(input->first[instance + 1] - input->first[instance]) != members) return;
    if (least < last) least = last;
    for (uint64_t k = input->first[instance]; k < input->first[instance + 1]; k++) {
        uint32_t row = input->rows[k], rank = (uint32_t)input->rank[row];
        int64_t ns = find_leave_time(clocks, rank, input->event[row]) - least,
                place = (int64_t)(clocks->event_first[rank] + input->event[row]);
        if (ns > 0) add_wait(found, place, ns, place, WEFT_CAUSE_COMPLETION);
    }
}

/* Record the waits of all members of one collective. */
static void note_collective_waits(struct weft_found *found, const struct weft_clocks *clocks,
                                  const struct weft_late_members *input, uint64_t instance) {
    if (input->member_first[input->comm[instance]] == input->member_first[input->comm[instance] + 1]) return;
    struct late last = {.at = INT64_MIN}, root = {.at = INT64_MIN};
    bool is_rooted = false, has_waits = false, is_scan = false, has_root = false;
    for (uint64_t k = input->first[instance]; k < input->first[instance + 1]; k++) {
        struct late own = make_late_part(clocks, input, input->rows[k]);
        uint8_t sort = input->sort[input->function[input->rows[k]]];
        if (own.at >= last.at) last = own;
        has_waits |= sort != LATE_NONE;
        is_scan |= sort == LATE_SCAN;
        is_rooted |= sort == LATE_FROM_ROOT || sort == LATE_TO_ROOT;
    }
    if (!has_waits) return;
    if (is_scan) {
        note_scan_waits(found, clocks, input, instance);
        return;
    }
    for (uint64_t k = input->first[instance]; is_rooted && k < input->first[instance + 1]; k++)
        if (is_root_part(clocks, input, instance, input->rows[k]))
            root = make_late_part(clocks, input, input->rows[k]), has_root = true;
    for (uint64_t k = input->first[instance]; k < input->first[instance + 1]; k++) {
        uint32_t row = input->rows[k];
        uint8_t sort = input->sort[input->function[row]];
        if (sort == LATE_NONE || (sort == LATE_FROM_ROOT && !has_root) ||
            (sort == LATE_TO_ROOT && !is_root_part(clocks, input, instance, row)))
            continue;
        note_waiting_part(found, clocks, input, row, sort == LATE_FROM_ROOT ? root : last);
    }
    note_completion_waits(found, clocks, input, instance, last.at);
}

/* Find the calls that waited in collectives for the last member or for the root. */
void weft_find_late_members(const struct weft_clocks *clocks, const struct weft_late_members *input,
                            struct weft_found *found) {
    for (uint64_t instance = 0; instance < input->instances; instance++)
        note_collective_waits(found, clocks, input, instance);
}
