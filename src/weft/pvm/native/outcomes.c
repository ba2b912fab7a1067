/* Level outcomes: of each call only what another run could decide differently (format.h, OUTCOMES).
 *
 * A receive of a named task, a send, and all calls that pass no messages write nothing: what comes of them follows. */
#include "../recorder/nibbles.h"
#include "pvm.h"

/* The thread that logs, NULL for a call that is not the program's. */
struct weft_thread *weft_log_enter(void) {
    if (UNLIKELY(!weft_pvm_begun) && !weft_depth && !weft_pvm_begin()) return NULL;
    if (weft_depth | !weft_recording) return NULL;
    struct weft_thread *thread = weft_self;
    if (UNLIKELY(!thread)) thread = weft_make_thread();
    if (LIKELY(thread)) weft_depth = 1;
    return thread;
}

static uint64_t logged_source(int buffer, int from) {
    int32_t rank = weft_pvm_rank_of(from);
    if (LIKELY(rank >= 0)) return (uint64_t)rank;
    if (rank != WEFT_PVM_DAEMON) return WEFT_LOG_STRANGER;
    int32_t about = buffer > 0 ? weft_pvm_told_by(buffer) : -1;
    return WEFT_LOG_NOTICE + (about >= 0 ? (uint64_t)about + 1 : 0);
}

/* `from`: whose message a call took or saw. */
void weft_log_taken(struct weft_thread *thread, const struct asked *a, int buffer, int from) {
    const bool known = a->tid != -1 && weft_pvm_rank_of(from) != WEFT_PVM_DAEMON;
    if (known && !a->polls) return;
    if (known) {
        put_done_outcome(thread);
        return;
    }
    if (!a->polls) {
        put_outcome(thread, WEFT_LOG_SOURCE, logged_source(buffer, from));
        return;
    }
    put_outcome(thread, WEFT_LOG_TAKEN, thread->outcome_state.polls);
    thread->outcome_state.polls = 0;
    put_outcome(thread, WEFT_LOG_TAKEN, logged_source(buffer, from));
}

/* The task leaves PVM. */
void weft_log_over(struct weft_thread *thread) { put_failed_polls(thread); }
