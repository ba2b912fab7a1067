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

/* Decide whether accesses in sequential code have to be checked now, and have all places in the code judged again.
 * Called when a region, task or option changes that. */
static void update_sequential_checking(void) {
    now.looked = weft_construct.started || weft_construct.what == OWNED || weft_on_host || weft_sequential_checked ||
                 weft_in_region || weft_task.in_task;
    forget_sites();
}

/* --- shadow edges --- */

/* Set the widths of shadow edges: low[] and high[] of each dimension, or as declared for the array where `low` is
 * NULL. */
static void set_widths(const struct object *object, struct widths *widths, int dimension_count, const int64_t low[],
                       const int64_t high[]) {
    *widths = object->shadow;
    for (int d = 0; low && d < dimension_count && d < WEFT_MAX_RANK; d++) {
        widths->low[d] = low[d];
        widths->high[d] = high[d];
    }
}

/* Handle DVM's SHADOW_RENEW: an array's shadow edges are fresh from now on, low[] and high[] wide (NULL: as declared).
 * `corner`: with the corners. */
void weft_check_shadow_renew(int construct_id, int variable_id, const void *base, int dimension_count,
                             const int64_t low[], const int64_t high[], int corner) {
    if (now.off) return;
    struct object *object = find_object(variable_id, base);
    if (!object || !object->distributed) {
        stop_for_usage_error("undistributed", construct_id, variable_id);
        return;
    }
    advance_time();
    if (weft_construct.what == SEQUENTIAL) /* else it is the loop's clause */
        count_run(construct_id);
    set_widths(object, &object->renewed, dimension_count, low, high);
    object->corner = corner;
    object->renewed_at = now.cur;
    object->begun_at = 0;
    turns_renewed(object);
    if (!low) /* as declared: named edges, too */
        renew_named_edges(object, 0);
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

/* Put an array into a shadow group, with the widths of the edges (low NULL: as declared) that the group renews. */
void weft_check_shadow_group(int construct_id, int group_id, int variable_id, const void *base, int dimension_count,
                             const int64_t low[], const int64_t high[], int corner) {
    if (now.off) return;
    struct object *object = find_object(variable_id, base);
    if (!object || !object->distributed) {
        stop_for_usage_error("undistributed", construct_id, variable_id);
        return;
    }
    count_run(construct_id);
    int i = 0;
    while (i < member_count && (members[i].group != group_id || members[i].object != object)) i++;
    GROW(members, (size_t)i, member_room, 32);
    if (i == member_count) member_count++;
    members[i] = (struct member){group_id, corner, object, variable_id, {{0}, {0}}};
    set_widths(object, &members[i].widths, dimension_count, low, high);
}

/* Handle DVM's SHADOW_START: the asynchronous renewal of a group's edges begins. Reports an empty group, or one that
 * has been started already. */
void weft_check_shadow_start(int construct_id, int group_id) {
    if (now.off) return;
    bool any = false;
    advance_time();
    if (weft_construct.what != LOOP) count_run(construct_id);
    for (int i = 0; i < member_count; i++)
        if (members[i].group == group_id) {
            if (members[i].object->begun_at && !any) report_misplaced_directive("shadow-twice", construct_id, group_id);
            members[i].object->begun_at = now.cur;
            any = true;
        }
    if (!any) report_misplaced_directive("shadow-start", construct_id, group_id);
    forget_sites();
}

/* Handle DVM's SHADOW_WAIT: the group's edges are as fresh as when their renewal began. Reports a group that was not
 * started. */
void weft_check_shadow_wait(int construct_id, int group_id) {
    if (now.off) return;
    bool any = false;
    advance_time();
    if (weft_construct.what != LOOP) count_run(construct_id);
    for (int i = 0; i < member_count; i++) {
        struct object *object = members[i].object;
        if (members[i].group != group_id || !object->begun_at) continue;
        any = true;
        object->renewed = members[i].widths;
        object->corner = members[i].corner;
        object->renewed_at = object->begun_at;
        object->begun_at = 0;
        turns_renewed(object);
        renew_named_edges(object, 0);
    }
    if (!any) report_misplaced_directive("shadow-wait", construct_id, group_id);
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

/* Return what is known of a group of remote accesses; NULL if no loop has used it. */
static struct remote_group *find_remote_group(int group_id) {
    for (int i = 0; i < group_count; i++)
        if (groups[i].group == group_id) return &groups[i];
    return NULL;
}

/* Add remote elements to the running construct: axis, coefficient and offset for each of the array's `dimension_count`
 * dimensions. `filled`: stamp of when their buffer was filled. */
static void add_remote_access(int variable_id, const void *base, int dimension_count, const int axis[],
                              const int64_t coefficient[], const int64_t offset[], stamp_t filled) {
    struct object *object = find_object(variable_id, base);
    if (!object || weft_construct.remote_count == (int)(sizeof weft_construct.remotes / sizeof *weft_construct.remotes))
        return;
    weft_construct.remotes[weft_construct.remote_count].object = object;
    weft_construct.remotes[weft_construct.remote_count].rank = dimension_count;
    weft_construct.remotes[weft_construct.remote_count].filled = filled;
    for (int d = 0; d < dimension_count && d < WEFT_MAX_RANK; d++)
        weft_construct.remotes[weft_construct.remote_count].terms[d] =
            (struct term){axis[d], coefficient[d], offset[d]};
    weft_construct.remote_count++;
}

/* Handle DVM's REMOTE_ACCESS at a loop: these remote elements are loaded when the loop begins. */
void weft_check_loop_remote(int variable_id, const void *base, int dimension_count, const int axis[],
                            const int64_t coefficient[], const int64_t offset[]) {
    if (!now.off && weft_construct.what != SEQUENTIAL && !weft_construct.started)
        add_remote_access(variable_id, base, dimension_count, axis, coefficient, offset, SPLIT - 1);
}

/* Handle DVM's REMOTE_ACCESS(group: ...) at a loop. The first use of a group loads its elements; a later prefetch
 * loads them where it stands. Until a loop uses them the group is being loaded: DVM ends a program that prefetches
 * it again. */
void weft_check_loop_remote_group(int group_id, int variable_id, const void *base, int dimension_count,
                                  const int axis[], const int64_t coefficient[], const int64_t offset[]) {
    if (now.off || weft_construct.what == SEQUENTIAL || weft_construct.started) return;
    struct remote_group *group = find_remote_group(group_id);
    if (!group) {
        GROW(groups, (size_t)group_count, group_room, 32);
        group = &groups[group_count++];
        *group = (struct remote_group){group_id, false, 0};
    }
    group->loading = false;
    add_remote_access(variable_id, base, dimension_count, axis, coefficient, offset,
                      group->filled ? group->filled : SPLIT - 1);
}

/* Handle DVM's PREFETCH: a group's remote elements are as of now. Reports a group that is being loaded already. */
void weft_check_remote_prefetch(int construct_id, int group_id) {
    struct remote_group *group = find_remote_group(group_id);
    count_run(construct_id);
    if (now.off || !group) return;
    if (group->loading) report_misplaced_directive("remote-prefetch", construct_id, group_id);
    group->loading = true;
    group->filled = advance_time();
}

/* Handle DVM's RESET: forget a group of remote accesses. */
void weft_check_remote_reset(int construct_id, int group_id) {
    count_run(construct_id);
    struct remote_group *group = find_remote_group(group_id);
    if (group) *group = groups[--group_count];
}

/* A statement with its REMOTE_ACCESS directive is a construct without iterations. */
static int outside_remotes;

/* Begin a statement with a REMOTE_ACCESS directive; its arrays follow. */
void weft_check_remote_begin(int construct_id) {
    if (now.off || weft_construct.started || weft_construct.what == LOOP) return;
    advance_time();
    count_run(construct_id);
    if (weft_construct.what == SEQUENTIAL) weft_construct.id = construct_id;
    outside_remotes = weft_construct.remote_count;
    if (weft_construct.what == SEQUENTIAL) weft_construct.remote_count = 0;
}

/* Add an array's remote elements to the REMOTE_ACCESS directive of a statement; they are as of now. */
void weft_check_remote(int variable_id, const void *base, int dimension_count, const int axis[],
                       const int64_t coefficient[], const int64_t offset[]) {
    if (now.off || weft_construct.started || weft_construct.what == LOOP) return;
    add_remote_access(variable_id, base, dimension_count, axis, coefficient, offset, now.cur);
    forget_sites();
}

/* End a statement with a REMOTE_ACCESS directive: the elements that it names may no longer be read. */
void weft_check_remote_end(int construct_id) {
    (void)construct_id;
    if (now.off || weft_construct.started || weft_construct.what == LOOP) return;
    weft_construct.remote_count = weft_construct.what == SEQUENTIAL ? 0 : outside_remotes;
    forget_sites();
}

/* --- sequential parts --- */

/* Switch the check of distributed elements in sequential code on or off. */
void weft_check_sequential(int on) {
    if (now.off) return;
    weft_sequential_checked = on;
    update_sequential_checking();
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

/* Return whether a region on the device ran at a time stamp. */
bool is_written_by_region(stamp_t stamp) {
    if (weft_in_region && stamp >= begun) return true;
    size_t low = 0, high = past_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (past[middle].ended < stamp) low = middle + 1;
        else high = middle;
    }
    return low < past_count && past[low].begun <= stamp;
}

void weft_check_region_begin(int construct_id) {
    count_run(construct_id);
    if (!now.off && !weft_construct.started && !weft_in_region) named_count = 0;
}

/* Return the object that a region's clause means. A stack object with another name or size may be left over from an
 * inlined block: the variable is registered anew then. */
static struct object *find_or_register_region_variable(int variable_id, const void *base, size_t bytes) {
    struct object *object = find_object(variable_id, base);
    bool whole = object && object->low == (uintptr_t)base && object->high - object->low == bytes;
    bool named = object && (object->data == variable_id || object->first_data == variable_id);
    if (!base || !bytes || (object && (!object->on_stack || object->array || (whole && named)))) return object;
    weft_check_data(variable_id, base, bytes);
    return find_object(variable_id, base);
}

/* Note that a block's variable comes to life at this address: no device has a copy of it. */
void weft_check_begin_variable(const void *base) {
    struct object *object = now.off ? NULL : find_object_at((uintptr_t)base);
    if (!object || object->low != (uintptr_t)base) return;
    object->on_device = object->actual_at = object->got_at = object->host_wrote = object->device_wrote =
        object->local_from = object->local_to = 0;
}

/* Handle a data clause of a region: a variable's direction (WEFT_IN, WEFT_OUT, WEFT_LOCAL). A section counts as the
 * whole, passed both ways. */
void weft_check_region_data(int variable_id, const void *base, size_t bytes, int direction, int dimension_count,
                            const int64_t low[], const int64_t high[]) {
    (void)low, (void)high;
    if (now.off || weft_construct.started || weft_in_region) return;
    struct object *object = find_or_register_region_variable(variable_id, base, bytes);
    if (!object || named_count == MAX_CLAUSES) return;
    /* A section says nothing of the rest: the whole is taken as passed both ways. */
    object->direction = dimension_count > 0 && direction != WEFT_IN ? WEFT_INOUT : object->direction | direction;
    named[named_count++] = object;
}

/* Begin code that runs on the device: sequential code is checked against the device's copies. */
static void enter_region(void) {
    begun = advance_time();
    weft_in_region = true;
    update_sequential_checking();
}

/* End code that runs on the device and keep from when to when it ran. */
static void leave_region(void) {
    GROW(past, past_count, past_room, 64);
    past[past_count].begun = begun;
    past[past_count++].ended = now.cur;
    weft_in_region = false;
    weft_on_host = true;
    advance_time();
    update_sequential_checking();
}

/* Start a region's body on the device, after its clauses. A region within an iteration or another region is plain
 * code. */
void weft_check_region_start(void) {
    if (now.off || weft_in_region || weft_construct.started) {
        inner_regions++;
        return;
    }
    enter_region();
    for (int i = 0; i < named_count; i++) {
        if (named[i]->direction & WEFT_IN && !named[i]->on_device) named[i]->on_device = begun;
        if (!(named[i]->direction & WEFT_LOCAL) || named[i]->direction & WEFT_INOUT) named[i]->local_to = 0;
    }
}

/* End a region: its local variables have no values on the host, and its clauses are forgotten. */
void weft_check_region_end(int construct_id) {
    (void)construct_id;
    if (now.off || !weft_in_region || inner_regions > 0) {
        inner_regions -= inner_regions > 0;
        return;
    }
    for (int i = 0; i < named_count; i++) {
        struct object *object = named[i];
        if (object->direction == WEFT_LOCAL) {
            object->local_from = begun;
            object->local_to = now.cur;
        }
        object->direction = 0;
    }
    named_count = 0;
    leave_region();
}

void weft_check_host_section_begin(int construct_id) {
    count_run(construct_id);
    if (!now.off && weft_in_region && on_host++ == 0) leave_region();
}

void weft_check_host_section_end(int construct_id) {
    (void)construct_id;
    if (!now.off && on_host > 0 && --on_host == 0) enter_region();
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

/* Return the stamp of when an element was last declared ACTUAL, or fetched by GET_ACTUAL, as a whole or in a
 * section. */
stamp_t find_last_update_of_element(const struct object *object, uintptr_t address, bool is_get_actual) {
    stamp_t known = is_get_actual ? object->got_at : object->actual_at;
    int64_t at[WEFT_MAX_RANK];
    compute_element_index(object, address, at);
    unsigned n = section_count < 1024 ? section_count : 1024;
    for (unsigned i = 0; i < n; i++) {
        const struct section *section = &sections[i];
        if (section->object != object || section->got != is_get_actual || section->at <= known) continue;
        bool inside = true;
        for (int d = 0; inside && d < section->rank && d < object->rank; d++)
            inside = section->low[d] <= at[d] && at[d] <= section->high[d];
        if (inside) known = section->at;
    }
    return known;
}

/* Return whether a section low[]..high[] contains the whole array. */
static bool is_whole_section(const struct object *object, int dimension_count, const int64_t low[],
                             const int64_t high[]) {
    for (int d = 0; d < dimension_count && d < object->rank; d++)
        if (low[d] > object->lower[d] || high[d] < object->lower[d] + object->extent[d] - 1) return false;
    return true;
}

/* Note that a variable, or a section of an array, is ACTUAL or was fetched by GET_ACTUAL now; `base` NULL: all
 * variables. */
static void note_actual_or_fetched(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                   const int64_t high[], bool is_get_actual) {
    struct object *object = NULL;
    if (base) {
        object = find_object(variable_id, base);
        if (!object) return;
        if (!object->array || dimension_count < 1 || !low || !high ||
            is_whole_section(object, dimension_count, low, high)) {
            *(is_get_actual ? &object->got_at : &object->actual_at) = now.cur;
            return;
        }
        struct section *section = &sections[section_count++ % 1024];
        *section = (struct section){.object = object, .at = now.cur, .got = is_get_actual, .rank = dimension_count};
        memcpy(section->low, low, sizeof *low * (size_t)dimension_count);
        memcpy(section->high, high, sizeof *high * (size_t)dimension_count);
        return;
    }
    for (uintptr_t address = 0; (object = find_object_from(address)); address = object->high)
        *(is_get_actual ? &object->got_at : &object->actual_at) = now.cur;
}

/* Handle DVM's ACTUAL or GET_ACTUAL for a variable or section: advance time, note it, and judge all places again. */
static void handle_actual_or_get_actual(int variable_id, const void *base, int dimension_count, const int64_t low[],
                                        const int64_t high[], bool is_get_actual) {
    if (now.off) return;
    advance_time();
    note_actual_or_fetched(variable_id, base, dimension_count, low, high, is_get_actual);
    forget_sites();
}

/* Handle DVM's ACTUAL: the host's copy of a variable or section is the newest one (base NULL: of everything). */
void weft_check_actual(int construct_id, int variable_id, const void *base, size_t bytes, int dimension_count,
                       const int64_t low[], const int64_t high[]) {
    (void)bytes;
    count_run(construct_id);
    handle_actual_or_get_actual(variable_id, base, dimension_count, low, high, false);
}

/* Handle DVM's GET_ACTUAL: the host gets the device's copy of a variable or section (base NULL: of everything). */
void weft_check_get_actual(int construct_id, int variable_id, const void *base, size_t bytes, int dimension_count,
                           const int64_t low[], const int64_t high[]) {
    (void)bytes;
    count_run(construct_id);
    handle_actual_or_get_actual(variable_id, base, dimension_count, low, high, true);
}

/* --- tasks --- */

/* The task arrays of the program: how many tasks each has. */
#define MAX_TASK_ARRAYS 64
static struct {
    int tasks;
    int64_t lower, count;
} task_arrays[MAX_TASK_ARRAYS];
static int task_array_count;

/* Register a task array and the numbers of its tasks; `count` below 1: not known. */
void weft_check_task_array(int task_array_id, int64_t lower, int64_t count) {
    int i = 0;
    while (i < task_array_count && task_arrays[i].tasks != task_array_id) i++;
    if (i == MAX_TASK_ARRAYS || count < 1) return; /* nothing is known of their tasks */
    if (i == task_array_count) task_array_count++;
    task_arrays[i].tasks = task_array_id;
    task_arrays[i].lower = lower;
    task_arrays[i].count = count;
}

/* Report a directive that names a task outside its task array. */
static void check_task_number(int construct_id, int task_array_id, int64_t task) {
    for (int i = 0; i < task_array_count; i++) {
        int64_t low = task_arrays[i].lower, high = low + task_arrays[i].count - 1;
        if (task_arrays[i].tasks == task_array_id && (task < low || task > high))
            report_directive_parameter("task", construct_id, task_array_id, 0, task, low, high);
    }
}

/* Handle DVM's MAP: check that the task exists. On which processors it runs (low, high) does not matter here. */
void weft_check_task_map(int construct_id, int task_array_id, int64_t task, int64_t low, int64_t high) {
    if (now.off) return;
    count_run(construct_id);
    check_task_number(construct_id, task_array_id, task);
    (void)low, (void)high;
}

/* Begin a TASK_REGION and forget earlier clauses; its own clauses follow. */
void weft_check_task_region_begin(int construct_id, int task_array_id) {
    if (now.off || weft_construct.what != SEQUENTIAL) return;
    count_run(construct_id);
    weft_task = (struct task_state){.tasks = task_array_id, .construct = construct_id};
    weft_construct.what = TASKS;
    weft_construct.id = construct_id;
    weft_construct.rank = 0;
    weft_construct.flags = 0;
    weft_construct.on = NULL;
    weft_construct.started = false;
    weft_construct.private_count = weft_construct.index_count = weft_construct.reduction_count =
        weft_construct.aspect_count = weft_construct.across_count = 0;
    weft_construct.computed_count = weft_construct.remote_count = weft_construct.written_count = weft_construct.group =
        weft_construct.tie_count = 0;
    weft_construct.consistent_count = 0;
}

/* Start the tasks of a TASK_REGION after its clauses, and fork the verification of its reductions. */
void weft_check_task_region_start(void) {
    if (now.off || weft_construct.what != TASKS) return;
    if (weft_construct.reduction_count && !weft_traced) fork_reduction_verifications();
    if (now.off) return;
    weft_task.base = advance_time();
}

/* Begin one task (ON MPT(task)) of a TASK_REGION: accesses are judged against those of other tasks. Also ends a task
 * that `continue` left. */
void weft_check_task_begin(int construct_id, int64_t task) {
    if (now.off && weft_construct.what == TASKS) begin_verified_iteration();
    if (now.off || weft_construct.what != TASKS) return;
    if (weft_task.in_task) weft_check_task_end(construct_id); /* `continue` left it */
    count_run(construct_id);
    check_task_number(construct_id, weft_task.tasks, task);
    weft_task.begun = advance_time();
    weft_task.in_task = true;
    weft_task.task = task;
    weft_construct.started = true;
    weft_construct.frame = (uintptr_t)__builtin_frame_address(0);
    now.base = weft_task.base;
    update_sequential_checking();
}

/* End the running task of a TASK_REGION. */
void weft_check_task_end(int construct_id) {
    (void)construct_id;
    if (now.off || weft_construct.what != TASKS || !weft_task.in_task) return;
    weft_task.in_task = false;
    weft_construct.started = false;
    advance_time();
    update_sequential_checking();
}

/* End a TASK_REGION: compare its reductions, and leave what tasks wrote without declaring it without values. */
void weft_check_task_region_end(int construct_id) {
    (void)construct_id;
    if (weft_construct.what == TASKS && weft_construct.reduction_count)
        finish_reduction_verifications(); /* the children do not come back */
    if (now.off || weft_construct.what != TASKS) return;
    undefine_variables_written_by_construct();
    for (int i = 0; i < weft_construct.reduction_count; i++)
        set_cell_states(weft_construct.reductions[i].low, weft_construct.reductions[i].high, now.cur);
    weft_construct.what = SEQUENTIAL;
    weft_construct.started = false;
    weft_construct.remote_count = 0;
    weft_task = (struct task_state){0};
    advance_time();
    update_sequential_checking();
}
