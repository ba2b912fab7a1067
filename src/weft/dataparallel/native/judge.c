/* Accesses that the hooks could not pass: whether they are right, by what sites.c says of their place. */
#include "judge.h"

#include "access.h"
#include "cells.h"
#include "copies.h"
#include "findings.h"
#include "loops.h"
#include "objects.h"
#include "regions.h"
#include "sites.h"
#include "under_way.h"

#include <string.h>

/* Return a description of an access for a finding; its kind and reason are still open. */
static struct detail describe_access(const struct site *site, uintptr_t address, size_t size, bool is_write,
                                     uintptr_t pc) {
    return (struct detail){.object = site->object,
                           .address = address,
                           .size = size,
                           .write = is_write,
                           .place = pc,
                           .data = site->object ? site->object->data : 0};
}

static struct {
    uintptr_t a;
    size_t size;
    bool told; /* an access is one finding, however many cells it covers */
    uint64_t *count; /* of that finding */
} access;

/* Report the access that is being judged, unless another of its cells was reported already. Keeps the finding's
 * counter. */
static void report_current_access(struct detail detail, const char *kind, const char *why) {
    if (access.told) return;
    access.told = true;
    detail.kind = kind;
    detail.why = why;
    detail.address = access.a;
    detail.size = access.size;
    access.count = report_finding(&detail);
}

/* Return whether memory still holds the pattern for uninitialised memory, or, in a distributed array that is not on the
 * stack, only zeros. */
static bool has_uninitialised_pattern(uintptr_t address, size_t size, const struct object *object) {
    unsigned char poisoned = 0, zeros = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = *(const volatile unsigned char *)(address + i);
        poisoned += byte == POISON;
        zeros += byte == 0;
    }
    return poisoned == size || (zeros == size && object && object->distributed && !object->on_stack);
}

/* Judge a read of memory that has no value as far as its cell says. If the memory no longer holds the pattern, code
 * without hooks wrote it: it has a value then. Else report the read. */
static void judge_read_without_value(struct cell *cell, struct detail detail) {
    struct private *which = NULL;
    bool private = weft_construct.started &&
                   find_variable_at(weft_construct.privates, weft_construct.private_count, detail.address, &which);
    if (cell->written == UNDEFINED && has_value_from_this_processor(detail.object, detail.address)) return;
    if (cell->written != UNDEFINED && !has_uninitialised_pattern(detail.address, detail.size, detail.object)) {
        cell->written = private ? now.cur : 0; /* code without hooks wrote it */
        if (private) which->unseen = true;
        return;
    }
    const char *gone = cell->written == UNDEFINED ? "after" : cell->written == WAS_PRIVATE ? "was-private" : NULL;
    report_current_access(detail, "uninitialised-read", private ? "private" : gone);
}

/* Report an access of the copy on the host or device (REGION, ACTUAL, GET_ACTUAL) while the other copy is newer.
 * `written_stamp`: when the element was last written. */
static void judge_copy_freshness(struct site *site, stamp_t written_stamp, struct detail detail) {
    const struct object *object = site->object;
    if (!object || written_stamp == now.cur || written_stamp >= SPLIT) return;
    if (weft_in_region) {
        stamp_t known = find_last_update_of_element(object, detail.address, false);
        known = known > object->on_device ? known : object->on_device;
        stamp_t begun = region_start();
        if (detail.write) {
            if (object->direction == WEFT_IN) report_current_access(detail, "stale-copy", "in-written");
        } else if (written_stamp < begun && (object->direction == WEFT_OUT || object->direction == WEFT_LOCAL)) {
            report_current_access(detail, "uninitialised-read",
                                  object->direction == WEFT_OUT ? "region-out" : "region-local");
        } else if (written_stamp < begun && object->local_to && written_stamp >= object->local_from &&
                   written_stamp <= object->local_to) {
            report_current_access(detail, "uninitialised-read", "was-local");
        } else if (written_stamp < begun && written_stamp > known && !is_written_by_region(written_stamp)) {
            report_current_access(detail, "stale-copy", "actual");
        } else if (written_stamp < begun && object->actual_at > written_stamp && is_written_by_region(written_stamp) &&
                   find_last_update_of_element(object, detail.address, true) < written_stamp) {
            report_current_access(detail, "stale-copy",
                                  "overwritten"); /* by a copy of the host's that was old itself */
        }
    } else if (!detail.write && object->on_device && is_written_by_region(written_stamp)) {
        if (object->local_to && written_stamp >= object->local_from && written_stamp <= object->local_to)
            report_current_access(detail, "uninitialised-read", "was-local");
        else if (written_stamp > find_last_update_of_element(object, detail.address, true))
            report_current_access(detail, "stale-copy", "get_actual");
    }
}

/* When a loop starts: judge the read of each reduction variable's first value, which must exist and, in a region, be
 * fresh on the host. */
void judge_reduction_starts(void) {
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        uintptr_t address = weft_construct.reductions[i].low;
        struct object *object = find_object_at(address);
        struct site site = {.object = object, .closed = true};
        struct cell *cell = cell8(address);
        size_t size = weft_construct.reductions[i].high - address < 4 ? weft_construct.reductions[i].high - address : 4;
        if (cell->written == SPLIT) cell = cell4(address);
        if (cell->written == SPLIT) cell = cell1(address);
        struct detail detail = describe_access(&site, address, size, false, 0);
        detail.data = weft_construct.reductions[i].data;
        access.a = address;
        access.size = size;
        access.told = false;
        if (cell->written >= NO_VALUE) {
            judge_read_without_value(cell, detail);
        } else if (object && weft_in_region) {
            if (!object->on_device) object->on_device = region_start();
            judge_copy_freshness(&site, cell->written, detail);
        }
    }
}

/* Return whether another iteration of the running construct wrote at this time. */
static bool is_written_by_other_iteration(stamp_t written_stamp) {
    bool same_task = weft_task.in_task && weft_construct.what != LOOP && written_stamp >= weft_task.begun;
    return written_stamp > now.base && written_stamp != now.cur && written_stamp < SPLIT && !same_task;
}

static bool other_task(stamp_t w) {
    return weft_task.in_task && w > weft_task.base && w < weft_task.begun && w < SPLIT;
}

static bool is_scalar(const struct object *object) {
    return object && !object->array && object->high - object->low <= 16;
}

/* Judge a read of one cell by the mode of its site (what one place in the code may access): report a race with another
 * iteration or task, or a stale value; else note the read. */
static void judge_read_of_cell(struct site *site, struct cell *cell, struct detail detail) {
    stamp_t written_stamp = cell->written;
    detail.other = written_stamp;
    struct private *which;
    if (other_task(written_stamp)) {
        report_current_access(detail, site->mode == REPLICATED ? "shared-write" : "loop-dependence", "task");
        return;
    }
    switch ((enum mode)site->mode) {
    case PRIVATE:
        if (written_stamp == now.cur ||
            (find_variable_at(weft_construct.privates, weft_construct.private_count, detail.address, &which) &&
             which->unseen))
            return;
        report_current_access(detail, "uninitialised-read", "private");
        return;
    case REPLICATED:
        if (is_written_by_other_iteration(written_stamp))
            report_current_access(detail, "uninitialised-read", "iteration");
        else if (written_stamp != now.cur && cell->read <= now.base) cell->read = now.cur;
        return;
    case SHARED:
        if (is_written_by_other_iteration(written_stamp))
            report_current_access(detail, is_scalar(site->object) ? "shared-write" : "loop-dependence", "flow");
        else if (written_stamp != now.cur && cell->read <= now.base) cell->read = now.cur;
        return;
    case OWN:
    case REMOTE:
    case EDGE:
        if (is_written_by_other_iteration(written_stamp)) report_current_access(detail, "loop-dependence", "flow");
        else if (site->mode == EDGE && written_stamp > site->fresh && written_stamp != now.cur)
            report_current_access(detail, "stale-halo-read", "changed");
        else if (site->mode == REMOTE && written_stamp > site->fresh && written_stamp != now.cur)
            report_current_access(detail, "remote-access", "changed");
        return;
    default: return;
    }
}

/* Judge a write of one cell by the mode of its site (what one place in the code may access): report a race with another
 * iteration or task; then stamp the cell. */
static void judge_write_of_cell(struct site *site, struct cell *cell, struct detail detail) {
    stamp_t written_stamp = cell->written;
    bool strict = weft_in_region || weft_construct.flags & WEFT_STRICT;
    bool scalar = is_scalar(site->object);
    detail.other = written_stamp;
    bool read_by_other = weft_task.in_task && cell->read > weft_task.base && cell->read < weft_task.begun;
    /* A replicated variable that each task writes first is each task's own. */
    if (read_by_other || (other_task(written_stamp) && site->mode != REPLICATED)) {
        if (!other_task(written_stamp)) detail.other = cell->read;
        report_current_access(detail, site->mode == REPLICATED ? "shared-write" : "loop-dependence", "task");
    } else if (site->mode == REPLICATED && written_stamp != now.cur && written_stamp != LOCAL) {
        if (strict) report_current_access(detail, "shared-write", "undeclared");
        else if (cell->read > now.base &&
                 !(weft_task.in_task && weft_construct.what != LOOP && cell->read >= weft_task.begun)) {
            detail.other = cell->read;
            report_current_access(detail, "shared-write", "read-first");
        }
        if (site->object) {
            int i = 0;
            while (i < weft_construct.written_count && weft_construct.written[i] != site->object) i++;
            if (i == weft_construct.written_count && i < MAX_CLAUSES)
                weft_construct.written[weft_construct.written_count++] = site->object;
        }
    } else if (site->mode == SHARED && is_written_by_other_iteration(written_stamp)) {
        report_current_access(detail, scalar ? "shared-write" : "loop-dependence", "output");
    } else if (site->mode == SHARED && cell->read > now.base && cell->read != now.cur) {
        detail.other = cell->read;
        report_current_access(detail, scalar ? "shared-write" : "loop-dependence", "anti");
    } else if (site->mode == OWN && is_written_by_other_iteration(written_stamp) && !save_earlier_copy_value(&detail)) {
        report_current_access(detail, "loop-dependence", "output");
    }
    cell->written = now.cur;
}

/* From here on only count accesses of the site's place that have the same fault as the one just reported. */
static void start_counting_faults(struct site *site) {
    uint64_t *count = site->known ? access.count : NULL;
    if (count && !site->wrong) site->changed = ++weft_sites_changed;
    site->wrong = count;
}

/* Judge an access of one cell: use of an unfinished copy or reduction, heap red zones, missing values, then stale
 * copies and races. `site_verdict`: the fault that every access of the site (what one place in the code may access)
 * has, if its kind is set. */
static void judge_cell(struct site *site, struct cell *cell, struct detail detail, const struct detail *site_verdict) {
    stamp_t written_stamp = cell->written;
    const char *early = weft_parts_under_way ? find_pending_copy_fault(detail.address, detail.write) : NULL;
    if (early) {
        report_current_access(detail, "early-copy-use", early);
        return;
    }
    if (written_stamp == REDZONE) {
        report_current_access(detail, "out-of-bounds", "heap");
        return;
    }
    if (written_stamp == GUARDED) {
        report_current_access(detail, "early-reduction-use", detail.write ? "written" : "read");
        return;
    }
    if (site->mode == FREE) {
        if (detail.write && written_stamp != SPLIT) cell->written = now.cur;
        else if (written_stamp == LOCAL) /* declared in this iteration, and not set since */
            judge_read_without_value(cell, detail);
        return;
    }
    if (site->mode == BAD && site_verdict->kind) {
        detail.other = written_stamp;
        detail.has_delta = site_verdict->has_delta;
        memcpy(detail.delta, site_verdict->delta, sizeof detail.delta);
        if (is_written_by_other_iteration(written_stamp) && weft_construct.started &&
            strcmp(site_verdict->kind, "out-of-bounds") != 0 && weft_construct.what == LOOP)
            report_current_access(detail, "loop-dependence", detail.write ? "output" : "flow");
        else if (!detail.write && written_stamp >= NO_VALUE) judge_read_without_value(cell, detail);
        else report_current_access(detail, site_verdict->kind, site_verdict->why), start_counting_faults(site);
        if (detail.write) cell->written = now.cur;
        return;
    }
    if (!detail.write && written_stamp >= NO_VALUE) {
        judge_read_without_value(cell, detail);
        return;
    }
    if (site->closed || site->since) judge_copy_freshness(site, written_stamp, detail);
    if (detail.write) judge_write_of_cell(site, cell, detail);
    else judge_read_of_cell(site, cell, detail);
}

/* Whether an access of a part of a cell may leave another state in it than in the rest. */
static bool needs_cell_of_its_own(const struct site *site, const struct cell *cell, bool is_write) {
    return is_write || (site->track && cell->read <= now.base) || cell->written >= NO_VALUE;
}

/* Judge an access that no open site (what one place in the code may access) lets pass: open its site if need be, split
 * shadow cells where it touches only part of one, and judge cell by cell. `pc`: the hook's return address, or a front
 * end's site number times 4. */
void judge_access(uintptr_t address, size_t size, bool is_write, uintptr_t pc, struct site *site) {
    update_current_index();
    struct detail verdict = {0};
    bool known = now.looked && site->key == pc && !site->closed && site->size == size &&
                 (address - *site->home - site->low <= site->reach || move_site_to_access(site, address, size));
    if (!known) open_site_for_access(site, &verdict, address, size, is_write, pc);
    struct detail detail = describe_access(site, address, size, is_write, pc);
    access.a = address;
    access.size = size;
    access.told = false;
    access.count = NULL;
    bool begun = false;
    for (size_t i = 0; i < size;) {
        struct cell *cell = cell8(address + i);
        size_t n = 8;
        bool whole = (address + i) % 8 == 0 && size - i >= 8;
        if (!whole && needs_cell_of_its_own(site, cell, is_write)) split_cell_of_8(cell, address + i);
        if (cell->written == SPLIT) {
            cell = cell4(address + i);
            n = 4;
            whole = (address + i) % 4 == 0 && size - i >= 4;
            if (!whole && needs_cell_of_its_own(site, cell, is_write)) split_cell_of_4(cell, address + i);
            if (cell->written == SPLIT) {
                cell = cell1(address + i);
                n = 1;
            }
        }
        n -= (address + i) % n;
        /* What is read at once though it was written in parts is a copy of a structure: gaps follow its members. */
        bool without = cell->written >= NO_VALUE;
        if (i == 0) begun = !without;
        if (i && begun && without && !is_write) {
            i += n;
            continue;
        }
        detail.address = address + i;
        detail.size = n < size - i ? n : size - i;
        judge_cell(site, cell, detail, &verdict);
        i += n;
    }
}
