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

/* Callback of dl_iterate_phdr(): store the address range of the running thread's thread-local variables of the program,
 * the first module that has some, in the struct thread `data`. */
static int find_thread_local_memory(struct dl_phdr_info *info, size_t size, void *data) {
    struct thread *thread = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data && !thread->tls_low) {
            thread->tls_low = (uintptr_t)info->dlpi_tls_data;
            thread->tls_high = thread->tls_low + info->dlpi_phdr[i].p_memsz;
        }
    return 0;
}

/* Store ids and stack range of the main thread in its table entry. */
static void fill_main_thread_entry(struct thread *thread) {
    thread->id = pthread_self();
    thread->system_id = gettid();
    pthread_attr_t attributes;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    thread->stack_low = (uintptr_t)low;
    thread->stack_high = thread->stack_low + size;
}

/* Add an entry to the thread table and return it; no thread is started yet. Aborts without memory. */
static struct thread *create_thread_entry(void) {
    struct thread *thread = calloc(1, sizeof *thread);
    if (!thread) abort();
    thread->slot = thread_count;
    thread->lowest = UINTPTR_MAX;
    sem_init(&thread->go, 0, 0);
    threads[thread_count++] = thread;
    return thread;
}

/* Return the thread whose stack contains an address; NULL if there is none. */
struct thread *find_stack_owner(uintptr_t address) {
    for (int i = 0; i < thread_count; i++)
        if (address - threads[i]->stack_low < threads[i]->stack_high - threads[i]->stack_low) return threads[i];
    return NULL;
}

/* --- one runs ---------------------------------------------------------------------------------------------------- */

/* Let another thread run, and block this one until it is switched to again. */
static void switch_to_thread(struct thread *next) {
    struct thread *self = me;
    if (next == self) return;
    self->parked_frame = FRAME;
    set_current_strand(next->current);
    sem_post(&next->go);
    while (sem_wait(&self->go)) {
    }
    weft_me = self;
    set_current_strand(self->current);
}

/* Return the next runnable thread in round-robin order, the running one last; NULL if there is none. */
static struct thread *find_next_ready_thread(void) {
    for (int i = 1; i <= thread_count; i++) {
        struct thread *candidate = threads[(me->slot + i) % thread_count];
        if (candidate->state == READY) return candidate;
    }
    return NULL;
}

/* Return whether a thread other than the running one could run. */
bool is_other_thread_ready(void) {
    const struct thread *next = find_next_ready_thread();
    return next && next != me;
}

/* Switch to the next runnable thread, if there is another one. */
void yield_to_other_threads(void) {
    struct thread *next = find_next_ready_thread();
    if (next) switch_to_thread(next);
}

/* Report a deadlock, as no thread can run, and exit with status 3. */
static void end_deadlocked_program(void) {
    const struct thread *other_waiter = NULL;
    for (int i = 0; i < thread_count; i++)
        if (threads[i] != me && threads[i]->state == WAITING) other_waiter = threads[i];
    report_plain_finding("deadlock", "", me->wait_place, other_waiter ? other_waiter->wait_place : 0);
    write_counts();
    fflush(NULL);
    _exit(3);
}

/* Switch to the next runnable thread, since this one waits. If there is none, the program is deadlocked. */
static void run_next_thread(void) {
    struct thread *next = find_next_ready_thread();
    if (!next) end_deadlocked_program();
    switch_to_thread(next);
}

/* Block the running thread until wake_waiting_threads() is called with the same `awaited`. `place`: its code place, for
 * a deadlock report. */
void wait_until_woken(const void *awaited, uint32_t place) {
    me->waits_for = awaited;
    me->wait_place = place;
    me->state = WAITING;
    run_next_thread();
}

/* Make all threads runnable that wait for `awaited`. */
void wake_waiting_threads(const void *awaited) {
    for (int i = 0; i < thread_count; i++)
        if (threads[i]->state == WAITING && threads[i]->waits_for == awaited) threads[i]->state = READY;
}

/* --- barriers ---------------------------------------------------------------------------------------------------- */

/* Return a new strand for what thread `number` of a team does until the next barrier. */
static strand_t create_implicit_strand(struct team *team, int number) {
    strand_t strand = create_strand(team->region, IMPLICIT, 0);
    node(strand)->index = number;
    node(strand)->place = team->place;
    return strand;
}

/* Return whether no enclosing team has more than one thread. */
static bool is_outermost_team(const struct team *team) {
    for (const struct team *outer = team->outer; outer; outer = outer->outer)
        if (outer->size > 1) return false;
    return true;
}

/* Begin the phase after a barrier: everything that ran in the team happens before it, and each thread gets a new
 * strand. */
static void begin_phase(struct team *team) {
    struct thread *self = me;
    team->phase++;
    strand_t base = now.next;
    for (int i = 0; i < team->size; i++) {
        struct thread *thread = team->threads[i];
        if (thread->task) join_tasks(&thread->task->children, &thread->task->count);
        strand_t strand = find_whole_strand(thread->plain);
        while (node(strand)->kind != IMPLICIT && node(strand)->kind != ROOT) strand = node(strand)->parent;
        mark_as_joined(strand);
    }
    for (int i = 0; i < team->size; i++) {
        struct thread *thread = team->threads[i];
        if (thread->state == OVER) continue;
        weft_me = thread;
        thread->plain = thread->current = create_implicit_strand(team, i);
        if (thread->held) refresh_locked_strand();
        if (thread->state == AT_BARRIER) thread->state = READY;
    }
    weft_me = self;
    if (is_outermost_team(team) && !is_device_task_pending()) retire_strands_before(base);
    set_current_strand(me->current);
}

/* Report if the threads of a team have not all encountered the same number of worksharing constructs, as OpenMP
 * requires. */
static void check_worksharing_count(const struct team *team) {
    uint32_t fewest = UINT32_MAX, most = 0;
    for (int i = 0; i < team->size; i++) {
        uint32_t met = team->threads[i]->work_number;
        fewest = met < fewest ? met : fewest;
        most = met > most ? met : most;
    }
    if (fewest != most) report_plain_finding("barrier", "work", find_construct_place(team, fewest), team->place);
}

/* Let the threads at a barrier continue, once all threads of the team have arrived or ended; report the threads that
 * ended without it. */
static void release_barrier(struct team *team) {
    check_worksharing_count(team);
    if (team->over) report_plain_finding("barrier", "left", team->barrier_place, team->place);
    team->arrived = 0;
    team->barrier_place = 0;
    begin_phase(team);
}

/* Wait at a barrier of the running thread's team; `place` is the return address of its call. A team of one only joins
 * its tasks. */
void wait_at_barrier(uintptr_t place) {
    struct team *team = me->team;
    if (!me->on_device) finish_pending_targets();
    uint32_t code_place = place_of(place);
    if ((!team || team->size < 2) && !me->on_device) join_tasks_of_single_thread();
    if (!team || team->size < 2 || team->in_turn) return;
    if (team->barrier_place && team->barrier_place != code_place)
        report_plain_finding("barrier", "other", code_place, team->barrier_place);
    team->barrier_place = code_place;
    me->wait_place = code_place;
    me->state = AT_BARRIER;
    if (++team->arrived + team->over == team->size) release_barrier(team);
    else run_next_thread();
}

/* --- regions ----------------------------------------------------------------------------------------------------- */

/* Run a parallel region's body as thread `number` of a team. `frame`: below this stack address everything belongs to
 * the implicit task. */
static void run_implicit_task(struct team *team, int number, uintptr_t frame) {
    struct task own_task = {.outer = NULL};
    me->team = team;
    me->number = number;
    me->task = &own_task;
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
    begin_task(&own_task, NULL);
    team->function(team->data);
    free_task_lists(&own_task);
    me->state = OVER;
    if (++team->over == team->size) {
        if (!team->arrived && !team->cancelled) check_worksharing_count(team);
        wake_waiting_threads(team);
    }
    if (team->arrived && team->arrived + team->over == team->size) release_barrier(team);
}

/* Thread function of the runtime's threads: run the implicit task of one team after another, whenever the thread is
 * switched to. */
static void *run_thread_loop(void *data) {
    struct thread *self = data;
    self->system_id = gettid();
    dl_iterate_phdr(find_thread_local_memory, self);
    for (;;) {
        while (sem_wait(&self->go)) {
        }
        weft_me = self;
        set_current_strand(me->current);
        if (me->team->level > 1 && me->lowest < FRAME) clear_shadow(me->lowest, FRAME); /* another region's */
        run_implicit_task(me->team, me->number, FRAME);
        struct thread *next = find_next_ready_thread();
        if (!next) end_deadlocked_program();
        set_current_strand(next->current);
        sem_post(&next->go);
    }
    return NULL;
}

/* Return an idle thread, started if needed; NULL if there are too many or the system refuses. */
static struct thread *find_or_start_idle_thread(void) {
    for (int i = 0; i < thread_count; i++)
        if (threads[i]->state == IDLE) return threads[i];
    if (thread_count == MOST_THREADS) return NULL;
    struct thread *thread = create_thread_entry();
    void *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    thread->stack_low = (uintptr_t)stack;
    thread->stack_high = thread->stack_low + STACK;
    thread->state = IDLE;
    if (stack == MAP_FAILED || pthread_create(&thread->id, &attributes, run_thread_loop, thread)) {
        thread_count--;
        return NULL;
    }
    pthread_attr_destroy(&attributes);
    return thread;
}

bool is_team_of_one(void) { return !me->team || me->team->size < 2; }

/* Return how many enclosing regions, from this team outwards, have more than one thread; leagues do not count. */
static int count_active_levels(const struct team *team) {
    int count = 0;
    for (; team; team = team->outer) count += team->size > 1 && !team->league;
    return count;
}

/* Forget the accesses to a thread's stack below its implicit task's frame, which an inner region reuses in the next
 * iteration. */
static void clear_stack_shadow(const struct thread *thread) {
    uintptr_t low = FRAME;
    if (thread->frame > low && thread->frame <= thread->stack_high) clear_shadow(low, thread->frame);
}

/* Run `function(data)` as a parallel region and restore the running thread's state. `requested_size`: number of
 * threads; 0: the default; LANES or more: one thread whose loops are simd loops. `place`: return address of the
 * construct; `frame`: its stack frame; `is_league`: the threads are the teams of a `teams` construct. */
void run_parallel_region(void (*function)(void *), void *data, unsigned requested_size, uintptr_t place,
                         uintptr_t frame, bool is_league) {
    struct thread saved = *me;
    unsigned lanes = requested_size >= LANES ? requested_size : 0;
    int size = lanes ? 1 : requested_size ? (int)requested_size : count_active_levels(me->team) ? 2 : weft_omp_default;
    if (count_active_levels(me->team) >= MOST_LEVELS || size > MOST_THREADS / 2)
        size = size > MOST_THREADS / 2 ? MOST_THREADS / 2 : 1;
    bool is_first = !now.on;
    bool is_calm = lanes && now.on && node(find_whole_strand(me->plain))->kind != LANE;
    mark_t calm = now.calm;
    struct thread *members[size];
    members[0] = me;
    int count = 1;
    for (; count < size; count++) {
        struct thread *t = find_or_start_idle_thread();
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
                        .league = is_league,
                        .lanes = lanes,
                        .on_device = me->on_device,
                        .target = me->target,
                        .within = me->number};
    team.reductions = weft_omp_region_reductions;
    weft_omp_region_reductions = NULL;
    if (is_first) retire_all_strands();
    else clear_stack_shadow(&saved);
    team.region = create_strand(me->current, REGION, 0);
    node(team.region)->place = team.place;
    count_construct_run(team.place, is_league ? "teams" : count > 1 ? "region" : "alone", 0);
    for (int i = count - 1; i >= 0; i--) {
        struct thread *t = members[i];
        t->team = &team;
        t->number = i;
        t->plain = t->current = create_implicit_strand(&team, i);
    }
    set_checking(now.on || count > 1 || lanes);
    set_current_strand(me->current);
    if (is_calm) now.calm = calm, now.calm_room = now.mark - calm;
    uint32_t calm_breaks = now.calm_breaks;
    run_implicit_task(&team, 0, frame);
    if (team.over < team.size) wait_until_woken(&team, team.place);
    me->state = READY;
    for (int i = 1; i < count; i++) {
        members[i]->state = IDLE;
        members[i]->team = NULL;
    }
    free_constructs(&team);
    mark_as_joined(team.region);
    if (!me->on_device) finish_pending_targets();
    is_calm = is_calm && now.calm_breaks == calm_breaks;
    uintptr_t lowest = me->lowest;
    sem_t go = me->go;
    uint64_t fenced = me->fenced;
    *me = saved;
    me->go = go;
    me->fenced = fenced;
    if (lowest < me->lowest) me->lowest = lowest;
    set_checking(!is_first);
    if (is_first) forget_device_tasks(), retire_all_strands();
    else clear_stack_shadow(me), set_current_strand(me->current);
    if (is_calm) now.calm = calm, now.calm_room = now.mark - calm;
}

/* Called by GCC's code for `#pragma omp parallel`: run `fn(data)` in a team. */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned thread_count, unsigned flags) {
    (void)flags;
    if (thread_count >= LANES && run_lanes_as_one(fn, data, BEGINNING(fn))) return;
    run_parallel_region(fn, data, thread_count, BEGINNING(fn), FRAME, false);
}

void GOMP_barrier(void) { wait_at_barrier(PLACE); }
bool GOMP_barrier_cancel(void) {
    wait_at_barrier(PLACE);
    return me->team && me->team->cancelled;
}

/* Initialise the checker's runtime before the program's own constructors run. */
__attribute__((constructor(101))) static void start_runtime(void) {
    extern char __executable_start, etext;
    now.start = (uintptr_t)&__executable_start;
    now.text = (size_t)(&etext - &__executable_start);
    me = create_thread_entry();
    fill_main_thread_entry(me);
    dl_iterate_phdr(find_thread_local_memory, me);
    const char *asked = getenv("WEFT_INTERNAL_CHECK_GRID");
    int requested = asked ? atoi(asked) : 0;
    if (requested > 1) weft_omp_default = requested;
    static struct task task;
    me->task = &task;
    if (open_findings()) start_cost_watch();
    open_shadow();
    read_library_functions();
    retire_all_strands();
}
