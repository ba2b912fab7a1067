/* Level outcomes: only what another run could decide differently, a nibble or two an outcome (format.h, OUTCOMES).
 *
 * A function that is not here costs one jump: its stub leads straight into MPI. Named receives, sends, collectives,
 * Wait and Waitall on named operations write nothing.
 */
#include "nibbles.h"
#include "wrap.h"

/* Write the source of the message that a probe of any source has found, behind the polls that failed before. */
static inline void write_probed_source(struct weft_thread *thread, const MPI_Status *status) {
    write_failed_polls(thread);
    write_outcome(thread, WEFT_LOG_PROBED, status->MPI_SOURCE >= 0 ? (uint64_t)status->MPI_SOURCE : 0);
}

/* ---- wildcard receives under way, oldest first ---- */
struct wildcard { MPI_Request request; bool persistent, active; };
static struct wildcard *wildcards;
static int wildcard_count, wildcard_space;
static volatile int wildcard_any; /* read without the lock: 0 spares the completions all work */
static volatile char wildcard_busy;

/* Lock the list of receives of any source. */
static void lock_wildcards(void) { while (__atomic_test_and_set(&wildcard_busy, __ATOMIC_ACQUIRE)) {} }
/* Unlock the list of receives of any source. */
static void unlock_wildcards(void) { __atomic_clear(&wildcard_busy, __ATOMIC_RELEASE); }

/* Note a pending receive of any source (a wildcard), or a persistent one that has been made and not started. */
static void add_wildcard(MPI_Request request, bool persistent) {
    lock_wildcards();
    if (wildcard_count == wildcard_space) {
        int space = wildcard_space ? wildcard_space * 2 : 64;
        struct wildcard *grown = realloc(wildcards, sizeof *grown * (size_t)space);
        if (grown) {
            wildcards = grown;
            wildcard_space = space;
        }
    }
    if (wildcard_count < wildcard_space)
        wildcards[wildcard_count++] =
            (struct wildcard){.request = request, .persistent = persistent, .active = !persistent};
    wildcard_any = wildcard_count;
    unlock_wildcards();
}

/* Note that a persistent receive of any source is started: it is the youngest one now. Other requests are ignored. */
static void start_wildcard(MPI_Request request) {
    lock_wildcards();
    for (int i = 0; i < wildcard_count; i++)
        if (wildcards[i].request == request && wildcards[i].persistent) {
            memmove(&wildcards[i], &wildcards[i + 1], sizeof *wildcards * (size_t)(wildcard_count - i - 1));
            wildcards[wildcard_count - 1] = (struct wildcard){.request = request, .persistent = true, .active = true};
            break;
        }
    unlock_wildcards();
}

/* Return how many active receives of any source are older than the request; -1 if it is none itself. It is taken out of
 * the list or, if persistent and not `freed`, becomes inactive. */
static int end_wildcard_and_count_older(MPI_Request request, bool freed) {
    int older = 0, found = -1;
    lock_wildcards();
    for (int i = 0; i < wildcard_count; i++) {
        if (wildcards[i].request != request) {
            older += wildcards[i].active;
            continue;
        }
        if (!wildcards[i].active && !freed) break;
        found = older;
        if (wildcards[i].persistent && !freed) wildcards[i].active = false;
        else memmove(&wildcards[i], &wildcards[i + 1], sizeof *wildcards * (size_t)(--wildcard_count - i));
        break;
    }
    wildcard_any = wildcard_count;
    unlock_wildcards();
    return found;
}

/* Return how many receives of any source are pending. */
static int count_active_wildcards(void) {
    int active = 0;
    if (!wildcard_any) return 0;
    lock_wildcards();
    for (int i = 0; i < wildcard_count; i++) active += wildcards[i].active;
    unlock_wildcards();
    return active;
}

/* Write the source of a received message, and how many older receives of any source it has overtaken. */
static void write_received_source(struct weft_thread *thread, int older, const MPI_Status *status) {
    if (UNLIKELY(older > 0)) write_outcome(thread, WEFT_LOG_LATE, (uint64_t)older);
    if (UNLIKELY(weft_is_status_cancelled(status))) write_outcome(thread, WEFT_LOG_CANCELLED, 1);
    else if (status->MPI_SOURCE >= 0) write_outcome(thread, WEFT_LOG_SOURCE, (uint64_t)status->MPI_SOURCE);
}

/* Write what a completed request has received, if it was a receive of any source. `before`: its handle before the
 * call. */
static void write_completed_receive(struct weft_thread *thread, MPI_Request before, const MPI_Status *status) {
    if (UNLIKELY(weft_window_requests)) weft_end_requested_access(thread, before);
    if (LIKELY(!wildcard_any)) return;
    int older = end_wildcard_and_count_older(before, false);
    if (older >= 0) write_received_source(thread, older, status);
}

/* A status to read, also where the program wants none. */
#define STATUS MPI_Status w_own, *w_status = status == MPI_STATUS_IGNORE ? &w_own : status

/* ---- blocking receives and probes ---- */
/* The body of a blocking receive: one of any source writes its source, a named one goes straight on to MPI. */
#undef RECEIVE
#define RECEIVE(name, type)                                                                                               \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status) {              \
        if (LIKELY(source != MPI_ANY_SOURCE)) return REAL(name)(buf, count, datatype, source, tag, comm, status);         \
        ENTER;                                                                                                            \
        if (!thread) return REAL(name)(buf, count, datatype, source, tag, comm, status);                                  \
        STATUS;                                                                                                           \
        int result = REAL(name)(buf, count, datatype, source, tag, comm, w_status);                                       \
        if (result == MPI_SUCCESS) write_received_source(thread, count_active_wildcards(), w_status);                     \
        return result;                                                                                                    \
    }
WEFT_OUTCOME_WRAPPER(MPI_Recv) RECEIVE(MPI_Recv, int)
#ifdef HAVE_MPI_Recv_c
WEFT_OUTCOME_WRAPPER(MPI_Recv_c) RECEIVE(MPI_Recv_c, MPI_Count)
#endif

#undef SENDRECV
/* The body of MPI_Sendrecv: a receive of any source writes its source. */
#define SENDRECV(name, type)                                                                                              \
    (const void *sendbuf, type sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, type recvcount,    \
     MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status) {                                 \
        struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) =                                            \
            source == MPI_ANY_SOURCE ? weft_enter_call(__builtin_return_address(0)) : NULL;                               \
        STATUS;                                                                                                           \
        int result = REAL(name)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,        \
                                recvtag, comm, thread ? w_status : status);                                               \
        if (thread && result == MPI_SUCCESS) write_received_source(thread, count_active_wildcards(), w_status);           \
        return result;                                                                                                    \
    }
WEFT_OUTCOME_WRAPPER(MPI_Sendrecv) SENDRECV(MPI_Sendrecv, int)
#ifdef HAVE_MPI_Sendrecv_c
WEFT_OUTCOME_WRAPPER(MPI_Sendrecv_c) SENDRECV(MPI_Sendrecv_c, MPI_Count)
#endif

/* The body of MPI_Sendrecv_replace: a receive of any source writes its source. */
#define REPLACE(name, type)                                                                                               \
    (void *buf, type count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,         \
     MPI_Status *status) {                                                                                                \
        struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) =                                            \
            source == MPI_ANY_SOURCE ? weft_enter_call(__builtin_return_address(0)) : NULL;                               \
        STATUS;                                                                                                           \
        int result = REAL(name)(buf, count, datatype, dest, sendtag, source, recvtag, comm, thread ? w_status : status);  \
        if (thread && result == MPI_SUCCESS) write_received_source(thread, count_active_wildcards(), w_status);           \
        return result;                                                                                                    \
    }
WEFT_OUTCOME_WRAPPER(MPI_Sendrecv_replace) REPLACE(MPI_Sendrecv_replace, int)
#ifdef HAVE_MPI_Sendrecv_replace_c
WEFT_OUTCOME_WRAPPER(MPI_Sendrecv_replace_c) REPLACE(MPI_Sendrecv_replace_c, MPI_Count)
#endif

/* Probe, and write the source of the message that a probe of any source has found. */
WEFT_OUTCOME_WRAPPER(MPI_Probe)(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    if (LIKELY(source != MPI_ANY_SOURCE)) return REAL(MPI_Probe)(source, tag, comm, status);
    ENTER;
    if (!thread) return REAL(MPI_Probe)(source, tag, comm, status);
    STATUS;
    int result = REAL(MPI_Probe)(source, tag, comm, w_status);
    if (result == MPI_SUCCESS) write_probed_source(thread, w_status);
    return result;
}

/* Probe, and write the source of the message that a probe of any source has found. */
WEFT_OUTCOME_WRAPPER(MPI_Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    if (LIKELY(source != MPI_ANY_SOURCE)) return REAL(MPI_Mprobe)(source, tag, comm, message, status);
    ENTER;
    if (!thread) return REAL(MPI_Mprobe)(source, tag, comm, message, status);
    STATUS;
    int result = REAL(MPI_Mprobe)(source, tag, comm, message, w_status);
    if (result == MPI_SUCCESS) write_probed_source(thread, w_status);
    return result;
}

/* Probe once. A probe that finds nothing is only counted; one that finds a message writes how many failed before it
 * and, if of any source, the source. */
WEFT_OUTCOME_WRAPPER(MPI_Iprobe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    ENTER;
    if (!thread) return REAL(MPI_Iprobe)(source, tag, comm, flag, status);
    STATUS;
    int result = REAL(MPI_Iprobe)(source, tag, comm, flag, w_status);
    if (result != MPI_SUCCESS) return result;
    if (!*flag) thread->outcome_state.polls++;
    else if (source == MPI_ANY_SOURCE) write_probed_source(thread, w_status);
    else write_successful_poll(thread);
    return result;
}

/* Probe once. A probe that finds nothing is only counted; one that finds a message writes how many failed before it
 * and, if of any source, the source. */
WEFT_OUTCOME_WRAPPER(MPI_Improbe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    ENTER;
    if (!thread) return REAL(MPI_Improbe)(source, tag, comm, flag, message, status);
    STATUS;
    int result = REAL(MPI_Improbe)(source, tag, comm, flag, message, w_status);
    if (result != MPI_SUCCESS) return result;
    if (!*flag) thread->outcome_state.polls++;
    else if (source == MPI_ANY_SOURCE) write_probed_source(thread, w_status);
    else write_successful_poll(thread);
    return result;
}

/* ---- nonblocking and persistent wildcards ---- */
/* The body of a nonblocking or persistent receive: one of any source is noted for its completion. */
#define IRECEIVE(name, type, persistent)                                                                                  \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request) {            \
        if (LIKELY(source != MPI_ANY_SOURCE)) return REAL(name)(buf, count, datatype, source, tag, comm, request);        \
        ENTER;                                                                                                            \
        int result = REAL(name)(buf, count, datatype, source, tag, comm, request);                                        \
        if (thread && result == MPI_SUCCESS) add_wildcard(*request, persistent);                                          \
        return result;                                                                                                    \
    }
WEFT_OUTCOME_WRAPPER(MPI_Irecv) IRECEIVE(MPI_Irecv, int, false)
WEFT_OUTCOME_WRAPPER(MPI_Recv_init) IRECEIVE(MPI_Recv_init, int, true)
#ifdef HAVE_MPI_Irecv_c
WEFT_OUTCOME_WRAPPER(MPI_Irecv_c) IRECEIVE(MPI_Irecv_c, MPI_Count, false)
WEFT_OUTCOME_WRAPPER(MPI_Recv_init_c) IRECEIVE(MPI_Recv_init_c, MPI_Count, true)
#endif

/* The body of MPI_Isendrecv: a receive of any source is noted for its completion. */
#define ISENDRECV(name, type)                                                                                             \
    (const void *sendbuf, type sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, type recvcount,    \
     MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Request *request) {                               \
        struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) =                                            \
            source == MPI_ANY_SOURCE ? weft_enter_call(__builtin_return_address(0)) : NULL;                               \
        int result = REAL(name)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,        \
                                recvtag, comm, request);                                                                  \
        if (thread && result == MPI_SUCCESS) add_wildcard(*request, false);                                               \
        return result;                                                                                                    \
    }
#ifdef HAVE_MPI_Isendrecv
WEFT_OUTCOME_WRAPPER(MPI_Isendrecv) ISENDRECV(MPI_Isendrecv, int)
#endif
#ifdef HAVE_MPI_Isendrecv_c
WEFT_OUTCOME_WRAPPER(MPI_Isendrecv_c) ISENDRECV(MPI_Isendrecv_c, MPI_Count)
#endif

/* The body of MPI_Isendrecv_replace: a receive of any source is noted for its completion. */
#define IREPLACE(name, type)                                                                                              \
    (void *buf, type count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,         \
     MPI_Request *request) {                                                                                              \
        struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) =                                            \
            source == MPI_ANY_SOURCE ? weft_enter_call(__builtin_return_address(0)) : NULL;                               \
        int result = REAL(name)(buf, count, datatype, dest, sendtag, source, recvtag, comm, request);                     \
        if (thread && result == MPI_SUCCESS) add_wildcard(*request, false);                                               \
        return result;                                                                                                    \
    }
#ifdef HAVE_MPI_Isendrecv_replace
WEFT_OUTCOME_WRAPPER(MPI_Isendrecv_replace) IREPLACE(MPI_Isendrecv_replace, int)
#endif
#ifdef HAVE_MPI_Isendrecv_replace_c
WEFT_OUTCOME_WRAPPER(MPI_Isendrecv_replace_c) IREPLACE(MPI_Isendrecv_replace_c, MPI_Count)
#endif

/* Start a request; a persistent receive of any source is noted for its completion. */
WEFT_OUTCOME_WRAPPER(MPI_Start)(MPI_Request *request) {
    if (wildcard_any) start_wildcard(*request);
    return REAL(MPI_Start)(request);
}

/* Start requests; persistent receives of any source are noted for their completion. */
WEFT_OUTCOME_WRAPPER(MPI_Startall)(int count, MPI_Request requests[]) {
    for (int i = 0; wildcard_any && i < count; i++) start_wildcard(requests[i]);
    return REAL(MPI_Startall)(count, requests);
}

/* Free a request, which is no pending receive of any source from then on. */
WEFT_OUTCOME_WRAPPER(MPI_Request_free)(MPI_Request *request) {
    if (wildcard_any) end_wildcard_and_count_older(*request, true);
    return REAL(MPI_Request_free)(request);
}

/* ---- completions ---- */
/* Wait, and write the source that the request has received from, if it was a receive of any source. */
WEFT_OUTCOME_WRAPPER(MPI_Wait)(MPI_Request *request, MPI_Status *status) {
    if (LIKELY(!(wildcard_any | weft_window_requests))) return REAL(MPI_Wait)(request, status);
    ENTER;
    if (!thread) return REAL(MPI_Wait)(request, status);
    STATUS;
    MPI_Request before = *request;
    int result = REAL(MPI_Wait)(request, w_status);
    if (result == MPI_SUCCESS) write_completed_receive(thread, before, w_status);
    return result;
}

/* Copy the `n` requests of a call into the thread's scratch memory before the call, and set `statuses` to memory there
 * if the program wants none. Return false without memory. */
static WEFT_GIVEN bool copy_requests(struct weft_thread *thread, int n, const MPI_Request *requests,
                                     MPI_Request **copies, MPI_Status **statuses) {
    size_t count = n > 0 ? (size_t)n : 0;
    char *space = weft_get_scratch(thread, (count + 1) * (sizeof(MPI_Status) + sizeof(MPI_Request)) + 64);
    if (!space) return false;
    if (*statuses == MPI_STATUSES_IGNORE) *statuses = (MPI_Status *)space;
    *copies = (MPI_Request *)((MPI_Status *)space + count + 1);
    if (count && requests) memcpy(*copies, requests, count * sizeof **copies);
    return true;
}

/* Wait, and write the sources of the receives of any source among the requests. */
WEFT_OUTCOME_WRAPPER(MPI_Waitall)(int count, MPI_Request requests[], MPI_Status given[]) {
    if (LIKELY(!(wildcard_any | weft_window_requests))) return REAL(MPI_Waitall)(count, requests, given);
    ENTER;
    MPI_Request *before;
    MPI_Status *statuses = given;
    if (!thread || !copy_requests(thread, count, requests, &before, &statuses)) return REAL(MPI_Waitall)(count, requests, given);
    int result = REAL(MPI_Waitall)(count, requests, statuses);
    for (int i = 0; result == MPI_SUCCESS && i < count; i++) write_completed_receive(thread, before[i], &statuses[i]);
    return result;
}

/* Wait, and write which request was complete and, if it was a receive of any source, its source. */
WEFT_OUTCOME_WRAPPER(MPI_Waitany)(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    ENTER;
    MPI_Request *before;
    MPI_Status *unused = MPI_STATUSES_IGNORE;
    if (!thread || !copy_requests(thread, count, requests, &before, &unused)) return REAL(MPI_Waitany)(count, requests, index, status);
    STATUS;
    int result = REAL(MPI_Waitany)(count, requests, index, w_status);
    if (result != MPI_SUCCESS) return result;
    write_failed_polls(thread);
    write_outcome(thread, WEFT_LOG_INDEX, *index == MPI_UNDEFINED ? 0 : (uint64_t)*index + 1);
    if (*index >= 0 && *index < count) write_completed_receive(thread, before[*index], w_status);
    return result;
}

/* Write which of its `n` requests a call has completed, and what the receives of any source among them got. */
static void write_completed_requests(struct weft_thread *thread, int n, int count, const int *indices,
                                     const MPI_Request *before, const MPI_Status *statuses) {
    write_failed_polls(thread);
    write_outcome(thread, WEFT_LOG_COUNT, count == MPI_UNDEFINED ? 0 : (uint64_t)count + 1);
    for (int i = 0; i < count; i++) write_outcome(thread, WEFT_LOG_INDEX, (uint64_t)indices[i] + 1);
    for (int i = 0; i < count; i++)
        if (indices[i] >= 0 && indices[i] < n) write_completed_receive(thread, before[indices[i]], &statuses[i]);
}

/* Wait, and write which requests were complete and the sources of the receives of any source among them. */
WEFT_OUTCOME_WRAPPER(MPI_Waitsome)(int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status given[]) {
    ENTER;
    MPI_Request *before;
    MPI_Status *statuses = given;
    if (!thread || !copy_requests(thread, incount, requests, &before, &statuses))
        return REAL(MPI_Waitsome)(incount, requests, outcount, indices, given);
    int result = REAL(MPI_Waitsome)(incount, requests, outcount, indices, statuses);
    if (result == MPI_SUCCESS) write_completed_requests(thread, incount, *outcount, indices, before, statuses);
    return result;
}

/* Test a request. A test that finds it pending is only counted; one that finds it complete writes how many failed
 * before it and, for a receive of any source, the source. */
WEFT_OUTCOME_WRAPPER(MPI_Test)(MPI_Request *request, int *flag, MPI_Status *status) {
    ENTER;
    if (!thread) return REAL(MPI_Test)(request, flag, status);
    STATUS;
    MPI_Request before = *request;
    int result = REAL(MPI_Test)(request, flag, w_status);
    if (result != MPI_SUCCESS) return result;
    if (!*flag) thread->outcome_state.polls++;
    else {
        write_successful_poll(thread);
        write_completed_receive(thread, before, w_status);
    }
    return result;
}

/* Test requests. A test that finds one pending is only counted; one that finds all complete writes how many failed
 * before it, and the sources of receives of any source. */
WEFT_OUTCOME_WRAPPER(MPI_Testall)(int count, MPI_Request requests[], int *flag, MPI_Status given[]) {
    ENTER;
    MPI_Request *before;
    MPI_Status *statuses = given;
    if (!thread || !copy_requests(thread, count, requests, &before, &statuses)) return REAL(MPI_Testall)(count, requests, flag, given);
    int result = REAL(MPI_Testall)(count, requests, flag, statuses);
    if (result != MPI_SUCCESS) return result;
    if (!*flag) thread->outcome_state.polls++;
    else {
        write_successful_poll(thread);
        for (int i = 0; i < count; i++) write_completed_receive(thread, before[i], &statuses[i]);
    }
    return result;
}

/* Test requests. A test that finds none complete is only counted; one that finds one writes how many failed before it,
 * which one and, for a receive of any source, the source. */
WEFT_OUTCOME_WRAPPER(MPI_Testany)(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    ENTER;
    MPI_Request *before;
    MPI_Status *unused = MPI_STATUSES_IGNORE;
    if (!thread || !copy_requests(thread, count, requests, &before, &unused)) return REAL(MPI_Testany)(count, requests, index, flag, status);
    STATUS;
    int result = REAL(MPI_Testany)(count, requests, index, flag, w_status);
    if (result != MPI_SUCCESS) return result;
    if (!*flag) thread->outcome_state.polls++;
    else {
        write_failed_polls(thread);
        write_outcome(thread, WEFT_LOG_INDEX, *index == MPI_UNDEFINED ? 0 : (uint64_t)*index + 1);
        if (*index >= 0 && *index < count) write_completed_receive(thread, before[*index], w_status);
    }
    return result;
}

/* Test requests. A test that finds none complete is only counted; one that finds some writes how many failed before it,
 * which ones, and the sources of receives of any source. */
WEFT_OUTCOME_WRAPPER(MPI_Testsome)(int incount, MPI_Request requests[], int *outcount, int indices[], MPI_Status given[]) {
    ENTER;
    MPI_Request *before;
    MPI_Status *statuses = given;
    if (!thread || !copy_requests(thread, incount, requests, &before, &statuses))
        return REAL(MPI_Testsome)(incount, requests, outcount, indices, given);
    int result = REAL(MPI_Testsome)(incount, requests, outcount, indices, statuses);
    if (result != MPI_SUCCESS) return result;
    if (*outcount == 0) thread->outcome_state.polls++;
    else {
        write_completed_requests(thread, incount, *outcount, indices, before, statuses);
    }
    return result;
}

/* Ask for the status of a request. A call that finds it pending is only counted; one that finds it complete writes how
 * many failed before it. */
WEFT_OUTCOME_WRAPPER(MPI_Request_get_status)(MPI_Request request, int *flag, MPI_Status *status) {
    ENTER;
    int result = REAL(MPI_Request_get_status)(request, flag, status);
    if (!thread || result != MPI_SUCCESS) return result;
    if (!*flag) thread->outcome_state.polls++;
    else write_successful_poll(thread);
    return result;
}

/* ---- time ---- */
/* Write the unit of MPI_Wtime's clock after the fixed fields of the thread's last event, before the times of its
 * repeated calls. */
void weft_write_clock_unit(struct weft_thread *thread) {
    struct weft_event *event = thread->fold;
    double unit = thread->outcome_state.wtick;
    if (unit == 0) unit = thread->outcome_state.wtick = REAL(MPI_Wtick)();
    bool has_tail = event->flags & WEFT_FLAG_HAS_TAIL;
    struct weft_text text =
        has_tail ? weft_continue_tail(thread, sizeof unit) : weft_begin_tail(thread, event, sizeof unit);
    if (!text.overflow) {
        memcpy(text.p, &unit, sizeof unit);
        text.p += sizeof unit;
    }
    weft_end_tail(thread, &text);
}

WEFT_HIDDEN double weft_o_MPI_Wtime(void);
/* Record the time that the program reads, as the nanoseconds since it read the time last. */
double weft_o_MPI_Wtime(void) {
    ENTER;
    double now = REAL(MPI_Wtime)();
    if (thread) {
        double passed = now - thread->outcome_state.wtime;
        write_outcome(thread, WEFT_LOG_TIME, thread->outcome_state.wtime > 0 && passed >= 0 ? (uint64_t)(passed * 1e9) : (uint64_t)(now * 1e9));
        thread->outcome_state.wtime = now;
    }
    return now;
}

/* ---- birth and end of the record: as at level trace, but no events ---- */
/* Begin the record, and initialise MPI. */
WEFT_OUTCOME_WRAPPER(MPI_Init)(int *argc, char ***argv) {
    weft_start_record();
    ENTER;
    int code = REAL(MPI_Init)(argc, argv);
    if (thread && code == MPI_SUCCESS) weft_complete_record_start(true, MPI_THREAD_SINGLE);
    return code;
}

/* Begin the record, and initialise MPI. */
WEFT_OUTCOME_WRAPPER(MPI_Init_thread)(int *argc, char ***argv, int required, int *provided) {
    weft_start_record();
    ENTER;
    int code = REAL(MPI_Init_thread)(argc, argv, required, provided);
    if (thread && code == MPI_SUCCESS) weft_complete_record_start(true, provided ? *provided : MPI_THREAD_SINGLE);
    return code;
}

#ifdef HAVE_MPI_Session_init
/* Begin the record, and initialise MPI by a session. */
WEFT_OUTCOME_WRAPPER(MPI_Session_init)(MPI_Info info, MPI_Errhandler handler, MPI_Session *session) {
    weft_start_record();
    ENTER;
    int code = REAL(MPI_Session_init)(info, handler, session);
    if (thread && code == MPI_SUCCESS) {
        weft_complete_record_start(false, MPI_THREAD_MULTIPLE);
        weft_read_world_from_session(*session);
    }
    return code;
}
/* End a session, and the record unless MPI goes on. */
WEFT_OUTCOME_WRAPPER(MPI_Session_finalize)(MPI_Session *session) {
    ENTER;
    int code = REAL(MPI_Session_finalize)(session);
    if (thread && code == MPI_SUCCESS) weft_end_record_at_session_end();
    return code;
}
#endif

/* Write how many polls have failed since the last outcome, finalise MPI, and end the record. */
WEFT_OUTCOME_WRAPPER(MPI_Finalize)(void) {
    ENTER;
    if (thread) write_failed_polls(thread);
    int code = REAL(MPI_Finalize)();
    if (thread && code == MPI_SUCCESS) weft_end_record_at_finalize();
    return code;
}

/* Note in the record that the program aborts, and abort. */
WEFT_OUTCOME_WRAPPER(MPI_Abort)(MPI_Comm comm, int code) {
    weft_mark_record_aborted(code);
    return REAL(MPI_Abort)(comm, code);
}
