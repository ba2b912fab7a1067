/* What was found, as JSON lines: one when it is first seen, one with its count at the end.
 *
 *   {"id":1,"kind":"loop-dependence","why":"flow","construct":2,"iteration":[3],"data":5,"index":[2],...}
 *   {"id":1,"count":7}
 *   {"usage":"undistributed-on","construct":2,"data":5}
 *   {"ran":2,"times":1}, {"places":57}: what was looked at (ran.c)
 *   {"stack":8192}: the program ended because its stack of so many KiB was full
 *
 * A finding is kept once for (kind, why, construct, place, variable). weft.dataparallel.findings reads the file.
 */
#include "findings.h"

#include "access.h"
#include "cells.h"
#include "lines.h"
#include "loops.h"
#include "objects.h"
#include "ran.h"
#include "regions.h"
#include "sites.h"
#include "under_way.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define MOST 4096
static struct known {
    const char *kind, *why;
    int construct, data;
    uintptr_t place;
    uint64_t count, told;
} known[MOST];
static int known_count;

/* 0: this was known and is counted; else its new id. */
static int enter(const char *kind, const char *why, int construct, int data, uintptr_t place) {
    for (int i = 0; i < known_count; i++) {
        struct known *k = &known[i];
        if (k->place == place && k->construct == construct && k->data == data && !strcmp(k->kind, kind) &&
            (k->why == why || (k->why && why && !strcmp(k->why, why)))) {
            k->count++;
            return 0;
        }
    }
    if (lines_file < 0 || known_count == MOST) return 0;
    known[known_count] = (struct known){kind, why, construct, data, place, 1, 1};
    return ++known_count;
}

/* A place of the program: a number of the front end's, or a return address. */
static void put_place(struct line *l, uintptr_t place) {
    if (place < 0x400000) put_number(l, "site", (int64_t)place >> 2);
    else put_number(l, "pc", (int64_t)place);
}

static struct line begin(int id, const char *kind, const char *why, int construct, uintptr_t place) {
    struct line l = new_line();
    put_number(&l, "id", id);
    put_text(&l, "kind", kind);
    put_text(&l, "why", why ? why : "");
    put_number(&l, "construct", construct);
    put_place(&l, place);
    return l;
}

static void put_iteration(struct line *l) {
    loop_index();
    if (here.what == LOOP && here.started) put_numbers(l, "iteration", here.rank, here.index);
    if (weft_task.in_task) put_number(l, "task", weft_task.task);
}

uint64_t times_found(const char *kind) {
    uint64_t times = 0;
    for (int i = 0; i < known_count; i++)
        if (!strcmp(known[i].kind, kind)) times += known[i].count;
    return times;
}

/* The finding's count: NULL where it is not to be had. */
static uint64_t *count_of(const struct detail *d, int construct) {
    for (int i = 0; i < known_count; i++)
        if (known[i].place == d->place && known[i].construct == construct && known[i].data == d->data &&
            known[i].kind == d->kind && known[i].why == d->why)
            return &known[i].count;
    return NULL;
}

uint64_t *found(const struct detail *d) {
    int construct = d->construct ? d->construct : here.what == SEQUENTIAL ? 0 : here.id;
    int id = enter(d->kind, d->why, construct, d->data, d->place);
    if (!id) return count_of(d, construct);
    int64_t index[WEFT_MAX_RANK];
    struct line l = begin(id, d->kind, d->why, construct, d->place);
    put_iteration(&l);
    put_number(&l, "data", d->data);
    put_number(&l, "address", (int64_t)d->address);
    put_number(&l, "bytes", (int64_t)d->size);
    put_truth(&l, "write", d->write);
    const struct object *o = d->object;
    if (o && o->array) {
        index_of(o, d->address, index);
        put_numbers(&l, "index", o->rank, index);
        put_number(&l, "name", o->first_data);
        if (o->order == WEFT_ORDER_FORTRAN) put_text(&l, "order", "fortran");
        if (d->has_delta) put_numbers(&l, "delta", o->rank, d->delta);
    }
    if (o) put_number(&l, "offset", (int64_t)(d->address - o->low));
    int n = d->other > now.base ? iteration_of(d->other, index) : 0;
    if (n) put_numbers(&l, "other", n, index);
    /* the places that may have made the other access: those of this construct on the same variable */
    put_begin(&l, "places", '[');
    int places = 0;
    for (const struct site *s = sites_opened(); s && places < 4 && o; s = s->next == s ? NULL : s->next) {
        if (s->object != o || s->place == d->place || !(s->write || d->write)) continue;
        places++;
        put_begin(&l, NULL, '{');
        put_place(&l, s->place);
        put_truth(&l, "write", s->write);
        put_end(&l, '}');
    }
    put_end(&l, ']');
    send_line(&l);
    return count_of(d, construct);
}

/* Between which numbers, and which it was. */
static void put_range(struct line *l, int data, int dimension, int64_t value, int64_t low, int64_t high) {
    put_number(l, "data", data);
    put_number(l, "dimension", dimension);
    put_number(l, "value", value);
    put_number(l, "low", low);
    put_number(l, "high", high);
}

void findings_bounds(int data, uintptr_t base, int dimension, int64_t index, int64_t low, int64_t high,
                     uintptr_t place) {
    (void)base;
    int construct = here.what == SEQUENTIAL ? 0 : here.id;
    int id = enter("out-of-bounds", NULL, construct, data, place);
    if (!id) return;
    struct line l = begin(id, "out-of-bounds", NULL, construct, place);
    put_iteration(&l);
    put_range(&l, data, dimension, index, low, high);
    send_line(&l);
}

void findings_place(const char *at, unsigned row, unsigned column, const char *type, int64_t index) {
    int construct = here.what == SEQUENTIAL ? 0 : here.id;
    uintptr_t place = ((uintptr_t)row << 12 | column) ^ (uintptr_t)at;
    int id = enter("out-of-bounds", NULL, construct, 0, place);
    if (!id) return;
    struct line l = begin(id, "out-of-bounds", NULL, construct, 0);
    put_iteration(&l);
    put_number(&l, "line", row);
    put_number(&l, "column", column);
    put_number(&l, "value", index);
    put_text(&l, "file", at);
    put_text(&l, "type", type);
    send_line(&l);
}

/* A number of a directive that does not fit what was declared; dimension from 0. */
void findings_parameter(const char *why, int construct, int data, int dimension, int64_t value, int64_t low,
                        int64_t high) {
    int id = enter("out-of-bounds", why, construct, data, (uintptr_t)dimension);
    if (!id) return;
    struct line l = begin(id, "out-of-bounds", why, construct, 0);
    put_iteration(&l);
    put_range(&l, data, dimension + 1, value, low, high);
    send_line(&l);
}

/* A number in an array that is localized, and is no index that its processor has. */
void findings_localize(int construct, int data, int target, const int64_t index[], int rank, int64_t value) {
    int id = enter("remote-access", "localize", construct, data, (uintptr_t)target);
    if (!id) return;
    struct line l = begin(id, "remote-access", "localize", construct, 0);
    put_number(&l, "data", data);
    put_number(&l, "array", target);
    put_number(&l, "number", value);
    put_numbers(&l, "index", rank, index);
    send_line(&l);
}

/* A directive that cannot be right where it stands; the construct tells where. */
void findings_directive(const char *why, int construct, int data) {
    int id = enter("directive-order", why, construct, data, 0);
    if (!id) return;
    struct line l = begin(id, "directive-order", why, construct, 0);
    put_number(&l, "data", data);
    send_line(&l);
}

void findings_reduction(const char *kind, const char *why, const struct reduction *r, const char *expected,
                        const char *got, int other_data) {
    int id = enter(kind, why, here.id, r->data, other_data ? (uintptr_t)other_data << 2 : 0);
    if (!id) return;
    uintptr_t place = r->reader;
    for (const struct site *s = other_data ? sites_opened() : NULL; s; s = s->next == s ? NULL : s->next)
        if (s->object && s->object->data == other_data && s->write)
            place = s->place; /* what the partial value went into */
    struct line l = begin(id, kind, why, here.id, place);
    put_number(&l, "data", r->data);
    put_number(&l, "operation", r->operation);
    put_number(&l, "array", other_data);
    put_text(&l, "expected", expected);
    put_text(&l, "got", got);
    send_line(&l);
}

void findings_ran(int construct, uint64_t times, uint64_t iterations) {
    if (!lines_ours()) return;
    struct line l = new_line();
    put_number(&l, "ran", construct);
    put_number(&l, "times", (int64_t)times);
    put_number(&l, "iterations", (int64_t)iterations);
    send_line(&l);
}

void findings_places(unsigned count) {
    struct line l = new_line();
    put_number(&l, "places", count);
    send_line(&l);
}

void usage_error(const char *why, int construct, int data) {
    tell_usage(why, construct, data);
    weft_check_flush();
    fflush(NULL);
    _exit(2);
}

int weft_check_active(void) { return !now.off; }

void weft_check_flush(void) {
    if (!lines_ours()) return;
    for (int i = 0; i < known_count; i++) {
        if (known[i].count == known[i].told) continue;
        struct line l = new_line();
        put_number(&l, "id", i + 1);
        put_number(&l, "count", (int64_t)known[i].count);
        known[i].told = known[i].count;
        send_line(&l);
    }
    ran_end();
}

/* Its own stack: that of the program may be what is full. */
static char aside[8 * sizeof(struct line) + 32768];
static uintptr_t stack_top;

/* Whether an address that is not there lies where the first thread's stack would have grown to; nothing else does. */
static bool beyond_stack(uintptr_t a, rlim_t size) {
    rlim_t gap = (rlim_t)128 << 20; /* Linux keeps at least so much free below the stack's end */
    return size != RLIM_INFINITY && a < stack_top && stack_top - a <= (size > gap ? size + gap : gap);
}

static void died(int number, siginfo_t *why, void *context) {
    struct rlimit stack;
    (void)context;
    if (number == SIGSEGV && why->si_code == SEGV_MAPERR && getpid() == lines_owner &&
        !getrlimit(RLIMIT_STACK, &stack) && beyond_stack((uintptr_t)why->si_addr, stack.rlim_cur)) {
        struct line l = new_line();
        put_number(&l, "stack", (int64_t)(stack.rlim_cur >> 10));
        send_line(&l);
    }
    weft_check_flush();
    signal(number, SIG_DFL);
    raise(number);
}

static bool space(uintptr_t low, uintptr_t high) {
    void *p = mmap((void *)low, high - low, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != (void *)low) return false;
    /* The child that verifies reductions does not check. Processors that are traced mark what they declare. */
    if (!getenv("WEFT_INTERNAL_CHECK_TRACE")) madvise(p, high - low, MADV_DONTFORK);
    return true;
}

static bool findings_open(void) {
    if (!lines_open()) return false;
    if (space(SPACE8, SPACE8 + FOLD + 1) && space(SPACE4, SPACE4 + 2 * (FOLD + 1)) && space(SPACE1, END1)) return true;
    tell_usage("no-memory", 0, 0);
    return false;
}

static void ended(void) {
    if (getpid() == lines_owner) under_way_end();
    weft_check_flush();
}

__attribute__((constructor(101))) static void start(void) {
    if (!findings_open()) return;
    stack_t own = {.ss_sp = aside, .ss_size = sizeof aside};
    stack_top = (uintptr_t)&own;
    sigaltstack(&own, NULL);
    watch_ends(died, SA_ONSTACK);
    atexit(ended);
    now.off = false;
}

__attribute__((destructor)) static void end(void) { weft_check_flush(); }
