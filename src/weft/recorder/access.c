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

static void count_one(const struct pieces *p, size_t at, bool with_reads, int by) {
    p->writes[at] = (uint16_t)(p->writes[at] + by);
    if (with_reads) p->reads[at] = (uint16_t)(p->reads[at] + by);
    uint8_t bits = (uint8_t)((p->writes[at] ? WEFT_PAGE_WRITES : 0) | (p->reads[at] ? WEFT_PAGE_READS : 0));
    if (bits == p->bits[at]) return;
    __atomic_store_n(&p->bits[at], bits, __ATOMIC_RELAXED);
    for (struct weft_client *c = p->told ? clients : NULL; c; c = c->next) c->pages[at] = bits;
}

/* Adds `by` to the count of each piece of memory that a hold, or an access that begins before it, can touch. */
static void count_in(const struct pieces *p, const struct hold *h, int by) {
    enum { LONGEST = 16 }; /* an access that begins before the hold may end in it */
    uintptr_t low = h->low - (LONGEST - 1);
    size_t n = ((h->high - 1) >> p->shift) - (low >> p->shift) + 1;
    if (n > p->entries) n = p->entries;
    for (size_t i = 0; i < n; i++) count_one(p, ((low >> p->shift) + i) % p->entries, h->reads, by);
}

static void count_pieces(const struct hold *h, int by) {
    count_in(&page_pieces, h, by);
    count_in(h->high - h->low > LONG ? &coarse_pieces : &fine_pieces, h, by);
}

/* What the hooks of copies look at first: the range that holds all. */
static uintptr_t range_low, range_high;
static uintptr_t watched_low, watched_high; /* of what is watched without a hold */

/* Gives every part of the program that `weft cc` built the range of addresses in which its hooks must look closer. */
static void tell_clients(void) {
    for (struct weft_client *c = clients; c; c = c->next) {
        *c->low = range_low;
        __atomic_store_n(c->span, range_high - range_low, __ATOMIC_RELEASE);
    }
}

/* Widens the range of addresses that the hooks look at, so that it contains [low, high). */
static void range_grow(uintptr_t low, uintptr_t high) {
    bool none = range_low == range_high;
    if (!none && low >= range_low && high <= range_high) return;
    if (none || low < range_low) range_low = low;
    if (none || high > range_high) range_high = high;
    tell_clients();
}

/* Of few holds what is left is found again; else it only grows until there are none. */
static void range_shrink(uintptr_t low, uintptr_t high) {
    enum { FEW_HOLDS = 256 };
    if (weft_array_held && ((low > range_low && high < range_high) || hold_top > FEW_HOLDS)) return;
    range_low = watched_low;
    range_high = watched_high;
    for (uint32_t i = 1; weft_array_held && i < hold_top; i++) {
        if (!holds[i].high) continue;
        if (!range_high || holds[i].low < range_low) range_low = holds[i].low;
        if (holds[i].high > range_high) range_high = holds[i].high;
    }
    tell_clients();
}

/* Adds (`by` 1) or removes (-1) a range of addresses that the hooks report although no call of MPI has it. */
void weft_change_watched_addresses(uintptr_t low, uintptr_t high, int by) {
    static int64_t watched;
    pthread_mutex_lock(&hold_lock);
    const struct hold one = {.low = low, .high = high, .reads = true};
    count_pieces(&one, by);
    watched += by;
    if (by > 0) {
        if (!watched_high || low < watched_low) watched_low = low;
        if (high > watched_high) watched_high = high;
    } else if (!watched) watched_low = watched_high = 0;
    if (by > 0) range_grow(low, high);
    else range_shrink(low, high);
    pthread_mutex_unlock(&hold_lock);
}

/* Notes that MPI has the bytes [low, high) from now on; `reads`: also reading them is of interest. Returns the number
 * of the hold, 0 for none. */
static uint32_t hold_add(uintptr_t low, uintptr_t high, bool reads) {
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
        count_pieces(&holds[number], 1);
        __atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
        weft_array_held++;
        range_grow(low, high);
    }
    pthread_mutex_unlock(&hold_lock);
    return number;
}

/* Notes that MPI no longer has the bytes of a hold. */
static void hold_end(uint32_t number) {
    if (!number) return;
    WEFT_WORK(WEFT_ACCESSES);
    pthread_mutex_lock(&hold_lock);
    __atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
    count_pieces(&holds[number], -1);
    const struct hold ended = holds[number];
    holds[number] = (struct hold){.next = hold_free};
    hold_free = number;
    if (!--weft_array_held) {
        hold_top = 1;
        hold_free = 0;
    }
    range_shrink(ended.low, ended.high);
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
    bool closed;              /* until the next moment nothing is written down */
    uint64_t next;       /* where the next access lies if the steps go on */
};

struct toucher { /* a thread that accesses memory, whether or not it calls MPI */
    struct weft_stream stream;
    uint32_t tid, rows;
    bool stopped;
    struct toucher *next_free;
    struct line_entry entries[ENTRIES];
};

static __thread struct toucher *toucher_here;
static __thread bool toucher_busy;
static pthread_mutex_t touchers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct toucher *free_touchers;
static uint32_t toucher_count;
static pthread_key_t toucher_end;

static struct weft_thread *first_thread;
volatile int weft_access_threads;

/* Puts a thread's table of accesses aside for another thread, when the thread ends. */
static void toucher_ended(void *data) {
    struct toucher *t = data;
    pthread_mutex_lock(&touchers_lock);
    t->next_free = free_touchers;
    free_touchers = t;
    pthread_mutex_unlock(&touchers_lock);
    toucher_here = NULL;
    toucher_busy = true; /* what runs later at the thread's end is not looked at */
}

/* Returns the table of accesses for the calling thread, new or of a thread that ended. */
static __attribute__((cold, noinline)) struct toucher *toucher_new(void) {
    if (!weft_self || weft_self != first_thread) weft_access_threads = 1;
    pthread_mutex_lock(&touchers_lock);
    struct toucher *t = free_touchers;
    if (t) {
        free_touchers = t->next_free;
        memset(t->entries, 0, sizeof t->entries);
    } else if ((t = calloc(1, sizeof *t))) {
        t->stopped = !weft_stream_open(weft_the_record, &t->stream, WEFT_STREAM_ACCESSES, (int)toucher_count++);
    }
    pthread_mutex_unlock(&touchers_lock);
    if (!t) return NULL;
    t->tid = (uint32_t)syscall(SYS_gettid);
    pthread_setspecific(toucher_end, t);
    return toucher_here = t;
}

static inline uint64_t events_so_far(void) {
    return weft_self ? (uint64_t)(weft_self->events.next - weft_self->events.base) / sizeof(struct weft_event)
                     : WEFT_TOUCH_NO_EVENTS;
}

/* What does not change while accesses may share a row: the thread's place in its program. One that makes no calls, or is not
 * alone, also needs that nothing else has begun or ended. */
static inline uint64_t moment_now(void) {
    if (LIKELY(weft_self && !weft_threaded)) return (uintptr_t)weft_self->events.next;
    uint64_t calls = first_thread ? (uint64_t)(first_thread->events.next - first_thread->events.base) : 0;
    return events_so_far() * 0x9e3779b97f4a7c15u ^ calls << 20 ^ sequence;
}

/* Returns room for one more row of accesses in the thread's record, NULL if it has too many. */
static struct weft_touch *row_new(struct toucher *t) {
    if (t->stopped) return NULL;
    if (t->rows == MOST_ROWS || !weft_stream_fits(&t->stream, sizeof(struct weft_touch))) {
        t->stopped = true;
        weft_record_access_note("of the program's accesses of memory that MPI had only the first were kept");
        return NULL;
    }
    struct weft_touch *row = (struct weft_touch *)t->stream.next;
    *row = (struct weft_touch){.event = events_so_far(), .first = weft_ticks(weft_clock_kind), .tid = t->tid};
    row->last = row->first;
    row->thread = (uint16_t)(weft_self ? weft_self->slot + 1 : 0);
    t->rows++;
    return row;
}

static void row_publish(struct toucher *t) {
    t->stream.next += sizeof(struct weft_touch);
    weft_stream_publish(&t->stream);
}

/* Whether [a, a + n) meets a hold for which this kind counts; the bytes between which that stays so. */
static bool meets(uintptr_t a, size_t n, unsigned kind, uintptr_t *low, uintptr_t *high, uint64_t *as_of) {
    for (;;) {
        uint64_t before = __atomic_load_n(&sequence, __ATOMIC_ACQUIRE);
        if (before & 1) continue;
        bool found = false;
        uint32_t top = hold_top;
        for (uint32_t i = 1; i < top && !found; i++) {
            const struct hold *h = &holds[i];
            if (a >= h->high || a + n <= h->low || !(h->reads || kind & WEFT_TOUCH_WRITE)) continue;
            *low = h->low;
            *high = h->high;
            found = true;
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&sequence, __ATOMIC_RELAXED) != before) continue;
        *as_of = before;
        return found;
    }
}

/* Returns whether the row has an access already, or can be extended by it. */
static bool row_takes(struct line_entry *e, uintptr_t a) {
    struct weft_touch *row = e->row;
    if (a == e->next && row->count > 1) {
        row->count++;
        e->next += row->stride;
        return true;
    }
    if (a >= row->low) {
        uint64_t behind = a - row->low;
        if (row->count == 1) {
            if (behind && (behind < row->size || behind > 1 << 20)) return false;
            if (behind) {
                row->stride = behind;
                row->count = 2;
                e->next = a + behind;
            } else if (row->again < UINT32_MAX) row->again++;
            return true;
        }
        if (behind / row->stride < row->count && behind % row->stride == 0) {
            if (row->again < UINT32_MAX) row->again++;
            return true;
        }
        return false;
    }
    uint64_t before = row->low - a;
    if (row->count == 1 ? before < row->size || before > 1 << 20 : before != row->stride) return false;
    if (row->count == 1) e->next = row->low + before;
    row->stride = before;
    row->low = a;
    row->count++;
    return true;
}

/* Whether a place has had all rows that it gets, and many accesses for which there was none: it is asked nothing more. */
static bool exhausted(const struct line_entry *e, uintptr_t place, unsigned kind, uint64_t moment) {
    if (e->place != place || e->kind != kind) return false;
    if (e->all >= ROWS_OF_A_PLACE && (!e->row || e->row->dropped == UINT8_MAX)) return true;
    return e->rows >= ROWS_AT_ONCE && e->moment == moment && e->row->dropped == UINT8_MAX;
}

/* Among threads a row has an end of its own. */
static inline void row_lasts(struct weft_touch *row) {
    if (UNLIKELY(weft_threaded || !weft_self)) row->last = weft_ticks(weft_clock_kind);
}

/* What nearly all accesses come to: the row of their place goes on by one more step, or is full. */
static inline bool goes_on(struct line_entry *e, uintptr_t a, size_t n, unsigned kind, uintptr_t place) {
    if (e->place != place || e->kind != kind || e->moment != moment_now()) return false;
    if (e->closed) return true;
    if (a != e->next || a < e->low || a + n > e->high || e->sequence != sequence) return false;
    struct weft_touch *row = e->row;
    if (row->size != n) return false;
    row->count++;
    e->next += row->stride;
    row_lasts(row);
    return true;
}

/* Records an access of the program to memory that MPI has: in the row of its place in the code, or in a new one. */
static __attribute__((noinline)) void touched_now(struct toucher *t, struct line_entry *e, uintptr_t a, size_t n,
                                                  unsigned kind, uintptr_t place) {
    WEFT_WORK(WEFT_ACCESSES);
    uint64_t event = moment_now();
    bool same = e->place == place && e->kind == kind && e->moment == event && e->row && e->row->size == n;
    if (UNLIKELY(exhausted(e, place, kind, event))) {
        e->closed = e->moment == event;
        return;
    }
    if (!same || e->sequence != sequence || a < e->low || a + n > e->high) {
        uintptr_t low, high;
        uint64_t as_of;
        if (!meets(a, n, kind, &low, &high, &as_of)) return;
        bool here = same && e->low == low && e->high == high;
        if (e->place != place || e->kind != kind || e->moment != event) {
            uint32_t all = e->place == place && e->kind == kind ? e->all : 0;
            *e = (struct line_entry){.place = place, .kind = kind, .moment = event, .all = all};
            here = false;
        }
        e->sequence = as_of;
        e->low = low;
        e->high = high;
        same = here;
    }
    if (same && row_takes(e, a)) {
        row_lasts(e->row);
        return;
    }
    if (e->rows >= ROWS_AT_ONCE || e->all >= ROWS_OF_A_PLACE) {
        if (e->row && e->row->dropped < UINT8_MAX) e->row->dropped++;
        return;
    }
    struct weft_touch *row = row_new(t);
    if (!row) return;
    row->low = a;
    row->size = (uint32_t)(n < UINT32_MAX ? n : UINT32_MAX);
    row->count = 1;
    row->kind = (uint8_t)kind;
    row->site = place < WEFT_SITE_PLACES ? (uint32_t)place : weft_find_code_site(place);
    row_publish(t);
    e->row = row;
    e->rows++;
    e->all++;
    e->next = 0;
}

/* What the hooks call. Accesses inside of MPI's own calls (functions of reductions, attributes) are MPI's. */
static void touched(uintptr_t a, size_t n, unsigned kind, uintptr_t place) {
    if (!weft_recording || weft_depth || toucher_busy) return;
    toucher_busy = true;
    if (UNLIKELY(weft_halo_on)) weft_record_ghost_access(a, n, kind, place);
    bool held = weft_array_held && !(kind & WEFT_HOOK_FREE);
    struct toucher *t = !held ? NULL : toucher_here ? toucher_here : toucher_new();
    if (LIKELY(t && !t->stopped)) {
        struct line_entry *e = &t->entries[((place ^ place >> 12) * 4 + kind) % ENTRIES];
        if (UNLIKELY(!goes_on(e, a, n, kind, place))) touched_now(t, e, a, n, kind, place);
    }
    toucher_busy = false;
}

/* Writes a hold into the record, as a row. */
static void tell_hold(uint8_t kind, uintptr_t low, int64_t count, uint32_t type, uint64_t bytes, uint32_t object) {
    WEFT_WORK(WEFT_ACCESSES);
    struct toucher *t = toucher_here ? toucher_here : toucher_new();
    struct weft_touch *row = t ? row_new(t) : NULL;
    if (!row) return;
    row->low = low;
    row->count = (uint64_t)count;
    row->size = type;
    row->stride = bytes;
    row->object = object;
    row->kind = kind;
    row_publish(t);
}

/* ---- clients ---- */
__attribute__((visibility("default"))) void weft_access_join(struct weft_client *client);
/* Called by a part of the program that `weft cc` built when it is loaded: its hooks are served from then on. */
void weft_access_join(struct weft_client *client) {
    if (client->version != WEFT_CLIENT_VERSION) {
        weft_note_foreign_client(client);
        return;
    }
    pthread_mutex_lock(&hold_lock);
    client->fine = fine_bits;
    client->coarse = coarse_bits;
    client->touched = touched;
    client->next = clients;
    clients = client;
    for (size_t i = 0; (weft_array_held || weft_halo_on) && i < WEFT_PAGES; i++)
        if (page_bits[i]) client->pages[i] = page_bits[i];
    tell_clients();
    pthread_mutex_unlock(&hold_lock);
}

/* Tells a client that no address is of interest any more. What is 0 is only read: it is memory that nobody has. */
static void forget(struct weft_client *client) {
    *client->span = 0;
    for (size_t i = 0; i < WEFT_PAGES; i++)
        if (client->pages[i]) client->pages[i] = 0;
}

__attribute__((visibility("default"))) void weft_access_leave(struct weft_client *client);
/* Called by a part of the program that `weft cc` built when it is unloaded. */
void weft_access_leave(struct weft_client *client) {
    pthread_mutex_lock(&hold_lock);
    for (struct weft_client **link = &clients; *link; link = &(*link)->next)
        if (*link == client) {
            *link = client->next;
            break;
        }
    forget(client);
    pthread_mutex_unlock(&hold_lock);
}

/* Begins to watch the program's accesses; `threads`: it may have several threads. */
static void begin(bool threads) {
    if (weft_accessing || weft_is_left_out(WEFT_ACCESSES)) return;
    weft_access_threads = threads;
    first_thread = weft_self;
    holds =
        mmap(NULL, HOLDS * sizeof *holds, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (holds == MAP_FAILED) return;
    hold_top = 1;
    pthread_key_create(&toucher_end, toucher_ended);
    weft_insert_access_hooks();
    weft_accessing = 1;
}

/* Begins to watch the program's accesses if a part of it was built by `weft cc`. */
void weft_begin_access_watch(bool threads) {
    weft_record_foreign_client_notes();
    if (clients && weft_the_record->keep)
        weft_record_access_note("the program's own loads and stores, which a run without --keep records");
    else if (clients) begin(threads);
}

/* ---- arrays of Python that tell of their own accesses (halo/shim.py) ---- */
#define FROM_PYTHON __attribute__((visibility("default")))

/* Whether accesses are written down from here on. Events of other threads than this one are not counted. */
FROM_PYTHON int weft_array_watch(void);
/* Called for a watched array of Python: begins to watch accesses; returns whether they are watched. */
int weft_array_watch(void) {
    if (!weft_recording || !weft_self || weft_replay_path[0] || weft_level != WEFT_LEVEL_TRACE) return 0;
    begin(false);
    return weft_accessing;
}

/* The events of this thread so far; WEFT_TOUCH_NO_EVENTS where it has none. */
FROM_PYTHON uint64_t weft_array_moment(void);
uint64_t weft_array_moment(void) { return weft_recording ? events_so_far() : WEFT_TOUCH_NO_EVENTS; }

/* An access by the Python code under way of `bytes` at each place of a grid; strides are in bytes. */
FROM_PYTHON void weft_array_accessed(uintptr_t low, size_t bytes, int dims, const int64_t *shape,
                                     const int64_t *strides, unsigned kind);
/* Records an access to a part of a Python array: `dims` dimensions of `shape` elements, `strides` bytes apart. */
void weft_array_accessed(uintptr_t low, size_t bytes, int dims, const int64_t *shape, const int64_t *strides,
                         unsigned kind) {
    if (!weft_array_held || !weft_recording || !weft_self) return;
    for (int64_t k = 0; dims && k < shape[0]; k++)
        weft_array_accessed(low + (uintptr_t)(k * strides[0]), bytes, dims - 1, shape + 1, strides + 1, kind);
    if (dims) return;
    uint8_t counts = kind & WEFT_TOUCH_WRITE ? WEFT_PAGE_READS | WEFT_PAGE_WRITES : WEFT_PAGE_READS;
    uint8_t here = page_bits[(low >> WEFT_PAGE_SHIFT) % WEFT_PAGES] |
                   page_bits[((low + bytes - 1) >> WEFT_PAGE_SHIFT) % WEFT_PAGES];
    uint32_t site = here & counts ? weft_find_call_site(weft_self, __builtin_return_address(0)) : 0;
    if (site && site < WEFT_SITE_PLACES) touched(low, bytes, kind, site);
}

/* Puts the access hooks beneath the wrappers of MPI's functions. */
void weft_insert_access_hooks(void) {
    for (int k = 0; k < weft_count; k++)
        if (weft_accessed[k] && !weft_beneath[k]) {
            weft_beneath[k] = weft_under[k];
            weft_under[k] = weft_accessed[k];
        }
}

/* Stops watching in a child of fork(), which is not the rank. */
void weft_end_access_watch_in_child(void) {
    weft_accessing = 0;
    weft_end_ghost_watch_in_child();
    for (struct weft_client *c = clients; c; c = c->next) forget(c);
}

/* ---- parts ---- */
enum { FEW = 64 };
static __thread struct {
    int64_t n, space;
    struct weft_part *each, few[FEW];
    bool keep;
    struct weft_hash
        sent; /* of those that the call sends; `known` only between weft_hash_sent_call_buffers and weft_take_request_buffers */
} named;

/* Begins the list of buffers that a call names. */
void weft_begin_call_buffers(void) {
    if (UNLIKELY(weft_halo_open)) weft_write_open_stores();
    named.n = 0;
    named.keep = named.sent.known = false;
}

/* Marks the bytes of the call's buffers to be stored whole in the record beside their hash. */
void weft_keep_contents_of_call(void) { named.keep = true; }

/* Ends the list of the call's buffers before the call: hashes what is sent. */
void weft_hash_sent_call_buffers(void) {
    if (weft_hashing) named.sent = weft_hash_buffers(named.each, named.n, true, UINT64_MAX, named.keep);
}

void weft_mark_last_buffer_sent(void) {
    if (named.n) named.each[named.n - 1].brought = true;
}

int64_t weft_count_peers_or_none(MPI_Comm comm) {
    int n = weft_count_peers(comm);
    return n > 0 ? n : 0;
}

/* Adds a buffer to the list of the call: `count` elements of a type; `written`: MPI writes into it. */
void weft_add_call_buffer(const void *buffer, int64_t count, MPI_Datatype type, bool written) {
    WEFT_WORK(WEFT_ACCESSES);
    if (buffer == MPI_IN_PLACE || count <= 0 || type == MPI_DATATYPE_NULL) return;
    /* A type of absolute addresses has its bytes there. */
    if ((!buffer || buffer == MPI_BOTTOM) &&
        (!weft_hashing || weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)type) < WEFT_ID_DYNAMIC))
        return;
    if (!named.each) {
        named.each = named.few;
        named.space = FEW;
    }
    if (named.n == named.space) {
        struct weft_part *more = malloc(sizeof *more * (size_t)named.space * 2);
        if (!more) return;
        memcpy(more, named.each, sizeof *more * (size_t)named.n);
        if (named.each != named.few) free(named.each);
        named.each = more;
        named.space *= 2;
    }
    named.each[named.n++] = (struct weft_part){.buffer = buffer, .count = count, .type = type, .written = written};
}

void weft_add_call_buffer_at(const void *buffer, int64_t displacement, int64_t count, MPI_Datatype type, bool written) {
    if (!buffer || buffer == MPI_IN_PLACE || count <= 0) return;
    weft_add_call_buffer((const char *)buffer + displacement, count, type, written);
}

/* Sets the addresses between which the bytes of a part lie; returns whether they are known. */
static bool span_of(const struct weft_part *part, uintptr_t *low, uintptr_t *high) {
    MPI_Aint lb, extent, true_lb, true_extent;
    if (REAL(MPI_Type_get_extent)(part->type, &lb, &extent) != MPI_SUCCESS ||
        REAL(MPI_Type_get_true_extent)(part->type, &true_lb, &true_extent) != MPI_SUCCESS || true_extent <= 0)
        return false;
    int64_t first = true_lb, last = true_lb + (part->count - 1) * (int64_t)extent;
    if (last < first) {
        int64_t other = first;
        first = last;
        last = other;
    }
    *low = (uintptr_t)part->buffer + (uintptr_t)first;
    *high = (uintptr_t)part->buffer + (uintptr_t)(last + true_extent);
    return true;
}

/* Notes that MPI has a buffer from now on, and records that; returns the number of the hold, 0 for none. */
static uint32_t part_hold(const struct weft_part *part, uint32_t object) {
    uintptr_t low, high;
    if (!weft_accessing || !part->buffer || !span_of(part, &low, &high)) return 0;
    if (UNLIKELY(weft_halo_waiting) && part->written) weft_learn_ghost_widths(low, high);
    uint32_t number = hold_add(low, high, part->written);
    uint32_t type = weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)part->type);
    if (number)
        tell_hold(part->written ? WEFT_TOUCH_WRITTEN : WEFT_TOUCH_SENT, (uintptr_t)part->buffer, part->count, type,
                  high - low, object);
    return number;
}

/* Notes that MPI has all buffers of an operation from now on. */
static void hold_all(struct weft_parts *parts, uint32_t request) {
    if (parts->held || !parts->holds || !weft_accessing) return;
    parts->held = true;
    for (int64_t i = 0; i < parts->n; i++) parts->holds[i] = part_hold(&parts->each[i], request);
}

/* Returns the buffers that the call named, to be kept with its request; NULL for none. */
struct weft_parts *weft_take_request_buffers(uint32_t request, bool persistent) {
    int64_t n = named.n;
    named.n = 0;
    struct weft_parts *parts = n ? malloc(sizeof *parts + (size_t)n * sizeof *parts->each) : NULL;
    if (!parts) return NULL;
    *parts = (struct weft_parts){.n = n, .holds = calloc((size_t)n, sizeof *parts->holds)};
    memcpy(parts->each, named.each, (size_t)n * sizeof *parts->each);
    if (weft_hashing) parts->at = weft_find_current_call();
    if (named.sent.known) weft_record_hash(&named.sent, WEFT_HASH_SENT, parts->at, request);
    named.sent.known = false;
    parts->active = !persistent;
    parts->keep = named.keep;
    if (!persistent) hold_all(parts, request);
    return parts;
}

/* Notes that MPI has the buffers of a request from its start on, and hashes what is sent. */
void weft_hold_request_buffers(struct weft_parts *parts, uint32_t request) {
    if (UNLIKELY(weft_halo_open)) weft_write_open_stores();
    hold_all(parts, request);
    if (!weft_hashing) return;
    parts->at = weft_find_current_call();
    parts->active = true;
    struct weft_hash sent = weft_hash_buffers(parts->each, parts->n, true, UINT64_MAX, parts->keep);
    weft_record_hash(&sent, WEFT_HASH_SENT, parts->at, request);
}

void weft_release_request_buffers(struct weft_parts *parts) {
    for (int64_t i = 0; parts->held && i < parts->n; i++) hold_end(parts->holds[i]);
    parts->held = false;
}

/* Frees the list of buffers of a request, which MPI no longer has. */
void weft_free_request_buffers(struct weft_parts *parts) {
    weft_release_request_buffers(parts);
    free(parts->holds);
    free(parts);
}

/* ---- blocking calls: their buffers are MPI's until they return, for all other threads ---- */
enum { MOST_OF_CALL = 8 };
static __thread struct {
    int n;
    uint32_t holds[MOST_OF_CALL];
    bool hashed; /* the parts are named until it returns */
} called;

/* Notes that MPI has the buffers of a blocking call while it lasts. */
void weft_hold_call_buffers(void) {
    called.n = 0;
    if (!(weft_access_threads | weft_hashing)) { /* only ghost cells are asked about */
        uintptr_t low, high;
        for (int64_t i = 0; i < named.n; i++)
            if (named.each[i].written && span_of(&named.each[i], &low, &high)) weft_learn_ghost_widths(low, high);
        return;
    }
    for (int64_t i = 0; i < named.n && called.n < MOST_OF_CALL; i++)
        if ((called.holds[called.n] = part_hold(&named.each[i], 0))) called.n++;
    called.hashed = weft_hashing && named.n;
    if (!called.hashed) return;
    struct weft_hash sent = weft_hash_buffers(named.each, named.n, true, UINT64_MAX, named.keep);
    weft_record_hash(&sent, WEFT_HASH_SENT, weft_find_current_call(), 0);
}

/* Ends what weft_hold_call_buffers began, and hashes what was received. */
void weft_release_call_buffers(bool ok, const MPI_Status *status) {
    while (called.n) hold_end(called.holds[--called.n]);
    if (!called.hashed) return;
    called.hashed = false;
    if (!ok) return;
    struct weft_hash got =
        weft_hash_buffers(named.each, named.n, false, status ? weft_read_status_bytes(status) : UINT64_MAX, named.keep);
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

/* Notes that MPI has the origin buffers of a one-sided operation until its epoch is completed. */
void weft_hold_origin_buffers(MPI_Win window, int target) {
    int64_t n = named.n;
    named.n = 0;
    if (target < 0) return;
    if (named.sent.known) weft_record_hash(&named.sent, WEFT_HASH_SENT, weft_find_current_call(), 0);
    for (int64_t i = 0; i < n; i++) {
        uint32_t hold = part_hold(&named.each[i], 0);
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
        if (!kept) hold_end(hold);
    }
}

/* Notes that MPI no longer has the origin buffers of operations on a window to `target` (-1: to all). */
void weft_release_origin_buffers(MPI_Win window, int target) {
    if (!operation_count) return;
    pthread_mutex_lock(&operations_lock);
    int64_t kept = 0;
    for (int64_t i = 0; i < operation_count; i++) {
        if (operations[i].window == window && (target < 0 || operations[i].target == target))
            hold_end(operations[i].hold);
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

/* Notes the memory that a window gives other ranks access to. */
static void expose(MPI_Win window, uint32_t id, int target, const void *base, int64_t size, int64_t unit) {
    if (!base || size <= 0) return;
    int *model = NULL, there = 0;
    bool separate = REAL(MPI_Win_get_attr)(window, MPI_WIN_MODEL, &model, &there) == MPI_SUCCESS && there &&
                    *model == MPI_WIN_SEPARATE;
    struct exposure *made = malloc(sizeof *made);
    if (!made) return;
    *made = (struct exposure){.window = window, .base = base, .id = id, .next = exposures};
    made->hold = hold_add((uintptr_t)base, (uintptr_t)base + (uintptr_t)size, true);
    exposures = made;
    tell_hold(separate ? WEFT_TOUCH_SEPARATE : WEFT_TOUCH_UNIFIED, (uintptr_t)base, target, (uint32_t)unit,
              (uint64_t)size, id);
}

/* Notes the memory of a new window, of all ranks on this host if the window is shared memory. */
void weft_watch_window_memory(MPI_Win window, uint32_t id, MPI_Comm comm, int flavor, const void *base, int64_t size,
                              int64_t unit) {
    enum { DYNAMIC = 2, SHARED = 3 };
    if (flavor == DYNAMIC) return;
    int rank = 0, n = 0;
    REAL(MPI_Comm_rank)(comm, &rank);
    if (flavor != SHARED) {
        expose(window, id, rank, base, size, unit);
        return;
    }
    REAL(MPI_Comm_size)(comm, &n);
    for (int r = 0; r < n; r++) {
        MPI_Aint bytes = 0;
        int step = 1;
        void *at = NULL;
        if (REAL(MPI_Win_shared_query)(window, r, &bytes, &step, &at) == MPI_SUCCESS)
            expose(window, id, r, at, bytes, step);
    }
}

/* Notes memory that the program has attached to a dynamic window. */
void weft_watch_attached_memory(MPI_Win window, const void *base, int64_t size) {
    MPI_Group group;
    int rank = 0;
    if (!weft_accessing) return;
    if (REAL(MPI_Win_get_group)(window, &group) != MPI_SUCCESS) return;
    REAL(MPI_Group_rank)(group, &rank);
    REAL(MPI_Group_free)(&group);
    expose(window, weft_find_object_id(weft_self, WEFT_CLASS_WINDOW, (uintptr_t)window), rank, base, size, 0);
}

/* Forgets the memory of a window that other ranks no longer have access to; `base` NULL: all of the window. */
void weft_unwatch_window_memory(MPI_Win window, const void *base) {
    for (struct exposure **link = &exposures, *e; (e = *link);) {
        if (e->window != window || (base && e->base != base)) {
            link = &e->next;
            continue;
        }
        *link = e->next;
        hold_end(e->hold);
        tell_hold(WEFT_TOUCH_GONE, (uintptr_t)e->base, 0, 0, 0, e->id);
        free(e);
    }
}
