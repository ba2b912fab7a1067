/* Happens-before by vector time (Fidge 1988, Mattern 1989), over a matched run.
 *
 * A PROCESS is one thread of one rank: only its own calls are ordered by the program. Every event has two POINTS, its
 * start 2e + 1 and its end 2e + 2 (0: nothing); e counts in the rank's merged order. Edges lead from starts to ends:
 *
 *   message     send posted              -> the call at whose return it was certain that the receive had it
 *   generic     any two events            (probes, synchronous sends, threads), prepared by the caller
 *   collective  start of every source     -> completion of every target (scan: of lower sources only)
 *
 * A vector holds for each process the latest point of it that is known. The sweep runs every process until it waits
 * for an edge. Vectors change only where something is received; they are shared (VERSIONS, counted references)
 * and copied when one that somebody still needs is to change. Only every `stride`-th is kept for later questions; past()
 * walks the edges from there.
 */
#include <stdlib.h>
#include <string.h>

#include "order.h"
#include "ops.h"

#define START(e) (2 * (e) + 1)
#define END(e) (2 * (e) + 2)
#define NO_VERSION UINT32_MAX
#define QUANTUM 65536 /* events that a process runs before the next one has its turn: bounds messages in flight */

struct version_pool {
    uint32_t **blocks; /* of BLOCK vectors each */
    uint32_t *refs, *free_list;
    uint32_t count, room, free_count;
    uint32_t width;
};
#define BLOCK 64u

struct kept {
    uint32_t event, version;
};

struct process {
    uint32_t version;
    uint64_t at;        /* index of the event to start or to end */
    bool inside;        /* the event at `at` has started */
    uint64_t send, generic, coll; /* cursors */
    uint64_t next_in;   /* in-edges of the event at `at` that are done */
    bool changed, queued, done;
    uint32_t since_kept;
    struct kept *kept;
    uint32_t kept_count, kept_room;
    uint32_t next_waiter;
};

struct instance {
    uint32_t sources_left, targets_left;
    uint32_t joined;
    uint32_t waiters; /* processes, chained by next_waiter */
};

struct weft_order {
    struct weft_order_input in;
    struct version_pool pool;
    struct process *procs;
    struct instance *insts;
    uint32_t *edge_version; /* sends, then generics, then collectives; NO_VERSION before, WAITER | process */
    uint8_t *edge_state;    /* EDGE_* */
    uint32_t *in_first;     /* by global event */
    uint32_t *in_edge;
    uint32_t *queue;
    uint64_t queue_head, queue_count;
    uint64_t forced; /* edges that had to be left out: the record contradicts itself or lacks a part */
    bool failed;
};
enum { EDGE_AHEAD = 0, EDGE_PASSED = 1, EDGE_AWAITED = 2, EDGE_USED = 3 };

/* ---- versions ---- */

static uint32_t *vector(const struct version_pool *pool, uint32_t version) {
    return pool->blocks[version / BLOCK] + (size_t)(version % BLOCK) * pool->width;
}

static uint32_t new_version(struct weft_order *o) {
    struct version_pool *pool = &o->pool;
    if (pool->free_count) {
        uint32_t v = pool->free_list[--pool->free_count];
        pool->refs[v] = 1;
        return v;
    }
    if (pool->count == pool->room) {
        uint32_t room = pool->room + BLOCK > pool->room * 2 ? pool->room + BLOCK : pool->room * 2;
        uint32_t **blocks = realloc(pool->blocks, room / BLOCK * sizeof *blocks);
        if (blocks) pool->blocks = blocks;
        uint32_t *refs = realloc(pool->refs, room * sizeof *refs);
        if (refs) pool->refs = refs;
        uint32_t *list = realloc(pool->free_list, room * sizeof *list);
        if (list) pool->free_list = list;
        if (!blocks || !refs || !list) {
            o->failed = true;
            return NO_VERSION;
        }
        pool->room = room;
    }
    if (pool->count % BLOCK == 0) {
        uint32_t *block = malloc((size_t)BLOCK * pool->width * sizeof *block);
        if (!block) {
            o->failed = true;
            return NO_VERSION;
        }
        pool->blocks[pool->count / BLOCK] = block;
    }
    pool->refs[pool->count] = 1;
    return pool->count++;
}

static void release(struct weft_order *o, uint32_t version) {
    if (--o->pool.refs[version] == 0) o->pool.free_list[o->pool.free_count++] = version;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static void
raise_all(uint32_t *restrict to, const uint32_t *restrict from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) to[i] = to[i] > from[i] ? to[i] : from[i];
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static void
higher_of(uint32_t *restrict to, const uint32_t *restrict a, const uint32_t *restrict b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) to[i] = a[i] > b[i] ? a[i] : b[i];
}

/* The process's vector, made its own. */
static uint32_t *own(struct weft_order *o, struct process *p) {
    if (o->pool.refs[p->version] > 1) {
        uint32_t fresh = new_version(o);
        if (fresh == NO_VERSION) return NULL;
        memcpy(vector(&o->pool, fresh), vector(&o->pool, p->version), o->pool.width * sizeof(uint32_t));
        release(o, p->version);
        p->version = fresh;
    }
    p->changed = true;
    return vector(&o->pool, p->version);
}

static void merge(struct weft_order *o, struct process *p, uint32_t version, uint32_t source, uint32_t point) {
    const uint32_t *mine = vector(&o->pool, p->version);
    if (version == p->version && mine[source] >= point) return;
    uint32_t *to;
    if (version != p->version && o->pool.refs[p->version] > 1) { /* copy and merge in one pass */
        uint32_t fresh = new_version(o);
        if (fresh == NO_VERSION) return;
        to = vector(&o->pool, fresh);
        higher_of(to, vector(&o->pool, p->version), vector(&o->pool, version), o->pool.width);
        release(o, p->version);
        p->version = fresh;
        p->changed = true;
    } else {
        to = own(o, p);
        if (!to) return;
        if (version != p->version) raise_all(to, vector(&o->pool, version), o->pool.width);
    }
    if (to[source] < point) to[source] = point;
}

/* ---- the sweep ---- */

static uint32_t event_of(const struct weft_order *o, uint32_t process, uint64_t index) {
    const uint32_t *events = o->in.events[process];
    return events ? events[index] : (uint32_t)index;
}

static void enqueue(struct weft_order *o, uint32_t process) {
    struct process *p = &o->procs[process];
    if (p->queued || p->done) return;
    p->queued = true;
    o->queue[(o->queue_head + o->queue_count++) % o->in.processes] = process;
}

static void pass_edge(struct weft_order *o, struct process *p, uint64_t edge) {
    if (o->edge_state[edge] == EDGE_USED) return; /* left out before */
    if (o->edge_state[edge] == EDGE_AWAITED) enqueue(o, o->edge_version[edge]);
    o->edge_state[edge] = EDGE_PASSED;
    o->edge_version[edge] = p->version;
    o->pool.refs[p->version]++;
}

static void join(struct weft_order *o, uint64_t instance) {
    const struct weft_order_input *in = &o->in;
    uint32_t joined = new_version(o), last = NO_VERSION;
    if (joined == NO_VERSION) return;
    uint32_t *to = vector(&o->pool, joined);
    memset(to, 0, o->pool.width * sizeof *to);
    for (uint64_t k = in->instance_first[instance]; k < in->instance_first[instance + 1]; k++) {
        uint32_t row = in->instance_rows[k];
        uint64_t edge = in->sends + in->generics + row;
        if (!(in->coll_role[row] & COLL_SOURCE) || o->edge_state[edge] != EDGE_PASSED) continue;
        if (o->edge_version[edge] != last) raise_all(to, vector(&o->pool, o->edge_version[edge]), o->pool.width);
        last = o->edge_version[edge];
    }
    for (uint64_t k = in->instance_first[instance]; k < in->instance_first[instance + 1]; k++) {
        uint32_t row = in->instance_rows[k], process = in->coll_process[row];
        uint64_t edge = in->sends + in->generics + row;
        if (!(in->coll_role[row] & COLL_SOURCE) || o->edge_state[edge] != EDGE_PASSED) continue;
        uint32_t point = START(in->coll_event[row]);
        if (to[process] < point) to[process] = point;
        release(o, o->edge_version[edge]);
        o->edge_state[edge] = EDGE_USED;
    }
    o->insts[instance].joined = joined;
}

static void arrive(struct weft_order *o, struct process *p, uint32_t row) {
    const struct weft_order_input *in = &o->in;
    uint64_t instance = in->coll_instance[row];
    if (in->instance_kind[instance] == COLL_NO_EDGE || !(in->coll_role[row] & COLL_SOURCE)) return;
    struct instance *inst = &o->insts[instance];
    pass_edge(o, p, in->sends + in->generics + row);
    inst->sources_left--;
    if (in->instance_kind[instance] == COLL_GENERAL && inst->sources_left) return;
    if (in->instance_kind[instance] == COLL_GENERAL && inst->targets_left) join(o, instance);
    for (uint32_t w = inst->waiters; w != NONE;) {
        uint32_t next = o->procs[w].next_waiter;
        enqueue(o, w);
        w = next;
    }
    inst->waiters = NONE;
}

/* The latest point of the receiver that the sender knows when it sends. */
static uint32_t known(const struct weft_order *o, uint32_t process, uint32_t row) {
    int32_t peer = o->in.send_peer[row];
    uint32_t receiver = peer < 0 ? NONE : o->in.process_of_rank[peer];
    if (receiver == NONE) return NONE;
    if (receiver == process) return START(o->in.send_event[row]);
    return vector(&o->pool, o->procs[process].version)[receiver];
}

static void start_event(struct weft_order *o, uint32_t process, uint32_t event) {
    const struct weft_order_input *in = &o->in;
    struct process *p = &o->procs[process];
    for (; p->send < in->send_of_process[process + 1]; p->send++) {
        uint32_t row = in->send_rows ? in->send_rows[p->send] : (uint32_t)p->send;
        if (in->send_event[row] != event) break;
        if (in->send_target[row] != NONE) pass_edge(o, p, row);
        if (in->send_known) in->send_known[row] = known(o, process, row);
    }
    for (; p->generic < in->generic_of_process[process + 1] && in->generic_event[p->generic] == event; p->generic++)
        pass_edge(o, p, in->sends + p->generic);
    for (; p->coll < in->coll_of_process[process + 1]; p->coll++) {
        uint32_t row = in->coll_rows ? in->coll_rows[p->coll] : (uint32_t)p->coll;
        if (in->coll_event[row] != event) break;
        arrive(o, p, row);
    }
}

static bool scan_ready(const struct weft_order *o, uint32_t row, bool inclusive, bool use, struct process *p) {
    const struct weft_order_input *in = &o->in;
    uint64_t instance = in->coll_instance[row];
    for (uint64_t k = in->instance_first[instance]; k < in->instance_first[instance + 1]; k++) {
        uint32_t other = in->instance_rows[k];
        uint64_t edge = in->sends + in->generics + other;
        if (in->coll_place[other] > in->coll_place[row] || !(in->coll_role[other] & COLL_SOURCE)) continue;
        if (!inclusive && in->coll_place[other] == in->coll_place[row]) continue;
        if (!use && o->edge_state[edge] == EDGE_AHEAD) return false;
        if (use && o->edge_state[edge] == EDGE_PASSED)
            merge((struct weft_order *)o, p, o->edge_version[edge], in->coll_process[other],
                  START(in->coll_event[other]));
    }
    return true;
}

/* Takes in what a collective brings its target. False when the process has to wait. */
static bool leave(struct weft_order *o, uint32_t process, uint32_t row, bool force) {
    const struct weft_order_input *in = &o->in;
    uint64_t instance = in->coll_instance[row];
    struct process *p = &o->procs[process];
    struct instance *inst = &o->insts[instance];
    bool scan = in->instance_kind[instance] != COLL_GENERAL;
    bool inclusive = in->instance_kind[instance] == COLL_SCAN;
    if (!force && (scan ? !scan_ready(o, row, inclusive, false, p) : inst->sources_left > 0)) {
        p->next_waiter = inst->waiters;
        inst->waiters = process;
        return false;
    }
    inst->targets_left--;
    if (scan) {
        scan_ready(o, row, inclusive, true, p);
        return true;
    }
    if (inst->joined == NO_VERSION && inst->sources_left == 0) return true; /* no sources at all */
    if (inst->joined == NO_VERSION) {
        o->forced++;
        return true;
    }
    if (in->coll_completion[row] == in->coll_event[row] && in->coll_role[row] & COLL_SOURCE && !p->changed) {
        release(o, p->version); /* blocking: the joint vector holds all that the process knew */
        p->version = inst->joined;
        o->pool.refs[inst->joined]++;
        p->changed = true;
    } else {
        merge(o, p, inst->joined, in->coll_process[row], START(in->coll_event[row]));
    }
    if (inst->targets_left == 0) release(o, inst->joined);
    return true;
}

/* Takes in one edge that ends at the event. False when its source is still ahead. */
static bool take(struct weft_order *o, uint32_t process, uint32_t edge, bool force) {
    const struct weft_order_input *in = &o->in;
    struct process *p = &o->procs[process];
    if (edge >= in->sends + in->generics) return leave(o, process, (uint32_t)(edge - in->sends - in->generics), force);
    if (o->edge_state[edge] == EDGE_PASSED) {
        bool generic = edge >= in->sends;
        uint32_t source = generic ? in->generic_process[edge - in->sends] : in->send_process[edge];
        uint32_t event = generic ? in->generic_event[edge - in->sends] : in->send_event[edge];
        merge(o, p, o->edge_version[edge], source, START(event));
        release(o, o->edge_version[edge]);
        o->edge_state[edge] = EDGE_USED;
        return true;
    }
    if (force) {
        o->edge_state[edge] = EDGE_USED;
        o->forced++;
        return true;
    }
    o->edge_state[edge] = EDGE_AWAITED;
    o->edge_version[edge] = process;
    return false;
}

static bool keep(struct weft_order *o, struct process *p, uint32_t event) {
    if (p->kept_count == p->kept_room) {
        uint32_t room = p->kept_room ? p->kept_room * 2 : 16;
        struct kept *more = realloc(p->kept, room * sizeof *more);
        if (!more) return false;
        p->kept = more;
        p->kept_room = room;
    }
    p->kept[p->kept_count++] = (struct kept){event, p->version};
    o->pool.refs[p->version]++;
    return true;
}

static void run(struct weft_order *o, uint32_t process, bool force) {
    const struct weft_order_input *in = &o->in;
    struct process *p = &o->procs[process];
    const uint32_t *in_first = o->in_first + in->event_first[in->rank_of[process]];
    for (uint64_t turn = 0; turn < QUANTUM && p->at < in->event_counts[process] && !o->failed; turn++) {
        uint32_t event = event_of(o, process, p->at);
        if (!p->inside) {
            start_event(o, process, event);
            p->inside = true;
            p->next_in = in_first[event];
            p->changed = false;
        }
        for (; p->next_in < in_first[event + 1]; p->next_in++) {
            if (!take(o, process, o->in_edge[p->next_in], force)) return;
            force = false;
        }
        if (p->changed && ++p->since_kept >= in->stride) {
            p->since_kept = 0;
            if (!keep(o, p, event)) o->failed = true;
        }
        p->inside = false;
        p->at++;
    }
    if (p->at < in->event_counts[process]) enqueue(o, process);
    else p->done = true;
}

static void sweep(struct weft_order *o) {
    for (uint32_t p = 0; p < o->in.processes; p++) enqueue(o, p);
    uint32_t stuck = 0;
    while (!o->failed) {
        while (o->queue_count && !o->failed) {
            uint32_t p = o->queue[o->queue_head];
            o->queue_head = (o->queue_head + 1) % o->in.processes;
            o->queue_count--;
            o->procs[p].queued = false;
            run(o, p, false);
        }
        /* Only a record that contradicts itself leaves processes waiting: leave an edge out and go on. */
        while (stuck < o->in.processes && o->procs[stuck].done) stuck++;
        if (stuck == o->in.processes) return;
        uint32_t chosen = stuck;
        for (uint32_t p = stuck; p < o->in.processes; p++)
            if (!o->procs[p].done && o->procs[p].at < o->procs[chosen].at) chosen = p;
        for (uint64_t i = 0; i < o->in.instances; i++) { /* it waits no more */
            uint32_t *w = &o->insts[i].waiters;
            while (*w != NONE && *w != chosen) w = &o->procs[*w].next_waiter;
            if (*w == chosen) *w = o->procs[chosen].next_waiter;
        }
        run(o, chosen, true);
    }
}

/* ---- building ---- */

static bool group_edges(struct weft_order *o) {
    const struct weft_order_input *in = &o->in;
    uint32_t ranks = 0;
    for (uint32_t p = 0; p < in->processes; p++)
        if (in->rank_of[p] + 1 > ranks) ranks = in->rank_of[p] + 1;
    uint64_t total = in->event_first[ranks], edges = 0;
    uint32_t *first = o->in_first = calloc(total + 2, sizeof *first);
    if (!first) return false;
#define EACH_EDGE(DO)                                                                                                  \
    for (uint64_t s = 0; s < in->sends; s++)                                                                           \
        if (in->send_target[s] != NONE) DO(in->event_first[in->send_peer[s]] + in->send_target[s], s);                 \
    for (uint64_t g = 0; g < in->generics; g++)                                                                        \
        DO(in->event_first[in->rank_of[in->generic_target_process[g]]] + in->generic_target[g], in->sends + g);        \
    for (uint64_t c = 0; c < in->colls; c++)                                                                           \
        if (in->coll_role[c] & COLL_TARGET && in->coll_completion[c] != NONE &&                                        \
            in->instance_kind[in->coll_instance[c]] != COLL_NO_EDGE)                                                   \
            DO(in->event_first[in->rank_of[in->coll_completion_process[c]]] + in->coll_completion[c],                  \
               in->sends + in->generics + c);
#define COUNT(at, edge) (first[(at) + 2]++, edges++)
    EACH_EDGE(COUNT)
    if (edges >= NONE) return false;
    o->in_edge = malloc((edges + 1) * sizeof *o->in_edge);
    if (!o->in_edge) return false;
    for (uint64_t i = 2; i < total + 2; i++) first[i] += first[i - 1];
#define PLACE(at, edge) (o->in_edge[first[(at) + 1]++] = (uint32_t)(edge))
    EACH_EDGE(PLACE)
    return true;
}

static void count_instances(struct weft_order *o) {
    const struct weft_order_input *in = &o->in;
    for (uint64_t i = 0; i < in->instances; i++) o->insts[i] = (struct instance){0, 0, NO_VERSION, NONE};
    for (uint64_t c = 0; c < in->colls; c++) {
        struct instance *inst = &o->insts[in->coll_instance[c]];
        inst->sources_left += in->coll_role[c] & COLL_SOURCE ? 1 : 0;
        inst->targets_left += in->coll_role[c] & COLL_TARGET && in->coll_completion[c] != NONE ? 1 : 0;
    }
}

void weft_order_free(struct weft_order *o) {
    if (!o) return;
    for (uint32_t b = 0; b * BLOCK < o->pool.count; b++) free(o->pool.blocks[b]);
    free(o->pool.blocks);
    free(o->pool.refs);
    free(o->pool.free_list);
    for (uint32_t p = 0; o->procs && p < o->in.processes; p++) free(o->procs[p].kept);
    free(o->procs);
    free(o->insts);
    free(o->edge_version);
    free(o->edge_state);
    free(o->in_first);
    free(o->in_edge);
    free(o->queue);
    free(o);
}

static bool prepare(struct weft_order *o) {
    const struct weft_order_input *in = &o->in;
    uint64_t edges = in->sends + in->generics + in->colls;
    o->pool.width = in->processes;
    o->procs = calloc(in->processes + 1, sizeof *o->procs);
    o->insts = malloc((in->instances + 1) * sizeof *o->insts);
    o->edge_version = malloc((edges + 1) * sizeof *o->edge_version);
    o->edge_state = calloc(edges + 1, 1);
    o->queue = malloc((in->processes + 1) * sizeof *o->queue);
    if (!o->procs || !o->insts || !o->edge_version || !o->edge_state || !o->queue || !group_edges(o)) return false;
    count_instances(o);
    uint32_t nothing = new_version(o);
    if (nothing == NO_VERSION) return false;
    memset(vector(&o->pool, nothing), 0, in->processes * sizeof(uint32_t));
    for (uint32_t p = 0; p < in->processes; p++) {
        o->procs[p].version = nothing;
        o->procs[p].send = in->send_of_process[p];
        o->procs[p].generic = in->generic_of_process[p];
        o->procs[p].coll = in->coll_of_process[p];
        o->pool.refs[nothing]++;
    }
    return true;
}

struct weft_order *weft_order_make(const struct weft_order_input *in, uint64_t *forced) {
    struct weft_order *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->in = *in;
    if (prepare(o)) sweep(o);
    else o->failed = true;
    if (o->failed) {
        weft_order_free(o);
        return NULL;
    }
    *forced = o->forced;
    return o;
}

/* ---- questions ---- */

/* The latest kept vector of a process at or before `point`: its index in kept, or -1. */
static int64_t kept_before(const struct process *p, uint32_t point) {
    int64_t low = -1, high = p->kept_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (END(p->kept[middle].event) <= point) low = middle;
        else high = middle;
    }
    return low;
}

/* Index of the first event of a process whose merged number is `event` or later. */
static uint64_t index_from(const struct weft_order *o, uint32_t process, uint64_t event) {
    const uint32_t *events = o->in.events[process];
    uint64_t low = 0, high = o->in.event_counts[process];
    if (!events) return event < high ? event : high;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (events[middle] < event) low = middle + 1;
        else high = middle;
    }
    return low;
}

struct walk {
    uint32_t *cut;  /* by process: latest point reached (past), earliest (future) */
    uint32_t *done; /* what of it was walked */
    uint32_t *stack;
    uint8_t *on_stack;
    uint32_t depth;
};

static void reach(struct walk *w, uint32_t process, uint32_t point) {
    if (point <= w->cut[process]) return;
    w->cut[process] = point;
    if (point > w->done[process] && !w->on_stack[process]) {
        w->on_stack[process] = 1;
        w->stack[w->depth++] = process;
    }
}

static void reach_sources(const struct weft_order *o, struct walk *w, uint32_t row) {
    const struct weft_order_input *in = &o->in;
    uint64_t instance = in->coll_instance[row];
    uint8_t kind = in->instance_kind[instance];
    for (uint64_t k = in->instance_first[instance]; k < in->instance_first[instance + 1]; k++) {
        uint32_t other = in->instance_rows[k];
        if (!(in->coll_role[other] & COLL_SOURCE)) continue;
        if (kind != COLL_GENERAL && in->coll_place[other] > in->coll_place[row]) continue;
        if (kind == COLL_EXSCAN && in->coll_place[other] == in->coll_place[row]) continue;
        reach(w, in->coll_process[other], START(in->coll_event[other]));
    }
}

static void walk_back(const struct weft_order *o, struct walk *w, uint32_t process) {
    const struct weft_order_input *in = &o->in;
    const struct process *p = &o->procs[process];
    uint32_t to = w->cut[process], from = w->done[process];
    int64_t k = kept_before(p, to);
    w->done[process] = to;
    if (k >= 0 && END(p->kept[k].event) > from) {
        const uint32_t *known = vector(&o->pool, p->kept[k].version);
        for (uint32_t q = 0; q < in->processes; q++) {
            if (known[q] > w->cut[q]) w->cut[q] = known[q];
            if (known[q] > w->done[q]) w->done[q] = known[q];
        }
        from = END(p->kept[k].event);
    }
    const uint32_t *in_first = o->in_first + in->event_first[in->rank_of[process]];
    for (uint64_t i = index_from(o, process, from / 2); i < in->event_counts[process]; i++) {
        uint32_t event = event_of(o, process, i);
        if (END(event) > to) break;
        if (END(event) <= from) continue;
        for (uint32_t e = in_first[event]; e < in_first[event + 1]; e++) {
            uint32_t edge = o->in_edge[e];
            if (edge >= in->sends + in->generics) reach_sources(o, w, (uint32_t)(edge - in->sends - in->generics));
            else if (edge >= in->sends)
                reach(w, in->generic_process[edge - in->sends], START(in->generic_event[edge - in->sends]));
            else reach(w, in->send_process[edge], START(in->send_event[edge]));
        }
    }
}

static bool walk_open(struct walk *w, uint32_t processes, uint32_t *cut, int fill) {
    w->cut = cut;
    w->done = malloc(processes * sizeof *w->done);
    w->stack = malloc(processes * sizeof *w->stack);
    w->on_stack = calloc(processes, 1);
    w->depth = 0;
    memset(cut, fill, processes * sizeof *cut);
    if (w->done) memset(w->done, fill, processes * sizeof *w->done);
    return w->done && w->stack && w->on_stack;
}

static void walk_close(struct walk *w) {
    free(w->done);
    free(w->stack);
    free(w->on_stack);
}

int weft_order_past(const struct weft_order *o, uint32_t process, uint32_t point, uint32_t *cut) {
    struct walk w;
    bool ready = walk_open(&w, o->in.processes, cut, 0);
    if (ready) reach(&w, process, point);
    while (ready && w.depth) {
        uint32_t p = w.stack[--w.depth];
        w.on_stack[p] = 0;
        if (w.cut[p] > w.done[p]) walk_back(o, &w, p);
    }
    walk_close(&w);
    return ready ? 0 : -1;
}

static void lower(struct walk *w, uint32_t process, uint32_t point) {
    if (point >= w->cut[process]) return;
    w->cut[process] = point;
    if (!w->on_stack[process]) {
        w->on_stack[process] = 1;
        w->stack[w->depth++] = process;
    }
}

static uint32_t process_at(const struct weft_order *o, uint32_t rank, uint32_t event) {
    const int32_t *threads = o->in.thread_of[rank];
    return o->in.first_process[rank] + (threads ? (uint32_t)threads[event] : 0);
}

static void lower_targets(const struct weft_order *o, struct walk *w, uint32_t row) {
    const struct weft_order_input *in = &o->in;
    uint64_t instance = in->coll_instance[row];
    uint8_t kind = in->instance_kind[instance];
    if (kind == COLL_NO_EDGE || !(in->coll_role[row] & COLL_SOURCE)) return;
    for (uint64_t k = in->instance_first[instance]; k < in->instance_first[instance + 1]; k++) {
        uint32_t other = in->instance_rows[k];
        if (!(in->coll_role[other] & COLL_TARGET) || in->coll_completion[other] == NONE) continue;
        if (kind != COLL_GENERAL && in->coll_place[other] < in->coll_place[row]) continue;
        if (kind == COLL_EXSCAN && in->coll_place[other] == in->coll_place[row]) continue;
        lower(w, in->coll_completion_process[other], END(in->coll_completion[other]));
    }
}

/* First row (of rows sorted by event, in [low, high)) whose event is `event` or later. */
static uint64_t row_from(const uint32_t *rows, const uint32_t *events, uint64_t low, uint64_t high, uint32_t event) {
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (events[rows ? rows[middle] : middle] < event) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void walk_on(const struct weft_order *o, struct walk *w, uint32_t process) {
    const struct weft_order_input *in = &o->in;
    uint32_t from = w->cut[process] / 2, to = w->done[process] == NONE ? NONE : w->done[process] / 2;
    w->done[process] = w->cut[process];
    uint64_t end = in->send_of_process[process + 1];
    for (uint64_t i = row_from(in->send_rows, in->send_event, in->send_of_process[process], end, from); i < end; i++) {
        uint32_t row = in->send_rows ? in->send_rows[i] : (uint32_t)i;
        if (in->send_event[row] >= to) break;
        if (in->send_target[row] == NONE) continue;
        uint32_t peer = (uint32_t)in->send_peer[row];
        lower(w, process_at(o, peer, in->send_target[row]), END(in->send_target[row]));
    }
    end = in->generic_of_process[process + 1];
    for (uint64_t i = row_from(NULL, in->generic_event, in->generic_of_process[process], end, from); i < end; i++) {
        if (in->generic_event[i] >= to) break;
        lower(w, in->generic_target_process[i], END(in->generic_target[i]));
    }
    end = in->coll_of_process[process + 1];
    for (uint64_t i = row_from(in->coll_rows, in->coll_event, in->coll_of_process[process], end, from); i < end; i++) {
        uint32_t row = in->coll_rows ? in->coll_rows[i] : (uint32_t)i;
        if (in->coll_event[row] >= to) break;
        lower_targets(o, w, row);
    }
}

int weft_order_future(const struct weft_order *o, const uint32_t *seeds, uint32_t *cut) {
    struct walk w;
    bool ready = walk_open(&w, o->in.processes, cut, 0xff);
    for (uint32_t p = 0; ready && p < o->in.processes; p++) lower(&w, p, seeds[p]);
    while (ready && w.depth) {
        uint32_t p = w.stack[--w.depth];
        w.on_stack[p] = 0;
        if (w.cut[p] < w.done[p]) walk_on(o, &w, p);
    }
    walk_close(&w);
    return ready ? 0 : -1;
}
