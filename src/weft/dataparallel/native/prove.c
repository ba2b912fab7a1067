/* Whether all accesses of a row would pass, and what the row did to their cells.
 *
 * Addresses are linear in the iteration, so a place stays in its site's interval if it is there at the first and at the
 * last one; cells are looked at one after the other. Where a group that writes meets another one, the hooks are to
 * judge.
 */
#include "access.h"
#include "cells.h"
#include "loops.h"
#include "objects.h"
#include "rows.h"

#include <limits.h>

#define ROUND(a) (((a) + 7) & ~(uintptr_t)7)

/* Return for how many of the iterations all places stay in the intervals that their sites (what places in the code may
 * access) allow. */
static int64_t count_iterations_in_intervals(const struct plan *plan, int64_t iteration_count) {
    for (int i = 0; i < plan->range_count; i++) {
        const struct range *one = &plan->ranges[i];
        const struct kin *kin = &plan->kin[one->kin];
        int64_t by = kin->step - (one->home != &weft_nowhere && !plan->one ? weft_moves[one->home - weft_homes] : 0);
        int64_t at = (int64_t)(kin->at - *one->home), to = at + by * (iteration_count - 1);
        if (at < one->low || at > one->high) return 0;
        if (to > one->high) iteration_count = (one->high - at) / by + 1;
        else if (to < one->low) iteration_count = (at - one->low) / -by + 1;
    }
    return iteration_count;
}

/* Return whether two groups (places that access the same addresses) may access the same 8-byte granule within the row.
 * Groups with one step that is wider than a granule can lie between each other. */
static bool may_overlap(const struct plan *plan, const struct group *first, const struct group *second) {
    int64_t by = step_of(plan, first);
    if (first->begin >= ROUND(second->end) || second->begin >= ROUND(first->end)) return false;
    if (by != step_of(plan, second) || by == 0 || first->size != 8 || second->size != 8) return true;
    uintptr_t step = (uintptr_t)(by < 0 ? -by : by), one = low_of(plan, first), two = low_of(plan, second);
    uintptr_t apart = (one > two ? one - two : two - one) % step;
    return apart < 8 || apart > step - 8; /* else one lies between the other's */
}

/* Sort a plan's groups (places that access the same addresses) by their first byte, and keep for each prefix of that
 * order how far it reaches, in all and where it is written. */
static void sort_groups_by_address(struct plan *plan) {
    int *order = plan->order;
    uintptr_t end = 0, written = 0;
    for (struct group *group = plan->groups; group < plan->groups + plan->group_count; group++) {
        group->begin = begin_of(plan, group);
        group->end = end_of(plan, group);
    }
    for (int i = 0; i < plan->group_count; i++) {
        int one = order[i], k = i;
        for (; k > 0 && plan->groups[order[k - 1]].begin > plan->groups[one].begin; k--) order[k] = order[k - 1];
        order[k] = one;
    }
    for (int i = 0; i < plan->group_count; i++) {
        const struct group *group = &plan->groups[order[i]];
        uintptr_t to = ROUND(group->end);
        plan->ends[i] = end = to > end ? to : end;
        plan->written[i] = written = group->first_write != INT_MAX && to > written ? to : written;
    }
}

/* Return whether an earlier proof that groups (places that access the same addresses) do not overlap still holds: the
 * kin move as they did, and no cluster that is written overlaps one of another kin. */
static bool is_known_not_to_overlap(const struct plan *plan, int64_t iteration_count) {
    if (iteration_count > plan->apart || plan->cluster_count < 0) return false;
    for (int i = 0; i < plan->kin_count; i++)
        if (plan->kin[i].step != plan->kin[i].apart_step) return false;
    for (int i = 0; i < plan->cluster_count; i++) {
        const struct cluster *a = &plan->clusters[i];
        const struct kin *kin = &plan->kin[a->kin];
        if (a->written_low == a->written_high) continue;
        uintptr_t from = (kin->at + (uintptr_t)(a->written_low + kin->below)) & ~(uintptr_t)7;
        uintptr_t to = ROUND(kin->at + (uintptr_t)(a->written_high + kin->above));
        for (int j = 0; j < plan->cluster_count; j++) {
            const struct cluster *b = &plan->clusters[j];
            const struct kin *other = &plan->kin[b->kin];
            if (b->kin != a->kin && other->at + (uintptr_t)(b->low + other->below) < to &&
                other->at + (uintptr_t)(b->high + other->above) > from)
                return false;
        }
    }
    return true;
}

/* Return whether no group (places that access the same addresses) that is written overlaps another group, or memory
 * that a guard reads. */
static bool are_writes_without_overlap(struct plan *plan, int64_t iteration_count) {
    for (int i = 0; i < plan->writer_count; i++)
        for (int m = 0; m < plan->memory_count; m++) {
            const struct row_memory *one = plan->memories[m];
            const struct group *group = &plan->groups[plan->writers[i].group];
            if (begin_of(plan, group) < one->address + (uintptr_t)one->size && one->address < end_of(plan, group))
                return false;
        }
    if (plan->writer_count == 0 || (plan->one && plan->alike) || is_known_not_to_overlap(plan, iteration_count))
        return true;
    sort_groups_by_address(plan);
    for (int i = 1; i < plan->group_count; i++) {
        const struct group *a = &plan->groups[plan->order[i]];
        const uintptr_t *ends = a->first_write == INT_MAX ? plan->written : plan->ends;
        for (int k = i - 1; k >= 0 && ends[k] > a->begin; k--) {
            const struct group *b = &plan->groups[plan->order[k]];
            if (a->first_write == INT_MAX && b->first_write == INT_MAX) continue;
            if (!(plan->one && a->size == b->size) && may_overlap(plan, a, b)) return false;
        }
    }
    plan->apart = iteration_count;
    for (int i = 0; i < plan->kin_count; i++) plan->kin[i].apart_step = plan->kin[i].step;
    return true;
}

/* The cells of a group: those of its own size. */
static inline struct cell *first_cell_of_group(const struct plan *plan, const struct group *group) {
    return group->size == 8 ? cell8(low_of(plan, group)) : cell4(low_of(plan, group));
}
static int64_t stride_of(const struct plan *plan, const struct group *group) {
    return group->size == 8 ? step_of(plan, group) : 2 * step_of(plan, group);
}

/* Return 1 if all granules that a group (places that access the same addresses) accesses are split into cells of 4
 * bytes, 0 if none is, -1 if only some are. */
static int find_granule_split(const struct plan *plan, const struct group *group, int64_t iteration_count) {
    uintptr_t low = low_of(plan, group);
    int64_t step = step_of(plan, group);
    bool first = cell8(low)->written == SPLIT;
    for (int64_t i = 1; i < iteration_count && step; i++)
        if ((cell8(low + (uintptr_t)(i * step))->written == SPLIT) != first) return -1;
    return first;
}

/* This iteration's own stamp is right in a loop within it. */
static stamp_t extra_allowed_stamp(const struct plan *plan, const struct demand *demand) {
    return plan->one ? now.cur : demand->least;
}

/* Return whether the shadow cells that a demand of a plan is about hold only stamps that it allows, so that no access
 * of the row can be a fault there: those of its group (places that access the same addresses), or of `tile`
 * neighbouring groups. */
static bool do_cells_meet_demand(const struct plan *plan, const struct demand *demand, int64_t iteration_count,
                                 int tile) {
    const struct group *group = &plan->groups[demand->group];
    int how = group->size == 4 ? find_granule_split(plan, group, iteration_count) : 1;
    if (how < 0 || (how == 0 && group->halves)) return false;
    int64_t step = step_of(plan, group);
    if (step == 0) iteration_count = 1;
    const struct cell *cell = how ? first_cell_of_group(plan, group) : cell8(low_of(plan, group));
    if (how == 0 && step % 8 != 0) { /* a granule stands for two of them */
        for (int64_t i = 0; i < iteration_count; i++)
            if (!is_every_word_allowed(&cell8(low_of(plan, group) + (uintptr_t)(i * step))->written, 8, 1, 1,
                                       demand->least, demand->limit, extra_allowed_stamp(plan, demand)))
                return false;
        return true;
    }
    int64_t stride = how ? stride_of(plan, group) : step;
    return is_every_word_allowed(demand->read ? &cell->read : &cell->written, stride, iteration_count, tile,
                                 demand->least, demand->limit, extra_allowed_stamp(plan, demand));
}

/* Return whether all shadow cells from the first to the last group of a chain of `demand->chain` demands hold only
 * stamps that these allow. Also false where these are many more cells than the demands are about. */
static bool do_cells_meet_chain(const struct plan *plan, const struct demand *demand, int64_t iteration_count) {
    uintptr_t from = begin_of(plan, &plan->groups[demand->group]),
              to = end_of(plan, &plan->groups[demand[demand->chain - 1].group]);
    int64_t count = (int64_t)((to - from) / 8);
    if (count > 2 * iteration_count * demand->chain || ((from ^ to) & ~(uintptr_t)FOLD)) return false;
    const struct cell *cell = cell8(from);
    return is_every_word_allowed(demand->read ? &cell->read : &cell->written, 8, count, 1, demand->least, demand->limit,
                                 extra_allowed_stamp(plan, demand));
}

/* Return whether the shadow cells of all groups (places that access the same addresses) hold only stamps that the
 * demands of the plan allow. */
static bool do_cells_meet_all_demands(const struct plan *plan, int64_t iteration_count) {
    for (int i = 0; i < plan->demand_count; i += plan->demands[i].chain) {
        const struct demand *demand = &plan->demands[i];
        if (demand->chain > 1 && do_cells_meet_chain(plan, demand, iteration_count)) continue;
        for (int k = 0; k < demand->chain;) {
            if (!do_cells_meet_demand(plan, demand + k, iteration_count, demand[k].tile)) return false;
            k += demand[k].tile;
        }
    }
    return true;
}

/* Give the row a plan (what its accesses require of the shadow cells) that fits and whose writes overlap nothing: the
 * last one, or a new one. Returns as make_plan_of_row does. */
static enum verdict find_or_make_plan(struct row *row, const struct line forms[], const uint8_t blocks[],
                                      int64_t iteration_count) {
    bool known = select_current_plan(row, blocks) && fit_plan_to_row(row, row->plan, forms, iteration_count);
    if (known && are_writes_without_overlap(row->plan, iteration_count)) return PASSED;
    row->plan->grouped &= !known; /* groups may have become one */
    enum verdict made = make_plan_of_row(row, forms, blocks, iteration_count);
    if (made != PASSED || are_writes_without_overlap(row->plan, iteration_count)) return made;
    row->plan->grouped = false; /* of the last loop they were several */
    made = make_plan_of_row(row, forms, blocks, iteration_count);
    return made == PASSED && !are_writes_without_overlap(row->plan, iteration_count) ? REFUSED : made;
}

/* Prove that all accesses of the iterations are right without hooks. *iteration_count becomes less where places leave
 * their sites' intervals before. Returns PASSED; UNOPENED if sites must be opened first; REFUSED if hooks must judge
 * the row. */
enum verdict prove_row(struct row *row, const struct line forms[], const uint8_t blocks[], int64_t *iteration_count) {
    enum verdict made = find_or_make_plan(row, forms, blocks, *iteration_count);
    if (made != PASSED) return made;
    int64_t sure = count_iterations_in_intervals(row->plan, *iteration_count);
    if (sure < *iteration_count) {
        if (!is_row_worth_proof(row, sure) || !locate_groups_in_row(row->plan, forms, sure))
            return sure ? REFUSED : UNOPENED; /* the hooks of this iteration open them anew */
        *iteration_count = sure;
    }
    return do_cells_meet_all_demands(row->plan, *iteration_count) ? PASSED : REFUSED;
}

/* --- what a row did --- */

/* Note the reads of a group (places that access the same addresses), or of `tile_width` neighbouring groups, in the
 * shadow cells: `count` iterations after the first `skipped`, with stamps from `first_stamp` on. */
static void stamp_reads(const struct plan *plan, const struct group *group, int64_t skipped, stamp_t first_stamp,
                        int64_t count, int tile_width) {
    int64_t stride = stride_of(plan, group);
    char *cells = (char *)first_cell_of_group(plan, group) + stride * skipped;
    if (count > 0) set_read_stamps(cells, stride ? stride : 8, stride ? count : 1, tile_width, first_stamp, !plan->one);
}

/* Stamp the writes of a group (places that access the same addresses), or of `tile_width` neighbouring groups, in the
 * shadow cells: `count` iterations after the first `skipped`, with stamps from `first_stamp` on. */
static void stamp_writes(const struct plan *plan, const struct group *group, int64_t skipped, stamp_t first_stamp,
                         int64_t count, int tile_width) {
    stamp_t rise = !plan->one;
    int64_t stride = stride_of(plan, group);
    char *cells = (char *)first_cell_of_group(plan, group) + stride * skipped;
    if (count > 0 && stride) set_written_stamps(cells, stride, count, tile_width, first_stamp, rise);
    else if (count > 0) set_written_stamps(cells, 8, 1, tile_width, first_stamp + rise * (stamp_t)(count - 1), 0);
}

/* Stamp in the shadow cells what a row did: `full_iterations` whole iterations, with stamps from `first_stamp` on, and
 * the first `places_of_last` places of one more. */
void stamp_row_accesses(const struct plan *plan, stamp_t first_stamp, int64_t full_iterations, int places_of_last) {
    if (plan->last < places_of_last) /* the whole of one more */
        full_iterations++, places_of_last = 0;
    stamp_t last = first_stamp + (plan->one ? 0 : (stamp_t)full_iterations);
    for (const struct counted *w = plan->wrong; w < plan->wrong + plan->wrong_count; w++)
        *w->count += (uint64_t)full_iterations + (w->number < places_of_last);
    for (int i = 0, tile; i < plan->tracker_count; i += tile) {
        tile = plan->trackers[i].tile;
        stamp_reads(plan, &plan->groups[plan->trackers[i].group], 0, first_stamp, full_iterations, tile);
    }
    for (int i = 0; places_of_last > 0 && i < plan->tracker_count; i++)
        if (plan->groups[plan->trackers[i].group].first_track < places_of_last)
            stamp_reads(plan, &plan->groups[plan->trackers[i].group], full_iterations, last, 1, 1);
    for (int i = 0, tile; i < plan->writer_count; i += tile) {
        tile = plan->writers[i].tile;
        stamp_writes(plan, &plan->groups[plan->writers[i].group], 0, first_stamp, full_iterations, tile);
    }
    for (int i = 0; places_of_last > 0 && i < plan->writer_count; i++)
        if (plan->groups[plan->writers[i].group].first_write < places_of_last)
            stamp_writes(plan, &plan->groups[plan->writers[i].group], full_iterations, last, 1, 1);
}
