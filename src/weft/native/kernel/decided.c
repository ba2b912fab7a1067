/* When it was decided which message a receive takes.
 *
 * A nonblocking receive is decided somewhere between its post and its completion, often earlier than the completion
 * shows: while receive r is pending, a message that fits r can go to no receive posted after r. So r was decided
 * before such a later receive, or before a probe that saw such a message. These facts give each receive
 *
 *   known   the earliest call whose return proves that it was decided
 *   pairs   (r, s): r was pending when s was posted, and what s took fits r: r was decided before s
 *
 * For each pattern (communicator, source or any, tag or any) only the newest receive is remembered: whatever a receive
 * takes fits all earlier ones of its own pattern, so pairs of one pattern form a chain.
 */
#include <stdlib.h>
#include <string.h>

#include "decided.h"
#include "ops.h"

struct pattern_row {
    int32_t comm, source, tag;
    uint32_t newest, used;
};

struct weft_pairs {
    uint32_t *earlier, *later;
    uint64_t count, room;
};

struct patterns {
    struct pattern_row *rows;
    uint64_t size, used;
};

/* Return the table row for a receive pattern (communicator, source or -1, tag or -1), or the free row for it. */
static struct pattern_row *find_pattern_slot(struct patterns *patterns, int32_t comm, int32_t source, int32_t tag) {
    uint64_t hash = (uint64_t)(uint32_t)source * 0x9e3779b97f4a7c15u ^ (uint64_t)(uint32_t)tag * 0xbf58476d1ce4e5b9u ^
                    (uint64_t)(uint32_t)comm * 0x94d049bb133111ebu;
    hash ^= hash >> 31;
    for (uint64_t i = hash & (patterns->size - 1);; i = (i + 1) & (patterns->size - 1)) {
        struct pattern_row *row = &patterns->rows[i];
        if (!row->used || (row->comm == comm && row->source == source && row->tag == tag)) return row;
    }
}

/* Remember a receive as the newest one posted with its pattern. Return false without memory. */
static bool remember_newest_receive(struct patterns *patterns, int32_t comm, int32_t source, int32_t tag,
                                    uint32_t recv) {
    struct pattern_row *row = find_pattern_slot(patterns, comm, source, tag);
    if (!row->used) {
        if (patterns->used * 2 >= patterns->size) {
            struct patterns more = {calloc(patterns->size * 2, sizeof *more.rows), patterns->size * 2, patterns->used};
            if (!more.rows) return false;
            for (uint64_t i = 0; i < patterns->size; i++)
                if (patterns->rows[i].used)
                    *find_pattern_slot(&more, patterns->rows[i].comm, patterns->rows[i].source, patterns->rows[i].tag) =
                        patterns->rows[i];
            free(patterns->rows);
            *patterns = more;
            row = find_pattern_slot(patterns, comm, source, tag);
        }
        patterns->used++;
    }
    *row = (struct pattern_row){comm, source, tag, recv, 1};
    return true;
}

/* Record that which message the receive `earlier` gets was decided before `later` was. Return false without memory. */
static bool add_pair(struct weft_pairs *pairs, uint32_t earlier, uint32_t later) {
    if (pairs->count == pairs->room) {
        uint64_t room = pairs->room ? pairs->room * 2 : 1024;
        uint32_t *more_earlier = realloc(pairs->earlier, room * sizeof *more_earlier);
        if (more_earlier) pairs->earlier = more_earlier;
        uint32_t *more_later = realloc(pairs->later, room * sizeof *more_later);
        if (more_later) pairs->later = more_later;
        if (!more_earlier || !more_later) return false;
        pairs->room = room;
    }
    pairs->earlier[pairs->count] = earlier;
    pairs->later[pairs->count++] = later;
    return true;
}

/* For a message, find the newest receive of each of the four patterns it fits (exact or any source, exact or any tag);
 * NONE if there is none. */
static void find_newest_fitting(struct patterns *patterns, int32_t comm, int32_t source, int32_t tag,
                                uint32_t receives[4]) {
    for (int pattern = 0; pattern < 4; pattern++) {
        struct pattern_row *row = find_pattern_slot(patterns, comm, pattern & 1 ? -1 : source, pattern & 2 ? -1 : tag);
        receives[pattern] = row->used ? row->newest : NONE;
    }
}

/* For each receive of a rank, find the earliest call that proves which message it gets (into `known`), and the pairs of
 * receives decided one before the other. Return false without memory. */
static bool find_decisions_of_rank(const struct weft_decided_input *input, uint32_t rank, struct weft_pairs *pairs,
                                   uint32_t *known) {
    struct patterns patterns = {calloc(64, sizeof *patterns.rows), 64, 0};
    if (!patterns.rows) return false;
    uint64_t first_pair = pairs->count, probe = input->probe_first[rank];
    uint64_t end = input->recv_first[rank + 1];
    bool is_good = true;
    for (uint64_t receive = input->recv_first[rank]; receive <= end && is_good; receive++) {
        for (; probe < input->probe_first[rank + 1] &&
               (receive == end || input->probe_event[probe] < input->recv_event[receive]);
             probe++) {
            uint32_t fits[4];
            if (input->probe_partner[probe] == NONE) continue;
            find_newest_fitting(&patterns, input->probe_comm[probe], input->probe_peer[probe], input->probe_tag[probe],
                                fits);
            for (int index = 0; index < 4; index++)
                if (fits[index] != NONE && input->probe_event[probe] < known[fits[index]])
                    known[fits[index]] = input->probe_event[probe];
        }
        if (receive == end) break;
        known[receive] = input->recv_decided[receive];
        if (input->recv_partner[receive] != NONE) {
            uint32_t fits[4];
            find_newest_fitting(&patterns, input->recv_comm[receive], input->recv_peer[receive],
                                input->recv_tag[receive], fits);
            for (int index = 0; index < 4 && is_good; index++)
                if (fits[index] != NONE && input->recv_decided[fits[index]] > input->recv_event[receive])
                    is_good = add_pair(pairs, fits[index], (uint32_t)receive);
        }
        /* A receive that is decided when its post returns is never pending. */
        if (input->recv_decided[receive] == input->recv_event[receive]) continue;
        uint16_t flags = input->recv_flags[receive];
        is_good = is_good &&
                  remember_newest_receive(&patterns, input->recv_comm[receive],
                                          flags & WEFT_POST_ANY_SOURCE ? -1 : input->recv_peer[receive],
                                          flags & WEFT_POST_ANY_TAG ? -1 : input->recv_tag[receive], (uint32_t)receive);
    }
    for (uint64_t index = pairs->count; is_good && index > first_pair; index--) { /* later ones first */
        uint32_t earlier = pairs->earlier[index - 1], later = pairs->later[index - 1];
        if (known[later] < known[earlier]) known[earlier] = known[later];
    }
    free(patterns.rows);
    return is_good;
}

/* Find for all receives when it was decided which message they get: `known` gets the call that proves it; returned are
 * the pairs of receives decided one before the other, NULL without memory. */
struct weft_pairs *weft_find_decisions(const struct weft_decided_input *input, uint32_t *known) {
    struct weft_pairs *pairs = calloc(1, sizeof *pairs);
    for (uint32_t rank = 0; pairs && rank < input->ranks; rank++)
        if (!find_decisions_of_rank(input, rank, pairs, known)) {
            free(pairs->earlier);
            free(pairs->later);
            free(pairs);
            return NULL;
        }
    return pairs;
}

uint64_t weft_pairs_count(const struct weft_pairs *pairs) { return pairs->count; }

/* Copy the pairs to the caller's arrays, sized by weft_pairs_count(), and free them. */
void weft_take_pairs(struct weft_pairs *pairs, uint32_t *earlier, uint32_t *later) {
    if (pairs->count) {
        memcpy(earlier, pairs->earlier, pairs->count * sizeof *earlier);
        memcpy(later, pairs->later, pairs->count * sizeof *later);
    }
    free(pairs->earlier);
    free(pairs->later);
    free(pairs);
}

/* For each receive, compute the latest point of its rank that must precede the decision which message it gets: what the
 * senders of its message and of earlier ones in its chain of pairs know. */
void weft_find_decision_reach(uint64_t recvs, const uint32_t *partner, const uint32_t *known, uint64_t pairs,
                              const uint32_t *earlier, const uint32_t *later, uint32_t *reach) {
    for (uint64_t receive = 0; receive < recvs; receive++)
        reach[receive] = partner[receive] == NONE || known[partner[receive]] == NONE ? 0 : known[partner[receive]];
    for (uint64_t pair = 0; pair < pairs; pair++)
        if (reach[earlier[pair]] > reach[later[pair]]) reach[later[pair]] = reach[earlier[pair]];
}
