/* Signals that end a process, or warn it: what is reported of them, and that they do what they would do without us.
 *
 * From MPI's initialisation on our handler is called before the program's, which believes that its own is installed: what
 * it sets and reads back goes by a table (sigaction and signal are ours). When a signal comes, everything is reported; then the
 * program's own disposition is really installed and the signal comes again: by itself as the instruction fails once
 * more, or sent anew with what it carried. So handlers, core files and exit statuses are those of a run without us, and
 * each signal is reported once. A signal that the program ignores stays ignored, one that it handles is reported and handled.
 *
 * `weft run` asks where a process is by a real-time signal of ours, and this process its own threads by the same. */
#define _GNU_SOURCE
#include "endings.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    STACK_SIGNAL = 57,
    OWN_STACK = 1 << 17,
    THREADS = 64
}; /* weft/launch/location_requests.py knows the number of STACK_SIGNAL */

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const int warnings[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGXCPU};
enum { FAULTS = sizeof faults / sizeof *faults, WARNINGS = sizeof warnings / sizeof *warnings };

static struct {
    struct sigaction program;
    bool ours, done;
} actions[65];
static volatile bool is_handling;
static volatile int actions_lock; /* 1: a thread changes `actions` */
static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static __thread sigjmp_buf *fault_return; /* a fault while we look around leads here */
static __thread void *own_stack;

/* Return whether a signal is one of the `n` signals of a set. */
static bool is_among(int signal_number, const int *signals, int n) {
    for (int i = 0; i < n; i++)
        if (signals[i] == signal_number) return true;
    return false;
}

/* Return whether an action is set without SA_SIGINFO and calls `handler`, which may be SIG_DFL or SIG_IGN. */
static bool has_simple_handler(const struct sigaction *action, void (*handler)(int)) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == handler;
}

/* Find the C library's own sigaction, once. */
static void find_real_sigaction(void) {
    if (!real_sigaction) real_sigaction = (__typeof__(real_sigaction))dlsym(RTLD_NEXT, "sigaction");
}

static void handle_signal(int number, siginfo_t *info, void *context);

/* Install the recorder's handler for a signal before the program's own, with the flags and mask that the program asked
 * for where it could notice. A signal that the program ignores stays ignored. */
static void install_own_handler(int signal_number) {
    const struct sigaction *program = &actions[signal_number].program;
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    if (has_simple_handler(program, SIG_IGN)) {
        real_sigaction(signal_number, program, NULL);
        return;
    }
    action.sa_sigaction = handle_signal;
    if (has_simple_handler(program, SIG_DFL)) {
        sigemptyset(&action.sa_mask);
        action.sa_flags |= SA_ONSTACK;
    } else {
        action.sa_mask = program->sa_mask;
        action.sa_flags |= program->sa_flags & (SA_ONSTACK | SA_RESTART | SA_NODEFER);
    }
    if (is_among(signal_number, faults, FAULTS)) action.sa_flags |= SA_ONSTACK | SA_NODEFER;
    if (signal_number == STACK_SIGNAL) action.sa_flags |= SA_ONSTACK | SA_RESTART;
    real_sigaction(signal_number, &action, NULL);
}

/* ---- the other threads ---- */
static struct weft_stack asked_stack; /* by the thread that was asked */
static volatile pid_t asked_thread;
static volatile int stack_is_given, stack_is_read; /* 1: `asked_stack` is whole; 1: the thread may go on */

/* Take this thread's stack for the thread that asked for it (ask_for_stack), and wait up to 20 ms until that one has
 * read it. Runs in a signal handler. */
static void give_own_stack(const void *context) {
    if (asked_thread != (pid_t)syscall(SYS_gettid)) return;
    sigjmp_buf back;
    fault_return = &back;
    if (!sigsetjmp(back, 1)) weft_read_own_stack(&asked_stack, context);
    fault_return = NULL;
    __atomic_store_n(&stack_is_given, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 200 && !__atomic_load_n(&stack_is_read, __ATOMIC_ACQUIRE); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Ask another thread of the process for its stack by a signal, and wait up to 100 ms for it. Return whether it has put
 * the stack into `asked_stack`. */
static bool ask_for_stack(pid_t tid) {
    siginfo_t info = {.si_signo = STACK_SIGNAL, .si_code = SI_QUEUE};
    info.si_pid = weft_pid;
    info.si_value.sival_ptr = &asked_stack;
    asked_stack.natives = asked_stack.pythons = 0;
    stack_is_given = stack_is_read = 0;
    asked_thread = tid;
    if (syscall(SYS_rt_tgsigqueueinfo, weft_pid, tid, STACK_SIGNAL, &info)) return false;
    for (int i = 0; i < 1000 && !__atomic_load_n(&stack_is_given, __ATOMIC_ACQUIRE); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return stack_is_given;
}

/* Read the name of a thread into `name`; empty if the kernel does not say it. */
static void read_thread_name(pid_t tid, char *name, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, size - 1);
    if (fd >= 0) close(fd);
    name[n > 0 ? n - 1 : 0] = 0;
}

/* Record the same signal for each other thread of the process that answers, with that thread's stack. `ending`: what
 * was recorded for this thread. */
static void record_other_threads(struct weft_ending_report ending) {
    struct {
        uint64_t inode;
        int64_t next;
        uint16_t length;
        uint8_t type;
        char name[];
    } *entry;
    char buffer[2048], name[32];
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), threads_left = THREADS;
    pid_t self = (pid_t)syscall(SYS_gettid);
    ending.text = ending.traceback = NULL;
    ending.stack = &asked_stack;
    ending.who = name;
    for (long n; folder >= 0 && (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
        for (long at = 0; at < n; at += entry->length) {
            entry = (void *)(buffer + at);
            pid_t tid = (pid_t)atoi(entry->name);
            if (tid <= 0 || tid == self || threads_left-- <= 0 || !ask_for_stack(tid)) continue;
            name[0] = 0;
            if (tid != weft_pid) read_thread_name(tid, name, sizeof name);
            /* Where there is no crash, threads of libraries are of no interest. */
            if (ending.kind == WEFT_ENDING_SIGNAL || asked_stack.slot || asked_stack.pythons)
                weft_record_ending(&ending);
            __atomic_store_n(&stack_is_read, 1, __ATOMIC_RELEASE);
        }
    asked_thread = 0;
    if (folder >= 0) close(folder);
}

/* ---- what is reported ---- */
/* Return the name of a signal, such as SIGSEGV; "" for one that is not handled here. */
static const char *find_signal_name(int signal_number) {
    switch (signal_number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    case SIGABRT: return "SIGABRT";
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    case SIGQUIT: return "SIGQUIT";
    case SIGXCPU: return "SIGXCPU";
    default: return "";
    }
}

/* What libc or the C++ library know of an abort: the assertion, glibc's own complaint, the type of the exception. */
static const char **(*abort_message);
static void *(*current_exception_type)(void);
static char *(*demangle)(const char *, char *, size_t *, int *);

/* Return why abort() was called: the type of an uncaught C++ exception, or a failed assertion; NULL if it is not
 * known. */
static const char *find_abort_reason(void) {
    if (current_exception_type) {
        void **type = current_exception_type();
        if (type) {
            const char *mangled = type[1];
            int status = 0;
            char *plain_name = demangle ? demangle(mangled + (*mangled == '*'), NULL, NULL, &status) : NULL;
            return plain_name ? plain_name : mangled;
        }
    }
    struct {
        unsigned size;
        char text[];
    } *message = abort_message ? (void *)*abort_message : NULL;
    return message ? message->text : NULL;
}

/* Return whether a file belongs to an MPI library or to what it uses. */
static bool is_mpi_library(const char *path) {
    static const char *const names[] = {"libmpi", "libopen-", "libopen_mpi", "libpmix",
                                        "libucs", "libucp",   "libfabric"};
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++)
        if (strstr(path, names[i])) return true;
    return false;
}

/* Return whether a signal ends the process when it is handed on: by its default action, or by a handler of MPI or of
 * libgfortran. */
static bool ends_process(int signal_number) {
    const struct sigaction *program = &actions[signal_number].program;
    Dl_info info;
    if (has_simple_handler(program, SIG_DFL)) return true;
    if (!dladdr((void *)program->sa_handler, &info) || !info.dli_fname) return false;
    return is_mpi_library(info.dli_fname) || strstr(info.dli_fname, "libgfortran");
}

/* ---- whose fault it is ----
 *
 * The recorder's own: the innermost frame that is not of the C library is the recorder's. But not where it reads what the
 * program gave a call (WEFT_GIVEN), as MPI would, nor where malloc comes to a heap that is damaged, the stack is full, or the
 * signal was sent. A fault inside MPI is the recorder's where the recorder asks on its own accord about what MPI has made
 * (WEFT_ASKS). Not where it hands on a call of the program's or asks about what the program gave, nor where MPI goes on with
 * other operations meanwhile. */
extern WEFT_HIDDEN const char given_start[] __asm__("__start_weft_given"), given_end[] __asm__("__stop_weft_given");
/* Weak: a recorder of another system asks nothing so. */
extern WEFT_HIDDEN const char asks_start[] __asm__("__start_weft_asks") __attribute__((weak));
extern WEFT_HIDDEN const char asks_end[] __asm__("__stop_weft_asks") __attribute__((weak));
enum { NEAR_STACK = 1 << 17 };

/* Return whether a file belongs to the C library or the dynamic linker. */
static bool is_c_library(const char *path) {
    static const char *const names[] = {"libc.", "libc-", "ld-", "libgcc_s.", "linux-vdso", "libpthread", "libdl"};
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path ? path : "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(name, names[i], strlen(names[i]))) return true;
    return false;
}

/* Return whether an address lies between start and end of a section. */
static bool is_in_section(uintptr_t address, const char *start, const char *end) {
    return address >= (uintptr_t)start && address < (uintptr_t)end;
}

/* Return whether a function allocates or frees memory, by its name. */
static bool is_allocating_function(const char *function) {
    static const char *const parts[] = {"alloc", "free", "memalign"};
    for (size_t i = 0; function && i < sizeof parts / sizeof *parts; i++)
        if (strstr(function, parts[i])) return true;
    return false;
}

/* Return whether an address lies in the memory into which this thread writes the record. */
static bool is_in_own_streams(uintptr_t address) {
    const struct weft_thread *t = weft_self;
    if (!t) return false;
    const struct weft_stream *streams[] = {&t->events, &t->tails, &t->outcomes, &t->windows};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (address >= (uintptr_t)streams[i]->base && address < (uintptr_t)streams[i]->end) return true;
    return false;
}

/* Return whether a fault is the recorder's own: whether its code, and not the program's, is innermost on the stack (see
 * the rules above). */
static bool is_own_fault(int signal_number, const siginfo_t *info, const void *context,
                         const struct weft_stack *stack) {
    Dl_info self, at;
    bool in_mpi = false;
    bool raised = signal_number == SIGABRT ? info->si_code == SI_TKILL && info->si_pid == getpid() : info->si_code > 0;
    uintptr_t address = (uintptr_t)info->si_addr, top = weft_read_stack_pointer(context);
    if (!raised || !dladdr((void *)weft_record_ending, &self)) return false;
    if (signal_number == SIGSEGV && address - top + NEAR_STACK < 2 * NEAR_STACK)
        return false; /* no room for one more frame */
    for (uint32_t i = 0; i < stack->natives; i++) {
        uintptr_t place = stack->native[i] - 1;
        bool somewhere = dladdr((void *)place, &at);
        if (somewhere && at.dli_fbase == self.dli_fbase) {
            if (in_mpi) return is_in_section(place, asks_start, asks_end);
            return !is_in_section(place, given_start, given_end) || is_in_own_streams(address);
        }
        if (somewhere && is_mpi_library(at.dli_fname)) {
            in_mpi = true;
            continue;
        }
        if (somewhere ? !is_c_library(at.dli_fname) || is_allocating_function(at.dli_sname) : i) return false;
    }
    return false;
}

/* Record a signal with the stack of this thread and, where it ends the process, those of the others. */
static void record_signal(int signal_number, const siginfo_t *info, const void *context) {
    static struct weft_stack stack; /* large: handlers of one thread at a time come here */
    bool fault = is_among(signal_number, faults, FAULTS);
    struct weft_ending_report ending = {.kind = fault                           ? WEFT_ENDING_SIGNAL
                                                : signal_number == STACK_SIGNAL ? WEFT_ENDING_WHERE
                                                                                : WEFT_ENDING_WARNED,
                                        .code = signal_number == STACK_SIGNAL ? 0 : signal_number,
                                        .name = find_signal_name(signal_number),
                                        .stack = &stack};
    if (fault) {
        ending.detail = info->si_code;
        if (info->si_code > 0) ending.address = (uint64_t)(uintptr_t)info->si_addr;
        if (signal_number == SIGABRT) ending.text = find_abort_reason();
    } else if (signal_number != STACK_SIGNAL && info->si_code <= 0) ending.detail = info->si_pid;
    char name[32] = "";
    if ((pid_t)syscall(SYS_gettid) != weft_pid) read_thread_name((pid_t)syscall(SYS_gettid), name, sizeof name);
    ending.who = name;
    weft_read_own_stack(&stack, context);
    if (fault && is_own_fault(signal_number, info, context, &stack))
        ending.traceback = weft_work ? weft_works[weft_work] : "calls";
    if (fault || stack.slot || stack.pythons || stack.tid == weft_pid)
        weft_record_ending(&ending); /* else a library's thread */
    if (!fault || ends_process(signal_number)) record_other_threads(ending);
}

/* Record a signal while no other thread does the same. A fault of the recorder meanwhile ends the recording of the
 * signal, and nothing else. */
static void record_signal_safely(int signal_number, const siginfo_t *info, const void *context) {
    static volatile int is_recording;
    for (int i = 0; __atomic_exchange_n(&is_recording, 1, __ATOMIC_ACQ_REL); i++) {
        if (i == 500) return;
        if (asked_thread == (pid_t)syscall(SYS_gettid)) give_own_stack(context);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    sigjmp_buf back;
    int careful = weft_careful;
    weft_careful = 1;
    fault_return = &back;
    if (!sigsetjmp(back, 1)) record_signal(signal_number, info, context);
    fault_return = NULL;
    weft_careful = careful;
    __atomic_store_n(&is_recording, 0, __ATOMIC_RELEASE);
}

static volatile int recorded_fault;
static volatile uintptr_t handlers_return_address; /* where handlers return to */

/* Record that the program went on after a crash, as its own handler has jumped out, if no handler is on the stack of
 * the exit. */
void weft_record_survived_crash(const struct weft_stack *stack) {
    if (!recorded_fault) return;
    for (uint32_t i = 0; i < stack->natives; i++)
        if (stack->native[i] == handlers_return_address) return;
    weft_record_ending(&(struct weft_ending_report){
        .kind = WEFT_ENDING_RETURNED, .code = recorded_fault, .name = find_signal_name(recorded_fault)});
    recorded_fault = 0;
}

/* Install the program's own handler or default, and let the signal come once more. */
static WEFT_GIVEN void hand_signal_to_program(int signal_number, siginfo_t *info, void *context) {
    const struct sigaction *program = &actions[signal_number].program;
    pid_t self = (pid_t)syscall(SYS_gettid);
    actions[signal_number].done = true;
    real_sigaction(signal_number, program, NULL);
    if (is_among(signal_number, faults, FAULTS) && info->si_code > 0) return; /* the instruction fails again */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, signal_number);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* until the handler is over */
    if (!syscall(SYS_rt_tgsigqueueinfo, getpid(), self, signal_number, info)) return;
    /* The kernel lets only the first thread send on what another process sent. */
    if (program->sa_flags & SA_SIGINFO) program->sa_sigaction(signal_number, info, context);
    else if (program->sa_handler != SIG_DFL && program->sa_handler != SIG_IGN) program->sa_handler(signal_number);
    else syscall(SYS_tgkill, getpid(), self, signal_number);
}

/* Handle the signal by which Weft asks for stacks: give this thread's stack to another thread, or record all stacks for
 * `weft run`. One of another sender goes to the program's own handler. */
static WEFT_GIVEN void answer_stack_signal(siginfo_t *info, void *context) {
    static volatile int times;
    const struct sigaction *program = &actions[STACK_SIGNAL].program;
    if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == &asked_stack) give_own_stack(context);
    else if (!has_simple_handler(program, SIG_DFL)) {
        if (program->sa_flags & SA_SIGINFO) program->sa_sigaction(STACK_SIGNAL, info, context);
        else if (program->sa_handler != SIG_IGN) program->sa_handler(STACK_SIGNAL);
    } else if (weft_can_record_ending() && __atomic_fetch_add(&times, 1, __ATOMIC_RELAXED) < 3)
        record_signal_safely(STACK_SIGNAL, info, context);
}

/* Signals to a process come to its main thread, as a rule; while that one answers us, the kernel takes another, where
 * Python would not notice. So they are sent on to the main thread, with what they carried kept for it. */
static siginfo_t forwarded_info[65];
static volatile int is_forwarded[65];

/* Return whether the main thread blocks a signal, by /proc/self/status; true if that cannot be read. */
static bool is_blocked_by_main_thread(int signal_number) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, "SigBlk:");
    return !line || strtoull(line + 7, NULL, 16) >> (signal_number - 1) & 1;
}

/* Send a warning signal that reached another thread on to the main thread, as the kernel would have chosen that one
 * without us. Return whether it was sent. */
static bool forward_to_main_thread(int signal_number, const siginfo_t *info) {
    if ((pid_t)syscall(SYS_gettid) == weft_pid || getpid() != weft_pid ||
        !is_among(signal_number, warnings, WARNINGS) || info->si_code == SI_TKILL ||
        is_blocked_by_main_thread(signal_number))
        return false;
    forwarded_info[signal_number] = *info;
    is_forwarded[signal_number] = 1;
    return !syscall(SYS_tgkill, weft_pid, weft_pid, signal_number);
}

/* Handle a signal: record it, and then let it do what it would do without the recorder. Installed by
 * install_own_handler. */
static void handle_signal(int signal_number, siginfo_t *info, void *context) {
    if (fault_return && is_among(signal_number, faults, FAULTS)) siglongjmp(*fault_return, 1);
    if (forward_to_main_thread(signal_number, info)) return;
    if (is_forwarded[signal_number] && info->si_code == SI_TKILL && info->si_pid == weft_pid) {
        is_forwarded[signal_number] = 0;
        info = &forwarded_info[signal_number];
    }
    int error = errno, depth = weft_depth;
    weft_depth = 1;
    if (signal_number == STACK_SIGNAL) answer_stack_signal(info, context);
    else {
        if (is_among(signal_number, faults, FAULTS)) {
            recorded_fault = signal_number;
            handlers_return_address = (uintptr_t)__builtin_return_address(0);
        }
        if (weft_can_record_ending() && !weft_ended_by_mpi) record_signal_safely(signal_number, info, context);
        /* All ranks of a job are warned together, and its launcher kills the rest when the first has ended. */
        if (weft_can_record_ending() && is_among(signal_number, warnings, WARNINGS) &&
            has_simple_handler(&actions[signal_number].program, SIG_DFL))
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        hand_signal_to_program(signal_number, info, context);
    }
    weft_depth = depth;
    errno = error;
}

/* ---- what the program sets and reads back ---- */
/* Return whether the recorder's handler is called before the program's for a signal. */
static bool is_handled_here(int signal_number) {
    return is_handling && signal_number > 0 && signal_number < 65 && actions[signal_number].ours &&
           !actions[signal_number].done;
}

/* Set the program's own action for a signal that the recorder handles, and return the one before in `before`, as
 * sigaction does. `action` NULL: set nothing. Return 0. */
static WEFT_GIVEN int exchange_program_handler(int signal_number, const struct sigaction *action,
                                               struct sigaction *before) {
    sigset_t all, mask;
    struct sigaction wanted = action ? *action : (struct sigaction){0}; /* read while signals can come */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    while (__atomic_exchange_n(&actions_lock, 1, __ATOMIC_ACQUIRE)) {
    }
    struct sigaction previous = actions[signal_number].program;
    if (action) {
        actions[signal_number].program = wanted;
        install_own_handler(signal_number);
    }
    __atomic_store_n(&actions_lock, 0, __ATOMIC_RELEASE);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (before) *before = previous;
    return 0;
}

/* Replace the C library's sigaction: the program sets and reads its own handlers, and the recorder's handlers, which are
 * called first, stay installed. */
WEFT_GIVEN __attribute__((visibility("default"))) int
sigaction(int signal_number, const struct sigaction *restrict action, struct sigaction *restrict before) {
    find_real_sigaction();
    return is_handled_here(signal_number) ? exchange_program_handler(signal_number, action, before)
                                          : real_sigaction(signal_number, action, before);
}

/* Set a handler as the C library's function `name` does (signal and its relatives), behind the recorder's handler.
 * Return the handler before. `masked`: the signal is blocked while it is handled. */
static WEFT_GIVEN sighandler_t set_handler_behind_own(const char *name, int signal_number, sighandler_t handler,
                                                      int flags, bool masked) {
    sighandler_t (*real)(int, sighandler_t) = (__typeof__(real))dlsym(RTLD_NEXT, name);
    if (!is_handled_here(signal_number) || handler == SIG_ERR) return real(signal_number, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, before;
    sigemptyset(&action.sa_mask);
    if (masked) sigaddset(&action.sa_mask, signal_number);
    exchange_program_handler(signal_number, &action, &before);
    return before.sa_handler;
}

__attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler) {
    return set_handler_behind_own("signal", number, handler, SA_RESTART, true);
}
__attribute__((visibility("default"))) sighandler_t __sysv_signal(int number, sighandler_t handler);
sighandler_t __sysv_signal(int number, sighandler_t handler) {
    return set_handler_behind_own("__sysv_signal", number, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

/* ---- birth ---- */
/* Give this thread a stack of its own for signal handlers, where it has none. */
void weft_give_thread_signal_stack(void) {
    stack_t current;
    if (sigaltstack(NULL, &current) || !(current.ss_flags & SS_DISABLE)) return;
    void *space =
        mmap(NULL, OWN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return;
    own_stack = space;
    if (sigaltstack(&(stack_t){.ss_sp = space, .ss_size = OWN_STACK}, NULL)) weft_free_thread_signal_stack();
}

/* Free the stack for signal handlers of a thread that ends. */
void weft_free_thread_signal_stack(void) {
    stack_t current;
    if (!own_stack) return;
    if (!sigaltstack(NULL, &current) && current.ss_sp == own_stack)
        sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(own_stack, OWN_STACK);
    own_stack = NULL;
}

/* Read the program's handler for a signal, and install the recorder's before it. */
static void take_over_signal(int signal_number) {
    if (real_sigaction(signal_number, NULL, &actions[signal_number].program)) return;
    actions[signal_number].ours = true;
    install_own_handler(signal_number);
}

/* Begin to handle the signals that end a process or warn it. */
void weft_begin_signal_handling(void) {
    if (is_handling) return;
    find_real_sigaction();
    abort_message = (__typeof__(abort_message))dlvsym(RTLD_DEFAULT, "__abort_msg", "GLIBC_PRIVATE");
    current_exception_type = (__typeof__(current_exception_type))dlsym(RTLD_DEFAULT, "__cxa_current_exception_type");
    demangle = (__typeof__(demangle))dlsym(RTLD_DEFAULT, "__cxa_demangle");
    weft_give_thread_signal_stack();
    for (int i = 0; i < FAULTS; i++) take_over_signal(faults[i]);
    for (int i = 0; i < WARNINGS; i++) take_over_signal(warnings[i]);
    take_over_signal(STACK_SIGNAL);
    is_handling = true;
}

/* In a child of fork(): install the program's own handlers again, and nothing else. */
void weft_restore_signals_in_child(void) {
    if (!is_handling) return;
    is_handling = false;
    for (int signal_number = 1; signal_number < 65; signal_number++)
        if (actions[signal_number].ours && !actions[signal_number].done)
            real_sigaction(signal_number, &actions[signal_number].program, NULL);
}
