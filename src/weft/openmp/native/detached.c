/* Tasks with a clause `detach`: each is over only when its event is fulfilled, by whoever that is. */
#include "openmp.h"

struct event {
    strand_t task;
    bool fulfilled;
    strand_t by, last; /* what was done before it was fulfilled */
    struct event *next;
};

static struct event *events;

uintptr_t event_new(void) {
    struct event *e = calloc(1, sizeof *e);
    if (!e) abort();
    e->next = events;
    events = e;
    return (uintptr_t)e;
}

void event_of(uintptr_t event, strand_t task) { ((struct event *)event)->task = task; }

void omp_fulfill_event(uintptr_t event) {
    for (struct event *e = events; e; e = e->next) {
        if ((uintptr_t)e != event || e->fulfilled) continue;
        e->fulfilled = true;
        if (!now.on) return;
        e->by = me->plain;
        e->last = now.next - 1;
        begin_segment();
        return;
    }
}

/* Others may come to fulfil it; where none can run, who waits may be the one that does, later. */
static void give_time(const struct event *e) {
    while (!e->fulfilled && is_other_thread_ready()) yield_to_other_threads();
}

void detached_awaited(strand_t task) {
    for (const struct event *e = events; e; e = e->next)
        if (e->task == task) give_time(e);
}

void detached_before(strand_t s, strand_t task) {
    for (const struct event *e = events; e; e = e->next)
        if (e->task == task && e->fulfilled && e->by) order_strand_after(s, e->by, e->last);
}

void detached_joined(void) {
    for (const struct event *e = events; e; e = e->next) {
        if (e->task < now.base || !node(e->task)->joined) continue;
        give_time(e);
        if (e->fulfilled && e->by >= now.base) order_strand_after(begin_segment(), e->by, e->last);
    }
}
