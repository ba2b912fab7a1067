/* Tails of many events of one function, decoded column by column (the layout of tails: ../format.h).
 *
 * Called twice: `fill` 0 writes scalars, statuses and the length of each array (behind the place of its start), `fill` 1
 * the elements of arrays, which begin at `starts`. Reads past the end of the stream give zeros, and an array that is longer
 * than the stream has bytes is damage and counts as empty.
 */
#include "columns.h"
#include "ops.h"

struct reader {
    const uint8_t *tails;
    uint64_t at, end;
};

static uint64_t read_u(struct reader *r) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        uint8_t byte = r->at < r->end ? r->tails[r->at] : 0;
        r->at++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    return value;
}

static int64_t read_z(struct reader *r) {
    uint64_t u = read_u(r);
    return (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
}

static void skip(struct reader *r, uint64_t bytes) {
    /* Past the end everything is zero, wherever. */
    r->at = bytes > r->end || r->at + bytes > r->end ? r->end : r->at + bytes;
}

static int64_t read_scalar(struct reader *r, uint8_t code, uint64_t buffer) {
    switch (code) {
    case WEFT_CODE_DOUBLE: skip(r, 8); return 0;
    case WEFT_CODE_STRING: skip(r, read_u(r)); return 0;
    case WEFT_CODE_ADDRESS: return (int64_t)((uint64_t)read_z(r) + buffer);
    case WEFT_CODE_INT: return read_z(r);
    default: return (int64_t)read_u(r);
    }
}

static void read_status(struct reader *r, struct weft_column *c, bool write, uint64_t to) {
    uint64_t head = read_u(r);
    int64_t fields[4] = {0};
    if (head) {
        fields[0] = read_z(r);
        fields[1] = read_z(r);
        fields[2] = (int64_t)read_u(r);
        fields[3] = (int64_t)read_u(r);
    }
    if (!write) return;
    c->known[to] = head != 0;
    c->cancelled[to] = head != 0 && ((head - 1) & 1);
    c->values[to] = fields[0];
    c->tag[to] = fields[1];
    c->bytes[to] = fields[2];
    c->error[to] = fields[3];
}

static void read_array(struct reader *r, struct weft_column *c, uint64_t i, uint64_t buffer, bool fill) {
    uint8_t code = c->code & (uint8_t)~WEFT_CODE_ARRAY;
    uint64_t length = read_u(r);
    if (length > r->end) length = 0;
    if (c->wanted && !fill) c->starts[i + 1] = (int64_t)length;
    uint64_t to = c->wanted && fill ? (uint64_t)c->starts[i] : 0;
    bool write = c->wanted && fill;
    int64_t last = 0;
    for (uint64_t k = 0; k < length; k++) {
        if (code == WEFT_CODE_STATUS) {
            read_status(r, c, write, to + k);
            continue;
        }
        int64_t value = read_scalar(r, code, buffer);
        if (code == WEFT_CODE_INT) value = last = (int64_t)((uint64_t)last + (uint64_t)value);
        if (write) c->values[to + k] = value;
    }
}

void weft_columns(const struct weft_columns_input *in, struct weft_column *columns, int fill) {
    for (uint64_t i = 0; i < in->count; i++) {
        const struct weft_event *e = &in->events[in->which[i]];
        bool tailed = e->flags & WEFT_FLAG_HAS_TAIL;
        struct reader r = {in->tails, tailed ? (uint64_t)e->result * WEFT_TAIL_ALIGN : in->tail_bytes, in->tail_bytes};
        if (e->flags & WEFT_FLAG_TICKET) read_u(&r);
        if (e->count == INT32_MAX) read_z(&r);
        bool whole = e->flags & WEFT_FLAG_CLOSED && !(in->poll && failed_polls(e));
        uint32_t steps = whole || in->steps < in->entry_steps ? in->steps : in->entry_steps;
        for (uint32_t s = 0; s < steps; s++) {
            struct weft_column *c = &columns[s];
            if (c->code & WEFT_CODE_ARRAY) {
                read_array(&r, c, i, e->buffer, fill);
            } else if (c->code == WEFT_CODE_STATUS) {
                read_status(&r, c, c->wanted && !fill, i);
            } else {
                int64_t value = read_scalar(&r, c->code, e->buffer);
                if (c->wanted && !fill) c->values[i] = value;
            }
        }
    }
}
