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

/* Return a hash of a channel: communicator, source, destination and tag. */
static uint64_t hash_channel(int32_t comm, int32_t source, int32_t dest, int32_t tag) {
    uint64_t first_half = (uint64_t)(uint32_t)comm << 32 | (uint32_t)tag,
             second_half = (uint64_t)(uint32_t)source << 32 | (uint32_t)dest;
    uint64_t hash = (first_half ^ 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 31) ^ second_half) * 0x94d049bb133111ebu;
    hash ^= hash >> 29;
    hash *= 0xbf58476d1ce4e5b9u;
    return hash ^ hash >> 32;
}

/* Return the hash table row of a channel, or the free row for it. */
static struct channel *find_channel_row(struct channels *channels, int32_t comm, int32_t source, int32_t dest,
                                        int32_t tag) {
    uint64_t i = hash_channel(comm, source, dest, tag) & (channels->size - 1);
    for (;; i = (i + 1) & (channels->size - 1)) {
        struct channel *channel = &channels->rows[i];
        if (!channel->used) return channel;
        if (channel->source == source && channel->dest == dest && channel->tag == tag && channel->comm == comm)
            return channel;
    }
}

/* Double a hash table of channels. Return false without memory. */
static bool double_table(struct channels *channels) {
    struct channels more = {calloc(channels->size * 2, sizeof(struct channel)), channels->size * 2, channels->used};
    if (!more.rows) return false;
    for (uint64_t i = 0; i < channels->size; i++) {
        struct channel *channel = &channels->rows[i];
        if (channel->used)
            *find_channel_row(&more, channel->comm, channel->source, channel->dest, channel->tag) = *channel;
    }
    free(channels->rows);
    *channels = more;
    return true;
}

/* Return a channel's entry, created if needed; NULL without memory. */
static struct channel *find_or_add_channel(struct channels *channels, int32_t comm, int32_t source, int32_t dest,
                                           int32_t tag) {
    struct channel *channel = find_channel_row(channels, comm, source, dest, tag);
    if (channel->used) return channel;
    if (channels->used * 2 >= channels->size) {
        if (!double_table(channels)) return NULL;
        channel = find_channel_row(channels, comm, source, dest, tag);
    }
    *channel = (struct channel){comm, source, dest, tag, NONE, NONE, 1};
    channels->used++;
    return channel;
}

/* Append each send to the ranks low .. high - 1 to its channel's list, in issue order. Return false without memory. */
static bool chain_sends(struct channels *channels, uint32_t ranks, uint32_t low, uint32_t high,
                        const struct weft_posts *sends, uint32_t *next) {
    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (uint64_t send = sends->first[rank]; send < sends->first[rank + 1]; send++) {
            if ((uint32_t)sends->peer[send] - low >= high - low) continue; /* also -1, nobody known */
            next[send] = NONE;
            struct channel *channel =
                find_or_add_channel(channels, sends->comm[send], (int32_t)rank, sends->peer[send], sends->tag[send]);
            if (!channel) return false;
            if (channel->head == NONE) {
                channel->head = (uint32_t)send;
            } else {
                next[channel->tail] = (uint32_t)send;
            }
            channel->tail = (uint32_t)send;
        }
    }
    return true;
}

/* Return the channel that a receive or probe takes from, if it has an unmatched send; else NULL. */
static struct channel *find_waiting_channel(struct channels *channels, const struct weft_posts *posts, uint64_t row,
                                            uint32_t rank) {
    if (posts->peer[row] < 0 || posts->flags[row] & WEFT_POST_UNDECIDED) return NULL;
    struct channel *channel =
        find_channel_row(channels, posts->comm[row], posts->peer[row], (int32_t)rank, posts->tag[row]);
    return channel->used && channel->head != NONE ? channel : NULL;
}

/* Match the sends and receives of the ranks low .. high - 1, channel by channel in order (MPI's non-overtaking rule),
 * and find which send each probe saw. Return 0, or -1 without memory. */
int weft_match_messages(uint32_t ranks, uint32_t low, uint32_t high, const struct weft_posts *sends,
                        const struct weft_posts *recvs, const struct weft_posts *probes, uint32_t *send_recv,
                        uint32_t *recv_send, uint32_t *probe_send, uint32_t *next) {
    struct channels channels = {calloc(1u << 12, sizeof(struct channel)), 1u << 12, 0};
    if (!channels.rows || !chain_sends(&channels, ranks, low, high, sends, next)) {
        free(channels.rows);
        return -1;
    }
    for (uint32_t rank = low; rank < high; rank++) {
        uint64_t probe = probes->first[rank], probe_end = probes->first[rank + 1];
        uint64_t recv_end = recvs->first[rank + 1];
        for (uint64_t receive = recvs->first[rank]; receive <= recv_end; receive++) {
            /* A probe sees what the receives posted before it have left. */
            while (probe < probe_end && (receive == recv_end || probes->event[probe] < recvs->event[receive])) {
                struct channel *channel = find_waiting_channel(&channels, probes, probe, rank);
                probe_send[probe++] = channel ? channel->head : NONE;
            }
            if (receive == recv_end) break;
            struct channel *channel = find_waiting_channel(&channels, recvs, receive, rank);
            recv_send[receive] = channel ? channel->head : NONE;
            if (!channel) continue;
            send_recv[channel->head] = (uint32_t)receive;
            channel->head = next[channel->head];
        }
    }
    free(channels.rows);
    return 0;
}

/* Group rows by key with a counting sort: `first` gets where each key's rows begin in `rows`. */
void weft_group_rows(uint64_t count, const uint32_t *key, uint64_t keys, uint64_t *first, uint32_t *rows) {
    memset(first, 0, (keys + 1) * sizeof *first);
    for (uint64_t row = 0; row < count; row++)
        if (key[row] < keys) first[key[row] + 1]++;
    for (uint64_t group = 0; group < keys; group++) first[group + 1] += first[group];
    for (uint64_t row = 0; row < count; row++)
        if (key[row] < keys) rows[first[key[row]]++] = (uint32_t)row;
    memmove(first + 1, first, keys * sizeof *first);
    first[0] = 0;
}
