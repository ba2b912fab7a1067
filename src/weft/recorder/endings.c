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

/* Return whether this process has a record to which an ending can be added. */
bool weft_can_record_ending(void) {
    return weft_the_record && (weft_recording || weft_over) && !weft_the_record->stopped && getpid() == weft_pid;
}

/* Take a lock and return true. In a signal handler (`weft_careful`) wait for it 50 ms at most, and return false if it
 * is not free by then. */
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

/* Return whether an address lies in the recorder's own library. */
static bool is_own_code(uintptr_t address) {
    Dl_info there, here;
    return dladdr((void *)address, &there) && dladdr((void *)weft_record_ending, &here) &&
           there.dli_fbase == here.dli_fbase;
}

/* Callback of the unwinder: add the frame's address to the stack. Frames of the recorder, and in a signal handler those
 * above the interrupted function, are left out. */
static _Unwind_Reason_Code add_frame_to_stack(struct _Unwind_Context *context, void *unwinding_data) {
    struct unwinding *unwinding = unwinding_data;
    uintptr_t address = unwound_ip(context);
    if (!unwinding->begun) {
        unwinding->begun = address == unwinding->from;
        if (!unwinding->begun || unwinding->interrupted)
            return _URC_NO_REASON; /* of a signal, the first is there already */
    }
    if (unwinding->stack->natives == WEFT_ENDING_FRAMES || !address) return _URC_END_OF_STACK;
    if (!unwinding->stack->natives && is_own_code(address)) return _URC_NO_REASON;
    unwinding->stack->native[unwinding->stack->natives++] = address;
    return _URC_NO_REASON;
}

/* Add frames to a stack where unwinding finds no way: the return address on top of the stack (a call through a pointer
 * to nowhere), and frame pointers as far as they lead upwards. */
static void walk_frame_pointers(struct weft_stack *stack, uintptr_t top, uintptr_t frame) {
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

/* Return the stack pointer at the moment of a signal. `context`: as the signal's handler gets it. */
uintptr_t weft_read_stack_pointer(const void *context) {
    const ucontext_t *interrupted = context;
#if defined(__x86_64__)
    return (uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
#else
    return (uintptr_t)interrupted->uc_mcontext.sp;
#endif
}

/* Read the calling thread's frames, in C and in Python. With the `context` of a signal those of the code that it
 * interrupted, else those of the caller's caller. */
void weft_read_own_stack(struct weft_stack *stack, const void *context) {
    stack->tid = (pid_t)syscall(SYS_gettid);
    stack->slot = weft_self ? weft_self->slot + 1 : 0;
    stack->natives = 0;
    stack->pythons = weft_python ? weft_read_python_stack(stack->python, WEFT_ENDING_FRAMES) : 0;
    struct unwinding unwinding = {
        .stack = stack, .from = (uintptr_t)__builtin_return_address(0), .interrupted = context != NULL};
    if (context) {
        const ucontext_t *c = context;
#if defined(__x86_64__)
        uintptr_t address = (uintptr_t)c->uc_mcontext.gregs[REG_RIP], top = (uintptr_t)c->uc_mcontext.gregs[REG_RSP],
                  frame = (uintptr_t)c->uc_mcontext.gregs[REG_RBP];
#else
        uintptr_t address = c->uc_mcontext.pc, top = c->uc_mcontext.sp, frame = c->uc_mcontext.regs[29];
#endif
        unwinding.from = address;
        stack->native[stack->natives++] = address + 1;
        if (backtrace) backtrace(add_frame_to_stack, &unwinding);
        if (stack->natives == 1) walk_frame_pointers(stack, top, frame);
        return;
    }
    if (backtrace) backtrace(add_frame_to_stack, &unwinding);
}

/* ---- into the record ---- */
/* Write a string, at most `most` bytes of it; NULL is written as an empty one. */
static void write_string_or_empty(struct weft_text *text, const char *string, size_t most) {
    weft_write_bytes(text, string ? string : "", string ? strnlen(string, most) : 0);
}

/* Write the frames of a stack in C, each as module and offset; none if `stack` is NULL. */
static void write_native_frames(struct weft_text *text, const struct weft_stack *stack) {
    weft_write_unsigned(text, stack ? stack->natives : 0);
    for (uint32_t i = 0; stack && i < stack->natives; i++) {
        uint32_t module = 0;
        uint64_t offset = 0;
        if (!weft_find_module(stack->native[i] - 1, &module, &offset)) offset = 0;
        weft_write_unsigned(text, module);
        weft_write_unsigned(text, module ? offset + 1 : 0);
    }
}

/* Write the frames in Python of an ending, each as file, line and function. */
static void write_python_frames(struct weft_text *text, const struct weft_ending_report *ending) {
    if (ending->python) {
        if ((size_t)(text->end - text->p) < ending->python_bytes) text->overflow = true;
        else text->p = mempcpy(text->p, ending->python, ending->python_bytes);
        return;
    }
    struct weft_text frames = {.p = text->p + 10, .end = text->end};
    uint8_t *start = frames.p;
    uint32_t n = 0;
    for (uint32_t i = 0; ending->stack && i < ending->stack->pythons; i++)
        n += weft_write_python_frame(&frames, &ending->stack->python[i]);
    text->overflow |= frames.overflow;
    text->p = weft_put_u(text->p, n);
    memmove(text->p, start, (size_t)(frames.p - start));
    text->p += frames.p - start;
}

enum { MOST_TEXT = 1 << 16, MOST_TRACEBACK = 1 << 20, SPACE = 1 << 18 };

/* Write an ending of the process, or a sign of one, into the record. Allocates only by mmap, so that signal handlers
 * can call it. */
void weft_record_ending(const struct weft_ending_report *ending) {
    size_t size = SPACE + 3 * MOST_TEXT + (ending->traceback ? strnlen(ending->traceback, MOST_TRACEBACK) : 0) +
                  ending->python_bytes;
    uint8_t *space = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED) return;
    struct weft_text text = {.p = space, .end = space + size};
    const struct weft_stack *stack = ending->stack;
    weft_write_unsigned(&text, (uint64_t)ending->kind);
    weft_write_unsigned(&text, stack ? stack->slot : weft_self ? weft_self->slot + 1 : 0);
    weft_write_unsigned(&text, (uint64_t)(stack ? stack->tid : (pid_t)syscall(SYS_gettid)));
    weft_write_unsigned(&text, weft_ticks(weft_clock_kind));
    weft_write_signed(&text, ending->code);
    weft_write_signed(&text, ending->detail);
    weft_write_unsigned(&text, ending->address);
    write_string_or_empty(&text, ending->name, MOST_TEXT);
    write_string_or_empty(&text, ending->text, MOST_TEXT);
    write_string_or_empty(&text, ending->traceback, MOST_TRACEBACK);
    write_string_or_empty(&text, ending->who, MOST_TEXT);
    write_python_frames(&text, ending);
    write_native_frames(&text, stack);
    if (!text.overflow) weft_write_definition(WEFT_DEF_ENDING, space, (size_t)(text.p - space));
    munmap(space, size);
}

/* ---- the way out ---- */
static bool is_exit_recorded;

/* Return how libgfortran ends the program (WEFT_EXIT_*), by the frames behind exit(), and set the statement's name;
 * WEFT_EXIT_EXIT if libgfortran does not. */
static int find_fortran_ending(const struct weft_stack *stack, const char **name) {
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

/* Record an exit, once. Left out are one that says nothing (status 0 after MPI_Finalize) and one that MPI makes inside
 * a call. `how`: WEFT_EXIT_*; `name`: the function that ends the program. */
static WEFT_COLD void record_exit(int status, int how, const char *name) {
    if (!weft_can_record_ending() || weft_depth || (!status && weft_the_record->header->state == WEFT_STATE_FINALIZED))
        return;
    if (__atomic_exchange_n(&is_exit_recorded, true, __ATOMIC_ACQ_REL)) return;
    struct weft_stack stack;
    struct weft_ending_report ending = {
        .kind = WEFT_ENDING_EXIT, .code = status, .detail = how, .name = name, .stack = &stack};
    weft_depth = 1;
    if (how == WEFT_EXIT_AT_ONCE) weft_record_uncaught_exception();
    weft_read_own_stack(&stack, NULL);
    weft_record_survived_crash(&stack);
    if (how == WEFT_EXIT_EXIT) ending.detail = find_fortran_ending(&stack, &ending.name);
    if (how == WEFT_EXIT_RETURN) stack.natives = stack.pythons = 0; /* libc's own */
    if (how == WEFT_EXIT_AT_ONCE || !weft_record_python_exit(status, &ending)) weft_record_ending(&ending);
    weft_depth = 0;
}

/* Record that Python is about to end the process with this status, though things come before that may not end. */
void weft_record_coming_exit(int status) { record_exit(status, WEFT_EXIT_PYTHON, "sys.exit"); }

WEFT_GIVEN __attribute__((visibility("default"), noreturn)) void exit(int status);
/* Stand before the C library's exit: record who ends the program, then exit. */
void exit(int status) {
    void (*real)(int) __attribute__((noreturn)) = (__typeof__(real))dlsym(RTLD_NEXT, "exit");
    if (weft_the_record && getpid() == weft_pid) {
        record_exit(status, WEFT_EXIT_EXIT, "exit");
        if (!weft_depth) weft_leaving = 1;
    }
    real(status);
}

#define AT_ONCE(name)                                                                                                  \
    __attribute__((visibility("default"), noreturn)) void name(int status);                                            \
    void name(int status) {                                                                                            \
        void (*real)(int) __attribute__((noreturn)) = (__typeof__(real))dlsym(RTLD_NEXT, #name);                       \
        if (weft_the_record) record_exit(status, WEFT_EXIT_AT_ONCE, #name);                                            \
        real(status);                                                                                                  \
    }
AT_ONCE(_exit)
AT_ONCE(_Exit)
AT_ONCE(quick_exit)

/* Record that main() has returned, or that exit() was called without our seeing it; registered with on_exit. */
static void record_return_of_main(int status, void *unused) {
    (void)unused;
    if (!weft_the_record || getpid() != weft_pid) return;
    record_exit(status, WEFT_EXIT_RETURN, "main");
    weft_leaving = 1;
}

struct search { /* for a function among the callers */
    uintptr_t function;
    bool found;
};
/* Callback of the unwinder: note whether the frame is one of the function that is searched for; end the walk then. */
static _Unwind_Reason_Code compare_frame_function(struct _Unwind_Context *context, void *search_data) {
    struct search *search = search_data;
    uintptr_t address = unwound_ip(context);
    if (address && (uintptr_t)function_of((void *)(address - 1)) == search->function) search->found = true;
    return search->found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Return whether a function is among the callers on this thread's stack. */
bool weft_is_called_by(void *function) {
    struct search search = {.function = (uintptr_t)function};
    if (backtrace && function) backtrace(compare_frame_function, &search);
    return search.found;
}

/* Mark the event of MPI_Finalize if the program is already exiting, from exit() or Python's end. */
void weft_mark_finalize_during_exit(struct weft_event *event) {
    if (weft_leaving || weft_is_called_by(dlsym(RTLD_NEXT, "exit"))) event->buffer = WEFT_LEAVING;
}

/* ---- birth ---- */
/* Begin to record how the process exits, once. */
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
    on_exit(record_return_of_main, NULL);
}

/* In a child of fork(): do not record its end. */
void weft_stop_watching_exit_in_child(void) {
    weft_over = weft_leaving = 0;
    weft_restore_signals_in_child();
}
