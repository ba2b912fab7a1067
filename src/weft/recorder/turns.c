/* Turns: a replay's locks of windows and its atomic accesses come in the recorded order (weft.replay.turns).
 *
 * The ranks of one host map one file with two numbers a channel: how many have had their turn, and how many of these
 * changed something. An access that takes turns is complete at its target (flushed) before the next one's turn comes.
 * Where an order cannot be kept (ranks on several hosts, a program that makes the next turn wait for itself), the
 * results of fetches are still those of the record.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <time.h>

#include "peek.h"
#include "replay.h"

static struct weft_plan_channel *channels;
static uint64_t channel_count;
static volatile int turn_missed; /* a turn never came: the others are not waited for as long */
enum { LONG_WAIT = 5000, SHORT_WAIT = 50 }; /* ms without any turn taken in a channel until one goes out of turn */

/* Opens the counters that all ranks of this host share, if the plan has turns of windows. */
WEFT_ASKS void weft_map_turn_counters(const char *folder) {
    int all = 0, here = 0;
    uint64_t size = 0;
    MPI_Comm host = MPI_COMM_NULL;
    if (!(weft_plan->flags & WEFT_PLAN_TURNS)) return;
    if (REAL(MPI_Comm_split_type)(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS) return;
    REAL(MPI_Comm_size)(host, &here);
    REAL(MPI_Comm_size)(MPI_COMM_WORLD, &all);
    REAL(MPI_Comm_free)(&host);
    if (here != all) return;
    channels = weft_map_plan_file(folder, "turns", 0, PROT_READ | PROT_WRITE, &size);
    channel_count = size / sizeof *channels;
}

/* The first row of a lock or access, NULL for one that is not in the plan; the others of the ordinal are behind it. */
static const struct weft_plan_turn *row_of(const struct weft_replay *r, uint32_t ordinal) {
    uint64_t low = 0, high = r->turn_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (r->turns[middle].ordinal < ordinal) low = middle + 1;
        else high = middle;
    }
    return low < r->turn_count && r->turns[low].ordinal == ordinal ? &r->turns[low] : NULL;
}

static struct weft_plan_channel *channel_of(const struct weft_plan_turn *t) {
    return t->kind != WEFT_TURN_NONE && channels && t->channel < channel_count ? &channels[t->channel] : NULL;
}

/* Returns the time of the monotonic clock. */
static int64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Ranks that may be stopped are waited for, as long as it takes. */
static bool patience_ends(int64_t since) {
    if (weft_plan->flags & WEFT_PLAN_BOUNDED || milliseconds() - since < (turn_missed ? SHORT_WAIT : LONG_WAIT)) return false;
    turn_missed = 1;
    return true;
}

/* Waits until a lock or an atomic access is next in the recorded order, or patience ends. */
static void await(const struct weft_plan_turn *t) {
    struct weft_plan_channel *c = channel_of(t);
    uint32_t seen = UINT32_MAX;
    int64_t since = 0;
    for (unsigned polls = 0; c; weft_pause_between_polls(&polls)) {
        uint32_t all = __atomic_load_n(&c->all, __ATOMIC_ACQUIRE);
        if ((t->kind == WEFT_TURN_READS ? __atomic_load_n(&c->changes, __ATOMIC_ACQUIRE) : all) >= t->needed) return;
        weft_let_mpi_progress(); /* the one that is awaited may need this rank's part in it */
        if (polls <= WEFT_AWAKE) continue;
        if (all != seen) {
            seen = all;
            since = milliseconds();
        } else if (patience_ends(since)) return;
    }
}

/* Counts a lock or an atomic access, so that the next one in the recorded order may go on. */
static void taken(const struct weft_plan_turn *t) {
    struct weft_plan_channel *c = channel_of(t);
    if (!c) return;
    if (t->kind == WEFT_TURN_CHANGES) __atomic_add_fetch(&c->changes, 1, __ATOMIC_ACQ_REL);
    __atomic_add_fetch(&c->all, 1, __ATOMIC_ACQ_REL);
}

/* For every row of an ordinal of the calling thread. */
static void each(uint32_t ordinal, void (*what)(const struct weft_plan_turn *)) {
    const struct weft_replay *r = weft_find_own_replay();
    const struct weft_plan_turn *t = r ? row_of(r, ordinal) : NULL;
    for (; t && t < r->turns + r->turn_count && t->ordinal == ordinal; t++) what(t);
}

/* Puts the recorded result of an atomic access into the program's memory. */
void weft_replay_fetched_value(uint32_t made, uint32_t ordinal, void *result, uint8_t bytes) {
    const struct weft_replay *r = weft_self && weft_self->made == made ? weft_find_own_replay() : NULL;
    const struct weft_plan_turn *t = r ? row_of(r, ordinal) : NULL;
    if (t && t->bytes == bytes) weft_write_buffer(result, &t->result, bytes);
}

/* ---- locks ---- */
WEFT_REPLAY_CALL(MPI_Win_lock)(int type, int rank, int assertion, MPI_Win win) {
    each(weft_self->accesses, await);
    return REAL(MPI_Win_lock)(type, rank, assertion, win);
}

WEFT_REPLAY_CALL(MPI_Win_lock_all)(int assertion, MPI_Win win) {
    each(weft_self->accesses, await);
    return REAL(MPI_Win_lock_all)(assertion, win);
}

/* Lets the next lock of the target in the recorded order go on. */
WEFT_REPLAY_CALL(MPI_Win_unlock)(int rank, MPI_Win win) {
    int64_t ordinal = weft_find_window_lock(win, rank);
    int code = REAL(MPI_Win_unlock)(rank, win);
    if (ordinal >= 0) each((uint32_t)ordinal, taken);
    return code;
}

/* Lets the next locks of all targets in the recorded order go on. */
WEFT_REPLAY_CALL(MPI_Win_unlock_all)(MPI_Win win) {
    int64_t ordinal = weft_find_window_lock(win, -1);
    int code = REAL(MPI_Win_unlock_all)(win);
    if (ordinal >= 0) each((uint32_t)ordinal, taken);
    return code;
}

/* ---- atomic accesses: in an epoch of locks each for itself, in other epochs nothing is known before their end ---- */
/* Returns the turn of an atomic access to a target that this thread has locked, NULL for none. */
static const struct weft_plan_turn *turn(MPI_Win win, int target) {
    const struct weft_replay *r = target >= 0 ? weft_find_own_replay() : NULL;
    const struct weft_plan_turn *t = r ? row_of(r, weft_self->accesses) : NULL;
    return t && channel_of(t) && weft_find_window_lock(win, target) >= 0 ? t : NULL;
}

#define IN_TURN(call)                                                                                                      \
    const struct weft_plan_turn *t = turn(win, target);                                                                   \
    if (!t) return call;                                                                                                  \
    await(t);                                                                                                             \
    int code = call;                                                                                                      \
    if (code == MPI_SUCCESS) code = REAL(MPI_Win_flush)(target, win);                                                     \
    taken(t);                                                                                                             \
    return code;

WEFT_REPLAY_CALL(MPI_Fetch_and_op)(const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Op op, MPI_Win win) {
    IN_TURN(REAL(MPI_Fetch_and_op)(origin, result, type, target, at, op, win))
}

WEFT_REPLAY_CALL(MPI_Compare_and_swap)(const void *origin, const void *compare, void *result, MPI_Datatype type, int target,
                                       MPI_Aint at, MPI_Win win) {
    IN_TURN(REAL(MPI_Compare_and_swap)(origin, compare, result, type, target, at, win))
}

#define UPDATE(name, type)                                                                                                 \
    (const void *from, type n, MPI_Datatype given, int target, MPI_Aint at, type k, MPI_Datatype there, MPI_Op op, MPI_Win win) {  \
        IN_TURN(REAL(name)(from, n, given, target, at, k, there, op, win))                                                \
    }
#define UPDATE_REQUESTED(name, type)                                                                                       \
    (const void *from, type n, MPI_Datatype given, int target, MPI_Aint at, type k, MPI_Datatype there, MPI_Op op,        \
     MPI_Win win, MPI_Request *request) {                                                                                 \
        IN_TURN(REAL(name)(from, n, given, target, at, k, there, op, win, request))                                       \
    }
#define FETCH(name, type)                                                                                                  \
    (const void *from, type n, MPI_Datatype given, void *result, type m, MPI_Datatype got, int target, MPI_Aint at,       \
     type k, MPI_Datatype there, MPI_Op op, MPI_Win win) {                                                                \
        IN_TURN(REAL(name)(from, n, given, result, m, got, target, at, k, there, op, win))                                \
    }
#define FETCH_REQUESTED(name, type)                                                                                        \
    (const void *from, type n, MPI_Datatype given, void *result, type m, MPI_Datatype got, int target, MPI_Aint at,       \
     type k, MPI_Datatype there, MPI_Op op, MPI_Win win, MPI_Request *request) {                                          \
        IN_TURN(REAL(name)(from, n, given, result, m, got, target, at, k, there, op, win, request))                       \
    }
WEFT_REPLAY_CALL(MPI_Accumulate) UPDATE(MPI_Accumulate, int)
WEFT_REPLAY_CALL(MPI_Raccumulate) UPDATE_REQUESTED(MPI_Raccumulate, int)
WEFT_REPLAY_CALL(MPI_Get_accumulate) FETCH(MPI_Get_accumulate, int)
WEFT_REPLAY_CALL(MPI_Rget_accumulate) FETCH_REQUESTED(MPI_Rget_accumulate, int)
#ifdef HAVE_MPI_Accumulate_c
WEFT_REPLAY_CALL(MPI_Accumulate_c) UPDATE(MPI_Accumulate_c, MPI_Count)
WEFT_REPLAY_CALL(MPI_Raccumulate_c) UPDATE_REQUESTED(MPI_Raccumulate_c, MPI_Count)
WEFT_REPLAY_CALL(MPI_Get_accumulate_c) FETCH(MPI_Get_accumulate_c, MPI_Count)
WEFT_REPLAY_CALL(MPI_Rget_accumulate_c) FETCH_REQUESTED(MPI_Rget_accumulate_c, MPI_Count)
#endif
