/* scan.c as Python calls it. */
#ifndef WEFT_SCAN_H
#define WEFT_SCAN_H

#include "ops.h"

/* What a rank's events are like, counted. */
struct weft_catalogue {
    uint64_t failed, open, changed; /* an error, not CLOSED, BUFFER_CHANGED */
};

/* Fills `function` (one for each event) and `counts` (65,536, all 0 before). */
EXPORT void weft_count_events(const struct weft_event *events, uint64_t count, uint16_t *function, int64_t *counts,
                              struct weft_catalogue *out);

/* Writes the rows whose function has a place in `wanted` (65,536 of 0 or 1); `rows` has room for one more than them. */
EXPORT void weft_find_function_rows(const uint16_t *function, uint64_t count, const uint8_t *wanted, int64_t *rows);

#define RULE_COUNT 0x001u /* a count is not negative */
#define RULE_PEER 0x002u /* the peer is a rank of the communicator */
#define RULE_WINDOW 0x004u /* ... of the window */
#define RULE_ANY 0x008u /* ... or ANY_SOURCE */
#define RULE_NOBODY 0x010u /* ... or PROC_NULL */
#define RULE_TAG 0x020u /* a tag is not negative */
#define RULE_ANY_TAG 0x040u /* ... but for ANY_TAG */
#define RULE_COMM 0x080u /* these are no null handles */
#define RULE_TYPE 0x100u
#define RULE_OP 0x200u
#define RULE_OBJECT 0x400u
#define RULE_ALIAS 0x800u /* the tail holds a buffer that is not the slot's */

struct weft_rules {
    const struct weft_event *events;
    uint64_t count;
    const int32_t *threads; /* NULL for one thread */
    const uint8_t *const *tails;
    const uint64_t *tail_bytes;
    const uint16_t *rules; /* by function, 65,536 */
    const uint16_t *lead; /* by function with RULE_ALIAS: where in `codes` the values before that buffer begin */
    const uint8_t *codes; /* number of values, then the code of each (enum weft_code, WEFT_CODE_ARRAY) */
    const int32_t *sizes; /* peers by communicator, -1 unknown */
    uint64_t size_count;
    const int32_t *windows; /* the same by window */
    uint64_t window_count;
};

/* The first rows from `*from` on that may break a rule of their function, at most `most`; `*from` goes behind them. */
EXPORT uint64_t weft_find_suspects(const struct weft_rules *input, uint64_t *first, int64_t *rows, uint64_t most);

struct weft_gathered {
    uint64_t instances;
    const uint64_t *first;
    const uint32_t *rows; /* of parts, by instance */
    const int32_t *rank; /* by part */
    const uint32_t *event;
    const uint16_t *function;
    const uint16_t *name; /* by function, 65,536: equal for a function and its large-count form */
    const uint8_t *anyway; /* by function: members differ by design, or in what the slot does not hold */
    const int32_t *comm; /* by instance */
    const int64_t *members; /* by communicator, how many */
    const struct weft_event *const *events; /* by rank */
};

/* Writes the instances that lack members, or whose parts differ in function, peer, tag, count or datatype; of all others it is
 * known that their members agree. Room for all of them. */
EXPORT uint64_t weft_find_uneven_collectives(const struct weft_gathered *input, int64_t *found);

#endif
