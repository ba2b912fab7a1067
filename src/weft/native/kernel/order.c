/* Happens-before by vector time (Fidge 1988, Mattern 1989), over a matched run.
 *
 * A PROCESS is one thread of one rank: only its own calls are ordered by the program. Every event has two POINTS, its
 * start 2e + 1 and its end 2e + 2 (0: nothing); e counts in the rank's merged order. Edges lead from starts to ends, those
 * between threads of a rank also from ends to starts:
 *
 *   message     send posted              -> the call at whose return it was certain that the receive had it
 *   generic     any two points            (probes, synchronous sends, threads), prepared by the caller
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

/* Return the vector time of a version: for each process, its latest point that is known. */
static uint32_t *get_vector(const struct version_pool *pool, uint32_t version) {
    return pool->blocks[version / BLOCK] + (size_t)(version % BLOCK) * pool->width;
}

/* Return a free version (a shared, reference-counted vector time) with one reference; NO_VERSION without memory. */
static uint32_t allocate_version(struct weft_order *order) {
    struct version_pool *pool = &order->pool;
    if (pool->free_count) {
        uint32_t version = pool->free_list[--pool->free_count];
        pool->refs[version] = 1;
        return version;
    }
    if (pool->count == pool->room) {
        uint32_t room = pool->room + BLOCK > pool->room * 2 ? pool->room + BLOCK : pool->room * 2;
        uint32_t **blocks = realloc(pool->blocks, room / BLOCK * sizeof *blocks);
        if (blocks) pool->blocks = blocks;
        uint32_t *refs = realloc(pool->refs, room * sizeof *refs);
        if (refs) pool->refs = refs;
        uint32_t *free_list = realloc(pool->free_list, room * sizeof *free_list);
        if (free_list) pool->free_list = free_list;
        if (!blocks || !refs || !free_list) {
            order->failed = true;
            return NO_VERSION;
        }
        pool->room = room;
    }
    if (pool->count % BLOCK == 0) {
        uint32_t *block = malloc((size_t)BLOCK * pool->width * sizeof *block);
        if (!block) {
            order->failed = true;
            return NO_VERSION;
        }
        pool->blocks[pool->count / BLOCK] = block;
    }
    pool->refs[pool->count] = 1;
    return pool->count++;
}

/* Drop a reference to a version (a shared vector time); without references it is free. */
static void release_version(struct weft_order *order, uint32_t version) {
    if (--order->pool.refs[version] == 0) order->pool.free_list[order->pool.free_count++] = version;
}

/* Raise each element of a vector to that of another one where that is higher. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static void
raise_to_maximum(uint32_t *restrict target, const uint32_t *restrict source, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) target[i] = target[i] > source[i] ? target[i] : source[i];
}

/* Write the higher of each two elements of two vectors. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static void
write_maximum(uint32_t *restrict target, const uint32_t *restrict one, const uint32_t *restrict other, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) target[i] = one[i] > other[i] ? one[i] : other[i];
}

/* Return a process's vector time for writing; it is copied first if others share it. NULL without memory. */
static uint32_t *make_version_own(struct weft_order *order, struct process *process) {
    if (order->pool.refs[process->version] > 1) {
        uint32_t copy = allocate_version(order);
        if (copy == NO_VERSION) return NULL;
        memcpy(get_vector(&order->pool, copy), get_vector(&order->pool, process->version),
               order->pool.width * sizeof(uint32_t));
        release_version(order, process->version);
        process->version = copy;
    }
    process->changed = true;
    return get_vector(&order->pool, process->version);
}

/* Merge another version into a process's vector time, and the fact that it knows `point` of the process `source`. */
static void merge_version(struct weft_order *order, struct process *process, uint32_t version, uint32_t source,
                          uint32_t point) {
    const uint32_t *own_vector = get_vector(&order->pool, process->version);
    if (version == process->version && own_vector[source] >= point) return;
    uint32_t *target;
    if (version != process->version && order->pool.refs[process->version] > 1) { /* copy and merge in one pass */
        uint32_t merged = allocate_version(order);
        if (merged == NO_VERSION) return;
        target = get_vector(&order->pool, merged);
        write_maximum(target, get_vector(&order->pool, process->version), get_vector(&order->pool, version),
                      order->pool.width);
        release_version(order, process->version);
        process->version = merged;
        process->changed = true;
    } else {
        target = make_version_own(order, process);
        if (!target) return;
        if (version != process->version) raise_to_maximum(target, get_vector(&order->pool, version), order->pool.width);
    }
    if (target[source] < point) target[source] = point;
}

/* ---- the sweep ---- */

/* Return the number of a process's event in its rank's merged order. */
static uint32_t get_event_number(const struct weft_order *order, uint32_t process, uint64_t index) {
    const uint32_t *events = order->in.events[process];
    return events ? events[index] : (uint32_t)index;
}

/* Put a process into the work queue, unless it is there or done. */
static void enqueue_process(struct weft_order *order, uint32_t process) {
    struct process *state = &order->procs[process];
    if (state->queued || state->done) return;
    state->queued = true;
    order->queue[(order->queue_head + order->queue_count++) % order->in.processes] = process;
}

/* Attach the process's current vector time to an edge that starts here, and wake the process that waits for it. */
static void attach_time_to_edge(struct weft_order *order, struct process *process, uint64_t edge) {
    if (order->edge_state[edge] == EDGE_USED) return; /* left out before */
    if (order->edge_state[edge] == EDGE_AWAITED) enqueue_process(order, order->edge_version[edge]);
    order->edge_state[edge] = EDGE_PASSED;
    order->edge_version[edge] = process->version;
    order->pool.refs[process->version]++;
}

/* Merge the vector times of all sources of a collective, since all have arrived. */
static void join_sources(struct weft_order *order, uint64_t instance) {
    const struct weft_order_input *input = &order->in;
    uint32_t joined = allocate_version(order), last = NO_VERSION;
    if (joined == NO_VERSION) return;
    uint32_t *target = get_vector(&order->pool, joined);
    memset(target, 0, order->pool.width * sizeof *target);
    for (uint64_t k = input->instance_first[instance]; k < input->instance_first[instance + 1]; k++) {
        uint32_t row = input->instance_rows[k];
        uint64_t edge = input->sends + input->generics + row;
        if (!(input->coll_role[row] & COLL_SOURCE) || order->edge_state[edge] != EDGE_PASSED) continue;
        if (order->edge_version[edge] != last)
            raise_to_maximum(target, get_vector(&order->pool, order->edge_version[edge]), order->pool.width);
        last = order->edge_version[edge];
    }
    for (uint64_t k = input->instance_first[instance]; k < input->instance_first[instance + 1]; k++) {
        uint32_t row = input->instance_rows[k], process = input->coll_process[row];
        uint64_t edge = input->sends + input->generics + row;
        if (!(input->coll_role[row] & COLL_SOURCE) || order->edge_state[edge] != EDGE_PASSED) continue;
        uint32_t point = START(input->coll_event[row]);
        if (target[process] < point) target[process] = point;
        release_version(order, order->edge_version[edge]);
        order->edge_state[edge] = EDGE_USED;
    }
    order->insts[instance].joined = joined;
}

/* Let a process enter a collective; once all sources are there, wake the processes that wait to leave it. */
static void arrive_at_collective(struct weft_order *order, struct process *process, uint32_t row) {
    const struct weft_order_input *input = &order->in;
    uint64_t instance = input->coll_instance[row];
    if (input->instance_kind[instance] == COLL_NO_EDGE || !(input->coll_role[row] & COLL_SOURCE)) return;
    struct instance *inst = &order->insts[instance];
    attach_time_to_edge(order, process, input->sends + input->generics + row);
    inst->sources_left--;
    if (input->instance_kind[instance] == COLL_GENERAL && inst->sources_left) return;
    if (input->instance_kind[instance] == COLL_GENERAL && inst->targets_left) join_sources(order, instance);
    for (uint32_t waiter = inst->waiters; waiter != NONE;) {
        uint32_t next = order->procs[waiter].next_waiter;
        enqueue_process(order, waiter);
        waiter = next;
    }
    inst->waiters = NONE;
}

/* Return the latest point of a message's receiver that the sender knows when it sends; NONE if the receiving rank has
 * several threads. */
static uint32_t find_known_receiver_point(const struct weft_order *order, uint32_t process, uint32_t row) {
    int32_t peer = order->in.send_peer[row];
    uint32_t receiver = peer < 0 ? NONE : order->in.process_of_rank[peer];
    if (receiver == NONE) return NONE;
    if (receiver == process) return START(order->in.send_event[row]);
    return get_vector(&order->pool, order->procs[process].version)[receiver];
}

/* Give the process's vector time to the generic edges that lead from one of its points. */
static void attach_time_to_generic_edges(struct weft_order *order, uint32_t process, uint32_t point) {
    const struct weft_order_input *input = &order->in;
    struct process *state = &order->procs[process];
    for (; state->generic < input->generic_of_process[process + 1] && input->generic_point[state->generic] == point;
         state->generic++)
        attach_time_to_edge(order, state, input->sends + state->generic);
}

/* Process the start of an event: all edges from it, of sends, generic edges and collectives, get the process's vector
 * time. */
static void process_event_start(struct weft_order *order, uint32_t process, uint32_t event) {
    const struct weft_order_input *input = &order->in;
    struct process *state = &order->procs[process];
    for (; state->send < input->send_of_process[process + 1]; state->send++) {
        uint32_t row = input->send_rows ? input->send_rows[state->send] : (uint32_t)state->send;
        if (input->send_event[row] != event) break;
        if (input->send_target[row] != NONE) attach_time_to_edge(order, state, row);
        if (input->send_known) input->send_known[row] = find_known_receiver_point(order, process, row);
    }
    attach_time_to_generic_edges(order, process, START(event));
    for (; state->coll < input->coll_of_process[process + 1]; state->coll++) {
        uint32_t row = input->coll_rows ? input->coll_rows[state->coll] : (uint32_t)state->coll;
        if (input->coll_event[row] != event) break;
        arrive_at_collective(order, state, row);
    }
}

/* Visit the members of a scan that must precede one of its rows: `is_merge` false: return whether all have arrived;
 * true: merge their vector times. */
static bool merge_scan_sources(const struct weft_order *order, uint32_t row, bool is_inclusive, bool is_merge,
                               struct process *process) {
    const struct weft_order_input *input = &order->in;
    uint64_t instance = input->coll_instance[row];
    for (uint64_t k = input->instance_first[instance]; k < input->instance_first[instance + 1]; k++) {
        uint32_t other = input->instance_rows[k];
        uint64_t edge = input->sends + input->generics + other;
        if (input->coll_place[other] > input->coll_place[row] || !(input->coll_role[other] & COLL_SOURCE)) continue;
        if (!is_inclusive && input->coll_place[other] == input->coll_place[row]) continue;
        if (!is_merge && order->edge_state[edge] == EDGE_AHEAD) return false;
        if (is_merge && order->edge_state[edge] == EDGE_PASSED)
            merge_version((struct weft_order *)order, process, order->edge_version[edge], input->coll_process[other],
                          START(input->coll_event[other]));
    }
    return true;
}

/* Let a process leave a collective with what its sources know. Return false if it must wait for them. */
static bool leave_collective(struct weft_order *order, uint32_t process, uint32_t row, bool is_forced) {
    const struct weft_order_input *input = &order->in;
    uint64_t instance = input->coll_instance[row];
    struct process *state = &order->procs[process];
    struct instance *inst = &order->insts[instance];
    bool is_scan = input->instance_kind[instance] != COLL_GENERAL;
    bool is_inclusive = input->instance_kind[instance] == COLL_SCAN;
    if (!is_forced &&
        (is_scan ? !merge_scan_sources(order, row, is_inclusive, false, state) : inst->sources_left > 0)) {
        state->next_waiter = inst->waiters;
        inst->waiters = process;
        return false;
    }
    inst->targets_left--;
    if (is_scan) {
        merge_scan_sources(order, row, is_inclusive, true, state);
        return true;
    }
    if (inst->joined == NO_VERSION && inst->sources_left == 0) return true; /* no sources at all */
    if (inst->joined == NO_VERSION) {
        order->forced++;
        return true;
    }
    if (input->coll_completion[row] == input->coll_event[row] && input->coll_role[row] & COLL_SOURCE &&
        !state->changed) {
        release_version(order, state->version); /* blocking: the joint vector holds all that the process knew */
        state->version = inst->joined;
        order->pool.refs[inst->joined]++;
        state->changed = true;
    } else {
        merge_version(order, state, inst->joined, input->coll_process[row], START(input->coll_event[row]));
    }
    if (inst->targets_left == 0) release_version(order, inst->joined);
    return true;
}

/* Merge what an edge into the current event carries. Return false if its source has not been reached yet; `is_forced`:
 * drop the edge instead. */
static bool merge_time_of_edge(struct weft_order *order, uint32_t process, uint32_t edge, bool is_forced) {
    const struct weft_order_input *input = &order->in;
    struct process *state = &order->procs[process];
    if (edge >= input->sends + input->generics)
        return leave_collective(order, process, (uint32_t)(edge - input->sends - input->generics), is_forced);
    if (order->edge_state[edge] == EDGE_PASSED) {
        bool is_generic = edge >= input->sends;
        uint32_t source = is_generic ? input->generic_process[edge - input->sends] : input->send_process[edge];
        uint32_t point = is_generic ? input->generic_point[edge - input->sends] : START(input->send_event[edge]);
        merge_version(order, state, order->edge_version[edge], source, point);
        release_version(order, order->edge_version[edge]);
        order->edge_state[edge] = EDGE_USED;
        return true;
    }
    if (is_forced) {
        order->edge_state[edge] = EDGE_USED;
        order->forced++;
        return true;
    }
    order->edge_state[edge] = EDGE_AWAITED;
    order->edge_version[edge] = process;
    return false;
}

/* Keep a process's vector time after an event, for later queries. Return false without memory. */
static bool save_version_after_event(struct weft_order *order, struct process *process, uint32_t event) {
    if (process->kept_count == process->kept_room) {
        uint32_t room = process->kept_room ? process->kept_room * 2 : 16;
        struct kept *grown = realloc(process->kept, room * sizeof *grown);
        if (!grown) return false;
        process->kept = grown;
        process->kept_room = room;
    }
    process->kept[process->kept_count++] = (struct kept){event, process->version};
    order->pool.refs[process->version]++;
    return true;
}

/* Return whether an edge leads to the start of its event: those are in front of the others. */
static bool leads_to_start(const struct weft_order_input *input, uint32_t edge) {
    return edge >= input->sends && edge < input->sends + input->generics &&
           input->generic_target_point[edge - input->sends] % 2;
}

/* Start the event that a process has come to. */
static void begin_event(struct weft_order *order, uint32_t process, uint32_t event) {
    process_event_start(order, process, event);
    order->procs[process].inside = true;
}

/* Advance a process until it must wait for an edge, its time slice ends, or it is done. `is_forced`: drop the first
 * missing edge. */
static void run_process(struct weft_order *order, uint32_t process, bool is_forced) {
    const struct weft_order_input *input = &order->in;
    struct process *state = &order->procs[process];
    const uint32_t *in_first = order->in_first + input->event_first[input->rank_of[process]];
    for (uint64_t turn = 0; turn < QUANTUM && state->at < input->event_counts[process] && !order->failed; turn++) {
        uint32_t event = get_event_number(order, process, state->at);
        if (state->next_in < in_first[event]) state->next_in = in_first[event];
        for (; state->next_in < in_first[event + 1]; state->next_in++) {
            uint32_t edge = order->in_edge[state->next_in];
            if (!state->inside && !leads_to_start(input, edge)) begin_event(order, process, event);
            if (!merge_time_of_edge(order, process, edge, is_forced)) return;
            is_forced = false;
        }
        if (!state->inside) begin_event(order, process, event);
        attach_time_to_generic_edges(order, process, END(event));
        if (state->changed && ++state->since_kept >= input->stride) {
            state->since_kept = 0;
            if (!save_version_after_event(order, state, event)) order->failed = true;
        }
        state->inside = state->changed = false;
        state->at++;
    }
    if (state->at < input->event_counts[process]) enqueue_process(order, process);
    else state->done = true;
}

/* Advance all processes to their ends. If some wait forever, which only a contradictory record can cause, drop an edge
 * and go on. */
static void run_all_processes(struct weft_order *order) {
    for (uint32_t process = 0; process < order->in.processes; process++) enqueue_process(order, process);
    uint32_t stuck = 0;
    while (!order->failed) {
        while (order->queue_count && !order->failed) {
            uint32_t process = order->queue[order->queue_head];
            order->queue_head = (order->queue_head + 1) % order->in.processes;
            order->queue_count--;
            order->procs[process].queued = false;
            run_process(order, process, false);
        }
        /* Only a record that contradicts itself leaves processes waiting: leave an edge out and go on. */
        while (stuck < order->in.processes && order->procs[stuck].done) stuck++;
        if (stuck == order->in.processes) return;
        uint32_t chosen = stuck;
        for (uint32_t process = stuck; process < order->in.processes; process++)
            if (!order->procs[process].done && order->procs[process].at < order->procs[chosen].at) chosen = process;
        for (uint64_t i = 0; i < order->in.instances; i++) { /* it waits no more */
            uint32_t *w = &order->insts[i].waiters;
            while (*w != NONE && *w != chosen) w = &order->procs[*w].next_waiter;
            if (*w == chosen) *w = order->procs[chosen].next_waiter;
        }
        run_process(order, chosen, true);
    }
}

/* ---- building ---- */

/* Group all edges by the event at which they end. Return false without memory. */
static bool group_edges(struct weft_order *order) {
    const struct weft_order_input *input = &order->in;
    uint32_t ranks = 0;
    for (uint32_t process = 0; process < input->processes; process++)
        if (input->rank_of[process] + 1 > ranks) ranks = input->rank_of[process] + 1;
    uint64_t total = input->event_first[ranks], edges = 0;
    uint32_t *first = order->in_first = calloc(total + 2, sizeof *first);
    if (!first) return false;
#define EACH_GENERIC_EDGE(DO, to_start)                                                                                \
    for (uint64_t g = 0; g < input->generics; g++)                                                                     \
        if (input->generic_target_point[g] % 2 == (to_start))                                                          \
            DO(input->event_first[input->rank_of[input->generic_target_process[g]]] +                                  \
                   (input->generic_target_point[g] - 1) / 2,                                                           \
               input->sends + g);
#define EACH_EDGE(DO)                                                                                                  \
    EACH_GENERIC_EDGE(DO, 1)                                                                                           \
    for (uint64_t s = 0; s < input->sends; s++)                                                                        \
        if (input->send_target[s] != NONE) DO(input->event_first[input->send_peer[s]] + input->send_target[s], s);     \
    EACH_GENERIC_EDGE(DO, 0)                                                                                           \
    for (uint64_t c = 0; c < input->colls; c++)                                                                        \
        if (input->coll_role[c] & COLL_TARGET && input->coll_completion[c] != NONE &&                                  \
            input->instance_kind[input->coll_instance[c]] != COLL_NO_EDGE)                                             \
            DO(input->event_first[input->rank_of[input->coll_completion_process[c]]] + input->coll_completion[c],      \
               input->sends + input->generics + c);
#define COUNT(at, edge) (first[(at) + 2]++, edges++)
    EACH_EDGE(COUNT)
    if (edges >= NONE) return false;
    order->in_edge = malloc((edges + 1) * sizeof *order->in_edge);
    if (!order->in_edge) return false;
    for (uint64_t i = 2; i < total + 2; i++) first[i] += first[i - 1];
#define PLACE(at, edge) (order->in_edge[first[(at) + 1]++] = (uint32_t)(edge))
    EACH_EDGE(PLACE)
    return true;
}

/* Count how many sources and targets each collective has. */
static void count_instances(struct weft_order *order) {
    const struct weft_order_input *input = &order->in;
    for (uint64_t instance = 0; instance < input->instances; instance++)
        order->insts[instance] = (struct instance){0, 0, NO_VERSION, NONE};
    for (uint64_t row = 0; row < input->colls; row++) {
        struct instance *inst = &order->insts[input->coll_instance[row]];
        inst->sources_left += input->coll_role[row] & COLL_SOURCE ? 1 : 0;
        inst->targets_left += input->coll_role[row] & COLL_TARGET && input->coll_completion[row] != NONE ? 1 : 0;
    }
}

/* Free what weft_order_make() returned; NULL is allowed. */
void weft_order_free(struct weft_order *order) {
    if (!order) return;
    for (uint32_t block = 0; block * BLOCK < order->pool.count; block++) free(order->pool.blocks[block]);
    free(order->pool.blocks);
    free(order->pool.refs);
    free(order->pool.free_list);
    for (uint32_t process = 0; order->procs && process < order->in.processes; process++)
        free(order->procs[process].kept);
    free(order->procs);
    free(order->insts);
    free(order->edge_version);
    free(order->edge_state);
    free(order->in_first);
    free(order->in_edge);
    free(order->queue);
    free(order);
}

/* Allocate and initialise the state for computing vector times. Return false without memory. */
static bool prepare_order(struct weft_order *order) {
    const struct weft_order_input *input = &order->in;
    uint64_t edges = input->sends + input->generics + input->colls;
    order->pool.width = input->processes;
    order->procs = calloc(input->processes + 1, sizeof *order->procs);
    order->insts = malloc((input->instances + 1) * sizeof *order->insts);
    order->edge_version = malloc((edges + 1) * sizeof *order->edge_version);
    order->edge_state = calloc(edges + 1, 1);
    order->queue = malloc((input->processes + 1) * sizeof *order->queue);
    if (!order->procs || !order->insts || !order->edge_version || !order->edge_state || !order->queue ||
        !group_edges(order))
        return false;
    count_instances(order);
    uint32_t nothing = allocate_version(order);
    if (nothing == NO_VERSION) return false;
    memset(get_vector(&order->pool, nothing), 0, input->processes * sizeof(uint32_t));
    for (uint32_t process = 0; process < input->processes; process++) {
        order->procs[process].version = nothing;
        order->procs[process].send = input->send_of_process[process];
        order->procs[process].generic = input->generic_of_process[process];
        order->procs[process].coll = input->coll_of_process[process];
        order->pool.refs[nothing]++;
    }
    return true;
}

/* Compute the happens-before order of a matched run by vector times; `*forced` gets the number of edges that had to be
 * dropped. NULL without memory. */
struct weft_order *weft_order_make(const struct weft_order_input *input, uint64_t *forced) {
    struct weft_order *order = calloc(1, sizeof *order);
    if (!order) return NULL;
    order->in = *input;
    if (prepare_order(order)) run_all_processes(order);
    else order->failed = true;
    if (order->failed) {
        weft_order_free(order);
        return NULL;
    }
    *forced = order->forced;
    return order;
}

/* ---- questions ---- */

/* Return the index of a process's latest kept vector time at or before a point; -1 if there is none. */
static int64_t find_kept_index(const struct process *process, uint32_t point) {
    int64_t low = -1, high = process->kept_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (END(process->kept[middle].event) <= point) low = middle;
        else high = middle;
    }
    return low;
}

/* Return the index of a process's first event whose number in the rank's merged order is at least `event`. */
static uint64_t find_event_index(const struct weft_order *order, uint32_t process, uint64_t event) {
    const uint32_t *events = order->in.events[process];
    uint64_t low = 0, high = order->in.event_counts[process];
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

/* Raise the cut (the latest reached point of each process) to a point; if that is new, push the process to be
 * walked. */
static void raise_cut_to_point(struct walk *walk, uint32_t process, uint32_t point) {
    if (point <= walk->cut[process]) return;
    walk->cut[process] = point;
    if (point > walk->done[process] && !walk->on_stack[process]) {
        walk->on_stack[process] = 1;
        walk->stack[walk->depth++] = process;
    }
}

/* For a collective that a reached process has left: raise the cut to the starts of its sources. */
static void raise_cut_to_sources(const struct weft_order *order, struct walk *walk, uint32_t row) {
    const struct weft_order_input *input = &order->in;
    uint64_t instance = input->coll_instance[row];
    uint8_t kind = input->instance_kind[instance];
    for (uint64_t k = input->instance_first[instance]; k < input->instance_first[instance + 1]; k++) {
        uint32_t other = input->instance_rows[k];
        if (!(input->coll_role[other] & COLL_SOURCE)) continue;
        if (kind != COLL_GENERAL && input->coll_place[other] > input->coll_place[row]) continue;
        if (kind == COLL_EXSCAN && input->coll_place[other] == input->coll_place[row]) continue;
        raise_cut_to_point(walk, input->coll_process[other], START(input->coll_event[other]));
    }
}

/* Raise the cut to everything that the newly reached part of a process knows, from a kept vector time and the edges
 * after it. */
static void walk_back_process(const struct weft_order *order, struct walk *walk, uint32_t process) {
    const struct weft_order_input *input = &order->in;
    const struct process *state = &order->procs[process];
    uint32_t end_point = walk->cut[process], start_point = walk->done[process];
    int64_t kept_index = find_kept_index(state, end_point);
    walk->done[process] = end_point;
    if (kept_index >= 0 && END(state->kept[kept_index].event) > start_point) {
        const uint32_t *known = get_vector(&order->pool, state->kept[kept_index].version);
        for (uint32_t other = 0; other < input->processes; other++) {
            if (known[other] > walk->cut[other]) walk->cut[other] = known[other];
            if (known[other] > walk->done[other]) walk->done[other] = known[other];
        }
        start_point = END(state->kept[kept_index].event);
    }
    const uint32_t *in_first = order->in_first + input->event_first[input->rank_of[process]];
    for (uint64_t i = find_event_index(order, process, start_point / 2); i < input->event_counts[process]; i++) {
        uint32_t event = get_event_number(order, process, i);
        if (START(event) > end_point) break;
        for (uint32_t in_index = in_first[event]; in_index < in_first[event + 1]; in_index++) {
            uint32_t edge = order->in_edge[in_index];
            uint32_t target_point = leads_to_start(input, edge) ? START(event) : END(event);
            if (target_point <= start_point || target_point > end_point) continue;
            if (edge >= input->sends + input->generics)
                raise_cut_to_sources(order, walk, (uint32_t)(edge - input->sends - input->generics));
            else if (edge >= input->sends)
                raise_cut_to_point(walk, input->generic_process[edge - input->sends],
                                   input->generic_point[edge - input->sends]);
            else raise_cut_to_point(walk, input->send_process[edge], START(input->send_event[edge]));
        }
    }
}

/* Allocate a walk over the processes and fill its cut with a byte. Return false without memory. */
static bool allocate_walk(struct walk *walk, uint32_t processes, uint32_t *cut, int fill_byte) {
    walk->cut = cut;
    walk->done = malloc(processes * sizeof *walk->done);
    walk->stack = malloc(processes * sizeof *walk->stack);
    walk->on_stack = calloc(processes, 1);
    walk->depth = 0;
    memset(cut, fill_byte, processes * sizeof *cut);
    if (walk->done) memset(walk->done, fill_byte, processes * sizeof *walk->done);
    return walk->done && walk->stack && walk->on_stack;
}

/* Free the memory of a walk. */
static void free_walk(struct walk *walk) {
    free(walk->done);
    free(walk->stack);
    free(walk->on_stack);
}

/* Compute the causal past of a point: for each process, the latest point that happens before it. Return 0, or -1
 * without memory. */
int weft_find_causal_past(const struct weft_order *order, uint32_t process, uint32_t point, uint32_t *cut) {
    struct walk walk;
    bool ready = allocate_walk(&walk, order->in.processes, cut, 0);
    if (ready) raise_cut_to_point(&walk, process, point);
    while (ready && walk.depth) {
        uint32_t next = walk.stack[--walk.depth];
        walk.on_stack[next] = 0;
        if (walk.cut[next] > walk.done[next]) walk_back_process(order, &walk, next);
    }
    free_walk(&walk);
    return ready ? 0 : -1;
}

/* Lower the cut (the earliest reached point of each process) to a point; if that is new, push the process to be
 * walked. */
static void lower_cut_to_point(struct walk *walk, uint32_t process, uint32_t point) {
    if (point >= walk->cut[process]) return;
    walk->cut[process] = point;
    if (!walk->on_stack[process]) {
        walk->on_stack[process] = 1;
        walk->stack[walk->depth++] = process;
    }
}

static uint32_t find_process(const struct weft_order *order, uint32_t rank, uint32_t event) {
    const int32_t *threads = order->in.thread_of[rank];
    return order->in.first_process[rank] + (threads ? (uint32_t)threads[event] : 0);
}

/* For a collective that a reached process has entered: lower the cut to the ends of its targets. */
static void lower_cut_to_targets(const struct weft_order *order, struct walk *walk, uint32_t row) {
    const struct weft_order_input *input = &order->in;
    uint64_t instance = input->coll_instance[row];
    uint8_t kind = input->instance_kind[instance];
    if (kind == COLL_NO_EDGE || !(input->coll_role[row] & COLL_SOURCE)) return;
    for (uint64_t k = input->instance_first[instance]; k < input->instance_first[instance + 1]; k++) {
        uint32_t other = input->instance_rows[k];
        if (!(input->coll_role[other] & COLL_TARGET) || input->coll_completion[other] == NONE) continue;
        if (kind != COLL_GENERAL && input->coll_place[other] < input->coll_place[row]) continue;
        if (kind == COLL_EXSCAN && input->coll_place[other] == input->coll_place[row]) continue;
        lower_cut_to_point(walk, input->coll_completion_process[other], END(input->coll_completion[other]));
    }
}

/* Return the first row in [low, high) whose event is at least `event`; the rows are sorted by event. */
static uint64_t find_first_row(const uint32_t *rows, const uint32_t *events, uint64_t low, uint64_t high,
                               uint32_t event) {
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (events[rows ? rows[middle] : middle] < event) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Lower the cut to everything that the newly reached part of a process leads to by its sends, generic edges and
 * collectives. */
static void walk_on_process(const struct weft_order *order, struct walk *walk, uint32_t process) {
    const struct weft_order_input *input = &order->in;
    uint32_t first_point = walk->cut[process], end_point = walk->done[process];
    uint32_t first_event = first_point / 2, end_event = end_point == NONE ? NONE : end_point / 2;
    walk->done[process] = walk->cut[process];
    uint64_t end = input->send_of_process[process + 1];
    for (uint64_t i =
             find_first_row(input->send_rows, input->send_event, input->send_of_process[process], end, first_event);
         i < end; i++) {
        uint32_t row = input->send_rows ? input->send_rows[i] : (uint32_t)i;
        if (input->send_event[row] >= end_event) break;
        if (input->send_target[row] == NONE) continue;
        uint32_t peer = (uint32_t)input->send_peer[row];
        lower_cut_to_point(walk, find_process(order, peer, input->send_target[row]), END(input->send_target[row]));
    }
    end = input->generic_of_process[process + 1];
    for (uint64_t i = find_first_row(NULL, input->generic_point, input->generic_of_process[process], end, first_point);
         i < end; i++) {
        if (input->generic_point[i] >= end_point) break;
        lower_cut_to_point(walk, input->generic_target_process[i], input->generic_target_point[i]);
    }
    end = input->coll_of_process[process + 1];
    for (uint64_t i =
             find_first_row(input->coll_rows, input->coll_event, input->coll_of_process[process], end, first_event);
         i < end; i++) {
        uint32_t row = input->coll_rows ? input->coll_rows[i] : (uint32_t)i;
        if (input->coll_event[row] >= end_event) break;
        lower_cut_to_targets(order, walk, row);
    }
}

/* Compute the causal future of several points (`seeds`): for each process, the earliest point that happens after one.
 * Return 0, or -1 without memory. */
int weft_find_causal_future(const struct weft_order *order, const uint32_t *seeds, uint32_t *cut) {
    struct walk walk;
    bool ready = allocate_walk(&walk, order->in.processes, cut, 0xff);
    for (uint32_t process = 0; ready && process < order->in.processes; process++)
        lower_cut_to_point(&walk, process, seeds[process]);
    while (ready && walk.depth) {
        uint32_t process = walk.stack[--walk.depth];
        walk.on_stack[process] = 0;
        if (walk.cut[process] < walk.done[process]) walk_on_process(order, &walk, process);
    }
    free_walk(&walk);
    return ready ? 0 : -1;
}
