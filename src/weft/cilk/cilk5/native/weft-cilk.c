// What a program of Cilk-5 has once for Weft: the table's begin, and the rare ways of its hooks.
#define _GNU_SOURCE
#include "weft-cilk.h"
#include <dlfcn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

struct weft_cilk_table weft_tasks = {.magic = {'w', 'e', 'f', 't', 'c', 'i', 'l', '1'}};
struct weft_cilk_task weft_cilk_nobody = {.traced = WEFT_CILK_NOBODY};

// Breakpoint of the debugger: only traced tasks reach it.
__attribute__((noinline)) void weft_tasks_signal(int event, struct weft_cilk_task *of, struct weft_cilk_task *other) {
    __asm__ volatile("" : : "r"(event), "r"(of), "r"(other) : "memory");
}

// Enter a worker into the table at its first task, and give it the next block of numbers for tasks.
__attribute__((noinline, cold)) void weft_cilk_enter(struct weft_cilk_worker *worker, void *state,
                                                     unsigned long offset) {
    if (worker->next == 0) {
        int index = (int)(worker - weft_tasks.worker) + 1, count = __atomic_load_n(&weft_tasks.count, __ATOMIC_RELAXED);
        if (worker->top == NULL) worker->top = &weft_cilk_nobody;
        worker->thread = (unsigned long)syscall(SYS_gettid);
        worker->state = state;
        weft_tasks.offset = offset;
        while (count < index &&
               !__atomic_compare_exchange_n(&weft_tasks.count, &count, index, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        }
    }
    worker->next = __atomic_fetch_add(&weft_tasks.ids, WEFT_CILK_BLOCK, __ATOMIC_RELAXED);
    if (worker->next == 0) worker->next = 1; // 0 is nobody's
}

// Signal that a traced task was made and begins, or one whose maker is traced.
__attribute__((noinline, cold)) void weft_cilk_begin_traced(struct weft_cilk_task *record,
                                                            struct weft_cilk_task *maker) {
    if (maker->traced & WEFT_CILK_NOBODY) record->traced = weft_tasks.watch;
    if (maker->traced & WEFT_CILK_SPAWNS) weft_tasks_signal(WEFT_CILK_CREATE, maker, record);
    if (record->traced & WEFT_CILK_RUNS) weft_tasks_signal(WEFT_CILK_BEGIN, record, maker);
}

// Take a task off its worker whose frame is given back without its end.
static void abort_task(struct weft_cilk_task *record, const void *state) {
    if (record->self != record) return;
    record->wait = WEFT_CILK_ABORTED;
    if (record->traced != 0) weft_tasks_signal(WEFT_CILK_DONE, record, record->maker);
    record->self = NULL;
    for (int index = 0; index < weft_tasks.count; index++) {
        struct weft_cilk_worker *worker = &weft_tasks.worker[index];
        if (worker->state != state) continue;
        worker->ended++;
        if (worker->top == record) worker->top = record->below;
    }
}

// In place of the function of Cilk's runtime that gives a frame back where its task was aborted: end the task's record
// first.
void Cilk_destroy_frame(void *state, void *frame, size_t size) {
    static void (*real)(void *, void *, size_t);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "Cilk_destroy_frame");
    if (weft_tasks.offset != 0 && size >= weft_tasks.offset + sizeof(struct weft_cilk_task))
        abort_task((struct weft_cilk_task *)((char *)frame + weft_tasks.offset), state);
    real(state, frame, size);
}
