/* Message races (Netzer & Miller 1992; Tai 1997; Park & Chung 2008).
 *
 * Message m' of sender q' races with the wildcard receive r that took m when it travels on the same communicator, fits
 * r's tag, was not taken by a receive posted before r, is the first such message of q', and its send does not have to
 * come after the decision of r.
 *
 * One receiving rank at a time. The messages to it are grouped by the patterns (communicator, tag or any) of its
 * wildcards, in a group by sender. Its receives are taken in posting order; each sender's first message that is
 * left is its HEAD. What the head's send knows of the receiver lies in one array by sender, so that one pass over this
 * array finds all racing messages.
 */
#include <stdlib.h>
#include <string.h>

#include "races.h"
#include "ops.h"

/* Of a run with more racing receives than anybody reads, the later ones list few messages. */
#define FULLY_LISTED 65536u
#define LISTED_LATER 4u

/* Result. Receive k of `count` (a row of receives, or of probes) has messages[first[k]] .. and `total` of them. */
struct weft_races {
    uint32_t *row, *total;
    uint8_t *probe;
    uint64_t *first;
    uint32_t *messages;
    uint64_t count, room, message_count, message_room;
};

struct channel { /* one sender in a group */
    int32_t source;
    uint32_t head, end; /* in the group's messages */
};

struct group {
    int32_t comm, tag; /* tag -1: any */
    uint32_t used;
    uint32_t count, filled, begin; /* messages: entries[begin .. begin + count) */
    struct channel *channels;
    uint32_t channel_count, channel_room;
    uint32_t *heads; /* what the head's send knows of the receiver; NONE when there is none */
};

struct finder {
    const struct weft_races_input *in;
    struct weft_races *out;
    struct group *groups;
    uint32_t size, used;
    uint32_t *entries;
    uint8_t *taken; /* by send */
    uint32_t *open; /* receives posted and not decided yet */
    uint64_t open_count, open_room;
    bool patterns_differ;
};

static struct group *find_group(struct finder *f, int32_t comm, int32_t tag) {
    uint64_t h = ((uint64_t)(uint32_t)comm << 32 | (uint32_t)tag) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = (uint32_t)(h >> 33) & (f->size - 1);; i = (i + 1) & (f->size - 1)) {
        struct group *g = &f->groups[i];
        if (!g->used || (g->comm == comm && g->tag == tag)) return g;
    }
}

static bool add_group(struct finder *f, int32_t comm, int32_t tag) {
    struct group *g = find_group(f, comm, tag);
    if (g->used) return true;
    if (++f->used * 2 > f->size) {
        struct group *old = f->groups;
        uint32_t size = f->size;
        f->groups = calloc(f->size *= 2, sizeof *f->groups);
        if (!f->groups) {
            f->groups = old;
            return false;
        }
        for (uint32_t i = 0; i < size; i++)
            if (old[i].used) *find_group(f, old[i].comm, old[i].tag) = old[i];
        free(old);
        g = find_group(f, comm, tag);
    }
    *g = (struct group){.comm = comm, .tag = tag, .used = 1};
    return true;
}

static bool is_wildcard(uint16_t flags) { return flags & WEFT_POST_ANY_SOURCE && !(flags & WEFT_POST_UNDECIDED); }

static int32_t tag_pattern(uint16_t flags, int32_t tag) { return flags & WEFT_POST_ANY_TAG ? -1 : tag; }

static bool find_patterns(struct finder *f, uint32_t rank) {
    const struct weft_races_input *in = f->in;
    f->patterns_differ = false;
    int32_t comm = -1, source = 0, tag = 0;
    for (uint64_t i = in->recv_first[rank]; i < in->recv_first[rank + 1]; i++) {
        int32_t t = tag_pattern(in->recv_flags[i], in->recv_tag[i]);
        int32_t s = in->recv_flags[i] & WEFT_POST_ANY_SOURCE ? -1 : in->recv_peer[i];
        if (comm >= 0 && (comm != in->recv_comm[i] || tag != t || source != s)) f->patterns_differ = true;
        comm = in->recv_comm[i], tag = t, source = s;
        if (is_wildcard(in->recv_flags[i]) && !add_group(f, in->recv_comm[i], t)) return false;
    }
    for (uint64_t i = in->probe_first[rank]; i < in->probe_first[rank + 1]; i++)
        if (is_wildcard(in->probe_flags[i]) &&
            !add_group(f, in->probe_comm[i], tag_pattern(in->probe_flags[i], in->probe_tag[i])))
            return false;
    return true;
}

static bool add_message(struct finder *f, struct group *g, uint32_t send) {
    int32_t source = f->in->send_source[send];
    struct channel *last = g->channel_count ? &g->channels[g->channel_count - 1] : NULL;
    if (!last || last->source != source) {
        if (g->channel_count == g->channel_room) {
            g->channel_room = g->channel_room ? g->channel_room * 2 : 8;
            struct channel *more = realloc(g->channels, g->channel_room * sizeof *more);
            if (!more) return false;
            g->channels = more;
        }
        last = &g->channels[g->channel_count++];
        *last = (struct channel){source, g->begin + g->filled, g->begin + g->filled};
    }
    f->entries[g->begin + g->filled++] = send;
    last->end++;
    return true;
}

static uint32_t head_knows(const struct finder *f, const struct channel *c) {
    if (c->head == c->end) return NONE;
    uint32_t known = f->in->send_known[f->entries[c->head]];
    return known == NONE ? 0 : known;
}

static bool fill_groups(struct finder *f, uint32_t rank) {
    const struct weft_races_input *in = f->in;
    uint64_t begin = in->to_first[rank], end = in->to_first[rank + 1];
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t k = begin; k < end; k++) {
            uint32_t send = in->to_rows[k];
            for (int any = 0; any < 2; any++) {
                struct group *g = find_group(f, in->send_comm[send], any ? -1 : in->send_tag[send]);
                if (!g->used) continue;
                if (!pass) g->count++;
                else if (!add_message(f, g, send)) return false;
            }
        }
        if (pass) break;
        uint32_t total = 0;
        for (uint32_t i = 0; i < f->size; i++) {
            f->groups[i].begin = total;
            total += f->groups[i].count;
        }
        free(f->entries);
        f->entries = malloc(((size_t)total + 1) * sizeof *f->entries);
        if (!f->entries) return false;
    }
    for (uint32_t i = 0; i < f->size; i++) {
        struct group *g = &f->groups[i];
        if (!g->used) continue;
        g->heads = malloc((g->channel_count + 1) * sizeof *g->heads);
        if (!g->heads) return false;
        for (uint32_t c = 0; c < g->channel_count; c++) g->heads[c] = head_knows(f, &g->channels[c]);
    }
    return true;
}

/* The send is gone from the front of its channel. */
static void advance(struct finder *f, struct group *g, int32_t source) {
    uint32_t low = 0, high = g->channel_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (g->channels[middle].source < source) low = middle + 1;
        else high = middle;
    }
    if (low == g->channel_count || g->channels[low].source != source) return;
    struct channel *c = &g->channels[low];
    while (c->head < c->end && f->taken[f->entries[c->head]]) c->head++;
    g->heads[low] = head_knows(f, c);
}

static void take_message(struct finder *f, uint32_t send) {
    f->taken[send] = 1;
    for (int any = 0; any < 2; any++) {
        struct group *g = find_group(f, f->in->send_comm[send], any ? -1 : f->in->send_tag[send]);
        if (g->used) advance(f, g, f->in->send_source[send]);
    }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static uint32_t
count_below(const uint32_t *heads, uint32_t n, uint32_t limit) {
    uint32_t below = 0;
    for (uint32_t i = 0; i < n; i++) below += heads[i] < limit;
    return below;
}

static bool fits(const struct weft_races_input *in, uint64_t recv, uint32_t send) {
    return in->recv_comm[recv] == in->send_comm[send] &&
           (in->recv_flags[recv] & WEFT_POST_ANY_SOURCE || in->recv_peer[recv] == in->send_source[send]) &&
           (in->recv_flags[recv] & WEFT_POST_ANY_TAG || in->recv_tag[recv] == in->send_tag[send]);
}

/* A receive posted before r that is still pending would get m' itself, unless it was decided before; if its own message
 * is sent only after r is decided, that cannot be. The same where it took an earlier message of the same sender. */
static bool blocked(const struct finder *f, uint64_t r, uint32_t limit, uint32_t message) {
    const struct weft_races_input *in = f->in;
    for (uint64_t k = 0; k < f->open_count; k++) {
        uint32_t other = f->open[k], first = in->recv_partner[other];
        if (first == NONE || in->recv_reach[other] < limit || in->recv_reach[other] == NONE) continue;
        bool overtaken = in->send_source[first] == in->send_source[message] && first < message && fits(in, r, first);
        if (overtaken || fits(in, other, message)) return true;
    }
    return false;
}

static bool add_race(struct finder *f, uint32_t row, uint8_t probe) {
    struct weft_races *out = f->out;
    if (out->count == out->room) {
        uint64_t room = out->room ? out->room * 2 : 256;
        uint32_t *rows = realloc(out->row, room * sizeof *rows);
        if (rows) out->row = rows;
        uint32_t *totals = realloc(out->total, room * sizeof *totals);
        if (totals) out->total = totals;
        uint8_t *probes = realloc(out->probe, room);
        if (probes) out->probe = probes;
        uint64_t *firsts = realloc(out->first, (room + 1) * sizeof *firsts);
        if (firsts) out->first = firsts;
        if (!rows || !totals || !probes || !firsts) return false;
        out->room = room;
    }
    out->row[out->count] = row;
    out->total[out->count] = 0;
    out->probe[out->count] = probe;
    out->first[out->count++] = out->message_count;
    return true;
}

static bool list_message(struct weft_races *out, uint32_t send) {
    if (out->message_count == out->message_room) {
        uint64_t room = out->message_room ? out->message_room * 2 : 1024;
        uint32_t *more = realloc(out->messages, room * sizeof *more);
        if (!more) return false;
        out->messages = more;
        out->message_room = room;
    }
    out->messages[out->message_count++] = send;
    return true;
}

/* All messages that the wildcard `row` could have taken instead of `took`. */
static bool look(struct finder *f, struct group *g, uint32_t row, bool probe, uint32_t took, uint32_t known) {
    const struct weft_races_input *in = f->in;
    uint32_t limit = 2 * known + 2;
    if (count_below(g->heads, g->channel_count, limit) == 0) return true;
    bool pending = !probe && f->open_count && f->patterns_differ;
    struct weft_races *out = f->out;
    uint64_t before = out->count, messages = out->message_count;
    uint32_t most = before >= FULLY_LISTED && in->most > LISTED_LATER ? LISTED_LATER : in->most;
    if (!add_race(f, row, probe)) return false;
    for (uint32_t c = 0; c < g->channel_count; c++) {
        if (g->heads[c] >= limit || g->channels[c].source == in->send_source[took]) continue;
        uint32_t send = f->entries[g->channels[c].head];
        if (pending && blocked(f, row, limit, send)) continue;
        if (out->total[before]++ < most && !list_message(out, send)) return false;
    }
    if (out->total[before] == 0) {
        out->count = before;
        out->message_count = messages;
    }
    return true;
}

static bool still_open(struct finder *f, uint32_t recv) {
    uint32_t event = f->in->recv_event[recv];
    uint64_t kept = 0;
    for (uint64_t k = 0; k < f->open_count; k++)
        if (f->in->recv_decided[f->open[k]] > event) f->open[kept++] = f->open[k];
    f->open_count = kept;
    return true;
}

static bool open_receive(struct finder *f, uint32_t recv) {
    if (f->in->recv_decided[recv] == f->in->recv_event[recv]) return true;
    if (f->open_count == f->open_room) {
        uint64_t room = f->open_room ? f->open_room * 2 : 64;
        uint32_t *more = realloc(f->open, room * sizeof *more);
        if (!more) return false;
        f->open = more;
        f->open_room = room;
    }
    f->open[f->open_count++] = recv;
    return true;
}

static bool one_probe(struct finder *f, uint64_t i) {
    const struct weft_races_input *in = f->in;
    if (!is_wildcard(in->probe_flags[i]) || in->probe_partner[i] == NONE) return true;
    struct group *g = find_group(f, in->probe_comm[i], tag_pattern(in->probe_flags[i], in->probe_tag[i]));
    return !g->used || look(f, g, (uint32_t)i, true, in->probe_partner[i], in->probe_event[i]);
}

static bool one_receive(struct finder *f, uint64_t i) {
    const struct weft_races_input *in = f->in;
    uint32_t took = in->recv_partner[i];
    if (f->patterns_differ) still_open(f, (uint32_t)i);
    if (is_wildcard(in->recv_flags[i]) && took != NONE && in->recv_known[i] != NONE) {
        struct group *g = find_group(f, in->recv_comm[i], tag_pattern(in->recv_flags[i], in->recv_tag[i]));
        if (g->used && !look(f, g, (uint32_t)i, false, took, in->recv_known[i])) return false;
    }
    if (took != NONE) take_message(f, took);
    return !f->patterns_differ || open_receive(f, (uint32_t)i);
}

static void clear(struct finder *f) {
    for (uint32_t i = 0; i < f->size; i++) {
        free(f->groups[i].channels);
        free(f->groups[i].heads);
    }
    memset(f->groups, 0, f->size * sizeof *f->groups);
    f->used = 0;
    f->open_count = 0;
}

static bool one_rank(struct finder *f, uint32_t rank) {
    const struct weft_races_input *in = f->in;
    if (!find_patterns(f, rank)) return false;
    if (f->used == 0) return true;
    bool good = fill_groups(f, rank);
    uint64_t probe = in->probe_first[rank], end = in->recv_first[rank + 1];
    for (uint64_t i = in->recv_first[rank]; i <= end && good; i++) {
        for (; good && probe < in->probe_first[rank + 1] && (i == end || in->probe_event[probe] < in->recv_event[i]);
             probe++)
            good = one_probe(f, probe);
        if (i < end) good = good && one_receive(f, i);
    }
    clear(f);
    return good;
}

void weft_races_free(struct weft_races *r) {
    if (!r) return;
    free(r->row);
    free(r->total);
    free(r->probe);
    free(r->first);
    free(r->messages);
    free(r);
}

struct weft_races *weft_races_find(const struct weft_races_input *in, uint64_t sends, uint64_t counts[2]) {
    struct weft_races *out = calloc(1, sizeof *out);
    struct finder f = {.in = in, .out = out, .size = 16};
    f.groups = calloc(f.size, sizeof *f.groups);
    f.taken = calloc(sends + 1, 1);
    bool good = out && f.groups && f.taken;
    for (uint32_t rank = 0; rank < in->ranks && good; rank++) good = one_rank(&f, rank);
    if (f.groups) clear(&f);
    free(f.groups);
    free(f.taken);
    free(f.entries);
    free(f.open);
    if (!good) {
        weft_races_free(out);
        return NULL;
    }
    counts[0] = out->count;
    counts[1] = out->message_count;
    return out;
}

void weft_races_take(struct weft_races *r, uint32_t *row, uint8_t *probe, uint32_t *total, uint64_t *first,
                     uint32_t *messages) {
    if (r->count) {
        memcpy(row, r->row, r->count * sizeof *row);
        memcpy(probe, r->probe, r->count);
        memcpy(total, r->total, r->count * sizeof *total);
        memcpy(first, r->first, r->count * sizeof *first);
        memcpy(messages, r->messages, r->message_count * sizeof *messages);
    }
    first[r->count] = r->message_count;
    weft_races_free(r);
}
