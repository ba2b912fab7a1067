/* rows.c as Python calls it. */
#ifndef WEFT_ROWS_H
#define WEFT_ROWS_H

#include "ops.h"

enum weft_part_place {
    PART_COUNT = 0,
    PART_PEER = 1,
    PART_TAG = 2,
    PART_COMM = 3,
    PART_DATATYPE = 4,
    PART_OBJECT = 5,
    PART_FLAG = 6,
    PART_STATUS = 7,
    PART_BUFFER = 8,
    PART_TAIL = 9,
};

#define PART_SKIP_OPEN 1u /* not there while the call is open */
#define PART_WILD 2u      /* -1, -2 and -3 have names */

#define MAX_STEPS 32 /* of the tail of a function; one with more is unusual */

#define FUNCTION_UNUSUAL 1u /* Python writes its calls */
#define FUNCTION_POLL 2u
#define FUNCTION_FLAG 4u   /* has a LOGICAL in its slot */
#define FUNCTION_STATUS 8u /* has a status in its slot */
#define FUNCTION_FOLDED 32u /* its count says how many equal calls in a row the event stands for */
#define FUNCTION_PROBE 16u /* with a ticket, its tail ends with the ticket of its success */

/* Texts one behind the other; text i is bytes at[i] to at[i + 1]. */
struct weft_texts {
    const char *bytes;
    const uint64_t *at;
};

/* Names of the objects of a class on one rank. What is in `ids` (sorted) has its own, others are prefix and number. */
struct weft_names {
    const int64_t *ids;
    uint64_t count;
    struct weft_texts own;
    uint32_t prefix; /* a text of weft_rows_input.words */
};

struct weft_part {
    uint8_t place, code, handle, bits; /* code: enum weft_code; handle: which of a rank's weft_names */
    int16_t in, out;                   /* steps of the tail, -1 for none */
    uint32_t label, label_out;         /* words: `tag `, or `"tag": ` */
};

struct weft_row_function {
    uint32_t name; /* a word */
    uint8_t bits, entry_steps, steps, parts;
    uint32_t first_step, first_part;
};

struct weft_row_rank {
    const struct weft_event *events;
    const int32_t *threads; /* NULL for one thread */
    const int32_t *slots;
    const uint8_t *const *tails;
    const uint64_t *tail_bytes;
    const struct weft_names *names;
    uint64_t index;
};

struct weft_rows_input {
    const struct weft_row_rank *ranks;
    const int32_t *function_of; /* place of a function id in `functions`, -1 for an unknown one */
    const struct weft_row_function *functions;
    const uint8_t *step_codes;
    const struct weft_part *parts;
    struct weft_texts words, sites, tasks, comms, errors; /* of errors one for each number in a slot */
    /* one each of the rows */
    const int32_t *rank;
    const int64_t *index, *enter, *leave;
    const uint32_t *site, *task, *comm;
    uint32_t json, with_tasks, threaded;
    uint32_t time_width, rank_width, event_width, took_width;
};

/* Writes the rows from `from` to `to` behind each other; returns the first that it did not write, and in `used` the bytes.
 * It stops where `room` ends and where a row is for Python. */
EXPORT uint64_t weft_write_rows(const struct weft_rows_input *input, uint64_t from, uint64_t to, char *buffer,
                                uint64_t room, uint64_t *used);

#endif
