/* races.c as Python calls it. */
#ifndef WEFT_RACES_H
#define WEFT_RACES_H

#include "ops.h"

struct weft_races;

struct weft_races_input {
    uint32_t ranks;
    const uint64_t *recv_first;
    const uint32_t *recv_event, *recv_decided, *recv_known, *recv_partner, *recv_reach;
    const int32_t *recv_comm, *recv_peer, *recv_tag;
    const uint16_t *recv_flags;
    const uint64_t *probe_first;
    const uint32_t *probe_event, *probe_partner;
    const int32_t *probe_comm, *probe_peer, *probe_tag;
    const uint16_t *probe_flags;
    const uint32_t *send_known; /* NONE: unknown, taken for 0: the caller has to ask */
    const int32_t *send_comm, *send_tag, *send_source;
    const uint64_t *to_first; /* sends by receiving rank, */
    const uint32_t *to_rows;  /* in order of sender and issue */
    uint32_t most;            /* messages that are listed for one receive; all are counted */
};

EXPORT void weft_races_free(struct weft_races *races);

/* Finds all races of the ranks low .. high - 1; `sends` is the number of sends. The caller owns the result; NULL
 * without memory. counts gets the racing receives and the messages listed. */
EXPORT struct weft_races *weft_find_races(const struct weft_races_input *input, uint64_t sends, uint64_t counts[2]);

EXPORT void weft_take_races(struct weft_races *races, uint32_t *row, uint8_t *probe, uint32_t *total, uint64_t *first,
                            uint32_t *messages);

#endif
