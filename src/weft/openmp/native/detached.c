/* Tasks with a clause `detach`: each is over only when its event is fulfilled, by whoever that is. */
#include "openmp.h"

struct event {
    strand_t task;
    bool fulfilled;
    strand_t by, last; /* what was done before it was fulfilled */
    struct event *next;
};

static struct event *events;

/* Return the handle of a new event for a task's clause `detach`. Aborts without memory. */
uintptr_t create_event(void) {
    struct event *created = calloc(1, sizeof *created);
    if (!created) abort();
    created->next = events;
    events = created;
    return (uintptr_t)created;
}

void set_event_task(uintptr_t event, strand_t task) { ((struct event *)event)->task = task; }

/* OpenMP API: fulfil a detach event. Everything done so far happens before whatever waits for the event's task. */
void omp_fulfill_event(uintptr_t event) {
    for (struct event *candidate = events; candidate; candidate = candidate->next) {
        if ((uintptr_t)candidate != event || candidate->fulfilled) continue;
        candidate->fulfilled = true;
        if (!now.on) return;
        candidate->by = me->plain;
        candidate->last = now.next - 1;
        begin_segment();
        return;
    }
}

/* Run other threads until an event is fulfilled, as long as one of them can run. If none can, the waiting thread itself
 * may fulfil it later. */
static void let_others_fulfill(const struct event *awaited) {
    while (!awaited->fulfilled && is_other_thread_ready()) yield_to_other_threads();
}

/* Let other threads fulfil the event of a task, if it has one. */
void wait_for_detached_task(strand_t task) {
    for (const struct event *event = events; event; event = event->next)
        if (event->task == task) let_others_fulfill(event);
}

/* Note that a strand comes after the fulfilment of a task's event, too. */
void order_after_detached_task(strand_t strand, strand_t task) {
    for (const struct event *event = events; event; event = event->next)
        if (event->task == task && event->fulfilled && event->by) order_strand_after(strand, event->by, event->last);
}

/* Order the running strand (iteration, task or thread) after the events of all detached tasks that were waited for. */
void join_detached_tasks(void) {
    for (const struct event *event = events; event; event = event->next) {
        if (event->task < now.base || !node(event->task)->joined) continue;
        let_others_fulfill(event);
        if (event->fulfilled && event->by >= now.base) order_strand_after(begin_segment(), event->by, event->last);
    }
}
