/* Replay: under the wrappers of level trace, so that a replay is recorded like any run.
 *
 * Before a call goes out, weft_check_call_against_plan holds it against the plan (plan.h) and parks the thread at its goal. The
 * functions here stand between the wrapper and MPI (weft_under) and give what could have come out otherwise the
 * recorded outcome: a wildcard receive is posted with its recorded source, Waitany and its kin wait for the recorded
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
static int index_of_this = -1; /* this rank's place among all ranks of the record */
static MPI_Comm aside; /* a copy of MPI_COMM_SELF: nothing is ever sent there */

static void find_turn(int slot, const struct weft_plan_entry *entries, uint64_t count, uint64_t from);

void weft_sleep_microseconds(long microseconds) {
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}
#define nap weft_sleep_microseconds

/* ---- taking the plan up ---- */
static const void *span(uint64_t offset, uint64_t count, uint64_t each) {
    if (offset % 8 || offset > plan_size || count > (plan_size - offset) / each) return NULL;
    return plan + offset;
}

/* Maps a file of a rank's plan into memory; returns NULL if there is none. */
void *weft_map_plan_file(const char *folder, const char *name, int rank, int protection, uint64_t *size) {
    char path[4096];
    struct stat status;
    int n = snprintf(path, sizeof path, "%s/%s-%06d.bin", folder, name, rank);
    int fd = n > 0 && n < (int)sizeof path ? open(path, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC) : -1;
    void *at = MAP_FAILED;
    if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0)
        at = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (at == MAP_FAILED) return NULL;
    *size = (uint64_t)status.st_size;
    return at;
}

/* ---- spawned worlds: which of the record's a world is only its parents know, by the order of their spawns ---- */
enum { FAMILY_TAG = 31847, FAMILY_WAIT = 10000 }; /* ms until a child runs freely that is told nothing */

/* In the parents, before MPI_Comm_spawn returns: no message of the program can be earlier. */
void weft_send_world_to_children(MPI_Comm children, uint32_t number) {
    int rank = 0, size = 0;
    int32_t first = -1;
    if (!weft_replaying) return;
    const int32_t *worlds = span(header->worlds, header->world_count, sizeof *worlds);
    if (worlds && number - 1 < header->world_count) first = worlds[number - 1];
    REAL(MPI_Comm_rank)(children, &rank);
    REAL(MPI_Comm_remote_size)(children, &size);
    for (int i = 0; first >= 0 && rank == 0 && i < size; i++)
        REAL(MPI_Send)(&first, 1, MPI_INT, i, FAMILY_TAG, children);
}

/* In a child: the record's index of the first rank of its world, -1 where nobody tells. */
static int32_t family(MPI_Comm parent) {
    int32_t first = -1;
    for (int waited = 0, flag = 0; !flag && waited < FAMILY_WAIT; waited++) {
        if (REAL(MPI_Iprobe)(0, FAMILY_TAG, parent, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
        if (flag) REAL(MPI_Recv)(&first, 1, MPI_INT, 0, FAMILY_TAG, parent, MPI_STATUS_IGNORE);
        else nap(1000);
    }
    return first;
}

/* Called when the world's rank is known; without a usable plan the process runs freely, and the other side is told.
 * Returns the rank's index in the record, -1 where it is not of the record. */
int weft_start_replay(const char *folder, int rank) {
    uint64_t size = 0;
    MPI_Comm parent = MPI_COMM_NULL;
    if (control) return index_of_this;
    aside = MPI_COMM_NULL;
    if (REAL(MPI_Comm_get_parent)(&parent) != MPI_SUCCESS) return -1;
    if (parent != MPI_COMM_NULL) {
        int32_t first = family(parent);
        if (first < 0) return -1;
        rank += first;
    }
    index_of_this = rank;
    struct weft_control *page = weft_map_plan_file(folder, "control", rank, PROT_READ | PROT_WRITE, &size);
    if (!page || size < sizeof *page || page->magic != WEFT_CONTROL_MAGIC) return -1;
    control = page;
    control->pid = (int32_t)getpid();
    plan = weft_map_plan_file(folder, "plan", rank, PROT_READ, &plan_size);
    header = (const struct weft_plan_header *)plan;
    bool good = plan && plan_size >= sizeof *header && header->magic == WEFT_PLAN_MAGIC && header->size == plan_size;
    if (good) {
        kinds = span(header->kinds, header->functions, 1);
        canonical = span(header->canonical, header->functions, 2);
        good = kinds && canonical && span(header->table, header->threads, sizeof(struct weft_plan_thread)) &&
               REAL(MPI_Comm_dup)(MPI_COMM_SELF, &aside) == MPI_SUCCESS;
    }
    if (!good) {
        control->state = WEFT_CONTROL_REFUSED;
        return rank;
    }
    const struct weft_plan_thread *t = span(header->table, header->threads, sizeof *t);
    for (uint32_t i = 0; i < header->threads && i < WEFT_CONTROL_THREADS; i++) {
        const struct weft_plan_entry *entries = span(t[i].entries, t[i].entry_count, sizeof *entries);
        find_turn((int)i, entries, entries ? t[i].entry_count : 0, 0);
    }
    weft_map_turn_counters(folder);
    control->state = WEFT_CONTROL_RUNNING;
    weft_replaying = 1;
    __atomic_fetch_or(&weft_attention, WEFT_ATTENTION_REPLAY, __ATOMIC_RELAXED);
    return rank;
}

/* MPI goes on for the others while this thread stands still. A probe takes nothing away. Not in `aside`: MPICH answers
 * for a communicator of one process without looking at what others ask for. */
void weft_let_mpi_progress(void) {
    int flag;
    MPI_Status status;
    REAL(MPI_Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
}

static void orphans_test(void);

/* ---- waiting ---- */
/* Waits for a request by testing it, so that the other ranks' replay goes on meanwhile. */
int weft_wait_by_testing(MPI_Request *request, MPI_Status *status) {
    for (unsigned polls = 0;; weft_pause_between_polls(&polls)) {
        int done = 0, code = REAL(MPI_Test)(request, &done, status);
        if (code != MPI_SUCCESS || done) return code;
    }
}

/* Waits until all requests are complete, and lets the other ranks' replay go on meanwhile. */
static int wait_for_all(int count, MPI_Request requests[], MPI_Status statuses[]) {
    for (unsigned polls = 0;; weft_pause_between_polls(&polls)) {
        int done = 0, code = REAL(MPI_Testall)(count, requests, &done, statuses);
        if (code != MPI_SUCCESS || done) return code;
    }
}

/* What a rank that a debugger stopped outside of MPI calls now and then, from the stopped thread. */
__attribute__((visibility("default"))) void weft_debug_drive(void);
/* Lets MPI go on while the debugger holds the program; called by the debugger. */
void weft_debug_drive(void) {
    if (!weft_replaying || weft_depth) return;
    weft_depth = 1;
    orphans_test();
    weft_let_mpi_progress();
    weft_depth = 0;
}

/* Reports that the program does something else than its record, and holds it. */
static _Noreturn void diverge(struct weft_replay *r, struct weft_thread *thread, struct weft_event *event, int why,
                              int field, int64_t expected, int64_t got) {
    if (event) { /* the call that does not fit is the last one of this record */
        thread->events.next += sizeof *event;
        event->enter = weft_ticks(weft_clock_kind);
        weft_stream_publish(&thread->events);
    }
    if (__sync_bool_compare_and_swap(&control->diverged.why, 0, (uint32_t)why)) {
        control->diverged.thread = (uint32_t)r->slot;
        control->diverged.field = (uint32_t)field;
        control->diverged.at = r->at;
        control->diverged.function = event ? event->function : 0;
        control->diverged.expected = expected;
        control->diverged.got = got;
        __atomic_store_n(&control->state, WEFT_CONTROL_DIVERGED, __ATOMIC_RELEASE);
    }
    for (;;) {
        orphans_test();
        weft_let_mpi_progress();
        nap(1000);
    }
}

/* Finds the part of the plan that is for the calling thread; a thread that the record does not have diverges. NULL
 * without memory. */
static struct weft_replay *adopt(struct weft_thread *thread) {
    static struct weft_replay nobody;
    struct weft_replay *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    int slot = (int)thread->slot;
    const struct weft_plan_thread *all = span(header->table, header->threads, sizeof *all);
    const struct weft_plan_thread *t = NULL;
    for (uint32_t i = 0; i < header->threads; i++)
        if (all[i].made == thread->made) t = &all[slot = (int)i];
    if (!t || slot >= WEFT_CONTROL_THREADS) {
        nobody.slot = slot;
        diverge(&nobody, thread, NULL, WEFT_DIVERGED_THREAD, 0, (int64_t)header->threads, (int64_t)thread->made);
    }
    r->slot = slot;
    r->control = &control->thread[slot];
    r->control->tid = (uint32_t)syscall(SYS_gettid);
    if ((uint32_t)slot >= control->threads) control->threads = (uint32_t)slot + 1;
    r->entries = span(t->entries, t->entry_count, sizeof *r->entries);
    r->posts = span(t->posts, t->post_count, sizeof *r->posts);
    r->values = span(t->values, t->value_count, sizeof *r->values);
    r->times = span(t->times, t->time_count, 1);
    r->times_end = r->times ? r->times + t->time_count : NULL;
    r->entry_count = r->entries ? t->entry_count : 0;
    r->post_count = r->posts ? t->post_count : 0;
    r->value_count = r->values ? t->value_count : 0;
    r->turns = span(t->turns, t->turn_count, sizeof *r->turns);
    r->turn_count = r->turns ? t->turn_count : 0;
    thread->replay = r;
    return r;
}

/* Returns the state of the calling thread's replay, NULL if it runs freely. */
struct weft_replay *weft_find_own_replay(void) {
    struct weft_thread *thread = weft_self;
    if (!weft_replaying || !thread) return NULL;
    return LIKELY(thread->replay != NULL) ? thread->replay : adopt(thread);
}

#define mine weft_find_own_replay

/* ---- turns: in which order the threads of a process post ---- */
static struct { volatile uint32_t turn; volatile uint64_t at; } pending_turn[WEFT_CONTROL_THREADS];

/* Notes which turn the thread's next post has, from entry `from` of its plan on. */
static void find_turn(int slot, const struct weft_plan_entry *entries, uint64_t count, uint64_t from) {
    while (from < count && !entries[from].turn) from++;
    pending_turn[slot].at = from;
    __atomic_store_n(&pending_turn[slot].turn, from < count ? entries[from].turn : UINT32_MAX, __ATOMIC_RELEASE);
}

/* Whether nobody has to post before: threads that stand at their goals will not. */
static bool my_turn(const struct weft_replay *r, uint32_t turn) {
    for (uint32_t i = 0; i < header->threads && i < WEFT_CONTROL_THREADS; i++)
        if ((int)i != r->slot && pending_turn[i].turn < turn && pending_turn[i].at < control->thread[i].goal) return false;
    return true;
}

static void park(struct weft_replay *r);

/* Waits until all posts of other threads that come before in the record are made. */
static void await_turn(struct weft_replay *r) {
    uint64_t at = pending_turn[r->slot].at;
    if (at == r->at && at >= r->control->goal) park(r); /* not later, under the lock that the other threads need */
    /* A probe's call has passed the guard when it posts, other calls have not. */
    if ((at != r->at && at + 1 != r->at) || at >= r->entry_count) return;
    for (unsigned spins = 0; !my_turn(r, r->entries[at].turn); spins++) {
        if (spins < 100) sched_yield();
        else nap(50);
    }
}

static struct weft_replay *mine_now(void);

void weft_await_posting_turn(void) {
    struct weft_replay *r = mine_now();
    if (r) await_turn(r);
}

void weft_end_posting_turn(void) {
    struct weft_replay *r = mine_now();
    if (r && r->at > pending_turn[r->slot].at) find_turn(r->slot, r->entries, r->entry_count, r->at);
}

static struct weft_replay *mine_now(void) { return mine(); }

/* ---- the guard ---- */
/* Holds the thread at the goal of the replay until it gets a later one. */
static void park(struct weft_replay *r) {
    void *lock = weft_python ? weft_release_python_lock() : NULL;
    r->control->parked = 1;
    while (r->at >= r->control->goal) {
        orphans_test();
        weft_let_mpi_progress();
        nap(300);
    }
    r->control->parked = 0;
    weft_retake_python_lock(lock);
}

/* Goes on to the next entry of the plan. */
static inline void passed(struct weft_replay *r) {
    r->at++;
    r->polls = 0;
    __atomic_store_n(&r->control->at, r->at, __ATOMIC_RELEASE);
}

/* The entry that comes next, NULL behind the end of an open record. */
static const struct weft_plan_entry *upcoming(struct weft_replay *r, struct weft_thread *thread, struct weft_event *event,
                                              bool poll) {
    if (UNLIKELY(r->at >= r->control->goal) && !(poll && r->at == r->control->goal && r->polls < r->control->goal_polls))
        park(r);
    if (LIKELY(r->at < r->entry_count)) return &r->entries[r->at];
    if (!poll || !r->control->behind) r->control->behind++;
    r->control->free_polls = poll ? r->control->free_polls + 1 : 0;
    if (!(header->flags & WEFT_PLAN_OPEN) && event) diverge(r, thread, event, WEFT_DIVERGED_END, 0, 0, event->function);
    return NULL;
}

/* Compares a call with the next entry of the plan, and holds the thread at its goal. */
void weft_check_call_against_plan(struct weft_thread *thread, struct weft_event *event) {
    uint16_t function = event->function;
    uint8_t kind = function < header->functions ? kinds[function] : 0;
    if (!(kind & WEFT_CHECK_CALL) || kind & WEFT_CHECK_POLL) return;
    struct weft_replay *r = mine();
    if (!r || !(header->flags & WEFT_PLAN_CHECKED)) return;
    const struct weft_plan_entry *e = upcoming(r, thread, event, false);
    r->current = e;
    if (!e) return;
    if (UNLIKELY(e->function != canonical[function])) diverge(r, thread, event, WEFT_DIVERGED_CALL, 0, e->function, function);
#define HOLD(bit, wanted, given)                                                                                          \
    if (kind & bit && UNLIKELY(wanted != given)) diverge(r, thread, event, WEFT_DIVERGED_ARGUMENT, bit, (int64_t)wanted, (int64_t)given)
    HOLD(WEFT_CHECK_COMM, e->comm, event->comm);
    HOLD(WEFT_CHECK_PEER, (e->flags & WEFT_ENTRY_ANY_SOURCE ? WEFT_RANK_ANY_SOURCE : e->peer), event->peer);
    HOLD(WEFT_CHECK_TAG, (e->flags & WEFT_ENTRY_ANY_TAG ? WEFT_TAG_ANY : e->tag), event->tag);
    HOLD(WEFT_CHECK_COUNT, e->count, event->count);
    HOLD(WEFT_CHECK_TYPE, e->datatype, event->datatype);
    if (!(e->flags & WEFT_ENTRY_GUESSED) && event->buffer != WEFT_GUESSED) HOLD(WEFT_CHECK_OBJECT, e->object, event->object);
#undef HOLD
    passed(r);
}

/* The outcome for a call that is never a poll: what the guard has just passed or, at level outcomes, the next one. */
static const struct weft_plan_entry *outcome(struct weft_replay *r, uint8_t wanted) {
    const struct weft_plan_entry *e = r->current;
    if (!(header->flags & WEFT_PLAN_CHECKED)) {
        e = upcoming(r, NULL, NULL, false);
        if (!e) return NULL;
        if (e->outcome != wanted) diverge(r, weft_self, NULL, WEFT_DIVERGED_OUTCOME, 0, e->outcome, wanted);
        passed(r);
    }
    r->current = NULL;
    return e && e->outcome == wanted && !(e->flags & (WEFT_ENTRY_OPEN | WEFT_ENTRY_FAILED)) ? e : NULL;
}

static int32_t decided(const struct weft_replay *r, const struct weft_plan_entry *e, uint64_t i) {
    return e->value + i < r->value_count ? r->values[e->value + i] : -1;
}

/* ---- polls ---- */
enum answer { ANSWER_FREE, ANSWER_FAIL, ANSWER_PASS };
struct asked { uint32_t comm, object; int32_t peer, tag; uint16_t function; uint8_t outcome; bool by_object; };

/* What a poll is told. More polls than recorded are answered with failure as long as something else is due: that is
 * for what a program awaits beside MPI (another thread, the clock, a file). */
static enum answer answer(struct weft_replay *r, const struct asked *a, const struct weft_plan_entry **found) {
    const struct weft_plan_entry *e = upcoming(r, NULL, NULL, true);
    if (!e) return header->flags & WEFT_PLAN_OPEN || !(header->flags & WEFT_PLAN_CHECKED) ? ANSWER_FREE : ANSWER_FAIL;
    bool fits = e->outcome == a->outcome;
    if (fits && header->flags & WEFT_PLAN_CHECKED) {
        fits = e->function == canonical[a->function];
        if (fits && a->by_object) fits = e->object == a->object || e->flags & WEFT_ENTRY_GUESSED;
        else if (fits && a->outcome != WEFT_OUTCOME_INDEX && a->outcome != WEFT_OUTCOME_COUNT && a->comm)
            fits = e->comm == a->comm && (e->flags & WEFT_ENTRY_ANY_SOURCE || e->peer == a->peer) &&
                   (e->flags & WEFT_ENTRY_ANY_TAG || e->tag == a->tag);
    }
    if (fits && e->flags & (WEFT_ENTRY_OPEN | WEFT_ENTRY_FAILED)) {
        passed(r);
        return ANSWER_FREE;
    }
    if (fits && r->polls >= e->polls) {
        *found = e;
        r->control->polling = 0;
        r->control->waits = 1; /* the wrapper's event may be a folded one that nobody sees: told here */
        passed(r);
        return ANSWER_PASS;
    }
    if (r->polls++ >= e->polls) {
        r->control->polling = r->polls;
        orphans_test();
        sched_yield();
    }
    weft_let_mpi_progress();
    return ANSWER_FAIL;
}

/* ---- wildcard receives ---- */
static int posted(struct weft_replay *r) {
    return r->post_at < r->post_count ? r->posts[r->post_at++] : WEFT_POSTED_FREE;
}

/* Returns the source that a receive of any source had in the record, MPI_ANY_SOURCE if it is not known. `comm` becomes
 * one without messages if it got none. */
static int source_of(struct weft_replay *r, MPI_Comm *comm) {
    int source = posted(r);
    if (source >= 0) return source;
    if (source == WEFT_POSTED_NEVER && comm) *comm = aside;
    return MPI_ANY_SOURCE;
}

/* Posts and then waits patiently; with several threads each posts in turn. */
#define POST(name) ((__typeof__(&P##name))weft_split[K_##name])

#define RECEIVE(name, type)                                                                                                \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status) {              \
        struct weft_replay *r = source == MPI_ANY_SOURCE ? mine() : NULL;                                                 \
        if (r) source = source_of(r, NULL);                                                                               \
        return POST(name)(buf, count, datatype, source, tag, comm, status);                                               \
    }
WEFT_REPLAY_CALL(MPI_Recv) RECEIVE(MPI_Recv, int)
#ifdef HAVE_MPI_Recv_c
WEFT_REPLAY_CALL(MPI_Recv_c) RECEIVE(MPI_Recv_c, MPI_Count)
#endif

#define IRECEIVE(name, type)                                                                                               \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request) {            \
        struct weft_replay *r = source == MPI_ANY_SOURCE ? mine() : NULL;                                                 \
        if (r) source = source_of(r, &comm);                                                                              \
        return REAL(name)(buf, count, datatype, source, tag, comm, request);                                              \
    }
WEFT_REPLAY_CALL(MPI_Irecv) IRECEIVE(MPI_Irecv, int)
#ifdef HAVE_MPI_Irecv_c
WEFT_REPLAY_CALL(MPI_Irecv_c) IRECEIVE(MPI_Irecv_c, MPI_Count)
#endif

static bool send_copy(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);

#define SENDRECV(name, type, last, at, MINE)                                                                                     \
    (const void *sendbuf, type sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, type recvcount,    \
     MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, last *at) {                                           \
        struct weft_replay *r = mine();                                                                                   \
        if (r && source == MPI_ANY_SOURCE) source = source_of(r, NULL);                                                   \
        if (r && send_copy(sendbuf, (MPI_Count)sendcount, sendtype, dest, sendtag, comm)) dest = MPI_PROC_NULL;           \
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

#define REPLACE(name, type, last, at)                                                                                      \
    (void *buf, type count, MPI_Datatype datatype, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,         \
     last *at) {                                                                                                          \
        struct weft_replay *r = mine();                                                                                   \
        if (r && source == MPI_ANY_SOURCE) source = source_of(r, NULL);                                                   \
        if (r && send_copy(buf, (MPI_Count)count, datatype, dest, sendtag, comm)) dest = MPI_PROC_NULL;                   \
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

static struct virtual *virtual_of(MPI_Request handle) {
    for (int i = 0; i < virtual_count; i++)
        if (virtuals[i].handle == handle) return &virtuals[i];
    return NULL;
}

/* Notes a persistent request whose starts the replay makes itself. */
static void virtual_add(struct virtual v) {
    pthread_mutex_lock(&virtual_lock);
    if (virtual_count == virtual_space) {
        int space = virtual_space ? virtual_space * 2 : 64;
        struct virtual *grown = realloc(virtuals, sizeof *grown * (size_t)space);
        if (grown) {
            virtuals = grown;
            virtual_space = space;
        }
    }
    if (virtual_count < virtual_space) virtuals[virtual_count++] = v;
    pthread_mutex_unlock(&virtual_lock);
}

#define RECEIVE_INIT(name, type, is_large)                                                                                 \
    (void *buf, type count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Request *request) {            \
        int code = REAL(name)(buf, count, datatype, source, tag, comm, request);                                          \
        if (code == MPI_SUCCESS && source == MPI_ANY_SOURCE && mine())                                                    \
            virtual_add((struct virtual){*request, MPI_REQUEST_NULL, buf, (MPI_Count)count, datatype, tag, comm, is_large,  \
                                         false, 0});                                                                      \
        return code;                                                                                                      \
    }
WEFT_REPLAY_CALL(MPI_Recv_init) RECEIVE_INIT(MPI_Recv_init, int, false)
#ifdef HAVE_MPI_Recv_init_c
WEFT_REPLAY_CALL(MPI_Recv_init_c) RECEIVE_INIT(MPI_Recv_init_c, MPI_Count, true)
#endif

#define SEND_INIT(name, type)                                                                                              \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request) {        \
        int code = REAL(name)(buf, count, datatype, dest, tag, comm, request);                                            \
        if (code == MPI_SUCCESS && mine() && header->flags & WEFT_PLAN_BOUNDED)                                           \
            virtual_add((struct virtual){*request, MPI_REQUEST_NULL, (void *)(uintptr_t)buf, (MPI_Count)count, datatype,  \
                                         tag, comm, false, true, dest});                                                  \
        return code;                                                                                                      \
    }
WEFT_REPLAY_CALL(MPI_Send_init) SEND_INIT(MPI_Send_init, int)
#ifdef HAVE_MPI_Send_init_c
WEFT_REPLAY_CALL(MPI_Send_init_c) SEND_INIT(MPI_Send_init_c, MPI_Count)
#endif

/* Starts a persistent request; one of any source as a receive from the recorded source. */
static int start(MPI_Request *request) {
    struct virtual *v = virtual_count ? virtual_of(*request) : NULL;
    struct weft_replay *r = v ? mine() : NULL;
    if (r && v->sends && send_copy(v->buf, v->count, v->type, v->dest, v->tag, v->comm)) return MPI_SUCCESS;
    if (!r || v->sends) return REAL(MPI_Start)(request);
    MPI_Comm comm = v->comm;
    int source = source_of(r, &comm);
#ifdef HAVE_MPI_Irecv_c
    if (v->large) return REAL(MPI_Irecv_c)(v->buf, v->count, v->type, source, v->tag, comm, &v->real);
#endif
    return REAL(MPI_Irecv)(v->buf, (int)v->count, v->type, source, v->tag, comm, &v->real);
}

WEFT_REPLAY_CALL(MPI_Start)(MPI_Request *request) { return start(request); }

/* Starts the requests one by one, as in start(). */
WEFT_REPLAY_CALL(MPI_Startall)(int count, MPI_Request requests[]) {
    if (!virtual_count) return REAL(MPI_Startall)(count, requests);
    int code = MPI_SUCCESS;
    for (int i = 0; i < count && code == MPI_SUCCESS; i++) code = start(&requests[i]);
    return code;
}

/* Frees a request, also the one that the replay has made behind it. */
WEFT_REPLAY_CALL(MPI_Request_free)(MPI_Request *request) {
    struct virtual *v = virtual_count ? virtual_of(*request) : NULL;
    if (v) {
        pthread_mutex_lock(&virtual_lock);
        if (v->real != MPI_REQUEST_NULL) REAL(MPI_Request_free)(&v->real);
        *v = virtuals[--virtual_count];
        pthread_mutex_unlock(&virtual_lock);
    }
    return REAL(MPI_Request_free)(request);
}

/* ---- completions ---- */
static int wait_one(MPI_Request *request, MPI_Status *status) {
    struct virtual *v = virtual_count ? virtual_of(*request) : NULL;
    return weft_wait_by_testing(v && v->real != MPI_REQUEST_NULL ? &v->real : request, status);
}

WEFT_REPLAY_CALL(MPI_Wait)(MPI_Request *request, MPI_Status *status) { return wait_one(request, status); }

/* Waits for all requests, one by one if some are the replay's own. */
static int wait_all(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!virtual_count) return wait_for_all(count, requests, statuses);
    int code = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        int one = wait_one(&requests[i], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i]);
        if (one != MPI_SUCCESS) code = one;
    }
    return code;
}

WEFT_REPLAY_CALL(MPI_Waitall)(int count, MPI_Request requests[], MPI_Status statuses[]) {
    return wait_all(count, requests, statuses);
}

static bool at_all(int32_t index, int count) { return index >= 0 && index < count; }

/* Waits for the request that was complete first in the record. */
WEFT_REPLAY_CALL(MPI_Waitany)(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    struct weft_replay *r = mine();
    const struct weft_plan_entry *e = r ? outcome(r, WEFT_OUTCOME_INDEX) : NULL;
    int32_t chosen = e ? decided(r, e, 0) : -1;
    if (!at_all(chosen, count)) return REAL(MPI_Waitany)(count, requests, index, status);
    *index = chosen;
    return wait_one(&requests[chosen], status);
}

/* Waits for the requests that a call completed in the record, and returns them. */
static int wait_some(const struct weft_replay *r, const struct weft_plan_entry *e, int n, MPI_Request requests[], int *outcount,
                     int indices[], MPI_Status statuses[]) {
    int32_t some = decided(r, e, 0);
    if (some < 0) return REAL(MPI_Waitsome)(n, requests, outcount, indices, statuses);
    int code = MPI_SUCCESS, given = 0;
    for (int32_t i = 0; i < some && i < n; i++) {
        int32_t chosen = decided(r, e, 1 + (uint64_t)i);
        if (!at_all(chosen, n)) continue;
        int one = wait_one(&requests[chosen], statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[given]);
        if (one != MPI_SUCCESS) code = one;
        indices[given++] = chosen;
    }
    *outcount = given;
    return code;
}

/* Waits for the requests that were complete in the record. */
WEFT_REPLAY_CALL(MPI_Waitsome)(int n, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]) {
    struct weft_replay *r = mine();
    const struct weft_plan_entry *e = r ? outcome(r, WEFT_OUTCOME_COUNT) : NULL;
    if (!e) return REAL(MPI_Waitsome)(n, requests, outcount, indices, statuses);
    return wait_some(r, e, n, requests, outcount, indices, statuses);
}

static void answered(struct weft_replay *const *r) {
    if (*r) (*r)->control->waits = 0;
}

#define ASK(...)                                                                                                           \
    struct weft_replay *r __attribute__((cleanup(answered))) = mine();                                                    \
    const struct weft_plan_entry *e = NULL;                                                                               \
    enum answer told = r ? answer(r, &(struct asked){__VA_ARGS__}, &e) : ANSWER_FREE

/* Returns the id of a request, 0 if it is not certain. */
static uint32_t id_of(MPI_Request request, const MPI_Request *at) {
    if (weft_threaded || request == MPI_REQUEST_NULL) return 0;
    struct weft_found found = weft_find_request(request, at, 0);
    return found.guessed ? 0 : found.id;
}

/* Returns what the test came to in the record. */
WEFT_REPLAY_CALL(MPI_Test)(MPI_Request *request, int *flag, MPI_Status *status) {
    uint32_t id = id_of(*request, request);
    ASK(.function = F_MPI_Test, .outcome = WEFT_OUTCOME_DONE, .object = id, .by_object = id != 0);
    if (told == ANSWER_FREE) return REAL(MPI_Test)(request, flag, status);
    *flag = told == ANSWER_PASS;
    return *flag ? wait_one(request, status) : MPI_SUCCESS;
}

/* Returns what the test came to in the record. */
WEFT_REPLAY_CALL(MPI_Testall)(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    ASK(.function = F_MPI_Testall, .outcome = WEFT_OUTCOME_DONE);
    if (told == ANSWER_FREE) return REAL(MPI_Testall)(count, requests, flag, statuses);
    *flag = told == ANSWER_PASS;
    return *flag ? wait_all(count, requests, statuses) : MPI_SUCCESS;
}

/* Returns what the test came to in the record, with the request that was complete. */
WEFT_REPLAY_CALL(MPI_Testany)(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    ASK(.function = F_MPI_Testany, .outcome = WEFT_OUTCOME_INDEX);
    int32_t chosen = e ? decided(r, e, 0) : -1;
    if (told == ANSWER_FREE || (told == ANSWER_PASS && !at_all(chosen, count)))
        return REAL(MPI_Testany)(count, requests, index, flag, status);
    *flag = told == ANSWER_PASS;
    *index = *flag ? chosen : MPI_UNDEFINED;
    return *flag ? wait_one(&requests[chosen], status) : MPI_SUCCESS;
}

/* Returns what the test came to in the record, with the requests that were complete. */
WEFT_REPLAY_CALL(MPI_Testsome)(int n, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]) {
    ASK(.function = F_MPI_Testsome, .outcome = WEFT_OUTCOME_COUNT);
    if (told == ANSWER_FREE) return REAL(MPI_Testsome)(n, requests, outcount, indices, statuses);
    *outcount = 0;
    return told == ANSWER_PASS ? wait_some(r, e, n, requests, outcount, indices, statuses) : MPI_SUCCESS;
}

/* Returns what the query came to in the record. */
WEFT_REPLAY_CALL(MPI_Request_get_status)(MPI_Request request, int *flag, MPI_Status *status) {
    uint32_t id = id_of(request, NULL);
    ASK(.function = F_MPI_Request_get_status, .outcome = WEFT_OUTCOME_DONE, .object = id, .by_object = id != 0);
    struct virtual *v = virtual_count ? virtual_of(request) : NULL;
    if (v && v->real != MPI_REQUEST_NULL) request = v->real;
    *flag = 0;
    if (told == ANSWER_FAIL) return MPI_SUCCESS;
    int code = MPI_SUCCESS;
    do code = REAL(MPI_Request_get_status)(request, flag, status);
    while (told == ANSWER_PASS && code == MPI_SUCCESS && !*flag);
    return code;
}

/* Cancels a request only if that succeeded in the record. */
WEFT_REPLAY_CALL(MPI_Cancel)(MPI_Request *request) {
    struct weft_replay *r = mine();
    const struct weft_plan_entry *e = r && header->flags & WEFT_PLAN_CHECKED ? outcome(r, WEFT_OUTCOME_CANCEL) : NULL;
    if (e && decided(r, e, 0) == 0) return MPI_SUCCESS; /* it came too late in the record */
    struct virtual *v = virtual_count ? virtual_of(*request) : NULL;
    return REAL(MPI_Cancel)(v && v->real != MPI_REQUEST_NULL ? &v->real : request);
}

/* ---- probes ---- */
/* Probes for a message of the recorded source. */
WEFT_REPLAY_CALL(MPI_Probe)(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    struct weft_replay *r = source == MPI_ANY_SOURCE ? mine() : NULL;
    const struct weft_plan_entry *e = r ? outcome(r, WEFT_OUTCOME_SOURCE) : NULL;
    if (e && decided(r, e, 0) >= 0) source = decided(r, e, 0);
    return POST(MPI_Probe)(source, tag, comm, status);
}

/* Probes for a message of the recorded source. */
WEFT_REPLAY_CALL(MPI_Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    struct weft_replay *r = source == MPI_ANY_SOURCE ? mine() : NULL;
    const struct weft_plan_entry *e = r ? outcome(r, WEFT_OUTCOME_SOURCE) : NULL;
    if (e && decided(r, e, 0) >= 0) source = decided(r, e, 0);
    return POST(MPI_Mprobe)(source, tag, comm, message, status);
}

#define PROBED(name)                                                                                                       \
    ASK(.function = F_##name, .outcome = source == MPI_ANY_SOURCE ? WEFT_OUTCOME_SOURCE : WEFT_OUTCOME_DONE,              \
        .comm = weft_threaded ? 0 : weft_find_object_id(weft_self, WEFT_CLASS_COMM, (uintptr_t)comm), .peer = weft_encode_rank(source),      \
        .tag = weft_encode_tag(tag));                                                                                            \
    if (told == ANSWER_PASS && source == MPI_ANY_SOURCE && decided(r, e, 0) >= 0) source = decided(r, e, 0)

/* Returns what the probe came to in the record, with a message of the recorded source. */
WEFT_REPLAY_CALL(MPI_Iprobe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    if (source == MPI_PROC_NULL) return REAL(MPI_Iprobe)(source, tag, comm, flag, status);
    PROBED(MPI_Iprobe);
    if (told == ANSWER_FREE) return POST(MPI_Iprobe)(source, tag, comm, flag, status);
    *flag = told == ANSWER_PASS;
    return *flag ? POST(MPI_Probe)(source, tag, comm, status) : MPI_SUCCESS;
}

/* Returns what the probe came to in the record, with a message of the recorded source. */
WEFT_REPLAY_CALL(MPI_Improbe)(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    if (source == MPI_PROC_NULL) return REAL(MPI_Improbe)(source, tag, comm, flag, message, status);
    PROBED(MPI_Improbe);
    if (told == ANSWER_FREE) return POST(MPI_Improbe)(source, tag, comm, flag, message, status);
    *flag = told == ANSWER_PASS;
    return *flag ? POST(MPI_Mprobe)(source, tag, comm, message, status) : MPI_SUCCESS;
}

/* ---- time ---- */
static bool next_time(struct weft_replay *r) {
    struct weft_plan_clock clock;
    if (r->time_more) {
        r->time_more--;
        return weft_read_next_time(&r->times, r->times_end, r->time_unit, &r->time);
    }
    if (r->times_end - r->times < (int64_t)sizeof clock) return false;
    memcpy(&clock, r->times, sizeof clock);
    memcpy(&r->time, clock.first, sizeof r->time);
    r->times += sizeof clock;
    r->time_more = clock.more;
    if (!clock.more || r->times_end - r->times < (int64_t)sizeof r->time_unit) return true;
    memcpy(&r->time_unit, r->times, sizeof r->time_unit);
    r->times += sizeof r->time_unit;
    return true;
}

WEFT_HIDDEN double weft_p_MPI_Wtime(void);
double weft_p_MPI_Wtime(void) {
    struct weft_replay *r = mine();
    return r && next_time(r) ? r->time : REAL(MPI_Wtime)();
}

/* ---- sends that must not need a receiver, as that may be parked: they go out from a copy ---- */
struct orphan { MPI_Request request; void *copy; struct orphan *next; };
static struct orphan *orphans;
static pthread_mutex_t orphan_lock = PTHREAD_MUTEX_INITIALIZER;
enum { SMALL_SEND = 256 }; /* bytes that every MPI sends without the receiver's help */

/* Completes sends from copies that the replay has made, and frees the copies. */
static void orphans_test(void) {
    if (!orphans) return;
    pthread_mutex_lock(&orphan_lock);
    for (struct orphan **at = &orphans; *at;) {
        int flag = 0;
        struct orphan *one = *at;
        if (REAL(MPI_Test)(&one->request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag) {
            *at = one->next;
            free(one->copy);
            free(one);
        } else at = &one->next;
    }
    pthread_mutex_unlock(&orphan_lock);
}

/* Whether the message went out; if not, the caller sends it as it is. */
static bool send_copy(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    int size = 0, bytes = 0, position = 0;
    if (!(header->flags & WEFT_PLAN_BOUNDED) || dest < 0 || count <= 0 || count > INT32_MAX) return false;
    if (REAL(MPI_Type_size)(type, &size) != MPI_SUCCESS || (int64_t)size * count <= SMALL_SEND) return false;
    if (REAL(MPI_Pack_size)((int)count, type, comm, &bytes) != MPI_SUCCESS) return false;
    struct orphan *one = malloc(sizeof *one);
    void *copy = malloc((size_t)bytes);
    if (!one || !copy || REAL(MPI_Pack)(buf, (int)count, type, copy, bytes, &position, comm) != MPI_SUCCESS ||
        REAL(MPI_Isend)(copy, position, MPI_PACKED, dest, tag, comm, &one->request) != MPI_SUCCESS) {
        free(one);
        free(copy);
        return false;
    }
    one->copy = copy;
    pthread_mutex_lock(&orphan_lock);
    one->next = orphans;
    orphans = one;
    pthread_mutex_unlock(&orphan_lock);
    return true;
}

#define SEND(name, type)                                                                                                   \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {                              \
        if (mine() && send_copy(buf, (MPI_Count)count, datatype, dest, tag, comm)) return MPI_SUCCESS;                    \
        return POST(name)(buf, count, datatype, dest, tag, comm);                                                         \
    }
WEFT_REPLAY_CALL(MPI_Send) SEND(MPI_Send, int)
#ifdef HAVE_MPI_Send_c
WEFT_REPLAY_CALL(MPI_Send_c) SEND(MPI_Send_c, MPI_Count)
#endif

#define ISEND(name, type)                                                                                                  \
    (const void *buf, type count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request) {        \
        if (mine() && send_copy(buf, (MPI_Count)count, datatype, dest, tag, comm)) dest = MPI_PROC_NULL;                  \
        return REAL(name)(buf, count, datatype, dest, tag, comm, request);                                                \
    }
WEFT_REPLAY_CALL(MPI_Isend) ISEND(MPI_Isend, int)
#ifdef HAVE_MPI_Isend_c
WEFT_REPLAY_CALL(MPI_Isend_c) ISEND(MPI_Isend_c, MPI_Count)
#endif

/* ---- collectives that mpi4py makes with Python's lock held, before the first collective of objects ---- */
/* Gives Python's lock back while the call waits, so that the debugger can look at the rank. */
WEFT_REPLAY_CALL(MPI_Comm_dup)(MPI_Comm comm, MPI_Comm *newcomm) {
    void *lock = weft_python ? weft_release_python_lock() : NULL;
    int code = REAL(MPI_Comm_dup)(comm, newcomm);
    weft_retake_python_lock(lock);
    return code;
}

/* Gives Python's lock back while the call waits, so that the debugger can look at the rank. */
WEFT_REPLAY_CALL(MPI_Intercomm_merge)(MPI_Comm intercomm, int high, MPI_Comm *newintracomm) {
    void *lock = weft_python ? weft_release_python_lock() : NULL;
    int code = REAL(MPI_Intercomm_merge)(intercomm, high, newintracomm);
    weft_retake_python_lock(lock);
    return code;
}

/* ---- the end ---- */
/* Ends the replay of this rank, and finalizes MPI. */
WEFT_REPLAY_CALL(MPI_Finalize)(void) {
    if (mine()) {
        while (orphans) {
            orphans_test();
            weft_let_mpi_progress();
        }
        if (control->state == WEFT_CONTROL_RUNNING) control->state = WEFT_CONTROL_ENDED;
        weft_replaying = 0;
        if (aside != MPI_COMM_NULL) REAL(MPI_Comm_free)(&aside);
    }
    return REAL(MPI_Finalize)();
}
