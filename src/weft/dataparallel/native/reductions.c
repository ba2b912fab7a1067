/* Reductions, two ways: as the program computes them, and each iteration from the neutral element.
 *
 * At some loops' start the process forks. The child runs the loop with a reduction variable that holds the neutral
 * element at the start of each iteration, and combines what the iterations leave by the declared operation (the DVM
 * debugger's second way, Keldysh Institute 1999). The parent compares at the loop's end. The child also tells a hash
 * of every array: where it differs, the loop used the partial value of its reduction.
 *
 * The tasks of a region are run a third way, too: each from the value that the variable has before the region.
 */
#include "reductions.h"

#include "access.h"
#include "cells.h"
#include "findings.h"
#include "groups.h"
#include "loops.h"
#include "objects.h"
#include "turns.h"

#include <complex.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef long double _Complex value; /* holds every type exactly but 64-bit unsigned products */

struct result { /* an element of a reduction in the child */
    value sum;         /* combined so far */
    value start;       /* before the loop */
    long double size;  /* sum of magnitudes: what rounding is measured by */
    int ties;          /* iterations that gave the extreme value: each one's location is right */
};

struct hashed {
    uintptr_t low;
    uint64_t hash;
};

#define MOST_ARRAYS 256
#define MOST_TIES 16
struct shared {
    int done;
    uint64_t iterations;
    int arrays;
    struct hashed hashes[MOST_ARRAYS];
    struct result results[];
};

/* The children of one construct: from the neutral element, and tasks from the value before. */
static struct way {
    struct shared *shared;
    size_t size;
    pid_t child;
    bool from_start;
} ways[2];
static int way_count;
static int forked_for;        /* the construct */
static struct shared *shared; /* of the way that is looked at; a child's own */
static bool is_child, from_start;
static bool begun;
static int runs_of[4096]; /* instances of each construct, by its id */
static struct timespec forked_at;
static unsigned char *locations; /* child: what the best iteration left beside its value */

static size_t size_of(int type) {
    static const size_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, sizeof(long double), 8, 16, 1, 2, 4, 8};
    return sizes[type];
}

static bool is_float(int type) { return type >= WEFT_FLOAT && type <= WEFT_COMPLEX_DOUBLE; }

static value load(const void *p, int type) {
    switch (type) {
    case WEFT_INT8:
    case WEFT_LOGICAL1: return *(const int8_t *)p;
    case WEFT_INT16:
    case WEFT_LOGICAL2: return *(const int16_t *)p;
    case WEFT_INT32:
    case WEFT_LOGICAL4: return *(const int32_t *)p;
    case WEFT_INT64:
    case WEFT_LOGICAL8: return *(const int64_t *)p;
    case WEFT_UINT8: return *(const uint8_t *)p;
    case WEFT_UINT16: return *(const uint16_t *)p;
    case WEFT_UINT32: return *(const uint32_t *)p;
    case WEFT_UINT64: return *(const uint64_t *)p;
    case WEFT_FLOAT: return *(const float *)p;
    case WEFT_DOUBLE: return *(const double *)p;
    case WEFT_LONG_DOUBLE: return *(const long double *)p;
    case WEFT_COMPLEX_FLOAT: return *(const float _Complex *)p;
    case WEFT_COMPLEX_DOUBLE: return *(const double _Complex *)p;
    default: return 0;
    }
}

static void store(void *p, int type, value v) {
    long double r = creall(v);
    switch (type) {
    case WEFT_INT8:
    case WEFT_LOGICAL1: *(int8_t *)p = (int8_t)r; break;
    case WEFT_INT16:
    case WEFT_LOGICAL2: *(int16_t *)p = (int16_t)r; break;
    case WEFT_INT32:
    case WEFT_LOGICAL4: *(int32_t *)p = (int32_t)r; break;
    case WEFT_INT64:
    case WEFT_LOGICAL8: *(int64_t *)p = (int64_t)r; break;
    case WEFT_UINT8: *(uint8_t *)p = (uint8_t)r; break;
    case WEFT_UINT16: *(uint16_t *)p = (uint16_t)r; break;
    case WEFT_UINT32: *(uint32_t *)p = (uint32_t)r; break;
    case WEFT_UINT64: *(uint64_t *)p = (uint64_t)r; break;
    case WEFT_FLOAT: *(float *)p = (float)r; break;
    case WEFT_DOUBLE: *(double *)p = (double)r; break;
    case WEFT_LONG_DOUBLE: *(long double *)p = r; break;
    case WEFT_COMPLEX_FLOAT: *(float _Complex *)p = (float _Complex)v; break;
    case WEFT_COMPLEX_DOUBLE: *(double _Complex *)p = (double _Complex)v; break;
    }
}

static long double extreme(int type, bool high) {
    switch (type) {
    case WEFT_INT8: return high ? INT8_MAX : INT8_MIN;
    case WEFT_INT16: return high ? INT16_MAX : INT16_MIN;
    case WEFT_INT32: return high ? INT32_MAX : INT32_MIN;
    case WEFT_INT64: return high ? (long double)INT64_MAX : (long double)INT64_MIN;
    case WEFT_UINT8: return high ? UINT8_MAX : 0;
    case WEFT_UINT16: return high ? UINT16_MAX : 0;
    case WEFT_UINT32: return high ? UINT32_MAX : 0;
    case WEFT_UINT64: return high ? (long double)UINT64_MAX : 0;
    case WEFT_FLOAT: return high ? FLT_MAX : -FLT_MAX;
    default: return high ? DBL_MAX : -DBL_MAX;
    }
}

static bool is_logical(int type) { return type >= WEFT_LOGICAL1; }

static value neutral(const struct reduction *r) {
    switch (r->operation) {
    case WEFT_PRODUCT:
    case WEFT_LAND:
    case WEFT_EQV: return 1;
    case WEFT_AND: return is_logical(r->type) ? 1 : -1;
    case WEFT_MAX:
    case WEFT_MAXLOC: return extreme(r->type, false);
    case WEFT_MIN:
    case WEFT_MINLOC: return extreme(r->type, true);
    default: return 0;
    }
}

static bool truth(value v) { return creall(v) != 0; }

/* The same for what is one number: no complex arithmetic where an iteration is short. */
static long double combine_real(int operation, long double a, long double b) {
    switch (operation) {
    case WEFT_SUM: return a + b;
    case WEFT_PRODUCT: return a * b;
    case WEFT_MAX:
    case WEFT_MAXLOC: return b > a ? b : a;
    default: return b < a ? b : a;
    }
}

static value combine(int operation, value a, value b) {
    int64_t i = (int64_t)creall(a), j = (int64_t)creall(b);
    switch (operation) {
    case WEFT_SUM: return a + b;
    case WEFT_PRODUCT: return a * b;
    case WEFT_MAX:
    case WEFT_MAXLOC: return creall(b) > creall(a) ? b : a;
    case WEFT_MIN:
    case WEFT_MINLOC: return creall(b) < creall(a) ? b : a;
    case WEFT_AND: return i & j;
    case WEFT_OR: return i | j;
    case WEFT_XOR: return i ^ j;
    case WEFT_EQV: return truth(a) == truth(b);
    case WEFT_NEQV: return truth(a) != truth(b);
    case WEFT_LAND: return truth(a) && truth(b);
    case WEFT_LOR: return truth(a) || truth(b);
    default: return a;
    }
}

void weft_check_loop_reduction(int data, void *base, int operation, int type, int64_t count, void *location,
                               size_t location_bytes) {
    if (now.off || here.what == SEQUENTIAL || here.started || here.reduction_count == MAX_CLAUSES || type < WEFT_INT8 ||
        type > WEFT_LOGICAL8 || count < 1)
        return;
    here.reductions[here.reduction_count++] = (struct reduction){
        .low = (uintptr_t)base,
        .high = (uintptr_t)base + size_of(type) * (size_t)count,
        .data = data,
        .operation = operation,
        .type = type,
        .count = count,
        .location = location,
        .location_bytes = location ? location_bytes : 0,
    };
}

void weft_check_loop_reduction_group(int group) {
    if (!now.off && here.what != SEQUENTIAL && !here.started) here.group = group;
}

/* --- the arrays' contents --- */

static bool is_clause(uintptr_t low, uintptr_t high) {
    for (int i = 0; i < here.private_count; i++)
        if (here.privates[i].low < high && low < here.privates[i].high) return true;
    for (int i = 0; i < here.reduction_count; i++)
        if (here.reductions[i].low < high && low < here.reductions[i].high) return true;
    return false;
}

static uint64_t hash_of(uintptr_t low, uintptr_t high) {
    uint64_t h = 0, i = 0;
    for (; low + 8 <= high; low += 8) {
        uint64_t v;
        memcpy(&v, (void *)low, 8);
        h += (v ^ ++i) * 0x9e3779b97f4a7c15ull ^ v >> 29;
    }
    return h;
}

static int hash_arrays(struct hashed out[]) {
    int n = 0;
    struct object *o;
    for (uintptr_t a = 0; n < MOST_ARRAYS && (o = object_after(a)); a = o->high)
        if (o->array && !is_clause(o->low, o->high)) out[n++] = (struct hashed){o->low, hash_of(o->low, o->high)};
    return n;
}

/* --- the child --- */

/* What an iteration or task added to the value that it began with. */
static value less(int operation, value part, value start) {
    switch (operation) {
    case WEFT_SUM: return part - start;
    case WEFT_PRODUCT: return creall(start) != 0 || cimagl(start) != 0 ? part / start : 1;
    case WEFT_XOR: return (int64_t)creall(part) ^ (int64_t)creall(start);
    case WEFT_EQV: return truth(part) == truth(start);
    case WEFT_NEQV: return truth(part) != truth(start);
    default: return part;
    }
}

/* What a copy of the process prints goes nowhere, but to `but`; its end is its own. */
void become_silent(int but) {
    int null = open("/dev/null", O_RDWR);
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = 0; null >= 0 && fd < (most < 4096 ? most : 4096); fd++)
        if (fd != null && fd != but && fcntl(fd, F_GETFD) >= 0) dup2(null, fd);
    signal(SIGINT, SIG_IGN);
    for (int s = 1; s < 32; s++)
        if (s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGABRT || s == SIGILL || s == SIGTERM)
            signal(s, SIG_DFL);
}

static void fold(void) {
    struct result *e = shared->results;
    unsigned char *kept = locations;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        bool located = r->operation == WEFT_MAXLOC || r->operation == WEFT_MINLOC;
        bool simple = (r->type == WEFT_DOUBLE || r->type == WEFT_FLOAT || r->type == WEFT_INT32) &&
                      r->operation <= WEFT_MIN && r->operation != WEFT_PRODUCT;
        for (int64_t k = 0; k < r->count; k++, e++) {
            if (simple && !from_start) {
                const char *p = (const char *)r->low + (size_t)k * size_of(r->type);
                long double part = r->type == WEFT_DOUBLE  ? *(const double *)p
                                   : r->type == WEFT_FLOAT ? *(const float *)p
                                                           : *(const int32_t *)p;
                __real__ e->sum = combine_real(r->operation, __real__ e->sum, part);
                e->size += part < 0 ? -part : part;
                continue;
            }
            value part = load((char *)r->low + (size_t)k * size_of(r->type), r->type);
            value before = from_start ? e->start : neutral(r);
            if (from_start) part = less(r->operation, part, e->start);
            if (located && part != before) {
                value best = combine(r->operation, e->sum, part);
                if (best != e->sum) e->ties = 0;
                if (part == best && e->ties++ < MOST_TIES)
                    memcpy(kept + (size_t)(e->ties - 1) * r->location_bytes, r->location, r->location_bytes);
            }
            e->sum = combine(r->operation, e->sum, part);
            e->size += cabsl(part);
        }
        kept += MOST_TIES * r->location_bytes;
    }
}

static void reset(void) {
    const struct result *e = shared->results;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        for (int64_t k = 0; k < r->count; k++, e++)
            store((char *)r->low + (size_t)k * size_of(r->type), r->type, from_start ? e->start : neutral(r));
    }
}

/* In the child at the head of each iteration. */
void reductions_iteration(void) {
    if (!is_child) return;
    if (begun) fold();
    begun = true;
    shared->iterations++;
    reset();
}

static void prepare(void) {
    struct result *e = shared->results;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        for (int64_t k = 0; k < r->count; k++, e++) {
            e->start = load((char *)r->low + (size_t)k * size_of(r->type), r->type);
            e->sum = neutral(r);
        }
    }
}

static size_t location_bytes(void) {
    size_t n = 0;
    for (int i = 0; i < here.reduction_count; i++) n += MOST_TIES * here.reductions[i].location_bytes;
    return n;
}

/* Instances 1, 2, 8, 32, ... of a loop are verified: a wrong operation does not wait for a certain one. */
static bool chosen(void) {
    unsigned n = (unsigned)++runs_of[(unsigned)here.id % (sizeof runs_of / sizeof *runs_of)];
    return (n & (n - 1)) == 0 && (n == 1 || __builtin_ctz(n) % 2 == 1);
}

static void become_child(const struct way *w) {
    is_child = true;
    begun = false;
    from_start = w->from_start;
    now.off = true;
    forget_sites(); /* no access may reach the cells: the child has none */
    become_silent(-1);
}

/* Fork one child; false where there is none. */
static bool start_way(struct way *w, size_t head) {
    w->size = head + location_bytes();
    shared = w->shared = mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return false;
    locations = (unsigned char *)shared + head;
    prepare();
    w->child = fork();
    if (w->child < 0) munmap(shared, w->size);
    return w->child >= 0;
}

void reductions_fork(void) {
    if (way_count || is_child || !chosen()) return;
    size_t elements = 0;
    for (int i = 0; i < here.reduction_count; i++) elements += (size_t)here.reductions[i].count;
    size_t head = sizeof(struct shared) + elements * sizeof(struct result);
    clock_gettime(CLOCK_MONOTONIC, &forked_at);
    forked_for = here.id;
    for (int n = 0; n < (here.what == TASKS ? 2 : 1); n++) {
        struct way *w = &ways[way_count];
        *w = (struct way){.from_start = n == 1};
        if (!start_way(w, head)) return;
        if (w->child == 0) {
            become_child(w);
            return;
        }
        way_count++;
    }
}

/* --- the comparison --- */

static double elapsed(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - forked_at.tv_sec) + 1e-9 * (double)(t.tv_nsec - forked_at.tv_nsec);
}

static bool child_done(pid_t child) {
    double limit = 30 + 10 * elapsed();
    int status;
    while (true) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child || got < 0) return shared->done;
        if (elapsed() > limit) break;
        usleep(200);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static long double epsilon(int type) {
    return type == WEFT_FLOAT || type == WEFT_COMPLEX_FLOAT ? FLT_EPSILON : DBL_EPSILON;
}

static bool alike(const struct reduction *r, const struct result *e, value other, value got) {
    if (is_logical(r->type) || r->operation == WEFT_LAND || r->operation == WEFT_LOR || r->operation == WEFT_EQV ||
        r->operation == WEFT_NEQV)
        return truth(other) == truth(got);
    if (!is_float(r->type)) {
        unsigned bits = 8 * (unsigned)size_of(r->type); /* the program's sums wrap around */
        uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
        long double d = creall(other) - creall(got);
        return d == 0 || (fabsl(creall(other)) > 9e18L) || (((uint64_t)(int64_t)d) & mask) == 0;
    }
    if (isnan(creall(other)) || isnan(creall(got)) || isinf(creall(other)) || isinf(creall(got)))
        return true; /* overflow and NaN say nothing of the operation */
    if (r->operation != WEFT_SUM && r->operation != WEFT_PRODUCT) return other == got;
    long double n = (long double)shared->iterations + 16;
    long double scale = r->operation == WEFT_SUM ? e->size + cabsl(e->start) : fmaxl(cabsl(other), cabsl(got));
    return cabsl(other - got) <= 4 * n * epsilon(r->type) * scale;
}

static void tell(char text[64], value v, int type) {
    if (is_logical(type)) snprintf(text, 64, "%s", truth(v) ? "true" : "false");
    else if (is_float(type)) snprintf(text, 64, "%.9Lg", creall(v));
    else snprintf(text, 64, "%.0Lf", creall(v));
}

static void compare(void) {
    const struct result *e = shared->results;
    const unsigned char *kept = locations;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        bool told = false;
        for (int64_t k = 0; k < r->count; k++, e++) {
            value got = load((char *)r->low + (size_t)k * size_of(r->type), r->type);
            value other = combine(r->operation, e->start, e->sum);
            char expected[64], have[64];
            bool located = (r->operation == WEFT_MAXLOC || r->operation == WEFT_MINLOC) && r->count == 1;
            bool moved = located && other == got && other != e->start && e->ties <= MOST_TIES;
            for (int t = 0; moved && t < e->ties; t++)
                moved = memcmp(kept + (size_t)t * r->location_bytes, r->location, r->location_bytes) != 0;
            if (told || (alike(r, e, other, got) && !moved)) continue;
            tell(expected, other, r->type), tell(have, got, r->type);
            findings_reduction("wrong-reduction", moved ? "location" : NULL, r, expected, have, 0);
            told = true;
        }
        kept += MOST_TIES * r->location_bytes;
    }
    struct hashed mine[MOST_ARRAYS];
    int n = hash_arrays(mine);
    for (int i = 0; i < n && i < shared->arrays; i++)
        if (mine[i].low == shared->hashes[i].low && mine[i].hash != shared->hashes[i].hash)
            findings_reduction("early-reduction-use", "in-loop", &here.reductions[0], "", "",
                               object_at(mine[i].low)->data);
}

void reductions_end(void) {
    if (is_child) {
        if (begun) fold();
        shared->arrays = hash_arrays(shared->hashes);
        shared->done = 1;
        _exit(0);
    }
    if (!way_count || forked_for != here.id) /* of the region around the task that this loop is part of */
        return;
    for (int n = 0; n < way_count; n++) {
        shared = ways[n].shared;
        locations = (unsigned char *)shared + (ways[n].size - location_bytes());
        if (child_done(ways[n].child)) compare();
        munmap(shared, ways[n].size);
    }
    way_count = 0;
}

/* --- asynchronous reductions --- */

static struct groups groups;

/* The loop has ended; its reductions are partial until their group has completed. */
void reductions_hold(void) {
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        groups_hold(&groups, here.group, r->low, r->high);
        mark(r->low, r->high, GUARDED);
    }
}

void weft_check_reduction_start(int construct, int group) {
    groups_start(&groups, construct, group, "reduction-start", "reduction-twice");
}

static void complete(uintptr_t low, uintptr_t high) { mark(low, high, now.cur); }

void weft_check_reduction_wait(int construct, int group) {
    groups_wait(&groups, construct, group, "reduction-wait", complete);
}

/* --- of processors in turn (turns.c): each begins with the neutral element --- */

static size_t part_bytes(const struct reduction *r) { return (size_t)r->count * size_of(r->type) + r->location_bytes; }

size_t reductions_bytes(void) {
    size_t n = 0;
    for (int i = 0; i < here.reduction_count; i++) n += part_bytes(&here.reductions[i]);
    return n;
}

void reductions_neutral(void) {
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        for (int64_t k = 0; k < r->count; k++)
            store((char *)r->low + (size_t)k * size_of(r->type), r->type, neutral(r));
    }
}

/* Values and locations, as they lie in the variables. */
void reductions_take(void *to) {
    char *at = to;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        size_t values = part_bytes(r) - r->location_bytes;
        memcpy(at, (void *)r->low, values);
        if (r->location_bytes) memcpy(at + values, r->location, r->location_bytes);
        at += part_bytes(r);
    }
}

void reductions_give(const void *from) {
    const char *at = from;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        size_t values = part_bytes(r) - r->location_bytes;
        memcpy((void *)r->low, at, values);
        if (r->location_bytes) memcpy(r->location, at + values, r->location_bytes);
        at += part_bytes(r);
    }
}

void reductions_combine(void *into, const void *part) {
    char *to = into;
    const char *from = part;
    for (int i = 0; i < here.reduction_count; i++) {
        const struct reduction *r = &here.reductions[i];
        size_t size = size_of(r->type), values = (size_t)r->count * size;
        for (int64_t k = 0; k < r->count; k++) {
            value had = load(to + (size_t)k * size, r->type);
            value now_has = combine(r->operation, had, load(from + (size_t)k * size, r->type));
            store(to + (size_t)k * size, r->type, now_has);
            if (r->location_bytes && now_has != had) memcpy(to + values, from + values, r->location_bytes);
        }
        to += part_bytes(r);
        from += part_bytes(r);
    }
}

double reduction_value(const struct reduction *r) { return (double)creall(load((void *)r->low, r->type)); }
