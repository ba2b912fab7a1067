/* order.c as Python calls it. */
#ifndef WEFT_ORDER_H
#define WEFT_ORDER_H

#include "ops.h"

struct weft_order;

#define COLL_SOURCE 1u
#define COLL_TARGET 2u

enum coll_kind { COLL_NO_EDGE = 0, COLL_GENERAL = 1, COLL_SCAN = 2, COLL_EXSCAN = 3 };

/* Borrowed for the life of the order. Rows of sends, generic edges and collectives come sorted by process and event, or point:
 * *_rows gives the row (NULL: the identity), *_of_process where each process begins. `event` numbers are in the
 * rank's merged order; a global event is event_first[rank] + event. */
struct weft_order_input {
    uint32_t processes;
    const uint32_t *rank_of; /* of each process */
    const uint64_t *event_first; /* of each rank, and the total */
    const uint64_t *event_counts; /* of each process */
    const uint32_t *const *events; /* of each process: its events in the merged order; NULL: all */
    const uint32_t *process_of_rank; /* the only process of a rank, or NONE */
    const int32_t *const *thread_of; /* by rank: the thread of each event; NULL: one thread */
    const uint32_t *first_process; /* of each rank */

    uint64_t sends;
    const uint64_t *send_of_process;
    const uint32_t *send_rows;
    const uint32_t *send_event, *send_process;
    const int32_t *send_peer;
    const uint32_t *send_target; /* event of the peer whose end knows the message; NONE without */
    uint32_t *send_known; /* out: the latest point of the receiving process that the start of the send knows; NONE where
                             that process is one of several threads. NULL: not wanted */

    uint64_t generics;
    const uint64_t *generic_of_process;
    const uint32_t *generic_point; /* source */
    const uint32_t *generic_process;
    const uint32_t *generic_target_point; /* of the target process: the end of an event, or its start */
    const uint32_t *generic_target_process;

    uint64_t colls;
    const uint64_t *coll_of_process;
    const uint32_t *coll_rows;
    const uint32_t *coll_event, *coll_completion, *coll_instance;
    const uint32_t *coll_process, *coll_completion_process;
    const uint32_t *coll_place; /* rank in the communicator, for scans */
    const uint8_t *coll_role;
    uint64_t instances;
    const uint8_t *instance_kind;
    const uint64_t *instance_first;
    const uint32_t *instance_rows;

    uint32_t stride; /* keep every stride-th vector of a process */
};

EXPORT void weft_order_free(struct weft_order *order);

/* Orders a run. The caller owns the result (weft_order_free) and keeps what `in` points to. `forced` gets the number of
 * edges that had to be left out. NULL without memory. */
EXPORT struct weft_order *weft_order_make(const struct weft_order_input *input, uint64_t *forced);

/* Causal past of `point` of `process`: cut gets for each process the latest point that happens before it (or is it). */
EXPORT int weft_find_causal_past(const struct weft_order *order, uint32_t process, uint32_t point, uint32_t *cut);

/* Causal future of several points: seeds holds for each process one of its points or NONE; cut gets for each process the
 * earliest point that happens after one of them (or is one), NONE where there is none. */
EXPORT int weft_find_causal_future(const struct weft_order *order, const uint32_t *seeds, uint32_t *cut);

#endif
