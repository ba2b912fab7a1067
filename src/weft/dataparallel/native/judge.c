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

static struct detail detail_of(const struct site *s, uintptr_t a, size_t size, bool write, uintptr_t place) {
    return (struct detail){.object = s->object,
                           .address = a,
                           .size = size,
                           .write = write,
                           .place = place,
                           .data = s->object ? s->object->data : 0};
}

static struct {
    uintptr_t a;
    size_t size;
    bool told; /* an access is one finding, however many cells it covers */
    uint64_t *count; /* of that finding */
} access;

static void complain(struct detail d, const char *kind, const char *why) {
    if (access.told) return;
    access.told = true;
    d.kind = kind;
    d.why = why;
    d.address = access.a;
    d.size = access.size;
    access.count = found(&d);
}

static bool holds_poison(uintptr_t a, size_t size, const struct object *o) {
    unsigned char poisoned = 0, zeros = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = *(const volatile unsigned char *)(a + i);
        poisoned += byte == POISON;
        zeros += byte == 0;
    }
    return poisoned == size || (zeros == size && o && o->distributed && !o->on_stack);
}

static void without_value(struct cell *c, struct detail d) {
    struct private *which = NULL;
    bool private = here.started && among(here.privates, here.private_count, d.address, &which);
    if (c->written == UNDEFINED && copies_own(d.object, d.address)) return;
    if (c->written != UNDEFINED && !holds_poison(d.address, d.size, d.object)) {
        c->written = private ? now.cur : 0; /* code without hooks wrote it */
        if (private) which->unseen = true;
        return;
    }
    const char *gone = c->written == UNDEFINED ? "after" : c->written == WAS_PRIVATE ? "was-private" : NULL;
    complain(d, "uninitialised-read", private ? "private" : gone);
}

static void stale_copy(struct site *s, stamp_t w, struct detail d) {
    const struct object *o = s->object;
    if (!o || w == now.cur || w >= SPLIT) return;
    if (weft_in_region) {
        stamp_t known = section_known(o, d.address, false);
        known = known > o->on_device ? known : o->on_device;
        stamp_t begun = region_start();
        if (d.write) {
            if (o->direction == WEFT_IN) complain(d, "stale-copy", "in-written");
        } else if (w < begun && (o->direction == WEFT_OUT || o->direction == WEFT_LOCAL)) {
            complain(d, "uninitialised-read", o->direction == WEFT_OUT ? "region-out" : "region-local");
        } else if (w < begun && o->local_to && w >= o->local_from && w <= o->local_to) {
            complain(d, "uninitialised-read", "was-local");
        } else if (w < begun && w > known && !from_device(w)) {
            complain(d, "stale-copy", "actual");
        } else if (w < begun && o->actual_at > w && from_device(w) && section_known(o, d.address, true) < w) {
            complain(d, "stale-copy", "overwritten"); /* by a copy of the host's that was old itself */
        }
    } else if (!d.write && o->on_device && from_device(w)) {
        if (o->local_to && w >= o->local_from && w <= o->local_to) complain(d, "uninitialised-read", "was-local");
        else if (w > section_known(o, d.address, true)) complain(d, "stale-copy", "get_actual");
    }
}

/* What a reduction begins with: a region takes it from the host, and there must be a value. */
void judge_reductions(void) {
    for (int i = 0; i < here.reduction_count; i++) {
        uintptr_t a = here.reductions[i].low;
        struct object *o = object_at(a);
        struct site s = {.object = o, .closed = true};
        struct cell *c = cell8(a);
        size_t size = here.reductions[i].high - a < 4 ? here.reductions[i].high - a : 4;
        if (c->written == SPLIT) c = cell4(a);
        if (c->written == SPLIT) c = cell1(a);
        struct detail d = detail_of(&s, a, size, false, 0);
        d.data = here.reductions[i].data;
        access.a = a;
        access.size = size;
        access.told = false;
        if (c->written >= NO_VALUE) {
            without_value(c, d);
        } else if (o && weft_in_region) {
            if (!o->on_device) o->on_device = region_start();
            stale_copy(&s, c->written, d);
        }
    }
}

static bool newer(stamp_t w) /* written by another iteration of this construct */
{
    bool same_task = weft_task.in_task && here.what != LOOP && w >= weft_task.begun;
    return w > now.base && w != now.cur && w < SPLIT && !same_task;
}

static bool other_task(stamp_t w) {
    return weft_task.in_task && w > weft_task.base && w < weft_task.begun && w < SPLIT;
}

static bool is_scalar(const struct object *o) { return o && !o->array && o->high - o->low <= 16; }

static void judge_read(struct site *s, struct cell *c, struct detail d) {
    stamp_t w = c->written;
    d.other = w;
    struct private *which;
    if (other_task(w)) {
        complain(d, s->mode == REPLICATED ? "shared-write" : "loop-dependence", "task");
        return;
    }
    switch ((enum mode)s->mode) {
    case PRIVATE:
        if (w == now.cur || (among(here.privates, here.private_count, d.address, &which) && which->unseen)) return;
        complain(d, "uninitialised-read", "private");
        return;
    case REPLICATED:
        if (newer(w)) complain(d, "uninitialised-read", "iteration");
        else if (w != now.cur && c->read <= now.base) c->read = now.cur;
        return;
    case SHARED:
        if (newer(w)) complain(d, is_scalar(s->object) ? "shared-write" : "loop-dependence", "flow");
        else if (w != now.cur && c->read <= now.base) c->read = now.cur;
        return;
    case OWN:
    case REMOTE:
    case EDGE:
        if (newer(w)) complain(d, "loop-dependence", "flow");
        else if (s->mode == EDGE && w > s->fresh && w != now.cur) complain(d, "stale-halo-read", "changed");
        else if (s->mode == REMOTE && w > s->fresh && w != now.cur) complain(d, "remote-access", "changed");
        return;
    default: return;
    }
}

static void judge_write(struct site *s, struct cell *c, struct detail d) {
    stamp_t w = c->written;
    bool strict = weft_in_region || here.flags & WEFT_STRICT;
    bool scalar = is_scalar(s->object);
    d.other = w;
    bool read_by_other = weft_task.in_task && c->read > weft_task.base && c->read < weft_task.begun;
    /* A replicated variable that each task writes first is each task's own. */
    if (read_by_other || (other_task(w) && s->mode != REPLICATED)) {
        if (!other_task(w)) d.other = c->read;
        complain(d, s->mode == REPLICATED ? "shared-write" : "loop-dependence", "task");
    } else if (s->mode == REPLICATED && w != now.cur && w != LOCAL) {
        if (strict) complain(d, "shared-write", "undeclared");
        else if (c->read > now.base && !(weft_task.in_task && here.what != LOOP && c->read >= weft_task.begun)) {
            d.other = c->read;
            complain(d, "shared-write", "read-first");
        }
        if (s->object) {
            int i = 0;
            while (i < here.written_count && here.written[i] != s->object) i++;
            if (i == here.written_count && i < MAX_CLAUSES) here.written[here.written_count++] = s->object;
        }
    } else if (s->mode == SHARED && newer(w)) {
        complain(d, scalar ? "shared-write" : "loop-dependence", "output");
    } else if (s->mode == SHARED && c->read > now.base && c->read != now.cur) {
        d.other = c->read;
        complain(d, scalar ? "shared-write" : "loop-dependence", "anti");
    } else if (s->mode == OWN && newer(w) && !copies_again(&d)) {
        complain(d, "loop-dependence", "output");
    }
    c->written = now.cur;
}

/* From here on accesses of the site's place that are wrong in the same way are counted only. */
static void counts(struct site *s) {
    uint64_t *count = s->known ? access.count : NULL;
    if (count && !s->wrong) s->changed = ++weft_sites_changed;
    s->wrong = count;
}

static void judge_cell(struct site *s, struct cell *c, struct detail d, const struct detail *verdict) {
    stamp_t w = c->written;
    const char *early = weft_parts_under_way ? under_way_wrong(d.address, d.write) : NULL;
    if (early) {
        complain(d, "early-copy-use", early);
        return;
    }
    if (w == REDZONE) {
        complain(d, "out-of-bounds", "heap");
        return;
    }
    if (w == GUARDED) {
        complain(d, "early-reduction-use", d.write ? "written" : "read");
        return;
    }
    if (s->mode == FREE) {
        if (d.write && w != SPLIT) c->written = now.cur;
        else if (w == LOCAL) /* declared in this iteration, and not set since */ without_value(c, d);
        return;
    }
    if (s->mode == BAD && verdict->kind) {
        d.other = w;
        d.has_delta = verdict->has_delta;
        memcpy(d.delta, verdict->delta, sizeof d.delta);
        if (newer(w) && here.started && strcmp(verdict->kind, "out-of-bounds") != 0 && here.what == LOOP)
            complain(d, "loop-dependence", d.write ? "output" : "flow");
        else if (!d.write && w >= NO_VALUE) without_value(c, d);
        else complain(d, verdict->kind, verdict->why), counts(s);
        if (d.write) c->written = now.cur;
        return;
    }
    if (!d.write && w >= NO_VALUE) {
        without_value(c, d);
        return;
    }
    if (s->closed || s->since) stale_copy(s, w, d);
    if (d.write) judge_write(s, c, d);
    else judge_read(s, c, d);
}

/* Whether an access of a part of a cell may leave another state in it than in the rest. */
static bool apart(const struct site *s, const struct cell *c, bool write) {
    return write || (s->track && c->read <= now.base) || c->written >= NO_VALUE;
}

void judge(uintptr_t a, size_t size, bool write, uintptr_t place, struct site *s) {
    loop_index();
    struct detail verdict = {0};
    bool known = now.looked && s->key == place && !s->closed && s->size == size &&
                 (a - *s->home - s->low <= s->reach || site_again(s, a, size));
    if (!known) site_open(s, &verdict, a, size, write, place);
    struct detail d = detail_of(s, a, size, write, place);
    access.a = a;
    access.size = size;
    access.told = false;
    access.count = NULL;
    bool begun = false;
    for (size_t i = 0; i < size;) {
        struct cell *c = cell8(a + i);
        size_t n = 8;
        bool whole = (a + i) % 8 == 0 && size - i >= 8;
        if (!whole && apart(s, c, write)) split8(c, a + i);
        if (c->written == SPLIT) {
            c = cell4(a + i);
            n = 4;
            whole = (a + i) % 4 == 0 && size - i >= 4;
            if (!whole && apart(s, c, write)) split4(c, a + i);
            if (c->written == SPLIT) {
                c = cell1(a + i);
                n = 1;
            }
        }
        n -= (a + i) % n;
        /* What is read at once though it was written in parts is a copy of a structure: gaps follow its members. */
        bool without = c->written >= NO_VALUE;
        if (i == 0) begun = !without;
        if (i && begun && without && !write) {
            i += n;
            continue;
        }
        d.address = a + i;
        d.size = n < size - i ? n : size - i;
        judge_cell(s, c, d, &verdict);
        i += n;
    }
}
