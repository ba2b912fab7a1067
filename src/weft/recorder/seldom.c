/* One body for the functions of seldom.h: what a generated wrapper does, told by a table. */
#include "seldom.h"

__thread int weft_seldom_at;

typedef long word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word, word, word, word);

struct call {
    const struct weft_seldom *f;
    const struct weft_argument *arguments;
    word *words;
    struct weft_thread *thread;
    struct weft_event *event;
    MPI_Status *status;  /* that the MPI's own function gets */
    uintptr_t before;    /* the handle that the call frees */
    bool ok;
};

static word forward(void *to, const word *w) {
    return ((function)to)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13]);
}

/* ---- values ---- */
/* Returns the null handle of a class of objects. */
static uintptr_t null_handle(int class) {
    switch (class) {
    case WEFT_CLASS_COMM: return (uintptr_t)MPI_COMM_NULL;
    case WEFT_CLASS_DATATYPE: return (uintptr_t)MPI_DATATYPE_NULL;
    case WEFT_CLASS_GROUP: return (uintptr_t)MPI_GROUP_NULL;
    case WEFT_CLASS_OP: return (uintptr_t)MPI_OP_NULL;
    case WEFT_CLASS_REQUEST: return (uintptr_t)MPI_REQUEST_NULL;
    case WEFT_CLASS_WINDOW: return (uintptr_t)MPI_WIN_NULL;
    case WEFT_CLASS_FILE: return (uintptr_t)MPI_FILE_NULL;
    case WEFT_CLASS_INFO: return (uintptr_t)MPI_INFO_NULL;
    case WEFT_CLASS_ERRHANDLER: return (uintptr_t)MPI_ERRHANDLER_NULL;
    case WEFT_CLASS_MESSAGE: return (uintptr_t)MPI_MESSAGE_NULL;
#ifdef MPI_SESSION_NULL
    case WEFT_CLASS_SESSION: return (uintptr_t)MPI_SESSION_NULL;
#endif
    default: return 0;
    }
}

/* The value of a scalar, as it stands before the call or, for what comes out, after it. */
static WEFT_GIVEN int64_t value(const struct call *c, int i) {
    const struct weft_argument *a = &c->arguments[i];
    word w = c->words[i];
    if (!(a->traits & POINTED)) return a->traits & WIDE ? w : (int)w;
    const void *at = (const void *)w;
    if (!at) return a->form == IS_HANDLE ? (int64_t)null_handle(a->class) : 0;
    int small;
    int64_t large;
    if (a->traits & WIDE) {
        memcpy(&large, at, sizeof large);
        return large;
    }
    memcpy(&small, at, sizeof small);
    return small;
}

/* Returns an integer argument as the record stores it. */
static WEFT_GIVEN int64_t integer(const struct call *c, int i) {
    int64_t v = value(c, i);
    switch (c->arguments[i].form) {
    case IS_RANK: return weft_encode_rank((int)v);
    case IS_TAG: return weft_encode_tag((int)v);
    case IS_LOCK_TYPE: return weft_encode_lock_type((int)v);
    case IS_ASSERT: return weft_encode_assertion((int)v);
    default: return v;
    }
}

/* A handle argument as the type that its class has in this MPI, which may be a number or an address. */
#define HANDLE(type, v) ((type)(intptr_t)(v))

static MPI_Comm comm_of(const struct call *c) {
    return c->f->comm < 0 ? MPI_COMM_NULL : HANDLE(MPI_Comm, value(c, c->f->comm));
}

/* Returns the id of a handle argument. */
static WEFT_GIVEN uint32_t id(const struct call *c, int i) {
    const struct weft_argument *a = &c->arguments[i];
    int64_t v = value(c, i);
    if (a->class == WEFT_CLASS_REQUEST)
        return weft_find_request_id(HANDLE(MPI_Request, v),
                                    a->traits & POINTED ? (const MPI_Request *)c->words[i] : NULL);
    return weft_find_object_id(c->thread, a->class, (uintptr_t)v);
}

static WEFT_GIVEN bool is_root(const struct call *c) { return weft_is_root(comm_of(c), (int)value(c, c->f->root)); }

/* Returns the number of elements of an array argument. */
static WEFT_GIVEN int64_t length(const struct call *c, int i) {
    const struct weft_argument *a = &c->arguments[i];
    int64_t n = 0;
    const int *indexes;
    switch (a->length) {
    case OF_PEERS: n = weft_count_peers(comm_of(c)); break;
    case OF_ROOTS_PEERS: n = is_root(c) ? weft_count_peers(comm_of(c)) : 0; break;
    case OF_LOCAL: n = weft_count_local_ranks(comm_of(c)); break;
    case OF_INDEGREE: n = weft_count_sending_neighbours(comm_of(c)); break;
    case OF_OUTDEGREE: n = weft_count_receiving_neighbours(comm_of(c)); break;
    case OF_DIMENSIONS: n = weft_count_cart_dimensions(comm_of(c)); break;
    case OF_SUM: n = weft_sum_positive((int)value(c, a->more - 2), (const int *)c->words[a->more]); break;
    case OF_GRAPH_EDGES:
        n = value(c, a->more - 1);
        indexes = (const int *)c->words[a->more];
        n = n > 0 && indexes ? indexes[n - 1] : 0;
        break;
    case OF_RANGES: n = 3 * value(c, a->more); break;
    default: n = value(c, a->length);
    }
    return weft_positive_or_zero(n);
}

/* ---- the tail ---- */
/* Bytes that a part of the tail can take at most. */
static WEFT_GIVEN uint64_t bound(const struct call *c, int part) {
    uint64_t bytes = 34;
    for (int i = 0; i < c->f->n; i++) {
        const struct weft_argument *a = &c->arguments[i];
        if (a->place != AT_TAIL || !(a->traits & part)) continue;
        if (a->traits & ARRAY) bytes += 16 + 10 * (uint64_t)length(c, i);
        else bytes += a->form == IS_STRING || a->form == IS_ROOTS_STRING ? 8192 : a->form == IS_STATUS ? 48 : 10;
    }
    return bytes;
}

/* Writes an array argument into the end of the event's record (its tail). */
static WEFT_GIVEN void array(const struct call *c, int i, struct weft_text *text) {
    const struct weft_argument *a = &c->arguments[i];
    const void *at = (const void *)c->words[i];
    bool none = !c->ok || !at;
    if (a->traits & WEIGHTS) none |= at == (const void *)MPI_UNWEIGHTED || at == (const void *)MPI_WEIGHTS_EMPTY;
    int64_t n = none ? 0 : length(c, i);
    size_t size = a->traits & WIDE ? sizeof(int64_t) : sizeof(int);
    if (a->class == WEFT_CLASS_REQUEST) weft_write_requests(text, n, at);
    else if (a->form == IS_HANDLE) weft_write_handles(text, a->class, n, at, size);
    else if (a->form == IS_RANK) weft_write_ranks(text, n, at);
    else weft_write_numbers(text, n, at, size);
}

/* The argument whose place the value of an attribute came to, where it has one. */
static WEFT_GIVEN const void *attribute(const struct call *c, int i) {
    bool given = c->ok && c->words[i];
    if (c->f->flag >= 0) given = given && *(const int *)c->words[c->f->flag];
    return given ? *(void **)c->words[i] : NULL;
}

/* One value of the tail. After a failed call (`ok` false) an output is 0. */
static WEFT_GIVEN void tell(const struct call *c, int i, int part, struct weft_text *text) {
    const struct weft_argument *a = &c->arguments[i];
    bool after = part == EXIT;
    if (a->traits & ARRAY) array(c, i, text);
    else if (a->form == IS_STRING) weft_write_string(text, c->ok ? (const char *)c->words[i] : NULL);
    else if (a->form == IS_ROOTS_STRING) weft_write_string(text, is_root(c) ? (const char *)c->words[i] : NULL);
    else if (a->form == IS_STATUS) {
        const MPI_Status *status = a->traits & OUT ? c->status : (const MPI_Status *)c->words[i];
        enum weft_status_fields fields = a->traits & OUT ? c->f->fields : WEFT_STATUS_MESSAGE;
        bool set = after ? c->ok : status && status != MPI_STATUS_IGNORE;
        weft_write_status(text, status, set ? fields : WEFT_STATUS_NOTHING);
    } else if (a->form == IS_HANDLE) weft_write_unsigned(text, c->ok ? id(c, i) : 0);
    else if (a->form == IS_ADDRESS)
        weft_write_address(text, after ? attribute(c, i) : (const void *)c->words[i], c->event);
    else weft_write_signed(text, c->ok ? integer(c, i) : 0);
}

static WEFT_GIVEN void tell_all(const struct call *c, int part, struct weft_text *text) {
    for (int i = 0; i < c->f->n; i++)
        if (c->arguments[i].place == AT_TAIL && c->arguments[i].traits & part) tell(c, i, part, text);
}

/* ---- before the call ---- */
/* Writes an argument into the fixed fields of the event, before the call. */
static WEFT_GIVEN void fill(struct call *c, int i) {
    struct weft_event *event = c->event;
    const struct weft_argument *a = &c->arguments[i];
    bool receives = c->f->manners & RECEIVES;
    if (a->form == IS_HANDLE && a->traits & FREED) c->before = (uintptr_t)value(c, i);
    switch (a->place) {
    case AT_BUFFER: event->buffer = weft_encode_address((const void *)c->words[i]); break;
    case AT_COMM: event->comm = id(c, i); break;
    case AT_DATATYPE: event->datatype = id(c, i); break;
    case AT_COUNT: event->count = weft_encode_count(value(c, i)); break;
    case AT_PEER:
        event->peer = weft_encode_rank((int)value(c, i));
        if (receives && (int)value(c, i) == MPI_ANY_SOURCE) event->flags |= WEFT_FLAG_ANY_SOURCE;
        break;
    case AT_TAG:
        event->tag = weft_encode_tag((int)value(c, i));
        if (receives && (int)value(c, i) == MPI_ANY_TAG) event->flags |= WEFT_FLAG_ANY_TAG;
        break;
    case AT_TAG_ID: event->tag = (int32_t)id(c, i); break;
    case AT_OBJECT:
        if (!(a->traits & OUT)) event->object = id(c, i);
        break;
    default: break;
    }
}

/* Writes the arguments that are known before the call into the end of the event's record (its tail). */
static WEFT_GIVEN void entry(const struct call *c) {
    bool large = c->f->count >= 0 && c->event->count == INT32_MAX;
    if (!(c->f->manners & HAS_TAIL || weft_threaded || large)) return;
    struct weft_text text = weft_begin_entry_tail(c->thread, c->event, bound(c, ENTRY));
    if (large) weft_write_signed(&text, value(c, c->f->count));
    tell_all(c, ENTRY, &text);
    weft_end_tail(c->thread, &text);
}

/* ---- after a successful call: the tables of objects ---- */
/* Begins to watch the buffer of the operation whose request the call has made. */
static WEFT_GIVEN void watch(const struct call *c, struct weft_pending *pending, MPI_Request request) {
    const struct weft_seldom *f = c->f;
    if (f->watching == NO_WATCH || (f->watching == WATCH_AT_ROOT && !weft_is_root(comm_of(c), (int)value(c, f->root))))
        return;
    const void *buffer = (const void *)c->words[f->buffer];
    int64_t amount = value(c, f->amount);
    MPI_Datatype type = HANDLE(MPI_Datatype, value(c, f->datatype));
    if (c->event->peer == WEFT_RANK_PROC_NULL && f->watching != WATCH_AT_ROOT)
        return; /* nothing is sent, nothing comes */
    if (f->watching == WATCH_RECEIVE)
        weft_watch_received_buffer(pending, c->event->site, buffer, amount, type, request);
    else weft_watch_sent_buffer(pending, c->event->site, buffer, amount, type);
}

/* Defines a datatype that the call has made. */
static WEFT_GIVEN void made_datatype(const struct call *c, MPI_Datatype made) {
    MPI_Datatype one = MPI_DATATYPE_NULL;
    const MPI_Datatype *of = &one;
    int64_t n = 0;
    for (int i = 0; i < c->f->n && !n; i++) {
        const struct weft_argument *a = &c->arguments[i];
        if (a->class != WEFT_CLASS_DATATYPE || a->traits & OUT) continue;
        n = a->traits & ARRAY ? length(c, i) : 1;
        if (a->traits & ARRAY) of = (const MPI_Datatype *)c->words[i];
        else one = HANDLE(MPI_Datatype, value(c, i));
    }
    weft_define_datatype(made, n, of);
}

/* Of a call that sends one message and receives another: the last argument of a form, which is the receive's. */
static WEFT_GIVEN int of_receive(const struct call *c, int form) {
    int i = c->f->n - 1;
    while (i > 0 && c->arguments[i].form != form) i--;
    return (int)value(c, i);
}

static bool receives_any(const struct call *c) {
    return of_receive(c, IS_RANK) == MPI_ANY_SOURCE || of_receive(c, IS_TAG) == MPI_ANY_TAG;
}

/* Records its message (rings.c), known by its status, by what it asked for, or once its request is complete. */
static void record_message(const struct call *c) {
    if (c->f->status >= 0) weft_record_received_message_now(c->thread, c->event, c->status);
    else if (!receives_any(c))
        weft_record_named_message(c->thread, c->event, of_receive(c, IS_RANK), of_receive(c, IS_TAG));
}

/* Defines the object that the call has made, or keeps its request. */
static void made(const struct call *c, int i) {
    const struct weft_argument *a = &c->arguments[i];
    uintptr_t handle = (uintptr_t)value(c, i);
    if (a->class == WEFT_CLASS_REQUEST && !(c->f->manners & GETTER)) {
        struct weft_pending pending = {.function = c->f->function,
                                       .persistent = c->f->manners & PERSISTENT,
                                       .status = c->f->request,
                                       .place = (const MPI_Request *)c->words[i]};
        watch(c, &pending, HANDLE(MPI_Request, handle));
#ifdef OPEN_MPI
        if (weft_keep && c->f->manners & PAIRS && receives_any(c))
            weft_record_message_at_completion(&pending, c->thread, c->event);
#endif
        c->event->object = weft_add_request(HANDLE(MPI_Request, handle), &pending);
        return;
    }
    if (!(c->f->manners & GETTER)) {
        switch (a->class) {
        case WEFT_CLASS_COMM: weft_define_comm(c->f->function, comm_of(c), HANDLE(MPI_Comm, handle), "", 0); break;
        case WEFT_CLASS_DATATYPE: made_datatype(c, HANDLE(MPI_Datatype, handle)); break;
        case WEFT_CLASS_GROUP: weft_define_group(HANDLE(MPI_Group, handle)); break;
        case WEFT_CLASS_OP: weft_define_op(HANDLE(MPI_Op, handle)); break;
        default: weft_assign_object_id(a->class, handle);
        }
    }
    if (a->place == AT_OBJECT) c->event->object = id(c, i);
}

/* Forgets the object that the call has freed. */
static void freed(const struct call *c, int i) {
    const struct weft_event *event = c->event;
    const uint8_t place = c->arguments[i].place;
    uint32_t known = place == AT_COMM       ? event->comm
                     : place == AT_DATATYPE ? event->datatype
                     : place == AT_TAG_ID   ? (uint32_t)event->tag
                                            : event->object;
    weft_forget_object(c->arguments[i].class, c->before, known);
}

/* Defines and forgets the objects that a successful call has made and freed. */
static void objects(const struct call *c) {
    for (int i = 0; i < c->f->n; i++) {
        const struct weft_argument *a = &c->arguments[i];
        if (a->form != IS_HANDLE || a->traits & ARRAY) continue;
        if (a->traits & OUT) made(c, i);
        else if (a->traits & FREED) freed(c, i);
    }
}

/* ---- after the call ---- */
/* Records the results of the call, and closes its event. */
static WEFT_GIVEN void leave(struct call *c, word result, uint64_t now) {
    struct weft_event *event = c->event;
    const struct weft_seldom *f = c->f;
    c->ok = (int)result == MPI_SUCCESS;
    bool flag = c->ok && f->flag >= 0 && *(const int *)c->words[f->flag];
    if (flag) event->flags |= WEFT_FLAG_TRUE;
    if (c->ok) objects(c);
    if (weft_keep && c->ok && f->manners & PAIRS) record_message(c);
    bool leaving = false;
    for (int i = 0; i < f->n; i++) leaving |= c->arguments[i].place == AT_TAIL && c->arguments[i].traits & EXIT;
    bool in_slot = f->status >= 0 && c->arguments[f->status].place == AT_NONE;
    uint64_t bytes = 0;
    if (in_slot && c->ok && (f->flag < 0 || flag))
        bytes = f->fields == WEFT_STATUS_COUNT ? weft_fill_event_from_file_status(event, c->status)
                : f->manners & TAG_ASKED       ? weft_fill_unnamed_from_status(event, c->status)
                                               : weft_fill_event_from_status(event, c->status);
    if (leaving) {
        struct weft_text text = weft_continue_tail(c->thread, bound(c, EXIT));
        tell_all(c, EXIT, &text);
        if (in_slot) weft_write_unsigned(&text, bytes);
        weft_end_tail(c->thread, &text);
    } else if (in_slot) weft_write_received_bytes(c->thread, event, bytes, false);
    weft_close_event(event, now, (int)result);
}

/* What makes two calls equal: numbers, handles and statuses that go in, and no address. */
static WEFT_GIVEN uint64_t key_of(const struct call *c) {
    uint64_t key = 0;
    for (int i = 0; i < c->f->n; i++) {
        const struct weft_argument *a = &c->arguments[i];
        if (a->traits & OUT || a->form == IS_ADDRESS) continue;
        key ^= weft_mix_bits(
            a->form == IS_STATUS ? weft_hash_status((const MPI_Status *)c->words[i]) : (uint64_t)value(c, i), i);
    }
    return key;
}

WEFT_HIDDEN WEFT_GIVEN word weft_record_generic_call(word, word, word, word, word, word, word, word, word, word, word,
                                                     word, word, word);
/* Is the wrapper of all functions that have none of their own: records the call and makes it, as their line of the
 * table says. */
word weft_record_generic_call(word w0, word w1, word w2, word w3, word w4, word w5, word w6, word w7, word w8, word w9,
                              word w10, word w11, word w12, word w13) {
    word words[WEFT_WORDS] = {w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13};
    const struct weft_seldom *f = &weft_seldoms[weft_seldom_at];
    void *site = __builtin_return_address(0);
    struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) =
        f->manners & ENQUIRY && weft_is_own_call_of_binding(site, f->k) ? NULL : weft_enter_call(site);
    struct call c = {.f = f, .arguments = &weft_seldom_arguments[f->first], .words = words, .ok = true};
    uint64_t key = 0;
    uint32_t at = 0;
    word failed = MPI_SUCCESS;
    bool folds = thread && f->manners & FOLDED;
    if (folds && weft_is_repeated_call(thread, f->function, site, key = key_of(&c), INT32_MAX, &at)) {
        failed = forward(weft_under[f->k], words);
        if ((int)failed == MPI_SUCCESS) {
            weft_count_repeated_call(thread);
            return failed;
        }
    }
    struct weft_event *event = weft_begin_event_at_site(thread, f->function, site, at);
    if (!event) {
        if (weft_record_call_outside_mpi(f->k) && (thread = weft_enter_call(site)))
            event = weft_begin_event(thread, f->function, site);
        if (!event) return (int)failed != MPI_SUCCESS ? failed : forward(weft_next[f->k], words);
    }
    c.thread = thread;
    c.event = event;
    for (int i = 0; i < f->n; i++) fill(&c, i);
    if (event->buffer) weft_look_up_buffer_if_new(thread, event);
    MPI_Status own;
    word handed[WEFT_WORDS];
    memcpy(handed, words, sizeof words);
    if (f->status >= 0) {
        c.status = (MPI_Status *)words[f->status];
        if (c.status == MPI_STATUS_IGNORE) c.status = memset(&own, 0, sizeof own);
        handed[f->status] = (word)c.status;
    }
    bool posts = f->manners & POSTS;
    if (UNLIKELY(weft_threaded) && posts) weft_lock_posting();
    entry(&c);
    weft_publish_event(thread, event);
    word result = (int)failed != MPI_SUCCESS ? failed : forward(weft_under[f->k], handed);
    if (UNLIKELY(weft_threaded) && posts) weft_unlock_posting();
    leave(&c, result, weft_ticks(weft_clock_kind));
    if (folds && (int)result == MPI_SUCCESS) weft_begin_counting_repeats(thread, event, key);
    return result;
}
