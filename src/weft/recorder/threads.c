/* Several threads in MPI: in which order they post, and that their tickets say the same.
 *
 * A ticket that is taken before a call says nothing certain of when MPI got it. So, as soon as a second thread calls
 * MPI, taking the ticket and posting are one step, under a lock; a call that blocks posts first, gives the lock back,
 * and then waits. A probe that takes a message off the queue gets its ticket when it succeeds.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "wrap.h"

static pthread_mutex_t posting = PTHREAD_MUTEX_INITIALIZER;
__thread bool weft_posting;
__thread uint64_t weft_decided;

/* Take the lock under which threads hand their calls to MPI one after the other (post them); in a replay once it is
 * this thread's turn. */
void weft_lock_posting(void) {
    if (weft_replaying) weft_await_posting_turn();
    pthread_mutex_lock(&posting);
    weft_posting = true;
}

/* Release the lock under which threads hand their calls to MPI, if this thread has it. `posted`: false for a probe that
 * found nothing, which takes no turn of a replay. */
static void release_posting_lock(bool posted) {
    if (!weft_posting) return;
    weft_posting = false;
    pthread_mutex_unlock(&posting);
    if (weft_replaying && posted) weft_end_posting_turn();
}

/* Release the lock of posting after the thread has handed its call to MPI. */
void weft_unlock_posting(void) { release_posting_lock(true); }

/* Unlock posting in a child of fork(). */
void weft_reset_posting_lock(void) { pthread_mutex_init(&posting, NULL); }

/* What several threads call in place of MPI's function, so that posting and waiting are two steps. */
#define WEFT_SPLIT_CALL(name) WEFT_HIDDEN WEFT_GIVEN int weft_t_##name

/* Wait for a request, in a replay as the replay does. */
static int wait_for_request(MPI_Request *request, MPI_Status *status) {
    return weft_replaying ? weft_wait_by_testing(request, status) : REAL(MPI_Wait)(request, status);
}

/* Post a blocking call by its nonblocking form `start`, let other threads post, and wait for it. */
#define SPLIT(name, start)                                                                                                \
    MPI_Request request = MPI_REQUEST_NULL;                                                                               \
    int code = start;                                                                                                     \
    weft_unlock_posting();                                                                                                \
    return code == MPI_SUCCESS ? wait_for_request(&request, status) : code;

#define RECEIVE(name, i, type)                                                                                            \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status) {              \
        SPLIT(name, REAL(i)(buf, count, datatype, source, tag, comm, &request))                                           \
    }
#define SEND(name, i, type)                                                                                               \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {                              \
        MPI_Status *status = MPI_STATUS_IGNORE;                                                                           \
        SPLIT(name, REAL(i)(buf, count, datatype, dest, tag, comm, &request))                                             \
    }
#define SENDRECV(name, recv, send, type)                                                                                  \
    (const void *sendbuf, type sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, type recvcount,    \
     MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status) {                                 \
        MPI_Request sent = MPI_REQUEST_NULL, request = MPI_REQUEST_NULL;                                                  \
        int code = REAL(recv)(recvbuf, recvcount, recvtype, source, recvtag, comm, &request);                             \
        if (code == MPI_SUCCESS) code = REAL(send)(sendbuf, sendcount, sendtype, dest, sendtag, comm, &sent);             \
        weft_unlock_posting();                                                                                            \
        int received = request == MPI_REQUEST_NULL ? MPI_SUCCESS : wait_for_request(&request, status);                    \
        int done = sent == MPI_REQUEST_NULL ? MPI_SUCCESS : wait_for_request(&sent, MPI_STATUS_IGNORE);                   \
        return code != MPI_SUCCESS ? code : received != MPI_SUCCESS ? received : done;                                    \
    }

WEFT_SPLIT_CALL(MPI_Recv) RECEIVE(MPI_Recv, MPI_Irecv, int)
WEFT_SPLIT_CALL(MPI_Send) SEND(MPI_Send, MPI_Isend, int)
WEFT_SPLIT_CALL(MPI_Ssend) SEND(MPI_Ssend, MPI_Issend, int)
WEFT_SPLIT_CALL(MPI_Rsend) SEND(MPI_Rsend, MPI_Irsend, int)
WEFT_SPLIT_CALL(MPI_Sendrecv) SENDRECV(MPI_Sendrecv, MPI_Irecv, MPI_Isend, int)
#ifdef HAVE_MPI_Recv_c
WEFT_SPLIT_CALL(MPI_Recv_c) RECEIVE(MPI_Recv_c, MPI_Irecv_c, MPI_Count)
WEFT_SPLIT_CALL(MPI_Send_c) SEND(MPI_Send_c, MPI_Isend_c, MPI_Count)
WEFT_SPLIT_CALL(MPI_Ssend_c) SEND(MPI_Ssend_c, MPI_Issend_c, MPI_Count)
WEFT_SPLIT_CALL(MPI_Rsend_c) SEND(MPI_Rsend_c, MPI_Irsend_c, MPI_Count)
WEFT_SPLIT_CALL(MPI_Sendrecv_c) SENDRECV(MPI_Sendrecv_c, MPI_Irecv_c, MPI_Isend_c, MPI_Count)
#endif

/* ---- probes: a ticket for the moment of success ---- */
/* Return the number of the next call or probe among those of all threads. */
static uint64_t take_ticket(void) { return __atomic_fetch_add(&weft_ticket, 1, __ATOMIC_ACQ_REL); }

/* Probe once under the lock of posting; a probe that finds a message takes its number among all calls then. */
#define TRY(call)                                                                                                         \
    weft_lock_posting();                                                                                                  \
    int code = call;                                                                                                      \
    if (code == MPI_SUCCESS && *flag) weft_decided = take_ticket();                                                       \
    release_posting_lock(code != MPI_SUCCESS || *flag);                                                                   \
    return code;

/* Probe once, under the lock of posting. */
WEFT_SPLIT_CALL(MPI_Iprobe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    TRY(REAL(MPI_Iprobe)(source, tag, comm, flag, status))
}
/* Probe once, under the lock of posting. */
WEFT_SPLIT_CALL(MPI_Improbe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    TRY(REAL(MPI_Improbe)(source, tag, comm, flag, message, status))
}
/* Probe again and again instead of waiting in MPI, so that other threads may post meanwhile. */
WEFT_SPLIT_CALL(MPI_Probe)(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    for (int found = 0;; sched_yield()) {
        int code = weft_t_MPI_Iprobe(source, tag, comm, &found, status);
        if (code != MPI_SUCCESS || found) return code;
    }
}
/* Probe again and again instead of waiting in MPI, so that other threads may post meanwhile. */
WEFT_SPLIT_CALL(MPI_Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    for (int found = 0;; sched_yield()) {
        int code = weft_t_MPI_Improbe(source, tag, comm, &found, message, status);
        if (code != MPI_SUCCESS || found) return code;
    }
}
