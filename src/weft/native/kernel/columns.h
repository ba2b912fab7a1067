/* columns.c as Python calls it. */
#ifndef WEFT_COLUMNS_H
#define WEFT_COLUMNS_H

#include "ops.h"

struct weft_column {
    uint8_t wanted, code; /* enum weft_code, WEFT_CODE_ARRAY */
    int64_t *starts;      /* arrays: n + 1 */
    int64_t *values;      /* of scalars and elements; source of a status */
    int64_t *tag, *bytes, *error;
    uint8_t *known, *cancelled;
};

struct weft_columns_input {
    const struct weft_event *events;
    const int64_t *which;
    uint64_t count;
    const uint8_t *tails;
    uint64_t tail_bytes;
    uint32_t entry_steps, steps; /* columns written at entry, and all of them */
    uint32_t poll;               /* whether the function is one: those that failed have no exit part */
};

EXPORT void weft_decode_columns(const struct weft_columns_input *input, struct weft_column *columns, int fill);

#endif
