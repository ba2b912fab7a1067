/* What the generated wrappers use beside shim.h: polls, completions, small conversions. */
#ifndef WEFT_WRAP_H
#define WEFT_WRAP_H

#include <stdio.h>
#include <stdlib.h>

#include "endings.h"
#include "shim.h"
#include "times.h"

WEFT_HIDDEN void weft_start_record(void);
WEFT_HIDDEN void weft_complete_record_start(bool world, int provided);
WEFT_HIDDEN void weft_end_record_at_finalize(void);
WEFT_HIDDEN void weft_end_record_at_session_end(void);
WEFT_HIDDEN void weft_mark_record_aborted(int code);

/* Return a number, 0 for a negative one. */
WEFT_INLINE int64_t weft_positive_or_zero(int64_t n) { return n > 0 ? n : 0; }

/* Return a hash of an array of `n` requests, by which equal polls are known. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_hash_handles(int64_t n, const MPI_Request *handles) {
    uint64_t hash = (uint64_t)n;
    for (int64_t i = 0; handles && i < n; i++) hash = weft_mix_bits(hash ^ (uint64_t)(uintptr_t)handles[i], 1);
    return hash;
}

/* Return a hash of a status, by which equal calls are known; that of MPI_STATUS_IGNORE is one of zeros. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_hash_status(const MPI_Status *status) {
    uint64_t words[(sizeof *status + 7) / 8] = {0}, hash = 0;
    if (status && status != MPI_STATUS_IGNORE) memcpy(words, status, sizeof *status);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) hash = weft_mix_bits(hash ^ words[i], 1);
    return hash;
}

/* One more MPI_Wtime of a fold, and what it gave. */
WEFT_COLD void weft_write_clock_unit(struct weft_thread *thread);
/* Add a call of MPI_Wtime to the count of the thread's last event, and write the time that it gave behind that event's
 * fixed fields (times.h). */
WEFT_HOT void weft_count_repeated_clock_call(struct weft_thread *thread, double now) {
    struct weft_outcome_state *state = &thread->outcome_state;
    if (UNLIKELY(!thread->fold->count)) weft_write_clock_unit(thread);
    struct weft_text text = weft_continue_tail(thread, WEFT_TIME_BYTES);
    uint64_t code = weft_encode_time(state->wtime, now, state->wtick);
    weft_write_unsigned(&text, code);
    if (UNLIKELY(code == WEFT_TIME_WHOLE)) {
        memcpy(&code, &now, sizeof code);
        weft_write_unsigned(&text, code);
    }
    weft_end_tail(thread, &text);
    state->wtime = now;
    weft_count_repeated_call(thread);
}

/* Return a lock's type as the record stores it, as MPI libraries number the types differently. */
WEFT_INLINE int64_t weft_encode_lock_type(int type) {
    return type == MPI_LOCK_EXCLUSIVE ? 1 : type == MPI_LOCK_SHARED ? 2 : 0;
}
/* Return the assertions of a synchronisation call as the record stores them. */
WEFT_INLINE int64_t weft_encode_assertion(int assertion) {
    return (assertion & MPI_MODE_NOCHECK ? 1 : 0) | (assertion & MPI_MODE_NOSTORE ? 2 : 0) |
           (assertion & MPI_MODE_NOPUT ? 4 : 0) | (assertion & MPI_MODE_NOPRECEDE ? 8 : 0) |
           (assertion & MPI_MODE_NOSUCCEED ? 16 : 0);
}

/* Return the sum of the positive ones among `n` numbers; 0 without an array. */
WEFT_INLINE WEFT_GIVEN int64_t weft_sum_positive(int n, const int *values) {
    int64_t sum = 0;
    for (int i = 0; values && i < n; i++) sum += values[i] > 0 ? values[i] : 0;
    return sum;
}

/* Return how many ranks the local group of a communicator has; 0 for one that the recorder does not know. */
WEFT_INLINE int weft_count_local_ranks(MPI_Comm comm) {
    const struct weft_comm *facts = weft_find_comm(comm);
    return facts ? facts->size : 0;
}

/* Return the number of dimensions of a communicator with a cartesian topology, else 0. */
WEFT_INLINE int weft_count_cart_dimensions(MPI_Comm comm) {
    int kind = MPI_UNDEFINED, n = 0;
    if (!weft_find_comm(comm) || REAL(MPI_Topo_test)(comm, &kind) != MPI_SUCCESS || kind != MPI_CART) return 0;
    return REAL(MPI_Cartdim_get)(comm, &n) == MPI_SUCCESS ? n : 0;
}

/* Return how many bytes an array of `n` strings takes at most when it is written into an event; it ends before a
 * NULL. */
WEFT_INLINE WEFT_GIVEN int64_t weft_bound_string_bytes(int64_t n, char *const *strings) {
    int64_t bytes = 0;
    for (int64_t i = 0; strings && i < n && i < WEFT_STRINGS && strings[i]; i++)
        bytes += (int64_t)strnlen(strings[i], 4096) + 10;
    return bytes;
}

/* ---- spawned processes are recorded like the others ---- */
struct weft_spawn {
    int n, own; /* `own` first strings of each vector were made here */
    char **commands;
    char ***vectors;
};
WEFT_HIDDEN struct weft_spawn weft_make_spawn_arguments(int n, char *const *commands, char *const *const *vectors,
                                                        const MPI_Info *infos, int multiple);
WEFT_HIDDEN void weft_free_spawn_arguments(struct weft_spawn *spawn);

/* ---- wrappers of level outcomes, written by hand ---- */
#define WEFT_OUTCOME_WRAPPER(name) WEFT_HIDDEN WEFT_GIVEN int weft_o_##name

/* ---- completions ---- */
struct weft_completion {
    int64_t n;
    uint32_t *ids;
    MPI_Request *before;
    uint8_t *fields; /* enum weft_status_fields of each status */
    bool *guessed;
    MPI_Status *statuses; /* n of our own */
    const int *indices;   /* which requests the statuses belong to; NULL: all in order */
};

extern WEFT_HIDDEN __thread struct weft_completing {
    struct weft_found_request found;
    MPI_Request before;
} weft_completing;
/* Note the one request that a call may complete, before the call. `variable`: the one of the program that holds it. Return
 * what is known of it, valid until the thread's next such call. */
WEFT_INLINE struct weft_completion weft_note_request_of_call(MPI_Request request, const MPI_Request *variable) {
    struct weft_completing *noted = &weft_completing;
    noted->before = request;
    noted->found = weft_find_request(request, variable, 0);
    return (struct weft_completion){.n = 1,
                                    .ids = &noted->found.id,
                                    .before = &noted->before,
                                    .fields = &noted->found.status,
                                    .guessed = &noted->found.guessed};
}

/* `all`: the call completes all requests or none. */
WEFT_HIDDEN struct weft_completion weft_note_requests_of_call(struct weft_thread *thread, int64_t n,
                                                              const MPI_Request *requests, bool all);

/* End request `i` of those that were noted before a call, if the call has completed it. `after`: its handle now; `ok`:
 * the call succeeded; the event is marked if the program changed the request's buffer. */
WEFT_INLINE void weft_end_noted_request(const struct weft_completion *noted, int64_t i, struct weft_event *event,
                                        MPI_Request after, bool ok, const MPI_Status *status) {
    if (i < 0 || i >= noted->n) return;
    struct weft_request_end done = weft_end_request(
        noted->ids[i], noted->before[i], after,
        (struct weft_request_result){ok, noted->guessed[i], noted->fields[i] == WEFT_STATUS_MESSAGE ? status : NULL});
    if (UNLIKELY(done.changed)) {
        event->flags |= WEFT_FLAG_BUFFER_CHANGED;
        if (!event->buffer) event->buffer = (uint64_t)(uintptr_t)done.changed;
    }
    if (UNLIKELY(done.guessed)) event->buffer = WEFT_GUESSED;
}

WEFT_HIDDEN void weft_write_request_ids(struct weft_text *text, const struct weft_completion *c);

WEFT_HIDDEN void weft_write_statuses(struct weft_text *text, const MPI_Status *statuses, int64_t n,
                                     const struct weft_completion *c);

#endif
