/* What a row of iterations touches, and what is to be asked of it.
 *
 * Places with the same addresses are a group, which passes if its cells hold what all its places accept. Which groups
 * there are, and what is asked of them, changes only when a site does, or other blocks are come to: a plan mostly is
 * good for the next row, too.
 */
#include "growing.h"
#include "access.h"
#include "cells.h"
#include "loops.h"
#include "objects.h"
#include "owned.h"
#include "rows.h"
#include "sites.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PLANS 32
#define HASH_SLOTS 2048

/* Return an empty plan for a row of iterations: it will hold which places access the same addresses, and what their
 * shadow cells must hold. */
static struct plan *allocate_plan(const struct row *row) {
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) abort();
    plan->group_of = calloc((size_t)row->place_count, sizeof *plan->group_of);
    plan->memories = calloc((size_t)row->memory_count + 1, sizeof *plan->memories);
    if (!plan->group_of || !plan->memories) abort();
    plan->one = row->rank <= 0;
    return plan;
}

/* Add a group (places that access the same addresses) to a plan, with room for it in all of the plan's lists, and
 * return it. */
static struct group *add_group_to_plan(struct plan *plan) {
    size_t room = plan->group_room;
    GROW(plan->groups, (size_t)plan->group_count, plan->group_room, 8);
    if (room < plan->group_room) {
        size_t count = plan->group_room;
        plan->writers = realloc(plan->writers, count * sizeof *plan->writers);
        plan->trackers = realloc(plan->trackers, count * sizeof *plan->trackers);
        plan->order = realloc(plan->order, count * sizeof *plan->order);
        plan->ends = realloc(plan->ends, count * sizeof *plan->ends);
        plan->written = realloc(plan->written, count * sizeof *plan->written);
        if (!plan->writers || !plan->trackers || !plan->order || !plan->ends || !plan->written) abort();
    }
    return &plan->groups[plan->group_count++];
}

/* Return the number of the kin (groups whose addresses differ by a constant) that a form belongs to; a new one if need
 * be. -1: there are too many. */
static int find_or_add_kin(struct plan *plan, const struct row *row, const struct line forms[], int form) {
    if (form >= row->own_count) form = row->terms[row->starts[form]].which;
    int last = plan->group_count ? plan->groups[plan->group_count - 1].kin : 0; /* mostly the same again */
    for (int i = last, more = plan->kin_count; more > 0; i = i ? i - 1 : plan->kin_count - 1, more--)
        if (plan->kin[i].form == form) return i;
    if (plan->kin_count == MOST_KIN) return -1;
    GROW(plan->kin, (size_t)plan->kin_count, plan->kin_room, 8);
    plan->kin[plan->kin_count] = (struct kin){.form = form,
                                              .at = forms[form].at,
                                              .step = (int64_t)forms[form].step,
                                              .first = INT64_MAX,
                                              .last = INT64_MIN,
                                              .ranges = -1,
                                              .cluster = -1};
    return plan->kin_count++;
}

/* Return the number of the group of all places that access the same addresses with the same size in each iteration; a
 * new one if need be. -1: there are too many. */
static int find_or_add_group(struct plan *plan, const struct row *row, const struct line forms[], int address_form,
                             unsigned access_size) {
    const struct line value = compute_form_value(row, forms, address_form), *a = &value;
    static struct {
        uint32_t epoch;
        int32_t group;
    } slots[HASH_SLOTS];
    static uint32_t epoch;
    if (plan->group_count == 0 && ++epoch == 0) { /* what is left of the first time is not to be taken for this one's */
        memset(slots, 0, sizeof slots);
        epoch = 1;
    }
    uint64_t key = (a->at ^ a->step * 0x9E3779B97F4A7C15u ^ access_size) * 0x9E3779B97F4A7C15u;
    unsigned slot = (unsigned)(key >> 40) % HASH_SLOTS;
    for (; slots[slot].epoch == epoch; slot = (slot + 1) % HASH_SLOTS) {
        const struct group *g = &plan->groups[slots[slot].group];
        if (low_of(plan, g) != a->at || step_of(plan, g) != (int64_t)a->step || g->size != access_size) continue;
        if (g->form != address_form &&
            (plan->same_count == 0 || plan->sames[plan->same_count - 1].form != address_form)) {
            GROW(plan->sames, (size_t)plan->same_count, plan->same_room, 8);
            plan->sames[plan->same_count++] = (struct same){address_form, slots[slot].group};
        }
        return slots[slot].group;
    }
    int kin = find_or_add_kin(plan, row, forms, address_form);
    if (plan->group_count == MOST_GROUPS || kin < 0) return -1;
    struct kin *k = &plan->kin[kin];
    int64_t shift = (int64_t)(a->at - k->at);
    k->first = shift < k->first ? shift : k->first;
    k->last = shift + (int64_t)access_size > k->last ? shift + (int64_t)access_size : k->last;
    slots[slot].epoch = epoch;
    slots[slot].group = plan->group_count;
    *add_group_to_plan(plan) = (struct group){.shift = shift,
                                              .form = address_form,
                                              .kin = kin,
                                              .size = access_size,
                                              .first_write = INT_MAX,
                                              .first_track = INT_MAX,
                                              .demands = -1};
    return plan->group_count - 1;
}

/* Note that a group must stay in a site's interval, relative to `home`. Intervals with the same home are joined to one
 * for the whole kin (groups at fixed distances). */
static void restrict_kin_to_interval(struct plan *plan, int group_index, const uintptr_t *home, uintptr_t low_offset,
                                     uintptr_t length) {
    struct kin *kin = &plan->kin[plan->groups[group_index].kin];
    int64_t low = (int64_t)low_offset - plan->groups[group_index].shift, high = INT64_MAX;
    if (length > INTPTR_MAX) high = low - 1;
    else if (low <= INT64_MAX - (int64_t)length) high = low + (int64_t)length;
    for (int i = kin->ranges; i >= 0; i = plan->ranges[i].next) {
        struct range *one = &plan->ranges[i];
        if (one->home != home) continue;
        one->low = low > one->low ? low : one->low;
        one->high = high < one->high ? high : one->high;
        return;
    }
    GROW(plan->ranges, (size_t)plan->range_count, plan->range_room, 8);
    plan->ranges[plan->range_count] = (struct range){home, low, high, plan->groups[group_index].kin, kin->ranges};
    kin->ranges = plan->range_count++;
}

/* Return whether the interval inner_lowest..inner_lowest+inner_span lies within the outer one. */
static bool is_interval_within(stamp_t inner_lowest, stamp_t inner_span, stamp_t outer_lowest, stamp_t outer_span) {
    return inner_lowest - outer_lowest <= outer_span && inner_span <= outer_span - (inner_lowest - outer_lowest);
}

/* Demand that one word (the last write or the first read) of all cells of a group (places that access the same
 * addresses) lies in lowest..lowest+span. A demand that contains another one is dropped. */
static void add_demand_of_stamps(struct plan *plan, int group_index, bool of_read_word, stamp_t lowest, stamp_t span) {
    struct group *group = &plan->groups[group_index];
    for (int i = group->demands; i >= 0; i = plan->demands[i].next) {
        struct demand *demand = &plan->demands[i];
        if (demand->read != of_read_word) continue;
        if (is_interval_within(lowest, span, demand->least, demand->limit)) {
            demand->least = lowest;
            demand->limit = span;
        }
        if (is_interval_within(demand->least, demand->limit, lowest, span)) return;
    }
    GROW(plan->demands, (size_t)plan->demand_count, plan->demand_room, 8);
    plan->demands[plan->demand_count] =
        (struct demand){lowest, span, of_read_word, group_index, group->demands, 1, 1, plan->demand_count};
    group->demands = plan->demand_count++;
}

/* What a plan's demands hang on: in sequential parts they ask for no stamp of this construct. */
static stamp_t demand_base_stamp(void) { return weft_construct.started ? now.base : 1; }

/* Return whether reads at a place have a fault that was reported already and need only be counted, as the hooks do. */
static bool is_known_fault(const struct row_place *place) {
    const struct site *site = place->site;
    return site->wrong && !place->write && site->known == weft_sites_forgotten && site->context == weft_context &&
           site->size == place->size;
}

/* Plan to only count the reads of a place, since each has a fault that was reported already. */
static void plan_fault_counting(struct plan *plan, int group_index, const struct row_place *place, int place_number) {
    if (plan->groups[group_index].first_write == INT_MAX)
        add_demand_of_stamps(plan, group_index, false, 0, weft_construct.started ? now.base : SPLIT - 1);
    GROW(plan->wrong, (size_t)plan->wrong_count, plan->wrong_room, 8);
    plan->wrong[plan->wrong_count++] = (struct counted){place->site->wrong, place_number};
    plan->last = place_number;
}

/* Plan the reads of a place: demand what its site accepts of the cells. Return false if the hooks must judge them. */
static bool plan_read(struct plan *plan, int group_index, const struct row_place *place, int place_number,
                      bool in_every_iteration) {
    const struct site *site = place->site;
    struct group *group = &plan->groups[group_index];
    if (group->first_write != INT_MAX) /* what this iteration wrote */
        return true;
    stamp_t least = site->least, limit = site->limit;
    if (site->mode == FREE) { /* judge_access() lets pass what the hooks do not */
        least = REDZONE + 1;
        limit = UINT32_MAX - (REDZONE + 1 - SPLIT);
    } else if (site->track) {
        if (!in_every_iteration || site->size != place->size || site->known < site->since) return false;
        least = site->since;
        limit = site->known - site->since;
        group->halves |= group->size == 4;
        if (group->first_track == INT_MAX) group->first_track = plan->last = place_number;
    }
    add_demand_of_stamps(plan, group_index, false, least, limit);
    return true;
}

/* Return whether all iterations may access one element that each of them writes: the site and the demands (what shadow
 * cells must hold) accept the last iteration's write. */
static bool allows_repeated_access(const struct plan *plan, const struct group *group, const struct site *site) {
    const stamp_t stamps[] = {now.cur, LAST_STAMP};
    for (int k = 0; k < 2; k++) {
        if (stamps[k] - site->floor < site->span) return false;
        for (int i = group->demands; i >= 0; i = plan->demands[i].next)
            if (stamps[k] - plan->demands[i].least > plan->demands[i].limit) return false;
    }
    return true;
}

/* Plan the writes of a place: demand what its site accepts of the cells, and note that they get stamps. Return false if
 * the hooks must judge them. */
static bool plan_write(struct plan *plan, int group_index, const struct row_place *place, int place_number,
                       bool in_every_iteration) {
    const struct site *site = place->site;
    struct group *group = &plan->groups[group_index];
    if (group->first_write != INT_MAX) return true;
    if (!in_every_iteration || (site->track && (site->track != 1 || site->size != place->size)) ||
        (!site->track && site->span == 0))
        return false;
    if (step_of(plan, group) == 0 && !plan->one && (site->track || !allows_repeated_access(plan, group, site)))
        return false;
    group->halves |= group->size == 4;
    if (site->track) {
        add_demand_of_stamps(plan, group_index, false, NO_VALUE, now.base - NO_VALUE);
        add_demand_of_stamps(plan, group_index, true, 0, now.base);
    } else {
        add_demand_of_stamps(plan, group_index, false, site->floor + site->span, UINT32_MAX - site->span);
    }
    group->first_write = plan->last = place_number;
    plan->writers[plan->writer_count++] = (struct touched){group_index, 1};
    return true;
}

static const struct plan *sorted; /* qsort's */

/* Comparison for qsort: demands (what shadow cells must hold) that ask the same of neighbouring cells come one after
 * another. */
static int compare_demands_by_cells(const void *one, const void *two) {
    const struct demand *a = one, *b = two;
    const struct group *group = &sorted->groups[a->group], *h = &sorted->groups[b->group];
#define FIRST(x, y)                                                                                                    \
    if ((x) != (y)) return (x) < (y) ? -1 : 1;
    FIRST(a->read, b->read)
    FIRST(a->least, b->least)
    FIRST(a->limit, b->limit)
    FIRST(group->size, h->size)
    FIRST(group->kin, h->kin)
    FIRST(group->shift, h->shift)
    return 0;
}

static bool is_left_neighbour(const struct group *left, const struct group *right) {
    return left->size == 8 && right->size == 8 && left->kin == right->kin && left->shift + 8 == right->shift;
}

/* Sort a plan's demands (what shadow cells must hold) by the cells they are about. The order of the last time is tried
 * first, since it mostly fits. */
static void sort_demands(struct plan *plan) {
    static struct demand *unsorted; /* of the plan that is made now */
    static size_t unsorted_room;
    size_t count = (size_t)plan->demand_count;
    bool known = plan->sorted_count == plan->demand_count;
    if (count == 0) return;
    sorted = plan;
    if (unsorted_room < count) {
        free(unsorted);
        unsorted = malloc((unsorted_room = 2 * count) * sizeof *unsorted);
        if (!unsorted) abort();
    }
    if (known) memcpy(unsorted, plan->demands, count * sizeof *plan->demands);
    for (size_t i = 0; known && i < count; i++) plan->demands[i] = unsorted[plan->sorted[i]];
    for (size_t i = 1; known && i < count; i++)
        known = compare_demands_by_cells(&plan->demands[i - 1], &plan->demands[i]) <= 0;
    if (known) return;
    qsort(plan->demands, count, sizeof *plan->demands, compare_demands_by_cells);
    if (plan->sorted_room < count) {
        plan->sorted = realloc(plan->sorted, count * sizeof *plan->sorted);
        if (!plan->sorted) abort();
        plan->sorted_room = count;
    }
    for (size_t i = 0; i < count; i++) plan->sorted[i] = plan->demands[i].made;
    plan->sorted_count = plan->demand_count;
}

/* Join demands (what shadow cells must hold) that ask the same of cells that lie together: `chain` and `tile` of the
 * first say how many follow. */
static void join_demands_to_chains(struct plan *plan) {
    sort_demands(plan);
    struct demand *first = NULL, *tile = NULL;
    uintptr_t to = 0;
    for (struct demand *demand = plan->demands; demand < plan->demands + plan->demand_count; demand++) {
        const struct group *group = &plan->groups[demand->group],
                           *h = &plan->groups[demand[-(demand > plan->demands)].group];
        if (first && group->size == 8 && h->size == 8 && group->kin == h->kin && begin_of(plan, group) <= to &&
            demand->read == first->read && demand->least == first->least && demand->limit == first->limit) {
            first->chain++;
            demand->chain = 0;
        } else {
            first = tile = demand;
            to = 0;
        }
        if (tile != demand && is_left_neighbour(h, group)) {
            tile->tile++;
            demand->tile = 0;
        } else tile = demand;
        to = end_of(plan, group) > to ? end_of(plan, group) : to;
    }
}

/* Comparison for qsort: groups (places with the same addresses) that get stamps, by their size, kin and address. */
static int compare_groups_by_address(const void *one, const void *two) {
    const struct group *group = &sorted->groups[((const struct touched *)one)->group];
    const struct group *h = &sorted->groups[((const struct touched *)two)->group];
    FIRST(group->size, h->size)
    FIRST(group->kin, h->kin)
    FIRST(group->shift, h->shift)
    return 0;
}

/* Sort groups (places that access the same addresses) whose cells get stamps, and join those whose cells are
 * neighbours: `tile` of the first says how many they are. */
static void join_neighbouring_groups(struct plan *plan, struct touched *first, int count) {
    sorted = plan;
    qsort(first, (size_t)count, sizeof *first, compare_groups_by_address);
    struct touched *tile = first;
    for (struct touched *w = first + 1; w < first + count; w++)
        if (is_left_neighbour(&plan->groups[w[-1].group], &plan->groups[w->group])) {
            tile->tile++;
            w->tile = 0;
        } else tile = w;
}

/* Set where a kin's groups lie in this row of iterations. Return false if their shadow cells are not one row in memory,
 * or the distance is no multiple of 8 bytes. */
static bool locate_kin_in_row(struct kin *kin, const struct line *value, int64_t iteration_count) {
    int64_t step = (int64_t)value->step, across = step * (iteration_count - 1), after = step * iteration_count;
    if (value->turns || step >= INT32_MAX || step <= INT32_MIN || (value->at - kin->at) % 8 != 0) return false;
    kin->at = value->at;
    kin->step = step;
    kin->below = across < 0 ? across : 0;
    kin->above = across > 0 ? across : 0;
    uintptr_t low = kin->at + (uintptr_t)(kin->first + (after < 0 ? after : 0));
    uintptr_t high = kin->at + (uintptr_t)(kin->last + (after > 0 ? after : 0));
    return ((low ^ high) & ~(uintptr_t)FOLD) == 0;
}

/* Set where all groups (places that access the same addresses) of a plan lie in this row of iterations. Return false if
 * they do not lie there as their cells do. */
bool locate_groups_in_row(struct plan *plan, const struct line forms[], int64_t iteration_count) {
    for (int i = 0; i < plan->kin_count; i++)
        if (!locate_kin_in_row(&plan->kin[i], &forms[plan->kin[i].form], iteration_count)) return false;
    return true;
}

/* Set where the groups (places that access the same addresses) of an earlier plan lie in this row. Return false if that
 * cannot be, or if places of one group no longer have the same address. */
bool fit_plan_to_row(const struct row *row, struct plan *plan, const struct line forms[], int64_t iteration_count) {
    for (int i = 0; i < plan->same_count; i++) {
        struct line a = compute_form_value(row, forms, plan->sames[i].form),
                    b = compute_form_value(row, forms, plan->groups[plan->sames[i].group].form);
        if (a.at != b.at || a.step != b.step || a.turns) return false;
    }
    return locate_groups_in_row(plan, forms, iteration_count);
}

/* Return whether all groups (places that access the same addresses) of a plan lie at multiples of their access size. */
static bool are_groups_aligned(const struct plan *plan) {
    for (int i = 0; i < plan->group_count; i++) {
        const struct group *group = &plan->groups[i];
        if ((low_of(plan, group) | (uintptr_t)step_of(plan, group)) & (group->size - 1)) return false;
    }
    return true;
}

/* Put the groups of a kin (groups at fixed distances) that lie in the same object into one cluster each, with the
 * bounds of what they access and write. */
static void cluster_groups(struct plan *plan) {
    plan->cluster_count = 0;
    plan->apart = 0;
    for (int i = 0; i < plan->kin_count; i++) plan->kin[i].cluster = -1;
    for (int i = 0; i < plan->group_count && plan->cluster_count >= 0; i++) {
        const struct group *group = &plan->groups[i];
        int64_t low = group->shift, high = group->shift + (int64_t)group->size;
        int k = plan->kin[group->kin].cluster; /* mostly the last one, and none before the first */
        while (k >= 0 && (plan->clusters[k].kin != group->kin || plan->clusters[k].object != group->object)) k--;
        if (k < 0 && plan->cluster_count == MOST_CLUSTERS) {
            plan->cluster_count = -1;
            return;
        }
        if (k < 0) {
            GROW(plan->clusters, (size_t)plan->cluster_count, plan->cluster_room, 8);
            plan->clusters[k = plan->cluster_count++] = (struct cluster){group->object, group->kin, low, high, 0, 0};
        }
        plan->kin[group->kin].cluster = k > plan->kin[group->kin].cluster ? k : plan->kin[group->kin].cluster;
        struct cluster *cluster = &plan->clusters[k];
        cluster->low = low < cluster->low ? low : cluster->low;
        cluster->high = high > cluster->high ? high : cluster->high;
        if (group->first_write == INT_MAX) continue;
        bool first = cluster->written_low == cluster->written_high;
        cluster->written_low = first || low < cluster->written_low ? low : cluster->written_low;
        cluster->written_high = first || high > cluster->written_high ? high : cluster->written_high;
    }
}

/* Return whether a plan (what a row's accesses require of the shadow cells) still holds: the construct is the same and
 * none of its places' sites was closed, opened or moved. */
static bool is_plan_current(const struct row *row, struct plan *plan) {
    if (plan->base != demand_base_stamp()) return false;
    if (plan->sites == weft_sites_changed) return true;
    for (int i = 0; i < row->place_count; i++) {
        const struct site *site = row->places[i].site;
        if (plan->blocks[row->places[i].block] == NEVER) continue;
        if ((!site->key && !is_known_fault(&row->places[i])) || site->changed > plan->sites) return false;
    }
    plan->sites = weft_sites_changed;
    return true;
}

/* Look for a plan (what accesses require of the shadow cells) that still holds for iterations that run these blocks. If
 * there is one, make it row->plan and return true. Else return false: row->plan is one for make_plan_of_row to fill. */
bool select_current_plan(struct row *row, const uint8_t block_states[]) {
    struct plan *plan = row->plan, *free = NULL;
    int count = 0;
    do {
        bool same = plan && memcmp(plan->blocks, block_states, (size_t)row->block_count) == 0;
        if (same && is_plan_current(row, plan)) {
            row->plan = plan;
            return true;
        }
        if (plan && (same || (!free && plan->base != now.base))) free = plan;
        count += plan != NULL;
        plan = plan ? plan->next : NULL;
    } while (plan != row->plan);
    if (!free && (count == 0 || (row->guard_count && count < MOST_PLANS))) {
        free = allocate_plan(row);
        free->next = row->plan ? row->plan->next : free;
        if (row->plan) row->plan->next = free;
    }
    row->plan = free ? free : row->plan->next;
    return false;
}

/* Empty a plan. `keep_groups`: the groups (places that access the same addresses) stay and only what was demanded of
 * them is dropped. */
static void empty_plan(struct plan *plan, bool keep_groups) {
    if (!keep_groups) plan->group_count = plan->kin_count = plan->same_count = plan->memory_count = 0;
    plan->range_count = plan->demand_count = plan->writer_count = plan->tracker_count = plan->wrong_count = 0;
    plan->grouped = keep_groups;
    plan->base = 0; /* not made yet */
    plan->last = -1;
    for (int i = 0; i < plan->kin_count; i++) plan->kin[i].ranges = -1;
    for (int i = 0; i < plan->group_count; i++) {
        struct group *group = &plan->groups[i];
        group->object = NULL;
        group->first_write = group->first_track = INT_MAX;
        group->demands = -1;
        group->halves = false;
    }
}

/* Return whether a group (places that access the same addresses) lies in another object than when the clusters were
 * made, and note the objects of now. */
static bool update_group_objects(struct plan *plan) {
    bool other = false;
    for (int i = 0; i < plan->group_count; i++) {
        struct group *group = &plan->groups[i];
        other |= group->object != group->gathered;
        group->gathered = group->object;
    }
    return other;
}

/* Collect which memory the guards (comparisons with a jump) of the blocks that are run read; the row must not write
 * it. */
static void collect_guard_memory(struct plan *plan, const struct row *row, const uint8_t block_states[]) {
    for (int b = 0; b < row->block_count; b++)
        for (int m = 0; block_states[b] != NEVER && m < row->memory_count; m++)
            if (row->memories[m].guard == row->blocks[b].guard)
                plan->memories[plan->memory_count++] = &row->memories[m];
}

/* Make the row's plan (what its accesses require of the shadow cells) from what the sites of its places accept. Returns
 * PASSED; UNOPENED if a site must first be opened by a hook; REFUSED if hooks must judge the row. */
enum verdict make_plan_of_row(struct row *row, const struct line forms[], const uint8_t block_states[],
                              int64_t iteration_count) {
    struct plan *plan = row->plan;
    bool again = plan->grouped && memcmp(plan->blocks, block_states, (size_t)row->block_count) == 0 &&
                 fit_plan_to_row(row, plan, forms, iteration_count);
    empty_plan(plan, again);
    for (int i = 0; i < row->place_count; i++) {
        const struct row_place *one = &row->places[i];
        const struct site *site = one->site;
        bool always = block_states[one->block] == ALWAYS;
        if (block_states[one->block] == NEVER) continue;
        bool wrong = is_known_fault(one);
        if (!site->key && !(wrong && always)) return always && !site->closed ? UNOPENED : REFUSED;
        int g = again ? plan->group_of[i] : find_or_add_group(plan, row, forms, one->address, (unsigned)one->size);
        if (g < 0) return REFUSED;
        plan->group_of[i] = g;
        if (!plan->groups[g].object) plan->groups[g].object = site->object;
        if (wrong) {
            restrict_kin_to_interval(plan, g, site->wrong_home, site->wrong_low, site->length - site->size);
            plan_fault_counting(plan, g, one, i);
            continue;
        }
        restrict_kin_to_interval(plan, g, site->home, site->low, site->reach);
        if (!(one->write ? plan_write(plan, g, one, i, always) : plan_read(plan, g, one, i, always))) return REFUSED;
    }
    plan->alike = true;
    for (int i = 0; i < plan->group_count; i++) {
        if (plan->ordered != plan->group_count) plan->order[i] = i;
        plan->alike &= plan->groups[i].size == plan->groups[0].size;
        if (plan->groups[i].first_track != INT_MAX) plan->trackers[plan->tracker_count++] = (struct touched){i, 1};
    }
    if (!again) collect_guard_memory(plan, row, block_states);
    plan->ordered = plan->group_count;
    if (!locate_groups_in_row(plan, forms, iteration_count) || !are_groups_aligned(plan)) return REFUSED;
    if (update_group_objects(plan) || !again) cluster_groups(plan);
    join_demands_to_chains(plan);
    join_neighbouring_groups(plan, plan->writers, plan->writer_count);
    join_neighbouring_groups(plan, plan->trackers, plan->tracker_count);
    memcpy(plan->blocks, block_states, (size_t)row->block_count);
    plan->sites = weft_sites_changed, plan->base = demand_base_stamp(), plan->grouped = true;
    return PASSED;
}
