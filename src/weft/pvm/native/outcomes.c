/* Level outcomes: of each call only what another run could decide differently (format.h, OUTCOMES).
 *
 * A receive of a named task, a send, and all calls that pass no messages write nothing: what comes of them follows. */
#include "../recorder/nibbles.h"
#include "pvm.h"

/* Begin a call of the program at level outcomes (only what another run could decide differently): return the thread
 * that logs it, NULL for a call that is not the program's. */
struct weft_thread *weft_log_enter_call(void) {
    if (UNLIKELY(!weft_pvm_begun) && !weft_depth && !weft_pvm_begin_recording()) return NULL;
    if (weft_depth | !weft_recording) return NULL;
    struct weft_thread *thread = weft_self;
    if (UNLIKELY(!thread)) thread = weft_make_thread();
    if (LIKELY(thread)) weft_depth = 1;
    return thread;
}

/* Return the number that stands for a message's sender in the log: its rank, a notice and the rank it is about, or a
 * stranger. */
static uint64_t encode_sender(int buffer, int from) {
    int32_t rank = weft_pvm_find_rank(from);
    if (LIKELY(rank >= 0)) return (uint64_t)rank;
    if (rank != WEFT_PVM_DAEMON) return WEFT_LOG_STRANGER;
    int32_t about = buffer > 0 ? weft_pvm_find_rank_in_notice(buffer) : -1;
    return WEFT_LOG_NOTICE + (about >= 0 ? (uint64_t)about + 1 : 0);
}

/* Log what a receive or poll took or saw, as far as another run could decide it differently. `from`: whose message it
 * was. */
void weft_log_received(struct weft_thread *thread, const struct asked *request, int buffer, int from) {
    const bool known = request->tid != -1 && weft_pvm_find_rank(from) != WEFT_PVM_DAEMON;
    if (known && !request->polls) return;
    if (known) {
        write_successful_poll(thread);
        return;
    }
    if (!request->polls) {
        write_outcome(thread, WEFT_LOG_SOURCE, encode_sender(buffer, from));
        return;
    }
    write_outcome(thread, WEFT_LOG_TAKEN, thread->outcome_state.polls);
    thread->outcome_state.polls = 0;
    write_outcome(thread, WEFT_LOG_TAKEN, encode_sender(buffer, from));
}

/* The task leaves PVM. */
void weft_log_over(struct weft_thread *thread) { write_failed_polls(thread); }
