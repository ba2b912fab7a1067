/* Asynchronous copies between arrays (ASYNCHRONOUS ... END ASYNCHRONOUS, ASYNCWAIT): until the wait nobody may use what
 * they write, nor change what they read. */
#include "growing.h"
#include "under_way.h"

#include "access.h"
#include "findings.h"
#include "loops.h"
#include "objects.h"
#include "ran.h"

#include <stdlib.h>
#include <string.h>

/* A part of an array that a copy reads or writes: by addresses, so it may outlive the array's name. */
static struct part {
    int group, construct;
    bool written;
    uintptr_t low, high;
    size_t element;
    int rank;
    int64_t count[WEFT_MAX_RANK], stride[WEFT_MAX_RANK]; /* bytes, positive, widest first */
} *parts;
static size_t room;
int weft_parts_under_way;

/* Return whether an asynchronous copy's part (strided in each dimension) contains an address. */
static bool is_in_copied_part(const struct part *part, uintptr_t address) {
    if (address < part->low || address >= part->high) return false;
    uintptr_t rest = address - part->low;
    for (int d = 0; d < part->rank; d++) {
        int64_t k = part->stride[d] ? (int64_t)rest / part->stride[d] : 0;
        k = k < part->count[d] ? k : part->count[d] - 1;
        rest -= (uintptr_t)(k * part->stride[d]);
    }
    return rest < part->element;
}

/* Return whether an asynchronous copy that has not completed touches [low, high), so that accesses there have to be
 * judged one by one. */
bool is_copy_pending_in(uintptr_t low, uintptr_t high) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (low < parts[i].high && parts[i].low < high) return true;
    return false;
}

/* Return why an access is wrong while a copy has not completed ("source", "written" or "read"); NULL if it is right. */
const char *find_pending_copy_fault(uintptr_t address, bool is_write) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if ((is_write || parts[i].written) && is_in_copied_part(&parts[i], address))
            return !parts[i].written ? "source" : is_write ? "written" : "read";
    return NULL;
}

/* Forget copies in [low, high), since other data lies there now. */
void forget_pending_copies_in(uintptr_t low, uintptr_t high) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (low < parts[i].high && parts[i].low < high) parts[i].low = parts[i].high = 0;
}

/* Return whether a group of asynchronous copies has been started and not been waited for. */
static bool is_group_pending(int group_id) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (parts[i].group == group_id) return true;
    return false;
}

/* Return the next free entry for a part of a pending copy; it counts only when weft_parts_under_way is raised. */
static struct part *allocate_part(void) {
    GROW(parts, (size_t)weft_parts_under_way, room, 16);
    return &parts[weft_parts_under_way];
}

/* Handle DVM's ASYNCHRONOUS: copies of a group begin. Reports a group that has not been waited for. */
void weft_check_copy_start(int construct_id, int group_id) {
    if (now.off) return;
    advance_time();
    count_run(construct_id);
    if (is_group_pending(group_id)) report_misplaced_directive("copy-twice", construct_id, group_id);
    *allocate_part() =
        (struct part){.group = group_id, .construct = construct_id}; /* it waits for something, be it of no size */
    weft_parts_under_way++;
}

/* Add what a copy of the group reads or writes (`written`): count[d] elements, stride[d] bytes apart, in each
 * dimension. */
void weft_check_copy_part(int construct_id, int group_id, int written, const void *base, size_t element,
                          int dimension_count, const int64_t count[], const int64_t stride[]) {
    if (now.off || !base || dimension_count > WEFT_MAX_RANK) return;
    struct part *part = allocate_part();
    *part = (struct part){.group = group_id,
                          .construct = construct_id,
                          .written = written,
                          .low = (uintptr_t)base,
                          .element = element,
                          .rank = dimension_count};
    uintptr_t across = element;
    for (int d = 0; d < dimension_count; d++) {
        if (count[d] < 1) return; /* nothing is copied */
        int64_t width = stride[d] < 0 ? -stride[d] : stride[d];
        if (stride[d] < 0) part->low -= (uintptr_t)(width * (count[d] - 1));
        across += (uintptr_t)(width * (count[d] - 1));
        int at = d;
        for (; at > 0 && part->stride[at - 1] < width; at--) {
            part->stride[at] = part->stride[at - 1];
            part->count[at] = part->count[at - 1];
        }
        part->stride[at] = width;
        part->count[at] = count[d];
    }
    part->high = part->low + across;
    weft_parts_under_way++;
    forget_sites();
}

/* Handle DVM's ASYNCWAIT: the copies of a group have completed. Reports a group that was not started. */
void weft_check_copy_wait(int construct_id, int group_id) {
    if (now.off) return;
    advance_time();
    count_run(construct_id);
    if (!is_group_pending(group_id)) report_misplaced_directive("copy-wait", construct_id, group_id);
    int kept = 0;
    for (int i = 0; i < weft_parts_under_way; i++)
        if (parts[i].group != group_id) parts[kept++] = parts[i];
    weft_parts_under_way = kept;
    forget_sites();
}

/* At the program's end: report copies that were never waited for. */
void report_unfinished_copies(void) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (i == 0 || parts[i].construct != parts[i - 1].construct)
            report_misplaced_directive("copy-unwaited", parts[i].construct, parts[i].group);
}
