/* The epochs of one rank's windows: which epoch each operation belongs to, and calls that do not fit (MPI-4.1, 12.5).
 *
 * One pass over the rank's one-sided calls in their order. An epoch and a misuse name calls by their row.
 */
#include <stdlib.h>
#include <string.h>

#include "epochs.h"
#include "ops.h"

struct window {
    int32_t fence, start, post, lock_all, number, inner, *locks, room, held, newest;
    bool fence_used;
    uint32_t *flushes, flushed_all;
};

struct walk {
    const struct weft_epochs_input *in;
    struct weft_epochs_output *out;
};

/* Add a misuse of one-sided communication: its kind, the offending call's row, and a related call's row or -1. */
static void add_misuse(struct walk *walk, enum wrong kind, int32_t row, int32_t other_row) {
    struct weft_epochs_output *output = walk->out;
    output->wrong[output->wrongs] = (uint8_t)kind;
    output->at[output->wrongs] = row;
    output->other[output->wrongs++] = other_row;
}

/* Open an access epoch at a call and return its index. `number`: which fence epoch of its window it is, 0 for other
 * kinds. */
static int32_t open_epoch(struct walk *walk, int32_t row, int32_t number) {
    struct weft_epochs_output *output = walk->out;
    output->begin[output->epochs] = row;
    output->end[output->epochs] = -1;
    output->number[output->epochs] = number;
    output->sort[output->epochs] = walk->in->call[row];
    output->lock_type[output->epochs] = walk->in->lock_type[row];
    return (int32_t)output->epochs++;
}

/* Make room in a window's tables of locks and flushes for a target rank. Return false without memory. */
static bool make_room_for_peer(struct window *window, int32_t peer) {
    if (peer < window->room) return true;
    int32_t room = window->room ? window->room : 8;
    while (room <= peer) room *= 2;
    int32_t *locks = realloc(window->locks, (size_t)room * sizeof *locks);
    if (locks) window->locks = locks;
    uint32_t *flushes = realloc(window->flushes, (size_t)room * sizeof *flushes);
    if (flushes) window->flushes = flushes;
    if (!locks || !flushes) return false;
    memset(window->locks + window->room, 0xff, (size_t)(room - window->room) * sizeof *locks);
    memset(window->flushes + window->room, 0, (size_t)(room - window->room) * sizeof *flushes);
    window->room = room;
    return true;
}

/* Return the row of the call that opened the newest access epoch that still needs closing; -1 if there is none. */
static int32_t find_opening_call(const struct walk *walk, const struct window *window) {
    int32_t epoch = -1;
    if (window->fence >= 0 && window->fence_used) epoch = window->fence;
    if (window->start >= 0) epoch = window->start;
    if (window->held) {
        int32_t locked_peer = window->newest;
        for (int32_t peer = 0; window->locks[locked_peer] < 0 && peer < window->room; peer++)
            if (window->locks[peer] >= 0) locked_peer = peer;
        epoch = window->locks[locked_peer];
    }
    if (window->lock_all >= 0) epoch = window->lock_all;
    return epoch < 0 ? -1 : walk->out->begin[epoch];
}

/* Report each epoch of a window that is still open at MPI_Win_free (row `free_row`) or at the program's end (-1) as a
 * misuse. */
static void add_unclosed_epochs(struct walk *walk, struct window *window, int32_t free_row) {
    const int32_t *begin = walk->out->begin;
    if (window->fence >= 0 && window->fence_used) add_misuse(walk, NEVER_CLOSED, begin[window->fence], free_row);
    int32_t singles[2] = {window->start, window->lock_all};
    for (int k = 0; k < 2; k++) {
        if (singles[k] < 0) continue;
        if (free_row >= 0) add_misuse(walk, FREED_IN_EPOCH, free_row, begin[singles[k]]);
        else add_misuse(walk, NEVER_CLOSED, begin[singles[k]], -1);
    }
    for (int32_t peer = 0; window->held && peer < window->room; peer++) {
        if (window->locks[peer] < 0) continue;
        if (free_row >= 0) add_misuse(walk, FREED_IN_EPOCH, free_row, begin[window->locks[peer]]);
        else add_misuse(walk, NEVER_CLOSED, begin[window->locks[peer]], -1);
    }
    if (window->post < 0) return;
    if (free_row >= 0) add_misuse(walk, FREED_EXPOSED, free_row, window->post);
    else add_misuse(walk, NEVER_WAITED, window->post, -1);
}

/* Reset a window to having no epochs. */
static void reset_window(struct window *window) {
    window->fence = window->start = window->post = window->lock_all = window->inner = -1;
    window->fence_used = false;
    window->held = 0;
    window->flushed_all = 0;
    if (window->room) {
        memset(window->locks, 0xff, (size_t)window->room * sizeof *window->locks);
        memset(window->flushes, 0, (size_t)window->room * sizeof *window->flushes);
    }
}

/* Assign a one-sided operation to the epoch that permits it; report a misuse if there is none. */
static void assign_operation_to_epoch(struct walk *walk, struct window *window, int32_t row, int32_t peer) {
    struct weft_epochs_output *output = walk->out;
    int32_t *epoch = &output->epoch[row];
    if (peer >= 0 && window->locks[peer] >= 0) *epoch = window->locks[peer];
    else if (window->lock_all >= 0) *epoch = window->lock_all;
    else if (window->start >= 0) *epoch = window->start;
    else if (window->fence >= 0) *epoch = window->fence, window->fence_used = true;
    else add_misuse(walk, window->held ? OTHER_LOCKED : OUTSIDE, row, -1);
    if (*epoch >= 0 && window->fence >= 0 && *epoch > window->fence && window->inner < 0) window->inner = *epoch;
    output->phase[row] = (peer >= 0 ? window->flushes[peer] : 0) + window->flushed_all;
}

/* Report a misuse if a call opens an epoch inside one of a fence or of MPI_Win_start: access epochs of one window must
 * not overlap, except locks of different ranks (MPI-4.1, 12.5). */
static void check_overlapping_epoch(struct walk *walk, struct window *window, int32_t row, enum wrong in_fence,
                                    enum wrong in_start) {
    if (window->fence >= 0 && window->fence_used) add_misuse(walk, in_fence, row, walk->out->begin[window->fence]);
    else if (window->start >= 0) add_misuse(walk, in_start, row, walk->out->begin[window->start]);
}

/* Handle MPI_Win_fence: it ends an epoch and begins another. An epoch between two fences only counts once the rank
 * accesses the window in it. */
static void handle_fence(struct walk *walk, struct window *window, int32_t row) {
    const uint8_t *plain = walk->in->plain;
    int32_t *end = walk->out->end, *begin = walk->out->begin;
    if (window->held || window->lock_all >= 0 || window->start >= 0)
        add_misuse(walk, FENCE_INSIDE, row, find_opening_call(walk, window));
    else if (window->post >= 0) add_misuse(walk, FENCE_EXPOSED, row, window->post);
    else if (window->fence >= 0 && !window->fence_used && window->inner >= 0 && plain[row] &&
             plain[begin[window->fence]])
        add_misuse(walk, INSIDE_FENCES, begin[window->inner], row);
    if (window->fence >= 0) end[window->fence] = row;
    window->fence = open_epoch(walk, row, ++window->number);
    window->fence_used = false;
    window->inner = -1;
}

/* Handle MPI_Win_lock: it begins an epoch on one target rank. */
static void handle_lock(struct walk *walk, struct window *window, int32_t row, int32_t peer) {
    int32_t locked_epoch = peer >= 0 ? window->locks[peer] : -1;
    if (locked_epoch >= 0 || window->lock_all >= 0)
        add_misuse(walk, LOCK_TWICE, row, walk->out->begin[locked_epoch >= 0 ? locked_epoch : window->lock_all]);
    else check_overlapping_epoch(walk, window, row, LOCK_IN_FENCE, LOCK_IN_START);
    if (peer < 0) return;
    window->held += locked_epoch < 0;
    window->locks[peer] = open_epoch(walk, row, 0);
    window->newest = peer;
}

/* Handle a flush: operations after it belong to a new phase. A flush outside of a lock epoch is a misuse. */
static void check_flush(struct walk *walk, struct window *window, int32_t row, int32_t peer, bool is_all,
                        bool is_remote) {
    bool is_locked = window->lock_all >= 0 || (is_all ? window->held > 0 : peer >= 0 && window->locks[peer] >= 0);
    if (!is_locked && (is_all || peer != WEFT_RANK_PROC_NULL)) add_misuse(walk, FLUSH_OUTSIDE, row, -1);
    if (is_remote && is_all) window->flushed_all++;
    else if (is_remote && peer >= 0) window->flushes[peer]++;
}

/* Handle one one-sided communication call on its window. */
static void handle_call(struct walk *walk, struct window *window, int32_t row) {
    const struct weft_epochs_input *input = walk->in;
    int32_t peer = input->peer[row], *end = walk->out->end;
    switch ((enum call)input->call[row]) {
    case OPERATION:
        if (peer != WEFT_RANK_PROC_NULL) assign_operation_to_epoch(walk, window, row, peer);
        return;
    case FENCE: handle_fence(walk, window, row); return;
    case START:
        if (window->held || window->lock_all >= 0)
            add_misuse(walk, START_IN_LOCK, row, find_opening_call(walk, window));
        else check_overlapping_epoch(walk, window, row, START_IN_FENCE, START_TWICE);
        window->start = open_epoch(walk, row, 0);
        return;
    case COMPLETE:
        if (window->start < 0) add_misuse(walk, NOT_STARTED, row, -1);
        else end[window->start] = row;
        window->start = -1;
        return;
    case POST:
        if (window->post >= 0) add_misuse(walk, POST_TWICE, row, window->post);
        window->post = row;
        return;
    case WAIT:
    case TEST:
        if (window->post < 0) add_misuse(walk, input->call[row] == WAIT ? NOT_POSTED : TEST_NOT_POSTED, row, -1);
        if (input->done[row]) window->post = -1;
        return;
    case LOCK:
        if (peer != WEFT_RANK_PROC_NULL) handle_lock(walk, window, row, peer);
        return;
    case LOCK_ALL:
        if (window->lock_all >= 0 || window->held)
            add_misuse(walk, LOCK_ALL_TWICE, row, find_opening_call(walk, window));
        else check_overlapping_epoch(walk, window, row, LOCK_IN_FENCE, LOCK_IN_START);
        window->lock_all = open_epoch(walk, row, 0);
        return;
    case UNLOCK:
        if (peer == WEFT_RANK_PROC_NULL) return;
        if (peer < 0 || window->locks[peer] < 0) {
            add_misuse(walk, NOT_LOCKED, row, -1);
            return;
        }
        end[window->locks[peer]] = row;
        window->locks[peer] = -1;
        window->held--;
        return;
    case UNLOCK_ALL:
        if (window->lock_all < 0) add_misuse(walk, NOT_LOCKED_ALL, row, -1);
        else end[window->lock_all] = row;
        window->lock_all = -1;
        return;
    case FLUSH: check_flush(walk, window, row, peer, false, true); return;
    case FLUSH_ALL: check_flush(walk, window, row, peer, true, true); return;
    case FLUSH_LOCAL: check_flush(walk, window, row, peer, false, false); return;
    case FLUSH_LOCAL_ALL: check_flush(walk, window, row, peer, true, false); return;
    case FREE:
        add_unclosed_epochs(walk, window, row);
        reset_window(window); /* a window's id is never used twice: what comes after that is not checked */
        return;
    }
}

/* Assign the one-sided operations of a rank to access epochs and list misuses of one-sided communication. Return 0, or
 * -1 without memory. */
int weft_find_epochs(const struct weft_epochs_input *input, struct weft_epochs_output *output) {
    struct walk walk = {input, output};
    struct window *windows = calloc(input->windows + 1u, sizeof *windows);
    bool is_good = windows != NULL;
    for (uint32_t i = 0; is_good && i < input->windows; i++) reset_window(&windows[i]);
    for (uint64_t row = 0; is_good && row < input->count; row++) {
        output->epoch[row] = -1;
        output->phase[row] = 0;
        if (input->window[row] < 0) continue;
        struct window *window = &windows[input->window[row]];
        is_good = make_room_for_peer(window, input->peer[row]);
        if (is_good) handle_call(&walk, window, (int32_t)row);
    }
    for (uint32_t i = 0; is_good && input->finalized && i < input->windows; i++)
        add_unclosed_epochs(&walk, &windows[i], -1);
    for (uint32_t i = 0; windows && i < input->windows; i++) {
        free(windows[i].locks);
        free(windows[i].flushes);
    }
    free(windows);
    return is_good ? 0 : -1;
}
