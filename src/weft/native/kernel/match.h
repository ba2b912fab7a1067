/* match.c as Python calls it. */
#ifndef WEFT_MATCH_H
#define WEFT_MATCH_H

#include "ops.h"

/* Columns of sends, receives or probes; rows of rank r are first[r] .. first[r + 1] - 1. Borrowed. */
struct weft_posts {
    const uint64_t *first;
    const uint32_t *event;
    const int32_t *comm, *peer, *tag;
    const uint16_t *flags;
};

/* Matches what goes to the ranks low .. high - 1, so that several threads share the work. send_recv (all NONE before),
 * recv_send: the partner's row or NONE; probe_send: the send that a probe saw; next: scratch, a number for each send.
 * 0, or -1 without memory. */
EXPORT int weft_match_messages(uint32_t ranks, uint32_t low, uint32_t high, const struct weft_posts *sends,
                               const struct weft_posts *recvs, const struct weft_posts *probes, uint32_t *send_recv,
                               uint32_t *recv_send, uint32_t *probe_send, uint32_t *next);

/* Counting sort: the rows of each key, in order. first has keys + 1 entries; rows with key NONE are left out. */
EXPORT void weft_group_rows(uint64_t count, const uint32_t *key, uint64_t keys, uint64_t *first, uint32_t *rows);

#endif
