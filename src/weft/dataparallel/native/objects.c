/* Variables, arrays and templates: where they lie and how they are distributed. */
#include "growing.h"
#include "objects.h"

#include "access.h"
#include "block_sites.h"
#include "blocks.h"
#include "cells.h"
#include "copies.h"
#include "findings.h"
#include "loops.h"
#include "ran.h"
#include "scattered.h"
#include "sites.h"
#include "under_way.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct object **table; /* sorted by address, not overlapping */
static int count;
static size_t room;
static struct object *spare, *templates;
static uintptr_t stack_low, stack_high;

uintptr_t weft_lowest_stack = UINTPTR_MAX;

/* Return whether an address lies on the calling thread's stack; its bounds are taken at the first call. */
bool is_on_stack(uintptr_t address) {
    if (!stack_high) {
        pthread_attr_t attributes;
        void *low;
        size_t size;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            pthread_attr_getstack(&attributes, &low, &size);
            stack_low = (uintptr_t)low;
            stack_high = stack_low + size;
            pthread_attr_destroy(&attributes);
        } else {
            stack_high = 1;
        }
    }
    return address - stack_low < stack_high - stack_low;
}

static struct site *opened;

const uintptr_t weft_nowhere = 0;

/* Add a site (what one place in the code may access) to the list of open ones, which close_sites closes. */
void add_open_site(struct site *site) {
    if (site->next) return;
    site->next = opened ? opened : site;
    opened = site;
}

struct site *sites_opened(void) { return opened; }

uint32_t weft_sites_changed, weft_sites_forgotten;

/* Close all open sites (what places of the program may access without being judged), so that every access is judged
 * again. */
void close_sites(void) {
    weft_sites_changed++;
    weft_sites_forgotten++;
    for (struct site *site = opened, *next; site; site = next) {
        next = site->next == site ? NULL : site->next;
        site->next = NULL;
        site->key = 0;
        site->home = &weft_nowhere;
        site->low = 1;
        site->reach = 0; /* only an access to address 1 passes */
    }
    opened = NULL;
}

void forget_sites(void) {
    close_sites();
    block_sites_forget();
}

/* --- cells --- */

/* Split the cell of a 4-byte granule into four cells of a byte each, with the same stamps. */
void split_cell_of_4(struct cell *cell, uintptr_t address) {
    if (cell->written == SPLIT) return;
    for (int i = 0; i < 4; i++) *cell1((address & ~(uintptr_t)3) + i) = *cell;
    cell->written = SPLIT;
}

/* Split the cell of an 8-byte granule into two cells of 4 bytes each, with the same stamps. */
void split_cell_of_8(struct cell *cell, uintptr_t address) {
    if (cell->written == SPLIT) return;
    *cell4(address & ~(uintptr_t)7) = *cell4((address & ~(uintptr_t)7) + 4) = *cell;
    cell->written = SPLIT;
}

/* Give the cells of [low, high), within one 8-byte granule, a state; the granule's cell is split as far as needed. */
static void set_cell_states_in_granule(uintptr_t low, uintptr_t high, stamp_t state) {
    split_cell_of_8(cell8(low), low);
    while (low < high)
        if (low % 4 == 0 && high - low >= 4) {
            *cell4(low) = (struct cell){state, 0};
            low += 4;
        } else {
            split_cell_of_4(cell4(low), low);
            *cell1(low++) = (struct cell){state, 0};
        }
}

/* Give all cells of [low, high) a state or write stamp, and no read. */
void set_cell_states(uintptr_t low, uintptr_t high, stamp_t state) {
    uintptr_t first = (low + 7) & ~(uintptr_t)7;
    if (first > high) first = high;
    if (low < first) set_cell_states_in_granule(low, first, state);
    for (low = first; low + 8 <= high;) { /* the cells of what lies between two folds are one row */
        uintptr_t fold = FOLD + 1 - (low & FOLD), bytes = (high - low) & ~(uintptr_t)7;
        if (bytes > fold) bytes = fold;
        struct cell *cell = cell8(low);
        for (low += bytes; bytes; bytes -= 8) *cell++ = (struct cell){state, 0};
    }
    if (low < high) set_cell_states_in_granule(low, high, state);
}

/* --- the table --- */

/* Return the index of the first object in the sorted table that ends above an address; the table's count if there is
 * none. */
static int find_first_object_ending_above(uintptr_t address) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (table[middle]->high > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Return the object that contains an address; NULL if there is none. */
struct object *find_object_at(uintptr_t address) {
    int i = find_first_object_ending_above(address);
    return i < count && table[i]->low <= address ? table[i] : NULL;
}

/* Return the first object that ends above an address; NULL if there is none. */
struct object *find_object_from(uintptr_t address) {
    int i = find_first_object_ending_above(address);
    return i < count ? table[i] : NULL;
}

/* Set [*low, *high) to the object around an address, or to the gap between objects that it lies in. */
void find_object_or_gap(uintptr_t address, uintptr_t *low, uintptr_t *high) {
    int i = find_first_object_ending_above(address);
    if (i < count && table[i]->low <= address) {
        *low = table[i]->low;
        *high = table[i]->high;
        return;
    }
    *low = i ? table[i - 1]->high : 1;
    *high = i < count ? table[i]->low : UINTPTR_MAX / 2;
}

/* Return the registered variable or array at `base_address`, or, where that is NULL (a template, which has no memory),
 * the one that was made for this variable; NULL if there is none. */
struct object *find_object(int variable_id, const void *base_address) {
    if (base_address) return find_object_at((uintptr_t)base_address);
    for (struct object *object = templates; object; object = object->next_free)
        if (object->first_data == variable_id) return object;
    for (int i = 0; i < count; i++)
        if (table[i]->data == variable_id) return table[i];
    return NULL;
}

/* Recompute the lowest address of all registered stack variables. */
static void recompute_lowest_stack_variable(void) {
    weft_lowest_stack = UINTPTR_MAX;
    for (int i = 0; i < count; i++)
        if (table[i]->on_stack && table[i]->low < weft_lowest_stack) weft_lowest_stack = table[i]->low;
}

/* Remove an object from the table. It is freed only if no other object or the running construct refers to it as its
 * root. */
static void drop_object_at_index(int index) {
    struct object *object = table[index];
    /* What is aligned with it keeps its coordinates: the object itself is kept then. */
    bool used = false;
    copies_forget(object);
    for (int k = 0; k < count; k++) used |= k != index && table[k]->root == object;
    memmove(table + index, table + index + 1, sizeof *table * (size_t)(--count - index));
    if (!used && object != weft_construct.on) {
        forget_edges_and_owners(object);
        object->next_free = spare;
        spare = object;
    }
    forget_sites();
}

/* Remove all objects that overlap [low, high). */
static void remove_objects_in(uintptr_t low, uintptr_t high) {
    int i = find_first_object_ending_above(low);
    bool stack = false;
    while (i < count && table[i]->low < high) {
        stack |= table[i]->on_stack;
        drop_object_at_index(i);
    }
    if (stack) recompute_lowest_stack_variable();
}

void object_drop(struct object *object) { remove_objects_in(object->low, object->low + 1); }

/* Remove the stack variables of functions that have returned: those that lie below `stack_pointer`. */
void drop_objects_of_returned_functions(uintptr_t stack_pointer) {
    for (int i = 0; i < count;)
        if (table[i]->on_stack && table[i]->low < stack_pointer) drop_object_at_index(i);
        else i++;
    recompute_lowest_stack_variable();
}

/* Return a zeroed object, one that was freed before if possible; NULL without memory. */
static struct object *allocate_object(void) {
    struct object *object = spare;
    if (object) spare = object->next_free;
    else object = malloc(sizeof *object);
    if (object) memset(object, 0, sizeof *object);
    return object;
}

/* Register a variable or array at [low, low + bytes) and return its object. What was registered there before is
 * removed. */
struct object *register_object(int variable_id, uintptr_t low, size_t bytes) {
    if (bytes == 0) bytes = 1;
    remove_objects_in(low, low + bytes);
    forget_pending_copies_in(low, low + bytes);
    GROW(table, (size_t)count, room, 256);
    struct object *object = allocate_object();
    object->low = low;
    object->high = low + bytes;
    object->data = object->first_data = variable_id;
    object->on_stack = is_on_stack(low);
    if (object->on_stack && low < weft_lowest_stack) weft_lowest_stack = low;
    int i = find_first_object_ending_above(low);
    memmove(table + i + 1, table + i, sizeof *table * (size_t)(count++ - i));
    table[i] = object;
    forget_sites();
    return object;
}

/* Make an object an array of `dimension_count` dimensions in C or Fortran order. `lower` NULL: bounds from 0. Shadow
 * edges are 1 wide, as DVM has them by default. */
void set_object_shape(struct object *object, size_t element_size, int dimension_count, const int64_t lower[],
                      const int64_t extent[], int order) {
    object->array = true;
    object->element = element_size;
    object->rank = dimension_count;
    object->order = order;
    int64_t stride = (int64_t)element_size;
    for (int k = 0; k < dimension_count; k++) {
        int d = order == WEFT_ORDER_C ? dimension_count - 1 - k : k;
        object->lower[d] = lower ? lower[d] : 0;
        object->extent[d] = extent[d];
        object->stride[d] = stride;
        stride *= extent[d] > 0 ? extent[d] : 1;
        object->shadow.low[d] = object->shadow.high[d] = 1;
    }
}

static size_t array_size(size_t element, int dimension_count, const int64_t extent[]) {
    for (int d = 0; d < dimension_count; d++) element *= extent[d] > 0 ? (size_t)extent[d] : 0;
    return element;
}

/* Register a variable at [base, base + bytes), unless it is registered there already. */
void weft_check_data(int variable_id, const void *base, size_t bytes) {
    if (now.off || !base) return;
    struct object *object = find_object_at((uintptr_t)base);
    if (object && object->low == (uintptr_t)base && object->high == object->low + bytes && object->data == variable_id)
        return;
    object = register_object(variable_id, (uintptr_t)base, bytes);
    object->element = bytes;
}

/* Copy the extents of an array to completed[]; an unknown first one (0) is computed from how much is known to lie at
 * `base`. Return false if nothing is known there. */
static bool complete_extents(const void *base, size_t element_size, int dimension_count, const int64_t extent[],
                             int64_t completed[]) {
    memcpy(completed, extent, sizeof *completed * (size_t)dimension_count);
    if (extent[0] != 0) return true;
    const struct object *object = find_object_at((uintptr_t)base);
    uintptr_t low, high = object ? object->high : 0;
    size_t row = array_size(element_size, dimension_count - 1, extent + 1);
    if (row == 0 || (!object && !find_heap_block((uintptr_t)base, &low, &high))) return false;
    completed[0] = (int64_t)((high - (uintptr_t)base) / row);
    return completed[0] > 0;
}

/* Register an array of `dimension_count` dimensions at `base`, undistributed. extent[0] may be 0: as much as is known
 * to lie there. */
void weft_check_array(int variable_id, const void *base, size_t element, int dimension_count, const int64_t lower[],
                      const int64_t extent[], int order) {
    int64_t known[WEFT_MAX_RANK];
    if (now.off || !base || dimension_count < 1 || dimension_count > WEFT_MAX_RANK ||
        !complete_extents(base, element, dimension_count, extent, known))
        return;
    set_object_shape(register_object(variable_id, (uintptr_t)base, array_size(element, dimension_count, known)),
                     element, dimension_count, lower, known, order);
}

/* Register a formal parameter: another name, and maybe other bounds, for the array that begins at `base`; its
 * distribution stays. */
void weft_check_argument(int variable_id, const void *base, size_t element, int dimension_count, const int64_t lower[],
                         const int64_t extent[], int order) {
    int64_t known[WEFT_MAX_RANK];
    if (now.off || !base || dimension_count < 1 || dimension_count > WEFT_MAX_RANK) return;
    struct object *object = find_object_at((uintptr_t)base);
    if (!object) {
        weft_check_array(variable_id, base, element, dimension_count, lower, extent, order);
        return;
    }
    if (object->low != (uintptr_t)base) /* a part of an array */
        return;
    object->data = variable_id;
    if (!complete_extents(base, element, dimension_count, extent, known)) return;
    if (!object->array) set_object_shape(object, element, dimension_count, lower, known, order);
    /* the same shape with other bounds: the program's indices are those of the newest name */
    bool same = object->rank == dimension_count && object->order == order && !object->distributed;
    for (int d = 0; same && d < dimension_count; d++) same = object->extent[d] == known[d];
    for (int d = 0; same && d < dimension_count && lower; d++) object->lower[d] = lower[d];
}

/* Mark bytes as uninitialised and fill them with a pattern, so that a value put there by code without hooks is
 * noticed. */
void weft_check_clear(void *base, size_t bytes) {
    if (now.off || !base) return;
    memset(base, POISON, bytes);
    set_cell_states((uintptr_t)base, (uintptr_t)base + bytes, weft_construct.started ? LOCAL : UNINITIALISED);
}

void weft_check_local(void *base, size_t bytes) {
    if (!now.off && base) set_cell_states((uintptr_t)base, (uintptr_t)base + bytes, now.cur);
}

/* Mark bytes as written by code without hooks. Inside an iteration only a private variable is known to be its own; else
 * the cells become those of values from before. */
void weft_check_written(const void *base, size_t bytes) {
    if (now.off || !base) return;
    uintptr_t low = (uintptr_t)base;
    bool own = !weft_construct.started;
    for (int i = 0; i < weft_construct.private_count && !own; i++)
        own = low - weft_construct.privates[i].low < weft_construct.privates[i].high - weft_construct.privates[i].low;
    set_cell_states(low, low + bytes, own ? now.cur : 0);
}

/* --- distribution --- */

/* Return the object of a template (an array without memory) by its variable; a new one if it is unknown. */
static struct object *find_or_add_template(int variable_id) {
    for (struct object *object = templates; object; object = object->next_free)
        if (object->first_data == variable_id) return object;
    struct object *object = malloc(sizeof *object);
    if (!object) abort();
    memset(object, 0, sizeof *object);
    object->data = object->first_data = variable_id;
    object->next_free = templates;
    templates = object;
    return object;
}

/* Register a template with its bounds; it is the root of its own distribution. */
void weft_check_template(int variable_id, int dimension_count, const int64_t lower[], const int64_t extent[]) {
    if (now.off || dimension_count > WEFT_MAX_RANK) return;
    struct object *object = find_or_add_template(variable_id);
    set_object_shape(object, 0, dimension_count, lower, extent, WEFT_ORDER_C);
    object->root = object;
}

/* Note that an array was distributed or aligned anew: its elements begin without values, its shadow edges are stale,
 * and all places in the code are judged again. */
static void reset_redistributed_array(struct object *object) {
    if (!object->distributed && object->low)
        for (uintptr_t address = object->low & ~(uintptr_t)7; address < object->high; address += 8)
            if (cell8(address)->written == 0 && address >= object->low && address + 8 <= object->high)
                cell8(address)->written = UNINITIALISED;
    object->distributed = true;
    static uint64_t versions;
    object->mapped++;
    object->version = ++versions;
    object->renewed_at = object->begun_at = 0;
    forget_sites();
}

void weft_check_distribute(int construct_id, int variable_id, const void *base, int dimension_count,
                           const int kinds[]) {
    weft_check_distribute_onto(construct_id, variable_id, base, dimension_count, kinds, 0, 0);
}

/* Distribute an array or template: a kind of distribution for each of `dimension_count` dimensions, onto the processors
 * of one task if `task_array_id` is not 0. Aligned arrays move along. */
void weft_check_distribute_onto(int construct_id, int variable_id, const void *base, int dimension_count,
                                const int kinds[], int task_array_id, int64_t task) {
    if (now.off) return;
    struct object *object = find_object(variable_id, base);
    if (!object || dimension_count > WEFT_MAX_RANK) {
        stop_for_usage_error("unknown-array", construct_id, variable_id);
        return;
    }
    advance_time();
    count_run(construct_id);
    object->root = object;
    object->tasks = task_array_id;
    object->task = task;
    object->deferred = false;
    for (int d = 0; d < dimension_count; d++) {
        object->deferred |= kinds[d] == WEFT_LATER;
        object->kinds[d] = kinds[d] == WEFT_LATER ? WEFT_WHOLE : kinds[d];
        if (kinds[d] != WEFT_INDIRECT && kinds[d] != WEFT_DERIVED) {
            free(object->owner[d]);
            object->owner[d] = NULL;
        }
        if (kinds[d] == WEFT_GENBLOCK && object->blocks[d]) {
            double sum = 0;
            for (int64_t k = 0; k < object->block_count[d]; k++) sum += object->blocks[d][k];
            if ((int64_t)sum != object->extent[d])
                report_directive_parameter("genblock", construct_id, variable_id, d, (int64_t)sum, object->extent[d],
                                           object->extent[d]);
        }
        object->map[d] = (struct term){d, 1, 0};
    }
    reset_redistributed_array(object);
    /* redistribute: what is aligned with it moves along */
    for (int i = 0; i < count; i++)
        if (table[i]->root == object && table[i] != object) {
            table[i]->renewed_at = table[i]->begun_at = 0;
            table[i]->tasks = task_array_id;
            table[i]->task = task;
        }
}

/* Keep the sizes (GEN_BLOCK) or weights (WGT_BLOCK) of one dimension's blocks for the following
 * weft_check_distribute. */
void weft_check_blocks(int variable_id, const void *base, int dimension, int64_t count, const double sizes[]) {
    struct object *object = now.off ? NULL : find_object(variable_id, base);
    if (!object || dimension < 0 || dimension >= WEFT_MAX_RANK) return;
    free(object->blocks[dimension]);
    object->blocks[dimension] = malloc(sizeof(double) * (size_t)(count > 0 ? count : 1));
    if (object->blocks[dimension]) memcpy(object->blocks[dimension], sizes, sizeof(double) * (size_t)count);
    object->block_count[dimension] = count;
}

/* Return a mapping composed with a second one: a dimension that follows dimension k of an array, where that is placed
 * at coefficient[k] * index[axis[k]] + offset[k]. */
struct term compose_mapping(struct term term, int dimension_count, const int axis[], const int64_t coefficient[],
                            const int64_t offset[]) {
    if (term.axis < 0 || term.axis >= dimension_count) return term;
    int k = term.axis;
    int64_t at = term.coefficient * offset[k] + term.offset;
    if (axis[k] >= 0) return (struct term){axis[k], term.coefficient * coefficient[k], at};
    return axis[k] == WEFT_CONSTANT ? (struct term){WEFT_CONSTANT, 0, at} : (struct term){WEFT_ALL, 0, 0};
}

/* Align an array with a target, and so with the target's root: axis, coefficient and offset for each of the target's
 * `dimension_count` dimensions. Reports elements that would lie outside the target. */
void weft_check_align(int construct_id, int variable_id, const void *base, int target_id, const void *target_base,
                      int dimension_count, const int axis[], const int64_t coefficient[], const int64_t offset[]) {
    if (now.off) return;
    struct object *object = find_object(variable_id, base), *t = find_object(target_id, target_base);
    if (!object || !t || !t->root) {
        stop_for_usage_error(object ? "undistributed" : "unknown-array", construct_id,
                             object ? target_id : variable_id);
        return;
    }
    advance_time();
    count_run(construct_id);
    struct term map[WEFT_MAX_RANK];
    for (int d = 0; d < t->root->rank; d++) { /* compose: this -> target -> root */
        struct term m = t->map[d];
        if (t == t->root) m = (struct term){d, 1, 0};
        map[d] = compose_mapping(m, dimension_count, axis, coefficient, offset);
    }
    for (int k = 0; k < dimension_count && k < t->rank; k++)
        if (axis[k] >= 0 && axis[k] < object->rank) {
            int64_t ends[2] = {object->lower[axis[k]], object->lower[axis[k]] + object->extent[axis[k]] - 1};
            for (int end = 0; end < 2; end++) {
                int64_t x = coefficient[k] * ends[end] + offset[k], high = t->lower[k] + t->extent[k] - 1;
                if (x < t->lower[k] || x > high)
                    report_directive_parameter("align", construct_id, variable_id, k, x, t->lower[k], high);
            }
        }
    memcpy(object->map, map, sizeof map);
    object->root = t->root;
    object->tasks = t->tasks;
    object->task = t->task;
    reset_redistributed_array(object);
}

/* Set the widths of an array's shadow edges below (low[]) and above (high[]) in each dimension. */
void weft_check_shadow(int variable_id, const void *base, int dimension_count, const int64_t low[],
                       const int64_t high[]) {
    struct object *object = now.off ? NULL : find_object(variable_id, base);
    for (int d = 0; object && d < dimension_count && d < WEFT_MAX_RANK; d++) {
        object->shadow.low[d] = low[d];
        object->shadow.high[d] = high[d];
    }
}

/* Compute the index, in the program's bounds, of an array's element at an address. The outermost index may lie
 * outside. */
void compute_element_index(const struct object *object, uintptr_t address, int64_t index[]) {
    int64_t at = object->element ? (int64_t)(address - object->low) / (int64_t)object->element : 0;
    for (int k = 0; k < object->rank; k++) {
        int d = object->order == WEFT_ORDER_C ? object->rank - 1 - k : k;
        int64_t n = object->extent[d] > 0 ? object->extent[d] : 1;
        bool outermost = k == object->rank - 1;
        index[d] = object->lower[d] + (outermost ? at : at % n);
        at /= n;
    }
}

/* Rebase the times kept in objects when all stamps are renumbered: everything has happened at FIRST_STAMP. */
void rebase_stamps_of_objects(void) {
    for (int i = 0; i < count; i++) {
        stamp_t *times[] = {&table[i]->renewed_at,   &table[i]->begun_at,   &table[i]->on_device,
                            &table[i]->actual_at,    &table[i]->got_at,     &table[i]->host_wrote,
                            &table[i]->device_wrote, &table[i]->local_from, &table[i]->local_to};
        for (size_t k = 0; k < sizeof times / sizeof *times; k++)
            if (*times[k]) *times[k] = FIRST_STAMP;
    }
}
