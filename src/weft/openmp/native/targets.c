/* Target constructs, and what the library does with devices: there is one, number 0; the host is number 1. */
#include "openmp.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define HOST 1
enum { FIRSTPRIVATE = 12 };

static int default_device; /* the default one */

/* In calls of the library -1 is the host, too, since OpenMP 5.2. */
static bool names_host(int d) { return d == HOST || d == -1; }

/* A program that requires one memory is linked with this name. */
extern char weft_omp_one_memory __attribute__((weak));

/* Return whether a device number means the host (-1: the default device). */
static bool is_host(int device_number) {
    if (device_number == -1) device_number = default_device;
    return device_number != 0 || &weft_omp_one_memory || me->on_device;
}

/* Run the body of a target region with the running thread acting as the device; the stack below `frame` is device
 * memory meanwhile. */
static void run_on_device(void (*fn)(void *), void **arguments, uint32_t place, uintptr_t frame) {
    bool was_on_device = me->on_device;
    uintptr_t was_frame = me->device_frame;
    uint32_t was_target = me->target;
    me->on_device = true;
    me->device_frame = frame;
    me->target = place;
    fn(arguments);
    me->on_device = was_on_device;
    me->device_frame = was_frame;
    me->target = was_target;
    remember_written_values();
}

/* Items whose copies are made later: at the end of a data region, or when a construct with nowait is waited for. */
struct data_region {
    struct items items;
    void (*ends)(const struct items *);
    struct data_region *outer;
};

/* Return a heap copy of a memory block. Aborts without memory. */
static void *copy_bytes(const void *source, size_t size) {
    void *copy = malloc(size ? size : 1);
    if (!copy) abort();
    return memcpy(copy, source, size);
}

/* Push a copy of a construct's map items onto a list; `ends` is called with them when the region ends. */
static void push_data_region(struct data_region **list, const struct items *items, void (*ends)(const struct items *)) {
    size_t count = items->count;
    struct data_region *region = malloc(sizeof *region);
    if (!region) abort();
    *region = (struct data_region){{count, copy_bytes(items->host, count * sizeof *items->host),
                                    copy_bytes(items->sizes, count * sizeof *items->sizes),
                                    copy_bytes(items->kinds, count * sizeof *items->kinds), items->place},
                                   ends,
                                   *list};
    *list = region;
}

/* End the innermost data region of a list: call its end function and free it. */
static void end_data_region(struct data_region **list) {
    struct data_region *region = *list;
    *list = region->outer;
    if (region->items.count) region->ends(&region->items);
    free(region->items.host), free((void *)region->items.sizes), free((void *)region->items.kinds), free(region);
}

static struct data_region *pending_targets; /* of constructs with nowait */

/* Do the deferred copies of all `nowait` target constructs, because they are being waited for. */
void finish_pending_targets(void) {
    while (pending_targets) end_data_region(&pending_targets);
}

/* Return whether a `nowait` target construct that was not waited for may still write to an address. */
bool may_pending_target_write(uintptr_t address) {
    for (const struct data_region *region = pending_targets; region; region = region->outer)
        for (size_t i = 0; i < region->items.count; i++)
            if (address - (uintptr_t)region->items.host[i] < region->items.sizes[i]) return true;
    return false;
}

static void leaves_region(const struct items *all) { unmap_items(all, true); }
static void leaves_data(const struct items *all) { unmap_items(all, false); }

enum { NOWAIT = 1, EXIT = 2 };

/* Call `ends` for a construct's map items; with `nowait`, defer that until the construct is waited for. */
static void end_items_now_or_later(const struct items *items, unsigned flags, void (*ends)(const struct items *)) {
    if (flags & NOWAIT) push_data_region(&pending_targets, items, ends);
    else ends(items);
}

struct target {
    void (*fn)(void *);
    void **given;
    const struct items *all;
    unsigned flags;
    uintptr_t frame;
    bool on_host;
};

/* Run a target construct (`data`: a struct target): map its items, run its body on the device, unmap; or just run it on
 * the host. */
static void run_target_construct(void *data) {
    const struct target *target = data;
    uintptr_t was_frame = me->target_frame;
    bool was_explicit = set_task_explicit(false);
    me->target_frame = target->frame;
    if (target->on_host) {
        target->fn(target->given);
    } else {
        finish_pending_targets();
        map_items(target->all);
        run_on_device(target->fn, target->given, target->all->place, target->frame);
        end_items_now_or_later(target->all, target->flags, leaves_region);
    }
    me->target_frame = was_frame;
    set_task_explicit(was_explicit);
}

/* Called by GCC's code for `#pragma omp target`: call `fn` with the addresses in `host`, where firstprivate variables
 * are copied to device memory first. */
void GOMP_target_ext(int device_number, void (*fn)(void *), size_t item_count, void **host, size_t *sizes,
                     unsigned short *kinds, unsigned flags, void **depend, void **args) {
    (void)args;
    const struct items items = {item_count, host, sizes, kinds, place_of(BEGINNING(fn))};
    void *given[item_count + 1], *copy_items[item_count + 1];
    size_t copy_count = 0;
    for (size_t i = 0; i < item_count; i++) {
        given[i] = host[i];
        if ((kinds[i] & 0xff) != FIRSTPRIVATE) continue;
        size_t align = (size_t)1 << (kinds[i] >> 8);
        copy_items[copy_count] = allocate_device_memory(align, sizes[i]);
        if (now.devices) check_mapped_access((uintptr_t)host[i], sizes[i], false, items.place);
        given[i] = memcpy(copy_items[copy_count++], host[i], sizes[i]);
    }
    count_construct_run(items.place, "region", 0);
    struct target target = {fn, given, &items, flags, FRAME, is_host(device_number)};
    if (flags & NOWAIT || depend)
        run_target_task(run_target_construct, &target, items.place, BY_TARGET, flags & NOWAIT, depend);
    else run_target_construct(&target);
    while (copy_count) free(copy_items[--copy_count]);
}

/* Called by GCC's code at the start of `#pragma omp target data`: map its items to the device until
 * GOMP_target_end_data(). */
void GOMP_target_data_ext(int device_number, size_t item_count, void **host, size_t *sizes, unsigned short *kinds) {
    const struct items items = {is_host(device_number) ? 0 : item_count, host, sizes, kinds, place_of(PLACE)};
    count_construct_run(items.place, "region", 0);
    finish_pending_targets();
    push_data_region(&me->data_regions, &items, leaves_region);
    map_items(&items);
}

/* Called by GCC's code for the end of `#pragma omp target data`. */
void GOMP_target_end_data(void) {
    finish_pending_targets();
    if (me->data_regions) end_data_region(&me->data_regions);
}

struct data_copy {
    const struct items *all;
    unsigned flags;
    enum copying when;
};

/* Do the copies of a `target update`, `enter data` or `exit data` (`data`: a struct data_copy). */
static void copy_items(void *data) {
    const struct data_copy *copy = data;
    if (copy->flags & NOWAIT) check_host_side(copy->all, copy->when);
    if (copy->when == ENTERS) map_items(copy->all);
    else end_items_now_or_later(copy->all, copy->flags, copy->when == LEAVES ? leaves_data : update_items);
}

/* Do the copies of a `target update`, `enter data` or `exit data` at once, or as a task if it has `nowait` or
 * `depend`. */
static void copy_now_or_as_task(struct data_copy *copy, void **depend) {
    finish_pending_targets();
    count_construct_run(copy->all->place, "region", 0);
    if (copy->flags & NOWAIT || depend)
        run_target_task(copy_items, copy, copy->all->place, BY_COPY, copy->flags & NOWAIT, depend);
    else copy_items(copy);
}

/* Called by GCC's code for `#pragma omp target update`. */
void GOMP_target_update_ext(int device_number, size_t item_count, void **host, size_t *sizes, unsigned short *kinds,
                            unsigned flags, void **depend) {
    const struct items items = {item_count, host, sizes, kinds, place_of(PLACE)};
    if (!is_host(device_number)) copy_now_or_as_task(&(struct data_copy){&items, flags, UPDATES}, depend);
}

/* Called by GCC's code for `#pragma omp target enter data` and `exit data`. */
void GOMP_target_enter_exit_data(int device_number, size_t item_count, void **host, size_t *sizes,
                                 unsigned short *kinds, unsigned flags, void **depend) {
    const struct items items = {item_count, host, sizes, kinds, place_of(PLACE)};
    if (!is_host(device_number))
        copy_now_or_as_task(&(struct data_copy){&items, flags, flags & EXIT ? LEAVES : ENTERS}, depend);
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

/* Register the `declare target` variables from the linker's table with the device, before the program's own
 * constructors run. */
__attribute__((constructor(102))) static void declare_linked_variables(void) {
    if (!__OFFLOAD_TABLE__ || &weft_omp_one_memory) return;
    const uintptr_t *entry = __OFFLOAD_TABLE__[2], *end = __OFFLOAD_TABLE__[3];
    for (; entry < end; entry += 2)
        if (!(entry[1] & LINKED)) declare_device_variable(entry[0], entry[1]);
}

/* --- what programs ask -------------------------------------------------------------------------------------------- */

NUMBER(get_default_device, default_device)
NUMBER(get_num_devices, HOST)
NUMBER(get_initial_device, HOST)
NUMBER(get_device_num, me->on_device ? 0 : HOST)
NUMBER(is_initial_device, !me->on_device)

void omp_set_default_device(int d) { default_device = d; }
void omp_set_default_device_(const int *d) { default_device = *d; }
void omp_set_default_device_8_(const int64_t *d) { default_device = (int)*d; }

void *omp_target_alloc(size_t n, int d) { return names_host(d) ? malloc(n) : allocate_device_memory(16, n); }
void omp_target_free(void *p, int d) { (void)d, free(p); }
int omp_target_is_present(const void *p, int d) { return names_host(d) || is_address_mapped((uintptr_t)p); }
int omp_target_is_accessible(const void *p, size_t size, int d) {
    return (void)p, (void)size, names_host(d) || &weft_omp_one_memory;
}
/* Both copies have one address here. */
void *omp_get_mapped_ptr(const void *p, int d) { return omp_target_is_present(p, d) ? (void *)(uintptr_t)p : NULL; }

/* OpenMP API: always fails with EINVAL, since no memory of the program can be another one's device copy here. */
int omp_target_associate_ptr(const void *host, const void *device_memory, size_t size, size_t offset,
                             int device_number) {
    (void)host, (void)device_memory, (void)size, (void)offset, (void)device_number;
    return EINVAL;
}
int omp_target_disassociate_ptr(const void *p, int d) { return (void)p, (void)d, EINVAL; }

/* Check a library call's access to mapped memory on the side that `device_number` names, host or device. */
static void check_device_side_access(const void *memory, size_t byte_count, bool is_write, int device_number,
                                     uint32_t place) {
    bool was_on_device = me->on_device;
    if (!now.devices || (!names_host(device_number) && !is_address_mapped((uintptr_t)memory))) return;
    me->on_device = !names_host(device_number);
    check_mapped_access((uintptr_t)memory, byte_count, is_write, place);
    me->on_device = was_on_device;
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

/* Check the read or the write of a memory transfer. */
static void check_transfer_access(const struct transfer *request, const void *memory, size_t byte_count,
                                  bool is_write) {
    check_device_side_access(memory, byte_count, is_write, is_write ? request->to_device : request->from_device,
                             request->place);
    if (request->beside && byte_count) check_range_access((uintptr_t)memory, byte_count, is_write, request->place);
}

/* Copy bytes for a memory transfer, and check its read and its write. */
static void copy_and_check(const struct transfer *request, void *to, const void *from, size_t byte_count) {
    check_transfer_access(request, from, byte_count, false), check_transfer_access(request, to, byte_count, true);
    memcpy(to, from, byte_count);
    remember_written_values();
}

/* Copy the part of a box (omp_target_memcpy_rect) from dimension `dimension` on, recursively. */
static void copy_box(char *target, const char *source, const struct transfer *request, int dimension) {
    size_t to_row = request->element, from_row = request->element;
    for (int inner = dimension + 1; inner < request->dimensions; inner++) {
        to_row *= request->to_size[inner];
        from_row *= request->from_size[inner];
    }
    target += request->to_at[dimension] * to_row;
    source += request->from_at[dimension] * from_row;
    if (dimension + 1 == request->dimensions) {
        copy_and_check(request, target, source, request->volume[dimension] * request->element);
        return;
    }
    for (size_t i = 0; i < request->volume[dimension]; i++)
        copy_box(target + i * to_row, source + i * from_row, request, dimension + 1);
}

/* Execute a memory transfer (`data`: a struct transfer): copy a box, copy bytes, or fill. */
static void run_transfer(void *data) {
    const struct transfer *request = data;
    if (request->dimensions) {
        copy_box(request->to, request->from, request, 0);
    } else if (request->from) {
        copy_and_check(request, request->to, request->from, request->element);
    } else {
        check_transfer_access(request, request->to, request->element, true);
        memset(request->to, request->value, request->element);
        remember_written_values();
    }
}

/* Execute a memory transfer as an asynchronous task with `count` depend objects. */
static void run_transfer_as_task(struct transfer *request, int count, void *objects) {
    request->beside = true;
    void *depend[count > 0 ? count + 5 : 1];
    bool has_dependences = count > 0 && objects;
    if (has_dependences)
        memcpy(depend, (void *[]){NULL, (void *)(intptr_t)count, NULL, NULL, NULL}, 5 * sizeof *depend);
    for (int i = 0; has_dependences && i < count; i++) depend[5 + i] = (char *)objects + (size_t)i * 2 * sizeof(void *);
    run_target_task(run_transfer, request, request->place, BY_COPY, true, has_dependences ? depend : NULL);
}

/* Return the description of a transfer of contiguous bytes. */
static struct transfer make_transfer(void *to, const void *from, size_t byte_count, size_t to_offset,
                                     size_t from_offset, int to_device, int from_device, uint32_t place) {
    return (struct transfer){.to = (char *)to + to_offset,
                             .from = (const char *)from + from_offset,
                             .element = byte_count,
                             .to_device = to_device,
                             .from_device = from_device,
                             .place = place};
}

/* OpenMP API: copy bytes between devices; returns 0. */
int omp_target_memcpy(void *to, const void *from, size_t byte_count, size_t to_offset, size_t from_offset,
                      int to_device, int from_device) {
    struct transfer request =
        make_transfer(to, from, byte_count, to_offset, from_offset, to_device, from_device, place_of(PLACE));
    return run_transfer(&request), 0;
}

/* OpenMP API: copy bytes between devices as a task with `count` depend objects; returns 0. */
int omp_target_memcpy_async(void *to, const void *from, size_t byte_count, size_t to_offset, size_t from_offset,
                            int to_device, int from_device, int count, void *objects) {
    struct transfer request =
        make_transfer(to, from, byte_count, to_offset, from_offset, to_device, from_device, place_of(PLACE));
    return run_transfer_as_task(&request, count, objects), 0;
}

#define BOX                                                                                                            \
    void *to, const void *from, size_t element, int dimensions, const size_t *volume, const size_t *to_at,             \
        const size_t *from_at, const size_t *to_size, const size_t *from_size, int to_device, int from_device

/* Fill in the description of a box transfer. Return 0; EINVAL if there are no dimensions; INT_MAX, the maximum of
 * dimensions, if both pointers are NULL. */
static int fill_box_transfer(struct transfer *request, BOX, uint32_t place) {
    *request = (struct transfer){.to = to,
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

/* OpenMP API: copy a box between devices; returns 0, EINVAL, or INT_MAX as the maximum of dimensions. */
int omp_target_memcpy_rect(BOX) {
    struct transfer request;
    int answer = fill_box_transfer(&request, to, from, element, dimensions, volume, to_at, from_at, to_size, from_size,
                                   to_device, from_device, place_of(PLACE));
    if (!answer) run_transfer(&request);
    return answer;
}

/* OpenMP API: copy a box between devices as a task with `count` depend objects. */
int omp_target_memcpy_rect_async(BOX, int count, void *objects) {
    struct transfer request;
    int answer = fill_box_transfer(&request, to, from, element, dimensions, volume, to_at, from_at, to_size, from_size,
                                   to_device, from_device, place_of(PLACE));
    if (!answer) run_transfer_as_task(&request, count, objects);
    return answer;
}

/* OpenMP API: fill device memory; returns `to`. */
void *omp_target_memset(void *to, int value, size_t byte_count, int device_number) {
    struct transfer request = {
        .to = to, .value = value, .element = byte_count, .to_device = device_number, .place = place_of(PLACE)};
    return run_transfer(&request), to;
}

/* OpenMP API: fill device memory as a task with `count` depend objects; returns `to`. */
void *omp_target_memset_async(void *to, int value, size_t byte_count, int device_number, int count, void *objects) {
    struct transfer request = {
        .to = to, .value = value, .element = byte_count, .to_device = device_number, .place = place_of(PLACE)};
    return run_transfer_as_task(&request, count, objects), to;
}

/* --- how devices are called --------------------------------------------------------------------------------------- */

#define INVALID (-4)
static const char *const uids[] = {"WEFT_DEVICE", "WEFT_HOST"};

const char *omp_get_uid_from_device(int d) { return names_host(d) ? uids[HOST] : d == 0 ? uids[0] : NULL; }

/* OpenMP API: return the number of the device with a unique name; -4 (omp_invalid_device) if there is none. */
int omp_get_device_from_uid(const char *uid) {
    for (int device_number = 0; device_number <= HOST; device_number++)
        if (!strcmp(uid, uids[device_number])) return device_number;
    return INVALID;
}

/* OpenMP API for Fortran: return the number of the device with a unique name of `size` characters; -4 if there is
 * none. */
int omp_get_device_from_uid_(const char *uid, size_t size) {
    for (int device_number = 0; device_number <= HOST; device_number++)
        if (size == strlen(uids[device_number]) && !memcmp(uid, uids[device_number], size)) return device_number;
    return INVALID;
}
void omp_get_uid_from_device_(const char **to, size_t *size, int d) { TEXT(omp_get_uid_from_device(d)); }
void omp_get_uid_from_device_8_(const char **to, size_t *size, int64_t d) { TEXT(omp_get_uid_from_device((int)d)); }
