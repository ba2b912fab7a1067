/* Distributions by tables: `indirect` (an owner for each element), `derived` (elements go where others are that name
 * them), the named shadow edges of such arrays, and `localize`.
 *
 * A processor is a number: the coordinate of an element that has one of its own, the first coordinate of its block with
 * a grid, or what the table of its dimension says. Without a grid the table of `indirect` says nothing: its numbers are
 * those of one processor.
 */
#include "growing.h"
#include "scattered.h"

#include "access.h"
#include "cells.h"
#include "findings.h"
#include "loops.h"
#include "objects.h"
#include "ownership.h"
#include "ran.h"

#include <stdlib.h>
#include <string.h>

static bool tabled(const struct object *root, int d) {
    return root->owner[d] && (root->kinds[d] == WEFT_DERIVED || (root->kinds[d] == WEFT_INDIRECT && gridded()));
}

static bool by_table(int kind) { return kind == WEFT_INDIRECT || kind == WEFT_DERIVED; }

bool scattered(const struct object *root) {
    for (int d = 0; root && d < root->rank; d++)
        if (by_table(root->kinds[d])) return true;
    return false;
}

static int64_t processor_of(const struct object *root, int d, int64_t x) {
    int64_t at = x - root->lower[d];
    if (at < 0 || at >= root->extent[d]) return INT64_MIN;
    if (tabled(root, d)) return root->owner[d][at];
    return by_table(root->kinds[d]) ? x : block_low(root, d, x);
}

static int64_t *table_of(struct object *o, int d) {
    if (!o->owner[d] && o->extent[d] > 0) {
        o->owner[d] = malloc(sizeof(int64_t) * (size_t)o->extent[d]);
        for (int64_t k = 0; o->owner[d] && k < o->extent[d]; k++) o->owner[d][k] = INT64_MIN + 1; /* nobody named it */
    }
    return o->owner[d];
}

static void set_owner(struct object *o, int d, int64_t element, int64_t processor) {
    int64_t *table = o && d < o->rank ? table_of(o, d) : NULL;
    if (table && element >= o->lower[d] && element < o->lower[d] + o->extent[d])
        table[element - o->lower[d]] = processor;
}

int64_t weft_check_extent(int data, const void *base, int dimension) {
    const struct object *o = now.off ? NULL : object_of(data, base);
    return o && dimension < o->rank ? o->extent[dimension] : 0;
}

int64_t weft_check_lower(int data, const void *base, int dimension) {
    const struct object *o = now.off ? NULL : object_of(data, base);
    return o && dimension < o->rank ? o->lower[dimension] : 0;
}

void weft_check_owner(int data, const void *base, int dimension, int64_t element, int64_t processor) {
    if (!now.off) set_owner(object_of(data, base), dimension, element, processor);
}

/* The processor of an array's index: through its alignment. */
static int64_t processor_at(const struct object *o, int axis, int64_t index) {
    for (int d = 0; o && o->root && d < o->root->rank; d++) {
        const struct term *m = o == o->root ? &(struct term){d, 1, 0} : &o->map[d];
        if (m->axis == axis) return processor_of(o->root, d, m->coefficient * index + m->offset);
    }
    return INT64_MIN;
}

void weft_check_owner_derived(int data, const void *base, int dimension, int64_t element, int target,
                              const void *target_base, int axis, int64_t index) {
    if (!now.off)
        set_owner(object_of(data, base), dimension, element, processor_at(object_of(target, target_base), axis, index));
}

/* --- where an element lies to the iteration --- */

/* Whether an element of an array belongs to another processor than the iteration's, and in which dimensions of the
 * root: a bit each. */
unsigned scattered_apart(const struct object *o, const int64_t at[]) {
    unsigned apart = 0;
    for (int d = 0; here.on && d < o->root->rank && d < here.on->rank; d++) {
        const struct term *t = &here.at[d], *m = o == o->root ? &(struct term){d, 1, 0} : &o->map[d];
        if (o->root->kinds[d] == WEFT_WHOLE || here.on->kinds[d] == WEFT_WHOLE || t->axis == WEFT_ALL ||
            m->axis == WEFT_ALL)
            continue;
        int64_t mine = t->axis >= 0 ? t->coefficient * here.index[t->axis] + t->offset : t->offset;
        int64_t its = m->axis >= 0 ? m->coefficient * at[m->axis] + m->offset : m->offset;
        if (processor_of(here.on, d, mine) != processor_of(o->root, d, its)) apart |= 1u << d;
    }
    return apart;
}

/* --- named edges --- */

struct reach {
    int64_t element, index; /* what is reached, from which index of the target */
};

static struct edge {
    int name, dimension, axis, over;
    struct object *root, *target;
    struct reach *reached; /* by element */
    size_t count, room;
    struct {
        const struct object *object;
        stamp_t renewed;
    } arrays[32];
    int array_count;
} *edges;
static int edge_count;
static size_t edge_room;

static struct edge *edge_of(const struct object *root, int name) {
    for (int i = 0; i < edge_count; i++)
        if (edges[i].root == root && edges[i].name == name) return &edges[i];
    return NULL;
}

static stamp_t *renewed(struct edge *e, const struct object *o, bool make) {
    for (int i = 0; i < e->array_count; i++)
        if (e->arrays[i].object == o) return &e->arrays[i].renewed;
    if (!make || e->array_count == 32) return NULL;
    e->arrays[e->array_count].object = o;
    e->arrays[e->array_count].renewed = 0;
    return &e->arrays[e->array_count++].renewed;
}

static int current = -1; /* the edge that is being made */

void weft_check_edge_begin(int construct, int name, int data, const void *base, int dimension, int target,
                           const void *target_base, int axis, int over) {
    current = -1;
    if (now.off) return;
    struct object *o = object_of(data, base), *t = object_of(target, target_base);
    if (!o || !o->root || !t || !t->root) {
        usage_error("undistributed", construct, o && o->root ? target : data);
        return;
    }
    tick();
    ran(construct);
    int d = 0;
    while (o != o->root && d < o->root->rank && o->map[d].axis != dimension) d++;
    struct edge *e = edge_of(o->root, name);
    if (e) free(e->reached);
    else {
        GROW(edges, (size_t)edge_count, edge_room, 16);
        e = &edges[edge_count++];
    }
    *e = (struct edge){.name = name,
                       .dimension = o == o->root ? dimension : d,
                       .axis = axis,
                       .over = over,
                       .root = o->root,
                       .target = t};
    current = (int)(e - edges);
    if (o->low) renewed(e, o, true);
}

void weft_check_edge_element(int64_t index, int64_t element) {
    struct edge *e = current < 0 ? NULL : &edges[current];
    if (!e) return;
    GROW(e->reached, e->count, e->room, 64);
    e->reached[e->count++] = (struct reach){element, index};
}

void weft_check_edge_include(int data, const void *base) {
    struct object *o = current < 0 ? NULL : object_of(data, base);
    if (o) renewed(&edges[current], o, true);
}

static int by_element(const void *one, const void *two) {
    int64_t a = ((const struct reach *)one)->element, b = ((const struct reach *)two)->element;
    return (a > b) - (a < b);
}

void weft_check_edge_end(void) {
    if (current >= 0) qsort(edges[current].reached, edges[current].count, sizeof(struct reach), by_element);
    current = -1;
    forget_sites();
}

/* Whether an edge brings an element to a processor. */
static bool reaches(const struct edge *e, int64_t processor, int64_t element) {
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e->reached[middle].element < element) low = middle + 1;
        else high = middle;
    }
    const struct edge *over = e->over ? edge_of(e->target->root, e->over) : NULL;
    for (; low < e->count && e->reached[low].element == element; low++) {
        int64_t index = e->reached[low].index;
        if (processor_at(e->target, e->axis, index) == processor || (over && reaches(over, processor, index)))
            return true;
    }
    return false;
}

/* Whether named edges of an array hold an element for this iteration: no (0), yes, but they were never renewed (1), or
 * yes (2), and when they were renewed last. */
int scattered_edge(const struct object *o, const int64_t at[], unsigned apart, stamp_t *when) {
    int found = 0;
    if (apart & (apart - 1)) /* in more than one dimension */
        return 0;
    for (int i = 0; i < edge_count; i++) {
        struct edge *e = &edges[i];
        int d = e->dimension;
        if (e->root != o->root || apart != 1u << d) continue;
        const struct term *t = &here.at[d], *m = o == o->root ? &(struct term){d, 1, 0} : &o->map[d];
        int64_t mine = t->axis >= 0 ? t->coefficient * here.index[t->axis] + t->offset : t->offset;
        int64_t its = m->axis >= 0 ? m->coefficient * at[m->axis] + m->offset : m->offset;
        const stamp_t *stamp = renewed(e, o, false);
        if (!stamp || !reaches(e, processor_of(here.on, d, mine), its)) continue;
        found = *stamp ? 2 : found ? found : 1;
        if (*stamp > *when) *when = *stamp;
    }
    return found;
}

void scattered_renew(struct object *o, int name) {
    for (int i = 0; i < edge_count; i++) {
        stamp_t *stamp =
            edges[i].root == o->root && (!name || edges[i].name == name) ? renewed(&edges[i], o, name != 0) : NULL;
        if (stamp) *stamp = now.cur;
    }
}

void weft_check_edge_renew(int construct, int name, int data, const void *base) {
    struct object *o = now.off ? NULL : object_of(data, base);
    if (!o) return;
    tick();
    if (!o->root || !edge_of(o->root, name)) findings_directive("edge-unknown", construct ? construct : here.id, data);
    else scattered_renew(o, name);
    forget_sites();
}

/* An object that is no more. */
void scattered_forget(struct object *o) {
    for (int i = 0; i < edge_count; i++) {
        if (edges[i].root == o || edges[i].target == o) {
            free(edges[i].reached);
            edges[i--] = edges[--edge_count];
            continue;
        }
        for (int k = 0; k < edges[i].array_count; k++)
            if (edges[i].arrays[k].object == o) edges[i].arrays[k--] = edges[i].arrays[--edges[i].array_count];
    }
    for (int d = 0; d < WEFT_MAX_RANK; d++) {
        free(o->owner[d]);
        o->owner[d] = NULL;
    }
}

/* --- localize --- */

static int64_t value_at(uintptr_t a, size_t size) {
    return size == 8 ? *(const int64_t *)a : size == 4 ? *(const int32_t *)a : INT64_MIN;
}

/* Each number in `data` must be an index of the target that its own processor has, or has an edge for. */
void weft_check_localize(int construct, int data, const void *base, int target, const void *target_base, int axis) {
    struct object *o = now.off ? NULL : object_of(data, base), *t = now.off ? NULL : object_of(target, target_base);
    if (!o || !t || !o->array) return;
    ran(construct);
    if (!o->root || !t->root) {
        usage_error("undistributed", construct, o->root ? target : data);
        return;
    }
    int d = 0;
    while (t != t->root && d < t->root->rank && t->map[d].axis != axis) d++;
    d = t == t->root ? axis : d;
    for (uintptr_t a = o->low; a < o->high && d < t->root->rank; a += o->element) {
        int64_t index[WEFT_MAX_RANK], value = value_at(a, o->element), processor = INT64_MIN;
        index_of(o, a, index);
        for (int k = 0; k < o->rank && processor == INT64_MIN; k++) processor = processor_at(o, k, index[k]);
        if (value == INT64_MIN || value < t->lower[axis] || value >= t->lower[axis] + t->extent[axis] ||
            processor == processor_at(t, axis, value))
            continue;
        bool known = false;
        for (int i = 0; i < edge_count && !known; i++)
            known = edges[i].root == t->root && edges[i].dimension == d && renewed(&edges[i], t, false) &&
                    reaches(&edges[i], processor, value);
        if (!known) findings_localize(construct, data, target, index, o->rank, value);
    }
}
