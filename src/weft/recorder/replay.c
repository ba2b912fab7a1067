/* Replay: under the wrappers of level trace, so that a replay is recorded like any run.
 *
 * Before a call goes out, weft_check_call_against_plan compares it with the plan (plan.h) and parks the thread at its
 * goal. The functions here stand between the wrapper and MPI (weft_under) and give what could have come out otherwise
 * the recorded outcome: a wildcard receive is posted with its recorded source, Waitany and its kin wait for the recorded
 * requests, a poll fails as often as it did. Everything else MPI decides again, the same way (non-overtaking,
 * MPI-4.1 3.5). Source of the idea: LeBlanc & Mellor-Crummey's instant replay; dbxR-II records 8 bytes a receive.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "replay.h"

volatile int weft_replaying;

const struct weft_plan_header *weft_plan;
#define header weft_plan
static const uint8_t *plan;
static uint64_t plan_size;
static const uint8_t *kinds;
static const uint16_t *canonical;
static struct weft_control *control;
static int own_record_rank = -1; /* this rank's place among all ranks of the record */
static MPI_Comm silent_comm; /* a copy of MPI_COMM_SELF: nothing is ever sent there */

static void set_next_turn(int slot, const struct weft_plan_entry *entries, uint64_t count, uint64_t from);

/* Sleep for some microseconds, fewer than a second. */
void weft_sleep_microseconds(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

/* ---- taking the plan up ---- */
/* Return the address of `count` items of `size` bytes at an offset of the plan; NULL where they do not lie in it. */
static const void *find_in_plan(uint64_t offset, uint64_t count, uint64_t size) {
    if (offset % 8 || offset > plan_size || count > (plan_size - offset) / size) return NULL;
    return plan + offset;
}

/* Map the file `name` of a rank's plan into memory, and set its size; return NULL if there is none. `protection`: as of
 * mmap. */
void *weft_map_plan_file(const char *folder, const char *name, int rank, int protection, uint64_t *size) {
    char path[4096];
    struct stat status;
    int length = snprintf(path, sizeof path, "%s/%s-%06d.bin", folder, name, rank);
    int fd = length > 0 && length < (int)sizeof path
                 ? open(path, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC)
                 : -1;
    void *address = MAP_FAILED;
    if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0)
        address = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (address == MAP_FAILED) return NULL;
    *size = (uint64_t)status.st_size;
    return address;
}

/* ---- spawned worlds: which of the record's a world is only its parents know, by the order of their spawns ---- */
enum { FAMILY_TAG = 31847, FAMILY_WAIT = 10000 }; /* ms until a child runs freely that is told nothing */

/* In the parents, before MPI_Comm_spawn returns: send the children the record's index of their world's first rank,
 * before any message of the program. `number`: which spawn of the process it is, from 1 on. */
void weft_send_world_to_children(MPI_Comm children, uint32_t number) {
    int rank = 0, size = 0;
    int32_t first_rank = -1;
    if (!weft_replaying) return;
    const int32_t *worlds = find_in_plan(header->worlds, header->world_count, sizeof *worlds);
    if (worlds && number - 1 < header->world_count) first_rank = worlds[number - 1];
    REAL(MPI_Comm_rank)(children, &rank);
    REAL(MPI_Comm_remote_size)(children, &size);
    for (int i = 0; first_rank >= 0 && rank == 0 && i < size; i++)
        REAL(MPI_Send)(&first_rank, 1, MPI_INT, i, FAMILY_TAG, children);
}

/* In a spawned process: receive the record's index of the first rank of its world from the parents; -1 if they send
 * none in time. */
static int32_t receive_own_world(MPI_Comm parent) {
    int32_t first_rank = -1;
    for (int waited = 0, flag = 0; !flag && waited < FAMILY_WAIT; waited++) {
        if (REAL(MPI_Iprobe)(0, FAMILY_TAG, parent, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
        if (flag) REAL(MPI_Recv)(&first_rank, 1, MPI_INT, 0, FAMILY_TAG, parent, MPI_STATUS_IGNORE);
        else weft_sleep_microseconds(1000);
    }
    return first_rank;
}

/* Read the plan of this rank once its number in the world is known, and begin to follow it. Without a usable plan the
 * process runs freely, which `weft replay` sees in the control page. Return the rank's index in the record, -1 where
 * the record does not have it. */
int weft_start_replay(const char *folder, int rank) {
    uint64_t size = 0;
    MPI_Comm parent = MPI_COMM_NULL;
    if (control) return own_record_rank;
    silent_comm = MPI_COMM_NULL;
    if (REAL(MPI_Comm_get_parent)(&parent) != MPI_SUCCESS) return -1;
    if (parent != MPI_COMM_NULL) {
        int32_t first = receive_own_world(parent);
        if (first < 0) return -1;
        rank += first;
    }
    own_record_rank = rank;
    struct weft_control *page = weft_map_plan_file(folder, "control", rank, PROT_READ | PROT_WRITE, &size);
    if (!page || size < sizeof *page || page->magic != WEFT_CONTROL_MAGIC) return -1;
    control = page;
    control->pid = (int32_t)getpid();
    plan = weft_map_plan_file(folder, "plan", rank, PROT_READ, &plan_size);
    header = (const struct weft_plan_header *)plan;
    bool is_usable =
        plan && plan_size >= sizeof *header && header->magic == WEFT_PLAN_MAGIC && header->size == plan_size;
    if (is_usable) {
        kinds = find_in_plan(header->kinds, header->functions, 1);
        canonical = find_in_plan(header->canonical, header->functions, 2);
        is_usable = kinds && canonical &&
                    find_in_plan(header->table, header->threads, sizeof(struct weft_plan_thread)) &&
                    REAL(MPI_Comm_dup)(MPI_COMM_SELF, &silent_comm) == MPI_SUCCESS;
    }
    if (!is_usable) {
        control->state = WEFT_CONTROL_REFUSED;
        return rank;
    }
    const struct weft_plan_thread *plan_threads = find_in_plan(header->table, header->threads, sizeof *plan_threads);
    for (uint32_t i = 0; i < header->threads && i < WEFT_CONTROL_THREADS; i++) {
        const struct weft_plan_entry *entries =
            find_in_plan(plan_threads[i].entries, plan_threads[i].entry_count, sizeof *entries);
        set_next_turn((int)i, entries, entries ? plan_threads[i].entry_count : 0, 0);
    }
    weft_map_turn_counters(folder);
    control->state = WEFT_CONTROL_RUNNING;
    weft_replaying = 1;
    __atomic_fetch_or(&weft_attention, WEFT_ATTENTION_REPLAY, __ATOMIC_RELAXED);
    return rank;
}

/* Let MPI make progress for the other ranks while this thread waits, by a probe, which receives nothing. The probe is
 * not on `silent_comm`: on a communicator of one process, MPICH answers a probe without making progress. */
void weft_let_mpi_progress(void) {
    int flag;
    MPI_Status status;
    REAL(MPI_Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
}

static void complete_copied_sends(void);

/* ---- waiting ---- */
/* Wait for a request as MPI_Wait does, by testing it with pauses, so that ranks that share the core get on
 * meanwhile. */
int weft_wait_by_testing(MPI_Request *request, MPI_Status *status) {
    for (unsigned polls = 0;; weft_pause_between_polls(&polls)) {
        int done = 0, code = REAL(MPI_Test)(request, &done, status);
        if (code != MPI_SUCCESS || done) return code;
    }
}

/* Wait until all requests are complete as MPI_Waitall does, by testing them with pauses. */
static int wait_for_all_by_testing(int count, MPI_Request requests[], MPI_Status statuses[]) {
    for (unsigned polls = 0;; weft_pause_between_polls(&polls)) {
        int done = 0, code = REAL(MPI_Testall)(count, requests, &done, statuses);
        if (code != MPI_SUCCESS || done) return code;
    }
}

/* What a rank that a debugger stopped outside of MPI calls now and then, from the stopped thread. */
__attribute__((visibility("default"))) void weft_debug_drive(void);
/* Called by the debugger now and then in a thread that it stopped outside of MPI: let MPI work for the other ranks. */
void weft_debug_drive(void) {
    if (!weft_replaying || weft_depth) return;
    weft_depth = 1;
    complete_copied_sends();
    weft_let_mpi_progress();
    weft_depth = 0;
}

/* Report that the program does something else than its record, and hold the thread for ever. `event`: the call that
 * does not fit, which becomes the last one of this record; NULL for none. `why`: WEFT_DIVERGED_*; `field`: the argument
 * that differs. */
static _Noreturn void hold_at_divergence(struct weft_replay *replay, struct weft_thread *thread,
                                         struct weft_event *event, int why, int field, int64_t expected, int64_t got) {
    if (event) { /* the call that does not fit is the last one of this record */
        thread->events.next += sizeof *event;
        event->enter = weft_ticks(weft_clock_kind);
        weft_stream_publish(&thread->events);
    }
    if (__sync_bool_compare_and_swap(&control->diverged.why, 0, (uint32_t)why)) {
        control->diverged.thread = (uint32_t)replay->slot;
        control->diverged.field = (uint32_t)field;
        control->diverged.at = replay->at;
        control->diverged.function = event ? event->function : 0;
        control->diverged.expected = expected;
        control->diverged.got = got;
        __atomic_store_n(&control->state, WEFT_CONTROL_DIVERGED, __ATOMIC_RELEASE);
    }
    for (;;) {
        complete_copied_sends();
        weft_let_mpi_progress();
        weft_sleep_microseconds(1000);
    }
}

/* Make the state of the calling thread's replay, with its part of the plan, and return it; NULL without memory. For a
 * thread that the record does not have, report a divergence and never return. */
static struct weft_replay *start_replay_of_thread(struct weft_thread *thread) {
    static struct weft_replay nobody;
    struct weft_replay *replay = calloc(1, sizeof *replay);
    if (!replay) return NULL;
    int slot = (int)thread->slot;
    const struct weft_plan_thread *plan_threads = find_in_plan(header->table, header->threads, sizeof *plan_threads);
    const struct weft_plan_thread *plan_thread = NULL;
    for (uint32_t i = 0; i < header->threads; i++)
        if (plan_threads[i].made == thread->made) plan_thread = &plan_threads[slot = (int)i];
    if (!plan_thread || slot >= WEFT_CONTROL_THREADS) {
        nobody.slot = slot;
        hold_at_divergence(&nobody, thread, NULL, WEFT_DIVERGED_THREAD, 0, (int64_t)header->threads,
                           (int64_t)thread->made);
    }
    replay->slot = slot;
    replay->control = &control->thread[slot];
    replay->control->tid = (uint32_t)syscall(SYS_gettid);
    if ((uint32_t)slot >= control->threads) control->threads = (uint32_t)slot + 1;
    replay->entries = find_in_plan(plan_thread->entries, plan_thread->entry_count, sizeof *replay->entries);
    replay->posts = find_in_plan(plan_thread->posts, plan_thread->post_count, sizeof *replay->posts);
    replay->values = find_in_plan(plan_thread->values, plan_thread->value_count, sizeof *replay->values);
    replay->times = find_in_plan(plan_thread->times, plan_thread->time_count, 1);
    replay->times_end = replay->times ? replay->times + plan_thread->time_count : NULL;
    replay->entry_count = replay->entries ? plan_thread->entry_count : 0;
    replay->post_count = replay->posts ? plan_thread->post_count : 0;
    replay->value_count = replay->values ? plan_thread->value_count : 0;
    replay->turns = find_in_plan(plan_thread->turns, plan_thread->turn_count, sizeof *replay->turns);
    replay->turn_count = replay->turns ? plan_thread->turn_count : 0;
    thread->replay = replay;
    return replay;
}

/* Return the state of the calling thread's replay; NULL if this process follows no plan. */
struct weft_replay *weft_find_own_replay(void) {
    struct weft_thread *thread = weft_self;
    if (!weft_replaying || !thread) return NULL;
    return LIKELY(thread->replay != NULL) ? thread->replay : start_replay_of_thread(thread);
}

/* ---- turns: in which order the threads of a process post ---- */
static struct { volatile uint32_t turn; volatile uint64_t at; } pending_turn[WEFT_CONTROL_THREADS];

/* Find the next call of a thread, from entry `from` of its plan on, that has a turn among the calls of all threads, and
 * set it as the thread's pending turn. */
static void set_next_turn(int slot, const struct weft_plan_entry *entries, uint64_t count, uint64_t from) {
    while (from < count && !entries[from].turn) from++;
    pending_turn[slot].at = from;
    __atomic_store_n(&pending_turn[slot].turn, from < count ? entries[from].turn : UINT32_MAX, __ATOMIC_RELEASE);
}

/* Return whether no other thread has to make a call before this one. Threads that stand at their goals will make
 * none. */
static bool is_own_turn(const struct weft_replay *replay, uint32_t turn) {
    for (uint32_t i = 0; i < header->threads && i < WEFT_CONTROL_THREADS; i++)
        if ((int)i != replay->slot && pending_turn[i].turn < turn && pending_turn[i].at < control->thread[i].goal)
            return false;
    return true;
}

static void park_at_goal(struct weft_replay *replay);

/* Wait until all calls of other threads are made that come before this thread's next one in the record. */
static void await_turn(struct weft_replay *replay) {
    uint64_t entry = pending_turn[replay->slot].at;
    if (entry == replay->at && entry >= replay->control->goal)
        park_at_goal(replay); /* not later, under the lock that the other threads need */
    /* A probe's call has passed the guard when it posts, other calls have not. */
    if ((entry != replay->at && entry + 1 != replay->at) || entry >= replay->entry_count) return;
    for (unsigned spins = 0; !is_own_turn(replay, replay->entries[entry].turn); spins++) {
        if (spins < 100) sched_yield();
        else weft_sleep_microseconds(50);
    }
}

static struct weft_replay *find_own_replay(void);

/* Wait until it is this thread's turn to hand a call to MPI, in a replay with several threads. */
void weft_await_posting_turn(void) {
    struct weft_replay *replay = find_own_replay();
    if (replay) await_turn(replay);
}

/* Note that this thread has handed its call to MPI, so that others get their turn. */
void weft_end_posting_turn(void) {
    struct weft_replay *replay = find_own_replay();
    if (replay && replay->at > pending_turn[replay->slot].at)
        set_next_turn(replay->slot, replay->entries, replay->entry_count, replay->at);
}

/* Return the state of the calling thread's replay, NULL if this process follows no plan. */
static struct weft_replay *find_own_replay(void) { return weft_find_own_replay(); }

/* ---- the guard ---- */
/* Hold the thread at its goal, the entry of its plan at which the replay stops, until it gets a later one. MPI goes on
 * for other ranks meanwhile, and Python's lock is free. */
static void park_at_goal(struct weft_replay *replay) {
    void *lock = weft_python ? weft_release_python_lock() : NULL;
    replay->control->parked = 1;
    while (replay->at >= replay->control->goal) {
        complete_copied_sends();
        weft_let_mpi_progress();
        weft_sleep_microseconds(300);
    }
    replay->control->parked = 0;
    weft_retake_python_lock(lock);
}

/* Go on to the next entry of the thread's plan. */
static inline void go_to_next_entry(struct weft_replay *replay) {
    replay->at++;
    replay->polls = 0;
    __atomic_store_n(&replay->control->at, replay->at, __ATOMIC_RELEASE);
}

/* Return the plan's next entry for this thread. If the debugger wants the thread to stop here, first wait until it may
 * continue. NULL after the end of a record that ended before the program did. If the record is whole, a call after its
 * end is reported as a divergence and does not return. `poll`: the call may fail and be repeated. */
static const struct weft_plan_entry *find_upcoming_entry(struct weft_replay *replay, struct weft_thread *thread,
                                                         struct weft_event *event, bool poll) {
    if (UNLIKELY(replay->at >= replay->control->goal) &&
        !(poll && replay->at == replay->control->goal && replay->polls < replay->control->goal_polls))
        park_at_goal(replay);
    if (LIKELY(replay->at < replay->entry_count)) return &replay->entries[replay->at];
    if (!poll || !replay->control->behind) replay->control->behind++;
    replay->control->free_polls = poll ? replay->control->free_polls + 1 : 0;
    if (!(header->flags & WEFT_PLAN_OPEN) && event)
        hold_at_divergence(replay, thread, event, WEFT_DIVERGED_END, 0, 0, event->function);
    return NULL;
}

/* Compare a call that is about to be made with the next entry of the plan, and go on to the entry after it. A call
 * that differs is reported as a divergence, and held. The thread parks before the call if that is its goal. */
void weft_check_call_against_plan(struct weft_thread *thread, struct weft_event *event) {
    uint16_t function = event->function;
    uint8_t kind = function < header->functions ? kinds[function] : 0;
    if (!(kind & WEFT_CHECK_CALL) || kind & WEFT_CHECK_POLL) return;
    struct weft_replay *replay = weft_find_own_replay();
    if (!replay || !(header->flags & WEFT_PLAN_CHECKED)) return;
    const struct weft_plan_entry *entry = find_upcoming_entry(replay, thread, event, false);
    replay->current = entry;
    if (!entry) return;
    if (UNLIKELY(entry->function != canonical[function]))
        hold_at_divergence(replay, thread, event, WEFT_DIVERGED_CALL, 0, entry->function, function);
#define REQUIRE_EQUAL(bit, wanted, given)                                                                              \
    if (kind & bit && UNLIKELY(wanted != given))                                                                       \
    hold_at_divergence(replay, thread, event, WEFT_DIVERGED_ARGUMENT, bit, (int64_t)wanted, (int64_t)given)
    REQUIRE_EQUAL(WEFT_CHECK_COMM, entry->comm, event->comm);
    REQUIRE_EQUAL(WEFT_CHECK_PEER, (entry->flags & WEFT_ENTRY_ANY_SOURCE ? WEFT_RANK_ANY_SOURCE : entry->peer),
                  event->peer);
    REQUIRE_EQUAL(WEFT_CHECK_TAG, (entry->flags & WEFT_ENTRY_ANY_TAG ? WEFT_TAG_ANY : entry->tag), event->tag);
    REQUIRE_EQUAL(WEFT_CHECK_COUNT, entry->count, event->count);
    REQUIRE_EQUAL(WEFT_CHECK_TYPE, entry->datatype, event->datatype);
    if (!(entry->flags & WEFT_ENTRY_GUESSED) && event->buffer != WEFT_GUESSED)
        REQUIRE_EQUAL(WEFT_CHECK_OBJECT, entry->object, event->object);
#undef REQUIRE_EQUAL
    go_to_next_entry(replay);
}

/* Return the entry with the outcome `wanted` (WEFT_OUTCOME_*) of a call that is never a poll: what
 * weft_check_call_against_plan has just passed or, if the record has outcomes only, the next one. NULL if the record
 * has no outcome for it. */
static const struct weft_plan_entry *take_outcome(struct weft_replay *replay, uint8_t wanted) {
    const struct weft_plan_entry *entry = replay->current;
    if (!(header->flags & WEFT_PLAN_CHECKED)) {
        entry = find_upcoming_entry(replay, NULL, NULL, false);
        if (!entry) return NULL;
        if (entry->outcome != wanted)
            hold_at_divergence(replay, weft_self, NULL, WEFT_DIVERGED_OUTCOME, 0, entry->outcome, wanted);
        go_to_next_entry(replay);
    }
    replay->current = NULL;
    return entry && entry->outcome == wanted && !(entry->flags & (WEFT_ENTRY_OPEN | WEFT_ENTRY_FAILED)) ? entry : NULL;
}

/* Return value `i` of an entry's outcome, -1 if the plan has none. */
static int32_t read_outcome_value(const struct weft_replay *replay, const struct weft_plan_entry *entry, uint64_t i) {
    return entry->value + i < replay->value_count ? replay->values[entry->value + i] : -1;
}

/* ---- polls ---- */
enum answer { ANSWER_FREE, ANSWER_FAIL, ANSWER_PASS };
struct poll { uint32_t comm, object; int32_t peer, tag; uint16_t function; uint8_t outcome; bool by_object; };

/* Return whether a poll fails, succeeds, or is free to do either, as recorded; the entry of one that succeeds is set.
 * More polls than recorded fail as long as something else is due: what the program awaits beside MPI (another thread,
 * the clock, a file). */
static enum answer answer_poll(struct weft_replay *replay, const struct poll *poll,
                               const struct weft_plan_entry **found) {
    const struct weft_plan_entry *entry = find_upcoming_entry(replay, NULL, NULL, true);
    if (!entry)
        return header->flags & WEFT_PLAN_OPEN || !(header->flags & WEFT_PLAN_CHECKED) ? ANSWER_FREE : ANSWER_FAIL;
    bool fits = entry->outcome == poll->outcome;
    if (fits && header->flags & WEFT_PLAN_CHECKED) {
        fits = entry->function == canonical[poll->function];
        if (fits && poll->by_object) fits = entry->object == poll->object || entry->flags & WEFT_ENTRY_GUESSED;
        else if (fits && poll->outcome != WEFT_OUTCOME_INDEX && poll->outcome != WEFT_OUTCOME_COUNT && poll->comm)
            fits = entry->comm == poll->comm && (entry->flags & WEFT_ENTRY_ANY_SOURCE || entry->peer == poll->peer) &&
                   (entry->flags & WEFT_ENTRY_ANY_TAG || entry->tag == poll->tag);
    }
    if (fits && entry->flags & (WEFT_ENTRY_OPEN | WEFT_ENTRY_FAILED)) {
        go_to_next_entry(replay);
        return ANSWER_FREE;
    }
    if (fits && replay->polls >= entry->polls) {
        *found = entry;
        replay->control->polling = 0;
        replay->control->waits = 1; /* the wrapper's event may be a folded one that nobody sees: told here */
        go_to_next_entry(replay);
        return ANSWER_PASS;
    }
    if (replay->polls++ >= entry->polls) {
        replay->control->polling = replay->polls;
        complete_copied_sends();
        sched_yield();
    }
    weft_let_mpi_progress();
    return ANSWER_FAIL;
}

/* ---- wildcard receives ---- */
/* Return the source of the thread's next receive of any source in the record; WEFT_POSTED_* where it has none. */
static int take_posted_source(struct weft_replay *replay) {
    return replay->post_at < replay->post_count ? replay->posts[replay->post_at++] : WEFT_POSTED_FREE;
}

/* Return the source that the thread's next receive of any source had in the record, MPI_ANY_SOURCE if it is not known.
 * If it took no message, `comm` becomes a communicator without messages. */
static int take_recorded_source(struct weft_replay *replay, MPI_Comm *comm) {
    int source = take_posted_source(replay);
    if (source >= 0) return source;
    if (source == WEFT_POSTED_NEVER && comm) *comm = silent_comm;
    return MPI_ANY_SOURCE;
}

/* Posts and then waits patiently; with several threads each posts in turn. */
#define POST(name) ((__typeof__(&P##name))weft_split[K_##name])

/* The body of a blocking receive: one of any source is posted with its recorded source. */
#define RECEIVE(name, type)                                                                                               \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status) {              \
        struct weft_replay *replay = source == MPI_ANY_SOURCE ? weft_find_own_replay() : NULL;                            \
        if (replay) source = take_recorded_source(replay, NULL);                                                          \
        return POST(name)(buf, count, datatype, source, tag, comm, status);                                               \
    }
WEFT_REPLAY_CALL(MPI_Recv) RECEIVE(MPI_Recv, int)
#ifdef HAVE_MPI_Recv_c
WEFT_REPLAY_CALL(MPI_Recv_c) RECEIVE(MPI_Recv_c, MPI_Count)
#endif

/* The body of a nonblocking receive: one of any source is posted with its recorded source. */
#define IRECEIVE(name, type)                                                                                              \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request) {            \
        struct weft_replay *replay = source == MPI_ANY_SOURCE ? weft_find_own_replay() : NULL;                            \
        if (replay) source = take_recorded_source(replay, &comm);                                                         \
        return REAL(name)(buf, count, datatype, source, tag, comm, request);                                              \
    }
WEFT_REPLAY_CALL(MPI_Irecv) IRECEIVE(MPI_Irecv, int)
#ifdef HAVE_MPI_Irecv_c
WEFT_REPLAY_CALL(MPI_Irecv_c) IRECEIVE(MPI_Irecv_c, MPI_Count)
#endif

static bool send_from_copy(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);

/* The body of MPI_Sendrecv and MPI_Isendrecv: a receive of any source is posted with its recorded source, and the
 * message is sent from a copy where ranks may be stopped. `last at`: the last parameter; `MINE`: POST, or REAL for a
 * call that does not wait. */
#define SENDRECV(name, type, last, at, MINE)                                                                              \
    (const void *sendbuf, type sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, type recvcount,    \
     MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, last *at) {                                           \
        struct weft_replay *replay = weft_find_own_replay();                                                              \
        if (replay && source == MPI_ANY_SOURCE) source = take_recorded_source(replay, NULL);                              \
        if (replay && send_from_copy(sendbuf, (MPI_Count)sendcount, sendtype, dest, sendtag, comm)) dest = MPI_PROC_NULL; \
        return MINE(name)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,     \
                          comm, at);                                                                                      \
    }
WEFT_REPLAY_CALL(MPI_Sendrecv) SENDRECV(MPI_Sendrecv, int, MPI_Status, status, POST)
#ifdef HAVE_MPI_Sendrecv_c
WEFT_REPLAY_CALL(MPI_Sendrecv_c) SENDRECV(MPI_Sendrecv_c, MPI_Count, MPI_Status, status, POST)
#endif
#ifdef HAVE_MPI_Isendrecv
WEFT_REPLAY_CALL(MPI_Isendrecv) SENDRECV(MPI_Isendrecv, int, MPI_Request, request, REAL)
#endif
#ifdef HAVE_MPI_Isendrecv_c
WEFT_REPLAY_CALL(MPI_Isendrecv_c) SENDRECV(MPI_Isendrecv_c, MPI_Count, MPI_Request, request, REAL)
#endif

/* The body of MPI_Sendrecv_replace and MPI_Isendrecv_replace: as SENDRECV. */
#define REPLACE(name, type, last, at)                                                                                     \
    (void *buf, type count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,         \
     last *at) {                                                                                                          \
        struct weft_replay *replay = weft_find_own_replay();                                                              \
        if (replay && source == MPI_ANY_SOURCE) source = take_recorded_source(replay, NULL);                              \
        if (replay && send_from_copy(buf, (MPI_Count)count, datatype, dest, sendtag, comm)) dest = MPI_PROC_NULL;         \
        return REAL(name)(buf, count, datatype, dest, sendtag, source, recvtag, comm, at);                                \
    }
WEFT_REPLAY_CALL(MPI_Sendrecv_replace) REPLACE(MPI_Sendrecv_replace, int, MPI_Status, status)
#ifdef HAVE_MPI_Sendrecv_replace_c
WEFT_REPLAY_CALL(MPI_Sendrecv_replace_c) REPLACE(MPI_Sendrecv_replace_c, MPI_Count, MPI_Status, status)
#endif
#ifdef HAVE_MPI_Isendrecv_replace
WEFT_REPLAY_CALL(MPI_Isendrecv_replace) REPLACE(MPI_Isendrecv_replace, int, MPI_Request, request)
#endif
#ifdef HAVE_MPI_Isendrecv_replace_c
WEFT_REPLAY_CALL(MPI_Isendrecv_replace_c) REPLACE(MPI_Isendrecv_replace_c, MPI_Count, MPI_Request, request)
#endif

/* ---- persistent wildcards: each start is a receive of its own, behind the handle that the program knows. A persistent
 * send that goes out from a copy leaves its handle inactive, which every completion takes for complete ---- */
struct virtual {
    MPI_Request handle, real;
    void *buf;
    MPI_Count count;
    MPI_Datatype type;
    int tag;
    MPI_Comm comm;
    bool large, sends;
    int dest;
};
static struct virtual *virtuals;
static volatile int virtual_count;
static int virtual_space;
static pthread_mutex_t virtual_lock = PTHREAD_MUTEX_INITIALIZER;

/* Return the persistent request that the replay starts itself, by its handle; NULL for another request. */
static struct virtual *find_virtual_request(MPI_Request handle) {
    for (int i = 0; i < virtual_count; i++)
        if (virtuals[i].handle == handle) return &virtuals[i];
    return NULL;
}

/* Note a persistent request that the replay starts itself. */
static void add_virtual_request(struct virtual request) {
    pthread_mutex_lock(&virtual_lock);
    if (virtual_count == virtual_space) {
        int space = virtual_space ? virtual_space * 2 : 64;
        struct virtual *grown = realloc(virtuals, sizeof *grown * (size_t)space);
        if (grown) {
            virtuals = grown;
            virtual_space = space;
        }
    }
    if (virtual_count < virtual_space) virtuals[virtual_count++] = request;
    pthread_mutex_unlock(&virtual_lock);
}

/* The body of MPI_Recv_init: the starts of a receive of any source are the replay's own. */
#define RECEIVE_INIT(name, type, is_large)                                                                                \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request) {            \
        int code = REAL(name)(buf, count, datatype, source, tag, comm, request);                                          \
        if (code == MPI_SUCCESS && source == MPI_ANY_SOURCE && weft_find_own_replay())                                    \
            add_virtual_request((struct virtual){*request, MPI_REQUEST_NULL, buf, (MPI_Count)count, datatype, tag, comm, is_large,\
                                         false, 0});                                                                      \
        return code;                                                                                                      \
    }
WEFT_REPLAY_CALL(MPI_Recv_init) RECEIVE_INIT(MPI_Recv_init, int, false)
#ifdef HAVE_MPI_Recv_init_c
WEFT_REPLAY_CALL(MPI_Recv_init_c) RECEIVE_INIT(MPI_Recv_init_c, MPI_Count, true)
#endif

/* The body of MPI_Send_init: where ranks may be stopped, the starts are the replay's own. */
#define SEND_INIT(name, type)                                                                                             \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request) {        \
        int code = REAL(name)(buf, count, datatype, dest, tag, comm, request);                                            \
        if (code == MPI_SUCCESS && weft_find_own_replay() && header->flags & WEFT_PLAN_BOUNDED)                           \
            add_virtual_request((struct virtual){*request, MPI_REQUEST_NULL, (void *)(uintptr_t)buf, (MPI_Count)count, datatype,\
                                         tag, comm, false, true, dest});                                                  \
        return code;                                                                                                      \
    }
WEFT_REPLAY_CALL(MPI_Send_init) SEND_INIT(MPI_Send_init, int)
#ifdef HAVE_MPI_Send_init_c
WEFT_REPLAY_CALL(MPI_Send_init_c) SEND_INIT(MPI_Send_init_c, MPI_Count)
#endif

/* Start a persistent request: a receive of any source as a receive from the recorded source, a send as one from a copy
 * where ranks may be stopped. */
static int start_request(MPI_Request *request) {
    struct virtual *own = virtual_count ? find_virtual_request(*request) : NULL;
    struct weft_replay *replay = own ? weft_find_own_replay() : NULL;
    if (replay && own->sends && send_from_copy(own->buf, own->count, own->type, own->dest, own->tag, own->comm))
        return MPI_SUCCESS;
    if (!replay || own->sends) return REAL(MPI_Start)(request);
    MPI_Comm comm = own->comm;
    int source = take_recorded_source(replay, &comm);
#ifdef HAVE_MPI_Irecv_c
    if (own->large) return REAL(MPI_Irecv_c)(own->buf, own->count, own->type, source, own->tag, comm, &own->real);
#endif
    return REAL(MPI_Irecv)(own->buf, (int)own->count, own->type, source, own->tag, comm, &own->real);
}

/* Start a persistent request, as start_request does. */
WEFT_REPLAY_CALL(MPI_Start)(MPI_Request *request) { return start_request(request); }

/* Start the requests one by one, as start_request does. */
WEFT_REPLAY_CALL(MPI_Startall)(int count, MPI_Request requests[]) {
    if (!virtual_count) return REAL(MPI_Startall)(count, requests);
    int code = MPI_SUCCESS;
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) code = start_request(&requests[i]);
    return code;
}

/* Free a request, and the one that the replay has started in its place. */
WEFT_REPLAY_CALL(MPI_Request_free)(MPI_Request *request) {
    struct virtual *own = virtual_count ? find_virtual_request(*request) : NULL;
    if (own) {
        pthread_mutex_lock(&virtual_lock);
        if (own->real != MPI_REQUEST_NULL) REAL(MPI_Request_free)(&own->real);
        *own = virtuals[--virtual_count];
        pthread_mutex_unlock(&virtual_lock);
    }
    return REAL(MPI_Request_free)(request);
}

/* ---- completions ---- */
/* Wait for a request of the program, or for the one that the replay has started in its place. */
static int wait_for_one(MPI_Request *request, MPI_Status *status) {
    struct virtual *own = virtual_count ? find_virtual_request(*request) : NULL;
    return weft_wait_by_testing(own && own->real != MPI_REQUEST_NULL ? &own->real : request, status);
}

/* Wait for a request, or for the one that the replay has started in its place. */
WEFT_REPLAY_CALL(MPI_Wait)(MPI_Request *request, MPI_Status *status) { return wait_for_one(request, status); }

/* Wait for all requests as MPI_Waitall does, one by one if the replay has started some itself. */
static int wait_for_each(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!virtual_count) return wait_for_all_by_testing(count, requests, statuses);
    int code = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        int one = wait_for_one(&requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
        if (one != MPI_SUCCESS) code = one;
    }
    return code;
}

/* Wait for all requests, or those that the replay has started in their place. */
WEFT_REPLAY_CALL(MPI_Waitall)(int count, MPI_Request requests[], MPI_Status statuses[]) {
    return wait_for_each(count, requests, statuses);
}

/* Return whether a recorded index is one of the call's `count` requests. */
static bool is_request_index(int32_t index, int count) { return index >= 0 && index < count; }

/* Wait for the request that the call completed in the record, and return that one. */
WEFT_REPLAY_CALL(MPI_Waitany)(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    struct weft_replay *replay = weft_find_own_replay();
    const struct weft_plan_entry *entry = replay ? take_outcome(replay, WEFT_OUTCOME_INDEX) : NULL;
    int32_t chosen = entry ? read_outcome_value(replay, entry, 0) : -1;
    if (!is_request_index(chosen, count)) return REAL(MPI_Waitany)(count, requests, index, status);
    *index = chosen;
    return wait_for_one(&requests[chosen], status);
}

/* Wait for the requests that the call completed in the record, and return them as MPI_Waitsome does. */
static int wait_for_recorded_requests(const struct weft_replay *replay, const struct weft_plan_entry *entry, int n,
                             MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]) {
    int32_t some = read_outcome_value(replay, entry, 0);
    if (some < 0) return REAL(MPI_Waitsome)(n, requests, outcount, indices, statuses);
    int code = MPI_SUCCESS, given = 0;
    for (int32_t i = 0; i < some && i < n; i++) {
        int32_t chosen = read_outcome_value(replay, entry, 1 + (uint64_t)i);
        if (!is_request_index(chosen, n)) continue;
        int one =
            wait_for_one(&requests[chosen], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[given]);
        if (one != MPI_SUCCESS) code = one;
        indices[given++] = chosen;
    }
    *outcount = given;
    return code;
}

/* Wait for the requests that the call completed in the record, and return these. */
WEFT_REPLAY_CALL(MPI_Waitsome)(int n, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]) {
    struct weft_replay *replay = weft_find_own_replay();
    const struct weft_plan_entry *entry = replay ? take_outcome(replay, WEFT_OUTCOME_COUNT) : NULL;
    if (!entry) return REAL(MPI_Waitsome)(n, requests, outcount, indices, statuses);
    return wait_for_recorded_requests(replay, entry, n, requests, outcount, indices, statuses);
}

/* Note that a poll is over; called at the end of a wrapper that has used ASK. */
static void end_poll(struct weft_replay *const *replay) {
    if (*replay) (*replay)->control->waits = 0;
}

/* Ask the plan how a poll (its fields follow) ends in the record: sets `answer`, and `entry` for one that succeeds. */
#define ASK(...)                                                                                                          \
    struct weft_replay *replay __attribute__((cleanup(end_poll))) = weft_find_own_replay();                               \
    const struct weft_plan_entry *entry = NULL;                                                                           \
    enum answer answer = replay ? answer_poll(replay, &(struct poll){__VA_ARGS__}, &entry) : ANSWER_FREE

/* Return the id of a request, 0 if it is not certain. `variable`: the one that holds it, NULL if not known. */
static uint32_t find_certain_id(MPI_Request request, const MPI_Request *variable) {
    if (weft_threaded || request == MPI_REQUEST_NULL) return 0;
    struct weft_found_request found = weft_find_request(request, variable, 0);
    return found.guessed ? 0 : found.id;
}

/* Test a request as often in vain as in the record; the test that succeeded there waits for the request. */
WEFT_REPLAY_CALL(MPI_Test)(MPI_Request *request, int *flag, MPI_Status *status) {
    uint32_t id = find_certain_id(*request, request);
    ASK(.function = F_MPI_Test, .outcome = WEFT_OUTCOME_DONE, .object = id, .by_object = id != 0);
    if (answer == ANSWER_FREE) return REAL(MPI_Test)(request, flag, status);
    *flag = answer == ANSWER_PASS;
    return *flag ? wait_for_one(request, status) : MPI_SUCCESS;
}

/* Test requests as often in vain as in the record; the test that succeeded there waits for all of them. */
WEFT_REPLAY_CALL(MPI_Testall)(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    ASK(.function = F_MPI_Testall, .outcome = WEFT_OUTCOME_DONE);
    if (answer == ANSWER_FREE) return REAL(MPI_Testall)(count, requests, flag, statuses);
    *flag = answer == ANSWER_PASS;
    return *flag ? wait_for_each(count, requests, statuses) : MPI_SUCCESS;
}

/* Test requests as often in vain as in the record; the test that succeeded there waits for the request that it
 * completed there. */
WEFT_REPLAY_CALL(MPI_Testany)(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    ASK(.function = F_MPI_Testany, .outcome = WEFT_OUTCOME_INDEX);
    int32_t chosen = entry ? read_outcome_value(replay, entry, 0) : -1;
    if (answer == ANSWER_FREE || (answer == ANSWER_PASS && !is_request_index(chosen, count)))
        return REAL(MPI_Testany)(count, requests, index, flag, status);
    *flag = answer == ANSWER_PASS;
    *index = *flag ? chosen : MPI_UNDEFINED;
    return *flag ? wait_for_one(&requests[chosen], status) : MPI_SUCCESS;
}

/* Test requests as often in vain as in the record; the test that succeeded there waits for the requests that it
 * completed there. */
WEFT_REPLAY_CALL(MPI_Testsome)(int n, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]) {
    ASK(.function = F_MPI_Testsome, .outcome = WEFT_OUTCOME_COUNT);
    if (answer == ANSWER_FREE) return REAL(MPI_Testsome)(n, requests, outcount, indices, statuses);
    *outcount = 0;
    return answer == ANSWER_PASS ? wait_for_recorded_requests(replay, entry, n, requests, outcount, indices, statuses) : MPI_SUCCESS;
}

/* Ask for a request's status as often in vain as in the record; the call that succeeded there asks until the request is
 * complete. */
WEFT_REPLAY_CALL(MPI_Request_get_status)(MPI_Request request, int *flag, MPI_Status *status) {
    uint32_t id = find_certain_id(request, NULL);
    ASK(.function = F_MPI_Request_get_status, .outcome = WEFT_OUTCOME_DONE, .object = id, .by_object = id != 0);
    struct virtual *own = virtual_count ? find_virtual_request(request) : NULL;
    if (own && own->real != MPI_REQUEST_NULL) request = own->real;
    *flag = 0;
    if (answer == ANSWER_FAIL) return MPI_SUCCESS;
    int code = MPI_SUCCESS;
    do code = REAL(MPI_Request_get_status)(request, flag, status);
    while (answer == ANSWER_PASS && code == MPI_SUCCESS && !*flag);
    return code;
}

/* Cancel a request, unless it was too late for that in the record. */
WEFT_REPLAY_CALL(MPI_Cancel)(MPI_Request *request) {
    struct weft_replay *replay = weft_find_own_replay();
    const struct weft_plan_entry *entry = replay && header->flags & WEFT_PLAN_CHECKED ? take_outcome(replay, WEFT_OUTCOME_CANCEL) : NULL;
    if (entry && read_outcome_value(replay, entry, 0) == 0) return MPI_SUCCESS; /* it came too late in the record */
    struct virtual *own = virtual_count ? find_virtual_request(*request) : NULL;
    return REAL(MPI_Cancel)(own && own->real != MPI_REQUEST_NULL ? &own->real : request);
}

/* ---- probes ---- */
/* Probe for a message of the recorded source. */
WEFT_REPLAY_CALL(MPI_Probe)(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    struct weft_replay *replay = source == MPI_ANY_SOURCE ? weft_find_own_replay() : NULL;
    const struct weft_plan_entry *entry = replay ? take_outcome(replay, WEFT_OUTCOME_SOURCE) : NULL;
    if (entry && read_outcome_value(replay, entry, 0) >= 0) source = read_outcome_value(replay, entry, 0);
    return POST(MPI_Probe)(source, tag, comm, status);
}

/* Probe for a message of the recorded source. */
WEFT_REPLAY_CALL(MPI_Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    struct weft_replay *replay = source == MPI_ANY_SOURCE ? weft_find_own_replay() : NULL;
    const struct weft_plan_entry *entry = replay ? take_outcome(replay, WEFT_OUTCOME_SOURCE) : NULL;
    if (entry && read_outcome_value(replay, entry, 0) >= 0) source = read_outcome_value(replay, entry, 0);
    return POST(MPI_Mprobe)(source, tag, comm, message, status);
}

/* Ask the plan how a probe ends in the record; one of any source that succeeds then gets the recorded source. */
#define PROBED(name)                                                                                                      \
    ASK(.function = F_##name, .outcome = source == MPI_ANY_SOURCE ? WEFT_OUTCOME_SOURCE : WEFT_OUTCOME_DONE,              \
        .comm = weft_threaded ? 0 : weft_find_object_id(weft_self, WEFT_CLASS_COMM, (uintptr_t)comm), .peer = weft_encode_rank(source),\
        .tag = weft_encode_tag(tag));                                                                                     \
    if (answer == ANSWER_PASS && source == MPI_ANY_SOURCE && read_outcome_value(replay, entry, 0) >= 0) source = read_outcome_value(replay, entry, 0)

/* Probe as often in vain as in the record; the probe that succeeded there waits for a message of the recorded
 * source. */
WEFT_REPLAY_CALL(MPI_Iprobe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    if (source == MPI_PROC_NULL) return REAL(MPI_Iprobe)(source, tag, comm, flag, status);
    PROBED(MPI_Iprobe);
    if (answer == ANSWER_FREE) return POST(MPI_Iprobe)(source, tag, comm, flag, status);
    *flag = answer == ANSWER_PASS;
    return *flag ? POST(MPI_Probe)(source, tag, comm, status) : MPI_SUCCESS;
}

/* Probe as often in vain as in the record; the probe that succeeded there waits for a message of the recorded
 * source. */
WEFT_REPLAY_CALL(MPI_Improbe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    if (source == MPI_PROC_NULL) return REAL(MPI_Improbe)(source, tag, comm, flag, message, status);
    PROBED(MPI_Improbe);
    if (answer == ANSWER_FREE) return POST(MPI_Improbe)(source, tag, comm, flag, message, status);
    *flag = answer == ANSWER_PASS;
    return *flag ? POST(MPI_Mprobe)(source, tag, comm, message, status) : MPI_SUCCESS;
}

/* ---- time ---- */
/* Read the next recorded time of MPI_Wtime; return false if the plan has no more. */
static bool read_recorded_time(struct weft_replay *replay) {
    struct weft_plan_clock clock;
    if (replay->time_more) {
        replay->time_more--;
        return weft_read_next_time(&replay->times, replay->times_end, replay->time_unit, &replay->time);
    }
    if (replay->times_end - replay->times < (int64_t)sizeof clock) return false;
    memcpy(&clock, replay->times, sizeof clock);
    memcpy(&replay->time, clock.first, sizeof replay->time);
    replay->times += sizeof clock;
    replay->time_more = clock.more;
    if (!clock.more || replay->times_end - replay->times < (int64_t)sizeof replay->time_unit) return true;
    memcpy(&replay->time_unit, replay->times, sizeof replay->time_unit);
    replay->times += sizeof replay->time_unit;
    return true;
}

WEFT_HIDDEN double weft_p_MPI_Wtime(void);
/* Return the time that the program read in the record; the real one after the record's end. */
double weft_p_MPI_Wtime(void) {
    struct weft_replay *replay = weft_find_own_replay();
    return replay && read_recorded_time(replay) ? replay->time : REAL(MPI_Wtime)();
}

/* ---- sends that must not need a receiver, as that may be parked: they go out from a copy ---- */
struct copied_send { MPI_Request request; void *copy; struct copied_send *next; };
static struct copied_send *copied_sends;
static pthread_mutex_t copied_sends_lock = PTHREAD_MUTEX_INITIALIZER;
enum { SMALL_SEND = 256 }; /* bytes that every MPI sends without the receiver's help */

/* Test the sends that went out from copies, and free the copies of those that are complete. */
static void complete_copied_sends(void) {
    if (!copied_sends) return;
    pthread_mutex_lock(&copied_sends_lock);
    for (struct copied_send **link = &copied_sends; *link;) {
        int flag = 0;
        struct copied_send *send = *link;
        if (REAL(MPI_Test)(&send->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag) {
            *link = send->next;
            free(send->copy);
            free(send);
        } else link = &send->next;
    }
    pthread_mutex_unlock(&copied_sends_lock);
}

/* Send a message from a copy if ranks may be stopped, so that the send needs no receiver. Return whether it went out;
 * if not, the caller sends it as it is. */
static bool send_from_copy(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    int size = 0, bytes = 0, position = 0;
    if (!(header->flags & WEFT_PLAN_BOUNDED) || dest < 0 || count <= 0 || count > INT32_MAX) return false;
    if (REAL(MPI_Type_size)(type, &size) != MPI_SUCCESS || (int64_t)size * count <= SMALL_SEND) return false;
    if (REAL(MPI_Pack_size)((int)count, type, comm, &bytes) != MPI_SUCCESS) return false;
    struct copied_send *send = malloc(sizeof *send);
    void *copy = malloc((size_t)bytes);
    if (!send || !copy || REAL(MPI_Pack)(buf, (int)count, type, copy, bytes, &position, comm) != MPI_SUCCESS ||
        REAL(MPI_Isend)(copy, position, MPI_PACKED, dest, tag, comm, &send->request) != MPI_SUCCESS) {
        free(send);
        free(copy);
        return false;
    }
    send->copy = copy;
    pthread_mutex_lock(&copied_sends_lock);
    send->next = copied_sends;
    copied_sends = send;
    pthread_mutex_unlock(&copied_sends_lock);
    return true;
}

/* The body of MPI_Send: the message goes out from a copy where ranks may be stopped. */
#define SEND(name, type)                                                                                                  \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {                              \
        if (weft_find_own_replay() && send_from_copy(buf, (MPI_Count)count, datatype, dest, tag, comm)) return MPI_SUCCESS;\
        return POST(name)(buf, count, datatype, dest, tag, comm);                                                         \
    }
WEFT_REPLAY_CALL(MPI_Send) SEND(MPI_Send, int)
#ifdef HAVE_MPI_Send_c
WEFT_REPLAY_CALL(MPI_Send_c) SEND(MPI_Send_c, MPI_Count)
#endif

/* The body of MPI_Isend: the message goes out from a copy where ranks may be stopped, and the request is that of a send
 * to nobody. */
#define ISEND(name, type)                                                                                                 \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request) {        \
        if (weft_find_own_replay() && send_from_copy(buf, (MPI_Count)count, datatype, dest, tag, comm)) dest = MPI_PROC_NULL;\
        return REAL(name)(buf, count, datatype, dest, tag, comm, request);                                                \
    }
WEFT_REPLAY_CALL(MPI_Isend) ISEND(MPI_Isend, int)
#ifdef HAVE_MPI_Isend_c
WEFT_REPLAY_CALL(MPI_Isend_c) ISEND(MPI_Isend_c, MPI_Count)
#endif

/* ---- collectives that mpi4py makes with Python's lock held, before the first collective of objects ---- */
/* Duplicate a communicator with Python's lock released, so that the debugger can look at the waiting rank. */
WEFT_REPLAY_CALL(MPI_Comm_dup)(MPI_Comm comm, MPI_Comm *newcomm) {
    void *lock = weft_python ? weft_release_python_lock() : NULL;
    int code = REAL(MPI_Comm_dup)(comm, newcomm);
    weft_retake_python_lock(lock);
    return code;
}

/* Merge a communicator with Python's lock released, so that the debugger can look at the waiting rank. */
WEFT_REPLAY_CALL(MPI_Intercomm_merge)(MPI_Comm intercomm, int high, MPI_Comm *newintracomm) {
    void *lock = weft_python ? weft_release_python_lock() : NULL;
    int code = REAL(MPI_Intercomm_merge)(intercomm, high, newintracomm);
    weft_retake_python_lock(lock);
    return code;
}

/* ---- the end ---- */
/* End the replay of this rank once all copied messages have gone out, and finalise MPI. */
WEFT_REPLAY_CALL(MPI_Finalize)(void) {
    if (weft_find_own_replay()) {
        while (copied_sends) {
            complete_copied_sends();
            weft_let_mpi_progress();
        }
        if (control->state == WEFT_CONTROL_RUNNING) control->state = WEFT_CONTROL_ENDED;
        weft_replaying = 0;
        if (silent_comm != MPI_COMM_NULL) REAL(MPI_Comm_free)(&silent_comm);
    }
    return REAL(MPI_Finalize)();
}
