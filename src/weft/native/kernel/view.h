/* view.c as Python calls it. */
#ifndef WEFT_VIEW_H
#define WEFT_VIEW_H

#include "ops.h"
#include "times.h"

#define CLASSES 8
#define STEP 4096 /* units of a logical step: columns are often narrower than one */

/* Borrowed. `ends` is NULL for times on the clock; else the steps at which calls end in logical time, where each call begins
 * as the one before it ends. */
struct weft_row {
    const struct weft_event *events;
    uint64_t count;
    const struct weft_axis *axis;
    const uint32_t *ends;
    int64_t last; /* when calls that are open end in the picture */
    uint64_t block;
    int64_t *starts; /* by block */
    int64_t *sums; /* by block, CLASSES each */
};

/* Fills starts and sums of a row, and marks the parts of the span in which a call begins or ends. */
EXPORT void weft_index_view_row(const struct weft_row *row, const uint8_t *classes, uint8_t *marks, uint64_t mark_count,
                                int64_t span);

struct weft_lanes {
    const struct weft_row *rows;
    uint64_t count;
    const uint32_t *first; /* by lane, where its rows begin in `of`; one more than there are */
    const uint32_t *of;
    const int64_t *edges; /* columns + 1 times, rising */
    uint64_t columns;
};

/* Fills out[lane][class][column]: the share of the column's time that the lane's rows spent in the class, 255 for all of it;
 * what is more than nothing is at least 1. `sums` has room for CLASSES * columns. */
EXPORT void weft_shade_view_columns(const struct weft_lanes *lanes, const uint8_t *classes, uint64_t from, uint64_t to,
                                    double *sums, uint8_t *out);

/* By row the events [first, end) that are under way somewhere in [t0, t1). */
EXPORT void weft_find_view_range(const struct weft_row *rows, uint64_t count, int64_t begin, int64_t behind,
                                 uint64_t *first, uint64_t *end);

/* One call as a box. */
struct weft_box {
    int64_t start, end;
    uint32_t index;
    uint16_t function;
    uint8_t class, flags; /* flags: WEFT_FLAG_... */
};

/* The events [first, end) of a row as boxes. */
EXPORT void weft_fill_view_boxes(const struct weft_row *row, const uint8_t *classes, uint64_t first, uint64_t end,
                                 struct weft_box *out);

/* Start and end of the events at some places, each named by its row and its index there. */
EXPORT void weft_find_view_times(const struct weft_row *rows, const uint32_t *of, const int64_t *which, uint64_t count,
                                 int64_t *starts, int64_t *ends);

#endif
