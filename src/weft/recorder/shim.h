/* The recorder inside the program: what the generated wrappers, the handle tables and the call sites share.
 *
 * Life of a call: stub (stubs.S) -> weft_slots[k] -> generated wrapper weft_w_MPI_X -> weft_enter_call, fields of the
 * slot, entry part of the tail, publish -> the MPI's own function -> exit part, weft_close_event. Nothing here allocates
 * or locks on that path but the handle tables' uncontended spin locks and a new chunk now and then.
 *
 * If Weft fails, weft_recording falls to 0 and every wrapper only calls on.
 */
#ifndef WEFT_SHIM_H
#define WEFT_SHIM_H

#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#include <mpi.h>

#include "calls.h"
#include "names.h" /* generated: K_MPI_X, the index of each function */

/* The MPI's own function. */
#define REAL(name) ((__typeof__(&P##name))weft_next[K_##name])

/* ---- generated tables (wrappers.c) and stubs ---- */
extern WEFT_HIDDEN void *weft_slots[]; /* where each stub jumps: MPI_ names, then PMPI_ names */
extern WEFT_HIDDEN void *weft_next[]; /* the MPI's own functions */
extern WEFT_HIDDEN void *const weft_trace[]; /* wrappers of level trace */
extern WEFT_HIDDEN void *const weft_outcomes[]; /* wrappers of level outcomes, NULL: straight on */
extern WEFT_HIDDEN void *weft_under[]; /* what the wrappers of level trace call: weft_next, or a replay's */
extern WEFT_HIDDEN void *const weft_split[]; /* likewise with several threads, see threads.c */
extern WEFT_HIDDEN void *const weft_replayed[]; /* functions that a replay decides, NULL: MPI does */
extern WEFT_HIDDEN const char *const weft_names[];
extern WEFT_HIDDEN const int weft_count;
struct weft_variable {
    const char *name;
    void **address;
};
extern WEFT_HIDDEN const struct weft_variable weft_variables[];
extern WEFT_HIDDEN void *weft_fortran_slots[];
extern WEFT_HIDDEN const char *const weft_fortran_names[];
extern WEFT_HIDDEN const int weft_fortran_count;
extern WEFT_HIDDEN const char weft_soname[];
extern WEFT_HIDDEN __thread int weft_fortran_entry; /* and which entry it went to */
extern WEFT_HIDDEN const int16_t weft_fortran_calls[]; /* the function that an entry stands for, -1: none */

/* Return whether a Fortran binding makes the call of function `k` on its own account, not as the call that the program
 * asked for. */
WEFT_INLINE bool weft_is_own_call_of_binding(void *return_address, int k) {
    return weft_is_in_fortran_binding(return_address) &&
           (!weft_fortran_site || weft_fortran_calls[weft_fortran_entry] != k);
}

/* ---- arrays in tails ---- */
WEFT_HIDDEN void weft_write_ranks(struct weft_text *t, int64_t n, const int *ranks);
WEFT_HIDDEN void weft_write_handles(struct weft_text *t, int class, int64_t n, const void *handles, size_t size);
WEFT_HIDDEN void weft_write_requests(struct weft_text *t, int64_t n, const MPI_Request *requests);

/* ---- objects (objects.c) ---- */
WEFT_HIDDEN uint32_t weft_find_object_id(struct weft_thread *thread, int class, uintptr_t handle);
WEFT_COLD uint32_t weft_find_object_id_in_table(struct weft_thread *thread, int class, uintptr_t handle);
WEFT_HIDDEN uint32_t weft_assign_object_id(int class, uintptr_t handle); /* the handle names a new object from now on */
WEFT_HIDDEN void weft_forget_object(int class, uintptr_t handle, uint32_t id); /* if the handle still names `id` */
WEFT_COLD void weft_enter_predefined_objects(void);
WEFT_COLD void weft_define_world(void);
#ifdef MPI_SESSION_NULL
WEFT_COLD void weft_read_world_from_session(MPI_Session session);
#endif
WEFT_COLD void weft_reset_object_locks(void);
WEFT_COLD void weft_begin_locking_objects(void); /* a second thread is about to use the tables */

struct weft_comm {
    uint32_t id;
    int size, remote_size, rank; /* remote_size 0: intracommunicator */
    uint32_t children, windows;
    struct weft_group_made {
        uint64_t key;
        uint32_t n;
        struct weft_group_made *next;
    } *made;
};
WEFT_HIDDEN struct weft_comm *weft_find_comm(MPI_Comm comm);
/* Length of a per-process array of a collective on comm, and whether `root` makes it significant here. */
WEFT_HIDDEN int weft_count_peers(MPI_Comm comm);
WEFT_HIDDEN bool weft_is_root(MPI_Comm comm, int root);
WEFT_HIDDEN int weft_count_sending_neighbours(MPI_Comm comm);
WEFT_HIDDEN int weft_count_receiving_neighbours(MPI_Comm comm);

WEFT_COLD void weft_define_comm(uint16_t function, MPI_Comm parent, MPI_Comm made, const char *key, uint64_t group_key);
WEFT_COLD uint64_t weft_hash_group(MPI_Group group);
WEFT_COLD void weft_define_group(MPI_Group group);
WEFT_COLD void weft_define_datatype(MPI_Datatype type, int64_t given_count, const MPI_Datatype *given_types);
WEFT_COLD void weft_define_op(MPI_Op op);
WEFT_COLD void weft_define_window(MPI_Win made, MPI_Comm comm, int flavor, const void *base, int64_t size,
                                  int64_t unit);
WEFT_COLD void weft_define_file(MPI_File made, MPI_Comm comm, int amode, const char *name);
WEFT_COLD void weft_record_object_name(int class, uint32_t id, const char *name);
WEFT_COLD void weft_define_spawned_world(MPI_Comm intercomm);
extern WEFT_HIDDEN __thread char weft_spawn_name[64]; /* of the spawn that this thread is in as its root, or "" */

/* ---- requests ---- */
/* What of a status has a meaning, by what was completed (MPI-4.1, 3.2.5, 3.7.3, 3.8.4, 14.4.1). The rest is whatever stood
 * there, and is not recorded:
 *
 *                                             source, tag   count   cancelled
 *     collectives, one-sided, null requests
 *     sends                                                              x
 *     transfers of files                                     x
 *     receives, probes, generalized requests       x         x           x
 */
enum weft_status_fields { WEFT_STATUS_NOTHING, WEFT_STATUS_CANCELLED, WEFT_STATUS_COUNT, WEFT_STATUS_MESSAGE };
struct weft_pending { /* what a completion needs to know of its start */
    const void *buffer;
    uint64_t bytes; /* that are sent of a buffer under watch, else 0 */
    struct weft_blocks *blocks; /* of a send's, where its datatype has gaps (blocks.c) */
    uint64_t checksum; /* of a send's, where `summed` */
    struct weft_buffer_copies *seen; /* of a receive's */
    struct weft_request_buffers *parts; /* its buffers, where the program's accesses are seen (access.h) */
    MPI_Comm *made; /* nonblocking creation: where the new communicator's handle appears */
    union {
        struct {
            uint32_t made_id, parent_id, ordinal; /* counted at the call, as ranks may complete several in any order */
        };
        struct weft_call { /* `awaited`: whose message is recorded once it is there (rings.c) */
            uint32_t thread, number, comm;
        } call;
    };
    uint16_t function;
    bool awaited;
    bool summed, persistent,
        active; /* active: a persistent one that was started and is not complete, as far as it is watched */
    uint8_t status; /* enum weft_status_fields of the one that its completion sets */
    bool whole; /* all of it is looked at */
    uint32_t site;
    uint32_t id;
    struct weft_pending *next, *last, *cursor; /* the queue of one handle; last, cursor, stamp and doubt in its head */
    uint64_t stamp, given;
    uint32_t doubt; /* requests up to this id may have been completed by a guess for another */
    const MPI_Request *place; /* the variable that the call put the request into */
    MPI_Request handle;
    bool placed; /* in the buckets */
    struct weft_pending *same_bucket;
    const struct weft_thread *maker;
};
WEFT_COLD void weft_promise_comm_id(struct weft_pending *pending, MPI_Comm parent, MPI_Comm *made);
WEFT_HIDDEN uint32_t weft_add_request(MPI_Request request, const struct weft_pending *pending);
/* `place`: the variable that holds the request, NULL if it is not known. */
WEFT_HIDDEN uint32_t weft_find_request_id(MPI_Request request, const MPI_Request *place);
WEFT_HIDDEN void weft_restart_request(MPI_Request request);
struct weft_found_request {
    uint32_t id;
    uint8_t status; /* enum weft_status_fields */
    bool guessed;
};
WEFT_HIDDEN struct weft_found_request weft_find_request(MPI_Request request, const MPI_Request *place, uint64_t stamp);
/* For a call that completes all its requests: nothing is guessed where it has all that share a handle. */
WEFT_COLD void weft_clear_guesses_if_all_named(const MPI_Request *requests, bool *guessed, int64_t n, uint64_t stamp);
struct weft_request_end {
    const void *changed; /* the watched buffer, where the program wrote into it */
    bool guessed;
};
struct weft_request_result { /* how the call that completes a request went; status NULL: it says nothing of a message */
    bool ok, guessed;
    const MPI_Status *status;
};
WEFT_HIDDEN struct weft_request_end weft_end_request(uint32_t id, MPI_Request before, MPI_Request after,
                                                     struct weft_request_result ended);
/* Messages of a run with rings that the sort of a call does not tell of (rings.c). */
WEFT_COLD void weft_record_message_at_completion(struct weft_pending *pending, const struct weft_thread *thread,
                                                 const struct weft_event *event);
WEFT_COLD void weft_record_received_message(const struct weft_call *call, const MPI_Status *status);
WEFT_COLD void weft_record_received_message_now(const struct weft_thread *thread, const struct weft_event *event,
                                                const MPI_Status *status);
WEFT_COLD void weft_record_named_message(const struct weft_thread *thread, const struct weft_event *event, int source,
                                         int tag);
WEFT_HIDDEN uint64_t weft_make_stamp(struct weft_thread *thread);
/* A buffer that the operation reads, and one that it writes (buffers.c). */
WEFT_HIDDEN void weft_watch_sent_buffer(struct weft_pending *pending, uint32_t site, const void *buffer, int64_t count,
                                        MPI_Datatype type);
WEFT_HIDDEN void weft_watch_received_buffer(struct weft_pending *pending, uint32_t site, const void *buffer,
                                            int64_t count, MPI_Datatype type, MPI_Request request);
WEFT_HIDDEN void weft_watch_restarted_buffer(struct weft_pending *pending,
                                             MPI_Request request); /* a persistent operation under watch */
WEFT_HIDDEN void weft_copy_buffer_before_completion(
    const struct weft_pending *pending); /* a call asks whether the receive is complete */
WEFT_HIDDEN void weft_free_buffer_watch(struct weft_pending *pending); /* gives back what it has of the buffer */
/* Where the bytes of a datatype lie in an element (blocks.c): so many blocks, each as often as `times` says. */
struct weft_block_run {
    int64_t at, stride;
    uint64_t bytes, times;
};
struct weft_blocks {
    int64_t count, extent; /* elements of the buffer, and their distance */
    uint64_t bytes, blocks; /* of an element */
    int runs;
    struct weft_block_run run[];
};
WEFT_HIDDEN struct weft_blocks *weft_find_type_blocks(MPI_Datatype type,
                                                      int64_t count); /* NULL: not known, or too many */
WEFT_HIDDEN bool weft_has_no_gaps(const struct weft_blocks *blocks); /* element behind element, without gaps */
/* What lies from one of its bytes on, up to the end of the block. */
WEFT_HIDDEN struct weft_block_run weft_find_block_of_byte(const struct weft_blocks *blocks, uint64_t byte);
/* How a datatype was made. A type made by a large-count function has large counts beside the integers, and the old
 * enquiry refuses it. */
struct weft_envelope {
    int64_t ints, larges, addresses, types;
    int combiner;
};
WEFT_HIDDEN bool weft_read_type_envelope(MPI_Datatype type, struct weft_envelope *e);
WEFT_HIDDEN bool weft_read_type_arguments(MPI_Datatype type, const struct weft_envelope *e, int *i, MPI_Aint *a,
                                          MPI_Count *l, MPI_Datatype *t);
/* Of a type that came out of the contents of another: a derived one is to be freed (MPI-4.1, 5.1.13). */
WEFT_HIDDEN void weft_free_inner_type(MPI_Datatype *type);
WEFT_HIDDEN bool weft_has_buffer_changed(const struct weft_pending *pending);
/* Origin buffers of one-sided operations: which one, when a call is about to complete those to `target` (-1: all) and when
 * it has; the address of one that the program wrote into meanwhile, or NULL. */
extern WEFT_HIDDEN volatile int weft_origins; /* under watch now */
WEFT_HIDDEN void weft_watch_origin_buffer(MPI_Win window, int target, uint32_t site, const void *buffer, int64_t count,
                                          MPI_Datatype type, bool written_to);
WEFT_COLD void weft_check_origin_buffers_before_sync(MPI_Win window, int target);
WEFT_COLD const void *weft_end_origin_buffer_watch(MPI_Win window, int target);
/* A window's memory: what its process stores between two fences. */
WEFT_COLD void weft_begin_window_copies(MPI_Win window, uint32_t id, const void *base, int64_t size);
WEFT_COLD void weft_end_window_copies(MPI_Win window);
WEFT_HIDDEN void weft_copy_window_before_fence(MPI_Win window);
WEFT_HIDDEN void weft_compare_window_after_fence(MPI_Win window, uint32_t site);

/* What the access hooks call where they stand between a wrapper and MPI, else NULL. */
extern WEFT_HIDDEN void *weft_beneath[];
/* Return the slot from which function `k` of MPI itself is called, beneath wrapper, access hook and replay. */
WEFT_INLINE void **weft_find_lowest_slot(int k) { return weft_beneath[k] ? &weft_beneath[k] : &weft_under[k]; }

/* ---- the memory behind buffers (memory.c) ---- */
WEFT_COLD void weft_begin_window_block_watch(MPI_Win window, const void *base, int64_t size);
WEFT_COLD void weft_check_window_block(struct weft_thread *thread, MPI_Win window, uint32_t id, uint64_t enter);

/* ---- windows (windows.c) ---- */
struct weft_atomic_access { /* an atomic access that has just been started */
    MPI_Win window;
    int target;
    int64_t place, count;
    uint64_t begin;
    MPI_Datatype type;
    MPI_Op op; /* of MPI_Compare_and_swap: none, but `compare` */
    const void *operand, *compare;
    void *result; /* NULL: it fetches nothing */
    MPI_Request request; /* of the forms that have one */
    bool requested;
};
extern WEFT_HIDDEN volatile int weft_window_requests; /* accesses whose end a request tells */
WEFT_HIDDEN void weft_note_window(MPI_Win window);
WEFT_HIDDEN void weft_forget_window(MPI_Win window);
WEFT_HIDDEN void weft_note_window_lock(struct weft_thread *thread, MPI_Win window, int target, bool exclusive,
                                       uint64_t begin);
WEFT_HIDDEN void weft_end_window_lock(struct weft_thread *thread, MPI_Win window, int target);
WEFT_HIDDEN void weft_note_atomic_access(struct weft_thread *thread, const struct weft_atomic_access *did);
/* What this process has begun at the target is complete; `only_here`: its results are. Target -1: at all targets. */
WEFT_HIDDEN void weft_end_atomic_accesses(struct weft_thread *thread, MPI_Win window, int target, bool only_here);
WEFT_HIDDEN void weft_end_requested_access(struct weft_thread *thread, MPI_Request request);
/* The lock that this process has at the target, by its ordinal; -1: it has none, so the epoch is not a lock's. */
WEFT_HIDDEN int64_t weft_find_window_lock(MPI_Win window, int target);

/* ---- replay (replay.c, turns.c) ---- */
WEFT_COLD int weft_start_replay(const char *folder, int rank);
WEFT_COLD void weft_send_world_to_children(MPI_Comm children,
                                           uint32_t number); /* the process's number-th spawn, from 1 on */
/* Holds a call that is about to be made against the plan; parks at the goal, never returns from a divergence. */
WEFT_HIDDEN void weft_check_call_against_plan(struct weft_thread *thread, struct weft_event *event);

/* The result of a fetch, as recorded, before the program sees it. */
WEFT_HIDDEN void weft_replay_fetched_value(uint32_t made, uint32_t ordinal, void *result, uint8_t bytes);

/* As MPI_Wait, for a process that has little to wait for but others. */
WEFT_HIDDEN int weft_wait_by_testing(MPI_Request *request, MPI_Status *status);

/* In a process with several threads that call MPI: until it is this thread's turn to post, and after it has. */
WEFT_COLD void weft_await_posting_turn(void);
WEFT_COLD void weft_end_posting_turn(void);

/* ---- several threads (threads.c) ---- */
extern WEFT_HIDDEN __thread bool weft_posting; /* this thread holds the lock of posting */
WEFT_COLD void weft_lock_posting(void);
WEFT_COLD void weft_unlock_posting(void);
WEFT_COLD void weft_reset_posting_lock(void);

/* Return the address of a buffer as the record stores it; MPI_IN_PLACE has a fixed value there. */
WEFT_INLINE uint64_t weft_encode_address(const void *buffer) {
    return buffer == MPI_IN_PLACE ? WEFT_IN_PLACE : (uint64_t)(uintptr_t)buffer;
}

/* Return a rank as the record stores it, as MPI libraries number MPI_ANY_SOURCE and the like differently. */
WEFT_INLINE int32_t weft_encode_rank(int rank) {
    if (LIKELY(rank >= 0)) return rank;
    if (rank == MPI_ANY_SOURCE) return WEFT_RANK_ANY_SOURCE;
    if (rank == MPI_PROC_NULL) return WEFT_RANK_PROC_NULL;
    if (rank == MPI_ROOT) return WEFT_RANK_ROOT;
    return rank + WEFT_RANK_INVALID_BASE;
}

/* Return a tag as the record stores it. */
WEFT_INLINE int32_t weft_encode_tag(int tag) { return tag == MPI_ANY_TAG ? WEFT_TAG_ANY : tag; }

/* Write an address as its distance from the event's buffer. */
WEFT_INLINE void weft_write_address(struct weft_text *text, const void *address, const struct weft_event *event) {
    if (UNLIKELY(weft_attention)) weft_note_buffer_for_lookup(address);
    weft_write_signed(text, (int64_t)(weft_encode_address(address) - event->buffer));
}

/* ---- statuses ---- */
/* Return the size in bytes of the message whose status this is. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_read_status_bytes(const MPI_Status *status) {
#if defined(OPEN_MPI)
    return (uint64_t)status->_ucount;
#elif defined(MPICH_NUMVERSION) && !defined(MPI_ABI)
    return ((uint64_t)(status->count_hi_and_cancelled >> 1) << 32) | (uint32_t)status->count_lo;
#else
    MPI_Count bytes = 0;
    return REAL(MPI_Get_elements_x)(status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0 ? (uint64_t)bytes : 0;
#endif
}
/* Return whether a status says that its operation was cancelled. */
WEFT_INLINE WEFT_GIVEN bool weft_is_status_cancelled(const MPI_Status *status) {
#if defined(OPEN_MPI)
    return status->_cancelled != 0;
#elif defined(MPICH_NUMVERSION) && !defined(MPI_ABI)
    return status->count_hi_and_cancelled & 1;
#else
    int flag = 0;
    return REAL(MPI_Test_cancelled)(status, &flag) == MPI_SUCCESS && flag;
#endif
}

/* Return the bytes in the status of a transfer of a file, which has no source and tag; the event gets none. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_fill_event_from_file_status(struct weft_event *event, const MPI_Status *status) {
    event->peer = WEFT_RANK_ANY_SOURCE;
    event->tag = WEFT_TAG_ANY;
    return weft_read_status_bytes(status);
}

/* Write source and tag of a call's status into its event, and whether it was cancelled. Return the message's bytes,
 * which the caller writes. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_fill_event_from_status(struct weft_event *event, const MPI_Status *status) {
    event->peer = weft_encode_rank(status->MPI_SOURCE);
    event->tag = weft_encode_tag(status->MPI_TAG);
    if (UNLIKELY(weft_is_status_cancelled(status))) event->flags |= WEFT_FLAG_CANCELLED;
    return weft_read_status_bytes(status);
}

/* Write the status of a call that has completed a request into its event. `fields`: which fields of it have a meaning.
 * Return the message's bytes, which the caller writes. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_fill_event_from_completion(struct weft_event *event, const MPI_Status *status,
                                                                enum weft_status_fields fields) {
    if (LIKELY(fields == WEFT_STATUS_MESSAGE)) return weft_fill_event_from_status(event, status);
    if (fields == WEFT_STATUS_COUNT) return weft_fill_event_from_file_status(event, status);
    event->peer = event->tag = -1;
    if (fields == WEFT_STATUS_CANCELLED && weft_is_status_cancelled(status)) event->flags |= WEFT_FLAG_CANCELLED;
    return 0;
}

/* Write a call's status into its event as weft_fill_event_from_status does, but keep the source and tag that the call
 * itself names: after a receive from MPI_PROC_NULL the status has others. */
WEFT_INLINE WEFT_GIVEN uint64_t weft_fill_unnamed_from_status(struct weft_event *event, const MPI_Status *status) {
    int32_t peer = event->peer, tag = event->tag;
    uint64_t bytes = weft_fill_event_from_status(event, status);
    if (!(event->flags & WEFT_FLAG_ANY_SOURCE)) event->peer = peer;
    if (!(event->flags & WEFT_FLAG_ANY_TAG)) event->tag = tag;
    return bytes;
}

WEFT_HIDDEN void weft_write_status(struct weft_text *t, const MPI_Status *status, enum weft_status_fields fields);

#endif
