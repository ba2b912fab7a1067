/* The value trace of one process on disk: drawn here and nowhere else.
 *
 * capture.c writes it, `weft.values` reads it, docs/value-trace.md explains it to people.
 *
 * VERSION RULE. That of native/format.h, for WEFT_VALUES_MAJOR and WEFT_VALUES_MINOR. All integers are little-endian.
 *
 *   offset 0          4096                            used
 *   +-----------------+---------------+---------------+ - - -
 *   | file header     | record        | record        |          records lie one behind the other, each a multiple of
 *   +-----------------+---------------+---------------+ - - -    8 bytes long
 *
 * `used` of the header is raised after a record is whole: whenever the process dies, the first `used` bytes are good.
 */
#ifndef WEFT_VALUE_FORMAT_H
#define WEFT_VALUE_FORMAT_H

#include <stdint.h>

#define WEFT_VALUES_MAGIC "WEFTVALU"
#define WEFT_VALUES_MAJOR 1
#define WEFT_VALUES_MINOR 0
#define WEFT_VALUES_PAGE 4096u
#define WEFT_VALUES_BLOCK 4096u /* elements that have a hash of their own */
#define WEFT_VALUES_DIMS 8u
#define WEFT_VALUES_SMALL 16u /* elements that are kept exactly at every level */

/* How the process came to its end. */
enum weft_values_state {
    WEFT_VALUES_RUNNING = 0, /* or it was killed */
    WEFT_VALUES_EXITED = 1,
    WEFT_VALUES_STOPPED = 2, /* Weft gave up; `reason` says why. The program went on */
};

/* Why Weft gave up. */
enum weft_values_reason {
    WEFT_REASON_NONE = 0,
    WEFT_REASON_DISK = 1,
    WEFT_REASON_LIMIT = 2, /* the trace had grown to `limit` bytes */
    WEFT_REASON_MEMORY = 3,
};

struct weft_values_header {
    char magic[8];
    uint16_t major;
    uint16_t minor;
    uint32_t state; /* enum weft_values_state */
    int32_t rank;   /* as the launcher told it; -1 unknown */
    int32_t size;
    uint32_t pid;
    uint32_t reason; /* enum weft_values_reason */
    uint64_t used;   /* bytes of records */
    uint64_t limit;
    char host[64];
};

/* What a record is. */
enum weft_value_kind {
    WEFT_VALUE_PLACE = 1, /* struct weft_value_place */
    WEFT_VALUE_ENTER = 2, /* struct weft_value_scope: an iteration of a loop, or a region, begins */
    WEFT_VALUE_LEAVE = 3, /* struct weft_value_record alone */
    WEFT_VALUE_PROBE = 4, /* struct weft_value_probe */
    WEFT_VALUE_PROBLEM = 5, /* a text: what a probe could not do */
};

/* How the elements of a probe are kept. */
enum weft_value_form {
    WEFT_FORM_VALUES = 1, /* all of them, in the order of memory */
    WEFT_FORM_CHANGES = 2, /* hashes, u64 n, n numbers of blocks, then the elements of these blocks */
    WEFT_FORM_HASHES = 3, /* u64 for each block */
    WEFT_FORM_STATISTICS = 4, /* struct weft_statistics */
};

/* The beginning of every record.
 *
 *    0      1      2        4       8              16
 *    | kind | form | thread | place | bytes        |
 */
struct weft_value_record {
    uint8_t kind;
    uint8_t form;
    uint16_t thread;
    uint32_t place;
    uint64_t bytes; /* of the record, this head included */
};

/* What a place is. */
enum weft_place_kind {
    WEFT_PLACE_PROBE = 1,
    WEFT_PLACE_LOOP = 2,
    WEFT_PLACE_REGION = 3,
    WEFT_PLACE_ARRAY = 4, /* the name of an array that parts belong to */
    WEFT_PLACE_FINISH = 5, /* of a loop or region of this name */
};

/* A place of the program, before it is first used: name, file, function, each ended by a zero; behind them, where no line
 * was given (the file is then @ and an address of the process), u64 frames, then for each the offset in a module and the module's path ended by a zero. */
struct weft_value_place {
    struct weft_value_record head;
    uint32_t kind; /* enum weft_place_kind */
    uint32_t line;
};

/* An iteration. `instance` counts how often the loop was begun within its own surroundings. */
struct weft_value_scope {
    struct weft_value_record head;
    int64_t index;
    uint32_t instance;
    uint32_t zero;
};

/* Values at a place. `ordinal`: how often this probe was reached before within the innermost iteration; `times`: in all. */
struct weft_value_probe {
    struct weft_value_record head;
    uint64_t times;
    uint64_t count; /* elements */
    uint64_t sum; /* of the hashes of all elements, each with its place in the global array */
    uint32_t ordinal;
    uint32_t array; /* the place that names the global array, 0: these are no part of one */
    uint8_t type; /* as numpy's: i, u, f, c, b */
    uint8_t size; /* bytes of an element */
    uint8_t dims;
    uint8_t order; /* enum weft_order */
    uint32_t terms; /* numbers that were added up, where the program said so; 0 unknown */
    double scale; /* the sum of their magnitudes */
};

/* Follows struct weft_value_probe, `dims` times; `lower` counts from 0. */
struct weft_value_extent {
    int64_t shape;
    int64_t lower;
    int64_t whole; /* of the global array, 0 unknown */
};

struct weft_statistics {
    uint64_t nans;
    double least;
    double greatest;
    double sum;
    double squares;
};

_Static_assert(sizeof(struct weft_values_header) <= WEFT_VALUES_PAGE, "the header fits its page");
_Static_assert(sizeof(struct weft_value_record) == 16, "record layout");
_Static_assert(sizeof(struct weft_value_probe) == 64, "probe layout");

#endif
