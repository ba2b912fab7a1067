/* Target constructs, and what the library does with devices: there is one, number 0; the host is number 1. */
#include "openmp.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define HOST 1
enum { FIRSTPRIVATE = 12 };

static int device; /* the default one */

/* In calls of the library -1 is the host, too, since OpenMP 5.2. */
static bool names_host(int d) { return d == HOST || d == -1; }

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
    me->on_device = true;
    me->device_frame = frame;
    me->target = place;
    fn(given);
    me->on_device = was;
    me->device_frame = was_frame;
    me->target = was_target;
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
    bool was_explicit = set_task_explicit(false);
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
    set_task_explicit(was_explicit);
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
    if (flags & NOWAIT || depend) run_target_task(run_target, &t, all.place, BY_TARGET, flags & NOWAIT, depend);
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
    if (c->flags & NOWAIT || depend) run_target_task(copies, c, c->all->place, BY_COPY, c->flags & NOWAIT, depend);
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

/* A function of the host's whose address a target region calls: here it has the same one on the device. */
void *GOMP_target_map_indirect_ptr(void *p) { return p; }

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

void *omp_target_alloc(size_t n, int d) { return names_host(d) ? malloc(n) : memory_of_device(16, n); }
void omp_target_free(void *p, int d) { (void)d, free(p); }
int omp_target_is_present(const void *p, int d) { return names_host(d) || devices_has((uintptr_t)p); }
int omp_target_is_accessible(const void *p, size_t size, int d) {
    return (void)p, (void)size, names_host(d) || &weft_omp_one_memory;
}
/* Both copies have one address here. */
void *omp_get_mapped_ptr(const void *p, int d) { return omp_target_is_present(p, d) ? (void *)(uintptr_t)p : NULL; }

/* No memory of the program's own can be another one's copy here. */
int omp_target_associate_ptr(const void *host, const void *of, size_t size, size_t at, int d) {
    (void)host, (void)of, (void)size, (void)at, (void)d;
    return EINVAL;
}
int omp_target_disassociate_ptr(const void *p, int d) { return (void)p, (void)d, EINVAL; }

/* A copy between devices reads or writes one side's copy of what is mapped. */
static void touched(const void *p, size_t n, bool write, int d, uint32_t place) {
    bool was = me->on_device;
    if (!now.devices || (!names_host(d) && !devices_has((uintptr_t)p))) return;
    me->on_device = !names_host(d);
    devices_access((uintptr_t)p, n, write, place);
    me->on_device = was;
}

/* A call that copies or fills. */
struct transfer {
    void *to;
    const void *from; /* NULL: it fills */
    size_t element; /* bytes; where it has no dimensions: of all */
    int value, dimensions;
    const size_t *volume, *to_at, *from_at, *to_size, *from_size;
    int to_device, from_device;
    uint32_t place;
    bool beside; /* what others do meanwhile is compared with it */
};

static void used(const struct transfer *t, const void *p, size_t n, bool write) {
    touched(p, n, write, write ? t->to_device : t->from_device, t->place);
    if (t->beside && n) check_range_access((uintptr_t)p, n, write, t->place);
}

static void copied(const struct transfer *t, void *to, const void *from, size_t n) {
    used(t, from, n, false), used(t, to, n, true);
    memcpy(to, from, n);
    devices_remember();
}

/* The part of a box below one of its dimensions. */
static void copy_box(char *to, const char *from, const struct transfer *t, int dimension) {
    size_t to_row = t->element, from_row = t->element;
    for (int d = dimension + 1; d < t->dimensions; d++) {
        to_row *= t->to_size[d];
        from_row *= t->from_size[d];
    }
    to += t->to_at[dimension] * to_row;
    from += t->from_at[dimension] * from_row;
    if (dimension + 1 == t->dimensions) {
        copied(t, to, from, t->volume[dimension] * t->element);
        return;
    }
    for (size_t i = 0; i < t->volume[dimension]; i++) copy_box(to + i * to_row, from + i * from_row, t, dimension + 1);
}

static void transfer(void *data) {
    const struct transfer *t = data;
    if (t->dimensions) {
        copy_box(t->to, t->from, t, 0);
    } else if (t->from) {
        copied(t, t->to, t->from, t->element);
    } else {
        used(t, t->to, t->element, true);
        memset(t->to, t->value, t->element);
        devices_remember();
    }
}

/* The same as a task that comes after what its objects of depend name. */
static void transfer_beside(struct transfer *t, int count, void *objects) {
    t->beside = true;
    void *depend[count > 0 ? count + 5 : 1];
    bool any = count > 0 && objects;
    if (any) memcpy(depend, (void *[]){NULL, (void *)(intptr_t)count, NULL, NULL, NULL}, 5 * sizeof *depend);
    for (int i = 0; any && i < count; i++) depend[5 + i] = (char *)objects + (size_t)i * 2 * sizeof(void *);
    run_target_task(transfer, t, t->place, BY_COPY, true, any ? depend : NULL);
}

static struct transfer whole(void *to, const void *from, size_t n, size_t to_at, size_t from_at, int to_device,
                             int from_device, uint32_t place) {
    return (struct transfer){.to = (char *)to + to_at,
                             .from = (const char *)from + from_at,
                             .element = n,
                             .to_device = to_device,
                             .from_device = from_device,
                             .place = place};
}

int omp_target_memcpy(void *to, const void *from, size_t n, size_t to_at, size_t from_at, int to_device,
                      int from_device) {
    struct transfer t = whole(to, from, n, to_at, from_at, to_device, from_device, place_of(PLACE));
    return transfer(&t), 0;
}
int omp_target_memcpy_async(void *to, const void *from, size_t n, size_t to_at, size_t from_at, int to_device,
                            int from_device, int count, void *objects) {
    struct transfer t = whole(to, from, n, to_at, from_at, to_device, from_device, place_of(PLACE));
    return transfer_beside(&t, count, objects), 0;
}

#define BOX                                                                                                            \
    void *to, const void *from, size_t element, int dimensions, const size_t *volume, const size_t *to_at,             \
        const size_t *from_at, const size_t *to_size, const size_t *from_size, int to_device, int from_device

static int box_of(struct transfer *t, BOX, uint32_t place) {
    *t = (struct transfer){.to = to,
                           .from = from,
                           .element = element,
                           .dimensions = dimensions,
                           .volume = volume,
                           .to_at = to_at,
                           .from_at = from_at,
                           .to_size = to_size,
                           .from_size = from_size,
                           .to_device = to_device,
                           .from_device = from_device,
                           .place = place};
    if (!to && !from) return INT_MAX;
    return dimensions < 1 ? EINVAL : 0;
}

int omp_target_memcpy_rect(BOX) {
    struct transfer t;
    int answer = box_of(&t, to, from, element, dimensions, volume, to_at, from_at, to_size, from_size, to_device,
                        from_device, place_of(PLACE));
    if (!answer) transfer(&t);
    return answer;
}
int omp_target_memcpy_rect_async(BOX, int count, void *objects) {
    struct transfer t;
    int answer = box_of(&t, to, from, element, dimensions, volume, to_at, from_at, to_size, from_size, to_device,
                        from_device, place_of(PLACE));
    if (!answer) transfer_beside(&t, count, objects);
    return answer;
}

void *omp_target_memset(void *to, int value, size_t n, int d) {
    struct transfer t = {.to = to, .value = value, .element = n, .to_device = d, .place = place_of(PLACE)};
    return transfer(&t), to;
}
void *omp_target_memset_async(void *to, int value, size_t n, int d, int count, void *objects) {
    struct transfer t = {.to = to, .value = value, .element = n, .to_device = d, .place = place_of(PLACE)};
    return transfer_beside(&t, count, objects), to;
}

/* --- how devices are called --------------------------------------------------------------------------------------- */

#define INVALID (-4)
static const char *const uids[] = {"WEFT_DEVICE", "WEFT_HOST"};

const char *omp_get_uid_from_device(int d) { return names_host(d) ? uids[HOST] : d == 0 ? uids[0] : NULL; }
int omp_get_device_from_uid(const char *uid) {
    for (int d = 0; d <= HOST; d++)
        if (!strcmp(uid, uids[d])) return d;
    return INVALID;
}
int omp_get_device_from_uid_(const char *uid, size_t size) {
    for (int d = 0; d <= HOST; d++)
        if (size == strlen(uids[d]) && !memcmp(uid, uids[d], size)) return d;
    return INVALID;
}
void omp_get_uid_from_device_(const char **to, size_t *size, int d) { TEXT(omp_get_uid_from_device(d)); }
void omp_get_uid_from_device_8_(const char **to, size_t *size, int64_t d) { TEXT(omp_get_uid_from_device((int)d)); }
