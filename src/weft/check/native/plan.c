/* What a row of iterations touches, and what is to be asked of it.
 *
 * Places with the same addresses are a group, which passes if its cells hold what all its places accept. Which groups
 * there are, and what is asked of them, changes only when a site does, or other blocks are come to: a plan mostly is
 * good for the next row, too.
 */
#include "rows.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PLANS 8
#define HASH_SLOTS 2048

static struct plan *new_plan(const struct row *r) {
    size_t places = (size_t)r->place_count, groups = places < MOST_GROUPS ? places : MOST_GROUPS;
    struct plan *p = calloc(1, sizeof *p);
    if (!p) abort();
    p->groups = calloc(groups, sizeof *p->groups);
    p->ranges = calloc(places, sizeof *p->ranges);
    p->demands = calloc(2 * places, sizeof *p->demands);
    p->sames = calloc(places, sizeof *p->sames);
    p->memories = calloc((size_t)r->memory_count + 1, sizeof *p->memories);
    p->writers = calloc(groups, sizeof *p->writers);
    p->trackers = calloc(groups, sizeof *p->trackers);
    p->order = calloc(groups, sizeof *p->order);
    p->ends = calloc(groups, sizeof *p->ends);
    p->written = calloc(groups, sizeof *p->written);
    if (!p->groups || !p->ranges || !p->demands || !p->sames || !p->memories || !p->writers || !p->trackers ||
        !p->order || !p->ends || !p->written)
        abort();
    p->one = r->rank == 0;
    return p;
}

/* The group of all places with these addresses; -1: there are too many. */
static int group_of(struct plan *p, const struct line *a, int form, unsigned size) {
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
        if (g->low != a->at || g->step != (int64_t)a->step || g->size != size) continue;
        if (g->form != form && (p->same_count == 0 || p->sames[p->same_count - 1].form != form))
            p->sames[p->same_count++] = (struct same){form, slots[slot].group};
        return slots[slot].group;
    }
    if (p->group_count == MOST_GROUPS) return -1;
    slots[slot].epoch = epoch, slots[slot].group = p->group_count;
    p->groups[p->group_count] = (struct group){.low = a->at,
                                               .step = (int64_t)a->step,
                                               .form = form,
                                               .size = size,
                                               .first_write = INT_MAX,
                                               .first_track = INT_MAX,
                                               .ranges = -1,
                                               .demands = -1};
    return p->group_count++;
}

static void add_range(struct plan *p, int group, const struct site *s) {
    struct group *g = &p->groups[group];
    for (int i = g->ranges; i >= 0; i = p->ranges[i].next)
        if (p->ranges[i].home == s->home && p->ranges[i].low == s->low && p->ranges[i].reach == s->reach) return;
    p->ranges[p->range_count] = (struct range){s->home, s->low, s->reach, group, g->ranges};
    g->ranges = p->range_count++;
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
        if (within(least, limit, d->least, d->limit)) d->least = least, d->limit = limit;
        if (within(d->least, d->limit, least, limit)) return;
    }
    p->demands[p->demand_count] = (struct demand){least, limit, read, group, g->demands, 1, 1};
    g->demands = p->demand_count++;
}

static bool may_read(struct plan *p, int group, const struct row_place *place, int number, bool always) {
    const struct site *s = place->site;
    struct group *g = &p->groups[group];
    if (g->first_write != INT_MAX) /* what this iteration wrote */
        return true;
    stamp_t least = s->least, limit = s->limit;
    if (s->mode == FREE) { /* judge() lets pass what the hooks do not */
        least = REDZONE + 1, limit = UINT32_MAX - (REDZONE + 1 - SPLIT);
    } else if (s->track) {
        if (!always || s->size != place->size || s->known < s->since) return false;
        least = s->since, limit = s->known - s->since;
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
    if (g->step == 0 && !p->one && (s->track || !may_repeat(p, g, s))) return false;
    g->halves |= g->size == 4;
    if (s->track) {
        add_demand(p, group, false, UNDEFINED, now.base - UNDEFINED);
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
    FIRST(g->step, h->step)
    FIRST(g->from, h->from)
    return 0;
}

static bool next_to(const struct group *g, const struct group *h) {
    return g->size == 8 && h->size == 8 && g->step == h->step && g->low + 8 == h->low;
}

/* Demands for the same of cells that lie together are one after another. */
static void chain(struct plan *p) {
    sorted = p;
    qsort(p->demands, (size_t)p->demand_count, sizeof *p->demands, by_cells);
    struct demand *first = NULL, *tile = NULL;
    uintptr_t to = 0;
    for (struct demand *d = p->demands; d < p->demands + p->demand_count; d++) {
        const struct group *g = &p->groups[d->group], *h = &p->groups[d[-(d > p->demands)].group];
        if (first && g->size == 8 && h->size == 8 && g->step == h->step && g->from <= to && d->read == first->read &&
            d->least == first->least && d->limit == first->limit)
            first->chain++, d->chain = 0;
        else first = tile = d, to = 0;
        if (tile != d && next_to(h, g)) tile->tile++, d->tile = 0;
        else tile = d;
        to = g->to > to ? g->to : to;
    }
}

static int by_place(const void *one, const void *two) {
    const struct group *g = &sorted->groups[((const struct touched *)one)->group];
    const struct group *h = &sorted->groups[((const struct touched *)two)->group];
    FIRST(g->size, h->size)
    FIRST(g->step, h->step)
    FIRST(g->low, h->low)
    return 0;
}

/* The same of groups that are stamped. */
static void tiles(struct plan *p, struct touched *first, int count) {
    sorted = p;
    qsort(first, (size_t)count, sizeof *first, by_place);
    struct touched *tile = first;
    for (struct touched *w = first + 1; w < first + count; w++)
        if (next_to(&p->groups[w[-1].group], &p->groups[w->group])) tile->tile++, w->tile = 0;
        else tile = w;
}

/* Where the groups lie in this row. */
bool row_placed(struct plan *p, const struct line forms[], int64_t n) {
    for (int i = 0; i < p->group_count; i++) {
        struct group *g = &p->groups[i];
        const struct line *a = &forms[g->form];
        int64_t step = (int64_t)a->step, across = step * (n - 1);
        if (a->turns || ((a->at | a->step) & (g->size - 1)) || step >= INT32_MAX || step <= INT32_MIN ||
            ((a->at ^ (a->at + a->step * (uint64_t)n)) & ~(uint64_t)FOLD))
            return false;
        g->low = a->at, g->step = step;
        g->from = step < 0 ? g->low + (uintptr_t)across : g->low;
        g->to = (step < 0 ? g->low : g->low + (uintptr_t)across) + g->size;
    }
    return true;
}

static bool stands(const struct plan *p) { return p->sites == weft_sites_changed && p->base == now.base; }

/* Whether there is a plan for iterations that come to these blocks: it is the row's then. Else that is one to be made
 * anew. */
bool row_planned(struct row *r, const uint8_t blocks[]) {
    struct plan *p = r->plan, *free = NULL;
    int count = 0;
    do {
        if (p && stands(p) && memcmp(p->blocks, blocks, (size_t)r->block_count) == 0) {
            r->plan = p;
            return true;
        }
        if (p && !stands(p)) free = p;
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

/* A new plan, from what the sites of the places let pass. */
enum verdict row_plan(struct row *r, const struct line forms[], const uint8_t blocks[], int64_t n) {
    struct plan *p = r->plan;
    p->group_count = p->range_count = p->demand_count = p->same_count = p->writer_count = p->tracker_count =
        p->memory_count = 0;
    p->base = 0; /* not made yet */
    p->last = -1;
    for (int i = 0; i < r->place_count; i++) {
        const struct row_place *one = &r->places[i];
        const struct site *s = one->site;
        bool always = blocks[one->block] == ALWAYS;
        if (blocks[one->block] == NEVER) continue;
        if (!s->key) return always && !s->closed ? UNOPENED : REFUSED;
        int g = group_of(p, &forms[one->address], one->address, (unsigned)one->size);
        if (g < 0) return REFUSED;
        add_range(p, g, s);
        if (!(one->write ? may_write(p, g, one, i, always) : may_read(p, g, one, i, always))) return REFUSED;
    }
    p->alike = true;
    for (int i = 0; i < p->group_count; i++) {
        p->order[i] = i;
        p->alike &= p->groups[i].size == p->groups[0].size;
        if (p->groups[i].first_track != INT_MAX) p->trackers[p->tracker_count++] = (struct touched){i, 1};
    }
    for (int b = 0; b < r->block_count; b++)
        for (int m = 0; blocks[b] != NEVER && m < r->memory_count; m++)
            if (r->memories[m].guard == r->blocks[b].guard) p->memories[p->memory_count++] = &r->memories[m];
    if (!row_placed(p, forms, n)) return REFUSED;
    chain(p);
    tiles(p, p->writers, p->writer_count);
    tiles(p, p->trackers, p->tracker_count);
    memcpy(p->blocks, blocks, (size_t)r->block_count);
    p->sites = weft_sites_changed, p->base = now.base;
    return PASSED;
}
