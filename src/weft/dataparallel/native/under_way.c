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

static bool part_contains(const struct part *p, uintptr_t a) {
    if (a < p->low || a >= p->high) return false;
    uintptr_t rest = a - p->low;
    for (int d = 0; d < p->rank; d++) {
        int64_t k = p->stride[d] ? (int64_t)rest / p->stride[d] : 0;
        k = k < p->count[d] ? k : p->count[d] - 1;
        rest -= (uintptr_t)(k * p->stride[d]);
    }
    return rest < p->element;
}

/* Whether accesses between these addresses have to be judged one by one. */
bool under_way_near(uintptr_t low, uintptr_t high) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (low < parts[i].high && parts[i].low < high) return true;
    return false;
}

/* What is wrong with an access: a case of `early-copy-use`; NULL: nothing. */
const char *under_way_wrong(uintptr_t a, bool write) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if ((write || parts[i].written) && part_contains(&parts[i], a))
            return !parts[i].written ? "source" : write ? "written" : "read";
    return NULL;
}

/* Other data lies there now. */
void under_way_forget(uintptr_t low, uintptr_t high) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (low < parts[i].high && parts[i].low < high) parts[i].low = parts[i].high = 0;
}

static bool is_group_pending(int group) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (parts[i].group == group) return true;
    return false;
}

static struct part *add_part(void) {
    GROW(parts, (size_t)weft_parts_under_way, room, 16);
    return &parts[weft_parts_under_way];
}

void weft_check_copy_start(int construct, int group) {
    if (now.off) return;
    tick();
    ran(construct);
    if (is_group_pending(group)) findings_directive("copy-twice", construct, group);
    *add_part() = (struct part){.group = group, .construct = construct}; /* it waits for something, be it of no size */
    weft_parts_under_way++;
}

void weft_check_copy_part(int construct, int group, int written, const void *base, size_t element, int rank,
                          const int64_t count[], const int64_t stride[]) {
    if (now.off || !base || rank > WEFT_MAX_RANK) return;
    struct part *p = add_part();
    *p = (struct part){.group = group,
                       .construct = construct,
                       .written = written,
                       .low = (uintptr_t)base,
                       .element = element,
                       .rank = rank};
    uintptr_t across = element;
    for (int d = 0; d < rank; d++) {
        if (count[d] < 1) return; /* nothing is copied */
        int64_t width = stride[d] < 0 ? -stride[d] : stride[d];
        if (stride[d] < 0) p->low -= (uintptr_t)(width * (count[d] - 1));
        across += (uintptr_t)(width * (count[d] - 1));
        int at = d;
        for (; at > 0 && p->stride[at - 1] < width; at--) {
            p->stride[at] = p->stride[at - 1];
            p->count[at] = p->count[at - 1];
        }
        p->stride[at] = width;
        p->count[at] = count[d];
    }
    p->high = p->low + across;
    weft_parts_under_way++;
    forget_sites();
}

void weft_check_copy_wait(int construct, int group) {
    if (now.off) return;
    tick();
    ran(construct);
    if (!is_group_pending(group)) findings_directive("copy-wait", construct, group);
    int kept = 0;
    for (int i = 0; i < weft_parts_under_way; i++)
        if (parts[i].group != group) parts[kept++] = parts[i];
    weft_parts_under_way = kept;
    forget_sites();
}

/* The program has come to its end. */
void under_way_end(void) {
    for (int i = 0; i < weft_parts_under_way; i++)
        if (i == 0 || parts[i].construct != parts[i - 1].construct)
            findings_directive("copy-unwaited", parts[i].construct, parts[i].group);
}
