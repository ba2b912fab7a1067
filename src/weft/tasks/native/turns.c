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
static ident here = {{0, 2, 0, 0}, ";unknown;unknown;0;0;;"};

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
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int on; // whether this process takes turns at all
static __thread job *mine; // what this thread runs
static __thread job *starting; // what it is about to hand to the runtime
static __thread pid_t me;
static __thread int testing; // within omp_test_lock
static __thread struct {
    void *task;
    int (*routine)(int, void *);
} untied[16]; // made, not yet submitted
static __thread unsigned untied_at;

// The debugger's breakpoint: a replay can go on no further.
PUBLIC __attribute__((noinline)) void weft_turns_left(const char *text) {
    __asm__ volatile("" : : "r"(text) : "memory");
}

#define REAL(name) ((__typeof__(&name))find_runtime_function(#name))
// Return a function of the OpenMP runtime; abort if the runtime has none of that name.
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

// Read the next line of the record; after its end, tasks run in any order.
static void read_next_turn(void) {
    char kind;
    all.has = 0;
    if (fscanf(all.file, "%" SCNx64 " %c", &all.actor, &kind) != 2) {
        all.mode = 0; // what comes behind the record is free
        return;
    }
    all.kind = kind;
    if (kind == BEGIN && fscanf(all.file, "%" SCNx64, &all.pedigree) != 1) all.mode = 0;
    all.at++;
    all.has = all.mode != 0;
}

// Take the turn for this thread: write a line when recording, read the next one when replaying.
static void take_turn(int kind, const job *begun) {
    all.holder = self();
    all.grants++;
    if (all.mode == 'r') {
        fprintf(all.file, "%016" PRIx64 " %c", mine->implicit->pedigree, kind);
        if (begun != NULL) fprintf(all.file, " %016" PRIx64, begun->pedigree);
        putc('\n', all.file);
        fflush(all.file);
    }
    if (all.mode == 'p') read_next_turn();
}

// Let another thread take the turn, if this one has it.
static void give_up_turn(void) {
    if (all.holder != self()) return;
    all.holder = 0;
    pthread_cond_broadcast(&all.changed);
}

// Return whether a task's dependences conflict with these: same address, and one of them writes.
static int has_conflict(const job *a, const dependence *on, int count) {
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < count; k++)
            if (a->on[i].address == on[k].address && (a->on[i].writes || on[k].writes)) return 1;
    return 0;
}

// Return the last task made before `until` (NULL: of all) that these dependences wait for; NULL if none.
static const job *find_awaited_job(const job *parent, const job *until, const dependence *on, int count) {
    const job *j = parent->dependent;
    while (until != NULL && j != NULL && j != until) j = j->sibling;
    if (until != NULL && j != NULL) j = j->sibling;
    for (; j != NULL; j = j->sibling)
        if (!j->done && has_conflict(j, on, count)) return j;
    return NULL;
}

static int ready(const job *j) { return j->count == 0 || find_awaited_job(j->parent, j, j->on, j->count) == NULL; }

// Return whether this thread may begin a task now, while it waits (`which`: for what).
static int may_run(const job *j, int which) {
    if (j->team != mine->team) return 0;
    const job *up = j->parent;
    while (which == DESCENDANTS && up != NULL && up != mine) up = up->parent;
    return up != NULL && ready(j);
}

// Return the task to begin, as the runtime would: this thread's newest, else the oldest of another thread.
static job *choose_job(int which) {
    job *own = NULL, *other = NULL;
    if (which == NONE) return NULL;
    for (job *j = all.first; j != NULL; j = j->next) {
        if (all.mode == 'p' && j->pedigree != all.pedigree) continue;
        if (!may_run(j, which)) continue;
        if (j->maker == mine->implicit) own = j;
        else if (other == NULL) other = j;
    }
    return own != NULL ? own : other;
}

// Remove a task from the list of those that have not begun.
static void unlink_job(job *of) {
    job **at = &all.first, *before = NULL;
    while (*at != of) before = *at, at = &(*at)->next;
    *at = of->next;
    if (all.last == of) all.last = before;
}

// Return whether a thread sleeps, by its state in /proc.
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

// Stop replaying, and tell the debugger at which step the run has left its record.
static void report_divergence(void) {
    static char text[160];
    if (all.mode != 'p') return;
    snprintf(text, sizeof text,
             all.kind == BEGIN ? "the run has left its record: step %" PRIu64 " was the begin of the task ~%016" PRIx64
                                 ", which does not come"
                               : "the run has left its record: step %" PRIu64 " was of the thread of ~%016" PRIx64
                                 ", which does not come",
             all.at, all.kind == BEGIN ? all.pedigree : all.actor);
    all.mode = 0;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
    weft_turns_left(text);
    pthread_mutex_lock(&all.lock);
}

// Wait for a change of turn for some milliseconds; return whether there was one. The lock is held.
static int wait_for_change(long milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
    all.waiting++;
    int woken = pthread_cond_timedwait(&all.changed, &all.lock, &until) != ETIMEDOUT;
    all.waiting--;
    return woken;
}

// Wait one tick; take the turn from a thread that sleeps, and report a turn that does not come.
static void wait_one_tick(patience *p) {
    int woken = wait_for_change(TICK);
    if (p->grants != all.grants) *p = (patience){all.grants, 0, 0};
    if (woken) return;
    p->ticks++;
    p->asleep = all.holder != 0 && is_asleep(all.holder) ? p->asleep + 1 : 0;
    if (all.holder != 0 && (p->asleep >= ASLEEP || p->ticks >= SPINNING)) { // it waits for something else
        all.holder = 0;
        *p = (patience){all.grants, 0, 0};
        pthread_cond_broadcast(&all.changed);
    } else if (all.holder == 0 && p->ticks >= LATE) {
        report_divergence();
    }
}

typedef int (*condition)(const void *of);

static int always(const void *of) { return of == NULL; }
static int has_no_children(const void *of) { return ((const job *)of)->children == 0; }
static int is_empty(const void *of) { return ((const group *)of)->unfinished == 0; }
static int is_lock_free(const void *of) {
    uint64_t owner = weft_tasks_owner(*(const uint64_t *)of);
    return owner == 0 || owner == weft_tasks_top()->id;
}
static int all_arrived(const void *of) {
    const team *t = of;
    return t->arrived == t->size && t->unfinished == 0;
}
typedef struct {
    int count;
    dependence *on;
} dependences;
static int are_dependences_met(const void *of) {
    const dependences *d = of;
    return find_awaited_job(mine, NULL, d->on, d->count) == NULL;
}

// Return the task to begin now, NULL to go on; in `turn`, whether it is this thread's turn at all.
static job *decide_turn(condition fulfilled, const void *of, int which, int *turn) {
    *turn = 0;
    if (all.holder != 0) return NULL;
    if (all.mode == 'p') {
        if (all.actor != mine->implicit->pedigree) return NULL;
        job *next = all.kind == BEGIN ? choose_job(which) : NULL;
        *turn = all.kind == BEGIN ? next != NULL : fulfilled(of);
        return next;
    }
    if (fulfilled(of)) {
        *turn = 1;
        return NULL;
    }
    job *next = choose_job(which);
    *turn = next != NULL;
    return next;
}

static void run_job(job *j);

// Wait until `fulfilled` holds and it is this thread's turn; run tasks meanwhile.
static void wait_for_turn(condition fulfilled, const void *of, int which) {
    patience p = {0};
    int turn;
    if (mine == NULL) return;
    pthread_mutex_lock(&all.lock);
    give_up_turn();
    if (all.mode == 'r' && all.waiting > 0 && (random() & 1)) wait_for_change(1); // so that others come, too
    while (1) {
        job *next = decide_turn(fulfilled, of, which, &turn);
        if (!turn) {
            wait_one_tick(&p);
            continue;
        }
        take_turn(next != NULL ? BEGIN : GO, next);
        if (next == NULL) break;
        unlink_job(next);
        pthread_mutex_unlock(&all.lock);
        run_job(next);
        pthread_mutex_lock(&all.lock);
        give_up_turn();
        p = (patience){0};
    }
    pthread_mutex_unlock(&all.lock);
}

static void point(void) { wait_for_turn(always, NULL, NONE); }

// Jobs

// Return a new task with its place among its parent's children.
static job *new_job(job *parent, const task *record) {
    job *j = calloc(1, sizeof *j);
    if (j == NULL) abort();
    j->references = 1;
    j->pedigree = record->pedigree;
    j->parent = parent;
    if (parent == NULL) return j;
    parent->references++;
    j->team = parent->team;
    j->group = parent->group;
    return j;
}

// Release a reference to a task, and free it with the last one.
static void release_job(job *j) {
    while (j != NULL && --j->references == 0) {
        job *up = j->parent;
        free(j->on);
        free(j);
        j = up;
    }
}

// Mark a task as done, and count it off its parent, group and team.
static void finish_job(job *j) {
    pthread_mutex_lock(&all.lock);
    j->done = 1;
    if (j->counted) {
        j->parent->children--;
        j->team->unfinished--;
        if (j->group != NULL) j->group->unfinished--;
    }
    if (j->count > 0) {
        job **at = &j->parent->dependent;
        while (*at != j) at = &(*at)->sibling;
        *at = j->sibling;
    }
    release_job(j);
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
}

// Return the runtime's number of this thread.
static int runtime_thread_number(void) {
    extern int __kmpc_global_thread_num(ident *);
    return REAL(__kmpc_global_thread_num)(&here);
}

extern int __kmpc_omp_task(ident *, int, kmp_task *);

static void run_job(job *j) {
    starting = j;
    REAL(__kmpc_omp_task)(&here, runtime_thread_number(), j->task);
}

// Return whether a new task has to run at once: in a final one, or in a team of one thread.
static int is_included(void) {
    extern int omp_in_final(void);
    return mine == NULL || mine->team->size < 2 || REAL(omp_in_final)();
}

// Return the task for one that the runtime has made.
static job *make_job(void *made, const void *pc, int (*routine)(int, void *)) {
    task *record = weft_tasks_made(pc);
    pthread_mutex_lock(&all.lock);
    job *j = new_job(mine, record);
    pthread_mutex_unlock(&all.lock);
    j->record = record;
    j->task = made;
    j->routine = routine;
    j->maker = mine->implicit;
    return j;
}

// Add a task with its dependences to those that have not begun.
static void submit_job(job *j, const dependences *d) {
    pthread_mutex_lock(&all.lock);
    j->counted = 1;
    mine->children++;
    j->team->unfinished++;
    if (j->group != NULL) j->group->unfinished++;
    if (d != NULL && d->count > 0) {
        const job *before = find_awaited_job(mine, NULL, d->on, d->count);
        if (before != NULL) j->record->needs = before->record->id;
        j->count = d->count;
        j->on = d->on;
        j->sibling = mine->dependent;
        mine->dependent = j;
    }
    *(all.last != NULL ? &all.last->next : &all.first) = j;
    all.last = j;
    pthread_mutex_unlock(&all.lock);
    point();
}

// What the runtime tells

static ompt_function told[EVENTS];
#define TELL(event, function) ((__typeof__(&function))told[event])

static void turned_create(ompt_data *from, const void *frame, ompt_data *data, int flags, int dependences_,
                          const void *pc) {
    if (starting != NULL) data->ptr = starting->record; // it was made long ago
    else TELL(OMPT_TASK_CREATE, turned_create)(from, frame, data, flags, dependences_, pc);
}

static void turned_schedule(ompt_data *from, int status, ompt_data *to) {
    TELL(OMPT_TASK_SCHEDULE, turned_schedule)(from, status, to);
    if (mine == NULL) return;
    if (status == OMPT_SWITCH) {
        job *j = starting;
        if (j == NULL) {
            pthread_mutex_lock(&all.lock);
            j = new_job(mine, weft_tasks_top());
            pthread_mutex_unlock(&all.lock);
        }
        starting = NULL;
        j->below = mine;
        j->implicit = mine->implicit;
        mine = j;
    } else if (status == OMPT_COMPLETE || status == OMPT_CANCEL) {
        job *j = mine;
        mine = j->below;
        finish_job(j);
    }
}

static int is_barrier(int kind) { return (kind >= 1 && kind <= 4) || kind >= 8; }

// Wait at a barrier until all threads of the team have come and all its tasks are done.
static void arrive_at_barrier(team *t) {
    pthread_mutex_lock(&all.lock);
    t->arrived++;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.lock);
    wait_for_turn(all_arrived, t, TEAM);
    pthread_mutex_lock(&all.lock);
    give_up_turn();
    pthread_mutex_unlock(&all.lock);
}

// Wait until all have left the runtime's barrier, in which they would take up tasks by themselves.
static void leave_barrier(team *t) {
    pthread_mutex_lock(&all.lock);
    uint64_t round = t->round;
    if (++t->left == t->size) {
        t->left = t->arrived = 0;
        t->round++;
        pthread_cond_broadcast(&all.changed);
    }
    while (t->round == round) pthread_cond_wait(&all.changed, &all.lock);
    pthread_mutex_unlock(&all.lock);
    point();
}

// Handle the begin or end of a taskgroup.
static void handle_taskgroup(int endpoint) {
    pthread_mutex_lock(&all.lock);
    group *g = mine->group;
    if (endpoint == OMPT_BEGIN) {
        mine->group = calloc(1, sizeof *g);
        if (mine->group == NULL) abort();
        mine->group->outer = g;
    } else if (g != NULL) {
        mine->group = g->outer;
        free(g);
    }
    pthread_mutex_unlock(&all.lock);
}

enum { TASKWAIT = 5 };

static void turned_sync(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    TELL(OMPT_SYNC_REGION, turned_sync)(kind, endpoint, parallel, data, pc);
    if (mine == NULL) return;
    if (kind == OMPT_SYNC_TASKGROUP) handle_taskgroup(endpoint);
    else if (kind == TASKWAIT && endpoint == OMPT_BEGIN) wait_for_turn(has_no_children, mine, DESCENDANTS);
    else if (is_barrier(kind) && endpoint == OMPT_BEGIN) arrive_at_barrier(mine->team);
    else if (is_barrier(kind) && parallel != NULL) leave_barrier(mine->team); // without: its region is over
}

static void turned_wait(int kind, int endpoint, ompt_data *parallel, ompt_data *data, const void *pc) {
    TELL(OMPT_SYNC_REGION_WAIT, turned_wait)(kind, endpoint, parallel, data, pc);
    if (mine == NULL || kind != OMPT_SYNC_TASKGROUP || endpoint != OMPT_BEGIN || mine->group == NULL) return;
    wait_for_turn(is_empty, mine->group, DESCENDANTS);
}

static team *team_of(const void *scope, unsigned size) {
    team *t = all.teams;
    while (t != NULL && t->scope != scope) t = t->next;
    if (t != NULL) return t;
    t = calloc(1, sizeof *t);
    if (t == NULL) abort();
    *t = (team){.next = all.teams, .scope = scope, .size = size};
    return all.teams = t;
}

static void turned_implicit(int endpoint, ompt_data *parallel, ompt_data *data, unsigned size, unsigned index,
                            int flags) {
    TELL(OMPT_IMPLICIT_TASK, turned_implicit)(endpoint, parallel, data, size, index, flags);
    if (endpoint != OMPT_BEGIN) {
        job *j = mine;
        if (j == NULL) return;
        mine = j->below;
        pthread_mutex_lock(&all.lock);
        release_job(j);
        if (mine == NULL) give_up_turn();
        pthread_mutex_unlock(&all.lock);
        return;
    }
    int initial = flags & OMPT_TASK_INITIAL;
    pthread_mutex_lock(&all.lock);
    job *j = new_job(NULL, weft_tasks_top());
    j->implicit = j;
    j->team = team_of(initial ? (const void *)j : parallel->ptr, initial ? 1 : size);
    j->below = mine;
    mine = j;
    pthread_mutex_unlock(&all.lock);
    point();
}

static void turned_end(ompt_data *parallel, ompt_data *from, int flags, const void *pc) {
    if (parallel != NULL) {
        pthread_mutex_lock(&all.lock);
        for (team **at = &all.teams; *at != NULL; at = &(*at)->next)
            if ((*at)->scope == parallel->ptr) {
                team *gone = *at;
                *at = gone->next;
                free(gone);
                break;
            }
        pthread_mutex_unlock(&all.lock);
    }
    point();
    TELL(OMPT_PARALLEL_END, turned_end)(parallel, from, flags, pc);
}

enum { ORDERED = 7 };

static void turned_acquire(int kind, unsigned hint, unsigned how, uint64_t id, const void *pc) {
    TELL(OMPT_MUTEX_ACQUIRE, turned_acquire)(kind, hint, how, id, pc);
    if (mine == NULL) return;
    if (kind == ORDERED) {
        pthread_mutex_lock(&all.lock);
        give_up_turn();
        pthread_mutex_unlock(&all.lock);
    } else if (testing) {
        point();
    } else {
        wait_for_turn(is_lock_free, &id, NONE);
    }
}

static void turned_acquired(int kind, uint64_t id, const void *pc) {
    TELL(OMPT_MUTEX_ACQUIRED, turned_acquired)(kind, id, pc);
    if (mine != NULL && kind == ORDERED) point();
}

static ompt_set set_really;

static int set_turned(int event, ompt_function callback) {
    told[event] = callback;
    if (event == OMPT_TASK_CREATE) callback = (ompt_function)turned_create;
    if (event == OMPT_TASK_SCHEDULE) callback = (ompt_function)turned_schedule;
    if (event == OMPT_SYNC_REGION) callback = (ompt_function)turned_sync;
    if (event == OMPT_SYNC_REGION_WAIT) callback = (ompt_function)turned_wait;
    if (event == OMPT_IMPLICIT_TASK) callback = (ompt_function)turned_implicit;
    if (event == OMPT_PARALLEL_END) callback = (ompt_function)turned_end;
    if (event == OMPT_MUTEX_ACQUIRE) callback = (ompt_function)turned_acquire;
    if (event == OMPT_MUTEX_ACQUIRED) callback = (ompt_function)turned_acquired;
    return set_really(event, callback);
}

ompt_set weft_turns_begin(ompt_set really) {
    const char *wanted = getenv("WEFT_INTERNAL_TASKS_TURNS"), *path = wanted != NULL ? strchr(wanted, ':') : NULL;
    char header[128];
    if (path == NULL) return really;
    all.mode = strncmp(wanted, "record", 6) == 0 ? 'r' : 'p';
    all.file = fopen(path + 1, all.mode == 'r' ? "we" : "re");
    if (all.file == NULL) {
        fprintf(stderr, "weft: %s: %s\n", path + 1, strerror(errno));
        return really;
    }
    if (all.mode == 'r') fputs("{\"schema\": \"weft-schedule/1\", \"runtime\": \"openmp\"}\n", all.file);
    else if (fgets(header, sizeof header, all.file) != NULL) read_next_turn();
    unsetenv("WEFT_INTERNAL_TASKS_TURNS"); // other programs that this one starts have orders of their own
    srandom((unsigned)time(NULL) ^ (unsigned)getpid() << 8);
    set_really = really;
    on = 1;
    return set_turned;
}

// What compilers call. Where no turns are taken, it is the runtime's own.

extern kmp_task *__kmpc_omp_task_alloc(ident *, int, int, size_t, size_t, int (*)(int, void *));

static int parts(int thread, void *made) { // of an untied task: it submits itself again for each part that follows
    job *j = mine;
    do {
        j->again = 0;
        j->routine(thread, made);
        if (j->again) point();
    } while (j->again);
    return 0;
}

PUBLIC kmp_task *__kmpc_omp_task_alloc(ident *loc, int thread, int flags, size_t size, size_t shareds,
                                       int (*routine)(int, void *)) {
    int own = on && mine != NULL && !(flags & (PROXY | DETACHABLE | HELPER)), loose = own && !(flags & TIED);
    if (!own) return REAL(__kmpc_omp_task_alloc)(loc, thread, flags, size, shareds, routine);
    kmp_task *made =
        REAL(__kmpc_omp_task_alloc)(loc, thread, flags | TIED | MERGED, size, shareds, loose ? parts : routine);
    if (loose) untied[untied_at % 16].task = made, untied[untied_at++ % 16].routine = routine;
    return made;
}

// Return the routine of an untied task that was made and not yet submitted.
static int (*untied_routine(void *made))(int, void *) {
    for (int i = 0; i < 16; i++)
        if (untied[i].task == made) return untied[i].routine;
    return NULL;
}

static int submitted(kmp_task *made, const dependences *d, const void *pc) {
    int (*routine)(int, void *) = made->routine == parts ? untied_routine(made) : NULL;
    if (made == mine->task && mine->routine != NULL) {
        mine->again = 1;
    } else if (is_included()) {
        if (d != NULL) wait_for_turn(are_dependences_met, d, DESCENDANTS);
        if (d != NULL) free(d->on);
        run_job(make_job(made, pc, routine));
    } else {
        submit_job(make_job(made, pc, routine), d);
    }
    return 0;
}

PUBLIC int __kmpc_omp_task(ident *loc, int thread, kmp_task *made) {
    if (!on || mine == NULL) return REAL(__kmpc_omp_task)(loc, thread, made);
    return submitted(made, NULL, __builtin_return_address(0));
}

// Return the dependences that clang's code passes.
static dependences convert_kmp_dependences(int count, const kmp_dependence *list, int more,
                                           const kmp_dependence *others) {
    dependences d = {count + more, calloc((size_t)(count + more) + 1, sizeof(dependence))};
    if (d.on == NULL) abort();
    for (int i = 0; i < count + more; i++) {
        const kmp_dependence *one = i < count ? &list[i] : &others[i - count];
        d.on[i] = (dependence){(uintptr_t)one->address, one->flags != 1};
    }
    return d;
}

extern int __kmpc_omp_task_with_deps(ident *, int, kmp_task *, int, kmp_dependence *, int, kmp_dependence *);
PUBLIC int __kmpc_omp_task_with_deps(ident *loc, int thread, kmp_task *made, int count, kmp_dependence *list, int more,
                                     kmp_dependence *others) {
    if (!on || mine == NULL) return REAL(__kmpc_omp_task_with_deps)(loc, thread, made, count, list, more, others);
    dependences d = convert_kmp_dependences(count, list, more, others);
    return submitted(made, &d, __builtin_return_address(0));
}

// Wait until dependences are met.
static void wait_for_dependences(dependences d) {
    wait_for_turn(are_dependences_met, &d, DESCENDANTS);
    free(d.on);
}

extern void __kmpc_omp_wait_deps(ident *, int, int, kmp_dependence *, int, kmp_dependence *);
PUBLIC void __kmpc_omp_wait_deps(ident *loc, int thread, int count, kmp_dependence *list, int more,
                                 kmp_dependence *others) {
    if (!on || mine == NULL) REAL(__kmpc_omp_wait_deps)(loc, thread, count, list, more, others);
    else wait_for_dependences(convert_kmp_dependences(count, list, more, others));
}

extern void __kmpc_omp_taskwait_deps_51(ident *, int, int, kmp_dependence *, int, kmp_dependence *, int);
PUBLIC void __kmpc_omp_taskwait_deps_51(ident *loc, int thread, int count, kmp_dependence *list, int more,
                                        kmp_dependence *others, int nowait) {
    if (!on || mine == NULL) REAL(__kmpc_omp_taskwait_deps_51)(loc, thread, count, list, more, others, nowait);
    else wait_for_dependences(convert_kmp_dependences(count, list, more, others));
}

extern int __kmpc_omp_taskyield(ident *, int, int);
PUBLIC int __kmpc_omp_taskyield(ident *loc, int thread, int end) {
    if (!on || mine == NULL) return REAL(__kmpc_omp_taskyield)(loc, thread, end);
    point();
    return 0;
}

// A taskloop's tasks are made within the runtime: they run at once, in the order of the loop.
extern void __kmpc_taskloop(ident *, int, kmp_task *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, void *);
PUBLIC void __kmpc_taskloop(ident *loc, int thread, kmp_task *made, int deferred, uint64_t *from, uint64_t *to,
                            int64_t step, int nogroup, int how, uint64_t grain, void *copy) {
    REAL(__kmpc_taskloop)(loc, thread, made, on ? 0 : deferred, from, to, step, nogroup, how, grain, copy);
}

extern void GOMP_task(void (*)(void *), void *, void (*)(void *, void *), long, long, int, unsigned, void **, int,
                      void *);

typedef struct {
    kmp_task task;
    void (*body)(void *);
} gcc_task;

// Run the body of a task of gcc's.
static int run_gcc_body(int thread, void *made) {
    (void)thread;
    gcc_task *t = made;
    t->body(t->task.shareds);
    return 0;
}

// Return the dependences that gcc's code passes.
static dependences convert_gcc_dependences(void **depend) {
    uintptr_t *d = (uintptr_t *)depend;
    size_t short_form = d[0] != 0, count = short_form ? d[0] : d[1], first = short_form ? 2 : 5;
    size_t writes = short_form ? d[1] : d[2] + d[3];
    dependences made = {(int)count, calloc(count + 1, sizeof(dependence))};
    if (made.on == NULL) abort();
    for (size_t i = 0; i < count; i++) {
        uintptr_t *object = (uintptr_t *)d[first + i]; // of the long form's last: an omp_depend_t
        int is_object = !short_form && i >= d[2] + d[3] + d[4];
        made.on[i] = is_object ? (dependence){object[0], object[1] != 1} : (dependence){d[first + i], i < writes};
    }
    return made;
}

PUBLIC void GOMP_task(void (*body)(void *), void *data, void (*copy)(void *, void *), long size, long align,
                      int deferred, unsigned flags, void **depend, int priority, void *detach) {
    if (on && mine != NULL && !deferred && (flags & GOMP_DEPEND)) {
        wait_for_dependences(convert_gcc_dependences(depend));
        flags &= ~(unsigned)GOMP_DEPEND;
    }
    if (!on || mine == NULL || !deferred)
        return REAL(GOMP_task)(body, data, copy, size, align, deferred, flags, depend, priority, detach);
    int thread = runtime_thread_number();
    gcc_task *made = (gcc_task *)REAL(__kmpc_omp_task_alloc)(&here, thread, TIED | MERGED | (flags & GOMP_FINAL),
                                                             sizeof *made, (size_t)(size + align), run_gcc_body);
    made->body = body;
    uintptr_t at = ((uintptr_t)made->task.shareds + (uintptr_t)align - 1) / (uintptr_t)align * (uintptr_t)align;
    if (size > 0) made->task.shareds = (void *)at;
    if (size > 0 && copy != NULL) copy(made->task.shareds, data);
    else if (size > 0) memcpy(made->task.shareds, data, (size_t)size);
    dependences d = {0};
    if (flags & GOMP_DEPEND) d = convert_gcc_dependences(depend);
    submitted(&made->task, d.count > 0 ? &d : NULL, __builtin_return_address(0));
}

extern void GOMP_taskyield(void);
PUBLIC void GOMP_taskyield(void) {
    if (!on || mine == NULL) REAL(GOMP_taskyield)();
    else point();
}

extern void GOMP_taskwait_depend(void **);
PUBLIC void GOMP_taskwait_depend(void **depend) {
    if (!on || mine == NULL) REAL(GOMP_taskwait_depend)(depend);
    else wait_for_dependences(convert_gcc_dependences(depend));
}

#define TASKLOOP(name, number)                                                                                         \
    extern void name(void (*)(void *), void *, void (*)(void *, void *), long, long, unsigned, unsigned long, int,     \
                     number, number, number);                                                                          \
    PUBLIC void name(void (*body)(void *), void *data, void (*copy)(void *, void *), long size, long align,            \
                     unsigned flags, unsigned long tasks, int priority, number from, number to, number step) {         \
        if (on) flags &= ~(unsigned)GOMP_IF;                                                                           \
        REAL(name)(body, data, copy, size, align, flags, tasks, priority, from, to, step);                             \
    }
TASKLOOP(GOMP_taskloop, long)
TASKLOOP(GOMP_taskloop_ull, unsigned long long)

#define TEST(name)                                                                                                     \
    extern int name(void *);                                                                                           \
    PUBLIC int name(void *lock) {                                                                                      \
        testing = 1;                                                                                                   \
        int taken = REAL(name)(lock);                                                                                  \
        testing = 0;                                                                                                   \
        return taken;                                                                                                  \
    }
TEST(omp_test_lock)
TEST(omp_test_nest_lock)
