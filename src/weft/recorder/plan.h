/* What a replay follows, one file a rank, written by weft.replay.plan before the run starts, and the page of memory
 * through which `weft replay` and a rank speak while it runs. weft/replay/layout.py mirrors both (a test compares).
 *
 *   | header | function kinds | canonical ids | worlds | thread table | entries | posts | values | times | turns |
 *
 * All offsets count from the file's start, in bytes, and are multiples of 8. Native byte order.
 */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include <stdint.h>

#define WEFT_PLAN_MAGIC 0x316e616c70746677u /* "wftplan1" */

struct weft_plan_header {
    uint64_t magic;
    uint32_t size;      /* bytes of the file */
    uint32_t functions; /* ids below it have a kind */
    uint32_t threads;
    uint32_t flags;     /* WEFT_PLAN_* */
    uint64_t kinds;     /* offset of one byte a function */
    uint64_t canonical; /* offset of one uint16 a function: equal for a function and its large-count form */
    uint64_t table;     /* offset of the threads */
    uint64_t worlds; /* offset of one int32 a world that the process spawns, in order: the record's index of its first
                           rank; -1: not known, it runs freely */
    uint32_t world_count;
    uint32_t pad;
};

#define WEFT_PLAN_CHECKED 1u /* entries hold every call that communicates, so that calls are held against them */
#define WEFT_PLAN_OPEN 2u /* the record ends before the program did: behind its end the run is free */
#define WEFT_PLAN_BOUNDED 4u /* ranks may be stopped: sends must not need receivers that are never started */
#define WEFT_PLAN_TURNS 8u /* ranks take turns at windows, by a file that all map */

/* What is to be compared of a function's calls. */
#define WEFT_CHECK_CALL 0x01u
#define WEFT_CHECK_COMM 0x02u
#define WEFT_CHECK_PEER 0x04u
#define WEFT_CHECK_TAG 0x08u
#define WEFT_CHECK_COUNT 0x10u
#define WEFT_CHECK_TYPE 0x20u
#define WEFT_CHECK_OBJECT 0x40u
#define WEFT_CHECK_POLL 0x80u /* may be asked again and again: compared when it is answered */

struct weft_plan_thread {
    uint64_t entries, entry_count;
    uint64_t posts, post_count; /* int32: the source of each wildcard receive, in order of posting */
    uint64_t values, value_count; /* int32: outcomes, see weft_plan_entry */
    uint64_t times, time_count; /* bytes: struct weft_plan_clock of each event, behind it the other times of its fold */
    uint64_t turns, turn_count; /* struct weft_plan_turn, by ordinal */
    uint32_t made; /* ordinal of the thread's creation in its process, 0 for the main one */
    uint32_t pad;
};

#define WEFT_POSTED_FREE (-1) /* the record does not tell: stays a wildcard */
#define WEFT_POSTED_NEVER (-2) /* it never took a message */

/* What an event of MPI_Wtime gave. */
struct weft_plan_clock {
    uint32_t first[2]; /* the bits of a double */
    uint32_t more; /* calls after the first: so many times follow, as times.h has them */
};

/* What was decided by a call. */
enum weft_outcome {
    WEFT_OUTCOME_NONE = 0,
    WEFT_OUTCOME_DONE = 1, /* Test, Testall, Request_get_status, a probe of a named source: true */
    WEFT_OUTCOME_INDEX = 2, /* Waitany, Testany: index, -1 for MPI_UNDEFINED */
    WEFT_OUTCOME_COUNT = 3, /* Waitsome, Testsome: outcount (-1 for MPI_UNDEFINED), then the indices */
    WEFT_OUTCOME_SOURCE = 4, /* a probe of any source: the source */
    WEFT_OUTCOME_CANCEL = 5, /* MPI_Cancel: 1 it was cancelled, 0 it was not, -1 not known */
};

#define WEFT_ENTRY_ANY_SOURCE 1u
#define WEFT_ENTRY_ANY_TAG 2u
#define WEFT_ENTRY_OPEN 4u /* the call never returned */
#define WEFT_ENTRY_FAILED 8u /* it gave an error: nothing is decided for it */
#define WEFT_ENTRY_GUESSED 16u /* its object is a guess: several sends had one handle */

struct weft_plan_entry {
    uint16_t function; /* canonical id */
    uint8_t outcome; /* enum weft_outcome */
    uint8_t flags; /* WEFT_ENTRY_* */
    int32_t peer, tag, count;
    uint32_t comm, datatype, object;
    uint32_t polls; /* how many polls failed before it, since the entry before */
    uint32_t value; /* its first value */
    uint32_t event; /* index among the thread's events in the record */
    uint32_t turn; /* place of its post among those of all threads of the process, from 1 on; 0: no matter */
};

/* A lock or an atomic access of a window. Those of one channel (a place in a window, the lock of a target) take turns:
 * what changes waits for all that come before, what reads waits for what changes before it. */
struct weft_plan_turn {
    uint64_t result; /* of a fetch */
    uint32_t ordinal; /* among the thread's locks and atomic accesses; several rows of one: MPI_Win_lock_all */
    uint32_t channel;
    uint32_t needed; /* how many must have been there before */
    uint8_t kind; /* enum weft_turn */
    uint8_t bytes; /* of the result, 0: none is known */
    uint16_t pad;
};

/* What a lock or an atomic access does to its channel. */
enum weft_turn {
    WEFT_TURN_NONE = 0,
    WEFT_TURN_READS = 1,
    WEFT_TURN_CHANGES = 2,
};

struct weft_plan_channel {
    volatile uint32_t all, changes; /* turns that were taken */
};

/* ---- the page that both sides see ---- */
#define WEFT_CONTROL_MAGIC 0x316c7274636674ffu
#define WEFT_CONTROL_THREADS 32
#define WEFT_GOAL_NONE UINT64_MAX

/* How far a rank is. */
enum weft_control_state {
    WEFT_CONTROL_NEW = 0,
    WEFT_CONTROL_RUNNING = 1,
    WEFT_CONTROL_DIVERGED = 2,
    WEFT_CONTROL_ENDED = 3, /* MPI_Finalize was reached */
    WEFT_CONTROL_REFUSED = 4, /* the plan could not be used */
};

/* Why a rank does not follow its record. */
enum weft_divergence {
    WEFT_DIVERGED_CALL = 1, /* another function */
    WEFT_DIVERGED_ARGUMENT = 2, /* the same with another argument: `field` */
    WEFT_DIVERGED_END = 3, /* a call behind the end of a whole record */
    WEFT_DIVERGED_OUTCOME = 4, /* level outcomes: the next outcome is of another kind */
    WEFT_DIVERGED_THREAD = 5, /* a thread that the record does not have */
};

struct weft_control_thread {
    volatile uint64_t goal; /* entries to pass; then park */
    volatile uint64_t at; /* entries passed */
    volatile uint32_t parked;
    volatile uint32_t behind; /* past the end of an open record: calls made there, 1 at least */
    volatile uint32_t polling; /* polls beyond the recorded number: waits for something that is not MPI */
    volatile uint32_t tid;
    volatile uint32_t goal_polls; /* at the goal: failed polls that still go before it parks */
    volatile uint32_t free_polls; /* behind the record, since the last call that is no poll */
    volatile uint32_t waits; /* inside a poll that is to succeed: it waits for what answers it */
    uint32_t pad;
};

struct weft_control {
    uint64_t magic;
    volatile uint32_t state;
    volatile int32_t pid;
    volatile uint32_t ended; /* set by the other side: parked threads leave the process */
    volatile uint32_t threads;
    struct {
        volatile uint32_t why, thread, field, function;
        volatile uint64_t at;
        volatile int64_t expected, got;
    } diverged;
    struct weft_control_thread thread[WEFT_CONTROL_THREADS];
};

_Static_assert(sizeof(struct weft_plan_header) == 64, "plan header layout");
_Static_assert(sizeof(struct weft_plan_thread) == 88, "plan thread layout");
_Static_assert(sizeof(struct weft_plan_clock) == 12, "plan clock layout");
_Static_assert(sizeof(struct weft_plan_entry) == 44, "plan entry layout");
_Static_assert(sizeof(struct weft_plan_turn) == 24, "plan turn layout");
_Static_assert(sizeof(struct weft_plan_channel) == 8, "plan channel layout");
_Static_assert(sizeof(struct weft_control_thread) == 48, "control thread layout");
_Static_assert(sizeof(struct weft_control) <= 4096, "control fits one page");

#endif
