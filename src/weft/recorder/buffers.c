/* Buffers of pending operations, looked at to tell whether the program wrote into one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "peek.h"
#include "shim.h"

extern WEFT_HIDDEN int weft_watching;
enum { WEFT_WATCH_ALL = 2 }; /* else 1, or 0 for nothing */

/* Which bytes of a watched buffer are looked at: all of a short one, else its ends and some lines of its middle, so
 * that a large send costs no more than a small one. */
enum { ORIGINS = 1 << 12 }; /* one-sided operations watched at once: an epoch may hold millions */
enum { WATCHED_WHOLE = 256, WATCHED_PIECE = 32, WATCHED_PIECES = 8, WATCHED_BYTES = 256 };
_Static_assert(WATCHED_BYTES >= WATCHED_WHOLE && WATCHED_BYTES >= WATCHED_PIECE * WATCHED_PIECES, "a copy holds them");

/* All of a longer one at the first operations of a line, up to so many bytes of each line; with --whole-buffers at every
 * operation. No copy takes more than WHOLE_MOST. */
enum { WHOLE_MOST = 64 << 20, WHOLE_OF_SITE = 32 << 20, WHOLE_CHUNK = 16 << 10, PIECES_AT_ONCE = 64, PIECE_COST = 256 };

static bool whole(uint64_t n) { return n <= WATCHED_WHOLE || (weft_watching == WEFT_WATCH_ALL && n <= WHOLE_MOST); }

static size_t watched_bytes(uint64_t n) { return whole(n) ? (size_t)n : (size_t)WATCHED_BYTES; }

/* Lists the pieces of a buffer that are compared: all of it, or some spread over it. Returns how many. */
static int watched(const uint8_t *bytes, uint64_t n, struct iovec *pieces) {
    if (whole(n)) {
        pieces[0] = (struct iovec){.iov_base = (void *)bytes, .iov_len = (size_t)n};
        return 1;
    }
    for (int i = 0; i < WATCHED_PIECES; i++)
        pieces[i] =
            (struct iovec){.iov_base = (void *)(bytes + (n - WATCHED_PIECE) * (uint64_t)i / (WATCHED_PIECES - 1)),
                           .iov_len = WATCHED_PIECE};
    return WATCHED_PIECES;
}

enum { WATCHED_SITES = 4096 };
static uint32_t starts_of_site[WATCHED_SITES];
static uint64_t bytes_of_site[WATCHED_SITES]; /* that were looked at wholly */

/* Returns a checksum of `n` bytes that continues `sum`. */
static uint64_t sum_bytes(uint64_t sum, const uint8_t *bytes, size_t n) {
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, bytes + i, 8);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    for (; i < n; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

/* A buffer may be memory of a device at its start, and at its completion the program may have given it back, against the
 * rules: the kernel reads it for us, and says when it is gone, where a read of our own would kill a program that gets away
 * with it. Returns bytes read, fewer than asked for where some are gone; -1: the kernel does not let us look. */
static ssize_t look(const struct weft_pending *p, uint8_t *copy, struct iovec *pieces, int *count, size_t *size) {
    *count = watched(p->buffer, p->bytes, pieces);
    *size = 0;
    for (int i = 0; i < *count; i++) *size += pieces[i].iov_len;
    return weft_copy_readable_pieces(copy, pieces, *count);
}

/* A sum in the making: it looks at pieces together, as each look takes the kernel's time. */
struct summing {
    uint64_t sum;
    struct iovec pieces[PIECES_AT_ONCE];
    int n;
    size_t size;
    bool hidden, gone; /* what of it cannot be looked at, and what is not there any more */
};

/* Reads the pieces that were collected, and adds them to the checksum. */
static void sum_pieces(struct summing *s) {
    uint8_t copy[WHOLE_CHUNK];
    ssize_t got = s->n ? weft_copy_readable_pieces(copy, s->pieces, s->n) : 0;
    if (got < 0) s->hidden = true;
    else if ((size_t)got != s->size) s->gone = true;
    else s->sum = sum_bytes(s->sum, copy, s->size);
    s->n = 0;
    s->size = 0;
}

/* Collects `bytes` bytes of a buffer for the checksum. */
static void sum_piece(struct summing *s, const uint8_t *from, uint64_t bytes) {
    while (bytes && !s->hidden && !s->gone) {
        if (s->n == PIECES_AT_ONCE || s->size == WHOLE_CHUNK) sum_pieces(s);
        size_t room = WHOLE_CHUNK - s->size, n = bytes < room ? (size_t)bytes : room;
        s->pieces[s->n++] = (struct iovec){.iov_base = (void *)(uintptr_t)from, .iov_len = n};
        s->size += n;
        from += n;
        bytes -= n;
    }
}

static void sum_block(struct summing *s, const struct weft_pending *p, int64_t element, struct weft_block_run block) {
    sum_piece(s, (const uint8_t *)p->buffer + element * p->blocks->extent + block.at, block.bytes);
}

/* Those of a datatype, or as many pieces of them as are looked at in a buffer without gaps. */
static void sum_blocks(struct summing *s, const struct weft_pending *p) {
    const struct weft_blocks *b = p->blocks;
    for (int k = 0; k < WATCHED_PIECES && !p->whole; k++) {
        uint64_t byte = (p->bytes - 1) / (WATCHED_PIECES - 1) * (uint64_t)k;
        struct weft_block_run block = weft_find_block_of_byte(b, byte % b->bytes);
        if (block.bytes > WATCHED_PIECE) block.bytes = WATCHED_PIECE;
        sum_block(s, p, (int64_t)(byte / b->bytes), block);
    }
    for (int64_t element = 0; element < b->count && p->whole; element++)
        for (int i = 0; i < b->runs && !s->hidden && !s->gone; i++) {
            struct weft_block_run block = b->run[i];
            for (uint64_t k = 0; k < b->run[i].times; k++, block.at += block.stride) sum_block(s, p, element, block);
        }
}

/* The sum of what is watched; false where it cannot be looked at, `gone` where it is gone. */
static bool sum_now(const struct weft_pending *p, uint64_t *sum, bool *gone) {
    WEFT_WORK(WEFT_BUFFERS);
    struct summing s = {.sum = p->bytes};
    struct iovec pieces[WATCHED_PIECES];
    if (p->blocks) sum_blocks(&s, p);
    else if (p->whole) sum_piece(&s, p->buffer, p->bytes);
    else
        for (int i = 0, n = watched(p->buffer, p->bytes, pieces); i < n; i++)
            sum_piece(&s, pieces[i].iov_base, pieces[i].iov_len);
    sum_pieces(&s);
    *sum = s.sum;
    *gone = s.gone;
    return !s.hidden;
}

/* Whether all of a buffer is looked at this time, and of the line's bytes that are left for that. */
static bool takes_whole(const struct weft_pending *p) {
    uint64_t cost = p->blocks ? p->blocks->blocks * (uint64_t)p->blocks->count * PIECE_COST : 0;
    if (cost < p->bytes) cost = p->bytes;
    if (whole(cost)) return true;
    uint64_t *spent = &bytes_of_site[p->site % WATCHED_SITES];
    uint64_t before = __atomic_load_n(spent, __ATOMIC_RELAXED);
    if (cost > WHOLE_OF_SITE || before > WHOLE_OF_SITE - cost) return false;
    __atomic_store_n(spent, before + cost, __ATOMIC_RELAXED);
    return true;
}

/* At the start of an operation that reads the buffer. */
static void sum_begin(struct weft_pending *p) {
    bool gone;
    p->whole = takes_whole(p);
    p->summed = sum_now(p, &p->checksum, &gone) && !gone;
    if (UNLIKELY(!p->summed)) weft_note_unreadable_buffer();
}

/* Returns whether the program has changed a buffer that MPI reads, since the operation began. */
static bool other_sum(const struct weft_pending *p) {
    uint64_t found;
    bool gone;
    return p->summed && sum_now(p, &found, &gone) && (gone || found != p->checksum);
}

/* The watched bytes of a receive's buffer when it was posted, and when the program first asked whether it is complete. A
 * byte that was neither then what it had been nor is at the end what it was then has been written by another than the
 * message: MPI's own writes give each byte its last value. Where the message was there at once, so has any byte that
 * changed. */
struct weft_seen {
    bool begun, looked, arrived;
    uint8_t *posted, *asked, *now; /* behind it, watched_bytes of each */
    uint8_t bytes[];
};

/* Copies what is watched of a receive's buffer at its start, and notes whether a message has arrived in it already. */
static void seen_begin(const struct weft_pending *p, MPI_Request request) {
    WEFT_WORK(WEFT_BUFFERS);
    struct iovec pieces[WATCHED_PIECES];
    int count, arrived = 0;
    size_t size;
    /* MPICH 5.0 takes a persistent request for inactive once its status was asked for after its completion. */
    p->seen->arrived = request != MPI_REQUEST_NULL && !p->persistent &&
                       REAL(MPI_Request_get_status)(request, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived;
    p->seen->begun = look(p, p->seen->posted, pieces, &count, &size) == (ssize_t)size;
    p->seen->looked = false;
    if (UNLIKELY(!p->seen->begun)) weft_note_unreadable_buffer();
}

/* Copies what is watched of a receive's buffer again, before the call that asks for its completion. */
void weft_copy_buffer_before_completion(const struct weft_pending *p) {
    struct iovec pieces[WATCHED_PIECES];
    int count;
    size_t size;
    if (!p->seen->begun || p->seen->looked) return;
    WEFT_WORK(WEFT_BUFFERS);
    p->seen->looked = look(p, p->seen->asked, pieces, &count, &size) == (ssize_t)size;
    p->seen->begun = p->seen->looked;
}

/* Returns whether the program has written into the buffer of a receive while it was pending. */
static bool written(const struct weft_pending *p) {
    WEFT_WORK(WEFT_BUFFERS);
    struct iovec pieces[WATCHED_PIECES];
    uint8_t *now = p->seen->now;
    int count;
    size_t size;
    bool asked_for = p->seen->looked;
    p->seen->begun = p->seen->looked = false;
    if (!asked_for || look(p, now, pieces, &count, &size) != (ssize_t)size) return false;
    const uint8_t *posted = p->seen->posted, *asked = p->seen->asked;
    for (size_t i = 0; i < size; i++)
        if (p->seen->arrived ? now[i] != posted[i] : asked[i] != posted[i] && asked[i] != now[i]) return true;
    return false;
}

/* Looking through the kernel takes 1.6 us. A line that breaks the rule does so from its first times, so each call
 * site is watched at its first operations and now and then later. */
enum { WATCHED_FIRST = 32, WATCHED_LATER = 1024 };

/* Returns whether the buffer of a call site is watched this time: the first times, and then now and then. */
static bool its_turn(uint32_t site) {
    uint32_t *starts = &starts_of_site[site % WATCHED_SITES];
    uint32_t nth = __atomic_load_n(starts, __ATOMIC_RELAXED);
    __atomic_store_n(starts, nth + 1, __ATOMIC_RELAXED); /* threads may count one for two: no harm */
    if (weft_watching == WEFT_WATCH_ALL) return true;
    return weft_watching && (nth < WATCHED_FIRST || nth % WATCHED_LATER == 0);
}

/* Bytes of a buffer whose call site is to be watched this time, else 0. One of a datatype with gaps has its blocks in
 * `blocks`, where that is not NULL and they are known. */
static uint64_t to_watch(uint32_t site, const void *buffer, int64_t count, MPI_Datatype type,
                         struct weft_blocks **blocks) {
    MPI_Aint lb, extent;
    int size;
    if (!its_turn(site)) return 0;
    if (count <= 0 || buffer == NULL || buffer == MPI_BOTTOM || buffer == MPI_IN_PLACE) return 0;
    if (weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)type) >= WEFT_ID_DYNAMIC) {
        struct weft_blocks *found = weft_find_type_blocks(type, count);
        if (!found) return 0;
        uint64_t bytes = found->bytes * (uint64_t)count;
        if (weft_has_no_gaps(found)) free(found);
        else if (blocks) *blocks = found;
        else {
            free(found);
            return 0;
        }
        return bytes;
    }
    if (REAL(MPI_Type_size)(type, &size) != MPI_SUCCESS || REAL(MPI_Type_get_extent)(type, &lb, &extent) != MPI_SUCCESS)
        return 0;
    return size <= 0 || lb || extent != size ? 0 : (uint64_t)size * (uint64_t)count;
}

/* Begins to watch the buffer of an operation that reads it. */
void weft_watch_sent_buffer(struct weft_pending *pending, uint32_t site, const void *buffer, int64_t count,
                            MPI_Datatype type) {
    pending->buffer = buffer;
    pending->site = site;
    pending->bytes = to_watch(site, buffer, count, type, &pending->blocks);
    if (pending->bytes && !pending->persistent) sum_begin(pending);
}

void weft_free_buffer_watch(struct weft_pending *pending) {
    free(pending->seen);
    free(pending->blocks);
}

/* Begins to watch the buffer of a receive, or of another operation that writes into it. */
void weft_watch_received_buffer(struct weft_pending *pending, uint32_t site, const void *buffer, int64_t count,
                                MPI_Datatype type, MPI_Request request) {
    pending->buffer = buffer;
    pending->bytes = to_watch(site, buffer, count, type, NULL);
    if (!pending->bytes) return;
    WEFT_WORK(WEFT_BUFFERS);
    size_t room = watched_bytes(pending->bytes);
    pending->seen = malloc(sizeof *pending->seen + 3 * room);
    if (!pending->seen) {
        pending->bytes = 0;
        return;
    }
    pending->seen->posted = pending->seen->bytes;
    pending->seen->asked = pending->seen->bytes + room;
    pending->seen->now = pending->seen->bytes + 2 * room;
    pending->seen->begun = pending->seen->looked = false;
    if (!pending->persistent) seen_begin(pending, request);
}

/* Begins to watch the buffer of a persistent request, as it was started. */
void weft_watch_restarted_buffer(struct weft_pending *p, MPI_Request request) {
    p->active = true;
    if (p->seen) seen_begin(p, request);
    else sum_begin(p);
}

/* Returns whether the program has changed the buffer of an operation while MPI had it. */
bool weft_has_buffer_changed(const struct weft_pending *p) { return p->seen ? written(p) : other_sum(p); }

/* ---- origin buffers of one-sided operations: MPI's until a call of their epoch completes them ---- */
struct origin {
    MPI_Win window;
    int target;
    uint32_t site, starts; /* of its site, with itself */
    bool changed;
    bool shared; /* another operation writes there, too: that MPI did it cannot be told from that the program did */
    struct weft_pending watch;
};

volatile int weft_origins;
static struct origin *origins;
static int origin_space;
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

/* Another one that is not watched may write there as well: of some sites only the first are. */
static bool are_others_watched(const struct origin *o) {
    uint32_t now = __atomic_load_n(&starts_of_site[o->site % WATCHED_SITES], __ATOMIC_RELAXED);
    return now == o->starts || now <= WATCHED_FIRST || weft_watching == WEFT_WATCH_ALL;
}

/* Under the lock: those whose buffers meet that of `made`, where one of the two is written by MPI. */
static void mark_shared(struct origin *made) {
    const uint8_t *low = made->watch.buffer, *high = low + made->watch.bytes;
    for (int i = 0; i < weft_origins; i++) {
        struct origin *o = &origins[i];
        const uint8_t *from = o->watch.buffer;
        if ((o->watch.seen || made->watch.seen) && from < high && low < from + o->watch.bytes)
            o->shared = made->shared = true;
    }
}

/* Begins to watch the origin buffer of a one-sided operation. `written_to`: MPI writes into it. */
void weft_watch_origin_buffer(MPI_Win window, int target, uint32_t site, const void *buffer, int64_t count,
                              MPI_Datatype type, bool written_to) {
    struct origin made = {.window = window, .target = target, .site = site};
    if (target < 0) return;
    if (written_to) weft_watch_received_buffer(&made.watch, site, buffer, count, type, MPI_REQUEST_NULL);
    else weft_watch_sent_buffer(&made.watch, site, buffer, count, type);
    if (!made.watch.bytes) return;
    made.starts = __atomic_load_n(&starts_of_site[site % WATCHED_SITES], __ATOMIC_RELAXED);
    pthread_mutex_lock(&buffers_lock);
    mark_shared(&made);
    if (weft_origins == origin_space) {
        int space = origin_space ? origin_space * 2 : 64;
        struct origin *grown = space <= ORIGINS ? realloc(origins, sizeof *grown * (size_t)space) : NULL;
        if (grown) {
            origins = grown;
            origin_space = space;
        }
    }
    if (weft_origins < origin_space) origins[weft_origins++] = made;
    else weft_free_buffer_watch(&made.watch);
    pthread_mutex_unlock(&buffers_lock);
}

static bool completes(const struct origin *o, MPI_Win window, int target) {
    return o->window == window && (target < 0 || o->target == target);
}

/* Looks at the origin buffers of operations that the coming call completes, before the call. */
void weft_check_origin_buffers_before_sync(MPI_Win window, int target) {
    pthread_mutex_lock(&buffers_lock);
    for (int i = 0; i < weft_origins; i++) {
        struct origin *o = &origins[i];
        if (!completes(o, window, target)) continue;
        if (o->watch.seen) weft_copy_buffer_before_completion(&o->watch);
        else o->changed = weft_has_buffer_changed(&o->watch);
    }
    pthread_mutex_unlock(&buffers_lock);
}

/* Ends the watch of origin buffers that a call has completed; returns one that the program changed, NULL for none. */
const void *weft_end_origin_buffer_watch(MPI_Win window, int target) {
    const void *found = NULL;
    int kept = 0;
    pthread_mutex_lock(&buffers_lock);
    for (int i = 0; i < weft_origins; i++) {
        struct origin *o = &origins[i];
        if (!completes(o, window, target)) {
            origins[kept++] = *o;
            continue;
        }
        bool told = !found && !o->shared && (!o->watch.seen || are_others_watched(o));
        if (told && (o->watch.seen ? weft_has_buffer_changed(&o->watch) : o->changed)) found = o->watch.buffer;
        weft_free_buffer_watch(&o->watch);
    }
    weft_origins = kept;
    pthread_mutex_unlock(&buffers_lock);
    return found;
}

/* ---- memory of windows: what its own process stores between two fences ----
 *
 * Three looks: when a fence has opened an epoch, when the next one begins, when that is over. What had changed at the
 * second look may have come from others, which only all ranks' records together tell: the changed bytes are kept, and
 * which of them changed once more until the third. */
enum { EXPOSED_BYTES = 4096, EXPOSED_RANGES = 32 };

struct exposed {
    MPI_Win window;
    uint32_t id;
    const uint8_t *base;
    size_t bytes;
    uint64_t fences; /* that are over */
    bool begun, looked;
    struct exposed *next;
    uint8_t opened[EXPOSED_BYTES], closing[EXPOSED_BYTES];
};

static struct exposed *exposed;

/* Begins to watch the first bytes of a window's own memory. */
void weft_begin_window_copies(MPI_Win window, uint32_t id, const void *base, int64_t size) {
    if (!weft_watching || !base || size <= 0) return;
    pthread_mutex_lock(&buffers_lock);
    struct exposed *made = malloc(sizeof *made);
    if (made) {
        *made = (struct exposed){.window = window, .id = id, .base = base, .next = exposed};
        made->bytes = size < EXPOSED_BYTES ? (size_t)size : EXPOSED_BYTES;
        for (struct exposed *other = exposed; other; other = other->next)
            if (made->base < other->base + other->bytes &&
                other->base < made->base + made->bytes) /* stores by way of both */
                made->bytes = other->bytes = 0;
        exposed = made;
    }
    pthread_mutex_unlock(&buffers_lock);
}

/* Ends the watch of a window's memory, as the window is freed. */
void weft_end_window_copies(MPI_Win window) {
    pthread_mutex_lock(&buffers_lock);
    for (struct exposed **link = &exposed, *e; (e = *link); link = &e->next)
        if (e->window == window) {
            *link = e->next;
            free(e);
            break;
        }
    pthread_mutex_unlock(&buffers_lock);
}

/* Returns what is watched of a window's own memory, NULL for nothing. Under the lock. */
static struct exposed *exposed_of(MPI_Win window) {
    struct exposed *e = exposed;
    while (e && e->window != window) e = e->next;
    return e;
}

/* Copies the watched memory of a window before the fence that closes an epoch. */
void weft_copy_window_before_fence(MPI_Win window) {
    if (!exposed) return;
    pthread_mutex_lock(&buffers_lock);
    struct exposed *e = exposed_of(window);
    if (e) e->looked = e->begun && e->bytes && weft_copy_buffer(e->closing, e->base, e->bytes);
    pthread_mutex_unlock(&buffers_lock);
}

/* u window, u fences before the closing one, u n, n (u offset, u bytes, u whether they changed once more) */
static void tell_changes(const struct exposed *e, const uint8_t *now) {
    WEFT_WORK(WEFT_BUFFERS);
    uint8_t payload[EXPOSED_RANGES * 24 + 64];
    struct {
        size_t at, bytes;
        bool again;
    } found[EXPOSED_RANGES];
    int n = 0;
    for (size_t i = 0; i < e->bytes; i++) {
        if (e->closing[i] == e->opened[i]) continue;
        bool again = e->closing[i] != now[i];
        if (n && found[n - 1].at + found[n - 1].bytes == i && found[n - 1].again == again) found[n - 1].bytes++;
        else if (n == EXPOSED_RANGES) break;
        else found[n].at = i, found[n].bytes = 1, found[n++].again = again;
    }
    if (!n) return;
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, e->id);
    weft_write_unsigned(&text, e->fences);
    weft_write_unsigned(&text, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        weft_write_unsigned(&text, found[i].at);
        weft_write_unsigned(&text, found[i].bytes);
        weft_write_unsigned(&text, found[i].again);
    }
    weft_write_definition(WEFT_DEF_STORED, payload, (size_t)(text.p - payload));
}

/* Compares the watched memory of a window after a fence, and copies it for the next epoch. */
void weft_compare_window_after_fence(MPI_Win window, uint32_t site) {
    uint8_t now[EXPOSED_BYTES];
    if (!exposed) return;
    pthread_mutex_lock(&buffers_lock);
    struct exposed *e = exposed_of(window);
    bool turn = its_turn(site);
    if (e && e->bytes && (e->looked || turn)) {
        bool seen = weft_copy_buffer(now, e->base, e->bytes);
        if (e->looked && seen) tell_changes(e, now);
        e->begun = turn && seen;
        if (e->begun) memcpy(e->opened, now, e->bytes);
    } else if (e) e->begun = false;
    if (e) {
        e->looked = false;
        e->fences++;
    }
    pthread_mutex_unlock(&buffers_lock);
}
