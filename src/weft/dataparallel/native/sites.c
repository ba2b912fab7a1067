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

/* Find the variable in a list of private variables that contains an address. Return whether there is one. */
bool find_variable_at(const struct private *list, int count, uintptr_t address, struct private **found_variable) {
    for (int i = 0; i < count; i++)
        if (address - list[i].low < list[i].high - list[i].low) {
            *found_variable = (struct private *)&list[i];
            return true;
        }
    return false;
}

/* Return the reduction of the construct whose variable or location contains an address; NULL if none does. */
static struct reduction *find_reduction_at(uintptr_t address) {
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        struct reduction *reduction = &weft_construct.reductions[i];
        if (address - reduction->low < reduction->high - reduction->low ||
            (reduction->location && address - (uintptr_t)reduction->location < reduction->location_bytes))
            return reduction;
    }
    return NULL;
}

/* Let a site (what one place in the code may access) cover [low, high), wherever the iterations are. */
static void set_site_interval(struct site *site, uintptr_t low, uintptr_t high) {
    site->home = &weft_nowhere;
    site->low = low;
    site->length = high - low;
}

/* Set how a site (what one place in the code may access) judges, and which stamps pass the hooks without judging.
 * `newest`: what was written later must not be read. */
static void set_judging_mode(struct site *site, enum mode new_mode, stamp_t newest) {
    stamp_t base = now.base;
    /* A statement of a sequential part comes after all that was written: nothing is newer. */
    bool behind = new_mode == HOST || (new_mode == OWN && weft_construct.what == OWNED);
    if (behind) newest = SPLIT - 1;
    site->fresh = newest;
    if (weft_task.in_task) { /* what other tasks wrote is judged */
        base = weft_task.base;
        newest = newest < base ? newest : base;
    }
    site->mode = (unsigned char)new_mode;
    site->least = 0;
    site->limit = site->known = newest;
    site->track = new_mode == SHARED ? 1 : new_mode == REPLICATED ? 2 : 0;
    site->floor = base + 1;
    site->span = REDZONE + 1 - site->floor;
    if (site->track) /* only what this iteration wrote itself passes the hooks */
    {
        site->least = 1;
        site->limit = 0;
        site->floor = 0;
        site->span = UINT32_MAX;
    }
    if (new_mode == FREE) {
        site->limit = SPLIT - 1;
        site->floor = SPLIT;
        site->span = 1;
    }
    if (new_mode == PRIVATE || behind) {
        site->floor = SPLIT;
        site->span = REDZONE + 1 - SPLIT;
    }
}

/* Let a site (what one place in the code may access) cover the part of an array around an address that lies alike to
 * every iteration: its contiguous dimensions that no loop index follows. It moves along with the iteration's own
 * element. */
static void cover_elements_alike_for_all(struct site *site, const struct aspect *aspect, uintptr_t address,
                                         size_t size) {
    const struct object *object = aspect->object;
    int64_t at[WEFT_MAX_RANK];
    compute_element_index(object, address, at);
    uintptr_t low = object->low, block = object->element;
    bool inner = true;
    site->follows = 0;
    site->period = site->total = 0; /* whatever was said of a block */
    for (int k = 0; k < object->rank; k++) {
        int d = object->order == WEFT_ORDER_C ? object->rank - 1 - k : k;
        if (aspect->free[d] && inner) {
            block *= (uintptr_t)(object->extent[d] > 0 ? object->extent[d] : 1);
            continue;
        }
        inner = false;
        if (aspect->free[d] && !site->period) { /* not contiguous: the same again every stride */
            site->period = (uintptr_t)object->stride[d];
            site->total = (uintptr_t)(object->extent[d] * object->stride[d]);
        }
        low += (uintptr_t)((at[d] - object->lower[d]) * object->stride[d]);
    }
    site->home = aspect->home;
    site->low = low - *aspect->home;
    site->length = block;
    site->closed |= address + size > low + block || !aspect->exact;
}

/* With a grid: set *first..*last to the indices of a dimension that lie in the block of `element`, if the iteration's
 * own element does, too; else to `element` alone. */
static void find_range_in_block(const struct aspect *aspect, int dimension, int64_t element, int64_t own_element,
                                int64_t *first, int64_t *last) {
    const struct object *object = aspect->object;
    *first = object->lower[dimension];
    *last = object->lower[dimension] + object->extent[dimension] - 1;
    for (int d = 0; !aspect->free[dimension] && d < object->root->rank; d++) {
        const struct term *mapping = &object->map[d];
        if (mapping->axis != dimension || object->root->kinds[d] == WEFT_WHOLE) continue;
        int64_t from, to;
        find_block_bounds(object->root, d, element + mapping->offset, &from, &to);
        from -= mapping->offset;
        to -= mapping->offset;
        bool same = mapping->coefficient == 1 && from <= own_element && own_element <= to;
        *first = !same ? element : from > *first ? from : *first;
        *last = !same ? element : to < *last ? to : *last;
    }
}

/* With a grid: let a site (what one place in the code may access) cover the elements of this row of the array that lie
 * in the same block. What holds for one of them holds for all while the iterations stay in their blocks, and for other
 * rows of the block. */
static void cover_block_elements(struct site *site, const struct aspect *aspect, uintptr_t address,
                                 const int64_t index[]) {
    const struct object *object = aspect->object;
    int64_t own[WEFT_MAX_RANK], first, last;
    uintptr_t low = address - (address - object->low) % object->element, bytes = object->element;
    compute_own_element_index(aspect, weft_construct.index, own);
    for (int k = 0; k < object->rank; k++) {
        int i = object->order == WEFT_ORDER_C ? object->rank - 1 - k : k;
        find_range_in_block(aspect, i, index[i], own[i], &first, &last);
        if (bytes < (uintptr_t)object->stride[i]) { /* all before was not whole: from here on it is other rows */
            site->lowest = low - (uintptr_t)((index[i] - first) * object->stride[i]);
            site->highest = low + (uintptr_t)((last - index[i]) * object->stride[i]);
            site->follows = let_site_follow_array(aspect) ? (unsigned char)(i + 1) : 0;
            break;
        }
        low -= (uintptr_t)((index[i] - first) * object->stride[i]);
        bytes += (uintptr_t)((last - first) * object->stride[i]);
    }
    set_site_interval(site, low, low + bytes);
}

static bool within(int64_t delta, int64_t low, int64_t high) { return -low <= delta && delta <= high; }

/* Return where an element lies relative to the iteration's own block: 0 in it, 1 within `widths` around it, 2 beyond.
 * delta[]: its distance in each dimension; *axis_count: in how many dimensions it lies outside. */
static int classify_element_distance(const struct aspect *aspect, const int64_t index[], const struct widths *widths,
                                     int64_t delta[], int *axis_count) {
    const struct object *object = aspect->object;
    int64_t own[WEFT_MAX_RANK];
    compute_own_element_index(aspect, weft_construct.index, own);
    int far = 0;
    *axis_count = 0;
    for (int k = 0; k < object->rank; k++) {
        delta[k] = aspect->free[k] ? 0 : index[k] - own[k];
        if (delta[k] == 0) continue;
        for (int d = 0; !aspect->remote && object->root && d < object->root->rank; d++) {
            const struct term *mapping = &object->map[d];
            if (mapping->axis != k || !mapping->coefficient) continue;
            int64_t t = mapping->coefficient * own[k] + mapping->offset,
                    x = mapping->coefficient * index[k] + mapping->offset;
            int64_t low = find_first_element_of_block(object->root, d, t),
                    high = find_last_element_of_block(object->root, d, t);
            if (low <= x && x <= high) delta[k] = 0;
            else if (low != high) /* from the block's edge */
                delta[k] = (x > high ? x - high : x - low) / mapping->coefficient;
        }
        if (delta[k] == 0) continue;
        (*axis_count)++;
        if (!within(delta[k], widths->low[k], widths->high[k])) far = 2;
        else if (far == 0) far = 1;
    }
    return far;
}

/* Return whether an index lies outside an array's declared bounds. */
static bool is_outside_bounds(const struct object *object, const int64_t index[]) {
    for (int k = 0; k < object->rank; k++)
        if (index[k] < object->lower[k] || index[k] >= object->lower[k] + object->extent[k]) return true;
    return false;
}

/* Let a site (what one place in the code may access) report a fault for every access: keep the finding's kind and
 * reason. */
static void mark_site_faulty(struct site *site, struct detail *detail, const char *kind, const char *why) {
    site->closed = true;
    site->mode = BAD;
    detail->kind = kind;
    detail->why = why;
}

/* Return whether every processor has all elements of an array: no dimension is distributed. */
static bool is_on_every_processor(const struct object *object) {
    for (int d = 0; d < object->root->rank; d++)
        if (object->root->kinds[d] != WEFT_WHOLE && object->map[d].axis != WEFT_ALL) return false;
    return true;
}

/* Return whether an array lies wholly on another processor than the iteration: that of another task, or one at a fixed
 * coordinate of its root. */
static bool is_fixed_on_other_processor(const struct object *object) {
    const struct object *root = object->root;
    if ((root->tasks != weft_construct.on->tasks || root->task != weft_construct.on->task) &&
        !is_on_every_processor(object))
        return true; /* the processors of another task, or those of a task and all of them */
    for (int d = 0; d < object->root->rank; d++) {
        int on_dimension =
            object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, weft_construct.on);
        if (on_dimension >= 0 && object->map[d].axis == WEFT_CONSTANT &&
            weft_construct.at[on_dimension].axis != WEFT_ALL) {
            const struct term *on_term = &weft_construct.at[on_dimension];
            int64_t x = on_term->axis >= 0
                            ? on_term->coefficient * weft_construct.index[on_term->axis] + on_term->offset
                            : on_term->offset;
            if (!have_elements_same_owner(object->root, d, x, object->map[d].offset)) return true;
        }
    }
    return false;
}

/* Return whether the iteration runs on all processors along a dimension (`on A[i][]`, or the ON array has none there)
 * among which the array is distributed, so that its elements are remote to all of them but one. */
static bool is_iteration_on_many_owners(const struct object *object) {
    const struct object *root = object->root;
    if (weft_construct.what != LOOP) return false;
    for (int d = 0; d < root->rank; d++) {
        if (root->kinds[d] == WEFT_WHOLE || object->map[d].axis == WEFT_ALL) continue;
        int on_dimension = root == weft_construct.on ? d : find_paired_dimension(root, d, weft_construct.on);
        if ((on_dimension < 0 || weft_construct.at[on_dimension].axis == WEFT_ALL) &&
            !have_elements_same_owner(root, d, root->lower[d], root->lower[d] + root->extent[d] - 1))
            return true;
    }
    return false;
}

/* Return whether an array is distributed in another way than the ON array (to whose elements iterations are mapped) and
 * not aligned with it: which elements are local depends on the number of processors then. */
static bool is_distributed_otherwise(const struct object *object) {
    for (int d = 0; object->root != weft_construct.on && d < object->root->rank; d++) {
        int on_dimension =
            object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, weft_construct.on);
        if (on_dimension >= 0 && object->map[d].axis != WEFT_ALL && weft_construct.at[on_dimension].axis != WEFT_ALL &&
            !are_dimensions_distributed_alike(object->root, d, weft_construct.on, on_dimension))
            return true;
    }
    return false;
}

/* With a grid: return whether an element of an array with another distribution is on the iteration's processor. */
static bool is_on_iteration_processor(const struct object *object, const int64_t index[]) {
    for (int d = 0; d < object->root->rank; d++) {
        int on_dimension =
            object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, weft_construct.on);
        const struct term *mapping = &object->map[d],
                          *on_term = &weft_construct.at[on_dimension < 0 ? 0 : on_dimension];
        if (on_dimension < 0 || mapping->axis == WEFT_ALL || on_term->axis == WEFT_ALL) continue;
        int64_t x =
            mapping->axis >= 0 ? mapping->coefficient * index[mapping->axis] + mapping->offset : mapping->offset;
        int64_t own = on_term->axis >= 0 ? on_term->coefficient * weft_construct.index[on_term->axis] + on_term->offset
                                         : on_term->offset;
        if (!have_elements_same_processor(object->root, d, x, weft_construct.on, on_dimension, own)) return false;
    }
    return true;
}

/* Return whether a coordinate of an array's root is the same for the whole array, so that some iterations are on its
 * processor and some are not. */
static bool has_fixed_coordinate(const struct object *object) {
    for (int d = 0; d < object->root->rank; d++) {
        int on_dimension =
            object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, weft_construct.on);
        bool moves = on_dimension >= 0 && weft_construct.at[on_dimension].axis != WEFT_ALL &&
                     (weft_construct.at[on_dimension].axis >= 0 || weft_construct.what == OWNED);
        if (moves && object->map[d].axis == WEFT_CONSTANT) return true;
    }
    return false;
}

/* Judge an access of a shadow edge: report a write, and a read of an edge that was not renewed, is too narrow or has no
 * corners; else let reads pass while the edge is fresh. */
static void judge_edge_access(struct site *site, struct detail *detail, const struct aspect *aspect, bool is_write,
                              const int64_t delta[], int axis_count) {
    struct object *object = aspect->object;
    const struct widths *have = &object->renewed;
    bool covered = object->renewed_at != 0;
    for (int k = 0; k < object->rank && covered; k++) covered = within(delta[k], have->low[k], have->high[k]);
    if (is_write) mark_site_faulty(site, detail, "halo-write", NULL);
    else if (object->begun_at) mark_site_faulty(site, detail, "stale-halo-read", "begun");
    else if (!covered) mark_site_faulty(site, detail, "stale-halo-read", object->renewed_at ? "narrow" : "never");
    else if (axis_count > 1 && !object->corner) mark_site_faulty(site, detail, "stale-halo-read", "corner");
    else set_judging_mode(site, EDGE, object->renewed_at < now.base ? object->renewed_at : now.base);
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

/* Return the table slot for the use of an object in a construct: its own, a free one, or, where all are taken, the
 * first, which is overwritten. */
static struct usage *find_usage_slot(int construct_id, uintptr_t low) {
    uint64_t key = (low ^ (uint64_t)construct_id << 48) * 0x9E3779B97F4A7C15u;
    struct usage *first = &usages[(key >> 40) % (usage_room - PROBES)];
    for (struct usage *usage = first; usage < first + PROBES; usage++)
        if (usage->construct == 0 || (usage->construct == construct_id && usage->low == low)) return usage;
    return first;
}

/* Double the table of usages and enter all that it held. */
static void grow_usage_table(void) {
    struct usage *old = usages;
    unsigned count = usage_room;
    usage_room = count ? 2 * count : 512;
    usages = calloc(usage_room, sizeof *usages);
    if (!usages) abort();
    for (unsigned i = 0; i < count; i++)
        if (old[i].construct) *find_usage_slot(old[i].construct, old[i].low) = old[i];
    free(old);
}

/* Return how the running construct has used the object at an address until now; a new entry at its first use. */
static struct usage *find_or_add_usage(uintptr_t low) {
    if (4 * usage_count >= usage_room && usage_room < MOST_USAGES) grow_usage_table();
    struct usage *usage = find_usage_slot(weft_construct.id, low);
    if (usage->construct == weft_construct.id && usage->low == low) return usage;
    usage_count += usage->construct == 0;
    *usage = (struct usage){weft_construct.id, low, weft_construct.instance, false};
    return usage;
}

/* Note an access of a shared object and return whether no instance of this loop has written it and an earlier one has
 * read it. */
static bool test_and_note_read_only(uintptr_t low, bool is_write) {
    struct usage *usage = find_or_add_usage(low);
    usage->written |= is_write;
    return !usage->written && usage->first < weft_construct.instance && !weft_task.in_task;
}

/* Open a site (what one place in the code may access) for an element that a REMOTE_ACCESS clause of the construct
 * brings into a buffer, which must be filled and must not be written. Return false if no clause does. */
static bool open_fetched_site(struct site *site, struct detail *detail, struct object *object, uintptr_t address,
                              const int64_t index[], size_t size, bool is_write) {
    const struct widths nothing = {{0}, {0}};
    for (int i = 0; i < weft_construct.aspect_count; i++) {
        struct aspect *r = &weft_construct.aspects[i];
        int64_t delta[WEFT_MAX_RANK];
        int axes;
        if (!r->remote || r->object != object || classify_element_distance(r, index, &nothing, delta, &axes) != 0)
            continue;
        cover_elements_alike_for_all(site, r, address, size);
        set_judging_mode(site, REMOTE, r->filled < now.base ? r->filled : now.base);
        if (is_write) mark_site_faulty(site, detail, "remote-access", "buffer-write");
        else if (!r->filled) mark_site_faulty(site, detail, "remote-access", "not-filled");
        return true;
    }
    return false;
}

/* Open a site (what one place in the code may access) for one element of an array that is distributed by owner tables
 * (INDIRECT, DERIVED): own, fetched, in a named edge, or remote. */
static void open_scattered_site(struct site *site, struct detail *detail, struct object *object, uintptr_t address,
                                const int64_t index[], size_t size, bool is_write) {
    unsigned apart = find_foreign_dimensions(object, index);
    stamp_t when = 0;
    set_site_interval(site, address, address + size);
    if (!apart) {
        set_judging_mode(site, weft_construct.flags & WEFT_UNORDERED ? SHARED : OWN, now.base);
    } else if (!open_fetched_site(site, detail, object, address, index, size, is_write)) {
        int edge = find_edge_for_element(object, index, apart, &when);
        if (edge == 0)
            mark_site_faulty(site, detail, "remote-access", weft_construct.what == OWNED ? "sequential" : NULL);
        else if (is_write) mark_site_faulty(site, detail, "halo-write", NULL);
        else if (edge == 1) mark_site_faulty(site, detail, "stale-halo-read", "never");
        else set_judging_mode(site, EDGE, when < now.base ? when : now.base);
    }
    site->closed = true;
}

/* Open a site (what one place in the code may access) for a distributed array in a construct whose iterations have
 * owners: decide whether the element is own, in a shadow edge, fetched or remote. */
static void open_distributed_site(struct site *site, struct detail *detail, struct object *object, uintptr_t address,
                                  size_t size, bool is_write) {
    struct aspect *aspect = find_or_add_aspect(object);
    int64_t at[WEFT_MAX_RANK];
    int axes;
    compute_element_index(object, address, at);
    if (is_outside_bounds(object, at)) {
        mark_site_faulty(site, detail, "out-of-bounds", NULL);
        return;
    }
    if (!aspect) {
        set_site_interval(site, object->low, object->high);
        bool shared = weft_construct.what == LOOP && !weft_construct.on;
        set_judging_mode(site, shared ? SHARED : OWN, now.base);
        if (shared && test_and_note_read_only(object->low, is_write)) {
            site->track = 0;
            site->least = 0;
            site->limit = now.base;
        }
        return;
    }
    const struct widths nothing = {{0}, {0}};
    if (is_distributed_by_table(object->root) || is_distributed_by_table(weft_construct.on)) {
        open_scattered_site(site, detail, object, address, at, size, is_write);
        return;
    }
    if (is_distributed_otherwise(object)) {
        set_site_interval(site, address, address + size);
        if (has_grid() && is_on_iteration_processor(object, at))
            set_judging_mode(site, weft_construct.flags & WEFT_UNORDERED ? SHARED : OWN, now.base);
        else if (!open_fetched_site(site, detail, object, address, at, size, is_write))
            mark_site_faulty(site, detail, "remote-access", weft_construct.what == OWNED ? "sequential" : "otherwise");
        site->closed = true;
        return;
    }
    if (has_grid()) cover_block_elements(site, aspect, address, at);
    else cover_elements_alike_for_all(site, aspect, address, size);
    int far = classify_element_distance(aspect, at, &nothing, detail->delta, &axes);
    bool elsewhere = is_fixed_on_other_processor(object) || is_iteration_on_many_owners(object);
    detail->has_delta = true;
    detail->steady = has_grid() || !has_fixed_coordinate(object);
    site->closed |= !detail->steady; /* which iterations are there changes with each */
    if (far == 0 && !elsewhere) {
        set_judging_mode(site, aspect->across ? ACROSS : OWN, aspect->across ? SPLIT - 1 : now.base);
        if (weft_construct.flags & WEFT_UNORDERED) set_judging_mode(site, SHARED, now.base);
        return;
    }
    if (aspect->across && !elsewhere &&
        classify_element_distance(aspect, at, &aspect->over, detail->delta, &axes) == 1) {
        set_judging_mode(site, ACROSS, SPLIT - 1);
        if (is_write) mark_site_faulty(site, detail, "halo-write", NULL);
        return;
    }
    for (int i = 0; i < weft_construct.computed_count && is_write; i++)
        if (weft_construct.computed[i].object->root == object->root &&
            classify_element_distance(aspect, at, &object->shadow, detail->delta, &axes) == 1) {
            set_judging_mode(site, OWN, now.base);
            return;
        }
    if (open_fetched_site(site, detail, object, address, at, size, is_write)) return;
    far = elsewhere ? 2 : classify_element_distance(aspect, at, &object->shadow, detail->delta, &axes);
    if (far == 1) judge_edge_access(site, detail, aspect, is_write, detail->delta, axes);
    else mark_site_faulty(site, detail, "remote-access", weft_construct.what == OWNED ? "sequential" : NULL);
}

/* Open a site (what one place in the code may access) for an undistributed array that an ACROSS clause names and whose
 * dependence it covers; TIE says which element is whose. Return false if the clause does not cover the access. */
static bool open_across_site(struct site *site, struct detail *detail, struct object *object, uintptr_t address,
                             size_t size) {
    int i = 0;
    while (i < weft_construct.across_count && weft_construct.across[i].object != object) i++;
    if (i == weft_construct.across_count) return false;
    struct aspect *aspect = find_or_add_aspect(object);
    if (!aspect) {
        set_site_interval(site, object->low, object->high);
        set_judging_mode(site, ACROSS, SPLIT - 1);
        return true;
    }
    int64_t at[WEFT_MAX_RANK];
    int axes;
    compute_element_index(object, address, at);
    const struct widths *over = &weft_construct.across[i].widths;
    bool covered = classify_element_distance(aspect, at, over, detail->delta, &axes) == 0;
    /* A dependence is covered where it is in one of the declared dimensions: the loop runs in order along it. */
    for (int k = 0; k < object->rank; k++) {
        int64_t most = over->low[k] > over->high[k] ? over->low[k] : over->high[k];
        covered |= detail->delta[k] != 0 && within(detail->delta[k], most, most);
    }
    detail->has_delta = true;
    if (!covered) return false;
    cover_elements_alike_for_all(site, aspect, address, size);
    set_judging_mode(site, ACROSS, SPLIT - 1);
    return true;
}

/* Open a site (what one place in the code may access) for an array of a CONSISTENT clause: each iteration may write
 * only the elements that the clause gives it. */
static void open_consistent_site(struct site *site, struct detail *detail, struct object *object, uintptr_t address,
                                 size_t size, bool is_write) {
    const struct widths nothing = {{0}, {0}};
    struct aspect *aspect = find_or_add_aspect(object);
    int64_t at[WEFT_MAX_RANK];
    int axes;
    set_site_interval(site, object->low, object->high);
    compute_element_index(object, address, at);
    if (is_write && aspect && classify_element_distance(aspect, at, &nothing, detail->delta, &axes) != 0) {
        detail->has_delta = true;
        mark_site_faulty(site, detail, "shared-write", "consistent");
        return;
    }
    if (is_write && aspect) cover_elements_alike_for_all(site, aspect, address, size);
    set_judging_mode(site, SHARED, now.base);
}

/* Open the site (what one place in the code may access) of an access in a loop, task or statement with an owner. What
 * the address is there decides: loop variable, private, reduction, stack, distributed or shared. */
static void open_site_in_construct(struct site *site, struct detail *detail, uintptr_t address, size_t size,
                                   bool is_write) {
    struct private *which;
    struct reduction *reduction;
    struct object *object = site->object;
    if (find_variable_at(weft_construct.indices, weft_construct.index_count, address, &which)) {
        set_site_interval(site, which->low, which->high);
        set_judging_mode(site, FREE, 0);
    } else if (find_variable_at(weft_construct.privates, weft_construct.private_count, address, &which)) {
        set_site_interval(site, which->low, which->high);
        set_judging_mode(site, PRIVATE, 0);
    } else if ((reduction = find_reduction_at(address))) {
        bool location = address - reduction->low >= reduction->high - reduction->low;
        set_site_interval(site, location ? (uintptr_t)reduction->location : reduction->low,
                          location ? (uintptr_t)reduction->location + reduction->location_bytes : reduction->high);
        set_judging_mode(site, FREE, 0);
        if (!is_write) reduction->reader = site->place;
    } else if (is_on_stack(address) &&
               (address < weft_construct.frame || !object)) { /* of what iterations call, or of the compiler */
        uintptr_t low, high;
        find_object_or_gap(address, &low, &high);
        uintptr_t frame = address < weft_construct.frame ? (uintptr_t)__builtin_frame_address(0) : weft_construct.frame;
        set_site_interval(
            site, low > frame ? low : frame,
            address < weft_construct.frame && !object && weft_construct.frame < high ? weft_construct.frame : high);
        set_judging_mode(site, FREE, 0);
    } else if (object && object->distributed && object->tasks && weft_task.in_task &&
               object->tasks == weft_task.tasks && object->task != weft_task.task) {
        mark_site_faulty(site, detail, "remote-access", "task");
    } else if (object && object->distributed) {
        open_distributed_site(site, detail, object, address, size, is_write);
    } else if (object && weft_construct.what == LOOP && is_in_consistent_clause(object)) {
        open_consistent_site(site, detail, object, address, size, is_write);
    } else if (object && object->array && weft_construct.what == LOOP &&
               open_across_site(site, detail, object, address, size)) {
        return;
    } else {
        set_site_interval(site, object ? object->low : address, object ? object->high : address + size);
        if (weft_construct.what == OWNED) {
            set_judging_mode(site, HOST, now.cur);
            return;
        }
        bool shared = weft_construct.what == LOOP && (!weft_construct.on || weft_construct.flags & WEFT_UNORDERED);
        set_judging_mode(site, shared ? SHARED : REPLICATED, now.base);
        if (shared && test_and_note_read_only(object ? object->low : address, is_write)) {
            site->track = 0;
            site->least = 0;
            site->limit = now.base;
        }
    }
}

/* Have reads of what was written before `stamp` judged one by one, since another copy may be newer. */
static void require_judging_of_older_values(struct site *site, stamp_t stamp) {
    site->since = stamp;
    if (site->track) return;
    stamp_t newest = site->least + site->limit;
    if (newest < stamp) {
        site->least = 1;
        site->limit = 0;
    } else {
        site->least = stamp;
        site->limit = newest - stamp;
    }
}

/* Note which copy of an object an access uses, the host's or the device's (regions), and have reads judged that may
 * find an old copy. */
static void note_host_or_device_use(struct site *site, struct object *object, bool is_write) {
    if (!object || site->mode == BAD) return;
    if (weft_in_region) {
        if (!object->array && !object->direction && !is_write) /* a scalar that is only read is passed by value */
            return;
        if (!object->on_device) object->on_device = region_start();
        if (is_write) object->device_wrote = now.cur;
        else if (object->host_wrote > object->actual_at || object->direction == WEFT_OUT ||
                 object->direction == WEFT_LOCAL || object->local_to ||
                 (object->device_wrote > object->got_at && object->actual_at > object->device_wrote))
            require_judging_of_older_values(site, region_start());
        if (is_write && object->direction == WEFT_IN) site->closed = true;
    } else if (object->on_device) {
        if (is_write) object->host_wrote = now.cur;
        else if (object->device_wrote > object->got_at) require_judging_of_older_values(site, region_end_stamp());
    }
}

/* Return whether the REMOTE_ACCESS directive of the running statement names the element at an address. */
static bool is_named_remote(const struct object *object, uintptr_t address) {
    int64_t at[WEFT_MAX_RANK];
    compute_element_index(object, address, at);
    for (int i = 0; i < weft_construct.remote_count; i++) {
        bool all = weft_construct.remotes[i].object == object;
        for (int k = 0; all && k < weft_construct.remotes[i].rank; k++)
            all = weft_construct.remotes[i].terms[k].axis == WEFT_ALL ||
                  weft_construct.remotes[i].terms[k].offset == at[k];
        if (all) return true;
    }
    return false;
}

/* Open the site (what one place in the code may access) of an access in sequential code: remote elements of distributed
 * arrays need a REMOTE_ACCESS directive. */
static void open_site_in_sequential_code(struct site *site, struct detail *detail, uintptr_t address, bool is_write) {
    struct object *object = site->object;
    if (object) {
        set_site_interval(site, object->low, object->high);
    } else {
        uintptr_t low, high;
        find_object_or_gap(address, &low, &high);
        set_site_interval(site, low, high);
    }
    set_judging_mode(site, HOST, now.cur);
    if ((weft_construct.what == TASKS || weft_task.in_task) && !object &&
        is_on_stack(address)) { /* of the compiler, between tasks */
        set_judging_mode(site, FREE, 0);
        return;
    }
    if (!object || !object->distributed || weft_construct.what == TASKS || weft_io || is_on_every_processor(object))
        return;
    detail->steady = weft_construct.remote_count == 0;
    bool remote = weft_construct.remote_count && is_named_remote(object, address);
    if (weft_construct.remote_count) site->closed = true;
    if (remote && is_write) mark_site_faulty(site, detail, "remote-access", "buffer-write");
    else if (weft_sequential_checked && !remote && !is_write)
        mark_site_faulty(site, detail, "remote-access", "sequential");
}

/* Shift the range of addresses that a site (a place of accesses) may use without a check, so that it contains an
 * access: this is possible if the access is whole periods further, in a dimension without a loop index. Return whether
 * the range now contains the access. */
bool move_site_to_access(struct site *site, uintptr_t address, size_t size) {
    if (site->home == &weft_nowhere) return restore_laid_aside_site(site, address, size);
    if (!site->period) return false;
    uintptr_t from = address - *site->home - site->low;
    if ((intptr_t)from < 0) from += site->total;
    uintptr_t over = from % site->period;
    if (from >= site->total || over + size > site->length) return false;
    const struct object *object = site->object;
    int64_t before[WEFT_MAX_RANK], after[WEFT_MAX_RANK];
    compute_element_index(object, *site->home + site->low, before);
    compute_element_index(object, address - over, after);
    int moved = 0; /* only the one free dimension may have changed */
    for (int k = 0; k < object->rank; k++)
        moved += before[k] != after[k] && (uintptr_t)object->stride[k] != site->period;
    if (moved || is_outside_bounds(object, after)) return false;
    site->low = address - over - *site->home;
    site->changed = ++weft_sites_changed;
    return true;
}

/* Open a site at its first access: find out what this place of the program may access in the construct without being
 * judged, and which fault (`site_verdict`) all its accesses have, if any. */
void open_site_for_access(struct site *site, struct detail *site_verdict, uintptr_t address, size_t size, bool is_write,
                          uintptr_t pc) {
    struct site *next = site->next;
    weft_sites_changed += site->key != 0;
    lay_site_aside(site);
    *site = (struct site){
        .write = is_write, .size = (unsigned char)size, .place = pc, .next = next, .context = weft_context};
    site->object = find_object_at(address);
    if (!site->object && !is_on_stack(address)) site->object = make_object_of_heap_block(address, size);
    else if (site->object && !site->object->array && site->object->data == 0) /* a long block without a name */
        block_set_plain_shape(site->object, size);
    site->home = &weft_nowhere;
    if (weft_construct.what != SEQUENTIAL) count_examined_place(pc);
    if (weft_construct.started || weft_construct.what == OWNED)
        open_site_in_construct(site, site_verdict, address, size, is_write);
    else open_site_in_sequential_code(site, site_verdict, address, is_write);
    note_host_or_device_use(site, site->object, is_write);
    uintptr_t length = site->length;
    site->closed |= length < size;
    if (weft_parts_under_way && site->object) site->closed |= is_copy_pending_in(site->object->low, site->object->high);
    if (site->mode == BAD) {
        site->wrong_home = site->home;
        site->wrong_low = site->low;
        site->known = site_verdict->steady && now.looked ? weft_sites_forgotten : 0;
    }
    if (site->closed || !now.looked) { /* judged again */
        site->home = &weft_nowhere;
        site->low = 1;
        site->reach = 0;
    } else {
        site->reach = length - size;
        site->key = pc;
        site->changed = ++weft_sites_changed;
        add_open_site(site);
        if (weft_construct.what == OWNED && site->mode != HOST) note_site_in_called_function(site);
    }
}
