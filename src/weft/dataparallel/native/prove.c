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

/* For how many of n iterations all places stay in their sites' intervals. */
static int64_t inside(const struct plan *p, int64_t n) {
    for (int i = 0; i < p->range_count; i++) {
        const struct range *one = &p->ranges[i];
        const struct kin *k = &p->kin[one->kin];
        int64_t by = k->step - (one->home != &weft_nowhere && !p->one ? weft_moves[one->home - weft_homes] : 0);
        int64_t at = (int64_t)(k->at - *one->home), to = at + by * (n - 1);
        if (at < one->low || at > one->high) return 0;
        if (to > one->high) n = (one->high - at) / by + 1;
        else if (to < one->low) n = (at - one->low) / -by + 1;
    }
    return n;
}

/* Whether two groups touch the same granule of 8. */
static bool meet(const struct plan *p, const struct group *a, const struct group *b) {
    int64_t by = step_of(p, a);
    if (a->begin >= ROUND(b->end) || b->begin >= ROUND(a->end)) return false;
    if (by != step_of(p, b) || by == 0 || a->size != 8 || b->size != 8) return true;
    uintptr_t step = (uintptr_t)(by < 0 ? -by : by), one = low_of(p, a), two = low_of(p, b);
    uintptr_t apart = (one > two ? one - two : two - one) % step;
    return apart < 8 || apart > step - 8; /* else one lies between the other's */
}

static void sort_groups(struct plan *p) {
    int *order = p->order;
    uintptr_t end = 0, written = 0;
    for (struct group *g = p->groups; g < p->groups + p->group_count; g++) {
        g->begin = begin_of(p, g);
        g->end = end_of(p, g);
    }
    for (int i = 0; i < p->group_count; i++) {
        int one = order[i], k = i;
        for (; k > 0 && p->groups[order[k - 1]].begin > p->groups[one].begin; k--) order[k] = order[k - 1];
        order[k] = one;
    }
    for (int i = 0; i < p->group_count; i++) {
        const struct group *g = &p->groups[order[i]];
        uintptr_t to = ROUND(g->end);
        p->ends[i] = end = to > end ? to : end;
        p->written[i] = written = g->first_write != INT_MAX && to > written ? to : written;
    }
}

/* Whether what was found of a kin's groups among themselves stands, and clusters of different kin do not meet. */
static bool still_apart(const struct plan *p, int64_t n) {
    if (n > p->apart || p->cluster_count < 0) return false;
    for (int i = 0; i < p->kin_count; i++)
        if (p->kin[i].step != p->kin[i].apart_step) return false;
    for (int i = 0; i < p->cluster_count; i++) {
        const struct cluster *a = &p->clusters[i];
        const struct kin *k = &p->kin[a->kin];
        if (a->written_low == a->written_high) continue;
        uintptr_t from = (k->at + (uintptr_t)(a->written_low + k->below)) & ~(uintptr_t)7;
        uintptr_t to = ROUND(k->at + (uintptr_t)(a->written_high + k->above));
        for (int j = 0; j < p->cluster_count; j++) {
            const struct cluster *b = &p->clusters[j];
            const struct kin *other = &p->kin[b->kin];
            if (b->kin != a->kin && other->at + (uintptr_t)(b->low + other->below) < to &&
                other->at + (uintptr_t)(b->high + other->above) > from)
                return false;
        }
    }
    return true;
}

/* Whether no group that is written meets another one, or what a guard reads. */
static bool apart(struct plan *p, int64_t n) {
    for (int i = 0; i < p->writer_count; i++)
        for (int m = 0; m < p->memory_count; m++) {
            const struct row_memory *one = p->memories[m];
            const struct group *g = &p->groups[p->writers[i].group];
            if (begin_of(p, g) < one->address + (uintptr_t)one->size && one->address < end_of(p, g)) return false;
        }
    if (p->writer_count == 0 || (p->one && p->alike) || still_apart(p, n)) return true;
    sort_groups(p);
    for (int i = 1; i < p->group_count; i++) {
        const struct group *a = &p->groups[p->order[i]];
        const uintptr_t *ends = a->first_write == INT_MAX ? p->written : p->ends;
        for (int k = i - 1; k >= 0 && ends[k] > a->begin; k--) {
            const struct group *b = &p->groups[p->order[k]];
            if (a->first_write == INT_MAX && b->first_write == INT_MAX) continue;
            if (!(p->one && a->size == b->size) && meet(p, a, b)) return false;
        }
    }
    p->apart = n;
    for (int i = 0; i < p->kin_count; i++) p->kin[i].apart_step = p->kin[i].step;
    return true;
}

/* The cells of a group: those of its own size. */
static inline struct cell *cells_of(const struct plan *p, const struct group *g) {
    return g->size == 8 ? cell8(low_of(p, g)) : cell4(low_of(p, g));
}
static int64_t stride_of(const struct plan *p, const struct group *g) {
    return g->size == 8 ? step_of(p, g) : 2 * step_of(p, g);
}

/* 1: the granules are split into cells of 4, all of them; 0: none is; -1: some are. */
static int split(const struct plan *p, const struct group *g, int64_t n) {
    uintptr_t low = low_of(p, g);
    int64_t step = step_of(p, g);
    bool first = cell8(low)->written == SPLIT;
    for (int64_t i = 1; i < n && step; i++)
        if ((cell8(low + (uintptr_t)(i * step))->written == SPLIT) != first) return -1;
    return first;
}

/* This iteration's own stamp is right in a loop within it. */
static stamp_t also(const struct plan *p, const struct demand *d) { return p->one ? now.cur : d->least; }

/* The cells of a group, or of a tile of them. */
static bool met(const struct plan *p, const struct demand *d, int64_t n, int tile) {
    const struct group *g = &p->groups[d->group];
    int how = g->size == 4 ? split(p, g, n) : 1;
    if (how < 0 || (how == 0 && g->halves)) return false;
    int64_t step = step_of(p, g);
    if (step == 0) n = 1;
    const struct cell *c = how ? cells_of(p, g) : cell8(low_of(p, g));
    if (how == 0 && step % 8 != 0) { /* a granule stands for two of them */
        for (int64_t i = 0; i < n; i++)
            if (!scan(&cell8(low_of(p, g) + (uintptr_t)(i * step))->written, 8, 1, 1, d->least, d->limit, also(p, d)))
                return false;
        return true;
    }
    int64_t stride = how ? stride_of(p, g) : step;
    return scan(d->read ? &c->read : &c->written, stride, n, tile, d->least, d->limit, also(p, d));
}

/* The same of all cells between the lowest and the highest of a chain, where that are not many more. */
static bool met_together(const struct plan *p, const struct demand *d, int64_t n) {
    uintptr_t from = begin_of(p, &p->groups[d->group]), to = end_of(p, &p->groups[d[d->chain - 1].group]);
    int64_t count = (int64_t)((to - from) / 8);
    if (count > 2 * n * d->chain || ((from ^ to) & ~(uintptr_t)FOLD)) return false;
    const struct cell *c = cell8(from);
    return scan(d->read ? &c->read : &c->written, 8, count, 1, d->least, d->limit, also(p, d));
}

static bool all_met(const struct plan *p, int64_t n) {
    for (int i = 0; i < p->demand_count; i += p->demands[i].chain) {
        const struct demand *d = &p->demands[i];
        if (d->chain > 1 && met_together(p, d, n)) continue;
        for (int k = 0; k < d->chain;) {
            if (!met(p, d + k, n, d[k].tile)) return false;
            k += d[k].tile;
        }
    }
    return true;
}

/* A plan for this row: the last one that fits, or a new one. */
static enum verdict planned(struct row *r, const struct line forms[], const uint8_t blocks[], int64_t n) {
    bool known = row_planned(r, blocks) && row_fits(r, r->plan, forms, n);
    if (known && apart(r->plan, n)) return PASSED;
    r->plan->grouped &= !known; /* groups may have become one */
    enum verdict made = row_plan(r, forms, blocks, n);
    if (made != PASSED || apart(r->plan, n)) return made;
    r->plan->grouped = false; /* of the last loop they were several */
    made = row_plan(r, forms, blocks, n);
    return made == PASSED && !apart(r->plan, n) ? REFUSED : made;
}

/* Whether all accesses of n iterations that come to these blocks pass; n becomes less where places leave their
 * intervals before. */
enum verdict row_passes(struct row *r, const struct line forms[], const uint8_t blocks[], int64_t *n) {
    enum verdict made = planned(r, forms, blocks, *n);
    if (made != PASSED) return made;
    int64_t sure = inside(r->plan, *n);
    if (sure < *n) {
        if (!row_worth(r, sure) || !row_placed(r->plan, forms, sure))
            return sure ? REFUSED : UNOPENED; /* the hooks of this iteration open them anew */
        *n = sure;
    }
    return all_met(r->plan, *n) ? PASSED : REFUSED;
}

/* --- what a row did --- */

/* `from`: how many iterations come before. */
static void stamp_reads(const struct plan *p, const struct group *g, int64_t from, stamp_t first, int64_t n, int tile) {
    int64_t stride = stride_of(p, g);
    char *cells = (char *)cells_of(p, g) + stride * from;
    if (n > 0) touch(cells, stride ? stride : 8, stride ? n : 1, tile, first, !p->one);
}

static void stamp_writes(const struct plan *p, const struct group *g, int64_t from, stamp_t first, int64_t n,
                         int tile) {
    stamp_t rise = !p->one;
    int64_t stride = stride_of(p, g);
    char *cells = (char *)cells_of(p, g) + stride * from;
    if (n > 0 && stride) fill(cells, stride, n, tile, first, rise);
    else if (n > 0) fill(cells, 8, 1, tile, first + rise * (stamp_t)(n - 1), 0);
}

/* Stamp what `full` iterations did, from the stamp `first` on, and what the first `places` places of one more did. */
void row_stamp(const struct plan *p, stamp_t first, int64_t full, int places) {
    if (p->last < places) /* the whole of one more */
        full++, places = 0;
    stamp_t last = first + (p->one ? 0 : (stamp_t)full);
    for (const struct counted *w = p->wrong; w < p->wrong + p->wrong_count; w++)
        *w->count += (uint64_t)full + (w->number < places);
    for (int i = 0, tile; i < p->tracker_count; i += tile) {
        tile = p->trackers[i].tile;
        stamp_reads(p, &p->groups[p->trackers[i].group], 0, first, full, tile);
    }
    for (int i = 0; places > 0 && i < p->tracker_count; i++)
        if (p->groups[p->trackers[i].group].first_track < places)
            stamp_reads(p, &p->groups[p->trackers[i].group], full, last, 1, 1);
    for (int i = 0, tile; i < p->writer_count; i += tile) {
        tile = p->writers[i].tile;
        stamp_writes(p, &p->groups[p->writers[i].group], 0, first, full, tile);
    }
    for (int i = 0; places > 0 && i < p->writer_count; i++)
        if (p->groups[p->writers[i].group].first_write < places)
            stamp_writes(p, &p->groups[p->writers[i].group], full, last, 1, 1);
}
