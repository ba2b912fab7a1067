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
 * copy is told. Nothing: both are the same. Where a mapping ends and nothing comes back, HOST_OLD stays.
 * Example: map(to: a), the region writes a[0] at 0x120: MAPPED | HOST_OLD | DEVICE_WROTE | 0x120; the map ends:
 * HOST_OLD | DEVICE_WROTE | 0x120; the host reads a[0]: told.
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

static inline uint32_t because(enum cause cause, uint32_t place) {
    return (uint32_t)cause << 26 | (place <= LINE ? place : 0);
}

#define DEVICE_FOLD (2 * TERA - 1)
static inline uint32_t *device_plane8(uintptr_t a) {
    return (uint32_t *)(DEVICE_WORDS + ((a & DEVICE_FOLD & ~(uintptr_t)7) >> 1));
}
static inline uint32_t *device_plane4(uintptr_t a) {
    return (uint32_t *)(DEVICE_WORDS + TERA + (a & DEVICE_FOLD & ~(uintptr_t)3));
}
static inline uint32_t *device_plane1(uintptr_t a) {
    return (uint32_t *)(DEVICE_WORDS + 3 * TERA + ((a & DEVICE_FOLD) << 2));
}
static inline uint8_t *device_values(uintptr_t a) { return (uint8_t *)(DEVICE_WORDS + 11 * TERA + (a & DEVICE_FOLD)); }

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

static size_t first_behind(uintptr_t a) {
    return up_to(mappings, mapping_count, sizeof *mappings, offsetof(struct mapping, high), a);
}

static void reaches(const struct mapping *m) {
    if (m->low < all_low) all_low = m->low;
    if (m->high > all_high) all_high = m->high;
}

/* The first one that has something of a range. */
static struct mapping *mapping_of(uintptr_t low, uintptr_t high) {
    size_t at = first_behind(low);
    return at < mapping_count && mappings[at].low < high ? &mappings[at] : NULL;
}

static struct mapping *mapping_new(uintptr_t low, uintptr_t high) {
    if (!mapping_room) reserve_memory_at(DEVICE_WORDS, DEVICE_SIZE);
    GROW(mappings, mapping_count, mapping_room, 64);
    size_t at = first_behind(low);
    memmove(mappings + at + 1, mappings + at, (mapping_count - at) * sizeof *mappings);
    mappings[at] = (struct mapping){.low = low, .high = high};
    mapping_count++;
    reaches(&mappings[at]);
    return &mappings[at];
}

static void mapping_gone(const struct mapping *m) {
    size_t at = (size_t)(m - mappings);
    memmove(mappings + at, mappings + at + 1, (--mapping_count - at) * sizeof *mappings);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* Calls `use` for each granule of a range, in parts of 8, 4 or 1 bytes. */
typedef void use_t(uint32_t *word, uintptr_t a, size_t size, const void *of);

static void finer(uint32_t *word, uint32_t *parts, int count) {
    if (*word == FINER) return;
    for (int i = 0; i < count; i++) parts[i] = *word;
    *word = FINER;
}

static inline __attribute__((always_inline)) void each(uintptr_t low, uintptr_t high, use_t *use, const void *of) {
    while (low < high) {
        uint32_t *word = device_plane8(low);
        if (*word != FINER && low % 8 == 0 && high - low >= 8) {
            use(word, low, 8, of);
            low += 8;
            continue;
        }
        finer(word, device_plane4(low & ~(uintptr_t)7), 2);
        word = device_plane4(low);
        if (*word != FINER && low % 4 == 0 && high - low >= 4) {
            use(word, low, 4, of);
            low += 4;
            continue;
        }
        finer(word, device_plane1(low & ~(uintptr_t)3), 4);
        use(device_plane1(low), low, 1, of);
        low++;
    }
}

/* What the host's old copy holds, as far as the run can know it: what was written there by hooks. */
static void remember(uintptr_t a, size_t size) {
    while (size) { /* the plane begins anew where addresses are folded */
        size_t part = DEVICE_FOLD + 1 - (a & DEVICE_FOLD);
        part = part < size ? part : size;
        memcpy(device_values(a), (const void *)a, part);
        a += part;
        size -= part;
    }
}

static bool remembered(uintptr_t a, size_t size) { return memcmp(device_values(a), (const void *)a, size) == 0; }

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void begins_with_value(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size, (void)of;
    *word = MAPPED | (*word & HOST_OLD ? DEVICE_OLD | (*word & ~MAPPED) : 0);
}

static void begins_without(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size;
    if (*word & HOST_OLD) *word |= MAPPED | DEVICE_OLD;
    else *word = MAPPED | DEVICE_OLD | because(NO_VALUE, *(const uint32_t *)of);
}

static void begins_full(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size, (void)of;
    *word = MAPPED | FULL << 26;
}

static void ends(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size, (void)of;
    *word = *word & HOST_OLD ? *word & ~(MAPPED | DEVICE_OLD) : 0;
}

/* What the device has becomes the host's: where it is older than what the host wrote, that is lost. */
static void ends_copied(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)of;
    uint32_t w = *word;
    *word = 0;
    if (!(w & DEVICE_OLD) || CAUSE(w) == HOST_OVER) return;
    *word = HOST_OLD | (w & ~(MAPPED | DEVICE_OLD));
    remember(a, size);
}

/* `target update` and `always` say which side counts. */
static void to_device(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size, (void)of;
    if (!(*word & MAPPED) || CAUSE(*word) == FULL) return;
    if (*word & HOST_OLD && CAUSE(*word) != DEVICE_OVER) *word &= ~DEVICE_OLD;
    else *word = MAPPED;
}

static void from_device(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)of;
    uint32_t w = *word;
    if (!(w & MAPPED) || CAUSE(w) == FULL) return;
    if (!(w & DEVICE_OLD) || CAUSE(w) == HOST_OVER) *word = MAPPED;
    else if (CAUSE(w) == HOST_WROTE) *word &= ~HOST_OLD;
    else {
        *word |= HOST_OLD;
        remember(a, size);
    }
}

static void known_there(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size, (void)of;
    if (*word & MAPPED) *word &= ~DEVICE_OLD;
}

static void clean(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    (void)a, (void)size, (void)of;
    *word &= CAUSE(*word) == FULL ? ~0u : MAPPED;
}

void devices_forget(uintptr_t low, uintptr_t high) {
    if (low < all_low) low = all_low;
    if (high > all_high) high = all_high;
    if (low >= high) return;
    each(low, high, clean, NULL);
    for (size_t i = first_behind(low); i < mapping_count && mappings[i].low < high; i++)
        mappings[i].wrote_low = mappings[i].wrote_high = 0;
}

/* From here on accesses are looked at. */
static void devices_open(void) {
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
static bool is_implicit(const struct items *all, size_t i) { return (all->kinds[i] & 0x7c) == IMPLICITLY; }

static unsigned kind_of(const struct items *all, size_t i) {
    return all->kinds[i] & (is_implicit(all, i) ? 3 : 0xff & ~(unsigned)FORCED);
}

/* Alloc, to, from and tofrom, and the same with always. */
static bool is_data(unsigned kind) { return kind < 4 || (kind > 16 && kind < 20); }

static bool has_address(unsigned kind) {
    return is_data(kind) || kind == POINTER || kind == DESCRIPTOR || kind == ALWAYS_POINTER || kind == ATTACH;
}

static uintptr_t low_of(const struct items *all, size_t i) { return (uintptr_t)all->host[i]; }

static uintptr_t high_of(const struct items *all, size_t i) {
    unsigned kind = kind_of(all, i);
    return low_of(all, i) + (is_data(kind) || kind == DESCRIPTOR ? all->sizes[i] : sizeof(void *));
}

static void counted(struct mapping *m) {
    if (m->count != ALWAYS && m->construct != constructs) m->count++;
    m->construct = constructs;
}

/* Part of it is there already: what is not, is mapped beside it, which no device can do. */
static void widened(const struct items *all, size_t i, struct mapping *m, uintptr_t low, uintptr_t high) {
    told_copy(&(struct copy){.kind = "unmapped",
                             .why = "part",
                             .address = low < m->low ? low : m->high,
                             .size = 1,
                             .place = all->place,
                             .near = {m->low, m->high - 1}});
    use_t *begins = kind_of(all, i) & TO_DEVICE ? begins_with_value : begins_without;
    if (low < m->low) {
        each(low, m->low, begins, &all->place);
        m->low = low;
    }
    struct mapping *next = m + 1 < mappings + mapping_count ? m + 1 : NULL;
    if (next && next->low < high) high = next->low;
    if (high > m->high) {
        each(m->high, high, begins, &all->place);
        m->high = high;
    }
    reaches(m);
}

/* The device's pointer is made to fit. */
static void enters_pointer(unsigned kind, uintptr_t low, uintptr_t high, struct mapping *m) {
    if (m) each(low, high, known_there, NULL);
    if (m && kind != POINTER && kind != DESCRIPTOR) return;
    if (!m) {
        m = mapping_new(low, high);
        m->full = true;
        each(low, high, begins_full, NULL);
    }
    counted(m);
}

/* The end of what is mapped, within the block of the heap in which it begins. */
static uintptr_t within_block(uintptr_t low, uintptr_t high, unsigned kind, uint32_t place) {
    uintptr_t start;
    size_t size;
    int thread;
    strand_t since;
    if (!block_of(low, &start, &size, &thread, &since) || high <= start + size) return high;
    told_copy(&(struct copy){.kind = "beyond",
                             .why = "",
                             .address = start + size,
                             .size = high - (start + size),
                             .write = !(kind & TO_DEVICE),
                             .place = place});
    return start + size;
}

static void enters_one(const struct items *all, size_t i) {
    unsigned kind = kind_of(all, i);
    uintptr_t low = low_of(all, i), high = high_of(all, i);
    if (!has_address(kind) || !low || low == high) return;
    if (is_data(kind)) high = within_block(low, high, kind, all->place);
    struct mapping *m = mapping_of(low, high);
    if (!is_data(kind)) {
        enters_pointer(kind, low, high, m);
        return;
    }
    while (m && m->full) {
        mapping_gone(m);
        m = mapping_of(low, high);
    }
    if (!m) {
        counted(mapping_new(low, high));
        each(low, high, kind & TO_DEVICE ? begins_with_value : begins_without, &all->place);
        return;
    }
    counted(m);
    if (is_implicit(all, i)) return; /* as much of it as is there */
    if (low < m->low || high > m->high) widened(all, i, m, low, high);
    if (kind > 16 && kind & TO_DEVICE) each(low, high, to_device, NULL);
}

static void leaves_one(const struct items *all, size_t i, bool structured) {
    unsigned kind = kind_of(all, i);
    bool section = kind == NO_LENGTH || kind == DELETE_SECTION, data = is_data(kind);
    bool attached = kind == ATTACH || kind == ALWAYS_POINTER || kind == DETACH;
    bool pointer = kind == POINTER || kind == DESCRIPTOR || attached;
    if (!(data || section || kind == RELEASE || kind == DELETE || pointer)) return;
    uintptr_t low = low_of(all, i), high = data || kind == DESCRIPTOR ? high_of(all, i) : low + 1;
    if ((kind == RELEASE || kind == DELETE) && all->sizes[i]) high = low + all->sizes[i];
    struct mapping *m = low && low < high && !(structured && section) ? mapping_of(low, high) : NULL;
    if (!m || (attached && !m->full)) return;
    if (m->count != ALWAYS && m->construct != constructs && m->count) m->count--;
    if (m->count != ALWAYS && (kind == DELETE || kind == DELETE_SECTION)) m->count = 0;
    m->construct = constructs;
    bool last = m->count == 0;
    if (data && kind & FROM_DEVICE && (last || kind > 16)) each(low, high, last ? ends_copied : from_device, NULL);
}

/* What nothing counts any more is gone; what was copied back is clean by now. */
static void leave_done(void) {
    for (size_t i = mapping_count; i--;)
        if (!mappings[i].count) each(mappings[i].low, mappings[i].high, ends, NULL), mapping_gone(&mappings[i]);
}

void devices_enter(const struct items *all) {
    constructs++;
    for (size_t i = 0; i < all->count; i++) enters_one(all, i);
    if (mapping_count && !now.devices) devices_open();
}

void devices_update(const struct items *all) {
    for (size_t i = 0; i < all->count; i++) {
        unsigned kind = kind_of(all, i);
        if (!is_data(kind)) continue;
        uintptr_t low = low_of(all, i), high = high_of(all, i);
        if (low < all_low) low = all_low;
        if (high > all_high) high = all_high;
        if (low < high) each(low, high, kind & TO_DEVICE ? to_device : from_device, NULL);
    }
}

/* What the host's side of a copy is, beside which others run: read where it goes to the device, written where it comes
 * from there. What is mapped already is not copied to it again, and what stays mapped is not copied back. */
void devices_touch(const struct items *all, enum copying when) {
    for (size_t i = 0; i < all->count; i++) {
        unsigned kind = kind_of(all, i);
        uintptr_t low = low_of(all, i), high = high_of(all, i);
        if (!is_data(kind) || !low || low == high) continue;
        const struct mapping *m = mapping_of(low, high);
        bool always = kind > 16, to = kind & TO_DEVICE, from = kind & FROM_DEVICE;
        bool read = to && (when == UPDATES ? m != NULL : when == ENTERS && (!m || always));
        bool written = from && m && (when == UPDATES || (when == LEAVES && (always || m->count == 1)));
        if (read || written) check_access(low, high - low, written, all->place);
    }
}

/* A variable that the device has from the start on. */
void devices_declare(uintptr_t low, size_t size) {
    if (!size || mapping_of(low, low + size)) return;
    mapping_new(low, low + size)->count = ALWAYS;
    each(low, low + size, begins_with_value, NULL);
    devices_open();
}

void devices_leave(const struct items *all, bool structured) {
    constructs++;
    for (size_t i = all->count; i--;) leaves_one(all, i, structured);
    leave_done();
}

/* --- accesses ----------------------------------------------------------------------------------------------------- */

static bool own_stack(uintptr_t a) { return a >= me->stack_low && a < me->stack_high && a < me->device_frame; }

/* Memory that no map brings to the device: of a block of the host's heap, or beside a mapped part of a variable. */
static void outside(uintptr_t a, size_t size, bool write, uint32_t place) {
    if (own_stack(a)) return;
    struct copy told = {.kind = "unmapped",
                        .why = "",
                        .address = a,
                        .size = size,
                        .write = write,
                        .place = place,
                        .region = me->target};
    uintptr_t low;
    size_t block;
    int thread;
    strand_t since;
    const struct thread *t = find_stack_owner(a);
    if (t && t->on_device && a < t->device_frame) return;
    if (!t && block_of(a, &low, &block, &thread, &since)) {
        if (!block_of_device(a)) told_copy(&told);
        return;
    }
    size_t at = first_behind(a);
    if (at) told.near[0] = mappings[at - 1].high - 1;
    if (at < mapping_count) told.near[1] = mappings[at].low;
    told.why = "near";
    if (told.near[0] || told.near[1]) told_copy(&told);
}

static void wrote(uintptr_t a, size_t size) {
    static size_t last;
    if (last >= mapping_count || a - mappings[last].low >= mappings[last].high - mappings[last].low) {
        last = first_behind(a);
        if (last >= mapping_count) return;
    }
    struct mapping *m = &mappings[last];
    if (m->wrote_low == m->wrote_high) {
        m->wrote_low = a;
        m->wrote_high = a + size;
    }
    if (a < m->wrote_low) m->wrote_low = a;
    if (a + size > m->wrote_high) m->wrote_high = a + size;
}

struct access_by {
    bool write;
    uint32_t place;
};

static const char *const CAUSES[] = {"", "host", "host", "device", "device", "none"};

static void old_copy(uint32_t w, uintptr_t a, size_t size, uint32_t place) {
    if (!me->on_device && targets_pend(a)) return; /* a race with that, which the shadow knows */
    told_copy(&(struct copy){.kind = "old-copy",
                             .why = CAUSES[CAUSE(w)],
                             .address = a,
                             .size = size,
                             .place = place,
                             .other_place = w & LINE,
                             .device = me->on_device,
                             .region = me->target});
}

static void by_host(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    const struct access_by *by = of;
    uint32_t w = *word;
    if (!w || CAUSE(w) == FULL) return;
    if (by->write) {
        bool over = w & HOST_OLD || CAUSE(w) == HOST_OVER;
        *word = w & MAPPED ? MAPPED | DEVICE_OLD | because(over ? HOST_OVER : HOST_WROTE, by->place) : 0;
    } else if (w & HOST_OLD) {
        if (remembered(a, size)) old_copy(w, a, size, by->place);
        else *word &= MAPPED;
    }
}

static void by_device(uint32_t *word, uintptr_t a, size_t size, const void *of) {
    const struct access_by *by = of;
    uint32_t w = *word;
    if (!(w & MAPPED)) {
        outside(a, size, by->write, by->place);
    } else if (CAUSE(w) == FULL) {
        return;
    } else if (by->write) {
        bool over = (w & DEVICE_OLD && CAUSE(w) <= HOST_OVER) || CAUSE(w) == DEVICE_OVER;
        *word = MAPPED | HOST_OLD | because(over ? DEVICE_OVER : DEVICE_WROTE, by->place);
        wrote(a, size);
    } else if (w & DEVICE_OLD) {
        old_copy(w, a, size, by->place);
    }
}

void devices_access(uintptr_t a, size_t size, bool write, uint32_t place) {
    const struct access_by by = {write, place & ~ATOMIC};
    if (a - all_low < all_high - all_low) each(a, a + size, me->on_device ? by_device : by_host, &by);
    else if (me->on_device) outside(a, size, write, by.place);
}

/* What the target region that ends has written stands in memory now. */
void devices_remember(void) {
    for (size_t i = 0; i < mapping_count; i++) {
        struct mapping *m = &mappings[i];
        if (m->wrote_low < m->wrote_high) remember(m->wrote_low, m->wrote_high - m->wrote_low);
        m->wrote_low = m->wrote_high = 0;
    }
}

bool devices_has(uintptr_t a) { return mapping_of(a, a + 1) != NULL; }
