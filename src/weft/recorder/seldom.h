/* Functions that no loop calls often, some five hundred: written down in a table (seldom_table.c, generated), with one body
 * for all (seldom.c), as a wrapper for each took the compiler half a minute. stubs.S puts the function's place in the
 * table into weft_seldom_at and jumps to weft_record_generic_call, which takes its arguments as words.
 */
#ifndef WEFT_SELDOM_H
#define WEFT_SELDOM_H

#include "wrap.h"

/* Words of arguments: as many as the longest prototype has. All arguments of MPI's functions are integers or addresses, each
 * a register or eight bytes of the stack in the calling conventions of x86-64 and aarch64; words that a function has no
 * argument for are never looked at, only handed on. */
enum { WEFT_WORDS = 14 };

enum weft_place { AT_NONE, AT_BUFFER, AT_COMM, AT_DATATYPE, AT_COUNT, AT_PEER, AT_TAG, AT_TAG_ID, AT_OBJECT, AT_TAIL };
enum weft_form {
    IS_INT,
    IS_RANK,
    IS_TAG,
    IS_LOCK_TYPE,
    IS_ASSERT,
    IS_HANDLE,
    IS_STRING,
    IS_ROOTS_STRING,
    IS_STATUS,
    IS_ADDRESS
};
enum weft_trait {
    POINTED = 1, /* the argument is the address of the value */
    ARRAY = 2,
    WIDE = 4, /* a value has eight bytes, else four */
    ENTRY = 8,
    EXIT = 16, /* parts of the tail that have it */
    OUT = 32,
    FREED = 64, /* a handle that the call frees */
    WEIGHTS = 128,
};
/* Lengths of arrays: the argument of this number, or one of these. */
enum weft_length {
    OF_PEERS = 32,
    OF_ROOTS_PEERS,
    OF_LOCAL,
    OF_INDEGREE,
    OF_OUTDEGREE,
    OF_DIMENSIONS,
    OF_SUM,
    OF_GRAPH_EDGES,
    OF_RANGES,
};
enum weft_watching { NO_WATCH, WATCH_SEND, WATCH_RECEIVE, WATCH_AT_ROOT };
enum weft_manner {
    HAS_TAIL = 1,
    ENQUIRY = 2,
    POSTS = 4,
    RECEIVES = 8,
    GETTER = 16,
    PERSISTENT = 32,
    TAG_ASKED = 64,
    PAIRS = 128, /* sends one message and receives another */
    FOLDED = 256, /* equal calls in a row from one place are one event */
};

struct weft_argument {
    uint8_t place, form, traits, class, length, more;
}; /* `more`: the argument that the length needs beside those before it */
struct weft_seldom {
    uint16_t function, k, first; /* `first`: of its arguments in weft_seldom_arguments */
    uint16_t manners;
    uint8_t n, watching;
    uint8_t fields, request; /* enum weft_status_fields: of its own status, of that of the request that it makes */
    int8_t status, flag, count, comm, root, buffer, amount, datatype; /* numbers of arguments, -1: none */
};

extern WEFT_HIDDEN const struct weft_seldom weft_seldoms[];
extern WEFT_HIDDEN const struct weft_argument weft_seldom_arguments[];
extern WEFT_HIDDEN __thread int weft_seldom_at;

#endif
