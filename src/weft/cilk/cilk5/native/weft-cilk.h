// Weft's part in a program of Cilk-5: each frame of a Cilk procedure has the record of its task behind its header.
//
// The record lives as long as its frame, so that no task costs an allocation; its state follows from where it lies. A
// debugger finds all of them from the workers' tops: `below` on their stacks, `maker` for those on the heap, for in
// Cilk a parent outlives its children. Offsets (96 bytes):
//
//    0 id       8 parent   16 created (pc)   24 below   32 maker   40 waiting (pc)
//   48 thread  56 self     64 entry          72 wait     76 traced
//   80 pedigree  88 line
//
//  example: task 2, made by 1 and run by thread 77, with 1 beneath it: id 2, parent 1, below and maker = the record of
//  1, thread 77, self = its own address; the worker's top = its own address
//
// `thread`: who ran it last. A stolen frame stays in its victim's chain, where another thread's number cuts it off.
// `self`: its own address while it lives, 0 afterwards. `entry`: the number of the spawn or sync where its slow clone
// took it up last, 0 while its fast clone runs. `pedigree`, `line`: as in tasks/native/table.h. This file comes before the program's own headers, so that it has no
// include and no typedef. src/weft/cilk/cilk5/layout.py is the reader's side; a test holds the two together.
#ifndef WEFT_CILK_H
#define WEFT_CILK_H

enum { WEFT_CILK_CREATE = 1, WEFT_CILK_BEGIN, WEFT_CILK_RESUME = 4, WEFT_CILK_DONE, WEFT_CILK_JOINED };
enum { WEFT_CILK_RUNS = 1 << 8, WEFT_CILK_SPAWNS = 1 << 9, WEFT_CILK_JOINS = 1 << 10, WEFT_CILK_NOBODY = 1 << 11 };
enum { WEFT_CILK_SYNC = 5, WEFT_CILK_ABORTED = 66, WEFT_CILK_BLOCK = 1024, WEFT_CILK_WORKERS = 4096 };

struct weft_cilk_task {
    unsigned long id, parent;
    const void *created;
    struct weft_cilk_task *below, *maker;
    const void *waiting;
    unsigned long thread;
    struct weft_cilk_task *self;
    unsigned long entry;
    int wait, traced;
    unsigned long pedigree, line;
};

struct weft_cilk_worker {
    struct weft_cilk_task *top;
    unsigned long next, thread; // the number of its next task; its own in the kernel
    void *state; // Cilk's own: its deque's head and tail come first in there
    unsigned long begun, ended, taken; // tasks begun and ended here, and frames taken from elsewhere
    unsigned long unused; // 64 bytes, so that two workers never write to one cache line
};

struct weft_cilk_table {
    char magic[8]; // "weftcil1"
    int count, watch; // watch: what the first task is traced for from its begin
    unsigned long ids, offset; // offset: of a record in its frame
    struct weft_cilk_worker worker[WEFT_CILK_WORKERS];
};

extern struct weft_cilk_table weft_tasks;
extern struct weft_cilk_task weft_cilk_nobody;

void weft_cilk_enter(struct weft_cilk_worker *worker, void *state, unsigned long offset);
void weft_cilk_begin_traced(struct weft_cilk_task *record, struct weft_cilk_task *maker);
void weft_tasks_signal(int event, struct weft_cilk_task *of, struct weft_cilk_task *other);

// Return a hash of a number, as mix_hash of tasks/native/tool.c.
static inline unsigned long weft_cilk_mix(unsigned long number) {
    number *= 0x9E3779B97F4A7C15u;
    return number ^ number >> 29;
}

// Fill the record of a new task in its frame, made at an instruction; it runs on top of the worker's.
static inline void weft_cilk_begin(struct weft_cilk_worker *worker, void *state, void *frame,
                                   struct weft_cilk_task *record, const void *created) {
    if (__builtin_expect((worker->next & (WEFT_CILK_BLOCK - 1)) == 0, 0))
        weft_cilk_enter(worker, state, (unsigned long)((char *)record - (char *)frame));
    struct weft_cilk_task *maker = worker->top;
    record->id = worker->next++;
    record->parent = maker->id;
    record->created = created;
    record->below = record->maker = maker;
    record->thread = worker->thread;
    record->self = record;
    record->entry = 0;
    record->wait = record->traced = 0;
    record->pedigree = weft_cilk_mix(++maker->line);
    record->line = record->pedigree * 0xBF58476D1CE4E5B9u;
    worker->top = record;
    worker->begun++;
    if (__builtin_expect(maker->traced != 0, 0)) weft_cilk_begin_traced(record, maker);
}

// Take up a frame that runs by its slow clone from here on, which Cilk's scheduler calls: nothing of the program lies
// beneath it.
static inline void weft_cilk_take(struct weft_cilk_worker *worker, void *state, int *frame,
                                  struct weft_cilk_task *record) {
    if (__builtin_expect(worker->next == 0, 0))
        weft_cilk_enter(worker, state, (unsigned long)((char *)record - (char *)frame));
    record->entry = (unsigned long)*frame;
    record->below = &weft_cilk_nobody;
    record->thread = worker->thread;
    record->wait = 0;
    worker->top = record;
    worker->taken++;
    if (__builtin_expect(record->traced & WEFT_CILK_RUNS, 0)) weft_tasks_signal(WEFT_CILK_RESUME, record, 0);
}

// End a task that returns.
static inline void weft_cilk_end(struct weft_cilk_worker *worker, struct weft_cilk_task *record) {
    if (__builtin_expect(record->traced != 0, 0)) weft_tasks_signal(WEFT_CILK_DONE, record, record->maker);
    record->self = 0;
    worker->top = record->below;
    worker->ended++;
}

// Take a task off a worker, at a child's return to a frame that was stolen or aborted meanwhile.
static inline void weft_cilk_drop(struct weft_cilk_worker *worker, struct weft_cilk_task *record) {
    if (worker->top == record) worker->top = &weft_cilk_nobody;
}

// Note that a task waits at a sync; weft_cilk_stop_waiting takes that back if it need not. It is noted before Cilk_sync
// is called, because another worker may take the frame before Cilk_sync returns.
static inline void weft_cilk_wait(struct weft_cilk_worker *worker, struct weft_cilk_task *record, const void *address) {
    record->waiting = address;
    record->wait = WEFT_CILK_SYNC;
    record->thread = 0;
    worker->top = &weft_cilk_nobody;
}

// Note that a task goes on behind a sync at which it did not have to wait. Return 0, as the generated code calls it
// within an expression.
static inline int weft_cilk_stop_waiting(struct weft_cilk_worker *worker, struct weft_cilk_task *record) {
    record->wait = 0;
    record->thread = worker->thread;
    worker->top = record;
    if (__builtin_expect(record->traced & WEFT_CILK_RUNS, 0)) weft_tasks_signal(WEFT_CILK_RESUME, record, 0);
    return 0;
}

// Signal that all children of a traced task have joined.
static inline void weft_cilk_signal_join(struct weft_cilk_task *record) {
    if (__builtin_expect(record->traced & WEFT_CILK_JOINS, 0)) weft_tasks_signal(WEFT_CILK_JOINED, record, 0);
}
#endif
