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
// include and no typedef. src/weft/tasks/cilk5/layout.py is the reader's side; a test holds the two together.
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

void weft_cilk_enter(struct weft_cilk_worker *w, void *state, unsigned long offset);
void weft_cilk_begun(struct weft_cilk_task *t, struct weft_cilk_task *maker);
void weft_tasks_signal(int event, struct weft_cilk_task *of, struct weft_cilk_task *other);

// As in tasks/native/tool.c: the finalizer of a well-mixed hash, cut short.
static inline unsigned long weft_cilk_mixed(unsigned long of) {
    of *= 0x9E3779B97F4A7C15u;
    return of ^ of >> 29;
}

static inline void weft_cilk_begin(struct weft_cilk_worker *w, void *state, void *frame, struct weft_cilk_task *t,
                                   const void *created) {
    if (__builtin_expect((w->next & (WEFT_CILK_BLOCK - 1)) == 0, 0))
        weft_cilk_enter(w, state, (unsigned long)((char *)t - (char *)frame));
    struct weft_cilk_task *maker = w->top;
    t->id = w->next++;
    t->parent = maker->id;
    t->created = created;
    t->below = t->maker = maker;
    t->thread = w->thread;
    t->self = t;
    t->entry = 0;
    t->wait = t->traced = 0;
    t->pedigree = weft_cilk_mixed(++maker->line);
    t->line = t->pedigree * 0xBF58476D1CE4E5B9u;
    w->top = t;
    w->begun++;
    if (__builtin_expect(maker->traced != 0, 0)) weft_cilk_begun(t, maker);
}

// A frame is run by its slow clone, which Cilk's scheduler calls: nothing of the program lies beneath it.
static inline void weft_cilk_take(struct weft_cilk_worker *w, void *state, int *frame, struct weft_cilk_task *t) {
    if (__builtin_expect(w->next == 0, 0)) weft_cilk_enter(w, state, (unsigned long)((char *)t - (char *)frame));
    t->entry = (unsigned long)*frame;
    t->below = &weft_cilk_nobody;
    t->thread = w->thread;
    t->wait = 0;
    w->top = t;
    w->taken++;
    if (__builtin_expect(t->traced & WEFT_CILK_RUNS, 0)) weft_tasks_signal(WEFT_CILK_RESUME, t, 0);
}

static inline void weft_cilk_end(struct weft_cilk_worker *w, struct weft_cilk_task *t) {
    if (__builtin_expect(t->traced != 0, 0)) weft_tasks_signal(WEFT_CILK_DONE, t, t->maker);
    t->self = 0;
    w->top = t->below;
    w->ended++;
}

// At a child's return to a frame that was stolen or aborted meanwhile: this worker has it no more.
static inline void weft_cilk_lost(struct weft_cilk_worker *w, struct weft_cilk_task *t) {
    if (w->top == t) w->top = &weft_cilk_nobody;
}

// From here on another worker may take the frame, before Cilk_sync has returned: so it is told first, and taken back. Who
// looks in between sees it wait, and is told as of any other that goes on.
static inline void weft_cilk_wait(struct weft_cilk_worker *w, struct weft_cilk_task *t, const void *here) {
    t->waiting = here;
    t->wait = WEFT_CILK_SYNC;
    t->thread = 0;
    w->top = &weft_cilk_nobody;
}

static inline int weft_cilk_waited(struct weft_cilk_worker *w, struct weft_cilk_task *t) {
    t->wait = 0;
    t->thread = w->thread;
    w->top = t;
    if (__builtin_expect(t->traced & WEFT_CILK_RUNS, 0)) weft_tasks_signal(WEFT_CILK_RESUME, t, 0);
    return 0;
}

static inline void weft_cilk_joined(struct weft_cilk_task *t) {
    if (__builtin_expect(t->traced & WEFT_CILK_JOINS, 0)) weft_tasks_signal(WEFT_CILK_JOINED, t, 0);
}
#endif
