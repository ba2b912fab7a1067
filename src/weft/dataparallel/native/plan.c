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

static struct plan *new_plan(const struct row *r) {
    struct plan *p = calloc(1, sizeof *p);
    if (!p) abort();
    p->group_of = calloc((size_t)r->place_count, sizeof *p->group_of);
    p->memories = calloc((size_t)r->memory_count + 1, sizeof *p->memories);
    if (!p->group_of || !p->memories) abort();
    p->one = r->rank <= 0;
    return p;
}

static struct group *new_group(struct plan *p) {
    size_t room = p->group_room;
    GROW(p->groups, (size_t)p->group_count, p->group_room, 8);
    if (room < p->group_room) {
        size_t count = p->group_room;
        p->writers = realloc(p->writers, count * sizeof *p->writers);
        p->trackers = realloc(p->trackers, count * sizeof *p->trackers);
        p->order = realloc(p->order, count * sizeof *p->order);
        p->ends = realloc(p->ends, count * sizeof *p->ends);
        p->written = realloc(p->written, count * sizeof *p->written);
        if (!p->writers || !p->trackers || !p->order || !p->ends || !p->written) abort();
    }
    return &p->groups[p->group_count++];
}

/* The kin of a form; -1: there are too many. */
static int kin_of(struct plan *p, const struct row *r, const struct line forms[], int form) {
    if (form >= r->own_count) form = r->terms[r->starts[form]].which;
    int last = p->group_count ? p->groups[p->group_count - 1].kin : 0; /* mostly the same again */
    for (int i = last, more = p->kin_count; more > 0; i = i ? i - 1 : p->kin_count - 1, more--)
        if (p->kin[i].form == form) return i;
    if (p->kin_count == MOST_KIN) return -1;
    GROW(p->kin, (size_t)p->kin_count, p->kin_room, 8);
    p->kin[p->kin_count] = (struct kin){.form = form,
                                        .at = forms[form].at,
                                        .step = (int64_t)forms[form].step,
                                        .first = INT64_MAX,
                                        .last = INT64_MIN,
                                        .ranges = -1,
                                        .cluster = -1};
    return p->kin_count++;
}

/* The group of all places with these addresses; -1: there are too many. */
static int group_of(struct plan *p, const struct row *r, const struct line forms[], int form, unsigned size) {
    const struct line value = form_of(r, forms, form), *a = &value;
    static struct {
        uint32_t epoch;
        int32_t group;
    } slots[HASH_SLOTS];
    static uint32_t epoch;
    if (p->group_count == 0 && ++epoch == 0) { /* what is left of the first time is not to be taken for this one's */
        memset(slots, 0, sizeof slots);
        epoch = 1;
    }
    uint64_t key = (a->at ^ a->step * 0x9E3779B97F4A7C15u ^ size) * 0x9E3779B97F4A7C15u;
    unsigned slot = (unsigned)(key >> 40) % HASH_SLOTS;
    for (; slots[slot].epoch == epoch; slot = (slot + 1) % HASH_SLOTS) {
        const struct group *g = &p->groups[slots[slot].group];
        if (low_of(p, g) != a->at || step_of(p, g) != (int64_t)a->step || g->size != size) continue;
        if (g->form != form && (p->same_count == 0 || p->sames[p->same_count - 1].form != form)) {
            GROW(p->sames, (size_t)p->same_count, p->same_room, 8);
            p->sames[p->same_count++] = (struct same){form, slots[slot].group};
        }
        return slots[slot].group;
    }
    int kin = kin_of(p, r, forms, form);
    if (p->group_count == MOST_GROUPS || kin < 0) return -1;
    struct kin *k = &p->kin[kin];
    int64_t shift = (int64_t)(a->at - k->at);
    k->first = shift < k->first ? shift : k->first;
    k->last = shift + (int64_t)size > k->last ? shift + (int64_t)size : k->last;
    slots[slot].epoch = epoch;
    slots[slot].group = p->group_count;
    *new_group(p) = (struct group){.shift = shift,
                                   .form = form,
                                   .kin = kin,
                                   .size = size,
                                   .first_write = INT_MAX,
                                   .first_track = INT_MAX,
                                   .demands = -1};
    return p->group_count - 1;
}

/* Where a site's interval lets the group's kin be: as all of its intervals with the same home do. */
static void add_range(struct plan *p, int group, const uintptr_t *home, uintptr_t from, uintptr_t reach) {
    struct kin *k = &p->kin[p->groups[group].kin];
    int64_t low = (int64_t)from - p->groups[group].shift, high = INT64_MAX;
    if (reach > INTPTR_MAX) high = low - 1;
    else if (low <= INT64_MAX - (int64_t)reach) high = low + (int64_t)reach;
    for (int i = k->ranges; i >= 0; i = p->ranges[i].next) {
        struct range *one = &p->ranges[i];
        if (one->home != home) continue;
        one->low = low > one->low ? low : one->low;
        one->high = high < one->high ? high : one->high;
        return;
    }
    GROW(p->ranges, (size_t)p->range_count, p->range_room, 8);
    p->ranges[p->range_count] = (struct range){home, low, high, p->groups[group].kin, k->ranges};
    k->ranges = p->range_count++;
}

/* Whether all that lies in the first interval lies in the second one. */
static bool within(stamp_t least, stamp_t limit, stamp_t low, stamp_t reach) {
    return least - low <= reach && limit <= reach - (least - low);
}

static void add_demand(struct plan *p, int group, bool read, stamp_t least, stamp_t limit) {
    struct group *g = &p->groups[group];
    for (int i = g->demands; i >= 0; i = p->demands[i].next) {
        struct demand *d = &p->demands[i];
        if (d->read != read) continue;
        if (within(least, limit, d->least, d->limit)) {
            d->least = least;
            d->limit = limit;
        }
        if (within(d->least, d->limit, least, limit)) return;
    }
    GROW(p->demands, (size_t)p->demand_count, p->demand_room, 8);
    p->demands[p->demand_count] = (struct demand){least, limit, read, group, g->demands, 1, 1, p->demand_count};
    g->demands = p->demand_count++;
}

/* What a plan's demands hang on: in sequential parts they ask for no stamp of this construct. */
static stamp_t row_base(void) { return here.started ? now.base : 1; }

/* Whether a place's reads are only to be counted, as the hooks do (access.c). */
static bool known_wrong(const struct row_place *place) {
    const struct site *s = place->site;
    return s->wrong && !place->write && s->known == weft_sites_forgotten && s->context == weft_context &&
           s->size == place->size;
}

static void may_count(struct plan *p, int group, const struct row_place *place, int number) {
    if (p->groups[group].first_write == INT_MAX) add_demand(p, group, false, 0, here.started ? now.base : SPLIT - 1);
    GROW(p->wrong, (size_t)p->wrong_count, p->wrong_room, 8);
    p->wrong[p->wrong_count++] = (struct counted){place->site->wrong, number};
    p->last = number;
}

static bool may_read(struct plan *p, int group, const struct row_place *place, int number, bool always) {
    const struct site *s = place->site;
    struct group *g = &p->groups[group];
    if (g->first_write != INT_MAX) /* what this iteration wrote */
        return true;
    stamp_t least = s->least, limit = s->limit;
    if (s->mode == FREE) { /* judge() lets pass what the hooks do not */
        least = REDZONE + 1;
        limit = UINT32_MAX - (REDZONE + 1 - SPLIT);
    } else if (s->track) {
        if (!always || s->size != place->size || s->known < s->since) return false;
        least = s->since;
        limit = s->known - s->since;
        g->halves |= g->size == 4;
        if (g->first_track == INT_MAX) g->first_track = p->last = number;
    }
    add_demand(p, group, false, least, limit);
    return true;
}

/* Whether every iteration may read and write what the last one wrote. */
static bool may_repeat(const struct plan *p, const struct group *g, const struct site *s) {
    const stamp_t stamps[] = {now.cur, LAST_STAMP};
    for (int k = 0; k < 2; k++) {
        if (stamps[k] - s->floor < s->span) return false;
        for (int i = g->demands; i >= 0; i = p->demands[i].next)
            if (stamps[k] - p->demands[i].least > p->demands[i].limit) return false;
    }
    return true;
}

static bool may_write(struct plan *p, int group, const struct row_place *place, int number, bool always) {
    const struct site *s = place->site;
    struct group *g = &p->groups[group];
    if (g->first_write != INT_MAX) return true;
    if (!always || (s->track && (s->track != 1 || s->size != place->size)) || (!s->track && s->span == 0)) return false;
    if (step_of(p, g) == 0 && !p->one && (s->track || !may_repeat(p, g, s))) return false;
    g->halves |= g->size == 4;
    if (s->track) {
        add_demand(p, group, false, NO_VALUE, now.base - NO_VALUE);
        add_demand(p, group, true, 0, now.base);
    } else {
        add_demand(p, group, false, s->floor + s->span, UINT32_MAX - s->span);
    }
    g->first_write = p->last = number;
    p->writers[p->writer_count++] = (struct touched){group, 1};
    return true;
}

static const struct plan *sorted; /* qsort's */

static int by_cells(const void *one, const void *two) {
    const struct demand *a = one, *b = two;
    const struct group *g = &sorted->groups[a->group], *h = &sorted->groups[b->group];
#define FIRST(x, y)                                                                                                    \
    if ((x) != (y)) return (x) < (y) ? -1 : 1;
    FIRST(a->read, b->read)
    FIRST(a->least, b->least)
    FIRST(a->limit, b->limit)
    FIRST(g->size, h->size)
    FIRST(g->kin, h->kin)
    FIRST(g->shift, h->shift)
    return 0;
}

static bool next_to(const struct group *g, const struct group *h) {
    return g->size == 8 && h->size == 8 && g->kin == h->kin && g->shift + 8 == h->shift;
}

/* By their cells: in the order of the last time, where that is one still. */
static void sort_demands(struct plan *p) {
    static struct demand *unsorted; /* of the plan that is made now */
    static size_t unsorted_room;
    size_t count = (size_t)p->demand_count;
    bool known = p->sorted_count == p->demand_count;
    if (count == 0) return;
    sorted = p;
    if (unsorted_room < count) {
        free(unsorted);
        unsorted = malloc((unsorted_room = 2 * count) * sizeof *unsorted);
        if (!unsorted) abort();
    }
    if (known) memcpy(unsorted, p->demands, count * sizeof *p->demands);
    for (size_t i = 0; known && i < count; i++) p->demands[i] = unsorted[p->sorted[i]];
    for (size_t i = 1; known && i < count; i++) known = by_cells(&p->demands[i - 1], &p->demands[i]) <= 0;
    if (known) return;
    qsort(p->demands, count, sizeof *p->demands, by_cells);
    if (p->sorted_room < count) {
        p->sorted = realloc(p->sorted, count * sizeof *p->sorted);
        if (!p->sorted) abort();
        p->sorted_room = count;
    }
    for (size_t i = 0; i < count; i++) p->sorted[i] = p->demands[i].made;
    p->sorted_count = p->demand_count;
}

/* Demands for the same of cells that lie together are one after another. */
static void chain(struct plan *p) {
    sort_demands(p);
    struct demand *first = NULL, *tile = NULL;
    uintptr_t to = 0;
    for (struct demand *d = p->demands; d < p->demands + p->demand_count; d++) {
        const struct group *g = &p->groups[d->group], *h = &p->groups[d[-(d > p->demands)].group];
        if (first && g->size == 8 && h->size == 8 && g->kin == h->kin && begin_of(p, g) <= to &&
            d->read == first->read && d->least == first->least && d->limit == first->limit) {
            first->chain++;
            d->chain = 0;
        } else {
            first = tile = d;
            to = 0;
        }
        if (tile != d && next_to(h, g)) {
            tile->tile++;
            d->tile = 0;
        } else tile = d;
        to = end_of(p, g) > to ? end_of(p, g) : to;
    }
}

static int by_place(const void *one, const void *two) {
    const struct group *g = &sorted->groups[((const struct touched *)one)->group];
    const struct group *h = &sorted->groups[((const struct touched *)two)->group];
    FIRST(g->size, h->size)
    FIRST(g->kin, h->kin)
    FIRST(g->shift, h->shift)
    return 0;
}

/* The same of groups that are stamped. */
static void tiles(struct plan *p, struct touched *first, int count) {
    sorted = p;
    qsort(first, (size_t)count, sizeof *first, by_place);
    struct touched *tile = first;
    for (struct touched *w = first + 1; w < first + count; w++)
        if (next_to(&p->groups[w[-1].group], &p->groups[w->group])) {
            tile->tile++;
            w->tile = 0;
        } else tile = w;
}

/* Where a kin is in this row of n iterations; false if its groups do not lie there as cells do. */
static bool kin_placed(struct kin *k, const struct line *a, int64_t n) {
    int64_t step = (int64_t)a->step, across = step * (n - 1), after = step * n;
    if (a->turns || step >= INT32_MAX || step <= INT32_MIN || (a->at - k->at) % 8 != 0) return false;
    k->at = a->at;
    k->step = step;
    k->below = across < 0 ? across : 0;
    k->above = across > 0 ? across : 0;
    uintptr_t low = k->at + (uintptr_t)(k->first + (after < 0 ? after : 0));
    uintptr_t high = k->at + (uintptr_t)(k->last + (after > 0 ? after : 0));
    return ((low ^ high) & ~(uintptr_t)FOLD) == 0;
}

/* Where the groups lie in this row. */
bool row_placed(struct plan *p, const struct line forms[], int64_t n) {
    for (int i = 0; i < p->kin_count; i++)
        if (!kin_placed(&p->kin[i], &forms[p->kin[i].form], n)) return false;
    return true;
}

/* Whether what was one group in another row is one in this one, too. */
bool row_fits(const struct row *r, struct plan *p, const struct line forms[], int64_t n) {
    for (int i = 0; i < p->same_count; i++) {
        struct line a = form_of(r, forms, p->sames[i].form), b = form_of(r, forms, p->groups[p->sames[i].group].form);
        if (a.at != b.at || a.step != b.step || a.turns) return false;
    }
    return row_placed(p, forms, n);
}

/* Whether all groups lie where cells do. */
static bool aligned(const struct plan *p) {
    for (int i = 0; i < p->group_count; i++) {
        const struct group *g = &p->groups[i];
        if ((low_of(p, g) | (uintptr_t)step_of(p, g)) & (g->size - 1)) return false;
    }
    return true;
}

/* Put the groups into clusters. */
static void gather(struct plan *p) {
    p->cluster_count = 0;
    p->apart = 0;
    for (int i = 0; i < p->kin_count; i++) p->kin[i].cluster = -1;
    for (int i = 0; i < p->group_count && p->cluster_count >= 0; i++) {
        const struct group *g = &p->groups[i];
        int64_t low = g->shift, high = g->shift + (int64_t)g->size;
        int k = p->kin[g->kin].cluster; /* mostly the last one, and none before the first */
        while (k >= 0 && (p->clusters[k].kin != g->kin || p->clusters[k].object != g->object)) k--;
        if (k < 0 && p->cluster_count == MOST_CLUSTERS) {
            p->cluster_count = -1;
            return;
        }
        if (k < 0) {
            GROW(p->clusters, (size_t)p->cluster_count, p->cluster_room, 8);
            p->clusters[k = p->cluster_count++] = (struct cluster){g->object, g->kin, low, high, 0, 0};
        }
        p->kin[g->kin].cluster = k > p->kin[g->kin].cluster ? k : p->kin[g->kin].cluster;
        struct cluster *c = &p->clusters[k];
        c->low = low < c->low ? low : c->low;
        c->high = high > c->high ? high : c->high;
        if (g->first_write == INT_MAX) continue;
        bool first = c->written_low == c->written_high;
        c->written_low = first || low < c->written_low ? low : c->written_low;
        c->written_high = first || high > c->written_high ? high : c->written_high;
    }
}

/* Whether what a plan was made of is as it was: none of its places' sites was opened or moved since. */
static bool stands(const struct row *r, struct plan *p) {
    if (p->base != row_base()) return false;
    if (p->sites == weft_sites_changed) return true;
    for (int i = 0; i < r->place_count; i++) {
        const struct site *s = r->places[i].site;
        if (p->blocks[r->places[i].block] == NEVER) continue;
        if ((!s->key && !known_wrong(&r->places[i])) || s->changed > p->sites) return false;
    }
    p->sites = weft_sites_changed;
    return true;
}

/* Whether there is a plan for iterations that come to these blocks: it is the row's then. Else that is one to be made
 * anew. */
bool row_planned(struct row *r, const uint8_t blocks[]) {
    struct plan *p = r->plan, *free = NULL;
    int count = 0;
    do {
        bool same = p && memcmp(p->blocks, blocks, (size_t)r->block_count) == 0;
        if (same && stands(r, p)) {
            r->plan = p;
            return true;
        }
        if (p && (same || (!free && p->base != now.base))) free = p;
        count += p != NULL;
        p = p ? p->next : NULL;
    } while (p != r->plan);
    if (!free && (count == 0 || (r->guard_count && count < MOST_PLANS))) {
        free = new_plan(r);
        free->next = r->plan ? r->plan->next : free;
        if (r->plan) r->plan->next = free;
    }
    r->plan = free ? free : r->plan->next;
    return false;
}

/* Forget what was asked of the groups, and, where they are not the last time's again, the groups. */
static void empty(struct plan *p, bool again) {
    if (!again) p->group_count = p->kin_count = p->same_count = p->memory_count = 0;
    p->range_count = p->demand_count = p->writer_count = p->tracker_count = p->wrong_count = 0;
    p->grouped = again;
    p->base = 0; /* not made yet */
    p->last = -1;
    for (int i = 0; i < p->kin_count; i++) p->kin[i].ranges = -1;
    for (int i = 0; i < p->group_count; i++) {
        struct group *g = &p->groups[i];
        g->object = NULL;
        g->first_write = g->first_track = INT_MAX;
        g->demands = -1;
        g->halves = false;
    }
}

/* Whether the groups lie in other objects than those of the clusters. */
static bool regathered(struct plan *p) {
    bool other = false;
    for (int i = 0; i < p->group_count; i++) {
        struct group *g = &p->groups[i];
        other |= g->object != g->gathered;
        g->gathered = g->object;
    }
    return other;
}

/* Which memory the guards of these blocks read. */
static void guarded(struct plan *p, const struct row *r, const uint8_t blocks[]) {
    for (int b = 0; b < r->block_count; b++)
        for (int m = 0; blocks[b] != NEVER && m < r->memory_count; m++)
            if (r->memories[m].guard == r->blocks[b].guard) p->memories[p->memory_count++] = &r->memories[m];
}

/* A new plan, from what the sites of the places let pass. Its groups mostly are those of the last loop. */
enum verdict row_plan(struct row *r, const struct line forms[], const uint8_t blocks[], int64_t n) {
    struct plan *p = r->plan;
    bool again = p->grouped && memcmp(p->blocks, blocks, (size_t)r->block_count) == 0 && row_fits(r, p, forms, n);
    empty(p, again);
    for (int i = 0; i < r->place_count; i++) {
        const struct row_place *one = &r->places[i];
        const struct site *s = one->site;
        bool always = blocks[one->block] == ALWAYS;
        if (blocks[one->block] == NEVER) continue;
        bool wrong = known_wrong(one);
        if (!s->key && !(wrong && always)) return always && !s->closed ? UNOPENED : REFUSED;
        int g = again ? p->group_of[i] : group_of(p, r, forms, one->address, (unsigned)one->size);
        if (g < 0) return REFUSED;
        p->group_of[i] = g;
        if (!p->groups[g].object) p->groups[g].object = s->object;
        if (wrong) {
            add_range(p, g, s->wrong_home, s->wrong_low, s->length - s->size);
            may_count(p, g, one, i);
            continue;
        }
        add_range(p, g, s->home, s->low, s->reach);
        if (!(one->write ? may_write(p, g, one, i, always) : may_read(p, g, one, i, always))) return REFUSED;
    }
    p->alike = true;
    for (int i = 0; i < p->group_count; i++) {
        if (p->ordered != p->group_count) p->order[i] = i;
        p->alike &= p->groups[i].size == p->groups[0].size;
        if (p->groups[i].first_track != INT_MAX) p->trackers[p->tracker_count++] = (struct touched){i, 1};
    }
    if (!again) guarded(p, r, blocks);
    p->ordered = p->group_count;
    if (!row_placed(p, forms, n) || !aligned(p)) return REFUSED;
    if (regathered(p) || !again) gather(p);
    chain(p);
    tiles(p, p->writers, p->writer_count);
    tiles(p, p->trackers, p->tracker_count);
    memcpy(p->blocks, blocks, (size_t)r->block_count);
    p->sites = weft_sites_changed, p->base = row_base(), p->grouped = true;
    return PASSED;
}
