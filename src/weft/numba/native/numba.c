/* What stands in for Numba's scheduler and allocator while a program is checked (weft.numba).
 *
 * A parallel loop of Numba is a kernel that is called with a schedule: the first and the last index of each dimension.
 * Numba's own scheduler gives each thread a piece; this one calls the kernel once an iteration, in increasing order,
 * on the caller's thread, and tells the runtime of the check which iteration it is. The kernel's partial results of
 * reductions lie in an array with a slot a thread: iterations are dealt out in blocks to as many virtual threads.
 *
 * Owner of everything here: the one thread that runs the checked function (Numba's worker threads stay idle).
 */
#include "numba.h"

#include "access.h"
#include "cells.h"
#include "findings.h"
#include "loops.h"
#include "ran.h"
#include "turns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

static const Loop *entered[MAX_DEPTH];
static int depth;
static int running; /* inside iterations of a checked loop */
uint32_t weft_numba_loops_run; /* so far; kernels read it */
static int64_t thread;
/* Whose iteration this is, where values are traced. */
static int weft_numba_turn(void) { return (int)thread; }
static char *frames; /* of iterations: all below this address */
static double magnitude;

static int watching;

/* Whether loops are checked from here on: not where a function runs for comparison. */
void weft_numba_watch(int on) { watching = on; }

static int following; /* blocks of Numba's runtime are known from when they are made */
static int followed;  /* only since a loop of this depth was entered; 0: since a function was called */

void weft_numba_follow_memory(int on);

/* Enter a parallel loop of Numba: the next call of its scheduler runs it. Machine code that the program calls past its
 * function (`overloads[...].entry_point`) was not begun by a call: then memory is followed from here on. */
void weft_numba_enter_loop(const Loop *loop) {
    if (depth < MAX_DEPTH) entered[depth] = loop;
    depth++;
    if (following) return;
    weft_numba_follow_memory(1);
    followed = depth;
}

/* Leave the innermost parallel loop, and stop following memory if its entry began that. */
void weft_numba_leave_loop(void) {
    if (followed == depth) weft_numba_follow_memory(0);
    depth--;
}

size_t weft_numba_thread_id(void) { return (size_t)thread; }

/* Return the largest sum of a reduction's partial results since the last call: what its rounding errors are measured
 * by. */
double weft_numba_take_magnitude(void) {
    double was = magnitude;
    magnitude = 0;
    return was;
}

/* Run a loop's kernel as Numba's own scheduler would on one thread, without telling the runtime of iterations. */
static void run_unchecked(const Loop *loop, Kernel kernel, char **arguments, size_t *dimensions, size_t *steps,
                          void *data, size_t inner_dimension_count, size_t argument_count) {
    char *moved[MAX_ARGUMENTS];
    size_t sizes[MAX_ARGUMENTS];
    if (!loop || argument_count > MAX_ARGUMENTS ||
        inner_dimension_count + 1 > MAX_ARGUMENTS) { /* a parallel ufunc goes through all by itself */
        kernel(arguments, dimensions, steps, data);
        return;
    }
    if (loop->guards) memset(loop->guards + 1, 1, (size_t)loop->count); /* as a part of an iteration */
    for (size_t piece = 0; piece < dimensions[0]; piece++) {
        memcpy(sizes, dimensions, (inner_dimension_count + 1) * sizeof *sizes);
        sizes[0] = 1;
        for (size_t a = 0; a < argument_count; a++) moved[a] = arguments[a] + steps[a] * piece;
        kernel(moved, sizes, steps, data);
    }
}

/* Register an array of the loop with the runtime, which wants it packed in C or Fortran order. A strided view is
 * registered as the array that it is a part of, with one dimension more (its index there is 0), or, where that cannot
 * be, as a row of elements. */
static void register_array(const Argument *argument, char *base, const size_t *dimensions, const size_t *steps) {
    int64_t lower[WEFT_MAX_RANK] = {0}, extent[WEFT_MAX_RANK], stride[WEFT_MAX_RANK];
    int64_t c = argument->element, fortran = argument->element, first = 0, last = 0;
    int in_c = 1, in_fortran = 1, nested = argument->rank < WEFT_MAX_RANK, rank = argument->rank;
    for (int d = 0; d < rank; d++) {
        extent[d] = (int64_t)dimensions[argument->dimension[d]];
        stride[d] = (int64_t)steps[argument->stride + d];
        if (extent[d] == 0) return;
        if (extent[d] > 1 && stride[d] != fortran) in_fortran = 0;
        fortran *= extent[d];
        *(stride[d] < 0 ? &first : &last) += stride[d] * (extent[d] - 1);
    }
    for (int d = rank - 1; d >= 0; d--) {
        if (extent[d] > 1 && stride[d] != c) in_c = 0;
        c *= extent[d];
    }
    if (in_c || in_fortran) {
        weft_check_array(argument->data, base, (size_t)argument->element, rank, lower, extent,
                         in_c ? WEFT_ORDER_C : WEFT_ORDER_FORTRAN);
        return;
    }
    for (int d = 0; d < rank; d++) {
        int64_t inner = d + 1 < rank ? stride[d + 1] : argument->element;
        if (stride[d] <= 0 || inner <= 0 || stride[d] % inner || (d + 1 < rank && stride[d] / inner < extent[d + 1]))
            nested = 0;
    }
    if (nested) {
        for (int d = rank; d > 0; d--) extent[d] = stride[d - 1] / (d < rank ? stride[d] : argument->element);
        extent[rank] = stride[rank - 1] / argument->element;
        weft_check_array(argument->data, base, (size_t)argument->element, rank + 1, lower, extent, WEFT_ORDER_C);
    } else {
        extent[0] = (last - first) / argument->element + 1;
        weft_check_array(argument->data, base + first, (size_t)argument->element, 1, lower, extent, WEFT_ORDER_C);
    }
}

/* Register with the runtime the arrays, containers and shared variables that the loop works on. */
static void register_arguments(const Loop *loop, char **arguments, const size_t *dimensions, const size_t *steps) {
    for (int a = 0; a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        if (one->kind == AS_SHARED) weft_check_data(one->data, arguments[a + 1], (size_t)one->element);
        if (one->kind == AS_ARRAY && one->rank) register_array(one, arguments[a + 1], dimensions, steps);
        if (one->kind == AS_CONTAINER)
            weft_check_array(one->data, *(void **)arguments[a + 1], sizeof(size_t), 1, &(int64_t){0}, &(int64_t){1},
                             WEFT_ORDER_C);
    }
}

/* Let the runtime leave alone the array with the threads' partial results of each reduction. */
static void exclude_partial_results(const Loop *loop, char **arguments, const size_t *steps, int threads) {
    for (int a = 0; a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        if (one->kind != AS_REDUCTION) continue;
        weft_check_loop_index(arguments[a + 1], (size_t)threads * steps[one->stride]);
        for (int t = 0; t < threads; t++)
            add_reduction_slot(t, arguments[a + 1] + (size_t)t * steps[one->stride], steps[one->stride]);
    }
}

/* Sum the magnitudes of each reduction's partial results and keep the largest sum for weft_numba_take_magnitude. */
static void sum_partial_magnitudes(const Loop *loop, char **arguments, const size_t *steps, int threads) {
    for (int a = 0; a < loop->count; a++) {
        const Argument *one = &loop->argument[a];
        if (one->kind != AS_REDUCTION || !one->real) continue;
        size_t values = (size_t)threads * steps[one->stride] / (size_t)one->real;
        double sum = 0;
        for (size_t v = 0; v < values; v++)
            sum += fabs(one->real == 8 ? ((double *)arguments[a + 1])[v] : ((float *)arguments[a + 1])[v]);
        if (sum > magnitude) magnitude = sum;
    }
}

/* --- bounds ------------------------------------------------------------------------------------------------------ */

static int reporting;
static int64_t outside; /* indices outside since the last call of weft_numba_take_outside_count */

/* Python's own functions, by pointer: this library is not linked with Python. */
static int (*gil_ensure)(void);
static void (*gil_release)(int), (*error_clear)(void);

/* Take the addresses of three functions of Python: to take the GIL, release it, and clear an error. This library is not
 * linked with Python. */
void weft_numba_set_python_functions(void *ensure, void *release, void *clear) {
    gil_ensure = (int (*)(void))ensure;
    gil_release = (void (*)(int))release;
    error_clear = (void (*)(void))clear;
}

/* What an index outside is: 0 only counted, 1 a finding. */
void weft_numba_report_bounds(int on) { reporting = on; }

/* Return how many indices have been out of bounds since the last call. */
int64_t weft_numba_take_outside_count(void) {
    int64_t was = outside;
    outside = 0;
    return was;
}

/* Count one more at an address; the sequential variant of a function calls this. */
void weft_numba_count(int64_t counter_address) { ++*(int64_t *)(intptr_t)counter_address; }

/* Reads without a value and dependences until now, of every loop. */
uint64_t weft_numba_count_faults(void) {
    return count_findings_of_kind("uninitialised-read") + count_findings_of_kind("loop-dependence");
}

/* The loop that is running, and where its arrays lie. */
static const Loop *current;
static char **current_arguments;
static const size_t *current_dimensions, *current_steps;

/* Return the id of the loop's array that begins at an address, else of one that contains it; 0 if there is none. */
static int find_array_id_at(const char *address) {
    int around = 0;
    for (int a = 0; current && a < current->count; a++) {
        const Argument *one = &current->argument[a];
        char *low, *high;
        if (one->kind != AS_ARRAY) continue;
        if (current_arguments[a + 1] == address) return one->data;
        find_array_bounds(one, current_arguments[a + 1], current_dimensions, current_steps, &low, &high);
        if (address >= low && address <= high) around = one->data;
    }
    return around;
}

/* Called by a kernel for an index outside 0..extent-1, before it raises IndexError: count and maybe report it. A
 * negative index has had the extent added; it is reported as the program has it. */
void weft_numba_note_outside_index(const void *base_address, int32_t dimension, int64_t index, int64_t extent,
                                   int32_t site_id) {
    outside++;
    if (index < 0) index -= extent;
    if (reporting)
        weft_check_out_of_bounds(find_array_id_at(base_address), base_address, dimension, index, 0, extent - 1,
                                 site_id);
}

/* Clear the Python error that an iteration raised, so that the program goes on with the next iteration. */
static void clear_python_error(void) {
    if (!gil_ensure) return;
    int state = gil_ensure();
    error_clear();
    gil_release(state);
}

/* Return the least and greatest index of each dimension that a schedule covers, and how many iterations it has. */
static Range find_covered_range(const Loop *loop, char **arguments, const size_t *dimensions, const size_t *steps) {
    Range range = {.points = 0};
    for (size_t piece = 0; piece < dimensions[0]; piece++) {
        const int64_t *bounds = (const int64_t *)(arguments[0] + steps[0] * piece);
        double points = 1;
        for (int d = 0; d < loop->rank; d++)
            points *= bounds[loop->rank + d] < bounds[d] ? 0 : (double)(bounds[loop->rank + d] - bounds[d] + 1);
        for (int d = 0; d < loop->rank && points > 0; d++) {
            int64_t low = bounds[d], high = bounds[loop->rank + d];
            if (range.points == 0 || low < range.low[d]) range.low[d] = low;
            if (range.points == 0 || high > range.high[d]) range.high[d] = high;
        }
        range.points += points;
    }
    return range;
}

/* Run all iterations with one kernel call for each virtual thread and piece of the schedule, without hooks: their
 * accesses were proved right before. */
static void run_without_hooks(const Loop *loop, Kernel kernel, char **arguments, const size_t *dimensions,
                              size_t *steps, void *data, size_t inner_dimension_count, int threads,
                              const Range *range) {
    int rank = loop->rank;
    size_t sizes[MAX_ARGUMENTS];
    char *moved[MAX_ARGUMENTS];
    int64_t schedule[2 * WEFT_MAX_RANK];
    memcpy(moved, arguments, ((size_t)loop->count + 1) * sizeof *moved);
    moved[0] = (char *)schedule;
    weft_check_iteration(rank, range->low);
    for (int i = 0; i < loop->sites; i++) count_examined_place((uintptr_t)loop->site[i] << 2);
    loop->guards[MAX_ARGUMENTS] = 1;
    for (size_t piece = 0; piece < dimensions[0]; piece++) {
        const int64_t *bounds = (const int64_t *)(arguments[0] + steps[0] * piece);
        double per = (double)(range->high[0] - range->low[0] + 1) / threads;
        for (thread = 0; thread < threads; thread++) {
            memcpy(schedule, bounds, 2 * (size_t)rank * sizeof *schedule);
            int64_t from = range->low[0] + (int64_t)(per * (double)thread);
            int64_t to =
                thread + 1 < threads ? range->low[0] + (int64_t)(per * (double)(thread + 1)) - 1 : range->high[0];
            if (schedule[0] < from) schedule[0] = from;
            if (schedule[rank] > to) schedule[rank] = to;
            int empty = 0;
            for (int d = 0; d < rank; d++) empty |= schedule[rank + d] < schedule[d];
            if (empty) continue;
            memcpy(sizes, dimensions, (inner_dimension_count + 1) * sizeof *sizes);
            sizes[0] = 1;
            kernel(moved, sizes, steps, data);
        }
    }
    loop->guards[MAX_ARGUMENTS] = 0;
    thread = 0;
    advance_past_row((int64_t)range->points - 1);
}

/* Run a loop's iterations one by one in increasing order, dealt out in blocks to virtual threads, and tell the runtime
 * of each. An iteration that raises IndexError ends there. */
static void run_iterations(const Loop *loop, Kernel kernel, char **arguments, const size_t *dimensions, size_t *steps,
                           void *data, size_t inner_dimension_count, int threads, double iteration_total) {
    int rank = loop->rank;
    size_t sizes[MAX_ARGUMENTS];
    char *moved[MAX_ARGUMENTS];
    int64_t at[WEFT_MAX_RANK], schedule[2 * WEFT_MAX_RANK];
    double done = 0;
    int64_t told = -1;
    memcpy(moved, arguments, ((size_t)loop->count + 1) * sizeof *moved);
    moved[0] = (char *)schedule;
    for (size_t piece = 0; piece < dimensions[0]; piece++) {
        const int64_t *bounds = (const int64_t *)(arguments[0] + steps[0] * piece);
        int empty = 0;
        for (int d = 0; d < rank; d++) {
            at[d] = bounds[d];
            if (bounds[rank + d] < bounds[d]) empty = 1;
        }
        while (!empty) {
            thread = (int64_t)(done++ * threads / iteration_total);
            bool passed = weft_traced && weft_check_skips(rank, at);
            if (!weft_traced && (!loop->by_thread || thread != told)) weft_check_iteration(rank, at);
            told = thread;
            for (int d = 0; d < rank; d++) schedule[d] = schedule[rank + d] = at[d];
            memcpy(sizes, dimensions, (inner_dimension_count + 1) * sizeof *sizes);
            sizes[0] = 1;
            int64_t before = outside;
            if (!passed) kernel(moved, sizes, steps, data);
            if (outside != before) clear_python_error();
            int d = rank - 1;
            for (; d >= 0; d--) {
                if (++at[d] <= bounds[rank + d]) break;
                at[d] = bounds[d];
            }
            if (d < 0) break;
        }
    }
    thread = 0;
}

/* Stand in for Numba's numba_parallel_for, which runs a loop's kernel on all threads: run its iterations on the
 * caller's thread, checked if that is wanted and the loop is known. */
void weft_numba_parallel_for(void *kernel_function, char **arguments, size_t *dimensions, size_t *steps, void *data,
                             size_t inner_dimension_count, size_t argument_count, int threads) {
    const Loop *loop = depth > 0 && depth <= MAX_DEPTH ? entered[depth - 1] : NULL;
    Kernel kernel = (Kernel)kernel_function;
    if (!loop || !loop->checked || !watching || running || !weft_check_active() || argument_count > MAX_ARGUMENTS ||
        inner_dimension_count + 1 > MAX_ARGUMENTS || argument_count != (size_t)loop->count + 1) {
        run_unchecked(loop, kernel, arguments, dimensions, steps, data, inner_dimension_count, argument_count);
        return;
    }
    register_arguments(loop, arguments, dimensions, steps);
    if (weft_traced) turns_shared(weft_numba_turn);
    Range range = find_covered_range(loop, arguments, dimensions, steps);
    choose_watched_arrays(loop, arguments, dimensions, steps, &range);
    if (weft_traced && loop->guards) memset(loop->guards + 1, 1, (size_t)loop->count); /* each access is wanted */
    weft_check_loop_begin(loop->construct, loop->rank, WEFT_UNORDERED);
    exclude_partial_results(loop, arguments, steps, threads);
    weft_check_loop_start();
    weft_numba_loops_run++;
    running = 1;
    current = loop;
    current_arguments = arguments;
    current_dimensions = dimensions;
    current_steps = steps;
    frames = __builtin_frame_address(0);
    if (range.points > 1 && range.points < LAST_STAMP / 2 && !weft_traced && can_loop_run_unwatched(loop))
        run_without_hooks(loop, kernel, arguments, dimensions, steps, data, inner_dimension_count, threads, &range);
    else run_iterations(loop, kernel, arguments, dimensions, steps, data, inner_dimension_count, threads, range.points);
    running = 0;
    current = NULL;
    weft_check_loop_end(loop->construct);
    sum_partial_magnitudes(loop, arguments, steps, threads);
}

/* --- accesses --------------------------------------------------------------------------------------------------- */

/* Accesses of a kernel, whose iterations run in any order: what the cells alone tell to be right is noted here, all
 * else goes to the runtime's judge; and the first access of each place in a loop, so that the judge knows the places. */
const uint64_t weft_numba_cells[] = {FOLD & ~7ull, SPACE8}; /* cell8(), for kernels */
uint32_t weft_numba_known[PLACES]; /* the loop in which a place was seen last; kernels read it */

/* Return whether a place's accesses were seen in this run of the loop before, and note that they are now. */
static inline int test_and_set_place_seen(int32_t site_id) {
    uint32_t *of = &weft_numba_known[site_id & (PLACES - 1)];
    if (*of == weft_numba_loops_run) return 1;
    *of = weft_numba_loops_run;
    return 0;
}

/* Return whether this iteration wrote the element before, so that whatever it does there now is right. Kernels ask that
 * by themselves, too (numba/instrument.py). */
static inline int is_own_earlier_write(uintptr_t address, size_t bytes, int32_t site_id) {
    return bytes == 8 && !(address & 7) && cell8(address)->written == now.cur &&
           weft_numba_known[site_id & (PLACES - 1)] == weft_numba_loops_run && running;
}

/* Called by a kernel before a read: note it in the cells where these alone show it to be right, else have the
 * runtime judge it. The first access of each place in a loop is always judged. `site_id`: the place's number in the
 * source map. */
void weft_numba_read(const char *address, size_t bytes, int32_t site_id) {
    uintptr_t a = (uintptr_t)address;
    if (weft_traced) {
        trace_program_access(a, bytes, false, (uintptr_t)site_id << 2);
        return;
    }
    if (is_own_earlier_write(a, bytes, site_id) || now.off) return;
    if (!running || ((a | bytes) & 7) || !test_and_set_place_seen(site_id)) {
        weft_check_read(address, bytes, site_id);
        return;
    }
    const stamp_t base = now.base, cur = now.cur;
    struct cell *cell = cell8(a);
    for (size_t n = bytes / 8; n; n--, cell++, a += 8) {
        if (cell->written == cur) continue;
        if (__builtin_expect(cell->written > base, 0)) weft_check_read((const void *)a, 8, site_id);
        else if (cell->read <= base) cell->read = cur;
    }
}

/* Called by a kernel before a write: stamp the cells where these alone show it to be right, else have the runtime judge
 * it. The first access of each place in a loop is always judged. `site_id`: the place's number in the source map. */
void weft_numba_write(const char *address, size_t bytes, int32_t site_id) {
    uintptr_t a = (uintptr_t)address;
    if (weft_traced) {
        trace_program_access(a, bytes, true, (uintptr_t)site_id << 2);
        return;
    }
    if (is_own_earlier_write(a, bytes, site_id) || now.off) return;
    if (!running || ((a | bytes) & 7) || !test_and_set_place_seen(site_id)) {
        weft_check_write(address, bytes, site_id);
        return;
    }
    const stamp_t base = now.base, cur = now.cur;
    struct cell *cell = cell8(a);
    for (size_t n = bytes / 8; n; n--, cell++, a += 8) {
        if (__builtin_expect((cell->written <= base || cell->written == cur || cell->written >= NO_VALUE) &&
                                 (cell->read <= base || cell->read == cur),
                             1))
            cell->written = cur;
        else weft_check_write((const void *)a, 8, site_id);
    }
}

#if defined __x86_64__
#include <immintrin.h>

/* The same of a vector of 4 cells at once; where one is not as it mostly is, one after the other. A cell's first word is
 * that of its write, its second that of its read. */
#define FOUR __attribute__((target("avx2")))
#define IS_PLAIN(a, bytes, site)                                                                                       \
    (__builtin_expect(((a) & 7) == 0 && (bytes) == 32 && running && !now.off && !weft_traced &&                        \
                          weft_numba_known[(site) & (PLACES - 1)] == weft_numba_loops_run,                             \
                      1))

FOUR __attribute__((always_inline)) static inline __m256i is_at_most(__m256i w, __m256i most) {
    return _mm256_cmpeq_epi32(_mm256_min_epu32(w, most), w);
}

/* Called by a kernel before a vector read: handle four cells at once with AVX2 if all are in their usual state, else as
 * weft_numba_read does. A cell's first word is the stamp of its last write, its second that of its first read. */
FOUR void weft_numba_read_wide(const char *address, size_t bytes, int32_t site_id) {
    uintptr_t a = (uintptr_t)address;
    if (IS_PLAIN(a, bytes, site_id)) {
        __m256i *at = (__m256i *)cell8(a), w = _mm256_loadu_si256(at), cur = _mm256_set1_epi32((int)now.cur);
        __m256i old = is_at_most(w, _mm256_set1_epi32((int)now.base));
        __m256i own = _mm256_shuffle_epi32(_mm256_cmpeq_epi32(w, cur), 0xA0);
        __m256i right = _mm256_or_si256(own, _mm256_shuffle_epi32(old, 0xA0));
        if (__builtin_expect(_mm256_movemask_epi8(right) == -1, 1)) {
            __m256i set = _mm256_andnot_si256(own, old); /* nobody read it yet in this loop */
            _mm256_storeu_si256(at, _mm256_blend_epi32(w, _mm256_blendv_epi8(w, cur, set), 0xAA));
            return;
        }
    }
    weft_numba_read(address, bytes, site_id);
}

/* Called by a kernel before a vector write: stamp four cells at once with AVX2 if all are in their usual state, else as
 * weft_numba_write does. */
FOUR void weft_numba_write_wide(const char *address, size_t bytes, int32_t site_id) {
    uintptr_t a = (uintptr_t)address;
    if (IS_PLAIN(a, bytes, site_id)) {
        __m256i *at = (__m256i *)cell8(a), w = _mm256_loadu_si256(at), cur = _mm256_set1_epi32((int)now.cur);
        __m256i right = _mm256_or_si256(is_at_most(w, _mm256_set1_epi32((int)now.base)), _mm256_cmpeq_epi32(w, cur));
        __m256i none = _mm256_cmpeq_epi32(_mm256_max_epu32(w, _mm256_set1_epi32((int)NO_VALUE)), w);
        right = _mm256_or_si256(right, _mm256_blend_epi32(none, _mm256_setzero_si256(), 0xAA));
        if (__builtin_expect(_mm256_movemask_epi8(right) == -1, 1)) {
            _mm256_storeu_si256(at, _mm256_blend_epi32(w, cur, 0x55));
            return;
        }
    }
    weft_numba_write(address, bytes, site_id);
}

int weft_numba_wide(void) { return has_avx2(); }
#else
int weft_numba_wide(void) { return 0; }
#endif

/* Lanes of a vector access, one bit each. */
void weft_numba_read_masked(const char *address, int64_t element, uint64_t mask, int32_t site_id) {
    for (; mask; mask &= mask - 1) weft_check_read(address + element * __builtin_ctzll(mask), (size_t)element, site_id);
}

void weft_numba_write_masked(const char *address, int64_t element, uint64_t mask, int32_t site_id) {
    for (; mask; mask &= mask - 1)
        weft_check_write(address + element * __builtin_ctzll(mask), (size_t)element, site_id);
}

/* One lane of a gather or scatter. */
void weft_numba_read_lane(const char *address, int64_t element, uint64_t mask, int32_t lane, int32_t site_id) {
    if (mask >> lane & 1) weft_check_read(address, (size_t)element, site_id);
}

void weft_numba_write_lane(const char *address, int64_t element, uint64_t mask, int32_t lane, int32_t site_id) {
    if (mask >> lane & 1) weft_check_write(address, (size_t)element, site_id);
}

/* Return whether an address lies in the stack frames of a running iteration, below the scheduler's own. Such memory is
 * each iteration's own, though all have it at the same place. */
static int is_in_iteration_frame(const char *address) {
    return running && address < frames && address > frames - (64 << 20);
}

void weft_numba_read_given(const char *address, size_t bytes, int32_t site_id) {
    if (!is_in_iteration_frame(address)) weft_check_read(address, bytes, site_id);
}

void weft_numba_write_given(const char *address, size_t bytes, int32_t site_id) {
    if (!is_in_iteration_frame(address)) weft_check_write(address, bytes, site_id);
}

/* --- memory of Numba's runtime (NRT) ------------------------------------------------------------------------------
 *
 * The head of its blocks, as compiled code relies on it (numba/core/runtime/nrt.cpp):
 *   +0 references   +8 destructor   +16 its argument   +24 data   +32 bytes   +40 allocator
 */
typedef struct {
    size_t references;
    void *destructor, *argument, *data;
    size_t bytes;
} Block;

typedef struct {
    Block *(*alloc)(size_t), *(*alloc_safe)(size_t), *(*alloc_aligned)(size_t, unsigned),
        *(*alloc_safe_aligned)(size_t, unsigned), *(*alloc_dtor)(size_t, void *), *(*alloc_dtor_safe)(size_t, void *),
        *(*new_varsize)(size_t), *(*new_varsize_dtor)(size_t, void *);
    void *(*varsize_alloc)(Block *, size_t), *(*varsize_realloc)(Block *, size_t);
    void (*varsize_free)(Block *, void *), (*call_dtor)(Block *);
    void *(*allocate)(size_t); /* without a head: copies of what an assignment reads and writes */
    void (*release)(void *);
} Runtime;

static Runtime real;

/* Blocks of the running call that have not been freed: open addressing, a power of two of places. */
typedef struct {
    char *data;
    size_t bytes;
} Place;

static Place *places;
static size_t capacity, used;

#define GONE ((char *)1)

static size_t slot_of(const char *data) { return ((uintptr_t)data >> 4) * 0x9e3779b97f4a7c15u >> 20 & (capacity - 1); }

/* Enter a block into the table of followed blocks, which must have a free slot. */
static void insert_followed_block(char *data, size_t bytes) {
    size_t at = slot_of(data);
    while (places[at].data && places[at].data != GONE && places[at].data != data) at = (at + 1) & (capacity - 1);
    if (!places[at].data) used++;
    places[at] = (Place){data, bytes};
}

/* Double the table of followed blocks. Without memory for it no block is followed any more: fewer reads are known to be
 * uninitialised then. */
static void grow_block_table(void) {
    Place *old = places;
    size_t count = capacity;
    capacity = count ? 2 * count : 1024;
    places = calloc(capacity, sizeof *places);
    used = 0;
    if (!places) { /* unfollowed blocks only mean that fewer reads are known to be uninitialised */
        places = old;
        capacity = count;
        following = 0;
        return;
    }
    for (size_t at = 0; at < count; at++)
        if (old[at].data && old[at].data != GONE) insert_followed_block(old[at].data, old[at].bytes);
    free(old);
}

/* Follow a new block of Numba's runtime, if blocks are followed now: its bytes are uninitialised. */
static void track_block(void *data, size_t bytes) {
    if (!following || !data || !bytes) return;
    if (2 * (used + 1) > capacity) grow_block_table();
    if (!following) return;
    insert_followed_block(data, bytes);
    weft_check_clear(data, bytes);
}

/* Stop following a block: what lies there later counts as initialised. */
static void forget_block(void *data) {
    if (!following || !data || !capacity) return;
    for (size_t at = slot_of(data); places[at].data; at = (at + 1) & (capacity - 1))
        if (places[at].data == (char *)data) {
            weft_check_written(data, places[at].bytes);
            places[at].data = GONE;
            return;
        }
}

void weft_numba_runtime(const Runtime *runtime) { real = *runtime; }

/* Switch on or off that new blocks of Numba's runtime count as uninitialised. Switching off makes all that live count
 * as initialised, since what happens to them outside the checked function is not seen. */
void weft_numba_follow_memory(int on) {
    if (!on)
        for (size_t at = 0; at < capacity; at++) {
            if (places[at].data && places[at].data != GONE) weft_check_written(places[at].data, places[at].bytes);
            places[at] = (Place){0};
        }
    used = on ? used : 0;
    following = on;
    followed = 0;
}

/* Follow a new block, and let what an earlier iteration did where its head lies be over: functions read heads, and a
 * kernel reports an access to a container as one to its block's head. */
static Block *track_new_block(Block *block, size_t bytes) {
    if (!block) return block;
    if (following) weft_check_written(block, sizeof *block);
    track_block(block->data, bytes);
    return block;
}

Block *weft_numba_alloc(size_t n) { return track_new_block(real.alloc(n), n); }
Block *weft_numba_alloc_safe(size_t n) { return track_new_block(real.alloc_safe(n), n); }
Block *weft_numba_alloc_aligned(size_t n, unsigned a) { return track_new_block(real.alloc_aligned(n, a), n); }
Block *weft_numba_alloc_safe_aligned(size_t n, unsigned a) { return track_new_block(real.alloc_safe_aligned(n, a), n); }
Block *weft_numba_alloc_dtor(size_t n, void *d) { return track_new_block(real.alloc_dtor(n, d), n); }
Block *weft_numba_alloc_dtor_safe(size_t n, void *d) { return track_new_block(real.alloc_dtor_safe(n, d), n); }
Block *weft_numba_new_varsize(size_t n) { return track_new_block(real.new_varsize(n), n); }
Block *weft_numba_new_varsize_dtor(size_t n, void *d) { return track_new_block(real.new_varsize_dtor(n, d), n); }

/* Stand in for NRT_MemInfo_varsize_alloc: follow the new data. */
void *weft_numba_varsize_alloc(Block *block, size_t n) {
    void *data = real.varsize_alloc(block, n);
    track_block(data, n);
    return data;
}

/* Stand in for NRT_MemInfo_varsize_realloc: the moved data counts as initialised, since its content was copied
 * unseen. */
void *weft_numba_varsize_realloc(Block *block, size_t byte_count) {
    forget_block(block->data);
    void *data = real.varsize_realloc(block, byte_count);
    if (following && data) weft_check_written(data, byte_count); /* the old content has been copied unseen */
    return data;
}

void weft_numba_varsize_free(Block *block, void *data) {
    forget_block(data);
    real.varsize_free(block, data);
}

void weft_numba_call_dtor(Block *block) {
    forget_block(block->data);
    real.call_dtor(block);
}

/* Stand in for NRT_Allocate: follow the new memory. */
void *weft_numba_allocate(size_t n) {
    void *data = real.allocate(n);
    track_block(data, n);
    return data;
}

void weft_numba_release(void *data) {
    forget_block(data);
    real.release(data);
}
