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
static void renumber(void);

stamp_t tick(void) {
    if (now.cur >= LAST_STAMP - 2) renumber();
    if (!here.started) now.base = now.cur + 1;
    return ++now.cur;
}

/* --- aspects --- */

static int64_t value_of(const struct term *t, const int64_t index[]) {
    return t->axis >= 0 ? t->coefficient * index[t->axis] + t->offset : t->offset;
}

/* The own element's index in each dimension that is not free. */
void home_of(const struct aspect *s, const int64_t index[], int64_t own[]) {
    for (int k = 0; k < s->object->rank; k++)
        own[k] = s->free[k] ? s->object->lower[k] : value_of(&s->own[k], index) / s->divisor[k];
}

void loop_index(void) {
    if (weft_step.expected == NO_STEP || here.rank < 1) return;
    here.expected = weft_step.expected;
    here.index[here.rank - 1] = here.expected - here.inner_step;
}

static void publish(void) {
    bool simple = here.quick >= 0 && here.quick <= STEP_HOMES && (here.rank == 2 || here.rank == 3) && !gridded();
    weft_step = (struct step){simple ? here.expected : NO_STEP, here.inner_step, {here.index[0], here.index[1]}};
}

/* The next iteration is not an ordinary one. */
static void halt(void) {
    loop_index();
    here.quick = -1;
    weft_step.expected = NO_STEP;
}

/* Which block a coordinate lies in goes into here.blocks; how many more iterations stay there, into here.room, where
 * each moves it by so much. */
static void in_block(const struct object *root, int d, int64_t t, int64_t move) {
    int64_t low = block_low(root, d, t), high = block_high(root, d, t);
    int64_t more = move > 0 ? (high - t) / move : move < 0 ? (t - low) / -move : INT64_MAX;
    here.blocks = (here.blocks ^ (uint64_t)low) * 0x9E3779B97F4A7C15u;
    if (low <= t && t <= high) here.room = more < here.room ? more : here.room;
}

/* With a grid: the blocks of this iteration, that of the ON array and those of all arrays seen so far. */
void find_blocks(void) {
    here.room = INT64_MAX;
    here.blocks = 0;
    if (!gridded()) return;
    int last = here.rank - 1;
    for (int d = 0; here.on && d < here.on->rank; d++) {
        const struct term *t = &here.at[d];
        if (t->axis != WEFT_ALL && here.on->kinds[d] != WEFT_WHOLE)
            in_block(here.on, d, value_of(t, here.index), t->axis == last ? t->coefficient * here.inner_step : 0);
    }
    for (int i = 0; i < here.aspect_count; i++) {
        const struct aspect *s = &here.aspects[i];
        const struct object *o = s->object;
        int64_t own[WEFT_MAX_RANK];
        home_of(s, here.index, own);
        for (int d = 0; o->root && d < o->root->rank; d++) {
            const struct term *m = &o->map[d];
            if (m->axis < 0 || s->free[m->axis] || o->root->kinds[d] == WEFT_WHOLE) continue;
            const struct term *t = &s->own[m->axis];
            int64_t move = t->axis == last ? t->coefficient * m->coefficient * here.inner_step : 0;
            in_block(o->root, d, m->coefficient * own[m->axis] + m->offset, move / s->divisor[m->axis]);
            if (s->divisor[m->axis] != 1) here.room = 0;
        }
    }
}

static void place_home(struct aspect *s) {
    const struct object *o = s->object;
    int64_t own[WEFT_MAX_RANK];
    home_of(s, here.index, own);
    *s->home = o->low;
    for (int k = 0; k < o->rank; k++) *s->home += (uintptr_t)((own[k] - o->lower[k]) * o->stride[k]);
}

static void derive_step(struct aspect *s) {
    int last = here.rank - 1;
    s->step = 0;
    s->exact = true;
    for (int k = 0; k < s->object->rank; k++) {
        if (s->free[k]) continue;
        if (s->divisor[k] != 1 && s->own[k].axis >= 0) s->exact = false;
        else if (last >= 0 && s->own[k].axis == last)
            s->step += s->own[k].coefficient / s->divisor[k] * s->object->stride[k];
    }
    place_home(s);
    if (here.what == OWNED) return; /* moved from one time to the next (owned.c) */
    weft_moves[s - here.aspects] = s->exact ? s->step * here.inner_step : 0;
    if (here.quick >= 0) here.quick = s->exact ? (int)(s - here.aspects) + 1 : -1;
    publish();
}

/* Where the own element is from the construct's indices, by how the array and the ON array lie to each other. */
void aspect_lay(struct aspect *s) {
    const struct object *o = s->object;
    for (int k = 0; k < o->rank; k++) {
        s->free[k] = true;
        s->divisor[k] = 1;
    }
    for (int d = 0; d < o->root->rank; d++) {
        const struct term *m = &o->map[d];
        int e = o->root->kinds[d] == WEFT_WHOLE ? -1 : paired(o->root, d, here.on);
        if (e < 0 || m->axis < 0 || here.at[e].axis == WEFT_ALL || m->coefficient == 0) continue;
        /* m.coefficient * own + m.offset = at; two roots are compared from their lower bounds */
        int64_t shift = o->root == here.on ? 0 : o->root->lower[d] - here.on->lower[e];
        int k = m->axis;
        s->free[k] = false;
        s->own[k] = here.at[e];
        s->own[k].offset += shift - m->offset;
        s->divisor[k] = m->coefficient;
        if (m->coefficient == -1) {
            s->own[k].coefficient *= -1;
            s->own[k].offset *= -1;
            s->divisor[k] = 1;
        }
    }
}

/* How an array lies to this construct's iterations; NULL: any iteration may use it. */
struct aspect *aspect_of(struct object *o) {
    for (int i = 0; i < here.aspect_count; i++)
        if (here.aspects[i].object == o && !here.aspects[i].remote) {
            if (here.what == OWNED) aspect_lay(&here.aspects[i]); /* the element is another one each time */
            return &here.aspects[i];
        }
    if (here.what == OWNED && here.aspect_count == here.aspect_room) owned_forget();
    if (!here.on || !o->root || here.aspect_count == here.aspect_room) return NULL;
    struct aspect *s = &here.aspects[here.aspect_count];
    memset(s, 0, sizeof *s);
    s->object = o;
    s->home = &here.homes[here.aspect_count];
    aspect_lay(s);
    for (int i = 0; i < here.across_count; i++)
        if (here.across[i].object == o) {
            s->across = true;
            s->over = here.across[i].widths;
        }
    derive_step(s);
    here.aspect_count++;
    if (here.what == OWNED) owned_more(s);
    find_blocks();
    return s;
}

static void tied_aspects(void) {
    for (int i = 0; i < here.tie_count && here.aspect_count < here.aspect_room; i++) {
        struct aspect *s = &here.aspects[here.aspect_count++];
        memset(s, 0, sizeof *s);
        s->object = here.ties[i].object;
        s->home = &here.homes[s - here.aspects];
        for (int k = 0; k < s->object->rank; k++) {
            s->divisor[k] = 1;
            s->own[k] = here.ties[i].terms[k];
            if (s->own[k].coefficient < 0 && s->own[k].offset == 0) /* `[-i]`: the loop descends, the element is [i] */
                s->own[k].coefficient *= -1;
            s->free[k] = k >= here.ties[i].rank || s->own[k].axis == WEFT_ALL;
        }
        derive_step(s);
    }
}

void construct_remotes(void) {
    tied_aspects();
    for (int i = 0; i < here.remote_count && here.aspect_count < here.aspect_room; i++) {
        struct aspect *s = &here.aspects[here.aspect_count++];
        memset(s, 0, sizeof *s);
        s->home = &here.homes[s - here.aspects];
        s->object = here.remotes[i].object;
        s->remote = true;
        s->filled = here.remotes[i].filled;
        for (int k = 0; k < s->object->rank; k++) {
            s->divisor[k] = 1;
            s->own[k] = here.remotes[i].terms[k];
            s->free[k] = s->own[k].axis == WEFT_ALL || k >= here.remotes[i].rank;
        }
        derive_step(s);
    }
}

/* --- clauses --- */

void weft_check_loop_begin(int construct, int rank, unsigned flags) {
    if (now.off || here.what == LOOP) {
        nested++;
        halt();
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
    halt();
    here.what = LOOP;
    here.id = construct;
    here.rank = rank;
    here.flags = flags;
    ran(construct);
    here.frame = (uintptr_t)__builtin_frame_address(0);
    tick();
}

#define CLAUSE                                                                                                         \
    if (now.off || nested || (here.what == SEQUENTIAL)) return;

static void construct_on(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                         const int64_t offset[]) {
    struct object *o = object_of(data, base);
    if (!o || !o->root) {
        usage_error(o ? "undistributed-on" : "unknown-array", here.id, data);
        return;
    }
    here.on = o->root;
    if (o->root->deferred && here.what == LOOP) findings_directive("on-deferred", here.id, data);
    for (int d = 0; d < o->root->rank; d++) {
        struct term m = o == o->root ? (struct term){d, 1, 0} : o->map[d];
        here.at[d] = composed(m, rank, axis, coefficient, offset);
    }
}

void weft_check_loop_on(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                        const int64_t offset[]) {
    CLAUSE construct_on(data, base, rank, axis, coefficient, offset);
}

void weft_check_loop_tie(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                         const int64_t offset[]) {
    CLAUSE
    struct object *o = object_of(data, base);
    if (!here.on && o && o->root) construct_on(data, base, rank, axis, coefficient, offset);
    if (o && !o->root && here.tie_count < (int)(sizeof here.ties / sizeof *here.ties)) {
        here.ties[here.tie_count].object = o;
        here.ties[here.tie_count].rank = rank;
        for (int d = 0; d < rank && d < WEFT_MAX_RANK; d++)
            here.ties[here.tie_count].terms[d] = (struct term){axis[d], coefficient[d], offset[d]};
        here.tie_count++;
    }
}

void weft_check_loop_consistent(int group, int data, const void *base, int rank, const int axis[],
                                const int64_t coefficient[], const int64_t offset[]) {
    CLAUSE
    struct object *o = object_of(data, base);
    if (!o || here.consistent_count == (int)(sizeof here.consistent / sizeof *here.consistent)) return;
    here.consistent[here.consistent_count].object = o;
    here.consistent[here.consistent_count++].group = group;
    if (here.what == LOOP) weft_check_loop_tie(data, base, rank, axis, coefficient, offset);
}

void weft_check_loop_index(const void *base, size_t bytes) {
    CLAUSE
    if (here.index_count < (int)(sizeof here.indices / sizeof *here.indices))
        here.indices[here.index_count++] = (struct private){(uintptr_t)base, (uintptr_t)base + bytes, 0, false};
}

void weft_check_loop_private(int data, void *base, size_t bytes) {
    CLAUSE
    if (here.private_count < MAX_CLAUSES)
        here.privates[here.private_count++] = (struct private){(uintptr_t)base, (uintptr_t)base + bytes, data, false};
}

static bool split(const struct object *o, int dimension) /* among processors */
{
    for (int d = 0; o->root && d < o->root->rank; d++)
        if (o->root->kinds[d] != WEFT_WHOLE && o->map[d].axis == dimension) return true;
    return false;
}

void weft_check_loop_across(int data, const void *base, int rank, const int64_t low[], const int64_t high[]) {
    CLAUSE
    struct object *o = object_of(data, base);
    if (!o || here.across_count == 32) return;
    here.across[here.across_count].object = o;
    here.across[here.across_count].widths = o->shadow;
    for (int d = 0; low && d < rank && d < WEFT_MAX_RANK; d++) {
        here.across[here.across_count].widths.low[d] = low[d];
        here.across[here.across_count].widths.high[d] = high[d];
        int64_t most = low[d] > high[d] ? low[d] : high[d], edge = o->shadow.low[d];
        edge = edge > o->shadow.high[d] ? edge : o->shadow.high[d];
        if (o->distributed && most > edge && split(o, d)) findings_parameter("across", here.id, data, d, most, 0, edge);
    }
    here.across_count++;
}

void weft_check_loop_shadow_renew(int data, const void *base, int rank, const int64_t low[], const int64_t high[],
                                  int corner) {
    CLAUSE weft_check_shadow_renew(here.id, data, base, rank, low, high, corner);
}

void weft_check_loop_shadow_compute(int data, const void *base, int rank, const int64_t low[], const int64_t high[]) {
    CLAUSE
    struct object *o = object_of(data, base);
    if (!o || here.computed_count == 32) return;
    struct widths *w = &here.computed[here.computed_count].widths;
    here.computed[here.computed_count++].object = o;
    *w = o->shadow;
    for (int d = 0; low && d < rank && d < WEFT_MAX_RANK; d++) {
        w->low[d] = low[d];
        w->high[d] = high[d];
    }
}

void weft_check_loop_start(void) {
    CLAUSE
    static unsigned instances[4096];
    here.instance = ++instances[(unsigned)here.id % 4096];
    if (here.reduction_count && here.what == LOOP && !weft_traced) reductions_fork();
    if (now.off) {
        here.started = true;
        halt();
        return;
    }
    judge_reductions();
    tick();
    now.base = now.cur;
    here.started = true;
    halt();
    here.inner_step = 0;
    here.room = 0;
    here.blocks = 0;
    run_count = 0;
    second = false;
    if (here.what != TASKS) construct_remotes();
    if (weft_traced) {
        turns_start();
        return;
    }
    for (int i = 0; i < here.private_count; i++) {
        memset((void *)here.privates[i].low, POISON, here.privates[i].high - here.privates[i].low);
        mark(here.privates[i].low, here.privates[i].high, UNINITIALISED);
    }
    for (int i = 0; i < here.reduction_count; i++) mark(here.reductions[i].low, here.reductions[i].high, now.cur);
    now.looked = true;
    forget_sites();
}

/* --- iterations --- */

/* Whether an iteration lies on an element of the ON array's root: asked at both ends of each row. */
static void on_target(const int64_t index[]) {
    for (int d = 0; here.on && d < here.on->rank; d++) {
        const struct term *t = &here.at[d];
        int64_t x = value_of(t, index), high = here.on->lower[d] + here.on->extent[d] - 1;
        if (t->axis != WEFT_ALL && here.on->extent[d] > 0 && (x < here.on->lower[d] || x > high))
            findings_parameter("on", here.id, here.on->data, d, x, here.on->lower[d], high);
    }
}

static void row_ends(void) {
    if (run_count && here.rank) on_target(here.index);
}

static void new_run(int rank, const int64_t index[]) {
    row_ends();
    GROW(runs, run_count, run_room, 4096);
    struct run *r = &runs[run_count++];
    r->first = now.cur;
    r->step = 0;
    memcpy(r->index, index, sizeof *index * (size_t)rank);
    second = true;
}

/* Whether all homes can be advanced by adding: -1 where not. */
static void settle(void) {
    here.quick = second ? -1 : here.aspect_count;
    for (int i = 0; i < here.aspect_count; i++) {
        struct aspect *s = &here.aspects[i];
        place_home(s);
        weft_moves[i] = s->step * here.inner_step;
        if (!s->exact) here.quick = -1;
    }
    for (int i = here.aspect_count; i < STEP_HOMES; i++) weft_moves[i] = 0;
    uint64_t blocks = here.blocks;
    find_blocks();
    if (gridded()) block_sites(blocks);
    publish();
}

static __attribute__((noinline)) void jump(int rank, const int64_t index[]) {
    if (__builtin_expect(now.off || nested || !here.started, 0)) {
        if (now.off && !nested) reductions_iteration();
        return;
    }
    if (++now.cur >= LAST_STAMP) renumber();
    int last = rank - 1;
    bool same = rank > 0 && run_count && memcmp(here.index, index, sizeof *index * (size_t)last) == 0;
    if (same && second) {
        here.inner_step = runs[run_count - 1].step = index[last] - here.index[last];
        second = false;
    } else if (!same || index[last] != here.expected) {
        new_run(rank, index);
    }
    memcpy(here.index, index, sizeof *index * (size_t)rank);
    here.expected = rank ? index[last] + here.inner_step : 0;
    settle();
    if (second) /* a row begins */
        on_target(index);
}

/* An iteration that follows the last one: only the innermost index has moved, by its step. */
static inline __attribute__((always_inline)) bool follows(int last, int64_t innermost) {
    if (__builtin_expect(innermost != here.expected || here.quick < 0 || here.room == 0 || now.cur >= LAST_STAMP - 1,
                         0))
        return false;
    now.cur++;
    here.room--;
    here.index[last] = innermost;
    here.expected = innermost + here.inner_step;
    for (int i = 0; i < here.quick; i++) weft_homes[i] += (uintptr_t)weft_moves[i];
    if (weft_step.expected != NO_STEP) weft_step.expected = here.expected;
    return true;
}

void weft_check_iteration(int rank, const int64_t index[]) {
    loop_index();
    if (rank < 1 || (rank > 1 && memcmp(here.index, index, sizeof *index * (size_t)(rank - 1)) != 0) ||
        !follows(rank - 1, index[rank - 1]))
        jump(rank, index);
}

void weft_check_iteration1(int64_t i) {
    if (!follows(0, i)) jump(1, &i);
}

void weft_check_iteration2(int64_t i, int64_t j) {
    loop_index();
    if (i != here.index[0] || !follows(1, j)) jump(2, (int64_t[]){i, j});
}

void weft_check_iteration3(int64_t i, int64_t j, int64_t k) {
    loop_index();
    if (i != here.index[0] || j != here.index[1] || !follows(2, k)) jump(3, (int64_t[]){i, j, k});
}

/* At the head of an iteration where values are traced: 1 where another processor runs it. */
int weft_check_skips(int rank, const int64_t index[]) {
    if (weft_traced) return !nested && here.started && turns_iteration(rank, index);
    weft_check_iteration(rank, index);
    return 0;
}

int weft_check_skips1(int64_t i) { return weft_check_skips(1, &i); }
int weft_check_skips2(int64_t i, int64_t j) { return weft_check_skips(2, (int64_t[]){i, j}); }
int weft_check_skips3(int64_t i, int64_t j, int64_t k) { return weft_check_skips(3, (int64_t[]){i, j, k}); }

/* Whether the iterations of this row go on evenly: how long the row before was (0: unknown), how many are over. */
bool row_ordinary(int rank, int64_t *before, int64_t *done) {
    if (!now.looked || weft_task.in_task || weft_traced) return false;
    bool sequential = !here.started && (here.what == SEQUENTIAL || here.what == OWNED);
    if (rank <= 0 && sequential) return true;
    if (!here.started || here.what != LOOP || !run_count) return false;
    if (rank <= 0) /* within an iteration */
        return true;
    loop_index();
    if (nested || here.rank != rank || (here.quick < 0 && !second)) return false;
    *before = run_count > 1 ? runs[run_count - 1].first - runs[run_count - 2].first : 0;
    *done = now.cur - runs[run_count - 1].first;
    return true;
}

/* The first iteration of a row, with what the copy says of the next one's innermost index: false if it is not that. */
bool row_rises(int64_t step) {
    if (second) {
        here.inner_step = runs[run_count - 1].step = step;
        here.expected = here.index[here.rank - 1] + step;
        second = false;
        settle();
    }
    return here.quick >= 0 && step == here.inner_step && here.expected == here.index[here.rank - 1] + step;
}

/* So many iterations, from this one on, lie in the same blocks. */
int64_t row_room(void) { return here.room == INT64_MAX ? here.room : here.room + 1; }

/* So many iterations have followed. */
void row_advance(int64_t count) {
    now.cur += (stamp_t)count;
    here.room -= count;
    here.expected += count * here.inner_step;
    here.index[here.rank - 1] = here.expected - here.inner_step;
    for (int i = 0; i < here.quick; i++) weft_homes[i] += (uintptr_t)(count * weft_moves[i]);
    if (weft_step.expected != NO_STEP) weft_step.expected = here.expected;
}

/* The index of the iteration with a stamp; its rank, or 0. */
int iteration_of(stamp_t s, int64_t index[]) {
    if (here.what != LOOP || s <= now.base || s > now.cur || !run_count || s < runs[0].first) return 0;
    size_t low = 0, high = run_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (runs[middle].first <= s) low = middle;
        else high = middle;
    }
    memcpy(index, runs[low].index, sizeof *index * (size_t)here.rank);
    if (here.rank) index[here.rank - 1] += (int64_t)(s - runs[low].first) * runs[low].step;
    return here.rank;
}

/* --- end --- */

/* After the construct a private variable has no value, nor has what iterations wrote as if it were one. */
void undefine(uintptr_t low, uintptr_t high) {
    for (uintptr_t a = low & ~(uintptr_t)3; a < high; a += 4) {
        struct cell *c = cell8(a);
        if (c->written == SPLIT) c = cell4(a);
        if (c->written > now.base && c->written < SPLIT) c->written = UNDEFINED;
    }
}

void construct_undefine(void) {
    for (int i = 0; i < here.written_count; i++)
        if (!is_consistent(here.written[i])) {
            copies_keep(here.written[i]);
            undefine(here.written[i]->low, here.written[i]->high);
        }
}

void weft_check_loop_end(int construct) {
    (void)construct;
    if (nested) {
        nested--;
        return;
    }
    halt();
    if (weft_traced && here.started) turns_end();
    if (here.reduction_count) reductions_end(); /* the child does not come back */
    if (now.off || here.what == SEQUENTIAL) return;
    row_ends();
    copies_compare();
    here.started = false;
    ran_iterations(here.id, now.cur - now.base);
    for (int i = 0; i < here.private_count && !weft_traced; i++) {
        uintptr_t low = here.privates[i].low, high = here.privates[i].high;
        weft_check_clear((void *)low, high - low);
        mark(low, high, WAS_PRIVATE);
    }
    construct_undefine();
    consistent_hold();
    tick();
    now.base = now.cur;
    for (int i = 0; i < here.computed_count; i++) {
        struct object *o = here.computed[i].object;
        o->renewed = here.computed[i].widths;
        o->corner = true;
        o->renewed_at = now.cur;
        turns_renewed(o);
    }
    if (here.group) reductions_hold();
    else
        for (int i = 0; i < here.reduction_count; i++) {
            struct object *o = object_at(here.reductions[i].low);
            mark(here.reductions[i].low, here.reductions[i].high, now.cur);
            if (o) /* the result is put into the host's memory, too */
                o->got_at = o->actual_at = now.cur;
        }
    here.what = SEQUENTIAL;
    here.on = NULL;
    here.aspect_count = 0;
    here.remote_count = 0; /* what a loop fetched is its own */
    halt();
    if (weft_task.in_task) {
        here = outer;
        now.base = weft_task.base;
    }
    now.looked = weft_on_host || weft_sequential_checked || weft_in_region || weft_task.in_task;
    forget_sites();
}

/* --- time --- */

static void renumber_cells(struct cell *from, struct cell *to) {
    for (struct cell *c = from; c < to; c++) {
        if (c->written >= FIRST_STAMP && c->written < SPLIT)
            c->written = c->written > now.base ? c->written - now.base + FIRST_STAMP : FIRST_STAMP;
        c->read = 0;
    }
}

/* What is older than the construct gets the stamp FIRST_STAMP: four thousand million iterations are over. */
static void renumber(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s", &low, &high, access) != 3 || access[1] != 'w' || (low >= SPACE8 && low < END1))
            continue;
        renumber_cells(cell8(low), cell8(high - 1) + 1);
        renumber_cells(cell4(low), cell4(high - 1) + 1);
        for (uintptr_t a = low; a < high; a += 4)
            if (cell8(a)->written == SPLIT && cell4(a)->written == SPLIT) renumber_cells(cell1(a), cell1(a) + 4);
    }
    if (maps) fclose(maps);
    objects_renumber();
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
