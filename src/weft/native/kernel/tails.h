/* Reading the tail of one event (the layout of tails: ../format.h) for what matching and requests ask of it.
 *
 * Nothing in a record is believed: offsets and lengths are held against what is there, and a damaged tail ends the
 * reading of that one event. */
#ifndef WEFT_TAILS_H
#define WEFT_TAILS_H

#include <string.h>

#include "ops.h"

struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

/* Read an unsigned varint byte by byte. If it does not end, return 0 and mark the cursor as bad. */
static inline uint64_t read_unsigned_slowly(struct cursor *cursor) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && cursor->p < cursor->end; shift += 7) {
        uint8_t byte = *cursor->p++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    cursor->bad = true;
    return 0;
}

/* Read an unsigned varint. Up to 8 bytes are decoded at once: find the first byte without its high bit, then compact
 * the groups of 7 bits. */
static inline uint64_t read_unsigned(struct cursor *cursor) {
    if (cursor->end - cursor->p < 8) return read_unsigned_slowly(cursor);
    uint64_t word;
    memcpy(&word, cursor->p, 8);
    uint64_t stops = ~word & 0x8080808080808080u;
    if (!stops) return read_unsigned_slowly(cursor);
    cursor->p += (__builtin_ctzll(stops) >> 3) + 1;
    word &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7fu;
    word = (word & 0x7f007f007f007f00u) >> 1 | (word & 0x007f007f007f007fu);
    word = (word & 0x3fff00003fff0000u) >> 2 | (word & 0x00003fff00003fffu);
    return (word & 0x0fffffff00000000u) >> 4 | (word & 0x000000000fffffffu);
}

static inline int64_t read_signed(struct cursor *cursor) {
    uint64_t zigzag = read_unsigned(cursor);
    return (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
}

/* Skip a varint; if it does not end, mark the cursor as bad. */
static inline void skip_varint(struct cursor *cursor) {
    while (cursor->p < cursor->end)
        if (*cursor->p++ < 0x80) return;
    cursor->bad = true;
}

/* Skip bytes; if there are fewer, mark the cursor as bad. */
static inline void skip_bytes(struct cursor *cursor, uint64_t byte_count) {
    if (byte_count > (uint64_t)(cursor->end - cursor->p)) {
        cursor->bad = true;
        return;
    }
    cursor->p += byte_count;
}

struct status {
    bool set, cancelled;
    int32_t source, tag;
};

/* Read an MPI status; `set` is false if the call did not set it or the data is damaged. */
static inline struct status read_status(struct cursor *cursor) {
    struct status status = {0};
    uint64_t head = read_unsigned(cursor);
    if (head == 0 || cursor->bad) return status;
    status.cancelled = (head - 1) & 1;
    status.source = (int32_t)read_signed(cursor);
    status.tag = (int32_t)read_signed(cursor);
    skip_varint(cursor);
    skip_varint(cursor);
    status.set = !cursor->bad;
    return status;
}

/* A part of a tail that is an array: read element by element where it is needed. */
struct span {
    struct cursor at;
    uint64_t count;
};

struct tail {
    int32_t source, recvtag;
    struct status status;
    struct span requests, statuses, indices;
    int64_t index, outcount;
    uint64_t object;
};

/* Read one scalar by its encoding and store it in the tail's field for its parameter's role. */
static inline void read_scalar(struct cursor *cursor, uint8_t code, uint8_t role, struct tail *tail) {
    int64_t value = 0;
    switch (code) {
    case WEFT_CODE_INT:
    case WEFT_CODE_ADDRESS: value = read_signed(cursor); break;
    case WEFT_CODE_HANDLE: value = (int64_t)read_unsigned(cursor); break;
    case WEFT_CODE_STRING: skip_bytes(cursor, read_unsigned(cursor)); return;
    case WEFT_CODE_DOUBLE: skip_bytes(cursor, 8); return;
    case WEFT_CODE_STATUS: {
        struct status status = read_status(cursor);
        if (role == WEFT_ROLE_STATUS) tail->status = status;
        return;
    }
    }
    if (cursor->bad) return;
    switch (role) {
    case WEFT_ROLE_SOURCE: tail->source = (int32_t)value; break;
    case WEFT_ROLE_RECVTAG: tail->recvtag = (int32_t)value; break;
    case WEFT_ROLE_INDEX: tail->index = value; break;
    case WEFT_ROLE_OUTCOUNT: tail->outcount = value; break;
    case WEFT_ROLE_OBJECT: tail->object = (uint64_t)value; break;
    }
}

/* Read an array: store where its elements are in the tail's field for its role, and skip them unless nothing after them
 * is needed (`is_last`). */
static inline void read_array(struct cursor *cursor, uint8_t code, uint8_t role, bool is_last, struct tail *tail) {
    struct span span;
    span.count = read_unsigned(cursor);
    if (span.count > (uint64_t)(cursor->end - cursor->p)) { /* every element takes a byte at least */
        cursor->bad = true;
        return;
    }
    span.at = *cursor;
    if (!is_last) {
        bool is_plain = code != WEFT_CODE_STATUS && code != WEFT_CODE_STRING && code != WEFT_CODE_DOUBLE;
        for (uint64_t i = 0; i < span.count && !cursor->bad; i++) {
            if (is_plain) skip_varint(cursor);
            else read_scalar(cursor, code, WEFT_ROLE_SKIP, tail);
        }
    }
    if (cursor->bad) return;
    if (role == WEFT_ROLE_REQUESTS) tail->requests = span;
    if (role == WEFT_ROLE_STATUSES) tail->statuses = span;
    if (role == WEFT_ROLE_INDICES) tail->indices = span;
}

static inline struct weft_spec find_spec(const struct weft_extract_input *input, const struct weft_event *event) {
    struct weft_spec none = {0};
    return event->function < input->spec_count ? input->specs[event->function] : none;
}

/* Read an event's tail (its arguments beyond the fixed-size slot) up to the parameter with role `last_role`; SKIP: all
 * of it. What is not there keeps a neutral value. */
static inline struct tail read_tail(const struct weft_extract_input *input, uint64_t index, struct weft_spec spec,
                                    uint8_t last_role) {
    const struct weft_event *event = &input->events[index];
    struct tail tail = {.source = WEFT_RANK_PROC_NULL, .index = -1, .outcount = -1};
    if (!(event->flags & WEFT_FLAG_HAS_TAIL)) return tail;
    int32_t thread = input->threads ? input->threads[index] : 0;
    uint64_t start = (uint64_t)event->result * WEFT_TAIL_ALIGN;
    if (start > input->tail_bytes[thread]) return tail;
    struct cursor cursor = {input->tails[thread] + start, input->tails[thread] + input->tail_bytes[thread], false};
    if (event->flags & WEFT_FLAG_TICKET) skip_varint(&cursor);
    if (event->count == INT32_MAX) skip_varint(&cursor);
    const uint8_t *program = input->programs + spec.program;
    int steps = program[0];
    if (event->flags & WEFT_FLAG_CLOSED && !(program[1] & WEFT_PROGRAM_POLL && failed_polls(event)))
        steps += program[1] & (WEFT_PROGRAM_POLL - 1);
    for (int step = 0; step < steps && !cursor.bad; step++) {
        uint8_t code = program[2 + 2 * step], role = program[3 + 2 * step];
        bool is_done = step + 1 == steps || (role == last_role && role != WEFT_ROLE_SKIP);
        if (code & WEFT_CODE_ARRAY) {
            read_array(&cursor, code & (uint8_t)~WEFT_CODE_ARRAY, role, is_done, &tail);
        } else {
            read_scalar(&cursor, code, role, &tail);
        }
        if (is_done) break;
    }
    return tail;
}

#endif
