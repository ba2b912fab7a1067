/* Writing one process's record: the file, its chunks, its streams. The layout is in format.h.
 *
 * Ownership: a weft_record owns its streams and their mappings until weft_record_close. A stream is written by
 * one thread at a time; chunk allocation is the only shared step and takes a lock (never on the hot path).
 */
#ifndef WEFT_RECORD_H
#define WEFT_RECORD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "format.h"

/* One append-only stream, contiguous in this process's memory: its chunks are mapped one behind the other into a
 * range of addresses that was reserved at its birth. */
struct weft_stream {
    uint8_t *base;            /* start of the reserved range */
    uint8_t *next;            /* first byte not yet written */
    uint8_t *end;             /* end of what is mapped */
    uint8_t *chunk_start;     /* where the newest chunk is mapped */
    volatile uint64_t *used;  /* the newest chunk's `used`, in the file */
    uint64_t reserved;        /* bytes of addresses reserved at base */
    struct weft_record *record;
    struct weft_ring *ring; /* ring.c; NULL: everything is kept */
    uint16_t kind;
    uint16_t thread;
};

struct weft_record {
    int fd;
    struct weft_header *header; /* page 0 of the file, mapped */
    struct weft_chunk *table;   /* table now being filled: header->chunks or a TABLE chunk */
    uint32_t table_used, table_size;
    volatile uint64_t *table_counter; /* `used` of the TABLE chunk being filled, NULL for the header's own */
    uint64_t file_size;
    pthread_mutex_t lock; /* chunk allocation and DEFINITIONS */
    volatile bool stopped;
    uint64_t waited; /* ns that the program has waited for the file system */
    bool impatient; /* stop where that is more than recording may cost: see weft_record_hurry */
    uint64_t keep; /* ns of calls to keep, 0: all */
    struct weft_before_of *befores; /* ring.c: what each thread's rings have dropped */
    struct weft_synthetic *synthetic; /* streams that weft_record_append opened */
};

struct weft_synthetic {
    struct weft_stream stream;
    struct weft_synthetic *next;
};

uint64_t weft_now_monotonic(void);
uint64_t weft_ticks_slow(int clock);
int weft_clock_choose(void); /* enum weft_clock of this machine */

/* Read the event clock, in ticks. Inline, since each recorded call reads it twice. */
WEFT_INLINE uint64_t weft_ticks(int clock) {
#if defined(__x86_64__)
    if (clock == WEFT_CLOCK_TSC) return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (clock == WEFT_CLOCK_CNTVCT) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return weft_ticks_slow(clock);
}

/* Keeps only the calls of about the last `ns` of each thread from here on; before any stream is opened. */
void weft_record_keep(struct weft_record *record, uint64_t ns);
/* From here on recording stops once the program has waited for the file system for longer than recording may cost. */
void weft_record_hurry(struct weft_record *record);
/* Opens a new record; NULL with errno set when the file cannot be made. */
struct weft_record *weft_record_create(const char *path, int level, int rank, int world_size);
void weft_record_anchor(struct weft_record *record, struct weft_anchor *anchor);
/* Marks the record as ended in `state` and cuts unused space off the file's end. What threads that still run
 * inside MPI have open stays patchable. */
void weft_record_close(struct weft_record *record, int state);
/* Stops recording for good; safe to call twice. The first reason is kept. */
void weft_record_stop(struct weft_record *record, int reason);

/* Gives `stream` its address range and first chunk. False when recording had to stop. */
bool weft_stream_open(struct weft_record *record, struct weft_stream *stream, int kind, int thread);
/* Maps more space until `bytes` more fit behind next. False when recording had to stop. */
bool weft_stream_grow(struct weft_stream *stream, uint64_t bytes);

WEFT_INLINE bool weft_stream_fits(struct weft_stream *stream, uint64_t bytes) {
    return __builtin_expect((uint64_t)(stream->end - stream->next) >= bytes, 1) || weft_stream_grow(stream, bytes);
}

/* Makes everything before next part of the record. Space may have been added for an item that then needed less: then
 * next is still in an older chunk, which counts as full already. */
WEFT_INLINE void weft_stream_publish(struct weft_stream *stream) {
    int64_t used = stream->next - stream->chunk_start;
    __atomic_store_n(stream->used, used > 0 ? (uint64_t)used : 0, __ATOMIC_RELEASE);
}

/* For synthetic records: appends whole bytes to the stream (kind, thread), opening it where needed. 0 or -1. */
int weft_record_append(struct weft_record *record, int kind, int thread, const void *bytes, uint64_t byte_count);

/* For synthetic records, after weft_record_close: gives back the mappings, the file handle and the memory. The shim
 * never does: a thread may still be inside a call when the process ends. */
void weft_record_free(struct weft_record *record);

/* Write an unsigned LEB128 varint and return the byte after it. The caller has ensured 10 bytes of space. */
WEFT_INLINE uint8_t *weft_put_u(uint8_t *bytes, uint64_t value) {
    while (value >= 0x80) {
        *bytes++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *bytes++ = (uint8_t)value;
    return bytes;
}

WEFT_INLINE uint8_t *weft_put_z(uint8_t *p, int64_t value) {
    return weft_put_u(p, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

#endif
