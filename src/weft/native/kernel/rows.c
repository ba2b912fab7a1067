/* Calls as rows of text or JSON, for `weft dump`: what terms/call_text.py writes of one event, for a million of them.
 *
 * A function's parameters come as a list of parts (export/call_lines.py makes them). Names of objects and sites come as texts
 * that are ready to be copied. What is rare is not done here: a damaged tail, a string, a double. The kernel stops at
 * such a row, and Python writes it.
 */
#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "tails.h"

struct out {
    char *p, *end;
    bool full;
};

static void put(struct out *o, const char *text, size_t length) {
    if ((size_t)(o->end - o->p) < length) {
        o->full = true;
        return;
    }
    memcpy(o->p, text, length);
    o->p += length;
}

#define LITERAL(o, text) put(o, text, sizeof(text) - 1)

static void put_text(struct out *o, const struct weft_texts *texts, uint64_t i) {
    put(o, texts->bytes + texts->at[i], texts->at[i + 1] - texts->at[i]);
}

static size_t digits(char *end, uint64_t value) {
    char *p = end;
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    return (size_t)(end - p);
}

static void put_u(struct out *o, uint64_t value) {
    char text[24];
    size_t n = digits(text + sizeof text, value);
    put(o, text + sizeof text - n, n);
}

static void put_i(struct out *o, int64_t value) {
    if (value < 0) LITERAL(o, "-");
    put_u(o, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void put_hex(struct out *o, uint64_t value) {
    char text[24];
    int n = snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
    put(o, text, (size_t)n);
}

static void spaces(struct out *o, uint64_t width, uint64_t used) {
    for (; used < width; used++) LITERAL(o, " ");
}

/* Reading a tail */

static void skip_value(struct cursor *c, uint8_t code) {
    if (code == WEFT_CODE_STATUS) {
        if (read_u(c))
            for (int k = 0; k < 4; k++) read_u(c);
    } else {
        read_u(c);
    }
}

struct tail_view {
    bool there, exited, bad;
    struct cursor at[MAX_STEPS];
    uint64_t ticket, received;
    int64_t count;
};

static void walk(struct tail_view *t, struct cursor *c, uint8_t code, int step) {
    t->at[step] = *c;
    uint64_t n = 1;
    if (code & WEFT_CODE_ARRAY) {
        n = read_u(c);
        if (n > (uint64_t)(c->end - c->p)) c->bad = true;
    }
    for (uint64_t k = 0; k < n && !c->bad; k++) skip_value(c, code & (uint8_t)~WEFT_CODE_ARRAY);
}

static void view(struct tail_view *t, const struct weft_rows_input *in, const struct weft_row_function *f,
                 const struct weft_event *e, const uint8_t *tails, uint64_t bytes) {
    t->there = e->flags & WEFT_FLAG_HAS_TAIL;
    t->bad = t->exited = false;
    t->count = e->count;
    t->received = t->there ? 0 : e->result;
    if (!t->there) return;
    uint64_t start = (uint64_t)e->result * WEFT_TAIL_ALIGN;
    if (start > bytes) {
        t->bad = true;
        return;
    }
    struct cursor c = {tails + start, tails + bytes, false};
    if (e->flags & WEFT_FLAG_TICKET) t->ticket = read_u(&c);
    if (e->count == INT32_MAX) t->count = read_z(&c);
    t->exited = e->flags & WEFT_FLAG_CLOSED && !(f->bits & FUNCTION_POLL && failed_polls(e));
    int steps = t->exited ? f->steps : f->entry_steps;
    for (int k = 0; k < steps && !c.bad; k++) walk(t, &c, in->step_codes[f->first_step + (uint32_t)k], k);
    if (t->exited && f->bits & FUNCTION_STATUS) {
        t->received = read_u(&c);
        if (e->flags & WEFT_FLAG_TICKET && f->bits & FUNCTION_PROBE && c.p < c.end) read_u(&c);
    }
    t->bad = c.bad;
}

/* Values */

static void put_name(struct out *o, const struct weft_rows_input *in, const struct weft_names *names, int64_t id) {
    uint64_t low = 0, high = names->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (names->ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    if (low < names->count && names->ids[low] == id) {
        put_text(o, &names->own, low);
        return;
    }
    put_text(o, &in->words, names->prefix);
    put_i(o, id >= 256 ? id - 256 : id); /* WEFT_ID_DYNAMIC */
    if (in->json) LITERAL(o, "\"");
}

static void put_status(struct out *o, bool json, const int64_t f[4], bool cancelled) {
    if (json) {
        LITERAL(o, "{\"source\": ");
        put_i(o, f[0]);
        LITERAL(o, ", \"tag\": ");
        put_i(o, f[1]);
        LITERAL(o, ", \"count\": ");
        put_u(o, (uint64_t)f[2]);
        if (cancelled) LITERAL(o, ", \"cancelled\": true, \"error\": ");
        else LITERAL(o, ", \"cancelled\": false, \"error\": ");
        put_u(o, (uint64_t)f[3]);
        LITERAL(o, "}");
        return;
    }
    LITERAL(o, "(");
    if (f[0] != WEFT_RANK_ANY_SOURCE) {
        LITERAL(o, "from ");
        put_i(o, f[0]);
        LITERAL(o, ", tag ");
        put_i(o, f[1]);
        LITERAL(o, ", ");
    }
    put_u(o, (uint64_t)f[2]);
    LITERAL(o, " bytes)");
}

static void put_read_status(struct out *o, bool json, struct cursor *c) {
    uint64_t head = read_u(c);
    if (!head) {
        if (json) LITERAL(o, "null");
        else LITERAL(o, "None");
        return;
    }
    int64_t f[4] = {read_z(c), read_z(c)};
    f[2] = (int64_t)read_u(c);
    f[3] = (int64_t)read_u(c);
    put_status(o, json, f, (head - 1) & 1);
}

static void put_number(struct out *o, const struct weft_rows_input *in, const struct weft_part *part,
                       const struct weft_names *names, int64_t value) {
    uint8_t code = part->code & (uint8_t)~WEFT_CODE_ARRAY;
    if (code == WEFT_CODE_HANDLE) {
        put_name(o, in, &names[part->handle], value);
    } else if (code == WEFT_CODE_ADDRESS) {
        if (in->json) put_u(o, (uint64_t)value);
        else if (value == -1) LITERAL(o, "MPI_IN_PLACE");
        else put_hex(o, (uint64_t)value);
    } else if (!in->json && part->bits & PART_WILD && value < 0 && value >= -3) {
        static const char *const wild[] = {"any", "MPI_PROC_NULL", "MPI_ROOT"};
        put(o, wild[-value - 1], strlen(wild[-value - 1]));
    } else {
        put_i(o, value);
    }
}

static void put_tail_value(struct out *o, const struct weft_rows_input *in, const struct weft_part *part,
                           const struct weft_names *names, struct cursor c, uint64_t buffer) {
    uint8_t code = part->code & (uint8_t)~WEFT_CODE_ARRAY;
    bool array = part->code & WEFT_CODE_ARRAY;
    uint64_t n = array ? read_u(&c) : 1, shown = array && !in->json && n > 8 ? 8 : n;
    int64_t last = 0;
    if (array) LITERAL(o, "[");
    for (uint64_t k = 0; k < shown && !o->full; k++) {
        if (k) LITERAL(o, ", ");
        if (code == WEFT_CODE_STATUS) {
            put_read_status(o, in->json, &c);
            continue;
        }
        int64_t value = code == WEFT_CODE_HANDLE ? (int64_t)read_u(&c) : read_z(&c);
        if (code == WEFT_CODE_ADDRESS) value = (int64_t)((uint64_t)value + buffer);
        if (code == WEFT_CODE_INT && array) value = last = (int64_t)((uint64_t)last + (uint64_t)value);
        put_number(o, in, part, names, value);
    }
    if (shown < n) {
        LITERAL(o, ", ... ");
        put_u(o, n);
    }
    if (array) LITERAL(o, "]");
}

static int32_t raw_peer(const struct weft_event *e) {
    return e->peer < WEFT_RANK_INVALID_BASE ? e->peer - WEFT_RANK_INVALID_BASE : e->peer;
}

static bool has_status(const struct weft_row_function *f, const struct weft_event *e, const struct tail_view *t) {
    if (!(f->bits & FUNCTION_STATUS) || !(e->flags & WEFT_FLAG_CLOSED)) return false;
    if (f->bits & FUNCTION_FLAG && !(e->flags & WEFT_FLAG_TRUE)) return false;
    return raw_peer(e) != WEFT_RANK_ANY_SOURCE || t->received; /* of a transfer of a file: a count only */
}

static void put_slot_status(struct out *o, const struct weft_row_function *f, const struct weft_event *e,
                            const struct tail_view *t) {
    if (!has_status(f, e, t)) {
        LITERAL(o, "null");
        return;
    }
    int64_t fields[4] = {raw_peer(e), e->tag, (int64_t)t->received, 0};
    put_status(o, true, fields, e->flags & WEFT_FLAG_CANCELLED);
}

static int64_t slot_value(const struct weft_part *part, const struct weft_event *e, const struct tail_view *t) {
    switch (part->place) {
    case PART_COUNT: return t->count;
    case PART_PEER: return e->flags & WEFT_FLAG_ANY_SOURCE ? WEFT_RANK_ANY_SOURCE : raw_peer(e);
    case PART_TAG: return part->code != WEFT_CODE_HANDLE && e->flags & WEFT_FLAG_ANY_TAG ? -1 : e->tag;
    case PART_COMM: return e->comm;
    case PART_DATATYPE: return e->datatype;
    case PART_OBJECT: return e->object;
    default: return (int64_t)e->buffer;
    }
}

/* One parameter: in text without its comma, which `first` decides. */
static void put_part(struct out *o, const struct weft_rows_input *in, const struct weft_row_function *f,
                     const struct weft_part *part, const struct weft_names *names, const struct weft_event *e,
                     const struct tail_view *t, bool *first) {
    bool tail_in = part->place == PART_TAIL && t->there && part->in >= 0;
    bool tail_out = part->place == PART_TAIL && t->exited && part->out >= 0;
    if (part->place == PART_TAIL && !tail_in && !tail_out) return;
    if (part->bits & PART_SKIP_OPEN && !(e->flags & WEFT_FLAG_CLOSED)) return;
    if (!*first) LITERAL(o, ", ");
    *first = false;
    put_text(o, &in->words, part->label);
    if (part->place == PART_FLAG) {
        if (e->flags & WEFT_FLAG_TRUE) LITERAL(o, "true");
        else LITERAL(o, "false");
    } else if (part->place == PART_STATUS) {
        put_slot_status(o, f, e, t);
    } else if (part->place != PART_TAIL) {
        put_number(o, in, part, names, slot_value(part, e, t));
    } else {
        put_tail_value(o, in, part, names, t->at[tail_in ? part->in : part->out], e->buffer);
    }
    if (tail_in && tail_out) {
        LITERAL(o, ", ");
        put_text(o, &in->words, part->label_out);
        put_tail_value(o, in, part, names, t->at[part->out], e->buffer);
    }
}

static void put_parts(struct out *o, const struct weft_rows_input *in, const struct weft_row_function *f,
                      const struct weft_names *names, const struct weft_event *e, const struct tail_view *t) {
    bool first = true;
    for (uint32_t k = 0; k < f->parts; k++) put_part(o, in, f, &in->parts[f->first_part + k], names, e, t, &first);
}

/* Rows */

static void put_json(struct out *o, const struct weft_rows_input *in, uint64_t row, const struct weft_row_function *f,
                     const struct weft_row_rank *rank, const struct weft_event *e, const struct tail_view *t) {
    bool open = !(e->flags & WEFT_FLAG_CLOSED);
    int32_t thread = rank->threads ? rank->threads[in->index[row]] : 0;
    LITERAL(o, "{\"rank\": ");
    put_u(o, rank->index);
    LITERAL(o, ", \"index\": ");
    put_i(o, in->index[row]);
    LITERAL(o, ", \"thread\": ");
    put_i(o, rank->slots[thread]);
    LITERAL(o, ", \"function\": ");
    put_text(o, &in->words, f->name);
    LITERAL(o, ", \"enter_ns\": ");
    put_i(o, in->enter[row]);
    LITERAL(o, ", \"exit_ns\": ");
    if (open) LITERAL(o, "null, \"open\": true");
    else {
        put_i(o, in->leave[row]);
        LITERAL(o, ", \"open\": false");
    }
    LITERAL(o, ", \"error\": ");
    put_u(o, e->error);
    LITERAL(o, ", \"comm\": ");
    put_text(o, &in->comms, in->comm[row]);
    LITERAL(o, ", \"args\": {");
    put_parts(o, in, f, rank->names, e, t);
    LITERAL(o, "}, \"site\": ");
    put_text(o, &in->sites, in->site[row]);
    if (in->with_tasks) {
        LITERAL(o, ", \"task\": ");
        put_text(o, &in->tasks, in->task[row]);
    }
    if (f->bits & FUNCTION_POLL && !open && failed_polls(e)) {
        LITERAL(o, ", \"polls\": ");
        put_i(o, e->count);
    } else if (f->bits & FUNCTION_FOLDED && e->count > 1) {
        LITERAL(o, ", \"calls\": ");
        put_i(o, e->count);
    }
    if (t->there && e->flags & WEFT_FLAG_TICKET) {
        LITERAL(o, ", \"ticket\": ");
        put_u(o, t->ticket);
    }
    LITERAL(o, "}\n");
}

static size_t seconds_text(char *end, int64_t ns) {
    uint64_t value = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    char *p = end;
    for (int k = 0; k < 9; k++, value /= 10) *--p = (char)('0' + value % 10);
    *--p = '.';
    p -= digits(p, value);
    if (ns < 0) *--p = '-';
    return (size_t)(end - p);
}

/* `1.25 ms`, three digits that count: as base/words.py's duration(). */
static int duration_text(char *text, size_t size, int64_t ns) {
    static const struct {
        int64_t size;
        const char *unit;
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};
    for (int k = 0; k < 3; k++)
        if (ns >= units[k].size) {
            double value = (double)ns / (double)units[k].size;
            if ((double)ns < 999.5 * (double)units[k].size)
                return snprintf(text, size, "%.3g %s", value, units[k].unit);
            return snprintf(text, size, "%.0f %s", value, units[k].unit);
        }
    return snprintf(text, size, "%lld ns", (long long)ns);
}

static void result(struct out *o, bool *first) {
    if (*first) LITERAL(o, " -> ");
    else LITERAL(o, "; ");
    *first = false;
}

static void put_results(struct out *o, const struct weft_rows_input *in, const struct weft_row_function *f,
                        const struct weft_event *e, const struct tail_view *t) {
    bool first = true, open = !(e->flags & WEFT_FLAG_CLOSED);
    if (e->error) {
        result(o, &first);
        put_text(o, &in->errors, e->error);
    }
    if (f->bits & FUNCTION_POLL && !open && !(e->flags & WEFT_FLAG_TRUE) && e->count > 1) {
        result(o, &first);
        LITERAL(o, "no, ");
        put_i(o, e->count);
        LITERAL(o, " times");
    } else if (!open && f->bits & FUNCTION_FLAG) {
        result(o, &first);
        if (e->flags & WEFT_FLAG_TRUE) LITERAL(o, "yes");
        else LITERAL(o, "no");
    }
    if (has_status(f, e, t) && (raw_peer(e) >= 0 || t->received)) {
        result(o, &first);
        if (raw_peer(e) >= 0) {
            LITERAL(o, "from ");
            put_i(o, raw_peer(e));
            LITERAL(o, ", tag ");
            put_i(o, e->tag);
            LITERAL(o, ", ");
        }
        put_u(o, t->received);
        LITERAL(o, " bytes");
    }
    if (e->flags & WEFT_FLAG_CANCELLED) {
        result(o, &first);
        LITERAL(o, "cancelled");
    }
    if (e->flags & WEFT_FLAG_BUFFER_CHANGED) {
        result(o, &first);
        LITERAL(o, "the send buffer was changed while it was pending");
    }
    if (f->bits & FUNCTION_FOLDED && e->count > 1) {
        result(o, &first);
        put_i(o, e->count);
        LITERAL(o, " calls in a row");
    }
}

static void put_rank(struct out *o, const struct weft_rows_input *in, uint64_t row, const struct weft_row_rank *rank) {
    char text[24];
    int32_t thread = rank->threads ? rank->threads[in->index[row]] : 0;
    size_t n = in->threaded ? digits(text + 24, (uint64_t)(uint32_t)rank->slots[thread]) : 0;
    if (n) text[24 - ++n] = '.';
    n += digits(text + 24 - n, rank->index);
    spaces(o, in->rank_width, n);
    put(o, text + 24 - n, n);
}

static void put_line(struct out *o, const struct weft_rows_input *in, uint64_t row, const struct weft_row_function *f,
                     const struct weft_row_rank *rank, const struct weft_event *e, const struct tail_view *t) {
    char text[48], *end = text + sizeof text;
    size_t n = seconds_text(end, in->enter[row]);
    spaces(o, in->time_width, n);
    put(o, end - n, n);
    LITERAL(o, "  ");
    put_rank(o, in, row, rank);
    LITERAL(o, "  ");
    n = digits(end, (uint64_t)in->index[row]);
    spaces(o, in->event_width, n);
    put(o, end - n, n);
    LITERAL(o, "  ");
    int took = e->flags & WEFT_FLAG_CLOSED ? duration_text(text, sizeof text, in->leave[row] - in->enter[row])
                                           : snprintf(text, sizeof text, "still in this call");
    put(o, text, (size_t)took);
    spaces(o, in->took_width, (uint64_t)took);
    LITERAL(o, "  ");
    put_text(o, &in->sites, in->site[row]);
    LITERAL(o, "  ");
    if (in->with_tasks) {
        put_text(o, &in->tasks, in->task[row]);
        LITERAL(o, "  ");
    }
    put_text(o, &in->words, f->name);
    LITERAL(o, "(");
    put_parts(o, in, f, rank->names, e, t);
    LITERAL(o, ")");
    put_results(o, in, f, e, t);
    LITERAL(o, "\n");
}

uint64_t weft_rows(const struct weft_rows_input *in, uint64_t from, uint64_t to, char *buffer, uint64_t room,
                   uint64_t *used) {
    struct out o = {buffer, buffer + room, false};
    uint64_t row = from;
    for (; row < to; row++) {
        const struct weft_row_rank *rank = &in->ranks[in->rank[row]];
        const struct weft_event *e = &rank->events[in->index[row]];
        int32_t place = in->function_of[e->function];
        if (place < 0 || in->functions[place].bits & FUNCTION_UNUSUAL) break;
        const struct weft_row_function *f = &in->functions[place];
        int32_t thread = rank->threads ? rank->threads[in->index[row]] : 0;
        struct tail_view t;
        view(&t, in, f, e, rank->tails[thread], rank->tail_bytes[thread]);
        if (t.bad) break;
        char *start = o.p;
        if (in->json) put_json(&o, in, row, f, rank, e, &t);
        else put_line(&o, in, row, f, rank, e, &t);
        if (o.full) {
            o.p = start;
            break;
        }
    }
    *used = (uint64_t)(o.p - buffer);
    return row;
}
