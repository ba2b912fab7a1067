/* What the program does to memory that MPI is using: pending buffers, and windows.
 *
 * A hold is such memory, for the time that MPI has it. While there are holds, the hooks of programs built with `weft cc`
 * (access/native/hooks.c) ask here about each access that may meet one. What does is written down as a row of the
 * ACCESSES stream, together with the event of its thread that it comes before; accesses of one place that go on at equal
 * steps are one row. Which operation an access meets, and whether it may, is for the analysis (weft.access): the holds are
 * rows too.
 */
#define _GNU_SOURCE
#include "access.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "process.h"

volatile int weft_accessing;

enum { HOLDS = 60000, LONG = 1 << 20 };
struct hold {
    uintptr_t low, high;
    bool reads;        /* reads count too */
    uint32_t next;     /* of the free ones */
};

static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weft_client *clients;
static struct hold *holds;         /* HOLDS of them; readers go by `sequence` */
static volatile uint32_t hold_top; /* those in use lie below */
static uint32_t hold_free; /* number 0 is not used */
__attribute__((visibility("default"))) uint32_t weft_array_held; /* how many; arrays of Python look there first */
static volatile uint64_t sequence; /* odd: `holds` is being changed */

/* A table of what is held, by pieces of 1 << `shift` bytes: how often, and what hooks need to know of that. */
struct pieces {
    int shift;
    size_t entries;
    uint16_t *writes, *reads;
    uint8_t *bits;
    bool told; /* each client has bits of its own */
};
#define PIECES(name, entries)                                                                                          \
    static uint8_t name##_bits[entries];                                                                               \
    static uint16_t name##_writes[entries], name##_reads[entries]
PIECES(page, WEFT_PAGES);
PIECES(fine, WEFT_FINE);
PIECES(coarse, WEFT_COARSE);
static const struct pieces page_pieces = {WEFT_PAGE_SHIFT, WEFT_PAGES, page_writes, page_reads, page_bits, true};
static const struct pieces fine_pieces = {WEFT_FINE_SHIFT, WEFT_FINE, fine_writes, fine_reads, fine_bits, false};
static const struct pieces coarse_pieces = {WEFT_COARSE_SHIFT, WEFT_COARSE, coarse_writes,
                                            coarse_reads,      coarse_bits, false};

/* Add `change` to the number of holds (ranges of memory that MPI has) that cover one piece of memory. If that number
 * becomes or ceases to be 0, change the bits by which the hooks of `weft cc` programs see whether accesses to the piece
 * matter. Needs hold_lock. */
static void change_hold_count_of_piece(const struct pieces *table, size_t index, bool counts_reads, int change) {
    table->writes[index] = (uint16_t)(table->writes[index] + change);
    if (counts_reads) table->reads[index] = (uint16_t)(table->reads[index] + change);
    uint8_t bits =
        (uint8_t)((table->writes[index] ? WEFT_PAGE_WRITES : 0) | (table->reads[index] ? WEFT_PAGE_READS : 0));
    if (bits == table->bits[index]) return;
    __atomic_store_n(&table->bits[index], bits, __ATOMIC_RELAXED);
    for (struct weft_client *c = table->told ? clients : NULL; c; c = c->next) c->pages[index] = bits;
}

/* Add `change` (1 or -1) to the count of each piece of memory that a hold (a range of memory that MPI has) covers, or
 * an access that begins before it can touch. Needs hold_lock. */
static void change_hold_counts_in_table(const struct pieces *table, const struct hold *hold, int change) {
    enum { LONGEST = 16 }; /* an access that begins before the hold may end in it */
    uintptr_t low = hold->low - (LONGEST - 1);
    size_t n = ((hold->high - 1) >> table->shift) - (low >> table->shift) + 1;
    if (n > table->entries) n = table->entries;
    for (size_t i = 0; i < n; i++)
        change_hold_count_of_piece(table, ((low >> table->shift) + i) % table->entries, hold->reads, change);
}

/* Enter a hold (a range of memory that MPI has; `change` 1) into the tables of pieces that the hooks look at, or remove
 * it (-1). Needs hold_lock. */
static void change_hold_counts(const struct hold *hold, int change) {
    change_hold_counts_in_table(&page_pieces, hold, change);
    change_hold_counts_in_table(hold->high - hold->low > LONG ? &coarse_pieces : &fine_pieces, hold, change);
}

/* What the hooks of copies look at first: the range that holds all. */
static uintptr_t range_low, range_high;
static uintptr_t watched_low, watched_high; /* of what is watched without a hold */

/* Give each part of the program that `weft cc` built (a client) the range of addresses in which its hooks must look
 * closer. Needs hold_lock. */
static void publish_range_to_hooks(void) {
    for (struct weft_client *client = clients; client; client = client->next) {
        *client->low = range_low;
        __atomic_store_n(client->span, range_high - range_low, __ATOMIC_RELEASE);
    }
}

/* Widen the range of addresses that the hooks look at, so that it contains [low, high). Needs hold_lock. */
static void widen_watched_range(uintptr_t low, uintptr_t high) {
    bool none = range_low == range_high;
    if (!none && low >= range_low && high <= range_high) return;
    if (none || low < range_low) range_low = low;
    if (none || high > range_high) range_high = high;
    publish_range_to_hooks();
}

/* Narrow the range of addresses that the hooks look at, as MPI no longer has [low, high): to what the other holds need
 * if these are few, else only when none is left. Needs hold_lock. */
static void narrow_watched_range(uintptr_t low, uintptr_t high) {
    enum { FEW_HOLDS = 256 };
    if (weft_array_held && ((low > range_low && high < range_high) || hold_top > FEW_HOLDS)) return;
    range_low = watched_low;
    range_high = watched_high;
    for (uint32_t i = 1; weft_array_held && i < hold_top; i++) {
        if (!holds[i].high) continue;
        if (!range_high || holds[i].low < range_low) range_low = holds[i].low;
        if (holds[i].high > range_high) range_high = holds[i].high;
    }
    publish_range_to_hooks();
}

/* Have the hooks report accesses to [low, high) although no call of MPI has that memory (`change` 1), or no longer
 * (-1). */
void weft_change_watched_addresses(uintptr_t low, uintptr_t high, int change) {
    static int64_t watched;
    pthread_mutex_lock(&hold_lock);
    const struct hold range = {.low = low, .high = high, .reads = true};
    change_hold_counts(&range, change);
    watched += change;
    if (change > 0) {
        if (!watched_high || low < watched_low) watched_low = low;
        if (high > watched_high) watched_high = high;
    } else if (!watched) watched_low = watched_high = 0;
    if (change > 0) widen_watched_range(low, high);
    else narrow_watched_range(low, high);
    pthread_mutex_unlock(&hold_lock);
}

/* Note that MPI has the bytes [low, high) from now on (a hold). `reads`: the program may not even read them. Return the
 * number of the hold, 0 if the range is empty or the table full. */
static uint32_t add_hold(uintptr_t low, uintptr_t high, bool reads) {
    WEFT_WORK(WEFT_ACCESSES);
    if (low >= high) return 0;
    pthread_mutex_lock(&hold_lock);
    uint32_t number = hold_free;
    if (number) hold_free = holds[number].next;
    else if (hold_top < HOLDS) number = hold_top;
    if (number) {
        __atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
        holds[number] = (struct hold){.low = low, .high = high, .reads = reads};
        if (number == hold_top) hold_top++;
        change_hold_counts(&holds[number], 1);
        __atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
        weft_array_held++;
        widen_watched_range(low, high);
    }
    pthread_mutex_unlock(&hold_lock);
    return number;
}

/* Note that MPI no longer has the bytes of a hold, which add_hold numbered; number 0 is no hold. */
static void end_hold(uint32_t number) {
    if (!number) return;
    WEFT_WORK(WEFT_ACCESSES);
    pthread_mutex_lock(&hold_lock);
    __atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
    change_hold_counts(&holds[number], -1);
    const struct hold ended = holds[number];
    holds[number] = (struct hold){.next = hold_free};
    hold_free = number;
    if (!--weft_array_held) {
        hold_top = 1;
        hold_free = 0;
    }
    narrow_watched_range(ended.low, ended.high);
    __atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&hold_lock);
}

/* ---- rows ---- */
enum { WEFT_SITE_PLACES = 1 << 16 }; /* no code lies there: a place below is the id of a site */
enum { ENTRIES = 1 << 12, ROWS_AT_ONCE = 256, ROWS_OF_A_PLACE = 1 << 13, MOST_ROWS = 1 << 19 };
struct line_entry { /* the newest row of a place in the program */
    uintptr_t place;
    struct weft_touch *row;
    uint64_t moment, sequence;
    uintptr_t low, high; /* the hold that it lies in, as of `sequence` */
    uint32_t rows, all, kind; /* since the moment, and altogether */
    bool closed; /* until the next moment nothing is written down */
    uint64_t next; /* where the next access lies if the steps go on */
};

struct accessor { /* a thread of the program that accesses memory, whether or not it calls MPI */
    struct weft_stream stream;
    uint32_t tid, rows;
    bool stopped;
    /* How it is ordered with other threads: whether it accessed memory since it last released, its calls by then, the
     * newest ACQUIRED row and the calls by then; how often it released or acquired. */
    bool touched;
    uint64_t released_events, acquired_events;
    struct weft_touch *acquired;
    uint32_t synchronisations;
    struct accessor *next_free;
    struct line_entry entries[ENTRIES];
};

static __thread struct accessor *own_accessor;
static __thread bool is_recording_access;
static pthread_mutex_t accessors_lock = PTHREAD_MUTEX_INITIALIZER;
static struct accessor *free_accessors;
static uint32_t accessor_count;
static pthread_key_t accessor_end;

static struct weft_thread *first_thread;
static volatile bool has_unordered_threads; /* UNORDERED is in the record */
static uint32_t unannounced_threads; /* made by calls that hooks saw, not yet here */
volatile int weft_access_threads;

static void record_synchronisation(struct accessor *accessor, unsigned kinds, uint64_t moment);

/* Keep the table of accesses of a thread that ends for a later thread; called as the destructor of a thread-specific
 * key. */
static void put_accessor_aside(void *ended) {
    struct accessor *accessor = ended;
    accessor->touched = true; /* its calls can no longer be counted */
    if (weft_recording && weft_accessing) record_synchronisation(accessor, WEFT_HOOK_RELEASE, 0);
    pthread_mutex_lock(&accessors_lock);
    accessor->next_free = free_accessors;
    free_accessors = accessor;
    pthread_mutex_unlock(&accessors_lock);
    own_accessor = NULL;
    is_recording_access = true; /* what runs later at the thread's end is not looked at */
}

/* Return the table of accesses for the calling thread, a new one or that of a thread that has ended; NULL without
 * memory. `is_announced`: hooks saw how the thread began, at that moment (0: now). */
static __attribute__((cold, noinline)) struct accessor *make_accessor(bool is_announced, uint64_t moment) {
    if (!weft_self || weft_self != first_thread) weft_access_threads = 1;
    pthread_mutex_lock(&accessors_lock);
    struct accessor *accessor = free_accessors;
    if (accessor) {
        free_accessors = accessor->next_free;
        memset(accessor->entries, 0, sizeof accessor->entries);
    } else if ((accessor = calloc(1, sizeof *accessor))) {
        accessor->stopped =
            !weft_stream_open(weft_the_record, &accessor->stream, WEFT_STREAM_ACCESSES, (int)accessor_count++);
    }
    pthread_mutex_unlock(&accessors_lock);
    if (!accessor) return NULL;
    accessor->tid = (uint32_t)syscall(SYS_gettid);
    accessor->touched = true;
    accessor->released_events = accessor->acquired_events = UINT64_MAX;
    accessor->acquired = NULL;
    pthread_setspecific(accessor_end, accessor);
    own_accessor = accessor;
    if (!is_announced && weft_self != first_thread) { /* of a library's own making, unless it is one of std::thread's */
        uint32_t waiting = __atomic_load_n(&unannounced_threads, __ATOMIC_RELAXED);
        while (waiting && !__atomic_compare_exchange_n(&unannounced_threads, &waiting, waiting - 1, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        if (!waiting) record_synchronisation(accessor, WEFT_HOOK_UNKNOWN, 0);
    }
    record_synchronisation(accessor, WEFT_HOOK_ACQUIRE, moment); /* of who made it */
    return accessor;
}

/* Return how many calls the calling thread has recorded; WEFT_TOUCH_NO_EVENTS if it makes no calls of MPI. */
static inline uint64_t count_own_events(void) {
    return weft_self ? (uint64_t)(weft_self->events.next - weft_self->events.base) / sizeof(struct weft_event)
                     : WEFT_TOUCH_NO_EVENTS;
}

/* Return a number that stays the same while a thread's accesses from one place in the code may share a row of the
 * record: that of its calls so far, and of what orders it with other threads. For a thread that makes no calls, or is not
 * alone, it also changes when MPI gets or returns memory, or the first thread makes a call. */
static inline uint64_t find_row_sharing_stamp(void) {
    uint64_t synchronisations = own_accessor ? own_accessor->synchronisations : 0;
    if (LIKELY(weft_self && !weft_threaded)) return (uintptr_t)weft_self->events.next ^ synchronisations << 40;
    uint64_t calls = first_thread ? (uint64_t)(first_thread->events.next - first_thread->events.base) : 0;
    return count_own_events() * 0x9e3779b97f4a7c15u ^ calls << 20 ^ sequence ^ synchronisations << 40;
}

/* Return the next row of the thread's record, which has room for it, with thread, event and time filled in.
 * publish_access_row makes it part of the record. */
static struct weft_touch *begin_row(struct accessor *accessor) {
    struct weft_touch *row = (struct weft_touch *)accessor->stream.next;
    *row = (struct weft_touch){.event = count_own_events(), .first = weft_ticks(weft_clock_kind), .tid = accessor->tid};
    row->last = row->first;
    row->thread = (uint16_t)(weft_self ? weft_self->slot + 1 : 0);
    accessor->rows++;
    return row;
}

/* Return a row for one more access in the thread's record, with thread, event and time filled in; NULL if the thread
 * has recorded too many. publish_access_row makes it part of the record. */
static struct weft_touch *make_access_row(struct accessor *accessor) {
    if (accessor->stopped) return NULL;
    if (accessor->rows >= MOST_ROWS || !weft_stream_fits(&accessor->stream, sizeof(struct weft_touch))) {
        accessor->stopped = true;
        record_synchronisation(accessor, WEFT_HOOK_UNKNOWN, 0);
        weft_record_access_note(
            "the program's accesses to buffers and windows of MPI after the first ones, because there were too many");
        return NULL;
    }
    return begin_row(accessor);
}

/* Make the row that make_access_row returned part of the record. */
static void publish_access_row(struct accessor *accessor) {
    accessor->stream.next += sizeof(struct weft_touch);
    weft_stream_publish(&accessor->stream);
}

/* Return whether an access to [address, address + size) meets memory that MPI has (a hold) for which the access's kind
 * counts. If so, set the bounds of that hold and the state of the table (`sequence`) in which it was found. Takes no
 * lock: looks again if the table has changed meanwhile. */
static bool find_met_hold(uintptr_t address, size_t size, unsigned kind, uintptr_t *low, uintptr_t *high,
                          uint64_t *found_sequence) {
    for (;;) {
        uint64_t sequence_before = __atomic_load_n(&sequence, __ATOMIC_ACQUIRE);
        if (sequence_before & 1) continue;
        bool found = false;
        uint32_t top = hold_top;
        for (uint32_t i = 1; i < top && !found; i++) {
            const struct hold *hold = &holds[i];
            if (address >= hold->high || address + size <= hold->low || !(hold->reads || kind & WEFT_TOUCH_WRITE))
                continue;
            *low = hold->low;
            *high = hold->high;
            found = true;
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&sequence, __ATOMIC_RELAXED) != sequence_before) continue;
        *found_sequence = sequence_before;
        return found;
    }
}

/* Add an access at this address to the newest row of its place in the code (a row holds accesses at equal steps), if
 * the row has the address already or goes on to it by such a step. Return whether that was possible. */
static bool extend_row(struct line_entry *entry, uintptr_t address) {
    struct weft_touch *row = entry->row;
    if (address == entry->next && row->count > 1) {
        row->count++;
        entry->next += row->stride;
        return true;
    }
    if (address >= row->low) {
        uint64_t behind = address - row->low;
        if (row->count == 1) {
            if (behind && (behind < row->size || behind > 1 << 20)) return false;
            if (behind) {
                row->stride = behind;
                row->count = 2;
                entry->next = address + behind;
            } else if (row->again < UINT32_MAX) row->again++;
            return true;
        }
        if (behind / row->stride < row->count && behind % row->stride == 0) {
            if (row->again < UINT32_MAX) row->again++;
            return true;
        }
        return false;
    }
    uint64_t before = row->low - address;
    if (row->count == 1 ? before < row->size || before > 1 << 20 : before != row->stride) return false;
    if (row->count == 1) entry->next = row->low + before;
    row->stride = before;
    row->low = address;
    row->count++;
    return true;
}

/* Return whether an access of this kind from a place in the code can be ignored: all rows of the record that the place
 * may have are used, and the count of its accesses without a row is at its maximum. */
static bool is_place_exhausted(const struct line_entry *entry, uintptr_t code_place, unsigned kind, uint64_t moment) {
    if (entry->place != code_place || entry->kind != kind) return false;
    if (entry->all >= ROWS_OF_A_PLACE && (!entry->row || entry->row->dropped == UINT8_MAX)) return true;
    return entry->rows >= ROWS_AT_ONCE && entry->moment == moment && entry->row->dropped == UINT8_MAX;
}

/* Note the time of the row's newest access, where several threads access memory; else the thread's next call tells when
 * the row ends. */
static inline void update_row_end(struct weft_touch *row) {
    if (UNLIKELY(weft_threaded || !weft_self)) row->last = weft_ticks(weft_clock_kind);
}

/* Add an access to the newest row of its place in the code (a row holds accesses at equal steps) if it is exactly the
 * row's next step, as nearly all accesses are. Return whether nothing more is to be done. */
static inline bool continue_row(struct line_entry *entry, uintptr_t address, size_t size, unsigned kind,
                                uintptr_t code_place) {
    if (entry->place != code_place || entry->kind != kind || entry->moment != find_row_sharing_stamp()) return false;
    if (entry->closed) return true;
    if (address != entry->next || address < entry->low || address + size > entry->high || entry->sequence != sequence)
        return false;
    struct weft_touch *row = entry->row;
    if (row->size != size) return false;
    row->count++;
    entry->next += row->stride;
    update_row_end(row);
    return true;
}

/* Record an access of the program to memory that MPI has: in the newest row of its place in the code (`entry`), or in a
 * new row. */
static __attribute__((noinline)) void record_access_in_row(struct accessor *accessor, struct line_entry *entry,
                                                           uintptr_t address, size_t size, unsigned kind,
                                                           uintptr_t code_place) {
    WEFT_WORK(WEFT_ACCESSES);
    uint64_t moment = find_row_sharing_stamp();
    bool same = entry->place == code_place && entry->kind == kind && entry->moment == moment && entry->row &&
                entry->row->size == size;
    if (UNLIKELY(is_place_exhausted(entry, code_place, kind, moment))) {
        entry->closed = entry->moment == moment;
        return;
    }
    if (!same || entry->sequence != sequence || address < entry->low || address + size > entry->high) {
        uintptr_t low, high;
        uint64_t found_sequence;
        if (!find_met_hold(address, size, kind, &low, &high, &found_sequence)) return;
        bool same_hold = same && entry->low == low && entry->high == high;
        if (entry->place != code_place || entry->kind != kind || entry->moment != moment) {
            uint32_t all = entry->place == code_place && entry->kind == kind ? entry->all : 0;
            *entry = (struct line_entry){.place = code_place, .kind = kind, .moment = moment, .all = all};
            same_hold = false;
        }
        entry->sequence = found_sequence;
        entry->low = low;
        entry->high = high;
        same = same_hold;
    }
    if (same && extend_row(entry, address)) {
        update_row_end(entry->row);
        return;
    }
    if (entry->rows >= ROWS_AT_ONCE || entry->all >= ROWS_OF_A_PLACE) {
        if (entry->row && entry->row->dropped < UINT8_MAX) entry->row->dropped++;
        return;
    }
    struct weft_touch *row = make_access_row(accessor);
    if (!row) return;
    row->low = address;
    row->size = (uint32_t)(size < UINT32_MAX ? size : UINT32_MAX);
    row->count = 1;
    row->kind = (uint8_t)kind;
    row->site = code_place < WEFT_SITE_PLACES ? (uint32_t)code_place : weft_find_code_site(code_place);
    accessor->touched = true;
    accessor->acquired = NULL;
    publish_access_row(accessor);
    entry->row = row;
    entry->rows++;
    entry->all++;
    entry->next = 0;
}

/* Record an access of the program to `size` bytes, if MPI has them or they are ghost cells. The hooks of `weft cc`
 * programs call it; accesses inside calls of MPI (user functions of reductions) are MPI's and left out. `kind`:
 * WEFT_HOOK_*; `code_place`: address of the instruction, or the id of a call site. */
static void record_access(uintptr_t address, size_t size, unsigned kind, uintptr_t code_place) {
    if (!weft_recording || weft_depth || is_recording_access) return;
    is_recording_access = true;
    if (UNLIKELY(weft_halo_on)) weft_record_ghost_access(address, size, kind, code_place);
    bool held = weft_array_held && !(kind & WEFT_HOOK_FREE);
    struct accessor *accessor = !held ? NULL : own_accessor ? own_accessor : make_accessor(false, 0);
    if (LIKELY(accessor && !accessor->stopped)) {
        struct line_entry *entry = &accessor->entries[((code_place ^ code_place >> 12) * 4 + kind) % ENTRIES];
        if (UNLIKELY(!continue_row(entry, address, size, kind, code_place)))
            record_access_in_row(accessor, entry, address, size, kind, code_place);
    }
    is_recording_access = false;
}

/* Write a row that says which memory MPI has from here on. `count`, `type` and `bytes`: of a buffer its elements, their
 * datatype's id and its bytes; of a window the rank, the displacement unit and its bytes. `object`: id of the request
 * or window. */
static void record_hold(uint8_t kind, uintptr_t address, int64_t count, uint32_t type, uint64_t bytes,
                        uint32_t object) {
    WEFT_WORK(WEFT_ACCESSES);
    struct accessor *accessor = own_accessor ? own_accessor : make_accessor(false, 0);
    struct weft_touch *row = accessor ? make_access_row(accessor) : NULL;
    if (!row) return;
    row->low = address;
    row->count = (uint64_t)count;
    row->size = type;
    row->stride = bytes;
    row->object = object;
    row->kind = kind;
    publish_access_row(accessor);
}

/* ---- how threads are ordered ---- */

/* Write a row of one of the kinds that order threads. Return it, NULL if there is no room. */
static struct weft_touch *write_synchronisation_row(struct accessor *accessor, uint8_t kind) {
    if (!weft_stream_fits(&accessor->stream, sizeof(struct weft_touch))) return NULL;
    struct weft_touch *row = begin_row(accessor);
    row->kind = kind;
    publish_access_row(accessor);
    return row;
}

/* Record what a thread does for the order of threads, as far as it can matter: the first release since its last access
 * or call, the last acquisition before the next. `kinds`: a sum of WEFT_HOOK_RELEASE, ...; `moment`: when others had let
 * go what it acquires, 0: now. */
static void record_synchronisation(struct accessor *accessor, unsigned kinds, uint64_t moment) {
    if (kinds & WEFT_HOOK_UNKNOWN && !has_unordered_threads) {
        has_unordered_threads = true;
        write_synchronisation_row(accessor, WEFT_TOUCH_UNORDERED);
    }
    if (has_unordered_threads || accessor->stopped) return; /* the rest says nothing more */
    uint64_t events = count_own_events();
    accessor->synchronisations++;
    if (kinds & WEFT_HOOK_RELEASE && (accessor->touched || events != accessor->released_events)) {
        accessor->touched = false;
        accessor->released_events = events;
        if (accessor->rows >= MOST_ROWS || !write_synchronisation_row(accessor, WEFT_TOUCH_RELEASED))
            record_synchronisation(accessor, WEFT_HOOK_UNKNOWN, 0);
    }
    if (!(kinds & WEFT_HOOK_ACQUIRE)) return;
    struct weft_touch *row = events == accessor->acquired_events ? accessor->acquired : NULL;
    uint64_t before = row ? row->first : 0;
    if (!row) row = accessor->acquired = write_synchronisation_row(accessor, WEFT_TOUCH_ACQUIRED);
    accessor->acquired_events = events;
    if (!row) return;
    if (!moment) moment = weft_ticks(weft_clock_kind);
    row->first = row->last = moment > before ? moment : before;
}

/* Note what the calling thread does for the order of threads, and return the time for WEFT_HOOK_FORK; the hooks of
 * `weft cc` programs call it. `moment`: when others had let go what the thread acquires, 0: now. */
static uint64_t note_synchronisation(unsigned kinds, uint64_t moment) {
    if (!weft_recording || !weft_accessing || weft_depth || is_recording_access) return 0;
    struct accessor *accessor = own_accessor;
    if (LIKELY(accessor && kinds == WEFT_HOOK_RELEASE) && !accessor->touched &&
        count_own_events() == accessor->released_events) {
        accessor->synchronisations++;
        return 0;
    }
    int error = errno;
    is_recording_access = true;
    if (kinds & WEFT_HOOK_CREATE) __atomic_add_fetch(&unannounced_threads, 1, __ATOMIC_RELAXED);
    if (!accessor) accessor = make_accessor((kinds & WEFT_HOOK_BEGIN) != 0, moment);
    if (accessor) record_synchronisation(accessor, kinds, moment);
    is_recording_access = false;
    errno = error;
    return kinds & WEFT_HOOK_FORK ? weft_ticks(weft_clock_kind) : 0;
}

/* ---- clients ---- */
__attribute__((visibility("default"))) void weft_access_join(struct weft_client *client);
/* Called by a part of the program that `weft cc` built (a client) when it is loaded: serve its hooks from then on. */
void weft_access_join(struct weft_client *client) {
    if (client->version != WEFT_CLIENT_VERSION) {
        weft_note_foreign_client(client);
        return;
    }
    pthread_mutex_lock(&hold_lock);
    client->fine = fine_bits;
    client->coarse = coarse_bits;
    client->touched = record_access;
    client->synchronised = note_synchronisation;
    client->next = clients;
    clients = client;
    for (size_t i = 0; (weft_array_held || weft_halo_on) && i < WEFT_PAGES; i++)
        if (page_bits[i]) client->pages[i] = page_bits[i];
    publish_range_to_hooks();
    pthread_mutex_unlock(&hold_lock);
}

/* Tell the hooks of a client that no address is of interest any more. Bytes that are 0 are only read, as memory that
 * was never written costs nothing. */
static void clear_client(struct weft_client *client) {
    *client->span = 0;
    for (size_t i = 0; i < WEFT_PAGES; i++)
        if (client->pages[i]) client->pages[i] = 0;
}

__attribute__((visibility("default"))) void weft_access_leave(struct weft_client *client);
/* Called by a part of the program that `weft cc` built when it is unloaded: its hooks get no more changes. */
void weft_access_leave(struct weft_client *client) {
    pthread_mutex_lock(&hold_lock);
    for (struct weft_client **link = &clients; *link; link = &(*link)->next)
        if (*link == client) {
            *link = client->next;
            break;
        }
    clear_client(client);
    pthread_mutex_unlock(&hold_lock);
}

/* Begin to watch the program's accesses to memory that MPI has, unless that is left out or under way. `threads`:
 * several threads may access it. */
static void begin_watching_accesses(bool threads) {
    if (weft_accessing || weft_is_left_out(WEFT_ACCESSES)) return;
    weft_access_threads = threads;
    first_thread = weft_self;
    holds =
        mmap(NULL, HOLDS * sizeof *holds, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (holds == MAP_FAILED) return;
    hold_top = 1;
    pthread_key_create(&accessor_end, put_accessor_aside);
    weft_insert_access_hooks();
    weft_accessing = 1;
    /* LLVM's OpenMP is called by other names, which hooks do not know. */
    if (dlsym(RTLD_DEFAULT, "__kmpc_fork_call") && (own_accessor || make_accessor(true, 0)))
        record_synchronisation(own_accessor, WEFT_HOOK_UNKNOWN, 0);
}

/* Begin to watch the program's accesses if a part of it was built by `weft cc`; in a run that keeps only its last calls
 * (--keep), note that this is not done. */
void weft_begin_access_watch(bool threads) {
    weft_record_foreign_client_notes();
    if (clients && weft_the_record->keep)
        weft_record_access_note("the program's own loads and stores, because of --keep: leave it out to record them");
    else if (clients) begin_watching_accesses(threads);
}

/* ---- arrays of Python that tell of their own accesses (halo/shim.py) ---- */
#define FROM_PYTHON __attribute__((visibility("default")))

/* Whether accesses are written down from here on. Events of other threads than this one are not counted. */
FROM_PYTHON int weft_array_watch(void);
/* Called by a watched array of Python (ctypes): begin to watch accesses, and return whether they are recorded from here
 * on. */
int weft_array_watch(void) {
    if (!weft_recording || !weft_self || weft_replay_path[0] || weft_level != WEFT_LEVEL_TRACE) return 0;
    begin_watching_accesses(false);
    return weft_accessing;
}

/* The events of this thread so far; WEFT_TOUCH_NO_EVENTS where it has none. */
FROM_PYTHON uint64_t weft_array_moment(void);
/* Called from Python (ctypes): return how many calls this thread has recorded so far; WEFT_TOUCH_NO_EVENTS where
 * nothing is recorded. */
uint64_t weft_array_moment(void) { return weft_recording ? count_own_events() : WEFT_TOUCH_NO_EVENTS; }

/* An access by the Python code under way of `bytes` at each place of a grid; strides are in bytes. */
FROM_PYTHON void weft_array_accessed(uintptr_t low, size_t bytes, int dims, const int64_t *shape,
                                     const int64_t *strides, unsigned kind);
/* Called from Python (ctypes): record an access to `bytes` bytes at each place of a grid of `dims` dimensions with
 * `shape` elements that lie `strides` bytes apart. `kind`: WEFT_TOUCH_READ or _WRITE. */
void weft_array_accessed(uintptr_t low, size_t bytes, int dims, const int64_t *shape, const int64_t *strides,
                         unsigned kind) {
    if (!weft_array_held || !weft_recording || !weft_self) return;
    for (int64_t k = 0; dims && k < shape[0]; k++)
        weft_array_accessed(low + (uintptr_t)(k * strides[0]), bytes, dims - 1, shape + 1, strides + 1, kind);
    if (dims) return;
    uint8_t counts = kind & WEFT_TOUCH_WRITE ? WEFT_PAGE_READS | WEFT_PAGE_WRITES : WEFT_PAGE_READS;
    uint8_t piece_bits = page_bits[(low >> WEFT_PAGE_SHIFT) % WEFT_PAGES] |
                         page_bits[((low + bytes - 1) >> WEFT_PAGE_SHIFT) % WEFT_PAGES];
    uint32_t site = piece_bits & counts ? weft_find_call_site(weft_self, __builtin_return_address(0)) : 0;
    if (site && site < WEFT_SITE_PLACES) record_access(low, bytes, kind, site);
}

/* Put the generated functions that name a call's buffers (accessed.c) between the wrappers and MPI. */
void weft_insert_access_hooks(void) {
    for (int k = 0; k < weft_count; k++)
        if (weft_accessed[k] && !weft_beneath[k]) {
            weft_beneath[k] = weft_under[k];
            weft_under[k] = weft_accessed[k];
        }
}

/* Stop watching accesses in a child of fork(), which is not the rank. */
void weft_end_access_watch_in_child(void) {
    weft_accessing = 0;
    weft_end_ghost_watch_in_child();
    for (struct weft_client *client = clients; client; client = client->next) clear_client(client);
}

/* ---- parts ---- */
enum { FEW = 64 };
static __thread struct {
    int64_t n, space;
    struct weft_call_buffer *each, few[FEW];
    bool keep;
    /* Of those that the call sends; `known` only between weft_hash_sent_call_buffers and weft_take_request_buffers. */
    struct weft_hash sent;
} call_buffers;

/* Begin the list of buffers of a call that is about to be made; the generated access hooks call this. */
void weft_begin_call_buffers(void) {
    if (UNLIKELY(weft_halo_open)) weft_write_open_stores();
    call_buffers.n = 0;
    call_buffers.keep = call_buffers.sent.known = false;
}

/* Have the contents of the call's buffers stored beside their hash, as the call is a reduction or a broadcast. */
void weft_keep_contents_of_call(void) { call_buffers.keep = true; }

/* Hash what the call sends, if messages are hashed. All its buffers are listed, and MPI gets them now. */
void weft_hash_sent_call_buffers(void) {
    if (weft_hashing)
        call_buffers.sent = weft_hash_buffers(call_buffers.each, call_buffers.n, true, UINT64_MAX, call_buffers.keep);
}

/* Note that the call also sends what is in the buffer listed last, which MPI writes into. */
void weft_mark_last_buffer_sent(void) {
    if (call_buffers.n) call_buffers.each[call_buffers.n - 1].brought = true;
}

/* Return how many ranks a collective on the communicator has at the other side; 0 for a communicator that the recorder
 * does not know. */
int64_t weft_count_peers_or_none(MPI_Comm comm) {
    int count = weft_count_peers(comm);
    return count > 0 ? count : 0;
}

/* Add `count` elements of a datatype to the list of buffers of the call under way. `written`: MPI writes into them,
 * else it reads them. */
void weft_add_call_buffer(const void *buffer, int64_t count, MPI_Datatype type, bool written) {
    WEFT_WORK(WEFT_ACCESSES);
    if (buffer == MPI_IN_PLACE || count <= 0 || type == MPI_DATATYPE_NULL) return;
    /* A type of absolute addresses has its bytes there. */
    if ((!buffer || buffer == MPI_BOTTOM) &&
        (!weft_hashing || weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)type) < WEFT_ID_DYNAMIC))
        return;
    if (!call_buffers.each) {
        call_buffers.each = call_buffers.few;
        call_buffers.space = FEW;
    }
    if (call_buffers.n == call_buffers.space) {
        struct weft_call_buffer *more = malloc(sizeof *more * (size_t)call_buffers.space * 2);
        if (!more) return;
        memcpy(more, call_buffers.each, sizeof *more * (size_t)call_buffers.n);
        if (call_buffers.each != call_buffers.few) free(call_buffers.each);
        call_buffers.each = more;
        call_buffers.space *= 2;
    }
    call_buffers.each[call_buffers.n++] =
        (struct weft_call_buffer){.buffer = buffer, .count = count, .type = type, .written = written};
}

/* Add a buffer as weft_add_call_buffer does; it begins `displacement` bytes after `buffer`. */
void weft_add_call_buffer_at(const void *buffer, int64_t displacement, int64_t count, MPI_Datatype type, bool written) {
    if (!buffer || buffer == MPI_IN_PLACE || count <= 0) return;
    weft_add_call_buffer((const char *)buffer + displacement, count, type, written);
}

/* Set the addresses between which the bytes of a buffer lie; return whether MPI tells them. */
static bool find_buffer_span(const struct weft_call_buffer *buffer, uintptr_t *low, uintptr_t *high) {
    MPI_Aint lb, extent, true_lb, true_extent;
    if (REAL(MPI_Type_get_extent)(buffer->type, &lb, &extent) != MPI_SUCCESS ||
        REAL(MPI_Type_get_true_extent)(buffer->type, &true_lb, &true_extent) != MPI_SUCCESS || true_extent <= 0)
        return false;
    int64_t first = true_lb, last = true_lb + (buffer->count - 1) * (int64_t)extent;
    if (last < first) {
        int64_t other = first;
        first = last;
        last = other;
    }
    *low = (uintptr_t)buffer->buffer + (uintptr_t)first;
    *high = (uintptr_t)buffer->buffer + (uintptr_t)(last + true_extent);
    return true;
}

/* Note and record that MPI has a buffer from now on. `object`: id of its request, 0 for a call without one. Return the
 * number of this hold for end_hold, 0 if MPI has nothing to hold. */
static uint32_t hold_buffer(const struct weft_call_buffer *buffer, uint32_t object) {
    uintptr_t low, high;
    if (!weft_accessing || !buffer->buffer || !find_buffer_span(buffer, &low, &high)) return 0;
    if (UNLIKELY(weft_halo_waiting) && buffer->written) weft_learn_ghost_widths(low, high);
    uint32_t number = add_hold(low, high, buffer->written);
    uint32_t type = weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)buffer->type);
    if (number)
        record_hold(buffer->written ? WEFT_TOUCH_WRITTEN : WEFT_TOUCH_SENT, (uintptr_t)buffer->buffer, buffer->count,
                    type, high - low, object);
    return number;
}

/* Note and record that MPI has all buffers of a request from now on. */
static void hold_all_buffers(struct weft_request_buffers *buffers, uint32_t request) {
    if (buffers->held || !buffers->holds || !weft_accessing) return;
    buffers->held = true;
    for (int64_t i = 0; i < buffers->n; i++) buffers->holds[i] = hold_buffer(&buffers->each[i], request);
}

/* Return the buffers that the call has listed, to be kept with its request; NULL for none. MPI has them from now on,
 * or, of a `persistent` request, from its start. */
struct weft_request_buffers *weft_take_request_buffers(uint32_t request_id, bool persistent) {
    int64_t n = call_buffers.n;
    call_buffers.n = 0;
    struct weft_request_buffers *buffers = n ? malloc(sizeof *buffers + (size_t)n * sizeof *buffers->each) : NULL;
    if (!buffers) return NULL;
    *buffers = (struct weft_request_buffers){.n = n, .holds = calloc((size_t)n, sizeof *buffers->holds)};
    memcpy(buffers->each, call_buffers.each, (size_t)n * sizeof *buffers->each);
    if (weft_hashing) buffers->at = weft_find_current_call();
    if (call_buffers.sent.known) weft_record_hash(&call_buffers.sent, WEFT_HASH_SENT, buffers->at, request_id);
    call_buffers.sent.known = false;
    buffers->active = !persistent;
    buffers->keep = call_buffers.keep;
    if (!persistent) hold_all_buffers(buffers, request_id);
    return buffers;
}

/* Note that MPI has the buffers of a persistent request, as the request is started, and hash what is sent. */
void weft_hold_request_buffers(struct weft_request_buffers *buffers, uint32_t request_id) {
    if (UNLIKELY(weft_halo_open)) weft_write_open_stores();
    hold_all_buffers(buffers, request_id);
    if (!weft_hashing) return;
    buffers->at = weft_find_current_call();
    buffers->active = true;
    struct weft_hash sent = weft_hash_buffers(buffers->each, buffers->n, true, UINT64_MAX, buffers->keep);
    weft_record_hash(&sent, WEFT_HASH_SENT, buffers->at, request_id);
}

/* Note that MPI no longer has the buffers of a request. */
void weft_release_request_buffers(struct weft_request_buffers *buffers) {
    for (int64_t i = 0; buffers->held && i < buffers->n; i++) end_hold(buffers->holds[i]);
    buffers->held = false;
}

/* Free the list of buffers of a request, which MPI no longer has. */
void weft_free_request_buffers(struct weft_request_buffers *buffers) {
    weft_release_request_buffers(buffers);
    free(buffers->holds);
    free(buffers);
}

/* ---- blocking calls: their buffers are MPI's until they return, for all other threads ---- */
enum { MOST_OF_CALL = 8 };
static __thread struct {
    int n;
    uint32_t holds[MOST_OF_CALL];
    bool hashed; /* the parts are named until it returns */
} blocking_call;

/* Note that MPI has the listed buffers of a blocking call until weft_release_call_buffers, and hash what is sent. */
void weft_hold_call_buffers(void) {
    blocking_call.n = 0;
    if (!(weft_access_threads | weft_hashing)) { /* only ghost cells are asked about */
        uintptr_t low, high;
        for (int64_t i = 0; i < call_buffers.n; i++)
            if (call_buffers.each[i].written && find_buffer_span(&call_buffers.each[i], &low, &high))
                weft_learn_ghost_widths(low, high);
        return;
    }
    for (int64_t i = 0; i < call_buffers.n && blocking_call.n < MOST_OF_CALL; i++)
        if ((blocking_call.holds[blocking_call.n] = hold_buffer(&call_buffers.each[i], 0))) blocking_call.n++;
    blocking_call.hashed = weft_hashing && call_buffers.n;
    if (!blocking_call.hashed) return;
    struct weft_hash sent = weft_hash_buffers(call_buffers.each, call_buffers.n, true, UINT64_MAX, call_buffers.keep);
    weft_record_hash(&sent, WEFT_HASH_SENT, weft_find_current_call(), 0);
}

/* Note that a blocking call has returned its buffers, and hash what it received. `status`: tells how long the message
 * is; NULL: as long as the buffers are. */
void weft_release_call_buffers(bool ok, const MPI_Status *status) {
    while (blocking_call.n) end_hold(blocking_call.holds[--blocking_call.n]);
    if (!blocking_call.hashed) return;
    blocking_call.hashed = false;
    if (!ok) return;
    struct weft_hash got = weft_hash_buffers(call_buffers.each, call_buffers.n, false,
                                             status ? weft_read_status_bytes(status) : UINT64_MAX, call_buffers.keep);
    weft_record_hash(&got, WEFT_HASH_RECEIVED, weft_find_current_call(), 0);
}

/* ---- one-sided operations ---- */
struct operation {
    MPI_Win window;
    int target;
    uint32_t hold;
};
static struct operation *operations;
static int64_t operation_count, operation_space;
static pthread_mutex_t operations_lock = PTHREAD_MUTEX_INITIALIZER;

/* Note that MPI has the listed origin buffers of a one-sided operation to `target` until its epoch is completed. */
void weft_hold_origin_buffers(MPI_Win window, int target) {
    int64_t n = call_buffers.n;
    call_buffers.n = 0;
    if (target < 0) return;
    if (call_buffers.sent.known) weft_record_hash(&call_buffers.sent, WEFT_HASH_SENT, weft_find_current_call(), 0);
    for (int64_t i = 0; i < n; i++) {
        uint32_t hold = hold_buffer(&call_buffers.each[i], 0);
        if (!hold) continue;
        pthread_mutex_lock(&operations_lock);
        if (operation_count == operation_space) {
            int64_t space = operation_space ? operation_space * 2 : 64;
            struct operation *more = realloc(operations, sizeof *more * (size_t)space);
            if (more) {
                operations = more;
                operation_space = space;
            }
        }
        bool kept = operation_count < operation_space;
        if (kept) operations[operation_count++] = (struct operation){window, target, hold};
        pthread_mutex_unlock(&operations_lock);
        if (!kept) end_hold(hold);
    }
}

/* Note that MPI no longer has the origin buffers of operations on a window to `target` (-1: to all targets). */
void weft_release_origin_buffers(MPI_Win window, int target) {
    if (!operation_count) return;
    pthread_mutex_lock(&operations_lock);
    int64_t kept = 0;
    for (int64_t i = 0; i < operation_count; i++) {
        if (operations[i].window == window && (target < 0 || operations[i].target == target))
            end_hold(operations[i].hold);
        else operations[kept++] = operations[i];
    }
    operation_count = kept;
    pthread_mutex_unlock(&operations_lock);
}

/* ---- windows ---- */
struct exposure {
    MPI_Win window;
    const void *base;
    uint32_t hold, id;
    struct exposure *next;
};
static struct exposure *exposures;

/* Note and record memory of a window: accesses of the program to it are watched. `target`: the rank whose memory it is;
 * `unit`: its displacement unit. */
static void watch_exposed_memory(MPI_Win window, uint32_t id, int target, const void *base, int64_t size,
                                 int64_t unit) {
    if (!base || size <= 0) return;
    int *model = NULL, there = 0;
    bool separate = REAL(MPI_Win_get_attr)(window, MPI_WIN_MODEL, &model, &there) == MPI_SUCCESS && there &&
                    *model == MPI_WIN_SEPARATE;
    struct exposure *made = malloc(sizeof *made);
    if (!made) return;
    *made = (struct exposure){.window = window, .base = base, .id = id, .next = exposures};
    made->hold = add_hold((uintptr_t)base, (uintptr_t)base + (uintptr_t)size, true);
    exposures = made;
    record_hold(separate ? WEFT_TOUCH_SEPARATE : WEFT_TOUCH_UNIFIED, (uintptr_t)base, target, (uint32_t)unit,
                (uint64_t)size, id);
}

/* Watch the memory of a new window: that of this rank, and of all ranks of the host where the window is shared
 * memory. */
void weft_watch_window_memory(MPI_Win window, uint32_t id, MPI_Comm comm, int flavor, const void *base, int64_t size,
                              int64_t unit) {
    enum { DYNAMIC = 2, SHARED = 3 };
    if (flavor == DYNAMIC) return;
    int rank = 0, n = 0;
    REAL(MPI_Comm_rank)(comm, &rank);
    if (flavor != SHARED) {
        watch_exposed_memory(window, id, rank, base, size, unit);
        return;
    }
    REAL(MPI_Comm_size)(comm, &n);
    for (int r = 0; r < n; r++) {
        MPI_Aint bytes = 0;
        int displacement_unit = 1;
        void *address = NULL;
        if (REAL(MPI_Win_shared_query)(window, r, &bytes, &displacement_unit, &address) == MPI_SUCCESS)
            watch_exposed_memory(window, id, r, address, bytes, displacement_unit);
    }
}

/* Watch memory that the program has attached to a dynamic window. */
void weft_watch_attached_memory(MPI_Win window, const void *base, int64_t size) {
    MPI_Group group;
    int rank = 0;
    if (!weft_accessing) return;
    if (REAL(MPI_Win_get_group)(window, &group) != MPI_SUCCESS) return;
    REAL(MPI_Group_rank)(group, &rank);
    REAL(MPI_Group_free)(&group);
    watch_exposed_memory(window, weft_find_object_id(weft_self, WEFT_CLASS_WINDOW, (uintptr_t)window), rank, base, size,
                         0);
}

/* Stop watching memory of a window that other ranks no longer have access to. `base` NULL: all memory of the window. */
void weft_unwatch_window_memory(MPI_Win window, const void *base) {
    for (struct exposure **link = &exposures, *e; (e = *link);) {
        if (e->window != window || (base && e->base != base)) {
            link = &e->next;
            continue;
        }
        *link = e->next;
        end_hold(e->hold);
        record_hold(WEFT_TOUCH_GONE, (uintptr_t)e->base, 0, 0, 0, e->id);
        free(e);
    }
}
