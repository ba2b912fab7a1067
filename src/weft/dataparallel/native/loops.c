/* Parallel loops: clauses, iterations, and which element is whose. */
#include "growing.h"
#include "loops.h"

#include "access.h"
#include "block_sites.h"
#include "cells.h"
#include "consistent.h"
#include "copies.h"
#include "findings.h"
#include "judge.h"
#include "objects.h"
#include "owned.h"
#include "ownership.h"
#include "ran.h"
#include "reductions.h"
#include "regions.h"
#include "turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct aspect weft_aspects[MAX_ASPECTS];
struct construct weft_construct = {.aspects = weft_aspects, .homes = weft_homes, .aspect_room = MAX_ASPECTS};
uintptr_t weft_homes[MAX_ASPECTS] __attribute__((aligned(16)));
int64_t weft_moves[MAX_ASPECTS] __attribute__((aligned(16)));
struct step weft_step = {.expected = NO_STEP};

static struct construct outer;    /* the task region around this loop */
static int nested;               /* parallel loops inside an iteration are plain code */

/* Runs of iterations whose innermost index rises evenly: stamp -> index. */
static struct run {
    stamp_t first;
    int64_t step, index[WEFT_MAX_RANK];
} *runs;
static size_t run_count, run_room;
static bool second; /* the next iteration gives the run's step */

/* Old stamps become one, so that time can go on. */
static void renumber_all_stamps(void);

/* Return a new time stamp, greater than all before. Outside of iterations it also begins a new construct's time. All
 * stamps are renumbered when they run out. */
stamp_t advance_time(void) {
    if (now.cur >= LAST_STAMP - 2) renumber_all_stamps();
    if (!weft_construct.started) now.base = now.cur + 1;
    return ++now.cur;
}

/* --- aspects --- */

static int64_t evaluate_term(const struct term *term, const int64_t index[]) {
    return term->axis >= 0 ? term->coefficient * index[term->axis] + term->offset : term->offset;
}

/* Compute the index of the iteration's own element of an array (which ON and alignment map it to): from the loop
 * indices for each dimension that follows them, else the lower bound. */
void compute_own_element_index(const struct aspect *aspect, const int64_t index[], int64_t own_index[]) {
    for (int k = 0; k < aspect->object->rank; k++)
        own_index[k] =
            aspect->free[k] ? aspect->object->lower[k] : evaluate_term(&aspect->own[k], index) / aspect->divisor[k];
}

/* Set the current innermost index from the counter that rewritten assembly advances without a call. */
void update_current_index(void) {
    if (weft_step.expected == NO_STEP || weft_construct.rank < 1) return;
    weft_construct.expected = weft_step.expected;
    weft_construct.index[weft_construct.rank - 1] = weft_construct.expected - weft_construct.inner_step;
}

/* Tell the rewritten assembly which iteration to expect next, so that it can count on without a call. Only loops of 2
 * or 3 dimensions without a grid have such a shortcut. */
static void publish_expected_step(void) {
    bool simple = weft_construct.quick >= 0 && weft_construct.quick <= STEP_HOMES &&
                  (weft_construct.rank == 2 || weft_construct.rank == 3) && !has_grid();
    weft_step = (struct step){simple ? weft_construct.expected : NO_STEP,
                              weft_construct.inner_step,
                              {weft_construct.index[0], weft_construct.index[1]}};
}

/* Make the next iteration call take the slow path, since it may not simply follow the last iteration. */
static void stop_fast_iteration(void) {
    update_current_index();
    weft_construct.quick = -1;
    weft_step.expected = NO_STEP;
}

/* Mix the block of the grid that holds `coordinate` into weft_construct.blocks (a hash), and lower weft_construct.room to how many more
 * iterations stay in it, where each moves by `step`. */
static void add_block_to_current_blocks(const struct object *root, int dimension, int64_t coordinate, int64_t step) {
    int64_t low = find_first_element_of_block(root, dimension, coordinate),
            high = find_last_element_of_block(root, dimension, coordinate);
    int64_t more = step > 0 ? (high - coordinate) / step : step < 0 ? (coordinate - low) / -step : INT64_MAX;
    weft_construct.blocks = (weft_construct.blocks ^ (uint64_t)low) * 0x9E3779B97F4A7C15u;
    if (low <= coordinate && coordinate <= high)
        weft_construct.room = more < weft_construct.room ? more : weft_construct.room;
}

/* With a grid of processors: recompute weft_construct.blocks, a hash of the blocks that hold the elements which ON and alignment
 * map this iteration to, and weft_construct.room, how many more iterations stay in these blocks. */
void update_current_blocks(void) {
    weft_construct.room = INT64_MAX;
    weft_construct.blocks = 0;
    if (!has_grid()) return;
    int last = weft_construct.rank - 1;
    for (int d = 0; weft_construct.on && d < weft_construct.on->rank; d++) {
        const struct term *on_term = &weft_construct.at[d];
        if (on_term->axis != WEFT_ALL && weft_construct.on->kinds[d] != WEFT_WHOLE)
            add_block_to_current_blocks(weft_construct.on, d, evaluate_term(on_term, weft_construct.index),
                                        on_term->axis == last ? on_term->coefficient * weft_construct.inner_step : 0);
    }
    for (int i = 0; i < weft_construct.aspect_count; i++) {
        const struct aspect *aspect = &weft_construct.aspects[i];
        const struct object *object = aspect->object;
        int64_t own[WEFT_MAX_RANK];
        compute_own_element_index(aspect, weft_construct.index, own);
        for (int d = 0; object->root && d < object->root->rank; d++) {
            const struct term *mapping = &object->map[d];
            if (mapping->axis < 0 || aspect->free[mapping->axis] || object->root->kinds[d] == WEFT_WHOLE) continue;
            const struct term *on_term = &aspect->own[mapping->axis];
            int64_t move =
                on_term->axis == last ? on_term->coefficient * mapping->coefficient * weft_construct.inner_step : 0;
            add_block_to_current_blocks(object->root, d, mapping->coefficient * own[mapping->axis] + mapping->offset,
                                        move / aspect->divisor[mapping->axis]);
            if (aspect->divisor[mapping->axis] != 1) weft_construct.room = 0;
        }
    }
}

/* Set the address of the current iteration's own element of an array (which ON and alignment map it to). */
static void compute_own_element_address(struct aspect *aspect) {
    const struct object *object = aspect->object;
    int64_t own[WEFT_MAX_RANK];
    compute_own_element_index(aspect, weft_construct.index, own);
    *aspect->home = object->low;
    for (int k = 0; k < object->rank; k++)
        *aspect->home += (uintptr_t)((own[k] - object->lower[k]) * object->stride[k]);
}

/* Compute how many bytes each innermost iteration moves the own element of an array (which ON and alignment map it to),
 * and whether adding that is exact. */
static void derive_innermost_step(struct aspect *aspect) {
    int last = weft_construct.rank - 1;
    aspect->step = 0;
    aspect->exact = true;
    for (int k = 0; k < aspect->object->rank; k++) {
        if (aspect->free[k]) continue;
        if (aspect->divisor[k] != 1 && aspect->own[k].axis >= 0) aspect->exact = false;
        else if (last >= 0 && aspect->own[k].axis == last)
            aspect->step += aspect->own[k].coefficient / aspect->divisor[k] * aspect->object->stride[k];
    }
    compute_own_element_address(aspect);
    if (weft_construct.what == OWNED) return; /* moved from one time to the next (owned.c) */
    weft_moves[aspect - weft_construct.aspects] = aspect->exact ? aspect->step * weft_construct.inner_step : 0;
    if (weft_construct.quick >= 0)
        weft_construct.quick = aspect->exact ? (int)(aspect - weft_construct.aspects) + 1 : -1;
    publish_expected_step();
}

/* Derive which element of an array is an iteration's own, from how array and ON array (to whose elements iterations are
 * mapped) are aligned: for each dimension a term in the loop's indices, or free if it does not follow them. */
void derive_aspect_mapping(struct aspect *aspect) {
    const struct object *object = aspect->object;
    for (int k = 0; k < object->rank; k++) {
        aspect->free[k] = true;
        aspect->divisor[k] = 1;
    }
    for (int d = 0; d < object->root->rank; d++) {
        const struct term *mapping = &object->map[d];
        int on_dimension =
            object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, weft_construct.on);
        if (on_dimension < 0 || mapping->axis < 0 || weft_construct.at[on_dimension].axis == WEFT_ALL ||
            mapping->coefficient == 0)
            continue;
        /* m.coefficient * own + m.offset = at; two roots are compared from their lower bounds */
        int64_t shift =
            object->root == weft_construct.on ? 0 : object->root->lower[d] - weft_construct.on->lower[on_dimension];
        int k = mapping->axis;
        aspect->free[k] = false;
        aspect->own[k] = weft_construct.at[on_dimension];
        aspect->own[k].offset += shift - mapping->offset;
        aspect->divisor[k] = mapping->coefficient;
        if (mapping->coefficient == -1) {
            aspect->own[k].coefficient *= -1;
            aspect->own[k].offset *= -1;
            aspect->divisor[k] = 1;
        }
    }
}

/* Return the aspect of an array (which of its elements is an iteration's own); a new one at its first use in the
 * construct. NULL: any iteration may use the whole array, or there is no room. */
struct aspect *find_or_add_aspect(struct object *object) {
    for (int i = 0; i < weft_construct.aspect_count; i++)
        if (weft_construct.aspects[i].object == object && !weft_construct.aspects[i].remote) {
            if (weft_construct.what == OWNED)
                derive_aspect_mapping(&weft_construct.aspects[i]); /* the element is another one each time */
            return &weft_construct.aspects[i];
        }
    if (weft_construct.what == OWNED && weft_construct.aspect_count == weft_construct.aspect_room)
        forget_sites_and_own_elements();
    if (!weft_construct.on || !object->root || weft_construct.aspect_count == weft_construct.aspect_room) return NULL;
    struct aspect *aspect = &weft_construct.aspects[weft_construct.aspect_count];
    memset(aspect, 0, sizeof *aspect);
    aspect->object = object;
    aspect->home = &weft_construct.homes[weft_construct.aspect_count];
    derive_aspect_mapping(aspect);
    for (int i = 0; i < weft_construct.across_count; i++)
        if (weft_construct.across[i].object == object) {
            aspect->across = true;
            aspect->over = weft_construct.across[i].widths;
        }
    derive_innermost_step(aspect);
    weft_construct.aspect_count++;
    if (weft_construct.what == OWNED) derive_moves_of_own_element(aspect);
    update_current_blocks();
    return aspect;
}

/* Add an aspect (which elements are an iteration's own) for each array that a TIE or CONSISTENT clause maps to the
 * loop's indices. */
static void add_tied_aspects(void) {
    for (int i = 0; i < weft_construct.tie_count && weft_construct.aspect_count < weft_construct.aspect_room; i++) {
        struct aspect *aspect = &weft_construct.aspects[weft_construct.aspect_count++];
        memset(aspect, 0, sizeof *aspect);
        aspect->object = weft_construct.ties[i].object;
        aspect->home = &weft_construct.homes[aspect - weft_construct.aspects];
        for (int k = 0; k < aspect->object->rank; k++) {
            aspect->divisor[k] = 1;
            aspect->own[k] = weft_construct.ties[i].terms[k];
            if (aspect->own[k].coefficient < 0 &&
                aspect->own[k].offset == 0) /* `[-i]`: the loop descends, the element is [i] */
                aspect->own[k].coefficient *= -1;
            aspect->free[k] = k >= weft_construct.ties[i].rank || aspect->own[k].axis == WEFT_ALL;
        }
        derive_innermost_step(aspect);
    }
}

/* Add an aspect (which elements are an iteration's own) for each array of a TIE, CONSISTENT or REMOTE_ACCESS clause of
 * the construct. */
void add_aspects_of_clauses(void) {
    add_tied_aspects();
    for (int i = 0; i < weft_construct.remote_count && weft_construct.aspect_count < weft_construct.aspect_room; i++) {
        struct aspect *aspect = &weft_construct.aspects[weft_construct.aspect_count++];
        memset(aspect, 0, sizeof *aspect);
        aspect->home = &weft_construct.homes[aspect - weft_construct.aspects];
        aspect->object = weft_construct.remotes[i].object;
        aspect->remote = true;
        aspect->filled = weft_construct.remotes[i].filled;
        for (int k = 0; k < aspect->object->rank; k++) {
            aspect->divisor[k] = 1;
            aspect->own[k] = weft_construct.remotes[i].terms[k];
            aspect->free[k] = aspect->own[k].axis == WEFT_ALL || k >= weft_construct.remotes[i].rank;
        }
        derive_innermost_step(aspect);
    }
}

/* --- clauses --- */

/* Begin a parallel loop with `dimension_count` indices and forget the clauses of the one before; its clauses follow,
 * then weft_check_loop_start. A loop inside an iteration is only counted: it is plain code. */
void weft_check_loop_begin(int construct_id, int dimension_count, unsigned flags) {
    if (now.off || weft_construct.what == LOOP) {
        nested++;
        stop_fast_iteration();
        return;
    }
    if (weft_construct.what == TASKS) outer = weft_construct;
    memset(&weft_construct, 0, offsetof(struct construct, privates));
    weft_construct.private_count = weft_construct.index_count = weft_construct.reduction_count =
        weft_construct.aspect_count = weft_construct.across_count = 0;
    weft_construct.computed_count = weft_construct.remote_count = weft_construct.written_count = weft_construct.group =
        weft_construct.tie_count = 0;
    weft_construct.consistent_count = 0;
    if (weft_task.in_task) { /* the index of a loop over tasks is control in the loops of its tasks, too */
        memcpy(weft_construct.indices, outer.indices, sizeof weft_construct.indices);
        weft_construct.index_count = outer.index_count;
    }
    weft_construct.started = false;
    stop_fast_iteration();
    weft_construct.what = LOOP;
    weft_construct.id = construct_id;
    weft_construct.rank = dimension_count;
    weft_construct.flags = flags;
    count_run(construct_id);
    weft_construct.frame = (uintptr_t)__builtin_frame_address(0);
    advance_time();
}

#define CLAUSE                                                                                                         \
    if (now.off || nested || (weft_construct.what == SEQUENTIAL)) return;

/* Handle DVM's ON clause: keep the root of the array's alignment and its coordinates in terms of the loop's indices.
 * Ends the program if the array is not distributed. */
static void set_on_target(int variable_id, const void *base, int dimension_count, const int axis[],
                          const int64_t coefficient[], const int64_t offset[]) {
    struct object *object = find_object(variable_id, base);
    if (!object || !object->root) {
        stop_for_usage_error(object ? "undistributed-on" : "unknown-array", weft_construct.id, variable_id);
        return;
    }
    weft_construct.on = object->root;
    if (object->root->deferred && weft_construct.what == LOOP)
        report_misplaced_directive("on-deferred", weft_construct.id, variable_id);
    for (int d = 0; d < object->root->rank; d++) {
        struct term m = object == object->root ? (struct term){d, 1, 0} : object->map[d];
        weft_construct.at[d] = compose_mapping(m, dimension_count, axis, coefficient, offset);
    }
}

void weft_check_loop_on(int variable_id, const void *base, int dimension_count, const int axis[],
                        const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE set_on_target(variable_id, base, dimension_count, axis, coefficient, offset);
}

/* Handle DVM's TIE clause: which loop index goes along with which dimension of the array. For a distributed array
 * without ON it also says where iterations run. */
void weft_check_loop_tie(int variable_id, const void *base, int dimension_count, const int axis[],
                         const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!weft_construct.on && object && object->root)
        set_on_target(variable_id, base, dimension_count, axis, coefficient, offset);
    if (object && !object->root &&
        weft_construct.tie_count < (int)(sizeof weft_construct.ties / sizeof *weft_construct.ties)) {
        weft_construct.ties[weft_construct.tie_count].object = object;
        weft_construct.ties[weft_construct.tie_count].rank = dimension_count;
        for (int d = 0; d < dimension_count && d < WEFT_MAX_RANK; d++)
            weft_construct.ties[weft_construct.tie_count].terms[d] = (struct term){axis[d], coefficient[d], offset[d]};
        weft_construct.tie_count++;
    }
}

/* Handle DVM's CONSISTENT clause: iterations write these elements of a replicated array, whose copies become the same
 * afterwards (`group_id` not 0: asynchronously). */
void weft_check_loop_consistent(int group_id, int variable_id, const void *base, int dimension_count, const int axis[],
                                const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!object ||
        weft_construct.consistent_count == (int)(sizeof weft_construct.consistent / sizeof *weft_construct.consistent))
        return;
    weft_construct.consistent[weft_construct.consistent_count].object = object;
    weft_construct.consistent[weft_construct.consistent_count++].group = group_id;
    if (weft_construct.what == LOOP) weft_check_loop_tie(variable_id, base, dimension_count, axis, coefficient, offset);
}

/* Handle a loop variable in memory: the loop's own accesses of it are not checked. */
void weft_check_loop_index(const void *base, size_t bytes) {
    CLAUSE
    if (weft_construct.index_count < (int)(sizeof weft_construct.indices / sizeof *weft_construct.indices))
        weft_construct.indices[weft_construct.index_count++] =
            (struct private){(uintptr_t)base, (uintptr_t)base + bytes, 0, false};
}

/* Handle a PRIVATE clause for the variable at [base, base + bytes). */
void weft_check_loop_private(int variable_id, void *base, size_t bytes) {
    CLAUSE
    if (weft_construct.private_count < MAX_CLAUSES)
        weft_construct.privates[weft_construct.private_count++] =
            (struct private){(uintptr_t)base, (uintptr_t)base + bytes, variable_id, false};
}

/* Return whether a dimension of an array is distributed among processors. */
static bool is_distributed_dimension(const struct object *object, int dimension) {
    for (int d = 0; object->root && d < object->root->rank; d++)
        if (object->root->kinds[d] != WEFT_WHOLE && object->map[d].axis == dimension) return true;
    return false;
}

/* Handle DVM's ACROSS clause: dependences up to low[] and high[] elements wide in each dimension are right; NULL: as
 * wide as the shadow edges. Wider ones than the edges are reported. */
void weft_check_loop_across(int variable_id, const void *base, int dimension_count, const int64_t low[],
                            const int64_t high[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!object || weft_construct.across_count == 32) return;
    weft_construct.across[weft_construct.across_count].object = object;
    weft_construct.across[weft_construct.across_count].widths = object->shadow;
    for (int d = 0; low && d < dimension_count && d < WEFT_MAX_RANK; d++) {
        weft_construct.across[weft_construct.across_count].widths.low[d] = low[d];
        weft_construct.across[weft_construct.across_count].widths.high[d] = high[d];
        int64_t most = low[d] > high[d] ? low[d] : high[d], edge = object->shadow.low[d];
        edge = edge > object->shadow.high[d] ? edge : object->shadow.high[d];
        if (object->distributed && most > edge && is_distributed_dimension(object, d))
            report_directive_parameter("across", weft_construct.id, variable_id, d, most, 0, edge);
    }
    weft_construct.across_count++;
}

void weft_check_loop_shadow_renew(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                  const int64_t high[], int corner) {
    CLAUSE weft_check_shadow_renew(weft_construct.id, variable_id, base, dimension_count, low, high, corner);
}

/* Handle DVM's SHADOW_COMPUTE clause: iterations also compute the shadow edges, low[] and high[] elements wide (NULL:
 * as declared). */
void weft_check_loop_shadow_compute(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                    const int64_t high[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!object || weft_construct.computed_count == 32) return;
    struct widths *widths = &weft_construct.computed[weft_construct.computed_count].widths;
    weft_construct.computed[weft_construct.computed_count++].object = object;
    *widths = object->shadow;
    for (int d = 0; low && d < dimension_count && d < WEFT_MAX_RANK; d++) {
        widths->low[d] = low[d];
        widths->high[d] = high[d];
    }
}

/* Start the loop's iterations, when all clauses are known: fork the verification of its reductions, leave private
 * variables without values, and judge accesses from here on. */
void weft_check_loop_start(void) {
    CLAUSE
    static unsigned instances[4096];
    weft_construct.instance = ++instances[(unsigned)weft_construct.id % 4096];
    if (weft_construct.reduction_count && weft_construct.what == LOOP && !weft_traced) fork_reduction_verifications();
    if (now.off) {
        weft_construct.started = true;
        stop_fast_iteration();
        return;
    }
    judge_reduction_starts();
    advance_time();
    now.base = now.cur;
    weft_construct.started = true;
    stop_fast_iteration();
    weft_construct.inner_step = 0;
    weft_construct.room = 0;
    weft_construct.blocks = 0;
    run_count = 0;
    second = false;
    if (weft_construct.what != TASKS) add_aspects_of_clauses();
    if (weft_traced) {
        start_traced_loop();
        return;
    }
    for (int i = 0; i < weft_construct.private_count; i++) {
        memset((void *)weft_construct.privates[i].low, POISON,
               weft_construct.privates[i].high - weft_construct.privates[i].low);
        set_cell_states(weft_construct.privates[i].low, weft_construct.privates[i].high, UNINITIALISED);
    }
    for (int i = 0; i < weft_construct.reduction_count; i++)
        set_cell_states(weft_construct.reductions[i].low, weft_construct.reductions[i].high, now.cur);
    now.looked = true;
    forget_sites();
}

/* --- iterations --- */

/* Report an iteration that ON maps outside the bounds of the target array. Called for both ends of each row of
 * iterations. */
static void check_iteration_on_target(const int64_t index[]) {
    for (int d = 0; weft_construct.on && d < weft_construct.on->rank; d++) {
        const struct term *on_term = &weft_construct.at[d];
        int64_t x = evaluate_term(on_term, index),
                high = weft_construct.on->lower[d] + weft_construct.on->extent[d] - 1;
        if (on_term->axis != WEFT_ALL && weft_construct.on->extent[d] > 0 &&
            (x < weft_construct.on->lower[d] || x > high))
            report_directive_parameter("on", weft_construct.id, weft_construct.on->data, d, x,
                                       weft_construct.on->lower[d], high);
    }
}

static void row_ends(void) {
    if (run_count && weft_construct.rank) check_iteration_on_target(weft_construct.index);
}

/* Begin a new run of iterations (stamps that rise with the innermost index) at this iteration, and check the end of the
 * one before. */
static void begin_run_of_iterations(int dimension_count, const int64_t index[]) {
    row_ends();
    GROW(runs, run_count, run_room, 4096);
    struct run *run = &runs[run_count++];
    run->first = now.cur;
    run->step = 0;
    memcpy(run->index, index, sizeof *index * (size_t)dimension_count);
    second = true;
}

/* After a jump in the iteration space: recompute the own elements of all arrays and decide whether the next iterations
 * can be followed by adding alone (weft_construct.quick; -1: they cannot). */
static void prepare_fast_iteration(void) {
    weft_construct.quick = second ? -1 : weft_construct.aspect_count;
    for (int i = 0; i < weft_construct.aspect_count; i++) {
        struct aspect *aspect = &weft_construct.aspects[i];
        compute_own_element_address(aspect);
        weft_moves[i] = aspect->step * weft_construct.inner_step;
        if (!aspect->exact) weft_construct.quick = -1;
    }
    for (int i = weft_construct.aspect_count; i < STEP_HOMES; i++) weft_moves[i] = 0;
    uint64_t blocks = weft_construct.blocks;
    update_current_blocks();
    if (has_grid()) update_sites_for_row(blocks);
    publish_expected_step();
}

/* Enter an iteration that does not simply follow the last one: give it a stamp, begin a new run if need be, and
 * recompute the own elements. */
static __attribute__((noinline)) void enter_iteration_slowly(int dimension_count, const int64_t index[]) {
    if (__builtin_expect(now.off || nested || !weft_construct.started, 0)) {
        if (now.off && !nested) begin_verified_iteration();
        return;
    }
    if (++now.cur >= LAST_STAMP) renumber_all_stamps();
    int last = dimension_count - 1;
    bool same =
        dimension_count > 0 && run_count && memcmp(weft_construct.index, index, sizeof *index * (size_t)last) == 0;
    if (same && second) {
        weft_construct.inner_step = runs[run_count - 1].step = index[last] - weft_construct.index[last];
        second = false;
    } else if (!same || index[last] != weft_construct.expected) {
        begin_run_of_iterations(dimension_count, index);
    }
    memcpy(weft_construct.index, index, sizeof *index * (size_t)dimension_count);
    weft_construct.expected = dimension_count ? index[last] + weft_construct.inner_step : 0;
    prepare_fast_iteration();
    if (second) /* a row begins */
        check_iteration_on_target(index);
}

/* Enter an iteration if it follows the last one in the innermost index, by adding alone. Return false if it does not:
 * the slow path is needed. */
static inline __attribute__((always_inline)) bool advance_to_next_iteration(int innermost_dimension,
                                                                            int64_t innermost_index) {
    if (__builtin_expect(innermost_index != weft_construct.expected || weft_construct.quick < 0 ||
                             weft_construct.room == 0 || now.cur >= LAST_STAMP - 1,
                         0))
        return false;
    now.cur++;
    weft_construct.room--;
    weft_construct.index[innermost_dimension] = innermost_index;
    weft_construct.expected = innermost_index + weft_construct.inner_step;
    for (int i = 0; i < weft_construct.quick; i++) weft_homes[i] += (uintptr_t)weft_moves[i];
    if (weft_step.expected != NO_STEP) weft_step.expected = weft_construct.expected;
    return true;
}

/* Enter the iteration of the running loop with these `dimension_count` indices. */
void weft_check_iteration(int dimension_count, const int64_t index[]) {
    update_current_index();
    if (dimension_count < 1 ||
        (dimension_count > 1 &&
         memcmp(weft_construct.index, index, sizeof *index * (size_t)(dimension_count - 1)) != 0) ||
        !advance_to_next_iteration(dimension_count - 1, index[dimension_count - 1]))
        enter_iteration_slowly(dimension_count, index);
}

void weft_check_iteration1(int64_t i) {
    if (!advance_to_next_iteration(0, i)) enter_iteration_slowly(1, &i);
}

void weft_check_iteration2(int64_t i, int64_t j) {
    update_current_index();
    if (i != weft_construct.index[0] || !advance_to_next_iteration(1, j)) enter_iteration_slowly(2, (int64_t[]){i, j});
}

/* Enter the iteration (i, j, k) of the running loop. */
void weft_check_iteration3(int64_t i, int64_t j, int64_t k) {
    update_current_index();
    if (i != weft_construct.index[0] || j != weft_construct.index[1] || !advance_to_next_iteration(2, k))
        enter_iteration_slowly(3, (int64_t[]){i, j, k});
}

/* Enter an iteration where values are traced: return 1 if another processor runs it and it must be passed over. Without
 * tracing always 0. */
int weft_check_skips(int dimension_count, const int64_t index[]) {
    if (weft_traced) return !nested && weft_construct.started && enter_traced_iteration(dimension_count, index);
    weft_check_iteration(dimension_count, index);
    return 0;
}

int weft_check_skips1(int64_t i) { return weft_check_skips(1, &i); }
int weft_check_skips2(int64_t i, int64_t j) { return weft_check_skips(2, (int64_t[]){i, j}); }
int weft_check_skips3(int64_t i, int64_t j, int64_t k) { return weft_check_skips(3, (int64_t[]){i, j, k}); }

/* Return whether the row of iterations that runs may go on without hooks. `dimension_count`: indices of its loop, 0 for
 * a plain loop; if it has some, set *done_count to the iterations of this row so far, and *previous_length to those of
 * the row before (0: unknown). */
bool is_row_steady(int dimension_count, int64_t *previous_length, int64_t *done_count) {
    if (!now.looked || weft_task.in_task || weft_traced) return false;
    bool sequential = !weft_construct.started && (weft_construct.what == SEQUENTIAL || weft_construct.what == OWNED);
    if (dimension_count <= 0 && sequential) return true;
    if (!weft_construct.started || weft_construct.what != LOOP || !run_count) return false;
    if (dimension_count <= 0) /* within an iteration */
        return true;
    update_current_index();
    if (nested || weft_construct.rank != dimension_count || (weft_construct.quick < 0 && !second)) return false;
    *previous_length = run_count > 1 ? runs[run_count - 1].first - runs[run_count - 2].first : 0;
    *done_count = now.cur - runs[run_count - 1].first;
    return true;
}

/* Take the innermost index's step from the rewritten loop at the first iteration of a row. Return whether the loop is
 * known to go on by that step. */
bool accept_row_step(int64_t step) {
    if (second) {
        weft_construct.inner_step = runs[run_count - 1].step = step;
        weft_construct.expected = weft_construct.index[weft_construct.rank - 1] + step;
        second = false;
        prepare_fast_iteration();
    }
    return weft_construct.quick >= 0 && step == weft_construct.inner_step &&
           weft_construct.expected == weft_construct.index[weft_construct.rank - 1] + step;
}

/* So many iterations, from this one on, lie in the same blocks. */
int64_t row_room(void) { return weft_construct.room == INT64_MAX ? weft_construct.room : weft_construct.room + 1; }

/* Advance the loop's state by iterations that ran without hooks. */
void advance_past_row(int64_t iteration_count) {
    now.cur += (stamp_t)iteration_count;
    weft_construct.room -= iteration_count;
    weft_construct.expected += iteration_count * weft_construct.inner_step;
    weft_construct.index[weft_construct.rank - 1] = weft_construct.expected - weft_construct.inner_step;
    for (int i = 0; i < weft_construct.quick; i++) weft_homes[i] += (uintptr_t)(iteration_count * weft_moves[i]);
    if (weft_step.expected != NO_STEP) weft_step.expected = weft_construct.expected;
}

/* Find the iteration that had a time stamp: sets its indices and returns how many there are; 0 if the stamp is none of
 * this loop's. */
int find_iteration_of_stamp(stamp_t stamp, int64_t index[]) {
    if (weft_construct.what != LOOP || stamp <= now.base || stamp > now.cur || !run_count || stamp < runs[0].first)
        return 0;
    size_t low = 0, high = run_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs[middle].first <= stamp) low = middle;
        else high = middle;
    }
    memcpy(index, runs[low].index, sizeof *index * (size_t)weft_construct.rank);
    if (weft_construct.rank) index[weft_construct.rank - 1] += (int64_t)(stamp - runs[low].first) * runs[low].step;
    return weft_construct.rank;
}

/* --- end --- */

/* Mark what iterations of the construct wrote in [low, high) as having no value afterwards. */
void undefine_written_values(uintptr_t low, uintptr_t high) {
    for (uintptr_t address = low & ~(uintptr_t)3; address < high; address += 4) {
        struct cell *cell = cell8(address);
        if (cell->written == SPLIT) cell = cell4(address);
        if (cell->written > now.base && cell->written < SPLIT) cell->written = UNDEFINED;
    }
}

/* At a construct's end: undefine the undistributed variables that its iterations wrote, but keep which processor has
 * which value. */
void undefine_variables_written_by_construct(void) {
    for (int i = 0; i < weft_construct.written_count; i++)
        if (!is_in_consistent_clause(weft_construct.written[i])) {
            note_writers_of_copies(weft_construct.written[i]);
            undefine_written_values(weft_construct.written[i]->low, weft_construct.written[i]->high);
        }
}

/* End the running parallel loop: compare its reductions and copies, leave private variables without values, and return
 * to sequential checking. */
void weft_check_loop_end(int construct_id) {
    (void)construct_id;
    if (nested) {
        nested--;
        return;
    }
    stop_fast_iteration();
    if (weft_traced && weft_construct.started) end_traced_loop();
    if (weft_construct.reduction_count) finish_reduction_verifications(); /* the child does not come back */
    if (now.off || weft_construct.what == SEQUENTIAL) return;
    row_ends();
    report_differing_copies();
    weft_construct.started = false;
    ran_iterations(weft_construct.id, now.cur - now.base);
    for (int i = 0; i < weft_construct.private_count && !weft_traced; i++) {
        uintptr_t low = weft_construct.privates[i].low, high = weft_construct.privates[i].high;
        weft_check_clear((void *)low, high - low);
        set_cell_states(low, high, WAS_PRIVATE);
    }
    undefine_variables_written_by_construct();
    undefine_unfinished_consistent_arrays();
    advance_time();
    now.base = now.cur;
    for (int i = 0; i < weft_construct.computed_count; i++) {
        struct object *object = weft_construct.computed[i].object;
        object->renewed = weft_construct.computed[i].widths;
        object->corner = true;
        object->renewed_at = now.cur;
        turns_renewed(object);
    }
    if (weft_construct.group) guard_partial_reductions();
    else
        for (int i = 0; i < weft_construct.reduction_count; i++) {
            struct object *object = find_object_at(weft_construct.reductions[i].low);
            set_cell_states(weft_construct.reductions[i].low, weft_construct.reductions[i].high, now.cur);
            if (object) /* the result is put into the host's memory, too */
                object->got_at = object->actual_at = now.cur;
        }
    weft_construct.what = SEQUENTIAL;
    weft_construct.on = NULL;
    weft_construct.aspect_count = 0;
    weft_construct.remote_count = 0; /* what a loop fetched is its own */
    stop_fast_iteration();
    if (weft_task.in_task) {
        weft_construct = outer;
        now.base = weft_task.base;
    }
    now.looked = weft_on_host || weft_sequential_checked || weft_in_region || weft_task.in_task;
    forget_sites();
}

/* --- time --- */

/* Rebase the time stamps in a range of shadow cells: all that is older than the construct becomes FIRST_STAMP. */
static void renumber_cells(struct cell *first, struct cell *end) {
    for (struct cell *cell = first; cell < end; cell++) {
        if (cell->written >= FIRST_STAMP && cell->written < SPLIT)
            cell->written = cell->written > now.base ? cell->written - now.base + FIRST_STAMP : FIRST_STAMP;
        cell->read = 0;
    }
}

/* Rebase all time stamps so that time can go on after four thousand million iterations: what is older than the
 * construct becomes FIRST_STAMP. If one loop alone used them up, checking ends. */
static void renumber_all_stamps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &low, &high, access) != 3 || access[1] != 'w' || (low >= SPACE8 && low < END1))
            continue;
        renumber_cells(cell8(low), cell8(high - 1) + 1);
        renumber_cells(cell4(low), cell4(high - 1) + 1);
        for (uintptr_t address = low; address < high; address += 4)
            if (cell8(address)->written == SPLIT && cell4(address)->written == SPLIT)
                renumber_cells(cell1(address), cell1(address) + 4);
    }
    if (maps) fclose(maps);
    rebase_stamps_of_objects();
    now.cur = now.cur > now.base ? now.cur - now.base + FIRST_STAMP : FIRST_STAMP;
    now.base = FIRST_STAMP;
    run_count = 0;
    second = false;
    if (now.cur >= LAST_STAMP - 2) { /* one loop of so many iterations */
        fprintf(stderr,
                "weft: a loop has more iterations than Weft can distinguish; nothing after this loop is checked\n");
        now.off = true;
    }
    forget_sites();
}
