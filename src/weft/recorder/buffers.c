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

/* Return whether all of a buffer of `byte_count` bytes is compared, and not only pieces of it. */
static bool is_compared_whole(uint64_t byte_count) {
    return byte_count <= WATCHED_WHOLE || (weft_watching == WEFT_WATCH_ALL && byte_count <= WHOLE_MOST);
}

/* Return how many bytes of a buffer of `byte_count` bytes are compared at most. */
static size_t count_compared_bytes(uint64_t byte_count) {
    return is_compared_whole(byte_count) ? (size_t)byte_count : (size_t)WATCHED_BYTES;
}

/* List the pieces of a buffer that are compared: all of it, or some pieces spread over it. Return how many. */
static int list_compared_pieces(const uint8_t *buffer, uint64_t byte_count, struct iovec *pieces) {
    if (is_compared_whole(byte_count)) {
        pieces[0] = (struct iovec){.iov_base = (void *)buffer, .iov_len = (size_t)byte_count};
        return 1;
    }
    for (int i = 0; i < WATCHED_PIECES; i++)
        pieces[i] = (struct iovec){
            .iov_base = (void *)(buffer + (byte_count - WATCHED_PIECE) * (uint64_t)i / (WATCHED_PIECES - 1)),
            .iov_len = WATCHED_PIECE};
    return WATCHED_PIECES;
}

enum { WATCHED_SITES = 4096 };
static uint32_t starts_of_site[WATCHED_SITES];
static uint64_t bytes_of_site[WATCHED_SITES]; /* that were looked at wholly */

/* Return the checksum `sum` continued by `n` bytes. */
static uint64_t continue_checksum(uint64_t sum, const uint8_t *bytes, size_t n) {
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

/* Copy the compared pieces of a pending operation's buffer to `copy`, and list them. The kernel reads: the buffer may
 * be memory of a device, or the program may have given it back against the rules. Return the bytes read, fewer than
 * `size` where some are gone; -1: the kernel does not let us look. */
static ssize_t copy_compared_pieces(const struct weft_pending *pending, uint8_t *copy, struct iovec *pieces, int *count,
                                    size_t *size) {
    *count = list_compared_pieces(pending->buffer, pending->bytes, pieces);
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

/* Read the pieces that were collected, add them to the checksum, and begin to collect anew. */
static void sum_collected_pieces(struct summing *summing) {
    uint8_t copy[WHOLE_CHUNK];
    ssize_t got = summing->n ? weft_copy_readable_pieces(copy, summing->pieces, summing->n) : 0;
    if (got < 0) summing->hidden = true;
    else if ((size_t)got != summing->size) summing->gone = true;
    else summing->sum = continue_checksum(summing->sum, copy, summing->size);
    summing->n = 0;
    summing->size = 0;
}

/* Collect `bytes` bytes of a buffer for the checksum; those collected before are read when there are enough. */
static void collect_for_sum(struct summing *summing, const uint8_t *from, uint64_t bytes) {
    while (bytes && !summing->hidden && !summing->gone) {
        if (summing->n == PIECES_AT_ONCE || summing->size == WHOLE_CHUNK) sum_collected_pieces(summing);
        size_t room = WHOLE_CHUNK - summing->size, n = bytes < room ? (size_t)bytes : room;
        summing->pieces[summing->n++] = (struct iovec){.iov_base = (void *)(uintptr_t)from, .iov_len = n};
        summing->size += n;
        from += n;
        bytes -= n;
    }
}

/* Collect a block of one element of the buffer for the checksum. */
static void collect_block_for_sum(struct summing *summing, const struct weft_pending *pending, int64_t element,
                                  struct weft_block_run block) {
    collect_for_sum(summing, (const uint8_t *)pending->buffer + element * pending->blocks->extent + block.at,
                    block.bytes);
}

/* Collect the blocks of a buffer whose datatype has gaps for the checksum: all of them, or as many pieces as of a
 * buffer without gaps. */
static void collect_blocks_for_sum(struct summing *summing, const struct weft_pending *pending) {
    const struct weft_blocks *blocks = pending->blocks;
    for (int k = 0; k < WATCHED_PIECES && !pending->whole; k++) {
        uint64_t byte = (pending->bytes - 1) / (WATCHED_PIECES - 1) * (uint64_t)k;
        struct weft_block_run block = weft_find_block_of_byte(blocks, byte % blocks->bytes);
        if (block.bytes > WATCHED_PIECE) block.bytes = WATCHED_PIECE;
        collect_block_for_sum(summing, pending, (int64_t)(byte / blocks->bytes), block);
    }
    for (int64_t element = 0; element < blocks->count && pending->whole; element++)
        for (int i = 0; i < blocks->runs && !summing->hidden && !summing->gone; i++) {
            struct weft_block_run block = blocks->run[i];
            for (uint64_t k = 0; k < blocks->run[i].times; k++, block.at += block.stride)
                collect_block_for_sum(summing, pending, element, block);
        }
}

/* Compute the checksum of the bytes of a pending operation's buffer that are compared. Return false where the kernel
 * does not let us look; set `gone` where some of the memory is not there. */
static bool compute_checksum(const struct weft_pending *pending, uint64_t *sum, bool *gone) {
    WEFT_WORK(WEFT_BUFFERS);
    struct summing summing = {.sum = pending->bytes};
    struct iovec pieces[WATCHED_PIECES];
    if (pending->blocks) collect_blocks_for_sum(&summing, pending);
    else if (pending->whole) collect_for_sum(&summing, pending->buffer, pending->bytes);
    else
        for (int i = 0, n = list_compared_pieces(pending->buffer, pending->bytes, pieces); i < n; i++)
            collect_for_sum(&summing, pieces[i].iov_base, pieces[i].iov_len);
    sum_collected_pieces(&summing);
    *sum = summing.sum;
    *gone = summing.gone;
    return !summing.hidden;
}

/* Return whether all of the buffer is to be compared this time: a small one is, a larger one as long as its call site
 * has bytes left to spend on that, from which its size is then subtracted. */
static bool reserve_whole_comparison(const struct weft_pending *pending) {
    uint64_t cost = pending->blocks ? pending->blocks->blocks * (uint64_t)pending->blocks->count * PIECE_COST : 0;
    if (cost < pending->bytes) cost = pending->bytes;
    if (is_compared_whole(cost)) return true;
    uint64_t *spent = &bytes_of_site[pending->site % WATCHED_SITES];
    uint64_t before = __atomic_load_n(spent, __ATOMIC_RELAXED);
    if (cost > WHOLE_OF_SITE || before > WHOLE_OF_SITE - cost) return false;
    __atomic_store_n(spent, before + cost, __ATOMIC_RELAXED);
    return true;
}

/* Store the checksum of the buffer at the start of an operation that reads it. */
static void store_start_checksum(struct weft_pending *pending) {
    bool gone;
    pending->whole = reserve_whole_comparison(pending);
    pending->summed = compute_checksum(pending, &pending->checksum, &gone) && !gone;
    if (UNLIKELY(!pending->summed)) weft_note_unreadable_buffer();
}

/* Return whether the program has changed, or given back, a buffer that MPI reads since the operation began. */
static bool has_checksum_changed(const struct weft_pending *pending) {
    uint64_t found;
    bool gone;
    return pending->summed && compute_checksum(pending, &found, &gone) && (gone || found != pending->checksum);
}

/* The watched bytes of a receive's buffer when it was posted, and when the program first asked whether it is complete. A
 * byte that was neither then what it had been nor is at the end what it was then has been written by another than the
 * message: MPI's own writes give each byte its last value. Where the message was there at once, so has any byte that
 * changed. */
struct weft_buffer_copies {
    bool begun, looked, arrived;
    uint8_t *posted, *asked, *now; /* behind it, watched_bytes of each */
    uint8_t bytes[];
};

/* Copy the compared bytes of a receive's buffer at its start, and note whether its message has arrived already. */
static void copy_buffer_at_start(const struct weft_pending *pending, MPI_Request request) {
    WEFT_WORK(WEFT_BUFFERS);
    struct iovec pieces[WATCHED_PIECES];
    int count, arrived = 0;
    size_t size;
    /* MPICH 5.0 takes a persistent request for inactive once its status was asked for after its completion. */
    pending->seen->arrived = request != MPI_REQUEST_NULL && !pending->persistent &&
                             REAL(MPI_Request_get_status)(request, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
                             arrived;
    pending->seen->begun = copy_compared_pieces(pending, pending->seen->posted, pieces, &count, &size) == (ssize_t)size;
    pending->seen->looked = false;
    if (UNLIKELY(!pending->seen->begun)) weft_note_unreadable_buffer();
}

/* Copy the compared bytes of a receive's buffer again, when a call first asks whether the receive is complete. */
void weft_copy_buffer_before_completion(const struct weft_pending *pending) {
    struct iovec pieces[WATCHED_PIECES];
    int count;
    size_t size;
    if (!pending->seen->begun || pending->seen->looked) return;
    WEFT_WORK(WEFT_BUFFERS);
    pending->seen->looked = copy_compared_pieces(pending, pending->seen->asked, pieces, &count, &size) == (ssize_t)size;
    pending->seen->begun = pending->seen->looked;
}

/* Return whether the program has written into the buffer of a receive while it was pending: whether a byte differed at
 * the first question from both what it was at the start and what it is at the end. */
static bool has_program_written_buffer(const struct weft_pending *pending) {
    WEFT_WORK(WEFT_BUFFERS);
    struct iovec pieces[WATCHED_PIECES];
    uint8_t *now = pending->seen->now;
    int count;
    size_t size;
    bool asked_for = pending->seen->looked;
    pending->seen->begun = pending->seen->looked = false;
    if (!asked_for || copy_compared_pieces(pending, now, pieces, &count, &size) != (ssize_t)size) return false;
    const uint8_t *posted = pending->seen->posted, *asked = pending->seen->asked;
    for (size_t i = 0; i < size; i++)
        if (pending->seen->arrived ? now[i] != posted[i] : asked[i] != posted[i] && asked[i] != now[i]) return true;
    return false;
}

/* Looking through the kernel takes 1.6 us. A line that breaks the rule does so from its first times, so each call
 * site is watched at its first operations and now and then later. */
enum { WATCHED_FIRST = 32, WATCHED_LATER = 1024 };

/* Count one more operation of a call site; return whether its buffer is watched: at the first operations of a site, and
 * now and then later. */
static bool count_operation_and_decide_watch(uint32_t site) {
    uint32_t *starts = &starts_of_site[site % WATCHED_SITES];
    uint32_t nth = __atomic_load_n(starts, __ATOMIC_RELAXED);
    __atomic_store_n(starts, nth + 1, __ATOMIC_RELAXED); /* threads may count one for two: no harm */
    if (weft_watching == WEFT_WATCH_ALL) return true;
    return weft_watching && (nth < WATCHED_FIRST || nth % WATCHED_LATER == 0);
}

/* Return how many bytes of the buffer are to be watched; 0 if this operation of the call site is not watched, or the
 * datatype has gaps that are not known. Set `blocks`, if not NULL, for a datatype with gaps. */
static uint64_t count_watched_bytes(uint32_t site, const void *buffer, int64_t count, MPI_Datatype type,
                                    struct weft_blocks **blocks) {
    MPI_Aint lb, extent;
    int size;
    if (!count_operation_and_decide_watch(site)) return 0;
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

/* Begin to watch the buffer of an operation that reads it; of a persistent one at its start. */
void weft_watch_sent_buffer(struct weft_pending *pending, uint32_t site, const void *buffer, int64_t count,
                            MPI_Datatype type) {
    pending->buffer = buffer;
    pending->site = site;
    pending->bytes = count_watched_bytes(site, buffer, count, type, &pending->blocks);
    if (pending->bytes && !pending->persistent) store_start_checksum(pending);
}

/* Free what was kept to watch the buffer of an operation. */
void weft_free_buffer_watch(struct weft_pending *pending) {
    free(pending->seen);
    free(pending->blocks);
}

/* Begin to watch the buffer of a receive, or of another operation that writes into it; of a persistent one at its
 * start. */
void weft_watch_received_buffer(struct weft_pending *pending, uint32_t site, const void *buffer, int64_t count,
                                MPI_Datatype type, MPI_Request request) {
    pending->buffer = buffer;
    pending->bytes = count_watched_bytes(site, buffer, count, type, NULL);
    if (!pending->bytes) return;
    WEFT_WORK(WEFT_BUFFERS);
    size_t room = count_compared_bytes(pending->bytes);
    pending->seen = malloc(sizeof *pending->seen + 3 * room);
    if (!pending->seen) {
        pending->bytes = 0;
        return;
    }
    pending->seen->posted = pending->seen->bytes;
    pending->seen->asked = pending->seen->bytes + room;
    pending->seen->now = pending->seen->bytes + 2 * room;
    pending->seen->begun = pending->seen->looked = false;
    if (!pending->persistent) copy_buffer_at_start(pending, request);
}

/* Begin to watch the buffer of a persistent request that is started. */
void weft_watch_restarted_buffer(struct weft_pending *pending, MPI_Request request) {
    pending->active = true;
    if (pending->seen) copy_buffer_at_start(pending, request);
    else store_start_checksum(pending);
}

/* Return whether the program has changed the buffer of an operation while MPI had it. */
bool weft_has_buffer_changed(const struct weft_pending *pending) {
    return pending->seen ? has_program_written_buffer(pending) : has_checksum_changed(pending);
}

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

/* Return whether all operations of the origin's call site since it are watched: one that is not could have written into
 * the buffer, too. */
static bool are_writers_watched(const struct origin *origin) {
    uint32_t starts_so_far = __atomic_load_n(&starts_of_site[origin->site % WATCHED_SITES], __ATOMIC_RELAXED);
    return starts_so_far == origin->starts || starts_so_far <= WATCHED_FIRST || weft_watching == WEFT_WATCH_ALL;
}

/* Mark the watched origin buffers that overlap the new one's where MPI writes into one of the two: MPI's writes cannot
 * be told from the program's. Needs buffers_lock. */
static void mark_overlapping_origins(struct origin *new_origin) {
    const uint8_t *low = new_origin->watch.buffer, *high = low + new_origin->watch.bytes;
    for (int i = 0; i < weft_origins; i++) {
        struct origin *other = &origins[i];
        const uint8_t *from = other->watch.buffer;
        if ((other->watch.seen || new_origin->watch.seen) && from < high && low < from + other->watch.bytes)
            other->shared = new_origin->shared = true;
    }
}

/* Begin to watch the origin buffer of a one-sided operation. `written_to`: MPI writes into it, else it reads it. */
void weft_watch_origin_buffer(MPI_Win window, int target, uint32_t site, const void *buffer, int64_t count,
                              MPI_Datatype type, bool written_to) {
    struct origin made = {.window = window, .target = target, .site = site};
    if (target < 0) return;
    if (written_to) weft_watch_received_buffer(&made.watch, site, buffer, count, type, MPI_REQUEST_NULL);
    else weft_watch_sent_buffer(&made.watch, site, buffer, count, type);
    if (!made.watch.bytes) return;
    made.starts = __atomic_load_n(&starts_of_site[site % WATCHED_SITES], __ATOMIC_RELAXED);
    pthread_mutex_lock(&buffers_lock);
    mark_overlapping_origins(&made);
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

/* Return whether a synchronisation of a window with `target` (-1: all targets) completes the operation. */
static bool is_completed_by_sync(const struct origin *origin, MPI_Win window, int target) {
    return origin->window == window && (target < 0 || origin->target == target);
}

/* Compare, before the call, the origin buffers of operations that a call on the window completes. `target` -1: all
 * targets. */
void weft_check_origin_buffers_before_sync(MPI_Win window, int target) {
    pthread_mutex_lock(&buffers_lock);
    for (int i = 0; i < weft_origins; i++) {
        struct origin *origin = &origins[i];
        if (!is_completed_by_sync(origin, window, target)) continue;
        if (origin->watch.seen) weft_copy_buffer_before_completion(&origin->watch);
        else origin->changed = weft_has_buffer_changed(&origin->watch);
    }
    pthread_mutex_unlock(&buffers_lock);
}

/* End the watch of origin buffers of operations that a call on the window has completed. Return the address of one that
 * the program changed, NULL for none. */
const void *weft_end_origin_buffer_watch(MPI_Win window, int target) {
    const void *found = NULL;
    int kept = 0;
    pthread_mutex_lock(&buffers_lock);
    for (int i = 0; i < weft_origins; i++) {
        struct origin *origin = &origins[i];
        if (!is_completed_by_sync(origin, window, target)) {
            origins[kept++] = *origin;
            continue;
        }
        bool is_certain = !found && !origin->shared && (!origin->watch.seen || are_writers_watched(origin));
        if (is_certain && (origin->watch.seen ? weft_has_buffer_changed(&origin->watch) : origin->changed))
            found = origin->watch.buffer;
        weft_free_buffer_watch(&origin->watch);
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

/* Begin to compare the first bytes of a window's own memory from fence to fence. */
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

/* End the comparison of a window's own memory, as the window is freed. */
void weft_end_window_copies(MPI_Win window) {
    pthread_mutex_lock(&buffers_lock);
    for (struct exposed **link = &exposed, *copies; (copies = *link); link = &copies->next)
        if (copies->window == window) {
            *link = copies->next;
            free(copies);
            break;
        }
    pthread_mutex_unlock(&buffers_lock);
}

/* Return the copies of a window's own memory, NULL for none. Needs buffers_lock. */
static struct exposed *find_window_copies(MPI_Win window) {
    struct exposed *copies = exposed;
    while (copies && copies->window != window) copies = copies->next;
    return copies;
}

/* Copy a window's own memory before the fence that closes an epoch. */
void weft_copy_window_before_fence(MPI_Win window) {
    if (!exposed) return;
    pthread_mutex_lock(&buffers_lock);
    struct exposed *copies = find_window_copies(window);
    if (copies)
        copies->looked =
            copies->begun && copies->bytes && weft_copy_buffer(copies->closing, copies->base, copies->bytes);
    pthread_mutex_unlock(&buffers_lock);
}

/* Record which bytes of a window's own memory changed between two fences, as ranges (WEFT_DEF_STORED in
 * format.h). `copies`: the memory after the first fence and before the closing one; `now`: after the closing one, which
 * tells for each range whether it changed again during that fence. Record nothing if no byte changed. */
static void record_window_stores(const struct exposed *copies, const uint8_t *now) {
    WEFT_WORK(WEFT_BUFFERS);
    uint8_t payload[EXPOSED_RANGES * 24 + 64];
    struct {
        size_t at, bytes;
        bool again;
    } found[EXPOSED_RANGES];
    int n = 0;
    for (size_t i = 0; i < copies->bytes; i++) {
        if (copies->closing[i] == copies->opened[i]) continue;
        bool again = copies->closing[i] != now[i];
        if (n && found[n - 1].at + found[n - 1].bytes == i && found[n - 1].again == again) found[n - 1].bytes++;
        else if (n == EXPOSED_RANGES) break;
        else found[n].at = i, found[n].bytes = 1, found[n++].again = again;
    }
    if (!n) return;
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, copies->id);
    weft_write_unsigned(&text, copies->fences);
    weft_write_unsigned(&text, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        weft_write_unsigned(&text, found[i].at);
        weft_write_unsigned(&text, found[i].bytes);
        weft_write_unsigned(&text, found[i].again);
    }
    weft_write_definition(WEFT_DEF_STORED, payload, (size_t)(text.p - payload));
}

/* Compare a window's own memory after a fence with its copies, record what changed, and copy it for the next epoch. */
void weft_compare_window_after_fence(MPI_Win window, uint32_t site) {
    uint8_t now[EXPOSED_BYTES];
    if (!exposed) return;
    pthread_mutex_lock(&buffers_lock);
    struct exposed *copies = find_window_copies(window);
    bool turn = count_operation_and_decide_watch(site);
    if (copies && copies->bytes && (copies->looked || turn)) {
        bool is_readable = weft_copy_buffer(now, copies->base, copies->bytes);
        if (copies->looked && is_readable) record_window_stores(copies, now);
        copies->begun = turn && is_readable;
        if (copies->begun) memcpy(copies->opened, now, copies->bytes);
    } else if (copies) copies->begun = false;
    if (copies) {
        copies->looked = false;
        copies->fences++;
    }
    pthread_mutex_unlock(&buffers_lock);
}
