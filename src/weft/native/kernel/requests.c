/* Requests of one rank: what completed them, and the buffers of operations while they are pending. */
#include <stdlib.h>

#include "requests.h"
#include "ops.h"
#include "tails.h"

struct weft_completions {
    uint32_t *request, *event;
    uint64_t count, room;
    bool failed;
};

/* Record that an event completed a request; null requests and damaged ids are ignored. */
static void add_completion(struct weft_completions *completions, uint64_t request, uint64_t event) {
    if (request <= WEFT_ID_NULL || request > UINT32_MAX) return;
    if (completions->count == completions->room) {
        uint64_t room = completions->room ? completions->room * 2 : 1024;
        uint32_t *requests = realloc(completions->request, room * sizeof *requests);
        if (requests) completions->request = requests;
        uint32_t *events = realloc(completions->event, room * sizeof *events);
        if (events) completions->event = events;
        if (!requests || !events) {
            completions->failed = true;
            return;
        }
        completions->room = room;
    }
    completions->request[completions->count] = (uint32_t)request;
    completions->event[completions->count++] = (uint32_t)event;
}

/* Record all completions that one Wait or Test call reported. */
static void add_completions_of(struct weft_completions *completions, const struct weft_extract_input *input,
                               uint64_t event, struct weft_spec spec) {
    switch (spec.op) {
    case WEFT_OP_WAIT: add_completion(completions, input->events[event].object, event); return;
    case WEFT_OP_WAITALL: {
        struct tail tail = read_tail(input, event, spec, WEFT_ROLE_REQUESTS);
        for (uint64_t k = 0; k < tail.requests.count; k++)
            add_completion(completions, read_unsigned(&tail.requests.at), event);
        return;
    }
    case WEFT_OP_WAITANY: {
        struct tail tail = read_tail(input, event, spec, WEFT_ROLE_INDEX);
        if (tail.index < 0 || (uint64_t)tail.index >= tail.requests.count) return;
        for (int64_t k = 0; k < tail.index; k++) skip_varint(&tail.requests.at);
        add_completion(completions, read_unsigned(&tail.requests.at), event);
        return;
    }
    case WEFT_OP_WAITSOME: {
        struct tail tail = read_tail(input, event, spec, WEFT_ROLE_SKIP);
        uint64_t *ids = malloc((tail.requests.count + 1) * sizeof *ids);
        if (!ids) {
            completions->failed = true;
            return;
        }
        for (uint64_t k = 0; k < tail.requests.count; k++) ids[k] = read_unsigned(&tail.requests.at);
        int64_t index = 0;
        for (uint64_t k = 0; k < tail.indices.count; k++) {
            index += read_signed(&tail.indices.at);
            if (index >= 0 && (uint64_t)index < tail.requests.count) add_completion(completions, ids[index], event);
        }
        free(ids);
        return;
    }
    }
}

/* Copy the completions to the caller's arrays and free them. */
void weft_take_completions(struct weft_completions *completions, int64_t *request, int64_t *event) {
    for (uint64_t i = 0; i < completions->count; i++) {
        request[i] = completions->request[i];
        event[i] = completions->event[i];
    }
    free(completions->request);
    free(completions->event);
    free(completions);
}

/* List which requests each Wait and Test call of a rank reported as complete; `*count` gets how many. NULL without
 * memory. */
struct weft_completions *weft_find_completions(const struct weft_extract_input *input, uint64_t *count) {
    struct weft_completions *completions = calloc(1, sizeof *completions);
    for (uint64_t event = 0; completions && event < input->event_count && !completions->failed; event++) {
        const struct weft_event *call = &input->events[event];
        struct weft_spec spec = find_spec(input, call);
        if (spec.op < WEFT_OP_WAIT || spec.op > WEFT_OP_WAITSOME || !(call->flags & WEFT_FLAG_CLOSED)) continue;
        if (spec.flags & WEFT_SPEC_FLAGGED && !(call->flags & WEFT_FLAG_TRUE)) continue;
        add_completions_of(completions, input, event, spec);
    }
    if (!completions || completions->failed) {
        if (completions) free(completions->request), free(completions->event), free(completions);
        return NULL;
    }
    *count = completions->count;
    return completions;
}

/* ---- buffers ---- */

/* Return the event until which MPI may access a buffer: the completion of its request, the end of the record, or the
 * call itself. */
static uint64_t find_access_end(const struct weft_buffers *buffers, const struct weft_event *call, uint64_t event,
                                uint8_t sort) {
    if (!(sort & ACCESS_PENDING)) return event;
    uint64_t request = call->object - buffers->first; /* beyond all where it is before the first */
    uint32_t completion = request < buffers->requests ? buffers->done[request] : NONE;
    if (completion != NONE) return completion;
    return sort & ACCESS_SHORT ? event : buffers->count;
}

/* List all buffer accesses by MPI in a rank: first and last event, address range, and whether MPI writes. Return how
 * many. */
uint64_t weft_find_buffer_accesses(const struct weft_buffers *buffers, int64_t *begin, int64_t *end, uint64_t *low,
                                   uint64_t *high, uint8_t *writes) {
    uint64_t found = 0, guessed = 0;
    for (uint64_t event = 0; event < buffers->count; event++) {
        const struct weft_event *call = &buffers->events[event];
        uint8_t sort = buffers->sort[call->function];
        if (sort & ACCESS_COMPLETES && call->buffer == WEFT_GUESSED) {
            /* It may have completed any send before it: several had one handle (format.h). */
            for (; guessed < found; guessed++)
                if (buffers->sort[buffers->events[begin[guessed]].function] & ACCESS_SHORT &&
                    end[guessed] > (int64_t)event)
                    end[guessed] = (int64_t)event;
        }
        if (!(sort & ACCESS_MADE) || !call->buffer || call->buffer == WEFT_IN_PLACE || call->count <= 0 ||
            call->count == INT32_MAX)
            continue;
        if (call->peer == WEFT_RANK_PROC_NULL || call->peer == WEFT_RANK_ROOT || call->error ||
            call->datatype >= buffers->types || !buffers->solid[call->datatype])
            continue;
        begin[found] = (int64_t)event;
        end[found] = (int64_t)find_access_end(buffers, call, event, sort);
        low[found] = call->buffer;
        high[found] = call->buffer + (uint64_t)call->count * buffers->solid[call->datatype];
        writes[found++] = sort & ACCESS_WRITES ? 1 : 0;
    }
    return found;
}
