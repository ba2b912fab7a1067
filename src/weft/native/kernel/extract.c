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

/* Half of the time of a large extraction went into page faults. */
static void prefer_huge_pages(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    if (bytes < 4 * HUGE_PAGE) return;
    uintptr_t start = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    madvise((void *)start, (uintptr_t)memory + bytes - start, MADV_HUGEPAGE);
#endif
}

static bool grow(struct weft_ops *ops, void **rows, uint64_t *room, uint64_t count, size_t size) {
    if (count < *room) return true;
    uint64_t wanted = *room ? *room * 2 : 1024;
    void *more = realloc(*rows, wanted * size);
    if (!more) {
        ops->failed = true;
        return false;
    }
    *rows = more;
    *room = wanted;
    prefer_huge_pages(more, wanted * size);
    return true;
}

#define PAGE_ROWS 4096u

/* Room for the page at a place; NULL without memory. */
static struct page *new_page(struct table *table, uint32_t place, size_t size) {
    if (place >= table->count) {
        uint32_t wanted = table->count ? table->count : 16;
        while (wanted <= place) wanted *= 2;
        struct page **more = realloc(table->pages, wanted * sizeof *more);
        if (!more) return NULL;
        memset(more + table->count, 0, (wanted - table->count) * sizeof *more);
        table->pages = more;
        table->count = wanted;
    }
    struct page *page = table->spare;
    if (page) table->spare = page->next;
    else if (!(page = malloc(sizeof *page + PAGE_ROWS * size))) return NULL;
    memset(page->rows, 0xff, PAGE_ROWS * size);
    return table->pages[place] = page;
}

/* The row of `id`, made (all bytes 0xff) where it is new; NULL for an id that cannot be or no memory. */
static inline void *row(struct weft_ops *ops, struct table *table, uint64_t id, size_t size) {
    if (id < WEFT_ID_DYNAMIC || id >= MAX_ID) return NULL;
    uint32_t i = (uint32_t)id - WEFT_ID_DYNAMIC, place = i / PAGE_ROWS;
    struct page *page = place < table->count ? table->pages[place] : NULL;
    if (!page && !(page = new_page(table, place, size))) {
        ops->failed = true;
        return NULL;
    }
    return page->rows + (size_t)(i % PAGE_ROWS) * size;
}

static inline void *known_row(struct table *table, uint64_t id, size_t size) {
    uint64_t i = id - WEFT_ID_DYNAMIC;
    if (id < WEFT_ID_DYNAMIC || i / PAGE_ROWS >= table->count || !table->pages[i / PAGE_ROWS]) return NULL;
    return table->pages[i / PAGE_ROWS]->rows + (size_t)(i % PAGE_ROWS) * size;
}

/* Nothing is in the table any more; its pages are kept for other ids. */
static void forget(struct table *table) {
    for (uint32_t place = 0; place < table->count; place++) {
        struct page *page = table->pages[place];
        if (!page) continue;
        page->next = table->spare;
        table->spare = page;
        table->pages[place] = NULL;
    }
}

static void let_go(struct table *table) {
    forget(table);
    while (table->spare) {
        struct page *page = table->spare;
        table->spare = page->next;
        free(page);
    }
    free(table->pages);
}

static struct request *request_of(struct weft_ops *ops, uint64_t id) {
    return known_row(&ops->requests, id, sizeof(struct request));
}

static uint32_t ticket_of(const struct weft_extract_input *in, uint64_t i) {
    const struct weft_event *e = &in->events[i];
    if (!in->threads || !(e->flags & WEFT_FLAG_TICKET) || !(e->flags & WEFT_FLAG_HAS_TAIL)) return NONE;
    uint64_t start = (uint64_t)e->result * WEFT_TAIL_ALIGN, bytes = in->tail_bytes[in->threads[i]];
    if (start > bytes) return NONE;
    struct cursor c = {in->tails[in->threads[i]] + start, in->tails[in->threads[i]] + bytes, false};
    uint64_t ticket = read_u(&c);
    uint8_t op = spec_of(in, e).op;
    if ((op == WEFT_OP_PROBE || op == WEFT_OP_MPROBE) && e->flags & WEFT_FLAG_CLOSED && !e->error) {
        read_u(&c); /* bytes; then when it found its message */
        ticket = read_u(&c);
    }
    return c.bad ? NONE : (uint32_t)ticket;
}

static struct status slot_status(const struct weft_event *e) {
    struct status s = {.set = true, .cancelled = e->flags & WEFT_FLAG_CANCELLED, .source = e->peer, .tag = e->tag};
    return s;
}

/* ---- posts ---- */

static const struct weft_local_comm *comm_of(const struct weft_extract_input *in, uint32_t id) {
    if (id >= in->comm_count || in->comms[id].index < 0) return NULL;
    return &in->comms[id];
}

static int32_t peer_of(const struct weft_extract_input *in, const struct weft_local_comm *comm, int32_t peer) {
    return peer >= 0 && peer < comm->peer_count ? in->peers[comm->first_peer + peer] : -1;
}

/* Classes 1 to 6 (buffer, count, type, tag, communicator, rank) are refusals in every MPI: nothing was posted. */
static bool refused(const struct weft_event *e) { return e->error >= 1 && e->error <= 6; }

static uint16_t post_flags(struct weft_spec spec) {
    return (spec.flags & WEFT_SPEC_SYNCHRONOUS ? WEFT_POST_SYNCHRONOUS : 0) |
           (spec.flags & WEFT_SPEC_BUFFERED ? WEFT_POST_BUFFERED : 0) |
           (spec.flags & WEFT_SPEC_READY ? WEFT_POST_READY : 0) |
           (spec.flags & WEFT_SPEC_PARTITIONED ? WEFT_POST_PARTITIONED : 0) |
           (spec.flags & WEFT_SPEC_NONBLOCKING ? WEFT_POST_NONBLOCKING : 0);
}

/* Adds a send that call `i` posts with the arguments of call `args`. Index of the send, or NONE. */
static uint32_t post_send(struct weft_ops *ops, uint64_t i, uint64_t args, struct weft_spec spec, uint16_t more) {
    const struct weft_event *e = &ops->in->events[args];
    const struct weft_local_comm *comm = comm_of(ops->in, e->comm);
    if (!comm || e->peer < 0 || e->peer >= comm->peer_count || e->tag < 0 || refused(&ops->in->events[i])) return NONE;
    if (!grow(ops, (void **)&ops->sends, &ops->send_room, ops->send_count, sizeof *ops->sends)) return NONE;
    struct weft_post *s = &ops->sends[ops->send_count];
    bool whole = !(spec.flags & WEFT_SPEC_NONBLOCKING) && ops->in->events[i].flags & WEFT_FLAG_CLOSED;
    *s = (struct weft_post){
        .event = (uint32_t)i,
        .args = (uint32_t)args,
        .completion = whole ? (uint32_t)i : NONE,
        .decided = NONE,
        .comm = comm->index,
        .peer = peer_of(ops->in, comm, e->peer),
        .tag = e->tag,
        .ticket = ticket_of(ops->in, i),
        .flags = post_flags(spec) | more,
    };
    return (uint32_t)ops->send_count++;
}

static void resolve(struct weft_ops *ops, struct weft_post *r, struct status status) {
    const struct weft_event *e = &ops->in->events[r->event];
    if (r->flags & WEFT_POST_PERSISTENT) e = &ops->in->events[r->args];
    const struct weft_local_comm *comm = comm_of(ops->in, e->comm);
    if (!(r->flags & WEFT_POST_UNDECIDED) || !status.set || !comm) return;
    if (r->flags & WEFT_POST_ANY_SOURCE) {
        if (status.source < 0 || status.source >= comm->peer_count) return;
        r->peer = peer_of(ops->in, comm, status.source);
    }
    if (r->flags & WEFT_POST_ANY_TAG) {
        if (status.tag < 0) return;
        r->tag = status.tag;
    }
    r->flags &= ~WEFT_POST_UNDECIDED;
}

struct pattern {
    int32_t source, tag;
};

/* The source and tag that the slot's call asked for, before any outcome was written over a wildcard. */
static struct pattern slot_pattern(const struct weft_event *e) {
    struct pattern p = {e->peer, e->tag};
    if (e->flags & WEFT_FLAG_ANY_SOURCE) p.source = WEFT_RANK_ANY_SOURCE;
    if (e->flags & WEFT_FLAG_ANY_TAG) p.tag = WEFT_TAG_ANY;
    return p;
}

/* Fills `r` with a receive or probe that call `i` posts. False where nothing was posted. */
static bool make_receive(struct weft_ops *ops, struct weft_post *r, uint64_t i, uint64_t args, struct weft_spec spec,
                         struct pattern pattern, uint16_t more) {
    const struct weft_local_comm *comm = comm_of(ops->in, ops->in->events[args].comm);
    if (!comm || refused(&ops->in->events[i]) || pattern.tag < WEFT_TAG_ANY) return false;
    if (pattern.source < WEFT_RANK_ANY_SOURCE || pattern.source >= comm->peer_count) return false;
    uint16_t flags = post_flags(spec) | more;
    if (pattern.source == WEFT_RANK_ANY_SOURCE) flags |= WEFT_POST_ANY_SOURCE | WEFT_POST_UNDECIDED;
    if (pattern.tag == WEFT_TAG_ANY) flags |= WEFT_POST_ANY_TAG | WEFT_POST_UNDECIDED;
    *r = (struct weft_post){
        .event = (uint32_t)i,
        .args = (uint32_t)args,
        .completion = NONE,
        .decided = NONE,
        .comm = comm->index,
        .peer = peer_of(ops->in, comm, pattern.source),
        .tag = pattern.tag,
        .ticket = ticket_of(ops->in, i),
        .flags = flags,
    };
    return true;
}

static uint32_t post_recv(struct weft_ops *ops, uint64_t i, uint64_t args, struct weft_spec spec,
                          struct pattern pattern, uint16_t more) {
    if (!grow(ops, (void **)&ops->recvs, &ops->recv_room, ops->recv_count, sizeof *ops->recvs)) return NONE;
    if (!make_receive(ops, &ops->recvs[ops->recv_count], i, args, spec, pattern, more)) return NONE;
    return (uint32_t)ops->recv_count++;
}

static void complete_recv(struct weft_ops *ops, uint32_t recv, uint32_t event, struct status status) {
    struct weft_post *r = &ops->recvs[recv];
    r->completion = event;
    if (r->decided == NONE) r->decided = event;
    if (status.set && status.cancelled) r->flags |= WEFT_POST_CANCELLED;
    resolve(ops, r, status);
}

static void add_probe(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    if (!grow(ops, (void **)&ops->probes, &ops->probe_room, ops->probe_count, sizeof *ops->probes)) return;
    struct weft_post *p = &ops->probes[ops->probe_count];
    if (!make_receive(ops, p, i, i, spec, slot_pattern(e), 0)) return;
    if (e->flags & WEFT_FLAG_CLOSED) {
        p->completion = p->decided = (uint32_t)i;
        resolve(ops, p, slot_status(e));
    }
    ops->probe_count++;
}

/* ---- collectives ---- */

static uint32_t *calls_on(struct weft_ops *ops, uint32_t coll) {
    uint64_t before = ops->coll_calls_room;
    while (coll >= ops->coll_calls_room)
        if (!grow(ops, (void **)&ops->coll_calls, &ops->coll_calls_room, ops->coll_calls_room, sizeof(uint32_t)))
            return NULL;
    if (ops->coll_calls_room > before)
        memset(ops->coll_calls + before, 0, (ops->coll_calls_room - before) * sizeof(uint32_t));
    return &ops->coll_calls[coll];
}

static uint32_t add_coll(struct weft_ops *ops, uint64_t i, int32_t comm, uint32_t parent, uint32_t ordinal,
                         uint16_t function, uint16_t flags) {
    if (!grow(ops, (void **)&ops->colls, &ops->coll_room, ops->coll_count, sizeof *ops->colls)) return NONE;
    const struct weft_event *e = &ops->in->events[i];
    bool whole = e->flags & WEFT_FLAG_CLOSED && !(flags & WEFT_POST_NONBLOCKING);
    ops->colls[ops->coll_count] = (struct weft_coll){
        .event = (uint32_t)i,
        .completion = whole ? (uint32_t)i : NONE,
        .comm = comm,
        .parent = parent,
        .ordinal = ordinal,
        .function = function,
        .flags = flags,
    };
    return (uint32_t)ops->coll_count++;
}

static uint32_t on_comm(struct weft_ops *ops, uint64_t i, uint32_t id, uint16_t flags) {
    const struct weft_event *e = &ops->in->events[i];
    const struct weft_local_comm *comm = comm_of(ops->in, id);
    if (!comm || refused(e)) return NONE;
    return add_coll(ops, i, comm->index, NONE, ops->comm_calls[id]++, e->function, flags);
}

static uint32_t on_parent(struct weft_ops *ops, uint64_t i, uint32_t parent, uint16_t function, uint16_t flags) {
    if (parent == NONE) return NONE;
    uint32_t *calls = calls_on(ops, parent);
    if (!calls) return NONE;
    return add_coll(ops, i, ops->colls[parent].comm, parent, (*calls)++, function, flags);
}

static void collective(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    uint32_t coll = on_comm(ops, i, e->comm, post_flags(spec));
    if (coll == NONE || !(e->flags & WEFT_FLAG_CLOSED)) return;
    if (spec.flags & WEFT_SPEC_MAKES_OBJECT) {
        struct table *table = spec.flags & WEFT_SPEC_FILE ? &ops->files : &ops->windows;
        uint32_t *made = row(ops, table, e->object, sizeof *made);
        if (made) *made = coll;
    } else if (spec.flags & WEFT_SPEC_NONBLOCKING) {
        uint64_t id = e->object;
        struct request *r = row(ops, &ops->requests, id, sizeof *r);
        if (r) *r = (struct request){NONE, NONE, NONE, coll};
    }
}

/* ---- requests ---- */

static void start(struct weft_ops *ops, uint64_t i, uint64_t id) {
    struct request *r = request_of(ops, id);
    if (!r || r->init == NONE) return;
    const struct weft_event *init = &ops->in->events[r->init];
    struct weft_spec spec = spec_of(ops->in, init);
    uint16_t more = WEFT_POST_PERSISTENT;
    spec.flags |= WEFT_SPEC_NONBLOCKING;
    if (spec.op == WEFT_OP_SEND_INIT) {
        r->send = post_send(ops, i, r->init, spec, more);
    } else if (spec.op == WEFT_OP_RECV_INIT) {
        r->recv = post_recv(ops, i, r->init, spec, slot_pattern(init), more);
    } else if (r->coll != NONE) {
        uint32_t parent = r->coll;
        while (ops->colls[parent].parent != NONE) parent = ops->colls[parent].parent;
        r->coll = on_parent(ops, i, parent, init->function, more | WEFT_POST_NONBLOCKING);
        if (r->coll == NONE) r->coll = parent;
    }
}

static void complete(struct weft_ops *ops, uint64_t id, uint64_t event, struct status status) {
    struct request *r = request_of(ops, id);
    if (!r) return;
    if (r->send != NONE) {
        ops->sends[r->send].completion = (uint32_t)event;
        if (status.cancelled && r->recv == NONE) ops->sends[r->send].flags |= WEFT_POST_CANCELLED;
    }
    if (r->recv != NONE) complete_recv(ops, r->recv, (uint32_t)event, status);
    if (r->coll != NONE && ops->colls[r->coll].completion == NONE) ops->colls[r->coll].completion = (uint32_t)event;
    r->send = r->recv = NONE;
    if (r->init == NONE) r->coll = NONE;
}

static void peek(struct weft_ops *ops, uint64_t id, uint64_t event, struct status status) {
    struct request *r = request_of(ops, id);
    if (!r) return;
    if (status.cancelled) { /* known from here on, whatever becomes of the request */
        if (r->send != NONE) ops->sends[r->send].flags |= WEFT_POST_CANCELLED;
        if (r->recv != NONE) ops->recvs[r->recv].flags |= WEFT_POST_CANCELLED;
    }
    if (r->recv == NONE) return;
    struct weft_post *recv = &ops->recvs[r->recv];
    if (recv->decided == NONE) recv->decided = (uint32_t)event;
    resolve(ops, recv, status);
}

static void recalled(struct weft_ops *ops, uint64_t id) {
    struct request *r = request_of(ops, id);
    if (!r) return;
    if (r->send != NONE) ops->sends[r->send].flags |= WEFT_POST_RECALLED;
    if (r->recv != NONE) ops->recvs[r->recv].flags |= WEFT_POST_RECALLED;
}

/* Who cancels an operation and asks for nothing wants none of it: it counts as cancelled, for else it would stand in the way
 * of those behind it. */
static void given_up(struct weft_post *p) {
    p->flags |= p->flags & WEFT_POST_RECALLED ? WEFT_POST_CANCELLED : WEFT_POST_FREED;
}

static void released(struct weft_ops *ops, uint64_t id) {
    struct request *r = request_of(ops, id);
    if (!r) return;
    if (r->send != NONE) given_up(&ops->sends[r->send]);
    if (r->recv != NONE) given_up(&ops->recvs[r->recv]);
    *r = (struct request){NONE, NONE, NONE, NONE};
}

static void complete_all(struct weft_ops *ops, uint64_t i, struct tail *t) {
    struct cursor ids = t->requests.at, statuses = t->statuses.at;
    struct status none = {0};
    for (uint64_t k = 0; k < t->requests.count; k++) {
        uint64_t id = read_u(&ids);
        struct status s = k < t->statuses.count ? read_status(&statuses) : none;
        complete(ops, id, i, s);
    }
}

static uint64_t nth_request(struct tail *t, int64_t n) {
    struct cursor ids = t->requests.at;
    uint64_t id = 0;
    if (n < 0 || (uint64_t)n >= t->requests.count) return 0;
    for (int64_t k = 0; k <= n; k++) id = read_u(&ids);
    return id;
}

static void complete_some(struct weft_ops *ops, uint64_t i, struct tail *t) {
    if (t->outcount <= 0) return;
    uint64_t *ids = malloc((t->requests.count + 1) * sizeof *ids);
    if (!ids) {
        ops->failed = true;
        return;
    }
    struct cursor at = t->requests.at, indices = t->indices.at, statuses = t->statuses.at;
    for (uint64_t k = 0; k < t->requests.count; k++) ids[k] = read_u(&at);
    struct status none = {0};
    int64_t index = 0;
    for (uint64_t k = 0; k < (uint64_t)t->outcount && k < t->indices.count; k++) {
        index += read_z(&indices);
        struct status s = k < t->statuses.count ? read_status(&statuses) : none;
        if (index >= 0 && (uint64_t)index < t->requests.count) complete(ops, ids[index], i, s);
    }
    free(ids);
}

static void new_request(struct weft_ops *ops, uint64_t id, uint32_t init, uint32_t send, uint32_t recv) {
    struct request *r = row(ops, &ops->requests, id, sizeof *r);
    if (r) *r = (struct request){init, send, recv, NONE};
}

/* ---- one call ---- */

static void collective_on_object(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    struct table *table = spec.flags & WEFT_SPEC_FILE ? &ops->files : &ops->windows;
    bool nonblocking = spec.flags & WEFT_SPEC_NONBLOCKING; /* then the slot's object is the request */
    uint64_t object = nonblocking ? read_tail(ops->in, i, spec, WEFT_ROLE_OBJECT).object : e->object;
    uint32_t *made = known_row(table, object, sizeof *made);
    uint32_t coll = made ? on_parent(ops, i, *made, e->function, post_flags(spec)) : NONE;
    if (coll == NONE || !nonblocking || !(e->flags & WEFT_FLAG_CLOSED)) return;
    struct request *r = row(ops, &ops->requests, e->object, sizeof *r);
    if (r) *r = (struct request){NONE, NONE, NONE, coll};
}

static void sendrecv(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    struct tail t = read_tail(ops->in, i, spec, WEFT_ROLE_SKIP);
    uint32_t send = post_send(ops, i, i, spec, WEFT_POST_HALF);
    struct pattern pattern = {t.source, t.recvtag};
    uint32_t recv = post_recv(ops, i, i, spec, pattern, WEFT_POST_HALF);
    if (!(e->flags & WEFT_FLAG_CLOSED)) return;
    if (spec.flags & WEFT_SPEC_NONBLOCKING) {
        new_request(ops, e->object, NONE, send, recv);
    } else if (recv != NONE) {
        complete_recv(ops, recv, (uint32_t)i, t.status);
    }
}

static void receive(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    uint32_t recv = post_recv(ops, i, i, spec, slot_pattern(e), 0);
    if (recv == NONE || !(e->flags & WEFT_FLAG_CLOSED)) return;
    if (spec.flags & WEFT_SPEC_NONBLOCKING) {
        new_request(ops, e->object, NONE, NONE, recv);
    } else {
        complete_recv(ops, recv, (uint32_t)i, slot_status(e));
    }
}

static void matched_probe(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    uint32_t recv = post_recv(ops, i, i, spec, slot_pattern(e), WEFT_POST_MATCHED_PROBE);
    if (recv == NONE || !(e->flags & WEFT_FLAG_CLOSED)) return;
    ops->recvs[recv].decided = (uint32_t)i;
    resolve(ops, &ops->recvs[recv], slot_status(e));
    uint32_t *message = row(ops, &ops->messages, e->object, sizeof *message);
    if (message) *message = recv;
}

static void matched_receive(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    bool nonblocking = spec.flags & WEFT_SPEC_NONBLOCKING;
    uint64_t id = nonblocking ? read_tail(ops->in, i, spec, WEFT_ROLE_OBJECT).object : e->object;
    uint32_t *message = known_row(&ops->messages, id, sizeof *message);
    if (!message || *message == NONE) return;
    struct weft_post *r = &ops->recvs[*message];
    r->args = (uint32_t)i;
    if (nonblocking) {
        r->flags |= WEFT_POST_NONBLOCKING;
        if (e->flags & WEFT_FLAG_CLOSED) new_request(ops, e->object, NONE, NONE, *message);
    } else if (e->flags & WEFT_FLAG_CLOSED) {
        r->completion = (uint32_t)i;
    }
    *message = NONE;
}

static void call(struct weft_ops *ops, uint64_t i, struct weft_spec spec) {
    const struct weft_event *e = &ops->in->events[i];
    bool closed = e->flags & WEFT_FLAG_CLOSED;
    if (spec.flags & WEFT_SPEC_FLAGGED && !(e->flags & WEFT_FLAG_TRUE)) return;
    switch (spec.op) {
    case WEFT_OP_SEND: {
        uint32_t send = post_send(ops, i, i, spec, 0);
        if (closed && spec.flags & WEFT_SPEC_NONBLOCKING) new_request(ops, e->object, NONE, send, NONE);
        return;
    }
    case WEFT_OP_RECV: receive(ops, i, spec); return;
    case WEFT_OP_SENDRECV: sendrecv(ops, i, spec); return;
    case WEFT_OP_PROBE: add_probe(ops, i, spec); return;
    case WEFT_OP_MPROBE: matched_probe(ops, i, spec); return;
    case WEFT_OP_MRECV: matched_receive(ops, i, spec); return;
    case WEFT_OP_SEND_INIT:
    case WEFT_OP_RECV_INIT:
        if (closed && !refused(e)) new_request(ops, e->object, (uint32_t)i, NONE, NONE);
        return;
    case WEFT_OP_COLL_INIT: {
        uint32_t coll = on_comm(ops, i, e->comm, WEFT_POST_INIT);
        struct request *r = closed ? row(ops, &ops->requests, e->object, sizeof *r) : NULL;
        if (r) *r = (struct request){(uint32_t)i, NONE, NONE, coll};
        return;
    }
    case WEFT_OP_START: start(ops, i, e->object); return;
    case WEFT_OP_STARTALL: {
        struct tail t = read_tail(ops->in, i, spec, WEFT_ROLE_SKIP);
        struct cursor ids = t.requests.at;
        for (uint64_t k = 0; k < t.requests.count; k++) start(ops, i, read_u(&ids));
        return;
    }
    case WEFT_OP_COLL: collective(ops, i, spec); return;
    case WEFT_OP_FINALIZE:
        if (e->buffer == WEFT_LEAVING) return; /* no call of the program */
        add_coll(ops, i, ops->in->world, NONE, ops->comm_calls[WEFT_ID_WORLD]++, e->function, 0);
        return;
    case WEFT_OP_COLL_OBJECT: collective_on_object(ops, i, spec); return;
    }
    if (!closed) return;
    switch (spec.op) {
    case WEFT_OP_WAIT: complete(ops, e->object, i, slot_status(e)); return;
    case WEFT_OP_GET_STATUS: peek(ops, e->object, i, slot_status(e)); return;
    case WEFT_OP_REQUEST_FREE: released(ops, e->object); return;
    case WEFT_OP_CANCEL: recalled(ops, e->object); return;
    case WEFT_OP_WAITALL: {
        struct tail t = read_tail(ops->in, i, spec, WEFT_ROLE_SKIP);
        complete_all(ops, i, &t);
        return;
    }
    case WEFT_OP_WAITANY: {
        struct tail t = read_tail(ops->in, i, spec, WEFT_ROLE_SKIP);
        complete(ops, nth_request(&t, t.index), i, slot_status(e));
        return;
    }
    case WEFT_OP_WAITSOME: {
        struct tail t = read_tail(ops->in, i, spec, WEFT_ROLE_SKIP);
        complete_some(ops, i, &t);
        return;
    }
    }
}

/* ---- the result ---- */

void weft_ops_free(struct weft_ops *ops) {
    if (!ops) return;
    free(ops->sends);
    free(ops->recvs);
    free(ops->probes);
    free(ops->colls);
    let_go(&ops->requests);
    let_go(&ops->messages);
    let_go(&ops->windows);
    let_go(&ops->files);
    free(ops->comm_calls);
    free(ops->coll_calls);
    free(ops);
}

static int by_ticket(const void *a, const void *b) {
    const struct weft_post *x = a, *y = b;
    if (x->ticket != y->ticket) return x->ticket < y->ticket ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* Threads post concurrently; a ticket says in which order MPI got the calls, the entry time does not. Posts without
 * a ticket keep their place among the others. */
static void sort_posts(struct weft_post *posts, uint64_t count) {
    uint64_t ticketed = 0;
    for (uint64_t i = 0; i < count; i++) ticketed += posts[i].ticket != NONE;
    if (ticketed < 2) return;
    struct weft_post *some = malloc(ticketed * sizeof *some);
    if (!some) return;
    for (uint64_t i = 0, k = 0; i < count; i++)
        if (posts[i].ticket != NONE) some[k++] = posts[i];
    qsort(some, ticketed, sizeof *some, by_ticket);
    for (uint64_t i = 0, k = 0; i < count; i++)
        if (posts[i].ticket != NONE) posts[i] = some[k++];
    free(some);
}

static uint64_t drop_cancelled(struct weft_post *posts, uint64_t count) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (posts[i].flags & WEFT_POST_CANCELLED) continue;
        if (kept != i) posts[kept] = posts[i];
        kept++;
    }
    return kept;
}

void weft_extract_most(const struct weft_extract_input *in, uint64_t most[4]) {
    uint64_t by_op[32] = {0}, started = 0;
    for (uint64_t i = 0; i < in->event_count; i++) {
        struct weft_spec spec = spec_of(in, &in->events[i]);
        by_op[spec.op & 31]++;
        if (spec.op == WEFT_OP_STARTALL) started += read_tail(in, i, spec, WEFT_ROLE_REQUESTS).requests.count;
    }
    started += by_op[WEFT_OP_START];
    most[0] = by_op[WEFT_OP_SEND] + by_op[WEFT_OP_SENDRECV] + started;
    most[1] = by_op[WEFT_OP_RECV] + by_op[WEFT_OP_SENDRECV] + by_op[WEFT_OP_MPROBE] + started;
    most[2] = by_op[WEFT_OP_PROBE];
    most[3] =
        by_op[WEFT_OP_COLL] + by_op[WEFT_OP_COLL_OBJECT] + by_op[WEFT_OP_COLL_INIT] + by_op[WEFT_OP_FINALIZE] + started;
}

/* Emptied for another rank, its memory kept: fresh memory costs more than reading a rank into it. */
static struct weft_ops *emptied(struct weft_ops *ops) {
    if (!ops) return calloc(1, sizeof *ops);
    ops->send_count = ops->recv_count = ops->probe_count = ops->coll_count = 0;
    forget(&ops->requests);
    forget(&ops->messages);
    forget(&ops->windows);
    forget(&ops->files);
    if (ops->coll_calls) memset(ops->coll_calls, 0, ops->coll_calls_room * sizeof(uint32_t));
    free(ops->comm_calls);
    return ops;
}

struct weft_ops *weft_extract(const struct weft_extract_input *in, struct weft_ops *used, uint64_t counts[4]) {
    struct weft_ops *ops = emptied(used);
    if (!ops) return NULL;
    ops->in = in;
    ops->comm_calls = calloc(in->comm_count > WEFT_ID_DYNAMIC ? in->comm_count : WEFT_ID_DYNAMIC, sizeof(uint32_t));
    if (!ops->comm_calls) ops->failed = true;
    for (uint64_t i = 0; i < in->event_count && !ops->failed; i++) {
        struct weft_spec spec = spec_of(in, &in->events[i]);
        if (spec.op != WEFT_OP_NONE) call(ops, i, spec);
    }
    if (ops->failed) {
        weft_ops_free(ops);
        return NULL;
    }
    ops->send_count = drop_cancelled(ops->sends, ops->send_count);
    ops->recv_count = drop_cancelled(ops->recvs, ops->recv_count);
    if (in->threads) {
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

void weft_ops_posts(const struct weft_ops *ops, int which, const struct weft_post_columns *to, uint64_t first) {
    const struct weft_post *posts = which == 0 ? ops->sends : which == 1 ? ops->recvs : ops->probes;
    uint64_t count = which == 0 ? ops->send_count : which == 1 ? ops->recv_count : ops->probe_count;
    for (uint64_t i = 0; i < count; i++) {
        const struct weft_post *p = &posts[i];
        to->event[first + i] = p->event;
        to->args[first + i] = p->args;
        to->completion[first + i] = p->completion;
        to->decided[first + i] = p->decided;
        to->comm[first + i] = p->comm;
        to->peer[first + i] = p->peer;
        to->tag[first + i] = p->tag;
        to->flags[first + i] = p->flags;
    }
}

void weft_ops_colls(const struct weft_ops *ops, const struct weft_coll_columns *to, uint64_t first) {
    for (uint64_t i = 0; i < ops->coll_count; i++) {
        const struct weft_coll *c = &ops->colls[i];
        to->event[first + i] = c->event;
        to->completion[first + i] = c->completion;
        to->comm[first + i] = c->comm;
        to->parent[first + i] = c->parent;
        to->ordinal[first + i] = c->ordinal;
        to->function[first + i] = c->function;
        to->flags[first + i] = c->flags;
    }
}
