/* What a row's forms are worth, which blocks its iterations come to, and for how many of them that stays so. */
#include "rows.h"

#include <string.h>

__extension__ typedef __int128 wide_t; /* sums and differences of any two values */

/* Add to a form's value a 32-bit part that is sign- or zero-extended, times its factor. Notes in `turns` where the part
 * wraps around within the iterations, since it does not rise evenly then. */
static void add_extended_term(struct line *sum, const struct row_term *term, struct line value,
                              int64_t iteration_count) {
    bool sign = (term->kind & ~STEP_IS_FORM) == SIGNED;
    int64_t from = sign ? (int64_t)(int32_t)value.at : (int64_t)(uint32_t)value.at;
    if ((int32_t)value.step == 0 && !value.turns) {
        sum->at += (uint64_t)from * (uint64_t)term->factor;
        return;
    }
    int64_t rise = (int32_t)value.step, to = from + rise * iteration_count;
    sum->turns |= value.turns || (sign ? to != (int32_t)to : to != (int64_t)(uint32_t)to);
    sum->at += (uint64_t)from * (uint64_t)term->factor;
    sum->step += (uint64_t)rise * (uint64_t)term->factor;
}

/* Return the 8- or 4-byte value that memory holds; 0 for a null address, which an undefined weak symbol has. */
static uint64_t read_memory(int64_t address, int width_kind) {
    if ((uint64_t)address < 4096) return 0;
    return width_kind == MEMORY8 ? *(const uint64_t *)address : *(const uint32_t *)address;
}

/* Add one term of a form (a linear expression of the loop's assembly) to its value and step: a register, a stack slot,
 * memory, or another form. `saved_registers`: the frame pointer first. */
static void add_term(const struct row *row, struct line *sum, const struct row_term *term, const struct line forms[],
                     const uint64_t saved_registers[], int64_t iteration_count) {
    const char *frame = (const char *)saved_registers[0];
    if (term->kind == SIGNED || term->kind == ZEROED) {
        add_extended_term(sum, term, compute_form_value(row, forms, term->which), iteration_count);
        return;
    }
    uint64_t at = 1, step = term->kind & STEP_IS_FORM ? compute_form_value(row, forms, (int)term->step).at
                                                      : (uint64_t)term->step;
    switch (term->kind & ~STEP_IS_FORM) {
    case NUMBER: break;
    case REGISTER: at = *(const uint64_t *)((const char *)saved_registers + term->which); break;
    case SLOT8: at = *(const uint64_t *)(frame + term->which); break;
    case SLOT4: at = *(const uint32_t *)(frame + term->which); break;
    case MEMORY8:
    case MEMORY4:
        at = read_memory(term->step, term->kind);
        step = 0;
        break;
    default: add_extended_term(sum, term, compute_form_value(row, forms, term->which), iteration_count); return;
    }
    sum->at += at * (uint64_t)term->factor;
    sum->step += step * (uint64_t)term->factor;
}

/* Compute for each form (a linear expression of the loop's assembly) its value at the first of the iterations and by
 * what it rises. Forms that are shifts of others are left out. `saved_registers`: the frame pointer comes first. */
void evaluate_row_forms(const struct row *row, const uint64_t saved_registers[], int64_t iteration_count,
                        struct line forms[]) {
    static const uint64_t unit = 1;
    const char *frame = (const char *)saved_registers[0];
    const char *const bases[] = {(const char *)&unit, (const char *)saved_registers, frame};
    const struct row_term *t = row->terms;
    for (int i = 0; i < row->own_count; i++) {
        uint64_t at = 0, step = 0;
        const struct row_term *end = row->terms + row->starts[i + 1];
        for (; t < end && t->kind <= SLOT8; t++) {
            at += *(const uint64_t *)(bases[t->kind] + t->which) * (uint64_t)t->factor;
            step += (uint64_t)t->step * (uint64_t)t->factor;
        }
        forms[i] = (struct line){at, step, false};
        for (; t < end; t++) add_term(row, &forms[i], t, forms, saved_registers, iteration_count);
    }
}

/* Read a form's value as a guard's comparison does: with its size and sign. Sets *at and *step; returns for how many
 * iterations it rises evenly before it wraps around. */
static int64_t read_guard_value(struct line value, int byte_count, bool is_signed, int64_t iteration_count, wide_t *at,
                                wide_t *step) {
    wide_t low = 0, high = byte_count == 8 ? (wide_t)UINT64_MAX : UINT32_MAX;
    if (is_signed) {
        low = byte_count == 8 ? (wide_t)INT64_MIN : INT32_MIN;
        high = byte_count == 8 ? (wide_t)INT64_MAX : INT32_MAX;
    }
    *step = byte_count == 8 ? (wide_t)(int64_t)value.step : (int32_t)value.step;
    *at = byte_count == 8 ? (is_signed ? (wide_t)(int64_t)value.at : value.at)
                          : (is_signed ? (wide_t)(int32_t)value.at : (uint32_t)value.at);
    wide_t end = *at + *step * (iteration_count - 1);
    if (end < low) return (int64_t)((*at - low) / -*step) + 1;
    if (end > high) return (int64_t)((high - *at) / *step) + 1;
    return iteration_count;
}

/* Return whether a value is the same read as signed or unsigned in all iterations, so that narrow arithmetic is
 * exact. */
static inline bool is_small_value(struct line value, int byte_count, int64_t iteration_count) {
    uint64_t far = byte_count == 8 ? 1ull << 40 : 1ull << 30;
    return value.at < far && value.step + 8192 < 16384 && iteration_count < 65536 &&
           (int64_t)(value.at + value.step * (uint64_t)(iteration_count - 1)) >= 0;
}

/* Return for how many iterations a linear difference stays as it is: zero or not (`tests_equality`), else below zero or
 * not. `is_true`: what it is in the first one. */
static int64_t count_iterations_of_same_sign(int64_t difference, int64_t step, int64_t iteration_count,
                                             bool tests_equality, bool is_true) {
    int64_t end = difference + step * (iteration_count - 1);
    if (step == 0) return iteration_count;
    if (tests_equality) {
        bool crosses = difference < 0 ? end >= 0 : end <= 0;
        return is_true ? 1 : crosses && difference % step == 0 ? -difference / step : iteration_count;
    }
    if ((end < 0) == is_true) return iteration_count;
    return is_true ? (-difference + step - 1) / step : difference / -step + 1;
}

/* Evaluate a guard (a comparison with its conditional jump) at the first iteration: *taken says whether it jumps.
 * Return in how many iterations that stays so. */
static int64_t evaluate_guard(const struct row_guard *guard, struct line left_value, struct line right_value,
                              int64_t iteration_count, bool *taken) {
    int test = guard->test & ~NOT;
    if (is_small_value(left_value, guard->size, iteration_count) &&
        is_small_value(right_value, guard->size, iteration_count)) {
        int64_t apart = (int64_t)(left_value.at - right_value.at) - (test == AT_MOST || test == NOT_ABOVE);
        bool is = test == EQUAL ? apart == 0 : apart < 0;
        *taken = is != ((guard->test & NOT) != 0);
        return count_iterations_of_same_sign(apart, (int64_t)(left_value.step - right_value.step), iteration_count,
                                             test == EQUAL, is);
    }
    bool sign = test != BELOW && test != NOT_ABOVE;
    wide_t left, right, rise, other;
    iteration_count = read_guard_value(left_value, guard->size, sign, iteration_count, &left, &rise);
    iteration_count = read_guard_value(right_value, guard->size, sign, iteration_count, &right, &other);
    wide_t apart = left - right, step = rise - other;
    if (test == AT_MOST || test == NOT_ABOVE) apart--;
    bool is = test == EQUAL ? apart == 0 : apart < 0;
    *taken = is != ((guard->test & NOT) != 0);
    const wide_t far = (wide_t)1 << 46; /* of what is that far apart only this iteration is said */
    if (apart > far || apart < -far || step > far >> 16 || step < -(far >> 16) || iteration_count > 65536)
        return step == 0 ? iteration_count : 1;
    return count_iterations_of_same_sign((int64_t)apart, (int64_t)step, iteration_count, test == EQUAL, is);
}

/* Find which basic blocks the next iterations run: NEVER, PERHAPS or ALWAYS in blocks[]. Return how many iterations run
 * the same ones; 0: not known. *may_differ: whether blocks that only some iterations run are acceptable; on return,
 * whether there are such blocks. */
int64_t find_blocks_of_iterations(const struct row *row, const struct line forms[], int64_t iteration_count,
                                  bool *may_differ, uint8_t blocks[]) {
    bool may = *may_differ;
    *may_differ = false;
    int farthest = 0; /* a block that no way leads past is always come to */
    memset(blocks, NEVER, (size_t)row->block_count);
    blocks[0] = PERHAPS;
    for (int b = 0; b < row->block_count; b++) {
        if (blocks[b] == NEVER) continue;
        if (farthest <= b) blocks[b] = ALWAYS;
        int fall = row->blocks[b].fall, jump = row->blocks[b].jump;
        if (row->blocks[b].guard >= 0) {
            const struct row_guard *guard = &row->guards[row->blocks[b].guard];
            struct line one = compute_form_value(row, forms, guard->left),
                        two = compute_form_value(row, forms, guard->right);
            bool taken = false, known = !one.turns && !two.turns;
            int64_t alike = known ? evaluate_guard(guard, one, two, iteration_count, &taken) : 0;
            if (alike == 0 && !may) return 0;
            if (alike == iteration_count || !may) {
                iteration_count = alike;
                fall = jump = taken ? jump : fall;
            } else *may_differ = true;
        }
        if (fall >= 0) blocks[fall] = blocks[jump] = PERHAPS;
        farthest = fall > farthest ? fall : farthest;
        farthest = jump > farthest ? jump : farthest;
    }
    return iteration_count;
}

/* Return how many of the iterations run before the loop exits, with the one that exits if none of its accesses comes
 * behind the exit. */
int64_t count_iterations_until_exit(const struct row *row, const struct line forms[], int64_t iteration_count,
                                    const uint8_t blocks[]) {
    for (const struct row_end *end_branch = row->ends; end_branch < row->ends + row->end_count && iteration_count > 0;
         end_branch++) {
        struct line one = compute_form_value(row, forms, end_branch->guard.left),
                    two = compute_form_value(row, forms, end_branch->guard.right);
        if (blocks[end_branch->block] != ALWAYS || one.turns || two.turns) continue;
        bool taken;
        int64_t alike = evaluate_guard(&end_branch->guard, one, two, iteration_count, &taken);
        if (taken != (end_branch->fall != 0)) alike = 0; /* it leaves at once */
        if (alike < iteration_count) iteration_count = alike + (end_branch->last != 0);
    }
    return iteration_count;
}

/* Return for how many iterations the forms (linear expressions of the loop's assembly) stay within the limits of the
 * blocks that are run, so that no address wraps around. */
int64_t count_iterations_within_limits(const struct row *row, const struct line forms[], int64_t iteration_count,
                                       const uint8_t blocks[]) {
    for (const struct row_limit *limit = row->limits; limit < row->limits + row->limit_count; limit++) {
        if (blocks[limit->block] == NEVER) continue;
        struct line f = compute_form_value(row, forms, limit->form);
        int64_t step = (int64_t)f.step, most = (int64_t)limit->most;
        if (f.turns || most >= INT64_MAX / 4 || step > INT32_MAX || step < INT32_MIN || f.at > (uint64_t)most)
            return 0; /* with these numbers nothing turns around at 2^64 */
        int64_t end = (int64_t)f.at + step * (iteration_count - 1);
        if (end < 0) iteration_count = (int64_t)f.at / -step + 1;
        else if (end > most) iteration_count = (most - (int64_t)f.at) / step + 1;
    }
    return iteration_count;
}
