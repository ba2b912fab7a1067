/* The recorder of PVM inside a task: what its parts share. Beneath it lie calls.h and process.h of weft/recorder.
 *
 * Life of a call: wrapper (wrappers.c, generated, or calls.c) -> weft_pvm_enter -> fields of the slot -> publish -> PVM's
 * own function, found behind this library -> weft_close_event. Calls that PVM's libraries make of each other are not the
 * program's (weft_depth), but those that a group function makes to pass messages are recorded under its name.
 */
#ifndef WEFT_PVM_H
#define WEFT_PVM_H

#include <sys/time.h>

#include "../recorder/process.h"
#include "tasks.h"

#define WEFT_PVM_PUBLIC __attribute__((visibility("default")))
#define SITE __builtin_return_address(0)

#include "names.h" /* generated: F_X, the id of each function; real_X, PVM's own */

enum { WEFT_PVM_DAEMON = WEFT_RANK_INVALID_BASE - 1, WEFT_PVM_STRANGER = WEFT_RANK_INVALID_BASE - 2 };

#define WEFT_PVM_DAEMON_TID ((int)0x80000000u) /* from whom notices are */

/* Beside its own id a function that passes messages has others, in this order (weft/pvm/table.py). */
enum { WEFT_PVM_NOTHING = 1, WEFT_PVM_NOTICE = 2 }; /* nothing was there; it was a notice of the daemon */
enum { WEFT_GROUP_SENDS = 1, WEFT_GROUP_WAITS = 2, WEFT_GROUP_NOTHING = 3, WEFT_GROUP_NOTICE = 4 };

extern WEFT_HIDDEN __thread uint16_t weft_pvm_group; /* id of the group function under way, 0: none */
extern WEFT_HIDDEN __thread void *weft_pvm_group_site; /* where it was called */
extern WEFT_HIDDEN bool weft_pvm_serves; /* this is PVM's group server */
extern WEFT_HIDDEN int weft_pvm_rank;

/* process */
WEFT_COLD bool weft_pvm_begin_recording(void); /* the first call of the process: it gets its name and its record */
WEFT_COLD void weft_pvm_end_recording(void);  /* pvm_exit returned */
WEFT_COLD void *weft_pvm_find_real_function(const char *name);
extern WEFT_HIDDEN volatile int weft_pvm_begun;

/* Begin a call of the program at level trace: return the thread that records it, NULL for PVM's calls of its own. */
WEFT_INLINE struct weft_thread *weft_pvm_enter(void *site) {
    if (UNLIKELY(!weft_pvm_begun) && !weft_depth && !weft_pvm_begin_recording()) return NULL;
    if (UNLIKELY(weft_level == WEFT_LEVEL_OUTCOMES)) return NULL;
    return weft_enter_call(site);
}

/* A receive or a look for a message, as it was asked. */
struct asked {
    uint16_t own, hit, notice; /* ids: as it begins, of one that took a message, of one that took a notice */
    int tid, tag;
    bool polls, looks;
};
WEFT_HIDDEN int32_t weft_pvm_find_rank_in_notice(int buffer); /* the rank that a notice of the daemon is about */

/* level outcomes (outcomes.c): a call that is not recorded, but whose outcome is */
WEFT_HIDDEN struct weft_thread *weft_log_enter_call(void);
WEFT_HIDDEN void weft_log_received(struct weft_thread *thread, const struct asked *request, int buffer, int from);
WEFT_HIDDEN void weft_log_over(struct weft_thread *thread);

/* tasks */
WEFT_HIDDEN int32_t weft_pvm_find_rank(int tid); /* as the record has it */
WEFT_HIDDEN int weft_pvm_await_tid(int32_t rank); /* of a rank >= 0; waits until it is known, 0: it is not */
WEFT_COLD bool weft_pvm_open_tasks(void);
WEFT_COLD int weft_pvm_take_rank(int tid, int parent);
WEFT_COLD void weft_pvm_give_ranks(int count, const int *tids, int32_t *ranks);
WEFT_COLD void weft_pvm_set_state(uint32_t state);
WEFT_COLD void weft_pvm_mark_killed(int32_t rank);
WEFT_COLD uint32_t weft_pvm_count_calls(int32_t rank);
WEFT_COLD uint32_t weft_pvm_task_count(void);
extern WEFT_HIDDEN struct weft_task *weft_pvm_me;

/* objects: buffers and contexts have numbers that PVM uses again */
WEFT_HIDDEN uint32_t weft_pvm_number_new_buffer(int buffer);
WEFT_HIDDEN uint32_t weft_pvm_find_or_make_buffer_id(int buffer);
WEFT_HIDDEN uint32_t weft_pvm_find_or_define_context_id(void);

/* follow.c: replay */
extern WEFT_HIDDEN volatile int weft_replaying;
WEFT_COLD bool weft_follow_begin_replay(const char *folder, int rank);
WEFT_COLD int32_t
weft_follow_find_child_rank(uint32_t ordinal); /* rank of this task's how-manieth child, -1: not in the record */
WEFT_HIDDEN void weft_follow_check_call(struct weft_thread *thread, struct weft_event *event);
WEFT_HIDDEN void weft_follow_check_next_destination(struct weft_thread *thread, struct weft_event *event);
enum weft_follow { WEFT_FOLLOW_FREE, WEFT_FOLLOW_NOTHING, WEFT_FOLLOW_MESSAGE, WEFT_FOLLOW_NOTICE };
struct weft_followed {
    int tid;       /* of MESSAGE: whose it is; of a named receive as it was asked */
    int32_t about; /* of NOTICE: the rank that it tells of */
    bool extra;    /* of NOTHING: it was asked more often than in the record */
};
/* What a call that takes or looks for a message is to find. `hit` is the id of its having found one. */
WEFT_HIDDEN enum weft_follow weft_follow_decide_receive(struct weft_thread *thread, struct weft_event *event,
                                                        uint16_t hit, uint16_t notice, bool polls, bool is_probe,
                                                        struct weft_followed *found);
WEFT_COLD void
weft_follow_wait_before_kill(int32_t rank); /* until the rank has done all that it did before it was killed */
WEFT_HIDDEN void weft_follow_nap(void);
WEFT_COLD void weft_follow_left(void); /* the task has left PVM, or its process is on its way out */

#endif
