/* Extraction: the events of one rank become its sends, receives, probes and collective calls.
 *
 * One pass in program order. Requests, messages, windows and files are followed by their object ids, which are
 * handed out one by one and never again: part of a long run has those of a small range, and perhaps some old ones, so
 * each class is an array in pages. Nothing in a record is believed: ids, offsets and lengths are held against what
 * is there, and a damaged tail ends the reading of that one event.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "extract.h"
#include "ops.h"
#include "tails.h"

#define MAX_ID (1u << 28) /* an id beyond is damage: no run makes 268 million objects of a class on one rank */

struct request {
    uint32_t init; /* event that made a persistent request */
    uint32_t send, recv, coll;
};

struct page {
    struct page *next; /* of those to spare */
    _Alignas(16) char rows[];
};

struct table {
    struct page **pages; /* NULL where no id was made */
    uint32_t count;
    struct page *spare;
};

struct weft_ops {
    const struct weft_extract_input *in;
    struct weft_post *sends, *recvs, *probes;
    struct weft_coll *colls;
    uint64_t send_count, send_room, recv_count, recv_room, probe_count, probe_room, coll_count, coll_room;
    struct table requests; /* of struct request */
    struct table messages, windows, files; /* of uint32_t: index of a receive or a collective */
    uint32_t *comm_calls;  /* collectives so far, by local communicator */
    uint32_t *coll_calls; /* calls so far on a window, file or persistent operation, by the collective that made it */
    uint64_t coll_calls_room;
    bool failed; /* out of memory */
};

/* ---- growing ---- */

#define HUGE_PAGE (2u << 20)

/* Ask the kernel for huge pages, because page faults took half of the time of a large extraction. */
static void prefer_huge_pages(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    if (bytes < 4 * HUGE_PAGE) return;
    uintptr_t start = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    madvise((void *)start, (uintptr_t)memory + bytes - start, MADV_HUGEPAGE);
#endif
}

/* Make room for row `count` in an array that doubles its capacity. Return false and mark `ops` as failed without
 * memory. */
static bool make_room(struct weft_ops *ops, void **rows, uint64_t *capacity, uint64_t count, size_t row_size) {
    if (count < *capacity) return true;
    uint64_t wanted = *capacity ? *capacity * 2 : 1024;
    void *grown = realloc(*rows, wanted * row_size);
    if (!grown) {
        ops->failed = true;
        return false;
    }
    *rows = grown;
    *capacity = wanted;
    prefer_huge_pages(grown, wanted * row_size);
    return true;
}

#define PAGE_ROWS 4096u

/* Add a page of rows, all bytes 0xff, to a table at an index and return it; NULL without memory. */
static struct page *add_page(struct table *table, uint32_t page_index, size_t row_size) {
    if (page_index >= table->count) {
        uint32_t wanted = table->count ? table->count : 16;
        while (wanted <= page_index) wanted *= 2;
        struct page **grown = realloc(table->pages, wanted * sizeof *grown);
        if (!grown) return NULL;
        memset(grown + table->count, 0, (wanted - table->count) * sizeof *grown);
        table->pages = grown;
        table->count = wanted;
    }
    struct page *page = table->spare;
    if (page) table->spare = page->next;
    else if (!(page = malloc(sizeof *page + PAGE_ROWS * row_size))) return NULL;
    memset(page->rows, 0xff, PAGE_ROWS * row_size);
    return table->pages[page_index] = page;
}

/* Return the row of an object id in a paged table; a new row has all bytes 0xff. NULL for an impossible id or without
 * memory. */
static inline void *find_or_make_row(struct weft_ops *ops, struct table *table, uint64_t id, size_t row_size) {
    if (id < WEFT_ID_DYNAMIC || id >= MAX_ID) return NULL;
    uint32_t index = (uint32_t)id - WEFT_ID_DYNAMIC, page_index = index / PAGE_ROWS;
    struct page *page = page_index < table->count ? table->pages[page_index] : NULL;
    if (!page && !(page = add_page(table, page_index, row_size))) {
        ops->failed = true;
        return NULL;
    }
    return page->rows + (size_t)(index % PAGE_ROWS) * row_size;
}

/* Return the row of an object id in a paged table; NULL if its page was never created. */
static inline void *find_row(struct table *table, uint64_t id, size_t row_size) {
    uint64_t index = id - WEFT_ID_DYNAMIC;
    if (id < WEFT_ID_DYNAMIC || index / PAGE_ROWS >= table->count || !table->pages[index / PAGE_ROWS]) return NULL;
    return table->pages[index / PAGE_ROWS]->rows + (size_t)(index % PAGE_ROWS) * row_size;
}

/* Remove all rows from a paged table but keep its pages for reuse. */
static void empty_table(struct table *table) {
    for (uint32_t page_index = 0; page_index < table->count; page_index++) {
        struct page *page = table->pages[page_index];
        if (!page) continue;
        page->next = table->spare;
        table->spare = page;
        table->pages[page_index] = NULL;
    }
}

/* Free a paged table with all its pages. */
static void free_table(struct table *table) {
    empty_table(table);
    while (table->spare) {
        struct page *page = table->spare;
        table->spare = page->next;
        free(page);
    }
    free(table->pages);
}

static struct request *find_request(struct weft_ops *ops, uint64_t id) {
    return find_row(&ops->requests, id, sizeof(struct request));
}

/* Return an event's ticket, which orders the calls of all threads of a process; for a successful probe the ticket of
 * the moment it found its message. NONE if the process has one thread, without a ticket, or if the data is damaged. */
static uint32_t read_ticket(const struct weft_extract_input *input, uint64_t event_index) {
    const struct weft_event *event = &input->events[event_index];
    if (!input->threads || !(event->flags & WEFT_FLAG_TICKET) || !(event->flags & WEFT_FLAG_HAS_TAIL)) return NONE;
    uint64_t tail_start = (uint64_t)event->result * WEFT_TAIL_ALIGN,
             tail_bytes = input->tail_bytes[input->threads[event_index]];
    if (tail_start > tail_bytes) return NONE;
    struct cursor cursor = {input->tails[input->threads[event_index]] + tail_start,
                            input->tails[input->threads[event_index]] + tail_bytes, false};
    uint64_t ticket = read_unsigned(&cursor);
    uint8_t operation = find_spec(input, event).op;
    if ((operation == WEFT_OP_PROBE || operation == WEFT_OP_MPROBE) && event->flags & WEFT_FLAG_CLOSED &&
        !event->error) {
        read_unsigned(&cursor); /* bytes; then when it found its message */
        ticket = read_unsigned(&cursor);
    }
    return cursor.bad ? NONE : (uint32_t)ticket;
}

/* Return the MPI status that an event holds in its fixed-size slot. */
static struct status make_slot_status(const struct weft_event *event) {
    struct status status = {
        .set = true, .cancelled = event->flags & WEFT_FLAG_CANCELLED, .source = event->peer, .tag = event->tag};
    return status;
}

/* ---- posts ---- */

/* Return a rank's communicator by its local id; NULL if the id is unknown. */
static const struct weft_local_comm *find_comm(const struct weft_extract_input *input, uint32_t id) {
    if (id >= input->comm_count || input->comms[id].index < 0) return NULL;
    return &input->comms[id];
}

static int32_t find_peer_rank(const struct weft_extract_input *input, const struct weft_local_comm *comm,
                              int32_t peer) {
    return peer >= 0 && peer < comm->peer_count ? input->peers[comm->first_peer + peer] : -1;
}

/* Return whether MPI rejected a call, so that it posted nothing: error classes 1 to 6 (buffer, count, type, tag,
 * communicator, rank) are rejections in every implementation. */
static bool is_refused(const struct weft_event *event) { return event->error >= 1 && event->error <= 6; }

/* Return the operation flags (WEFT_POST_…) that follow from a function's specification. */
static uint16_t make_post_flags(struct weft_spec spec) {
    return (spec.flags & WEFT_SPEC_SYNCHRONOUS ? WEFT_POST_SYNCHRONOUS : 0) |
           (spec.flags & WEFT_SPEC_BUFFERED ? WEFT_POST_BUFFERED : 0) |
           (spec.flags & WEFT_SPEC_READY ? WEFT_POST_READY : 0) |
           (spec.flags & WEFT_SPEC_PARTITIONED ? WEFT_POST_PARTITIONED : 0) |
           (spec.flags & WEFT_SPEC_NONBLOCKING ? WEFT_POST_NONBLOCKING : 0);
}

/* Add the send that a call posts, with the arguments of event `args_event` (of MPI_Send_init for a persistent one).
 * Return its index, or NONE if nothing was posted. */
static uint32_t add_send(struct weft_ops *ops, uint64_t event_index, uint64_t args_event, struct weft_spec spec,
                         uint16_t more_flags) {
    const struct weft_event *arguments = &ops->in->events[args_event];
    const struct weft_local_comm *comm = find_comm(ops->in, arguments->comm);
    if (!comm || arguments->peer < 0 || arguments->peer >= comm->peer_count || arguments->tag < 0 ||
        is_refused(&ops->in->events[event_index]))
        return NONE;
    if (!make_room(ops, (void **)&ops->sends, &ops->send_room, ops->send_count, sizeof *ops->sends)) return NONE;
    struct weft_post *send = &ops->sends[ops->send_count];
    bool is_complete = !(spec.flags & WEFT_SPEC_NONBLOCKING) && ops->in->events[event_index].flags & WEFT_FLAG_CLOSED;
    *send = (struct weft_post){
        .event = (uint32_t)event_index,
        .args = (uint32_t)args_event,
        .completion = is_complete ? (uint32_t)event_index : NONE,
        .decided = NONE,
        .comm = comm->index,
        .peer = find_peer_rank(ops->in, comm, arguments->peer),
        .tag = arguments->tag,
        .ticket = read_ticket(ops->in, event_index),
        .flags = make_post_flags(spec) | more_flags,
    };
    return (uint32_t)ops->send_count++;
}

/* Replace MPI_ANY_SOURCE and MPI_ANY_TAG of a receive or probe by the values in its status, if that holds them. */
static void resolve_wildcards(struct weft_ops *ops, struct weft_post *receive, struct status status) {
    const struct weft_event *arguments = &ops->in->events[receive->event];
    if (receive->flags & WEFT_POST_PERSISTENT) arguments = &ops->in->events[receive->args];
    const struct weft_local_comm *comm = find_comm(ops->in, arguments->comm);
    if (!(receive->flags & WEFT_POST_UNDECIDED) || !status.set || !comm) return;
    if (receive->flags & WEFT_POST_ANY_SOURCE) {
        if (status.source < 0 || status.source >= comm->peer_count) return;
        receive->peer = find_peer_rank(ops->in, comm, status.source);
    }
    if (receive->flags & WEFT_POST_ANY_TAG) {
        if (status.tag < 0) return;
        receive->tag = status.tag;
    }
    receive->flags &= ~WEFT_POST_UNDECIDED;
}

struct pattern {
    int32_t source, tag;
};

/* Return the source and tag that a call asked for: the wildcard, even where the slot already holds the actual value. */
static struct pattern make_slot_pattern(const struct weft_event *event) {
    struct pattern pattern = {event->peer, event->tag};
    if (event->flags & WEFT_FLAG_ANY_SOURCE) pattern.source = WEFT_RANK_ANY_SOURCE;
    if (event->flags & WEFT_FLAG_ANY_TAG) pattern.tag = WEFT_TAG_ANY;
    return pattern;
}

/* Fill in the receive or probe that a call posts, with the arguments of event `args_event`. Return false if nothing was
 * posted. */
static bool fill_receive(struct weft_ops *ops, struct weft_post *receive, uint64_t event_index, uint64_t args_event,
                         struct weft_spec spec, struct pattern pattern, uint16_t more_flags) {
    const struct weft_local_comm *comm = find_comm(ops->in, ops->in->events[args_event].comm);
    if (!comm || is_refused(&ops->in->events[event_index]) || pattern.tag < WEFT_TAG_ANY) return false;
    if (pattern.source < WEFT_RANK_ANY_SOURCE || pattern.source >= comm->peer_count) return false;
    uint16_t flags = make_post_flags(spec) | more_flags;
    if (pattern.source == WEFT_RANK_ANY_SOURCE) flags |= WEFT_POST_ANY_SOURCE | WEFT_POST_UNDECIDED;
    if (pattern.tag == WEFT_TAG_ANY) flags |= WEFT_POST_ANY_TAG | WEFT_POST_UNDECIDED;
    *receive = (struct weft_post){
        .event = (uint32_t)event_index,
        .args = (uint32_t)args_event,
        .completion = NONE,
        .decided = NONE,
        .comm = comm->index,
        .peer = find_peer_rank(ops->in, comm, pattern.source),
        .tag = pattern.tag,
        .ticket = read_ticket(ops->in, event_index),
        .flags = flags,
    };
    return true;
}

/* Add the receive that a call posts, with the arguments of event `args_event`. Return its index, or NONE if nothing was
 * posted. */
static uint32_t add_receive(struct weft_ops *ops, uint64_t event_index, uint64_t args_event, struct weft_spec spec,
                            struct pattern pattern, uint16_t more_flags) {
    if (!make_room(ops, (void **)&ops->recvs, &ops->recv_room, ops->recv_count, sizeof *ops->recvs)) return NONE;
    if (!fill_receive(ops, &ops->recvs[ops->recv_count], event_index, args_event, spec, pattern, more_flags))
        return NONE;
    return (uint32_t)ops->recv_count++;
}

/* Record which event completed a receive, and resolve its wildcards from the status. */
static void complete_receive(struct weft_ops *ops, uint32_t receive_index, uint32_t completing_event,
                             struct status status) {
    struct weft_post *receive = &ops->recvs[receive_index];
    receive->completion = completing_event;
    if (receive->decided == NONE) receive->decided = completing_event;
    if (status.set && status.cancelled) receive->flags |= WEFT_POST_CANCELLED;
    resolve_wildcards(ops, receive, status);
}

/* Add a probe; if the call returned, it is complete and its wildcards are resolved. */
static void add_probe(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    if (!make_room(ops, (void **)&ops->probes, &ops->probe_room, ops->probe_count, sizeof *ops->probes)) return;
    struct weft_post *probe = &ops->probes[ops->probe_count];
    if (!fill_receive(ops, probe, event_index, event_index, spec, make_slot_pattern(event), 0)) return;
    if (event->flags & WEFT_FLAG_CLOSED) {
        probe->completion = probe->decided = (uint32_t)event_index;
        resolve_wildcards(ops, probe, make_slot_status(event));
    }
    ops->probe_count++;
}

/* ---- collectives ---- */

/* Return the counter, which begins at 0, of collective calls on a window, file or persistent operation; `parent`: the
 * collective that created that object. NULL without memory. */
static uint32_t *find_or_make_call_counter(struct weft_ops *ops, uint32_t parent) {
    uint64_t old_room = ops->coll_calls_room;
    while (parent >= ops->coll_calls_room)
        if (!make_room(ops, (void **)&ops->coll_calls, &ops->coll_calls_room, ops->coll_calls_room, sizeof(uint32_t)))
            return NULL;
    if (ops->coll_calls_room > old_room)
        memset(ops->coll_calls + old_room, 0, (ops->coll_calls_room - old_room) * sizeof(uint32_t));
    return &ops->coll_calls[parent];
}

/* Add a rank's participation in a collective operation. Return its index, or NONE without memory. */
static uint32_t add_collective(struct weft_ops *ops, uint64_t event_index, int32_t comm, uint32_t parent,
                               uint32_t ordinal, uint16_t function, uint16_t flags) {
    if (!make_room(ops, (void **)&ops->colls, &ops->coll_room, ops->coll_count, sizeof *ops->colls)) return NONE;
    const struct weft_event *event = &ops->in->events[event_index];
    bool is_complete = event->flags & WEFT_FLAG_CLOSED && !(flags & WEFT_POST_NONBLOCKING);
    ops->colls[ops->coll_count] = (struct weft_coll){
        .event = (uint32_t)event_index,
        .completion = is_complete ? (uint32_t)event_index : NONE,
        .comm = comm,
        .parent = parent,
        .ordinal = ordinal,
        .function = function,
        .flags = flags,
    };
    return (uint32_t)ops->coll_count++;
}

/* Add a collective call on a communicator, numbered in the order of the calls there. Return its index, or NONE. */
static uint32_t add_comm_collective(struct weft_ops *ops, uint64_t event_index, uint32_t comm_id, uint16_t flags) {
    const struct weft_event *event = &ops->in->events[event_index];
    const struct weft_local_comm *comm = find_comm(ops->in, comm_id);
    if (!comm || is_refused(event)) return NONE;
    return add_collective(ops, event_index, comm->index, NONE, ops->comm_calls[comm_id]++, event->function, flags);
}

/* Add a collective call on a window, file or persistent operation, which the collective `parent` created. Return its
 * index, or NONE. */
static uint32_t add_child_collective(struct weft_ops *ops, uint64_t event_index, uint32_t parent, uint16_t function,
                                     uint16_t flags) {
    if (parent == NONE) return NONE;
    uint32_t *calls = find_or_make_call_counter(ops, parent);
    if (!calls) return NONE;
    return add_collective(ops, event_index, ops->colls[parent].comm, parent, (*calls)++, function, flags);
}

/* Add a collective call, and remember it as the creator of the window, file or request that it made. */
static void add_collective_call(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    uint32_t index = add_comm_collective(ops, event_index, event->comm, make_post_flags(spec));
    if (index == NONE || !(event->flags & WEFT_FLAG_CLOSED)) return;
    if (spec.flags & WEFT_SPEC_MAKES_OBJECT) {
        struct table *table = spec.flags & WEFT_SPEC_FILE ? &ops->files : &ops->windows;
        uint32_t *made = find_or_make_row(ops, table, event->object, sizeof *made);
        if (made) *made = index;
    } else if (spec.flags & WEFT_SPEC_NONBLOCKING) {
        uint64_t id = event->object;
        struct request *request = find_or_make_row(ops, &ops->requests, id, sizeof *request);
        if (request) *request = (struct request){NONE, NONE, NONE, index};
    }
}

/* ---- requests ---- */

/* Post the send, receive or collective of a persistent request that a call starts. */
static void start_request(struct weft_ops *ops, uint64_t event_index, uint64_t request_id) {
    struct request *request = find_request(ops, request_id);
    if (!request || request->init == NONE) return;
    const struct weft_event *init = &ops->in->events[request->init];
    struct weft_spec spec = find_spec(ops->in, init);
    uint16_t more_flags = WEFT_POST_PERSISTENT;
    spec.flags |= WEFT_SPEC_NONBLOCKING;
    if (spec.op == WEFT_OP_SEND_INIT) {
        request->send = add_send(ops, event_index, request->init, spec, more_flags);
    } else if (spec.op == WEFT_OP_RECV_INIT) {
        request->recv = add_receive(ops, event_index, request->init, spec, make_slot_pattern(init), more_flags);
    } else if (request->coll != NONE) {
        uint32_t parent = request->coll;
        while (ops->colls[parent].parent != NONE) parent = ops->colls[parent].parent;
        request->coll =
            add_child_collective(ops, event_index, parent, init->function, more_flags | WEFT_POST_NONBLOCKING);
        if (request->coll == NONE) request->coll = parent;
    }
}

/* Record that an event completed the send, receive or collective behind a request. */
static void complete_request(struct weft_ops *ops, uint64_t request_id, uint64_t completing_event,
                             struct status status) {
    struct request *request = find_request(ops, request_id);
    if (!request) return;
    if (request->send != NONE) {
        ops->sends[request->send].completion = (uint32_t)completing_event;
        if (status.cancelled && request->recv == NONE) ops->sends[request->send].flags |= WEFT_POST_CANCELLED;
    }
    if (request->recv != NONE) complete_receive(ops, request->recv, (uint32_t)completing_event, status);
    if (request->coll != NONE && ops->colls[request->coll].completion == NONE)
        ops->colls[request->coll].completion = (uint32_t)completing_event;
    request->send = request->recv = NONE;
    if (request->init == NONE) request->coll = NONE;
}

/* Record what MPI_Request_get_status reported about a request; the request stays active. */
static void note_request_status(struct weft_ops *ops, uint64_t request_id, uint64_t event, struct status status) {
    struct request *request = find_request(ops, request_id);
    if (!request) return;
    if (status.cancelled) { /* known from here on, whatever becomes of the request */
        if (request->send != NONE) ops->sends[request->send].flags |= WEFT_POST_CANCELLED;
        if (request->recv != NONE) ops->recvs[request->recv].flags |= WEFT_POST_CANCELLED;
    }
    if (request->recv == NONE) return;
    struct weft_post *receive = &ops->recvs[request->recv];
    if (receive->decided == NONE) receive->decided = (uint32_t)event;
    resolve_wildcards(ops, receive, status);
}

/* Record that MPI_Cancel was called for a request's operation. */
static void note_cancel_call(struct weft_ops *ops, uint64_t request_id) {
    struct request *request = find_request(ops, request_id);
    if (!request) return;
    if (request->send != NONE) ops->sends[request->send].flags |= WEFT_POST_RECALLED;
    if (request->recv != NONE) ops->recvs[request->recv].flags |= WEFT_POST_RECALLED;
}

/* Record that an operation's request was freed. If it was cancelled before, treat it as cancelled, since otherwise it
 * would block the matching of later operations. */
static void abandon_post(struct weft_post *post) {
    post->flags |= post->flags & WEFT_POST_RECALLED ? WEFT_POST_CANCELLED : WEFT_POST_FREED;
}

/* Record MPI_Request_free: the completion of the request's operation will not be seen. */
static void free_request(struct weft_ops *ops, uint64_t request_id) {
    struct request *request = find_request(ops, request_id);
    if (!request) return;
    if (request->send != NONE) abandon_post(&ops->sends[request->send]);
    if (request->recv != NONE) abandon_post(&ops->recvs[request->recv]);
    *request = (struct request){NONE, NONE, NONE, NONE};
}

/* Complete all requests that an MPI_Waitall or MPI_Testall lists. */
static void complete_all_requests(struct weft_ops *ops, uint64_t event_index, struct tail *tail) {
    struct cursor ids = tail->requests.at, statuses = tail->statuses.at;
    struct status none = {0};
    for (uint64_t k = 0; k < tail->requests.count; k++) {
        uint64_t id = read_unsigned(&ids);
        struct status status = k < tail->statuses.count ? read_status(&statuses) : none;
        complete_request(ops, id, event_index, status);
    }
}

/* Return the id of the n-th request (from 0) in an event's request array; 0 if there is none. */
static uint64_t read_nth_request(struct tail *tail, int64_t n) {
    struct cursor ids = tail->requests.at;
    uint64_t request_id = 0;
    if (n < 0 || (uint64_t)n >= tail->requests.count) return 0;
    for (int64_t k = 0; k <= n; k++) request_id = read_unsigned(&ids);
    return request_id;
}

/* Complete the requests whose indices an MPI_Waitsome or MPI_Testsome returned. */
static void complete_some_requests(struct weft_ops *ops, uint64_t event_index, struct tail *tail) {
    if (tail->outcount <= 0) return;
    uint64_t *ids = malloc((tail->requests.count + 1) * sizeof *ids);
    if (!ids) {
        ops->failed = true;
        return;
    }
    struct cursor cursor = tail->requests.at, indices = tail->indices.at, statuses = tail->statuses.at;
    for (uint64_t k = 0; k < tail->requests.count; k++) ids[k] = read_unsigned(&cursor);
    struct status none = {0};
    int64_t index = 0;
    for (uint64_t k = 0; k < (uint64_t)tail->outcount && k < tail->indices.count; k++) {
        index += read_signed(&indices);
        struct status status = k < tail->statuses.count ? read_status(&statuses) : none;
        if (index >= 0 && (uint64_t)index < tail->requests.count)
            complete_request(ops, ids[index], event_index, status);
    }
    free(ids);
}

/* Record what a new request stands for: its init call, its send, its receive (NONE each if not). */
static void note_new_request(struct weft_ops *ops, uint64_t request_id, uint32_t init, uint32_t send, uint32_t recv) {
    struct request *request = find_or_make_row(ops, &ops->requests, request_id, sizeof *request);
    if (request) *request = (struct request){init, send, recv, NONE};
}

/* ---- one call ---- */

/* Add a collective call on a window or file. */
static void add_object_collective(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    struct table *table = spec.flags & WEFT_SPEC_FILE ? &ops->files : &ops->windows;
    bool is_nonblocking = spec.flags & WEFT_SPEC_NONBLOCKING; /* then the slot's object is the request */
    uint64_t object = is_nonblocking ? read_tail(ops->in, event_index, spec, WEFT_ROLE_OBJECT).object : event->object;
    uint32_t *maker = find_row(table, object, sizeof *maker);
    uint32_t index =
        maker ? add_child_collective(ops, event_index, *maker, event->function, make_post_flags(spec)) : NONE;
    if (index == NONE || !is_nonblocking || !(event->flags & WEFT_FLAG_CLOSED)) return;
    struct request *request = find_or_make_row(ops, &ops->requests, event->object, sizeof *request);
    if (request) *request = (struct request){NONE, NONE, NONE, index};
}

/* Add the send and the receive of an MPI_Sendrecv or MPI_Isendrecv. */
static void add_sendrecv(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    struct tail tail = read_tail(ops->in, event_index, spec, WEFT_ROLE_SKIP);
    uint32_t send = add_send(ops, event_index, event_index, spec, WEFT_POST_HALF);
    struct pattern pattern = {tail.source, tail.recvtag};
    uint32_t recv = add_receive(ops, event_index, event_index, spec, pattern, WEFT_POST_HALF);
    if (!(event->flags & WEFT_FLAG_CLOSED)) return;
    if (spec.flags & WEFT_SPEC_NONBLOCKING) {
        note_new_request(ops, event->object, NONE, send, recv);
    } else if (recv != NONE) {
        complete_receive(ops, recv, (uint32_t)event_index, tail.status);
    }
}

/* Add the receive of an MPI_Recv or MPI_Irecv. */
static void add_receive_call(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    uint32_t recv = add_receive(ops, event_index, event_index, spec, make_slot_pattern(event), 0);
    if (recv == NONE || !(event->flags & WEFT_FLAG_CLOSED)) return;
    if (spec.flags & WEFT_SPEC_NONBLOCKING) {
        note_new_request(ops, event->object, NONE, NONE, recv);
    } else {
        complete_receive(ops, recv, (uint32_t)event_index, make_slot_status(event));
    }
}

/* Add the receive that an MPI_Mprobe effectively posts, and remember it by the message's id. */
static void add_matched_probe(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    uint32_t recv = add_receive(ops, event_index, event_index, spec, make_slot_pattern(event), WEFT_POST_MATCHED_PROBE);
    if (recv == NONE || !(event->flags & WEFT_FLAG_CLOSED)) return;
    ops->recvs[recv].decided = (uint32_t)event_index;
    resolve_wildcards(ops, &ops->recvs[recv], make_slot_status(event));
    uint32_t *message = find_or_make_row(ops, &ops->messages, event->object, sizeof *message);
    if (message) *message = recv;
}

/* Handle MPI_Mrecv or MPI_Imrecv: it completes the receive that its matched probe posted. */
static void complete_matched_receive(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    bool is_nonblocking = spec.flags & WEFT_SPEC_NONBLOCKING;
    uint64_t message_id =
        is_nonblocking ? read_tail(ops->in, event_index, spec, WEFT_ROLE_OBJECT).object : event->object;
    uint32_t *message = find_row(&ops->messages, message_id, sizeof *message);
    if (!message || *message == NONE) return;
    struct weft_post *receive = &ops->recvs[*message];
    receive->args = (uint32_t)event_index;
    if (is_nonblocking) {
        receive->flags |= WEFT_POST_NONBLOCKING;
        if (event->flags & WEFT_FLAG_CLOSED) note_new_request(ops, event->object, NONE, NONE, *message);
    } else if (event->flags & WEFT_FLAG_CLOSED) {
        receive->completion = (uint32_t)event_index;
    }
    *message = NONE;
}

/* Add the sends, receives, probes and collectives of one recorded call, by what its function does. */
static void add_operations_of_call(struct weft_ops *ops, uint64_t event_index, struct weft_spec spec) {
    const struct weft_event *event = &ops->in->events[event_index];
    bool is_closed = event->flags & WEFT_FLAG_CLOSED;
    if (spec.flags & WEFT_SPEC_FLAGGED && !(event->flags & WEFT_FLAG_TRUE)) return;
    switch (spec.op) {
    case WEFT_OP_SEND: {
        uint32_t send = add_send(ops, event_index, event_index, spec, 0);
        if (is_closed && spec.flags & WEFT_SPEC_NONBLOCKING) note_new_request(ops, event->object, NONE, send, NONE);
        return;
    }
    case WEFT_OP_RECV: add_receive_call(ops, event_index, spec); return;
    case WEFT_OP_SENDRECV: add_sendrecv(ops, event_index, spec); return;
    case WEFT_OP_PROBE: add_probe(ops, event_index, spec); return;
    case WEFT_OP_MPROBE: add_matched_probe(ops, event_index, spec); return;
    case WEFT_OP_MRECV: complete_matched_receive(ops, event_index, spec); return;
    case WEFT_OP_SEND_INIT:
    case WEFT_OP_RECV_INIT:
        if (is_closed && !is_refused(event)) note_new_request(ops, event->object, (uint32_t)event_index, NONE, NONE);
        return;
    case WEFT_OP_COLL_INIT: {
        uint32_t coll = add_comm_collective(ops, event_index, event->comm, WEFT_POST_INIT);
        struct request *request =
            is_closed ? find_or_make_row(ops, &ops->requests, event->object, sizeof *request) : NULL;
        if (request) *request = (struct request){(uint32_t)event_index, NONE, NONE, coll};
        return;
    }
    case WEFT_OP_START: start_request(ops, event_index, event->object); return;
    case WEFT_OP_STARTALL: {
        struct tail tail = read_tail(ops->in, event_index, spec, WEFT_ROLE_SKIP);
        struct cursor ids = tail.requests.at;
        for (uint64_t k = 0; k < tail.requests.count; k++) start_request(ops, event_index, read_unsigned(&ids));
        return;
    }
    case WEFT_OP_COLL: add_collective_call(ops, event_index, spec); return;
    case WEFT_OP_FINALIZE:
        if (event->buffer == WEFT_LEAVING) return; /* no call of the program */
        add_collective(ops, event_index, ops->in->world, NONE, ops->comm_calls[WEFT_ID_WORLD]++, event->function, 0);
        return;
    case WEFT_OP_COLL_OBJECT: add_object_collective(ops, event_index, spec); return;
    }
    if (!is_closed) return;
    switch (spec.op) {
    case WEFT_OP_WAIT: complete_request(ops, event->object, event_index, make_slot_status(event)); return;
    case WEFT_OP_GET_STATUS: note_request_status(ops, event->object, event_index, make_slot_status(event)); return;
    case WEFT_OP_REQUEST_FREE: free_request(ops, event->object); return;
    case WEFT_OP_CANCEL: note_cancel_call(ops, event->object); return;
    case WEFT_OP_WAITALL: {
        struct tail tail = read_tail(ops->in, event_index, spec, WEFT_ROLE_SKIP);
        complete_all_requests(ops, event_index, &tail);
        return;
    }
    case WEFT_OP_WAITANY: {
        struct tail tail = read_tail(ops->in, event_index, spec, WEFT_ROLE_SKIP);
        complete_request(ops, read_nth_request(&tail, tail.index), event_index, make_slot_status(event));
        return;
    }
    case WEFT_OP_WAITSOME: {
        struct tail tail = read_tail(ops->in, event_index, spec, WEFT_ROLE_SKIP);
        complete_some_requests(ops, event_index, &tail);
        return;
    }
    }
}

/* ---- the result ---- */

/* Free what weft_extract_ops() returned; NULL is allowed. */
void weft_ops_free(struct weft_ops *ops) {
    if (!ops) return;
    free(ops->sends);
    free(ops->recvs);
    free(ops->probes);
    free(ops->colls);
    free_table(&ops->requests);
    free_table(&ops->messages);
    free_table(&ops->windows);
    free_table(&ops->files);
    free(ops->comm_calls);
    free(ops->coll_calls);
    free(ops);
}

/* Compare two operations by ticket, then by event; for qsort(). */
static int compare_tickets(const void *one, const void *other) {
    const struct weft_post *post = one, *other_post = other;
    if (post->ticket != other_post->ticket) return post->ticket < other_post->ticket ? -1 : 1;
    return post->event < other_post->event ? -1 : post->event > other_post->event;
}

/* Sort the operations of several threads in the order in which MPI got the calls, which their tickets give (entry times
 * do not). Operations without a ticket keep their positions. */
static void sort_posts(struct weft_post *posts, uint64_t count) {
    uint64_t ticketed = 0;
    for (uint64_t i = 0; i < count; i++) ticketed += posts[i].ticket != NONE;
    if (ticketed < 2) return;
    struct weft_post *ticketed_posts = malloc(ticketed * sizeof *ticketed_posts);
    if (!ticketed_posts) return;
    for (uint64_t i = 0, k = 0; i < count; i++)
        if (posts[i].ticket != NONE) ticketed_posts[k++] = posts[i];
    qsort(ticketed_posts, ticketed, sizeof *ticketed_posts, compare_tickets);
    for (uint64_t i = 0, k = 0; i < count; i++)
        if (posts[i].ticket != NONE) posts[i] = ticketed_posts[k++];
    free(ticketed_posts);
}

/* Remove cancelled operations from an array and return the new count. */
static uint64_t drop_cancelled_posts(struct weft_post *posts, uint64_t count) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (posts[i].flags & WEFT_POST_CANCELLED) continue;
        if (kept != i) posts[kept] = posts[i];
        kept++;
    }
    return kept;
}

/* Compute upper bounds for the numbers of a rank's sends, receives, probes and collectives from the functions of its
 * events. */
void weft_bound_op_counts(const struct weft_extract_input *input, uint64_t most[4]) {
    uint64_t by_op[32] = {0}, started = 0;
    for (uint64_t i = 0; i < input->event_count; i++) {
        struct weft_spec spec = find_spec(input, &input->events[i]);
        by_op[spec.op & 31]++;
        if (spec.op == WEFT_OP_STARTALL) started += read_tail(input, i, spec, WEFT_ROLE_REQUESTS).requests.count;
    }
    started += by_op[WEFT_OP_START];
    most[0] = by_op[WEFT_OP_SEND] + by_op[WEFT_OP_SENDRECV] + started;
    most[1] = by_op[WEFT_OP_RECV] + by_op[WEFT_OP_SENDRECV] + by_op[WEFT_OP_MPROBE] + started;
    most[2] = by_op[WEFT_OP_PROBE];
    most[3] =
        by_op[WEFT_OP_COLL] + by_op[WEFT_OP_COLL_OBJECT] + by_op[WEFT_OP_COLL_INIT] + by_op[WEFT_OP_FINALIZE] + started;
}

/* Empty a previous result for reuse by another rank (its memory is kept, since page faults cost more than the reading),
 * or allocate one if NULL. NULL without memory. */
static struct weft_ops *empty_or_create_ops(struct weft_ops *ops) {
    if (!ops) return calloc(1, sizeof *ops);
    ops->send_count = ops->recv_count = ops->probe_count = ops->coll_count = 0;
    empty_table(&ops->requests);
    empty_table(&ops->messages);
    empty_table(&ops->windows);
    empty_table(&ops->files);
    if (ops->coll_calls) memset(ops->coll_calls, 0, ops->coll_calls_room * sizeof(uint32_t));
    free(ops->comm_calls);
    return ops;
}

/* Read all sends, receives, probes and collectives of a rank from its events. `used`: an earlier result whose memory is
 * reused, or NULL. `counts` gets the four counts. NULL without memory. */
struct weft_ops *weft_extract_ops(const struct weft_extract_input *input, struct weft_ops *used, uint64_t counts[4]) {
    struct weft_ops *ops = empty_or_create_ops(used);
    if (!ops) return NULL;
    ops->in = input;
    ops->comm_calls =
        calloc(input->comm_count > WEFT_ID_DYNAMIC ? input->comm_count : WEFT_ID_DYNAMIC, sizeof(uint32_t));
    if (!ops->comm_calls) ops->failed = true;
    for (uint64_t i = 0; i < input->event_count && !ops->failed; i++) {
        struct weft_spec spec = find_spec(input, &input->events[i]);
        if (spec.op != WEFT_OP_NONE) add_operations_of_call(ops, i, spec);
    }
    if (ops->failed) {
        weft_ops_free(ops);
        return NULL;
    }
    ops->send_count = drop_cancelled_posts(ops->sends, ops->send_count);
    ops->recv_count = drop_cancelled_posts(ops->recvs, ops->recv_count);
    if (input->threads) {
        sort_posts(ops->sends, ops->send_count);
        sort_posts(ops->recvs, ops->recv_count);
        sort_posts(ops->probes, ops->probe_count);
    }
    counts[0] = ops->send_count;
    counts[1] = ops->recv_count;
    counts[2] = ops->probe_count;
    counts[3] = ops->coll_count;
    ops->in = NULL;
    return ops;
}

/* Copy the sends (`sort` 0), receives (1) or probes (2) of a rank into columns, from row `first` on. */
void weft_copy_posts(const struct weft_ops *ops, int sort, const struct weft_post_columns *columns, uint64_t first) {
    const struct weft_post *posts = sort == 0 ? ops->sends : sort == 1 ? ops->recvs : ops->probes;
    uint64_t count = sort == 0 ? ops->send_count : sort == 1 ? ops->recv_count : ops->probe_count;
    for (uint64_t i = 0; i < count; i++) {
        const struct weft_post *post = &posts[i];
        columns->event[first + i] = post->event;
        columns->args[first + i] = post->args;
        columns->completion[first + i] = post->completion;
        columns->decided[first + i] = post->decided;
        columns->comm[first + i] = post->comm;
        columns->peer[first + i] = post->peer;
        columns->tag[first + i] = post->tag;
        columns->flags[first + i] = post->flags;
    }
}

/* Copy the collectives of a rank into columns, from row `first` on. */
void weft_copy_collectives(const struct weft_ops *ops, const struct weft_coll_columns *columns, uint64_t first) {
    for (uint64_t i = 0; i < ops->coll_count; i++) {
        const struct weft_coll *collective = &ops->colls[i];
        columns->event[first + i] = collective->event;
        columns->completion[first + i] = collective->completion;
        columns->comm[first + i] = collective->comm;
        columns->parent[first + i] = collective->parent;
        columns->ordinal[first + i] = collective->ordinal;
        columns->function[first + i] = collective->function;
        columns->flags[first + i] = collective->flags;
    }
}
