/* One look at all events of a rank, so that analyses touch only the rows that concern them. */
#include "scan.h"
#include "tails.h"

void weft_catalogue(const struct weft_event *events, uint64_t count, uint16_t *function, int64_t *counts,
                    struct weft_catalogue *out) {
    struct weft_catalogue found = {0};
    for (uint64_t i = 0; i < count; i++) {
        const struct weft_event *e = &events[i];
        function[i] = e->function;
        counts[e->function]++;
        found.failed += e->error != 0;
        found.open += !(e->flags & WEFT_FLAG_CLOSED);
        found.changed += (e->flags & WEFT_FLAG_BUFFER_CHANGED) != 0;
    }
    *out = found;
}

void weft_where(const uint16_t *function, uint64_t count, const uint8_t *wanted, int64_t *rows) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        rows[found] = (int64_t)i;
        found += wanted[function[i]];
    }
}

/* ---- arguments that may be wrong ---- */

static bool wrong_peer(const struct weft_rules *in, const struct weft_event *e, uint16_t rules) {
    bool window = rules & RULE_WINDOW;
    uint32_t id = window ? e->object : e->comm;
    int32_t size = id < (window ? in->window_count : in->size_count) ? (window ? in->windows : in->sizes)[id] : -1;
    if (size < 0 || (e->peer >= 0 && e->peer < size)) return false;
    if (e->peer == WEFT_RANK_PROC_NULL && rules & RULE_NOBODY) return false;
    return !(e->peer == WEFT_RANK_ANY_SOURCE && rules & RULE_ANY);
}

/* Whether the buffer in the tail is that of the slot, whose difference is kept, or cannot be read. */
static bool aliased(const struct weft_rules *in, const struct weft_event *e, uint64_t i) {
    if (!e->buffer || e->buffer == WEFT_IN_PLACE || e->count <= 0) return false;
    int32_t thread = in->threads ? in->threads[i] : 0;
    uint64_t start = (uint64_t)e->result * WEFT_TAIL_ALIGN;
    if (!(e->flags & WEFT_FLAG_HAS_TAIL) || start > in->tail_bytes[thread]) return true;
    struct cursor c = {in->tails[thread] + start, in->tails[thread] + in->tail_bytes[thread], false};
    if (e->flags & WEFT_FLAG_TICKET) skip_u(&c);
    if (e->count == INT32_MAX) skip_u(&c);
    const uint8_t *codes = in->codes + in->lead[e->function];
    struct tail unused;
    for (uint8_t k = 0; k < codes[0]; k++) {
        if (codes[1 + k] & WEFT_CODE_ARRAY)
            read_array(&c, codes[1 + k] & (uint8_t)~WEFT_CODE_ARRAY, WEFT_ROLE_SKIP, false, &unused);
        else read_scalar(&c, codes[1 + k], WEFT_ROLE_SKIP, &unused);
    }
    return read_z(&c) == 0 || c.bad;
}

static bool suspect(const struct weft_rules *in, const struct weft_event *e, uint64_t i, uint16_t rules) {
    if (rules & RULE_COUNT && e->count < 0) return true;
    if (rules & RULE_PEER && wrong_peer(in, e, rules)) return true;
    if (rules & RULE_TAG && e->tag < 0 && !(e->tag == WEFT_TAG_ANY && rules & RULE_ANY_TAG)) return true;
    if (rules & RULE_COMM && e->comm == WEFT_ID_NULL) return true;
    if (rules & RULE_TYPE && e->datatype == WEFT_ID_NULL) return true;
    if (rules & RULE_OP && e->tag == (int32_t)WEFT_ID_NULL) return true;
    if (rules & RULE_OBJECT && e->object == WEFT_ID_NULL) return true;
    return rules & RULE_ALIAS && aliased(in, e, i);
}

uint64_t weft_suspects(const struct weft_rules *in, uint64_t *from, int64_t *rows, uint64_t most) {
    uint64_t found = 0, i = *from;
    for (; i < in->count && found < most; i++) {
        uint16_t rules = in->rules[in->events[i].function];
        if (rules && suspect(in, &in->events[i], i, rules)) rows[found++] = (int64_t)i;
    }
    *from = i;
    return found;
}

/* ---- collectives whose members may not agree ---- */

static bool uneven(const struct weft_gathered *in, uint64_t instance) {
    uint64_t first = in->first[instance], end = in->first[instance + 1];
    if ((int64_t)(end - first) < in->members[in->comm[instance]]) return true;
    uint32_t row = in->rows[first];
    const struct weft_event *one = &in->events[in->rank[row]][in->event[row]];
    uint16_t name = in->name[in->function[row]];
    if (in->anyway[in->function[row]] || one->datatype >= WEFT_ID_DYNAMIC) return true;
    for (uint64_t k = first + 1; k < end; k++) {
        row = in->rows[k];
        const struct weft_event *e = &in->events[in->rank[row]][in->event[row]];
        if (in->name[in->function[row]] != name || e->peer != one->peer || e->tag != one->tag) return true;
        if (e->count != one->count || e->datatype != one->datatype) return true;
    }
    return false;
}

uint64_t weft_uneven(const struct weft_gathered *in, int64_t *found) {
    uint64_t count = 0;
    for (uint64_t n = 0; n < in->instances; n++)
        if (uneven(in, n)) found[count++] = (int64_t)n;
    return count;
}
