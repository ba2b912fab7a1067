// What weft's tool needs of OMPT, the tools interface of OpenMP 5.1 (chapter 4): values and signatures of the standard.
#ifndef WEFT_TASKS_OMPT_H
#define WEFT_TASKS_OMPT_H
#include <stddef.h>
#include <stdint.h>

typedef union {
    uint64_t value;
    void *ptr;
} ompt_data;

typedef void (*ompt_function)(void);
typedef ompt_function (*ompt_lookup)(const char *name);
typedef int (*ompt_set)(int event, ompt_function callback);
typedef struct {
    int (*initialize)(ompt_lookup lookup, int device, ompt_data *tool);
    void (*finalize)(ompt_data *tool);
    ompt_data tool;
} ompt_tool;

enum {
    OMPT_THREAD_BEGIN = 1,
    OMPT_THREAD_END = 2,
    OMPT_PARALLEL_BEGIN = 3,
    OMPT_PARALLEL_END = 4,
    OMPT_TASK_CREATE = 5,
    OMPT_TASK_SCHEDULE = 6,
    OMPT_IMPLICIT_TASK = 7,
    OMPT_SYNC_REGION_WAIT = 16,
    OMPT_MUTEX_RELEASED = 17,
    OMPT_TASK_DEPENDENCE = 19,
    OMPT_WORK = 20,
    OMPT_SYNC_REGION = 23,
    OMPT_MUTEX_ACQUIRE = 26,
    OMPT_MUTEX_ACQUIRED = 27
};
enum { OMPT_BEGIN = 1, OMPT_END = 2 };
enum {
    OMPT_COMPLETE = 1,
    OMPT_YIELD = 2,
    OMPT_CANCEL = 3,
    OMPT_DETACH = 4,
    OMPT_EARLY_FULFILL = 5,
    OMPT_LATE_FULFILL = 6,
    OMPT_SWITCH = 7,
    OMPT_TASKWAIT_COMPLETE = 8
};
enum { OMPT_SYNC_TASKWAIT = 5, OMPT_SYNC_TASKGROUP = 6 };
enum { OMPT_WORK_SINGLE_EXECUTOR = 3, OMPT_WORK_SINGLE_OTHER = 4, OMPT_WORK_TASKLOOP = 7 };
enum {
    OMPT_TASK_INITIAL = 1,
    OMPT_TASK_IMPLICIT = 2,
    OMPT_TASK_EXPLICIT = 4,
    OMPT_TASK_TASKWAIT = 0x10,
    OMPT_TASK_UNTIED = 0x10000000
};
#endif
