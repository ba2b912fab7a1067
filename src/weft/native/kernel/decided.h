/* decided.c as Python calls it. */
#ifndef WEFT_DECIDED_H
#define WEFT_DECIDED_H

#include "ops.h"

struct weft_pairs;

struct weft_decided_input {
    uint32_t ranks;
    const uint64_t *recv_first;
    const uint32_t *recv_event, *recv_decided, *recv_partner;
    const int32_t *recv_comm, *recv_peer, *recv_tag;
    const uint16_t *recv_flags;
    const uint64_t *probe_first;
    const uint32_t *probe_event, *probe_decided, *probe_partner;
    const int32_t *probe_comm, *probe_peer, *probe_tag;
};

/* known: for each receive the event, NONE where nothing proves it. NULL without memory; else weft_pairs_free it. */
EXPORT struct weft_pairs *weft_find_decisions(const struct weft_decided_input *input, uint32_t *known);

EXPORT uint64_t weft_pairs_count(const struct weft_pairs *pairs);

EXPORT void weft_take_pairs(struct weft_pairs *pairs, uint32_t *earlier, uint32_t *later);

/* For each receive, the latest point of its rank that had to be before it was decided: what the sends of the message and
 * of those that went before in its chain know. known: by send, NONE where it is not known (threads). */
EXPORT void weft_find_decision_reach(uint64_t recvs, const uint32_t *partner, const uint32_t *known, uint64_t pairs,
                                     const uint32_t *earlier, const uint32_t *later, uint32_t *reach);

#endif
