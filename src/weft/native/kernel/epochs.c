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

static void wrong(struct walk *w, enum wrong what, int32_t at, int32_t other) {
    struct weft_epochs_output *o = w->out;
    o->wrong[o->wrongs] = (uint8_t)what;
    o->at[o->wrongs] = at;
    o->other[o->wrongs++] = other;
}

static int32_t open_epoch(struct walk *w, int32_t row, int32_t number) {
    struct weft_epochs_output *o = w->out;
    o->begin[o->epochs] = row;
    o->end[o->epochs] = -1;
    o->number[o->epochs] = number;
    o->sort[o->epochs] = w->in->call[row];
    o->lock_type[o->epochs] = w->in->lock_type[row];
    return (int32_t)o->epochs++;
}

static bool reserve(struct window *s, int32_t peer) {
    if (peer < s->room) return true;
    int32_t room = s->room ? s->room : 8;
    while (room <= peer) room *= 2;
    int32_t *locks = realloc(s->locks, (size_t)room * sizeof *locks);
    if (locks) s->locks = locks;
    uint32_t *flushes = realloc(s->flushes, (size_t)room * sizeof *flushes);
    if (flushes) s->flushes = flushes;
    if (!locks || !flushes) return false;
    memset(s->locks + s->room, 0xff, (size_t)(room - s->room) * sizeof *locks);
    memset(s->flushes + s->room, 0, (size_t)(room - s->room) * sizeof *flushes);
    s->room = room;
    return true;
}

/* The call that opened the newest of the epochs that must be closed; -1 where there is none. */
static int32_t opener(const struct walk *w, const struct window *s) {
    int32_t epoch = -1;
    if (s->fence >= 0 && s->fence_used) epoch = s->fence;
    if (s->start >= 0) epoch = s->start;
    if (s->held) {
        int32_t held = s->newest;
        for (int32_t p = 0; s->locks[held] < 0 && p < s->room; p++)
            if (s->locks[p] >= 0) held = p;
        epoch = s->locks[held];
    }
    if (s->lock_all >= 0) epoch = s->lock_all;
    return epoch < 0 ? -1 : w->out->begin[epoch];
}

static void left_open(struct walk *w, struct window *s, int32_t freed) {
    const int32_t *begin = w->out->begin;
    if (s->fence >= 0 && s->fence_used) wrong(w, NEVER_CLOSED, begin[s->fence], freed);
    int32_t singles[2] = {s->start, s->lock_all};
    for (int k = 0; k < 2; k++) {
        if (singles[k] < 0) continue;
        if (freed >= 0) wrong(w, FREED_IN_EPOCH, freed, begin[singles[k]]);
        else wrong(w, NEVER_CLOSED, begin[singles[k]], -1);
    }
    for (int32_t p = 0; s->held && p < s->room; p++) {
        if (s->locks[p] < 0) continue;
        if (freed >= 0) wrong(w, FREED_IN_EPOCH, freed, begin[s->locks[p]]);
        else wrong(w, NEVER_CLOSED, begin[s->locks[p]], -1);
    }
    if (s->post < 0) return;
    if (freed >= 0) wrong(w, FREED_EXPOSED, freed, s->post);
    else wrong(w, NEVER_WAITED, s->post, -1);
}

static void forget(struct window *s) {
    s->fence = s->start = s->post = s->lock_all = s->inner = -1;
    s->fence_used = false;
    s->held = 0;
    s->flushed_all = 0;
    if (s->room) {
        memset(s->locks, 0xff, (size_t)s->room * sizeof *s->locks);
        memset(s->flushes, 0, (size_t)s->room * sizeof *s->flushes);
    }
}

static void operation(struct walk *w, struct window *s, int32_t row, int32_t peer) {
    struct weft_epochs_output *o = w->out;
    int32_t *epoch = &o->epoch[row];
    if (peer >= 0 && s->locks[peer] >= 0) *epoch = s->locks[peer];
    else if (s->lock_all >= 0) *epoch = s->lock_all;
    else if (s->start >= 0) *epoch = s->start;
    else if (s->fence >= 0) *epoch = s->fence, s->fence_used = true;
    else wrong(w, s->held ? OTHER_LOCKED : OUTSIDE, row, -1);
    if (*epoch >= 0 && s->fence >= 0 && *epoch > s->fence && s->inner < 0) s->inner = *epoch;
    o->phase[row] = (peer >= 0 ? s->flushes[peer] : 0) + s->flushed_all;
}

/* Epochs that give access to one window do not overlap, but for locks of several ranks (MPI-4.1, 12.5). */
static void inside(struct walk *w, struct window *s, int32_t row, enum wrong of_fence, enum wrong of_start) {
    if (s->fence >= 0 && s->fence_used) wrong(w, of_fence, row, w->out->begin[s->fence]);
    else if (s->start >= 0) wrong(w, of_start, row, w->out->begin[s->start]);
}

/* What two fences enclose is their epoch where the rank accesses the window there; those that assert something may say that
 * there is none. */
static void fence(struct walk *w, struct window *s, int32_t row) {
    const uint8_t *plain = w->in->plain;
    int32_t *end = w->out->end, *begin = w->out->begin;
    if (s->held || s->lock_all >= 0 || s->start >= 0) wrong(w, FENCE_INSIDE, row, opener(w, s));
    else if (s->post >= 0) wrong(w, FENCE_EXPOSED, row, s->post);
    else if (s->fence >= 0 && !s->fence_used && s->inner >= 0 && plain[row] && plain[begin[s->fence]])
        wrong(w, INSIDE_FENCES, begin[s->inner], row);
    if (s->fence >= 0) end[s->fence] = row;
    s->fence = open_epoch(w, row, ++s->number);
    s->fence_used = false;
    s->inner = -1;
}

static void lock(struct walk *w, struct window *s, int32_t row, int32_t peer) {
    int32_t held = peer >= 0 ? s->locks[peer] : -1;
    if (held >= 0 || s->lock_all >= 0) wrong(w, LOCK_TWICE, row, w->out->begin[held >= 0 ? held : s->lock_all]);
    else inside(w, s, row, LOCK_IN_FENCE, LOCK_IN_START);
    if (peer < 0) return;
    s->held += held < 0;
    s->locks[peer] = open_epoch(w, row, 0);
    s->newest = peer;
}

static void flush(struct walk *w, struct window *s, int32_t row, int32_t peer, bool all, bool remote) {
    bool locked = s->lock_all >= 0 || (all ? s->held > 0 : peer >= 0 && s->locks[peer] >= 0);
    if (!locked && (all || peer != WEFT_RANK_PROC_NULL)) wrong(w, FLUSH_OUTSIDE, row, -1);
    if (remote && all) s->flushed_all++;
    else if (remote && peer >= 0) s->flushes[peer]++;
}

static void one(struct walk *w, struct window *s, int32_t row) {
    const struct weft_epochs_input *in = w->in;
    int32_t peer = in->peer[row], *end = w->out->end;
    switch ((enum call)in->call[row]) {
    case OPERATION:
        if (peer != WEFT_RANK_PROC_NULL) operation(w, s, row, peer);
        return;
    case FENCE: fence(w, s, row); return;
    case START:
        if (s->held || s->lock_all >= 0) wrong(w, START_IN_LOCK, row, opener(w, s));
        else inside(w, s, row, START_IN_FENCE, START_TWICE);
        s->start = open_epoch(w, row, 0);
        return;
    case COMPLETE:
        if (s->start < 0) wrong(w, NOT_STARTED, row, -1);
        else end[s->start] = row;
        s->start = -1;
        return;
    case POST:
        if (s->post >= 0) wrong(w, POST_TWICE, row, s->post);
        s->post = row;
        return;
    case WAIT:
    case TEST:
        if (s->post < 0) wrong(w, in->call[row] == WAIT ? NOT_POSTED : TEST_NOT_POSTED, row, -1);
        if (in->done[row]) s->post = -1;
        return;
    case LOCK:
        if (peer != WEFT_RANK_PROC_NULL) lock(w, s, row, peer);
        return;
    case LOCK_ALL:
        if (s->lock_all >= 0 || s->held) wrong(w, LOCK_ALL_TWICE, row, opener(w, s));
        else inside(w, s, row, LOCK_IN_FENCE, LOCK_IN_START);
        s->lock_all = open_epoch(w, row, 0);
        return;
    case UNLOCK:
        if (peer == WEFT_RANK_PROC_NULL) return;
        if (peer < 0 || s->locks[peer] < 0) {
            wrong(w, NOT_LOCKED, row, -1);
            return;
        }
        end[s->locks[peer]] = row;
        s->locks[peer] = -1;
        s->held--;
        return;
    case UNLOCK_ALL:
        if (s->lock_all < 0) wrong(w, NOT_LOCKED_ALL, row, -1);
        else end[s->lock_all] = row;
        s->lock_all = -1;
        return;
    case FLUSH: flush(w, s, row, peer, false, true); return;
    case FLUSH_ALL: flush(w, s, row, peer, true, true); return;
    case FLUSH_LOCAL: flush(w, s, row, peer, false, false); return;
    case FLUSH_LOCAL_ALL: flush(w, s, row, peer, true, false); return;
    case FREE:
        left_open(w, s, row);
        forget(s); /* a window's id is never used twice: what comes behind is not judged */
        return;
    }
}

int weft_epochs(const struct weft_epochs_input *in, struct weft_epochs_output *out) {
    struct walk w = {in, out};
    struct window *windows = calloc(in->windows + 1u, sizeof *windows);
    bool good = windows != NULL;
    for (uint32_t i = 0; good && i < in->windows; i++) forget(&windows[i]);
    for (uint64_t row = 0; good && row < in->count; row++) {
        out->epoch[row] = -1;
        out->phase[row] = 0;
        if (in->window[row] < 0) continue;
        struct window *s = &windows[in->window[row]];
        good = reserve(s, in->peer[row]);
        if (good) one(&w, s, (int32_t)row);
    }
    for (uint32_t i = 0; good && in->finalized && i < in->windows; i++) left_open(&w, &windows[i], -1);
    for (uint32_t i = 0; windows && i < in->windows; i++) {
        free(windows[i].locks);
        free(windows[i].flushes);
    }
    free(windows);
    return good ? 0 : -1;
}
