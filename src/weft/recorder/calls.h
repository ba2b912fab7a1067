/* A recorded call, whatever system it is a call of: its thread, its place, its slot and its tail.
 *
 * shim.h adds what is MPI's; weft/pvm/native has another recorder on top. What a system must give stands at the end.
 */
#ifndef WEFT_CALLS_H
#define WEFT_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WEFT_HIDDEN __attribute__((visibility("hidden")))
/* Small functions, inline where calls are frequent. Hundreds of wrappers are called seldom and compiled as small and fast
 * as can be: WEFT_LEAN, where they call the one copy of each that shared.c holds. The compiler would leave WEFT_HOT out of
 * the many generated wrappers, for the size of the whole. */
#if defined(WEFT_SHARED)
#define WEFT_INLINE extern inline WEFT_HIDDEN
#define WEFT_HOT WEFT_INLINE
#elif defined(WEFT_LEAN)
#define WEFT_INLINE inline WEFT_HIDDEN
#define WEFT_HOT WEFT_INLINE
#else
#define WEFT_INLINE static inline
#define WEFT_HOT static inline __attribute__((always_inline))
#endif
#include "../record.h"

#define WEFT_COLD __attribute__((cold, noinline, visibility("hidden")))
/* Reads what the program gave a call, as the MPI's own function does next: a fault there is the program's (crash.c). */
#define WEFT_GIVEN __attribute__((section("weft_given")))
/* Asks MPI, of its own accord, about what MPI itself has made and given: a fault in there is the recorder's (crash.c). */
#define WEFT_ASKS __attribute__((section("weft_asks"), noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

extern WEFT_HIDDEN __thread void *weft_fortran_site; /* return address of the Fortran call under way */

/* ---- parts of the recorder that can be left out (WEFT_WITHOUT) ---- */
enum weft_work {
    WEFT_WORK_NONE,
    WEFT_HEAP,
    WEFT_BUFFERS,
    WEFT_HASHES,
    WEFT_ACCESSES,
    WEFT_HALO,
    WEFT_LINES,
    WEFT_WORKS
};
extern WEFT_HIDDEN __thread int weft_work; /* the one that this thread is in: what crash.c tells of a fault */
extern WEFT_HIDDEN unsigned weft_left_out; /* bit 1 << work: the user leaves it out */
extern WEFT_HIDDEN const char *const weft_works[]; /* their names */
/* Note that this thread has left a part of the recorder; called at the end of WEFT_WORK's block. */
WEFT_INLINE void weft_restore_work(const int *before) { weft_work = *before; }
/* From here to the end of the block this thread is in a part. */
#define WEFT_WORK(part)                                                                                                \
    int work_before __attribute__((cleanup(weft_restore_work))) = weft_work;                                           \
    weft_work = part
/* Return whether the user leaves out a part of the recorder. */
WEFT_INLINE bool weft_is_left_out(enum weft_work part) { return weft_left_out >> part & 1; }

/* ---- threads ---- */
struct weft_cached {
    uintptr_t handle;
    uint32_t id;
    uint32_t generation;
};
enum { WEFT_CACHED = 16, WEFT_SITES_CACHED = 512, WEFT_BUFFERS_MET = 4, WEFT_SHAPES = 256 };

enum { WEFT_CALLERS = 6 };
/* `frame`: the stack's height at the call, 0 where callers are not looked at. Return address k of the callers lies
 * `slots[k]` bytes above it and is `returns[k]`: while that holds, the call came the same way. In Python `frame` is a
 * hash of the callers, which are instruction `returns[k]` of code `slots[k]`. */
struct weft_site_cached {
    uintptr_t address, frame;
    uint32_t code, offset, id, callers, ways, heights, slots[WEFT_CALLERS];
    uintptr_t returns[WEFT_CALLERS];
};

struct weft_thread {
    struct weft_stream events, tails, outcomes, windows, hashes, contents, received;
    struct weft_hashing *hashing; /* hashes.c; NULL: nothing hashed yet */
    uint32_t slot;
    uint64_t stamps; /* given out by weft_make_stamp */
    bool fresh; /* its call came a way that it had not come before, or with another buffer: */
    uint32_t met; /* so many buffers of it are looked at */
    uintptr_t buffers[WEFT_BUFFERS_MET];
    uint32_t shapes[WEFT_SHAPES]; /* by call site: address, elements and type of the last buffer, mixed */
    uint32_t made; /* weft_made, or WEFT_MADE_UNKNOWN */
    uint32_t accesses; /* locks and atomic accesses of windows so far */
    struct weft_thread *next_free;
    struct weft_event *fold; /* last event of the stream if equal calls would add to it, else NULL */
    uint64_t fold_key; /* of its arguments */
    struct weft_cached caches[WEFT_CLASS_END][WEFT_CACHED];
    struct weft_site_cached sites[WEFT_SITES_CACHED];
    uintptr_t stack_start, stack_end; /* 0: not asked for yet */
    void *scratch; /* statuses and handles of array calls; grows seldom */
    size_t scratch_size;
    struct weft_outcome_state {
        uint32_t kind;
        uint64_t polls;
        uint64_t seen_ticket;
        double wtime, wtick; /* what MPI_Wtime gave last; the clock's unit, 0: not asked yet */
    } outcome_state;
    struct weft_replay *replay; /* where it is in the plan that it follows, NULL: nowhere yet */
};

extern WEFT_HIDDEN __thread struct weft_thread *weft_self;
extern WEFT_HIDDEN __thread int weft_depth;
extern WEFT_HIDDEN volatile int weft_recording;
extern WEFT_HIDDEN volatile int weft_threaded; /* a second thread has called MPI */
extern WEFT_HIDDEN int weft_clock_kind;
extern WEFT_HIDDEN uint64_t weft_keep; /* ns of calls to keep, 0: all */
extern WEFT_HIDDEN bool weft_patient; /* record on, however long the file system takes (`--in-place`) */
extern WEFT_HIDDEN uint64_t weft_ticket;
extern WEFT_HIDDEN uintptr_t weft_library_start, weft_library_end; /* code of libmpi itself */
extern WEFT_HIDDEN struct weft_record *weft_the_record;

WEFT_COLD struct weft_thread *weft_make_thread(void);
WEFT_COLD void *weft_grow_scratch(struct weft_thread *thread, size_t bytes);
WEFT_COLD void weft_stop_recording(void);
/* Return memory of the thread for at least `bytes` bytes, valid until the next use; NULL without memory. */
WEFT_INLINE void *weft_get_scratch(struct weft_thread *thread, size_t bytes) {
    return LIKELY(bytes <= thread->scratch_size) ? thread->scratch : weft_grow_scratch(thread, bytes);
}

/* ---- call sites (sites.c, python.c) ---- */
WEFT_HIDDEN uint32_t weft_find_call_site(struct weft_thread *thread, void *return_address);
WEFT_COLD uint32_t weft_find_code_site(uintptr_t address);
extern WEFT_HIDDEN volatile int weft_python; /* 1: a supported interpreter lives in this process */
struct weft_python_callers {
    uint32_t n, code[WEFT_CALLERS], offset[WEFT_CALLERS];
};
WEFT_HIDDEN uint32_t weft_find_python_line(uint32_t *offset, struct weft_python_callers *callers); /* id of the code's
                                                                                      definition, 0: no Python here */
WEFT_COLD void weft_look_for_python(void);
WEFT_COLD void weft_reset_site_lock(void);
WEFT_COLD void weft_clear_site_cache(struct weft_thread *thread); /* another thread has it now, with another stack */
WEFT_HIDDEN bool weft_is_in_fortran_binding(void *address);

/* ---- definitions ---- */
struct weft_text {
    uint8_t *p, *end;
    bool overflow;
}; /* a bounded writer of varints */
WEFT_COLD void weft_write_definition(int type, const void *payload, size_t length);
WEFT_COLD void weft_record_processors(void); /* cores.c */

WEFT_HIDDEN void weft_write_long_number(struct weft_text *text, uint64_t value);
/* Write an unsigned number, seven bits a byte (varint). */
WEFT_INLINE void weft_write_unsigned(struct weft_text *text, uint64_t value) {
    if (LIKELY(value < 0x80 && text->end - text->p >= 10)) *text->p++ = (uint8_t)value;
    else weft_write_long_number(text, value);
}
/* Write a signed number as a varint, its sign in the lowest bit. */
WEFT_INLINE void weft_write_signed(struct weft_text *text, int64_t value) {
    weft_write_unsigned(text, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}
/* Return element `i` of an array whose elements take `size` bytes: numbers, or handles that are numbers or
 * addresses. */
WEFT_INLINE WEFT_GIVEN int64_t weft_read_element(const void *array, int64_t i, size_t size) {
    int small;
    int64_t large;
    if (size == sizeof small) {
        memcpy(&small, (const char *)array + i * (int64_t)sizeof small, sizeof small);
        return small;
    }
    memcpy(&large, (const char *)array + i * (int64_t)sizeof large, sizeof large);
    return large;
}
/* Arrays: their length, then numbers as differences, or ids of handles. An element takes `size` bytes. */
WEFT_HIDDEN void weft_write_numbers(struct weft_text *t, int64_t n, const void *numbers, size_t size);
/* Write `n` bytes behind their number; mark the text as too long if there is no room. */
WEFT_INLINE void weft_write_bytes(struct weft_text *text, const void *bytes, size_t n) {
    if (UNLIKELY((size_t)(text->end - text->p) < n + 10)) {
        text->overflow = true;
        return;
    }
    text->p = weft_put_u(text->p, n);
    if (n) memcpy(text->p, bytes, n);
    text->p += n;
}

/* ---- the memory behind buffers (memory.c) ---- */
struct weft_block {
    uintptr_t low, high;
};
enum { WEFT_ATTENTION_REPLAY = 1, WEFT_ATTENTION_FRESH = 2 };
extern WEFT_HIDDEN volatile int weft_attention; /* not 0: a call about to be made is to be looked at */
WEFT_COLD void weft_check_plan_and_look_up_buffers(struct weft_thread *thread, struct weft_event *event);
WEFT_COLD void weft_look_up_buffers_at_next_call(struct weft_thread *thread);
WEFT_COLD void weft_note_buffer_for_lookup(const void *buffer);
WEFT_COLD void weft_record_caller_frames(const struct weft_site_cached *site);

/* ---- replay ---- */
extern WEFT_HIDDEN volatile int weft_replaying;
WEFT_COLD void *weft_release_python_lock(void);
WEFT_COLD void weft_retake_python_lock(void *thread);

/* ---- several threads ---- */
extern WEFT_HIDDEN __thread uint64_t weft_decided; /* ticket of its last successful probe */
extern WEFT_HIDDEN __thread uint32_t weft_made; /* ordinal of its creation, 0: the main thread */

/* ---- the hot path ---- */
/* Note that the thread has left a call that it records, at the end of the wrapper (ENTER). */
WEFT_INLINE void weft_leave_call(struct weft_thread **thread) {
    if (*thread) weft_depth = 0;
}

/* Note that a wrapper was called. Return the recording thread, or NULL when the call is not to be recorded: inside
 * another call of MPI, made by libmpi itself, before MPI_Init, or after Weft stopped. */
WEFT_HOT struct weft_thread *weft_enter_call(void *return_address) {
    if (UNLIKELY(weft_depth | !weft_recording)) return NULL;
    uintptr_t caller = (uintptr_t)return_address;
    if (UNLIKELY(caller - weft_library_start < weft_library_end - weft_library_start) && !weft_fortran_site)
        return NULL;
    struct weft_thread *thread = weft_self;
    if (UNLIKELY(!thread)) thread = weft_make_thread();
    if (LIKELY(thread)) weft_depth = 1;
    return thread;
}

/* Begin an event for a call of a function; weft_publish_event makes it part of the record. `site`: its call site, 0:
 * that of the return address. Return NULL if the thread does not record, or there is no room. */
WEFT_HOT struct weft_event *weft_begin_event_at_site(struct weft_thread *thread, uint16_t function,
                                                     void *return_address, uint32_t site) {
    if (UNLIKELY(!thread)) return NULL;
    if (UNLIKELY(!weft_stream_fits(&thread->events, sizeof(struct weft_event)))) {
        weft_stop_recording();
        return NULL;
    }
    struct weft_event *event = (struct weft_event *)thread->events.next;
    event->function = function;
    event->site = site ? site : weft_find_call_site(thread, return_address);
    return event;
}

/* Begin an event for a call of a function, made from `return_address`. Return NULL if the thread does not record. */
WEFT_HOT struct weft_event *weft_begin_event(struct weft_thread *thread, uint16_t function, void *return_address) {
    return weft_begin_event_at_site(thread, function, return_address, 0);
}

WEFT_COLD void weft_look_up_buffer_if_few_lookups(struct weft_thread *thread, const struct weft_event *event);

/* Have the heap block behind the event's buffer looked up, if the last call from this site had another buffer. */
WEFT_HOT void weft_look_up_buffer_if_new(struct weft_thread *thread, const struct weft_event *event) {
    uint64_t mixed = (event->buffer ^ (uint64_t)event->datatype << 48 ^ (uint64_t)(uint32_t)event->count << 32) *
                     0x9e3779b97f4a7c15u;
    uint32_t shape = (uint32_t)(mixed >> 32), *last = &thread->shapes[event->site % WEFT_SHAPES];
    if (LIKELY(*last == shape)) return;
    *last = shape;
    weft_look_up_buffer_if_few_lookups(thread, event);
}

/* Make the event part of the record just before the call is made. The time is taken last: what came before was Weft's,
 * not the call's. */
WEFT_HOT void weft_publish_event(struct weft_thread *thread, struct weft_event *event) {
    if (UNLIKELY(weft_attention)) weft_check_plan_and_look_up_buffers(thread, event);
    thread->fold = NULL;
    thread->events.next += sizeof(struct weft_event);
    event->enter = weft_ticks(weft_clock_kind);
    weft_stream_publish(&thread->events);
}

WEFT_COLD uint8_t weft_find_error_class(int code);

/* Close the event of a call that has returned `code` at the time `now`, in ticks. */
WEFT_HOT void weft_close_event(struct weft_event *event, uint64_t now, int code) {
    event->duration = weft_duration_encode(now - event->enter);
    if (UNLIKELY(code != 0)) event->error = weft_find_error_class(code);
    __atomic_store_n(&event->flags, (uint8_t)(event->flags | WEFT_FLAG_CLOSED), __ATOMIC_RELEASE);
}

/* Return a count of elements as an event stores it: INT32_MAX if it does not fit, then the tail has it. */
WEFT_INLINE int32_t weft_encode_count(int64_t count) {
    return LIKELY(count < INT32_MAX && count >= INT32_MIN) ? (int32_t)count : INT32_MAX;
}

/* Begin what is written behind an event's fixed fields (its tail). `bytes` bounds what is written now. Return the text
 * to write to; its `overflow` is set where there is no room. */
WEFT_HOT struct weft_text weft_begin_tail(struct weft_thread *thread, struct weft_event *event, uint64_t bytes) {
    struct weft_stream *tails = &thread->tails;
    uint64_t position = (uint64_t)(tails->next - tails->base);
    if (UNLIKELY(!weft_stream_fits(tails, bytes + 1) ||
                 ((position + 1) / WEFT_TAIL_ALIGN > UINT32_MAX && !tails->ring))) {
        return (struct weft_text){.overflow = true};
    }
    tails->next += position % WEFT_TAIL_ALIGN;
    event->result = (uint32_t)((position + position % WEFT_TAIL_ALIGN) / WEFT_TAIL_ALIGN);
    event->flags |= WEFT_FLAG_HAS_TAIL;
    return (struct weft_text){.p = tails->next, .end = tails->end};
}

/* Begin what is written behind an event's fixed fields (its tail) with what is known before the call. Where several
 * threads call MPI, that is first the call's number among those of all threads. */
WEFT_HOT struct weft_text weft_begin_entry_tail(struct weft_thread *thread, struct weft_event *event, uint64_t bytes) {
    struct weft_text text = weft_begin_tail(thread, event, bytes);
    if (UNLIKELY(weft_threaded)) {
        event->flags |= WEFT_FLAG_TICKET;
        weft_write_unsigned(&text, __atomic_fetch_add(&weft_ticket, 1, __ATOMIC_ACQ_REL));
    }
    return text;
}

/* Continue what is written behind the fixed fields of the thread's newest event (its tail), with what is known after
 * the call. `bytes` bounds what is written now. */
WEFT_HOT struct weft_text weft_continue_tail(struct weft_thread *thread, uint64_t bytes) {
    struct weft_stream *tails = &thread->tails;
    if (UNLIKELY(!weft_stream_fits(tails, bytes))) return (struct weft_text){.overflow = true};
    return (struct weft_text){.p = tails->next, .end = tails->end};
}

/* End what is written behind an event's fixed fields (its tail); stop recording if there was no room for it. */
WEFT_HOT void weft_end_tail(struct weft_thread *thread, struct weft_text *text) {
    if (UNLIKELY(text->overflow)) {
        weft_stop_recording();
        return;
    }
    thread->tails.next = text->p;
    weft_stream_publish(&thread->tails);
}

WEFT_COLD void weft_write_string(struct weft_text *t, const char *string);
#define WEFT_STRINGS 1024 /* of an array: no more are written */
WEFT_COLD void weft_write_strings(struct weft_text *t, int64_t most, char *const *strings);

/* Write the number of bytes received into the event's fixed fields or, where something is written behind these (its
 * tail), there. `ticket`: also write the number that the probe that found the message has among the calls of all
 * threads. */
WEFT_HOT void weft_write_received_size(struct weft_thread *thread, struct weft_event *event, uint64_t bytes,
                                       bool ticket) {
    if (LIKELY(!(event->flags & WEFT_FLAG_HAS_TAIL))) {
        event->result = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
        return;
    }
    struct weft_text text = weft_continue_tail(thread, 24);
    weft_write_unsigned(&text, bytes);
    if (ticket && event->flags & WEFT_FLAG_TICKET) weft_write_unsigned(&text, weft_decided);
    weft_end_tail(thread, &text);
}

/* Return a hash of one value at a place in a list of values; the hashes of all are combined by exclusive or. */
WEFT_INLINE uint64_t weft_mix_bits(uint64_t value, int index) {
    uint64_t hash = (value + (uint64_t)index * 0x632be59bd9b4e019u) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 31;
}

/* ---- folds: equal calls from one place, with no other call between, are one event that counts them ---- */

/* Return whether the call equals the thread's last event, so that it only adds to that one's count. `key`: hash of its
 * arguments; `most`: the largest count. Set `found_site` to its call site, if that was looked up. */
WEFT_HOT bool weft_is_repeated_call(struct weft_thread *thread, uint16_t function, void *return_address, uint64_t key,
                                    int32_t most, uint32_t *found_site) {
    const struct weft_event *last = thread ? thread->fold : NULL;
    if (!last || last->function != function || thread->fold_key != key || last->count >= most) return false;
    *found_site = weft_find_call_site(thread, return_address);
    return *found_site == last->site;
}

/* Let equal calls of the thread add to the count of this event, whose call has succeeded; its times stay those of the
 * first. `key`: hash of its arguments. */
WEFT_HOT void weft_begin_counting_repeats(struct weft_thread *thread, struct weft_event *event, uint64_t key) {
    thread->fold = event;
    thread->fold_key = key;
}

/* Add a call to the count of the thread's last event, which it equals. */
WEFT_HOT void weft_count_repeated_call(struct weft_thread *thread) {
    struct weft_event *event = thread->fold;
    __atomic_store_n(&event->count, event->count ? event->count + 1 : 2, __ATOMIC_RELEASE);
}

/* Begin an event for a test or probe, which may find nothing. If it equals failed ones just before it, return
 * `folding`, an event outside of the record, as it may only add to their count. NULL if the thread does not record. */
WEFT_INLINE struct weft_event *weft_begin_poll(struct weft_thread *thread, uint16_t function, void *return_address,
                                               uint64_t key, struct weft_event *folding) {
    uint32_t site = 0;
    if (!weft_is_repeated_call(thread, function, return_address, key, INT32_MAX, &site))
        return weft_begin_event_at_site(thread, function, return_address, site);
    *folding = (struct weft_event){.function = function, .site = site};
    return folding;
}

/* Record a test or probe that found nothing: it adds to the count of equal ones before it (`folded`), or gets the new
 * event. */
WEFT_INLINE void weft_record_failed_poll(struct weft_thread *thread, struct weft_event *event, bool folded,
                                         uint64_t key, uint64_t now) {
    if (folded) event = thread->fold;
    event->count = folded ? event->count + 1 : 1;
    weft_close_event(event, now, 0);
    thread->fold = event;
    thread->fold_key = key;
}

/* Return a published event for a test or probe that succeeded after equal ones that failed: a copy of `folding` with
 * the time at which it began. NULL if there is no room. */
WEFT_INLINE struct weft_event *weft_begin_event_of_successful_poll(struct weft_thread *thread, uint16_t function,
                                                                   void *return_address,
                                                                   const struct weft_event *folding, uint64_t enter) {
    struct weft_event *event = weft_begin_event_at_site(thread, function, return_address, folding->site);
    if (!event) return NULL;
    *event = *folding;
    weft_publish_event(thread, event);
    event->enter = enter;
    return event;
}

#define ENTER                                                                                                          \
    struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) = weft_enter_call(__builtin_return_address(0))

#endif
