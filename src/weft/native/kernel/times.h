/* A rank's clock, and the times of its events in ns since the run's first call. */
#ifndef WEFT_TIMES_H
#define WEFT_TIMES_H

#include <math.h>
#include <stdint.h>

#include "../format.h"

/* A rank's clock (src/weft/trace/clock.py): ns = origin + (ticks - start) * length, the product within +-most. */
struct weft_axis {
    uint64_t start;
    int64_t origin;
    double length, most;
};

/* Round a number of nanoseconds. Without newer instructions rint() is a call; adding and subtracting 1.5 * 2^52 rounds
 * to even as well. */
static inline double round_to_even(double ns) {
    const double big = 0x1.8p52;
    return ns < 0x1p51 && ns > -0x1p51 ? (ns + big) - big : rint(ns);
}

/* Convert ticks of a rank's clock to nanoseconds since the run's first call. */
static inline int64_t ticks_to_ns(const struct weft_axis *axis, uint64_t ticks) {
    int64_t delta = (int64_t)(ticks - axis->start);
    if (axis->length != 1.0) {
        double ns = round_to_even((double)delta * axis->length);
        delta = (int64_t)(ns < -axis->most ? -axis->most : ns > axis->most ? axis->most : ns);
    }
    return (int64_t)((uint64_t)delta + (uint64_t)axis->origin);
}

static inline int64_t find_event_enter(const struct weft_axis *axis, const struct weft_event *event) {
    return ticks_to_ns(axis, event->enter);
}

/* Return when an event returned, in nanoseconds since the run's first call; -1 if it is still open. */
static inline int64_t find_event_exit(const struct weft_axis *axis, const struct weft_event *event) {
    uint64_t ticks = (uint64_t)(event->duration & 0x3fffffffu) << (8 * (event->duration >> 30));
    return event->flags & WEFT_FLAG_CLOSED ? ticks_to_ns(axis, event->enter + ticks) : -1;
}

#endif
