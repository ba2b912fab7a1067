/* Logical time: one step a causal level (Lamport 1978).
 *
 * A call begins as the one before it in its row ends. It ends one step after it began, after each message that it has was
 * sent, and, in a collective, after every member had begun. A place is an event of the run, row by row. */
#include <stdlib.h>
#include <string.h>

#include "levels.h"
#include "ops.h"

struct state {
    const struct weft_steps *in;
    uint32_t *ends;             /* by place */
    uint64_t *at;               /* by row the place that is next */
    uint64_t *message, *arrival, *departure; /* by row, the next pair */
    bool *begun;                /* by row, whether the next place has announced itself */
    uint32_t *arrived, *height; /* by collective: how many came, and the latest begin */
    uint32_t *row_waiters, *gathering_waiters, *next; /* lists of rows */
    uint32_t *queue;
    bool *queued;
    uint64_t head, tail;
};

static uint64_t lower(const uint64_t *values, uint64_t count, uint64_t wanted) {
    uint64_t low = 0;
    while (count) {
        uint64_t half = count / 2;
        if (values[low + half] < wanted) low += half + 1, count -= half + 1;
        else count = half;
    }
    return low;
}

static uint32_t row_of(const struct weft_steps *in, uint64_t place) {
    uint64_t low = lower(in->first, in->rows + 1, place + 1);
    return (uint32_t)(low - 1);
}

static uint32_t start_of(const struct state *s, uint32_t row, uint64_t place) {
    return place > s->in->first[row] ? s->ends[place - 1] : 0;
}

static void push(struct state *s, uint32_t row) {
    if (s->queued[row]) return;
    s->queued[row] = true;
    s->queue[s->tail++ % s->in->rows] = row;
}

static void wake(struct state *s, uint32_t *list) {
    uint32_t row = *list;
    *list = NONE;
    while (row != NONE) {
        uint32_t next = s->next[row];
        push(s, row);
        row = next;
    }
}

static void wait_in(struct state *s, uint32_t *list, uint32_t row) {
    s->next[row] = *list;
    *list = row;
}

static void arrive(struct state *s, uint32_t row, uint64_t place, uint32_t start) {
    const struct weft_steps *in = s->in;
    for (; s->arrival[row] < in->arrivals && in->arrival[s->arrival[row]] == place; s->arrival[row]++) {
        uint32_t g = in->arrival_of[s->arrival[row]];
        if (start > s->height[g]) s->height[g] = start;
        if (++s->arrived[g] == in->parts[g]) wake(s, &s->gathering_waiters[g]);
    }
}

/* The step at which the place can end; NONE where it has to wait, and the row stands in a list then, unless `forced`. */
static uint32_t end_of(struct state *s, uint32_t row, uint64_t place, uint32_t start, bool forced) {
    const struct weft_steps *in = s->in;
    uint32_t end = start;
    for (uint64_t k = s->message[row]; k < in->messages && in->message_to[k] == place; k++) {
        uint64_t from = in->message_from[k];
        uint32_t other = row_of(in, from);
        bool known = from < s->at[other] || (from == s->at[other] && (s->begun[other] || other == row));
        if (!known && !forced) {
            wait_in(s, &s->row_waiters[other], row);
            return NONE;
        }
        if (known && start_of(s, other, from) > end) end = start_of(s, other, from);
    }
    for (uint64_t k = s->departure[row]; k < in->departures && in->departure[k] == place; k++) {
        uint32_t g = in->departure_of[k];
        if (s->arrived[g] < in->parts[g] && !forced) {
            wait_in(s, &s->gathering_waiters[g], row);
            return NONE;
        }
        if (s->height[g] > end) end = s->height[g];
    }
    return end + 1;
}

static void run(struct state *s, uint32_t row, bool forced) {
    const struct weft_steps *in = s->in;
    bool news = false; /* rows that wait for each other would wake each other for ever */
    while (s->at[row] < in->first[row + 1]) {
        uint64_t place = s->at[row];
        uint32_t start = start_of(s, row, place);
        if (!s->begun[row]) arrive(s, row, place, start), news = true;
        s->begun[row] = true;
        uint32_t end = end_of(s, row, place, start, forced);
        if (end == NONE) break;
        news = true;
        s->ends[place] = end;
        while (s->message[row] < in->messages && in->message_to[s->message[row]] == place) s->message[row]++;
        while (s->departure[row] < in->departures && in->departure[s->departure[row]] == place) s->departure[row]++;
        s->at[row]++;
        s->begun[row] = false;
        forced = false;
    }
    if (news) wake(s, &s->row_waiters[row]);
}

static void forget_waiters(struct state *s) {
    for (uint32_t row = 0; row < s->in->rows; row++) s->row_waiters[row] = NONE;
    for (uint64_t g = 0; g < s->in->gatherings; g++) s->gathering_waiters[g] = NONE;
}

static void sweep(struct state *s) {
    const struct weft_steps *in = s->in;
    for (uint32_t row = 0; row < in->rows; row++) push(s, row);
    for (;;) {
        while (s->head < s->tail) {
            uint32_t row = s->queue[s->head++ % in->rows];
            s->queued[row] = false;
            run(s, row, false);
        }
        /* Only a record that contradicts itself comes to a stand: the least advanced row goes on without its causes. */
        uint32_t least = NONE;
        for (uint32_t row = 0; row < in->rows; row++)
            if (s->at[row] < in->first[row + 1] &&
                (least == NONE || start_of(s, row, s->at[row]) < start_of(s, least, s->at[least])))
                least = row;
        if (least == NONE) return;
        /* A row stands in one list at most: all are tried anew, so none may stay in any. */
        forget_waiters(s);
        run(s, least, true);
        forget_waiters(s);
        for (uint32_t row = 0; row < in->rows; row++) push(s, row);
    }
}

int weft_levels(const struct weft_steps *in, uint32_t *ends) {
    uint64_t rows = in->rows ? in->rows : 1, gatherings = in->gatherings ? in->gatherings : 1;
    struct state s = {.in = in, .ends = ends};
    uint64_t *wide = malloc(4 * rows * sizeof *wide);
    uint32_t *narrow = malloc((3 * rows + 3 * gatherings) * sizeof *narrow);
    bool *flags = calloc(2 * rows, sizeof *flags);
    int status = wide && narrow && flags ? 0 : -1;
    if (!status && in->rows) {
        s.at = wide, s.message = wide + rows, s.arrival = wide + 2 * rows, s.departure = wide + 3 * rows;
        s.row_waiters = narrow, s.next = narrow + rows, s.queue = narrow + 2 * rows;
        s.gathering_waiters = narrow + 3 * rows, s.arrived = s.gathering_waiters + gatherings,
        s.height = s.arrived + gatherings;
        s.begun = flags, s.queued = flags + rows;
        memset(narrow, 0xff, (3 * rows + gatherings) * sizeof *narrow);
        memset(s.arrived, 0, 2 * gatherings * sizeof *narrow);
        for (uint64_t row = 0; row < in->rows; row++) {
            s.at[row] = in->first[row];
            s.message[row] = lower(in->message_to, in->messages, in->first[row]);
            s.arrival[row] = lower(in->arrival, in->arrivals, in->first[row]);
            s.departure[row] = lower(in->departure, in->departures, in->first[row]);
        }
        sweep(&s);
    }
    free(wide);
    free(narrow);
    free(flags);
    return status;
}
