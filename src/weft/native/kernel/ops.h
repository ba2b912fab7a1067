/* What the analyses make of a record: operations. extract.c reads them out of the events, match.c pairs them,
 * order.c and races.c ask about them. src/weft/match/functions.py mirrors the enums (a test compares them).
 *
 * An operation names events by their index in the rank's merged order (Rank.events in Python); NONE stands for
 * "did not happen in this record". */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../format.h"

#define EXPORT __attribute__((visibility("default")))
#define NONE UINT32_MAX

/* What a function does, as far as matching goes. */
enum weft_op {
    WEFT_OP_NONE = 0,
    WEFT_OP_SEND = 1,
    WEFT_OP_RECV = 2,
    WEFT_OP_SENDRECV = 3,
    WEFT_OP_PROBE = 4,
    WEFT_OP_MPROBE = 5,
    WEFT_OP_MRECV = 6,
    WEFT_OP_SEND_INIT = 7,
    WEFT_OP_RECV_INIT = 8,
    WEFT_OP_COLL_INIT = 9,
    WEFT_OP_START = 10,
    WEFT_OP_STARTALL = 11,
    WEFT_OP_WAIT = 12,       /* one request: Wait, Test */
    WEFT_OP_WAITALL = 13,    /* Waitall, Testall */
    WEFT_OP_WAITANY = 14,    /* Waitany, Testany */
    WEFT_OP_WAITSOME = 15,   /* Waitsome, Testsome */
    WEFT_OP_GET_STATUS = 16, /* Request_get_status: tells the outcome, keeps the request */
    WEFT_OP_REQUEST_FREE = 17,
    WEFT_OP_COLL = 18,        /* collective over the slot's communicator */
    WEFT_OP_COLL_OBJECT = 19, /* collective over the slot's window or file */
    WEFT_OP_FINALIZE = 20,    /* collective over the world */
    WEFT_OP_CANCEL = 21,
};

/* More about a function. */
#define WEFT_SPEC_NONBLOCKING 0x01u /* makes a request */
#define WEFT_SPEC_SYNCHRONOUS 0x02u
#define WEFT_SPEC_BUFFERED 0x04u
#define WEFT_SPEC_READY 0x08u
#define WEFT_SPEC_PARTITIONED 0x10u
#define WEFT_SPEC_FLAGGED 0x20u     /* did something only when its LOGICAL came out true */
#define WEFT_SPEC_MAKES_OBJECT 0x40u /* the slot's object is a window or file that the call made */
#define WEFT_SPEC_FILE 0x80u        /* that object is a file, else a window */

/* What an operation is like. */
#define WEFT_POST_ANY_SOURCE 0x0001u
#define WEFT_POST_ANY_TAG 0x0002u
#define WEFT_POST_SYNCHRONOUS 0x0004u
#define WEFT_POST_BUFFERED 0x0008u
#define WEFT_POST_READY 0x0010u
#define WEFT_POST_NONBLOCKING 0x0020u
#define WEFT_POST_PERSISTENT 0x0040u
#define WEFT_POST_PARTITIONED 0x0080u
#define WEFT_POST_MATCHED_PROBE 0x0100u /* a receive posted by Mprobe or Improbe */
#define WEFT_POST_HALF 0x0200u          /* one half of a Sendrecv */
#define WEFT_POST_UNDECIDED 0x0400u     /* a wildcard whose outcome the record does not tell */
#define WEFT_POST_FREED 0x0800u         /* its request was freed: the completion is not seen */
#define WEFT_POST_CANCELLED 0x1000u     /* never in a result: cancelled operations drop out */
#define WEFT_POST_INIT 0x2000u          /* collectives: the making of a persistent operation */
#define WEFT_POST_RECALLED 0x4000u      /* MPI_Cancel was called for it */

/* Roles of parameters in a tail. */
enum weft_role {
    WEFT_ROLE_SKIP = 0,
    WEFT_ROLE_SOURCE = 1,
    WEFT_ROLE_RECVTAG = 2,
    WEFT_ROLE_STATUS = 3,
    WEFT_ROLE_REQUESTS = 4,
    WEFT_ROLE_STATUSES = 5,
    WEFT_ROLE_INDICES = 6,
    WEFT_ROLE_INDEX = 7,
    WEFT_ROLE_OUTCOUNT = 8,
    WEFT_ROLE_OBJECT = 9, /* a message, file or window that has no place in the slot */
};

/* How a value in a tail is encoded; ARRAY: a number of them. */
enum weft_code {
    WEFT_CODE_INT = 0,
    WEFT_CODE_ADDRESS = 1,
    WEFT_CODE_HANDLE = 2,
    WEFT_CODE_STRING = 3,
    WEFT_CODE_STATUS = 4,
    WEFT_CODE_DOUBLE = 5,
};
#define WEFT_CODE_ARRAY 0x80u
#define WEFT_PROGRAM_POLL 0x80u /* beside the exit count: those are not there where the poll failed */

/* `program` is an offset into the bytes {entry count, exit count, (code, role) for each of them}. */
struct weft_spec {
    uint8_t op;
    uint8_t flags;
    uint16_t program;
};

/* A send, a receive or a probe. */
struct weft_post {
    uint32_t event;      /* the call that posted it */
    uint32_t args;       /* the call that holds buffer, count and type: Send_init, Mrecv, or the post itself */
    uint32_t completion; /* the call whose return said that it is complete */
    uint32_t decided;    /* receives: the call whose return told the program which message it is */
    int32_t comm;        /* index in trace.communicators */
    int32_t peer;        /* index in trace.ranks of the other side; -1 unknown */
    int32_t tag;
    uint32_t ticket;
    uint16_t flags;
};

/* One rank's part in a collective call. `parent`: the collective of this rank that made the window, the file or the
 * persistent operation, or NONE for a call on the communicator. `ordinal` counts on that parent or communicator. */
struct weft_coll {
    uint32_t event;
    uint32_t completion;
    int32_t comm;
    uint32_t parent;
    uint32_t ordinal;
    uint16_t function;
    uint16_t flags;
};

/* A rank's communicator, indexed by its local id: unified index (-1 none), where its peers begin, how many. */
struct weft_local_comm {
    int32_t index;
    int32_t peer_count;
    int64_t first_peer;
};

/* All that extraction reads of one rank. Borrowed for the call. */
struct weft_extract_input {
    const struct weft_event *events; /* merged */
    uint64_t event_count;
    const int32_t *threads; /* which tails each event refers to; NULL when there is one thread */
    const uint8_t *const *tails;
    const uint64_t *tail_bytes;
    const struct weft_spec *specs;
    uint32_t spec_count;
    const uint8_t *programs;
    const struct weft_local_comm *comms;
    uint32_t comm_count;
    const int32_t *peers;
    int32_t world; /* unified index of this rank's MPI_COMM_WORLD */
};

/* Whether an event of a polling function (Test*, Iprobe, Improbe) stands for polls that failed: they end without the
 * exit part of a tail. */
static inline int failed_polls(const struct weft_event *e) { return !(e->flags & WEFT_FLAG_TRUE) && e->count > 0; }

#endif
