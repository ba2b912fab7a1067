// Which task of each thread made which calls of MPI: a file beside the record of a rank.
//
// RUN/tasks/HOST-PID-RUNTIME.tasks is built as a record is (native/format.h: header, chunks, streams), with the magic
// WEFTTASK and slots of 40 bytes. Its DEFINITIONS are those of a record: LIBRARY (the runtime), THREAD, MODULE, SITE,
// PYCODE, NAME (class 0: of tasks). Its EVENTS are the switches of each thread:
//
//    0       8      16       24     28     32     36     40
//    | calls | task | parent | site | name | kind | until |
//
// From its call number `calls` on, counted in its own EVENTS in the record, the thread made its calls in `task`, up to
// the next switch: no clock is asked, so the join is exact. A task of 0: none, or one that is not known for certain.
// Where no call came between two switches, the second takes the first one's place: a file holds no more switches than
// its rank made calls, and one a thread.
//   example: | 3 | 7 | 1 | 2 | 0 | EXPLICIT | 0 |, then | 5 | 1 | 0 | 0 | 0 | INITIAL | 0 |: calls 3 and 4 were task 7's
//
// A thread writes its own stream. What is written is in the file, whatever the process dies of; a switch that a kill
// cuts in two is followed by no call.
#ifndef WEFT_TASKS_SWITCHES_H
#define WEFT_TASKS_SWITCHES_H
#include <stddef.h>
#include <stdint.h>

#define WEFT_TASKS_MAGIC "WEFTTASK"

/* What a task is to its runtime. INITIAL: what a thread does outside of all parallel regions; IMPLICIT: a thread's part
 * of a parallel region. */
enum weft_task_kind { WEFT_TASK_NONE = 0, WEFT_TASK_INITIAL = 1, WEFT_TASK_IMPLICIT = 2, WEFT_TASK_EXPLICIT = 3 };

struct weft_switch {
    uint64_t calls;
    uint64_t task; // the runtime's number, from 1 on
    uint64_t parent; // 0: not known
    uint32_t site; // where it was made: a SITE of this file, 0: not known
    uint32_t name; // a NAME of this file, 0: none
    uint32_t kind; // enum weft_task_kind
    uint32_t until; // for so many calls only: the last one of a thread where no more could be written. Else 0
};

_Static_assert(sizeof(struct weft_switch) == 40, "switch layout");

#define WEFT_INSIDE __attribute__((visibility("hidden")))

// Begin to record for the run that WEFT_INTERNAL_TASKS names. 0 where it names none: then nothing else here is to be called.
WEFT_INSIDE int weft_switches_begin(const char *runtime);
// From here on this thread's calls are those of a task. `calls` of what is given is not looked at.
WEFT_INSIDE void weft_switch(const struct weft_switch *to);
// What the thread was last said to be in.
WEFT_INSIDE struct weft_switch weft_switch_now(void);
// A definition of format.h; kept back until there is a file.
WEFT_INSIDE void weft_switches_define(int type, const void *payload, size_t length);
// The number of the site of a return address, 0 where there is no room for it.
WEFT_INSIDE uint32_t weft_switches_site(const void *address);
#endif
