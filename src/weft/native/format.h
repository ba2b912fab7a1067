/* The record of one process on disk: one file a rank, drawn here and nowhere else.
 *
 * The shim writes it, `weft.trace` reads it, `docs/trace-format.md` explains it to people. The reader's
 * numpy dtypes are made of this file when Weft is built (weft.native.generate).
 *
 * VERSION RULE. A reader takes exactly the version that is written here. Nothing was released yet: from the first release
 * on WEFT_FORMAT_MAJOR rises when an old reader would misread a new file, WEFT_FORMAT_MINOR when a field or kind is added,
 * and what a released Weft wrote is still read. All integers are little-endian.
 *
 *   offset 0        4096               ...
 *   +---------------+------------------+------------------+-----
 *   | file header   | chunk            | chunk            | ...     every chunk is a multiple of 4096 bytes
 *   | + chunk table | (stream 0, EVENTS)| (stream 1, TAILS)|        and belongs to one stream
 *   +---------------+------------------+------------------+-----
 *
 * A STREAM is an append-only sequence of bytes; its content is its chunks put one behind the other in the order
 * of the chunk table. Every thread that calls MPI has one stream of EVENTS (56-byte slots) and one of TAILS
 * (what does not fit a slot); a process has one of DEFINITIONS; level `outcomes` has one of OUTCOMES a thread.
 *
 * A chunk's `used` is written after the bytes it counts, so whatever moment the process dies at, the first
 * `used` bytes of each chunk are whole. Nothing but an event slot (patched at the call's exit) is ever changed, and a
 * row of ACCESSES while the program goes on in equal steps.
 */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H

#ifndef WEFT_INLINE /* the recorder has a say in it: recorder/shim.h */
#define WEFT_INLINE static inline
#endif

#include <stddef.h>
#include <stdint.h>

#define WEFT_MAGIC "WEFTRANK"
#define WEFT_FORMAT_MAJOR 1
#define WEFT_FORMAT_MINOR 0
#define WEFT_FORMAT_MAJOR_KEPT 2 /* of `weft run --keep`: a reader of 1 would take a ring for a whole stream */
#define WEFT_PAGE 4096u

/* What a chunk holds. */
enum weft_stream_kind {
    WEFT_STREAM_EVENTS = 1,
    WEFT_STREAM_TAILS = 2,
    WEFT_STREAM_DEFINITIONS = 3,
    WEFT_STREAM_OUTCOMES = 4,
    WEFT_STREAM_TABLE = 5, /* more chunk-table entries: the table continues at this chunk's offset */
    WEFT_STREAM_WINDOWS = 6, /* struct weft_access, one a thread */
    WEFT_STREAM_ACCESSES = 7, /* struct weft_touch, one for each thread of a program that was built with
                                 `weft cc`; numbered on their own, as threads that make no calls have one too */
    WEFT_STREAM_HASHES = 8, /* struct weft_hashed, one a thread, with `weft run --hash-messages` */
    WEFT_STREAM_CONTENTS = 9, /* bytes of the rows of HASHES that have any, one behind the other */
    WEFT_STREAM_BEFORE = 10,  /* a struct weft_before of the thread, and its rows. It has two chunks, which
                                 are no stream: the one with the higher `turn` holds */
    WEFT_STREAM_RECEIVED = 11, /* struct weft_received, a ring of the thread that completed the receives */
};

/* One chunk. `thread` is the ordinal of the thread slot that owns the stream (0 for DEFINITIONS).
 *
 *   0      2        4        8          16         24
 *   | kind | thread | pages  | offset   | used     |
 *
 * `used` counts bytes, for OUTCOMES nibbles. A TABLE entry is always the last of its table. */
struct weft_chunk {
    uint16_t kind;
    uint16_t thread;
    uint32_t pages;  /* size of the chunk in WEFT_PAGE units */
    uint64_t offset; /* of the chunk in the file, bytes */
    uint64_t used;
};

/* RINGS (major 2, `weft run --keep`). EVENTS and TAILS of a thread are rings there: a chunk all of whose calls are older
 * than is to be kept gives its place in the file to the newest one. The `offset` of their chunks holds the chunk's number
 * in its stream above the place in the file,
 *
 *   63      40 39                0
 *   | number  | offset in the file |
 *
 * and their order is that of the numbers, modulo 2^24, from the first that BEFORE says to be there. What was dropped is
 * counted there before a chunk's place is used again, so that a record is whole at any moment. No event lies in two
 * chunks there, and no row of RECEIVED: what is left of one stays empty. Positions in TAILS
 * (`result`) are those in the stream as if nothing had been dropped, modulo 2^32. */
#define WEFT_NUMBER_SHIFT 40
#define WEFT_NUMBERS 16777216u

/* How many calls of one sort were dropped. */
struct weft_dropped {
    uint16_t function;
    uint8_t flags;
    uint8_t error;
    uint32_t comm;
    int32_t peer;
    int32_t tag;
    uint64_t count;
};

/* What a thread's rings no longer have. `turn` and `again` are equal where the content is whole. */
struct weft_before {
    uint64_t turn;
    uint64_t events; /* calls in front of the first one that is there */
    uint64_t tails; /* bytes of TAILS in front of the first chunk that is there */
    uint32_t first_events; /* number of the first chunk of EVENTS that is there */
    uint32_t first_tails;
    uint64_t rows; /* of struct weft_dropped behind this */
    uint64_t uncounted; /* calls that no row counts, as there are too many sorts */
    uint64_t first_received; /* number of the first chunk of RECEIVED that is there */
    uint64_t again;
};
#define WEFT_DROPPED_MOST 4095u

/* The message that a call took of which its sort does not say so: a nonblocking receive of any source or tag, the receive of
 * an MPI_Sendrecv or MPI_Sendrecv_replace. A row stays at least as long as its call. What is dropped is counted in BEFORE as well, as
 * calls of the function WEFT_DROPPED_RECEIVED, of which communicator, peer and tag say something. */
struct weft_received {
    uint32_t thread; /* that made the call */
    uint32_t call; /* among its events, as if nothing had been dropped, modulo 2^32 */
    uint32_t comm;
    int32_t peer;
    int32_t tag;
};
#define WEFT_DROPPED_RECEIVED 65535u

/* How far the process came. */
enum weft_state {
    WEFT_STATE_STARTING = 0, /* inside MPI initialisation */
    WEFT_STATE_RUNNING = 1,
    WEFT_STATE_FINALIZED = 2, /* MPI_Finalize (or the last MPI_Session_finalize) returned */
    WEFT_STATE_EXITED = 3, /* the process ended by exit() or return from main, or MPI ended it inside a call */
    WEFT_STATE_ABORTED = 4, /* the program called MPI_Abort */
    WEFT_STATE_STOPPED = 5, /* Weft gave up recording; `stop_reason` says why. The program went on */
};

/* Why Weft gave up recording. */
enum weft_stop_reason {
    WEFT_STOP_NONE = 0,
    WEFT_STOP_DISK_FULL = 1,
    WEFT_STOP_NO_ADDRESS_SPACE = 2,
    WEFT_STOP_IO_ERROR = 3,
    WEFT_STOP_OVERFLOW = 4,
    WEFT_STOP_DISK_SLOW = 5, /* the program had waited for the file system for longer than recording may cost */
};

/* What an event's ticks count. */
enum weft_clock { WEFT_CLOCK_MONOTONIC_NS = 0, WEFT_CLOCK_TSC = 1, WEFT_CLOCK_CNTVCT = 2 };

/* How much was recorded. */
enum weft_level { WEFT_LEVEL_OUTCOMES = 1, WEFT_LEVEL_TRACE = 2 };

/* Clocks read together: ticks of the event clock, CLOCK_MONOTONIC and CLOCK_REALTIME in ns. Two anchors give the
 * tick's length and map every rank of every host to one time axis. */
struct weft_anchor {
    uint64_t ticks;
    uint64_t monotonic_ns;
    uint64_t realtime_ns;
};

#define WEFT_HEADER_CHUNKS 156

struct weft_header {
    char magic[8];
    uint16_t major;
    uint16_t minor;
    uint16_t slot_size; /* sizeof(struct weft_event) */
    uint8_t clock; /* enum weft_clock */
    uint8_t level; /* enum weft_level */
    uint32_t state; /* enum weft_state */
    uint32_t stop_reason; /* enum weft_stop_reason */
    int32_t rank; /* in MPI_COMM_WORLD (or the launcher's rank before it is known); -1 unknown */
    int32_t world_size; /* -1 unknown */
    uint32_t pid;
    uint32_t thread_level; /* MPI_THREAD_* provided: 0 single, 1 funneled, 2 serialized, 3 multiple */
    uint32_t chunk_count; /* entries of `chunks` in use (the continuation tables are counted by their `used`) */
    uint32_t threads; /* thread slots handed out */
    struct weft_anchor start;
    struct weft_anchor end; /* last anchor taken: at every new chunk, at finalize and at exit */
    char host[64]; /* NUL-terminated */
    char job[128]; /* the launcher's job or namespace id: equal for all ranks of one world */
    struct weft_chunk chunks[WEFT_HEADER_CHUNKS];
};

/* One MPI call.
 *
 *    0        8          12         14      15      16     20
 *    | enter  | duration | function | flags | error | site |
 *    20     24     28    32         36      40       44       48       56
 *    | comm | peer | tag | datatype | count | result | object | buffer |
 *
 * Worked example: the receive MPI_Recv(buf, 4, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &st) that got 16 bytes
 * from rank 2 reads: flags CLOSED|ANY_SOURCE, error 0, comm 2 (world), peer 2, tag 7, datatype INT, count 4,
 * result 16, object 0, buffer = address of buf. While it still waits: flags ANY_SOURCE, peer -1, duration 0.
 */
struct weft_event {
    uint64_t enter; /* ticks */
    uint32_t duration; /* ticks, see weft_duration_encode; 0 while open */
    uint16_t function; /* id in functions.json of the run */
    uint8_t flags; /* WEFT_FLAG_* */
    uint8_t error; /* MPI error class of the returned code, 255 for a class above 254 */
    uint32_t site; /* id of a SITE definition, 0 unknown */
    uint32_t comm; /* object id */
    int32_t peer; /* dest | source | root | target rank; WEFT_RANK_* when negative. A closed wildcard receive
                          holds the source that it got and the flag ANY_SOURCE */
    int32_t tag; /* tag | object id of the reduction operation. Likewise for ANY_TAG */
    uint32_t datatype; /* object id */
    int32_t count; /* elements; INT32_MAX: the true count stands at the head of the tail. For a poll that
                          failed (Test*, *probe with flag false): number of equal failed polls in a row. For a call of
                          FOLDED in mpi/meaning/local.py: 0, or how many equal ones in a row the event stands for */
    uint32_t result; /* HAS_TAIL: offset of the tail in the thread's TAILS stream / WEFT_TAIL_ALIGN;
                          else bytes received as the status tells (saturated) */
    uint32_t object; /* object id: request, window, file, message, or the object that the call created */
    uint64_t buffer; /* address; WEFT_IN_PLACE; 0 for MPI_BOTTOM and NULL. MPI_Wtime/Wtick: the double's bits.
                          MPI_Finalize: WEFT_LEAVING where the way out of the process called it, not the program.
                          A completion: 0 or WEFT_GUESSED. With BUFFER_CHANGED on a completion, or on a call that
                          completes one-sided operations: the buffer of one that changed */
};

#define WEFT_FLAG_CLOSED 0x01u /* the call returned */
#define WEFT_FLAG_ANY_SOURCE 0x02u
#define WEFT_FLAG_ANY_TAG 0x04u
#define WEFT_FLAG_TRUE 0x08u /* the call's LOGICAL `flag` came out true */
#define WEFT_FLAG_CANCELLED 0x10u /* the status says cancelled */
#define WEFT_FLAG_HAS_TAIL 0x20u
#define WEFT_FLAG_BUFFER_CHANGED 0x40u /* the program wrote into the buffer of a pending operation that it completes */
#define WEFT_FLAG_TICKET 0x80u /* the tail begins with a ticket: order of calls between threads of a process */

#define WEFT_ERROR_OTHER 255u

#define WEFT_RANK_ANY_SOURCE (-1)
#define WEFT_RANK_PROC_NULL (-2)
#define WEFT_RANK_ROOT (-3)
#define WEFT_RANK_INVALID_BASE (-1000) /* any other negative rank r is kept as r - 1000 */
#define WEFT_TAG_ANY (-1)
#define WEFT_IN_PLACE UINT64_MAX
#define WEFT_GUESSED 1u /* several sends had one handle: which of them this call completed is a guess */
#define WEFT_LEAVING 1u /* exit(), atexit or the interpreter's end made the call */
#define WEFT_TAIL_ALIGN 2u

/* Object ids, one number space for each class of handle. Predefined objects have the ids listed in functions.json
 * (communicators: 2 world, 3 self); every other object gets the next id from WEFT_ID_DYNAMIC when it is created,
 * and ids are never used twice, though handles are. */
#define WEFT_ID_NONE 0u
#define WEFT_ID_NULL 1u
#define WEFT_ID_WORLD 2u
#define WEFT_ID_SELF 3u
#define WEFT_ID_DYNAMIC 256u

/* Return ticks as a duration of 32 bits: 2 bits of exponent (times 1, 2^8, 2^16, 2^24 ticks) over 30 bits of mantissa.
 * It is exact below 0.4 s at 2.6 GHz, then to 1 part in 4 million. */
WEFT_INLINE uint32_t weft_duration_encode(uint64_t ticks) {
    uint32_t exponent = 0;
    while (ticks >> 30 && exponent < 3) {
        ticks >>= 8;
        exponent++;
    }
    return (exponent << 30) | (ticks >> 30 ? 0x3fffffffu : (uint32_t)ticks);
}

/* TAILS. The tail of an event is the concatenation, with no length and no padding between, of
 *   [ticket]                 flag TICKET
 *   [count]                  slot's count is INT32_MAX
 *   every parameter whose part (functions.json) is entry or both, in order
 *   --- written at entry above, at exit below (absent while the event is open) ---
 *   every parameter whose part is exit or both, in order; zeros when the call failed
 *   [bytes received]         the function's STATUS has its place in the slot
 *   [ticket]                 flag TICKET and a probe that found a message: when it did, among the tickets
 * and starts at a multiple of WEFT_TAIL_ALIGN. Values:
 *   integers      zigzag varint (LEB128)          handles       varint object id
 *   addresses     zigzag varint of (value - slot.buffer); WEFT_IN_PLACE as it is minus slot.buffer, modulo 2^64
 *   strings       varint length, bytes (at most 4096; a longer one is cut)
 *   arrays        varint number of elements, then the elements; integers as differences from the one before.
 *                 A NULL or *_IGNORE / UNWEIGHTED array: 0 elements
 *   status        varint 0 for one that was not set or belongs to a send, else 1 + flags (1 cancelled), zigzag
 *                 source, zigzag tag, varint bytes, varint error class
 *   doubles       8 bytes
 */

/* DEFINITIONS: records of { u8 type, varint length, payload }. A type that is not one of these is damage.
 * u = varint, z = zigzag varint, s = varint length + bytes, MEMBERS = varint runs, then for each run
 * u world, u first, z stride, u count (world 0: this process's own MPI_COMM_WORLD; others: WORLD definitions;
 * WEFT_WORLD_UNKNOWN: processes that MPI gives no name for, reached by accept/connect/join).
 */

/* Types of DEFINITIONS records. */
enum weft_def {
    WEFT_DEF_COMM = 1, /* u id, u parent id, u function that made it, u ordinal among the calls that make a
                              communicator on this parent, u inter (0|1), z my rank, s key (tag, string tag or ""),
                              MEMBERS local, MEMBERS remote */
    WEFT_DEF_GROUP = 2, /* u id, MEMBERS */
    WEFT_DEF_DATATYPE = 3, /* u id, u size, z lb, z extent, u combiner (index in functions.json), u n, n z integers,
                              u n, n z addresses, u n, n u datatype ids */
    WEFT_DEF_OP = 4, /* u id, u commutes */
    WEFT_DEF_WINDOW = 5, /* u id, u comm, u flavor (0 create 1 allocate 2 dynamic 3 shared), u base, u size,
                              u displacement unit, u ordinal on the comm */
    WEFT_DEF_FILE = 6, /* u id, u comm, u amode, s name */
    WEFT_DEF_NAME = 7, /* u class (enum weft_object_class), u id, s name */
    WEFT_DEF_THREAD = 8, /* u thread slot, u first event index, u tid, u is main, s name,
                              u ordinal of its creation in the process (0 main; WEFT_MADE_UNKNOWN: not the program's) */
    WEFT_DEF_MODULE = 9, /* u id, u base, u end, s build id (hex), s path */
    WEFT_DEF_SITE = 10, /* u id, u module (0 none), u offset in module of the return address, u code (0: native
                              only), u instruction offset in the code's bytecode, bytes, u n, n (u module, u offset):
                              return addresses of the callers, innermost first; or n (u code, u instruction) */
    WEFT_DEF_PYCODE = 11, /* u id, s file, s qualified name, u first line, s location table (PEP 657) */
    WEFT_DEF_WORLD = 12, /* u index (from 1), u size, s origin: "parent" or "spawn", s name of the spawn (""
                              where nobody named it): the same in the root of the spawn and in its children */
    WEFT_DEF_ENV = 13, /* s NAME=VALUE */
    WEFT_DEF_ARGV = 14, /* u n, n s */
    WEFT_DEF_CWD = 15, /* s */
    WEFT_DEF_LIBRARY = 16, /* s MPI_Get_library_version, s path of the library */
    WEFT_DEF_NOTE = 17, /* s text for people: why something is missing */
    WEFT_DEF_PYTHON = 18, /* s version of the interpreter in the process */
    WEFT_DEF_ENDED = 19, /* s what MPI said when it ended the process inside a call, may be empty */
    WEFT_DEF_STORED = 20, /* u window, u fences on it before the one that closes the epoch, u n, n (u offset, u bytes,
                              u again): of the window's memory (its first 4096 bytes), what was another between the end
                              of the epoch's fence and the begin of the closing one; `again`: and another at its end */
    WEFT_DEF_ENDING = 21, /* several of a process in order of time: how it ended, or where it was when asked.
                              u kind (enum weft_ending_kind), u thread slot + 1 (0: of no thread that called MPI), u tid, u ticks
                              of the event clock, z code, z detail, u address, s name, s text, s traceback, s who,
                              u n, n (s file, u line, s function): Python frames,
                              u n, n (u module, u offset): native return addresses; of a signal, the first is the
                              instruction itself plus 1, so that one less is in the place in every case.
                              Frames stand innermost first; at most WEFT_ENDING_FRAMES each */
    WEFT_DEF_CORES =
        22, /* s cores that the process may run on (sched_getaffinity) as "0-2,8", u how many thousandths of
                              a core its control group may use (cpu.max), 0 for no limit */
    WEFT_DEF_WAY = 23, /* one way of several to a native site: u site, u an address below the frame of the
                              function that makes the call, u n, n u: how far above that address its frame ends, that of
                              its caller, and so on (DWARF's canonical frame addresses) */
    WEFT_DEF_BLOCKS = 24, /* what malloc gave for the buffers of a call: u thread slot, u ticks (of that thread
                              the first call that begins then or later), u n, n (u address, u first byte of the block
                              that holds it, u bytes of the block: as many as may be used, 0 of one that is free) */
    WEFT_DEF_GIVEN_BACK = 25, /* the memory of a window was given back to malloc before the window was freed:
                              u window, u thread slot, u ticks, as above, of MPI_Win_free */
};

/* What a WEFT_DEF_ENDING tells. Who: the thread's or task's name where it is not the main thread.
 *
 *               code              detail    address  name                    text              traceback
 *  EXCEPTION    0                 0         0        the type, qualified     str() of it       whole, causes and notes too
 *  EXIT         the status        how       0        exit, _exit, ...        of a SystemExit   of the SystemExit
 *  SIGNAL       the signal        si_code   faulting the signal's            assertion, abort's message, C++ type
 *                                                                            its traceback, where the recorder raised it: which part of it was
 *                                                                            at work (WEFT_WITHOUT leaves it out), "calls" for none
 *  ABORT        the error code    0         0        MPI_Abort
 *  WHERE        0                 0         0
 *  RETURNED     the signal        0         0        : a SIGNAL before it on this thread did not end the process
 *  NOT_INITIALISED, FINALISED 0   0         0        the MPI function
 *  WARNED       the signal        the sender's pid   0        the signal's
 */

/* What an ENDING definition tells. */
enum weft_ending_kind {
    WEFT_ENDING_EXCEPTION = 1, /* an exception that nobody caught: of the program, a thread or a task */
    WEFT_ENDING_EXIT = 2,
    WEFT_ENDING_SIGNAL = 3, /* one of the thread that got it, then one of each other thread, of the same code */
    WEFT_ENDING_ABORT = 4,
    WEFT_ENDING_WHERE = 5, /* no end: `weft run` asked where this thread is */
    WEFT_ENDING_RETURNED = 6,
    WEFT_ENDING_NOT_INITIALISED = 7, /* a call of MPI before it was initialised */
    WEFT_ENDING_FINALISED = 8, /* a call of MPI after it was finalised */
    WEFT_ENDING_WARNED = 9, /* a signal that asks the process to end, or a limit of time */
};

/* How a process came to its exit status: `detail` of an EXIT. */
enum weft_exit_kind {
    WEFT_EXIT_UNKNOWN = 0,
    WEFT_EXIT_EXIT = 1, /* exit(), also the end of Fortran's STOP */
    WEFT_EXIT_AT_ONCE = 2, /* _exit(), _Exit(), quick_exit(), os._exit: nothing was cleaned up */
    WEFT_EXIT_RETURN = 3, /* return from main */
    WEFT_EXIT_PYTHON = 4, /* SystemExit: sys.exit(), raise SystemExit */
    WEFT_EXIT_FORTRAN = 5, /* STOP, ERROR STOP */
    WEFT_EXIT_RUNTIME = 6, /* a Fortran runtime error */
};

#define WEFT_ENDING_FRAMES 128u

#define WEFT_WORLD_UNKNOWN 0xffffu
#define WEFT_MADE_UNKNOWN 0xffffffffu

/* Classes of handles; each has its own number space of object ids. */
enum weft_object_class {
    WEFT_CLASS_COMM = 1,
    WEFT_CLASS_DATATYPE,
    WEFT_CLASS_GROUP,
    WEFT_CLASS_OP,
    WEFT_CLASS_REQUEST,
    WEFT_CLASS_WINDOW,
    WEFT_CLASS_FILE,
    WEFT_CLASS_INFO,
    WEFT_CLASS_ERRHANDLER,
    WEFT_CLASS_MESSAGE,
    WEFT_CLASS_SESSION,
    WEFT_CLASS_END,
};

/* OUTCOMES (level `outcomes`): a stream of nibbles. 0..13: the next outcome of the current kind, at most 13; 14: escape,
 * then a number in nibbles of 3 bits, least first, bit 3 set while more follow; 15: the kind changes, one nibble
 * names the new kind. The kind at the start is SOURCE. */

#define WEFT_LOG_NOTICE 16384 /* PVM, as a source: a notice about rank value - WEFT_LOG_NOTICE - 1, -1: about none */
#define WEFT_LOG_STRANGER 65536 /* PVM, as a source: no task of the run */

/* Kinds of outcomes in an OUTCOMES stream. */
enum weft_log_kind {
    WEFT_LOG_SOURCE = 0, /* source that a wildcard receive got, in order of completion */
    WEFT_LOG_LATE = 1, /* precedes a SOURCE whose receive is not the oldest pending wildcard: how many before */
    WEFT_LOG_POLLS = 2, /* polls (Test*, *probe, Request_get_status) that failed since the last outcome, where
                                 there were any. Precedes INDEX, COUNT and PROBED; the last of all at the end */
    WEFT_LOG_INDEX = 3, /* Waitany/Testany: index + 1, 0 for MPI_UNDEFINED */
    WEFT_LOG_COUNT = 4, /* Waitsome/Testsome: outcount + 1 (0 undefined), followed by that many INDEX */
    WEFT_LOG_CANCELLED = 5, /* in place of a SOURCE: the wildcard was cancelled */
    WEFT_LOG_THREAD = 6, /* with several threads: outcomes of other threads since this one's last; none: 0 */
    WEFT_LOG_PROBED = 7, /* source that a probe of any source saw */
    WEFT_LOG_DONE = 8, /* Test, Testall, Request_get_status, a probe of a named source was true: polls that
                                 failed since the last outcome */
    WEFT_LOG_TIME = 9, /* MPI_Wtime: nanoseconds since this thread's last, the first since the clock's zero */
    WEFT_LOG_TAKEN = 10, /* PVM: a poll of any source took or saw a message. Two values: the polls that failed since
                                 the last outcome, and the source. A source of WEFT_LOG_NOTICE or more is the daemon */
};

/* WINDOWS, at both levels: what is decided at the target of a window, where no call of the record stands. One row for
 * each lock, written when it is given back, and for each atomic access whose result may depend on others', written when
 * it is known to be complete: fetches, updates of small values in windows from which the process fetches, and updates whose
 * result may be rounded.
 *
 *    0        8       16     24    32      40        48        56       64        68       72     76     77      78      80
 *    | window | begin | held | end | place | operand | compare | result | ordinal | target | made | kind | bytes | change |
 */
struct weft_access {
    uint64_t window; /* a name that all members of the window know it by */
    uint64_t begin; /* ticks at which its call began */
    uint64_t held; /* a lock: ticks at which it was held: when its first flush returned, without one when its own call
                          did, which may be too early with an MPI that only then begins to ask for it;
                          an access: ticks at which its call returned */
    uint64_t end; /* ticks at which it was complete (a lock: given back) */
    int64_t place; /* displacement in the target's window */
    uint64_t operand;
    uint64_t compare;
    uint64_t result;
    uint32_t ordinal; /* among the locks and atomic accesses of its thread, in order of their calls, from 0 on */
    int32_t target; /* rank in the window's group, -1: MPI_Win_lock_all */
    uint32_t made; /* ordinal of the creation of the thread that made the call, as in its THREAD */
    uint8_t kind; /* enum weft_access_kind */
    uint8_t bytes; /* of operand, compare and result; 0: not kept, as more than 8 or of a derived type */
    uint16_t change; /* enum weft_change: what it does to the place */
};

/* What a row of a WINDOWS stream is. */
enum weft_access_kind {
    WEFT_ACCESS_SHARED = 1, /* MPI_Win_lock (shared, or MPI_MODE_NOCHECK), MPI_Win_lock_all */
    WEFT_ACCESS_EXCLUSIVE = 2, /* MPI_Win_lock */
    WEFT_ACCESS_FETCH = 3, /* MPI_Fetch_and_op, MPI_Compare_and_swap, MPI_Get_accumulate, MPI_Rget_accumulate */
    WEFT_ACCESS_UPDATE = 4, /* MPI_Accumulate, MPI_Raccumulate */
};

/* What an atomic access does to its place. */
enum weft_change {
    WEFT_CHANGE_UNKNOWN = 0,
    WEFT_CHANGE_NONE = 1, /* MPI_NO_OP */
    WEFT_CHANGE_REPLACE = 2, /* by `operand` */
    WEFT_CHANGE_SUM = 3, /* of integers */
    WEFT_CHANGE_SWAP = 4, /* by `operand` if it is equal to `compare` */
};

/* ACCESSES: what the program itself does to memory that MPI has: buffers of pending operations, and windows. Rows of three
 * sorts, in the order of the thread's program.
 *
 *    0     8       16     24      32      40       48     52     56       60       64     66      67       68    72
 *    | low | first | last | event | count | stride | site | size | object | again | thread | kind | dropped | tid |
 *
 * A touch (kind: a sum of WEFT_TOUCH_READ, ... below 16): `count` accesses of `size` bytes each by one line, at low,
 * low + stride, ... between the ticks `first` and `last`.
 * Worked example: `for (i = 0; i < 10; i++) a[2 * i] = 0;` on doubles at 0x1000 is low 0x1000, size 8, stride 16, count
 * 10, kind WEFT_TOUCH_WRITE.
 *
 * A hold (kind from 16 on): from here on MPI has that memory. SENT, WRITTEN: `count` elements of datatype `size` (an object
 * id) at `low`, `stride` bytes from first to last, of the request `object` (0: a one-sided operation); the call is the
 * thread's event `event` - 1. UNIFIED, SEPARATE: memory of window `object`, by its model: `stride` bytes at `low` that are
 * rank `count`'s, with displacement unit `size`. GONE: window `object` no longer has the memory at `low`.
 *
 * What orders threads (kind from 48 on; `low` is 0): RELEASED: at `first` the thread let go of what it did before it (it left a
 * lock, came to a barrier, made a thread); the first time since its last access or call. ACQUIRED: at `first` it took over
 * what others had let go; the last time before its next access or call. UNORDERED: it did what Weft cannot follow (tasks,
 * volatile variables): any two threads of the process may be ordered. */
struct weft_touch {
    uint64_t low;
    uint64_t first; /* ticks */
    uint64_t last;
    uint64_t event; /* events in the stream of its thread when it began; WEFT_TOUCH_NO_EVENTS: the thread has none */
    uint64_t count;
    uint64_t stride;
    uint32_t site; /* id of a SITE definition */
    uint32_t size;
    uint32_t object;
    uint32_t again; /* accesses by this line of what it had accessed before, within the row */
    uint16_t thread; /* slot of the thread + 1, 0: it has made no calls */
    uint8_t kind;
    uint8_t dropped; /* accesses by this line that did not fit: the rows of a line and an event are bounded */
    uint32_t tid;
};

#define WEFT_TOUCH_NO_EVENTS UINT64_MAX

/* What a row of an ACCESSES stream is. */
enum weft_touch_kind {
    WEFT_TOUCH_READ = 1,
    WEFT_TOUCH_WRITE = 2,
    WEFT_TOUCH_ATOMIC = 4,
    WEFT_TOUCH_VOLATILE = 8,
    WEFT_TOUCH_SENT = 16, /* MPI reads it */
    WEFT_TOUCH_WRITTEN = 17, /* MPI writes it */
    WEFT_TOUCH_UNIFIED = 32,
    WEFT_TOUCH_SEPARATE = 33,
    WEFT_TOUCH_GONE = 34,
    WEFT_TOUCH_RELEASED = 48,
    WEFT_TOUCH_ACQUIRED = 49,
    WEFT_TOUCH_UNORDERED = 50,
};

/* HASHES: what messages held. One row for what an operation brings, one for what it gets: a message of a send or a receive,
 * the part of this process in a collective.
 *
 *    0      8       16      24        28       30     31
 *    | hash | bytes | event | request | thread | side | kept |
 *
 * Worked example: MPI_Send(buf, 2, MPI_INT, ...) as the third call of the thread in slot 0 is hash XXH3_64bits(buf, 8),
 * bytes 8, event 2, request 0, thread 0, side SENT. */
struct weft_hashed {
    uint64_t hash; /* XXH3, 64 bits, seed 0, of the bytes of the type signature, element behind element, without gaps */
    uint64_t bytes;
    uint64_t
        event; /* that began the operation, in the EVENTS of its thread; of a persistent one the call that started it */
    uint32_t request; /* object id, 0: the call is the operation */
    uint16_t thread; /* slot of the thread that began it */
    uint8_t side; /* enum weft_hash_side */
    uint8_t kept; /* 1: the first WEFT_CONTENT_MOST of these bytes stand in CONTENTS, padded to 8: what each
                     process brings to a reduction, and gets, and what is broadcast */
};

#define WEFT_CONTENT_MOST 4096u

/* Which way a message goes. */
enum weft_hash_side {
    WEFT_HASH_SENT = 1,
    WEFT_HASH_RECEIVED = 2,
};

_Static_assert(sizeof(struct weft_hashed) == 32, "hash layout");
_Static_assert(sizeof(struct weft_touch) == 72, "touch layout");
_Static_assert(sizeof(struct weft_access) == 80, "access layout");
_Static_assert(sizeof(struct weft_chunk) == 24, "chunk layout");
_Static_assert(sizeof(struct weft_dropped) == 24, "dropped layout");
_Static_assert(sizeof(struct weft_before) == 64, "before layout");
_Static_assert(sizeof(struct weft_event) == 56, "event layout");
_Static_assert(sizeof(struct weft_header) <= WEFT_PAGE, "header fits one page");

#endif
