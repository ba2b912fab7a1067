/* What is decided at the target of a window: which lock came first, what an atomic access found there.
 *
 * The record has no call there, so each rank keeps its own side (struct weft_access in format.h): between which times
 * it had the lock, or the place was looked at and changed, and what was found. The host's clock and the values found
 * tell the order (weft.replay.turns). Nothing is sent, no call waits, and no buffer is written to but by a replay.
 */
#include "peek.h"
#include "wrap.h"

struct held { uint64_t begin, held; uint32_t ordinal, made; uint8_t kind; bool flushed; };

struct window {
    MPI_Win handle;
    uint64_t name;
    int size;
    bool fetched;             /* this process has fetched from it: its updates are kept too */
    struct held *locks;       /* [1 + target], [0]: MPI_Win_lock_all; kind 0: none */
    struct window *next;
};

struct pending {
    struct weft_access access;
    MPI_Win window;
    void *result;
    MPI_Request request;
    bool requested;
};

volatile int weft_window_requests;
static struct window *windows;
static struct { uint64_t key; uint32_t count; } groups[64]; /* windows made over one group, by its key */
static struct pending *pendings;
static int pending_count, pending_space;
static pthread_mutex_t windows_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns what is known of a window, NULL for nothing. Under the lock. */
static struct window *window_of(MPI_Win handle) {
    for (struct window *w = windows; w; w = w->next)
        if (w->handle == handle) return w;
    return NULL;
}

static struct held *lock_at(struct window *w, int target) {
    return w && target >= -1 && target < w->size ? &w->locks[1 + target] : NULL;
}

/* All members make the windows over one group in the same order. */
static uint64_t name_of(uint64_t key) {
    if (key == 1) return 0; /* without a world */
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (groups[i].count && groups[i].key != key) continue;
        groups[i].key = key;
        return weft_mix_bits(key, (int)++groups[i].count) | 1;
    }
    return 0; /* more groups than are told apart: nothing is known of the window's order */
}

/* Notes a window that a call has made: with a name that all its members share, and room for its locks. */
WEFT_ASKS void weft_note_window(MPI_Win handle) {
    MPI_Group group;
    struct window *w = calloc(1, sizeof *w);
    if (!w || REAL(MPI_Win_get_group)(handle, &group) != MPI_SUCCESS) {
        free(w);
        return;
    }
    uint64_t key = weft_hash_group(group);
    if (REAL(MPI_Group_size)(group, &w->size) != MPI_SUCCESS) w->size = 0;
    REAL(MPI_Group_free)(&group);
    w->locks = calloc((size_t)w->size + 1, sizeof *w->locks);
    if (!w->locks) {
        free(w);
        return;
    }
    pthread_mutex_lock(&windows_lock);
    w->handle = handle;
    w->name = name_of(key);
    w->next = windows;
    windows = w;
    pthread_mutex_unlock(&windows_lock);
}

/* Forgets a window that a call has freed. */
void weft_forget_window(MPI_Win handle) {
    pthread_mutex_lock(&windows_lock);
    for (struct window **link = &windows, *w; (w = *link); link = &w->next)
        if (w->handle == handle) {
            *link = w->next;
            free(w->locks);
            free(w);
            break;
        }
    pthread_mutex_unlock(&windows_lock);
}

/* ---- rows ---- */
/* Writes a lock or an access of a window into the record. */
static void keep(struct weft_thread *thread, const struct weft_access *access) {
    struct weft_stream *s = &thread->windows;
    if (weft_the_record->keep) return; /* nobody replays such a run */
    if (!s->base && !weft_stream_open(weft_the_record, s, WEFT_STREAM_WINDOWS, (int)thread->slot)) weft_stop_recording();
    if (!s->base || !weft_stream_fits(s, sizeof *access)) return;
    memcpy(s->next, access, sizeof *access);
    s->next += sizeof *access;
    weft_stream_publish(s);
}

/* ---- locks ---- */
/* Notes that a lock of a target was taken. `begin`: ticks before the call. */
void weft_note_window_lock(struct weft_thread *thread, MPI_Win handle, int target, bool exclusive, uint64_t begin) {
    pthread_mutex_lock(&windows_lock);
    struct held *held = lock_at(window_of(handle), target);
    uint8_t kind = exclusive ? WEFT_ACCESS_EXCLUSIVE : WEFT_ACCESS_SHARED;
    if (held) *held = (struct held){begin, weft_ticks(weft_clock_kind), thread->accesses, thread->made, kind, false};
    thread->accesses++;
    pthread_mutex_unlock(&windows_lock);
}

/* Records a lock of a target that ends. Under the lock of the windows. */
static void unlocked(struct weft_thread *thread, struct window *w, int target) {
    struct held *held = lock_at(w, target);
    if (!held || !held->kind) return;
    if (w->name)
        keep(thread, &(struct weft_access){.window = w->name, .begin = held->begin, .held = held->held,
                                           .end = weft_ticks(weft_clock_kind), .ordinal = held->ordinal, .target = target,
                                           .made = held->made, .kind = held->kind});
    held->kind = 0;
}

/* Records that MPI_Win_unlock has returned for a target, -1 for all. */
void weft_end_window_lock(struct weft_thread *thread, MPI_Win handle, int target) {
    weft_end_atomic_accesses(thread, handle, target, false);
    pthread_mutex_lock(&windows_lock);
    unlocked(thread, window_of(handle), target);
    pthread_mutex_unlock(&windows_lock);
}

/* Returns the number of the lock that is held at a target, -1 if there is none. */
int64_t weft_find_window_lock(MPI_Win handle, int target) {
    pthread_mutex_lock(&windows_lock);
    struct window *w = window_of(handle);
    const struct held *held = lock_at(w, target);
    if (held && !held->kind) held = lock_at(w, -1);
    int64_t ordinal = held && held->kind ? (int64_t)held->ordinal : -1;
    pthread_mutex_unlock(&windows_lock);
    return ordinal;
}

/* Notes that the locks of a target (-1: of all) certainly are held, as a flush has returned. */
static void flushed(struct window *w, int target) {
    for (int t = target < 0 ? -1 : target; t < (target < 0 ? w->size : target + 1); t++) {
        struct held *held = lock_at(w, t);
        if (!held || !held->kind || held->flushed) continue;
        held->held = weft_ticks(weft_clock_kind);
        held->flushed = true;
    }
}

/* ---- accesses ---- */
/* Returns whether a datatype is a predefined one. */
static bool basic(MPI_Datatype type) {
    int integers, addresses, types, combiner;
    return REAL(MPI_Type_get_envelope)(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

/* Returns the bytes of the value of an atomic access, 0 if it does not fit into a row. */
static uint8_t value_bytes(const struct weft_did *did) {
    int size = 0;
    if (did->count <= 0 || did->count > 8 || !basic(did->type) || REAL(MPI_Type_size)(did->type, &size) != MPI_SUCCESS) return 0;
    return size > 0 && size * did->count <= 8 ? (uint8_t)(size * did->count) : 0;
}

/* Returns whether a datatype is one of MPI's integers. */
static bool is_integer(MPI_Datatype type) {
    return type == MPI_INT || type == MPI_LONG || type == MPI_LONG_LONG || type == MPI_UNSIGNED || type == MPI_UNSIGNED_LONG ||
           type == MPI_UNSIGNED_LONG_LONG || type == MPI_INT32_T || type == MPI_INT64_T || type == MPI_UINT32_T ||
           type == MPI_UINT64_T || type == MPI_SHORT || type == MPI_UNSIGNED_SHORT || type == MPI_AINT ||
           type == MPI_OFFSET || type == MPI_COUNT;
}

/* Returns how an atomic access changes the target: sum, replace, swap, not at all, or unknown. */
static uint16_t change_of(const struct weft_did *did) {
    if (did->compare) return WEFT_CHANGE_SWAP;
    if (did->op == MPI_NO_OP) return WEFT_CHANGE_NONE;
    if (!did->operand) return WEFT_CHANGE_UNKNOWN;
    if (did->op == MPI_REPLACE) return WEFT_CHANGE_REPLACE;
    return did->op == MPI_SUM && did->count == 1 && is_integer(did->type) ? WEFT_CHANGE_SUM : WEFT_CHANGE_UNKNOWN;
}

/* Whether an update may be rounded, so that its result depends on the order of updates. */
static bool rounds(const struct weft_did *did) {
    return !did->result && (did->op == MPI_SUM || did->op == MPI_PROD) && !is_integer(did->type);
}

static uint64_t value_at(const void *from, uint8_t bytes) {
    uint64_t value = 0;
    return from && from != MPI_BOTTOM && bytes && weft_copy_buffer(&value, from, bytes) ? value : 0;
}

/* Returns room for one more access that is not complete, NULL without memory. */
static struct pending *pending_new(void) {
    if (pending_count == pending_space) {
        int space = pending_space ? pending_space * 2 : 64;
        struct pending *grown = realloc(pendings, sizeof *grown * (size_t)space);
        if (!grown) return NULL;
        pendings = grown;
        pending_space = space;
    }
    return &pendings[pending_count++];
}

/* Notes an atomic access that a call has begun; it is recorded once it is complete. */
void weft_note_atomic_access(struct weft_thread *thread, const struct weft_did *did) {
    uint32_t ordinal = thread->accesses++;
    if (did->target < 0 || !weft_recording) return; /* MPI_PROC_NULL */
    pthread_mutex_lock(&windows_lock);
    struct window *w = window_of(did->window);
    if (w && did->result) w->fetched = true;
    uint8_t bytes = w && w->fetched ? value_bytes(did) : 0;
    struct pending *p = w && w->name && (did->result || bytes || rounds(did)) ? pending_new() : NULL;
    if (p) {
        *p = (struct pending){.window = did->window, .result = did->result, .request = did->request, .requested = did->requested};
        p->access = (struct weft_access){
            .window = w->name, .begin = did->begin, .held = weft_ticks(weft_clock_kind), .place = did->place, .ordinal = ordinal, .target = did->target,
            .made = thread->made, .kind = did->result ? WEFT_ACCESS_FETCH : WEFT_ACCESS_UPDATE, .bytes = bytes,
            .change = change_of(did), .compare = value_at(did->compare, bytes)};
        if (p->access.change != WEFT_CHANGE_NONE) p->access.operand = value_at(did->operand, bytes); /* else not significant */
        if (did->requested) weft_window_requests++;
    }
    pthread_mutex_unlock(&windows_lock);
}

/* Records an atomic access that is complete, with the value that it found. */
static void finish(struct weft_thread *thread, struct pending *p) {
    struct weft_access *a = &p->access;
    if (a->kind == WEFT_ACCESS_FETCH && a->bytes) {
        if (UNLIKELY(weft_replaying)) weft_replay_fetched_value(a->made, a->ordinal, p->result, a->bytes);
        a->result = value_at(p->result, a->bytes);
    }
    a->end = weft_ticks(weft_clock_kind);
    if (p->requested) weft_window_requests--;
    keep(thread, a);
}

/* Records the atomic accesses to a target (-1: all) that a call has completed. `only_here`: at the origin only. */
void weft_end_atomic_accesses(struct weft_thread *thread, MPI_Win handle, int target, bool only_here) {
    pthread_mutex_lock(&windows_lock);
    int kept = 0;
    for (int i = 0; i < pending_count; i++) {
        struct pending *p = &pendings[i];
        bool there = p->window == handle && (target < 0 || p->access.target == target);
        if (there && !(only_here && p->access.kind == WEFT_ACCESS_UPDATE)) finish(thread, p);
        else pendings[kept++] = *p;
    }
    pending_count = kept;
    struct window *w = window_of(handle);
    if (w) flushed(w, target);
    pthread_mutex_unlock(&windows_lock);
}

/* Records the atomic access whose request is complete, unless it only is complete at the origin. */
void weft_end_requested_access(struct weft_thread *thread, MPI_Request request) {
    if (!thread) return;
    pthread_mutex_lock(&windows_lock);
    for (int i = 0; i < pending_count; i++)
        if (pendings[i].requested && pendings[i].request == request) {
            if (pendings[i].access.kind == WEFT_ACCESS_FETCH) { /* an update is only then done here, not there */
                finish(thread, &pendings[i]);
                memmove(&pendings[i], &pendings[i + 1], sizeof *pendings * (size_t)(--pending_count - i));
            } else {
                pendings[i].requested = false;
                weft_window_requests--;
            }
            break;
        }
    pthread_mutex_unlock(&windows_lock);
}

/* ---- level outcomes (at level trace the generated wrappers say the same) ---- */
#define MADE(call)                                                                                                 \
    ENTER;                                                                                                                \
    int code = call;                                                                                                      \
    if (thread && code == MPI_SUCCESS) weft_note_window(*win);                                                            \
    return code;

WEFT_OUTCOME_WRAPPER(MPI_Win_create)(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    MADE(REAL(MPI_Win_create)(base, size, unit, info, comm, win))
}
WEFT_OUTCOME_WRAPPER(MPI_Win_allocate)(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win) {
    MADE(REAL(MPI_Win_allocate)(size, unit, info, comm, base, win))
}
WEFT_OUTCOME_WRAPPER(MPI_Win_allocate_shared)(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win) {
    MADE(REAL(MPI_Win_allocate_shared)(size, unit, info, comm, base, win))
}
WEFT_OUTCOME_WRAPPER(MPI_Win_create_dynamic)(MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    MADE(REAL(MPI_Win_create_dynamic)(info, comm, win))
}
#ifdef HAVE_MPI_Win_create_c
WEFT_OUTCOME_WRAPPER(MPI_Win_create_c)(void *base, MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    MADE(REAL(MPI_Win_create_c)(base, size, unit, info, comm, win))
}
WEFT_OUTCOME_WRAPPER(MPI_Win_allocate_c)(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win) {
    MADE(REAL(MPI_Win_allocate_c)(size, unit, info, comm, base, win))
}
WEFT_OUTCOME_WRAPPER(MPI_Win_allocate_shared_c)(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win) {
    MADE(REAL(MPI_Win_allocate_shared_c)(size, unit, info, comm, base, win))
}
#endif

/* Forgets the window that the call frees. */
WEFT_OUTCOME_WRAPPER(MPI_Win_free)(MPI_Win *win) {
    ENTER;
    MPI_Win before = *win;
    int code = REAL(MPI_Win_free)(win);
    if (thread && code == MPI_SUCCESS) weft_forget_window(before);
    return code;
}

/* Notes the lock that the call takes, with its times. */
WEFT_OUTCOME_WRAPPER(MPI_Win_lock)(int type, int rank, int assertion, MPI_Win win) {
    ENTER;
    uint64_t begin = weft_ticks(weft_clock_kind);
    int code = REAL(MPI_Win_lock)(type, rank, assertion, win);
    bool exclusive = type == MPI_LOCK_EXCLUSIVE && !(assertion & MPI_MODE_NOCHECK);
    if (thread && code == MPI_SUCCESS) weft_note_window_lock(thread, win, rank, exclusive, begin);
    return code;
}

/* Notes the locks that the call takes, with its times. */
WEFT_OUTCOME_WRAPPER(MPI_Win_lock_all)(int assertion, MPI_Win win) {
    ENTER;
    uint64_t begin = weft_ticks(weft_clock_kind);
    int code = REAL(MPI_Win_lock_all)(assertion, win);
    if (thread && code == MPI_SUCCESS) weft_note_window_lock(thread, win, -1, false, begin);
    return code;
}

/* Calls on, and then keeps what is said of the access. */
#define ACCESSED(call, ...)                                                                                                \
    ENTER;                                                                                                                \
    uint64_t begin = weft_ticks(weft_clock_kind);                                                                         \
    int code = call;                                                                                                      \
    if (thread && code == MPI_SUCCESS)                                                                                    \
        weft_note_atomic_access(thread, &(struct weft_did){.window = win, .target = rank, .place = (int64_t)at, .begin = begin,  \
                                                        .operand = origin, __VA_ARGS__});                                 \
    return code;

WEFT_OUTCOME_WRAPPER(MPI_Fetch_and_op)(const void *origin, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op, MPI_Win win) {
    ACCESSED(REAL(MPI_Fetch_and_op)(origin, result, type, rank, at, op, win), .type = type, .count = 1, .op = op, .result = result)
}

WEFT_OUTCOME_WRAPPER(MPI_Compare_and_swap)(const void *origin, const void *compare, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Win win) {
    ACCESSED(REAL(MPI_Compare_and_swap)(origin, compare, result, type, rank, at, win), .type = type, .count = 1,
             .compare = compare, .result = result)
}

#define UPDATE(name, count_type)                                                                                           \
    (const void *origin, count_type n, MPI_Datatype type, int rank, MPI_Aint at, count_type k, MPI_Datatype target,       \
     MPI_Op op, MPI_Win win) {                                                                                            \
        ACCESSED(REAL(name)(origin, n, type, rank, at, k, target, op, win), .type = type, .count = (int64_t)n, .op = op)  \
    }
#define UPDATE_REQUESTED(name, count_type)                                                                                 \
    (const void *origin, count_type n, MPI_Datatype type, int rank, MPI_Aint at, count_type k, MPI_Datatype target,       \
     MPI_Op op, MPI_Win win, MPI_Request *request) {                                                                      \
        ACCESSED(REAL(name)(origin, n, type, rank, at, k, target, op, win, request), .type = type, .count = (int64_t)n,   \
                 .op = op, .request = *request, .requested = true)                                                        \
    }
#define ORIGIN_AS_RESULT .operand = type == got && n == m ? origin : NULL
#define FETCH(name, count_type)                                                                                            \
    (const void *origin, count_type n, MPI_Datatype type, void *result, count_type m, MPI_Datatype got, int rank,         \
     MPI_Aint at, count_type k, MPI_Datatype target, MPI_Op op, MPI_Win win) {                                            \
        ACCESSED(REAL(name)(origin, n, type, result, m, got, rank, at, k, target, op, win), .type = got,                  \
                 .count = (int64_t)m, .op = op, .result = result, ORIGIN_AS_RESULT)                                       \
    }
#define FETCH_REQUESTED(name, count_type)                                                                                  \
    (const void *origin, count_type n, MPI_Datatype type, void *result, count_type m, MPI_Datatype got, int rank,         \
     MPI_Aint at, count_type k, MPI_Datatype target, MPI_Op op, MPI_Win win, MPI_Request *request) {                      \
        ACCESSED(REAL(name)(origin, n, type, result, m, got, rank, at, k, target, op, win, request), .type = got,         \
                 .count = (int64_t)m, .op = op, .result = result, .request = *request, .requested = true, ORIGIN_AS_RESULT)  \
    }
WEFT_OUTCOME_WRAPPER(MPI_Accumulate) UPDATE(MPI_Accumulate, int)
WEFT_OUTCOME_WRAPPER(MPI_Raccumulate) UPDATE_REQUESTED(MPI_Raccumulate, int)
WEFT_OUTCOME_WRAPPER(MPI_Get_accumulate) FETCH(MPI_Get_accumulate, int)
WEFT_OUTCOME_WRAPPER(MPI_Rget_accumulate) FETCH_REQUESTED(MPI_Rget_accumulate, int)
#ifdef HAVE_MPI_Accumulate_c
WEFT_OUTCOME_WRAPPER(MPI_Accumulate_c) UPDATE(MPI_Accumulate_c, MPI_Count)
WEFT_OUTCOME_WRAPPER(MPI_Raccumulate_c) UPDATE_REQUESTED(MPI_Raccumulate_c, MPI_Count)
WEFT_OUTCOME_WRAPPER(MPI_Get_accumulate_c) FETCH(MPI_Get_accumulate_c, MPI_Count)
WEFT_OUTCOME_WRAPPER(MPI_Rget_accumulate_c) FETCH_REQUESTED(MPI_Rget_accumulate_c, MPI_Count)
#endif

#define SYNCED(parameters, call, keeps)                                                                                    \
    parameters {                                                                                                          \
        ENTER;                                                                                                            \
        int code = call;                                                                                                  \
        if (thread && code == MPI_SUCCESS) keeps;                                                                         \
        return code;                                                                                                      \
    }
WEFT_OUTCOME_WRAPPER(MPI_Win_flush) SYNCED((int rank, MPI_Win win), REAL(MPI_Win_flush)(rank, win), weft_end_atomic_accesses(thread, win, rank, false))
WEFT_OUTCOME_WRAPPER(MPI_Win_flush_all) SYNCED((MPI_Win win), REAL(MPI_Win_flush_all)(win), weft_end_atomic_accesses(thread, win, -1, false))
WEFT_OUTCOME_WRAPPER(MPI_Win_flush_local) SYNCED((int rank, MPI_Win win), REAL(MPI_Win_flush_local)(rank, win), weft_end_atomic_accesses(thread, win, rank, true))
WEFT_OUTCOME_WRAPPER(MPI_Win_flush_local_all) SYNCED((MPI_Win win), REAL(MPI_Win_flush_local_all)(win), weft_end_atomic_accesses(thread, win, -1, true))
WEFT_OUTCOME_WRAPPER(MPI_Win_unlock) SYNCED((int rank, MPI_Win win), REAL(MPI_Win_unlock)(rank, win), weft_end_window_lock(thread, win, rank))
WEFT_OUTCOME_WRAPPER(MPI_Win_unlock_all) SYNCED((MPI_Win win), REAL(MPI_Win_unlock_all)(win), weft_end_window_lock(thread, win, -1))
WEFT_OUTCOME_WRAPPER(MPI_Win_complete) SYNCED((MPI_Win win), REAL(MPI_Win_complete)(win), weft_end_atomic_accesses(thread, win, -1, false))
WEFT_OUTCOME_WRAPPER(MPI_Win_fence) SYNCED((int assertion, MPI_Win win), REAL(MPI_Win_fence)(assertion, win), weft_end_atomic_accesses(thread, win, -1, false))
