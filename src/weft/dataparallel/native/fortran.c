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

/* Return whether the elements of a described variable lie one after the other in memory, without gaps. */
static int is_contiguous(const CFI_cdesc_t *variable) {
    CFI_index_t step = (CFI_index_t)variable->elem_len;
    for (int d = 0; d < variable->rank; d++) {
        if (variable->dim[d].extent > 1 && variable->dim[d].sm != step) return 0;
        step *= variable->dim[d].extent;
    }
    return 1;
}

/* Return how many bytes a described variable has in all; 0 for no variable or an assumed size. */
static size_t count_bytes(const CFI_cdesc_t *variable) {
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

/* Return the entry of the memory that begins at `base_address`; a new one if it was not known. */
static known_t *find_or_add_known_memory(const void *base_address) {
    for (size_t k = 0; k < known_used; k++)
        if (known[k].base == base_address) return &known[k];
    GROW(known, known_used, known_room, 64);
    known[known_used] = (known_t){.base = base_address};
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

/* Return the entry of an array by its Fortran name; NULL if it is unknown and not to be added. */
static named_t *find_named_array(const char *name, int add_if_missing) {
    for (size_t k = 0; k < named_used; k++)
        if (!strcmp(named[k].name, name)) return &named[k];
    if (!add_if_missing) return NULL;
    GROW(named, named_used, named_room, 64);
    named_t *made = &named[named_used++];
    snprintf(made->name, sizeof made->name, "%s", name);
    return made;
}

/* --- data --------------------------------------------------------------------------------------------------------- */

void weft_fortran_program(void) { weft_check_sequential(1); }

/* Tell the runtime what numbers a variable holds (WEFT_INT32, WEFT_DOUBLE, ...), from its descriptor. */
static void register_number_type(int variable_id, const CFI_cdesc_t *variable) {
    int kind = variable->type & CFI_type_mask, type = 0;
    size_t size = variable->elem_len, step = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    if (kind == CFI_type_Integer) type = WEFT_INT8 + (int)step;
    else if (kind == CFI_type_Logical) type = WEFT_LOGICAL1 + (int)step;
    else if (kind == CFI_type_Real) type = size == 4 ? WEFT_FLOAT : size == 8 ? WEFT_DOUBLE : WEFT_LONG_DOUBLE;
    else if (kind == CFI_type_Complex && size <= 16) type = size == 8 ? WEFT_COMPLEX_FLOAT : WEFT_COMPLEX_DOUBLE;
    weft_check_type(variable_id, type);
}

void weft_fortran_register_variable(int variable_id, CFI_cdesc_t *variable) {
    register_number_type(variable_id, variable);
    weft_check_data(variable_id, base_of(variable), count_bytes(variable));
}

/* Register an array of a program unit (`role`: local, static or an argument) with its Fortran bounds. Static arrays
 * are registered once; arguments become another view of what lies there. Also kept by name for gfortran's bounds
 * reports. */
void weft_fortran_register_array(int variable_id, int role, const char *name, const int64_t *lower,
                                 CFI_cdesc_t *array) {
    int64_t extent[CFI_MAX_RANK];
    void *base = base_of(array);
    if (!base || array->rank > WEFT_MAX_RANK) return;
    register_number_type(variable_id, array);
    int open = !is_contiguous(array);
    for (int d = 0; d < array->rank; d++) {
        extent[d] = array->dim[d].extent;
        open |= extent[d] < 0;
    }
    named_t *entry = find_named_array(name, 1);
    if (entry) {
        entry->data = variable_id;
        entry->base = base;
        entry->rank = array->rank;
        for (int d = 0; d < array->rank; d++) {
            entry->low[d] = lower[d];
            entry->high[d] = lower[d] + extent[d] - 1;
        }
    }
    if (role == ROLE_ARGUMENT) {
        if (!open)
            weft_check_argument(variable_id, base, array->elem_len, array->rank, lower, extent, WEFT_ORDER_FORTRAN);
        return;
    }
    if (role == ROLE_STATIC) {
        known_t *place = find_or_add_known_memory(base);
        if (place->declared) {
            weft_check_argument(variable_id, base, array->elem_len, array->rank, lower, extent, WEFT_ORDER_FORTRAN);
            return;
        }
        place->declared = 1;
    } else {
        find_or_add_known_memory(base)->mapped = 0;
    }
    weft_check_array(variable_id, base, array->elem_len, array->rank, lower, extent, WEFT_ORDER_FORTRAN);
}

void weft_fortran_clear_variable(CFI_cdesc_t *variable) {
    if (base_of(variable) && is_contiguous(variable)) weft_check_clear(base_of(variable), count_bytes(variable));
}

/* Register a scalar that has no value yet. Only numbers are filled with the pattern for uninitialised memory, text is
 * not. */
void weft_fortran_register_unset_scalar(int variable_id, CFI_cdesc_t *variable) {
    int kind = variable->type & CFI_type_mask;
    if (kind != CFI_type_Integer && kind != CFI_type_Real && kind != CFI_type_Complex && kind != CFI_type_Logical)
        return;
    register_number_type(variable_id, variable);
    weft_check_data(variable_id, base_of(variable), count_bytes(variable));
    weft_check_clear(base_of(variable), count_bytes(variable));
}

/* Check reads of all elements of an array section along its first `dimensions` dimensions, beginning at `first`.
 * `is_structure`: its elements may have gaps, which need no values. */
static void check_reads_of_elements(const CFI_cdesc_t *array, int dimensions, const char *first, int site_id,
                                    bool is_structure) {
    if (dimensions == 0) {
        if (is_structure) weft_check_put_out(first, array->elem_len, site_id);
        else weft_check_read(first, array->elem_len, site_id);
        return;
    }
    const CFI_dim_t *d = &array->dim[dimensions - 1];
    for (CFI_index_t i = 0; i < d->extent; i++)
        check_reads_of_elements(array, dimensions - 1, first + i * d->sm, site_id, is_structure);
}

/* Check the reads of a variable that a PRINT or WRITE statement puts out, since the library has no hooks. */
void weft_fortran_check_printed_variable(int site_id, CFI_cdesc_t *variable) {
    if (base_of(variable) && variable->elem_len)
        check_reads_of_elements(variable, variable->rank, variable->base_addr, site_id,
                                variable->type == CFI_type_struct);
}

/* Where a template would lie: it has no memory, and no variable lies there. */
static const void *template_address(int variable_id) { return (const void *)(uintptr_t)variable_id; }

/* Register a template with its bounds. `is_once`: only at the first call. */
void weft_fortran_register_template(int variable_id, int is_once, int dimension_count, const int64_t *low,
                                    const int64_t *high) {
    int64_t extent[WEFT_MAX_RANK];
    known_t *place = find_or_add_known_memory(template_address(variable_id));
    if (is_once && place->declared) return;
    place->declared = 1;
    for (int d = 0; d < dimension_count && d < WEFT_MAX_RANK; d++) extent[d] = high[d] - low[d] + 1;
    weft_check_template(variable_id, dimension_count, low, extent);
}

/* --- mappings ----------------------------------------------------------------------------------------------------- */

/* Return the `index`-th number (from 0) of a one-dimensional integer or real array as a double. */
static double read_array_number(const CFI_cdesc_t *array, CFI_index_t index) {
    const char *place = (const char *)array->base_addr + (array->rank ? index * array->dim[0].sm : 0);
    int real = (array->type & CFI_type_mask) == CFI_type_Real;
    if (real) return array->elem_len == 4 ? *(const float *)place : *(const double *)place;
    switch (array->elem_len) {
    case 1: return *(const int8_t *)place;
    case 2: return *(const int16_t *)place;
    case 4: return *(const int32_t *)place;
    default: return (double)*(const int64_t *)place;
    }
}

/* Tell the runtime the block sizes or weights of one dimension (GEN_BLOCK, WGT_BLOCK), from an array of the program. */
void weft_fortran_set_block_sizes(int variable_id, int dimension, CFI_cdesc_t *sizes, CFI_cdesc_t *array) {
    CFI_index_t count = sizes->rank ? sizes->dim[0].extent : 1;
    if (count < 1) return;
    double *numbers = malloc((size_t)count * sizeof *numbers);
    if (!numbers) return;
    for (CFI_index_t k = 0; k < count; k++) numbers[k] = read_array_number(sizes, k);
    weft_check_blocks(variable_id, base_of(array), dimension, count, numbers);
    free(numbers);
}

/* Return whether an array or template (no address) was mapped before by a directive that counts only once; note that it
 * is mapped now. */
static int test_and_set_mapped(const void *base_address, int variable_id, int is_once) {
    known_t *place = find_or_add_known_memory(base_address ? base_address : template_address(variable_id));
    if (is_once && place->mapped) return 1;
    place->mapped = 1;
    return 0;
}

/* Distribute an array or template as DISTRIBUTE says, with one kind for each dimension; `task_array_id` (0: none): onto
 * the processors of that task only. `is_once`: unless that was done before. */
void weft_fortran_distribute_array(int construct_id, int variable_id, int is_once, int dimension_count,
                                   const int *kinds, int task_array_id, int64_t task, CFI_cdesc_t *array) {
    void *base = base_of(array);
    if ((array && !base) || test_and_set_mapped(base, variable_id, is_once)) return;
    if (task_array_id)
        weft_check_distribute_onto(construct_id, variable_id, base, dimension_count, kinds, task_array_id, task);
    else weft_check_distribute(construct_id, variable_id, base, dimension_count, kinds);
}

/* Align an array with `target_id` as ALIGN says: `axis`, `coefficient` and `offset` for each of the target's
 * `dimension_count` dimensions. `is_once`: unless that was done before. */
void weft_fortran_align_array(int construct_id, int variable_id, int is_once, int target_id, int dimension_count,
                              const int *axis, const int64_t *coefficient, const int64_t *offset, CFI_cdesc_t *array,
                              CFI_cdesc_t *target_array) {
    void *base = base_of(array), *goal_base = base_of(target_array);
    if ((array && !base) || (target_array && !goal_base) || test_and_set_mapped(base, variable_id, is_once)) return;
    weft_check_align(construct_id, variable_id, base, target_id, goal_base, dimension_count, axis, coefficient, offset);
}

void weft_fortran_set_shadow_widths(int variable_id, int dimension_count, const int64_t *low, const int64_t *high,
                                    CFI_cdesc_t *array) {
    if (base_of(array)) weft_check_shadow(variable_id, base_of(array), dimension_count, low, high);
}

/* Tell the runtime the processor of each element of one dimension (INDIRECT), from an array of the program. */
void weft_fortran_set_owners(int variable_id, int dimension, CFI_cdesc_t *owners, CFI_cdesc_t *array) {
    int64_t lower = weft_check_lower(variable_id, base_of(array), dimension);
    for (CFI_index_t k = 0; owners->rank == 1 && k < owners->dim[0].extent; k++)
        weft_check_owner(variable_id, base_of(array), dimension, lower + k, (int64_t)read_array_number(owners, k));
}

void weft_fortran_set_derived_owner(int variable_id, int dimension, int64_t element, int target_id, int axis,
                                    int64_t index, CFI_cdesc_t *array, CFI_cdesc_t *goal) {
    weft_check_owner_derived(variable_id, base_of(array), dimension, element, target_id, base_of(goal), axis, index);
}

int64_t weft_fortran_lower(int variable_id, int dimension, CFI_cdesc_t *array) {
    return weft_check_lower(variable_id, base_of(array), dimension);
}

int64_t weft_fortran_extent(int variable_id, int dimension, CFI_cdesc_t *array) {
    return weft_check_extent(variable_id, base_of(array), dimension);
}

/* Begin a named shadow edge (SHADOW_ADD) in a dimension of an array, from the indices of `target_id` along `axis`; its
 * elements and arrays follow. `other_edge_name`: another edge of the target whose indices count, too; 0: none. */
void weft_fortran_begin_edge(int construct_id, int edge_name, int variable_id, int dimension, int target_id, int axis,
                             int other_edge_name, CFI_cdesc_t *array, CFI_cdesc_t *target_array) {
    weft_check_edge_begin(construct_id, edge_name, variable_id, base_of(array), dimension, target_id,
                          base_of(target_array), axis, other_edge_name);
}

void weft_fortran_include_array_in_edge(int variable_id, CFI_cdesc_t *array) {
    weft_check_edge_include(variable_id, base_of(array));
}

void weft_fortran_renew_edge(int construct_id, int edge_name, int variable_id, CFI_cdesc_t *array) {
    weft_check_edge_renew(construct_id, edge_name, variable_id, base_of(array));
}

void weft_fortran_localize(int construct_id, int variable_id, int target_id, int axis, CFI_cdesc_t *numbers,
                           CFI_cdesc_t *goal) {
    weft_check_localize(construct_id, variable_id, base_of(numbers), target_id, base_of(goal), axis);
}

/* --- loops -------------------------------------------------------------------------------------------------------- */

/* Tell the runtime of a clause that maps loop indices to array elements: ON, REMOTE_ACCESS, TIE or CONSISTENT
 * (`clause`), with axis, coefficient and offset for each of the array's `dimension_count` dimensions. */
void weft_fortran_add_mapping_clause(int clause, int group_id, int variable_id, int dimension_count, const int *axis,
                                     const int64_t *coefficient, const int64_t *offset, CFI_cdesc_t *array) {
    void *base = base_of(array);
    if (clause == MAP_ON) weft_check_loop_on(variable_id, base, dimension_count, axis, coefficient, offset);
    else if (clause == MAP_TIE) weft_check_loop_tie(variable_id, base, dimension_count, axis, coefficient, offset);
    else if (clause == MAP_CONSISTENT)
        weft_check_loop_consistent(group_id, variable_id, base, dimension_count, axis, coefficient, offset);
    else if (clause == MAP_STATEMENT) weft_check_remote(variable_id, base, dimension_count, axis, coefficient, offset);
    else if (group_id)
        weft_check_loop_remote_group(group_id, variable_id, base, dimension_count, axis, coefficient, offset);
    else weft_check_loop_remote(variable_id, base, dimension_count, axis, coefficient, offset);
}

/* The number of a task is its own, whatever the loop over tasks does with its variable. */
void weft_fortran_task_index(CFI_cdesc_t *variable) { weft_check_local(base_of(variable), count_bytes(variable)); }

void weft_fortran_add_loop_index(CFI_cdesc_t *variable) {
    weft_check_loop_index(base_of(variable), count_bytes(variable));
}

void weft_fortran_add_private_clause(int variable_id, CFI_cdesc_t *variable) {
    if (base_of(variable)) weft_check_loop_private(variable_id, base_of(variable), count_bytes(variable));
}

/* Return the runtime's number for the type of a reduction variable (WEFT_INT32, ...); 0: a type that no reduction
 * has. */
static int find_reduction_type(const CFI_cdesc_t *variable) {
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

/* Tell the runtime of a REDUCTION clause. `location`: the variable that goes with MAXLOC or MINLOC, else NULL. */
void weft_fortran_add_reduction_clause(int variable_id, int operation, CFI_cdesc_t *variable, CFI_cdesc_t *location) {
    size_t element = variable->elem_len ? variable->elem_len : 1;
    if ((variable->type & CFI_type_mask) == CFI_type_Logical)
        operation = operation == WEFT_AND ? WEFT_LAND : operation == WEFT_OR ? WEFT_LOR : operation;
    weft_check_loop_reduction(variable_id, base_of(variable), operation, find_reduction_type(variable),
                              (int64_t)(count_bytes(variable) / element), base_of(location), count_bytes(location));
}

/* Tell the runtime of a clause about shadow edges: ACROSS, SHADOW_RENEW, SHADOW_COMPUTE or a shadow group (`clause`).
 * `dimension_count` 0: the widths as declared, else low[] and high[]. */
void weft_fortran_add_edges_clause(int clause, int construct_id, int group_id, int variable_id, int corner,
                                   int dimension_count, const int64_t *low, const int64_t *high, CFI_cdesc_t *array) {
    void *base = base_of(array);
    const int64_t *below = dimension_count ? low : NULL, *above = dimension_count ? high : NULL;
    if (clause == EDGES_ACROSS) weft_check_loop_across(variable_id, base, dimension_count, below, above);
    else if (clause == EDGES_RENEW)
        weft_check_loop_shadow_renew(variable_id, base, dimension_count, below, above, corner);
    else if (clause == EDGES_COMPUTE) weft_check_loop_shadow_compute(variable_id, base, dimension_count, below, above);
    else weft_check_shadow_group(construct_id, group_id, variable_id, base, dimension_count, below, above, corner);
}

void weft_fortran_begin_own_computation(int construct_id, int variable_id, int dimension_count, const int64_t *indices,
                                        CFI_cdesc_t *array) {
    weft_check_own_begin(construct_id, variable_id, base_of(array), dimension_count, indices);
}

/* Tell the runtime which section an asynchronous copy reads or writes (`written`). */
void weft_fortran_add_copied_section(int construct_id, int group_id, int written, CFI_cdesc_t *part) {
    int64_t count[WEFT_MAX_RANK], stride[WEFT_MAX_RANK];
    if (part->rank > WEFT_MAX_RANK) return;
    for (int d = 0; d < part->rank; d++) {
        count[d] = part->dim[d].extent;
        stride[d] = part->dim[d].sm;
    }
    weft_check_copy_part(construct_id, group_id, written, base_of(part), part->elem_len, part->rank, count, stride);
}

/* Tell the runtime of ACTUAL, GET_ACTUAL or a REGION's data clause (`clause`) for a variable, or for a section of it
 * from low[] to high[] if `dimension_count` is not 0. */
void weft_fortran_handle_data_clause(int clause, int construct_id, int variable_id, int dimension_count,
                                     const int64_t *low, const int64_t *high, CFI_cdesc_t *variable) {
    void *base = base_of(variable);
    size_t bytes = count_bytes(variable);
    const int64_t *below = dimension_count ? low : NULL, *above = dimension_count ? high : NULL;
    if (variable && !base) return;
    if (clause == COPY_ACTUAL) weft_check_actual(construct_id, variable_id, base, bytes, dimension_count, below, above);
    else if (clause == COPY_GET)
        weft_check_get_actual(construct_id, variable_id, base, bytes, dimension_count, below, above);
    else weft_check_region_data(variable_id, base, bytes, clause - COPY_REGION, dimension_count, below, above);
}

/* --- gfortran's own reports --------------------------------------------------------------------------------------- */

/* Parse the text that gfortran's -fcheck=bounds would print before it ends the program. Returns 1 and sets dimension,
 * array name, index and bounds (INT64_MIN or INT64_MAX for one that is not said); 0: another text. The texts are those
 * of gfortran's trans-array.cc. */
static int parse_bounds_report(const char *text, int *dimension, char name[64], long *index, long *low, long *high) {
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

/* Replace libgfortran's report of a run-time error: report an index outside its bounds as a finding, then print the
 * error and end the program as libgfortran does. */
_Noreturn void _gfortran_runtime_error_at(const char *where, const char *format, ...) {
    char text[512], name[64];
    int dimension;
    long index, low, high;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!weft_check_active()) _exit(2);
    if (parse_bounds_report(text, &dimension, name, &index, &low, &high)) {
        named_t *entry = find_named_array(name, 0);
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
