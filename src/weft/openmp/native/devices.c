/* Target regions: they run on the host, in its memory, and what they would see in memory of their own is kept beside it.
 *
 * A word for each granule that is mapped, in planes like those of the shadow (8 bytes; parts in 4 and 1):
 *
 *      31       30         29           28..26  25..0
 *     +--------+----------+------------+-------+---------------------------------------+
 *     | MAPPED | HOST_OLD | DEVICE_OLD | cause | place of the access, or of the map    |
 *     +--------+----------+------------+-------+---------------------------------------+
 *
 * A write by one side makes the other's copy old; a copy makes the other as good as where it comes from. A read of an old
 * copy is reported. Nothing: both are the same. Where a mapping ends and nothing comes back, HOST_OLD stays.
 * Example: map(to: a), the region writes a[0] at 0x120: MAPPED | HOST_OLD | DEVICE_WROTE | 0x120; the map ends:
 * HOST_OLD | DEVICE_WROTE | 0x120; the host reads a[0]: reported.
 *
 * OpenMP 5.2, 5.8: both copies may share memory, so that no program may rely on one side's copy being older.
 * Libraries write what no hook sees: an old copy of the host counts only while it holds what it held when it became old. */
#include "growing.h"
#include "openmp.h"

#include <string.h>

#define MAPPED 0x80000000u
#define HOST_OLD 0x40000000u
#define DEVICE_OLD 0x20000000u
#define LINE 0x03FFFFFFu
#define CAUSE(word) ((word) >> 26 & 7)
#define FINER 0xFFFFFFFFu
#define FULL 7u /* of the cause: a pointer that is attached, a descriptor: never old */

/* What made a copy old: a write, one over what the other side wrote that was not copied, or a map that copies nothing. */
enum cause { HOST_WROTE = 1, HOST_OVER, DEVICE_WROTE, DEVICE_OVER, NO_VALUE };

static inline uint32_t make_cause(enum cause cause, uint32_t place) {
    return (uint32_t)cause << 26 | (place <= LINE ? place : 0);
}

#define DEVICE_FOLD (2 * TERA - 1)
static inline uint32_t *find_device_word8(uintptr_t address) {
    return (uint32_t *)(DEVICE_WORDS + ((address & DEVICE_FOLD & ~(uintptr_t)7) >> 1));
}
static inline uint32_t *find_device_word4(uintptr_t address) {
    return (uint32_t *)(DEVICE_WORDS + TERA + (address & DEVICE_FOLD & ~(uintptr_t)3));
}
static inline uint32_t *find_device_word1(uintptr_t address) {
    return (uint32_t *)(DEVICE_WORDS + 3 * TERA + ((address & DEVICE_FOLD) << 2));
}
static inline uint8_t *find_remembered_value(uintptr_t address) {
    return (uint8_t *)(DEVICE_WORDS + 11 * TERA + (address & DEVICE_FOLD));
}

/* A range of the host's memory that has a copy. */
struct mapping {
    uintptr_t low, high, wrote_low, wrote_high; /* wrote: by the target region that runs */
    uint64_t count, construct; /* construct: the last one that counted it */
    bool full; /* of a pointer or a descriptor, and of nothing else */
};
#define ALWAYS UINT64_MAX

static struct mapping *mappings; /* by address, none overlaps another */
static size_t mapping_count, mapping_room;
static uintptr_t all_low = UINTPTR_MAX, all_high; /* of all that ever were */
static uint64_t constructs;

#define TO_DEVICE 1u /* of an item's kind */
#define FROM_DEVICE 2u

/* --- mappings ----------------------------------------------------------------------------------------------------- */

/* Return the index of the first mapping that ends after an address. */
static size_t find_mapping_index(uintptr_t address) {
    return count_elements_up_to(mappings, mapping_count, sizeof *mappings, offsetof(struct mapping, high), address);
}

static void extend_mapped_range(const struct mapping *mapping) {
    if (mapping->low < all_low) all_low = mapping->low;
    if (mapping->high > all_high) all_high = mapping->high;
}

/* Return the first mapping that has a part of a range; NULL if there is none. */
static struct mapping *find_mapping(uintptr_t low, uintptr_t high) {
    size_t index = find_mapping_index(low);
    return index < mapping_count && mappings[index].low < high ? &mappings[index] : NULL;
}

/* Insert a mapping of the host range [low, high) into the sorted list and return it. The first mapping also reserves
 * the shadow words. */
static struct mapping *add_mapping(uintptr_t low, uintptr_t high) {
    if (!mapping_room) reserve_memory_at(DEVICE_WORDS, DEVICE_SIZE);
    GROW(mappings, mapping_count, mapping_room, 64);
    size_t index = find_mapping_index(low);
    memmove(mappings + index + 1, mappings + index, (mapping_count - index) * sizeof *mappings);
    mappings[index] = (struct mapping){.low = low, .high = high};
    mapping_count++;
    extend_mapped_range(&mappings[index]);
    return &mappings[index];
}

static void remove_mapping(const struct mapping *mapping) {
    size_t index = (size_t)(mapping - mappings);
    memmove(mappings + index, mappings + index + 1, (--mapping_count - index) * sizeof *mappings);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* Calls `use` for each granule of a range, in parts of 8, 4 or 1 bytes. */
typedef void use_t(uint32_t *word, uintptr_t address, size_t size, const void *of);

/* Copy a shadow word to the words of its smaller parts, which are valid in its place from now on. */
static void split_word(uint32_t *word, uint32_t *parts, int count) {
    if (*word == FINER) return;
    for (int i = 0; i < count; i++) parts[i] = *word;
    *word = FINER;
}

/* Call `use(word, address, size, of)` for each granule of a range: 8, 4 or 1 bytes that share a shadow word. */
static inline __attribute__((always_inline)) void for_each_granule(uintptr_t low, uintptr_t high, use_t *use,
                                                                   const void *of) {
    while (low < high) {
        uint32_t *word = find_device_word8(low);
        if (*word != FINER && low % 8 == 0 && high - low >= 8) {
            use(word, low, 8, of);
            low += 8;
            continue;
        }
        split_word(word, find_device_word4(low & ~(uintptr_t)7), 2);
        word = find_device_word4(low);
        if (*word != FINER && low % 4 == 0 && high - low >= 4) {
            use(word, low, 4, of);
            low += 4;
            continue;
        }
        split_word(word, find_device_word1(low & ~(uintptr_t)3), 4);
        use(find_device_word1(low), low, 1, of);
        low++;
    }
}

/* Save the bytes of a range whose host copy is now stale, to notice later whether something that no hook sees has
 * overwritten them. */
static void save_bytes_of_stale_host(uintptr_t address, size_t size) {
    while (size) { /* the plane begins anew where addresses are folded */
        size_t byte_count = DEVICE_FOLD + 1 - (address & DEVICE_FOLD);
        byte_count = byte_count < size ? byte_count : size;
        memcpy(find_remembered_value(address), (const void *)address, byte_count);
        address += byte_count;
        size -= byte_count;
    }
}

static bool has_remembered_values(uintptr_t address, size_t size) {
    return memcmp(find_remembered_value(address), (const void *)address, size) == 0;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* Callback of for_each_granule() for a map that copies to the device: the device's copy becomes as fresh as the
 * host's. */
static void begin_word_with_value(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size, (void)of;
    *word = MAPPED | (*word & HOST_OLD ? DEVICE_OLD | (*word & ~MAPPED) : 0);
}

/* Callback of for_each_granule() for a map that copies nothing: the device's copy has no value yet. `of` points to the
 * construct's place. */
static void mark_device_copy_valueless(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size;
    if (*word & HOST_OLD) *word |= MAPPED | DEVICE_OLD;
    else *word = MAPPED | DEVICE_OLD | make_cause(NO_VALUE, *(const uint32_t *)of);
}

/* Callback of for_each_granule() for a mapped pointer or array descriptor: its device copy never counts as stale. */
static void begin_pointer_word(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size, (void)of;
    *word = MAPPED | FULL << 26;
}

/* Callback of for_each_granule() for the end of a mapping that copies nothing back: a stale host copy stays stale. */
static void end_word(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size, (void)of;
    *word = *word & HOST_OLD ? *word & ~(MAPPED | DEVICE_OLD) : 0;
}

/* Callback of for_each_granule() for the end of a mapping that copies back: the host gets the device's value, and is
 * stale if that was. */
static void mark_value_copied_back(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)of;
    uint32_t old = *word;
    *word = 0;
    if (!(old & DEVICE_OLD) || CAUSE(old) == HOST_OVER) return;
    *word = HOST_OLD | (old & ~(MAPPED | DEVICE_OLD));
    save_bytes_of_stale_host(address, size);
}

/* Callback of for_each_granule() for `target update to` and map(always, to:): the device gets the host's value. */
static void copy_word_to_device(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size, (void)of;
    if (!(*word & MAPPED) || CAUSE(*word) == FULL) return;
    if (*word & HOST_OLD && CAUSE(*word) != DEVICE_OVER) *word &= ~DEVICE_OLD;
    else *word = MAPPED;
}

/* Callback of for_each_granule() for `target update from` and map(always, from:): the host gets the device's value. */
static void copy_word_from_device(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)of;
    uint32_t old = *word;
    if (!(old & MAPPED) || CAUSE(old) == FULL) return;
    if (!(old & DEVICE_OLD) || CAUSE(old) == HOST_OVER) *word = MAPPED;
    else if (CAUSE(old) == HOST_WROTE) *word &= ~HOST_OLD;
    else {
        *word |= HOST_OLD;
        save_bytes_of_stale_host(address, size);
    }
}

/* Callback of for_each_granule(): the device's copy is up to date. */
static void mark_device_copy_new(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size, (void)of;
    if (*word & MAPPED) *word &= ~DEVICE_OLD;
}

/* Callback of for_each_granule(): neither copy is stale. */
static void clean_word(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    (void)address, (void)size, (void)of;
    *word &= CAUSE(*word) == FULL ? ~0u : MAPPED;
}

/* Forget which copies of a host range are stale, because its memory belongs to a new heap block. */
void forget_copy_states(uintptr_t low, uintptr_t high) {
    if (low < all_low) low = all_low;
    if (high > all_high) high = all_high;
    if (low >= high) return;
    for_each_granule(low, high, clean_word, NULL);
    for (size_t i = find_mapping_index(low); i < mapping_count && mappings[i].low < high; i++)
        mappings[i].wrote_low = mappings[i].wrote_high = 0;
}

/* From now on check each access against the copies on the device. */
static void begin_device_checks(void) {
    now.devices = true;
    set_current_strand(now.current);
}

/* --- what maps say ------------------------------------------------------------------------------------------------ */

enum kind_of_item {
    POINTER = 4,
    DESCRIPTOR = 5,
    DELETE = 7,
    NO_LENGTH = 15, /* of no length: it is as long as what is there */
    RELEASE = 23,
    ALWAYS_POINTER = 29,
    DELETE_SECTION = 31,
    ATTACH = 80,
    DETACH = 81,
    IMPLICITLY = 96,
    FORCED = 128
};

/* Of what no clause names, but the region uses; gcc 12 marks it. */
static bool is_implicit(const struct items *items, size_t i) { return (items->kinds[i] & 0x7c) == IMPLICITLY; }

/* Return the kind of a construct's map item (enum kind_of_item, or the map type), without the bits that only say how it
 * came about. */
static unsigned find_item_kind(const struct items *items, size_t i) {
    return items->kinds[i] & (is_implicit(items, i) ? 3 : 0xff & ~(unsigned)FORCED);
}

/* Alloc, to, from and tofrom, and the same with always. */
static bool is_data(unsigned kind) { return kind < 4 || (kind > 16 && kind < 20); }

/* Return whether an item of a kind maps memory at its address. */
static bool has_mapped_address(unsigned kind) {
    return is_data(kind) || kind == POINTER || kind == DESCRIPTOR || kind == ALWAYS_POINTER || kind == ATTACH;
}

static uintptr_t find_item_start(const struct items *items, size_t i) { return (uintptr_t)items->host[i]; }

/* Return the first address after an item's memory. */
static uintptr_t find_item_end(const struct items *items, size_t i) {
    unsigned kind = find_item_kind(items, i);
    return find_item_start(items, i) + (is_data(kind) || kind == DESCRIPTOR ? items->sizes[i] : sizeof(void *));
}

/* Count the current construct as a user of a mapping, at most once. */
static void count_construct(struct mapping *mapping) {
    if (mapping->count != ALWAYS && mapping->construct != constructs) mapping->count++;
    mapping->construct = constructs;
}

/* Widen a mapping of which a construct maps only a part to the range [low, high), and report the construct: no real
 * device can do that. */
static void widen_mapping(const struct items *items, size_t i, struct mapping *mapping, uintptr_t low, uintptr_t high) {
    report_copy(&(struct copy){.kind = "unmapped",
                               .why = "part",
                               .address = low < mapping->low ? low : mapping->high,
                               .size = 1,
                               .place = items->place,
                               .near = {mapping->low, mapping->high - 1}});
    use_t *begin = find_item_kind(items, i) & TO_DEVICE ? begin_word_with_value : mark_device_copy_valueless;
    if (low < mapping->low) {
        for_each_granule(low, mapping->low, begin, &items->place);
        mapping->low = low;
    }
    struct mapping *next = mapping + 1 < mappings + mapping_count ? mapping + 1 : NULL;
    if (next && next->low < high) high = next->low;
    if (high > mapping->high) {
        for_each_granule(mapping->high, high, begin, &items->place);
        mapping->high = high;
    }
    extend_mapped_range(mapping);
}

/* Map a pointer or an array descriptor, whose value on the device is adjusted by the runtime. */
static void map_pointer(unsigned kind, uintptr_t low, uintptr_t high, struct mapping *mapping) {
    if (mapping) for_each_granule(low, high, mark_device_copy_new, NULL);
    if (mapping && kind != POINTER && kind != DESCRIPTOR) return;
    if (!mapping) {
        mapping = add_mapping(low, high);
        mapping->full = true;
        for_each_granule(low, high, begin_pointer_word, NULL);
    }
    count_construct(mapping);
}

/* Return the end of a mapped range, cut at the end of the heap block in which it begins; report a map that goes beyond
 * the block. */
static uintptr_t cut_range_at_block_end(uintptr_t low, uintptr_t high, unsigned kind, uint32_t place) {
    uintptr_t start;
    size_t size;
    int thread;
    strand_t since;
    if (!find_heap_block(low, &start, &size, &thread, &since) || high <= start + size) return high;
    report_copy(&(struct copy){.kind = "beyond",
                               .why = "",
                               .address = start + size,
                               .size = high - (start + size),
                               .write = !(kind & TO_DEVICE),
                               .place = place});
    return start + size;
}

/* Map one item of a construct; if it is mapped already, only increase its reference count. */
static void map_item(const struct items *items, size_t i) {
    unsigned kind = find_item_kind(items, i);
    uintptr_t low = find_item_start(items, i), high = find_item_end(items, i);
    if (!has_mapped_address(kind) || !low || low == high) return;
    if (is_data(kind)) high = cut_range_at_block_end(low, high, kind, items->place);
    struct mapping *mapping = find_mapping(low, high);
    if (!is_data(kind)) {
        map_pointer(kind, low, high, mapping);
        return;
    }
    while (mapping && mapping->full) {
        remove_mapping(mapping);
        mapping = find_mapping(low, high);
    }
    if (!mapping) {
        count_construct(add_mapping(low, high));
        for_each_granule(low, high, kind & TO_DEVICE ? begin_word_with_value : mark_device_copy_valueless,
                         &items->place);
        return;
    }
    count_construct(mapping);
    if (is_implicit(items, i)) return; /* as much of it as is there */
    if (low < mapping->low || high > mapping->high) widen_mapping(items, i, mapping, low, high);
    if (kind > 16 && kind & TO_DEVICE) for_each_granule(low, high, copy_word_to_device, NULL);
}

/* Decrease the reference count of an item's mapping and copy back if the map says so. A mapping with count 0 is removed
 * later. */
static void unmap_item(const struct items *items, size_t i, bool is_structured) {
    unsigned kind = find_item_kind(items, i);
    bool is_section = kind == NO_LENGTH || kind == DELETE_SECTION, is_data_kind = is_data(kind);
    bool is_attached = kind == ATTACH || kind == ALWAYS_POINTER || kind == DETACH;
    bool is_pointer = kind == POINTER || kind == DESCRIPTOR || is_attached;
    if (!(is_data_kind || is_section || kind == RELEASE || kind == DELETE || is_pointer)) return;
    uintptr_t low = find_item_start(items, i),
              high = is_data_kind || kind == DESCRIPTOR ? find_item_end(items, i) : low + 1;
    if ((kind == RELEASE || kind == DELETE) && items->sizes[i]) high = low + items->sizes[i];
    struct mapping *mapping = low && low < high && !(is_structured && is_section) ? find_mapping(low, high) : NULL;
    if (!mapping || (is_attached && !mapping->full)) return;
    if (mapping->count != ALWAYS && mapping->construct != constructs && mapping->count) mapping->count--;
    if (mapping->count != ALWAYS && (kind == DELETE || kind == DELETE_SECTION)) mapping->count = 0;
    mapping->construct = constructs;
    bool is_last = mapping->count == 0;
    if (is_data_kind && kind & FROM_DEVICE && (is_last || kind > 16))
        for_each_granule(low, high, is_last ? mark_value_copied_back : copy_word_from_device, NULL);
}

/* Remove all mappings whose reference count is 0. */
static void remove_unused_mappings(void) {
    for (size_t i = mapping_count; i--;)
        if (!mappings[i].count)
            for_each_granule(mappings[i].low, mappings[i].high, end_word, NULL), remove_mapping(&mappings[i]);
}

/* Map all items of a construct to the device. */
void map_items(const struct items *items) {
    constructs++;
    for (size_t i = 0; i < items->count; i++) map_item(items, i);
    if (mapping_count && !now.devices) begin_device_checks();
}

/* Do the copies of a `target update` for all its items. */
void update_items(const struct items *items) {
    for (size_t i = 0; i < items->count; i++) {
        unsigned kind = find_item_kind(items, i);
        if (!is_data(kind)) continue;
        uintptr_t low = find_item_start(items, i), high = find_item_end(items, i);
        if (low < all_low) low = all_low;
        if (high > all_high) high = all_high;
        if (low < high)
            for_each_granule(low, high, kind & TO_DEVICE ? copy_word_to_device : copy_word_from_device, NULL);
    }
}

/* Check for races the host memory that a construct copies while other threads run: as a read where it goes to the
 * device, as a write where it comes back. Nothing is copied to a device that has the item already, nor back while it
 * stays mapped. */
void check_host_side(const struct items *items, enum copying when) {
    for (size_t i = 0; i < items->count; i++) {
        unsigned kind = find_item_kind(items, i);
        uintptr_t low = find_item_start(items, i), high = find_item_end(items, i);
        if (!is_data(kind) || !low || low == high) continue;
        const struct mapping *mapping = find_mapping(low, high);
        bool is_always = kind > 16, is_to = kind & TO_DEVICE, is_from = kind & FROM_DEVICE;
        bool is_read = is_to && (when == UPDATES ? mapping != NULL : when == ENTERS && (!mapping || is_always));
        bool is_written =
            is_from && mapping && (when == UPDATES || (when == LEAVES && (is_always || mapping->count == 1)));
        if (is_read || is_written) check_access(low, high - low, is_written, items->place);
    }
}

/* Map a variable that is on the device from the start (`declare target`). */
void declare_device_variable(uintptr_t low, size_t size) {
    if (!size || find_mapping(low, low + size)) return;
    add_mapping(low, low + size)->count = ALWAYS;
    for_each_granule(low, low + size, begin_word_with_value, NULL);
    begin_device_checks();
}

/* Unmap all items of a construct. `is_structured`: at the end of a target or data region, not at an `exit data`. */
void unmap_items(const struct items *items, bool is_structured) {
    constructs++;
    for (size_t i = items->count; i--;) unmap_item(items, i, is_structured);
    remove_unused_mappings();
}

/* --- accesses ----------------------------------------------------------------------------------------------------- */

static bool is_on_own_stack(uintptr_t address) {
    return address >= me->stack_low && address < me->stack_high && address < me->device_frame;
}

/* Report a device access of memory that is not mapped: a heap block of the host, or memory next to the mapped part of a
 * variable. */
static void check_unmapped_access(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    if (is_on_own_stack(address)) return;
    struct copy finding = {.kind = "unmapped",
                           .why = "",
                           .address = address,
                           .size = size,
                           .write = is_write,
                           .place = place,
                           .region = me->target};
    uintptr_t low;
    size_t block_size;
    int thread;
    strand_t since;
    const struct thread *owner = find_stack_owner(address);
    if (owner && owner->on_device && address < owner->device_frame) return;
    if (!owner && find_heap_block(address, &low, &block_size, &thread, &since)) {
        if (!is_device_block(address)) report_copy(&finding);
        return;
    }
    size_t index = find_mapping_index(address);
    if (index) finding.near[0] = mappings[index - 1].high - 1;
    if (index < mapping_count) finding.near[1] = mappings[index].low;
    finding.why = "near";
    if (finding.near[0] || finding.near[1]) report_copy(&finding);
}

/* Extend the range of a mapping that the running target region has written. */
static void note_device_write(uintptr_t address, size_t size) {
    static size_t last_index;
    if (last_index >= mapping_count ||
        address - mappings[last_index].low >= mappings[last_index].high - mappings[last_index].low) {
        last_index = find_mapping_index(address);
        if (last_index >= mapping_count) return;
    }
    struct mapping *mapping = &mappings[last_index];
    if (mapping->wrote_low == mapping->wrote_high) {
        mapping->wrote_low = address;
        mapping->wrote_high = address + size;
    }
    if (address < mapping->wrote_low) mapping->wrote_low = address;
    if (address + size > mapping->wrote_high) mapping->wrote_high = address + size;
}

struct access_by {
    bool write;
    uint32_t place;
};

static const char *const CAUSES[] = {"", "host", "host", "device", "device", "none"};

/* Report a read of a stale copy. `word`: the shadow word, which says who made it stale and where. */
static void report_stale_copy(uint32_t word, uintptr_t address, size_t size, uint32_t place) {
    if (!me->on_device && may_pending_target_write(address)) return; /* a race with that, which the shadow knows */
    report_copy(&(struct copy){.kind = "old-copy",
                               .why = CAUSES[CAUSE(word)],
                               .address = address,
                               .size = size,
                               .place = place,
                               .other_place = word & LINE,
                               .device = me->on_device,
                               .region = me->target});
}

/* Callback of for_each_granule(): check an access by the host (`of`: a struct access_by) for a stale copy; a write
 * makes the device's copy stale. */
static void check_host_access(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    const struct access_by *access = of;
    uint32_t old = *word;
    if (!old || CAUSE(old) == FULL) return;
    if (access->write) {
        bool is_overwriting = old & HOST_OLD || CAUSE(old) == HOST_OVER;
        *word =
            old & MAPPED ? MAPPED | DEVICE_OLD | make_cause(is_overwriting ? HOST_OVER : HOST_WROTE, access->place) : 0;
    } else if (old & HOST_OLD) {
        if (has_remembered_values(address, size)) report_stale_copy(old, address, size, access->place);
        else *word &= MAPPED;
    }
}

/* Callback of for_each_granule(): check an access by the device (`of`: a struct access_by) for a stale or missing copy;
 * a write makes the host's copy stale. */
static void check_device_access(uint32_t *word, uintptr_t address, size_t size, const void *of) {
    const struct access_by *access = of;
    uint32_t old = *word;
    if (!(old & MAPPED)) {
        check_unmapped_access(address, size, access->write, access->place);
    } else if (CAUSE(old) == FULL) {
        return;
    } else if (access->write) {
        bool is_overwriting = (old & DEVICE_OLD && CAUSE(old) <= HOST_OVER) || CAUSE(old) == DEVICE_OVER;
        *word = MAPPED | HOST_OLD | make_cause(is_overwriting ? DEVICE_OVER : DEVICE_WROTE, access->place);
        note_device_write(address, size);
    } else if (old & DEVICE_OLD) {
        report_stale_copy(old, address, size, access->place);
    }
}

/* Check an access by the running thread, on the host or on the device, against the state of mapped copies. */
void check_mapped_access(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    const struct access_by access = {is_write, place & ~ATOMIC};
    if (address - all_low < all_high - all_low)
        for_each_granule(address, address + size, me->on_device ? check_device_access : check_host_access, &access);
    else if (me->on_device) check_unmapped_access(address, size, is_write, access.place);
}

/* At the end of a target region: save the values that it has written (see save_bytes_of_stale_host()). */
void remember_written_values(void) {
    for (size_t i = 0; i < mapping_count; i++) {
        struct mapping *mapping = &mappings[i];
        if (mapping->wrote_low < mapping->wrote_high)
            save_bytes_of_stale_host(mapping->wrote_low, mapping->wrote_high - mapping->wrote_low);
        mapping->wrote_low = mapping->wrote_high = 0;
    }
}

bool is_address_mapped(uintptr_t address) { return find_mapping(address, address + 1) != NULL; }
