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

/* Return the index of the first value that is not below `wanted` in a sorted array. */
static uint64_t find_lower_bound(const uint64_t *values, uint64_t count, uint64_t wanted) {
    uint64_t index = 0;
    while (count) {
        uint64_t half = count / 2;
        if (values[index + half] < wanted) index += half + 1, count -= half + 1;
        else count = half;
    }
    return index;
}

static uint32_t find_row(const struct weft_steps *steps, uint64_t place) {
    uint64_t index = find_lower_bound(steps->first, steps->rows + 1, place + 1);
    return (uint32_t)(index - 1);
}

static uint32_t find_start_step(const struct state *state, uint32_t row, uint64_t place) {
    return place > state->in->first[row] ? state->ends[place - 1] : 0;
}

/* Put a row (the events of one thread) into the work queue, unless it is there. */
static void enqueue_row(struct state *state, uint32_t row) {
    if (state->queued[row]) return;
    state->queued[row] = true;
    state->queue[state->tail++ % state->in->rows] = row;
}

/* Move all rows of a waiting list to the work queue. */
static void wake_waiters(struct state *state, uint32_t *list) {
    uint32_t row = *list;
    *list = NONE;
    while (row != NONE) {
        uint32_t next = state->next[row];
        enqueue_row(state, row);
        row = next;
    }
}

/* Add a row to a waiting list. */
static void add_waiter(struct state *state, uint32_t *list, uint32_t row) {
    state->next[row] = *list;
    *list = row;
}

/* Let a row's event arrive in the collectives that it begins at step `start`; the last arrival wakes the rows that wait
 * for it. */
static void announce_arrivals(struct state *state, uint32_t row, uint64_t place, uint32_t start) {
    const struct weft_steps *steps = state->in;
    for (; state->arrival[row] < steps->arrivals && steps->arrival[state->arrival[row]] == place;
         state->arrival[row]++) {
        uint32_t gathering = steps->arrival_of[state->arrival[row]];
        if (start > state->height[gathering]) state->height[gathering] = start;
        if (++state->arrived[gathering] == steps->parts[gathering])
            wake_waiters(state, &state->gathering_waiters[gathering]);
    }
}

/* Return the logical time at which an event can end. If it must wait for another row, add the row to that waiting list
 * and return NONE; `is_forced`: ignore what is missing instead. */
static uint32_t find_end_step(struct state *state, uint32_t row, uint64_t place, uint32_t start, bool is_forced) {
    const struct weft_steps *steps = state->in;
    uint32_t end = start;
    for (uint64_t k = state->message[row]; k < steps->messages && steps->message_to[k] == place; k++) {
        uint64_t sender = steps->message_from[k];
        uint32_t other = find_row(steps, sender);
        bool is_known =
            sender < state->at[other] || (sender == state->at[other] && (state->begun[other] || other == row));
        if (!is_known && !is_forced) {
            add_waiter(state, &state->row_waiters[other], row);
            return NONE;
        }
        if (is_known && find_start_step(state, other, sender) > end) end = find_start_step(state, other, sender);
    }
    for (uint64_t k = state->departure[row]; k < steps->departures && steps->departure[k] == place; k++) {
        uint32_t gathering = steps->departure_of[k];
        if (state->arrived[gathering] < steps->parts[gathering] && !is_forced) {
            add_waiter(state, &state->gathering_waiters[gathering], row);
            return NONE;
        }
        if (state->height[gathering] > end) end = state->height[gathering];
    }
    return end + 1;
}

/* Advance a row event by event until one must wait. `is_forced`: its first event does not wait. */
static void advance_row(struct state *state, uint32_t row, bool is_forced) {
    const struct weft_steps *steps = state->in;
    bool has_moved = false; /* rows that wait for each other would wake each other for ever */
    while (state->at[row] < steps->first[row + 1]) {
        uint64_t place = state->at[row];
        uint32_t start = find_start_step(state, row, place);
        if (!state->begun[row]) announce_arrivals(state, row, place, start), has_moved = true;
        state->begun[row] = true;
        uint32_t end = find_end_step(state, row, place, start, is_forced);
        if (end == NONE) break;
        has_moved = true;
        state->ends[place] = end;
        while (state->message[row] < steps->messages && steps->message_to[state->message[row]] == place)
            state->message[row]++;
        while (state->departure[row] < steps->departures && steps->departure[state->departure[row]] == place)
            state->departure[row]++;
        state->at[row]++;
        state->begun[row] = false;
        is_forced = false;
    }
    if (has_moved) wake_waiters(state, &state->row_waiters[row]);
}

/* Empty all waiting lists. */
static void forget_waiters(struct state *state) {
    for (uint32_t row = 0; row < state->in->rows; row++) state->row_waiters[row] = NONE;
    for (uint64_t gathering = 0; gathering < state->in->gatherings; gathering++)
        state->gathering_waiters[gathering] = NONE;
}

/* Advance all rows to their ends. If all wait for each other, which only a contradictory record can cause, force the
 * least advanced one. */
static void advance_all_rows(struct state *state) {
    const struct weft_steps *steps = state->in;
    for (uint32_t row = 0; row < steps->rows; row++) enqueue_row(state, row);
    for (;;) {
        while (state->head < state->tail) {
            uint32_t row = state->queue[state->head++ % steps->rows];
            state->queued[row] = false;
            advance_row(state, row, false);
        }
        /* Only a record that contradicts itself comes to a stand: the least advanced row goes on without its causes. */
        uint32_t least = NONE;
        for (uint32_t row = 0; row < steps->rows; row++)
            if (state->at[row] < steps->first[row + 1] &&
                (least == NONE ||
                 find_start_step(state, row, state->at[row]) < find_start_step(state, least, state->at[least])))
                least = row;
        if (least == NONE) return;
        /* A row stands in one list at most: all are tried anew, so none may stay in any. */
        forget_waiters(state);
        advance_row(state, least, true);
        forget_waiters(state);
        for (uint32_t row = 0; row < steps->rows; row++) enqueue_row(state, row);
    }
}

/* Compute the logical time (Lamport 1978) at which each event ends. Return 0, or -1 without memory. */
int weft_compute_levels(const struct weft_steps *steps, uint32_t *ends) {
    uint64_t rows = steps->rows ? steps->rows : 1, gatherings = steps->gatherings ? steps->gatherings : 1;
    struct state state = {.in = steps, .ends = ends};
    uint64_t *wide = malloc(4 * rows * sizeof *wide);
    uint32_t *narrow = malloc((3 * rows + 3 * gatherings) * sizeof *narrow);
    bool *flags = calloc(2 * rows, sizeof *flags);
    int status = wide && narrow && flags ? 0 : -1;
    if (!status && steps->rows) {
        state.at = wide, state.message = wide + rows, state.arrival = wide + 2 * rows,
        state.departure = wide + 3 * rows;
        state.row_waiters = narrow, state.next = narrow + rows, state.queue = narrow + 2 * rows;
        state.gathering_waiters = narrow + 3 * rows, state.arrived = state.gathering_waiters + gatherings,
        state.height = state.arrived + gatherings;
        state.begun = flags, state.queued = flags + rows;
        memset(narrow, 0xff, (3 * rows + gatherings) * sizeof *narrow);
        memset(state.arrived, 0, 2 * gatherings * sizeof *narrow);
        for (uint64_t row = 0; row < steps->rows; row++) {
            state.at[row] = steps->first[row];
            state.message[row] = find_lower_bound(steps->message_to, steps->messages, steps->first[row]);
            state.arrival[row] = find_lower_bound(steps->arrival, steps->arrivals, steps->first[row]);
            state.departure[row] = find_lower_bound(steps->departure, steps->departures, steps->first[row]);
        }
        advance_all_rows(&state);
    }
    free(wide);
    free(narrow);
    free(flags);
    return status;
}
