/* What is decided at the target of a window: which lock came first, what an atomic access found there.
 *
 * The record has no call there, so each rank keeps its own side (struct weft_access in format.h): between which times
 * it had the lock, or the place was looked at and changed, and what was found. The host's clock and the values found
 * tell the order (weft.replay.turns). Nothing is sent, no call waits, and no buffer is written to but by a replay.
 */
#include "peek.h"
#include "wrap.h"

struct target_lock { uint64_t begin, held; uint32_t ordinal, made; uint8_t kind; bool flushed; };

struct window {
    MPI_Win handle;
    uint64_t name;
    int size;
    bool fetched;             /* this process has fetched from it: its updates are kept too */
    struct target_lock *locks;       /* [1 + target], [0]: MPI_Win_lock_all; kind 0: none */
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

/* Return what is known of a window, NULL for nothing. Needs windows_lock. */
static struct window *find_window(MPI_Win handle) {
    for (struct window *w = windows; w; w = w->next)
        if (w->handle == handle) return w;
    return NULL;
}

/* Return the state of this process's lock of a target (-1: of all targets), NULL for a target that the window does not
 * have. */
static struct target_lock *find_target_lock(struct window *known, int target) {
    return known && target >= -1 && target < known->size ? &known->locks[1 + target] : NULL;
}

/* Return a name for a window that all its members give it, as they make the windows over one group in the same order; 0
 * for none. `key`: hash of the group. */
static uint64_t make_window_name(uint64_t key) {
    if (key == 1) return 0; /* without a world */
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (groups[i].count && groups[i].key != key) continue;
        groups[i].key = key;
        return weft_mix_bits(key, (int)++groups[i].count) | 1;
    }
    return 0; /* more groups than are told apart: nothing is known of the window's order */
}

/* Note a window that a call has made, with a name that all its members share, and room for its locks. */
WEFT_ASKS void weft_note_window(MPI_Win handle) {
    MPI_Group group;
    struct window *known = calloc(1, sizeof *known);
    if (!known || REAL(MPI_Win_get_group)(handle, &group) != MPI_SUCCESS) {
        free(known);
        return;
    }
    uint64_t key = weft_hash_group(group);
    if (REAL(MPI_Group_size)(group, &known->size) != MPI_SUCCESS) known->size = 0;
    REAL(MPI_Group_free)(&group);
    known->locks = calloc((size_t)known->size + 1, sizeof *known->locks);
    if (!known->locks) {
        free(known);
        return;
    }
    pthread_mutex_lock(&windows_lock);
    known->handle = handle;
    known->name = make_window_name(key);
    known->next = windows;
    windows = known;
    pthread_mutex_unlock(&windows_lock);
}

/* Forget a window that a call has freed. */
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
/* Write a lock or an access of a window into the record. */
static void record_window_access(struct weft_thread *thread, const struct weft_access *access) {
    struct weft_stream *stream = &thread->windows;
    if (weft_the_record->keep) return; /* nobody replays such a run */
    if (!stream->base && !weft_stream_open(weft_the_record, stream, WEFT_STREAM_WINDOWS, (int)thread->slot))
        weft_stop_recording();
    if (!stream->base || !weft_stream_fits(stream, sizeof *access)) return;
    memcpy(stream->next, access, sizeof *access);
    stream->next += sizeof *access;
    weft_stream_publish(stream);
}

/* ---- locks ---- */
/* Note that a lock of a target (-1: of all targets) was taken. `begin`: ticks before the call. */
void weft_note_window_lock(struct weft_thread *thread, MPI_Win handle, int target, bool exclusive, uint64_t begin) {
    pthread_mutex_lock(&windows_lock);
    struct target_lock *lock = find_target_lock(find_window(handle), target);
    uint8_t kind = exclusive ? WEFT_ACCESS_EXCLUSIVE : WEFT_ACCESS_SHARED;
    if (lock)
        *lock = (struct target_lock){begin, weft_ticks(weft_clock_kind), thread->accesses, thread->made, kind, false};
    thread->accesses++;
    pthread_mutex_unlock(&windows_lock);
}

/* Record a lock of a target that ends. Needs windows_lock. */
static void record_lock_end(struct weft_thread *thread, struct window *known, int target) {
    struct target_lock *lock = find_target_lock(known, target);
    if (!lock || !lock->kind) return;
    if (known->name)
        record_window_access(thread, &(struct weft_access){.window = known->name,
                                                           .begin = lock->begin,
                                                           .held = lock->held,
                                                           .end = weft_ticks(weft_clock_kind),
                                                           .ordinal = lock->ordinal,
                                                           .target = target,
                                                           .made = lock->made,
                                                           .kind = lock->kind});
    lock->kind = 0;
}

/* Record that a call has ended the lock of a target, -1 for all, and the atomic accesses that it completed. */
void weft_end_window_lock(struct weft_thread *thread, MPI_Win handle, int target) {
    weft_end_atomic_accesses(thread, handle, target, false);
    pthread_mutex_lock(&windows_lock);
    record_lock_end(thread, find_window(handle), target);
    pthread_mutex_unlock(&windows_lock);
}

/* Return the ordinal of the lock that this process has at a target, also by MPI_Win_lock_all; -1 if it has none. */
int64_t weft_find_window_lock(MPI_Win handle, int target) {
    pthread_mutex_lock(&windows_lock);
    struct window *known = find_window(handle);
    const struct target_lock *lock = find_target_lock(known, target);
    if (lock && !lock->kind) lock = find_target_lock(known, -1);
    int64_t ordinal = lock && lock->kind ? (int64_t)lock->ordinal : -1;
    pthread_mutex_unlock(&windows_lock);
    return ordinal;
}

/* Note that the locks of a target (-1: of all targets) certainly are held now, as a flush has returned. Needs
 * windows_lock. */
static void confirm_target_locks(struct window *known, int target) {
    for (int locked_target = target < 0 ? -1 : target; locked_target < (target < 0 ? known->size : target + 1);
         locked_target++) {
        struct target_lock *lock = find_target_lock(known, locked_target);
        if (!lock || !lock->kind || lock->flushed) continue;
        lock->held = weft_ticks(weft_clock_kind);
        lock->flushed = true;
    }
}

/* ---- accesses ---- */
/* Return whether a datatype is a predefined one. */
static bool is_predefined_type(MPI_Datatype type) {
    int integers, addresses, types, combiner;
    return REAL(MPI_Type_get_envelope)(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

/* Return the bytes of the value of an atomic access, 0 if it does not fit into a row of the record. */
static uint8_t count_value_bytes(const struct weft_atomic_access *access) {
    int size = 0;
    if (access->count <= 0 || access->count > 8 || !is_predefined_type(access->type) ||
        REAL(MPI_Type_size)(access->type, &size) != MPI_SUCCESS)
        return 0;
    return size > 0 && size * access->count <= 8 ? (uint8_t)(size * access->count) : 0;
}

/* Return whether a datatype is one of MPI's integers. */
static bool is_integer_type(MPI_Datatype type) {
    return type == MPI_INT || type == MPI_LONG || type == MPI_LONG_LONG || type == MPI_UNSIGNED ||
           type == MPI_UNSIGNED_LONG || type == MPI_UNSIGNED_LONG_LONG || type == MPI_INT32_T || type == MPI_INT64_T ||
           type == MPI_UINT32_T || type == MPI_UINT64_T || type == MPI_SHORT || type == MPI_UNSIGNED_SHORT ||
           type == MPI_AINT || type == MPI_OFFSET || type == MPI_COUNT;
}

/* Return how an atomic access changes the target (WEFT_CHANGE_*): sum, replace, swap, not at all, or unknown. */
static uint16_t find_change_kind(const struct weft_atomic_access *access) {
    if (access->compare) return WEFT_CHANGE_SWAP;
    if (access->op == MPI_NO_OP) return WEFT_CHANGE_NONE;
    if (!access->operand) return WEFT_CHANGE_UNKNOWN;
    if (access->op == MPI_REPLACE) return WEFT_CHANGE_REPLACE;
    return access->op == MPI_SUM && access->count == 1 && is_integer_type(access->type) ? WEFT_CHANGE_SUM
                                                                                        : WEFT_CHANGE_UNKNOWN;
}

/* Return whether an update may be rounded, so that the value depends on the order of updates. */
static bool may_round(const struct weft_atomic_access *access) {
    return !access->result && (access->op == MPI_SUM || access->op == MPI_PROD) && !is_integer_type(access->type);
}

/* Return the value of `bytes` bytes at an address; 0 if it cannot be read. */
static uint64_t read_value(const void *from, uint8_t bytes) {
    uint64_t value = 0;
    return from && from != MPI_BOTTOM && bytes && weft_copy_buffer(&value, from, bytes) ? value : 0;
}

/* Return room for one more access that is not complete, NULL without memory. Needs windows_lock. */
static struct pending *make_pending_access(void) {
    if (pending_count == pending_space) {
        int space = pending_space ? pending_space * 2 : 64;
        struct pending *grown = realloc(pendings, sizeof *grown * (size_t)space);
        if (!grown) return NULL;
        pendings = grown;
        pending_space = space;
    }
    return &pendings[pending_count++];
}

/* Note an atomic access that a call has begun; it is recorded once it is complete. */
void weft_note_atomic_access(struct weft_thread *thread, const struct weft_atomic_access *access) {
    uint32_t ordinal = thread->accesses++;
    if (access->target < 0 || !weft_recording) return; /* MPI_PROC_NULL */
    pthread_mutex_lock(&windows_lock);
    struct window *known = find_window(access->window);
    if (known && access->result) known->fetched = true;
    uint8_t bytes = known && known->fetched ? count_value_bytes(access) : 0;
    struct pending *pending =
        known && known->name && (access->result || bytes || may_round(access)) ? make_pending_access() : NULL;
    if (pending) {
        *pending = (struct pending){.window = access->window,
                                    .result = access->result,
                                    .request = access->request,
                                    .requested = access->requested};
        pending->access = (struct weft_access){.window = known->name,
                                               .begin = access->begin,
                                               .held = weft_ticks(weft_clock_kind),
                                               .place = access->place,
                                               .ordinal = ordinal,
                                               .target = access->target,
                                               .made = thread->made,
                                               .kind = access->result ? WEFT_ACCESS_FETCH : WEFT_ACCESS_UPDATE,
                                               .bytes = bytes,
                                               .change = find_change_kind(access),
                                               .compare = read_value(access->compare, bytes)};
        if (pending->access.change != WEFT_CHANGE_NONE)
            pending->access.operand = read_value(access->operand, bytes); /* else not significant */
        if (access->requested) weft_window_requests++;
    }
    pthread_mutex_unlock(&windows_lock);
}

/* Record an atomic access that is complete, with the value that it found; in a replay that value is first set to the
 * recorded one. Needs windows_lock. */
static void record_complete_access(struct weft_thread *thread, struct pending *pending) {
    struct weft_access *access = &pending->access;
    if (access->kind == WEFT_ACCESS_FETCH && access->bytes) {
        if (UNLIKELY(weft_replaying))
            weft_replay_fetched_value(access->made, access->ordinal, pending->result, access->bytes);
        access->result = read_value(pending->result, access->bytes);
    }
    access->end = weft_ticks(weft_clock_kind);
    if (pending->requested) weft_window_requests--;
    record_window_access(thread, access);
}

/* Record the atomic accesses to a target (-1: to all targets) that a call has completed. `only_here`: the call
 * completes them at the origin only. */
void weft_end_atomic_accesses(struct weft_thread *thread, MPI_Win handle, int target, bool only_here) {
    pthread_mutex_lock(&windows_lock);
    int kept = 0;
    for (int i = 0; i < pending_count; i++) {
        struct pending *pending = &pendings[i];
        bool there = pending->window == handle && (target < 0 || pending->access.target == target);
        if (there && !(only_here && pending->access.kind == WEFT_ACCESS_UPDATE))
            record_complete_access(thread, pending);
        else pendings[kept++] = *pending;
    }
    pending_count = kept;
    struct window *known = find_window(handle);
    if (known) confirm_target_locks(known, target);
    pthread_mutex_unlock(&windows_lock);
}

/* Record the atomic access whose request is complete; an update is then complete only at the origin, and is recorded
 * later. */
void weft_end_requested_access(struct weft_thread *thread, MPI_Request request) {
    if (!thread) return;
    pthread_mutex_lock(&windows_lock);
    for (int i = 0; i < pending_count; i++)
        if (pendings[i].requested && pendings[i].request == request) {
            if (pendings[i].access.kind == WEFT_ACCESS_FETCH) { /* an update is only then done here, not there */
                record_complete_access(thread, &pendings[i]);
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
/* Make a window, and note it. */
#define MADE(call)                                                                                                        \
    ENTER;                                                                                                                \
    int code = call;                                                                                                      \
    if (thread && code == MPI_SUCCESS) weft_note_window(*win);                                                            \
    return code;

/* Make a window, and note it. */
WEFT_OUTCOME_WRAPPER(MPI_Win_create)(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win) {
    MADE(REAL(MPI_Win_create)(base, size, unit, info, comm, win))
}
/* Make a window, and note it. */
WEFT_OUTCOME_WRAPPER(MPI_Win_allocate)(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win) {
    MADE(REAL(MPI_Win_allocate)(size, unit, info, comm, base, win))
}
/* Make a window, and note it. */
WEFT_OUTCOME_WRAPPER(MPI_Win_allocate_shared)(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win) {
    MADE(REAL(MPI_Win_allocate_shared)(size, unit, info, comm, base, win))
}
/* Make a window, and note it. */
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

/* Free a window, and forget it. */
WEFT_OUTCOME_WRAPPER(MPI_Win_free)(MPI_Win *win) {
    ENTER;
    MPI_Win before = *win;
    int code = REAL(MPI_Win_free)(win);
    if (thread && code == MPI_SUCCESS) weft_forget_window(before);
    return code;
}

/* Lock a target, and note the lock with its times. */
WEFT_OUTCOME_WRAPPER(MPI_Win_lock)(int type, int rank, int assertion, MPI_Win win) {
    ENTER;
    uint64_t begin = weft_ticks(weft_clock_kind);
    int code = REAL(MPI_Win_lock)(type, rank, assertion, win);
    bool exclusive = type == MPI_LOCK_EXCLUSIVE && !(assertion & MPI_MODE_NOCHECK);
    if (thread && code == MPI_SUCCESS) weft_note_window_lock(thread, win, rank, exclusive, begin);
    return code;
}

/* Lock all targets, and note the locks with their times. */
WEFT_OUTCOME_WRAPPER(MPI_Win_lock_all)(int assertion, MPI_Win win) {
    ENTER;
    uint64_t begin = weft_ticks(weft_clock_kind);
    int code = REAL(MPI_Win_lock_all)(assertion, win);
    if (thread && code == MPI_SUCCESS) weft_note_window_lock(thread, win, -1, false, begin);
    return code;
}

/* Make an atomic access, and note it (the fields of struct weft_atomic_access follow). */
#define ACCESSED(call, ...)                                                                                               \
    ENTER;                                                                                                                \
    uint64_t begin = weft_ticks(weft_clock_kind);                                                                         \
    int code = call;                                                                                                      \
    if (thread && code == MPI_SUCCESS)                                                                                    \
        weft_note_atomic_access(thread, &(struct weft_atomic_access){.window = win, .target = rank, .place = (int64_t)at, .begin = begin,\
                                                        .operand = origin, __VA_ARGS__});                                 \
    return code;

/* Make the access, and note it for its completion. */
WEFT_OUTCOME_WRAPPER(MPI_Fetch_and_op)(const void *origin, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op, MPI_Win win) {
    ACCESSED(REAL(MPI_Fetch_and_op)(origin, result, type, rank, at, op, win), .type = type, .count = 1, .op = op, .result = result)
}

/* Make the access, and note it for its completion. */
WEFT_OUTCOME_WRAPPER(MPI_Compare_and_swap)(const void *origin, const void *compare, void *result, MPI_Datatype type, int rank, MPI_Aint at, MPI_Win win) {
    ACCESSED(REAL(MPI_Compare_and_swap)(origin, compare, result, type, rank, at, win), .type = type, .count = 1,
             .compare = compare, .result = result)
}

#define UPDATE(name, count_type)                                                                                          \
    (const void *origin, count_type n, MPI_Datatype type, int rank, MPI_Aint at, count_type k, MPI_Datatype target,       \
     MPI_Op op, MPI_Win win) {                                                                                            \
        ACCESSED(REAL(name)(origin, n, type, rank, at, k, target, op, win), .type = type, .count = (int64_t)n, .op = op)  \
    }
#define UPDATE_REQUESTED(name, count_type)                                                                                \
    (const void *origin, count_type n, MPI_Datatype type, int rank, MPI_Aint at, count_type k, MPI_Datatype target,       \
     MPI_Op op, MPI_Win win, MPI_Request *request) {                                                                      \
        ACCESSED(REAL(name)(origin, n, type, rank, at, k, target, op, win, request), .type = type, .count = (int64_t)n,   \
                 .op = op, .request = *request, .requested = true)                                                        \
    }
#define ORIGIN_AS_RESULT .operand = type == got && n == m ? origin : NULL
#define FETCH(name, count_type)                                                                                           \
    (const void *origin, count_type n, MPI_Datatype type, void *result, count_type m, MPI_Datatype got, int rank,         \
     MPI_Aint at, count_type k, MPI_Datatype target, MPI_Op op, MPI_Win win) {                                            \
        ACCESSED(REAL(name)(origin, n, type, result, m, got, rank, at, k, target, op, win), .type = got,                  \
                 .count = (int64_t)m, .op = op, .result = result, ORIGIN_AS_RESULT)                                       \
    }
#define FETCH_REQUESTED(name, count_type)                                                                                 \
    (const void *origin, count_type n, MPI_Datatype type, void *result, count_type m, MPI_Datatype got, int rank,         \
     MPI_Aint at, count_type k, MPI_Datatype target, MPI_Op op, MPI_Win win, MPI_Request *request) {                      \
        ACCESSED(REAL(name)(origin, n, type, result, m, got, rank, at, k, target, op, win, request), .type = got,         \
                 .count = (int64_t)m, .op = op, .result = result, .request = *request, .requested = true, ORIGIN_AS_RESULT)\
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

/* Make a call that completes accesses, and record these. */
#define SYNCED(parameters, call, keeps)                                                                                   \
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
