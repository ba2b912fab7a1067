/* The interface between the front ends of `weft check` and its runtime.
 *
 * A front end puts calls of these functions into a copy of the program; the compiler's own instrumentation
 * (-fsanitize=thread, -fsanitize=bounds) or weft_check_read/weft_check_write bring the accesses. The program runs on
 * one processor while the parallel execution is simulated: each iteration of a parallel loop and each task is its own
 * processor (or a block of a grid is: WEFT_INTERNAL_CHECK_GRID=2x2).
 *
 * Only numbers and pointers are passed. Names, lines and texts stand in the side file (weft.dataparallel.source_map), keyed by
 *   construct_id: a directive or loop     variable_id: a variable, array or template     site_id: a place of the program
 * ids are > 0, unique in the program, given by the front end; 0: none.
 *
 * Findings are written as JSON lines to the file that WEFT_INTERNAL_CHECK_FINDINGS names. Without it the calls do nothing.
 *
 * Conventions:  `base` is the address of the first element; NULL for what has no memory (a template): then the id says
 * which. An object is found by its address where it has one, so a formal parameter means the array that was passed.
 * Indices are those of the program (Fortran: from the lower bound). Arrays of per-dimension numbers are in the
 * program's own order of dimensions; they are copied, never kept.
 *
 * A mapping (align, on, remote_access, tie) gives for each dimension of the TARGET three numbers:
 *   axis[d] >= 0:          coefficient[d] * x[axis[d]] + offset[d], x: the array's index (align) or the loop's (on, ...)
 *   axis[d] == WEFT_CONSTANT:  offset[d]
 *   axis[d] == WEFT_ALL:       every index (`*`, `[:]`)
 */
#ifndef WEFT_CHECK_H
#define WEFT_CHECK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_MAX_RANK 8

enum { WEFT_CONSTANT = -1, WEFT_ALL = -2 };

/* --- data ------------------------------------------------------------------------------------------------------- */

enum { WEFT_ORDER_C = 0, WEFT_ORDER_FORTRAN = 1 };

/* Name a variable (any shape) at [base, base+bytes). What a parallel construct writes or names in a clause needs this
 * call at its declaration or the program's start: passing its address also makes a local escape, so that the
 * compiler's hooks see it. Locals of a function that has returned are forgotten by themselves. */
void weft_check_data(int variable_id, const void *base, size_t bytes);

/* A named variable of a block comes to life, at a place that another one may have had: no device has a copy of it. */
void weft_check_begin_variable(const void *base);

/* What numbers a variable (or an array) holds: WEFT_INT8 and so on, 0 for none. Only values that are traced need it. */
void weft_check_type(int variable_id, int type);

/* What numbers mean, where no file of names could say so before (trace.c): a variable with its type; a loop, as a line of
 * that file has it behind its number; a place. */
void weft_check_name_variable(int variable_id, const char *name, int type);
void weft_check_describe_loop(int construct_id, char *told);
void weft_check_describe_place(int site_id, const char *file, int line);

/* Name an array. extent[d] elements from lower[d] in each dimension; `element` bytes each. Calling it again for the
 * same place (a loop around a declaration, a new malloc) makes a new, undistributed array. What lies there keeps its
 * values or the lack of them. extent[0] == 0 (C's `double (*a)[N]`): as much as is known to lie at base. */
void weft_check_array(int variable_id, const void *base, size_t element, int dimension_count, const int64_t lower[],
                      const int64_t extent[], int order);

/* Name the block of the heap that begins at base, if one does: elements as weft_check_array has them, extent[0] == 0;
 * dimension_count 0: as they are accessed. It becomes an object where it is first looked at: lists of small blocks cost nothing. */
void weft_check_name_heap_block(int variable_id, const void *base, size_t element, int dimension_count,
                                const int64_t extent[]);

/* A formal parameter: another name (and view) of what lies at base; its distribution stays. */
void weft_check_argument(int variable_id, const void *base, size_t element, int dimension_count, const int64_t lower[],
                         const int64_t extent[], int order);

/* These bytes are uninitialised from here: a declaration without initialiser. They are filled with a pattern, so that
 * values put there by code without hooks are noticed. Inside an iteration it also says: local to this iteration. */
void weft_check_clear(void *base, size_t bytes);

/* A declaration with initialiser inside an iteration (its address is taken): local to it, and initialised. */
void weft_check_local(void *base, size_t bytes);

/* These bytes were given values by something without hooks (READ, scanf: known libc functions are known already). */
void weft_check_written(const void *base, size_t bytes);

/* --- distribution ----------------------------------------------------------------------------------------------- */

void weft_check_template(int variable_id, int dimension_count, const int64_t lower[], const int64_t extent[]);

enum {
    WEFT_WHOLE = 0, /* `*`, []: the dimension is not distributed */
    WEFT_BLOCK,
    WEFT_WGTBLOCK,
    WEFT_GENBLOCK,
    WEFT_MULTBLOCK,
    WEFT_INDIRECT,
    WEFT_DERIVED,
    WEFT_LATER /* a later directive distributes it: until then it is whole, and no loop may run on it */
};

/* Distribute (or redistribute) an array or template. */
void weft_check_distribute(int construct_id, int variable_id, const void *base, int dimension_count, const int kinds[]);

/* Sizes of the blocks of one dimension (genblock: elements, wgtblock: weights), before weft_check_distribute. */
void weft_check_blocks(int variable_id, const void *base, int dimension, int64_t count, const double sizes[]);

/* Owners of elements, before weft_check_distribute: `indirect` (a number each), `derived` (where an index of the target
 * is). The loops over elements run from weft_check_lower, weft_check_extent times. */
int64_t weft_check_extent(int variable_id, const void *base, int dimension);
int64_t weft_check_lower(int variable_id, const void *base, int dimension);
void weft_check_owner(int variable_id, const void *base, int dimension, int64_t element, int64_t processor);
void weft_check_owner_derived(int variable_id, const void *base, int dimension, int64_t element, int target_id,
                              const void *target_base, int axis, int64_t index);

/* A named shadow edge (shadow_add) in a dimension: begin, for each index of the target's axis the elements that it
 * names, the arrays that get the edge, end. other_edge_name: another edge of
 * the target whose indices count too; 0: none. */
void weft_check_edge_begin(int construct_id, int edge_name, int variable_id, const void *base, int dimension,
                           int target_id, const void *target_base, int axis, int other_edge_name);
void weft_check_edge_element(int64_t index, int64_t element);
void weft_check_edge_include(int variable_id, const void *base);
void weft_check_edge_end(void);
/* Renewed now; construct_id 0: by the loop that begins. */
void weft_check_edge_renew(int construct_id, int edge_name, int variable_id, const void *base);
/* Numbers in an array become indices of the target's axis: each must be its processor's own, or in an edge. */
void weft_check_localize(int construct_id, int variable_id, const void *base, int target_id, const void *target_base,
                         int axis);

/* Distribute onto one task's processors (REDISTRIBUTE A(...) ONTO MPT(task)). */
void weft_check_distribute_onto(int construct_id, int variable_id, const void *base, int dimension_count,
                                const int kinds[], int task_array_id, int64_t task);

/* Align (or realign) an array with a target of `dimension_count` dimensions. */
void weft_check_align(int construct_id, int variable_id, const void *base, int target_id, const void *target_base,
                      int dimension_count, const int axis[], const int64_t coefficient[], const int64_t offset[]);

/* Widths of the shadow edges for each dimension of the array; 1 on both sides where this is not called. */
void weft_check_shadow(int variable_id, const void *base, int dimension_count, const int64_t low[],
                       const int64_t high[]);

/* --- parallel loops --------------------------------------------------------------------------------------------- */

enum {
    WEFT_UNORDERED = 1, /* iterations run in any order (OpenMP, prange); else DVM's: an increasing anti-dependence is
                           right, because the shadow holds the old value */
    WEFT_STRICT = 2 /* a variable that is written must be declared private or reduction; else it is private where
                           its first access is a write (DVM outside regions). Regions are strict by themselves. */
};

/* begin, then the clauses, then start, then the loop with an iteration call at the head of its innermost body, then end.
 * dimension_count: number of the loop's indices. A parallel loop inside an iteration of another one is plain code. */
void weft_check_loop_begin(int construct_id, int dimension_count, unsigned flags);

/* ON: iteration -> element of an array or template (dimension_count: the target's). An array without distribution: an error. */
void weft_check_loop_on(int variable_id, const void *base, int dimension_count, const int axis[],
                        const int64_t coefficient[], const int64_t offset[]);
/* A loop variable: its own accesses are the loop's control, not the body's. Only needed where its address escapes. */
void weft_check_loop_index(const void *base, size_t bytes);
void weft_check_loop_private(int variable_id, void *base, size_t bytes);

enum {
    WEFT_SUM = 1,
    WEFT_PRODUCT,
    WEFT_MAX,
    WEFT_MIN,
    WEFT_AND,
    WEFT_OR,
    WEFT_XOR, /* bitwise */
    WEFT_EQV,
    WEFT_NEQV, /* logical, Fortran */
    WEFT_LAND,
    WEFT_LOR, /* logical: && || .and. .or. */
    WEFT_MAXLOC,
    WEFT_MINLOC
};
enum {
    WEFT_INT8 = 1,
    WEFT_INT16,
    WEFT_INT32,
    WEFT_INT64,
    WEFT_UINT8,
    WEFT_UINT16,
    WEFT_UINT32,
    WEFT_UINT64,
    WEFT_FLOAT,
    WEFT_DOUBLE,
    WEFT_LONG_DOUBLE,
    WEFT_COMPLEX_FLOAT,
    WEFT_COMPLEX_DOUBLE,
    WEFT_LOGICAL1,
    WEFT_LOGICAL2,
    WEFT_LOGICAL4,
    WEFT_LOGICAL8
};

/* count elements at base; location/location_bytes: what goes with them in maxloc and minloc, else NULL, 0. */
void weft_check_loop_reduction(int variable_id, void *base, int operation, int type, int64_t count, void *location,
                               size_t location_bytes);
/* The reductions of this loop complete with weft_check_reduction_wait(group) only. */
void weft_check_loop_reduction_group(int group_id);

/* low NULL: the declared widths. */
void weft_check_loop_across(int variable_id, const void *base, int dimension_count, const int64_t low[],
                            const int64_t high[]);
/* low NULL: the declared widths. Renewed before the loop. */
void weft_check_loop_shadow_renew(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                  const int64_t high[], int corner);
/* SHADOW_COMPUTE: iterations also run in the shadow edges of the ON array, which they may write. */
void weft_check_loop_shadow_compute(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                    const int64_t high[]);
void weft_check_loop_remote(int variable_id, const void *base, int dimension_count, const int axis[],
                            const int64_t coefficient[], const int64_t offset[]);
/* REMOTE_ACCESS(group: ...): filled by the prefetch of this group. */
void weft_check_loop_remote_group(int group_id, int variable_id, const void *base, int dimension_count,
                                  const int axis[], const int64_t coefficient[], const int64_t offset[]);
/* TIE: loop index -> the array's index (checked only by that it is affine); without ON the owner of tied elements. */
void weft_check_loop_tie(int variable_id, const void *base, int dimension_count, const int axis[],
                         const int64_t coefficient[], const int64_t offset[]);
/* CONSISTENT: iterations write these elements of an array that every processor has; afterwards all copies are made the
 * same: at the loop's end, or (group_id not 0) by weft_check_consistent_wait. */
void weft_check_loop_consistent(int group_id, int variable_id, const void *base, int dimension_count, const int axis[],
                                const int64_t coefficient[], const int64_t offset[]);
void weft_check_loop_start(void);
void weft_check_iteration(int dimension_count, const int64_t index[]);
void weft_check_iteration1(int64_t i);
void weft_check_iteration2(int64_t i, int64_t j);
void weft_check_iteration3(int64_t i, int64_t j, int64_t k);
/* In place of these where values are traced: true where the iteration is another processor's, to be passed over. */
int weft_check_skips(int dimension_count, const int64_t index[]);
int weft_check_skips1(int64_t i);
int weft_check_skips2(int64_t i, int64_t j);
int weft_check_skips3(int64_t i, int64_t j, int64_t k);
void weft_check_loop_end(int construct_id);

/* --- shadow edges outside loops ---------------------------------------------------------------------------------- */

/* Now, all at once. */
void weft_check_shadow_renew(int construct_id, int variable_id, const void *base, int dimension_count,
                             const int64_t low[], const int64_t high[], int corner);
/* Put an array into a shadow group; start and wait for the group's renewal. */
void weft_check_shadow_group(int construct_id, int group_id, int variable_id, const void *base, int dimension_count,
                             const int64_t low[], const int64_t high[], int corner);
void weft_check_shadow_start(int construct_id, int group_id);
void weft_check_shadow_wait(int construct_id, int group_id);

void weft_check_consistent_start(int construct_id, int group_id);
void weft_check_consistent_wait(int construct_id, int group_id);
/* ASYNCHRONOUS: copies of a group begin; what each of them reads or writes: count[d] elements, stride[d] bytes apart, in
 * each dimension; ASYNCWAIT. */
void weft_check_copy_start(int construct_id, int group_id);
void weft_check_copy_part(int construct_id, int group_id, int written, const void *base, size_t element,
                          int dimension_count, const int64_t count[], const int64_t stride[]);
void weft_check_copy_wait(int construct_id, int group_id);

void weft_check_reduction_start(int construct_id, int group_id);
void weft_check_reduction_wait(int construct_id, int group_id);

/* --- sequential parts -------------------------------------------------------------------------------------------- */

/* From here on accesses of distributed elements outside parallel constructs must be local on every processor, own
 * computations or remote_access. A front end that cannot tell own computations leaves it off. */
void weft_check_sequential(int on);

/* Own computations: what follows is run by the owner of this element only. */
void weft_check_own_begin(int construct_id, int variable_id, const void *base, int dimension_count,
                          const int64_t index[]);
void weft_check_own_end(int construct_id);

/* The statement or block after a REMOTE_ACCESS directive: begin, the arrays, end. */
void weft_check_remote_begin(int construct_id);
void weft_check_remote(int variable_id, const void *base, int dimension_count, const int axis[],
                       const int64_t coefficient[], const int64_t offset[]);
void weft_check_remote_end(int construct_id);
/* Groups of remote accesses: prefetch fills what the group's clauses name, reset forgets it. */
void weft_check_remote_prefetch(int construct_id, int group_id);
void weft_check_remote_reset(int construct_id, int group_id);

/* I/O of distributed arrays is done by the runtime of DVM with all elements: accesses in between are let alone. */
void weft_check_io_begin(void);
void weft_check_io_end(void);

/* --- regions ----------------------------------------------------------------------------------------------------- */

enum { WEFT_IN = 1, WEFT_OUT = 2, WEFT_INOUT = 3, WEFT_LOCAL = 4, WEFT_INLOCAL = 5 };

/* begin, data, start, the body, end. low NULL: the whole; else the section low[d]..high[d] in program indices. */
void weft_check_region_begin(int construct_id);
void weft_check_region_data(int variable_id, const void *base, size_t bytes, int direction, int dimension_count,
                            const int64_t low[], const int64_t high[]);
void weft_check_region_start(void);
void weft_check_region_end(int construct_id);
void weft_check_host_section_begin(int construct_id);
void weft_check_host_section_end(int construct_id);
/* base NULL: everything. */
void weft_check_actual(int construct_id, int variable_id, const void *base, size_t bytes, int dimension_count,
                       const int64_t low[], const int64_t high[]);
void weft_check_get_actual(int construct_id, int variable_id, const void *base, size_t bytes, int dimension_count,
                           const int64_t low[], const int64_t high[]);

/* --- tasks ------------------------------------------------------------------------------------------------------- */

/* A task array of `count` tasks (0: not known how many); map a task to processors (low..high of a grid's linear order; 0, -1: its own). */
void weft_check_task_array(int task_array_id, int64_t lower, int64_t count);
void weft_check_task_map(int construct_id, int task_array_id, int64_t task, int64_t low, int64_t high);
/* TASK_REGION: reductions and remote accesses of the region come between begin and start, as with a loop
 * (weft_check_loop_reduction, weft_check_loop_remote, ...). */
void weft_check_task_region_begin(int construct_id, int task_array_id);
void weft_check_task_region_start(void);
void weft_check_task_begin(int construct_id, int64_t task); /* ON MPT(task) */
void weft_check_task_end(int construct_id);
void weft_check_task_region_end(int construct_id);

/* --- accesses that do not come from the compiler's instrumentation ------------------------------------------------ */

/* Before the access. site_id: its place in the side file; 0: the caller's address. */
void weft_check_read(const void *address, size_t bytes, int site_id);
void weft_check_put_out(const void *address, size_t bytes, int site_id); /* a structure, with the gaps it may have */
void weft_check_write(const void *address, size_t bytes, int site_id);
/* Index of a dimension (from 0) outside its bounds. base may be NULL. */
void weft_check_out_of_bounds(int variable_id, const void *base, int dimension, int64_t index, int64_t low,
                              int64_t high, int site_id);

/* The same with the place of the access as an address in the program. */
void weft_check_out_of_bounds_at(int variable_id, const void *base, int dimension, int64_t index, int64_t low,
                                 int64_t high, const void *pc);

/* 1 where findings are being written (a front end in the same process asks). */
int weft_check_active(void);
/* Findings so far are written to the file; also done at exit, abort and fatal signals. */
void weft_check_flush(void);

#ifdef __cplusplus
}
#endif
#endif
