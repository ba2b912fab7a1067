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

/* Map the counters of turns that all ranks of this host share, if the plan has turns of windows and all ranks are on
 * this host. */
WEFT_ASKS void weft_map_turn_counters(const char *folder) {
    int rank_count = 0, host_rank_count = 0;
    uint64_t size = 0;
    MPI_Comm host = MPI_COMM_NULL;
    if (!(weft_plan->flags & WEFT_PLAN_TURNS)) return;
    if (REAL(MPI_Comm_split_type)(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS) return;
    REAL(MPI_Comm_size)(host, &host_rank_count);
    REAL(MPI_Comm_size)(MPI_COMM_WORLD, &rank_count);
    REAL(MPI_Comm_free)(&host);
    if (host_rank_count != rank_count) return;
    channels = weft_map_plan_file(folder, "turns", 0, PROT_READ | PROT_WRITE, &size);
    channel_count = size / sizeof *channels;
}

/* Return the first row of the plan for a lock or access of the thread, by its ordinal among these; NULL for one that is
 * not in the plan. Further rows of the ordinal are behind it (MPI_Win_lock_all has one for each target). */
static const struct weft_plan_turn *find_turn_row(const struct weft_replay *replay, uint32_t ordinal) {
    uint64_t low = 0, high = replay->turn_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (replay->turns[middle].ordinal < ordinal) low = middle + 1;
        else high = middle;
    }
    return low < replay->turn_count && replay->turns[low].ordinal == ordinal ? &replay->turns[low] : NULL;
}

/* Return the counters of a turn's channel, NULL if it takes no turns. */
static struct weft_plan_channel *find_channel(const struct weft_plan_turn *turn) {
    return turn->kind != WEFT_TURN_NONE && channels && turn->channel < channel_count ? &channels[turn->channel] : NULL;
}

/* Return the time of the monotonic clock, in milliseconds. */
static int64_t read_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Return whether a wait since the time `since`, in ms, is so long that the turn is left out; the waits after such a one
 * are shorter. Ranks that a debugger may stop are waited for as long as it takes. */
static bool is_wait_too_long(int64_t since) {
    if (weft_plan->flags & WEFT_PLAN_BOUNDED || read_milliseconds() - since < (turn_missed ? SHORT_WAIT : LONG_WAIT))
        return false;
    turn_missed = 1;
    return true;
}

/* Wait until a lock or an atomic access is next in the recorded order, or the wait is too long. */
static void await_turn_of_access(const struct weft_plan_turn *turn) {
    struct weft_plan_channel *channel = find_channel(turn);
    uint32_t last_count = UINT32_MAX;
    int64_t since = 0;
    for (unsigned polls = 0; channel; weft_pause_between_polls(&polls)) {
        uint32_t count = __atomic_load_n(&channel->all, __ATOMIC_ACQUIRE);
        if ((turn->kind == WEFT_TURN_READS ? __atomic_load_n(&channel->changes, __ATOMIC_ACQUIRE) : count) >=
            turn->needed)
            return;
        weft_let_mpi_progress(); /* the one that is awaited may need this rank's part in it */
        if (polls <= WEFT_AWAKE) continue;
        if (count != last_count) {
            last_count = count;
            since = read_milliseconds();
        } else if (is_wait_too_long(since)) return;
    }
}

/* Count a lock or an atomic access as done, so that the next one in the recorded order may go on. */
static void count_finished_turn(const struct weft_plan_turn *turn) {
    struct weft_plan_channel *channel = find_channel(turn);
    if (!channel) return;
    if (turn->kind == WEFT_TURN_CHANGES) __atomic_add_fetch(&channel->changes, 1, __ATOMIC_ACQ_REL);
    __atomic_add_fetch(&channel->all, 1, __ATOMIC_ACQ_REL);
}

/* Call a function for every row of the plan for a lock of the calling thread; MPI_Win_lock_all has a row for each
 * target. */
static void for_each_turn(uint32_t ordinal, void (*action)(const struct weft_plan_turn *)) {
    const struct weft_replay *replay = weft_find_own_replay();
    const struct weft_plan_turn *turn = replay ? find_turn_row(replay, ordinal) : NULL;
    for (; turn && turn < replay->turns + replay->turn_count && turn->ordinal == ordinal; turn++) action(turn);
}

/* Put the recorded result of an atomic access into the program's memory. `made`: the number of the thread that made it,
 * which must be the calling one; `ordinal`: of the access in that thread. */
void weft_replay_fetched_value(uint32_t made, uint32_t ordinal, void *result, uint8_t bytes) {
    const struct weft_replay *replay = weft_self && weft_self->made == made ? weft_find_own_replay() : NULL;
    const struct weft_plan_turn *turn = replay ? find_turn_row(replay, ordinal) : NULL;
    if (turn && turn->bytes == bytes) weft_write_buffer(result, &turn->result, bytes);
}

/* ---- locks ---- */
/* Lock a target once that lock is next in the recorded order. */
WEFT_REPLAY_CALL(MPI_Win_lock)(int type, int rank, int assertion, MPI_Win win) {
    for_each_turn(weft_self->accesses, await_turn_of_access);
    return REAL(MPI_Win_lock)(type, rank, assertion, win);
}

/* Lock all targets once each of these locks is next in the recorded order. */
WEFT_REPLAY_CALL(MPI_Win_lock_all)(int assertion, MPI_Win win) {
    for_each_turn(weft_self->accesses, await_turn_of_access);
    return REAL(MPI_Win_lock_all)(assertion, win);
}

/* Unlock a target, so that the next lock in the recorded order may go on. */
WEFT_REPLAY_CALL(MPI_Win_unlock)(int rank, MPI_Win win) {
    int64_t ordinal = weft_find_window_lock(win, rank);
    int code = REAL(MPI_Win_unlock)(rank, win);
    if (ordinal >= 0) for_each_turn((uint32_t)ordinal, count_finished_turn);
    return code;
}

/* Unlock all targets, so that the next locks in the recorded order may go on. */
WEFT_REPLAY_CALL(MPI_Win_unlock_all)(MPI_Win win) {
    int64_t ordinal = weft_find_window_lock(win, -1);
    int code = REAL(MPI_Win_unlock_all)(win);
    if (ordinal >= 0) for_each_turn((uint32_t)ordinal, count_finished_turn);
    return code;
}

/* ---- atomic accesses: in an epoch of locks each for itself, in other epochs nothing is known before their end ---- */
/* Return the recorded turn of the thread's next atomic access, to a target that it has locked; NULL if it has none. */
static const struct weft_plan_turn *find_own_turn(MPI_Win win, int target) {
    const struct weft_replay *replay = target >= 0 ? weft_find_own_replay() : NULL;
    const struct weft_plan_turn *found = replay ? find_turn_row(replay, weft_self->accesses) : NULL;
    return found && find_channel(found) && weft_find_window_lock(win, target) >= 0 ? found : NULL;
}

/* Make an atomic access once it is next in the recorded order, and complete it before the next one may go on. */
#define IN_TURN(call)                                                                                                     \
    const struct weft_plan_turn *turn = find_own_turn(win, target);                                                       \
    if (!turn) return call;                                                                                               \
    await_turn_of_access(turn);                                                                                           \
    int code = call;                                                                                                      \
    if (code == MPI_SUCCESS) code = REAL(MPI_Win_flush)(target, win);                                                     \
    count_finished_turn(turn);                                                                                            \
    return code;

/* Make the access once it is next in the recorded order. */
WEFT_REPLAY_CALL(MPI_Fetch_and_op)(const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Op op, MPI_Win win) {
    IN_TURN(REAL(MPI_Fetch_and_op)(origin, result, type, target, at, op, win))
}

/* Make the access once it is next in the recorded order. */
WEFT_REPLAY_CALL(MPI_Compare_and_swap)(const void *origin, const void *compare, void *result, MPI_Datatype type, int target,
                                       MPI_Aint at, MPI_Win win) {
    IN_TURN(REAL(MPI_Compare_and_swap)(origin, compare, result, type, target, at, win))
}

#define UPDATE(name, type)                                                                                                \
    (const void *from, type n, MPI_Datatype given, int target, MPI_Aint at, type k, MPI_Datatype there, MPI_Op op, MPI_Win win) {\
        IN_TURN(REAL(name)(from, n, given, target, at, k, there, op, win))                                                \
    }
#define UPDATE_REQUESTED(name, type)                                                                                      \
    (const void *from, type n, MPI_Datatype given, int target, MPI_Aint at, type k, MPI_Datatype there, MPI_Op op,        \
     MPI_Win win, MPI_Request *request) {                                                                                 \
        IN_TURN(REAL(name)(from, n, given, target, at, k, there, op, win, request))                                       \
    }
#define FETCH(name, type)                                                                                                 \
    (const void *from, type n, MPI_Datatype given, void *result, type m, MPI_Datatype got, int target, MPI_Aint at,       \
     type k, MPI_Datatype there, MPI_Op op, MPI_Win win) {                                                                \
        IN_TURN(REAL(name)(from, n, given, result, m, got, target, at, k, there, op, win))                                \
    }
#define FETCH_REQUESTED(name, type)                                                                                       \
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
