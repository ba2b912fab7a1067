/* The calls that pass messages, make tasks, or keep buffers; all others are in the generated wrappers.c.
 *
 * A message's size is known from its buffer. Who sent what a receive took stands in the slot when the call has returned,
 * as with MPI. One slot for each destination of pvm_mcast; a receive that found nothing is a poll that failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pvm.h"

__thread uint16_t weft_pvm_group;
__thread void *weft_pvm_group_site;

/* ---- entering: a call of the program, or one that a group function makes to pass messages ---- */
struct entered {
    struct weft_thread *thread, *logs; /* at level trace, at level outcomes */
    bool inner;
};

/* Undo enter_call, at the end of the wrapper's scope (cleanup attribute). */
static void leave_call(struct entered *call) {
    if (call->thread) weft_depth = call->inner;
    if (call->logs) weft_depth = 0;
}

/* A call that passes messages goes on: a replay that kills this task does so after as many (tasks.h). */
static inline void call_begins(void) { weft_pvm_me->calls++; }
static inline void call_ends(void) { weft_pvm_me->calls++; }

/* Begin a call of the program, or one that a group function makes to pass messages: return which thread records it, at
 * level trace or at level outcomes (only what another run could decide differently); neither for PVM's calls of its
 * own. */
static inline struct entered enter_call(void *site) {
    if (UNLIKELY(weft_pvm_group) && weft_depth == 1 && weft_recording) {
        weft_depth = 2;
        return (struct entered){.thread = weft_self, .inner = true};
    }
    if (UNLIKELY(weft_level == WEFT_LEVEL_OUTCOMES)) return (struct entered){.logs = weft_log_enter_call()};
    return (struct entered){.thread = weft_pvm_enter(site)};
}
#define ENTERED struct entered in __attribute__((cleanup(leave_call))) = enter_call(SITE)

/* What a group function does stands where the program called it. */
#define AT (UNLIKELY(in.inner) ? weft_pvm_group_site : SITE)

static inline uint16_t function_id(uint16_t own, int of_group) {
    return UNLIKELY(weft_pvm_group) ? (uint16_t)(weft_pvm_group + of_group) : own;
}

enum { PVM_DATA_DEFAULT = 0 };

/* Set an event's size, type and buffer from a message buffer of PVM. */
static void describe_send_buffer(struct weft_event *event, int pvm_buffer) {
    int bytes = 0, tag, from;
    if (pvm_buffer > 0 && !real_pvm_bufinfo(pvm_buffer, &bytes, &tag, &from)) event->count = bytes;
    event->datatype = WEFT_PVM_PACKED;
    event->object = weft_pvm_find_or_make_buffer_id(pvm_buffer);
}

/* ---- sending ---- */
typedef void follower(struct weft_thread *thread, struct weft_event *event);

/* Begin the event of a send to one task, check it against the replay's plan (`follow`), and publish it. NULL if it is
 * not recorded. `buffer` below 0: its size is not known. */
static struct weft_event *begin_send(struct weft_thread *thread, uint16_t id, void *site, int tid, int tag, int buffer,
                                     follower *follow) {
    struct weft_event *event = weft_begin_event(thread, id, site);
    if (!event) return NULL;
    event->comm = weft_pvm_find_or_define_context_id();
    event->peer = weft_pvm_find_rank(tid);
    event->tag = tag;
    if (buffer >= 0) describe_send_buffer(event, buffer);
    if (UNLIKELY(weft_replaying)) follow(thread, event);
    weft_publish_event(thread, event);
    return event;
}

/* End the event of a send; after an error (`code` below 0) it has no receiver. */
static void end_send(struct weft_event *event, int code) {
    weft_close_event(event, weft_ticks(weft_clock_kind), code < 0 ? code : 0);
    if (UNLIKELY(code < 0)) event->peer = WEFT_PVM_STRANGER; /* nothing is on its way */
}

/* Record pvm_send: one send with the size of the active send buffer. */
WEFT_PVM_PUBLIC int pvm_send(int tid, int msgtag) {
    ENTERED;
    struct weft_event *event = in.thread ? begin_send(in.thread, function_id(F_pvm_send, WEFT_GROUP_SENDS), AT, tid,
                                                      msgtag, real_pvm_getsbuf(), weft_follow_check_call)
                                         : NULL;
    if (in.thread || in.logs) call_begins();
    int code = real_pvm_send(tid, msgtag);
    if (in.thread || in.logs) call_ends();
    if (event) end_send(event, code);
    return code;
}

/* Record pvm_mcast: one send for each destination but the caller itself, which PVM leaves out. */
WEFT_PVM_PUBLIC int pvm_mcast(int *tids, int ntask, int msgtag) {
    ENTERED;
    enum { HELD = 64 };
    struct weft_event *few[HELD], **events = few;
    int n = 0, buffer = in.thread ? real_pvm_getsbuf() : 0, me = in.thread ? real_pvm_mytid() : 0;
    if (in.thread && tids && ntask > HELD) events = malloc((size_t)ntask * sizeof *events);
    for (int i = 0; in.thread && events && tids && i < ntask; i++) {
        if (tids[i] == me) continue; /* PVM sends it to all but the caller */
        events[n] = begin_send(in.thread, function_id(F_pvm_mcast, WEFT_GROUP_SENDS), AT, tids[i], msgtag, buffer,
                               n ? weft_follow_check_next_destination : weft_follow_check_call);
        if (!events[n]) break;
        n++;
    }
    if (in.thread || in.logs) call_begins();
    int code = real_pvm_mcast(tids, ntask, msgtag);
    if (in.thread || in.logs) call_ends();
    for (int i = 0; i < n; i++) end_send(events[i], code);
    if (events != few) free(events);
    return code;
}

/* Record pvm_psend: a send of `len` items from the caller's memory. */
WEFT_PVM_PUBLIC int pvm_psend(int tid, int msgtag, void *buf, int len, int datatype) {
    ENTERED;
    struct weft_event *event = in.thread ? weft_begin_event(in.thread, F_pvm_psend, AT) : NULL;
    if (event) {
        event->comm = weft_pvm_find_or_define_context_id();
        event->peer = weft_pvm_find_rank(tid);
        event->tag = msgtag;
        event->buffer = (uint64_t)(uintptr_t)buf;
        event->count = len;
        event->datatype = WEFT_PVM_TYPE(datatype);
        if (UNLIKELY(weft_replaying)) weft_follow_check_call(in.thread, event);
        weft_publish_event(in.thread, event);
    }
    if (in.thread || in.logs) call_begins();
    int code = real_pvm_psend(tid, msgtag, buf, len, datatype);
    if (in.thread || in.logs) call_ends();
    if (event) end_send(event, code);
    return code;
}

/* ---- receiving ---- */
/* Return a hash of what a receive asks for, by which equal polls are known. */
static uint64_t hash_request(const struct asked *request, uint32_t comm) {
    return weft_mix_bits((uint64_t)(uint32_t)request->tid, 0) ^ weft_mix_bits((uint64_t)(uint32_t)request->tag, 1) ^
           weft_mix_bits(comm, 2);
}

/* Set an event's sender, tag and wildcards as a receive asks for them. */
static void describe_receive(struct weft_event *event, const struct asked *request, uint32_t comm) {
    event->comm = comm;
    event->peer = request->tid == -1 ? WEFT_RANK_ANY_SOURCE : weft_pvm_find_rank(request->tid);
    event->tag = request->tag == -1 ? WEFT_TAG_ANY : request->tag;
    if (request->tid == -1) event->flags |= WEFT_FLAG_ANY_SOURCE;
    if (request->tag == -1) event->flags |= WEFT_FLAG_ANY_TAG;
}

/* Return the rank that a notice of the daemon is about: its first number is a task id, or a count of hosts. It is read
 * from another buffer that shares the notice's body, so that the program's own unpacking begins where it would have. */
int32_t weft_pvm_find_rank_in_notice(int buffer) {
    int about = 0, copy = real_pvm_mkbuf(PVM_DATA_DEFAULT);
    if (copy <= 0) return WEFT_PVM_STRANGER;
    int sends = real_pvm_setsbuf(copy);
    int code = real_pvm_pkmesgbody(buffer);
    real_pvm_setsbuf(sends > 0 ? sends : 0);
    if (code >= 0) {
        int receives = real_pvm_setrbuf(copy);
        if (real_pvm_upkint(&about, 1, 1) < 0) about = 0;
        real_pvm_setrbuf(receives > 0 ? receives : 0);
    }
    real_pvm_freebuf(copy);
    return about ? weft_pvm_find_rank(about) : WEFT_PVM_STRANGER;
}

/* Set an event's sender, tag, size and buffer from the message that the receive took or saw. A notice of the daemon
 * names the task that it is about. */
static void describe_received_message(struct weft_event *event, const struct asked *request, int buffer) {
    int bytes = 0, tag = 0, from = 0;
    event->function = request->hit;
    real_pvm_bufinfo(buffer, &bytes, &tag, &from);
    event->result = (uint32_t)bytes;
    event->datatype = WEFT_PVM_PACKED;
    event->count = bytes;
    event->object = request->looks ? weft_pvm_find_or_make_buffer_id(buffer) : weft_pvm_number_new_buffer(buffer);
    int32_t source = weft_pvm_find_rank(from);
    if (UNLIKELY(source == WEFT_PVM_DAEMON)) {
        event->function = request->notice;
        event->peer = weft_pvm_find_rank_in_notice(buffer);
        event->tag = tag;
        return;
    }
    if (request->tid == -1) event->peer = source;
    if (request->tag == -1) event->tag = tag;
    if (request->polls) event->flags |= WEFT_FLAG_TRUE;
}

/* ---- what a replay makes of a call ---- */
/* Poll until a message of this task and tag is there, without taking it, and return its buffer (negative: PVM's
 * error). */
static int wait_until_message_is_there(int tid, int tag) {
    int buffer = real_pvm_probe(tid, tag);
    for (; !buffer; buffer = real_pvm_probe(tid, tag)) weft_follow_nap();
    return buffer;
}

/* Receive the daemon's notice about this rank and return its buffer. Other notices that come before it are kept until
 * they are asked for. */
static int receive_notice_about(const struct asked *request, int32_t about_rank) {
    enum { KEPT = 256 };
    static int kept[KEPT];
    static int n;
    real_pvm_setrbuf(0);
    for (int i = 0; i < n; i++) {
        int bytes, tag, from;
        real_pvm_bufinfo(kept[i], &bytes, &tag, &from);
        if ((request->tag == -1 || tag == request->tag) && weft_pvm_find_rank_in_notice(kept[i]) == about_rank) {
            int found = kept[i];
            kept[i] = kept[--n];
            real_pvm_setrbuf(found);
            return found;
        }
    }
    for (;;) {
        int buffer = real_pvm_nrecv(WEFT_PVM_DAEMON_TID, request->tag);
        if (buffer < 0 || (buffer > 0 && weft_pvm_find_rank_in_notice(buffer) == about_rank)) return buffer;
        if (!buffer) {
            weft_follow_nap();
            continue;
        }
        real_pvm_setrbuf(0);
        if (n < KEPT) kept[n++] = buffer;
    }
}

/* Receive what the replay's plan (the recorded outcomes in order) says: nothing (0), a notice of the daemon, or a
 * message of the recorded sender. Return its buffer. */
static int receive_as_planned(const struct asked *request, enum weft_follow outcome,
                              const struct weft_followed *planned) {
    if (outcome == WEFT_FOLLOW_NOTHING) return 0;
    if (outcome == WEFT_FOLLOW_NOTICE) return receive_notice_about(request, planned->about);
    return request->looks ? wait_until_message_is_there(planned->tid, request->tag)
                          : real_pvm_recv(planned->tid, request->tag);
}

typedef int (*plain)(const struct asked *a, void *more);

/* Record a receive or poll at level trace: begin its event, receive as the program asked or, in a replay, as recorded,
 * then describe the message. Polls that found nothing are folded into one event. Return what PVM returns. */
static int record_receive(struct weft_thread *thread, const struct asked *request, void *site, plain receive,
                          void *timeout) {
    if (UNLIKELY(weft_pvm_serves)) weft_pvm_set_state(WEFT_TASK_SERVING);
    uint32_t comm = weft_pvm_find_or_define_context_id();
    uint64_t key = hash_request(request, comm);
    struct weft_event folding, *event = request->polls ? weft_begin_poll(thread, request->own, site, key, &folding)
                                                       : weft_begin_event(thread, request->own, site);
    if (!event) return receive(request, timeout);
    const bool folded = event == &folding;
    describe_receive(event, request, comm);
    enum weft_follow follow = WEFT_FOLLOW_FREE;
    struct weft_followed what = {.tid = request->tid};
    if (UNLIKELY(weft_replaying))
        follow = weft_follow_decide_receive(thread, event, request->hit, request->notice, request->polls,
                                            request->looks, &what);
    uint64_t begun = weft_ticks(weft_clock_kind);
    if (!folded) weft_publish_event(thread, event);
    call_begins();
    int buffer = follow == WEFT_FOLLOW_FREE ? receive(request, timeout) : receive_as_planned(request, follow, &what);
    if (LIKELY(!what.extra)) call_ends();
    else weft_pvm_me->calls--;
    uint64_t now = weft_ticks(weft_clock_kind);
    if (request->polls && !buffer) {
        weft_record_failed_poll(thread, event, folded, key, now);
        return 0;
    }
    if (folded) event = weft_begin_event_of_successful_poll(thread, request->own, site, &folding, begun);
    if (!event) return buffer;
    if (buffer > 0) describe_received_message(event, request, buffer);
    weft_close_event(event, now, buffer < 0 ? buffer : 0);
    return buffer;
}

/* Receive or poll at level outcomes (only what another run could decide differently): note only whose message was taken
 * and how many polls failed. Return what PVM returns. */
static int log_receive(struct weft_thread *thread, const struct asked *request, plain receive, void *timeout) {
    if (UNLIKELY(weft_pvm_serves)) weft_pvm_set_state(WEFT_TASK_SERVING);
    call_begins();
    int buffer = receive(request, timeout), from = request->tid, bytes, tag;
    if (request->polls && !buffer) thread->outcome_state.polls++;
    else if (buffer > 0) {
        if (request->tid == -1) real_pvm_bufinfo(buffer, &bytes, &tag, &from);
        weft_log_received(thread, request, buffer, from);
    }
    call_ends();
    return buffer;
}

/* Receive or poll, recorded at the level that enter_call found; unrecorded if the call is not the program's. Return
 * what PVM returns. */
static int record_or_log_receive(const struct entered *entered_call, const struct asked *request, void *site,
                                 plain receive, void *timeout) {
    if (entered_call->thread) return record_receive(entered_call->thread, request, site, receive, timeout);
    return entered_call->logs ? log_receive(entered_call->logs, request, receive, timeout) : receive(request, timeout);
}

static int plain_recv(const struct asked *request, void *more) {
    return (void)more, real_pvm_recv(request->tid, request->tag);
}
static int plain_nrecv(const struct asked *request, void *more) {
    return (void)more, real_pvm_nrecv(request->tid, request->tag);
}
static int plain_probe(const struct asked *request, void *more) {
    return (void)more, real_pvm_probe(request->tid, request->tag);
}
static int plain_trecv(const struct asked *request, void *more) {
    return real_pvm_trecv(request->tid, request->tag, more);
}

/* Record pvm_recv, or that a group function waits for a message. */
WEFT_PVM_PUBLIC int pvm_recv(int tid, int msgtag) {
    ENTERED;
    struct asked a = {function_id(F_pvm_recv, WEFT_GROUP_WAITS),
                      function_id(F_pvm_recv, WEFT_GROUP_WAITS),
                      weft_pvm_group ? weft_pvm_group + WEFT_GROUP_NOTICE : F_pvm_recv + WEFT_PVM_NOTICE,
                      tid,
                      msgtag,
                      false,
                      false};
    return record_or_log_receive(&in, &a, AT, plain_recv, NULL);
}

/* Return the request of a poll, with the ids that its event gets when it finds nothing, a message, or a notice of the
 * daemon. `is_probe`: it leaves the message there. */
static struct asked describe_poll(uint16_t function_id_of_poll, int tid, int tag, bool is_probe) {
    uint16_t base = weft_pvm_group ? weft_pvm_group : function_id_of_poll;
    if (weft_pvm_group)
        return (struct asked){
            base + WEFT_GROUP_NOTHING, base + WEFT_GROUP_WAITS, base + WEFT_GROUP_NOTICE, tid, tag, true, is_probe};
    return (struct asked){function_id_of_poll + WEFT_PVM_NOTHING,
                          function_id_of_poll,
                          function_id_of_poll + WEFT_PVM_NOTICE,
                          tid,
                          tag,
                          true,
                          is_probe};
}

/* Record pvm_nrecv, a poll that takes the message. */
WEFT_PVM_PUBLIC int pvm_nrecv(int tid, int msgtag) {
    ENTERED;
    struct asked a = describe_poll(F_pvm_nrecv, tid, msgtag, false);
    return record_or_log_receive(&in, &a, AT, plain_nrecv, NULL);
}

/* Record pvm_trecv, a receive with a time limit; without one it waits as pvm_recv does. */
WEFT_PVM_PUBLIC int pvm_trecv(int tid, int msgtag, struct timeval *tmout) {
    ENTERED;
    struct asked a = describe_poll(F_pvm_trecv, tid, msgtag, false);
    a.polls = tmout != NULL;
    if (!tmout) a.own = a.hit; /* without a limit it waits as pvm_recv does */
    return record_or_log_receive(&in, &a, AT, plain_trecv, tmout);
}

/* Record pvm_probe, a poll that leaves the message there. */
WEFT_PVM_PUBLIC int pvm_probe(int tid, int msgtag) {
    ENTERED;
    struct asked a = describe_poll(F_pvm_probe, tid, msgtag, true);
    return record_or_log_receive(&in, &a, AT, plain_probe, NULL);
}

/* Record pvm_precv, a receive of `len` items into the caller's memory. */
WEFT_PVM_PUBLIC int pvm_precv(int tid, int msgtag, void *buf, int len, int datatype, int *rtid, int *rtag, int *rlen) {
    ENTERED;
    struct weft_event *event = in.thread ? weft_begin_event(in.thread, F_pvm_precv, AT) : NULL;
    if (!event && !in.logs) return real_pvm_precv(tid, msgtag, buf, len, datatype, rtid, rtag, rlen);
    struct asked a = {F_pvm_precv, F_pvm_precv, F_pvm_precv + WEFT_PVM_NOTICE, tid, msgtag, false, false};
    struct weft_followed what = {.tid = tid};
    int own_tid = 0, own_tag = 0, own_length = 0;
    if (in.logs) {
        call_begins();
        int code = real_pvm_precv(tid, msgtag, buf, len, datatype, &own_tid, rtag, rlen);
        if (rtid) *rtid = own_tid;
        if (code >= 0 || own_tid > 0) weft_log_received(in.logs, &a, 0, own_tid);
        call_ends();
        return code;
    }
    describe_receive(event, &a, weft_pvm_find_or_define_context_id());
    event->buffer = (uint64_t)(uintptr_t)buf;
    event->count = len;
    event->datatype = WEFT_PVM_TYPE(datatype);
    if (UNLIKELY(weft_replaying)) weft_follow_decide_receive(in.thread, event, a.hit, a.notice, false, false, &what);
    weft_publish_event(in.thread, event);
    call_begins();
    int code = real_pvm_precv(what.tid, msgtag, buf, len, datatype, &own_tid, &own_tag, &own_length);
    call_ends();
    if (rtid) *rtid = own_tid;
    if (rtag) *rtag = own_tag;
    if (rlen) *rlen = own_length;
    if (code >= 0 || own_tid > 0) {
        event->result = (uint32_t)own_length;
        if (tid == -1) event->peer = weft_pvm_find_rank(own_tid);
        if (msgtag == -1) event->tag = own_tag;
    }
    weft_close_event(event, weft_ticks(weft_clock_kind), code < 0 ? code : 0);
    return code;
}

/* ---- tasks ---- */
struct carried {
    char *exported, *preload;
};

static char own_path[PATH_MAX];

static void set_if_given(const char *name, const char *value) {
    if (value && *value) setenv(name, value, 1);
}

/* Let spawned tasks load the recorder: PVM gives them the daemon's environment and what PVM_EXPORT names. Return the
 * variables' earlier values for restore_environment. */
static struct carried export_recorder(void) {
    const char *exported = getenv("PVM_EXPORT"), *preload = getenv("LD_PRELOAD");
    struct carried before = {exported ? strdup(exported) : NULL, preload ? strdup(preload) : NULL};
    char *text = NULL;
    if (!own_path[0]) {
        Dl_info self;
        if (dladdr((void *)weft_pvm_begin_recording, &self) && self.dli_fname)
            snprintf(own_path, sizeof own_path, "%s", self.dli_fname);
    }
    if (asprintf(&text,
                 "%s%sLD_PRELOAD:WEFT_INTERNAL_RUN:WEFT_INTERNAL_LEVEL:WEFT_INTERNAL_REPLAY:WEFT_INTERNAL_AGENT:"
                 "WEFT_INTERNAL_PATIENT:WEFT_WITHOUT",
                 exported ? exported : "", exported && *exported ? ":" : "") > 0)
        setenv("PVM_EXPORT", text, 1);
    free(text);
    if (preload && *preload && asprintf(&text, "%s:%s", own_path, preload) > 0) {
        setenv("LD_PRELOAD", text, 1);
        free(text);
    } else setenv("LD_PRELOAD", own_path, 1);
    set_if_given("WEFT_INTERNAL_RUN", weft_run_path);
    set_if_given("WEFT_INTERNAL_LEVEL", weft_level == WEFT_LEVEL_OUTCOMES ? "outcomes" : "trace");
    set_if_given("WEFT_INTERNAL_REPLAY", weft_replay_path);
    set_if_given("WEFT_INTERNAL_AGENT", weft_agent_path);
    set_if_given("WEFT_INTERNAL_PATIENT", weft_patient ? "1" : "");
    return before;
}

/* Set an environment variable to a value and free that; NULL removes the variable. */
static void restore_variable(const char *name, char *value) {
    if (value) setenv(name, value, 1);
    else unsetenv(name);
    free(value);
}

/* Undo export_recorder after the spawn. */
static void restore_environment(struct carried before) {
    restore_variable("PVM_EXPORT", before.exported);
    restore_variable("LD_PRELOAD", before.preload);
    for (const char *const *name =
             (const char *const[]){"WEFT_INTERNAL_RUN", "WEFT_INTERNAL_LEVEL", "WEFT_INTERNAL_REPLAY",
                                   "WEFT_INTERNAL_AGENT", "WEFT_INTERNAL_PATIENT", NULL};
         *name; name++)
        unsetenv(*name);
}

/* Record pvm_spawn and give the new tasks their ranks and the recorder. Also for the spawn by which a group function
 * starts the group server, which is a task of the run as well. */
WEFT_PVM_PUBLIC int pvm_spawn(char *task, char **argv, int flag, char *where, int ntask, int *tids) {
    struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) = weft_pvm_enter(SITE);
    if (!weft_recording) return real_pvm_spawn(task, argv, flag, where, ntask, tids);
    struct weft_event *event = thread ? weft_begin_event(thread, F_pvm_spawn, SITE) : NULL;
    if (event) {
        event->count = ntask;
        struct weft_text text =
            weft_begin_tail(thread, event, 64 + (task ? strnlen(task, 4096) : 0) + (where ? strnlen(where, 4096) : 0));
        weft_write_string(&text, task);
        weft_write_signed(&text, flag);
        weft_write_string(&text, where);
        weft_end_tail(thread, &text);
        if (UNLIKELY(weft_replaying)) weft_follow_check_call(thread, event);
        weft_publish_event(thread, event);
    }
    size_t room = ntask > 0 ? (size_t)ntask : 1;
    int *own = tids ? tids : calloc(room, sizeof *own);
    int32_t *ranks = calloc(room, sizeof *ranks);
    struct carried before = export_recorder();
    const int depth = weft_depth;
    weft_depth = depth ? depth : 1;
    int started = real_pvm_spawn(task, argv, flag, where, ntask, own ? own : tids);
    weft_depth = depth;
    restore_environment(before);
    if (own && ranks) weft_pvm_give_ranks(started > 0 ? ntask : 0, own, ranks);
    if (weft_the_record) weft_the_record->header->world_size = (int)weft_pvm_task_count();
    if (event) {
        uint64_t now = weft_ticks(weft_clock_kind);
        int n = started > 0 && ranks ? ntask : 0;
        struct weft_text text = weft_continue_tail(thread, 32 + 12 * (uint64_t)n);
        weft_write_numbers(&text, n, ranks, sizeof *ranks);
        weft_write_signed(&text, started);
        weft_end_tail(thread, &text);
        weft_close_event(event, now, started < 0 ? started : 0);
    }
    if (own != tids) free(own);
    free(ranks);
    return started;
}

/* Record pvm_exit and end the record. */
WEFT_PVM_PUBLIC int pvm_exit(void) {
    ENTERED;
    struct weft_event *event = in.thread ? weft_begin_event(in.thread, F_pvm_exit, SITE) : NULL;
    if (event && UNLIKELY(weft_replaying)) weft_follow_check_call(in.thread, event);
    if (event) weft_publish_event(in.thread, event);
    if (in.logs) weft_log_over(in.logs);
    int code = real_pvm_exit();
    if (event) weft_close_event(event, weft_ticks(weft_clock_kind), code < 0 ? code : 0);
    if (event || in.logs) weft_pvm_end_recording();
    return code;
}

/* Record pvm_kill; in a replay, only once the task has done all that it did before it was killed. */
WEFT_PVM_PUBLIC int pvm_kill(int tid) {
    ENTERED;
    struct weft_event *event = in.thread ? weft_begin_event(in.thread, F_pvm_kill, SITE) : NULL;
    if (event) {
        event->comm = WEFT_ID_WORLD;
        event->peer = weft_pvm_find_rank(tid);
        if (UNLIKELY(weft_replaying)) {
            weft_follow_check_call(in.thread, event);
            weft_follow_wait_before_kill(event->peer);
        }
        weft_publish_event(in.thread, event);
    }
    int code = real_pvm_kill(tid);
    if ((event || in.logs) && !code) weft_pvm_mark_killed(weft_pvm_find_rank(tid));
    if (event) weft_close_event(event, weft_ticks(weft_clock_kind), code < 0 ? code : 0);
    return code;
}

/* ---- buffers: which one a call makes, uses or gives back ---- */
#define MAKES_BUFFER(name)                                                                                             \
    WEFT_PVM_PUBLIC int name(int encoding) {                                                                           \
        ENTERED;                                                                                                       \
        struct weft_event *event =                                                                                     \
            in.thread && !in.inner && !weft_pvm_serves ? weft_begin_event(in.thread, F_##name, SITE) : NULL;           \
        if (event) event->count = encoding;                                                                            \
        if (event) weft_publish_event(in.thread, event);                                                               \
        int buffer = real_##name(encoding);                                                                            \
        if (in.thread) {                                                                                               \
            uint32_t id = weft_pvm_number_new_buffer(buffer);                                                          \
            if (event) event->object = id;                                                                             \
        }                                                                                                              \
        if (event) weft_close_event(event, weft_ticks(weft_clock_kind), buffer < 0 ? buffer : 0);                      \
        return buffer;                                                                                                 \
    }
MAKES_BUFFER(pvm_initsend)
MAKES_BUFFER(pvm_mkbuf)

#define USES_BUFFER(name)                                                                                              \
    WEFT_PVM_PUBLIC int name(int buffer) {                                                                             \
        ENTERED;                                                                                                       \
        struct weft_event *event =                                                                                     \
            in.thread && !in.inner && !weft_pvm_serves ? weft_begin_event(in.thread, F_##name, SITE) : NULL;           \
        if (event) event->object = weft_pvm_find_or_make_buffer_id(buffer);                                            \
        if (event) weft_publish_event(in.thread, event);                                                               \
        int code = real_##name(buffer);                                                                                \
        if (event) weft_close_event(event, weft_ticks(weft_clock_kind), code < 0 ? code : 0);                          \
        return code;                                                                                                   \
    }
USES_BUFFER(pvm_freebuf)
USES_BUFFER(pvm_setsbuf)
USES_BUFFER(pvm_setrbuf)
USES_BUFFER(pvm_pkmesg)
USES_BUFFER(pvm_pkmesgbody)

/* ---- arguments without a number: what is given is passed on, and the format is kept ---- */
#define FORMATTED(name, body)                                                                                          \
    WEFT_PVM_PUBLIC int name(const char *format, ...) {                                                                \
        ENTERED;                                                                                                       \
        struct weft_event *event =                                                                                     \
            in.thread && !in.inner && !weft_pvm_serves ? weft_begin_event(in.thread, F_##name, SITE) : NULL;           \
        if (event) {                                                                                                   \
            event->object =                                                                                            \
                weft_pvm_find_or_make_buffer_id(F_##name == F_pvm_packf ? real_pvm_getsbuf() : real_pvm_getrbuf());    \
            struct weft_text text = weft_begin_tail(in.thread, event, 32 + (format ? strnlen(format, 4096) : 0));      \
            weft_write_string(&text, format);                                                                          \
            weft_end_tail(in.thread, &text);                                                                           \
            weft_publish_event(in.thread, event);                                                                      \
        }                                                                                                              \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        int code = body(format, arguments);                                                                            \
        va_end(arguments);                                                                                             \
        if (event) {                                                                                                   \
            weft_close_event(event, weft_ticks(weft_clock_kind), code < 0 ? code : 0);                                 \
            if (F_##name == F_pvm_packf && format && format[0] == '%' && format[1] == '+') /* it begins a message */   \
                event->object = weft_pvm_number_new_buffer(real_pvm_getsbuf());                                        \
        }                                                                                                              \
        return code;                                                                                                   \
    }
FORMATTED(pvm_packf, real_pvm_vpackf)
FORMATTED(pvm_unpackf, real_pvm_vunpackf)
