/* The one copy of the small functions of the headers that lean wrappers call, and what all wrappers call for arrays. */
#define WEFT_SHARED
#include "wrap.h"

__thread struct weft_completing weft_completing;

/* Writes an array of ranks, as differences. */
WEFT_GIVEN void weft_write_ranks(struct weft_text *t, int64_t n, const int *ranks) {
    weft_write_unsigned(t, (uint64_t)n);
    for (int64_t i = 0, last = 0; i < n; i++) {
        int64_t v = weft_encode_rank(ranks[i]);
        weft_write_signed(t, v - last);
        last = v;
    }
}

/* Writes an array of handles as their ids. */
WEFT_GIVEN void weft_write_handles(struct weft_text *t, int class, int64_t n, const void *handles, size_t size) {
    weft_write_unsigned(t, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        weft_write_unsigned(t, weft_find_object_id(weft_self, class, (uintptr_t)weft_read_element(handles, i, size)));
}

WEFT_GIVEN void weft_write_requests(struct weft_text *t, int64_t n, const MPI_Request *requests) {
    weft_write_unsigned(t, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) weft_write_unsigned(t, weft_find_request_id(requests[i], NULL));
}

/* Notes the requests that a call may complete: their ids, and copies of their handles. */
WEFT_GIVEN struct weft_completion weft_note_requests_of_call(struct weft_thread *thread, int64_t n,
                                                             const MPI_Request *requests, bool all) {
    size_t each = sizeof(MPI_Status) + sizeof(MPI_Request) + sizeof(uint32_t) + sizeof(uint8_t) + sizeof(bool);
    char *space = weft_get_scratch(thread, (size_t)(n + 1) * each + 64);
    struct weft_completion c = {.n = space && requests ? n : 0};
    if (!space) {
        weft_stop_recording();
        return c;
    }
    c.statuses = (MPI_Status *)space;
    c.before = (MPI_Request *)(c.statuses + n + 1);
    c.ids = (uint32_t *)(c.before + n + 1);
    c.fields = (uint8_t *)(c.ids + n + 1);
    c.guessed = (bool *)(c.fields + n + 1);
    c.fields[0] = WEFT_STATUS_NOTHING;
    uint64_t stamp = weft_make_stamp(thread);
    bool guessed = false;
    for (int64_t i = 0; i < c.n; i++) {
        c.before[i] = requests[i];
        struct weft_found found = weft_find_request(requests[i], &requests[i], stamp);
        c.ids[i] = found.id;
        c.fields[i] = found.status;
        guessed |= c.guessed[i] = found.guessed;
    }
    if (UNLIKELY(guessed) && all) weft_clear_guesses_if_all_named(requests, c.guessed, c.n, stamp);
    return c;
}

/* Writes the ids of the requests that a call may complete. */
void weft_write_request_ids(struct weft_text *text, const struct weft_completion *c) {
    weft_write_unsigned(text, (uint64_t)c->n);
    if (UNLIKELY(text->end - text->p < 10 * c->n)) {
        text->overflow = true;
        return;
    }
    uint8_t *p = text->p;
    for (int64_t i = 0; i < c->n; i++) p = weft_put_u(p, c->ids[i]);
    text->p = p;
}

/* Writes an array of statuses, of each the fields that have a meaning for its request. */
WEFT_GIVEN void weft_write_statuses(struct weft_text *text, const MPI_Status *statuses, int64_t n,
                                    const struct weft_completion *c) {
    weft_write_unsigned(text, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t request = c->indices ? c->indices[i] : i;
        bool known = request >= 0 && request < c->n;
        weft_write_status(text, &statuses[i], known ? c->fields[request] : WEFT_STATUS_NOTHING);
    }
}
