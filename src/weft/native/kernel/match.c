/* Matching: the i-th send of a channel (communicator, source, destination, tag) in issue order goes to its i-th
 * receive in posting order, as MPI keeps messages of one channel in order (MPI-4.1, 3.5, non-overtaking).
 *
 * The channels lie in one open-addressing hash table. Sends are chained to their channel in issue order, receives
 * take the head of the chain; both passes go through the ranks one by one, so that the few channels a rank uses stay
 * in the cache. Linear in the number of posts.
 */
#include <stdlib.h>
#include <string.h>

#include "match.h"
#include "ops.h"

struct channel {
    int32_t comm, source, dest, tag;
    uint32_t head, tail; /* unmatched sends, chained by `next` */
    uint32_t used;
};

struct channels {
    struct channel *rows;
    uint64_t size, used; /* size is a power of two */
};

static uint64_t hash_of(int32_t comm, int32_t source, int32_t dest, int32_t tag) {
    uint64_t a = (uint64_t)(uint32_t)comm << 32 | (uint32_t)tag, b = (uint64_t)(uint32_t)source << 32 | (uint32_t)dest;
    uint64_t h = (a ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 31) ^ b) * 0x94d049bb133111ebu;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

static struct channel *probe_table(struct channels *t, int32_t comm, int32_t source, int32_t dest, int32_t tag) {
    uint64_t i = hash_of(comm, source, dest, tag) & (t->size - 1);
    for (;; i = (i + 1) & (t->size - 1)) {
        struct channel *c = &t->rows[i];
        if (!c->used) return c;
        if (c->source == source && c->dest == dest && c->tag == tag && c->comm == comm) return c;
    }
}

static bool enlarge(struct channels *t) {
    struct channels more = {calloc(t->size * 2, sizeof(struct channel)), t->size * 2, t->used};
    if (!more.rows) return false;
    for (uint64_t i = 0; i < t->size; i++) {
        struct channel *c = &t->rows[i];
        if (c->used) *probe_table(&more, c->comm, c->source, c->dest, c->tag) = *c;
    }
    free(t->rows);
    *t = more;
    return true;
}

static struct channel *add_channel(struct channels *t, int32_t comm, int32_t source, int32_t dest, int32_t tag) {
    struct channel *c = probe_table(t, comm, source, dest, tag);
    if (c->used) return c;
    if (t->used * 2 >= t->size) {
        if (!enlarge(t)) return NULL;
        c = probe_table(t, comm, source, dest, tag);
    }
    *c = (struct channel){comm, source, dest, tag, NONE, NONE, 1};
    t->used++;
    return c;
}

static bool chain_sends(struct channels *t, uint32_t ranks, uint32_t low, uint32_t high, const struct weft_posts *sends,
                        uint32_t *next) {
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (uint64_t i = sends->first[rank]; i < sends->first[rank + 1]; i++) {
            if ((uint32_t)sends->peer[i] - low >= high - low) continue; /* also -1, nobody known */
            next[i] = NONE;
            struct channel *c = add_channel(t, sends->comm[i], (int32_t)rank, sends->peer[i], sends->tag[i]);
            if (!c) return false;
            if (c->head == NONE) {
                c->head = (uint32_t)i;
            } else {
                next[c->tail] = (uint32_t)i;
            }
            c->tail = (uint32_t)i;
        }
    }
    return true;
}

static struct channel *known_channel(struct channels *t, const struct weft_posts *p, uint64_t i, uint32_t rank) {
    if (p->peer[i] < 0 || p->flags[i] & WEFT_POST_UNDECIDED) return NULL;
    struct channel *c = probe_table(t, p->comm[i], p->peer[i], (int32_t)rank, p->tag[i]);
    return c->used && c->head != NONE ? c : NULL;
}

int weft_match(uint32_t ranks, uint32_t low, uint32_t high, const struct weft_posts *sends,
               const struct weft_posts *recvs, const struct weft_posts *probes, uint32_t *send_recv,
               uint32_t *recv_send, uint32_t *probe_send, uint32_t *next) {
    struct channels t = {calloc(1u << 12, sizeof(struct channel)), 1u << 12, 0};
    if (!t.rows || !chain_sends(&t, ranks, low, high, sends, next)) {
        free(t.rows);
        return -1;
    }
    for (uint32_t rank = low; rank < high; rank++) {
        uint64_t probe = probes->first[rank], probe_end = probes->first[rank + 1];
        uint64_t recv_end = recvs->first[rank + 1];
        for (uint64_t i = recvs->first[rank]; i <= recv_end; i++) {
            /* A probe sees what the receives posted before it have left. */
            while (probe < probe_end && (i == recv_end || probes->event[probe] < recvs->event[i])) {
                struct channel *c = known_channel(&t, probes, probe, rank);
                probe_send[probe++] = c ? c->head : NONE;
            }
            if (i == recv_end) break;
            struct channel *c = known_channel(&t, recvs, i, rank);
            recv_send[i] = c ? c->head : NONE;
            if (!c) continue;
            send_recv[c->head] = (uint32_t)i;
            c->head = next[c->head];
        }
    }
    free(t.rows);
    return 0;
}

void weft_group(uint64_t count, const uint32_t *key, uint64_t keys, uint64_t *first, uint32_t *rows) {
    memset(first, 0, (keys + 1) * sizeof *first);
    for (uint64_t i = 0; i < count; i++)
        if (key[i] < keys) first[key[i] + 1]++;
    for (uint64_t k = 0; k < keys; k++) first[k + 1] += first[k];
    for (uint64_t i = 0; i < count; i++)
        if (key[i] < keys) rows[first[key[i]]++] = (uint32_t)i;
    memmove(first + 1, first, keys * sizeof *first);
    first[0] = 0;
}
