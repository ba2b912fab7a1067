// The order in which OpenMP's tasks take their turns: written down, or kept to in another run.
//
// Only where WEFT_INTERNAL_TASKS_TURNS is set ("record:FILE" or "replay:FILE") and this object is preloaded. Then Weft, not the
// runtime, chooses which task a thread runs: threads run one at a time, from one point to the next (a task's making,
// begin and wait; a barrier; a lock), and each choice is a line of the file:
//
//    {"schema": "weft-schedule/1", "runtime": "openmp"}
//    ACTOR g             the thread of that implicit task goes on
//    ACTOR b PEDIGREE    it begins that task, on top of what it has
//
// ACTOR and PEDIGREE are pedigrees of table.h, of 16 digits: they are the same in every run of the same spawns.
#ifndef WEFT_TASKS_TURNS_H
#define WEFT_TASKS_TURNS_H
#include "ompt.h"
#include "table.h"

#define WEFT_INSIDE __attribute__((visibility("hidden")))

// What tool.c does for it: a new task's record, with the one on top as its parent; the record on top; a lock's owner.
WEFT_INSIDE task *weft_tasks_create(const void *created);
WEFT_INSIDE task *weft_tasks_top(void);
WEFT_INSIDE uint64_t weft_tasks_find_owner(uint64_t lock);

// The setter of callbacks through which all go, or the one that was given where no order is wanted.
WEFT_INSIDE ompt_set weft_turns_begin(ompt_set set_callback);
#endif
