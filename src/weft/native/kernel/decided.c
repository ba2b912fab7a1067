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

static struct pattern_row *find(struct patterns *t, int32_t comm, int32_t source, int32_t tag) {
    uint64_t h = (uint64_t)(uint32_t)source * 0x9e3779b97f4a7c15u ^ (uint64_t)(uint32_t)tag * 0xbf58476d1ce4e5b9u ^
                 (uint64_t)(uint32_t)comm * 0x94d049bb133111ebu;
    h ^= h >> 31;
    for (uint64_t i = h & (t->size - 1);; i = (i + 1) & (t->size - 1)) {
        struct pattern_row *r = &t->rows[i];
        if (!r->used || (r->comm == comm && r->source == source && r->tag == tag)) return r;
    }
}

static bool remember(struct patterns *t, int32_t comm, int32_t source, int32_t tag, uint32_t recv) {
    struct pattern_row *r = find(t, comm, source, tag);
    if (!r->used) {
        if (t->used * 2 >= t->size) {
            struct patterns more = {calloc(t->size * 2, sizeof *more.rows), t->size * 2, t->used};
            if (!more.rows) return false;
            for (uint64_t i = 0; i < t->size; i++)
                if (t->rows[i].used) *find(&more, t->rows[i].comm, t->rows[i].source, t->rows[i].tag) = t->rows[i];
            free(t->rows);
            *t = more;
            r = find(t, comm, source, tag);
        }
        t->used++;
    }
    *r = (struct pattern_row){comm, source, tag, recv, 1};
    return true;
}

static bool add_pair(struct weft_pairs *pairs, uint32_t earlier, uint32_t later) {
    if (pairs->count == pairs->room) {
        uint64_t room = pairs->room ? pairs->room * 2 : 1024;
        uint32_t *a = realloc(pairs->earlier, room * sizeof *a);
        if (a) pairs->earlier = a;
        uint32_t *b = realloc(pairs->later, room * sizeof *b);
        if (b) pairs->later = b;
        if (!a || !b) return false;
        pairs->room = room;
    }
    pairs->earlier[pairs->count] = earlier;
    pairs->later[pairs->count++] = later;
    return true;
}

/* The four patterns that a message fits. */
static void newest_fitting(struct patterns *t, int32_t comm, int32_t source, int32_t tag, uint32_t out[4]) {
    for (int k = 0; k < 4; k++) {
        struct pattern_row *r = find(t, comm, k & 1 ? -1 : source, k & 2 ? -1 : tag);
        out[k] = r->used ? r->newest : NONE;
    }
}

static bool one_rank(const struct weft_decided_input *in, uint32_t rank, struct weft_pairs *pairs, uint32_t *known) {
    struct patterns t = {calloc(64, sizeof *t.rows), 64, 0};
    if (!t.rows) return false;
    uint64_t first_pair = pairs->count, probe = in->probe_first[rank];
    uint64_t end = in->recv_first[rank + 1];
    bool good = true;
    for (uint64_t i = in->recv_first[rank]; i <= end && good; i++) {
        for (; probe < in->probe_first[rank + 1] && (i == end || in->probe_event[probe] < in->recv_event[i]); probe++) {
            uint32_t fits[4];
            if (in->probe_partner[probe] == NONE) continue;
            newest_fitting(&t, in->probe_comm[probe], in->probe_peer[probe], in->probe_tag[probe], fits);
            for (int k = 0; k < 4; k++)
                if (fits[k] != NONE && in->probe_event[probe] < known[fits[k]]) known[fits[k]] = in->probe_event[probe];
        }
        if (i == end) break;
        known[i] = in->recv_decided[i];
        if (in->recv_partner[i] != NONE) {
            uint32_t fits[4];
            newest_fitting(&t, in->recv_comm[i], in->recv_peer[i], in->recv_tag[i], fits);
            for (int k = 0; k < 4 && good; k++)
                if (fits[k] != NONE && in->recv_decided[fits[k]] > in->recv_event[i])
                    good = add_pair(pairs, fits[k], (uint32_t)i);
        }
        /* A receive that is decided when its post returns is never pending. */
        if (in->recv_decided[i] == in->recv_event[i]) continue;
        uint16_t flags = in->recv_flags[i];
        good = good && remember(&t, in->recv_comm[i], flags & WEFT_POST_ANY_SOURCE ? -1 : in->recv_peer[i],
                                flags & WEFT_POST_ANY_TAG ? -1 : in->recv_tag[i], (uint32_t)i);
    }
    for (uint64_t k = pairs->count; good && k > first_pair; k--) { /* later ones first */
        uint32_t earlier = pairs->earlier[k - 1], later = pairs->later[k - 1];
        if (known[later] < known[earlier]) known[earlier] = known[later];
    }
    free(t.rows);
    return good;
}

struct weft_pairs *weft_decided(const struct weft_decided_input *in, uint32_t *known) {
    struct weft_pairs *pairs = calloc(1, sizeof *pairs);
    for (uint32_t rank = 0; pairs && rank < in->ranks; rank++)
        if (!one_rank(in, rank, pairs, known)) {
            free(pairs->earlier);
            free(pairs->later);
            free(pairs);
            return NULL;
        }
    return pairs;
}

uint64_t weft_pairs_count(const struct weft_pairs *pairs) { return pairs->count; }

void weft_pairs_take(struct weft_pairs *pairs, uint32_t *earlier, uint32_t *later) {
    if (pairs->count) {
        memcpy(earlier, pairs->earlier, pairs->count * sizeof *earlier);
        memcpy(later, pairs->later, pairs->count * sizeof *later);
    }
    free(pairs->earlier);
    free(pairs->later);
    free(pairs);
}

void weft_reach(uint64_t recvs, const uint32_t *partner, const uint32_t *known, uint64_t pairs, const uint32_t *earlier,
                const uint32_t *later, uint32_t *reach) {
    for (uint64_t i = 0; i < recvs; i++)
        reach[i] = partner[i] == NONE || known[partner[i]] == NONE ? 0 : known[partner[i]];
    for (uint64_t k = 0; k < pairs; k++)
        if (reach[earlier[k]] > reach[later[k]]) reach[later[k]] = reach[earlier[k]];
}
