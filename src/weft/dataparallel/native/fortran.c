/* The Fortran entries of the runtime: what weft_check.f90 declares, and gfortran's own reports.
 *
 * A variable arrives as a descriptor (ISO_Fortran_binding.h): where it lies, its type and its sizes. Lower bounds come
 * apart, because a descriptor of an assumed-rank argument has none. An assumed size (`a(n,*)`) has the extent -1. */
#include "growing.h"
#include "check.h"

#include <ISO_Fortran_binding.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROLE_LOCAL, ROLE_STATIC, ROLE_ARGUMENT };
enum { MAP_ON, MAP_REMOTE, MAP_TIE, MAP_STATEMENT, MAP_CONSISTENT };
enum { EDGES_ACROSS, EDGES_RENEW, EDGES_COMPUTE, EDGES_GROUP };
enum { COPY_ACTUAL, COPY_GET, COPY_REGION = 10 };

static void *base_of(const CFI_cdesc_t *variable) { return variable ? variable->base_addr : NULL; }

static int contiguous(const CFI_cdesc_t *variable) {
    CFI_index_t step = (CFI_index_t)variable->elem_len;
    for (int d = 0; d < variable->rank; d++) {
        if (variable->dim[d].extent > 1 && variable->dim[d].sm != step) return 0;
        step *= variable->dim[d].extent;
    }
    return 1;
}

static size_t bytes_of(const CFI_cdesc_t *variable) {
    size_t bytes = variable ? variable->elem_len : 0;
    for (int d = 0; variable && d < variable->rank; d++)
        bytes *= variable->dim[d].extent > 0 ? (size_t)variable->dim[d].extent : 0;
    return bytes;
}

/* --- places that are known ---------------------------------------------------------------------------------------- */

/* The memory that is the same each time a unit is entered (COMMON, SAVE, modules): declared and mapped once only. */
typedef struct {
    const void *base;
    int declared, mapped;
} known_t;

static known_t *known;
static size_t known_used, known_room;

static known_t *known_at(const void *base) {
    for (size_t k = 0; k < known_used; k++)
        if (known[k].base == base) return &known[k];
    GROW(known, known_used, known_room, 64);
    known[known_used] = (known_t){.base = base};
    return &known[known_used++];
}

/* Names of arrays, the newest declaration of each: gfortran's bounds report tells an array by its name only. */
typedef struct {
    char name[64];
    int data, rank;
    const void *base;
    int64_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
} named_t;

static named_t *named;
static size_t named_used, named_room;

static named_t *named_as(const char *name, int make) {
    for (size_t k = 0; k < named_used; k++)
        if (!strcmp(named[k].name, name)) return &named[k];
    if (!make) return NULL;
    GROW(named, named_used, named_room, 64);
    named_t *made = &named[named_used++];
    snprintf(made->name, sizeof made->name, "%s", name);
    return made;
}

/* --- data --------------------------------------------------------------------------------------------------------- */

void weft_fortran_program(void) { weft_check_sequential(1); }

/* The numbers of a variable, as check.h names them. */
static void typed(int data, const CFI_cdesc_t *variable) {
    int kind = variable->type & CFI_type_mask, type = 0;
    size_t size = variable->elem_len, step = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    if (kind == CFI_type_Integer) type = WEFT_INT8 + (int)step;
    else if (kind == CFI_type_Logical) type = WEFT_LOGICAL1 + (int)step;
    else if (kind == CFI_type_Real) type = size == 4 ? WEFT_FLOAT : size == 8 ? WEFT_DOUBLE : WEFT_LONG_DOUBLE;
    else if (kind == CFI_type_Complex && size <= 16) type = size == 8 ? WEFT_COMPLEX_FLOAT : WEFT_COMPLEX_DOUBLE;
    weft_check_type(data, type);
}

void weft_fortran_data(int data, CFI_cdesc_t *variable) {
    typed(data, variable);
    weft_check_data(data, base_of(variable), bytes_of(variable));
}

void weft_fortran_array(int data, int role, const char *name, const int64_t *lower, CFI_cdesc_t *array) {
    int64_t extent[CFI_MAX_RANK];
    void *base = base_of(array);
    if (!base || array->rank > WEFT_MAX_RANK) return;
    typed(data, array);
    int open = !contiguous(array);
    for (int d = 0; d < array->rank; d++) {
        extent[d] = array->dim[d].extent;
        open |= extent[d] < 0;
    }
    named_t *entry = named_as(name, 1);
    if (entry) {
        entry->data = data;
        entry->base = base;
        entry->rank = array->rank;
        for (int d = 0; d < array->rank; d++) {
            entry->low[d] = lower[d];
            entry->high[d] = lower[d] + extent[d] - 1;
        }
    }
    if (role == ROLE_ARGUMENT) {
        if (!open) weft_check_argument(data, base, array->elem_len, array->rank, lower, extent, WEFT_ORDER_FORTRAN);
        return;
    }
    if (role == ROLE_STATIC) {
        known_t *place = known_at(base);
        if (place->declared) {
            weft_check_argument(data, base, array->elem_len, array->rank, lower, extent, WEFT_ORDER_FORTRAN);
            return;
        }
        place->declared = 1;
    } else {
        known_at(base)->mapped = 0;
    }
    weft_check_array(data, base, array->elem_len, array->rank, lower, extent, WEFT_ORDER_FORTRAN);
}

void weft_fortran_clear(CFI_cdesc_t *variable) {
    if (base_of(variable) && contiguous(variable)) weft_check_clear(base_of(variable), bytes_of(variable));
}

/* A scalar that has no value yet, if it is a number: no pattern is put into text. */
void weft_fortran_scalar(int data, CFI_cdesc_t *variable) {
    int kind = variable->type & CFI_type_mask;
    if (kind != CFI_type_Integer && kind != CFI_type_Real && kind != CFI_type_Complex && kind != CFI_type_Logical)
        return;
    typed(data, variable);
    weft_check_data(data, base_of(variable), bytes_of(variable));
    weft_check_clear(base_of(variable), bytes_of(variable));
}

/* The elements of a part of an array that differ in its first `rank` dimensions; whole: they are structures. */
static void part_read(const CFI_cdesc_t *part, int rank, const char *from, int site, bool whole) {
    if (rank == 0) {
        if (whole) weft_check_put_out(from, part->elem_len, site);
        else weft_check_read(from, part->elem_len, site);
        return;
    }
    const CFI_dim_t *d = &part->dim[rank - 1];
    for (CFI_index_t i = 0; i < d->extent; i++) part_read(part, rank - 1, from + i * d->sm, site, whole);
}

/* A variable that the library prints: its accesses have no hooks. */
void weft_fortran_printed(int site, CFI_cdesc_t *variable) {
    if (base_of(variable) && variable->elem_len)
        part_read(variable, variable->rank, variable->base_addr, site, variable->type == CFI_type_struct);
}

/* Where a template would lie: it has no memory, and no variable lies there. */
static const void *place_of_template(int data) { return (const void *)(uintptr_t)data; }

void weft_fortran_template(int data, int once, int rank, const int64_t *low, const int64_t *high) {
    int64_t extent[WEFT_MAX_RANK];
    known_t *place = known_at(place_of_template(data));
    if (once && place->declared) return;
    place->declared = 1;
    for (int d = 0; d < rank && d < WEFT_MAX_RANK; d++) extent[d] = high[d] - low[d] + 1;
    weft_check_template(data, rank, low, extent);
}

/* --- mappings ----------------------------------------------------------------------------------------------------- */

static double number_at(const CFI_cdesc_t *array, CFI_index_t at) {
    const char *place = (const char *)array->base_addr + (array->rank ? at * array->dim[0].sm : 0);
    int real = (array->type & CFI_type_mask) == CFI_type_Real;
    if (real) return array->elem_len == 4 ? *(const float *)place : *(const double *)place;
    switch (array->elem_len) {
    case 1: return *(const int8_t *)place;
    case 2: return *(const int16_t *)place;
    case 4: return *(const int32_t *)place;
    default: return (double)*(const int64_t *)place;
    }
}

void weft_fortran_blocks(int data, int dimension, CFI_cdesc_t *sizes, CFI_cdesc_t *array) {
    CFI_index_t count = sizes->rank ? sizes->dim[0].extent : 1;
    if (count < 1) return;
    double *numbers = malloc((size_t)count * sizeof *numbers);
    if (!numbers) return;
    for (CFI_index_t k = 0; k < count; k++) numbers[k] = number_at(sizes, k);
    weft_check_blocks(data, base_of(array), dimension, count, numbers);
    free(numbers);
}

/* Whether a mapping that is only to be done once was done already (base NULL: a template's). */
static int mapped_already(const void *base, int data, int once) {
    known_t *place = known_at(base ? base : place_of_template(data));
    if (once && place->mapped) return 1;
    place->mapped = 1;
    return 0;
}

void weft_fortran_distribute(int construct, int data, int once, int rank, const int *kinds, int tasks, int64_t task,
                             CFI_cdesc_t *array) {
    void *base = base_of(array);
    if ((array && !base) || mapped_already(base, data, once)) return;
    if (tasks) weft_check_distribute_onto(construct, data, base, rank, kinds, tasks, task);
    else weft_check_distribute(construct, data, base, rank, kinds);
}

void weft_fortran_align(int construct, int data, int once, int target, int rank, const int *axis,
                        const int64_t *coefficient, const int64_t *offset, CFI_cdesc_t *array, CFI_cdesc_t *goal) {
    void *base = base_of(array), *goal_base = base_of(goal);
    if ((array && !base) || (goal && !goal_base) || mapped_already(base, data, once)) return;
    weft_check_align(construct, data, base, target, goal_base, rank, axis, coefficient, offset);
}

void weft_fortran_shadow(int data, int rank, const int64_t *low, const int64_t *high, CFI_cdesc_t *array) {
    if (base_of(array)) weft_check_shadow(data, base_of(array), rank, low, high);
}

void weft_fortran_owners(int data, int dimension, CFI_cdesc_t *owners, CFI_cdesc_t *array) {
    int64_t lower = weft_check_lower(data, base_of(array), dimension);
    for (CFI_index_t k = 0; owners->rank == 1 && k < owners->dim[0].extent; k++)
        weft_check_owner(data, base_of(array), dimension, lower + k, (int64_t)number_at(owners, k));
}

void weft_fortran_owner_derived(int data, int dimension, int64_t element, int target, int axis, int64_t index,
                                CFI_cdesc_t *array, CFI_cdesc_t *goal) {
    weft_check_owner_derived(data, base_of(array), dimension, element, target, base_of(goal), axis, index);
}

int64_t weft_fortran_lower(int data, int dimension, CFI_cdesc_t *array) {
    return weft_check_lower(data, base_of(array), dimension);
}

int64_t weft_fortran_extent(int data, int dimension, CFI_cdesc_t *array) {
    return weft_check_extent(data, base_of(array), dimension);
}

void weft_fortran_edge_begin(int construct, int name, int data, int dimension, int target, int axis, int over,
                             CFI_cdesc_t *array, CFI_cdesc_t *goal) {
    weft_check_edge_begin(construct, name, data, base_of(array), dimension, target, base_of(goal), axis, over);
}

void weft_fortran_edge_include(int data, CFI_cdesc_t *array) { weft_check_edge_include(data, base_of(array)); }

void weft_fortran_edge_renew(int construct, int name, int data, CFI_cdesc_t *array) {
    weft_check_edge_renew(construct, name, data, base_of(array));
}

void weft_fortran_localize(int construct, int data, int target, int axis, CFI_cdesc_t *numbers, CFI_cdesc_t *goal) {
    weft_check_localize(construct, data, base_of(numbers), target, base_of(goal), axis);
}

/* --- loops -------------------------------------------------------------------------------------------------------- */

void weft_fortran_mapped(int what, int group, int data, int rank, const int *axis, const int64_t *coefficient,
                         const int64_t *offset, CFI_cdesc_t *array) {
    void *base = base_of(array);
    if (what == MAP_ON) weft_check_loop_on(data, base, rank, axis, coefficient, offset);
    else if (what == MAP_TIE) weft_check_loop_tie(data, base, rank, axis, coefficient, offset);
    else if (what == MAP_CONSISTENT) weft_check_loop_consistent(group, data, base, rank, axis, coefficient, offset);
    else if (what == MAP_STATEMENT) weft_check_remote(data, base, rank, axis, coefficient, offset);
    else if (group) weft_check_loop_remote_group(group, data, base, rank, axis, coefficient, offset);
    else weft_check_loop_remote(data, base, rank, axis, coefficient, offset);
}

/* The number of a task is its own, whatever the loop over tasks does with its variable. */
void weft_fortran_task_index(CFI_cdesc_t *variable) { weft_check_local(base_of(variable), bytes_of(variable)); }

void weft_fortran_loop_index(CFI_cdesc_t *variable) { weft_check_loop_index(base_of(variable), bytes_of(variable)); }

void weft_fortran_loop_private(int data, CFI_cdesc_t *variable) {
    if (base_of(variable)) weft_check_loop_private(data, base_of(variable), bytes_of(variable));
}

/* The runtime's word for the type of a variable; 0: one that no reduction has. */
static int type_of(const CFI_cdesc_t *variable) {
    size_t bytes = variable->elem_len;
    switch (variable->type & CFI_type_mask) {
    case CFI_type_Integer:
        return bytes == 1 ? WEFT_INT8 : bytes == 2 ? WEFT_INT16 : bytes == 4 ? WEFT_INT32 : bytes == 8 ? WEFT_INT64 : 0;
    case CFI_type_Logical:
        return bytes == 1   ? WEFT_LOGICAL1
               : bytes == 2 ? WEFT_LOGICAL2
               : bytes == 4 ? WEFT_LOGICAL4
               : bytes == 8 ? WEFT_LOGICAL8
                            : 0;
    case CFI_type_Real:
        return bytes == 4 ? WEFT_FLOAT : bytes == 8 ? WEFT_DOUBLE : bytes == sizeof(long double) ? WEFT_LONG_DOUBLE : 0;
    case CFI_type_Complex: return bytes == 8 ? WEFT_COMPLEX_FLOAT : bytes == 16 ? WEFT_COMPLEX_DOUBLE : 0;
    default: return 0;
    }
}

void weft_fortran_loop_reduction(int data, int operation, CFI_cdesc_t *variable, CFI_cdesc_t *location) {
    size_t element = variable->elem_len ? variable->elem_len : 1;
    if ((variable->type & CFI_type_mask) == CFI_type_Logical)
        operation = operation == WEFT_AND ? WEFT_LAND : operation == WEFT_OR ? WEFT_LOR : operation;
    weft_check_loop_reduction(data, base_of(variable), operation, type_of(variable),
                              (int64_t)(bytes_of(variable) / element), base_of(location), bytes_of(location));
}

void weft_fortran_edges(int what, int construct, int group, int data, int corner, int rank, const int64_t *low,
                        const int64_t *high, CFI_cdesc_t *array) {
    void *base = base_of(array);
    const int64_t *below = rank ? low : NULL, *above = rank ? high : NULL;
    if (what == EDGES_ACROSS) weft_check_loop_across(data, base, rank, below, above);
    else if (what == EDGES_RENEW) weft_check_loop_shadow_renew(data, base, rank, below, above, corner);
    else if (what == EDGES_COMPUTE) weft_check_loop_shadow_compute(data, base, rank, below, above);
    else weft_check_shadow_group(construct, group, data, base, rank, below, above, corner);
}

void weft_fortran_own_begin(int construct, int data, int rank, const int64_t *indices, CFI_cdesc_t *array) {
    weft_check_own_begin(construct, data, base_of(array), rank, indices);
}

void weft_fortran_copied(int construct, int group, int written, CFI_cdesc_t *part) {
    int64_t count[WEFT_MAX_RANK], stride[WEFT_MAX_RANK];
    if (part->rank > WEFT_MAX_RANK) return;
    for (int d = 0; d < part->rank; d++) {
        count[d] = part->dim[d].extent;
        stride[d] = part->dim[d].sm;
    }
    weft_check_copy_part(construct, group, written, base_of(part), part->elem_len, part->rank, count, stride);
}

void weft_fortran_copies(int what, int construct, int data, int rank, const int64_t *low, const int64_t *high,
                         CFI_cdesc_t *variable) {
    void *base = base_of(variable);
    size_t bytes = bytes_of(variable);
    const int64_t *below = rank ? low : NULL, *above = rank ? high : NULL;
    if (variable && !base) return;
    if (what == COPY_ACTUAL) weft_check_actual(construct, data, base, bytes, rank, below, above);
    else if (what == COPY_GET) weft_check_get_actual(construct, data, base, bytes, rank, below, above);
    else weft_check_region_data(data, base, bytes, what - COPY_REGION, rank, below, above);
}

/* --- gfortran's own reports --------------------------------------------------------------------------------------- */

/* gfortran's -fcheck=bounds calls this and never returns. The texts are those of trans-array.cc:
 *   Index '%ld' of dimension %d of array '%s' outside of expected range (%ld:%ld)
 *   Index '%ld' of dimension %d of array '%s' below lower bound of %ld    (or: above upper bound of %ld) */
static int bounds_of(const char *text, int *dimension, char name[64], long *index, long *low, long *high) {
    char side[8];
    long bound;
    if (sscanf(text, "Index '%ld' of dimension %d of array '%63[^']' outside of expected range (%ld:%ld)", index,
               dimension, name, low, high) == 5)
        return 1;
    if (sscanf(text, "Index '%ld' of dimension %d of array '%63[^']' %7s %*s bound of %ld", index, dimension, name,
               side, &bound) != 5)
        return 0;
    *low = side[0] == 'b' ? bound : INT64_MIN;
    *high = side[0] == 'b' ? INT64_MAX : bound;
    return 1;
}

_Noreturn void _gfortran_runtime_error_at(const char *where, const char *format, ...) {
    char text[512], name[64];
    int dimension;
    long index, low, high;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!weft_check_active()) _exit(2);
    if (bounds_of(text, &dimension, name, &index, &low, &high)) {
        named_t *entry = named_as(name, 0);
        int known_bounds = entry && dimension >= 1 && dimension <= entry->rank;
        if (known_bounds && low == INT64_MIN) low = entry->low[dimension - 1];
        if (known_bounds && high == INT64_MAX) high = entry->high[dimension - 1];
        weft_check_out_of_bounds_at(entry ? entry->data : 0, entry ? entry->base : NULL, dimension - 1, index, low,
                                    high, __builtin_return_address(0));
    }
    fflush(stdout);
    fprintf(stderr, "%s\nFortran runtime error: %s\n", where, text);
    exit(2);
}
