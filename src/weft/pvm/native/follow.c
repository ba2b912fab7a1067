/* Replay of a task: each call that passes a message is held against the plan (recorder/plan.h), and what could have come out
 * otherwise comes out as recorded. A receive of any task becomes one of the recorded task, a receive that found nothing
 * returns without a call, one that found something waits for just that; a notice of the daemon is known by the task that
 * it is about. The rest PVM decides again, the same way: messages of one task to another do not overtake each other.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../recorder/plan.h"
#include "pvm.h"

volatile int weft_replaying;

static const struct weft_plan_header *header;
static const uint8_t *plan, *kinds;
static uint64_t plan_size;
static const uint16_t *canonical;
static struct weft_control *control;
static char replay_folder[PATH_MAX];
static pid_t launcher;

static const struct weft_plan_entry *entries;
static const int32_t *posts, *values;
static uint64_t entry_count, post_count, at, post_at;
static uint32_t polls; /* failed since the last entry */
static bool under_way; /* its first part has been followed: there is no stop before the others */
static struct weft_control_thread *mine;

static void read_recorded_tasks(void);

void weft_follow_nap(void) { nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL); }

/* ---- taking the plan up ---- */
static const void *section_of_plan(const uint8_t *from, uint64_t size, uint64_t offset, uint64_t count, uint64_t each) {
    if (offset % 8 || offset > size || count > (size - offset) / each) return NULL;
    return from + offset;
}

static void *map_replay_file(const char *name, int rank, int protection, uint64_t *size) {
    char path[PATH_MAX + 64];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s-%06d.bin", replay_folder, name, rank);
    int fd = open(path, (protection & PROT_WRITE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    void *found = MAP_FAILED;
    if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0)
        found = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (found == MAP_FAILED) return NULL;
    *size = (uint64_t)status.st_size;
    return found;
}

bool weft_follow_start(const char *folder, int rank) {
    uint64_t size = 0;
    snprintf(replay_folder, sizeof replay_folder, "%s", folder);
    struct weft_control *page = map_replay_file("control", rank, PROT_READ | PROT_WRITE, &size);
    if (!page || size < sizeof *page || page->magic != WEFT_CONTROL_MAGIC) return false;
    control = page;
    control->pid = (int32_t)getpid();
    launcher = getppid();
    plan = map_replay_file("plan", rank, PROT_READ, &plan_size);
    header = (const struct weft_plan_header *)plan;
    bool good = plan && plan_size >= sizeof *header && header->magic == WEFT_PLAN_MAGIC && header->size == plan_size;
    const struct weft_plan_thread *thread =
        good ? section_of_plan(plan, plan_size, header->table, header->threads, sizeof *thread) : NULL;
    if (good) {
        kinds = section_of_plan(plan, plan_size, header->kinds, header->functions, 1);
        canonical = section_of_plan(plan, plan_size, header->canonical, header->functions, 2);
    }
    if (!good || !kinds || !canonical || !thread || !header->threads) {
        control->state = WEFT_CONTROL_REFUSED;
        return false;
    }
    entries = section_of_plan(plan, plan_size, thread->entries, thread->entry_count, sizeof *entries);
    posts = section_of_plan(plan, plan_size, thread->posts, thread->post_count, sizeof *posts);
    values = section_of_plan(plan, plan_size, thread->values, thread->value_count, sizeof *values);
    entry_count = entries ? thread->entry_count : 0;
    post_count = posts ? thread->post_count : 0;
    mine = &control->thread[0];
    mine->tid = (uint32_t)syscall(SYS_gettid);
    if (!control->threads) control->threads = 1;
    control->state = WEFT_CONTROL_RUNNING;
    read_recorded_tasks();
    weft_replaying = 1;
    return true;
}

int32_t weft_follow_child(uint32_t ordinal) {
    const int32_t *ranks =
        header ? section_of_plan(plan, plan_size, header->worlds, header->world_count, sizeof *ranks) : NULL;
    return ranks && ordinal < header->world_count ? ranks[ordinal] : -1;
}

void weft_follow_left(void) {
    if (control && control->state == WEFT_CONTROL_RUNNING) control->state = WEFT_CONTROL_ENDED;
}

/* ---- the tasks of the record ---- */
static const struct weft_task *recorded;
static uint32_t recorded_count;

static void read_recorded_tasks(void) {
    uint64_t size = 0;
    const struct weft_tasks_header *of = map_replay_file("tasks", 0, PROT_READ, &size);
    if (!of || size < sizeof *of || of->magic != WEFT_TASKS_MAGIC) return;
    uint64_t room = (size - sizeof *of) / sizeof *recorded;
    recorded = (const struct weft_task *)(of + 1);
    recorded_count = of->count < room ? of->count : (uint32_t)room;
}

static const struct weft_task *recorded_task(int32_t rank) {
    return rank >= 0 && (uint32_t)rank < recorded_count ? &recorded[rank] : NULL;
}

/* ---- where it stands ---- */
static void exit_if_orphaned(void) {
    if (control->ended) _exit(0);
}

static void park_at_goal(void) {
    mine->parked = 1;
    while (at >= mine->goal) {
        exit_if_orphaned();
        weft_follow_nap();
    }
    mine->parked = 0;
}

static void pass_entry(void) {
    at++;
    polls = 0;
    mine->polling = 0;
    __atomic_store_n(&mine->at, at, __ATOMIC_RELEASE);
}

static _Noreturn void diverge(struct weft_thread *thread, struct weft_event *event, int why, int field,
                              int64_t expected, int64_t got) {
    if (event) { /* the call that does not fit is the last one of this record */
        thread->events.next = (uint8_t *)(event + 1);
        event->enter = weft_ticks(weft_clock_kind);
        weft_stream_publish(&thread->events);
    }
    if (__sync_bool_compare_and_swap(&control->diverged.why, 0, (uint32_t)why)) {
        control->diverged.field = (uint32_t)field;
        control->diverged.at = at;
        control->diverged.function = event ? event->function : 0;
        control->diverged.expected = expected;
        control->diverged.got = got;
        __atomic_store_n(&control->state, WEFT_CONTROL_DIVERGED, __ATOMIC_RELEASE);
    }
    for (;;) {
        exit_if_orphaned();
        weft_follow_nap();
    }
}

static uint16_t canonical_function(uint16_t function) {
    return function < header->functions ? canonical[function] : function;
}

static bool was_killed(void) {
    const struct weft_task *own = recorded_task(weft_pvm_rank);
    return own && own->state == WEFT_TASK_KILLED;
}

/* The entry that comes next, NULL behind the end of an open record. */
static const struct weft_plan_entry *next_entry(struct weft_thread *thread, struct weft_event *event, bool poll) {
    const bool stops_elsewhere = under_way || (at >= entry_count && was_killed());
    if (at >= mine->goal && !stops_elsewhere && !(poll && at == mine->goal && polls < mine->goal_polls)) park_at_goal();
    if (at < entry_count) return &entries[at];
    if (poll && !(header->flags & WEFT_PLAN_OPEN)) return NULL; /* the last ones found nothing, and are not counted */
    if (!poll || !mine->behind) mine->behind++;
    mine->free_polls = poll ? mine->free_polls + 1 : 0;
    if (!(header->flags & WEFT_PLAN_OPEN) && !poll) diverge(thread, event, WEFT_DIVERGED_END, 0, 0, event->function);
    return NULL;
}

static void check_call(struct weft_thread *thread, struct weft_event *event, const struct weft_plan_entry *e) {
    uint8_t kind = e->function < header->functions ? kinds[e->function] : 0;
#define HOLD(bit, wanted, given)                                                                                       \
    if (kind & bit && (wanted) != (given))                                                                             \
    diverge(thread, event, WEFT_DIVERGED_ARGUMENT, bit, (int64_t)(wanted), (int64_t)(given))
    HOLD(WEFT_CHECK_COMM, e->comm, event->comm);
    if (!(e->flags & WEFT_ENTRY_FAILED))
        HOLD(WEFT_CHECK_PEER, (e->flags & WEFT_ENTRY_ANY_SOURCE ? WEFT_RANK_ANY_SOURCE : e->peer), event->peer);
    HOLD(WEFT_CHECK_TAG, (e->flags & WEFT_ENTRY_ANY_TAG ? WEFT_TAG_ANY : e->tag), event->tag);
    HOLD(WEFT_CHECK_COUNT, e->count, event->count);
    HOLD(WEFT_CHECK_TYPE, e->datatype, event->datatype);
#undef HOLD
}

/* A task that was killed does no more than it did. */
static void stop_where_killed(void) {
    while (was_killed() && weft_pvm_me->calls >= recorded_task(weft_pvm_rank)->calls) {
        mine->parked = 1;
        exit_if_orphaned();
        weft_follow_nap();
    }
}

void weft_follow_call(struct weft_thread *thread, struct weft_event *event) {
    if (!under_way) stop_where_killed();
    if (!(header->flags & WEFT_PLAN_CHECKED)) return;
    if (event->function >= header->functions || !(kinds[event->function] & WEFT_CHECK_CALL)) return;
    const struct weft_plan_entry *e = next_entry(thread, event, false);
    if (!e) return;
    if (e->function != canonical_function(event->function))
        diverge(thread, event, WEFT_DIVERGED_CALL, 0, e->function, event->function);
    check_call(thread, event, e);
    pass_entry();
}

/* One more destination of a call that has begun: there is no stop between them. */
void weft_follow_more(struct weft_thread *thread, struct weft_event *event) {
    under_way = true;
    weft_follow_call(thread, event);
    under_way = false;
}

/* Whether what came next was this question answered: the patterns are the same, whatever came. */
static bool is_answer_to(const struct weft_plan_entry *e, const struct weft_event *event) {
    bool source = e->flags & WEFT_ENTRY_ANY_SOURCE ? event->flags & WEFT_FLAG_ANY_SOURCE : e->peer == event->peer;
    bool tag = e->flags & WEFT_ENTRY_ANY_TAG ? event->flags & WEFT_FLAG_ANY_TAG : e->tag == event->tag;
    return e->comm == event->comm && source && tag;
}

static int source_of_next(const struct weft_event *event, const struct weft_plan_entry *e, bool looks, int asked) {
    int32_t source = e->peer;
    if (!(event->flags & WEFT_FLAG_ANY_SOURCE)) return asked;
    if (!looks) source = post_at < post_count ? posts[post_at++] : WEFT_POSTED_FREE;
    return source >= 0 ? weft_pvm_tid_of(source) : asked;
}

/* ---- from a record of level outcomes ---- */
static enum weft_follow follow_source(int32_t source, struct weft_followed *found) {
    if (source < 0 || source >= WEFT_LOG_STRANGER) return WEFT_FOLLOW_FREE;
    if (source >= WEFT_LOG_NOTICE) {
        found->about = source == WEFT_LOG_NOTICE ? WEFT_PVM_STRANGER : source - WEFT_LOG_NOTICE - 1;
        return WEFT_FOLLOW_NOTICE;
    }
    found->tid = weft_pvm_tid_of(source);
    return WEFT_FOLLOW_MESSAGE;
}

static enum weft_follow follow_nothing(struct weft_followed *found, uint32_t awaited) {
    found->extra = polls++ >= awaited;
    if (found->extra) mine->polling = polls;
    if (polls > 64) weft_follow_nap(); /* it may await something that is no message */
    exit_if_orphaned();
    return WEFT_FOLLOW_NOTHING;
}

static enum weft_follow follow_outcome(const struct weft_event *event, bool poll, struct weft_followed *found) {
    const bool asks = event->flags & WEFT_FLAG_ANY_SOURCE || event->peer == WEFT_PVM_DAEMON;
    const bool open = header->flags & WEFT_PLAN_OPEN && !was_killed();
    if (!poll) {
        if (!asks || post_at >= post_count) return WEFT_FOLLOW_FREE;
        return follow_source(posts[post_at++], found);
    }
    if (at >= entry_count) return open ? WEFT_FOLLOW_FREE : WEFT_FOLLOW_NOTHING;
    const struct weft_plan_entry *e = &entries[at];
    if (polls < e->polls || (e->outcome == WEFT_OUTCOME_SOURCE) != asks) return follow_nothing(found, e->polls);
    pass_entry();
    return asks ? follow_source(values[e->value], found) : WEFT_FOLLOW_MESSAGE;
}

enum weft_follow weft_follow_receive(struct weft_thread *thread, struct weft_event *event, uint16_t hit,
                                     uint16_t notice, bool poll, bool looks, struct weft_followed *found) {
    stop_where_killed();
    if (!(header->flags & WEFT_PLAN_CHECKED)) return follow_outcome(event, poll, found);
    const struct weft_plan_entry *e = next_entry(thread, event, poll);
    if (!e && poll && was_killed()) return WEFT_FOLLOW_NOTHING;
    if (!e) return poll && !(header->flags & WEFT_PLAN_OPEN) ? WEFT_FOLLOW_NOTHING : WEFT_FOLLOW_FREE;
    bool tells = e->function == canonical_function(notice), fits = tells || e->function == canonical_function(hit);
    if (poll && !(fits && (tells || is_answer_to(e, event)) && polls >= e->polls))
        return follow_nothing(found, e->polls);
    if (!fits) diverge(thread, event, WEFT_DIVERGED_CALL, 0, e->function, event->function);
    if (!poll && !tells && !is_answer_to(e, event) && !(e->flags & WEFT_ENTRY_FAILED)) {
        uint16_t kind =
            event->flags & WEFT_FLAG_ANY_SOURCE || e->peer != event->peer ? WEFT_CHECK_PEER : WEFT_CHECK_TAG;
        diverge(thread, event, WEFT_DIVERGED_ARGUMENT, kind, kind == WEFT_CHECK_PEER ? e->peer : e->tag,
                kind == WEFT_CHECK_PEER ? event->peer : event->tag);
    }
    bool decided = !(e->flags & (WEFT_ENTRY_OPEN | WEFT_ENTRY_FAILED));
    found->about = e->peer;
    if (!tells && decided) found->tid = source_of_next(event, e, looks, found->tid);
    pass_entry();
    if (!decided) return WEFT_FOLLOW_FREE;
    return tells ? WEFT_FOLLOW_NOTICE : WEFT_FOLLOW_MESSAGE;
}

/* A task that was killed had done what its record says: only then it may be killed again. Where that was inside of a
 * call, a message may have been on its way: the call may return, or wait. One that asks for messages for a time may ask
 * less often than it did: it is not waited for when it stands still. */
void weft_follow_kill(int32_t rank) {
    enum { WAITING = 100, STILL = 10000, LOOKS = 8 };
    const struct weft_task *its = recorded_task(rank);
    uint32_t seen = 0, still = 0;
    for (; its && still < STILL; still++) {
        uint32_t calls = weft_pvm_calls_of(rank);
        if (calls >= its->calls && (!(calls & 1) || still >= WAITING)) break;
        if (calls != seen) still = 0;
        seen = calls;
        exit_if_orphaned();
        weft_follow_nap();
    }
    /* What it has sent is still to be read by the daemon, which looks at all tasks before it answers again. */
    for (int i = 0; its && i < LOOKS; i++) real_pvm_pstat(weft_pvm_tid_of(rank));
}
