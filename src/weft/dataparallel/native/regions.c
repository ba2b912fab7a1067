/* What happens between loops: shadow edges and remote elements, copies on host and device, tasks. */
#include "growing.h"
#include "regions.h"

#include "access.h"
#include "cells.h"
#include "findings.h"
#include "loops.h"
#include "objects.h"
#include "ran.h"
#include "reductions.h"
#include "scattered.h"
#include "turns.h"

#include <stdlib.h>
#include <string.h>

bool weft_in_region, weft_on_host, weft_sequential_checked;
int weft_io;
struct task_state weft_task;

/* After a change of what sequential parts must look at. */
static void look(void) {
    now.looked = here.started || here.what == OWNED || weft_on_host || weft_sequential_checked || weft_in_region ||
                 weft_task.in_task;
    forget_sites();
}

/* --- shadow edges --- */

static void set_widths(const struct object *o, struct widths *w, int rank, const int64_t low[], const int64_t high[]) {
    *w = o->shadow;
    for (int d = 0; low && d < rank && d < WEFT_MAX_RANK; d++) {
        w->low[d] = low[d];
        w->high[d] = high[d];
    }
}

void weft_check_shadow_renew(int construct, int data, const void *base, int rank, const int64_t low[],
                             const int64_t high[], int corner) {
    if (now.off) return;
    struct object *o = object_of(data, base);
    if (!o || !o->distributed) {
        usage_error("undistributed", construct, data);
        return;
    }
    tick();
    if (here.what == SEQUENTIAL) /* else it is the loop's clause */
        ran(construct);
    set_widths(o, &o->renewed, rank, low, high);
    o->corner = corner;
    o->renewed_at = now.cur;
    o->begun_at = 0;
    turns_renewed(o);
    if (!low) /* as declared: named edges, too */
        scattered_renew(o, 0);
    forget_sites();
}

static struct member {
    int group, corner;
    struct object *object;
    int data;
    struct widths widths;
} *members;
static int member_count;
static size_t member_room;

void weft_check_shadow_group(int construct, int group, int data, const void *base, int rank, const int64_t low[],
                             const int64_t high[], int corner) {
    if (now.off) return;
    struct object *o = object_of(data, base);
    if (!o || !o->distributed) {
        usage_error("undistributed", construct, data);
        return;
    }
    ran(construct);
    int i = 0;
    while (i < member_count && (members[i].group != group || members[i].object != o)) i++;
    GROW(members, (size_t)i, member_room, 32);
    if (i == member_count) member_count++;
    members[i] = (struct member){group, corner, o, data, {{0}, {0}}};
    set_widths(o, &members[i].widths, rank, low, high);
}

void weft_check_shadow_start(int construct, int group) {
    if (now.off) return;
    bool any = false;
    tick();
    if (here.what != LOOP) ran(construct);
    for (int i = 0; i < member_count; i++)
        if (members[i].group == group) {
            if (members[i].object->begun_at && !any) findings_directive("shadow-twice", construct, group);
            members[i].object->begun_at = now.cur;
            any = true;
        }
    if (!any) findings_directive("shadow-start", construct, group);
    forget_sites();
}

void weft_check_shadow_wait(int construct, int group) {
    if (now.off) return;
    bool any = false;
    tick();
    if (here.what != LOOP) ran(construct);
    for (int i = 0; i < member_count; i++) {
        struct object *o = members[i].object;
        if (members[i].group != group || !o->begun_at) continue;
        any = true;
        o->renewed = members[i].widths;
        o->corner = members[i].corner;
        o->renewed_at = o->begun_at;
        o->begun_at = 0;
        turns_renewed(o);
        scattered_renew(o, 0);
    }
    if (!any) findings_directive("shadow-wait", construct, group);
    forget_sites();
}

/* --- remote elements --- */

/* Those that a loop has used. */
static struct remote_group {
    int group;
    bool loading;
    stamp_t filled;
} *groups;
static int group_count;
static size_t group_room;

static struct remote_group *group_of(int group) {
    for (int i = 0; i < group_count; i++)
        if (groups[i].group == group) return &groups[i];
    return NULL;
}

static void add_remote(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                       const int64_t offset[], stamp_t filled) {
    struct object *o = object_of(data, base);
    if (!o || here.remote_count == (int)(sizeof here.remotes / sizeof *here.remotes)) return;
    here.remotes[here.remote_count].object = o;
    here.remotes[here.remote_count].rank = rank;
    here.remotes[here.remote_count].filled = filled;
    for (int d = 0; d < rank && d < WEFT_MAX_RANK; d++)
        here.remotes[here.remote_count].terms[d] = (struct term){axis[d], coefficient[d], offset[d]};
    here.remote_count++;
}

void weft_check_loop_remote(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                            const int64_t offset[]) {
    if (!now.off && here.what != SEQUENTIAL && !here.started)
        add_remote(data, base, rank, axis, coefficient, offset, SPLIT - 1);
}

/* The first use of a group loads its elements at the loop; a later prefetch loads them where it stands. Until a loop
   uses them the group is being loaded: DVM ends a program that prefetches it again. */
void weft_check_loop_remote_group(int group, int data, const void *base, int rank, const int axis[],
                                  const int64_t coefficient[], const int64_t offset[]) {
    if (now.off || here.what == SEQUENTIAL || here.started) return;
    struct remote_group *g = group_of(group);
    if (!g) {
        GROW(groups, (size_t)group_count, group_room, 32);
        g = &groups[group_count++];
        *g = (struct remote_group){group, false, 0};
    }
    g->loading = false;
    add_remote(data, base, rank, axis, coefficient, offset, g->filled ? g->filled : SPLIT - 1);
}

void weft_check_remote_prefetch(int construct, int group) {
    struct remote_group *g = group_of(group);
    ran(construct);
    if (now.off || !g) return;
    if (g->loading) findings_directive("remote-prefetch", construct, group);
    g->loading = true;
    g->filled = tick();
}

void weft_check_remote_reset(int construct, int group) {
    ran(construct);
    struct remote_group *g = group_of(group);
    if (g) *g = groups[--group_count];
}

/* A statement with its REMOTE_ACCESS directive is a construct without iterations. */
static int outside_remotes;

void weft_check_remote_begin(int construct) {
    if (now.off || here.started || here.what == LOOP) return;
    tick();
    ran(construct);
    if (here.what == SEQUENTIAL) here.id = construct;
    outside_remotes = here.remote_count;
    if (here.what == SEQUENTIAL) here.remote_count = 0;
}

void weft_check_remote(int data, const void *base, int rank, const int axis[], const int64_t coefficient[],
                       const int64_t offset[]) {
    if (now.off || here.started || here.what == LOOP) return;
    add_remote(data, base, rank, axis, coefficient, offset, now.cur);
    forget_sites();
}

void weft_check_remote_end(int construct) {
    (void)construct;
    if (now.off || here.started || here.what == LOOP) return;
    here.remote_count = here.what == SEQUENTIAL ? 0 : outside_remotes;
    forget_sites();
}

/* --- sequential parts --- */

void weft_check_sequential(int on) {
    if (now.off) return;
    weft_sequential_checked = on;
    look();
}

void weft_check_io_begin(void) {
    weft_io++;
    forget_sites();
}

void weft_check_io_end(void) {
    weft_io--;
    forget_sites();
}

/* --- regions --- */

static struct {
    stamp_t begun, ended;
} *past;
static size_t past_count, past_room;
static stamp_t begun;
static struct object *named[MAX_CLAUSES];
static int named_count;
static int inner_regions; /* regions that iterations or regions begin: nothing of their own */
static int on_host; /* depth of host sections within the region */

stamp_t region_start(void) { return begun; }

stamp_t region_end_stamp(void) { return past_count ? past[past_count - 1].ended + 1 : 0; }

/* Whether a region wrote at this time. */
bool from_device(stamp_t s) {
    if (weft_in_region && s >= begun) return true;
    size_t low = 0, high = past_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (past[middle].ended < s) low = middle + 1;
        else high = middle;
    }
    return low < past_count && past[low].begun <= s;
}

void weft_check_region_begin(int construct) {
    ran(construct);
    if (!now.off && !here.started && !weft_in_region) named_count = 0;
}

/* Which variable a region means: what lies there may be left of one whose block, inlined into this function, is over. */
static struct object *meant(int data, const void *base, size_t bytes) {
    struct object *o = object_of(data, base);
    bool whole = o && o->low == (uintptr_t)base && o->high - o->low == bytes;
    bool named = o && (o->data == data || o->first_data == data);
    if (!base || !bytes || (o && (!o->on_stack || o->array || (whole && named)))) return o;
    weft_check_data(data, base, bytes);
    return object_of(data, base);
}

void weft_check_begins(const void *base) {
    struct object *o = now.off ? NULL : object_at((uintptr_t)base);
    if (!o || o->low != (uintptr_t)base) return;
    o->on_device = o->actual_at = o->got_at = o->host_wrote = o->device_wrote = o->local_from = o->local_to = 0;
}

void weft_check_region_data(int data, const void *base, size_t bytes, int direction, int rank, const int64_t low[],
                            const int64_t high[]) {
    (void)low, (void)high;
    if (now.off || here.started || weft_in_region) return;
    struct object *o = meant(data, base, bytes);
    if (!o || named_count == MAX_CLAUSES) return;
    /* A section says nothing of the rest: the whole is taken as passed both ways. */
    o->direction = rank > 0 && direction != WEFT_IN ? WEFT_INOUT : o->direction | direction;
    named[named_count++] = o;
}

static void enter(void) {
    begun = tick();
    weft_in_region = true;
    look();
}

static void leave(void) {
    GROW(past, past_count, past_room, 64);
    past[past_count].begun = begun;
    past[past_count++].ended = now.cur;
    weft_in_region = false;
    weft_on_host = true;
    tick();
    look();
}

void weft_check_region_start(void) {
    if (now.off || weft_in_region || here.started) {
        inner_regions++;
        return;
    }
    enter();
    for (int i = 0; i < named_count; i++) {
        if (named[i]->direction & WEFT_IN && !named[i]->on_device) named[i]->on_device = begun;
        if (!(named[i]->direction & WEFT_LOCAL) || named[i]->direction & WEFT_INOUT) named[i]->local_to = 0;
    }
}

void weft_check_region_end(int construct) {
    (void)construct;
    if (now.off || !weft_in_region || inner_regions > 0) {
        inner_regions -= inner_regions > 0;
        return;
    }
    for (int i = 0; i < named_count; i++) {
        struct object *o = named[i];
        if (o->direction == WEFT_LOCAL) {
            o->local_from = begun;
            o->local_to = now.cur;
        }
        o->direction = 0;
    }
    named_count = 0;
    leave();
}

void weft_check_host_section_begin(int construct) {
    ran(construct);
    if (!now.off && weft_in_region && on_host++ == 0) leave();
}

void weft_check_host_section_end(int construct) {
    (void)construct;
    if (!now.off && on_host > 0 && --on_host == 0) enter();
}

/* Sections of arrays that were declared actual or fetched; the whole is kept in the object itself. */
static struct section {
    const struct object *object;
    stamp_t at;
    bool got;
    int rank;
    int64_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
} sections[1024];
static unsigned section_count;

/* When an element was last declared actual (or fetched). */
stamp_t section_known(const struct object *o, uintptr_t a, bool got) {
    stamp_t known = got ? o->got_at : o->actual_at;
    int64_t at[WEFT_MAX_RANK];
    index_of(o, a, at);
    unsigned n = section_count < 1024 ? section_count : 1024;
    for (unsigned i = 0; i < n; i++) {
        const struct section *s = &sections[i];
        if (s->object != o || s->got != got || s->at <= known) continue;
        bool inside = true;
        for (int d = 0; inside && d < s->rank && d < o->rank; d++) inside = s->low[d] <= at[d] && at[d] <= s->high[d];
        if (inside) known = s->at;
    }
    return known;
}

static bool covers(const struct object *o, int rank, const int64_t low[], const int64_t high[]) {
    for (int d = 0; d < rank && d < o->rank; d++)
        if (low[d] > o->lower[d] || high[d] < o->lower[d] + o->extent[d] - 1) return false;
    return true;
}

static void known_now(int data, const void *base, int rank, const int64_t low[], const int64_t high[], bool got) {
    struct object *o = NULL;
    if (base) {
        o = object_of(data, base);
        if (!o) return;
        if (!o->array || rank < 1 || !low || !high || covers(o, rank, low, high)) {
            *(got ? &o->got_at : &o->actual_at) = now.cur;
            return;
        }
        struct section *s = &sections[section_count++ % 1024];
        *s = (struct section){.object = o, .at = now.cur, .got = got, .rank = rank};
        memcpy(s->low, low, sizeof *low * (size_t)rank);
        memcpy(s->high, high, sizeof *high * (size_t)rank);
        return;
    }
    for (uintptr_t a = 0; (o = object_after(a)); a = o->high) *(got ? &o->got_at : &o->actual_at) = now.cur;
}

static void known_from_now(int data, const void *base, int rank, const int64_t low[], const int64_t high[], bool got) {
    if (now.off) return;
    tick();
    known_now(data, base, rank, low, high, got);
    forget_sites();
}

void weft_check_actual(int construct, int data, const void *base, size_t bytes, int rank, const int64_t low[],
                       const int64_t high[]) {
    (void)bytes;
    ran(construct);
    known_from_now(data, base, rank, low, high, false);
}

void weft_check_get_actual(int construct, int data, const void *base, size_t bytes, int rank, const int64_t low[],
                           const int64_t high[]) {
    (void)bytes;
    ran(construct);
    known_from_now(data, base, rank, low, high, true);
}

/* --- tasks --- */

/* The task arrays of the program: how many tasks each has. */
#define MAX_TASK_ARRAYS 64
static struct {
    int tasks;
    int64_t lower, count;
} task_arrays[MAX_TASK_ARRAYS];
static int task_array_count;

void weft_check_task_array(int tasks, int64_t lower, int64_t count) {
    int i = 0;
    while (i < task_array_count && task_arrays[i].tasks != tasks) i++;
    if (i == MAX_TASK_ARRAYS || count < 1) return; /* nothing is known of their tasks */
    if (i == task_array_count) task_array_count++;
    task_arrays[i].tasks = tasks;
    task_arrays[i].lower = lower;
    task_arrays[i].count = count;
}

/* Whether a directive names a task that there is. */
static void existing(int construct, int tasks, int64_t task) {
    for (int i = 0; i < task_array_count; i++) {
        int64_t low = task_arrays[i].lower, high = low + task_arrays[i].count - 1;
        if (task_arrays[i].tasks == tasks && (task < low || task > high))
            findings_parameter("task", construct, tasks, 0, task, low, high);
    }
}

void weft_check_task_map(int construct, int tasks, int64_t task, int64_t low, int64_t high) {
    if (now.off) return;
    ran(construct);
    existing(construct, tasks, task);
    (void)low, (void)high;
}

void weft_check_task_region_begin(int construct, int tasks) {
    if (now.off || here.what != SEQUENTIAL) return;
    ran(construct);
    weft_task = (struct task_state){.tasks = tasks, .construct = construct};
    here.what = TASKS;
    here.id = construct;
    here.rank = 0;
    here.flags = 0;
    here.on = NULL;
    here.started = false;
    here.private_count = here.index_count = here.reduction_count = here.aspect_count = here.across_count = 0;
    here.computed_count = here.remote_count = here.written_count = here.group = here.tie_count = 0;
    here.consistent_count = 0;
}

void weft_check_task_region_start(void) {
    if (now.off || here.what != TASKS) return;
    if (here.reduction_count && !weft_traced) reductions_fork();
    if (now.off) return;
    weft_task.base = tick();
}

void weft_check_task_begin(int construct, int64_t task) {
    if (now.off && here.what == TASKS) reductions_iteration();
    if (now.off || here.what != TASKS) return;
    if (weft_task.in_task) weft_check_task_end(construct); /* `continue` left it */
    ran(construct);
    existing(construct, weft_task.tasks, task);
    weft_task.begun = tick();
    weft_task.in_task = true;
    weft_task.task = task;
    here.started = true;
    here.frame = (uintptr_t)__builtin_frame_address(0);
    now.base = weft_task.base;
    look();
}

void weft_check_task_end(int construct) {
    (void)construct;
    if (now.off || here.what != TASKS || !weft_task.in_task) return;
    weft_task.in_task = false;
    here.started = false;
    tick();
    look();
}

void weft_check_task_region_end(int construct) {
    (void)construct;
    if (here.what == TASKS && here.reduction_count) reductions_end(); /* the children do not come back */
    if (now.off || here.what != TASKS) return;
    construct_undefine();
    for (int i = 0; i < here.reduction_count; i++) mark(here.reductions[i].low, here.reductions[i].high, now.cur);
    here.what = SEQUENTIAL;
    here.started = false;
    here.remote_count = 0;
    weft_task = (struct task_state){0};
    tick();
    look();
}
