/* Telling of the end: exits, aborts, calls outside of MPI's life; stacks and how they come into the record. */
#define _GNU_SOURCE
#include "endings.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

__thread int weft_careful;
pid_t weft_pid;
volatile int weft_leaving, weft_over;

static _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
static uintptr_t (*unwound_ip)(struct _Unwind_Context *);
static void *(*function_of)(void *);

bool weft_can_record_ending(void) {
    return weft_the_record && (weft_recording || weft_over) && !weft_the_record->stopped && getpid() == weft_pid;
}

/* Takes a lock; in a handler of a signal only if it becomes free soon. Returns whether it did. */
bool weft_take_lock(pthread_mutex_t *lock) {
    if (!weft_careful) return !pthread_mutex_lock(lock);
    for (int i = 0; i < 50; i++) {
        if (!pthread_mutex_trylock(lock)) return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

/* ---- stacks ---- */
struct unwinding {
    struct weft_stack *stack;
    uintptr_t from;
    bool begun, interrupted;
};

static bool of_the_recorder(uintptr_t address) {
    Dl_info there, here;
    return dladdr((void *)address, &there) && dladdr((void *)weft_record_ending, &here) &&
           there.dli_fbase == here.dli_fbase;
}

/* The handler's own frames come first, then the interrupted one. */
static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data) {
    struct unwinding *u = data;
    uintptr_t at = unwound_ip(context);
    if (!u->begun) {
        u->begun = at == u->from;
        if (!u->begun || u->interrupted) return _URC_NO_REASON; /* of a signal, the first is there already */
    }
    if (u->stack->natives == WEFT_ENDING_FRAMES || !at) return _URC_END_OF_STACK;
    if (!u->stack->natives && of_the_recorder(at)) return _URC_NO_REASON;
    u->stack->native[u->stack->natives++] = at;
    return _URC_NO_REASON;
}

/* Where unwinding finds no way: the caller's return address on top of the stack (a call through a pointer to nowhere),
 * and frame pointers as far as they lead upwards. */
static void walk(struct weft_stack *stack, uintptr_t top, uintptr_t frame) {
    uintptr_t pair[2];
    uint32_t module;
    uint64_t offset;
    if (weft_copy_if_readable(pair, top, sizeof *pair) && weft_find_module(pair[0], &module, &offset))
        stack->native[stack->natives++] = pair[0];
    while (frame >= top && stack->natives < WEFT_ENDING_FRAMES && weft_copy_if_readable(pair, frame, sizeof pair) &&
           pair[0] > frame) {
        if (!weft_find_module(pair[1], &module, &offset)) return;
        stack->native[stack->natives++] = pair[1];
        frame = pair[0];
    }
}

/* Returns the stack pointer at the moment of a signal. */
uintptr_t weft_read_stack_pointer(const void *context) {
    const ucontext_t *c = context;
#if defined(__x86_64__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#else
    return (uintptr_t)c->uc_mcontext.sp;
#endif
}

/* Takes the calling thread's frames, in C and in Python; with `context` those of the code that a signal interrupted. */
void weft_read_own_stack(struct weft_stack *stack, const void *context) {
    stack->tid = (pid_t)syscall(SYS_gettid);
    stack->slot = weft_self ? weft_self->slot + 1 : 0;
    stack->natives = 0;
    stack->pythons = weft_python ? weft_read_python_stack(stack->python, WEFT_ENDING_FRAMES) : 0;
    struct unwinding u = {
        .stack = stack, .from = (uintptr_t)__builtin_return_address(0), .interrupted = context != NULL};
    if (context) {
        const ucontext_t *c = context;
#if defined(__x86_64__)
        uintptr_t at = (uintptr_t)c->uc_mcontext.gregs[REG_RIP], top = (uintptr_t)c->uc_mcontext.gregs[REG_RSP],
                  frame = (uintptr_t)c->uc_mcontext.gregs[REG_RBP];
#else
        uintptr_t at = c->uc_mcontext.pc, top = c->uc_mcontext.sp, frame = c->uc_mcontext.regs[29];
#endif
        u.from = at;
        stack->native[stack->natives++] = at + 1;
        if (backtrace) backtrace(visit, &u);
        if (stack->natives == 1) walk(stack, top, frame);
        return;
    }
    if (backtrace) backtrace(visit, &u);
}

/* ---- into the record ---- */
static void text_or_nothing(struct weft_text *text, const char *string, size_t most) {
    weft_write_bytes(text, string ? string : "", string ? strnlen(string, most) : 0);
}

/* Writes the frames of a stack in C, each as module and offset. */
static void text_natives(struct weft_text *text, const struct weft_stack *stack) {
    weft_write_unsigned(text, stack ? stack->natives : 0);
    for (uint32_t i = 0; stack && i < stack->natives; i++) {
        uint32_t module = 0;
        uint64_t offset = 0;
        if (!weft_find_module(stack->native[i] - 1, &module, &offset)) offset = 0;
        weft_write_unsigned(text, module);
        weft_write_unsigned(text, module ? offset + 1 : 0);
    }
}

/* Writes the frames of a stack in Python, each as file, line and function. */
static void text_pythons(struct weft_text *text, const struct weft_told *told) {
    if (told->python) {
        if ((size_t)(text->end - text->p) < told->python_bytes) text->overflow = true;
        else text->p = mempcpy(text->p, told->python, told->python_bytes);
        return;
    }
    struct weft_text frames = {.p = text->p + 10, .end = text->end};
    uint8_t *start = frames.p;
    uint32_t n = 0;
    for (uint32_t i = 0; told->stack && i < told->stack->pythons; i++)
        n += weft_write_python_frame(&frames, &told->stack->python[i]);
    text->overflow |= frames.overflow;
    text->p = weft_put_u(text->p, n);
    memmove(text->p, start, (size_t)(frames.p - start));
    text->p += frames.p - start;
}

enum { MOST_TEXT = 1 << 16, MOST_TRACEBACK = 1 << 20, SPACE = 1 << 18 };

/* Writes an ending of the process, or a sign of one, into the record. */
void weft_record_ending(const struct weft_told *told) {
    size_t size =
        SPACE + 3 * MOST_TEXT + (told->traceback ? strnlen(told->traceback, MOST_TRACEBACK) : 0) + told->python_bytes;
    uint8_t *space = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED) return;
    struct weft_text text = {.p = space, .end = space + size};
    const struct weft_stack *stack = told->stack;
    weft_write_unsigned(&text, (uint64_t)told->kind);
    weft_write_unsigned(&text, stack ? stack->slot : weft_self ? weft_self->slot + 1 : 0);
    weft_write_unsigned(&text, (uint64_t)(stack ? stack->tid : (pid_t)syscall(SYS_gettid)));
    weft_write_unsigned(&text, weft_ticks(weft_clock_kind));
    weft_write_signed(&text, told->code);
    weft_write_signed(&text, told->detail);
    weft_write_unsigned(&text, told->address);
    text_or_nothing(&text, told->name, MOST_TEXT);
    text_or_nothing(&text, told->text, MOST_TEXT);
    text_or_nothing(&text, told->traceback, MOST_TRACEBACK);
    text_or_nothing(&text, told->who, MOST_TEXT);
    text_pythons(&text, told);
    text_natives(&text, stack);
    if (!text.overflow) weft_write_definition(WEFT_DEF_ENDING, space, (size_t)(text.p - space));
    munmap(space, size);
}

/* ---- the way out ---- */
static bool told_exit;

/* The function of libgfortran that ends the program, by the frames behind exit(). */
static int fortran_end(const struct weft_stack *stack, const char **name) {
    for (uint32_t i = 0; i < stack->natives && i < 6; i++) {
        Dl_info info;
        if (!dladdr((void *)(stack->native[i] - 1), &info) || !info.dli_sname) continue;
        bool error = !strncmp(info.dli_sname, "_gfortran_error_stop", 20);
        if (error || !strncmp(info.dli_sname, "_gfortran_stop_", 15)) {
            *name = error ? "ERROR STOP" : "STOP";
            return WEFT_EXIT_FORTRAN;
        }
        if (!strncmp(info.dli_sname, "_gfortran_runtime_error", 23) ||
            !strncmp(info.dli_sname, "_gfortran_os_error", 18) ||
            !strncmp(info.dli_sname, "_gfortran_generate_error", 24)) {
            *name = "Fortran runtime error";
            return WEFT_EXIT_RUNTIME;
        }
    }
    return WEFT_EXIT_EXIT;
}

/* Records an exit. One that says nothing is left out (status 0 after MPI_Finalize), and one that MPI makes inside a
 * call. */
static WEFT_COLD void exiting(int status, int how, const char *name) {
    if (!weft_can_record_ending() || weft_depth || (!status && weft_the_record->header->state == WEFT_STATE_FINALIZED))
        return;
    if (__atomic_exchange_n(&told_exit, true, __ATOMIC_ACQ_REL)) return;
    struct weft_stack stack;
    struct weft_told told = {.kind = WEFT_ENDING_EXIT, .code = status, .detail = how, .name = name, .stack = &stack};
    weft_depth = 1;
    if (how == WEFT_EXIT_AT_ONCE) weft_record_uncaught_exception();
    weft_read_own_stack(&stack, NULL);
    weft_record_survived_crash(&stack);
    if (how == WEFT_EXIT_EXIT) told.detail = fortran_end(&stack, &told.name);
    if (how == WEFT_EXIT_RETURN) stack.natives = stack.pythons = 0; /* libc's own */
    if (how == WEFT_EXIT_AT_ONCE || !weft_record_python_exit(status, &told)) weft_record_ending(&told);
    weft_depth = 0;
}

/* The process is about to end with this status, though things come before that may not end. */
void weft_record_coming_exit(int status) { exiting(status, WEFT_EXIT_PYTHON, "sys.exit"); }

WEFT_GIVEN __attribute__((visibility("default"), noreturn)) void exit(int status);
/* Stands before the C library's exit: records who ended the program. */
void exit(int status) {
    void (*real)(int) __attribute__((noreturn)) = (__typeof__(real))dlsym(RTLD_NEXT, "exit");
    if (weft_the_record && getpid() == weft_pid) {
        exiting(status, WEFT_EXIT_EXIT, "exit");
        if (!weft_depth) weft_leaving = 1;
    }
    real(status);
}

#define AT_ONCE(name)                                                                                                  \
    __attribute__((visibility("default"), noreturn)) void name(int status);                                            \
    void name(int status) {                                                                                            \
        void (*real)(int) __attribute__((noreturn)) = (__typeof__(real))dlsym(RTLD_NEXT, #name);                       \
        if (weft_the_record) exiting(status, WEFT_EXIT_AT_ONCE, #name);                                                \
        real(status);                                                                                                  \
    }
AT_ONCE(_exit)
AT_ONCE(_Exit)
AT_ONCE(quick_exit)

/* Records that main() has returned, or exit() was called without our seeing it. */
static void returned(int status, void *unused) {
    (void)unused;
    if (!weft_the_record || getpid() != weft_pid) return;
    exiting(status, WEFT_EXIT_RETURN, "main");
    weft_leaving = 1;
}

/* Whether a function is among the callers. */
struct search {
    uintptr_t function;
    bool found;
};
/* Visits a frame of the stack: has the function that is searched for called us? */
static _Unwind_Reason_Code find_function(struct _Unwind_Context *context, void *data) {
    struct search *search = data;
    uintptr_t at = unwound_ip(context);
    if (at && (uintptr_t)function_of((void *)(at - 1)) == search->function) search->found = true;
    return search->found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Returns whether a function is on the calling thread's stack. */
bool weft_is_called_by(void *function) {
    struct search search = {.function = (uintptr_t)function};
    if (backtrace && function) backtrace(find_function, &search);
    return search.found;
}

void weft_mark_finalize_during_exit(struct weft_event *event) {
    if (weft_leaving || weft_is_called_by(dlsym(RTLD_NEXT, "exit"))) event->buffer = WEFT_LEAVING;
}

/* ---- birth ---- */
/* Begins to watch how the process ends. */
void weft_begin_watching_exit(void) {
    static bool begun;
    if (begun || !weft_the_record) return;
    begun = true;
    void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library) {
        unwound_ip = (__typeof__(unwound_ip))dlsym(library, "_Unwind_GetIP");
        function_of = (__typeof__(function_of))dlsym(library, "_Unwind_FindEnclosingFunction");
        if (unwound_ip && function_of) backtrace = (__typeof__(backtrace))dlsym(library, "_Unwind_Backtrace");
    }
    on_exit(returned, NULL);
}

void weft_stop_watching_exit_in_child(void) {
    weft_over = weft_leaving = 0;
    weft_restore_signals_in_child();
}
