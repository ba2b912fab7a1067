/* What a place of the program may access in this construct, found out at its first access: its site. */
#include "sites.h"

#include "access.h"
#include "block_sites.h"
#include "blocks.h"
#include "cells.h"
#include "consistent.h"
#include "findings.h"
#include "loops.h"
#include "objects.h"
#include "owned.h"
#include "ownership.h"
#include "ran.h"
#include "regions.h"
#include "scattered.h"
#include "under_way.h"

#include <stdlib.h>
#include <string.h>

bool among(const struct private *list, int n, uintptr_t a, struct private **which) {
    for (int i = 0; i < n; i++)
        if (a - list[i].low < list[i].high - list[i].low) {
            *which = (struct private *)&list[i];
            return true;
        }
    return false;
}

static struct reduction *reduction_at(uintptr_t a) {
    for (int i = 0; i < here.reduction_count; i++) {
        struct reduction *r = &here.reductions[i];
        if (a - r->low < r->high - r->low || (r->location && a - (uintptr_t)r->location < r->location_bytes)) return r;
    }
    return NULL;
}

static void interval(struct site *s, uintptr_t low, uintptr_t high) {
    s->home = &weft_nowhere;
    s->low = low;
    s->length = high - low;
}

static void mode(struct site *s, enum mode m, stamp_t limit) {
    stamp_t base = now.base;
    /* A statement of a sequential part comes behind all that was written: nothing is newer. */
    bool behind = m == HOST || (m == OWN && here.what == OWNED);
    if (behind) limit = SPLIT - 1;
    s->fresh = limit;
    if (weft_task.in_task) { /* what other tasks wrote is judged */
        base = weft_task.base;
        limit = limit < base ? limit : base;
    }
    s->mode = (unsigned char)m;
    s->least = 0;
    s->limit = s->known = limit;
    s->track = m == SHARED ? 1 : m == REPLICATED ? 2 : 0;
    s->floor = base + 1;
    s->span = REDZONE + 1 - s->floor;
    if (s->track) /* only what this iteration wrote itself passes the hooks */
    {
        s->least = 1;
        s->limit = 0;
        s->floor = 0;
        s->span = UINT32_MAX;
    }
    if (m == FREE) {
        s->limit = SPLIT - 1;
        s->floor = SPLIT;
        s->span = 1;
    }
    if (m == PRIVATE || behind) {
        s->floor = SPLIT;
        s->span = REDZONE + 1 - SPLIT;
    }
}

/* The part of an array around `a` that lies alike to every iteration: free dimensions that are contiguous. */
static void around(struct site *s, const struct aspect *v, uintptr_t a, size_t size) {
    const struct object *o = v->object;
    int64_t at[WEFT_MAX_RANK];
    index_of(o, a, at);
    uintptr_t low = o->low, block = o->element;
    bool inner = true;
    s->follows = 0;
    s->period = s->total = 0; /* whatever was said of a block */
    for (int k = 0; k < o->rank; k++) {
        int d = o->order == WEFT_ORDER_C ? o->rank - 1 - k : k;
        if (v->free[d] && inner) {
            block *= (uintptr_t)(o->extent[d] > 0 ? o->extent[d] : 1);
            continue;
        }
        inner = false;
        if (v->free[d] && !s->period) { /* not contiguous: the same again every stride */
            s->period = (uintptr_t)o->stride[d];
            s->total = (uintptr_t)(o->extent[d] * o->stride[d]);
        }
        low += (uintptr_t)((at[d] - o->lower[d]) * o->stride[d]);
    }
    s->home = v->home;
    s->low = low - *v->home;
    s->length = block;
    s->closed |= a + size > low + block || !v->exact;
}

/* With a grid: from which to which index of dimension i an array's elements lie in the block of `at`, which is the
 * iteration's own in that dimension, too; else `at` alone. */
static void alike(const struct aspect *v, int i, int64_t at, int64_t own, int64_t *first, int64_t *last) {
    const struct object *o = v->object;
    *first = o->lower[i];
    *last = o->lower[i] + o->extent[i] - 1;
    for (int d = 0; !v->free[i] && d < o->root->rank; d++) {
        const struct term *m = &o->map[d];
        if (m->axis != i || o->root->kinds[d] == WEFT_WHOLE) continue;
        int64_t from, to;
        block_of(o->root, d, at + m->offset, &from, &to);
        from -= m->offset;
        to -= m->offset;
        bool same = m->coefficient == 1 && from <= own && own <= to;
        *first = !same ? at : from > *first ? from : *first;
        *last = !same ? at : to < *last ? to : *last;
    }
}

/* With a grid: the elements of this row of the array that are alike. What holds for one holds for all as long as the
 * iterations stay in their blocks; and in other rows, where those are alike. */
static void around_in_block(struct site *s, const struct aspect *v, uintptr_t a, const int64_t at[]) {
    const struct object *o = v->object;
    int64_t own[WEFT_MAX_RANK], first, last;
    uintptr_t low = a - (a - o->low) % o->element, bytes = o->element;
    home_of(v, here.index, own);
    for (int k = 0; k < o->rank; k++) {
        int i = o->order == WEFT_ORDER_C ? o->rank - 1 - k : k;
        alike(v, i, at[i], own[i], &first, &last);
        if (bytes < (uintptr_t)o->stride[i]) { /* all before was not whole: from here on it is other rows */
            s->lowest = low - (uintptr_t)((at[i] - first) * o->stride[i]);
            s->highest = low + (uintptr_t)((last - at[i]) * o->stride[i]);
            s->follows = block_site_follows(v) ? (unsigned char)(i + 1) : 0;
            break;
        }
        low -= (uintptr_t)((at[i] - first) * o->stride[i]);
        bytes += (uintptr_t)((last - first) * o->stride[i]);
    }
    interval(s, low, low + bytes);
}

static bool within(int64_t delta, int64_t low, int64_t high) { return -low <= delta && delta <= high; }

/* Where an element lies to the iteration: own (0), in widths (1), beyond (2). delta counts from the own block. */
static int distance(const struct aspect *v, const int64_t at[], const struct widths *w, int64_t delta[], int *axes) {
    const struct object *o = v->object;
    int64_t own[WEFT_MAX_RANK];
    home_of(v, here.index, own);
    int far = 0;
    *axes = 0;
    for (int k = 0; k < o->rank; k++) {
        delta[k] = v->free[k] ? 0 : at[k] - own[k];
        if (delta[k] == 0) continue;
        for (int d = 0; !v->remote && o->root && d < o->root->rank; d++) {
            const struct term *m = &o->map[d];
            if (m->axis != k || !m->coefficient) continue;
            int64_t t = m->coefficient * own[k] + m->offset, x = m->coefficient * at[k] + m->offset;
            int64_t low = block_low(o->root, d, t), high = block_high(o->root, d, t);
            if (low <= x && x <= high) delta[k] = 0;
            else if (low != high) /* from the block's edge */
                delta[k] = (x > high ? x - high : x - low) / m->coefficient;
        }
        if (delta[k] == 0) continue;
        (*axes)++;
        if (!within(delta[k], w->low[k], w->high[k])) far = 2;
        else if (far == 0) far = 1;
    }
    return far;
}

static bool outside(const struct object *o, const int64_t at[]) {
    for (int k = 0; k < o->rank; k++)
        if (at[k] < o->lower[k] || at[k] >= o->lower[k] + o->extent[k]) return true;
    return false;
}

static void bad(struct site *s, struct detail *d, const char *kind, const char *why) {
    s->closed = true;
    s->mode = BAD;
    d->kind = kind;
    d->why = why;
}

static bool everywhere(const struct object *o) /* no dimension is distributed */
{
    for (int d = 0; d < o->root->rank; d++)
        if (o->root->kinds[d] != WEFT_WHOLE && o->map[d].axis != WEFT_ALL) return false;
    return true;
}

static bool fixed_elsewhere(const struct object *o) {
    const struct object *root = o->root;
    if ((root->tasks != here.on->tasks || root->task != here.on->task) && !everywhere(o))
        return true; /* the processors of another task, or those of a task and all of them */
    for (int d = 0; d < o->root->rank; d++) {
        int e = o->root->kinds[d] == WEFT_WHOLE ? -1 : paired(o->root, d, here.on);
        if (e >= 0 && o->map[d].axis == WEFT_CONSTANT && here.at[e].axis != WEFT_ALL) {
            const struct term *t = &here.at[e];
            int64_t x = t->axis >= 0 ? t->coefficient * here.index[t->axis] + t->offset : t->offset;
            if (!same_owner(o->root, d, x, o->map[d].offset)) return true;
        }
    }
    return false;
}

/* Whether an iteration runs on all processors along a dimension (`on A[i][]`, or the ON array has no dimension there),
 * among which the array is distributed: its elements are far from all of them but one. */
static bool on_many(const struct object *o) {
    const struct object *root = o->root;
    if (here.what != LOOP) return false;
    for (int d = 0; d < root->rank; d++) {
        if (root->kinds[d] == WEFT_WHOLE || o->map[d].axis == WEFT_ALL) continue;
        int e = root == here.on ? d : paired(root, d, here.on);
        if ((e < 0 || here.at[e].axis == WEFT_ALL) &&
            !same_owner(root, d, root->lower[d], root->lower[d] + root->extent[d] - 1))
            return true;
    }
    return false;
}

/* Whether an array is distributed otherwise than the loop's own, with another root: which elements are where the
 * iteration is depends on how many processors there are. */
static bool otherwise(const struct object *o) {
    for (int d = 0; o->root != here.on && d < o->root->rank; d++) {
        int e = o->root->kinds[d] == WEFT_WHOLE ? -1 : paired(o->root, d, here.on);
        if (e >= 0 && o->map[d].axis != WEFT_ALL && here.at[e].axis != WEFT_ALL &&
            !alike_distributed(o->root, d, here.on, e))
            return true;
    }
    return false;
}

/* With a grid: whether an element of such an array is on the iteration's processor. */
static bool on_processor(const struct object *o, const int64_t at[]) {
    for (int d = 0; d < o->root->rank; d++) {
        int e = o->root->kinds[d] == WEFT_WHOLE ? -1 : paired(o->root, d, here.on);
        const struct term *m = &o->map[d], *t = &here.at[e < 0 ? 0 : e];
        if (e < 0 || m->axis == WEFT_ALL || t->axis == WEFT_ALL) continue;
        int64_t x = m->axis >= 0 ? m->coefficient * at[m->axis] + m->offset : m->offset;
        int64_t own = t->axis >= 0 ? t->coefficient * here.index[t->axis] + t->offset : t->offset;
        if (!same_processor(o->root, d, x, here.on, e, own)) return false;
    }
    return true;
}

/* Whether one coordinate of an array is the same for all of it, so that some iterations are there and some are not. */
static bool fixed_somewhere(const struct object *o) {
    for (int d = 0; d < o->root->rank; d++) {
        int e = o->root->kinds[d] == WEFT_WHOLE ? -1 : paired(o->root, d, here.on);
        bool moves = e >= 0 && here.at[e].axis != WEFT_ALL && (here.at[e].axis >= 0 || here.what == OWNED);
        if (moves && o->map[d].axis == WEFT_CONSTANT) return true;
    }
    return false;
}

static void edge(struct site *s, struct detail *d, const struct aspect *v, bool write, const int64_t delta[],
                 int axes) {
    struct object *o = v->object;
    const struct widths *have = &o->renewed;
    bool covered = o->renewed_at != 0;
    for (int k = 0; k < o->rank && covered; k++) covered = within(delta[k], have->low[k], have->high[k]);
    if (write) bad(s, d, "halo-write", NULL);
    else if (o->begun_at) bad(s, d, "stale-halo-read", "begun");
    else if (!covered) bad(s, d, "stale-halo-read", o->renewed_at ? "narrow" : "never");
    else if (axes > 1 && !o->corner) bad(s, d, "stale-halo-read", "corner");
    else mode(s, EDGE, o->renewed_at < now.base ? o->renewed_at : now.base);
}

/* What earlier instances of a loop did to a shared object: where none wrote it, its readers need not be known. A loop
 * that begins to write it is noticed, but not against the reads before that. */
#define MOST_USAGES 16384
#define PROBES 8
static struct usage {
    int construct;
    uintptr_t low;
    unsigned first; /* instance that used it first */
    bool written;
} *usages; /* a table that doubles where a quarter is taken, until it has the most slots */
static unsigned usage_room, usage_count;

/* The usage of an object in a construct, or where it is to be; where all of its slots are taken that is the first,
 * which is forgotten. */
static struct usage *usage_slot(int construct, uintptr_t low) {
    uint64_t key = (low ^ (uint64_t)construct << 48) * 0x9E3779B97F4A7C15u;
    struct usage *first = &usages[(key >> 40) % (usage_room - PROBES)];
    for (struct usage *u = first; u < first + PROBES; u++)
        if (u->construct == 0 || (u->construct == construct && u->low == low)) return u;
    return first;
}

static void more_usages(void) {
    struct usage *old = usages;
    unsigned count = usage_room;
    usage_room = count ? 2 * count : 512;
    usages = calloc(usage_room, sizeof *usages);
    if (!usages) abort();
    for (unsigned i = 0; i < count; i++)
        if (old[i].construct) *usage_slot(old[i].construct, old[i].low) = old[i];
    free(old);
}

static struct usage *usage_of(uintptr_t low) {
    if (4 * usage_count >= usage_room && usage_room < MOST_USAGES) more_usages();
    struct usage *u = usage_slot(here.id, low);
    if (u->construct == here.id && u->low == low) return u;
    usage_count += u->construct == 0;
    *u = (struct usage){here.id, low, here.instance, false};
    return u;
}

static bool only_read_so_far(uintptr_t low, bool write) {
    struct usage *u = usage_of(low);
    u->written |= write;
    return !u->written && u->first < here.instance && !weft_task.in_task;
}

/* What a REMOTE_ACCESS clause of the construct brings. */
static bool fetched(struct site *s, struct detail *d, struct object *o, uintptr_t a, const int64_t at[], size_t size,
                    bool write) {
    const struct widths nothing = {{0}, {0}};
    for (int i = 0; i < here.aspect_count; i++) {
        struct aspect *r = &here.aspects[i];
        int64_t delta[WEFT_MAX_RANK];
        int axes;
        if (!r->remote || r->object != o || distance(r, at, &nothing, delta, &axes) != 0) continue;
        around(s, r, a, size);
        mode(s, REMOTE, r->filled < now.base ? r->filled : now.base);
        if (write) bad(s, d, "remote-access", "buffer-write");
        else if (!r->filled) bad(s, d, "remote-access", "not-filled");
        return true;
    }
    return false;
}

/* An array where tables tell who owns an element: nothing that holds here holds at a distance from here. */
static void by_tables(struct site *s, struct detail *d, struct object *o, uintptr_t a, const int64_t at[], size_t size,
                      bool write) {
    unsigned apart = scattered_apart(o, at);
    stamp_t when = 0;
    interval(s, a, a + size);
    if (!apart) {
        mode(s, here.flags & WEFT_UNORDERED ? SHARED : OWN, now.base);
    } else if (!fetched(s, d, o, a, at, size, write)) {
        int edge = scattered_edge(o, at, apart, &when);
        if (edge == 0) bad(s, d, "remote-access", here.what == OWNED ? "sequential" : NULL);
        else if (write) bad(s, d, "halo-write", NULL);
        else if (edge == 1) bad(s, d, "stale-halo-read", "never");
        else mode(s, EDGE, when < now.base ? when : now.base);
    }
    s->closed = true;
}

/* A distributed array in a construct that has owners. */
static void owned(struct site *s, struct detail *d, struct object *o, uintptr_t a, size_t size, bool write) {
    struct aspect *v = aspect_of(o);
    int64_t at[WEFT_MAX_RANK];
    int axes;
    index_of(o, a, at);
    if (outside(o, at)) {
        bad(s, d, "out-of-bounds", NULL);
        return;
    }
    if (!v) {
        interval(s, o->low, o->high);
        bool shared = here.what == LOOP && !here.on;
        mode(s, shared ? SHARED : OWN, now.base);
        if (shared && only_read_so_far(o->low, write)) {
            s->track = 0;
            s->least = 0;
            s->limit = now.base;
        }
        return;
    }
    const struct widths nothing = {{0}, {0}};
    if (scattered(o->root) || scattered(here.on)) {
        by_tables(s, d, o, a, at, size, write);
        return;
    }
    if (otherwise(o)) {
        interval(s, a, a + size);
        if (gridded() && on_processor(o, at)) mode(s, here.flags & WEFT_UNORDERED ? SHARED : OWN, now.base);
        else if (!fetched(s, d, o, a, at, size, write))
            bad(s, d, "remote-access", here.what == OWNED ? "sequential" : "otherwise");
        s->closed = true;
        return;
    }
    if (gridded()) around_in_block(s, v, a, at);
    else around(s, v, a, size);
    int far = distance(v, at, &nothing, d->delta, &axes);
    bool elsewhere = fixed_elsewhere(o) || on_many(o);
    d->has_delta = true;
    d->steady = gridded() || !fixed_somewhere(o);
    s->closed |= !d->steady; /* which iterations are there changes with each */
    if (far == 0 && !elsewhere) {
        mode(s, v->across ? ACROSS : OWN, v->across ? SPLIT - 1 : now.base);
        if (here.flags & WEFT_UNORDERED) mode(s, SHARED, now.base);
        return;
    }
    if (v->across && !elsewhere && distance(v, at, &v->over, d->delta, &axes) == 1) {
        mode(s, ACROSS, SPLIT - 1);
        if (write) bad(s, d, "halo-write", NULL);
        return;
    }
    for (int i = 0; i < here.computed_count && write; i++)
        if (here.computed[i].object->root == o->root && distance(v, at, &o->shadow, d->delta, &axes) == 1) {
            mode(s, OWN, now.base);
            return;
        }
    if (fetched(s, d, o, a, at, size, write)) return;
    far = elsewhere ? 2 : distance(v, at, &o->shadow, d->delta, &axes);
    if (far == 1) edge(s, d, v, write, d->delta, axes);
    else bad(s, d, "remote-access", here.what == OWNED ? "sequential" : NULL);
}

/* An array without distribution that ACROSS names: TIE says which element is whose. */
static bool tied_across(struct site *s, struct detail *d, struct object *o, uintptr_t a, size_t size) {
    int i = 0;
    while (i < here.across_count && here.across[i].object != o) i++;
    if (i == here.across_count) return false;
    struct aspect *v = aspect_of(o);
    if (!v) {
        interval(s, o->low, o->high);
        mode(s, ACROSS, SPLIT - 1);
        return true;
    }
    int64_t at[WEFT_MAX_RANK];
    int axes;
    index_of(o, a, at);
    const struct widths *over = &here.across[i].widths;
    bool covered = distance(v, at, over, d->delta, &axes) == 0;
    /* A dependence is covered where it is in one of the declared dimensions: the loop runs in order along it. */
    for (int k = 0; k < o->rank; k++) {
        int64_t most = over->low[k] > over->high[k] ? over->low[k] : over->high[k];
        covered |= d->delta[k] != 0 && within(d->delta[k], most, most);
    }
    d->has_delta = true;
    if (!covered) return false;
    around(s, v, a, size);
    mode(s, ACROSS, SPLIT - 1);
    return true;
}

/* A replicated array whose copies are made the same afterwards: each iteration writes what the clause gives it. */
static void consistent(struct site *s, struct detail *d, struct object *o, uintptr_t a, size_t size, bool write) {
    const struct widths nothing = {{0}, {0}};
    struct aspect *v = aspect_of(o);
    int64_t at[WEFT_MAX_RANK];
    int axes;
    interval(s, o->low, o->high);
    index_of(o, a, at);
    if (write && v && distance(v, at, &nothing, d->delta, &axes) != 0) {
        d->has_delta = true;
        bad(s, d, "shared-write", "consistent");
        return;
    }
    if (write && v) around(s, v, a, size);
    mode(s, SHARED, now.base);
}

static void in_construct(struct site *s, struct detail *d, uintptr_t a, size_t size, bool write) {
    struct private *which;
    struct reduction *r;
    struct object *o = s->object;
    if (among(here.indices, here.index_count, a, &which)) {
        interval(s, which->low, which->high);
        mode(s, FREE, 0);
    } else if (among(here.privates, here.private_count, a, &which)) {
        interval(s, which->low, which->high);
        mode(s, PRIVATE, 0);
    } else if ((r = reduction_at(a))) {
        bool location = a - r->low >= r->high - r->low;
        interval(s, location ? (uintptr_t)r->location : r->low,
                 location ? (uintptr_t)r->location + r->location_bytes : r->high);
        mode(s, FREE, 0);
        if (!write) r->reader = s->place;
    } else if (on_stack(a) && (a < here.frame || !o)) { /* of what iterations call, or of the compiler */
        uintptr_t low, high;
        object_gap(a, &low, &high);
        uintptr_t frame = a < here.frame ? (uintptr_t)__builtin_frame_address(0) : here.frame;
        interval(s, low > frame ? low : frame, a < here.frame && !o && here.frame < high ? here.frame : high);
        mode(s, FREE, 0);
    } else if (o && o->distributed && o->tasks && weft_task.in_task && o->tasks == weft_task.tasks &&
               o->task != weft_task.task) {
        bad(s, d, "remote-access", "task");
    } else if (o && o->distributed) {
        owned(s, d, o, a, size, write);
    } else if (o && here.what == LOOP && is_consistent(o)) {
        consistent(s, d, o, a, size, write);
    } else if (o && o->array && here.what == LOOP && tied_across(s, d, o, a, size)) {
        return;
    } else {
        interval(s, o ? o->low : a, o ? o->high : a + size);
        if (here.what == OWNED) {
            mode(s, HOST, now.cur);
            return;
        }
        bool shared = here.what == LOOP && (!here.on || here.flags & WEFT_UNORDERED);
        mode(s, shared ? SHARED : REPLICATED, now.base);
        if (shared && only_read_so_far(o ? o->low : a, write)) {
            s->track = 0;
            s->least = 0;
            s->limit = now.base;
        }
    }
}

/* What is older than this may be another copy than the one that is read here: it is judged element by element. */
static void only_since(struct site *s, stamp_t since) {
    s->since = since;
    if (s->track) return;
    stamp_t newest = s->least + s->limit;
    if (newest < since) {
        s->least = 1;
        s->limit = 0;
    } else {
        s->least = since;
        s->limit = newest - since;
    }
}

static void copies(struct site *s, struct object *o, bool write) {
    if (!o || s->mode == BAD) return;
    if (weft_in_region) {
        if (!o->array && !o->direction && !write) /* a scalar that is only read is passed by value */
            return;
        if (!o->on_device) o->on_device = region_start();
        if (write) o->device_wrote = now.cur;
        else if (o->host_wrote > o->actual_at || o->direction == WEFT_OUT || o->direction == WEFT_LOCAL ||
                 o->local_to || (o->device_wrote > o->got_at && o->actual_at > o->device_wrote))
            only_since(s, region_start());
        if (write && o->direction == WEFT_IN) s->closed = true;
    } else if (o->on_device) {
        if (write) o->host_wrote = now.cur;
        else if (o->device_wrote > o->got_at) only_since(s, region_end_stamp());
    }
}

/* Whether a REMOTE_ACCESS directive of this statement names the element. */
static bool named_remote(const struct object *o, uintptr_t a) {
    int64_t at[WEFT_MAX_RANK];
    index_of(o, a, at);
    for (int i = 0; i < here.remote_count; i++) {
        bool all = here.remotes[i].object == o;
        for (int k = 0; all && k < here.remotes[i].rank; k++)
            all = here.remotes[i].terms[k].axis == WEFT_ALL || here.remotes[i].terms[k].offset == at[k];
        if (all) return true;
    }
    return false;
}

static void in_sequence(struct site *s, struct detail *d, uintptr_t a, bool write) {
    struct object *o = s->object;
    if (o) {
        interval(s, o->low, o->high);
    } else {
        uintptr_t low, high;
        object_gap(a, &low, &high);
        interval(s, low, high);
    }
    mode(s, HOST, now.cur);
    if ((here.what == TASKS || weft_task.in_task) && !o && on_stack(a)) { /* of the compiler, between tasks */
        mode(s, FREE, 0);
        return;
    }
    if (!o || !o->distributed || here.what == TASKS || weft_io || everywhere(o)) return;
    d->steady = here.remote_count == 0;
    bool remote = here.remote_count && named_remote(o, a);
    if (here.remote_count) s->closed = true;
    if (remote && write) bad(s, d, "remote-access", "buffer-write");
    else if (weft_sequential_checked && !remote && !write) bad(s, d, "remote-access", "sequential");
}

bool site_again(struct site *s, uintptr_t a, size_t size) /* the interval, some periods on */
{
    if (s->home == &weft_nowhere) return block_site_again(s, a, size);
    if (!s->period) return false;
    uintptr_t from = a - *s->home - s->low;
    if ((intptr_t)from < 0) from += s->total;
    uintptr_t over = from % s->period;
    if (from >= s->total || over + size > s->length) return false;
    const struct object *o = s->object;
    int64_t before[WEFT_MAX_RANK], after[WEFT_MAX_RANK];
    index_of(o, *s->home + s->low, before);
    index_of(o, a - over, after);
    int moved = 0; /* only the one free dimension may have changed */
    for (int k = 0; k < o->rank; k++) moved += before[k] != after[k] && (uintptr_t)o->stride[k] != s->period;
    if (moved || outside(o, after)) return false;
    s->low = a - over - *s->home;
    s->changed = ++weft_sites_changed;
    return true;
}

/* What a place may access from here on in this construct, and what is to be said of it where that is nothing. */
void site_open(struct site *s, struct detail *verdict, uintptr_t a, size_t size, bool write, uintptr_t place) {
    struct site *next = s->next;
    weft_sites_changed += s->key != 0;
    block_site_aside(s);
    *s = (struct site){
        .write = write, .size = (unsigned char)size, .place = place, .next = next, .context = weft_context};
    s->object = object_at(a);
    if (!s->object && !on_stack(a)) s->object = block_object(a, size);
    else if (s->object && !s->object->array && s->object->data == 0) /* a long block without a name */
        block_shape(s->object, size);
    s->home = &weft_nowhere;
    if (here.what != SEQUENTIAL) ran_place(place);
    if (here.started || here.what == OWNED) in_construct(s, verdict, a, size, write);
    else in_sequence(s, verdict, a, write);
    copies(s, s->object, write);
    uintptr_t length = s->length;
    s->closed |= length < size;
    if (weft_parts_under_way && s->object) s->closed |= under_way_near(s->object->low, s->object->high);
    if (s->mode == BAD) {
        s->wrong_home = s->home;
        s->wrong_low = s->low;
        s->known = verdict->steady && now.looked ? weft_sites_forgotten : 0;
    }
    if (s->closed || !now.looked) { /* judged again */
        s->home = &weft_nowhere;
        s->low = 1;
        s->reach = 0;
    } else {
        s->reach = length - size;
        s->key = place;
        s->changed = ++weft_sites_changed;
        open_site(s);
        if (here.what == OWNED && s->mode != HOST) owned_opened(s);
    }
}
