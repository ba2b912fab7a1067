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

static inline uint64_t read_u_slowly(struct cursor *c) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && c->p < c->end; shift += 7) {
        uint8_t byte = *c->p++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    c->bad = true;
    return 0;
}

/* A varint of up to 8 bytes at once: the bytes up to the first without its high bit, their 7 bits moved together. */
static inline uint64_t read_u(struct cursor *c) {
    if (c->end - c->p < 8) return read_u_slowly(c);
    uint64_t w;
    memcpy(&w, c->p, 8);
    uint64_t stops = ~w & 0x8080808080808080u;
    if (!stops) return read_u_slowly(c);
    c->p += (__builtin_ctzll(stops) >> 3) + 1;
    w &= (stops ^ (stops - 1)) & 0x7f7f7f7f7f7f7f7fu;
    w = (w & 0x7f007f007f007f00u) >> 1 | (w & 0x007f007f007f007fu);
    w = (w & 0x3fff00003fff0000u) >> 2 | (w & 0x00003fff00003fffu);
    return (w & 0x0fffffff00000000u) >> 4 | (w & 0x000000000fffffffu);
}

static inline int64_t read_z(struct cursor *c) {
    uint64_t u = read_u(c);
    return (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
}

static inline void skip_u(struct cursor *c) {
    while (c->p < c->end)
        if (*c->p++ < 0x80) return;
    c->bad = true;
}

static inline void skip_bytes(struct cursor *c, uint64_t n) {
    if (n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        return;
    }
    c->p += n;
}

struct status {
    bool set, cancelled;
    int32_t source, tag;
};

static inline struct status read_status(struct cursor *c) {
    struct status s = {0};
    uint64_t head = read_u(c);
    if (head == 0 || c->bad) return s;
    s.cancelled = (head - 1) & 1;
    s.source = (int32_t)read_z(c);
    s.tag = (int32_t)read_z(c);
    skip_u(c);
    skip_u(c);
    s.set = !c->bad;
    return s;
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

static inline void read_scalar(struct cursor *c, uint8_t code, uint8_t role, struct tail *t) {
    int64_t value = 0;
    switch (code) {
    case WEFT_CODE_INT:
    case WEFT_CODE_ADDRESS: value = read_z(c); break;
    case WEFT_CODE_HANDLE: value = (int64_t)read_u(c); break;
    case WEFT_CODE_STRING: skip_bytes(c, read_u(c)); return;
    case WEFT_CODE_DOUBLE: skip_bytes(c, 8); return;
    case WEFT_CODE_STATUS: {
        struct status s = read_status(c);
        if (role == WEFT_ROLE_STATUS) t->status = s;
        return;
    }
    }
    if (c->bad) return;
    switch (role) {
    case WEFT_ROLE_SOURCE: t->source = (int32_t)value; break;
    case WEFT_ROLE_RECVTAG: t->recvtag = (int32_t)value; break;
    case WEFT_ROLE_INDEX: t->index = value; break;
    case WEFT_ROLE_OUTCOUNT: t->outcount = value; break;
    case WEFT_ROLE_OBJECT: t->object = (uint64_t)value; break;
    }
}

/* `last`: nothing of this tail is read behind it, so its elements need not be passed over. */
static inline void read_array(struct cursor *c, uint8_t code, uint8_t role, bool last, struct tail *t) {
    struct span s;
    s.count = read_u(c);
    if (s.count > (uint64_t)(c->end - c->p)) { /* every element takes a byte at least */
        c->bad = true;
        return;
    }
    s.at = *c;
    if (!last) {
        bool plain = code != WEFT_CODE_STATUS && code != WEFT_CODE_STRING && code != WEFT_CODE_DOUBLE;
        for (uint64_t i = 0; i < s.count && !c->bad; i++) {
            if (plain) skip_u(c);
            else read_scalar(c, code, WEFT_ROLE_SKIP, t);
        }
    }
    if (c->bad) return;
    if (role == WEFT_ROLE_REQUESTS) t->requests = s;
    if (role == WEFT_ROLE_STATUSES) t->statuses = s;
    if (role == WEFT_ROLE_INDICES) t->indices = s;
}

static inline struct weft_spec spec_of(const struct weft_extract_input *in, const struct weft_event *e) {
    struct weft_spec none = {0};
    return e->function < in->spec_count ? in->specs[e->function] : none;
}

/* The tail of event `i`, read up to the parameter of role `last` (SKIP: all of it). */
static inline struct tail read_tail(const struct weft_extract_input *in, uint64_t i, struct weft_spec spec,
                                    uint8_t last) {
    const struct weft_event *e = &in->events[i];
    struct tail t = {.source = WEFT_RANK_PROC_NULL, .index = -1, .outcount = -1};
    if (!(e->flags & WEFT_FLAG_HAS_TAIL)) return t;
    int32_t thread = in->threads ? in->threads[i] : 0;
    uint64_t start = (uint64_t)e->result * WEFT_TAIL_ALIGN;
    if (start > in->tail_bytes[thread]) return t;
    struct cursor c = {in->tails[thread] + start, in->tails[thread] + in->tail_bytes[thread], false};
    if (e->flags & WEFT_FLAG_TICKET) skip_u(&c);
    if (e->count == INT32_MAX) skip_u(&c);
    const uint8_t *program = in->programs + spec.program;
    int steps = program[0];
    if (e->flags & WEFT_FLAG_CLOSED && !(program[1] & WEFT_PROGRAM_POLL && failed_polls(e)))
        steps += program[1] & (WEFT_PROGRAM_POLL - 1);
    for (int k = 0; k < steps && !c.bad; k++) {
        uint8_t code = program[2 + 2 * k], role = program[3 + 2 * k];
        bool done = k + 1 == steps || (role == last && role != WEFT_ROLE_SKIP);
        if (code & WEFT_CODE_ARRAY) {
            read_array(&c, code & (uint8_t)~WEFT_CODE_ARRAY, role, done, &t);
        } else {
            read_scalar(&c, code, role, &t);
        }
        if (done) break;
    }
    return t;
}

#endif
