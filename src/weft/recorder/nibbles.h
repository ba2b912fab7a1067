/* The stream of outcomes of level `outcomes` (format.h, OUTCOMES), whatever system they are of. */
#ifndef WEFT_NIBBLES_H
#define WEFT_NIBBLES_H

#include "calls.h"

/* Writes half a byte into the stream of outcomes. */
WEFT_INLINE void put_nibble(struct weft_thread *thread, unsigned value) {
    struct weft_stream *s = &thread->outcomes;
    uint64_t nibbles = *s->used;
    if (!(nibbles & 1)) {
        if (!weft_stream_fits(s, 1)) {
            weft_stop_recording();
            return;
        }
        if (s->next == s->chunk_start) nibbles = 0; /* a new chunk, maybe */
        *s->next = (uint8_t)value;
    } else *s->next++ |= (uint8_t)(value << 4);
    __atomic_store_n(s->used, nibbles + 1, __ATOMIC_RELEASE);
}

/* Writes an outcome, after its kind if that is another one than last time. */
WEFT_INLINE void put_outcome_value(struct weft_thread *thread, unsigned kind, uint64_t value) {
    if (UNLIKELY(thread->outcome_state.kind != kind)) {
        put_nibble(thread, 15);
        put_nibble(thread, kind);
        thread->outcome_state.kind = kind;
    }
    if (LIKELY(value <= 13)) {
        put_nibble(thread, (unsigned)value);
        return;
    }
    put_nibble(thread, 14);
    do {
        put_nibble(thread, (unsigned)(value & 7) | (value >> 3 ? 8 : 0));
        value >>= 3;
    } while (value);
}

/* One outcome. With several threads, says first how many outcomes of others lie between. */
WEFT_INLINE void put_outcome(struct weft_thread *thread, unsigned kind, uint64_t value) {
    if (UNLIKELY(weft_threaded)) {
        uint64_t ticket = __atomic_fetch_add(&weft_ticket, 1, __ATOMIC_ACQ_REL);
        if (ticket != thread->outcome_state.seen_ticket)
            put_outcome_value(thread, WEFT_LOG_THREAD, ticket - thread->outcome_state.seen_ticket);
        thread->outcome_state.seen_ticket = ticket + 1;
    }
    put_outcome_value(thread, kind, value);
}

/* Polls that failed, before an outcome that says nothing of them itself. */
WEFT_INLINE void put_failed_polls(struct weft_thread *thread) {
    if (LIKELY(!thread->outcome_state.polls)) return;
    put_outcome(thread, WEFT_LOG_POLLS, thread->outcome_state.polls);
    thread->outcome_state.polls = 0;
}

WEFT_INLINE void put_done_outcome(struct weft_thread *thread) {
    put_outcome(thread, WEFT_LOG_DONE, thread->outcome_state.polls);
    thread->outcome_state.polls = 0;
}

#endif
