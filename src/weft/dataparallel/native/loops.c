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
    if (!here.started) now.base = now.cur + 1;
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
    if (weft_step.expected == NO_STEP || here.rank < 1) return;
    here.expected = weft_step.expected;
    here.index[here.rank - 1] = here.expected - here.inner_step;
}

/* Tell the rewritten assembly which iteration to expect next, so that it can count on without a call. Only loops of 2
 * or 3 dimensions without a grid have such a shortcut. */
static void publish_expected_step(void) {
    bool simple = here.quick >= 0 && here.quick <= STEP_HOMES && (here.rank == 2 || here.rank == 3) && !has_grid();
    weft_step = (struct step){simple ? here.expected : NO_STEP, here.inner_step, {here.index[0], here.index[1]}};
}

/* Make the next iteration call take the slow path, since it may not simply follow the last iteration. */
static void stop_fast_iteration(void) {
    update_current_index();
    here.quick = -1;
    weft_step.expected = NO_STEP;
}

/* Mix the block of the grid that holds `coordinate` into here.blocks (a hash), and lower here.room to how many more
 * iterations stay in it, where each moves by `step`. */
static void narrow_to_block(const struct object *root, int dimension, int64_t coordinate, int64_t step) {
    int64_t low = find_first_element_of_block(root, dimension, coordinate),
            high = find_last_element_of_block(root, dimension, coordinate);
    int64_t more = step > 0 ? (high - coordinate) / step : step < 0 ? (coordinate - low) / -step : INT64_MAX;
    here.blocks = (here.blocks ^ (uint64_t)low) * 0x9E3779B97F4A7C15u;
    if (low <= coordinate && coordinate <= high) here.room = more < here.room ? more : here.room;
}

/* With a grid of processors: recompute here.blocks, a hash of the blocks that hold the elements which ON and alignment
 * map this iteration to, and here.room, how many more iterations stay in these blocks. */
void update_current_blocks(void) {
    here.room = INT64_MAX;
    here.blocks = 0;
    if (!has_grid()) return;
    int last = here.rank - 1;
    for (int d = 0; here.on && d < here.on->rank; d++) {
        const struct term *on_term = &here.at[d];
        if (on_term->axis != WEFT_ALL && here.on->kinds[d] != WEFT_WHOLE)
            narrow_to_block(here.on, d, evaluate_term(on_term, here.index),
                            on_term->axis == last ? on_term->coefficient * here.inner_step : 0);
    }
    for (int i = 0; i < here.aspect_count; i++) {
        const struct aspect *aspect = &here.aspects[i];
        const struct object *object = aspect->object;
        int64_t own[WEFT_MAX_RANK];
        compute_own_element_index(aspect, here.index, own);
        for (int d = 0; object->root && d < object->root->rank; d++) {
            const struct term *mapping = &object->map[d];
            if (mapping->axis < 0 || aspect->free[mapping->axis] || object->root->kinds[d] == WEFT_WHOLE) continue;
            const struct term *on_term = &aspect->own[mapping->axis];
            int64_t move = on_term->axis == last ? on_term->coefficient * mapping->coefficient * here.inner_step : 0;
            narrow_to_block(object->root, d, mapping->coefficient * own[mapping->axis] + mapping->offset,
                            move / aspect->divisor[mapping->axis]);
            if (aspect->divisor[mapping->axis] != 1) here.room = 0;
        }
    }
}

/* Set the address of the current iteration's own element of an array (which ON and alignment map it to). */
static void compute_own_element_address(struct aspect *aspect) {
    const struct object *object = aspect->object;
    int64_t own[WEFT_MAX_RANK];
    compute_own_element_index(aspect, here.index, own);
    *aspect->home = object->low;
    for (int k = 0; k < object->rank; k++)
        *aspect->home += (uintptr_t)((own[k] - object->lower[k]) * object->stride[k]);
}

/* Compute how many bytes each innermost iteration moves the own element of an array (which ON and alignment map it to),
 * and whether adding that is exact. */
static void derive_innermost_step(struct aspect *aspect) {
    int last = here.rank - 1;
    aspect->step = 0;
    aspect->exact = true;
    for (int k = 0; k < aspect->object->rank; k++) {
        if (aspect->free[k]) continue;
        if (aspect->divisor[k] != 1 && aspect->own[k].axis >= 0) aspect->exact = false;
        else if (last >= 0 && aspect->own[k].axis == last)
            aspect->step += aspect->own[k].coefficient / aspect->divisor[k] * aspect->object->stride[k];
    }
    compute_own_element_address(aspect);
    if (here.what == OWNED) return; /* moved from one time to the next (owned.c) */
    weft_moves[aspect - here.aspects] = aspect->exact ? aspect->step * here.inner_step : 0;
    if (here.quick >= 0) here.quick = aspect->exact ? (int)(aspect - here.aspects) + 1 : -1;
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
        int on_dimension = object->root->kinds[d] == WEFT_WHOLE ? -1 : find_paired_dimension(object->root, d, here.on);
        if (on_dimension < 0 || mapping->axis < 0 || here.at[on_dimension].axis == WEFT_ALL ||
            mapping->coefficient == 0)
            continue;
        /* m.coefficient * own + m.offset = at; two roots are compared from their lower bounds */
        int64_t shift = object->root == here.on ? 0 : object->root->lower[d] - here.on->lower[on_dimension];
        int k = mapping->axis;
        aspect->free[k] = false;
        aspect->own[k] = here.at[on_dimension];
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
    for (int i = 0; i < here.aspect_count; i++)
        if (here.aspects[i].object == object && !here.aspects[i].remote) {
            if (here.what == OWNED) derive_aspect_mapping(&here.aspects[i]); /* the element is another one each time */
            return &here.aspects[i];
        }
    if (here.what == OWNED && here.aspect_count == here.aspect_room) forget_sites_and_own_elements();
    if (!here.on || !object->root || here.aspect_count == here.aspect_room) return NULL;
    struct aspect *aspect = &here.aspects[here.aspect_count];
    memset(aspect, 0, sizeof *aspect);
    aspect->object = object;
    aspect->home = &here.homes[here.aspect_count];
    derive_aspect_mapping(aspect);
    for (int i = 0; i < here.across_count; i++)
        if (here.across[i].object == object) {
            aspect->across = true;
            aspect->over = here.across[i].widths;
        }
    derive_innermost_step(aspect);
    here.aspect_count++;
    if (here.what == OWNED) derive_moves_of_own_element(aspect);
    update_current_blocks();
    return aspect;
}

/* Add an aspect (which elements are an iteration's own) for each array that a TIE or CONSISTENT clause maps to the
 * loop's indices. */
static void add_tied_aspects(void) {
    for (int i = 0; i < here.tie_count && here.aspect_count < here.aspect_room; i++) {
        struct aspect *aspect = &here.aspects[here.aspect_count++];
        memset(aspect, 0, sizeof *aspect);
        aspect->object = here.ties[i].object;
        aspect->home = &here.homes[aspect - here.aspects];
        for (int k = 0; k < aspect->object->rank; k++) {
            aspect->divisor[k] = 1;
            aspect->own[k] = here.ties[i].terms[k];
            if (aspect->own[k].coefficient < 0 &&
                aspect->own[k].offset == 0) /* `[-i]`: the loop descends, the element is [i] */
                aspect->own[k].coefficient *= -1;
            aspect->free[k] = k >= here.ties[i].rank || aspect->own[k].axis == WEFT_ALL;
        }
        derive_innermost_step(aspect);
    }
}

/* Add an aspect (which elements are an iteration's own) for each array of a TIE, CONSISTENT or REMOTE_ACCESS clause of
 * the construct. */
void add_aspects_of_clauses(void) {
    add_tied_aspects();
    for (int i = 0; i < here.remote_count && here.aspect_count < here.aspect_room; i++) {
        struct aspect *aspect = &here.aspects[here.aspect_count++];
        memset(aspect, 0, sizeof *aspect);
        aspect->home = &here.homes[aspect - here.aspects];
        aspect->object = here.remotes[i].object;
        aspect->remote = true;
        aspect->filled = here.remotes[i].filled;
        for (int k = 0; k < aspect->object->rank; k++) {
            aspect->divisor[k] = 1;
            aspect->own[k] = here.remotes[i].terms[k];
            aspect->free[k] = aspect->own[k].axis == WEFT_ALL || k >= here.remotes[i].rank;
        }
        derive_innermost_step(aspect);
    }
}

/* --- clauses --- */

/* Begin a parallel loop with `dimension_count` indices and forget the clauses of the one before; its clauses follow,
 * then weft_check_loop_start. A loop inside an iteration is only counted: it is plain code. */
void weft_check_loop_begin(int construct_id, int dimension_count, unsigned flags) {
    if (now.off || here.what == LOOP) {
        nested++;
        stop_fast_iteration();
        return;
    }
    if (here.what == TASKS) outer = here;
    memset(&here, 0, offsetof(struct construct, privates));
    here.private_count = here.index_count = here.reduction_count = here.aspect_count = here.across_count = 0;
    here.computed_count = here.remote_count = here.written_count = here.group = here.tie_count = 0;
    here.consistent_count = 0;
    if (weft_task.in_task) { /* the index of a loop over tasks is control in the loops of its tasks, too */
        memcpy(here.indices, outer.indices, sizeof here.indices);
        here.index_count = outer.index_count;
    }
    here.started = false;
    stop_fast_iteration();
    here.what = LOOP;
    here.id = construct_id;
    here.rank = dimension_count;
    here.flags = flags;
    count_run(construct_id);
    here.frame = (uintptr_t)__builtin_frame_address(0);
    advance_time();
}

#define CLAUSE                                                                                                         \
    if (now.off || nested || (here.what == SEQUENTIAL)) return;

/* Handle an ON clause: keep the root of the array's alignment and its coordinates in terms of the loop's indices. Ends
 * the program if the array is not distributed. */
static void set_on_target(int variable_id, const void *base, int dimension_count, const int axis[],
                          const int64_t coefficient[], const int64_t offset[]) {
    struct object *object = find_object(variable_id, base);
    if (!object || !object->root) {
        stop_for_usage_error(object ? "undistributed-on" : "unknown-array", here.id, variable_id);
        return;
    }
    here.on = object->root;
    if (object->root->deferred && here.what == LOOP) report_misplaced_directive("on-deferred", here.id, variable_id);
    for (int d = 0; d < object->root->rank; d++) {
        struct term m = object == object->root ? (struct term){d, 1, 0} : object->map[d];
        here.at[d] = compose_mapping(m, dimension_count, axis, coefficient, offset);
    }
}

void weft_check_loop_on(int variable_id, const void *base, int dimension_count, const int axis[],
                        const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE set_on_target(variable_id, base, dimension_count, axis, coefficient, offset);
}

/* Handle a TIE clause: which loop index goes along with which dimension of the array. For a distributed array without
 * ON it also says where iterations run. */
void weft_check_loop_tie(int variable_id, const void *base, int dimension_count, const int axis[],
                         const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!here.on && object && object->root)
        set_on_target(variable_id, base, dimension_count, axis, coefficient, offset);
    if (object && !object->root && here.tie_count < (int)(sizeof here.ties / sizeof *here.ties)) {
        here.ties[here.tie_count].object = object;
        here.ties[here.tie_count].rank = dimension_count;
        for (int d = 0; d < dimension_count && d < WEFT_MAX_RANK; d++)
            here.ties[here.tie_count].terms[d] = (struct term){axis[d], coefficient[d], offset[d]};
        here.tie_count++;
    }
}

/* Handle a CONSISTENT clause: iterations write these elements of a replicated array, whose copies become the same
 * afterwards (`group_id` not 0: asynchronously). */
void weft_check_loop_consistent(int group_id, int variable_id, const void *base, int dimension_count, const int axis[],
                                const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!object || here.consistent_count == (int)(sizeof here.consistent / sizeof *here.consistent)) return;
    here.consistent[here.consistent_count].object = object;
    here.consistent[here.consistent_count++].group = group_id;
    if (here.what == LOOP) weft_check_loop_tie(variable_id, base, dimension_count, axis, coefficient, offset);
}

/* Handle a loop variable in memory: the loop's own accesses of it are not checked. */
void weft_check_loop_index(const void *base, size_t bytes) {
    CLAUSE
    if (here.index_count < (int)(sizeof here.indices / sizeof *here.indices))
        here.indices[here.index_count++] = (struct private){(uintptr_t)base, (uintptr_t)base + bytes, 0, false};
}

/* Handle a PRIVATE clause for the variable at [base, base + bytes). */
void weft_check_loop_private(int variable_id, void *base, size_t bytes) {
    CLAUSE
    if (here.private_count < MAX_CLAUSES)
        here.privates[here.private_count++] =
            (struct private){(uintptr_t)base, (uintptr_t)base + bytes, variable_id, false};
}

/* Return whether a dimension of an array is distributed among processors. */
static bool is_distributed_dimension(const struct object *object, int dimension) {
    for (int d = 0; object->root && d < object->root->rank; d++)
        if (object->root->kinds[d] != WEFT_WHOLE && object->map[d].axis == dimension) return true;
    return false;
}

/* Handle an ACROSS clause: dependences up to low[] and high[] elements wide in each dimension are right; NULL: as wide
 * as the shadow edges. Wider ones than the edges are reported. */
void weft_check_loop_across(int variable_id, const void *base, int dimension_count, const int64_t low[],
                            const int64_t high[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!object || here.across_count == 32) return;
    here.across[here.across_count].object = object;
    here.across[here.across_count].widths = object->shadow;
    for (int d = 0; low && d < dimension_count && d < WEFT_MAX_RANK; d++) {
        here.across[here.across_count].widths.low[d] = low[d];
        here.across[here.across_count].widths.high[d] = high[d];
        int64_t most = low[d] > high[d] ? low[d] : high[d], edge = object->shadow.low[d];
        edge = edge > object->shadow.high[d] ? edge : object->shadow.high[d];
        if (object->distributed && most > edge && is_distributed_dimension(object, d))
            report_directive_parameter("across", here.id, variable_id, d, most, 0, edge);
    }
    here.across_count++;
}

void weft_check_loop_shadow_renew(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                  const int64_t high[], int corner) {
    CLAUSE weft_check_shadow_renew(here.id, variable_id, base, dimension_count, low, high, corner);
}

/* Handle a SHADOW_COMPUTE clause: iterations also compute the shadow edges, low[] and high[] elements wide (NULL: as
 * declared). */
void weft_check_loop_shadow_compute(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                    const int64_t high[]) {
    CLAUSE
    struct object *object = find_object(variable_id, base);
    if (!object || here.computed_count == 32) return;
    struct widths *widths = &here.computed[here.computed_count].widths;
    here.computed[here.computed_count++].object = object;
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
    here.instance = ++instances[(unsigned)here.id % 4096];
    if (here.reduction_count && here.what == LOOP && !weft_traced) fork_reduction_verifications();
    if (now.off) {
        here.started = true;
        stop_fast_iteration();
        return;
    }
    judge_reduction_starts();
    advance_time();
    now.base = now.cur;
    here.started = true;
    stop_fast_iteration();
    here.inner_step = 0;
    here.room = 0;
    here.blocks = 0;
    run_count = 0;
    second = false;
    if (here.what != TASKS) add_aspects_of_clauses();
    if (weft_traced) {
        start_traced_loop();
        return;
    }
    for (int i = 0; i < here.private_count; i++) {
        memset((void *)here.privates[i].low, POISON, here.privates[i].high - here.privates[i].low);
        set_cell_states(here.privates[i].low, here.privates[i].high, UNINITIALISED);
    }
    for (int i = 0; i < here.reduction_count; i++)
        set_cell_states(here.reductions[i].low, here.reductions[i].high, now.cur);
    now.looked = true;
    forget_sites();
}

/* --- iterations --- */

/* Report an iteration that ON maps outside the bounds of the target array. Called for both ends of each row of
 * iterations. */
static void check_iteration_on_target(const int64_t index[]) {
    for (int d = 0; here.on && d < here.on->rank; d++) {
        const struct term *on_term = &here.at[d];
        int64_t x = evaluate_term(on_term, index), high = here.on->lower[d] + here.on->extent[d] - 1;
        if (on_term->axis != WEFT_ALL && here.on->extent[d] > 0 && (x < here.on->lower[d] || x > high))
            report_directive_parameter("on", here.id, here.on->data, d, x, here.on->lower[d], high);
    }
}

static void row_ends(void) {
    if (run_count && here.rank) check_iteration_on_target(here.index);
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
 * can be followed by adding alone (here.quick; -1: they cannot). */
static void prepare_fast_iteration(void) {
    here.quick = second ? -1 : here.aspect_count;
    for (int i = 0; i < here.aspect_count; i++) {
        struct aspect *aspect = &here.aspects[i];
        compute_own_element_address(aspect);
        weft_moves[i] = aspect->step * here.inner_step;
        if (!aspect->exact) here.quick = -1;
    }
    for (int i = here.aspect_count; i < STEP_HOMES; i++) weft_moves[i] = 0;
    uint64_t blocks = here.blocks;
    update_current_blocks();
    if (has_grid()) update_sites_for_row(blocks);
    publish_expected_step();
}

/* Enter an iteration that does not simply follow the last one: give it a stamp, begin a new run if need be, and
 * recompute the own elements. */
static __attribute__((noinline)) void enter_iteration_slowly(int dimension_count, const int64_t index[]) {
    if (__builtin_expect(now.off || nested || !here.started, 0)) {
        if (now.off && !nested) begin_verified_iteration();
        return;
    }
    if (++now.cur >= LAST_STAMP) renumber_all_stamps();
    int last = dimension_count - 1;
    bool same = dimension_count > 0 && run_count && memcmp(here.index, index, sizeof *index * (size_t)last) == 0;
    if (same && second) {
        here.inner_step = runs[run_count - 1].step = index[last] - here.index[last];
        second = false;
    } else if (!same || index[last] != here.expected) {
        begin_run_of_iterations(dimension_count, index);
    }
    memcpy(here.index, index, sizeof *index * (size_t)dimension_count);
    here.expected = dimension_count ? index[last] + here.inner_step : 0;
    prepare_fast_iteration();
    if (second) /* a row begins */
        check_iteration_on_target(index);
}

/* Enter an iteration if it follows the last one in the innermost index, by adding alone. Return false if it does not:
 * the slow path is needed. */
static inline __attribute__((always_inline)) bool advance_to_next_iteration(int innermost_dimension,
                                                                            int64_t innermost_index) {
    if (__builtin_expect(
            innermost_index != here.expected || here.quick < 0 || here.room == 0 || now.cur >= LAST_STAMP - 1, 0))
        return false;
    now.cur++;
    here.room--;
    here.index[innermost_dimension] = innermost_index;
    here.expected = innermost_index + here.inner_step;
    for (int i = 0; i < here.quick; i++) weft_homes[i] += (uintptr_t)weft_moves[i];
    if (weft_step.expected != NO_STEP) weft_step.expected = here.expected;
    return true;
}

/* Enter the iteration of the running loop with these `dimension_count` indices. */
void weft_check_iteration(int dimension_count, const int64_t index[]) {
    update_current_index();
    if (dimension_count < 1 ||
        (dimension_count > 1 && memcmp(here.index, index, sizeof *index * (size_t)(dimension_count - 1)) != 0) ||
        !advance_to_next_iteration(dimension_count - 1, index[dimension_count - 1]))
        enter_iteration_slowly(dimension_count, index);
}

void weft_check_iteration1(int64_t i) {
    if (!advance_to_next_iteration(0, i)) enter_iteration_slowly(1, &i);
}

void weft_check_iteration2(int64_t i, int64_t j) {
    update_current_index();
    if (i != here.index[0] || !advance_to_next_iteration(1, j)) enter_iteration_slowly(2, (int64_t[]){i, j});
}

/* Enter the iteration (i, j, k) of the running loop. */
void weft_check_iteration3(int64_t i, int64_t j, int64_t k) {
    update_current_index();
    if (i != here.index[0] || j != here.index[1] || !advance_to_next_iteration(2, k))
        enter_iteration_slowly(3, (int64_t[]){i, j, k});
}

/* Enter an iteration where values are traced: return 1 if another processor runs it and it must be passed over. Without
 * tracing always 0. */
int weft_check_skips(int dimension_count, const int64_t index[]) {
    if (weft_traced) return !nested && here.started && enter_traced_iteration(dimension_count, index);
    weft_check_iteration(dimension_count, index);
    return 0;
}

int weft_check_skips1(int64_t i) { return weft_check_skips(1, &i); }
int weft_check_skips2(int64_t i, int64_t j) { return weft_check_skips(2, (int64_t[]){i, j}); }
int weft_check_skips3(int64_t i, int64_t j, int64_t k) { return weft_check_skips(3, (int64_t[]){i, j, k}); }

/* Return whether a row of iterations can be run without hooks for now. For a loop of `dimension_count` indices:
 * *previous_length, iterations of the row before (0: unknown), and *done_count, iterations of this row so far. */
bool is_row_steady(int dimension_count, int64_t *previous_length, int64_t *done_count) {
    if (!now.looked || weft_task.in_task || weft_traced) return false;
    bool sequential = !here.started && (here.what == SEQUENTIAL || here.what == OWNED);
    if (dimension_count <= 0 && sequential) return true;
    if (!here.started || here.what != LOOP || !run_count) return false;
    if (dimension_count <= 0) /* within an iteration */
        return true;
    update_current_index();
    if (nested || here.rank != dimension_count || (here.quick < 0 && !second)) return false;
    *previous_length = run_count > 1 ? runs[run_count - 1].first - runs[run_count - 2].first : 0;
    *done_count = now.cur - runs[run_count - 1].first;
    return true;
}

/* Take the innermost index's step from the rewritten loop at the first iteration of a row. Return whether the loop is
 * known to go on by that step. */
bool accept_row_step(int64_t step) {
    if (second) {
        here.inner_step = runs[run_count - 1].step = step;
        here.expected = here.index[here.rank - 1] + step;
        second = false;
        prepare_fast_iteration();
    }
    return here.quick >= 0 && step == here.inner_step && here.expected == here.index[here.rank - 1] + step;
}

/* So many iterations, from this one on, lie in the same blocks. */
int64_t row_room(void) { return here.room == INT64_MAX ? here.room : here.room + 1; }

/* Advance the loop's state by iterations that ran without hooks. */
void advance_past_row(int64_t iteration_count) {
    now.cur += (stamp_t)iteration_count;
    here.room -= iteration_count;
    here.expected += iteration_count * here.inner_step;
    here.index[here.rank - 1] = here.expected - here.inner_step;
    for (int i = 0; i < here.quick; i++) weft_homes[i] += (uintptr_t)(iteration_count * weft_moves[i]);
    if (weft_step.expected != NO_STEP) weft_step.expected = here.expected;
}

/* Find the iteration that had a time stamp: sets its indices and returns how many there are; 0 if the stamp is none of
 * this loop's. */
int find_iteration_of_stamp(stamp_t stamp, int64_t index[]) {
    if (here.what != LOOP || stamp <= now.base || stamp > now.cur || !run_count || stamp < runs[0].first) return 0;
    size_t low = 0, high = run_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs[middle].first <= stamp) low = middle;
        else high = middle;
    }
    memcpy(index, runs[low].index, sizeof *index * (size_t)here.rank);
    if (here.rank) index[here.rank - 1] += (int64_t)(stamp - runs[low].first) * runs[low].step;
    return here.rank;
}

/* --- end --- */

/* Mark what iterations of the construct wrote in [low, high) as having no value afterwards, as for variables that were
 * used like private ones. */
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
    for (int i = 0; i < here.written_count; i++)
        if (!is_in_consistent_clause(here.written[i])) {
            note_writers_of_copies(here.written[i]);
            undefine_written_values(here.written[i]->low, here.written[i]->high);
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
    if (weft_traced && here.started) end_traced_loop();
    if (here.reduction_count) finish_reduction_verifications(); /* the child does not come back */
    if (now.off || here.what == SEQUENTIAL) return;
    row_ends();
    report_differing_copies();
    here.started = false;
    ran_iterations(here.id, now.cur - now.base);
    for (int i = 0; i < here.private_count && !weft_traced; i++) {
        uintptr_t low = here.privates[i].low, high = here.privates[i].high;
        weft_check_clear((void *)low, high - low);
        set_cell_states(low, high, WAS_PRIVATE);
    }
    undefine_variables_written_by_construct();
    undefine_unfinished_consistent_arrays();
    advance_time();
    now.base = now.cur;
    for (int i = 0; i < here.computed_count; i++) {
        struct object *object = here.computed[i].object;
        object->renewed = here.computed[i].widths;
        object->corner = true;
        object->renewed_at = now.cur;
        turns_renewed(object);
    }
    if (here.group) guard_partial_reductions();
    else
        for (int i = 0; i < here.reduction_count; i++) {
            struct object *object = find_object_at(here.reductions[i].low);
            set_cell_states(here.reductions[i].low, here.reductions[i].high, now.cur);
            if (object) /* the result is put into the host's memory, too */
                object->got_at = object->actual_at = now.cur;
        }
    here.what = SEQUENTIAL;
    here.on = NULL;
    here.aspect_count = 0;
    here.remote_count = 0; /* what a loop fetched is its own */
    stop_fast_iteration();
    if (weft_task.in_task) {
        here = outer;
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
        fprintf(stderr, "weft: a loop has more iterations than can be told apart; checking ends here\n");
        now.off = true;
    }
    forget_sites();
}
