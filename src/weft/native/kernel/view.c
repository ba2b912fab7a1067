/* What the browser draws: how much of a stretch of time a row of events spent in each class of calls (src/weft/view).
 *
 * A row is one thread of a rank. Its calls do not overlap; where a damaged record says so, a call begins no earlier
 * than the one before it and ends no later than the next one begins. Every BLOCK events the index keeps the time at
 * which the block begins and what was spent in each class before it, so that a share is a difference of two sums: a
 * galloping search for the block, and a look at fewer than BLOCK events. */
#include <stdlib.h>
#include <string.h>

#include "view.h"
#include "ops.h"
#include "times.h"

#define WIDE INT64_MAX

struct call {
    int64_t start, end;
};

/* Times of a damaged record can be anything: differences of these do not overflow. */
static int64_t sane(int64_t ns) {
    const int64_t most = INT64_C(1) << 60;
    return ns < -most ? -most : ns > most ? most : ns;
}

static int64_t enter_at(const struct weft_row *row, uint64_t i) {
    if (row->ends) return i ? (int64_t)row->ends[i - 1] * STEP : 0;
    return sane(enter_of(row->axis, &row->events[i]));
}

static int64_t exit_at(const struct weft_row *row, uint64_t i) {
    if (row->ends) return (int64_t)row->ends[i] * STEP;
    return row->events[i].flags & WEFT_FLAG_CLOSED ? sane(exit_of(row->axis, &row->events[i])) : row->last;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* The call `i`, which begins no earlier than `from`; `next` is when the one after it begins at the earliest. */
static struct call call_at(const struct weft_row *row, uint64_t i, int64_t from, int64_t *next) {
    int64_t start = later(from, enter_at(row, i));
    int64_t end = later(start, exit_at(row, i));
    *next = i + 1 < row->count ? later(start, enter_at(row, i + 1)) : WIDE;
    return (struct call){start, end < *next ? end : *next};
}

static void mark(uint8_t *marks, uint64_t count, int64_t span, int64_t ns) {
    if (ns < 0 || span <= 0) return;
    uint64_t at = (uint64_t)((double)ns / (double)span * (double)count);
    marks[at < count ? at : count - 1] = 1;
}

void weft_view_index(const struct weft_row *row, const uint8_t *classes, uint8_t *marks, uint64_t mark_count,
                     int64_t span) {
    int64_t spent[CLASSES] = {0}, from = INT64_MIN;
    for (uint64_t i = 0; i < row->count; i++) {
        int64_t next;
        struct call c = call_at(row, i, from, &next);
        if (i % row->block == 0) {
            row->starts[i / row->block] = c.start;
            memcpy(&row->sums[i / row->block * CLASSES], spent, sizeof spent);
        }
        spent[classes[row->events[i].function] & (CLASSES - 1)] += c.end - c.start;
        if (marks) mark(marks, mark_count, span, c.start);
        if (marks && (row->ends || row->events[i].flags & WEFT_FLAG_CLOSED)) mark(marks, mark_count, span, c.end);
        from = next;
    }
}

/* Where a sweep over a row stands: events before `i` are over, `spent` says in what. */
struct sweep {
    const struct weft_row *row;
    uint64_t blocks, block, i;
    int64_t from, spent[CLASSES];
};

static void enter_block(struct sweep *s, uint64_t block) {
    s->block = block;
    s->i = block * s->row->block;
    s->from = s->row->starts[block];
    memcpy(s->spent, &s->row->sums[block * CLASSES], sizeof s->spent);
}

/* Goes to the last block that begins before t: doubling steps, then halving. */
static void gallop(struct sweep *s, int64_t t) {
    uint64_t low = s->block, step = 1;
    if (low + 1 >= s->blocks || s->row->starts[low + 1] >= t) return;
    while (low + step < s->blocks && s->row->starts[low + step] < t) low += step, step *= 2;
    for (; step; step /= 2)
        if (low + step < s->blocks && s->row->starts[low + step] < t) low += step;
    enter_block(s, low);
}

/* What was spent in each class before t. Later calls must ask for later times. */
static void spent_before(struct sweep *s, int64_t t, const uint8_t *classes, int64_t *spent) {
    gallop(s, t);
    int64_t part = 0;
    uint8_t of = 0;
    while (s->i < s->row->count) {
        int64_t next;
        struct call c = call_at(s->row, s->i, s->from, &next);
        if (c.start >= t) break;
        of = classes[s->row->events[s->i].function] & (CLASSES - 1);
        if (c.end > t) {
            part = t - c.start;
            break;
        }
        s->spent[of] += c.end - c.start;
        s->from = next;
        s->i++;
    }
    memcpy(spent, s->spent, sizeof s->spent);
    spent[of] += part;
}

static struct sweep sweep_of(const struct weft_row *row) {
    struct sweep s = {.row = row, .blocks = (row->count + row->block - 1) / row->block};
    if (s.blocks) enter_block(&s, 0);
    return s;
}

static uint8_t shade(double share) {
    if (share <= 0) return 0;
    double level = share * 255 + 0.5;
    return level < 1 ? 1 : level > 255 ? 255 : (uint8_t)level;
}

void weft_view_columns(const struct weft_lanes *in, const uint8_t *classes, uint64_t from, uint64_t to, double *sums,
                       uint8_t *out) {
    for (uint64_t lane = from; lane < to; lane++) {
        memset(sums, 0, CLASSES * in->columns * sizeof *sums);
        for (uint32_t k = in->first[lane]; k < in->first[lane + 1]; k++) {
            struct sweep s = sweep_of(&in->rows[in->of[k]]);
            if (!s.blocks) continue;
            int64_t before[CLASSES], after[CLASSES];
            spent_before(&s, in->edges[0], classes, before);
            for (uint64_t x = 0; x < in->columns; x++) {
                spent_before(&s, in->edges[x + 1], classes, after);
                for (int c = 0; c < CLASSES; c++) sums[(uint64_t)c * in->columns + x] += (double)(after[c] - before[c]);
                memcpy(before, after, sizeof after);
            }
        }
        double rows = in->first[lane + 1] - in->first[lane];
        for (uint64_t c = 0; c < CLASSES; c++)
            for (uint64_t x = 0; x < in->columns; x++) {
                double whole = rows * (double)(in->edges[x + 1] - in->edges[x]);
                out[(lane * CLASSES + c) * in->columns + x] = whole > 0 ? shade(sums[c * in->columns + x] / whole) : 0;
            }
    }
}

/* How many events of a row begin before t. */
static uint64_t begun_before(const struct weft_row *row, int64_t t) {
    struct sweep s = sweep_of(row);
    if (!s.blocks) return 0;
    gallop(&s, t);
    for (; s.i < row->count; s.i++) {
        s.from = later(s.from, enter_at(row, s.i));
        if (s.from >= t) break;
    }
    return s.i;
}

void weft_view_range(const struct weft_row *rows, uint64_t count, int64_t t0, int64_t t1, uint64_t *first,
                     uint64_t *end) {
    for (uint64_t r = 0; r < count; r++) {
        const struct weft_row *row = &rows[r];
        end[r] = begun_before(row, t1);
        uint64_t i = begun_before(row, t0);
        /* The one before may still be under way. */
        if (i && exit_at(row, i - 1) > t0) i--;
        first[r] = i < end[r] ? i : end[r];
    }
}

void weft_view_boxes(const struct weft_row *row, const uint8_t *classes, uint64_t first, uint64_t end,
                     struct weft_box *out) {
    int64_t from = INT64_MIN;
    for (uint64_t i = first; i < end && i < row->count; i++, out++) {
        const struct weft_event *e = &row->events[i];
        int64_t next;
        struct call c = call_at(row, i, from, &next);
        *out =
            (struct weft_box){c.start, c.end, (uint32_t)i, e->function, classes[e->function] & (CLASSES - 1), e->flags};
        from = next;
    }
}

void weft_view_times(const struct weft_row *rows, const uint32_t *of, const int64_t *which, uint64_t count,
                     int64_t *starts, int64_t *ends) {
    for (uint64_t k = 0; k < count; k++) {
        int64_t next;
        struct call c = call_at(&rows[of[k]], (uint64_t)which[k], INT64_MIN, &next);
        starts[k] = c.start;
        ends[k] = c.end;
    }
}
