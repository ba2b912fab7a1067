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

/* Append text to the output buffer; if it does not fit, write nothing and set `full`. */
static void put(struct out *out, const char *text, size_t length) {
    if ((size_t)(out->end - out->p) < length) {
        out->full = true;
        return;
    }
    memcpy(out->p, text, length);
    out->p += length;
}

#define LITERAL(o, text) put(o, text, sizeof(text) - 1)

static void put_text(struct out *out, const struct weft_texts *texts, uint64_t index) {
    put(out, texts->bytes + texts->at[index], texts->at[index + 1] - texts->at[index]);
}

/* Write a number's decimal digits so that they end just before `end`; return how many. */
static size_t write_digits(char *end, uint64_t value) {
    char *start = end;
    do {
        *--start = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    return (size_t)(end - start);
}

/* Write a number in decimal digits. */
static void put_unsigned(struct out *out, uint64_t value) {
    char text[24];
    size_t n = write_digits(text + sizeof text, value);
    put(out, text + sizeof text - n, n);
}

static void put_signed(struct out *out, int64_t value) {
    if (value < 0) LITERAL(out, "-");
    put_unsigned(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* Write a number as 0x and hexadecimal digits. */
static void put_hex(struct out *out, uint64_t value) {
    char text[24];
    int n = snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
    put(out, text, (size_t)n);
}

/* Append blanks to pad a column of `used` characters to `width`. */
static void put_padding(struct out *out, uint64_t width, uint64_t used) {
    for (; used < width; used++) LITERAL(out, " ");
}

/* Reading a tail */

/* Skip one value of an event's tail (its arguments beyond the fixed-size slot). */
static void skip_value(struct cursor *cursor, uint8_t code) {
    if (code == WEFT_CODE_STATUS) {
        if (read_unsigned(cursor))
            for (int k = 0; k < 4; k++) read_unsigned(cursor);
    } else {
        read_unsigned(cursor);
    }
}

struct tail_view {
    bool there, exited, bad;
    struct cursor at[MAX_STEPS];
    uint64_t ticket, received;
    int64_t count;
};

/* Remember where one parameter's value begins in an event's tail, and skip it. */
static void note_and_skip_parameter(struct tail_view *tail, struct cursor *cursor, uint8_t code, int step) {
    tail->at[step] = *cursor;
    uint64_t value_count = 1;
    if (code & WEFT_CODE_ARRAY) {
        value_count = read_unsigned(cursor);
        if (value_count > (uint64_t)(cursor->end - cursor->p)) cursor->bad = true;
    }
    for (uint64_t k = 0; k < value_count && !cursor->bad; k++) skip_value(cursor, code & (uint8_t)~WEFT_CODE_ARRAY);
}

/* Locate the values of all parameters in an event's tail (its arguments beyond the fixed-size slot); `tail->bad` is set
 * if it is damaged. */
static void read_tail_view(struct tail_view *tail, const struct weft_rows_input *input,
                           const struct weft_row_function *function, const struct weft_event *event,
                           const uint8_t *tails, uint64_t byte_count) {
    tail->there = event->flags & WEFT_FLAG_HAS_TAIL;
    tail->bad = tail->exited = false;
    tail->count = event->count;
    tail->received = tail->there ? 0 : event->result;
    if (!tail->there) return;
    uint64_t start = (uint64_t)event->result * WEFT_TAIL_ALIGN;
    if (start > byte_count) {
        tail->bad = true;
        return;
    }
    struct cursor cursor = {tails + start, tails + byte_count, false};
    if (event->flags & WEFT_FLAG_TICKET) tail->ticket = read_unsigned(&cursor);
    if (event->count == INT32_MAX) tail->count = read_signed(&cursor);
    tail->exited = event->flags & WEFT_FLAG_CLOSED && !(function->bits & FUNCTION_POLL && failed_polls(event));
    int steps = tail->exited ? function->steps : function->entry_steps;
    for (int k = 0; k < steps && !cursor.bad; k++)
        note_and_skip_parameter(tail, &cursor, input->step_codes[function->first_step + (uint32_t)k], k);
    if (tail->exited && function->bits & FUNCTION_STATUS) {
        tail->received = read_unsigned(&cursor);
        if (event->flags & WEFT_FLAG_TICKET && function->bits & FUNCTION_PROBE && cursor.p < cursor.end)
            read_unsigned(&cursor);
    }
    tail->bad = cursor.bad;
}

/* Values */

/* Write the name of an MPI object: its own, or the class prefix and the number. */
static void put_object_name(struct out *out, const struct weft_rows_input *input, const struct weft_names *names,
                            int64_t id) {
    uint64_t low = 0, high = names->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (names->ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    if (low < names->count && names->ids[low] == id) {
        put_text(out, &names->own, low);
        return;
    }
    put_text(out, &input->words, names->prefix);
    put_signed(out, id >= 256 ? id - 256 : id); /* WEFT_ID_DYNAMIC */
    if (input->json) LITERAL(out, "\"");
}

/* Write an MPI status, from its source, tag, byte count and error class, as JSON or text. */
static void put_status(struct out *out, bool is_json, const int64_t fields[4], bool is_cancelled) {
    if (is_json) {
        LITERAL(out, "{\"source\": ");
        put_signed(out, fields[0]);
        LITERAL(out, ", \"tag\": ");
        put_signed(out, fields[1]);
        LITERAL(out, ", \"count\": ");
        put_unsigned(out, (uint64_t)fields[2]);
        if (is_cancelled) LITERAL(out, ", \"cancelled\": true, \"error\": ");
        else LITERAL(out, ", \"cancelled\": false, \"error\": ");
        put_unsigned(out, (uint64_t)fields[3]);
        LITERAL(out, "}");
        return;
    }
    LITERAL(out, "(");
    if (fields[0] != WEFT_RANK_ANY_SOURCE) {
        LITERAL(out, "from ");
        put_signed(out, fields[0]);
        LITERAL(out, ", tag ");
        put_signed(out, fields[1]);
        LITERAL(out, ", ");
    }
    put_unsigned(out, (uint64_t)fields[2]);
    LITERAL(out, " bytes)");
}

/* Write an MPI status that is read from an event's tail. */
static void put_read_status(struct out *out, bool is_json, struct cursor *cursor) {
    uint64_t head = read_unsigned(cursor);
    if (!head) {
        if (is_json) LITERAL(out, "null");
        else LITERAL(out, "None");
        return;
    }
    int64_t fields[4] = {read_signed(cursor), read_signed(cursor)};
    fields[2] = (int64_t)read_unsigned(cursor);
    fields[3] = (int64_t)read_unsigned(cursor);
    put_status(out, is_json, fields, (head - 1) & 1);
}

/* Write a parameter's number by its kind: an object's name, an address, the name of a wildcard, or plain. */
static void put_number(struct out *out, const struct weft_rows_input *input, const struct weft_part *part,
                       const struct weft_names *names, int64_t value) {
    uint8_t code = part->code & (uint8_t)~WEFT_CODE_ARRAY;
    if (code == WEFT_CODE_HANDLE) {
        put_object_name(out, input, &names[part->handle], value);
    } else if (code == WEFT_CODE_ADDRESS) {
        if (input->json) put_unsigned(out, (uint64_t)value);
        else if (value == -1) LITERAL(out, "MPI_IN_PLACE");
        else put_hex(out, (uint64_t)value);
    } else if (!input->json && part->bits & PART_WILD && value < 0 && value >= -3) {
        static const char *const wild[] = {"any", "MPI_PROC_NULL", "MPI_ROOT"};
        put(out, wild[-value - 1], strlen(wild[-value - 1]));
    } else {
        put_signed(out, value);
    }
}

/* Write a parameter's value from an event's tail; text output shows at most 8 elements of an array. */
static void put_tail_value(struct out *out, const struct weft_rows_input *input, const struct weft_part *part,
                           const struct weft_names *names, struct cursor cursor, uint64_t buffer) {
    uint8_t code = part->code & (uint8_t)~WEFT_CODE_ARRAY;
    bool is_array = part->code & WEFT_CODE_ARRAY;
    uint64_t length = is_array ? read_unsigned(&cursor) : 1,
             shown = is_array && !input->json && length > 8 ? 8 : length;
    int64_t last = 0;
    if (is_array) LITERAL(out, "[");
    for (uint64_t k = 0; k < shown && !out->full; k++) {
        if (k) LITERAL(out, ", ");
        if (code == WEFT_CODE_STATUS) {
            put_read_status(out, input->json, &cursor);
            continue;
        }
        int64_t value = code == WEFT_CODE_HANDLE ? (int64_t)read_unsigned(&cursor) : read_signed(&cursor);
        if (code == WEFT_CODE_ADDRESS) value = (int64_t)((uint64_t)value + buffer);
        if (code == WEFT_CODE_INT && is_array) value = last = (int64_t)((uint64_t)last + (uint64_t)value);
        put_number(out, input, part, names, value);
    }
    if (shown < length) {
        LITERAL(out, ", ... ");
        put_unsigned(out, length);
    }
    if (is_array) LITERAL(out, "]");
}

/* Return an event's peer as the program gave it, also if it is an invalid negative rank. */
static int32_t find_raw_peer(const struct weft_event *event) {
    return event->peer < WEFT_RANK_INVALID_BASE ? event->peer - WEFT_RANK_INVALID_BASE : event->peer;
}

/* Return whether an event's fixed-size slot holds an MPI status: the call has one, returned, and completed
 * something. */
static bool has_slot_status(const struct weft_row_function *function, const struct weft_event *event,
                            const struct tail_view *tail) {
    if (!(function->bits & FUNCTION_STATUS) || !(event->flags & WEFT_FLAG_CLOSED)) return false;
    if (function->bits & FUNCTION_FLAG && !(event->flags & WEFT_FLAG_TRUE)) return false;
    return find_raw_peer(event) != WEFT_RANK_ANY_SOURCE || tail->received; /* of a transfer of a file: a count only */
}

/* Write the MPI status from an event's fixed-size slot as JSON, or null. */
static void put_slot_status(struct out *out, const struct weft_row_function *function, const struct weft_event *event,
                            const struct tail_view *tail) {
    if (!has_slot_status(function, event, tail)) {
        LITERAL(out, "null");
        return;
    }
    int64_t fields[4] = {find_raw_peer(event), event->tag, (int64_t)tail->received, 0};
    put_status(out, true, fields, event->flags & WEFT_FLAG_CANCELLED);
}

/* Return the value of a parameter that is stored in the event's fixed-size slot. */
static int64_t find_slot_value(const struct weft_part *part, const struct weft_event *event,
                               const struct tail_view *tail) {
    switch (part->place) {
    case PART_COUNT: return tail->count;
    case PART_PEER: return event->flags & WEFT_FLAG_ANY_SOURCE ? WEFT_RANK_ANY_SOURCE : find_raw_peer(event);
    case PART_TAG: return part->code != WEFT_CODE_HANDLE && event->flags & WEFT_FLAG_ANY_TAG ? -1 : event->tag;
    case PART_COMM: return event->comm;
    case PART_DATATYPE: return event->datatype;
    case PART_OBJECT: return event->object;
    default: return (int64_t)event->buffer;
    }
}

/* Write one parameter, after a comma unless it is the first. */
static void put_parameter(struct out *out, const struct weft_rows_input *input,
                          const struct weft_row_function *function, const struct weft_part *part,
                          const struct weft_names *names, const struct weft_event *event, const struct tail_view *tail,
                          bool *is_first) {
    bool has_entry_value = part->place == PART_TAIL && tail->there && part->in >= 0;
    bool has_exit_value = part->place == PART_TAIL && tail->exited && part->out >= 0;
    if (part->place == PART_TAIL && !has_entry_value && !has_exit_value) return;
    if (part->bits & PART_SKIP_OPEN && !(event->flags & WEFT_FLAG_CLOSED)) return;
    if (!*is_first) LITERAL(out, ", ");
    *is_first = false;
    put_text(out, &input->words, part->label);
    if (part->place == PART_FLAG) {
        if (event->flags & WEFT_FLAG_TRUE) LITERAL(out, "true");
        else LITERAL(out, "false");
    } else if (part->place == PART_STATUS) {
        put_slot_status(out, function, event, tail);
    } else if (part->place != PART_TAIL) {
        put_number(out, input, part, names, find_slot_value(part, event, tail));
    } else {
        put_tail_value(out, input, part, names, tail->at[has_entry_value ? part->in : part->out], event->buffer);
    }
    if (has_entry_value && has_exit_value) {
        LITERAL(out, ", ");
        put_text(out, &input->words, part->label_out);
        put_tail_value(out, input, part, names, tail->at[part->out], event->buffer);
    }
}

/* Write all known parameters of a call in the order of its declaration. */
static void put_parameters(struct out *out, const struct weft_rows_input *input,
                           const struct weft_row_function *function, const struct weft_names *names,
                           const struct weft_event *event, const struct tail_view *tail) {
    bool is_first = true;
    for (uint32_t k = 0; k < function->parts; k++)
        put_parameter(out, input, function, &input->parts[function->first_part + k], names, event, tail, &is_first);
}

/* Rows */

/* Write a call as a line of JSON. */
static void put_json_row(struct out *out, const struct weft_rows_input *input, uint64_t row,
                         const struct weft_row_function *function, const struct weft_row_rank *rank,
                         const struct weft_event *event, const struct tail_view *tail) {
    bool is_open = !(event->flags & WEFT_FLAG_CLOSED);
    int32_t thread = rank->threads ? rank->threads[input->index[row]] : 0;
    LITERAL(out, "{\"rank\": ");
    put_unsigned(out, rank->index);
    LITERAL(out, ", \"index\": ");
    put_signed(out, input->index[row]);
    LITERAL(out, ", \"thread\": ");
    put_signed(out, rank->slots[thread]);
    LITERAL(out, ", \"function\": ");
    put_text(out, &input->words, function->name);
    LITERAL(out, ", \"enter_ns\": ");
    put_signed(out, input->enter[row]);
    LITERAL(out, ", \"exit_ns\": ");
    if (is_open) LITERAL(out, "null, \"open\": true");
    else {
        put_signed(out, input->leave[row]);
        LITERAL(out, ", \"open\": false");
    }
    LITERAL(out, ", \"error\": ");
    put_unsigned(out, event->error);
    LITERAL(out, ", \"comm\": ");
    put_text(out, &input->comms, input->comm[row]);
    LITERAL(out, ", \"args\": {");
    put_parameters(out, input, function, rank->names, event, tail);
    LITERAL(out, "}, \"site\": ");
    put_text(out, &input->sites, input->site[row]);
    if (input->with_tasks) {
        LITERAL(out, ", \"task\": ");
        put_text(out, &input->tasks, input->task[row]);
    }
    if (function->bits & FUNCTION_POLL && !is_open && failed_polls(event)) {
        LITERAL(out, ", \"polls\": ");
        put_signed(out, event->count);
    } else if (function->bits & FUNCTION_FOLDED && event->count > 1) {
        LITERAL(out, ", \"calls\": ");
        put_signed(out, event->count);
    }
    if (tail->there && event->flags & WEFT_FLAG_TICKET) {
        LITERAL(out, ", \"ticket\": ");
        put_unsigned(out, tail->ticket);
    }
    LITERAL(out, "}\n");
}

/* Write a time as seconds with nine decimals so that they end before `end`, and return the length. */
static size_t write_seconds(char *end, int64_t ns) {
    uint64_t value = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    char *start = end;
    for (int k = 0; k < 9; k++, value /= 10) *--start = (char)('0' + value % 10);
    *--start = '.';
    start -= write_digits(start, value);
    if (ns < 0) *--start = '-';
    return (size_t)(end - start);
}

/* Write a duration with three significant digits, as `1.25 ms` (base/words.py's duration()), and return the length. */
static int write_duration(char *text, size_t capacity, int64_t ns) {
    static const struct {
        int64_t ns;
        const char *unit;
    } units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};
    for (int k = 0; k < 3; k++)
        if (ns >= units[k].ns) {
            double value = (double)ns / (double)units[k].ns;
            if ((double)ns < 999.5 * (double)units[k].ns)
                return snprintf(text, capacity, "%.3g %s", value, units[k].unit);
            return snprintf(text, capacity, "%.0f %s", value, units[k].unit);
        }
    return snprintf(text, capacity, "%lld ns", (long long)ns);
}

/* Write what separates a result of a call from what is before it: ` -> ` for the first, `; ` for others. */
static void put_result_separator(struct out *out, bool *is_first) {
    if (*is_first) LITERAL(out, " -> ");
    else LITERAL(out, "; ");
    *is_first = false;
}

/* Write the results of a call: error, flag, status, and so on. */
static void put_results(struct out *out, const struct weft_rows_input *input, const struct weft_row_function *function,
                        const struct weft_event *event, const struct tail_view *tail) {
    bool is_first = true, is_open = !(event->flags & WEFT_FLAG_CLOSED);
    if (event->error) {
        put_result_separator(out, &is_first);
        put_text(out, &input->errors, event->error);
    }
    if (function->bits & FUNCTION_POLL && !is_open && !(event->flags & WEFT_FLAG_TRUE) && event->count > 1) {
        put_result_separator(out, &is_first);
        LITERAL(out, "no, ");
        put_signed(out, event->count);
        LITERAL(out, " times");
    } else if (!is_open && function->bits & FUNCTION_FLAG) {
        put_result_separator(out, &is_first);
        if (event->flags & WEFT_FLAG_TRUE) LITERAL(out, "yes");
        else LITERAL(out, "no");
    }
    if (has_slot_status(function, event, tail) && (find_raw_peer(event) >= 0 || tail->received)) {
        put_result_separator(out, &is_first);
        if (find_raw_peer(event) >= 0) {
            LITERAL(out, "from ");
            put_signed(out, find_raw_peer(event));
            LITERAL(out, ", tag ");
            put_signed(out, event->tag);
            LITERAL(out, ", ");
        }
        put_unsigned(out, tail->received);
        LITERAL(out, " bytes");
    }
    if (event->flags & WEFT_FLAG_CANCELLED) {
        put_result_separator(out, &is_first);
        LITERAL(out, "cancelled");
    }
    if (event->flags & WEFT_FLAG_BUFFER_CHANGED) {
        put_result_separator(out, &is_first);
        LITERAL(out, "the send buffer was changed while it was pending");
    }
    if (function->bits & FUNCTION_FOLDED && event->count > 1) {
        put_result_separator(out, &is_first);
        put_signed(out, event->count);
        LITERAL(out, " calls in a row");
    }
}

/* Write a rank, and its thread if there are several, right-aligned. */
static void put_rank(struct out *out, const struct weft_rows_input *input, uint64_t row,
                     const struct weft_row_rank *rank) {
    char text[24];
    int32_t thread = rank->threads ? rank->threads[input->index[row]] : 0;
    size_t length = input->threaded ? write_digits(text + 24, (uint64_t)(uint32_t)rank->slots[thread]) : 0;
    if (length) text[24 - ++length] = '.';
    length += write_digits(text + 24 - length, rank->index);
    put_padding(out, input->rank_width, length);
    put(out, text + 24 - length, length);
}

/* Write a call as a line of text. */
static void put_text_row(struct out *out, const struct weft_rows_input *input, uint64_t row,
                         const struct weft_row_function *function, const struct weft_row_rank *rank,
                         const struct weft_event *event, const struct tail_view *tail) {
    char text[48], *end = text + sizeof text;
    size_t length = write_seconds(end, input->enter[row]);
    put_padding(out, input->time_width, length);
    put(out, end - length, length);
    LITERAL(out, "  ");
    put_rank(out, input, row, rank);
    LITERAL(out, "  ");
    length = write_digits(end, (uint64_t)input->index[row]);
    put_padding(out, input->event_width, length);
    put(out, end - length, length);
    LITERAL(out, "  ");
    int took = event->flags & WEFT_FLAG_CLOSED
                   ? write_duration(text, sizeof text, input->leave[row] - input->enter[row])
                   : snprintf(text, sizeof text, "still in this call");
    put(out, text, (size_t)took);
    put_padding(out, input->took_width, (uint64_t)took);
    LITERAL(out, "  ");
    put_text(out, &input->sites, input->site[row]);
    LITERAL(out, "  ");
    if (input->with_tasks) {
        put_text(out, &input->tasks, input->task[row]);
        LITERAL(out, "  ");
    }
    put_text(out, &input->words, function->name);
    LITERAL(out, "(");
    put_parameters(out, input, function, rank->names, event, tail);
    LITERAL(out, ")");
    put_results(out, input, function, event, tail);
    LITERAL(out, "\n");
}

/* Write the calls of the rows from .. to - 1 as lines of text or JSON, until the buffer is full or a row needs Python.
 * Return the first row not written. */
uint64_t weft_write_rows(const struct weft_rows_input *input, uint64_t from, uint64_t to, char *buffer, uint64_t room,
                         uint64_t *used) {
    struct out out = {buffer, buffer + room, false};
    uint64_t row = from;
    for (; row < to; row++) {
        const struct weft_row_rank *rank = &input->ranks[input->rank[row]];
        const struct weft_event *event = &rank->events[input->index[row]];
        int32_t function_index = input->function_of[event->function];
        if (function_index < 0 || input->functions[function_index].bits & FUNCTION_UNUSUAL) break;
        const struct weft_row_function *function = &input->functions[function_index];
        int32_t thread = rank->threads ? rank->threads[input->index[row]] : 0;
        struct tail_view tail;
        read_tail_view(&tail, input, function, event, rank->tails[thread], rank->tail_bytes[thread]);
        if (tail.bad) break;
        char *start = out.p;
        if (input->json) put_json_row(&out, input, row, function, rank, event, &tail);
        else put_text_row(&out, input, row, function, rank, event, &tail);
        if (out.full) {
            out.p = start;
            break;
        }
    }
    *used = (uint64_t)(out.p - buffer);
    return row;
}
