/* One body for the functions of seldom.h: what a generated wrapper does, controlled by a table. */
#include "seldom.h"

__thread int weft_seldom_at;

typedef long word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word, word, word, word);

struct call { /* of a function of seldom.h that is under way */
    const struct weft_seldom *function;
    const struct weft_argument *arguments;
    word *words;
    struct weft_thread *thread;
    struct weft_event *event;
    MPI_Status *status;  /* that the MPI's own function gets */
    uintptr_t before;    /* the handle that the call frees */
    bool ok;
};

/* Call a function of MPI with the words of a call, and return its result. */
static word call_function(void *function_address, const word *words) {
    return ((function)function_address)(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7],
                                        words[8], words[9], words[10], words[11], words[12], words[13]);
}

/* ---- values ---- */
/* Return the null handle of a class of objects. */
static uintptr_t find_null_handle(int class) {
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

/* Return the value of argument `i`, as it stands before the call or, for what comes out, after it. */
static WEFT_GIVEN int64_t read_argument(const struct call *call, int i) {
    const struct weft_argument *argument = &call->arguments[i];
    word argument_word = call->words[i];
    if (!(argument->traits & POINTED)) return argument->traits & WIDE ? argument_word : (int)argument_word;
    const void *address = (const void *)argument_word;
    if (!address) return argument->form == IS_HANDLE ? (int64_t)find_null_handle(argument->class) : 0;
    int small;
    int64_t large;
    if (argument->traits & WIDE) {
        memcpy(&large, address, sizeof large);
        return large;
    }
    memcpy(&small, address, sizeof small);
    return small;
}

/* Return integer argument `i` as the record stores it. */
static WEFT_GIVEN int64_t encode_argument(const struct call *call, int i) {
    int64_t value = read_argument(call, i);
    switch (call->arguments[i].form) {
    case IS_RANK: return weft_encode_rank((int)value);
    case IS_TAG: return weft_encode_tag((int)value);
    case IS_LOCK_TYPE: return weft_encode_lock_type((int)value);
    case IS_ASSERT: return weft_encode_assertion((int)value);
    default: return value;
    }
}

/* A handle argument as the type that its class has in this MPI, which may be a number or an address. */
#define HANDLE(type, v) ((type)(intptr_t)(v))

/* Return the communicator that the call names, MPI_COMM_NULL if it names none. */
static MPI_Comm find_comm_argument(const struct call *call) {
    return call->function->comm < 0 ? MPI_COMM_NULL : HANDLE(MPI_Comm, read_argument(call, call->function->comm));
}

/* Return the id of the object that handle argument `i` names. */
static WEFT_GIVEN uint32_t find_argument_id(const struct call *call, int i) {
    const struct weft_argument *argument = &call->arguments[i];
    int64_t value = read_argument(call, i);
    if (argument->class == WEFT_CLASS_REQUEST)
        return weft_find_request_id(HANDLE(MPI_Request, value),
                                    argument->traits & POINTED ? (const MPI_Request *)call->words[i] : NULL);
    return weft_find_object_id(call->thread, argument->class, (uintptr_t)value);
}

/* Return whether this process is the root of the call. */
static WEFT_GIVEN bool is_call_root(const struct call *call) {
    return weft_is_root(find_comm_argument(call), (int)read_argument(call, call->function->root));
}

/* Return the number of elements of array argument `i`. */
static WEFT_GIVEN int64_t count_array_elements(const struct call *call, int i) {
    const struct weft_argument *argument = &call->arguments[i];
    int64_t count = 0;
    const int *indexes;
    switch (argument->length) {
    case OF_PEERS: count = weft_count_peers(find_comm_argument(call)); break;
    case OF_ROOTS_PEERS: count = is_call_root(call) ? weft_count_peers(find_comm_argument(call)) : 0; break;
    case OF_LOCAL: count = weft_count_local_ranks(find_comm_argument(call)); break;
    case OF_INDEGREE: count = weft_count_sending_neighbours(find_comm_argument(call)); break;
    case OF_OUTDEGREE: count = weft_count_receiving_neighbours(find_comm_argument(call)); break;
    case OF_DIMENSIONS: count = weft_count_cart_dimensions(find_comm_argument(call)); break;
    case OF_SUM:
        count =
            weft_sum_positive((int)read_argument(call, argument->more - 2), (const int *)call->words[argument->more]);
        break;
    case OF_GRAPH_EDGES:
        count = read_argument(call, argument->more - 1);
        indexes = (const int *)call->words[argument->more];
        count = count > 0 && indexes ? indexes[count - 1] : 0;
        break;
    case OF_RANGES: count = 3 * read_argument(call, argument->more); break;
    default: count = read_argument(call, argument->length);
    }
    return weft_positive_or_zero(count);
}

/* ---- the tail ---- */
/* Return how many bytes the arguments take at most that are written after the event's fixed fields (its tail), before
 * the call (`part`: ENTRY) or after it (EXIT). */
static WEFT_GIVEN uint64_t bound_tail_bytes(const struct call *call, int part) {
    uint64_t bytes = 34;
    for (int i = 0; i < call->function->n; i++) {
        const struct weft_argument *argument = &call->arguments[i];
        if (argument->place != AT_TAIL || !(argument->traits & part)) continue;
        if (argument->traits & ARRAY) bytes += 16 + 10 * (uint64_t)count_array_elements(call, i);
        else
            bytes += argument->form == IS_STRING || argument->form == IS_ROOTS_STRING ? 8192
                     : argument->form == IS_STATUS                                    ? 48
                                                                                      : 10;
    }
    return bytes;
}

/* Write array argument `i` after the event's fixed fields; an empty one after a failed call. */
static WEFT_GIVEN void write_array_argument(const struct call *call, int i, struct weft_text *text) {
    const struct weft_argument *argument = &call->arguments[i];
    const void *elements = (const void *)call->words[i];
    bool is_empty = !call->ok || !elements;
    if (argument->traits & WEIGHTS)
        is_empty |= elements == (const void *)MPI_UNWEIGHTED || elements == (const void *)MPI_WEIGHTS_EMPTY;
    int64_t n = is_empty ? 0 : count_array_elements(call, i);
    size_t size = argument->traits & WIDE ? sizeof(int64_t) : sizeof(int);
    if (argument->class == WEFT_CLASS_REQUEST) weft_write_requests(text, n, elements);
    else if (argument->form == IS_HANDLE) weft_write_handles(text, argument->class, n, elements, size);
    else if (argument->form == IS_RANK) weft_write_ranks(text, n, elements);
    else weft_write_numbers(text, n, elements, size);
}

/* Return the address that the call has stored in its argument `i`, as MPI_Win_get_attr does; NULL if it has stored
 * none. */
static WEFT_GIVEN const void *read_attribute_address(const struct call *call, int i) {
    bool is_stored = call->ok && call->words[i];
    if (call->function->flag >= 0) is_stored = is_stored && *(const int *)call->words[call->function->flag];
    return is_stored ? *(void **)call->words[i] : NULL;
}

/* Write argument `i` after the event's fixed fields, before the call (`part`: ENTRY) or after it (EXIT). After a
 * failed call an output is written as 0. */
static WEFT_GIVEN void write_argument(const struct call *call, int i, int part, struct weft_text *text) {
    const struct weft_argument *argument = &call->arguments[i];
    bool is_after_call = part == EXIT;
    if (argument->traits & ARRAY) write_array_argument(call, i, text);
    else if (argument->form == IS_STRING) weft_write_string(text, call->ok ? (const char *)call->words[i] : NULL);
    else if (argument->form == IS_ROOTS_STRING)
        weft_write_string(text, is_call_root(call) ? (const char *)call->words[i] : NULL);
    else if (argument->form == IS_STATUS) {
        const MPI_Status *status = argument->traits & OUT ? call->status : (const MPI_Status *)call->words[i];
        enum weft_status_fields fields = argument->traits & OUT ? call->function->fields : WEFT_STATUS_MESSAGE;
        bool set = is_after_call ? call->ok : status && status != MPI_STATUS_IGNORE;
        weft_write_status(text, status, set ? fields : WEFT_STATUS_NOTHING);
    } else if (argument->form == IS_HANDLE) weft_write_unsigned(text, call->ok ? find_argument_id(call, i) : 0);
    else if (argument->form == IS_ADDRESS)
        weft_write_address(text, is_after_call ? read_attribute_address(call, i) : (const void *)call->words[i],
                           call->event);
    else weft_write_signed(text, call->ok ? encode_argument(call, i) : 0);
}

/* Write all arguments that go after the event's fixed fields, before the call (`part`: ENTRY) or after it (EXIT). */
static WEFT_GIVEN void write_arguments(const struct call *call, int part, struct weft_text *text) {
    for (int i = 0; i < call->function->n; i++)
        if (call->arguments[i].place == AT_TAIL && call->arguments[i].traits & part)
            write_argument(call, i, part, text);
}

/* ---- before the call ---- */
/* Write argument `i` into the fixed fields of the event, before the call, if it has a field there. */
static WEFT_GIVEN void fill_event_field(struct call *call, int i) {
    struct weft_event *event = call->event;
    const struct weft_argument *argument = &call->arguments[i];
    bool receives = call->function->manners & RECEIVES;
    if (argument->form == IS_HANDLE && argument->traits & FREED) call->before = (uintptr_t)read_argument(call, i);
    switch (argument->place) {
    case AT_BUFFER: event->buffer = weft_encode_address((const void *)call->words[i]); break;
    case AT_COMM: event->comm = find_argument_id(call, i); break;
    case AT_DATATYPE: event->datatype = find_argument_id(call, i); break;
    case AT_COUNT: event->count = weft_encode_count(read_argument(call, i)); break;
    case AT_PEER:
        event->peer = weft_encode_rank((int)read_argument(call, i));
        if (receives && (int)read_argument(call, i) == MPI_ANY_SOURCE) event->flags |= WEFT_FLAG_ANY_SOURCE;
        break;
    case AT_TAG:
        event->tag = weft_encode_tag((int)read_argument(call, i));
        if (receives && (int)read_argument(call, i) == MPI_ANY_TAG) event->flags |= WEFT_FLAG_ANY_TAG;
        break;
    case AT_TAG_ID: event->tag = (int32_t)find_argument_id(call, i); break;
    case AT_OBJECT:
        if (!(argument->traits & OUT)) event->object = find_argument_id(call, i);
        break;
    default: break;
    }
}

/* Write the arguments that are known before the call, and have no fixed field in the event, after its fixed fields
 * (its tail). */
static WEFT_GIVEN void write_entry_tail(const struct call *call) {
    bool large = call->function->count >= 0 && call->event->count == INT32_MAX;
    if (!(call->function->manners & HAS_TAIL || weft_threaded || large)) return;
    struct weft_text text = weft_begin_entry_tail(call->thread, call->event, bound_tail_bytes(call, ENTRY));
    if (large) weft_write_signed(&text, read_argument(call, call->function->count));
    write_arguments(call, ENTRY, &text);
    weft_end_tail(call->thread, &text);
}

/* ---- after a successful call: the tables of objects ---- */
/* Begin to watch the buffer of the operation whose request the call has made. */
static WEFT_GIVEN void watch_request_buffer(const struct call *call, struct weft_pending *pending,
                                            MPI_Request request) {
    const struct weft_seldom *function = call->function;
    if (function->watching == NO_WATCH ||
        (function->watching == WATCH_AT_ROOT &&
         !weft_is_root(find_comm_argument(call), (int)read_argument(call, function->root))))
        return;
    const void *buffer = (const void *)call->words[function->buffer];
    int64_t count = read_argument(call, function->amount);
    MPI_Datatype type = HANDLE(MPI_Datatype, read_argument(call, function->datatype));
    if (call->event->peer == WEFT_RANK_PROC_NULL && function->watching != WATCH_AT_ROOT)
        return; /* nothing is sent, nothing comes */
    if (function->watching == WATCH_RECEIVE)
        weft_watch_received_buffer(pending, call->event->site, buffer, count, type, request);
    else weft_watch_sent_buffer(pending, call->event->site, buffer, count, type);
}

/* Define a datatype that the call has made, with the types that it was given. */
static WEFT_GIVEN void define_made_datatype(const struct call *call, MPI_Datatype made) {
    MPI_Datatype one = MPI_DATATYPE_NULL;
    const MPI_Datatype *types = &one;
    int64_t n = 0;
    for (int i = 0; i < call->function->n && !n; i++) {
        const struct weft_argument *argument = &call->arguments[i];
        if (argument->class != WEFT_CLASS_DATATYPE || argument->traits & OUT) continue;
        n = argument->traits & ARRAY ? count_array_elements(call, i) : 1;
        if (argument->traits & ARRAY) types = (const MPI_Datatype *)call->words[i];
        else one = HANDLE(MPI_Datatype, read_argument(call, i));
    }
    weft_define_datatype(made, n, types);
}

/* Return the last argument of a form (IS_RANK or IS_TAG) of a call that sends one message and receives another: that of
 * the receive. */
static WEFT_GIVEN int read_receive_argument(const struct call *call, int form) {
    int i = call->function->n - 1;
    while (i > 0 && call->arguments[i].form != form) i--;
    return (int)read_argument(call, i);
}

/* Return whether a call that sends one message and receives another receives from any source or with any tag. */
static bool receives_from_any(const struct call *call) {
    return read_receive_argument(call, IS_RANK) == MPI_ANY_SOURCE || read_receive_argument(call, IS_TAG) == MPI_ANY_TAG;
}

/* Record the received message of a call that sends one and receives another (rings.c), by its status or by what it
 * asked for. One that is known only once its request is complete is recorded then. */
static void record_paired_message(const struct call *call) {
    if (call->function->status >= 0) weft_record_received_message_now(call->thread, call->event, call->status);
    else if (!receives_from_any(call))
        weft_record_named_message(call->thread, call->event, read_receive_argument(call, IS_RANK),
                                  read_receive_argument(call, IS_TAG));
}

/* Define the object that the call has made as argument `i`, or keep its request. */
static void define_made_object(const struct call *call, int i) {
    const struct weft_argument *argument = &call->arguments[i];
    uintptr_t handle = (uintptr_t)read_argument(call, i);
    if (argument->class == WEFT_CLASS_REQUEST && !(call->function->manners & GETTER)) {
        struct weft_pending pending = {.function = call->function->function,
                                       .persistent = call->function->manners & PERSISTENT,
                                       .status = call->function->request,
                                       .place = (const MPI_Request *)call->words[i]};
        watch_request_buffer(call, &pending, HANDLE(MPI_Request, handle));
#ifdef OPEN_MPI
        if (weft_keep && call->function->manners & PAIRS && receives_from_any(call))
            weft_record_message_at_completion(&pending, call->thread, call->event);
#endif
        call->event->object = weft_add_request(HANDLE(MPI_Request, handle), &pending);
        return;
    }
    if (!(call->function->manners & GETTER)) {
        switch (argument->class) {
        case WEFT_CLASS_COMM:
            weft_define_comm(call->function->function, find_comm_argument(call), HANDLE(MPI_Comm, handle), "", 0);
            break;
        case WEFT_CLASS_DATATYPE: define_made_datatype(call, HANDLE(MPI_Datatype, handle)); break;
        case WEFT_CLASS_GROUP: weft_define_group(HANDLE(MPI_Group, handle)); break;
        case WEFT_CLASS_OP: weft_define_op(HANDLE(MPI_Op, handle)); break;
        default: weft_assign_object_id(argument->class, handle);
        }
    }
    if (argument->place == AT_OBJECT) call->event->object = find_argument_id(call, i);
}

/* Forget the object that the call has freed, its argument `i`. */
static void forget_freed_object(const struct call *call, int i) {
    const struct weft_event *event = call->event;
    const uint8_t place = call->arguments[i].place;
    uint32_t known = place == AT_COMM       ? event->comm
                     : place == AT_DATATYPE ? event->datatype
                     : place == AT_TAG_ID   ? (uint32_t)event->tag
                                            : event->object;
    weft_forget_object(call->arguments[i].class, call->before, known);
}

/* Define and forget the objects that a successful call has made and freed. */
static void define_and_forget_objects(const struct call *call) {
    for (int i = 0; i < call->function->n; i++) {
        const struct weft_argument *argument = &call->arguments[i];
        if (argument->form != IS_HANDLE || argument->traits & ARRAY) continue;
        if (argument->traits & OUT) define_made_object(call, i);
        else if (argument->traits & FREED) forget_freed_object(call, i);
    }
}

/* ---- after the call ---- */
/* Record the results of the call, and close its event. `now`: the time of its return, in ticks. */
static WEFT_GIVEN void record_results(struct call *call, word result, uint64_t now) {
    struct weft_event *event = call->event;
    const struct weft_seldom *function = call->function;
    call->ok = (int)result == MPI_SUCCESS;
    bool is_true = call->ok && function->flag >= 0 && *(const int *)call->words[function->flag];
    if (is_true) event->flags |= WEFT_FLAG_TRUE;
    if (call->ok) define_and_forget_objects(call);
    if (weft_keep && call->ok && function->manners & PAIRS) record_paired_message(call);
    bool leaving = false;
    for (int i = 0; i < function->n; i++)
        leaving |= call->arguments[i].place == AT_TAIL && call->arguments[i].traits & EXIT;
    bool in_slot = function->status >= 0 && call->arguments[function->status].place == AT_NONE;
    uint64_t bytes = 0;
    if (in_slot && call->ok && (function->flag < 0 || is_true))
        bytes = function->fields == WEFT_STATUS_COUNT ? weft_fill_event_from_file_status(event, call->status)
                : function->manners & TAG_ASKED       ? weft_fill_unnamed_from_status(event, call->status)
                                                      : weft_fill_event_from_status(event, call->status);
    if (leaving) {
        struct weft_text text = weft_continue_tail(call->thread, bound_tail_bytes(call, EXIT));
        write_arguments(call, EXIT, &text);
        if (in_slot) weft_write_unsigned(&text, bytes);
        weft_end_tail(call->thread, &text);
    } else if (in_slot) weft_write_received_size(call->thread, event, bytes, false);
    weft_close_event(event, now, (int)result);
}

/* Return a hash of what makes two calls equal: the numbers, handles and statuses that go in, and no address. */
static WEFT_GIVEN uint64_t hash_inputs(const struct call *call) {
    uint64_t hash = 0;
    for (int i = 0; i < call->function->n; i++) {
        const struct weft_argument *argument = &call->arguments[i];
        if (argument->traits & OUT || argument->form == IS_ADDRESS) continue;
        hash ^= weft_mix_bits(argument->form == IS_STATUS ? weft_hash_status((const MPI_Status *)call->words[i])
                                                          : (uint64_t)read_argument(call, i),
                              i);
    }
    return hash;
}

WEFT_HIDDEN WEFT_GIVEN word weft_record_generic_call(word, word, word, word, word, word, word, word, word, word, word,
                                                     word, word, word);
/* Serve as the wrapper of all functions that have none of their own: record the call and make it, as the function's
 * line of the table says. stubs.S has put its place in the table into weft_seldom_at. */
word weft_record_generic_call(word w0, word w1, word w2, word w3, word w4, word w5, word w6, word w7, word w8, word w9,
                              word w10, word w11, word w12, word w13) {
    word words[WEFT_WORDS] = {w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13};
    const struct weft_seldom *function = &weft_seldoms[weft_seldom_at];
    void *site = __builtin_return_address(0);
    struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) =
        function->manners & ENQUIRY && weft_is_own_call_of_binding(site, function->k) ? NULL : weft_enter_call(site);
    struct call call = {
        .function = function, .arguments = &weft_seldom_arguments[function->first], .words = words, .ok = true};
    uint64_t key = 0;
    uint32_t at = 0;
    word failed = MPI_SUCCESS;
    bool folds = thread && function->manners & FOLDED;
    if (folds && weft_is_repeated_call(thread, function->function, site, key = hash_inputs(&call), INT32_MAX, &at)) {
        failed = call_function(weft_under[function->k], words);
        if ((int)failed == MPI_SUCCESS) {
            weft_count_repeated_call(thread);
            return failed;
        }
    }
    struct weft_event *event = weft_begin_event_at_site(thread, function->function, site, at);
    if (!event) {
        if (weft_record_call_outside_mpi(function->k) && (thread = weft_enter_call(site)))
            event = weft_begin_event(thread, function->function, site);
        if (!event) return (int)failed != MPI_SUCCESS ? failed : call_function(weft_next[function->k], words);
    }
    call.thread = thread;
    call.event = event;
    for (int i = 0; i < function->n; i++) fill_event_field(&call, i);
    if (event->buffer) weft_look_up_buffer_if_new(thread, event);
    MPI_Status own;
    word handed[WEFT_WORDS];
    memcpy(handed, words, sizeof words);
    if (function->status >= 0) {
        call.status = (MPI_Status *)words[function->status];
        if (call.status == MPI_STATUS_IGNORE) call.status = memset(&own, 0, sizeof own);
        handed[function->status] = (word)call.status;
    }
    bool posts = function->manners & POSTS;
    if (UNLIKELY(weft_threaded) && posts) weft_lock_posting();
    write_entry_tail(&call);
    weft_publish_event(thread, event);
    word result = (int)failed != MPI_SUCCESS ? failed : call_function(weft_under[function->k], handed);
    if (UNLIKELY(weft_threaded) && posts) weft_unlock_posting();
    record_results(&call, result, weft_ticks(weft_clock_kind));
    if (folds && (int)result == MPI_SUCCESS) weft_begin_counting_repeats(thread, event, key);
    return result;
}
