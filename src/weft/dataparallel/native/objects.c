/* Variables, arrays and templates: where they lie and how they are distributed. */
#include "growing.h"
#include "objects.h"

#include "access.h"
#include "block_sites.h"
#include "blocks.h"
#include "cells.h"
#include "copies.h"
#include "findings.h"
#include "loops.h"
#include "ran.h"
#include "scattered.h"
#include "sites.h"
#include "under_way.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct object **table; /* sorted by address, not overlapping */
static int count;
static size_t room;
static struct object *spare, *templates;
static uintptr_t stack_low, stack_high;

uintptr_t weft_lowest_stack = UINTPTR_MAX;

bool on_stack(uintptr_t a) {
    if (!stack_high) {
        pthread_attr_t attributes;
        void *low;
        size_t size;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            pthread_attr_getstack(&attributes, &low, &size);
            stack_low = (uintptr_t)low;
            stack_high = stack_low + size;
            pthread_attr_destroy(&attributes);
        } else {
            stack_high = 1;
        }
    }
    return a - stack_low < stack_high - stack_low;
}

static struct site *opened;

const uintptr_t weft_nowhere = 0;

void open_site(struct site *s) {
    if (s->next) return;
    s->next = opened ? opened : s;
    opened = s;
}

struct site *sites_opened(void) { return opened; }

uint32_t weft_sites_changed, weft_sites_forgotten;

/* Every access is judged again. */
void close_sites(void) {
    weft_sites_changed++;
    weft_sites_forgotten++;
    for (struct site *s = opened, *next; s; s = next) {
        next = s->next == s ? NULL : s->next;
        s->next = NULL;
        s->key = 0;
        s->home = &weft_nowhere;
        s->low = 1;
        s->reach = 0; /* only an access to address 1 passes */
    }
    opened = NULL;
}

void forget_sites(void) {
    close_sites();
    block_sites_forget();
}

/* --- cells --- */

void split4(struct cell *c, uintptr_t a) {
    if (c->written == SPLIT) return;
    for (int i = 0; i < 4; i++) *cell1((a & ~(uintptr_t)3) + i) = *c;
    c->written = SPLIT;
}

void split8(struct cell *c, uintptr_t a) {
    if (c->written == SPLIT) return;
    *cell4(a & ~(uintptr_t)7) = *cell4((a & ~(uintptr_t)7) + 4) = *c;
    c->written = SPLIT;
}

static void mark_part(uintptr_t low, uintptr_t high, stamp_t written) /* within a granule of 8 */
{
    split8(cell8(low), low);
    while (low < high)
        if (low % 4 == 0 && high - low >= 4) {
            *cell4(low) = (struct cell){written, 0};
            low += 4;
        } else {
            split4(cell4(low), low);
            *cell1(low++) = (struct cell){written, 0};
        }
}

/* Give all cells of [low, high) a state. */
void mark(uintptr_t low, uintptr_t high, stamp_t written) {
    uintptr_t first = (low + 7) & ~(uintptr_t)7;
    if (first > high) first = high;
    if (low < first) mark_part(low, first, written);
    for (low = first; low + 8 <= high;) { /* the cells of what lies between two folds are one row */
        uintptr_t fold = FOLD + 1 - (low & FOLD), bytes = (high - low) & ~(uintptr_t)7;
        if (bytes > fold) bytes = fold;
        struct cell *c = cell8(low);
        for (low += bytes; bytes; bytes -= 8) *c++ = (struct cell){written, 0};
    }
    if (low < high) mark_part(low, high, written);
}

/* --- the table --- */

static int first_above(uintptr_t a) /* index of the first object whose high is above a */
{
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (table[middle]->high > a) high = middle;
        else low = middle + 1;
    }
    return low;
}

struct object *object_at(uintptr_t a) {
    int i = first_above(a);
    return i < count && table[i]->low <= a ? table[i] : NULL;
}

struct object *object_after(uintptr_t a) {
    int i = first_above(a);
    return i < count ? table[i] : NULL;
}

/* What lies around an address between the objects; around an object it is the object. */
void object_gap(uintptr_t a, uintptr_t *low, uintptr_t *high) {
    int i = first_above(a);
    if (i < count && table[i]->low <= a) {
        *low = table[i]->low;
        *high = table[i]->high;
        return;
    }
    *low = i ? table[i - 1]->high : 1;
    *high = i < count ? table[i]->low : UINTPTR_MAX / 2;
}

struct object *object_of(int data, const void *base) {
    if (base) return object_at((uintptr_t)base);
    for (struct object *o = templates; o; o = o->next_free)
        if (o->first_data == data) return o;
    for (int i = 0; i < count; i++)
        if (table[i]->data == data) return table[i];
    return NULL;
}

static void find_lowest_stack(void) {
    weft_lowest_stack = UINTPTR_MAX;
    for (int i = 0; i < count; i++)
        if (table[i]->on_stack && table[i]->low < weft_lowest_stack) weft_lowest_stack = table[i]->low;
}

static void drop(int i) {
    struct object *o = table[i];
    /* What is aligned with it keeps its coordinates: the object itself is kept then. */
    bool used = false;
    copies_forget(o);
    for (int k = 0; k < count; k++) used |= k != i && table[k]->root == o;
    memmove(table + i, table + i + 1, sizeof *table * (size_t)(--count - i));
    if (!used && o != here.on) {
        scattered_forget(o);
        o->next_free = spare;
        spare = o;
    }
    forget_sites();
}

static void remove_in(uintptr_t low, uintptr_t high) {
    int i = first_above(low);
    bool stack = false;
    while (i < count && table[i]->low < high) {
        stack |= table[i]->on_stack;
        drop(i);
    }
    if (stack) find_lowest_stack();
}

void object_drop(struct object *o) { remove_in(o->low, o->low + 1); }

/* The function whose frame lies below `bottom` has returned. */
void objects_leave(uintptr_t bottom) {
    for (int i = 0; i < count;)
        if (table[i]->on_stack && table[i]->low < bottom) drop(i);
        else i++;
    find_lowest_stack();
}

static struct object *fresh(void) {
    struct object *o = spare;
    if (o) spare = o->next_free;
    else o = malloc(sizeof *o);
    if (o) memset(o, 0, sizeof *o);
    return o;
}

struct object *object_insert(int data, uintptr_t low, size_t bytes) {
    if (bytes == 0) bytes = 1;
    remove_in(low, low + bytes);
    under_way_forget(low, low + bytes);
    GROW(table, (size_t)count, room, 256);
    struct object *o = fresh();
    o->low = low;
    o->high = low + bytes;
    o->data = o->first_data = data;
    o->on_stack = on_stack(low);
    if (o->on_stack && low < weft_lowest_stack) weft_lowest_stack = low;
    int i = first_above(low);
    memmove(table + i + 1, table + i, sizeof *table * (size_t)(count++ - i));
    table[i] = o;
    forget_sites();
    return o;
}

void object_shape(struct object *o, size_t element, int rank, const int64_t lower[], const int64_t extent[],
                  int order) {
    o->array = true;
    o->element = element;
    o->rank = rank;
    o->order = order;
    int64_t stride = (int64_t)element;
    for (int k = 0; k < rank; k++) {
        int d = order == WEFT_ORDER_C ? rank - 1 - k : k;
        o->lower[d] = lower ? lower[d] : 0;
        o->extent[d] = extent[d];
        o->stride[d] = stride;
        stride *= extent[d] > 0 ? extent[d] : 1;
        o->shadow.low[d] = o->shadow.high[d] = 1;
    }
}

static size_t bytes_of(size_t element, int rank, const int64_t extent[]) {
    for (int d = 0; d < rank; d++) element *= extent[d] > 0 ? (size_t)extent[d] : 0;
    return element;
}

void weft_check_data(int data, const void *base, size_t bytes) {
    if (now.off || !base) return;
    struct object *o = object_at((uintptr_t)base);
    if (o && o->low == (uintptr_t)base && o->high == o->low + bytes && o->data == data) return;
    o = object_insert(data, (uintptr_t)base, bytes);
    o->element = bytes;
}

/* The extents with an unknown first one filled in from what lies at base; false: nothing is known. */
static bool whole(const void *base, size_t element, int rank, const int64_t extent[], int64_t known[]) {
    memcpy(known, extent, sizeof *known * (size_t)rank);
    if (extent[0] != 0) return true;
    const struct object *o = object_at((uintptr_t)base);
    uintptr_t low, high = o ? o->high : 0;
    size_t row = bytes_of(element, rank - 1, extent + 1);
    if (row == 0 || (!o && !block_around((uintptr_t)base, &low, &high))) return false;
    known[0] = (int64_t)((high - (uintptr_t)base) / row);
    return known[0] > 0;
}

void weft_check_array(int data, const void *base, size_t element, int rank, const int64_t lower[],
                      const int64_t extent[], int order) {
    int64_t known[WEFT_MAX_RANK];
    if (now.off || !base || rank < 1 || rank > WEFT_MAX_RANK || !whole(base, element, rank, extent, known)) return;
    object_shape(object_insert(data, (uintptr_t)base, bytes_of(element, rank, known)), element, rank, lower, known,
                 order);
}

void weft_check_argument(int data, const void *base, size_t element, int rank, const int64_t lower[],
                         const int64_t extent[], int order) {
    int64_t known[WEFT_MAX_RANK];
    if (now.off || !base || rank < 1 || rank > WEFT_MAX_RANK) return;
    struct object *o = object_at((uintptr_t)base);
    if (!o) {
        weft_check_array(data, base, element, rank, lower, extent, order);
        return;
    }
    if (o->low != (uintptr_t)base) /* a part of an array */
        return;
    o->data = data;
    if (!whole(base, element, rank, extent, known)) return;
    if (!o->array) object_shape(o, element, rank, lower, known, order);
    /* the same shape with other bounds: the program's indices are those of the newest name */
    bool same = o->rank == rank && o->order == order && !o->distributed;
    for (int d = 0; same && d < rank; d++) same = o->extent[d] == known[d];
    for (int d = 0; same && d < rank && lower; d++) o->lower[d] = lower[d];
}

void weft_check_clear(void *base, size_t bytes) {
    if (now.off || !base) return;
    memset(base, POISON, bytes);
    mark((uintptr_t)base, (uintptr_t)base + bytes, here.started ? LOCAL : UNINITIALISED);
}

void weft_check_local(void *base, size_t bytes) {
    if (!now.off && base) mark((uintptr_t)base, (uintptr_t)base + bytes, now.cur);
}

/* Inside an iteration only a private variable belongs to it; what else was written by code without hooks is not told
 * from what was there before. */
void weft_check_written(const void *base, size_t bytes) {
    if (now.off || !base) return;
    uintptr_t low = (uintptr_t)base;
    bool own = !here.started;
    for (int i = 0; i < here.private_count && !own; i++)
        own = low - here.privates[i].low < here.privates[i].high - here.privates[i].low;
    mark(low, low + bytes, own ? now.cur : 0);
}

/* --- distribution --- */

static struct object *template_of(int data) {
    for (struct object *o = templates; o; o = o->next_free)
        if (o->first_data == data) return o;
    struct object *o = malloc(sizeof *o);
    if (!o) abort();
    memset(o, 0, sizeof *o);
    o->data = o->first_data = data;
    o->next_free = templates;
    templates = o;
    return o;
}

void weft_check_template(int data, int rank, const int64_t lower[], const int64_t extent[]) {
    if (now.off || rank > WEFT_MAX_RANK) return;
    struct object *o = template_of(data);
    object_shape(o, 0, rank, lower, extent, WEFT_ORDER_C);
    o->root = o;
}

/* A distributed array begins without values: its memory is the processors' own, static or not. */
static void distributed(struct object *o) {
    if (!o->distributed && o->low)
        for (uintptr_t a = o->low & ~(uintptr_t)7; a < o->high; a += 8)
            if (cell8(a)->written == 0 && a >= o->low && a + 8 <= o->high) cell8(a)->written = UNINITIALISED;
    o->distributed = true;
    static uint64_t versions;
    o->mapped++;
    o->version = ++versions;
    o->renewed_at = o->begun_at = 0;
    forget_sites();
}

void weft_check_distribute(int construct, int data, const void *base, int rank, const int kinds[]) {
    weft_check_distribute_onto(construct, data, base, rank, kinds, 0, 0);
}

void weft_check_distribute_onto(int construct, int data, const void *base, int rank, const int kinds[], int tasks,
                                int64_t task) {
    if (now.off) return;
    struct object *o = object_of(data, base);
    if (!o || rank > WEFT_MAX_RANK) {
        usage_error("unknown-array", construct, data);
        return;
    }
    tick();
    ran(construct);
    o->root = o;
    o->tasks = tasks;
    o->task = task;
    o->deferred = false;
    for (int d = 0; d < rank; d++) {
        o->deferred |= kinds[d] == WEFT_LATER;
        o->kinds[d] = kinds[d] == WEFT_LATER ? WEFT_WHOLE : kinds[d];
        if (kinds[d] != WEFT_INDIRECT && kinds[d] != WEFT_DERIVED) {
            free(o->owner[d]);
            o->owner[d] = NULL;
        }
        if (kinds[d] == WEFT_GENBLOCK && o->blocks[d]) {
            double sum = 0;
            for (int64_t k = 0; k < o->block_count[d]; k++) sum += o->blocks[d][k];
            if ((int64_t)sum != o->extent[d])
                findings_parameter("genblock", construct, data, d, (int64_t)sum, o->extent[d], o->extent[d]);
        }
        o->map[d] = (struct term){d, 1, 0};
    }
    distributed(o);
    /* redistribute: what is aligned with it moves along */
    for (int i = 0; i < count; i++)
        if (table[i]->root == o && table[i] != o) {
            table[i]->renewed_at = table[i]->begun_at = 0;
            table[i]->tasks = tasks;
            table[i]->task = task;
        }
}

void weft_check_blocks(int data, const void *base, int dimension, int64_t n, const double sizes[]) {
    struct object *o = now.off ? NULL : object_of(data, base);
    if (!o || dimension < 0 || dimension >= WEFT_MAX_RANK) return;
    free(o->blocks[dimension]);
    o->blocks[dimension] = malloc(sizeof(double) * (size_t)(n > 0 ? n : 1));
    if (o->blocks[dimension]) memcpy(o->blocks[dimension], sizes, sizeof(double) * (size_t)n);
    o->block_count[dimension] = n;
}

/* A dimension that follows dimension k of an array, where that is itself placed at coefficient[k] * index[axis[k]] +
 * offset[k]: the two as one. */
struct term composed(struct term m, int rank, const int axis[], const int64_t coefficient[], const int64_t offset[]) {
    if (m.axis < 0 || m.axis >= rank) return m;
    int k = m.axis;
    int64_t at = m.coefficient * offset[k] + m.offset;
    if (axis[k] >= 0) return (struct term){axis[k], m.coefficient * coefficient[k], at};
    return axis[k] == WEFT_CONSTANT ? (struct term){WEFT_CONSTANT, 0, at} : (struct term){WEFT_ALL, 0, 0};
}

void weft_check_align(int construct, int data, const void *base, int target, const void *target_base, int rank,
                      const int axis[], const int64_t coefficient[], const int64_t offset[]) {
    if (now.off) return;
    struct object *o = object_of(data, base), *t = object_of(target, target_base);
    if (!o || !t || !t->root) {
        usage_error(o ? "undistributed" : "unknown-array", construct, o ? target : data);
        return;
    }
    tick();
    ran(construct);
    struct term map[WEFT_MAX_RANK];
    for (int d = 0; d < t->root->rank; d++) { /* compose: this -> target -> root */
        struct term m = t->map[d];
        if (t == t->root) m = (struct term){d, 1, 0};
        map[d] = composed(m, rank, axis, coefficient, offset);
    }
    for (int k = 0; k < rank && k < t->rank; k++)
        if (axis[k] >= 0 && axis[k] < o->rank) {
            int64_t ends[2] = {o->lower[axis[k]], o->lower[axis[k]] + o->extent[axis[k]] - 1};
            for (int end = 0; end < 2; end++) {
                int64_t x = coefficient[k] * ends[end] + offset[k], high = t->lower[k] + t->extent[k] - 1;
                if (x < t->lower[k] || x > high) findings_parameter("align", construct, data, k, x, t->lower[k], high);
            }
        }
    memcpy(o->map, map, sizeof map);
    o->root = t->root;
    o->tasks = t->tasks;
    o->task = t->task;
    distributed(o);
}

void weft_check_shadow(int data, const void *base, int rank, const int64_t low[], const int64_t high[]) {
    struct object *o = now.off ? NULL : object_of(data, base);
    for (int d = 0; o && d < rank && d < WEFT_MAX_RANK; d++) {
        o->shadow.low[d] = low[d];
        o->shadow.high[d] = high[d];
    }
}

void index_of(const struct object *o, uintptr_t a, int64_t index[]) {
    int64_t at = o->element ? (int64_t)(a - o->low) / (int64_t)o->element : 0;
    for (int k = 0; k < o->rank; k++) {
        int d = o->order == WEFT_ORDER_C ? o->rank - 1 - k : k;
        int64_t n = o->extent[d] > 0 ? o->extent[d] : 1;
        bool outermost = k == o->rank - 1;
        index[d] = o->lower[d] + (outermost ? at : at % n);
        at /= n;
    }
}

/* Times begin anew: what has happened happened at FIRST_STAMP. */
void objects_renumber(void) {
    for (int i = 0; i < count; i++) {
        stamp_t *times[] = {&table[i]->renewed_at,   &table[i]->begun_at,   &table[i]->on_device,
                            &table[i]->actual_at,    &table[i]->got_at,     &table[i]->host_wrote,
                            &table[i]->device_wrote, &table[i]->local_from, &table[i]->local_to};
        for (size_t k = 0; k < sizeof times / sizeof *times; k++)
            if (*times[k]) *times[k] = FIRST_STAMP;
    }
}
