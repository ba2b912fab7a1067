// The table of logical tasks, in the memory of the program itself: a debugger reads it in bulk, a core file has it.
//
// A task is a record of 88 bytes in a slab of SLAB records; weft_tasks.slabs points to `count` of them. A free record
// has the number 0. Only what a task pays for on its way is stored; its state follows from it:
//
//    0 id       8 parent   16 created (pc)   24 below   32 scope
//   40 waiting (pc)        48 what           56 needs   64 wait   68 traced
//   72 pedigree            80 line
//
//  new: below is FRESH (1).  heap: below is 0.  top: a worker's `top` points to it.  middle: beneath such a one.
//  example: id 5, parent 2, below = the record of 2, which has below = `nobody`, the bottom of every stack; top of
//  the worker = the record of 5
//
// `below` is the record that this task lies on in its worker's stack. `scope`: the innermost taskgroup that it has
// opened or was made in, or its team. `what`: the lock that it waits for, or the taskgroup at whose end it stands.
// `needs`: the number of the last task that it depends on. `pedigree`: of the parent's and of the how-manieth child it
// is (Leiserson, Schardl and Sukha, 2012), so that it is the same in every run of the same spawns; `line`: what its
// next child's is made from. Slabs live as long as the program, a worker as long as its
// thread; numbers are never used again. src/weft/tasks/layout.py is the reader's side; a test holds the two together.
#ifndef WEFT_TASKS_TABLE_H
#define WEFT_TASKS_TABLE_H
#include <stdint.h>

enum { ON_CREATE = 1, ON_BEGIN, ON_SUSPEND, ON_RESUME, ON_DONE, ON_JOINED };
// traced: what a task signals, which the debugger writes, as two bytes. Beyond them, of an untied task: that it is one,
// that it goes on on a worker, and that it has come to its end, although its record lies in that worker's stack. These
// bits are none of a task's flags in OMPT: handle_task_create() asks for both at once.
enum { RUNS = 1 << 8, SPAWNS = 1 << 9, JOINS = 1 << 10, NOBODY = 1 << 11, TRACED = 15 << 8 };
enum { UNTIED = 1 << 16, ON = 1 << 17, FINISHED = 1 << 18 };
enum { HELD = 1 << 24 }; // the debugger holds it; it writes that byte alone
enum { WAIT_LOCK = 64, WAIT_EVENT = 65 }; // beside OMPT's kinds of sync region, which are 1 to 10

typedef struct task {
    uint64_t id, parent;
    const void *created;
    struct task *below; // a free record: the next free one
    struct scope *scope;
    const void *waiting;
    uint64_t what, needs;
    int32_t wait, traced;
    uint64_t pedigree, line;
} task;

#define FRESH ((task *)1)

typedef struct scope {
    struct scope *outer; // owned by the task that opened it, given back at its end
    const void *created; // a team's directive; 0 for a taskgroup
    uint64_t opener; // the number of the task that opened it
    uint64_t pedigree; // of a team: what those of its implicit tasks are made from
} scope;

typedef struct worker { // in its thread's own memory
    task *top;
    task *free;
    uint64_t next_id;
    uint64_t thread; // its number in the kernel
    const task *held; // the task that it would begin or take up, and waits with because that one is held
    scope *scopes; // free ones
    int64_t slot; // its place in the table, -1 for none
    const void *loop, *named; // the last taskloop that it made tasks for, and what the runtime calls that place
} worker;

enum { SLAB = 1024, SLABS = 1 << 16, LOCKS = 4096, WORKERS = 4096 };

typedef struct {
    uint64_t lock, owner; // the number of the task that holds it, 0 for none
} lock;

typedef struct {
    char magic[8]; // "weftask1"
    int32_t count, watch; // watch: what implicit tasks are traced for from their begin
    uint32_t size, slab;
    uint64_t workers;
    task *slabs[SLABS];
    worker *worker[WORKERS];
    lock locks[LOCKS];
} table;
#endif
