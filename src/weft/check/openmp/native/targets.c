/* Target constructs, and what the library does with devices: there is one, number 0; the host is number 1. */
#include "openmp.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define HOST 1
enum { FIRSTPRIVATE = 12 };

static int device; /* the default one */

/* A program that requires one memory is linked with this name. */
extern char weft_omp_one_memory __attribute__((weak));

static bool is_host(int d) {
    if (d == -1) d = device;
    return d != 0 || &weft_omp_one_memory || me->on_device;
}

static void run_on_device(void (*fn)(void *), void **given, uint32_t place, uintptr_t frame) {
    bool was = me->on_device;
    uintptr_t was_frame = me->device_frame;
    uint32_t was_target = me->target;
    me->on_device = true, me->device_frame = frame, me->target = place;
    fn(given);
    me->on_device = was, me->device_frame = was_frame, me->target = was_target;
    devices_remember();
}

/* Items whose copies are made later: at the end of a data region, or when a construct with nowait is waited for. */
struct data_region {
    struct items items;
    void (*ends)(const struct items *);
    struct data_region *outer;
};

static void *kept_of(const void *p, size_t size) {
    void *q = malloc(size ? size : 1);
    if (!q) abort();
    return memcpy(q, p, size);
}

static void keep(struct data_region **list, const struct items *all, void (*ends)(const struct items *)) {
    size_t n = all->count;
    struct data_region *r = malloc(sizeof *r);
    if (!r) abort();
    *r =
        (struct data_region){{n, kept_of(all->host, n * sizeof *all->host), kept_of(all->sizes, n * sizeof *all->sizes),
                              kept_of(all->kinds, n * sizeof *all->kinds), all->place},
                             ends,
                             *list};
    *list = r;
}

static void end_of(struct data_region **list) {
    struct data_region *r = *list;
    *list = r->outer;
    if (r->items.count) r->ends(&r->items);
    free(r->items.host), free((void *)r->items.sizes), free((void *)r->items.kinds), free(r);
}

static struct data_region *pending; /* of constructs with nowait */

void targets_done(void) {
    while (pending) end_of(&pending);
}

bool targets_pend(uintptr_t a) {
    for (const struct data_region *r = pending; r; r = r->outer)
        for (size_t i = 0; i < r->items.count; i++)
            if (a - (uintptr_t)r->items.host[i] < r->items.sizes[i]) return true;
    return false;
}

static void leaves_region(const struct items *all) { devices_leave(all, true); }
static void leaves_data(const struct items *all) { devices_leave(all, false); }

enum { NOWAIT = 1, EXIT = 2 };

static void ends_now_or_later(const struct items *all, unsigned flags, void (*ends)(const struct items *)) {
    if (flags & NOWAIT) keep(&pending, all, ends);
    else ends(all);
}

struct target {
    void (*fn)(void *);
    void **given;
    const struct items *all;
    unsigned flags;
    uintptr_t frame;
    bool on_host;
};

static void run_target(void *data) {
    const struct target *t = data;
    uintptr_t was_frame = me->target_frame;
    me->target_frame = t->frame;
    if (t->on_host) {
        t->fn(t->given);
    } else {
        targets_done();
        devices_enter(t->all);
        run_on_device(t->fn, t->given, t->all->place, t->frame);
        ends_now_or_later(t->all, t->flags, leaves_region);
    }
    me->target_frame = was_frame;
}

void GOMP_target_ext(int d, void (*fn)(void *), size_t count, void **host, size_t *sizes, unsigned short *kinds,
                     unsigned flags, void **depend, void **args) {
    (void)args;
    const struct items all = {count, host, sizes, kinds, place_of(BEGINNING(fn))};
    void *given[count + 1], *copies[count + 1];
    size_t copied = 0;
    for (size_t i = 0; i < count; i++) {
        given[i] = host[i];
        if ((kinds[i] & 0xff) != FIRSTPRIVATE) continue;
        size_t align = (size_t)1 << (kinds[i] >> 8);
        copies[copied] = memory_of_device(align, sizes[i]);
        if (now.devices) devices_access((uintptr_t)host[i], sizes[i], false, all.place);
        given[i] = memcpy(copies[copied++], host[i], sizes[i]);
    }
    told_construct(all.place, "region", 0);
    struct target t = {fn, given, &all, flags, FRAME, is_host(d)};
    if (flags & NOWAIT || depend) task_of_target(run_target, &t, all.place, BY_TARGET, flags & NOWAIT, depend);
    else run_target(&t);
    while (copied) free(copies[--copied]);
}

void GOMP_target_data_ext(int d, size_t n, void **host, size_t *sizes, unsigned short *kinds) {
    const struct items all = {is_host(d) ? 0 : n, host, sizes, kinds, place_of(PLACE)};
    told_construct(all.place, "region", 0);
    targets_done();
    keep(&me->data_regions, &all, leaves_region);
    devices_enter(&all);
}

void GOMP_target_end_data(void) {
    targets_done();
    if (me->data_regions) end_of(&me->data_regions);
}

struct data_copy {
    const struct items *all;
    unsigned flags;
    enum copying when;
};

static void copies(void *data) {
    const struct data_copy *c = data;
    if (c->flags & NOWAIT) devices_touch(c->all, c->when);
    if (c->when == ENTERS) devices_enter(c->all);
    else ends_now_or_later(c->all, c->flags, c->when == LEAVES ? leaves_data : devices_update);
}

static void copy_now_or_beside(struct data_copy *c, void **depend) {
    targets_done();
    told_construct(c->all->place, "region", 0);
    if (c->flags & NOWAIT || depend) task_of_target(copies, c, c->all->place, BY_COPY, c->flags & NOWAIT, depend);
    else copies(c);
}

void GOMP_target_update_ext(int d, size_t n, void **host, size_t *sizes, unsigned short *kinds, unsigned flags,
                            void **depend) {
    const struct items all = {n, host, sizes, kinds, place_of(PLACE)};
    if (!is_host(d)) copy_now_or_beside(&(struct data_copy){&all, flags, UPDATES}, depend);
}

void GOMP_target_enter_exit_data(int d, size_t n, void **host, size_t *sizes, unsigned short *kinds, unsigned flags,
                                 void **depend) {
    const struct items all = {n, host, sizes, kinds, place_of(PLACE)};
    if (!is_host(d)) copy_now_or_beside(&(struct data_copy){&all, flags, flags & EXIT ? LEAVES : ENTERS}, depend);
}

void GOMP_offload_register_ver(unsigned version, const void *table, int type, const void *data) {
    (void)version, (void)table, (void)type, (void)data;
}
void GOMP_offload_unregister_ver(unsigned version, const void *table, int type, const void *data) {
    (void)version, (void)table, (void)type, (void)data;
}

/* --- variables that are declared for the device ------------------------------------------------------------------- */

/* The linker's list of functions and variables, where the compiler has one: address and size of each; the top bit of the
 * size says that a map decides. */
extern const void *const __OFFLOAD_TABLE__[] __attribute__((weak));
#define LINKED ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1))

__attribute__((constructor(102))) static void declared(void) {
    if (!__OFFLOAD_TABLE__ || &weft_omp_one_memory) return;
    const uintptr_t *one = __OFFLOAD_TABLE__[2], *end = __OFFLOAD_TABLE__[3];
    for (; one < end; one += 2)
        if (!(one[1] & LINKED)) devices_declare(one[0], one[1]);
}

/* --- what programs ask -------------------------------------------------------------------------------------------- */

NUMBER(get_default_device, device)
NUMBER(get_num_devices, HOST)
NUMBER(get_initial_device, HOST)
NUMBER(get_device_num, me->on_device ? 0 : HOST)
NUMBER(is_initial_device, !me->on_device)

void omp_set_default_device(int d) { device = d; }
void omp_set_default_device_(const int *d) { device = *d; }
void omp_set_default_device_8_(const int64_t *d) { device = (int)*d; }

void *omp_target_alloc(size_t n, int d) { return d == HOST ? malloc(n) : memory_of_device(16, n); }
void omp_target_free(void *p, int d) { (void)d, free(p); }
int omp_target_is_present(const void *p, int d) { return d == HOST || devices_has((uintptr_t)p); }

/* No memory of the program's own can be another one's copy here. */
int omp_target_associate_ptr(const void *host, const void *of, size_t size, size_t at, int d) {
    (void)host, (void)of, (void)size, (void)at, (void)d;
    return EINVAL;
}
int omp_target_disassociate_ptr(const void *p, int d) { return (void)p, (void)d, EINVAL; }

/* A copy between devices reads or writes one side's copy of what is mapped. */
static void touched(const void *p, size_t n, bool write, int d, uint32_t place) {
    bool was = me->on_device;
    if (!now.devices || (d != HOST && !devices_has((uintptr_t)p))) return;
    me->on_device = d != HOST;
    devices_access((uintptr_t)p, n, write, place);
    me->on_device = was;
}

static void copied(void *to, const void *from, size_t n, int to_device, int from_device, uint32_t place) {
    touched(from, n, false, from_device, place), touched(to, n, true, to_device, place);
    memcpy(to, from, n);
    devices_remember();
}

int omp_target_memcpy(void *to, const void *from, size_t n, size_t to_at, size_t from_at, int to_device,
                      int from_device) {
    copied((char *)to + to_at, (const char *)from + from_at, n, to_device, from_device, place_of(PLACE));
    return 0;
}

struct box {
    size_t element;
    const size_t *volume, *to_at, *from_at, *to_size, *from_size;
    int to_device, from_device;
    uint32_t place;
};

/* The part of a box below one of its dimensions. */
static void copy_box(char *to, const char *from, const struct box *b, int dimension, int dimensions) {
    size_t to_row = b->element, from_row = b->element;
    for (int d = dimension + 1; d < dimensions; d++) to_row *= b->to_size[d], from_row *= b->from_size[d];
    to += b->to_at[dimension] * to_row, from += b->from_at[dimension] * from_row;
    if (dimension + 1 == dimensions) {
        copied(to, from, b->volume[dimension] * b->element, b->to_device, b->from_device, b->place);
        return;
    }
    for (size_t i = 0; i < b->volume[dimension]; i++)
        copy_box(to + i * to_row, from + i * from_row, b, dimension + 1, dimensions);
}

int omp_target_memcpy_rect(void *to, const void *from, size_t element, int dimensions, const size_t *volume,
                           const size_t *to_at, const size_t *from_at, const size_t *to_size, const size_t *from_size,
                           int to_device, int from_device) {
    if (!to && !from) return INT_MAX;
    if (dimensions < 1) return EINVAL;
    const struct box b = {element, volume, to_at, from_at, to_size, from_size, to_device, from_device, place_of(PLACE)};
    copy_box(to, from, &b, 0, dimensions);
    return 0;
}
