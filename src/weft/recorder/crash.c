/* Signals that end a process, or warn it: what is told of them, and that they do what they would do without us.
 *
 * From MPI's initialisation on our handler stands before the program's, which believes that its own is installed: what
 * it sets and reads back goes by a table (sigaction and signal are ours). When a signal comes, all is told; then the
 * program's own disposition is really installed and the signal comes again: by itself as the instruction fails once
 * more, or sent anew with what it carried. So handlers, core files and exit statuses are those of a run without us, and
 * each signal is told once. A signal that the program ignores stays ignored, one that it handles is told and handled.
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

enum { ASKED = 57, OWN_STACK = 1 << 17, THREADS = 64 }; /* weft/launch/location_requests.py knows the number of ASKED */

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const int warnings[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGXCPU};
enum { FAULTS = sizeof faults / sizeof *faults, WARNINGS = sizeof warnings / sizeof *warnings };

static struct {
    struct sigaction program;
    bool ours, done;
} table[65];
static volatile bool armed;
static volatile int turn; /* of the table */
static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static __thread sigjmp_buf *way_back; /* a fault while we look around leads here */
static __thread void *own_stack;

/* Returns whether a signal is one of a set of `n`. */
static bool among(int number, const int *set, int n) {
    for (int i = 0; i < n; i++)
        if (set[i] == number) return true;
    return false;
}

static bool plain(const struct sigaction *action, void (*handler)(int)) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == handler;
}

static void find_real(void) {
    if (!real_sigaction) real_sigaction = (__typeof__(real_sigaction))dlsym(RTLD_NEXT, "sigaction");
}

static void came(int number, siginfo_t *info, void *context);

/* Puts our handler before the program's, with what the program asked for where it could notice. */
static void install(int number) {
    const struct sigaction *program = &table[number].program;
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    if (plain(program, SIG_IGN)) {
        real_sigaction(number, program, NULL);
        return;
    }
    action.sa_sigaction = came;
    if (plain(program, SIG_DFL)) {
        sigemptyset(&action.sa_mask);
        action.sa_flags |= SA_ONSTACK;
    } else {
        action.sa_mask = program->sa_mask;
        action.sa_flags |= program->sa_flags & (SA_ONSTACK | SA_RESTART | SA_NODEFER);
    }
    if (among(number, faults, FAULTS)) action.sa_flags |= SA_ONSTACK | SA_NODEFER;
    if (number == ASKED) action.sa_flags |= SA_ONSTACK | SA_RESTART;
    real_sigaction(number, &action, NULL);
}

/* ---- the other threads ---- */
static struct weft_stack shown; /* by the thread that was asked */
static volatile pid_t asked_of;
static volatile int shown_by, seen; /* 1: `shown` is whole; 1: it may go on */

/* Takes this thread's stack, for the thread that asked for it. */
static void show_oneself(const void *context) {
    if (asked_of != (pid_t)syscall(SYS_gettid)) return;
    sigjmp_buf back;
    way_back = &back;
    if (!sigsetjmp(back, 1)) weft_read_own_stack(&shown, context);
    way_back = NULL;
    __atomic_store_n(&shown_by, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 200 && !__atomic_load_n(&seen, __ATOMIC_ACQUIRE); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Asks another thread of the process for its stack, and waits a little for it; returns whether it answered. */
static bool ask(pid_t tid) {
    siginfo_t info = {.si_signo = ASKED, .si_code = SI_QUEUE};
    info.si_pid = weft_pid;
    info.si_value.sival_ptr = &shown;
    shown.natives = shown.pythons = 0;
    shown_by = seen = 0;
    asked_of = tid;
    if (syscall(SYS_rt_tgsigqueueinfo, weft_pid, tid, ASKED, &info)) return false;
    for (int i = 0; i < 1000 && !__atomic_load_n(&shown_by, __ATOMIC_ACQUIRE); i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return shown_by;
}

/* Reads the name of a thread into `name`; empty if the kernel does not say it. */
static void name_of_thread(pid_t tid, char *name, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, size - 1);
    if (fd >= 0) close(fd);
    name[n > 0 ? n - 1 : 0] = 0;
}

/* Records the same signal for each other thread that answers, with that thread's stack. */
static void tell_others(struct weft_told told) {
    struct {
        uint64_t inode;
        int64_t next;
        uint16_t length;
        uint8_t type;
        char name[];
    } *entry;
    char buffer[2048], name[32];
    int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = THREADS;
    pid_t self = (pid_t)syscall(SYS_gettid);
    told.text = told.traceback = NULL;
    told.stack = &shown;
    told.who = name;
    for (long n; folder >= 0 && (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0;)
        for (long at = 0; at < n; at += entry->length) {
            entry = (void *)(buffer + at);
            pid_t tid = (pid_t)atoi(entry->name);
            if (tid <= 0 || tid == self || left-- <= 0 || !ask(tid)) continue;
            name[0] = 0;
            if (tid != weft_pid) name_of_thread(tid, name, sizeof name);
            /* Where there is no crash, threads of libraries are of no interest. */
            if (told.kind == WEFT_ENDING_SIGNAL || shown.slot || shown.pythons) weft_record_ending(&told);
            __atomic_store_n(&seen, 1, __ATOMIC_RELEASE);
        }
    asked_of = 0;
    if (folder >= 0) close(folder);
}

/* ---- what is told ---- */
/* Returns the name of a signal, such as SIGSEGV. */
static const char *name_of(int number) {
    switch (number) {
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

/* Returns why abort() was called: the type of an uncaught C++ exception, or a failed assertion. */
static const char *why_aborted(void) {
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

/* Returns whether a file belongs to an MPI library or to what it uses. */
static bool of_mpi(const char *path) {
    static const char *const names[] = {"libmpi", "libopen-", "libopen_mpi", "libpmix",
                                        "libucs", "libucp",   "libfabric"};
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++)
        if (strstr(path, names[i])) return true;
    return false;
}

/* Whether the signal's default, or a handler that is known to end the process, comes next. */
static bool deadly(int number) {
    const struct sigaction *program = &table[number].program;
    Dl_info info;
    if (plain(program, SIG_DFL)) return true;
    if (!dladdr((void *)program->sa_handler, &info) || !info.dli_fname) return false;
    return of_mpi(info.dli_fname) || strstr(info.dli_fname, "libgfortran");
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

/* Returns whether a file belongs to the C library. */
static bool of_libc(const char *path) {
    static const char *const names[] = {"libc.", "libc-", "ld-", "libgcc_s.", "linux-vdso", "libpthread", "libdl"};
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path ? path : "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(name, names[i], strlen(names[i]))) return true;
    return false;
}

static bool lies_in(uintptr_t place, const char *start, const char *end) {
    return place >= (uintptr_t)start && place < (uintptr_t)end;
}

/* Returns whether a function allocates or frees memory, by its name. */
static bool allocates(const char *function) {
    static const char *const parts[] = {"alloc", "free", "memalign"};
    for (size_t i = 0; function && i < sizeof parts / sizeof *parts; i++)
        if (strstr(function, parts[i])) return true;
    return false;
}

/* Whether an address lies in what this thread writes of the record. */
static bool in_record(uintptr_t address) {
    const struct weft_thread *t = weft_self;
    if (!t) return false;
    const struct weft_stream *streams[] = {&t->events, &t->tails, &t->outcomes, &t->windows};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (address >= (uintptr_t)streams[i]->base && address < (uintptr_t)streams[i]->end) return true;
    return false;
}

/* Returns whether a crash is the recorder's own fault: whether its code, and not the program's, is the first on the
 * stack. */
static bool is_own_fault(int number, const siginfo_t *info, const void *context, const struct weft_stack *stack) {
    Dl_info self, at;
    bool in_mpi = false;
    bool raised = number == SIGABRT ? info->si_code == SI_TKILL && info->si_pid == getpid() : info->si_code > 0;
    uintptr_t address = (uintptr_t)info->si_addr, top = weft_read_stack_pointer(context);
    if (!raised || !dladdr((void *)weft_record_ending, &self)) return false;
    if (number == SIGSEGV && address - top + NEAR_STACK < 2 * NEAR_STACK) return false; /* no room for one more frame */
    for (uint32_t i = 0; i < stack->natives; i++) {
        uintptr_t place = stack->native[i] - 1;
        bool somewhere = dladdr((void *)place, &at);
        if (somewhere && at.dli_fbase == self.dli_fbase) {
            if (in_mpi) return lies_in(place, asks_start, asks_end);
            return !lies_in(place, given_start, given_end) || in_record(address);
        }
        if (somewhere && of_mpi(at.dli_fname)) {
            in_mpi = true;
            continue;
        }
        if (somewhere ? !of_libc(at.dli_fname) || allocates(at.dli_sname) : i) return false;
    }
    return false;
}

/* Records a signal with the stacks of the threads. */
static void look(int number, const siginfo_t *info, const void *context) {
    static struct weft_stack stack; /* large: handlers of one thread at a time come here */
    bool fault = among(number, faults, FAULTS);
    struct weft_told told = {.kind = fault             ? WEFT_ENDING_SIGNAL
                                     : number == ASKED ? WEFT_ENDING_WHERE
                                                       : WEFT_ENDING_WARNED,
                             .code = number == ASKED ? 0 : number,
                             .name = name_of(number),
                             .stack = &stack};
    if (fault) {
        told.detail = info->si_code;
        if (info->si_code > 0) told.address = (uint64_t)(uintptr_t)info->si_addr;
        if (number == SIGABRT) told.text = why_aborted();
    } else if (number != ASKED && info->si_code <= 0) told.detail = info->si_pid;
    char name[32] = "";
    if ((pid_t)syscall(SYS_gettid) != weft_pid) name_of_thread((pid_t)syscall(SYS_gettid), name, sizeof name);
    told.who = name;
    weft_read_own_stack(&stack, context);
    if (fault && is_own_fault(number, info, context, &stack))
        told.traceback = weft_work ? weft_works[weft_work] : "calls";
    if (fault || stack.slot || stack.pythons || stack.tid == weft_pid)
        weft_record_ending(&told); /* else a library's thread */
    if (!fault || deadly(number)) tell_others(told);
}

/* Records a signal, one at a time; a fault in the recorder meanwhile ends that. */
static void look_around(int number, const siginfo_t *info, const void *context) {
    static volatile int looking;
    for (int i = 0; __atomic_exchange_n(&looking, 1, __ATOMIC_ACQ_REL); i++) {
        if (i == 500) return;
        if (asked_of == (pid_t)syscall(SYS_gettid)) show_oneself(context);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    sigjmp_buf back;
    int careful = weft_careful;
    weft_careful = 1;
    way_back = &back;
    if (!sigsetjmp(back, 1)) look(number, info, context);
    way_back = NULL;
    weft_careful = careful;
    __atomic_store_n(&looking, 0, __ATOMIC_RELEASE);
}

static volatile int fault_told;
static volatile uintptr_t behind_handlers; /* where handlers return to */

/* Records that the program goes on after a crash, as its own handler has jumped out. */
void weft_record_survived_crash(const struct weft_stack *stack) {
    if (!fault_told) return;
    for (uint32_t i = 0; i < stack->natives; i++)
        if (stack->native[i] == behind_handlers) return;
    weft_record_ending(
        &(struct weft_told){.kind = WEFT_ENDING_RETURNED, .code = fault_told, .name = name_of(fault_told)});
    fault_told = 0;
}

/* Puts the program's own handler in place, and sends it the signal once more. */
static WEFT_GIVEN void hand_over(int number, siginfo_t *info, void *context) {
    const struct sigaction *program = &table[number].program;
    pid_t self = (pid_t)syscall(SYS_gettid);
    table[number].done = true;
    real_sigaction(number, program, NULL);
    if (among(number, faults, FAULTS) && info->si_code > 0) return; /* the instruction fails again */
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_BLOCK, &one, NULL); /* until the handler is over */
    if (!syscall(SYS_rt_tgsigqueueinfo, getpid(), self, number, info)) return;
    /* The kernel lets only the first thread send on what another process sent. */
    if (program->sa_flags & SA_SIGINFO) program->sa_sigaction(number, info, context);
    else if (program->sa_handler != SIG_DFL && program->sa_handler != SIG_IGN) program->sa_handler(number);
    else syscall(SYS_tgkill, getpid(), self, number);
}

/* Handles the signal by which Weft asks for stacks; one of another sender goes to the program's own handler. */
static WEFT_GIVEN void asked(siginfo_t *info, void *context) {
    static volatile int times;
    const struct sigaction *program = &table[ASKED].program;
    if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == &shown) show_oneself(context);
    else if (!plain(program, SIG_DFL)) {
        if (program->sa_flags & SA_SIGINFO) program->sa_sigaction(ASKED, info, context);
        else if (program->sa_handler != SIG_IGN) program->sa_handler(ASKED);
    } else if (weft_can_record_ending() && __atomic_fetch_add(&times, 1, __ATOMIC_RELAXED) < 3)
        look_around(ASKED, info, context);
}

/* Signals to a process come to its main thread, as a rule; while that one answers us, the kernel takes another, where
 * Python would not notice. So they are sent on to the main thread, with what they carried kept for it. */
static siginfo_t carried[65];
static volatile int sent_on[65];

/* Returns whether the main thread blocks a signal. */
static bool blocked_by_main(int number) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, "SigBlk:");
    return !line || strtoull(line + 7, NULL, 16) >> (number - 1) & 1;
}

/* Sends a signal that reached another thread to the main thread; returns whether it did. */
static bool for_the_main_thread(int number, const siginfo_t *info) {
    if ((pid_t)syscall(SYS_gettid) == weft_pid || getpid() != weft_pid || !among(number, warnings, WARNINGS) ||
        info->si_code == SI_TKILL || blocked_by_main(number))
        return false;
    carried[number] = *info;
    sent_on[number] = 1;
    return !syscall(SYS_tgkill, weft_pid, weft_pid, number);
}

/* Handles a signal: records it, and then does what it would do without the recorder. */
static void came(int number, siginfo_t *info, void *context) {
    if (way_back && among(number, faults, FAULTS)) siglongjmp(*way_back, 1);
    if (for_the_main_thread(number, info)) return;
    if (sent_on[number] && info->si_code == SI_TKILL && info->si_pid == weft_pid) {
        sent_on[number] = 0;
        info = &carried[number];
    }
    int error = errno, depth = weft_depth;
    weft_depth = 1;
    if (number == ASKED) asked(info, context);
    else {
        if (among(number, faults, FAULTS)) {
            fault_told = number;
            behind_handlers = (uintptr_t)__builtin_return_address(0);
        }
        if (weft_can_record_ending() && !weft_ended_by_mpi) look_around(number, info, context);
        /* All ranks of a job are warned together, and its launcher kills the rest when the first has ended. */
        if (weft_can_record_ending() && among(number, warnings, WARNINGS) && plain(&table[number].program, SIG_DFL))
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        hand_over(number, info, context);
    }
    weft_depth = depth;
    errno = error;
}

/* ---- what the program sets and reads back ---- */
static bool ours(int number) { return armed && number > 0 && number < 65 && table[number].ours && !table[number].done; }

/* Sets and returns the program's own disposition of a signal that ours stands before. */
static WEFT_GIVEN int exchange(int number, const struct sigaction *action, struct sigaction *before) {
    sigset_t all, mask;
    struct sigaction wanted = action ? *action : (struct sigaction){0}; /* read while signals can come */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    while (__atomic_exchange_n(&turn, 1, __ATOMIC_ACQUIRE)) {
    }
    struct sigaction was = table[number].program;
    if (action) {
        table[number].program = wanted;
        install(number);
    }
    __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (before) *before = was;
    return 0;
}

/* Stands before the C library's sigaction: the program sets and reads its own handlers, ours stay in front. */
WEFT_GIVEN __attribute__((visibility("default"))) int sigaction(int number, const struct sigaction *restrict action,
                                                                struct sigaction *restrict before) {
    find_real();
    return ours(number) ? exchange(number, action, before) : real_sigaction(number, action, before);
}

/* Sets a handler as signal() and its relatives do, behind ours. */
static WEFT_GIVEN sighandler_t set_simply(const char *name, int number, sighandler_t handler, int flags, bool masked) {
    sighandler_t (*real)(int, sighandler_t) = (__typeof__(real))dlsym(RTLD_NEXT, name);
    if (!ours(number) || handler == SIG_ERR) return real(number, handler);
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, before;
    sigemptyset(&action.sa_mask);
    if (masked) sigaddset(&action.sa_mask, number);
    exchange(number, &action, &before);
    return before.sa_handler;
}

__attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler) {
    return set_simply("signal", number, handler, SA_RESTART, true);
}
__attribute__((visibility("default"))) sighandler_t __sysv_signal(int number, sighandler_t handler);
sighandler_t __sysv_signal(int number, sighandler_t handler) {
    return set_simply("__sysv_signal", number, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

/* ---- birth ---- */
/* A stack of our own for handlers of this thread, where it has none. */
void weft_give_thread_signal_stack(void) {
    stack_t there;
    if (sigaltstack(NULL, &there) || !(there.ss_flags & SS_DISABLE)) return;
    void *space =
        mmap(NULL, OWN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return;
    own_stack = space;
    if (sigaltstack(&(stack_t){.ss_sp = space, .ss_size = OWN_STACK}, NULL)) weft_free_thread_signal_stack();
}

/* Gives back the stack for handlers of a thread that ends. */
void weft_free_thread_signal_stack(void) {
    stack_t there;
    if (!own_stack) return;
    if (!sigaltstack(NULL, &there) && there.ss_sp == own_stack) sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(own_stack, OWN_STACK);
    own_stack = NULL;
}

/* Puts our handler before the program's for one signal. */
static void take(int number) {
    if (real_sigaction(number, NULL, &table[number].program)) return;
    table[number].ours = true;
    install(number);
}

/* Begins to handle the signals that end a process, or warn it. */
void weft_begin_signal_handling(void) {
    if (armed) return;
    find_real();
    abort_message = (__typeof__(abort_message))dlvsym(RTLD_DEFAULT, "__abort_msg", "GLIBC_PRIVATE");
    current_exception_type = (__typeof__(current_exception_type))dlsym(RTLD_DEFAULT, "__cxa_current_exception_type");
    demangle = (__typeof__(demangle))dlsym(RTLD_DEFAULT, "__cxa_demangle");
    weft_give_thread_signal_stack();
    for (int i = 0; i < FAULTS; i++) take(faults[i]);
    for (int i = 0; i < WARNINGS; i++) take(warnings[i]);
    take(ASKED);
    armed = true;
}

/* A child has the program's dispositions and nothing else. */
void weft_restore_signals_in_child(void) {
    if (!armed) return;
    armed = false;
    for (int number = 1; number < 65; number++)
        if (table[number].ours && !table[number].done) real_sigaction(number, &table[number].program, NULL);
}
