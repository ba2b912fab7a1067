/* epochs.c as Python calls it. */
#ifndef WEFT_EPOCHS_H
#define WEFT_EPOCHS_H

#include "ops.h"

enum call {
    OPERATION,
    FENCE,
    START,
    COMPLETE,
    POST,
    WAIT,
    TEST,
    LOCK,
    LOCK_ALL,
    UNLOCK,
    UNLOCK_ALL,
    FLUSH,
    FLUSH_ALL,
    FLUSH_LOCAL,
    FLUSH_LOCAL_ALL,
    FREE,
};

/* What is wrong; usage/epochs.py has the words. */
enum wrong {
    FENCE_INSIDE,
    START_TWICE,
    NOT_STARTED,
    POST_TWICE,
    NOT_POSTED,
    TEST_NOT_POSTED,
    LOCK_TWICE,
    LOCK_IN_FENCE,
    LOCK_ALL_TWICE,
    NOT_LOCKED,
    NOT_LOCKED_ALL,
    FLUSH_OUTSIDE,
    FREED_IN_EPOCH,
    NEVER_CLOSED,
    FREED_EXPOSED,
    NEVER_WAITED,
    OTHER_LOCKED,
    OUTSIDE,
    START_IN_LOCK,
    START_IN_FENCE,
    LOCK_IN_START,
    FENCE_EXPOSED,
    INSIDE_FENCES,
};

struct weft_epochs_input {
    uint64_t count;
    const uint8_t *call, *lock_type;
    const uint8_t *plain; /* a fence that asserts nothing */
    const uint8_t *done; /* the call returned, and its flag came out true where it is a test */
    const int32_t *window, *peer;
    uint32_t windows;
    uint8_t finalized;
};

struct weft_epochs_output {
    int32_t *epoch; /* by row: that of an operation, -1 for none */
    uint32_t *phase;
    int32_t *begin, *end, *number; /* by epoch */
    uint8_t *sort, *lock_type;
    uint8_t *wrong; /* by misuse, with the row of the call and of another, or -1 */
    int32_t *at, *other;
    uint64_t epochs, wrongs;
};

/* Fills `out`, whose columns have room for `count` epochs and 3 * count + 3 misuses. -1 without memory. */
EXPORT int weft_find_epochs(const struct weft_epochs_input *input, struct weft_epochs_output *output);

#endif
