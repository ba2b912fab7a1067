/* Records of a run with rings (`weft run --keep`) which message a call took, where its sort does not say so: RECEIVED.
 *
 * A dropped call is counted by what stands in its slot. Of a nonblocking receive of any source that is no source, and of
 * MPI_Sendrecv where it sends to. So these leave a row when their message is there. MPI_Isendrecv leaves it at once where
 * source and tag are named, as a named receive is counted when it is posted. A call whose message is not told (its request
 * was freed or cancelled, or it failed) leaves none: a reader sees by their numbers that some are open. Nor does an
 * MPI_Isendrecv of any source or tag but in Open MPI: MPICH leaves the status of its request unset. */
#include "shim.h"

/* Return the numbers by which a reader finds the call of the thread's newest event. */
static struct weft_call identify_call(const struct weft_thread *thread, const struct weft_event *event) {
    uint64_t number = (uint64_t)(thread->events.next - thread->events.base) / sizeof *event - 1;
    return (struct weft_call){.thread = thread->slot, .number = (uint32_t)number, .comm = event->comm};
}

/* Note that the message which a receive takes is to be recorded at its completion. */
void weft_record_message_at_completion(struct weft_pending *pending, const struct weft_thread *thread,
                                       const struct weft_event *event) {
    pending->call = identify_call(thread, event);
    pending->awaited = true;
}

/* Record source and tag of the message that a call took, as a row of the RECEIVED stream. */
static void record_message_row(const struct weft_call *call, int source, int tag) {
    struct weft_stream *rows = &weft_self->received;
    if (weft_the_record->stopped) return;
    if ((!rows->record && !weft_stream_open(weft_the_record, rows, WEFT_STREAM_RECEIVED, (int)weft_self->slot)) ||
        !weft_stream_fits(rows, sizeof(struct weft_received))) {
        weft_stop_recording();
        return;
    }
    *(struct weft_received *)rows->next = (struct weft_received){.thread = call->thread,
                                                                 .call = call->number,
                                                                 .comm = call->comm,
                                                                 .peer = weft_encode_rank(source),
                                                                 .tag = weft_encode_tag(tag)};
    rows->next += sizeof(struct weft_received);
    weft_stream_publish(rows);
}

/* Record the message that a completed receive took, by its status; nothing if it was cancelled. */
void weft_record_received_message(const struct weft_call *call, const MPI_Status *status) {
    if (!weft_is_status_cancelled(status)) record_message_row(call, status->MPI_SOURCE, status->MPI_TAG);
}

/* Record the message that a call has taken before it returned. */
void weft_record_received_message_now(const struct weft_thread *thread, const struct weft_event *event,
                                      const MPI_Status *status) {
    struct weft_call call = identify_call(thread, event);
    weft_record_received_message(&call, status);
}

/* Record the message of a call that names its source and tag. */
void weft_record_named_message(const struct weft_thread *thread, const struct weft_event *event, int source, int tag) {
    struct weft_call call = identify_call(thread, event);
    record_message_row(&call, source, tag);
}
