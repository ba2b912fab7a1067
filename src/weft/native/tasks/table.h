// The table of logical tasks, in the memory of the program itself: a debugger reads it in bulk, a core file has it.
//
// A task is a record of 96 bytes in a slab of SLAB records; weft_tasks.slabs points to them, weft_tasks.count of them.
//
//    0 id        8 parent   16 created (pc)  24 waiting (pc)
//   32 what     40 below    48 in_group      56 group
//   64 team     72 needs    80 state  84 wait  88 worker  92 traced
//
//  example: id 5, parent 2, state TOP (2), wait 0, worker = its thread's number in the kernel, below = the record of 2
//
// `below` is the record that this task lies on in its worker's stack (for a free record: the next free one). `what` is
// the lock that it waits for, or the taskgroup at whose end it stands. in_group: the taskgroup it was made in; group:
// the one it has opened. needs: the last task that it depends on. Slabs live as long as the program; a record is reused
// only when its task is done. src/weft/tasks/layout.py is the reader's side; a test holds them together.
#ifndef WEFT_TASKS_TABLE_H
#define WEFT_TASKS_TABLE_H
#include <stdint.h>

enum { FREE, NEW, TOP, MIDDLE, HEAP };
enum { ON_CREATE = 1, ON_BEGIN, ON_SUSPEND, ON_RESUME, ON_DONE, ON_JOINED };
enum { RUNS = 1, SPAWNS = 2, JOINS = 4 };  // traced: what a task signals
enum { WAIT_LOCK = 64, WAIT_DEPENDENCE = 128 };  // beside OMPT's kinds of sync region, which are 1 to 10

typedef struct task {
    uint64_t id, parent;
    const void *created, *waiting;
    uint64_t what;
    struct task *below;
    struct group *in_group, *group;
    void *team;
    uint64_t needs;
    int32_t state, wait, worker, traced;
} task;

typedef struct group {
    struct group *outer;  // owned by the task that opened it, freed by it at the group's end
} group;

enum { SLAB = 1024, SLABS = 1 << 16, LOCKS = 4096 };

typedef struct {
    uint64_t lock, owner;  // the number of the task that holds it, 0 for none
} lock;

typedef struct {
    char magic[8];  // "weftask1"
    int32_t count, watch;  // watch: every creation signals
    uint32_t size, slab;
    task *slabs[SLABS];
    lock locks[LOCKS];
} table;
#endif
