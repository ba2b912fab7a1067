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

/* Return CLOCK_MONOTONIC in nanoseconds. */
uint64_t weft_now_monotonic(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t weft_ticks_slow(int clock) {
    (void)clock;
    return weft_now_monotonic();
}

/* Return the fastest clock that is safe for event times on this machine (enum weft_clock). The time-stamp counter is
 * used only if the kernel itself uses it as its clock: then it is constant, never stops and agrees on all cores (Linux,
 * arch/x86/kernel/tsc.c). */
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

/* Read the event clock, CLOCK_MONOTONIC and CLOCK_REALTIME at the same moment into an anchor, from which readers
 * convert times. */
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

/* Stop recording for good and store the reason in the file; only the first reason is kept. Safe to call from several
 * threads. */
void weft_record_stop(struct weft_record *record, int reason) {
    if (__atomic_exchange_n(&record->stopped, true, __ATOMIC_ACQ_REL)) return;
    record->header->stop_reason = (uint32_t)reason;
    record->header->state = WEFT_STATE_STOPPED;
}

/* Return whether a file of this size would exceed the limit on file sizes (ulimit -f), which would raise SIGXFSZ and
 * end the program. */
static bool is_beyond_file_limit(uint64_t size) {
    struct rlimit limit;
    return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur;
}

/* What recording may cost (docs/performance.md), and once the time of a disk that others write to. */
enum { WAIT_ONCE_S = 5, WAIT_SHARE = 50, WAIT_EVENT_NS = 200, WAIT_MOST_S = 1 };
#define SECOND 1000000000ull

void weft_record_hurry(struct weft_record *record) { record->impatient = true; }

/* Add the time since `start_ns` to the time that the program has waited for the file system. Return whether that
 * exceeds what recording may cost. One request counts for at most a second, since a debugger may have stopped the
 * process meanwhile. */
static bool count_waiting_time(struct weft_record *record, uint64_t start_ns) {
    uint64_t now = weft_now_monotonic(), waited = now - start_ns;
    record->waited += waited < WAIT_MOST_S * SECOND ? waited : WAIT_MOST_S * SECOND;
    if (!record->impatient) return false;
    uint64_t share = (now - record->header->start.monotonic_ns) / WAIT_SHARE;
    return record->waited >
           WAIT_ONCE_S * SECOND + share + record->file_size / sizeof(struct weft_event) * WAIT_EVENT_NS;
}

/* Append zeros to the file in pieces of 64 KiB (a large folio). Return 0 or an errno; ETIMEDOUT if that takes too
 * long. */
static int write_zeros(struct weft_record *record, uint64_t bytes) {
    enum { FOLIO = 1 << 16 };
    static const char zeros[FOLIO];
    for (uint64_t offset = record->file_size, end = offset + bytes, size; offset < end;) {
        size = FOLIO - offset % FOLIO;
        if (size > end - offset) size = end - offset;
        uint64_t start_ns = weft_now_monotonic();
        ssize_t written = pwrite(record->fd, zeros, size, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written ? errno : EIO;
        if (count_waiting_time(record, start_ns)) return ETIMEDOUT;
        offset += (uint64_t)written;
    }
    return 0;
}

/* Reserve `bytes` at the end of the file on the disk. Return 0 or an errno. On file systems without fallocate (NFS
 * before 4.2, many FUSE ones) write zeros instead and set `*written`: glibc's posix_fallocate would send a request for
 * each page. */
static int reserve_file_space(struct weft_record *record, uint64_t bytes, bool *written) {
    if (is_beyond_file_limit(record->file_size + bytes)) return EFBIG;
    *written = false;
    uint64_t start_ns = weft_now_monotonic();
    while (fallocate(record->fd, 0, (off_t)record->file_size, (off_t)bytes)) {
        if (errno == EINTR) continue;
        if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
        *written = true;
        return write_zeros(record, bytes);
    }
    return count_waiting_time(record, start_ns) ? ETIMEDOUT : 0;
}

/* Return the stop reason of the file format (enum weft_stop_reason) for an errno. */
static int find_stop_reason(int error) {
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) return WEFT_STOP_DISK_FULL;
    return error == ETIMEDOUT ? WEFT_STOP_DISK_SLOW : WEFT_STOP_IO_ERROR;
}

/* Append `pages` to the file, reserved on the disk (a sparse file on a full disk would kill the program with SIGBUS at
 * some later store), and return where in `*offset`; false if recording had to stop.
 *
 * Then write zeros, which brings the pages into memory. The kernel takes each piece as one large folio and maps it whole
 * at its first fault, where the stores alone would take a fault a page: 1 against 5 us a page on ext4, Linux 6.18.
 * Larger folios would lie across page tables, as a stream's addresses and places in the file are not aligned alike,
 * and such ones are mapped page by page. Where writing gives an error, the stores do it. */
static bool extend_file(struct weft_record *record, uint32_t pages, uint64_t *offset) {
    uint64_t bytes = (uint64_t)pages * WEFT_PAGE;
    bool written;
    int error = reserve_file_space(record, bytes, &written);
    if (!error && !written && write_zeros(record, bytes) == ETIMEDOUT) error = ETIMEDOUT;
    if (error) {
        weft_record_stop(record, find_stop_reason(error));
        return false;
    }
    *offset = record->file_size;
    record->file_size += bytes;
    return true;
}

/* Append another chunk table to the file, linked from the last entry of the current one. Return false if recording had
 * to stop. */
static bool add_chunk_table(struct weft_record *record) {
    uint64_t offset;
    if (!extend_file(record, TABLE_PAGES, &offset)) return false;
    void *table = mmap(NULL, TABLE_PAGES * WEFT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, record->fd, (off_t)offset);
    if (table == MAP_FAILED) {
        weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
        return false;
    }
    struct weft_chunk *link = &record->table[record->table_used];
    *link = (struct weft_chunk){.kind = WEFT_STREAM_TABLE, .pages = TABLE_PAGES, .offset = offset};
    if (record->table_counter) __atomic_store_n(record->table_counter, record->table_used + 1, __ATOMIC_RELEASE);
    else __atomic_store_n(&record->header->chunk_count, record->table_used + 1, __ATOMIC_RELEASE);
    record->table_counter = &link->used;
    record->table = table;
    record->table_used = 0;
    record->table_size = TABLE_PAGES * WEFT_PAGE / sizeof(struct weft_chunk);
    return true;
}

/* Add a chunk to the file's chunk table and return its entry; NULL if recording had to stop. A table's last entry is
 * reserved for the link to the next table. */
static struct weft_chunk *add_chunk_entry(struct weft_record *record, struct weft_chunk chunk) {
    if (record->table_used + 1 == record->table_size && !add_chunk_table(record)) return NULL;
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

/* Return the counts of the calls that a thread's rings (streams that keep only the latest calls) have dropped; NULL if
 * there are none. */
static struct weft_before_of *find_dropped_call_counts(const struct weft_record *record, uint32_t thread) {
    struct weft_before_of *dropped = record->befores;
    while (dropped && dropped->thread != thread) dropped = dropped->next;
    return dropped;
}

/* Return the counts of the calls that a thread's rings have dropped, created if needed; NULL without memory. */
static struct weft_before_of *find_or_add_dropped_call_counts(struct weft_record *record, uint16_t thread) {
    struct weft_before_of *dropped = find_dropped_call_counts(record, thread);
    if (dropped || !(dropped = calloc(1, sizeof *dropped))) return dropped;
    dropped->thread = thread;
    dropped->next = record->befores;
    return record->befores = dropped;
}

/* Turn a stream into a ring, which keeps only the latest calls. Return false without memory. */
static bool turn_stream_into_ring(struct weft_stream *stream) {
    struct weft_ring *ring = calloc(1, sizeof *ring);
    if (!ring || !(ring->before = find_or_add_dropped_call_counts(stream->record, stream->thread))) {
        free(ring);
        return false;
    }
    ring->low = stream->base;
    stream->ring = ring;
    return true;
}

/* Reserve both file areas for a thread's counts of dropped calls, once. Return false if that fails. */
static bool reserve_dropped_areas(struct weft_record *record, struct weft_before_of *dropped) {
    for (int area_index = 0; area_index < 2; area_index++) {
        if (dropped->areas[area_index]) continue;
        uint64_t offset, bytes = (uint64_t)BEFORE_PAGES * WEFT_PAGE;
        if (!extend_file(record, BEFORE_PAGES, &offset)) return false;
        void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, record->fd, (off_t)offset);
        if (area == MAP_FAILED) return false;
        if (!add_chunk_entry(record,
                             (struct weft_chunk){WEFT_STREAM_BEFORE, dropped->thread, BEFORE_PAGES, offset, bytes}))
            return false;
        dropped->areas[area_index] = area;
    }
    return true;
}

/* Write a thread's counts of dropped calls to the file area that is not the valid one. Writing `again` last makes it
 * valid, so that one area is whole at any moment. */
static void write_dropped_call_counts(struct weft_before_of *dropped) {
    struct weft_before *area = dropped->areas[++dropped->now.turn & 1];
    __atomic_store_n(&area->again, 0, __ATOMIC_SEQ_CST);
    memcpy(area + 1, dropped->rows, dropped->now.rows * sizeof *dropped->rows);
    memcpy(area, &dropped->now, sizeof dropped->now); /* its `again` is 0 */
    __atomic_store_n(&area->again, dropped->now.turn, __ATOMIC_SEQ_CST);
}

/* Count a dropped call in the hash table by its kind: function, flags, error, communicator, peer and tag. */
static inline void count_dropped_sort(struct weft_before_of *dropped, struct weft_dropped call_sort) {
    uint64_t hash =
        ((uint64_t)call_sort.comm << 32 | (uint32_t)call_sort.function << 16 | call_sort.flags << 8 | call_sort.error) *
        0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 29 ^ ((uint64_t)(uint32_t)call_sort.peer << 32 | (uint32_t)call_sort.tag)) *
           0xbf58476d1ce4e5b9u;
    for (uint32_t i = (uint32_t)(hash >> 40) % SORTS;; i = (i + 1) % SORTS) {
        if (!dropped->places[i]) {
            if (dropped->now.rows == WEFT_DROPPED_MOST) {
                dropped->now.uncounted++;
                return;
            }
            dropped->rows[dropped->now.rows] = call_sort;
            dropped->places[i] = (uint16_t)++dropped->now.rows;
        }
        struct weft_dropped *row = &dropped->rows[dropped->places[i] - 1];
        if (memcmp(row, &call_sort, offsetof(struct weft_dropped, count))) continue;
        row->count++;
        return;
    }
}

/* Count a call as dropped, by its kind (see count_dropped_sort()). */
static void count_dropped_event(struct weft_before_of *dropped, const struct weft_event *event) {
    enum { KEPT = WEFT_FLAG_CLOSED | WEFT_FLAG_ANY_SOURCE | WEFT_FLAG_ANY_TAG | WEFT_FLAG_TRUE | WEFT_FLAG_CANCELLED };
    count_dropped_sort(dropped, (struct weft_dropped){.function = event->function,
                                                      .flags = event->flags & KEPT,
                                                      .error = event->error,
                                                      .comm = event->comm,
                                                      .peer = event->peer,
                                                      .tag = event->tag});
}

/* Count the message of a dropped nonblocking or combined receive, by communicator, peer and tag. */
static void count_dropped_receive(struct weft_before_of *dropped, const struct weft_received *received) {
    count_dropped_sort(dropped, (struct weft_dropped){.function = WEFT_DROPPED_RECEIVED,
                                                      .comm = received->comm,
                                                      .peer = received->peer,
                                                      .tag = received->tag});
}

/* Return whether all calls that a chunk of received messages refers to were dropped before. */
static bool are_calls_dropped(const struct weft_record *record, const struct piece *piece) {
    const struct weft_received *rows = (const struct weft_received *)piece->at;
    for (uint64_t i = 0; i < piece->entry->used / sizeof *rows; i++) {
        const struct weft_before_of *dropped = find_dropped_call_counts(record, rows[i].thread);
        if (!dropped || (int32_t)(rows[i].call - (uint32_t)dropped->now.events) >= 0) return false;
    }
    return true;
}

/* Return whether a ring's chunk may be dropped: received messages only after the calls that they belong to. */
static bool may_drop_piece(const struct weft_stream *stream, const struct piece *piece) {
    return stream->kind != WEFT_STREAM_RECEIVED || are_calls_dropped(stream->record, piece);
}

/* Count everything in a chunk of a ring as dropped. */
static void count_dropped_chunk(struct weft_stream *stream, struct piece *piece) {
    struct weft_before_of *dropped = stream->ring->before;
    if (stream->kind == WEFT_STREAM_EVENTS) {
        uint64_t row_count = piece->entry->used / sizeof(struct weft_event);
        for (uint64_t i = 0; i < row_count; i++) count_dropped_event(dropped, (const struct weft_event *)piece->at + i);
        dropped->now.events += row_count;
        dropped->now.first_events = (dropped->now.first_events + 1) % WEFT_NUMBERS;
    } else if (stream->kind == WEFT_STREAM_RECEIVED) {
        uint64_t row_count = piece->entry->used / sizeof(struct weft_received);
        for (uint64_t i = 0; i < row_count; i++)
            count_dropped_receive(dropped, (const struct weft_received *)piece->at + i);
        dropped->now.first_received = (dropped->now.first_received + 1) % WEFT_NUMBERS;
    } else {
        dropped->now.tails += piece->bytes;
        dropped->now.first_tails = (dropped->now.first_tails + 1) % WEFT_NUMBERS;
    }
}

/* Drop the chunks of a ring that are older than what is to be kept: count their calls, write the counts to the file,
 * unmap the chunks. */
static void drop_expired_chunks(struct weft_stream *stream, uint64_t now) {
    struct weft_record *record = stream->record;
    struct weft_ring *ring = stream->ring;
    uint32_t old_gone = ring->gone;
    while (ring->gone + RING_STAYS < ring->count && now - ring->pieces[ring->gone].left > record->keep &&
           may_drop_piece(stream, &ring->pieces[ring->gone])) {
        if (!reserve_dropped_areas(record, ring->before)) return;
        count_dropped_chunk(stream, &ring->pieces[ring->gone++]);
    }
    if (ring->gone == old_gone) return;
    write_dropped_call_counts(ring->before);
    for (uint32_t index = old_gone; index < ring->gone; index++) {
        struct piece *piece = &ring->pieces[index];
        __atomic_store_n(&piece->entry->used, 0, __ATOMIC_RELEASE);
        mmap(piece->at, piece->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        piece->at = NULL;
    }
}

/* Return a chunk's offset in the file, without the chunk number that a ring stores in the same field. */
static uint64_t find_file_offset(const struct weft_chunk *entry) {
    return entry->offset & (((uint64_t)1 << WEFT_NUMBER_SHIFT) - 1);
}

/* Reserve another address range for a ring whose range is used up, and map the newest chunk there again. The old
 * mapping stays, since the current call may still be written to. Return false if there are no addresses. */
static bool move_ring_to_new_addresses(struct weft_stream *stream) {
    struct piece *newest = &stream->ring->pieces[stream->ring->count - 1];
    uint8_t *range = mmap(NULL, stream->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    if (mmap(range, newest->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, stream->record->fd,
             (off_t)find_file_offset(newest->entry)) == MAP_FAILED)
        return false;
    int64_t distance = range - newest->at;
    newest->at = stream->ring->low = range;
    stream->base += distance;
    stream->next += distance;
    stream->end += distance;
    stream->chunk_start += distance;
    return true;
}

/* Append an entry to a ring's list of chunks and return it; NULL without memory. */
static struct piece *add_ring_chunk(struct weft_ring *ring) {
    if (ring->count == ring->room) {
        uint32_t room = ring->room ? 2 * ring->room : 16;
        struct piece *grown = realloc(ring->pieces, room * sizeof *grown);
        if (!grown) return NULL;
        ring->pieces = grown;
        ring->room = room;
    }
    return &ring->pieces[ring->count++];
}

/* Map the next chunk of a ring: the place of the oldest dropped chunk, or a new one. Return false if recording had to
 * stop. */
static bool grow_ring(struct weft_stream *stream) {
    struct weft_record *record = stream->record;
    struct weft_ring *ring = stream->ring;
    weft_record_anchor(record, &record->header->end);
    uint64_t now = record->header->end.monotonic_ns, live = 0;
    if (ring->count) ring->pieces[ring->count - 1].left = now;
    drop_expired_chunks(stream, now);
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
    if ((uint64_t)(stream->end - ring->low) + bytes > stream->reserved &&
        !(ring->count && move_ring_to_new_addresses(stream)))
        goto full;
    if (used.entry) offset = find_file_offset(used.entry);
    else if (!extend_file(record, (uint32_t)pages, &offset)) return false;
    if (offset >> WEFT_NUMBER_SHIFT || mmap(stream->end, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                            record->fd, (off_t)offset) == MAP_FAILED)
        goto full;
    uint64_t numbered = (uint64_t)ring->number << WEFT_NUMBER_SHIFT | offset;
    struct weft_chunk *entry = used.entry;
    if (entry) {
        memset(stream->end, 0, bytes);
        __atomic_store_n(&entry->offset, numbered, __ATOMIC_RELEASE);
    } else
        entry =
            add_chunk_entry(record, (struct weft_chunk){stream->kind, stream->thread, (uint32_t)pages, numbered, 0});
    struct piece *piece = entry ? add_ring_chunk(ring) : NULL;
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

/* Map more chunks after a stream's end until `bytes` more fit; each chunk doubles the stream, up to 4 MiB. Return false
 * if recording had to stop. Takes the record's lock. */
bool weft_stream_grow(struct weft_stream *stream, uint64_t bytes) {
    struct weft_record *record = stream->record;
    pthread_mutex_lock(&record->lock);
    while (stream->ring && !record->stopped && (uint64_t)(stream->end - stream->next) < bytes)
        if (!grow_ring(stream)) break;
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
        if (!extend_file(record, (uint32_t)pages, &offset)) break;
        if (mmap(stream->end, pages * WEFT_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, record->fd,
                 (off_t)offset) == MAP_FAILED) {
            weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
            break;
        }
        struct weft_chunk *entry = add_chunk_entry(
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

/* Return how many bytes of address space to reserve for a thread's stream. That costs no memory, but under a limit
 * (ulimit -v) most of it must stay available to the program. */
static uint64_t choose_reservation(int thread) {
    struct rlimit limit;
    uint64_t size = 1ull << (thread < 16 ? 36 : 32);
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return size;
    while (size > LEAST_RESERVED && size > limit.rlim_cur / 32) size >>= 2;
    return size;
}

/* Open a stream: reserve its address range and map the first chunk. Streams of calls become rings if only recent calls
 * are kept. Return false if recording had to stop. */
bool weft_stream_open(struct weft_record *record, struct weft_stream *stream, int kind, int thread) {
    memset(stream, 0, sizeof *stream);
    stream->record = record;
    stream->kind = (uint16_t)kind;
    stream->thread = (uint16_t)thread;
    if (record->stopped) return false;
    for (uint64_t size = choose_reservation(thread); size >= LEAST_RESERVED; size >>= 2) {
        void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) continue;
        stream->base = stream->next = stream->end = stream->chunk_start = range;
        stream->reserved = size;
        bool ring = kind == WEFT_STREAM_EVENTS || kind == WEFT_STREAM_TAILS || kind == WEFT_STREAM_RECEIVED;
        if (record->keep && ring && !turn_stream_into_ring(stream)) break;
        return weft_stream_grow(stream, 1);
    }
    weft_record_stop(record, WEFT_STOP_NO_ADDRESS_SPACE);
    return false;
}

/* Create a record file and write its header; the magic comes last, so that a header with a magic is complete. Return
 * NULL with errno set on failure. */
struct weft_record *weft_record_create(const char *path, int level, int rank, int world_size) {
    struct weft_record *record = calloc(1, sizeof *record);
    if (!record) return NULL;
    record->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (record->fd < 0) goto fail;
    pthread_mutex_init(&record->lock, NULL);
    bool written;
    int error = reserve_file_space(record, WEFT_PAGE, &written);
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

/* Cut unused space off the end of the file, if its last chunk lies there. */
static void trim_file(struct weft_record *record) {
    if (!record->table_used) return;
    const struct weft_chunk *last = &record->table[record->table_used - 1];
    uint64_t bytes = last->kind == WEFT_STREAM_OUTCOMES ? (last->used + 1) / 2 : last->used;
    uint64_t end = last->offset + (bytes + WEFT_PAGE - 1) / WEFT_PAGE * WEFT_PAGE;
    if (!bytes) end += WEFT_PAGE; /* a chunk of the table always lies in the file */
    if (last->offset + (uint64_t)last->pages * WEFT_PAGE != record->file_size || end >= record->file_size) return;
    if (!ftruncate(record->fd, (off_t)end)) record->file_size = end;
}

/* Mark a record as ended in `state` (enum weft_state) and cut unused space off the end of its file. */
void weft_record_close(struct weft_record *record, int state) {
    pthread_mutex_lock(&record->lock);
    if (!record->stopped) {
        weft_record_anchor(record, &record->header->end);
        record->header->state = (uint32_t)state;
        record->stopped = true; /* nothing is appended from here on, so the tail can go */
        trim_file(record);
    }
    pthread_mutex_unlock(&record->lock);
}

/* Return a stream of a record that a test or tool builds, opened if needed; NULL on failure. */
static struct weft_stream *find_or_open_synthetic_stream(struct weft_record *record, int kind, int thread) {
    struct weft_synthetic *found = record->synthetic;
    while (found && (found->stream.kind != kind || found->stream.thread != thread)) found = found->next;
    if (found) return &found->stream;
    found = calloc(1, sizeof *found);
    if (!found) return NULL;
    found->next = record->synthetic;
    record->synthetic = found;
    if (!weft_stream_open(record, &found->stream, kind, thread)) return NULL;
    if ((uint32_t)thread >= record->header->threads) record->header->threads = (uint32_t)thread + 1;
    return &found->stream;
}

/* Append bytes to a stream of a record that a test or tool builds, opening the stream if needed. Return 0, or -1 on
 * failure. */
int weft_record_append(struct weft_record *record, int kind, int thread, const void *bytes, uint64_t byte_count) {
    if (kind < WEFT_STREAM_EVENTS || kind > WEFT_STREAM_RECEIVED || kind == WEFT_STREAM_TABLE ||
        kind == WEFT_STREAM_BEFORE || thread < 0 || thread > 0xffff)
        return -1;
    struct weft_stream *stream = find_or_open_synthetic_stream(record, kind, thread);
    if (!stream) return -1;
    uint64_t item_size = byte_count; /* in a ring none lies in two chunks */
    if (stream->ring && kind == WEFT_STREAM_EVENTS) item_size = sizeof(struct weft_event);
    if (stream->ring && kind == WEFT_STREAM_RECEIVED) item_size = sizeof(struct weft_received);
    for (uint64_t offset = 0, size; offset < byte_count; offset += size) {
        size = byte_count - offset < item_size ? byte_count - offset : item_size;
        if (!weft_stream_fits(stream, size)) return -1;
        memcpy(stream->next, (const uint8_t *)bytes + offset, size);
        stream->next += size;
        weft_stream_publish(stream);
    }
    return 0;
}

/* Unmap a record that a test or tool built, close its file and free its memory. */
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
