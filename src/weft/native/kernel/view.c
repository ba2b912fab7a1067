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

/* Clamp a time, which may be damaged, so that differences do not overflow. */
static int64_t clamp_time(int64_t ns) {
    const int64_t most = INT64_C(1) << 60;
    return ns < -most ? -most : ns > most ? most : ns;
}

/* Return when an event of a row begins: in ns, or in units of logical time. */
static int64_t find_enter_time(const struct weft_row *row, uint64_t index) {
    if (row->ends) return index ? (int64_t)row->ends[index - 1] * STEP : 0;
    return clamp_time(find_event_enter(row->axis, &row->events[index]));
}

/* Return when an event of a row ends; an open one ends at the row's `last`. */
static int64_t find_exit_time(const struct weft_row *row, uint64_t index) {
    if (row->ends) return (int64_t)row->ends[index] * STEP;
    return row->events[index].flags & WEFT_FLAG_CLOSED ? clamp_time(find_event_exit(row->axis, &row->events[index]))
                                                       : row->last;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Return begin and end of a row's event, not before `earliest`; `*next` gets the earliest begin of the event after
 * it. */
static struct call find_call_times(const struct weft_row *row, uint64_t index, int64_t earliest, int64_t *next) {
    int64_t start = later(earliest, find_enter_time(row, index));
    int64_t end = later(start, find_exit_time(row, index));
    *next = index + 1 < row->count ? later(start, find_enter_time(row, index + 1)) : WIDE;
    return (struct call){start, end < *next ? end : *next};
}

/* Mark the bin of a time span into which a time falls. */
static void mark_bin_of_time(uint8_t *marks, uint64_t count, int64_t span, int64_t ns) {
    if (ns < 0 || span <= 0) return;
    uint64_t part = (uint64_t)((double)ns / (double)span * (double)count);
    marks[part < count ? part : count - 1] = 1;
}

/* Build a row's index: at every block of events its start and the time spent so far in each class of calls. Mark the
 * bins of the span in which calls begin or end. */
void weft_index_view_row(const struct weft_row *row, const uint8_t *classes, uint8_t *marks, uint64_t mark_count,
                         int64_t span) {
    int64_t spent[CLASSES] = {0}, earliest = INT64_MIN;
    for (uint64_t index = 0; index < row->count; index++) {
        int64_t next;
        struct call call = find_call_times(row, index, earliest, &next);
        if (index % row->block == 0) {
            row->starts[index / row->block] = call.start;
            memcpy(&row->sums[index / row->block * CLASSES], spent, sizeof spent);
        }
        spent[classes[row->events[index].function] & (CLASSES - 1)] += call.end - call.start;
        if (marks) mark_bin_of_time(marks, mark_count, span, call.start);
        if (marks && (row->ends || row->events[index].flags & WEFT_FLAG_CLOSED))
            mark_bin_of_time(marks, mark_count, span, call.end);
        earliest = next;
    }
}

/* Where a sweep over a row stands: events before `i` are over, `spent` says in what. */
struct sweep {
    const struct weft_row *row;
    uint64_t blocks, block, i;
    int64_t from, spent[CLASSES];
};

/* Move a sweep to the start of a block of events. */
static void move_to_block(struct sweep *sweep, uint64_t block) {
    sweep->block = block;
    sweep->i = block * sweep->row->block;
    sweep->from = sweep->row->starts[block];
    memcpy(sweep->spent, &sweep->row->sums[block * CLASSES], sizeof sweep->spent);
}

/* Move a sweep forward to the last block that begins before a time, by doubling steps, then halving. */
static void gallop_to_time(struct sweep *sweep, int64_t time) {
    uint64_t low = sweep->block, step = 1;
    if (low + 1 >= sweep->blocks || sweep->row->starts[low + 1] >= time) return;
    while (low + step < sweep->blocks && sweep->row->starts[low + step] < time) low += step, step *= 2;
    for (; step; step /= 2)
        if (low + step < sweep->blocks && sweep->row->starts[low + step] < time) low += step;
    move_to_block(sweep, low);
}

/* Compute the time that a row spent in each class of calls before a time. Successive calls must ask for rising
 * times. */
static void sum_spent_before(struct sweep *sweep, int64_t time, const uint8_t *classes, int64_t *spent) {
    gallop_to_time(sweep, time);
    int64_t part = 0;
    uint8_t class = 0;
    while (sweep->i < sweep->row->count) {
        int64_t next;
        struct call call = find_call_times(sweep->row, sweep->i, sweep->from, &next);
        if (call.start >= time) break;
        class = classes[sweep->row->events[sweep->i].function] & (CLASSES - 1);
        if (call.end > time) {
            part = time - call.start;
            break;
        }
        sweep->spent[class] += call.end - call.start;
        sweep->from = next;
        sweep->i++;
    }
    memcpy(spent, sweep->spent, sizeof sweep->spent);
    spent[class] += part;
}

/* Return a sweep over a row, at its first event. */
static struct sweep begin_sweep(const struct weft_row *row) {
    struct sweep sweep = {.row = row, .blocks = (row->count + row->block - 1) / row->block};
    if (sweep.blocks) move_to_block(&sweep, 0);
    return sweep;
}

/* Convert a share (0 to 1) to 0 .. 255; anything above zero becomes at least 1. */
static uint8_t compute_shade(double share) {
    if (share <= 0) return 0;
    double level = share * 255 + 0.5;
    return level < 1 ? 1 : level > 255 ? 255 : (uint8_t)level;
}

/* For each lane, class of calls and pixel column, compute the share of time that the lane's rows spent in the class, as
 * 0 .. 255. */
void weft_shade_view_columns(const struct weft_lanes *lanes, const uint8_t *classes, uint64_t from, uint64_t to,
                             double *sums, uint8_t *out) {
    for (uint64_t lane = from; lane < to; lane++) {
        memset(sums, 0, CLASSES * lanes->columns * sizeof *sums);
        for (uint32_t row_index = lanes->first[lane]; row_index < lanes->first[lane + 1]; row_index++) {
            struct sweep sweep = begin_sweep(&lanes->rows[lanes->of[row_index]]);
            if (!sweep.blocks) continue;
            int64_t before[CLASSES], after[CLASSES];
            sum_spent_before(&sweep, lanes->edges[0], classes, before);
            for (uint64_t column = 0; column < lanes->columns; column++) {
                sum_spent_before(&sweep, lanes->edges[column + 1], classes, after);
                for (int class = 0; class < CLASSES; class ++)
                    sums[(uint64_t)class * lanes->columns + column] += (double)(after[class] - before[class]);
                memcpy(before, after, sizeof after);
            }
        }
        double rows = lanes->first[lane + 1] - lanes->first[lane];
        for (uint64_t class = 0; class < CLASSES; class ++)
            for (uint64_t column = 0; column < lanes->columns; column++) {
                double whole = rows * (double)(lanes->edges[column + 1] - lanes->edges[column]);
                out[(lane * CLASSES + class) * lanes->columns + column] =
                    whole > 0 ? compute_shade(sums[class * lanes->columns + column] / whole) : 0;
            }
    }
}

/* Return how many events of a row begin before a time. */
static uint64_t count_begun_before(const struct weft_row *row, int64_t time) {
    struct sweep sweep = begin_sweep(row);
    if (!sweep.blocks) return 0;
    gallop_to_time(&sweep, time);
    for (; sweep.i < row->count; sweep.i++) {
        sweep.from = later(sweep.from, find_enter_time(row, sweep.i));
        if (sweep.from >= time) break;
    }
    return sweep.i;
}

/* For each row, find the events [first, end) that overlap the time span [begin, behind). */
void weft_find_view_range(const struct weft_row *rows, uint64_t count, int64_t begin, int64_t behind, uint64_t *first,
                          uint64_t *end) {
    for (uint64_t row_index = 0; row_index < count; row_index++) {
        const struct weft_row *row = &rows[row_index];
        end[row_index] = count_begun_before(row, behind);
        uint64_t index = count_begun_before(row, begin);
        /* The one before may still be under way. */
        if (index && find_exit_time(row, index - 1) > begin) index--;
        first[row_index] = index < end[row_index] ? index : end[row_index];
    }
}

/* Fill in a box (begin, end, function, class) for each of the events [first, end) of a row. */
void weft_fill_view_boxes(const struct weft_row *row, const uint8_t *classes, uint64_t first, uint64_t end,
                          struct weft_box *out) {
    int64_t earliest = INT64_MIN;
    for (uint64_t index = first; index < end && index < row->count; index++, out++) {
        const struct weft_event *event = &row->events[index];
        int64_t next;
        struct call call = find_call_times(row, index, earliest, &next);
        *out = (struct weft_box){
            call.start,  call.end, (uint32_t)index, event->function, classes[event->function] & (CLASSES - 1),
            event->flags};
        earliest = next;
    }
}

/* Find begin and end of single events, each given by its row and index. */
void weft_find_view_times(const struct weft_row *rows, const uint32_t *of, const int64_t *which, uint64_t count,
                          int64_t *starts, int64_t *ends) {
    for (uint64_t index = 0; index < count; index++) {
        int64_t next;
        struct call call = find_call_times(&rows[of[index]], (uint64_t)which[index], INT64_MIN, &next);
        starts[index] = call.start;
        ends[index] = call.end;
    }
}
