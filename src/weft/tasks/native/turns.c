// Weft's own choice of tasks: see turns.h. All that is here is done under one lock, and only for --record and --replay.
//
// A task is handed to the runtime when its turn comes, by the thread whose turn it is: made as one that is not deferred
// (merged_if0), the runtime runs it at once. So its table of tasks, its counts and its waits are its own, and it finds
// nothing to wait for: what is waited for has been run here, in the callback that tells of the wait.
#define _GNU_SOURCE
#include "turns.h"
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
enum { EVENTS = 32, GO = 'g', BEGIN = 'b' };
enum { NONE, DESCENDANTS, TEAM }; // which tasks a thread may begin while it waits
enum { TICK = 50 }; // milliseconds between two looks of a thread that waits
enum { ASLEEP = 6, SPINNING = 200, LATE = 100 }; // ticks: the one whose turn it is sleeps, or spins; or does not come
enum { TIED = 1, FINAL = 2, MERGED = 4, PROXY = 16, DETACHABLE = 64, HELPER = 128 }; // LLVM's flags of a new task
enum { GOMP_FINAL = 2, GOMP_DEPEND = 8, GOMP_IF = 1 << 10 };

typedef struct group {
    struct group *outer;
    long unfinished;
} group;

typedef struct team {
    struct team *next;
    const void *scope; // of tool.c, by which its threads find it
    unsigned size, arrived, left;
    uint64_t round;
    long unfinished;
} team;

typedef struct {
    uintptr_t address;
    int writes;
} dependence;

typedef struct job { // a task, implicit ones too
    struct job *parent, *below; // who made it; what its thread ran before it
    struct job *implicit; // whose thread it runs on
    struct job *next, *sibling; // among those that have not begun; among its parent's with dependences
    struct job *dependent; // its own children with dependences, the newest first
    struct job *maker; // the implicit task on whose thread it was made
    group *group;
    team *team;
    uint64_t pedigree;
    long children, references;
    task *record;
    void *task; // the runtime's
    int (*routine)(int, void *); // of an untied task
    int again, done, counted;
    int count; // of dependences
    dependence *on;
} job;

typedef struct { // LLVM's interface to compilers
    void *shareds;
    int (*routine)(int, void *);
    int part;
    void *data[2];
} kmp_task;
typedef struct {
    int reserved[4];
    const char *source;
} ident;
typedef struct {
    intptr_t address;
    size_t length;
    uint8_t flags;
} kmp_dependence;
static ident own_location = {{0, 2, 0, 0}, ";unknown;unknown;0;0;;"};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int mode; // 'r'ecord, re'p'lay or 0: as it comes
    FILE *file;
    pid_t holder; // whose turn it is
    uint64_t grants, waiting;
    job *first, *last; // tasks that have not begun
    team *teams;
    uint64_t at; // the line of the record that is next
    int has; // whether it is read
    uint64_t actor, pedigree;
    int kind;
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int is_taking_turns; // whether this process takes turns at all
static __thread job *running_job; // what this thread runs
static __thread job *job_to_start; // what it is about to hand to the runtime
static __thread pid_t me;
static __thread int is_testing_lock; // within omp_test_lock
static __thread struct {
    void *task;
    int (*routine)(int, void *);
} untied[16]; // made, not yet submitted
static __thread unsigned untied_at;

// Do nothing; the debugger has a breakpoint here and reads from `text` why a replay cannot follow its record any more.
PUBLIC __attribute__((noinline)) void weft_turns_left(const char *text) {
    __asm__ volatile("" : : "r"(text) : "memory");
}

#define REAL(name) ((__typeof__(&name))find_runtime_function(#name))

// Return the OpenMP runtime's own function of a name; abort if it has none.
static void *find_runtime_function(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) { // a function that this runtime does not have: the program could not have been linked with it
        fprintf(stderr, "weft: the OpenMP runtime has no %s\n", name);
        abort();
    }
    return found;
}

static pid_t self(void) { return me != 0 ? me : (me = (pid_t)syscall(SYS_gettid)); }

// Whose turn it is

// Read the next line of the recorded order; after its end tasks run in any order. The lock must be held.
static void read_next_turn(void) {
    char kind;
    turns.has = 0;
    if (fscanf(turns.file, "%" SCNx64 " %c", &turns.actor, &kind) != 2) {
        turns.mode = 0; // what comes after the record is free
        return;
    }
    turns.kind = kind;
    if (kind == BEGIN && fscanf(turns.file, "%" SCNx64, &turns.pedigree) != 1) turns.mode = 0;
    turns.at++;
    turns.has = turns.mode != 0;
}

// Take the turn for this thread, which goes on (GO) or begins a task (BEGIN): write that to the record, or when
// replaying advance to the next line. The lock must be held.
static void take_turn(int kind, const job *begun_job) {
    turns.holder = self();
    turns.grants++;
    if (turns.mode == 'r') {
        fprintf(turns.file, "%016" PRIx64 " %c", running_job->implicit->pedigree, kind);
        if (begun_job != NULL) fprintf(turns.file, " %016" PRIx64, begun_job->pedigree);
        putc('\n', turns.file);
        fflush(turns.file);
    }
    if (turns.mode == 'p') read_next_turn();
}

// Give the turn back if this thread has it, so that another can take it. The lock must be held.
static void give_up_turn(void) {
    if (turns.holder != self()) return;
    turns.holder = 0;
    pthread_cond_broadcast(&turns.changed);
}

// Return whether a task's dependences conflict with others: same address, and at least one of them writes.
static int has_conflict(const job *earlier, const dependence *others, int count) {
    for (int i = 0; i < earlier->count; i++)
        for (int k = 0; k < count; k++)
            if (earlier->on[i].address == others[k].address && (earlier->on[i].writes || others[k].writes)) return 1;
    return 0;
}

// Return the latest unfinished child of `parent`, created before `until` (NULL: any), that conflicts with these
// dependences; NULL if there is none.
static const job *find_awaited_job(const job *parent, const job *until, const dependence *dependences, int count) {
    const job *candidate = parent->dependent;
    while (until != NULL && candidate != NULL && candidate != until) candidate = candidate->sibling;
    if (until != NULL && candidate != NULL) candidate = candidate->sibling;
    for (; candidate != NULL; candidate = candidate->sibling)
        if (!candidate->done && has_conflict(candidate, dependences, count)) return candidate;
    return NULL;
}

static int is_ready(const job *j) { return j->count == 0 || find_awaited_job(j->parent, j, j->on, j->count) == NULL; }

// Return whether this thread may begin a task while it waits; `waited_for`: NONE, DESCENDANTS or TEAM.
static int may_begin_job(const job *candidate, int waited_for) {
    if (candidate->team != running_job->team) return 0;
    const job *ancestor = candidate->parent;
    while (waited_for == DESCENDANTS && ancestor != NULL && ancestor != running_job) ancestor = ancestor->parent;
    return ancestor != NULL && is_ready(candidate);
}

// Return the task to begin: when replaying the recorded one, else this thread's newest or another thread's oldest, like
// the runtime. NULL if there is none.
static job *choose_job(int waited_for) {
    job *own = NULL, *other = NULL;
    if (waited_for == NONE) return NULL;
    for (job *candidate = turns.first; candidate != NULL; candidate = candidate->next) {
        if (turns.mode == 'p' && candidate->pedigree != turns.pedigree) continue;
        if (!may_begin_job(candidate, waited_for)) continue;
        if (candidate->maker == running_job->implicit) own = candidate;
        else if (other == NULL) other = candidate;
    }
    return own != NULL ? own : other;
}

// Remove a task from the list of tasks that have not begun.
static void unlink_job(job *begun) {
    job **link = &turns.first, *previous = NULL;
    while (*link != begun) previous = *link, link = &(*link)->next;
    *link = begun->next;
    if (turns.last == begun) turns.last = previous;
}

// Return whether a thread is blocked, by its state in /proc.
static int is_asleep(pid_t thread) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *end = strrchr(text, ')');
    return end != NULL && (end[2] == 'S' || end[2] == 'D');
}

// Ticks, not time: a program that its debugger halts makes none.
typedef struct {
    uint64_t grants;
    int ticks, asleep;
} patience;

// Stop replaying and tell the debugger at which step the run has diverged from its record. The lock must be held; it is
// released meanwhile.
static void report_divergence(void) {
    static char text[160];
    if (turns.mode != 'p') return;
    snprintf(text, sizeof text,
             turns.kind == BEGIN ? "the run differs from its record: step %" PRIu64
                                   " was the begin of task ~%016" PRIx64 ", which does not begin now"
                                 : "the run differs from its record: step %" PRIu64
                                   " was one of the thread of ~%016" PRIx64 ", which makes no step now",
             turns.at, turns.kind == BEGIN ? turns.pedigree : turns.actor);
    turns.mode = 0;
    pthread_cond_broadcast(&turns.changed);
    pthread_mutex_unlock(&turns.lock);
    weft_turns_left(text);
    pthread_mutex_lock(&turns.lock);
}

// Wait up to some milliseconds for a change of turn; return whether there was one. The lock must be held; it is
// released meanwhile.
static int wait_for_turn_change(long milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
    turns.waiting++;
    int woken = pthread_cond_timedwait(&turns.changed, &turns.lock, &until) != ETIMEDOUT;
    turns.waiting--;
    return woken;
}

// Wait one tick for a change of turn. Take the turn away from a thread that is blocked elsewhere, and report a recorded
// turn that does not come. The lock must be held.
static void wait_one_tick(patience *waiting) {
    int woken = wait_for_turn_change(TICK);
    if (waiting->grants != turns.grants) *waiting = (patience){turns.grants, 0, 0};
    if (woken) return;
    waiting->ticks++;
    waiting->asleep = turns.holder != 0 && is_asleep(turns.holder) ? waiting->asleep + 1 : 0;
    if (turns.holder != 0 && (waiting->asleep >= ASLEEP || waiting->ticks >= SPINNING)) { // it waits for something else
        turns.holder = 0;
        *waiting = (patience){turns.grants, 0, 0};
        pthread_cond_broadcast(&turns.changed);
    } else if (turns.holder == 0 && waiting->ticks >= LATE) {
        report_divergence();
    }
}

typedef int (*condition)(const void *of);

static int is_always_fulfilled(const void *nothing) { return nothing == NULL; }
static int has_no_children(const void *of) { return ((const job *)of)->children == 0; }
static int is_empty(const void *of) { return ((const group *)of)->unfinished == 0; }

// Return whether no other task than the running one owns a lock.
static int is_lock_available(const void *lock_id) {
    uint64_t owner = weft_tasks_find_owner(*(const uint64_t *)lock_id);
    return owner == 0 || owner == weft_tasks_top()->id;
}

// Return whether all threads of a team are at its barrier and all its tasks are done.
static int has_team_arrived(const void *team_at_barrier) {
    const team *waiting = team_at_barrier;
    return waiting->arrived == waiting->size && waiting->unfinished == 0;
}
typedef struct {
    int count;
    dependence *on;
} dependences;

// Return whether all children of the running task that conflict with these dependences are done.
static int are_dependences_met(const void *list) {
    const dependences *waited = list;
    return find_awaited_job(running_job, NULL, waited->on, waited->count) == NULL;
}

// Decide whether it is this thread's turn (`*is_turn`), and return the task that it is to begin; NULL: it goes on. The
// lock must be held.
static job *decide_turn(condition fulfilled, const void *subject, int waited_for, int *is_turn) {
    *is_turn = 0;
    if (turns.holder != 0) return NULL;
    if (turns.mode == 'p') {
        if (turns.actor != running_job->implicit->pedigree) return NULL;
        job *next = turns.kind == BEGIN ? choose_job(waited_for) : NULL;
        *is_turn = turns.kind == BEGIN ? next != NULL : fulfilled(subject);
        return next;
    }
    if (fulfilled(subject)) {
        *is_turn = 1;
        return NULL;
    }
    job *next = choose_job(waited_for);
    *is_turn = next != NULL;
    return next;
}

static void run_job(job *j);

// Wait until `fulfilled(subject)` holds and it is this thread's turn; meanwhile begin tasks that may run during such a
// wait (`waited_for`).
static void wait_for_turn(condition fulfilled, const void *subject, int waited_for) {
    patience waiting = {0};
    int is_turn;
    if (running_job == NULL) return;
    pthread_mutex_lock(&turns.lock);
    give_up_turn();
    if (turns.mode == 'r' && turns.waiting > 0 && (random() & 1)) wait_for_turn_change(1); // so that others come, too
    while (1) {
        job *next = decide_turn(fulfilled, subject, waited_for, &is_turn);
        if (!is_turn) {
            wait_one_tick(&waiting);
            continue;
        }
        take_turn(next != NULL ? BEGIN : GO, next);
        if (next == NULL) break;
        unlink_job(next);
        pthread_mutex_unlock(&turns.lock);
        run_job(next);
        pthread_mutex_lock(&turns.lock);
        give_up_turn();
        waiting = (patience){0};
    }
    pthread_mutex_unlock(&turns.lock);
}

static void take_next_turn(void) { wait_for_turn(is_always_fulfilled, NULL, NONE); }

// Jobs

// Allocate a task with its links to its parent, team and taskgroup, and return it. Aborts without memory; the lock must
// be held.
static job *create_job(job *parent, const task *record) {
    job *created = calloc(1, sizeof *created);
    if (created == NULL) abort();
    created->references = 1;
    created->pedigree = record->pedigree;
    created->parent = parent;
    if (parent == NULL) return created;
    parent->references++;
    created->team = parent->team;
    created->group = parent->group;
    return created;
}

// Drop a reference to a task and free it with the last one; its parent's reference is dropped then, too.
static void release_job(job *released) {
    while (released != NULL && --released->references == 0) {
        job *parent = released->parent;
        free(released->on);
        free(released);
        released = parent;
    }
}

// Mark a task as done, decrease the counts of its parent, taskgroup and team, and drop its reference.
static void finish_job(job *finished) {
    pthread_mutex_lock(&turns.lock);
    finished->done = 1;
    if (finished->counted) {
        finished->parent->children--;
        finished->team->unfinished--;
        if (finished->group != NULL) finished->group->unfinished--;
    }
    if (finished->count > 0) {
        job **link = &finished->parent->dependent;
        while (*link != finished) link = &(*link)->sibling;
        *link = finished->sibling;
    }
    release_job(finished);
    pthread_cond_broadcast(&turns.changed);
    pthread_mutex_unlock(&turns.lock);
}

// Return the runtime's number of this thread.
static int find_thread_number(void) {
    extern int __kmpc_global_thread_num(ident *);
    return REAL(__kmpc_global_thread_num)(&own_location);
}

extern int __kmpc_omp_task(ident *, int, kmp_task *);

// Hand a task to the OpenMP runtime, which executes it at once in this thread.
static void run_job(job *next) {
    job_to_start = next;
    REAL(__kmpc_omp_task)(&own_location, find_thread_number(), next->task);
}

// Return whether a new task must be executed at once: within a final task, or in a team of one.
static int must_run_at_once(void) {
    extern int omp_in_final(void);
    return running_job == NULL || running_job->team->size < 2 || REAL(omp_in_final)();
}

// Wrap a task that the runtime has allocated, and return it. `routine`: its code if it is untied, else NULL.
static job *make_job(void *runtime_task, const void *call_address, int (*routine)(int, void *)) {
    task *record = weft_tasks_create(call_address);
    pthread_mutex_lock(&turns.lock);
    job *created = create_job(running_job, record);
    pthread_mutex_unlock(&turns.lock);
    created->record = record;
    created->task = runtime_task;
    created->routine = routine;
    created->maker = running_job->implicit;
    return created;
}

// Add a task with its dependences to the list of tasks that have not begun, then let another thread take its turn.
static void submit_job(job *created, const dependences *list) {
    pthread_mutex_lock(&turns.lock);
    created->counted = 1;
    running_job->children++;
    created->team->unfinished++;
    if (created->group != NULL) created->group->unfinished++;
    if (list != NULL && list->count > 0) {
        const job *awaited = find_awaited_job(running_job, NULL, list->on, list->count);
        if (awaited != NULL) created->record->needs = awaited->record->id;
        created->count = list->count;
        created->on = list->on;
        created->sibling = running_job->dependent;
        running_job->dependent = created;
    }
    *(turns.last != NULL ? &turns.last->next : &turns.first) = created;
    turns.last = created;
    pthread_mutex_unlock(&turns.lock);
    take_next_turn();
}

// What the runtime tells

static ompt_function tool_callbacks[EVENTS];
#define TELL(event, function) ((__typeof__(&function))tool_callbacks[event])

// OMPT callback: a task was created. For one of ours the record exists already; any other is passed to the tool.
static void handle_task_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences,
                               const void *pc) {
    if (job_to_start != NULL) data->ptr = job_to_start->record; // it was made long ago
    else TELL(OMPT_TASK_CREATE, handle_task_create)(from, frame, data, flags, dependences, pc);
}

// OMPT callback: a thread switches tasks. Inform the tool, then track which of our tasks this thread runs.
static void handle_task_schedule(ompt_data *from, int status, ompt_data *to) {
    TELL(OMPT_TASK_SCHEDULE, handle_task_schedule)(from, status, to);
    if (running_job == NULL) return;
    if (status == OMPT_SWITCH) {
        job *switched = job_to_start;
        if (switched == NULL) {
            pthread_mutex_lock(&turns.lock);
            switched = create_job(running_job, weft_tasks_top());
            pthread_mutex_unlock(&turns.lock);
        }
        job_to_start = NULL;
        switched->below = running_job;
        switched->implicit = running_job->implicit;
        running_job = switched;
    } else if (status == OMPT_COMPLETE || status == OMPT_CANCEL) {
        job *switched = running_job;
        running_job = switched->below;
        finish_job(switched);
    }
}

static int is_barrier(int kind) { return (kind >= 1 && kind <= 4) || kind >= 8; }

// Arrive at a barrier and run tasks until the whole team is there and all its tasks are done.
static void arrive_at_barrier(team *arriving) {
    pthread_mutex_lock(&turns.lock);
    arriving->arrived++;
    pthread_cond_broadcast(&turns.changed);
    pthread_mutex_unlock(&turns.lock);
    wait_for_turn(has_team_arrived, arriving, TEAM);
    pthread_mutex_lock(&turns.lock);
    give_up_turn();
    pthread_mutex_unlock(&turns.lock);
}

// Leave a barrier: wait until the whole team has left the runtime's own barrier, in which a thread would pick tasks by
// itself.
static void leave_barrier(team *leaving) {
    pthread_mutex_lock(&turns.lock);
    uint64_t round = leaving->round;
    if (++leaving->left == leaving->size) {
        leaving->left = leaving->arrived = 0;
        leaving->round++;
        pthread_cond_broadcast(&turns.changed);
    }
    while (leaving->round == round) pthread_cond_wait(&turns.changed, &turns.lock);
    pthread_mutex_unlock(&turns.lock);
    take_next_turn();
}

// Open or close a taskgroup of the running task.
static void handle_taskgroup(int endpoint) {
    pthread_mutex_lock(&turns.lock);
    group *outer = running_job->group;
    if (endpoint == OMPT_BEGIN) {
        running_job->group = calloc(1, sizeof *outer);
        if (running_job->group == NULL) abort();
        running_job->group->outer = outer;
    } else if (outer != NULL) {
        running_job->group = outer->outer;
        free(outer);
    }
    pthread_mutex_unlock(&turns.lock);
}

enum { TASKWAIT = 5 };

// OMPT callback for barriers, taskwaits and taskgroups: inform the tool, then do the waiting here, so that the runtime
// finds nothing to wait for.
static void handle_sync_region(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    TELL(OMPT_SYNC_REGION, handle_sync_region)(kind, endpoint, parallel, data, pc);
    if (running_job == NULL) return;
    if (kind == OMPT_SYNC_TASKGROUP) handle_taskgroup(endpoint);
    else if (kind == TASKWAIT && endpoint == OMPT_BEGIN) wait_for_turn(has_no_children, running_job, DESCENDANTS);
    else if (is_barrier(kind) && endpoint == OMPT_BEGIN) arrive_at_barrier(running_job->team);
    else if (is_barrier(kind) && parallel != NULL) leave_barrier(running_job->team); // without: its region is over
}

// OMPT callback for waits: inform the tool; at the end of a taskgroup wait here for its tasks.
static void handle_sync_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    TELL(OMPT_SYNC_REGION_WAIT, handle_sync_wait)(kind, endpoint, parallel, data, pc);
    if (running_job == NULL || kind != OMPT_SYNC_TASKGROUP || endpoint != OMPT_BEGIN || running_job->group == NULL)
        return;
    wait_for_turn(is_empty, running_job->group, DESCENDANTS);
}

// Return the team of a parallel region (`scope`: the tool's entry for it), created if new. Aborts without memory; the
// lock must be held.
static team *find_or_create_team(const void *scope, unsigned size) {
    team *found = turns.teams;
    while (found != NULL && found->scope != scope) found = found->next;
    if (found != NULL) return found;
    found = calloc(1, sizeof *found);
    if (found == NULL) abort();
    *found = (team){.next = turns.teams, .scope = scope, .size = size};
    return turns.teams = found;
}

// OMPT callback: an implicit task begins or ends. Inform the tool, then create or drop this thread's task.
static void handle_implicit_task(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index,
                                 int flags) {
    TELL(OMPT_IMPLICIT_TASK, handle_implicit_task)(endpoint, parallel, data, size, index, flags);
    if (endpoint != OMPT_BEGIN) {
        job *implicit = running_job;
        if (implicit == NULL) return;
        running_job = implicit->below;
        pthread_mutex_lock(&turns.lock);
        release_job(implicit);
        if (running_job == NULL) give_up_turn();
        pthread_mutex_unlock(&turns.lock);
        return;
    }
    int initial = flags & OMPT_TASK_INITIAL;
    pthread_mutex_lock(&turns.lock);
    job *implicit = create_job(NULL, weft_tasks_top());
    implicit->implicit = implicit;
    implicit->team = find_or_create_team(initial ? (const void *)implicit : parallel->ptr, initial ? 1 : size);
    implicit->below = running_job;
    running_job = implicit;
    pthread_mutex_unlock(&turns.lock);
    take_next_turn();
}

// OMPT callback: a parallel region ends. Free its team, then inform the tool.
static void handle_parallel_end(ompt_data *parallel, ompt_data *from, int flags, const void *pc) {
    if (parallel != NULL) {
        pthread_mutex_lock(&turns.lock);
        for (team **link = &turns.teams; *link != NULL; link = &(*link)->next)
            if ((*link)->scope == parallel->ptr) {
                team *ended = *link;
                *link = ended->next;
                free(ended);
                break;
            }
        pthread_mutex_unlock(&turns.lock);
    }
    take_next_turn();
    TELL(OMPT_PARALLEL_END, handle_parallel_end)(parallel, from, flags, pc);
}

enum { ORDERED = 7 };

// OMPT callback: a lock is about to be taken. Inform the tool, then wait until the lock is free and it is this thread's
// turn.
static void handle_mutex_acquire(int kind, unsigned hint, unsigned how, uint64_t id, const void *pc) {
    TELL(OMPT_MUTEX_ACQUIRE, handle_mutex_acquire)(kind, hint, how, id, pc);
    if (running_job == NULL) return;
    if (kind == ORDERED) {
        pthread_mutex_lock(&turns.lock);
        give_up_turn();
        pthread_mutex_unlock(&turns.lock);
    } else if (is_testing_lock) {
        take_next_turn();
    } else {
        wait_for_turn(is_lock_available, &id, NONE);
    }
}

static void handle_mutex_acquired(int kind, uint64_t id, const void *pc) {
    TELL(OMPT_MUTEX_ACQUIRED, handle_mutex_acquired)(kind, id, pc);
    if (running_job != NULL && kind == ORDERED) take_next_turn();
}

static ompt_set set_really;

// Replace ompt_set_callback() when turns are taken: callbacks that matter for the order are wrapped by those of this
// file.
static int set_turn_callback(int event, ompt_function callback) {
    tool_callbacks[event] = callback;
    if (event == OMPT_TASK_CREATE) callback = (ompt_function)handle_task_create;
    if (event == OMPT_TASK_SCHEDULE) callback = (ompt_function)handle_task_schedule;
    if (event == OMPT_SYNC_REGION) callback = (ompt_function)handle_sync_region;
    if (event == OMPT_SYNC_REGION_WAIT) callback = (ompt_function)handle_sync_wait;
    if (event == OMPT_IMPLICIT_TASK) callback = (ompt_function)handle_implicit_task;
    if (event == OMPT_PARALLEL_END) callback = (ompt_function)handle_parallel_end;
    if (event == OMPT_MUTEX_ACQUIRE) callback = (ompt_function)handle_mutex_acquire;
    if (event == OMPT_MUTEX_ACQUIRED) callback = (ompt_function)handle_mutex_acquired;
    return set_really(event, callback);
}

// Start recording or replaying the order of tasks if the environment asks for it. Return the function to register OMPT
// callbacks with.
ompt_set weft_turns_begin(ompt_set set_callback) {
    const char *wanted = getenv("WEFT_INTERNAL_TASKS_TURNS"), *path = wanted != NULL ? strchr(wanted, ':') : NULL;
    char header[128];
    if (path == NULL) return set_callback;
    turns.mode = strncmp(wanted, "record", 6) == 0 ? 'r' : 'p';
    turns.file = fopen(path + 1, turns.mode == 'r' ? "we" : "re");
    if (turns.file == NULL) {
        fprintf(stderr, "weft: %s: %s\n", path + 1, strerror(errno));
        return set_callback;
    }
    if (turns.mode == 'r') fputs("{\"schema\": \"weft-schedule/1\", \"runtime\": \"openmp\"}\n", turns.file);
    else if (fgets(header, sizeof header, turns.file) != NULL) read_next_turn();
    unsetenv("WEFT_INTERNAL_TASKS_TURNS"); // other programs that this one starts have orders of their own
    srandom((unsigned)time(NULL) ^ (unsigned)getpid() << 8);
    set_really = set_callback;
    is_taking_turns = 1;
    return set_turn_callback;
}

// What compilers call. Where no turns are taken, it is the runtime's own.

extern kmp_task *__kmpc_omp_task_alloc(ident *, int, int, size_t, size_t, int (*)(int, void *));

// Task routine that runs an untied task part by part: whenever the task has submitted itself again, take a turn and run
// its next part.
static int run_untied_parts(int thread, void *runtime_task) {
    job *running = running_job;
    do {
        running->again = 0;
        running->routine(thread, runtime_task);
        if (running->again) take_next_turn();
    } while (running->again);
    return 0;
}

// Replace LLVM's function: allocate a task as tied and undeferred, so that the runtime executes it at once when its
// turn comes.
PUBLIC kmp_task *__kmpc_omp_task_alloc(ident *location, int thread, int flags, size_t size, size_t shareds,
                                       int (*routine)(int, void *)) {
    int is_ours = is_taking_turns && running_job != NULL && !(flags & (PROXY | DETACHABLE | HELPER)),
        is_untied = is_ours && !(flags & TIED);
    if (!is_ours) return REAL(__kmpc_omp_task_alloc)(location, thread, flags, size, shareds, routine);
    kmp_task *allocated = REAL(__kmpc_omp_task_alloc)(location, thread, flags | TIED | MERGED, size, shareds,
                                                      is_untied ? run_untied_parts : routine);
    if (is_untied) untied[untied_at % 16].task = allocated, untied[untied_at++ % 16].routine = routine;
    return allocated;
}

// Return the code of an untied task that was allocated but not yet submitted; NULL if it is not one.
static int (*find_untied_routine(void *made))(int, void *) {
    for (int i = 0; i < 16; i++)
        if (untied[i].task == made) return untied[i].routine;
    return NULL;
}

// Handle the submission of a task: another part of the running untied one, a task that must run at once, or one for
// later. Return 0, as compilers expect.
static int submit_or_run(kmp_task *runtime_task, const dependences *list, const void *call_address) {
    int (*routine)(int, void *) = runtime_task->routine == run_untied_parts ? find_untied_routine(runtime_task) : NULL;
    if (runtime_task == running_job->task && running_job->routine != NULL) {
        running_job->again = 1;
    } else if (must_run_at_once()) {
        if (list != NULL) wait_for_turn(are_dependences_met, list, DESCENDANTS);
        if (list != NULL) free(list->on);
        run_job(make_job(runtime_task, call_address, routine));
    } else {
        submit_job(make_job(runtime_task, call_address, routine), list);
    }
    return 0;
}

// Replace LLVM's function: submit a task.
PUBLIC int __kmpc_omp_task(ident *location, int thread, kmp_task *runtime_task) {
    if (!is_taking_turns || running_job == NULL) return REAL(__kmpc_omp_task)(location, thread, runtime_task);
    return submit_or_run(runtime_task, NULL, __builtin_return_address(0));
}

// Convert the dependences that Clang's code passes; the caller frees the list. Aborts without memory.
static dependences convert_kmp_dependences(int count, const kmp_dependence *list, int other_count,
                                           const kmp_dependence *others) {
    dependences converted = {count + other_count, calloc((size_t)(count + other_count) + 1, sizeof(dependence))};
    if (converted.on == NULL) abort();
    for (int i = 0; i < count + other_count; i++) {
        const kmp_dependence *item = i < count ? &list[i] : &others[i - count];
        converted.on[i] = (dependence){(uintptr_t)item->address, item->flags != 1};
    }
    return converted;
}

extern int __kmpc_omp_task_with_deps(ident *, int, kmp_task *, int, kmp_dependence *, int, kmp_dependence *);

// Replace LLVM's function: submit a task with dependences.
PUBLIC int __kmpc_omp_task_with_deps(ident *location, int thread, kmp_task *runtime_task, int count,
                                     kmp_dependence *list, int other_count, kmp_dependence *others) {
    if (!is_taking_turns || running_job == NULL)
        return REAL(__kmpc_omp_task_with_deps)(location, thread, runtime_task, count, list, other_count, others);
    dependences converted = convert_kmp_dependences(count, list, other_count, others);
    return submit_or_run(runtime_task, &converted, __builtin_return_address(0));
}

// Wait until no unfinished task conflicts with these dependences, then free the list.
static void wait_for_dependences(dependences list) {
    wait_for_turn(are_dependences_met, &list, DESCENDANTS);
    free(list.on);
}

extern void __kmpc_omp_wait_deps(ident *, int, int, kmp_dependence *, int, kmp_dependence *);

// Replace LLVM's function: wait for dependences before an undeferred task.
PUBLIC void __kmpc_omp_wait_deps(ident *location, int thread, int count, kmp_dependence *list, int other_count,
                                 kmp_dependence *others) {
    if (!is_taking_turns || running_job == NULL)
        REAL(__kmpc_omp_wait_deps)(location, thread, count, list, other_count, others);
    else wait_for_dependences(convert_kmp_dependences(count, list, other_count, others));
}

extern void __kmpc_omp_taskwait_deps_51(ident *, int, int, kmp_dependence *, int, kmp_dependence *, int);

// Replace LLVM's function for `taskwait depend`: wait for dependences.
PUBLIC void __kmpc_omp_taskwait_deps_51(ident *location, int thread, int count, kmp_dependence *list, int other_count,
                                        kmp_dependence *others, int nowait) {
    if (!is_taking_turns || running_job == NULL)
        REAL(__kmpc_omp_taskwait_deps_51)(location, thread, count, list, other_count, others, nowait);
    else wait_for_dependences(convert_kmp_dependences(count, list, other_count, others));
}

extern int __kmpc_omp_taskyield(ident *, int, int);

// Replace LLVM's function: let another thread take its turn.
PUBLIC int __kmpc_omp_taskyield(ident *location, int thread, int end) {
    if (!is_taking_turns || running_job == NULL) return REAL(__kmpc_omp_taskyield)(location, thread, end);
    take_next_turn();
    return 0;
}

// A taskloop's tasks are made within the runtime: they run at once, in the order of the loop.
extern void __kmpc_taskloop(ident *, int, kmp_task *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, void *);

// Replace LLVM's function: make the tasks of a taskloop run at once, in loop order, since the runtime creates them
// internally.
PUBLIC void __kmpc_taskloop(ident *location, int thread, kmp_task *runtime_task, int deferred, uint64_t *lower,
                            uint64_t *upper, int64_t step, int nogroup, int how, uint64_t grain, void *copy) {
    REAL(__kmpc_taskloop)(location, thread, runtime_task, is_taking_turns ? 0 : deferred, lower, upper, step, nogroup,
                          how, grain, copy);
}

extern void GOMP_task(void (*)(void *), void *, void (*)(void *, void *), long, long, int, unsigned, void **, int,
                      void *);

typedef struct {
    kmp_task task;
    void (*body)(void *);
} gcc_task;

// Task routine in LLVM's form that runs the body of a task compiled by GCC.
static int run_gcc_body(int thread, void *runtime_task) {
    (void)thread;
    gcc_task *own = runtime_task;
    own->body(own->task.shareds);
    return 0;
}

// Convert the dependences that GCC's code passes; the caller frees the list. Aborts without memory.
static dependences convert_gcc_dependences(void **depend) {
    uintptr_t *words = (uintptr_t *)depend;
    size_t short_form = words[0] != 0, count = short_form ? words[0] : words[1], first = short_form ? 2 : 5;
    size_t writes = short_form ? words[1] : words[2] + words[3];
    dependences converted = {(int)count, calloc(count + 1, sizeof(dependence))};
    if (converted.on == NULL) abort();
    for (size_t i = 0; i < count; i++) {
        uintptr_t *object = (uintptr_t *)words[first + i]; // of the long form's last: an omp_depend_t
        int is_object = !short_form && i >= words[2] + words[3] + words[4];
        converted.on[i] =
            is_object ? (dependence){object[0], object[1] != 1} : (dependence){words[first + i], i < writes};
    }
    return converted;
}

// Replace libgomp's function for code compiled by GCC: create a task in LLVM's form and submit it.
PUBLIC void GOMP_task(void (*body)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                      int deferred, unsigned flags, void **depend, int priority, void *detach) {
    if (is_taking_turns && running_job != NULL && !deferred && (flags & GOMP_DEPEND)) {
        wait_for_dependences(convert_gcc_dependences(depend));
        flags &= ~(unsigned)GOMP_DEPEND;
    }
    if (!is_taking_turns || running_job == NULL || !deferred)
        return REAL(GOMP_task)(body, data, copy, size, align, deferred, flags, depend, priority, detach);
    int thread = find_thread_number();
    gcc_task *allocated =
        (gcc_task *)REAL(__kmpc_omp_task_alloc)(&own_location, thread, TIED | MERGED | (flags & GOMP_FINAL),
                                                sizeof *allocated, (size_t)(size + align), run_gcc_body);
    allocated->body = body;
    uintptr_t shareds =
        ((uintptr_t)allocated->task.shareds + (uintptr_t)align - 1) / (uintptr_t)align * (uintptr_t)align;
    if (size > 0) allocated->task.shareds = (void *)shareds;
    if (size > 0 && copy != NULL) copy(allocated->task.shareds, data);
    else if (size > 0) memcpy(allocated->task.shareds, data, (size_t)size);
    dependences converted = {0};
    if (flags & GOMP_DEPEND) converted = convert_gcc_dependences(depend);
    submit_or_run(&allocated->task, converted.count > 0 ? &converted : NULL, __builtin_return_address(0));
}

extern void GOMP_taskyield(void);
PUBLIC void GOMP_taskyield(void) {
    if (!is_taking_turns || running_job == NULL) REAL(GOMP_taskyield)();
    else take_next_turn();
}

extern void GOMP_taskwait_depend(void **);
PUBLIC void GOMP_taskwait_depend(void **depend) {
    if (!is_taking_turns || running_job == NULL) REAL(GOMP_taskwait_depend)(depend);
    else wait_for_dependences(convert_gcc_dependences(depend));
}

#define TASKLOOP(name, number)                                                                                         \
    extern void name(void (*)(void *), void *, void (*)(void *, void *), long, long, unsigned, unsigned long, int,     \
                     number, number, number);                                                                          \
    PUBLIC void name(void (*body)(void *), void *data, void (*copy)(void *, void *), long size, long align,            \
                     unsigned flags, unsigned long tasks, int priority, number from, number to, number step) {         \
        if (is_taking_turns) flags &= ~(unsigned)GOMP_IF;                                                              \
        REAL(name)(body, data, copy, size, align, flags, tasks, priority, from, to, step);                             \
    }
TASKLOOP(GOMP_taskloop, long)
TASKLOOP(GOMP_taskloop_ull, unsigned long long)

#define TEST(name)                                                                                                     \
    extern int name(void *);                                                                                           \
    PUBLIC int name(void *lock) {                                                                                      \
        is_testing_lock = 1;                                                                                           \
        int taken = REAL(name)(lock);                                                                                  \
        is_testing_lock = 0;                                                                                           \
        return taken;                                                                                                  \
    }
TEST(omp_test_lock)
TEST(omp_test_nest_lock)
