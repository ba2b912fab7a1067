/* The tasks of one run, in a file that all of them map: which tid is which rank, and who spawned whom.
 *
 *   | header | task 0 | task 1 | ...
 *
 * A task's rank is its place here. It is given by the parent, when pvm_spawn returns and before its own call does, so
 * that a child, which waits for its place before it makes a call, never has a name by accident. What no task of the run
 * spawned (the program that `weft run` started, the group server) takes the place that `weft run` told it, or the next.
 * weft/pvm/tasks.py reads it.
 */
#ifndef WEFT_PVM_TASKS_H
#define WEFT_PVM_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_TASKS_MAGIC 0x316b73746d767077u /* "wpvmtsk1" */
#define WEFT_TASKS_MOST 16384u

struct weft_tasks_header {
    uint64_t magic;
    volatile uint32_t count; /* places that are taken */
    volatile uint32_t first; /* places that `weft run` keeps for what it starts itself */
};

struct weft_task {
    volatile int32_t tid;     /* 0: not known yet */
    volatile int32_t parent;  /* its rank; -1: nobody in the run */
    volatile uint32_t ordinal; /* the how-manieth child of its parent, from 0 on */
    volatile int32_t pid;     /* 0: it has made no call yet */
    volatile uint32_t state;  /* enum weft_task_state */
    volatile uint32_t calls; /* twice the calls that pass messages, polls counted; odd inside of one */
    char name[24]; /* of its program, cut; set by itself */
};

/* How far a task is. */
enum weft_task_state {
    WEFT_TASK_SPAWNED = 0,
    WEFT_TASK_RUNNING = 1,
    WEFT_TASK_LEFT = 2, /* pvm_exit returned, or the process is on its way out */
    WEFT_TASK_SERVING = 3, /* the group server waits for its first request */
    WEFT_TASK_KILLED = 4,  /* another task ended it by pvm_kill */
};

_Static_assert(sizeof(struct weft_tasks_header) == 16, "tasks header layout");
_Static_assert(sizeof(struct weft_task) == 48, "task layout");

#endif
