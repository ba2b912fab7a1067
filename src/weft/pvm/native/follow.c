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
/* Return the address of `count` items at an offset of the plan (the recorded outcomes in order); NULL if they do not
 * lie within it. */
static const void *find_plan_section(const uint8_t *plan_bytes, uint64_t plan_bytes_size, uint64_t offset,
                                     uint64_t count, uint64_t item_size) {
    if (offset % 8 || offset > plan_bytes_size || count > (plan_bytes_size - offset) / item_size) return NULL;
    return plan_bytes + offset;
}

/* Map a file of the replay's folder, NAME-RANK.bin, and set its size; NULL if that fails. */
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

/* Begin to replay a rank: map its control page and plan (the recorded outcomes in order). Return false if there is no
 * replay; a plan that does not fit is refused in the control page. */
bool weft_follow_begin_replay(const char *folder, int rank) {
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
        good ? find_plan_section(plan, plan_size, header->table, header->threads, sizeof *thread) : NULL;
    if (good) {
        kinds = find_plan_section(plan, plan_size, header->kinds, header->functions, 1);
        canonical = find_plan_section(plan, plan_size, header->canonical, header->functions, 2);
    }
    if (!good || !kinds || !canonical || !thread || !header->threads) {
        control->state = WEFT_CONTROL_REFUSED;
        return false;
    }
    entries = find_plan_section(plan, plan_size, thread->entries, thread->entry_count, sizeof *entries);
    posts = find_plan_section(plan, plan_size, thread->posts, thread->post_count, sizeof *posts);
    values = find_plan_section(plan, plan_size, thread->values, thread->value_count, sizeof *values);
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

/* Return the rank that this task's `ordinal`-th spawned task (from 0) has in the record; -1: it has none. */
int32_t weft_follow_find_child_rank(uint32_t ordinal) {
    const int32_t *ranks =
        header ? find_plan_section(plan, plan_size, header->worlds, header->world_count, sizeof *ranks) : NULL;
    return ranks && ordinal < header->world_count ? ranks[ordinal] : -1;
}

void weft_follow_left(void) {
    if (control && control->state == WEFT_CONTROL_RUNNING) control->state = WEFT_CONTROL_ENDED;
}

/* ---- the tasks of the record ---- */
static const struct weft_task *recorded;
static uint32_t recorded_count;

/* Map the record's table of tasks, which says how often each called and which were killed. */
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
static void exit_if_replay_ended(void) {
    if (control->ended) _exit(0);
}

/* Wait while the replay is to stop here, until the debugger moves this thread's goal. */
static void wait_at_replay_stop(void) {
    mine->parked = 1;
    while (at >= mine->goal) {
        exit_if_replay_ended();
        weft_follow_nap();
    }
    mine->parked = 0;
}

/* Go to the next entry of the plan (the recorded outcomes in order) and publish the position for the debugger. */
static void advance_plan(void) {
    at++;
    polls = 0;
    mine->polling = 0;
    __atomic_store_n(&mine->at, at, __ATOMIC_RELEASE);
}

/* Report that this call does not fit the plan (the recorded outcomes in order), and wait until the replay ends. Its
 * event becomes the last one of the record. */
static _Noreturn void stop_as_diverged(struct weft_thread *thread, struct weft_event *event, int reason, int field,
                                       int64_t expected, int64_t got) {
    if (event) { /* the call that does not fit is the last one of this record */
        thread->events.next = (uint8_t *)(event + 1);
        event->enter = weft_ticks(weft_clock_kind);
        weft_stream_publish(&thread->events);
    }
    if (__sync_bool_compare_and_swap(&control->diverged.why, 0, (uint32_t)reason)) {
        control->diverged.field = (uint32_t)field;
        control->diverged.at = at;
        control->diverged.function = event ? event->function : 0;
        control->diverged.expected = expected;
        control->diverged.got = got;
        __atomic_store_n(&control->state, WEFT_CONTROL_DIVERGED, __ATOMIC_RELEASE);
    }
    for (;;) {
        exit_if_replay_ended();
        weft_follow_nap();
    }
}

static uint16_t canonical_function(uint16_t function) {
    return function < header->functions ? canonical[function] : function;
}

/* Return whether another task killed this one in the recorded run. */
static bool was_killed_in_record(void) {
    const struct weft_task *own = recorded_task(weft_pvm_rank);
    return own && own->state == WEFT_TASK_KILLED;
}

/* Return the plan's next entry, after waiting at the replay's stop; NULL past the end, where calls are free or the
 * program diverges. */
static const struct weft_plan_entry *await_next_entry(struct weft_thread *thread, struct weft_event *event,
                                                      bool is_poll) {
    const bool stops_elsewhere = under_way || (at >= entry_count && was_killed_in_record());
    if (at >= mine->goal && !stops_elsewhere && !(is_poll && at == mine->goal && polls < mine->goal_polls))
        wait_at_replay_stop();
    if (at < entry_count) return &entries[at];
    if (is_poll && !(header->flags & WEFT_PLAN_OPEN))
        return NULL; /* the last ones found nothing, and are not counted */
    if (!is_poll || !mine->behind) mine->behind++;
    mine->free_polls = is_poll ? mine->free_polls + 1 : 0;
    if (!(header->flags & WEFT_PLAN_OPEN) && !is_poll)
        stop_as_diverged(thread, event, WEFT_DIVERGED_END, 0, 0, event->function);
    return NULL;
}

/* Compare a call's arguments with its entry of the plan (the recorded outcomes in order); diverge if they differ. */
static void check_call_arguments(struct weft_thread *thread, struct weft_event *event,
                                 const struct weft_plan_entry *entry) {
    uint8_t kind = entry->function < header->functions ? kinds[entry->function] : 0;
#define HOLD(bit, wanted, given)                                                                                       \
    if (kind & bit && (wanted) != (given))                                                                             \
    stop_as_diverged(thread, event, WEFT_DIVERGED_ARGUMENT, bit, (int64_t)(wanted), (int64_t)(given))
    HOLD(WEFT_CHECK_COMM, entry->comm, event->comm);
    if (!(entry->flags & WEFT_ENTRY_FAILED))
        HOLD(WEFT_CHECK_PEER, (entry->flags & WEFT_ENTRY_ANY_SOURCE ? WEFT_RANK_ANY_SOURCE : entry->peer), event->peer);
    HOLD(WEFT_CHECK_TAG, (entry->flags & WEFT_ENTRY_ANY_TAG ? WEFT_TAG_ANY : entry->tag), event->tag);
    HOLD(WEFT_CHECK_COUNT, entry->count, event->count);
    HOLD(WEFT_CHECK_TYPE, entry->datatype, event->datatype);
#undef HOLD
}

/* Wait for the kill where the recorded run killed this task, so that it does no more than it did. */
static void wait_where_killed(void) {
    while (was_killed_in_record() && weft_pvm_me->calls >= recorded_task(weft_pvm_rank)->calls) {
        mine->parked = 1;
        exit_if_replay_ended();
        weft_follow_nap();
    }
}

/* Check a call that decides nothing by itself against the plan (the recorded outcomes in order) and go on; diverge if
 * it does not fit. */
void weft_follow_check_call(struct weft_thread *thread, struct weft_event *event) {
    if (!under_way) wait_where_killed();
    if (!(header->flags & WEFT_PLAN_CHECKED)) return;
    if (event->function >= header->functions || !(kinds[event->function] & WEFT_CHECK_CALL)) return;
    const struct weft_plan_entry *entry = await_next_entry(thread, event, false);
    if (!entry) return;
    if (entry->function != canonical_function(event->function))
        stop_as_diverged(thread, event, WEFT_DIVERGED_CALL, 0, entry->function, event->function);
    check_call_arguments(thread, event, entry);
    advance_plan();
}

/* Check one more destination of a call that has begun; the replay does not stop between them. */
void weft_follow_check_next_destination(struct weft_thread *thread, struct weft_event *event) {
    under_way = true;
    weft_follow_check_call(thread, event);
    under_way = false;
}

/* Return whether a plan's entry answers this request: sender, tag and wildcards are the same, whatever came. */
static bool matches_request(const struct weft_plan_entry *entry, const struct weft_event *event) {
    bool source =
        entry->flags & WEFT_ENTRY_ANY_SOURCE ? event->flags & WEFT_FLAG_ANY_SOURCE : entry->peer == event->peer;
    bool tag = entry->flags & WEFT_ENTRY_ANY_TAG ? event->flags & WEFT_FLAG_ANY_TAG : entry->tag == event->tag;
    return entry->comm == event->comm && source && tag;
}

/* Return the task whose message a receive is to take: the recorded one for a receive of any task, else as asked. */
static int find_planned_source(const struct weft_event *event, const struct weft_plan_entry *entry, bool is_probe,
                               int asked_tid) {
    int32_t source = entry->peer;
    if (!(event->flags & WEFT_FLAG_ANY_SOURCE)) return asked_tid;
    if (!is_probe) source = post_at < post_count ? posts[post_at++] : WEFT_POSTED_FREE;
    return source >= 0 ? weft_pvm_await_tid(source) : asked_tid;
}

/* ---- from a record of level outcomes ---- */
/* Turn a sender that was recorded at level outcomes into what the receive is to find: a message of a task, a notice, or
 * free choice. */
static enum weft_follow decide_by_recorded_sender(int32_t source, struct weft_followed *found) {
    if (source < 0 || source >= WEFT_LOG_STRANGER) return WEFT_FOLLOW_FREE;
    if (source >= WEFT_LOG_NOTICE) {
        found->about = source == WEFT_LOG_NOTICE ? WEFT_PVM_STRANGER : source - WEFT_LOG_NOTICE - 1;
        return WEFT_FOLLOW_NOTICE;
    }
    found->tid = weft_pvm_await_tid(source);
    return WEFT_FOLLOW_MESSAGE;
}

/* Let a poll find nothing. Polls beyond those in the record are marked as extra and slow down. */
static enum weft_follow decide_nothing(struct weft_followed *found, uint32_t recorded_polls) {
    found->extra = polls++ >= recorded_polls;
    if (found->extra) mine->polling = polls;
    if (polls > 64) weft_follow_nap(); /* it may await something that is no message */
    exit_if_replay_ended();
    return WEFT_FOLLOW_NOTHING;
}

/* Decide what a receive is to find, from a record of level outcomes (only what another run could decide
 * differently). */
static enum weft_follow decide_by_recorded_outcomes(const struct weft_event *event, bool is_poll,
                                                    struct weft_followed *found) {
    const bool asks = event->flags & WEFT_FLAG_ANY_SOURCE || event->peer == WEFT_PVM_DAEMON;
    const bool open = header->flags & WEFT_PLAN_OPEN && !was_killed_in_record();
    if (!is_poll) {
        if (!asks || post_at >= post_count) return WEFT_FOLLOW_FREE;
        return decide_by_recorded_sender(posts[post_at++], found);
    }
    if (at >= entry_count) return open ? WEFT_FOLLOW_FREE : WEFT_FOLLOW_NOTHING;
    const struct weft_plan_entry *entry = &entries[at];
    if (polls < entry->polls || (entry->outcome == WEFT_OUTCOME_SOURCE) != asks)
        return decide_nothing(found, entry->polls);
    advance_plan();
    return asks ? decide_by_recorded_sender(values[entry->value], found) : WEFT_FOLLOW_MESSAGE;
}

/* Decide what a receive or poll is to find, from the plan (the recorded outcomes in order): nothing, a message
 * (found->tid), a notice (found->about), or free choice. Diverges if the call does not fit. */
enum weft_follow weft_follow_decide_receive(struct weft_thread *thread, struct weft_event *event, uint16_t hit,
                                            uint16_t notice, bool is_poll, bool is_probe, struct weft_followed *found) {
    wait_where_killed();
    if (!(header->flags & WEFT_PLAN_CHECKED)) return decide_by_recorded_outcomes(event, is_poll, found);
    const struct weft_plan_entry *entry = await_next_entry(thread, event, is_poll);
    if (!entry && is_poll && was_killed_in_record()) return WEFT_FOLLOW_NOTHING;
    if (!entry) return is_poll && !(header->flags & WEFT_PLAN_OPEN) ? WEFT_FOLLOW_NOTHING : WEFT_FOLLOW_FREE;
    bool tells = entry->function == canonical_function(notice),
         fits = tells || entry->function == canonical_function(hit);
    if (is_poll && !(fits && (tells || matches_request(entry, event)) && polls >= entry->polls))
        return decide_nothing(found, entry->polls);
    if (!fits) stop_as_diverged(thread, event, WEFT_DIVERGED_CALL, 0, entry->function, event->function);
    if (!is_poll && !tells && !matches_request(entry, event) && !(entry->flags & WEFT_ENTRY_FAILED)) {
        uint16_t kind =
            event->flags & WEFT_FLAG_ANY_SOURCE || entry->peer != event->peer ? WEFT_CHECK_PEER : WEFT_CHECK_TAG;
        stop_as_diverged(thread, event, WEFT_DIVERGED_ARGUMENT, kind,
                         kind == WEFT_CHECK_PEER ? entry->peer : entry->tag,
                         kind == WEFT_CHECK_PEER ? event->peer : event->tag);
    }
    bool decided = !(entry->flags & (WEFT_ENTRY_OPEN | WEFT_ENTRY_FAILED));
    found->about = entry->peer;
    if (!tells && decided) found->tid = find_planned_source(event, entry, is_probe, found->tid);
    advance_plan();
    if (!decided) return WEFT_FOLLOW_FREE;
    return tells ? WEFT_FOLLOW_NOTICE : WEFT_FOLLOW_MESSAGE;
}

/* Wait before a kill until the task has done all that its record says, since only then it may be killed again. If it
 * was killed inside a call, a message may have been on its way: the call may return, or wait. A task that polls may
 * poll less often than it did: after standing still for a time it is not waited for. */
void weft_follow_wait_before_kill(int32_t rank) {
    enum { WAITING = 100, STILL = 10000, LOOKS = 8 };
    const struct weft_task *its = recorded_task(rank);
    uint32_t seen = 0, still = 0;
    for (; its && still < STILL; still++) {
        uint32_t calls = weft_pvm_count_calls(rank);
        if (calls >= its->calls && (!(calls & 1) || still >= WAITING)) break;
        if (calls != seen) still = 0;
        seen = calls;
        exit_if_replay_ended();
        weft_follow_nap();
    }
    /* What it has sent is still to be read by the daemon, which looks at all tasks before it answers again. */
    for (int i = 0; its && i < LOOKS; i++) real_pvm_pstat(weft_pvm_await_tid(rank));
}
