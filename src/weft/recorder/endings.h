/* How the process ends: what endings.c, crash.c and leaving.c share. Nothing here is on a call's way.
 *
 * Much of it runs in handlers of signals, maybe while this or another thread holds a lock or is inside malloc. There
 * (`weft_careful`) nothing is allocated, memory that may not be there is read through the kernel, and a lock is only
 * tried for a while: rather no telling than a process that does not end.
 */
#ifndef WEFT_ENDINGS_H
#define WEFT_ENDINGS_H

#include <signal.h>
#include <sys/types.h>

#include "calls.h"
#include "peek.h"

struct weft_python_place {
    uintptr_t code;
    uint32_t instruction;
};

/* Where a thread is: addresses only. Native ones as in format.h: of a signal's frame the instruction plus 1. */
struct weft_stack {
    pid_t tid;
    uint32_t slot; /* thread slot + 1, 0: none */
    uint32_t natives, pythons;
    uintptr_t native[WEFT_ENDING_FRAMES];
    struct weft_python_place python[WEFT_ENDING_FRAMES];
};

struct weft_ending_report {
    int kind; /* enum weft_ending_kind */
    int64_t code, detail;
    uint64_t address;
    const char *name, *text, *traceback, *who; /* NULL: empty */
    const struct weft_stack *stack;             /* NULL: none */
    const void *python;                         /* Python frames, encoded, in place of the stack's; NULL: none */
    size_t python_bytes;
};

extern WEFT_HIDDEN __thread int weft_careful;
extern WEFT_HIDDEN pid_t weft_pid; /* of the recorded process; its children have others */
extern WEFT_HIDDEN volatile int weft_leaving, weft_over;

/* Whether this process has a record that can be added to. */
WEFT_HIDDEN bool weft_can_record_ending(void);
WEFT_HIDDEN void weft_record_ending(const struct weft_ending_report *told);
/* Where this thread is now. `context`: of the signal whose handler this is, else NULL and the caller's caller comes first. */
WEFT_HIDDEN void weft_read_own_stack(struct weft_stack *stack, const void *context);
/* Its stack pointer. */
WEFT_HIDDEN uintptr_t weft_read_stack_pointer(const void *context);
/* Locks within 50 ms where we are careful, or however long else. */
WEFT_HIDDEN bool weft_take_lock(pthread_mutex_t *lock);

WEFT_COLD void weft_begin_watching_exit(void); /* at the end of MPI's initialisation */
WEFT_COLD void weft_stop_watching_exit_in_child(void); /* in a child after fork() */
WEFT_COLD void weft_begin_signal_handling(void);
WEFT_COLD void weft_restore_signals_in_child(void);
/* The process ends with this stack: not in a handler of an earlier fault, then the program got over that one. */
WEFT_COLD void weft_record_survived_crash(const struct weft_stack *stack);
extern WEFT_HIDDEN volatile int weft_ended_by_mpi;
WEFT_COLD void weft_give_thread_signal_stack(void); /* a thread begins: an own stack for its handlers */
WEFT_COLD void weft_free_thread_signal_stack(void);
WEFT_COLD void weft_begin_watching_python_exit(void);
/* A Python exception that is on its way to ending the process, told now; where SystemExit was raised, if that is why. */
WEFT_COLD void weft_record_uncaught_exception(void);
WEFT_COLD bool weft_record_python_exit(int status, struct weft_ending_report *told);
WEFT_COLD void weft_record_coming_exit(int status);
WEFT_COLD bool weft_is_called_by(void *function);
WEFT_COLD void weft_mark_finalize_during_exit(struct weft_event *event);
/* A call of MPI that is not recorded, maybe as it is made outside of MPI's life. True: it is to be recorded. */
WEFT_COLD bool weft_record_call_outside_mpi(int k);
WEFT_COLD void weft_record_abort(int code);

/* sites.c, python.c */
WEFT_HIDDEN bool weft_find_module(uintptr_t address, uint32_t *module, uint64_t *offset);
WEFT_HIDDEN uint32_t weft_read_python_stack(struct weft_python_place *places, uint32_t n);
WEFT_HIDDEN bool weft_write_python_frame(struct weft_text *text, const struct weft_python_place *place);

#endif
