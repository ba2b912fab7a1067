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

/* Return a number of one of the WEFT_ types in memory as a complex long double. */
static value load_value(const void *address, int type) {
    switch (type) {
    case WEFT_INT8:
    case WEFT_LOGICAL1: return *(const int8_t *)address;
    case WEFT_INT16:
    case WEFT_LOGICAL2: return *(const int16_t *)address;
    case WEFT_INT32:
    case WEFT_LOGICAL4: return *(const int32_t *)address;
    case WEFT_INT64:
    case WEFT_LOGICAL8: return *(const int64_t *)address;
    case WEFT_UINT8: return *(const uint8_t *)address;
    case WEFT_UINT16: return *(const uint16_t *)address;
    case WEFT_UINT32: return *(const uint32_t *)address;
    case WEFT_UINT64: return *(const uint64_t *)address;
    case WEFT_FLOAT: return *(const float *)address;
    case WEFT_DOUBLE: return *(const double *)address;
    case WEFT_LONG_DOUBLE: return *(const long double *)address;
    case WEFT_COMPLEX_FLOAT: return *(const float _Complex *)address;
    case WEFT_COMPLEX_DOUBLE: return *(const double _Complex *)address;
    default: return 0;
    }
}

/* Store a complex long double in memory as a number of one of the WEFT_ types. */
static void store_value(void *address, int type, value v) {
    long double r = creall(v);
    switch (type) {
    case WEFT_INT8:
    case WEFT_LOGICAL1: *(int8_t *)address = (int8_t)r; break;
    case WEFT_INT16:
    case WEFT_LOGICAL2: *(int16_t *)address = (int16_t)r; break;
    case WEFT_INT32:
    case WEFT_LOGICAL4: *(int32_t *)address = (int32_t)r; break;
    case WEFT_INT64:
    case WEFT_LOGICAL8: *(int64_t *)address = (int64_t)r; break;
    case WEFT_UINT8: *(uint8_t *)address = (uint8_t)r; break;
    case WEFT_UINT16: *(uint16_t *)address = (uint16_t)r; break;
    case WEFT_UINT32: *(uint32_t *)address = (uint32_t)r; break;
    case WEFT_UINT64: *(uint64_t *)address = (uint64_t)r; break;
    case WEFT_FLOAT: *(float *)address = (float)r; break;
    case WEFT_DOUBLE: *(double *)address = (double)r; break;
    case WEFT_LONG_DOUBLE: *(long double *)address = r; break;
    case WEFT_COMPLEX_FLOAT: *(float _Complex *)address = (float _Complex)v; break;
    case WEFT_COMPLEX_DOUBLE: *(double _Complex *)address = (double _Complex)v; break;
    }
}

/* Return the highest or lowest value of a number type: the neutral element of MIN or MAX. */
static long double get_extreme_of_type(int type, bool is_highest) {
    switch (type) {
    case WEFT_INT8: return is_highest ? INT8_MAX : INT8_MIN;
    case WEFT_INT16: return is_highest ? INT16_MAX : INT16_MIN;
    case WEFT_INT32: return is_highest ? INT32_MAX : INT32_MIN;
    case WEFT_INT64: return is_highest ? (long double)INT64_MAX : (long double)INT64_MIN;
    case WEFT_UINT8: return is_highest ? UINT8_MAX : 0;
    case WEFT_UINT16: return is_highest ? UINT16_MAX : 0;
    case WEFT_UINT32: return is_highest ? UINT32_MAX : 0;
    case WEFT_UINT64: return is_highest ? (long double)UINT64_MAX : 0;
    case WEFT_FLOAT: return is_highest ? FLT_MAX : -FLT_MAX;
    default: return is_highest ? DBL_MAX : -DBL_MAX;
    }
}

static bool is_logical(int type) { return type >= WEFT_LOGICAL1; }

/* Return the neutral element of a reduction's operation: 0, 1, all bits, or the type's lowest or highest value. */
static value get_neutral_value(const struct reduction *reduction) {
    switch (reduction->operation) {
    case WEFT_PRODUCT:
    case WEFT_LAND:
    case WEFT_EQV: return 1;
    case WEFT_AND: return is_logical(reduction->type) ? 1 : -1;
    case WEFT_MAX:
    case WEFT_MAXLOC: return get_extreme_of_type(reduction->type, false);
    case WEFT_MIN:
    case WEFT_MINLOC: return get_extreme_of_type(reduction->type, true);
    default: return 0;
    }
}

static bool truth(value v) { return creall(v) != 0; }

/* Combine two real numbers by SUM, PRODUCT, MAX or MIN: faster than the complex arithmetic of combine_values. */
static long double combine_real_values(int operation, long double first, long double second) {
    switch (operation) {
    case WEFT_SUM: return first + second;
    case WEFT_PRODUCT: return first * second;
    case WEFT_MAX:
    case WEFT_MAXLOC: return second > first ? second : first;
    default: return second < first ? second : first;
    }
}

/* Combine two values by a reduction's operation (WEFT_SUM, ...). */
static value combine_values(int operation, value first, value second) {
    int64_t i = (int64_t)creall(first), j = (int64_t)creall(second);
    switch (operation) {
    case WEFT_SUM: return first + second;
    case WEFT_PRODUCT: return first * second;
    case WEFT_MAX:
    case WEFT_MAXLOC: return creall(second) > creall(first) ? second : first;
    case WEFT_MIN:
    case WEFT_MINLOC: return creall(second) < creall(first) ? second : first;
    case WEFT_AND: return i & j;
    case WEFT_OR: return i | j;
    case WEFT_XOR: return i ^ j;
    case WEFT_EQV: return truth(first) == truth(second);
    case WEFT_NEQV: return truth(first) != truth(second);
    case WEFT_LAND: return truth(first) && truth(second);
    case WEFT_LOR: return truth(first) || truth(second);
    default: return first;
    }
}

/* Handle a REDUCTION clause: `count` elements of a WEFT_ type at `base`; `location`: what goes with them in MAXLOC and
 * MINLOC, else NULL. */
void weft_check_loop_reduction(int variable_id, void *base, int operation, int type, int64_t count, void *location,
                               size_t location_bytes) {
    if (now.off || weft_construct.what == SEQUENTIAL || weft_construct.started ||
        weft_construct.reduction_count == MAX_CLAUSES || type < WEFT_INT8 || type > WEFT_LOGICAL8 || count < 1)
        return;
    weft_construct.reductions[weft_construct.reduction_count++] = (struct reduction){
        .low = (uintptr_t)base,
        .high = (uintptr_t)base + size_of(type) * (size_t)count,
        .data = variable_id,
        .operation = operation,
        .type = type,
        .count = count,
        .location = location,
        .location_bytes = location ? location_bytes : 0,
    };
}

void weft_check_loop_reduction_group(int group_id) {
    if (!now.off && weft_construct.what != SEQUENTIAL && !weft_construct.started) weft_construct.group = group_id;
}

/* --- the arrays' contents --- */

/* Return whether a variable of the construct's PRIVATE or REDUCTION clauses overlaps [low, high). */
static bool overlaps_private_or_reduction(uintptr_t low, uintptr_t high) {
    for (int i = 0; i < weft_construct.private_count; i++)
        if (weft_construct.privates[i].low < high && low < weft_construct.privates[i].high) return true;
    for (int i = 0; i < weft_construct.reduction_count; i++)
        if (weft_construct.reductions[i].low < high && low < weft_construct.reductions[i].high) return true;
    return false;
}

/* Return a hash of the 8-byte words in [low, high). */
static uint64_t hash_memory(uintptr_t low, uintptr_t high) {
    uint64_t h = 0, i = 0;
    for (; low + 8 <= high; low += 8) {
        uint64_t v;
        memcpy(&v, (void *)low, 8);
        h += (v ^ ++i) * 0x9e3779b97f4a7c15ull ^ v >> 29;
    }
    return h;
}

/* Hash all registered arrays that no clause of the loop makes private or a reduction. Return how many there are, at
 * most MOST_ARRAYS. */
static int hash_arrays(struct hashed hashes[]) {
    int n = 0;
    struct object *object;
    for (uintptr_t address = 0; n < MOST_ARRAYS && (object = find_object_from(address)); address = object->high)
        if (object->array && !overlaps_private_or_reduction(object->low, object->high))
            hashes[n++] = (struct hashed){object->low, hash_memory(object->low, object->high)};
    return n;
}

/* --- the child --- */

/* Return what an iteration or task contributed: its result without the value that it began with. */
static value subtract_start(int operation, value part, value start) {
    switch (operation) {
    case WEFT_SUM: return part - start;
    case WEFT_PRODUCT: return creall(start) != 0 || cimagl(start) != 0 ? part / start : 1;
    case WEFT_XOR: return (int64_t)creall(part) ^ (int64_t)creall(start);
    case WEFT_EQV: return truth(part) == truth(start);
    case WEFT_NEQV: return truth(part) != truth(start);
    default: return part;
    }
}

/* In a forked copy of the process: let all its output go to /dev/null, except for one descriptor, and give fatal
 * signals their default actions. */
void silence_forked_copy(int kept_descriptor) {
    int null = open("/dev/null", O_RDWR);
    long most = sysconf(_SC_OPEN_MAX);
    for (int fd = 0; null >= 0 && fd < (most < 4096 ? most : 4096); fd++)
        if (fd != null && fd != kept_descriptor && fcntl(fd, F_GETFD) >= 0) dup2(null, fd);
    signal(SIGINT, SIG_IGN);
    for (int s = 1; s < 32; s++)
        if (s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGABRT || s == SIGILL || s == SIGTERM)
            signal(s, SIG_DFL);
}

/* In the child: combine what the iteration left in the reduction variables with the results so far, and keep the
 * locations of extreme values. */
static void collect_iteration_results(void) {
    struct result *result = shared->results;
    unsigned char *kept = locations;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        bool located = reduction->operation == WEFT_MAXLOC || reduction->operation == WEFT_MINLOC;
        bool simple =
            (reduction->type == WEFT_DOUBLE || reduction->type == WEFT_FLOAT || reduction->type == WEFT_INT32) &&
            reduction->operation <= WEFT_MIN && reduction->operation != WEFT_PRODUCT;
        for (int64_t k = 0; k < reduction->count; k++, result++) {
            if (simple && !from_start) {
                const char *p = (const char *)reduction->low + (size_t)k * size_of(reduction->type);
                long double part = reduction->type == WEFT_DOUBLE  ? *(const double *)p
                                   : reduction->type == WEFT_FLOAT ? *(const float *)p
                                                                   : *(const int32_t *)p;
                __real__ result->sum = combine_real_values(reduction->operation, __real__ result->sum, part);
                result->size += part < 0 ? -part : part;
                continue;
            }
            value part = load_value((char *)reduction->low + (size_t)k * size_of(reduction->type), reduction->type);
            value before = from_start ? result->start : get_neutral_value(reduction);
            if (from_start) part = subtract_start(reduction->operation, part, result->start);
            if (located && part != before) {
                value best = combine_values(reduction->operation, result->sum, part);
                if (best != result->sum) result->ties = 0;
                if (part == best && result->ties++ < MOST_TIES)
                    memcpy(kept + (size_t)(result->ties - 1) * reduction->location_bytes, reduction->location,
                           reduction->location_bytes);
            }
            result->sum = combine_values(reduction->operation, result->sum, part);
            result->size += cabsl(part);
        }
        kept += MOST_TIES * reduction->location_bytes;
    }
}

/* In the child: give all reduction variables the value that each iteration begins with, the neutral element or the
 * loop's first value. */
static void reset_reduction_variables(void) {
    const struct result *result = shared->results;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        for (int64_t k = 0; k < reduction->count; k++, result++)
            store_value((char *)reduction->low + (size_t)k * size_of(reduction->type), reduction->type,
                        from_start ? result->start : get_neutral_value(reduction));
    }
}

/* In the child, at the head of each iteration: collect what the last one left and begin this one afresh. Does nothing
 * in the parent. */
void begin_verified_iteration(void) {
    if (!is_child) return;
    if (begun) collect_iteration_results();
    begun = true;
    shared->iterations++;
    reset_reduction_variables();
}

/* Save the reduction variables' values before the loop in the memory shared with the child, and begin its results with
 * the neutral element. */
static void save_start_values(void) {
    struct result *result = shared->results;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        for (int64_t k = 0; k < reduction->count; k++, result++) {
            result->start = load_value((char *)reduction->low + (size_t)k * size_of(reduction->type), reduction->type);
            result->sum = get_neutral_value(reduction);
        }
    }
}

/* Return how many bytes the saved locations of all MAXLOC and MINLOC reductions take. */
static size_t count_location_bytes(void) {
    size_t n = 0;
    for (int i = 0; i < weft_construct.reduction_count; i++)
        n += MOST_TIES * weft_construct.reductions[i].location_bytes;
    return n;
}

/* Return whether this instance of the loop is verified: the 1st, 2nd, 8th, 32nd and so on of each loop. */
static bool is_instance_verified(void) {
    unsigned n = (unsigned)++runs_of[(unsigned)weft_construct.id % (sizeof runs_of / sizeof *runs_of)];
    return (n & (n - 1)) == 0 && (n == 1 || __builtin_ctz(n) % 2 == 1);
}

/* In the forked child: switch the checks and all output off; only its reductions matter. */
static void become_verifying_child(const struct way *way) {
    is_child = true;
    begun = false;
    from_start = way->from_start;
    now.off = true;
    forget_sites(); /* no access may reach the cells: the child has none */
    silence_forked_copy(-1);
}

/* Fork one child that runs the loop again to verify its reductions, with memory shared for its results. Return false if
 * that is not possible. */
static bool fork_verification(struct way *way, size_t results_size) {
    way->size = results_size + count_location_bytes();
    shared = way->shared = mmap(NULL, way->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return false;
    locations = (unsigned char *)shared + results_size;
    save_start_values();
    way->child = fork();
    if (way->child < 0) munmap(shared, way->size);
    return way->child >= 0;
}

/* At a loop's start: fork the children that verify its reductions, one for a loop and two for tasks. Returns in parent
 * and children; a child runs the loop and exits in finish_reduction_verifications. */
void fork_reduction_verifications(void) {
    if (way_count || is_child || !is_instance_verified()) return;
    size_t elements = 0;
    for (int i = 0; i < weft_construct.reduction_count; i++) elements += (size_t)weft_construct.reductions[i].count;
    size_t head = sizeof(struct shared) + elements * sizeof(struct result);
    clock_gettime(CLOCK_MONOTONIC, &forked_at);
    forked_for = weft_construct.id;
    for (int n = 0; n < (weft_construct.what == TASKS ? 2 : 1); n++) {
        struct way *way = &ways[way_count];
        *way = (struct way){.from_start = n == 1};
        if (!fork_verification(way, head)) return;
        if (way->child == 0) {
            become_verifying_child(way);
            return;
        }
        way_count++;
    }
}

/* --- the comparison --- */

/* Return how many seconds have passed since the verification was forked. */
static double measure_seconds_since_fork(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - forked_at.tv_sec) + 1e-9 * (double)(t.tv_nsec - forked_at.tv_nsec);
}

/* Wait for a verifying child, at most 30 s plus ten times what the loop took; then kill it. Return whether it came to
 * the loop's end. */
static bool wait_for_verification(pid_t child) {
    double limit = 30 + 10 * measure_seconds_since_fork();
    int status;
    while (true) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child || got < 0) return shared->done;
        if (measure_seconds_since_fork() > limit) break;
        usleep(200);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static long double epsilon(int type) {
    return type == WEFT_FLOAT || type == WEFT_COMPLEX_FLOAT ? FLT_EPSILON : DBL_EPSILON;
}

/* Return whether the loop's result agrees with the verified one: exactly, modulo the integer's width, or within
 * rounding errors. NaN and overflow prove nothing and count as agreement. */
static bool is_same_result(const struct reduction *reduction, const struct result *child_result, value expected,
                           value got) {
    if (is_logical(reduction->type) || reduction->operation == WEFT_LAND || reduction->operation == WEFT_LOR ||
        reduction->operation == WEFT_EQV || reduction->operation == WEFT_NEQV)
        return truth(expected) == truth(got);
    if (!is_float(reduction->type)) {
        unsigned bits = 8 * (unsigned)size_of(reduction->type); /* the program's sums wrap around */
        uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
        long double d = creall(expected) - creall(got);
        return d == 0 || (fabsl(creall(expected)) > 9e18L) || (((uint64_t)(int64_t)d) & mask) == 0;
    }
    if (isnan(creall(expected)) || isnan(creall(got)) || isinf(creall(expected)) || isinf(creall(got)))
        return true; /* overflow and NaN say nothing of the operation */
    if (reduction->operation != WEFT_SUM && reduction->operation != WEFT_PRODUCT) return expected == got;
    long double n = (long double)shared->iterations + 16;
    long double scale = reduction->operation == WEFT_SUM ? child_result->size + cabsl(child_result->start)
                                                         : fmaxl(cabsl(expected), cabsl(got));
    return cabsl(expected - got) <= 4 * n * epsilon(reduction->type) * scale;
}

/* Write a reduction's result as text for a finding: true or false, or the real part of a number. */
static void format_value(char text[64], value number, int type) {
    if (is_logical(type)) snprintf(text, 64, "%s", truth(number) ? "true" : "false");
    else if (is_float(type)) snprintf(text, 64, "%.9Lg", creall(number));
    else snprintf(text, 64, "%.0Lf", creall(number));
}

/* In the parent, at the loop's end: report reductions whose results or locations differ from the child's, and arrays
 * whose contents do, since these used a partial value. */
static void compare_results(void) {
    const struct result *result = shared->results;
    const unsigned char *kept = locations;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        bool told = false;
        for (int64_t k = 0; k < reduction->count; k++, result++) {
            value got = load_value((char *)reduction->low + (size_t)k * size_of(reduction->type), reduction->type);
            value other = combine_values(reduction->operation, result->start, result->sum);
            char expected[64], have[64];
            bool located =
                (reduction->operation == WEFT_MAXLOC || reduction->operation == WEFT_MINLOC) && reduction->count == 1;
            bool moved = located && other == got && other != result->start && result->ties <= MOST_TIES;
            for (int t = 0; moved && t < result->ties; t++)
                moved = memcmp(kept + (size_t)t * reduction->location_bytes, reduction->location,
                               reduction->location_bytes) != 0;
            if (told || (is_same_result(reduction, result, other, got) && !moved)) continue;
            format_value(expected, other, reduction->type), format_value(have, got, reduction->type);
            report_reduction_fault("wrong-reduction", moved ? "location" : NULL, reduction, expected, have, 0);
            told = true;
        }
        kept += MOST_TIES * reduction->location_bytes;
    }
    struct hashed mine[MOST_ARRAYS];
    int n = hash_arrays(mine);
    for (int i = 0; i < n && i < shared->arrays; i++)
        if (mine[i].low == shared->hashes[i].low && mine[i].hash != shared->hashes[i].hash)
            report_reduction_fault("early-reduction-use", "in-loop", &weft_construct.reductions[0], "", "",
                                   find_object_at(mine[i].low)->data);
}

/* At a loop's end: a child stores its results and exits; the parent waits for its children and compares. */
void finish_reduction_verifications(void) {
    if (is_child) {
        if (begun) collect_iteration_results();
        shared->arrays = hash_arrays(shared->hashes);
        shared->done = 1;
        _exit(0);
    }
    if (!way_count || forked_for != weft_construct.id) /* of the region around the task that this loop is part of */
        return;
    for (int n = 0; n < way_count; n++) {
        shared = ways[n].shared;
        locations = (unsigned char *)shared + (ways[n].size - count_location_bytes());
        if (wait_for_verification(ways[n].child)) compare_results();
        munmap(shared, ways[n].size);
    }
    way_count = 0;
}

/* --- asynchronous reductions --- */

static struct groups groups;

/* At the end of a loop with asynchronous reductions: guard their variables, whose values are partial until their group
 * has completed. */
void guard_partial_reductions(void) {
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        add_memory_to_group(&groups, weft_construct.group, reduction->low, reduction->high);
        set_cell_states(reduction->low, reduction->high, GUARDED);
    }
}

void weft_check_reduction_start(int construct_id, int group_id) {
    start_group(&groups, construct_id, group_id, "reduction-start", "reduction-twice");
}

static void unguard_reduction(uintptr_t low, uintptr_t high) { set_cell_states(low, high, now.cur); }

void weft_check_reduction_wait(int construct_id, int group_id) {
    complete_group(&groups, construct_id, group_id, "reduction-wait", unguard_reduction);
}

/* --- of processors in turn (turns.c): each begins with the neutral element --- */

static size_t part_bytes(const struct reduction *reduction) {
    return (size_t)reduction->count * size_of(reduction->type) + reduction->location_bytes;
}

/* Return how many bytes all reduction variables of the loop take, with the index variables of MAXLOC and MINLOC. */
size_t count_reduction_bytes(void) {
    size_t n = 0;
    for (int i = 0; i < weft_construct.reduction_count; i++) n += part_bytes(&weft_construct.reductions[i]);
    return n;
}

/* Set all reduction variables of the loop to the neutral element of their operation. */
void set_reductions_to_neutral(void) {
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        for (int64_t k = 0; k < reduction->count; k++)
            store_value((char *)reduction->low + (size_t)k * size_of(reduction->type), reduction->type,
                        get_neutral_value(reduction));
    }
}

/* Copy the values and locations of all reduction variables to a buffer of count_reduction_bytes(). */
void copy_reductions_to(void *buffer) {
    char *at = buffer;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        size_t values = part_bytes(reduction) - reduction->location_bytes;
        memcpy(at, (void *)reduction->low, values);
        if (reduction->location_bytes) memcpy(at + values, reduction->location, reduction->location_bytes);
        at += part_bytes(reduction);
    }
}

/* Set the values and locations of all reduction variables from a buffer. */
void copy_reductions_from(const void *buffer) {
    const char *at = buffer;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        size_t values = part_bytes(reduction) - reduction->location_bytes;
        memcpy((void *)reduction->low, at, values);
        if (reduction->location_bytes) memcpy(reduction->location, at + values, reduction->location_bytes);
        at += part_bytes(reduction);
    }
}

/* Combine the reductions in the buffer `part` into those in the buffer `into`, each by its operation; the location of a
 * better extreme value goes along. */
void combine_reduction_buffers(void *into, const void *part) {
    char *to = into;
    const char *from = part;
    for (int i = 0; i < weft_construct.reduction_count; i++) {
        const struct reduction *reduction = &weft_construct.reductions[i];
        size_t size = size_of(reduction->type), values = (size_t)reduction->count * size;
        for (int64_t k = 0; k < reduction->count; k++) {
            value had = load_value(to + (size_t)k * size, reduction->type);
            value now_has =
                combine_values(reduction->operation, had, load_value(from + (size_t)k * size, reduction->type));
            store_value(to + (size_t)k * size, reduction->type, now_has);
            if (reduction->location_bytes && now_has != had)
                memcpy(to + values, from + values, reduction->location_bytes);
        }
        to += part_bytes(reduction);
        from += part_bytes(reduction);
    }
}

double reduction_value(const struct reduction *reduction) {
    return (double)creall(load_value((void *)reduction->low, reduction->type));
}
