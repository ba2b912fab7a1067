/* What a row's forms are worth, which blocks its iterations come to, and for how many of them that stays so. */
#include "rows.h"

#include <string.h>

__extension__ typedef __int128 wide_t; /* sums and differences of any two values */

/* A part of 4 bytes, extended: it rises evenly as long as it does not turn around. */
static void extend(struct line *sum, const struct row_term *t, struct line in, int64_t n) {
    bool sign = (t->kind & ~STEP_IS_FORM) == SIGNED;
    int64_t from = sign ? (int64_t)(int32_t)in.at : (int64_t)(uint32_t)in.at;
    if ((int32_t)in.step == 0 && !in.turns) {
        sum->at += (uint64_t)from * (uint64_t)t->factor;
        return;
    }
    int64_t rise = (int32_t)in.step, to = from + rise * n;
    sum->turns |= in.turns || (sign ? to != (int32_t)to : to != (int64_t)(uint32_t)to);
    sum->at += (uint64_t)from * (uint64_t)t->factor;
    sum->step += (uint64_t)rise * (uint64_t)t->factor;
}

/* What memory holds; a weak symbol may have none. */
static uint64_t held(int64_t address, int kind) {
    if ((uint64_t)address < 4096) return 0;
    return kind == MEMORY8 ? *(const uint64_t *)address : *(const uint32_t *)address;
}

/* Add what is not read and added only. */
static void add_term(const struct row *r, struct line *sum, const struct row_term *t, const struct line forms[],
                     const uint64_t saved[], int64_t n) {
    const char *frame = (const char *)saved[0];
    if (t->kind == SIGNED || t->kind == ZEROED) {
        extend(sum, t, form_of(r, forms, t->which), n);
        return;
    }
    uint64_t at = 1, step = t->kind & STEP_IS_FORM ? form_of(r, forms, (int)t->step).at : (uint64_t)t->step;
    switch (t->kind & ~STEP_IS_FORM) {
    case NUMBER: break;
    case REGISTER: at = *(const uint64_t *)((const char *)saved + t->which); break;
    case SLOT8: at = *(const uint64_t *)(frame + t->which); break;
    case SLOT4: at = *(const uint32_t *)(frame + t->which); break;
    case MEMORY8:
    case MEMORY4:
        at = held(t->step, t->kind);
        step = 0;
        break;
    default: extend(sum, t, form_of(r, forms, t->which), n); return;
    }
    sum->at += at * (uint64_t)t->factor;
    sum->step += step * (uint64_t)t->factor;
}

/* The values of all forms that are no shifts at the first of n iterations, and what they rise by. saved: the frame pointer comes first. */
void row_follow(const struct row *r, const uint64_t saved[], int64_t n, struct line forms[]) {
    static const uint64_t unit = 1;
    const char *frame = (const char *)saved[0];
    const char *const bases[] = {(const char *)&unit, (const char *)saved, frame};
    const struct row_term *t = r->terms;
    for (int i = 0; i < r->own_count; i++) {
        uint64_t at = 0, step = 0;
        const struct row_term *end = r->terms + r->starts[i + 1];
        for (; t < end && t->kind <= SLOT8; t++) {
            at += *(const uint64_t *)(bases[t->kind] + t->which) * (uint64_t)t->factor;
            step += (uint64_t)t->step * (uint64_t)t->factor;
        }
        forms[i] = (struct line){at, step, false};
        for (; t < end; t++) add_term(r, &forms[i], t, forms, saved, n);
    }
}

/* A value as a guard reads it, and for how many of n iterations it rises evenly so. */
static int64_t read_as(struct line f, int size, bool sign, int64_t n, wide_t *at, wide_t *step) {
    wide_t low = 0, high = size == 8 ? (wide_t)UINT64_MAX : UINT32_MAX;
    if (sign) {
        low = size == 8 ? (wide_t)INT64_MIN : INT32_MIN;
        high = size == 8 ? (wide_t)INT64_MAX : INT32_MAX;
    }
    *step = size == 8 ? (wide_t)(int64_t)f.step : (int32_t)f.step;
    *at = size == 8 ? (sign ? (wide_t)(int64_t)f.at : f.at) : (sign ? (wide_t)(int32_t)f.at : (uint32_t)f.at);
    wide_t end = *at + *step * (n - 1);
    if (end < low) return (int64_t)((*at - low) / -*step) + 1;
    if (end > high) return (int64_t)((high - *at) / *step) + 1;
    return n;
}

/* Whether a value is the same however it is read, signed or not, in n iterations: it turns around in none. */
static inline bool small(struct line f, int size, int64_t n) {
    uint64_t far = size == 8 ? 1ull << 40 : 1ull << 30;
    return f.at < far && f.step + 8192 < 16384 && n < 65536 && (int64_t)(f.at + f.step * (uint64_t)(n - 1)) >= 0;
}

/* For how many of n iterations a difference that rises evenly stays as it is: zero or not, or below zero or not. */
static int64_t alike(int64_t apart, int64_t step, int64_t n, bool equal, bool is) {
    int64_t end = apart + step * (n - 1);
    if (step == 0) return n;
    if (equal) {
        bool crosses = apart < 0 ? end >= 0 : end <= 0;
        return is ? 1 : crosses && apart % step == 0 ? -apart / step : n;
    }
    if ((end < 0) == is) return n;
    return is ? (-apart + step - 1) / step : apart / -step + 1;
}

/* Whether a guard's jump is taken now, and in how many of n iterations that stays so. */
static int64_t holds(const struct row_guard *g, struct line one, struct line two, int64_t n, bool *taken) {
    int test = g->test & ~NOT;
    if (small(one, g->size, n) && small(two, g->size, n)) {
        int64_t apart = (int64_t)(one.at - two.at) - (test == AT_MOST || test == NOT_ABOVE);
        bool is = test == EQUAL ? apart == 0 : apart < 0;
        *taken = is != ((g->test & NOT) != 0);
        return alike(apart, (int64_t)(one.step - two.step), n, test == EQUAL, is);
    }
    bool sign = test != BELOW && test != NOT_ABOVE;
    wide_t left, right, rise, other;
    n = read_as(one, g->size, sign, n, &left, &rise);
    n = read_as(two, g->size, sign, n, &right, &other);
    wide_t apart = left - right, step = rise - other;
    if (test == AT_MOST || test == NOT_ABOVE) apart--;
    bool is = test == EQUAL ? apart == 0 : apart < 0;
    *taken = is != ((g->test & NOT) != 0);
    const wide_t far = (wide_t)1 << 46; /* of what is that far apart only this iteration is said */
    if (apart > far || apart < -far || step > far >> 16 || step < -(far >> 16) || n > 65536) return step == 0 ? n : 1;
    return alike((int64_t)apart, (int64_t)step, n, test == EQUAL, is);
}

/* Which blocks the next iterations come to, and how many of n come to these; 0: not known. *loose: some may come to
 * blocks that others do not; whether that is so is put there. */
int64_t row_ways(const struct row *r, const struct line forms[], int64_t n, bool *loose, uint8_t blocks[]) {
    bool may = *loose;
    *loose = false;
    int farthest = 0; /* a block that no way leads past is always come to */
    memset(blocks, NEVER, (size_t)r->block_count);
    blocks[0] = PERHAPS;
    for (int b = 0; b < r->block_count; b++) {
        if (blocks[b] == NEVER) continue;
        if (farthest <= b) blocks[b] = ALWAYS;
        int fall = r->blocks[b].fall, jump = r->blocks[b].jump;
        if (r->blocks[b].guard >= 0) {
            const struct row_guard *g = &r->guards[r->blocks[b].guard];
            struct line one = form_of(r, forms, g->left), two = form_of(r, forms, g->right);
            bool taken = false, known = !one.turns && !two.turns;
            int64_t alike = known ? holds(g, one, two, n, &taken) : 0;
            if (alike == 0 && !may) return 0;
            if (alike == n || !may) {
                n = alike;
                fall = jump = taken ? jump : fall;
            } else *loose = true;
        }
        if (fall >= 0) blocks[fall] = blocks[jump] = PERHAPS;
        farthest = fall > farthest ? fall : farthest;
        farthest = jump > farthest ? jump : farthest;
    }
    return n;
}

/* How many of n iterations come before the loop is left, with the one that leaves it behind all its places. */
int64_t row_ending(const struct row *r, const struct line forms[], int64_t n, const uint8_t blocks[]) {
    for (const struct row_end *e = r->ends; e < r->ends + r->end_count && n > 0; e++) {
        struct line one = form_of(r, forms, e->guard.left), two = form_of(r, forms, e->guard.right);
        if (blocks[e->block] != ALWAYS || one.turns || two.turns) continue;
        bool taken;
        int64_t alike = holds(&e->guard, one, two, n, &taken);
        if (taken != (e->fall != 0)) alike = 0; /* it leaves at once */
        if (alike < n) n = alike + (e->last != 0);
    }
    return n;
}

/* For how many of n iterations the forms keep to the limits of the blocks that are come to. */
int64_t row_limited(const struct row *r, const struct line forms[], int64_t n, const uint8_t blocks[]) {
    for (const struct row_limit *l = r->limits; l < r->limits + r->limit_count; l++) {
        if (blocks[l->block] == NEVER) continue;
        struct line f = form_of(r, forms, l->form);
        int64_t step = (int64_t)f.step, most = (int64_t)l->most;
        if (f.turns || most >= INT64_MAX / 4 || step > INT32_MAX || step < INT32_MIN || f.at > (uint64_t)most)
            return 0; /* with these numbers nothing turns around at 2^64 */
        int64_t end = (int64_t)f.at + step * (n - 1);
        if (end < 0) n = (int64_t)f.at / -step + 1;
        else if (end > most) n = (most - (int64_t)f.at) / step + 1;
    }
    return n;
}
