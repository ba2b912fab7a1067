/* waits.c as Python calls it. */
#ifndef WEFT_WAITS_H
#define WEFT_WAITS_H

#include "ops.h"
#include "times.h"

EXPORT void weft_convert_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis,
                               int64_t *enter, int64_t *leave);

/* How a function waits, by its id. */
enum weft_blocks {
    WEFT_BLOCKS_NEVER = 0,
    WEFT_BLOCKS_ONE = 1,   /* until what it is given is complete */
    WEFT_BLOCKS_ALL = 2,   /* until all of several are */
    WEFT_BLOCKS_FIRST = 3, /* until the first of several is */
    WEFT_POLLS = 4, /* never: it asks; an event may stand for many that failed, and for what lay between them */
};

/* What is asked of all times of a rank together. */
struct weft_span {
    int64_t first_enter, last_exit, least_enter, most;
    int64_t polling; /* in events of polls that failed: from the first one's begin to the last one's end */
    uint64_t open;
};

/* `inside`, by causes[function] (both tables by function id, 65,536): the time in calls that returned, polls that failed
 * apart. */
EXPORT void weft_summarise_times(const struct weft_event *events, uint64_t count, const struct weft_axis *axis,
                                 const uint8_t *blocks, const uint8_t *causes, struct weft_span *span_out,
                                 int64_t *inside);

/* Borrowed, by rank. */
struct weft_clocks {
    const uint64_t *event_first; /* ranks + 1 */
    const struct weft_event *const *events;
    const struct weft_axis *axes;
};

/* The causes that are found here, of those of src/weft/waits/causes.py. */
enum weft_cause {
    WEFT_CAUSE_LATE_SENDER = 1,
    WEFT_CAUSE_LATE_RECEIVER = 2,
    WEFT_CAUSE_WAIT_AT_BARRIER = 3,
    WEFT_CAUSE_WAIT_AT_NXN = 4,
    WEFT_CAUSE_LATE_BROADCAST = 5,
    WEFT_CAUSE_EARLY_REDUCE = 6,
    WEFT_CAUSE_EARLY_SCAN = 7,
    WEFT_CAUSE_WAIT_AT_FENCE = 8,
    WEFT_CAUSE_COMPLETION = 11,
};

/* Rows that are found, with room for all; `best` by place: the row of a call that waited for somebody late, or NONE. */
struct weft_found {
    uint32_t *best;
    int64_t *waiter, *cost, *culprit; /* place, ns, place of the call that was late */
    uint8_t *cause;
    uint64_t found;
};

/* The sends, receives or probes of one rank; `their_...` are the columns of the other side. Borrowed. */
struct weft_messages {
    uint32_t rank, size_count;
    const uint64_t *first;
    const uint32_t *event, *args, *completion, *partner, *their_event, *their_args;
    const int32_t *peer;
    const uint16_t *flags, *their_flags;
    const uint8_t *blocks;
    const int32_t *host; /* by rank */
    const int64_t *sizes; /* bytes of the rank's datatypes by id, -1 unknown */
    int64_t
        rendezvous[2]; /* standard sends of so many bytes and more wait for their receive: on one host, between two */
};

/* Receives and probes that waited for a send. Of a partitioned message the begin of the send says nothing. */
EXPORT void weft_find_late_senders(const struct weft_clocks *clocks, const struct weft_messages *messages,
                                   struct weft_found *found);

/* Sends that waited for their receive: synchronous ones, and standard ones too large to be buffered. One that returned before
 * its receive was posted waited for nobody. */
EXPORT void weft_find_late_receivers(const struct weft_clocks *clocks, const struct weft_messages *messages,
                                     struct weft_found *found);

/* What the standard sends of a rank show. Into eager[far] the most bytes of one that returned before its receive was posted;
 * into `blocked`, with room for all sends, bytes * 2 + far of each that was there before its receive, waited for nothing
 * else, and returned soon after the receive was posted: in a fifth of the time or less. Returns their number, -1 without
 * memory. */
EXPORT int64_t weft_learn_protocol(const struct weft_clocks *clocks, const struct weft_messages *sends,
                                   const struct weft_messages *recvs, int64_t *eager, int64_t *blocked);

enum weft_late {
    LATE_NONE = 0,
    LATE_ALL = 1,
    LATE_FROM_ROOT = 2,
    LATE_TO_ROOT = 3,
    LATE_SCAN = 4,
    LATE_BARRIER = 5,
    LATE_FENCE = 6
};

/* Borrowed. */
struct weft_late_members {
    uint64_t instances;
    const uint64_t *first;
    const uint32_t *rows; /* of parts, by instance */
    const int32_t *rank; /* by part */
    const uint32_t *event, *completion;
    const uint16_t *function;
    const uint8_t *sort; /* LATE_... by function, 65,536 */
    const int32_t *comm; /* by instance */
    const int64_t
        *member_first; /* by communicator, where its members begin; one more than there are. Without members it
                                    is left out */
    const int32_t *members;
    const uint8_t *blocks;
    const int32_t *host; /* by rank */
    uint32_t *place; /* scratch, by rank */
};

/* The calls that waited in collectives, or for them, for the last member or for the root, instance by instance. */
EXPORT void weft_find_late_members(const struct weft_clocks *clocks, const struct weft_late_members *input,
                                   struct weft_found *found);

#endif
