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

/* Read an unsigned varint from an event's tail (its arguments that do not fit the fixed-size slot); past the end every
 * byte is 0. */
static uint64_t read_unsigned(struct reader *reader) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        uint8_t byte = reader->at < reader->end ? reader->tails[reader->at] : 0;
        reader->at++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    return value;
}

/* Read a zigzag varint from an event's tail. */
static int64_t read_signed(struct reader *reader) {
    uint64_t zigzag = read_unsigned(reader);
    return (int64_t)(zigzag >> 1) ^ -(int64_t)(zigzag & 1);
}

/* Skip bytes of an event's tail, at most to its end. */
static void skip_bytes(struct reader *reader, uint64_t byte_count) {
    /* Past the end everything is zero, wherever. */
    reader->at =
        byte_count > reader->end || reader->at + byte_count > reader->end ? reader->end : reader->at + byte_count;
}

/* Read one scalar of an event's tail and return it: addresses become absolute; doubles and strings are skipped and give
 * 0. */
static int64_t read_scalar(struct reader *reader, uint8_t code, uint64_t buffer) {
    switch (code) {
    case WEFT_CODE_DOUBLE: skip_bytes(reader, 8); return 0;
    case WEFT_CODE_STRING: skip_bytes(reader, read_unsigned(reader)); return 0;
    case WEFT_CODE_ADDRESS: return (int64_t)((uint64_t)read_signed(reader) + buffer);
    case WEFT_CODE_INT: return read_signed(reader);
    default: return (int64_t)read_unsigned(reader);
    }
}

/* Read an MPI status from an event's tail and, if wanted, store its fields in a row of a column. */
static void read_status(struct reader *reader, struct weft_column *column, bool is_wanted, uint64_t row) {
    uint64_t head = read_unsigned(reader);
    int64_t fields[4] = {0};
    if (head) {
        fields[0] = read_signed(reader);
        fields[1] = read_signed(reader);
        fields[2] = (int64_t)read_unsigned(reader);
        fields[3] = (int64_t)read_unsigned(reader);
    }
    if (!is_wanted) return;
    column->known[row] = head != 0;
    column->cancelled[row] = head != 0 && ((head - 1) & 1);
    column->values[row] = fields[0];
    column->tag[row] = fields[1];
    column->bytes[row] = fields[2];
    column->error[row] = fields[3];
}

/* Read an array from an event's tail: in the first pass (`is_fill` false) store its length in the column, in the second
 * its elements. */
static void read_array(struct reader *reader, struct weft_column *column, uint64_t event_row, uint64_t buffer,
                       bool is_fill) {
    uint8_t code = column->code & (uint8_t)~WEFT_CODE_ARRAY;
    uint64_t element_count = read_unsigned(reader);
    if (element_count > reader->end) element_count = 0;
    if (column->wanted && !is_fill) column->starts[event_row + 1] = (int64_t)element_count;
    uint64_t first_row = column->wanted && is_fill ? (uint64_t)column->starts[event_row] : 0;
    bool is_written = column->wanted && is_fill;
    int64_t last = 0;
    for (uint64_t k = 0; k < element_count; k++) {
        if (code == WEFT_CODE_STATUS) {
            read_status(reader, column, is_written, first_row + k);
            continue;
        }
        int64_t value = read_scalar(reader, code, buffer);
        if (code == WEFT_CODE_INT) value = last = (int64_t)((uint64_t)last + (uint64_t)value);
        if (is_written) column->values[first_row + k] = value;
    }
}

/* Decode the tails (arguments beyond the fixed-size slot) of many events of one function into columns. `fill` 0:
 * scalars, statuses and array lengths; 1: array elements. */
void weft_decode_columns(const struct weft_columns_input *input, struct weft_column *columns, int fill) {
    for (uint64_t row = 0; row < input->count; row++) {
        const struct weft_event *event = &input->events[input->which[row]];
        bool has_tail = event->flags & WEFT_FLAG_HAS_TAIL;
        struct reader reader = {input->tails, has_tail ? (uint64_t)event->result * WEFT_TAIL_ALIGN : input->tail_bytes,
                                input->tail_bytes};
        if (event->flags & WEFT_FLAG_TICKET) read_unsigned(&reader);
        if (event->count == INT32_MAX) read_signed(&reader);
        bool is_complete = event->flags & WEFT_FLAG_CLOSED && !(input->poll && failed_polls(event));
        uint32_t steps = is_complete || input->steps < input->entry_steps ? input->steps : input->entry_steps;
        for (uint32_t step = 0; step < steps; step++) {
            struct weft_column *column = &columns[step];
            if (column->code & WEFT_CODE_ARRAY) {
                read_array(&reader, column, row, event->buffer, fill);
            } else if (column->code == WEFT_CODE_STATUS) {
                read_status(&reader, column, column->wanted && !fill, row);
            } else {
                int64_t value = read_scalar(&reader, column->code, event->buffer);
                if (column->wanted && !fill) column->values[row] = value;
            }
        }
    }
}
