/* Which task is which: the file of tasks (tasks.h), and numbers that are never used twice for what PVM numbers again. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pvm.h"

#define DAEMON_BIT 0x80000000u
enum { CHILD_WAITS = 15000 }; /* ms until a child that nobody names takes a place without a name */

static struct weft_tasks_header *head;
static struct weft_task *tasks, unknown;
struct weft_task *weft_pvm_me = &unknown;
static int32_t place = -1;
static uint32_t children;

/* Map the file with all tasks of the run. Return false if it is not there or has another format. */
bool weft_pvm_open_tasks(void) {
    char path[PATH_MAX + 32];
    size_t size = sizeof *head + WEFT_TASKS_MOST * sizeof *tasks;
    snprintf(path, sizeof path, "%s/pvm/tasks.bin", weft_run_path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (at == MAP_FAILED) return false;
    head = at;
    tasks = (struct weft_task *)(head + 1);
    return head->magic == WEFT_TASKS_MAGIC;
}

static uint32_t known_task_count(void) {
    uint32_t count = __atomic_load_n(&head->count, __ATOMIC_ACQUIRE);
    return count < WEFT_TASKS_MOST ? count : WEFT_TASKS_MOST;
}

uint32_t weft_pvm_task_count(void) { return known_task_count(); }

/* Return the rank of the task with this id, the latest one if the id was used again; -1: it is unknown. */
static int32_t find_rank_of_task(int tid) {
    for (uint32_t i = known_task_count(); i-- > 0;) /* a tid that was used again is the later one's */
        if (tasks[i].tid == tid) return (int32_t)i;
    return -1;
}

/* Return the rank of a task by its id, from a small cache; WEFT_PVM_DAEMON or WEFT_PVM_STRANGER if it has none. */
int32_t weft_pvm_find_rank(int tid) {
    static __thread struct {
        int tid;
        int32_t rank;
    } last[16];
    uint32_t slot = ((uint32_t)tid * 0x9e3779b9u) >> 28;
    if ((uint32_t)tid & DAEMON_BIT || !tid) return WEFT_PVM_DAEMON;
    if (LIKELY(last[slot].tid == tid)) return last[slot].rank;
    int32_t rank = find_rank_of_task(tid);
    if (rank < 0) return WEFT_PVM_STRANGER;
    last[slot].tid = tid;
    last[slot].rank = rank;
    return rank;
}

/* Return the id of a rank's task, after waiting until it is known; 0 for no rank. */
int weft_pvm_await_tid(int32_t rank) {
    if (rank < 0 || rank >= (int32_t)WEFT_TASKS_MOST) return 0;
    while (!tasks[rank].tid) weft_follow_nap(); /* spawned later than it was when the run was recorded */
    return tasks[rank].tid;
}

/* Make this process the task of a rank: its id, process and program go into the file of tasks. */
static void occupy_rank(int32_t rank, int tid) {
    place = rank;
    weft_pvm_me = &tasks[rank];
    tasks[rank].pid = (int32_t)getpid();
    tasks[rank].state = WEFT_TASK_RUNNING;
    strncpy(tasks[rank].name, program_invocation_short_name, sizeof tasks[rank].name - 1);
    __atomic_store_n(&tasks[rank].tid, tid, __ATOMIC_RELEASE);
}

static int32_t next_place(void) {
    uint32_t at = __atomic_fetch_add(&head->count, 1, __ATOMIC_ACQ_REL);
    return at < WEFT_TASKS_MOST ? (int32_t)at : -1;
}

static bool has_exited(int pid) { return pid > 0 && kill(pid, 0) && errno == ESRCH; }

/* Return the rank that the parent gives this task, after waiting for it; -1 if the parent is not of this run, has
 * ended, or gives none in time. */
static int32_t wait_for_given_rank(int tid, int parent) {
    int32_t of = parent > 0 ? find_rank_of_task(parent) : -1;
    for (int waited = 0; waited < CHILD_WAITS; waited++) {
        int32_t at = find_rank_of_task(tid);
        if (at >= 0) return at;
        if (parent > 0 && (of < 0 || has_exited(tasks[of].pid))) return find_rank_of_task(tid);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return -1;
}

/* Return this process's rank, which its parent, `weft run` or a counter gives; -1: there are too many tasks. `parent`:
 * a task id, or PVM's code for none. */
int weft_pvm_take_rank(int tid, int parent) {
    const char *told = getenv("WEFT_INTERNAL_PVM_RANK");
    int32_t at = -1;
    if (place >= 0) { /* it left PVM and came back: with another tid */
        occupy_rank(place, tid);
        return place;
    }
    if (told && *told && parent <= 0 && atoi(told) < (int)head->first && !tasks[atoi(told)].tid) {
        at = atoi(told);
        tasks[at].parent = -1;
    } else if (parent > 0 || parent == -35 /* PvmParentNotSet: spawned without a word of who did */)
        at = wait_for_given_rank(tid, parent);
    if (at < 0) {
        at = next_place();
        if (at < 0) return -1;
        tasks[at].parent = -1;
        tasks[at].ordinal = UINT32_MAX;
    }
    occupy_rank(at, tid);
    return at;
}

/* After pvm_spawn: give the new tasks their ranks, before anything can be asked of them; in a replay those of the
 * record. Sets ranks[]. */
void weft_pvm_give_ranks(int count, const int *tids, int32_t *ranks) {
    for (int i = 0; i < count; i++) {
        ranks[i] = WEFT_PVM_STRANGER;
        if (tids[i] <= 0 || place < 0) continue;
        uint32_t ordinal = children++;
        int32_t at = weft_replaying ? weft_follow_find_child_rank(ordinal) : -1;
        if (at < 0 || at >= (int32_t)WEFT_TASKS_MOST) at = next_place();
        if (at < 0) continue;
        tasks[at].parent = place;
        tasks[at].ordinal = ordinal;
        __atomic_store_n(&tasks[at].tid, tids[i], __ATOMIC_RELEASE);
        for (uint32_t n = head->count;
             n <= (uint32_t)at && !__sync_bool_compare_and_swap(&head->count, n, (uint32_t)at + 1); n = head->count) {
        }
        ranks[i] = at;
    }
}

void weft_pvm_set_state(uint32_t state) { weft_pvm_me->state = state; }

void weft_pvm_mark_killed(int32_t rank) {
    if (rank >= 0 && tasks[rank].state == WEFT_TASK_RUNNING) tasks[rank].state = WEFT_TASK_KILLED;
}

uint32_t weft_pvm_count_calls(int32_t rank) { return tasks[rank].calls; }

/* ---- buffers ---- */
enum { BUFFERS = 1 << 16 };
static uint32_t buffers[BUFFERS], last_buffer = WEFT_ID_DYNAMIC - 1;

uint32_t weft_pvm_number_new_buffer(int buffer) {
    if (buffer <= 0) return WEFT_ID_NULL;
    return buffers[buffer % BUFFERS] = ++last_buffer;
}

/* Return the record's number of a message buffer, which gets a new one if it has none; WEFT_ID_NULL for no buffer. */
uint32_t weft_pvm_find_or_make_buffer_id(int buffer) {
    if (buffer <= 0) return WEFT_ID_NULL;
    uint32_t id = buffers[buffer % BUFFERS];
    return id ? id : weft_pvm_number_new_buffer(buffer);
}

/* ---- contexts: each is a space of messages of its own, as MPI's communicators are ---- */
enum { CONTEXTS = 1024 };
static struct {
    int context;
    uint32_t id;
} contexts[CONTEXTS];
static uint32_t context_count;

/* Define a PVM context in the record as a communicator and return its id. Stops recording if there are too many. */
static uint32_t define_context_in_record(int context) {
    if (context_count == CONTEXTS) {
        weft_stop_recording();
        return WEFT_ID_NULL;
    }
    uint8_t payload[128];
    char key[32];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    uint32_t id = WEFT_ID_DYNAMIC + context_count;
    snprintf(key, sizeof key, "%d", context);
    weft_write_unsigned(&text, id);
    weft_write_unsigned(&text, WEFT_ID_WORLD);
    weft_write_unsigned(&text, F_pvm_setcontext);
    weft_write_unsigned(&text, (uint64_t)(uint32_t)context);
    weft_write_unsigned(&text, 0);
    weft_write_signed(&text, weft_pvm_rank);
    weft_write_bytes(&text, key, strlen(key));
    weft_write_unsigned(&text, 0); /* no members of its own: all of its parent's */
    weft_write_unsigned(&text, 0);
    weft_write_definition(WEFT_DEF_COMM, payload, (size_t)(text.p - payload));
    contexts[context_count].context = context;
    contexts[context_count++].id = id;
    return id;
}

/* Return the record's id of PVM's current context, which is a message space of its own like a communicator; a new
 * context is defined in the record first. */
uint32_t weft_pvm_find_or_define_context_id(void) {
    int context = real_pvm_getcontext();
    if (LIKELY(!context)) return WEFT_ID_WORLD;
    for (uint32_t i = 0; i < context_count; i++)
        if (contexts[i].context == context) return contexts[i].id;
    return define_context_in_record(context);
}
