/* What MPI_Wtime gave in a row of calls that are one event: one or two bytes for each call after the first, as long as
 * they follow each other within four microseconds.
 *
 *   | unit: double | for each call: varint of steps << 2 | how far off, 0 to 2; or varint 3, then varint of the time's bits |
 *
 * A time is the one before it plus so many steps of the clock's unit (MPI_Wtick), and the neighbouring double below or
 * above where rounding made it that. The recorder writes these bytes into the event's tail, a replay reads them.
 */
#ifndef WEFT_TIMES_H
#define WEFT_TIMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { WEFT_TIMES_MOST = 65536, WEFT_TIME_BYTES = 24, WEFT_TIME_WHOLE = 3 };

/* Return the time `before` plus `steps` of the clock's unit, moved by `off` neighbouring doubles (-1, 0 or 1). */
static inline double weft_add_clock_steps(double before, uint64_t steps, double unit, int off) {
    volatile double passed = (double)steps * unit; /* volatile: a fused multiplication would round in another way */
    double time = before + passed;
    int64_t bits;
    memcpy(&bits, &time, sizeof bits);
    bits += off;
    memcpy(&time, &bits, sizeof time);
    return time;
}

/* Return the time `now` as its distance from the time `before`, in the form that weft_read_next_time reads;
 * WEFT_TIME_WHOLE if no number of clock steps (of `unit` seconds) gives it. */
static inline uint64_t weft_encode_time(double before, double now, double unit) {
    double steps = (now - before) / unit;
    if (!(steps > -0.5 && steps < 1e15)) return WEFT_TIME_WHOLE;
    uint64_t whole = (uint64_t)(steps + 0.5);
    double near = weft_add_clock_steps(before, whole, unit, 0);
    int64_t a, b;
    memcpy(&a, &near, sizeof a);
    memcpy(&b, &now, sizeof b);
    return b - a >= -1 && b - a <= 1 ? whole << 2 | (uint64_t)(b - a + 1) : WEFT_TIME_WHOLE;
}

/* Read a varint at `*position`, which moves on behind it; return false where the bytes end before it does. */
static inline bool weft_read_time_varint(const uint8_t **position, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; *position < end && shift < 64; shift += 7) {
        uint8_t byte = *(*position)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

/* Read the next time at `*position`, which moves on. `time`: the time before it, replaced by the next one. Return false where
 * the bytes end. */
static inline bool weft_read_next_time(const uint8_t **position, const uint8_t *end, double unit, double *time) {
    uint64_t code;
    if (!weft_read_time_varint(position, end, &code)) return false;
    if (code == WEFT_TIME_WHOLE) {
        if (!weft_read_time_varint(position, end, &code)) return false;
        memcpy(time, &code, sizeof *time);
    } else *time = weft_add_clock_steps(*time, code >> 2, unit, (int)(code & 3) - 1);
    return true;
}

#endif
