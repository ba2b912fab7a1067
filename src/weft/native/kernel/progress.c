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

int weft_progress(int64_t processes, const int64_t *first, const uint32_t *at, const int32_t *target,
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
    int64_t left = 0;
    for (int64_t p = processes - 1; p >= 0; p--) {
        place[p] = first[p];
        ready[left++] = p;
    }
    while (left > 0) {
        int64_t p = ready[--left], c = place[p], start = c, end = first[p + 1], waits_on = NOBODY;
        while (c < end) {
            int64_t t = target[c];
            if (t >= 0) {
                bool there = t == p ? at[c] >= value[c] : place[t] >= first[t + 1] || at[place[t]] >= value[c];
                if (!there) {
                    waits_on = t;
                    break;
                }
            } else {
                int64_t g = -1 - t;
                if (value[c] == 0) {
                    if (++arrived[g] == size[g]) {
                        for (int64_t w = heads[processes + g]; w != NOBODY; w = next[w]) ready[left++] = w;
                        heads[processes + g] = NOBODY;
                    }
                } else if (arrived[g] < size[g]) {
                    waits_on = processes + g;
                    break;
                }
            }
            c++;
        }
        place[p] = c;
        if (waits_on != NOBODY) {
            next[p] = heads[waits_on];
            heads[waits_on] = p;
        }
        if (c != start) {
            for (int64_t w = heads[p]; w != NOBODY; w = next[w]) ready[left++] = w;
            heads[p] = NOBODY;
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

static void place(struct placing *p, uint32_t at, int32_t target, uint32_t value, int32_t send) {
    if (at >= p->in->events[p->rank]) return;
    const uint32_t *slot = p->in->slot[p->rank];
    p->count++;
    if (!p->next) return;
    int64_t *next = &p->next[slot ? slot[at] : at];
    if (!p->to->at) {
        ++*next;
        return;
    }
    int64_t to = (*next)++;
    p->to->at[to] = at;
    p->to->target[to] = target;
    p->to->value[to] = value;
    p->to->send[to] = send;
}

static int32_t process_of(const struct weft_matched *in, uint32_t rank, uint32_t event) {
    const int32_t *threads = in->threads[rank];
    return (int32_t)in->process_first[rank] + (threads && event < in->events[rank] ? threads[event] : 0);
}

/* The rank of a row: that of the peer, unless the record was matched again. */
static uint32_t rank_of(const struct weft_matched *in, const struct weft_waits *rows, int32_t peer, uint32_t row) {
    if (peer >= 0 && (uint32_t)peer < in->ranks && rows->first[peer] <= row && row < rows->first[peer + 1])
        return (uint32_t)peer;
    uint32_t low = 0, high = in->ranks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (rows->first[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

/* At its completion each of `mine` needs that its partner was posted. */
static void place_messages(struct placing *p, const struct weft_waits *mine, const struct weft_waits *theirs,
                           const uint8_t *which, bool sends) {
    for (uint64_t i = mine->first[p->rank]; i < mine->first[p->rank + 1]; i++) {
        uint32_t partner = mine->partner[i];
        if (partner == NONE || mine->completion[i] == NONE || (which && !which[i])) continue;
        if (!p->to->at) {
            place(p, mine->completion[i], 0, 0, 0);
            continue;
        }
        uint32_t value = theirs->event[partner];
        int32_t target = process_of(p->in, rank_of(p->in, theirs, mine->peer[i], partner), value);
        place(p, mine->completion[i], target, value, sends ? (int32_t)i : -1);
    }
}

static void place_parts(struct placing *p, bool arrive) {
    const struct weft_matched *in = p->in;
    for (uint64_t i = in->coll_first[p->rank]; i < in->coll_first[p->rank + 1]; i++) {
        uint32_t at = arrive ? in->coll_event[i] : in->coll_completion[i];
        if (in->together[i] && at != NONE) place(p, at, -1 - (int32_t)in->coll_instance[i], arrive ? 0 : 1, -1);
    }
}

/* Arrivals come before what waits at the same event. */
static void place_all(struct placing *p, uint64_t never) {
    const struct weft_matched *in = p->in;
    place_parts(p, true);
    place_messages(p, &in->recvs, &in->sends, NULL, false);
    place_messages(p, &in->probes, &in->sends, NULL, false);
    place_messages(p, &in->sends, &in->recvs, in->waits, true);
    place_parts(p, false);
    for (; never < in->nevers && in->never_rank[never] == p->rank; never++)
        place(p, (uint32_t)in->never_event[never], in->never_target, 1, -1);
}

int weft_constraints(const struct weft_matched *in, uint32_t low, uint32_t high, struct weft_constraints *to) {
    uint64_t most = 0, never = 0;
    for (uint32_t r = low; r < high; r++) most = in->events[r] > most ? in->events[r] : most;
    int64_t *next = malloc((most + 1) * sizeof *next);
    if (!next) return -1;
    struct weft_constraints count_only = {to->first, NULL, NULL, NULL, NULL};
    for (uint32_t r = low; r < high; r++) {
        while (never < in->nevers && in->never_rank[never] < r) never++;
        bool by_event = to->at || in->threads[r];
        if (by_event) memset(next, 0, in->events[r] * sizeof *next);
        struct placing p = {in, &count_only, r, by_event ? next : NULL, 0};
        place_all(&p, never);
        if (!to->at) {
            if (!in->threads[r]) to->first[in->process_first[r] + 1] = p.count;
            for (uint64_t e = 0; in->threads[r] && e < in->events[r]; e++)
                to->first[process_of(in, r, (uint32_t)e) + 1] += next[in->slot[r][e]];
            continue;
        }
        int64_t at = to->first[in->process_first[r]];
        for (uint64_t e = 0; e < in->events[r]; e++) {
            int64_t here = next[e];
            next[e] = at;
            at += here;
        }
        p.to = to;
        place_all(&p, never);
    }
    free(next);
    return 0;
}
