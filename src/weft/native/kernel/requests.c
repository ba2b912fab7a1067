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

static void completed(struct weft_completions *c, uint64_t request, uint64_t event) {
    if (request <= WEFT_ID_NULL || request > UINT32_MAX) return;
    if (c->count == c->room) {
        uint64_t room = c->room ? c->room * 2 : 1024;
        uint32_t *request_ = realloc(c->request, room * sizeof *request_);
        if (request_) c->request = request_;
        uint32_t *event_ = realloc(c->event, room * sizeof *event_);
        if (event_) c->event = event_;
        if (!request_ || !event_) {
            c->failed = true;
            return;
        }
        c->room = room;
    }
    c->request[c->count] = (uint32_t)request;
    c->event[c->count++] = (uint32_t)event;
}

static void completed_by(struct weft_completions *c, const struct weft_extract_input *in, uint64_t i,
                         struct weft_spec spec) {
    switch (spec.op) {
    case WEFT_OP_WAIT: completed(c, in->events[i].object, i); return;
    case WEFT_OP_WAITALL: {
        struct tail t = read_tail(in, i, spec, WEFT_ROLE_REQUESTS);
        for (uint64_t k = 0; k < t.requests.count; k++) completed(c, read_u(&t.requests.at), i);
        return;
    }
    case WEFT_OP_WAITANY: {
        struct tail t = read_tail(in, i, spec, WEFT_ROLE_INDEX);
        if (t.index < 0 || (uint64_t)t.index >= t.requests.count) return;
        for (int64_t k = 0; k < t.index; k++) skip_u(&t.requests.at);
        completed(c, read_u(&t.requests.at), i);
        return;
    }
    case WEFT_OP_WAITSOME: {
        struct tail t = read_tail(in, i, spec, WEFT_ROLE_SKIP);
        uint64_t *ids = malloc((t.requests.count + 1) * sizeof *ids);
        if (!ids) {
            c->failed = true;
            return;
        }
        for (uint64_t k = 0; k < t.requests.count; k++) ids[k] = read_u(&t.requests.at);
        int64_t index = 0;
        for (uint64_t k = 0; k < t.indices.count; k++) {
            index += read_z(&t.indices.at);
            if (index >= 0 && (uint64_t)index < t.requests.count) completed(c, ids[index], i);
        }
        free(ids);
        return;
    }
    }
}

void weft_completions_take(struct weft_completions *c, int64_t *request, int64_t *event) {
    for (uint64_t i = 0; i < c->count; i++) {
        request[i] = c->request[i];
        event[i] = c->event[i];
    }
    free(c->request);
    free(c->event);
    free(c);
}

struct weft_completions *weft_completions(const struct weft_extract_input *in, uint64_t *count) {
    struct weft_completions *c = calloc(1, sizeof *c);
    for (uint64_t i = 0; c && i < in->event_count && !c->failed; i++) {
        const struct weft_event *e = &in->events[i];
        struct weft_spec spec = spec_of(in, e);
        if (spec.op < WEFT_OP_WAIT || spec.op > WEFT_OP_WAITSOME || !(e->flags & WEFT_FLAG_CLOSED)) continue;
        if (spec.flags & WEFT_SPEC_FLAGGED && !(e->flags & WEFT_FLAG_TRUE)) continue;
        completed_by(c, in, i, spec);
    }
    if (!c || c->failed) {
        if (c) free(c->request), free(c->event), free(c);
        return NULL;
    }
    *count = c->count;
    return c;
}

/* ---- buffers ---- */

static uint64_t end_of(const struct weft_buffers *in, const struct weft_event *e, uint64_t i, uint8_t sort) {
    if (!(sort & ACCESS_PENDING)) return i;
    uint64_t request = e->object - in->first; /* beyond all where it is before the first */
    uint32_t done = request < in->requests ? in->done[request] : NONE;
    if (done != NONE) return done;
    return sort & ACCESS_SHORT ? i : in->count;
}

uint64_t weft_buffers(const struct weft_buffers *in, int64_t *begin, int64_t *end, uint64_t *low, uint64_t *high,
                      uint8_t *writes) {
    uint64_t found = 0, guessed = 0;
    for (uint64_t i = 0; i < in->count; i++) {
        const struct weft_event *e = &in->events[i];
        uint8_t sort = in->sort[e->function];
        if (sort & ACCESS_COMPLETES && e->buffer == WEFT_GUESSED) {
            /* It may have completed any send before it: several had one handle (format.h). */
            for (; guessed < found; guessed++)
                if (in->sort[in->events[begin[guessed]].function] & ACCESS_SHORT && end[guessed] > (int64_t)i)
                    end[guessed] = (int64_t)i;
        }
        if (!(sort & ACCESS_MADE) || !e->buffer || e->buffer == WEFT_IN_PLACE || e->count <= 0 || e->count == INT32_MAX)
            continue;
        if (e->peer == WEFT_RANK_PROC_NULL || e->peer == WEFT_RANK_ROOT || e->error || e->datatype >= in->types ||
            !in->solid[e->datatype])
            continue;
        begin[found] = (int64_t)i;
        end[found] = (int64_t)end_of(in, e, i, sort);
        low[found] = e->buffer;
        high[found] = e->buffer + (uint64_t)e->count * in->solid[e->datatype];
        writes[found++] = sort & ACCESS_WRITES ? 1 : 0;
    }
    return found;
}
