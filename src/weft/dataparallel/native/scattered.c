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

static bool has_owner_table(const struct object *root, int dimension) {
    return root->owner[dimension] &&
           (root->kinds[dimension] == WEFT_DERIVED || (root->kinds[dimension] == WEFT_INDIRECT && has_grid()));
}

static bool is_kind_with_table(int kind) { return kind == WEFT_INDIRECT || kind == WEFT_DERIVED; }

/* Return whether a dimension of an array or template is distributed by a table of owners (INDIRECT, DERIVED). */
bool is_distributed_by_table(const struct object *root) {
    for (int d = 0; root && d < root->rank; d++)
        if (is_kind_with_table(root->kinds[d])) return true;
    return false;
}

/* Return a number that stands for the processor of a coordinate: from its owner table, else the first coordinate of its
 * block; INT64_MIN outside the bounds. */
static int64_t find_owner_of_coordinate(const struct object *root, int dimension, int64_t coordinate) {
    int64_t at = coordinate - root->lower[dimension];
    if (at < 0 || at >= root->extent[dimension]) return INT64_MIN;
    if (has_owner_table(root, dimension)) return root->owner[dimension][at];
    return is_kind_with_table(root->kinds[dimension]) ? coordinate
                                                      : find_first_element_of_block(root, dimension, coordinate);
}

/* Return the table with the owner of each element of a dimension; a new one, in which nobody owns an element, if need
 * be. NULL without memory. */
static int64_t *find_or_make_owner_table(struct object *object, int dimension) {
    if (!object->owner[dimension] && object->extent[dimension] > 0) {
        object->owner[dimension] = malloc(sizeof(int64_t) * (size_t)object->extent[dimension]);
        for (int64_t k = 0; object->owner[dimension] && k < object->extent[dimension]; k++)
            object->owner[dimension][k] = INT64_MIN + 1; /* nobody named it */
    }
    return object->owner[dimension];
}

/* Note which processor owns an element of a dimension; elements outside the bounds are ignored. */
static void set_owner(struct object *object, int dimension, int64_t element, int64_t processor) {
    int64_t *table = object && dimension < object->rank ? find_or_make_owner_table(object, dimension) : NULL;
    if (table && element >= object->lower[dimension] && element < object->lower[dimension] + object->extent[dimension])
        table[element - object->lower[dimension]] = processor;
}

int64_t weft_check_extent(int variable_id, const void *base, int dimension) {
    const struct object *object = now.off ? NULL : find_object(variable_id, base);
    return object && dimension < object->rank ? object->extent[dimension] : 0;
}

int64_t weft_check_lower(int variable_id, const void *base, int dimension) {
    const struct object *object = now.off ? NULL : find_object(variable_id, base);
    return object && dimension < object->rank ? object->lower[dimension] : 0;
}

void weft_check_owner(int variable_id, const void *base, int dimension, int64_t element, int64_t processor) {
    if (!now.off) set_owner(find_object(variable_id, base), dimension, element, processor);
}

/* Return a number that stands for the processor of an array's index along `axis`, through the array's alignment;
 * INT64_MIN if it has none. */
static int64_t find_owner_of_index(const struct object *object, int axis, int64_t index) {
    for (int d = 0; object && object->root && d < object->root->rank; d++) {
        const struct term *mapping = object == object->root ? &(struct term){d, 1, 0} : &object->map[d];
        if (mapping->axis == axis)
            return find_owner_of_coordinate(object->root, d, mapping->coefficient * index + mapping->offset);
    }
    return INT64_MIN;
}

/* Handle DVM's DERIVED: an element belongs to the processor that has the given index of the target along `axis`. */
void weft_check_owner_derived(int variable_id, const void *base, int dimension, int64_t element, int target_id,
                              const void *target_base, int axis, int64_t index) {
    if (!now.off)
        set_owner(find_object(variable_id, base), dimension, element,
                  find_owner_of_index(find_object(target_id, target_base), axis, index));
}

/* --- where an element lies to the iteration --- */

/* Return in which dimensions of the root an element belongs to another processor than the iteration's: a bit for
 * each. */
unsigned find_foreign_dimensions(const struct object *object, const int64_t index[]) {
    unsigned apart = 0;
    for (int d = 0; weft_construct.on && d < object->root->rank && d < weft_construct.on->rank; d++) {
        const struct term *on_term = &weft_construct.at[d],
                          *mapping = object == object->root ? &(struct term){d, 1, 0} : &object->map[d];
        if (object->root->kinds[d] == WEFT_WHOLE || weft_construct.on->kinds[d] == WEFT_WHOLE ||
            on_term->axis == WEFT_ALL || mapping->axis == WEFT_ALL)
            continue;
        int64_t mine = on_term->axis >= 0 ? on_term->coefficient * weft_construct.index[on_term->axis] + on_term->offset
                                          : on_term->offset;
        int64_t its =
            mapping->axis >= 0 ? mapping->coefficient * index[mapping->axis] + mapping->offset : mapping->offset;
        if (find_owner_of_coordinate(weft_construct.on, d, mine) != find_owner_of_coordinate(object->root, d, its))
            apart |= 1u << d;
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

/* Return the shadow edge with this name (SHADOW_ADD) of arrays that are aligned with `root`; NULL if there is none. */
static struct edge *find_named_edge(const struct object *root, int edge_name) {
    for (int i = 0; i < edge_count; i++)
        if (edges[i].root == root && edges[i].name == edge_name) return &edges[i];
    return NULL;
}

/* Return the address of the stamp of when an array's named edge was renewed last (0: never); NULL if the array does not
 * have the edge and is not to get it. */
static stamp_t *find_renewal_stamp(struct edge *edge, const struct object *object, bool add_if_missing) {
    for (int i = 0; i < edge->array_count; i++)
        if (edge->arrays[i].object == object) return &edge->arrays[i].renewed;
    if (!add_if_missing || edge->array_count == 32) return NULL;
    edge->arrays[edge->array_count].object = object;
    edge->arrays[edge->array_count].renewed = 0;
    return &edge->arrays[edge->array_count++].renewed;
}

static int current = -1; /* the edge that is being made */

/* Begin a named shadow edge (SHADOW_ADD) in a dimension of an array; its elements and arrays follow. `other_edge_name`:
 * another edge of the target whose indices count, too; 0: none. */
void weft_check_edge_begin(int construct_id, int edge_name, int variable_id, const void *base, int dimension,
                           int target_id, const void *target_base, int axis, int other_edge_name) {
    current = -1;
    if (now.off) return;
    struct object *object = find_object(variable_id, base), *t = find_object(target_id, target_base);
    if (!object || !object->root || !t || !t->root) {
        stop_for_usage_error("undistributed", construct_id, object && object->root ? target_id : variable_id);
        return;
    }
    advance_time();
    count_run(construct_id);
    int d = 0;
    while (object != object->root && d < object->root->rank && object->map[d].axis != dimension) d++;
    struct edge *edge = find_named_edge(object->root, edge_name);
    if (edge) free(edge->reached);
    else {
        GROW(edges, (size_t)edge_count, edge_room, 16);
        edge = &edges[edge_count++];
    }
    *edge = (struct edge){.name = edge_name,
                          .dimension = object == object->root ? dimension : d,
                          .axis = axis,
                          .over = other_edge_name,
                          .root = object->root,
                          .target = t};
    current = (int)(edge - edges);
    if (object->low) find_renewal_stamp(edge, object, true);
}

/* Add an element to the named edge that is being defined, and the index of the target that needs it. */
void weft_check_edge_element(int64_t index, int64_t element) {
    struct edge *edge = current < 0 ? NULL : &edges[current];
    if (!edge) return;
    GROW(edge->reached, edge->count, edge->room, 64);
    edge->reached[edge->count++] = (struct reach){element, index};
}

void weft_check_edge_include(int variable_id, const void *base) {
    struct object *object = current < 0 ? NULL : find_object(variable_id, base);
    if (object) find_renewal_stamp(&edges[current], object, true);
}

/* Comparison for qsort: entries of an edge by their element. */
static int compare_by_element(const void *one, const void *two) {
    int64_t a = ((const struct reach *)one)->element, b = ((const struct reach *)two)->element;
    return (a > b) - (a < b);
}

/* End the definition of a named shadow edge: sort its elements for the search. */
void weft_check_edge_end(void) {
    if (current >= 0) qsort(edges[current].reached, edges[current].count, sizeof(struct reach), compare_by_element);
    current = -1;
    forget_sites();
}

/* Return whether a named edge brings an element to a processor. */
static bool does_edge_bring_element(const struct edge *edge, int64_t processor, int64_t element) {
    size_t low = 0, high = edge->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (edge->reached[middle].element < element) low = middle + 1;
        else high = middle;
    }
    const struct edge *over = edge->over ? find_named_edge(edge->target->root, edge->over) : NULL;
    for (; low < edge->count && edge->reached[low].element == element; low++) {
        int64_t index = edge->reached[low].index;
        if (find_owner_of_index(edge->target, edge->axis, index) == processor ||
            (over && does_edge_bring_element(over, processor, index)))
            return true;
    }
    return false;
}

/* Return whether a named edge holds an element for this iteration: 0 no; 1 yes, but it was never renewed; 2 yes, and
 * *renewal_stamp is raised to when. */
int find_edge_for_element(const struct object *object, const int64_t index[], unsigned foreign_dimensions,
                          stamp_t *renewal_stamp) {
    int found = 0;
    if (foreign_dimensions & (foreign_dimensions - 1)) /* in more than one dimension */
        return 0;
    for (int i = 0; i < edge_count; i++) {
        struct edge *edge = &edges[i];
        int d = edge->dimension;
        if (edge->root != object->root || foreign_dimensions != 1u << d) continue;
        const struct term *on_term = &weft_construct.at[d],
                          *mapping = object == object->root ? &(struct term){d, 1, 0} : &object->map[d];
        int64_t mine = on_term->axis >= 0 ? on_term->coefficient * weft_construct.index[on_term->axis] + on_term->offset
                                          : on_term->offset;
        int64_t its =
            mapping->axis >= 0 ? mapping->coefficient * index[mapping->axis] + mapping->offset : mapping->offset;
        const stamp_t *stamp = find_renewal_stamp(edge, object, false);
        if (!stamp || !does_edge_bring_element(edge, find_owner_of_coordinate(weft_construct.on, d, mine), its))
            continue;
        found = *stamp ? 2 : found ? found : 1;
        if (*stamp > *renewal_stamp) *renewal_stamp = *stamp;
    }
    return found;
}

/* Note that an array's named edge was renewed now (0: all its edges). */
void renew_named_edges(struct object *object, int edge_name) {
    for (int i = 0; i < edge_count; i++) {
        stamp_t *stamp = edges[i].root == object->root && (!edge_name || edges[i].name == edge_name)
                             ? find_renewal_stamp(&edges[i], object, edge_name != 0)
                             : NULL;
        if (stamp) *stamp = now.cur;
    }
}

/* Handle the renewal of an array's named edge, outside of a loop or (construct_id 0) for the loop that begins. Reports
 * an unknown edge. */
void weft_check_edge_renew(int construct_id, int edge_name, int variable_id, const void *base) {
    struct object *object = now.off ? NULL : find_object(variable_id, base);
    if (!object) return;
    advance_time();
    if (!object->root || !find_named_edge(object->root, edge_name))
        report_misplaced_directive("edge-unknown", construct_id ? construct_id : weft_construct.id, variable_id);
    else renew_named_edges(object, edge_name);
    forget_sites();
}

/* Forget the named edges and owner tables of an object that no longer exists. */
void forget_edges_and_owners(struct object *object) {
    for (int i = 0; i < edge_count; i++) {
        if (edges[i].root == object || edges[i].target == object) {
            free(edges[i].reached);
            edges[i--] = edges[--edge_count];
            continue;
        }
        for (int k = 0; k < edges[i].array_count; k++)
            if (edges[i].arrays[k].object == object) edges[i].arrays[k--] = edges[i].arrays[--edges[i].array_count];
    }
    for (int d = 0; d < WEFT_MAX_RANK; d++) {
        free(object->owner[d]);
        object->owner[d] = NULL;
    }
}

/* --- localize --- */

static int64_t value_at(uintptr_t address, size_t size) {
    return size == 8 ? *(const int64_t *)address : size == 4 ? *(const int32_t *)address : INT64_MIN;
}

/* Handle DVM's LOCALIZE: report values of an array that are no index of the target which the value's own processor has,
 * by itself or by an edge. */
void weft_check_localize(int construct_id, int variable_id, const void *base, int target_id, const void *target_base,
                         int axis) {
    struct object *object = now.off ? NULL : find_object(variable_id, base),
                  *t = now.off ? NULL : find_object(target_id, target_base);
    if (!object || !t || !object->array) return;
    count_run(construct_id);
    if (!object->root || !t->root) {
        stop_for_usage_error("undistributed", construct_id, object->root ? target_id : variable_id);
        return;
    }
    int d = 0;
    while (t != t->root && d < t->root->rank && t->map[d].axis != axis) d++;
    d = t == t->root ? axis : d;
    for (uintptr_t address = object->low; address < object->high && d < t->root->rank; address += object->element) {
        int64_t index[WEFT_MAX_RANK], value = value_at(address, object->element), processor = INT64_MIN;
        compute_element_index(object, address, index);
        for (int k = 0; k < object->rank && processor == INT64_MIN; k++)
            processor = find_owner_of_index(object, k, index[k]);
        if (value == INT64_MIN || value < t->lower[axis] || value >= t->lower[axis] + t->extent[axis] ||
            processor == find_owner_of_index(t, axis, value))
            continue;
        bool known = false;
        for (int i = 0; i < edge_count && !known; i++)
            known = edges[i].root == t->root && edges[i].dimension == d && find_renewal_stamp(&edges[i], t, false) &&
                    does_edge_bring_element(&edges[i], processor, value);
        if (!known) report_remote_localized_value(construct_id, variable_id, target_id, index, object->rank, value);
    }
}
