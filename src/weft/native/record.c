/* The writer of format.h's files. Used by the shim in recorded programs and by weft.trace.builder. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    FIRST_CHUNK_PAGES = 4,   /* small, so that 4,000 idle ranks cost little */
    LAST_CHUNK_PAGES = 1024, /* 4 MiB: a fallocate and an mmap for every 75,000 events */
    TABLE_PAGES = 4,
    LEAST_RESERVED = 1 << 22, /* bytes of addresses for a stream */
};

uint64_t weft_now_monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t weft_ticks_slow(int clock) {
    (void)clock;
    return weft_now_monotonic();
}

/* The time-stamp counter only where the kernel itself trusts it as its clock: then it is constant, never stops
 * and is equal on all cores (Linux, arch/x86/kernel/tsc.c). */
int weft_clock_choose(void) {
#if defined(__x86_64__)
    char name[16] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, name, sizeof name - 1);
        close(fd);
        if (n >= 3 && !strncmp(name, "tsc", 3) && (n == 3 || name[3] == '\n')) return WEFT_CLOCK_TSC;
    }
    return WEFT_CLOCK_MONOTONIC_NS;
#elif defined(__aarch64__)
    return WEFT_CLOCK_CNTVCT;
#else
    return WEFT_CLOCK_MONOTONIC_NS;
#endif
}

void weft_record_anchor(struct weft_record *record, struct weft_anchor *anchor) {
    struct timespec real;
    uint64_t before = weft_now_monotonic();
    anchor->ticks = weft_ticks(record->header->clock);
    uint64_t after = weft_now_monotonic();
    clock_gettime(CLOCK_REALTIME, &real);
    anchor->monotonic_ns = before + (after - before) / 2;
    if (record->header->clock == WEFT_CLOCK_MONOTONIC_NS) anchor->monotonic_ns = anchor->ticks;
    anchor->realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
}

void weft_record_stop(struct weft_record *record, int reason) {
    if (__atomic_exchange_n(&record->stopped, true, __ATOMIC_ACQ_REL)) return;
    record->header->stop_reason = (uint32_t)reason;
    record->header->state = WEFT_STATE_STOPPED;
}

/* Whether a limit on the size of files (ulimit -f) forbids this one: asking the kernel to go beyond it would raise
 * SIGXFSZ, which ends the program. */
static bool beyond_limit(uint64_t size) {
    struct rlimit limit;
    return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur;
}

/* What recording may cost (docs/performance.md), and once the time of a disk that others write to. */
enum { WAIT_ONCE_S = 5, WAIT_SHARE = 50, WAIT_EVENT_NS = 200, WAIT_MOST_S = 1 };
#define SECOND 1000000000ull

void weft_record_hurry(struct weft_record *record) { record->impatient = true; }

/* Counts the time since `began` as waited for the file system; whether that is more by now than recording may cost.
 * A debugger may have stopped the process meanwhile, so no more than a second counts of one request. */
static bool waited(struct weft_record *record, uint64_t began) {
    uint64_t now = weft_now_monotonic(), time = now - began;
    record->waited += time < WAIT_MOST_S * SECOND ? time : WAIT_MOST_S * SECOND;
    if (!record->impatient) return false;
    uint64_t share = (now - record->header->start.monotonic_ns) / WAIT_SHARE;
    return record->waited >
           WAIT_ONCE_S * SECOND + share + record->file_size / sizeof(struct weft_event) * WAIT_EVENT_NS;
}

/* Writes zeros at the file's end in pieces of one large folio; 0 or an errno, ETIMEDOUT where it takes too long. */
static int file_zero(struct weft_record *record, uint64_t bytes) {
    enum { FOLIO = 1 << 16 };
    static const char zeros[FOLIO];
    for (uint64_t offset = record->file_size, end = offset + bytes, size; offset < end;) {
        size = FOLIO - offset % FOLIO;
        if (size > end - offset) size = end - offset;
        uint64_t began = weft_now_monotonic();
        ssize_t written = pwrite(record->fd, zeros, size, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written ? errno : EIO;
        if (waited(record, began)) return ETIMEDOUT;
        offset += (uint64_t)written;
    }
    return 0;
}

/* Takes `bytes` at the file's end, on the disk as well; 0 or an errno. File systems that reserve nothing (NFS before 4.2,
 * many of FUSE) are given zeros: glibc's posix_fallocate would ask them for each page. `written`: whether they were. */
static int file_reserve(struct weft_record *record, uint64_t bytes, bool *written) {
    if (beyond_limit(record->file_size + bytes)) return EFBIG;
    *written = false;
    uint64_t began = weft_now_monotonic();
    while (fallocate(record->fd, 0, (off_t)record->file_size, (off_t)bytes)) {
        if (errno == EINTR) continue;
        if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
        *written = true;
        return file_zero(record, bytes);
    }
    return waited(record, began) ? ETIMEDOUT : 0;
}

static int stop_reason(int error) {
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) return WEFT_STOP_DISK_FULL;
    return error == ETIMEDOUT ? WEFT_STOP_DISK_SLOW : WEFT_STOP_IO_ERROR;
}

/* Reserves `pages` at the file's end, on the disk as well: a sparse file on a full disk would kill the program
 * with SIGBUS at some later store.
 *
 * Then writes zeros, which brings the pages into memory. The kernel takes each piece as one large folio and maps it whole
 * at its first fault, where the stores alone would take a fault a page: 1 against 5 us a page on ext4, Linux 6.18.
 * Larger folios would lie across page tables, as a stream's addresses and places in the file are not aligned alike,
 * and such ones are mapped page by page. Where writing gives an error, the stores do it. */
static bool file_extend(struct weft_record *record, uint32_t pages, uint64_t *offset) {
    uint64_t bytes = (uint64_t)pages * WEFT_PAGE;
    bool written;
    int error = file_reserve(record, bytes, &written);
    if (!error && !written && file_zero(record, bytes) == ETIMEDOUT) error = ETIMEDOUT;
    if (error) {
        weft_record_stop(record, stop_reason(error));
        return false;
    }
    *offset = record->file_size;
    record->file_size += bytes;
    return true;
}

static bool table_continue(struct weft_record *record) {
    uint64_t offset;
    if (!file_extend(record, TABLE_PAGES, &offset)) return false;
    void *pages = mmap(NULL, TABLE_PAGES * WEFT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, record->fd, (off_t)offset);
    if (pages == MAP_FAILED) {
        weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
        return false;
    }
    struct weft_chunk *link = &record->table[record->table_used];
    *link = (struct weft_chunk){.kind = WEFT_STREAM_TABLE, .pages = TABLE_PAGES, .offset = offset};
    if (record->table_counter) __atomic_store_n(record->table_counter, record->table_used + 1, __ATOMIC_RELEASE);
    else __atomic_store_n(&record->header->chunk_count, record->table_used + 1, __ATOMIC_RELEASE);
    record->table_counter = &link->used;
    record->table = pages;
    record->table_used = 0;
    record->table_size = TABLE_PAGES * WEFT_PAGE / sizeof(struct weft_chunk);
    return true;
}

/* Adds a chunk to the table. The last entry of a table is kept for the link to the next one. */
static struct weft_chunk *table_add(struct weft_record *record, struct weft_chunk chunk) {
    if (record->table_used + 1 == record->table_size && !table_continue(record)) return NULL;
    struct weft_chunk *entry = &record->table[record->table_used++];
    *entry = chunk;
    if (record->table_counter) __atomic_store_n(record->table_counter, record->table_used, __ATOMIC_RELEASE);
    else __atomic_store_n(&record->header->chunk_count, record->table_used, __ATOMIC_RELEASE);
    return entry;
}

/* ---- rings (`weft run --keep`) ---- */
enum {
    RING_PART = 8, /* a new chunk is at most so much of what is kept: what is kept beyond the wish stays small */
    RING_STAYS = 2, /* chunks that are never dropped: the call under way stands in them */
    BEFORE_PAGES =
        (sizeof(struct weft_before) + WEFT_DROPPED_MOST * sizeof(struct weft_dropped) + WEFT_PAGE - 1) / WEFT_PAGE,
    SORTS = 8192, /* places of the hash table, a power of two beyond WEFT_DROPPED_MOST */
};

/* A chunk of a ring: where it is mapped, its row of the table, and when it was full, 0 for the newest. */
struct piece {
    uint8_t *at;
    struct weft_chunk *entry;
    uint64_t bytes, left;
};

/* The ring owns `pieces`, oldest first: the first `gone` of them were dropped, and wait for their next use. */
struct weft_ring {
    struct piece *pieces;
    uint32_t count, room, gone, number;
    uint8_t *low; /* start of the range in which the newest pieces are mapped */
    struct weft_before_of *before;
};

/* What a thread's rings have dropped. `areas` are the two chunks in the file, written in turn. */
struct weft_before_of {
    uint16_t thread;
    struct weft_before_of *next;
    struct weft_before *areas[2];
    struct weft_before now;
    struct weft_dropped rows[WEFT_DROPPED_MOST];
    uint16_t places[SORTS]; /* row + 1 */
};

void weft_record_keep(struct weft_record *record, uint64_t ns) {
    record->keep = ns;
    if (ns) record->header->major = WEFT_FORMAT_MAJOR_KEPT;
}

static struct weft_before_of *before_known(const struct weft_record *record, uint32_t thread) {
    struct weft_before_of *b = record->befores;
    while (b && b->thread != thread) b = b->next;
    return b;
}

static struct weft_before_of *before_of(struct weft_record *record, uint16_t thread) {
    struct weft_before_of *b = before_known(record, thread);
    if (b || !(b = calloc(1, sizeof *b))) return b;
    b->thread = thread;
    b->next = record->befores;
    return record->befores = b;
}

static bool ring_begin(struct weft_stream *stream) {
    struct weft_ring *ring = calloc(1, sizeof *ring);
    if (!ring || !(ring->before = before_of(stream->record, stream->thread))) {
        free(ring);
        return false;
    }
    ring->low = stream->base;
    stream->ring = ring;
    return true;
}

static bool before_room(struct weft_record *record, struct weft_before_of *b) {
    for (int k = 0; k < 2; k++) {
        if (b->areas[k]) continue;
        uint64_t offset, bytes = (uint64_t)BEFORE_PAGES * WEFT_PAGE;
        if (!file_extend(record, BEFORE_PAGES, &offset)) return false;
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, record->fd, (off_t)offset);
        if (at == MAP_FAILED) return false;
        if (!table_add(record, (struct weft_chunk){WEFT_STREAM_BEFORE, b->thread, BEFORE_PAGES, offset, bytes}))
            return false;
        b->areas[k] = at;
    }
    return true;
}

/* Puts down what is gone, in the area that does not hold now: until `again` is there, the other one does. */
static void before_write(struct weft_before_of *b) {
    struct weft_before *area = b->areas[++b->now.turn & 1];
    __atomic_store_n(&area->again, 0, __ATOMIC_SEQ_CST);
    memcpy(area + 1, b->rows, b->now.rows * sizeof *b->rows);
    memcpy(area, &b->now, sizeof b->now); /* its `again` is 0 */
    __atomic_store_n(&area->again, b->now.turn, __ATOMIC_SEQ_CST);
}

static inline void sort_count(struct weft_before_of *b, struct weft_dropped sort) {
    uint64_t h = ((uint64_t)sort.comm << 32 | (uint32_t)sort.function << 16 | sort.flags << 8 | sort.error) *
                 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ ((uint64_t)(uint32_t)sort.peer << 32 | (uint32_t)sort.tag)) * 0xbf58476d1ce4e5b9u;
    for (uint32_t i = (uint32_t)(h >> 40) % SORTS;; i = (i + 1) % SORTS) {
        if (!b->places[i]) {
            if (b->now.rows == WEFT_DROPPED_MOST) {
                b->now.uncounted++;
                return;
            }
            b->rows[b->now.rows] = sort;
            b->places[i] = (uint16_t)++b->now.rows;
        }
        struct weft_dropped *row = &b->rows[b->places[i] - 1];
        if (memcmp(row, &sort, offsetof(struct weft_dropped, count))) continue;
        row->count++;
        return;
    }
}

static void before_count(struct weft_before_of *b, const struct weft_event *e) {
    enum { KEPT = WEFT_FLAG_CLOSED | WEFT_FLAG_ANY_SOURCE | WEFT_FLAG_ANY_TAG | WEFT_FLAG_TRUE | WEFT_FLAG_CANCELLED };
    sort_count(b, (struct weft_dropped){.function = e->function,
                                        .flags = e->flags & KEPT,
                                        .error = e->error,
                                        .comm = e->comm,
                                        .peer = e->peer,
                                        .tag = e->tag});
}

static void received_count(struct weft_before_of *b, const struct weft_received *r) {
    sort_count(
        b, (struct weft_dropped){.function = WEFT_DROPPED_RECEIVED, .comm = r->comm, .peer = r->peer, .tag = r->tag});
}

/* Whether all calls that a chunk of RECEIVED tells of were dropped before. */
static bool calls_gone(const struct weft_record *record, const struct piece *piece) {
    const struct weft_received *rows = (const struct weft_received *)piece->at;
    for (uint64_t i = 0; i < piece->entry->used / sizeof *rows; i++) {
        const struct weft_before_of *of = before_known(record, rows[i].thread);
        if (!of || (int32_t)(rows[i].call - (uint32_t)of->now.events) >= 0) return false;
    }
    return true;
}

static bool may_go(const struct weft_stream *stream, const struct piece *piece) {
    return stream->kind != WEFT_STREAM_RECEIVED || calls_gone(stream->record, piece);
}

static void piece_drop(struct weft_stream *stream, struct piece *piece) {
    struct weft_before_of *b = stream->ring->before;
    if (stream->kind == WEFT_STREAM_EVENTS) {
        uint64_t n = piece->entry->used / sizeof(struct weft_event);
        for (uint64_t i = 0; i < n; i++) before_count(b, (const struct weft_event *)piece->at + i);
        b->now.events += n;
        b->now.first_events = (b->now.first_events + 1) % WEFT_NUMBERS;
    } else if (stream->kind == WEFT_STREAM_RECEIVED) {
        uint64_t n = piece->entry->used / sizeof(struct weft_received);
        for (uint64_t i = 0; i < n; i++) received_count(b, (const struct weft_received *)piece->at + i);
        b->now.first_received = (b->now.first_received + 1) % WEFT_NUMBERS;
    } else {
        b->now.tails += piece->bytes;
        b->now.first_tails = (b->now.first_tails + 1) % WEFT_NUMBERS;
    }
}

/* Drops the chunks that are older than is to be kept. */
static void ring_turn(struct weft_stream *stream, uint64_t now) {
    struct weft_record *record = stream->record;
    struct weft_ring *ring = stream->ring;
    uint32_t before = ring->gone;
    while (ring->gone + RING_STAYS < ring->count && now - ring->pieces[ring->gone].left > record->keep &&
           may_go(stream, &ring->pieces[ring->gone])) {
        if (!before_room(record, ring->before)) return;
        piece_drop(stream, &ring->pieces[ring->gone++]);
    }
    if (ring->gone == before) return;
    before_write(ring->before);
    for (uint32_t i = before; i < ring->gone; i++) {
        struct piece *piece = &ring->pieces[i];
        __atomic_store_n(&piece->entry->used, 0, __ATOMIC_RELEASE);
        mmap(piece->at, piece->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        piece->at = NULL;
    }
}

static uint64_t place_in_file(const struct weft_chunk *entry) {
    return entry->offset & (((uint64_t)1 << WEFT_NUMBER_SHIFT) - 1);
}

/* The range is at its end: another one begins with the newest chunk, mapped once more. What stands in the old range
 * stays mapped there, as the call under way may be written to. */
static bool ring_move(struct weft_stream *stream) {
    struct piece *newest = &stream->ring->pieces[stream->ring->count - 1];
    uint8_t *range = mmap(NULL, stream->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    if (mmap(range, newest->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, stream->record->fd,
             (off_t)place_in_file(newest->entry)) == MAP_FAILED)
        return false;
    int64_t by = range - newest->at;
    newest->at = stream->ring->low = range;
    stream->base += by;
    stream->next += by;
    stream->end += by;
    stream->chunk_start += by;
    return true;
}

static struct piece *piece_add(struct weft_ring *ring) {
    if (ring->count == ring->room) {
        uint32_t room = ring->room ? 2 * ring->room : 16;
        struct piece *more = realloc(ring->pieces, room * sizeof *more);
        if (!more) return NULL;
        ring->pieces = more;
        ring->room = room;
    }
    return &ring->pieces[ring->count++];
}

/* The next chunk of a ring: that which was dropped first, else a new one. False where recording has to stop. */
static bool ring_grow(struct weft_stream *stream) {
    struct weft_record *record = stream->record;
    struct weft_ring *ring = stream->ring;
    weft_record_anchor(record, &record->header->end);
    uint64_t now = record->header->end.monotonic_ns, live = 0;
    if (ring->count) ring->pieces[ring->count - 1].left = now;
    ring_turn(stream, now);
    for (uint32_t i = ring->gone; i < ring->count; i++) live += ring->pieces[i].bytes;
    uint64_t pages = live / RING_PART / WEFT_PAGE;
    if (pages < FIRST_CHUNK_PAGES) pages = FIRST_CHUNK_PAGES;
    if (pages > LAST_CHUNK_PAGES) pages = LAST_CHUNK_PAGES;
    struct piece used = {0};
    if (ring->gone) {
        used = ring->pieces[0];
        pages = used.bytes / WEFT_PAGE;
        ring->gone--;
        memmove(ring->pieces, ring->pieces + 1, --ring->count * sizeof *ring->pieces);
    }
    uint64_t bytes = pages * WEFT_PAGE, offset;
    if ((uint64_t)(stream->end - ring->low) + bytes > stream->reserved && !(ring->count && ring_move(stream)))
        goto full;
    if (used.entry) offset = place_in_file(used.entry);
    else if (!file_extend(record, (uint32_t)pages, &offset)) return false;
    if (offset >> WEFT_NUMBER_SHIFT || mmap(stream->end, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                            record->fd, (off_t)offset) == MAP_FAILED)
        goto full;
    uint64_t numbered = (uint64_t)ring->number << WEFT_NUMBER_SHIFT | offset;
    struct weft_chunk *entry = used.entry;
    if (entry) {
        memset(stream->end, 0, bytes);
        __atomic_store_n(&entry->offset, numbered, __ATOMIC_RELEASE);
    } else entry = table_add(record, (struct weft_chunk){stream->kind, stream->thread, (uint32_t)pages, numbered, 0});
    struct piece *piece = entry ? piece_add(ring) : NULL;
    if (!piece) goto full;
    *piece = (struct piece){.at = stream->end, .entry = entry, .bytes = bytes};
    ring->number = (ring->number + 1) % WEFT_NUMBERS;
    if (stream->kind != WEFT_STREAM_TAILS) { /* no event lies in two chunks, and no row of RECEIVED */
        stream->base += stream->end - stream->next;
        stream->next = stream->end;
    } else if (stream->used) *stream->used = (uint64_t)(stream->end - stream->chunk_start);
    stream->used = &entry->used;
    stream->chunk_start = stream->end;
    stream->end += bytes;
    return true;
full:
    weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
    return false;
}

bool weft_stream_grow(struct weft_stream *stream, uint64_t bytes) {
    struct weft_record *record = stream->record;
    pthread_mutex_lock(&record->lock);
    while (stream->ring && !record->stopped && (uint64_t)(stream->end - stream->next) < bytes)
        if (!ring_grow(stream)) break;
    while (!record->stopped && (uint64_t)(stream->end - stream->next) < bytes) {
        uint64_t mapped = (uint64_t)(stream->end - stream->base);
        uint64_t pages = mapped / WEFT_PAGE; /* as much again: chunks double */
        if (pages < FIRST_CHUNK_PAGES) pages = FIRST_CHUNK_PAGES;
        if (pages > LAST_CHUNK_PAGES) pages = LAST_CHUNK_PAGES;
        if (mapped + pages * WEFT_PAGE > stream->reserved) {
            weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
            break;
        }
        uint64_t offset;
        if (!file_extend(record, (uint32_t)pages, &offset)) break;
        if (mmap(stream->end, pages * WEFT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, record->fd,
                 (off_t)offset) == MAP_FAILED) {
            weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
            break;
        }
        struct weft_chunk *entry = table_add(
            record, (struct weft_chunk){
                        .kind = stream->kind, .thread = stream->thread, .pages = (uint32_t)pages, .offset = offset});
        if (!entry) break;
        /* The stream is contiguous, so an item may straddle two chunks: the older one counts as full from now on.
         * A process killed before its next item leaves zeros or part of an item there, which a reader drops. */
        if (stream->used)
            *stream->used =
                (uint64_t)(stream->end - stream->chunk_start) * (stream->kind == WEFT_STREAM_OUTCOMES ? 2 : 1);
        stream->used = &entry->used;
        stream->chunk_start = stream->end;
        stream->end += pages * WEFT_PAGE;
        weft_record_anchor(record, &record->header->end);
    }
    pthread_mutex_unlock(&record->lock);
    return !record->stopped && (uint64_t)(stream->end - stream->next) >= bytes;
}

/* How much to reserve for a stream: addresses only, no memory. Under a limit (ulimit -v) most must stay the program's. */
static uint64_t reservation(int thread) {
    struct rlimit limit;
    uint64_t size = 1ull << (thread < 16 ? 36 : 32);
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return size;
    while (size > LEAST_RESERVED && size > limit.rlim_cur / 32) size >>= 2;
    return size;
}

bool weft_stream_open(struct weft_record *record, struct weft_stream *stream, int kind, int thread) {
    memset(stream, 0, sizeof *stream);
    stream->record = record;
    stream->kind = (uint16_t)kind;
    stream->thread = (uint16_t)thread;
    if (record->stopped) return false;
    for (uint64_t size = reservation(thread); size >= LEAST_RESERVED; size >>= 2) {
        void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) continue;
        stream->base = stream->next = stream->end = stream->chunk_start = range;
        stream->reserved = size;
        bool ring = kind == WEFT_STREAM_EVENTS || kind == WEFT_STREAM_TAILS || kind == WEFT_STREAM_RECEIVED;
        if (record->keep && ring && !ring_begin(stream)) break;
        return weft_stream_grow(stream, 1);
    }
    weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
    return false;
}

struct weft_record *weft_record_create(const char *path, int level, int rank, int world_size) {
    struct weft_record *record = calloc(1, sizeof *record);
    if (!record) return NULL;
    record->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (record->fd < 0) goto fail;
    pthread_mutex_init(&record->lock, NULL);
    bool written;
    int error = file_reserve(record, WEFT_PAGE, &written);
    if (error) {
        errno = error;
        goto fail_file;
    }
    record->header = mmap(NULL, WEFT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, record->fd, 0);
    if (record->header == MAP_FAILED) goto fail_file;
    record->file_size = WEFT_PAGE;
    struct weft_header *header = record->header;
    header->major = WEFT_FORMAT_MAJOR;
    header->minor = WEFT_FORMAT_MINOR;
    header->slot_size = sizeof(struct weft_event);
    header->clock = (uint8_t)weft_clock_choose();
    header->level = (uint8_t)level;
    header->rank = rank;
    header->world_size = world_size;
    header->pid = (uint32_t)getpid();
    gethostname(header->host, sizeof header->host - 1);
    weft_record_anchor(record, &header->start);
    header->end = header->start;
    record->table = header->chunks;
    record->table_size = WEFT_HEADER_CHUNKS;
    memcpy(header->magic, WEFT_MAGIC, sizeof header->magic); /* last: a header with a magic is whole */
    return record;
fail_file:
    error = errno;
    unlink(path);
    close(record->fd);
    errno = error;
fail:
    error = errno;
    free(record);
    errno = error;
    return NULL;
}

/* Cuts the file behind the last byte in use, when the last chunk is the last thing in the file. */
static void file_trim(struct weft_record *record) {
    if (!record->table_used) return;
    const struct weft_chunk *last = &record->table[record->table_used - 1];
    uint64_t bytes = last->kind == WEFT_STREAM_OUTCOMES ? (last->used + 1) / 2 : last->used;
    uint64_t end = last->offset + (bytes + WEFT_PAGE - 1) / WEFT_PAGE * WEFT_PAGE;
    if (!bytes) end += WEFT_PAGE; /* a chunk of the table always lies in the file */
    if (last->offset + (uint64_t)last->pages * WEFT_PAGE != record->file_size || end >= record->file_size) return;
    if (!ftruncate(record->fd, (off_t)end)) record->file_size = end;
}

void weft_record_close(struct weft_record *record, int state) {
    pthread_mutex_lock(&record->lock);
    if (!record->stopped) {
        weft_record_anchor(record, &record->header->end);
        record->header->state = (uint32_t)state;
        record->stopped = true; /* nothing is appended from here on, so the tail can go */
        file_trim(record);
    }
    pthread_mutex_unlock(&record->lock);
}

static struct weft_stream *synthetic_stream(struct weft_record *record, int kind, int thread) {
    struct weft_synthetic *known = record->synthetic;
    while (known && (known->stream.kind != kind || known->stream.thread != thread)) known = known->next;
    if (known) return &known->stream;
    known = calloc(1, sizeof *known);
    if (!known) return NULL;
    known->next = record->synthetic;
    record->synthetic = known;
    if (!weft_stream_open(record, &known->stream, kind, thread)) return NULL;
    if ((uint32_t)thread >= record->header->threads) record->header->threads = (uint32_t)thread + 1;
    return &known->stream;
}

int weft_record_append(struct weft_record *record, int kind, int thread, const void *bytes, uint64_t n) {
    if (kind < WEFT_STREAM_EVENTS || kind > WEFT_STREAM_RECEIVED || kind == WEFT_STREAM_TABLE ||
        kind == WEFT_STREAM_BEFORE || thread < 0 || thread > 0xffff)
        return -1;
    struct weft_stream *stream = synthetic_stream(record, kind, thread);
    if (!stream) return -1;
    uint64_t most = n; /* in a ring none lies in two chunks */
    if (stream->ring && kind == WEFT_STREAM_EVENTS) most = sizeof(struct weft_event);
    if (stream->ring && kind == WEFT_STREAM_RECEIVED) most = sizeof(struct weft_received);
    for (uint64_t at = 0, size; at < n; at += size) {
        size = n - at < most ? n - at : most;
        if (!weft_stream_fits(stream, size)) return -1;
        memcpy(stream->next, (const uint8_t *)bytes + at, size);
        stream->next += size;
        weft_stream_publish(stream);
    }
    return 0;
}

void weft_record_free(struct weft_record *record) {
    while (record->synthetic) {
        struct weft_synthetic *next = record->synthetic->next;
        struct weft_ring *ring = record->synthetic->stream.ring;
        munmap(ring ? ring->low : record->synthetic->stream.base, record->synthetic->stream.reserved);
        if (ring) free(ring->pieces);
        free(ring);
        free(record->synthetic);
        record->synthetic = next;
    }
    while (record->befores) {
        struct weft_before_of *next = record->befores->next;
        for (int k = 0; k < 2; k++)
            if (record->befores->areas[k]) munmap(record->befores->areas[k], (uint64_t)BEFORE_PAGES * WEFT_PAGE);
        free(record->befores);
        record->befores = next;
    }
    munmap(record->header, WEFT_PAGE);
    close(record->fd);
    pthread_mutex_destroy(&record->lock);
    free(record);
}
