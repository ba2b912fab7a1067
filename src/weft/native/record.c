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

/* Takes `bytes` at the file's end, on the disk as well; 0 or an errno. */
static int file_reserve(int fd, uint64_t size, uint64_t bytes) {
    if (beyond_limit(size + bytes)) return EFBIG;
    int error;
    do {
        error = posix_fallocate(fd, (off_t)size, (off_t)bytes);
    } while (error == EINTR);
    return error;
}

/* Brings reserved pages into memory by writing zeros. The kernel takes each piece as one large folio and maps it whole
 * at its first fault, where the stores alone would take a fault a page: 1 against 5 us a page on ext4, Linux 6.18.
 * Larger folios would lie across page tables, as a stream's addresses and places in the file are not aligned alike,
 * and such ones are mapped page by page. Where it fails, the stores do it. */
static void file_warm(int fd, uint64_t offset, uint64_t bytes) {
    enum { FOLIO = 1 << 16 };
    static const char zeros[FOLIO];
    for (uint64_t end = offset + bytes, size; offset < end; offset += size) {
        size = FOLIO - offset % FOLIO;
        if (size > end - offset) size = end - offset;
        if (pwrite(fd, zeros, size, (off_t)offset) != (ssize_t)size) return;
    }
}

/* Reserves `pages` at the file's end, on the disk as well: a sparse file on a full disk would kill the program
 * with SIGBUS at some later store. */
static bool file_extend(struct weft_record *record, uint32_t pages, uint64_t *offset) {
    uint64_t bytes = (uint64_t)pages * WEFT_PAGE;
    int error = file_reserve(record->fd, record->file_size, bytes);
    if (error) {
        weft_record_stop(record, error == ENOSPC || error == EDQUOT || error == EFBIG ? WEFT_STOP_DISK_FULL
                                                                                      : WEFT_STOP_IO_ERROR);
        return false;
    }
    *offset = record->file_size;
    record->file_size += bytes;
    file_warm(record->fd, *offset, bytes);
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

bool weft_stream_grow(struct weft_stream *stream, uint64_t bytes) {
    struct weft_record *record = stream->record;
    pthread_mutex_lock(&record->lock);
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
    int error = file_reserve(record->fd, 0, WEFT_PAGE);
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
    if (kind < WEFT_STREAM_EVENTS || kind > WEFT_STREAM_CONTENTS || kind == WEFT_STREAM_TABLE || thread < 0 ||
        thread > 0xffff)
        return -1;
    struct weft_stream *stream = synthetic_stream(record, kind, thread);
    if (!stream || !weft_stream_fits(stream, n)) return -1;
    memcpy(stream->next, bytes, n);
    stream->next += n;
    weft_stream_publish(stream);
    return 0;
}

void weft_record_free(struct weft_record *record) {
    while (record->synthetic) {
        struct weft_synthetic *next = record->synthetic->next;
        munmap(record->synthetic->stream.base, record->synthetic->stream.reserved);
        free(record->synthetic);
        record->synthetic = next;
    }
    munmap(record->header, WEFT_PAGE);
    close(record->fd);
    pthread_mutex_destroy(&record->lock);
    free(record);
}
