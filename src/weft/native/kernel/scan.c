/* One look at all events of a rank, so that analyses touch only the rows that concern them. */
#include "ops.h"

/* What a rank's events are like, counted. */
struct weft_catalogue {
    uint64_t failed, open, changed; /* an error, not CLOSED, BUFFER_CHANGED */
};

/* Fills `function` (one for each event) and `counts` (65,536, all 0 before). */
EXPORT void weft_catalogue(const struct weft_event *events, uint64_t count, uint16_t *function, uint64_t *counts,
                           struct weft_catalogue *out);
EXPORT void weft_catalogue(const struct weft_event *events, uint64_t count, uint16_t *function, uint64_t *counts,
                           struct weft_catalogue *out) {
    struct weft_catalogue found = {0};
    for (uint64_t i = 0; i < count; i++) {
        const struct weft_event *e = &events[i];
        function[i] = e->function;
        counts[e->function]++;
        found.failed += e->error != 0;
        found.open += !(e->flags & WEFT_FLAG_CLOSED);
        found.changed += (e->flags & WEFT_FLAG_BUFFER_CHANGED) != 0;
    }
    *out = found;
}

/* Writes the rows whose function has a place in `wanted` (65,536 of 0 or 1); `rows` has room for one more than them. */
EXPORT void weft_where(const uint16_t *function, uint64_t count, const uint8_t *wanted, int64_t *rows);
EXPORT void weft_where(const uint16_t *function, uint64_t count, const uint8_t *wanted, int64_t *rows) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        rows[found] = (int64_t)i;
        found += wanted[function[i]];
    }
}
