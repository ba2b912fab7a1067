/* Teams: real threads, of which one runs until it waits. */
#include "openmp.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_THREADS 1024
#define STACK ((size_t)64 << 20)
#define MOST_LEVELS 3

struct thread *weft_me;
int weft_omp_default = 8;
uintptr_t *weft_omp_region_reductions; /* of the region that begins (tasks.c) */
static struct thread *threads[MOST_THREADS];
static int thread_count;

static int own_tls(struct dl_phdr_info *info, size_t size, void *data) {
    struct thread *t = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data && !t->tls_low) {
            t->tls_low = (uintptr_t)info->dlpi_tls_data;
            t->tls_high = t->tls_low + info->dlpi_phdr[i].p_memsz;
        }
    return 0;
}

static void stack_of_main(struct thread *t) {
    t->id = pthread_self();
    t->system_id = gettid();
    pthread_attr_t attributes;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    t->stack_low = (uintptr_t)low;
    t->stack_high = t->stack_low + size;
}

static struct thread *thread_made(void) {
    struct thread *t = calloc(1, sizeof *t);
    if (!t) abort();
    t->slot = thread_count;
    t->lowest = UINTPTR_MAX;
    sem_init(&t->go, 0, 0);
    threads[thread_count++] = t;
    return t;
}

struct thread *owner_of_stack(uintptr_t a) {
    for (int i = 0; i < thread_count; i++)
        if (a - threads[i]->stack_low < threads[i]->stack_high - threads[i]->stack_low) return threads[i];
    return NULL;
}

/* --- one runs ---------------------------------------------------------------------------------------------------- */

static void go_to(struct thread *t) {
    struct thread *mine = me;
    if (t == mine) return;
    mine->parked_frame = FRAME;
    current_is(t->current);
    sem_post(&t->go);
    while (sem_wait(&mine->go)) {
    }
    weft_me = mine;
    current_is(mine->current);
}

static struct thread *next_ready(void) {
    for (int i = 1; i <= thread_count; i++) {
        struct thread *t = threads[(me->slot + i) % thread_count];
        if (t->state == READY) return t;
    }
    return NULL;
}

bool threads_others(void) {
    const struct thread *t = next_ready();
    return t && t != me;
}

void threads_switch(void) {
    struct thread *t = next_ready();
    if (t) go_to(t);
}

static void stuck(void) {
    const struct thread *other = NULL;
    for (int i = 0; i < thread_count; i++)
        if (threads[i] != me && threads[i]->state == WAITING) other = threads[i];
    told_plain("deadlock", "", me->wait_place, other ? other->wait_place : 0);
    told_end();
    fflush(NULL);
    _exit(3);
}

static void wait_turn(void) {
    struct thread *t = next_ready();
    if (!t) stuck();
    go_to(t);
}

void threads_wait(const void *what, uint32_t place) {
    me->waits_for = what;
    me->wait_place = place;
    me->state = WAITING;
    wait_turn();
}

void threads_wake(const void *what) {
    for (int i = 0; i < thread_count; i++)
        if (threads[i]->state == WAITING && threads[i]->waits_for == what) threads[i]->state = READY;
}

/* --- barriers ---------------------------------------------------------------------------------------------------- */

static strand_t implicit(struct team *team, int number) {
    strand_t s = strand_new(team->region, IMPLICIT, 0);
    node(s)->index = number;
    node(s)->place = team->place;
    return s;
}

static bool outermost(const struct team *team) {
    for (const struct team *t = team->outer; t; t = t->outer)
        if (t->size > 1) return false;
    return true;
}

/* All that ran in the team comes before what follows. */
static void new_phase(struct team *team) {
    struct thread *mine = me;
    team->phase++;
    strand_t base = now.next;
    for (int i = 0; i < team->size; i++) {
        struct thread *t = team->threads[i];
        if (t->task) tasks_joined(&t->task->children, &t->task->count);
        strand_t p = trunk(t->plain);
        while (node(p)->kind != IMPLICIT && node(p)->kind != ROOT) p = node(p)->parent;
        node(p)->joined = true;
    }
    for (int i = 0; i < team->size; i++) {
        struct thread *t = team->threads[i];
        if (t->state == OVER) continue;
        weft_me = t;
        t->plain = t->current = implicit(team, i);
        if (t->held) locks_again();
        if (t->state == AT_BARRIER) t->state = READY;
    }
    weft_me = mine;
    if (outermost(team) && !tasks_beside()) strands_past(base);
    current_is(me->current);
}

/* A worksharing construct is met by all threads of its team, or by none. */
static void all_met(const struct team *team) {
    uint32_t least = UINT32_MAX, most = 0;
    for (int i = 0; i < team->size; i++) {
        uint32_t n = team->threads[i]->work_number;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    if (least != most) told_plain("barrier", "work", work_place(team, least), team->place);
}

static void release(struct team *team) {
    all_met(team);
    if (team->over) told_plain("barrier", "left", team->barrier_place, team->place);
    team->arrived = 0;
    team->barrier_place = 0;
    new_phase(team);
}

void barrier(uintptr_t place) {
    struct team *team = me->team;
    if (!me->on_device) targets_done();
    uint32_t where = place_of(place);
    if ((!team || team->size < 2) && !me->on_device) tasks_waited();
    if (!team || team->size < 2 || team->in_turn) return;
    if (team->barrier_place && team->barrier_place != where) told_plain("barrier", "other", where, team->barrier_place);
    team->barrier_place = where;
    me->wait_place = where;
    me->state = AT_BARRIER;
    if (++team->arrived + team->over == team->size) release(team);
    else wait_turn();
}

/* --- regions ----------------------------------------------------------------------------------------------------- */

static void implicit_task(struct team *team, int number, uintptr_t frame) {
    struct task task = {.outer = NULL};
    me->team = team;
    me->number = number;
    me->task = &task;
    me->frame = frame;
    me->lowest = UINTPTR_MAX;
    me->work_number = 0;
    me->work = NULL;
    me->held = me->shared = 0;
    if (team->on_device && !me->on_device) me->device_frame = UINTPTR_MAX; /* all of its stack */
    me->on_device = team->on_device;
    me->target = team->target;
    me->data_regions = NULL;
    me->private_count = 0;
    me->private_low = me->private_high = 0;
    task_begin(&task, NULL);
    team->function(team->data);
    task_end(&task);
    me->state = OVER;
    if (++team->over == team->size) {
        if (!team->arrived && !team->cancelled) all_met(team);
        threads_wake(team);
    }
    if (team->arrived && team->arrived + team->over == team->size) release(team);
}

static void *work_on(void *data) {
    struct thread *mine = data;
    mine->system_id = gettid();
    dl_iterate_phdr(own_tls, mine);
    for (;;) {
        while (sem_wait(&mine->go)) {
        }
        weft_me = mine;
        current_is(me->current);
        implicit_task(me->team, me->number, FRAME);
        struct thread *t = next_ready();
        if (!t) stuck();
        current_is(t->current);
        sem_post(&t->go);
    }
    return NULL;
}

static struct thread *idle(void) {
    for (int i = 0; i < thread_count; i++)
        if (threads[i]->state == IDLE) return threads[i];
    if (thread_count == MOST_THREADS) return NULL;
    struct thread *t = thread_made();
    void *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    t->stack_low = (uintptr_t)stack;
    t->stack_high = t->stack_low + STACK;
    t->state = IDLE;
    if (stack == MAP_FAILED || pthread_create(&t->id, &attributes, work_on, t)) {
        thread_count--;
        return NULL;
    }
    pthread_attr_destroy(&attributes);
    return t;
}

bool alone(void) { return !me->team || me->team->size < 2; }

static int levels(const struct team *team) {
    int count = 0;
    for (; team; team = team->outer) count += team->size > 1 && !team->league;
    return count;
}

/* What an iteration leaves on its thread's stack, an inner region of the thread's next iteration uses again. */
static void forget_own_stack(const struct thread *t) {
    uintptr_t low = FRAME;
    if (t->frame > low && t->frame <= t->stack_high) shadow_clear(low, t->frame);
}

void region(void (*function)(void *), void *data, unsigned asked, uintptr_t place, uintptr_t frame, bool league) {
    struct thread mine = *me;
    unsigned lanes = asked >= LANES ? asked : 0;
    int size = lanes ? 1 : asked ? (int)asked : levels(me->team) ? 2 : weft_omp_default;
    if (levels(me->team) >= MOST_LEVELS || size > MOST_THREADS / 2)
        size = size > MOST_THREADS / 2 ? MOST_THREADS / 2 : 1;
    bool first = !now.on;
    struct thread *members[size];
    members[0] = me;
    int count = 1;
    for (; count < size; count++) {
        struct thread *t = idle();
        if (!t) break;
        t->state = READY;
        members[count] = t;
    }
    struct team team = {.size = count,
                        .threads = members,
                        .function = function,
                        .data = data,
                        .outer = me->team,
                        .place = place_of(place),
                        .level = me->team ? me->team->level + 1 : 1,
                        .league = league,
                        .lanes = lanes,
                        .on_device = me->on_device,
                        .target = me->target,
                        .within = me->number};
    team.reductions = weft_omp_region_reductions;
    weft_omp_region_reductions = NULL;
    if (first) strands_forget();
    else forget_own_stack(&mine);
    team.region = strand_new(me->current, REGION, 0);
    node(team.region)->place = team.place;
    told_construct(team.place, league ? "teams" : count > 1 ? "region" : "alone", 0);
    for (int i = count - 1; i >= 0; i--) {
        struct thread *t = members[i];
        t->team = &team;
        t->number = i;
        t->plain = t->current = implicit(&team, i);
    }
    checks(now.on || count > 1 || lanes);
    current_is(me->current);
    implicit_task(&team, 0, frame);
    if (team.over < team.size) threads_wait(&team, team.place);
    me->state = READY;
    for (int i = 1; i < count; i++) {
        members[i]->state = IDLE;
        members[i]->team = NULL;
    }
    works_end(&team);
    node(team.region)->joined = true;
    if (!me->on_device) targets_done();
    uintptr_t lowest = me->lowest;
    sem_t go = me->go;
    uint64_t fenced = me->fenced;
    *me = mine;
    me->go = go;
    me->fenced = fenced;
    if (lowest < me->lowest) me->lowest = lowest;
    checks(!first);
    if (first) tasks_beside_end(), strands_forget();
    else forget_own_stack(me), current_is(me->current);
}

void GOMP_parallel(void (*fn)(void *), void *data, unsigned n, unsigned flags) {
    (void)flags;
    region(fn, data, n, BEGINNING(fn), FRAME, false);
}

void GOMP_barrier(void) { barrier(PLACE); }
bool GOMP_barrier_cancel(void) {
    barrier(PLACE);
    return me->team && me->team->cancelled;
}

__attribute__((constructor(101))) static void start(void) {
    extern char __executable_start, etext;
    now.start = (uintptr_t)&__executable_start;
    now.text = (size_t)(&etext - &__executable_start);
    me = thread_made();
    stack_of_main(me);
    dl_iterate_phdr(own_tls, me);
    const char *asked = getenv("WEFT_INTERNAL_CHECK_GRID");
    int n = asked ? atoi(asked) : 0;
    if (n > 1) weft_omp_default = n;
    static struct task task;
    me->task = &task;
    if (told_open()) cost_open();
    shadow_open();
    callers_open();
    strands_forget();
}
