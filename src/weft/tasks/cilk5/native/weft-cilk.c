// What a program of Cilk-5 has once for Weft: the table's begin, and the rare ways of its hooks.
#define _GNU_SOURCE
#include "weft-cilk.h"
#include <dlfcn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

struct weft_cilk_table weft_tasks = {.magic = {'w', 'e', 'f', 't', 'c', 'i', 'l', '1'}};
struct weft_cilk_task weft_cilk_nobody = {.traced = WEFT_CILK_NOBODY};

// The debugger's breakpoint: reached only by traced tasks.
__attribute__((noinline)) void weft_tasks_signal(int event, struct weft_cilk_task *of, struct weft_cilk_task *other) {
    __asm__ volatile("" : : "r"(event), "r"(of), "r"(other) : "memory");
}

// A worker comes, or has used up its numbers.
__attribute__((noinline, cold)) void weft_cilk_enter(struct weft_cilk_worker *w, void *state, unsigned long offset) {
    if (w->next == 0) {
        int at = (int)(w - weft_tasks.worker) + 1, count = __atomic_load_n(&weft_tasks.count, __ATOMIC_RELAXED);
        if (w->top == NULL) w->top = &weft_cilk_nobody;
        w->thread = (unsigned long)syscall(SYS_gettid);
        w->state = state;
        weft_tasks.offset = offset;
        while (count < at &&
               !__atomic_compare_exchange_n(&weft_tasks.count, &count, at, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        }
    }
    w->next = __atomic_fetch_add(&weft_tasks.ids, WEFT_CILK_BLOCK, __ATOMIC_RELAXED);
    if (w->next == 0) w->next = 1; // 0 is nobody's
}

__attribute__((noinline, cold)) void weft_cilk_begun(struct weft_cilk_task *t, struct weft_cilk_task *maker) {
    if (maker->traced & WEFT_CILK_NOBODY) t->traced = weft_tasks.watch;
    if (maker->traced & WEFT_CILK_SPAWNS) weft_tasks_signal(WEFT_CILK_CREATE, maker, t);
    if (t->traced & WEFT_CILK_RUNS) weft_tasks_signal(WEFT_CILK_BEGIN, t, maker);
}

static void aborted(struct weft_cilk_task *t, const void *state) {
    if (t->self != t) return;
    t->wait = WEFT_CILK_ABORTED;
    if (t->traced != 0) weft_tasks_signal(WEFT_CILK_DONE, t, t->maker);
    t->self = NULL;
    for (int at = 0; at < weft_tasks.count; at++) {
        struct weft_cilk_worker *w = &weft_tasks.worker[at];
        if (w->state != state) continue;
        w->ended++;
        if (w->top == t) w->top = t->below;
    }
}

// Cilk's runtime gives a frame back by this, its own function, where its task was aborted.
void Cilk_destroy_frame(void *state, void *frame, size_t size) {
    static void (*real)(void *, void *, size_t);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "Cilk_destroy_frame");
    if (weft_tasks.offset != 0 && size >= weft_tasks.offset + sizeof(struct weft_cilk_task))
        aborted((struct weft_cilk_task *)((char *)frame + weft_tasks.offset), state);
    real(state, frame, size);
}
