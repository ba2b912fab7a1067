/* The one copy of the small functions of the headers that lean wrappers call, and what all wrappers call for arrays. */
#define WEFT_SHARED
#include "wrap.h"

__thread struct weft_completing weft_completing;

/* Write an array of `n` ranks, each as its difference from the one before. */
WEFT_GIVEN void weft_write_ranks(struct weft_text *text, int64_t n, const int *ranks) {
    weft_write_unsigned(text, (uint64_t)n);
    for (int64_t i = 0, last = 0; i < n; i++) {
        int64_t rank = weft_encode_rank(ranks[i]);
        weft_write_signed(text, rank - last);
        last = rank;
    }
}

/* Write an array of `n` handles of a class, `size` bytes each, as the ids of their objects. */
WEFT_GIVEN void weft_write_handles(struct weft_text *text, int class, int64_t n, const void *handles, size_t size) {
    weft_write_unsigned(text, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        weft_write_unsigned(text,
                            weft_find_object_id(weft_self, class, (uintptr_t)weft_read_element(handles, i, size)));
}

/* Write an array of `n` requests as their ids. */
WEFT_GIVEN void weft_write_requests(struct weft_text *text, int64_t n, const MPI_Request *requests) {
    weft_write_unsigned(text, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) weft_write_unsigned(text, weft_find_request_id(requests[i], NULL));
}

/* Note the `n` requests that a call may complete, before the call: their ids, and copies of their handles. `all`: the
 * call completes all or none. The result lies in the thread's scratch memory; without memory the recording stops. */
WEFT_GIVEN struct weft_completion weft_note_requests_of_call(struct weft_thread *thread, int64_t n,
                                                             const MPI_Request *requests, bool all) {
    size_t each = sizeof(MPI_Status) + sizeof(MPI_Request) + sizeof(uint32_t) + sizeof(uint8_t) + sizeof(bool);
    char *space = weft_get_scratch(thread, (size_t)(n + 1) * each + 64);
    struct weft_completion noted = {.n = space && requests ? n : 0};
    if (!space) {
        weft_stop_recording();
        return noted;
    }
    noted.statuses = (MPI_Status *)space;
    noted.before = (MPI_Request *)(noted.statuses + n + 1);
    noted.ids = (uint32_t *)(noted.before + n + 1);
    noted.fields = (uint8_t *)(noted.ids + n + 1);
    noted.guessed = (bool *)(noted.fields + n + 1);
    noted.fields[0] = WEFT_STATUS_NOTHING;
    uint64_t stamp = weft_make_stamp(thread);
    bool guessed = false;
    for (int64_t i = 0; i < noted.n; i++) {
        noted.before[i] = requests[i];
        struct weft_found_request found = weft_find_request(requests[i], &requests[i], stamp);
        noted.ids[i] = found.id;
        noted.fields[i] = found.status;
        guessed |= noted.guessed[i] = found.guessed;
    }
    if (UNLIKELY(guessed) && all) weft_clear_guesses_if_all_named(requests, noted.guessed, noted.n, stamp);
    return noted;
}

/* Write the ids of the requests that a call may complete. */
void weft_write_request_ids(struct weft_text *text, const struct weft_completion *noted) {
    weft_write_unsigned(text, (uint64_t)noted->n);
    if (UNLIKELY(text->end - text->p < 10 * noted->n)) {
        text->overflow = true;
        return;
    }
    uint8_t *p = text->p;
    for (int64_t i = 0; i < noted->n; i++) p = weft_put_u(p, noted->ids[i]);
    text->p = p;
}

/* Write an array of `n` statuses, of each the fields that have a meaning for its request. */
WEFT_GIVEN void weft_write_statuses(struct weft_text *text, const MPI_Status *statuses, int64_t n,
                                    const struct weft_completion *noted) {
    weft_write_unsigned(text, (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t request = noted->indices ? noted->indices[i] : i;
        bool known = request >= 0 && request < noted->n;
        weft_write_status(text, &statuses[i], known ? noted->fields[request] : WEFT_STATUS_NOTHING);
    }
}
