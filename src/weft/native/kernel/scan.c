/* One look at all events of a rank, so that analyses touch only the rows that concern them. */
#include "scan.h"
#include "tails.h"

/* Count a rank's events by function, and how many failed, are still open, or had their buffer changed. */
void weft_count_events(const struct weft_event *events, uint64_t count, uint16_t *function, int64_t *counts,
                       struct weft_catalogue *out) {
    struct weft_catalogue found = {0};
    for (uint64_t i = 0; i < count; i++) {
        const struct weft_event *event = &events[i];
        function[i] = event->function;
        counts[event->function]++;
        found.failed += event->error != 0;
        found.open += !(event->flags & WEFT_FLAG_CLOSED);
        found.changed += (event->flags & WEFT_FLAG_BUFFER_CHANGED) != 0;
    }
    *out = found;
}

/* List the rows of the events whose function is wanted. Branch-free: each row is written, and overwritten by the next
 * unless wanted. */
void weft_find_function_rows(const uint16_t *function, uint64_t count, const uint8_t *wanted, int64_t *rows) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        rows[found] = (int64_t)i;
        found += wanted[function[i]];
    }
}

/* ---- arguments that may be wrong ---- */

/* Return whether an event's peer is not a valid rank under the rules of its function. */
static bool is_wrong_peer(const struct weft_rules *input, const struct weft_event *event, uint16_t rules) {
    bool is_window = rules & RULE_WINDOW;
    uint32_t id = is_window ? event->object : event->comm;
    int32_t size = id < (is_window ? input->window_count : input->size_count)
                       ? (is_window ? input->windows : input->sizes)[id]
                       : -1;
    if (size < 0 || (event->peer >= 0 && event->peer < size)) return false;
    if (event->peer == WEFT_RANK_PROC_NULL && rules & RULE_NOBODY) return false;
    return !(event->peer == WEFT_RANK_ANY_SOURCE && rules & RULE_ANY);
}

/* Return whether the second buffer of an event (in its tail) equals the first (in its slot), or cannot be read. */
static bool may_buffers_alias(const struct weft_rules *input, const struct weft_event *event, uint64_t index) {
    if (!event->buffer || event->buffer == WEFT_IN_PLACE || event->count <= 0) return false;
    int32_t thread = input->threads ? input->threads[index] : 0;
    uint64_t start = (uint64_t)event->result * WEFT_TAIL_ALIGN;
    if (!(event->flags & WEFT_FLAG_HAS_TAIL) || start > input->tail_bytes[thread]) return true;
    struct cursor cursor = {input->tails[thread] + start, input->tails[thread] + input->tail_bytes[thread], false};
    if (event->flags & WEFT_FLAG_TICKET) skip_varint(&cursor);
    if (event->count == INT32_MAX) skip_varint(&cursor);
    const uint8_t *codes = input->codes + input->lead[event->function];
    struct tail unused;
    for (uint8_t k = 0; k < codes[0]; k++) {
        if (codes[1 + k] & WEFT_CODE_ARRAY)
            read_array(&cursor, codes[1 + k] & (uint8_t)~WEFT_CODE_ARRAY, WEFT_ROLE_SKIP, false, &unused);
        else read_scalar(&cursor, codes[1 + k], WEFT_ROLE_SKIP, &unused);
    }
    return read_signed(&cursor) == 0 || cursor.bad;
}

/* Return whether an event's arguments may break a rule of its function. */
static bool may_break_rules(const struct weft_rules *input, const struct weft_event *event, uint64_t index,
                            uint16_t rules) {
    if (rules & RULE_COUNT && event->count < 0) return true;
    if (rules & RULE_PEER && is_wrong_peer(input, event, rules)) return true;
    if (rules & RULE_TAG && event->tag < 0 && !(event->tag == WEFT_TAG_ANY && rules & RULE_ANY_TAG)) return true;
    if (rules & RULE_COMM && event->comm == WEFT_ID_NULL) return true;
    if (rules & RULE_TYPE && event->datatype == WEFT_ID_NULL) return true;
    if (rules & RULE_OP && event->tag == (int32_t)WEFT_ID_NULL) return true;
    if (rules & RULE_OBJECT && event->object == WEFT_ID_NULL) return true;
    return rules & RULE_ALIAS && may_buffers_alias(input, event, index);
}

/* List events, from `*first` on, whose arguments may break a rule of their function, at most `most`; `*first` moves
 * past them. Return how many. */
uint64_t weft_find_suspects(const struct weft_rules *input, uint64_t *first, int64_t *rows, uint64_t most) {
    uint64_t found = 0, index = *first;
    for (; index < input->count && found < most; index++) {
        uint16_t rules = input->rules[input->events[index].function];
        if (rules && may_break_rules(input, &input->events[index], index, rules)) rows[found++] = (int64_t)index;
    }
    *first = index;
    return found;
}

/* ---- collectives whose members may not agree ---- */

/* Return whether the members of a collective are incomplete or may disagree in function, root, count or datatype. */
static bool may_members_differ(const struct weft_gathered *input, uint64_t instance) {
    uint64_t first = input->first[instance], end = input->first[instance + 1];
    if ((int64_t)(end - first) < input->members[input->comm[instance]]) return true;
    uint32_t row = input->rows[first];
    const struct weft_event *first_event = &input->events[input->rank[row]][input->event[row]];
    uint16_t name = input->name[input->function[row]];
    if (input->anyway[input->function[row]] || first_event->datatype >= WEFT_ID_DYNAMIC) return true;
    for (uint64_t k = first + 1; k < end; k++) {
        row = input->rows[k];
        const struct weft_event *event = &input->events[input->rank[row]][input->event[row]];
        if (input->name[input->function[row]] != name || event->peer != first_event->peer ||
            event->tag != first_event->tag)
            return true;
        if (event->count != first_event->count || event->datatype != first_event->datatype) return true;
    }
    return false;
}

/* List the collectives whose members are incomplete or may disagree. Return how many. */
uint64_t weft_find_uneven_collectives(const struct weft_gathered *input, int64_t *found) {
    uint64_t count = 0;
    for (uint64_t instance = 0; instance < input->instances; instance++)
        if (may_members_differ(input, instance)) found[count++] = (int64_t)instance;
    return count;
}
