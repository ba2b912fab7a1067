/* Re-running a matched record: how far does each process come when its calls wait for what they are said to need?
 *
 * A process has a list of constraints in program order: at its event `at` it waits until
 *   target >= 0        process `target` has entered its event `value`
 *   target < 0         gathering -1 - target: value 0 arrives there, value 1 waits until `size` have arrived
 * Each process waits for one thing at a time, so the waiting lists are threaded through one array, and all is linear
 * in the number of constraints (a waiter is looked at again only when the one it waits for has moved).
 */
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "ops.h"

#define NOBODY (-1)

/* Advance all processes through their constraints as far as possible; `place` gets the constraint at which each is
 * stuck, or its end. Return 0, or -1 without memory. */
int weft_run_progress(int64_t processes, const int64_t *first, const uint32_t *at, const int32_t *target,
                      const uint32_t *value, int64_t gatherings, const int64_t *size, int64_t *place) {
    int64_t *heads = malloc(sizeof(int64_t) * (size_t)(processes + gatherings + 1));
    int64_t *next = malloc(sizeof(int64_t) * (size_t)(processes + 1));
    int64_t *ready = malloc(sizeof(int64_t) * (size_t)(processes + 1));
    int64_t *arrived = calloc((size_t)(gatherings + 1), sizeof(int64_t));
    if (!heads || !next || !ready || !arrived) {
        free(heads), free(next), free(ready), free(arrived);
        return -1;
    }
    for (int64_t i = 0; i < processes + gatherings; i++) heads[i] = NOBODY;
    int64_t ready_count = 0;
    for (int64_t process = processes - 1; process >= 0; process--) {
        place[process] = first[process];
        ready[ready_count++] = process;
    }
    while (ready_count > 0) {
        int64_t process = ready[--ready_count], constraint = place[process], start = constraint,
                end = first[process + 1], waits_on = NOBODY;
        while (constraint < end) {
            int64_t awaited = target[constraint];
            if (awaited >= 0) {
                bool is_there = awaited == process
                                    ? at[constraint] >= value[constraint]
                                    : place[awaited] >= first[awaited + 1] || at[place[awaited]] >= value[constraint];
                if (!is_there) {
                    waits_on = awaited;
                    break;
                }
            } else {
                int64_t gathering = -1 - awaited;
                if (value[constraint] == 0) {
                    if (++arrived[gathering] == size[gathering]) {
                        for (int64_t waiter = heads[processes + gathering]; waiter != NOBODY; waiter = next[waiter])
                            ready[ready_count++] = waiter;
                        heads[processes + gathering] = NOBODY;
                    }
                } else if (arrived[gathering] < size[gathering]) {
                    waits_on = processes + gathering;
                    break;
                }
            }
            constraint++;
        }
        place[process] = constraint;
        if (waits_on != NOBODY) {
            next[process] = heads[waits_on];
            heads[waits_on] = process;
        }
        if (constraint != start) {
            for (int64_t waiter = heads[process]; waiter != NOBODY; waiter = next[waiter])
                ready[ready_count++] = waiter;
            heads[process] = NOBODY;
        }
    }
    free(heads), free(next), free(ready), free(arrived);
    return 0;
}

/* ---- constraints out of a matched record ---- */

struct placing {
    const struct weft_matched *in;
    struct weft_constraints *to;
    uint32_t rank;
    int64_t *next; /* by place of an event: how many constraints there, then where its next one goes; NULL: not asked */
    int64_t count;
};

/* Add a constraint to an event of the rank: count it, or in the last pass write it. `target`, `value`: what is waited
 * for; `send`: the send that waits, or -1. */
static void count_or_write_constraint(struct placing *placing, uint32_t at, int32_t target, uint32_t value,
                                      int32_t send) {
    if (at >= placing->in->events[placing->rank]) return;
    const uint32_t *slot = placing->in->slot[placing->rank];
    placing->count++;
    if (!placing->next) return;
    int64_t *next = &placing->next[slot ? slot[at] : at];
    if (!placing->to->at) {
        ++*next;
        return;
    }
    int64_t index = (*next)++;
    placing->to->at[index] = at;
    placing->to->target[index] = target;
    placing->to->value[index] = value;
    placing->to->send[index] = send;
}

static int32_t find_process(const struct weft_matched *matched, uint32_t rank, uint32_t event) {
    const int32_t *threads = matched->threads[rank];
    return (int32_t)matched->process_first[rank] + (threads && event < matched->events[rank] ? threads[event] : 0);
}

/* Return the rank that a row of sends or receives belongs to: `peer`, unless the record was matched anew. */
static uint32_t find_row_rank(const struct weft_matched *matched, const struct weft_waits *rows, int32_t peer,
                              uint32_t row) {
    if (peer >= 0 && (uint32_t)peer < matched->ranks && rows->first[peer] <= row && row < rows->first[peer + 1])
        return (uint32_t)peer;
    uint32_t low = 0, high = matched->ranks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (rows->first[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

/* For each matched message in `mine`: its completion requires that the partner was posted. */
static void add_message_constraints(struct placing *placing, const struct weft_waits *mine,
                                    const struct weft_waits *theirs, const uint8_t *which, bool are_sends) {
    for (uint64_t i = mine->first[placing->rank]; i < mine->first[placing->rank + 1]; i++) {
        uint32_t partner = mine->partner[i];
        if (partner == NONE || mine->completion[i] == NONE || (which && !which[i])) continue;
        if (!placing->to->at) {
            count_or_write_constraint(placing, mine->completion[i], 0, 0, 0);
            continue;
        }
        uint32_t value = theirs->event[partner];
        int32_t target = find_process(placing->in, find_row_rank(placing->in, theirs, mine->peer[i], partner), value);
        count_or_write_constraint(placing, mine->completion[i], target, value, are_sends ? (int32_t)i : -1);
    }
}

/* Add the rank's arrivals in its collectives (`is_arrival`), or that their completions wait for all arrivals. */
static void add_collective_constraints(struct placing *placing, bool is_arrival) {
    const struct weft_matched *matched = placing->in;
    for (uint64_t i = matched->coll_first[placing->rank]; i < matched->coll_first[placing->rank + 1]; i++) {
        uint32_t at = is_arrival ? matched->coll_event[i] : matched->coll_completion[i];
        if (matched->together[i] && at != NONE)
            count_or_write_constraint(placing, at, -1 - (int32_t)matched->coll_instance[i], is_arrival ? 0 : 1, -1);
    }
}

/* Add all constraints of a rank; at the same event arrivals come first. `never`: the rank's first event that cannot be
 * passed. */
static void add_rank_constraints(struct placing *placing, uint64_t never) {
    const struct weft_matched *matched = placing->in;
    add_collective_constraints(placing, true);
    add_message_constraints(placing, &matched->recvs, &matched->sends, NULL, false);
    add_message_constraints(placing, &matched->probes, &matched->sends, NULL, false);
    add_message_constraints(placing, &matched->sends, &matched->recvs, matched->waits, true);
    add_collective_constraints(placing, false);
    for (; never < matched->nevers && matched->never_rank[never] == placing->rank; never++)
        count_or_write_constraint(placing, (uint32_t)matched->never_event[never], matched->never_target, 1, -1);
}

/* Create the constraints of the ranks low .. high - 1 from a matched record; without columns in `to` only count them.
 * Return 0, or -1 without memory. */
int weft_make_constraints(const struct weft_matched *matched, uint32_t low, uint32_t high,
                          struct weft_constraints *to) {
    uint64_t most_events = 0, never = 0;
    for (uint32_t rank = low; rank < high; rank++)
        most_events = matched->events[rank] > most_events ? matched->events[rank] : most_events;
    int64_t *next = malloc((most_events + 1) * sizeof *next);
    if (!next) return -1;
    struct weft_constraints count_only = {to->first, NULL, NULL, NULL, NULL};
    for (uint32_t rank = low; rank < high; rank++) {
        while (never < matched->nevers && matched->never_rank[never] < rank) never++;
        bool by_event = to->at || matched->threads[rank];
        if (by_event) memset(next, 0, matched->events[rank] * sizeof *next);
        struct placing placing = {matched, &count_only, rank, by_event ? next : NULL, 0};
        add_rank_constraints(&placing, never);
        if (!to->at) {
            if (!matched->threads[rank]) to->first[matched->process_first[rank] + 1] = placing.count;
            for (uint64_t event = 0; matched->threads[rank] && event < matched->events[rank]; event++)
                to->first[find_process(matched, rank, (uint32_t)event) + 1] += next[matched->slot[rank][event]];
            continue;
        }
        int64_t first_index = to->first[matched->process_first[rank]];
        for (uint64_t event = 0; event < matched->events[rank]; event++) {
            int64_t count = next[event];
            next[event] = first_index;
            first_index += count;
        }
        placing.to = to;
        add_rank_constraints(&placing, never);
    }
    free(next);
    return 0;
}
