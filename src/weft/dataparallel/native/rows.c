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

/* The copy's iteration calls would say what follows this iteration. */
static bool expected(const struct row *r, const struct line forms[]) {
    int last = r->rank - 1;
    for (int d = 0; d <= last; d++) {
        struct line f = form_of(r, forms, r->arguments[d]);
        uint64_t step = d < last ? 0 : f.step;
        if (f.turns || f.step != step || f.at != (uint64_t)here.index[d] + step) return false;
    }
    int64_t step = last < 0 ? 0 : (int64_t)form_of(r, forms, r->arguments[last]).step;
    return last < 0 || (step != 0 && row_rises(step));
}

/* Whether a row pays for its proof. */
bool row_worth(const struct row *r, int64_t n) {
    if (r->rank < 0) return n > 0;
    return n >= FEWEST_ITERATIONS && n * r->place_count >= (r->rank ? FEWEST_ACCESSES : FEWEST_WITHIN);
}

/* For how many of n iterations the loop goes on and its forms keep to their limits. */
static int64_t ending(const struct row *r, const struct line forms[], int64_t n, const uint8_t blocks[]) {
    return row_limited(r, forms, row_ending(r, forms, n, blocks), blocks);
}

/* For how many of n iterations all accesses pass; 0: none is known of, and *wait may say until when. */
static int64_t proved(struct row *r, const uint64_t saved[], int64_t n, int64_t *wait) {
    static struct line forms[MOST_FORMS];
    static uint8_t blocks[MOST_BLOCKS];
    if (r->own_count > MOST_FORMS) return 0;
    row_follow(r, saved, n + 1, forms);
    if (!expected(r, forms)) return 0;
    if (r->rank > 0 && n > row_room()) n = row_room();
    bool loose = r->strict == 0;
    r->strict -= !loose;
    int64_t alike = row_ways(r, forms, n, &loose, blocks), sure = ending(r, forms, alike, blocks);
    if (loose) {
        enum verdict v = row_worth(r, sure) ? row_passes(r, forms, blocks, &sure) : UNOPENED;
        if (v == PASSED) {
            r->doubts = 0;
            return sure;
        }
        if (v == REFUSED) r->strict = 4 << (r->doubts < 8 ? r->doubts++ : 8);
        loose = false;
        alike = row_ways(r, forms, n, &loose, blocks);
        sure = ending(r, forms, alike, blocks);
    }
    if (!row_worth(r, sure)) {
        if (r->rank > 0) *wait = alike;
        else if (sure > 0 && sure < alike && r->run != BEGINS) {
            *wait = sure;
            r->run = BEGINS;
        } else r->run = 0;
        return 0;
    }
    enum verdict v = row_passes(r, forms, blocks, &sure);
    if (v == UNOPENED && r->fails++ < MOST_LOOKS) /* the hooks of this iteration open it */
        *wait = 1;
    return v == PASSED ? sure : 0;
}

/* --- the row --- */

static void give_up(struct row *r) {
    r->wait = 8 << (r->fails < 9 ? r->fails : 9);
    r->fails++;
}

/* How many iterations of this row are to be tried; 0: now none. */
static int64_t to_try(struct row *r) {
    int64_t before, done, n;
    if (!row_ordinary(r->rank, &before, &done)) return 0;
    if (r->rank < 0) {
        n = 1;
    } else if (r->rank == 0) {
        n = r->length > r->run ? r->length - r->run : r->fails % 2 ? 16 : 64;
        if (r->end_count && n < 64) n = 64; /* its end is seen beforehand */
    } else {
        if (before > 0) r->length = before;
        n = r->length > done ? r->length - done : 32;
    }
    n = n > MOST_ITERATIONS ? MOST_ITERATIONS : n;
    return (int64_t)(LAST_STAMP - 4) - now.cur < n ? 0 : n;
}

/* How many iterations the copy may run, from this one on; 0: none. saved: the registers that calls keep. */
int weft_check_row(struct row *r, const uint64_t saved[]) {
    r->wait = 1;
    if (now.off) { /* nothing is looked at; the child that verifies reductions wants each iteration */
        r->left = r->rank ? 1 : INT64_MAX;
        return 1;
    }
    int64_t n = to_try(r);
    r->left = 0;
    int64_t wait = 0, sure = row_worth(r, n) ? proved(r, saved, n, &wait) : 0;
    if (sure) {
        r->left = pending.count = sure;
        pending.row = r;
        pending.first = now.cur;
        return 1;
    }
    if (wait > 0) r->wait = (int32_t)wait;
    else if (row_worth(r, n) || r->rank <= 0) give_up(r);
    else if (n > 0) r->wait = (int32_t)n;
    return 0;
}

/* The copy has come to the call of the iteration after the row. */
void weft_check_row_end(struct row *r) {
    if (pending.row != r) return;
    int64_t n = pending.count;
    r->fails = 0;
    row_stamp(r->plan, pending.first, n, 0);
    pending.row = NULL;
    row_advance(n - 1);
}

/* The copy is being left behind its first `places` places; -1: for the head of the loop. */
void weft_check_row_exit(struct row *r, int places) {
    if (pending.row != r) return;
    int64_t full = pending.count - r->left;
    if (full) r->fails = 0;
    else give_up(r);
    row_stamp(r->plan, pending.first, full, places);
    pending.row = NULL;
    if (r->rank > 0) {
        row_advance(full);
    } else if (r->rank < 0) {
        return;
    } else if (places < 0) {
        r->run = (r->run == BEGINS ? 0 : r->run) + full;
    } else {
        r->length = (r->run == BEGINS ? 0 : r->run) + full + 1;
        r->run = 0;
    }
}
