/* The stream of outcomes of level `outcomes` (format.h, OUTCOMES), whatever system they are of. */
#ifndef WEFT_NIBBLES_H
#define WEFT_NIBBLES_H

#include "calls.h"

/* Write half a byte into the stream of outcomes; its `used` counts these nibbles. */
WEFT_INLINE void write_nibble(struct weft_thread *thread, unsigned value) {
    struct weft_stream *stream = &thread->outcomes;
    uint64_t nibbles = *stream->used;
    if (!(nibbles & 1)) {
        if (!weft_stream_fits(stream, 1)) {
            weft_stop_recording();
            return;
        }
        if (stream->next == stream->chunk_start) nibbles = 0; /* a new chunk, maybe */
        *stream->next = (uint8_t)value;
    } else *stream->next++ |= (uint8_t)(value << 4);
    __atomic_store_n(stream->used, nibbles + 1, __ATOMIC_RELEASE);
}

/* Write an outcome, behind its kind (WEFT_LOG_*) if the last outcome had another kind. Values up to 13 take one nibble,
 * larger ones 14 and then three bits a nibble. */
WEFT_INLINE void write_outcome_value(struct weft_thread *thread, unsigned kind, uint64_t value) {
    if (UNLIKELY(thread->outcome_state.kind != kind)) {
        write_nibble(thread, 15);
        write_nibble(thread, kind);
        thread->outcome_state.kind = kind;
    }
    if (LIKELY(value <= 13)) {
        write_nibble(thread, (unsigned)value);
        return;
    }
    write_nibble(thread, 14);
    do {
        write_nibble(thread, (unsigned)(value & 7) | (value >> 3 ? 8 : 0));
        value >>= 3;
    } while (value);
}

/* Write an outcome of a kind (WEFT_LOG_*). With several threads, first write how many outcomes of others lie before
 * it. */
WEFT_INLINE void write_outcome(struct weft_thread *thread, unsigned kind, uint64_t value) {
    if (UNLIKELY(weft_threaded)) {
        uint64_t ticket = __atomic_fetch_add(&weft_ticket, 1, __ATOMIC_ACQ_REL);
        if (ticket != thread->outcome_state.seen_ticket)
            write_outcome_value(thread, WEFT_LOG_THREAD, ticket - thread->outcome_state.seen_ticket);
        thread->outcome_state.seen_ticket = ticket + 1;
    }
    write_outcome_value(thread, kind, value);
}

/* Write how many polls have failed, before an outcome that does not say it itself. */
WEFT_INLINE void write_failed_polls(struct weft_thread *thread) {
    if (LIKELY(!thread->outcome_state.polls)) return;
    write_outcome(thread, WEFT_LOG_POLLS, thread->outcome_state.polls);
    thread->outcome_state.polls = 0;
}

/* Write that a poll has succeeded, and how many failed before it. */
WEFT_INLINE void write_successful_poll(struct weft_thread *thread) {
    write_outcome(thread, WEFT_LOG_DONE, thread->outcome_state.polls);
    thread->outcome_state.polls = 0;
}

#endif
