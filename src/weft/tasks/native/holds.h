// Tasks that the debugger holds (holds.c).
#ifndef WEFT_TASKS_HOLDS_H
#define WEFT_TASKS_HOLDS_H
#include "table.h"

// Wait until a task is held no more.
__attribute__((visibility("hidden"))) void weft_tasks_wait_while_held(const task *task_);
#endif
