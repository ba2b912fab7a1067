/* Rows of iterations that the program runs without hooks (weft.instrument.rows writes the second copy of the loop).
 *
 * Behind an iteration call the copy's entry asks weft_check_row for how many iterations every access is sure to pass.
 * Nothing is changed before the row has run: what it wrote is stamped then, also where it was left in the middle.
 */
#include "rows.h"

#include "access.h"
#include "cells.h"
#include "loops.h"

#define MOST_ITERATIONS 4096
#define FEWEST_ITERATIONS 4
#define FEWEST_ACCESSES 40
#define MOST_LOOKS 4
#define BEGINS (-1) /* a row's run: it is asked for next where the loop begins anew */
#define FEWEST_WITHIN 100 /* in a loop within an iteration, whose copy is entered with all registers saved */

static struct {
    struct row *row; /* NULL: no row is being run */
    stamp_t first;
    int64_t count;
} pending;

/* Return whether the loop's copy without hooks would go on with the iteration that follows this one, with the other
 * indices unchanged. */
static bool is_next_iteration(const struct row *row, const struct line forms[]) {
    int last = row->rank - 1;
    for (int d = 0; d <= last; d++) {
        struct line f = compute_form_value(row, forms, row->arguments[d]);
        uint64_t step = d < last ? 0 : f.step;
        if (f.turns || f.step != step || f.at != (uint64_t)weft_construct.index[d] + step) return false;
    }
    int64_t step = last < 0 ? 0 : (int64_t)compute_form_value(row, forms, row->arguments[last]).step;
    return last < 0 || (step != 0 && accept_row_step(step));
}

/* Return whether a row has enough iterations and accesses to pay for its proof. */
bool is_row_worth_proof(const struct row *row, int64_t iteration_count) {
    if (row->rank < 0) return iteration_count > 0;
    return iteration_count >= FEWEST_ITERATIONS &&
           iteration_count * row->place_count >= (row->rank ? FEWEST_ACCESSES : FEWEST_WITHIN);
}

/* Return for how many of the iterations the loop goes on and its forms (linear expressions of its assembly) keep to
 * their limits. */
static int64_t count_steady_iterations(const struct row *row, const struct line forms[], int64_t iteration_count,
                                       const uint8_t blocks[]) {
    return count_iterations_within_limits(row, forms, count_iterations_until_exit(row, forms, iteration_count, blocks),
                                          blocks);
}

/* Return how many of the iterations the copy without hooks may run, since all their accesses are right; 0: none is
 * known to be. *wait may be set to how many iterations to wait before the next attempt. */
static int64_t prove_iterations(struct row *row, const uint64_t saved[], int64_t iteration_count, int64_t *wait) {
    static struct line forms[MOST_FORMS];
    static uint8_t blocks[MOST_BLOCKS];
    if (row->own_count > MOST_FORMS) return 0;
    evaluate_row_forms(row, saved, iteration_count + 1, forms);
    if (!is_next_iteration(row, forms)) return 0;
    if (row->rank > 0 && iteration_count > row_room()) iteration_count = row_room();
    bool loose = row->strict == 0;
    row->strict -= !loose;
    int64_t alike = find_blocks_of_iterations(row, forms, iteration_count, &loose, blocks),
            sure = count_steady_iterations(row, forms, alike, blocks);
    if (loose) {
        enum verdict v = is_row_worth_proof(row, sure) ? prove_row(row, forms, blocks, &sure) : UNOPENED;
        if (v == PASSED) {
            row->doubts = 0;
            return sure;
        }
        if (v == REFUSED) row->strict = 4 << (row->doubts < 8 ? row->doubts++ : 8);
        loose = false;
        alike = find_blocks_of_iterations(row, forms, iteration_count, &loose, blocks);
        sure = count_steady_iterations(row, forms, alike, blocks);
    }
    if (!is_row_worth_proof(row, sure)) {
        if (row->rank > 0) *wait = alike;
        else if (sure > 0 && sure < alike && row->run != BEGINS) {
            *wait = sure;
            row->run = BEGINS;
        } else row->run = 0;
        return 0;
    }
    enum verdict v = prove_row(row, forms, blocks, &sure);
    if (v == UNOPENED && row->fails++ < MOST_LOOKS) /* the hooks of this iteration open it */
        *wait = 1;
    return v == PASSED ? sure : 0;
}

/* --- the row --- */

/* Let the loop run with hooks for some iterations before the next attempt, more of them after each failure. */
static void postpone_row(struct row *row) {
    row->wait = 8 << (row->fails < 9 ? row->fails : 9);
    row->fails++;
}

/* Return how many iterations of this row to try without hooks, from the length of the last row; 0: none now. */
static int64_t choose_iterations_to_try(struct row *row) {
    int64_t before, done, n;
    if (!is_row_steady(row->rank, &before, &done)) return 0;
    if (row->rank < 0) {
        n = 1;
    } else if (row->rank == 0) {
        n = row->length > row->run ? row->length - row->run : row->fails % 2 ? 16 : 64;
        if (row->end_count && n < 64) n = 64; /* its end is seen beforehand */
    } else {
        if (before > 0) row->length = before;
        n = row->length > done ? row->length - done : 32;
    }
    n = n > MOST_ITERATIONS ? MOST_ITERATIONS : n;
    return (int64_t)(LAST_STAMP - 4) - now.cur < n ? 0 : n;
}

/* Called by the loop's second copy, which has no hooks: return 1 if it may run row->left iterations from this one on, 0
 * if hooks must check the next ones. `saved_registers`: those that calls preserve. */
int weft_check_row(struct row *row, const uint64_t saved_registers[]) {
    row->wait = 1;
    if (now.off) { /* nothing is looked at; the child that verifies reductions wants each iteration */
        row->left = row->rank ? 1 : INT64_MAX;
        return 1;
    }
    int64_t n = choose_iterations_to_try(row);
    row->left = 0;
    int64_t wait = 0, sure = is_row_worth_proof(row, n) ? prove_iterations(row, saved_registers, n, &wait) : 0;
    if (sure) {
        row->left = pending.count = sure;
        pending.row = row;
        pending.first = now.cur;
        return 1;
    }
    if (wait > 0) row->wait = (int32_t)wait;
    else if (is_row_worth_proof(row, n) || row->rank <= 0) postpone_row(row);
    else if (n > 0) row->wait = (int32_t)n;
    return 0;
}

/* Called by the loop's copy without hooks after the last iteration of a row: stamp what it did. */
void weft_check_row_end(struct row *row) {
    if (pending.row != row) return;
    int64_t n = pending.count;
    row->fails = 0;
    stamp_row_accesses(row->plan, pending.first, n, 0);
    pending.row = NULL;
    advance_past_row(n - 1);
}

/* Called where the loop's copy without hooks is left behind its first `places` places of accesses (-1: for the loop's
 * head): stamp what it did until there. */
void weft_check_row_exit(struct row *row, int places) {
    if (pending.row != row) return;
    int64_t full = pending.count - row->left;
    if (full) row->fails = 0;
    else postpone_row(row);
    stamp_row_accesses(row->plan, pending.first, full, places);
    pending.row = NULL;
    if (row->rank > 0) {
        advance_past_row(full);
    } else if (row->rank < 0) {
        return;
    } else if (places < 0) {
        row->run = (row->run == BEGINS ? 0 : row->run) + full;
    } else {
        row->length = (row->run == BEGINS ? 0 : row->run) + full + 1;
        row->run = 0;
    }
}
